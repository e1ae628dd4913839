//! An answer of server-sent events, fed through a channel.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame};
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use tokio::sync::mpsc;

use super::body::Truncated;
use super::{Response, ResponseBody};

/// The events as they come.
struct Events(mpsc::Receiver<Bytes>);

/// Builds the answer whose body is these events; it ends when the channel's sender is dropped.
pub fn response(events: mpsc::Receiver<Bytes>) -> Response {
    let mut response = Response::new(ResponseBody::stream(Events(events)));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream; charset=utf-8"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    // Otherwise nginx would hold events back.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

/// Formats one event with this name and a single line of data, such as JSON.
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
