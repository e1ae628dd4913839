//! Conversations of the responses dialect that no upstream keeps (proxy.md 5.3).
//!
//! An upstream of another dialect knows nothing of `previous_response_id`, and codex and sub2api, which are
//! asked to store nothing, know no more. So what a client was answered by one of them is kept here for a
//! while: the request and the items that answered it. The next request that refers to it becomes a whole
//! one, as on a socket, and goes wherever it can be served. Any other upstream of the dialect itself keeps
//! its own answers, and nothing is kept of them.
//!
//! Everything is in memory, for its owner alone, and bounded: the oldest go first. Who refers to what is
//! gone gets the 400 that clients recover from.

use std::collections::{HashMap, VecDeque};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use crate::dialect::responses::{TurnOutput, merge_turn};
use crate::dialect::sse::Scanner;
use crate::dialect::tree::Node;
use crate::dialect::{Dialect, edit::edit, envelope, json};
use crate::http::body::Cut;
use crate::http::{Response, ResponseBody};
use crate::sync::lock;
use crate::time::{Millis, now_ms};

use super::call::{Call, Operation};

/// All of it together, in bytes, and one of it.
const MAX_BYTES: usize = 64 << 20;
const MAX_TURN: usize = 4 << 20;
/// As long as a conversation may pause.
const KEPT_MS: Millis = 24 * 60 * 60 * 1000;

/// Says of an answer that its upstream does not keep it.
#[derive(Clone, Copy)]
pub(super) struct Unkept;

/// Who was answered under which id.
type Key = (Option<i64>, String);

/// What is kept.
#[derive(Default)]
pub struct Turns(Mutex<Held>);

#[derive(Default)]
struct Held {
    turns: HashMap<Key, Arc<Turn>>,
    /// Oldest first.
    order: VecDeque<Key>,
    bytes: usize,
}

struct Turn {
    request: Bytes,
    items: Vec<String>,
    kept_at: Millis,
}

impl Turn {
    fn len(&self) -> usize {
        self.request.len() + self.items.iter().map(String::len).sum::<usize>()
    }
}

impl Turns {
    fn find(&self, key: &Key, now: Millis) -> Option<Arc<Turn>> {
        self.held().turns.get(key).filter(|turn| turn.kept_at + KEPT_MS > now).cloned()
    }

    fn keep(&self, key: Key, turn: Turn) {
        if turn.len() > MAX_TURN {
            return;
        }
        let mut held = self.held();
        held.bytes += turn.len();
        if let Some(other) = held.turns.insert(key.clone(), Arc::new(turn)) {
            held.bytes -= other.len();
        } else {
            held.order.push_back(key);
        }
        while held.bytes > MAX_BYTES
            && let Some(oldest) = held.order.pop_front()
        {
            let gone = held.turns.remove(&oldest).map_or(0, |turn| turn.len());
            held.bytes -= gone;
        }
    }

    /// Forgets every answer.
    pub fn clear(&self) {
        *self.held() = Held::default();
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        lock(&self.0)
    }
}

/// Makes a request whole that refers to an answer kept here; leaves any other alone.
pub(super) fn resume(turns: &Turns, call: &mut Call) {
    let refers = call.face.dialect == Dialect::Responses
        && call.operation == Operation::Answer
        && call.envelope.has_previous;
    if !refers {
        return;
    }
    let Ok(text) = std::str::from_utf8(&call.body) else { return };
    let Some(id) = json::member(text, "previous_response_id").and_then(json::string) else { return };
    let Some(turn) = turns.find(&(call.key_id, id), now_ms()) else { return };
    let request = std::str::from_utf8(&turn.request).ok().and_then(|text| Node::parse(text).ok());
    let (Some(request), Ok(new)) = (request, Node::parse(text)) else { return };
    let items: Vec<&str> = turn.items.iter().map(String::as_str).collect();
    let whole = merge_turn(&request, &items, &new);
    let stream = if call.envelope.stream { "true" } else { "false" };
    let whole = String::from_utf8_lossy(&whole);
    let whole = Bytes::from(edit(&whole, &[("stream", stream)], &[]).into_owned());
    if let Ok(envelope) = envelope::skim(Dialect::Responses, &whole) {
        call.envelope = envelope;
        call.body = whole;
    }
}

/// The answer, of which something is kept where nobody else does and the client wants to go on from it.
pub(super) fn remember(turns: &Arc<Turns>, call: &Call, mut answer: Response) -> Response {
    let may_go_on = call.face.dialect == Dialect::Responses && call.operation == Operation::Answer;
    if !may_go_on || answer.extensions_mut().remove::<Unkept>().is_none() {
        return answer;
    }
    let text = std::str::from_utf8(&call.body).unwrap_or_default();
    if call.body.len() > MAX_TURN || json::member(text, "store") == Some("false") {
        return answer;
    }
    let keeper = Keeper { turns: turns.clone(), key: call.key_id, request: call.body.clone() };
    let body = std::mem::replace(answer.body_mut(), ResponseBody::empty());
    *answer.body_mut() = match body {
        ResponseBody::Full(Some(bytes)) => {
            let event = [b"{\"type\":\"response.completed\",\"response\":".as_slice(), &bytes, b"}"].concat();
            let mut output = TurnOutput::default();
            output.read(&String::from_utf8_lossy(&event));
            keeper.keep(&output);
            ResponseBody::full(bytes)
        }
        ResponseBody::Full(None) => ResponseBody::empty(),
        stream => {
            let (scanner, output) = (Scanner::new(MAX_TURN), TurnOutput::default());
            ResponseBody::stream(Overheard { stream, scanner, output, read: 0, keeper })
        }
    };
    answer
}

struct Keeper {
    turns: Arc<Turns>,
    key: Option<i64>,
    request: Bytes,
}

impl Keeper {
    /// Keeps what an answer has brought.
    fn keep(&self, output: &TurnOutput) {
        let Some(id) = output.response_id() else { return };
        let items = output.items().into_iter().map(str::to_owned).collect();
        let turn = Turn { request: self.request.clone(), items, kept_at: now_ms() };
        self.turns.keep((self.key, id.to_owned()), turn);
    }
}

/// A stream that passes, and that is kept when its last event does.
struct Overheard {
    stream: ResponseBody,
    scanner: Scanner,
    output: TurnOutput,
    /// Bytes of the events that `output` was read from.
    read: usize,
    keeper: Keeper,
}

impl Overheard {
    fn hear(&mut self, bytes: &[u8]) {
        let Self { scanner, output, read, keeper, .. } = self;
        scanner.feed(bytes, |event| {
            if !TurnOutput::concerns(event.data) || event.cut {
                return;
            }
            *read = read.saturating_add(event.data.len());
            // The last event repeats the rest.
            if *read <= 2 * MAX_TURN {
                output.read(&String::from_utf8_lossy(event.data));
                if output.is_complete() {
                    keeper.keep(output);
                }
            }
        });
    }
}

impl Body for Overheard {
    type Data = Bytes;
    type Error = Cut;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Cut>>> {
        let this = self.get_mut();
        let frame = ready!(Pin::new(&mut this.stream).poll_frame(context));
        if let Some(Ok(frame)) = &frame
            && let Some(bytes) = frame.data_ref()
        {
            this.hear(bytes);
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.stream.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.stream.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(length: usize, kept_at: Millis) -> Turn {
        Turn { request: Bytes::from(vec![b' '; length]), items: Vec::new(), kept_at }
    }

    #[test]
    fn memory_is_bounded_and_the_oldest_go_first() {
        let turns = Turns::default();
        for number in 0..40 {
            turns.keep((None, number.to_string()), turn(2 << 20, 0));
        }
        let found = |number: i32| turns.find(&(None, number.to_string()), 1).is_some();
        assert!(!found(7) && found(8) && found(39));
        assert_eq!(turns.held().bytes, MAX_BYTES);
        turns.keep((None, "39".to_owned()), turn(1, 0));
        assert_eq!(turns.held().bytes, 62 * (1 << 20) + 1);
        assert_eq!(turns.held().order.len(), 32);
        turns.keep((None, "large".to_owned()), turn(MAX_TURN + 1, 0));
        assert!(turns.find(&(None, "large".to_owned()), 1).is_none());
    }

    #[test]
    fn a_turn_is_its_owners_and_ends_in_time() {
        let turns = Turns::default();
        turns.keep((Some(1), "r".to_owned()), turn(1, 1_000));
        assert!(turns.find(&(Some(1), "r".to_owned()), KEPT_MS).is_some());
        assert!(turns.find(&(Some(1), "r".to_owned()), KEPT_MS + 1_000).is_none());
        assert!(turns.find(&(None, "r".to_owned()), 2_000).is_none());
        assert!(turns.find(&(Some(2), "r".to_owned()), 2_000).is_none());
    }
}
