//! The tokens of connected accounts: renewed once for all requests that need it, and never lost.

use std::thread;

use serde_json::{Value, json};

use crate::support::{Answer, Caller, Gate, Gateway, Provider, Reply, Request, Setup, eventually};

const MODEL: &str = "model-connected";
/// The account's first tokens.
const ACCESS: &str = "access-token-of-the-login";
const REFRESH: &str = "refresh-token-of-the-login";
const HOUR: i64 = 3600;

fn now_ms() -> i64 {
    std::time::SystemTime::UNIX_EPOCH.elapsed().expect("a clock after 1970").as_millis() as i64
}

/// Starts a gateway with a connected codex account whose access token ends in this many seconds.
fn connected(provider: &Provider, ends_in: i64) -> Gateway {
    connected_in(Setup::default(), provider, ends_in)
}

fn connected_in(setup: Setup, provider: &Provider, ends_in: i64) -> Gateway {
    let gateway = provider.setup(setup).start();
    gateway.add_codex(provider, MODEL);
    with_login(gateway, provider, ends_in)
}

/// Starts a gateway with a connected account at a site of this platform.
fn connected_to(platform: &str, provider: &Provider) -> Gateway {
    let gateway = provider.setup(Setup::default()).start();
    let site = json!({"name": "site", "platform": platform, "url": provider.url()});
    let site = gateway.create_site(&site);
    let account = json!({"siteId": site["id"], "accessToken": "sk-before-the-login", "credentialMode": "apikey",
        "skipModelFetch": true});
    let account = gateway.admin().post("/api/accounts", &account).expect(200);
    let models = format!("/api/accounts/{}/models/manual", account["id"]);
    gateway.admin().post(&models, &json!({"models": [MODEL]})).expect(200);
    gateway.wait_for_channels(MODEL, 1);
    with_login(gateway, provider, 200 * HOUR)
}

/// Gives the gateway's account a login.
fn with_login(mut gateway: Gateway, provider: &Provider, ends_in: i64) -> Gateway {
    provider.book().access.push(ACCESS.to_owned());
    provider.book().refresh.push(REFRESH.to_owned());
    gateway.kill();
    let sql = "UPDATE accounts SET oauth_provider = 'codex', oauth_account_key = 'account-of-ada', \
               credential_mode = 'session', api_token = NULL, access_token = ?, refresh_token = ?, \
               token_expires_at = ?";
    let database = gateway.home().database();
    database.execute(sql, &[&ACCESS, &REFRESH, &(now_ms() + ends_in * 1000)]);
    gateway.restart()
}

fn ask(gateway: &Gateway) -> Answer {
    gateway.client().send(question())
}

fn question() -> Request {
    Request::post("/v1/responses").json(&json!({"model": MODEL, "stream": true, "input": "Which way?"}))
}

fn account(gateway: &Gateway) -> Value {
    gateway.admin().get("/api/accounts?refresh=1").expect(200)["accounts"][0].clone()
}

fn clear_cooldown(gateway: &Gateway) {
    let path = format!("/api/accounts/{}/clear-cooldown", account(gateway)["id"]);
    gateway.admin().post(&path, &json!({})).expect(200);
}

fn expiries(gateway: &Gateway) -> usize {
    told(gateway, "Session expired")
}

/// Returns how many events have this title.
fn told(gateway: &Gateway, title: &str) -> usize {
    let events = gateway.admin().get("/api/events?limit=100").expect(200);
    let events = events.as_array().expect("events").clone();
    events.iter().filter(|event| event["title"] == title).count()
}

#[test]
fn ten_parallel_requests_on_an_expired_token_make_one_renewal() {
    let provider = Provider::start("codex", &[MODEL]);
    let gateway = connected(&provider, 200 * HOUR);
    assert_eq!(ask(&gateway).status, 200);
    assert_eq!(provider.book().refreshes, 0, "the token is good");
    provider.end_access();
    thread::scope(|scope| {
        let asks: Vec<_> = (0..10).map(|_| scope.spawn(|| ask(&gateway).status)).collect();
        for ask in asks {
            assert_eq!(ask.join().expect("no panic"), 200);
        }
    });
    assert_eq!(provider.book().refreshes, 1);
    assert_eq!(ask(&gateway).status, 200, "the channel does not cool");
    let account = account(&gateway);
    assert_eq!((&account["status"], &account["oauthProvider"]), (&json!("active"), &json!("codex")));
}

#[test]
fn a_socket_for_speech_is_asked_for_again_with_a_renewed_token() {
    let provider = Provider::start("codex", &[MODEL]);
    // Codex itself has no such sockets; a site of the OpenAI platform in front of it may have them.
    let gateway = connected_to("openai", &provider);
    provider.end_access();
    // The stub opens no socket: the request it receives is enough.
    let ask = Caller::socket_ask(&format!("/v1/realtime?model={MODEL}"));
    assert!(gateway.client().try_socket(ask).is_err());
    let asked = provider.asked_for("/v1/realtime");
    let tokens: Vec<_> = asked.iter().map(|asked| asked.header("authorization").expect("a token")).collect();
    assert_eq!((tokens.len(), provider.book().refreshes), (2, 1), "{tokens:?}");
    assert!(tokens[0] == format!("Bearer {ACCESS}") && tokens[1] != tokens[0], "{tokens:?}");
}

#[test]
fn what_an_upstream_keeps_is_asked_for_again_with_a_renewed_token() {
    let response = json!({"id": "resp_up1", "object": "response", "status": "queued", "background": true,
        "model": MODEL, "output": [], "error": null, "usage": null});
    let batch = json!({"id": "msgbatch_up1", "type": "message_batch", "processing_status": "in_progress",
        "results_url": null});
    let params =
        json!({"model": MODEL, "max_tokens": 9, "messages": [{"role": "user", "content": "Which way?"}]});
    for (platform, path, ask, made) in [
        (
            "openai",
            "/v1/responses",
            json!({"model": MODEL, "input": "Which way?", "background": true}),
            response,
        ),
        (
            "claude",
            "/v1/messages/batches",
            json!({"requests": [{"custom_id": "r1", "params": params}]}),
            batch,
        ),
    ] {
        let provider = Provider::start("codex", &[MODEL]);
        let gateway = connected_to(platform, &provider);
        let there = format!("{path}/{}", made["id"].as_str().expect("an id"));
        provider.answer(path, Reply::json(200, &made));
        provider.answer(&there, Reply::json(200, &made));
        let id = gateway.client().post(path, &ask).expect(200)["id"].clone();
        let here = format!("{path}/{}", id.as_str().expect("an id"));
        let error = json!({"type": "authentication_error", "message": "OAuth token has expired"});
        provider.answer_once(&there, Reply::json(401, &json!({ "error": error })));
        assert_eq!(gateway.client().get(&here).expect(200)["id"], id);
        let asked = provider.asked_for(&there);
        let tokens: Vec<_> =
            asked.iter().map(|asked| asked.header("authorization").expect("a token")).collect();
        assert_eq!((tokens.len(), provider.book().refreshes), (2, 1), "{tokens:?}");
        assert!(tokens[0] == format!("Bearer {ACCESS}") && tokens[1] != tokens[0], "{tokens:?}");
        let beta = (platform == "claude").then_some("oauth-2025-04-20");
        assert!(asked.iter().all(|asked| asked.header("anthropic-beta") == beta), "{platform}");
        // Without a new token, the upstream's answer stands.
        provider.revoke();
        provider.answer(&there, Reply::json(401, &json!({ "error": error })));
        gateway.client().get(&here).expect(502);
        assert_eq!(provider.asked_for(&there).len(), 3);
    }
}

#[test]
fn a_token_that_ends_soon_is_renewed_before_it_is_refused() {
    let provider = Provider::start("codex", &[MODEL]);
    let gateway = connected(&provider, 60);
    eventually("the token is renewed", || (provider.book().refreshes == 1).then_some(()));
    let first = &provider.asked_for("/token")[0];
    assert!(String::from_utf8_lossy(&first.body).contains(REFRESH));
    // The request may come between the answer and its commit: the old token is still valid then.
    assert_eq!(ask(&gateway).status, 200);
    // The old token ends in a minute, the new one in an hour.
    let soon = now_ms() + 600_000;
    let ends = "SELECT token_expires_at FROM accounts";
    eventually("the new token is stored", || (gateway.home().database().number(ends) > soon).then_some(()));
    let gateway = gateway.restart();
    assert_eq!(ask(&gateway).status, 200);
    assert_eq!(provider.book().refreshes, 1, "the new token is not due");
}

/// Repeated as often as `KILL_ROUNDS` says, for a longer run by hand.
#[test]
fn a_kill_between_the_answer_of_the_provider_and_the_first_use_loses_no_token() {
    let rounds = std::env::var("KILL_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(3);
    let provider = Provider::start("codex", &[MODEL]);
    let mut gateway = connected(&provider, 200 * HOUR);
    for round in 1..=rounds {
        provider.end_access();
        // The token endpoint answers at once; the request that would use the new token is never answered.
        let gate = Gate::new();
        let refused = Reply::json(401, &json!({"error": {"code": "token_expired", "message": "expired"}}));
        provider.answer("/responses", Reply::json(200, &json!({})).head_waits_for(&gate));
        provider.answer_once("/responses", refused);
        let asked_before = provider.asked_for("/responses").len();
        let client = gateway.client();
        let asking = thread::spawn(move || client.try_send(question()).is_ok());
        eventually("the new token is used", || {
            (provider.asked_for("/responses").len() == asked_before + 2).then_some(())
        });
        gateway = gateway.restart();
        assert!(!asking.join().expect("no panic"), "killed before it could answer");
        gate.open();
        provider.answer_faithfully();
        assert_eq!(ask(&gateway).status, 200);
        assert_eq!(provider.book().refreshes, round, "the token of before the kill is known");
        // The next round checks the refresh token that came with it, too.
    }
}

#[test]
fn the_stop_waits_for_a_renewal_under_way() {
    let provider = Provider::start("codex", &[MODEL]);
    let setup = Setup::default().with("SHUTDOWN_GRACE_SEC", "1");
    let mut gateway = connected_in(setup, &provider, 200 * HOUR);
    provider.end_access();
    let gate = Gate::new();
    let answer = json!({"access_token": "access-of-the-stop", "refresh_token": "refresh-of-the-stop",
        "expires_in": 864_000, "token_type": "Bearer"});
    provider.answer_once("/token", Reply::json(200, &answer).head_waits_for(&gate));
    provider.book().access.push("access-of-the-stop".to_owned());
    let client = gateway.client();
    let asking = thread::spawn(move || client.try_send(question()).ok().map(|answer| answer.status));
    eventually("the renewal is under way", || (!provider.asked_for("/token").is_empty()).then_some(()));
    gateway.signal("TERM");
    gateway.wait_for_output("were cut off at the end of the grace period");
    assert_eq!(asking.join().expect("no panic"), Some(503), "its caller is answered");
    assert!(gateway.is_running(), "the token that comes is not lost");
    gate.open();
    assert!(gateway.wait_for_exit().success());
    let gateway = gateway.restart();
    assert_eq!(ask(&gateway).status, 200);
    assert_eq!(provider.asked_for("/token").len(), 1, "the new token was stored");
}

#[test]
fn no_renewal_is_begun_on_a_full_disk() {
    let provider = Provider::start("codex", &[MODEL]);
    let gateway = connected_in(Setup::default().on_sqlite(), &provider, 200 * HOUR);
    provider.end_access();
    gateway.limit_file_size("1");
    assert_eq!(ask(&gateway).status, 502);
    gateway.wait_for_output("could not be renewed: the disk is full");
    assert!(provider.asked_for("/token").is_empty(), "its answer could not be stored");
    gateway.limit_file_size("unlimited");
    clear_cooldown(&gateway);
    assert_eq!(ask(&gateway).status, 200);
    assert_eq!(provider.book().refreshes, 1);
}

#[test]
fn a_token_that_comes_while_the_disk_is_full_is_stored_once_there_is_room() {
    let provider = Provider::start("codex", &[MODEL]);
    let gateway = connected_in(Setup::default().on_sqlite(), &provider, 200 * HOUR);
    provider.end_access();
    let gate = Gate::new();
    let answer = json!({"access_token": "access-without-room", "refresh_token": "refresh-without-room",
        "expires_in": 864_000, "token_type": "Bearer"});
    provider.answer_once("/token", Reply::json(200, &answer).head_waits_for(&gate));
    provider.book().access.push("access-without-room".to_owned());
    let client = gateway.client();
    let asking = thread::spawn(move || client.send(question()).status);
    eventually("the renewal is under way", || (!provider.asked_for("/token").is_empty()).then_some(()));
    gateway.limit_file_size("1");
    gate.open();
    eventually("storing it was tried more often than after another error", || {
        (gateway.output().matches("is not stored yet: the disk is full").count() > 5).then_some(())
    });
    gateway.limit_file_size("unlimited");
    assert_eq!(asking.join().expect("no panic"), 200);
    let gateway = gateway.restart();
    assert_eq!(ask(&gateway).status, 200);
    assert_eq!(provider.asked_for("/token").len(), 1, "the new token was stored");
}

/// A login or an import may give the account another token while the old one is being renewed.
#[test]
fn a_renewal_that_comes_after_an_import_lets_the_request_use_the_imported_token() {
    let provider = Provider::start("codex", &[MODEL]);
    let gateway = connected(&provider, 200 * HOUR);
    let late = json!({"access_token": "access-that-is-late", "refresh_token": "refresh-that-is-late",
        "expires_in": 3600, "token_type": "Bearer"});
    let refusal = json!({"error": "invalid_grant", "error_description": "The grant is revoked"});
    for (round, answer) in [Reply::json(200, &late), Reply::json(400, &refusal)].into_iter().enumerate() {
        provider.end_access();
        let gate = Gate::new();
        provider.answer_once("/token", answer.head_waits_for(&gate));
        let client = gateway.client();
        let asking = thread::spawn(move || client.send(question()).status);
        eventually("the renewal is under way", || {
            (provider.asked_for("/token").len() == round + 1).then_some(())
        });
        let access = format!("access-of-import-{round}");
        provider.book().access.push(access.clone());
        let file = json!({"data": {"type": "codex", "access_token": access, "refresh_token": "refresh-of-the-import",
            "account_id": "account-of-ada"}});
        gateway.admin().post("/api/oauth/import", &file).expect(200);
        gate.open();
        assert_eq!(asking.join().expect("no panic"), 200);
        assert_eq!(ask(&gateway).status, 200, "the channel does not cool");
        assert_eq!(account(&gateway)["status"], "active");
    }
}

#[test]
fn a_revoked_grant_expires_the_account_with_one_alert_and_is_not_tried_again() {
    let provider = Provider::start("codex", &[MODEL]);
    let gateway = connected(&provider, 200 * HOUR);
    provider.revoke();
    thread::scope(|scope| {
        let asks: Vec<_> = (0..5).map(|_| scope.spawn(|| ask(&gateway))).collect();
        for ask in asks {
            // The upstream's refusal, or no channel left to ask.
            let status = ask.join().expect("no panic").status;
            assert!(matches!(status, 502 | 503), "{status}");
        }
    });
    let account = account(&gateway);
    assert_eq!(account["status"], "expired");
    assert_eq!((expiries(&gateway), told(&gateway, "Token expired")), (1, 0));
    assert_eq!(provider.asked_for("/token").len(), 1);
    let path = format!("/api/oauth/connections/{}/quota/refresh", account["id"]);
    let read = gateway.admin().post(&path, &json!({})).expect(200);
    assert_eq!(read["quota"]["status"], "error", "{read}");
    assert_eq!(provider.asked_for("/token").len(), 1, "only another login helps");
    let told = gateway.output();
    assert!(!told.contains(REFRESH) && !told.contains(ACCESS), "{told}");
}

#[test]
fn a_bare_refusal_of_the_token_endpoint_expires_the_account_and_one_that_has_another_reason_does_not() {
    let bare = |status| Reply::bytes(status, "text/plain", "");
    let named = |status, error: &str| Reply::json(status, &json!({ "error": error }));
    for (reply, status) in [
        (bare(400), "expired"),
        (bare(401), "expired"),
        (Reply::bytes(400, "text/html", "<h1>Bad request</h1>"), "expired"),
        (Reply::json(401, &json!({"detail": "no"})), "expired"),
        (named(400, "invalid_grant"), "expired"),
        (named(400, "invalid_client"), "active"),
        (named(401, "temporarily_unavailable"), "active"),
        (bare(403), "active"),
        (bare(429), "active"),
        (bare(503), "active"),
    ] {
        let provider = Provider::start("codex", &[MODEL]);
        let gateway = connected(&provider, 200 * HOUR);
        provider.end_access();
        provider.answer("/token", reply);
        assert_eq!(ask(&gateway).status, 502);
        let asked = String::from_utf8_lossy(&provider.asked_for("/token")[0].body).into_owned();
        assert!(asked.contains(REFRESH), "{asked}");
        assert_eq!(account(&gateway)["status"], status);
        assert_eq!(expiries(&gateway), usize::from(status == "expired"));
    }
}

#[test]
fn a_failed_renewal_keeps_the_upstreams_answer_and_waits_before_the_next() {
    let provider = Provider::start("codex", &[MODEL]);
    let gateway = connected(&provider, 200 * HOUR);
    provider.end_access();
    provider.answer("/token", Reply::json(500, &json!({"error": "server_error"})));
    let answer = ask(&gateway);
    assert_eq!(answer.status, 502);
    assert!(answer.text().contains("Invalid authentication credentials"), "{}", answer.text());
    let account = account(&gateway);
    assert_eq!(account["status"], "active");
    assert_eq!(expiries(&gateway), 0);
    let path = format!("/api/oauth/connections/{}/quota/refresh", account["id"]);
    gateway.admin().post(&path, &json!({})).expect(200);
    assert_eq!(provider.asked_for("/token").len(), 1);
}

#[test]
fn a_refusal_that_is_about_the_plan_renews_no_token() {
    let provider = Provider::start("codex", &[MODEL]);
    let gateway = connected(&provider, 200 * HOUR);
    let of_plan = json!({"error": {"message": "The model is not included in your plan"}});
    provider.answer_once("/responses", Reply::json(403, &of_plan));
    assert_eq!(ask(&gateway).status, 502);
    assert_eq!(provider.book().refreshes, 0);
}

#[test]
fn a_refusal_that_names_the_token_renews_it_once() {
    let provider = Provider::start("codex", &[MODEL]);
    let gateway = connected(&provider, 200 * HOUR);
    let of_token = json!({"error": {"message": "Your authentication token has been invalidated"}});
    provider.answer_once("/responses", Reply::json(403, &of_token));
    assert_eq!(ask(&gateway).status, 200);
    assert_eq!(provider.book().refreshes, 1);
    // The new token is valid: a further refusal has another reason.
    provider.answer_once("/responses", Reply::json(403, &of_token));
    assert_eq!(ask(&gateway).status, 502);
    assert_eq!(provider.book().refreshes, 1);
}
