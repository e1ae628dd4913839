//! Reads a request body.
//!
//! There are many clients of this dialect, some of them old: renamed members, numbers in quotes and blanks around
//! words are accepted.

use super::items::Items;
use super::tools;
use crate::dialect::canonical::{ConversionError, Effort, Format, Reasoning, Request};
use crate::dialect::chat;
use crate::dialect::literal::{Json, Text};
use crate::dialect::tree::Node;

/// Reads a request body.
pub fn read_request<'a>(body: &Node<'a>) -> Result<Request<'a>, ConversionError> {
    if !body.is_object() {
        return Err(ConversionError::invalid("body", "must be an object"));
    }
    let mut items = Items::default();
    let mut system = Vec::new();
    if let Some(instructions) = body.get("instructions") {
        match instructions.text() {
            Some(text) if text.is_empty() => {}
            Some(text) => system.push(text),
            None if instructions.is_array() => items.read(instructions)?,
            None => return Err(ConversionError::invalid("instructions", "must be a string")),
        }
    }
    let text_prompt = body.get("prompt").filter(|prompt| prompt.is_string());
    match body.get("input").or(text_prompt.filter(|_| body.get("messages").is_none())) {
        Some(input) => items.read(input)?,
        // `messages` is read as chat's, with its roles and calls.
        None if body.get("messages").is_some() => {
            let (instructions, turns) = chat::read_messages(body)?;
            system.extend(instructions);
            items.turns = turns;
        }
        None if has_stored_prompt(body) => {}
        None => return Err(ConversionError::invalid("input", "is required")),
    }
    let include = included(body);
    let includes = |what: &str| include.iter().any(|word| word.is(what));
    let top_logprobs = whole_number(body, "top_logprobs");
    Ok(Request {
        system,
        turns: items.turns,
        tools: tools::read(body)?,
        tool_choice: tools::read_choice(body),
        parallel: body.bool_at("parallel_tool_calls"),
        max_output: max_output(body),
        temperature: number(body, "temperature")?,
        top_p: number(body, "top_p")?,
        reasoning: reasoning(body, includes("reasoning.encrypted_content")),
        format: format(body)?,
        verbosity: body.path(&["text", "verbosity"]).or_else(|| body.get("verbosity")).and_then(Node::text),
        user: word(body, "user"),
        safety_identifier: word(body, "safety_identifier"),
        metadata: body.get("metadata").filter(|metadata| metadata.is_object()).map(Node::json),
        cache_key: word(body, "prompt_cache_key"),
        service_tier: word(body, "service_tier"),
        store: body.bool_at("store"),
        logprobs: includes("message.output_text.logprobs")
            || top_logprobs.as_ref().and_then(Json::f64).is_some_and(|count| count > 0.0),
        top_logprobs,
        openai: shared(body),
        native: native(body),
        ..Request::default()
    })
}

/// Reads a string without the blanks around it; `None` when nothing is left.
fn word<'a>(body: &Node<'a>, key: &str) -> Option<Text<'a>> {
    let text = body.text_at(key)?;
    let plain = text.decode();
    let trimmed = plain.trim();
    if trimmed.len() == plain.len() {
        return Some(text.clone()).filter(|text| !text.is_empty());
    }
    (!trimmed.is_empty()).then(|| Text::of(trimmed))
}

fn number<'a>(body: &Node<'a>, key: &str) -> Result<Option<Json<'a>>, ConversionError> {
    match body.get(key) {
        None => Ok(None),
        Some(node) if node.is_number() => Ok(Some(node.json())),
        Some(_) => Err(ConversionError::invalid(key, "must be a number")),
    }
}

/// Reads a whole number, which may stand in quotes.
fn whole_number<'a>(body: &Node<'a>, key: &str) -> Option<Json<'a>> {
    let node = body.get(key)?;
    if node.is_number() {
        return Some(node.json());
    }
    let number: u64 = node.str()?.trim().parse().ok()?;
    Some(Json::of(&number.into()))
}

fn max_output(body: &Node<'_>) -> Option<u64> {
    let given = |key: &str| {
        let node = body.get(key)?;
        node.u64().or_else(|| node.str()?.trim().parse().ok())
    };
    let names = ["max_output_tokens", "max_completion_tokens", "max_tokens"];
    names.into_iter().find_map(given).filter(|tokens| *tokens > 0)
}

/// Reads `include`: a list, or a single word.
pub(in crate::dialect) fn included<'a>(body: &Node<'a>) -> Vec<Text<'a>> {
    let Some(include) = body.get("include") else { return Vec::new() };
    match include.text() {
        Some(word) => vec![word],
        None => include.items().iter().filter_map(Node::text).collect(),
    }
}

fn reasoning<'a>(body: &Node<'a>, encrypted: bool) -> Reasoning<'a> {
    let object = body.get("reasoning").filter(|reasoning| reasoning.is_object());
    let (effort, summary, budget) = match object {
        Some(object) => {
            let summary = object.text_at("summary").or_else(|| object.text_at("generate_summary"));
            let budget = object.u64_at("budget_tokens").or_else(|| object.u64_at("max_tokens"));
            (object.get("effort"), summary, budget)
        }
        None => {
            let summary = body.text_at("reasoning_summary");
            (body.get("reasoning_effort"), summary, body.u64_at("reasoning_budget"))
        }
    };
    let effort = effort.and_then(Node::str).and_then(|word| Effort::parse(&word));
    Reasoning { effort, budget, summary, off: effort == Some(Effort::None), dynamic: false, encrypted }
}

fn format<'a>(body: &Node<'a>) -> Result<Option<Format<'a>>, ConversionError> {
    let Some(format) = body.path(&["text", "format"]) else { return Ok(None) };
    Ok(Some(match format.str_at("type").as_ref() {
        "text" => Format::Text,
        "json_object" => Format::JsonObject,
        "json_schema" => {
            // Chat wraps the schema in an object of its own.
            let format = format.get("json_schema").filter(|inner| inner.is_object()).unwrap_or(format);
            Format::JsonSchema {
                name: format.text_at("name"),
                description: format.text_at("description"),
                schema: format.json_at("schema"),
                strict: format.bool_at("strict"),
            }
        }
        _ => {
            return Err(ConversionError::invalid(
                "text.format.type",
                "must be text, json_object or json_schema",
            ));
        }
    }))
}

/// Reads the members that chat has under the same name; the other members of this dialect (`include`, `truncation`,
/// `background`, `max_tool_calls`, …) mean nothing there.
fn shared<'a>(body: &Node<'a>) -> Vec<(&'static str, Json<'a>)> {
    let retention = word(body, "prompt_cache_retention")
        .map(|word| ("prompt_cache_retention", Json::of(&word.decode().as_ref().into())));
    let obfuscation = body.path(&["stream_options", "include_obfuscation"]);
    let obfuscation = obfuscation.and_then(|node| node.bool().or_else(|| node.str()?.trim().parse().ok()));
    let obfuscation = obfuscation.map(|wanted| ("include_obfuscation", Json::of(&wanted.into())));
    retention.into_iter().chain(obfuscation).collect()
}

/// Names the members that refer to something stored only at an upstream of this dialect; without it the answer would
/// differ.
fn native(body: &Node<'_>) -> Vec<&'static str> {
    let given =
        |key: &&str| body.get(key).is_some_and(|node| node.str().is_none_or(|id| !id.trim().is_empty()));
    let prompt = has_stored_prompt(body).then_some("prompt");
    ["previous_response_id", "conversation"].into_iter().filter(given).chain(prompt).collect()
}

/// Whether the request names a prompt that the upstream stores.
fn has_stored_prompt(body: &Node<'_>) -> bool {
    body.get("prompt").is_some_and(Node::is_object)
}
