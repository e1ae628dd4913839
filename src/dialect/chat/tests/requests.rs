//! Requests: how they are read and written, and that both together change nothing without need.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::through;
use crate::dialect::any_json::any_json;
use crate::dialect::canonical::{
    CallKind, ConversionError, Part, Request, Role, Thinking, Tool, Turn, Vendor,
};
use crate::dialect::chat::{may_have_foreign_members, read_request, without_foreign_members, write_request};
use crate::dialect::literal::Text;
use crate::dialect::signature::Signature;
use crate::dialect::tree::Node;

const TAG: &str = "sy1:anthropic:W3sidCI6Ik5lZWQgYWRkLlxuIiwicyI6IlNJRzEifV0";

fn parameters() -> Value {
    json!({"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"integer"}}})
}

/// The example's request as a chat client sends it.
fn printed() -> Value {
    json!({"model":"m","max_completion_tokens":4000,"reasoning_effort":"high","user":"u1","tool_choice":"auto",
        "parallel_tool_calls":false,
        "tools":[{"type":"function","function":{"name":"add","description":"Add","parameters":parameters()}}],
        "messages":[{"role":"system","content":"Be brief."},
            {"role":"user","content":[{"type":"text","text":"Sum these."},
                {"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0K","detail":"low"}}]},
            {"role":"assistant","content":"Adding.","reasoning_content":"Need add.\n","reasoning_signature":TAG,
                "tool_calls":[{"id":"call_1","type":"function",
                    "function":{"name":"add","arguments":"{\"a\":2,\"b\":3}"}}]},
            {"role":"tool","tool_call_id":"call_1","content":"5"}]})
}

pub(super) fn user(content: Value) -> Value {
    json!({"model":"m","messages":[{"role":"user","content":content}]})
}

/// A body with one user message and these members.
pub(super) fn with(members: Value) -> Value {
    let mut body = user(json!("hi"));
    body.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
    body
}

pub(super) fn read<T>(body: &Value, look: impl FnOnce(Request<'_>) -> T) -> T {
    let body = body.to_string();
    let node = Node::parse(&body).unwrap();
    look(read_request(&node).unwrap())
}

// === both ways ===

#[test]
fn the_printed_request_goes_through_but_for_its_proof() {
    let mut wanted = printed();
    wanted["messages"][2].as_object_mut().unwrap().remove("reasoning_signature");
    let mut elsewhere = wanted.clone();
    elsewhere.as_object_mut().unwrap().remove("max_completion_tokens");
    elsewhere["max_tokens"] = json!(4000);
    assert_eq!(through(&printed(), Vendor::Other), Ok(elsewhere));
    // OpenAI refuses the reasoning of others.
    wanted["messages"][2].as_object_mut().unwrap().remove("reasoning_content");
    assert_eq!(through(&printed(), Vendor::OpenAi), Ok(wanted));
}

#[test]
fn what_the_form_can_carry_goes_through_unchanged() {
    let custom = json!({"type":"custom","custom":{"name":"patch","description":"d",
        "format":{"type":"grammar","grammar":{"syntax":"lark","definition":"start: /x/"}}}});
    let free = json!({"type":"custom","custom":{"name":"free","format":{"type":"text"}}});
    let strict = json!({"type":"function","function":{"name":"f","strict":true}});
    for members in [
        json!({"tools":[custom],"tool_choice":{"type":"custom","custom":{"name":"patch"}}}),
        json!({"tools":[strict, free],"tool_choice":{"type":"function","function":{"name":"f"}}}),
        json!({"tools":[strict, custom],"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"required",
            "tools":[{"type":"function","function":{"name":"f"}},{"type":"custom","custom":{"name":"patch"}}]}}}),
        json!({"tools":[strict],"tool_choice":"required","parallel_tool_calls":true}),
        json!({"response_format":{"type":"json_schema","json_schema":{"name":"n","schema":parameters(),
            "strict":true,"description":"d"}}}),
        json!({"response_format":{"type":"json_object"}}),
        json!({"temperature":1.6,"top_p":0.5,"seed":7,"frequency_penalty":1,"presence_penalty":-1,
            "logit_bias":{"50256":-100},"n":2,"stop":["a","b"]}),
        json!({"logprobs":true,"top_logprobs":3,"verbosity":"low","metadata":{"k":"v"},"user":"u",
            "safety_identifier":"s","prompt_cache_key":"c","prompt_cache_retention":"24h","service_tier":"flex"}),
        json!({"reasoning_effort":"none"}),
        json!({"reasoning_effort":"xhigh"}),
    ] {
        let body = with(members);
        assert_eq!(through(&body, Vendor::OpenAi), Ok(body));
    }
}

#[test]
fn content_of_every_kind_goes_through_unchanged() {
    let image = |url: &str| json!({"type":"image_url","image_url":{"url":url}});
    for content in [
        json!("two  blanks\n\u{1}😀"),
        json!(""),
        json!([{"type":"text","text":"a"},{"type":"text","text":"b "}]),
        json!([image("https://h.example/x.png")]),
        json!([image("data:image/svg+xml;base64,PHN2Zz4=")]),
        json!([{"type":"text","text":"a"},{"type":"input_audio","input_audio":{"data":"UklGRg==","format":"wav"}}]),
        json!([{"type":"file","file":{"filename":"a.pdf","file_data":"data:application/pdf;base64,JVBERi0="}}]),
        json!([{"type":"file","file":{"file_id":"file-1"}}]),
    ] {
        let body = user(content);
        assert_eq!(through(&body, Vendor::OpenAi), Ok(body));
    }
}

#[test]
fn custom_calls_and_their_results_go_through_unchanged() {
    let call = json!({"id":"call_9","type":"custom","custom":{"name":"patch","input":"*** \"x\"\n"}});
    let mut body = user(json!("hi"));
    body["messages"].as_array_mut().unwrap().extend([
        json!({"role":"assistant","content":"","tool_calls":[call]}),
        json!({"role":"tool","tool_call_id":"call_9","content":""}),
    ]);
    assert_eq!(through(&body, Vendor::OpenAi), Ok(body.clone()));
    read(&body, |request| {
        let Part::Result(result) = &request.turns[2].parts[0] else { panic!("a result") };
        assert_eq!((result.kind, result.parts.len()), (CallKind::Custom, 0));
    });
}

// === reading ===

#[test]
fn older_and_foreign_spellings_are_understood() {
    for (spelling, usual) in [
        (json!({"max_tokens":7.9}), json!({"max_completion_tokens":7})),
        (json!({"max_tokens":" 5 "}), json!({"max_completion_tokens":5})),
        (json!({"max_tokens":-1}), json!({})),
        (json!({"max_completion_tokens":0,"max_tokens":5}), json!({"max_completion_tokens":5})),
        (json!({"stop":"END"}), json!({"stop":["END"]})),
        (json!({"stop":["", "END"]}), json!({"stop":["END"]})),
        (json!({"n":1,"temperature":null,"tools":null,"seed":"x"}), json!({})),
        (json!({"reasoning":{"effort":"low"}}), json!({"reasoning_effort":"low"})),
        (json!({"reasoning":{"max_tokens":9000}}), json!({"reasoning_effort":"high"})),
        (json!({"thinking":{"type":"enabled","budget_tokens":1024}}), json!({"reasoning_effort":"low"})),
        (json!({"thinking":{"type":"disabled"}}), json!({})),
        (json!({"thinking":{"type":"enabled"}}), json!({"reasoning_effort":"medium"})),
        (json!({"thinking":{"type":"enabled"},"reasoning_effort":"low"}), json!({"reasoning_effort":"low"})),
        (json!({"reasoning":{"enabled":true}}), json!({"reasoning_effort":"medium"})),
        (json!({"reasoning":{"enabled":true,"max_tokens":9000}}), json!({"reasoning_effort":"high"})),
        (json!({"reasoning_effort":"extreme"}), json!({})),
        (
            json!({"functions":[{"name":"f"}],"function_call":{"name":"f"}}),
            json!({"tools":[{"type":"function","function":{"name":"f"}}],
                "tool_choice":{"type":"function","function":{"name":"f"}}}),
        ),
        (
            json!({"tools":[{"type":"function","name":"f"},{"type":"function","function":{"name":" "}}],
                "tool_choice":{"type":"any"}}),
            json!({"tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":"required"}),
        ),
        (
            json!({"tools":[{"name":"f","input_schema":{"type":"object"}}],"tool_choice":{"type":"tool","name":"f"}}),
            json!({"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}],
                "tool_choice":{"type":"function","function":{"name":"f"}}}),
        ),
        (json!({"tools":[],"tool_choice":"auto","parallel_tool_calls":false}), json!({})),
        (json!({"tools":[{"type":"web_search"}],"tool_choice":"required"}), json!({})),
        (
            json!({"tools":[{"type":"function","function":{"name":"f"}},{"type":"code_interpreter"}],
                "tool_choice":{"type":"code_interpreter"}}),
            json!({"tools":[{"type":"function","function":{"name":"f"}}]}),
        ),
    ] {
        assert_eq!(through(&with(spelling.clone()), Vendor::OpenAi), Ok(with(usual)), "{spelling}");
    }
}

#[test]
fn older_and_foreign_forms_of_content_are_understood() {
    let image = json!([{"type":"image_url","image_url":{"url":"https://h.example/x","detail":"high"}}]);
    let file =
        json!([{"type":"file","file":{"filename":"n.pdf","file_data":"data:application/pdf;base64,aGk="}}]);
    for (spelling, usual) in [
        (json!({"type":"text","text":"alone"}), json!("alone")),
        (json!([{"type":"text","text":"alone"}]), json!("alone")),
        (json!(["alone"]), json!("alone")),
        (json!([{"text":"untyped"}]), json!("untyped")),
        (json!([{"type":"image_url","image_url":"https://h.example/x","detail":"high"}]), image),
        (json!([{"type":"file","file":{"filename":"n.pdf","file_data":"aGk="}}]), file.clone()),
        (json!([{"type":"input_file","filename":"n.pdf","file_data":"aGk=","file_id":"x"}]), file.clone()),
        (
            json!([{"type":"document_url","document_url":"data:application/pdf;base64,aGk=","document_name":"n.pdf"}]),
            file,
        ),
    ] {
        assert_eq!(through(&user(spelling.clone()), Vendor::OpenAi), Ok(user(usual)), "{spelling}");
    }
}

#[test]
fn legacy_calls_and_calls_without_ids_find_their_results() {
    let function = json!({"name":"add","arguments":{"a": 1}});
    let body = json!({"messages":[
        {"role":"assistant","content":null,"function_call":{"name":"old","arguments":"{}"}},
        {"role":"function","name":"old","content":"1"},
        {"role":"assistant","tool_calls":[{"function":function},{"id":"","function":function}]},
        {"role":"tool","content":"2"},
        {"role":"tool","content":[{"type":"text","text":"3"}]}]});
    let written = through(&body, Vendor::OpenAi).unwrap();
    let ids = |message: usize| -> Vec<&str> {
        let calls = written["messages"][message]["tool_calls"].as_array().unwrap();
        calls.iter().map(|call| call["id"].as_str().unwrap()).collect()
    };
    assert_eq!((ids(0), ids(2)), (vec!["old"], vec!["call_1", "call_2"]));
    for (message, id) in [(1, "old"), (3, "call_1"), (4, "call_2")] {
        assert_eq!(written["messages"][message]["tool_call_id"], id);
    }
    assert_eq!(written["messages"][2]["tool_calls"][0]["function"]["arguments"], "{\"a\":1}");
}

#[test]
fn thinking_is_read_with_its_proof() {
    let signature = || Some(Signature::Anthropic(Text::plain("SIG1")));
    let unknown = Some(Signature::Unknown(Text::plain("EqQB")));
    let old = Some(Signature::Gemini(Text::plain("Cq")));
    for (members, text, signature) in [
        (json!({"reasoning_content":"edited","reasoning_signature":TAG}), "Need add.\n", signature()),
        (json!({"reasoning_signature":TAG}), "Need add.\n", signature()),
        (json!({"reasoning":"t","reasoning_signature":"EqQB"}), "t", unknown),
        (json!({"thinking":"t","reasoning_signature":"metapi:gemini-thought-signature:Cq"}), "t", old),
        (json!({"reasoning_content":"t","reasoning_signature":"sy1:anthropic:!!"}), "t", None),
        (json!({"reasoning_content":"","reasoning_details":[{"text":"a"},{"text":"b"}]}), "ab", None),
        (json!({"content":[{"type":"thinking","thinking":[{"type":"text","text":"t"}]}]}), "t", None),
    ] {
        let mut message = json!({"role":"assistant","content":"x"});
        message.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        read(&json!({"messages":[message]}), |request| {
            let wanted = Part::Thinking(Thinking { text: Text::of(text), signature });
            assert_eq!(request.turns[0].parts[0], wanted, "{members}");
        });
    }
}

#[test]
fn clients_that_ask_for_thinking_get_it_to_keep() {
    for (members, encrypted) in [
        (json!({"reasoning_effort":"high"}), true),
        (json!({"reasoning":{"max_tokens":1}}), true),
        (json!({"thinking":{"type":"enabled"}}), true),
        (json!({"reasoning_effort":"none"}), false),
        (json!({"thinking":{"type":"disabled"},"reasoning_effort":"high"}), false),
        (json!({}), false),
    ] {
        read(&with(members), |request| assert_eq!(request.reasoning.encrypted, encrypted));
    }
    read(&printed(), |request| assert!(request.reasoning.encrypted));
}

#[test]
fn every_system_message_is_read_where_it_stands() {
    let body = json!({"messages":[{"role":"system","content":"zero"},{"role":"developer","content":"one"},
        {"role":"user","content":"hi"},
        {"role":"developer","content":[{"type":"text","text":"two"},{"type":"text","text":"three"}]}]});
    read(&body, |request| {
        let system: Vec<_> = request.system.iter().map(|text| text.decode().into_owned()).collect();
        assert_eq!(system, ["zero", "one"]);
        let later = Turn::new(Role::Developer, vec![Part::Text(Text::plain("two\\n\\nthree"))]);
        assert_eq!(request.turns[1..], [later]);
    });
    let wanted = json!([{"role":"system","content":"zero\n\none"},{"role":"user","content":"hi"},
        {"role":"developer","content":"two\n\nthree"}]);
    assert_eq!(through(&body, Vendor::OpenAi).unwrap()["messages"], wanted);
}

#[test]
fn proofs_of_gemini_are_found_on_calls() {
    for place in [
        json!({"extra_content":{"google":{"thought_signature":"Cq"}}}),
        json!({"provider_specific_fields":{"thought_signature":"Cq"}}),
    ] {
        let mut call = json!({"id":"c","type":"function","function":{"name":"f","arguments":"{}"}});
        call.as_object_mut().unwrap().extend(place.as_object().unwrap().clone());
        let body = json!({"messages":[{"role":"assistant","tool_calls":[call]}]});
        read(&body, |request| {
            let Part::Call(call) = &request.turns[0].parts[0] else { panic!("a call") };
            assert_eq!(call.signature, Some(Signature::Gemini(Text::plain("Cq"))));
        });
        let place = &through(&body, Vendor::Gemini).unwrap()["messages"][0]["tool_calls"][0]["extra_content"];
        assert_eq!(place["google"]["thought_signature"], "Cq");
        let place = &through(&body, Vendor::Other).unwrap()["messages"][0]["tool_calls"][0]["extra_content"];
        assert_eq!(*place, Value::Null, "proofs of one provider go to no other");
    }
}

#[test]
fn the_place_of_a_web_search_is_flat_within() {
    let location = json!({"type":"approximate","approximate":{"city":"Oslo"}});
    let body = with(json!({"web_search_options":{"search_context_size":"low","user_location":location}}));
    read(&body, |request| {
        let Some(Tool::WebSearch(search)) = request.tools.first() else { panic!("a search") };
        let place = search.user_location.as_ref().unwrap();
        assert_eq!(place.as_str(), r#"{"type":"approximate","city":"Oslo"}"#);
    });
    let text = body.to_string();
    let node = Node::parse(&text).unwrap();
    let request = read_request(&node).unwrap();
    let target = super::Target { model: "gpt-5-search-api", stream: false, vendor: Vendor::OpenAi };
    let written: Value = serde_json::from_slice(&write_request(&request, &target).unwrap()).unwrap();
    assert_eq!(written["web_search_options"], body["web_search_options"]);
}

#[test]
fn what_no_dialect_understands_is_the_clients_mistake() {
    for (body, field) in [
        (json!({"messages":[]}), "messages"),
        (json!({"messages":"hi"}), "messages"),
        (json!({"input":"hi"}), "messages"),
        (json!([]), "messages"),
        (json!({"messages":["hi"]}), "messages[0]"),
        (json!({"messages":[{"content":"hi"}]}), "messages[0].role"),
        (json!({"messages":[{"role":"king","content":"hi"}]}), "messages[0].role"),
        (user(json!(5)), "messages[0].content"),
        (user(json!([5])), "messages[0].content"),
        (user(json!([{"type":"image_url"}])), "messages[0].content"),
        (user(json!([{"type":"input_audio","input_audio":{}}])), "messages[0].content"),
        (json!({"messages":[{"role":"tool","content":"1"}]}), "messages[0].tool_call_id"),
        (json!({"messages":[{"role":"function","content":"1"}]}), "messages[0].name"),
        (
            json!({"messages":[{"role":"assistant","tool_calls":[{"id":"c"}]}]}),
            "messages[0].tool_calls[0].function.name",
        ),
        (with(json!({"stop":[1]})), "stop"),
        (with(json!({"max_tokens":"many"})), "max_tokens"),
        (with(json!({"max_completion_tokens":{}})), "max_completion_tokens"),
    ] {
        let Err(ConversionError::Invalid { field: named, message }) = through(&body, Vendor::OpenAi) else {
            panic!("{body}")
        };
        assert_eq!(named, field, "{body}");
        assert!(message.starts_with(field), "{message}");
    }
}

#[test]
fn proofs_of_others_leave_a_body_that_is_not_converted() {
    let body = format!(
        "{{\"messages\": [ {{\"role\":\"user\", \"content\":\"a\"}},{{\"role\": \"assistant\",\"reasoning_signature\":\"{TAG}\", \"content\":\"x\"}},{{\"reasoning_signature\":\"EqQB\"}} ] , \"x\":1}}"
    );
    let node = Node::parse(&body).unwrap();
    let cleaned = without_foreign_members(&node, Vendor::Other, "m").unwrap();
    let cleaned = std::str::from_utf8(&cleaned).unwrap();
    assert!(!cleaned.contains("sy1:") && cleaned.contains("EqQB"), "{cleaned}");
    assert!(cleaned.starts_with("{\"messages\": [ {\"role\":\"user\", \"content\":\"a\"},"), "{cleaned}");
    assert!(cleaned.ends_with("{\"reasoning_signature\":\"EqQB\"} ] , \"x\":1}"), "{cleaned}");
    let message = serde_json::from_str::<Value>(cleaned).unwrap()["messages"][1].clone();
    assert_eq!(message, json!({"role":"assistant","content":"x"}));
    let plain = user(json!("sy1:anthropic:e30")).to_string();
    assert_eq!(without_foreign_members(&Node::parse(&plain).unwrap(), Vendor::Other, "m"), None);
}

#[test]
fn members_that_one_provider_gave_leave_a_body_for_another() {
    let body = |thought: &str, signed: &str| {
        format!(
            r#"{{"messages": [{{"role":"user","content":"a"}},{{"role":"assistant","content":"x"{thought}{signed},"tool_calls":[{{"id":"a"{signed}}},{{"id":"b"}}]}} ],"reasoning_effort":"low"}}"#
        )
    };
    let thought = r#","reasoning_content":"T","reasoning_details":[{}],"reasoning_signature":"EqQB""#;
    let of_google = r#","extra_content":{"google":{"thought_signature":"P"}}"#;
    let of_proxy = r#","provider_specific_fields":{"thought_signature":"P"}"#;
    for (vendor, model, thought_left, signature_left) in [
        (Vendor::OpenAi, "gpt-5.2", false, false),
        (Vendor::Other, "deepseek-chat", true, false),
        (Vendor::Other, "google/Gemini-3-Pro", true, true),
        (Vendor::Gemini, "m", true, true),
    ] {
        for signed in [of_google, of_proxy] {
            let given = body(thought, signed);
            let wanted =
                body(if thought_left { thought } else { "" }, if signature_left { signed } else { "" });
            let left = without_foreign_members(&Node::parse(&given).unwrap(), vendor, model);
            let left = left.map_or(given, |left| String::from_utf8(left.to_vec()).unwrap());
            assert_eq!(left, wanted, "{vendor:?} {model}");
            let marks = crate::dialect::json::members(&wanted, |_| {}).unwrap().marks;
            assert_eq!(may_have_foreign_members(marks, vendor), signature_left, "{wanted}");
        }
    }
    let unsigned = body("", r#","extra_content":{"google":{}}"#);
    assert_eq!(without_foreign_members(&Node::parse(&unsigned).unwrap(), Vendor::OpenAi, "m"), None);
}

// === any input ===

/// The words of this dialect.
const WORDS: &[&str] = &[
    "role",
    "content",
    "type",
    "text",
    "user",
    "assistant",
    "tool",
    "function",
    "tool_calls",
    "image_url",
    "url",
    "data:image/png;base64,x",
    "name",
    "arguments",
    "messages",
    "stop",
    "",
    "id",
];

proptest! {
    #[test]
    fn any_message_gives_a_request_or_an_error(message in any_json(WORDS), members in any_json(WORDS)) {
        let mut body = json!({"messages":[message]});
        if let Value::Object(members) = members {
            body.as_object_mut().unwrap().extend(members);
        }
        let _ = through(&body, Vendor::OpenAi);
        let _ = through(&body, Vendor::Other);
    }

    #[test]
    fn any_text_goes_through_unchanged(text in "\\PC{0,40}|(\\\\u[0-9a-f]{4}|<think>|\n| ){0,20}") {
        let body = user(json!(text));
        prop_assert_eq!(through(&body, Vendor::OpenAi), Ok(body));
    }
}
