//! Cooldowns of channels, unit members and site endpoints, where several instances share a database: what one
//! instance learns applies to all.
//!
//! ```text
//! a cooldown began at `rested_at`, an answer or an operator ended earlier ones at `cleared_at`: the later time counts
//! ```
//!
//! Each instance writes the times that it knows (`telemetry::merged_cooldown`), and the later one is kept. So the
//! result does not depend on the order in which they arrive: a cooldown that arrives late does not undo a later
//! clearing, and a success does not end a cooldown that began after its request.

use std::sync::atomic::{AtomicI64, Ordering};

use super::sql::{Statement, Value, placeholders};
use super::{Result, Store};
use crate::ids::{ChannelId, EndpointId, MemberId};
use crate::routing::{LiveTable, StoredCooldown};
use crate::time::Millis;

/// How far back changes are read again, in milliseconds, to find those that were committed late.
const LATE_MS: Millis = 10_000;

/// The position up to which this instance has read changes.
#[derive(Debug, Default)]
pub struct SharedCooldowns {
    since: AtomicI64,
}

impl SharedCooldowns {
    /// Takes over the changes since the last read.
    pub async fn follow(&self, store: &Store, live: &LiveTable) -> Result<()> {
        let since = self.since.load(Ordering::Relaxed);
        let mut newest = since + LATE_MS;
        for table in TABLES {
            for ChangedRow { id, changed_at, stored } in changed(store, &table, since).await? {
                newest = newest.max(changed_at);
                match table.kind {
                    RowKind::Channel => {
                        live.known_channel(ChannelId::new(id)).iter().for_each(|live| live.follow(&stored))
                    }
                    RowKind::Member => {
                        live.known_member(MemberId::new(id)).iter().for_each(|live| live.follow(&stored))
                    }
                    RowKind::Endpoint => {
                        live.known_endpoint(EndpointId::new(id)).iter().for_each(|live| live.follow(&stored))
                    }
                }
            }
        }
        self.since.store(newest - LATE_MS, Ordering::Relaxed);
        Ok(())
    }
}

/// The kind of thing that a row describes.
#[derive(Clone, Copy)]
enum RowKind {
    Channel,
    Member,
    Endpoint,
}

/// A table, the column of its ids, and the expressions for columns that only some tables have.
struct Table {
    kind: RowKind,
    name: &'static str,
    id: &'static str,
    provider_cooldown_until: &'static str,
    last_fail_at: &'static str,
    consecutive_fail_count: &'static str,
}

const TABLES: [Table; 3] = [
    Table {
        kind: RowKind::Channel,
        name: "channel_stats",
        id: "channel_id",
        provider_cooldown_until: "COALESCE(provider_cooldown_until, 0)",
        last_fail_at: "last_fail_at",
        consecutive_fail_count: "consecutive_fail_count",
    },
    Table {
        kind: RowKind::Member,
        name: "oauth_route_unit_members",
        id: "id",
        provider_cooldown_until: "COALESCE(provider_cooldown_until, 0)",
        last_fail_at: "last_fail_at",
        consecutive_fail_count: "consecutive_fail_count",
    },
    Table {
        kind: RowKind::Endpoint,
        name: "site_api_endpoints",
        id: "id",
        provider_cooldown_until: "0",
        last_fail_at: "last_failed_at",
        consecutive_fail_count: "0",
    },
];

struct ChangedRow {
    id: i64,
    changed_at: Millis,
    stored: StoredCooldown,
}

/// Returns the rows changed since `since`.
async fn changed(store: &Store, table: &Table, since: Millis) -> Result<Vec<ChangedRow>> {
    let Table { name, id, provider_cooldown_until, last_fail_at, consecutive_fail_count, .. } = table;
    let sql = format!(
        "SELECT {id}, rest_changed_at, COALESCE(rested_at, 0), COALESCE(cleared_at, 0), COALESCE(cooldown_until, 0), \
         {provider_cooldown_until}, COALESCE({last_fail_at}, 0), {consecutive_fail_count} \
         FROM {name} WHERE rest_changed_at > ?"
    );
    store
        .rows(sql, vec![since.into()], |row| {
            let (id, changed_at) = (row.int()?, row.int()?);
            let stored = StoredCooldown {
                cooled_at: row.int()?,
                cleared_at: row.int()?,
                cooldown_until: row.int()?,
                provider_cooldown_until: row.int()?,
                last_fail: row.int()?,
                consecutive_fail: row.int()?.unsigned_abs(),
            };
            Ok(ChangedRow { id, changed_at, stored })
        })
        .await
}

/// Builds the statement that clears failures, cooldown and its level of these channels or members of route
/// units.
pub(super) fn clear(store: &Store, table: &str, id: &str, ids: Vec<Value>, now: Millis) -> Statement {
    let stamp = store.database().dialect().now().unwrap_or("NULL");
    let marks = placeholders(ids.len());
    // No earlier than the cooldown that it ends, even if another instance's clock dated that.
    let sql = format!(
        "UPDATE {table} SET fail_count = 0, consecutive_fail_count = 0, cooldown_level = 0, last_fail_at = NULL, \
         cooldown_until = NULL, provider_cooldown_until = NULL, rest_changed_at = {stamp}, \
         cleared_at = CASE WHEN COALESCE(rested_at, 0) > ? THEN rested_at ELSE ? END WHERE {id} IN ({marks})"
    );
    Statement::new(sql, [vec![now.into(), now.into()], ids].concat()).touching_nothing()
}
