//! Answers of the responses dialect that no upstream stores, for `previous_response_id`.
//!
//! An upstream of another dialect knows nothing of `previous_response_id`; nor do codex and sub2api, which are asked to
//! store nothing. What such an upstream answered is stored here for a while: the request and the items of its answer. The
//! next request that refers to it is merged into a complete one, as on a WebSocket, and can be served by any channel.
//! Every other upstream of the dialect stores its own answers, and nothing is stored here.
//!
//! A request may also refer to single items of such an answer (`item_reference`): their ids lead back to it, ours by what
//! stands in them, those of codex and sub2api through an index. An upstream that gives one id to different items has told
//! of neither.
//!
//! Each answer gets an id of ours, 128 random bits: an upstream that gives one id twice would else give one client's next turn
//! the history of another.
//!
//! Everything is in memory, for its owner alone, and bounded: the oldest entries go first. A reference to an answer that
//! is gone gets the 400 that clients recover from.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use memchr::memmem;

use crate::dialect::canonical::ConversionError;
use crate::dialect::responses::{TurnOutput, answer_of, merge_turn, with_items_referred_to};
use crate::dialect::sse::Scanner;
use crate::dialect::tree::Node;
use crate::dialect::{Dialect, edit::edit, envelope, json};
use crate::http::body::Truncated;
use crate::http::{Response, ResponseBody};
use crate::proxy::Proxy;
use crate::sync::lock;
use crate::time::{Millis, now_ms};
use crate::uuid;

use super::call::{Call, Operation};
use super::commit::Answered;
use super::renamed;

/// Bytes of all turns together, and of one.
const MAX_BYTES: usize = 64 << 20;
const MAX_TURN: usize = 4 << 20;
/// What a turn, and each of its items, takes beside their texts.
const ENTRY_OVERHEAD: usize = 256;
const ITEM_OVERHEAD: usize = 160;
/// The longest id of an item that is looked up, in bytes.
const MAX_ITEM_ID: usize = 256;
/// How long a conversation may pause.
const RETENTION_MS: Millis = 24 * 60 * 60 * 1000;

/// The downstream key (none for the global token) and the response id.
type Key = (Option<i64>, String);

/// The turns of all conversations that may go on.
#[derive(Default)]
pub struct ResponseStore(Mutex<Entries>);

#[derive(Default)]
struct Entries {
    turns: HashMap<Key, Arc<StoredTurn>>,
    /// Oldest first.
    order: VecDeque<Key>,
    /// The items with ids of an upstream's.
    items: HashMap<Key, StoredItem>,
    bytes: usize,
}

/// Where an item is.
struct StoredItem {
    /// The latest turn that has it, and its place there.
    turn: Weak<StoredTurn>,
    place: usize,
    /// How many turns have an item of this id,
    turns: usize,
    /// and whether it is the same in all of them.
    is_one: bool,
}

struct StoredTurn {
    request: Bytes,
    items: Vec<String>,
    /// The ids of items that are an upstream's, each with the place of the item.
    ids: Vec<(usize, String)>,
    stored_at: Millis,
}

impl StoredTurn {
    fn new(request: Bytes, items: Vec<String>) -> Self {
        let id_of = |item: &String| json::member(item, "id").and_then(json::string);
        let ids = items.iter().enumerate().filter_map(|(place, item)| Some((place, id_of(item)?)));
        let ids =
            ids.filter(|(_, id)| answer_of(id).is_none() && (1..=MAX_ITEM_ID).contains(&id.len())).collect();
        Self { request, items, ids, stored_at: now_ms() }
    }

    /// The bytes that it takes under an id.
    fn size(&self, id: &str) -> usize {
        let items = self.items.iter().map(|item| item.len() + ITEM_OVERHEAD).sum::<usize>();
        // Each stands with its turn and in the index.
        let ids = self.ids.iter().map(|(_, id)| 2 * id.len()).sum::<usize>();
        // The id stands in the map and in the order.
        self.request.len() + items + ids + 2 * id.len() + ENTRY_OVERHEAD
    }
}

impl ResponseStore {
    fn find(&self, key: &Key, now: Millis) -> Option<Arc<StoredTurn>> {
        self.entries().turns.get(key).filter(|turn| turn.stored_at + RETENTION_MS > now).cloned()
    }

    fn insert(&self, key: Key, turn: StoredTurn) {
        let size = turn.size(&key.1);
        if size > MAX_TURN {
            return;
        }
        let mut entries = self.entries();
        entries.bytes += size;
        let turn = Arc::new(turn);
        entries.index(key.0, &turn);
        if let Some(other) = entries.turns.insert(key.clone(), turn) {
            entries.bytes -= other.size(&key.1);
            entries.unindex(key.0, &other);
        } else {
            entries.order.push_back(key);
        }
        while entries.bytes > MAX_BYTES
            && let Some(oldest) = entries.order.pop_front()
        {
            let Some(turn) = entries.turns.remove(&oldest) else { continue };
            entries.bytes -= turn.size(&oldest.1);
            entries.unindex(oldest.0, &turn);
        }
    }

    /// An item as its upstream gave it, by the upstream's id.
    fn item(&self, key: &Key, now: Millis) -> Option<String> {
        let entries = self.entries();
        let item = entries.items.get(key).filter(|item| item.is_one)?;
        let turn = item.turn.upgrade().filter(|turn| turn.stored_at + RETENTION_MS > now)?;
        turn.items.get(item.place).cloned()
    }

    /// Whether any item with an id of an upstream's is stored.
    fn has_items(&self) -> bool {
        !self.entries().items.is_empty()
    }

    /// Forgets every answer.
    pub fn clear(&self) {
        *self.entries() = Entries::default();
    }

    fn entries(&self) -> MutexGuard<'_, Entries> {
        lock(&self.0)
    }
}

impl Entries {
    fn index(&mut self, owner: Option<i64>, turn: &Arc<StoredTurn>) {
        for (place, id) in &turn.ids {
            let latest = StoredItem { turn: Arc::downgrade(turn), place: *place, turns: 1, is_one: true };
            match self.items.entry((owner, id.clone())) {
                Entry::Vacant(vacant) => {
                    vacant.insert(latest);
                }
                Entry::Occupied(mut known) => {
                    let known = known.get_mut();
                    let before = known.turn.upgrade();
                    let is_same =
                        before.is_none_or(|before| before.items.get(known.place) == turn.items.get(*place));
                    *known = StoredItem { turns: known.turns + 1, is_one: known.is_one && is_same, ..latest };
                }
            }
        }
    }

    fn unindex(&mut self, owner: Option<i64>, turn: &StoredTurn) {
        for (_, id) in &turn.ids {
            if let Entry::Occupied(mut known) = self.items.entry((owner, id.clone())) {
                known.get_mut().turns -= 1;
                if known.get().turns == 0 {
                    known.remove();
                }
            }
        }
    }
}

/// Completes a request that refers to an answer stored here; leaves any other alone.
pub(super) fn resume(store: &ResponseStore, call: &mut Call) {
    let refers = call.face.dialect == Dialect::Responses
        && call.operation == Operation::Answer
        && call.envelope.has_previous;
    if !refers {
        return;
    }
    let Ok(text) = std::str::from_utf8(&call.body) else { return };
    let Some(id) = json::member(text, "previous_response_id").and_then(json::string) else { return };
    let Some(turn) = store.find(&(call.key_id, id), now_ms()) else { return };
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

/// Puts the items into a call that it refers to, where they are of answers stored here.
///
/// # Errors
///
/// A refusal that says what to send: an item is not stored (any more), or they are too much together.
pub(super) fn resolve_references(proxy: &Proxy, call: &mut Call) -> Result<(), Box<Response>> {
    let may_refer = call.face.dialect == Dialect::Responses
        && call.operation != Operation::CountTokens
        && (call.envelope.marks.own || proxy.stored_responses.has_items())
        && memmem::find(&call.body, b"item_reference").is_some();
    let text = std::str::from_utf8(&call.body).unwrap_or_default();
    let Some(body) = may_refer.then(|| Node::parse(text).ok()).flatten() else { return Ok(()) };
    let face = call.face;
    let mut answers: HashMap<String, Option<Arc<StoredTurn>>> = HashMap::new();
    let find = |item_id: &str, answer: Option<&str>| {
        let Some(answer) = answer else {
            return proxy.stored_responses.item(&(call.key_id, item_id.to_owned()), now_ms());
        };
        let turn = answers.entry(answer.to_owned()).or_insert_with(|| {
            proxy.stored_responses.find(&(call.key_id, format!("resp_{answer}")), now_ms())
        });
        // The place in the answer stands at the end of the id.
        let place = item_id.rsplit_once(answer)?.1.parse::<usize>().ok()?;
        turn.as_ref()?.items.get(place).filter(|item| has_id(item, item_id)).cloned()
    };
    let longest = proxy.core.config.request_body_limit;
    let refuse = |message: &str, field: Option<&str>| Box::new(face.refuse(400, message, None, field));
    let whole = match with_items_referred_to(&body, longest, find) {
        Ok(None) => return Ok(()),
        Ok(Some(whole)) => whole,
        Err(ConversionError::Invalid { field, message }) => return Err(refuse(&message, Some(&field))),
        Err(ConversionError::Unsupported { field, .. }) => return Err(refuse(&field, Some(&field))),
    };
    call.envelope =
        envelope::skim(Dialect::Responses, &whole).map_err(|error| refuse(&error.message, error.field))?;
    call.body = whole;
    Ok(())
}

fn has_id(item: &str, id: &str) -> bool {
    json::member(item, "id").and_then(json::string).is_some_and(|own| own == id)
}

/// Stores a response whose upstream does not, under an id of ours, when the client may refer to it.
pub(super) fn remember(store: &Arc<ResponseStore>, call: &Call, answered: Answered) -> Response {
    let Answered { response: mut answer, not_stored } = answered;
    let may_go_on = call.face.dialect == Dialect::Responses && call.operation == Operation::Answer;
    let Some(not_stored) = not_stored.filter(|_| may_go_on) else {
        return answer;
    };
    let text = std::str::from_utf8(&call.body).unwrap_or_default();
    if call.body.len() > MAX_TURN || json::member(text, "store") == Some("false") {
        return answer;
    }
    let id = match not_stored.answer_id {
        Some(own) => format!("resp_{own}"),
        None => {
            let id = format!("resp_{}", uuid::random_hex());
            answer = renamed::with_id(&id, answer);
            id
        }
    };
    let key = (call.key_id, id);
    let recorder = TurnRecorder { store: store.clone(), key, request: call.body.clone() };
    let body = std::mem::replace(answer.body_mut(), ResponseBody::empty());
    *answer.body_mut() = match body {
        ResponseBody::Full(Some(bytes)) => {
            let event = [b"{\"type\":\"response.completed\",\"response\":".as_slice(), &bytes, b"}"].concat();
            let mut output = TurnOutput::default();
            output.read(&String::from_utf8_lossy(&event));
            recorder.record(&output);
            ResponseBody::full(bytes)
        }
        ResponseBody::Full(None) => ResponseBody::empty(),
        stream => {
            let (scanner, output) = (Scanner::new(MAX_TURN), TurnOutput::default());
            ResponseBody::stream(RecordedStream { stream, scanner, output, read: 0, recorder })
        }
    };
    answer
}

struct TurnRecorder {
    store: Arc<ResponseStore>,
    key: Key,
    request: Bytes,
}

impl TurnRecorder {
    /// Stores a completed answer.
    fn record(&self, output: &TurnOutput) {
        let items = output.items().into_iter().map(str::to_owned).collect();
        self.store.insert(self.key.clone(), StoredTurn::new(self.request.clone(), items));
    }
}

/// A stream on its way to the client; the turn is stored when its last event passes.
struct RecordedStream {
    stream: ResponseBody,
    scanner: Scanner,
    output: TurnOutput,
    /// Bytes of the events that `output` was read from.
    read: usize,
    recorder: TurnRecorder,
}

impl RecordedStream {
    fn observe(&mut self, bytes: &[u8]) {
        let Self { scanner, output, read, recorder, .. } = self;
        scanner.feed(bytes, |event| {
            if !TurnOutput::concerns(event.data) || event.cut {
                return;
            }
            *read = read.saturating_add(event.data.len());
            // The last event repeats the rest.
            if *read <= 2 * MAX_TURN {
                output.read(&String::from_utf8_lossy(event.data));
                if output.is_complete() {
                    recorder.record(output);
                }
            }
        });
    }
}

impl Body for RecordedStream {
    type Data = Bytes;
    type Error = Truncated;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Truncated>>> {
        let this = self.get_mut();
        let frame = ready!(Pin::new(&mut this.stream).poll_frame(context));
        if let Some(Ok(frame)) = &frame
            && let Some(bytes) = frame.data_ref()
        {
            this.observe(bytes);
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

    fn turn(length: usize, stored_at: Millis) -> StoredTurn {
        StoredTurn { stored_at, ..StoredTurn::new(Bytes::from(vec![b' '; length]), Vec::new()) }
    }

    #[test]
    fn an_item_is_found_by_its_upstreams_id_as_long_as_that_means_one() {
        let item = |id: &str, said: &str| format!(r#"{{"id":"{id}","said":"{said}"}}"#);
        let said = |items: Vec<String>| StoredTurn::new(Bytes::new(), items);
        let store = ResponseStore::default();
        let found = |owner: Option<i64>, id: &str| store.item(&(owner, id.to_owned()), now_ms());
        assert!(!store.has_items());
        store.insert((None, "r1".to_owned()), said(vec![item("rs_1", "a"), item("msg_1", "b")]));
        store.insert(
            (None, "r2".to_owned()),
            said(vec![item("msg_1", "b"), item("msg_2", "c"), item("msg_2", "d")]),
        );
        assert_eq!(found(None, "rs_1"), Some(item("rs_1", "a")));
        assert_eq!(found(None, "msg_1"), Some(item("msg_1", "b")), "the same in both");
        assert_eq!(found(None, "msg_2"), None, "two of one id");
        assert_eq!(found(Some(1), "rs_1"), None);
        // What replaces a turn takes its items with it.
        store.insert((None, "r1".to_owned()), said(vec![item("msg_1", "other")]));
        assert_eq!((found(None, "rs_1"), found(None, "msg_1")), (None, None));
        for id in ["r1", "r2"] {
            store.insert((None, id.to_owned()), said(Vec::new()));
        }
        assert!(!store.has_items());
    }

    #[test]
    fn memory_is_bounded_and_the_oldest_go_first() {
        let store = ResponseStore::default();
        for number in 0..40 {
            store.insert((None, format!("{number:02}")), turn((2 << 20) - ENTRY_OVERHEAD - 4, 0));
        }
        let found = |number: i32| store.find(&(None, format!("{number:02}")), 1).is_some();
        assert!(!found(7) && found(8) && found(39));
        assert_eq!(store.entries().bytes, MAX_BYTES);
        store.insert((None, "39".to_owned()), turn(1, 0));
        assert_eq!(store.entries().bytes, 62 * (1 << 20) + 1 + ENTRY_OVERHEAD + 4);
        assert_eq!(store.entries().order.len(), 32);
        store.insert((None, "large".to_owned()), turn(MAX_TURN + 1, 0));
        assert!(store.find(&(None, "large".to_owned()), 1).is_none());
    }

    #[test]
    fn ids_and_what_each_entry_takes_count_as_well() {
        let store = ResponseStore::default();
        for number in 0..200 {
            store.insert((None, format!("{number}{}", "x".repeat(1 << 20))), turn(1, 0));
        }
        assert_eq!(store.entries().order.len(), 31);
        store.clear();
        for number in 0..MAX_BYTES / ENTRY_OVERHEAD {
            store.insert((None, number.to_string()), turn(1, 0));
        }
        assert!(store.entries().bytes <= MAX_BYTES);
        assert!(store.entries().order.len() < MAX_BYTES / ENTRY_OVERHEAD);
    }

    #[test]
    fn a_turn_is_its_owners_and_ends_in_time() {
        let store = ResponseStore::default();
        store.insert((Some(1), "r".to_owned()), turn(1, 1_000));
        assert!(store.find(&(Some(1), "r".to_owned()), RETENTION_MS).is_some());
        assert!(store.find(&(Some(1), "r".to_owned()), RETENTION_MS + 1_000).is_none());
        assert!(store.find(&(None, "r".to_owned()), 2_000).is_none());
        assert!(store.find(&(Some(2), "r".to_owned()), 2_000).is_none());
    }
}
