//! A stub upstream's answer: a status, headers, and a body that may come in pieces, wait for the test, stop half-way, or
//! never come.

use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::SOON;

/// An answer to send once or many times.
#[derive(Clone)]
pub struct Reply {
    pub(super) status: u16,
    pub(super) headers: Vec<(String, String)>,
    /// The steps before the first byte.
    pub(super) before: Vec<Step>,
    pub(super) body: Body,
    /// How a body in pieces ends.
    pub(super) end: End,
}

#[derive(Clone)]
pub(super) enum Body {
    /// Sent with a Content-Length.
    Whole(Vec<u8>),
    /// Sent chunked, step by step.
    Steps(Vec<Step>),
}

#[derive(Clone)]
pub(super) enum Step {
    Piece(Arc<[u8]>),
    Pause(Duration),
    Wait(Gate),
    /// Nothing more, until the other side hangs up.
    Stall,
}

#[derive(Clone, Copy)]
pub(super) enum End {
    Clean,
    /// The connection closes without the last chunk.
    Cut,
    /// The connection closes before any byte of an answer.
    Silent,
}

/// A gate that the test opens: a stub waits at it, so that no test depends on timing.
#[derive(Clone, Default)]
pub struct Gate {
    state: Arc<(Mutex<bool>, Condvar)>,
}

// === impl Reply ===

impl Reply {
    pub fn bytes(status: u16, content_type: &str, body: impl Into<Vec<u8>>) -> Self {
        Self {
            status,
            headers: vec![("content-type".to_owned(), content_type.to_owned())],
            before: Vec::new(),
            body: Body::Whole(body.into()),
            end: End::Clean,
        }
    }

    pub fn json(status: u16, body: &Value) -> Self {
        Self::bytes(status, "application/json", body.to_string())
    }

    pub fn html(status: u16, page: &str) -> Self {
        Self::bytes(status, "text/html; charset=utf-8", page)
    }

    /// Builds an error body as OpenAI-style upstreams write it.
    pub fn error(status: u16, message: &str) -> Self {
        let error = serde_json::json!({"error": {"message": message, "type": "server_error",
            "param": null, "code": null}});
        Self::json(status, &error)
    }

    /// Builds a stream of these server-sent events, one chunk each.
    pub fn events<E: AsRef<[u8]>>(events: impl IntoIterator<Item = E>) -> Self {
        Self::pieces("text/event-stream", events)
    }

    /// Builds a stream of these events, in which the events from `from` on each wait for the gate of the same index.
    pub fn gated(events: &[String], from: usize) -> (Self, Vec<Gate>) {
        let gates: Vec<Gate> = events.iter().map(|_| Gate::new()).collect();
        let waiting = gates.iter().enumerate().skip(from).rev();
        let reply = waiting.fold(Self::events(events), |reply, (index, gate)| reply.waits_for(index, gate));
        (reply, gates)
    }

    /// Builds a body of these chunks.
    pub fn pieces<P: AsRef<[u8]>>(content_type: &str, pieces: impl IntoIterator<Item = P>) -> Self {
        let steps = pieces.into_iter().map(|piece| Step::Piece(piece.as_ref().into()));
        let mut reply = Self::bytes(200, content_type, Vec::new());
        reply.body = Body::Steps(steps.collect());
        reply
    }

    /// Closes the connection instead of answering.
    pub fn silence() -> Self {
        let mut reply = Self::bytes(200, "text/plain", Vec::new());
        reply.end = End::Silent;
        reply
    }

    /// Takes the request and never answers.
    pub fn stall() -> Self {
        let mut reply = Self::silence();
        reply.before = vec![Step::Stall];
        reply
    }

    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Adds a pause before the head.
    pub fn after(mut self, delay: Duration) -> Self {
        self.before.push(Step::Pause(delay));
        self
    }

    /// Waits for the gate before the head.
    pub fn head_waits_for(mut self, gate: &Gate) -> Self {
        self.before.push(Step::Wait(gate.clone()));
        self
    }

    /// Waits for the gate before piece `index`.
    pub fn waits_for(self, index: usize, gate: &Gate) -> Self {
        self.insert(index, Step::Wait(gate.clone()))
    }

    /// Adds a pause before the piece with this index.
    pub fn pauses_at(self, index: usize, delay: Duration) -> Self {
        self.insert(index, Step::Pause(delay))
    }

    /// Adds a pause before every piece but the first.
    pub fn paced(mut self, delay: Duration) -> Self {
        let steps = self.steps();
        for index in (1..steps.len()).rev() {
            steps.insert(index, Step::Pause(delay));
        }
        self
    }

    /// Sends only the first `pieces`, then closes the connection without a proper end.
    pub fn cut_after(mut self, pieces: usize) -> Self {
        self.steps().truncate(pieces);
        self.end = End::Cut;
        self
    }

    /// Sends only the first `pieces`, then nothing more for ever.
    pub fn stalls_after(mut self, pieces: usize) -> Self {
        self.steps().truncate(pieces);
        self.steps().push(Step::Stall);
        self.end = End::Cut;
        self
    }

    fn insert(mut self, index: usize, step: Step) -> Self {
        self.steps().insert(index, step);
        self
    }

    /// Returns the steps of the body; a whole body becomes one piece.
    fn steps(&mut self) -> &mut Vec<Step> {
        if let Body::Whole(bytes) = &self.body {
            self.body = Body::Steps(vec![Step::Piece(bytes.as_slice().into())]);
        }
        match &mut self.body {
            Body::Steps(steps) => steps,
            Body::Whole(_) => unreachable!("turned into steps above"),
        }
    }
}

// === impl Gate ===

impl Gate {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn open(&self) {
        *self.state.0.lock().expect("no panic there") = true;
        self.state.1.notify_all();
    }

    /// Waits until the test opens the gate, at most for `LIMIT`.
    pub fn wait(&self) {
        let since = Instant::now();
        while !self.wait_a_moment() && since.elapsed() < Self::LIMIT {}
    }

    pub(super) fn is_open(&self) -> bool {
        *self.state.0.lock().expect("no panic there")
    }

    /// Waits a moment for the gate; returns whether it is open.
    pub(super) fn wait_a_moment(&self) -> bool {
        let open = self.state.0.lock().expect("no panic there");
        let moment = Duration::from_millis(5);
        let waited = self.state.1.wait_timeout_while(open, moment, |open| !*open);
        *waited.expect("no panic there").0
    }

    /// The longest wait of a stub, so that a failed test does not leave it behind for ever.
    pub(super) const LIMIT: Duration = Duration::from_secs(2 * SOON.as_secs());
}
