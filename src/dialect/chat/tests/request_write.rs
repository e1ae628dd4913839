//! Requests, written: what an upstream of this dialect gets for a canonical request of any origin.

use serde_json::{Value, json};

use super::requests::{read, with};
use super::{through, written};
use crate::dialect::canonical::{
    Call, CallKind, ConversionError, Effort, File, Image, Part, Reasoning, Request, Role, Source, Target,
    Thinking, Tool, ToolChoice, ToolResult, Turn, Vendor, WebSearch,
};
use crate::dialect::chat::write_request;
use crate::dialect::literal::Text;
use crate::dialect::signature::Signature;

fn assistant(parts: Vec<Part<'static>>) -> Turn<'static> {
    Turn::new(Role::Assistant, parts)
}

fn said(parts: Vec<Part<'static>>) -> Turn<'static> {
    Turn::new(Role::User, parts)
}

fn call(id: &'static str) -> Part<'static> {
    let (id, name) = (Text::plain(id), Text::plain("add"));
    Part::Call(Call { id, name, kind: CallKind::Function, input: Text::EMPTY, signature: None })
}

fn result(call_id: &'static str, parts: Vec<Part<'static>>, is_error: bool) -> Part<'static> {
    Part::Result(ToolResult {
        call_id: Text::plain(call_id),
        kind: CallKind::Function,
        parts,
        listed: false,
        is_error,
    })
}

fn picture() -> Part<'static> {
    let source = Source::Inline { mime: Text::plain("image/png"), data: Text::plain("iVBO") };
    Part::Image(Image { source, detail: None })
}

fn conversation(turns: Vec<Turn<'static>>) -> Request<'static> {
    Request { turns, ..Request::default() }
}

fn messages(request: &Request<'_>) -> Value {
    written(request, Vendor::Other, false).unwrap()["messages"].clone()
}

#[test]
fn what_cannot_be_said_here_names_its_field() {
    let user = |part| conversation(vec![said(vec![part])]);
    let image = Part::Image(Image { source: Source::Id(Text::plain("file-1")), detail: None });
    let file = |source| Part::File(File { source, name: None });
    let hosted = Tool::Hosted(Text::plain("code_interpreter"));
    for (request, field) in [
        (Request { native: vec!["mcp_servers"], ..Request::default() }, "mcp_servers"),
        (user(Part::Foreign(Text::plain("computer_call"))), "computer_call"),
        (user(result("c", vec![Part::Foreign(Text::plain("x"))], false)), "x"),
        (user(image), "file_id"),
        (user(file(Source::Id(Text::plain("file-1")))), "file_id"),
        (user(file(Source::Url(Text::plain("https://h.example/a.pdf")))), "file_url"),
    ] {
        assert_eq!(written(&request, Vendor::Other, false), Err(ConversionError::unsupported(field)));
    }
    let hosted = Request { tools: vec![hosted], ..Request::default() };
    let refusal = ConversionError::unsupported_form("tools", "of the type code_interpreter");
    assert_eq!(written(&hosted, Vendor::Other, false), Err(refusal));
    let several = Request { n: Some(2), ..Request::default() };
    assert_eq!(written(&several, Vendor::OpenAi, true).unwrap()["n"], 2);
    for (members, field) in [
        (json!({"modalities":["text","audio"],"audio":{"voice":"alloy"}}), "modalities"),
        (json!({"audio":{"voice":"alloy"}}), "audio"),
    ] {
        assert_eq!(through(&with(members), Vendor::OpenAi), Err(ConversionError::unsupported(field)));
    }
    assert!(through(&with(json!({"modalities":["text"],"audio":null})), Vendor::OpenAi).is_ok());
}

#[test]
fn results_follow_their_calls_and_pictures_follow_the_results() {
    let request = conversation(vec![
        assistant(vec![call("a"), call("b")]),
        said(vec![
            Part::Text(Text::plain("look")),
            result("a", vec![Part::Text(Text::plain("1")), picture(), Part::Text(Text::plain("2"))], false),
        ]),
        said(vec![result("b", Vec::new(), true), result("lost", Vec::new(), false)]),
        said(vec![Part::Text(Text::plain("next"))]),
    ]);
    let calls =
        ["a", "b"].map(|id| json!({"id":id,"type":"function","function":{"name":"add","arguments":"{}"}}));
    let url = json!({"type":"image_url","image_url":{"url":"data:image/png;base64,iVBO"}});
    let wanted = json!([
        {"role":"assistant","content":"","tool_calls":calls},
        {"role":"tool","tool_call_id":"a","content":"1\n2"},
        {"role":"tool","tool_call_id":"b","content":"Error: "},
        {"role":"user","content":[url,{"type":"text","text":"look"}]},
        {"role":"user","content":"next"},
    ]);
    assert_eq!(messages(&request), wanted);
}

#[test]
fn an_assistant_has_one_message_up_to_its_results() {
    let text = |text: &'static str| Part::Text(Text::plain(text));
    let thought = |text: &'static str| Part::Thinking(Thinking { text: Text::plain(text), signature: None });
    let request = conversation(vec![
        assistant(vec![thought("x"), text("one")]),
        assistant(vec![thought("t"), text("a"), call("c"), text("b")]),
        assistant(vec![thought("u"), call("d")]),
        said(vec![result("c", vec![text("1")], true), result("d", Vec::new(), false)]),
        assistant(vec![Part::Refusal(Text::plain("no"))]),
        assistant(vec![thought("alone")]),
    ]);
    let calls =
        ["c", "d"].map(|id| json!({"id":id,"type":"function","function":{"name":"add","arguments":"{}"}}));
    let wanted = json!([
        {"role":"assistant","content":"one"},
        {"role":"assistant","content":"ab","reasoning_content":"tu","tool_calls":calls},
        {"role":"tool","tool_call_id":"c","content":"Error: 1"},
        {"role":"tool","tool_call_id":"d","content":""},
        {"role":"assistant","content":"","refusal":"no"},
    ]);
    assert_eq!(messages(&request), wanted);
}

#[test]
fn gemini_gets_a_proof_with_the_first_call() {
    let request = conversation(vec![assistant(vec![call("a"), call("b")])]);
    for (model, vendor, signs) in [
        ("gemini-3-pro", Vendor::Gemini, true),
        ("gemini-4-pro", Vendor::Gemini, true),
        ("gemini-flash-latest", Vendor::Gemini, true),
        ("gemini-2.5-pro", Vendor::Gemini, false),
        ("gemini-3-pro", Vendor::Other, false),
    ] {
        let target = Target { model, stream: false, vendor };
        let body = write_request(&request, &target).unwrap();
        let written: Value = serde_json::from_slice(&body).unwrap();
        let calls = &written["messages"][0]["tool_calls"];
        let proof = json!({"google":{"thought_signature":"skip_thought_signature_validator"}});
        assert_eq!(calls[0].get("extra_content"), signs.then_some(&proof), "{model}");
        assert_eq!(calls[1].get("extra_content"), None);
    }
    let mut signed = call("b");
    if let Part::Call(call) = &mut signed {
        call.signature = Some(Signature::Gemini(Text::plain("P")));
    }
    let request = conversation(vec![assistant(vec![call("a"), signed])]);
    let target = Target { model: "gemini-3-pro", stream: false, vendor: Vendor::Gemini };
    let written: Value = serde_json::from_slice(&write_request(&request, &target).unwrap()).unwrap();
    let proofs = ["skip_thought_signature_validator", "P"];
    for (call, proof) in written["messages"][0]["tool_calls"].as_array().unwrap().iter().zip(proofs) {
        assert_eq!(call["extra_content"]["google"]["thought_signature"], proof);
    }
}

#[test]
fn text_files_are_said_as_text() {
    let plain = |name| Part::File(File { source: Source::Plain(Text::plain("body")), name });
    let request = conversation(vec![said(vec![plain(Some(Text::plain("n.txt"))), plain(None)])]);
    let wanted = json!([{"type":"text","text":"n.txt\nbody"},{"type":"text","text":"body"}]);
    assert_eq!(messages(&request)[0]["content"], wanted);
    let inline = |mime, name: Option<&'static str>| {
        let source = Source::Inline { mime: Text::plain(mime), data: Text::plain("Ym9keQ==") };
        Part::File(File { source, name: name.map(Text::plain) })
    };
    let request = conversation(vec![said(vec![
        inline("application/pdf", None),
        inline("text/markdown", Some("n.md")),
        inline("application/json", None),
    ])]);
    let content = &messages(&request)[0]["content"];
    assert_eq!(content[0]["file"]["filename"], "document.pdf");
    assert_eq!(content[1], json!({"type":"text","text":"n.md\nbody"}));
    assert_eq!(content[2], json!({"type":"text","text":"body"}));
}

#[test]
fn a_choice_of_several_tools_is_told_where_it_is_not_known() {
    let function = |name: &str| json!({"type":"function","function":{"name":name}});
    let words = |names: &str| {
        let words =
            format!("<system-reminder>In this turn call no tools but these: {names}.</system-reminder>");
        json!({"role":"system","content":words})
    };
    for (mode, names, choice, last) in [
        ("required", &["f"][..], function("f"), None),
        ("auto", &["f"], json!("auto"), Some(words("f"))),
        ("required", &["f", "h"], json!("required"), Some(words("f, h"))),
        ("auto", &["f", "g", "h"], json!("auto"), None),
        ("required", &["gone"], json!("none"), None),
    ] {
        let allowed: Vec<_> = names.iter().map(|name| function(name)).collect();
        let allowed = json!({"type":"allowed_tools","allowed_tools":{"mode":mode,"tools":allowed}});
        let tools = json!([function("f"), function("g"), function("h")]);
        let written = through(&with(json!({"tools":tools,"tool_choice":allowed})), Vendor::Other).unwrap();
        // All tools stay: the beginning of a prompt must not change with the choice.
        assert_eq!(written["tools"], tools);
        assert_eq!(written["tool_choice"], choice, "{mode} {names:?}");
        let told = written["messages"].as_array().unwrap().last().filter(|last| last["role"] == "system");
        assert_eq!(told, last.as_ref(), "{mode} {names:?}");
    }
}

#[test]
fn a_choice_names_a_tool_that_is_there() {
    let request = Request {
        tools: vec![
            Tool::WebSearch(WebSearch::default()),
            Tool::Function {
                name: Text::plain("f"),
                description: None,
                parameters: None,
                strict: Some(false),
            },
        ],
        tool_choice: Some(ToolChoice::Named { name: Text::plain("gone"), kind: CallKind::Function }),
        ..Request::default()
    };
    let written = written(&request, Vendor::Other, false).unwrap();
    assert_eq!(written["tools"], json!([{"type":"function","function":{"name":"f"}}]));
    assert_eq!(written.get("tool_choice"), None);
}

#[test]
fn thinking_that_is_off_is_said_where_it_is_understood() {
    let off = Reasoning { off: true, ..Reasoning::default() };
    let high = Reasoning { off: true, effort: Some(Effort::High), ..Reasoning::default() };
    let most = Reasoning { effort: Some(Effort::Max), ..Reasoning::default() };
    for (reasoning, model, wanted) in [
        (off.clone(), "gpt-5.2", json!("none")),
        (off, "gpt-4o", Value::Null),
        (high, "gpt-4o", json!("high")),
        (most, "gpt-5.2", json!("xhigh")),
    ] {
        let request = Request { reasoning, ..Request::default() };
        let target = Target { model, stream: false, vendor: Vendor::OpenAi };
        let body = write_request(&request, &target).unwrap();
        let written: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(written["reasoning_effort"], wanted, "{model}");
    }
}

#[test]
fn a_streamed_answer_reports_its_usage() {
    let written = written(&Request::default(), Vendor::Other, true).unwrap();
    assert_eq!(written["stream"], true);
    assert_eq!(written["stream_options"], json!({"include_usage":true}));
    let body =
        with(json!({"stream":true,"stream_options":{"include_usage":true,"include_obfuscation":false}}));
    read(&body, |request| {
        let written = super::written(&request, Vendor::OpenAi, true).unwrap();
        assert_eq!(written["stream_options"], json!({"include_usage":true,"include_obfuscation":false}));
    });
}

#[test]
fn limits_of_openai_are_kept() {
    let long = "u".repeat(65);
    let stops: Vec<_> = ["1", "2", "3", "4", "5"].map(Text::plain).into();
    let request = Request {
        user: Some(Text::of(&long)),
        stop: stops,
        service_tier: Some(Text::plain("standard_only")),
        ..Request::default()
    };
    let written = written(&request, Vendor::OpenAi, false).unwrap();
    assert_eq!(written["user"].as_str().unwrap().len(), 64);
    assert_eq!(written["stop"], json!(["1", "2", "3", "4"]));
    assert_eq!(written.get("service_tier"), None);
}
