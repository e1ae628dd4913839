//! Reads the tools of a request, and which of them the model may call.

use std::borrow::Cow;

use super::member;
use crate::dialect::canonical::{CallKind, Tool, ToolChoice, WebSearch};
use crate::dialect::json_schema::{NAMED_SCHEMAS, VALUES};
use crate::dialect::literal::{Json, Text};
use crate::dialect::tree::Node;
use crate::dialect::writer::Writer;

pub(super) fn tools<'a>(body: &Node<'a>) -> Vec<Tool<'a>> {
    let mut tools = Vec::new();
    for tool in body.items_at("tools") {
        tools.extend(member::items(tool, "functionDeclarations").iter().filter_map(function));
        if member::get(tool, "googleSearch").or(member::get(tool, "googleSearchRetrieval")).is_some() {
            tools.push(Tool::WebSearch(WebSearch::default()));
        }
        for hosted in ["codeExecution", "urlContext", "computerUse", "fileSearch", "googleMaps"] {
            if member::get(tool, hosted).is_some() {
                tools.push(Tool::Hosted(Text::plain(hosted)));
            }
        }
    }
    tools
}

fn function<'a>(function: &Node<'a>) -> Option<Tool<'a>> {
    let schema = member::get(function, "parametersJsonSchema").map(Node::json);
    Some(Tool::Function {
        name: function.text_at("name").filter(|name| !name.is_blank())?,
        description: function.text_at("description"),
        parameters: schema.or_else(|| function.get("parameters").map(json_schema)),
        strict: None,
    })
}

/// Converts Google's own schema to JSON schema: types in lower case, null as one of the types, names in camel case,
/// and numbers as numbers.
pub(super) fn json_schema(schema: &Node<'_>) -> Json<'static> {
    let mut json = Writer::with_capacity(schema.raw().len());
    put_schema(&mut json, &schema.unfolded(&VALUES));
    Json::checked(json.as_str()).into_owned()
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
                "enum" if nullable => o.array("enum", |list| {
                    value.items().iter().for_each(|item| list.item(item.json()));
                    list.item(());
                }),
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
