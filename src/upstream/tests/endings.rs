//! Exchanges that end early: broken by the upstream, or given up by us.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Notify;

use super::{Upstream, client, get, read_request, send, text, within};
use crate::routing::BaseUrl;
use crate::upstream::{Client, ClientOptions, ErrorKind};

#[tokio::test]
async fn a_body_that_breaks_gives_what_came_and_then_says_so() {
    use ErrorKind::{Closed, Protocol};
    let chunked = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
    for (answer, came, kind) in [
        (format!("{chunked}2\r\nok\r\n"), "ok", Closed),
        (format!("{chunked}5\r\nok"), "ok", Closed),
        (format!("{chunked}2\r\nok\r\nzz\r\nno\r\n"), "ok", Protocol),
        (format!("{chunked}2\r\nokay\r\n"), "ok", Protocol),
        (format!("{chunked}ffffffffffffffffff\r\n"), "", Protocol),
        ("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nok".to_owned(), "ok", Closed),
    ] {
        let (upstream, client) = (Upstream::once(answer.clone()).await, client());
        let response = send(&client, &upstream, get("/")).await.expect("a response");
        let (before, error) = text(response.body).await.expect_err("a broken body");
        assert_eq!((before.as_str(), error.kind()), (came, kind), "{answer} {error}");
        assert_eq!(client.idle(&upstream.base.origin), 0, "{answer}");
    }
}

#[tokio::test]
async fn a_body_ends_after_its_error() {
    let upstream = Upstream::once("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n").await;
    let mut body = send(&client(), &upstream, get("/")).await.expect("a response").body;
    assert!(within(body.data()).await.expect("an error").is_err());
    assert!(within(body.data()).await.is_none());
}

#[tokio::test]
async fn an_answer_that_is_none_is_typed() {
    use ErrorKind::{Closed, Protocol};
    let endless = format!("HTTP/1.1 200 OK\r\nx: {}\r\n", "y".repeat(200_000));
    for (answer, kind) in [
        ("", Closed),
        ("HTTP/1.1 200 OK\r\nx: y", Closed),
        ("SSH-2.0-OpenSSH_9.6\r\n\r\n", Protocol),
        ("HTTP/1.1 two OK\r\n\r\n", Protocol),
        ("HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nok", Protocol),
        ("HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n", Protocol),
        ("HTTP/1.1 200 OK\r\ncontent-encoding: rot13\r\ncontent-length: 2\r\n\r\nbx", Protocol),
        (&endless, Protocol),
    ] {
        let upstream = Upstream::once(answer).await;
        let error = send(&client(), &upstream, get("/")).await.expect_err("no response");
        assert_eq!(error.kind(), kind, "{} {error}", &answer[..answer.len().min(60)]);
    }
}

#[tokio::test]
async fn what_cannot_be_reached_is_typed() {
    let free = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let port = free.local_addr().expect("its address").port();
    drop(free);
    for (url, kind) in [
        (format!("http://127.0.0.1:{port}"), ErrorKind::Connect),
        (format!("http://localhost:{port}"), ErrorKind::Connect),
        ("http://-.invalid".to_owned(), ErrorKind::Dns),
    ] {
        let base = BaseUrl::parse(&url, None).expect("a base address");
        let error = within(client().send(&base.origin, get("/"))).await.expect_err("no response");
        assert_eq!(error.kind(), kind, "{url}: {error}");
    }
}

#[tokio::test]
async fn connecting_has_a_time_limit() {
    // TLS that is never answered: the listener accepts and says nothing.
    let upstream = Upstream::start(|stream, _| async move {
        std::future::pending::<()>().await;
        drop(stream);
    })
    .await;
    let base = BaseUrl::parse(&format!("https://127.0.0.1:{}", upstream.port), None).expect("a base address");
    let client =
        Client::new(ClientOptions { connect_timeout: Duration::from_millis(50), ..ClientOptions::default() });
    let error = within(client.send(&base.origin, get("/"))).await.expect_err("no response");
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
}

/// Streams the start of an answer, and notifies when the client has hung up.
async fn endless(start: &'static str) -> (Upstream, Arc<Notify>) {
    let hung_up = Arc::new(Notify::new());
    let tell = Arc::clone(&hung_up);
    let upstream = Upstream::start(move |mut stream: TcpStream, _| {
        let tell = Arc::clone(&tell);
        async move {
            read_request(&mut stream).await;
            let _ = stream.write_all(start.as_bytes()).await;
            let mut byte = [0];
            assert!(!matches!(stream.read(&mut byte).await, Ok(1..)), "nothing more is sent");
            tell.notify_one();
        }
    })
    .await;
    (upstream, hung_up)
}

#[tokio::test]
async fn dropping_a_body_closes_the_connection() {
    let (upstream, hung_up) =
        endless("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n").await;
    let client = client();
    let mut body = send(&client, &upstream, get("/")).await.expect("a response").body;
    assert_eq!(within(body.data()).await.expect("data").expect("data"), "ok");
    drop(body);
    within(hung_up.notified()).await;
    assert_eq!(client.idle(&upstream.base.origin), 0);
}

#[tokio::test]
async fn giving_up_on_an_answer_closes_the_connection() {
    let (upstream, hung_up) = endless("HTTP/1.1 100 Continue\r\n\r\n").await;
    let client = client();
    let waiting = tokio::spawn(async move { client.send(&upstream.base.origin, get("/")).await.is_ok() });
    while upstream.connections.load(std::sync::atomic::Ordering::SeqCst) == 0 {
        tokio::task::yield_now().await;
    }
    super::sockets_are_seen().await;
    waiting.abort();
    within(hung_up.notified()).await;
}

#[tokio::test]
async fn a_reader_that_stops_at_the_last_event_leaves_a_good_connection() {
    let go = Arc::new(Notify::new());
    let started = Arc::clone(&go);
    let upstream = Upstream::start(move |mut stream, _| {
        let go = Arc::clone(&started);
        async move {
            read_request(&mut stream).await;
            let head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nE\r\ndata: [DONE]\n\n\r\n";
            let _ = stream.write_all(head).await;
            go.notified().await;
            let _ = stream.write_all(b"0\r\n\r\n").await;
            go.notify_one();
            read_request(&mut stream).await;
        }
    })
    .await;
    let client = client();
    let mut body = send(&client, &upstream, get("/")).await.expect("a response").body;
    assert_eq!(within(body.data()).await.expect("data").expect("data"), "data: [DONE]\n\n");
    go.notify_one();
    tokio::task::yield_now().await;
    go.notified().await;
    super::sockets_are_seen().await;
    drop(body);
    assert_eq!(client.idle(&upstream.base.origin), 1);
}
