//! A stream on its way from one dialect to another.

use std::sync::Arc;

use super::restore::Restorer;
use super::signatures::{self, CallSignature, SignatureCollector};
use super::{MAX_CHOICES, Reader, Writer};
use crate::dialect::canonical::{Event, ReplyContext};
use crate::dialect::sse::{self, Scanner};
use crate::dialect::tree::Node;
use crate::dialect::upstream_error::UpstreamError;
use crate::dialect::{Dialect, gemini};

/// The longest event that is converted: a whole image may come as one. A longer one ends the stream.
const MAX_EVENT: usize = 16 << 20;

/// Takes the chunks of one dialect and gives those of another, as far as they go.
///
/// Several answers at once come in one stream, by the index of their choice or candidate, and leave so:
/// each has a way of its own, made when its first chunk comes.
#[derive(Debug)]
pub struct StreamConverter {
    scanner: Scanner,
    ways: Ways,
}

#[derive(Debug)]
struct Ways {
    from: Dialect,
    to: Dialect,
    context: Arc<ReplyContext>,
    /// Never empty: the first also tells what is about none.
    halves: Vec<Half>,
    /// Several answers have been told, and that this was all.
    concluded: bool,
}

#[derive(Debug)]
struct Half {
    /// The index of its answer.
    index: u64,
    reader: Reader,
    restorer: Restorer,
    writer: Writer,
    context: Arc<ReplyContext>,
    failure: Option<UpstreamError>,
    ended: bool,
    started: bool,
    /// Of calls for which the client's dialect has no place; `None` where it has.
    signatures: Option<SignatureCollector>,
}

impl StreamConverter {
    pub fn new(from: Dialect, to: Dialect, context: Arc<ReplyContext>) -> Self {
        let reader = match context.several {
            true => Reader::of_answer(0, from),
            false => Reader::new(from),
        };
        let halves = vec![Half::new(0, reader, to, &context)];
        Self { scanner: Scanner::new(MAX_EVENT), ways: Ways { from, to, context, halves, concluded: false } }
    }

    /// Reads the next chunk and appends what it says to `out`. After a failure nothing more is
    /// written; see [`failure`](Self::failure).
    pub fn feed(&mut self, chunk: &[u8], out: &mut String) {
        let ways = &mut self.ways;
        self.scanner.feed(chunk, |event| ways.read(&event, out));
    }

    /// The upstream's body is over. True when the answer is complete.
    pub fn close(&mut self, out: &mut String) -> bool {
        let ways = &mut self.ways;
        self.scanner.finish(|event| ways.read(&event, out));
        ways.halves.iter_mut().for_each(|half| half.close(out));
        ways.conclude(out);
        self.is_ended()
    }

    /// What the upstream said when its stream failed.
    pub fn failure(&self) -> Option<&UpstreamError> {
        self.ways.halves.iter().find_map(|half| half.failure.as_ref())
    }

    /// The signatures of calls that have come since, for which the client has no place.
    pub fn take_signatures(&mut self) -> Vec<CallSignature> {
        let signatures = self.ways.halves.iter_mut().filter_map(|half| half.signatures.as_mut());
        signatures.flat_map(|signatures| std::mem::take(&mut signatures.found)).collect()
    }

    /// The end of the stream has been written.
    pub fn is_ended(&self) -> bool {
        self.ways.halves.iter().all(|half| half.ended)
    }

    /// Several answers may come, and one may end long before another.
    pub fn is_of_several(&self) -> bool {
        self.ways.context.several
    }

    /// The client has the beginning of the answer.
    pub fn is_started(&self) -> bool {
        self.ways.halves.iter().any(|half| half.started)
    }

    /// Tells the client that its stream failed. Nothing may follow.
    pub fn fail(&mut self, error: &UpstreamError, out: &mut String) {
        let mut told = self.is_ended();
        for half in &mut self.ways.halves {
            if !half.ended && !std::mem::replace(&mut told, true) {
                half.writer.write(&Event::Fail(error.clone()), &half.context, out);
            }
            half.ended = true;
        }
    }
}

impl Ways {
    fn read(&mut self, event: &sse::Event<'_>, out: &mut String) {
        if self.context.several && !event.cut {
            self.meet(event.data);
        }
        for half in &mut self.halves {
            half.read(event.name, event.data, event.cut, out);
        }
        self.conclude(out);
    }

    /// Ends the stream when each of several answers has ended. The first has seen all that is about none.
    fn conclude(&mut self, out: &mut String) {
        let all_ended = self.context.several && self.halves.iter().all(|half| half.ended);
        if all_ended
            && !std::mem::replace(&mut self.concluded, true)
            && let Some(first) = self.halves.first()
        {
            first.writer.conclude(&self.context, out);
        }
    }

    /// Makes way for an answer of which this is the first chunk.
    fn meet(&mut self, data: &[u8]) {
        let text = String::from_utf8_lossy(data);
        let Ok(chunk) = Node::parse(&text) else { return };
        let indexes: Vec<u64> = match self.from {
            Dialect::Chat => {
                chunk.items_at("choices").iter().filter_map(|choice| choice.u64_at("index")).collect()
            }
            Dialect::Gemini => gemini::candidates_of(&chunk).collect(),
            _ => return,
        };
        for index in indexes {
            let is_new = !self.halves.iter().any(|half| half.index == index);
            if is_new && self.halves.len() < MAX_CHOICES {
                let reader = Reader::of_answer(index, self.from);
                self.halves.push(Half::new(index, reader, self.to, &self.context));
            }
        }
    }
}

impl Half {
    fn new(index: u64, reader: Reader, to: Dialect, context: &Arc<ReplyContext>) -> Self {
        Self {
            index,
            reader,
            restorer: Restorer::default(),
            writer: Writer::of_answer(index, to, context),
            context: context.clone(),
            failure: None,
            ended: false,
            started: false,
            signatures: signatures::are_lost(to).then(SignatureCollector::default),
        }
    }

    fn read(&mut self, name: &[u8], data: &[u8], cut: bool, out: &mut String) {
        if self.failure.is_some() || self.ended {
            return;
        }
        if cut {
            self.failure = Some(UpstreamError::new("Upstream sent an event that is too large to convert"));
            return;
        }
        let data = String::from_utf8_lossy(data);
        let Self { reader, restorer, writer, context, failure, ended, started, signatures, .. } = self;
        reader.read(name, &data, &mut |event| {
            restorer.event(event, context, &mut |event| {
                if let Some(signatures) = signatures {
                    signatures.take(&event);
                }
                take(event, writer, context, (failure, ended, started), out);
            });
        });
    }

    fn close(&mut self, out: &mut String) {
        if self.failure.is_some() || self.ended {
            return;
        }
        let Self { reader, restorer, writer, context, failure, ended, started, signatures, .. } = self;
        reader.close(&mut |event| {
            restorer.event(event, context, &mut |event| {
                if let Some(signatures) = signatures {
                    signatures.take(&event);
                }
                take(event, writer, context, (failure, ended, started), out);
            });
        });
    }
}

fn take(
    event: Event<'_>,
    writer: &mut Writer,
    context: &ReplyContext,
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
            writer.write(&event, context, out);
            *started |= !out.is_empty();
        }
    }
}
