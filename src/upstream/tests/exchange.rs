//! One exchange after another: reuse, streaming, bodies sent.

use std::io::{Read, Write};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body::Body;
use hyper::http::header::TRAILER;
use hyper::http::{Request, StatusCode};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::{Notify, mpsc};

use super::{Upstream, client, get, post, read_request, send, sockets_are_seen, text, within};
use crate::routing::{BaseUrl, Origin};
use crate::upstream::{
    self, Answer, Client, ErrorKind, ExchangeProgress, ReplyKind, RequestBody, SendError, SentPart, WorkKind,
};

#[tokio::test]
async fn a_connection_serves_again_once_an_answer_is_read() {
    for answer in [
        "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\no\r\n1\r\nk\r\n0\r\n\r\n",
        "HTTP/1.1 204 No Content\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
        "HTTP/1.0 200 OK\r\nconnection: keep-alive\r\ncontent-length: 2\r\n\r\nok",
    ] {
        let (upstream, client) = (Upstream::always(answer).await, client());
        for _ in 0..3 {
            let response =
                send(&client, &upstream, post(Bytes::from_static(b"{}"))).await.expect("a response");
            text(response.body).await.expect("a body");
            assert_eq!(client.idle(&upstream.base.origin), 1, "{answer}");
        }
        assert_eq!(upstream.connections(), 1, "{answer}");
    }
}

#[tokio::test]
async fn a_connection_that_the_upstream_ends_is_not_kept() {
    for answer in [
        "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok",
        "HTTP/1.1 200 OK\r\n\r\nok",
        "HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nok",
        "HTTP/1.0 200 OK\r\n\r\nok",
        "HTTP/1.1 200 OK\r\nkeep-alive: timeout=0\r\ncontent-length: 2\r\n\r\nok",
    ] {
        let (upstream, client) = (Upstream::once(answer).await, client());
        for _ in 0..2 {
            let response = send(&client, &upstream, get("/")).await.expect("a response");
            assert_eq!(text(response.body).await.expect("a body"), "ok");
            assert_eq!(client.idle(&upstream.base.origin), 0, "{answer}");
        }
        assert_eq!(upstream.connections(), 2, "{answer}");
    }
}

#[tokio::test]
async fn bytes_after_an_answer_cost_the_connection() {
    let (upstream, client) =
        (Upstream::always("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok, and more").await, client());
    let response = send(&client, &upstream, get("/")).await.expect("a response");
    assert_eq!(text(response.body).await.expect("a body"), "ok");
    assert_eq!(client.idle(&upstream.base.origin), 0);
}

#[tokio::test]
async fn a_kept_connection_that_has_died_is_replaced() {
    let closed = Arc::new(Notify::new());
    let close = Arc::clone(&closed);
    let upstream = Upstream::start(move |mut stream, _| {
        let close = Arc::clone(&close);
        async move {
            read_request(&mut stream).await;
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await;
            drop(stream);
            close.notify_one();
        }
    })
    .await;
    let client = client();
    for _ in 0..3 {
        let response = send(&client, &upstream, post(Bytes::from_static(b"{}"))).await.expect("a response");
        assert_eq!(text(response.body).await.expect("a body"), "ok");
        closed.notified().await;
        sockets_are_seen().await;
    }
    assert_eq!(upstream.connections(), 3);
}

#[tokio::test]
async fn an_upstream_that_hangs_up_after_every_answer_costs_no_request() {
    // In a thread, so that it hangs up while the runtime, which would notice, is held up on purpose.
    let (listener, origin) = listener();
    let (tell, closed) = std::sync::mpsc::channel();
    let (close, is_read) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut start = [0; 1024];
            let read = stream.read(&mut start);
            let answer = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
            let told = is_read.recv();
            drop(stream);
            if read.is_err() || answer.is_err() || told.is_err() || tell.send(()).is_err() {
                break;
            }
        }
    });
    let client = client();
    for number in 0..20 {
        let response = within(client.send(&origin, get("/"))).await;
        let response = response.unwrap_or_else(|error| panic!("request {number}: {error}"));
        assert_eq!(text(response.body).await.expect("a body"), "ok");
        close.send(()).expect("an upstream");
        closed.recv().expect("the end of the connection");
    }
}

/// Opens the listener of an upstream in a thread of its own.
fn listener() -> (std::net::TcpListener, Arc<Origin>) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let base = BaseUrl::parse(&format!("http://{}", listener.local_addr().expect("an address")), None);
    (listener, base.expect("a base address").origin)
}

/// Answers once on each connection and hangs up when it is asked again.
async fn hangs_up_on_the_second_request() -> (Upstream, mpsc::UnboundedReceiver<String>) {
    let (seen, requests) = mpsc::unbounded_channel();
    let upstream = Upstream::start(move |mut stream, _| {
        let seen = seen.clone();
        async move {
            let _ = seen.send(read_request(&mut stream).await.expect("a request"));
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await;
            if let Some(second) = read_request(&mut stream).await {
                let _ = seen.send(second);
            }
        }
    })
    .await;
    (upstream, requests)
}

async fn rest() {
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(5)).await;
    tokio::time::resume();
}

#[tokio::test]
async fn a_lookup_whose_rested_connection_dies_is_sent_again() {
    let ((upstream, mut requests), client) = (hangs_up_on_the_second_request().await, client());
    for path in ["/first", "/second"] {
        let response = send(&client, &upstream, get(path)).await.expect("a response");
        assert_eq!(text(response.body).await.expect("a body"), "ok");
        rest().await;
    }
    assert_eq!(upstream.connections(), 2);
    for expected in ["/first", "/second", "/second"] {
        assert!(requests.recv().await.expect("a request").starts_with(&format!("GET {expected} ")));
    }
}

/// Builds a request for this kind of work.
fn asks_for(work: WorkKind, body: Bytes) -> Box<upstream::Request> {
    let mut request = Box::new(upstream::Request::from(post(body)));
    request.work = work;
    request
}

fn again(work: WorkKind) -> Box<upstream::Request> {
    asks_for(work, Bytes::from_static(b"again"))
}

/// Sends a request for this kind of work.
async fn send_work(client: &Client, upstream: &Upstream, work: WorkKind) -> Result<Answer, SendError> {
    within(client.send_boxed(&upstream.base.origin, again(work))).await
}

#[tokio::test]
async fn what_an_upstream_has_read_is_not_sent_to_it_again() {
    for (rests, kind) in [(false, ErrorKind::Closed), (true, ErrorKind::Expired)] {
        for work in [WorkKind::Text, WorkKind::Creation] {
            let ((upstream, _requests), client) = (hangs_up_on_the_second_request().await, client());
            let response = send_work(&client, &upstream, work).await.expect("a response");
            text(response.body).await.expect("a body");
            if rests {
                rest().await;
            }
            let error = send_work(&client, &upstream, work).await.expect_err("no answer");
            assert_eq!((error.kind(), upstream.connections()), (kind, 1), "{work:?}");
            assert_eq!(
                error.progress(),
                ExchangeProgress { written: SentPart::Whole, came: ReplyKind::Nothing }
            );
        }
    }
}

/// The answer of a server that closes an idle connection.
const GOODBYE: &str = "HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";

#[tokio::test]
async fn a_goodbye_to_an_idle_connection_answers_no_request() {
    for (work, last) in [
        (WorkKind::Lookup, Ok("ok")),
        (WorkKind::Text, Ok("ok")),
        (WorkKind::Creation, Err(ErrorKind::Expired)),
    ] {
        let upstream = Upstream::start(|mut stream, _| async move {
            for answer in ["HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok", GOODBYE] {
                read_request(&mut stream).await;
                let _ = stream.write_all(answer.as_bytes()).await;
            }
        })
        .await;
        let client = client();
        let response = send_work(&client, &upstream, work).await.expect("a response");
        text(response.body).await.expect("a body");
        match (send_work(&client, &upstream, work).await, last) {
            (Ok(response), Ok(last)) => assert_eq!(text(response.body).await.expect("a body"), last),
            (Err(error), Err(kind)) => assert_eq!(error.kind(), kind, "{work:?}: {error}"),
            (other, _) => panic!("{work:?}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn a_408_is_an_answer_on_a_new_connection_and_where_the_connection_stays() {
    let upstream = Upstream::once(GOODBYE).await;
    let response = send_work(&client(), &upstream, WorkKind::Text).await.expect("a response");
    assert_eq!(response.head.status, StatusCode::REQUEST_TIMEOUT);
    let upstream = Upstream::always("HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\n\r\n").await;
    let client = client();
    for _ in 0..2 {
        let response = send_work(&client, &upstream, WorkKind::Text).await.expect("a response");
        assert_eq!(response.head.status, StatusCode::REQUEST_TIMEOUT);
    }
    assert_eq!(upstream.connections(), 1);
}

/// Sends requests for this kind of work one after the other; after each the upstream says `end` and closes the
/// connection.
async fn every_request_finds_its_connection_ended(work: WorkKind, end: &'static str) {
    // In a thread, so that it hangs up while the runtime is held up and does not notice.
    let (listener, origin) = listener();
    let (answered, connections) = std::sync::mpsc::channel();
    let (close, is_read) = std::sync::mpsc::channel();
    let (tell, closed) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.read(&mut [0; 1024]);
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
            if answered.send(()).is_err() || is_read.recv().is_err() {
                break;
            }
            let _ = stream.write_all(end.as_bytes());
            drop(stream);
            let _ = tell.send(());
        }
    });
    let client = client();
    for number in 0..5 {
        let response = within(client.send_boxed(&origin, again(work))).await;
        let response = response.unwrap_or_else(|error| panic!("request {number}: {error}"));
        assert_eq!(text(response.body).await.expect("a body"), "ok");
        // Without a rest, after which any socket would be looked at first.
        tokio::time::pause();
        close.send(()).expect("an upstream");
        closed.recv().expect("the end of the connection");
        tokio::time::resume();
    }
    assert_eq!(connections.try_iter().count(), 5);
}

#[tokio::test]
async fn what_came_before_a_creation_was_sent_costs_it_nothing() {
    for end in ["", GOODBYE] {
        every_request_finds_its_connection_ended(WorkKind::Creation, end).await;
    }
}

#[tokio::test]
async fn a_connection_that_is_closed_just_as_it_is_used_again_is_replaced() {
    every_request_finds_its_connection_ended(WorkKind::Text, "").await;
}

#[tokio::test]
async fn a_request_that_is_cut_short_on_its_way_is_sent_again() {
    let (listener, origin) = listener();
    let (answered, connections) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut kept = Vec::new();
        for mut stream in listener.incoming().flatten() {
            let mut start = [0; 1024];
            let _ = stream.read(&mut start);
            // Reported before it answers, so that whoever has the answer finds it counted.
            if answered.send(()).is_err() {
                break;
            }
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
            // The first connection ends with most of the second request unread.
            if kept.is_empty() {
                let _ = stream.read(&mut start);
                kept.push(None);
            } else {
                kept.push(Some(stream));
            }
        }
    });
    let client = client();
    for body in [Bytes::from_static(b"short"), Bytes::from(vec![b'x'; 32 << 20])] {
        let response =
            within(client.send_boxed(&origin, asks_for(WorkKind::Text, body))).await.expect("a response");
        assert_eq!(text(response.body).await.expect("a body"), "ok");
    }
    assert_eq!(connections.try_iter().count(), 2);
}

#[tokio::test]
async fn a_request_that_was_read_is_not_repeated_after_a_reset() {
    let upstream = Upstream::start(|mut stream, _| async move {
        read_request(&mut stream).await;
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await;
        read_request(&mut stream).await;
        // Like a load balancer that has lost its server.
        socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO)).expect("an option");
    })
    .await;
    let client = client();
    let response = send(&client, &upstream, post(Bytes::from_static(b"first"))).await.expect("a response");
    text(response.body).await.expect("a body");
    let error = send(&client, &upstream, post(Bytes::from_static(b"second"))).await.expect_err("no answer");
    assert_eq!(error.kind(), ErrorKind::Closed);
    assert!(error.message().contains("reset"), "{error}");
    assert_eq!(upstream.connections(), 1);
}

#[tokio::test]
async fn a_long_request_that_was_sent_whole_is_not_kept_to_be_repeated() {
    let ((upstream, _requests), client) = (hangs_up_on_the_second_request().await, client());
    let response = send(&client, &upstream, post(Bytes::from_static(b"first"))).await.expect("a response");
    text(response.body).await.expect("a body");
    rest().await;
    let long = Bytes::from(vec![b'x'; 1 << 20]);
    let error = send(&client, &upstream, post(long)).await.expect_err("no answer");
    assert_eq!((error.kind(), upstream.connections()), (ErrorKind::Expired, 1));
}

#[tokio::test]
async fn a_request_whose_answer_has_begun_is_not_repeated() {
    for begun in ["HTTP/1.1 200 OK\r\nconte", "HTTP/1.1 102 Processing\r\n\r\n"] {
        let upstream = Upstream::start(move |mut stream, _| async move {
            for answer in ["HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok", begun] {
                read_request(&mut stream).await;
                let _ = stream.write_all(answer.as_bytes()).await;
            }
        })
        .await;
        let client = client();
        let response = send(&client, &upstream, post(Bytes::from_static(b"1"))).await.expect("a response");
        text(response.body).await.expect("a body");
        rest().await;
        let error = send(&client, &upstream, post(Bytes::from_static(b"2"))).await.expect_err("no answer");
        assert_eq!((error.kind(), upstream.connections()), (ErrorKind::Closed, 1), "{begun}");
    }
}

#[tokio::test]
async fn idle_connections_are_closed_after_a_minute() {
    let hung_up = Arc::new(Notify::new());
    let tell = Arc::clone(&hung_up);
    let upstream = Upstream::start(move |mut stream, _| {
        let tell = Arc::clone(&tell);
        async move {
            read_request(&mut stream).await;
            let _ = stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await;
            read_request(&mut stream).await;
            tell.notify_one();
        }
    })
    .await;
    let client = client();
    send(&client, &upstream, get("/")).await.expect("a response");
    assert_eq!(client.idle(&upstream.base.origin), 1);
    tokio::time::pause();
    tokio::time::timeout(Duration::from_secs(80), hung_up.notified())
        .await
        .expect("the upstream sees the end");
    assert_eq!(client.idle(&upstream.base.origin), 0);
}

#[tokio::test]
async fn a_body_in_pieces_arrives_as_one() {
    let (seen, mut requests) = mpsc::unbounded_channel();
    let upstream = Upstream::start(move |mut stream, _| {
        let seen = seen.clone();
        async move {
            let _ = seen.send(read_request(&mut stream).await.expect("a request"));
            let _ = stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await;
        }
    })
    .await;
    let pieces =
        [r#"{"model":"#, r#""gpt-5""#, r#","n":1}"#].map(|piece| Bytes::from_static(piece.as_bytes()));
    let body = RequestBody::from(pieces);
    let request = Request::post("http://elsewhere/v1/x?y=1")
        .header("content-length", "9")
        .header("accept-encoding", "br")
        .body(body)
        .expect("a request");
    send(&client(), &upstream, request).await.expect("a response");
    let request = requests.recv().await.expect("a request");
    assert!(request.starts_with("POST /v1/x?y=1 HTTP/1.1\r\n"), "{request}");
    assert!(request.contains(&format!("host: 127.0.0.1:{}\r\n", upstream.port)), "{request}");
    assert!(request.contains("content-length: 23\r\n"), "{request}");
    assert!(request.contains("accept-encoding: identity\r\n"), "{request}");
    assert!(request.ends_with(r#"{"model":"gpt-5","n":1}"#), "{request}");
}

#[tokio::test]
async fn interim_responses_and_trailers_are_dropped() {
    let answer = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n\
                  HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ntrailer: x-sum\r\n\r\n2\r\nok\r\n0\r\nx-sum: 1\r\n\r\n";
    let (upstream, client) = (Upstream::always(answer).await, client());
    let response = send(&client, &upstream, get("/")).await.expect("a response");
    assert_eq!(response.head.status, StatusCode::OK);
    assert!(response.head.headers.contains(&TRAILER));
    assert_eq!(text(response.body).await.expect("a body"), "ok");
    assert_eq!(client.idle(&upstream.base.origin), 1);
}

#[tokio::test]
async fn events_that_arrive_together_leave_together() {
    let go = Arc::new(Notify::new());
    let started = Arc::clone(&go);
    let upstream = Upstream::start(move |mut stream, _| {
        let go = Arc::clone(&started);
        async move {
            read_request(&mut stream).await;
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").await;
            for burst in [1, 50] {
                go.notified().await;
                let mut bytes = "9\r\ndata: 1\n\n\r\n".repeat(burst);
                if burst > 1 {
                    bytes.push_str("0\r\n\r\n");
                }
                let _ = stream.write_all(bytes.as_bytes()).await;
            }
            go.notified().await;
        }
    })
    .await;
    let client = client();
    let mut body = send(&client, &upstream, get("/")).await.expect("a response").body;
    go.notify_one();
    assert_eq!(within(body.data()).await.expect("data").expect("data"), "data: 1\n\n");
    assert!(!body.is_end_stream());
    go.notify_one();
    assert_eq!(within(body.data()).await.expect("data").expect("data"), "data: 1\n\n".repeat(50));
    assert!(body.is_end_stream(), "the end that came along is known without another read");
    assert_eq!(client.idle(&upstream.base.origin), 1);
    assert!(body.data().await.is_none());
}

#[tokio::test]
async fn a_large_body_passes_unchanged() {
    let whole: Vec<u8> = (0..3_000_000_u32).map(|n| b'a' + (n % 23) as u8).collect();
    let mut answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", whole.len()).into_bytes();
    answer.extend_from_slice(&whole);
    let (upstream, client) = (Upstream::always(answer).await, client());
    let response = send(&client, &upstream, get("/")).await.expect("a response");
    assert_eq!(response.body.size_hint().exact(), Some(3_000_000));
    assert!(text(response.body).await.expect("a body").into_bytes() == whole);
    assert_eq!(client.idle(&upstream.base.origin), 1);
}

#[tokio::test]
async fn an_answer_before_the_request_is_sent_is_heard() {
    let upstream = Upstream::start(|mut stream, _| async move {
        let mut start = [0; 1024];
        let _ = stream.read(&mut start).await;
        let _ =
            stream.write_all(b"HTTP/1.1 413 Payload Too Large\r\ncontent-length: 8\r\n\r\ntoo much").await;
        // Reads no further, and hangs up only when the client does.
        let _ = stream.writable().await;
        std::future::pending::<()>().await;
    })
    .await;
    let client = client();
    let response =
        send(&client, &upstream, post(Bytes::from(vec![b'x'; 32 << 20]))).await.expect("a response");
    assert_eq!(response.head.status, StatusCode::PAYLOAD_TOO_LARGE);
    assert_eq!(text(response.body).await.expect("a body"), "too much");
    assert_eq!(client.idle(&upstream.base.origin), 0, "the rest of the request is still due on it");
}
