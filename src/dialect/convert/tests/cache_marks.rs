//! The prompt is cached where the client wants it, and otherwise where the next request will find it.

use serde_json::{Value, json};

use super::request;
use crate::dialect::Dialect::{Chat, Gemini, Messages, Responses};
use crate::dialect::canonical::Vendor;

/// Collects the paths of all marks in a body, with their contents.
fn marks(value: &Value, path: &str, found: &mut Vec<(String, Value)>) {
    match value {
        Value::Object(members) => {
            for (key, value) in members {
                match key.as_str() {
                    "cache_control" => found.push((path.to_owned(), value.clone())),
                    _ => marks(value, &format!("{path}/{key}"), found),
                }
            }
        }
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(at, item)| marks(item, &format!("{path}/{at}"), found));
        }
        _ => {}
    }
}

fn marked(body: &Value) -> Vec<(String, Value)> {
    let mut found = Vec::new();
    marks(body, "", &mut found);
    found
}

fn hour() -> Value {
    json!({"type":"ephemeral","ttl":"1h"})
}

fn short() -> Value {
    json!({"type":"ephemeral"})
}

fn at(places: &[(&str, Value)]) -> Vec<(String, Value)> {
    let mut places: Vec<_> = places.iter().map(|(path, mark)| ((*path).to_owned(), mark.clone())).collect();
    places.sort_by(|one, other| one.0.cmp(&other.0));
    places
}

fn sorted(mut found: Vec<(String, Value)>) -> Vec<(String, Value)> {
    found.sort_by(|one, other| one.0.cmp(&other.0));
    found
}

#[test]
fn the_marks_of_a_chat_client_are_those_of_its_request() {
    let function = |name: &str| json!({"name":name,"parameters":{"type":"object"}});
    let mut body = json!({"model":"m","tools":[
            {"type":"code_interpreter_of_another"},
            {"type":"function","function":function("f"),"cache_control":hour()},
            {"type":"function","function":function("g")}],
        "messages":[
            {"role":"system","content":"Be brief."},
            {"role":"system","content":[{"type":"text","text":"Mind.","cache_control":hour()}]},
            {"role":"user","content":[{"type":"text","text":"The book.","cache_control":short()},
                {"type":"text","text":"And a question."}]},
            {"role":"assistant","content":"I look.","tool_calls":[
                {"id":"c1","type":"function","function":{"name":"f","arguments":"{}"}}]},
            {"role":"tool","tool_call_id":"c1","content":"5","cache_control":short()},
            {"role":"user","content":"Go on."}]});
    let wanted = at(&[
        ("/tools/0", hour()),
        ("/system/1", hour()),
        ("/messages/0/content/0", short()),
        ("/messages/2/content/0", short()),
    ]);
    assert_eq!(sorted(marked(&request(Chat, Messages, Vendor::Anthropic, &body).unwrap())), wanted);
    // The first tool is left out for the other dialects.
    body["tools"].as_array_mut().unwrap().remove(0);
    for to in [Responses, Gemini] {
        assert_eq!(marked(&request(Chat, to, Vendor::Other, &body).unwrap()), [], "{to:?}");
    }
}

#[test]
fn a_mark_among_system_texts_stays_at_its_text() {
    let text = |text: &str, mark: Value| json!({"type":"text","text":text,"cache_control":mark});
    let plain = |text: &str| json!({"type":"text","text":text});
    for (content, wanted) in [
        (json!([text("A", hour()), plain("B")]), json!([text("A", hour()), plain("B")])),
        (json!([text("A", hour()), text("B", short())]), json!([text("A", hour()), text("B", short())])),
        (json!([plain("A"), text("B", hour()), plain("C")]), json!([text("A\n\nB", hour()), plain("C")])),
        (json!([plain("A"), text("", hour())]), json!([text("A", hour())])),
        (json!([text("A", short()), text("", hour())]), json!([text("A", hour())])),
    ] {
        let body = json!({"model":"m","messages":[{"role":"system","content":content},{"role":"user","content":"Hi."}]});
        let written = request(Chat, Messages, Vendor::Other, &body).unwrap();
        assert_eq!(written["system"], wanted, "{content}");
    }
}

#[test]
fn one_mark_of_the_clients_leaves_no_place_for_ours() {
    let body = json!({"model":"m","cache_control":short(),
        "tools":[{"type":"function","function":{"name":"f"}}],
        "messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"Hi."}]});
    let written = request(Chat, Messages, Vendor::Anthropic, &body).unwrap();
    assert_eq!(marked(&written), at(&[("", short())]));

    let mut unmarked = body.clone();
    unmarked.as_object_mut().unwrap().remove("cache_control");
    let written = request(Chat, Messages, Vendor::Anthropic, &unmarked).unwrap();
    let ours = at(&[("/tools/0", short()), ("/system/0", short()), ("/messages/0/content/0", short())]);
    assert_eq!(sorted(marked(&written)), ours);
}

#[test]
fn the_marks_of_a_messages_body_survive_when_it_is_written_anew() {
    let body = json!({"model":"m","max_tokens":64,
        "tools":[{"name":"f","input_schema":{"type":"object"}},{"name":"g","input_schema":{"type":"object"},"cache_control":hour()}],
        "system":[{"type":"text","text":"Be brief.","cache_control":hour()},{"type":"text","text":"Mind."}],
        "messages":[
            {"role":"user","content":[{"type":"text","text":"Hi.","cache_control":short()}]},
            {"role":"assistant","content":[{"type":"tool_use","id":"t1","name":"f","input":{}}]},
            {"role":"user","content":[
                {"type":"tool_result","tool_use_id":"t1","content":[{"type":"text","text":"5","cache_control":short()}]},
                {"type":"text","text":"Go on."}]}]});
    let written = request(Messages, Messages, Vendor::Anthropic, &body).unwrap();
    let wanted = at(&[
        ("/tools/1", hour()),
        ("/system/0", hour()),
        ("/messages/0/content/0", short()),
        // The mark of a block within a result becomes the result's own.
        ("/messages/2/content/0", short()),
    ]);
    assert_eq!(sorted(marked(&written)), wanted);
}

#[test]
fn a_mark_on_what_cannot_be_cached_is_left_out() {
    let body = json!({"model":"m","messages":[
        {"role":"user","content":[{"type":"text","text":"","cache_control":short()},{"type":"text","text":"Hi."}]},
        {"role":"assistant","content":"Ho.","cache_control":null},
        {"role":"system","content":"Mind.","cache_control":short()},
        {"role":"user","content":[{"type":"text","text":"Go on.","cache_control":"yes"}]}]});
    let written = request(Chat, Messages, Vendor::Anthropic, &body).unwrap();
    assert_eq!(marked(&written), at(&[("/messages/2/content/0", short())]), "{written}");
}
