//! Members that an upstream's vendor refuses are not sent to it: a request of another dialect is put into an accepted form,
//! and if it is still refused, it is sent once more without the refused part.

use serde_json::{Value, json};

use crate::support::paths::{CHAT, MESSAGES, RESPONSES};
use crate::support::wire::refusal;
use crate::support::{Gateway, Reply, Upstream};

const MODEL: &str = "model-strict";

fn generate(model: &str) -> String {
    format!("/v1beta/models/{model}:generateContent")
}

/// Starts a gateway in front of an upstream that speaks one dialect, as the vendor's own site.
fn narrow(model: &str, offered: &str) -> (Gateway, Upstream) {
    let upstream = Upstream::with_one_path(model, offered);
    let platform = match offered {
        MESSAGES => "claude",
        CHAT | RESPONSES => "openai",
        _ => "gemini",
    };
    if platform == "gemini" {
        let models = json!({"models": [{"name": format!("models/{model}"),
            "supportedGenerationMethods": ["generateContent"]}]});
        upstream.answer("/v1beta/models", Reply::json(200, &models));
        let answer = json!({"candidates": [{"content": {"role": "model", "parts": [{"text": "Left."}]}, "finishReason": "STOP"}]});
        upstream.answer(&generate(model), Reply::json(200, &answer));
    }
    let gateway = Gateway::start().in_front_of(platform, &upstream);
    (gateway, upstream)
}

fn bodies(upstream: &Upstream, path: &str) -> Vec<Value> {
    upstream.asked_for(path).iter().map(|asked| asked.json()).collect()
}

/// Returns the body that arrives at an upstream for a client's request.
fn sent(offered: &str, asked: &str, body: &Value) -> Value {
    let model = body["model"].as_str().unwrap_or(MODEL);
    let (gateway, upstream) = narrow(model, offered);
    gateway.client().post(asked, body).expect(200);
    bodies(&upstream, offered).pop().expect("a request")
}

#[test]
fn a_tool_that_no_upstream_runs_is_named_by_its_type() {
    for (offered, asked) in [(CHAT, RESPONSES), (MESSAGES, RESPONSES), (RESPONSES, CHAT)] {
        let (gateway, _upstream) = narrow(MODEL, offered);
        let mut body =
            json!({"model": MODEL, "tools": [{"type": "code_interpreter", "container": {"type": "auto"}}]});
        match asked {
            RESPONSES => body["input"] = json!("Which way?"),
            _ => body["messages"] = json!([{"role": "user", "content": "Which way?"}]),
        }
        let error = &gateway.client().post(asked, &body).expect(400)["error"];
        assert_eq!(error["param"], "tools", "{offered}: {error}");
        let message = error["message"].as_str().unwrap_or_default();
        assert!(message.starts_with("tools of the type code_interpreter "), "{offered}: {message}");
    }
}

#[test]
fn documents_of_mistrals_clients_are_files() {
    let data = "data:application/pdf;base64,JVBERi0=";
    let body = json!({"model": MODEL, "messages": [{"role": "user", "content": [
        {"type": "text", "text": "Which way?"},
        {"type": "document_url", "document_url": data, "document_name": "map.pdf"},
        {"type": "document_url", "document_url": "https://h.example/map.pdf"}]}]});
    let responses = sent(RESPONSES, CHAT, &body);
    let content = &responses["input"][0]["content"];
    assert_eq!(content[1], json!({"type": "input_file", "file_data": data, "filename": "map.pdf"}));
    assert_eq!(content[2], json!({"type": "input_file", "file_url": "https://h.example/map.pdf"}));
    let messages = sent(MESSAGES, CHAT, &body);
    let blocks = &messages["messages"][0]["content"];
    let inline = json!({"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="});
    assert_eq!((&blocks[1]["source"], &blocks[1]["title"]), (&inline, &json!("map.pdf")));
    assert_eq!(blocks[2]["source"], json!({"type": "url", "url": "https://h.example/map.pdf"}));
}

#[test]
fn pictures_of_googles_clients_are_in_the_base64_that_everyone_reads() {
    let body = json!({"contents": [{"role": "user", "parts": [
        {"inlineData": {"mimeType": "image/png", "data": "-_-_aA"}},
        {"inlineData": {"mimeType": "application/pdf", "data": "JVBERi0-"}},
        {"text": "Which way?"}]}]});
    let asked = generate(MODEL);
    let chat = sent(CHAT, &asked, &body);
    assert_eq!(chat["messages"][0]["content"][0]["image_url"]["url"], "data:image/png;base64,+/+/aA==");
    assert_eq!(
        chat["messages"][0]["content"][1]["file"]["file_data"],
        "data:application/pdf;base64,JVBERi0+"
    );
    let messages = sent(MESSAGES, &asked, &body);
    assert_eq!(messages["messages"][0]["content"][0]["source"]["data"], "+/+/aA==");
    assert_eq!(messages["messages"][0]["content"][1]["source"]["data"], "JVBERi0+");
    // Google itself accepts both.
    assert_eq!(sent(&asked, &asked, &body)["contents"], body["contents"]);
}

#[test]
fn what_a_tool_is_given_is_described_as_openai_wants_it() {
    let tool = |schema: Value| {
        json!({"model": MODEL, "max_tokens": 9, "messages": [{"role": "user", "content": "Which way?"}],
        "tools": [{"name": "look", "input_schema": schema}]})
    };
    for (schema, wanted) in [
        (json!({"type": "object"}), json!({"type": "object", "properties": {}})),
        (
            json!({"type": "object", "properties": {"at": {"type": "array"}}}),
            json!({"type": "object", "properties": {"at": {"type": "array", "items": {}}}}),
        ),
        (
            json!({"type": "object", "oneOf": [{"properties": {"at": {"type": "string"}}, "required": ["at"]}, {"properties": {"to": {}}}]}),
            json!({"type": "object", "properties": {"at": {"type": "string"}, "to": {}}}),
        ),
    ] {
        assert_eq!(sent(CHAT, MESSAGES, &tool(schema.clone()))["tools"][0]["function"]["parameters"], wanted);
        assert_eq!(sent(RESPONSES, MESSAGES, &tool(schema))["tools"][0]["parameters"], wanted);
    }
    let chat = json!({"model": MODEL, "messages": [{"role": "user", "content": "Which way?"}], "tools": [{"type": "function",
        "function": {"name": "look", "parameters": {"type": "object", "properties": {}, "anyOf": [{"required": ["at"]}]}}}]});
    assert_eq!(
        sent(MESSAGES, CHAT, &chat)["tools"][0]["input_schema"],
        json!({"type": "object", "properties": {}})
    );
}

#[test]
fn a_tool_is_strict_at_openai_only_where_its_schema_leaves_nothing_open() {
    let tool = |required: &[&str]| {
        json!({"model": MODEL, "max_tokens": 9, "messages": [{"role": "user", "content": "Which way?"}],
        "tools": [{"name": "look", "strict": true, "input_schema": {"type": "object", "additionalProperties": false,
            "properties": {"at": {"type": "string"}}, "required": required}}]})
    };
    let strict = |required: &[&str]| sent(RESPONSES, MESSAGES, &tool(required))["tools"][0]["strict"].clone();
    assert_eq!((strict(&["at"]), strict(&[])), (json!(true), json!(false)));
    assert_eq!(sent(CHAT, MESSAGES, &tool(&[]))["tools"][0]["function"].get("strict"), None);
}

#[test]
fn a_tool_has_a_name_that_its_upstream_takes_and_its_own_for_its_client() {
    let google = json!({"contents": [{"role": "user", "parts": [{"text": "Which way?"}]}],
        "tools": [{"functionDeclarations": [{"name": "server.look:up", "parameters": {"type": "OBJECT", "properties": {}}}]}],
        "toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["server.look:up"]}}});
    let (gateway, upstream) = narrow(MODEL, CHAT);
    let call = json!({"id": "c1", "object": "chat.completion", "model": MODEL, "choices": [{"index": 0, "finish_reason": "tool_calls",
        "message": {"role": "assistant", "content": null, "tool_calls": [{"id": "call_1", "type": "function",
            "function": {"name": "server_look_up", "arguments": "{}"}}]}}]});
    upstream.answer(CHAT, Reply::json(200, &call));
    let answer = gateway.client().post(&generate(MODEL), &google).expect(200);
    let asked = &bodies(&upstream, CHAT)[0];
    assert_eq!(asked["tools"][0]["function"]["name"], "server_look_up");
    assert_eq!(asked["tool_choice"]["function"]["name"], "server_look_up");
    assert_eq!(answer["candidates"][0]["content"]["parts"][0]["functionCall"]["name"], "server.look:up");

    let chat = json!({"model": MODEL, "messages": [{"role": "user", "content": "Which way?"}], "tools": [{"type": "function",
        "function": {"name": "1st look", "parameters": {"type": "object", "properties": {}}}}]});
    assert_eq!(
        sent(&generate(MODEL), CHAT, &chat)["tools"][0]["functionDeclarations"][0]["name"],
        "_1st_look"
    );
}

#[test]
fn a_search_that_is_offered_twice_is_offered_once_where_tools_have_names_of_their_own() {
    let body = json!({"model": MODEL, "messages": [{"role": "user", "content": "Which way?"}], "tools":
        [{"type": "web_search"}, {"type": "web_search_preview"}, {"type": "function", "function": {"name": "look"}}]});
    let tools = sent(MESSAGES, CHAT, &body)["tools"].clone();
    let names: Vec<&Value> = tools.as_array().unwrap().iter().map(|tool| &tool["name"]).collect();
    assert_eq!(names, ["web_search", "look"]);
}

#[test]
fn an_answer_that_is_no_object_is_asked_of_openai_in_words() {
    let body = json!({"contents": [{"role": "user", "parts": [{"text": "Which ways?"}]}], "generationConfig":
        {"responseMimeType": "application/json", "responseSchema": {"type": "ARRAY", "items": {"type": "STRING"}}}});
    let chat = sent(CHAT, &generate(MODEL), &body);
    assert_eq!(chat.get("response_format"), None);
    let system = chat["messages"][0]["content"].as_str().expect("words");
    assert!(system.contains(r#"{"items":{"type":"string"},"type":"array"}"#), "{system}");
    let responses = sent(RESPONSES, &generate(MODEL), &body);
    assert_eq!((responses.get("text"), &responses["instructions"]), (None, &json!(system)));
}

#[test]
fn a_gemini_that_calls_functions_is_told_the_form_of_its_answer_in_words() {
    for (model, in_words) in [("gemini-2.5-flash", true), ("gemini-3-pro-preview", false)] {
        let body = json!({"model": model, "messages": [{"role": "user", "content": "Which way?"}],
            "tools": [{"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}],
            "response_format": {"type": "json_schema", "json_schema": {"name": "way", "schema": {"type": "object", "properties": {"to": {"type": "string"}}}}}});
        let asked = sent(&generate(model), CHAT, &body);
        assert_eq!(asked["generationConfig"].get("responseMimeType").is_none(), in_words, "{asked}");
        let system = asked["systemInstruction"]["parts"][0]["text"].as_str().unwrap_or_default();
        assert_eq!(system.contains(r#""to""#), in_words, "{asked}");
    }
}

#[test]
fn a_model_that_reasons_is_not_told_where_to_stop_and_stops_there() {
    let body = json!({"model": "gpt-5-strict", "max_tokens": 99, "stop_sequences": ["STOP"],
        "messages": [{"role": "user", "content": "Which way?"}]});
    let (gateway, upstream) = narrow("gpt-5-strict", CHAT);
    let said = json!({"id": "c1", "object": "chat.completion", "model": "gpt-5-strict", "choices": [{"index": 0,
        "finish_reason": "stop", "message": {"role": "assistant", "content": "Left STOP right"}}]});
    upstream.answer(CHAT, Reply::json(200, &said));
    let answer = gateway.client().post(MESSAGES, &body).expect(200);
    assert_eq!(bodies(&upstream, CHAT)[0].get("stop"), None);
    assert_eq!(answer["content"][0]["text"], "Left ");
    assert_eq!((&answer["stop_reason"], &answer["stop_sequence"]), (&json!("stop_sequence"), &json!("STOP")));
}

#[test]
fn a_model_that_does_not_reason_is_asked_for_no_reasoning_at_all() {
    let body = json!({"model": MODEL, "max_tokens": 4000, "thinking": {"type": "enabled", "budget_tokens": 2000},
        "messages": [{"role": "user", "content": "Which way?"}]});
    for refused in [
        "Unsupported parameter: 'reasoning.effort' is not supported with this model.",
        "Encrypted content is not supported with this model.",
    ] {
        let (gateway, upstream) = narrow(MODEL, RESPONSES);
        upstream.answer_once(RESPONSES, refusal(refused));
        gateway.client().post(MESSAGES, &body).expect(200);
        let asked = bodies(&upstream, RESPONSES);
        assert_eq!(asked[0]["include"], json!(["reasoning.encrypted_content"]));
        assert_eq!(asked[1].get("include"), None, "{refused}");
        assert_eq!(asked[1].get("reasoning").is_some(), refused.starts_with("Encrypted"));
    }
}

#[test]
fn a_limit_above_that_of_the_model_is_lowered_to_it() {
    let body =
        json!({"model": MODEL, "max_tokens": 32000, "messages": [{"role": "user", "content": "Which way?"}]});
    let (gateway, upstream) = narrow(MODEL, CHAT);
    let refused = "max_tokens is too large: 32000. This model supports at most 16384 completion tokens, whereas you provided 32000.";
    upstream.answer_once(CHAT, refusal(refused));
    gateway.client().post(MESSAGES, &body).expect(200);
    let asked = bodies(&upstream, CHAT);
    assert_eq!(asked[1]["max_completion_tokens"], 16384, "{asked:?}");
    // A client of the same dialect is assumed to know its model.
    upstream.answer_once(CHAT, refusal(refused));
    gateway.client().post(CHAT, &body).expect(400);
}

#[test]
fn a_strict_tool_whose_schema_is_refused_goes_unstrict() {
    let body = json!({"model": "claude-sonnet-4-5-strict", "messages": [{"role": "user", "content": "Which way?"}], "tools": [{"type": "function",
        "function": {"name": "look", "strict": true, "parameters": {"type": "object", "properties": {"age": {"type": "integer", "minimum": 0}},
            "required": ["age"], "additionalProperties": false}}}]});
    let (gateway, upstream) = narrow("claude-sonnet-4-5-strict", MESSAGES);
    let refused = "tools.0.custom: For 'integer' type, property 'minimum' is not supported";
    upstream.answer_once(MESSAGES, refusal(refused));
    gateway.client().post(CHAT, &body).expect(200);
    let asked = bodies(&upstream, MESSAGES);
    assert_eq!((&asked[0]["tools"][0]["strict"], asked[1]["tools"][0].get("strict")), (&json!(true), None));
}

#[test]
fn a_refused_schema_of_the_answer_is_closed_and_tells_its_limits_in_words() {
    let model = "claude-sonnet-4-5-strict";
    let body = json!({"model": model, "messages": [{"role": "user", "content": "How old?"}], "response_format": {"type": "json_schema",
        "json_schema": {"name": "age", "schema": {"type": "object", "properties": {
            "age": {"type": "integer", "description": "In years", "minimum": 0, "maximum": 150},
            "maximum": {"type": "array", "items": {"type": "string", "maxLength": 9}, "minItems": 1}}, "required": ["age"]}}}});
    let (gateway, upstream) = narrow(model, MESSAGES);
    let refused = "output_config.format.schema: For 'object' type, 'additionalProperties' must be explicitly set to false";
    upstream.answer_once(MESSAGES, refusal(refused));
    gateway.client().post(CHAT, &body).expect(200);
    let asked = bodies(&upstream, MESSAGES);
    let fitted = json!({"type": "object", "properties": {
        "age": {"type": "integer", "description": "In years (maximum: 150, minimum: 0)"},
        "maximum": {"type": "array", "items": {"type": "string", "description": "maxLength: 9"}, "minItems": 1}},
        "required": ["age"], "additionalProperties": false});
    assert_eq!(asked[1]["output_config"]["format"]["schema"], fitted, "{}", asked[1]);
    // The next request is not refused first.
    gateway.client().post(CHAT, &body).expect(200);
    let asked = bodies(&upstream, MESSAGES);
    assert_eq!((asked.len(), &asked[2]["output_config"]["format"]["schema"]), (3, &fitted));
}

#[test]
fn googles_schema_becomes_json_schema() {
    let body = json!({"contents": [{"role": "user", "parts": [{"text": "Which way?"}]}], "tools": [{"functionDeclarations": [{"name": "look",
        "parameters": {"type": "OBJECT", "propertyOrdering": ["nullable"], "properties": {
            "nullable": {"type": "STRING", "nullable": true, "enum": ["a"]},
            "list": {"type": "ARRAY", "minItems": "1", "max_items": 3, "items": {"any_of": [{"type": "INTEGER"}], "nullable": true}}}}}]}]});
    let wanted = json!({"type": "object", "properties": {
        "nullable": {"type": ["string", "null"], "enum": ["a", null]},
        "list": {"type": "array", "minItems": 1, "maxItems": 3, "items": {"anyOf": [{"type": "integer"}, {"type": "null"}]}}}});
    assert_eq!(sent(CHAT, &generate(MODEL), &body)["tools"][0]["function"]["parameters"], wanted);
}
