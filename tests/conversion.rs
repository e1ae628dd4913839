//! Clients of one dialect on upstreams of another: which dialect is tried, what is remembered, what a client sees. The
//! conversion of each field is tested beside the dialects.

use serde_json::{Value, json};

use crate::support::paths::{CHAT, MESSAGES, RESPONSES};
use crate::support::{Gateway, Reply, Request, Upstream, wire};

pub(super) const MODEL: &str = "model-narrow";
const PATHS: [&str; 3] = [CHAT, RESPONSES, MESSAGES];

/// Starts a gateway in front of an upstream that offers only one of the dialects.
pub(super) fn narrow(offered: &str, variables: &[(&str, &str)]) -> (Gateway, Upstream) {
    let upstream = Upstream::with_one_path(MODEL, offered);
    let gateway = Gateway::with(variables).in_front_of("new-api", &upstream);
    (gateway, upstream)
}

pub(super) fn body(path: &str, streamed: bool) -> Value {
    let mut body = match path {
        RESPONSES => json!({"model": MODEL, "input": "Which way?"}),
        _ => json!({"model": MODEL, "messages": [{"role": "user", "content": "Which way?"}]}),
    };
    if path == MESSAGES {
        body["max_tokens"] = json!(64);
    }
    if streamed {
        body["stream"] = json!(true);
    }
    body
}

/// Returns the text of a complete answer, and its input and output tokens.
fn said(path: &str, answer: &Value) -> (String, Value, Value) {
    let usage = &answer["usage"];
    match path {
        CHAT => (
            text(&answer["choices"][0]["message"]["content"]),
            usage["prompt_tokens"].clone(),
            usage["completion_tokens"].clone(),
        ),
        RESPONSES => {
            let message = answer["output"]
                .as_array()
                .and_then(|items| items.iter().find(|item| item["type"] == "message"));
            let content = message.map(|message| text(&message["content"][0]["text"])).unwrap_or_default();
            (content, usage["input_tokens"].clone(), usage["output_tokens"].clone())
        }
        _ => (
            text(&answer["content"][0]["text"]),
            usage["input_tokens"].clone(),
            usage["output_tokens"].clone(),
        ),
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn streamed_text(path: &str, events: &[Value]) -> String {
    let piece = |event: &Value| match path {
        CHAT => text(&event["choices"][0]["delta"]["content"]),
        RESPONSES if event["type"] == "response.output_text.delta" => text(&event["delta"]),
        MESSAGES => text(&event["delta"]["text"]),
        _ => String::new(),
    };
    events.iter().map(piece).collect()
}

#[test]
fn every_client_is_answered_by_every_upstream() {
    for offered in PATHS {
        let (gateway, upstream) = narrow(offered, &[]);
        for path in PATHS {
            let answer = gateway.client().post(path, &body(path, false)).expect(200);
            let wanted = (wire::TEXT.to_owned(), json!(wire::PROMPT_TOKENS), json!(wire::COMPLETION_TOKENS));
            assert_eq!(said(path, &answer), wanted, "{path} on {offered}: {answer}");

            let stream = gateway.client().send(Request::post(path).json(&body(path, true)));
            assert_eq!(stream.status, 200, "{}", stream.text());
            let events = wire::data_of(&stream.text());
            assert_eq!(streamed_text(path, &events), wire::TEXT, "{path} on {offered}: {}", stream.text());
        }
        assert!(upstream.asked_for(offered).len() >= 6);
    }
}

#[test]
fn a_refused_dialect_is_not_asked_again_soon() {
    let (gateway, upstream) = narrow(CHAT, &[]);
    for _ in 0..3 {
        gateway.client().post(MESSAGES, &body(MESSAGES, false)).expect(200);
    }
    assert_eq!((upstream.asked_for(MESSAGES).len(), upstream.asked_for(CHAT).len()), (1, 3));
    // The result for text does not apply to a request with an image.
    let mut image = body(MESSAGES, false);
    image["messages"][0]["content"] = json!([{"type": "image", "source":
        {"type": "base64", "media_type": "image/png", "data": "iVBORw0K"}}]);
    gateway.client().post(MESSAGES, &image).expect(200);
    assert_eq!((upstream.asked_for(MESSAGES).len(), upstream.asked_for(CHAT).len()), (2, 4));
    // Refused attempts have log rows of their own beside the answers.
    let refused = gateway.wait_for_logs_of(MESSAGES, 2);
    assert!(refused.iter().all(|row| row["status"] == "failed" && row["httpStatus"] == 404), "{refused:?}");
    assert!(refused.iter().all(|row| row["retryCount"] == 0 && row["estimatedCost"] == 0), "{refused:?}");
    let answered = gateway.wait_for_logs_of(CHAT, 4);
    assert!(answered.iter().all(|row| row["status"] == "success"), "{answered:?}");
    assert_eq!(refused[0]["requestId"], answered[0]["requestId"]);
    assert_eq!(gateway.channels(MODEL)[0]["cooldownUntil"], Value::Null, "a refused dialect is no fault");
}

#[test]
fn a_site_that_refuses_every_dialect_is_asked_in_all_of_them_again() {
    let (gateway, upstream) = narrow("/v1/nowhere", &[]);
    for path in [CHAT, MESSAGES, RESPONSES] {
        let refusal = json!({"error": {"message": format!("Invalid URL (POST {path})")}});
        upstream.answer(path, Reply::json(404, &refusal));
    }
    for times in 1..=2 {
        let error = gateway.client().post(CHAT, &body(CHAT, false)).expect(404);
        assert_eq!(
            error["error"]["message"],
            format!("Invalid URL (POST {CHAT})"),
            "that of its own dialect"
        );
        for path in [CHAT, MESSAGES, RESPONSES] {
            assert_eq!(upstream.asked_for(path).len(), times, "{path}");
        }
    }
}

#[test]
fn a_site_that_has_changed_its_dialect_is_asked_in_all_of_them_again() {
    let (gateway, upstream) = narrow(MESSAGES, &[]);
    for _ in 0..2 {
        gateway.client().post(CHAT, &body(CHAT, false)).expect(200);
    }
    assert_eq!((upstream.asked_for(CHAT).len(), upstream.asked_for(MESSAGES).len()), (1, 2));
    let refusal = json!({"error": {"message": format!("Invalid URL (POST {MESSAGES})")}});
    upstream.answer(MESSAGES, Reply::json(404, &refusal));
    upstream.answer(CHAT, Reply::json(200, &wire::chat(MODEL)));
    gateway.client().post(CHAT, &body(CHAT, false)).expect(404);
    for _ in 0..2 {
        gateway.client().post(CHAT, &body(CHAT, false)).expect(200);
    }
    assert_eq!((upstream.asked_for(CHAT).len(), upstream.asked_for(MESSAGES).len()), (3, 3));
}

#[test]
fn an_ordinary_mistake_is_sent_once_and_keeps_its_code() {
    let (gateway, upstream) = narrow(CHAT, &[]);
    let refusal = json!({"error": {"message": "maximum context length is 10", "type": "invalid_request_error",
        "param": "messages", "code": "context_length_exceeded"}});
    upstream.answer(CHAT, Reply::json(400, &refusal));
    assert_eq!(gateway.client().post(CHAT, &body(CHAT, false)).expect(400), refusal);
    assert_eq!((upstream.asked_for(CHAT).len(), upstream.asked_for(MESSAGES).len()), (1, 0));

    let error = gateway.client().post(MESSAGES, &body(MESSAGES, false)).expect(400);
    assert_eq!((&error["type"], &error["error"]["type"]), (&json!("error"), &json!("invalid_request_error")));
    assert_eq!(error["error"]["message"], "maximum context length is 10");
    assert_eq!(gateway.channels(MODEL)[0]["cooldownUntil"], Value::Null);

    // An error that lacks a member that clients read is rewritten in the full format.
    upstream.answer(CHAT, Reply::json(422, &json!({"error": {"message": "no such track"}})));
    let error = gateway.client().post(CHAT, &body(CHAT, false)).expect(422);
    let wanted = json!({"message": "no such track", "type": "upstream_error", "param": null, "code": null});
    assert_eq!(error["error"], wanted);
}

#[test]
fn an_operator_may_forbid_other_dialects() {
    let (gateway, upstream) = narrow(CHAT, &[("DISABLE_CROSS_PROTOCOL_FALLBACK", "true")]);
    gateway.client().post(MESSAGES, &body(MESSAGES, false)).expect(404);
    assert_eq!((upstream.asked_for(MESSAGES).len(), upstream.asked_for(CHAT).len()), (1, 0));
    gateway.client().post(CHAT, &body(CHAT, false)).expect(200);
}

#[test]
fn what_no_upstream_can_express_names_the_field() {
    let (gateway, upstream) = narrow(MESSAGES, &[]);
    let mut two = body(CHAT, false);
    two["n"] = json!(2);
    let error = gateway.client().post(CHAT, &two).expect(400);
    assert_eq!(
        (&error["error"]["param"], &error["error"]["type"]),
        (&json!("n"), &json!("invalid_request_error"))
    );
    assert_eq!(upstream.asked_for(MESSAGES).len(), 0);
    assert_eq!(gateway.channels(MODEL)[0]["cooldownUntil"], Value::Null);
    // Responses could express this one, but is not offered here.
    let mut spoken = body(CHAT, false);
    spoken["messages"][0]["content"] =
        json!([{"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}]);
    let error = gateway.client().post(CHAT, &spoken).expect(400);
    assert_eq!(error["error"]["param"], "input_audio", "{error}");
    assert_eq!(upstream.asked_for(MESSAGES).len(), 0);
}

#[test]
fn a_conversation_that_lies_elsewhere_is_asked_for_in_full() {
    let (gateway, upstream) = narrow(CHAT, &[]);
    let mut next = body(RESPONSES, false);
    next["previous_response_id"] = json!("resp_1");
    let error = gateway.client().post(RESPONSES, &next).expect(400);
    assert_eq!(error["error"]["code"], "previous_response_not_found", "{error}");
    assert_eq!(upstream.asked_for(CHAT).len(), 0);
}

#[test]
fn a_thread_that_lies_elsewhere_is_asked_for_in_full() {
    for (platform, offered, kept) in
        [("new-api", CHAT, false), ("new-api", MESSAGES, false), ("claude", MESSAGES, true)]
    {
        let upstream = Upstream::with_one_path(MODEL, offered);
        let gateway = Gateway::start().in_front_of(platform, &upstream);
        gateway.wait_for_channels(MODEL, 1);
        let mut first = body(MESSAGES, false);
        first["thread"] = json!({"type": "create"});
        gateway.client().post(MESSAGES, &first).expect(200);
        assert_eq!(upstream.last(offered).json().get("thread").is_some(), kept);
        let mut next = body(MESSAGES, false);
        next["thread"] = json!({"type": "continue", "previous_message_id": "msg_1"});
        let answer = gateway.client().post(MESSAGES, &next);
        let asked = upstream.asked_for(offered);
        if kept {
            answer.expect(200);
            assert_eq!(asked[1].json()["thread"], next["thread"]);
            continue;
        }
        // The client keeps a copy of the conversation for this case, and sends it.
        let error = answer.expect(404)["error"].clone();
        assert_eq!(
            (&error["type"], &error["details"]["error_code"]),
            (&json!("not_found_error"), &json!("thread_not_found")),
            "{error}"
        );
        assert_eq!(asked.len(), 1, "not asked with half a conversation");
        assert_eq!(gateway.channels(MODEL)[0]["cooldownUntil"], Value::Null);
    }
}

#[test]
fn an_output_must_name_its_call() {
    let (gateway, upstream) = narrow(RESPONSES, &[]);
    let output = |id: Value| json!({"type": "function_call_output", "call_id": id, "output": "5"});
    for (id, known) in [(json!("call_1"), true), (json!("call_2"), false), (Value::Null, false)] {
        let call = json!({"type": "function_call", "call_id": "call_1", "name": "add", "arguments": "{}"});
        let mut asked = body(RESPONSES, false);
        asked["input"] = json!([call, output(id.clone())]);
        let answer = gateway.client().post(RESPONSES, &asked);
        if known {
            answer.expect(200);
        } else {
            assert_eq!(answer.expect(400)["error"]["param"], "input[1].call_id", "{id}");
            // A request that comes from Codex itself is passed on all the same.
            let codex = Request::post(RESPONSES).header("originator", "codex_cli_rs").json(&asked);
            assert_eq!(gateway.client().send(codex).status, 200, "{id}");
        }
    }
    assert_eq!(upstream.asked_for(RESPONSES).len(), 3);
}

#[test]
fn a_message_without_content_is_an_empty_answer() {
    let (gateway, upstream) = narrow(MESSAGES, &[]);
    let mut message = wire::message(MODEL);
    message["content"] = Value::Null;
    upstream.answer(MESSAGES, Reply::json(200, &message));
    let answer = gateway.client().post(RESPONSES, &body(RESPONSES, false)).expect(200);
    assert_eq!((&answer["status"], &answer["output"]), (&json!("completed"), &json!([])));
    assert_eq!(gateway.client().post(MESSAGES, &body(MESSAGES, false)).expect(200), message);
}

#[test]
fn an_answer_in_the_wrong_form_is_brought_into_the_right_one() {
    let (gateway, upstream) = narrow(CHAT, &[]);
    upstream.answer(CHAT, Reply::events(wire::chat_events(MODEL)));
    let answer = gateway.client().post(CHAT, &body(CHAT, false)).expect(200);
    assert_eq!(said(CHAT, &answer).0, wire::TEXT);
    for first in ["id: 1\n", "retry: 3000\n\n"] {
        let stream = format!("{first}{}", wire::chat_events(MODEL).concat());
        upstream.answer(CHAT, Reply::bytes(200, "text/plain", stream));
        let answer = gateway.client().post(CHAT, &body(CHAT, false)).expect(200);
        assert_eq!(said(CHAT, &answer).0, wire::TEXT, "{first:?}");
    }
    upstream.answer(CHAT, Reply::json(200, &wire::chat(MODEL)));
    let stream = gateway.client().send(Request::post(CHAT).json(&body(CHAT, true)));
    assert_eq!(stream.header("content-type"), Some("text/event-stream; charset=utf-8"));
    assert!(stream.text().ends_with("data: [DONE]\n\n"), "{}", stream.text());
    assert_eq!(streamed_text(CHAT, &wire::data_of(&stream.text())), wire::TEXT);
}

#[test]
fn a_gathered_answer_is_logged_with_the_tokens_its_upstream_counts() {
    let mut events = wire::message_events(MODEL);
    events[0] = events[0].replace("\"usage\":{", "\"usage\":{\"cache_read_input_tokens\":40,");
    let mut answer = wire::message(MODEL);
    answer["usage"]["cache_read_input_tokens"] = json!(40);
    for reply in [Reply::events(events), Reply::json(200, &answer)] {
        let (gateway, upstream) = narrow(MESSAGES, &[]);
        upstream.answer(MESSAGES, reply);
        let answer = gateway.client().post(CHAT, &body(CHAT, false)).expect(200);
        assert_eq!(answer["usage"]["prompt_tokens"], wire::PROMPT_TOKENS + 40, "{answer}");
        let row = &gateway.wait_for_logs_of(MESSAGES, 1)[0];
        assert_eq!(row["promptTokens"], wire::PROMPT_TOKENS, "{row}");
    }
}

#[test]
fn plain_text_in_place_of_a_stream_is_the_answer() {
    let (gateway, upstream) = narrow(CHAT, &[]);
    upstream.answer(CHAT, Reply::bytes(200, "text/plain; charset=utf-8", "just words"));
    for path in PATHS {
        let stream = gateway.client().send(Request::post(path).json(&body(path, true)));
        assert_eq!(
            streamed_text(path, &wire::data_of(&stream.text())),
            "just words",
            "{path}: {}",
            stream.text()
        );
    }
}

#[test]
fn an_error_behind_the_first_output_is_told_however_the_network_cuts_it() {
    let events = wire::chat_events(MODEL);
    let error = wire::data(&json!({"error": {"message": "boom", "type": "server_error", "code": null}}));
    let at_once = events[..2].concat() + &error;
    for path in PATHS {
        let (gateway, upstream) = narrow(CHAT, &[]);
        upstream.answer(CHAT, Reply::events([at_once.as_str()]));
        let stream = gateway.client().stream(Request::post(path).json(&body(path, true)));
        let (bytes, _) = stream.rest();
        let told = String::from_utf8_lossy(&bytes);
        assert!(
            !streamed_text(path, &wire::data_of(&told)).is_empty() && told.contains("boom"),
            "{path}: {told}"
        );
        let ends = ["[DONE]", "message_stop", "response.completed"];
        assert!(!ends.iter().any(|end| told.contains(end)), "{path}: {told}");
        let row = gateway.wait_for_logs_of(CHAT, 1).pop().expect("a row");
        assert_eq!((&row["status"], &row["httpStatus"]), (&json!("failed"), &json!(200)), "{row}");
    }
}

#[test]
fn a_converted_stream_that_breaks_fails_in_the_clients_words() {
    let events = wire::chat_events(MODEL);
    for (path, marks) in
        [(MESSAGES, &["event: error", "\"type\":\"error\""][..]), (RESPONSES, &["response.failed"])]
    {
        let (gateway, upstream) = narrow(CHAT, &[]);
        upstream.answer(CHAT, Reply::events(&events[..events.len() - 3]).cut_after(events.len() - 3));
        let stream = gateway.client().stream(Request::post(path).json(&body(path, true)));
        let (bytes, _) = stream.rest();
        let told = String::from_utf8_lossy(&bytes);
        assert!(marks.iter().all(|mark| told.contains(mark)), "{path}: {told}");
        assert!(
            !told.contains("message_stop") && !told.contains("event: response.completed"),
            "{path}: {told}"
        );
        let row = gateway.wait_for_logs_of(CHAT, 1).pop().expect("a row");
        assert_eq!(row["status"], "failed", "{row}");
    }
}

/// Builds an upstream's events with a call of `add`, one of which comes `twice`.
fn called(offered: &str, twice: &str) -> Vec<String> {
    let arguments = "{\"a\":5}";
    let item =
        json!({"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "add", "arguments": ""});
    let done = json!({"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "add", "arguments": arguments});
    let response = json!({"id": "resp_1", "object": "response", "created_at": 7, "status": "completed", "model": MODEL,
        "output": [done], "usage": {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3}});
    let events = if offered == RESPONSES {
        json!([
            {"type": "response.created", "response": {"id": "resp_1", "model": MODEL}},
            {"type": "response.output_item.added", "output_index": 0, "item": item},
            {"type": "response.function_call_arguments.delta", "item_id": "fc_1", "output_index": 0, "delta": arguments},
            {"type": "response.function_call_arguments.done", "item_id": "fc_1", "output_index": 0, "arguments": arguments},
            {"type": "response.output_item.done", "output_index": 0, "item": done},
            {"type": "response.completed", "response": response},
        ])
    } else {
        json!([
            {"type": "message_start", "message": {"id": "msg_1", "model": MODEL, "usage": {"input_tokens": 1}}},
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Adding."}},
            {"type": "content_block_stop", "index": 0},
            {"type": "content_block_start", "index": 1,
                "content_block": {"type": "tool_use", "id": "c1", "name": "add", "input": {}}},
            {"type": "content_block_stop", "index": 0},
            {"type": "content_block_delta", "index": 1,
                "delta": {"type": "input_json_delta", "partial_json": arguments}},
            {"type": "content_block_stop", "index": 1},
            {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 2}},
            {"type": "message_stop"},
        ])
    };
    let events = events.as_array().expect("a list").iter();
    events.map(|event| wire::named(event).repeat(if event["type"] == twice { 2 } else { 1 })).collect()
}

#[test]
fn a_call_that_is_announced_twice_is_one_call() {
    for (offered, twice) in [
        (RESPONSES, "response.output_item.added"),
        (RESPONSES, "response.output_item.done"),
        (MESSAGES, "content_block_start"),
        (MESSAGES, "content_block_stop"),
    ] {
        let (gateway, upstream) = narrow(offered, &[]);
        upstream.answer(offered, Reply::events(called(offered, twice)));
        let answer = gateway.client().post(CHAT, &body(CHAT, false)).expect(200);
        let calls = &answer["choices"][0]["message"]["tool_calls"];
        let wanted = json!([{"id": "c1", "type": "function",
            "function": {"name": "add", "arguments": "{\"a\":5}"}}]);
        assert_eq!(calls, &wanted, "{twice} twice");
        let stream = gateway.client().send(Request::post(CHAT).json(&body(CHAT, true)));
        let events = wire::data_of(&stream.text());
        let pieces = events.iter().map(|event| &event["choices"][0]["delta"]["tool_calls"][0]);
        let names = pieces.clone().filter(|piece| piece["function"]["name"] == "add").count();
        let arguments: String = pieces.map(|piece| text(&piece["function"]["arguments"])).collect();
        assert_eq!((names, arguments.as_str()), (1, "{\"a\":5}"), "{twice} twice: {}", stream.text());
    }
}

#[test]
fn a_last_error_without_its_blank_line_is_told_all_the_same() {
    let events = wire::chat_events(MODEL);
    let error = "data: {\"error\":{\"message\":\"gone fishing\"}}";
    for path in [MESSAGES, RESPONSES] {
        let (gateway, upstream) = narrow(CHAT, &[]);
        upstream.answer(CHAT, Reply::events(&[events[..3].concat(), error.to_owned()]));
        let answer = gateway.client().stream(Request::post(path).json(&body(path, true))).whole();
        assert!(answer.text().contains("\"message\":\"gone fishing\""), "{path}: {}", answer.text());
    }
}

#[test]
fn a_call_that_gemini_signed_comes_back_with_its_proof() {
    const GEMINI: &str = "/v1beta/openai/chat/completions";
    let upstream = Upstream::start(&[MODEL]);
    let models =
        json!([{"name": format!("models/{MODEL}"), "supportedGenerationMethods": ["generateContent"]}]);
    upstream.answer("/v1beta/models", Reply::json(200, &json!({"models": models})));
    let gateway = Gateway::start().in_front_of("gemini", &upstream);
    // In the format of Google's OpenAI endpoint ("Thought signatures", OpenAI compatibility).
    let call = |id: &str| {
        json!({"index": 0, "id": id, "type": "function", "function": {"name": "add", "arguments": "{}"},
            "extra_content": {"google": {"thought_signature": format!("proof of {id}")}}})
    };
    let mut answer = wire::chat(MODEL);
    answer["choices"][0]["message"] = json!({"role": "assistant", "tool_calls": [call("whole")]});
    upstream.answer_once(GEMINI, Reply::json(200, &answer));
    gateway.client().post(MESSAGES, &body(MESSAGES, false)).expect(200);
    let chunk = json!({"id": "c", "choices": [{"index": 0, "delta": {"tool_calls": [call("streamed")]},
        "finish_reason": "tool_calls"}]});
    upstream.answer_once(GEMINI, Reply::events([wire::data(&chunk).as_str(), wire::DONE]));
    gateway.client().stream(Request::post(RESPONSES).json(&body(RESPONSES, true))).whole();

    upstream.answer(GEMINI, Reply::json(200, &wire::chat(MODEL)));
    for id in ["whole", "streamed", "another"] {
        let mut next = body(RESPONSES, false);
        next["input"] = json!([{"type": "function_call", "call_id": id, "name": "add", "arguments": "{}"},
            {"type": "function_call_output", "call_id": id, "output": "5"}]);
        gateway.client().post(RESPONSES, &next).expect(200);
        let sent = upstream.last(GEMINI).json();
        let proof = &sent["messages"][0]["tool_calls"][0]["extra_content"]["google"]["thought_signature"];
        // An unsigned call gets the value that Google accepts instead: without it the whole loop is refused.
        let wanted = match id {
            "another" => "skip_thought_signature_validator".to_owned(),
            signed => format!("proof of {signed}"),
        };
        assert_eq!(proof, &json!(wanted), "{sent}");
    }
}

const PAGE: &str = "https://a.example/";

/// Builds a response that searched the web and names the page it found.
fn searched() -> Value {
    json!({"id": "resp_1", "object": "response", "status": "completed", "model": MODEL, "output": [
        {"id": "ws_1", "type": "web_search_call", "status": "completed", "action": {"type": "search", "query": "way",
            "sources": [{"type": "url", "url": PAGE}]}},
        {"id": "msg_1", "type": "message", "status": "completed", "role": "assistant", "content": [
            {"type": "output_text", "text": "That way.", "logprobs": [], "annotations": [
                {"type": "url_citation", "start_index": 0, "end_index": 4, "title": "Ways", "url": PAGE}]}]}],
        "usage": {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5}})
}

#[test]
fn what_an_upstream_found_is_shown_and_stays_with_us() {
    let (gateway, upstream) = narrow(RESPONSES, &[]);
    upstream.answer(RESPONSES, Reply::json(200, &searched()));
    let annotations = |of: &Value| of["annotations"][0]["url_citation"]["url"].clone();
    let answer = gateway.client().post(CHAT, &body(CHAT, false)).expect(200);
    assert_eq!(annotations(&answer["choices"][0]["message"]), PAGE, "{answer}");
    let stream = gateway.client().send(Request::post(CHAT).json(&body(CHAT, true)));
    let told = wire::data_of(&stream.text());
    let deltas: Vec<_> = told.iter().map(|chunk| annotations(&chunk["choices"][0]["delta"])).collect();
    assert_eq!(deltas.iter().filter(|url| **url == PAGE).count(), 1, "{}", stream.text());

    let answer = gateway.client().post(MESSAGES, &body(MESSAGES, false)).expect(200);
    let kinds: Vec<_> =
        answer["content"].as_array().unwrap().iter().map(|block| text(&block["type"])).collect();
    assert_eq!(kinds, ["server_tool_use", "web_search_tool_result", "text"]);
    assert_eq!(answer["content"][2]["citations"][0]["url"], PAGE);
    assert_eq!(answer["usage"]["server_tool_use"]["web_search_requests"], 1);

    // The conversation continues at Anthropic, which knows nothing of the search.
    let (gateway, upstream) = narrow(MESSAGES, &[]);
    let mut next = body(MESSAGES, false);
    next["messages"].as_array_mut().unwrap().extend([
        json!({"role": "assistant", "content": answer["content"]}),
        json!({"role": "user", "content": "And then?"}),
    ]);
    gateway.client().post(MESSAGES, &next).expect(200);
    let sent = upstream.last(MESSAGES).json();
    assert_eq!(sent["messages"][1]["content"], json!([{"type": "text", "text": "That way."}]));
}

#[test]
fn tokens_are_weighed_where_they_can_be() {
    let (gateway, upstream) = narrow(CHAT, &[]);
    let mut asked = body(RESPONSES, false);
    asked["include"] = json!(["message.output_text.logprobs"]);
    let token = json!({"token": "Hi", "logprob": -0.5, "bytes": [72, 105], "top_logprobs": []});
    let mut answer = wire::chat(MODEL);
    answer["choices"][0]["logprobs"] = json!({"content": [token], "refusal": null});
    upstream.answer(CHAT, Reply::json(200, &answer));
    let response = gateway.client().post(RESPONSES, &asked).expect(200);
    assert_eq!(upstream.last(CHAT).json()["logprobs"], true);
    assert_eq!(response["output"][0]["content"][0]["logprobs"], json!([token]), "{response}");

    let (gateway, upstream) = narrow(MESSAGES, &[]);
    let error = gateway.client().post(RESPONSES, &asked).expect(400);
    assert_eq!(error["error"]["param"], "include", "{error}");
    assert_eq!(upstream.asked_for(MESSAGES).len(), 0);
}

#[test]
fn a_call_that_nobody_answered_stands_in_no_conversations_way() {
    let (gateway, upstream) = narrow(MESSAGES, &[]);
    let call = json!({"id": "call_1", "type": "function", "function": {"name": "look", "arguments": "{}"}});
    let chat = json!({"model": MODEL, "messages": [{"role": "user", "content": "Which way?"},
        {"role": "assistant", "content": null, "tool_calls": [call]}, {"role": "user", "content": "Never mind."}]});
    let responses = json!({"model": MODEL, "input": [{"role": "user", "content": "Which way?"},
        {"type": "function_call", "call_id": "call_1", "name": "look", "arguments": "{}"},
        {"role": "user", "content": "Never mind."}]});
    for (path, body) in [(CHAT, chat), (RESPONSES, responses)] {
        gateway.client().post(path, &body).expect(200);
        let asked = upstream.last(MESSAGES).json();
        let answer = &asked["messages"][2]["content"];
        let made_up = (&answer[0]["tool_use_id"], &answer[0]["is_error"]);
        assert_eq!(made_up, (&json!("call_1"), &json!(true)), "{path}: {asked}");
        assert_eq!(answer[1]["text"], "Never mind.", "{path}: {asked}");
    }
}

#[test]
fn a_stream_of_an_upstream_that_tells_its_name_at_the_end_bears_one_name() {
    let (gateway, upstream) = narrow(RESPONSES, &[]);
    let routes = gateway.routes();
    let route = routes.iter().find(|route| route["modelPattern"] == MODEL).expect("a route");
    let mapping = json!({"modelMapping": json!({MODEL: "vendor-narrow"}).to_string()});
    gateway.admin().put(&format!("/api/routes/{}", route["id"]), &mapping).expect(200);
    let events = wire::response_events("vendor-narrow-2026");
    let unannounced: Vec<_> = events
        .iter()
        .filter(|event| !event.contains("response.created") && !event.contains("response.in_progress"))
        .collect();
    upstream.answer(RESPONSES, Reply::events(unannounced));
    for path in [CHAT, MESSAGES] {
        let answer = gateway.client().send(Request::post(path).json(&body(path, true)));
        let events = wire::data_of(&answer.text());
        let names: Vec<_> = events
            .iter()
            .filter_map(|event| event["model"].as_str().or_else(|| event["message"]["model"].as_str()))
            .collect();
        // All chunks of a stream have one name: the requested one, where the upstream has not told its own before.
        assert!(!names.is_empty() && names.iter().all(|name| *name == "vendor-narrow"), "{path}: {names:?}");
        assert_eq!(text(&upstream.last(RESPONSES).json()["model"]), "vendor-narrow");
    }
}
