//! What a client asks for, as far as its path tells: how it is spoken, and what is to be done.

use crate::dialect::{Dialect, embeddings};
use crate::platform::Platform;
use crate::upstream::Work;

/// Where Google's Code Assist API counts tokens.
pub(super) const CODE_ASSIST_COUNT: &str = "/v1internal:countTokens";

/// OpenAI's own default.
const DEFAULT_MODERATION_MODEL: &str = "omni-moderation-latest";

/// What a surface is asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    /// To answer, in whatever dialect an upstream may take.
    Answer,
    /// To say how many tokens a request of messages, responses or gemini has.
    CountTokens,
    /// To shorten a conversation of the responses dialect.
    Compact,
    /// To change a picture, which comes as a form.
    EditImage,
    /// To begin a video, which comes as a form or JSON.
    CreateVideo,
    /// To make more pictures like one, which comes as a form.
    VaryImage,
    /// To read a text aloud.
    Speak,
    /// To write down what is said in a recording, which comes as a form.
    Transcribe,
    /// To write it down in English.
    TranslateSpeech,
    /// To talk, over a WebSocket.
    Converse,
    /// To put documents in the order in which they answer a question: Jina's form, or Cohere's first.
    Rerank,
    /// To put documents in order, in the form of Cohere's second version.
    RerankV2,
    /// To tell whether a text or a picture may be shown.
    Moderate,
    /// To work off many requests of one model, in the upstream's own time.
    CreateBatch,
    /// To search the web.
    Search,
    /// To do as Codex's own tool for the web wants.
    AlphaSearch,
    /// What only gemini's own upstreams do, by the name of the action.
    OfGemini(&'static str),
}

impl Operation {
    /// Where clients ask.
    pub(super) fn path(self, dialect: Dialect) -> &'static str {
        match self {
            Self::Answer => dialect.path(),
            Self::CountTokens if dialect == Dialect::Messages => "/v1/messages/count_tokens",
            Self::CountTokens if dialect == Dialect::Responses => "/v1/responses/input_tokens",
            Self::CountTokens | Self::OfGemini(_) => dialect.path(),
            Self::Compact => "/v1/responses/compact",
            Self::EditImage => "/v1/images/edits",
            Self::VaryImage => "/v1/images/variations",
            Self::CreateVideo => "/v1/videos",
            Self::Speak => "/v1/audio/speech",
            Self::Transcribe => "/v1/audio/transcriptions",
            Self::TranslateSpeech => "/v1/audio/translations",
            Self::Converse => "/v1/realtime",
            Self::Rerank => "/v1/rerank",
            Self::RerankV2 => "/v2/rerank",
            Self::Moderate => "/v1/moderations",
            Self::CreateBatch if dialect == Dialect::Messages => "/v1/messages/batches",
            Self::CreateBatch => "/v1/batches",
            Self::Search => "/v1/search",
            Self::AlphaSearch => "/v1/alpha/search",
        }
    }

    /// What an upstream does for it.
    pub(super) fn work(self, dialect: Dialect) -> Work {
        match self {
            Self::CountTokens => Work::Lookup,
            Self::EditImage | Self::VaryImage | Self::CreateVideo | Self::CreateBatch => Work::Creation,
            Self::Answer if dialect == Dialect::Images => Work::Creation,
            Self::OfGemini(action) if is_creation(action) => Work::Creation,
            _ => Work::Text,
        }
    }

    /// What clients call it: gemini's by the action, the others by where they ask.
    pub(super) fn name(self, dialect: Dialect) -> &'static str {
        match (self, dialect) {
            (Self::OfGemini(action), _) => action,
            (Self::Answer, Dialect::Gemini) => "generateContent",
            (Self::CountTokens, Dialect::Gemini) => "countTokens",
            _ => self.path(dialect),
        }
    }

    /// Where a platform is asked in a dialect.
    pub(super) fn upstream_path(self, platform: Platform, dialect: Dialect) -> &'static str {
        let profile = platform.profile();
        match self {
            Self::Answer => (profile.path)(dialect),
            Self::Compact => profile.compaction_path,
            Self::OfGemini(_) => (profile.path)(dialect),
            Self::AlphaSearch if profile.compaction_path == "/responses/compact" => "/alpha/search",
            Self::CountTokens if profile.code_assist.is_some() => CODE_ASSIST_COUNT,
            _ => self.path(dialect),
        }
    }

    /// Whether it is one of Google's actions that embed texts, which other upstreams do in OpenAI's form.
    pub(super) fn is_embedding(self) -> bool {
        matches!(self, Self::OfGemini(embeddings::ONE | embeddings::SEVERAL))
    }

    /// Whether it comes as a form.
    pub(super) fn is_form(self) -> bool {
        matches!(
            self,
            Self::EditImage | Self::VaryImage | Self::CreateVideo | Self::Transcribe | Self::TranslateSpeech
        )
    }

    /// Whether only some platforms offer it.
    pub(super) fn is_extra(self) -> bool {
        !matches!(self, Self::Answer | Self::CountTokens | Self::Compact | Self::OfGemini(_))
    }

    /// What is asked for where the request names no model.
    pub(super) fn default_model(self) -> Option<&'static str> {
        (self == Self::Moderate).then_some(DEFAULT_MODERATION_MODEL)
    }
}

/// What kind of call it is: how it is spoken, what it asks for, and what of it stands in the path.
pub(super) struct CallKind {
    pub(super) dialect: Dialect,
    pub(super) operation: Operation,
    /// Where the path names the model, and not the body.
    pub(super) of_path: Option<PathModel>,
}

impl CallKind {
    /// A call whose body says everything.
    pub(super) fn of_body(dialect: Dialect, operation: Operation) -> Self {
        Self { dialect, operation, of_path: None }
    }
}

/// What gemini's paths say and its bodies do not.
pub(super) struct PathModel {
    pub(super) model: String,
    pub(super) stream: bool,
    /// The version of the interface, where it is another than the usual one.
    pub(super) version: Option<Box<str>>,
}

/// Whether an action makes something that costs much or stays: a picture, a video, a job.
fn is_creation(action: &str) -> bool {
    matches!(action, "predict" | "predictLongRunning" | "batchGenerateContent" | "asyncBatchEmbedContent")
}
