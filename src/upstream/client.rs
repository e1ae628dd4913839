//! The client: one exchange at a time on a connection of the pool.

use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use hyper::http::header::{CONTENT_ENCODING, CONTENT_LENGTH};
use hyper::http::{self, Method, StatusCode};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use tokio::time::Instant;

use super::body::{RawBody, UpstreamBody};
use super::connection::{DIES_WITHIN, Failure, UpstreamConnection};
use super::dial::{self, Dialer};
use super::error::{ErrorKind, SendError, undecodable};
use super::http1::AnswerHead;
use super::kept_sockets::KeptSockets;
use super::pool::Pool;
use super::repeat::{ExchangeProgress, ReplyKind, RetryScope, SentPart, WorkKind};
use super::request::{Request, RequestBody};
use super::stream::Stream;
use crate::codings::{Decoder, Side};
use crate::routing::Origin;

/// The idle time from which a kept connection may be about to be closed by the other side just as it is used again.
/// Servers that close idle connections mostly wait for seconds.
const RESTED_AFTER: Duration = Duration::from_secs(1);

/// The settings of a [`Client`].
#[derive(Debug)]
pub struct ClientOptions {
    /// Certificates to trust beside the public ones, for private authorities.
    pub extra_roots: Vec<CertificateDer<'static>>,
    /// The time limit for name resolution, connecting, the proxy's tunnel and TLS together.
    pub connect_timeout: Duration,
}

impl Default for ClientOptions {
    fn default() -> Self {
        Self { extra_roots: Vec::new(), connect_timeout: Duration::from_secs(15) }
    }
}

/// Reads the certificates of a PEM file's text.
pub fn roots_from_pem(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let roots: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let roots = roots.map_err(|error| format!("not a PEM file of certificates: {error}"))?;
    if roots.is_empty() { Err("the file has no certificate".into()) } else { Ok(roots) }
}

/// An upstream's answer, whose head has arrived.
#[derive(Debug)]
pub struct Answer {
    pub head: AnswerHead,
    pub body: UpstreamBody,
}

/// The HTTP client towards upstreams. One per process.
pub struct Client {
    pool: Arc<Pool>,
    pub(super) sockets: Arc<KeptSockets>,
    dialer: Dialer,
}

impl Client {
    pub fn new(options: ClientOptions) -> Self {
        let dialer = Dialer::new(options.extra_roots, options.connect_timeout);
        Self { pool: Pool::new(), sockets: Arc::default(), dialer }
    }

    /// Sends a request and returns the response head as soon as it is there, even while the request is still being
    /// sent.
    ///
    /// The request's address is its path and query; `Host`, framing and `Accept-Encoding` are set here, and
    /// `Connection` is left out. The body of the answer is decoded if the upstream compressed it all the same.
    ///
    /// There is no time-out but the one for connecting. Dropping the future closes the connection.
    ///
    /// A kept connection that turns out to be dead costs one more try on a new one, where [`ExchangeProgress::retry_scope`]
    /// allows this upstream to have the request again.
    pub fn send<B>(
        &self,
        origin: &Arc<Origin>,
        request: http::Request<B>,
    ) -> impl Future<Output = Result<Answer, SendError>>
    where
        B: Into<RequestBody>,
    {
        // Boxed here, before there is a future, which would have room for the request at every step.
        self.send_boxed(origin, Box::new(request.into()))
    }

    /// Does what [`send`](Self::send) does, for a request in a box.
    pub async fn send_boxed(
        &self,
        origin: &Arc<Origin>,
        mut request: Box<Request>,
    ) -> Result<Answer, SendError> {
        let has_no_body = request.method == Method::HEAD;
        let mut sent_at = Instant::now();
        let must_know = request.work == WorkKind::Creation;
        while let Some(wire) = self.pool.checkout(origin, sent_at, must_know) {
            let has_rested = wire.idle_until(sent_at) >= RESTED_AFTER;
            let Failure { error, has_body } = match exchange(wire, &mut request, origin, sent_at).await {
                Ok((head, wire)) => return self.receive(origin, head, wire, has_no_body),
                Err(failure) => failure,
            };
            let ExchangeProgress { written, came } = error.progress();
            if written == SentPart::Nothing {
                sent_at = Instant::now();
                continue;
            }
            let died_at_once =
                matches!(came, ReplyKind::Nothing | ReplyKind::Goodbye) && sent_at.elapsed() < DIES_WITHIN;
            if died_at_once && has_body && error.progress().retry_scope(request.work) == RetryScope::Here {
                break;
            }
            let is_expired = came == ReplyKind::Goodbye || has_rested && died_at_once;
            return Err(if is_expired { error.expired() } else { error });
        }
        // Boxed: connecting is rare, and its state would make every exchange's future several times as large.
        let wire = Box::pin(self.connect(origin)).await?;
        match exchange(wire, &mut request, origin, Instant::now()).await {
            Ok((head, wire)) => self.receive(origin, head, wire, has_no_body),
            Err(Failure { error, .. }) => Err(error),
        }
    }

    async fn connect(&self, origin: &Arc<Origin>) -> Result<Box<UpstreamConnection>, SendError> {
        self.open(origin).await.map(UpstreamConnection::new)
    }

    /// Opens a connection. Where this process has nothing left to open it with, closes the idle ones and tries again,
    /// even if there were none: another request may just have closed them.
    pub(super) async fn open(&self, origin: &Origin) -> Result<Stream, SendError> {
        match self.dialer.dial(origin).await {
            Err(error) if error.kind() == ErrorKind::Exhausted => {
                self.pool.close_all();
                self.sockets.close_all();
                self.dialer.dial(origin).await
            }
            dialed => dialed,
        }
    }

    fn receive(
        &self,
        origin: &Arc<Origin>,
        mut head: AnswerHead,
        wire: Box<UpstreamConnection>,
        has_no_body: bool,
    ) -> Result<Answer, SendError> {
        let unusable = |why: String| {
            SendError::new(ErrorKind::Protocol, why).after(ExchangeProgress::whole(ReplyKind::Answer))
        };
        if head.status == StatusCode::SWITCHING_PROTOCOLS {
            return Err(unusable("the upstream switched protocols without being asked to".to_owned()));
        }
        if let Some(proxy) = origin.forwarder()
            && head.status == StatusCode::PROXY_AUTHENTICATION_REQUIRED
        {
            let why = format!(
                "outbound proxy {} asks for a login, or refuses the one it was given (407)",
                dial::name(proxy)
            );
            let error = SendError::new(ErrorKind::Proxy, why);
            return Err(error.after(ExchangeProgress::whole(ReplyKind::Refusal)));
        }
        let raw = RawBody::new(wire, Arc::clone(&self.pool), Arc::clone(origin));
        let mut decoder = None;
        if !has_no_body && !raw.is_empty() && head.headers.contains(&CONTENT_ENCODING) {
            decoder = Decoder::new(Side::Upstream, head.headers.get_all(&CONTENT_ENCODING))
                .map_err(|error| unusable(undecodable(&error)))?;
            if decoder.is_some() {
                head.headers.remove(&CONTENT_LENGTH);
            }
            head.headers.remove(&CONTENT_ENCODING);
        }
        Ok(Answer { head, body: UpstreamBody::new(raw, decoder.map(Box::new)) })
    }

    /// Opens an unencrypted connection, without a proxy, to a server that speaks another protocol.
    pub(crate) async fn dial(&self, host: &str, port: u16) -> Result<Stream, SendError> {
        self.open(&Origin::new(false, host, port, None)).await
    }

    /// Starts TLS on such a connection, with the roots that upstreams are checked against.
    pub(crate) async fn secure(&self, stream: Stream, host: &str) -> Result<Stream, SendError> {
        self.dialer.secure_other(stream, host).await
    }

    /// Returns the number of connections, to all upstreams, that are open and wait for the next request.
    pub fn idle_connections(&self) -> usize {
        self.pool.kept() + self.sockets.kept()
    }

    #[cfg(test)]
    pub(crate) fn idle(&self, origin: &Arc<Origin>) -> usize {
        self.pool.idle(origin)
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").finish_non_exhaustive()
    }
}

/// Sends a request and drives its connection until the head of the answer is there.
async fn exchange(
    mut wire: Box<UpstreamConnection>,
    request: &mut Request,
    origin: &Origin,
    now: Instant,
) -> Result<(AnswerHead, Box<UpstreamConnection>), Failure> {
    wire.start(request, origin, now);
    match poll_fn(|cx| wire.poll_head(cx)).await {
        Ok(head) => Ok((head, wire)),
        Err(failure) => {
            request.body = wire.take_body();
            Err(failure)
        }
    }
}
