//! Turns groups of telemetry into statements: counters and usage that go with the log rows.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::tz::TimeZone;

use super::debug_trace::DebugTrace;
use super::key_days::KeyDays;
use super::log_row::{ProxyLogRow, RowName};
use super::log_spans;
use super::merged_cooldown;
use super::stored_response::StoredResponse;
use super::usage::{Correction, Usage};
use crate::ids::{EndpointId, KeyId};
use crate::keys::{BudgetDelta, KeyDelta, KeyLive};
use crate::money::Usd;
use crate::routing::{ChannelDelta, ChannelLive, CountersOf, EndpointLive, EndpointState};
use crate::store::sql::{OnConflict, SqlDialect, Statement, Value, upsert};
use crate::time::Millis;

/// The content of one transaction besides its log rows.
pub(in crate::store) struct Group {
    pub(in crate::store) traces: Vec<DebugTrace>,
    pub(in crate::store) responses: Vec<StoredResponse>,
    pub(in crate::store) channels: Vec<Arc<ChannelLive>>,
    pub(in crate::store) endpoints: Vec<Arc<EndpointLive>>,
    pub(in crate::store) keys: Vec<Arc<KeyLive>>,
}

/// Turns groups into statements.
pub(in crate::store) struct Recorder {
    dialect: SqlDialect,
    usage: Usage,
    key_days: KeyDays,
    usage_hour: String,
    usage_day: String,
}

impl Recorder {
    pub(in crate::store) fn new(dialect: SqlDialect, zone: TimeZone) -> Self {
        let sums = [
            "calls",
            "ok",
            "failed",
            "tokens",
            "cost",
            "latency_ms",
            "latency_n",
            "cache_input_tokens",
            "cache_read_tokens",
            "cache_creation_tokens",
        ];
        let sums = sums.map(|name| (name, OnConflict::Add));
        let mut of_day = vec![("tz", OnConflict::Keep)];
        of_day.extend(sums);
        Self {
            dialect,
            usage: Usage::new(zone.clone()),
            key_days: KeyDays::new(dialect, zone),
            usage_hour: upsert(dialect, "usage_hour", &["bucket_start", "site_id", "model"], &sums),
            usage_day: upsert(dialect, "usage_day", &["local_day", "site_id", "model"], &of_day),
        }
    }

    /// Settles the cost of log rows, and returns the statements that go with them.
    pub(in crate::store) fn statements(&mut self, rows: &mut [ProxyLogRow], group: Group) -> Vec<Statement> {
        let mut statements = Vec::with_capacity(group.channels.len() + 8);
        for row in rows {
            row.settle_cost();
            self.usage.count(row);
            self.key_days.count(row);
        }
        for trace in group.traces {
            statements.extend(trace.insert(statements.len()));
        }
        statements.extend(group.responses.into_iter().flat_map(StoredResponse::insert));
        // In the order of ids, so that several instances on one database never deadlock.
        let mut deltas: Vec<ChannelDelta> = group.channels.iter().map(|live| live.take_delta()).collect();
        deltas.sort_unstable_by_key(|delta| delta.of);
        let update = |delta| match self.dialect {
            SqlDialect::Sqlite => channel_update(delta),
            shared => shared_channel_update(shared, delta),
        };
        statements.extend(deltas.iter().map(update));
        let mut states: Vec<(EndpointId, EndpointState)> =
            group.endpoints.iter().filter_map(|live| Some((live.id?, live.take_state()))).collect();
        states.sort_unstable_by_key(|(id, _)| *id);
        let update = |(id, state)| match self.dialect {
            SqlDialect::Sqlite => endpoint_update(id, state),
            shared => shared_endpoint_update(shared, id, state),
        };
        statements.extend(states.into_iter().map(update));
        let mut keys: Vec<KeyDelta> = group.keys.iter().map(|live| live.take_delta()).collect();
        keys.sort_unstable_by_key(|delta| delta.id);
        for delta in keys {
            statements.extend(key_updates(delta));
        }
        statements.extend(self.used());
        statements.extend(self.key_days.take());
        statements
    }

    /// Returns the statements that reopen the spans of late rows which may already be summed.
    pub(in crate::store) fn late(&self, rows: &[ProxyLogRow], now: Millis) -> Vec<Statement> {
        let spans: BTreeSet<_> =
            rows.iter().filter_map(|row| log_spans::summed_span(row.created_at, now)).collect();
        spans.into_iter().flat_map(|span| log_spans::open(self.dialect, span)).collect()
    }

    /// Returns the statements that add to the usage buckets of a row that was counted before.
    pub(in crate::store) fn correction(&mut self, row: &RowName, more: &Correction) -> Vec<Statement> {
        self.usage.correct(row, more);
        self.used()
    }

    /// Returns the statements that correct the days of the key that pays for a row. The row was counted before.
    pub(in crate::store) fn key_correction(&mut self, row: &RowName, more: &Correction) -> Vec<Statement> {
        self.key_days.correct(row, more);
        self.key_days.take()
    }

    /// Returns the statements that add to what a key has used.
    pub(in crate::store) fn charge(delta: KeyDelta) -> impl Iterator<Item = Statement> {
        key_updates(delta).map(Statement::touching_nothing)
    }

    /// Returns the statements that add the tallies to the usage tables.
    fn used(&mut self) -> Vec<Statement> {
        let (hours, days) = self.usage.take();
        let hours = hours.into_iter().map(|args| Statement::new(self.usage_hour.clone(), args));
        let days = days.into_iter().map(|args| Statement::new(self.usage_day.clone(), args));
        hours.chain(days).collect()
    }
}

const OF_CHANNEL: &str = "UPDATE channel_stats SET success_count = success_count + ?, \
     fail_count = fail_count + ?, total_latency_ms = total_latency_ms + ?, total_cost = total_cost + ?, \
     cache_input_tokens = cache_input_tokens + ?, cache_read_tokens = cache_read_tokens + ?, \
     consecutive_fail_count = ?, last_used_at = ?, last_selected_at = ?, last_fail_at = ?, cooldown_until = ?, \
     provider_cooldown_until = ? WHERE channel_id = ?";

const OF_MEMBER: &str = "UPDATE oauth_route_unit_members SET success_count = success_count + ?, \
     fail_count = fail_count + ?, total_latency_ms = total_latency_ms + ?, total_cost = total_cost + ?, \
     cache_input_tokens = cache_input_tokens + ?, cache_read_tokens = cache_read_tokens + ?, \
     consecutive_fail_count = ?, last_used_at = ?, last_selected_at = ?, last_fail_at = ?, cooldown_until = ?, \
     provider_cooldown_until = ? WHERE id = ?";

/// Builds an update like [`channel_update`], for a row that other instances write too: counters are added, and
/// the cooldown is merged.
fn shared_channel_update(dialect: SqlDialect, delta: &ChannelDelta) -> Statement {
    let (table, column, id): (_, _, Value) = match delta.of {
        CountersOf::Member(id) => ("oauth_route_unit_members", "id", id.into()),
        CountersOf::Channel(id) => ("channel_stats", "channel_id", id.into()),
    };
    let (set, assigned) = merged_cooldown::assignments(dialect, delta);
    let sql = format!(
        "UPDATE {table} SET success_count = success_count + ?, fail_count = fail_count + ?, \
         total_latency_ms = total_latency_ms + ?, total_cost = total_cost + ?, \
         cache_input_tokens = cache_input_tokens + ?, cache_read_tokens = cache_read_tokens + ?, {set} WHERE {column} = ?"
    );
    let args = vec![
        count(delta.success),
        count(delta.fail),
        count(delta.latency_ms),
        Usd::from_nano(delta.cost_nano).into(),
        count(delta.cache_input),
        count(delta.cache_read),
    ];
    Statement::new(sql, [args, assigned, vec![id]].concat()).touching_nothing()
}

fn count(value: u64) -> Value {
    Value::Int(i64::try_from(value).unwrap_or(i64::MAX))
}

/// Builds the update of a channel's or unit member's row: counters are added, other values replaced. A channel
/// deleted meanwhile has no row, which is fine.
fn channel_update(delta: &ChannelDelta) -> Statement {
    let (sql, id) = match delta.of {
        CountersOf::Member(id) => (OF_MEMBER, id.into()),
        CountersOf::Channel(id) => (OF_CHANNEL, id.into()),
    };
    Statement::new(
        sql,
        vec![
            count(delta.success),
            count(delta.fail),
            count(delta.latency_ms),
            Usd::from_nano(delta.cost_nano).into(),
            count(delta.cache_input),
            count(delta.cache_read),
            count(delta.consecutive_fail),
            delta.last_used.into(),
            delta.last_selected.into(),
            delta.last_fail.into(),
            delta.cooldown_until.into(),
            delta.provider_cooldown_until.into(),
            id,
        ],
    )
    .touching_nothing()
}

fn endpoint_update(id: EndpointId, state: EndpointState) -> Statement {
    Statement::new(
        "UPDATE site_api_endpoints SET cooldown_until = ?, last_selected_at = ?, last_failed_at = ?, \
         last_failure_reason = ? WHERE id = ?",
        vec![
            state.cooldown_until.into(),
            state.last_selected.into(),
            state.last_failed.into(),
            state.last_failure_reason.into(),
            id.into(),
        ],
    )
}

/// Builds an update like [`endpoint_update`], for a row that other instances write too.
fn shared_endpoint_update(dialect: SqlDialect, id: EndpointId, state: EndpointState) -> Statement {
    let (set, mut args) = merged_cooldown::of_endpoint(dialect, state);
    args.push(id.into());
    Statement::new(format!("UPDATE site_api_endpoints SET {set} WHERE id = ?"), args).touching_nothing()
}

fn key_updates(delta: KeyDelta) -> impl Iterator<Item = Statement> {
    // Another instance may have written a later use before.
    let of_key = Statement::new(
        "UPDATE downstream_api_keys SET used_requests = used_requests + ?, used_cost = used_cost + ?, \
         last_used_at = CASE WHEN last_used_at > ? THEN last_used_at ELSE ? END WHERE id = ?",
        vec![
            Value::Int(i64::try_from(delta.requests).unwrap_or(i64::MAX)),
            delta.cost.into(),
            delta.last_used.into(),
            delta.last_used.into(),
            delta.id.into(),
        ],
    );
    let of_budgets = delta.budgets.into_iter().map(move |budget| budget_update(delta.id, budget));
    std::iter::once(of_key).chain(of_budgets)
}

/// Builds the statement that adds to the row of a budget window; it has no effect when the window has ended
/// meanwhile.
fn budget_update(key: KeyId, delta: BudgetDelta) -> Statement {
    let BudgetDelta { scope, window_start, used } = delta;
    Statement::new(
        "UPDATE downstream_key_budgets SET used_requests = used_requests + ?, used_cost = used_cost + ?, \
         used_tokens = used_tokens + ? WHERE key_id = ? AND scope = ? AND window_start = ?",
        vec![
            used.requests.into(),
            used.cost.into(),
            used.tokens.into(),
            key.into(),
            scope.into(),
            window_start.into(),
        ],
    )
}
