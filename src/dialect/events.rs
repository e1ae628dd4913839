//! What one event of a stream means, in each dialect.
//!
//! | | chat, completions | messages | responses |
//! |---|---|---|---|
//! | preamble | role-only or empty chunk | `message_start`, empty block start, `ping` | `created`, `in_progress`, `queued`, empty item or part |
//! | end | finish_reason, then `[DONE]` | `message_stop` | `completed`, `incomplete` |
//! | error | `{"error":…}` | `error` | `error`, `failed` |
//!
//! Streams of audio end with `speech.audio.done` or `transcript.text.done`.
//!
//! Everything else, known or not, is output: an event we do not understand may be what the client
//! waits for. An `event: error` is an error in every dialect.

use super::{
    Dialect, json,
    upstream_error::{UpstreamError, is_error},
    usage::{self, Usage},
};
use memchr::memmem::{self, Finder};
use serde_json::Value;
use std::sync::LazyLock;

/// What an event does to the stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    Plain,
    /// The answer is complete; `last` when nothing can follow it.
    End {
        last: bool,
    },
    Failure(UpstreamError),
}

/// What one event says.
#[derive(Debug)]
pub(super) struct Reading {
    pub meaning: Meaning,
    /// It carries content, reasoning, a refusal or a tool call.
    pub output: bool,
    pub usage: Option<Usage>,
    /// `sequence_number` (responses).
    pub sequence: Option<u64>,
    /// The response as the first event has it, in JSON (responses).
    pub begun: Option<String>,
}

impl Reading {
    fn of(meaning: Meaning, output: bool) -> Self {
        Self { meaning, output, usage: None, sequence: None, begun: None }
    }

    fn preamble() -> Self {
        Self::of(Meaning::Plain, false)
    }

    fn output() -> Self {
        Self::of(Meaning::Plain, true)
    }

    fn end(last: bool, output: bool) -> Self {
        Self::of(Meaning::End { last }, output)
    }

    fn failure(error: &Value) -> Self {
        let error = UpstreamError::of_json(error)
            .unwrap_or_else(|| UpstreamError::new("Upstream reported an error in the stream"));
        Self::of(Meaning::Failure(error), false)
    }
}

/// Whether an event after the first output must be parsed. Says yes too often rather than not.
pub(super) fn may_matter(dialect: Dialect, name: &[u8], data: &[u8]) -> bool {
    if name == b"error" {
        return true;
    }
    let terms = &*SEARCH_TERMS;
    match dialect {
        Dialect::Chat | Dialect::Completions => {
            terms.choices.find(data).is_none()
                || is_filled(&terms.finish_reason, data)
                || is_filled(&terms.usage, data)
                || is_filled(&terms.error, data)
        }
        Dialect::Messages => {
            name == b"message_delta"
                || name == b"message_stop"
                || terms.message.find(data).is_some()
                || terms.error.find(data).is_some()
        }
        Dialect::Responses => {
            is_terminal(name) || terms.response.find(data).is_some() || terms.error.find(data).is_some()
        }
        Dialect::Audio => {
            name.ends_with(b".done") || terms.done.find(data).is_some() || terms.error.find(data).is_some()
        }
        Dialect::Embeddings | Dialect::Images | Dialect::Gemini => true,
    }
}

fn is_terminal(name: &[u8]) -> bool {
    matches!(name, b"response.completed" | b"response.incomplete" | b"response.failed")
}

struct SearchTerms {
    choices: Finder<'static>,
    finish_reason: Finder<'static>,
    gemini_reason: Finder<'static>,
    usage: Finder<'static>,
    error: Finder<'static>,
    done: Finder<'static>,
    message: Finder<'static>,
    response: Finder<'static>,
}

static SEARCH_TERMS: LazyLock<SearchTerms> = LazyLock::new(|| SearchTerms {
    choices: Finder::new("\"choices\""),
    finish_reason: Finder::new("\"finish_reason\""),
    gemini_reason: Finder::new("\"finishReason\""),
    usage: Finder::new("\"usage\""),
    error: Finder::new("\"error\""),
    done: Finder::new(".done\""),
    message: Finder::new("\"message_"),
    response: Finder::new("\"response\""),
});

/// Whether the key stands there with a value other than `null` and `""`: many sites send empty ones
/// in every chunk.
fn is_filled(key: &Finder<'_>, data: &[u8]) -> bool {
    let mut from = 0;
    while let Some(at) = key.find(&data[from..]) {
        from += at + key.needle().len();
        let rest = data[from..].trim_ascii_start();
        let Some(value) = rest.strip_prefix(b":").map(<[u8]>::trim_ascii_start) else { continue };
        if !value.starts_with(b"null") && !value.starts_with(b"\"\"") {
            return true;
        }
    }
    false
}

/// Reads an event. `cut` tells that the middle of `data` is missing.
pub(super) fn read(dialect: Dialect, name: &[u8], data: &[u8], cut: bool) -> Reading {
    let data = data.trim_ascii();
    if data == b"[DONE]" {
        return match dialect {
            Dialect::Chat | Dialect::Completions => Reading::end(true, false),
            // Some sites end every stream so; here it ends nothing.
            _ => Reading::preamble(),
        };
    }
    if cut {
        return read_cut(dialect, name, data);
    }
    let Some(event) = json::tree(data) else {
        if name == b"error" {
            return Reading::failure(&Value::String(String::from_utf8_lossy(data).into_owned()));
        }
        // Words without JSON are an answer of some site's own; JSON that is broken says nothing yet.
        let says_nothing = matches!(data.trim_ascii_start(), [] | [b'{', ..]);
        return if says_nothing { Reading::preamble() } else { Reading::output() };
    };
    if name == b"error" || event["type"] == "error" {
        return Reading::failure(&event);
    }
    let mut reading = match dialect {
        Dialect::Chat | Dialect::Completions => read_chat(&event),
        Dialect::Messages => read_messages(kind(&event, name), &event),
        Dialect::Responses => read_responses(kind(&event, name), &event),
        Dialect::Gemini => read_gemini(&event),
        Dialect::Embeddings | Dialect::Images => read_image(kind(&event, name), &event),
        Dialect::Audio => read_audio(kind(&event, name), &event),
    };
    reading.usage = usage::of_event(dialect, &event);
    if dialect == Dialect::Responses && kind(&event, name) == "response.created" {
        let text = std::str::from_utf8(data).unwrap_or_default();
        reading.begun = json::member(text, "response").map(str::to_owned);
    }
    reading
}

/// The `type` of an event, which some sites only give as its name.
fn kind<'a>(event: &'a Value, name: &'a [u8]) -> &'a str {
    event["type"].as_str().unwrap_or_else(|| std::str::from_utf8(name).unwrap_or_default())
}

/// An event too long to be held is content, or a terminal object that repeats all content.
fn read_cut(dialect: Dialect, name: &[u8], data: &[u8]) -> Reading {
    let named = |kind: &str| {
        name == kind.as_bytes() || memmem::find(data, format!("\"{kind}\"").as_bytes()).is_some()
    };
    let mut reading = match dialect {
        _ if name == b"error" => Reading::failure(&Value::Null),
        Dialect::Responses if named("response.failed") => Reading::failure(&Value::Null),
        Dialect::Responses if named("response.completed") || named("response.incomplete") => {
            Reading::end(true, true)
        }
        Dialect::Images if named("image_generation.completed") => Reading::end(true, true),
        Dialect::Audio if AUDIO_ENDS.into_iter().any(named) => Reading::end(true, true),
        // Whole answers in one event, and images, have their reason behind them.
        Dialect::Chat | Dialect::Completions if is_filled(&SEARCH_TERMS.finish_reason, data) => {
            Reading::end(false, true)
        }
        Dialect::Gemini if is_filled(&SEARCH_TERMS.gemini_reason, data) => Reading::end(false, true),
        _ => Reading::output(),
    };
    reading.usage = usage::of_tail(dialect, data);
    reading
}

fn read_chat(event: &Value) -> Reading {
    if is_error(&event["error"]) {
        return Reading::failure(event);
    }
    let choices = list(&event["choices"]);
    let bare_error = event["choices"].is_null() && event["message"].is_string() && !event["code"].is_null();
    if bare_error {
        return Reading::failure(event);
    }
    let output = choices.iter().any(|choice| {
        let delta = if choice["delta"].is_object() { &choice["delta"] } else { &choice["message"] };
        has_more_than(delta, "role") || is_content(&choice["text"])
    });
    if choices.iter().any(|choice| is_content(&choice["finish_reason"])) {
        return Reading::end(false, output);
    }
    Reading::of(Meaning::Plain, output)
}

fn read_messages(kind: &str, event: &Value) -> Reading {
    match kind {
        "message_start" | "ping" | "content_block_stop" | "message_delta" => Reading::preamble(),
        "message_stop" => Reading::end(true, false),
        "content_block_start" => {
            let block = &event["content_block"];
            match block["type"].as_str() {
                Some("text" | "thinking") => Reading::of(Meaning::Plain, has_more_than(block, "type")),
                _ => Reading::output(),
            }
        }
        "content_block_delta" => Reading::of(Meaning::Plain, has_more_than(&event["delta"], "type")),
        _ if is_error(&event["error"]) => Reading::failure(event),
        _ => Reading::output(),
    }
}

fn read_responses(kind: &str, event: &Value) -> Reading {
    let response = &event["response"];
    let mut reading = match kind {
        "response.created" | "response.in_progress" | "response.queued" | "keepalive" | "ping" => {
            Reading::preamble()
        }
        "response.output_item.added" => Reading::of(Meaning::Plain, is_output_item(&event["item"])),
        "response.content_part.added" | "response.reasoning_summary_part.added" => {
            Reading::of(Meaning::Plain, is_output_part(&event["part"]))
        }
        "response.failed" => Reading::failure(if is_error(&response["error"]) { response } else { event }),
        "response.completed" | "response.incomplete" if response["status"] == "failed" => {
            Reading::failure(response)
        }
        "response.completed" | "response.incomplete" => {
            Reading::end(true, list(&response["output"]).iter().any(is_answer_item))
        }
        _ if is_error(&event["error"]) => Reading::failure(event),
        _ => Reading::output(),
    };
    reading.sequence = event["sequence_number"].as_u64();
    reading
}

fn read_gemini(event: &Value) -> Reading {
    if is_error(&event["error"]) {
        return Reading::failure(event);
    }
    if !event["promptFeedback"]["blockReason"].is_null() {
        // The whole answer: the question was refused.
        return Reading::end(false, true);
    }
    let candidates = list(&event["candidates"]);
    let output = candidates.iter().any(|candidate| is_content(&candidate["content"]["parts"]));
    let ends =
        |candidate: &Value| ["finishReason", "finish_reason"].iter().any(|key| is_content(&candidate[*key]));
    if candidates.iter().any(ends) {
        return Reading::end(false, output);
    }
    Reading::of(Meaning::Plain, output)
}

fn read_image(kind: &str, event: &Value) -> Reading {
    if is_error(&event["error"]) {
        return Reading::failure(event);
    }
    if kind.ends_with(".completed") { Reading::end(true, true) } else { Reading::output() }
}

/// The last events of streamed speech and of a streamed transcript.
const AUDIO_ENDS: [&str; 2] = ["speech.audio.done", "transcript.text.done"];

fn read_audio(kind: &str, event: &Value) -> Reading {
    if is_error(&event["error"]) {
        return Reading::failure(event);
    }
    if AUDIO_ENDS.contains(&kind) { Reading::end(true, true) } else { Reading::output() }
}

/// Whether an item of a response's `output` is more than an empty message or empty reasoning.
fn is_output_item(item: &Value) -> bool {
    let parts = |key: &str| list(&item[key]).iter().any(is_output_part);
    match item["type"].as_str() {
        Some("message") => parts("content") || item["content"].as_str().is_some_and(|text| !text.is_empty()),
        Some("reasoning") => parts("content") || parts("summary") || is_content(&item["encrypted_content"]),
        _ => true,
    }
}

/// Whether an item of a finished response is an answer: all are but an empty message. One that only
/// begins may still be filled.
pub(super) fn is_answer_item(item: &Value) -> bool {
    item["type"] == "reasoning" || is_output_item(item)
}

fn is_output_part(part: &Value) -> bool {
    has_more_than(part, "type")
}

/// The items of an array; none of anything else.
pub(super) fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// Whether an object has a member other than `known` that holds anything.
fn has_more_than(object: &Value, known: &str) -> bool {
    let Some(members) = object.as_object() else { return false };
    members.iter().any(|(key, value)| key != known && is_content(value))
}

/// Whether a value is more than an empty form: `null`, `false`, `""`, `[]` and `{}` are none, nor is
/// a list or object of nothing else.
pub(super) fn is_content(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(_) => false,
        Value::Number(_) => true,
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => items.iter().any(is_content),
        Value::Object(members) => members.values().any(is_content),
    }
}
