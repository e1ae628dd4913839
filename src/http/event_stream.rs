//! Answers of server-sent events.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame};
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use tokio::sync::mpsc;

use super::body::Truncated;
use super::{Response, ResponseBody};
use crate::background::Background;

/// The events as they come.
struct Events(mpsc::Receiver<Bytes>);

/// Builds the answer with the events that `work` sends, of which at most `max_waiting` wait for a slow client. The work is
/// dropped when the client disconnects or the service stops.
pub fn of_work<F>(
    background: &Background,
    name: &'static str,
    max_waiting: usize,
    work: impl FnOnce(mpsc::Sender<Bytes>) -> F,
) -> Response
where
    F: Future<Output = ()> + Send + 'static,
{
    let (sender, events) = mpsc::channel(max_waiting);
    let client = sender.clone();
    let work = work(sender);
    background.spawn(name, async move {
        tokio::select! {
            () = work => {}
            () = client.closed() => {}
        }
    });
    response(events)
}

/// Builds the answer whose body is these events; it ends when the channel's sender is dropped.
pub fn response(events: mpsc::Receiver<Bytes>) -> Response {
    of_body(ResponseBody::stream(Events(events)))
}

/// Builds the answer whose body consists of events already.
pub fn of_body(body: ResponseBody) -> Response {
    let mut response = Response::new(body);
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
