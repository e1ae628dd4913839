//! A refusal of one dialect, and the requests for which it counts.

use serde_json::{Value, json};

use crate::support::paths::{CHAT, MESSAGES, RESPONSES};
use crate::support::{Gateway, ReceivedRequest, Reply, Upstream, wire};

const MODEL: &str = "model-choosy";
const USE_RESPONSES: &str = "Function tools with reasoning_effort are not supported for model-choosy in \
                             /v1/chat/completions. Please use /v1/responses instead.";

/// Starts a gateway in front of a new-api site that refuses some requests for chat completions with this message.
fn choosy(
    variables: &[(&str, &str)],
    (status, message): (u16, &'static str),
    refuses: fn(&Value) -> bool,
) -> (Gateway, Upstream) {
    let upstream = Upstream::start(&[MODEL]);
    upstream.serve(move |asked: &ReceivedRequest| {
        let is_refused = asked.path() == CHAT && refuses(&asked.json());
        is_refused.then(|| Reply::error(status, message))
    });
    let gateway = Gateway::with(variables).in_front_of("new-api", &upstream);
    (gateway, upstream)
}

fn chat(more: Value) -> Value {
    let mut body = json!({"model": MODEL, "messages": [{"role": "user", "content": "Which way?"}]});
    for (member, value) in more.as_object().expect("an object") {
        body[member] = value.clone();
    }
    body
}

fn tools() -> Value {
    json!([{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}])
}

/// Returns how often each path was asked: chat completions, responses, messages.
fn asked(upstream: &Upstream) -> [usize; 3] {
    [CHAT, RESPONSES, MESSAGES].map(|path| upstream.asked_for(path).len())
}

#[test]
fn what_is_refused_with_tools_or_an_image_is_asked_again_without_them() {
    let image = json!([{"role": "user", "content": [
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0K"}}]}]);
    for more in [json!({"tools": tools()}), json!({"messages": image}), json!({"reasoning_effort": "high"})] {
        let (gateway, upstream) = choosy(&[], (404, "Invalid URL (POST /v1/chat/completions)"), |body| {
            let is_text = body["messages"][0]["content"].is_string();
            !is_text || body.get("tools").is_some() || body.get("reasoning_effort").is_some()
        });
        gateway.client().post(CHAT, &chat(more.clone())).expect(200);
        let [in_chat, elsewhere @ ..] = asked(&upstream);
        assert_eq!((in_chat, elsewhere.iter().sum::<usize>()), (1, 1), "{more}");
        let body = chat(json!({"n": 2, "seed": 7}));
        gateway.client().post(CHAT, &body).expect(200);
        assert_eq!(upstream.last(CHAT).json(), body, "{more}");
        assert_eq!(asked(&upstream)[0], 2, "{more}");
    }
}

#[test]
fn a_dialect_that_is_avoided_is_asked_where_no_other_can_express_the_request() {
    let (gateway, upstream) = choosy(&[], (404, "unused"), |_| false);
    upstream.answer_once(CHAT, Reply::error(404, "Invalid URL (POST /v1/chat/completions)"));
    gateway.client().post(CHAT, &chat(json!({}))).expect(200);
    gateway.client().post(CHAT, &chat(json!({}))).expect(200);
    assert_eq!(asked(&upstream)[0], 1, "it is avoided");
    gateway.client().post(CHAT, &chat(json!({"n": 2}))).expect(200);
    assert_eq!(asked(&upstream)[0], 2);
}

#[test]
fn the_dialect_that_a_refusal_names_gets_the_whole_request() {
    let refuses = |body: &Value| body.get("tools").is_some() && body.get("reasoning_effort").is_some();
    let (gateway, upstream) = choosy(&[], (400, USE_RESPONSES), refuses);
    let body = chat(json!({"tools": tools(), "reasoning_effort": "high"}));
    gateway.client().post(CHAT, &body).expect(200);
    assert_eq!(asked(&upstream), [1, 1, 0]);
    assert_eq!(upstream.last(RESPONSES).json()["reasoning"]["effort"], "high");
    gateway.client().post(CHAT, &body).expect(200);
    assert_eq!(asked(&upstream), [1, 2, 0], "it is remembered");

    // A site that lacks the other dialects is asked without what it refuses.
    let (gateway, upstream) = choosy(&[], (400, USE_RESPONSES), refuses);
    for path in [RESPONSES, MESSAGES] {
        upstream.answer(path, Reply::error(404, "Not found"));
    }
    gateway.client().post(CHAT, &body).expect(200);
    assert_eq!(asked(&upstream), [2, 1, 1]);
    let sent = upstream.last(CHAT).json();
    assert!(sent.get("tools").is_some() && sent.get("reasoning_effort").is_none(), "{sent}");
}

#[test]
fn with_one_dialect_only_the_first_that_can_express_the_request_is_asked() {
    let (gateway, upstream) =
        choosy(&[("DISABLE_CROSS_PROTOCOL_FALLBACK", "true")], (404, "unused"), |_| false);
    let messages = "/v1beta/models/model-choosy:generateContent";
    let two = json!({"contents": [{"role": "user", "parts": [{"text": "Which way?"}]}],
        "generationConfig": {"candidateCount": 2}});
    upstream.answer(CHAT, Reply::json(200, &wire::chat(MODEL)));
    gateway.client().post(messages, &two).expect(200);
    assert_eq!(asked(&upstream), [1, 0, 0]);
    upstream.answer(CHAT, Reply::error(404, "Not found"));
    gateway.client().post(messages, &two).expect(404);
    assert_eq!(asked(&upstream), [2, 0, 0], "and no other after it");
}
