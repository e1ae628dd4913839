//! Chat clients at upstreams of other dialects, and chat upstreams for other clients.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{Way, request, schema, without_breakpoints};
use crate::dialect::Dialect::{self, Chat, Gemini, Messages, Responses};
use crate::dialect::canonical::{ConversionError, ReplyContext, Vendor};
use crate::dialect::convert::StreamConverter;

const T1: &str = "sy1:anthropic:W3sidCI6Ik5lZWQgYWRkLlxuIiwicyI6IlNJRzEifV0";

/// Returns the request of the example, as chat clients send it.
fn example() -> Value {
    json!({"model":"m","max_completion_tokens":4000,"reasoning_effort":"high","user":"u1","tool_choice":"auto",
        "parallel_tool_calls":false,
        "tools":[{"type":"function","function":{"name":"add","description":"Add","parameters":schema()}}],
        "messages":[{"role":"system","content":"Be brief."},
        {"role":"user","content":[{"type":"text","text":"Sum these."},
            {"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0K","detail":"low"}}]},
        {"role":"assistant","content":"Adding.","reasoning_content":"Need add.\n","reasoning_signature":T1,
            "tool_calls":[{"id":"call_1","type":"function","function":{"name":"add","arguments":"{\"a\":2,\"b\":3}"}}]},
        {"role":"tool","tool_call_id":"call_1","content":"5"}]})
}

fn chunk(delta: Value, reason: Value) -> String {
    let choice = json!({"index":0,"delta":delta,"finish_reason":reason});
    format!("data: {}\n\n", json!({"id":"c1","created":7,"model":"m","choices":[choice]}))
}

/// Builds a stream of chunks with these deltas, and the end.
fn stream(deltas: &[Value], reason: &str) -> String {
    let mut stream: String = deltas.iter().map(|delta| chunk(delta.clone(), Value::Null)).collect();
    stream += &chunk(json!({}), json!(reason));
    stream + "data: [DONE]\n\n"
}

/// Returns what a client of a dialect has received at the end of a chat stream, as a chat message.
fn seen(to: Dialect, stream: &str) -> Value {
    let text = Way::new(Chat, to).stream_text(stream);
    Way::new(to, Chat).accumulated(&text)["choices"][0]["message"].take()
}

// === requests ===

#[test]
fn the_request_of_the_example_becomes_responses() {
    let wanted = json!({"model":"m","max_output_tokens":4000,"reasoning":{"effort":"high","summary":"auto"},
        "include":["reasoning.encrypted_content"],"store":false,"user":"u1","tool_choice":"auto","parallel_tool_calls":false,
        "instructions":"Be brief.",
        "tools":[{"type":"function","name":"add","description":"Add","parameters":schema(),"strict":false}],
        "input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"Sum these."},
            {"type":"input_image","image_url":"data:image/png;base64,iVBORw0K","detail":"low"}]},
        {"type":"message","role":"assistant","content":[{"type":"output_text","text":"Adding."}]},
        {"type":"function_call","call_id":"call_1","name":"add","arguments":"{\"a\":2,\"b\":3}"},
        {"type":"function_call_output","call_id":"call_1","output":"5"}]});
    assert_eq!(request(Chat, Responses, Vendor::OpenAi, &example()), Ok(wanted));
}

#[test]
fn the_request_of_the_example_becomes_messages() {
    let mut body = request(Chat, Messages, Vendor::Anthropic, &example()).unwrap();
    without_breakpoints(&mut body);
    let wanted = json!({"model":"m","max_tokens":4000,"thinking":{"type":"adaptive"},"output_config":{"effort":"high"},
        "metadata":{"user_id":"u1"},"tool_choice":{"type":"auto","disable_parallel_tool_use":true},
        "system":[{"type":"text","text":"Be brief."}],
        "tools":[{"name":"add","description":"Add","input_schema":schema()}],
        "messages":[{"role":"user","content":[{"type":"text","text":"Sum these."},
            {"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBORw0K"}}]},
        {"role":"assistant","content":[{"type":"thinking","thinking":"Need add.\n","signature":"SIG1"},
            {"type":"text","text":"Adding."},{"type":"tool_use","id":"call_1","name":"add","input":{"a":2,"b":3}}]},
        {"role":"user","content":[{"type":"tool_result","tool_use_id":"call_1","content":"5"}]}]});
    assert_eq!(body, wanted);
}

#[test]
fn the_request_of_the_example_becomes_gemini() {
    assert_eq!(request(Chat, Gemini, Vendor::Gemini, &example()), Ok(super::gemini_to_others::example()));
}

#[test]
fn what_only_some_can_do_is_refused_by_name_where_it_must() {
    let with = |members: Value| {
        let mut body = json!({"model":"m","messages":[{"role":"user","content":"x"}]});
        body.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        body
    };
    for (members, field) in [
        (json!({"n":2}), "n"),
        (json!({"modalities":["text","audio"],"audio":{"voice":"alloy"}}), "modalities"),
        (
            json!({"messages":[{"role":"user","content":[{"type":"video_url","video_url":{"url":"x"}}]}]}),
            "video_url",
        ),
    ] {
        let body = with(members);
        assert_eq!(
            request(Chat, Messages, Vendor::Anthropic, &body),
            Err(ConversionError::unsupported(field)),
            "{body}"
        );
    }
    let several = with(json!({"n":2}));
    let body = request(Chat, Gemini, Vendor::Gemini, &several).unwrap();
    assert_eq!(body["generationConfig"]["candidateCount"], 2);
    // Members that are only advice are dropped silently.
    let advice = with(
        json!({"seed":1,"logit_bias":{"1":1},"prediction":{},"store":true,"verbosity":"low","service_tier":"flex"}),
    );
    assert!(request(Chat, Messages, Vendor::Anthropic, &advice).is_ok());
}

#[test]
fn a_turn_of_results_is_valid_everywhere() {
    let call = |id: &str| json!({"id":id,"type":"function","function":{"name":"f","arguments":""}});
    let body = json!({"model":"m","messages":[{"role":"user","content":"x"},
        {"role":"assistant","content":null,"tool_calls":[call("a"),call("b")]},
        {"role":"tool","tool_call_id":"a","content":""},
        {"role":"tool","tool_call_id":"b","content":[{"type":"text","text":"1"},{"type":"text","text":"2"}]},
        {"role":"user","content":"and?"}]});
    let mut messages = request(Chat, Messages, Vendor::Anthropic, &body).unwrap();
    without_breakpoints(&mut messages);
    let last = &messages["messages"][2]["content"];
    assert_eq!(last[0], json!({"type":"tool_result","tool_use_id":"a","content":""}));
    assert_eq!((&last[1]["tool_use_id"], &last[2]["text"]), (&json!("b"), &json!("and?")));
    assert_eq!(messages["messages"][1]["content"][0]["input"], json!({}));

    let input = request(Chat, Responses, Vendor::OpenAi, &body).unwrap()["input"].take();
    assert_eq!(input[1]["arguments"], "{}");
    assert_eq!(input[3], json!({"type":"function_call_output","call_id":"a","output":""}));

    let contents = request(Chat, Gemini, Vendor::Gemini, &body).unwrap()["contents"].take();
    let parts = &contents[2]["parts"];
    assert_eq!(parts[0]["functionResponse"], json!({"id":"a","name":"f","response":{"result":""}}));
    assert_eq!(parts[1]["functionResponse"]["response"], json!({"result":"1\n2"}));
    assert_eq!(parts[2], json!({"text":"and?"}));
}

#[test]
fn every_call_has_its_result_behind_it_where_it_must() {
    let call = |id: &str| json!({"id":id,"type":"function","function":{"name":"f","arguments":"{}"}});
    let user = |text: &str| json!({"role":"user","content":text});
    let result = |id: &str| json!({"role":"tool","tool_call_id":id,"content":id});
    let called = |ids: &[&str]| {
        let calls: Vec<_> = ids.iter().map(|id| call(id)).collect();
        json!({"role":"assistant","content":null,"tool_calls":calls})
    };
    let said = json!({"role":"assistant","content":"said"});
    // The turns by their results, with `!` before a made-up one.
    for (messages, wanted) in [
        (json!([called(&["a"]), user("go on")]), &[&[][..], &["!a", "go on"]][..]),
        (json!([called(&["a", "b"]), result("a"), user("go on")]), &[&[], &["!b", "a", "go on"]]),
        (
            json!([called(&["a"]), user("no"), said, result("a")]),
            &[&[], &["!a", "no"], &["said"], &["The earlier call of f has come to its result:\na"]],
        ),
        (json!([called(&["a"]), said, user("go on")]), &[&["said"], &["!a", "go on"]]),
        (json!([called(&["a"]), result("z"), user("go on")]), &[&[], &["!a", "go on"]]),
        (json!([called(&["a"]), result("a"), result("a")]), &[&[], &["a"]]),
        // Otherwise the conversation would end with the assistant, and ask it to continue its own words.
        (
            json!([called(&["a"]), result("a"), said, result("a")]),
            &[&[], &["a"], &["said"], &["A result has come that no call waits for:\na"]],
        ),
        (json!([called(&["a"])]), &[&[]]),
    ] {
        let mut all = vec![user("x")];
        all.extend(messages.as_array().unwrap().iter().cloned());
        let body = json!({"model":"m","messages":all});
        let list = |value: &Value| value.as_array().unwrap().clone();
        let text = |value: &Value| value.as_str().unwrap().to_owned();

        let claude = request(Chat, Messages, Vendor::Anthropic, &body).unwrap();
        let block = |block: &Value| match block["type"].as_str().unwrap() {
            "tool_result" if block["is_error"] == true => Some(format!("!{}", text(&block["tool_use_id"]))),
            "tool_result" => Some(text(&block["tool_use_id"])),
            "text" => Some(text(&block["text"])),
            _ => None,
        };
        let turns = list(&claude["messages"]);
        let turns = turns[1..].iter().map(|turn| list(&turn["content"]).iter().filter_map(block).collect());
        assert_eq!(turns.collect::<Vec<Vec<_>>>(), wanted, "{body}");

        let google = request(Chat, Gemini, Vendor::Gemini, &body).unwrap();
        let part = |part: &Value| match &part["functionResponse"] {
            Value::Null => part["text"].as_str().map(str::to_owned),
            answer if answer["response"]["error"].is_string() => Some(format!("!{}", text(&answer["id"]))),
            answer => Some(text(&answer["id"])),
        };
        let turns = list(&google["contents"]);
        let turns: Vec<Vec<_>> =
            turns[1..].iter().map(|turn| list(&turn["parts"]).iter().filter_map(part).collect()).collect();
        assert_eq!(turns, wanted, "{body}");
    }
}

// === streams ===

#[test]
fn text_is_never_touched() {
    let line = "this very line comes two times";
    let pieces = ["hel", "lo f(", "(x))", line, line, "\u{1} \n", "é😀"];
    let deltas: Vec<_> = pieces.iter().map(|piece| json!({"content":piece})).collect();
    for to in [Chat, Responses, Messages, Gemini] {
        assert_eq!(seen(to, &stream(&deltas, "stop"))["content"], pieces.concat(), "{to:?}");
    }
}

#[test]
fn calls_are_told_apart_everywhere() {
    let piece = |piece: Value| json!({"tool_calls":[piece]});
    let alone: Vec<_> = ["", "{", "\"a\"", ":1", "}"]
        .iter()
        .enumerate()
        .map(|(number, text)| match number {
            0 => piece(json!({"function":{"name":"f","arguments":text}})),
            _ => piece(json!({"function":{"arguments":text}})),
        })
        .collect();
    let mut after_text = vec![json!({"content":"x"})];
    after_text.extend(alone);
    let both = [
        piece(json!({"index":0,"id":"a","function":{"name":"f","arguments":"{\"a\":"}})),
        piece(json!({"index":0,"function":{"arguments":"1}"}})),
        piece(json!({"index":0,"id":"b","function":{"name":"f","arguments":"{\"a\":2}"}})),
    ];
    for to in [Chat, Responses, Messages, Gemini] {
        let arguments = |message: &Value| -> Vec<Value> {
            let calls = message["tool_calls"].as_array().unwrap().iter();
            calls.map(|call| call["function"]["arguments"].clone()).collect()
        };
        let message = seen(to, &stream(&after_text, "stop"));
        assert_eq!(
            (&message["content"], arguments(&message)),
            (&json!("x"), vec![json!("{\"a\":1}")]),
            "{to:?}"
        );
        let message = seen(to, &stream(&both, "tool_calls"));
        assert_eq!(arguments(&message), ["{\"a\":1}", "{\"a\":2}"], "{to:?}");
    }
}

#[test]
fn where_the_network_cuts_makes_no_difference() {
    let text = "<think>é😀\n</think>ok é";
    let bytes = stream(&[json!({"content":text})], "stop");
    let at_once = |size: usize| {
        let mut converter = StreamConverter::new(Chat, Messages, Arc::new(ReplyContext::default()));
        let mut out = String::new();
        bytes.as_bytes().chunks(size).for_each(|chunk| converter.feed(chunk, &mut out));
        assert!(converter.close(&mut out));
        out
    };
    let whole = at_once(usize::MAX);
    (1..9).for_each(|size| assert_eq!(at_once(size), whole));
    for (cut, _) in text.char_indices() {
        let (one, rest) = text.split_at(cut);
        let deltas = [json!({"content":one}), json!({"content":rest})];
        for to in [Chat, Messages, Responses, Gemini] {
            let message = seen(to, &stream(&deltas, "stop"));
            assert_eq!(
                (&message["reasoning_content"], &message["content"]),
                (&json!("é😀\n"), &json!("ok é")),
                "{one}|{rest}"
            );
        }
    }
}

#[test]
fn usage_that_comes_last_reaches_every_client() {
    let usage = json!({"prompt_tokens":120,"completion_tokens":25,"prompt_tokens_details":{"cached_tokens":40},
        "completion_tokens_details":{"reasoning_tokens":9}});
    let mut text = chunk(json!({"content":"x"}), Value::Null) + &chunk(json!({}), json!("stop"));
    text += &format!("data: {}\n\ndata: [DONE]\n\n", json!({"choices":[],"usage":usage}));
    let events = Way::new(Chat, Messages).stream(&text);
    let delta = events.iter().find(|event| event["type"] == "message_delta").unwrap();
    let counts = &delta["usage"];
    assert_eq!(
        (&counts["input_tokens"], &counts["cache_read_input_tokens"], &counts["output_tokens"]),
        (&json!(80), &json!(40), &json!(25))
    );
    let last = Way::new(Chat, Responses).stream(&text).pop().unwrap();
    assert_eq!(last["response"]["usage"]["input_tokens_details"]["cached_tokens"], 40);
    let last = Way::new(Chat, Gemini).stream(&text).pop().unwrap();
    assert_eq!(last["usageMetadata"]["candidatesTokenCount"], 16);
}

#[test]
fn a_chat_client_gets_one_end_and_the_usage_it_asked_for() {
    let answer = json!({"id":"msg_1","type":"message","role":"assistant","model":"m","stop_reason":"end_turn",
        "content":[{"type":"text","text":"x"}],"usage":{"input_tokens":3,"output_tokens":2}});
    let there = Way::new(Messages, Messages).replayed(&answer);
    for usage_chunk in [true, false] {
        let context = Arc::new(ReplyContext { usage_chunk, ..ReplyContext::default() });
        let mut converter = StreamConverter::new(Messages, Chat, context);
        let mut out = String::new();
        converter.feed(there.as_bytes(), &mut out);
        assert!(converter.close(&mut out));
        assert_eq!(out.matches("\"finish_reason\":\"stop\"").count(), 1);
        assert_eq!(out.matches("\"prompt_tokens\":3").count(), usize::from(usage_chunk));
        assert!(out.ends_with("data: [DONE]\n\n") && out.matches("[DONE]").count() == 1);
    }
}

#[test]
fn what_only_instructs_is_asked() {
    let system = |text: &str| json!({"role":"system","content":text});
    let body = json!({"messages":[system("One."), system("Two.")]});
    let out = request(Chat, Messages, Vendor::Anthropic, &body).unwrap();
    assert_eq!(out["system"][0]["text"], "One.");
    assert_eq!(
        (&out["messages"][0]["role"], &out["messages"][0]["content"][0]["text"]),
        (&json!("user"), &json!("Two."))
    );
    let out = request(Chat, Gemini, Vendor::Gemini, &body).unwrap();
    assert_eq!(out["systemInstruction"]["parts"], json!([{"text":"One."}]));
    assert_eq!(out["contents"], json!([{"role":"user","parts":[{"text":"Two."}]}]));
    let out = request(Chat, Responses, Vendor::OpenAi, &body).unwrap();
    assert_eq!((&out["instructions"], &out["input"][0]["content"]), (&json!("One."), &json!("Two.")));
    // The other dialects accept a question without words.
    let blank = json!({"messages":[{"role":"user","content":" "}]});
    assert_eq!(request(Chat, Responses, Vendor::OpenAi, &blank).unwrap()["input"][0]["content"], " ");
    // The operator's instructions do not become the question of a user who says nothing.
    let blank = json!({"messages":[system("One."), {"role":"user","content":" "}]});
    let refused = request(Chat, Messages, Vendor::Anthropic, &blank);
    assert_eq!(refused.unwrap_err(), ConversionError::without_content());
}

#[test]
fn what_is_instructed_later_stays_where_it_is() {
    let said = |role: &str, text: &str| json!({"role":role,"content":text});
    let call = json!({"id":"c","type":"function","function":{"name":"f","arguments":"{}"}});
    let body = json!({"messages":[said("system", "Head."), said("user", "Hi."), said("system", "One."),
        said("assistant", "Ho."), said("developer", "Two."), said("user", "And?"),
        {"role":"assistant","content":null,"tool_calls":[call]}, said("system", "Three."),
        {"role":"tool","tool_call_id":"c","content":"5"}, said("assistant", "Done."), said("system", "Last.")]});
    let out = request(Chat, Responses, Vendor::OpenAi, &body).unwrap();
    assert_eq!(out["instructions"], "Head.");
    let told = |item: &Value| Some(format!("{} {}", item["role"].as_str()?, item["content"].as_str()?));
    let items = out["input"].as_array().unwrap().iter();
    let items: Vec<String> = items.map(|item| told(item).unwrap_or_else(|| "-".to_owned())).collect();
    let wanted = [
        "user Hi.",
        "system One.",
        "-",
        "developer Two.",
        "user And?",
        "-",
        "-",
        "system Three.",
        "-",
        "system Last.",
    ];
    assert_eq!(items, wanted, "{out}");

    let reminder =
        |text: &str| json!({"type":"text","text":format!("<system-reminder>{text}</system-reminder>")});
    let text = |text: &str| json!({"type":"text","text":text});
    let mut out = request(Chat, Messages, Vendor::Anthropic, &body).unwrap();
    without_breakpoints(&mut out);
    assert_eq!(out["system"], json!([text("Head.")]));
    let wanted = json!([
        {"role":"user","content":[text("Hi."), reminder("One.")]},
        {"role":"assistant","content":[text("Ho.")]},
        {"role":"user","content":[reminder("Two."), text("And?")]},
        {"role":"assistant","content":[{"type":"tool_use","id":"c","name":"f","input":{}}]},
        {"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":"5"}, reminder("Three.")]},
        {"role":"assistant","content":[text("Done.")]},
        {"role":"user","content":[reminder("Last.")]}]);
    assert_eq!(out["messages"], wanted);
    let out = request(Chat, Gemini, Vendor::Gemini, &body).unwrap();
    let user = |at: usize| out["contents"][at]["parts"].as_array().unwrap().last().unwrap()["text"].clone();
    assert_eq!(out["systemInstruction"]["parts"], json!([{"text":"Head."}]));
    assert_eq!(user(0), "<system-reminder>One.</system-reminder>");
    assert_eq!(out["contents"][2]["parts"][0]["text"], "<system-reminder>Two.</system-reminder>");
    assert_eq!(user(4), "<system-reminder>Three.</system-reminder>");
    assert_eq!(user(6), "<system-reminder>Last.</system-reminder>");
}

#[test]
fn the_user_begins_at_messages() {
    let said = |role: &str, text: &str| json!({"role":role,"content":text});
    let body = json!({"messages":[said("user", " "), said("assistant", "Hello."), said("user", "Hi.")]});
    let out = request(Chat, Messages, Vendor::Anthropic, &body).unwrap();
    let turns = out["messages"].as_array().unwrap().iter();
    let turns: Vec<_> = turns.map(|turn| (&turn["role"], &turn["content"][0]["text"])).collect();
    let wanted = [json!(["user", "."]), json!(["assistant", "Hello."]), json!(["user", "Hi."])];
    assert_eq!(turns, wanted.iter().map(|turn| (&turn[0], &turn[1])).collect::<Vec<_>>());
}

#[test]
fn only_so_many_stop_sequences_are_searched_for() {
    let stops = |number: usize| {
        let stops: Vec<_> = (0..number).map(|at| format!("STOP{at}")).collect();
        json!({"model":"m","messages":[{"role":"user","content":"x"}],"stop":stops})
    };
    assert!(request(Chat, Responses, Vendor::OpenAi, &stops(16)).is_ok());
    match request(Chat, Responses, Vendor::OpenAi, &stops(17)) {
        Err(ConversionError::Unsupported { field, form }) => {
            assert_eq!((&*field, &*form), ("stop", "with more than 16 sequences"))
        }
        other => panic!("{other:?}"),
    }
    // Messages is sent all of them, and searches for them itself.
    assert!(request(Chat, Messages, Vendor::Anthropic, &stops(17)).is_ok());
}

#[test]
fn claude_goes_on_from_words_without_blanks_at_their_end() {
    let body = json!({"model":"m","messages":[
        {"role":"user","content":"Name one."},{"role":"assistant","content":"Sure: \n"}]});
    let out = request(Chat, Messages, Vendor::Anthropic, &body).unwrap();
    assert_eq!(out["messages"][1]["content"][0]["text"], "Sure:", "{out}");
    let out = request(Chat, Gemini, Vendor::Other, &body).unwrap();
    assert_eq!(out["contents"][1]["parts"][0]["text"], "Sure: \n", "{out}");
    let blank = json!({"model":"m","messages":[
        {"role":"user","content":"Name one."},{"role":"assistant","content":" \n"}]});
    let out = request(Chat, Messages, Vendor::Anthropic, &blank).unwrap();
    assert_eq!(out["messages"].as_array().unwrap().len(), 1, "nothing is left to go on from: {out}");
    let thought = json!({"contents":[
        {"role":"user","parts":[{"text":"Name one."}]},{"role":"model","parts":[{"text":"Sure: \n"}]},
        {"role":"model","parts":[{"text":" "},{"text":"Which?","thought":true}]}]});
    let out = request(Gemini, Messages, Vendor::Anthropic, &thought).unwrap();
    assert_eq!(out["messages"][1]["content"], json!([{"type":"text","text":"Sure:"}]), "{out}");
}

#[test]
fn a_call_that_the_limit_cut_off_is_incomplete_in_a_stream_too() {
    let chunk = |delta: Value, reason: Value| {
        format!("data: {}\n\n", json!({"choices":[{"index":0,"delta":delta,"finish_reason":reason}]}))
    };
    let call = |arguments: &str| {
        let function = json!({"name":"f","arguments":arguments});
        chunk(json!({"tool_calls":[{"index":0,"id":"c","function":function}]}), Value::Null)
    };
    for (arguments, reason, wanted) in [
        ("{\"x\":", "length", "incomplete"),
        ("{\"x\":1}", "length", "completed"),
        ("{\"x\":", "tool_calls", "completed"),
    ] {
        let stream =
            [call(arguments), chunk(json!({}), json!(reason)), "data: [DONE]\n\n".to_owned()].concat();
        let events = Way::new(Chat, Responses).stream(&stream);
        let done = events.iter().find(|event| event["type"] == "response.output_item.done").unwrap();
        let last = &events[events.len() - 1]["response"]["output"][0];
        assert_eq!((&done["item"]["status"], &done["item"]), (&json!(wanted), last), "{arguments} {reason}");
    }
}

#[test]
fn pictures_beside_the_text_of_an_answer_are_told() {
    let image = json!({"type":"image_url","image_url":{"url":"data:image/png;base64,iVBO"}});
    let at_an_address = json!({"type":"image_url","image_url":{"url":"https://a.example/b.png"}});
    let message = json!({"role":"assistant","content":"","images":[image, at_an_address]});
    let answer = json!({"choices":[{"index":0,"message":message,"finish_reason":"stop"}]});
    let chunk = json!({"choices":[{"index":0,"delta":message,"finish_reason":"stop"}]});
    let stream = format!("data: {chunk}\n\ndata: [DONE]\n\n");
    for to in [Responses, Messages, Gemini] {
        let way = Way::new(Chat, to);
        let wanted = match to {
            Gemini => r#"{"inlineData":{"mimeType":"image/png","data":"iVBO"}}"#,
            _ => "![image](data:image/png;base64,iVBO)",
        };
        let all = [way.reply(&answer).to_string(), way.replayed(&answer), way.stream_text(&stream)];
        for told in &all {
            let told = told.replace(
                r#""data":"iVBO","mimeType":"image/png""#,
                r#""mimeType":"image/png","data":"iVBO""#,
            );
            assert!(told.contains(wanted), "{to:?}: {told}");
        }
        assert!(way.stream_text(&stream).contains("![image](https://a.example/b.png)"), "{to:?}");
    }
    let own = Way::new(Chat, Chat).accumulated(&stream);
    assert_eq!(own["choices"][0]["message"]["images"], message["images"], "{own}");
    assert!(!own.to_string().contains("![image]"), "{own}");
}

#[test]
fn a_conversation_that_begins_with_a_call_begins_with_the_user_where_that_is_wanted() {
    let call = json!({"id":"c","type":"function","function":{"name":"f","arguments":"{}"}});
    let result = json!({"role":"tool","tool_call_id":"c","content":"5"});
    let body = json!({"model":"m","messages":[{"role":"assistant","tool_calls":[call]}, result]});
    let said = request(Chat, Gemini, Vendor::Gemini, &body).unwrap()["contents"].take();
    assert_eq!((&said[0]["role"], &said[0]["parts"]), (&json!("user"), &json!([{"text":"."}])));
    assert_eq!(said[1]["parts"][0]["functionCall"]["name"], "f");
    let body =
        json!({"model":"m","messages":[{"role":"assistant","content":"Hi."},{"role":"user","content":"x"}]});
    let said = request(Chat, Gemini, Vendor::Gemini, &body).unwrap()["contents"].take();
    assert_eq!(said[0]["role"], "model");
}
