//! Legacy completions at upstreams of chat dialects, and several answers in one stream.

use serde_json::{Value, json};

use super::{Way, request};
use crate::dialect::Dialect::{Chat, Completions, Gemini, Messages, Responses};
use crate::dialect::canonical::{ConversionError, Vendor};

fn body() -> Value {
    json!({"model":"m","prompt":"Once upon","max_tokens":5,"temperature":0,"stop":"END"})
}

#[test]
fn a_prompt_is_asked_in_every_dialect() {
    let asked = |to, vendor| request(Completions, to, vendor, &body()).unwrap();
    let chat = json!({"model":"m","messages":[{"role":"user","content":"Once upon"}],"max_tokens":5,"temperature":0,"stop":["END"]});
    assert_eq!(asked(Chat, Vendor::Other), chat);
    let messages = asked(Messages, Vendor::Anthropic);
    assert_eq!((&messages["max_tokens"], &messages["stop_sequences"]), (&json!(5), &json!(["END"])));
    assert!(messages["messages"].to_string().contains("Once upon"), "{messages}");
    let responses = asked(Responses, Vendor::Other);
    assert!(responses["input"].to_string().contains("Once upon"), "{responses}");
    let gemini = asked(Gemini, Vendor::Gemini);
    assert_eq!(gemini["contents"], json!([{"role":"user","parts":[{"text":"Once upon"}]}]));
    assert_eq!(gemini["generationConfig"]["maxOutputTokens"], 5);
}

#[test]
fn a_line_ends_where_the_client_wants_whoever_is_asked() {
    let mut body = body();
    body["stop"] = json!(["\n", "END"]);
    for (to, key, wanted) in [
        (Chat, "stop", json!(["\n", "END"])),
        (Messages, "stop_sequences", json!(["END"])),
        (Responses, "stop", Value::Null),
    ] {
        let way = Way::asking(Completions, to, Vendor::Other, &body);
        assert_eq!(way.body.get(key).unwrap_or(&Value::Null), &wanted, "{to:?}");
        if to == Messages {
            let reply = json!({"id":"msg_1","model":"m","content":[{"type":"text","text":"one\ntwo"}],"stop_reason":"end_turn"});
            assert_eq!(way.back().reply(&reply)["choices"][0]["text"], "one");
        }
    }
}

#[test]
fn a_client_reads_its_own_words_for_what_cannot_be_said() {
    for (members, to, wanted) in [
        (json!({"n":2}), Messages, ConversionError::unsupported("n")),
        (json!({"logprobs":1}), Messages, ConversionError::unsupported("logprobs")),
        (
            json!({"prompt":""}),
            Chat,
            ConversionError::invalid("prompt", "must have at least one message with content"),
        ),
        (json!({"suffix":"."}), Chat, ConversionError::unsupported("suffix")),
    ] {
        let mut body = body();
        members.as_object().unwrap().iter().for_each(|(key, value)| body[key] = value.clone());
        assert_eq!(request(Completions, to, Vendor::Other, &body), Err(wanted), "{members}");
    }
}

#[test]
fn an_answer_of_every_dialect_becomes_a_completion() {
    let replies = [
        (
            Chat,
            json!({"id":"chatcmpl-1","object":"chat.completion","created":7,"model":"m","choices":[{"index":0,
            "message":{"role":"assistant","content":" a time"},"finish_reason":"length"}],
            "usage":{"prompt_tokens":5,"completion_tokens":2,"total_tokens":7}}),
        ),
        (
            Messages,
            json!({"id":"msg_1","type":"message","role":"assistant","model":"m","content":[{"type":"thinking",
            "thinking":"Hm.","signature":"S"},{"type":"text","text":" a time"}],"stop_reason":"max_tokens",
            "usage":{"input_tokens":5,"output_tokens":2}}),
        ),
        (
            Responses,
            json!({"id":"resp_1","object":"response","created_at":7,"status":"incomplete","model":"m",
            "incomplete_details":{"reason":"max_output_tokens"},"output":[{"type":"message","id":"msg_1",
            "role":"assistant","status":"incomplete","content":[{"type":"output_text","text":" a time"}]}],
            "usage":{"input_tokens":5,"output_tokens":2,"total_tokens":7}}),
        ),
        (
            Gemini,
            json!({"responseId":"g1","modelVersion":"m","candidates":[{"index":0,"content":{"role":"model",
            "parts":[{"text":" a time"}]},"finishReason":"MAX_TOKENS"}],
            "usageMetadata":{"promptTokenCount":5,"candidatesTokenCount":2,"totalTokenCount":7}}),
        ),
    ];
    for (from, reply) in replies {
        let mut asking = body();
        asking["echo"] = json!(true);
        let way = Way::asking(Completions, from, Vendor::Other, &asking).back();
        let answer = way.reply(&reply);
        assert_eq!(answer["object"], "text_completion", "{from:?}");
        assert!(answer["id"].as_str().unwrap().starts_with("cmpl-"), "{answer}");
        let wanted = json!({"text":"Once upon a time","index":0,"logprobs":null,"finish_reason":"length"});
        assert_eq!(answer["choices"], json!([wanted]), "{from:?}");
        assert_eq!(answer["usage"]["total_tokens"], 7, "{from:?}");
        // The answer is replayed as a stream, and gathered again.
        let replayed = way.replayed(&reply);
        assert!(replayed.ends_with("data: [DONE]\n\n"), "{replayed}");
        let accumulated = Way::new(Completions, Completions).accumulated(&replayed);
        assert_eq!(accumulated["choices"], answer["choices"], "{from:?}");
    }
}

#[test]
fn the_tokens_of_a_chat_are_those_of_a_completion() {
    let token =
        json!({"token":" a","logprob":-0.5,"bytes":null,"top_logprobs":[{"token":" the","logprob":-1}]});
    let chunk = |delta: Value, logprobs: Value, reason: Value| {
        let choice = json!({"index":0,"delta":delta,"logprobs":logprobs,"finish_reason":reason});
        format!("data: {}\n\n", json!({"id":"c1","created":7,"model":"m","choices":[choice]}))
    };
    let stream = [
        chunk(json!({"role":"assistant","content":""}), Value::Null, Value::Null),
        chunk(json!({"content":" a"}), json!({"content":[token]}), Value::Null),
        chunk(json!({}), Value::Null, json!("stop")),
        "data: [DONE]\n\n".to_owned(),
    ]
    .concat();
    let wanted = json!({"tokens":[" a"],"token_logprobs":[-0.5],"top_logprobs":[{" the":-1," a":-0.5}],"text_offset":[0]});
    let chunks = Way::new(Chat, Completions).stream(&stream);
    assert_eq!(chunks[0]["choices"][0]["logprobs"], wanted);
    let answer = Way::new(Chat, Completions).accumulated(&stream);
    assert_eq!(answer["choices"][0]["logprobs"], wanted);
}

/// Returns the text of each choice of a stream, the reason why each stopped, and how the stream ends.
fn choices(stream: &str) -> (Vec<String>, Vec<String>, Vec<Value>) {
    let (mut said, mut reasons) = (vec![String::new(); 2], vec![String::new(); 2]);
    let mut rest = Vec::new();
    for data in stream.lines().filter_map(|line| line.strip_prefix("data: ")) {
        let chunk: Value = serde_json::from_str(data).unwrap_or_else(|_| json!(data));
        let Some(choice) = chunk["choices"].get(0) else {
            rest.push(chunk);
            continue;
        };
        let index = choice["index"].as_u64().unwrap() as usize;
        let text = choice["delta"]["content"].as_str().or(choice["text"].as_str());
        said[index].push_str(text.unwrap_or_default());
        reasons[index].push_str(choice["finish_reason"].as_str().unwrap_or_default());
    }
    (said, reasons, rest)
}

#[test]
fn several_answers_of_gemini_are_several_choices_in_one_stream() {
    let chunk = |index: u64, text: &str, reason: Option<&str>| {
        let mut candidate = json!({"index":index,"content":{"role":"model","parts":[{"text":text}]}});
        if let Some(reason) = reason {
            candidate["finishReason"] = json!(reason);
        }
        let usage = json!({"promptTokenCount":5,"candidatesTokenCount":4,"totalTokenCount":9});
        let chunk =
            json!({"responseId":"g1","modelVersion":"m","candidates":[candidate],"usageMetadata":usage});
        format!("data: {chunk}\n\n")
    };
    // The first ends before the second has begun.
    let stream = [
        chunk(0, "one", None),
        chunk(0, " two", Some("STOP")),
        chunk(1, "uno", None),
        chunk(1, " due", Some("MAX_TOKENS")),
    ]
    .concat();
    let options = json!({"include_usage":true});
    for (client, body) in [
        (
            Chat,
            json!({"model":"m","messages":[{"role":"user","content":"x"}],"n":2,"stream_options":options}),
        ),
        (Completions, json!({"model":"m","prompt":"x","n":2,"stream_options":options})),
    ] {
        let there = Way::asking(client, Gemini, Vendor::Gemini, &body);
        assert_eq!(there.body["generationConfig"]["candidateCount"], 2);
        let (said, reasons, rest) = choices(&there.back().stream_text(&stream));
        assert_eq!(said, ["one two", "uno due"], "{client:?}");
        assert_eq!(reasons, ["stop", "length"], "{client:?}");
        let [usage, done] = &rest[..] else { panic!("{rest:?}") };
        assert_eq!((&usage["usage"]["total_tokens"], done), (&json!(9), &json!("[DONE]")), "{client:?}");
        // The same holds for one answer, where the client wanted no stream and the upstream sends one.
        let answer = there.back().accumulated(&stream);
        let reasons = [0, 1].map(|index| answer["choices"][index]["finish_reason"].clone());
        assert_eq!(reasons, ["stop", "length"], "{answer}");
    }
}

#[test]
fn several_choices_of_a_chat_are_several_completions() {
    let choice = |index: u64, text: &str, reason: Value| json!({"index":index,"delta":{"content":text},"finish_reason":reason});
    let chunk = |choice: Value| {
        format!("data: {}\n\n", json!({"id":"c1","created":7,"model":"m","choices":[choice]}))
    };
    let stream = [
        chunk(choice(0, "one", Value::Null)),
        chunk(choice(1, "uno", Value::Null)),
        chunk(choice(1, " due", json!("stop"))),
        chunk(choice(0, " two", json!("length"))),
        "data: {\"id\":\"c1\",\"choices\":[],\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":4,\"total_tokens\":9}}\n\n".to_owned(),
        "data: [DONE]\n\n".to_owned(),
    ]
    .concat();
    let body = json!({"model":"m","prompt":"x","n":2,"echo":true});
    let back = Way::asking(Completions, Chat, Vendor::Other, &body).back();
    let (said, reasons, rest) = choices(&back.stream_text(&stream));
    assert_eq!(
        (said, reasons),
        (vec!["xone two".into(), "xuno due".into()], vec!["length".into(), "stop".into()])
    );
    assert_eq!(rest, [json!("[DONE]")]);
    let answer = back.accumulated(&stream);
    let texts: Vec<_> = answer["choices"].as_array().unwrap().iter().map(|choice| &choice["text"]).collect();
    assert_eq!(texts, ["xone two", "xuno due"]);
    assert_eq!(
        back.replayed(&json!({"id":"c1","model":"m","choices":[
        {"index":0,"message":{"content":"a"},"finish_reason":"stop"},
        {"index":1,"message":{"content":"b"},"finish_reason":"stop"}]}))
            .matches("[DONE]")
            .count(),
        1
    );
}
