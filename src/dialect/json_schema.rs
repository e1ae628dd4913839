//! Keywords and kinds of JSON schemas, for the modules that walk through them.

use super::literal::Json;
use super::tree::Node;
use super::writer::Writer;

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

/// Parses a schema that has members. `None` for `{}` and for everything that is no object.
pub(super) fn with_members<'a>(schema: &'a Json<'_>) -> Option<Node<'a>> {
    Node::parse(schema.as_str()).ok().filter(|schema| !schema.members().is_empty())
}

/// Writes the schema of a function's parameters as member `key`, as one of type `object`: the APIs of OpenAI and
/// Anthropic refuse a schema of another type, or of none.
pub(super) fn put_object_schema(o: &mut Writer, key: &str, schema: &Node<'_>) {
    if schema.str_at("type") == "object" {
        return o.field(key, schema.json());
    }
    o.object_at(key, |o| {
        o.field("type", "object");
        let others = schema.members().iter().filter(|(key, _)| key != "type");
        others.for_each(|(key, value)| o.field(key, value.json()));
    });
}

/// Writes `parameters` for an API that has the member in the form of [`put_object_schema`]. A schema without members
/// stays as it is.
pub(super) fn put_parameters(o: &mut Writer, parameters: &Json<'_>) {
    match with_members(parameters) {
        None => o.field("parameters", parameters),
        Some(schema) => put_object_schema(o, "parameters", &schema),
    }
}
