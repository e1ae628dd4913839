//! `bare-raw PORT UPSTREAM_PORT`: the least that a hyper proxy can do.
//!
//! Bodies stream through in both directions and are not looked at; only the key is replaced.

use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use hyper::header::{AUTHORIZATION, HeaderValue};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use switchyard_bench::payload::UPSTREAM_KEY;
use switchyard_bench::pool::{Pool, Relayed};
use switchyard_bench::serve::{Whole, error, serve, strip_hop_by_hop};

#[tokio::main]
async fn main() -> io::Result<()> {
    let mut ports = std::env::args().skip(1).map_while(|port| port.parse::<u16>().ok());
    let (Some(port), Some(upstream)) = (ports.next(), ports.next()) else {
        return Err(io::Error::other("usage: bare-raw PORT UPSTREAM_PORT"));
    };
    let pool = Pool::new(upstream);
    let key = HeaderValue::from_str(&format!("Bearer {UPSTREAM_KEY}")).map_err(io::Error::other)?;
    match serve(port, service_fn(move |request| forward(Arc::clone(&pool), key.clone(), request))).await? {}
}

async fn forward(
    pool: Arc<Pool<Incoming>>,
    key: HeaderValue,
    mut request: Request<Incoming>,
) -> Result<Response<Answer>, Infallible> {
    strip_hop_by_hop(request.headers_mut());
    request.headers_mut().insert(AUTHORIZATION, key);
    Ok(match pool.send(request).await {
        Ok(mut response) => {
            strip_hop_by_hop(response.headers_mut());
            response.map(Answer::Relayed)
        }
        Err(failed) => error(StatusCode::BAD_GATEWAY, &failed.to_string()),
    })
}

/// The body of an answer to the client: the upstream's, or our own error.
enum Answer {
    Relayed(Relayed<Incoming>),
    Own(Whole),
}

impl From<Whole> for Answer {
    fn from(whole: Whole) -> Self {
        Self::Own(whole)
    }
}

impl Body for Answer {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        match &mut *self {
            Self::Relayed(body) => Pin::new(body).poll_frame(context),
            Self::Own(body) => Pin::new(body).poll_frame(context).map_err(|never| match never {}),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Relayed(body) => body.is_end_stream(),
            Self::Own(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Relayed(body) => body.size_hint(),
            Self::Own(body) => body.size_hint(),
        }
    }
}
