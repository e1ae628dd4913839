//! `bare-lazy PORT UPSTREAM_PORT DIRECTORY`: the practical limit, which does only what a gateway cannot do without.
//!
//! It does what `bare-raw` does, and: looks up the client's key by its hash, reads the body whole and skims it for `model`
//! and `stream`, splices in the upstream's name of the model without copying the body, reads usage while the answer passes,
//! and writes a row to a batched SQLite journal when it has ended.

use std::collections::HashMap;
use std::convert::Infallible;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Instant, SystemTime};

use bytes::{Bytes, BytesMut};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use hyper::header::{AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderValue};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use ring::digest::{SHA256, digest};
use serde::Deserialize;
use serde_json::value::RawValue;
use switchyard_bench::journal::{Journal, Row};
use switchyard_bench::payload::{CLIENT_KEY, FLUSHED_MODEL, MODEL, PACED_MODEL, UPSTREAM_KEY};
use switchyard_bench::pool::{Pool, Relayed};
use switchyard_bench::serve::{Whole, error, serve, strip_hop_by_hop};
use switchyard_bench::usage::UsageReader;

const BODY_LIMIT: usize = 50 << 20;
/// The bytes allocated for a body at first: its Content-Length is only the client's claim.
const FIRST_ALLOCATION: usize = 256 << 10;
const CHAT: &str = "/v1/chat/completions";

#[tokio::main]
async fn main() -> io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [port, upstream, directory] = arguments.as_slice() else {
        return Err(io::Error::other("usage: bare-lazy PORT UPSTREAM_PORT DIRECTORY"));
    };
    let port = port.parse().map_err(io::Error::other)?;
    let upstream = upstream.parse().map_err(io::Error::other)?;
    let proxy = Arc::new(Proxy::new(upstream, Path::new(directory))?);
    let service = service_fn(move |request| {
        let proxy = Arc::clone(&proxy);
        async move { Ok::<_, Infallible>(proxy.answer(request).await) }
    });
    match serve(port, service).await? {}
}

struct Proxy {
    pool: Arc<Pool<Parts>>,
    journal: Journal,
    /// The clients' ids by the SHA-256 of their keys.
    clients: HashMap<[u8; 32], i64>,
    upstream_key: HeaderValue,
    /// The upstream's name of each model, as a JSON string.
    models: HashMap<&'static str, Bytes>,
}

/// The members of a request body that matter here.
#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow)]
    model: &'a RawValue,
    #[serde(default)]
    stream: bool,
}

impl Proxy {
    fn new(upstream: u16, directory: &Path) -> io::Result<Self> {
        Ok(Self {
            pool: Pool::new(upstream),
            journal: Journal::open(directory).map_err(io::Error::other)?,
            clients: HashMap::from([(sha256(CLIENT_KEY.as_bytes()), 1)]),
            upstream_key: HeaderValue::from_str(&format!("Bearer {UPSTREAM_KEY}"))
                .map_err(io::Error::other)?,
            models: [MODEL, FLUSHED_MODEL, PACED_MODEL]
                .map(|model| (model, Bytes::from(format!("\"{model}\""))))
                .into(),
        })
    }

    async fn answer(&self, request: Request<Incoming>) -> Response<Answer> {
        let started = Instant::now();
        let (mut head, body) = request.into_parts();
        let Some(client_key) = self.client(&head.headers) else {
            return error(StatusCode::UNAUTHORIZED, "unknown key");
        };
        strip_hop_by_hop(&mut head.headers);
        head.headers.insert(AUTHORIZATION, self.upstream_key.clone());
        if head.uri.path() != CHAT {
            return match self.pool.send(Request::from_parts(head, Parts::default())).await {
                Ok(response) => response.map(|body| Answer::Relayed { body, observer: None }),
                Err(failed) => error(StatusCode::BAD_GATEWAY, &failed.to_string()),
            };
        }

        let body = match collect(body).await {
            Ok(body) => body,
            Err(message) => return error(StatusCode::BAD_REQUEST, &message),
        };
        let Ok(envelope) = serde_json::from_slice::<Envelope<'_>>(&body) else {
            return error(StatusCode::BAD_REQUEST, "the body is not a JSON object with a model");
        };
        let model: &str = serde_json::from_str(envelope.model.get()).unwrap_or_default();
        let Some((model, upstream_model)) = self.models.get_key_value(model) else {
            return error(StatusCode::NOT_FOUND, "unknown model");
        };
        let is_stream = envelope.stream;
        let parts = splice(&body, span(&body, envelope.model.get()), upstream_model);
        head.headers.insert(CONTENT_LENGTH, HeaderValue::from(parts.length()));

        let mut response = match self.pool.send(Request::from_parts(head, parts)).await {
            Ok(response) => response,
            Err(failed) => return error(StatusCode::BAD_GATEWAY, &failed.to_string()),
        };
        strip_hop_by_hop(response.headers_mut());
        let observer = Observer {
            journal: self.journal.clone(),
            started,
            first_byte: started.elapsed(),
            reader: UsageReader::new(is_event_stream(response.headers())),
            client_key,
            model,
            status: response.status().as_u16(),
            is_stream,
        };
        response.map(|body| Answer::Relayed { body, observer: Some(observer) })
    }

    fn client(&self, headers: &HeaderMap) -> Option<i64> {
        let key = headers.get(AUTHORIZATION)?.as_bytes().strip_prefix(b"Bearer ")?;
        self.clients.get(&sha256(key)).copied()
    }
}

fn sha256(bytes: &[u8]) -> [u8; 32] {
    let digest = digest(&SHA256, bytes);
    digest.as_ref().try_into().expect("SHA-256 gives 32 bytes")
}

fn is_event_stream(headers: &HeaderMap) -> bool {
    headers.get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"))
}

/// Reads the body into one piece: its only frame unchanged, or one buffer, which trusts the announced length once the
/// client has sent the first part of it.
async fn collect(mut body: Incoming) -> Result<Bytes, String> {
    let announced = body.size_hint().exact().unwrap_or(0).min(BODY_LIMIT as u64) as usize;
    let mut first = Bytes::new();
    let mut whole = BytesMut::new();
    while let Some(frame) = std::future::poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
        let Ok(data) = frame.map_err(|failed| failed.to_string())?.into_data() else { continue };
        if first.is_empty() {
            first = data;
            continue;
        }
        if whole.is_empty() {
            whole.reserve(announced.min(FIRST_ALLOCATION).max(first.len() + data.len()));
            whole.extend_from_slice(&first);
        }
        if whole.len() + data.len() > BODY_LIMIT {
            return Err("the body is too large".into());
        }
        if whole.len() + data.len() > whole.capacity() {
            whole.reserve(announced.saturating_sub(whole.len()).max(data.len()));
        }
        whole.extend_from_slice(&data);
    }
    Ok(if whole.is_empty() { first } else { whole.freeze() })
}

/// Returns the range of `part`, which was borrowed from `body`, within it.
fn span(body: &[u8], part: &str) -> Range<usize> {
    let start = part.as_ptr().addr() - body.as_ptr().addr();
    start..start + part.len()
}

fn splice(body: &Bytes, model: Range<usize>, upstream_model: &Bytes) -> Parts {
    Parts { pieces: [body.slice(..model.start), upstream_model.clone(), body.slice(model.end..)], next: 0 }
}

/// A request body in up to three pieces.
#[derive(Default)]
struct Parts {
    pieces: [Bytes; 3],
    next: usize,
}

impl Parts {
    fn length(&self) -> usize {
        self.pieces[self.next..].iter().map(Bytes::len).sum()
    }
}

impl Body for Parts {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let at = self.next;
        self.next = (at + 1).min(self.pieces.len());
        let piece = self.pieces.get_mut(at).map(std::mem::take);
        Poll::Ready(piece.map(|piece| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.length() == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.length() as u64)
    }
}

/// Reads usage beside an answer, and writes the answer's row when it is dropped, whether read to the end or not.
struct Observer {
    journal: Journal,
    started: Instant,
    first_byte: std::time::Duration,
    reader: UsageReader,
    client_key: i64,
    model: &'static str,
    status: u16,
    is_stream: bool,
}

impl Drop for Observer {
    fn drop(&mut self) {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        self.journal.write(Row {
            created_at: now.as_millis() as i64,
            client_key: self.client_key,
            path: CHAT,
            model_requested: self.model.to_owned(),
            model_actual: self.model.to_owned(),
            is_stream: self.is_stream,
            status: self.status,
            latency: self.started.elapsed(),
            first_byte: self.first_byte,
            usage: self.reader.finish(),
        });
    }
}

/// The body of an answer to the client: the upstream's, or our own error.
enum Answer {
    Relayed { body: Relayed<Parts>, observer: Option<Observer> },
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
            Self::Relayed { body, observer } => {
                let frame = Pin::new(&mut *body).poll_frame(context);
                if let Poll::Ready(Some(Ok(frame))) = &frame
                    && let (Some(data), Some(observer)) = (frame.data_ref(), observer)
                {
                    observer.reader.feed(data, body.is_end_stream());
                }
                frame
            }
            Self::Own(body) => Pin::new(body).poll_frame(context).map_err(|never| match never {}),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Relayed { body, .. } => body.is_end_stream(),
            Self::Own(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Relayed { body, .. } => body.size_hint(),
            Self::Own(body) => body.size_hint(),
        }
    }
}
