//! When the usage of an attempt is booked, and how much of it where the answer was not whole.

use crate::dialect::usage::Usage;
use crate::proxy::responses::pending::Cancellation;

/// When the usage of an attempt is booked.
#[derive(Default)]
pub(super) enum Booking {
    /// When the attempt is settled.
    #[default]
    AtEnd,
    /// Later, when the usage becomes known.
    Later,
    /// When this response ends, which goes on in the background after the attempt.
    WithResponse(BackgroundResponse),
    /// Never. The outcome costs nothing, and says nothing about how the channel serves: of a call that few upstreams offer, or
    /// of a conversation without a response.
    Never,
}

impl Booking {
    pub(super) fn is_with_response(&self) -> bool {
        matches!(self, Self::WithResponse(_))
    }

    /// Whether the response goes on in the background, and its client has cancelled it.
    pub(super) fn is_cancelled(&self) -> bool {
        matches!(self, Self::WithResponse(response) if response.cancellation.is_requested())
    }

    pub(super) fn is_never(&self) -> bool {
        matches!(self, Self::Never)
    }
}

/// A response that goes on in the background.
pub(super) struct BackgroundResponse {
    pub(super) id: String,
    pub(super) cancellation: Cancellation,
}

/// Estimated token counts.
#[derive(Clone, Copy)]
pub(super) struct EstimatedTokens {
    pub(super) input: u64,
    pub(super) output: u64,
}

/// The usage of an attempt whose answer is not whole.
#[derive(Clone, Copy, Default)]
pub(super) struct PartialUsage {
    /// The usage that the upstream has reported.
    pub(super) reported: Option<Usage>,
    /// The estimate that the key is charged by where less was reported.
    pub(super) estimated: Option<EstimatedTokens>,
}

impl PartialUsage {
    /// Returns what the key is charged for. The estimate fills what the upstream has not reported: the input if it is missing,
    /// the output if less was reported.
    pub(super) fn charged(self) -> Option<Usage> {
        let Some(estimated) = self.estimated else { return self.reported };
        let mut usage = self.reported.unwrap_or_default();
        usage.prompt = usage.prompt.or(Some(estimated.input));
        usage.merge(Usage { completion: Some(estimated.output), ..Usage::default() });
        Some(usage)
    }
}
