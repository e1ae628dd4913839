//! Answers in the form of no dialect, whole and streamed.

use super::super::Dialect;
use super::super::citation::Citation;
use super::super::literal::Text;
use super::super::logprobs::Token;
use super::super::names::Names;
use super::super::search::Found;
use super::super::signature::Signature;
use super::super::upstream_error::UpstreamError;
use super::super::usage::Usage;
use super::{CallKind, Part};

/// The most answers that OpenAI gives to one request; what an upstream sends beyond is not read.
pub const MAX_CHOICES: usize = 128;

/// A complete answer.
#[derive(Clone, Debug, Default)]
pub struct Reply<'a> {
    pub id: Text<'a>,
    pub model: Text<'a>,
    /// Seconds since 1970.
    pub created: Option<u64>,
    /// Usually one; several when the client asked for them.
    pub candidates: Vec<Candidate<'a>>,
    /// Its `prompt` counts all input, what was read from caches and written to them included.
    pub usage: Option<Usage>,
}

/// One of the answers that a reply holds.
#[derive(Clone, Debug, Default)]
pub struct Candidate<'a> {
    pub parts: Vec<Part<'a>>,
    /// Where the texts among the parts come from, each with the place of its part, in the order of the parts.
    pub citations: Vec<(usize, Citation<'a>)>,
    /// The tokens of the texts, each with the place of its part, in the order of the parts.
    pub logprobs: Vec<(usize, Token<'a>)>,
    pub stop: Stop<'a>,
}

impl<'a> Candidate<'a> {
    /// The citations of the part in that place.
    pub fn citations_of(&self, place: usize) -> impl Iterator<Item = &Citation<'a>> {
        of_part(&self.citations, place)
    }

    /// The tokens of the part in that place.
    pub fn tokens_of(&self, place: usize) -> impl Iterator<Item = &Token<'a>> {
        of_part(&self.logprobs, place)
    }
}

/// Those of one part among entries in the order of their parts.
fn of_part<T>(entries: &[(usize, T)], place: usize) -> impl Iterator<Item = &T> {
    let start = entries.partition_point(|(part, _)| *part < place);
    entries[start..].iter().take_while(move |(part, _)| *part == place).map(|(_, entry)| entry)
}

/// Why the model stopped.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Stop<'a> {
    #[default]
    End,
    /// With the sequence, when it is known.
    Sequence(Option<Text<'a>>),
    ToolCall,
    OutputLimit,
    ContextFull,
    Filtered,
    /// A server-side tool loop paused; the client sends the same again.
    Paused,
}

impl Stop<'_> {
    pub fn into_owned(self) -> Stop<'static> {
        match self {
            Self::Sequence(sequence) => Stop::Sequence(sequence.map(Text::into_owned)),
            Self::End => Stop::End,
            Self::ToolCall => Stop::ToolCall,
            Self::OutputLimit => Stop::OutputLimit,
            Self::ContextFull => Stop::ContextFull,
            Self::Filtered => Stop::Filtered,
            Self::Paused => Stop::Paused,
        }
    }
}

/// A step of a streamed answer.
///
/// Readers keep the grammar: every `PartStart` has a `PartStop`, deltas name a part that is open,
/// nothing but `Usage` and `End` follows `Finish`, nothing follows `Fail` and `End`. Keys count
/// parts from 0 in the order of their start.
#[derive(Clone, Debug, PartialEq)]
pub enum Event<'a> {
    Start {
        id: Text<'a>,
        model: Text<'a>,
        created: Option<u64>,
    },
    /// The model's name, of an upstream that tells it when its answer has begun.
    Model(Text<'a>),
    PartStart {
        key: u32,
        part: PartKind<'a>,
    },
    /// More text, thinking, refusal or input of the part.
    Delta {
        key: u32,
        text: Text<'a>,
    },
    /// The tokens of what the next delta of the part says, or of what has been said of it.
    Logprobs {
        key: u32,
        tokens: Vec<Token<'a>>,
    },
    /// Where the text of the part, or what of it has come, is taken from.
    Cite {
        key: u32,
        citation: Citation<'a>,
    },
    /// How the search ended whose query the part says.
    Found {
        key: u32,
        found: Found<'a>,
    },
    /// The signature of a part of thinking, or of a call that began without it.
    Signature {
        key: u32,
        signature: Signature<'a>,
    },
    PartStop {
        key: u32,
    },
    /// What has been consumed so far, counted as in [`Reply::usage`]; later ones are merged field by field.
    Usage(Usage),
    Finish(Stop<'a>),
    Fail(UpstreamError),
    /// The upstream's own end of stream was seen. Without it the connection broke.
    End,
}

/// The most parts of a streamed answer that may stand open at once, or wait for their beginning: a model makes some
/// dozens of calls side by side.
pub const MAX_OPEN_PARTS: usize = 4096;

/// What ends a stream that has more.
pub fn too_many_parts() -> UpstreamError {
    UpstreamError::new(format!("Upstream's answer has more than {MAX_OPEN_PARTS} parts at once"))
}

/// What a part of a streamed answer is, as known at its start.
#[derive(Clone, Debug, PartialEq)]
pub enum PartKind<'a> {
    Text,
    Thinking,
    Refusal,
    /// Its name is known; a reader holds a call back until it is. Its signature is here when it came with it.
    Call {
        id: Text<'a>,
        name: Text<'a>,
        kind: CallKind,
        signature: Option<Signature<'a>>,
    },
    Search {
        id: Text<'a>,
    },
}

/// What the writer of an answer must know of the request it answers.
#[derive(Clone, Debug, Default)]
pub struct ReplyContext {
    /// The client wants a trailing usage chunk (chat, completions).
    pub usage_chunk: bool,
    /// What every answer begins with, as the client wants its prompt back (completions).
    pub echo_text: Option<Text<'static>>,
    /// Names that were shortened for the upstream, with the client's own.
    pub names: Names,
    /// Tools the client knows as custom ones, sent upstream as functions with one `input` string; sorted.
    pub custom_tools: Vec<String>,
    /// The client knows calls in their legacy form alone (chat): one in an answer, as its `function_call`.
    pub legacy_calls: bool,
    /// Several answers may come in one stream, as the client asked for them.
    pub several: bool,
    /// Stop sequences that the upstream could not be sent (responses knows none).
    pub stop: Vec<String>,
    /// What an answer in the responses dialect repeats of its request: member name and JSON value.
    pub echo: Vec<(&'static str, String)>,
    /// Seconds since 1970, for answers that must have a time and whose upstream gave none.
    pub now: u64,
    /// What names an answer of the responses dialect and its items, where they are not to have the upstream's
    /// name: 32 hex digits that nothing else has.
    pub answer_id: Option<String>,
    /// For ids where the upstream gave none: the request's id.
    pub fallback_id: String,
    /// For answers whose upstream names no model, or not yet: the one that the upstream was asked for.
    pub model: String,
}

impl Dialect {
    /// Those that can be converted from and to.
    pub const CONVERTIBLE: [Self; 4] = [Self::Chat, Self::Responses, Self::Messages, Self::Gemini];

    /// Whether it can be converted from and to.
    pub fn is_convertible(self) -> bool {
        Self::CONVERTIBLE.contains(&self)
    }

    /// Whether its clients can be answered by upstreams of the dialects that are converted, and in another
    /// form than an upstream's own.
    pub fn is_answerable(self) -> bool {
        self.is_convertible() || self == Self::Completions
    }
}
