//! Sites that accept a call and never answer, or a byte at a time: every management call gives up at its
//! full limit, by a clock that is turned by hand.

use std::future::Future;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::time::{Instant, sleep};

use super::platforms::identify;
use super::{Upstream, client, read_request};
use crate::platform::Platform;
use crate::routing::Secret;
use crate::upstream::platforms::{
    DISCOVERY_LIMITS, DiscoveryKind, Identity, MANAGEMENT_LIMITS, NewSiteKey, SiteClient, SiteError,
    SiteErrorKind, detect, list_models,
};

/// Reads the call and never answers.
async fn silent() -> Upstream {
    Upstream::start(|mut stream, _| async move {
        read_request(&mut stream).await;
        std::future::pending::<()>().await;
    })
    .await
}

/// Answers with a byte a second, for an hour.
async fn dripping() -> Upstream {
    Upstream::start(|mut stream, _| async move {
        read_request(&mut stream).await;
        let head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 3600\r\n\r\n";
        let mut alive = stream.write_all(head).await.is_ok();
        while alive {
            sleep(Duration::from_secs(1)).await;
            alive = stream.write_all(b" ").await.is_ok();
        }
    })
    .await
}

fn site_client(upstream: &Upstream, platform: Platform) -> SiteClient {
    let session = Some(Secret::from("pat"));
    SiteClient { user_id: Some(7), ..SiteClient::new(platform, upstream.base.clone(), session) }
}

/// Waits for the failure of a call and checks that it took its limit, no less and hardly more.
async fn gives_up<T: std::fmt::Debug>(what: &str, call: impl Future<Output = Result<T, SiteError>>) {
    let began = Instant::now();
    let error = call.await.expect_err(what);
    assert_eq!(error.kind, SiteErrorKind::Timeout, "{what}: {error}");
    let (took, limit) = (began.elapsed(), MANAGEMENT_LIMITS.timeout);
    assert!(took >= limit && took < limit + Duration::from_secs(1), "{what} took {took:?}");
}

#[tokio::test(start_paused = true)]
async fn every_management_call_gives_up_after_fifteen_seconds() {
    assert_eq!(MANAGEMENT_LIMITS.timeout, Duration::from_secs(15));
    let (client, key, secret) = (client(), NewSiteKey::default(), Secret::from("rt"));
    for upstream in [silent().await, dripping().await] {
        for platform in [Platform::NewApi, Platform::OneHub, Platform::Veloera, Platform::Sub2Api] {
            let site_client = site_client(&upstream, platform);
            gives_up("login", site_client.login(&client, "ada", "secret")).await;
            gives_up("user", site_client.user(&client)).await;
            gives_up("balance", site_client.balance(&client)).await;
            gives_up("keys", site_client.keys(&client)).await;
            gives_up("create_key", site_client.create_key(&client, &key)).await;
            gives_up("delete_key", site_client.delete_key(&client, "sk-1")).await;
            gives_up("groups", site_client.groups(&client)).await;
            gives_up("announcements", site_client.announcements(&client)).await;
            gives_up("models_of_session", site_client.models_of_session(&client)).await;
        }
        gives_up("check_in", site_client(&upstream, Platform::NewApi).check_in(&client)).await;
        gives_up("refresh", site_client(&upstream, Platform::Sub2Api).refresh(&client, &secret)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_model_list_has_twelve_seconds_and_detection_eight() {
    let client = client();
    for upstream in [silent().await, dripping().await] {
        let began = Instant::now();
        let listed = list_models(&client, &upstream.base, Platform::Gemini, "k", &[], DISCOVERY_LIMITS).await;
        assert_eq!(listed.expect_err("no list").kind, DiscoveryKind::Timeout);
        assert_eq!(began.elapsed().as_secs(), 12, "both of its questions together");
        let began = Instant::now();
        assert_eq!(detect(&client, &upstream.base).await, None);
        assert_eq!(began.elapsed().as_secs(), 8);
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_of_keys_that_never_comes_leaves_the_session_proved() {
    let upstream = Upstream::start(|mut stream, _| async move {
        while let Some(request) = read_request(&mut stream).await {
            if !request.contains(" /api/user/self") && !request.contains(" /api/status") {
                std::future::pending::<()>().await;
            }
            let body = r#"{"success":true,"data":{"id":7,"username":"ada","quota":500000,"used_quota":0}}"#;
            let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len());
            let _ = stream.write_all(answer.as_bytes()).await;
        }
    })
    .await;
    let began = Instant::now();
    let identity = site_client(&upstream, Platform::NewApi).identify_session(&client()).await;
    let Ok(Identity::Session { user, api_token: None, .. }) = identity else { panic!("{identity:?}") };
    assert_eq!((user.username.as_str(), began.elapsed().as_secs()), ("ada", 4));
}

#[tokio::test(start_paused = true)]
async fn what_a_site_says_of_a_session_is_told_although_its_list_of_models_hangs() {
    const REFUSED: &str = r#"{"success":false,"message":"无权进行此操作，access token 无效"}"#;
    let upstream = Upstream::start(|mut stream, _| async move {
        while let Some(request) = read_request(&mut stream).await {
            if !request.contains(" /api/") {
                std::future::pending::<()>().await;
            }
            let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{REFUSED}", REFUSED.len());
            let _ = stream.write_all(answer.as_bytes()).await;
        }
    })
    .await;
    let began = Instant::now();
    let error = identify(&site_client(&upstream, Platform::NewApi)).await.expect_err("it is refused");
    assert_eq!(error.kind, SiteErrorKind::Expired, "{error}");
    assert!(began.elapsed() < MANAGEMENT_LIMITS.timeout, "within the limit of the caller");
}
