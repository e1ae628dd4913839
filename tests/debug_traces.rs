//! Debug traces: off by default, switched on through the API, and never with a credential in them.

use serde_json::{Value, json};

use crate::support::paths::CHAT;
use crate::support::{
    Caller, Gateway, Home, PROXY_TOKEN, Pair, Reply, Request, Setup, Upstream, eventually, wire,
};

const PATH: &str = "/api/stats/proxy-debug/traces";
const SITE_SECRET: &str = "secret-of-a-site-header";

fn one_site() -> (Gateway, Upstream) {
    let upstream = Upstream::start(&["alpha", "beta"]);
    let gateway = Gateway::start();
    let headers = json!({ "x-site-secret": SITE_SECRET }).to_string();
    gateway.add_as(&json!({"name": "site", "platform": "openai", "customHeaders": headers}), &upstream);
    (gateway, upstream)
}

#[track_caller]
fn switch(gateway: &Gateway, settings: &Value) {
    let mut settings = settings.clone();
    settings["proxyDebugTraceEnabled"] = json!(true);
    gateway.admin().put("/api/settings/runtime", &settings).expect(200);
}

fn list(gateway: &Gateway) -> Vec<Value> {
    gateway.admin().get(PATH).expect(200)["items"].as_array().expect("items").clone()
}

/// Waits for this many traces; returns the newest in full.
#[track_caller]
fn newest(gateway: &Gateway, count: usize) -> Value {
    let id = eventually(&format!("there are {count} traces"), || {
        let items = list(gateway);
        (items.len() == count).then(|| items[0]["id"].clone())
    });
    gateway.admin().get(&format!("{PATH}/{id}")).expect(200)
}

/// Parses a field that holds JSON text.
#[track_caller]
fn inner(object: &Value, field: &str) -> Value {
    let text = object[field].as_str().unwrap_or_else(|| panic!("{field} is no text: {object}"));
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{field}: {error}: {text}"))
}

#[test]
fn a_trace_names_the_path_that_was_asked_for() {
    let (gateway, _upstream) = one_site();
    switch(&gateway, &json!({}));
    let path = "/v1beta/models/alpha:generateContent";
    gateway
        .client()
        .post(path, &json!({"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}))
        .expect(200);
    assert_eq!(newest(&gateway, 1)["trace"]["downstreamPath"], path);
    gateway.client().chat("alpha").expect(200);
    assert_eq!(newest(&gateway, 2)["trace"]["downstreamPath"], CHAT);
}

#[test]
fn nothing_is_recorded_until_it_is_switched_on() {
    let (gateway, _upstream) = one_site();
    gateway.client().chat("alpha").expect(200);
    gateway.wait_for_logs(1);
    assert!(list(&gateway).is_empty());
    switch(&gateway, &json!({}));
    gateway.client().chat("alpha").expect(200);
    let found = newest(&gateway, 1);
    gateway.admin().put("/api/settings/runtime", &json!({"proxyDebugTraceEnabled": false})).expect(200);
    gateway.client().chat("alpha").expect(200);
    gateway.wait_for_logs(3);
    assert_eq!(list(&gateway).len(), 1);

    let item = &list(&gateway)[0];
    let names = [
        "id",
        "createdAt",
        "downstreamPath",
        "clientKind",
        "sessionId",
        "requestedModel",
        "selectedChannelId",
        "finalStatus",
        "finalHttpStatus",
        "finalUpstreamPath",
    ];
    assert_eq!(item.as_object().map(|item| item.len()), Some(names.len()), "{item}");
    assert!(names.iter().all(|name| item.get(*name).is_some()), "{item}");
    let trace = &found["trace"];
    let more = [
        "traceHint",
        "downstreamApiKeyId",
        "requestHeadersJson",
        "requestBodyJson",
        "stickySessionKey",
        "stickyHitChannelId",
        "selectedRouteId",
        "selectedAccountId",
        "selectedSiteId",
        "selectedSitePlatform",
        "endpointCandidatesJson",
        "endpointRuntimeStateJson",
        "decisionSummaryJson",
        "finalResponseHeadersJson",
        "finalResponseBodyJson",
        "updatedAt",
    ];
    assert_eq!(trace.as_object().map(|trace| trace.len()), Some(names.len() + more.len()), "{trace}");
    assert!(more.iter().all(|name| trace.get(*name).is_some()), "{trace}");
    for (field, value) in [
        ("downstreamPath", json!(CHAT)),
        ("requestedModel", json!("alpha")),
        ("finalStatus", json!("success")),
        ("finalHttpStatus", json!(200)),
        ("finalUpstreamPath", json!(CHAT)),
        ("selectedSitePlatform", json!("openai")),
        ("requestBodyJson", json!(null)),
        ("finalResponseBodyJson", json!(null)),
    ] {
        assert_eq!(trace[field], value, "{field}");
    }
    assert_eq!(inner(trace, "endpointCandidatesJson"), json!(["chat", "responses", "messages"]));
    let log = &gateway.wait_for_logs(3)[1];
    assert_eq!(trace["traceHint"], log["requestId"]);
    assert_eq!(trace["selectedChannelId"], log["channelId"]);
    let attempt = &found["attempts"][0];
    let names = [
        "id",
        "traceId",
        "attemptIndex",
        "endpoint",
        "requestPath",
        "targetUrl",
        "runtimeExecutor",
        "requestHeadersJson",
        "requestBodyJson",
        "responseStatus",
        "responseHeadersJson",
        "responseBodyJson",
        "rawErrorText",
        "recoverApplied",
        "downgradeDecision",
        "downgradeReason",
        "memoryWriteJson",
        "createdAt",
    ];
    assert_eq!(attempt.as_object().map(|attempt| attempt.len()), Some(names.len()), "{attempt}");
    assert!(names.iter().all(|name| attempt.get(*name).is_some()), "{attempt}");
    assert_eq!(attempt["responseStatus"], 200);
    assert_eq!(attempt["recoverApplied"], false);
    assert_eq!(inner(attempt, "requestHeadersJson")["content-type"], "application/json");
}

#[test]
fn no_credential_is_kept_in_any_form() {
    let (gateway, upstream) = one_site();
    switch(&gateway, &json!({"proxyDebugCaptureBodies": true, "proxyDebugCaptureStreamChunks": true}));
    let body = json!({"model": "alpha", "messages": [{"role": "user", "content": PROXY_TOKEN}],
        "tools": [{"type": "mcp", "authorization": "of-a-tool-server"}]});
    let ask = || {
        Request::post(&format!("{CHAT}?key=in-the-query-1&beta=true")).header("cookie", "session=of-a-cookie")
    };
    gateway.client().send(ask().json(&body)).expect(200);
    upstream.answer_once(CHAT, Reply::error(401, "Incorrect API key provided: sk-upstream-key"));
    gateway.client().send(ask().header("x-api-key", PROXY_TOKEN).json(&body)).expect(502);
    let by_key = gateway.anyone().with("x-goog-api-key", PROXY_TOKEN);
    by_key.stream(Caller::chat_ask("alpha", true)).whole();
    let traces: Vec<Value> = {
        newest(&gateway, 3);
        list(&gateway)
            .iter()
            .map(|item| gateway.admin().get(&format!("{PATH}/{}", item["id"])).expect(200))
            .collect()
    };
    let secrets =
        [PROXY_TOKEN, "sk-upstream-key", SITE_SECRET, "of-a-tool-server", "of-a-cookie", "in-the-query-1"];
    for trace in &traces {
        for secret in secrets {
            assert!(!trace.to_string().contains(secret), "{secret}: {trace:#}");
        }
    }
    let headers = inner(&traces[2]["attempts"][0], "requestHeadersJson");
    assert_eq!(headers["authorization"], "[redacted]");
    assert_eq!(headers["x-site-secret"], "[redacted]");
    assert!(inner(&traces[2]["trace"], "requestBodyJson")["messages"][0]["content"] == "[redacted]");
    assert_eq!(traces[1]["attempts"][0]["responseStatus"], 401);
    assert!(traces[1]["attempts"][0]["rawErrorText"].is_string());
    let target = traces[2]["attempts"][0]["targetUrl"].as_str().unwrap_or_default();
    assert_eq!(target, format!("{}{CHAT}?beta=true", upstream.url()));
    for (path, bytes) in gateway.home().files() {
        for secret in secrets {
            assert!(
                !bytes.windows(secret.len()).any(|window| window == secret.as_bytes()),
                "{secret} in {}",
                path.display()
            );
        }
    }
}

#[test]
fn every_request_to_an_upstream_is_an_attempt_in_its_order() {
    let pair = Pair::start();
    switch(&pair.gateway, &json!({"proxyDebugCaptureBodies": true}));
    pair.first.answer(CHAT, Reply::error(500, "boom"));
    pair.gateway.client().chat(Pair::MODEL).expect(200);
    let found = newest(&pair.gateway, 1);
    let attempts = found["attempts"].as_array().expect("attempts");
    let seen: Vec<_> =
        attempts.iter().map(|attempt| (&attempt["attemptIndex"], &attempt["responseStatus"])).collect();
    assert_eq!(seen, [(&json!(0), &json!(500)), (&json!(1), &json!(200))]);
    assert_eq!(inner(&attempts[0], "responseBodyJson")["error"]["message"], "boom");
    assert!(attempts[0]["rawErrorText"].as_str().is_some_and(|text| text.contains("boom")));
    assert_eq!(attempts[1]["rawErrorText"], json!(null));
    assert_eq!(inner(&attempts[1], "requestBodyJson")["model"], Pair::MODEL);
    assert_eq!(inner(&attempts[1], "responseBodyJson"), wire::chat(Pair::MODEL));
    let trace = &found["trace"];
    assert_eq!(trace["selectedChannelId"], pair.channel("second")["id"]);
    assert_eq!(trace["finalStatus"], "success");
    assert_eq!(inner(trace, "finalResponseBodyJson"), wire::chat(Pair::MODEL));
    // Only the first that can express the request is asked here: `DISABLE_CROSS_PROTOCOL_FALLBACK`.
    assert_eq!(inner(trace, "endpointCandidatesJson"), json!(["chat", "responses", "messages"]));
    let state = inner(trace, "endpointRuntimeStateJson");
    assert_eq!(state, json!([{"address": pair.second.url(), "cooling": false}]));
    let tried = inner(trace, "decisionSummaryJson")["tried"].clone();
    assert_eq!(tried[0]["channelId"], pair.channel("first")["id"]);
    assert!(tried[0]["reason"].is_string(), "{tried}");
    assert!(tried[0]["error"].is_string() && tried[1].get("error").is_none(), "{tried}");
}

#[test]
fn a_stream_is_kept_when_its_chunks_are_asked_for() {
    let (gateway, _upstream) = one_site();
    switch(&gateway, &json!({"proxyDebugCaptureBodies": true}));
    gateway.client().chat_streamed("alpha");
    let found = newest(&gateway, 1);
    assert_eq!(found["trace"]["finalStatus"], "success");
    assert_eq!(found["trace"]["finalResponseBodyJson"], json!(null));
    assert_eq!(found["attempts"][0]["responseBodyJson"], json!(null));
    assert!(found["trace"]["requestBodyJson"].is_string());
    switch(&gateway, &json!({"proxyDebugCaptureStreamChunks": true}));
    gateway.client().chat_streamed("alpha");
    let found = newest(&gateway, 2);
    for text in
        [inner(&found["trace"], "finalResponseBodyJson"), inner(&found["attempts"][0], "responseBodyJson")]
    {
        assert!(
            text.as_str().is_some_and(|text| text.starts_with("data: ") && text.contains("[DONE]")),
            "{text}"
        );
    }
}

#[test]
fn a_client_that_hangs_up_is_no_success() {
    let (gateway, upstream) = one_site();
    switch(&gateway, &json!({}));
    upstream.answer(CHAT, Reply::stall());
    let mut connection = gateway.client().connect();
    connection.write(&gateway.client().bytes(Caller::chat_ask("alpha", false))).expect("sent");
    upstream.last(CHAT);
    drop(connection);
    let found = newest(&gateway, 1);
    assert_eq!(
        (&found["trace"]["finalStatus"], &found["trace"]["finalHttpStatus"]),
        (&json!("failed"), &json!(null))
    );
    assert_eq!(found["attempts"][0]["responseStatus"], json!(null));
}

#[test]
fn a_stream_that_breaks_is_no_success() {
    let (gateway, upstream) = one_site();
    switch(&gateway, &json!({}));
    upstream.answer(CHAT, Reply::events(wire::chat_events("alpha")).cut_after(2));
    gateway.client().chat_streamed("alpha");
    let found = newest(&gateway, 1);
    assert_eq!(
        (&found["trace"]["finalStatus"], &found["trace"]["finalHttpStatus"]),
        (&json!("failed"), &json!(200))
    );
    assert!(found["attempts"][0]["rawErrorText"].is_string(), "{found}");
}

#[test]
fn a_long_body_is_cut_and_says_how_long_it_was() {
    let (gateway, _upstream) = one_site();
    switch(&gateway, &json!({"proxyDebugCaptureBodies": true, "proxyDebugMaxBodyBytes": 1024}));
    let body = json!({"model": "alpha", "messages": [{"role": "user", "content": "\u{e4}".repeat(5000)}]});
    gateway.client().post(CHAT, &body).expect(200);
    let found = newest(&gateway, 1);
    for object in [&found["trace"], &found["attempts"][0]] {
        let cut = inner(object, "requestBodyJson");
        assert_eq!(
            (&cut["__truncated"], &cut["originalBytes"]),
            (&json!(true), &json!(body.to_string().len()))
        );
        let preview = cut["preview"].as_str().expect("a preview");
        assert!(
            preview.starts_with('{') && preview.len() <= 1024 && preview.len() >= 900,
            "{}",
            preview.len()
        );
        assert_eq!(cut["storedBytes"], preview.len());
    }
}

#[test]
fn headers_are_left_out_when_they_are_not_asked_for() {
    let (gateway, _upstream) = one_site();
    switch(&gateway, &json!({"proxyDebugCaptureHeaders": false}));
    gateway.client().chat("alpha").expect(200);
    let found = newest(&gateway, 1);
    for (object, field) in [
        (&found["trace"], "requestHeadersJson"),
        (&found["trace"], "finalResponseHeadersJson"),
        (&found["attempts"][0], "requestHeadersJson"),
        (&found["attempts"][0], "responseHeadersJson"),
    ] {
        assert_eq!(object[field], json!(null), "{field}");
    }
}

#[test]
fn only_what_meets_the_targets_is_recorded() {
    let (gateway, _upstream) = one_site();
    switch(&gateway, &json!({"proxyDebugTargetModel": "ALPHA"}));
    gateway.client().chat("beta").expect(200);
    gateway.client().chat("alpha").expect(200);
    assert_eq!(newest(&gateway, 1)["trace"]["requestedModel"], "alpha");
    switch(&gateway, &json!({"proxyDebugTargetSessionId": "nobody"}));
    gateway.client().chat("alpha").expect(200);
    gateway.wait_for_logs(3);
    assert_eq!(list(&gateway).len(), 1);
}

#[test]
fn the_newest_traces_come_first_and_ids_are_checked() {
    let (gateway, _upstream) = one_site();
    switch(&gateway, &json!({}));
    for model in ["alpha", "beta", "alpha"] {
        gateway.client().chat(model).expect(200);
    }
    newest(&gateway, 3);
    let ids: Vec<_> = list(&gateway).iter().map(|item| item["id"].as_i64().expect("an id")).collect();
    assert!(ids.windows(2).all(|pair| pair[0] > pair[1]), "{ids:?}");
    for (query, count) in [("?limit=2", 2), ("?limit=0", 1), ("?limit=x", 3), ("?limit=1000", 3)] {
        let page = gateway.admin().get(&format!("{PATH}{query}")).expect(200);
        assert_eq!(page["items"].as_array().map(Vec::len), Some(count), "{query}");
    }
    assert!(gateway.admin().get(&format!("{PATH}/9999")).expect(404)["message"].is_string());
    assert!(gateway.admin().get(&format!("{PATH}/x")).expect(400)["message"].is_string());
}

#[test]
fn what_a_conversion_leaves_out_because_nobody_knows_it_is_named() {
    let pair = Pair::on("claude", &[]);
    switch(&pair.gateway, &json!({"proxyDebugTraceEnabled": true}));
    let asked = json!({"model": Pair::MODEL, "novelty": 1, "seed": 2, "messages": [{"role": "user", "content": "x"}]});
    pair.gateway.client().post(CHAT, &asked).expect(200);
    let tried = inner(&newest(&pair.gateway, 1)["trace"], "decisionSummaryJson")["tried"].take();
    assert_eq!(tried[0]["leftOut"], json!(["novelty"]), "{tried}");
}

#[test]
fn traces_older_than_the_retention_are_forgotten() {
    let home = Home::new();
    let setup =
        Setup::default().with("PROXY_DEBUG_TRACE_ENABLED", "true").with("PROXY_DEBUG_RETENTION_HOURS", "2");
    let upstream = Upstream::start(&["alpha"]);
    let mut gateway = setup.clone().start_in(home.clone());
    gateway.add("site", &upstream);
    for _ in 0..2 {
        gateway.client().chat("alpha").expect(200);
    }
    newest(&gateway, 2);
    gateway.signal("TERM");
    gateway.wait_for_exit();
    home.database().run("UPDATE proxy_debug_traces SET created_at = created_at - 3 * 3600000 WHERE id = 1");
    let gateway = setup.start_in(home.clone());
    eventually("the old trace is gone", || (list(&gateway).len() == 1).then_some(()));
    assert_eq!(home.database().number("SELECT COUNT(*) FROM proxy_debug_attempts"), 1);
}

#[test]
fn a_trace_names_the_client_and_the_channel_its_conversation_was_on() {
    let (gateway, _upstream) = one_site();
    switch(
        &gateway,
        &json!({"proxyDebugTargetSessionId": "conversation-1", "proxyDebugTargetClientKind": "CODEX"}),
    );
    let ask = |session: &str| {
        Caller::chat_ask("alpha", false).header("originator", "codex_cli_rs").header("session_id", session)
    };
    gateway.client().send(ask("conversation-2")).expect(200);
    gateway.client().send(ask("conversation-1")).expect(200);
    let first = newest(&gateway, 1);
    assert_eq!(
        (&first["trace"]["clientKind"], &first["trace"]["sessionId"]),
        (&json!("codex"), &json!("conversation-1"))
    );
    assert_eq!(first["trace"]["stickyHitChannelId"], json!(null));
    gateway.client().send(ask("conversation-1")).expect(200);
    let second = newest(&gateway, 2);
    assert_eq!(second["trace"]["stickyHitChannelId"], first["trace"]["selectedChannelId"]);
    assert!(first["trace"]["stickySessionKey"].is_string(), "{first}");
    assert_eq!(first["trace"]["stickySessionKey"], second["trace"]["stickySessionKey"]);
}
