//! Remembers facts about sites and sessions between calls, in memory only: after a restart they are asked for anew.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Mutex;
use std::time::Duration;

use tokio::time::Instant;

use crate::routing::BaseUrl;
use crate::sync::lock;

/// The time for which a site's unit counts as fresh.
const UNIT_LIFE: Duration = Duration::from_secs(3600);
/// The most entries of one table; beyond that the table starts again, which costs a few calls.
const MAX_ENTRIES: usize = 20_000;

/// The facts that earlier calls have learnt; the app holds one.
#[derive(Default)]
pub struct SiteMemory {
    /// By site: how many of its units make a dollar, and when that was learnt.
    units: Mutex<HashMap<String, (f64, Instant)>>,
    /// By session at a site: how it was last accepted.
    sessions: Mutex<HashMap<u64, SessionAuth>>,
}

/// How a session was last accepted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SessionAuth {
    pub by_cookie: bool,
    /// The user's number, where it had to be found out or the site told it.
    pub user_id: Option<i64>,
}

/// A site's unit, as it is remembered.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Unit {
    Fresh(f64),
    /// Out of date and to be asked for again; still better than a guess.
    Old(f64),
    Unknown,
}

// === impl SiteMemory ===

impl SiteMemory {
    pub(super) fn unit(&self, base: &BaseUrl) -> Unit {
        match lock(&self.units).get(&site_name(base)) {
            None => Unit::Unknown,
            Some((unit, heard)) if heard.elapsed() < UNIT_LIFE => Unit::Fresh(*unit),
            Some((unit, _)) => Unit::Old(*unit),
        }
    }

    pub(super) fn learn_unit(&self, base: &BaseUrl, unit: f64) {
        insert(&mut lock(&self.units), site_name(base), (unit, Instant::now()));
    }

    pub(super) fn session(&self, base: &BaseUrl, session: &str) -> Option<SessionAuth> {
        lock(&self.sessions).get(&session_name(base, session)).copied()
    }

    pub(super) fn learn_session(&self, base: &BaseUrl, session: &str, known: SessionAuth) {
        insert(&mut lock(&self.sessions), session_name(base, session), known);
    }
}

fn insert<K: Eq + Hash, V>(table: &mut HashMap<K, V>, key: K, value: V) {
    if table.len() >= MAX_ENTRIES {
        table.clear();
    }
    table.insert(key, value);
}

fn site_name(base: &BaseUrl) -> String {
    format!("{}{}", base.origin, base.path)
}

/// Returns the key of a session in the table. The session itself is not kept.
fn session_name(base: &BaseUrl, session: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    (site_name(base), session).hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_sites_unit_counts_for_an_hour() {
        let base = BaseUrl::parse("https://example.com", None).expect("a base address");
        let memory = SiteMemory::default();
        assert_eq!(memory.unit(&base), Unit::Unknown);
        memory.learn_unit(&base, 1000.0);
        tokio::time::advance(UNIT_LIFE - Duration::from_secs(1)).await;
        assert_eq!(memory.unit(&base), Unit::Fresh(1000.0));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(memory.unit(&base), Unit::Old(1000.0));
    }
}
