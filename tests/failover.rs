//! Whatever an upstream does, the client of a model that has a second upstream sees only success.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::paths::CHAT;
use crate::support::{Caller, Gateway, Pair, Reply, Request, Upstream, eventually, seconds_ahead, wire};

const COOLDOWN: i64 = 600;
/// These tests are about trying one channel after the other, not one dialect after the other.
const ONE_DIALECT: (&str, &str) = ("DISABLE_CROSS_PROTOCOL_FALLBACK", "true");

/// Closes the connections to the first upstream: one that has rested for a second may break without anybody's fault.
fn on_a_new_connection(pair: &Pair) {
    pair.first.hang_up();
}

/// Sends one chat completion while the first upstream fails, and checks that the client gets the second's answer, both
/// attempts are logged, and the first channel rests.
#[track_caller]
fn the_second_answers(pair: &Pair, streamed: bool) {
    on_a_new_connection(pair);
    let answer = pair.gateway.client().stream(Caller::chat_ask(Pair::MODEL, streamed)).whole();
    assert_eq!(answer.status, 200, "{}", answer.text());
    let wanted =
        if streamed { wire::chat_events(Pair::MODEL).concat() } else { wire::chat(Pair::MODEL).to_string() };
    assert_eq!(answer.text(), wanted, "the second's answer and nothing of the first's");
    the_first_rests(pair, CHAT);
}

#[track_caller]
fn the_first_rests(pair: &Pair, path: &str) {
    let log = pair.gateway.wait_for_logs(2);
    for (row, (site, status, attempt)) in log.iter().zip([("first", "failed", 0), ("second", "success", 1)]) {
        assert_eq!(row["siteName"], site, "{log:#?}");
        assert_eq!(row["status"], status, "{row}");
        assert_eq!(row["retryCount"], attempt, "{row}");
    }
    assert!(log[0]["errorMessage"].as_str().is_some_and(|text| !text.is_empty()), "{}", log[0]);

    let cooling = pair.channel("first");
    let ahead = seconds_ahead(&cooling["cooldownUntil"]);
    assert!((COOLDOWN - 20..=COOLDOWN).contains(&ahead), "{ahead} s: {cooling}");
    assert_eq!(pair.channel("second")["cooldownUntil"], json!(null));

    let before = pair.first.asked_for(path).len();
    for _ in 0..3 {
        pair.gateway.client().chat(Pair::MODEL).expect(200);
    }
    assert_eq!(pair.first.asked_for(path).len(), before, "a cooling channel is not tried again");
    eventually("the failure is counted", || {
        let channel = pair.channel("first");
        (channel["failCount"] == 1 && channel["consecutiveFailCount"] == 1).then_some(())
    });
}

/// Calls [`the_second_answers`] for each of these replies of the first upstream.
#[track_caller]
fn survives(cases: Vec<(&str, Reply)>, streamed: bool, variables: &[(&str, &str)]) {
    for (what, reply) in cases {
        eprintln!("the first upstream: {what}");
        let pair = Pair::with(variables);
        pair.first.answer(CHAT, reply);
        the_second_answers(&pair, streamed);
    }
}

/// Returns replies with statuses that are the channel's fault.
fn statuses() -> Vec<(&'static str, Reply)> {
    vec![
        ("500", Reply::error(500, "boom")),
        ("502 with a page", Reply::html(502, "<html><title>502 Bad Gateway</title></html>")),
        ("529", Reply::error(529, "Overloaded")),
        ("429", Reply::error(429, "Rate limit reached")),
        ("401", Reply::error(401, "Incorrect API key provided")),
        ("403", Reply::error(403, "Forbidden")),
        ("408", Reply::error(408, "Request timed out")),
        ("404 whose code is about the model", coded(404, "model_not_found")),
        ("400 whose code is about the balance", coded(400, "billing_hard_limit_reached")),
        ("a redirect", Reply::bytes(302, "text/plain", "").header("location", "/login")),
    ]
}

/// Builds a refusal that only its code explains.
fn coded(status: u16, code: &str) -> Reply {
    let error = json!({"message": "No.", "type": "invalid_request_error", "param": null, "code": code});
    Reply::json(status, &json!({ "error": error }))
}

#[test]
fn a_failing_status_is_not_seen_by_the_client() {
    survives(statuses(), false, &[]);
}

#[test]
fn a_failing_status_is_not_seen_by_a_streaming_client() {
    survives(statuses(), true, &[]);
}

#[test]
fn a_refused_connection_is_not_seen_by_the_client() {
    for streamed in [false, true] {
        let pair = Pair::start();
        pair.first.refuse();
        the_second_answers(&pair, streamed);
    }
}

#[test]
fn a_connection_closed_before_the_first_byte_is_not_seen_by_the_client() {
    for streamed in [false, true] {
        survives(vec![("silence", Reply::silence())], streamed, &[]);
    }
}

#[test]
fn an_answer_that_breaks_off_is_not_seen_by_the_client() {
    let answer = wire::chat(Pair::MODEL).to_string();
    let half = &answer[..answer.len() / 2];
    let cases = vec![
        ("cut in the middle", Reply::json(200, &wire::chat(Pair::MODEL)).cut_after(0)),
        ("cut after half", Reply::bytes(200, "application/json", half).cut_after(1)),
        ("half a JSON, properly ended", Reply::bytes(200, "application/json", half)),
        (
            "an error as success",
            Reply::json(200, &json!({"error": {"message": "boom", "type": "server_error"}})),
        ),
        ("a page as success", Reply::html(200, "<html><title>Just a moment</title></html>")),
    ];
    survives(cases, false, &[]);
}

#[test]
fn a_stream_in_trouble_before_its_content_is_not_seen_by_the_client() {
    let events = wire::chat_events(Pair::MODEL);
    let role = events[0].clone();
    let error =
        wire::data(&json!({"error": {"message": "overloaded", "type": "server_error", "code": null}}));
    let cases = vec![
        ("an error event at once", Reply::events([error.clone()])),
        ("an error event after the role", Reply::events([role.clone(), error])),
        ("nothing at all", Reply::events([""; 0])),
        ("cut before anything", Reply::events(&events).cut_after(0)),
        ("cut after the role", Reply::events(&events).cut_after(1)),
        ("ended after the role", Reply::events([role.clone()])),
        ("an end marker at once", Reply::events([wire::DONE])),
        ("an end marker after the role", Reply::events([role.as_str(), wire::DONE])),
        ("comments only", Reply::events([": hello\n\n", ": again\n\n"]).cut_after(2)),
        ("a page as success", Reply::html(200, "<html><title>Just a moment</title></html>")),
    ];
    survives(cases, true, &[]);
}

#[test]
fn an_error_event_before_content_is_not_seen_in_any_dialect() {
    let responses = wire::response_events(Pair::MODEL);
    let failed = wire::named(&json!({"type": "response.failed", "sequence_number": 2,
        "response": {"id": "resp_x", "object": "response", "status": "failed", "output": [],
            "error": {"code": "server_error", "message": "boom"}}}));
    let overloaded = wire::named(
        &json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}),
    );
    for (path, body, trouble, wanted) in [
        (
            "/v1/responses",
            json!({"input": "x"}),
            vec![responses[0].clone(), responses[1].clone(), failed],
            wire::response_events(Pair::MODEL),
        ),
        (
            "/v1/messages",
            json!({"max_tokens": 9, "messages": [{"role": "user", "content": "x"}]}),
            vec![wire::message_start(Pair::MODEL), overloaded],
            wire::message_events(Pair::MODEL),
        ),
    ] {
        let pair = Pair::on("new-api", &[]);
        pair.first.answer(path, Reply::events(trouble));
        let mut body = body;
        (body["model"], body["stream"]) = (json!(Pair::MODEL), json!(true));
        let answer = pair.gateway.client().stream(Request::post(path).json(&body)).whole();
        assert_eq!(answer.text(), wanted.concat(), "{path}");
        the_first_rests(&pair, path);
    }
}

#[test]
fn an_upstream_that_stalls_past_the_first_byte_timeout_is_not_seen_by_the_client() {
    // The second upstream has to answer within this time.
    let quick = [("PROXY_FIRST_BYTE_TIMEOUT_SEC", "3")];
    survives(vec![("never answers", Reply::stall())], false, &quick);
    let silent_stream = Reply::events(wire::chat_events(Pair::MODEL)).stalls_after(0);
    let cases = vec![("never answers", Reply::stall()), ("a head and nothing more", silent_stream)];
    survives(cases, true, &quick);
}

#[test]
fn who_is_late_with_the_first_byte_is_not_asked_again() {
    let silent = Reply::events(wire::chat_events(Pair::MODEL)).stalls_after(0);
    for reply in [Reply::stall(), silent] {
        let upstream = Upstream::start(&[Pair::MODEL]);
        let gateway = Gateway::with(&[("PROXY_FIRST_BYTE_TIMEOUT_SEC", "1")]);
        gateway.add("alone", &upstream);
        let before = upstream.asked().len();
        upstream.answer(CHAT, reply);
        gateway.client().chat(Pair::MODEL).expect(408);
        assert_eq!(upstream.asked().len(), before + 1, "it may be at work on it, in whatever dialect");
    }
}

#[test]
fn each_dialect_that_was_asked_has_one_row() {
    for (status, message) in [(400, "that is unsupported here"), (405, "Method not allowed")] {
        let (gateway, upstream) = Gateway::serving(&[Pair::MODEL]);
        let paths = [CHAT, "/v1/responses", "/v1/messages"];
        for path in paths {
            upstream.answer(path, Reply::error(status, message));
        }
        gateway.client().chat(Pair::MODEL).expect(status);
        let log = gateway.wait_for_logs(paths.len());
        for (row, path) in log.iter().zip(paths) {
            let text = row["errorMessage"].as_str().unwrap_or_default();
            assert!(text.contains(&format!("[upstream:{path}]")), "{status}: {row}");
            assert_eq!((&row["status"], &row["httpStatus"]), (&json!("failed"), &json!(status)), "{row}");
            assert_eq!(row["retryCount"], 0, "{row}");
        }
    }
}

#[test]
fn a_stalled_upstream_is_hung_up_on() {
    let pair = Pair::with(&[("PROXY_FIRST_BYTE_TIMEOUT_SEC", "3")]);
    pair.first.answer(CHAT, Reply::stall());
    pair.gateway.client().chat(Pair::MODEL).expect(200);
    let asked = pair.first.last(CHAT);
    eventually("the first upstream is free again", || asked.hung_up().then_some(()));
}

#[test]
fn a_small_surface_fails_over_as_well() {
    for (path, body, wanted) in [
        ("/v1/embeddings", json!({"input": "x"}), wire::embedding(Pair::MODEL)),
        ("/v1/completions", json!({"prompt": "x"}), wire::completion(Pair::MODEL)),
        ("/v1/images/generations", json!({"prompt": "x"}), wire::image()),
    ] {
        let mut troubles = vec![Reply::error(500, "boom"), Reply::html(200, "<html></html>")];
        // An image that may have been created is not requested again.
        troubles.extend((!path.contains("images")).then(Reply::silence));
        for reply in troubles {
            let pair = Pair::start();
            pair.first.answer(path, reply);
            let mut body = body.clone();
            body["model"] = json!(Pair::MODEL);
            on_a_new_connection(&pair);
            assert_eq!(pair.gateway.client().post(path, &body).expect(200), wanted, "{path}");
            the_first_rests(&pair, path);
        }
    }
}

#[test]
fn a_failure_keyword_in_an_answer_is_a_failure() {
    let pair = Pair::with(&[("PROXY_ERROR_KEYWORDS", "out of credit, banned")]);
    let mut poor = wire::chat(Pair::MODEL);
    poor["choices"][0]["message"]["content"] = json!("Sorry: you are Out Of Credit.");
    pair.first.answer(CHAT, Reply::json(200, &poor));
    the_second_answers(&pair, false);
}

#[test]
fn an_empty_answer_is_a_failure_where_the_operator_says_so() {
    let mut empty = wire::chat(Pair::MODEL);
    empty["choices"][0]["message"]["content"] = json!("");
    empty["usage"] = json!({"prompt_tokens": 3, "completion_tokens": 0, "total_tokens": 3});
    let pair = Pair::with(&[("PROXY_EMPTY_CONTENT_FAIL", "true")]);
    pair.first.answer(CHAT, Reply::json(200, &empty));
    the_second_answers(&pair, false);
    let finish = wire::chat_chunk(Pair::MODEL, &json!({}), json!("stop"));
    let usage = wire::data(&json!({"choices": [], "usage": empty["usage"]}));
    let done = "data: [DONE]\n\n".to_owned();
    let (role, blank) = (wire::chat_role(Pair::MODEL), wire::chat_content(Pair::MODEL, " \n"));
    for events in [
        vec![done.clone()],
        [&role, &finish, &usage, &done].map(String::clone).to_vec(),
        vec![role, blank, finish, usage, done],
    ] {
        let pair = Pair::with(&[("PROXY_EMPTY_CONTENT_FAIL", "true")]);
        pair.first.answer(CHAT, Reply::events(events));
        the_second_answers(&pair, true);
    }

    let pair = Pair::start();
    pair.first.answer(CHAT, Reply::json(200, &empty));
    assert_eq!(pair.gateway.client().chat(Pair::MODEL).expect(200), empty, "otherwise it is an answer");
}

#[test]
fn failing_over_costs_no_more_than_the_failure() {
    let pair = Pair::start();
    pair.first.answer(CHAT, Reply::error(500, "boom").after(Duration::from_millis(50)));
    the_second_answers(&pair, false);
}

// === what is the client's own fault ===

#[test]
fn the_clients_own_mistake_reaches_it_unchanged_and_cools_nothing() {
    for (status, message, code) in [
        (400, "This model's maximum context length is 8192 tokens", json!("context_length_exceeded")),
        (400, "timeout must be <= 60", json!(null)),
        (400, "Unknown parameter: 'frobnicate'", json!("unknown_parameter")),
        (404, "not found", json!(null)),
        (400, "model tools not supported", json!(null)),
        (413, "too large", json!(null)),
        (422, "Unprocessable", json!(null)),
    ] {
        let pair = Pair::start();
        let error = json!({"error": {"message": message, "type": "invalid_request_error",
            "param": null, "code": code}});
        pair.first.answer(CHAT, Reply::json(status, &error));
        for streamed in [false, true] {
            let answer = pair.gateway.client().stream(Caller::chat_ask(Pair::MODEL, streamed)).whole();
            assert_eq!(answer.expect(status), error, "{status} {message}");
        }
        let log = pair.gateway.wait_for_logs(2);
        for row in &log {
            assert_eq!((&row["status"], &row["httpStatus"]), (&json!("failed"), &json!(status)), "{row}");
        }
        assert_eq!(pair.channel("first")["cooldownUntil"], json!(null), "{status} {message}");
        assert!(pair.second.asked_for(CHAT).is_empty(), "{status} {message}");
    }
}

#[test]
fn an_error_in_another_dialect_is_put_in_the_clients_own() {
    let (gateway, upstream) = Gateway::serving_as("new-api", &[Pair::MODEL]);
    let foreign = json!({"error": {"message": "max_tokens is too high", "type": "invalid_request_error",
        "param": "max_tokens", "code": null}});
    upstream.answer("/v1/messages", Reply::json(400, &foreign));
    let body = json!({"model": Pair::MODEL, "max_tokens": 9, "messages": [{"role": "user", "content": "x"}]});
    let error = gateway.client().post("/v1/messages", &body).expect(400);
    assert_eq!(error["type"], "error", "{error}");
    assert_eq!(error["error"]["type"], "invalid_request_error", "{error}");
    assert_eq!(error["error"]["message"], "max_tokens is too high", "{error}");
}

#[test]
fn an_upstream_that_repeats_its_credential_tells_nobody() {
    const KEY: &str = "site-key-of-no-usual-form";
    let told = json!({"error": {"message": format!("user {KEY} may not"), "type": KEY, "code": KEY}});
    let broken = [wire::chat_content(Pair::MODEL, "x"), wire::data(&told)];
    for (reply, streamed) in [
        (Reply::json(400, &told), false),
        (Reply::json(200, &told), false),
        (Reply::events([wire::data(&told)]), true),
        (Reply::events(broken), true),
    ] {
        let upstream = Upstream::start(&[Pair::MODEL]);
        let gateway = Gateway::start();
        let site = json!({"name": "talkative", "url": upstream.url(), "platform": "openai"});
        let account = gateway.create_account(&gateway.create_site(&site), KEY);
        gateway.wait_for_task(&account);
        upstream.answer(CHAT, reply);
        let text = gateway.client().stream(Caller::chat_ask(Pair::MODEL, streamed)).whole().text();
        assert!(text.contains("may not") && !text.contains(KEY), "{text}");
        let log = json!(gateway.wait_for_logs(1)).to_string();
        assert!(log.contains("may not") && !log.contains(KEY), "{log}");
        assert!(!gateway.output().contains(KEY));
    }
}

// === when nobody is left ===

/// Starts a gateway with one upstream for [`Pair::MODEL`].
fn alone(variables: &[(&str, &str)]) -> (Gateway, Upstream) {
    let upstream = Upstream::start(&[Pair::MODEL]);
    let gateway = Gateway::with(&[variables, &[ONE_DIALECT]].concat());
    gateway.add("alone", &upstream);
    (gateway, upstream)
}

#[test]
fn the_last_failure_is_told_in_the_clients_own_dialect() {
    for (upstream_status, client_status) in
        [(500, 500), (503, 503), (429, 429), (401, 502), (402, 502), (403, 502)]
    {
        let (gateway, upstream) = alone(&[]);
        let reply = Reply::error(upstream_status, "a telling message").header("retry-after", "17");
        upstream.answer(CHAT, reply);
        let answer = gateway.client().chat(Pair::MODEL);
        if client_status == 429 {
            assert_eq!(answer.header("retry-after"), Some("17"));
        }
        let error = answer.expect(client_status);
        assert!(
            error["error"]["message"].as_str().is_some_and(|m| m.contains("a telling message")),
            "{error}"
        );
        let kind = if client_status == upstream_status { "server_error" } else { "upstream_error" };
        assert_eq!(error["error"]["type"], kind, "{upstream_status}: {error}");
    }
}

#[test]
fn what_the_upstream_says_of_its_limits_comes_with_its_failures() {
    let limits = [
        ("retry-after", "17"),
        ("x-ratelimit-remaining-requests", "0"),
        ("anthropic-ratelimit-requests-reset", "2026-01-01T00:00:00Z"),
        ("x-codex-primary-used-percent", "100"),
    ];
    let limited = |reply: Reply| limits.iter().fold(reply, |reply, (name, value)| reply.header(name, value));
    let own = Reply::error(400, "too much").header("x-request-id", "theirs").header("set-cookie", "a=b");
    for (platform, reply, status) in [
        ("openai", own, 400),
        ("openai", Reply::error(429, "slow down").header("x-request-id", "theirs"), 429),
        ("claude", Reply::error(429, "slow down").header("request-id", "theirs"), 429),
        ("openai", Reply::events([r#"data: {"error":{"message":"slow down"}}"#, "\n\n"]), 502),
    ] {
        let (gateway, upstream) = Gateway::serving_as(platform, &[Pair::MODEL]);
        for path in [CHAT, "/v1/messages", "/v1/responses"] {
            upstream.answer(path, limited(reply.clone()));
        }
        let answer = gateway.client().chat(Pair::MODEL);
        for (name, value) in limits {
            assert_eq!(answer.header(name), Some(value), "{platform} {status} {name}");
        }
        let theirs = (status != 502).then_some("theirs");
        assert_eq!(answer.header("x-upstream-request-id"), theirs, "{platform} {status}");
        assert_ne!(answer.header("x-request-id"), Some("theirs"));
        assert_eq!(answer.header("set-cookie"), None);
        answer.expect(status);
    }
}

#[test]
fn a_wait_that_only_the_body_names_is_told_in_the_header() {
    let delay = json!([{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "11.2s"}]);
    let google =
        json!({"code": 429, "message": "slow down", "status": "RESOURCE_EXHAUSTED", "details": delay});
    let (gateway, upstream) = alone(&[]);
    upstream.answer(CHAT, Reply::json(429, &json!({ "error": google })));
    let answer = gateway.client().chat(Pair::MODEL);
    assert_eq!((answer.status, answer.header("retry-after")), (429, Some("12")));
}

#[test]
fn a_failure_of_the_network_is_a_bad_gateway() {
    let (gateway, upstream) = alone(&[]);
    upstream.refuse();
    let error = gateway.client().chat(Pair::MODEL).expect(502);
    assert_eq!(error["error"]["type"], "upstream_error", "{error}");
    let message = error["error"]["message"].as_str().unwrap_or_default();
    assert!(message.starts_with("Upstream error: "), "{message}");
    assert!(!message.contains("127.0.0.1"), "no address of the upstream: {message}");
}

#[test]
fn an_error_page_is_never_passed_on() {
    let (gateway, upstream) = alone(&[]);
    let page = "<!doctype html><html><head><title>bad.example | 522: Connection timed out</title></head><body><h1>Error</h1>cloudflare</body></html>";
    upstream.answer(CHAT, Reply::html(522, page));
    let error = gateway.client().chat(Pair::MODEL).expect(522);
    assert!(!error.to_string().contains('<'), "{error}");
}

#[test]
fn when_every_channel_cools_the_client_is_told_when_to_come_back() {
    let (gateway, upstream) = alone(&[]);
    upstream.answer(CHAT, Reply::error(500, "boom"));
    gateway.client().chat(Pair::MODEL).expect(500);
    upstream.answer_faithfully();
    for streamed in [false, true] {
        let answer = gateway.client().stream(Caller::chat_ask(Pair::MODEL, streamed)).whole();
        let seconds: i64 = answer.header("retry-after").and_then(|s| s.parse().ok()).expect("seconds");
        assert!((COOLDOWN - 20..=COOLDOWN).contains(&seconds), "{seconds}");
        let error = answer.expect(503);
        let message = error["error"]["message"].as_str().unwrap_or_default();
        assert!(message.starts_with("No available channels for this model"), "{error}");
    }
    assert_eq!(upstream.asked_for(CHAT).len(), 1);
    assert_eq!(gateway.models(), [Pair::MODEL], "a cooldown is no reason to forget a model");
    let one = gateway.client().get(&format!("/v1/models/{}", Pair::MODEL)).expect(200);
    assert_eq!(one["id"], Pair::MODEL);
    let gemini = gateway.client().get("/v1beta/models").expect(200);
    assert_eq!(gemini["models"][0]["displayName"], Pair::MODEL);
}

#[test]
fn no_more_channels_are_tried_than_allowed() {
    for (variables, wanted) in
        [(vec![ONE_DIALECT], 3), (vec![ONE_DIALECT, ("PROXY_MAX_CHANNEL_ATTEMPTS", "2")], 2)]
    {
        let gateway = Gateway::with(&variables);
        let upstreams: Vec<Upstream> = (0..4)
            .map(|number| {
                let upstream = Upstream::start(&[Pair::MODEL]);
                upstream.answer(CHAT, Reply::error(500, "boom"));
                gateway.add(&format!("site {number}"), &upstream);
                upstream
            })
            .collect();
        gateway.wait_for_channels(Pair::MODEL, 4);
        gateway.client().chat(Pair::MODEL).expect(500);
        let tried: usize = upstreams.iter().map(|upstream| upstream.asked_for(CHAT).len().min(1)).sum();
        assert_eq!(tried, wanted);
        let attempts: Vec<Value> =
            gateway.wait_for_logs(wanted).iter().map(|row| row["retryCount"].clone()).collect();
        assert_eq!(attempts, (0..wanted).map(|n| json!(n)).collect::<Vec<_>>());
    }
}

// === how long a channel rests ===

#[test]
fn a_channel_cools_for_ten_minutes_whatever_its_provider_asks_for() {
    const DAYS_30: i64 = 30 * 86_400;
    let limit = |seconds: i64| json!({"error": {"type": "usage_limit_reached", "message": "The usage limit has been reached", "resets_in_seconds": seconds}});
    let slow = |retry_after| Reply::error(429, "slow down").header("retry-after", retry_after);
    for (cap, reply, cools, limited) in [
        ("2592000", slow("1200"), COOLDOWN, Some(1200)),
        ("2592000", slow("5"), COOLDOWN, None),
        ("2592000", Reply::json(429, &limit(3600)), COOLDOWN, Some(3600)),
        ("2592000", Reply::json(429, &limit(2 * DAYS_30)), COOLDOWN, Some(DAYS_30)),
        ("2592000", slow("nonsense"), COOLDOWN, None),
        ("100", slow("300"), 100, Some(300)),
    ] {
        let (gateway, upstream) = alone(&[("TOKEN_ROUTER_FAILURE_COOLDOWN_MAX_SEC", cap)]);
        upstream.answer(CHAT, reply);
        gateway.client().chat(Pair::MODEL).expect(429);
        let channel = gateway.channels(Pair::MODEL).remove(0);
        let lies = |field: &str, seconds: i64| {
            let ahead = seconds_ahead(&channel[field]);
            assert!((seconds - 20..=seconds).contains(&ahead), "{field}: {ahead} instead of {seconds}");
        };
        lies("cooldownUntil", cools);
        match limited {
            Some(limited) => lies("limitedUntil", limited),
            None => assert_eq!(channel["limitedUntil"], json!(null), "{channel}"),
        }
    }
}

#[test]
fn a_rest_that_the_provider_asked_for_is_marked_until_it_is_forgotten() {
    // Returns the stored times of the only channel: the end of its cooldown, and that of the provider's refusal.
    let stored = |gateway: &Gateway| {
        gateway.admin().get("/api/stats/proxy-logs?limit=1").expect(200);
        let sql = "SELECT cooldown_until, provider_cooldown_until FROM channel_stats";
        let times = gateway.home().database().rows(sql).remove(0);
        (times[0].clone(), times[1].clone())
    };
    let limit =
        json!({"error": {"type": "usage_limit_reached", "message": "The usage limit has been reached"}});
    let (gateway, upstream) = alone(&[]);
    upstream.answer_once(CHAT, Reply::error(500, "boom"));
    gateway.client().chat(Pair::MODEL).expect(500);
    assert!(matches!(stored(&gateway), (Some(_), None)), "a failure of its own");
    let clear = |gateway: &Gateway, path: &str| gateway.admin().post(path, &json!({})).expect(200);
    let cooldown = format!("/api/routes/{}/cooldown/clear", gateway.routes()[0]["id"]);
    for path in [cooldown.as_str(), "/api/settings/maintenance/clear-usage"] {
        clear(&gateway, &cooldown);
        upstream.answer_once(CHAT, Reply::json(429, &limit));
        gateway.client().chat(Pair::MODEL).expect(429);
        let (until, by_provider) = stored(&gateway);
        assert!(until.is_some() && until == by_provider, "{until:?} {by_provider:?}");
        clear(&gateway, path);
        assert_eq!(stored(&gateway), (None, None), "{path}");
    }
    gateway.client().chat(Pair::MODEL).expect(200);
}

#[test]
fn a_rested_channel_is_used_again_and_its_success_clears_the_slate() {
    let (gateway, upstream) = alone(&[("TOKEN_ROUTER_FAILURE_COOLDOWN_MAX_SEC", "3")]);
    upstream.answer_once(CHAT, Reply::error(500, "boom"));
    gateway.client().chat(Pair::MODEL).expect(500);
    gateway.client().chat(Pair::MODEL).expect(503);
    eventually("the rest is over", || (gateway.client().chat(Pair::MODEL).status == 200).then_some(()));
    eventually("the channel shows it", || {
        let channel = gateway.channels(Pair::MODEL).remove(0);
        let clean = channel["cooldownUntil"].is_null() && channel["consecutiveFailCount"] == 0;
        (clean && channel["lastFailAt"].is_null() && channel["failCount"] == 1).then_some(())
    });
}

#[test]
fn a_rest_outlasts_a_restart() {
    let (mut gateway, upstream) = alone(&[]);
    upstream.answer_once(CHAT, Reply::error(500, "boom"));
    gateway.client().chat(Pair::MODEL).expect(500);
    gateway.signal("TERM");
    gateway.wait_for_exit();
    let gateway = gateway.restart();
    gateway.client().chat(Pair::MODEL).expect(503);
    assert_eq!(upstream.asked_for(CHAT).len(), 1);
}
