//! Reads a request body.

use super::parts_read::{self, Read};
use super::{member, tools_read};
use crate::dialect::canonical::{
    ConversionError, Effort, Format, Part, Reasoning, Request, Role, Thinking, Tool, ToolResult, Turn,
};
use crate::dialect::literal::Text;
use crate::dialect::tree::Node;
use crate::dialect::waiting_calls::WaitingCalls;

/// Reads a request body. The model stands in the path of the request.
pub fn read_request<'a>(body: &Node<'a>) -> Result<Request<'a>, ConversionError> {
    let turns = turns(body)?;
    let tools = tools_read::tools(body)?;
    let hosted = tools.iter().any(|tool| matches!(tool, Tool::Hosted(_)));
    let config = member::get(body, "generationConfig");
    let option = |key: &str| member::get(config?, key);
    let number = |key: &str| option(key).and_then(member::number);
    let count = |key: &str| option(key).and_then(member::count);
    let choice = config.and_then(choice_in_words);
    Ok(Request {
        format: if choice.is_none() { config.map(format).transpose()?.flatten() } else { None },
        system: system(body).into_iter().chain(choice).collect(),
        turns,
        tools,
        tool_choice: tools_read::choice(body),
        max_output: count("maxOutputTokens").filter(|limit| *limit > 0),
        temperature: number("temperature"),
        top_p: number("topP"),
        top_k: number("topK"),
        stop: config.map(stop).unwrap_or_default(),
        reasoning: config.and_then(reasoning).or_else(|| openai_reasoning(body)).unwrap_or_default(),
        seed: number("seed"),
        frequency_penalty: number("frequencyPenalty"),
        presence_penalty: number("presencePenalty"),
        n: count("candidateCount").filter(|n| *n > 1),
        logprobs: option("responseLogprobs").and_then(Node::bool) == Some(true),
        top_logprobs: number("logprobs"),
        native: native(body, config).into_iter().chain(hosted.then_some("tools")).collect(),
        ..Request::default()
    })
}

fn system<'a>(body: &Node<'a>) -> Vec<Text<'a>> {
    let Some(system) = member::get(body, "systemInstruction") else { return Vec::new() };
    if let Some(text) = system.text() {
        return vec![text];
    }
    let parts = match system.get("parts") {
        Some(parts) if parts.is_array() => parts.items(),
        Some(part) => std::slice::from_ref(part),
        None => std::slice::from_ref(system),
    };
    parts.iter().filter_map(|part| part.text_at("text")).filter(|text| !text.is_empty()).collect()
}

fn turns<'a>(body: &Node<'a>) -> Result<Vec<Turn<'a>>, ConversionError> {
    let contents = match body.get("contents") {
        Some(contents) if contents.is_object() => std::slice::from_ref(contents),
        Some(contents) if !contents.items().is_empty() => contents.items(),
        _ => return Err(ConversionError::invalid("contents", "must be a list of at least one content")),
    };
    let mut calls = WaitingCalls::default();
    let mut turns = Vec::new();
    // Consecutive contents of the user are one turn.
    let mut is_users = false;
    // A result without an id belongs to the latest calls.
    let mut calls_anew = false;
    for (index, content) in contents.iter().enumerate() {
        let role = role_of(content).ok_or_else(|| {
            ConversionError::invalid(format!("contents[{index}].role"), "must be user or model")
        })?;
        if role == Role::User && !std::mem::replace(&mut is_users, true) {
            answer_named(&contents[index..], &mut calls);
        }
        calls_anew |= is_users && role == Role::Assistant;
        is_users = role == Role::User;
        let parts = parts_of(content).ok_or_else(|| {
            ConversionError::invalid(format!("contents[{index}].parts"), "must be a list of parts")
        })?;
        let (mut said, mut carried, mut shown) = (Vec::new(), Vec::new(), Vec::new());
        for (number, part) in parts.iter().enumerate() {
            carried.extend(parts_read::carried(part));
            let Some(part) = parts_read::read(part) else { continue };
            if matches!(part, Read::Part(Part::Call(_))) && std::mem::take(&mut calls_anew) {
                calls.forget_names();
            }
            let part = settle(part, format_args!("call_g{index}_{number}"), &mut calls);
            let is_call = matches!(part, Part::Call(_));
            shown.push(part);
            if is_call {
                say(&mut said, &mut carried, &mut shown);
            }
        }
        say(&mut said, &mut carried, &mut shown);
        let parts = said;
        if !parts.is_empty() {
            turns.push(Turn { listed: true, ..Turn::new(role, parts) });
        }
    }
    Ok(turns)
}

fn role_of(content: &Node<'_>) -> Option<Role> {
    match &*content.str_at("role") {
        "user" | "function" | "tool" | "" => Some(Role::User),
        "model" | "assistant" => Some(Role::Assistant),
        _ => None,
    }
}

fn parts_of<'n, 'a>(content: &'n Node<'a>) -> Option<&'n [Node<'a>]> {
    match content.get("parts") {
        Some(parts) if parts.is_array() => Some(parts.items()),
        Some(part) if part.is_object() => Some(std::slice::from_ref(part)),
        _ => None,
    }
}

/// Marks as answered every call whose id is named by a result of the user's turn that begins these contents. The
/// remaining calls wait for the results without an id, wherever these stand in the turn.
fn answer_named(contents: &[Node<'_>], calls: &mut WaitingCalls<'_>) {
    let turn = contents.iter().take_while(|content| role_of(content) == Some(Role::User));
    for part in turn.flat_map(|content| parts_of(content).unwrap_or_default()) {
        let response = member::get(part, "functionResponse");
        if let Some(id) = response.and_then(|response| response.text_at("id")).filter(|id| !id.is_empty()) {
            calls.answer(&id);
        }
    }
}

/// Adds what was thought and said up to a call, or to the end. Thoughts that a signature carries replace those that
/// were shown.
fn say<'a>(said: &mut Vec<Part<'a>>, carried: &mut Vec<Part<'a>>, shown: &mut Vec<Part<'a>>) {
    if !carried.is_empty() {
        shown.retain(|part| !matches!(part, Part::Thinking(Thinking { signature: None, .. })));
    }
    said.append(carried);
    said.append(shown);
}

/// Gives a call without an id one made of its place. Gives a result without an id the id of the first waiting call of
/// its function: of calls without an id first, then of the others.
fn settle<'a>(part: Read<'a>, id: std::fmt::Arguments<'_>, calls: &mut WaitingCalls<'a>) -> Part<'a> {
    match part {
        Read::Part(Part::Call(mut call)) => {
            if call.id.is_empty() {
                call.id = Text::of(&id.to_string());
                calls.push_unnamed(call.id.clone(), call.name.clone());
            } else {
                calls.push_named(call.id.clone(), call.name.clone());
            }
            Part::Call(call)
        }
        Read::Part(part) => part,
        Read::Result(name, result) => {
            if !result.call_id.is_empty() {
                return Part::Result(result);
            }
            let call_id = calls.answer_named(&name).unwrap_or(name);
            Part::Result(ToolResult { call_id, ..result })
        }
    }
}

/// Reads the stop sequences: a list, or one string from some clients.
fn stop<'a>(config: &Node<'a>) -> Vec<Text<'a>> {
    let Some(stop) = member::get(config, "stopSequences") else { return Vec::new() };
    let all = if stop.is_array() { stop.items() } else { std::slice::from_ref(stop) };
    all.iter().filter_map(Node::text).filter(|text| !text.is_empty()).collect()
}

/// Reads `thinkingConfig`. A budget of -1 counts as none. Without a level and a budget, the wish to see thoughts asks
/// for as much thinking as the model sees fit.
fn reasoning<'a>(config: &Node<'a>) -> Option<Reasoning<'a>> {
    let thinking = member::get(config, "thinkingConfig")?;
    let level = member::get(thinking, "thinkingLevel").and_then(Node::str);
    let shown = member::get(thinking, "includeThoughts").and_then(Node::bool) == Some(true);
    let effort = level.and_then(|level| Effort::parse(&level));
    let budget = member::get(thinking, "thinkingBudget").and_then(member::count);
    Some(Reasoning {
        effort,
        budget,
        dynamic: shown && effort.is_none() && budget.is_none(),
        summary: shown.then(|| Text::plain("auto")),
        encrypted: true,
        ..Reasoning::default()
    })
}

/// Reads the members in [`OPENAI_WORDS`](crate::dialect::effort::OPENAI_WORDS).
pub(super) fn openai_reasoning<'a>(body: &Node<'a>) -> Option<Reasoning<'a>> {
    let word = body.get("reasoning_effort").or_else(|| body.path(&["reasoning", "effort"]));
    let effort = word.and_then(Node::str).and_then(|word| Effort::parse(&word));
    let budget = body.path(&["reasoning", "max_tokens"]).or_else(|| body.get("reasoning_budget"));
    let budget = budget.and_then(Node::u64);
    (effort.is_some() || budget.is_some()).then(|| Reasoning { effort, budget, ..Reasoning::default() })
}

/// Returns the instruction that demands one of several texts, which other dialects have no member for: the answer is that
/// text itself, not JSON.
fn choice_in_words(config: &Node<'_>) -> Option<Text<'static>> {
    let mime = member::get(config, "responseMimeType").and_then(Node::str)?;
    let schemas =
        ["responseJsonSchema", "responseSchema"].into_iter().find_map(|key| member::get(config, key));
    let choices = schemas.filter(|_| mime.eq_ignore_ascii_case("text/x.enum"))?.items_at("enum");
    let choices: Vec<_> = choices.iter().filter_map(Node::str).collect();
    (!choices.is_empty()).then(|| {
        let choices = choices.join("\n");
        Text::of(&format!(
            "Answer with one of these texts as it is written, and with nothing else:\n{choices}"
        ))
    })
}

fn format<'a>(config: &Node<'a>) -> Result<Option<Format<'a>>, ConversionError> {
    const OWN: &str = "generationConfig.responseSchema";
    let text = response_formats(config).iter().find_map(|format| member::get(format, "text"));
    let of_text = |name: &str| text.and_then(|text| member::get(text, name));
    let schema = match member::get(config, "responseJsonSchema").or_else(|| of_text("schema")) {
        Some(schema) => Some(schema.json()),
        None => {
            member::get(config, "responseSchema").map(|own| tools_read::json_schema(own, OWN)).transpose()?
        }
    };
    if schema.is_some() {
        return Ok(Some(Format::JsonSchema { name: None, description: None, schema, strict: None }));
    }
    let mime = member::get(config, "responseMimeType").or_else(|| of_text("mimeType")).and_then(Node::str);
    let is_json = matches!(mime.as_deref(), Some("application/json" | "APPLICATION_JSON"));
    Ok(is_json.then_some(Format::JsonObject))
}

/// Returns the forms of output that `responseFormat` asks for: it is one, or a list with one for each kind of output.
fn response_formats<'n, 'a>(config: &'n Node<'a>) -> &'n [Node<'a>] {
    match member::get(config, "responseFormat") {
        Some(list) if list.is_array() => list.items(),
        Some(format) => std::slice::from_ref(format),
        None => &[],
    }
}

/// Names the members that only this dialect has: answers in pictures or sound, and content stored at Google.
fn native(body: &Node<'_>, config: Option<&Node<'_>>) -> Vec<&'static str> {
    let modalities = config.map_or(&[][..], |config| member::items(config, "responseModalities"));
    let is_text = |modality: &Node<'_>| modality.str().is_some_and(|word| word.eq_ignore_ascii_case("text"));
    let speaks = config.is_some_and(|config| member::get(config, "speechConfig").is_some());
    let formats = config.map_or(&[][..], response_formats);
    let is_for_text = |format: &Node<'_>| format.members().iter().all(|(kind, _)| kind == "text");
    let context = [
        ("cachedContent", member::get(body, "cachedContent").is_some()),
        ("responseFormat", !formats.iter().all(is_for_text)),
        ("responseModalities", !modalities.iter().all(is_text)),
        ("speechConfig", speaks),
    ];
    context.into_iter().filter(|(_, context)| *context).map(|(name, _)| name).collect()
}
