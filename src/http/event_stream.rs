//! An answer of server-sent events, as whoever makes them hands them over.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame};
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use tokio::sync::mpsc;

use super::body::Truncated;
use super::{Response, ResponseBody};

/// Events as they come.
struct Events(mpsc::Receiver<Bytes>);

/// The answer whose body are these events; it ends when the other side of the channel is gone.
pub fn response(events: mpsc::Receiver<Bytes>) -> Response {
    let mut response = Response::new(ResponseBody::stream(Events(events)));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream; charset=utf-8"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    // nginx would hold events back.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

/// One event of this name with data of one line, as JSON is.
pub fn event(name: &str, data: &impl std::fmt::Display) -> Bytes {
    Bytes::from(format!("event: {name}\ndata: {data}\n\n"))
}

impl Body for Events {
    type Data = Bytes;
    type Error = Truncated;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Truncated>>> {
        self.0.poll_recv(context).map(|event| event.map(|event| Ok(Frame::data(event))))
    }
}
