//! Keeps a stream open that takes long to begin: intermediaries between us and the client drop a connection on
//! which nothing comes.
//!
//! ```text
//! asked ────── silence ──────┬─▶ answered in time: the answer as it is, with its status
//!                            └─▶ the head of a stream, then a heartbeat now and then, until there is an
//!                                answer: its events follow, or one that tells why there is none
//! ```
//!
//! The attempts that go on meanwhile, from one channel to the next, do not know of the heartbeats. Those in the middle of
//! an answer are sent by [`relay`](crate::proxy::relay).

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame};
use tokio::time::Instant;

use crate::background;
use crate::dialect::canonical::ReplyContext;
use crate::dialect::responses::{self, PREVIOUS};
use crate::dialect::{Dialect, convert, errors};
use crate::http::body::Truncated;
use crate::http::timer::ReusableTimer;
use crate::http::{Response, ResponseBody};
use crate::settings::Heartbeats;
use crate::time::now_secs;

use crate::proxy::Proxy;
use crate::proxy::call::Call;
use crate::proxy::headers;
use crate::proxy::operation::Operation;
use crate::proxy::reply::ErrorShape;

/// The timing of the heartbeats before an answer.
pub(in crate::proxy) struct BeforeAnswer {
    shape: ErrorShape,
    /// What a failed answer repeats of its request; `None` in dialects whose errors repeat nothing.
    asked: Option<Asked>,
    /// The time from the request to the first heartbeat, and from each to the next.
    first: Duration,
    pause: Duration,
    timer: ReusableTimer,
}

/// A responses request, which its answer repeats.
struct Asked {
    body: Bytes,
    model: Arc<str>,
    previous: Option<String>,
}

impl BeforeAnswer {
    /// Returns `None` where none are sent: the operator wants none, or the answer will be no stream with comments.
    pub(in crate::proxy) fn of(call: &Call, timer: ReusableTimer) -> Option<Self> {
        let Heartbeats { first, pause } = call.settings.heartbeats;
        let first = first.filter(|_| call.envelope.stream && call.operation == Operation::Answer)?;
        let shape = call.shape;
        let asked = (shape.dialect == Dialect::Responses).then(|| Asked {
            body: call.body.clone(),
            model: Arc::clone(&call.model),
            previous: call.previous.clone(),
        });
        let pause = pause.unwrap_or(first);
        shape.dialect.is_answerable().then_some(Self { shape, asked, first, pause, timer })
    }

    /// Waits for the answer; returns it, or after the first pause a stream that begins with heartbeats and then carries it.
    pub(in crate::proxy) async fn wait(
        mut self,
        proxy: Arc<Proxy>,
        answering: impl Future<Output = Response> + Send + 'static,
    ) -> Response {
        let shape = self.shape;
        // Later the response may be under way, where a panic would only end the connection.
        let mut answering = Box::pin(async move {
            background::catch_panic(answering).await.unwrap_or_else(|panic| {
                log::error!("a request [{}] panicked: {panic}", shape.id.as_str());
                shape.refuse(500, "Internal error", None, None)
            })
        });
        let until = Instant::now() + self.first;
        let in_time = poll_fn(|context| {
            if let Poll::Ready(response) = answering.as_mut().poll(context) {
                return Poll::Ready(Some(response));
            }
            self.timer.poll_until(until, context).map(|()| None)
        });
        if let Some(response) = in_time.await {
            return response;
        }
        let asked = self.asked.take();
        let answering = Box::pin(async move {
            let answer = proxy.core.until_cut(answering).await;
            let answer = answer.unwrap_or_else(|| shape.refuse(503, "The service stopped", None, None));
            late_body(&proxy, shape, asked, answer).await
        });
        let state = State::Waiting { answering, until };
        let mut response = Response::new(ResponseBody::stream(HeartbeatBody { rules: self, state }));
        headers::event_stream(response.headers_mut());
        headers::request_id(shape.dialect, shape.id, response.headers_mut());
        response
    }
}

type Answering = Pin<Box<dyn Future<Output = ResponseBody> + Send>>;

/// The body of a stream that begins with heartbeats.
struct HeartbeatBody {
    rules: BeforeAnswer,
    state: State,
}

enum State {
    /// The answer has not begun; the next heartbeat is due at `until`.
    Waiting {
        answering: Answering,
        until: Instant,
    },
    Answered(ResponseBody),
}

impl Body for HeartbeatBody {
    type Data = Bytes;
    type Error = Truncated;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Truncated>>> {
        let Self { rules, state } = self.get_mut();
        loop {
            match state {
                State::Answered(body) => return Pin::new(body).poll_frame(context),
                State::Waiting { answering, until } => match answering.as_mut().poll(context) {
                    Poll::Ready(body) => *state = State::Answered(body),
                    Poll::Pending => {
                        ready!(rules.timer.poll_until(*until, context));
                        *until = Instant::now() + rules.pause;
                        let heartbeat = errors::heartbeat(rules.shape.dialect);
                        return Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(heartbeat)))));
                    }
                },
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.state {
            State::Waiting { .. } => false,
            State::Answered(body) => body.is_end_stream(),
        }
    }
}

/// Returns the body of an answer whose head has been sent already as a stream's: a refusal becomes an event.
async fn late_body(
    proxy: &Proxy,
    shape: ErrorShape,
    asked: Option<Asked>,
    mut response: Response,
) -> ResponseBody {
    let status = response.status();
    let body = std::mem::replace(response.body_mut(), ResponseBody::empty());
    if status.is_success() {
        return body;
    }
    let refusal = match body {
        ResponseBody::Full(bytes) => bytes.unwrap_or_default(),
        ResponseBody::Stream(_) => Bytes::new(),
    };
    let error = errors::read(status.as_u16(), &refusal);
    let Some(asked) = asked else { return ResponseBody::full(errors::stream_event(shape.dialect, &error)) };
    let context = proxy.conversions.read_through(asked.body.len(), || asked.reply_context(shape)).await;
    ResponseBody::full(Bytes::from(responses::failed_stream(&error, &context)))
}

impl Asked {
    /// Builds the context in which an answer is written that no upstream gave.
    fn reply_context(&self, shape: ErrorShape) -> ReplyContext {
        let body = std::str::from_utf8(&self.body).unwrap_or_default();
        let mut context = ReplyContext {
            now: now_secs(),
            fallback_id: shape.id.as_str().to_owned(),
            model: self.model.to_string(),
            ..convert::context_of(shape.dialect, body)
        };
        let previous =
            self.previous.as_ref().map(|id| (PREVIOUS, serde_json::Value::from(id.as_str()).to_string()));
        context.echo.extend(previous);
        context
    }
}
