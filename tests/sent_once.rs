//! A request that an upstream may be working on is not sent to it again: a text request goes only to the next channel, and
//! one that would create something twice goes nowhere.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::paths::{CHAT, VIDEOS};
use crate::support::{Answer, Gateway, Pair, ReceivedRequest, Reply, Request, Upstream, eventually, wire};

const GENERATIONS: &str = "/v1/images/generations";
const EDITS: &str = "/v1/images/edits";

fn text_of(path: &str, more: Value) -> Request {
    let mut body = more;
    body["model"] = json!(Pair::MODEL);
    Request::post(path).json(&body)
}

fn form_to(path: &str) -> Request {
    let field =
        |head: &str, value: &str| format!("--b\r\nContent-Disposition: form-data; {head}\r\n\r\n{value}\r\n");
    let body = field("name=\"model\"", Pair::MODEL)
        + &field("name=\"prompt\"", "a signal box")
        + &field("name=\"image\"; filename=\"a.png\"", "PNG")
        + "--b--\r\n";
    Request::post(path).header("content-type", "multipart/form-data; boundary=b").body(body)
}

/// Returns requests for a text, by path.
fn texts() -> Vec<(&'static str, Request)> {
    let turns = json!([{"role": "user", "content": "Which way?"}]);
    vec![
        (CHAT, text_of(CHAT, json!({"messages": turns}))),
        (CHAT, text_of(CHAT, json!({"messages": turns, "stream": true}))),
        ("/v1/embeddings", text_of("/v1/embeddings", json!({"input": "x"}))),
    ]
}

/// Returns requests for things that are expensive or permanent, by path.
fn creations() -> Vec<(&'static str, Request)> {
    vec![
        (VIDEOS, text_of(VIDEOS, json!({"prompt": "a train"}))),
        (VIDEOS, form_to(VIDEOS)),
        (GENERATIONS, text_of(GENERATIONS, json!({"prompt": "a signal box"}))),
        (GENERATIONS, text_of(GENERATIONS, json!({"prompt": "a signal box", "stream": true}))),
        (EDITS, form_to(EDITS)),
    ]
}

/// Starts a pair whose first upstream has just served a request, so that a connection to it is kept.
fn warm() -> Pair {
    let pair = Pair::start();
    for upstream in [&pair.first, &pair.second] {
        upstream.answer(VIDEOS, Reply::json(200, &json!({"id": "video_123", "status": "queued"})));
    }
    pair.gateway.client().chat(Pair::MODEL).expect(200);
    assert_eq!(pair.first.asked_for(CHAT).len(), 1);
    pair
}

/// Returns the requests to a path, except for the one that opened the connection.
fn asked(upstream: &Upstream, path: &str) -> Vec<ReceivedRequest> {
    let all = upstream.asked_for(path);
    all.into_iter().skip(usize::from(path == CHAT)).collect()
}

fn send(pair: &Pair, request: Request) -> Answer {
    pair.gateway.client().stream(request).whole()
}

#[track_caller]
fn is_told_that_it_may_be_made(answer: &Answer, status: u16, what: &str) {
    assert_eq!(answer.status, status, "{what}: {}", answer.text());
    assert_eq!(answer.header("x-should-retry"), Some("false"), "{what}");
}

/// Runs `what` with a pair's first upstream, on a new connection to it and on one that has been idle.
fn on_both_connections(
    cases: Vec<(&'static str, Request)>,
    mut what: impl FnMut(&Pair, &str, Request, bool),
) {
    for (path, request) in cases {
        let pairs = [false, true].map(|is_kept| (warm(), is_kept));
        // A kept connection counts as rested after a second and is closed after a minute, so the cases do not wait for each
        // other.
        std::thread::sleep(Duration::from_millis(1100));
        for (pair, is_kept) in pairs {
            if !is_kept {
                pair.first.hang_up();
            }
            what(&pair, path, request.clone(), is_kept);
            let [warming, asked] = [pair.first.asked_for(CHAT).remove(0), pair.first.last(path)];
            assert_eq!(warming.connection == asked.connection, is_kept, "{path}");
        }
    }
}

#[test]
fn a_text_that_was_read_goes_to_the_next_channel_alone() {
    on_both_connections(texts(), |pair, path, request, is_kept| {
        pair.first.answer(path, Reply::silence());
        assert_eq!(send(pair, request).status, 200, "{path}");
        assert_eq!((asked(&pair.first, path).len(), pair.second.asked_for(path).len()), (1, 1), "{path}");
        // An idle connection may have been closed because of its idleness.
        eventually("the failure is booked", || {
            (pair.channel("first")["cooldownUntil"].is_null() == is_kept).then_some(())
        });
    });
}

#[test]
fn a_creation_that_was_read_goes_nowhere() {
    on_both_connections(creations(), |pair, path, request, _| {
        pair.first.answer(path, Reply::silence());
        is_told_that_it_may_be_made(&send(pair, request), 502, path);
        assert_eq!((asked(&pair.first, path).len(), pair.second.asked_for(path).len()), (1, 0), "{path}");
    });
}

#[test]
fn a_creation_whose_answer_breaks_goes_nowhere() {
    for (path, request) in creations() {
        for (what, reply, status) in [
            ("half an answer", Reply::json(200, &wire::image()).cut_after(0), 502),
            ("no answer", Reply::stall(), 408),
            ("a gateway's time-out", Reply::error(504, "timed out"), 504),
            ("a gateway that lost its server", Reply::error(502, "bad gateway"), 502),
            ("a time-out of its own", Reply::error(408, "timed out"), 408),
        ] {
            // The other answers may come late.
            let limit = (what == "no answer").then_some(("PROXY_FIRST_BYTE_TIMEOUT_SEC", "1"));
            let pair = Pair::with(limit.as_slice());
            pair.first.answer(path, reply);
            is_told_that_it_may_be_made(&send(&pair, request.clone()), status, what);
            assert_eq!(
                (pair.first.asked_for(path).len(), pair.second.asked_for(path).len()),
                (1, 0),
                "{what}"
            );
        }
    }
}

#[test]
fn a_creation_that_is_refused_or_cannot_be_sent_goes_to_the_next_channel() {
    for (path, request) in creations() {
        for trouble in [None, Some(429), Some(401), Some(500), Some(503)] {
            let pair = warm();
            match trouble {
                Some(status) => pair.first.answer(path, Reply::error(status, "Not now")),
                None => pair.first.refuse(),
            }
            assert_eq!(send(&pair, request.clone()).status, 200, "{path} {trouble:?}");
            assert_eq!(pair.second.asked_for(path).len(), 1, "{path} {trouble:?}");
        }
    }
}

/// Builds a server's message that it closes a connection because it is idle.
fn goodbye() -> Reply {
    Reply::error(408, "Request Time-out").header("connection", "close")
}

#[test]
fn a_goodbye_to_an_idle_connection_answers_no_text() {
    for (path, request) in texts() {
        let pair = warm();
        pair.first.answer_once(path, goodbye());
        assert_eq!(send(&pair, request).status, 200, "{path}");
        let all = asked(&pair.first, path);
        assert_eq!((all.len(), pair.second.asked_for(path).len()), (2, 0), "{path}");
        assert_ne!(all[0].connection, all[1].connection, "{path}");
        let log = pair.gateway.wait_for_logs(2);
        assert!(log.iter().all(|row| row["status"] == "success"), "{log:#?}");
        assert_eq!(pair.channel("first")["failCount"], json!(0), "{path}");
    }
}

#[test]
fn a_goodbye_that_crosses_a_creation_neither_repeats_it_nor_blames_the_channel() {
    for (path, request) in creations() {
        let pair = warm();
        pair.first.answer_once(path, goodbye());
        is_told_that_it_may_be_made(&send(&pair, request), 502, path);
        assert_eq!((asked(&pair.first, path).len(), pair.second.asked_for(path).len()), (1, 0), "{path}");
        pair.gateway.wait_for_logs(2);
        assert_eq!(pair.channel("first")["failCount"], json!(0), "{path}");
    }
}

#[test]
fn a_file_that_is_uploaded_is_kept_once_and_sent_to_nobody() {
    let (gateway, upstream) = Gateway::serving(&[Pair::MODEL]);
    let before = upstream.asked().len();
    let form = "--b\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nuser_data\r\n\
                --b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.txt\"\r\n\
                Content-Type: text/plain\r\n\r\nhello\r\n--b--\r\n";
    let upload =
        Request::post("/v1/files").header("content-type", "multipart/form-data; boundary=b").body(form);
    gateway.client().send(upload).expect(200);
    let files = gateway.client().get("/v1/files").expect(200);
    assert_eq!(files["data"].as_array().map(Vec::len), Some(1));
    assert_eq!(upstream.asked().len(), before);
}
