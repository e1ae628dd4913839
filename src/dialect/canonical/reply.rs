//! Answers in the canonical form, whole and streamed.

use super::super::Dialect;
use super::super::citation::Citation;
use super::super::literal::Text;
use super::super::logprobs::Token;
use super::super::names::ToolNames;
use super::super::search::SearchOutcome;
use super::super::signature::Signature;
use super::super::upstream_error::UpstreamError;
use super::super::usage::Usage;
use super::{CallKind, Part};

/// The most answers that OpenAI gives to one request; those that an upstream sends beyond are not read.
pub const MAX_CHOICES: usize = 128;

/// The longest id of an answer, name of a model or other member that is repeated in each chunk of a stream, in bytes. Longer
/// ids and names count as missing.
pub const MAX_REPEATED: usize = 1024;

/// A complete answer.
#[derive(Clone, Debug, Default)]
pub struct Reply<'a> {
    pub id: Text<'a>,
    pub model: Text<'a>,
    /// Seconds since 1970.
    pub created: Option<u64>,
    /// Usually one; several when the client asked for them.
    pub candidates: Vec<Candidate<'a>>,
    /// The usage, whose `prompt` counts all input, including tokens read from caches and written to them.
    pub usage: Option<Usage>,
}

/// One of the answers that a reply holds.
#[derive(Clone, Debug, Default)]
pub struct Candidate<'a> {
    pub parts: Vec<Part<'a>>,
    /// The sources of the texts among the parts, each with the place of its part, in the order of the parts.
    pub citations: Vec<(usize, Citation<'a>)>,
    /// The tokens of the texts, each with the place of its part, in the order of the parts.
    pub logprobs: Vec<(usize, Token<'a>)>,
    pub stop: Stop<'a>,
}

impl<'a> Candidate<'a> {
    /// Returns the citations of the part at that place.
    pub fn citations_of(&self, place: usize) -> impl Iterator<Item = &Citation<'a>> {
        of_part(&self.citations, place)
    }

    /// Returns the tokens of the part at that place.
    pub fn tokens_of(&self, place: usize) -> impl Iterator<Item = &Token<'a>> {
        of_part(&self.logprobs, place)
    }
}

/// Returns the entries of one part; the entries are in the order of their parts.
fn of_part<T>(entries: &[(usize, T)], place: usize) -> impl Iterator<Item = &T> {
    let start = entries.partition_point(|(part, _)| *part < place);
    entries[start..].iter().take_while(move |(part, _)| *part == place).map(|(_, entry)| entry)
}

/// The reason why the model stopped.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Stop<'a> {
    #[default]
    End,
    /// A stop sequence, which is given when it is known.
    Sequence(Option<Text<'a>>),
    ToolCall,
    OutputLimit,
    ContextFull,
    Filtered,
    /// A server-side tool loop paused; the client sends the same request again.
    Paused,
    /// The model could not put a call together.
    BrokenCall,
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
            Self::BrokenCall => Stop::BrokenCall,
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
    /// The model's name, from an upstream that gives it only after its answer has begun.
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
    /// The tokens of the text in the part's next delta, or in deltas that have come.
    Logprobs {
        key: u32,
        tokens: Vec<Token<'a>>,
    },
    /// The source of the part's text, or of as much of it as has come.
    Cite {
        key: u32,
        citation: Citation<'a>,
    },
    /// The outcome of the search whose query is the part's text.
    SearchOutcome {
        key: u32,
        found: SearchOutcome<'a>,
    },
    /// The signature of a part of thinking, or of a call that began without it.
    Signature {
        key: u32,
        signature: Signature<'a>,
    },
    PartStop {
        key: u32,
    },
    /// The tokens consumed so far, counted as in [`Reply::usage`]; later reports are merged field by field.
    Usage(Usage),
    Finish(Stop<'a>),
    Fail(UpstreamError),
    /// The upstream's own end of stream was seen. Without it the connection broke.
    End,
}

/// The most parts of a streamed answer that may be open at once, or wait for their beginning: a model makes some dozens
/// of calls side by side.
pub const MAX_OPEN_PARTS: usize = 4096;

/// Builds the error that ends a stream with more open parts.
pub fn too_many_parts() -> UpstreamError {
    UpstreamError::new(format!("Upstream's answer has more than {MAX_OPEN_PARTS} parts at once"))
}

/// The kind of a part of a streamed answer, as known at its start.
#[derive(Clone, Debug, PartialEq)]
pub enum PartKind<'a> {
    Text,
    Thinking,
    Refusal,
    /// A call, whose name is known: a reader holds a call back until it is. The signature is here when it came with the
    /// call.
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

/// The facts of a request that the writer of its answer needs.
#[derive(Clone, Debug, Default)]
pub struct ReplyContext {
    /// Whether the client wants a trailing usage chunk (chat, completions).
    pub usage_chunk: bool,
    /// The text that every answer begins with, because the client wants its prompt back (completions).
    pub echo_text: Option<Text<'static>>,
    /// The names that were changed for the upstream, with the client's own.
    pub names: ToolNames,
    /// Tools the client knows as custom ones, sent upstream as functions with one `input` string; sorted.
    pub custom_tools: Vec<String>,
    /// Whether the client knows calls in their legacy form alone (chat): one call in an answer, as its `function_call`.
    pub legacy_calls: bool,
    /// Whether several answers may come in one stream, as the client asked for them.
    pub several: bool,
    /// Whether the answer may be made in the background, from where the client fetches it by its id (responses).
    pub in_background: bool,
    /// The stop sequences that could not be sent to the upstream (responses has none).
    pub stop: Vec<String>,
    /// The members that an answer in the responses dialect repeats from its request: name and JSON value.
    pub echo: Vec<(&'static str, String)>,
    /// Seconds since 1970, for answers that must have a time and whose upstream gave none.
    pub now: u64,
    /// The name of an answer of the responses dialect and its items, where they are not to have the upstream's: 32 hex
    /// digits that are used only once.
    pub answer_id: Option<String>,
    /// The request's id, from which ids are made where the upstream gave none.
    pub fallback_id: String,
    /// The model that the upstream was asked for, for answers whose upstream names none, or not yet.
    pub model: String,
}

impl Dialect {
    /// The dialects that can be converted from and to.
    pub const CONVERTIBLE: [Self; 4] = [Self::Chat, Self::Responses, Self::Messages, Self::Gemini];

    /// Whether it can be converted from and to.
    pub fn is_convertible(self) -> bool {
        Self::CONVERTIBLE.contains(&self)
    }

    /// Whether its clients can be answered by upstreams of other, convertible dialects.
    pub fn is_answerable(self) -> bool {
        self.is_convertible() || self == Self::Completions
    }
}
