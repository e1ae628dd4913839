//! Streams that fail: no client takes one for a complete answer.

use std::sync::Arc;

use super::{DIALECTS, ReplyContext, StreamConverter, Way};
use crate::dialect::Dialect::{self, Chat, Gemini, Messages};
use crate::dialect::upstream_error::UpstreamError;

/// Returns the beginning of a stream, and the errors with which its upstream may break it off.
fn broken(from: Dialect) -> (&'static str, &'static [&'static str]) {
    match from {
        Chat => (
            r#"{"choices":[{"index":0,"delta":{"content":"x"}}]}"#,
            &[r#"{"error":{"message":"boom"}}"#, r#"{"error":{"message":"boom","type":"server_error"}}"#],
        ),
        Messages => (
            r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"x"}}"#,
            &[r#"{"type":"error","error":{"type":"overloaded_error","message":"boom"}}"#],
        ),
        Gemini => (
            r#"{"candidates":[{"content":{"parts":[{"text":"x"}]}}]}"#,
            &[r#"{"error":{"code":503,"message":"boom","status":"UNAVAILABLE"}}"#],
        ),
        _ => (
            r#"{"type":"response.output_text.delta","output_index":0,"content_index":0,"delta":"x"}"#,
            &[
                r#"{"type":"response.failed","response":{"status":"failed","error":{"code":"server_error","message":"boom"}}}"#,
            ],
        ),
    }
}

/// Converts the beginning of a stream that the gateway then ends with an error; returns what the error writes.
fn failed(from: Dialect, to: Dialect) -> String {
    let mut converter = StreamConverter::new(from, to, Arc::new(ReplyContext::default()));
    let mut out = String::new();
    converter.feed(format!("data: {}\n\n", broken(from).0).as_bytes(), &mut out);
    let written = out.len();
    converter.fail(&UpstreamError::new("boom"), &mut out);
    for end in ["[DONE]", "message_stop", "response.completed", "finishReason", "finish_reason\":\"stop"] {
        assert!(!out.contains(end), "{from:?} to {to:?}: {end}");
    }
    out.split_off(written)
}

#[test]
fn a_stream_that_fails_never_ends_well() {
    for (from, to) in DIALECTS.into_iter().flat_map(|from| DIALECTS.map(|to| (from, to))) {
        let way = Way::new(from, to);
        let (beginning, errors) = broken(from);
        for error in errors {
            for stream in [format!("data: {beginning}\n\ndata: {error}\n\n"), format!("data: {error}\n\n")] {
                assert_eq!(way.failure(&stream).as_deref(), Some("boom"), "{from:?} to {to:?}: {stream}");
            }
        }
        assert!(!way.is_complete(&format!("data: {beginning}\n\n")), "{from:?} to {to:?}");
        assert!(failed(from, to).contains("boom"), "{from:?} to {to:?}");
    }
}

#[test]
fn a_stream_without_content_has_failed() {
    for to in DIALECTS {
        let failure = Way::new(Chat, to).failure("data: [DONE]\n\n");
        assert_eq!(failure.as_deref(), Some("Upstream's stream has no content"), "{to:?}");
    }
}

#[test]
fn an_open_block_is_closed_before_the_error() {
    let out = failed(Chat, Messages);
    let events: Vec<_> = out.lines().filter(|line| line.starts_with("event: ")).collect();
    assert_eq!(events[events.len() - 2..], ["event: content_block_stop", "event: error"]);
}
