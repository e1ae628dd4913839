//! A turn of a coding agent from every dialect on upstreams of every other: instructions, an image, a call with its result,
//! and an answer that thinks, speaks and calls. The conversion of each field is tested beside the dialects.

use serde_json::{Value, json};

use crate::support::{Caller, Gateway, Reply, Request, Upstream, wire};

const TOOL: &str = "set_points";
const ANSWER: &str =
    "The points of track four lie straight, and the line behind them is free until the next signal.";
const THOUGHT: &str = "Track four is free, so the points may be set.";

/// A dialect, as its clients and upstreams use it.
struct Dialect {
    name: &'static str,
    platform: &'static str,
    /// Returns the path for requests to `model`, streamed or not.
    path: fn(model: &str, streamed: bool) -> String,
    ask: fn(model: &str, streamed: bool) -> Value,
    reply: fn(model: &str, streamed: bool) -> Reply,
    /// Returns the text of an answer, and the arguments of its call.
    read: fn(answer: &[Value], streamed: bool) -> (String, String),
}

const DIALECTS: [Dialect; 4] = [
    Dialect {
        name: "chat",
        platform: "new-api",
        path: |_, _| "/v1/chat/completions".to_owned(),
        ask: ask_chat,
        reply: reply_chat,
        read: read_chat,
    },
    Dialect {
        name: "responses",
        platform: "new-api",
        path: |_, _| "/v1/responses".to_owned(),
        ask: ask_responses,
        reply: reply_responses,
        read: read_responses,
    },
    Dialect {
        name: "messages",
        platform: "new-api",
        path: |_, _| "/v1/messages".to_owned(),
        ask: ask_messages,
        reply: reply_messages,
        read: read_messages,
    },
    Dialect {
        name: "gemini",
        platform: "gemini",
        path: |model, streamed| {
            let call = if streamed { "streamGenerateContent?alt=sse" } else { "generateContent" };
            format!("/v1beta/models/{model}:{call}")
        },
        ask: ask_gemini,
        reply: reply_gemini,
        read: read_gemini,
    },
];

#[test]
fn a_turn_of_an_agent_goes_from_every_dialect_to_every_other() {
    let gateway = Gateway::start();
    let upstreams: Vec<_> = DIALECTS.iter().map(|dialect| offer(&gateway, dialect)).collect();
    for (offered, (model, _)) in DIALECTS.iter().zip(&upstreams) {
        for client in &DIALECTS {
            for streamed in [false, true] {
                take_turn(&gateway.client(), client, offered, model, streamed);
            }
        }
    }
    for (offered, (model, upstream)) in DIALECTS.iter().zip(&upstreams) {
        for streamed in [false, true] {
            let path = (offered.path)(model, streamed);
            let asked = upstream.asked_for(path.split('?').next().unwrap_or_default());
            assert!(asked.len() >= DIALECTS.len(), "{} was asked {} times", path, asked.len());
        }
    }
}

/// Adds an upstream with a model that speaks only this dialect.
fn offer(gateway: &Gateway, dialect: &'static Dialect) -> (String, Upstream) {
    let model = format!("model-{}", dialect.name);
    let upstream = Upstream::start(&[&model]);
    let listed = json!({"models": [{"name": format!("models/{model}"),
        "supportedGenerationMethods": ["generateContent"]}]});
    let name = model.clone();
    upstream.serve(move |asked| {
        let fits =
            |streamed| asked.path() == (dialect.path)(&name, streamed).split('?').next().unwrap_or_default();
        Some(match asked.path() {
            "/v1beta/models" => Reply::json(200, &listed),
            "/v1/models" => Reply::json(200, &wire::model_list(std::slice::from_ref(&name))),
            _ if fits(false) && !is_streamed(&asked.body) => (dialect.reply)(&name, false),
            _ if fits(true) => (dialect.reply)(&name, true),
            _ => Reply::error(404, "Not found"),
        })
    });
    gateway.add_as(&json!({"name": dialect.name, "platform": dialect.platform}), &upstream);
    gateway.wait_for_channels(&model, 1);
    (model, upstream)
}

fn is_streamed(body: &[u8]) -> bool {
    serde_json::from_slice(body).is_ok_and(|body: Value| body["stream"] == true)
}

fn take_turn(caller: &Caller, client: &Dialect, offered: &Dialect, model: &str, streamed: bool) {
    let what = format!("{} on {}, streamed: {streamed}", client.name, offered.name);
    let request = Request::post(&(client.path)(model, streamed)).json(&(client.ask)(model, streamed));
    let answer = caller.send(request);
    assert_eq!(answer.status, 200, "{what}: {}", answer.text());
    let events = if streamed { wire::data_of(&answer.text()) } else { vec![answer.json()] };
    let (text, arguments) = (client.read)(&events, streamed);
    assert_eq!(text, ANSWER, "{what}: {}", answer.text());
    let arguments: Value = serde_json::from_str(&arguments).unwrap_or_default();
    assert_eq!(arguments, wanted_arguments(), "{what}: {}", answer.text());
}

fn wanted_arguments() -> Value {
    json!({"track": 4, "position": "left"})
}

fn schema() -> Value {
    json!({"type": "object", "required": ["track", "position"], "additionalProperties": false, "properties": {
        "track": {"type": "integer", "description": "its number"},
        "position": {"type": "string", "enum": ["left", "straight"]}}})
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split_inclusive(' ')
}

const RULES: &str = "You work a signal box. Set no points under a train.";
const QUESTION: &str = "Which way do they lie?";
const PICTURE: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==";
const SEEN: &str = "Track four, straight.";
const DEMAND: &str = "Then set them to the left.";

// === chat completions ===

fn ask_chat(model: &str, streamed: bool) -> Value {
    json!({"model": model, "stream": streamed, "max_tokens": 4096, "reasoning_effort": "low",
        "tools": [{"type": "function", "function": {"name": TOOL, "description": "Sets points.", "parameters": schema()}}],
        "messages": [
            {"role": "system", "content": RULES},
            {"role": "user", "content": [{"type": "text", "text": QUESTION},
                {"type": "image_url", "image_url": {"url": format!("data:image/png;base64,{PICTURE}")}}]},
            {"role": "assistant", "content": "Let me see.", "tool_calls": [{"id": "call_1", "type": "function",
                "function": {"name": TOOL, "arguments": "{\"track\":4,\"position\":\"straight\"}"}}]},
            {"role": "tool", "tool_call_id": "call_1", "content": SEEN},
            {"role": "user", "content": DEMAND}]})
}

fn reply_chat(model: &str, streamed: bool) -> Reply {
    let arguments = wanted_arguments().to_string();
    if !streamed {
        let mut answer = wire::chat(model);
        answer["choices"][0]["finish_reason"] = json!("tool_calls");
        answer["choices"][0]["message"] = json!({"role": "assistant", "content": ANSWER,
            "reasoning_content": THOUGHT, "tool_calls": [{"id": "call_2", "type": "function",
                "function": {"name": TOOL, "arguments": arguments}}]});
        return Reply::json(200, &answer);
    }
    let delta = |delta| wire::chat_chunk(model, &delta, Value::Null);
    let mut events = vec![wire::chat_role(model)];
    events.extend(words(THOUGHT).map(|word| delta(json!({"reasoning_content": word}))));
    events.extend(words(ANSWER).map(|word| wire::chat_content(model, word)));
    events.push(delta(json!({"tool_calls": [{"index": 0, "id": "call_2", "type": "function",
        "function": {"name": TOOL, "arguments": ""}}]})));
    let piece = |piece: &str| delta(json!({"tool_calls": [{"index": 0, "function": {"arguments": piece}}]}));
    events.extend(arguments.split_inclusive(',').map(piece));
    events.push(wire::chat_chunk(model, &json!({}), json!("tool_calls")));
    events.push(wire::data(&json!({"id": "chatcmpl-stub", "object": "chat.completion.chunk",
        "created": 1790000000, "model": model, "choices": [], "usage": wire::chat_usage()})));
    events.push(wire::DONE.to_owned());
    Reply::events(events)
}

fn read_chat(answer: &[Value], streamed: bool) -> (String, String) {
    let part = if streamed { "delta" } else { "message" };
    let said = answer.iter().map(|event| &event["choices"][0][part]);
    let content = said.clone().map(|said| text(&said["content"])).collect();
    (content, said.map(|said| text(&said["tool_calls"][0]["function"]["arguments"])).collect())
}

// === responses ===

fn ask_responses(model: &str, streamed: bool) -> Value {
    json!({"model": model, "stream": streamed, "max_output_tokens": 4096, "reasoning": {"effort": "low"},
        "store": false, "instructions": RULES,
        "tools": [{"type": "function", "name": TOOL, "description": "Sets points.", "parameters": schema()}],
        "input": [
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": QUESTION},
                {"type": "input_image", "image_url": format!("data:image/png;base64,{PICTURE}")}]},
            {"type": "function_call", "call_id": "call_1", "name": TOOL,
                "arguments": "{\"track\":4,\"position\":\"straight\"}"},
            {"type": "function_call_output", "call_id": "call_1", "output": SEEN},
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": DEMAND}]}]})
}

fn reply_responses(model: &str, streamed: bool) -> Reply {
    let arguments = wanted_arguments().to_string();
    let thought = |summary: &str| {
        let summary =
            if summary.is_empty() { json!([]) } else { json!([{"type": "summary_text", "text": summary}]) };
        json!({"id": "rs_stub", "type": "reasoning", "summary": summary})
    };
    let part = |text: &str| json!({"type": "output_text", "text": text, "annotations": []});
    let message = |status: &str, content: Value| json!({"id": "msg_stub", "type": "message", "role": "assistant", "status": status, "content": content});
    let call = |status: &str, arguments: &str| {
        json!({"id": "fc_stub", "type": "function_call", "status": status, "call_id": "call_2", "name": TOOL,
            "arguments": arguments})
    };
    let mut whole = wire::response(model);
    whole["output"] =
        json!([thought(THOUGHT), message("completed", json!([part(ANSWER)])), call("completed", &arguments)]);
    if !streamed {
        return Reply::json(200, &whole);
    }
    let mut empty = whole.clone();
    (empty["status"], empty["output"], empty["usage"]) = (json!("in_progress"), json!([]), Value::Null);
    let added = |at: usize, item: Value| json!({"type": "response.output_item.added", "output_index": at, "item": item});
    let done = |at: usize, item: &Value| json!({"type": "response.output_item.done", "output_index": at, "item": item});
    let of = |kind: &str, at: usize, id: &str, more: Value| {
        let mut event = json!({"type": format!("response.{kind}"), "output_index": at, "item_id": id});
        for (name, value) in more.as_object().into_iter().flatten() {
            event[name] = value.clone();
        }
        event
    };
    let mut events = vec![json!({"type": "response.created", "response": empty}), added(0, thought(""))];
    let summary = |text: &str| json!({"summary_index": 0, "part": {"type": "summary_text", "text": text}});
    events.push(of("reasoning_summary_part.added", 0, "rs_stub", summary("")));
    events.extend(words(THOUGHT).map(|word| {
        of("reasoning_summary_text.delta", 0, "rs_stub", json!({"summary_index": 0, "delta": word}))
    }));
    events.push(of(
        "reasoning_summary_text.done",
        0,
        "rs_stub",
        json!({"summary_index": 0, "text": THOUGHT}),
    ));
    events.push(of("reasoning_summary_part.done", 0, "rs_stub", summary(THOUGHT)));
    events.push(done(0, &whole["output"][0]));
    events.push(added(1, message("in_progress", json!([]))));
    events.push(of("content_part.added", 1, "msg_stub", json!({"content_index": 0, "part": part("")})));
    events.extend(
        words(ANSWER)
            .map(|word| of("output_text.delta", 1, "msg_stub", json!({"content_index": 0, "delta": word}))),
    );
    events.push(of("output_text.done", 1, "msg_stub", json!({"content_index": 0, "text": ANSWER})));
    events.push(of("content_part.done", 1, "msg_stub", json!({"content_index": 0, "part": part(ANSWER)})));
    events.push(done(1, &whole["output"][1]));
    events.push(added(2, call("in_progress", "")));
    let pieces = arguments.split_inclusive(',');
    events.extend(
        pieces.map(|piece| of("function_call_arguments.delta", 2, "fc_stub", json!({"delta": piece}))),
    );
    events.push(of("function_call_arguments.done", 2, "fc_stub", json!({"arguments": arguments})));
    events.push(done(2, &whole["output"][2]));
    events.push(json!({"type": "response.completed", "response": whole}));
    for (number, event) in events.iter_mut().enumerate() {
        event["sequence_number"] = json!(number);
    }
    Reply::events(events.iter().map(wire::named))
}

fn read_responses(answer: &[Value], streamed: bool) -> (String, String) {
    let whole = answer.last().expect("an answer");
    let output = if streamed { &whole["response"]["output"] } else { &whole["output"] };
    let of = |kind: &str| output.as_array().into_iter().flatten().find(|item| item["type"] == *kind);
    let said = of("message").map(|message| text(&message["content"][0]["text"]).to_owned());
    let called = of("function_call").map(|call| text(&call["arguments"]).to_owned());
    (said.unwrap_or_default(), called.unwrap_or_default())
}

// === messages ===

fn ask_messages(model: &str, streamed: bool) -> Value {
    json!({"model": model, "stream": streamed, "max_tokens": 4096,
        "thinking": {"type": "enabled", "budget_tokens": 1024},
        "system": [{"type": "text", "text": RULES, "cache_control": {"type": "ephemeral"}}],
        "tools": [{"name": TOOL, "description": "Sets points.", "input_schema": schema()}],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": QUESTION},
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PICTURE}}]},
            {"role": "assistant", "content": [{"type": "text", "text": "Let me see."},
                {"type": "tool_use", "id": "toolu_1", "name": TOOL, "input": {"track": 4, "position": "straight"}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": SEEN},
                {"type": "text", "text": DEMAND}]}]})
}

fn reply_messages(model: &str, streamed: bool) -> Reply {
    if !streamed {
        let mut answer = wire::message(model);
        answer["stop_reason"] = json!("tool_use");
        answer["content"] = json!([{"type": "thinking", "thinking": THOUGHT, "signature": "c2lnbmVk"},
            {"type": "text", "text": ANSWER},
            {"type": "tool_use", "id": "toolu_2", "name": TOOL, "input": wanted_arguments()}]);
        return Reply::json(200, &answer);
    }
    let start =
        |at: usize, block: Value| json!({"type": "content_block_start", "index": at, "content_block": block});
    let delta = |at: usize, delta: Value| json!({"type": "content_block_delta", "index": at, "delta": delta});
    let stop = |at: usize| json!({"type": "content_block_stop", "index": at});
    let mut events = vec![start(0, json!({"type": "thinking", "thinking": "", "signature": ""}))];
    events.extend(words(THOUGHT).map(|word| delta(0, json!({"type": "thinking_delta", "thinking": word}))));
    events.push(delta(0, json!({"type": "signature_delta", "signature": "c2lnbmVk"})));
    events.extend([stop(0), start(1, json!({"type": "text", "text": ""})), json!({"type": "ping"})]);
    events.extend(words(ANSWER).map(|word| delta(1, json!({"type": "text_delta", "text": word}))));
    events.push(stop(1));
    events.push(start(2, json!({"type": "tool_use", "id": "toolu_2", "name": TOOL, "input": {}})));
    let arguments = wanted_arguments().to_string();
    let pieces = arguments.split_inclusive(',');
    events.extend(pieces.map(|piece| delta(2, json!({"type": "input_json_delta", "partial_json": piece}))));
    events.push(stop(2));
    events.push(json!({"type": "message_delta", "usage": {"output_tokens": wire::COMPLETION_TOKENS},
        "delta": {"stop_reason": "tool_use", "stop_sequence": null}}));
    events.push(json!({"type": "message_stop"}));
    let events = events.iter().map(wire::named);
    Reply::events(std::iter::once(wire::message_start(model)).chain(events))
}

fn read_messages(answer: &[Value], streamed: bool) -> (String, String) {
    if streamed {
        let all = |name: &str| answer.iter().map(|event| text(&event["delta"][name])).collect();
        return (all("text"), all("partial_json"));
    }
    let of =
        |kind: &str| answer[0]["content"].as_array().into_iter().flatten().find(|part| part["type"] == *kind);
    let said = of("text").map(|part| text(&part["text"]).to_owned());
    (said.unwrap_or_default(), of("tool_use").map(|part| part["input"].to_string()).unwrap_or_default())
}

// === gemini ===

fn ask_gemini(_model: &str, _streamed: bool) -> Value {
    let mut schema = schema();
    schema.as_object_mut().expect("an object").remove("additionalProperties");
    json!({"systemInstruction": {"parts": [{"text": RULES}]},
        "generationConfig": {"maxOutputTokens": 4096,
            "thinkingConfig": {"includeThoughts": true, "thinkingBudget": 1024}},
        "tools": [{"functionDeclarations": [{"name": TOOL, "description": "Sets points.", "parameters": schema}]}],
        "contents": [
            {"role": "user", "parts": [{"text": QUESTION},
                {"inlineData": {"mimeType": "image/png", "data": PICTURE}}]},
            {"role": "model", "parts": [{"text": "Let me see."},
                {"functionCall": {"name": TOOL, "args": {"track": 4, "position": "straight"}}}]},
            {"role": "user", "parts": [
                {"functionResponse": {"name": TOOL, "response": {"result": SEEN}}}, {"text": DEMAND}]}]})
}

fn reply_gemini(model: &str, streamed: bool) -> Reply {
    let call =
        json!({"functionCall": {"name": TOOL, "args": wanted_arguments()}, "thoughtSignature": "c2lnbmVk"});
    let chunk = |parts: Value, end: Value| {
        json!({"candidates": [{"index": 0, "content": {"role": "model", "parts": parts}, "finishReason": end}],
            "modelVersion": model, "responseId": "stub", "usageMetadata": {"promptTokenCount": wire::PROMPT_TOKENS,
                "candidatesTokenCount": wire::COMPLETION_TOKENS,
                "totalTokenCount": wire::PROMPT_TOKENS + wire::COMPLETION_TOKENS}})
    };
    if !streamed {
        let parts = json!([{"text": THOUGHT, "thought": true}, {"text": ANSWER}, call]);
        return Reply::json(200, &chunk(parts, json!("STOP")));
    }
    let thoughts = words(THOUGHT).map(|word| chunk(json!([{"text": word, "thought": true}]), Value::Null));
    let said = words(ANSWER).map(|word| chunk(json!([{"text": word}]), Value::Null));
    let events = thoughts.chain(said).chain([chunk(json!([call]), json!("STOP"))]);
    Reply::events(events.map(|event| wire::data(&event)))
}

fn read_gemini(answer: &[Value], _streamed: bool) -> (String, String) {
    let parts =
        answer.iter().filter_map(|event| event["candidates"][0]["content"]["parts"].as_array()).flatten();
    let spoken = parts.clone().filter(|part| part["thought"] != true);
    let call = parts.map(|part| &part["functionCall"]["args"]).find(|args| args.is_object());
    (spoken.map(|part| text(&part["text"])).collect(), call.map(Value::to_string).unwrap_or_default())
}
