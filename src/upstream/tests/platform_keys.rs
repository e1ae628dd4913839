//! Keys, groups, announcements and income at sites of the new-api family.

use serde_json::{Value, json};

use super::platforms::Stub;
use super::{client, within};
use crate::money::Usd;
use crate::platform::Platform;
use crate::upstream::platforms::{NewSiteKey, NoticeLevel, SiteClient, SiteErrorKind};

const MASKED: &str = r#"{"success":true,"data":{"page":1,"page_size":100,"total":2,"items":[
    {"id":7,"key":"abcd**********wxyz","status":1,"name":"cli","group":"default"},
    {"id":8,"key":"efgh**********wxyz","status":2,"name":"off","group":""}]}}"#;
const LIST: &str = "GET /api/token/?p=0&size=100";
const DONE: &str = r#"{"success":true,"message":""}"#;

#[tokio::test]
async fn masked_keys_are_fetched_whole_where_the_site_tells_them() {
    let whole = |key: &str| format!(r#"{{"success":true,"data":{{"key":"{key}"}}}}"#);
    let (first, second) = (whole("abcd0123wxyz"), whole("efgh0123wxyz"));
    let stub = Stub::start(&[
        (LIST, 200, MASKED),
        ("POST /api/token/7/key", 200, &first),
        ("POST /api/token/8/key", 200, &second),
    ])
    .await;
    let keys = within(stub.site_client(Platform::NewApi, "pat").keys(&client())).await.expect("keys");
    let shown: Vec<_> =
        keys.iter().map(|key| (key.key.expose(), key.enabled, key.group.as_deref())).collect();
    assert_eq!(shown, [("sk-abcd0123wxyz", true, Some("default")), ("sk-efgh0123wxyz", false, None)]);
    // Many are revealed in one answer; those that it leaves out, one by one.
    let together = r#"{"success":true,"data":{"keys":{"7":"abcd0123wxyz"}}}"#;
    let stub = Stub::start(&[
        (LIST, 200, MASKED),
        ("POST /api/token/batch/keys", 200, together),
        ("POST /api/token/8/key", 200, &second),
    ])
    .await;
    let keys = within(stub.site_client(Platform::NewApi, "pat").keys(&client())).await.expect("keys");
    let shown: Vec<_> = keys.iter().map(|key| key.key.expose()).collect();
    assert_eq!(shown, ["sk-abcd0123wxyz", "sk-efgh0123wxyz"]);
    let asked = stub.asked();
    assert!(asked[1].ends_with(r#"{"ids":[7,8]}"#), "{asked:?}");
    assert_eq!(asked.len(), 3, "{asked:?}");
    // An older server reveals none: the mask stays one.
    let stub = Stub::start(&[(LIST, 200, MASKED)]).await;
    let keys = within(stub.site_client(Platform::NewApi, "pat").keys(&client())).await.expect("keys");
    assert!(keys.iter().all(|key| key.is_masked()), "{keys:?}");
}

#[tokio::test]
async fn an_administrator_has_the_own_keys_and_not_those_of_all_users() {
    let list = r#"{"success":true,"data":{"page":1,"page_size":100,"total":3,"items":[
        {"id":7,"user_id":3,"key":"a1","status":1,"name":"mine"},
        {"id":8,"user_id":4,"key":"b2","status":1,"name":"of another"},
        {"id":9,"key":"c3","status":1,"name":"of nobody known"}]}}"#;
    for (user_id, wanted) in [
        (Some(3), &["sk-a1", "sk-c3"][..]),
        (Some(5), &["sk-a1", "sk-b2", "sk-c3"]),
        (None, &["sk-a1", "sk-b2", "sk-c3"]),
    ] {
        let stub = Stub::start(&[(LIST, 200, list)]).await;
        let site_client = SiteClient { user_id, ..stub.site_client(Platform::NewApi, "pat") };
        let keys = within(site_client.keys(&client())).await.expect("keys");
        let shown: Vec<_> = keys.iter().map(|key| key.key.expose()).collect();
        assert_eq!(shown, wanted, "{user_id:?}");
    }
}

#[tokio::test]
async fn a_key_is_made_without_limits_unless_told_otherwise() {
    let stub = Stub::start(&[("POST /api/token/", 200, DONE)]).await;
    let site_client = stub.site_client(Platform::Veloera, "pat");
    within(site_client.create_key(&client(), &NewSiteKey::default())).await.expect("made");
    let request = stub.asked().remove(0);
    let body: Value = serde_json::from_str(request.split("\r\n\r\n").nth(1).expect("a body")).expect("JSON");
    let wanted = json!({"name": "Switchyard", "unlimited_quota": true, "expired_time": -1, "remain_quota": 0,
        "allow_ips": "", "model_limits_enabled": false, "model_limits": "", "group": ""});
    assert_eq!(body, wanted);
    let refusing = r#"{"success":false,"message":"令牌数量已达上限"}"#;
    let stub = Stub::start(&[("POST /api/token/", 200, refusing)]).await;
    let error =
        within(stub.site_client(Platform::NewApi, "pat").create_key(&client(), &NewSiteKey::default())).await;
    let error = error.expect_err("refused");
    assert_eq!((error.kind, error.message.as_str()), (SiteErrorKind::Refused, "令牌数量已达上限"));
}

#[tokio::test]
async fn a_key_is_deleted_by_its_text_and_one_that_is_gone_counts_as_deleted() {
    let plain = r#"{"success":true,"data":[{"id":7,"key":"abcd0123wxyz","status":1,"name":"cli"}]}"#;
    for (platform, list, call, key) in [
        (Platform::NewApi, MASKED, Some("DELETE /api/token/7"), "sk-abcd0123wxyz"),
        (Platform::Veloera, plain, Some("DELETE /api/token/7"), "Bearer sk-abcd0123wxyz"),
        (Platform::OneApi, plain, Some("DELETE /api/token/7/"), "abcd0123wxyz"),
        (Platform::NewApi, plain, None, "sk-another"),
    ] {
        let mut answers = vec![(LIST, 200, list)];
        answers.extend(call.map(|call| (call, 200, DONE)));
        let stub = Stub::start(&answers).await;
        within(stub.site_client(platform, "pat").delete_key(&client(), key)).await.expect("deleted");
        let last = stub.calls().into_iter().rfind(|call| call.starts_with("DELETE"));
        assert_eq!(last.as_deref(), call, "{platform} {key}");
    }
    // A list that cannot be read deletes nothing and says so.
    let stub = Stub::start(&[(LIST, 502, "bad gateway")]).await;
    let error = within(stub.site_client(Platform::NewApi, "pat").delete_key(&client(), "sk-x")).await;
    assert_eq!(error.expect_err("no list").kind, SiteErrorKind::Failed);
}

#[tokio::test]
async fn groups_are_read_from_each_form_and_are_default_where_there_is_none() {
    let of_user =
        r#"{"success":true,"data":{"default":{"ratio":1,"desc":"x"},"vip":{"ratio":2,"desc":"y"}}}"#;
    let of_map = r#"{"success":true,"data":{"vip":{"id":1,"symbol":"vip","name":"VIP","ratio":1}}}"#;
    let over = r#"{"success":false,"message":"无权进行此操作，access token 无效"}"#;
    for (platform, answers, groups) in [
        (Platform::NewApi, vec![("GET /api/user/self/groups", 200, of_user)], vec!["default", "vip"]),
        (Platform::NewApi, vec![("GET /api/user_group_map", 200, of_map)], vec!["vip"]),
        (Platform::OneHub, vec![("GET /api/user_group_map", 200, of_map)], vec!["vip"]),
        (Platform::NewApi, vec![], vec!["default"]),
        (Platform::NewApi, vec![("GET /api/user/self/groups", 500, "oops")], vec!["default"]),
    ] {
        let stub = Stub::start(&answers).await;
        let found = within(stub.site_client(platform, "pat").groups(&client())).await.expect("groups");
        assert_eq!(found, groups, "{platform} {answers:?}");
    }
    let stub = Stub::start(&[("GET /api/user/self/groups", 200, over)]).await;
    let error = within(stub.site_client(Platform::NewApi, "pat").groups(&client())).await.expect_err("over");
    assert_eq!(error.kind, SiteErrorKind::Expired, "the caller logs in again");
}

#[tokio::test]
async fn a_site_tells_its_notice_and_its_consoles_announcements() {
    let notice = r#"{"success":true,"message":"","data":" abc "}"#;
    let status = r#"{"success":true,"data":{"announcements":[
        {"content":"Down on Sunday","publishDate":"2026-03-01T08:00:00Z","type":"warning"}]}}"#;
    let stub = Stub::start(&[("GET /api/notice", 200, notice), ("GET /api/status", 200, status)]).await;
    for platform in [Platform::NewApi, Platform::OneApi, Platform::DoneHub, Platform::Veloera] {
        let found = within(stub.site_client(platform, "pat").announcements(&client())).await.expect("two");
        let levels: Vec<_> = found.iter().map(|notice| (notice.content.as_str(), notice.level)).collect();
        assert_eq!(levels, [("Down on Sunday", NoticeLevel::Warning), ("abc", NoticeLevel::Info)]);
        assert_eq!(found[1].source_key, "notice:a9993e364706816aba3e25717850c26c9cd0d89d");
    }
    // A session that is over still reads public notices; a site that is down does not look like one without notices.
    let over = |request: &str| {
        let refused = r#"{"success":false,"message":"access token 无效"}"#.to_owned();
        request.to_ascii_lowercase().contains("authorization: ").then_some((200, refused))
    };
    let stub = Stub::with(over, &[("GET /api/notice", 200, notice)]).await;
    let found =
        within(stub.site_client(Platform::OneApi, "pat").announcements(&client())).await.expect("one");
    assert_eq!(found.len(), 1);
    for (status, kind) in [(404, SiteErrorKind::Missing), (502, SiteErrorKind::Failed)] {
        let stub = Stub::start(&[("GET /api/notice", status, "{}")]).await;
        let error = within(stub.site_client(Platform::OneApi, "pat").announcements(&client())).await;
        assert_eq!(error.expect_err("nothing").kind, kind);
    }
}

#[tokio::test]
async fn the_days_income_is_summed_over_kinds_and_pages() {
    let gate = |request: &str| {
        let path = request.split(' ').nth(1)?;
        let page = path.starts_with("/api/log/self?").then_some(path)?;
        let items = match (page.contains("type=1&"), page.contains("p=1&"), page.contains("p=2&")) {
            (true, true, _) => r#"[{"quota":500000},{"content":"充值 2.5"}]"#,
            (true, _, true) => r#"[{"quota":250000}]"#,
            (false, true, _) => r#"[{"quota":12500,"content":"签到"}]"#,
            _ => "[]",
        };
        Some((200, format!(r#"{{"success":true,"data":{{"items":{items}}}}}"#)))
    };
    let stub = Stub::with(gate, &[]).await;
    let site_client = stub.site_client(Platform::NewApi, "pat");
    let income = within(site_client.today_income(&client(), 1_767_225_600_000, 1_767_312_000_000)).await;
    assert_eq!(income, Ok(Some(Usd::new(4.025))));
    let asked = stub.calls().iter().any(|call| {
        call.contains("start_timestamp=1767225600&end_timestamp=1767312000") && call.contains("page_size=100")
    });
    assert!(asked, "{:?}", stub.calls());
    let hub = stub.site_client(Platform::OneHub, "pat");
    assert_eq!(within(hub.today_income(&client(), 0, 1)).await, Ok(None));
}
