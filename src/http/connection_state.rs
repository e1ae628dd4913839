//! State that a client's stream, its connection and the requests on it share.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};

use super::framing::{FaultyHead, HeadFault};
use super::unread::Unread;
use crate::sync::lock;

/// The state shared by the stream, the connection and the requests on it.
#[derive(Default)]
pub(super) struct ConnectionState {
    pub(super) faulty: OnceLock<FaultyHead>,
    /// The number of heads served.
    served: AtomicU64,
    pub(super) is_stopping: AtomicBool,
    /// Whether the connection has switched to another protocol.
    pub(super) is_upgraded: AtomicBool,
    /// The rest of the last request's body, which its handler did not read.
    unread: Mutex<Option<Unread>>,
}

// === impl ConnectionState ===

impl ConnectionState {
    /// Returns why the request whose head was read last must not be served. Must be called once per request.
    pub fn head_fault(&self) -> Option<HeadFault> {
        let number = self.served.fetch_add(1, Ordering::Relaxed) + 1;
        self.faulty.get().filter(|head| number >= head.number).map(|head| head.fault)
    }

    pub fn stop(&self) {
        self.is_stopping.store(true, Ordering::Relaxed);
    }

    pub fn upgrade(&self) {
        self.is_upgraded.store(true, Ordering::Relaxed);
    }

    pub fn keep_unread(&self, unread: Unread) {
        *lock(&self.unread) = Some(unread);
    }

    pub fn take_unread(&self) -> Option<Unread> {
        lock(&self.unread).take()
    }
}
