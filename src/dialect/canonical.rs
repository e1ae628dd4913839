//! The one form between the dialects.
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
    Candidate, Event, MAX_CHOICES, MAX_OPEN_PARTS, PartKind, Reply, ReplyContext, Stop, too_many_parts,
};

/// A request in the form of no dialect.
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
    /// Greater than zero.
    pub max_output: Option<u64>,
    pub temperature: Option<Json<'a>>,
    pub top_p: Option<Json<'a>>,
    pub top_k: Option<Json<'a>>,
    /// None of them empty; blank ones, which messages refuses, only where a client means them (completions).
    pub stop: Vec<Text<'a>>,
    pub reasoning: Reasoning<'a>,
    pub format: Option<Format<'a>>,
    pub verbosity: Option<Text<'a>>,
    /// `user`, `metadata.user_id`.
    pub user: Option<Text<'a>>,
    /// The user is messages' `metadata.user_id`, an opaque id, which responses knows as `safety_identifier`.
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
    /// How many answers are wanted, when more than one.
    pub n: Option<u64>,
    /// Log probabilities were asked for.
    pub logprobs: bool,
    pub top_logprobs: Option<Json<'a>>,
    /// Members of chat and responses with the same name and meaning on both, copied from one to the
    /// other (`prompt_cache_retention`, `truncation`, `include`, …); no other dialect has them.
    pub openai: Vec<(&'static str, Json<'a>)>,
    /// Members that change what comes back and that only their own dialect understands
    /// (`modalities`, `mcp_servers`, `container`, …), by name.
    pub native: Vec<&'static str>,
}

/// Who spoke.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    User,
    Assistant,
    /// Instructions between what is said, as texts. Chat and responses have a message for them; for messages
    /// and gemini they become words of the user's before the request is written, at the place where they stand.
    System,
    /// Instructions, by the name that only OpenAI knows.
    Developer,
}

/// What one side said, in order.
///
/// Readers keep turns as they came; a writer whose dialect wants the sides to alternate merges them.
/// A tool result is a part of a turn of the user. Where a dialect has items instead of messages
/// (responses), thinking, a message and the calls that follow are one turn, and a second message
/// begins the next.
#[derive(Clone, Debug, PartialEq)]
pub struct Turn<'a> {
    pub role: Role,
    pub parts: Vec<Part<'a>>,
    /// The client sent a list of parts, be it of one: it stays a list where the dialect has both.
    pub listed: bool,
}

impl Request<'_> {
    /// The parts of all turns, with those of a result in its place.
    pub fn all_parts(&self) -> impl Iterator<Item = &Part<'_>> {
        self.turns.iter().flat_map(|turn| &turn.parts).flat_map(|part| match part {
            Part::Result(result) => result.parts.as_slice(),
            part => std::slice::from_ref(part),
        })
    }

    /// That nothing is asked for which only an upstream of its own dialect has.
    ///
    /// # Errors
    /// Names the first such member, and of tools the type that nobody else runs.
    pub fn check_native(&self) -> Result<(), ConversionError> {
        let Some(member) = self.native.first() else { return Ok(()) };
        let hosted = self.tools.iter().find_map(|tool| match tool {
            Tool::Hosted(kind) if *member == "tools" => Some(kind.decode()),
            _ => None,
        });
        Err(match hosted {
            Some(kind) => ConversionError::unsupported_form(*member, format!("of the type {kind}")),
            None => ConversionError::unsupported(*member),
        })
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
    /// Only in answers.
    Search(Search<'a>),
    /// Behind a part of a request, up to which the client wants its prompt cached.
    CacheMark(Json<'a>),
    /// Something only its own dialect understands (`computer_call`, `item_reference`, …), by its type.
    Foreign(Text<'a>),
}

impl Part<'_> {
    /// What can be said as text where there is no better place: a text file too, with its name above it.
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

/// Where the bytes of an image or a file are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source<'a> {
    /// A media type and base64 text.
    Inline {
        mime: Text<'a>,
        data: Text<'a>,
    },
    Url(Text<'a>),
    /// An id at the upstream; ids of our own have been resolved before.
    Id(Text<'a>),
    /// Text as it is, without base64.
    Plain(Text<'a>),
}

/// An image in a message or a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image<'a> {
    pub source: Source<'a>,
    /// `low`, `high`, `auto`.
    pub detail: Option<Text<'a>>,
}

/// A file in a message or a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File<'a> {
    pub source: Source<'a>,
    pub name: Option<Text<'a>>,
}

impl<'a> File<'a> {
    /// Its name, or one after its kind: OpenAI refuses data without a name, which Anthropic's clients
    /// (Claude Code reading a PDF) do not give.
    pub fn name_or_kind(&self) -> Text<'a> {
        let kind = || match &self.source {
            Source::Inline { mime, .. } if mime.is("application/pdf") => Text::plain("document.pdf"),
            _ => Text::plain("document"),
        };
        self.name.clone().unwrap_or_else(kind)
    }
}

/// What the model thought, and the provider's signature of it.
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
    /// As the model wrote it: for a function the JSON text of its arguments, for a custom tool any text.
    pub input: Text<'a>,
    /// Gemini signs calls.
    pub signature: Option<Signature<'a>>,
}

/// What a call's input is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum CallKind {
    #[default]
    Function,
    /// Free text instead of JSON arguments.
    Custom,
}

/// What a tool gave back.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolResult<'a> {
    pub call_id: Text<'a>,
    pub kind: CallKind,
    /// Text, images and files; empty for an empty result.
    pub parts: Vec<Part<'a>>,
    /// It came as a list of parts, as [`Turn::listed`].
    pub listed: bool,
    pub is_error: bool,
}

/// A tool the model may call.
#[derive(Clone, Debug, PartialEq)]
pub enum Tool<'a> {
    Function {
        name: Text<'a>,
        description: Option<Text<'a>>,
        /// Its JSON schema.
        parameters: Option<Json<'a>>,
        strict: Option<bool>,
    },
    Custom {
        name: Text<'a>,
        description: Option<Text<'a>>,
        format: Option<CustomFormat<'a>>,
    },
    WebSearch(WebSearch<'a>),
    /// Run by an upstream of its own dialect, by its type (`code_interpreter`, `mcp`, …).
    Hosted(Text<'a>),
}

/// What a custom tool takes. Without it any text; `syntax` and `definition` for a grammar.
#[derive(Clone, Debug, PartialEq)]
pub struct CustomFormat<'a> {
    pub syntax: Option<Text<'a>>,
    pub definition: Option<Text<'a>>,
}

/// What a search of the web by the model's upstream may do.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WebSearch<'a> {
    /// `low`, `medium`, `high`.
    pub context_size: Option<Text<'a>>,
    /// Flat: `{"type":"approximate","city":…}`.
    pub user_location: Option<Json<'a>>,
    pub max_uses: Option<u64>,
    /// A list of hosts, when only their pages may be found.
    pub allowed_domains: Option<Json<'a>>,
}

/// Which tools the model may or must call.
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
    /// Only these of the tools; one must be called when `required`.
    Allowed {
        names: Vec<(Text<'a>, CallKind)>,
        required: bool,
    },
    /// A tool that is run upstream, by its type.
    Hosted(Text<'a>),
}

impl ToolChoice<'_> {
    /// The names of the tools that may be called, where it is not all of them.
    pub fn allowed(&self) -> Option<HashSet<&str>> {
        match self {
            Self::Allowed { names, .. } => Some(names.iter().map(|(name, _)| name.literal()).collect()),
            _ => None,
        }
    }

    /// Says in words that no others may be called: for upstreams that know no such choice. The others are offered all
    /// the same, since the prompt begins with the tools, and would begin otherwise with each choice.
    pub fn none_but<'t>(names: impl IntoIterator<Item = &'t Text<'t>>) -> Text<'static> {
        let begin = Text::plain("<system-reminder>In this turn call no tools but these: ");
        let end = Text::plain(".</system-reminder>");
        Text::join([&begin, &Text::join(names, ", "), &end], "")
    }
}

/// How much thinking is wanted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reasoning<'a> {
    pub effort: Option<Effort>,
    /// Tokens.
    pub budget: Option<u64>,
    pub summary: Option<Text<'a>>,
    /// Expressly switched off.
    pub off: bool,
    /// Wanted, as much of it as the model sees fit.
    pub dynamic: bool,
    /// The client takes reasoning back in encrypted form, so that it can be sent along next time.
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

/// What form the answer's text must have.
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
    /// What demands an answer under a schema in words.
    pub fn schema_in_words(schema: &Json<'_>) -> Text<'static> {
        Text::of(&format!(
            "Answer with JSON that is valid under this JSON schema, and with nothing else:\n{}",
            schema.compact()
        ))
    }
}

/// Towards whom a request is written.
#[derive(Clone, Copy, Debug)]
pub struct Target<'t> {
    /// The model's name there.
    pub model: &'t str,
    pub stream: bool,
    pub vendor: Vendor,
}

/// Whose API it is, where that makes a difference within a dialect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vendor {
    OpenAi,
    Anthropic,
    Gemini,
    /// Aggregators and everyone who speaks another's dialect.
    Other,
}

/// Why a request cannot be had in a dialect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConversionError {
    /// The client's mistake in whatever dialect: 400, with the field for `error.param`.
    Invalid { field: String, message: String },
    /// This dialect cannot say it; another may. Names the client's field, and
    /// how it was sent where it is that which cannot be said ("as a list").
    Unsupported { field: String, form: Cow<'static, str> },
}

impl ConversionError {
    /// `field` has `problem` ("must be a list").
    pub fn invalid(field: impl Into<String>, problem: &str) -> Self {
        let field = field.into();
        Self::Invalid { message: format!("{field} {problem}"), field }
    }

    /// The other dialect has no words for this member.
    pub fn unsupported(field: impl Into<String>) -> Self {
        Self::unsupported_form(field, "")
    }

    /// `field` could be said in another form than it was sent in.
    pub fn unsupported_form(field: impl Into<String>, form: impl Into<Cow<'static, str>>) -> Self {
        Self::Unsupported { field: field.into(), form: form.into() }
    }
}
