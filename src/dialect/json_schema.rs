//! Keywords and kinds of JSON schemas, for the modules that walk through them.

use super::tree::Node;

/// Keywords whose contents are values, even where these look like schemas.
pub(super) static VALUES: [&str; 4] = ["const", "default", "enum", "examples"];
/// Keywords whose members are schemas, under names that the client chose.
pub(super) const NAMED_SCHEMAS: [&str; 5] =
    ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas"];

/// Whether a schema is for values of this kind, or for several kinds that include it.
pub(super) fn is_kind(schema: &Node<'_>, kind: &str) -> bool {
    schema.str_at("type") == kind
        || schema.items_at("type").iter().any(|item| item.text().is_some_and(|item| item.is(kind)))
}
