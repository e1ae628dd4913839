//! One WebSocket connection, from its upgrade to its close.
//!
//! Two halves run side by side in one task. [`read_frames`] reads all the time, so that a ping is answered, and a cancel
//! and a close are noticed at once, whatever the other half waits for. [`TurnRunner`] takes one frame after the other and
//! serves its turn. When either half ends, the socket ends; a turn under way is dropped, and with it its upstream
//! connection, its slots and its attempt.
//!
//! The memory that a client can occupy is bounded: [`MAX_WAITING`] waiting frames, with no more bytes than one longest
//! frame, one conversation of the length of a request ([`History`]), and one event. All but the event is counted in the
//! memory that all bodies share; between two turns the conversation is lent ([`Loan`]), and forgotten when the memory is
//! needed. A client that reads slowly slows its upstream down.

use std::borrow::Cow;
use std::future::pending;
use std::mem;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http_body::Body;
use tokio::select;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at, sleep, timeout};

use crate::background;
use crate::dialect::Dialect;
use crate::dialect::responses::{cancelled_turn, warm_up};
use crate::dialect::tree::Node;
use crate::http::ResponseBody;
use crate::http::timer::ReusableTimer;
use crate::http::websocket::{
    self, ClientGone, CloseReason, Received, Receiver, Sender, Stopping, WebSocket,
};
use crate::ids::KeyId;
use crate::limits::{BodyOwner, FREE_BODY, HeldMemory, Loan, OutOfBodyMemory};
use crate::metrics::Surface;
use crate::proxy::Proxy;
use crate::request_id::RequestId;
use crate::time::{monotonic_ms, now_ms, now_secs};
use crate::uuid;

use super::super::admit;
use super::super::call::{Call, Head};
use super::super::operation::{CallKind, Operation};
use super::super::pipeline;
use super::super::reply::ErrorShape;
use super::super::socket_opener::SocketOpener;
use super::events::Events;
use super::frame;
use super::history::{Elsewhere, History};
use super::refusal::{self, FrameRefusal};
use crate::proxy::responses::id_owners::IdOwner;
use crate::proxy::responses::name::ResponseName;
use crate::proxy::responses::previous;

/// How often a socket is pinged, so that a lost client is noticed and no intermediary drops the socket.
const HEARTBEAT: Duration = Duration::from_secs(30);
/// How long a client may answer no ping before it counts as gone. Some clients answer only while they read, and do
/// not while a tool of theirs is at work.
const SILENCE: Duration = Duration::from_secs(600);
/// How long a socket may stay open. A turn under way at that time is still sent completely.
const LIFETIME: Duration = Duration::from_secs(3600);
/// The maximum number of frames that wait for the turn under way.
const MAX_WAITING: usize = 16;
/// How long sending the final error may take.
const FINAL_ERROR_TIMEOUT: Duration = Duration::from_secs(2);

/// A frame with its share of the memory for bodies.
type HeldFrame = (Bytes, HeldMemory);

/// The frames that have been read and whose turns have not begun.
struct Inbox {
    frames: mpsc::Sender<HeldFrame>,
    /// The bytes of the waiting frames, and their maximum.
    bytes: AtomicUsize,
    max_bytes: usize,
    /// The number of frames accepted, each of which is a turn, and the number of these turns that are over.
    turns: AtomicU64,
    turns_over: AtomicU64,
    /// The number of the turn cancelled last: the one under way, or the first that waits.
    cancelled: watch::Sender<u64>,
}

/// The half that serves the turns and writes to the socket.
struct TurnRunner<'a> {
    proxy: &'a Arc<Proxy>,
    opener: &'a SocketOpener,
    sender: &'a mut Sender,
    inbox: &'a Inbox,
    frames: mpsc::Receiver<HeldFrame>,
    cancelled: watch::Receiver<u64>,
    /// The number of the turn under way.
    turn: u64,
    heartbeat: Interval,
    history: History,
    /// The share of the memory for bodies that the turn under way and the history take.
    memory: HeldMemory,
}

/// Serves one socket to its end.
pub(super) async fn serve(proxy: Arc<Proxy>, opener: SocketOpener, socket: WebSocket) {
    let _open = proxy.core.metrics.sockets.enter();
    if let Err(panic) = background::catch_panic(serve_socket(&proxy, &opener, socket)).await {
        log::error!("the WebSocket {} panicked: {panic}", opener.session);
    }
}

async fn serve_socket(proxy: &Arc<Proxy>, opener: &SocketOpener, socket: WebSocket) {
    let (mut sender, mut receiver, mut stopping) = socket.split();
    let (inbox, frames, cancelled) = Inbox::new(proxy.core.config.request_body_limit);
    let mut heartbeat = interval_at(Instant::now() + HEARTBEAT, HEARTBEAT);
    heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let history = History::new(proxy.core.config.request_body_limit);
    let (inbox, sender_of_turns) = (&inbox, &mut sender);
    let owner = opener.caller(&proxy.core).map_or(BodyOwner::ProxyToken, |caller| caller.body_owner());
    let memory = || proxy.core.body_memory.body(owner);
    let mut runner = TurnRunner {
        proxy,
        opener,
        sender: sender_of_turns,
        inbox,
        frames,
        cancelled,
        turn: 0,
        heartbeat,
        history,
        memory: memory(),
    };
    let reason = select! {
        reason = read_frames(&mut receiver, inbox, memory) => reason,
        reason = runner.run(&mut stopping) => reason,
    };
    drop(runner);
    if let Some(word) = final_error(reason) {
        let _ = timeout(FINAL_ERROR_TIMEOUT, sender.texts([word])).await;
    }
    websocket::close(sender, receiver, reason).await;
}

/// Reads frames until the client sends nothing more that would be served.
async fn read_frames(
    receiver: &mut Receiver,
    inbox: &Inbox,
    no_memory: impl Fn() -> HeldMemory,
) -> CloseReason {
    let mut memory = no_memory();
    loop {
        match timeout(SILENCE, receiver.next(&mut memory)).await {
            Ok(Ok(Received::Text(frame))) => {
                memory.shrink_to(frame.len());
                // A short frame takes none of the memory for bodies, but many that wait do.
                if inbox.waiting_bytes() + frame.len() > FREE_BODY
                    && memory.grow_at_once(frame.len()).is_err()
                {
                    return CloseReason::NoRoom;
                }
                if !inbox.put((frame, mem::replace(&mut memory, no_memory()))) {
                    return CloseReason::Policy(
                        "too many frames are waiting for the current response to end",
                    );
                }
            }
            Ok(Ok(Received::Alive)) => {}
            Ok(Ok(Received::Binary(_))) => return CloseReason::NoBinary,
            Ok(Err(reason)) => return reason,
            Err(_) => return CloseReason::Theirs,
        }
    }
}

/// Builds the error frame before a close, where a close code says too little.
fn final_error(reason: CloseReason) -> Option<String> {
    match reason {
        CloseReason::NoBinary => Some(FrameRefusal::new(400, "Frames must be text, not binary").frame()),
        CloseReason::TooBig => Some(FrameRefusal::new(413, "The frame is too big").frame()),
        CloseReason::NoRoom => Some(no_room()),
        CloseReason::Done => {
            let minutes = LIFETIME.as_secs() / 60;
            let message = format!(
                "Responses websocket connection limit reached ({minutes} minutes). Create a new websocket connection to continue."
            );
            Some(FrameRefusal::new(400, message).code("websocket_connection_limit_reached").frame())
        }
        _ => None,
    }
}

/// Builds the error frame for lack of memory.
fn no_room() -> String {
    let shape = ErrorShape::new(Dialect::Responses, RequestId::next());
    refusal::of_response(shape.body_error(&OutOfBodyMemory.into()))
}

// === impl Inbox ===

impl Inbox {
    fn new(max_bytes: usize) -> (Self, mpsc::Receiver<HeldFrame>, watch::Receiver<u64>) {
        let (frames, waiting) = mpsc::channel(MAX_WAITING);
        let (cancels, cancelled) = watch::channel(0);
        let inbox = Self {
            frames,
            bytes: AtomicUsize::new(0),
            max_bytes,
            turns: AtomicU64::new(0),
            turns_over: AtomicU64::new(0),
            cancelled: cancels,
        };
        (inbox, waiting, cancelled)
    }

    /// Accepts a frame, or applies it if it is a cancel; returns false when too much is waiting.
    fn put(&self, (frame, memory): HeldFrame) -> bool {
        let first_not_over = self.turns_over.load(Ordering::Relaxed) + 1;
        if first_not_over <= self.turns.load(Ordering::Relaxed) && frame::cancels(&frame) {
            self.cancelled.send_replace(first_not_over);
            return true;
        }
        let length = frame.len();
        if self.waiting_bytes().saturating_add(length) > self.max_bytes {
            return false;
        }
        self.bytes.fetch_add(length, Ordering::Relaxed);
        self.turns.fetch_add(1, Ordering::Relaxed);
        self.frames.try_send((frame, memory)).is_ok()
    }

    /// Returns the bytes of the frames that wait.
    fn waiting_bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    fn taken(&self, frame: &Bytes) {
        self.bytes.fetch_sub(frame.len(), Ordering::Relaxed);
    }
}

// === impl TurnRunner ===

impl TurnRunner<'_> {
    /// Serves one turn after the other, until the socket's time is over.
    async fn run(&mut self, stopping: &mut Stopping) -> CloseReason {
        let mut over = pin!(sleep(LIFETIME));
        let mut loan = None;
        loop {
            if self.memory.bytes() > 0 && loan.is_none() {
                loan = Some(self.memory.lend());
            }
            let frame = select! {
                biased;
                () = stopping.requested() => return CloseReason::GoingAway,
                () = over.as_mut() => return CloseReason::Done,
                frame = self.frames.recv() => frame,
                () = asked_for(&mut loan) => {
                    loan = None;
                    self.history.forget();
                    self.memory.shrink_to(0);
                    continue;
                }
                _ = self.heartbeat.tick() => {
                    if self.sender.ping().await.is_err() {
                        return CloseReason::Theirs;
                    }
                    continue;
                }
            };
            let Some((frame, memory)) = frame else { return CloseReason::Theirs };
            loan = None;
            self.inbox.taken(&frame);
            self.memory.take_over(memory);
            self.turn += 1;
            let served = select! {
                biased;
                () = stopping.grace_over() => return self.cut_off().await,
                served = self.turn(frame) => served,
            };
            self.end_turn();
            if self.memory.grow_at_once(self.history.counted()).is_err() {
                self.history.forget();
            }
            self.memory.shrink_to(self.history.length());
            if served.is_err() {
                return CloseReason::Theirs;
            }
        }
    }

    async fn turn(&mut self, frame: Bytes) -> Result<(), ClientGone> {
        self.proxy.core.metrics.received_bytes.add(frame.len() as u64);
        // The maximum length of the request, including the earlier turns.
        let length = frame.len() + self.history.length();
        // The earlier turns are kept beside the request, and the frame until it is read.
        let needed = if length > FREE_BODY { 2 * length } else { 0 };
        // Boxed, so that an idle socket does not keep its size.
        if Box::pin(self.memory.grow_to(needed)).await.is_err() {
            return self.sender.texts([no_room()]).await;
        }
        let proxy = self.proxy;
        let begun = proxy.conversions.read_through(length, || self.begin(&frame)).await;
        drop(frame);
        let length = begun.as_ref().map_or(length, |(call, _)| call.body.len().max(length));
        self.memory.shrink_to(length + self.history.length());
        let turn = match begun {
            Ok((call, is_warm_up)) => {
                let whole = Box::pin(previous::resolve_references(proxy, call)).await;
                whole.map(|call| (call, is_warm_up)).map_err(|refused| refusal::of_response(*refused))
            }
            Err(refusal) => Err(refusal),
        };
        match turn {
            Ok((call, true)) => match admit::forbidden(proxy, &call).await {
                Some(refusal) => self.sender.texts([refusal::of_response(refusal)]).await,
                None => {
                    let events = self.warm_up(&call);
                    self.sender.texts(events).await
                }
            },
            Ok((call, false)) => self.call(call).await,
            Err(refusal) => self.sender.texts([refusal]).await,
        }
    }

    /// Tells the client that its turn ends here, unless it has the whole answer.
    async fn cut_off(&mut self) -> CloseReason {
        if self.inbox.turns_over.load(Ordering::Relaxed) < self.turn {
            let _ = timeout(FINAL_ERROR_TIMEOUT, self.sender.texts([refusal::stream_closed()])).await;
        }
        CloseReason::GoingAway
    }

    /// Marks the turn under way as over: it cannot be cancelled any more.
    fn end_turn(&self) {
        self.inbox.turns_over.store(self.turn, Ordering::Relaxed);
    }

    /// Returns the call that a frame makes, and whether it only warms up; or the error frame that refuses it. A frame
    /// over the rate limit is not even read.
    fn begin(&mut self, frame: &Bytes) -> Result<(Box<Call>, bool), String> {
        let (proxy, opener) = (self.proxy, self.opener);
        proxy.core.rates.admit_frame(&opener.rates, monotonic_ms()).map_err(refusal::too_many)?;
        let shape = ErrorShape::new(Dialect::Responses, RequestId::next());
        let caller = opener
            .caller(&proxy.core)
            .map_err(|refused| refusal::of_response(shape.reject_caller(&refused)))?;
        let frame = frame::read(std::str::from_utf8(frame).unwrap_or_default());
        let frame = frame.map_err(|refusal| refusal.frame())?;
        let mut has_room = true;
        let elsewhere = |id: &str| {
            let found = stored_elsewhere(proxy, caller.key_id(), id)?;
            let needed = found.length();
            // Counted twice: in the request that is built, and in the one that is routed.
            has_room =
                needed <= FREE_BODY || self.memory.grow_at_once(self.memory.bytes() + 2 * needed).is_ok();
            Some(found).filter(|_| has_room)
        };
        let request = self.history.request(&frame, elsewhere);
        if !has_room {
            return Err(no_room());
        }
        let request = request.map_err(|refusal| refusal.frame())?;
        let head = Head {
            kind: CallKind::of_body(Dialect::Responses, Operation::Answer),
            id: shape.id,
            caller,
            path: Dialect::Responses.path(),
            headers: opener.headers.clone(),
            query: opener.query.raw(),
            timer: ReusableTimer::default(),
            session: Some(&opener.session),
            // The socket holds it, because it keeps the request for the next turn.
            memory: None,
        };
        let mut call = Call::read(proxy, head, request)
            .map_err(|(_, error)| FrameRefusal::invalid(error.field, error.message).frame())?;
        // A frame is in this dialect, whatever the upgrade's headers say about errors over HTTP.
        call.shape = shape;
        call.previous = frame.previous.map(Cow::into_owned).filter(|_| !call.envelope.has_previous);
        Ok((call, frame.is_warm_up))
    }

    /// Answers a request that is only kept for the next turn.
    fn warm_up(&mut self, call: &Call) -> Vec<String> {
        let id = format!("resp_prewarm_{}", uuid::v4());
        let events = with_node(&call.body, |request| warm_up(request, &id, now_secs()));
        self.history.keep_as(call.body.clone(), Vec::new(), id);
        events.map_or_else(Vec::new, Vec::from)
    }

    /// Routes a turn's request and sends the answer as it comes.
    async fn call(&mut self, call: Box<Call>) -> Result<(), ClientGone> {
        let request = call.body.clone();
        let mut events = Events::default();
        // Boxed, so that an idle socket does not keep its size.
        let answering = Box::pin(pipeline::answer(self.proxy, call));
        let Some(response) = self.attend(answering).await? else {
            return self.cancelled(request, &events).await;
        };
        self.proxy.core.metrics.answered(Surface::Responses, response.status().as_u16());
        if !response.status().is_success() {
            return self.sender.texts([refusal::of_response(response)]).await;
        }
        let mut body = response.into_body();
        while !events.is_over() {
            match self.attend(next_data(&mut body)).await? {
                Some(Some(data)) => self.sender.texts(events.read(&data)).await?,
                Some(None) => self.sender.texts(events.finish()).await?,
                None => {
                    drop(body);
                    return self.cancelled(request, &events).await;
                }
            }
        }
        self.history.keep(request, events.output());
        self.end_turn();
        // The client has everything; reading to the end of the stream settles the attempt.
        while self.attend(next_data(&mut body)).await?.flatten().is_some() {}
        Ok(())
    }

    /// Ends the turn that the client cancelled, and keeps the output so far.
    async fn cancelled(&mut self, request: Bytes, events: &Events) -> Result<(), ClientGone> {
        let output = events.output();
        let id = output.response_id().map_or_else(|| format!("resp_{}", uuid::v4()), str::to_owned);
        let items = output.items();
        let end = with_node(&request, |node| cancelled_turn(node, &id, &items, events.count(), now_secs()));
        let items = items.into_iter().map(str::to_owned).collect();
        self.history.keep_as(request, items, id);
        self.sender.texts(end).await
    }

    /// Waits for a part of the turn while pinging the socket. Returns `None` when the client cancels.
    async fn attend<T>(&mut self, what: impl Future<Output = T>) -> Result<Option<T>, ClientGone> {
        let mut what = pin!(what);
        loop {
            select! {
                biased;
                () = cancel(&mut self.cancelled, self.turn) => return Ok(None),
                value = what.as_mut() => return Ok(Some(value)),
                _ = self.heartbeat.tick() => self.sender.ping().await?,
            }
        }
    }
}

/// Finds an answer given to this key that is not the last one of this socket.
fn stored_elsewhere(proxy: &Proxy, key_id: Option<KeyId>, id: &str) -> Option<Elsewhere> {
    if let Some(turn) = proxy.stored_responses.find(&ResponseName::new(key_id, id), now_ms()) {
        let output = turn.items.iter().map(|item| item.to_string()).collect();
        return Some(Elsewhere::Stored { request: turn.request.clone(), output });
    }
    (proxy.response_owners.holder(id) == Some(IdOwner::Key(key_id))).then_some(Elsewhere::Upstream)
}

/// Waits until the client cancels this turn.
async fn cancel(cancelled: &mut watch::Receiver<u64>, turn: u64) {
    // The sender outlives the turns.
    let _ = cancelled.wait_for(|number| *number == turn).await;
}

/// Waits until the lent memory is asked for.
async fn asked_for(loan: &mut Option<Loan>) {
    match loan {
        Some(loan) => loan.asked_for().await,
        None => pending().await,
    }
}

/// Returns the next bytes of an answer; `None` when it has ended, with or without an error.
async fn next_data(body: &mut ResponseBody) -> Option<Bytes> {
    loop {
        let frame = std::future::poll_fn(|context| Pin::new(&mut *body).poll_frame(context)).await;
        match frame?.ok()?.into_data() {
            Ok(data) => return Some(data),
            Err(_trailers) => {}
        }
    }
}

/// Parses a request that could be parsed before, and reads it.
fn with_node<T>(request: &Bytes, read: impl FnOnce(&Node<'_>) -> T) -> Option<T> {
    let node = Node::parse(std::str::from_utf8(request).ok()?).ok()?;
    Some(read(&node))
}

#[cfg(test)]
mod tests;
