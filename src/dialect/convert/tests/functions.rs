//! Chat clients that know tools in their legacy form alone: `functions`, and one `function_call` in an answer.

use serde_json::{Value, json};

use super::Way;
use crate::dialect::Dialect::{Chat, Gemini, Messages, Responses};
use crate::dialect::canonical::Vendor;

fn asking(to: super::Dialect, tools: &str) -> Way {
    let tool = json!({"name":"add","parameters":{"type":"object"}});
    let body = json!({"model":"m","messages":[{"role":"user","content":"Sum."}],
        tools:[if tools == "functions" { tool } else { json!({"type":"function","function":tool}) }]});
    Way::asking(Chat, to, Vendor::Other, &body)
}

fn answer() -> Value {
    let call = |id: &str, input: Value| json!({"type":"tool_use","id":id,"name":"add","input":input});
    json!({"id":"msg_1","type":"message","role":"assistant","model":"m","stop_reason":"tool_use",
        "content":[{"type":"text","text":"So."},call("c1", json!({"a":1})),call("c2", json!({}))],
        "usage":{"input_tokens":1,"output_tokens":2}})
}

#[test]
fn an_answer_has_one_call_in_the_legacy_form() {
    let way = asking(Messages, "functions");
    assert_eq!(way.body["tool_choice"], json!({"type":"auto","disable_parallel_tool_use":true}));
    let choice = way.back().reply(&answer())["choices"][0].take();
    assert_eq!(choice["finish_reason"], "function_call");
    let wanted = json!({"role":"assistant","content":"So.",
        "function_call":{"name":"add","arguments":"{\"a\":1}"}});
    assert_eq!(choice["message"], wanted);

    let replayed = Way::new(Messages, Messages).replayed(&answer());
    let chunks = way.back().stream(&replayed);
    assert!(
        chunks.iter().all(|chunk| chunk["choices"][0]["delta"].get("tool_calls").is_none()),
        "{chunks:?}"
    );
    let calls: Vec<_> = chunks.iter().filter_map(|c| c["choices"][0]["delta"].get("function_call")).collect();
    assert_eq!((calls[0]["name"].as_str(), calls[0]["arguments"].as_str()), (Some("add"), Some("")));
    let arguments: String = calls.iter().filter_map(|call| call["arguments"].as_str()).collect();
    assert_eq!(arguments, "{\"a\":1}");
    assert_eq!(chunks.last().unwrap()["choices"][0]["finish_reason"], "function_call");
}

#[test]
fn who_offers_tools_gets_calls_of_tools() {
    let choice = asking(Messages, "tools").back().reply(&answer())["choices"][0].take();
    assert_eq!(
        (&choice["finish_reason"], choice["message"]["tool_calls"].as_array().unwrap().len()),
        (&json!("tool_calls"), 2)
    );
}

#[test]
fn one_call_is_asked_for_at_a_time() {
    assert_eq!(asking(Responses, "functions").body["parallel_tool_calls"], false);
    assert_eq!(asking(Responses, "tools").body.get("parallel_tool_calls"), None);
    assert!(asking(Gemini, "functions").body["tools"][0]["functionDeclarations"][0].is_object());
}
