//! Failures that an upstream tells in an answer with a good status: the verdict and the kind are the same in every form.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::conversion::{MODEL, body, narrow};
use crate::support::paths::{CHAT, MESSAGES, RESPONSES};
use crate::support::{Reply, Request, wire};

#[test]
fn an_error_before_anything_was_written_is_no_stream() {
    // What may be the beginning of a tag is held back.
    let content = wire::chat_content(MODEL, "<");
    let error = wire::data(&json!({"error": {"message": "boom", "type": "server_error", "code": null}}));
    for path in [RESPONSES, MESSAGES] {
        let (gateway, upstream) = narrow(CHAT, &[]);
        let pause = Duration::from_millis(50);
        upstream.answer(CHAT, Reply::events([content.as_str(), error.as_str()]).paced(pause));
        let answer = gateway.client().send(Request::post(path).json(&body(path, true)));
        assert_eq!(answer.status, 502, "{path}: {}", answer.text());
    }
}

#[test]
fn an_answer_that_ends_with_an_error_fails_in_every_form() {
    let content = wire::chat_content(MODEL, "par");
    let finish = |reason: &str| wire::chat_chunk(MODEL, &json!({}), json!(reason));
    let error = wire::data(&json!({"error": {"message": "boom"}}));
    let mut whole = wire::chat(MODEL);
    whole["choices"][0]["finish_reason"] = json!("error");
    for events in [
        vec![content.clone(), finish("error"), wire::DONE.to_owned()],
        vec![content, finish("stop"), error, wire::DONE.to_owned()],
    ] {
        for path in [CHAT, MESSAGES] {
            for streams in [true, false] {
                let (gateway, upstream) = narrow(CHAT, &[]);
                upstream.answer(CHAT, Reply::events(&events));
                let answer = gateway.client().stream(Request::post(path).json(&body(path, streams))).rest();
                let told = String::from_utf8_lossy(&answer.0);
                assert!(told.contains("\"error\""), "{path} {streams}: {told}");
                let row = gateway.wait_for_logs_of(CHAT, 1).pop().expect("a row");
                assert_eq!(row["status"], "failed", "{path} {streams}: {row}");
            }
        }
    }
    let (gateway, upstream) = narrow(CHAT, &[]);
    upstream.answer(CHAT, Reply::json(200, &whole));
    gateway.client().post(CHAT, &body(CHAT, false)).expect(502);
}

#[test]
fn a_failure_in_a_stream_keeps_its_kind_when_it_is_gathered() {
    for (code, kind) in [
        ("rate_limit_exceeded", "rate_limit_error"),
        ("server_is_overloaded", "overloaded_error"),
        ("slow_down", "overloaded_error"),
    ] {
        let mut events = wire::response_events(MODEL)[..5].to_vec();
        events.push(wire::named(&json!({"type": "response.failed", "response": {"id": "resp_stub",
            "status": "failed", "error": {"code": code, "message": "no"}}})));
        let (gateway, upstream) = narrow(RESPONSES, &[]);
        upstream.answer(RESPONSES, Reply::events(&events));
        let error = gateway.client().post(MESSAGES, &body(MESSAGES, false)).expect(502);
        assert_eq!(error["error"]["type"], kind, "{code}: {error}");
    }
}

#[test]
fn an_upstreams_comments_behind_the_finish_do_not_hold_a_gathered_answer_up() {
    let (gateway, upstream) = narrow(CHAT, &[]);
    let finish = wire::chat_chunk(MODEL, &json!({}), json!("stop"));
    let mut events = vec![wire::chat_content(MODEL, "x"), finish];
    events.extend((0..30).map(|_| ": ping\n\n".to_owned()));
    upstream.answer(CHAT, Reply::events(&events).paced(Duration::from_secs(1)));
    let asked = Instant::now();
    gateway.client().post(CHAT, &body(CHAT, false)).expect(200);
    assert!(asked.elapsed() < Duration::from_secs(20), "{:?}", asked.elapsed());
}
