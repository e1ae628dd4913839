//! `stub PORT`: the upstream of a bench, small and fast enough not to be what is measured.
//!
//! | request | answer |
//! |---|---|
//! | `GET /v1/models` | three models |
//! | `POST /v1/chat/completions` | 727 bytes of JSON |
//! | … with `"stream":true` | 100 chunks and `[DONE]`, all ready at once |
//! | … and `"model":"flushed"` | the same, each chunk in a write of its own |
//! | … and `"model":"paced"` | the same, one chunk every 10 ms |
//! | `POST /v1/messages` | the same streams in the messages dialect; only streams |
//! | `GET /sites/…/api/user/self` | an account's balance, after 20 ms |
//!
//! It runs on one thread: a request costs the same here for every target, and the other cores are theirs.

use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::slice;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use memchr::memmem;
use switchyard_bench::payload::{
    COMPLETION, FLUSHED_MODEL, MESSAGES_STREAM, MODELS, PACED_MODEL, STREAM, UPSTREAM_KEY,
};
use switchyard_bench::serve::{Whole, error, json, serve};
use tokio::time::{Instant, Sleep, sleep};

/// The time between two chunks of a paced stream.
const PACE: Duration = Duration::from_millis(10);
/// How long a site takes to report an account's balance; a quick one.
const THOUGHT: Duration = Duration::from_millis(20);
/// The balance report, in the format of new-api.
const ACCOUNT: Bytes = Bytes::from_static(
    br#"{"success":true,"message":"","data":{"id":1,"username":"bench","group":"default","quota":500000,"used_quota":1000,"request_count":7}}"#,
);
/// `model` and `stream` are within this many first bytes of the bodies that the load sends.
const HEAD_OF_BODY: usize = 128;
/// The bytes to search in bodies that the gateway has rewritten, where they may be anywhere.
const WHOLE_BODY: usize = 4 << 10;

#[tokio::main(flavor = "current_thread")]
async fn main() -> io::Result<()> {
    let port = std::env::args().nth(1).and_then(|port| port.parse().ok());
    let port = port.ok_or_else(|| io::Error::other("usage: stub PORT"))?;
    match serve(port, service_fn(answer)).await? {}
}

async fn answer(request: Request<Incoming>) -> Result<Response<Answer>, Infallible> {
    if key(request.headers()) != Some(UPSTREAM_KEY.as_bytes()) {
        return Ok(error(StatusCode::UNAUTHORIZED, "this is not the upstream's key"));
    }
    Ok(match (request.method(), request.uri().path()) {
        (&Method::GET, "/v1/models") => json(StatusCode::OK, MODELS.clone()),
        (&Method::POST, "/v1/chat/completions") => match drain(request.into_body(), HEAD_OF_BODY).await {
            Ok(asked) if !asks_for(&asked, "stream", "true") => json(StatusCode::OK, COMPLETION.clone()),
            Ok(asked) => stream(&asked, &STREAM),
            Err(_) => error(StatusCode::BAD_REQUEST, "the body broke off"),
        },
        (&Method::POST, "/v1/messages") => match drain(request.into_body(), WHOLE_BODY).await {
            Ok(asked) => stream(&asked, &MESSAGES_STREAM),
            Err(_) => error(StatusCode::BAD_REQUEST, "the body broke off"),
        },
        (&Method::GET, path) if path.starts_with("/sites/") && path.ends_with("/api/user/self") => {
            sleep(THOUGHT).await;
            json(StatusCode::OK, ACCOUNT)
        }
        _ => error(StatusCode::NOT_FOUND, "there is no such path"),
    })
}

/// Returns the request's key, from the header of either dialect.
fn key(headers: &HeaderMap) -> Option<&[u8]> {
    let bearer = headers.get(AUTHORIZATION).and_then(|value| value.as_bytes().strip_prefix(b"Bearer "));
    bearer.or_else(|| headers.get("x-api-key").map(HeaderValue::as_bytes))
}

/// Reads the body to its end, but keeps only its first bytes.
async fn drain(mut body: Incoming, kept: usize) -> Result<Vec<u8>, hyper::Error> {
    let mut head = Vec::with_capacity(kept);
    while let Some(frame) = std::future::poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
        if let Ok(data) = frame?.into_data() {
            let wanted = data.len().min(kept - head.len());
            head.extend_from_slice(&data[..wanted]);
        }
    }
    Ok(head)
}

/// Returns whether a body has this member, written without blanks.
fn asks_for(asked: &[u8], member: &str, value: &str) -> bool {
    memmem::find(asked, format!(r#""{member}":{value}"#).as_bytes()).is_some()
}

fn stream(asked: &[u8], events: &'static [Bytes]) -> Response<Answer> {
    let is_model = |model: &str| asks_for(asked, "model", &format!("\"{model}\""));
    let pace = match () {
        () if is_model(PACED_MODEL) => Pace::Timed(Box::pin(sleep(Duration::ZERO))),
        () if is_model(FLUSHED_MODEL) => Pace::Flushed { pause: false },
        () => Pace::Burst,
    };
    let mut response = Response::new(Answer::Stream { events: events.iter(), pace });
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    response
}

/// The body of the stub's answer.
enum Answer {
    Whole(Whole),
    Stream { events: slice::Iter<'static, Bytes>, pace: Pace },
}

/// When the next event of a stream is due.
enum Pace {
    /// At once: hyper combines events in its writes.
    Burst,
    /// At once, but after a pause in which hyper writes the last one.
    Flushed { pause: bool },
    /// When the timer fires.
    Timed(Pin<Box<Sleep>>),
}

impl Pace {
    fn poll_due(&mut self, context: &mut Context<'_>) -> Poll<()> {
        match self {
            Self::Burst => Poll::Ready(()),
            Self::Flushed { pause } => {
                *pause = !*pause;
                if *pause {
                    return Poll::Ready(());
                }
                context.waker().wake_by_ref();
                Poll::Pending
            }
            Self::Timed(timer) => {
                ready!(timer.as_mut().poll(context));
                let next = Instant::max(timer.deadline(), Instant::now() - PACE) + PACE;
                timer.as_mut().reset(next);
                Poll::Ready(())
            }
        }
    }
}

impl From<Whole> for Answer {
    fn from(whole: Whole) -> Self {
        Self::Whole(whole)
    }
}

impl Body for Answer {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match &mut *self {
            Self::Whole(whole) => Pin::new(whole).poll_frame(context),
            Self::Stream { events, pace } => {
                ready!(pace.poll_due(context));
                Poll::Ready(events.next().map(|event| Ok(Frame::data(event.clone()))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Whole(whole) if whole.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(whole) => whole.size_hint(),
            Self::Stream { .. } => SizeHint::default(),
        }
    }
}
