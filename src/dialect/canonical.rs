//! The canonical form, through which requests and answers are converted from one dialect to another.
//!
//! ```text
//! chat ┐          ┌ Request ┐          ┌ chat
//! responses ├─read─▶┤ Reply   ├─write─▶┤ responses        N dialects, 2N halves
//! messages ┤          └ Event   ┘          ├ messages
//! gemini ┘                                └ gemini
//! ```
//!
//! Everything borrows from the text it was read from; strings are [`Text`], never decoded on the
//! way. What a dialect cannot say is either left out, when it is advice (a seed, a cache hint), or
//! makes that dialect unusable for the request ([`ConversionError`]), when the answer would have another shape.

mod reply;

use std::borrow::Cow;
use std::collections::HashSet;

use super::cache_marks::CacheMarks;
use super::literal::{Json, Text};
use super::search::Search;
use super::signature::Signature;

pub use reply::{
    Candidate, Event, MAX_CHOICES, MAX_OPEN_PARTS, MAX_REPEATED, PartKind, Reply, ReplyContext, Stop,
    too_many_parts,
};

/// A request in the canonical form, which belongs to no dialect.
#[derive(Clone, Debug, Default)]
pub struct Request<'a> {
    /// `instructions`, `system` blocks, the system and developer messages before the first turn of chat: one
    /// text each, in order.
    pub system: Vec<Text<'a>>,
    pub turns: Vec<Turn<'a>>,
    pub tools: Vec<Tool<'a>>,
    pub cache_marks: CacheMarks<'a>,
    pub tool_choice: Option<ToolChoice<'a>>,
    /// Whether the model may call several tools at once; `None` leaves the dialect's default.
    pub parallel: Option<bool>,
    /// The most tokens of the answer; greater than zero.
    pub max_output: Option<u64>,
    pub temperature: Option<Json<'a>>,
    pub top_p: Option<Json<'a>>,
    pub top_k: Option<Json<'a>>,
    /// The stop sequences. None is empty; blank ones, which messages refuses, only come from clients of completions.
    pub stop: Vec<Text<'a>>,
    pub reasoning: Reasoning<'a>,
    pub format: Option<Format<'a>>,
    pub verbosity: Option<Text<'a>>,
    /// The end user: `user`, or `metadata.user_id` on messages.
    pub user: Option<Text<'a>>,
    /// Whether the user is messages' `metadata.user_id`, an opaque id, which responses knows as `safety_identifier`.
    pub user_is_opaque: bool,
    pub safety_identifier: Option<Text<'a>>,
    /// The metadata of chat and responses; on messages it names the user alone.
    pub metadata: Option<Json<'a>>,
    pub cache_key: Option<Text<'a>>,
    pub service_tier: Option<Text<'a>>,
    pub store: Option<bool>,
    pub seed: Option<Json<'a>>,
    pub frequency_penalty: Option<Json<'a>>,
    pub presence_penalty: Option<Json<'a>>,
    pub logit_bias: Option<Json<'a>>,
    /// The number of answers that are wanted, when more than one.
    pub n: Option<u64>,
    /// Whether log probabilities were asked for.
    pub logprobs: bool,
    pub top_logprobs: Option<Json<'a>>,
    /// Members of chat and responses with the same name and meaning on both, copied from one to the
    /// other (`prompt_cache_retention`, `truncation`, `include`, …); no other dialect has them.
    pub openai: Vec<(&'static str, Json<'a>)>,
    /// Members that change what comes back and that only their own dialect understands
    /// (`modalities`, `mcp_servers`, `container`, …), by name.
    pub native: Vec<&'static str>,
}

/// The speaker of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    User,
    Assistant,
    /// Instructions between the turns of the conversation, as texts. Chat and responses have a message for them; for
    /// messages and gemini they become words of the user before the request is written, at the same place.
    System,
    /// Instructions under the name that only OpenAI knows.
    Developer,
}

/// The words of one side, in order.
///
/// Readers keep turns as they came; a writer whose dialect wants the sides to alternate merges them.
/// A tool result is a part of a turn of the user. Where a dialect has items instead of messages
/// (responses), thinking, a message and the calls that follow are one turn, and a second message
/// begins the next.
#[derive(Clone, Debug, PartialEq)]
pub struct Turn<'a> {
    pub role: Role,
    pub parts: Vec<Part<'a>>,
    /// Whether the client sent a list of parts, be it of one: it stays a list where the dialect has both.
    pub listed: bool,
}

impl Request<'_> {
    /// Returns the parts of all turns, with the parts of a result in its place.
    pub fn all_parts(&self) -> impl Iterator<Item = &Part<'_>> {
        self.turns.iter().flat_map(|turn| &turn.parts).flat_map(|part| match part {
            Part::Result(result) => result.parts.as_slice(),
            part => std::slice::from_ref(part),
        })
    }

    /// Checks that the request asks for nothing that only an upstream of its own dialect has.
    ///
    /// # Errors
    /// Names the first such member, and for tools the type that no other upstream runs.
    pub fn check_native(&self) -> Result<(), ConversionError> {
        let Some(member) = self.native.first() else { return Ok(()) };
        let hosted = self.tools.iter().find_map(Tool::refusal).filter(|_| *member == "tools");
        Err(hosted.unwrap_or_else(|| ConversionError::unsupported(*member)))
    }

    /// Checks that leaving out the tools that only an upstream of their own dialect runs leaves any tool.
    ///
    /// # Errors
    /// Names the type of the first.
    pub fn check_tools(&self) -> Result<(), ConversionError> {
        let others = self.tools.iter().any(|tool| !matches!(tool, Tool::Hosted(_)));
        let refusal = self.tools.iter().find_map(Tool::refusal);
        refusal.filter(|_| !others).map_or(Ok(()), Err)
    }
}

impl<'a> Turn<'a> {
    pub fn new(role: Role, parts: Vec<Part<'a>>) -> Self {
        Self { role, parts, listed: false }
    }
}

/// A piece of a turn.
#[derive(Clone, Debug, PartialEq)]
pub enum Part<'a> {
    Text(Text<'a>),
    Image(Image<'a>),
    /// Base64 data and its format (`wav`, `mp3`).
    Audio {
        data: Text<'a>,
        format: Text<'a>,
    },
    File(File<'a>),
    Thinking(Thinking<'a>),
    Refusal(Text<'a>),
    Call(Call<'a>),
    Result(ToolResult<'a>),
    /// A search that the upstream made; only in answers.
    Search(Search<'a>),
    /// A mark behind a part of a request: the client wants its prompt cached up to here.
    CacheMark(Json<'a>),
    /// A part that only its own dialect understands (`computer_call`, `item_reference`, …), by its type.
    Foreign(Text<'a>),
}

impl Part<'_> {
    /// Returns the part as text where there is no better place for it: also a text file, with its name above it.
    pub fn as_text(&self) -> Option<Text<'_>> {
        match self {
            Part::Text(text) | Part::Refusal(text) => Some(text.borrowed()),
            Part::File(File { source: Source::Plain(text), name }) => Some(match name {
                Some(name) => Text::join([name, text], "\\n"),
                None => text.borrowed(),
            }),
            _ => None,
        }
    }
}

/// The place of the bytes of an image or a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source<'a> {
    /// A media type and base64 text.
    Inline {
        mime: Text<'a>,
        data: Text<'a>,
    },
    Url(Text<'a>),
    /// An id at the upstream; ids of our own have been resolved earlier.
    Id(Text<'a>),
    /// Plain text, without base64.
    Plain(Text<'a>),
}

impl<'a> Source<'a> {
    /// Creates inline data. Clients have other names for JPEG, which Google and Anthropic refuse.
    pub fn inline(mime: Text<'a>, data: Text<'a>) -> Self {
        let is_jpeg = mime.is("image/jpg") || mime.is("image/pjpeg");
        Self::Inline { mime: if is_jpeg { Text::plain("image/jpeg") } else { mime }, data }
    }
}

/// An image in a message or a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image<'a> {
    pub source: Source<'a>,
    /// The resolution to look at it with: `low`, `high`, `auto`.
    pub detail: Option<Text<'a>>,
}

/// A file in a message or a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File<'a> {
    pub source: Source<'a>,
    pub name: Option<Text<'a>>,
}

impl<'a> File<'a> {
    pub fn is_video(&self) -> bool {
        matches!(&self.source, Source::Inline { mime, .. } if mime.decode().to_ascii_lowercase().starts_with("video/"))
    }

    /// Returns the file's name, or one made from its kind: OpenAI refuses data without a name, which Anthropic's
    /// clients (Claude Code reading a PDF) do not give.
    pub fn name_or_kind(&self) -> Text<'a> {
        let kind = || match &self.source {
            Source::Inline { mime, .. } if mime.is("application/pdf") => Text::plain("document.pdf"),
            _ => Text::plain("document"),
        };
        self.name.clone().unwrap_or_else(kind)
    }
}

/// The model's thinking, and the provider's signature of it.
///
/// `text` is what may be shown (a summary on responses, all of it on messages), and may be empty:
/// redacted thinking is a signature alone.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Thinking<'a> {
    pub text: Text<'a>,
    pub signature: Option<Signature<'a>>,
}

/// A call of a tool.
#[derive(Clone, Debug, PartialEq)]
pub struct Call<'a> {
    pub id: Text<'a>,
    pub name: Text<'a>,
    pub kind: CallKind,
    /// The input as the model wrote it: for a function the JSON text of its arguments, for a custom tool any text.
    pub input: Text<'a>,
    /// The signature of the call, which gemini gives.
    pub signature: Option<Signature<'a>>,
}

/// The kind of a call's input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum CallKind {
    #[default]
    Function,
    /// A custom tool, with free text instead of JSON arguments.
    Custom,
}

/// The result of a tool.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolResult<'a> {
    pub call_id: Text<'a>,
    pub kind: CallKind,
    /// Text, images and files; empty for an empty result.
    pub parts: Vec<Part<'a>>,
    /// Whether it came as a list of parts, as [`Turn::listed`].
    pub listed: bool,
    pub is_error: bool,
}

/// A tool the model may call.
#[derive(Clone, Debug, PartialEq)]
pub enum Tool<'a> {
    Function {
        name: Text<'a>,
        description: Option<Text<'a>>,
        /// The JSON schema of its arguments.
        parameters: Option<Json<'a>>,
        strict: Option<bool>,
    },
    Custom {
        name: Text<'a>,
        description: Option<Text<'a>>,
        format: Option<CustomFormat<'a>>,
    },
    WebSearch(WebSearch<'a>),
    /// A tool run by an upstream of its own dialect, by its type (`code_interpreter`, `mcp`, …).
    Hosted(Text<'a>),
}

impl Tool<'_> {
    /// Returns the error of an upstream that cannot run this tool; `None` when the client runs it, or any upstream can.
    pub fn refusal(&self) -> Option<ConversionError> {
        let Self::Hosted(kind) = self else { return None };
        Some(ConversionError::unsupported_form("tools", format!("of the type {}", kind.decode())))
    }
}

/// The input that a custom tool takes: any text, or with `syntax` and `definition` text of a grammar.
#[derive(Clone, Debug, PartialEq)]
pub struct CustomFormat<'a> {
    pub syntax: Option<Text<'a>>,
    pub definition: Option<Text<'a>>,
}

/// The limits of a web search by the model's upstream.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WebSearch<'a> {
    /// The amount of context to search for: `low`, `medium`, `high`.
    pub context_size: Option<Text<'a>>,
    /// The user's place as a flat object: `{"type":"approximate","city":…}`.
    pub user_location: Option<Json<'a>>,
    pub max_uses: Option<u64>,
    /// The list of hosts to which the search is restricted.
    pub allowed_domains: Option<Json<'a>>,
}

/// The tools that the model may or must call.
#[derive(Clone, Debug, PartialEq)]
pub enum ToolChoice<'a> {
    Auto,
    None,
    /// Some tool must be called.
    Required,
    Named {
        name: Text<'a>,
        kind: CallKind,
    },
    /// Only these tools may be called; one must be called when `required`.
    Allowed {
        names: Vec<(Text<'a>, CallKind)>,
        required: bool,
    },
    /// A tool that is run upstream, by its type.
    Hosted(Text<'a>),
}

impl ToolChoice<'_> {
    /// Returns the names of the tools that may be called, where the choice is restricted to some.
    pub fn allowed(&self) -> Option<HashSet<&str>> {
        match self {
            Self::Allowed { names, .. } => Some(names.iter().map(|(name, _)| name.literal()).collect()),
            _ => None,
        }
    }

    /// Says in words that only these tools may be called: for upstreams without such a choice. The others are offered
    /// all the same, since the prompt begins with the tools, and would begin differently with each choice.
    pub fn none_but<'t>(names: impl IntoIterator<Item = &'t Text<'t>>) -> Text<'static> {
        let begin = Text::plain("<system-reminder>In this turn call no tools but these: ");
        let end = Text::plain(".</system-reminder>");
        Text::join([&begin, &Text::join(names, ", "), &end], "")
    }
}

/// The thinking that a request asks for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reasoning<'a> {
    pub effort: Option<Effort>,
    /// The thinking budget, in tokens.
    pub budget: Option<u64>,
    pub summary: Option<Text<'a>>,
    /// Whether thinking is expressly switched off.
    pub off: bool,
    /// Whether thinking is wanted, as much as the model sees fit.
    pub dynamic: bool,
    /// Whether the client takes reasoning in encrypted form, so that it can be sent along next time.
    pub encrypted: bool,
}

/// How much a model is asked to think, from the least.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Effort {
    None,
    Minimal,
    Low,
    Medium,
    High,
    XHigh,
    Max,
}

/// The form that the answer's text must have.
#[derive(Clone, Debug, PartialEq)]
pub enum Format<'a> {
    Text,
    JsonObject,
    JsonSchema {
        name: Option<Text<'a>>,
        description: Option<Text<'a>>,
        schema: Option<Json<'a>>,
        strict: Option<bool>,
    },
}

impl Format<'_> {
    /// Returns the instruction that demands an answer valid under a schema.
    pub fn schema_in_words(schema: &Json<'_>) -> Text<'static> {
        Text::of(&format!(
            "Answer with JSON that is valid under this JSON schema, and with nothing else:\n{}",
            schema.compact()
        ))
    }
}

/// The upstream that a request is written for.
#[derive(Clone, Copy, Debug)]
pub struct Target<'t> {
    /// The upstream's name of the model.
    pub model: &'t str,
    pub stream: bool,
    pub vendor: Vendor,
}

/// The vendor of an API, where that makes a difference within a dialect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vendor {
    OpenAi,
    Anthropic,
    Gemini,
    /// Aggregators and all others that speak a vendor's dialect.
    Other,
}

/// The reason why a request cannot be written in a dialect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConversionError {
    /// The client's mistake in any dialect: 400, with the field for `error.param`.
    Invalid { field: String, message: String },
    /// This dialect cannot express it; another may. Names the client's field, and the form in which it was sent where
    /// only that form cannot be expressed ("as a list").
    Unsupported { field: String, form: Cow<'static, str> },
}

impl ConversionError {
    /// Creates the error for a `field` that has this `problem` ("must be a list").
    pub fn invalid(field: impl Into<String>, problem: &str) -> Self {
        let field = field.into();
        Self::Invalid { message: format!("{field} {problem}"), field }
    }

    /// Creates the error for a member that the other dialect cannot express.
    pub fn unsupported(field: impl Into<String>) -> Self {
        Self::unsupported_form(field, "")
    }

    /// Creates the error for a conversation of which nothing is left in this dialect; another may take empty texts.
    pub fn without_content() -> Self {
        Self::unsupported_form("messages", "without content")
    }

    /// Creates the error for a `field` that could be expressed in another form than it was sent in.
    pub fn unsupported_form(field: impl Into<String>, form: impl Into<Cow<'static, str>>) -> Self {
        Self::Unsupported { field: field.into(), form: form.into() }
    }
}
