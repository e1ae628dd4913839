//! A stream of another dialect than the client's: it is written anew, event by event.

use bytes::Bytes;

use crate::dialect::convert::{CallSignature, StreamConverter};
use crate::dialect::errors::UpstreamError;
use crate::dialect::observe::{Phase, StreamObserver};

use super::{ToldError, Transit};

/// What writes such a stream.
pub(super) struct Converted(pub(super) StreamConverter);

impl Transit for Converted {
    fn take(&mut self, chunk: Bytes, observer: &StreamObserver) -> Result<Bytes, Box<ToldError>> {
        // Events are longer in some dialects than in others, by about as much.
        let mut out = String::with_capacity(2 * chunk.len());
        self.0.feed(&chunk, &mut out);
        let failure = self.0.failure().or(match observer.phase() {
            Phase::Failed(error) => Some(error),
            _ => None,
        });
        match failure {
            None => Ok(Bytes::from(out)),
            Some(error) => {
                let error = error.clone();
                Err(Box::new(ToldError { error, before: Bytes::from(out), is_told: false }))
            }
        }
    }

    fn take_signatures(&mut self) -> Vec<CallSignature> {
        self.0.take_signatures()
    }

    fn unended(&self, error: UpstreamError) -> ToldError {
        ToldError { error, before: Bytes::new(), is_told: false }
    }

    fn conclude(&mut self, observer: &StreamObserver) -> Result<Bytes, Bytes> {
        let mut out = String::new();
        // Some sites end a stream in the words of another dialect: the converter read them so.
        let is_complete =
            self.0.is_ended() || matches!(observer.phase(), Phase::Ended) && self.0.close(&mut out);
        if is_complete { Ok(Bytes::from(out)) } else { Err(Bytes::from(out)) }
    }

    fn error(&mut self, error: &UpstreamError, _: &StreamObserver) -> Bytes {
        let mut out = String::new();
        self.0.fail(error, &mut out);
        Bytes::from(out)
    }

    /// Where a stream has several answers, the others may still be on their way.
    fn is_followed_by_usage_alone(&self) -> bool {
        !self.0.is_of_several()
    }

    fn is_between_events(&self) -> bool {
        true
    }
}
