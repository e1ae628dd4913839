//! Answers of the responses dialect that no upstream stores, kept for `previous_response_id`.
//!
//! An upstream of another dialect does not know `previous_response_id`, and codex and sub2api are asked to
//! store nothing. The answers of such upstreams are stored here for a while: the request and the items of the answer. The
//! next request that refers to one is merged into a complete request, as on a WebSocket, and can be served by any channel.
//! Every other upstream of the dialect stores its own answers, and nothing is stored here.
//!
//! A request may also refer to single items of such an answer (`item_reference`): our item ids contain the answer's id,
//! those of codex and sub2api are looked up in an index.
//!
//! Each answer gets an id of ours, 128 random bits: if an upstream gave one id twice, one client's next turn could get
//! the history of another.
//!
//! The turns are kept in `turns`. A reference to an answer that is gone gets the 400 that clients recover from.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use memchr::memmem;

use crate::dialect::canonical::ConversionError;
use crate::dialect::responses::{ItemReferredTo, TurnOutput, items_referred_to, merge_turn, with_items};
use crate::dialect::sse::{self, Scanner};
use crate::dialect::stream_event::StreamEvent;
use crate::dialect::tree::Node;
use crate::dialect::{Dialect, edit::edit, envelope, json};
use crate::http::body::Truncated;
use crate::http::{Response, ResponseBody};
use crate::limits::{FREE_BODY, HeldMemory};
use crate::proxy::Proxy;
use crate::time::now_ms;
use crate::uuid;

use super::name::ResponseName;
use super::turns::{MAX_TURN, ResponseStore, StoredTurn};
use crate::proxy::call::Call;
use crate::proxy::client_answer::ClientAnswer;
use crate::proxy::operation::Operation;
use crate::proxy::relay::renamed;

/// Completes a call that refers to an answer stored here, or to items of one. The inserted history counts like the body:
/// it first needs room in the memory for bodies, and is inserted where long bodies are read.
///
/// # Errors
///
/// Returns a refusal that says what to send: an item is not, or no longer, stored, or the items are too long together; or
/// a refusal for lack of memory.
pub(in crate::proxy) async fn complete(
    proxy: &Proxy,
    mut call: Box<Call>,
) -> Result<Box<Call>, Box<Response>> {
    let find = || previous(&proxy.stored_responses, &call);
    if let Some((id, turn)) = proxy.conversions.read_through(call.body.len(), find).await {
        let length = call.body.len() + turn.length();
        has_room(proxy, &mut call, length).await?;
        proxy.conversions.read_through(length, || resume(&mut call, id, &turn)).await;
    }
    resolve_references(proxy, call).await
}

/// Reserves memory for a body that has become this long.
async fn has_room(proxy: &Proxy, call: &mut Call, length: usize) -> Result<(), Box<Response>> {
    if length <= FREE_BODY {
        return Ok(());
    }
    let owner = call.caller.body_owner();
    let memory = call.memory.get_or_insert_with(|| proxy.core.body_memory.body(owner));
    let shape = call.shape;
    Box::pin(memory.grow_to(length)).await.map_err(|no_room| Box::new(shape.body_error(&no_room.into())))
}

/// Finds the answer stored here that a request goes on from.
fn previous(store: &ResponseStore, call: &Call) -> Option<(String, Arc<StoredTurn>)> {
    let refers = call.shape.dialect == Dialect::Responses
        && matches!(call.operation, Operation::Answer | Operation::CountTokens)
        && call.envelope.has_previous;
    let text = refers.then(|| std::str::from_utf8(&call.body).ok()).flatten()?;
    let id = json::member(text, "previous_response_id").and_then(json::string)?;
    let turn = store.find(&ResponseName::new(call.key_id, id.as_str()), now_ms())?;
    Some((id, turn))
}

fn resume(call: &mut Call, id: String, turn: &StoredTurn) {
    let Ok(text) = std::str::from_utf8(&call.body) else { return };
    let request = std::str::from_utf8(&turn.request).ok().and_then(|text| Node::parse(text).ok());
    let (Some(request), Ok(new)) = (request, Node::parse(text)) else { return };
    let items: Vec<&str> = turn.items.iter().map(|item| &**item).collect();
    let whole = merge_turn(&request, &items, &new);
    let stream = if call.envelope.stream { "true" } else { "false" };
    let whole = String::from_utf8_lossy(&whole);
    let whole = Bytes::from(edit(&whole, &[("stream", stream)], &[]).into_owned());
    if let Ok(envelope) = envelope::skim(Dialect::Responses, &whole) {
        call.envelope = envelope;
        call.body = whole;
        call.previous = Some(id);
    }
}

/// Inserts the items that a call refers to, where they belong to answers stored here.
///
/// # Errors
///
/// Fails like [`complete`].
pub(in crate::proxy) async fn resolve_references(
    proxy: &Proxy,
    mut call: Box<Call>,
) -> Result<Box<Call>, Box<Response>> {
    let may_refer = call.shape.dialect == Dialect::Responses
        && !matches!(call.operation, Operation::CountTokens | Operation::AlphaSearch)
        && (call.envelope.marks.own
            || proxy.stored_responses.has_items() && memmem::find(&call.body, b"item_reference").is_some());
    if !may_refer {
        return Ok(call);
    }
    let found = proxy.conversions.read_through(call.body.len(), || referred_to(proxy, &call)).await?;
    if found.is_empty() {
        return Ok(call);
    }
    let length = call.body.len() + found.iter().map(|(_, item)| item.len()).sum::<usize>();
    has_room(proxy, &mut call, length).await?;
    let put_in = || {
        let text = std::str::from_utf8(&call.body).unwrap_or_default();
        let whole = Node::parse(text).ok().and_then(|body| with_items(&body, &found))?;
        Some(envelope::skim(Dialect::Responses, &whole).map(|envelope| (envelope, whole)))
    };
    match proxy.conversions.read_through(length, put_in).await {
        None => {}
        Some(Ok((envelope, whole))) => (call.envelope, call.body) = (envelope, whole),
        Some(Err(error)) => return Err(Box::new(call.shape.refuse(400, &error.message, None, error.field))),
    }
    Ok(call)
}

/// Returns the items that a call refers to, from answers stored here.
fn referred_to(proxy: &Proxy, call: &Call) -> Result<Vec<ItemReferredTo>, Box<Response>> {
    let text = std::str::from_utf8(&call.body).unwrap_or_default();
    let Ok(body) = Node::parse(text) else { return Ok(Vec::new()) };
    let mut answers: HashMap<String, Option<Arc<StoredTurn>>> = HashMap::new();
    let find = |item_id: &str, answer: Option<&str>| {
        let Some(answer) = answer else {
            return proxy.stored_responses.item(&ResponseName::new(call.key_id, item_id), now_ms());
        };
        let turn = answers.entry(answer.to_owned()).or_insert_with(|| {
            proxy.stored_responses.find(&ResponseName::new(call.key_id, format!("resp_{answer}")), now_ms())
        });
        // The item's place in the answer is at the end of the id.
        let place = item_id.rsplit_once(answer)?.1.parse::<usize>().ok()?;
        turn.as_ref()?.items.get(place).filter(|item| has_id(item, item_id)).cloned()
    };
    let found = items_referred_to(&body, proxy.core.config.request_body_limit, find);
    found.map_err(|error| {
        let (message, field) = match error {
            ConversionError::Invalid { field, message } => (message, field),
            ConversionError::Unsupported { field, .. } => (field.clone(), field),
        };
        Box::new(call.shape.refuse(400, &message, None, Some(&field)))
    })
}

fn has_id(item: &str, id: &str) -> bool {
    json::member(item, "id").and_then(json::string).is_some_and(|own| own == id)
}

/// Stores a response that its upstream does not store, under an id of ours, when the client may refer to it.
pub(in crate::proxy) fn remember(proxy: &Proxy, call: &Call, answered: ClientAnswer) -> Response {
    let ClientAnswer { response: mut answer, not_stored } = answered;
    let may_go_on = call.shape.dialect == Dialect::Responses && call.operation == Operation::Answer;
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
    let name = ResponseName::new(call.key_id, id);
    let recorder = TurnRecorder { store: proxy.stored_responses.clone(), name, request: call.body.clone() };
    let body = std::mem::replace(answer.body_mut(), ResponseBody::empty());
    *answer.body_mut() = match body {
        ResponseBody::Full(Some(bytes)) => {
            let mut output = TurnOutput::default();
            if let Ok(response) = Node::parse(&String::from_utf8_lossy(&bytes)) {
                output.read_response(&response);
            }
            recorder.record(&output);
            ResponseBody::full(bytes)
        }
        ResponseBody::Full(None) => ResponseBody::empty(),
        stream => {
            let (scanner, output) = (Scanner::new(MAX_TURN), TurnOutput::default());
            let memory = proxy.core.body_memory.body(call.caller.body_owner());
            ResponseBody::stream(RecordedStream { stream, scanner, output, read: 0, memory, recorder })
        }
    };
    answer
}

struct TurnRecorder {
    store: Arc<ResponseStore>,
    name: ResponseName,
    request: Bytes,
}

impl TurnRecorder {
    /// Stores a completed answer.
    fn record(&self, output: &TurnOutput) {
        let items = output.items().into_iter().map(Arc::from).collect();
        let rest = output.rest().unwrap_or("{}").to_owned();
        // A short request is a part of what was read from its connection, which would stay in memory with it.
        let request = Bytes::copy_from_slice(&self.request);
        self.store.insert(self.name.clone(), StoredTurn::new(request, items, rest));
    }
}

/// A stream on its way to the client; the turn is stored when its last event passes.
struct RecordedStream {
    stream: ResponseBody,
    scanner: Scanner,
    output: TurnOutput,
    /// The length of the events that `output` was read from, in bytes; `usize::MAX` when memory was not enough.
    read: usize,
    /// The share of the memory for bodies that the request and the answer take.
    memory: HeldMemory,
    recorder: TurnRecorder,
}

impl RecordedStream {
    fn observe(&mut self, bytes: &[u8]) {
        let Self { scanner, output, read, memory, recorder, .. } = self;
        scanner.feed(bytes, |event| {
            if !TurnOutput::concerns(event.data) || event.cut || *read == usize::MAX {
                return;
            }
            *read = read.saturating_add(event.data.len());
            let held = recorder.request.len().saturating_add(*read);
            if held > FREE_BODY && memory.grow_at_once(held).is_err() {
                // The client still gets its answer, and must send everything again to go on from it.
                (*read, *output) = (usize::MAX, TurnOutput::default());
                memory.shrink_to(0);
            }
            // The last event repeats the rest.
            if *read <= 2 * MAX_TURN {
                output.read(&StreamEvent::of(&event, &sse::text(event.data)));
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
