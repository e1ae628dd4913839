//! A stream on its way from one dialect to another.

use std::sync::Arc;

use super::proofs::{self, CallProof, Proofs};
use super::restore::Restorer;
use super::{MAX_CHOICES, Reader, Writer};
use crate::dialect::Dialect;
use crate::dialect::canonical::{Asked, Event};
use crate::dialect::sse::{self, Scanner};
use crate::dialect::tree::Node;
use crate::dialect::upstream_error::UpstreamError;

/// The longest event that is converted: a whole image may come as one. A longer one ends the stream.
const MAX_EVENT: usize = 16 << 20;

/// Takes the chunks of one dialect and gives those of another, as far as they go.
///
/// Several answers at once come in one stream of chat, by the index of their choice, and leave in one of
/// gemini, by that of their candidate: each has a way of its own, made when its first chunk comes.
#[derive(Debug)]
pub struct StreamConverter {
    scanner: Scanner,
    ways: Ways,
}

#[derive(Debug)]
struct Ways {
    from: Dialect,
    to: Dialect,
    asked: Arc<Asked>,
    /// Never empty: the first also tells what is about none.
    halves: Vec<Half>,
}

#[derive(Debug)]
struct Half {
    /// The index of its answer.
    index: u64,
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
        let reader = match asked.several {
            true => Reader::of_choice(0),
            false => Reader::new(from),
        };
        let halves = vec![Half::new(0, reader, to, &asked)];
        Self { scanner: Scanner::new(MAX_EVENT), ways: Ways { from, to, asked, halves } }
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
        self.is_ended()
    }

    /// What the upstream said when its stream failed.
    pub fn failure(&self) -> Option<&UpstreamError> {
        self.ways.halves.iter().find_map(|half| half.failure.as_ref())
    }

    /// The proofs of calls that have come since, for which the client has no place.
    pub fn take_proofs(&mut self) -> Vec<CallProof> {
        let proofs = self.ways.halves.iter_mut().filter_map(|half| half.proofs.as_mut());
        proofs.flat_map(|proofs| std::mem::take(&mut proofs.found)).collect()
    }

    /// The end of the stream has been written.
    pub fn is_ended(&self) -> bool {
        self.ways.halves.iter().all(|half| half.ended)
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
                half.writer.write(&Event::Fail(error.clone()), &half.asked, out);
            }
            half.ended = true;
        }
    }
}

impl Ways {
    fn read(&mut self, event: &sse::Event<'_>, out: &mut String) {
        if self.asked.several && !event.cut {
            self.meet(event.data);
        }
        for half in &mut self.halves {
            half.read(event.name, event.data, event.cut, out);
        }
    }

    /// Makes way for an answer of which this is the first chunk.
    fn meet(&mut self, data: &[u8]) {
        let text = String::from_utf8_lossy(data);
        let Ok(chunk) = Node::parse(&text) else { return };
        for index in chunk.items_at("choices").iter().filter_map(|choice| choice.u64_at("index")) {
            let is_new = !self.halves.iter().any(|half| half.index == index);
            if is_new && self.from == Dialect::Chat && self.halves.len() < MAX_CHOICES {
                self.halves.push(Half::new(index, Reader::of_choice(index), self.to, &self.asked));
            }
        }
    }
}

impl Half {
    fn new(index: u64, reader: Reader, to: Dialect, asked: &Arc<Asked>) -> Self {
        Self {
            index,
            reader,
            restorer: Restorer::default(),
            writer: Writer::of_answer(index, to, asked),
            asked: asked.clone(),
            failure: None,
            ended: false,
            started: false,
            proofs: proofs::are_lost(to).then(Proofs::default),
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
        let Self { reader, restorer, writer, asked, failure, ended, started, proofs, .. } = self;
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
        let Self { reader, restorer, writer, asked, failure, ended, started, proofs, .. } = self;
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
