//! The entry to telemetry: requests hand over their records here.

use std::sync::Arc;

use super::debug_trace::DebugTrace;
use super::log_row::ProxyLogRow;
use super::stored_response::StoredResponse;
use crate::keys::KeyLive;
use crate::routing::{ChannelLive, EndpointLive};
use crate::store::threads::queue::Queue;
use crate::sync::NewlyDirty;

/// The entry to telemetry; cheap to clone.
#[derive(Clone)]
pub struct Telemetry {
    queue: Arc<Queue>,
}

impl Telemetry {
    pub(in crate::store) fn new(queue: Arc<Queue>) -> Self {
        Self { queue }
    }

    /// Hands over one log row. Never blocks: when 16384 rows are waiting, the row is dropped and counted.
    pub fn log(&self, row: ProxyLogRow) {
        self.queue.log(row);
    }

    /// Hands over one debug trace. Never blocks; traces are the first to be dropped when the writer lags.
    pub fn trace(&self, trace: DebugTrace) {
        self.queue.trace(trace);
    }

    /// Hands over a response that its upstream has stored. Never blocks; dropped when the writer lags, as rows
    /// are.
    pub fn stored_response(&self, response: StoredResponse) {
        self.queue.stored_response(response);
    }

    /// Hands over a channel whose counters changed, unless it is waiting already.
    pub fn dirty_channel(&self, channel: &Arc<ChannelLive>, dirty: NewlyDirty) {
        if dirty.0 {
            self.queue.dirty_channel(channel.clone());
        }
    }

    /// Hands over an endpoint whose pool state changed, unless it is waiting already.
    pub fn dirty_endpoint(&self, endpoint: &Arc<EndpointLive>, dirty: NewlyDirty) {
        if dirty.0 {
            self.queue.dirty_endpoint(endpoint.clone());
        }
    }

    /// Hands over a downstream key whose usage changed, unless it is waiting already; `urgent` when little is left of its
    /// limit.
    pub fn dirty_key(&self, key: &Arc<KeyLive>, dirty: NewlyDirty, urgent: bool) {
        if dirty.0 {
            self.queue.dirty_key(key.clone(), urgent);
        }
    }

    /// Asks for an immediate commit of what was handed over, unless nothing can be stored for now.
    pub fn hurry(&self) {
        if self.queue.trouble().is_none() {
            drop(self.queue.flush());
        }
    }

    /// Returns the number of log rows dropped since the start.
    pub fn dropped(&self) -> u64 {
        self.queue.dropped()
    }

    /// Returns the number of debug traces dropped since the start.
    pub fn dropped_traces(&self) -> u64 {
        self.queue.dropped_traces()
    }

    /// Returns the number of log rows waiting for the writer.
    pub fn waiting(&self) -> usize {
        self.queue.waiting_rows()
    }

    /// Waits until everything handed over before is committed, or cannot be committed for now.
    pub async fn flush(&self) {
        // An error means that the writer is gone or the database fails: waiting would not help.
        let _ = self.queue.flush().await;
    }
}
