//! The client against servers that speak literal bytes, over real sockets.

#[path = "../../../tests/support/certificates.rs"]
mod certificates;
mod encodings;
mod endings;
mod exchange;
mod fetch;
mod models;
mod orders;
mod platform_keys;
mod platform_sub2api;
mod platforms;
mod silence;
mod ways;

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hyper::http::Request;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use super::{Answer, Client, ClientOptions, RequestBody, SendError, UpstreamBody};
use crate::routing::BaseUrl;

/// An upstream, and the number of connections that it has had.
struct Upstream {
    base: BaseUrl,
    port: u16,
    connections: Arc<AtomicUsize>,
}

impl Upstream {
    /// Serves each connection with `serve`, which gets the number of those before it.
    async fn start<F, S>(serve: S) -> Self
    where
        S: Fn(TcpStream, usize) -> F + Send + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let port = listener.local_addr().expect("its address").port();
        let connections = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&connections);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, counter.fetch_add(1, Ordering::SeqCst)));
            }
        });
        let base = BaseUrl::parse(&format!("http://127.0.0.1:{port}"), None).expect("a base address");
        Self { base, port, connections }
    }

    /// Answers every request with the same bytes, and keeps the connection open.
    async fn always(answer: impl Into<Vec<u8>>) -> Self {
        let answer: Arc<[u8]> = answer.into().into();
        Self::start(move |mut stream, _| {
            let answer = Arc::clone(&answer);
            async move {
                while read_request(&mut stream).await.is_some() {
                    if stream.write_all(&answer).await.is_err() {
                        return;
                    }
                }
            }
        })
        .await
    }

    /// Answers the first request of every connection, then closes it.
    async fn once(answer: impl Into<Vec<u8>>) -> Self {
        let answer: Arc<[u8]> = answer.into().into();
        Self::start(move |mut stream, _| {
            let answer = Arc::clone(&answer);
            async move {
                read_request(&mut stream).await;
                let _ = stream.write_all(&answer).await;
            }
        })
        .await
    }

    /// Answers by path, with `otherwise` where there is no such path; reports the requests that came.
    async fn by_path(
        answers: &[(&str, String)],
        otherwise: impl Into<String>,
    ) -> (Self, mpsc::UnboundedReceiver<String>) {
        let answers: Vec<(String, String)> =
            answers.iter().map(|(path, answer)| ((*path).to_owned(), answer.clone())).collect();
        let known = Arc::new((answers, otherwise.into()));
        let (seen, requests) = mpsc::unbounded_channel();
        let upstream = Self::start(move |mut stream, _| {
            let (seen, known) = (seen.clone(), Arc::clone(&known));
            async move {
                let (answers, otherwise) = &*known;
                while let Some(request) = read_request(&mut stream).await {
                    let path = request.split(' ').nth(1).expect("a path").to_owned();
                    let _ = seen.send(request);
                    let found = answers.iter().find(|(at, _)| *at == path).map(|(_, answer)| answer);
                    if stream.write_all(found.unwrap_or(otherwise).as_bytes()).await.is_err() {
                        return;
                    }
                }
            }
        })
        .await;
        (upstream, requests)
    }

    fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

fn client() -> Client {
    Client::new(ClientOptions::default())
}

/// Reads the head and body of the next request; `None` when the client has hung up.
async fn read_request(stream: &mut (impl AsyncRead + Unpin)) -> Option<String> {
    let mut request = Vec::new();
    let mut chunk = [0; 4096];
    loop {
        if let Some(end) = memchr::memmem::find(&request, b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&request[..end]).to_ascii_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            let length: usize = length.map_or(0, |length| length.parse().expect("a length"));
            if request.len() >= end + 4 + length {
                return Some(String::from_utf8(request).expect("a text"));
            }
        }
        match stream.read(&mut chunk).await {
            Ok(0) | Err(_) => return None,
            Ok(read) => request.extend_from_slice(&chunk[..read]),
        }
    }
}

fn post(body: impl Into<RequestBody>) -> Request<RequestBody> {
    Request::post("/v1/chat/completions").body(body.into()).expect("a request")
}

fn get(path: &str) -> Request<RequestBody> {
    Request::get(path).body(RequestBody::empty()).expect("a request")
}

async fn send(
    client: &Client,
    upstream: &Upstream,
    request: Request<RequestBody>,
) -> Result<Answer, SendError> {
    within(client.send(&upstream.base.origin, request)).await
}

/// Returns the whole body as text, or what came of it and the error that ended it.
async fn text(mut body: UpstreamBody) -> Result<String, (String, super::BodyError)> {
    let mut whole = Vec::new();
    while let Some(data) = within(body.data()).await {
        match data {
            Ok(data) => whole.extend_from_slice(&data),
            Err(error) => return Err((String::from_utf8_lossy(&whole).into_owned(), error)),
        }
    }
    Ok(String::from_utf8(whole).expect("a text"))
}

/// Waits for a future, with a time limit: nothing in these tests takes a second unless it hangs.
async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(20), future).await.expect("an end")
}

/// Lets the runtime look at its sockets: it does so at the latest every 61 turns.
async fn sockets_are_seen() {
    for _ in 0..200 {
        tokio::task::yield_now().await;
    }
}
