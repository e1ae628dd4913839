//! Names of tools that are too long for a dialect: they are sent shortened, and come back whole.

use serde_json::{Value, json};

use super::{Way, pairs};
use crate::dialect::Dialect::{self, Chat, Gemini, Messages};
use crate::dialect::canonical::Vendor;

/// Returns a request that offers a tool of this name, and wants it called.
fn asking_for(dialect: Dialect, name: &str) -> Value {
    match dialect {
        Chat => json!({"model":"m","messages":[{"role":"user","content":"x"}],
            "tools":[{"type":"function","function":{"name":name}}],
            "tool_choice":{"type":"function","function":{"name":name}}}),
        Messages => json!({"model":"m","max_tokens":9,"messages":[{"role":"user","content":"x"}],
            "tools":[{"name":name,"input_schema":{"type":"object"}}],"tool_choice":{"type":"tool","name":name}}),
        Gemini => json!({"contents":[{"role":"user","parts":[{"text":"x"}]}],
            "tools":[{"functionDeclarations":[{"name":name}]}],
            "toolConfig":{"functionCallingConfig":{"mode":"ANY","allowedFunctionNames":[name]}}}),
        _ => json!({"model":"m","input":"x","tools":[{"type":"function","name":name,"parameters":{}}],
            "tool_choice":{"type":"function","name":name}}),
    }
}

/// Returns the complete answer of an upstream that calls a tool of this name.
fn calling(dialect: Dialect, name: &str) -> Value {
    match dialect {
        Chat => {
            let call =
                json!({"index":0,"id":"c","type":"function","function":{"name":name,"arguments":"{}"}});
            let message = json!({"role":"assistant","content":null,"tool_calls":[call]});
            json!({"id":"x","choices":[{"index":0,"message":message,"finish_reason":"tool_calls"}]})
        }
        Messages => json!({"id":"x","type":"message","stop_reason":"tool_use",
            "content":[{"type":"tool_use","id":"c","name":name,"input":{}}]}),
        Gemini => {
            let parts = json!([{"functionCall":{"id":"c","name":name,"args":{}}}]);
            json!({"candidates":[{"content":{"role":"model","parts":parts},"finishReason":"STOP"}]})
        }
        _ => json!({"id":"x","status":"completed",
            "output":[{"type":"function_call","call_id":"c","name":name,"arguments":"{}"}]}),
    }
}

/// Returns where a request has the name of its tool, and an answer that of its call.
fn places(dialect: Dialect) -> (&'static str, &'static str) {
    match dialect {
        Chat => ("/tools/0/function/name", "/choices/0/message/tool_calls/0/function/name"),
        Messages => ("/tools/0/name", "/content/0/name"),
        Gemini => ("/tools/0/functionDeclarations/0/name", "/candidates/0/content/parts/0/functionCall/name"),
        _ => ("/tools/0/name", "/output/0/name"),
    }
}

#[test]
fn a_long_name_comes_back_whole() {
    let long = |repeats: usize| format!("mcp__{}__search", "server".repeat(repeats));
    for (from, to) in pairs() {
        let name = long(if to == Messages { 20 } else { 12 });
        let sent = if to == Messages { &name[..128] } else { "mcp__search" };
        for vendor in [Vendor::OpenAi, Vendor::Anthropic, Vendor::Gemini, Vendor::Other] {
            let way = Way::asking(from, to, vendor, &asking_for(from, &name));
            let case = format!("{from:?} to {to:?} of {vendor:?}: {}", way.body);
            assert_eq!(way.body.pointer(places(to).0), Some(&json!(sent)), "{case}");
            assert!(!way.body.to_string().contains(&name), "{case}");

            let (back, answer) = (way.back(), calling(to, sent));
            let whole = back.reply(&answer);
            assert_eq!(whole.pointer(places(from).1), Some(&json!(name)), "{case} {whole}");
            let streamed = back.stream_text(&Way::new(to, to).replayed(&answer));
            let streamed = Way::new(from, from).accumulated(&streamed);
            assert_eq!(streamed.pointer(places(from).1), Some(&json!(name)), "{case} {streamed}");
        }
    }
}
