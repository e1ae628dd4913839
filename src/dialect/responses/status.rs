//! The status of an answer, or of an item of it.

use crate::dialect::canonical::Stop;
use crate::dialect::upstream_error::UpstreamError;

/// The status of an answer or an item.
#[derive(Clone, Copy, Debug)]
pub(super) enum Status<'e> {
    InProgress,
    Completed,
    /// With the reason.
    Incomplete(&'static str),
    Failed(&'e UpstreamError),
}

impl Status<'_> {
    pub(super) fn of(stop: &Stop<'_>) -> Self {
        match stop {
            Stop::OutputLimit | Stop::ContextFull => Self::Incomplete("max_output_tokens"),
            Stop::Filtered => Self::Incomplete("content_filter"),
            Stop::End | Stop::Sequence(_) | Stop::ToolCall | Stop::Paused | Stop::BrokenCall => {
                Self::Completed
            }
        }
    }

    pub(super) fn word(self) -> &'static str {
        match self {
            Self::InProgress => "in_progress",
            Self::Completed => "completed",
            Self::Incomplete(_) => "incomplete",
            Self::Failed(_) => "failed",
        }
    }
}
