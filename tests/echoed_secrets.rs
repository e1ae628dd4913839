//! An upstream that repeats everything it was sent reveals it to no client, log, event or file.

use serde_json::{Value, json};

use crate::support::{self, Gateway, PROXY_TOKEN, Proxy, ReceivedRequest, Reply, Request, Upstream, wire};

const MODEL: &str = "model-echo";
const KEY: &str = "site-key-of-no-usual-form";
const GATE: &str = "gate-keeper/4711+x";
const BASIC_PASSWORD: &str = "pass-of-the-basic-pair";
const PROXY_PASSWORD: &str = "pass-of-the-outbound-proxy";
/// `ada:` and the passwords, as in a `Basic` header.
const BASIC: &str = "YWRhOnBhc3Mtb2YtdGhlLWJhc2ljLXBhaXI=";
const PROXY_BASIC: &str = "YWRhOnBhc3Mtb2YtdGhlLW91dGJvdW5kLXByb3h5";
/// The secrets to look for: each in plain text, in base64, and escaped for addresses, JSON and HTML.
const SECRETS: [&str; 13] = [
    KEY,
    GATE,
    BASIC_PASSWORD,
    PROXY_PASSWORD,
    BASIC,
    PROXY_BASIC,
    PROXY_TOKEN,
    "c2l0ZS1rZXktb2Ytbm8tdXN1YWwtZm9ybQ",
    "gate%2Dkeeper%2F4711%2Bx",
    "gate-keeper%2F4711%2Bx",
    "gate-keeper\\/4711+x",
    "gate-keeper%2f4711%2bx",
    "gate-keeper&#x2F;4711&#43;x",
];

/// Returns everything that came with a request, and other forms of the secrets.
fn echo(asked: &ReceivedRequest) -> String {
    let mut said: Vec<&str> = asked.headers.iter().map(|(_, value)| value.as_str()).collect();
    said.extend(SECRETS);
    said.join(" ")
}

/// A reply that contains the given text.
type Echo = Box<dyn Fn(&str) -> Reply + Send + Sync>;

/// Returns the ways in which an upstream can repeat a text.
fn replies(dialect_error: fn(&str) -> Value) -> Vec<Echo> {
    let with_headers = |reply: Reply, said: &str| {
        [
            "x-request-id",
            "request-id",
            "retry-after",
            "x-ratelimit-limit-requests",
            "anthropic-ratelimit-x",
            "x-codex-primary",
            "openai-processing-ms",
        ]
        .iter()
        .fold(reply, |reply, name| reply.header(name, &said.replace(['\r', '\n'], " ")))
    };
    let mut all: Vec<Echo> = Vec::new();
    for status in [200, 400, 401, 404, 422, 429, 500] {
        all.push(Box::new(move |said| with_headers(Reply::json(status, &dialect_error(said)), said)));
    }
    for status in [200, 400, 502] {
        all.push(Box::new(move |said| {
            with_headers(Reply::bytes(status, "text/plain", said.to_owned()), said)
        }));
        let page = |said: &str| format!("<html><title>{said}</title><h1>{said}</h1></html>");
        all.push(Box::new(move |said| with_headers(Reply::html(status, &page(said)), said)));
    }
    // The cut of an overlong message falls inside a secret.
    for pad in [1_960, 1_975, 1_985, 1_995] {
        all.push(Box::new(move |_| {
            Reply::json(400, &dialect_error(&format!("{}{KEY}", "x ".repeat(pad / 2))))
        }));
    }
    let events = |said: &str, begun: &str| {
        let error = json!({"error": {"message": said, "type": said, "code": said, "param": said}});
        Reply::events([begun.to_owned(), format!("data: {error}\n\n")])
    };
    all.push(Box::new(move |said| with_headers(events(said, ": hello\n\n"), said)));
    let content = support::wire::chat_content(MODEL, "x");
    let begun = content.clone();
    all.push(Box::new(move |said| with_headers(events(said, &content), said)));
    // Beside the events, in what no model wrote.
    all.push(Box::new(move |said| {
        let said = said.replace(['\r', '\n'], " ");
        Reply::events([begun.clone(), format!(": {said}\n\n"), format!("id: {said}\ndata: {said}\n\n")])
    }));
    all
}

fn openai_error(said: &str) -> Value {
    json!({"error": {"message": said, "type": said, "code": said, "param": said}})
}

fn anthropic_error(said: &str) -> Value {
    json!({"type": "error", "error": {"type": said, "message": said}})
}

fn google_error(said: &str) -> Value {
    json!({"error": {"code": 400, "message": said, "status": said, "details": [{"reason": said}]}})
}

#[track_caller]
fn says_nothing(what: &str, text: &str) {
    for secret in SECRETS {
        assert!(!text.contains(secret), "{what} has {secret}: {text}");
    }
}

#[test]
fn nothing_that_an_upstream_repeats_of_its_request_is_told_or_kept() {
    let (upstream, proxy) = (Upstream::start(&[MODEL]), Proxy::start());
    let gateway = Gateway::with(&[
        ("LOG_LEVEL", "debug"),
        ("PROXY_DEBUG_TRACE_ENABLED", "true"),
        ("PROXY_DEBUG_CAPTURE_BODIES", "true"),
        ("COOLDOWN_LAST_RESORT_SEC", "0"),
    ]);
    let headers = json!({"x-gate-secret": GATE, "x-second-token": format!("Basic {BASIC}")}).to_string();
    let site = gateway
        .create_site(&json!({"name": "talkative", "url": upstream.url(), "platform": "new-api",
        "customHeaders": headers, "proxyUrl": proxy.url("http", &format!("ada:{PROXY_PASSWORD}@"))}));
    let account = gateway.create_account(&site, KEY);
    gateway.wait_for_task(&account);
    gateway.wait_for_channels(MODEL, 1);

    let clear = format!("/api/accounts/{}/clear-cooldown", account["id"]);
    let messages = json!([{"role": "user", "content": "x"}]);
    for (path, body, error) in [
        ("/v1/chat/completions", json!({"messages": messages}), openai_error as fn(&str) -> Value),
        ("/v1/responses", json!({"input": "x"}), openai_error),
        ("/v1/messages", json!({"max_tokens": 9, "messages": messages}), anthropic_error),
        (
            "/v1beta/models/model-echo:generateContent",
            json!({"contents": [{"parts": [{"text": "x"}]}]}),
            google_error,
        ),
        ("/v1/completions", json!({"prompt": "x"}), openai_error),
        ("/v1/embeddings", json!({"input": "x"}), openai_error),
        ("/v1/images/generations", json!({"prompt": "x"}), openai_error),
    ] {
        for reply in replies(error) {
            upstream.serve(move |asked| (asked.path() != "/v1/models").then(|| reply(&echo(asked))));
            for streamed in [false, true] {
                let mut body = body.clone();
                if !path.contains(':') {
                    (body["model"], body["stream"]) = (json!(MODEL), json!(streamed));
                }
                let answer = gateway.client().stream(Request::post(path).json(&body));
                let (text, _) = answer.rest();
                says_nothing(path, &String::from_utf8_lossy(&text));
                let answer = gateway.client().send(Request::post(path).json(&body));
                says_nothing(path, &format!("{:?}", answer.headers));
                gateway.admin().post(&clear, &json!({})).expect(200);
            }
        }
    }

    // Background jobs: a refused model list, and the account's state.
    upstream.serve(|asked| Some(Reply::json(401, &openai_error(&echo(asked)))));
    let path = format!("/api/models/check/{}", account["id"]);
    let checked = gateway.admin().post(&path, &json!({}));
    says_nothing("a check", &checked.text());
    // A model list that contains what the upstream was sent.
    upstream.serve(|asked| {
        let names = [MODEL.to_owned(), "model-fresh".to_owned(), KEY.to_owned(), echo(asked)];
        let models = names.map(|name| json!({"id": name.replace(['\r', '\n'], " ")}));
        Some(Reply::json(200, &json!({"object": "list", "data": models})))
    });
    says_nothing("a check", &gateway.admin().post(&path, &json!({})).text());
    gateway.wait_for_channels("model-fresh", 1);
    says_nothing("the models", &gateway.client().get("/v1/models").text());
    gateway.admin().post("/api/accounts/health/refresh", &json!({"accountId": account["id"], "wait": true}));

    for path in [
        "/api/stats/proxy-logs?limit=100",
        "/api/events?limit=100",
        "/api/accounts",
        "/api/sites",
        "/api/tasks",
        "/api/stats/proxy-debug/traces?limit=100",
        "/api/routes",
    ] {
        let answer = gateway.admin().get(path);
        assert_eq!(answer.status, 200, "{path}");
        says_nothing(path, &answer.text());
    }
    says_nothing("the output", &gateway.output());
    for (path, bytes) in gateway.home().files() {
        for secret in SECRETS {
            let found = bytes.windows(secret.len()).any(|window| window == secret.as_bytes());
            assert!(!found, "{} has {secret}", path.display());
        }
    }
}

#[test]
fn a_video_batch_or_response_that_failed_repeats_no_secret() {
    let upstream = Upstream::start(&[MODEL]);
    let gateway = Gateway::start();
    let headers = json!({"x-gate": GATE}).to_string();
    gateway.add_as(&json!({"name": "s", "platform": "new-api", "customHeaders": headers}), &upstream);
    let error = format!("Incorrect API key provided: sk-upstream-key, {GATE}");
    let error = json!({"code": "invalid_api_key", "message": error});
    let output = json!([{"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
        "content": [{"type": "output_text", "text": "That way.", "annotations": []}]}]);
    let response = json!({"id": "resp_1", "object": "response", "created_at": 1, "status": "incomplete",
        "model": MODEL, "output": output, "error": error});
    let video = |status: &str| json!({"id": "video_1", "object": "video", "status": status, "error": error});
    let batch =
        json!({"id": "msgbatch_1", "type": "message_batch", "processing_status": "ended", "error": error});
    upstream.answer("/v1/responses", Reply::json(200, &response));
    upstream.answer("/v1/responses/resp_1", Reply::json(200, &response));
    upstream.answer("/v1/videos", Reply::json(200, &video("queued")));
    upstream.answer("/v1/videos/video_1", Reply::json(200, &video("failed")));
    upstream.answer("/v1/messages/batches", Reply::json(200, &batch));
    upstream.answer("/v1/messages/batches/msgbatch_1", Reply::json(200, &batch));
    let client = gateway.client();
    let params = json!({"model": MODEL, "max_tokens": 9, "messages": [{"role": "user", "content": "x"}]});
    for (path, body) in [
        ("/v1/responses", json!({"model": MODEL, "input": "x"})),
        ("/v1/videos", json!({"model": MODEL, "prompt": "x"})),
        ("/v1/messages/batches", json!({"requests": [{"custom_id": "a", "params": params}]})),
    ] {
        let made = client.post(path, &body).expect(200);
        let id = made["id"].as_str().expect("an id");
        let kept = client.get(&format!("{path}/{id}")).expect(200);
        for shown in [made.to_string(), kept.to_string()] {
            assert!(shown.contains("Incorrect API key provided: [redacted]"), "{path}: {shown}");
            assert!(!shown.contains("sk-upstream-key") && !shown.contains(GATE), "{path}: {shown}");
        }
    }
    let failed = wire::data(&json!({"type": "response.failed", "sequence_number": 0,
        "response": response}));
    let (start, end) = failed.split_at(failed.find("upstream-key").unwrap());
    for pieces in
        [vec![failed.clone()], vec![start.to_owned(), end.to_owned()], vec![failed.trim_end().to_owned()]]
    {
        upstream.answer("/v1/responses/resp_1", Reply::events(pieces));
        let resumed = client.stream(Request::new("GET", "/v1/responses/resp_1?stream=true")).whole().text();
        assert!(resumed.contains("response.failed") && resumed.contains("[redacted]"), "{resumed}");
        assert!(!resumed.contains("sk-upstream-key") && !resumed.contains(GATE), "{resumed}");
    }
    let listed = client.get("/v1/messages/batches").expect(200).to_string();
    assert!(listed.contains("[redacted]") && !listed.contains(GATE), "{listed}");
}

#[test]
fn a_good_answer_passes_without_the_headers_that_repeat_a_secret() {
    let upstream = Upstream::start(&[MODEL]);
    let gateway = Gateway::start();
    let headers = json!({"x-gate": GATE}).to_string();
    gateway.add_as(&json!({"name": "s", "platform": "openai", "customHeaders": headers}), &upstream);
    let answer = support::wire::chat(MODEL);
    let reply = Reply::json(200, &answer)
        .header("x-request-id", "req-1")
        .header("x-ratelimit-limit-requests", "100")
        .header("x-ratelimit-remaining-requests", &format!("for {GATE}"))
        .header("retry-after", "sk-upstream-key");
    upstream.answer("/v1/chat/completions", reply);
    let told = gateway.client().chat(MODEL);
    assert_eq!(told.header("x-upstream-request-id"), Some("req-1"));
    assert_eq!(told.header("x-ratelimit-limit-requests"), Some("100"));
    assert_eq!((told.header("x-ratelimit-remaining-requests"), told.header("retry-after")), (None, None));
    assert_eq!(told.expect(200), answer, "the body is the client's as it came");
}
