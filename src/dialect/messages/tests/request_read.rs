use super::json;
use crate::dialect::any_json::any_json;
use crate::dialect::canonical::{
    Call, CallKind, ConversionError, Effort, File, Format, Image, Part, Reasoning, Request, Role, Source,
    Thinking, Tool, ToolChoice, ToolResult, WebSearch,
};
use crate::dialect::literal::{Json, Text};
use crate::dialect::messages::read_request;
use crate::dialect::signature::{self, Signature};
use crate::dialect::tree::Node;
use proptest::prelude::*;

/// Reads a body with these members beside the required ones, and returns what `look` takes from it.
fn read<R>(members: &str, look: impl FnOnce(Request<'_>) -> R) -> R {
    let comma = if members.is_empty() { "" } else { "," };
    let body = format!(r#"{{"max_tokens":5,"messages":[{{"role":"user","content":"Hi"}}]{comma}{members}}}"#);
    let node = Node::parse(&body).unwrap();
    look(read_request(&node).unwrap_or_else(|unfit| panic!("{unfit:?}: {body}")))
}

/// Returns the parts of a message with these blocks.
fn parts_of(blocks: &str) -> Vec<Part<'static>> {
    let body = format!(
        r#"{{"max_tokens":5,"messages":[{{"role":"assistant","content":[{blocks}]}},{{"role":"user","content":"x"}}]}}"#
    );
    let node = Node::parse(Box::leak(body.into_boxed_str())).unwrap();
    read_request(&node).unwrap().turns.swap_remove(0).parts
}

fn text(plain: &str) -> Part<'static> {
    Part::Text(Text::of(plain))
}

fn thinking(text: &str, signature: Option<Signature<'static>>) -> Part<'static> {
    Part::Thinking(Thinking { text: Text::of(text), signature })
}

fn file(source: Source<'static>, name: Option<&str>) -> Part<'static> {
    Part::File(File { source, name: name.map(Text::of) })
}

#[test]
fn every_kind_of_block_is_read() {
    let inline = |mime: &str| Source::Inline { mime: Text::of(mime), data: Text::of("QQ==") };
    let image = |source| Part::Image(Image { source, detail: None });
    let call = |input: &str| {
        Part::Call(Call {
            id: Text::of("toolu_1"),
            name: Text::of("add"),
            kind: CallKind::Function,
            input: Text::of(input),
            signature: None,
        })
    };
    let result = |parts, is_error| {
        Part::Result(ToolResult {
            call_id: Text::of("toolu_1"),
            kind: CallKind::Function,
            parts,
            listed: false,
            is_error,
        })
    };
    for (block, wanted) in [
        (r#"{"type":"text","text":" a\n"}"#, vec![text(" a\n")]),
        (r#"{"type":"text","text":""}"#, vec![text("")]),
        (r#""bare""#, vec![text("bare")]),
        (
            r#"{"type":"image","source":{"type":"base64","media_type":"image/png","data":"QQ=="}}"#,
            vec![image(inline("image/png"))],
        ),
        (
            r#"{"type":"image","source":{"type":"url","url":"https://a/b"}}"#,
            vec![image(Source::Url(Text::of("https://a/b")))],
        ),
        (
            r#"{"type":"image","source":{"type":"file","file_id":"f"}}"#,
            vec![image(Source::Id(Text::of("f")))],
        ),
        (
            r#"{"type":"document","title":"T","source":{"type":"base64","media_type":"application/pdf","data":"QQ=="}}"#,
            vec![file(inline("application/pdf"), Some("T"))],
        ),
        (
            r#"{"type":"document","source":{"type":"text","media_type":"text/plain","data":"words"}}"#,
            vec![file(Source::Plain(Text::of("words")), None)],
        ),
        (
            r#"{"type":"document","title":"T","source":{"type":"content","content":[{"type":"text","text":"a"},{"type":"text","text":"b"},{"type":"image","source":{"type":"file","file_id":"f"}}]}}"#,
            vec![file(Source::Plain(Text::of("a\nb")), Some("T")), image(Source::Id(Text::of("f")))],
        ),
        (
            r#"{"type":"thinking","thinking":"Hm.\n","signature":"SIG"}"#,
            vec![thinking("Hm.\n", Some(Signature::Anthropic(Text::of("SIG"))))],
        ),
        (r#"{"type":"thinking","thinking":"Hm.","signature":""}"#, vec![thinking("Hm.", None)]),
        (
            r#"{"type":"redacted_thinking","data":"EvAF"}"#,
            vec![thinking("", Some(Signature::AnthropicRedacted(Text::of("EvAF"))))],
        ),
        (
            r#"{"type":"tool_use","id":"toolu_1","name":"add","input":{ "a" : "x y" }}"#,
            vec![call(r#"{"a":"x y"}"#)],
        ),
        (r#"{"type":"tool_use","id":"toolu_1","name":"add"}"#, vec![call("{}")]),
        (r#"{"type":"tool_result","tool_use_id":"toolu_1"}"#, vec![result(vec![], false)]),
        (
            r#"{"type":"tool_result","tool_use_id":"toolu_1","content":"no","is_error":true}"#,
            vec![result(vec![text("no")], true)],
        ),
        (
            r#"{"type":"tool_result","tool_use_id":"toolu_1","content":[{"type":"text","text":"a"},{"type":"image","source":{"type":"file","file_id":"f"}}]}"#,
            vec![result(vec![text("a"), image(Source::Id(Text::of("f")))], false)],
        ),
        (
            r#"{"type":"search_result","source":"https://s","title":"T","content":[{"type":"text","text":"a"}]}"#,
            vec![text("T\nhttps://s\na")],
        ),
        (r#"{"type":"server_tool_use","id":"s","name":"web_search","input":{"query":"q"}}"#, vec![]),
        (
            r#"{"type":"web_search_tool_result","tool_use_id":"s","content":[{"type":"web_search_result","title":"T","url":"https://u","encrypted_content":"zzz"}]}"#,
            vec![text("\nT\nhttps://u\n")],
        ),
        (
            r#"{"type":"web_fetch_tool_result","tool_use_id":"s","content":{"type":"web_fetch_result","url":"https://u","content":{"type":"document","title":"T","source":{"type":"text","media_type":"text/plain","data":"words"}}}}"#,
            vec![text("\nhttps://u\nT\nwords\n")],
        ),
        (
            r#"{"type":"tool_result","tool_use_id":"toolu_1","content":[{"type":"tool_reference","tool_name":"add"}]}"#,
            vec![result(vec![text("add")], false)],
        ),
        (
            r#"{"type":"tool_search_tool_result","tool_use_id":"s","content":{"type":"tool_search_tool_search_result","tool_references":[{"type":"tool_reference","tool_name":"add"}]}}"#,
            vec![],
        ),
        (r#"{"type":"compaction","content":"So far: sums."}"#, vec![text("So far: sums.\n")]),
        (r#"{"type":"compaction","content":null}"#, vec![]),
        (r#"{"type":"container_upload","file_id":"f"}"#, vec![Part::Foreign(Text::of("container_upload"))]),
    ] {
        assert_eq!(parts_of(block), wanted, "{block}");
    }
}

#[test]
fn what_other_providers_signed_is_unpacked() {
    let openai = Signature::OpenAi {
        id: Some(Text::of("rs_1")),
        encrypted: Text::of("gAAA"),
        summary: vec![Text::of("One."), Text::of("Two.")],
    };
    let tag = signature::tag(&[(Text::EMPTY, openai.clone())]).unwrap();
    let shown = format!(r#"{{"type":"thinking","thinking":"shown","signature":"{}"}}"#, tag.literal());
    assert_eq!(parts_of(&shown), [thinking("One.\n\nTwo.", Some(openai.clone()))]);
    let redacted = format!(r#"{{"type":"redacted_thinking","data":"{}"}}"#, tag.literal());
    assert_eq!(parts_of(&redacted), [thinking("One.\n\nTwo.", Some(openai))]);

    let both = [
        (Text::of("a"), Signature::Anthropic(Text::of("S"))),
        (Text::EMPTY, Signature::AnthropicRedacted(Text::of("R"))),
    ];
    let tag = signature::tag(&both).unwrap();
    let block = format!(r#"{{"type":"thinking","thinking":"shown","signature":"{}"}}"#, tag.literal());
    let wanted = both.map(|(text, signature)| Part::Thinking(Thinking { text, signature: Some(signature) }));
    assert_eq!(parts_of(&block), wanted);

    let old = r#"{"type":"thinking","thinking":"shown","signature":"metapi:openai-encrypted-reasoning:e"}"#;
    let [Part::Thinking(read)] = &parts_of(old)[..] else { panic!("one part") };
    assert_eq!(read.text, Text::of("shown"));
    let damaged = r#"{"type":"thinking","thinking":"shown","signature":"sy1:anthropic:!"}"#;
    assert_eq!(parts_of(damaged), [thinking("shown", None)]);
}

#[test]
fn every_member_is_read() {
    read(r#""temperature":0.50,"top_p":1,"top_k":7,"stop_sequences":["a"," ",5,"\n\nb"]"#, |request| {
        let number = |json: &Option<Json<'_>>| json.as_ref().map(|json| json.as_str().to_owned());
        assert_eq!(number(&request.temperature).as_deref(), Some("0.50"));
        assert_eq!(number(&request.top_p).as_deref(), Some("1"));
        assert_eq!(number(&request.top_k).as_deref(), Some("7"));
        assert_eq!(request.stop, [Text::of("a"), Text::of(" "), Text::of("\n\nb")]);
        assert_eq!(request.max_output, Some(5));
    });
    read(
        r#""metadata":{"user_id":"u"},"mcp_servers":[],"container":null,"service_tier":"auto""#,
        |request| {
            assert_eq!(request.user, Some(Text::of("u")));
            assert!(request.native.is_empty() && request.service_tier.is_none());
        },
    );
    read(
        r#""mcp_servers":[{}],"container":"c","prompt_cache_key":"k","previous_response_id":"r""#,
        |request| {
            assert_eq!(request.native, ["mcp_servers", "container"]);
            assert_eq!(request.cache_key, Some(Text::of("k")));
            assert_eq!(request.openai.len(), 1);
        },
    );
    for system in [r#""S""#, r#"[{"type":"text","text":"S","cache_control":{"type":"ephemeral"}}]"#] {
        read(&format!(r#""system":{system}"#), |request| assert_eq!(request.system, [Text::of("S")]));
    }
    read(
        r#""system":[{"type":"text","text":"A"},{"type":"text","text":""},{"type":"text","text":"B"}]"#,
        |request| {
            assert_eq!(request.system, [Text::of("A"), Text::of("B")]);
        },
    );
    for format in [r#""output_config":{"format":F}"#, r#""output_format":F"#] {
        let member = format.replace('F', r#"{"type":"json_schema","schema":{"type":"object"}}"#);
        read(&member, |request| match request.format {
            Some(Format::JsonSchema { name: Some(name), schema: Some(schema), .. }) => {
                assert!(name.is("output") && schema.as_str() == r#"{"type":"object"}"#);
            }
            other => panic!("{other:?}"),
        });
    }
}

#[test]
fn the_ways_to_ask_for_thinking_are_read() {
    let on = Reasoning { encrypted: true, summary: Some(Text::of("auto")), ..Reasoning::default() };
    for (members, wanted) in [
        ("", Reasoning::default()),
        (r#""thinking":{"type":"disabled"}"#, Reasoning { off: true, ..Reasoning::default() }),
        (
            r#""thinking":{"type":"enabled","budget_tokens":2048}"#,
            Reasoning { budget: Some(2048), ..on.clone() },
        ),
        (r#""thinking":{"type":"adaptive"}"#, Reasoning { effort: Some(Effort::High), ..on.clone() }),
        (r#""thinking":{"type":"between_tools"}"#, Reasoning { effort: Some(Effort::High), ..on.clone() }),
        (
            r#""thinking":{"type":"adaptive","display":"omitted"},"output_config":{"effort":"xhigh"}"#,
            Reasoning { effort: Some(Effort::XHigh), summary: None, ..on.clone() },
        ),
        (
            r#""thinking":{"type":"enabled","budget_tokens":2048},"output_config":{"effort":"low"}"#,
            Reasoning { effort: Some(Effort::Low), budget: Some(2048), ..on.clone() },
        ),
        (
            r#""output_config":{"effort":"medium"}"#,
            Reasoning { effort: Some(Effort::Medium), ..Reasoning::default() },
        ),
    ] {
        read(members, |request| assert_eq!(request.reasoning, wanted, "{members}"));
    }
}

#[test]
fn tools_and_their_choice_are_read() {
    let tools = r#""tools":[{"name":"add","description":"Add","input_schema":{"type":"object"},"strict":true},
        {"type":"custom","name":"sub","defer_loading":true},{"name":" "},
        {"type":"tool_search_tool_bm25_20251119","name":"tool_search_tool_bm25"},
        {"type":"web_search_20250305","name":"web_search","max_uses":3,"user_location":{"type":"approximate","city":"X"}},
        {"type":"code_execution_20250825","name":"code_execution"}]"#;
    read(tools, |request| {
        let function = |name: &str, strict| Tool::Function {
            name: Text::of(name),
            description: (name == "add").then(|| Text::of("Add")),
            parameters: (name == "add").then(|| Json::of(&json(r#"{"type":"object"}"#))),
            strict,
        };
        let search = WebSearch {
            context_size: None,
            user_location: Some(Json::of(&json(r#"{"type":"approximate","city":"X"}"#))),
            max_uses: Some(3),
            allowed_domains: None,
        };
        assert_eq!(request.tools[..2], [function("add", Some(true)), function("sub", None)]);
        let Tool::WebSearch(read) = &request.tools[2] else { panic!("web search") };
        assert_eq!((read.max_uses, &read.context_size), (search.max_uses, &search.context_size));
        assert_eq!(request.tools[3..], [Tool::Hosted(Text::of("code_execution_20250825"))]);
    });
    let named = |name: &str| ToolChoice::Named { name: Text::of(name), kind: CallKind::Function };
    for (choice, wanted, parallel) in [
        (r#"{"type":"auto"}"#, ToolChoice::Auto, None),
        (r#"{"type":"none"}"#, ToolChoice::None, None),
        (r#"{"type":"any","disable_parallel_tool_use":true}"#, ToolChoice::Required, Some(false)),
        (r#"{"type":"tool","name":"add","disable_parallel_tool_use":false}"#, named("add"), None),
        (r#"{"type":"tool","name":"web_search"}"#, ToolChoice::Hosted(Text::of("web_search")), None),
        (
            r#"{"type":"tool","name":"code_execution"}"#,
            ToolChoice::Hosted(Text::of("code_execution_20250825")),
            None,
        ),
    ] {
        read(&format!(r#"{tools},"tool_choice":{choice}"#), |request| {
            assert_eq!(request.tool_choice, Some(wanted), "{choice}");
            assert_eq!(request.parallel, parallel, "{choice}");
        });
    }
}

#[test]
fn tools_that_the_client_runs_are_functions_with_their_published_schema() {
    for (kind, name, required) in [
        ("bash_20250124", "bash", json("null")),
        ("text_editor_20250124", "str_replace_editor", json(r#"["command","path"]"#)),
        ("text_editor_20250728", "str_replace_based_edit_tool", json(r#"["command","path"]"#)),
        ("memory_20250818", "memory", json(r#"["command"]"#)),
        ("computer_20251124", "computer", json(r#"["action"]"#)),
    ] {
        let members = format!(
            r#""tools":[{{"type":"{kind}","name":"{name}"}}],"tool_choice":{{"type":"tool","name":"{name}"}}"#
        );
        read(&members, |request| {
            let [Tool::Function { name: read, parameters: Some(schema), .. }] = &request.tools[..] else {
                panic!("a function: {:?}", request.tools)
            };
            assert!(read.is(name));
            assert_eq!(json(schema.as_str())["required"], required);
            assert!(matches!(request.tool_choice, Some(ToolChoice::Named { .. })));
        });
    }
    let commands = |kind: &str, more: &str| {
        read(&format!(r#""tools":[{{"type":"{kind}"{more}}}]"#), |request| {
            let [Tool::Function { description: Some(said), parameters: Some(schema), .. }] =
                &request.tools[..]
            else {
                panic!("a function: {:?}", request.tools)
            };
            (said.decode().into_owned(), json(schema.as_str())["properties"]["command"]["enum"].to_string())
        })
    };
    assert!(commands("text_editor_20241022", "").1.contains("undo_edit"));
    assert!(!commands("text_editor_20250728", r#","name":"""#).1.contains("undo_edit"));
    let screen = commands("computer_20250124", r#","display_width_px":1280,"display_height_px":800"#).0;
    assert!(screen.ends_with("The screen is 1280 by 800 pixels."), "{screen}");
    for kind in ["code_execution_20250825", "computer_toolset_20260801", "web_fetch_20250910"] {
        read(&format!(r#""tools":[{{"type":"{kind}","name":"bash"}}]"#), |request| {
            assert_eq!(request.tools, [Tool::Hosted(Text::of(kind))]);
            assert_eq!(request.native, ["tools"]);
        });
    }
}

#[test]
fn what_cannot_be_understood_is_refused_by_its_path() {
    let with = |members: &str| {
        format!(r#"{{"max_tokens":5,"messages":[{{"role":"user","content":"Hi"}}],{members}}}"#)
    };
    let messages = |messages: &str| format!(r#"{{"max_tokens":5,"messages":{messages}}}"#);
    for (body, wanted) in [
        (r#"{"messages":[{"role":"user","content":"Hi"}]}"#.to_owned(), "max_tokens"),
        (r#"{"max_tokens":0,"messages":[{"role":"user","content":"Hi"}]}"#.to_owned(), "max_tokens"),
        (r#"{"max_tokens":-1,"messages":[{"role":"user","content":"Hi"}]}"#.to_owned(), "max_tokens"),
        (r#"{"max_tokens":5}"#.to_owned(), "messages"),
        (messages("[]"), "messages"),
        (messages("{}"), "messages"),
        (messages(r#"[{"role":"tool","content":""}]"#), "messages[0].role"),
        (messages(r#"[{"role":"user"}]"#), "messages[0].content"),
        (messages(r#"[{"role":"user","content":5}]"#), "messages[0].content"),
        (messages(r#"[{"role":"user","content":["a",7]}]"#), "messages[0].content[1]"),
        (messages(r#"[{"role":"user","content":[{"type":"image"}]}]"#), "messages[0].content[0]"),
        (
            messages(r#"[{"role":"user","content":[{"type":"document","source":{}}]}]"#),
            "messages[0].content[0]",
        ),
        (
            messages(r#"[{"role":"user","content":[{"type":"tool_result","content":5}]}]"#),
            "messages[0].content[0].content",
        ),
        (with(r#""system":5"#), "system"),
        (with(r#""system":[{"type":"text","text":"a"},{"type":"image"}]"#), "system[1]"),
        (with(r#""thinking":{"type":"on"}"#), "thinking.type"),
        (with(r#""thinking":{}"#), "thinking.type"),
        (with(r#""thinking":{"type":"enabled"}"#), "thinking.budget_tokens"),
        (with(r#""thinking":{"type":"enabled","budget_tokens":0}"#), "thinking.budget_tokens"),
        (with(r#""tool_choice":{"type":"some"}"#), "tool_choice.type"),
        (with(r#""tool_choice":"auto""#), "tool_choice.type"),
        (with(r#""tool_choice":{"type":"tool"}"#), "tool_choice.name"),
    ] {
        let node = Node::parse(&body).unwrap();
        match read_request(&node) {
            Err(ConversionError::Invalid { field, message }) => {
                assert_eq!(field, wanted, "{body}");
                assert!(message.starts_with(wanted), "{message}");
            }
            other => panic!("{other:?}: {body}"),
        }
    }
}

#[test]
fn only_the_first_system_messages_join_the_system_texts() {
    let body = r#"{"max_tokens":5,"system":"A","messages":[{"role":"system","content":"B"},{"role":"user","content":"Hi"},{"role":"system","content":[{"type":"text","text":"C"},{"type":"text","text":""}]}]}"#;
    let node = Node::parse(body).unwrap();
    let request = read_request(&node).unwrap();
    assert_eq!(request.system, [Text::of("A"), Text::of("B")]);
    assert_eq!(request.turns.len(), 2);
    assert_eq!(request.turns[0].role, Role::User);
    assert_eq!(
        (request.turns[1].role, &request.turns[1].parts),
        (Role::System, &vec![Part::Text(Text::of("C"))])
    );
    let body = r#"{"max_tokens":5,"messages":[{"role":"user","content":"Hi"},{"role":"system","content":[{"type":"tool_removal","tool":{"type":"tool_reference","name":"add"}}]}]}"#;
    let node = Node::parse(body).unwrap();
    assert!(
        matches!(read_request(&node), Err(ConversionError::Unsupported { field, .. }) if field == "tool_removal")
    );
}

#[test]
fn what_is_for_anthropics_accounts_stays_with_anthropic() {
    let billing = r#"{"type":"text","text":"x-anthropic-billing-header: cc_version=2; cch=1a2b3;"}"#;
    let quoted = r#"{"type":"text","text":"\"x-anthropic-billing-header: \" is a header"}"#;
    read(&format!(r#""system":[{billing},{quoted},{{"type":"text","text":"A"}}]"#), |request| {
        assert_eq!(request.system, [Text::of("\"x-anthropic-billing-header: \" is a header"), Text::of("A")]);
    });
}

/// The words of this dialect.
pub(super) const WORDS: &[&str] = &[
    "type",
    "text",
    "content",
    "messages",
    "role",
    "user",
    "assistant",
    "tool_use",
    "tool_result",
    "input",
    "id",
    "name",
    "source",
    "data",
    "thinking",
    "signature",
    "redacted_thinking",
    "image",
    "document",
    "base64",
    "usage",
    "input_tokens",
    "stop_reason",
    "content_block",
    "delta",
    "index",
    "message",
    "text_delta",
    "input_json_delta",
    "partial_json",
    "max_tokens",
    "tools",
    "tool_choice",
    "error",
];

proptest! {
    #[test]
    fn any_request_gives_a_value_or_an_error(body in any_json(WORDS), messages in any_json(WORDS)) {
        let mut body = body;
        if let Some(members) = body.as_object_mut() {
            members.insert("max_tokens".into(), 5.into());
            members.insert("messages".into(), messages);
        }
        let text = body.to_string();
        let node = Node::parse(&text).unwrap();
        if let Ok(request) = read_request(&node)
            && let Ok(written) = super::super::write_request(&request, &super::target("claude-opus-4-6"))
        {
            prop_assert!(serde_json::from_slice::<serde_json::Value>(&written).is_ok());
        }
    }
}
