//! The stub upstream: one model, whose streamed response takes its time.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::Future;
use std::net::Ipv4Addr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming};
use hyper::{Method, Request, Response, StatusCode, header, service::service_fn};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::time::{Instant, Sleep};

/// The only model.
pub(super) const MODEL: &str = "demo-model";
/// The API key of the demo's account at this site.
pub(super) const KEY: &str = "sk-demo-upstream";

const ANSWER: &str = "I stand in for a site. Your request reached me through the gateway with the model's name \
    and my key put in, and every word of mine goes back to you as soon as I say it.";
const PAUSE: Duration = Duration::from_millis(40);

/// Starts the stub on a free port and returns its address. It ends with the runtime.
pub(super) async fn start() -> Result<String, String> {
    let tell = |error| format!("the stub upstream did not start: {error}");
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.map_err(tell)?;
    let address = listener.local_addr().map_err(tell)?;
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            // Without it the words are delayed and sent together.
            let _ = socket.set_nodelay(true);
            let service = service_fn(|request| async move { Ok::<_, Infallible>(answer(&request)) });
            let connection =
                hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(socket), service);
            tokio::spawn(connection);
        }
    });
    Ok(format!("http://{address}"))
}

fn answer(request: &Request<Incoming>) -> Response<Paced> {
    let authorized =
        request.headers().get(header::AUTHORIZATION).is_some_and(|value| value == &format!("Bearer {KEY}"));
    match (request.method(), request.uri().path()) {
        _ if !authorized => {
            let error = json!({"error": {"message": "Incorrect API key", "type": "invalid_request_error"}});
            reply(StatusCode::UNAUTHORIZED, &error)
        }
        (&Method::GET, "/v1/models") => {
            let model = json!({"id": MODEL, "object": "model", "created": 1_767_225_600, "owned_by": "demo"});
            reply(StatusCode::OK, &json!({"object": "list", "data": [model]}))
        }
        (&Method::POST, "/v1/chat/completions") => {
            let mut response = Response::new(Paced::new(events()));
            let content_type = header::HeaderValue::from_static("text/event-stream");
            response.headers_mut().insert(header::CONTENT_TYPE, content_type);
            response
        }
        _ => reply(
            StatusCode::NOT_FOUND,
            &json!({"error": {"message": "Not found", "type": "not_found_error"}}),
        ),
    }
}

fn reply(status: StatusCode, body: &Value) -> Response<Paced> {
    let mut response = Response::new(Paced::new([body.to_string()].into()));
    *response.status_mut() = status;
    let content_type = header::HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, content_type);
    response
}

/// Builds the events of the streamed response: one per word, the end, the usage.
fn events() -> VecDeque<String> {
    let event = |delta: Value, finish: Option<&str>, usage: Value| {
        let choices = if usage.is_null() {
            json!([{"index": 0, "delta": delta, "finish_reason": finish}])
        } else {
            json!([])
        };
        let chunk = json!({"id": "chatcmpl-demo", "object": "chat.completion.chunk", "created": 1_767_225_600,
            "model": MODEL, "choices": choices, "usage": usage});
        format!("data: {chunk}\n\n")
    };
    let words: Vec<&str> = ANSWER.split_inclusive(' ').collect();
    let usage =
        json!({"prompt_tokens": 5, "completion_tokens": words.len(), "total_tokens": 5 + words.len()});
    let mut events = VecDeque::from([event(json!({"role": "assistant", "content": ""}), None, Value::Null)]);
    events.extend(words.into_iter().map(|word| event(json!({"content": word}), None, Value::Null)));
    events.push_back(event(json!({}), Some("stop"), Value::Null));
    events.push_back(event(Value::Null, None, usage));
    events.push_back("data: [DONE]\n\n".to_owned());
    events
}

/// A body whose pieces come one after the other, with a pause between them.
struct Paced {
    pieces: VecDeque<String>,
    pause: Pin<Box<Sleep>>,
}

impl Paced {
    fn new(pieces: VecDeque<String>) -> Self {
        Self { pieces, pause: Box::pin(tokio::time::sleep(Duration::ZERO)) }
    }
}

impl Body for Paced {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = self.get_mut();
        if this.pieces.is_empty() {
            return Poll::Ready(None);
        }
        if this.pause.as_mut().poll(context).is_pending() {
            return Poll::Pending;
        }
        this.pause.as_mut().reset(Instant::now() + PAUSE);
        Poll::Ready(this.pieces.pop_front().map(|piece| Ok(Frame::data(Bytes::from(piece)))))
    }
}
