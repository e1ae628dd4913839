//! Reads the tools of a request, and which of them the model may call.

use std::borrow::Cow;

use super::member;
use crate::dialect::canonical::{CallKind, ConversionError, Tool, ToolChoice, WebSearch};
use crate::dialect::json_schema::{NAMED_SCHEMAS, VALUES, unfolded};
use crate::dialect::literal::{Json, Text};
use crate::dialect::tree::Node;
use crate::dialect::writer::Writer;

/// # Errors
/// A schema that is too large to be converted.
pub(super) fn tools<'a>(body: &Node<'a>) -> Result<Vec<Tool<'a>>, ConversionError> {
    let mut tools = Vec::new();
    for tool in body.items_at("tools") {
        for declared in member::items(tool, "functionDeclarations") {
            tools.extend(function(declared)?);
        }
        if member::get(tool, "googleSearch").or(member::get(tool, "googleSearchRetrieval")).is_some() {
            tools.push(Tool::WebSearch(WebSearch::default()));
        }
        for hosted in ["codeExecution", "urlContext", "computerUse", "fileSearch", "googleMaps"] {
            if member::get(tool, hosted).is_some() {
                tools.push(Tool::Hosted(Text::plain(hosted)));
            }
        }
    }
    Ok(tools)
}

fn function<'a>(function: &Node<'a>) -> Result<Option<Tool<'a>>, ConversionError> {
    let Some(name) = function.text_at("name").filter(|name| !name.is_blank()) else { return Ok(None) };
    let parameters = match member::get(function, "parametersJsonSchema") {
        Some(schema) => Some(schema.json()),
        None => function.get("parameters").map(|schema| json_schema(schema, "tools")).transpose()?,
    };
    let description = function.text_at("description");
    Ok(Some(Tool::Function { name, description, parameters, strict: None }))
}

/// Converts Google's own schema to JSON schema: types in lower case, null as one of the types, names in camel case,
/// and numbers as numbers. `field` is the client's member that contains the schema.
pub(super) fn json_schema(schema: &Node<'_>, field: &str) -> Result<Json<'static>, ConversionError> {
    let mut json = Writer::with_capacity(schema.raw().len());
    put_schema(&mut json, &unfolded(schema.raw(), field)?);
    Ok(Json::checked(json.as_str()).into_owned())
}

fn put_schema(json: &mut Writer, schema: &Node<'_>) {
    if schema.is_array() {
        return json.list(|list| schema.items().iter().for_each(|item| put_schema(list, item)));
    }
    if !schema.is_object() {
        return json.item(schema.json());
    }
    let nullable = schema.bool_at("nullable") == Some(true);
    json.object(|o| {
        for (key, value) in schema.members() {
            match json_key(key) {
                "nullable" | "propertyOrdering" => {}
                "type" => put_type(o, value, nullable),
                "enum" if nullable => o.field("enum", with_null(value)),
                "anyOf" if nullable => o.array("anyOf", |list| {
                    value.items().iter().for_each(|item| put_schema(list, item));
                    list.object(|o| o.field("type", "null"));
                }),
                key if NAMED_SCHEMAS.contains(&key) => o.object_at(key, |named| {
                    for (name, schema) in value.members() {
                        named.value_at(name, |json| put_schema(json, schema));
                    }
                }),
                key if VALUES.contains(&key) => o.field(key, value.json()),
                // The API writes large numbers as strings.
                key if COUNTS.contains(&key) => match value.str().and_then(|count| count.parse::<u64>().ok())
                {
                    Some(count) => o.field(key, count),
                    None => o.field(key, value.json()),
                },
                key => o.value_at(key, |json| put_schema(json, value)),
            }
        }
    });
}

/// Returns a list with null as its last element. The list may be long, so that it is not taken apart.
fn with_null(list: &Node<'_>) -> Json<'static> {
    let inside = list.raw().strip_prefix('[').and_then(|list| list.strip_suffix(']'));
    match inside.unwrap_or_default().trim_ascii() {
        "" => Json::checked("[null]"),
        elements => Json::checked(&format!("[{elements},null]")).into_owned(),
    }
}

fn put_type(o: &mut Writer, kind: &Node<'_>, nullable: bool) {
    let Some(kind) = enum_name(kind, &TYPES) else { return o.field("type", kind.json()) };
    let kind = if TYPES.contains(&&*kind) { kind.to_ascii_lowercase() } else { kind.into_owned() };
    if nullable && kind != "null" {
        o.array("type", |list| [kind.as_str(), "null"].iter().for_each(|kind| list.item(*kind)))
    } else {
        o.field("type", kind)
    }
}

/// Returns the JSON schema spelling of a name in Google's schema.
fn json_key(key: &str) -> &str {
    const SPELLINGS: [(&str, &str); 8] = [
        ("any_of", "anyOf"),
        ("property_ordering", "propertyOrdering"),
        ("min_items", "minItems"),
        ("max_items", "maxItems"),
        ("min_length", "minLength"),
        ("max_length", "maxLength"),
        ("min_properties", "minProperties"),
        ("max_properties", "maxProperties"),
    ];
    SPELLINGS.iter().find(|(snake, _)| *snake == key).map_or(key, |(_, camel)| *camel)
}

const COUNTS: [&str; 6] =
    ["minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties"];
/// `Type` of `generativelanguage.googleapis.com`, in the order of its numbers from 1.
const TYPES: [&str; 7] = ["STRING", "NUMBER", "INTEGER", "BOOLEAN", "ARRAY", "OBJECT", "NULL"];

/// `FunctionCallingConfig.Mode`, in the order of its numbers from 1.
const MODES: [&str; 4] = ["AUTO", "ANY", "NONE", "VALIDATED"];

/// Reads a value of an enumeration, which the JSON of protocol buffers writes as its name or its number
/// (protobuf.dev, "ProtoJSON Format").
fn enum_name<'n>(value: &'n Node<'_>, names: &[&'static str]) -> Option<Cow<'n, str>> {
    let numbered = || {
        let number = usize::try_from(value.u64()?).ok()?;
        names.get(number.checked_sub(1)?).copied().map(Cow::Borrowed)
    };
    value.str().or_else(numbered)
}

pub(super) fn choice<'a>(body: &Node<'a>) -> Option<ToolChoice<'a>> {
    let config = member::path(body, &["toolConfig", "functionCallingConfig"])?;
    let names: Vec<_> = member::items(config, "allowedFunctionNames").iter().filter_map(Node::text).collect();
    let mode = config.get("mode").and_then(|mode| enum_name(mode, &MODES)).unwrap_or_default();
    let mode = mode.to_ascii_uppercase();
    let required = mode == "ANY";
    let kind = CallKind::Function;
    match (&*mode, &names[..]) {
        ("NONE", _) => Some(ToolChoice::None),
        ("ANY", []) => Some(ToolChoice::Required),
        ("ANY", [name]) => Some(ToolChoice::Named { name: name.clone(), kind }),
        ("AUTO" | "VALIDATED" | "MODE_UNSPECIFIED" | "", []) => Some(ToolChoice::Auto),
        ("ANY" | "VALIDATED", _) => Some(ToolChoice::Allowed {
            names: names.into_iter().map(|name| (name, kind)).collect(),
            required,
        }),
        _ => Some(ToolChoice::Auto),
    }
}
