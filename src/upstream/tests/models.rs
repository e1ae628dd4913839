//! Model discovery against sites of every kind.

use std::time::Duration;

use hyper::http::{HeaderName, HeaderValue};
use tokio::sync::mpsc;

use super::{Upstream, client, within};
use crate::platform::Platform;
use crate::routing::BaseUrl;
use crate::upstream::FetchLimits;
use crate::upstream::platforms::{DISCOVERY_LIMITS, DiscoveryError, DiscoveryKind, list_models};

fn answer(status: u16, body: &str) -> String {
    format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

/// Answers by path, and with a 404 at other paths.
async fn site(answers: &[(&str, String)]) -> (Upstream, mpsc::UnboundedReceiver<String>) {
    Upstream::by_path(answers, answer(404, r#"{"error":{"message":"Invalid URL"}}"#)).await
}

async fn discover(
    site: &Upstream,
    path: &str,
    platform: Platform,
    key: &str,
) -> Result<Vec<String>, DiscoveryError> {
    let base =
        BaseUrl::parse(&format!("http://127.0.0.1:{}{path}", site.port), None).expect("a base address");
    let custom = [
        (HeaderName::from_static("user-agent"), HeaderValue::from_static("custom/1")),
        (HeaderName::from_static("authorization"), HeaderValue::from_static("Bearer custom")),
    ];
    within(list_models(&client(), &base, platform, key, &custom, DISCOVERY_LIMITS)).await
}

#[tokio::test]
async fn each_platform_is_asked_in_its_own_way() {
    use Platform::*;
    let list = answer(200, r#"{"object":"list","data":[{"id":" m-1 "},{"id":"M-1"},{"id":"m-2"}]}"#);
    let gemini = answer(200, r#"{"models":[{"name":"models/m-1"},{"name":"models/m-2"}]}"#);
    let bearer = "authorization: Bearer k-1";
    for (platform, base, path, header, list) in [
        (OpenAi, "", "/v1/models", bearer, &list),
        (OpenAi, "/v1", "/v1/models", bearer, &list),
        (OpenAi, "/api/coding/paas/v4", "/api/coding/paas/v4/models", bearer, &list),
        (CliProxyApi, "", "/v1/models", bearer, &list),
        (NewApi, "", "/v1/models", bearer, &list),
        (OneApi, "", "/v1/models", bearer, &list),
        (OneHub, "", "/v1/models", bearer, &list),
        (Sub2Api, "", "/v1/models", bearer, &list),
        (Sub2Api, "", "/api/v1/models", bearer, &list),
        (Sub2Api, "", "/v1beta/models", bearer, &gemini),
        (Sub2Api, "", "/antigravity/v1beta/models", bearer, &gemini),
        (Sub2Api, "/antigravity", "/antigravity/v1beta/models", bearer, &gemini),
        (Sub2Api, "/antigravity/v1beta", "/antigravity/v1beta/models", bearer, &gemini),
        (Claude, "", "/v1/models?limit=1000", "x-api-key: k-1", &list),
        (Claude, "/anthropic", "/anthropic/v1/models?limit=1000", "anthropic-version: 2023-06-01", &list),
        (Claude, "/anthropic", "/v1/models", bearer, &list),
        (Claude, "/v1/anthropic", "/v1/models", bearer, &list),
        (Gemini, "", "/v1beta/models?pageSize=1000", "x-goog-api-key: k-1", &gemini),
        (Gemini, "/v1beta", "/v1beta/models?pageSize=1000", "x-goog-api-key: k-1", &gemini),
        (Gemini, "", "/v1beta/openai/models", bearer, &list),
        (Gemini, "/v1beta/openai", "/v1beta/openai/models", bearer, &list),
    ] {
        let (site, mut requests) = site(&[(path, list.clone())]).await;
        let models = discover(&site, base, platform, "k-1").await;
        assert_eq!(models, Ok(vec!["m-1".to_owned(), "m-2".to_owned()]), "{platform:?} {base} {path}");
        let mut last = String::new();
        while let Ok(request) = requests.try_recv() {
            assert!(request.contains("user-agent: custom/1\r\n"), "{request}");
            last = request;
        }
        assert!(last.contains(&format!("{header}\r\n")), "{platform:?}: {last}");
    }
}

#[tokio::test]
async fn what_may_be_a_cookie_of_the_new_apis_is_sent_as_one_too() {
    let list = answer(200, r#"{"data":[{"id":"m-1"}]}"#);
    let pair = "session=MTc4; acw_tc=1";
    for (platform, credential, cookie) in [
        (Platform::NewApi, pair, true),
        (Platform::AnyRouter, pair, true),
        (Platform::OpenAi, pair, false),
        (Platform::NewApi, "sk-a=b", false),
        (Platform::NewApi, "MTc4MTc4==", false),
    ] {
        let (site, mut requests) = site(&[("/v1/models", list.clone())]).await;
        assert_eq!(discover(&site, "", platform, credential).await, Ok(vec!["m-1".to_owned()]));
        let request = requests.recv().await.expect("a request");
        assert!(request.contains(&format!("authorization: Bearer {credential}\r\n")), "{request}");
        assert_eq!(request.contains(&format!("cookie: {credential}\r\n")), cookie, "{platform:?}: {request}");
    }
}

#[tokio::test]
async fn failures_are_classified() {
    use DiscoveryKind::*;
    for (status, body, kind, message) in [
        (401, r#"{"error":{"message":"bad key k-1-secret"}}"#, Unauthorized, "HTTP 401: bad key [redacted]"),
        (403, "<html><title>Denied | x</title></html>", Unauthorized, "HTTP 403: Denied"),
        (400, r#"{"message":"Invalid token"}"#, Unauthorized, "HTTP 400: Invalid token"),
        (200, r#"{"success":false,"message":"access token 无效"}"#, Unauthorized, "access token 无效"),
        (404, r#"{"error":{"message":"Invalid URL"}}"#, Unknown, "HTTP 404: Invalid URL"),
        (503, "busy", Unknown, "HTTP 503: busy"),
        (200, r#"{"data":[]}"#, EmptyModels, "the site lists no models"),
        (200, r#"{"data":{"a":1}}"#, Unknown, "the answer has no list of models"),
        (200, r#"{"data":[{"id":"#, Unknown, "the model list is not valid JSON"),
        (200, "<!doctype html><title>Relay</title>", Unknown, "a web page instead of a model list: Relay"),
    ] {
        let (site, _requests) = site(&[("/v1/models", answer(status, body))]).await;
        let error = discover(&site, "", Platform::OpenAi, "k-1-secret").await.expect_err(body);
        assert_eq!((error.kind, error.status, error.message.as_str()), (kind, Some(status), message));
    }
}

#[tokio::test]
async fn a_flood_and_a_silence_are_bounded() {
    let flood = Upstream::always(answer(200, &"x".repeat(5 << 20))).await;
    let error = discover(&flood, "", Platform::OpenAi, "k").await.expect_err("a flood");
    assert_eq!(
        (error.kind, error.message.as_str()),
        (DiscoveryKind::Unknown, "the answer is larger than 4194304 bytes")
    );

    let silent = Upstream::start(|stream, _| async move {
        std::future::pending::<()>().await;
        drop(stream);
    })
    .await;
    let limits = FetchLimits { timeout: Duration::from_millis(50), ..DISCOVERY_LIMITS };
    let error =
        list_models(&client(), &silent.base, Platform::Claude, "k", &[], limits).await.expect_err("silence");
    assert_eq!(error.kind, DiscoveryKind::Timeout);
}

#[tokio::test]
async fn platforms_that_need_a_login_say_so() {
    let (site, mut requests) = site(&[]).await;
    for platform in [Platform::Codex, Platform::GeminiCli, Platform::Antigravity] {
        let error = discover(&site, "", platform, "k").await.expect_err("no list");
        assert!(error.message.contains(platform.id()), "{error}");
    }
    assert!(requests.try_recv().is_err());
}

#[tokio::test]
async fn a_refused_key_outweighs_the_other_answers() {
    let (site, _requests) = site(&[("/v1/models", answer(401, "{}"))]).await;
    let error = discover(&site, "", Platform::Sub2Api, "session").await.expect_err("refused");
    assert_eq!(error.kind, DiscoveryKind::Unauthorized);
}
