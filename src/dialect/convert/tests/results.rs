//! Calls whose results come late or never, at upstreams that require one for each call.

use serde_json::{Value, json};

use super::request;
use crate::dialect::Dialect::{self, Chat, Gemini, Messages, Responses};
use crate::dialect::canonical::Vendor;

const NO_RESULT: &str = "No result was given for this call.";

fn written(from: Dialect, to: Dialect, body: &Value) -> Value {
    request(from, to, Vendor::OpenAi, body).unwrap()
}

/// Builds a responses request from items that are written short: `call x`, `output x`, or what a role says.
fn conversation(items: &[&str]) -> Value {
    let item = |item: &&str| match item.split_once(' ').expect("two words") {
        ("call", id) => json!({"type":"function_call","call_id":id,"name":"f","arguments":"{}"}),
        ("output", id) => json!({"type":"function_call_output","call_id":id,"output":format!("of {id}")}),
        (role, text) => json!({"role":role,"content":text}),
    };
    json!({"model":"m","input":items.iter().map(item).collect::<Vec<_>>()})
}

/// Returns the messages of a chat request in the same short form; a result has its text, too.
fn shortened(body: &Value) -> Vec<String> {
    let messages = body["messages"].as_array().expect("messages");
    let text = |message: &Value| message["content"].as_str().unwrap_or_default().to_owned();
    let mut short = Vec::new();
    for message in messages {
        match message["role"].as_str().expect("a role") {
            "tool" => short.push(format!("{}: {}", message["tool_call_id"].as_str().unwrap(), text(message))),
            role => {
                let calls = message["tool_calls"].as_array().into_iter().flatten();
                let calls: Vec<_> = calls.map(|call| call["id"].as_str().unwrap().to_owned()).collect();
                short.push(format!("{role} {}{}", text(message), calls.join("+")));
            }
        }
    }
    short
}

#[test]
fn each_call_is_answered_at_once_in_chat() {
    let late = "The earlier call of f has come to its result:\nof a";
    for (items, wanted) in [
        (
            vec!["user q", "call a", "call b", "output b", "assistant mid", "output a", "user z"],
            vec![
                "user q",
                "assistant a+b",
                &format!("a: Error: {NO_RESULT}"),
                "b: of b",
                "assistant mid",
                &format!("user {late}"),
                "user z",
            ],
        ),
        (
            vec!["user q", "call a", "user z"],
            vec!["user q", "assistant a", &format!("a: Error: {NO_RESULT}"), "user z"],
        ),
        (
            vec!["user q", "call a", "user between", "output a"],
            vec!["user q", "assistant a", "a: of a", "user between"],
        ),
        (vec!["user q", "call a", "output a"], vec!["user q", "assistant a", "a: of a"]),
    ] {
        assert_eq!(shortened(&written(Responses, Chat, &conversation(&items))), wanted, "{items:?}");
    }
}

#[test]
fn each_call_is_answered_in_responses() {
    let chat = json!({"model":"m","messages":[{"role":"user","content":"q"},
        {"role":"assistant","content":null,"tool_calls":[
            {"id":"a","type":"function","function":{"name":"f","arguments":"{}"}},
            {"id":"b","type":"function","function":{"name":"f","arguments":"{}"}}]},
        {"role":"tool","tool_call_id":"a","content":"of a"},{"role":"user","content":"z"}]});
    let messages = json!({"model":"m","max_tokens":9,"messages":[{"role":"user","content":"q"},
        {"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f","input":{}},
            {"type":"tool_use","id":"b","name":"f","input":{}}]},
        {"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":"of a"},
            {"type":"text","text":"z"}]}]});
    let gemini = json!({"contents":[{"role":"user","parts":[{"text":"q"}]},
        {"role":"model","parts":[{"functionCall":{"id":"a","name":"f","args":{}}},
            {"functionCall":{"id":"b","name":"f","args":{}}}]},
        {"role":"user","parts":[{"functionResponse":{"id":"a","name":"f","response":{"result":"of a"}}},
            {"text":"z"}]}]});
    for (from, body) in [(Chat, chat), (Messages, messages), (Gemini, gemini)] {
        let body = written(from, Responses, &body);
        let of = |kind: &str| {
            let items = body["input"].as_array().expect("items").iter();
            let ids = items.filter(|item| item["type"] == kind).map(|item| item["call_id"].clone());
            let mut ids: Vec<_> = ids.map(|id| id.as_str().expect("an id").to_owned()).collect();
            ids.sort();
            ids
        };
        assert_eq!(of("function_call"), of("function_call_output"), "{from:?}: {body}");
        assert!(body.to_string().contains(NO_RESULT), "{from:?}: {body}");
    }
}

#[test]
fn a_call_that_still_runs_and_a_result_of_an_earlier_request_stay_as_they_are_in_responses() {
    let running = json!({"model":"m","messages":[{"role":"user","content":"q"},
        {"role":"assistant","content":null,"tool_calls":[
            {"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}]}]});
    let body = written(Chat, Responses, &running);
    assert_eq!(body["input"].as_array().map(Vec::len), Some(2), "{body}");
    let result = json!({"model":"m","max_tokens":9,"previous_response_id":"resp_1","messages":[
        {"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":"of a"}]}]});
    let body = written(Messages, Responses, &result);
    assert_eq!(body["input"][0]["call_id"], "a", "{body}");
}

#[test]
fn a_result_without_a_call_is_told_in_words_or_left_out_where_nothing_keeps_the_call() {
    let result = json!({"type":"tool_result","tool_use_id":"a","content":"of a"});
    let text = json!({"type":"text","text":"q"});
    let messages =
        |blocks: &[&Value]| json!({"model":"m","max_tokens":9,"messages":[{"role":"user","content":blocks}]});
    let chat = json!({"model":"m","messages":[{"role":"user","content":"q"},
        {"role":"tool","tool_call_id":"a","content":"of a"}]});
    let gemini = json!({"contents":[{"role":"user","parts":[{"text":"q"},
        {"functionResponse":{"id":"a","name":"f","response":{"result":"of a"}}}]}]});
    for (from, body) in [(Messages, messages(&[&result, &text])), (Chat, chat), (Gemini, gemini)] {
        let input = written(from, Responses, &body)["input"].take();
        let text = input.to_string();
        assert_eq!(input.as_array().map(Vec::len), Some(1), "{from:?}: {text}");
        assert!(text.contains("\"q\"") && !text.contains("of a"), "{from:?}: {text}");
    }
    let text = written(Messages, Responses, &messages(&[&result]))["input"].to_string();
    assert!(text.contains(r"A result has come that no call waits for:\nof a"), "{text}");
}

#[test]
fn a_recording_that_is_named_as_a_document_is_heard_or_refused() {
    let body = json!({"model":"m","max_tokens":9,"messages":[{"role":"user","content":[{"type":"text","text":"q"},
        {"type":"document","title":"a.mp3","source":{"type":"base64","media_type":"audio/mpeg","data":"SUQz"}}]}]});
    let heard = json!({"type":"input_audio","input_audio":{"data":"SUQz","format":"mp3"}});
    assert_eq!(written(Messages, Chat, &body)["messages"][0]["content"][1], heard);
    let refused = request(Messages, Messages, Vendor::Anthropic, &body).unwrap_err();
    assert!(format!("{refused:?}").contains("input_audio"), "{refused:?}");
}

#[test]
fn a_picture_in_a_data_url_of_any_spelling_is_a_picture() {
    let body = |url: &str| {
        json!({"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"q"},
            {"type":"image_url","image_url":{"url":url}}]}]})
    };
    for (url, mime, data) in [
        ("data:IMAGE/PNG;base64,iVBO", "image/png", "iVBO"),
        ("data:image/png,%89PN", "image/png", "iVBO"),
        ("data:image/jpg;base64,/9j/", "image/jpeg", "/9j/"),
    ] {
        let block = written(Chat, Messages, &body(url))["messages"][0]["content"][1]["source"].clone();
        assert_eq!(block, json!({"type":"base64","media_type":mime,"data":data}), "{url}");
        let part = written(Chat, Gemini, &body(url))["contents"][0]["parts"][1]["inlineData"].clone();
        assert_eq!(part, json!({"mimeType":mime,"data":data}), "{url}");
    }
}
