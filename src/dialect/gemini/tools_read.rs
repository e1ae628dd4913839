//! The tools of a request, and which of them the model may call.

use super::member;
use crate::dialect::canonical::{CallKind, Tool, ToolChoice, WebSearch};
use crate::dialect::literal::{Json, Text};
use crate::dialect::tree::Node;
use crate::dialect::writer::Put;

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

/// Google's own schemas write the names of types in capitals.
pub(super) fn json_schema(schema: &Node<'_>) -> Json<'static> {
    let mut json = String::with_capacity(schema.raw().len());
    put_lower(schema, &mut json);
    Json::checked(&json).into_owned()
}

fn put_lower(node: &Node<'_>, out: &mut String) {
    if node.is_object() {
        for (index, (key, value)) in node.members().iter().enumerate() {
            out.push(if index == 0 { '{' } else { ',' });
            key.put(out);
            out.push(':');
            match value.str().filter(|name| key == "type" && TYPES.contains(&&**name)) {
                Some(name) => name.to_ascii_lowercase().put(out),
                None => put_lower(value, out),
            }
        }
        out.push_str(if node.members().is_empty() { "{}" } else { "}" });
    } else if node.is_array() {
        for (index, item) in node.items().iter().enumerate() {
            out.push(if index == 0 { '[' } else { ',' });
            put_lower(item, out);
        }
        out.push_str(if node.items().is_empty() { "[]" } else { "]" });
    } else {
        out.push_str(node.raw());
    }
}

const TYPES: [&str; 7] = ["STRING", "NUMBER", "INTEGER", "BOOLEAN", "ARRAY", "OBJECT", "NULL"];

pub(super) fn choice<'a>(body: &Node<'a>) -> Option<ToolChoice<'a>> {
    let config = member::path(body, &["toolConfig", "functionCallingConfig"])?;
    let names: Vec<_> = member::items(config, "allowedFunctionNames").iter().filter_map(Node::text).collect();
    let mode = config.str_at("mode").to_ascii_uppercase();
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
