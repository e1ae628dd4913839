//! Relays a stream of the client's own dialect: its bytes pass as they are, whole events at a time. Events that the upstream
//! left out are added.

use bytes::{Bytes, BytesMut};

use crate::dialect::Dialect;
use crate::dialect::convert::CallSignature;
use crate::dialect::errors::UpstreamError;
use crate::dialect::observe::{Phase, StreamObserver, StreamProgress};
use crate::dialect::repair::StreamRepair;
use crate::dialect::sse::{self, Scanner};
use crate::dialect::tree::Node;

use super::{InStreamError, Transit};

/// The maximum length of an event's beginning that is held back, in bytes.
const MAX_PARTIAL: usize = 64 * 1024;
/// The maximum length of what is held back where events are added to the stream, in bytes: what must come before an event is
/// known only at the end of that event.
const MAX_REPAIRED: usize = 16 << 20;

/// The transit of such a stream. It holds back an event whose end has not come: if the stream broke, a client could
/// not cope with half an event.
pub(in crate::proxy) struct PassthroughTransit {
    observer: StreamObserver,
    held: BytesMut,
    /// Whether the event's beginning grew so long that it was sent to the client.
    relayed: bool,
    /// Whether text has come that no model wrote.
    has_free_text: bool,
    /// Whether missing events may be added.
    is_repairable: bool,
    /// Adds the missing events, once some are missing.
    repair: Option<StreamRepair>,
}

impl Transit for PassthroughTransit {
    fn progress(&self) -> &StreamProgress {
        &self.observer
    }

    fn count_text(&mut self) {
        self.observer.count_text();
    }

    fn take(&mut self, chunk: Bytes) -> Result<Bytes, Box<InStreamError>> {
        let was_relayed = self.relayed;
        self.observer.feed(&chunk);
        // The rest of an event that was sent in part cannot be told from text.
        self.has_free_text |= self.observer.take_free_text() && !was_relayed;
        let Some(error) = self.observer.failure().cloned() else {
            let chunk = match self.observer.ended_at() {
                Some(end) => chunk.slice(..end),
                None => chunk,
            };
            let is_whole = self.observer.between_events() || self.observer.is_finished();
            let lacking_from = self.begin_repair();
            let mut events = self.whole_events(chunk, is_whole);
            let rest = events.split_off(lacking_from.min(events.len()));
            return Ok(super::joined(events, self.repaired(rest)));
        };
        // What came before the error event goes to the client; the event itself is written anew.
        let (keep, has_begun) =
            self.observer.break_at().map_or((chunk.len(), true), |at| (at.keep, at.error_relayed));
        let kept = chunk.slice(..keep);
        let (before, is_relayed) = match has_begun {
            true if self.relayed => (kept, true),
            true => (Bytes::new(), false),
            false => {
                let kept = self.behind_held(kept);
                (self.repaired(kept), false)
            }
        };
        Err(Box::new(InStreamError { error, before, is_relayed }))
    }

    fn take_signatures(&mut self) -> Vec<CallSignature> {
        Vec::new()
    }

    fn finish(&mut self) -> Result<Bytes, Box<InStreamError>> {
        self.observer.close();
        match self.observer.failure().cloned() {
            // The event is complete except for the blank line that ends it.
            Some(error) => {
                let before = self.separator();
                Err(Box::new(InStreamError { error, before, is_relayed: self.relayed }))
            }
            None => Ok(Bytes::new()),
        }
    }

    fn conclude(&mut self) -> Result<Bytes, Bytes> {
        match self.observer.phase() {
            Phase::Ended => {
                let last = ended(self.held.split().freeze());
                self.begin_repair();
                Ok(self.repaired(last))
            }
            _ => Err(self.separator()),
        }
    }

    fn error(&mut self, error: &UpstreamError, id: &str) -> Bytes {
        let event = self.observer.failure_event(error, id);
        self.repaired(event)
    }

    /// Always false: passing bytes on needs no knowledge of what follows, so the usual idle limit holds.
    fn is_followed_by_usage_alone(&self) -> bool {
        false
    }

    fn take_free_text(&mut self) -> bool {
        let has_free_text = self.has_free_text;
        // It may be in what is held back.
        self.has_free_text &= !self.held.is_empty();
        has_free_text
    }

    fn is_between_events(&self) -> bool {
        !self.relayed
    }

    fn set_repair(&mut self, repair: StreamRepair) {
        self.repair = Some(repair);
    }
}

/// Adds the blank line that the last event may lack: readers drop an event without it (HTML Living Standard, 9.2.6). They
/// would also drop half an event, which is left out.
fn ended(event: Bytes) -> Bytes {
    match event.as_ref() {
        [] => event,
        half if !is_whole(half) => Bytes::new(),
        [.., b'\n'] => Bytes::from([&event, "\n".as_bytes()].concat()),
        _ => Bytes::from([&event, "\n\n".as_bytes()].concat()),
    }
}

/// Whether an event lacks no more than its blank line.
fn is_whole(event: &[u8]) -> bool {
    let mut scanner = Scanner::new(event.len());
    let mut is_whole = false;
    scanner.feed(event, |_| {});
    scanner.finish(|event| {
        is_whole = event.data.trim_ascii() == b"[DONE]" || Node::parse(&sse::text(event.data)).is_ok();
    });
    is_whole
}

impl PassthroughTransit {
    pub(in crate::proxy) fn new(dialect: Dialect) -> Self {
        let observer = StreamObserver::new(dialect);
        Self {
            observer,
            held: BytesMut::new(),
            relayed: false,
            has_free_text: false,
            is_repairable: false,
            repair: None,
        }
    }

    /// Creates the transit of a stream to which missing events may be added.
    pub(super) fn repairable(dialect: Dialect) -> Self {
        Self { is_repairable: true, ..Self::new(dialect) }
    }

    /// Begins to add missing events if some are missing in the chunk that the observer has just read. Returns from where on in
    /// the bytes that are held and in that chunk.
    fn begin_repair(&mut self) -> usize {
        match self.observer.lack() {
            Some(lack) if self.is_repairable && self.repair.is_none() && !self.relayed => {
                self.repair = Some(StreamRepair::resumed(lack));
                lack.start.map_or(0, |start| self.held.len() + start)
            }
            _ => 0,
        }
    }

    /// Returns whole events with the missing ones.
    fn repaired(&mut self, events: Bytes) -> Bytes {
        match &mut self.repair {
            Some(repair) if !self.relayed => repair.feed(&events),
            _ => events,
        }
    }

    /// Returns what the client can have of the next bytes: all but the beginning of an event. `is_whole` is whether they end
    /// with a whole event.
    fn whole_events(&mut self, mut chunk: Bytes, is_whole: bool) -> Bytes {
        if is_whole {
            self.relayed = false;
            return self.behind_held(chunk);
        }
        if self.held.is_empty() {
            let end = sse::last_end(&chunk);
            if !self.relays_part(end, chunk.len()) {
                self.held.extend_from_slice(&chunk.split_off(end.unwrap_or(0)));
            }
            return chunk;
        }
        // No event ends in what is held, but its last byte may be the first one of an end.
        let searched = self.held.len() - 1;
        self.held.extend_from_slice(&chunk);
        let end = sse::last_end(&self.held[searched..]).map(|end| searched + end);
        if self.relays_part(end, self.held.len()) {
            return self.held.split().freeze();
        }
        self.held.split_to(end.unwrap_or(0)).freeze()
    }

    /// Decides whether bytes of this length, in which the last event ends there, go to the client although they are only the
    /// beginning of an event.
    fn relays_part(&mut self, end: Option<usize>, length: usize) -> bool {
        let longest = if self.repair.is_some() { MAX_REPAIRED } else { MAX_PARTIAL };
        self.relayed = end.is_none() && (self.relayed || length > longest);
        self.relayed
    }

    /// Takes the bytes held back, and appends these.
    fn behind_held(&mut self, bytes: Bytes) -> Bytes {
        if self.held.is_empty() {
            return bytes;
        }
        self.held.extend_from_slice(&bytes);
        self.held.split().freeze()
    }

    /// Returns the blank line that ends a partial event which the client has, if it has one.
    fn separator(&self) -> Bytes {
        if self.relayed { Bytes::from_static(b"\n\n") } else { Bytes::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_last_event_gets_its_blank_line_if_it_is_whole() {
        for (held, sent) in [
            ("", ""),
            ("data: {\"a\":1}", "data: {\"a\":1}\n\n"),
            ("data: {\"a\":1}\n", "data: {\"a\":1}\n\n"),
            ("event: x\ndata: {\"a\":\ndata: 1}\n", "event: x\ndata: {\"a\":\ndata: 1}\n\n"),
            ("data: [DONE]", "data: [DONE]\n\n"),
            ("data: [DO", ""),
            ("data: {\"a\":1", ""),
            ("dat", ""),
            ("event: x\n", ""),
            (": comment", ""),
        ] {
            assert_eq!(ended(Bytes::from_static(held.as_bytes())), sent, "{held}");
        }
    }
}
