//! Answers that come compressed although the client wants none compressed.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use hyper::http::header::{CONTENT_ENCODING, CONTENT_LENGTH};

use super::{Upstream, client, get, send, text};

fn plain() -> String {
    (0..200).map(|n| format!("data: {{\"n\":{n}}}\n\n")).collect()
}

fn gzip(data: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(data).expect("memory");
    encoder.finish().expect("memory")
}

#[tokio::test]
async fn an_encoded_answer_is_decoded_on_the_way() {
    let encoded = gzip(plain().as_bytes());
    let mut answer =
        format!("HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: {}\r\n\r\n", encoded.len())
            .into_bytes();
    answer.extend_from_slice(&encoded);
    let (upstream, client) = (Upstream::always(answer).await, client());
    let response = send(&client, &upstream, get("/")).await.expect("a response");
    assert!(!response.head.headers.contains(&CONTENT_ENCODING));
    assert!(!response.head.headers.contains(&CONTENT_LENGTH));
    assert_eq!(text(response.body).await.expect("a body"), plain());
    assert_eq!(client.idle(&upstream.base.origin), 1);
}

#[tokio::test]
async fn an_encoded_answer_that_is_not_what_it_says_fails_once() {
    let upstream =
        Upstream::always("HTTP/1.1 200 OK\r\ncontent-encoding: br\r\ncontent-length: 3\r\n\r\n\x7f\x7f\x7f")
            .await;
    let mut body = send(&client(), &upstream, get("/")).await.expect("a response").body;
    assert!(body.data().await.expect("an error").is_err());
    assert!(body.data().await.is_none());
}
