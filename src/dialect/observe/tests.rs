//! Streams of every dialect, watched whole and in pieces.

use super::*;
use Dialect::{Chat, Completions, Messages, Responses};
use proptest::prelude::*;

const CHAT: &str = r#"data: {"id":"c","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}],"usage":null}

: comment

data: {"choices":[{"index":0,"delta":{"content":"the \"error\" is"},"finish_reason":null}],"usage":null}

data: {"choices":[{"index":0,"delta":{"content":"error"},"finish_reason":null}],"usage":null}

data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":null}

data: {"choices":[],"usage": {"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}}

data: [DONE]

"#;

const MESSAGES: &str = r#"event: message_start
data: {"type":"message_start","message":{"id":"msg_1","content":[],"usage":{"input_tokens":80,"cache_read_input_tokens":40,"output_tokens":1}}}

event: ping
data: {"type":"ping"}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"an \"error\", message_stop"}}

event: content_block_stop
data: {"type":"content_block_stop","index":0}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":25}}

event: message_stop
data: {"type":"message_stop"}

"#;

const RESPONSES: &str = r#"event: response.created
data: {"type":"response.created","sequence_number":0,"response":{"id":"resp_1","status":"in_progress","error":null,"output":[]}}

event: response.output_item.added
data: {"type":"response.output_item.added","sequence_number":1,"item":{"id":"m","type":"message","status":"in_progress","content":[]}}

event: response.content_part.added
data: {"type":"response.content_part.added","sequence_number":2,"part":{"type":"output_text","text":"","annotations":[]}}

event: response.output_text.delta
data: {"type":"response.output_text.delta","sequence_number":3,"delta":"a \"response\" error"}

event: response.completed
data: {"sequence_number":4,"response":{"id":"resp_1","error":null,"output":[],"usage":{"input_tokens":3,"output_tokens":2,"total_tokens":5}},"type":"response.completed"}

"#;

fn observe(dialect: Dialect, chunks: &[&[u8]]) -> StreamObserver {
    let mut observer = StreamObserver::new(dialect);
    for chunk in chunks {
        observer.feed(chunk);
    }
    observer
}

fn phase_of(dialect: Dialect, data: &str) -> Phase {
    observe(dialect, &[format!("data: {data}\n\n").as_bytes()]).phase().clone()
}

/// Returns the state of a stream as other modules see it.
fn summary(observer: &StreamObserver) -> (Phase, Option<Usage>, bool, bool, u64) {
    let phase = observer.phase().clone();
    (phase, observer.usage(), observer.output_seen(), observer.is_finished(), observer.next_sequence())
}

#[test]
fn a_whole_stream_ends_with_its_usage() {
    for (dialect, stream, total) in [(Chat, CHAT, 5), (Messages, MESSAGES, 105), (Responses, RESPONSES, 5)] {
        let observer = observe(dialect, &[stream.as_bytes()]);
        assert_eq!(observer.phase(), &Phase::Ended, "{dialect:?}");
        assert_eq!(observer.usage().unwrap().total, Some(total), "{dialect:?}");
        assert!(observer.is_finished() && observer.output_seen() && observer.between_events());
        assert_eq!(observer.break_at(), None);
    }
    assert_eq!(observe(Responses, &[RESPONSES.as_bytes()]).next_sequence(), 5);
}

#[test]
fn a_stream_may_be_cut_at_any_byte() {
    for (dialect, stream) in [(Chat, CHAT), (Messages, MESSAGES), (Responses, RESPONSES)] {
        let stream = stream.as_bytes();
        let whole = summary(&observe(dialect, &[stream]));
        for cut in 0..stream.len() {
            let (one, other) = stream.split_at(cut);
            assert_eq!(summary(&observe(dialect, &[one, other])), whole, "{dialect:?} cut at {cut}");
        }
        let bytes: Vec<&[u8]> = stream.chunks(1).collect();
        assert_eq!(summary(&observe(dialect, &bytes)), whole, "{dialect:?} byte by byte");
    }
}

#[test]
fn a_stream_that_stops_early_is_not_ended() {
    for (dialect, stream, end) in [
        (Chat, CHAT, "\"finish_reason\":\"stop\""),
        (Messages, MESSAGES, "event: message_stop"),
        (Responses, RESPONSES, "event: response.completed"),
    ] {
        let mut observer = observe(dialect, &[&stream.as_bytes()[..stream.find(end).unwrap()]]);
        assert_eq!(observer.close(), &Phase::Output, "{dialect:?}");
    }
}

#[test]
fn a_last_event_needs_no_blank_line() {
    let mut observer = observe(Chat, &[CHAT.trim_end().as_bytes()]);
    assert!(!observer.is_finished());
    assert_eq!(observer.close(), &Phase::Ended);
    assert!(observer.is_finished());
}

#[test]
fn events_without_content_hold_the_commit_back() {
    for (dialect, data) in [
        (Chat, r#"{"choices":[]}"#),
        (
            Chat,
            r#"{"choices":[{"delta":{"role":"assistant","content":null,"tool_calls":[]},"finish_reason":""}]}"#,
        ),
        (Chat, r#"{"choices":[],"prompt_filter_results":[{"x":1}]}"#),
        (Completions, r#"{"choices":[{"text":"","finish_reason":null}]}"#),
        (
            Messages,
            r#"{"type":"content_block_start","content_block":{"type":"thinking","thinking":"","signature":""}}"#,
        ),
        (Messages, r#"{"type":"content_block_delta","delta":{"type":"text_delta","text":""}}"#),
        (Responses, r#"{"type":"response.in_progress","response":{"id":"r"}}"#),
        (Responses, r#"{"type":"response.queued","response":{"id":"r"}}"#),
        (
            Responses,
            r#"{"type":"response.output_item.added","item":{"id":"x","type":"reasoning","summary":[]}}"#,
        ),
        (
            Responses,
            r#"{"type":"response.reasoning_summary_part.added","part":{"type":"summary_text","text":""}}"#,
        ),
        (Responses, "[DONE]"),
        (Chat, r#"{"choices":[{"del"#),
        (Chat, r#"  {"choices":[{"del"#),
        (Chat, "  "),
    ] {
        assert_eq!(phase_of(dialect, data), Phase::Preamble, "{data}");
    }
    assert_eq!(observe(Messages, &[b"event: ping\ndata: {}\n\n: hi\n\n"]).phase(), &Phase::Preamble);
}

#[test]
fn anything_a_client_waits_for_is_output() {
    for (dialect, data) in [
        (Chat, r#"{"choices":[{"delta":{"content":"x"}}]}"#),
        (Chat, r#"{"choices":[{"delta":{"reasoning_content":"x"}}]}"#),
        (Chat, r#"{"choices":[{"delta":{"refusal":"x"}}]}"#),
        (Chat, r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"c"}]}}]}"#),
        (Chat, r#"{"choices":[{"message":{"content":"x"}}]}"#),
        (Chat, "no json"),
        (Completions, r#"{"choices":[{"text":" "}]}"#),
        (
            Messages,
            r#"{"type":"content_block_start","content_block":{"type":"tool_use","id":"t","name":"n","input":{}}}"#,
        ),
        (Messages, r#"{"type":"content_block_delta","delta":{"type":"thinking_delta","thinking":"x"}}"#),
        (Messages, r#"{"type":"something_new"}"#),
        (
            Responses,
            r#"{"type":"response.output_item.added","item":{"type":"function_call","name":"f","arguments":""}}"#,
        ),
        (Responses, r#"{"type":"response.reasoning_summary_text.delta","delta":"x"}"#),
        (Responses, r#"{"type":"response.something.new"}"#),
    ] {
        assert_eq!(phase_of(dialect, data), Phase::Output, "{data}");
    }
}

#[test]
fn a_clean_end_without_content_is_an_end() {
    for (dialect, data, output) in [
        (Chat, r#"{"choices":[{"delta":{},"finish_reason":"stop"}]}"#, false),
        (Messages, r#"{"type":"message_stop"}"#, false),
        (Responses, r#"{"type":"response.incomplete","response":{"output":[]}}"#, false),
        (
            Responses,
            r#"{"type":"response.completed","response":{"output":[{"type":"function_call"}]}}"#,
            true,
        ),
    ] {
        let observer = observe(dialect, &[format!("data: {data}\n\n").as_bytes()]);
        assert_eq!((observer.phase(), observer.output_seen()), (&Phase::Ended, output), "{data}");
    }
}

#[test]
fn half_a_letter_is_an_answer_as_well() {
    for (dialect, data, phase) in [
        (Chat, r#"{"choices":[{"delta":{"content":"\uD83d"}}]}"#, Phase::Output),
        (Chat, r#"{"choices":[{"delta":{"content":"\ude00"},"finish_reason":"stop"}]}"#, Phase::Ended),
        (
            Dialect::Gemini,
            r#"{"candidates":[{"content":{"parts":[{"text":"a\uDfff"}]},"finishReason":"STOP"}]}"#,
            Phase::Ended,
        ),
        (
            Responses,
            r#"{"type":"response.completed","response":{"output":[{"type":"message","content":[
            {"type":"output_text","text":"\\ud83d \ud83d"}]}],"usage":{"input_tokens":3,"output_tokens":2}}}"#,
            Phase::Ended,
        ),
    ] {
        let data = data.replace('\n', "");
        let observer = observe(dialect, &[format!("data: {data}\n\n").as_bytes()]);
        assert_eq!((observer.phase(), observer.output_seen()), (&phase, true), "{data}");
        assert_eq!(observer.usage().is_some(), data.contains("usage"), "{data}");
    }
}

#[test]
fn an_end_marker_after_nothing_is_no_answer() {
    let role = "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n";
    for before in ["", role] {
        let observer = observe(Chat, &[before.as_bytes(), b"data: [DONE]\n\n"]);
        assert!(matches!(observer.phase(), Phase::Failed(_)), "{before}");
    }
}

#[test]
fn error_events_fail_the_stream_before_and_after_output() {
    let output = |dialect| match dialect {
        Messages => r#"{"type":"content_block_delta","delta":{"type":"text_delta","text":"x"}}"#,
        Responses => r#"{"type":"response.output_text.delta","delta":"x"}"#,
        _ => r#"{"choices":[{"delta":{"content":"x"}}]}"#,
    };
    for (dialect, event, message, code) in [
        (Chat, r#"data: {"error":{"message":"gone","code":"c"}}"#, "gone", Some("c")),
        (
            Chat,
            r#"data: {"error":{"message":"gone","code":502},"choices":[{"delta":{"content":""},"finish_reason":"error"}]}"#,
            "gone",
            Some("502"),
        ),
        (Chat, r#"data: {"code":"c","message":"gone"}"#, "gone", Some("c")),
        (Chat, "event: error\ndata: gone", "gone", None),
        (Chat, r#"data: {"error":"gone"}"#, "gone", None),
        (
            Messages,
            "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"gone\"}}",
            "gone",
            None,
        ),
        (Messages, r#"data: {"error":{"message":"gone"}}"#, "gone", None),
        (Responses, r#"data: {"type":"error","code":"c","message":"gone","param":null}"#, "gone", Some("c")),
        (
            Responses,
            r#"data: {"type":"response.failed","response":{"status":"failed","error":{"code":"c","message":"gone"}}}"#,
            "gone",
            Some("c"),
        ),
    ] {
        let mut before = StreamObserver::new(dialect);
        let mut after = observe(dialect, &[format!("data: {}\n\n", output(dialect)).as_bytes()]);
        for observer in [&mut before, &mut after] {
            let Phase::Failed(error) = observer.feed(format!("{event}\n\n").as_bytes()) else {
                panic!("{event}")
            };
            assert_eq!((error.message.as_str(), error.code.as_deref()), (message, code), "{event}");
            assert_eq!(observer.break_at(), Some(Break { keep: 0, error_relayed: false }));
            assert!(matches!(observer.feed(b"data: [DONE]\n\n"), Phase::Failed(_)), "failure is final");
        }
    }
}

#[test]
fn a_failure_knows_what_the_client_may_still_have() {
    let mut observer = observe(Chat, &[b"data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\n"]);
    observer.feed(b": a comment\n\ndata: {\"error\":{\"message\":\"m\"}}\n\ndata: [DONE]\n\n");
    assert_eq!(observer.break_at(), Some(Break { keep: 13, error_relayed: false }));

    let mut observer = StreamObserver::new(Chat);
    observer.feed(b"data: {\"error\":{\"mess");
    assert!(!observer.between_events());
    observer.feed(b"age\":\"m\"}}\n\ndata: [DONE]\n\n");
    assert_eq!(observer.break_at(), Some(Break { keep: 12, error_relayed: true }));
}

#[test]
fn our_own_failure_continues_the_stream() {
    let mut observer = StreamObserver::new(Responses);
    observer.feed(&RESPONSES.as_bytes()[..RESPONSES.find("event: response.completed").unwrap()]);
    let event = observer.failure_event(&UpstreamError::new("gone"), "resp_2");
    let event = String::from_utf8(event.to_vec()).unwrap();
    assert!(event.contains("\"sequence_number\":4") && event.contains("\"id\":\"resp_1\""), "{event}");
}

#[test]
fn an_upstreams_own_failure_keeps_what_it_says_of_the_response() {
    let begun = r#"{"type":"response.created","response":{"id":"r","output":[],"usage":null}}"#;
    let failed = r#"{"type":"response.failed","sequence_number":7,"response":{"id":"r","status":"failed","output":[{"id":"m"}],"usage":{"input_tokens":1},"error":{"code":"rate_limit_exceeded","message":"slow"}}}"#;
    let mut observer = observe(Responses, &[format!("data: {begun}\n\ndata: {failed}\n\n").as_bytes()]);
    let error = observer.failure().unwrap().clone();
    let event = String::from_utf8(observer.failure_event(&error, "resp_2").to_vec()).unwrap();
    let told: serde_json::Value = serde_json::from_str(event.split_once("data: ").unwrap().1).unwrap();
    assert_eq!(told, serde_json::from_str::<serde_json::Value>(failed).unwrap());
    // An `error` event says nothing of the response; the items that came whole are its output, in their order.
    let failed = r#"{"type":"error","message":"m"}"#;
    let item = |index: u8, id: char| {
        format!(
            r#"{{"type":"response.output_item.done","output_index":{index},"item":{{"type":"message","id":"{id}"}}}}"#
        )
    };
    let open = r#"{"type":"response.output_item.added","output_index":2,"item":{"type":"message","id":"c"}}"#;
    for (items, output) in [
        (String::new(), r#""output":[],"#),
        (
            format!("data: {}\n\ndata: {open}\n\ndata: {}\n\n", item(1, 'b'), item(0, 'a')),
            r#""output":[{"id":"a","type":"message"},{"id":"b","type":"message"}],"#,
        ),
    ] {
        observer = observe(Responses, &[format!("data: {begun}\n\n{items}data: {failed}\n\n").as_bytes()]);
        let event = observer.failure_event(&UpstreamError::new("m"), "resp_2");
        let wanted = format!(r#"{output}"status":"failed","usage":null"#);
        assert!(String::from_utf8_lossy(&event).contains(&wanted), "{event:?}");
    }
}

#[test]
fn a_terminal_event_of_any_size_is_understood() {
    let mut observer = StreamObserver::new(Responses);
    observer.feed(
        b"event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"output\":[\"",
    );
    for _ in 0..100 {
        observer.feed(&[b'x'; 10_000]);
    }
    let end = br#""],"usage":{"input_tokens":3,"output_tokens":2}}}"#;
    observer.feed(end);
    assert_eq!(observer.feed(b"\n\n"), &Phase::Ended);
    assert_eq!(observer.usage().unwrap().total, Some(5));
}

#[test]
fn usage_in_every_chunk_keeps_the_last() {
    let mut observer = StreamObserver::new(Chat);
    for tokens in 1..=3 {
        let chunk = format!(
            "data: {{\"choices\":[{{\"delta\":{{\"content\":\"x\"}},\"finish_reason\":\"\"}}],\"usage\":{{\"completion_tokens\":{tokens}}}}}\n\n"
        );
        assert_eq!(observer.feed(chunk.as_bytes()), &Phase::Output);
    }
    assert_eq!(observer.usage().unwrap().completion, Some(3));
}

fn any_event() -> impl Strategy<Value = String> {
    let line = prop_oneof![
        Just("data: [DONE]"),
        Just(r#"data: {"choices":[{"delta":{"content":"x"},"finish_reason":null}]}"#),
        Just(r#"data: {"choices":[{"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":9}}"#),
        Just(r#"data: {"choices":[],"usage":{"completion_tokens":4}}"#),
        Just(r#"data: {"error":{"message":"m"}}"#),
        Just(r#"data: {"type":"message_start","message":{"usage":{"input_tokens":7}}}"#),
        Just(r#"data: {"type":"content_block_delta","delta":{"text":"\"error\""}}"#),
        Just("event: message_delta"),
        Just(r#"data: {"usage":{"output_tokens":3}}"#),
        Just(r#"data: {"type":"message_stop"}"#),
        Just(r#"data: {"type":"response.output_text.delta","delta":"ü"}"#),
        Just("event: response.completed"),
        Just(r#"data: {"response":{"id":"r","usage":{"input_tokens":1}}}"#),
        Just("event: error"),
        Just(": ping"),
        Just("data: {\"type\":"),
        Just("data: \"error\"}"),
    ];
    let end = prop_oneof![Just("\n\n"), Just("\r\n\r\n"), Just("\n"), Just("\r\r")];
    (line, end).prop_map(|(line, end)| format!("{line}{end}"))
}

proptest! {
    #[test]
    fn the_cuts_of_the_network_do_not_matter(
        events in prop::collection::vec(any_event(), 0..12),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
        dialect in prop_oneof![Just(Chat), Just(Messages), Just(Responses), Just(Dialect::Gemini), Just(Dialect::Images)],
    ) {
        let stream = events.concat().into_bytes();
        let mut whole = observe(dialect, &[&stream]);
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(stream.len() + 1)).collect();
        cuts.sort_unstable();
        let mut pieces = StreamObserver::new(dialect);
        let mut from = 0;
        for cut in cuts.into_iter().chain([stream.len()]) {
            pieces.feed(&stream[from..cut]);
            from = cut;
        }
        prop_assert_eq!(summary(&pieces), summary(&whole));
        whole.close();
        pieces.close();
        prop_assert_eq!(summary(&pieces), summary(&whole));
    }

    #[test]
    fn any_bytes_are_watched(chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..8)) {
        for dialect in [Chat, Messages, Responses, Dialect::Gemini] {
            let mut observer = StreamObserver::new(dialect);
            for chunk in &chunks {
                observer.feed(chunk);
                if let Some(at) = observer.break_at() {
                    prop_assert!(at.keep <= chunk.len());
                }
            }
            observer.close();
        }
    }
}
