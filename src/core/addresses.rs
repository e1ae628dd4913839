//! Tries the addresses of a site one after the other. Each result is recorded in the address's health, and changes go
//! to the writer.

use std::sync::Arc;
use std::time::Duration;

use crate::routing::{Endpoint, pool};
use crate::store::Store;
use crate::sync::NewlyDirty;
use crate::time::{Millis, now_ms};

/// The addresses that have not been tried, and the one in use.
pub struct AddressWalk<'a> {
    store: &'a Store,
    left: pool::Order<'a>,
    asked: Option<&'a Endpoint>,
    now: Millis,
}

impl<'a> AddressWalk<'a> {
    /// Begins at `now`, which saves a look at the clock if the caller has just had one.
    pub fn new(store: &'a Store, endpoints: &'a [Arc<Endpoint>], now: Millis) -> Self {
        Self { store, left: pool::order(endpoints, now), asked: None, now }
    }

    /// Returns the next address to try and records its selection.
    pub fn next_address(&mut self) -> Option<&'a Endpoint> {
        self.asked = self.left.next().map(|endpoint| &**endpoint);
        if let Some(endpoint) = self.asked {
            self.tell(endpoint, endpoint.live.record_selection(self.now));
        }
        self.asked
    }

    pub fn has_more(&self) -> bool {
        self.left.has_more()
    }

    /// Returns how much of the time that is left the address may take.
    pub fn share(&self, left: Duration) -> Duration {
        self.left.share(left)
    }

    /// Starts again with these addresses.
    pub fn begin_again(&mut self, endpoints: &'a [Arc<Endpoint>]) {
        self.now = now_ms();
        self.left = pool::order(endpoints, self.now);
    }

    /// Records that the address gave the wanted answer: its cooldown ends.
    pub fn answered(&self) {
        if let Some(endpoint) = self.asked {
            self.tell(endpoint, endpoint.live.record_success(self.now));
        }
    }

    /// Records a failure of the address itself: it cools down.
    pub fn failed(&mut self, reason: &str) {
        self.now = now_ms();
        if let Some(endpoint) = self.asked {
            self.tell(endpoint, endpoint.live.record_failure(self.now, self.now + pool::COOLDOWN_MS, reason));
        }
    }

    /// Records that the address refused the request, as any other would: it is evidently alive.
    pub fn refused(&mut self, reason: &str) {
        self.now = now_ms();
        if let Some(endpoint) = self.asked {
            self.tell(endpoint, endpoint.live.record_other_failure(self.now, reason));
        }
    }

    fn tell(&self, endpoint: &Endpoint, dirty: NewlyDirty) {
        self.store.telemetry().dirty_endpoint(&endpoint.live, dirty);
    }
}
