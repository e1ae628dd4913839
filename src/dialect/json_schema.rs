//! What whoever walks through a JSON schema has to know of it.

use super::tree::Node;

/// What these say of a schema are values, which only look like schemas where they are objects.
pub(super) const VALUES: [&str; 4] = ["const", "default", "enum", "examples"];
/// The members of these are schemas under names of the client's, which may be any.
pub(super) const NAMED_SCHEMAS: [&str; 5] =
    ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas"];

/// Whether a schema is one of things of that kind, be it among others.
pub(super) fn is_kind(schema: &Node<'_>, kind: &str) -> bool {
    schema.str_at("type") == kind
        || schema.items_at("type").iter().any(|item| item.text().is_some_and(|item| item.is(kind)))
}
