//! Fits the schemas of a request to its target: those of tools' arguments, and that of the answer.
//!
//! | the target | refuses | and gets |
//! |---|---|---|
//! | chat, responses | an object without `properties`, a list without `items` | empty ones |
//! | chat, responses, messages | `anyOf` and the like at the top of arguments | all branches' members, none required |
//! | chat, responses | a strict function whose schema leaves anything open | the function, not strict |
//! | chat, responses | an answer that is not an object | the schema in words |
//!
//! The rules are those of "Structured outputs" and "Function calling" at OpenAI, and of "Tool use" at Anthropic. A
//! schema that keeps them stays as it is, to the letter.

use std::collections::HashSet;

use crate::dialect::Dialect;
use crate::dialect::canonical::{ConversionError, Format, Request, Tool};
use crate::dialect::json_schema::{NAMED_SCHEMAS, VALUES, is_kind, unfolded};
use crate::dialect::literal::Json;
use crate::dialect::tree::Node;
use crate::dialect::writer::Writer;

/// Keywords with branches, which are refused at the top of the schema of a tool's arguments.
const BRANCHES: [&str; 3] = ["allOf", "anyOf", "oneOf"];
const NOT_OUTERMOST: [&str; 5] = ["allOf", "anyOf", "oneOf", "enum", "not"];

/// Fits the schemas of a request that was read from one dialect to another.
///
/// # Errors
/// A schema that is too large to be taken apart.
pub(super) fn fit(request: &mut Request<'_>, from: Dialect, to: Dialect) -> Result<(), ConversionError> {
    let to_openai = matches!(to, Dialect::Chat | Dialect::Responses);
    // Clients of OpenAI's API keep its rules already.
    let by_other_rules = to_openai && matches!(from, Dialect::Messages | Dialect::Gemini);
    if by_other_rules || to == Dialect::Messages {
        for tool in &mut request.tools {
            let Tool::Function { parameters: Some(parameters), strict, .. } = tool else { continue };
            let schema = unfolded(parameters.as_str(), "tools")?;
            if by_other_rules && *strict == Some(true) && !is_strict(&schema) {
                *strict = None;
            }
            if let Some(fitted) = parameters_for(&schema, by_other_rules) {
                *parameters = Json::checked(&fitted).into_owned();
            }
        }
    }
    if by_other_rules
        && let Some(Format::JsonSchema { schema: Some(schema), .. }) = &request.format
        && !is_kind(&unfolded(schema.as_str(), "response_format")?, "object")
    {
        request.system.push(Format::schema_in_words(schema));
        request.format = None;
    }
    Ok(())
}

/// Returns the fitted schema of a tool's arguments; `None` where it may stay as it is.
fn parameters_for(schema: &Node<'_>, to_openai: bool) -> Option<String> {
    if schema.members().is_empty() {
        return None;
    }
    let branches = BRANCHES.iter().any(|key| schema.get(key).is_some());
    let outermost = branches || to_openai && NOT_OUTERMOST.iter().any(|key| schema.get(key).is_some());
    let lacks_members = to_openai && (schema.get("type").is_none() || schema.get("properties").is_none());
    let mut changed = outermost || lacks_members;
    let mut json = Writer::with_capacity(schema.raw().len());
    json.object(|o| {
        for (key, value) in schema.members() {
            if key != "properties" && !(outermost && NOT_OUTERMOST.contains(&key.as_ref())) {
                put_member(o, key, value, to_openai, &mut changed);
            }
        }
        if schema.get("type").is_none() && (to_openai || outermost) {
            o.field("type", "object");
        }
        if schema.get("properties").is_some() || lacks_members || outermost {
            o.object_at("properties", |o| {
                let mut written: HashSet<&str> = HashSet::new();
                for (name, value) in properties_of(schema) {
                    if written.insert(name) {
                        o.value_at(name, |json| put(json, value, to_openai, &mut changed));
                    }
                }
            });
        }
    });
    changed.then(|| json.into_string())
}

/// Returns the members of an object, and those of its branches.
fn properties_of<'n, 'a>(schema: &'n Node<'a>) -> Vec<(&'n str, &'n Node<'a>)> {
    let branches = BRANCHES.iter().flat_map(|key| schema.items_at(key));
    let places = std::iter::once(schema).chain(branches);
    let named = places.filter_map(|place| place.get("properties")).flat_map(Node::members);
    named.map(|(name, value)| (name.as_ref(), value)).collect()
}

/// Writes a schema; if `with_items`, a list that lacks `items` gets empty ones.
fn put(json: &mut Writer, schema: &Node<'_>, with_items: bool, changed: &mut bool) {
    if schema.is_array() {
        return json.list(|list| schema.items().iter().for_each(|item| put(list, item, with_items, changed)));
    }
    if !schema.is_object() {
        return json.item(schema.json());
    }
    let lacks_items = with_items
        && is_kind(schema, "array")
        && schema.get("items").is_none()
        && schema.get("prefixItems").is_none();
    *changed |= lacks_items;
    json.object(|o| {
        schema.members().iter().for_each(|(key, value)| put_member(o, key, value, with_items, changed));
        if lacks_items {
            o.object_at("items", |_| {});
        }
    });
}

fn put_member(o: &mut Writer, key: &str, value: &Node<'_>, with_items: bool, changed: &mut bool) {
    if VALUES.contains(&key) {
        o.field(key, value.json());
    } else if NAMED_SCHEMAS.contains(&key) && value.is_object() {
        o.object_at(key, |named| {
            for (name, schema) in value.members() {
                named.value_at(name, |json| put(json, schema, with_items, changed));
            }
        });
    } else {
        o.value_at(key, |json| put(json, value, with_items, changed));
    }
}

/// Whether all objects of a schema are closed and require all their members.
fn is_strict(schema: &Node<'_>) -> bool {
    if schema.is_array() {
        return schema.items().iter().all(is_strict);
    }
    if !schema.is_object() {
        return true;
    }
    let properties = schema.get("properties").map(Node::members).unwrap_or_default();
    let required: HashSet<_> = schema.items_at("required").iter().filter_map(Node::str).collect();
    let is_closed = !is_kind(schema, "object")
        || schema.bool_at("additionalProperties") == Some(false)
            && properties.iter().all(|(name, _)| required.contains(name));
    is_closed
        && schema.members().iter().all(|(key, value)| match key.as_ref() {
            key if VALUES.contains(&key) => true,
            key if NAMED_SCHEMAS.contains(&key) => {
                value.members().iter().all(|(_, schema)| is_strict(schema))
            }
            _ => is_strict(value),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fitted(schema: &str, to_openai: bool) -> Option<String> {
        parameters_for(&Node::parse(schema).unwrap(), to_openai)
    }

    #[test]
    fn a_schema_within_the_rules_stays() {
        for schema in [
            "{}",
            r#"{"type":"object","properties":{}}"#,
            r#"{"type":"object","properties":{"anyOf":{"type":"string"},"type":{"type":"array","items":{}}},"required":["anyOf"]}"#,
            r#"{"type":"object","properties":{"a":{"anyOf":[{"type":"string"},{"type":"null"}],"enum":[{"type":"array"}]}}}"#,
        ] {
            assert_eq!((fitted(schema, true), fitted(schema, false)), (None, None), "{schema}");
        }
    }

    #[test]
    fn what_openai_misses_is_put_in() {
        for (schema, wanted) in [
            (r#"{"type":"object"}"#, r#"{"type":"object","properties":{}}"#),
            (r#"{"properties":{}}"#, r#"{"type":"object","properties":{}}"#),
            (
                r#"{"type":"object","properties":{"a":{"type":["array","null"]},"b":{"anyOf":[{"type":"array"}]}},"$defs":{"type":{"type":"array"}}}"#,
                r#"{"type":"object","$defs":{"type":{"type":"array","items":{}}},"properties":{"a":{"type":["array","null"],"items":{}},"b":{"anyOf":[{"type":"array","items":{}}]}}}"#,
            ),
        ] {
            assert_eq!(fitted(schema, true).as_deref(), Some(wanted), "{schema}");
        }
        assert_eq!(fitted(r#"{"type":"object"}"#, false), None);
    }

    #[test]
    fn branches_of_the_outermost_place_become_members() {
        let schema = r#"{"type":"object","anyOf":[{"properties":{"a":{"type":"string"}}},{"properties":{"a":{},"b":{}},"required":["b"]}],"properties":{"c":{}},"required":["c"]}"#;
        let wanted =
            r#"{"type":"object","required":["c"],"properties":{"c":{},"a":{"type":"string"},"b":{}}}"#;
        assert_eq!(fitted(schema, false).as_deref(), Some(wanted));
        assert_eq!(fitted(schema, true).as_deref(), Some(wanted));
    }

    #[test]
    fn strict_is_what_leaves_nothing_open() {
        for (schema, strict) in [
            (
                r#"{"type":"object","properties":{"a":{"type":"string"}},"required":["a"],"additionalProperties":false}"#,
                true,
            ),
            (
                r#"{"type":"object","properties":{"a":{"type":"string"}},"required":[],"additionalProperties":false}"#,
                false,
            ),
            (r#"{"type":"object","properties":{}}"#, false),
            (
                r#"{"type":"object","properties":{"a":{"type":"array","items":{"type":"object"}}},"required":["a"],"additionalProperties":false}"#,
                false,
            ),
        ] {
            assert_eq!(is_strict(&Node::parse(schema).unwrap()), strict, "{schema}");
        }
    }
}
