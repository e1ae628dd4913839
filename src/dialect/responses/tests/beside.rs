//! What belongs to the dialect without being a conversion: validation, our own ids, the echo, the turns of a socket.

use serde_json::{Value, json};

use super::{TurnOutput, cancelled_turn, echo, merge_turn, validate, warm_up, whole_turn, without_own_ids};
use crate::dialect::canonical::ConversionError;
use crate::dialect::literal::Text;
use crate::dialect::signature::{Signature, tag};
use crate::dialect::stream_event::StreamEvent;
use crate::dialect::tree::Node;

fn parsed(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap()
}

#[test]
fn an_output_needs_its_call() {
    let output = |id: Value| json!({"type":"function_call_output","call_id":id,"output":"o"});
    let call = json!({"type":"function_call","call_id":"c","name":"f","arguments":"{}"});
    for (body, fault) in [
        (json!({"input":"text"}), None),
        (json!({"input":[call, output(json!("c"))]}), None),
        (json!({"input":[output(json!("c"))]}), Some("input[0].call_id")),
        (json!({"input":[call, output(json!("d"))]}), Some("input[1].call_id")),
        (json!({"input":[call, output(json!(null))]}), Some("input[1].call_id")),
        (json!({"input":[call, {"type":"custom_tool_call_output","output":""}]}), Some("input[1].call_id")),
        (
            json!({"input":[{"type":"custom_tool_call","call_id":"c","name":"p","input":""}, {"type":"custom_tool_call_output","call_id":"c"}]}),
            None,
        ),
        (json!({"input":[{"type":"item_reference","id":"i"}, output(json!("d"))]}), None),
        (json!({"previous_response_id":"resp_1","input":[output(json!("d"))]}), None),
        (json!({"previous_response_id":"resp_1","input":[output(json!(" "))]}), Some("input[0].call_id")),
    ] {
        let text = body.to_string();
        let judged = validate(&Node::parse(&text).unwrap());
        let field = judged.err().map(|unfit| match unfit {
            ConversionError::Invalid { field, .. } => field,
            ConversionError::Unsupported { .. } => panic!("the client's mistake"),
        });
        assert_eq!(field.as_deref(), fault, "{body}");
    }
}

#[test]
fn our_own_ids_are_taken_out_and_nothing_else() {
    let body = r#"{"model": "m",  "input": [ {"id":"msg_sy1", "type":"message" , "x": 1.0},{"type":"function_call","id":"fc_sy2"},{"type":"web_search_call","id":"ws_sy3"},{"type":"web_search_call","id":"ws_1"},
 {"type":"reasoning","id":"rs_sy0","summary":[],"encrypted_content":"sy1:anthropic:W10"},
 {"type":"reasoning","id":"rs_sy1","summary":[{"type":"summary_text","text":"T"}],"encrypted_content":null},
 {"type":"reasoning","id":"rs_sy2","summary":[]},
 {"type":"reasoning","id":"rs_68af","encrypted_content":"gAAA"}, {"id":"msg_symbol"},{"type":"item_reference","id":"msg_sy1"} ] , "z":null}"#;
    let out = without_own_ids(&Node::parse(body).unwrap()).unwrap();
    let wanted = r#"{"model": "m",  "input": [{"type":"message","x":1.0},{"type":"function_call"},{"type":"web_search_call","id":"ws_1"},{"type":"reasoning","id":"rs_68af","encrypted_content":"gAAA"},{"id":"msg_symbol"},{"type":"item_reference","id":"msg_sy1"}] , "z":null}"#;
    assert_eq!(std::str::from_utf8(&out).unwrap(), wanted);
    for body in [r#"{"input":"msg_sy1"}"#, r#"{"input":[{"id":"msg_1"}]}"#, "{}", "[]", r#"{"id":"msg_sy1"}"#]
    {
        assert_eq!(without_own_ids(&Node::parse(body).unwrap()), None, "{body}");
    }
}

#[test]
fn tagged_reasoning_of_openai_becomes_its_own_again() {
    let proof = Signature::OpenAi {
        id: Some(Text::of("rs_9")),
        encrypted: Text::of("ENCX"),
        summary: vec![Text::of("One."), Text::of("Two.")],
    };
    let tag = tag(&[(Text::EMPTY, proof)]).unwrap();
    let body = |items: &[Value]| json!({"input": items});
    let item = |proof: &str| json!({"type":"reasoning","id":"rs_sy0","summary":[{"type":"summary_text","text":"T"}],"encrypted_content":proof});
    let given = body(&[item(tag.literal()), item("metapi:openai-encrypted-reasoning:OLD")]).to_string();
    let out = without_own_ids(&Node::parse(&given).unwrap()).unwrap();
    let part = |text: &str| json!({"type":"summary_text","text":text});
    let wanted = body(&[
        json!({"type":"reasoning","id":"rs_9","summary":[part("One."),part("Two.")],"encrypted_content":"ENCX"}),
        json!({"type":"reasoning","summary":[part("T")],"encrypted_content":"OLD"}),
    ]);
    assert_eq!(serde_json::from_slice::<Value>(&out).unwrap(), wanted);
}

#[test]
fn an_answer_repeats_its_request() {
    let body = "{\"temperature\":0.50,\"tools\":[ {\n\"type\":\"function\"} ],\"reasoning\":{\"effort\":\"low\"},\"text\":{\"verbosity\":\"low\"},\
                \"metadata\":null,\"input\":[],\"instructions\":\"a b\",\"stream\":true}";
    let echoed = echo(&Node::parse(body).unwrap());
    let find = |name: &str| echoed.iter().find(|(key, _)| *key == name).map(|(_, value)| value.as_str());
    assert_eq!(find("temperature"), Some("0.50"));
    assert_eq!(find("tools"), Some("[{\"type\":\"function\"}]"));
    assert_eq!(find("reasoning"), Some("{\"effort\":\"low\",\"summary\":null}"));
    assert_eq!(find("text"), Some("{\"format\":{\"type\":\"text\"},\"verbosity\":\"low\"}"));
    assert_eq!(find("instructions"), Some("\"a b\""));
    assert_eq!((find("metadata"), find("input"), find("stream")), (None, None, None));
}

#[test]
fn a_turn_of_a_socket_becomes_a_whole_request() {
    let first = json!({"type":"response.create","model":"m","instructions":"i","tools":[{"type":"custom","name":"p"}],
        "input":"hi","stream":false,"background":false,"generate":true,"temperature":1});
    let text = first.to_string();
    let request = whole_turn(&Node::parse(&text).unwrap());
    let hi = json!({"type":"message","role":"user","content":"hi"});
    let wanted = json!({"model":"m","instructions":"i","tools":[{"type":"custom","name":"p"}],"input":[hi],"temperature":1,"stream":true});
    assert_eq!(parsed(&request), wanted);

    let answer = json!({"type":"message","id":"msg_1","role":"assistant","content":[]});
    let next = json!({"type":"response.create","previous_response_id":"resp_1","tools":null,"top_p":0.5,
        "input":[{"type":"function_call_output","call_id":"c","output":"o"}]});
    let (request_text, next_text) = (String::from_utf8(request.to_vec()).unwrap(), next.to_string());
    let merged = merge_turn(
        &Node::parse(&request_text).unwrap(),
        &[&answer.to_string(), "no item"],
        &Node::parse(&next_text).unwrap(),
    );
    let wanted = json!({"model":"m","instructions":"i","tools":[{"type":"custom","name":"p"}],"top_p":0.5,"stream":true,
        "input":[hi, answer, {"type":"function_call_output","call_id":"c","output":"o"}]});
    assert_eq!(parsed(&merged), wanted);

    let other = json!({"model":"n","instructions":"j","input":1}).to_string();
    let merged = merge_turn(&Node::parse(&request_text).unwrap(), &[], &Node::parse(&other).unwrap());
    let merged = parsed(&merged);
    assert_eq!(
        (&merged["model"], &merged["instructions"], &merged["input"]),
        (&json!("n"), &json!("j"), &json!(1))
    );
}

#[test]
fn a_turn_leaves_its_items_whatever_its_end() {
    let of = |events: &[Value]| {
        let mut output = TurnOutput::default();
        output.read(&StreamEvent::new(b"", "[DONE]"));
        events.iter().for_each(|event| output.read(&StreamEvent::new(b"", &event.to_string())));
        let items: Vec<Value> = output.items().into_iter().map(|item| parsed(item.as_bytes())).collect();
        (output.response_id().map(str::to_owned), json!(items))
    };
    let done = |index: Value, id: &str| json!({"type":"response.output_item.done","output_index":index,"item":{"id":id}});
    let end = |kind: &str, response: Value| json!({"type":format!("response.{kind}"),"response":response});
    let created = end("created", json!({"id":"resp_1"}));
    let wanted = |ids: &[&str]| json!(ids.iter().map(|id| json!({"id":id})).collect::<Vec<_>>());

    let (id, items) =
        of(&[created.clone(), done(json!(1), "b"), done(json!(0), "a"), end("failed", json!({"output":[]}))]);
    assert_eq!((id.as_deref(), items), (Some("resp_1"), wanted(&["a", "b"])));
    assert_eq!(of(&[done(json!(null), "a"), done(json!(null), "b")]).1, wanted(&["a", "b"]));
    assert_eq!(of(&[end("incomplete", json!({"output":[{"id":"a"}]}))]).1, wanted(&["a"]));
    let (_, said) = of(&[created, end("completed", json!({"output":[],"output_text":"hi\n"}))]);
    assert_eq!(said[0]["content"][0], json!({"type":"output_text","text":"hi\n"}));
}

#[test]
fn a_warm_up_is_answered_in_two_events_with_all_that_clients_read() {
    let request = json!({"model":"m","instructions":"i","tools":[{"type":"custom","name":"p"}],"input":[]});
    let [created, completed] =
        warm_up(&Node::parse(&request.to_string()).unwrap(), "resp_prewarm_1", 1790000000);
    let (created, completed) = (parsed(created.as_bytes()), parsed(completed.as_bytes()));
    assert_eq!((&created["type"], &created["sequence_number"]), (&json!("response.created"), &json!(0)));
    assert_eq!(
        (&completed["type"], &completed["sequence_number"]),
        (&json!("response.completed"), &json!(1))
    );
    assert_eq!(
        (&created["response"]["status"], &created["response"]["usage"]),
        (&json!("in_progress"), &json!(null))
    );
    let response = &completed["response"];
    for (member, value) in [
        ("id", json!("resp_prewarm_1")),
        ("object", json!("response")),
        ("created_at", json!(1790000000)),
        ("status", json!("completed")),
        ("model", json!("m")),
        ("output", json!([])),
        ("error", json!(null)),
        ("instructions", json!("i")),
        ("tools", request["tools"].clone()),
    ] {
        assert_eq!(response[member], value, "{member}");
    }
    assert_eq!(
        response["usage"],
        json!({"input_tokens":0,"input_tokens_details":{"cached_tokens":0,"cache_write_tokens":0},
        "output_tokens":0,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":0})
    );
}

#[test]
fn a_cancelled_turn_ends_incomplete_with_what_there_is() {
    let request = Node::parse("{\"model\":\"m\",\"input\":[]}").unwrap();
    let event = parsed(cancelled_turn(&request, "resp_1", &["{\"id\":\"a\"}"], 7, 1).as_bytes());
    assert_eq!((&event["type"], &event["sequence_number"]), (&json!("response.incomplete"), &json!(7)));
    let response = &event["response"];
    assert_eq!((&response["id"], &response["status"]), (&json!("resp_1"), &json!("incomplete")));
    assert_eq!(response["incomplete_details"], json!({"reason":"cancelled"}));
    assert_eq!(response["output"], json!([{"id":"a"}]));
}
