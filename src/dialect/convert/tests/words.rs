//! Forms that a client chose, and members that only it knows.

use serde_json::{Value, json};

use super::request;
use crate::dialect::Dialect::{self, Chat, Gemini, Messages, Responses};
use crate::dialect::canonical::{ConversionError, Target, Vendor};

fn sent(from: Dialect, to: Dialect, body: Value) -> Value {
    request(from, to, Vendor::Other, &body).unwrap()
}

#[test]
fn a_list_stays_a_list_and_a_string_a_string() {
    let parts = json!([{"type":"input_text","text":"x"}]);
    let call = json!({"role":"assistant","tool_calls":[{"id":"c","type":"function",
        "function":{"name":"f","arguments":"{}"}}]});
    for (given, wanted) in [(json!("x"), json!("x")), (json!([{"type":"text","text":"x"}]), parts.clone())] {
        let said = json!({"role":"user","content":given});
        let result = json!({"role":"tool","tool_call_id":"c","content":given});
        let written = sent(Chat, Responses, json!({"messages":[said, call, result]}));
        assert_eq!(written["input"][0]["content"], wanted);
        assert_eq!(written["input"][2]["output"], wanted);
        let written = sent(Messages, Responses, json!({"max_tokens":9,"messages":[said]}));
        assert_eq!(written["input"][0]["content"], wanted);
    }
    let written = sent(Gemini, Responses, json!({"contents":[{"role":"user","parts":[{"text":"x"}]}]}));
    assert_eq!(written["input"][0]["content"], parts);
    let nothing = json!({"messages":[call, {"role":"tool","tool_call_id":"c","content":[]}]});
    assert_eq!(sent(Chat, Responses, nothing)["input"][1]["output"], "");
}

#[test]
fn a_refusal_names_the_field_that_the_client_sent() {
    let hi = json!([{"role":"user","parts":[{"text":"x"}]}]);
    for (from, to, body, field) in [
        (Gemini, Messages, json!({"contents":hi,"generationConfig":{"candidateCount":2}}), "candidateCount"),
        (
            Gemini,
            Messages,
            json!({"contents":hi,"generationConfig":{"responseLogprobs":true}}),
            "responseLogprobs",
        ),
        (
            Gemini,
            Messages,
            json!({"contents":[{"parts":[{"inlineData":{"mimeType":"audio/wav","data":"A"}}]}]}),
            "inlineData",
        ),
        (Responses, Messages, json!({"input":"x","include":["message.output_text.logprobs"]}), "include"),
        (Responses, Messages, json!({"input":"x","top_logprobs":2}), "top_logprobs"),
        (Chat, Messages, json!({"messages":[{"role":"user","content":"x"}],"n":2}), "n"),
    ] {
        assert_eq!(
            request(from, to, Vendor::Other, &body),
            Err(ConversionError::unsupported(field)),
            "{body}"
        );
    }
    for (from, body, field) in [
        (Chat, json!({"messages":[{"role":"user","content":""}]}), "messages"),
        (Responses, json!({"input":""}), "input"),
    ] {
        let refused = request(from, Gemini, Vendor::Other, &body);
        assert_eq!(refused, Err(ConversionError::unsupported_form(field, "without content")), "{body}");
    }
    for (from, body, field) in [
        (Gemini, json!({"contents":[{"parts":[{"text":""}]}]}), "contents"),
        (Responses, json!({"input":[]}), "input"),
    ] {
        let refused = request(from, Chat, Vendor::Other, &body);
        assert_eq!(
            refused,
            Err(ConversionError::invalid(field, "must have at least one message with content")),
            "{body}"
        );
    }
}

#[test]
fn thinking_that_is_only_switched_off_is_said_to_those_who_know_the_word() {
    let off =
        json!({"max_tokens":9,"thinking":{"type":"disabled"},"messages":[{"role":"user","content":"x"}]});
    for (model, wanted) in [("gpt-5.2", json!({"effort":"none"})), ("o4-mini", Value::Null)] {
        let target = Target { model, stream: false, vendor: Vendor::OpenAi };
        let written = super::super::request(Messages, Responses, &off.to_string(), &target).unwrap();
        let written: Value = serde_json::from_slice(&written.body).unwrap();
        assert_eq!(written["reasoning"], wanted, "{model}");
    }
    let named =
        sent(Chat, Responses, json!({"messages":[{"role":"user","content":"x"}],"reasoning_effort":"none"}));
    assert_eq!(named["reasoning"], json!({"effort":"none"}));
}

#[test]
fn messages_of_chat_in_a_responses_body_are_those_of_chat() {
    let said = json!({"role":"user","content":"x"});
    let call = json!({"role":"assistant","content":"","tool_calls":[{"id":"c","type":"function",
        "function":{"name":"f","arguments":"{}"}}]});
    let result = json!({"role":"tool","tool_call_id":"c","content":"5"});
    let written = sent(Responses, Chat, json!({"instructions":"I","messages":[said, call, result]}));
    assert_eq!(written["messages"], json!([{"role":"system","content":"I"}, said, call, result]));
}

#[test]
fn openais_words_for_thinking_count_on_geminis_surface_too() {
    let hi = json!([{"parts":[{"text":"x"}]}]);
    for (body, wanted) in [
        (json!({"contents":hi,"reasoning_effort":"low"}), json!("low")),
        (json!({"contents":hi,"reasoning":{"max_tokens":5000}}), json!("medium")),
        (
            json!({"contents":hi,"reasoning_effort":"low","generationConfig":{"thinkingConfig":{"thinkingLevel":"high"}}}),
            json!("high"),
        ),
    ] {
        assert_eq!(sent(Gemini, Chat, body)["reasoning_effort"], wanted);
    }
}
