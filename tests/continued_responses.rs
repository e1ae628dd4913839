//! A conversation of the responses dialect continues by the id of its last answer: on upstreams that know no such ids, and
//! on those that do, but only for the key that was given the id.

use serde_json::{Value, json};

use crate::support::paths::{CHAT, RESPONSES};
use crate::support::{self, Caller, Gateway, Reply, Request, Upstream, wire};

const MODEL: &str = "model-goes-on";

/// Starts a gateway in front of an upstream that speaks only chat.
fn started() -> (Gateway, Upstream) {
    let (gateway, upstream) = (Gateway::start(), Upstream::start(&[MODEL]));
    for path in [RESPONSES, "/v1/messages"] {
        upstream.answer(path, Reply::error(404, "Not found"));
    }
    gateway.add_as(&json!({"name": "site", "platform": "new-api"}), &upstream);
    (gateway, upstream)
}

fn says(client: &Caller, text: &str, previous: Option<&Value>, streamed: bool) -> Value {
    let mut body = json!({"model": MODEL, "input": text, "stream": streamed});
    if let Some(previous) = previous {
        body["previous_response_id"] = previous["id"].clone();
    }
    let answer = client.post(RESPONSES, &body);
    if !streamed {
        return answer.expect(200);
    }
    assert_eq!(answer.status, 200, "{}", answer.text());
    let text = answer.text();
    let last = text.lines().filter_map(|line| line.strip_prefix("data: ")).next_back().expect("events");
    serde_json::from_str::<Value>(last).expect("JSON")["response"].clone()
}

/// Returns the roles and texts of the chat that the upstream received.
fn seen(upstream: &Upstream) -> Vec<(String, String)> {
    let asked = upstream.last(CHAT).json();
    let messages = asked["messages"].as_array().expect("messages").iter();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    messages.map(|message| (text(&message["role"]), text(&message["content"]))).collect()
}

#[test]
fn a_conversation_goes_on_by_the_id_of_its_last_answer() {
    let (gateway, upstream) = started();
    let client = gateway.client();
    for streamed in [false, true] {
        let first = says(&client, "One", None, streamed);
        let second = says(&client, "Two", Some(&first), streamed);
        let said = |role: &str, text: &str| (role.to_owned(), text.to_owned());
        let two = [said("user", "One"), said("assistant", wire::TEXT), said("user", "Two")];
        assert_eq!(seen(&upstream), two, "{streamed}");
        assert_eq!(second["previous_response_id"], first["id"], "{streamed}");
        says(&client, "Three", Some(&second), streamed);
        let three = [&two[..], &[said("assistant", wire::TEXT), said("user", "Three")]].concat();
        assert_eq!(seen(&upstream), three, "{streamed}");
        assert_eq!(upstream.last(CHAT).json()["stream"] == true, streamed);
    }
}

#[test]
fn answers_of_an_upstream_that_repeats_its_ids_are_told_apart() {
    let sub2api = || {
        let (gateway, upstream) = Gateway::serving_as("sub2api", &[MODEL]);
        upstream.answer(RESPONSES, Reply::events(wire::response_events(MODEL)));
        (gateway, upstream)
    };
    for (gateway, upstream) in [started(), sub2api()] {
        let client = gateway.client();
        for streamed in [false, true] {
            let mine = says(&client, "Mine", None, streamed);
            let yours = says(&client, "Yours", None, streamed);
            let digits = |answer: &Value| answer["id"].as_str().unwrap_or_default().replace("resp_", "");
            assert!(digits(&mine).len() == 32 && digits(&mine) != digits(&yours), "{mine} {yours}");
            let next = says(&client, "And then?", Some(&mine), streamed);
            assert_ne!(digits(&next), digits(&mine));
            let asked = upstream.asked();
            let turn = asked.iter().rev().find(|request| !request.body.is_empty()).expect("a turn");
            let turn = turn.json().to_string();
            assert!(turn.contains("Mine") && !turn.contains("Yours"), "{streamed}: {turn}");
        }
    }
}

#[test]
fn an_answer_is_kept_for_its_owner_and_only_if_it_wants() {
    let (gateway, upstream) = started();
    let first = says(&gateway.client(), "One", None, false);
    let key = json!({"name": "other", "key": "sk-managed-key-7", "supportedModels": ["*"]});
    let other = gateway.add_key(&key);
    let body = json!({"model": MODEL, "input": "Two", "previous_response_id": first["id"]});
    let refused = other.post(RESPONSES, &body).expect(400);
    assert_eq!(refused["error"]["code"], "previous_response_not_found", "{refused}");

    let mut another = wire::chat(MODEL);
    another["id"] = json!("chatcmpl-another");
    upstream.answer(CHAT, Reply::json(200, &another));
    let unkept = json!({"model": MODEL, "input": "One", "store": false});
    let unkept = gateway.client().post(RESPONSES, &unkept).expect(200);
    let body = json!({"model": MODEL, "input": "Two", "previous_response_id": unkept["id"]});
    let refused = gateway.client().post(RESPONSES, &body).expect(400);
    assert_eq!(refused["error"]["code"], "previous_response_not_found", "{refused}");
    assert_eq!(upstream.asked_for(CHAT).len(), 2);
}

#[test]
fn what_is_stored_of_a_small_answer_is_small() {
    let (gateway, _upstream) = started();
    // The header is read from the connection together with the body.
    let client = gateway.client().with("x-padding", &"x".repeat(12 << 10));
    let store = |turns: usize| (0..turns).for_each(|_| drop(says(&client, "One", None, false)));
    store(50);
    let before = gateway.resident_kib();
    let turns = 1_500;
    store(turns);
    let grown = gateway.resident_kib().saturating_sub(before);
    assert!(grown < 4 * turns as u64, "{grown} KiB for {turns} answers");
}

/// Builds an agent's second turn, with references in place of the items that it was given.
fn refers_to(answer: &Value, more: &[Value]) -> Value {
    let output = answer["output"].as_array().expect("items").iter();
    let mut input = vec![json!({"role": "user", "content": "Look there."})];
    input.extend(output.map(|item| json!({"type": "item_reference", "id": item["id"]})));
    input.extend(more.iter().cloned());
    json!({"model": MODEL, "input": input})
}

#[test]
fn items_of_an_answer_can_be_referred_to_on_a_converted_upstream() {
    let (gateway, upstream) = started();
    let call = json!({"id": "call_1", "type": "function", "function": {"name": "look", "arguments": "{}"}});
    let message = json!({"role": "assistant", "content": "Looking.", "tool_calls": [call]});
    let mut called = wire::chat(MODEL);
    called["choices"] = json!([{"index": 0, "message": message, "finish_reason": "tool_calls"}]);
    upstream.answer_once(CHAT, Reply::json(200, &called));
    let client = gateway.client();
    let first = client.post(RESPONSES, &json!({"model": MODEL, "input": "Look there."})).expect(200);
    let result = json!({"type": "function_call_output", "call_id": "call_1", "output": "a map"});
    let body = refers_to(&first, &[result]);
    let second = client.post(RESPONSES, &body).expect(200);
    let asked = upstream.last(CHAT).json();
    let roles: Vec<&Value> =
        asked["messages"].as_array().expect("messages").iter().map(|message| &message["role"]).collect();
    assert_eq!(roles, ["user", "assistant", "tool"], "{asked}");
    assert_eq!(asked["messages"][1]["content"], "Looking.");
    assert_eq!(asked["messages"][1]["tool_calls"][0]["id"], "call_1");

    // The turn after that may name the previous one by its id alone.
    let body = json!({"model": MODEL, "input": "And?", "previous_response_id": second["id"]});
    client.post(RESPONSES, &body).expect(200);
    assert_eq!(upstream.last(CHAT).json()["messages"].as_array().map(Vec::len), Some(5));

    // Also on a socket.
    let mut socket = client.socket();
    let mut frame =
        refers_to(&first, &[json!({"type": "function_call_output", "call_id": "call_1", "output": "x"})]);
    frame["type"] = json!("response.create");
    socket.send(&frame);
    socket.turn();
    let asked = upstream.last(CHAT).json();
    assert_eq!(asked["messages"][1]["tool_calls"][0]["id"], "call_1", "{asked}");
}

#[test]
fn a_reference_to_an_item_that_is_not_stored_is_refused_with_what_to_send() {
    let (gateway, upstream) = started();
    let client = gateway.client();
    let body = json!({"model": MODEL, "input": "One", "store": false});
    let unkept = client.post(RESPONSES, &body).expect(200);
    let kept = says(&client, "One", None, false);
    let key = json!({"name": "other", "key": "sk-managed-key-8", "supportedModels": ["*"]});
    let other = gateway.add_key(&key);
    let theirs = json!({"output": [{"id": "msg_1"}]});
    let asked = upstream.asked_for(CHAT).len();
    for (client, answer) in [(&client, &unkept), (&other, &kept), (&client, &theirs)] {
        let refused = client.post(RESPONSES, &refers_to(answer, &[])).expect(400);
        let message = refused["error"]["message"].as_str().unwrap_or_default();
        assert!(message.contains("send the item"), "{refused}");
        assert_eq!(refused["error"]["type"], "invalid_request_error", "{refused}");
    }
    assert_eq!(upstream.asked_for(CHAT).len(), asked);
}

#[test]
fn an_upstream_that_is_asked_to_store_nothing_has_its_answers_kept_for_it() {
    for platform in ["sub2api", "codex"] {
        let (gateway, upstream, path) = storing_nothing(platform);
        // The last event does not repeat the output, as with codex when nothing is stored.
        let mut events = wire::response_events(MODEL);
        let mut whole = wire::response(MODEL);
        whole["output"] = json!([]);
        *events.last_mut().expect("events") =
            wire::named(&json!({"type": "response.completed", "response": whole, "sequence_number": 12}));
        let pieces: Vec<Vec<u8>> = events.concat().as_bytes().chunks(41).map(<[u8]>::to_vec).collect();
        upstream.answer(path, Reply::events(pieces));
        let client = gateway.client();
        for streamed in [false, true] {
            let first = says(&client, "One", None, streamed);
            says(&client, "Two", Some(&first), streamed);
            let asked = upstream.last(path).json();
            let said: Vec<&Value> =
                asked["input"].as_array().expect("items").iter().map(|item| &item["role"]).collect();
            assert_eq!(said, ["user", "assistant", "user"], "{platform} {streamed}: {asked}");
            assert!(asked.get("previous_response_id").is_none(), "{asked}");
        }
        let unknown = json!({"model": MODEL, "input": "Three", "previous_response_id": "resp_unknown"});
        let refused = client.post(RESPONSES, &unknown).expect(400);
        assert_eq!(refused["error"]["code"], "previous_response_not_found", "{refused}");
    }
}

/// Creates a managed key; returns its id and a client that uses it.
fn key_of(gateway: &Gateway, name: &str) -> (i64, Caller) {
    let token = format!("sk-managed-key-of-{name}");
    let key = json!({"name": name, "key": token, "supportedModels": ["*"]});
    let made = gateway.admin().post("/api/downstream-keys", &key).expect(200);
    let id = made["item"]["id"].as_i64().or_else(|| made["id"].as_i64()).expect("an id");
    (id, gateway.with_token(&token))
}

/// Starts a gateway in front of an upstream whose platform is asked to store nothing; returns the path of requests, too.
fn storing_nothing(platform: &str) -> (Gateway, Upstream, &'static str) {
    if platform != "codex" {
        let (gateway, upstream) = Gateway::serving_as(platform, &[MODEL]);
        return (gateway, upstream, RESPONSES);
    }
    let (gateway, upstream) = (Gateway::start(), Upstream::start(&[MODEL]));
    gateway.add_codex(&upstream, MODEL);
    (gateway, upstream, "/responses")
}

/// Starts a gateway in front of an upstream that stores its answers.
fn storing() -> (Gateway, Upstream) {
    Gateway::serving(&[MODEL])
}

/// Requests an answer that the upstream stores under this id.
fn given(client: &Caller, upstream: &Upstream, id: &str, streamed: bool) {
    let mut answer = wire::response(MODEL);
    answer["id"] = json!(id);
    let reply = if streamed {
        Reply::events(wire::response_events(MODEL).into_iter().map(|event| event.replace("resp_stub", id)))
    } else {
        Reply::json(200, &answer)
    };
    upstream.answer_once(RESPONSES, reply);
    assert_eq!(says(client, "One", None, streamed)["id"], id);
}

fn goes_on(client: &Caller, id: &str) -> support::Answer {
    client.post(RESPONSES, &json!({"model": MODEL, "input": "Two", "previous_response_id": id}))
}

#[test]
fn no_upstream_is_handed_the_answer_of_another_key() {
    let (gateway, upstream) = storing();
    let (_, ann) = key_of(&gateway, "ann");
    let (_, bob) = key_of(&gateway, "bob");
    given(&ann, &upstream, "resp_ann", false);
    given(&ann, &upstream, "resp_ann_streamed", true);
    given(&gateway.client(), &upstream, "resp_global", false);
    given(&ann, &upstream, "resp_twice", false);
    given(&bob, &upstream, "resp_twice", false);
    // Ownership of ids survives a restart; an id that was never given out here may belong to anyone.
    gateway.wait_for_logs(5);
    let gateway = gateway.restart();
    let [ann, bob] = ["ann", "bob"].map(|name| gateway.with_token(&format!("sk-managed-key-of-{name}")));
    let global = gateway.client();
    let asked = upstream.asked_for(RESPONSES).len();
    for (client, id) in [
        (&bob, "resp_ann"),
        (&bob, "resp_ann_streamed"),
        (&global, "resp_ann"),
        (&bob, "resp_global"),
        (&ann, "resp_twice"),
        (&bob, "resp_twice"),
        (&bob, "resp_made_elsewhere"),
    ] {
        let refused = goes_on(client, id).expect(400);
        assert_eq!(refused["error"]["code"], "previous_response_not_found", "{id}: {refused}");
        assert_eq!(refused["error"]["param"], "previous_response_id", "{id}: {refused}");
    }
    assert_eq!(upstream.asked_for(RESPONSES).len(), asked);
    for (client, id) in [
        (&ann, "resp_ann"),
        (&ann, "resp_ann_streamed"),
        (&global, "resp_global"),
        (&global, "resp_made_elsewhere"),
    ] {
        goes_on(client, id).expect(200);
        assert_eq!(upstream.last(RESPONSES).json()["previous_response_id"], id);
    }
}

#[test]
fn an_answer_whose_id_only_the_end_of_its_stream_tells_belongs_to_its_key() {
    let (gateway, upstream) = storing();
    let (_, ann) = key_of(&gateway, "ann");
    let (_, bob) = key_of(&gateway, "bob");
    let events = wire::response_events(MODEL).into_iter().skip(2);
    upstream
        .answer_once(RESPONSES, Reply::events(events.map(|event| event.replace("resp_stub", "resp_late"))));
    assert_eq!(says(&ann, "One", None, true)["id"], "resp_late");
    goes_on(&bob, "resp_late").expect(400);
    goes_on(&ann, "resp_late").expect(200);
    assert_eq!(upstream.last(RESPONSES).json()["previous_response_id"], "resp_late");
}

#[test]
fn an_unknown_answer_passes_where_one_key_alone_uses_the_account() {
    let (gateway, upstream) = storing();
    let (_, ann) = key_of(&gateway, "ann");
    goes_on(&ann, "resp_made_elsewhere").expect(200);
    assert_eq!(upstream.last(RESPONSES).json()["previous_response_id"], "resp_made_elsewhere");
    let (bob, _) = key_of(&gateway, "bob");
    goes_on(&ann, "resp_made_elsewhere").expect(400);
    gateway.admin().delete(&format!("/api/downstream-keys/{bob}")).expect(200);
    goes_on(&ann, "resp_made_elsewhere").expect(200);
}

#[test]
fn no_upstream_is_handed_the_conversation_of_another_key() {
    let (gateway, upstream) = storing();
    let (_, ann) = key_of(&gateway, "ann");
    let goes_on_in = |client: &Caller, conversation: Value| {
        client.post(RESPONSES, &json!({"model": MODEL, "input": "Two", "conversation": conversation}))
    };
    // While there is only one key, its holder may have created the conversation with the account's key.
    goes_on_in(&ann, json!("conv_ann")).expect(200);
    assert_eq!(upstream.last(RESPONSES).json()["conversation"], "conv_ann");
    let (_, bob) = key_of(&gateway, "bob");
    let global = gateway.client();
    goes_on_in(&global, json!({"id": "conv_global"})).expect(200);
    goes_on_in(&ann, json!({"id": "conv_ann"})).expect(200);
    let asked = upstream.asked_for(RESPONSES).len();
    for (client, id) in [
        (&bob, "conv_ann"),
        (&global, "conv_ann"),
        (&bob, "conv_global"),
        (&ann, "conv_global"),
        (&bob, "conv_made_elsewhere"),
    ] {
        for conversation in [json!(id), json!({"id": id})] {
            let refused = goes_on_in(client, conversation).expect(400);
            assert_eq!(refused["error"]["param"], "conversation", "{id}: {refused}");
        }
    }
    assert_eq!(upstream.asked_for(RESPONSES).len(), asked);
    // Ownership survives a restart.
    gateway.wait_for_logs(5);
    let gateway = gateway.restart();
    let [ann, bob] = ["ann", "bob"].map(|name| gateway.with_token(&format!("sk-managed-key-of-{name}")));
    goes_on_in(&bob, json!("conv_ann")).expect(400);
    goes_on_in(&ann, json!("conv_ann")).expect(200);
    goes_on_in(&gateway.client(), json!("conv_global")).expect(200);
}

#[test]
fn items_of_an_upstream_that_stores_nothing_can_be_referred_to() {
    for platform in ["sub2api", "codex"] {
        let (gateway, upstream, path) = storing_nothing(platform);
        upstream.answer(path, Reply::events(wire::response_events(MODEL)));
        let client = gateway.client();
        for streamed in [false, true] {
            let first = says(&client, "One", None, streamed);
            client.post(RESPONSES, &refers_to(&first, &[])).expect(200);
            let asked = upstream.last(path).json();
            let items = asked["input"].as_array().expect("items");
            assert!(items.iter().all(|item| item["type"] != "item_reference"), "{platform}: {asked}");
            assert!(items.iter().any(|item| item["content"][0]["text"] == wire::TEXT), "{platform}: {asked}");
        }
        let asked = upstream.asked_for(path).len();
        let theirs = json!({"output": [{"id": "msg_of_nobody"}]});
        let refused = client.post(RESPONSES, &refers_to(&theirs, &[])).expect(400);
        let message = refused["error"]["message"].as_str().unwrap_or_default();
        assert!(message.contains("send the items"), "{refused}");
        assert_eq!(upstream.asked_for(path).len(), asked);
    }
}

#[test]
fn a_history_that_is_named_twice_is_refused() {
    let (gateway, upstream) = storing();
    let (_, ann) = key_of(&gateway, "ann");
    let (_, bob) = key_of(&gateway, "bob");
    given(&ann, &upstream, "resp_ann", false);
    given(&bob, &upstream, "resp_bob", false);
    let asked = upstream.asked_for(RESPONSES).len();
    // If a member occurs twice, some readers take the first and some the last.
    for (param, members) in [
        ("previous_response_id", r#""previous_response_id":"resp_bob","previous_response_id":"resp_ann""#),
        ("conversation", r#""conversation":"conv_bob","conversation":{"id":"conv_ann"}"#),
        ("conversation", r#""conversation":{"id":"conv_bob","id":"conv_ann"}"#),
    ] {
        let body = format!(r#"{{"model":"{MODEL}","input":"Two",{members}}}"#);
        let refused = bob.send(Request::post(RESPONSES).json_text(body)).expect(400);
        assert_eq!(refused["error"]["param"], param, "{members}: {refused}");
    }
    assert_eq!(upstream.asked_for(RESPONSES).len(), asked);
}

/// Requests an answer whose only item the upstream stores under this id.
fn given_item(client: &Caller, upstream: &Upstream, id: &str, streamed: bool) {
    let in_place = |text: String| text.replace("msg_stub", id).replace("resp_stub", &format!("resp_of_{id}"));
    let reply = if streamed {
        Reply::events(wire::response_events(MODEL).into_iter().map(in_place))
    } else {
        let answer = in_place(wire::response(MODEL).to_string());
        Reply::json(200, &serde_json::from_str(&answer).expect("JSON"))
    };
    upstream.answer_once(RESPONSES, reply);
    assert_eq!(says(client, "One", None, streamed)["output"][0]["id"], id);
}

/// The forms in which an upstream accepts an item by its id alone.
fn references_to(id: &str) -> [Value; 4] {
    [
        json!({"type": "item_reference", "id": id}),
        json!({"id": id}),
        json!({"type": "image_generation_call", "id": id}),
        json!({"type": "reasoning", "id": id, "summary": [], "encrypted_content": null}),
    ]
}

fn with_item(item: &Value) -> Value {
    json!({"model": MODEL, "input": [item, {"role": "user", "content": "Two"}]})
}

#[test]
fn no_upstream_is_handed_an_item_of_another_key() {
    let (gateway, upstream) = storing();
    let (_, ann) = key_of(&gateway, "ann");
    key_of(&gateway, "bob");
    given_item(&ann, &upstream, "msg_ann", false);
    given_item(&ann, &upstream, "msg_ann_streamed", true);
    given_item(&gateway.client(), &upstream, "msg_global", true);
    gateway.wait_for_logs(3);
    let mut gateway = gateway;
    // Ownership of items survives a restart.
    for restarts in [false, true] {
        if restarts {
            gateway = gateway.restart();
        }
        let [ann, bob] = ["ann", "bob"].map(|name| gateway.with_token(&format!("sk-managed-key-of-{name}")));
        let global = gateway.client();
        let asked = upstream.asked_for(RESPONSES).len();
        for (client, id) in
            [(&bob, "msg_ann"), (&bob, "msg_ann_streamed"), (&global, "msg_ann"), (&ann, "msg_global")]
        {
            for item in references_to(id) {
                for path in [RESPONSES, "/v1/responses/compact", "/v1/responses/input_tokens"] {
                    let refused = client.post(path, &with_item(&item)).expect(400);
                    let message = refused["error"]["message"].as_str().unwrap_or_default();
                    assert!(message.contains("Send the item itself"), "{path} {item}: {refused}");
                    assert_eq!(refused["error"]["param"], "input", "{path} {item}: {refused}");
                }
            }
        }
        // The letters may be escaped, and of a member that is given twice an upstream may read either.
        for item in [
            r#"{"type":"item_reference","\u0069d":"msg_\u0061nn"}"#,
            r#"{"type":"item_reference","id":"msg_ann","id":"msg_bob"}"#,
            r#"{"type":"item_reference","type":"message","role":"user","content":"x","id":"msg_ann"}"#,
        ] {
            let body = format!(r#"{{"model":"{MODEL}","input":[{item}]}}"#);
            bob.send(Request::post(RESPONSES).json_text(body)).expect(400);
        }
        // An item that was never given out here may be anyone's.
        let refused = bob.post(RESPONSES, &with_item(&references_to("msg_made_elsewhere")[0])).expect(400);
        let message = refused["error"]["message"].as_str().unwrap_or_default();
        assert!(message.contains("send the items"), "{refused}");
        assert_eq!(upstream.asked_for(RESPONSES).len(), asked);
        for (client, id) in [
            (&ann, "msg_ann"),
            (&ann, "msg_ann_streamed"),
            (&global, "msg_global"),
            (&global, "msg_made_elsewhere"),
        ] {
            for item in references_to(id) {
                client.post(RESPONSES, &with_item(&item)).expect(200);
                assert_eq!(upstream.last(RESPONSES).json()["input"][0], item);
            }
        }
        // Whoever has an item may send it, whatever its id.
        let whole = json!({"type": "message", "role": "assistant", "id": "msg_ann",
            "content": [{"type": "output_text", "text": "Hello"}]});
        bob.post(RESPONSES, &with_item(&whole)).expect(200);
    }
}

#[test]
fn a_request_that_refers_to_an_item_goes_to_the_account_that_has_it() {
    let gateway = Gateway::start();
    let upstreams = [(), ()].map(|()| Upstream::start(&[MODEL]));
    for (name, upstream) in ["one", "two"].into_iter().zip(&upstreams) {
        gateway.add_as(&json!({"name": name, "platform": "openai"}), upstream);
        upstream.answer(RESPONSES, Reply::json(200, &wire::response(MODEL)));
    }
    let client = gateway.client();
    says(&client, "One", None, false);
    let has_it = upstreams.iter().position(|upstream| !upstream.asked_for(RESPONSES).is_empty());
    let (with, without) = match has_it {
        Some(0) => (&upstreams[0], &upstreams[1]),
        _ => (&upstreams[1], &upstreams[0]),
    };
    for _ in 0..6 {
        client.post(RESPONSES, &with_item(&references_to("msg_stub")[0])).expect(200);
    }
    assert_eq!((with.asked_for(RESPONSES).len(), without.asked_for(RESPONSES).len()), (7, 0));
}
