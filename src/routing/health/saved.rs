//! Site health and account limits as text: the setting `token_router_site_runtime_health_v1`.
//!
//! ```json
//! {"version":1,"savedAtMs":…,"globalBySiteId":{"7":{…}},"modelBySiteId":{"7":{"gpt-4o":{…}}},
//!  "limitWindowsByAccountId":{"3":[{…}]},"lastLimitResetByAccountId":{"3":…}}
//! ```
//!
//! Whatever the text holds, reading it yields numbers that the health rules can work with.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{BREAKER_MS, Health, STREAK, SiteHealth};
use crate::ids::{AccountId, SiteId};
use crate::routing::limit_windows::{LimitWindow, LimitWindows};
use crate::time::{DAY, Millis};

/// The name of the setting.
pub const SETTING: &str = "token_router_site_runtime_health_v1";
/// Records without an event for longer than this are not saved, in milliseconds.
const IDLE: Millis = 7 * DAY;

#[derive(Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Saved {
    version: u32,
    saved_at_ms: Millis,
    global_by_site_id: BTreeMap<SiteId, SavedHealth>,
    model_by_site_id: BTreeMap<SiteId, BTreeMap<Box<str>, SavedHealth>>,
    limit_windows_by_account_id: BTreeMap<AccountId, Vec<LimitWindow>>,
    last_limit_reset_by_account_id: BTreeMap<AccountId, Millis>,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct SavedHealth {
    at_ms: Millis,
    penalty: f64,
    latency_ema_ms: Option<f64>,
    transient_streak: u32,
    last_transient_at_ms: Option<Millis>,
    recent_successes: f64,
    recent_failures: f64,
    breaker_level: usize,
    breaker_until_ms: Option<Millis>,
    last_success_at_ms: Option<Millis>,
    last_failure_at_ms: Option<Millis>,
}

/// Writes the health of these sites and the limits of these accounts at `now`. Records that have been idle too long are
/// left out; those of models are dropped from `sites`, too.
pub fn write(
    sites: &[(SiteId, Arc<SiteHealth>)],
    limits: &[(AccountId, Arc<LimitWindows>)],
    now: Millis,
) -> String {
    let mut saved = Saved { version: 1, saved_at_ms: now, ..Saved::default() };
    for (id, limits) in limits {
        let windows = limits.in_force(now);
        if !windows.is_empty() {
            saved.limit_windows_by_account_id.insert(*id, windows);
        }
        let last_reset = limits.last_reset().filter(|at| *at >= now - IDLE);
        saved.last_limit_reset_by_account_id.extend(last_reset.map(|at| (*id, at)));
    }
    for (id, site) in sites {
        site.retain_since(now - IDLE);
        let (health, models) = site.records();
        if health.last_event() > 0 && health.last_event() >= now - IDLE {
            saved.global_by_site_id.insert(*id, health.into());
        }
        if !models.is_empty() {
            let models = models.into_iter().map(|(name, health)| (name, health.into()));
            saved.model_by_site_id.insert(*id, models.collect());
        }
    }
    serde_json::to_string(&saved).unwrap_or_default()
}

/// Restores the saved health of each site and the limits of each account; ignores text that is not in this format.
pub fn read(
    text: &str,
    site: impl Fn(SiteId) -> Arc<SiteHealth>,
    account: impl Fn(AccountId) -> Arc<LimitWindows>,
) {
    let Ok(saved) = serde_json::from_str::<Saved>(text) else { return };
    if saved.version != 1 {
        return;
    }
    for (id, health) in saved.global_by_site_id {
        site(id).restore(Some(health.into()), Vec::new());
    }
    for (id, windows) in saved.limit_windows_by_account_id {
        account(id).note(windows);
    }
    for (id, reset_at) in saved.last_limit_reset_by_account_id {
        account(id).note_reached(reset_at, saved.saved_at_ms);
    }
    for (id, models) in saved.model_by_site_id {
        site(id).restore(None, models.into_iter().map(|(name, health)| (name, health.into())).collect());
    }
}

impl From<Health> for SavedHealth {
    fn from(health: Health) -> Self {
        Self {
            at_ms: health.at,
            penalty: health.penalty,
            latency_ema_ms: health.latency_ema,
            transient_streak: health.streak,
            last_transient_at_ms: health.last_transient,
            recent_successes: health.successes,
            recent_failures: health.failures,
            breaker_level: health.breaker_level,
            breaker_until_ms: health.breaker_until,
            last_success_at_ms: health.last_success,
            last_failure_at_ms: health.last_failure,
        }
    }
}

impl From<SavedHealth> for Health {
    fn from(saved: SavedHealth) -> Self {
        let amount = |value: f64| if value.is_finite() { value.clamp(0.0, 1e12) } else { 0.0 };
        let moment = |at: Millis| at.clamp(0, Millis::MAX / 2);
        Self {
            at: moment(saved.at_ms),
            penalty: amount(saved.penalty),
            latency_ema: saved.latency_ema_ms.map(amount),
            streak: saved.transient_streak.min(STREAK),
            last_transient: saved.last_transient_at_ms.map(moment),
            successes: amount(saved.recent_successes),
            failures: amount(saved.recent_failures),
            breaker_level: saved.breaker_level.min(BREAKER_MS.len()),
            breaker_until: saved.breaker_until_ms.map(moment),
            last_success: saved.last_success_at_ms.map(moment),
            last_failure: saved.last_failure_at_ms.map(moment),
        }
    }
}
