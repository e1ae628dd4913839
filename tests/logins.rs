//! Requests served with logins of Codex and Claude: which headers they carry, and how full their accounts' limits are.

use serde_json::{Value, json};

use crate::support::paths::{CHAT, MESSAGES};
use crate::support::{
    ACCESS_TOKEN, Gateway, Login, Pair, ReceivedRequest, Reply, Request, Setup, Upstream, seconds_ahead, wire,
};

const MODEL: &str = "model-login";
const CODEX: &str = "/responses";

/// Returns one question in each dialect: path and body.
fn questions(stream: bool) -> Vec<(String, Value)> {
    let action = if stream { "streamGenerateContent?alt=sse" } else { "generateContent" };
    let turns = json!([{"role": "user", "content": "Which way?"}]);
    vec![
        (CHAT.to_owned(), json!({"model": MODEL, "stream": stream, "messages": turns})),
        ("/v1/responses".to_owned(), json!({"model": MODEL, "stream": stream, "input": "Which way?"})),
        (MESSAGES.to_owned(), json!({"model": MODEL, "stream": stream, "max_tokens": 50, "messages": turns})),
        (
            format!("/v1beta/models/{MODEL}:{action}"),
            json!({"contents": [{"role": "user", "parts": [{"text": "Which way?"}]}]}),
        ),
    ]
}

/// Sends a question in every dialect, streamed and not.
#[track_caller]
fn ask_in_every_dialect(gateway: &Gateway) {
    for (path, body) in questions(false).into_iter().chain(questions(true)) {
        let reply = gateway.client().send(Request::post(&path).json(&body));
        assert_eq!(reply.status, 200, "{path} {body}: {}", reply.text());
    }
    let rows = gateway.wait_for_logs(8);
    assert!(rows.iter().all(|row| row["status"] == "success"), "{rows:#?}");
}

/// Asserts that there is no header that only another program would send.
#[track_caller]
fn expect_no_disguise(asked: &ReceivedRequest) {
    assert_eq!(asked.header("authorization"), Some(&*format!("Bearer {ACCESS_TOKEN}")));
    assert!(asked.header("user-agent").is_some_and(|agent| agent.starts_with("switchyard/")));
    for name in ["x-api-key", "x-app", "originator", "version", "x-stainless-lang", "x-goog-api-client"] {
        assert_eq!(asked.header(name), None, "{name}");
    }
}

fn codex() -> Upstream {
    let upstream = Upstream::start(&[]);
    upstream.answer(CODEX, Reply::events(wire::response_events(MODEL)));
    upstream
}

#[test]
fn a_login_of_codex_serves_every_dialect() {
    let upstream = codex();
    let login = Login::new("codex", &upstream).with_key("account-7");
    let gateway = Gateway::with_logins(Setup::default(), MODEL, &[login]);
    ask_in_every_dialect(&gateway);
    for asked in upstream.asked_for(CODEX) {
        expect_no_disguise(&asked);
        assert_eq!(asked.header("chatgpt-account-id"), Some("account-7"));
        assert_eq!(asked.header("session_id").map(str::len), Some(36), "one of its own");
        assert_eq!(asked.header("conversation_id"), None, "nobody knows which");
        assert_eq!((&asked.json()["store"], &asked.json()["stream"]), (&json!(false), &json!(true)));
    }
    upstream.answer("/responses/compact", Reply::json(200, &wire::response(MODEL)));
    let body = json!({"model": MODEL, "input": "Which way?"});
    gateway.client().post("/v1/responses/compact", &body).expect(200);
    assert_eq!(upstream.last("/responses/compact").header("chatgpt-account-id"), Some("account-7"));
}

#[test]
fn a_conversation_has_one_name_at_codex() {
    let upstream = codex();
    let gateway = Gateway::with_logins(Setup::default(), MODEL, &[Login::new("codex", &upstream)]);
    let ask = |headers: &[(&str, &str)], key: Option<&str>| {
        let body = json!({"model": MODEL, "input": "Which way?", "prompt_cache_key": key, "stream": true});
        let request = Request::post("/v1/responses").json(&body);
        let request = headers.iter().fold(request, |request, (name, value)| request.header(name, value));
        gateway.client().stream(request).whole();
        let asked = upstream.last(CODEX);
        ["session_id", "conversation_id"].map(|name| asked.header(name).map(str::to_owned))
    };
    let own = |name: &str| Some(name.to_owned());
    assert_eq!(ask(&[("session_id", "s"), ("conversation_id", "c")], None), [own("s"), own("c")]);
    assert_eq!(ask(&[("session-id", "s")], None), [own("s"), own("s")]);
    let [session, conversation] = ask(&[], Some("a-cache-key"));
    assert_eq!(session, conversation);
    assert!(session.as_ref().is_some_and(|name| name.len() == 36 && !name.contains("cache")), "{session:?}");
    assert_eq!(ask(&[], Some("a-cache-key"))[0], session, "the same in every turn");
    assert_ne!(ask(&[], Some("another"))[0], session);
    let foreign = [("chatgpt-account-id", "somebody-else")];
    ask(&foreign, None);
    assert_eq!(upstream.last(CODEX).header("chatgpt-account-id"), None, "a client chooses no account");
}

#[test]
fn a_login_of_claude_serves_every_dialect() {
    let upstream = Upstream::with_one_path(MODEL, MESSAGES);
    let gateway = Gateway::with_logins(Setup::default(), MODEL, &[Login::new("claude", &upstream)]);
    ask_in_every_dialect(&gateway);
    for asked in upstream.asked_for(MESSAGES) {
        expect_no_disguise(&asked);
        assert_eq!(asked.header("anthropic-version"), Some("2023-06-01"));
        assert_eq!(asked.header("anthropic-beta"), Some("oauth-2025-04-20"));
    }
    let turns = json!([{"role": "user", "content": "Which way?"}]);
    let body = json!({"model": MODEL, "max_tokens": 9, "messages": turns});
    let betas = "context-1m-2025-08-07, oauth-2025-04-20";
    let ask = |path: &str| Request::post(path).header("anthropic-beta", betas).json(&body);
    gateway.client().send(ask(MESSAGES)).expect(200);
    assert_eq!(
        upstream.last(MESSAGES).header("anthropic-beta"),
        Some("oauth-2025-04-20,context-1m-2025-08-07")
    );
    let count = "/v1/messages/count_tokens";
    upstream.answer(count, Reply::json(200, &json!({"input_tokens": 7})));
    gateway.client().send(ask(count)).expect(200);
    let asked = upstream.last(count);
    assert_eq!(
        asked.header("anthropic-beta"),
        Some("oauth-2025-04-20,context-1m-2025-08-07,token-counting-2024-11-01")
    );
    assert_eq!(asked.header("authorization"), Some(&*format!("Bearer {ACCESS_TOKEN}")));
}

#[test]
fn a_key_of_anthropic_is_no_login() {
    let upstream = Upstream::with_one_path(MODEL, MESSAGES);
    let gateway = Gateway::start().in_front_of("claude", &upstream);
    gateway.client().chat(MODEL).expect(200);
    let asked = upstream.last(MESSAGES);
    assert_eq!(asked.header("x-api-key"), Some("sk-upstream-key"));
    assert_eq!((asked.header("authorization"), asked.header("anthropic-beta")), (None, None));
}

// === how full the limits are ===

/// Returns the windows of the account at a site.
fn windows(gateway: &Gateway, site: &str) -> Value {
    let list = gateway.admin().get("/api/accounts?refresh=1").expect(200);
    let mut accounts = list["accounts"].as_array().expect("accounts").iter();
    let account = accounts.find(|account| account["site"]["name"] == site);
    account.unwrap_or_else(|| panic!("no account at {site}: {list}"))["limitWindows"].clone()
}

/// Builds a good answer that reports how many of a hundred requests are left.
fn with_left(left: &str) -> Reply {
    Reply::json(200, &wire::chat(Pair::MODEL))
        .header("x-ratelimit-limit-requests", "100")
        .header("x-ratelimit-remaining-requests", left)
        .header("x-ratelimit-reset-requests", "1h0m0s")
}

fn reason(gateway: &Gateway, site: &str) -> Value {
    let answer = gateway.admin().get(&format!("/api/routes/decision?model={}", Pair::MODEL)).expect(200);
    let candidates = answer["decision"]["candidates"].as_array().expect("candidates").clone();
    let found = candidates.into_iter().find(|candidate| candidate["siteName"] == site);
    found.expect("a candidate")["reasonCode"].clone()
}

#[test]
fn an_account_near_a_limit_serves_when_no_other_can() {
    let Pair { mut gateway, first, second } = Pair::start();
    first.answer(CHAT, with_left("6"));
    gateway.client().chat(Pair::MODEL).expect(200);
    let window = windows(&gateway, "first")[0].clone();
    assert_eq!((&window["name"], &window["usedPercent"]), (&json!("requests"), &json!(94)), "{window}");
    assert_eq!((&window["limit"], &window["remaining"]), (&json!(100), &json!(6)));
    assert_eq!(window["source"], "headers");
    assert!((3500..=3600).contains(&seconds_ahead(&window["resetAt"])), "{window}");
    assert!(seconds_ahead(&window["observedAt"]) <= 0);
    assert_eq!(windows(&gateway, "second"), json!([]), "nothing was told");
    assert_eq!(reason(&gateway, "first"), "candidate");
    // One more, and the window is at ninety-five percent.
    first.answer(CHAT, with_left("5"));
    gateway.client().chat(Pair::MODEL).expect(200);
    assert_eq!((first.asked_for(CHAT).len(), second.asked_for(CHAT).len()), (2, 0));
    assert_eq!(reason(&gateway, "first"), "near_limit");
    gateway.client().chat(Pair::MODEL).expect(200);
    assert_eq!((first.asked_for(CHAT).len(), second.asked_for(CHAT).len()), (2, 1));
    // It is still known after a restart.
    gateway.signal("TERM");
    gateway.wait_for_exit();
    let gateway = gateway.restart();
    assert_eq!(windows(&gateway, "first")[0]["usedPercent"], 95);
    gateway.client().chat(Pair::MODEL).expect(200);
    assert_eq!((first.asked_for(CHAT).len(), second.asked_for(CHAT).len()), (2, 2));
    // It is ordered last, not excluded: no other account can serve.
    second.answer(CHAT, Reply::error(500, "out of order"));
    gateway.client().chat(Pair::MODEL).expect(200);
    assert_eq!(first.asked_for(CHAT).len(), 3);
    first.answer(CHAT, with_left("90"));
    gateway.client().chat(Pair::MODEL).expect(200);
    assert_eq!(windows(&gateway, "first")[0]["usedPercent"], 10, "the newest counts");
}

#[test]
fn an_account_near_a_limit_gives_way_to_a_less_preferred_priority_and_to_no_session() {
    let pair = Pair::start();
    let second = pair.channel("second");
    pair.gateway.admin().put(&format!("/api/channels/{}", second["id"]), &json!({"priority": 7})).expect(200);
    pair.first.answer(CHAT, with_left("1"));
    let ask = || {
        let body = json!({"model": Pair::MODEL, "prompt_cache_key": "one", "messages": [{"role": "user", "content": "a"}]});
        pair.gateway.client().send(Request::post(CHAT).json(&body)).expect(200);
        (pair.first.asked_for(CHAT).len(), pair.second.asked_for(CHAT).len())
    };
    assert_eq!(ask(), (1, 0));
    assert_eq!(ask(), (1, 1), "neither its priority nor the conversation that it had keeps it first");
}

#[test]
fn nobody_gives_way_where_the_operator_does_not_want_it() {
    let pair = Pair::with(&[("ACCOUNT_LIMIT_AVOID_PERCENT", "0")]);
    pair.first.answer(CHAT, with_left("0"));
    for _ in 0..2 {
        pair.gateway.client().chat(Pair::MODEL).expect(200);
    }
    assert_eq!((pair.first.asked_for(CHAT).len(), pair.second.asked_for(CHAT).len()), (2, 0));
    assert_eq!(windows(&pair.gateway, "first")[0]["usedPercent"], 100);
}

#[test]
fn a_used_up_login_of_codex_tells_its_windows_and_until_when() {
    let (first, second) = (codex(), codex());
    let logins = [Login::new("codex", &first).named("first"), Login::new("codex", &second).named("second")];
    let gateway = Gateway::with_logins(Setup::default(), MODEL, &logins);
    let used_up = json!({"error": {"type": "usage_limit_reached", "message": "The usage limit has been reached",
        "resets_in_seconds": 7200}});
    let refusal = Reply::json(429, &used_up)
        .header("x-codex-primary-used-percent", "100")
        .header("x-codex-primary-window-minutes", "300")
        .header("x-codex-primary-reset-after-seconds", "7200")
        .header("x-codex-secondary-used-percent", "37.5")
        .header("x-codex-secondary-window-minutes", "10080");
    first.answer(CODEX, refusal);
    gateway.client().chat(MODEL).expect(200);
    let told = windows(&gateway, "first");
    let named: Vec<_> =
        told.as_array().expect("windows").iter().map(|w| (&w["name"], &w["usedPercent"])).collect();
    assert_eq!(named, [(&json!("5h"), &json!(100)), (&json!("7d"), &json!(37.5))]);
    let channels = gateway.channels(MODEL);
    let channel = channels.iter().find(|channel| channel["site"]["name"] == "first").expect("a channel");
    assert!((7000..=7200).contains(&seconds_ahead(&channel["limitedUntil"])), "{channel}");
    // The limits that a subscription of Claude reports are read at any site.
    let answer = Reply::events(wire::response_events(MODEL))
        .header("anthropic-ratelimit-unified-5h-utilization", "0.25")
        .header("anthropic-ratelimit-unified-5h-reset", "4102444800");
    second.answer(CODEX, answer);
    gateway.client().chat(MODEL).expect(200);
    assert_eq!(windows(&gateway, "second")[0]["usedPercent"], 25);
}
