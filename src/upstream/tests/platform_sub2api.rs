//! Clients of sub2api.

use super::platforms::Stub;
use super::{client, within};
use crate::platform::Platform;
use crate::routing::Secret;
use crate::time::now_ms;
use crate::upstream::platforms::SiteErrorKind;

const KEYS: &str = r#"{"code":0,"message":"success","data":{"items":[
    {"id":1,"user_id":5,"key":"sk-one","name":"cli","group_id":4,"status":"active"},
    {"id":2,"user_id":5,"key":"sk-two","name":"","group_id":null,"status":"inactive"}],
    "total":2,"page":1,"page_size":100,"pages":1}}"#;
const LIST: &str = "GET /api/v1/keys?page=1&page_size=100";
const REFRESH: &str = "POST /api/v1/auth/refresh";

#[tokio::test]
async fn a_refresh_gives_all_three_parts_or_says_why_not() {
    let token = Secret::from("rt_old");
    let given = r#"{"code":0,"message":"success","data":{"access_token":"jwt.new.x","refresh_token":"rt_new","expires_in":3600}}"#;
    let stub = Stub::start(&[(REFRESH, 200, given)]).await;
    let before = now_ms();
    let refreshed = within(stub.site_client(Platform::Sub2Api, "jwt.old.x").refresh(&client(), &token)).await;
    let refreshed = refreshed.expect("a new pair");
    assert_eq!(refreshed.access_token.expose(), "jwt.new.x");
    assert_eq!(refreshed.refresh_token.expose(), "rt_new");
    assert!((before + 3_600_000..=now_ms() + 3_600_000).contains(&refreshed.expires_at));
    let request = stub.asked().remove(0);
    assert!(request.contains("authorization: Bearer jwt.old.x\r\n"), "{request}");
    assert!(request.ends_with(r#"{"refresh_token":"rt_old"}"#), "{request}");

    let refused = r#"{"code":401,"message":"invalid refresh token","reason":"REFRESH_TOKEN_INVALID"}"#;
    let half = r#"{"code":0,"message":"success","data":{"access_token":"jwt.new.x"}}"#;
    for (status, body, kind, message) in [
        (
            401,
            refused,
            SiteErrorKind::Expired,
            "sub2api token refresh failed: HTTP 401: invalid refresh token (REFRESH_TOKEN_INVALID)",
        ),
        (
            200,
            half,
            SiteErrorKind::Malformed,
            "sub2api token refresh failed: the answer has no new pair of tokens",
        ),
    ] {
        let stub = Stub::start(&[(REFRESH, status, body)]).await;
        let error = within(stub.site_client(Platform::Sub2Api, "jwt.old.x").refresh(&client(), &token)).await;
        let error = error.expect_err(body);
        assert_eq!((error.kind, error.message.as_str()), (kind, message));
    }
}

#[tokio::test]
async fn refusals_have_their_kinds() {
    use SiteErrorKind::*;
    for (status, body, kind) in [
        (401, r#"{"code":"TOKEN_EXPIRED","message":"Token has expired"}"#, Expired),
        (401, r#"{"code":"INVALID_TOKEN","message":"Invalid token"}"#, Expired),
        (403, r#"{"code":"USER_INACTIVE","message":"User is disabled"}"#, Refused),
        (200, r#"{"code":500,"message":"internal error"}"#, Refused),
        (500, r#"{"code":500,"message":"internal error"}"#, Failed),
        (404, "404 page not found", Missing),
        (200, r#"{"code":0,"message":"success","data":{"id":5}}"#, Malformed),
        (200, "<!doctype html><title>Sub2API</title>", Malformed),
    ] {
        let stub = Stub::start(&[("GET /api/v1/auth/me", status, body)]).await;
        let error =
            within(stub.site_client(Platform::Sub2Api, "a.b.c").balance(&client())).await.expect_err(body);
        assert_eq!(error.kind, kind, "{status} {body}: {error}");
    }
}

#[tokio::test]
async fn keys_and_groups_are_read_made_and_deleted() {
    let groups = r#"{"code":0,"data":[{"id":2,"name":"pro"},{"id":4,"name":"basic"}]}"#;
    let done = r#"{"code":0,"message":"success","data":null}"#;
    let stub = Stub::start(&[
        (LIST, 200, KEYS),
        ("GET /api/v1/groups/available", 200, groups),
        ("DELETE /api/v1/keys/1", 200, done),
    ])
    .await;
    let site_client = stub.site_client(Platform::Sub2Api, "a.b.c");
    let keys = within(site_client.keys(&client())).await.expect("keys");
    let shown: Vec<_> =
        keys.iter().map(|key| (key.key.expose(), key.enabled, key.group.as_deref())).collect();
    assert_eq!(shown, [("sk-one", true, Some("4")), ("sk-two", false, None)]);
    assert_eq!(within(site_client.groups(&client())).await, Ok(vec!["2".to_owned(), "4".to_owned()]));
    within(site_client.delete_key(&client(), "sk-one")).await.expect("deleted");
    assert_eq!(stub.calls().last().map(String::as_str), Some("DELETE /api/v1/keys/1"));
    within(site_client.delete_key(&client(), "sk-gone")).await.expect("gone is deleted");
    // Older versions: another route for keys, no list of groups.
    let stub = Stub::start(&[("GET /api/v1/api-keys?page=1&page_size=100", 200, KEYS)]).await;
    let site_client = stub.site_client(Platform::Sub2Api, "a.b.c");
    assert_eq!(within(site_client.keys(&client())).await.expect("keys").len(), 2);
    assert_eq!(within(site_client.groups(&client())).await, Ok(vec!["4".to_owned()]), "those of the keys");
}

#[tokio::test]
async fn announcements_keep_their_numbers_and_an_older_site_has_none() {
    const PATH: &str = "GET /api/v1/announcements?page=1&page_size=100";
    let item = r#"{"id":12,"title":"Maintenance","content":"On Sunday","starts_at":1772352000,"ends_at":null,"created_at":"2026-03-01T08:00:00Z"}"#;
    for body in
        [format!(r#"{{"code":0,"data":[{item}]}}"#), format!(r#"{{"code":0,"data":{{"items":[{item}]}}}}"#)]
    {
        let stub = Stub::start(&[(PATH, 200, &body)]).await;
        let found = within(stub.site_client(Platform::Sub2Api, "a.b.c").announcements(&client())).await;
        let found = found.expect("one").remove(0);
        assert_eq!((found.source_key.as_str(), found.title.as_str()), ("announcement:12", "Maintenance"));
        assert_eq!((found.starts_at, found.ends_at), (Some(1_772_352_000_000), None));
        assert_eq!(found.upstream_created_at, Some(1_772_352_000_000));
    }
    let stub = Stub::start(&[]).await;
    let error = within(stub.site_client(Platform::Sub2Api, "a.b.c").announcements(&client())).await;
    assert_eq!(error.expect_err("no such route").kind, SiteErrorKind::Missing);
}

#[tokio::test]
async fn a_mail_address_and_a_password_open_a_session() {
    const PATH: &str = "POST /api/v1/auth/login";
    let given = r#"{"code":0,"data":{"access_token":"a.b.c","refresh_token":"rt","expires_in":60,"user":{"id":5,"email":"ada@example.com"}}}"#;
    let stub = Stub::start(&[(PATH, 200, given)]).await;
    let session =
        within(stub.site_client(Platform::Sub2Api, "").login(&client(), "ada@example.com", "horse")).await;
    let session = session.expect("a session");
    assert_eq!((session.credential.expose(), session.user_id), ("a.b.c", Some(5)));
    assert_eq!(session.refresh_token.as_ref().map(Secret::expose), Some("rt"));
    let second_factor = r#"{"code":0,"data":{"requires_2fa":true}}"#;
    let refused = r#"{"code":401,"message":"invalid password horse"}"#;
    for (status, body, message) in
        [(200, second_factor, "two-factor login required"), (401, refused, "HTTP 401: invalid password …")]
    {
        let stub = Stub::start(&[(PATH, status, body)]).await;
        let error =
            within(stub.site_client(Platform::Sub2Api, "").login(&client(), "ada@example.com", "horse"))
                .await;
        assert_eq!(error.expect_err(body).message, message);
    }
}
