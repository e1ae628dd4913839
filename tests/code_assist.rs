//! Gemini's command line and Antigravity as upstreams: requests of every dialect are sent in the envelope of Google's Code
//! Assist API, with the token of a login.

use serde_json::{Value, json};

use crate::support::{Gateway, Login, Reply, Request, Setup, Upstream, seconds_ahead, wire};

const MODEL: &str = "gemini-2.5-test";
const ANSWER: &str = "/v1internal:generateContent";
const STREAM: &str = "/v1internal:streamGenerateContent";
const COUNT: &str = "/v1internal:countTokens";

fn answer(text: &str) -> Value {
    json!({"candidates": [{"index": 0, "content": {"role": "model", "parts": [{"text": text}]}, "finishReason": "STOP"}],
        "usageMetadata": {"promptTokenCount": 11, "candidatesTokenCount": 7, "totalTokenCount": 18},
        "modelVersion": "v"})
}

/// Starts a stub that answers, streams and counts tokens in envelopes.
fn google() -> Upstream {
    let upstream = Upstream::start(&[]);
    upstream.answer(ANSWER, Reply::json(200, &json!({"response": answer("North."), "traceId": "t"})));
    let begun = json!({"response": {"candidates": [{"index": 0, "content": {"role": "model", "parts": [{"text": "No"}]}}]}});
    let events = [wire::data(&begun), wire::data(&json!({"response": answer("rth."), "traceId": "t"}))];
    upstream.answer(STREAM, Reply::events(events));
    upstream.answer(COUNT, Reply::json(200, &json!({"totalTokens": 7})));
    upstream
}

/// Returns one question in each dialect: path and body.
fn questions(model: &str, stream: bool) -> Vec<(String, Value)> {
    let words = "Which way?";
    let action = if stream { "streamGenerateContent?alt=sse" } else { "generateContent" };
    let turns = json!([{"role": "user", "content": words}]);
    vec![
        ("/v1/chat/completions".to_owned(), json!({"model": model, "stream": stream, "messages": turns})),
        ("/v1/responses".to_owned(), json!({"model": model, "stream": stream, "input": words})),
        (
            "/v1/messages".to_owned(),
            json!({"model": model, "stream": stream, "max_tokens": 50, "messages": turns}),
        ),
        (
            format!("/v1beta/models/{model}:{action}"),
            json!({"contents": [{"role": "user", "parts": [{"text": words}]}]}),
        ),
    ]
}

#[test]
fn a_login_of_the_command_line_serves_every_dialect() {
    let upstream = google();
    let login = Login::new("gemini-cli", &upstream).with_project("project-7");
    let gateway = Gateway::with_logins(Setup::default(), MODEL, &[login]);
    for (path, body) in questions(MODEL, false) {
        let reply = gateway.client().post(&path, &body).expect(200);
        assert!(reply.to_string().contains("North."), "{path}: {reply}");
        let asked = upstream.last(ANSWER);
        assert_eq!(asked.header("authorization"), Some("Bearer access-token-of-the-login-51c0"));
        assert_eq!(asked.header("x-goog-api-key"), None);
        assert!(
            asked.header("user-agent").is_some_and(|agent| agent.starts_with("switchyard/")),
            "no disguise"
        );
        let envelope = asked.json();
        assert_eq!(envelope.as_object().map(|members| members.len()), Some(3), "{envelope}");
        assert_eq!((&envelope["model"], &envelope["project"]), (&json!(MODEL), &json!("project-7")));
        assert_eq!(envelope["request"]["contents"][0]["parts"][0]["text"], "Which way?", "{envelope}");
    }
    for (path, body) in questions(MODEL, true) {
        let reply = gateway.client().stream(Request::post(&path).json(&body)).whole();
        let text = reply.text();
        assert!(text.contains("No") && text.contains("rth.") && !text.contains("traceId"), "{path}: {text}");
        assert_eq!(upstream.last(STREAM).json()["project"], "project-7");
        assert!(upstream.last(STREAM).target.ends_with("?alt=sse"));
    }
    let rows = gateway.wait_for_logs(8);
    assert!(rows.iter().all(|row| row["status"] == "success" && row["promptTokens"] == 11), "{rows:#?}");
}

#[test]
fn a_client_of_gemini_gets_the_answer_byte_for_byte_without_its_envelope() {
    let upstream = google();
    let login = Login::new("gemini-cli", &upstream).with_project("p");
    let gateway = Gateway::with_logins(Setup::default(), MODEL, &[login]);
    let path = |action: &str| format!("/v1beta/models/{MODEL}:{action}");
    let body = json!({"contents": [{"parts": [{"text": "a"}]}], "safetySettings": [], "generationConfig": {"topK": 1.5}});
    assert_eq!(gateway.client().post(&path("generateContent"), &body).expect(200), answer("North."));
    assert_eq!(upstream.last(ANSWER).json()["request"], body, "as it came");
    let streamed = gateway.client().send(Request::post(&path("streamGenerateContent?alt=sse")).json(&body));
    assert_eq!(wire::data_of(&streamed.text())[1], answer("rth."));
    let counted = gateway.client().post(&path("countTokens"), &body).expect(200);
    assert_eq!(counted, json!({"totalTokens": 7}));
    let counted = json!({"request": {"model": format!("models/{MODEL}"), "contents": body["contents"],
        "generationConfig": body["generationConfig"]}});
    assert_eq!(upstream.last(COUNT).json(), counted);
    // The command line's own envelope is opened and built anew.
    let enveloped = json!({"model": MODEL, "project": "somebody-else", "request": body});
    let reply = gateway.client().post(ANSWER, &enveloped).expect(200);
    assert_eq!(reply, json!({"response": answer("North.")}));
    assert_eq!(upstream.last(ANSWER).json()["project"], "p", "the account's, not the client's");
    gateway.client().post(&path("embedContent"), &json!({"content": {"parts": [{"text": "a"}]}})).expect(404);
}

#[test]
fn an_error_of_google_reaches_the_client_as_it_is() {
    let upstream = google();
    let refused =
        json!({"error": {"code": 400, "message": "Unknown name \"x\"", "status": "INVALID_ARGUMENT"}});
    upstream.answer_once(ANSWER, Reply::json(400, &refused));
    let login = Login::new("gemini-cli", &upstream).with_project("p");
    let gateway = Gateway::with_logins(Setup::default(), MODEL, &[login]);
    let body = json!({"contents": [], "x": 1});
    let reply = gateway.client().post(&format!("/v1beta/models/{MODEL}:generateContent"), &body);
    assert_eq!(reply.expect(400), refused);
}

#[test]
fn a_command_line_login_without_a_project_gives_way_to_the_next() {
    let (first, second) = (google(), google());
    let logins = [
        Login::new("gemini-cli", &first).named("first"),
        Login::new("gemini-cli", &second).named("second").with_project("p"),
    ];
    let gateway = Gateway::with_logins(Setup::default(), MODEL, &logins);
    gateway.client().chat(MODEL).expect(200);
    assert_eq!((first.asked_for(ANSWER).len(), second.asked_for(ANSWER).len()), (0, 1));
    let rows = gateway.wait_for_logs(2);
    let told = rows[0]["errorMessage"].as_str().expect("a text");
    assert!(told.ends_with("gemini-cli oauth project id missing"), "{told}");
    let channels = gateway.channels(MODEL);
    assert!(channels.iter().all(|channel| channel["cooldownUntil"].is_null()), "nothing failed up there");
}

#[test]
fn a_request_to_antigravity_names_its_agent_and_keeps_its_rules() {
    const PICTURES: &str = "gemini-2.5-flash-image-test";
    let upstream = google();
    for (model, kind, project) in [(MODEL, "agent", None), (PICTURES, "image_gen", Some("p"))] {
        let login = Login { project, ..Login::new("antigravity", &upstream) };
        let gateway = Gateway::with_logins(Setup::default(), model, &[login]);
        let body = json!({"contents": [{"role": "user", "parts": [{"text": "Draw"}]}], "safetySettings": [],
            "generationConfig": {"topK": 2, "maxOutputTokens": 9},
            "tools": [{"functionDeclarations": [{"name": "f", "parametersJsonSchema": {"type": "object"}}]}]});
        let path = format!("/v1beta/models/{model}:generateContent");
        let reply = gateway.client().post(&path, &body).expect(200);
        assert_eq!(reply, answer("North."));
        let asked = upstream.last(ANSWER);
        assert!(
            asked.header("user-agent").is_some_and(|agent| agent.starts_with("switchyard/")),
            "no disguise"
        );
        let envelope = asked.json();
        assert_eq!(envelope["userAgent"], "antigravity");
        assert_eq!(envelope["requestType"], kind);
        assert_eq!(envelope.get("project"), project.map(|project| json!(project)).as_ref());
        let id = envelope["requestId"].as_str().expect("an id");
        match kind {
            "agent" => assert!(id.starts_with("agent-") && id.len() == 42, "{id}"),
            _ => assert!(id.starts_with("image_gen/") && id.ends_with("/12"), "{id}"),
        }
        let request = &envelope["request"];
        assert_eq!(request["generationConfig"], json!({"topK": 2}));
        assert_eq!(request.get("safetySettings"), None);
        assert_eq!(
            request["tools"][0]["functionDeclarations"][0],
            json!({"name": "f", "parameters": {"type": "object"}})
        );
        let session = request.get("sessionId").and_then(Value::as_str);
        assert_eq!(session.is_some_and(|name| name.starts_with('-')), kind == "agent", "{session:?}");
        gateway.client().post(&path, &body).expect(200);
        assert_eq!(upstream.last(ANSWER).json()["request"], *request, "the same in every turn");
    }
}

/// With tools like Claude Code's, which use keywords of JSON Schema that Google's schema lacks.
#[test]
fn tools_of_other_dialects_reach_antigravity_in_the_form_that_it_knows() {
    let upstream = google();
    let gateway = Gateway::with_logins(Setup::default(), MODEL, &[Login::new("antigravity", &upstream)]);
    let schema = json!({"$schema": "http://json-schema.org/draft-07/schema#", "type": "object",
        "properties": {"path": {"type": "string", "description": "Which"}, "limit": {"type": ["integer", "null"],
            "exclusiveMinimum": 0}}, "required": ["path"], "additionalProperties": false});
    let plain = json!({"type": "object", "properties": {"path": {"type": "string", "description": "Which"},
        "limit": {"type": "integer", "nullable": true}}, "required": ["path"]});
    let said = json!([{"role": "user", "content": "Which way?"}]);
    let function = json!({"name": "read", "parameters": schema});
    for (path, body) in [
        (
            "/v1/messages",
            json!({"model": MODEL, "max_tokens": 9, "messages": said,
                "tools": [{"name": "read", "input_schema": schema}]}),
        ),
        (
            "/v1/chat/completions",
            json!({"model": MODEL, "messages": said, "tools": [{"type": "function", "function": function}]}),
        ),
    ] {
        gateway.client().post(path, &body).expect(200);
        let request = upstream.last(ANSWER).json()["request"].clone();
        assert_eq!(request["tools"][0]["functionDeclarations"][0]["parameters"], plain, "{path}: {request}");
    }
}

#[test]
fn a_model_of_antigravity_that_only_streams_answers_those_who_want_a_whole_answer() {
    const CLAUDE: &str = "claude-test-4";
    let upstream = google();
    let gateway = Gateway::with_logins(Setup::default(), CLAUDE, &[Login::new("antigravity", &upstream)]);
    for (path, body) in questions(CLAUDE, false).into_iter().chain(questions(CLAUDE, true)) {
        let reply = gateway.client().send(Request::post(&path).json(&body));
        assert_eq!(reply.status, 200, "{path}: {}", reply.text());
        assert!(reply.text().contains("rth."), "{path}: {}", reply.text());
        let request = upstream.last(STREAM).json()["request"].clone();
        assert_eq!(
            request["toolConfig"],
            json!({"functionCallingConfig": {"mode": "VALIDATED"}}),
            "{request}"
        );
    }
    assert_eq!(upstream.asked_for(ANSWER).len(), 0);
    let whole = gateway.client().post(
        &format!("/v1beta/models/{CLAUDE}:generateContent"),
        &json!({"contents": [{"parts": [{"text": "a"}]}]}),
    );
    assert_eq!(whole.expect(200)["candidates"][0]["content"]["parts"][0]["text"], "North.");
}

/// Gives these addresses to the gateway's only site.
fn use_pool(gateway: &Gateway, addresses: &[&Upstream]) {
    let sites = gateway.admin().get("/api/sites").expect(200);
    let pool: Vec<Value> = addresses
        .iter()
        .zip(0..)
        .map(|(upstream, at)| json!({"url": upstream.url(), "sortOrder": at}))
        .collect();
    gateway
        .admin()
        .put(&format!("/api/sites/{}", sites[0]["id"]), &json!({"apiEndpoints": pool}))
        .expect(200);
}

#[test]
fn an_address_of_antigravity_without_room_passes_a_request_on() {
    let full = json!({"error": {"code": 503, "message": "No capacity available for model", "status": "UNAVAILABLE"}});
    let many = json!({"error": {"code": 429, "message": "Resource has been exhausted", "status": "RESOURCE_EXHAUSTED"}});
    let (first, second) = (google(), google());
    let gateway = Gateway::with_logins(Setup::default(), MODEL, &[Login::new("antigravity", &first)]);
    use_pool(&gateway, &[&first, &second]);
    let asked = || (first.asked_for(ANSWER).len(), second.asked_for(ANSWER).len());
    first.answer_once(ANSWER, Reply::json(429, &many));
    gateway.client().chat(MODEL).expect(200);
    assert_eq!(asked(), (1, 1));
    // The address does not rest because of that; if none has capacity, both are asked again after a moment.
    first.answer_once(ANSWER, Reply::json(503, &full));
    second.answer_once(ANSWER, Reply::json(503, &full));
    gateway.client().chat(MODEL).expect(200);
    assert_eq!(asked(), (3, 2));
    let channel = gateway.channels(MODEL).remove(0);
    assert!(channel["cooldownUntil"].is_null(), "{channel}");
    // If all addresses refuse because of too many requests, none is asked again at once.
    first.answer(ANSWER, Reply::json(429, &many));
    second.answer(ANSWER, Reply::json(429, &many));
    gateway.client().chat(MODEL).expect(429);
    assert_eq!(asked(), (4, 3));
    assert!(seconds_ahead(&gateway.channels(MODEL)[0]["cooldownUntil"]) > 0);
}
