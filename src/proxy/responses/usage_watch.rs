//! Observes a response on its way to the client that asks for it once more, for its usage.

use std::sync::Arc;

use bytes::Bytes;

use crate::dialect::Dialect;
use crate::dialect::observe::Phase;
use crate::http::body::Truncated;
use crate::mask::Mask;
use crate::proxy::Proxy;
use crate::proxy::redaction;
use crate::proxy::relay::passed::PassthroughTransit;
use crate::proxy::relay::rewritten::Rewrite;
use crate::proxy::relay::{CLOSED_EARLY, InStreamError, Transit, broken_stream, joined};
use crate::proxy::tail::Tail;

use super::background::{self, Outcome};
use super::id_owners::StoredAt;
use super::name::ResponseName;
use super::owners;

/// Observes a response on its way to the client for its usage. A stream passes a whole event at a time. An error event at its
/// end is written anew, because it may repeat secrets of the request; a stream that breaks off, or that a stop cuts off, gets
/// one.
pub(super) struct UsageWatch {
    /// `None` once the usage was booked.
    reader: Option<UsageReader>,
    /// Whether anything has come.
    has_begun: bool,
    /// Whether the stream ended with an error event: nothing after it passes.
    has_failed: bool,
    name: ResponseName,
    at: StoredAt,
    secrets: Mask,
    proxy: Arc<Proxy>,
}

/// A reader of the usage of a response.
pub(super) enum UsageReader {
    /// The events of a stream.
    Events(Box<PassthroughTransit>),
    /// The end of an object.
    Tail(Tail),
}

impl UsageReader {
    pub(super) fn events() -> Self {
        Self::Events(Box::new(PassthroughTransit::new(Dialect::Responses)))
    }

    pub(super) fn tail() -> Self {
        Self::Tail(Tail::default())
    }

    /// Returns the usage of the response, if it has ended.
    fn outcome(&self) -> Option<Outcome> {
        match self {
            Self::Tail(tail) => Outcome::of_tail(tail.bytes()),
            Self::Events(stream) => match (stream.progress().phase(), stream.progress().usage()) {
                (Phase::Ended | Phase::Failed(_), Some(usage)) => Some(Outcome::Used(usage)),
                (Phase::Ended, None) => Some(Outcome::Unknown),
                (Phase::Failed(_), None) => Some(Outcome::Nothing),
                (Phase::Preamble | Phase::Output, _) => None,
            },
        }
    }
}

impl UsageWatch {
    /// Observes a response with this reader. `at` is where the response is, `secrets` are those of its requests.
    pub(super) fn new(
        proxy: &Arc<Proxy>,
        reader: UsageReader,
        name: ResponseName,
        at: StoredAt,
        secrets: Mask,
    ) -> Self {
        let (reader, proxy) = (Some(reader), proxy.clone());
        Self { reader, has_begun: false, has_failed: false, name, at, secrets, proxy }
    }

    /// Returns what a stream has taken, or the error in it without secrets.
    fn pass(&mut self, taken: Result<Bytes, Box<InStreamError>>) -> Bytes {
        let has_free_text = match &mut self.reader {
            Some(UsageReader::Events(stream)) => stream.take_free_text(),
            _ => false,
        };
        let without_secrets =
            |bytes: Bytes| if has_free_text { redaction::of_free_text(&bytes, &self.secrets) } else { bytes };
        let InStreamError { mut error, before, is_relayed } = match taken {
            Ok(events) => return without_secrets(events),
            Err(failed) => *failed,
        };
        let before = without_secrets(before);
        self.has_failed = true;
        let Some(UsageReader::Events(stream)) = self.reader.as_mut().filter(|_| !is_relayed) else {
            return before;
        };
        error.hide(|text| self.secrets.hide(text));
        let event = stream.error(&error, &self.name.id);
        let hidden = self.secrets.hide_in(&String::from_utf8_lossy(&event)).into_owned();
        joined(before, Bytes::from(hidden))
    }

    /// Returns the end of a stream whose upstream sends nothing more: an error event if the response is not complete.
    fn conclude(&mut self, cause: &str) -> Bytes {
        let Some(UsageReader::Events(stream)) = self.reader.as_mut().filter(|_| !self.has_failed) else {
            return Bytes::new();
        };
        let before = match stream.conclude() {
            Ok(rest) => return rest,
            Err(before) => before,
        };
        self.has_failed = true;
        joined(before, stream.error(&broken_stream(CLOSED_EARLY, cause), &self.name.id))
    }

    fn book_usage(&mut self) {
        let reader = self.reader.take();
        if let Some(UsageReader::Events(stream)) = &reader {
            let items = stream.progress().items().iter().map(String::as_str);
            owners::bind_items_of(&self.proxy, self.name.key_id, &self.at, items);
        }
        if let Some(outcome) = reader.and_then(|reader| reader.outcome()) {
            let (settling, name) = (self.proxy.clone(), self.name.clone());
            self.proxy.core.background.spawn("the usage of a response in the background", async move {
                background::book_outcome(&settling, &name, outcome).await;
            });
        }
    }
}

impl Rewrite for UsageWatch {
    fn feed(&mut self, piece: Bytes) -> Result<Bytes, Truncated> {
        self.has_begun |= !piece.is_empty();
        Ok(match &mut self.reader {
            None if self.has_failed => Bytes::new(),
            None => piece,
            Some(UsageReader::Tail(tail)) => {
                tail.push(&piece);
                piece
            }
            Some(UsageReader::Events(stream)) => {
                let taken = stream.take(piece);
                let is_finished = stream.progress().is_finished();
                let passed = self.pass(taken);
                if is_finished || self.has_failed {
                    self.book_usage();
                }
                passed
            }
        })
    }

    fn finish(&mut self) -> Result<Bytes, Truncated> {
        let mut last = Bytes::new();
        if let Some(UsageReader::Events(stream)) = &mut self.reader {
            let taken = stream.finish();
            last = self.pass(taken);
        }
        // A stream that is taken up at its end has no events.
        if self.has_begun {
            last = joined(last, self.conclude("the upstream closed the stream before its end"));
        }
        self.book_usage();
        Ok(last)
    }

    fn is_cut(&self) -> bool {
        matches!(self.reader, Some(UsageReader::Events(_))) && self.proxy.core.is_cutting()
    }

    fn end_broken(&mut self, cut: Truncated) -> Result<Bytes, Truncated> {
        if !matches!(self.reader, Some(UsageReader::Events(_))) {
            return Err(cut);
        }
        let last = self.conclude(cut.0);
        self.book_usage();
        Ok(last)
    }
}
