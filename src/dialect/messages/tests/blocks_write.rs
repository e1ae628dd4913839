use serde_json::{Value, json as value};

use super::said::{assistant, call, function, messages, result, signed, text, thinking, user, written};
use super::without_breakpoints;
use crate::dialect::canonical::{CallKind, ConversionError, File, Image, Part, Source, ToolResult};
use crate::dialect::literal::Text;
use crate::dialect::signature::Signature;

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
    assert_eq!(nothing, Err(ConversionError::without_content()));
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
        listed: false,
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
    let inline = |mime: &str, data: &str| Source::inline(Text::of(mime), Text::of(data));
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
            None => assert_eq!(body, Err(ConversionError::unsupported("file"))),
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
