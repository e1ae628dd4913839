//! A turn's stream of events, turned into text frames, one event each.

use memchr::memmem;

use crate::dialect::errors::UpstreamError;
use crate::dialect::events::RESPONSE_ENDS;
use crate::dialect::responses::TurnOutput;
use crate::dialect::sse::{Event, Scanner};
use crate::dialect::stream_event::StreamEvent;
use crate::dialect::tree::Node;

use super::refusal;

/// The length of the longest event that is passed on, in bytes: a terminal event repeats the whole answer, images included.
const LONGEST: usize = 32 << 20;
/// The type of the error with which our own relay ends an answer whose stream broke.
const BROKEN: &str = UpstreamError::BROKEN_STREAM;

/// A reader of the events of one turn.
pub(super) struct Events {
    scanner: Scanner,
    turn: Turn,
}

/// What the events have said so far.
#[derive(Default)]
struct Turn {
    output: TurnOutput,
    /// The length of the events that `output` was read from, in bytes.
    kept: usize,
    /// The number of events that were passed on.
    count: u64,
    /// Whether nothing may follow.
    over: bool,
}

impl Default for Events {
    fn default() -> Self {
        Self { scanner: Scanner::new(LONGEST), turn: Turn::default() }
    }
}

impl Events {
    /// Returns the frames for a chunk of the stream.
    pub(super) fn read(&mut self, chunk: &[u8]) -> Vec<String> {
        let mut frames = Vec::new();
        let Self { scanner, turn } = self;
        scanner.feed(chunk, |event| frames.extend(turn.take(event)));
        if scanner.is_too_long() {
            // It may never end.
            scanner.finish(|event| frames.extend(turn.take(event)));
        }
        frames
    }

    /// Returns the frames for the end of the stream.
    pub(super) fn finish(&mut self) -> Vec<String> {
        let mut frames = Vec::new();
        let Self { scanner, turn } = self;
        scanner.finish(|event| frames.extend(turn.take(event)));
        if !turn.over {
            turn.over = true;
            frames.push(refusal::stream_closed());
        }
        frames
    }

    /// Whether the last event has been passed on.
    pub(super) fn is_over(&self) -> bool {
        self.turn.over
    }

    /// Returns the number of events that were passed on.
    pub(super) fn count(&self) -> u64 {
        self.turn.count
    }

    pub(super) fn output(&self) -> &TurnOutput {
        &self.turn.output
    }
}

impl Turn {
    fn take(&mut self, event: Event<'_>) -> Option<String> {
        if self.over || event.data.is_empty() || event.data == b"[DONE]" {
            return None;
        }
        if event.cut {
            self.over = true;
            return Some(refusal::FrameRefusal::new(502, "An event of the upstream is too long").frame());
        }
        let text = String::from_utf8_lossy(event.data).into_owned();
        self.count += 1;
        if !says_more_than_a_delta(event.data) {
            return Some(text);
        }
        let event = StreamEvent::new(event.name, &text);
        self.kept += text.len();
        if self.kept <= LONGEST {
            self.output.read(&event);
        }
        let Some(json) = event.json() else { return Some(text) };
        match json.str_at("type").as_ref() {
            kind if RESPONSE_ENDS.contains(&kind) => self.over = true,
            "response.failed" => {
                self.over = true;
                let kind = json.path(&["response", "error", "type"]).and_then(Node::str);
                if kind.as_deref() == Some(BROKEN) {
                    return Some(refusal::stream_closed());
                }
            }
            "error" => {
                self.over = true;
                if json.get("status").is_none() {
                    return Some(refusal::of_event(&text));
                }
            }
            _ => {}
        }
        Some(text)
    }
}

/// Whether an event must be read. Most are deltas and need not be.
fn says_more_than_a_delta(event: &[u8]) -> bool {
    TurnOutput::concerns(event) || memmem::find(event, b"\"error\"").is_some()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn stream(events: &[Value]) -> String {
        let named = |event: &Value| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap());
        events.iter().map(named).collect()
    }

    fn parsed(frames: &[String]) -> Vec<Value> {
        frames.iter().map(|frame| serde_json::from_str(frame).unwrap()).collect()
    }

    fn turn() -> Vec<Value> {
        vec![
            json!({"type":"response.created","response":{"id":"resp_1","output":[]}}),
            json!({"type":"response.output_text.delta","delta":"\"response\" \"error\" \u{1f600}\n"}),
            json!({"type":"response.output_item.done","output_index":0,"item":{"type":"message","id":"msg_1"}}),
            json!({"type":"response.completed","response":{"id":"resp_1","output":[]}}),
        ]
    }

    #[test]
    fn nothing_follows_the_last_event() {
        let mut events = Events::default();
        let late = json!({"type":"response.output_text.delta","delta":"late"});
        let frames = events.read((stream(&turn()) + &stream(&[late]) + "data: [DONE]\n\n").as_bytes());
        assert_eq!(parsed(&frames), turn());
        assert!(events.is_over() && events.finish().is_empty());
        assert_eq!(events.output().response_id(), Some("resp_1"));
        assert_eq!(events.output().items(), ["{\"id\":\"msg_1\",\"type\":\"message\"}"]);
    }

    #[test]
    fn a_stream_that_ends_or_breaks_before_its_last_event_says_so_once() {
        let mut events = Events::default();
        events.read(stream(&turn()[..3]).as_bytes());
        let closed: Value = serde_json::from_str(&refusal::stream_closed()).unwrap();
        assert_eq!(parsed(&events.finish()), std::slice::from_ref(&closed));
        assert!(events.finish().is_empty());

        let mut events = Events::default();
        let broke = json!({"type":"response.failed","response":{"id":"resp_1","error":{"type":BROKEN}}});
        assert_eq!(parsed(&events.read(stream(&[broke]).as_bytes())), [closed]);
        assert!(events.finish().is_empty());
    }

    #[test]
    fn an_upstreams_own_failure_is_passed_on() {
        let failed = json!({"type":"response.failed","response":{"id":"r","error":{"code":"server_error"}}});
        let mut events = Events::default();
        let frames = parsed(&events.read(stream(std::slice::from_ref(&failed)).as_bytes()));
        assert_eq!(frames, [failed]);
        assert!(events.is_over());
        let mut events = Events::default();
        let error = json!({"type":"error","code":"c","message":"m"});
        let frames = parsed(&events.read(stream(&[error]).as_bytes()));
        assert_eq!((&frames[0]["status"], &frames[0]["error"]["code"]), (&json!(502), &json!("c")));
        assert!(events.is_over());
    }

    #[test]
    fn comments_are_not_passed_on() {
        let mut events = Events::default();
        assert!(events.read(b": keepalive\n\n").is_empty());
    }

    proptest! {
        #[test]
        fn a_stream_cut_anywhere_gives_the_same_frames(cuts in prop::collection::vec(0usize..700, 0..8)) {
            let bytes = stream(&turn()).into_bytes();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let mut events = Events::default();
            let mut frames = Vec::new();
            for pair in cuts.windows(2) {
                frames.extend(events.read(&bytes[pair[0]..pair[1]]));
            }
            prop_assert_eq!(parsed(&frames), turn());
        }
    }
}
