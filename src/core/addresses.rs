//! The addresses of a site, asked one after the other. What each does is noted in its health, and the writer is told.

use std::sync::Arc;

use crate::routing::{Endpoint, pool};
use crate::store::Store;
use crate::time::{Millis, now_ms};

/// Those that have not been asked, and the one that is being asked.
pub struct AddressWalk<'a> {
    store: &'a Store,
    left: pool::Order<'a>,
    asked: Option<&'a Endpoint>,
    now: Millis,
}

impl<'a> AddressWalk<'a> {
    /// Begins at `now`, which spares a look at the clock where the caller has just had one.
    pub fn new(store: &'a Store, endpoints: &'a [Arc<Endpoint>], now: Millis) -> Self {
        Self { store, left: pool::order(endpoints, now), asked: None, now }
    }

    /// The address to ask now; its selection is noted.
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

    /// Goes through these once more.
    pub fn begin_again(&mut self, endpoints: &'a [Arc<Endpoint>]) {
        self.now = now_ms();
        self.left = pool::order(endpoints, self.now);
    }

    /// The address has given what was asked for: its cooldown ends.
    pub fn answered(&self) {
        if let Some(endpoint) = self.asked {
            self.tell(endpoint, endpoint.live.record_success());
        }
    }

    /// The failure is the address's own: it cools.
    pub fn failed(&mut self, reason: &str) {
        self.now = now_ms();
        if let Some(endpoint) = self.asked {
            self.tell(endpoint, endpoint.live.record_failure(self.now, self.now + pool::COOLDOWN_MS, reason));
        }
    }

    /// The address has refused the request, as any other would: it is evidently alive.
    pub fn refused(&mut self, reason: &str) {
        self.now = now_ms();
        if let Some(endpoint) = self.asked {
            self.tell(endpoint, endpoint.live.record_other_failure(self.now, reason));
        }
    }

    fn tell(&self, endpoint: &Endpoint, is_dirty: bool) {
        if is_dirty {
            self.store.telemetry().dirty_endpoint(endpoint.live.clone());
        }
    }
}
