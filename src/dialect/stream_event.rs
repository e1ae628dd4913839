//! One event of a streamed answer, parsed once for everybody who works on it.
//!
//! ```text
//! bytes ─▶ sse::Scanner ─▶ StreamEvent ─┬▶ events             how far the answer has come, what it consumed
//!                                       ├▶ …::StreamReader    what it says, for another dialect
//!                                       └▶ …::Accumulator, TurnOutput    the whole answer in its own dialect
//! ```
//!
//! A container in the JSON is taken apart by whoever looks into it first.

use std::borrow::Cow;

use super::sse;
use super::tree::Node;
use super::upstream_error::{self, UpstreamError};

/// An event of a streamed answer.
#[derive(Debug)]
pub struct StreamEvent<'a> {
    /// Its SSE name; empty when it has none.
    name: &'a [u8],
    data: Data<'a>,
}

/// What the data of an event is.
#[derive(Debug)]
pub enum Data<'a> {
    Json(Node<'a>),
    /// `[DONE]`, by which some dialects end a stream, and some sites every one.
    Done,
    /// Anything else, without blanks around it.
    Words(&'a str),
    /// It was too long to be held: its middle is missing.
    Cut(&'a str),
}

impl<'a> StreamEvent<'a> {
    /// Reads an event, of which this is the text.
    pub fn of(event: &sse::Event<'a>, text: &'a str) -> Self {
        match event.cut {
            true => Self { name: event.name, data: Data::Cut(text) },
            false => Self::new(event.name, text),
        }
    }

    /// Reads an event of this name, which may be empty, and these data.
    pub fn new(name: &'a [u8], data: &'a str) -> Self {
        let data = match data.trim() {
            "[DONE]" => Data::Done,
            data => Node::parse(data).map_or(Data::Words(data), Data::Json),
        };
        Self { name, data }
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

    /// An `event: error` is an error in every dialect.
    pub fn is_named_error(&self) -> bool {
        self.name == b"error"
    }

    /// The `type` of its JSON, which some sites only give as its name.
    pub fn kind(&self) -> Cow<'a, str> {
        let kind = self.json().map(|event| event.str_at("type")).unwrap_or_default();
        if kind.is_empty() { String::from_utf8_lossy(self.name) } else { kind }
    }

    /// What an event without JSON tells of what went wrong: it is an error in words, or what it said is lost, so that
    /// the answer cannot be whole. Words that never meant to be JSON say nothing and are passed over.
    pub fn failure(&self) -> Option<UpstreamError> {
        match self.data {
            Data::Words("") if self.is_named_error() => Some(UpstreamError::unsaid()),
            Data::Words(words) if self.is_named_error() => Some(upstream_error::read(200, words.as_bytes())),
            Data::Words(words) if words.starts_with('{') => {
                Some(UpstreamError::new("Upstream sent an event that is not valid JSON"))
            }
            Data::Cut(_) => Some(UpstreamError::new("Upstream sent an event that is too large to convert")),
            _ => None,
        }
    }
}
