//! Requests, from and to other dialects.

use serde_json::{Value, json};

use super::{TARGET, read_request, through, written};
use crate::dialect::canonical::*;
use crate::dialect::literal::{Json, Text};
use crate::dialect::signature::Signature;
use crate::dialect::tree::Node;
use crate::dialect::writer::Writer;
use crate::subslice::place_in;

fn with<T>(body: &Value, look: impl FnOnce(Request<'_>) -> T) -> T {
    let text = body.to_string();
    let node = Node::parse(&text).unwrap();
    look(read_request(&node).unwrap())
}

/// The turns of an input, as text.
fn turns(input: Value) -> Vec<String> {
    with(&json!({"model":"m","input":input}), |request| {
        request.turns.iter().map(|turn| format!("{:?} {:?}", turn.role, turn.parts)).collect()
    })
}

#[test]
fn what_goes_in_comes_out() {
    for body in [
        json!({"input":[{"type":"message","role":"user","content":"hi"}]}),
        json!({"instructions":"Be brief.","input":[]}),
        json!({"input":[{"type":"message","role":"user","content":[
            {"type":"input_text","text":"See"},
            {"type":"input_image","image_url":"https://x.example/a.png","detail":"high"},
            {"type":"input_image","image_url":"data:image/png;base64,iVBO/w0K"},
            {"type":"input_image","file_id":"file-1"},
            {"type":"input_file","filename":"a.pdf","file_data":"data:application/pdf;base64,JVBE"},
            {"type":"input_file","file_url":"https://x.example/a.pdf"},
            {"type":"input_file","file_id":"file-2"},
            {"type":"input_audio","input_audio":{"data":"UklG","format":"wav"}}]}]}),
        json!({"input":[{"type":"message","role":"assistant","content":[
            {"type":"output_text","text":"a\n"},{"type":"refusal","refusal":"No."}]}]}),
        json!({"input":[
            {"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"A"},{"type":"summary_text","text":"B\n"}],"encrypted_content":"gAAA"},
            {"type":"function_call","call_id":"toolu_1","name":"f","arguments":"{\"a\": 1}"},
            {"type":"custom_tool_call","call_id":"call_2","name":"patch","input":"*** Begin\n"},
            {"type":"function_call_output","call_id":"toolu_1","output":""},
            {"type":"custom_tool_call_output","call_id":"call_2","output":[
                {"type":"input_text","text":"x"},{"type":"input_image","image_url":"data:image/png;base64,aaaa"}]}]}),
        json!({"input":[],"tools":[
            {"type":"function","name":"f","description":"d","parameters":{"type":"object","b":1,"a":2},"strict":true},
            {"type":"custom","name":"patch","description":"d","format":{"type":"grammar","syntax":"lark","definition":"start: x"}},
            {"type":"custom","name":"free"},
            {"type":"web_search","search_context_size":"low","user_location":{"type":"approximate","city":"Bern"}}]}),
        json!({"input":[],"temperature":1.60,"top_p":0.9,"max_output_tokens":4000,"user":"u","safety_identifier":"s",
            "metadata":{"k":"v"},"prompt_cache_key":"p","prompt_cache_retention":"24h","service_tier":"flex",
            "parallel_tool_calls":false,"store":true,
            "text":{"format":{"type":"json_schema","name":"n","description":"d","schema":{"type":"object"},"strict":true},"verbosity":"low"}}),
        json!({"input":[],"text":{"format":{"type":"json_object"}}}),
        json!({"input":[],"reasoning":{"effort":"high","summary":"auto"},"include":["reasoning.encrypted_content"]}),
        json!({"input":[],"reasoning":{"effort":"none"}}),
        json!({"input":[],"top_logprobs":3,"include":["message.output_text.logprobs"]}),
    ] {
        let mut wanted = body;
        wanted["model"] = json!("m");
        if wanted.get("store").is_none() {
            wanted["store"] = json!(false);
        }
        assert_eq!(through(&wanted).unwrap(), wanted);
    }
}

#[test]
fn every_form_of_a_tool_choice_passes() {
    for choice in [
        json!("auto"),
        json!("none"),
        json!("required"),
        json!({"type":"function","name":"f"}),
        json!({"type":"custom","name":"c"}),
        json!({"type":"allowed_tools","mode":"required","tools":[{"type":"function","name":"f"},{"type":"custom","name":"c"}]}),
        json!({"type":"web_search"}),
    ] {
        let tools =
            json!([{"type":"function","name":"f"},{"type":"custom","name":"c"},{"type":"web_search"}]);
        let body = json!({"model":"m","input":[],"tools":tools,"tool_choice":choice});
        assert_eq!(through(&body).unwrap()["tool_choice"], choice);
        let body = json!({"model":"m","input":[],"tool_choice":choice});
        assert_eq!(through(&body).unwrap().get("tool_choice"), None, "a choice of nothing");
    }
}

#[test]
fn old_and_odd_members_are_taken_for_what_they_mean() {
    for (sent, wanted) in [
        (json!({"user":"  u "}), json!({"user":"u"})),
        (json!({"user":" ","service_tier":" flex "}), json!({"service_tier":"flex"})),
        (json!({"top_logprobs":"0"}), json!({"top_logprobs":0})),
        (json!({"verbosity":"low"}), json!({"text":{"verbosity":"low"}})),
        (json!({"max_completion_tokens":20}), json!({"max_output_tokens":20})),
        (json!({"max_output_tokens":1}), json!({"max_output_tokens":16})),
        (json!({"max_output_tokens":99.9}), json!({"max_output_tokens":99})),
        (json!({"max_output_tokens":0}), json!({})),
        (json!({"prompt_cache_retention":" 24h "}), json!({"prompt_cache_retention":"24h"})),
        (json!({"response_format":{"type":"json_object"},"seed":1,"unknown":2}), json!({})),
        (
            json!({"include":"message.output_text.logprobs"}),
            json!({"include":["message.output_text.logprobs"]}),
        ),
        (
            json!({"reasoning_effort":"low","reasoning_summary":"detailed"}),
            json!({"reasoning":{"effort":"low","summary":"detailed"},"include":["reasoning.encrypted_content"]}),
        ),
        (
            json!({"reasoning_budget":2048}),
            json!({"reasoning":{"effort":"medium","summary":"auto"},"include":["reasoning.encrypted_content"]}),
        ),
        (
            json!({"include":["file_search_call.results"],"truncation":"auto","background":true,"max_tool_calls":2,"client_metadata":{},"context_management":[]}),
            json!({}),
        ),
        (
            json!({"text":{"format":{"type":"json_schema","json_schema":{"name":"n","schema":{}}}}}),
            json!({"text":{"format":{"type":"json_schema","name":"n","schema":{}}}}),
        ),
        (
            json!({"tools":[{"type":"function","function":{"name":"f","parameters":{}}},{"type":"function","name":" "}]}),
            json!({"tools":[{"type":"function","name":"f","parameters":{},"strict":false}]}),
        ),
        (
            json!({"tools":[{"type":"web_search_preview_2025_03_11"}]}),
            json!({"tools":[{"type":"web_search"}]}),
        ),
        (json!({"temperature":null,"tools":null,"text":null,"reasoning":null,"stream":false}), json!({})),
    ] {
        let mut body = json!({"model":"x","input":[]});
        body.as_object_mut().unwrap().extend(sent.as_object().unwrap().clone());
        let mut out = json!({"model":"m","input":[],"store":false});
        out.as_object_mut().unwrap().extend(wanted.as_object().unwrap().clone());
        assert_eq!(through(&body).unwrap(), out, "{sent}");
    }
}

#[test]
fn an_input_is_found_wherever_it_is() {
    let wanted = [r#"User [Text("hi")]"#];
    for body in [
        json!({"input":"hi"}),
        json!({"input":["hi"]}),
        json!({"input":[{"role":"user","content":"hi"}]}),
        json!({"input":[{"type":"input_text","text":"hi"}]}),
        json!({"input":[{"role":"user","content":{"type":"input_text","text":"hi"}}]}),
        json!({"prompt":"hi"}),
        json!({"messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}]}),
        json!({"input":"hi","messages":[],"prompt":{"id":"pmpt_1"}}),
    ] {
        let read = with(&body, |request| format!("{:?} {:?}", request.turns[0].role, request.turns[0].parts));
        assert_eq!([read.as_str()], wanted, "{body}");
    }
}

#[test]
fn items_become_turns() {
    let message = |role: &str, text: &str| json!({"role":role,"content":text});
    let call = |id: &str| json!({"type":"function_call","call_id":id,"name":"f","arguments":""});
    let output = |id: &str| json!({"type":"function_call_output","call_id":id,"output":"o"});
    let thought = json!({"type":"reasoning","summary":[{"type":"summary_text","text":"t"}]});
    let kinds = |input: Value| -> Vec<String> {
        with(&json!({"input":input}), |request| {
            let kind = |part: &Part<'_>| match part {
                Part::Text(_) => "text",
                Part::Thinking(_) => "thinking",
                Part::Call(_) => "call",
                Part::Result(_) => "result",
                _ => "other",
            };
            let line = |turn: &Turn<'_>| turn.parts.iter().map(kind).collect::<Vec<_>>().join(" ");
            request.turns.iter().map(|turn| format!("{:?}: {}", turn.role, line(turn))).collect()
        })
    };
    assert_eq!(
        kinds(json!([
            message("user", "u"),
            thought,
            message("assistant", "a"),
            call("1"),
            call("2"),
            output("1"),
            output("2"),
            message("user", "v")
        ])),
        ["User: text", "Assistant: thinking text call call", "User: result result", "User: text"]
    );
    assert_eq!(
        kinds(json!([
            thought,
            message("assistant", "a"),
            thought,
            call("1"),
            thought,
            call("2"),
            message("assistant", "b")
        ])),
        ["Assistant: thinking text", "Assistant: thinking call thinking call text"]
    );
    assert_eq!(kinds(json!([message("assistant", "a"), message("assistant", "b")])).len(), 2);
}

#[test]
fn calls_and_outputs_find_each_other() {
    let call = |more: Value| {
        let mut call = json!({"type":"function_call","name":"f","arguments":"{}"});
        call.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        call
    };
    let output = |id: &str| json!({"type":"function_call_output","call_id":id,"output":{"a":1}});
    assert!(turns(json!([call(json!({"id":"fc_1"})), output("fc_1")]))[1].contains(r#"Text("{\"a\":1}")"#));
    assert!(turns(json!([call(json!({}))]))[0].contains("\"call_0\""));
    assert_eq!(turns(json!([output("lost")])), [""; 0], "no other dialect takes an output without a call");
    assert_eq!(turns(json!([call(json!({"name":" ","call_id":"c"})), output("c")])), [""; 0]);
    let input = call(json!({"call_id":"c","arguments":{"a":1}}));
    assert!(turns(json!([input]))[0].contains(r#"{\"a\":1}"#));
}

#[test]
fn thinking_keeps_its_proof() {
    let tag = "sy1:anthropic:W3sidCI6Ik5lZWQgYWRkLlxuIiwicyI6IlNJRzEifV0";
    let item = |proof: Value| json!([{"type":"reasoning","id":"rs_9","summary":[{"type":"summary_text","text":"S"}],"encrypted_content":proof}]);
    for (proof, text, signature) in [
        (json!(tag), "Need add.\\n", Some(Signature::Anthropic(Text::of("SIG1")))),
        (json!("metapi:anthropic-signature:SIG"), "S", Some(Signature::Anthropic(Text::of("SIG")))),
        (json!("sy1:anthropic:damaged!"), "S", None),
        (json!(null), "S", None),
        (
            json!("gAAA"),
            "S",
            Some(Signature::OpenAi {
                id: Some(Text::of("rs_9")),
                encrypted: Text::of("gAAA"),
                summary: vec![Text::of("S")],
            }),
        ),
    ] {
        let body = json!({"input": item(proof)});
        with(&body, |request| {
            let Part::Thinking(thinking) = &request.turns[0].parts[0] else { panic!("thinking") };
            assert_eq!((thinking.text.literal(), &thinking.signature), (text, &signature), "{body}");
        });
    }
    let own = json!({"input":[{"type":"reasoning","id":"rs_sy0","summary":[],"content":[{"type":"reasoning_text","text":"raw"}],"encrypted_content":"gAAA"}]});
    with(&own, |request| {
        let Part::Thinking(thinking) = &request.turns[0].parts[0] else { panic!("thinking") };
        assert_eq!(thinking.text.literal(), "raw");
        assert!(matches!(&thinking.signature, Some(Signature::OpenAi { id: None, .. })));
    });
    let out = through(&json!({"input": [
        {"type":"reasoning","summary":[{"type":"summary_text","text":"unproved"}]},
        {"type":"reasoning","summary":[],"encrypted_content":tag}]}));
    assert_eq!(out, Err(ConversionError::without_content()), "only what openai proved goes to openai");
}

#[test]
fn what_only_this_dialect_has_is_refused_by_name() {
    for (body, field) in [
        (json!({"input":[{"type":"item_reference","id":"x"}]}), "item_reference"),
        (json!({"input":[{"type":"computer_call","id":"x"}]}), "computer_call"),
        (json!({"input":[{"type":"local_shell_call_output","id":"x"}]}), "local_shell_call_output"),
        (json!({"input":[{"type":"mcp_call","id":"x"}]}), "mcp_call"),
        (json!({"input":[{"type":"compaction","id":"x"}]}), "compaction"),
        (json!({"input":[{"role":"user","content":[{"type":"odd"}]}]}), "odd"),
        (json!({"input":[],"previous_response_id":"resp_1"}), "previous_response_id"),
        (json!({"prompt":{"id":"pmpt_1"}}), "prompt"),
        (json!({"input":"hi","prompt":{"id":"pmpt_1"}}), "prompt"),
    ] {
        assert_eq!(through(&body), Err(ConversionError::unsupported(field)), "{body}");
    }
    let hosted = through(&json!({"input":[],"tools":[{"type":"code_interpreter"}]}));
    assert_eq!(hosted, Err(ConversionError::unsupported_form("tools", "of the type code_interpreter")));
    assert_eq!(turns(json!([{"type":"web_search_call","id":"ws_1","status":"completed"}])), [""; 0]);
}

#[test]
fn mistakes_are_named_with_their_path() {
    for (body, field) in [
        (json!({}), "input"),
        (json!({"input":1}), "input"),
        (json!({"input":[1]}), "input[0]"),
        (json!({"input":[{"a":1}]}), "input[0].type"),
        (json!({"input":[{"role":"critic","content":"x"}]}), "input[0].role"),
        (json!({"input":["a",{"role":"user","content":1}]}), "input[1].content"),
        (json!({"input":[{"role":"user","content":[{"type":"input_text"}]}]}), "input[0].content[0].text"),
        (json!({"input":[{"role":"user","content":[{"type":"input_image"}]}]}), "input[0].content[0]"),
        (json!({"input":[{"role":"user","content":[{"type":"input_file"}]}]}), "input[0].content[0]"),
        (json!({"input":[],"temperature":"warm"}), "temperature"),
        (json!({"input":[],"tools":{}}), "tools"),
        (json!({"input":[],"tools":[1]}), "tools[0]"),
        (json!({"input":[],"instructions":1}), "instructions"),
        (json!({"input":[],"text":{"format":{"type":"xml"}}}), "text.format.type"),
    ] {
        match through(&body) {
            Err(ConversionError::Invalid { field: named, message }) => {
                assert_eq!(named, field, "{body}");
                assert!(message.starts_with(field), "{message}");
            }
            other => panic!("{body}: {other:?}"),
        }
    }
}

#[test]
fn files_of_the_other_dialects_are_written_as_this_one_has_them() {
    let file = |source, name: Option<&'static str>| Part::File(File { source, name: name.map(Text::plain) });
    let plain = || Source::Plain(Text::of("body"));
    let pdf = Source::Inline { mime: Text::of("application/pdf"), data: Text::of("JVBE") };
    for (part, wanted) in [
        (file(plain(), None), json!({"type":"input_text","text":"body"})),
        (file(plain(), Some("a.txt")), json!({"type":"input_text","text":"a.txt\nbody"})),
        (
            file(pdf, None),
            json!({"type":"input_file","filename":"document.pdf","file_data":"data:application/pdf;base64,JVBE"}),
        ),
    ] {
        let parts = vec![part, Part::Text(Text::EMPTY)];
        let request = Request { turns: vec![Turn::new(Role::User, parts)], ..Request::default() };
        assert_eq!(written(&request).unwrap()["input"][0]["content"][0], wanted);
    }
    let bare = json!({"input":[{"role":"user","content":[{"type":"input_file","filename":"a.md","file_data":"aGk="}, "x"]}]});
    let data = &through(&bare).unwrap()["input"][0]["content"][0]["file_data"];
    assert_eq!(data, "data:text/markdown;base64,aGk=");
}

#[test]
fn a_failed_tool_says_so() {
    let result = |parts: Vec<Part<'static>>| {
        let result = Part::Result(ToolResult {
            call_id: Text::of("c"),
            kind: CallKind::Function,
            parts,
            listed: false,
            is_error: true,
        });
        let request = Request { turns: vec![Turn::new(Role::User, vec![result])], ..Request::default() };
        written(&request).unwrap()["input"][0]["output"].clone()
    };
    let image = || Part::Image(Image { source: Source::Url(Text::of("u")), detail: None });
    let text = |text: &str| Part::Text(Text::of(text));
    assert_eq!(result(vec![text("a"), text("b")]), "Error: a\nb");
    assert_eq!(result(vec![]), "Error: ");
    assert_eq!(result(vec![text("a"), image()])[0]["text"], "Error: a");
    assert_eq!(result(vec![image()])[0]["text"], "Error:");
}

#[test]
fn members_of_chat_are_copied_or_refused() {
    let openai = vec![
        ("include", Json::of(&json!(["x"]))),
        ("truncation", Json::of(&json!("auto"))),
        ("include_obfuscation", Json::of(&json!(false))),
    ];
    let request = Request { openai, logprobs: true, seed: Some(Json::of(&json!(1))), ..Request::default() };
    let out = written(&request).unwrap();
    assert_eq!(out["include"], json!(["x", "message.output_text.logprobs"]));
    assert_eq!(
        (&out["truncation"], out.get("seed"), out.get("stream_options")),
        (&json!("auto"), None, None)
    );
    let stream = Target { stream: true, ..TARGET };
    let out: Value = serde_json::from_slice(&super::write_request(&request, &stream).unwrap()).unwrap();
    assert_eq!(
        (&out["stream"], &out["stream_options"]),
        (&json!(true), &json!({"include_obfuscation":false}))
    );

    let text = json!({"input":[],"stream_options":{"include_obfuscation":"true"}}).to_string();
    let node = Node::parse(&text).unwrap();
    let out = super::write_request(&read_request(&node).unwrap(), &stream).unwrap();
    let out: Value = serde_json::from_slice(&out).unwrap();
    assert_eq!(out["stream_options"], json!({"include_obfuscation":true}));

    let several = Request { n: Some(2), ..Request::default() };
    assert_eq!(written(&several), Err(ConversionError::unsupported("n")));
    let spoken = Request { native: vec!["modalities"], ..Request::default() };
    assert_eq!(written(&spoken), Err(ConversionError::unsupported("modalities")));
    let user = Request { user: Some(Text::of(&"u".repeat(65))), ..Request::default() };
    assert_eq!(written(&user).unwrap()["safety_identifier"].as_str().unwrap().len(), 64);
}

#[test]
fn a_megabyte_is_converted_without_decoding_it() {
    let mut body = Writer::new();
    body.object(|o| {
        o.array("input", |a| {
            a.object(|o| {
                o.field("role", "user");
                o.array("content", |a| {
                    a.object(|o| {
                        o.field("type", "input_image");
                        o.joined("image_url", &["data:image/png;base64,", &"iVBO".repeat(250_000)]);
                    });
                });
            });
        });
    });
    let node = Node::parse(body.as_str()).unwrap();
    let request = read_request(&node).unwrap();
    let Part::Image(Image { source: Source::Inline { data, .. }, .. }) = &request.turns[0].parts[0] else {
        panic!("an image")
    };
    assert!(place_in(data.literal(), body.as_str()).is_some(), "the picture is a slice of the body");
}
