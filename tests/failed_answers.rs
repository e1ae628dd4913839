//! Failures that an upstream tells in an answer with a good status: the verdict and the kind are the same in every form.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::conversion::{MODEL, body, narrow};
use crate::support::paths::{CHAT, MESSAGES, RESPONSES};
use crate::support::{Gateway, Reply, Request, Upstream, wire};

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

#[test]
fn an_answer_without_any_choice_is_none() {
    let nothing = Reply::json(200, &json!({"id": "c", "choices": [ ], "usage": wire::chat_usage()}));
    for streams in [true, false] {
        let (gateway, upstream) = narrow(CHAT, &[]);
        upstream.answer(CHAT, nothing.clone());
        gateway.client().post(CHAT, &body(CHAT, streams)).expect(502);
    }
    let gateway = Gateway::start();
    let google = Upstream::of_google(&[MODEL]);
    gateway.add_as(&json!({"name": "gemini", "platform": "gemini"}), &google);
    let path = format!("/v1beta/models/{MODEL}:generateContent");
    let ask = json!({"contents": [{"role": "user", "parts": [{"text": "x"}]}]});
    google.answer_once(&path, Reply::json(200, &json!({"candidates": [], "usageMetadata": {}})));
    gateway.client().post(&path, &ask).expect(502);
}

#[test]
fn a_prompt_that_google_blocks_is_answered_without_candidates() {
    let gateway = Gateway::start();
    let google = Upstream::of_google(&[MODEL]);
    gateway.add_as(&json!({"name": "gemini", "platform": "gemini"}), &google);
    let path = format!("/v1beta/models/{MODEL}:generateContent");
    let ask = json!({"contents": [{"role": "user", "parts": [{"text": "x"}]}]});
    let blocked = json!({"candidates": [], "promptFeedback": {"blockReason": "SAFETY"}});
    google.answer_once(&path, Reply::json(200, &blocked));
    assert_eq!(gateway.client().post(&path, &ask).expect(200), blocked);
}

#[test]
fn a_response_that_is_still_being_made_is_no_stream() {
    for status in ["queued", "in_progress"] {
        let (gateway, upstream) = narrow(RESPONSES, &[]);
        let answer = json!({"id": "resp_1", "object": "response", "status": status, "output": []});
        upstream.answer(RESPONSES, Reply::json(200, &answer));
        let refusal = gateway.client().post(RESPONSES, &body(RESPONSES, true)).expect(502);
        let message = refusal["error"]["message"].as_str().unwrap_or_default();
        assert!(message.contains("still being made"), "{status}: {refusal}");
        let whole = gateway.client().post(RESPONSES, &body(RESPONSES, false)).expect(200);
        assert_eq!(whole["status"], status, "{whole}");
    }
}

#[test]
fn a_call_without_a_name_leaves_no_reason_of_calls() {
    let call =
        json!({"tool_calls": [{"index": 0, "id": "a", "type": "function", "function": {"arguments": "{}"}}]});
    let call = wire::chat_chunk(MODEL, &call, Value::Null);
    let end = [wire::chat_chunk(MODEL, &json!({}), json!("tool_calls")), wire::DONE.to_owned()];
    let (gateway, upstream) = narrow(CHAT, &[]);
    let said = [wire::chat_content(MODEL, "x"), call.clone()];
    upstream.answer(CHAT, Reply::events(said.iter().chain(&end)));
    let answer = gateway.client().post(CHAT, &body(CHAT, false)).expect(200);
    let choice = &answer["choices"][0];
    assert_eq!(choice["finish_reason"], "stop", "{answer}");
    assert_eq!(choice["message"], json!({"role": "assistant", "content": "x"}), "{answer}");
    for path in [CHAT, RESPONSES, MESSAGES] {
        let (gateway, upstream) = narrow(CHAT, &[]);
        upstream.answer(CHAT, Reply::events([&call].into_iter().chain(&end)));
        gateway.client().post(path, &body(path, false)).expect(502);
    }
}
