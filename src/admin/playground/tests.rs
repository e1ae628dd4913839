use bytes::Bytes;
use serde_json::{Map, Value, json};

use super::envelope::{self, Streamed, target};
use super::error::PlaygroundError;
use super::job_list::JobList;
use super::{answer, chat};
use crate::ids::ChannelId;
use crate::proxy::internal::InternalRequest;

fn fields(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}

fn envelope(value: Value, streamed: Streamed) -> Result<InternalRequest, PlaygroundError> {
    envelope::read(&fields(value), streamed)
}

fn json_of(body: &Bytes) -> Value {
    serde_json::from_slice(body).expect("JSON")
}

#[test]
fn only_paths_of_the_proxy_are_tried_in_the_spelling_it_knows() {
    for (asked, tried) in [
        ("/v1/chat/completions", "/v1/chat/completions"),
        ("v1/Chat/COMPLETIONS?x=1", "/v1/chat/completions?x=1"),
        ("https://relay.example.com:8/v1/messages?beta=true", "/v1/messages?beta=true"),
        ("/v1/files/file-Abc/content", "/v1/files/file-Abc/content"),
        (
            "/gemini/v1beta/models/gemini-2.5-pro:generateContent",
            "/gemini/v1beta/models/gemini-2.5-pro:generateContent",
        ),
        ("/v1/responses/compact", "/v1/responses/compact"),
        ("/v1beta/models", "/v1beta/models"),
    ] {
        assert_eq!(target(asked).expect(asked).to_string(), tried);
    }
    for refused in [
        "/api/accounts",
        "https://relay.example.com",
        "/v1/files/../api",
        "/v1/files/..%2fapi",
        "/v1/files/%2e%2e",
        "/v1/files/a%5Cb",
        "/v1/files/a\\b",
        "/v1/files/",
        "/v1/messages\r\nx: y",
        "/v1/messages#x",
        "/v1/chat",
        "/v1/chat/completions/x",
        "",
    ] {
        let error = target(refused).expect_err(refused);
        assert!(refused.is_empty() || error.message.contains(refused.trim()), "{error:?}");
    }
}

#[test]
fn an_envelope_says_what_is_sent() {
    let body = json!({ "model": "m", "stream": "?", "odd": { "a": [1] } });
    for (streamed, own, stream) in [
        (Streamed::Never, true, false),
        (Streamed::Always, false, true),
        (Streamed::AsAsked, true, true),
        (Streamed::AsAsked, false, false),
    ] {
        let asked =
            json!({ "path": "/v1/embeddings", "jsonBody": body, "stream": own, "forcedChannelId": "7" });
        let ask = envelope(asked, streamed).expect("an envelope");
        assert_eq!(json_of(&ask.body), json!({ "model": "m", "stream": stream, "odd": { "a": [1] } }));
        assert_eq!((ask.method.as_str(), ask.forced_channel), ("POST", Some(ChannelId::new(7))));
        assert_eq!(ask.headers["content-type"], "application/json");
    }
    // Gemini's path says whether it streams, and its upstreams refuse a body with unknown members.
    let asked = json!({ "path": "/v1beta/models/m:generateContent", "jsonBody": { "contents": [] } });
    let ask = envelope(asked, Streamed::Always).expect("an envelope");
    assert_eq!(json_of(&ask.body), json!({ "contents": [] }));
    let raw = |raw: &str| json!({ "path": "/v1/messages", "rawMode": true, "rawJsonText": raw, "jsonBody": { "a": 1 } });
    let ask = envelope(raw("{\"b\":2}"), Streamed::Never).expect("an envelope");
    assert_eq!(json_of(&ask.body), json!({ "b": 2, "stream": false }));
    assert_eq!(ask.headers["anthropic-version"], "2023-06-01");
    let ask = envelope(raw("{not json"), Streamed::Never).expect("an envelope");
    assert_eq!(&*ask.body, b"{not json");
    for forced in [json!(0), json!(-1), json!(1.5), json!("x"), json!(9_007_199_254_740_992_i64), json!(null)]
    {
        let ask = envelope(json!({ "path": "/v1/messages", "forcedChannelId": forced }), Streamed::Never);
        assert_eq!(ask.expect("an envelope").forced_channel, None, "{forced}");
    }
    let asked = json!({ "path": "/v1/models", "method": "get", "requestKind": "empty" });
    let ask = envelope(asked, Streamed::Never).expect("an envelope");
    assert_eq!((ask.method.as_str(), ask.body.len(), ask.headers.len()), ("GET", 0, 0));
}

#[test]
fn a_form_is_put_together_from_its_fields_and_files() {
    let ask = envelope(
        json!({
            "path": "/v1/files", "requestKind": "multipart", "multipartFields": { "purpose": "assistants" },
            "multipartFiles": [
                { "field": "file", "name": "a\"b.txt", "mimeType": "text/x", "dataUrl": "data:text/plain;base64,aGk=" },
                { "mimeType": null, "dataUrl": "data:application/PDF;base64,aGk=" },
            ],
        }),
        Streamed::Never,
    );
    let ask = ask.expect("an envelope");
    let kind = ask.headers["content-type"].to_str().expect("text");
    let boundary = kind.strip_prefix("multipart/form-data; boundary=").expect("a boundary");
    let expected = format!(
        "--{boundary}\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nassistants\r\n\
         --{boundary}\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a%22b.txt\"\r\n\
         Content-Type: text/x\r\n\r\nhi\r\n\
         --{boundary}\r\nContent-Disposition: form-data; name=\"file\"; filename=\"\"\r\n\
         Content-Type: application/pdf\r\n\r\nhi\r\n--{boundary}--\r\n"
    );
    assert_eq!(String::from_utf8_lossy(&ask.body), expected);
}

#[test]
fn what_cannot_be_sent_is_refused() {
    for refused in [
        json!({}),
        json!({ "path": 1 }),
        json!({ "path": "/v1/models", "method": "PUT" }),
        json!({ "path": "/v1/models", "method": "GET", "requestKind": "json" }),
        json!({ "path": "/v1/models", "method": "GET" }),
        json!({ "path": "/v1/files/x", "method": "DELETE", "requestKind": "multipart" }),
        json!({ "path": "/v1/messages", "requestKind": "xml" }),
        json!({ "path": "/v1/messages", "rawMode": true }),
        json!({ "path": "/v1/messages", "rawMode": true, "rawJsonText": " " }),
        json!({ "path": "/v1/files", "requestKind": "multipart" }),
        json!({ "path": "/v1/files", "requestKind": "multipart", "multipartFields": { "a": 1 } }),
        json!({ "path": "/v1/files", "requestKind": "multipart", "multipartFiles": [{ "dataUrl": "hi" }] }),
        json!({ "path": "/v1/files", "requestKind": "multipart", "multipartFiles": [{ "dataUrl": "data:;base64,h?" }] }),
    ] {
        let error = envelope(refused.clone(), Streamed::Never).err().unwrap_or_else(|| panic!("{refused}"));
        assert_eq!((error.status.as_u16(), error.kind), (400, "validation_error"), "{refused}");
    }
}

#[test]
fn a_conversation_is_put_as_each_dialect_wants_it() {
    let asked = |format: &str, messages: Value| {
        let body =
            json!({ "model": "m", "messages": messages, "targetFormat": format, "seed": 3, "top_p": 0.5 });
        chat::read(&fields(body), Streamed::Always)
    };
    let talk = json!([
        { "role": "system", "content": "be" }, { "role": "system", "content": "kind" },
        { "role": "tool", "content": "x" }, { "role": "user", "content": " " }, { "role": "assistant", "content": "y" },
    ]);
    let ask = asked("openai", talk.clone()).expect("a conversation");
    let expected = json!({ "model": "m", "messages": talk, "seed": 3, "top_p": 0.5, "stream": true });
    assert_eq!((ask.target.path(), json_of(&ask.body)), ("/v1/chat/completions", expected));
    let ask = asked("claude", talk).expect("a conversation");
    let said = json!([{ "role": "user", "content": "x" }, { "role": "assistant", "content": "y" }]);
    let expected = json!({
        "model": "m", "system": "be\n\nkind", "messages": said, "max_tokens": 4096, "top_p": 0.5, "stream": true,
    });
    assert_eq!((ask.target.path(), json_of(&ask.body)), ("/v1/messages", expected));
    let ask = asked("responses", json!([{ "role": "user", "content": "hi" }])).expect("a conversation");
    let expected =
        json!({ "model": "m", "input": "hi", "max_output_tokens": 4096, "top_p": 0.5, "stream": true });
    assert_eq!((ask.target.path(), json_of(&ask.body)), ("/v1/responses", expected));
    assert!(asked("gemini", json!([{ "role": "user", "content": "hi" }])).is_err());
    for wrong in
        [json!([]), json!("x"), json!([{ "role": "user" }]), json!([{ "role": "user", "content": 1 }])]
    {
        assert!(asked("openai", wrong.clone()).is_err(), "{wrong}");
    }
}

#[test]
fn a_job_that_nobody_looks_at_is_forgotten() {
    let jobs = JobList::default();
    let (running, _stopped) = tokio::sync::oneshot::channel();
    assert!(jobs.add("a", running, 0).is_ok());
    jobs.end("a", Ok(answer::raw(&json!({ "long": true }))), 5_000);
    jobs.sweep(604_999);
    assert_eq!(jobs.count(), 1);
    jobs.sweep(605_000);
    assert_eq!(jobs.count(), 0);
}

#[test]
fn what_is_kept_of_answers_is_bounded_in_sum() {
    let jobs = JobList::default();
    let long = json!("x".repeat(30 << 20));
    for (at, id) in (0..).zip(["a", "b", "c"]) {
        let (running, _stopped) = tokio::sync::oneshot::channel();
        assert!(jobs.add(id, running, at).is_ok());
        jobs.end(id, Ok(answer::raw(&long)), at);
    }
    let is_there = |id: &str| jobs.show(id, 3).is_some();
    assert!(!is_there("a") && is_there("b") && is_there("c"));
    jobs.clear();
    assert_eq!(jobs.count(), 0);
}

#[test]
fn a_plain_text_is_one_event_of_its_lines() {
    let expected = "data: line one\ndata: line two\ndata: \n\ndata: [DONE]\n\n";
    assert_eq!(answer::one_event("line one\nline two\n"), expected);
}
