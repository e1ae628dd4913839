use super::json;
use crate::dialect::canonical::Effort;
use crate::dialect::literal::Text;
use crate::dialect::messages::{
    in_other_thinking_form, refuses_schema, refuses_thinking_form, refuses_thoughts, with_schema_closed,
    with_schema_in_words, without_foreign_thinking, without_thoughts,
};
use crate::dialect::signature::{self, Signature};
use crate::dialect::tree::Node;
use crate::dialect::upstream_error::UpstreamError;

fn tag(signature: Signature<'_>, text: &str) -> String {
    signature::tag(&[(Text::of(text), signature)]).unwrap().decode().into_owned()
}

fn openai() -> String {
    tag(Signature::OpenAi { id: None, encrypted: Text::of("e"), summary: vec![] }, "")
}

fn thinking(signature: &str) -> String {
    format!(r#"{{ "type":"thinking", "thinking":"x", "signature":"{signature}" }}"#)
}

fn cut(body: &str) -> Option<String> {
    let node = Node::parse(body).unwrap();
    without_foreign_thinking(&node).map(|bytes| String::from_utf8(bytes.to_vec()).unwrap())
}

#[test]
fn thinking_of_others_is_taken_out_and_every_other_byte_kept() {
    let foreign = thinking(&openai());
    let redacted = format!(r#"{{"type":"redacted_thinking","data":"{}"}}"#, openai());
    let damaged = thinking("sy1:anthropic:!");
    let text = r#"{"type":"text", "text":" a\n\u00e9", "cache_control":{"type":"ephemeral","ttl":"1h"}}"#;
    let own = thinking("SIG1");
    for (before, after) in [
        (format!("[ {foreign} , {text} ]"), format!("[ {text} ]")),
        (format!("[{text} ,\n{foreign}\n]"), format!("[{text}\n]")),
        (format!("[{text}, {redacted},{damaged} ]"), format!("[{text} ]")),
        (format!("[{foreign}, {redacted}, {text}, {foreign}, {own} ]"), format!("[{text}, {own} ]")),
        (format!("[{own},{foreign},{text},{foreign},{redacted}]"), format!("[{own},{text}]")),
    ] {
        let body = |content: &str| {
            format!(
                r#" {{"unknown" : [1, 2 ], "messages":[ {{"role":"user","content":"sy1:x"}},{{"content" : {content}, "role":"assistant"}} ,{{"role":"user","content":"q"}}],"max_tokens":5}}"#
            )
        };
        assert_eq!(
            cut(&body(&before)),
            Some(body(&after)).map(|body| body.trim_start().to_owned()),
            "{before}"
        );
    }
}

#[test]
fn a_message_of_nothing_but_foreign_thinking_goes_whole() {
    let message = format!(r#"{{"role":"assistant","content":[{}]}}"#, thinking(&openai()));
    let (one, two) = (r#"{"role":"user","content":"a"}"#, r#"{"role":"user","content":"b"}"#);
    for (before, after) in [
        (format!("[{one},{message}, {two}]"), format!("[{one}, {two}]")),
        (format!("[{one} , {message}]"), format!("[{one}]")),
        (format!("[{message},{message}]"), "[]".to_owned()),
    ] {
        let body = |messages: &str| format!(r#"{{"messages":{messages}}}"#);
        assert_eq!(cut(&body(&before)), Some(body(&after)), "{before}");
    }
}

#[test]
fn anthropics_own_tags_become_native_again() {
    let both = [
        (Text::of("Need add.\n"), Signature::Anthropic(Text::of("SIG1"))),
        (Text::EMPTY, Signature::AnthropicRedacted(Text::of("R"))),
    ];
    let tagged = thinking(&signature::tag(&both).unwrap().decode());
    let after = cut(&format!(r#"{{"messages":[{{"role":"assistant","content":[{tagged}]}}]}}"#)).unwrap();
    let wanted = r#"[{"type":"thinking","thinking":"Need add.\n","signature":"SIG1"},{"type":"redacted_thinking","data":"R"}]"#;
    assert_eq!(json(&after)["messages"][0]["content"], json(wanted));

    let old = thinking("metapi:anthropic-signature:SIG1");
    let after = cut(&format!(r#"{{"messages":[{{"role":"assistant","content":[{old}]}}]}}"#)).unwrap();
    let wanted = r#"[{"type":"thinking","thinking":"x","signature":"SIG1"}]"#;
    assert_eq!(json(&after)["messages"][0]["content"], json(wanted));
}

#[test]
fn a_body_without_tags_is_left_alone() {
    let own = thinking("SIG1");
    for body in [
        format!(r#"{{"messages":[{{"role":"assistant","content":[{own}]}}]}}"#),
        r#"{"messages":[{"role":"user","content":"sy1:openai:e30"}]}"#.to_owned(),
        r#"{"messages":[{"role":"user","content":[{"type":"text","text":"metapi:x"}]}]}"#.to_owned(),
        r#"{"messages":5,"x":"sy1:"}"#.to_owned(),
        r#"["sy1:"]"#.to_owned(),
    ] {
        assert_eq!(cut(&body), None, "{body}");
    }
}

#[test]
fn a_refused_way_to_ask_for_thinking_has_another() {
    for (before, after) in [
        (
            r#"{"model":"m","max_tokens":4000,"thinking":{"type":"adaptive"},"output_config":{"effort":"high"},"messages":[]}"#,
            r#"{"model":"m","max_tokens":4000,"thinking":{"type":"enabled","budget_tokens":3200},"messages":[]}"#,
        ),
        (
            r#"{"max_tokens":9000,"thinking":{"type":"adaptive","display":"summarized"},"output_config":{"effort":"medium","format":{}}}"#,
            r#"{"max_tokens":9000,"thinking":{"type":"enabled","budget_tokens":8192},"output_config":{"format":{}}}"#,
        ),
        (
            r#"{"max_tokens":1000,"thinking":{"type":"adaptive"},"output_config":{"effort":"low"}}"#,
            r#"{"max_tokens":1000}"#,
        ),
        (
            r#"{"max_tokens":9000,"thinking":{"type":"enabled","budget_tokens":8192}}"#,
            r#"{"max_tokens":9000,"thinking":{"type":"adaptive","display":"summarized"},"output_config":{"effort":"medium"}}"#,
        ),
        (
            r#"{"thinking":{"type":"enabled","budget_tokens":65536,"display":"omitted"},"output_config":{"format":{}}}"#,
            r#"{"thinking":{"type":"adaptive","display":"omitted"},"output_config":{"effort":"high","format":{}}}"#,
        ),
    ] {
        let node = Node::parse(before).unwrap();
        let other = in_other_thinking_form(&node, None).unwrap();
        assert_eq!(json(std::str::from_utf8(&other).unwrap()), json(after));
    }
    for (max, budget, asked, wanted) in [
        (9000, 7200, Some(Effort::High), "high"),
        (9000, 7200, Some(Effort::Max), "high"),
        (9000, 1024, Some(Effort::Minimal), "low"),
        // The budget is not what the named effort gives, so the budget decides.
        (9000, 2000, Some(Effort::High), "medium"),
        (9000, 7200, Some(Effort::None), "medium"),
    ] {
        let body =
            serde_json::json!({"max_tokens": max, "thinking": {"type": "enabled", "budget_tokens": budget}});
        let body = body.to_string();
        let other = in_other_thinking_form(&Node::parse(&body).unwrap(), asked).unwrap();
        let effort = json(std::str::from_utf8(&other).unwrap())["output_config"]["effort"].clone();
        assert_eq!(effort, wanted, "{max} {budget} {asked:?}");
    }
    for body in ["{}", r#"{"thinking":{"type":"disabled"}}"#, r#"{"thinking":{"type":"enabled"}}"#, "[]"] {
        assert_eq!(in_other_thinking_form(&Node::parse(body).unwrap(), None), None, "{body}");
    }
}

#[test]
fn only_a_refusal_of_the_form_is_one() {
    for (status, message, wanted) in [
        (
            400,
            "\"thinking.type.enabled\" is not supported for this model. Use \"thinking.type.adaptive\" and \"output_config.effort\" to control thinking behavior.",
            true,
        ),
        (400, "adaptive thinking is not supported on this model", true),
        (
            400,
            "thinking: Input tag 'adaptive' found using 'type' does not match any of the expected tags",
            true,
        ),
        (400, "output_config.effort: Extra inputs are not permitted", true),
        (500, "adaptive thinking is not supported on this model", false),
        (400, "`max_tokens` must be greater than `thinking.budget_tokens`", false),
        (
            400,
            "Expected `thinking`, but found `tool_use`. When `thinking` is enabled, a final `assistant` message must start with a thinking block",
            false,
        ),
        (400, "Thinking may not be enabled when tool_choice forces tool use.", false),
        (400, "Invalid `signature` in `thinking` block", false),
        (400, "prompt is too long", false),
    ] {
        assert_eq!(refuses_thinking_form(status, &UpstreamError::new(message)), wanted, "{message}");
    }
}

#[test]
fn refused_thoughts_are_left_out() {
    let body = |thinking: &str, blocks: &str, next: &str| {
        format!(
            r#"{{"thinking":{{"type":"{thinking}"}},"context_management":{{}}, "messages":[{{"role":"assistant","content":[{blocks}]}},{{"role":"user","content":{next}}}]}}"#
        )
    };
    let signed = r#"{"type":"thinking","thinking":"a","signature":"SIG"}"#;
    let unsigned = r#"{"type":"thinking","thinking":"a","signature":""}"#;
    let redacted = r#"{"type":"redacted_thinking","data":"x"}"#;
    let call = r#"{"type":"tool_use","id":"t","name":"f","input":{}}"#;
    let result = r#"[{"type":"tool_result","tool_use_id":"t"}]"#;
    for (thinking, blocks, next, left, is_off) in [
        ("adaptive", format!("{unsigned},{call}"), result, Some(call.to_owned()), false),
        ("enabled", format!("{unsigned}, {signed},{call}"), result, Some(format!("{signed},{call}")), false),
        ("enabled", format!("{unsigned},{call}"), result, Some(call.to_owned()), true),
        ("enabled", call.to_owned(), result, Some(call.to_owned()), true),
        ("enabled", format!("{redacted},{signed},{call}"), r#""Hi""#, Some(call.to_owned()), false),
        ("adaptive", call.to_owned(), result, None, false),
    ] {
        let before = body(thinking, &blocks, next);
        let after = without_thoughts(&Node::parse(&before).unwrap());
        let after = after.map(|after| json(std::str::from_utf8(&after).unwrap()));
        let wanted = left.map(|left| {
            let mut wanted = json(&body(if is_off { "disabled" } else { thinking }, &left, next));
            if is_off {
                wanted.as_object_mut().unwrap().remove("context_management");
            }
            wanted
        });
        assert_eq!(after, wanted, "{before}");
    }
    for (message, wanted) in [
        ("messages.1.content.0: Invalid `signature` in `thinking` block", true),
        ("Expected `thinking` or `redacted_thinking`, but found `tool_use`.", true),
        ("adaptive thinking is not supported on this model", false),
        ("Invalid signature", false),
    ] {
        assert_eq!(refuses_thoughts(400, &UpstreamError::new(message)), wanted, "{message}");
    }
}

#[test]
fn a_refused_schema_is_closed_or_put_in_words() {
    let body = |config: &str| {
        format!(r#"{{"model":"m","system":[{{"type":"text","text":"A"}}],"output_config":{config}}}"#)
    };
    let format =
        |schema: &str| format!(r#"{{"effort":"low","format":{{"type":"json_schema","schema":{schema}}}}}"#);
    let closed = |schema: &str| {
        let body = body(&format(schema));
        let closed = with_schema_closed(&Node::parse(&body).unwrap())?;
        Some(json(std::str::from_utf8(&closed).unwrap()))
    };
    let open = r#"{"type":"object","additionalProperties":true,"properties":{"type":{"type":"string"},
        "all":{"anyOf":[{"type":"array","items":{"type":"object","properties":{}}}]}},"required":["type"]}"#;
    let shut = r#"{"type":"object","additionalProperties":false,"properties":{"type":{"type":"string"},
        "all":{"anyOf":[{"type":"array","items":{"type":"object","properties":{},"additionalProperties":false}}]}},"required":["type"]}"#;
    assert_eq!(closed(open), Some(json(&body(&format(shut)))));
    assert_eq!(closed(shut), None);
    // Values are not schemas, names of properties are not keywords, and a schema that may be an object counts as one.
    let open = r#"{"type":["object","null"],"default":{"type":"object"},"enum":[{"type":"object"}],
        "properties":{"default":{"type":"object"},"b":{"const":{"type":"object"},"examples":[{"type":"object"}]}}}"#;
    let shut = r#"{"type":["object","null"],"default":{"type":"object"},"enum":[{"type":"object"}],
        "properties":{"default":{"type":"object","additionalProperties":false},
        "b":{"const":{"type":"object"},"examples":[{"type":"object"}]}},"additionalProperties":false}"#;
    assert_eq!(closed(open), Some(json(&body(&format(shut)))));
    assert_eq!(closed(shut), None);
    for (message, wanted) in [
        ("output_config.format.schema: additionalProperties must be false", true),
        ("output_config: Extra inputs are not permitted", true),
        ("output_config.effort: Extra inputs are not permitted", false),
    ] {
        assert_eq!(refuses_schema(400, &UpstreamError::new(message)), wanted, "{message}");
    }
    for (config, left) in [
        (format("{}"), Some(json(r#"{"effort":"low"}"#))),
        (r#"{"format":{"type":"json_schema","schema":{}}}"#.to_owned(), None),
    ] {
        let said = with_schema_in_words(&Node::parse(&body(&config)).unwrap()).unwrap();
        let said = json(std::str::from_utf8(&said).unwrap());
        assert_eq!(said.get("output_config"), left.as_ref());
        assert_eq!(said["system"][0]["text"], "A");
        assert!(said["system"][1]["text"].as_str().unwrap().ends_with("nothing else:\n{}"), "{said}");
    }
    assert_eq!(with_schema_in_words(&Node::parse("{}").unwrap()), None);
}

#[test]
fn citations_of_what_another_provider_found_are_taken_out() {
    let own = r#"{"type":"web_search_result_location","url":"u","title":"t","cited_text":"","encrypted_index":"sy1:none"}"#;
    let anthropics = r#"{"type":"web_search_result_location","url":"u","encrypted_index":"EI=" }"#;
    for (block, wanted) in [
        (
            format!(r#"{{"type":"text","text":"Hi","citations":[{own}, {anthropics},{own}]}}"#),
            format!(r#"{{"type":"text","text":"Hi","citations":[{anthropics}]}}"#),
        ),
        (
            format!(r#"{{"citations":[{own}],"type":"text","text":"Hi"}}"#),
            r#"{"type":"text","text":"Hi"}"#.to_owned(),
        ),
    ] {
        let body = |block: &str| format!(r#"{{"messages":[{{"role":"assistant","content":[{block} ]}}]}}"#);
        let native = without_foreign_thinking(&Node::parse(&body(&block)).unwrap()).unwrap();
        assert_eq!(std::str::from_utf8(&native).unwrap(), body(&wanted));
    }
}

#[test]
fn searches_of_another_provider_are_taken_out() {
    let call = r#"{"type":"server_tool_use","id":"srvtoolu_sy0_1","name":"web_search","input":{}}"#;
    let found = r#"{"type":"web_search_tool_result","tool_use_id":"srvtoolu_sy0_1","content":[]}"#;
    let own = r#"{"type":"server_tool_use","id":"srvtoolu_01","name":"web_search","input":{}}"#;
    let body = |content: &str| format!(r#"{{"messages":[{{"role":"assistant","content":[{content}]}}]}}"#);
    let before = body(&format!("{call}, {found},{own}"));
    assert_eq!(cut(&before), Some(body(own)));
    assert_eq!(cut(&body(own)), None);
}
