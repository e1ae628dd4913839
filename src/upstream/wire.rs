//! One HTTP/1.1 connection, driven by the exchange that uses it.
//!
//! hyper's connection is a future that must be polled for anything to happen on it; usually a task of its own does that
//! and hands every chunk over by waking another. Here the exchange that wants the answer polls it, and the waker it
//! polls with is a [`WakeFlag`] that belongs to the connection: hyper also wakes the task that waits on its channels, which is
//! this very task in the middle of its work, and data arrives while the task writes what came before.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use hyper::client::conn::http1::{self, Connection, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::time::Instant;

use super::request::RequestBody;
use super::stream::Stream;
use crate::wake_flag::WakeFlag;

/// Bounds the head of an answer, and what one connection holds of a body that nobody reads.
const BUFFER: usize = 64 * 1024;

pub(crate) struct Wire {
    pub(crate) sender: SendRequest<RequestBody>,
    connection: Connection<TokioIo<Stream>, RequestBody>,
    /// The connection's future has completed and must not be polled again.
    closed: bool,
    flag: Arc<WakeFlag>,
    /// The flag as hyper takes it.
    waker: Waker,
    idle_since: Instant,
}

impl Wire {
    pub(crate) async fn new(stream: Stream) -> hyper::Result<Box<Self>> {
        let (sender, connection) =
            http1::Builder::new().max_buf_size(BUFFER).handshake(TokioIo::new(stream)).await?;
        let flag = Arc::new(WakeFlag::default());
        let waker = Waker::from(Arc::clone(&flag));
        Ok(Box::new(Self { sender, connection, closed: false, flag, waker, idle_since: Instant::now() }))
    }

    /// Does what work there is: writes, reads, parses.
    pub(crate) fn drive(&mut self) {
        self.flag.clear();
        // An error is not lost here: hyper has already given it to the response or to its body.
        let work = Pin::new(&mut self.connection);
        if !self.closed && matches!(work.poll(&mut Context::from_waker(&self.waker)), Poll::Ready(_)) {
            self.closed = true;
        }
    }

    /// Whether there may be work since the connection was last driven.
    pub(crate) fn may_have_work(&self) -> bool {
        self.flag.is_set()
    }

    /// Has the task woken when there is work again. To be called last before returning [`Poll::Pending`].
    pub(crate) fn wait(&self, task: &Waker) {
        self.flag.register(task);
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Whether the last exchange is over on both sides, and the connection has stayed open and silent since, as far as
    /// it was looked at.
    pub(crate) fn is_reusable(&self) -> bool {
        !self.closed && self.sender.is_ready()
    }

    /// To be called when it becomes idle: from now on the flag is set if the upstream hangs up or speaks unasked.
    pub(crate) fn set_idle(&mut self) {
        self.flag.deregister();
        self.idle_since = Instant::now();
    }

    pub(crate) fn idle_until(&self, moment: Instant) -> Duration {
        moment.saturating_duration_since(self.idle_since)
    }
}
