//! Reads a request body.

use super::{tools_read, turns_read::Messages};
use crate::dialect::cache_marks::{self, CacheMarks};
use crate::dialect::canonical::{ConversionError, Effort, Format, Reasoning, Request, Turn};
use crate::dialect::literal::Text;
use crate::dialect::tree::Node;

/// Members that the responses dialect has too, with the same meaning.
const SHARED: [&str; 6] = [
    "prompt_cache_retention",
    "truncation",
    "include",
    "background",
    "previous_response_id",
    "max_tool_calls",
];

/// Reads a request body.
pub fn read_request<'a>(body: &Node<'a>) -> Result<Request<'a>, ConversionError> {
    let messages = all_messages(body)?;
    let number = |key: &str| body.get(key).filter(|node| node.f64().is_some()).map(Node::json);
    let object = |key: &str| body.get(key).filter(|node| node.is_object()).map(Node::json);
    let mut request = Request {
        tools: tools_read::tools(body),
        cache_marks: CacheMarks {
            request: cache_marks::of(body),
            tools: tools_read::cache_marks(body),
            system: messages.system_marks,
        },
        tool_choice: tools_read::choice(body),
        parallel: body.bool_at("parallel_tool_calls"),
        max_output: max_output(body)?,
        temperature: number("temperature"),
        top_p: number("top_p"),
        top_k: number("top_k"),
        stop: read_stop(body)?.into_iter().filter(|text| !text.is_empty()).collect(),
        reasoning: reasoning(body),
        format: format(body),
        verbosity: body.text_at("verbosity"),
        user: body.text_at("user"),
        user_is_opaque: false,
        safety_identifier: body.text_at("safety_identifier"),
        metadata: object("metadata"),
        cache_key: body.text_at("prompt_cache_key"),
        service_tier: body.text_at("service_tier"),
        store: body.bool_at("store"),
        seed: number("seed"),
        frequency_penalty: number("frequency_penalty"),
        presence_penalty: number("presence_penalty"),
        logit_bias: object("logit_bias"),
        n: body.u64_at("n").filter(|n| *n > 1),
        logprobs: body.bool_at("logprobs") == Some(true),
        top_logprobs: number("top_logprobs"),
        openai: SHARED.iter().filter_map(|key| Some((*key, body.json_at(key)?))).collect(),
        native: native(body),
        system: messages.system,
        turns: messages.turns,
    };
    if let Some(obfuscation) = body.path(&["stream_options", "include_obfuscation"]) {
        request.openai.push(("include_obfuscation", obfuscation.json()));
    }
    Ok(request)
}

/// Reads the limit of the answer. A number below 1 is no limit; what is no number at all is refused, because the client
/// would rely on it.
fn max_output(body: &Node<'_>) -> Result<Option<u64>, ConversionError> {
    for key in ["max_completion_tokens", "max_tokens"] {
        let Some(given) = body.get(key) else { continue };
        let limit =
            given.is_number().then(|| given.u64()).or_else(|| given.str()?.trim().parse().ok().map(Some));
        let limit = limit.ok_or_else(|| ConversionError::invalid(key, "must be a whole number"))?;
        if let Some(limit) = limit.filter(|limit| *limit > 0) {
            return Ok(Some(limit));
        }
    }
    Ok(None)
}

/// Reads the messages of a body of another dialect that has them, as instructions and turns.
pub fn read_messages<'a>(body: &Node<'a>) -> Result<(Vec<Text<'a>>, Vec<Turn<'a>>), ConversionError> {
    all_messages(body).map(|messages| (messages.system, messages.turns))
}

fn all_messages<'a>(body: &Node<'a>) -> Result<Messages<'a>, ConversionError> {
    let mut messages = Messages::default();
    for (index, message) in messages_of(body)?.iter().enumerate() {
        messages.read(index, message)?;
    }
    Ok(messages)
}

fn messages_of<'n, 'a>(body: &'n Node<'a>) -> Result<&'n [Node<'a>], ConversionError> {
    match body.get("messages") {
        Some(messages) if !messages.items().is_empty() => Ok(messages.items()),
        None if body.get("input").is_some() => {
            Err(ConversionError::invalid("messages", "is missing; send a body with input to /v1/responses"))
        }
        _ => Err(ConversionError::invalid("messages", "must be a list of at least one message")),
    }
}

/// Reads the stop sequences of an OpenAI body: a string or a list of strings.
pub fn read_stop<'a>(body: &Node<'a>) -> Result<Vec<Text<'a>>, ConversionError> {
    let Some(stop) = body.get("stop") else { return Ok(Vec::new()) };
    let all = if stop.is_array() { stop.items() } else { std::slice::from_ref(stop) };
    let texts: Option<Vec<_>> = all.iter().map(Node::text).collect();
    texts.ok_or_else(|| ConversionError::invalid("stop", "must be a string or a list of strings"))
}

/// Reads the wish for thinking: `reasoning_effort`, or the objects `reasoning` and `thinking` of aggregators and
/// other vendors. Thinking that is only switched on has the effort that is usual where none is named.
fn reasoning<'a>(body: &Node<'a>) -> Reasoning<'a> {
    let effort = body.get("reasoning_effort").or(body.path(&["reasoning", "effort"]));
    let effort = effort.and_then(Node::str).and_then(|word| Effort::parse(&word));
    let budgets = [&["reasoning", "max_tokens"][..], &["thinking", "budget_tokens"], &["reasoning_budget"]];
    let budget = budgets.iter().find_map(|path| body.path(path)?.u64());
    let summary = body.get("reasoning_summary").or(body.path(&["reasoning", "summary"]));
    let thinking = body.path(&["thinking", "type"]).and_then(Node::str);
    let enabled = body.path(&["reasoning", "enabled"]).and_then(Node::bool);
    let off = thinking.as_deref() == Some("disabled") || enabled == Some(false);
    let on = matches!(thinking.as_deref(), Some("enabled" | "adaptive")) || enabled == Some(true);
    let effort = effort.or((on && budget.is_none()).then_some(Effort::Medium));
    let wanted = budget.is_some_and(|budget| budget > 0) || effort.is_some_and(|it| it != Effort::None);
    Reasoning {
        effort,
        budget,
        summary: summary.and_then(Node::text),
        off,
        dynamic: false,
        // A client that asks for thinking is shown it with its signature, and may send both along next time.
        encrypted: wanted && !off,
    }
}

fn format<'a>(body: &Node<'a>) -> Option<Format<'a>> {
    let format = body.get("response_format")?;
    match &*format.str_at("type") {
        "text" => Some(Format::Text),
        "json_object" => Some(Format::JsonObject),
        "json_schema" => {
            let schema = format.get("json_schema").unwrap_or(format);
            Some(Format::JsonSchema {
                name: schema.text_at("name"),
                description: schema.text_at("description"),
                schema: schema.json_at("schema"),
                strict: schema.bool_at("strict"),
            })
        }
        _ => None,
    }
}

/// Names the members that ask for spoken answers, which only this dialect has.
fn native(body: &Node<'_>) -> Vec<&'static str> {
    let speaks =
        body.items_at("modalities").iter().any(|modality| modality.str().as_deref() == Some("audio"));
    let audio = body.get("audio").is_some_and(|audio| !audio.members().is_empty());
    let context = [("modalities", speaks), ("audio", audio)];
    context.into_iter().filter(|(_, context)| *context).map(|(name, _)| name).collect()
}
