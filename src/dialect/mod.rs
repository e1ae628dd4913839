//! The dialects of clients and upstreams: read as far as passing a body through requires it, and converted.
//!
//! | module | reads | gives |
//! |---|---|---|
//! | [`envelope`] | a request body | its model, whether it streams, session hints; the body with another model |
//! | [`observe`] | the chunks of a streamed answer | its phase (nothing yet, output, ended, failed) and its usage |
//! | [`stream_event`], [`events`] | one event of a streamed answer | its parts, parsed once for all readers; its meaning |
//! | `opening` | | the events that open a stream |
//! | [`repair`] | a stream without some of its events | the same with them |
//! | [`judge`] | a complete answer with a 2xx status | its usage, or the reason why it is a failure all the same |
//! | [`errors`] | an upstream's error body | its message, fit for a client; also our own error bodies and events |
//! | `upstream_error`, `error_kinds` | an upstream's error | its parts; the vendors' names for kinds of errors |
//! | [`convert`] | a request, an answer or a stream of one dialect | the same in another |
//! | [`chat`], [`responses`], [`messages`], [`gemini`] | their dialect | the [`canonical`] form, and back |
//! | [`code_assist`] | the envelope that some put around gemini's bodies | its content, and back |
//! | [`completions`] | a legacy request | the same in that form, and its answer back |
//! | [`embeddings`] | OpenAI's or Google's embeddings | the same in the other form |
//! | [`signature`], [`names`] | | the signatures and tool names that must survive a client of another dialect |
//! | [`citation`] | | the sources of what a model said |
//! | [`logprobs`] | | the probability of each token |
//! | [`search`] | | the web searches that an upstream ran itself |
//! | `cache_marks`, `marked_turns` | | where the client wants its prompt cached; the marks among the parts of turns |
//! | [`effort`] | how much a model is asked to think | the same in each dialect's words |
//! | [`estimate`] | a request body | an estimate of its tokens |
//! | [`parts`] | a request body | whether it has more parts and calls than may be converted |
//! | [`payload_rules`] | an operator's rules for request bodies | their mistakes, or a body as they change it |
//! | [`service_tier`] | a body and an operator's rules for tiers | whether its tier is kept, renamed, left out or refused |
//! | [`data_urls`] | a body with files in bare base64 | the same with data URLs |
//! | [`stored_files`] | a body that names files of ours | the same with the files in it |
//! | [`answer_id`] | the beginning of an answer | its id, from which a client may continue |
//! | [`batch`] | a batch's requests, object and results | the one model they ask for, the same with another; the usage |
//! | [`video`] | a video object | its id, a snapshot of its state; the same under another id |
//! | [`rename`] | an answer, complete or streamed | the same under the model name that the client asked for |
//! | [`edit`](mod@edit) | a body | the same with some outermost members changed |
//! | [`optional`] | a refusal that names a member | the body without that member, where it can do without |
//! | [`output_limit`] | the limit that a refusal names | the body with that limit |
//! | `text_files` | a file in base64 | its text, if it is text |
//! | [`sse`], [`json`], [`tree`], [`literal`], [`writer`], [`usage`] | | the basis of the other modules |
//! | [`media_types`] | the name of a file | its media type |
//! | `json_schema`, `members`, `waiting_calls` | | the basis of the other modules |
//!
//! Everything here is a pure function of bytes: no I/O, no clock, and no input that panics. Which
//! channel is tried next, and what a failure costs it, is decided elsewhere.

pub mod answer_id;
#[cfg(test)]
mod any_json;
pub mod batch;
mod cache_marks;
pub mod canonical;
pub mod chat;
pub mod citation;
pub mod code_assist;
pub mod completions;
pub mod convert;
pub mod data_urls;
pub mod edit;
pub mod effort;
pub mod embeddings;
pub mod envelope;
mod error_kinds;
pub mod errors;
pub mod estimate;
pub mod events;
pub mod gemini;
pub mod json;
mod json_schema;
pub mod judge;
pub mod literal;
pub mod logprobs;
mod marked_turns;
pub mod media_types;
mod members;
pub mod messages;
pub mod names;
pub mod observe;
mod opening;
pub mod optional;
pub mod output_limit;
pub mod parts;
pub mod payload_rules;
pub mod rename;
pub mod repair;
pub mod responses;
pub mod search;
pub mod service_tier;
pub mod signature;
pub mod sse;
pub mod stored_files;
pub mod stream_event;
pub mod text_files;
pub mod tree;
mod upstream_error;
pub mod usage;
pub mod video;
mod waiting_calls;
pub mod writer;

/// A form of requests and answers that clients and upstreams speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// `/v1/chat/completions`
    Chat,
    /// `/v1/responses`
    Responses,
    /// `/v1/messages`
    Messages,
    /// `/v1/completions`, the legacy text form
    Completions,
    /// `/v1/embeddings`
    Embeddings,
    /// `/v1/images/generations`
    Images,
    /// `/v1/audio/…`: speech from text, and text from speech
    Audio,
    /// `/v1beta/models/{model}:{action}`
    Gemini,
}

impl Dialect {
    /// Returns the word for the dialect in logs, settings and the database.
    pub fn id(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::Responses => "responses",
            Self::Messages => "messages",
            Self::Completions => "completions",
            Self::Embeddings => "embeddings",
            Self::Images => "images",
            Self::Audio => "audio",
            Self::Gemini => "gemini",
        }
    }

    /// Returns the path of the surface, the same downstream and upstream; `/v1beta/models` for gemini, whose paths
    /// carry the model.
    pub fn path(self) -> &'static str {
        match self {
            Self::Chat => "/v1/chat/completions",
            Self::Responses => "/v1/responses",
            Self::Messages => "/v1/messages",
            Self::Completions => "/v1/completions",
            Self::Embeddings => "/v1/embeddings",
            Self::Images => "/v1/images/generations",
            Self::Audio => "/v1/audio/speech",
            Self::Gemini => "/v1beta/models",
        }
    }
}
