//! Tests of the dialect field by field, and one conversation in it.

mod blocks_write;
mod native;
mod reply;
mod request_read;
mod request_write;
mod said;
mod stream;

use serde_json::Value;

use super::super::canonical::{ConversionError, Target, Vendor};
use super::super::tree::Node;

/// The schema that `P` stands for in the example.
const SCHEMA: &str = r#"{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"integer"}}}"#;

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn target(model: &str) -> Target<'_> {
    Target { model, stream: false, vendor: Vendor::Anthropic }
}

/// Reads a body and writes it again, for `model`.
fn round(body: &str, model: &str) -> Result<Value, ConversionError> {
    let node = Node::parse(body).unwrap();
    let written = super::write_request(&super::read_request(&node)?, &target(model))?;
    Ok(json(std::str::from_utf8(&written).unwrap()))
}

/// Removes the cache breakpoints and returns how many there were.
fn without_breakpoints(value: &mut Value) -> usize {
    match value {
        Value::Object(members) => {
            let own = usize::from(members.remove("cache_control").is_some());
            own + members.values_mut().map(without_breakpoints).sum::<usize>()
        }
        Value::Array(items) => items.iter_mut().map(without_breakpoints).sum(),
        _ => 0,
    }
}

/// The example's request, all of it.
const REQUEST: &str = r#"{"model":"m","max_tokens":4000,"thinking":{"type":"adaptive"},"output_config":{"effort":"high"},"metadata":{"user_id":"u1"},"tool_choice":{"type":"auto","disable_parallel_tool_use":true},
"system":[{"type":"text","text":"Be brief."}],"tools":[{"name":"add","description":"Add","input_schema":P}],
"messages":[{"role":"user","content":[{"type":"text","text":"Sum these."},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBORw0K"}}]},
{"role":"assistant","content":[{"type":"thinking","thinking":"Need add.\n","signature":"SIG1"},{"type":"text","text":"Adding."},{"type":"tool_use","id":"call_1","name":"add","input":{"a":2,"b":3}}]},
{"role":"user","content":[{"type":"tool_result","tool_use_id":"call_1","content":"5"}]}]}"#;
