//! Writes the tools of a request, and which of them may be called, for an upstream.
//!
//! Among the tools that an upstream runs itself, this dialect has only the web search, on models that are made for
//! it. The others are left out, unless no tool would be left.

use std::collections::HashSet;

use crate::dialect::canonical::{CallKind, CustomFormat, Request, Target, Tool, ToolChoice};
use crate::dialect::canonical::{Vendor, WebSearch};
use crate::dialect::json_schema;
use crate::dialect::literal::Text;
use crate::dialect::tree::Node;
use crate::dialect::writer::Writer;

/// Writes every member that has to do with tools.
pub(super) fn write(o: &mut Writer, request: &Request<'_>, target: &Target<'_>) {
    let searches = target.vendor == Vendor::OpenAi && target.model.contains("search");
    if searches && let Some(search) = request.tools.iter().find_map(as_search) {
        o.object_at("web_search_options", |o| write_search(o, search));
    }
    let tools: Vec<_> = request.tools.iter().filter(|tool| name_of(tool).is_some()).collect();
    if tools.is_empty() {
        return;
    }
    o.array("tools", |a| tools.iter().for_each(|tool| a.object(|o| write_tool(o, tool))));
    if let Some(choice) = &request.tool_choice {
        write_choice(o, choice, &tools, target.vendor);
    }
    o.field_if("parallel_tool_calls", request.parallel);
}

/// Returns an instruction that names the tools that may be called, because only OpenAI has a choice of several.
/// `None` where all may be called, or where `tool_choice` says it.
pub(super) fn only_allowed(request: &Request<'_>, vendor: Vendor) -> Option<Text<'static>> {
    let choice = request.tool_choice.as_ref().filter(|_| vendor != Vendor::OpenAi)?;
    let allowed = choice.allowed()?;
    let offered = request.tools.iter().filter_map(name_of);
    let (left, others): (Vec<_>, Vec<_>) = offered.partition(|name| allowed.contains(name.literal()));
    let is_told = matches!(choice, ToolChoice::Allowed { required: true, .. }) && left.len() == 1;
    (!others.is_empty() && !left.is_empty() && !is_told).then(|| ToolChoice::none_but(left))
}

fn as_search<'r, 'a>(tool: &'r Tool<'a>) -> Option<&'r WebSearch<'a>> {
    match tool {
        Tool::WebSearch(search) => Some(search),
        _ => None,
    }
}

fn name_of<'r, 'a>(tool: &'r Tool<'a>) -> Option<&'r Text<'a>> {
    match tool {
        Tool::Function { name, .. } | Tool::Custom { name, .. } => Some(name),
        _ => None,
    }
}

fn write_tool(o: &mut Writer, tool: &Tool<'_>) {
    match tool {
        Tool::Function { name, description, parameters, strict } => {
            o.field("type", "function");
            o.object_at("function", |o| {
                o.field("name", name);
                o.field_if("description", description.as_ref());
                if let Some(parameters) = parameters {
                    json_schema::put_parameters(o, parameters);
                }
                o.field_if("strict", strict.filter(|strict| *strict));
            });
        }
        Tool::Custom { name, description, format } => {
            o.field("type", "custom");
            o.object_at("custom", |o| {
                o.field("name", name);
                o.field_if("description", description.as_ref());
                if let Some(format) = format {
                    o.object_at("format", |o| write_format(o, format));
                }
            });
        }
        Tool::WebSearch(_) | Tool::Hosted(_) => {}
    }
}

fn write_format(o: &mut Writer, format: &CustomFormat<'_>) {
    if format.definition.is_none() {
        return o.field("type", "text");
    }
    o.field("type", "grammar");
    o.object_at("grammar", |o| {
        o.field_if("syntax", format.syntax.as_ref());
        o.field_if("definition", format.definition.as_ref());
    });
}

/// Writes the search options. The canonical form has the location beside the type; here it is within `approximate`.
fn write_search(o: &mut Writer, search: &WebSearch<'_>) {
    o.field_if("search_context_size", search.context_size.as_ref());
    let location = search.user_location.as_ref().and_then(|location| Node::parse(location.as_str()).ok());
    if let Some(location) = location {
        o.object_at("user_location", |o| {
            o.field("type", "approximate");
            o.object_at("approximate", |o| {
                let place = location.members().iter().filter(|(key, _)| key != "type");
                place.for_each(|(key, value)| o.field(key, value.json()));
            });
        });
    }
}

/// Writes `tool_choice`, which may only name tools that are offered.
fn write_choice(o: &mut Writer, choice: &ToolChoice<'_>, tools: &[&Tool<'_>], vendor: Vendor) {
    let names: HashSet<&str> = tools.iter().filter_map(|tool| name_of(tool)).map(Text::literal).collect();
    let exists = |name: &Text<'_>| names.contains(name.literal());
    match choice {
        ToolChoice::Auto => o.field("tool_choice", "auto"),
        ToolChoice::None => o.field("tool_choice", "none"),
        ToolChoice::Required => o.field("tool_choice", "required"),
        ToolChoice::Named { name, kind } if exists(name) => {
            o.object_at("tool_choice", |o| write_named(o, name, *kind));
        }
        ToolChoice::Allowed { names, .. } if !names.iter().any(|(name, _)| exists(name)) => {
            o.field("tool_choice", "none");
        }
        ToolChoice::Allowed { names, required } => {
            let mode = if *required { "required" } else { "auto" };
            if vendor != Vendor::OpenAi {
                return match names.iter().filter(|(name, _)| exists(name)).collect::<Vec<_>>().as_slice() {
                    [(name, kind)] if *required => {
                        o.object_at("tool_choice", |o| write_named(o, name, *kind));
                    }
                    _ => o.field("tool_choice", mode),
                };
            }
            o.object_at("tool_choice", |o| {
                o.field("type", "allowed_tools");
                o.object_at("allowed_tools", |o| {
                    o.field("mode", mode);
                    o.array("tools", |a| {
                        let names = names.iter().filter(|(name, _)| exists(name));
                        names.for_each(|(name, kind)| a.object(|o| write_named(o, name, *kind)));
                    });
                });
            });
        }
        ToolChoice::Named { .. } | ToolChoice::Hosted(_) => {}
    }
}

fn write_named(o: &mut Writer, name: &Text<'_>, kind: CallKind) {
    let word = match kind {
        CallKind::Function => "function",
        CallKind::Custom => "custom",
    };
    o.field("type", word);
    o.object_at(word, |o| o.field("name", name));
}
