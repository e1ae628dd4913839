//! The accept loop: one task per connection, a limit on their number, time limits, and a drain.
//!
//! Stopping has three steps. The listener is dropped, so new connections are refused. Every open connection is asked to
//! finish: idle ones close at once, busy ones after the answer they are sending. After the grace period streams and handlers
//! end with an error, for which they have a moment; then the connections still open are dropped with their tasks.
//!
//! A connection that was handed to another protocol (`websocket`) goes on in the same task: it keeps its place among the
//! connections, and the drain waits for it.

use std::borrow::Borrow;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use http::Extensions;
use hyper::body::Incoming;
use hyper::header::{self, HeaderValue};
use hyper::server::conn::http1::{self, UpgradeableConnection};
use hyper::service::service_fn;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};

use super::Response;
use super::bearer::LastToken;
use super::connection_state::ConnectionState;
use super::framing::HeadFault;
use super::heads::UnfinishedHeads;
use super::stop::{StopStage, reached};
use super::stream::ClientStream;
use super::timer::{HeadTimer, ReusableTimer};
use super::tls::Tls;
use super::upgrade::{Upgrade, UpgradeSlot};
use super::wake_flag::{InnerFlag, WakeFlag};
use super::wire_body::WireBody;
use crate::logging::ThrottledWarning;
use crate::open_files;

/// The longest TLS handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// The most bytes of a request or an answer that are buffered per connection. A connection that is idle after a long request
/// keeps a buffer of this size.
const BUFFER: usize = 64 * 1024;
/// The pause after an accept that failed for lack of descriptors or memory.
const ACCEPT_RETRY: Duration = Duration::from_millis(50);
/// How long streams and handlers may take to end with an error after the grace period.
const LAST_WORDS: Duration = Duration::from_secs(2);

#[derive(Clone)]
pub struct ServerOptions {
    /// The most connections that are open at once; further ones wait in the kernel's queue.
    pub max_connections: usize,
    /// The longest time from the first byte of a request until its head is complete.
    pub header_timeout: Duration,
    /// The longest pause while a body is being read, or while a client is not taking its response.
    pub idle_timeout: Duration,
    /// `None` for plain HTTP.
    pub tls: Option<Arc<Tls>>,
}

/// The connection that a request came over.
#[derive(Clone)]
pub struct Connection {
    pub peer: SocketAddr,
    /// The timer for the waits of its handlers, one after the other.
    pub timer: ReusableTimer,
    /// The timer for the wait for an answer's first output, which runs beside the handlers' waits.
    pub first_output_timer: ReusableTimer,
    pub last_token: LastToken,
    state: Arc<ConnectionState>,
    upgrade_slot: UpgradeSlot,
}

impl Connection {
    /// Returns the other protocol's connection, if the request asks for it with `Upgrade`.
    pub fn upgrade(self, extensions: &mut Extensions) -> Option<Upgrade> {
        extensions.remove::<OnUpgrade>().map(|socket| Upgrade { socket, upgrade_slot: self.upgrade_slot })
    }

    /// Returns why a request must not be served although hyper accepted its head. Must be called once per request.
    pub fn head_fault(&self) -> Option<HeadFault> {
        self.state.head_fault()
    }
}

/// The handler of a connection to a listener that gets few requests: one type for all of these, so that the code of a
/// connection is compiled once.
pub type BoxedHandler = Box<
    dyn Fn(hyper::Request<WireBody>, Connection) -> Pin<Box<dyn Future<Output = Response> + Send>>
        + Send
        + Sync,
>;

/// Serves until `stop` has a grace period; then accepts no more connections and returns when every connection has ended
/// or that period is over. `handler_for(peer)` returns the handler for one connection. `before_cut` is called before
/// answers are cut off; returns how many connections that concerned.
pub async fn serve<H, F>(
    listener: impl Borrow<TcpListener>,
    options: ServerOptions,
    handler_for: impl Fn(SocketAddr) -> H,
    mut stop: watch::Receiver<Option<Duration>>,
    before_cut: impl FnOnce(),
) -> usize
where
    H: Fn(hyper::Request<WireBody>, Connection) -> F + Send + Sync + 'static,
    F: Future<Output = Response> + Send + 'static,
{
    // Each open connection holds one permit, so when all permits are back, all connections have ended.
    let slots = Arc::new(Semaphore::new(options.max_connections));
    let all = u32::try_from(options.max_connections).unwrap_or(u32::MAX);
    let heads = Arc::new(UnfinishedHeads::default());
    let (stage, stages) = watch::channel(StopStage::Serving);
    let mut connections = tokio::task::JoinSet::new();
    let mut warnings = AcceptWarnings::default();
    let grace = loop {
        reap(&mut connections);
        if slots.available_permits() == 0 {
            warnings.full(options.max_connections);
        }
        let permit = tokio::select! {
            biased;
            grace = requested(&mut stop) => break grace,
            permit = slots.clone().acquire_owned() => permit,
        };
        let Ok(permit) = permit else { break Duration::ZERO };
        let (socket, peer) = tokio::select! {
            biased;
            grace = requested(&mut stop) => break grace,
            accepted = listener.borrow().accept() => match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    warnings.refused(&error);
                    tokio::time::sleep(ACCEPT_RETRY).await;
                    continue;
                }
            },
        };
        let handler = handler_for(peer);
        let shared = Shared { options: options.clone(), stop: stages.clone(), heads: heads.clone() };
        connections.spawn(async move {
            if let Err(error) = connection(socket, peer, handler, shared).await {
                log::debug!("connection of {peer} ended: {error}");
            }
            drop(permit);
        });
    };
    drop(listener);
    stage.send_replace(StopStage::Draining);
    let drained = tokio::time::timeout(grace, slots.acquire_many(all)).await;
    if drained.is_ok() {
        return 0;
    }
    reap(&mut connections);
    let left = connections.len();
    before_cut();
    stage.send_replace(StopStage::Cutting);
    // Whoever does not end in time is dropped.
    drop(tokio::time::timeout(LAST_WORDS, slots.acquire_many(all)).await);
    connections.shutdown().await;
    left
}

/// Waits until the server is to stop; returns the grace period for what is under way.
async fn requested(stop: &mut watch::Receiver<Option<Duration>>) -> Duration {
    // An error means that the sender is gone, which counts as a stop.
    stop.wait_for(Option::is_some).await.ok().and_then(|grace| *grace).unwrap_or_default()
}

/// Warnings about connections that are not accepted, each from time to time.
#[derive(Default)]
struct AcceptWarnings {
    full: ThrottledWarning,
    refused: ThrottledWarning,
}

impl AcceptWarnings {
    fn full(&mut self, most: usize) {
        self.full.warn(|| {
            format!(
                "{most} client connections are open, the most that are allowed: new ones wait (MAX_CONNECTIONS)"
            )
        });
    }

    fn refused(&mut self, error: &io::Error) {
        let advice = if open_files::are_used_up(error) {
            "; raise the limit of open files (ulimit -n, LimitNOFILE) or lower MAX_CONNECTIONS"
        } else {
            ""
        };
        self.refused.warn(|| format!("a connection could not be accepted: {error}{advice}"));
    }
}

/// Takes note of connections that have ended. What panics after the head of a response ends its connection.
fn reap(connections: &mut tokio::task::JoinSet<()>) {
    while let Some(ended) = connections.try_join_next() {
        if let Err(error) = ended
            && error.is_panic()
        {
            log::error!("a connection ended by a panic: {error}");
        }
    }
}

/// What a connection shares with the others of its server.
struct Shared {
    options: ServerOptions,
    stop: watch::Receiver<StopStage>,
    heads: Arc<UnfinishedHeads>,
}

async fn connection<H, F>(
    socket: TcpStream,
    peer: SocketAddr,
    handler: H,
    mut shared: Shared,
) -> io::Result<()>
where
    H: Fn(hyper::Request<WireBody>, Connection) -> F + Send + Sync + 'static,
    F: Future<Output = Response> + Send + 'static,
{
    // Without it, the last small write of an answer waits for the client's delayed acknowledgement.
    socket.set_nodelay(true)?;
    match &shared.options.tls {
        None => serve_http1(socket, peer, handler, shared).await,
        Some(tls) => {
            let handshake = tokio::time::timeout(HANDSHAKE_TIMEOUT, tls.acceptor().accept(socket));
            let stream = tokio::select! {
                stream = handshake => {
                    stream.map_err(|_| io::Error::new(io::ErrorKind::TimedOut, "TLS handshake"))??
                }
                () = reached(&mut shared.stop, StopStage::Draining) => return Ok(()),
            };
            serve_http1(stream, peer, handler, shared).await
        }
    }
}

async fn serve_http1<S, H, F>(stream: S, peer: SocketAddr, handler: H, shared: Shared) -> io::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    H: Fn(hyper::Request<WireBody>, Connection) -> F + Send + Sync + 'static,
    F: Future<Output = Response> + Send + 'static,
{
    let Shared { options, stop, heads } = shared;
    let state = Arc::new(ConnectionState::default());
    let upgrade_slot = UpgradeSlot::new(stop.clone(), state.clone());
    let connection = Connection {
        peer,
        timer: ReusableTimer::default(),
        first_output_timer: ReusableTimer::default(),
        last_token: LastToken::default(),
        state: state.clone(),
        upgrade_slot: upgrade_slot.clone(),
    };
    let stream = ClientStream::new(stream, options.idle_timeout, state.clone(), heads);
    let flag = Arc::new(WakeFlag::default());
    let answering = Arc::new(InnerFlag::new(flag.clone()));
    let service = service_fn(|request: hyper::Request<Incoming>| {
        let (head, body) = request.into_parts();
        let body = WireBody::new(body, &head.headers, state.clone());
        let answer = handler(hyper::Request::from_parts(head, body), connection.clone());
        let answer = answering.clone().run(answered(answer, state.clone()));
        async move { Ok::<_, std::convert::Infallible>(answer.await) }
    });
    let mut serving = http1::Builder::new()
        .timer(HeadTimer::default())
        .header_read_timeout(options.header_timeout)
        .max_buf_size(BUFFER)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    let finish = |serving: Pin<&mut _>| {
        state.stop();
        UpgradeableConnection::graceful_shutdown(serving);
    };
    let ended = until_ended(Pin::new(&mut serving), finish, || answering.wake_by_ref(), flag, stop).await;
    if let Some(parts) = serving.into_parts() {
        let is_answered = ended.as_ref().map_or_else(hyper::Error::is_parse, |()| true);
        parts.io.into_inner().end(is_answered, !parts.read_buf.is_empty()).await;
    } else if let Some(task) = upgrade_slot.take() {
        task.await;
    }
    ended.map_err(io::Error::other)
}

/// Waits for a handler's answer and adds `Connection: close` if the connection must end with it: the unread rest of this
/// request's body comes before the next request.
async fn answered(answer: impl Future<Output = Response>, state: Arc<ConnectionState>) -> Response {
    let mut response = answer.await;
    if let Some(unread) = state.take_unread() {
        let closes = response.headers().contains_key(header::CONNECTION);
        // Boxed, because it is rare and would enlarge every request's future.
        if closes || !Box::pin(unread.read_over()).await {
            response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
    }
    response
}

/// How many polls in a row a connection gets if it is woken during one, before others get their turn.
const POLLS_IN_A_ROW: usize = 2;

/// Drives a connection to its end. When the server stops, calls `finish` so that it ends as soon as possible; after the
/// grace period calls `wake_handler` and polls it once more, so that its handler or its stream ends.
async fn until_ended<C: Future<Output = hyper::Result<()>>>(
    mut serving: Pin<&mut C>,
    finish: impl Fn(Pin<&mut C>),
    wake_handler: impl Fn(),
    flag: Arc<WakeFlag>,
    stop: watch::Receiver<StopStage>,
) -> hyper::Result<()> {
    let waker = Waker::from(Arc::clone(&flag));
    let (mut drain_signal, mut cut_signal) = (stop.clone(), stop.clone());
    let mut draining = pin!(reached(&mut drain_signal, StopStage::Draining));
    let mut cutting = pin!(reached(&mut cut_signal, StopStage::Cutting));
    let (mut is_listening, mut is_stopping, mut is_cut) = (false, false, false);
    std::future::poll_fn(|context| {
        // Polling once is enough to be woken, since the task's waker stays the same: polling again would take a lock that
        // all connections share.
        if !is_stopping && (!is_listening || stop.has_changed().unwrap_or(true)) {
            is_listening = true;
            if draining.as_mut().poll(context).is_ready() {
                is_stopping = true;
                finish(serving.as_mut());
            }
        }
        if is_stopping && !is_cut && cutting.as_mut().poll(context).is_ready() {
            is_cut = true;
            wake_handler();
        }
        for _ in 0..POLLS_IN_A_ROW {
            flag.clear();
            if let Poll::Ready(ended) = serving.as_mut().poll(&mut Context::from_waker(&waker)) {
                return Poll::Ready(ended);
            }
            if !flag.is_set() {
                break;
            }
        }
        flag.register(context.waker());
        Poll::Pending
    })
    .await
}
