//! A stream on its way from one dialect to another.

use std::sync::Arc;

use super::proofs::{self, CallProof, Proofs};
use super::restore::Restorer;
use super::{Reader, Writer};
use crate::dialect::Dialect;
use crate::dialect::canonical::{Asked, Event};
use crate::dialect::sse::Scanner;
use crate::dialect::upstream_error::UpstreamError;

/// The longest event that is converted: a whole image may come as one. A longer one ends the stream.
const MAX_EVENT: usize = 16 << 20;

/// Takes the chunks of one dialect and gives those of another, as far as they go.
#[derive(Debug)]
pub struct StreamConverter {
    scanner: Scanner,
    half: Half,
}

#[derive(Debug)]
struct Half {
    reader: Reader,
    restorer: Restorer,
    writer: Writer,
    asked: Arc<Asked>,
    failure: Option<UpstreamError>,
    ended: bool,
    started: bool,
    /// Of calls for which the client's dialect has no place; `None` where it has.
    proofs: Option<Proofs>,
}

impl StreamConverter {
    pub fn new(from: Dialect, to: Dialect, asked: Arc<Asked>) -> Self {
        let half = Half {
            reader: Reader::new(from),
            restorer: Restorer::default(),
            writer: Writer::new(to, &asked),
            asked,
            failure: None,
            ended: false,
            started: false,
            proofs: proofs::are_lost(to).then(Proofs::default),
        };
        Self { scanner: Scanner::new(MAX_EVENT), half }
    }

    /// Reads the next chunk and appends what it says to `out`. After a failure nothing more is
    /// written; see [`failure`](Self::failure).
    pub fn feed(&mut self, chunk: &[u8], out: &mut String) {
        let half = &mut self.half;
        self.scanner.feed(chunk, |event| half.read(event.name, event.data, event.cut, out));
    }

    /// The upstream's body is over. True when the answer is complete.
    pub fn close(&mut self, out: &mut String) -> bool {
        let half = &mut self.half;
        self.scanner.finish(|event| half.read(event.name, event.data, event.cut, out));
        half.close(out);
        half.ended
    }

    /// What the upstream said when its stream failed.
    pub fn failure(&self) -> Option<&UpstreamError> {
        self.half.failure.as_ref()
    }

    /// The proofs of calls that have come since, for which the client has no place.
    pub fn take_proofs(&mut self) -> Vec<CallProof> {
        self.half.proofs.as_mut().map(|proofs| std::mem::take(&mut proofs.found)).unwrap_or_default()
    }

    /// The end of the stream has been written.
    pub fn is_ended(&self) -> bool {
        self.half.ended
    }

    /// The client has the beginning of the answer.
    pub fn is_started(&self) -> bool {
        self.half.started
    }

    /// Tells the client that its stream failed. Nothing may follow.
    pub fn fail(&mut self, error: &UpstreamError, out: &mut String) {
        let half = &mut self.half;
        if !half.ended {
            half.ended = true;
            half.writer.write(&Event::Fail(error.clone()), &half.asked, out);
        }
    }
}

impl Half {
    fn read(&mut self, name: &[u8], data: &[u8], cut: bool, out: &mut String) {
        if self.failure.is_some() || self.ended {
            return;
        }
        if cut {
            self.failure = Some(UpstreamError::new("Upstream sent an event that is too large to convert"));
            return;
        }
        let data = String::from_utf8_lossy(data);
        let Self { reader, restorer, writer, asked, failure, ended, started, proofs } = self;
        reader.read(name, &data, &mut |event| {
            restorer.event(event, asked, &mut |event| {
                if let Some(proofs) = proofs {
                    proofs.take(&event);
                }
                take(event, writer, asked, (failure, ended, started), out);
            });
        });
    }

    fn close(&mut self, out: &mut String) {
        if self.failure.is_some() || self.ended {
            return;
        }
        let Self { reader, restorer, writer, asked, failure, ended, started, proofs } = self;
        reader.close(&mut |event| {
            restorer.event(event, asked, &mut |event| {
                if let Some(proofs) = proofs {
                    proofs.take(&event);
                }
                take(event, writer, asked, (failure, ended, started), out);
            });
        });
    }
}

fn take(
    event: Event<'_>,
    writer: &mut Writer,
    asked: &Asked,
    (failure, ended, started): (&mut Option<UpstreamError>, &mut bool, &mut bool),
    out: &mut String,
) {
    if failure.is_some() || *ended {
        return;
    }
    match event {
        Event::Fail(error) => *failure = Some(error),
        event => {
            *ended = event == Event::End;
            writer.write(&event, asked, out);
            *started |= !out.is_empty();
        }
    }
}
