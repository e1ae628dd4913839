//! The requirements that some upstreams have of a body, and what is done for upstreams that do not know everything a client
//! sends.

use serde_json::{Value, json};

use crate::support::paths::{CHAT, MESSAGES, RESPONSES};
use crate::support::{self, Gateway, Reply, Request, Upstream, wire};

const MODEL: &str = "model-body";

fn on(platform: &str) -> (Gateway, Upstream) {
    Gateway::serving_as(platform, &[MODEL])
}

#[test]
fn codex_gets_the_words_of_the_system_as_instructions() {
    const OWN: &str = "/responses";
    let (gateway, upstream) = (Gateway::start(), Upstream::start(&[MODEL]));
    gateway.add_codex(&upstream, MODEL);
    upstream.answer(OWN, Reply::events(wire::response_events(MODEL)));
    let user = json!({"role": "user", "content": "Which way?"});
    let system = json!({"type": "message", "role": "system", "content": [
        {"type": "input_text", "text": "Be brief."}, {"type": "input_text", "text": "Be kind."}]});
    for (input, instructions, wanted) in [
        (json!([system, user]), json!("Be sure."), "Be brief.\nBe kind.\n\nBe sure."),
        (json!([system, user]), Value::Null, "Be brief.\nBe kind."),
        (json!([user]), Value::Null, "You are a helpful assistant."),
        (json!([{"role": "system", "content": ""}, user]), json!(""), "You are a helpful assistant."),
    ] {
        let asked = json!({"model": MODEL, "input": input, "instructions": instructions});
        gateway.client().post(RESPONSES, &asked).expect(200);
        let sent = upstream.last(OWN).json();
        let expected =
            json!({"model": MODEL, "input": [user], "instructions": wanted, "store": false, "stream": true});
        assert_eq!(sent, expected);
    }
}

/// Members that Codex itself never sends, but a client of any dialect may.
#[test]
fn codex_gets_a_list_of_items_and_nothing_that_it_refuses_by_name() {
    const OWN: &str = "/responses";
    let (gateway, upstream) = (Gateway::start(), Upstream::start(&[MODEL]));
    gateway.add_codex(&upstream, MODEL);
    upstream.answer(OWN, Reply::events(wire::response_events(MODEL)));
    let said = json!([{"role": "user", "content": "Which way?"}]);
    let refused = json!({"temperature": 0.5, "top_p": 0.9, "user": "ada", "metadata": {"user_id": "ada"},
        "safety_identifier": "ada", "prompt_cache_retention": "24h", "truncation": "auto",
        "context_management": [{"type": "compaction"}], "max_output_tokens": 9, "max_tokens": 9,
        "frequency_penalty": 0.1, "presence_penalty": 0.1, "stream_options": {"include_obfuscation": false}});
    for (path, mut body) in [
        (RESPONSES, json!({"input": "Which way?", "reasoning": {"effort": "high"}})),
        (CHAT, json!({"messages": said, "reasoning_effort": "high"})),
        (MESSAGES, json!({"messages": said, "output_config": {"effort": "high"}})),
    ] {
        let members = refused.as_object().expect("an object").clone();
        let members = members.into_iter().filter(|(name, _)| path != MESSAGES || name != "stream_options");
        body.as_object_mut().expect("an object").extend(members.chain([("model".to_owned(), json!(MODEL))]));
        gateway.client().post(path, &body).expect(200);
        let sent = upstream.last(OWN).json();
        let known = ["model", "input", "instructions", "store", "stream", "reasoning", "include"];
        let others =
            sent.as_object().expect("an object").keys().filter(|name| !known.contains(&name.as_str()));
        assert_eq!(others.collect::<Vec<_>>(), Vec::<&String>::new(), "{path}: {sent}");
        assert_eq!(sent["input"], json!([{"type": "message", "role": "user", "content": "Which way?"}]));
        assert_eq!(sent["reasoning"]["effort"], "high", "{path}: {sent}");
    }
}

#[test]
fn who_streams_to_whom_would_take_a_stream_is_told_that_none_is_wanted() {
    let (gateway, upstream) = on("sub2api");
    let said = json!([{"role": "user", "content": "x"}]);
    for (path, body, wanted) in [
        (CHAT, json!({"model": MODEL, "messages": said}), "application/json"),
        (CHAT, json!({"model": MODEL, "messages": said, "stream": true}), "text/event-stream"),
        (RESPONSES, json!({"model": MODEL, "input": "x"}), "text/event-stream"),
    ] {
        let reply = match wanted {
            "application/json" => Reply::json(200, &wire::chat(MODEL)),
            _ if path == CHAT => Reply::events(wire::chat_events(MODEL)),
            _ => Reply::events(wire::response_events(MODEL)),
        };
        upstream.answer(path, reply);
        let ask = Request::post(path).json(&body).header("accept", "text/event-stream, */*");
        assert_eq!(gateway.client().send(ask).status, 200, "{path}");
        assert_eq!(upstream.last(path).header("accept"), Some(wanted), "{path} {body}");
    }
}

#[test]
fn results_of_calls_that_only_a_responses_upstream_may_know_go_there_first() {
    let result = json!({"type": "tool_result", "tool_use_id": "toolu_1", "content": "5"});
    let call = json!({"type": "tool_use", "id": "toolu_1", "name": "add", "input": {}});
    let alone = json!([{"role": "user", "content": [result]}]);
    let whole = json!([{"role": "user", "content": "Add."}, {"role": "assistant", "content": [call]},
        {"role": "user", "content": [result]}]);
    for (messages, hint, path) in [
        (&alone, ("previous_response_id", json!("resp_1")), RESPONSES),
        (&alone, ("prompt_cache_key", json!("k")), RESPONSES),
        (&alone, ("metadata", json!({"user_id": "u"})), RESPONSES),
        (&alone, ("system", json!("S")), MESSAGES),
        (&whole, ("metadata", json!({"user_id": "u"})), MESSAGES),
    ] {
        let (gateway, upstream) = on("openai");
        let mut asked = json!({"model": MODEL, "max_tokens": 99, "messages": messages});
        asked[hint.0] = hint.1.clone();
        gateway.client().post(MESSAGES, &asked).expect(200);
        let sent = upstream.last(path).json();
        if path == RESPONSES {
            let output = json!({"type": "function_call_output", "call_id": "toolu_1", "output": "5"});
            assert_eq!(sent["input"], json!([output]), "{sent}");
        }
    }
}

#[test]
fn a_document_is_tried_in_responses_before_it_is_in_chat() {
    let data = "JVBERi0xLjcKaGVsbG8=";
    let document = json!({"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": data}});
    let messages =
        json!({"model": MODEL, "max_tokens": 99, "messages": [{"role": "user", "content": [document]}]});
    let part = json!({"inlineData": {"mimeType": "application/pdf", "data": data}});
    let contents = json!({"contents": [{"role": "user", "parts": [part]}]});
    let generate = format!("/v1beta/models/{MODEL}:generateContent");
    for (path, asked, refused) in [(MESSAGES, messages, &[MESSAGES][..]), (&generate, contents, &[])] {
        let (gateway, upstream) = on("new-api");
        refused.iter().for_each(|path| upstream.answer(path, Reply::error(404, "Not found")));
        gateway.client().post(path, &asked).expect(200);
        let sent = upstream.last(RESPONSES).json();
        let block = &sent["input"][0]["content"][0];
        assert_eq!(block["type"], "input_file", "{sent}");
        assert!(upstream.asked_for(CHAT).is_empty(), "{path}");
    }
}

#[test]
fn a_chat_has_no_earlier_answer_to_go_on_from() {
    let (gateway, upstream) = on("new-api");
    let plain =
        json!({"model": MODEL, "messages": [{"role": "user", "content": "x"}], "prompt_cache_key": "k"});
    let mut asked = plain.clone();
    asked["previous_response_id"] = json!("resp_1");
    gateway.client().post(CHAT, &asked).expect(200);
    assert_eq!(upstream.last(CHAT).json(), plain);
}

#[test]
fn a_tier_that_is_blocked_is_refused_and_nobody_is_asked() {
    let rules = json!([{"action": "block", "tiers": ["priority"], "models": [MODEL], "accountTypes": ["apikey"]},
        {"action": "pass", "tiers": ["scale"]}, {"action": "filter"}]);
    let gateway = Gateway::with(&[("OPENAI_SERVICE_TIER_RULES_JSON", &rules.to_string())]);
    let upstream = Upstream::start(&[MODEL]);
    gateway.add_as(&json!({"name": "site", "platform": "new-api"}), &upstream);
    for (tier, wanted) in [("fast", None), ("scale", Some(json!("scale"))), ("flex", Some(Value::Null))] {
        let asked = json!({"model": MODEL, "input": "x", "service_tier": tier});
        let answer = gateway.client().post(RESPONSES, &asked);
        match wanted {
            Some(wanted) => {
                answer.expect(200);
                assert_eq!(upstream.last(RESPONSES).json()["service_tier"], wanted, "{tier}");
            }
            None => {
                assert_eq!(answer.expect(400)["error"]["param"], "service_tier");
                assert_eq!(upstream.asked_for(RESPONSES).len(), 0);
            }
        }
    }
}

#[test]
fn an_answer_ends_at_a_stop_sequence_where_the_upstream_knows_none() {
    let (gateway, upstream) = on("new-api");
    upstream.answer(CHAT, Reply::error(404, "Not found"));
    upstream.answer(MESSAGES, Reply::error(404, "Not found"));
    // The faithful answer, cut in the middle of its text.
    let (before, stop) = wire::TEXT.split_at(wire::TEXT.len() / 2);
    for (path, streams) in [(CHAT, false), (CHAT, true), (MESSAGES, false)] {
        let mut asked = json!({"model": MODEL, "max_tokens": 99, "stream": streams,
            "messages": [{"role": "user", "content": "x"}]});
        asked[if path == CHAT { "stop" } else { "stop_sequences" }] = json!([stop]);
        let answer = gateway.client().send(Request::post(path).json(&asked));
        assert_eq!(answer.status, 200, "{}", answer.text());
        let text = answer.text();
        if streams {
            let said: String = support::split_events(text.as_bytes())
                .iter()
                .filter_map(|event| serde_json::from_str::<Value>(event.trim().strip_prefix("data: ")?).ok())
                .filter_map(|chunk| Some(chunk["choices"][0]["delta"]["content"].as_str()?.to_owned()))
                .collect();
            assert_eq!(said, before);
            assert!(
                text.contains("\"finish_reason\":\"stop\"") && text.ends_with("data: [DONE]\n\n"),
                "{text}"
            );
            continue;
        }
        let answer: Value = serde_json::from_str(&text).expect("JSON");
        match path {
            CHAT => assert_eq!(answer["choices"][0]["message"]["content"], before),
            _ => {
                assert_eq!(answer["content"][0]["text"], before);
                assert_eq!(
                    (&answer["stop_reason"], &answer["stop_sequence"]),
                    (&json!("stop_sequence"), &json!(stop))
                );
            }
        }
        assert_eq!(upstream.last(RESPONSES).json()["stop"], Value::Null);
    }
}
