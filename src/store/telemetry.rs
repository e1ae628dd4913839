//! What requests leave behind: log rows, channel and endpoint counters, usage per hour and day.
//! Handed over without waiting; one group becomes one transaction (`writer.rs`).

use std::sync::Arc;

use jiff::tz::TimeZone;

use super::proxy_logs::ProxyLogRow;
use super::sql::{Dialect, Statement};
use super::writer::Queue;
use super::writer::{ChannelLive, EndpointLive};

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

    /// Hands over a channel whose counters moved; call it when `record_*` said it became dirty.
    pub fn dirty_channel(&self, channel: Arc<ChannelLive>) {
        self.queue.dirty_channel(channel);
    }

    /// Hands over an endpoint whose pool state moved.
    pub fn dirty_endpoint(&self, endpoint: Arc<EndpointLive>) {
        self.queue.dirty_endpoint(endpoint);
    }

    /// Log rows dropped since the start.
    pub fn dropped(&self) -> u64 {
        self.queue.dropped()
    }

    /// Log rows that wait for the writer.
    pub fn waiting(&self) -> usize {
        self.queue.waiting_rows()
    }

    /// Returns when everything handed over before is committed, or the store is closed.
    pub async fn flush(&self) {
        // An error means the writer is gone, and with it everything that could be waited for.
        let _ = self.queue.flush().await;
    }
}

/// What one transaction will hold.
pub(super) struct Group {
    pub(super) rows: std::collections::VecDeque<ProxyLogRow>,
    pub(super) channels: Vec<Arc<ChannelLive>>,
    pub(super) endpoints: Vec<Arc<EndpointLive>>,
}

/// Turns a group into statements.
pub(super) struct Recorder {
    #[expect(dead_code)]
    dialect: Dialect,
    #[expect(dead_code)]
    zone: TimeZone,
}

impl Recorder {
    pub(super) fn new(dialect: Dialect, zone: TimeZone) -> Self {
        Self { dialect, zone }
    }

    pub(super) fn statements(&mut self, group: Group) -> Vec<Statement> {
        drop((group.channels, group.endpoints));
        group.rows.into_iter().map(ProxyLogRow::insert).collect()
    }
}
