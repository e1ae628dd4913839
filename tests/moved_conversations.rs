//! A conversation that moves from the model of one provider to that of another, with what the first one gave the client.

use serde_json::{Value, json};

use crate::support::paths::CHAT;
use crate::support::{Gateway, Reply};

/// Builds the second turn of a conversation whose first answer thought and called a tool.
fn second_turn(model: &str) -> Value {
    json!({"model": model, "messages": [
        {"role": "user", "content": "Which way?"},
        {"role": "assistant", "content": null, "reasoning_content": "A map would help.", "tool_calls": [
            {"id": "call_1", "type": "function", "function": {"name": "map", "arguments": "{}"},
                "extra_content": {"google": {"thought_signature": "UFJPT0Y="}}}]},
        {"role": "tool", "tool_call_id": "call_1", "content": "North."}]})
}

/// Returns the second turn without the members of these names, in the assistant's message and in its call.
fn without(model: &str, names: &[&str]) -> Value {
    let mut body = second_turn(model);
    let message = &mut body["messages"][1];
    for name in names {
        message.as_object_mut().expect("a message").remove(*name);
        message["tool_calls"][0].as_object_mut().expect("a call").remove(*name);
    }
    body
}

#[test]
fn what_one_provider_gave_does_not_reach_another() {
    for (platform, model, removed) in [
        ("openai", "gpt-5.2", &["reasoning_content", "extra_content"][..]),
        ("new-api", "deepseek-chat", &["extra_content"]),
        ("new-api", "gemini-3-pro", &[]),
    ] {
        let (gateway, upstream) = Gateway::serving_as(platform, &[model]);
        upstream.answer("/v1/responses", Reply::error(404, "Not found"));
        gateway.wait_for_channels(model, 1);
        gateway.client().post(CHAT, &second_turn(model)).expect(200);
        assert_eq!(upstream.last(CHAT).json(), without(model, removed), "{platform} {model}");
    }
}

#[test]
fn a_member_that_a_chat_upstream_does_not_know_in_a_message_is_left_out() {
    let model = "gemini-3-pro";
    for (status, refusal, removed) in [
        (
            400,
            json!({"error": {"message": "messages.1.assistant.reasoning_content: property 'messages.1.assistant.reasoning_content' is unsupported"}}),
            "reasoning_content",
        ),
        (
            422,
            json!({"object": "error", "message": {"detail": [{"type": "extra_forbidden",
                "loc": ["body", "messages", 1, "assistant", "reasoning_content"],
                "msg": "Extra inputs are not permitted", "input": "A map would help."}]}}),
            "reasoning_content",
        ),
        (
            400,
            json!({"error": {"message": "Unknown parameter: 'messages[1].tool_calls[0].extra_content'."}}),
            "extra_content",
        ),
    ] {
        let (gateway, upstream) = Gateway::serving_as("new-api", &[model]);
        gateway.wait_for_channels(model, 1);
        upstream.answer_once(CHAT, Reply::json(status, &refusal));
        gateway.client().post(CHAT, &second_turn(model)).expect(200);
        let asked: Vec<Value> = upstream.asked_for(CHAT).iter().map(|asked| asked.json()).collect();
        assert_eq!(asked, [second_turn(model), without(model, &[removed])], "{refusal}");
        assert_eq!(gateway.wait_for_logs(1)[0]["status"], "success", "{refusal}");
    }
}
