//! Relays a stream of another dialect than the client's: it is written anew, event by event.

use bytes::Bytes;

use crate::dialect::Dialect;
use crate::dialect::convert::{CallSignature, StreamConverter};
use crate::dialect::errors::UpstreamError;
use crate::dialect::observe::{Phase, StreamProgress};

use super::{InStreamError, Transit};

/// The transit of a stream that is converted.
pub(super) struct ConvertingTransit(pub(super) StreamConverter);

impl ConvertingTransit {
    /// Returns what has been written, or the error that ends it if the upstream has sent one.
    fn written(&self, out: String) -> Result<Bytes, Box<InStreamError>> {
        let before = Bytes::from(out);
        match self.0.failure().cloned() {
            Some(error) => Err(Box::new(InStreamError { error, before, is_relayed: false })),
            None => Ok(before),
        }
    }
}

impl Transit for ConvertingTransit {
    fn progress(&self) -> &StreamProgress {
        self.0.progress()
    }

    fn count_text(&mut self) {
        self.0.count_text();
    }

    fn take(&mut self, chunk: Bytes) -> Result<Bytes, Box<InStreamError>> {
        // Events are longer in some dialects than in others, by about this factor.
        let mut out = String::with_capacity(2 * chunk.len());
        self.0.feed(&chunk, &mut out);
        self.written(out)
    }

    fn take_signatures(&mut self) -> Vec<CallSignature> {
        self.0.take_signatures()
    }

    fn finish(&mut self) -> Result<Bytes, Box<InStreamError>> {
        let mut out = String::new();
        self.0.finish(&mut out);
        self.written(out)
    }

    fn conclude(&mut self) -> Result<Bytes, Bytes> {
        let mut out = String::new();
        // Some sites end a stream in the form of another dialect, which the converter has recognised.
        let is_complete =
            self.0.is_ended() || matches!(self.progress().phase(), Phase::Ended) && self.0.close(&mut out);
        if is_complete { Ok(Bytes::from(out)) } else { Err(Bytes::from(out)) }
    }

    fn error(&mut self, error: &UpstreamError, _: &str) -> Bytes {
        let mut out = String::new();
        self.0.fail(error, &mut out);
        Bytes::from(out)
    }

    /// Whether the stream is one whose usage comes with its finish or behind it, and carries one answer only: of several, the
    /// others may still be on their way. Some upstreams of Gemini put a finish reason into every chunk, from the first on.
    fn is_followed_by_usage_alone(&self) -> bool {
        let progress = self.progress();
        let is_of_dialect = match progress.dialect() {
            Dialect::Chat | Dialect::Completions => true,
            Dialect::Gemini => progress.ended_after_output(),
            _ => false,
        };
        is_of_dialect && !self.0.is_of_several()
    }

    fn is_between_events(&self) -> bool {
        true
    }
}
