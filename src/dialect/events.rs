//! The meaning of one event of a stream, in each dialect.
//!
//! | | chat, completions | messages | responses |
//! |---|---|---|---|
//! | preamble | role-only or empty chunk | `message_start`, `ping` | `created`, `in_progress`, `queued` |
//! | | | empty block start | empty item or part |
//! | end | finish_reason, then `[DONE]` | `message_stop` | `completed`, `incomplete` |
//! | error | `{"error":…}` | `error` | `error`, `failed` |
//!
//! Streams of audio end with `speech.audio.done` or `transcript.text.done`.
//!
//! Everything else, known or not, is output: an event we do not understand may be what the client
//! waits for. An `event: error` is an error in every dialect.

use std::sync::LazyLock;

use memchr::memmem::{self, Finder};

use super::{
    Dialect,
    stream_event::{Data, StreamEvent},
    tree::Node,
    upstream_error::{UpstreamError, is_error},
    usage::{self, Usage},
};

/// The effect of an event on the stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    Plain,
    /// The answer is complete; `last` when nothing can follow it.
    End {
        last: bool,
    },
    Failure(UpstreamError),
}

/// The content of one event, as far as the gateway needs it.
#[derive(Debug)]
pub(super) struct Reading {
    pub meaning: Meaning,
    /// Whether it carries content, reasoning, a refusal or a tool call.
    pub output: bool,
    pub usage: Option<Usage>,
}

impl Reading {
    fn of(meaning: Meaning, output: bool) -> Self {
        Self { meaning, output, usage: None }
    }

    fn preamble() -> Self {
        Self::of(Meaning::Plain, false)
    }

    fn output() -> Self {
        Self::of(Meaning::Plain, true)
    }

    fn end(output: bool) -> Self {
        Self::of(Meaning::End { last: false }, output)
    }

    fn last(output: bool) -> Self {
        Self::of(Meaning::End { last: true }, output)
    }

    fn failure(error: &Node<'_>) -> Self {
        Self::of(
            Meaning::Failure(UpstreamError::of(error).unwrap_or_else(UpstreamError::without_message)),
            false,
        )
    }
}

/// Whether an event after the first output must be parsed. In doubt it says yes.
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
                || data == b"[DONE]"
                || terms.message.find(data).is_some()
                || terms.error.find(data).is_some()
        }
        Dialect::Responses => {
            is_terminal(name)
                || is_item(name)
                || terms.response.find(data).is_some()
                || terms.error.find(data).is_some()
                || name.is_empty() && terms.item.find(data).is_some()
        }
        Dialect::Audio => {
            name.ends_with(b".done") || terms.done.find(data).is_some() || terms.error.find(data).is_some()
        }
        Dialect::Embeddings | Dialect::Images | Dialect::Gemini => true,
    }
}

fn is_terminal(name: &[u8]) -> bool {
    matches!(name, b"response.completed" | b"response.incomplete" | b"response.done" | b"response.failed")
}

/// Whether an event tells of an item as a whole, with its id.
fn is_item(name: &[u8]) -> bool {
    matches!(name, b"response.output_item.added" | b"response.output_item.done")
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
    item: Finder<'static>,
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
    item: Finder::new("response.output_item."),
});

/// Whether the key occurs with a value other than `null` and `""`: many sites send empty ones in every chunk.
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

/// Reads an event.
pub(super) fn read(dialect: Dialect, event: &StreamEvent<'_>) -> Reading {
    let json = match event.data() {
        Data::Json(json) => json,
        Data::Done if matches!(dialect, Dialect::Chat | Dialect::Completions) => {
            return Reading::last(false);
        }
        // Some sites end every stream with `[DONE]`. It ends no response, and a message only after a stop reason.
        Data::Done => return Reading::preamble(),
        Data::Cut(data) => return read_cut(dialect, event, data.as_bytes()),
        Data::Words(words) => {
            return match event.failure().filter(|_| event.is_named_error()) {
                Some(error) => Reading::of(Meaning::Failure(error), false),
                // Words without JSON are an answer of some site's own; broken JSON says nothing yet.
                None if words.is_empty() || words.starts_with('{') => Reading::preamble(),
                None => Reading::output(),
            };
        }
    };
    if event.kind() == "error" || event.is_named_error() {
        return Reading::failure(json);
    }
    let mut reading = match dialect {
        Dialect::Chat | Dialect::Completions => read_chat(json),
        Dialect::Messages => read_messages(event.kind(), json),
        Dialect::Responses => read_responses(event.kind(), json),
        Dialect::Gemini => read_gemini(json),
        Dialect::Embeddings | Dialect::Images => read_image(event.kind(), json),
        Dialect::Audio => read_audio(event.kind(), json),
    };
    reading.usage = event.usage(dialect);
    reading
}

/// Whether an event of the messages dialect gives the reason why the answer stopped.
pub(super) fn has_stop_reason(event: &StreamEvent<'_>) -> bool {
    let reason = event.json().and_then(|json| json.path(&["delta", "stop_reason"]));
    event.kind() == "message_delta" && reason.is_some_and(|reason| !reason.is_null())
}

/// Whether the output of an event is nothing but blank text.
pub(super) fn has_blank_output(dialect: Dialect, event: &StreamEvent<'_>) -> bool {
    let Some(json) = event.json() else { return false };
    let says_nothing = |holder: &Node<'_>, known: &str| {
        holder.members().iter().all(|(key, value)| key == known || is_blank(value))
    };
    match dialect {
        Dialect::Chat | Dialect::Completions => json.items_at("choices").iter().all(|choice| {
            let delta = choice.get("delta").filter(|delta| delta.is_object()).or(choice.get("message"));
            delta.is_none_or(|delta| says_nothing(delta, "role")) && choice.get("text").is_none_or(is_blank)
        }),
        Dialect::Messages => match event.kind() {
            "content_block_start" => json.get("content_block").is_some_and(is_blank_text),
            "content_block_delta" => json.get("delta").is_some_and(|delta| says_nothing(delta, "type")),
            _ => false,
        },
        // A refused question has no candidates.
        Dialect::Gemini if json.items_at("candidates").is_empty() => false,
        Dialect::Gemini => json.items_at("candidates").iter().all(|candidate| {
            let parts = candidate.path(&["content", "parts"]).map_or(&[][..], Node::items);
            parts.iter().all(|part| says_nothing(part, ""))
        }),
        Dialect::Responses | Dialect::Embeddings | Dialect::Images | Dialect::Audio => false,
    }
}

/// Returns the ids of the items that an event of the responses dialect tells of as a whole.
pub(super) fn item_ids(event: &StreamEvent<'_>) -> impl Iterator<Item = String> {
    let json = event.json();
    let item = json.filter(|_| is_item(event.kind().as_bytes())).and_then(|json| json.get("item"));
    let ended = json.filter(|_| RESPONSE_ENDS.contains(&event.kind())).and_then(|json| json.get("response"));
    let items = ended.map_or(&[][..], |response| response.items_at("output"));
    item.into_iter().chain(items).filter_map(|item| item.text_at("id")).map(|id| id.decode().into_owned())
}

/// Returns the id of the response that an event ends.
pub(super) fn ended_id(event: &StreamEvent<'_>) -> Option<String> {
    let json = event.json().filter(|_| RESPONSE_ENDS.contains(&event.kind()))?;
    Some(json.get("response")?.text_at("id")?.decode().into_owned())
}

/// Reads an event too long to be held: it is content, or a terminal object that repeats all content.
fn read_cut(dialect: Dialect, event: &StreamEvent<'_>, data: &[u8]) -> Reading {
    let named = |kind: &str| {
        event.name() == kind.as_bytes() || memmem::find(data, format!("\"{kind}\"").as_bytes()).is_some()
    };
    let failure = || Reading::of(Meaning::Failure(UpstreamError::without_message()), false);
    let mut reading = match dialect {
        _ if event.is_named_error() => failure(),
        Dialect::Responses if named("response.failed") => failure(),
        Dialect::Responses if RESPONSE_ENDS.into_iter().any(named) => Reading::last(true),
        Dialect::Images if named("image_generation.completed") => Reading::last(true),
        Dialect::Audio if AUDIO_ENDS.into_iter().any(named) => Reading::last(true),
        // Whole answers in one event, and images, have the finish reason after them.
        Dialect::Chat | Dialect::Completions if is_filled(&SEARCH_TERMS.finish_reason, data) => {
            Reading::end(true)
        }
        Dialect::Gemini if is_filled(&SEARCH_TERMS.gemini_reason, data) => Reading::end(true),
        _ => Reading::output(),
    };
    reading.usage = usage::of_tail(dialect, data);
    reading
}

fn read_chat(event: &Node<'_>) -> Reading {
    if states_error(event) || event.get("choices").is_none() && is_bare_error(event) {
        return Reading::failure(event);
    }
    let choices = event.items_at("choices");
    if let Some(broken) = choices.iter().find(|choice| is_broken_choice(choice)) {
        return Reading::of(Meaning::Failure(error_of_choice(broken)), false);
    }
    let output = choices.iter().any(|choice| {
        let delta = choice.get("delta").filter(|delta| delta.is_object()).or(choice.get("message"));
        has_more_than(delta, "role") || has_content(choice, "text")
    });
    if choices.iter().any(|choice| has_content(choice, "finish_reason")) {
        return Reading::end(output);
    }
    Reading::of(Meaning::Plain, output)
}

/// Whether a choice of the chat dialect ended with an error.
pub(super) fn is_broken_choice(choice: &Node<'_>) -> bool {
    choice.str_at("finish_reason") == "error"
}

/// Reads the error of a choice that ended with one. Its `message` is the answer up to then, not the error.
pub(super) fn error_of_choice(choice: &Node<'_>) -> UpstreamError {
    let stated = choice.get("error").and_then(|_| UpstreamError::of(choice));
    stated.unwrap_or_else(|| UpstreamError::new("Upstream reported an error in its answer"))
}

fn read_messages(kind: &str, event: &Node<'_>) -> Reading {
    match kind {
        "message_start" | "ping" | "content_block_stop" | "message_delta" => Reading::preamble(),
        "message_stop" => Reading::last(false),
        "content_block_start" => {
            let block = event.get("content_block");
            match block.map(|block| block.str_at("type")).as_deref() {
                Some("text" | "thinking") => Reading::of(Meaning::Plain, has_more_than(block, "type")),
                _ => Reading::output(),
            }
        }
        "content_block_delta" => Reading::of(Meaning::Plain, has_more_than(event.get("delta"), "type")),
        _ if states_error(event) || kind.is_empty() && is_bare_error(event) => Reading::failure(event),
        _ => Reading::output(),
    }
}

fn read_responses(kind: &str, event: &Node<'_>) -> Reading {
    let response = event.get("response");
    match kind {
        "response.created" | "response.in_progress" | "response.queued" | "keepalive" | "ping" => {
            Reading::preamble()
        }
        "response.output_item.added" => {
            Reading::of(Meaning::Plain, event.get("item").is_none_or(is_output_item))
        }
        "response.content_part.added" | "response.reasoning_summary_part.added" => {
            Reading::of(Meaning::Plain, event.get("part").is_some_and(is_output_part))
        }
        "response.failed" => Reading::failure(response.filter(|it| states_error(it)).unwrap_or(event)),
        kind if RESPONSE_ENDS.contains(&kind) => match response {
            Some(response) if response.str_at("status") == "failed" => Reading::failure(response),
            _ => {
                let items = response.map_or(&[][..], |response| response.items_at("output"));
                Reading::last(items.iter().any(is_answer_item))
            }
        },
        _ if states_error(event) || kind.is_empty() && is_bare_error(event) => Reading::failure(event),
        _ => Reading::output(),
    }
}

fn read_gemini(event: &Node<'_>) -> Reading {
    if states_error(event) || event.get("candidates").is_none() && is_bare_error(event) {
        return Reading::failure(event);
    }
    if event.path(&["promptFeedback", "blockReason"]).is_some() {
        // This is the whole answer: the question was refused.
        return Reading::end(true);
    }
    let candidates = event.items_at("candidates");
    let output =
        candidates.iter().any(|candidate| candidate.path(&["content", "parts"]).is_some_and(is_content));
    let ends = |candidate: &Node<'_>| {
        ["finishReason", "finish_reason"].iter().any(|key| has_content(candidate, key))
    };
    if candidates.iter().any(ends) {
        return Reading::end(output);
    }
    Reading::of(Meaning::Plain, output)
}

fn read_image(kind: &str, event: &Node<'_>) -> Reading {
    if states_error(event) {
        return Reading::failure(event);
    }
    if kind.ends_with(".completed") { Reading::last(true) } else { Reading::output() }
}

/// The last events of a response that has not failed. Codex's backend and relays of its sockets write the third.
pub const RESPONSE_ENDS: [&str; 3] = ["response.completed", "response.incomplete", "response.done"];
/// The last events of streamed speech and of a streamed transcript.
const AUDIO_ENDS: [&str; 2] = ["speech.audio.done", "transcript.text.done"];

fn read_audio(kind: &str, event: &Node<'_>) -> Reading {
    if states_error(event) {
        return Reading::failure(event);
    }
    if AUDIO_ENDS.contains(&kind) { Reading::last(true) } else { Reading::output() }
}

fn states_error(holder: &Node<'_>) -> bool {
    holder.get("error").is_some_and(is_error)
}

/// Whether an object that is no event of its dialect is an error in the form of a hub: words beside a code, or beside
/// `success`, which is false.
fn is_bare_error(object: &Node<'_>) -> bool {
    let has_words = ["message", "msg"].iter().any(|key| object.get(key).is_some_and(Node::is_string));
    let fails = object.get("success").is_some_and(|success| success.raw() == "false");
    has_words && (fails || object.get("code").is_some())
}

/// Whether an item of a response's `output` is more than an empty message or empty reasoning.
fn is_output_item(item: &Node<'_>) -> bool {
    let parts = |key: &str| item.items_at(key).iter().any(is_output_part);
    match item.str_at("type").as_ref() {
        "message" => parts("content") || item.text_at("content").is_some_and(|text| !text.is_empty()),
        "reasoning" => parts("content") || parts("summary") || has_content(item, "encrypted_content"),
        _ => true,
    }
}

/// Whether an item of a finished response is an answer: all are, except an empty message. Reasoning counts even if it
/// is empty, unlike at the beginning of a stream, where it may still be filled.
pub(super) fn is_answer_item(item: &Node<'_>) -> bool {
    item.str_at("type") == "reasoning" || is_output_item(item)
}

fn is_output_part(part: &Node<'_>) -> bool {
    has_more_than(Some(part), "type")
}

/// Whether an object has a member other than `known` that holds anything.
fn has_more_than(object: Option<&Node<'_>>, known: &str) -> bool {
    let members = object.map_or(&[][..], Node::members);
    members.iter().any(|(key, value)| key != known && is_content(value))
}

fn has_content(holder: &Node<'_>, key: &str) -> bool {
    holder.get(key).is_some_and(is_content)
}

/// Whether a value is more than an empty form: `null`, `true`, `false`, `""`, `[]` and `{}` are not, nor is a list or
/// object of only these.
pub(super) fn is_content(value: &Node<'_>) -> bool {
    match value.raw().as_bytes() {
        [b'n' | b't' | b'f', ..] => false,
        [b'"', ..] => value.raw().len() > 2,
        [b'[', ..] => value.items().iter().any(is_content),
        [b'{', ..] => value.members().iter().any(|(_, value)| is_content(value)),
        _ => true,
    }
}

/// Whether a value is empty, or nothing but blank text.
pub(super) fn is_blank(value: &Node<'_>) -> bool {
    match value.text() {
        Some(text) => text.is_blank(),
        None if value.is_array() => value.items().iter().all(|part| !is_content(part) || is_blank_text(part)),
        None => !is_content(value),
    }
}

/// Whether a part is a text part with nothing in it.
pub(super) fn is_blank_text(part: &Node<'_>) -> bool {
    part.str_at("type") == "text" && part.get("text").is_none_or(is_blank)
}
