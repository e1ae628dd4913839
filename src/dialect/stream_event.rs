//! One event of a streamed answer, parsed once for all its readers.
//!
//! ```text
//! bytes ─▶ sse::Scanner ─▶ StreamEvent ─┬▶ events             how far the answer has come, what it consumed
//!                                       ├▶ …::StreamReader    what it says, for another dialect
//!                                       └▶ …::Accumulator, TurnOutput    the whole answer in its own dialect
//! ```
//!
//! A container in the JSON is taken apart by the first reader that looks into it.

use std::borrow::Cow;
use std::cell::OnceCell;

use super::tree::Node;
use super::upstream_error::{self, UpstreamError};
use super::usage::{self, Usage};
use super::{Dialect, sse};

/// An event of a streamed answer.
#[derive(Debug)]
pub struct StreamEvent<'a> {
    /// The SSE name; empty when it has none.
    name: &'a [u8],
    kind: Cow<'a, str>,
    data: Data<'a>,
    usage: OnceCell<Option<Usage>>,
}

/// The data of an event.
#[derive(Debug)]
pub enum Data<'a> {
    Json(Node<'a>),
    /// `[DONE]`, with which some dialects end a stream, and some sites every stream.
    Done,
    /// Anything else, without blanks around it.
    Words(&'a str),
    /// Data too long to be held: the middle is missing.
    Cut(&'a str),
}

impl<'a> StreamEvent<'a> {
    /// Reads an event with its text.
    pub fn of(event: &sse::Event<'a>, text: &'a str) -> Self {
        if !event.cut {
            return Self::new(event.name, text);
        }
        let (kind, data) = (String::from_utf8_lossy(event.name), Data::Cut(text));
        Self { name: event.name, kind, data, usage: OnceCell::new() }
    }

    /// Reads an event with this name, which may be empty, and this data.
    pub fn new(name: &'a [u8], data: &'a str) -> Self {
        let data = match data.trim() {
            "[DONE]" => Data::Done,
            data => Node::parse(data).map_or(Data::Words(data), Data::Json),
        };
        let kind = match &data {
            Data::Json(json) => json.str_at("type"),
            _ => Cow::Borrowed(""),
        };
        let kind = if kind.is_empty() { String::from_utf8_lossy(name) } else { kind };
        Self { name, kind, data, usage: OnceCell::new() }
    }

    pub fn name(&self) -> &'a [u8] {
        self.name
    }

    pub fn data(&self) -> &Data<'a> {
        &self.data
    }

    pub fn json(&self) -> Option<&Node<'a>> {
        match &self.data {
            Data::Json(node) => Some(node),
            _ => None,
        }
    }

    pub fn is_done(&self) -> bool {
        matches!(self.data, Data::Done)
    }

    /// Whether it is an `event: error`, which is an error in every dialect.
    pub fn is_named_error(&self) -> bool {
        self.name == b"error"
    }

    /// Returns the `type` of the JSON, or else the event's name, where some sites give it alone.
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// Returns the usage that the event reports, as the upstream's dialect counts.
    pub fn usage(&self, dialect: Dialect) -> Option<Usage> {
        *self.usage.get_or_init(|| usage::of_event(dialect, self.json()?))
    }

    /// Returns the error that an event without JSON stands for: it is an error in words, or its content is lost, so
    /// that the answer cannot be whole. Words that were never meant to be JSON are not an error and are skipped.
    pub fn failure(&self) -> Option<UpstreamError> {
        match self.data {
            Data::Words("") if self.is_named_error() => Some(UpstreamError::without_message()),
            Data::Words(words) if self.is_named_error() => Some(upstream_error::read(200, words.as_bytes())),
            Data::Words(words) if words.starts_with('{') => {
                Some(UpstreamError::new("Upstream sent an event that is not valid JSON"))
            }
            Data::Cut(_) => Some(UpstreamError::new("Upstream sent an event that is too large to convert")),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_what_its_data_say() {
        for (name, data, kind, failure) in [
            ("", r#" {"type":"a"} "#, "a", None),
            ("b", r#"{"type":null}"#, "b", None),
            ("b", "[DONE]", "b", None),
            ("", "some words", "", None),
            ("", "", "", None),
            ("", r#"{"type":"#, "", Some("Upstream sent an event that is not valid JSON")),
            ("error", " gone ", "error", Some("gone")),
            ("error", "", "error", Some("Upstream reported an error in the stream")),
            ("error", "[DONE]", "error", None),
        ] {
            let event = StreamEvent::new(name.as_bytes(), data);
            assert_eq!((event.kind(), event.is_done()), (kind, data == "[DONE]"), "{name} {data}");
            assert_eq!(event.failure().map(|error| error.message).as_deref(), failure, "{name} {data}");
        }
    }

    #[test]
    fn usage_is_counted_as_its_dialect_counts() {
        let event = StreamEvent::new(b"", r#"{"response":{"usageMetadata":{"totalTokenCount":3}}}"#);
        assert_eq!(event.usage(Dialect::Gemini).and_then(|usage| usage.total), Some(3));
    }
}
