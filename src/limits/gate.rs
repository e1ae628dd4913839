//! A gate: a limited number of leases behind it, and a queue in front of it.
//!
//! ```text
//! request ─▶ gate ─┬─ a slot is free ──────────▶ lease, until dropped or expired
//!                  ├─ room in the queue ─ wait ─▶ lease, first come first served
//!                  └─ else, or waited too long ─▶ refused
//! ```
//!
//! A [`Lease`] is a value: dropping it frees the slot, however the request ended, and only once, because a
//! ticket that is no longer held frees nothing. A lease that outlives its time gives its slot back
//! although its request goes on. There is no timer for that: each request that looks or waits for a slot takes
//! back the expired ones. A semaphore would not do, since a limit may shrink while requests run: then
//! these finish, and none is admitted until fewer run than the limit.
//!
//! The clock is tokio's, which tests can pause.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep, sleep_until};

use super::load::Load;
use crate::fast_map::FastMap;
use crate::sync::lock;

/// How long requests wait and leases live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseRules {
    /// The maximum number of requests that wait at one gate; with 0 none waits.
    pub queue_limit: usize,
    /// The longest wait; with zero none waits.
    pub queue_wait: Duration,
    /// The life of a lease that is not renewed.
    pub ttl: Duration,
    /// How often the lease of a streamed answer is renewed; shorter than `ttl`.
    pub keepalive: Duration,
}

/// A slot, given back when dropped. Where there is no limit it holds no slot.
#[derive(Debug, Default)]
pub struct Lease {
    slot: Option<Slot>,
    renewal: Option<Renewal>,
}

/// Why no lease was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotRefused {
    QueueFull,
    WaitTimeout,
}

#[derive(Debug)]
struct Slot {
    /// The gate to give the slot back to; `None` if there is nothing to give back.
    gate: Option<Arc<Gate>>,
    ticket: u64,
}

/// A place in the queue, given up when dropped.
struct Place<'g> {
    gate: &'g Gate,
    ticket: u64,
}

/// The task that renews the lease of a stream, and ends with it.
#[derive(Debug)]
struct Renewal(AbortHandle);

/// A limit on concurrent use of one thing.
#[derive(Debug)]
pub struct Gate {
    /// The kind of the thing, for the log: `site`, `channel`, `downstream key`.
    what: &'static str,
    id: i64,
    /// The life of leases; the queue limit and the wait are given on entry.
    rules: LeaseRules,
    state: Mutex<GateState>,
}

#[derive(Debug, Default)]
struct GateState {
    /// The limit; 0 is unlimited.
    limit: usize,
    /// When each lease in force expires, by its ticket.
    held: FastMap<u64, Instant>,
    last_ticket: u64,
    /// No lease in force expires before this time.
    earliest_expiry: Option<Instant>,
    /// The waiting requests, first come, first served, by rising tickets.
    waiters: VecDeque<Waiter>,
}

#[derive(Debug)]
struct Waiter {
    ticket: u64,
    deadline: Instant,
    admit: oneshot::Sender<Lease>,
}

// === impl LeaseRules ===

impl LeaseRules {
    /// Returns after how many seconds a refused client may come again: the time it could have waited, at least 1 s.
    pub fn retry_after_secs(&self) -> u64 {
        u64::try_from(self.queue_wait.as_millis().div_ceil(1000)).unwrap_or(u64::MAX).max(1)
    }
}

// === impl Lease ===

impl Lease {
    /// Renews the lease for as long as it is held: a streamed answer may take longer than a lease lives.
    pub fn keep_alive(&mut self) {
        let Some(Slot { gate: Some(gate), ticket }) = &self.slot else { return };
        if self.renewal.is_some() {
            return;
        }
        let (gate, ticket) = (gate.clone(), *ticket);
        let renewing = tokio::spawn(async move {
            loop {
                sleep(gate.rules.keepalive).await;
                if !gate.renew(ticket) {
                    return;
                }
            }
        });
        self.renewal = Some(Renewal(renewing.abort_handle()));
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if let Some(gate) = self.gate.take() {
            gate.release(self.ticket);
        }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let waiters = &mut lock(&self.gate.state).waiters;
        // It is gone from the queue once it was admitted.
        if let Ok(place) = waiters.binary_search_by_key(&self.ticket, |waiter| waiter.ticket) {
            waiters.remove(place);
        }
    }
}

impl Drop for Renewal {
    fn drop(&mut self) {
        self.0.abort();
    }
}

// === impl Gate ===

impl Gate {
    /// Creates a gate for `limit` leases; 0 is any number. The log names it by `what` and `id`.
    pub fn new(what: &'static str, id: i64, limit: usize, rules: LeaseRules) -> Self {
        Self { what, id, rules, state: Mutex::new(GateState { limit, ..GateState::default() }) }
    }

    /// Locks the state, after taking back every expired lease and admitting every waiting request that has room.
    fn state(self: &Arc<Self>) -> MutexGuard<'_, GateState> {
        self.state_at(Instant::now())
    }

    fn state_at(self: &Arc<Self>, now: Instant) -> MutexGuard<'_, GateState> {
        let mut state = lock(&self.state);
        if state.earliest_expiry.is_some_and(|expiry| expiry <= now) {
            let before = state.held.len();
            state.held.retain(|_, expires| *expires > now);
            state.earliest_expiry = state.held.values().min().copied();
            let expired = before - state.held.len();
            if expired > 0 {
                let life = self.rules.ttl.as_secs_f64();
                log::warn!(
                    "{} {}: {expired} request(s) outlasted their lease of {life} s, and their slots were \
                     freed",
                    self.what,
                    self.id
                );
            }
        }
        self.admit_waiters(&mut state, now);
        state
    }

    fn admit_waiters(self: &Arc<Self>, state: &mut GateState, now: Instant) {
        while state.has_room()
            && let Some(waiter) = state.waiters.pop_front()
        {
            // A request past its deadline learns of that by losing its sender.
            if waiter.deadline <= now {
                continue;
            }
            if let Err(unclaimed) = waiter.admit.send(self.grant(state, now))
                && let Some(mut slot) = unclaimed.slot
            {
                // The request is gone. The gate is locked, so the slot must not try to give itself back.
                state.held.remove(&slot.ticket);
                slot.gate = None;
            }
        }
    }

    /// Grants a lease; the caller has checked that there is room.
    fn grant(self: &Arc<Self>, state: &mut GateState, now: Instant) -> Lease {
        if state.limit == 0 {
            return Lease::default();
        }
        let expires = now + self.rules.ttl;
        state.last_ticket += 1;
        state.held.insert(state.last_ticket, expires);
        state.earliest_expiry = Some(state.earliest_expiry.map_or(expires, |earliest| earliest.min(expires)));
        Lease { slot: Some(Slot { gate: Some(self.clone()), ticket: state.last_ticket }), renewal: None }
    }

    /// Takes a lease, if one is available without waiting.
    pub fn try_enter(self: &Arc<Self>) -> Option<Lease> {
        let now = Instant::now();
        self.admit(&mut self.state_at(now), now)
    }

    fn admit(self: &Arc<Self>, state: &mut GateState, now: Instant) -> Option<Lease> {
        // Waiting requests have been admitted before, so room means an empty queue.
        state.has_room().then(|| self.grant(state, now))
    }

    /// Takes a lease, if necessary after a wait in the queue. Dropping the future leaves the queue.
    pub(super) async fn enter(
        self: &Arc<Self>,
        queue_limit: usize,
        queue_wait: Duration,
    ) -> Result<Lease, SlotRefused> {
        let now = Instant::now();
        let deadline = now + queue_wait;
        let (mut admitted, _place) = {
            let mut state = self.state_at(now);
            if let Some(lease) = self.admit(&mut state, now) {
                return Ok(lease);
            }
            if state.waiters.len() >= queue_limit || queue_wait.is_zero() {
                return Err(SlotRefused::QueueFull);
            }
            let (admit, admitted) = oneshot::channel();
            state.last_ticket += 1;
            let ticket = state.last_ticket;
            state.waiters.push_back(Waiter { ticket, deadline, admit });
            (admitted, Place { gate: self, ticket })
        };
        loop {
            // A slot may also come free because a lease expires, which only waiting requests check.
            let expiry = self.state().earliest_expiry;
            let until = expiry.map_or(deadline, |expiry| expiry.min(deadline));
            tokio::select! {
                biased;
                lease = &mut admitted => return lease.map_err(|_| SlotRefused::WaitTimeout),
                () = sleep_until(until) => {}
            }
            if Instant::now() >= deadline {
                admitted.close();
                return admitted.try_recv().map_err(|_| SlotRefused::WaitTimeout);
            }
        }
    }

    /// Renews a lease; returns false when it is no longer in force.
    fn renew(self: &Arc<Self>, ticket: u64) -> bool {
        let now = Instant::now();
        let expires = now + self.rules.ttl;
        self.state_at(now).held.get_mut(&ticket).map(|held| *held = expires).is_some()
    }

    fn release(self: &Arc<Self>, ticket: u64) {
        let mut state = lock(&self.state);
        if state.held.remove(&ticket).is_some() && !state.waiters.is_empty() {
            self.admit_waiters(&mut state, Instant::now());
        }
    }

    /// Sets the limit; 0 is any number. Leases in force stay.
    pub fn set_limit(self: &Arc<Self>, limit: usize) {
        let now = Instant::now();
        let mut state = self.state_at(now);
        if state.limit != limit {
            state.limit = limit;
            self.admit_waiters(&mut state, now);
        }
    }

    pub(super) fn has_free_slot(self: &Arc<Self>) -> bool {
        // Mostly there is one, whatever has expired.
        let has_room = lock(&self.state).has_room();
        has_room || self.state().has_room()
    }

    /// Whether there is no limit, no lease in force and no waiting request.
    pub(super) fn is_idle(self: &Arc<Self>) -> bool {
        let state = self.state();
        state.limit == 0 && state.held.is_empty() && state.waiters.is_empty()
    }

    /// Returns the number of leases, of waiting requests, and the limit.
    pub(super) fn occupancy(self: &Arc<Self>) -> Load {
        let state = self.state();
        Load { active: state.held.len(), waiting: state.waiters.len(), limit: state.limit }
    }
}

// === impl GateState ===

impl GateState {
    fn has_room(&self) -> bool {
        self.limit == 0 || self.held.len() < self.limit
    }
}
