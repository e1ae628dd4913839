//! One conversation in this dialect, through the canonical form and back.

use crate::dialect::stream_event::StreamEvent;
use serde_json::{Value, json};

use super::{StreamReader, StreamWriter, context, events_of, read_reply, schema, through, write_reply};
use crate::dialect::tree::Node;

const T1: &str = "sy1:anthropic:W3sidCI6Ik5lZWQgYWRkLlxuIiwicyI6IlNJRzEifV0";

#[test]
fn the_request_is_the_same_again() {
    let mut body = json!({"model":"m","max_output_tokens":4000,"reasoning":{"effort":"high","summary":"auto"},
        "include":["reasoning.encrypted_content"],"store":false,"user":"u1","tool_choice":"auto","parallel_tool_calls":false,
        "instructions":"Be brief.","tools":[{"type":"function","name":"add","description":"Add","parameters":schema(),"strict":false}],
        "input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"Sum these."},{"type":"input_image","image_url":"data:image/png;base64,iVBORw0K","detail":"low"}]},
        {"type":"reasoning","summary":[{"type":"summary_text","text":"Need add.\n"}],"encrypted_content":T1},
        {"type":"message","role":"assistant","content":[{"type":"output_text","text":"Adding."}]},
        {"type":"function_call","call_id":"call_1","name":"add","arguments":"{\"a\":2,\"b\":3}"},
        {"type":"function_call_output","call_id":"call_1","output":"5"}]});
    let out = through(&body).unwrap();
    // The tag is another provider's: an upstream of this dialect must not see it.
    body["input"].as_array_mut().unwrap().remove(1);
    assert_eq!(out, body);
}

/// The example's complete answer, with thinking that OpenAI signed.
fn reply() -> Value {
    json!({"id":"resp_01","object":"response","created_at":1_790_000_000,"status":"completed","model":"m","output":[
        {"id":"rs_sy0","type":"reasoning","summary":[{"type":"summary_text","text":"Now 5+1."}],"encrypted_content":"gAAA"},
        {"id":"msg_sy1","type":"message","status":"completed","role":"assistant","content":[{"type":"output_text","text":"5, next:","annotations":[],"logprobs":[]}]},
        {"id":"fc_sy2","type":"function_call","status":"completed","call_id":"call_2","name":"add","arguments":"{\"a\":5,\"b\":1}"}],
        "usage":{"input_tokens":120,"input_tokens_details":{"cached_tokens":40,"cache_write_tokens":0},"output_tokens":25,"output_tokens_details":{"reasoning_tokens":9},"total_tokens":145},
        "background":false,"completed_at":null,"frequency_penalty":0,"presence_penalty":0,"error":null,"incomplete_details":null,"instructions":null,"max_output_tokens":null,"max_tool_calls":null,
        "metadata":{},"parallel_tool_calls":true,"previous_response_id":null,"reasoning":{"effort":null,"summary":null},"store":false,
        "temperature":1,"text":{"format":{"type":"text"}},"tool_choice":"auto","tools":[],"top_p":1,"truncation":"disabled","user":null})
}

#[test]
fn the_reply_is_the_same_again() {
    let text = reply().to_string();
    let out = write_reply(&read_reply(&Node::parse(&text).unwrap()).unwrap(), &context());
    assert_eq!(serde_json::from_slice::<Value>(&out).unwrap(), reply());
}

/// The stream of the example's answer.
fn stream() -> Vec<Value> {
    let mut in_progress = reply();
    in_progress["status"] = json!("in_progress");
    in_progress["output"] = json!([]);
    in_progress["usage"] = json!(null);
    let output = reply()["output"].clone();
    let text = |text: &str| json!({"type":"output_text","text":text,"annotations":[],"logprobs":[]});
    let summary = |text: &str| json!({"type":"summary_text","text":text});
    let mut events = vec![
        json!({"type":"response.created","response":in_progress}),
        json!({"type":"response.in_progress","response":in_progress}),
        json!({"type":"response.output_item.added","output_index":0,"item":{"id":"rs_sy0","type":"reasoning","summary":[]}}),
        json!({"type":"response.reasoning_summary_part.added","item_id":"rs_sy0","output_index":0,"summary_index":0,"part":summary("")}),
        json!({"type":"response.reasoning_summary_text.delta","item_id":"rs_sy0","output_index":0,"summary_index":0,"delta":"Now 5+1."}),
        json!({"type":"response.reasoning_summary_text.done","item_id":"rs_sy0","output_index":0,"summary_index":0,"text":"Now 5+1."}),
        json!({"type":"response.reasoning_summary_part.done","item_id":"rs_sy0","output_index":0,"summary_index":0,"part":summary("Now 5+1.")}),
        json!({"type":"response.output_item.done","output_index":0,"item":output[0]}),
        json!({"type":"response.output_item.added","output_index":1,"item":{"id":"msg_sy1","type":"message","status":"in_progress","role":"assistant","content":[]}}),
        json!({"type":"response.content_part.added","item_id":"msg_sy1","output_index":1,"content_index":0,"part":text("")}),
        json!({"type":"response.output_text.delta","item_id":"msg_sy1","output_index":1,"content_index":0,"delta":"5, ","logprobs":[]}),
        json!({"type":"response.output_text.delta","item_id":"msg_sy1","output_index":1,"content_index":0,"delta":"next:","logprobs":[]}),
        json!({"type":"response.output_text.done","item_id":"msg_sy1","output_index":1,"content_index":0,"text":"5, next:","logprobs":[]}),
        json!({"type":"response.content_part.done","item_id":"msg_sy1","output_index":1,"content_index":0,"part":text("5, next:")}),
        json!({"type":"response.output_item.done","output_index":1,"item":output[1]}),
        json!({"type":"response.output_item.added","output_index":2,"item":{"id":"fc_sy2","type":"function_call","status":"in_progress","call_id":"call_2","name":"add","arguments":""}}),
        json!({"type":"response.function_call_arguments.delta","item_id":"fc_sy2","output_index":2,"delta":"{\"a\":5,"}),
        json!({"type":"response.function_call_arguments.delta","item_id":"fc_sy2","output_index":2,"delta":"\"b\":1}"}),
        json!({"type":"response.function_call_arguments.done","item_id":"fc_sy2","output_index":2,"name":"add","arguments":"{\"a\":5,\"b\":1}"}),
        json!({"type":"response.output_item.done","output_index":2,"item":output[2]}),
        json!({"type":"response.completed","response":reply()}),
    ];
    for (sequence, event) in events.iter_mut().enumerate() {
        event["sequence_number"] = json!(sequence);
    }
    events
}

#[test]
fn the_stream_is_the_same_again() {
    let (mut reader, context) = (StreamReader::default(), context());
    let mut writer = StreamWriter::new(&context);
    let mut out = String::new();
    for event in stream() {
        reader.read(&StreamEvent::new(b"", &event.to_string()), &mut |event| {
            writer.write(&event, &context, &mut out)
        });
    }
    let written = events_of(&out);
    for (written, wanted) in written.iter().zip(stream()) {
        assert_eq!(*written, wanted);
    }
    assert_eq!(written.len(), stream().len());
}
