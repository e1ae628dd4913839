//! The tests' own tools: the client reads exactly what the stub upstream sends, so that a failure elsewhere is the
//! gateway's.

use std::io::Read;
use std::time::Duration;

use serde_json::json;

use crate::support::{Caller, Gate, Reply, Request, SOON, Upstream, eventually, seconds_ahead, wire};

fn caller(upstream: &Upstream) -> Caller {
    let address = upstream.url().trim_start_matches("http://").parse();
    Caller::new(address.expect("an address"))
}

#[test]
fn a_faithful_stub_answers_every_dialect_streamed_and_not() {
    let upstream = Upstream::start(&["m"]);
    let caller = caller(&upstream);
    assert_eq!(caller.get("/v1/models").expect(200)["data"][0]["id"], "m");
    for (path, events) in [
        ("/v1/chat/completions", wire::chat_events("m")),
        ("/v1/responses", wire::response_events("m")),
        ("/v1/messages", wire::message_events("m")),
        ("/v1/completions", wire::completion_events("m")),
    ] {
        let whole = caller.post(path, &json!({"model": "m"})).expect(200);
        assert_eq!(whole["model"], "m", "{path}");
        let mut stream = caller.stream(Request::post(path).json(&json!({"model": "m", "stream": true})));
        for event in &events {
            assert_eq!(stream.next_event().expect("no break").as_ref(), Some(event), "{path}");
        }
        assert_eq!(stream.next_event().expect("no break"), None);
    }
    assert_eq!(caller.get("/nothing").status, 404);
    assert_eq!(upstream.asked_for("/v1/messages").len(), 2);
}

#[test]
fn a_later_answer_replaces_an_earlier_one_and_a_single_one_is_used_up() {
    let upstream = Upstream::start(&["m"]);
    let caller = caller(&upstream);
    let ask = || caller.chat("m").status;
    upstream.answer("/v1/chat/completions", Reply::error(500, "x"));
    upstream.answer_once("/v1/chat/completions", Reply::error(429, "x"));
    upstream.answer_model("/v1/chat/completions", "other", Reply::error(418, "x"));
    assert_eq!([ask(), ask(), ask()], [429, 500, 500]);
    assert_eq!(caller.chat("other").status, 418);
    upstream.answer_faithfully();
    assert_eq!(ask(), 200);
}

#[test]
fn a_stub_breaks_streams_and_notices_who_left() {
    let upstream = Upstream::start(&["m"]);
    let caller = caller(&upstream);
    upstream.answer("/x", Reply::events(["a", "b", "c"]).cut_after(2));
    let (bytes, end) = caller.stream(Request::new("GET", "/x")).rest();
    assert_eq!(bytes, b"ab");
    assert!(end.is_err(), "a cut is no clean end");

    upstream.answer("/x", Reply::silence());
    assert!(caller.try_send(Request::new("GET", "/x")).is_err());

    upstream.answer("/x", Reply::events(["a", "b"]).stalls_after(1));
    let mut stream = caller.stream(Request::new("GET", "/x"));
    assert_eq!(stream.next_piece().expect("no break"), Some(b"a".to_vec()));
    let asked = upstream.last("/x");
    assert!(!asked.hung_up());
    drop(stream);
    eventually("the stub notices", || asked.hung_up().then_some(()));

    let gate = Gate::new();
    upstream.answer("/x", Reply::events(["a", "b"]).waits_for(1, &gate));
    let mut stream = caller.stream(Request::new("GET", "/x"));
    stream.next_piece().expect("the first piece needs no gate");
    stream.set_timeout(Duration::from_millis(50));
    assert!(stream.next_piece().is_err(), "the second one does");
    gate.open();
    stream.set_timeout(SOON);
    assert_eq!(stream.next_piece().expect("no break"), Some(b"b".to_vec()));

    upstream.refuse();
    assert!(caller.try_send(Request::new("GET", "/x")).is_err());
}

#[test]
fn one_connection_carries_several_requests() {
    let upstream = Upstream::start(&["m"]);
    let caller = caller(&upstream);
    let mut connection = caller.connect();
    for _ in 0..3 {
        let answer = connection.exchange(&caller.bytes(Request::new("GET", "/v1/models")));
        assert_eq!(answer.status, 200);
    }
    caller.get("/v1/models").expect(200);
    let connections: Vec<usize> = upstream.asked().iter().map(|asked| asked.connection).collect();
    assert_eq!(connections, [0, 0, 0, 1]);
}

#[test]
fn the_content_encodings_are_what_their_decoders_read() {
    let plain = wire::chat("m").to_string().into_bytes();
    let mut decoded = Vec::new();
    flate2::read::GzDecoder::new(&wire::gzip(&plain)[..]).read_to_end(&mut decoded).expect("gzip");
    assert_eq!(decoded, plain);
    decoded.clear();
    let brotli = wire::brotli(&plain);
    brotli_decompressor::Decompressor::new(&brotli[..], 4096).read_to_end(&mut decoded).expect("brotli");
    assert_eq!(decoded, plain);
    decoded.clear();
    let zstd = wire::zstd(&plain);
    let mut decoder = ruzstd::decoding::StreamingDecoder::new(&zstd[..]).expect("a zstd frame");
    decoder.read_to_end(&mut decoded).expect("zstd");
    assert_eq!(decoded, plain);
}

#[test]
fn times_are_read_as_they_are_written() {
    assert!(seconds_ahead(&json!("2000-02-29T12:00:00.000Z")) < 0);
    let day = |text: &str| seconds_ahead(&json!(text));
    assert_eq!(day("2024-03-01T00:00:00.000Z") - day("2024-02-28T00:00:00.000Z"), 2 * 86_400);
    assert_eq!(day("2026-01-01T00:00:01.000Z") - day("2025-12-31T23:59:59.000Z"), 2);
    let epoch = -(std::time::SystemTime::UNIX_EPOCH.elapsed().expect("a clock").as_secs() as i64);
    assert!((day("1970-01-01T00:00:00.000Z") - epoch).abs() <= 1);
}
