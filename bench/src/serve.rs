//! The server side of the stub and the bare proxies: hyper on accepted sockets without Nagle's algorithm.

use std::convert::Infallible;
use std::error::Error;
use std::io;
use std::net::Ipv4Addr;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::Service;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

/// Serves on loopback until the process is stopped.
pub async fn serve<S, B>(port: u16, service: S) -> io::Result<Infallible>
where
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible> + Clone + Send + 'static,
    S::Future: Send,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
    loop {
        let (socket, _) = listener.accept().await?;
        socket.set_nodelay(true)?;
        let connection = http1::Builder::new().serve_connection(TokioIo::new(socket), service.clone());
        tokio::spawn(async move {
            // A client that hangs up does not matter to a bench; the load counts a target that does.
            let _ = connection.await;
        });
    }
}

/// A complete body in one piece.
pub struct Whole(Option<Bytes>);

impl From<Bytes> for Whole {
    fn from(bytes: Bytes) -> Self {
        Self(Some(bytes).filter(|bytes| !bytes.is_empty()))
    }
}

impl Body for Whole {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.take().map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0.as_ref().map_or(0, |bytes| bytes.len() as u64))
    }
}

/// Builds an answer with a JSON body.
pub fn json<B: From<Whole>>(status: StatusCode, body: Bytes) -> Response<B> {
    let mut response = Response::new(Whole::from(body).into());
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// Builds an error in the format that clients of the chat API know.
pub fn error<B: From<Whole>>(status: StatusCode, message: &str) -> Response<B> {
    let body = serde_json::json!({ "error": { "message": message, "type": "bench_error" } });
    json(status, Bytes::from(body.to_string()))
}

/// Removes the headers that belong to one connection and not to the message (RFC 9110 §7.6.1).
pub fn strip_hop_by_hop(headers: &mut HeaderMap) {
    const HOP_BY_HOP: [HeaderName; 6] = [
        header::CONNECTION,
        header::TE,
        header::TRAILER,
        header::TRANSFER_ENCODING,
        header::UPGRADE,
        HeaderName::from_static("keep-alive"),
    ];
    for name in &HOP_BY_HOP {
        headers.remove(name);
    }
}
