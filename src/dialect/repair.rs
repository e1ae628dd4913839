//! Adds the events to a stream that its upstream left out, for clients of the upstream's dialect.

use bytes::Bytes;

use super::canonical::ReplyContext;
use super::observe::Lack;
use super::sse::{self, Scanner};
use super::stream_event::StreamEvent;
use super::{Dialect, messages, responses};

/// Adds the missing events to a stream as it passes.
#[derive(Debug)]
pub struct StreamRepair(OfDialect);

#[derive(Debug)]
enum OfDialect {
    Messages(messages::Repair),
    Responses(responses::Repair),
}

impl StreamRepair {
    /// Repairs a stream from its first event on; `None` for a dialect whose streams are not repaired.
    pub fn new(dialect: Dialect, context: ReplyContext) -> Option<Self> {
        match dialect {
            Dialect::Messages => Some(Self(OfDialect::Messages(messages::Repair::new(context)))),
            Dialect::Responses => Some(Self(OfDialect::Responses(responses::Repair::new(context)))),
            _ => None,
        }
    }

    /// Repairs a stream from an event on before which something is missing, or that stands in place of the last one.
    pub fn resumed(lack: &Lack) -> Self {
        Self(match lack.dialect {
            Dialect::Messages => OfDialect::Messages(messages::Repair::of_end()),
            _ => OfDialect::Responses(responses::Repair::resumed(lack.number, &lack.items)),
        })
    }

    /// Returns the next events, which must be whole, with the missing ones.
    pub fn feed(&mut self, events: &[u8]) -> Bytes {
        let room = events.len();
        if let OfDialect::Responses(repair) = &mut self.0 {
            Scanner::new(room).feed(events, |event| {
                repair.look_ahead(&StreamEvent::of(&event, &sse::text(event.data)));
            });
        }
        let mut out = String::with_capacity(2 * room);
        let mut passed = 0;
        Scanner::new(room).feed(events, |event| {
            let (data, raw) = (sse::text(event.data), sse::text(&events[passed..event.end]));
            passed = event.end;
            let parsed = StreamEvent::of(&event, &data);
            match &mut self.0 {
                OfDialect::Messages(repair) => repair.take(&parsed, &raw, &mut out),
                OfDialect::Responses(repair) => repair.take(&parsed, &data, &raw, &mut out),
            }
        });
        out.push_str(&sse::text(&events[passed..]));
        Bytes::from(out)
    }
}
