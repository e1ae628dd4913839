//! Bodies as real upstreams send them: full answers and streams of each dialect, and bodies with a content encoding.

use serde_json::{Value, json};

use super::reply::Reply;

/// The usage that every faithful answer reports.
pub const PROMPT_TOKENS: u64 = 11;
pub const COMPLETION_TOKENS: u64 = 7;

/// The text of faithful answers and streams.
pub const TEXT: &str = "Signals are set.";
const WORDS: [&str; 3] = ["Signals ", "are ", "set."];

/// Builds a well-behaved upstream's answer to this request.
pub fn faithful(method: &str, path: &str, body: &Value, models: &[String]) -> Reply {
    let model = body["model"].as_str().unwrap_or_default();
    let streamed = body["stream"] == true;
    match (method, path, streamed) {
        ("GET", "/v1/models", _) => Reply::json(200, &model_list(models)),
        ("POST", "/v1/chat/completions", false) => Reply::json(200, &chat(model)),
        ("POST", "/v1/chat/completions", true) => Reply::events(chat_events(model)),
        ("POST", "/v1/responses", false) => Reply::json(200, &response(model)),
        ("POST", "/v1/responses", true) => Reply::events(response_events(model)),
        ("POST", "/v1/messages", false) => Reply::json(200, &message(model)),
        ("POST", "/v1/messages", true) => Reply::events(message_events(model)),
        ("POST", "/v1/messages/count_tokens", _) => Reply::json(200, &json!({"input_tokens": 42})),
        ("POST", "/v1/completions", false) => Reply::json(200, &completion(model)),
        ("POST", "/v1/completions", true) => Reply::events(completion_events(model)),
        ("POST", "/v1/embeddings", _) => Reply::json(200, &embedding(model)),
        ("POST", "/v1/images/generations" | "/v1/images/edits" | "/v1/images/variations", _) => {
            Reply::json(200, &image())
        }
        _ => Reply::error(404, &format!("Invalid URL ({method} {path})")),
    }
}

/// Builds a refusal as OpenAI-style upstreams answer unknown members.
pub fn refusal(message: &str) -> Reply {
    Reply::json(
        400,
        &json!({"error": {"message": message, "type": "invalid_request_error", "param": null, "code": null}}),
    )
}

/// Builds one part of a form whose boundary is `b 1`.
pub fn form_field(head: &str, content: &[u8]) -> Vec<u8> {
    [b"--b 1\r\nContent-Disposition: form-data; ".as_slice(), head.as_bytes(), b"\r\n\r\n", content, b"\r\n"]
        .concat()
}

pub fn model_list(models: &[String]) -> Value {
    let item = |id: &String| json!({"id": id, "object": "model", "created": 1626777600, "owned_by": "stub"});
    json!({"object": "list", "data": models.iter().map(item).collect::<Vec<_>>()})
}

/// Builds a server-sent event without a name.
pub fn data(value: &Value) -> String {
    format!("data: {value}\n\n")
}

/// Builds a server-sent event named after its type.
pub fn named(value: &Value) -> String {
    let name = value["type"].as_str().unwrap_or("message");
    format!("event: {name}\ndata: {value}\n\n")
}

/// Returns the `data` of every event of a stream that is JSON.
pub fn data_of(stream: &str) -> Vec<Value> {
    super::split_events(stream.as_bytes())
        .iter()
        .filter_map(|event| event.lines().find_map(|line| line.strip_prefix("data: ").map(str::to_owned)))
        .filter_map(|data| serde_json::from_str(&data).ok())
        .collect()
}

pub const DONE: &str = "data: [DONE]\n\n";

// === chat completions ===

pub fn chat_usage() -> Value {
    json!({"prompt_tokens": PROMPT_TOKENS, "completion_tokens": COMPLETION_TOKENS,
        "total_tokens": PROMPT_TOKENS + COMPLETION_TOKENS})
}

pub fn chat(model: &str) -> Value {
    json!({"id": "chatcmpl-stub", "object": "chat.completion", "created": 1790000000,
        "model": model, "usage": chat_usage(), "choices": [{"index": 0, "finish_reason": "stop",
            "message": {"role": "assistant", "content": TEXT}}]})
}

pub fn chat_chunk(model: &str, delta: &Value, finish: Value) -> String {
    data(&json!({"id": "chatcmpl-stub", "object": "chat.completion.chunk", "created": 1790000000,
        "model": model, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}))
}

pub fn chat_content(model: &str, text: &str) -> String {
    chat_chunk(model, &json!({"content": text}), Value::Null)
}

pub fn chat_role(model: &str) -> String {
    let delta = json!({"role": "assistant", "content": ""});
    chat_chunk(model, &delta, Value::Null)
}

pub fn chat_events(model: &str) -> Vec<String> {
    let mut events = vec![chat_role(model)];
    events.extend(WORDS.map(|word| chat_content(model, word)));
    events.push(chat_chunk(model, &json!({}), json!("stop")));
    events.push(data(&json!({"id": "chatcmpl-stub", "object": "chat.completion.chunk",
        "created": 1790000000, "model": model, "choices": [], "usage": chat_usage()})));
    events.push(DONE.to_owned());
    events
}

// === responses ===

fn response_with(model: &str, status: &str, output: Value, usage: Value) -> Value {
    json!({"id": "resp_stub", "object": "response", "created_at": 1790000000, "status": status,
        "model": model, "output": output, "usage": usage, "error": null})
}

fn output_message(status: &str, content: Value) -> Value {
    json!({"id": "msg_stub", "type": "message", "role": "assistant", "status": status, "content": content})
}

fn output_text(text: &str) -> Value {
    json!({"type": "output_text", "text": text, "annotations": [], "logprobs": []})
}

pub fn response(model: &str) -> Value {
    let usage = json!({"input_tokens": PROMPT_TOKENS, "output_tokens": COMPLETION_TOKENS,
        "total_tokens": PROMPT_TOKENS + COMPLETION_TOKENS});
    let output = json!([output_message("completed", json!([output_text(TEXT)]))]);
    response_with(model, "completed", output, usage)
}

pub fn response_events(model: &str) -> Vec<String> {
    let empty = response_with(model, "in_progress", json!([]), Value::Null);
    let place = json!({"item_id": "msg_stub", "output_index": 0, "content_index": 0});
    let mut events = vec![
        json!({"type": "response.created", "response": empty}),
        json!({"type": "response.in_progress", "response": empty}),
        json!({"type": "response.output_item.added", "output_index": 0,
            "item": output_message("in_progress", json!([]))}),
        json!({"type": "response.content_part.added", "part": output_text("")}),
    ];
    events.extend(
        WORDS.map(|word| json!({"type": "response.output_text.delta", "delta": word, "logprobs": []})),
    );
    events.extend([
        json!({"type": "response.output_text.done", "text": TEXT}),
        json!({"type": "response.content_part.done", "part": output_text(TEXT)}),
        json!({"type": "response.output_item.done", "output_index": 0,
            "item": output_message("completed", json!([output_text(TEXT)]))}),
        json!({"type": "response.completed", "response": response(model)}),
    ]);
    for (number, event) in events.iter_mut().enumerate() {
        event["sequence_number"] = json!(number);
        let kind = event["type"].as_str().unwrap_or_default();
        if kind.contains("content_part") || kind.contains("output_text") {
            for (name, value) in place.as_object().expect("an object above") {
                event[name] = value.clone();
            }
        }
    }
    events.iter().map(named).collect()
}

// === messages ===

pub fn message(model: &str) -> Value {
    json!({"id": "msg_stub", "type": "message", "role": "assistant", "model": model,
        "content": [{"type": "text", "text": TEXT}], "stop_reason": "end_turn", "stop_sequence": null,
        "usage": {"input_tokens": PROMPT_TOKENS, "output_tokens": COMPLETION_TOKENS}})
}

pub fn message_start(model: &str) -> String {
    named(&json!({"type": "message_start", "message": {"id": "msg_stub", "type": "message",
        "role": "assistant", "model": model, "content": [], "stop_reason": null, "stop_sequence": null,
        "usage": {"input_tokens": PROMPT_TOKENS, "output_tokens": 1}}}))
}

pub fn message_events(model: &str) -> Vec<String> {
    let mut events = vec![
        message_start(model),
        named(&json!({"type": "content_block_start", "index": 0,
            "content_block": {"type": "text", "text": ""}})),
        named(&json!({"type": "ping"})),
    ];
    events.extend(WORDS.map(|word| {
        named(&json!({"type": "content_block_delta", "index": 0,
            "delta": {"type": "text_delta", "text": word}}))
    }));
    events.extend([
        named(&json!({"type": "content_block_stop", "index": 0})),
        named(&json!({"type": "message_delta", "usage": {"output_tokens": COMPLETION_TOKENS},
            "delta": {"stop_reason": "end_turn", "stop_sequence": null}})),
        named(&json!({"type": "message_stop"})),
    ]);
    events
}

// === the smaller surfaces ===

pub fn completion(model: &str) -> Value {
    json!({"id": "cmpl-stub", "object": "text_completion", "created": 1790000000, "model": model,
        "choices": [{"index": 0, "text": TEXT, "finish_reason": "stop", "logprobs": null}],
        "usage": chat_usage()})
}

pub fn completion_events(model: &str) -> Vec<String> {
    let chunk = |text: &str, finish: Value, usage: Value| {
        data(&json!({"id": "cmpl-stub", "object": "text_completion", "created": 1790000000,
            "model": model, "usage": usage,
            "choices": [{"index": 0, "text": text, "finish_reason": finish, "logprobs": null}]}))
    };
    let mut events: Vec<_> = WORDS.map(|word| chunk(word, Value::Null, Value::Null)).into();
    events.push(chunk("", json!("stop"), chat_usage()));
    events.push(DONE.to_owned());
    events
}

pub fn embedding(model: &str) -> Value {
    json!({"object": "list", "model": model,
        "data": [{"object": "embedding", "index": 0, "embedding": [0.125, -0.5, 0.75]}],
        "usage": {"prompt_tokens": PROMPT_TOKENS, "total_tokens": PROMPT_TOKENS}})
}

pub fn image() -> Value {
    json!({"created": 1790000000, "data": [{"b64_json": "iVBORw0KGgo="}]})
}

// === content encodings, stored blocks only: the framing is real, nothing is squeezed ===

/// Encodes as gzip (RFC 1952) with one stored block; at most 65535 bytes.
pub fn gzip(plain: &[u8]) -> Vec<u8> {
    let length = u16::try_from(plain.len()).expect("one stored block");
    let mut bytes = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff, 1];
    bytes.extend(length.to_le_bytes());
    bytes.extend((!length).to_le_bytes());
    bytes.extend(plain);
    bytes.extend(crc32(plain).to_le_bytes());
    bytes.extend(u32::from(length).to_le_bytes());
    bytes
}

/// Encodes as zstd (RFC 8878) with one raw block in a single-segment frame.
pub fn zstd(plain: &[u8]) -> Vec<u8> {
    let length = u32::try_from(plain.len()).expect("a short body");
    let mut bytes = vec![0x28, 0xb5, 0x2f, 0xfd, 0xa0];
    bytes.extend(length.to_le_bytes());
    bytes.extend(&((length << 3) | 1).to_le_bytes()[..3]);
    bytes.extend(plain);
    bytes
}

/// Encodes blanks as zstd (RFC 8878), with 128 KiB of them in every four bytes.
pub fn zstd_of_blanks(length: usize) -> Vec<u8> {
    // Without a size, with a window of 1 MiB.
    let mut bytes = vec![0x28, 0xb5, 0x2f, 0xfd, 0, 0x50];
    let repeated = (128 << 10 << 3 | 1 << 1) as u32;
    for left in (0..length >> 17).rev() {
        bytes.extend(&(repeated | u32::from(left == 0)).to_le_bytes()[..3]);
        bytes.push(b' ');
    }
    bytes
}

/// Encodes as brotli (RFC 7932) with one uncompressed meta-block; at most 65536 bytes.
pub fn brotli(plain: &[u8]) -> Vec<u8> {
    let length = u32::try_from(plain.len()).expect("a short body");
    assert!(length <= 1 << 16);
    // From the lowest bit: window 16 (0), not last (0), four nibbles (00), length - 1, uncompressed.
    let head = ((length - 1) << 4) | (1 << 20);
    let mut bytes = head.to_le_bytes()[..3].to_vec();
    bytes.extend(plain);
    bytes.push(0b11); // last, empty
    bytes
}

fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| {
            let mask = (crc & 1).wrapping_neg();
            (crc >> 1) ^ (0xedb8_8320 & mask)
        })
    })
}
