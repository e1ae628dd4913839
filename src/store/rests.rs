//! The rests of channels, where several instances share a database: what one learns holds for all.
//!
//! ```text
//! a rest began at `rested_at`, an answer or an operator ended what was before `cleared_at`: the later of the two counts
//! ```
//!
//! Each instance writes the moments that it knows (`telemetry::merged_rest`), and the greater one stays. So the outcome
//! does not depend on the order in which they come: a rest that arrives late does not undo a later clearing, and a
//! success ends no rest that began after its request.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use super::sql::{Statement, Value, marks};
use super::{Result, Store};
use crate::routing::{ChannelLive, LiveTable, StoredRest};
use crate::time::Millis;

/// What was committed late is found by looking so far back.
const LATE_MS: Millis = 10_000;

/// What this instance has read.
#[derive(Debug, Default)]
pub struct Rests {
    since: AtomicI64,
}

impl Rests {
    /// Takes over what has changed since the last look.
    pub async fn follow(&self, store: &Store, live: &LiveTable) -> Result<()> {
        let since = self.since.load(Ordering::Relaxed);
        let channels =
            changed(store, "channel_stats", "channel_id", since, |id| live.known_channel(id)).await?;
        let members = "oauth_route_unit_members";
        let members = changed(store, members, "id", since, |id| live.known_member(id)).await?;
        self.since.store(channels.max(members) - LATE_MS, Ordering::Relaxed);
        Ok(())
    }
}

/// Gives the moment of the newest change.
async fn changed(
    store: &Store,
    table: &'static str,
    id: &'static str,
    since: Millis,
    live: impl Fn(i64) -> Option<Arc<ChannelLive>>,
) -> Result<Millis> {
    let sql = format!(
        "SELECT {id}, rest_changed_at, COALESCE(rested_at, 0), COALESCE(cleared_at, 0), COALESCE(cooldown_until, 0), \
         COALESCE(provider_cooldown_until, 0), COALESCE(last_fail_at, 0), consecutive_fail_count \
         FROM {table} WHERE rest_changed_at > ?"
    );
    let mut newest = since + LATE_MS;
    for row in &store.query(sql, vec![since.into()]).await? {
        let mut row = row.fields();
        let (id, changed_at) = (row.int()?, row.int()?);
        newest = newest.max(changed_at);
        let stored = StoredRest {
            rested_at: row.int()?,
            cleared_at: row.int()?,
            cooldown_until: row.int()?,
            provider_cooldown_until: row.int()?,
            last_fail: row.int()?,
            consecutive_fail: row.int()?.unsigned_abs(),
        };
        if let Some(live) = live(id) {
            live.follow(&stored);
        }
    }
    Ok(newest)
}

/// Forgets that these channels, or members of route units, ever failed: failures, cooldown and its level.
pub(super) fn clear(store: &Store, table: &str, id: &str, ids: Vec<Value>, now: Millis) -> Statement {
    let stamp = store.database().dialect().now().unwrap_or("NULL");
    let marks = marks(ids.len());
    // No earlier than the rest that it ends, whosever clock that was told by.
    let sql = format!(
        "UPDATE {table} SET fail_count = 0, consecutive_fail_count = 0, cooldown_level = 0, last_fail_at = NULL, \
         cooldown_until = NULL, provider_cooldown_until = NULL, rest_changed_at = {stamp}, \
         cleared_at = CASE WHEN COALESCE(rested_at, 0) > ? THEN rested_at ELSE ? END WHERE {id} IN ({marks})"
    );
    Statement::new(sql, [vec![now.into(), now.into()], ids].concat()).touching_nothing()
}
