//! Gemini's own surface: clients of Google's SDKs on any upstream.

mod signatures;
mod upstream_names;

use serde_json::{Value, json};

use crate::support::{Gateway, PROXY_TOKEN, Reply, Request, Upstream, wire};

const MODEL: &str = "gemini-test";
const CALL: &str = "/v1beta/models/gemini-test:generateContent";
const STREAM: &str = "/v1beta/models/gemini-test:streamGenerateContent";

fn body() -> Value {
    json!({"contents": [{"role": "user", "parts": [{"text": "Which way?"}]}], "safetySettings": []})
}

fn answer(text: &str) -> Value {
    json!({"candidates": [{"index": 0, "content": {"role": "model", "parts": [{"text": text}]}, "finishReason": "STOP"}],
        "usageMetadata": {"promptTokenCount": 11, "candidatesTokenCount": 7, "totalTokenCount": 18}})
}

#[test]
fn a_gemini_upstream_gets_the_body_as_it_came() {
    let upstream = Upstream::start(&[MODEL]);
    upstream.answer(
        "/v1beta/models",
        Reply::json(
            200,
            &json!({"models": [{"name": format!("models/{MODEL}"),
        "supportedGenerationMethods": ["generateContent"]}]}),
        ),
    );
    upstream.answer(CALL, Reply::json(200, &answer("North.")));
    upstream.answer(STREAM, Reply::events([wire::data(&answer("North."))]));
    let gateway = Gateway::start().in_front_of("gemini", &upstream);

    let reply = gateway.anyone().send(Request::post(&format!("{CALL}?key={PROXY_TOKEN}")).json(&body()));
    assert_eq!(reply.expect(200), answer("North."));
    let asked = upstream.last(CALL);
    assert_eq!(asked.json(), body());
    assert!(asked.header("x-goog-api-key").is_some() && asked.header("authorization").is_none());

    let mut thinking = body();
    thinking["reasoning_effort"] = json!("low");
    gateway.client().post(CALL, &thinking).expect(200);
    let mut wanted = body();
    wanted["generationConfig"] = json!({"thinkingConfig": {"includeThoughts": true, "thinkingBudget": 1024}});
    assert_eq!(upstream.last(CALL).json(), wanted, "OpenAI's word for it is not Google's");

    let stream = gateway.client().send(Request::post(&format!("{STREAM}?alt=sse")).json(&body()));
    assert_eq!(stream.header("content-type"), Some("text/event-stream; charset=utf-8"));
    assert_eq!(stream.text(), wire::data(&answer("North.")));
    let row = gateway.wait_for_logs(3).pop().expect("a row");
    assert_eq!((&row["status"], &row["promptTokens"]), (&json!("success"), &json!(11)), "{row}");
}

#[test]
fn half_an_event_behind_the_finish_leaves_the_array_whole() {
    let (gateway, upstream) = Gateway::serving_as("gemini", &[MODEL]);
    upstream.answer(STREAM, Reply::events([wire::data(&answer("North.")), "data: {\"usageMeta".to_owned()]));
    let stream = gateway.client().send(Request::post(&format!("{STREAM}?alt=sse")).json(&body()));
    assert_eq!(stream.text(), wire::data(&answer("North.")));
    assert_eq!(gateway.client().post(STREAM, &body()).expect(200), json!([answer("North.")]));
}

#[test]
fn a_call_that_came_to_nothing_ends_the_answer_in_chat_and_fails_it_in_messages_and_responses() {
    let ask = |streamed: bool| {
        json!({"model": MODEL, "max_tokens": 50, "stream": streamed,
            "messages": [{"role": "user", "content": "Which way?"}]})
    };
    let ask_responses = |streamed: bool| json!({"model": MODEL, "stream": streamed, "input": "Which way?"});
    let upstream = Upstream::of_google(&[MODEL]);
    let none = json!({"error": {"message": "none"}});
    upstream.answer("/v1beta/openai/chat/completions", Reply::json(404, &none));
    let gateway = Gateway::start().in_front_of("gemini", &upstream);
    gateway.wait_for_channels(MODEL, 1);
    for text in ["North", ""] {
        let content = json!({"role": "model", "parts": [{"text": text}]});
        let last = json!({"candidates": [{"index": 0, "content": content, "finishReason": "MALFORMED_FUNCTION_CALL"}],
            "usageMetadata": {"promptTokenCount": 11, "candidatesTokenCount": 7, "totalTokenCount": 18}});
        upstream.answer(STREAM, Reply::events([wire::data(&last)]));
        upstream.answer(CALL, Reply::json(200, &last));
        for streamed in [false, true] {
            let answer = gateway.client().post("/v1/chat/completions", &ask(streamed));
            let told = answer.text();
            assert_eq!(answer.status, 200, "{streamed}: {told}");
            let has_end = told.contains("\"finish_reason\":\"stop\"") && told.contains(text);
            assert!(has_end && !told.contains("\"error\":{"), "{streamed}: {told}");
            for (path, body) in [("/v1/messages", ask(streamed)), ("/v1/responses", ask_responses(streamed))]
            {
                let answer = gateway.client().post(path, &body);
                let told = answer.text();
                let has_begun = streamed && !text.is_empty();
                assert_eq!(answer.status, if has_begun { 200 } else { 502 }, "{path} {streamed}: {told}");
                assert!(told.contains("MALFORMED_FUNCTION_CALL"), "{path} {streamed}: {told}");
                for end in ["end_turn", "message_stop", "\"completed\"", "response.completed"] {
                    assert!(!told.contains(end), "{path} {streamed}: {told}");
                }
                if has_begun {
                    let failed =
                        if path == "/v1/messages" { "event: error" } else { "event: response.failed" };
                    assert!(told.contains(failed) && told.contains(text), "{path}: {told}");
                }
            }
        }
    }
    assert_eq!(gateway.channels(MODEL)[0]["cooldownUntil"], Value::Null, "it is the model's fault");
}

#[test]
fn what_a_gemini_upstream_refuses_or_breaks_is_told_in_its_words() {
    let (gateway, upstream) = Gateway::serving_as("gemini", &[MODEL]);
    let ask = || gateway.client().send(Request::post(&format!("{STREAM}?alt=sse")).json(&body()));

    // As in Google's API reference, GenerateContentResponse.PromptFeedback: there are no candidates.
    let refused = json!({"promptFeedback": {"blockReason": "SAFETY"}});
    upstream.answer(STREAM, Reply::events([wire::data(&refused)]));
    assert_eq!(ask().text(), wire::data(&refused));

    // An upstream that ignores `alt=sse`.
    upstream.answer(STREAM, Reply::json(200, &json!([answer("North.")])));
    assert_eq!(ask().text(), wire::data(&answer("North.")));
    let array = gateway.client().send(Request::post(STREAM).json(&body()));
    assert_eq!(array.expect(200), json!([answer("North.")]));

    let error = json!({"error": {"code": 503, "message": "overloaded", "status": "UNAVAILABLE"}});
    let mut begun = answer("North");
    begun["candidates"][0].as_object_mut().expect("an object").remove("finishReason");
    upstream.answer(STREAM, Reply::events([wire::data(&begun), wire::data(&error)]));
    let told = ask().text();
    let last = told.strip_prefix(&wire::data(&begun)).and_then(|last| last.strip_prefix("data: "));
    let last: Value = serde_json::from_str(last.expect("an error behind it")).expect("JSON");
    let (code, status) = (&last["error"]["code"], &last["error"]["status"]);
    assert_eq!((code, status), (&json!(503), &json!("UNAVAILABLE")), "{last}");
}

#[test]
fn any_other_upstream_answers_in_geminis_words() {
    let (gateway, upstream) = Gateway::serving_as("new-api", &[MODEL]);
    let reply = gateway.client().post(CALL, &body()).expect(200);
    assert_eq!(reply["candidates"][0]["content"]["parts"][0]["text"], wire::TEXT, "{reply}");
    assert_eq!(reply["usageMetadata"]["promptTokenCount"], wire::PROMPT_TOKENS);
    let stream = gateway.client().send(
        Request::post(&format!("/gemini/v1beta/models/{MODEL}:streamGenerateContent?alt=sse")).json(&body()),
    );
    let told = stream.text();
    let data = told.lines().filter_map(|line| line.strip_prefix("data: "));
    let events: Vec<Value> = data.map(|data| serde_json::from_str(data).expect("JSON")).collect();
    let texts =
        events.iter().filter_map(|event| event["candidates"][0]["content"]["parts"][0]["text"].as_str());
    assert_eq!(texts.collect::<String>(), wire::TEXT, "{told}");
    // Some clients' types require the usage in every event.
    let mut usages = events.iter().map(|event| &event["usageMetadata"]);
    let last = usages.next_back().expect("events");
    assert_eq!(last["promptTokenCount"], wire::PROMPT_TOKENS, "{told}");
    let has_counts = |usage: &Value| usage["promptTokenCount"].is_u64() && usage["totalTokenCount"].is_u64();
    assert!(usages.all(has_counts), "{told}");
    assert_eq!(upstream.asked_for("/v1/chat/completions").len(), 2);
    // Also where the upstream tells none.
    let chunk = json!({"choices": [{"index": 0, "delta": {"content": "Left."}, "finish_reason": "stop"}]});
    upstream
        .answer("/v1/chat/completions", Reply::events([wire::data(&chunk), "data: [DONE]\n\n".to_owned()]));
    let told = gateway
        .client()
        .send(Request::post(&format!("/v1beta/models/{MODEL}:streamGenerateContent?alt=sse")).json(&body()));
    let events = wire::data_of(&told.text());
    assert!(events.iter().all(|event| has_counts(&event["usageMetadata"])), "{events:?}");
}

#[test]
fn the_path_is_checked_and_the_small_calls_answer() {
    let (gateway, _upstream) = Gateway::serving_as("new-api", &[MODEL]);
    for (path, status, word) in [
        ("/v1beta/models/gemini-test", 400, "INVALID_ARGUMENT"),
        ("/v1beta/models/gemini-test:dance", 404, "NOT_FOUND"),
        ("/v1beta/models/gemini-test:embedContent", 400, "INVALID_ARGUMENT"),
        ("/v1beta/models/nobody:generateContent", 503, "UNAVAILABLE"),
    ] {
        assert_eq!(gateway.client().post(path, &body()).expect(status)["error"]["status"], word, "{path}");
    }
    let refused = gateway.client().post("/v1beta/models/gemini-test:predict", &body()).expect(404);
    let message = refused["error"]["message"].as_str().unwrap_or_default();
    assert!(message.contains("gemini-test") && message.contains("predict"), "{refused}");
    let counted = gateway.client().post("/v1beta/models/gemini-test:countTokens", &body());
    assert_eq!(counted.expect(200), json!({"totalTokens": 3}), "four letters are about a token");
    assert_eq!(counted.header("x-switchyard-estimated"), Some("1"));
    let listed = gateway.client().get("/v1beta/models").expect(200);
    assert_eq!(listed["models"][0]["name"], format!("models/{MODEL}"));
    assert_eq!(gateway.anyone().get("/v1beta/models").expect(401)["error"]["status"], "UNAUTHENTICATED");
}

#[test]
fn googles_sdks_find_their_way_on_version_one() {
    const SLASHED: &str = "vendor/model:small";
    let (gateway, _upstream) = Gateway::serving_as("new-api", &[MODEL, SLASHED]);
    for model in [MODEL, SLASHED] {
        for root in ["/v1", "/v1beta", "/gemini/v1beta"] {
            let path = format!("{root}/models/{model}");
            let answer = gateway.client().post(&format!("{path}:generateContent"), &body()).expect(200);
            assert_eq!(answer["candidates"][0]["finishReason"], "STOP", "{path}");
            let asked = Request::new("GET", &path).header("x-goog-api-client", "google-genai-sdk/3");
            let one = gateway.client().send(asked).expect(200);
            assert_eq!(one["name"], format!("models/{model}"), "{path}");
        }
    }
    // Some of them put `models/` only before names without a slash.
    let bare = gateway.client().post(&format!("/v1beta/{SLASHED}:generateContent"), &body()).expect(200);
    assert_eq!(bare["candidates"][0]["finishReason"], "STOP", "{bare}");
    gateway.client().post(&format!("/v1beta/{SLASHED}:wonder"), &body()).expect(404);
    let unknown = gateway.client().get("/v1beta/models/nobody").expect(404);
    assert_eq!(unknown["error"]["status"], "NOT_FOUND");
    let asked = || Request::new("GET", "/v1/models").header("x-goog-api-client", "google-genai-sdk/3");
    let listed = gateway.client().send(asked()).expect(200);
    assert_eq!(listed["models"][0]["name"], format!("models/{MODEL}"));
    assert_eq!(gateway.client().get("/v1/models").expect(200)["data"][0]["id"], MODEL);
}

#[test]
fn the_operators_rules_of_what_is_no_answer_hold_for_geminis_own() {
    let gateway =
        Gateway::with(&[("PROXY_EMPTY_CONTENT_FAIL", "true"), ("PROXY_ERROR_KEYWORDS", "quota exceeded")]);
    let upstream = Upstream::of_google(&[MODEL]);
    gateway.add_as(&json!({"name": "site", "platform": "gemini"}), &upstream);
    let parts = |parts: Value| {
        json!({"candidates": [{"content": {"parts": parts}, "finishReason": "STOP"}],
            "usageMetadata": {"promptTokenCount": 3, "totalTokenCount": 3}})
    };
    for (reply, status) in [
        (parts(json!([{"functionCall": {"name": "f", "args": {}}}])), 200),
        (json!({"promptFeedback": {"blockReason": "SAFETY"}}), 200),
        (parts(json!([{"text": "Quota exceeded."}])), 502),
    ] {
        upstream.answer(CALL, Reply::json(200, &reply));
        gateway.client().post(CALL, &body()).expect(status);
    }
    let gateway = Gateway::with(&[("PROXY_EMPTY_CONTENT_FAIL", "true")]).in_front_of("gemini", &upstream);
    upstream.answer(CALL, Reply::json(200, &parts(json!([{"text": " "}]))));
    gateway.client().post(CALL, &body()).expect(502);
}

#[test]
fn what_else_googles_models_do_is_asked_of_google_as_it_came() {
    let (gateway, upstream) = (Gateway::start(), Upstream::of_google(&[MODEL]));
    gateway.add_as(&json!({"name": "site", "platform": "gemini"}), &upstream);
    for action in ["generateAnswer", "predict", "embedContent"] {
        let path = format!("/v1beta/models/{MODEL}:{action}");
        let (asked, told) = (json!({"answerStyle": "VERBOSE"}), json!({"answer": action}));
        upstream.answer(&path, Reply::json(200, &told));
        assert_eq!(gateway.client().post(&path, &asked).expect(200), told);
        assert_eq!(upstream.last(&path).json(), asked);
    }
    let refused = gateway.client().post(&format!("/v1beta/models/{MODEL}:sing"), &json!({})).expect(404);
    assert_eq!(refused["error"]["message"], "There is no action sing here");
}

#[test]
fn the_version_of_the_path_goes_upstream_unless_the_address_has_its_own() {
    let asked = |base: &str, version: &str| {
        let (upstream, gateway) = (Upstream::start(&[MODEL]), Gateway::start());
        let list = json!({"models": [{"name": format!("models/{MODEL}"),
            "supportedGenerationMethods": ["generateContent"]}]});
        let paths = ["/v1beta", "/v1", "/v1alpha", "/v2"];
        for root in paths {
            upstream.answer(&format!("{root}/models"), Reply::json(200, &list));
            let call = format!("{root}/models/{MODEL}:generateContent");
            upstream.answer(&call, Reply::json(200, &answer("North.")));
        }
        // A site's address loses its version, a pool's address keeps it.
        let pool = json!([{"url": format!("{}{base}", upstream.url())}]);
        let site = json!({"name": "site", "platform": "gemini", "url": upstream.url(), "apiEndpoints": pool});
        gateway.wait_for_task(&gateway.create_account(&gateway.create_site(&site), "sk-upstream-key"));
        gateway
            .client()
            .post(&format!("/gemini/{version}/models/{MODEL}:generateContent"), &body())
            .expect(200);
        let all = upstream.asked();
        let called = all.iter().rev().find(|asked| asked.path().contains(":generate")).expect("a call");
        called.path().split("/models").next().unwrap_or_default().to_owned()
    };
    for (base, version, wanted) in [
        ("", "v1beta", "/v1beta"),
        ("", "v1", "/v1"),
        ("", "v1alpha", "/v1alpha"),
        ("", "v2", "/v2"),
        ("", "..", "/v1beta"),
        ("/v1beta", "v1", "/v1beta"),
        ("/v1", "v1beta", "/v1"),
        ("/v1alpha", "v1beta", "/v1alpha"),
        ("/v1alpha", "v1", "/v1alpha"),
        ("/v1alpha", "v1alpha", "/v1alpha"),
    ] {
        assert_eq!(asked(base, version), wanted, "{base} {version}");
    }
}

#[test]
fn a_stream_without_events_is_one_array() {
    let (gateway, _upstream) = Gateway::serving_as("new-api", &[MODEL]);
    let answer = gateway.client().send(Request::post(STREAM).json(&body()));
    assert_eq!(answer.header("content-type"), Some("application/json; charset=utf-8"));
    let pieces = answer.expect(200);
    let text =
        |piece: &Value| piece["candidates"][0]["content"]["parts"][0]["text"].as_str().map(str::to_owned);
    let said: String = pieces.as_array().expect("an array").iter().filter_map(text).collect();
    assert_eq!(said, wire::TEXT, "{pieces}");
    // A refusal is not a stream.
    let refused = gateway.client().post("/v1beta/models/nobody:streamGenerateContent", &body());
    assert_eq!(refused.expect(503)["error"]["status"], "UNAVAILABLE");
}

#[test]
fn a_gemini_upstream_counts_itself_and_a_key_counts_what_it_may_ask() {
    let upstream = Upstream::of_google(&[MODEL]);
    let count = format!("/v1beta/models/{MODEL}:countTokens");
    // As in Google's API reference, models.countTokens.
    upstream.answer(&count, Reply::json(200, &json!({"totalTokens": 10})));
    let gateway = Gateway::start().in_front_of("gemini", &upstream);
    let counted = gateway.client().post(&count, &body());
    assert_eq!(counted.expect(200), json!({"totalTokens": 10}));
    assert_eq!(counted.header("x-switchyard-estimated"), None);
    assert_eq!(upstream.last(&count).json(), body());

    // Another provider's signatures of thoughts, as we gave them to the client, are not sent to Google.
    let mut signed = body();
    let carried = json!({"functionCall": {"name": "look", "args": {}},
        "thoughtSignature": "c3kxOmFudGhyb3BpYzpXM3NpZENJNklrNXZkeUExS3pFdUlpd2ljeUk2SWxOSlJ6SWlmVjA="});
    signed["contents"].as_array_mut().expect("a list").push(json!({"role": "model", "parts": [carried]}));
    let mut unsigned = signed.clone();
    let contents = unsigned["contents"].as_array_mut().expect("a list");
    let call = contents.last_mut().expect("a content")["parts"][0].as_object_mut().expect("a call");
    call.remove("thoughtSignature");
    gateway.client().post(&count, &signed).expect(200);
    assert_eq!(upstream.last(&count).json(), unsigned);
    gateway.client().post(&count, &json!({"generateContentRequest": signed})).expect(200);
    assert_eq!(upstream.last(&count).json(), json!({"generateContentRequest": unsigned}));

    let key = json!({"name": "narrow", "key": "sk-managed-narrow", "supportedModels": ["other"]});
    let narrow = gateway.add_key(&key);
    assert_eq!(narrow.post(&count, &body()).expect(403)["error"]["status"], "PERMISSION_DENIED");
}

#[test]
fn a_gemini_upstream_without_the_compatible_address_is_asked_in_its_own_dialect() {
    let upstream = Upstream::of_google(&[MODEL]);
    upstream.answer("/v1beta/openai/chat/completions", Reply::json(404, &json!({"error": "Not found"})));
    upstream.answer(CALL, Reply::json(200, &answer("North.")));
    upstream.answer(STREAM, Reply::events([wire::data(&answer("North."))]));
    let gateway = Gateway::start().in_front_of("gemini", &upstream);

    let messages = json!([{"role": "user", "content": "Which way?"}]);
    for (path, mut body) in [
        ("/v1/chat/completions", json!({"messages": messages})),
        ("/v1/messages", json!({"max_tokens": 9, "messages": messages})),
        ("/v1/responses", json!({"input": "Which way?"})),
    ] {
        body["model"] = json!(MODEL);
        let whole = gateway.client().post(path, &body).expect(200).to_string();
        assert!(whole.contains("North."), "{path}: {whole}");
        let asked = upstream.last(CALL).json();
        assert_eq!(asked["contents"][0]["parts"], json!([{"text": "Which way?"}]), "{path}: {asked}");
        body["stream"] = json!(true);
        let told = gateway.client().send(Request::post(path).json(&body)).text();
        assert!(told.contains("North."), "{path}: {told}");
        // Some relays stream without events, whatever is requested.
        upstream.answer_once(STREAM, Reply::json(200, &json!([answer("North."), answer(" Or east.")])));
        let told = gateway.client().send(Request::post(path).json(&body)).text();
        let mut lines = told.lines().filter(|line| !line.is_empty());
        assert!(
            lines.all(|line| line.starts_with("event: ") || line.starts_with("data: ")),
            "{path}: {told}"
        );
        assert!(told.contains("North.") && told.contains(" Or east."), "{path}: {told}");
    }
    let compatible = upstream.asked_for("/v1beta/openai/chat/completions").len();
    assert_eq!(compatible, 3, "a refused address is not asked again soon: once for every surface");
}

#[test]
fn what_else_google_does_is_asked_of_google_where_it_can_be() {
    let upstream = Upstream::of_google(&[MODEL]);
    let embed = "/v1beta/models/gemini-test:embedContent";
    let embedded = json!({"embedding": {"values": [0.5, -1.0]}});
    upstream.answer(embed, Reply::json(200, &embedded));
    upstream.answer(CALL, Reply::json(200, &answer("North.")));
    let gateway = Gateway::start();
    gateway.add_as(&json!({"name": "google", "platform": "gemini"}), &upstream);
    let asked = Request::post(&format!("{CALL}?key={PROXY_TOKEN}&alt=json&prettyPrint=false"));
    gateway.anyone().send(asked.json(&body())).expect(200);
    assert_eq!(upstream.last(CALL).target, format!("{CALL}?prettyPrint=false"));

    let other = Upstream::start(&[MODEL]);
    gateway.add_as(&json!({"name": "other", "platform": "new-api"}), &other);
    let body = json!({"content": {"parts": [{"text": "x"}]}, "outputDimensionality": 2});
    for _ in 0..5 {
        assert_eq!(gateway.client().post(embed, &body).expect(200), embedded);
    }
    assert_eq!(upstream.last(embed).json(), body);
    assert!(other.asked_for(embed).is_empty());
}

/// Starts an upstream that speaks only chat, and a gateway in front of it.
fn chat_alone() -> (Gateway, Upstream) {
    let upstream = Upstream::start(&[MODEL]);
    for path in ["/v1/responses", "/v1/messages"] {
        upstream.answer(path, Reply::error(404, "Not found"));
    }
    let gateway = Gateway::start().in_front_of("new-api", &upstream);
    (gateway, upstream)
}

/// Returns a candidate's text, and its finish reason.
fn told(events: &[Value], candidate: u64) -> (String, Value) {
    let own =
        |event: &Value| event["candidates"].as_array()?.iter().find(|one| one["index"] == candidate).cloned();
    let own: Vec<Value> = events.iter().filter_map(own).collect();
    let text = own.iter().filter_map(|one| one["content"]["parts"][0]["text"].as_str()).collect();
    (text, own.last().map_or(Value::Null, |last| last["finishReason"].clone()))
}

#[test]
fn several_candidates_come_in_one_stream() {
    let (gateway, upstream) = chat_alone();
    let mut several = body();
    several["generationConfig"] = json!({"candidateCount": 2});
    let chunk = |index: u64, text: &str, finish: Value| {
        wire::data(&json!({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": MODEL,
            "choices": [{"index": index, "delta": {"content": text}, "finish_reason": finish}]}))
    };
    let usage = wire::data(&json!({"id": "c", "choices": [], "usage": wire::chat_usage()}));
    let chunks = [
        chunk(0, "No", Value::Null),
        chunk(1, "Sou", Value::Null),
        chunk(0, "rth", json!("stop")),
        chunk(1, "th", json!("length")),
        usage,
        wire::DONE.to_owned(),
    ];
    upstream.answer("/v1/chat/completions", Reply::events(chunks));
    let path = format!("{STREAM}?alt=sse");
    let streamed = || {
        let text = gateway.client().post(&path, &several).text();
        let data = text.lines().filter_map(|line| line.strip_prefix("data: "));
        data.map(|data| serde_json::from_str(data).expect("JSON")).collect::<Vec<Value>>()
    };
    let events = streamed();
    assert_eq!(upstream.last("/v1/chat/completions").json()["n"], 2);
    assert_eq!(told(&events, 0), ("North".to_owned(), json!("STOP")), "{events:?}");
    assert_eq!(told(&events, 1), ("South".to_owned(), json!("MAX_TOKENS")), "{events:?}");
    assert_eq!(events.last().expect("events")["usageMetadata"]["totalTokenCount"], 18);

    // The same from an upstream that does not stream.
    let choice = |index: u64, text: &str| json!({"index": index, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"});
    let whole = json!({"id": "c", "object": "chat.completion", "model": MODEL, "usage": wire::chat_usage(),
        "choices": [choice(0, "North"), choice(1, "South")]});
    upstream.answer("/v1/chat/completions", Reply::json(200, &whole));
    let events = streamed();
    assert_eq!(
        (told(&events, 0).0, told(&events, 1).0),
        ("North".to_owned(), "South".to_owned()),
        "{events:?}"
    );

    // A stream that breaks in one of them fails once.
    let broken = [chunk(0, "No", json!("stop")), chunk(1, "Sou", Value::Null)];
    upstream.answer("/v1/chat/completions", Reply::events(broken).cut_after(2));
    let events = streamed();
    assert!(events.last().expect("events")["error"].is_object(), "{events:?}");
    assert_eq!(events.iter().filter(|event| event.get("error").is_some()).count(), 1);
}

#[test]
fn the_command_line_is_served_in_its_envelope() {
    let (gateway, upstream) = chat_alone();
    let sealed = json!({"model": MODEL, "project": "p", "request": body()});
    let whole = gateway.client().post("/v1internal:generateContent", &sealed).expect(200);
    let said = &whole["response"]["candidates"][0]["content"]["parts"][0]["text"];
    assert_eq!((said, whole.as_object().map(|it| it.len())), (&json!(wire::TEXT), Some(1)), "{whole}");
    assert_eq!(upstream.last("/v1/chat/completions").json()["model"], MODEL);

    let stream = gateway.client().send(Request::post("/v1internal:streamGenerateContent").json(&sealed));
    assert_eq!(stream.header("content-type"), Some("text/event-stream; charset=utf-8"));
    let text = stream.text();
    let events: Vec<Value> = text
        .lines()
        .filter_map(|line| line.strip_prefix("data: "))
        .map(|data| serde_json::from_str::<Value>(data).expect("JSON")["response"].take())
        .collect();
    assert_eq!(told(&events, 0), (wire::TEXT.to_owned(), json!("STOP")), "{text}");

    let count = json!({"request": {"model": format!("models/{MODEL}"), "contents": body()["contents"]}});
    let counted = gateway.client().post("/v1internal:countTokens", &count).expect(200);
    assert!(counted["totalTokens"].is_u64(), "{counted}");

    for (path, body, status) in [
        ("/v1internal:generateContent", json!({"model": MODEL}), 400),
        ("/v1internal:generateContent", json!({"request": body()}), 400),
        ("/v1internal:loadCodeAssist", sealed.clone(), 404),
    ] {
        let refused = gateway.client().post(path, &body).expect(status);
        assert_eq!(refused["error"]["code"], status, "{path}: {refused}");
    }
    let unknown = json!({"model": "model-unknown", "request": body()});
    let refused = gateway.client().post("/v1internal:generateContent", &unknown).expect(503);
    assert_eq!(refused["error"]["status"], "UNAVAILABLE", "{refused}");
    let rows = gateway.wait_for_logs(2);
    assert!(rows.iter().any(|row| row["clientFamily"] == "gemini_cli"), "{rows:?}");
}

#[test]
fn a_gemini_upstream_gets_contents_or_nothing() {
    let upstream = Upstream::of_google(&[MODEL]);
    upstream.answer("/v1beta/openai/chat/completions", Reply::error(404, "Not found"));
    upstream.answer(CALL, Reply::json(200, &answer("North.")));
    let gateway = Gateway::start().in_front_of("gemini", &upstream);
    let chat = |text: &str| json!({"messages": [{"role": "developer", "content": text}]});
    let messages =
        |text: &str| json!({"max_tokens": 9, "system": text, "messages": [{"role": "user", "content": ""}]});
    for (path, mut asked, status) in [
        ("/v1/chat/completions", chat("Which way?"), 200),
        ("/v1/chat/completions", chat(" "), 400),
        ("/v1/responses", json!({"instructions": "Which way?", "input": []}), 200),
        ("/v1/responses", json!({"instructions": "\n", "input": []}), 400),
        ("/v1/messages", messages("Which way?"), 400),
    ] {
        asked["model"] = json!(MODEL);
        let before = upstream.asked_for(CALL).len();
        gateway.client().post(path, &asked).expect(status);
        assert_eq!(upstream.asked_for(CALL).len() - before, usize::from(status == 200), "{path} {asked}");
        if status == 200 {
            let question = json!([{"role": "user", "parts": [{"text": "Which way?"}]}]);
            assert_eq!(upstream.last(CALL).json()["contents"], question, "{path}");
        }
    }
}

#[test]
fn a_models_name_in_a_path_stays_a_name() {
    let upstream = Upstream::of_google(&[MODEL]);
    upstream.serve(|asked| {
        asked.target.contains(":generateContent").then(|| Reply::json(200, &answer("North.")))
    });
    let gateway =
        Gateway::with(&[("DISABLE_CROSS_PROTOCOL_FALLBACK", "true")]).in_front_of("gemini", &upstream);
    let routes = gateway.routes();
    let route = routes.iter().find(|route| route["modelPattern"] == MODEL).expect("a route");
    let route = format!("/api/routes/{}", route["id"]);
    let name = |name: &str| {
        let mapping = json!({ MODEL: name }).to_string();
        gateway.admin().put(&route, &json!({"modelMapping": mapping})).expect(200);
    };
    let called = || {
        let targets = upstream.asked().into_iter().map(|asked| asked.target);
        targets.filter(|target| target.contains(":generateContent")).collect::<Vec<_>>()
    };
    for (model, target) in [
        ("gemini-x?key=theirs#top", "/v1beta/models/gemini-x%3Fkey=theirs%23top:generateContent"),
        ("gemini-%3Fx", "/v1beta/models/gemini-%253Fx:generateContent"),
        ("org/gemini-x:free", "/v1beta/models/org/gemini-x:free:generateContent"),
        ("tunedModels/mine-1", "/v1beta/tunedModels/mine-1:generateContent"),
    ] {
        name(model);
        gateway.client().post(CALL, &body()).expect(200);
        assert_eq!(called().pop().expect("a call"), target);
    }
    name("gemini-x/../../..");
    let before = called().len();
    let refused = gateway.client().post(CALL, &body()).expect(400);
    assert!(refused["error"]["message"].as_str().is_some_and(|text| text.contains("..")), "{refused}");
    assert_eq!(called().len(), before, "nobody is asked");
    assert_eq!(gateway.channels(MODEL)[0]["failCount"], json!(0));
}
