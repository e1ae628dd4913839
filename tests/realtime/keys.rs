//! The limits of keys in open conversations, and what conversations do to the rest of their channel.

use serde_json::{Value, json};

use super::voice::{MODEL, Voice};
use super::{ask, gateway, opened, talk, with_key};
use crate::support::{BINARY, Gateway, Socket, eventually};

fn key(gateway: &Gateway) -> Value {
    gateway.admin().get("/api/downstream-keys").expect(200)["items"][0].clone()
}

#[track_caller]
fn wait_for_use(gateway: &Gateway, requests: i64, tokens: i64) {
    eventually(&format!("{requests} requests and {tokens} tokens are counted"), || {
        let used = &key(gateway)["budgets"][0]["used"];
        (used["requests"] == requests && used["tokens"] == tokens).then_some(())
    });
}

/// Requests a response outside of the conversation, which runs beside others.
fn ask_aside(socket: &mut Socket) -> Value {
    socket.send(&json!({"type": "response.create", "response": {"conversation": "none"}}));
    socket.event()
}

#[track_caller]
fn finish(socket: &mut Socket, count: usize) {
    socket.send(&json!({"type": "finish"}));
    for _ in 0..count {
        assert_eq!(socket.event()["type"], "response.done");
    }
}

#[test]
fn responses_at_the_same_time_are_requests_of_their_own() {
    let voice = Voice::start();
    let gateway = gateway(&[], &[("site", &voice)]);
    let limits = json!({"requestsPerMinute": 3, "budgets": [{"period": "total", "maxTokens": 1_000_000}]});
    let mut socket = opened(&with_key(&gateway, &limits));
    for _ in 0..3 {
        assert_eq!(ask_aside(&mut socket)["type"], "response.created");
    }
    assert_eq!(ask_aside(&mut socket)["error"]["code"], "key_over_requests_per_minute");
    finish(&mut socket, 3);
    assert_eq!(gateway.wait_for_logs(3).len(), 3);
    wait_for_use(&gateway, 3, 90);
    let cost = key(&gateway)["budgets"][0]["used"]["cost"].as_f64().expect("a cost");
    let total = key(&gateway)["usedCost"].as_f64().expect("a cost");
    assert!(total > 0.0 && (cost - total).abs() < 1e-9, "{cost} of {total}");
}

#[test]
fn responses_at_the_same_time_take_a_place_of_their_key_each() {
    let voice = Voice::start();
    let gateway = gateway(&[], &[("site", &voice)]);
    let mut socket = opened(&with_key(&gateway, &json!({"maxConcurrency": 2})));
    for _ in 0..2 {
        assert_eq!(ask_aside(&mut socket)["type"], "response.created");
    }
    assert_eq!(ask_aside(&mut socket)["error"]["code"], "key_over_concurrency");
    finish(&mut socket, 2);
    talk(&mut socket, "response.create");
}

#[test]
fn a_changed_key_holds_in_an_open_conversation() {
    let voice = Voice::start();
    let gateway = gateway(&[], &[("site", &voice)]);
    let mut socket = opened(&with_key(&gateway, &json!({})));
    let mut refusal = |change: &Value| {
        gateway.admin().put("/api/downstream-keys/1", change).expect(200);
        socket.send(&json!({"type": "response.create"}));
        let event = socket.event();
        if event["type"] == "error" {
            return Some(event["error"]["code"].as_str().expect("a code").to_owned());
        }
        for expected in ["response.output_audio.delta", "response.done"] {
            assert_eq!(socket.event()["type"], expected);
        }
        None
    };
    // The first response is the one of the opening, which was counted before there was a limit.
    assert_eq!(refusal(&json!({"requestsPerMinute": 1})), None);
    assert_eq!(refusal(&json!({})), None);
    assert_eq!(refusal(&json!({})).as_deref(), Some("key_over_requests_per_minute"));
    let budget = json!({"period": "total", "maxRequests": 2, "maxTokens": 1000});
    assert_eq!(refusal(&json!({"requestsPerMinute": null, "budgets": [budget]})), None);
    assert_eq!(refusal(&json!({})), None);
    wait_for_use(&gateway, 2, 60);
    assert_eq!(refusal(&json!({})).as_deref(), Some("key_over_budget"));
    let other = json!({"budgets": [], "supportedModels": ["another"]});
    assert_eq!(refusal(&other).as_deref(), Some("model_not_allowed"));
    assert_eq!(refusal(&json!({"supportedModels": ["*"]})), None);
}

/// Wherever a session or a response may name one, in frames of text and of bytes.
#[test]
fn a_key_for_some_models_can_name_no_other_one_in_a_conversation() {
    let voice = Voice::start();
    let gateway = gateway(&[], &[("site", &voice)]);
    let mut socket = opened(&with_key(&gateway, &json!({"supportedModels": [MODEL, "model-hears"]})));
    let frames = |model: &str| {
        [
            json!({"type": "session.update", "session": {"model": model}}),
            json!({"type": "session.update", "session": {"audio": {"input": {"transcription": {"model": model}}}}}),
            json!({"type": "transcription_session.update", "session": {"input_audio_transcription": {"model": model}}}),
            json!({"type": "response.create", "response": {"model": model}}),
        ]
    };
    for frame in frames("another") {
        socket.send(&frame);
        let event = socket.event();
        assert_eq!((&event["type"], &event["error"]["code"]), (&json!("error"), &json!("model_not_allowed")));
        socket.frame(true, BINARY, frame.to_string().as_bytes());
        assert_eq!(socket.event()["error"]["message"], "Model another is not allowed for this key");
    }
    socket.send_text(r#"{"type":"session.update","session":{"model":"another"},}"#);
    assert_eq!(socket.event()["error"]["code"], "invalid_json");
    assert!(voice.heard().is_empty(), "{:?}", voice.heard());
    let [session, hearing, older, response] = frames("model-hears");
    for frame in [session, hearing, older] {
        socket.send(&frame);
        assert_eq!(socket.event()["of"], frame);
    }
    socket.send(&response);
    assert_eq!(socket.event()["type"], "response.created");
    let mut unrestricted = opened(&gateway.client());
    for frame in &frames("another")[..3] {
        unrestricted.send(frame);
        assert_eq!(&unrestricted.event()["of"], frame);
    }
}

#[test]
fn an_open_conversation_keeps_nobody_from_trying_its_channel() {
    let voice = Voice::start();
    let gateway = gateway(
        &[("COOLDOWN_LAST_RESORT_SEC", "1"), ("DISABLE_CROSS_PROTOCOL_FALLBACK", "true")],
        &[("site", &voice)],
    );
    voice.answer_chats_with(500);
    assert_ne!(gateway.client().chat(MODEL).status, 200);
    assert!(gateway.channels(MODEL)[0]["cooldownUntil"].is_string());
    let mut socket = eventually("the channel is the last resort", || gateway.client().try_socket(ask()).ok());
    assert_eq!(socket.event()["type"], "session.created");
    voice.answer_chats_with(200);
    eventually("it is tried again", || (gateway.client().chat(MODEL).status == 200).then_some(()));
    assert!(gateway.channels(MODEL)[0]["cooldownUntil"].is_null());
    talk(&mut socket, "response.create");
}

#[test]
fn a_conversation_without_a_response_costs_nothing() {
    let voice = Voice::start();
    let gateway = Gateway::start();
    let address = format!("http://{}", voice.address);
    let site = gateway.create_site(&json!({"name": "by the call", "url": address, "platform": "new-api"}));
    let account = gateway.create_account(&site, "sk-upstream-key");
    gateway.wait_for_task(&account);
    gateway.wait_for_channels(MODEL, 1);
    let client = with_key(&gateway, &json!({}));
    let spent = |calls: f64| {
        eventually("the calls are paid for", || {
            (key(&gateway)["usedCost"].as_f64()? == 0.3 * calls).then_some(())
        });
    };
    let mut socket = opened(&client);
    talk(&mut socket, "response.create");
    spent(1.0);
    let mut unused = opened(&client);
    unused.close(1000);
    let rows = gateway.wait_for_logs(2);
    assert_eq!((&rows[1]["status"], &rows[1]["estimatedCost"]), (&json!("success"), &json!(0)));
    assert_eq!(gateway.channels(MODEL)[0]["successCount"], 1);
    talk(&mut socket, "response.create");
    spent(2.0);
}
