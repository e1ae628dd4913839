//! Reads the tools of a request, and which of them the model may call.

use crate::dialect::cache_marks;
use crate::dialect::canonical::{CallKind, CustomFormat, Tool, ToolChoice, WebSearch};
use crate::dialect::literal::{Json, Text};
use crate::dialect::tree::Node;
use crate::dialect::writer::Writer;

/// Reads `tools`, the legacy `functions`, and `web_search_options`.
pub(super) fn tools<'a>(body: &Node<'a>) -> Vec<Tool<'a>> {
    let mut tools: Vec<_> = body.items_at("tools").iter().filter_map(tool).collect();
    tools.extend(body.items_at("functions").iter().filter_map(function));
    let searches = tools.iter().any(|tool| matches!(tool, Tool::WebSearch(_)));
    if let Some(options) = body.get("web_search_options").filter(|_| !searches) {
        tools.push(Tool::WebSearch(web_search(options)));
    }
    tools
}

/// Returns whether the client offers its tools only in the legacy form, and therefore expects calls in that form.
pub fn offers_functions(body: &Node<'_>) -> bool {
    !body.items_at("functions").is_empty() && body.items_at("tools").is_empty()
}

/// Returns the cache marks of the tools, each with the position of its tool in [`tools`].
pub(super) fn cache_marks<'a>(body: &Node<'a>) -> Vec<(usize, Json<'a>)> {
    let offered = body.items_at("tools").iter().filter(|node| tool(node).is_some()).enumerate();
    let mark = |node: &Node<'a>| cache_marks::of(node).or_else(|| cache_marks::of(node.get("function")?));
    offered.filter_map(|(place, node)| Some((place, mark(node)?))).collect()
}

fn tool<'a>(tool: &Node<'a>) -> Option<Tool<'a>> {
    let kind = tool.str_at("type");
    match &*kind {
        "function" | "" if tool.get("google_search").is_some() => Some(Tool::WebSearch(WebSearch::default())),
        "function" | "" => function(tool.get("function").unwrap_or(tool)),
        "custom" => custom(tool.get("custom").unwrap_or(tool)),
        "google_search" => Some(Tool::WebSearch(web_search(tool))),
        kind if kind.starts_with("web_search") => Some(Tool::WebSearch(web_search(tool))),
        _ => tool.text_at("type").map(Tool::Hosted),
    }
}

/// Reads the name of a tool. A tool without a name cannot be called, and is left out.
fn name<'a>(tool: &Node<'a>) -> Option<Text<'a>> {
    tool.text_at("name").filter(|name| !name.is_blank())
}

fn function<'a>(function: &Node<'a>) -> Option<Tool<'a>> {
    Some(Tool::Function {
        name: name(function)?,
        description: function.text_at("description"),
        // Cursor sends tools in the form of the messages dialect.
        parameters: (function.get("parameters").or(function.get("input_schema")))
            .filter(|schema| schema.is_object())
            .map(Node::json),
        strict: function.bool_at("strict"),
    })
}

fn custom<'a>(custom: &Node<'a>) -> Option<Tool<'a>> {
    let format = custom.get("format").map(|format| {
        let grammar = format.get("grammar").unwrap_or(format);
        CustomFormat { syntax: grammar.text_at("syntax"), definition: grammar.text_at("definition") }
    });
    Some(Tool::Custom { name: name(custom)?, description: custom.text_at("description"), format })
}

fn web_search<'a>(options: &Node<'a>) -> WebSearch<'a> {
    WebSearch {
        context_size: options.text_at("search_context_size"),
        user_location: options.get("user_location").map(flat_location),
        max_uses: options.u64_at("max_uses"),
        allowed_domains: options.path(&["filters", "allowed_domains"]).map(Node::json),
    }
}

/// Moves the location out of `approximate`; the canonical form has it beside the type.
fn flat_location<'a>(location: &Node<'a>) -> Json<'a> {
    let Some(place) = location.get("approximate") else { return location.json() };
    let mut json = Writer::new();
    json.object(|o| {
        o.field("type", "approximate");
        place.members().iter().for_each(|(key, value)| o.field(key, value.json()));
    });
    Json::checked(json.as_str()).into_owned()
}

/// Reads `tool_choice`, or the legacy `function_call`.
pub(super) fn choice<'a>(body: &Node<'a>) -> Option<ToolChoice<'a>> {
    let choice = body.get("tool_choice").or(body.get("function_call"))?;
    if choice.is_string() {
        return mode(&choice.str()?);
    }
    match &*choice.str_at("type") {
        "function" | "" | "custom" | "tool" => {
            let (name, kind) = named(choice)?;
            Some(ToolChoice::Named { name, kind })
        }
        "allowed_tools" => {
            let allowed = choice.get("allowed_tools").unwrap_or(choice);
            let names = allowed.items_at("tools").iter().filter_map(named).collect();
            Some(ToolChoice::Allowed { names, required: allowed.str_at("mode") == "required" })
        }
        word => mode(word).or_else(|| choice.text_at("type").map(ToolChoice::Hosted)),
    }
}

fn mode(word: &str) -> Option<ToolChoice<'static>> {
    match word {
        "auto" => Some(ToolChoice::Auto),
        "none" => Some(ToolChoice::None),
        "required" | "any" => Some(ToolChoice::Required),
        _ => None,
    }
}

fn named<'a>(choice: &Node<'a>) -> Option<(Text<'a>, CallKind)> {
    let kind = if choice.str_at("type") == "custom" { CallKind::Custom } else { CallKind::Function };
    let inner = choice.get("custom").or(choice.get("function")).unwrap_or(choice);
    Some((name(inner)?, kind))
}
