//! The answers that are being made in the background, as far as this process knows.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use tokio::sync::{Notify, Semaphore};

use crate::sync::lock;
use crate::time::Millis;

use super::id_owners::StoredAt;
use super::name::ResponseName;
use crate::proxy::key::quota::Admission;

/// The maximum number of such answers in memory.
pub(super) const MAX_PENDING: usize = 8192;
/// How many answers are asked for at once.
const LOOKS_AT_ONCE: usize = 4;

/// The answers whose usage is not booked yet, as far as this process knows.
pub struct BackgroundResponses {
    pending: Mutex<HashMap<ResponseName, Pending>>,
    /// Notified when an answer must be asked for sooner than was known.
    pub(in crate::proxy) changed: Notify,
    pub(in crate::proxy) looks: Semaphore,
}

pub(in crate::proxy) struct Pending {
    pub(in crate::proxy) at: StoredAt,
    pub(in crate::proxy) began: Millis,
    /// Whether the request that began it is at work: its row is not written yet, and it books the usage that it reads.
    pub(in crate::proxy) is_streaming: bool,
    /// When to ask next; [`Millis::MAX`] while its request is at work, or while it is being asked for.
    pub(super) next_look: Millis,
    pub(in crate::proxy) cancellation: Cancellation,
    /// The answer's slot among the calls of its key.
    pub(super) _admission: Admission,
}

/// An answer whose upstream is to be asked now.
pub(super) struct DueAnswer {
    pub(super) name: ResponseName,
    pub(super) at: StoredAt,
    pub(super) began: Millis,
}

/// Whether the client has asked to cancel an answer. Outlives the answer's entry here, which a cancelled answer loses
/// before its stream has ended.
#[derive(Clone, Default)]
pub(in crate::proxy) struct Cancellation(Arc<AtomicBool>);

impl Cancellation {
    pub(in crate::proxy) fn is_requested(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl Default for BackgroundResponses {
    fn default() -> Self {
        Self { pending: Mutex::default(), changed: Notify::new(), looks: Semaphore::new(LOOKS_AT_ONCE) }
    }
}

impl BackgroundResponses {
    /// Adds an answer whose request is still at work. Returns where its stream sees that the client cancels it.
    pub(in crate::proxy) fn begin(
        &self,
        name: ResponseName,
        at: StoredAt,
        began: Millis,
        admission: Admission,
    ) -> Cancellation {
        let cancellation = Cancellation::default();
        let (next_look, noted) = (Millis::MAX, cancellation.clone());
        let is_streaming = true;
        self.insert(
            name,
            Pending { at, began, is_streaming, next_look, cancellation: noted, _admission: admission },
        );
        cancellation
    }

    /// Records that the client is cancelling an answer: however its stream ends then, that is no fault.
    pub(super) fn cancel(&self, name: &ResponseName) {
        if let Some(pending) = lock(&self.pending).get(name) {
            pending.cancellation.0.store(true, Ordering::Relaxed);
        }
    }

    pub(in crate::proxy) fn insert(&self, name: ResponseName, new: Pending) {
        let mut pending = lock(&self.pending);
        if pending.len() < MAX_PENDING {
            pending.entry(name).or_insert(new);
        } else {
            log::warn!(
                "{MAX_PENDING} background responses are in progress; the usage of a further one is booked \
                 when its client asks for it, or within the hour after one of these has ended"
            );
        }
    }

    pub(in crate::proxy) fn knows(&self, name: &ResponseName) -> bool {
        lock(&self.pending).contains_key(name)
    }

    /// Whether the answer is known, or memory is full so that it may be unknown.
    pub(super) fn may_have(&self, name: &ResponseName) -> bool {
        let pending = lock(&self.pending);
        pending.len() >= MAX_PENDING || pending.contains_key(name)
    }

    /// Whether the request that began the answer is at work here.
    pub(super) fn is_streaming(&self, name: &ResponseName) -> bool {
        lock(&self.pending).get(name).is_some_and(|pending| pending.is_streaming)
    }

    /// Records that the request which began the answer has ended.
    pub(super) fn end_request(&self, name: &ResponseName) {
        if let Some(pending) = lock(&self.pending).get_mut(name) {
            pending.is_streaming = false;
        }
    }

    pub(in crate::proxy) fn forget(&self, name: &ResponseName) {
        lock(&self.pending).remove(name);
    }

    pub(super) fn schedule(&self, name: &ResponseName, when: Millis) {
        if let Some(pending) = lock(&self.pending).get_mut(name) {
            pending.next_look = when;
            self.changed.notify_one();
        }
    }

    pub(super) fn next_look(&self) -> Option<Millis> {
        let pending = lock(&self.pending);
        pending.values().map(|pending| pending.next_look).filter(|at| *at < Millis::MAX).min()
    }

    /// Takes the answers that are to be asked for now.
    pub(super) fn take_due(&self, now: Millis) -> Vec<DueAnswer> {
        let mut pending = lock(&self.pending);
        let due = pending.iter_mut().filter(|(_, pending)| pending.next_look <= now);
        due.map(|(name, pending)| {
            pending.next_look = Millis::MAX;
            DueAnswer { name: name.clone(), at: pending.at.clone(), began: pending.began }
        })
        .collect()
    }
}
