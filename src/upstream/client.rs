//! The client: one exchange at a time on a connection of the pool.

use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use hyper::body::Incoming;
use hyper::http::header::{
    ACCEPT_ENCODING, CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH, HOST, HeaderValue, TRANSFER_ENCODING,
};
use hyper::http::{Method, Request, Response, StatusCode, Uri};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use tokio::time::Instant;

use super::body::{RawBody, UpstreamBody};
use super::decode::Decoder;
use super::dial::Dialer;
use super::error::{ErrorKind, SendError};
use super::pool::Pool;
use super::request::RequestBody;
use super::stream::Stream;
use super::wire::Wire;
use crate::routing::Origin;

/// From this idle time on a kept connection may be about to be closed by the other side just as it is used again.
/// Servers that close idle connections wait for seconds, so that one used at a high rate need not pay for the doubt.
const DOUBTFUL_AFTER: Duration = Duration::from_secs(1);

/// A connection that was closed under a request dies within a round trip; later than this the upstream was working.
const DIES_WITHIN: Duration = Duration::from_secs(2);

/// What a [`Client`] is made with.
#[derive(Debug)]
pub struct ClientOptions {
    /// Certificates to trust beside the public ones, for private authorities.
    pub extra_roots: Vec<CertificateDer<'static>>,
    /// Name resolution, connecting, the proxy's tunnel and TLS together.
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

/// The HTTP client towards upstreams. One per process.
pub struct Client {
    pool: Arc<Pool>,
    dialer: Dialer,
}

impl Client {
    pub fn new(options: ClientOptions) -> Self {
        Self { pool: Pool::new(), dialer: Dialer::new(options.extra_roots, options.connect_timeout) }
    }

    /// Sends a request and gives the response head as soon as it is there, even while the request is still being sent.
    ///
    /// The request's address is its path and query; `Host` is added when missing. Framing, `Connection` and
    /// `Accept-Encoding` are set here. The body of the answer is decoded if the upstream compressed it all the same.
    ///
    /// There is no time-out but the one for connecting. Dropping the future closes the connection.
    ///
    /// A kept connection that turns out to be dead costs one more try on a new one. That needs no judgement when nothing
    /// was sent; it is also done when a connection that was idle for a while dies under the request without an answer,
    /// since then the upstream closed it before it saw the request.
    pub fn send<B>(
        &self,
        origin: &Arc<Origin>,
        request: Request<B>,
    ) -> impl Future<Output = Result<Response<UpstreamBody>, SendError>>
    where
        B: Into<RequestBody>,
    {
        // Boxed here, before there is a future: it would have room for the request at every step.
        self.send_boxed(origin, Box::new(request.map(Into::into)))
    }

    async fn send_boxed(
        &self,
        origin: &Arc<Origin>,
        mut request: Box<Request<RequestBody>>,
    ) -> Result<Response<UpstreamBody>, SendError> {
        prepare(origin, &mut request)?;
        let bodiless = *request.method() == Method::HEAD;
        while let Some(wire) = self.pool.checkout(origin) {
            let sent_at = Instant::now();
            let spare = if wire.idle_until(sent_at) >= DOUBTFUL_AFTER { copy(&request) } else { None };
            match exchange(wire, request).await {
                Ok((response, wire)) => return self.receive(origin, response, wire, bodiless),
                Err(Failure::Unsent(unsent)) => request = unsent,
                Err(Failure::Broken(error)) => match spare {
                    Some(spare) if error.kind() == ErrorKind::Closed && sent_at.elapsed() < DIES_WITHIN => {
                        request = spare;
                        break;
                    }
                    _ => return Err(error),
                },
            }
        }
        // Boxed: connecting is rare, and its state would make every exchange's future several times as large.
        let wire = Box::pin(self.connect(origin)).await?;
        match exchange(wire, request).await {
            Ok((response, wire)) => self.receive(origin, response, wire, bodiless),
            Err(Failure::Broken(error)) => Err(error),
            Err(Failure::Unsent(_)) => Err(SendError::new(
                ErrorKind::Closed,
                "the upstream closed the connection before the request was sent",
            )),
        }
    }

    async fn connect(&self, origin: &Arc<Origin>) -> Result<Box<Wire>, SendError> {
        let stream = self.dialer.dial(origin).await?;
        Wire::new(stream).await.map_err(|error| SendError::of_exchange(&error))
    }

    fn receive(
        &self,
        origin: &Arc<Origin>,
        response: Response<Incoming>,
        wire: Box<Wire>,
        bodiless: bool,
    ) -> Result<Response<UpstreamBody>, SendError> {
        let (mut head, incoming) = response.into_parts();
        if head.status == StatusCode::SWITCHING_PROTOCOLS {
            return Err(SendError::new(
                ErrorKind::Protocol,
                "the upstream switched protocols without being asked to",
            ));
        }
        let raw = RawBody::new(incoming, wire, Arc::clone(&self.pool), Arc::clone(origin));
        let mut decoder = None;
        if !bodiless && !raw.is_empty() && head.headers.contains_key(CONTENT_ENCODING) {
            decoder = Decoder::new(head.headers.get_all(CONTENT_ENCODING))
                .map_err(|error| SendError::new(ErrorKind::Protocol, error))?;
            if decoder.is_some() {
                head.headers.remove(CONTENT_LENGTH);
            }
            head.headers.remove(CONTENT_ENCODING);
        }
        Ok(Response::from_parts(head, UpstreamBody::new(raw, decoder.map(Box::new))))
    }

    /// A connection straight to a server that speaks another protocol, in clear.
    pub(crate) async fn dial(&self, host: &str, port: u16) -> Result<Stream, SendError> {
        self.dialer.dial(&Origin::new(false, host, port, None)).await
    }

    /// TLS on such a connection, with the roots that upstreams are held to.
    pub(crate) async fn secure(&self, stream: Stream, host: &str) -> Result<Stream, SendError> {
        self.dialer.secure_other(stream, host).await
    }

    /// How many connections are open and wait for the next request, to all upstreams.
    pub fn idle_connections(&self) -> usize {
        self.pool.kept()
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

enum Failure {
    /// The request as it was: not a byte of it has left.
    Unsent(Box<Request<RequestBody>>),
    Broken(SendError),
}

/// Drives connection and response together until the head of the response is there.
async fn exchange(
    mut wire: Box<Wire>,
    request: Box<Request<RequestBody>>,
) -> Result<(Response<Incoming>, Box<Wire>), Failure> {
    // The response is only ever made by the connection, which is driven right here: nobody else has to wake us for it.
    // `unconstrained` because tokio's budget would answer "not yet" to a response that is there.
    // Boxed, because it has room for a request that comes back unsent.
    let response = Box::pin(wire.sender.try_send_request(*request));
    let mut response = tokio::task::unconstrained(response);
    let mut started = false;
    let result = poll_fn(|cx| {
        if !started || wire.may_have_work() {
            wire.drive();
            started = true;
        }
        match Pin::new(&mut response).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(result) => Poll::Ready(Some(result)),
            Poll::Pending if wire.is_closed() => Poll::Ready(None),
            Poll::Pending => {
                wire.wait(cx.waker());
                Poll::Pending
            }
        }
    })
    .await;
    match result {
        Some(Ok(response)) => Ok((response, wire)),
        Some(Err(mut error)) => Err(match error.take_message() {
            Some(request) => Failure::Unsent(Box::new(request)),
            None => Failure::Broken(SendError::of_exchange(&error.into_error())),
        }),
        None => Err(Failure::Broken(SendError::new(
            ErrorKind::Closed,
            "the upstream closed the connection without an answer",
        ))),
    }
}

fn prepare(origin: &Origin, request: &mut Request<RequestBody>) -> Result<(), SendError> {
    if request.uri().authority().is_some() {
        let path = request.uri().path_and_query().cloned();
        *request.uri_mut() = path.map_or_else(|| Uri::from_static("/"), Uri::from);
    }
    let headers = request.headers_mut();
    if !headers.contains_key(HOST) {
        let default_port = if origin.tls { 443 } else { 80 };
        let host = if origin.port == default_port {
            HeaderValue::try_from(&origin.host)
        } else {
            HeaderValue::try_from(format!("{}:{}", origin.host, origin.port))
        };
        let host =
            host.map_err(|_| SendError::new(ErrorKind::Protocol, "the host name is not valid in a header"))?;
        headers.insert(HOST, host);
    }
    headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    headers.remove(CONTENT_LENGTH);
    headers.remove(TRANSFER_ENCODING);
    headers.remove(CONNECTION);
    Ok(())
}

fn copy(request: &Request<RequestBody>) -> Option<Box<Request<RequestBody>>> {
    let mut copy = Request::new(request.body().try_clone()?);
    *copy.method_mut() = request.method().clone();
    *copy.uri_mut() = request.uri().clone();
    *copy.headers_mut() = request.headers().clone();
    Some(Box::new(copy))
}
