//! The runs of discovery and rebuild that are under way.

use std::sync::Mutex;

use tokio::time::Instant;

use super::outcome::RefreshOutcome;
use crate::flight::SingleFlight;
use crate::jobs::rebuild_scope::Rebuilds;

/// The runs of discovery and rebuild that are under way; [`Jobs`](crate::jobs::Jobs) holds one.
#[derive(Default)]
pub struct ModelRefresh {
    pub(super) all: SingleFlight<Vec<RefreshOutcome>>,
    pub rebuilds: Rebuilds,
    pub(super) unknown_model: SingleFlight<()>,
    /// When a client's request last started a refresh.
    pub(super) unknown_model_at: Mutex<Option<Instant>>,
}
