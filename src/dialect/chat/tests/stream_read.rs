//! Streams, read: the peculiarities of upstreams.

use crate::dialect::stream_event::StreamEvent;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{chunk, events, finish, short};
use crate::dialect::chat::StreamReader;

fn done() -> String {
    "[DONE]".to_owned()
}

/// Returns a chunk with this piece as its only call.
fn piece(piece: Value) -> String {
    chunk(json!({"tool_calls":[piece]}))
}

/// Returns the events of these chunks and a clean end, without those that all streams have.
fn said(mut chunks: Vec<String>) -> Vec<String> {
    chunks.extend([finish("stop"), done()]);
    let seen = events(&chunks);
    assert_eq!(
        (seen.first().map(String::as_str), seen.last().map(String::as_str)),
        (Some("Start c1 m"), Some("Close"))
    );
    seen[1..seen.len() - 1].to_vec()
}

#[test]
fn a_plain_stream_is_read() {
    let usage = json!({"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2}}).to_string();
    let seen = events(&[
        chunk(json!({"role":"assistant","content":""})),
        chunk(json!({"content":"hel"})),
        chunk(json!({"content":"lo"})),
        finish("stop"),
        usage,
        done(),
    ]);
    let wanted = [
        "Start c1 m",
        "+0 Text",
        "0 hel",
        "0 lo",
        "-0",
        "Finish End",
        "Usage Some(3) Some(2)",
        "End",
        "Close",
    ];
    assert_eq!(seen, wanted);
}

#[test]
fn every_kind_closes_the_one_before() {
    let seen = said(vec![
        chunk(json!({"reasoning_content":"t"})),
        chunk(json!({"reasoning_signature":"metapi:anthropic-signature:S"})),
        chunk(json!({"content":"a"})),
        chunk(json!({"reasoning":"u"})),
        chunk(json!({"refusal":"no"})),
        piece(json!({"index":0,"id":"x","function":{"name":"f","arguments":""}})),
        piece(json!({"index":0,"function":{"arguments":"{}"}})),
    ]);
    let wanted = [
        "+0 Thinking",
        "0 t",
        "0 Anthropic(\"S\")",
        "-0",
        "+1 Text",
        "1 a",
        "-1",
        "+2 Thinking",
        "2 u",
        "-2",
        "+3 Refusal",
        "3 no",
        "-3",
        "+4 Call x:f",
        "4 {}",
        "-4",
        "Finish ToolCall",
        "End",
    ];
    assert_eq!(seen, wanted);
}

#[test]
fn one_call_in_pieces_without_ids_is_one_call() {
    let arguments = |text: &str| piece(json!({"function":{"arguments":text}}));
    let seen = said(vec![
        chunk(json!({"content":"x"})),
        piece(json!({"function":{"name":"add","arguments":""}})),
        arguments("{\"a\""),
        arguments(":1"),
        arguments(","),
        arguments("\"b\":2}"),
    ]);
    let wanted = [
        "+0 Text",
        "0 x",
        "-0",
        "+1 Call :add",
        // The call is held until the answer is over, because its id may still come.
        "1 {\"a\":1,\"b\":2}",
        "-1",
        "Finish ToolCall",
        "End",
    ];
    assert_eq!(seen, wanted);
}

#[test]
fn calls_are_told_apart() {
    let call = |index: Value, id: Value, name: Value, arguments: Value| json!({"index":index,"id":id,"function":{"name":name,"arguments":arguments}});
    let null = Value::Null;
    let two = ["+0 Call x:f", "0 1", "+1 Call y:g", "1 2", "1 3", "-0", "-1"];
    let nameless = ["+0 Call :f", "0 1", "+1 Call :g", "1 23", "-0", "-1"];
    for (pieces, wanted) in [
        // All numbered 0, with ids of their own.
        (
            vec![
                call(json!(0), json!("x"), json!("f"), json!("1")),
                call(json!(0), json!("y"), json!("g"), json!("2")),
                call(json!(0), json!(""), null.clone(), json!("3")),
            ],
            two.to_vec(),
        ),
        // Not numbered.
        (
            vec![
                call(null.clone(), json!("x"), json!("f"), json!("1")),
                call(null.clone(), json!("y"), json!("g"), json!("2")),
                call(null.clone(), json!("y"), json!("g"), json!("3")),
            ],
            two.to_vec(),
        ),
        // Neither numbered nor with ids.
        (
            vec![
                call(null.clone(), null.clone(), json!("f"), json!("1")),
                call(null.clone(), null.clone(), json!("g"), json!("2")),
                call(null.clone(), null.clone(), json!("g"), json!("3")),
            ],
            nameless.to_vec(),
        ),
        // The ids come last.
        (
            vec![
                call(json!(0), null.clone(), json!("f"), json!("1")),
                call(json!(1), null.clone(), json!("g"), json!("2")),
                call(json!(0), json!("x"), null.clone(), null.clone()),
                call(json!(1), json!("y"), null.clone(), json!("3")),
            ],
            vec!["+0 Call x:f", "0 1", "+1 Call y:g", "1 23", "-0", "-1"],
        ),
        // The name comes without input, and then again.
        (
            vec![
                call(json!(3), json!("x"), json!("f"), json!("1")),
                call(json!(4), json!("y"), json!("g"), null.clone()),
                call(json!(4), json!("y"), json!("g"), json!("2")),
                call(json!(4), null.clone(), null.clone(), json!("3")),
            ],
            two.to_vec(),
        ),
    ] {
        let seen = said(pieces.iter().cloned().map(piece).collect());
        assert_eq!(seen[..seen.len() - 2], wanted, "{pieces:?}");
    }
}

#[test]
fn pieces_of_calls_may_alternate() {
    let part = |index: u64, text: &str| piece(json!({"index":index,"function":{"arguments":text}}));
    let head = |index: u64, id: &str| piece(json!({"index":index,"id":id,"function":{"name":"f"}}));
    let seen = said(vec![
        head(0, "x"),
        head(1, "y"),
        part(0, "a"),
        part(1, "b"),
        part(0, "c"),
        chunk(json!({"content":" after"})),
        part(1, "d"),
    ]);
    let wanted = [
        "+0 Call x:f",
        "+1 Call y:f",
        "0 a",
        "1 b",
        "0 c",
        "1 d",
        "-0",
        "-1",
        "+2 Text",
        "2  after",
        "-2",
        "Finish ToolCall",
        "End",
    ];
    assert_eq!(seen, wanted);
}

#[test]
fn a_complete_call_is_closed_when_the_next_one_begins() {
    let part = |index: u64, text: &str| piece(json!({"index":index,"function":{"arguments":text}}));
    let head = |index: u64, id: &str| piece(json!({"index":index,"id":id,"function":{"name":"f"}}));
    let seen = said(vec![
        head(0, "x"),
        part(0, r#"{"a":"}"#),
        part(0, r#""}"#),
        head(1, "y"),
        part(1, "{"),
        part(0, "late"),
        part(1, "}"),
    ]);
    let wanted = [
        "+0 Call x:f",
        "0 {\"a\":\"}",
        "0 \"}",
        "-0",
        "+1 Call y:f",
        "1 {",
        "1 }",
        "-1",
        "Finish ToolCall",
        "End",
    ];
    assert_eq!(seen, wanted);
}

#[test]
fn text_after_calls_does_not_wait_for_ever() {
    let mut chunks = vec![piece(json!({"index":0,"id":"x","function":{"name":"f","arguments":"{}"}}))];
    chunks.extend(std::iter::repeat_n(chunk(json!({"content":"y".repeat(8192)})), 6));
    let mut reader = StreamReader::default();
    let mut seen = 0;
    for chunk in &chunks {
        reader.read(&StreamEvent::new(b"", chunk), &mut |event| {
            seen += usize::from(short(&event).contains("yy"))
        });
    }
    assert_eq!(seen, 2, "the held text as one, then the next chunk");
}

#[test]
fn calls_in_odd_forms_are_understood() {
    for (delta, wanted) in [
        (json!({"function_call":{"name":"f","arguments":"{}"}}), vec!["+0 Call :f", "0 {}", "-0"]),
        (
            json!({"tool_calls":[{"id":"x","function":{"name":"f","arguments":{"a": [1, 2]}}}]}),
            vec!["+0 Call x:f", "0 {\"a\":[1,2]}", "-0"],
        ),
        (
            json!({"tool_calls":[{"function":{"name":"f","arguments":"1"}},{"function":{"name":"f","arguments":"2"}}]}),
            vec!["+0 Call :f", "0 1", "+1 Call :f", "1 2", "-0", "-1"],
        ),
        (json!({"tool_calls":[{"index":0,"function":{"name":"f"}}]}), vec!["+0 Call :f", "-0"]),
        (
            json!({"tool_calls":[{"id":"x","function":{"name":"f"},"extra_content":{"google":{"thought_signature":"C"}}}]}),
            vec!["+0 Call x:f Gemini(\"C\")", "-0"],
        ),
        (
            json!({"tool_calls":[{"id":"x","type":"custom","custom":{"name":"f","input":"free"}}]}),
            vec!["+0 Call x:f", "0 free", "-0"],
        ),
    ] {
        let seen = said(vec![chunk(delta.clone())]);
        assert_eq!(seen[..seen.len() - 2], wanted, "{delta}");
    }
}

#[test]
fn a_call_without_a_name_is_left_out_and_no_answer_by_itself() {
    let nameless = || piece(json!({"index":0,"id":"x","function":{"name":"","arguments":"{}"}}));
    let seen = said(vec![chunk(json!({"content":"t"})), nameless()]);
    assert_eq!(seen, ["+0 Text", "0 t", "-0", "Finish End", "End"]);
    let seen = events(&[nameless(), finish("tool_calls"), done()]);
    let failure = "Fail Upstream's stream has no content but calls without a name";
    assert_eq!(seen, ["Start c1 m", failure, "Close"]);
}

#[test]
fn thinking_within_the_answer_is_found() {
    let seen =
        said(["<th", "ink>t", "</think", ">x <think>"].map(|text| chunk(json!({"content":text}))).to_vec());
    assert_eq!(seen[..6], ["+0 Thinking", "0 t", "-0", "+1 Text", "1 x <think>", "-1"]);
    let seen = said(vec![chunk(json!({"reasoning_content":"r"})), chunk(json!({"content":"<think>"}))]);
    assert_eq!(seen[3..5], ["+1 Text", "1 <think>"]);
    let seen = said(vec![chunk(json!({"content":"<th"}))]);
    assert_eq!(seen[..3], ["+0 Text", "0 <th", "-0"]);
    let seen = said(vec![chunk(json!({"content":"<"})), piece(json!({"id":"x","function":{"name":"f"}}))]);
    assert_eq!(seen[..4], ["+0 Text", "0 <", "-0", "+1 Call x:f"]);
}

#[test]
fn repeated_text_is_not_lost() {
    let line = "the same line of thirty letter";
    for pieces in [vec!["hel", "lo f(", "(x))"], vec![line, line], vec![line; 6]] {
        let seen = said(pieces.iter().map(|text| chunk(json!({"content":text}))).collect());
        let text: String = seen.iter().filter_map(|event| event.strip_prefix("0 ")).collect();
        assert_eq!(text, pieces.concat());
    }
}

#[test]
fn what_was_held_back_comes_before_a_refusal() {
    for held in ["\n\n", "<", "<thi"] {
        let seen = said(vec![chunk(json!({"content":held,"refusal":""})), chunk(json!({"refusal":"no"}))]);
        let text = format!("0 {held}");
        assert_eq!(
            seen,
            ["+0 Text", &text, "-0", "+1 Refusal", "1 no", "-1", "Finish End", "End"],
            "{held:?}"
        );
    }
}

#[test]
fn snapshots_are_taken_apart() {
    let whole = "A sentence that goes on, and on, and on.";
    let seen = said([25, 28, 30, 35, 40].map(|end| chunk(json!({"content":whole[..end]}))).to_vec());
    let text: String = seen.iter().filter_map(|event| event.strip_prefix("0 ")).collect();
    assert_eq!(text, whole);
}

#[test]
fn a_last_message_does_not_repeat_what_came_in_pieces() {
    let call = json!([{"index":0,"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]);
    let whole = json!({"role":"assistant","content":"ab","reasoning_content":"hm","tool_calls":call});
    let last = json!({"object":"chat.completion","choices":[{"index":0,"message":whole,"finish_reason":"stop"}],
        "usage":{"prompt_tokens":3}});
    let seen = events(&[
        chunk(json!({"role":"assistant","content":""})),
        chunk(json!({"reasoning_content":"hm"})),
        chunk(json!({"content":"a"})),
        chunk(json!({"content":"b"})),
        chunk(json!({"tool_calls":call})),
        last.to_string(),
    ]);
    let pieces: Vec<_> = seen.iter().filter(|event| event.starts_with(char::is_numeric)).collect();
    assert_eq!(pieces, ["0 hm", "1 a", "1 b", "2 {}"], "{seen:?}");
    assert!(
        seen.contains(&"Finish ToolCall".to_owned()) && seen.contains(&"Usage Some(3) None".to_owned()),
        "{seen:?}"
    );
    // Other sites send pieces as messages.
    let piece = |text: &str| json!({"choices":[{"index":0,"message":{"content":text}}]}).to_string();
    let seen =
        events(&[chunk(json!({"role":"assistant","content":""})), piece("a"), piece("b"), finish("stop")]);
    assert_eq!(seen[2..4], ["0 a", "0 b"], "{seen:?}");
    // A name says nothing.
    let named = chunk(json!({"role":"assistant","name":"Model"}));
    let seen = events(&[named, piece("whole"), finish("stop")]);
    assert!(seen.contains(&"0 whole".to_owned()), "{seen:?}");
}

#[test]
fn odd_chunks_do_no_harm() {
    let seen = events(&[
        json!({"id":"","model":"","choices":[],"prompt_filter_results":[]}).to_string(),
        "not json".to_owned(),
        String::new(),
        "5".to_owned(),
        chunk(json!({"role":null,"content":null,"tool_calls":null})),
        json!({"id":"c1","model":"m","choices":[{"index":1,"delta":{"content":"other"}}]}).to_string(),
        json!({"choices":[{"index":0,"message":{"role":"assistant","content":"whole"}}]}).to_string(),
        json!({"choices":[{"delta":{"content":[{"type":"text","text":" parts"}]},"finish_reason":""}]})
            .to_string(),
        finish("length"),
        chunk(json!({"content":"late"})),
        finish("stop"),
        json!({"error":{"message":"late"}}).to_string(),
        json!({"choices":[],"usage":{"prompt_tokens":3}}).to_string(),
    ]);
    let wanted = [
        "Start c1 m",
        "+0 Text",
        "0 whole",
        "0  parts",
        "-0",
        "Finish OutputLimit",
        "Usage Some(3) None",
        "Close",
        "End",
    ];
    assert_eq!(seen, wanted);
}

#[test]
fn only_a_complete_answer_ends() {
    let text = || chunk(json!({"content":"x"}));
    let call = || piece(json!({"index":0,"id":"x","function":{"name":"f","arguments":"{\"a"}}));
    for (chunks, wanted) in [
        (vec![text(), done()], vec!["-0", "Finish End", "End", "Close"]),
        (vec![call(), done()], vec!["-0", "Finish ToolCall", "End", "Close"]),
        (vec![call(), finish("length"), done()], vec!["-0", "Finish OutputLimit", "End", "Close"]),
        (vec![text(), finish("stop")], vec!["-0", "Finish End", "Close", "End"]),
        (vec![text()], vec!["0 x", "Close"]),
        (vec![done()], vec!["Fail Upstream's stream has no content", "Close"]),
        (
            vec![chunk(json!({"role":"assistant"})), done()],
            vec!["Fail Upstream's stream has no content", "Close"],
        ),
    ] {
        let seen = events(&chunks);
        assert_eq!(seen[seen.len() - wanted.len()..], wanted, "{chunks:?}");
    }
}

#[test]
fn an_error_ends_the_stream() {
    for (error, wanted) in [
        (json!({"error":{"message":"no"}}), "no"),
        (json!({"error":"no"}), "no"),
        (json!({"code":500,"message":"no"}), "no"),
        (json!({"type":"error","message":"no"}), "no"),
        (
            json!({"error":{"message":"no"},"choices":[{"delta":{"content":""},"finish_reason":"error"}]}),
            "no",
        ),
        (
            json!({"choices":[{"delta":{},"finish_reason":"error"}]}),
            "Upstream reported an error in its answer",
        ),
    ] {
        let seen = events(&[
            chunk(json!({"content":"x"})),
            error.to_string(),
            chunk(json!({"content":"y"})),
            done(),
        ]);
        assert_eq!(seen[3..], [format!("Fail {wanted}"), "Close".to_owned()], "{error}");
    }
    for (data, wanted) in [
        ("overloaded", "overloaded"),
        ("{\"message\":\"m\"}", "m"),
        ("{}", "Upstream reported an error in its answer"),
    ] {
        let mut seen = Vec::new();
        StreamReader::default()
            .read(&StreamEvent::new(b"error", data), &mut |event| seen.push(short(&event)));
        assert_eq!(seen, [format!("Fail {wanted}")], "{data}");
    }
}

proptest! {
    #[test]
    fn text_comes_out_as_it_went_in(pieces in prop::collection::vec("[^<]{0,3}|\\PC", 0..12)) {
        let text = pieces.concat();
        prop_assume!(!text.trim_start().starts_with('<'));
        let mut reader = StreamReader::default();
        let mut out = String::new();
        for piece in &pieces {
            let each = &mut |event: crate::dialect::canonical::Event<'_>| {
                if let crate::dialect::canonical::Event::Delta { text, .. } = event {
                    out.push_str(&text.decode());
                }
            };
            reader.read(&StreamEvent::new(b"", &chunk(json!({"content":piece}))), each);
        }
        reader.close(&mut |event| if let crate::dialect::canonical::Event::Delta { text, .. } = event {
            out.push_str(&text.decode());
        });
        prop_assert_eq!(out, text);
    }

    #[test]
    fn any_chunks_keep_the_grammar(
        picks in prop::collection::vec((0usize..9, 0u64..3, "[xy]?", "[fg]?", "[a<]{0,3}"), 0..12),
    ) {
        let chunks: Vec<String> = picks.iter().map(|(kind, index, id, name, text)| match kind {
            0 => chunk(json!({"content":text})),
            1 => chunk(json!({"reasoning_content":text})),
            2 => piece(json!({"index":index,"id":id,"function":{"name":name,"arguments":text}})),
            3 => piece(json!({"id":id,"function":{"name":name,"arguments":text}})),
            4 => chunk(json!({"refusal":text})),
            5 => finish(text),
            6 => chunk(json!({"reasoning_signature":text,"content":name})),
            7 => chunk(json!({"function_call":{"name":name,"arguments":text}})),
            _ => json!({"choices":[text],"usage":index}).to_string(),
        }).chain([done()]).collect();
        let mut open: Vec<String> = Vec::new();
        let mut finished = false;
        for event in events(&chunks) {
            let key = |event: &str| event.split(' ').next().unwrap_or_default().trim_start_matches(['+', '-']).to_owned();
            if event.starts_with('+') {
                prop_assert!(!finished && !open.contains(&key(&event)));
                open.push(key(&event));
            } else if event.starts_with('-') {
                let at = open.iter().position(|own| *own == key(&event));
                prop_assert!(at.is_some(), "{event}");
                open.remove(at.unwrap_or_default());
            } else if event.starts_with(|c: char| c.is_ascii_digit()) {
                prop_assert!(open.contains(&key(&event)), "{event}");
            } else if event.starts_with("Finish") {
                prop_assert!(open.is_empty() && !finished);
                finished = true;
            }
        }
    }
}
