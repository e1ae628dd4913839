//! Clients of sites that answer in literal bytes: the ways to sign in, the shapes that are read, and the errors for an
//! answer that is none of them.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::AsyncWriteExt;

use super::{Upstream, client, read_request, within};
use crate::money::Usd;
use crate::platform::Platform;
use crate::routing::{BaseUrl, Secret};
use crate::upstream::FetchLimits;
use crate::upstream::platforms::{
    Identity, MANAGEMENT_LIMITS, NewSiteKey, Role, SessionModels, SiteClient, SiteError, SiteErrorKind,
    TakenFor, list_models,
};

/// Identifies a credential that lists models, where it is a key, at the site's own address.
pub(super) async fn identify(site_client: &SiteClient) -> Result<Identity, SiteError> {
    let (client, key) = (client(), site_client.session.as_ref().expect("a credential"));
    let SiteClient { base, platform, limits, .. } = site_client;
    let listed = list_models(&client, base, *platform, key.expose(), &[], *limits);
    let taken_for = if key.expose().starts_with("sk-") { TakenFor::Key } else { TakenFor::Either };
    site_client.identify(&client, taken_for, listed).await
}

/// A site that answers by method and path, and with a 404 like the family's where it has no answer.
pub(super) struct Stub {
    upstream: Upstream,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Stub {
    pub(super) async fn start(answers: &[(&str, u16, &str)]) -> Self {
        Self::with(move |_| None, answers).await
    }

    /// Starts a site whose `gate` looks at each request first: what it returns is the answer.
    pub(super) async fn with(
        gate: impl Fn(&str) -> Option<(u16, String)> + Send + Sync + 'static,
        answers: &[(&str, u16, &str)],
    ) -> Self {
        let answers: Vec<(String, u16, String)> = answers
            .iter()
            .map(|(call, status, body)| ((*call).to_owned(), *status, (*body).to_owned()))
            .collect();
        let (answers, gate) = (Arc::new(answers), Arc::new(gate));
        let asked = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&asked);
        let upstream = Upstream::start(move |mut stream, _| {
            let (answers, gate, seen) = (Arc::clone(&answers), Arc::clone(&gate), Arc::clone(&seen));
            async move {
                while let Some(request) = read_request(&mut stream).await {
                    let call = request.split(" HTTP/1.1").next().unwrap_or_default().to_owned();
                    seen.lock().expect("no panic there").push(request.clone());
                    let (status, body) = gate(&request).unwrap_or_else(|| {
                        let found = answers.iter().find(|(known, ..)| *known == call);
                        found.map_or_else(
                            || (404, format!(r#"{{"error":{{"message":"Invalid URL ({call})"}}}}"#)),
                            |(_, status, body)| (*status, body.clone()),
                        )
                    });
                    let answer =
                        format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\n\r\n{body}", body.len());
                    let _ = stream.write_all(answer.as_bytes()).await;
                }
            }
        })
        .await;
        Self { upstream, asked }
    }

    pub(super) fn site_client(&self, platform: Platform, session: &str) -> SiteClient {
        let address = format!("http://127.0.0.1:{}", self.upstream.port);
        let base = BaseUrl::parse(&address, None).expect("a base address");
        SiteClient::new(platform, base, Some(Secret::from(session)))
    }

    /// Returns the calls so far, each as `METHOD /path`.
    pub(super) fn calls(&self) -> Vec<String> {
        let asked = self.asked.lock().expect("no panic there");
        asked.iter().map(|request| request.split(" HTTP/1.1").next().unwrap_or_default().to_owned()).collect()
    }

    pub(super) fn asked(&self) -> Vec<String> {
        self.asked.lock().expect("no panic there").clone()
    }
}

const SELF: &str = r#"{"success":true,"message":"","data":{"id":7659,"username":"ada","display_name":"Ada","role":1,"status":1,"email":"","group":"default","quota":1500000,"used_quota":250000,"request_count":42}}"#;
const STATUS: &str =
    r#"{"success":true,"message":"","data":{"system_name":"Relay","quota_per_unit":500000}}"#;
const ABSENT: &str = r#"{"success":false,"message":"无权进行此操作，未提供 New-Api-User"}"#;

#[tokio::test]
async fn the_minimal_bodies_give_the_printed_amounts() {
    let family = [("GET /api/user/self", 200, SELF), ("GET /api/status", 200, STATUS)];
    for platform in [
        Platform::NewApi,
        Platform::AnyRouter,
        Platform::OneApi,
        Platform::OneHub,
        Platform::DoneHub,
        Platform::Veloera,
    ] {
        let stub = Stub::start(&family).await;
        let site_client = stub.site_client(platform, "pat");
        let balance = within(site_client.balance(&client())).await.expect("a balance");
        assert_eq!(
            (balance.balance, balance.used, balance.quota),
            (Usd::new(3.0), Usd::new(0.5), Usd::new(3.5)),
            "{platform}"
        );
        let user = within(site_client.user(&client())).await.expect("a user");
        assert_eq!((user.id, user.username.as_str()), (Some(7659), "ada"));
        assert_eq!((user.email, user.role), (None, Some(Role::Number(1))));
    }
    let me = r#"{"code":0,"message":"success","data":{"id":5,"email":"ada@example.com","username":"","role":"user","balance":12.5,"concurrency":5,"status":"active"}}"#;
    let stub = Stub::start(&[("GET /api/v1/auth/me", 200, me)]).await;
    let site_client = stub.site_client(Platform::Sub2Api, "a.b.c");
    let balance = within(site_client.balance(&client())).await.expect("a balance");
    assert_eq!(
        (balance.balance, balance.used, balance.quota),
        (Usd::new(12.5), Usd::new(0.0), Usd::new(12.5))
    );
    assert_eq!(within(site_client.user(&client())).await.expect("a user").username, "ada");
}

#[tokio::test]
async fn numbers_written_as_text_count_and_a_byte_order_mark_does_not() {
    let own = "\u{feff}{\"success\":true,\"data\":{\"id\":\"7659\",\"quota\":\"1500000\",\"used_quota\":\" 250000 \"}}";
    let status = r#"{"success":true,"data":{"quota_per_unit":"500000"}}"#;
    let stub = Stub::start(&[("GET /api/user/self", 200, own), ("GET /api/status", 200, status)]).await;
    let site_client = stub.site_client(Platform::NewApi, "pat");
    let balance = within(site_client.balance(&client())).await.expect("a balance");
    assert_eq!((balance.balance, balance.used, balance.quota), (Usd::new(3.0), Usd::new(0.5), Usd::new(3.5)));
    assert_eq!(within(site_client.user(&client())).await.expect("a user").id, Some(7659));
    let me = r#"{"code":0,"data":{"id":"5","email":"ada@example.com","balance":"12.5"}}"#;
    let stub = Stub::start(&[("GET /api/v1/auth/me", 200, me)]).await;
    let site_client = stub.site_client(Platform::Sub2Api, "a.b.c");
    assert_eq!(within(site_client.balance(&client())).await.expect("a balance").balance, Usd::new(12.5));
    for nonsense in ["\"\"", "\"NaN\"", "\"many\"", "null", "true"] {
        let own = format!(r#"{{"success":true,"data":{{"id":7659,"quota":{nonsense}}}}}"#);
        let stub = Stub::start(&[("GET /api/user/self", 200, &own), ("GET /api/status", 200, STATUS)]).await;
        let error = within(stub.site_client(Platform::NewApi, "pat").balance(&client())).await;
        assert_eq!(error.expect_err(nonsense).kind, SiteErrorKind::Malformed, "{nonsense}");
    }
}

#[tokio::test]
async fn a_sites_own_unit_is_asked_for_once() {
    let status = r#"{"success":true,"data":{"quota_per_unit":1000000}}"#;
    let stub = Stub::start(&[("GET /api/user/self", 200, SELF), ("GET /api/status", 200, status)]).await;
    let site_client = stub.site_client(Platform::NewApi, "pat");
    for _ in 0..3 {
        assert_eq!(within(site_client.balance(&client())).await.expect("a balance").balance, Usd::new(1.5));
    }
    assert_eq!(stub.calls().iter().filter(|call| *call == "GET /api/status").count(), 1);
}

#[tokio::test]
async fn a_failure_has_its_kind_and_is_never_an_empty_answer() {
    use SiteErrorKind::*;
    let flood = "x".repeat(2 << 20);
    for (status, body, kind) in [
        (502, "<html><head><title>502 Bad Gateway</title></head></html>", Failed),
        (502, "bad gateway", Failed),
        (429, r#"{"message":"slow down"}"#, Failed),
        (200, "<!doctype html><title>Relay</title><div id=root>", Malformed),
        (200, "<html><script>var arg1='B8B7';</script></html>", Shield),
        (200, r#"{"success":true,"data":{"id":7,"quo"#, Malformed),
        (200, "17", Malformed),
        (200, "", Malformed),
        (200, r#"{"success":true,"data":null}"#, Malformed),
        (200, r#"{"success":true,"data":{"id":7}}"#, Malformed),
        (200, flood.as_str(), Malformed),
        (401, r#"{"code":"AUTH_SESSION_REVOKED","message":"session revoked"}"#, Expired),
        (401, r#"{"message":"nope"}"#, Expired),
        (200, r#"{"success":false,"message":"无权进行此操作，access token 无效"}"#, Expired),
        (401, r#"{"success":false,"message":"无权进行此操作，未登录且未提供 access token"}"#, Refused),
        (401, ABSENT, NeedsUserId),
        (
            401,
            r#"{"success":false,"message":"无权进行此操作，New-Api-User 与登录用户不匹配"}"#,
            InvalidUserId,
        ),
        (200, r#"{"success":false,"message":"用户已被封禁"}"#, Refused),
        (403, r#"{"message":"forbidden"}"#, Refused),
        (404, r#"{"error":{"message":"Invalid URL (GET /api/user/self)"}}"#, Missing),
    ] {
        let stub =
            Stub::start(&[("GET /api/user/self", status, body), ("GET /api/status", 200, STATUS)]).await;
        let site_client = stub.site_client(Platform::NewApi, "pat-of-ada");
        let error = within(site_client.balance(&client())).await.expect_err(body);
        assert_eq!(error.kind, kind, "{status} {} gives {error:?}", &body[..body.len().min(80)]);
        assert!(!error.message.is_empty() && error.message.len() < 1500, "{error}");
    }
}

#[tokio::test]
async fn a_silence_a_break_and_a_closed_port_have_their_kinds() {
    let silent = Upstream::start(|stream, _| async move {
        std::future::pending::<()>().await;
        drop(stream);
    })
    .await;
    let broken = Upstream::always("HTTP/1.1 200 OK\r\ncontent-length: 500\r\n\r\n{\"success\":").await;
    let cut = Upstream::once("HTTP/1.1 200 OK\r\ncontent-length: 500\r\n\r\n{\"success\":").await;
    let stub = Stub::start(&[]).await;
    let limits = FetchLimits { timeout: Duration::from_millis(200), ..MANAGEMENT_LIMITS };
    for (upstream, kind, limits) in [
        (&silent, SiteErrorKind::Timeout, limits),
        (&broken, SiteErrorKind::Timeout, limits),
        (&cut, SiteErrorKind::Unreachable, MANAGEMENT_LIMITS),
    ] {
        let site_client =
            SiteClient { base: upstream.base.clone(), limits, ..stub.site_client(Platform::NewApi, "pat") };
        for error in [
            within(site_client.balance(&client())).await.expect_err("no balance"),
            within(site_client.check_in(&client())).await.expect_err("no check-in"),
            within(site_client.keys(&client())).await.expect_err("no keys"),
            within(site_client.groups(&client())).await.expect_err("no groups"),
            within(site_client.announcements(&client())).await.expect_err("no announcements"),
        ] {
            assert_eq!(error.kind, kind, "{error}");
        }
    }
    let nobody = BaseUrl::parse("http://127.0.0.1:1", None).expect("a base address");
    let site_client = SiteClient { base: nobody, ..stub.site_client(Platform::NewApi, "pat") };
    assert_eq!(
        within(site_client.user(&client())).await.expect_err("nobody").kind,
        SiteErrorKind::Unreachable
    );
}

#[tokio::test]
async fn a_cookie_session_is_let_in_and_remembered() {
    let gate = |request: &str| {
        let lower = request.to_ascii_lowercase();
        let is_in = lower.contains("cookie: session=raw-cookie\r\n") || lower.contains("/api/status");
        (!is_in).then(|| {
            (401, r#"{"success":false,"message":"无权进行此操作，未登录且未提供 access token"}"#.into())
        })
    };
    let stub = Stub::with(gate, &[("GET /api/user/self", 200, SELF), ("GET /api/status", 200, STATUS)]).await;
    let site_client = stub.site_client(Platform::NewApi, "raw-cookie");
    within(site_client.balance(&client())).await.expect("let in by cookie");
    let before = stub.calls().len();
    within(site_client.balance(&client())).await.expect("let in by cookie");
    assert_eq!(stub.calls().len(), before + 1, "no detour the second time");
}

#[tokio::test]
async fn the_number_is_found_out_and_only_a_confirmed_one_counts() {
    let gate = |request: &str| {
        let lower = request.to_ascii_lowercase();
        if lower.contains("/api/status") || lower.contains("new-api-user: 7659\r\n") {
            return None;
        }
        Some((401, ABSENT.to_owned()))
    };
    let answers = [("GET /api/user/self", 200, SELF), ("GET /api/status", 200, STATUS)];
    let stub = Stub::with(gate, &answers).await;
    let named =
        SiteClient { username: Some("linuxdo_7659".into()), ..stub.site_client(Platform::NewApi, "pat") };
    assert_eq!(within(named.user(&client())).await.expect("found").id, Some(7659));
    // Nothing suggests a number: one question, no attempts at random.
    let stub = Stub::with(gate, &answers).await;
    let unnamed = stub.site_client(Platform::NewApi, "pat");
    let error = within(unnamed.user(&client())).await.expect_err("no number");
    assert_eq!(error.kind, SiteErrorKind::NeedsUserId);
    assert!(stub.calls().len() <= 3, "{:?}", stub.calls());
}

#[tokio::test]
async fn check_ins_are_read_in_every_form() {
    let won =
        r#"{"success":true,"message":"签到成功","data":{"quota_awarded":12500,"checkin_date":"2026-03-01"}}"#;
    let again = r#"{"success":false,"message":"今日已签到"}"#;
    let off = r#"{"success":false,"message":"签到功能未启用"}"#;
    let riddle = r#"{"success":false,"message":"Turnstile token 为空"}"#;
    for (body, outcome) in [
        (won, Ok(Some(0.025))),
        (again, Err("今日已签到")),
        (off, Err("签到功能未启用")),
        (riddle, Err("Turnstile token 为空")),
    ] {
        let stub =
            Stub::start(&[("POST /api/user/checkin", 200, body), ("GET /api/status", 200, STATUS)]).await;
        let done = within(stub.site_client(Platform::NewApi, "pat").check_in(&client())).await;
        let done = done.map(|done| done.reward).map_err(|error| error.message);
        assert_eq!(done, outcome.map(|reward| reward.map(Usd::new)).map_err(str::to_owned), "{body}");
        assert!(!stub.calls().contains(&"POST /api/user/sign_in".to_owned()), "understood at once");
    }
    let veloera = r#"{"success":true,"message":"签到成功","data":{"quota":12500}}"#;
    let stub = Stub::start(&[("POST /api/user/check_in", 200, veloera)]).await;
    let done = within(stub.site_client(Platform::Veloera, "pat").check_in(&client())).await.expect("done");
    assert_eq!((done.message.as_str(), done.reward), ("签到成功", Some(Usd::new(0.025))));
    // Older forks: by cookie, on another route.
    let stub = Stub::start(&[("POST /api/user/sign_in", 200, r#"{"success":true,"message":"ok"}"#)]).await;
    let site_client = stub.site_client(Platform::AnyRouter, "session=abc");
    assert_eq!(within(site_client.check_in(&client())).await.expect("done").reward, None);
    let sign_in = &stub.asked()[0];
    assert!(sign_in.contains("x-requested-with: XMLHttpRequest") && sign_in.ends_with("{}"), "{sign_in}");
    // A refusal without a word may mean that the token was not understood.
    let stub = Stub::start(&[
        ("POST /api/user/checkin", 200, r#"{"success":false,"message":""}"#),
        ("POST /api/user/sign_in", 200, r#"{"success":true,"message":"by cookie"}"#),
    ])
    .await;
    let done = within(stub.site_client(Platform::NewApi, "pat").check_in(&client())).await.expect("done");
    assert_eq!(done.message, "by cookie");
}

#[tokio::test]
async fn a_session_that_is_over_does_not_look_unsupported() {
    let missing = Stub::start(&[("GET /api/user/self", 200, SELF)]).await;
    let error = within(missing.site_client(Platform::NewApi, "session=x").check_in(&client())).await;
    let error = error.expect_err("no such route");
    assert_eq!(error.kind, SiteErrorKind::Missing);
    assert!(error.message.contains("Invalid URL (POST /api/user/checkin)"), "{error}");
    let over = r#"{"success":false,"message":"无权进行此操作，access token 无效"}"#;
    let over = Stub::start(&[("GET /api/user/self", 200, over)]).await;
    let error = within(over.site_client(Platform::NewApi, "session=x").check_in(&client())).await;
    assert_eq!(error.expect_err("over").kind, SiteErrorKind::Expired);
}

/// `success` and `data` prove a session, also without an amount.
#[tokio::test]
async fn a_user_without_an_amount_is_one_still() {
    let family = r#"{"success":true,"data":{"id":7659,"username":"ada"}}"#;
    let sub2api = r#"{"code":0,"data":{"id":5,"email":"ada@example.com"}}"#;
    for (platform, path, body) in [
        (Platform::NewApi, "GET /api/user/self", family),
        (Platform::Sub2Api, "GET /api/v1/auth/me", sub2api),
    ] {
        let stub = Stub::start(&[(path, 200, body), ("GET /api/status", 200, STATUS)]).await;
        let site_client = stub.site_client(platform, "pat");
        let identity = within(identify(&site_client)).await.expect("a session");
        let Identity::Session { user, balance, .. } = identity else { panic!("{identity:?}") };
        assert_eq!((user.username.as_str(), balance), ("ada", None));
        let error = within(site_client.balance(&client())).await.expect_err("no amount");
        assert_eq!(error.kind, SiteErrorKind::Malformed);
    }
    let nobody = Stub::start(&[("GET /api/user/self", 200, r#"{"success":true,"data":{}}"#)]).await;
    let error = within(nobody.site_client(Platform::NewApi, "pat").identify_session(&client())).await;
    assert_eq!(error.expect_err("nobody").kind, SiteErrorKind::Malformed);
}

/// A session is no cookie, or the cookie no token: the answer to the wrong guess says nothing.
#[tokio::test]
async fn a_wrong_guess_does_not_end_a_session() {
    const UNKNOWN: &str = r#"{"success":false,"message":"unauthorized","code":"AUTH_UNAUTHORIZED"}"#;
    let by_bearer = |request: &str| request.to_lowercase().contains("\r\nauthorization:");
    for (status, body, kind) in [
        (500, r#"{"success":false,"message":"database is locked"}"#, SiteErrorKind::Failed),
        (429, r#"{"success":false,"message":"slower"}"#, SiteErrorKind::Failed),
        (502, "<html><title>502 Bad Gateway</title></html>", SiteErrorKind::Failed),
        (200, "<html><title>Maintenance</title></html>", SiteErrorKind::Refused),
        (200, UNKNOWN, SiteErrorKind::Expired),
    ] {
        let gate = move |request: &str| {
            let of_user = request.contains(" /api/user/");
            let (status, body) = if by_bearer(request) { (status, body) } else { (401, UNKNOWN) };
            of_user.then(|| (status, body.to_owned()))
        };
        let stub = Stub::with(gate, &[("GET /api/status", 200, STATUS)]).await;
        let site_client = stub.site_client(Platform::NewApi, "pat");
        let error = within(site_client.balance(&client())).await;
        assert_eq!(error.expect_err(body).kind, kind, "{status} {body}");
        let error = within(site_client.check_in(&client())).await;
        assert_eq!(error.expect_err(body).kind, kind, "{status} {body}");
    }
    // The other way round: the text is a cookie, and something kept it from being judged.
    for (status, body, kind) in [
        (503, "{}", SiteErrorKind::Refused),
        (200, "<html><title>Maintenance</title></html>", SiteErrorKind::Refused),
        (200, "<html><script>var arg1='B8B7';</script></html>", SiteErrorKind::Shield),
    ] {
        let gate = move |request: &str| {
            let of_user = request.contains(" /api/user/");
            let (status, body) = if by_bearer(request) { (401, UNKNOWN) } else { (status, body) };
            of_user.then(|| (status, body.to_owned()))
        };
        let stub = Stub::with(gate, &[("GET /api/status", 200, STATUS)]).await;
        let error = within(stub.site_client(Platform::NewApi, "raw-cookie").balance(&client())).await;
        assert_eq!(error.expect_err(body).kind, kind, "{status} {body}");
    }
}

#[tokio::test]
async fn a_token_that_is_let_in_finds_the_check_in_missing_whatever_the_guess_is_told() {
    let gate = |request: &str| {
        let is_asked = request.starts_with("POST /api/user/checkin");
        let by_cookie = request.to_lowercase().contains("\r\ncookie:");
        let nobody = r#"{"success":false,"message":"无权进行此操作，未登录且未提供 access token"}"#;
        (is_asked && by_cookie).then(|| (401, nobody.to_owned()))
    };
    let stub = Stub::with(gate, &[("GET /api/user/self", 200, SELF)]).await;
    let error = within(stub.site_client(Platform::NewApi, "pat").check_in(&client())).await;
    let error = error.expect_err("no such route");
    assert_eq!(error.kind, SiteErrorKind::Missing, "{error}");
}

#[tokio::test]
async fn what_a_platform_cannot_do_it_says_without_asking() {
    let stub = Stub::start(&[]).await;
    for platform in Platform::ALL {
        let can = platform.abilities();
        let site_client = stub.site_client(platform, "pat");
        let before = stub.calls().len();
        let mut refused: Vec<SiteError> = Vec::new();
        if !can.login {
            refused.extend(within(site_client.login(&client(), "ada", "secret")).await.err());
        }
        if !can.user_info {
            refused.extend(within(site_client.user(&client())).await.err());
        }
        if !can.check_in {
            refused.extend(within(site_client.check_in(&client())).await.err());
        }
        if !can.balance {
            refused.extend(within(site_client.balance(&client())).await.err());
        }
        if !can.keys {
            refused.extend(within(site_client.keys(&client())).await.err());
            refused.extend(within(site_client.create_key(&client(), &NewSiteKey::default())).await.err());
            refused.extend(within(site_client.delete_key(&client(), "sk-x")).await.err());
        }
        if !can.announcements {
            refused.extend(within(site_client.announcements(&client())).await.err());
        }
        if !can.groups {
            assert_eq!(within(site_client.groups(&client())).await, Ok(vec!["default".to_owned()]));
        }
        assert!(
            refused.iter().all(|error| error.kind == SiteErrorKind::Unsupported),
            "{platform}: {refused:?}"
        );
        assert_eq!(stub.calls().len(), before, "{platform}");
    }
}

#[tokio::test]
async fn a_text_is_a_key_or_a_session() {
    let models = r#"{"success":true,"object":"list","data":[{"id":"m"}]}"#;
    let invalid = r#"{"error":{"message":"无效的令牌","type":"new_api_error"}}"#;
    let bad = r#"{"success":false,"message":"无权进行此操作，access token 无效"}"#;
    let status = ("GET /api/status", 200, STATUS);
    // A session.
    let stub =
        Stub::start(&[("GET /v1/models", 401, invalid), ("GET /api/user/self", 200, SELF), status]).await;
    let identity = within(identify(&stub.site_client(Platform::NewApi, "pat"))).await.expect("known");
    let Identity::Session { user, balance, api_token } = identity else { panic!("{identity:?}") };
    assert_eq!(
        (user.username.as_str(), balance.map(|b| b.balance), api_token),
        ("ada", Some(Usd::new(3.0)), None)
    );
    // A key.
    let stub =
        Stub::start(&[("GET /v1/models", 200, models), ("GET /api/user/self", 200, bad), status]).await;
    for text in ["sk-key", "key-without-its-prefix"] {
        let identity = within(identify(&stub.site_client(Platform::NewApi, text))).await;
        assert_eq!(identity, Ok(Identity::ApiKey { models: vec!["m".to_owned()] }), "{text}");
    }
    // Neither; and a missing number ends the search although a key would do.
    let stub = Stub::start(&[("GET /v1/models", 401, invalid), ("GET /api/user/self", 200, bad)]).await;
    let error = within(identify(&stub.site_client(Platform::NewApi, "pat"))).await.expect_err("neither");
    assert_eq!(error.kind, SiteErrorKind::Expired);
    let stub = Stub::start(&[("GET /v1/models", 200, models), ("GET /api/user/self", 401, ABSENT)]).await;
    let error = within(identify(&stub.site_client(Platform::NewApi, "pat"))).await.expect_err("a number");
    assert_eq!(error.kind, SiteErrorKind::NeedsUserId);
    // Neither, but the site recognises the session of a text that looks like a key.
    let stub = Stub::start(&[("GET /v1/models", 401, invalid), ("GET /api/user/self", 401, ABSENT)]).await;
    let error = within(identify(&stub.site_client(Platform::NewApi, "sk-pat"))).await.expect_err("a number");
    assert_eq!(error.kind, SiteErrorKind::NeedsUserId);
    // Where there are no sessions, a text is a key.
    let stub = Stub::start(&[("GET /v1/models", 200, models)]).await;
    let identity = within(identify(&stub.site_client(Platform::OpenAi, "anything"))).await;
    assert_eq!(identity, Ok(Identity::ApiKey { models: vec!["m".to_owned()] }));
}

#[tokio::test]
async fn no_message_quotes_a_credential() {
    let quoting = r#"{"success":false,"message":"token pat-of-ada-4f1c is invalid"}"#;
    let stub = Stub::start(&[("GET /api/user/self", 200, quoting)]).await;
    let error = within(stub.site_client(Platform::NewApi, "pat-of-ada-4f1c").user(&client())).await;
    let error = error.expect_err("refused");
    assert!(!error.message.contains("pat-of-ada"), "{error}");
}

#[tokio::test]
async fn the_models_of_a_sessions_user_are_listed_in_each_forks_way() {
    let names = r#"{"success":true,"data":["m-1","m-2"]}"#;
    let flags = r#"{"success":true,"data":{"m-1":true,"m-2":null,"error":""}}"#;
    let groups = r#"{"success":true,"data":{"m-1":["default"],"m-2":"vip"}}"#;
    let hub = r#"{"success":true,"data":{"m-1":{"groups":["default"]},"m-2":{}}}"#;
    for (platform, call, body) in [
        (Platform::NewApi, "GET /api/user/models", names),
        (Platform::AnyRouter, "GET /api/user/models", names),
        (Platform::Veloera, "GET /api/user/models", names),
        (Platform::NewApi, "GET /api/user/models", flags),
        (Platform::NewApi, "GET /api/user/models", groups),
        (Platform::OneApi, "GET /api/user/available_models", names),
        (Platform::OneHub, "GET /api/available_model", hub),
        (Platform::DoneHub, "GET /api/available_model", hub),
    ] {
        let stub = Stub::start(&[(call, 200, body)]).await;
        let site_client = stub.site_client(platform, "pat");
        let models = within(site_client.models_of_session(&client())).await;
        let listed = vec!["m-1".to_owned(), "m-2".to_owned()];
        assert_eq!(models, Ok(SessionModels::Listed(listed)), "{platform}");
    }
    let keys = r#"{"code":0,"data":{"items":[{"id":1,"key":"sk-off","status":"inactive"},{"id":2,"key":"sk-on","status":"active"}],"pages":1}}"#;
    let stub = Stub::start(&[("GET /api/v1/keys?page=1&page_size=100", 200, keys)]).await;
    let models = within(stub.site_client(Platform::Sub2Api, "a.b.c").models_of_session(&client())).await;
    assert_eq!(models, Ok(SessionModels::ByKey(Secret::from("sk-on"))));
}
