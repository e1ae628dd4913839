//! Web searches that an upstream ran.

use serde_json::{Value, json};

use super::{Way, request};
use crate::dialect::Dialect::{Chat, Gemini, Messages, Responses};
use crate::dialect::canonical::Vendor;

fn event(data: Value) -> String {
    format!("event: {}\ndata: {data}\n\n", data["type"].as_str().unwrap_or_default())
}

fn search_item() -> Value {
    json!({"id":"ws_67c","type":"web_search_call","status":"completed",
        "action":{"type":"search","query":"a \"b\"","sources":[{"type":"url","url":"https://a.b"}]}})
}

fn message_item() -> Value {
    json!({"id":"msg_1","type":"message","status":"completed","role":"assistant",
        "content":[{"type":"output_text","text":"Found.","annotations":[]}]})
}

fn response() -> Value {
    json!({"id":"resp_1","object":"response","status":"completed","model":"m","output":[
        {"id":"ws_0","type":"web_search_call","status":"completed","action":{"type":"open_page","url":"https://a.b"}},
        search_item(), {"id":"ws_9","type":"web_search_call","status":"failed"}, message_item()],
        "usage":{"input_tokens":3,"output_tokens":2,"total_tokens":5}})
}

fn message() -> Value {
    json!({"id":"msg_1","type":"message","role":"assistant","model":"m","content":[
        {"type":"text","text":"Let me see."},
        {"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{"query":"a \"b\""}},
        {"type":"web_search_tool_result","tool_use_id":"srvtoolu_1","content":[
            {"type":"web_search_result","url":"https://a.b","title":"A","encrypted_content":"E=","page_age":"1 day"}]},
        {"type":"server_tool_use","id":"srvtoolu_2","name":"code_execution","input":{"code":"1"}},
        {"type":"server_tool_use","id":"srvtoolu_3","name":"web_search","input":{"query":"c"}},
        {"type":"web_search_tool_result","tool_use_id":"srvtoolu_3",
            "content":{"type":"web_search_tool_result_error","error_code":"max_uses_exceeded"}},
        {"type":"text","text":"Found."}],"stop_reason":"end_turn","stop_sequence":null,
        "usage":{"input_tokens":3,"output_tokens":2,"server_tool_use":{"web_search_requests":2}}})
}

/// Returns the blocks that a client of messages is given for the response.
fn shown() -> Vec<Value> {
    vec![
        json!({"type":"server_tool_use","id":"srvtoolu_sy0_67c","name":"web_search","input":{"query":"a \"b\""}}),
        json!({"type":"web_search_tool_result","tool_use_id":"srvtoolu_sy0_67c","content":[{"type":"web_search_result",
            "url":"https://a.b","title":"https://a.b","encrypted_content":"sy1:none","page_age":null}]}),
        json!({"type":"server_tool_use","id":"srvtoolu_sy1_9","name":"web_search","input":{}}),
        json!({"type":"web_search_tool_result","tool_use_id":"srvtoolu_sy1_9",
            "content":{"type":"web_search_tool_result_error","error_code":"unavailable"}}),
        json!({"type":"text","text":"Found."}),
    ]
}

/// Returns the items that a client of responses is given for the message.
fn output() -> Vec<Value> {
    vec![
        json!({"id":"ws_sy1","type":"web_search_call","status":"completed",
            "action":{"type":"search","query":"a \"b\"","sources":[{"type":"url","url":"https://a.b"}]}}),
        json!({"id":"ws_sy2","type":"web_search_call","status":"failed","action":{"type":"search","query":"c"}}),
    ]
}

#[test]
fn a_search_is_shown_where_there_is_a_place_for_it() {
    let answer = Way::new(Responses, Messages).reply(&response());
    assert_eq!(answer["content"], json!(shown()));
    assert_eq!(answer["stop_reason"], "end_turn");
    assert_eq!(answer["usage"]["server_tool_use"], json!({"web_search_requests":2,"web_fetch_requests":0}));
    let answer = Way::new(Messages, Responses).reply(&message());
    assert_eq!(answer["output"].as_array().unwrap()[1..3], output());
    assert_eq!(answer["output"][3]["content"][0]["text"], "Found.");
    for (from, body) in [(Responses, response()), (Messages, message())] {
        let answer = Way::new(from, Chat).reply(&body);
        let said = if from == Messages { "Let me see.Found." } else { "Found." };
        assert_eq!(answer["choices"][0]["message"], json!({"role":"assistant","content":said}));
        let answer = Way::new(from, Gemini).reply(&body);
        assert_eq!(answer["candidates"][0]["groundingMetadata"]["webSearchQueries"][0], "a \"b\"");
    }
}

#[test]
fn a_streamed_search_is_told_in_the_grammar_of_messages() {
    let whole = response();
    let mut stream = event(json!({"type":"response.created","response":{"id":"resp_1","model":"m"}}));
    for (index, item) in whole["output"].as_array().unwrap().iter().enumerate() {
        let begun = json!({"id":item["id"],"type":item["type"],"status":"in_progress"});
        stream += &event(json!({"type":"response.output_item.added","output_index":index,"item":begun}));
        for kind in ["in_progress", "searching", "completed"] {
            let kind = format!("response.web_search_call.{kind}");
            stream += &event(json!({"type":kind,"output_index":index,"item_id":item["id"]}));
        }
        stream += &event(json!({"type":"response.output_item.done","output_index":index,"item":item}));
    }
    stream += &event(json!({"type":"response.completed","response":whole}));
    let way = Way::new(Responses, Messages);
    assert_eq!(way.accumulated(&stream)["content"], json!(shown()));
    let events = way.stream(&stream);
    let mut wanted = Vec::new();
    for (index, block) in shown().iter().enumerate() {
        let mut start = block.clone();
        let delta = match block["type"].as_str().unwrap() {
            "server_tool_use" => {
                start["input"] = json!({});
                let query = Some(block["input"].to_string()).filter(|input| input != "{}");
                query.map(|input| json!({"type":"input_json_delta","partial_json":input}))
            }
            "text" => {
                start["text"] = json!("");
                Some(json!({"type":"text_delta","text":"Found."}))
            }
            _ => None,
        };
        wanted.push(json!({"type":"content_block_start","index":index,"content_block":start}));
        wanted.extend(delta.map(|delta| json!({"type":"content_block_delta","index":index,"delta":delta})));
        wanted.push(json!({"type":"content_block_stop","index":index}));
    }
    assert_eq!(events[1..events.len() - 2], wanted);
    assert_eq!(events[events.len() - 2]["usage"]["server_tool_use"]["web_search_requests"], 2);
    for to in [Chat, Gemini] {
        assert!(Way::new(Responses, to).stream_text(&stream).contains("Found."), "{to:?}");
    }
}

#[test]
fn a_streamed_search_is_told_in_the_grammar_of_responses() {
    let whole = message();
    let mut stream = event(
        json!({"type":"message_start","message":{"id":"msg_1","model":"m","usage":{"input_tokens":3}}}),
    );
    for (index, block) in whole["content"].as_array().unwrap().iter().enumerate() {
        let (mut start, mut deltas) = (block.clone(), Vec::new());
        if block["type"] == "server_tool_use" {
            start["input"] = json!({});
            let input = block["input"].to_string();
            let (one, two) = input.split_at(6);
            deltas = vec![
                json!({"type":"input_json_delta","partial_json":one}),
                json!({"type":"input_json_delta","partial_json":two}),
            ];
        }
        stream += &event(json!({"type":"content_block_start","index":index,"content_block":start}));
        for delta in deltas {
            stream += &event(json!({"type":"content_block_delta","index":index,"delta":delta}));
        }
        stream += &event(json!({"type":"content_block_stop","index":index}));
    }
    stream += &event(
        json!({"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":2}}),
    );
    stream += &event(json!({"type":"message_stop"}));
    let way = Way::new(Messages, Responses);
    assert_eq!(way.accumulated(&stream)["output"].as_array().unwrap()[1..3], output());
    let events = way.stream(&stream);
    let last = events.last().unwrap();
    assert_eq!(last["response"]["output"].as_array().unwrap()[1..3], output());
    for (index, kinds) in [
        (
            1,
            "output_item.added web_search_call.in_progress web_search_call.searching web_search_call.completed output_item.done",
        ),
        (2, "output_item.added web_search_call.in_progress web_search_call.searching output_item.done"),
    ] {
        let own: Vec<_> = events.iter().filter(|event| event["output_index"] == index).collect();
        let found: Vec<_> = own
            .iter()
            .map(|event| event["type"].as_str().unwrap().strip_prefix("response.").unwrap())
            .collect();
        assert_eq!(found, kinds.split(' ').collect::<Vec<_>>());
        let begun = json!({"id":format!("ws_sy{index}"),"type":"web_search_call","status":"in_progress","action":{"type":"search","query":""}});
        assert_eq!(own[0]["item"], begun);
        assert!(own[1..own.len() - 1].iter().all(|event| event["item_id"] == begun["id"]));
    }
}

#[test]
fn a_turn_that_paused_in_a_search_says_so() {
    let mut body = message();
    body["content"] =
        json!([{"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{"query":"q"}}]);
    body["stop_reason"] = json!("pause_turn");
    let answer = Way::new(Messages, Responses).reply(&body);
    assert_eq!(
        (&answer["status"], &answer["output"][0]["status"]),
        (&json!("completed"), &json!("incomplete"))
    );
}

/// A messages history holds the results of searches, which become text; the search calls of a responses history are
/// left out.
#[test]
fn what_was_found_is_text_in_a_history_or_nothing() {
    let context = |content: &[Value]| {
        json!({"model":"m","max_tokens":9,"messages":[{"role":"user","content":"q"},
            {"role":"assistant","content":content},{"role":"user","content":"go on"}]})
    };
    let body = request(Messages, Responses, Vendor::OpenAi, &context(&shown())).unwrap();
    let said = body["input"][1]["content"].to_string();
    assert!(said.contains("https://a.b") && said.contains("Found.") && !said.contains("sy1:"), "{said}");
    let mut input = vec![json!({"role":"user","content":"q"})];
    input.extend(output());
    input.push(json!({"role":"user","content":"go on"}));
    let body = json!({"model":"m","input":input});
    for to in [Chat, Messages] {
        let sent = request(Responses, to, Vendor::Other, &body).unwrap();
        assert!(!sent.to_string().contains("a.b"), "{sent}");
    }
}

#[test]
fn a_search_of_certain_hosts_stays_one() {
    let (hosts, message) = (json!(["a.b"]), json!([{"role":"user","content":"q"}]));
    let own = json!({"type":"web_search_20250305","name":"web_search","max_uses":2,"allowed_domains":hosts});
    let sent = request(
        Messages,
        Responses,
        Vendor::OpenAi,
        &json!({"model":"m","max_tokens":9,"messages":message,"tools":[own]}),
    );
    let tool = json!({"type":"web_search","filters":{"allowed_domains":hosts}});
    assert_eq!(sent.unwrap()["tools"][0], tool);
    let sent = request(
        Responses,
        Messages,
        Vendor::Anthropic,
        &json!({"model":"m","input":"q","tools":[tool,{"type":"web_search","filters":{"allowed_domains":[]}}]}),
    );
    let tools = &sent.unwrap()["tools"];
    assert_eq!(tools[0]["allowed_domains"], hosts);
    assert_eq!(tools[1].get("allowed_domains"), None);
}
