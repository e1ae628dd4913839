//! The bytes of requests and answers: request bodies of an exact size, the stub's answer and its stream.
//!
//! Every byte is fixed, so that the load generator can compare the bytes that arrive with those that were sent instead of
//! trusting a status code.

use std::sync::LazyLock;

use bytes::Bytes;

use crate::wire::Expected;

/// The model that answers at once.
pub const MODEL: &str = "bench-model";
/// The model whose streams send each chunk in a write of its own, without a pause.
pub const FLUSHED_MODEL: &str = "flushed";
/// The model whose streams send one chunk every 10 ms.
pub const PACED_MODEL: &str = "paced";
/// The key that clients send.
pub const CLIENT_KEY: &str = "sk-bench-proxy-token";
/// The managed key that clients send.
pub const MANAGED_KEY: &str = "sk-bench-managed-key";
/// The key that the stub expects.
pub const UPSTREAM_KEY: &str = "sk-upstream";
/// The number of JSON chunks in a stream, without the closing `[DONE]`.
pub const STREAM_CHUNKS: usize = 100;

/// The length of a message in a long conversation, before its JSON frame.
const MESSAGE_LENGTH: usize = 600;
/// With less room left than this, in bytes, the last message fills it.
const LAST_MESSAGE: usize = 1200;
const SENTENCE: &str = r#"The yard master said \"hold the 7:40\", and the points stayed as they were.\n"#;
const FILLER: &str = "steel rails on wooden sleepers ";

/// Builds a chat completion request of exactly `size` bytes (at least 200): a conversation in turns, with `model` and
/// `stream` first, which is all that the stub looks at.
pub fn chat_request(model: &str, stream: bool, size: usize) -> Bytes {
    let mut body = format!(r#"{{"model":"{model}","stream":{stream},"messages":["#);
    let turn = SENTENCE.repeat(MESSAGE_LENGTH / SENTENCE.len());
    for role in ["user", "assistant"].into_iter().cycle() {
        let open = format!(r#"{{"role":"{role}","content":""#);
        let room = size.saturating_sub(body.len() + open.len() + r#""}]}"#.len());
        body.push_str(&open);
        if room < LAST_MESSAGE {
            body.extend(FILLER.chars().cycle().take(room));
            body.push_str(r#""}]}"#);
            break;
        }
        body.push_str(&turn);
        body.push_str(r#""},"#);
    }
    Bytes::from(body)
}

/// Builds a chat request of exactly `size` bytes in a conversation that stays on its channel.
pub fn bound_chat_request(model: &str, stream: bool, size: usize) -> Bytes {
    const CONVERSATION: &str = r#"{"prompt_cache_key":"bench","#;
    let plain = chat_request(model, stream, size + 1 - CONVERSATION.len());
    Bytes::from([CONVERSATION.as_bytes(), &plain[1..]].concat())
}

/// The stub's answer without streaming: 727 bytes, usage included.
pub static COMPLETION: LazyLock<Bytes> = LazyLock::new(|| {
    const LENGTH: usize = 727;
    let head = concat!(
        r#"{"id":"chatcmpl-bench","object":"chat.completion","created":1700000000,"model":"bench-model","#,
        r#""choices":[{"index":0,"message":{"role":"assistant","content":""#
    );
    let tail = concat!(
        r#""},"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":180,"completion_tokens":97,"#,
        r#""total_tokens":277,"prompt_tokens_details":{"cached_tokens":0}},"system_fingerprint":"fp_bench"}"#
    );
    let content = FILLER.chars().cycle().take(LENGTH - head.len() - tail.len());
    Bytes::from(format!("{head}{}{tail}", content.collect::<String>()))
});

/// The stub's model list.
pub static MODELS: LazyLock<Bytes> = LazyLock::new(|| {
    let entry = |id| format!(r#"{{"id":"{id}","object":"model","created":1700000000,"owned_by":"bench"}}"#);
    let entries = [MODEL, FLUSHED_MODEL, PACED_MODEL].map(entry).join(",");
    Bytes::from(format!(r#"{{"object":"list","data":[{entries}]}}"#))
});

/// The stub's stream, event by event: the role, content, the finish reason, usage, `[DONE]`.
pub static STREAM: LazyLock<Vec<Bytes>> = LazyLock::new(|| {
    let chunk = |rest: String| {
        let head = r#"{"id":"chatcmpl-bench","object":"chat.completion.chunk","created":1700000000,"model":"bench-model""#;
        Bytes::from(format!("data: {head},{rest}}}\n\n"))
    };
    let choice = |delta: String, finish| {
        chunk(format!(r#""choices":[{{"index":0,"delta":{delta},"finish_reason":{finish}}}]"#))
    };

    let mut events = vec![choice(r#"{"role":"assistant","content":""}"#.into(), "null")];
    events.extend(
        (events.len()..STREAM_CHUNKS - 2).map(|n| choice(format!(r#"{{"content":" sleeper {n}"}}"#), "null")),
    );
    events.push(choice("{}".into(), r#""stop""#));
    events.push(chunk(
        r#""choices":[],"usage":{"prompt_tokens":180,"completion_tokens":97,"total_tokens":277}"#.into(),
    ));
    events.push(Bytes::from_static(b"data: [DONE]\n\n"));
    events
});

/// The stub's stream in the messages dialect: as many text deltas as [`STREAM`], and the events around them.
pub static MESSAGES_STREAM: LazyLock<Vec<Bytes>> = LazyLock::new(|| {
    let event = |name: &str, rest: &str| {
        Bytes::from(format!("event: {name}\ndata: {{\"type\":\"{name}\"{rest}}}\n\n"))
    };
    let mut events = vec![
        event(
            "message_start",
            concat!(
                r#","message":{"id":"msg_bench","type":"message","role":"assistant","model":"bench-model","content":[],"#,
                r#""stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":180,"output_tokens":1}}"#
            ),
        ),
        event("content_block_start", r#","index":0,"content_block":{"type":"text","text":""}"#),
    ];
    events.extend((1..STREAM_CHUNKS - 2).map(|n| {
        let delta = format!(r#","index":0,"delta":{{"type":"text_delta","text":" sleeper {n}"}}"#);
        event("content_block_delta", &delta)
    }));
    events.push(event("content_block_stop", r#","index":0"#));
    events.push(event(
        "message_delta",
        r#","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":97}"#,
    ));
    events.push(event("message_stop", ""));
    events
});

/// The whole stream as one body.
pub static STREAM_BODY: LazyLock<Bytes> = LazyLock::new(|| Bytes::from(STREAM.concat()));

/// Returns the expected answer without streaming.
pub fn completion() -> Expected {
    Expected { body: &COMPLETION, first_delta: COMPLETION.len(), digits_vary: false }
}

/// Returns the expected stream.
pub fn stream() -> Expected {
    let first_delta = STREAM[..2].iter().map(Bytes::len).sum();
    Expected { body: &STREAM_BODY, first_delta, digits_vary: false }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    #[test]
    fn a_request_has_exactly_the_size_asked_for_and_is_json() {
        for size in [200, 1024, 1500, 2000, 100 << 10, 1 << 20] {
            let body = chat_request(MODEL, true, size);
            assert_eq!(body.len(), size);
            let parsed: Value = serde_json::from_slice(&body).unwrap();
            assert_eq!(parsed["model"], MODEL);
            assert_eq!(parsed["stream"], true);
        }
        let bound = bound_chat_request(MODEL, false, 1024);
        assert_eq!(bound.len(), 1024);
        assert_eq!(serde_json::from_slice::<Value>(&bound).unwrap()["prompt_cache_key"], "bench");
    }

    #[test]
    fn the_answer_is_727_bytes_of_json_with_usage() {
        assert_eq!(COMPLETION.len(), 727);
        let parsed: Value = serde_json::from_slice(&COMPLETION).unwrap();
        assert_eq!(parsed["usage"]["total_tokens"], 277);
        assert!(serde_json::from_slice::<Value>(&MODELS).is_ok());
    }

    #[test]
    fn the_stream_has_100_json_chunks_and_a_closing_line() {
        let (done, chunks) = STREAM.split_last().unwrap();
        assert_eq!(chunks.len(), STREAM_CHUNKS);
        assert_eq!(&done[..], b"data: [DONE]\n\n");
        let json: Vec<Value> =
            chunks.iter().map(|event| serde_json::from_slice(&event[b"data: ".len()..]).unwrap()).collect();
        assert_eq!(json[0]["choices"][0]["delta"]["content"], "");
        assert_eq!(json[1]["choices"][0]["delta"]["content"], " sleeper 1");
        assert_eq!(json[STREAM_CHUNKS - 1]["usage"]["total_tokens"], 277);
    }
}
