//! The responses interface over a WebSocket: turns, how they continue, and how they end. The protocol below is tested in
//! `websocket.rs`.

mod broken_turns;

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::paths::{CHAT, MESSAGES, RESPONSES};
use crate::support::{
    Caller, Gate, Gateway, Pair, Reply, Request, Setup, Socket, Upstream, eventually, wire,
};

const MODEL: &str = "model-socket";
const KEY: &str = "sk-team-ws-0123456789";

/// Starts a gateway in front of an upstream that offers only one of the dialects.
fn narrow_with(offered: &str, setup: Setup) -> (Gateway, Upstream) {
    let upstream = Upstream::with_one_path(MODEL, offered);
    let gateway = setup.start().in_front_of("new-api", &upstream);
    gateway.wait_for_channels(MODEL, 1);
    (gateway, upstream)
}

fn narrow(offered: &str) -> (Gateway, Upstream) {
    narrow_with(offered, Setup::default())
}

fn user(text: &str) -> Value {
    json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]})
}

fn first() -> Value {
    json!({"model": MODEL, "store": false, "input": [user("Which way?")]})
}

fn text_of(events: &[Value]) -> String {
    let deltas = events.iter().filter(|event| event["type"] == "response.output_text.delta");
    deltas.filter_map(|event| event["delta"].as_str()).collect()
}

/// Returns the id of the response with which a turn ended.
#[track_caller]
fn id_of(events: &[Value]) -> String {
    let end = events.last().expect("an event");
    assert_eq!(end["type"], "response.completed", "{end}");
    end["response"]["id"].as_str().expect("an id").to_owned()
}

/// Returns the error frame that a socket gets next.
#[track_caller]
fn refused(socket: &mut Socket) -> Value {
    let frame = socket.event();
    assert_eq!(frame["type"], "error", "{frame}");
    assert!(frame["error"]["type"].is_string() && frame["error"]["message"].is_string(), "{frame}");
    frame
}

/// Asserts that the socket still works.
#[track_caller]
fn still_serves(socket: &mut Socket) {
    socket.create(&first());
    assert_eq!(text_of(&socket.turn()), wire::TEXT);
}

fn key(gateway: &Gateway, fields: &Value) -> (Value, Caller) {
    let mut body = json!({"name": "team", "key": KEY});
    for (name, value) in fields.as_object().expect("fields") {
        body[name] = value.clone();
    }
    let item = gateway.admin().post("/api/downstream-keys", &body).expect(200)["item"].clone();
    (item, gateway.with_token(KEY))
}

fn used(gateway: &Gateway, item: &Value) -> Value {
    let list = gateway.admin().get("/api/downstream-keys").expect(200);
    let mut items = list["items"].as_array().expect("items").iter();
    items.find(|key| key["id"] == item["id"]).expect("the key")["usedRequests"].clone()
}

/// Ends the cooldowns of the model's channels.
fn recover(gateway: &Gateway, model: &str) {
    let routes = gateway.routes();
    let route = routes.iter().find(|route| route["modelPattern"] == model).expect("a route");
    let path = format!("/api/routes/{}/cooldown/clear", route["id"]);
    gateway.admin().post(&path, &json!({})).expect(200);
}

// === turns ===

#[test]
fn a_turn_is_told_event_by_event_on_every_upstream() {
    for offered in [CHAT, RESPONSES, MESSAGES] {
        let (gateway, upstream) = narrow(offered);
        let mut socket = gateway.client().socket();
        socket.create(&first());
        let events = socket.turn();
        assert_eq!(text_of(&events), wire::TEXT, "{offered}");
        assert_eq!(events[0]["type"], "response.created", "{offered}");
        let numbers: Vec<_> = events.iter().map(|event| event["sequence_number"].as_u64()).collect();
        let counted: Vec<_> = (0..events.len() as u64).map(Some).collect();
        assert_eq!(numbers, counted, "{offered}");
        let end = &events.last().expect("an event")["response"];
        assert_eq!(end["usage"]["input_tokens"], wire::PROMPT_TOKENS, "{offered}");
        assert_eq!(end["usage"]["output_tokens"], wire::COMPLETION_TOKENS, "{offered}");
        let asked = upstream.last(offered).json();
        assert_eq!(asked["stream"], true, "{offered}");
        for absent in ["type", "generate", "background", "previous_response_id"] {
            assert_eq!(asked[absent], Value::Null, "{offered} {absent}");
        }
        let row = &gateway.wait_for_logs_of(offered, 1)[0];
        assert_eq!((&row["status"], &row["httpStatus"]), (&json!("success"), &json!(200)), "{row}");
        assert_eq!(row["promptTokens"], wire::PROMPT_TOKENS, "{row}");
        assert_eq!(row["modelRequested"], MODEL, "{row}");
    }
}

#[test]
fn an_event_reaches_the_client_before_the_next_one_is_sent() {
    let (gateway, upstream) = narrow(RESPONSES);
    let events = wire::response_events(MODEL);
    // The events up to the first content may be held back.
    let (reply, gates) = Reply::gated(&events, 5);
    upstream.answer(RESPONSES, reply);
    let mut socket = gateway.client().socket();
    socket.create(&first());
    for (gate, event) in gates.iter().zip(&events) {
        gate.open();
        let data = event.lines().find_map(|line| line.strip_prefix("data: ")).expect("data");
        assert_eq!(socket.event(), serde_json::from_str::<Value>(data).expect("JSON"));
    }
    assert!(socket.is_silent_for(Duration::from_millis(100)), "nothing follows the last event");
}

#[test]
fn a_second_turn_sends_the_whole_conversation_once_on_every_upstream() {
    for offered in [CHAT, RESPONSES, MESSAGES] {
        let (gateway, upstream) = narrow(offered);
        let mut socket = gateway.client().socket();
        let tools = json!([{"type": "function", "name": "look", "parameters": {"type": "object"}}]);
        let mut frame = first();
        (frame["instructions"], frame["tools"]) = (json!("Be brief."), tools);
        socket.create(&frame);
        let id = id_of(&socket.turn());
        socket.create(&json!({"previous_response_id": id, "input": "And then?"}));
        let events = socket.turn();
        assert_eq!(text_of(&events), wire::TEXT, "{offered}");
        let asked = upstream.last(offered).json();
        let said = asked.to_string();
        for (text, times) in [("Which way?", 1), (wire::TEXT, 1), ("And then?", 1), ("Be brief.", 1)] {
            assert_eq!(said.matches(text).count(), times, "{offered} {text}: {asked}");
        }
        if offered != RESPONSES {
            let responses = events.iter().filter_map(|event| event.get("response"));
            assert!(responses.clone().all(|told| told["previous_response_id"] == id.as_str()), "{events:?}");
            assert_eq!(responses.count(), 3);
        }
        let order = ["Which way?", wire::TEXT, "And then?"].map(|text| said.find(text));
        assert!(order.is_sorted(), "{offered}: {asked}");
        assert_eq!(said.matches("\"look\"").count(), 1, "{offered}: tools are inherited: {asked}");
        assert_eq!(asked["previous_response_id"], Value::Null);
        assert_eq!(asked["model"], MODEL);

        // A frame that names no previous response stands on its own.
        socket.create(&first());
        socket.turn();
        let asked = upstream.last(offered).json().to_string();
        assert_eq!(asked.matches("Which way?").count(), 1, "{asked}");
        assert!(!asked.contains(wire::TEXT) && !asked.contains("And then?"), "{asked}");
    }
}

#[test]
fn the_turns_of_a_socket_have_ids_of_ours() {
    let (gateway, _upstream) = narrow(CHAT);
    let mut socket = gateway.client().socket();
    let ids: Vec<String> = (0..2)
        .map(|_| {
            socket.create(&first());
            id_of(&socket.turn())
        })
        .collect();
    assert!(ids.iter().all(|id| id.starts_with("resp_") && id.len() == 37) && ids[0] != ids[1], "{ids:?}");
    socket.create(&json!({"previous_response_id": ids[0], "input": "And then?"}));
    assert_eq!(refused(&mut socket)["error"]["code"], "previous_response_not_found");
}

/// A client that edits the conversation continues from there; one that reconnects, or has sent requests over HTTP, from the
/// stored answer.
#[test]
fn a_turn_goes_on_from_an_earlier_answer_and_from_one_that_was_given_elsewhere() {
    let (gateway, upstream) = narrow(CHAT);
    let client = gateway.client();
    let mut socket = client.socket();
    let ask = |socket: &mut Socket, text: &str, previous: &str| {
        socket.create(&json!({"model": MODEL, "previous_response_id": previous, "input": text}));
        id_of(&socket.turn())
    };
    let said = || {
        let messages = upstream.last(CHAT).json()["messages"].clone();
        let users = messages.as_array().expect("messages").iter().filter(|message| message["role"] == "user");
        users.map(|message| message["content"].as_str().expect("text").to_owned()).collect::<Vec<_>>()
    };
    socket.create(&json!({"model": MODEL, "input": "one"}));
    let one = id_of(&socket.turn());
    ask(&mut socket, "two", &one);
    let branch = ask(&mut socket, "other two", &one);
    assert_eq!(said(), ["one", "other two"]);
    ask(&mut socket, "three", &branch);
    assert_eq!(said(), ["one", "other two", "three"]);
    ask(&mut client.socket(), "anew", &branch);
    assert_eq!(said(), ["one", "other two", "anew"]);
    let over_http = client.post("/v1/responses", &json!({"model": MODEL, "input": "by HTTP"})).expect(200);
    ask(&mut socket, "by socket", over_http["id"].as_str().expect("an id"));
    assert_eq!(said(), ["by HTTP", "by socket"]);

    // If the upstream speaks the dialect and stores its answers, it is sent the id.
    let (gateway, upstream) = narrow(RESPONSES);
    let mut socket = gateway.client().socket();
    let first = gateway.client().post(RESPONSES, &json!({"model": MODEL, "input": "one"})).expect(200);
    let id = first["id"].as_str().expect("an id");
    let second = ask(&mut socket, "two", id);
    let asked = upstream.last(RESPONSES).json();
    assert_eq!(
        (&asked["previous_response_id"], asked["input"].to_string().matches("one").count()),
        (&json!(id), 0)
    );
    ask(&mut socket, "three", &second);
    let asked = upstream.last(RESPONSES).json();
    assert_eq!(asked["previous_response_id"], id);
    let input = asked["input"].to_string();
    assert!(input.contains("two") && input.contains("three") && !input.contains("one"), "{input}");
}

#[test]
fn a_tools_output_goes_on_with_the_call_of_the_turn_before() {
    let (gateway, upstream) = narrow(CHAT);
    let call = json!({"tool_calls": [{"index": 0, "id": "call_1", "type": "function",
        "function": {"name": "look", "arguments": "{\"at\":\"map\"}"}}]});
    upstream.answer_once(
        CHAT,
        Reply::events([
            wire::chat_role(MODEL),
            wire::chat_chunk(MODEL, &call, Value::Null),
            wire::chat_chunk(MODEL, &json!({}), json!("tool_calls")),
            wire::DONE.to_owned(),
        ]),
    );
    let mut socket = gateway.client().socket();
    socket.create(&first());
    let events = socket.turn();
    let done = events.iter().find(|event| event["type"] == "response.output_item.done").expect("an item");
    assert_eq!(done["item"]["call_id"], "call_1");
    let output = json!({"type": "function_call_output", "call_id": "call_1", "output": "left"});
    socket.create(&json!({"previous_response_id": id_of(&events), "input": [output]}));
    assert_eq!(text_of(&socket.turn()), wire::TEXT);
    let asked = upstream.last(CHAT).json();
    let messages = asked["messages"].as_array().expect("messages");
    let roles: Vec<_> = messages.iter().filter_map(|message| message["role"].as_str()).collect();
    assert_eq!(roles, ["user", "assistant", "tool"], "{asked}");
    assert_eq!(messages[1]["tool_calls"][0]["function"]["arguments"], "{\"at\":\"map\"}");
    assert_eq!((&messages[2]["tool_call_id"], &messages[2]["content"]), (&json!("call_1"), &json!("left")));
}

#[test]
fn the_older_form_of_a_later_turn_is_understood() {
    let (gateway, upstream) = narrow(CHAT);
    let mut socket = gateway.client().socket();
    socket.send(&json!({"type": "response.append", "input": [user("too soon")]}));
    assert_eq!(refused(&mut socket)["status"], 400);
    socket.create(&first());
    socket.turn();
    socket.send(&json!({"type": "response.append", "input": [user("And then?")]}));
    assert_eq!(text_of(&socket.turn()), wire::TEXT);
    assert_eq!(upstream.last(CHAT).json()["messages"].as_array().map(Vec::len), Some(3));
}

#[test]
fn a_warm_up_is_answered_without_an_upstream_and_can_be_gone_on_with() {
    let (gateway, upstream) = narrow(CHAT);
    let (item, client) = key(&gateway, &json!({}));
    let mut socket = client.socket();
    let mut frame = first();
    (frame["generate"], frame["instructions"]) = (json!(false), json!("Be brief."));
    socket.create(&frame);
    let events = socket.turn();
    let kinds: Vec<_> = events.iter().filter_map(|event| event["type"].as_str()).collect();
    assert_eq!(kinds, ["response.created", "response.completed"]);
    let id = id_of(&events);
    assert!(id.starts_with("resp_prewarm_"), "{id}");
    let end = &events[1]["response"];
    assert_eq!((&end["output"], &end["usage"]["total_tokens"]), (&json!([]), &json!(0)));
    assert_eq!((upstream.asked_for(CHAT).len(), used(&gateway, &item)), (0, json!(0)));

    socket.create(&json!({"model": MODEL, "previous_response_id": id, "input": [user("And then?")]}));
    assert_eq!(text_of(&socket.turn()), wire::TEXT);
    let asked = upstream.last(CHAT).json().to_string();
    assert!(asked.contains("Be brief.") && asked.contains("Which way?") && asked.contains("And then?"));
    assert!(!asked.contains("generate"), "{asked}");
    assert_eq!(used(&gateway, &item), 1);
}

#[test]
fn later_frames_wait_for_the_turn_under_way() {
    let (gateway, upstream) = narrow(CHAT);
    let (events, gate) = (wire::chat_events(MODEL), Gate::new());
    upstream.answer_once(CHAT, Reply::events(&events).waits_for(2, &gate));
    let mut socket = gateway.client().socket();
    socket.create(&first());
    let begun = socket.event();
    assert_eq!(begun["type"], "response.created");
    socket.create(&json!({"model": MODEL, "input": "second"}));
    socket.create(&json!({"model": MODEL, "input": "third"}));
    assert_eq!(upstream.asked_for(CHAT).len(), 1);
    gate.open();
    for turn in 0..3 {
        assert_eq!(text_of(&socket.turn()), wire::TEXT, "{turn}");
    }
    let asked: Vec<String> =
        upstream.asked_for(CHAT).iter().map(|asked| asked.json()["messages"].to_string()).collect();
    assert!(asked[1].contains("second") && asked[2].contains("third"), "{asked:?}");
}

#[test]
fn sockets_do_not_know_each_others_turns_that_are_not_stored() {
    let (gateway, _upstream) = narrow(CHAT);
    let (mut one, mut other) = (gateway.client().socket(), gateway.client().socket());
    one.create(&first());
    let id = id_of(&one.turn());
    other.create(&json!({"model": MODEL, "previous_response_id": id, "input": []}));
    let refusal = refused(&mut other);
    assert_eq!(refusal["status"], 400);
    assert_eq!(refusal["error"]["code"], "previous_response_not_found");
    assert_eq!(refusal["error"]["param"], "previous_response_id");
    still_serves(&mut other);
}

#[test]
fn turns_of_one_socket_stay_with_their_channel_and_others_may_go_elsewhere() {
    let pair = Pair::with(&[("BASE_WEIGHT_FACTOR", "0.5")]);
    let mut socket = pair.gateway.client().socket();
    pair.first.answer_once(RESPONSES, Reply::error(500, "down"));
    for _ in 0..3 {
        socket.create(&json!({"model": Pair::MODEL, "input": "x"}));
        assert_eq!(text_of(&socket.turn()), wire::TEXT);
    }
    // The first weighs ten thousand times as much as the second, but the conversation is bound to the second now.
    assert_eq!((pair.first.asked_for(RESPONSES).len(), pair.second.asked_for(RESPONSES).len()), (1, 3));
}

// === refusals ===

#[test]
fn error_frames_are_of_this_dialect_whatever_version_of_another_the_upgrade_names() {
    let (gateway, upstream) = narrow(RESPONSES);
    upstream.answer(RESPONSES, Reply::error(400, "That cannot be"));
    let mut plain = gateway.client().socket();
    let mut versioned = gateway.client().with("anthropic-version", "2023-06-01").socket();
    for frame in [
        json!({"type": "response.create", "model": "nobody-has-it", "input": "x"}),
        json!({"type": "response.create", "model": MODEL, "input": "x"}),
    ] {
        for socket in [&mut plain, &mut versioned] {
            socket.send(&frame);
        }
        assert_eq!(refused(&mut versioned), refused(&mut plain), "{frame}");
    }
}

#[test]
fn a_frame_that_makes_no_turn_is_refused_and_the_socket_lives_on() {
    let (gateway, upstream) = narrow(CHAT);
    let (item, client) = key(&gateway, &json!({}));
    let mut socket = client.socket();
    for (frame, param) in [
        ("{\"type\":", None),
        ("[]", None),
        ("\"text\"", None),
        (r#"{"type":"session.update"}"#, Some("type")),
        (r#"{"model":"m"}"#, Some("type")),
        (r#"{"type":"response.cancel"}"#, Some("type")),
        (r#"{"type":"response.create","input":"x"}"#, Some("model")),
        (r#"{"type":"response.create","model":"m","input":{}}"#, Some("input")),
        (r#"{"type":"response.create","model":"m","stream_id":"s","input":"x"}"#, Some("stream_id")),
        (
            r#"{"type":"response.create","model":"m","previous_response_id":"resp_0","input":"x"}"#,
            Some("previous_response_id"),
        ),
    ] {
        socket.send_text(frame);
        let refusal = refused(&mut socket);
        assert_eq!(refusal["status"], 400, "{frame}");
        assert_eq!(refusal["error"]["type"], "invalid_request_error", "{frame}");
        assert_eq!(refusal["error"]["param"].as_str(), param, "{frame}");
    }
    assert_eq!((upstream.asked_for(CHAT).len(), used(&gateway, &item)), (0, json!(0)));
    still_serves(&mut socket);
}

#[test]
fn a_model_that_nobody_serves_or_the_key_may_not_use_is_refused_as_over_http() {
    let (gateway, upstream) = narrow(CHAT);
    let mut socket = gateway.client().socket();
    socket.create(&json!({"model": "nobody-has-it", "input": "x"}));
    let refusal = refused(&mut socket);
    assert_eq!((&refusal["status"], &refusal["error"]["type"]), (&json!(503), &json!("server_error")));
    assert_eq!(refusal["error"]["message"], "No available channels for this model");

    let (item, client) = key(&gateway, &json!({"supportedModels": ["other-*"]}));
    let mut socket = client.socket();
    for warm_up in [true, false] {
        let mut frame = first();
        frame["generate"] = json!(!warm_up);
        socket.create(&frame);
        let refusal = refused(&mut socket);
        assert_eq!(
            (&refusal["status"], &refusal["error"]["type"]),
            (&json!(403), &json!("permission_error"))
        );
    }
    assert_eq!((upstream.asked_for(CHAT).len(), used(&gateway, &item)), (0, json!(0)));
}

#[test]
fn a_key_is_looked_at_again_with_every_frame() {
    let (gateway, upstream) = narrow(CHAT);
    let (item, client) = key(&gateway, &json!({"maxRequests": 3}));
    let mut socket = client.socket();
    still_serves(&mut socket);
    let path = format!("/api/downstream-keys/{}", item["id"]);
    for (change, back, code) in [
        (json!({"enabled": false}), json!({"enabled": true}), "key_disabled"),
        (json!({"expiresAt": "2001-01-01T00:00:00Z"}), json!({"expiresAt": null}), "key_expired"),
    ] {
        gateway.admin().put(&path, &change).expect(200);
        socket.create(&first());
        let refusal = refused(&mut socket);
        assert_eq!((&refusal["status"], &refusal["error"]["code"]), (&json!(403), &json!(code)));
        gateway.admin().put(&path, &back).expect(200);
        still_serves(&mut socket);
    }
    socket.create(&first());
    assert_eq!(refused(&mut socket)["error"]["code"], "key_over_requests");
    gateway.admin().delete(&path).expect(200);
    socket.create(&first());
    let refusal = refused(&mut socket);
    assert_eq!((&refusal["status"], &refusal["error"]["code"]), (&json!(403), &json!("invalid_api_key")));
    assert_eq!(upstream.asked_for(CHAT).len(), 3);
}

#[test]
fn every_turn_counts_against_its_key() {
    let (gateway, _upstream) = narrow(CHAT);
    let (item, client) = key(&gateway, &json!({}));
    let mut socket = client.socket();
    assert_eq!(used(&gateway, &item), 0, "the upgrade itself is not counted");
    for turn in 1..=3 {
        still_serves(&mut socket);
        assert_eq!(used(&gateway, &item), turn);
    }
}

// === failures ===

// === the end of a turn by the client ===

// === limits ===

#[test]
fn a_frame_too_many_is_refused_and_charges_nothing() {
    let setup = Setup::default()
        .with("AUTHENTICATED_RATE_LIMIT_MAX", "40")
        .with("REQUEST_RATE_LIMIT_WINDOW_MS", "600000");
    let (gateway, upstream) = narrow_with(CHAT, setup);
    let (item, client) = key(&gateway, &json!({}));
    let mut socket = client.socket();
    for _ in 0..39 {
        socket.send_text("{}");
        assert_eq!(refused(&mut socket)["status"], 400);
    }
    still_serves(&mut socket);
    socket.send_text("not even read");
    let refusal = refused(&mut socket);
    let wait = refusal["retryAfter"].as_u64().expect("a number");
    assert!((1..=600).contains(&wait));
    let wanted = json!({"type": "error", "status": 429, "retryAfter": wait,
        "error": {"type": "invalid_request_error", "message": "Too many requests, please try again later"},
        "headers": {"retry-after": wait.to_string()}});
    assert_eq!(refusal, wanted);
    socket.create(&first());
    assert_eq!(refused(&mut socket)["status"], 429, "the connection stays open");
    assert_eq!((upstream.asked_for(CHAT).len(), used(&gateway, &item)), (1, json!(1)));
    // Frames are counted separately from requests and sockets.
    client.get("/v1/models").expect(200);
    client.socket();
}

#[test]
fn sockets_are_counted_apart_from_requests() {
    let setup = Setup::default()
        .with("AUTHENTICATED_RATE_LIMIT_MAX", "2")
        .with("REQUEST_RATE_LIMIT_WINDOW_MS", "600000");
    let gateway = setup.start();
    let ask = || gateway.client().try_socket(Caller::socket_ask(RESPONSES));
    for _ in 0..2 {
        assert!(ask().is_ok());
        gateway.client().get("/v1/models").expect(200);
    }
    let answer = ask().err().expect("refused");
    let wait = answer.header("retry-after").and_then(|text| text.parse::<u64>().ok()).expect("seconds");
    let body = json!({"statusCode": 429, "error": "Too many requests", "retryAfter": wait});
    assert_eq!(answer.expect(429), body);
    assert_eq!(answer.header("connection"), Some("close"));
    assert_eq!(gateway.client().send(Request::new("GET", "/v1/models")).status, 429);
}
