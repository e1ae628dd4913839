//! Responses clients at upstreams of other dialects, and responses upstreams for other clients.

use serde_json::{Value, json};

use super::{Way, request, schema, without_breakpoints};
use crate::dialect::Dialect::{Chat, Gemini, Messages, Responses};
use crate::dialect::canonical::{ConversionError, Vendor};

const T1: &str = "sy1:anthropic:W3sidCI6Ik5lZWQgYWRkLlxuIiwicyI6IlNJRzEifV0";

/// Returns the request of the example, as responses clients send it.
fn example() -> Value {
    json!({"model":"m","max_output_tokens":4000,"reasoning":{"effort":"high","summary":"auto"},
        "include":["reasoning.encrypted_content"],"store":false,"user":"u1","tool_choice":"auto","parallel_tool_calls":false,
        "instructions":"Be brief.","tools":[{"type":"function","name":"add","description":"Add","parameters":schema(),"strict":false}],
        "input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"Sum these."},{"type":"input_image","image_url":"data:image/png;base64,iVBORw0K","detail":"low"}]},
        {"type":"reasoning","summary":[{"type":"summary_text","text":"Need add.\n"}],"encrypted_content":T1},
        {"type":"message","role":"assistant","content":[{"type":"output_text","text":"Adding."}]},
        {"type":"function_call","call_id":"call_1","name":"add","arguments":"{\"a\":2,\"b\":3}"},
        {"type":"function_call_output","call_id":"call_1","output":"5"}]})
}

#[test]
fn the_request_of_the_example_becomes_messages() {
    let mut body = request(Responses, Messages, Vendor::Anthropic, &example()).unwrap();
    without_breakpoints(&mut body);
    assert_eq!(
        body,
        json!({"model":"m","max_tokens":4000,"thinking":{"type":"adaptive"},"output_config":{"effort":"high"},
            "metadata":{"user_id":"u1"},"tool_choice":{"type":"auto","disable_parallel_tool_use":true},
            "system":[{"type":"text","text":"Be brief."}],"tools":[{"name":"add","description":"Add","input_schema":schema()}],
            "messages":[{"role":"user","content":[{"type":"text","text":"Sum these."},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBORw0K"}}]},
            {"role":"assistant","content":[{"type":"thinking","thinking":"Need add.\n","signature":"SIG1"},{"type":"text","text":"Adding."},{"type":"tool_use","id":"call_1","name":"add","input":{"a":2,"b":3}}]},
            {"role":"user","content":[{"type":"tool_result","tool_use_id":"call_1","content":"5"}]}]})
    );
}

#[test]
fn the_request_of_the_example_becomes_chat() {
    let body = request(Responses, Chat, Vendor::OpenAi, &example()).unwrap();
    assert_eq!(
        body,
        json!({"model":"m","max_completion_tokens":4000,"reasoning_effort":"high","user":"u1","tool_choice":"auto","parallel_tool_calls":false,
            "tools":[{"type":"function","function":{"name":"add","description":"Add","parameters":schema()}}],
            "messages":[{"role":"system","content":"Be brief."},
            {"role":"user","content":[{"type":"text","text":"Sum these."},{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0K","detail":"low"}}]},
            {"role":"assistant","content":"Adding.","tool_calls":[{"id":"call_1","type":"function","function":{"name":"add","arguments":"{\"a\":2,\"b\":3}"}}]},
            {"role":"tool","tool_call_id":"call_1","content":"5"}]})
    );
    let body = request(Responses, Chat, Vendor::Other, &example()).unwrap();
    assert_eq!(body["max_tokens"], 4000);
    assert_eq!(body["messages"][2]["reasoning_content"], "Need add.\n", "other vendors want it back");
    assert_eq!(body["messages"][2].get("reasoning_signature"), None);
}

/// Returns the example's complete answer, as an upstream of this dialect might give it.
fn reply() -> Value {
    let t2 = "sy1:anthropic:W3sidCI6Ik5vdyA1KzEuIiwicyI6IlNJRzIifV0";
    json!({"id":"resp_01","object":"response","created_at":1_790_000_000,"status":"completed","model":"m","output":[
        {"id":"rs_sy0","type":"reasoning","summary":[{"type":"summary_text","text":"Now 5+1."}],"encrypted_content":t2},
        {"id":"msg_sy1","type":"message","status":"completed","role":"assistant","content":[{"type":"output_text","text":"5, next:","annotations":[],"logprobs":[]}]},
        {"id":"fc_sy2","type":"function_call","status":"completed","call_id":"call_2","name":"add","arguments":"{\"a\":5,\"b\":1}"}],
        "usage":{"input_tokens":120,"input_tokens_details":{"cached_tokens":40},"output_tokens":25,"output_tokens_details":{"reasoning_tokens":9},"total_tokens":145}})
}

fn reply_in_messages() -> Value {
    json!({"id":"msg_01","type":"message","role":"assistant","model":"m","content":[
        {"type":"thinking","thinking":"Now 5+1.","signature":"SIG2"},{"type":"text","text":"5, next:"},
        {"type":"tool_use","id":"call_2","name":"add","input":{"a":5,"b":1}}],"stop_reason":"tool_use","stop_sequence":null,
        "usage":{"input_tokens":80,"cache_creation_input_tokens":0,"cache_read_input_tokens":40,"output_tokens":25}})
}

#[test]
fn the_reply_of_the_example_becomes_the_others() {
    let mut out = Way::new(Responses, Messages).reply(&reply());
    out["id"] = json!("msg_01");
    assert_eq!(out, reply_in_messages());

    let out = Way::new(Responses, Chat).reply(&reply());
    let message = &out["choices"][0]["message"];
    assert_eq!((&out["id"], &out["created"]), (&json!("resp_01"), &json!(1_790_000_000)));
    assert_eq!(
        (&message["content"], &message["reasoning_content"]),
        (&json!("5, next:"), &json!("Now 5+1."))
    );
    assert_eq!(message["reasoning_signature"], reply()["output"][0]["encrypted_content"]);
    assert_eq!(message["tool_calls"][0]["function"]["arguments"], "{\"a\":5,\"b\":1}");
    assert_eq!(out["choices"][0]["finish_reason"], "tool_calls");
    assert_eq!(
        out["usage"],
        json!({"prompt_tokens":120,"completion_tokens":25,"total_tokens":145,
            "prompt_tokens_details":{"cached_tokens":40},"completion_tokens_details":{"reasoning_tokens":9}})
    );
}

#[test]
fn the_reply_of_the_example_comes_from_messages() {
    let out = Way::new(Messages, Responses).reply(&reply_in_messages());
    assert_eq!((&out["status"], &out["output"]), (&json!("completed"), &reply()["output"]));
    assert_eq!(
        out["usage"],
        json!({"input_tokens":120,"input_tokens_details":{"cached_tokens":40,"cache_write_tokens":0},"output_tokens":25,
            "output_tokens_details":{"reasoning_tokens":0},"total_tokens":145})
    );
}

#[test]
fn a_stream_of_messages_is_one_of_responses_and_back() {
    let answer = reply_in_messages();
    let there = Way::new(Messages, Messages).replayed(&answer);
    let events = Way::new(Messages, Responses).stream(&there);
    let last = events.last().unwrap();
    assert_eq!(last["type"], "response.completed");
    assert_eq!(last["response"]["output"], reply()["output"]);
    let text = Way::new(Messages, Responses).stream_text(&there);
    let mut accumulator = Way::new(Responses, Messages).accumulated(&text);
    accumulator["id"] = json!("msg_01");
    assert_eq!(accumulator, answer);
}

#[test]
fn a_stream_that_does_not_say_that_it_begins_is_whole_all_the_same() {
    let whole = Way::new(Responses, Responses).replayed(&reply());
    let events = whole.split_inclusive("\n\n");
    let headless: String = events
        .filter(|event| {
            !event.contains("\"response.created\"") && !event.contains("\"response.in_progress\"")
        })
        .collect();
    assert!(headless.len() < whole.len());
    for to in [Chat, Messages, Gemini] {
        let way = Way::new(Responses, to);
        // A gathered answer has the name and the id that came at the end.
        assert_eq!(way.accumulated(&headless), way.accumulated(&whole), "{to:?}");
        let without_names = |stream: &str| {
            let mut events = way.stream(stream);
            for event in &mut events {
                for (holder, member) in [
                    ("", "/id"),
                    ("", "/model"),
                    ("", "/created"),
                    ("/message", "/id"),
                    ("/message", "/model"),
                    ("", "/responseId"),
                    ("", "/modelVersion"),
                ] {
                    if let Some(named) = event.pointer_mut(&format!("{holder}{member}")) {
                        *named = Value::Null;
                    }
                }
            }
            events
        };
        assert_eq!(without_names(&headless), without_names(&whole), "{to:?}");
        let ids: std::collections::BTreeSet<String> =
            way.stream(&headless).iter().filter_map(|event| Some(event.get("id")?.to_string())).collect();
        assert!(ids.len() <= 1, "{to:?}: {ids:?}");
    }
}

#[test]
fn thinking_of_openai_comes_home_through_clients_of_others() {
    let answer = json!({"id":"resp_1","status":"completed","model":"m","output":[
        {"id":"rs_68af","type":"reasoning","summary":[{"type":"summary_text","text":"A\n"},{"type":"summary_text","text":"B"}],"encrypted_content":"gAAA+/="},
        {"id":"fc_1","type":"function_call","call_id":"call_1","name":"f","arguments":"{}"}]});
    let home = json!({"type":"reasoning","id":"rs_68af","summary":[{"type":"summary_text","text":"A\n"},{"type":"summary_text","text":"B"}],"encrypted_content":"gAAA+/="});

    let shown = Way::new(Responses, Messages).reply(&answer);
    let next = |content: &Value| {
        json!({"model":"m","max_tokens":100,"messages":[{"role":"user","content":"x"},
        {"role":"assistant","content":content},{"role":"user","content":[{"type":"tool_result","tool_use_id":"call_1"}]}]})
    };
    let body = request(Messages, Responses, Vendor::OpenAi, &next(&shown["content"])).unwrap();
    assert_eq!(body["input"][1], home);
    let body = request(Messages, Messages, Vendor::Anthropic, &next(&shown["content"])).unwrap();
    assert!(!body.to_string().contains("gAAA") && !body.to_string().contains("sy1:"), "{body}");

    let shown = Way::new(Responses, Chat).reply(&answer)["choices"][0]["message"].clone();
    let chat = json!({"model":"m","messages":[{"role":"user","content":"x"},shown,{"role":"tool","tool_call_id":"call_1","content":""}]});
    let body = request(Chat, Responses, Vendor::OpenAi, &chat).unwrap();
    assert_eq!(body["input"][1], home);
    assert_eq!(body["input"][3], json!({"type":"function_call_output","call_id":"call_1","output":""}));
}

#[test]
fn chat_survives_this_dialect() {
    let body = json!({"model":"m","messages":[
        {"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url","image_url":{"url":"https://x.example/a.png","detail":"high"}}]}],
        "response_format":{"type":"json_schema","json_schema":{"name":"n","description":"d","schema":{"type":"object"},"strict":true}},
        "tools":[{"type":"custom","custom":{"name":"patch","description":"d","format":{"type":"grammar","grammar":{"syntax":"lark","definition":"start: x"}}}},
            {"type":"function","function":{"name":"f","parameters":{"type":"object"}}}],
        "tool_choice":{"type":"custom","custom":{"name":"patch"}}});
    let there = request(Chat, Responses, Vendor::OpenAi, &body).unwrap();
    assert_eq!(there["input"][0]["content"][1]["image_url"], "https://x.example/a.png");
    let mut back = request(Responses, Chat, Vendor::OpenAi, &there).unwrap();
    back.as_object_mut().unwrap().remove("store");
    assert_eq!(back, body);
}

#[test]
fn a_custom_tool_works_at_an_upstream_that_has_none() {
    let body =
        json!({"model":"m","input":"x","tools":[{"type":"custom","name":"apply_patch","description":"d"}]});
    let way = Way::asking(Responses, Messages, Vendor::Anthropic, &body);
    let schema = &way.body["tools"][0]["input_schema"];
    assert_eq!(schema["properties"], json!({"input":{"type":"string"}}));
    let answer = json!({"id":"msg_1","type":"message","role":"assistant","model":"m","stop_reason":"tool_use",
        "content":[{"type":"tool_use","id":"toolu_1","name":"apply_patch","input":{"input":"*** \"a\"\n"}}],"usage":{}});
    let item = json!({"id":"fc_sy0","type":"custom_tool_call","status":"completed","call_id":"toolu_1","name":"apply_patch","input":"*** \"a\"\n"});
    let back = way.back();
    assert_eq!(back.reply(&answer)["output"][0], item);
    let events = back.stream(&Way::new(Messages, Messages).replayed(&answer));
    assert_eq!(events.last().unwrap()["response"]["output"][0], item);
    assert!(events.iter().any(|event| event["type"] == "response.custom_tool_call_input.delta"));
}

#[test]
fn text_of_a_chat_stream_is_never_touched() {
    let line = "this very line comes two times";
    let pieces = ["hel", "lo f(", "(x))", line, line];
    let chunk = |delta: Value, reason: Value| {
        format!(
            "data: {}\n\n",
            json!({"id":"c","model":"m","choices":[{"index":0,"delta":delta,"finish_reason":reason}]})
        )
    };
    let mut stream: String =
        pieces.iter().map(|piece| chunk(json!({"content":piece}), json!(null))).collect();
    stream += &chunk(json!({}), json!("stop"));
    stream += "data: [DONE]\n\n";
    let events = Way::new(Chat, Responses).stream(&stream);
    let found: String = events
        .iter()
        .filter(|event| event["type"] == "response.output_text.delta")
        .filter_map(|event| event["delta"].as_str())
        .collect();
    assert_eq!(found, pieces.concat());
    assert_eq!(events.last().unwrap()["response"]["output"][0]["content"][0]["text"], pieces.concat());
}

#[test]
fn pieces_of_a_chat_call_become_one_call() {
    let chunk = |delta: Value, reason: Value| {
        format!(
            "data: {}\n\n",
            json!({"id":"c","model":"m","choices":[{"index":0,"delta":delta,"finish_reason":reason}]})
        )
    };
    let mut stream = chunk(json!({"content":"let me"}), json!(null));
    stream += &chunk(json!({"tool_calls":[{"id":"c1","function":{"name":"f","arguments":""}}]}), json!(null));
    for piece in ["{", "\"a\"", ":", "1}"] {
        stream += &chunk(json!({"tool_calls":[{"function":{"arguments":piece}}]}), json!(null));
    }
    stream += &chunk(json!({}), json!("tool_calls"));
    stream += "data: [DONE]\n\n";
    let output = Way::new(Chat, Responses).stream(&stream).last().unwrap()["response"]["output"].clone();
    assert_eq!(output.as_array().unwrap().len(), 2);
    assert_eq!((&output[1]["call_id"], &output[1]["arguments"]), (&json!("c1"), &json!("{\"a\":1}")));
}

#[test]
fn a_stream_is_gathered_although_its_last_event_is_empty() {
    let reasoning = json!({"id":"rs_1","type":"reasoning","summary":[{"type":"summary_text","text":"A"},{"type":"summary_text","text":"B"}],"encrypted_content":"gAAA"});
    let message = json!({"id":"msg_1","type":"message","status":"completed","role":"assistant","content":[{"type":"output_text","text":"hi","annotations":[],"logprobs":[]}]});
    let mut stream = String::new();
    for event in [
        json!({"type":"response.created","response":{"id":"resp_1","model":"m","created_at":7,"output":[]}}),
        json!({"type":"response.output_item.done","output_index":0,"item":reasoning}),
        json!({"type":"response.output_item.done","output_index":1,"item":message}),
        json!({"type":"response.completed","response":{"id":"resp_1","status":"completed","output":[],"usage":{"input_tokens":1,"output_tokens":2}}}),
    ] {
        stream += &format!("data: {event}\n\n");
    }
    let whole = Way::new(Responses, Responses).accumulated(&stream);
    assert_eq!(whole["output"][0], reasoning);
    assert_eq!(whole["output"][1]["content"], message["content"]);
    assert_eq!((&whole["id"], &whole["created_at"]), (&json!("resp_1"), &json!(7)));
    let events = Way::new(Responses, Responses).stream(&Way::new(Responses, Responses).replayed(&whole));
    assert_eq!(events.last().unwrap()["response"]["output"][1]["content"], message["content"]);
}

#[test]
fn a_gathered_response_keeps_what_no_other_dialect_has() {
    let search = json!({"id":"ws_1","type":"web_search_call","status":"completed"});
    let answer = json!({"id":"resp_1","object":"response","status":"completed","output":[search],"new":1});
    let stream = format!("data: {}\n\n", json!({"type":"response.completed","response":answer}));
    assert_eq!(Way::new(Responses, Responses).accumulated(&stream), answer);
}

#[test]
fn what_others_cannot_say_is_refused_by_name() {
    let unsupported = |field: &'static str| ConversionError::unsupported(field);
    for (body, refusal) in [
        (json!({"model":"m","input":[{"type":"computer_call","id":"x"}]}), unsupported("computer_call")),
        (
            json!({"model":"m","input":"x","tools":[{"type":"mcp"}]}),
            ConversionError::unsupported_form("tools", "of the type mcp"),
        ),
        (
            json!({"model":"m","input":"x","previous_response_id":"resp_1"}),
            unsupported("previous_response_id"),
        ),
        (
            json!({"model":"m","previous_response_id":"resp_1",
                "input":[{"type":"function_call_output","call_id":"c","output":"1"}]}),
            unsupported("previous_response_id"),
        ),
    ] {
        for (to, vendor) in [(Chat, Vendor::OpenAi), (Messages, Vendor::Anthropic)] {
            assert_eq!(request(Responses, to, vendor, &body), Err(refusal.clone()), "{to:?} {body}");
        }
    }
}

#[test]
fn an_answer_repeats_the_request_it_answers() {
    let body = json!({"model":"m","input":"x","temperature":0.5,"metadata":{"a":"b"},"instructions":"i"});
    let out = Way::asking(Responses, Messages, Vendor::Anthropic, &body).back().reply(&reply_in_messages());
    for key in ["temperature", "metadata", "instructions"] {
        assert_eq!(out[key], body[key]);
    }
}

#[test]
fn instructions_keep_their_place_in_the_conversation() {
    let call = json!({"type":"function_call","call_id":"c","name":"f","arguments":"{}"});
    let body = json!({"instructions":"One.","input":[
        {"role":"developer","content":"Two."},
        {"role":"user","content":"hi"},
        call,
        {"role":"system","content":[{"type":"input_text","text":"Three."},{"type":"input_text","text":"Four."}]},
        {"type":"function_call_output","call_id":"c","output":"5"}]});
    for (vendor, developer) in [(Vendor::OpenAi, "developer"), (Vendor::Other, "system")] {
        let out = request(Responses, Chat, vendor, &body).unwrap();
        let said = out["messages"].as_array().unwrap().iter();
        let said: Vec<_> =
            said.map(|it| (it["role"].as_str().unwrap(), it["content"].as_str().unwrap())).collect();
        let wanted = [
            ("system", "One."),
            (developer, "Two."),
            ("user", "hi"),
            ("assistant", ""),
            ("tool", "5"),
            ("system", "Three.\n\nFour."),
        ];
        assert_eq!(said, wanted);
    }
    let out = request(Responses, Messages, Vendor::Other, &body).unwrap();
    let texts: Vec<_> = out["system"].as_array().unwrap().iter().map(|block| &block["text"]).collect();
    assert_eq!(texts, ["One.", "Two."]);
    let said = out["messages"].as_array().unwrap();
    assert_eq!(said.len(), 3);
    let kinds: Vec<_> = said[2]["content"].as_array().unwrap().iter().map(|block| &block["type"]).collect();
    assert_eq!(kinds, ["tool_result", "text"]);
    let reminder = "<system-reminder>Three.\n\nFour.</system-reminder>";
    assert_eq!(said[2]["content"][1]["text"], reminder);
    let out = request(Responses, Gemini, Vendor::Gemini, &body).unwrap();
    let parts = out["contents"][2]["parts"].as_array().unwrap();
    assert!(parts[0].get("functionResponse").is_some(), "{out}");
    assert_eq!(parts[1..], [json!({"text":reminder})]);
}

#[test]
fn custom_tools_of_either_kind_stay_what_they_are() {
    let grammar = json!({"type":"grammar","syntax":"lark","definition":"d"});
    let body = json!({"input":"x","tools":[{"type":"custom","name":"a","format":grammar},
        {"type":"custom","name":"b","format":{"type":"text"}},{"type":"custom","name":"c"}]});
    let mut there = request(Responses, Chat, Vendor::OpenAi, &body).unwrap();
    assert_eq!(there["tools"][1]["custom"], json!({"name":"b","format":{"type":"text"}}));
    let back = request(Chat, Responses, Vendor::OpenAi, &there.take()).unwrap();
    assert_eq!(back["tools"], body["tools"]);
    let function = request(Responses, Chat, Vendor::Other, &body).unwrap();
    let input = json!({"type":"object","properties":{"input":{"type":"string"}}});
    assert_eq!(function["tools"][0]["function"]["parameters"], input);
}

#[test]
fn a_choice_of_tools_that_are_not_there_allows_none() {
    let body = json!({"input":"x","tools":[{"type":"function","name":"f","parameters":schema()}],
        "tool_choice":{"type":"allowed_tools","mode":"auto","tools":[{"type":"web_search"}]}});
    let mode = |body: &Value| {
        let sent = request(Responses, Gemini, Vendor::Gemini, body).unwrap();
        sent["toolConfig"]["functionCallingConfig"].clone()
    };
    assert_eq!(mode(&body), json!({"mode":"NONE"}));
    let mut other = body.clone();
    other["tool_choice"]["tools"] = json!([{"type":"function","name":"gone"}]);
    assert_eq!(mode(&other), json!({"mode":"NONE"}));
    other["tool_choice"]["tools"] = json!([{"type":"function","name":"f"}]);
    assert_eq!(mode(&other), json!({"mode":"VALIDATED","allowedFunctionNames":["f"]}));
}
