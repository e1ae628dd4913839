//! WebSockets to upstreams that have answered and wait for the next turn of their conversation.
//!
//! One for each conversation with an account: a turn that finds none opens one, and so does a turn that comes while
//! another is at work. A socket leaves when it has waited for [`KEPT_FOR`], when it is as old as upstreams let one become,
//! when its upstream has said goodbye, which a sweep or the next turn finds, and when [`MOST`] others wait.

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
use crate::routing::Origin;
use crate::sync::lock;

/// Longer pauses are the end of most conversations.
const KEPT_FOR: Duration = Duration::from_secs(5 * 60);
/// OpenAI closes a socket an hour after it was opened, whatever happens on it.
const OLDEST: Duration = Duration::from_secs(55 * 60);
const SWEEP_EVERY: Duration = Duration::from_secs(15);
/// Each holds a connection and its buffers.
const MOST: usize = 512;

pub(crate) type Socket = WebSocketStream<Stream>;

/// Whose turns go over one socket.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SocketKey {
    pub origin: Arc<Origin>,
    pub account: AccountId,
    /// The conversation by a name that nobody else's has.
    pub conversation: String,
    /// What the upgrade was let in with: a renewed token opens another socket.
    pub authorization: Option<HeaderValue>,
}

/// An open socket on which no turn is at work.
struct Kept {
    socket: Box<Socket>,
    opened: Instant,
    since: Instant,
}

/// The sockets that wait.
#[derive(Default)]
pub(crate) struct KeptSockets {
    waiting: Mutex<HashMap<SocketKey, Kept>>,
    sweeper: OnceLock<AbortHandle>,
}

/// Where a socket goes when its turn is over.
pub(crate) struct SocketHome {
    pub(crate) sockets: Arc<KeptSockets>,
    pub(crate) key: SocketKey,
    pub(crate) opened: Instant,
}

// === impl Kept ===

impl Kept {
    /// Whether the next turn may go over it. Answers pings, and hears goodbyes.
    fn is_open(&mut self, now: Instant) -> bool {
        if now.duration_since(self.since) >= KEPT_FOR || now.duration_since(self.opened) >= OLDEST {
            return false;
        }
        let mut cx = Context::from_waker(Waker::noop());
        loop {
            match Pin::new(&mut *self.socket).poll_next(&mut cx) {
                Poll::Pending => return true,
                Poll::Ready(Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_)))) => {}
                // Nobody has asked for what it says.
                Poll::Ready(_) => return false,
            }
        }
    }
}

// === impl KeptSockets ===

impl KeptSockets {
    /// The socket of a conversation, and when it was opened.
    pub(crate) fn checkout(&self, key: &SocketKey, now: Instant) -> Option<(Box<Socket>, Instant)> {
        let mut kept = lock(&self.waiting).remove(key)?;
        // What the kernel has and the runtime has not seen yet is most likely a goodbye.
        let is_open = kept.is_open(now) && !kept.socket.get_ref().has_news();
        is_open.then_some((kept.socket, kept.opened))
    }

    fn keep(self: &Arc<Self>, key: SocketKey, socket: Box<Socket>, opened: Instant) {
        let kept = Kept { socket, opened, since: Instant::now() };
        let mut waiting = lock(&self.waiting);
        let is_full = waiting.len() >= MOST && !waiting.contains_key(&key);
        let oldest =
            is_full.then(|| waiting.iter().min_by_key(|(_, kept)| kept.since).map(|(key, _)| key.clone()));
        let left = oldest.flatten().and_then(|oldest| waiting.remove(&oldest));
        let replaced = waiting.insert(key, kept);
        drop(waiting);
        drop((left, replaced)); // closes the connections, after the lock
        if self.sweeper.get().is_none()
            && let Ok(runtime) = Handle::try_current()
        {
            self.sweeper.get_or_init(|| runtime.spawn(sweep(Arc::downgrade(self))).abort_handle());
        }
    }

    fn drop_stale(&self) {
        let now = Instant::now();
        let stale: Vec<_> = lock(&self.waiting).extract_if(|_, kept| !kept.is_open(now)).collect();
        drop(stale); // closes the connections, after the lock
    }

    /// Closes all that wait, within the lock: who asks for the same meanwhile goes on when they are closed.
    pub(crate) fn close_all(&self) {
        lock(&self.waiting).clear();
    }

    /// How many wait.
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
