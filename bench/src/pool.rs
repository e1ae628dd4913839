//! The bare proxies' upstream connections: idle ones are kept in a stack without a limit.
//!
//! A connection is returned when its answer has been read to the end, and closed if the answer is dropped before. If a kept
//! connection is dead and the request was not sent, the next connection is tried.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

/// Connections to one upstream on loopback that carry request bodies of type `B`.
pub struct Pool<B> {
    address: SocketAddr,
    /// Last in, first out: the most recently used connection is taken, the others time out at the upstream.
    idle: Mutex<Vec<SendRequest<B>>>,
}

impl<B> Pool<B>
where
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    pub fn new(port: u16) -> Arc<Self> {
        Arc::new(Self { address: (Ipv4Addr::LOCALHOST, port).into(), idle: Mutex::default() })
    }

    /// Sends the request and returns the answer as soon as its head has come.
    pub async fn send(self: &Arc<Self>, mut request: Request<B>) -> io::Result<Response<Relayed<B>>> {
        while let Some(mut kept) = self.take() {
            if kept.ready().await.is_err() {
                continue;
            }
            match kept.try_send_request(request).await {
                Ok(response) => return Ok(self.relay(response, kept)),
                Err(mut failed) => match failed.take_message() {
                    Some(unsent) => request = unsent,
                    None => return Err(io::Error::other(failed.into_error())),
                },
            }
        }
        let mut fresh = self.connect().await?;
        let response = fresh.send_request(request).await.map_err(io::Error::other)?;
        Ok(self.relay(response, fresh))
    }

    fn relay(
        self: &Arc<Self>,
        response: Response<Incoming>,
        connection: SendRequest<B>,
    ) -> Response<Relayed<B>> {
        response.map(|body| Relayed { body, lease: Some((Arc::clone(self), connection)) })
    }

    async fn connect(&self) -> io::Result<SendRequest<B>> {
        let socket = TcpStream::connect(self.address).await?;
        socket.set_nodelay(true)?;
        let (sender, connection) = handshake(TokioIo::new(socket)).await.map_err(io::Error::other)?;
        tokio::spawn(async move {
            // Its failure reaches the request on the connection; without a request, it does not matter.
            let _ = connection.await;
        });
        Ok(sender)
    }

    fn take(&self) -> Option<SendRequest<B>> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some(sender) = idle.pop() {
            if !sender.is_closed() {
                return Some(sender);
            }
        }
        None
    }

    fn put_back(&self, sender: SendRequest<B>) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(sender);
    }
}

/// The body of an answer that passes through, with the connection it comes from.
pub struct Relayed<B> {
    body: Incoming,
    lease: Option<(Arc<Pool<B>>, SendRequest<B>)>,
}

impl<B> Body for Relayed<B>
where
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(context);
        let ended = match &frame {
            Poll::Ready(None) => true,
            Poll::Ready(Some(Ok(_))) => self.body.is_end_stream(),
            Poll::Ready(Some(Err(_))) | Poll::Pending => false,
        };
        if ended && let Some((pool, sender)) = self.lease.take() {
            pool.put_back(sender);
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
