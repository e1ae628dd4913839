//! Announcements of sites: each is new once, stays known, and is sent to the operator once.

use serde_json::{Value, json};

use crate::support::{self, Gate, Gateway, Relay, Reply, Upstream, eventually};

const PATH: &str = "/api/site-announcements";

#[track_caller]
fn sync(gateway: &Gateway) -> Value {
    let started = gateway.admin().post(&format!("{PATH}/sync"), &json!({})).expect(200);
    assert_eq!((&started["success"], &started["queued"]), (&json!(true), &json!(true)));
    gateway.result_of_task(&json!({"jobId": started["taskId"]}))
}

#[track_caller]
fn list(gateway: &Gateway, query: &str) -> Vec<Value> {
    gateway.admin().get(&format!("{PATH}{query}")).expect(200).as_array().expect("rows").clone()
}

/// Starts a gateway whose notices go to a stub; returns the stub, too.
fn with_webhook() -> (Gateway, Upstream) {
    let gateway = Gateway::start();
    let hook = gateway.send_notices_to_a_webhook();
    (gateway, hook)
}

#[test]
fn an_announcement_is_news_once() {
    let (gateway, hook) = with_webhook();
    let relay = Relay::start(&["m-a"]);
    let site = relay.site(&gateway, "Relay A");
    relay.account(&gateway, &site, "ada");
    relay.says("/api/notice", &json!("Prices change on Monday"));
    let first = sync(&gateway);
    assert_eq!(
        first,
        json!({"scannedSites": 1, "inserted": 1, "updated": 0, "unsupported": 0, "notifications": 1, "events": 1,
            "failed": 0, "failedSites": []})
    );
    let rows = list(&gateway, "");
    assert_eq!(rows.len(), 1);
    let row = &rows[0];
    assert_eq!((&row["siteId"], &row["platform"]), (&site["id"], &json!("new-api")));
    assert_eq!((&row["content"], &row["level"]), (&json!("Prices change on Monday"), &json!("info")));
    assert!(row["sourceKey"].as_str().is_some_and(|key| key.starts_with("notice:")), "{row}");
    assert!(row["readAt"].is_null() && row["dismissedAt"].is_null() && row["firstSeenAt"].is_string());
    let events = gateway.events("site_notice");
    assert_eq!((events.len(), &events[0]["relatedId"]), (1, &row["id"]));
    assert_eq!(events[0]["relatedType"], "site_announcement");
    // The notice leaves out the generic title.
    assert_eq!(events[0]["message"], "Prices change on Monday");
    let told = || hook.asked_for("/hook").iter().map(support::ReceivedRequest::json).collect::<Vec<_>>();
    eventually("the operator is told", || {
        told().iter().any(|notice| notice["message"] == "Prices change on Monday").then_some(())
    });
    let again = sync(&gateway);
    assert_eq!(
        (&again["inserted"], &again["updated"], &again["notifications"]),
        (&json!(0), &json!(1), &json!(0))
    );
    assert_eq!(gateway.events("site_notice").len(), 1);
    // A cleared announcement does not become new again, and its event stays.
    gateway.admin().delete(PATH).expect(200);
    assert!(list(&gateway, "").is_empty());
    assert_eq!(sync(&gateway)["inserted"], 0);
    assert!(list(&gateway, "").is_empty());
    assert_eq!(gateway.events("site_notice").len(), 1);
    // Another text is new.
    relay.says("/api/notice", &json!("Maintenance on Sunday"));
    assert_eq!(sync(&gateway)["inserted"], 1);
    assert_eq!(told().iter().filter(|notice| notice["message"] == "Prices change on Monday").count(), 1);
}

#[test]
fn a_site_that_is_deleted_while_it_is_asked_keeps_no_other_from_being_read() {
    let gateway = Gateway::start();
    let (relay, other) = (Relay::start(&["m-a"]), Relay::start(&["m-a"]));
    let site = relay.site(&gateway, "Relay A");
    other.site(&gateway, "Relay B");
    let gate = Gate::default();
    let notice = json!({"success": true, "message": "", "data": "Prices change on Monday"});
    relay.upstream.answer("/api/notice", Reply::json(200, &notice).head_waits_for(&gate));
    other.says("/api/notice", &json!("Maintenance on Sunday"));
    let started = gateway.admin().post(&format!("{PATH}/sync"), &json!({})).expect(200);
    relay.upstream.last("/api/notice");
    gateway.admin().delete(&format!("/api/sites/{}", site["id"])).expect(200);
    gate.open();
    let synced = gateway.result_of_task(&json!({"jobId": started["taskId"]}));
    assert_eq!((&synced["inserted"], &synced["failed"]), (&json!(1), &json!(0)), "{synced}");
    assert_eq!(list(&gateway, "")[0]["content"], "Maintenance on Sunday");
}

#[test]
fn of_many_new_announcements_the_first_are_told_one_by_one() {
    let gateway = Gateway::start();
    let relay = Relay::start(&["m-a"]);
    let site = relay.site(&gateway, "Relay A");
    relay.account(&gateway, &site, "ada");
    relay.says("/api/notice", &json!("x\u{202e}".repeat(50_000)));
    let items: Vec<Value> = (0..30).map(|number| json!({"content": format!("number {number}")})).collect();
    relay.says("/api/status", &json!({"quota_per_unit": 500_000, "announcements": items}));
    let synced = sync(&gateway);
    let counts = ["inserted", "events", "notifications"].map(|name| synced[name].clone());
    assert_eq!(counts, [json!(31), json!(11), json!(11)], "{synced}");
    let messages: Vec<Value> =
        gateway.events("site_notice").iter().map(|event| event["message"].clone()).collect();
    assert!(messages.contains(&json!("21 more new announcements are in the list")), "{messages:?}");
    let rows = list(&gateway, "?limit=100");
    let is_notice = |row: &&Value| row["sourceKey"].as_str().is_some_and(|key| key.starts_with("notice:"));
    let notice = rows.iter().find(is_notice).expect("the notice");
    assert_eq!(notice["content"].as_str().map(|text| text.chars().count()), Some(8_001));
    assert_eq!(notice["rawPayload"], Value::Null);
    let again = sync(&gateway);
    assert_eq!((&again["inserted"], &again["events"]), (&json!(0), &json!(0)));
}

#[test]
fn what_a_site_repeats_of_a_session_is_told_nobody() {
    let gateway = Gateway::start();
    let relay = Relay::start(&["m-a"]);
    let site = relay.site(&gateway, "Relay A");
    let account = relay.account(&gateway, &site, "ada");
    let session = "pat-of-the-relay-ada";
    relay.says("/api/notice", &json!(format!("Hello {session}!")));
    relay.checks_in(
        &json!({"success": true, "message": format!("done {session}"), "data": {"quota_awarded": 1e300}}),
    );
    sync(&gateway);
    let row = list(&gateway, "")[0].clone();
    assert_eq!(row["content"], "Hello [redacted]!");
    let done =
        gateway.admin().post(&format!("/api/checkin/trigger/{}", account["id"]), &json!({})).expect(200);
    assert_eq!(done["message"], "done [redacted]", "{done}");
    let logs = gateway.admin().get("/api/checkin/logs").expect(200);
    assert_eq!(logs[0]["checkin_logs"]["reward"], Value::Null, "{logs}");
    for told in [row, done, logs, gateway.admin().get("/api/events").expect(200)] {
        assert!(!told.to_string().contains(session), "{told}");
    }
}

#[test]
fn announcements_are_filtered_and_marked_as_read() {
    let gateway = Gateway::start();
    let relay = Relay::start(&["m-a"]);
    let site = relay.site(&gateway, "Relay A");
    relay.account(&gateway, &site, "ada");
    relay.says("/api/notice", &json!("one"));
    sync(&gateway);
    relay.says("/api/notice", &json!("two"));
    sync(&gateway);
    let all = list(&gateway, "");
    assert_eq!((all.len(), &all[0]["content"]), (2, &json!("two")));
    gateway.admin().post(&format!("{PATH}/{}/read", all[1]["id"]), &json!({})).expect(200);
    for (query, contents) in [
        ("?read=true", vec!["one"]),
        ("?read=false", vec!["two"]),
        ("?status=active&limit=1", vec!["two"]),
        ("?status=expired", vec![]),
        ("?status=dismissed", vec![]),
        ("?status=anything&offset=1", vec!["one"]),
        ("?platform=new-api&siteId=1", vec!["two", "one"]),
        ("?platform=sub2api", vec![]),
        ("?limit=no", vec!["two", "one"]),
    ] {
        let query = query.replace("siteId=1", &format!("siteId={}", site["id"]));
        let found: Vec<Value> = list(&gateway, &query).iter().map(|row| row["content"].clone()).collect();
        assert_eq!(found, contents, "{query}");
    }
    let read_at = list(&gateway, "?read=true")[0]["readAt"].clone();
    gateway.admin().post(&format!("{PATH}/read-all"), &json!({})).expect(200);
    let read = list(&gateway, "?read=true");
    assert_eq!((read.len(), &read[1]["readAt"]), (2, &read_at));
    gateway.admin().delete(&format!("/api/sites/{}", site["id"])).expect(200);
    assert!(list(&gateway, "").is_empty());
}

#[test]
fn a_site_that_fails_holds_up_no_other() {
    let gateway = Gateway::start();
    let (good, bad) = (Relay::start(&["m-a"]), Relay::start(&["m-a"]));
    let broken = bad.site(&gateway, "Relay C");
    bad.account(&gateway, &broken, "bob");
    good.account(&gateway, &good.site(&gateway, "Relay A"), "ada");
    gateway.add("Keys", &Upstream::start(&["m-a"]));
    good.says("/api/notice", &json!("hello"));
    let page = Reply::html(503, "<html><title>maintenance</title></html>");
    bad.upstream.answer("/api/notice", page.clone());
    bad.upstream.answer("/api/status", page);
    let passed = sync(&gateway);
    assert_eq!(
        passed,
        json!({"scannedSites": 3, "inserted": 1, "updated": 0, "unsupported": 1, "notifications": 1, "events": 1,
            "failed": 1, "failedSites": [{"siteId": broken["id"], "siteName": "Relay C",
                "message": "HTTP 503: maintenance"}]})
    );
    let one = gateway.admin().post(&format!("{PATH}/sync"), &json!({"siteId": broken["id"]})).expect(200);
    assert_eq!(gateway.result_of_task(&json!({"jobId": one["taskId"]}))["scannedSites"], 1);
    gateway.admin().post(&format!("{PATH}/sync"), &json!({"siteId": "x"})).expect(400);
}

#[test]
fn a_site_with_ever_new_words_fills_no_database() {
    let gateway = Gateway::start();
    let relay = Relay::start(&["m-a"]);
    let site = relay.site(&gateway, "Relay A");
    relay.account(&gateway, &site, "ada");
    let announce = |from: usize| {
        let announcements: Vec<Value> =
            (from..from + 250).map(|n| json!({"content": format!("no {n}")})).collect();
        let status = json!({"success": true, "data": {"announcements": announcements}});
        relay.upstream.answer("/api/status", Reply::json(200, &status));
        sync(&gateway)["inserted"].clone()
    };
    for from in [0, 1000, 2000, 3000] {
        assert_eq!(announce(from), 200);
    }
    assert_eq!((list(&gateway, "?limit=500").len(), list(&gateway, "?limit=500&offset=500").len()), (500, 0));
    // The announcements that are shown stay known.
    assert_eq!(announce(3000), 0);
}
