//! Reads and writes the tools of a request, and which of them the model may or must call.

use crate::dialect::canonical::{CallKind, ConversionError, CustomFormat, Tool, ToolChoice, WebSearch};
use crate::dialect::json_schema;
use crate::dialect::literal::{Json, Text};
use crate::dialect::tree::Node;
use crate::dialect::writer::Writer;

/// Reads `tools`. Functions without a name are left out.
pub(super) fn read<'a>(body: &Node<'a>) -> Result<Vec<Tool<'a>>, ConversionError> {
    let Some(tools) = body.get("tools") else { return Ok(Vec::new()) };
    if !tools.is_array() {
        return Err(ConversionError::invalid("tools", "must be a list"));
    }
    let mut read = Vec::with_capacity(tools.items().len());
    for (index, tool) in tools.items().iter().enumerate() {
        if !tool.is_object() {
            return Err(ConversionError::invalid(format!("tools[{index}]"), "must be an object"));
        }
        read.extend(read_tool(tool));
    }
    Ok(read)
}

fn read_tool<'a>(tool: &Node<'a>) -> Option<Tool<'a>> {
    let kind = tool.str_at("type");
    match kind.as_ref() {
        "function" | "" => {
            let function = inner(tool, "function");
            Some(Tool::Function {
                name: name(function)?,
                description: function.text_at("description"),
                parameters: function.get("parameters").filter(|schema| schema.is_object()).map(Node::json),
                strict: function.bool_at("strict"),
            })
        }
        "custom" => {
            let custom = inner(tool, "custom");
            let format = custom.get("format").map(|format| inner(format, "grammar"));
            Some(Tool::Custom {
                name: name(custom)?,
                description: custom.text_at("description"),
                format: format.map(|grammar| CustomFormat {
                    syntax: grammar.text_at("syntax"),
                    definition: grammar.text_at("definition"),
                }),
            })
        }
        kind if kind.starts_with("web_search") => Some(Tool::WebSearch(WebSearch {
            context_size: tool.text_at("search_context_size"),
            user_location: tool.get("user_location").filter(|place| place.is_object()).map(Node::json),
            max_uses: None,
            allowed_domains: domains(tool),
        })),
        _ => Some(Tool::Hosted(tool.text_at("type")?)),
    }
}

/// Reads the list of hosts to which a search is limited.
fn domains<'a>(tool: &Node<'a>) -> Option<Json<'a>> {
    let domains = tool.path(&["filters", "allowed_domains"])?;
    (!domains.items().is_empty()).then(|| domains.json())
}

/// Returns the definition itself, which chat wraps in a member named after its type.
fn inner<'n, 'a>(tool: &'n Node<'a>, key: &str) -> &'n Node<'a> {
    tool.get(key).filter(|inner| inner.is_object()).unwrap_or(tool)
}

fn name<'a>(tool: &Node<'a>) -> Option<Text<'a>> {
    tool.text_at("name").filter(|name| !name.is_blank())
}

/// Reads `tool_choice`; what cannot be understood leaves the choice to the model.
pub(super) fn read_choice<'a>(body: &Node<'a>) -> Option<ToolChoice<'a>> {
    let choice = body.get("tool_choice")?;
    let word = choice.str().unwrap_or_else(|| choice.str_at("type"));
    let of_word = match word.as_ref() {
        "auto" => Some(ToolChoice::Auto),
        "none" => Some(ToolChoice::None),
        "required" | "any" => Some(ToolChoice::Required),
        _ => None,
    };
    if of_word.is_some() || !choice.is_object() {
        return of_word;
    }
    if word == "allowed_tools" {
        let allowed = inner(choice, "allowed_tools");
        let names = allowed.items_at("tools").iter().filter_map(named).collect();
        return Some(ToolChoice::Allowed { names, required: allowed.str_at("mode") == "required" });
    }
    match named(choice) {
        Some((name, kind)) => Some(ToolChoice::Named { name, kind }),
        None => {
            choice.text_at("type").filter(|_| word != "function" && word != "custom").map(ToolChoice::Hosted)
        }
    }
}

fn named<'a>(tool: &Node<'a>) -> Option<(Text<'a>, CallKind)> {
    let (kind, key) = match tool.str_at("type").as_ref() {
        "function" => (CallKind::Function, "function"),
        "custom" => (CallKind::Custom, "custom"),
        _ => return None,
    };
    Some((name(inner(tool, key))?, kind))
}

/// Writes `tools`, when there are any.
pub(super) fn put(o: &mut Writer, tools: &[Tool<'_>]) -> Result<(), ConversionError> {
    if let Some(refusal) = tools.iter().find_map(Tool::refusal) {
        return Err(refusal);
    }
    if !tools.is_empty() {
        o.array("tools", |a| tools.iter().for_each(|tool| a.object(|o| put_tool(o, tool))));
    }
    Ok(())
}

fn put_tool(o: &mut Writer, tool: &Tool<'_>) {
    match tool {
        Tool::Function { name, description, parameters, strict } => {
            o.field("type", "function");
            o.field("name", name);
            o.field_if("description", description.as_ref());
            // The API requires this member; it is null for a function without parameters.
            match parameters {
                None => o.field("parameters", None::<&Json<'_>>),
                Some(parameters) => json_schema::put_parameters(o, parameters),
            }
            // False is the default of the other dialects; this one is strict when nothing is said.
            o.field("strict", strict.unwrap_or(false));
        }
        Tool::Custom { name, description, format } => {
            o.field("type", "custom");
            o.field("name", name);
            o.field_if("description", description.as_ref());
            if let Some(format) = format {
                o.object_at("format", |o| put_format(o, format));
            }
        }
        Tool::WebSearch(search) => {
            o.field("type", "web_search");
            o.field_if("search_context_size", search.context_size.as_ref());
            o.field_if("user_location", search.user_location.as_ref());
            if let Some(domains) = &search.allowed_domains {
                o.object_at("filters", |o| o.field("allowed_domains", domains));
            }
        }
        Tool::Hosted(_) => {}
    }
}

fn put_format(o: &mut Writer, CustomFormat { syntax, definition }: &CustomFormat<'_>) {
    if definition.is_none() {
        return o.field("type", "text");
    }
    o.field("type", "grammar");
    o.field_if("syntax", syntax.as_ref());
    o.field_if("definition", definition.as_ref());
}

/// Writes `tool_choice`.
pub(super) fn put_choice(o: &mut Writer, choice: &ToolChoice<'_>) {
    match choice {
        ToolChoice::Auto => o.field("tool_choice", "auto"),
        ToolChoice::None => o.field("tool_choice", "none"),
        ToolChoice::Required => o.field("tool_choice", "required"),
        ToolChoice::Named { name, kind } => o.object_at("tool_choice", |o| put_named(o, name, *kind)),
        ToolChoice::Allowed { names, required } => o.object_at("tool_choice", |o| {
            o.field("type", "allowed_tools");
            o.field("mode", if *required { "required" } else { "auto" });
            o.array("tools", |a| {
                names.iter().for_each(|(name, kind)| a.object(|o| put_named(o, name, *kind)));
            });
        }),
        ToolChoice::Hosted(kind) if kind.decode().starts_with("web_search") => {
            o.object_at("tool_choice", |o| o.field("type", "web_search"));
        }
        ToolChoice::Hosted(_) => {}
    }
}

fn put_named(o: &mut Writer, name: &Text<'_>, kind: CallKind) {
    o.field("type", if kind == CallKind::Custom { "custom" } else { "function" });
    o.field("name", name);
}
