//! What a client asks for, as far as its path tells: how it is spoken, and what is to be done.

use crate::dialect::Dialect;
use crate::platform::Platform;
use crate::upstream::Work;

/// Where Google's Code Assist API counts tokens.
pub(super) const CODE_ASSIST_COUNT: &str = "/v1internal:countTokens";

/// What a surface is asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    /// To answer, in whatever dialect an upstream may take.
    Answer,
    /// To say how many tokens a request of messages or gemini has.
    CountTokens,
    /// To shorten a conversation of the responses dialect.
    Compact,
    /// To change a picture, which comes as a form.
    EditImage,
    /// To begin a video, which comes as a form or JSON.
    CreateVideo,
    /// To search the web.
    Search,
    /// What only gemini's own upstreams do, by the name of the action.
    OfGemini(&'static str),
}

impl Operation {
    /// Where clients ask.
    pub(super) fn path(self, dialect: Dialect) -> &'static str {
        match self {
            Self::Answer => dialect.path(),
            Self::CountTokens if dialect == Dialect::Messages => "/v1/messages/count_tokens",
            Self::CountTokens | Self::OfGemini(_) => dialect.path(),
            Self::Compact => "/v1/responses/compact",
            Self::EditImage => "/v1/images/edits",
            Self::CreateVideo => "/v1/videos",
            Self::Search => "/v1/search",
        }
    }

    /// What an upstream does for it.
    pub(super) fn work(self, dialect: Dialect) -> Work {
        match self {
            Self::CountTokens => Work::Lookup,
            Self::EditImage | Self::CreateVideo => Work::Creation,
            Self::Answer if dialect == Dialect::Images => Work::Creation,
            Self::OfGemini(action) if is_creation(action) => Work::Creation,
            Self::Answer | Self::Compact | Self::Search | Self::OfGemini(_) => Work::Text,
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
            Self::CountTokens if profile.code_assist.is_some() => CODE_ASSIST_COUNT,
            Self::CountTokens | Self::EditImage | Self::CreateVideo | Self::Search | Self::OfGemini(_) => {
                self.path(dialect)
            }
        }
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
