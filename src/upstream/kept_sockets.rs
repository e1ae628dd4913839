//! Keeps the WebSockets to upstreams that wait for the next turn of their conversation.
//!
//! There is one for each conversation with an account: a turn that finds none opens one, and so does a turn that comes
//! while another is under way. A socket is dropped when it has waited for [`KEPT_FOR`], when it is as old as upstreams
//! let one become, when its upstream has said goodbye, which a sweep or the next turn finds, and when [`MAX_WAITING`] others
//! wait.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures_util::Stream as _;
use hyper::header::HeaderValue;
use tokio::runtime::Handle;
use tokio::task::AbortHandle;
use tokio::time::Instant;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;

use super::stream::Stream;
use crate::ids::AccountId;
use crate::make_room::make_room;
use crate::routing::Origin;
use crate::sync::lock;
use crate::websocket::{Fragmented, PongFirst};

/// The longest wait of a socket: longer pauses are the end of most conversations.
const KEPT_FOR: Duration = Duration::from_secs(5 * 60);
/// The greatest age of a socket: OpenAI closes one an hour after it was opened, whatever happens on it.
const OLDEST: Duration = Duration::from_secs(55 * 60);
const SWEEP_EVERY: Duration = Duration::from_secs(15);
/// The most sockets that wait: each holds a connection and its buffers.
const MAX_WAITING: usize = 512;

pub(crate) type Socket = WebSocketStream<PongFirst<Fragmented<Stream>>>;

/// The conversation whose turns share one socket.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SocketKey {
    pub origin: Arc<Origin>,
    pub account: AccountId,
    /// The name of the conversation, which no one else's conversation has.
    pub conversation: String,
    /// The credential of the upgrade: a renewed token opens another socket.
    pub authorization: Option<HeaderValue>,
}

/// An open socket on which no turn is under way.
struct Kept {
    socket: Box<Socket>,
    opened: Instant,
    since: Instant,
}

/// The sockets that wait for the next turn.
#[derive(Default)]
pub(crate) struct KeptSockets {
    waiting: Mutex<HashMap<SocketKey, Kept>>,
    sweeper: OnceLock<AbortHandle>,
}

/// The place where a socket is kept when its turn is over.
pub(crate) struct SocketHome {
    pub(crate) sockets: Arc<KeptSockets>,
    pub(crate) key: SocketKey,
    pub(crate) opened: Instant,
}

// === impl Kept ===

impl Kept {
    /// Whether the next turn may use the socket. Answers pings, and notices goodbyes.
    fn is_open(&mut self, now: Instant) -> bool {
        if now.duration_since(self.since) >= KEPT_FOR || now.duration_since(self.opened) >= OLDEST {
            return false;
        }
        let mut cx = Context::from_waker(Waker::noop());
        loop {
            match Pin::new(&mut *self.socket).poll_next(&mut cx) {
                Poll::Pending => return true,
                Poll::Ready(Some(Ok(Message::Ping(_)))) => self.socket.get_ref().pongs().ping_received(),
                Poll::Ready(Some(Ok(Message::Pong(_) | Message::Frame(_)))) => {}
                // A message that nobody has asked for, or the end of the connection.
                Poll::Ready(_) => return false,
            }
        }
    }
}

// === impl KeptSockets ===

impl KeptSockets {
    /// Takes out the socket of a conversation, with the time when it was opened.
    pub(crate) fn checkout(&self, key: &SocketKey, now: Instant) -> Option<(Box<Socket>, Instant)> {
        let mut kept = lock(&self.waiting).remove(key)?;
        // Data that the kernel has and the runtime has not seen yet is most likely a goodbye.
        let is_open = kept.is_open(now) && !kept.socket.get_ref().transport().transport().has_news();
        is_open.then_some((kept.socket, kept.opened))
    }

    fn keep(self: &Arc<Self>, key: SocketKey, socket: Box<Socket>, opened: Instant) {
        let kept = Kept { socket, opened, since: Instant::now() };
        let mut waiting = lock(&self.waiting);
        let left = make_room(&mut waiting, &key, MAX_WAITING, |kept| kept.since);
        let replaced = waiting.insert(key, kept);
        drop(waiting);
        drop((left, replaced)); // closes the connections, after the lock
        if self.sweeper.get().is_none()
            && let Ok(runtime) = Handle::try_current()
        {
            self.sweeper.get_or_init(|| runtime.spawn(sweep(Arc::downgrade(self))).abort_handle());
        }
    }

    /// Looks at one socket at a time, since requests wait for the lock.
    fn drop_stale(&self) {
        let now = Instant::now();
        let keys: Vec<SocketKey> = lock(&self.waiting).keys().cloned().collect();
        for key in keys {
            let mut waiting = lock(&self.waiting);
            let is_stale = waiting.get_mut(&key).is_some_and(|kept| !kept.is_open(now));
            let stale = is_stale.then(|| waiting.remove(&key));
            drop(waiting);
            drop(stale); // closes the connection, after the lock
        }
    }

    /// Closes all waiting sockets while it holds the lock, so that a concurrent caller goes on only when they are
    /// closed.
    pub(crate) fn close_all(&self) {
        lock(&self.waiting).clear();
    }

    /// Returns the number of waiting sockets.
    pub(crate) fn kept(&self) -> usize {
        lock(&self.waiting).len()
    }
}

impl Drop for KeptSockets {
    fn drop(&mut self) {
        if let Some(sweeper) = self.sweeper.get() {
            sweeper.abort();
        }
    }
}

// === impl SocketHome ===

impl SocketHome {
    pub(crate) fn keep(self, socket: Box<Socket>) {
        self.sockets.keep(self.key, socket, self.opened);
    }
}

async fn sweep(sockets: Weak<KeptSockets>) {
    loop {
        tokio::time::sleep(SWEEP_EVERY).await;
        match sockets.upgrade() {
            Some(sockets) => sockets.drop_stale(),
            None => return,
        }
    }
}
