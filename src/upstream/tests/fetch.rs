//! Whole answers within limits, and redirects.

use std::time::Duration;

use bytes::Bytes;
use hyper::http::{Request, StatusCode};
use tokio::io::AsyncWriteExt;
use tokio::sync::mpsc;

use super::{Upstream, client, read_request, within};
use crate::upstream::{ErrorKind, FetchError, FetchLimits};

fn login() -> Request<Bytes> {
    Request::post("/login")
        .header("authorization", "Bearer secret")
        .body(Bytes::from_static(b"{}"))
        .expect("a request")
}

/// Answers by path, and reports the requests that came.
async fn site(answers: &[(&str, String)]) -> (Upstream, mpsc::UnboundedReceiver<String>) {
    Upstream::by_path(answers, "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n").await
}

fn redirect(status: u16, location: &str) -> String {
    format!("HTTP/1.1 {status} Found\r\nlocation: {location}\r\ncontent-length: 0\r\n\r\n")
}

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

#[tokio::test]
async fn redirects_on_the_same_host_are_followed() {
    for (status, location, expected) in [
        (302, "/home", "POST /home"),
        (303, "home?x=1#top", "GET /home?x=1"),
        (307, "/home", "POST /home"),
        (308, "http://127.0.0.1:PORT/home", "POST /home"),
        (307, "//127.0.0.1:PORT/home", "POST /home"),
        (307, "?again", "POST /login?again"),
    ] {
        // The port of the site is known only while it runs: it is read from the connection.
        let (seen, mut requests) = mpsc::unbounded_channel();
        let upstream = Upstream::start(move |mut stream, _| {
            let seen = seen.clone();
            async move {
                let port = stream.local_addr().expect("an address").port().to_string();
                while let Some(request) = read_request(&mut stream).await {
                    let first = request.starts_with("POST /login HTTP");
                    let _ = seen.send(request);
                    let next = redirect(status, &location.replace("PORT", &port));
                    let answer = if first { next.as_bytes() } else { OK.as_bytes() };
                    let _ = stream.write_all(answer).await;
                }
            }
        })
        .await;
        let answer =
            within(client().fetch(&upstream.base, login(), FetchLimits::default())).await.expect(location);
        assert_eq!((answer.status(), answer.body().as_ref()), (StatusCode::OK, b"ok".as_slice()));
        requests.recv().await.expect("the first request");
        let second = requests.recv().await.expect("the second request");
        assert!(second.starts_with(&format!("{expected} HTTP/1.1\r\n")), "{location}: {second}");
        assert_eq!(second.ends_with("{}"), expected.starts_with("POST"), "{second}");
        assert!(second.contains("authorization: Bearer secret\r\n"), "{second}");
        assert_eq!(upstream.connections(), 1, "{location}");
    }
}

#[tokio::test]
async fn no_credential_follows_a_redirect_elsewhere() {
    let (other, _requests) = site(&[("/home", OK.into())]).await;
    for elsewhere in [
        format!("http://127.0.0.1:{}/home", other.port),
        format!("http://localhost:{}/home", other.port),
        format!("//localhost:{}/home", other.port),
        "https://example.com/home".to_owned(),
        "http://[::1/home".to_owned(),
    ] {
        let (upstream, _requests) = site(&[("/login", redirect(307, &elsewhere))]).await;
        let error = within(client().fetch(&upstream.base, login(), FetchLimits::default()))
            .await
            .expect_err(&elsewhere);
        assert!(matches!(error, FetchError::Redirect(_)), "{elsewhere}: {error}");
        assert!(!error.to_string().contains("secret"));
    }
    assert_eq!(other.connections(), 0);
}

#[tokio::test]
async fn redirects_come_to_an_end() {
    let (upstream, mut requests) = site(&[("/login", redirect(307, "/login"))]).await;
    let error =
        within(client().fetch(&upstream.base, login(), FetchLimits::default())).await.expect_err("a loop");
    assert!(matches!(error, FetchError::Redirect(_)), "{error}");
    let mut count = 0;
    while requests.try_recv().is_ok() {
        count += 1;
    }
    assert_eq!(count, 4);
}

#[tokio::test]
async fn an_answer_is_bounded_in_time_and_size() {
    let slow = Upstream::start(|mut stream, _| async move {
        read_request(&mut stream).await;
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nok").await;
        std::future::pending::<()>().await;
    })
    .await;
    let limits = FetchLimits { timeout: Duration::from_millis(50), max_bytes: 10 };
    let error = client().fetch(&slow.base, login(), limits).await.expect_err("no end");
    assert!(error.is_timeout(), "{error}");

    let large =
        Upstream::always("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nb\r\nhello world\r\n").await;
    let limits = FetchLimits { timeout: Duration::from_secs(20), max_bytes: 10 };
    let error = client().fetch(&large.base, login(), limits).await.expect_err("too much");
    assert!(matches!(error, FetchError::TooLarge(10)), "{error}");

    let cut = Upstream::once("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nok").await;
    let error = client().fetch(&cut.base, login(), limits).await.expect_err("cut");
    assert!(matches!(&error, FetchError::Body(error) if error.kind() == ErrorKind::Closed), "{error}");
}
