//! Answers that name the model as the client did, on every surface and in every form.

use serde_json::{Value, json};

use crate::support::paths::{CHAT, COMPLETIONS, MESSAGES, RESPONSES};
use crate::support::{Gateway, Reply, Request, Upstream, eventually, wire};

const MODEL: &str = "model-asked-for";
/// The upstream's name of the model.
const THERE: &str = "vendor/model-2026-05";
const EMBEDDINGS: &str = "/v1/embeddings";
const SETTINGS: &str = "/api/settings/runtime";

fn body(path: &str, stream: bool) -> Value {
    match path {
        RESPONSES | EMBEDDINGS => json!({"model": MODEL, "input": "Which way?", "stream": stream}),
        COMPLETIONS => json!({"model": MODEL, "prompt": "Which way?", "stream": stream}),
        _ => json!({"model": MODEL, "max_tokens": 64, "stream": stream,
            "messages": [{"role": "user", "content": "Which way?"}]}),
    }
}

/// Builds the upstream's answer under a name of the model.
fn whole(path: &str, model: &str) -> Value {
    match path {
        CHAT => wire::chat(model),
        RESPONSES => wire::response(model),
        MESSAGES => wire::message(model),
        COMPLETIONS => wire::completion(model),
        _ => wire::embedding(model),
    }
}

fn events(path: &str, model: &str) -> Vec<String> {
    match path {
        CHAT => wire::chat_events(model),
        RESPONSES => wire::response_events(model),
        MESSAGES => wire::message_events(model),
        _ => wire::completion_events(model),
    }
}

/// Starts a gateway that echoes the requested name, in front of an upstream with its own name for the model.
fn started() -> (Gateway, Upstream) {
    let upstream = Upstream::start(&[MODEL]);
    let gateway = Gateway::with(&[("ECHO_REQUESTED_MODEL", "true")]).in_front_of("new-api", &upstream);
    gateway.wait_for_channels(MODEL, 1);
    (gateway, upstream)
}

fn asked(gateway: &Gateway, path: &str, stream: bool) -> String {
    let answer = gateway.client().send(Request::post(path).json(&body(path, stream)));
    assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    answer.text()
}

#[test]
fn an_answer_names_the_model_as_the_client_did() {
    let (gateway, upstream) = started();
    for path in [CHAT, RESPONSES, MESSAGES, COMPLETIONS, EMBEDDINGS] {
        upstream.answer(path, Reply::json(200, &whole(path, THERE)));
        assert_eq!(asked(&gateway, path, false), whole(path, MODEL).to_string(), "{path}");
        let packed = wire::gzip(whole(path, THERE).to_string().as_bytes());
        upstream
            .answer(path, Reply::bytes(200, "application/json", packed).header("content-encoding", "gzip"));
        assert_eq!(asked(&gateway, path, false), whole(path, MODEL).to_string(), "packed: {path}");
        // Too long to be held: the announced length does not hold any more.
        let mut long = [whole(path, THERE), whole(path, MODEL)];
        long.iter_mut().for_each(|whole| whole["also"] = json!({"model": "x".repeat(3 << 20)}));
        upstream.answer(path, Reply::json(200, &long[0]));
        let wanted = long[1].to_string();
        assert!(asked(&gateway, path, false) == wanted, "long: {path}");
    }
}

#[test]
fn every_event_that_names_the_model_names_it_so_and_all_else_stays() {
    let (gateway, upstream) = started();
    for path in [CHAT, RESPONSES, MESSAGES, COMPLETIONS] {
        let text = events(path, THERE).concat();
        let wanted = events(path, MODEL).concat();
        assert_ne!(text, wanted);
        let bytes: Vec<&[u8]> = text.as_bytes().chunks(23).collect();
        for pieces in [events(path, THERE), vec![text.clone()]] {
            upstream.answer(path, Reply::events(pieces));
            assert_eq!(asked(&gateway, path, true), wanted, "{path}");
        }
        upstream.answer(path, Reply::events(bytes));
        assert_eq!(asked(&gateway, path, true), wanted, "in pieces: {path}");
        // An answer that has the right name is not touched, however oddly the rest is written.
        let odd = wanted.replace("\"model\":", "\"model\" : ").replace("data: ", "data:");
        upstream.answer(path, Reply::events([&odd]));
        assert_eq!(asked(&gateway, path, true), odd, "{path}");
    }
}

#[test]
fn a_converted_answer_names_it_so_too() {
    for offered in [CHAT, RESPONSES, MESSAGES] {
        let (gateway, upstream) = started();
        for path in [CHAT, RESPONSES, MESSAGES] {
            upstream.answer(path, Reply::error(404, "Not found"));
        }
        for path in [CHAT, RESPONSES, MESSAGES] {
            upstream.answer(offered, Reply::json(200, &whole(offered, THERE)));
            let answer: Value = serde_json::from_str(&asked(&gateway, path, false)).expect("JSON");
            assert_eq!(answer["model"], MODEL, "{path} on {offered}");
            upstream.answer(offered, Reply::events(events(offered, THERE)));
            let stream = asked(&gateway, path, true);
            assert!(stream.contains(MODEL) && !stream.contains(THERE), "{path} on {offered}: {stream}");
        }
    }
}

#[test]
fn geminis_surface_has_its_own_word_for_it() {
    let (call, stream) = (
        "/v1beta/models/model-asked-for:generateContent",
        "/v1beta/models/model-asked-for:streamGenerateContent",
    );
    let upstream = Upstream::of_google(&[MODEL]);
    let said = |model: &str| {
        json!({"candidates": [{"index": 0, "content": {"role": "model", "parts": [{"text": "North."}]},
            "finishReason": "STOP"}], "modelVersion": model})
    };
    upstream.answer(call, Reply::json(200, &said(THERE)));
    upstream.answer(stream, Reply::events([wire::data(&said(THERE)), wire::data(&said(THERE))]));
    let gateway = Gateway::with(&[("ECHO_REQUESTED_MODEL", "true")]).in_front_of("gemini", &upstream);
    let ask = json!({"contents": [{"role": "user", "parts": [{"text": "Which way?"}]}]});
    assert_eq!(gateway.client().post(call, &ask).expect(200), said(MODEL));
    let events = gateway.client().post(&format!("{stream}?alt=sse"), &ask).text();
    assert_eq!(events, wire::data(&said(MODEL)).repeat(2));
    assert_eq!(gateway.client().post(stream, &ask).expect(200), json!([said(MODEL), said(MODEL)]));
    // Some sites answer with one array, whatever is requested.
    upstream.answer(stream, Reply::json(200, &json!([said(THERE), said(THERE)])));
    for (query, named) in [("?alt=sse", MODEL), ("", MODEL)] {
        let text = gateway.client().post(&format!("{stream}{query}"), &ask).text();
        assert!(text.contains(named) && !text.contains(THERE), "{query}: {text}");
    }
}

#[test]
fn a_turn_of_a_socket_names_it_so() {
    let (gateway, upstream) = started();
    upstream.answer(RESPONSES, Reply::events(events(RESPONSES, THERE)));
    let mut socket = gateway.client().socket();
    socket.create(&json!({"model": MODEL, "input": "Which way?"}));
    let turn = socket.turn();
    let named: Vec<&Value> =
        turn.iter().map(|event| &event["response"]["model"]).filter(|name| name.is_string()).collect();
    assert_eq!(named, [MODEL; 3]);
}

#[test]
fn the_setting_holds_at_once_and_is_off_at_first() {
    let (gateway, upstream) = Gateway::serving_as("new-api", &[MODEL]);
    gateway.wait_for_channels(MODEL, 1);
    upstream.answer(MESSAGES, Reply::json(200, &whole(MESSAGES, THERE)));
    for (echo, wanted) in [(None, THERE), (Some(true), MODEL), (Some(false), THERE)] {
        if let Some(echo) = echo {
            let shown = gateway.admin().put(SETTINGS, &json!({"echoRequestedModel": echo})).expect(200);
            assert_eq!(shown["echoRequestedModel"], echo);
        }
        assert_eq!(asked(&gateway, MESSAGES, false), whole(MESSAGES, wanted).to_string());
    }
    // The log has the model as requested, and an upstream's error is not an answer.
    gateway.admin().put(SETTINGS, &json!({"echoRequestedModel": true})).expect(200);
    upstream.answer(
        MESSAGES,
        Reply::json(
            400,
            &json!({"type": "error", "model": THERE,
        "error": {"type": "invalid_request_error", "message": "max_tokens: too large"}}),
        ),
    );
    let refused = gateway.client().post(MESSAGES, &body(MESSAGES, false)).expect(400);
    assert!(refused["error"]["message"].as_str().is_some_and(|text| text.contains("too large")), "{refused}");
    eventually("a row of the call", || {
        gateway.wait_for_logs(4).pop().filter(|row| row["modelRequested"] == MODEL)
    });
}
