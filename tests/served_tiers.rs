//! The service tier that an upstream's answer tells reaches clients of other dialects.

use serde_json::{Value, json};

use crate::support::paths::{CHAT, MESSAGES, RESPONSES};
use crate::support::{Gateway, Reply, Upstream, wire};

const MODEL: &str = "model-tiered";

/// An answer of the dialect that was served by this tier.
fn answer(dialect: &str, tier: &str) -> Value {
    match dialect {
        CHAT => {
            json!({"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": MODEL, "service_tier": tier,
            "choices": [{"index": 0, "message": {"role": "assistant", "content": "Left."}, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}})
        }
        RESPONSES => {
            json!({"id": "resp_1", "object": "response", "created_at": 1, "model": MODEL, "status": "completed",
            "service_tier": tier, "output": [{"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
                "content": [{"type": "output_text", "text": "Left.", "annotations": []}]}],
            "usage": {"input_tokens": 5, "output_tokens": 2, "total_tokens": 7}})
        }
        _ => {
            json!({"id": "msg_1", "type": "message", "role": "assistant", "model": MODEL, "stop_reason": "end_turn",
            "content": [{"type": "text", "text": "Left."}],
            "usage": {"input_tokens": 5, "output_tokens": 2, "service_tier": tier}})
        }
    }
}

fn in_front_of(offered: &str) -> (Gateway, Upstream) {
    let upstream = Upstream::with_one_path(MODEL, offered);
    let gateway = Gateway::start().in_front_of("new-api", &upstream);
    (gateway, upstream)
}

fn asked(dialect: &str) -> Value {
    match dialect {
        RESPONSES => json!({"model": MODEL, "input": "Which way?"}),
        _ => {
            json!({"model": MODEL, "max_tokens": 64, "messages": [{"role": "user", "content": "Which way?"}]})
        }
    }
}

#[test]
fn the_tier_of_an_answer_is_told_in_the_clients_words() {
    for (offered, tier, client, told) in [
        (RESPONSES, "flex", CHAT, "flex"),
        (RESPONSES, "priority", MESSAGES, "priority"),
        (CHAT, "default", RESPONSES, "default"),
        (CHAT, "flex", MESSAGES, "standard"),
        (MESSAGES, "standard", CHAT, "default"),
        (MESSAGES, "priority", RESPONSES, "priority"),
    ] {
        let (gateway, upstream) = in_front_of(offered);
        upstream.answer(offered, Reply::json(200, &answer(offered, tier)));
        let reply = gateway.client().post(client, &asked(client)).expect(200);
        let holder = if client == MESSAGES { &reply["usage"] } else { &reply };
        assert_eq!(holder["service_tier"], told, "{offered} to {client}: {reply}");
    }
}

#[test]
fn a_tier_that_is_not_known_is_not_told() {
    let (gateway, upstream) = in_front_of(RESPONSES);
    upstream.answer(RESPONSES, Reply::json(200, &answer(RESPONSES, "auto")));
    let reply = gateway.client().post(CHAT, &asked(CHAT)).expect(200);
    assert_eq!(reply.get("service_tier"), None, "{reply}");
}

#[test]
fn the_end_of_a_stream_tells_the_tier() {
    let (gateway, upstream) = in_front_of(CHAT);
    let chunk = |choices: Value, usage: Value| {
        let chunk = json!({"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": MODEL,
            "service_tier": "flex", "choices": choices, "usage": usage});
        wire::data(&chunk)
    };
    let events = [
        chunk(json!([{"index": 0, "delta": {"content": "Left."}, "finish_reason": null}]), Value::Null),
        chunk(json!([{"index": 0, "delta": {}, "finish_reason": "stop"}]), Value::Null),
        chunk(json!([]), json!({"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7})),
        "data: [DONE]\n\n".to_owned(),
    ];
    upstream.answer(CHAT, Reply::events(&events));
    let mut body = asked(RESPONSES);
    body["stream"] = json!(true);
    let events = wire::data_of(&gateway.client().post(RESPONSES, &body).text());
    let last = events.last().expect("an event");
    assert_eq!(
        (&last["type"], &last["response"]["service_tier"]),
        (&json!("response.completed"), &json!("flex"))
    );

    let (gateway, upstream) = in_front_of(RESPONSES);
    let completed = json!({"type": "response.completed", "response": answer(RESPONSES, "priority")});
    upstream.answer(RESPONSES, Reply::events([wire::named(&completed)]));
    let mut body = asked(CHAT);
    body["stream"] = json!(true);
    body["stream_options"] = json!({"include_usage": true});
    let events = wire::data_of(&gateway.client().post(CHAT, &body).text());
    let tiers: Vec<_> = events.iter().filter_map(|event| event.get("service_tier")).collect();
    assert_eq!(tiers, ["priority"], "{events:?}");
}
