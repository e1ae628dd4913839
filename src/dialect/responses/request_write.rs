//! Writes a request body.

use bytes::Bytes;

use super::{content, reasoning, tools};
use crate::dialect::canonical::{
    Call, CallKind, ConversionError, Effort, Format, Part, Request, Role, Target, ToolChoice, ToolResult,
    Turn,
};
use crate::dialect::literal::Text;
use crate::dialect::tree::Node;
use crate::dialect::writer::Writer;

/// The smallest `max_output_tokens` that the API accepts.
const MIN_OUTPUT: u64 = 16;
/// The longest `user` that the API accepts, in characters.
const MAX_USER: usize = 64;

/// Writes a request body.
pub fn write_request(request: &Request<'_>, target: &Target<'_>) -> Result<Bytes, ConversionError> {
    if request.n.is_some_and(|n| n > 1) {
        return Err(ConversionError::unsupported("n"));
    }
    request.check_native()?;
    let mut json = Writer::with_capacity(4096);
    let mut written = Ok(());
    json.object(|o| written = members(o, request, target));
    written.map(|()| json.into_bytes())
}

fn members(o: &mut Writer, request: &Request<'_>, target: &Target<'_>) -> Result<(), ConversionError> {
    o.field("model", target.model);
    if !request.system.is_empty() {
        o.field("instructions", Text::join(&request.system, "\\n\\n"));
    }
    tools::put(o, &request.tools)?;
    if let Some(choice) = request.tool_choice.as_ref().filter(|choice| is_possible(choice, request)) {
        tools::put_choice(o, choice);
    }
    o.field_if("parallel_tool_calls", request.parallel);
    put_reasoning(o, request, target.model);
    put_text(o, request);
    o.field_if("max_output_tokens", request.max_output.map(|tokens| tokens.max(MIN_OUTPUT)));
    o.field_if("temperature", request.temperature.as_ref());
    o.field_if("top_p", request.top_p.as_ref());
    put_user(o, request);
    o.field_if("metadata", request.metadata.as_ref());
    o.field_if("prompt_cache_key", request.cache_key.as_ref());
    o.field_if("service_tier", request.service_tier.as_ref());
    o.field_if("top_logprobs", request.top_logprobs.as_ref());
    put_include(o, request);
    for (name, value) in &request.openai {
        match *name {
            // Written above.
            "include" => {}
            "prompt_cache_key" if request.cache_key.is_some() => {}
            "include_obfuscation" if target.stream => {
                o.object_at("stream_options", |o| o.field("include_obfuscation", value));
            }
            "include_obfuscation" => {}
            name => o.field(name, value),
        }
    }
    // The dialect's default would leave a copy of the answer at the upstream.
    o.field("store", request.store.unwrap_or(false));
    if target.stream {
        o.field("stream", true);
    }
    let mut written = Ok(());
    o.array("input", |list| {
        written = request.turns.iter().try_for_each(|turn| put_turn(list, turn));
        // The turns may consist of the thinking of another provider alone.
        if written.is_ok() && list.as_str().ends_with('[') && !request.turns.is_empty() {
            written = Err(ConversionError::without_content());
        }
    });
    written
}

fn is_possible(choice: &ToolChoice<'_>, request: &Request<'_>) -> bool {
    !request.tools.is_empty() && !matches!(choice, ToolChoice::Allowed { names, .. } if names.is_empty())
}

fn put_reasoning(o: &mut Writer, request: &Request<'_>, model: &str) {
    let effort = request.reasoning.openai_effort(model);
    let summary = request.reasoning.summary.as_ref();
    if effort.is_none() && summary.is_none() {
        return;
    }
    o.object_at("reasoning", |o| {
        o.field_if("effort", effort.map(Effort::openai_word));
        match summary {
            Some(summary) => o.field("summary", summary),
            None if request.reasoning.wanted_effort() == Some(Effort::None) => {}
            // Clients of the other dialects are shown what the model thinks.
            None => o.field("summary", "auto"),
        }
    });
}

/// Writes `include`: the client's list, and what the next request needs besides.
fn put_include(o: &mut Writer, request: &Request<'_>) {
    let effort = request.reasoning.wanted_effort();
    let encrypted = request.reasoning.encrypted || effort.is_some_and(|effort| effort != Effort::None);
    let listed = request.openai.iter().find(|(name, _)| *name == "include").map(|(_, value)| value.as_str());
    let listed = listed.and_then(|list| Node::parse(list).ok());
    let listed: Vec<Text<'_>> =
        listed.iter().flat_map(|list| list.items()).filter_map(Node::text).map(Text::into_owned).collect();
    let is_new = |word: &str| !listed.iter().any(|text| text.is(word));
    let encrypted = encrypted && is_new("reasoning.encrypted_content");
    let logprobs = request.logprobs && is_new("message.output_text.logprobs");
    if listed.is_empty() && !encrypted && !logprobs {
        return;
    }
    o.array("include", |list| {
        listed.iter().for_each(|word| list.item(word));
        if encrypted {
            list.item("reasoning.encrypted_content");
        }
        if logprobs {
            list.item("message.output_text.logprobs");
        }
    });
}

fn put_text(o: &mut Writer, request: &Request<'_>) {
    if request.format.is_none() && request.verbosity.is_none() {
        return;
    }
    o.object_at("text", |o| {
        if let Some(format) = &request.format {
            o.object_at("format", |o| put_format(o, format));
        }
        o.field_if("verbosity", request.verbosity.as_ref());
    });
}

fn put_format(o: &mut Writer, format: &Format<'_>) {
    match format {
        Format::Text => o.field("type", "text"),
        Format::JsonObject => o.field("type", "json_object"),
        Format::JsonSchema { name, description, schema, strict } => {
            o.field("type", "json_schema");
            match name {
                Some(name) => o.field("name", name),
                // Required here, but unknown to the other dialects.
                None => o.field("name", "output"),
            }
            o.field_if("description", description.as_ref());
            o.field_if("schema", schema.as_ref());
            o.field_if("strict", *strict);
        }
    }
}

/// Writes the client's user. A name that is too long is sent as its hash in `safety_identifier`, as is an opaque id.
fn put_user(o: &mut Writer, request: &Request<'_>) {
    let (short, long): (Vec<_>, Vec<_>) =
        request.user.iter().partition(|user| user.decode().chars().count() <= MAX_USER);
    o.field_if("user", short.first());
    let opaque = request.user.as_ref().filter(|_| request.user_is_opaque);
    let identifier = request.safety_identifier.as_ref().or(opaque).or(long.first().copied());
    o.field_if("safety_identifier", identifier.map(|name| name.or_hash(MAX_USER)));
}

// === items ===

/// Writes a turn: thinking, calls and results are items of their own, each at its place; the parts between them make
/// one message.
fn put_turn(list: &mut Writer, turn: &Turn<'_>) -> Result<(), ConversionError> {
    let mut from = 0;
    for (at, part) in turn.parts.iter().enumerate() {
        if !matches!(part, Part::Thinking(_) | Part::Call(_) | Part::Result(_)) {
            continue;
        }
        put_message(list, turn, &turn.parts[from..at])?;
        from = at + 1;
        match part {
            Part::Thinking(thinking) => reasoning::put_for_upstream(list, thinking),
            Part::Call(call) => list.object(|o| put_call(o, call)),
            Part::Result(result) => put_result(list, result)?,
            _ => {}
        }
    }
    put_message(list, turn, &turn.parts[from..])
}

fn put_message(list: &mut Writer, turn: &Turn<'_>, parts: &[Part<'_>]) -> Result<(), ConversionError> {
    let is_input = turn.role != Role::Assistant;
    let role = match turn.role {
        Role::Assistant => "assistant",
        Role::System => "system",
        Role::Developer => "developer",
        Role::User => "user",
    };
    let is_empty = |part: &Part<'_>| matches!(part, Part::Text(text) if text.is_empty());
    if parts.is_empty() || (!is_input && parts.iter().all(is_empty)) {
        return Ok(());
    }
    let mut written = Ok(());
    list.object(|o| {
        o.field("type", "message");
        o.field("role", role);
        match parts {
            [Part::Text(text)] if is_input && !turn.listed => o.field("content", text),
            parts => o.array("content", |list| {
                written = parts.iter().try_for_each(|part| content::put(list, part, turn.role));
            }),
        }
    });
    written
}

fn put_call(o: &mut Writer, call: &Call<'_>) {
    let (kind, key, empty) = match call.kind {
        CallKind::Function => ("function_call", "arguments", "{}"),
        CallKind::Custom => ("custom_tool_call", "input", ""),
    };
    o.field("type", kind);
    o.field("call_id", &call.id);
    o.field("name", &call.name);
    if call.input.is_empty() { o.field(key, empty) } else { o.field(key, &call.input) }
}

fn put_result(list: &mut Writer, result: &ToolResult<'_>) -> Result<(), ConversionError> {
    let texts: Vec<&Text<'_>> = result.parts.iter().filter_map(text_of).collect();
    let prefix = if result.is_error { "Error: " } else { "" };
    let mut written = Ok(());
    list.object(|o| {
        o.field(
            "type",
            match result.kind {
                CallKind::Function => "function_call_output",
                CallKind::Custom => "custom_tool_call_output",
            },
        );
        o.field("call_id", &result.call_id);
        if texts.len() == result.parts.len() && (texts.is_empty() || !result.listed) {
            o.joined("output", &[prefix, Text::join(texts.iter().copied(), "\\n").literal()]);
            return;
        }
        o.array("output", |list| {
            let mut prefix = prefix;
            if !prefix.is_empty() && !matches!(result.parts.first(), Some(Part::Text(_))) {
                list.object(|o| {
                    o.field("type", "input_text");
                    o.field("text", prefix.trim_end());
                });
                prefix = "";
            }
            for part in &result.parts {
                let outcome = match part {
                    Part::Text(text) if !prefix.is_empty() => {
                        let text = Text::join([&Text::of(prefix), text], "");
                        prefix = "";
                        content::put(list, &Part::Text(text), Role::User)
                    }
                    part => content::put(list, part, Role::User),
                };
                written = std::mem::replace(&mut written, Ok(())).and(outcome);
            }
        });
    });
    written
}

fn text_of<'p, 'a>(part: &'p Part<'a>) -> Option<&'p Text<'a>> {
    match part {
        Part::Text(text) => Some(text),
        _ => None,
    }
}
