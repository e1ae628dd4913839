//! Converts the proxy's response to the form that the playground page expects.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use http_body::{Body, Frame};
use http_body_util::BodyExt;
use hyper::StatusCode;
use memchr::memmem;
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

use super::error::{PlaygroundError, SERVER_ERROR};
use crate::dialect::errors::{self, UpstreamError};
use crate::dialect::sse::{self, Scanner};
use crate::http::body::Truncated;
use crate::http::{self, Response, ResponseBody, event_stream, is_event_stream};

/// A response with its body read.
pub(super) struct Answer {
    pub(super) status: StatusCode,
    is_events: bool,
    body: Bytes,
}

impl Answer {
    /// Reads a response of at most `limit` bytes to its end.
    pub(super) async fn read(response: Response, limit: usize) -> Result<Self, PlaygroundError> {
        let refused = |message: String| PlaygroundError::failed(StatusCode::BAD_GATEWAY, message);
        let (status, is_events) = (response.status(), is_event_stream(response.headers()));
        let mut body = response.into_body();
        let mut read = BytesMut::new();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|cut| refused(cut.to_string()))?;
            let Ok(data) = frame.into_data() else { continue };
            if read.len() + data.len() > limit {
                return Err(refused(format!("The answer is longer than {limit} bytes")));
            }
            read.extend_from_slice(&data);
        }
        Ok(Self { status, is_events, body: read.freeze() })
    }

    /// Returns the body as raw JSON: parsed into values it may take fifty times the memory. A body that is not JSON, or
    /// that is an event stream, becomes its text under `raw`.
    pub(super) fn json(&self) -> Box<RawValue> {
        match serde_json::from_slice(&self.body) {
            Ok(raw) if !self.is_events => raw,
            _ => raw(&json!({ "raw": self.text() })),
        }
    }

    /// Returns the error with which a stream of events ends; `None` for one that is complete, and for any other body.
    pub(super) fn stream_error(&self) -> Option<Value> {
        let mut last = Vec::new();
        let mut keep = |event: sse::Event<'_>| {
            last.clear();
            last.extend_from_slice(event.data);
        };
        if self.is_events {
            let mut scanner = Scanner::new(self.body.len());
            scanner.feed(&self.body, &mut keep);
            scanner.finish(&mut keep);
        }
        let end: StreamEnd = serde_json::from_slice(&last).ok()?;
        let error = end.error.or(end.response.and_then(|response| response.error));
        let error = error.filter(|error| error.get().starts_with('{'))?;
        let message = errors::read(StatusCode::BAD_GATEWAY.as_u16(), error.get().as_bytes()).message;
        Some(json!({ "message": message, "type": UpstreamError::BROKEN_STREAM }))
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// The body of an error response.
#[derive(Deserialize)]
pub(super) struct ErrorBody {
    pub(super) error: Option<Box<RawValue>>,
}

/// The last event of a stream; the responses dialect has the error in its response.
#[derive(Deserialize)]
struct StreamEnd {
    error: Option<Box<RawValue>>,
    response: Option<ErrorBody>,
}

/// Serialises a value as raw JSON.
pub(super) fn raw(value: &Value) -> Box<RawValue> {
    to_raw_value(value).unwrap_or_default() // a value always serialises
}

/// A refusal of the proxy, wrapped in an error of the playground.
#[derive(Serialize)]
struct Wrapped<'a> {
    message: &'static str,
    r#type: &'static str,
    status: u16,
    body: &'a RawValue,
}

/// Returns the response in one piece: a success has status 200, a failure keeps its status. But consoles take 401 and
/// 403 for a lost login, so these two are wrapped in a 502.
pub(super) async fn whole(response: Response, limit: usize) -> Response {
    match Answer::read(response, limit).await {
        Err(refused) => refused.into_response(),
        Ok(answer) if matches!(answer.status.as_u16(), 401 | 403) => {
            let (status, body) = (answer.status.as_u16(), &*answer.json());
            let error = Wrapped { message: "The proxy refused the call", r#type: SERVER_ERROR, status, body };
            http::json(StatusCode::BAD_GATEWAY, &BTreeMap::from([("error", error)]))
        }
        Ok(answer) => {
            let status = if answer.status.is_success() { StatusCode::OK } else { answer.status };
            http::json(status, &answer.json())
        }
    }
}

/// Returns the response as server-sent events: the proxy's events as they are, any other body as one event. A failure
/// is not streamed.
pub(super) async fn as_events(response: Response, limit: usize) -> Response {
    if !response.status().is_success() {
        return whole(response, limit).await;
    }
    let body = if is_event_stream(response.headers()) {
        ResponseBody::stream(ForwardedEvents { body: response.into_body(), is_over: false })
    } else {
        match Answer::read(response, limit).await {
            Err(refused) => return refused.into_response(),
            Ok(answer) => ResponseBody::full(one_event(&answer.text()).into()),
        }
    };
    event_stream::of_body(body)
}

/// Formats a text as one event, with a `data` line for each of its lines, and the end marker.
pub(super) fn one_event(text: &str) -> String {
    let mut event = String::with_capacity(text.len() + 64);
    for line in text.split('\n') {
        event.push_str("data: ");
        event.push_str(line.strip_suffix('\r').unwrap_or(line));
        event.push('\n');
    }
    event.push_str("\ndata: [DONE]\n\n");
    event
}

/// The proxy's events, forwarded; if the stream breaks off, the last event says so.
struct ForwardedEvents {
    body: ResponseBody,
    is_over: bool,
}

impl Body for ForwardedEvents {
    type Data = Bytes;
    type Error = Truncated;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Truncated>>> {
        let this = self.get_mut();
        if this.is_over {
            return Poll::Ready(None);
        }
        Pin::new(&mut this.body).poll_frame(context).map(|frame| match frame {
            Some(Err(cut)) => {
                this.is_over = true;
                let error = json!({ "error": { "message": cut.to_string(), "type": "stream_error" } });
                Some(Ok(Frame::data(Bytes::from(format!("event: error\ndata: {error}\n\n")))))
            }
            Some(Ok(frame)) => Some(Ok(frame.map_data(with_break_named))),
            frame => frame,
        })
    }
}

/// Gives the event that reports a break its event name: the chat dialect has none there.
fn with_break_named(events: Bytes) -> Bytes {
    let Some(at) = memmem::rfind(&events, br#""type":"stream_error""#) else { return events };
    let start = memmem::rfind(&events[..at], b"\n\n").map_or(0, |end| end + 2);
    let (before, last) = events.split_at(start);
    if last.starts_with(br#"data: {"error""#) {
        Bytes::from([before, b"event: error\n", last].concat())
    } else {
        events
    }
}
