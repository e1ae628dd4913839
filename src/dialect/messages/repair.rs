//! Adds the events to a stream of this dialect that its upstream left out: `message_start`, the starts and ends of blocks,
//! and `message_stop`, where `[DONE]` stands in its place. Clients' stream helpers fail without them. The upstream's own events
//! stay as they are.

use super::accumulator::{begun, begun_block};
use super::stream_write::put_event;
use crate::dialect::canonical::ReplyContext;
use crate::dialect::edit::edit;
use crate::dialect::events::has_stop_reason;
use crate::dialect::literal::Json;
use crate::dialect::stream_event::StreamEvent;
use crate::dialect::tree::Node;

/// Adds the missing events to a stream.
#[derive(Debug)]
pub struct Repair {
    /// The context in which `message_start` is written; `None` once the stream has begun.
    context: Option<Box<ReplyContext>>,
    /// The index of the open block.
    open: Option<u64>,
    /// Whether a stop reason has come.
    stopped: bool,
}

impl Repair {
    pub fn new(context: ReplyContext) -> Self {
        Self { context: Some(Box::new(context)), open: None, stopped: false }
    }

    /// Repairs a stream from the `[DONE]` on that comes in place of its last event.
    pub fn of_end() -> Self {
        Self { context: None, open: None, stopped: true }
    }

    /// Appends an event as it came (`raw`), after what must come before it.
    pub fn take(&mut self, event: &StreamEvent<'_>, raw: &str, out: &mut String) {
        if event.is_done() && self.stopped {
            return put_event(out, "message_stop", |_| {});
        }
        self.stopped |= has_stop_reason(event);
        if let Some(json) = event.json() {
            self.put_missing(event.kind(), json, out);
        }
        out.push_str(raw);
    }

    fn put_missing(&mut self, kind: &str, json: &Node<'_>, out: &mut String) {
        let is_of_message = kind.starts_with("content_block_") || kind.starts_with("message_");
        if is_of_message && let Some(context) = self.context.take().filter(|_| kind != "message_start") {
            let message = edit(&begun(&context), &[("stop_reason", "null")], &[]).into_owned();
            put_event(out, "message_start", |o| o.field("message", Json::checked(&message)));
        }
        let index = json.u64_at("index");
        match kind {
            "content_block_start" => {
                self.close(out);
                self.open = Some(index.unwrap_or(0));
            }
            "content_block_delta" if self.open.is_none() => {
                let delta = json.get("delta").map(|delta| delta.str_at("type")).unwrap_or_default();
                let Some(block) = begun_block(&delta) else { return };
                let index = index.unwrap_or(0);
                put_event(out, "content_block_start", |o| {
                    o.field("index", index);
                    o.field("content_block", Json::checked(block));
                });
                self.open = Some(index);
            }
            "content_block_stop" => self.open = None,
            "message_delta" | "message_stop" => self.close(out),
            _ => {}
        }
    }

    /// Ends the open block.
    fn close(&mut self, out: &mut String) {
        if let Some(index) = self.open.take() {
            put_event(out, "content_block_stop", |o| o.field("index", index));
        }
    }
}
