//! Requests.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{read, through, written};
use crate::dialect::any_json::any_json;
use crate::dialect::canonical::{
    Call, CallKind, ConversionError, Effort, File, Format, Part, Reasoning, Request, Role, Source, Thinking,
    Tool, ToolChoice, ToolResult, Turn, WebSearch,
};
use crate::dialect::literal::{Json, Text};
use crate::dialect::signature::Signature;

/// The example's request.
fn printed() -> Value {
    let parameters = json!({"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"integer"}}});
    json!({"systemInstruction":{"parts":[{"text":"Be brief."}]},
        "generationConfig":{"maxOutputTokens":4000,"thinkingConfig":{"includeThoughts":true,"thinkingBudget":32768}},
        "tools":[{"functionDeclarations":[{"name":"add","description":"Add","parametersJsonSchema":parameters}]}],
        "toolConfig":{"functionCallingConfig":{"mode":"AUTO"}},
        "contents":[
            {"role":"user","parts":[{"text":"Sum these."},{"inlineData":{"mimeType":"image/png","data":"iVBORw0K"}}]},
            {"role":"model","parts":[{"text":"Adding."},{"functionCall":{"id":"call_1","name":"add","args":{"a":2,"b":3}},
                "thoughtSignature":"skip_thought_signature_validator"}]},
            {"role":"user","parts":[{"functionResponse":{"id":"call_1","name":"add","response":{"result":"5"}}}]}]})
}

fn user(parts: Value) -> Value {
    json!({"contents":[{"role":"user","parts":parts}]})
}

fn with(config: Value) -> Value {
    let mut body = user(json!([{"text":"hi"}]));
    body["generationConfig"] = config;
    body
}

fn call(id: &'static str, signature: Option<Signature<'static>>, input: &'static str) -> Part<'static> {
    let (id, name) = (Text::plain(id), Text::plain("add"));
    Part::Call(Call { id, name, kind: CallKind::Function, input: Text::of(input), signature })
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

fn text(text: &'static str) -> Part<'static> {
    Part::Text(Text::plain(text))
}

fn conversation(turns: Vec<(Role, Vec<Part<'static>>)>) -> Request<'static> {
    let turns = turns.into_iter().map(|(role, parts)| Turn::new(role, parts)).collect();
    Request { turns, ..Request::default() }
}

#[test]
fn numbers_may_be_strings() {
    let thinking = |budget: Value| json!({"thinkingBudget":budget});
    let numbers = with(json!({"maxOutputTokens":500,"topK":40,"temperature":0.5,"seed":3,"candidateCount":2,
        "thinkingConfig":thinking(json!(2000))}));
    let strings =
        with(json!({"maxOutputTokens":"500","topK":"40","temperature":"0.5","seed":"3","candidateCount":"2",
        "thinkingConfig":thinking(json!("2000"))}));
    let shown = |body: &Value| read(body, |request| format!("{request:?}"));
    assert_eq!(shown(&strings), shown(&numbers));
}

#[test]
fn the_printed_request_goes_through_unchanged() {
    assert_eq!(through(&printed(), "m"), Ok(printed()));
}

#[test]
fn what_the_form_can_carry_goes_through_unchanged() {
    for config in [
        json!({"temperature":1.6,"topP":0.5,"topK":40,"seed":7,"presencePenalty":1,"frequencyPenalty":-1,
            "candidateCount":2,"stopSequences":["a","b"]}),
        json!({"responseMimeType":"application/json"}),
        json!({"responseMimeType":"application/json","responseJsonSchema":{"type":"object"}}),
        json!({"thinkingConfig":{"thinkingBudget":0}}),
    ] {
        let body = with(config);
        assert_eq!(through(&body, "gemini-2.5-flash"), Ok(body));
    }
    let level = with(json!({"thinkingConfig":{"includeThoughts":true,"thinkingLevel":"low"}}));
    assert_eq!(through(&level, "gemini-3-pro-preview"), Ok(level));
    for parts in [
        json!([{"text":"a"},{"text":"b "}]),
        json!([{"inlineData":{"mimeType":"audio/wav","data":"UklG"}}]),
        json!([{"inlineData":{"mimeType":"application/pdf","data":"JVBE"}}]),
        json!([{"fileData":{"fileUri":"https://h.example/a.png","mimeType":"image/png"}}]),
    ] {
        let body = user(parts);
        assert_eq!(through(&body, "m"), Ok(body));
    }
    for mode in [
        json!({"mode":"NONE"}),
        json!({"mode":"ANY"}),
        json!({"mode":"ANY","allowedFunctionNames":["f"]}),
        json!({"mode":"ANY","allowedFunctionNames":["f","g"]}),
        json!({"mode":"VALIDATED","allowedFunctionNames":["f","g"]}),
    ] {
        let mut body = user(json!([{"text":"hi"}]));
        body["tools"] = json!([{"functionDeclarations":[{"name":"f"},{"name":"g"}]}]);
        body["toolConfig"] = json!({"functionCallingConfig":mode});
        assert_eq!(through(&body, "m"), Ok(body));
    }
}

#[test]
fn proofs_come_back_to_who_gave_them() {
    let body = json!({"contents":[{"role":"model","parts":[
        {"text":"t","thought":true,"thoughtSignature":"Cq=="},
        {"functionCall":{"id":"c","name":"f","args":{}},"thoughtSignature":"Dq=="},
        {"functionCall":{"id":"d","name":"f","args":{}}}]}]});
    assert_eq!(through(&body, "gemini-3-pro-preview"), Ok(body));
    let foreign =
        Thinking { text: Text::plain("t"), signature: Some(Signature::Anthropic(Text::plain("S"))) };
    let unsigned = Thinking { text: Text::plain("t"), signature: None };
    let parts =
        vec![Part::Thinking(foreign), Part::Thinking(unsigned), call("c", None, "{}"), call("d", None, "{}")];
    let request = conversation(vec![(Role::Assistant, parts)]);
    for (model, placeholder) in
        [("gemini-3-pro-preview", true), ("gemini-flash-latest", true), ("gemini-2.5-flash", false)]
    {
        let parts = written(&request, model).unwrap()["contents"][0]["parts"].clone();
        let proof = placeholder.then(|| json!("skip_thought_signature_validator"));
        assert_eq!(parts[0].get("thoughtSignature"), proof.as_ref(), "{model}");
        assert_eq!(parts[1].get("thoughtSignature"), None, "only the first call of a turn");
        assert_eq!(parts.as_array().unwrap().len(), 2, "foreign thinking is dropped");
    }
    let signed = call("d", Some(Signature::Gemini(Text::plain("Dq=="))), "{}");
    let request = conversation(vec![(Role::Assistant, vec![call("c", None, "{}"), signed])]);
    let parts = written(&request, "gemini-3-pro-preview").unwrap()["contents"][0]["parts"].clone();
    assert_eq!(parts[0]["thoughtSignature"], "skip_thought_signature_validator");
    assert_eq!(parts[1]["thoughtSignature"], "Dq==");
}

#[test]
fn calls_without_ids_find_their_results() {
    let call = || json!({"functionCall":{"name":"f","args":{"a": 1}}});
    let answer = |text: &str| json!({"functionResponse":{"name":"f","response":{"result":text}}});
    let body = json!({"contents":[
        {"role":"model","parts":[{"text":"x"}, call(), call()]},
        {"role":"user","parts":[answer("1"), answer("2")]},
        {"role":"model","parts":[call()]},
        {"role":"function","parts":[answer("3"), answer("lost")]}]});
    read(&body, |request| {
        let ids = |turn: usize| -> Vec<String> {
            let id = |part: &Part<'_>| match part {
                Part::Call(call) => Some(call.id.decode().into_owned()),
                Part::Result(result) => Some(result.call_id.decode().into_owned()),
                _ => None,
            };
            request.turns[turn].parts.iter().filter_map(id).collect()
        };
        assert_eq!(ids(0), ["call_g0_1", "call_g0_2"]);
        assert_eq!(ids(1), ids(0));
        assert_eq!(
            (ids(2), ids(3)),
            (vec!["call_g2_0".to_owned()], vec!["call_g2_0".to_owned(), "f".to_owned()])
        );
    });
}

#[test]
fn a_result_is_the_text_within() {
    for (response, wanted, is_error) in [
        (json!({"result":"5"}), "5", false),
        (json!({"output":"5"}), "5", false),
        (json!({"error":"no"}), "no", true),
        (json!({"result":{"a": 1}}), "{\"a\":1}", false),
        (json!({"a":1,"result":2}), "{\"a\":1,\"result\":2}", false),
        (json!({"weather":"fine"}), "{\"weather\":\"fine\"}", false),
        (json!({"name":"f","content":"fine"}), "fine", false),
        (json!({"name":"g","content":"fine"}), "{\"content\":\"fine\",\"name\":\"g\"}", false),
    ] {
        let body = user(json!([{"functionResponse":{"id":"c","name":"f","response":response}}]));
        read(&body, |request| {
            let Part::Result(result) = &request.turns[0].parts[0] else { panic!("a result") };
            assert_eq!(result.parts, [Part::Text(Text::of(wanted))], "{response}");
            assert_eq!(result.is_error, is_error);
        });
    }
    let body = user(json!([{"functionResponse":{"id":"c","name":"f","response":{"result":""}}}]));
    read(&body, |request| {
        let Part::Result(result) = &request.turns[0].parts[0] else { panic!("a result") };
        assert!(result.parts.is_empty());
    });
}

#[test]
fn both_spellings_are_read() {
    let body = json!({"system_instruction":{"parts":{"text":"s"}},
        "contents":{"parts":{"inline_data":{"mime_type":"image/png","data":"iVBO"}}},
        "generation_config":{"max_output_tokens":5,"top_k":3,"stop_sequences":"END","response_mime_type":"application/json",
            "response_schema":{"type":"OBJECT","properties":{"type":{"type":"ARRAY","items":{"type":"STRING"}}}},
            "thinking_config":{"thinking_level":"HIGH","thinking_budget":-1}},
        "tools":[{"function_declarations":[{"name":"f","parameters":{"type":"OBJECT","example":{"type":"shirt"}}}]},{"google_search":{}}],
        "tool_config":{"function_calling_config":{"mode":"any","allowed_function_names":["f"]}},
        "safetySettings":[{"category":"HARM_CATEGORY_HARASSMENT","threshold":"BLOCK_NONE"}]});
    read(&body, |request| {
        assert_eq!(request.system, [Text::plain("s")]);
        assert!(matches!(request.turns[0].parts[..], [Part::Image(_)]));
        assert_eq!((request.max_output, request.stop), (Some(5), vec![Text::plain("END")]));
        let schema = r#"{"type":"object","properties":{"type":{"type":"array","items":{"type":"string"}}}}"#;
        let Some(Format::JsonSchema { schema: Some(read), .. }) = &request.format else { panic!("a schema") };
        let same = |json: &Json<'_>| serde_json::from_str::<Value>(json.as_str()).unwrap();
        assert_eq!(same(read), serde_json::from_str::<Value>(schema).unwrap());
        assert_eq!((request.reasoning.effort, request.reasoning.budget), (Some(Effort::High), None));
        let [Tool::Function { parameters: Some(parameters), .. }, Tool::WebSearch(_)] = &request.tools[..]
        else {
            panic!("two tools")
        };
        assert_eq!(same(parameters), json!({"type":"object","example":{"type":"shirt"}}));
        let named = ToolChoice::Named { name: Text::plain("f"), kind: CallKind::Function };
        assert_eq!(request.tool_choice, Some(named));
        assert!(request.native.is_empty());
    });
}

#[test]
fn a_form_of_text_is_read_where_newer_clients_write_it() {
    let schema = json!({"type":"object"});
    let wanted = with(json!({"responseMimeType":"application/json","responseJsonSchema":schema}));
    for format in [
        json!({"text":{"mimeType":"APPLICATION_JSON","schema":schema}}),
        json!([{"text":{"mimeType":"application/json","schema":schema}}]),
    ] {
        assert_eq!(through(&with(json!({"responseFormat":format})), "m"), Ok(wanted.clone()));
    }
    let without_schema = with(json!({"response_format":[{"text":{"mime_type":"APPLICATION_JSON"}}]}));
    let wanted = with(json!({"responseMimeType":"application/json"}));
    assert_eq!(through(&without_schema, "m"), Ok(wanted));
}

#[test]
fn what_only_google_has_is_had_nowhere_else() {
    for (body, field) in [
        (json!({"cachedContent":"cachedContents/1"}), "cachedContent"),
        (json!({"generationConfig":{"responseModalities":["TEXT","IMAGE"]}}), "responseModalities"),
        (json!({"generationConfig":{"speechConfig":{}}}), "speechConfig"),
        (json!({"generationConfig":{"responseFormat":[{"text":{}},{"image":{}}]}}), "responseFormat"),
        (json!({"contents":[{"parts":[{"executableCode":{"code":"1"}}]}]}), "executableCode"),
        (
            json!({"contents":[{"parts":[{"fileData":{"fileUri":"https://generativelanguage.googleapis.com/v1beta/files/1"}}]}]}),
            "fileData",
        ),
        (json!({"contents":[{"parts":[{"fileData":{"fileUri":"gs://bucket/x"}}]}]}), "fileData"),
        (
            json!({"contents":[{"parts":[{"fileData":{"fileUri":"https://www.youtube.com/watch?v=x"}}]}]}),
            "fileData",
        ),
        (json!({"contents":[{"parts":[{"fileData":{"fileUri":"https://youtu.be/x"}}]}]}), "fileData"),
    ] {
        let mut whole = user(json!([{"text":"hi"}]));
        whole.as_object_mut().unwrap().extend(body.as_object().unwrap().clone());
        assert_eq!(through(&whole, "m"), Err(ConversionError::unsupported(field)), "{body}");
    }
    let mut run = user(json!([{"text":"hi"}]));
    run["tools"] = json!([{"codeExecution":{}}]);
    let refused = ConversionError::unsupported_form("tools", "of the type codeExecution");
    assert_eq!(through(&run, "m"), Err(refused));
    let text =
        with(json!({"responseModalities":["Text"],"responseFormat":{"text":{"mimeType":"text/plain"}}}));
    assert!(through(&text, "m").is_ok());
}

#[test]
fn what_no_dialect_understands_is_the_clients_mistake() {
    for (body, field) in [
        (json!({}), "contents"),
        (json!({"contents":[]}), "contents"),
        (json!({"contents":"hi"}), "contents"),
        (json!([]), "contents"),
        (json!({"contents":[{"role":"king","parts":[]}]}), "contents[0].role"),
        (json!({"contents":[{"role":"user"}]}), "contents[0].parts"),
        (json!({"contents":["hi"]}), "contents[0].parts"),
    ] {
        let Err(ConversionError::Invalid { field: named, .. }) = through(&body, "m") else {
            panic!("{body}")
        };
        assert_eq!(named, field, "{body}");
    }
}

#[test]
fn results_open_the_turn_that_follows_their_calls() {
    let image = || {
        let source = Source::Inline { mime: Text::plain("image/png"), data: Text::plain("iVBO") };
        Part::Image(crate::dialect::canonical::Image { source, detail: Some(Text::plain("low")) })
    };
    let request = conversation(vec![
        (Role::Assistant, vec![call("a", None, ""), call("b", None, "not json")]),
        (Role::Assistant, vec![Part::Refusal(Text::plain("no")), text("")]),
        (Role::User, vec![text("look"), result("a", vec![text("1"), image(), text("2")], false)]),
        (Role::User, vec![result("b", vec![], true), result("lost", vec![], false)]),
    ]);
    let wanted = json!([
        {"role":"model","parts":[{"functionCall":{"id":"a","name":"add","args":{}}},
            {"functionCall":{"id":"b","name":"add","args":{"_raw":"not json"}}},{"text":"no"}]},
        {"role":"user","parts":[
            {"functionResponse":{"id":"a","name":"add","response":{"result":"1\n2"}}},
            {"functionResponse":{"id":"b","name":"add","response":{"error":""}}},
            {"inlineData":{"mimeType":"image/png","data":"iVBO"}},
            {"text":"look"}]},
    ]);
    assert_eq!(written(&request, "gemini-2.5-pro").unwrap()["contents"], wanted);
}

#[test]
fn turns_of_one_speaker_are_one_content_whatever_stood_between() {
    let request = conversation(vec![
        (Role::User, vec![text("a")]),
        (Role::Assistant, vec![text("b")]),
        (Role::User, vec![text("")]),
        (Role::Assistant, vec![text("c"), call("call_1", None, "{}")]),
        (Role::User, vec![text("")]),
    ]);
    let wanted = json!([
        {"role":"user","parts":[{"text":"a"}]},
        {"role":"model","parts":[{"text":"b"},{"text":"c"},
            {"functionCall":{"id":"call_1","name":"add","args":{}}}]},
    ]);
    assert_eq!(written(&request, "gemini-2.5-flash").unwrap()["contents"], wanted);
}

#[test]
fn files_are_said_as_they_can_be() {
    let file = |source, name| Part::File(File { source, name });
    let url = |address| Source::Url(Text::plain(address));
    let parts = vec![
        file(Source::Plain(Text::plain("body")), Some(Text::plain("n.txt"))),
        file(url("https://h.example/a.PDF?x=1"), None),
        file(url("https://h.example/a"), None),
        Part::Image(crate::dialect::canonical::Image { source: url("https://h.example/b"), detail: None }),
        Part::Audio { data: Text::plain("SUQz"), format: Text::plain("mp3") },
    ];
    let wanted = json!([{"text":"n.txt\nbody"},
        {"fileData":{"fileUri":"https://h.example/a.PDF?x=1","mimeType":"application/pdf"}},
        {"fileData":{"fileUri":"https://h.example/a","mimeType":"application/pdf"}},
        {"fileData":{"fileUri":"https://h.example/b","mimeType":"image/jpeg"}},
        {"inlineData":{"mimeType":"audio/mp3","data":"SUQz"}}]);
    let request = conversation(vec![(Role::User, parts)]);
    assert_eq!(written(&request, "m").unwrap()["contents"][0]["parts"], wanted);
    let id = conversation(vec![(Role::User, vec![file(Source::Id(Text::plain("file-1")), None)])]);
    assert_eq!(written(&id, "m"), Err(ConversionError::unsupported("file_id")));
}

fn question() -> Request<'static> {
    conversation(vec![(Role::User, vec![Part::Text(Text::plain("?"))])])
}

#[test]
fn models_are_asked_to_think_as_they_can() {
    let high = Reasoning { effort: Some(Effort::High), ..Reasoning::default() };
    let off = Reasoning { off: true, ..Reasoning::default() };
    for (reasoning, model, wanted) in [
        (&high, "gemini-2.5-flash", json!({"includeThoughts":true,"thinkingBudget":24576})),
        (&high, "gemini-3-pro-preview", json!({"includeThoughts":true,"thinkingLevel":"high"})),
        (&off, "gemini-2.5-flash", json!({"thinkingBudget":0})),
        (&off, "gemini-3-pro-preview", json!({"thinkingLevel":"low"})),
        (&high, "gemini-2.0-flash", Value::Null),
        (&high, "gemma-3-27b-it", Value::Null),
        (&Reasoning::default(), "gemini-2.5-flash", Value::Null),
    ] {
        let request = Request { reasoning: reasoning.clone(), ..question() };
        let written = written(&request, model).unwrap();
        assert_eq!(written["generationConfig"]["thinkingConfig"], wanted, "{model}");
    }
}

#[test]
fn a_search_is_asked_for_where_it_goes_together() {
    let search = || Tool::WebSearch(WebSearch::default());
    let function =
        || Tool::Function { name: Text::plain("f"), description: None, parameters: None, strict: None };
    let functions = json!({"functionDeclarations":[{"name":"f"}]});
    for (tools, model, wanted) in [
        (vec![search()], "gemini-2.5-flash", json!([{"googleSearch":{}}])),
        (vec![search(), function()], "gemini-2.5-flash", json!([functions])),
        (vec![search(), function()], "gemini-3-flash", json!([functions, {"googleSearch":{}}])),
        (vec![search(), function()], "gemini-4-pro", json!([functions, {"googleSearch":{}}])),
        (vec![search(), function()], "the-hubs-own", json!([functions, {"googleSearch":{}}])),
    ] {
        let request = Request { tools, tool_choice: Some(ToolChoice::Auto), ..question() };
        assert_eq!(written(&request, model).unwrap()["tools"], wanted);
    }
    // A model that searches beside functions must be told to.
    let beside = "includeServerSideToolInvocations";
    for (model, choice, wanted) in [
        ("gemini-3-flash", None, json!({beside:true})),
        ("gemini-3-flash", Some(ToolChoice::Auto), json!({beside:true})),
        (
            "gemini-3-flash",
            Some(ToolChoice::Required),
            json!({"functionCallingConfig":{"mode":"ANY"},beside:true}),
        ),
        ("gemini-2.5-flash", None, Value::Null),
        ("gemini-2.5-flash", Some(ToolChoice::Auto), json!({"functionCallingConfig":{"mode":"AUTO"}})),
    ] {
        let request = Request { tools: vec![search(), function()], tool_choice: choice, ..question() };
        assert_eq!(written(&request, model).unwrap()["toolConfig"], wanted, "{model}");
    }
    // A search that is left out cannot be chosen by its name.
    let named = |name| ToolChoice::Named { name: Text::plain(name), kind: CallKind::Function };
    let of_f = json!({"functionCallingConfig":{"mode":"ANY","allowedFunctionNames":["f"]}});
    for (name, wanted) in [("web_search", None), ("f", Some(&of_f))] {
        let tools = vec![search(), function()];
        let request = Request { tools, tool_choice: Some(named(name)), ..question() };
        assert_eq!(written(&request, "gemini-2.5-flash").unwrap().get("toolConfig"), wanted, "{name}");
    }
}

/// The words of this dialect.
const WORDS: &[&str] = &[
    "contents",
    "parts",
    "text",
    "functionCall",
    "functionResponse",
    "name",
    "args",
    "response",
    "inlineData",
    "mimeType",
    "data",
    "role",
    "user",
    "model",
    "thought",
    "result",
    "tools",
    "functionDeclarations",
    "parameters",
    "type",
    "OBJECT",
    "generationConfig",
    "thinkingConfig",
    "",
    "id",
];

proptest! {
    #[test]
    fn any_content_gives_a_request_or_an_error(part in any_json(WORDS), members in any_json(WORDS)) {
        let mut body = json!({"contents":[{"role":"model","parts":[part]},{"parts":part}]});
        if let Value::Object(members) = members {
            body.as_object_mut().unwrap().extend(members);
        }
        let _ = through(&body, "gemini-3-flash");
    }
}
