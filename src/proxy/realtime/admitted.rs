//! The responses of one conversation that are admitted and not done.
//!
//! ```text
//! idle ── the client asks for it ──▶ asked ── the upstream begins it ──▶ begun ── it is done ──▶ settled
//!   ▲                                  │
//!   └────── the upstream refuses it ───┘
//! ```
//!
//! The client's requests have no ids, so the upstream is taken to begin them in their order.

use std::collections::VecDeque;
use std::mem;

use tokio::time::Instant;

use crate::proxy::attempt::Attempt;
use crate::time::{Millis, now_ms};

/// A response that counts as a request of its key.
pub(super) struct AdmittedResponse {
    pub(super) attempt: Box<Attempt>,
    /// The upstream's id, once it has begun and if the upstream tells one.
    id: Option<String>,
    /// The estimated number of its tokens that the client has received.
    pub(super) heard: u64,
}

/// The admitted responses of a conversation.
pub(super) struct Admitted {
    /// Admissions that no response uses: that of the opening, and those of refused responses. The next responses use them.
    idle: Vec<AdmittedResponse>,
    /// Responses that the client has asked for, oldest first.
    asked: VecDeque<AdmittedResponse>,
    /// Responses that the upstream has begun, oldest first.
    begun: Vec<AdmittedResponse>,
    /// When a response was last requested or begun, or when the upstream's last frame came.
    last_sign: Instant,
    /// When the last attempt began.
    last_start: Millis,
}

impl AdmittedResponse {
    pub(super) fn new(attempt: Box<Attempt>) -> Self {
        Self { attempt, id: None, heard: 0 }
    }
}

impl Admitted {
    /// Begins with the response that the opening counts for.
    pub(super) fn new(opening: AdmittedResponse) -> Self {
        Self {
            last_start: opening.attempt.began_at().unwrap_or(0),
            idle: vec![opening],
            asked: VecDeque::new(),
            begun: Vec::new(),
            last_sign: Instant::now(),
        }
    }

    /// Returns the present time as that at which an attempt begins. No two begin in one millisecond: the log tells the rows
    /// of a request apart by it.
    pub(super) fn next_start(&mut self) -> Millis {
        self.last_start = now_ms().max(self.last_start + 1);
        self.last_start
    }

    pub(super) fn take_idle(&mut self) -> Option<AdmittedResponse> {
        self.idle.pop()
    }

    pub(super) fn put_back_idle(&mut self, response: AdmittedResponse) {
        self.idle.push(response);
    }

    pub(super) fn ask(&mut self, response: AdmittedResponse) {
        self.asked.push_back(response);
        self.last_sign = Instant::now();
    }

    pub(super) fn take_asked(&mut self) -> Option<AdmittedResponse> {
        self.asked.pop_front()
    }

    pub(super) fn begin(&mut self, response: AdmittedResponse, id: Option<String>) {
        self.begun.push(AdmittedResponse { id, ..response });
        self.last_sign = Instant::now();
    }

    /// Takes the response with this id. Where the upstream tells no id, or another one than before, the oldest is meant.
    pub(super) fn end(&mut self, id: Option<&str>) -> Option<AdmittedResponse> {
        let place = self.place_of(id);
        if place < self.begun.len() { Some(self.begun.remove(place)) } else { self.take_asked() }
    }

    /// Counts tokens of the response with this id.
    pub(super) fn hear(&mut self, id: Option<&str>, tokens: u64) {
        let place = self.place_of(id);
        if let Some(response) = self.begun.get_mut(place) {
            response.heard += tokens;
        }
    }

    /// Records a frame of the upstream.
    pub(super) fn sign(&mut self) {
        self.last_sign = Instant::now();
    }

    /// Returns when the last sign of the responses under way came; `None` where none is under way.
    pub(super) fn last_sign(&self) -> Option<Instant> {
        (self.under_way() > 0).then_some(self.last_sign)
    }

    /// Returns how many responses have been requested or have begun, and are not done.
    pub(super) fn under_way(&self) -> usize {
        self.asked.len() + self.begun.len()
    }

    pub(super) fn take_all_idle(&mut self) -> Vec<AdmittedResponse> {
        mem::take(&mut self.idle)
    }

    pub(super) fn take_all_under_way(&mut self) -> Vec<AdmittedResponse> {
        self.begun.drain(..).chain(self.asked.drain(..)).collect()
    }

    /// Returns the place of the begun response with this id; 0 where there is none.
    fn place_of(&self, id: Option<&str>) -> usize {
        self.begun.iter().position(|response| response.id.as_deref() == id).unwrap_or(0)
    }
}
