//! Signatures of thoughts and calls, which some upstreams require back and not every client can carry.

use serde_json::{Value, json};

use super::{CALL, MODEL, STREAM, answer, body};
use crate::support::paths::CHAT;
use crate::support::{Gateway, Reply, Upstream, wire};

#[test]
fn calls_of_another_provider_get_a_placeholder_once_their_signature_is_missed() {
    let upstream = Upstream::of_google(&[MODEL]);
    upstream.answer(CALL, Reply::json(200, &answer("North.")));
    let missed = "Function call is missing a thought_signature in functionCall parts.";
    upstream.answer_once(
        CALL,
        Reply::json(400, &json!({"error": {"code": 400, "message": missed, "status": "INVALID_ARGUMENT"}})),
    );
    let gateway = Gateway::start().in_front_of("gemini", &upstream);
    gateway.wait_for_channels(MODEL, 1);
    let mut body = body();
    let contents = body["contents"].as_array_mut().expect("a list");
    contents.push(json!({"role": "model", "parts": [{"functionCall": {"name": "look"}}]}));
    contents.push(json!({"role": "user", "parts": [{"functionResponse": {"name": "look", "response": {}}}]}));
    gateway.client().post(CALL, &body).expect(200);
    let asked = upstream.asked_for(CALL);
    assert_eq!(asked[0].json(), body, "first as the client wrote it");
    body["contents"][1]["parts"][0]["thoughtSignature"] = json!("skip_thought_signature_validator");
    assert_eq!(asked[1].json(), body);
}

#[test]
fn clients_of_other_dialects_get_the_placeholder_too_once_a_signature_is_missed() {
    let call = json!({"id": "call_1", "type": "function", "function": {"name": "look", "arguments": "{}"}});
    let chat = json!({"model": MODEL, "messages": [
        {"role": "user", "content": "Which way?"},
        {"role": "assistant", "content": null, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_1", "content": "a map"}]});
    let responses = json!({"model": MODEL, "input": [
        {"role": "user", "content": "Which way?"},
        {"type": "function_call", "call_id": "call_1", "name": "look", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "call_1", "output": "a map"}]});
    let messages = json!({"model": MODEL, "max_tokens": 9, "messages": [
        {"role": "user", "content": "Which way?"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "call_1", "name": "look", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "call_1", "content": "a map"}]}]});
    let missed =
        json!({"error": {"message": "Function call is missing a thought_signature in functionCall parts."}});
    for (path, body) in [(CHAT, chat), ("/v1/responses", responses), ("/v1/messages", messages)] {
        let upstream = Upstream::with_one_path(MODEL, CHAT);
        upstream.answer_once(CHAT, Reply::json(400, &missed));
        let gateway = Gateway::start();
        gateway.add_as(&json!({"name": "hub", "platform": "new-api"}), &upstream);
        gateway.client().post(path, &body).expect(200);
        let asked = upstream.asked_for(CHAT);
        let proof = |asked: &Value| asked["messages"][1]["tool_calls"][0]["extra_content"].clone();
        assert_eq!(proof(&asked[asked.len() - 2].json()), Value::Null, "{path}");
        let placed = json!({"google": {"thought_signature": "skip_thought_signature_validator"}});
        assert_eq!(proof(&asked[asked.len() - 1].json()), placed, "{path}");
    }
}

/// Re-encodes signatures as an SDK does: decoded, then encoded with the other base64 alphabet.
fn encoded_anew(parts: &Value) -> Value {
    use base64::Engine;
    use base64::engine::general_purpose::{STANDARD, URL_SAFE};
    let mut parts = parts.clone();
    for part in parts.as_array_mut().expect("parts") {
        if let Some(proof) = part.get_mut("thoughtSignature") {
            let bytes = STANDARD.decode(proof.as_str().expect("text")).expect("base64");
            *proof = json!(URL_SAFE.encode(bytes));
        }
    }
    parts
}

/// Builds the stream of a message, with its texts in two pieces.
fn told_as_message(message: &Value) -> Vec<String> {
    let mut start = message.clone();
    (start["content"], start["stop_reason"]) = (json!([]), Value::Null);
    let mut events = vec![json!({"type": "message_start", "message": start})];
    for (at, block) in message["content"].as_array().expect("blocks").iter().enumerate() {
        let delta = |delta: Value| json!({"type": "content_block_delta", "index": at, "delta": delta});
        let mut begun = block.clone();
        let mut deltas = Vec::new();
        for (member, kind, piece) in [
            ("thinking", "thinking_delta", "thinking"),
            ("text", "text_delta", "text"),
            ("signature", "signature_delta", "signature"),
        ] {
            let Some(text) = block[member].as_str().filter(|_| block["type"] != "tool_use") else { continue };
            let (one, rest) = if member == "signature" { (text, "") } else { text.split_at(4) };
            let pieces = [one, rest].into_iter().filter(|text| !text.is_empty());
            deltas.extend(pieces.map(|text| delta(json!({"type": kind, piece: text}))));
            begun[member] = json!("");
        }
        if block["type"] == "tool_use" {
            deltas
                .push(delta(json!({"type": "input_json_delta", "partial_json": block["input"].to_string()})));
            begun["input"] = json!({});
        }
        events.push(json!({"type": "content_block_start", "index": at, "content_block": begun}));
        events.extend(deltas);
        events.push(json!({"type": "content_block_stop", "index": at}));
    }
    let end = json!({"stop_reason": message["stop_reason"], "stop_sequence": null});
    events.push(json!({"type": "message_delta", "delta": end, "usage": {"output_tokens": 7}}));
    events.push(json!({"type": "message_stop"}));
    events.iter().map(wire::named).collect()
}

/// Builds the stream of a response with a reasoning item and a call. The signature comes when the reasoning is done.
fn told_as_response(response: &Value) -> Vec<String> {
    let [reasoning, call] = [0, 1].map(|at| response["output"][at].clone());
    let mut begun = response.clone();
    (begun["output"], begun["status"]) = (json!([]), json!("in_progress"));
    let (mut thought, mut called) = (reasoning.clone(), call.clone());
    thought["summary"] = json!([]);
    thought.as_object_mut().expect("an object").remove("encrypted_content");
    called["arguments"] = json!("");
    let part = json!({"type": "summary_text", "text": ""});
    let summary = |kind: &str, more: Value| {
        let mut event = json!({"type": format!("response.{kind}"), "item_id": reasoning["id"], "output_index": 0, "summary_index": 0});
        more.as_object().expect("an object").iter().for_each(|(key, value)| event[key] = value.clone());
        event
    };
    let text = reasoning["summary"][0]["text"].as_str().expect("a text");
    let events = [
        json!({"type": "response.created", "response": begun}),
        json!({"type": "response.output_item.added", "output_index": 0, "item": thought}),
        summary("reasoning_summary_part.added", json!({"part": part})),
        summary("reasoning_summary_text.delta", json!({"delta": &text[..5]})),
        summary("reasoning_summary_text.delta", json!({"delta": &text[5..]})),
        summary("reasoning_summary_text.done", json!({"text": text})),
        summary("reasoning_summary_part.done", json!({"part": reasoning["summary"][0]})),
        json!({"type": "response.output_item.done", "output_index": 0, "item": reasoning}),
        json!({"type": "response.output_item.added", "output_index": 1, "item": called}),
        json!({"type": "response.function_call_arguments.delta", "item_id": call["id"], "output_index": 1, "delta": call["arguments"]}),
        json!({"type": "response.function_call_arguments.done", "item_id": call["id"], "output_index": 1, "arguments": call["arguments"]}),
        json!({"type": "response.output_item.done", "output_index": 1, "item": call}),
        json!({"type": "response.completed", "response": response}),
    ];
    events.iter().map(wire::named).collect()
}

#[test]
fn signed_thinking_of_other_dialects_travels_through_a_gemini_client() {
    let thought = json!({"type": "thinking", "thinking": "Look at the map.", "signature": "SIG+/="});
    let message = json!({"id": "msg_1", "type": "message", "role": "assistant", "model": MODEL, "stop_reason": "tool_use",
        "content": [thought, {"type": "text", "text": "Looking."},
            {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"at": "map"}}],
        "usage": {"input_tokens": 5, "output_tokens": 7}});
    let reasoning = json!({"id": "rs_1", "type": "reasoning", "encrypted_content": "gAAA+/=",
        "summary": [{"type": "summary_text", "text": "Look at the map."}]});
    let response = json!({"id": "resp_1", "object": "response", "status": "completed", "model": MODEL, "output": [reasoning,
        {"id": "fc_1", "type": "function_call", "status": "completed", "call_id": "call_1", "name": "look",
            "arguments": "{\"at\":\"map\"}"}],
        "usage": {"input_tokens": 5, "output_tokens": 7, "total_tokens": 12}});
    for (path, answer) in [("/v1/messages", &message), ("/v1/responses", &response)] {
        let whole = || Reply::json(200, answer);
        let events = || {
            Reply::events(if answer == &message { told_as_message(answer) } else { told_as_response(answer) })
        };
        for (streamed, reply) in [(false, whole()), (true, whole()), (false, events()), (true, events())] {
            let upstream = Upstream::with_one_path(MODEL, path);
            let gateway = Gateway::start();
            gateway.add_as(&json!({"name": "hub", "platform": "new-api"}), &upstream);
            upstream.answer_once(path, reply);
            let mut ask = body();
            ask["generationConfig"] =
                json!({"maxOutputTokens": 4000, "thinkingConfig": {"thinkingBudget": 1024}});
            let declared =
                json!([{"functionDeclarations": [{"name": "look", "parameters": {"type": "OBJECT"}}]}]);
            ask["tools"] = declared;
            let client = gateway.client();
            let mut said = Vec::new();
            if streamed {
                let told = client.post(&format!("{STREAM}?alt=sse"), &ask);
                assert_eq!(told.status, 200, "{}", told.text());
                for data in told.text().lines().filter_map(|line| line.strip_prefix("data: ")) {
                    let chunk: Value = serde_json::from_str(data).expect("JSON");
                    said.extend(
                        chunk["candidates"][0]["content"]["parts"].as_array().expect("parts").clone(),
                    );
                }
            } else {
                let told = client.post(CALL, &ask).expect(200);
                said = told["candidates"][0]["content"]["parts"].as_array().expect("parts").clone();
            }
            // Gemini's own clients may or may not send thoughts back, but always send calls with their signatures.
            let call = said.iter().find(|part| part.get("functionCall").is_some()).expect("a call").clone();
            for parts in [json!(said), json!([call])] {
                let mut next = ask.clone();
                let contents = next["contents"].as_array_mut().expect("a list");
                contents.push(json!({"role": "model", "parts": encoded_anew(&parts)}));
                let result = json!({"name": "look", "id": call["functionCall"]["id"], "response": {"result": "north"}});
                contents.push(json!({"role": "user", "parts": [{"functionResponse": result}]}));
                client.post(CALL, &next).expect(200);
                let asked = upstream.last(path).json();
                match path {
                    "/v1/messages" => {
                        let content = asked["messages"][1]["content"].as_array().expect("blocks").clone();
                        assert_eq!(content[0], thought, "{streamed}: {asked}");
                        let thoughts = content.iter().filter(|block| block["type"] == "thinking").count();
                        assert_eq!(
                            (thoughts, &content[content.len() - 1]["name"]),
                            (1, &json!("look")),
                            "{asked}"
                        );
                    }
                    _ => {
                        let input = asked["input"].as_array().expect("items");
                        let items: Vec<&Value> =
                            input.iter().filter(|item| item["type"] == "reasoning").collect();
                        assert_eq!(items, [&reasoning], "{streamed}: {asked}");
                        let at = |kind: &str| input.iter().position(|item| item["type"] == kind);
                        assert!(at("reasoning") < at("function_call"), "{asked}");
                    }
                }
            }
        }
    }
}
