//! Reads a request body.

use super::blocks::read_content;
use super::client_tools;
use super::deferred_tools;
use crate::dialect::cache_marks::{self, CacheMarks};
use crate::dialect::canonical::{
    CallKind, ConversionError, Effort, Format, Part, Reasoning, Request, Role, Tool, ToolChoice, Turn,
    WebSearch,
};
use crate::dialect::literal::{Json, Text};
use crate::dialect::tree::Node;

/// Members that only a messages upstream understands and that change the answer.
const NATIVE: [&str; 2] = ["mcp_servers", "container"];
/// A member that some bridges add for a responses upstream behind this gateway.
const CONTINUATION: [&str; 1] = ["previous_response_id"];
/// The schema's name in dialects that require one; this dialect has none.
const SCHEMA_NAME: &str = "output";
/// The beginning of a system text of Claude Code that is for Anthropic's accounting, not for the model. It differs in
/// every request, so elsewhere it would defeat the prompt cache. Nothing in it needs a JSON escape.
const BILLING: &str = "x-anthropic-billing-header:";

/// Reads a request body.
pub fn read_request<'a>(body: &Node<'a>) -> Result<Request<'a>, ConversionError> {
    let number = |key: &str| body.get(key).filter(|node| node.f64().is_some()).map(Node::json);
    let max_output = body.u64_at("max_tokens").filter(|count| *count > 0);
    let tools = deferred_tools::seen(body);
    let mut request = Request {
        max_output: Some(
            max_output.ok_or_else(|| ConversionError::invalid("max_tokens", "must be a positive integer"))?,
        ),
        temperature: number("temperature"),
        top_p: number("top_p"),
        top_k: number("top_k"),
        stop: read_stop(body),
        reasoning: read_reasoning(body)?,
        format: read_format(body),
        user: body.path(&["metadata", "user_id"]).and_then(Node::text).filter(|id| !id.is_empty()),
        user_is_opaque: true,
        cache_key: body.text_at("prompt_cache_key"),
        native: NATIVE.into_iter().filter(|key| is_asked(body, key)).collect(),
        openai: CONTINUATION.into_iter().filter_map(|key| Some((key, body.json_at(key)?))).collect(),
        tools: tools.iter().filter_map(|tool| read_tool(tool)).collect(),
        cache_marks: CacheMarks {
            request: cache_marks::of(body),
            tools: tool_marks(&tools),
            system: Vec::new(),
        },
        ..Request::default()
    };
    if request.tools.iter().any(|tool| matches!(tool, Tool::Hosted(_))) {
        request.native.push("tools");
    }
    read_tool_choice(body, &mut request)?;
    read_system(body, &mut request)?;
    read_turns(body, &mut request)?;
    Ok(request)
}

/// Returns whether a member is there and is not an empty list.
fn is_asked(body: &Node<'_>, key: &str) -> bool {
    body.get(key).is_some_and(|node| !node.is_array() || !node.items().is_empty())
}

fn read_stop<'a>(body: &Node<'a>) -> Vec<Text<'a>> {
    let texts = body.items_at("stop_sequences").iter().filter_map(Node::text);
    texts.filter(|text| !text.is_empty()).collect()
}

fn read_system<'a>(body: &Node<'a>, request: &mut Request<'a>) -> Result<(), ConversionError> {
    let Some(system) = body.get("system") else { return Ok(()) };
    if let Some(text) = system.text() {
        request.system.extend(Some(text).filter(|text| !text.is_empty()));
        return Ok(());
    }
    if !system.is_array() {
        return Err(ConversionError::invalid("system", "must be a string or a list of text blocks"));
    }
    for (index, block) in system.items().iter().enumerate() {
        let text = block.text().or_else(|| block.text_at("text").filter(|_| block.str_at("type") == "text"));
        let text =
            text.ok_or_else(|| ConversionError::invalid(format!("system[{index}]"), "must be a text block"))?;
        // Compared as a literal: system texts are long, and decoding one for its beginning is expensive.
        if !text.is_empty() && !text.literal().starts_with(BILLING) {
            let mark = cache_marks::of(block);
            request.cache_marks.system.extend(mark.map(|mark| (request.system.len(), mark)));
            request.system.push(text);
        }
    }
    Ok(())
}

fn read_turns<'a>(body: &Node<'a>, request: &mut Request<'a>) -> Result<(), ConversionError> {
    let messages = body.get("messages").filter(|node| !node.items().is_empty());
    let messages =
        messages.ok_or_else(|| ConversionError::invalid("messages", "must be a list of messages"))?;
    for (index, message) in messages.items().iter().enumerate() {
        let role = match message.str_at("role").as_ref() {
            "user" => Role::User,
            "assistant" => Role::Assistant,
            "system" => Role::System,
            _ => {
                let field = format!("messages[{index}].role");
                return Err(ConversionError::invalid(field, "must be \"user\" or \"assistant\""));
            }
        };
        let field = format!("messages[{index}].content");
        let Some(content) = message.get("content") else {
            return Err(ConversionError::invalid(field, "must be a string or a list of blocks"));
        };
        let mut parts = Vec::new();
        read_content(content, &field, &mut parts)?;
        if role == Role::System {
            // A system message in the middle of a conversation may add or remove tools.
            if let Some(Part::Foreign(kind)) = parts.iter().find(|part| matches!(part, Part::Foreign(_))) {
                return Err(ConversionError::unsupported(kind.decode()));
            }
            parts.retain(|part| match part {
                Part::Text(text) => !text.is_empty(),
                part => matches!(part, Part::CacheMark(_)),
            });
            if request.turns.is_empty() {
                for part in parts {
                    match part {
                        Part::Text(text) => request.system.push(text),
                        Part::CacheMark(mark) if !request.system.is_empty() => {
                            request.cache_marks.system.push((request.system.len() - 1, mark));
                        }
                        _ => {}
                    }
                }
                continue;
            }
        }
        request.turns.push(Turn { role, parts, listed: content.is_array() });
    }
    if request.turns.iter().all(|turn| turn.parts.is_empty()) {
        return Err(ConversionError::invalid("messages", "must have at least one message with content"));
    }
    Ok(())
}

fn read_reasoning<'a>(body: &Node<'a>) -> Result<Reasoning<'a>, ConversionError> {
    let effort = body.path(&["output_config", "effort"]).and_then(Node::str);
    let mut reasoning =
        Reasoning { effort: effort.and_then(|word| Effort::parse(&word)), ..Reasoning::default() };
    let Some(thinking) = body.get("thinking") else { return Ok(reasoning) };
    match thinking.str_at("type").as_ref() {
        "disabled" => return Ok(Reasoning { off: true, ..Reasoning::default() }),
        // Adaptive thinking without a stated effort is at high effort.
        "adaptive" | "between_tools" => reasoning.effort = reasoning.effort.or(Some(Effort::High)),
        "enabled" => {
            let budget = thinking.u64_at("budget_tokens").filter(|budget| *budget > 0);
            reasoning.budget = Some(budget.ok_or_else(|| {
                ConversionError::invalid("thinking.budget_tokens", "must be a positive integer")
            })?);
        }
        _ => {
            let problem = "must be \"enabled\", \"adaptive\" or \"disabled\"";
            return Err(ConversionError::invalid("thinking.type", problem));
        }
    }
    // Thinking blocks can carry every provider's signatures.
    reasoning.encrypted = true;
    let shown = thinking.str_at("display") != "omitted";
    reasoning.summary = shown.then(|| Text::plain("auto"));
    Ok(reasoning)
}

fn read_format<'a>(body: &Node<'a>) -> Option<Format<'a>> {
    let format = body.path(&["output_config", "format"]).or_else(|| body.get("output_format"))?;
    (format.str_at("type") == "json_schema").then(|| Format::JsonSchema {
        name: Some(Text::plain(SCHEMA_NAME)),
        description: None,
        schema: format.json_at("schema"),
        strict: None,
    })
}

// === tools ===

fn tool_marks<'a>(tools: &[&Node<'a>]) -> Vec<(usize, Json<'a>)> {
    let offered = tools.iter().filter(|tool| read_tool(tool).is_some()).enumerate();
    offered.filter_map(|(place, tool)| Some((place, cache_marks::of(tool)?))).collect()
}

fn read_tool<'a>(tool: &Node<'a>) -> Option<Tool<'a>> {
    let kind = tool.str_at("type");
    if kind.starts_with("web_search_") {
        return Some(Tool::WebSearch(WebSearch {
            context_size: None,
            user_location: tool.json_at("user_location"),
            max_uses: tool.u64_at("max_uses"),
            allowed_domains: tool
                .get("allowed_domains")
                .filter(|list| !list.items().is_empty())
                .map(Node::json),
        }));
    }
    // A tool search only keeps definitions out of the prompt until they are needed; other dialects have them all in
    // it.
    if kind.starts_with("tool_search_tool") {
        return None;
    }
    if !matches!(kind.as_ref(), "" | "custom") {
        let function = client_tools::as_function(tool);
        return function.or_else(|| Some(Tool::Hosted(tool.text_at("type")?)));
    }
    Some(Tool::Function {
        name: tool.text_at("name").filter(|name| !name.is_blank())?,
        description: tool.text_at("description"),
        parameters: tool.json_at("input_schema"),
        strict: tool.bool_at("strict"),
    })
}

fn read_tool_choice<'a>(body: &Node<'a>, request: &mut Request<'a>) -> Result<(), ConversionError> {
    let Some(choice) = body.get("tool_choice") else { return Ok(()) };
    request.tool_choice = Some(match choice.str_at("type").as_ref() {
        "auto" => ToolChoice::Auto,
        "none" => ToolChoice::None,
        "any" => ToolChoice::Required,
        "tool" => {
            let name = choice.text_at("name").filter(|name| !name.is_blank());
            let name =
                name.ok_or_else(|| ConversionError::invalid("tool_choice.name", "must name a tool"))?;
            match hosted_kind(body, &name) {
                Some(kind) => ToolChoice::Hosted(kind),
                None => ToolChoice::Named { name, kind: CallKind::Function },
            }
        }
        _ => {
            let problem = "must be \"auto\", \"any\", \"tool\" or \"none\"";
            return Err(ConversionError::invalid("tool_choice.type", problem));
        }
    });
    if choice.bool_at("disable_parallel_tool_use") == Some(true) {
        request.parallel = Some(false);
    }
    Ok(())
}

/// Returns the type of the server tool with that name, because other dialects do not choose it by name.
fn hosted_kind<'a>(body: &Node<'a>, name: &Text<'_>) -> Option<Text<'a>> {
    let tools = body.items_at("tools");
    let tool = tools.iter().find(|tool| tool.text_at("name").is_some_and(|named| named == *name))?;
    match read_tool(tool)? {
        Tool::WebSearch(_) => Some(Text::plain("web_search")),
        Tool::Hosted(kind) => Some(kind),
        _ => None,
    }
}
