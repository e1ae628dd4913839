//! What a client asks for, as far as its path tells: the dialect, and the operation.

use crate::dialect::{Dialect, embeddings};
use crate::platform::Platform;
use crate::upstream::WorkKind;

/// The path at which Google's Code Assist API counts tokens.
pub(super) const CODE_ASSIST_COUNT: &str = "/v1internal:countTokens";

/// The model for moderations that name none, which is OpenAI's own default.
const DEFAULT_MODERATION_MODEL: &str = "omni-moderation-latest";

/// The operation that a surface is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    /// Answering, in any dialect that an upstream accepts.
    Answer,
    /// Counting the tokens of a messages, responses or Gemini request.
    CountTokens,
    /// Shortening a conversation of the responses dialect.
    Compact,
    /// Editing an image, which comes as a form.
    EditImage,
    /// Creating a video, which comes as a form or JSON.
    CreateVideo,
    /// Making variations of an image, which comes as a form.
    VaryImage,
    /// Reading a text aloud.
    Speak,
    /// Transcribing a recording, which comes as a form.
    Transcribe,
    /// Transcribing a recording into English.
    TranslateSpeech,
    /// A speech conversation over a WebSocket.
    Converse,
    /// Ranking documents by how well they answer a question, in Jina's form or that of Cohere's first version.
    Rerank,
    /// Ranking documents, in the form of Cohere's second version.
    RerankV2,
    /// Deciding whether a text or an image may be shown.
    Moderate,
    /// Working off many requests for one model, in the upstream's own time.
    CreateBatch,
    /// Searching the web.
    Search,
    /// Serving Codex's own web tool.
    AlphaSearch,
    /// An action that only Gemini's own upstreams offer, by its name.
    OfGemini(&'static str),
}

impl Operation {
    /// Returns the path at which clients ask.
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

    /// Returns the kind of work that an upstream does for it.
    pub(super) fn work(self, dialect: Dialect) -> WorkKind {
        match self {
            Self::CountTokens => WorkKind::Lookup,
            Self::EditImage | Self::VaryImage | Self::CreateVideo | Self::CreateBatch => WorkKind::Creation,
            Self::Answer if dialect == Dialect::Images => WorkKind::Creation,
            Self::OfGemini(action) if is_creation(action) => WorkKind::Creation,
            _ => WorkKind::Text,
        }
    }

    /// Returns what clients call it: the action for Gemini, the path for the others.
    pub(super) fn name(self, dialect: Dialect) -> &'static str {
        match (self, dialect) {
            (Self::OfGemini(action), _) => action,
            (Self::Answer, Dialect::Gemini) => "generateContent",
            (Self::CountTokens, Dialect::Gemini) => "countTokens",
            _ => self.path(dialect),
        }
    }

    /// Returns the path at which a platform is asked in a dialect.
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

    /// Whether it is one of Google's embedding actions, which other upstreams serve in OpenAI's form.
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

    /// Whether sites that speak its dialect may lack its path.
    pub(super) fn may_be_lacking(self) -> bool {
        self.is_extra() || self == Self::CountTokens || self.is_embedding()
    }

    /// Returns the model for requests that name none.
    pub(super) fn default_model(self) -> Option<&'static str> {
        (self == Self::Moderate).then_some(DEFAULT_MODERATION_MODEL)
    }
}

/// The kind of a call: its dialect, its operation, and what its path says.
pub(super) struct CallKind {
    pub(super) dialect: Dialect,
    pub(super) operation: Operation,
    /// Set where the path names the model, not the body.
    pub(super) of_path: Option<PathModel>,
}

impl CallKind {
    /// Builds the kind of a call whose body says everything.
    pub(super) fn of_body(dialect: Dialect, operation: Operation) -> Self {
        Self { dialect, operation, of_path: None }
    }
}

/// The parts of a call that Gemini's paths name and its bodies do not.
pub(super) struct PathModel {
    pub(super) model: String,
    pub(super) stream: bool,
    /// The version of the interface, where it is not the usual one.
    pub(super) version: Option<Box<str>>,
}

/// Whether an action makes something that is expensive or persistent: an image, a video, a job.
fn is_creation(action: &str) -> bool {
    matches!(action, "predict" | "predictLongRunning" | "batchGenerateContent" | "asyncBatchEmbedContent")
}
