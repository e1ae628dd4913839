use serde_json::{Value, json as value};

use super::{REQUEST, SCHEMA, json, round, target, without_breakpoints};
use crate::dialect::canonical::{
    Call, CallKind, Effort, File, Format, Image, Part, Reasoning, Request, Role, Source, Target, Thinking,
    Tool, ToolChoice, ToolResult, Turn, Unfit, Vendor, WebSearch,
};
use crate::dialect::literal::{Json, Text};
use crate::dialect::messages::write_request;
use crate::dialect::signature::Signature;

/// The body of a request of which everything but `change` says "Hi".
fn written(model: &str, change: impl FnOnce(&mut Request<'static>)) -> Result<Value, Unfit> {
    let mut request = Request { turns: vec![user(vec![text("Hi")])], ..Request::default() };
    change(&mut request);
    let bytes = write_request(&request, &target(model))?;
    Ok(json(std::str::from_utf8(&bytes).unwrap()))
}

/// The messages of the body, without breakpoints.
fn messages(turns: Vec<Turn<'static>>) -> Value {
    let mut body = written("claude-opus-4-6", |request| request.turns = turns).unwrap();
    without_breakpoints(&mut body);
    body["messages"].take()
}

fn text(plain: &str) -> Part<'static> {
    Part::Text(Text::of(plain))
}

fn user(parts: Vec<Part<'static>>) -> Turn<'static> {
    Turn { role: Role::User, parts }
}

fn assistant(parts: Vec<Part<'static>>) -> Turn<'static> {
    Turn { role: Role::Assistant, parts }
}

fn call(id: &str, input: &str) -> Part<'static> {
    let (id, input) = (Text::of(id), Text::of(input));
    Part::Call(Call { id, name: Text::of("f"), kind: CallKind::Function, input, signature: None })
}

fn result(id: &str, parts: Vec<Part<'static>>) -> Part<'static> {
    Part::Result(ToolResult { call_id: Text::of(id), kind: CallKind::Function, parts, is_error: false })
}

fn thinking(signature: Option<Signature<'static>>) -> Part<'static> {
    Part::Thinking(Thinking { text: Text::of("Hm.\n"), signature })
}

fn signed() -> Part<'static> {
    thinking(Some(Signature::Anthropic(Text::of("SIG"))))
}

fn function(name: &str, parameters: Option<&str>) -> Tool<'static> {
    Tool::Function {
        name: Text::of(name),
        description: None,
        parameters: parameters.map(|schema| Json::of(&json(schema))),
        strict: Some(true),
    }
}

#[test]
fn the_worked_example_comes_back_as_it_is() {
    let body = REQUEST.replace('P', SCHEMA);
    let mut back = round(&body, "m").unwrap();
    assert_eq!(without_breakpoints(&mut back), 3);
    assert_eq!(back, json(&body));
}

#[test]
fn text_is_kept_and_text_that_says_nothing_is_left_out() {
    let turns = vec![
        user(vec![text(" a\n"), text(""), text(" \n\t"), text("\u{a0}x")]),
        assistant(vec![text("")]),
        user(vec![text("b")]),
    ];
    let wanted = value!([{"role":"user","content":[
        {"type":"text","text":" a\n"},{"type":"text","text":"\u{a0}x"},{"type":"text","text":"b"}]}]);
    assert_eq!(messages(turns), wanted);
    let nothing = written("m", |request| request.turns = vec![user(vec![text(" ")])]);
    assert_eq!(nothing, Err(Unfit::unsupported("messages")));
}

#[test]
fn results_come_first_in_the_turn_after_their_call() {
    let use_of = |id: &str| value!({"type":"tool_use","id":id,"name":"f","input":{}});
    let result_of = |id: &str| value!({"type":"tool_result","tool_use_id":id,"content":id});
    let said = |text: &str| value!({"type":"text","text":text});
    let results = |ids: &[&str]| ids.iter().map(|id| result(id, vec![text(id)])).collect::<Vec<_>>();
    for (name, turns, wanted) in [
        (
            "tool messages in a row and what the user says with them",
            vec![
                assistant(vec![text("t"), call("a", ""), call("b", "{}")]),
                user(results(&["b"])),
                user(results(&["a"])),
                user(vec![text("and")]),
            ],
            value!([{"role":"assistant","content":[said("t"),use_of("a"),use_of("b")]},
                {"role":"user","content":[result_of("b"),result_of("a"),said("and")]}]),
        ),
        (
            "text before the results",
            vec![assistant(vec![call("a", "")]), user(vec![text("x"), results(&["a"]).remove(0), text("y")])],
            value!([{"role":"assistant","content":[use_of("a")]},
                {"role":"user","content":[result_of("a"),said("x"),said("y")]}]),
        ),
        (
            "a result that comes late",
            vec![
                assistant(vec![call("a", "")]),
                user(vec![text("wait")]),
                assistant(vec![text("ok")]),
                user(results(&["a"])),
                assistant(vec![text("done")]),
            ],
            value!([{"role":"assistant","content":[use_of("a")]},
                {"role":"user","content":[result_of("a"),said("wait")]},
                {"role":"assistant","content":[said("ok"),said("done")]}]),
        ),
        (
            "a result of no call",
            vec![user(results(&["x"])), user(vec![text("Hi")])],
            value!([{"role":"user","content":[said("Hi")]}]),
        ),
        (
            "calls of two items without results between",
            vec![assistant(vec![call("a", "")]), assistant(vec![call("b", "")]), user(results(&["a", "b"]))],
            value!([{"role":"assistant","content":[use_of("a"),use_of("b")]},
                {"role":"user","content":[result_of("a"),result_of("b")]}]),
        ),
        (
            "an id used twice",
            vec![
                assistant(vec![call("a", "")]),
                user(results(&["a"])),
                assistant(vec![call("a", "")]),
                user(results(&["a"])),
            ],
            value!([{"role":"assistant","content":[use_of("a")]},{"role":"user","content":[result_of("a")]},
                {"role":"assistant","content":[use_of("a")]},{"role":"user","content":[result_of("a")]}]),
        ),
    ] {
        assert_eq!(messages(turns), wanted, "{name}");
    }
}

#[test]
fn results_carry_what_a_tool_gave() {
    let pdf = File {
        source: Source::Inline { mime: Text::of("application/pdf"), data: Text::of("JVBERi0=") },
        name: Some(Text::of("p.pdf")),
    };
    let image = Image { source: Source::Url(Text::of("https://i")), detail: Some(Text::of("low")) };
    let failed = Part::Result(ToolResult {
        call_id: Text::of("a"),
        kind: CallKind::Function,
        parts: vec![text("no")],
        is_error: true,
    });
    for (part, wanted) in [
        (result("a", vec![]), value!({"content":""})),
        (result("a", vec![text("")]), value!({"content":""})),
        (result("a", vec![text("5")]), value!({"content":"5"})),
        (failed, value!({"content":"no","is_error":true})),
        (
            result("a", vec![text("x"), text("y")]),
            value!({"content":[{"type":"text","text":"x"},{"type":"text","text":"y"}]}),
        ),
        (
            result("a", vec![Part::Image(image), Part::File(pdf)]),
            value!({"content":[{"type":"image","source":{"type":"url","url":"https://i"}},
                {"type":"document","source":{"type":"base64","media_type":"application/pdf","data":"JVBERi0="},
                 "title":"p.pdf"}]}),
        ),
    ] {
        let mut block =
            messages(vec![assistant(vec![call("a", "")]), user(vec![part])])[1]["content"][0].take();
        let members = block.as_object_mut().unwrap();
        assert_eq!(members.remove("type"), Some("tool_result".into()));
        assert_eq!(members.remove("tool_use_id"), Some("a".into()));
        assert_eq!(block, wanted);
    }
}

#[test]
fn files_become_documents_of_their_kind() {
    let inline = |mime: &str, data: &str| Source::Inline { mime: Text::of(mime), data: Text::of(data) };
    for (source, name, wanted) in [
        (
            inline("application/pdf", "QQ=="),
            Some("a.pdf"),
            Some(value!({"type":"document","title":"a.pdf",
                "source":{"type":"base64","media_type":"application/pdf","data":"QQ=="}})),
        ),
        (
            inline("", "JVBERi0x"),
            None,
            Some(value!({"type":"document",
                "source":{"type":"base64","media_type":"application/pdf","data":"JVBERi0x"}})),
        ),
        (
            inline("text/csv; charset=utf-8", "w6ksMQo"),
            None,
            Some(
                value!({"type":"document","source":{"type":"text","media_type":"text/plain","data":"é,1\n"}}),
            ),
        ),
        (
            inline("application/octet-stream", "e30="),
            Some("a.JSON"),
            Some(value!({"type":"document","title":"a.JSON",
                "source":{"type":"text","media_type":"text/plain","data":"{}"}})),
        ),
        (
            inline("image/jpg", "QQ=="),
            None,
            Some(value!({"type":"image","source":{"type":"base64","media_type":"image/jpeg","data":"QQ=="}})),
        ),
        (
            Source::Url(Text::of("https://d")),
            None,
            Some(value!({"type":"document","source":{"type":"url","url":"https://d"}})),
        ),
        (
            Source::Plain(Text::of("a\n")),
            None,
            Some(value!({"type":"document","source":{"type":"text","media_type":"text/plain","data":"a\n"}})),
        ),
        (inline("application/zip", "UEs="), None, None),
        (inline("text/plain", "/w=="), None, None),
        (inline("", "UEs="), Some("a.bin"), None),
    ] {
        let file = Part::File(File { source, name: name.map(Text::of) });
        let body = written("m", |request| request.turns = vec![user(vec![file])]);
        match wanted {
            Some(wanted) => {
                let mut body = body.unwrap();
                without_breakpoints(&mut body);
                assert_eq!(body["messages"][0]["content"][0], wanted);
            }
            None => assert_eq!(body, Err(Unfit::unsupported("file"))),
        }
    }
}

#[test]
fn only_thinking_that_anthropic_signed_is_sent() {
    let openai = Signature::OpenAi { id: None, encrypted: Text::of("e"), summary: vec![] };
    for (signature, wanted) in [
        (
            Some(Signature::Anthropic(Text::of("S"))),
            Some(value!({"type":"thinking","thinking":"Hm.\n","signature":"S"})),
        ),
        (
            Some(Signature::Unknown(Text::of("S"))),
            Some(value!({"type":"thinking","thinking":"Hm.\n","signature":"S"})),
        ),
        (
            Some(Signature::AnthropicRedacted(Text::of("R"))),
            Some(value!({"type":"redacted_thinking","data":"R"})),
        ),
        (Some(openai), None),
        (Some(Signature::Gemini(Text::of("g"))), None),
        (Some(Signature::Anthropic(Text::EMPTY)), None),
        (None, None),
    ] {
        let written = messages(vec![user(vec![text("q")]), assistant(vec![thinking(signature), text("a")])]);
        let content = written[1]["content"].as_array().unwrap();
        assert_eq!(content.len(), if wanted.is_some() { 2 } else { 1 });
        if let Some(wanted) = wanted {
            assert_eq!(content[0], wanted);
        }
    }
}

#[test]
fn arguments_become_an_object() {
    for (input, wanted) in [
        ("", value!({})),
        (" ", value!({})),
        (r#"{"a":"\u00e9"}"#, value!({"a":"é"})),
        ("{\"a\":", value!({"_raw":"{\"a\":"})),
        ("[1]", value!({"_raw":"[1]"})),
        ("\"x\"", value!({"_raw":"\"x\""})),
    ] {
        let written = messages(vec![assistant(vec![call("a", input)])]);
        assert_eq!(written[0]["content"][0]["input"], wanted, "{input}");
    }
}

#[test]
fn breakpoints_stand_at_the_ends_of_what_stays() {
    let marked = |body: &Value| {
        let mut marks = Vec::new();
        for (turn, message) in body["messages"].as_array().unwrap().iter().enumerate() {
            for (index, block) in message["content"].as_array().unwrap().iter().enumerate() {
                if block.get("cache_control").is_some() {
                    assert_eq!(block["cache_control"], value!({"type":"ephemeral"}));
                    marks.push((turn, index));
                }
            }
        }
        marks
    };
    let conversation = |turns: usize| {
        let turn = |index: usize| match index % 2 {
            0 => user(vec![text("q")]),
            _ => assistant(vec![signed(), text("a")]),
        };
        written("claude-opus-4-6", |request| request.turns = (0..turns).map(turn).collect()).unwrap()
    };
    assert_eq!(marked(&conversation(1)), [(0, 0)]);
    assert_eq!(marked(&conversation(2)), [(0, 0)]);
    assert_eq!(marked(&conversation(19)), [(18, 0)]);
    // Thinking is not counted: the answer's block is its second.
    assert_eq!(marked(&conversation(21)), [(0, 0), (20, 0)]);
    assert_eq!(marked(&conversation(31)), [(10, 0), (30, 0)]);
    assert_eq!(marked(&conversation(32)), [(10, 0), (30, 0)]);

    let mut body = written("claude-opus-4-6", |request| {
        request.system = vec![Text::of("A"), Text::of("B")];
        request.tools = vec![function("a", None), function("b", None)];
        request.turns = (0..50).map(|_| user(vec![text("q")])).collect();
    })
    .unwrap();
    assert!(body["tools"][1].get("cache_control").is_some());
    assert!(body["system"][1].get("cache_control").is_some());
    assert_eq!(marked(&body), [(0, 29), (0, 49)]);
    assert_eq!(without_breakpoints(&mut body), 4);
}

#[test]
fn sampling_is_what_the_model_takes() {
    for (model, effort, temperature, top_p, top_k, wanted) in [
        ("claude-sonnet-4-5", None, "1.6", "", "", value!({"temperature":1})),
        ("claude-sonnet-4-5", None, "-1", "", "", value!({"temperature":0})),
        ("claude-sonnet-4-5", None, "0.70", "0.5", "7", value!({"temperature":0.7,"top_k":7})),
        ("claude-sonnet-4-5", None, "", "0.5", "7", value!({"top_p":0.5,"top_k":7})),
        ("claude-sonnet-4-5", Some(Effort::None), "0.5", "", "7", value!({"temperature":0.5,"top_k":7})),
        ("claude-sonnet-4-5", Some(Effort::Low), "0.5", "0.5", "7", value!({})),
        ("claude-sonnet-4-5", Some(Effort::Low), "1", "0.99", "7", value!({"temperature":1})),
        ("claude-sonnet-4-5", Some(Effort::Low), "0.5", "0.95", "7", value!({"top_p":0.95})),
        ("claude-opus-4-7", None, "0.5", "0.5", "7", value!({})),
        ("m", None, "0.5", "", "", value!({"temperature":0.5})),
    ] {
        let number = |text: &str| (!text.is_empty()).then(|| Json::of(&json(text)));
        let body = written(model, |request| {
            request.reasoning = Reasoning { effort, ..Reasoning::default() };
            request.temperature = number(temperature);
            request.top_p = number(top_p);
            request.top_k = number(top_k);
        })
        .unwrap();
        for key in ["temperature", "top_p", "top_k"] {
            assert_eq!(body.get(key), wanted.get(key), "{model} {effort:?} {temperature} {top_p}");
        }
    }
}

#[test]
fn max_tokens_is_always_there() {
    for (model, asked, wanted) in [
        ("m", Some(7), 7),
        ("m", None, 8192),
        ("claude-opus-4-6", None, 128_000),
        ("claude-3-haiku-20240307", None, 4096),
    ] {
        let body = written(model, |request| request.max_output = asked).unwrap();
        assert_eq!(body["max_tokens"], wanted, "{model}");
    }
}

#[test]
fn thinking_takes_the_form_the_model_knows() {
    let tool = || vec![function("f", None)];
    let loop_of = |first: Part<'static>| {
        vec![user(vec![text("q")]), assistant(vec![first, call("a", "")]), user(vec![result("a", vec![])])]
    };
    let high = Some(Effort::High);
    let adaptive = value!({"type":"adaptive"});
    let of = |budget: u64| value!({"type":"enabled","budget_tokens":budget});
    let required = || Some(ToolChoice::Required);
    let hi = || vec![user(vec![text("Hi")])];
    for (name, model, effort, max, choice, turns, wanted) in [
        ("adaptive", "claude-opus-4-6", high, None, None, hi(), Some(adaptive.clone())),
        (
            "newest",
            "claude-opus-4-7",
            high,
            None,
            None,
            hi(),
            Some(value!({"type":"adaptive","display":"summarized"})),
        ),
        ("budget", "claude-sonnet-4-5", high, None, None, hi(), Some(of(32768))),
        ("budget above max_tokens", "claude-sonnet-4-5", high, Some(4000), None, hi(), Some(of(3200))),
        ("no room", "claude-sonnet-4-5", high, Some(1000), None, hi(), None),
        ("none", "claude-opus-4-6", Some(Effort::None), None, None, hi(), Some(value!({"type":"disabled"}))),
        ("not asked", "claude-opus-4-6", None, None, None, hi(), None),
        ("forced tool", "claude-opus-4-6", high, None, required(), hi(), None),
        ("signed loop", "claude-sonnet-4-5", high, None, None, loop_of(signed()), Some(of(32768))),
        ("unsigned loop", "claude-sonnet-4-5", high, None, None, loop_of(thinking(None)), None),
        (
            "unsigned loop, adaptive",
            "claude-opus-4-6",
            high,
            None,
            None,
            loop_of(thinking(None)),
            Some(adaptive.clone()),
        ),
    ] {
        let body = written(model, |request| {
            request.reasoning.effort = effort;
            request.max_output = max;
            request.tools = tool();
            request.tool_choice = choice;
            request.turns = turns;
        })
        .unwrap();
        assert_eq!(body.get("thinking"), wanted.as_ref(), "{name}");
    }
}

#[test]
fn tools_are_written_with_a_schema() {
    let schema_of = |parameters: Option<&str>| {
        let tool = function("f", parameters);
        let mut body = written("claude-opus-4-6", |request| request.tools = vec![tool]).unwrap();
        body["tools"][0]["input_schema"].take()
    };
    let nothing = value!({"type":"object","properties":{}});
    for (parameters, wanted) in [
        (None, nothing.clone()),
        (Some("{}"), nothing.clone()),
        (Some("5"), nothing),
        (Some(SCHEMA), json(SCHEMA)),
        (Some(r#"{"type":null,"properties":{"a":{}}}"#), value!({"type":"object","properties":{"a":{}}})),
    ] {
        assert_eq!(schema_of(parameters), wanted, "{parameters:?}");
    }
    for (model, strict) in [("claude-opus-4-6", Some(&Value::Bool(true))), ("claude-opus-4-1", None)] {
        let body = written(model, |request| request.tools = vec![function("f", None)]).unwrap();
        assert_eq!(body["tools"][0].get("strict"), strict);
    }
    let search = WebSearch {
        context_size: Some(Text::of("low")),
        user_location: Some(Json::of(&value!({"type":"approximate","city":"X"}))),
        max_uses: Some(3),
    };
    let mut body = written("m", |request| {
        request.tools = vec![function(" ", None), Tool::WebSearch(search)];
        request.tool_choice = Some(ToolChoice::Hosted(Text::of("web_search_preview")));
    })
    .unwrap();
    without_breakpoints(&mut body);
    let wanted = value!([{"type":"web_search_20250305","name":"web_search","max_uses":3,
        "user_location":{"type":"approximate","city":"X"}}]);
    assert_eq!(body["tools"], wanted);
    assert_eq!(body["tool_choice"], value!({"type":"tool","name":"web_search"}));
}

#[test]
fn the_choice_of_a_tool_keeps_its_meaning() {
    let named = |name: &str| (Text::of(name), CallKind::Function);
    let allowed = |required| ToolChoice::Allowed { names: vec![named("b")], required };
    for (choice, parallel, wanted, tools) in [
        (None, None, None, 2),
        (None, Some(true), None, 2),
        (None, Some(false), Some(value!({"type":"auto","disable_parallel_tool_use":true})), 2),
        (Some(ToolChoice::Auto), None, Some(value!({"type":"auto"})), 2),
        (Some(ToolChoice::None), Some(false), Some(value!({"type":"none"})), 2),
        (Some(ToolChoice::Required), None, Some(value!({"type":"any"})), 2),
        (
            Some(ToolChoice::Named { name: Text::of("a"), kind: CallKind::Function }),
            Some(false),
            Some(value!({"type":"tool","name":"a","disable_parallel_tool_use":true})),
            2,
        ),
        (Some(allowed(true)), None, Some(value!({"type":"any"})), 1),
        (Some(allowed(false)), None, Some(value!({"type":"auto"})), 1),
    ] {
        let body = written("m", |request| {
            request.tools = vec![function("a", None), function("b", None)];
            request.tool_choice = choice.clone();
            request.parallel = parallel;
        })
        .unwrap();
        assert_eq!(body.get("tool_choice"), wanted.as_ref(), "{choice:?}");
        assert_eq!(body["tools"].as_array().unwrap().len(), tools);
    }
    let alone = written("m", |request| request.tool_choice = Some(ToolChoice::Required)).unwrap();
    assert_eq!((alone.get("tool_choice"), alone.get("tools")), (None, None));
}

#[test]
fn the_form_of_the_answer_is_asked_for() {
    let schema = || Format::JsonSchema {
        name: None,
        description: None,
        schema: Some(Json::of(&json(SCHEMA))),
        strict: Some(true),
    };
    let known = written("claude-opus-4-6", |request| request.format = Some(schema())).unwrap();
    let wanted = value!({"format":{"type":"json_schema","schema":json(SCHEMA)}});
    assert_eq!((&known["output_config"], known.get("system")), (&wanted, None));

    let older = written("claude-opus-4-1", |request| {
        request.format = Some(schema());
        request.system = vec![Text::of("S")];
    })
    .unwrap();
    assert_eq!(older.get("output_config"), None);
    assert_eq!(older["system"][0]["text"], "S");
    assert!(older["system"][1]["text"].as_str().unwrap().ends_with(&json(SCHEMA).to_string()));

    let object = written("claude-opus-4-6", |request| request.format = Some(Format::JsonObject)).unwrap();
    assert!(object["system"][0]["text"].as_str().unwrap().contains("JSON"));
    let plain = written("m", |request| request.format = Some(Format::Text)).unwrap();
    assert_eq!(plain.get("system"), None);
}

#[test]
fn the_rest_of_a_request_is_said_or_dropped() {
    let body = written("m", |request| {
        request.user = Some(Text::of("u"));
        request.service_tier = Some(Text::of("default"));
        request.stop = vec![Text::of("\n\n"), Text::of("b")];
        request.seed = Some(Json::of(&value!(1)));
        request.verbosity = Some(Text::of("low"));
        request.store = Some(true);
        request.openai = vec![("truncation", Json::of(&value!("auto")))];
        request.n = Some(1);
    })
    .unwrap();
    assert_eq!(body["metadata"], value!({"user_id":"u"}));
    assert_eq!(body["service_tier"], "standard_only");
    assert_eq!(body["stop_sequences"], value!(["\n\n", "b"]));
    assert_eq!(body.as_object().unwrap().len(), 6);

    for (tier, wanted) in [("auto", Some(&Value::from("auto"))), ("priority", None)] {
        let body = written("m", |request| request.service_tier = Some(Text::of(tier))).unwrap();
        assert_eq!(body.get("service_tier"), wanted);
    }
    let in_metadata =
        written("m", |request| request.metadata = Some(Json::of(&value!({"user_id":"v"})))).unwrap();
    assert_eq!(in_metadata["metadata"], value!({"user_id":"v"}));
    let identifier = written("m", |request| request.safety_identifier = Some(Text::of("s"))).unwrap();
    assert_eq!(identifier["metadata"], value!({"user_id":"s"}));
    let long = written("m", |request| request.user = Some(Text::of(&"x".repeat(257)))).unwrap();
    assert_eq!(long.get("metadata"), None);

    let request = Request { turns: vec![user(vec![text("Hi")])], ..Request::default() };
    let streamed = Target { model: "m", stream: true, vendor: Vendor::Other };
    let body = write_request(&request, &streamed).unwrap();
    assert_eq!(json(std::str::from_utf8(&body).unwrap())["stream"], true);
}

#[test]
fn what_cannot_be_said_is_refused_by_name() {
    let audio = || Part::Audio { data: Text::of("QQ=="), format: Text::of("wav") };
    let by_id = || Part::Image(Image { source: Source::Id(Text::of("f")), detail: None });
    let by_url = || Part::Image(Image { source: Source::Url(Text::of("https://i")), detail: None });
    let (foreign, image) = (Part::Foreign(Text::of("computer_call")), by_url());
    let base = || Request { turns: vec![user(vec![text("Hi")])], ..Request::default() };
    let asks = |turn| Request { turns: vec![turn], ..Request::default() };
    for (field, request) in [
        ("n", Request { n: Some(2), ..base() }),
        ("logprobs", Request { logprobs: true, ..base() }),
        ("modalities", Request { native: vec!["modalities"], ..base() }),
        ("tools", Request { tools: vec![Tool::Hosted(Text::of("mcp"))], ..base() }),
        ("input_audio", asks(user(vec![audio()]))),
        ("file_id", asks(user(vec![by_id()]))),
        ("computer_call", asks(assistant(vec![foreign]))),
        ("image_url", asks(assistant(vec![image]))),
    ] {
        assert_eq!(written("m", |change| *change = request), Err(Unfit::unsupported(field)));
    }
}
