//! Messages clients at upstreams of other dialects, and messages upstreams for other clients.

use serde_json::{Value, json};

use super::{Way, request, schema, without_breakpoints};
use crate::dialect::Dialect::{Chat, Gemini, Messages, Responses};
use crate::dialect::canonical::{ConversionError, Target, Vendor};

const T2: &str = "sy1:anthropic:W3sidCI6Ik5vdyA1KzEuIiwicyI6IlNJRzIifV0";

/// Returns the request of the example, as messages clients send it.
fn example() -> Value {
    json!({"model":"m","max_tokens":4000,"thinking":{"type":"adaptive"},"output_config":{"effort":"high"},
        "metadata":{"user_id":"u1"},"tool_choice":{"type":"auto","disable_parallel_tool_use":true},
        "system":[{"type":"text","text":"Be brief."}],"tools":[{"name":"add","description":"Add","input_schema":schema()}],
        "messages":[{"role":"user","content":[{"type":"text","text":"Sum these."},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBORw0K"}}]},
        {"role":"assistant","content":[{"type":"thinking","thinking":"Need add.\n","signature":"SIG1"},{"type":"text","text":"Adding."},{"type":"tool_use","id":"call_1","name":"add","input":{"a":2,"b":3}}]},
        {"role":"user","content":[{"type":"tool_result","tool_use_id":"call_1","content":"5"}]}]})
}

/// Returns the example's complete answer, as a messages upstream gives it.
fn reply() -> Value {
    json!({"id":"msg_01","type":"message","role":"assistant","model":"m","content":[
        {"type":"thinking","thinking":"Now 5+1.","signature":"SIG2"},{"type":"text","text":"5, next:"},
        {"type":"tool_use","id":"call_2","name":"add","input":{"a":5,"b":1}}],"stop_reason":"tool_use","stop_sequence":null,
        "usage":{"input_tokens":80,"cache_creation_input_tokens":0,"cache_read_input_tokens":40,"output_tokens":25}})
}

fn reply_in_chat() -> Value {
    json!({"id":"msg_01","object":"chat.completion","created":1_790_000_000,"model":"m","choices":[{"index":0,
        "message":{"role":"assistant","content":"5, next:","reasoning_content":"Now 5+1.","reasoning_signature":T2,
            "tool_calls":[{"id":"call_2","type":"function","function":{"name":"add","arguments":"{\"a\":5,\"b\":1}"}}]},
        "logprobs":null,"finish_reason":"tool_calls"}],
        "usage":{"prompt_tokens":120,"completion_tokens":25,"total_tokens":145,
            "prompt_tokens_details":{"cached_tokens":40},"completion_tokens_details":{"reasoning_tokens":9}}})
}

/// Returns the example's stream, as a chat upstream gives it.
fn stream_in_chat() -> String {
    let delta = |delta: Value| json!({"id":"msg_01","model":"m","choices":[{"index":0,"delta":delta,"finish_reason":null}]});
    let mut usage = reply_in_chat();
    let chunks = [
        delta(json!({"role":"assistant","content":""})),
        delta(json!({"reasoning_content":"Now 5+1."})),
        delta(json!({"reasoning_signature":T2})),
        delta(json!({"content":"5, "})),
        delta(json!({"content":"next:"})),
        delta(
            json!({"tool_calls":[{"index":0,"id":"call_2","type":"function","function":{"name":"add","arguments":""}}]}),
        ),
        delta(json!({"tool_calls":[{"index":0,"function":{"arguments":"{\"a\":5,"}}]})),
        delta(json!({"tool_calls":[{"index":0,"function":{"arguments":"\"b\":1}"}}]})),
        json!({"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}),
        json!({"choices":[],"usage":usage["usage"].take()}),
    ];
    chunks.iter().map(|chunk| format!("data: {chunk}\n\n")).collect::<String>() + "data: [DONE]\n\n"
}

/// Builds a stream of chunks with these deltas, and the end.
fn chat_stream(deltas: &[Value], reason: &str) -> String {
    let chunk = |delta: &Value, reason: Value| {
        let choice = json!({"index":0,"delta":delta,"finish_reason":reason});
        format!("data: {}\n\n", json!({"id":"c","model":"m","choices":[choice]}))
    };
    let mut stream: String = deltas.iter().map(|delta| chunk(delta, Value::Null)).collect();
    stream += &chunk(&json!({}), json!(reason));
    stream + "data: [DONE]\n\n"
}

/// Returns the blocks that a messages client has received at the end of a chat stream.
fn blocks(stream: &str) -> Value {
    let events = Way::new(Chat, Messages).stream_text(stream);
    Way::new(Messages, Messages).accumulated(&events)["content"].take()
}

fn to_claude(from: crate::dialect::Dialect, model: &str, body: &Value) -> Result<Value, ConversionError> {
    let target = Target { model, stream: false, vendor: Vendor::Anthropic };
    let converted = super::super::request(from, Messages, &body.to_string(), &target)?;
    Ok(serde_json::from_slice(&converted.body).unwrap())
}

#[test]
fn the_request_of_the_example_becomes_chat() {
    let wanted = json!({"model":"m","max_completion_tokens":4000,"reasoning_effort":"high","user":"u1","tool_choice":"auto","parallel_tool_calls":false,
        "tools":[{"type":"function","function":{"name":"add","description":"Add","parameters":schema()}}],
        "messages":[{"role":"system","content":"Be brief."},
        {"role":"user","content":[{"type":"text","text":"Sum these."},{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0K"}}]},
        {"role":"assistant","content":"Adding.","tool_calls":[{"id":"call_1","type":"function","function":{"name":"add","arguments":"{\"a\":2,\"b\":3}"}}]},
        {"role":"tool","tool_call_id":"call_1","content":"5"}]});
    assert_eq!(request(Messages, Chat, Vendor::OpenAi, &example()).unwrap(), wanted);
    let other = request(Messages, Chat, Vendor::Other, &example()).unwrap();
    assert_eq!(other["max_tokens"], 4000);
    assert!(!other.to_string().contains("SIG1"));
}

#[test]
fn the_request_of_the_example_becomes_responses() {
    let body = request(Messages, Responses, Vendor::OpenAi, &example()).unwrap();
    let wanted = json!({"model":"m","max_output_tokens":4000,"reasoning":{"effort":"high","summary":"auto"},
        "include":["reasoning.encrypted_content"],"store":false,"user":"u1","safety_identifier":"u1","tool_choice":"auto","parallel_tool_calls":false,
        "instructions":"Be brief.","tools":[{"type":"function","name":"add","description":"Add","parameters":schema(),"strict":false}],
        "input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"Sum these."},{"type":"input_image","image_url":"data:image/png;base64,iVBORw0K"}]},
        {"type":"message","role":"assistant","content":[{"type":"output_text","text":"Adding."}]},
        {"type":"function_call","call_id":"call_1","name":"add","arguments":"{\"a\":2,\"b\":3}"},
        {"type":"function_call_output","call_id":"call_1","output":"5"}]});
    assert_eq!(body, wanted);
}

#[test]
fn the_request_of_the_example_becomes_gemini() {
    let wanted = json!({"systemInstruction":{"parts":[{"text":"Be brief."}]},
        "generationConfig":{"maxOutputTokens":4000,"thinkingConfig":{"includeThoughts":true,"thinkingBudget":32768}},
        "tools":[{"functionDeclarations":[{"name":"add","description":"Add","parametersJsonSchema":schema()}]}],
        "toolConfig":{"functionCallingConfig":{"mode":"AUTO"}},
        "contents":[{"role":"user","parts":[{"text":"Sum these."},{"inlineData":{"mimeType":"image/png","data":"iVBORw0K"}}]},
        {"role":"model","parts":[{"text":"Adding."},{"functionCall":{"id":"call_1","name":"add","args":{"a":2,"b":3}},"thoughtSignature":"skip_thought_signature_validator"}]},
        {"role":"user","parts":[{"functionResponse":{"id":"call_1","name":"add","response":{"result":"5"}}}]}]});
    assert_eq!(request(Messages, Gemini, Vendor::Gemini, &example()).unwrap(), wanted);
}

#[test]
fn the_reply_of_the_example_becomes_gemini() {
    let out = Way::new(Messages, Gemini).reply(&reply());
    let parts = json!([{"text":"Now 5+1.","thought":true},{"text":"5, next:"},
        {"functionCall":{"id":"call_2","name":"add","args":{"a":5,"b":1}},
            "thoughtSignature":"c3kxOmFudGhyb3BpYzpXM3NpZENJNklrNXZkeUExS3pFdUlpd2ljeUk2SWxOSlJ6SWlmVjA="}]);
    assert_eq!(out["candidates"][0]["content"]["parts"], parts);
    assert_eq!(out["usageMetadata"]["promptTokenCount"], 120);
    assert_eq!(out["usageMetadata"]["cachedContentTokenCount"], 40);
}

#[test]
fn the_chat_request_of_the_example_becomes_this_one() {
    let t1 = "sy1:anthropic:W3sidCI6Ik5lZWQgYWRkLlxuIiwicyI6IlNJRzEifV0";
    let mut chat = request(Messages, Chat, Vendor::OpenAi, &example()).unwrap();
    chat["messages"][2]["reasoning_content"] = json!("Need add.\n");
    chat["messages"][2]["reasoning_signature"] = json!(t1);
    let mut body = request(Chat, Messages, Vendor::Anthropic, &chat).unwrap();
    without_breakpoints(&mut body);
    assert_eq!(body, example());
}

#[test]
fn the_reply_of_the_example_crosses_both_ways() {
    assert_eq!(Way::new(Chat, Messages).reply(&reply_in_chat()), reply());
    let mut out = Way::new(Messages, Chat).reply(&reply());
    // Messages does not count reasoning tokens.
    assert_eq!(out["usage"]["completion_tokens_details"], json!({"reasoning_tokens":0}));
    out["usage"]["completion_tokens_details"] = json!({"reasoning_tokens":9});
    assert_eq!(out, reply_in_chat());
}

#[test]
fn the_stream_of_the_example_crosses_both_ways() {
    let events = Way::new(Chat, Messages).stream(&stream_in_chat());
    let kinds: Vec<_> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    let (start, delta, stop) = ("content_block_start", "content_block_delta", "content_block_stop");
    assert_eq!(
        kinds,
        [
            "message_start",
            start,
            delta,
            delta,
            stop,
            start,
            delta,
            delta,
            stop,
            start,
            delta,
            delta,
            stop,
            "message_delta",
            "message_stop"
        ]
    );
    assert_eq!(events[0]["message"]["usage"]["input_tokens"], 0, "not known yet");
    assert_eq!(events[3]["delta"], json!({"type":"signature_delta","signature":"SIG2"}));
    let usage = json!({"input_tokens":80,"cache_read_input_tokens":40,"output_tokens":25});
    assert_eq!(events[13]["usage"], usage);

    let there = Way::new(Chat, Messages).stream_text(&stream_in_chat());
    assert_eq!(Way::new(Messages, Messages).accumulated(&there), reply());
    let back = Way::new(Messages, Chat).stream_text(&there);
    assert!(back.ends_with("data: [DONE]\n\n"));
    let accumulator = Way::new(Chat, Chat).accumulated(&back);
    assert_eq!(accumulator["choices"][0]["message"], reply_in_chat()["choices"][0]["message"]);
    // Calls are counted from 0, whatever the index of their block.
    let chunks = Way::new(Messages, Chat).stream(&there);
    let call = chunks.iter().find_map(|chunk| chunk.pointer("/choices/0/delta/tool_calls/0"));
    assert_eq!(call.unwrap()["index"], 0);
}

#[test]
fn text_of_a_chat_stream_is_never_touched() {
    let line = "this very line comes two times";
    let pieces = ["hel", "lo f(", "(x))", line, line];
    let deltas: Vec<_> = pieces.iter().map(|piece| json!({"content":piece})).collect();
    let events = Way::new(Chat, Messages).stream(&chat_stream(&deltas, "stop"));
    let found: Vec<_> = events.iter().filter_map(|event| event["delta"]["text"].as_str()).collect();
    assert_eq!(found.concat(), pieces.concat());
}

#[test]
fn pieces_of_chat_calls_become_whole_calls() {
    let mut deltas = vec![
        json!({"content":"let me"}),
        json!({"tool_calls":[{"id":"c1","function":{"name":"f","arguments":""}}]}),
    ];
    deltas.extend(
        ["{", "\"a\"", ":", "1}"].map(|piece| json!({"tool_calls":[{"function":{"arguments":piece}}]})),
    );
    let text = json!({"type":"text","text":"let me"});
    let call = |id: &str, input: Value| json!({"type":"tool_use","id":id,"name":"f","input":input});
    assert_eq!(blocks(&chat_stream(&deltas, "tool_calls")), json!([text, call("c1", json!({"a":1}))]));

    let both = ["c1", "c2"]
        .map(|id| json!({"tool_calls":[{"index":0,"id":id,"function":{"name":"f","arguments":"{}"}}]}));
    assert_eq!(blocks(&chat_stream(&both, "stop")), json!([call("c1", json!({})), call("c2", json!({}))]));
}

#[test]
fn thinking_that_ends_in_a_newline_comes_home_byte_for_byte() {
    let content = json!([{"type":"thinking","thinking":"Hm.\n\n","signature":"SIG/+="},{"type":"redacted_thinking","data":"EvAF"},
        {"type":"text","text":" a\n"},{"type":"tool_use","id":"toolu_1","name":"f","input":{}}]);
    let answer = json!({"id":"msg_1","type":"message","role":"assistant","model":"m","content":content,"stop_reason":"tool_use","usage":{}});
    let stream = Way::new(Messages, Messages).replayed(&answer);

    let whole = Way::new(Messages, Chat).reply(&answer)["choices"][0]["message"].clone();
    let text = Way::new(Messages, Chat).stream_text(&stream);
    let streamed = Way::new(Chat, Chat).accumulated(&text)["choices"][0]["message"].clone();
    for message in [whole, streamed] {
        let chat = json!({"model":"m","messages":[{"role":"user","content":"x"},message,{"role":"tool","tool_call_id":"toolu_1","content":""}]});
        let mut body = to_claude(Chat, "m", &chat).unwrap();
        without_breakpoints(&mut body);
        assert_eq!(body["messages"][1]["content"], content);
        assert_eq!(body["messages"][2]["content"][0]["content"], "");
    }

    let whole = Way::new(Messages, Responses).reply(&answer)["output"].clone();
    let text = Way::new(Messages, Responses).stream_text(&stream);
    let streamed = Way::new(Responses, Responses).accumulated(&text)["output"].clone();
    for output in [whole, streamed] {
        let mut input = output.as_array().unwrap().clone();
        input.insert(0, json!({"role":"user","content":"x"}));
        input.push(json!({"type":"function_call_output","call_id":"toolu_1","output":""}));
        let mut body = to_claude(Responses, "m", &json!({"model":"m","input":input})).unwrap();
        without_breakpoints(&mut body);
        assert_eq!(body["messages"][1]["content"], content);
    }
}

#[test]
fn results_keep_what_they_say() {
    let image = json!({"type":"image","source":{"type":"base64","media_type":"image/png","data":"QQ=="}});
    let body = json!({"model":"m","max_tokens":100,"messages":[{"role":"user","content":"x"},
        {"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f","input":{}},{"type":"tool_use","id":"b","name":"f","input":{}}]},
        {"role":"user","content":[{"type":"tool_result","tool_use_id":"a"},
            {"type":"tool_result","tool_use_id":"b","is_error":true,"content":[{"type":"text","text":"no"},image]},
            {"type":"text","text":"and?"}]}]});
    let chat = request(Messages, Chat, Vendor::OpenAi, &body).unwrap();
    let said = json!([{"role":"tool","tool_call_id":"a","content":""},{"role":"tool","tool_call_id":"b","content":"Error: no"},
        {"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,QQ=="}},{"type":"text","text":"and?"}]}]);
    assert_eq!(chat["messages"].as_array().unwrap()[2..], *said.as_array().unwrap());
    let mut again = to_claude(Chat, "m", &chat).unwrap();
    without_breakpoints(&mut again);
    assert_eq!(
        again["messages"][2]["content"],
        json!([{"type":"tool_result","tool_use_id":"a","content":""},{"type":"tool_result","tool_use_id":"b","content":"Error: no"},image,{"type":"text","text":"and?"}])
    );

    let responses = request(Messages, Responses, Vendor::OpenAi, &body).unwrap();
    assert_eq!(responses["input"][3], json!({"type":"function_call_output","call_id":"a","output":""}));
    let output = json!([{"type":"input_text","text":"Error: no"},{"type":"input_image","image_url":"data:image/png;base64,QQ=="}]);
    assert_eq!(responses["input"][4]["output"], output);
}

#[test]
fn what_chat_clients_write_differently_is_understood() {
    let body = json!({"model":"m","max_completion_tokens":77,"stop":"END","temperature":1.6,
        "messages":[{"role":"user","content":"x"}],"tools":[{"type":"function","function":{"name":"f"}}]});
    let out = to_claude(Chat, "claude-sonnet-4-5", &body).unwrap();
    assert_eq!((&out["max_tokens"], &out["stop_sequences"]), (&json!(77), &json!(["END"])));
    assert_eq!(out["temperature"], 1);
    assert_eq!(out["tools"][0]["input_schema"], json!({"type":"object","properties":{}}));
}

#[test]
fn efforts_reach_every_kind_of_model() {
    let tokens = |budget: u64| json!({"type":"enabled","budget_tokens":budget});
    let adaptive = json!({"type":"adaptive"});
    let disabled = json!({"type":"disabled"});
    for (effort, word, budget) in [
        ("none", None, disabled.clone()),
        ("minimal", Some("low"), tokens(1024)),
        ("low", Some("low"), tokens(1024)),
        ("medium", Some("medium"), tokens(8192)),
        ("high", Some("high"), tokens(32768)),
        ("xhigh", Some("high"), tokens(51200)),
    ] {
        let body = json!({"model":"m","max_completion_tokens":64000,"reasoning_effort":effort,"messages":[{"role":"user","content":"x"}]});
        let newer = to_claude(Chat, "claude-opus-4-6", &body).unwrap();
        assert_eq!(newer["thinking"], if word.is_some() { adaptive.clone() } else { disabled.clone() });
        assert_eq!(newer["output_config"]["effort"], json!(word), "{effort}");
        let older = to_claude(Chat, "claude-sonnet-4-5", &body).unwrap();
        assert_eq!((&older["thinking"], older.get("output_config")), (&budget, None), "{effort}");
    }
    let forced = json!({"model":"m","reasoning_effort":"high","tool_choice":"required","messages":[{"role":"user","content":"x"}],
        "tools":[{"type":"function","function":{"name":"f"}}]});
    for model in ["claude-opus-4-6", "claude-sonnet-4-5"] {
        let body = to_claude(Chat, model, &forced).unwrap();
        assert_eq!((body.get("thinking"), &body["tool_choice"]), (None, &json!({"type":"any"})));
    }
}

#[test]
fn what_would_change_the_answers_shape_is_refused_by_name() {
    for (member, value, field) in [
        ("n", json!(2), "n"),
        ("modalities", json!(["text", "audio"]), "modalities"),
        ("logprobs", json!(true), "logprobs"),
    ] {
        let mut body = json!({"model":"m","messages":[{"role":"user","content":"x"}]});
        body[member] = value;
        assert_eq!(to_claude(Chat, "m", &body), Err(ConversionError::unsupported(field)));
    }
    let mut body = example();
    body["mcp_servers"] = json!([{"type":"url","url":"https://m","name":"m"}]);
    for to in [Chat, Responses] {
        assert_eq!(
            request(Messages, to, Vendor::OpenAi, &body),
            Err(ConversionError::unsupported("mcp_servers"))
        );
    }
}

#[test]
fn letters_and_think_tags_cut_anywhere_say_the_same() {
    let content = "<think>é😀 hm</think>añb";
    let whole = blocks(&chat_stream(&[json!({"content":content})], "stop"));
    assert_eq!(
        whole,
        json!([{"type":"thinking","thinking":"é😀 hm","signature":""},{"type":"text","text":"añb"}])
    );
    for at in (1..content.len()).filter(|at| content.is_char_boundary(*at)) {
        let deltas = [json!({"content":content[..at]}), json!({"content":content[at..]})];
        assert_eq!(blocks(&chat_stream(&deltas, "stop")), whole, "{at}");
    }
    let stream = chat_stream(&[json!({"content":content})], "stop");
    let way = Way::new(Chat, Messages);
    for at in 1..stream.len() {
        let mut converter = super::StreamConverter::new(Chat, Messages, way.context.clone());
        let mut out = String::new();
        converter.feed(&stream.as_bytes()[..at], &mut out);
        converter.feed(&stream.as_bytes()[at..], &mut out);
        converter.close(&mut out);
        assert_eq!(Way::new(Messages, Messages).accumulated(&out)["content"], whole, "{at}");
    }
}

#[test]
fn what_a_server_would_run_is_had_from_its_own_kind_alone() {
    let body = json!({"max_tokens":9,"messages":[{"role":"user","content":"x"}],"tools":[
        {"name":"add","input_schema":schema()},{"type":"code_execution_20250825","name":"code_execution"}]});
    for to in [Chat, Responses] {
        assert_eq!(
            request(Messages, to, Vendor::Other, &body),
            Err(ConversionError::unsupported_form("tools", "of the type code_execution_20250825")),
            "{to:?}"
        );
    }
    let nothing = json!({"max_tokens":9,"messages":[{"role":"user","content":[]}]});
    let refused = request(Messages, Chat, Vendor::Other, &nothing);
    assert!(matches!(refused, Err(ConversionError::Invalid { field, .. }) if field == "messages"));
}
