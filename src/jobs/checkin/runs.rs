//! The check-ins under way, and the outcome of one.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use tokio::sync::{Mutex as AsyncMutex, Semaphore};
use tokio::time::timeout;

use crate::flight::SingleFlight;
use crate::ids::{AccountId, SiteId};
use crate::store::checkins::CheckinStatus;
use crate::sync::lock;
use crate::time::Millis;

/// The longest time that the stop of the service waits for check-ins under way.
pub(super) const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);

/// The number of permits: more check-ins than are ever under way at once.
const MAX_UNDER_WAY: u32 = 1 << 16;

/// The check-ins under way and the accounts last tried; [`Jobs`](crate::jobs::Jobs) holds one.
pub struct Checkins {
    pub(super) all: SingleFlight<Arc<Vec<Item>>>,
    pub(super) due: SingleFlight<Arc<Vec<Item>>>,
    /// A lock for each site, which gets one check-in at a time.
    pub(super) turns: Mutex<HashMap<SiteId, Arc<AsyncMutex<()>>>>,
    /// When each account was last tried: a failure begins the interval anew, too.
    pub(super) tried: Mutex<HashMap<AccountId, Millis>>,
    /// The permits of check-ins, each held from its first request until the check-in is stored.
    pub(super) under_way: Semaphore,
}

/// The outcome of a check-in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckinOutcome {
    /// `None` for an account that does not exist.
    pub status: Option<CheckinStatus>,
    pub message: String,
    /// The reward in USD, as decimal digits.
    pub reward: Option<String>,
    pub reason: Option<&'static str>,
}

impl CheckinOutcome {
    /// Whether nothing is wrong: a check-in that the site does not offer is skipped.
    pub fn is_success(&self) -> bool {
        matches!(self.status, Some(CheckinStatus::Success | CheckinStatus::Skipped))
    }
}

/// Writes the members that operators' scripts read.
impl Serialize for CheckinOutcome {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { status, message, reward, reason } = self;
        let mut members = serializer.serialize_map(None)?;
        members.serialize_entry("success", &self.is_success())?;
        if let Some(status) = status {
            members.serialize_entry("status", status.as_str())?;
        }
        members.serialize_entry("message", message)?;
        if let Some(reward) = reward {
            members.serialize_entry("reward", reward)?;
        }
        if *status == Some(CheckinStatus::Skipped) {
            members.serialize_entry("skipped", &true)?;
        }
        if let Some(reason) = reason {
            members.serialize_entry("reason", reason)?;
        }
        members.end()
    }
}

/// The result of one account in a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Item {
    pub account_id: AccountId,
    pub username: Option<String>,
    /// The name of the account's site.
    pub site: String,
    pub result: CheckinOutcome,
}

impl Default for Checkins {
    fn default() -> Self {
        Self {
            all: SingleFlight::default(),
            due: SingleFlight::default(),
            turns: Mutex::default(),
            tried: Mutex::default(),
            under_way: Semaphore::new(MAX_UNDER_WAY as usize),
        }
    }
}

impl Checkins {
    /// Lets no further check-in begin, and returns when those under way are stored, or after a time limit.
    pub async fn drain(&self) {
        let all = timeout(DRAIN_TIMEOUT, self.under_way.acquire_many(MAX_UNDER_WAY)).await;
        if all.is_err() {
            let left = MAX_UNDER_WAY as usize - self.under_way.available_permits();
            log::warn!("{left} check-in(s) were still under way when the service stopped");
        }
        self.under_way.close();
    }

    pub(super) fn turn(&self, site: SiteId) -> Arc<AsyncMutex<()>> {
        let mut turns = lock(&self.turns);
        turns.retain(|_, turn| Arc::strong_count(turn) > 1);
        turns.entry(site).or_default().clone()
    }
}
