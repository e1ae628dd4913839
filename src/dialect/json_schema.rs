//! Keywords and kinds of JSON schemas, for the modules that walk through them.

use super::canonical::ConversionError;
use super::json::{Scan, Stopped};
use super::literal::Json;
use super::tree::Node;
use super::writer::Writer;

/// Keywords whose contents are values, even where these look like schemas.
pub(super) static VALUES: [&str; 4] = ["const", "default", "enum", "examples"];
/// Keywords whose members are schemas, under names that the client chose.
pub(super) const NAMED_SCHEMAS: [&str; 5] =
    ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas"];

/// The largest number of members and elements of a schema that is taken apart: each takes a hundred bytes of memory,
/// however short it is in the text.
const MAX_ELEMENTS: usize = 100_000;
/// The shortest element, in bytes, with its comma.
const SHORTEST: usize = 2;

/// Parses a schema, with all its levels taken apart except [`VALUES`]. `field` is the client's name for the member that
/// contains the schema.
///
/// # Errors
/// A schema with more than [`MAX_ELEMENTS`], which are counted before any memory is taken for them.
pub(super) fn unfolded<'a>(schema: &'a str, field: &str) -> Result<Node<'a>, ConversionError> {
    if is_too_large(schema) {
        let problem = format!("must have no schema of more than {MAX_ELEMENTS} members and elements");
        return Err(ConversionError::invalid(field, &problem));
    }
    let schema = Node::parse(schema).map_err(|_| ConversionError::invalid(field, "is not valid JSON"))?;
    Ok(schema.unfolded(&VALUES))
}

fn is_too_large(schema: &str) -> bool {
    if schema.len() / SHORTEST <= MAX_ELEMENTS {
        return false;
    }
    let mut scan = Scan::new(schema);
    scan.blanks();
    let mut elements = 0;
    count(&mut scan, 0, &mut elements).is_ok() && elements > MAX_ELEMENTS
}

/// Counts the members and elements of the value that comes next, `level` containers deep, except those in [`VALUES`].
fn count(scan: &mut Scan<'_>, level: usize, elements: &mut usize) -> Result<(), Stopped> {
    match scan.peek() {
        Some(b'{') => scan.object(level + 1, |scan, key, level| {
            *elements += 1;
            if VALUES.contains(&&*key.name()) { scan.value(level) } else { count(scan, level, elements) }
        }),
        Some(b'[') => scan.array(level + 1, |scan, level| {
            *elements += 1;
            count(scan, level, elements)
        }),
        _ => scan.value(level),
    }
}

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
/// stays as it is, and so does one that is too large.
pub(super) fn put_parameters(o: &mut Writer, parameters: &Json<'_>) {
    match Some(parameters).filter(|schema| !is_too_large(schema.as_str())).and_then(with_members) {
        None => o.field("parameters", parameters),
        Some(schema) => put_object_schema(o, "parameters", &schema),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_is_taken_apart_up_to_a_number_of_elements() {
        let list = |elements: usize| format!("[{}0]", "0,".repeat(elements - 1));
        let refusal = "tools must have no schema of more than 100000 members and elements";
        let refusal =
            Err(ConversionError::Invalid { field: "tools".to_owned(), message: refusal.to_owned() });
        for (schema, is_taken) in [
            (format!(r#"{{"required":{}}}"#, list(MAX_ELEMENTS - 1)), true),
            (format!(r#"{{"required":{}}}"#, list(MAX_ELEMENTS)), false),
            (format!(r#"{{"properties":{{"a":{{"anyOf":{}}}}}}}"#, list(MAX_ELEMENTS)), false),
            (format!(r#"{{"enum":{},"properties":{{}}}}"#, list(MAX_ELEMENTS)), true),
        ] {
            let unfolded = unfolded(&schema, "tools").map(|_| ());
            assert_eq!(unfolded, if is_taken { Ok(()) } else { refusal.clone() }, "{}", &schema[..20]);
        }
    }
}
