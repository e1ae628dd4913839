use serde_json::{Value, json as value};

use super::said::{assistant, call, function, result, signed, text, thinking, user, written};
use super::{REQUEST, SCHEMA, json, round, without_breakpoints};
use crate::dialect::canonical::{
    CallKind, ConversionError, Effort, Format, Image, Part, Reasoning, Request, Source, Target, Tool,
    ToolChoice, Vendor, WebSearch,
};
use crate::dialect::literal::{Json, Text};
use crate::dialect::messages::write_request;

#[test]
fn the_worked_example_comes_back_as_it_is() {
    let body = REQUEST.replace('P', SCHEMA);
    let mut back = round(&body, "m").unwrap();
    assert_eq!(without_breakpoints(&mut back), 3);
    assert_eq!(back, json(&body));
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
    for (model, context, wanted) in [
        ("m", Some(7), 7),
        ("m", None, 8192),
        ("claude-opus-4-6", None, 128_000),
        ("claude-3-haiku-20240307", None, 4096),
    ] {
        let body = written(model, |request| request.max_output = context).unwrap();
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
        allowed_domains: None,
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
    // Another hosted tool is not offered, and a search is no substitute for it.
    let body = written("m", |request| {
        request.tools = vec![function("f", None), Tool::WebSearch(WebSearch::default())];
        request.tool_choice = Some(ToolChoice::Hosted(Text::of("file_search")));
    })
    .unwrap();
    assert_eq!(body["tool_choice"], value!({"type":"auto"}));
}

#[test]
fn the_choice_of_a_tool_keeps_its_meaning() {
    let named = |name: &str| (Text::of(name), CallKind::Function);
    let allowed = |names: &[&str], required| ToolChoice::Allowed {
        names: names.iter().map(|name| named(name)).collect(),
        required,
    };
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
        (
            Some(ToolChoice::Named { name: Text::of("gone"), kind: CallKind::Function }),
            None,
            Some(value!({"type":"auto"})),
            2,
        ),
        (Some(ToolChoice::Hosted(Text::of("file_search"))), None, Some(value!({"type":"auto"})), 2),
        (Some(allowed(&["b"], true)), None, Some(value!({"type":"tool","name":"b"})), 2),
        (Some(allowed(&["b"], false)), None, Some(value!({"type":"auto"})), 2),
        (Some(allowed(&["a", "b"], true)), None, Some(value!({"type":"any"})), 2),
        (Some(allowed(&["gone"], false)), None, Some(value!({"type":"none"})), 2),
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
    assert_eq!(body["stop_sequences"], value!(["b"]), "blank ones are refused");
    assert_eq!(body.as_object().unwrap().len(), 6);

    for (tier, wanted) in [("auto", Some(&Value::from("auto"))), ("priority", None)] {
        let body = written("m", |request| request.service_tier = Some(Text::of(tier))).unwrap();
        assert_eq!(body.get("service_tier"), wanted);
    }
    let in_metadata =
        written("m", |request| request.metadata = Some(Json::of(&value!({"user_id":"v"})))).unwrap();
    assert_eq!(in_metadata["metadata"], value!({"user_id":"v"}));
    let beside_none = written("m", |request| {
        request.user = Some(Text::EMPTY);
        request.metadata = Some(Json::of(&value!({"user_id":"v"})));
    });
    assert_eq!(beside_none.unwrap()["metadata"], value!({"user_id":"v"}));
    let identifier = written("m", |request| request.safety_identifier = Some(Text::of("s"))).unwrap();
    assert_eq!(identifier["metadata"], value!({"user_id":"s"}));
    let long = written("m", |request| request.user = Some(Text::of(&"x".repeat(257)))).unwrap();
    assert_eq!(long["metadata"]["user_id"].as_str().map(str::len), Some(64), "its hash");

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
        ("input_audio", asks(user(vec![audio()]))),
        ("file_id", asks(user(vec![by_id()]))),
        ("computer_call", asks(assistant(vec![foreign]))),
        ("image_url", asks(assistant(vec![image]))),
    ] {
        assert_eq!(written("m", |change| *change = request), Err(ConversionError::unsupported(field)));
    }
    let hosted = Request { tools: vec![Tool::Hosted(Text::of("mcp"))], ..base() };
    let refusal = ConversionError::unsupported_form("tools", "of the type mcp");
    assert_eq!(written("m", |change| *change = hosted), Err(refusal));
}
