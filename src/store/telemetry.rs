//! What requests leave behind: log rows, channel and endpoint counters, usage per hour and day.
//! Handed over without waiting; one group becomes one transaction (`writer.rs`).

use std::sync::Arc;

use jiff::tz::TimeZone;

use super::amend::RowName;
use super::debug_traces::DebugTrace;
use super::proxy_logs::ProxyLogRow;
use super::queue::Queue;
use super::responses::StoredResponse;
use super::sql::{Dialect, OnConflict, Statement, Value, upsert};
use super::usage::Usage;
use crate::keys::{KeyDelta, KeyLive};
use crate::routing::{ChannelDelta, ChannelLive, EndpointLive, EndpointState};

/// The unit of channel costs in memory, against US dollars in the database.
pub(super) const NANO_PER_USD: f64 = 1e9;

/// The way in, cheap to clone.
#[derive(Clone)]
pub struct Telemetry {
    queue: Arc<Queue>,
}

impl Telemetry {
    pub(super) fn new(queue: Arc<Queue>) -> Self {
        Self { queue }
    }

    /// Hands over one log row. Never blocks: when 16384 rows wait, the row is dropped and counted.
    pub fn log(&self, row: ProxyLogRow) {
        self.queue.log(row);
    }

    /// Hands over one debug trace. Never blocks; the first to be dropped when the writer lags.
    pub fn trace(&self, trace: DebugTrace) {
        self.queue.trace(trace);
    }

    /// Hands over an answer that its upstream has stored. Never blocks; dropped when the writer lags, as rows are.
    pub fn stored_response(&self, response: StoredResponse) {
        self.queue.stored_response(response);
    }

    /// Hands over a channel whose counters moved; call it when `record_*` said it became dirty.
    pub fn dirty_channel(&self, channel: Arc<ChannelLive>) {
        self.queue.dirty_channel(channel);
    }

    /// Hands over an endpoint whose pool state moved.
    pub fn dirty_endpoint(&self, endpoint: Arc<EndpointLive>) {
        self.queue.dirty_endpoint(endpoint);
    }

    /// Hands over a downstream key whose usage moved; `urgent` when little is left of its limit.
    pub fn dirty_key(&self, key: Arc<KeyLive>, urgent: bool) {
        self.queue.dirty_key(key, urgent);
    }

    /// Log rows dropped since the start.
    pub fn dropped(&self) -> u64 {
        self.queue.dropped()
    }

    /// Debug traces dropped since the start.
    pub fn dropped_traces(&self) -> u64 {
        self.queue.dropped_traces()
    }

    /// Log rows that wait for the writer.
    pub fn waiting(&self) -> usize {
        self.queue.waiting_rows()
    }

    /// Returns when everything handed over before is committed, or cannot be for now.
    pub async fn flush(&self) {
        // An error means that the writer is gone or that the database fails: waiting would not help.
        let _ = self.queue.flush().await;
    }
}

/// What one transaction will hold beside its log rows.
pub(super) struct Group {
    pub(super) traces: Vec<DebugTrace>,
    pub(super) responses: Vec<StoredResponse>,
    pub(super) channels: Vec<Arc<ChannelLive>>,
    pub(super) endpoints: Vec<Arc<EndpointLive>>,
    pub(super) keys: Vec<Arc<KeyLive>>,
}

/// Turns groups into statements.
pub(super) struct Recorder {
    usage: Usage,
    usage_hour: String,
    usage_day: String,
}

impl Recorder {
    pub(super) fn new(dialect: Dialect, zone: TimeZone) -> Self {
        let sums = ["calls", "ok", "failed", "tokens", "cost", "latency_ms", "latency_n"];
        let sums = sums.map(|name| (name, OnConflict::Add));
        let mut of_day = vec![("tz", OnConflict::Keep)];
        of_day.extend(sums);
        Self {
            usage: Usage::new(zone),
            usage_hour: upsert(dialect, "usage_hour", &["bucket_start", "site_id", "model"], &sums),
            usage_day: upsert(dialect, "usage_day", &["local_day", "site_id", "model"], &of_day),
        }
    }

    /// Settles log rows, and gives the statements that go with them.
    pub(super) fn statements(&mut self, rows: &mut [ProxyLogRow], group: Group) -> Vec<Statement> {
        let mut statements = Vec::with_capacity(group.channels.len() + 8);
        for row in rows {
            row.settle_cost();
            self.usage.count(row);
        }
        for trace in group.traces {
            statements.extend(trace.insert(statements.len()));
        }
        statements.extend(group.responses.into_iter().map(StoredResponse::insert));
        // In the order of ids, so that several instances on one database never wait for each other in a circle.
        let mut deltas: Vec<ChannelDelta> = group.channels.iter().map(|live| live.take_delta()).collect();
        deltas.sort_unstable_by_key(|delta| delta.id);
        statements.extend(deltas.iter().map(channel_update));
        let mut states: Vec<(i64, EndpointState)> =
            group.endpoints.iter().filter_map(|live| Some((live.id?, live.take_state()))).collect();
        states.sort_unstable_by_key(|(id, _)| *id);
        statements.extend(states.into_iter().map(|(id, state)| endpoint_update(id, state)));
        let mut keys: Vec<KeyDelta> = group.keys.iter().map(|live| live.take_delta()).collect();
        keys.sort_unstable_by_key(|delta| delta.id);
        statements.extend(keys.into_iter().map(key_update));
        statements.extend(self.used());
        statements
    }

    /// Adds tokens and cost to the buckets of a row that was counted before.
    pub(super) fn correction(&mut self, row: &RowName, tokens: i64, cost: f64) -> Vec<Statement> {
        self.usage.correct(row.created_at, row.site_id, &row.model, tokens, cost);
        self.used()
    }

    /// Statements that add the tallies to the usage tables.
    fn used(&mut self) -> Vec<Statement> {
        let (hours, days) = self.usage.take();
        let hours = hours.into_iter().map(|args| Statement::new(self.usage_hour.clone(), args));
        let days = days.into_iter().map(|args| Statement::new(self.usage_day.clone(), args));
        hours.chain(days).collect()
    }
}

/// Counters are added to what other instances wrote; the rest replaces it. A channel deleted
/// meanwhile has no row, and that is fine.
fn channel_update(delta: &ChannelDelta) -> Statement {
    let count = |value: u64| Value::Int(i64::try_from(value).unwrap_or(i64::MAX));
    Statement::new(
        "UPDATE channel_stats SET success_count = success_count + ?, fail_count = fail_count + ?, \
         total_latency_ms = total_latency_ms + ?, total_cost = total_cost + ?, consecutive_fail_count = ?, \
         last_used_at = ?, last_selected_at = ?, last_fail_at = ?, cooldown_until = ?, \
         provider_cooldown_until = ? WHERE channel_id = ?",
        vec![
            count(delta.success),
            count(delta.fail),
            count(delta.latency_ms),
            Value::Real(delta.cost_nano as f64 / NANO_PER_USD),
            count(delta.consecutive_fail),
            delta.last_used.into(),
            delta.last_selected.into(),
            delta.last_fail.into(),
            delta.cooldown_until.into(),
            delta.provider_cooldown_until.into(),
            delta.id.into(),
        ],
    )
}

fn endpoint_update(id: i64, state: EndpointState) -> Statement {
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

fn key_update(delta: KeyDelta) -> Statement {
    Statement::new(
        "UPDATE downstream_api_keys SET used_requests = used_requests + ?, used_cost = used_cost + ?, \
         last_used_at = ? WHERE id = ?",
        vec![
            Value::Int(i64::try_from(delta.requests).unwrap_or(i64::MAX)),
            delta.cost.into(),
            delta.last_used.into(),
            delta.id.into(),
        ],
    )
}
