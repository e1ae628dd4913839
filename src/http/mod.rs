//! The edge: HTTP/1.1 towards clients. It knows no business.
//!
//! | module | what it is for |
//! |---|---|
//! | `server`, `tls` | the accept loop with its limits and its drain; certificates and their reload |
//! | `stream`, `framing`, `pace`, `heads` | the guards of a socket: where a client is in its requests, how slowly a body may come, what unfinished heads hold |
//! | `strict`, `timer` | heads that hyper lets through and we refuse; timers that are used again |
//! | `router`, `route`, `request`, `address` | paths to handlers; a line of a table of routes; what a handler is given; the address of the client |
//! | `body`, `coded`, `form`, `multipart` | request and response bodies; compressed requests; forms held whole; forms read as they come |
//! | `unread` | what a handler has left of a body, and whether the connection can go on |
//! | `too_many` | the refusals of rate limits, alike on every surface |
//! | `bearer`, `origin`, `cors`, `websocket` | tokens in headers; whose page asks; cross-origin rules; the protocol a connection may go on with |

pub mod address;
pub mod bearer;
pub mod body;
mod coded;
pub mod cors;
pub mod form;
mod framing;
mod heads;
pub mod multipart;
pub mod origin;
pub mod pace;
pub mod request;
pub mod route;
pub mod router;
pub mod server;
mod stream;
pub mod strict;
pub mod timer;
pub mod tls;
mod too_many;
pub mod unread;
pub mod websocket;

use bytes::Bytes;
use hyper::StatusCode;
use hyper::header::{self, HeaderMap, HeaderValue};
use serde::Serialize;

pub use body::{BodyError, ResponseBody};
pub use request::{Params, Query, Request};
pub use route::{Access, Endpoint, Route};
pub use too_many::{too_many_of_identity, too_many_of_peer};

/// An answer on its way out.
pub type Response = hyper::Response<ResponseBody>;

/// A JSON answer. A value that cannot be serialised is a programming error and answers 500.
pub fn json(status: StatusCode, value: &impl Serialize) -> Response {
    match serde_json::to_vec(value) {
        Ok(bytes) => json_bytes(status, Bytes::from(bytes)),
        Err(error) => {
            log::error!("an answer could not be written as JSON: {error}");
            let body = Bytes::from_static(
                br#"{"success":false,"message":"Internal error","error":"Internal error"}"#,
            );
            json_bytes(StatusCode::INTERNAL_SERVER_ERROR, body)
        }
    }
}

/// An answer whose body is JSON already.
pub fn json_bytes(status: StatusCode, body: Bytes) -> Response {
    with_type(status, body, "application/json; charset=utf-8")
}

/// Whether a body is a stream of server-sent events, by the `Content-Type` that this service writes.
pub fn is_event_stream(headers: &HeaderMap) -> bool {
    headers.get(header::CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"))
}

/// A plain-text answer.
pub fn text(status: StatusCode, body: impl Into<Bytes>) -> Response {
    with_type(status, body.into(), "text/plain; charset=utf-8")
}

fn with_type(status: StatusCode, body: Bytes, content_type: &'static str) -> Response {
    let mut response = Response::new(ResponseBody::full(body));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}
