//! Requests and answers with very many parts: how many are still converted, and how more are refused.

use serde_json::{Value, json};

use crate::conversion::{MODEL, narrow};
use crate::support::paths::{CHAT, MESSAGES, RESPONSES};
use crate::support::{Reply, Request, wire};

const PATHS: [&str; 3] = [CHAT, RESPONSES, MESSAGES];
const GEMINI: &str = "/v1beta/models/model-narrow:generateContent";

/// Builds a request of one turn with this many parts, including the turn.
fn request(path: &str, parts: usize) -> Value {
    let texts = |text: Value| Value::from(vec![text; parts - 1]);
    match path {
        RESPONSES => json!({"model": MODEL, "input": [
            {"role": "user", "content": texts(json!({"type": "input_text", "text": "x"}))}]}),
        GEMINI => json!({"contents": [{"role": "user", "parts": texts(json!({"text": "x"}))}]}),
        _ => json!({"model": MODEL, "max_tokens": 9, "messages": [
            {"role": "user", "content": texts(json!({"type": "text", "text": "x"}))}]}),
    }
}

#[test]
fn a_request_of_too_many_parts_is_refused_in_the_words_of_its_dialect() {
    for (path, offered, list) in [
        (CHAT, MESSAGES, "messages"),
        (MESSAGES, CHAT, "messages"),
        (RESPONSES, CHAT, "input"),
        (GEMINI, CHAT, "contents"),
    ] {
        let (gateway, upstream) = narrow(offered, &[("MAX_REQUEST_PARTS", "200")]);
        gateway.client().post(path, &request(path, 200)).expect(200);
        let asked = upstream.asked_for(offered).len();
        let refusal = gateway.client().post(path, &request(path, 201)).expect(400);
        let message = refusal["error"]["message"].as_str().unwrap_or_default();
        assert_eq!(
            message,
            format!("{list} must have no more than 200 parts and calls together"),
            "{refusal}"
        );
        match path {
            MESSAGES => assert_eq!(refusal["error"]["type"], "invalid_request_error", "{refusal}"),
            GEMINI => assert_eq!(refusal["error"]["status"], "INVALID_ARGUMENT", "{refusal}"),
            _ => assert_eq!(refusal["error"]["param"], list, "{refusal}"),
        }
        assert_eq!(upstream.asked_for(offered).len(), asked, "nobody is asked");
    }
}

#[test]
fn a_request_in_the_upstreams_own_dialect_may_have_any_number_of_parts() {
    let (gateway, _upstream) = narrow(CHAT, &[("MAX_REQUEST_PARTS", "200")]);
    gateway.client().post(CHAT, &request(CHAT, 1000)).expect(200);
}

#[test]
fn a_body_larger_than_the_memory_for_conversions_is_converted_alone() {
    let (gateway, upstream) = narrow(CHAT, &[("CONVERSION_MEMORY_BYTES", "1048576")]);
    let text = "word ".repeat(300_000);
    let body = json!({"model": MODEL, "max_tokens": 9, "messages": [{"role": "user", "content": text}]});
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| gateway.client().post(MESSAGES, &body).expect(200));
        }
    });
    assert_eq!(upstream.last(CHAT).json()["messages"][0]["content"], body["messages"][0]["content"]);
}

/// Builds an upstream's stream that begins this many calls and ends none of them.
fn open_calls(path: &str, calls: usize) -> Reply {
    let event = |event: Value| match path {
        CHAT => format!("data: {event}\n\n"),
        _ => format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap_or_default()),
    };
    let call = |at: usize| {
        let id = format!("call_{at}");
        event(match path {
            CHAT => json!({"id": "c", "model": "m", "choices": [{"index": 0, "delta": {"tool_calls": [
                {"index": at, "id": id, "type": "function", "function": {"name": "f", "arguments": "{"}}]}}]}),
            RESPONSES => json!({"type": "response.output_item.added", "output_index": at,
                "item": {"type": "function_call", "id": id, "call_id": id, "name": "f", "arguments": ""}}),
            _ => json!({"type": "content_block_start", "index": at,
                "content_block": {"type": "tool_use", "id": id, "name": "f", "input": {}}}),
        })
    };
    let start = match path {
        CHAT => None,
        RESPONSES => Some(json!({"type": "response.created", "response": {"id": "r", "model": "m"}})),
        _ => Some(json!({"type": "message_start", "message": {"id": "m", "model": "m", "content": []}})),
    };
    let events = start.map(event).into_iter().chain((0..calls).map(call));
    Reply::events([events.collect::<String>()])
}

#[test]
fn a_stream_with_too_many_open_calls_ends_with_an_error_of_the_clients_dialect() {
    for offered in PATHS {
        for path in PATHS.into_iter().filter(|path| *path != offered) {
            let (gateway, upstream) = narrow(offered, &[]);
            upstream.answer(offered, open_calls(offered, 5000));
            let mut body = request(path, 2);
            body["stream"] = json!(true);
            let stream = gateway.client().send(Request::post(path).json(&body));
            assert_eq!(stream.status, 200, "{path} on {offered}: {}", stream.text());
            let last = wire::data_of(&stream.text()).pop().unwrap_or_default();
            let error = if path == RESPONSES { &last["response"]["error"] } else { &last["error"] };
            let message = error["message"].as_str().unwrap_or_default();
            assert!(message.contains("more than 4096 parts"), "{path} on {offered}: {last}");
        }
    }
}

/// Returns bodies of about twelve megabytes with one long list in the schema of a tool.
fn dense_schemas() -> Vec<(&'static str, &'static str, u16, String)> {
    let numbers = "1,".repeat(6_000_000) + "1";
    vec![
        (
            "a schema of many values",
            MESSAGES,
            200,
            format!(
                r#"{{"model":"{MODEL}","max_tokens":9,"messages":[{{"role":"user","content":"x"}}],
                "tools":[{{"name":"f","input_schema":{{"type":"object","enum":[{numbers}]}}}}]}}"#
            ),
        ),
        (
            "a schema that requires many members",
            MESSAGES,
            400,
            format!(
                r#"{{"model":"{MODEL}","max_tokens":9,"messages":[{{"role":"user","content":"x"}}],
                "tools":[{{"name":"f","input_schema":{{"type":"object","properties":{{}},"required":[{numbers}]}}}}]}}"#
            ),
        ),
        (
            "a schema of Google's with many branches",
            GEMINI,
            400,
            format!(
                r#"{{"contents":[{{"parts":[{{"text":"x"}}]}}],"tools":[{{"functionDeclarations":[{{"name":"f",
                "parameters":{{"type":"OBJECT","anyOf":[{numbers}]}}}}]}}]}}"#
            ),
        ),
        (
            "a schema of Google's with many values or none",
            GEMINI,
            200,
            format!(
                r#"{{"contents":[{{"parts":[{{"text":"x"}}]}}],"tools":[{{"functionDeclarations":[{{"name":"f",
                "parameters":{{"type":"INTEGER","nullable":true,"enum":[{numbers}]}}}}]}}]}}"#
            ),
        ),
    ]
}

/// Returns bodies of about twelve megabytes, which would take far more when parsed.
fn dense_bodies() -> Vec<(&'static str, &'static str, u16, String)> {
    let numbers = "1,".repeat(6_000_000) + "1";
    let repeated = |part: &str, times: usize| part.repeat(times - 1) + part.trim_end_matches(',');
    let long = "x".repeat(600);
    vec![
        (
            "many contents",
            GEMINI,
            200,
            format!(
                r#"{{"contents":[{}]}}"#,
                repeated(&format!(r#"{{"parts":[{{"text":"{long}"}}]}},"#), 9000)
            ),
        ),
        (
            "tiny contents",
            GEMINI,
            400,
            format!(r#"{{"contents":[{}]}}"#, repeated(r#"{"parts":[{"text":"x"}]},"#, 480_000)),
        ),
        (
            "arguments of many values",
            GEMINI,
            200,
            format!(
                r#"{{"contents":[{{"role":"model","parts":[{{"functionCall":{{"name":"f","args":{{"a":[{numbers}]}}}}}}]}},
                {{"role":"user","parts":[{{"functionResponse":{{"name":"f","response":{{"result":"x"}}}}}}]}}]}}"#
            ),
        ),
        (
            "members without number",
            MESSAGES,
            400,
            format!(
                r#"{{"model":"{MODEL}","max_tokens":9,"messages":[{{"role":"user","content":"x"}}],{}}}"#,
                repeated(r#""a":1,"#, 2_000_000)
            ),
        ),
        (
            "one long text",
            MESSAGES,
            200,
            format!(
                r#"{{"model":"{MODEL}","max_tokens":9,"messages":[{{"role":"user","content":"{}"}}]}}"#,
                long.repeat(20_000)
            ),
        ),
    ]
}

#[test]
fn a_schema_of_too_many_elements_is_refused_by_the_name_of_its_member() {
    let (gateway, upstream) = narrow(CHAT, &[]);
    let names = |names: usize| json!({"type": "object", "properties": {}, "required": vec![""; names]});
    let said = json!([{"role": "user", "content": "x"}]);
    let contents = json!([{"parts": [{"text": "x"}]}]);
    let declared = |schema: Value| json!([{"functionDeclarations": [{"name": "f", "parameters": schema}]}]);
    let format = |schema: Value| json!({"format": {"type": "json_schema", "schema": schema}});
    let bodies = |names: &dyn Fn() -> Value| {
        [
            (
                MESSAGES,
                "tools",
                json!({"model": MODEL, "max_tokens": 9, "messages": said,
                    "tools": [{"name": "f", "input_schema": names()}]}),
            ),
            (
                MESSAGES,
                "output_config.format",
                json!({"model": MODEL, "max_tokens": 9, "messages": said, "output_config": format(names())}),
            ),
            (GEMINI, "tools", json!({"contents": contents, "tools": declared(names())})),
            (
                GEMINI,
                "generationConfig.responseSchema",
                json!({"contents": contents, "generationConfig": {"responseSchema": names()}}),
            ),
        ]
    };
    for (path, _, body) in bodies(&|| names(99_000)) {
        gateway.client().post(path, &body).expect(200);
    }
    let asked = upstream.asked_for(CHAT).len();
    for (path, field, body) in bodies(&|| names(100_000)) {
        let refusal = gateway.client().post(path, &body).expect(400);
        let wanted = format!("{field} must have no schema of more than 100000 members and elements");
        assert_eq!(refusal["error"]["message"], wanted, "{path}: {refusal}");
    }
    assert_eq!(upstream.asked_for(CHAT).len(), asked, "nobody is asked");
}

#[test]
fn a_conversion_takes_at_most_twelve_times_its_body() {
    for (shape, path, status, body) in dense_bodies().into_iter().chain(dense_schemas()) {
        let (gateway, _upstream) = narrow(CHAT, &[]);
        gateway.client().post(path, &request(path, 2)).expect(200);
        let before = gateway.resident_kib();
        let length = body.len() as u64 / 1024;
        let answer = gateway.client().send(Request::post(path).json_text(body));
        assert_eq!(answer.status, status, "{shape}: {}", answer.text());
        let grown = gateway.peak_resident_kib().saturating_sub(before);
        assert!(grown <= 12 * length, "{shape}: {grown} KiB for a body of {length} KiB");
    }
}
