//! The proxy log: every attempt is a row, filtered, paged, summed up, and pruned.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::paths::CHAT;
use crate::support::{
    self, Gateway, Home, Reply, Request, Setup, Upstream, eventually, eventually_within, seconds_ahead, wire,
};

/// Starts two sites: three successes on `alpha`, one failure on `beta` (the client's own mistake).
fn filled() -> (Gateway, [Upstream; 2]) {
    let (one, two) = (Upstream::start(&["alpha"]), Upstream::start(&["beta_x", "betaxx"]));
    let gateway = Gateway::start();
    gateway.add("one", &one);
    gateway.add("two", &two);
    for _ in 0..2 {
        gateway.client().chat("alpha").expect(200);
    }
    gateway.client().chat_streamed("alpha");
    two.answer(CHAT, Reply::error(400, "Unknown parameter: x"));
    gateway.client().chat("beta_x").expect(400);
    gateway.wait_for_logs(4);
    (gateway, [one, two])
}

fn page(gateway: &Gateway, query: &str) -> Value {
    gateway.admin().get(&format!("/api/stats/proxy-logs{query}")).expect(200)
}

fn items(gateway: &Gateway, query: &str) -> Vec<Value> {
    page(gateway, query)["items"].as_array().expect("items").clone()
}

#[test]
fn a_row_tells_what_happened() {
    let (gateway, _upstreams) = filled();
    let rows = gateway.wait_for_logs(4);
    for (field, value) in [
        ("modelRequested", json!("alpha")),
        ("modelActual", json!("alpha")),
        ("status", json!("success")),
        ("httpStatus", json!(200)),
        ("isStream", json!(false)),
        ("promptTokens", json!(wire::PROMPT_TOKENS)),
        ("completionTokens", json!(wire::COMPLETION_TOKENS)),
        ("totalTokens", json!(wire::PROMPT_TOKENS + wire::COMPLETION_TOKENS)),
        ("usageSource", json!("upstream")),
        ("retryCount", json!(0)),
        ("siteName", json!("one")),
        ("downstreamApiKeyId", json!(null)),
    ] {
        assert_eq!(rows[0].get(field), Some(&value), "{field}: {}", rows[0]);
    }
    assert!(rows[0]["estimatedCost"].is_number());
    assert!((-60..=1).contains(&seconds_ahead(&rows[0]["createdAt"])), "{}", rows[0]);
    assert_eq!(rows[2]["isStream"], true);
    assert_eq!(rows[3]["status"], "failed");
    assert_eq!(rows[3]["httpStatus"], 400);
    let message = rows[3]["errorMessage"].as_str().unwrap_or_default();
    assert!(message.contains("[downstream:/v1/chat/completions]"), "{message}");
    assert!(message.contains("Unknown parameter: x"), "{message}");
}

#[test]
fn one_row_can_be_read_by_itself() {
    let (gateway, _upstreams) = filled();
    let row = &gateway.wait_for_logs(4)[0];
    let one = gateway.admin().get(&format!("/api/stats/proxy-logs/{}", row["id"])).expect(200);
    assert_eq!(one["id"], row["id"]);
    assert_eq!(one["modelRequested"], "alpha");
    assert!(one.get("billingDetails").is_some(), "{one}");
    assert!(gateway.admin().get("/api/stats/proxy-logs/99999").expect(404)["message"].is_string());
    assert!(gateway.admin().get("/api/stats/proxy-logs/x1").expect(400)["message"].is_string());
}

#[test]
fn one_row_tells_the_attempts_of_its_request_and_its_trace() {
    let upstreams = [Upstream::start(&["gamma"]), Upstream::start(&["gamma"])];
    let gateway = Gateway::start();
    gateway.admin().put("/api/settings/runtime", &json!({ "proxyDebugTraceEnabled": true })).expect(200);
    for (upstream, name) in upstreams.iter().zip(["one", "two"]) {
        upstream.answer(CHAT, Reply::error(500, "out of steam"));
        gateway.add(name, upstream);
    }
    gateway.client().chat("gamma").expect(500);
    let rows = gateway.wait_for_logs(2);
    let one = page(&gateway, &format!("/{}", rows[0]["id"]));
    let ids = |rows: &Value| -> Vec<i64> {
        rows.as_array().expect("rows").iter().filter_map(|row| row["id"].as_i64()).collect()
    };
    assert_eq!(ids(&one["attempts"]), [1, 2], "{one}");
    let trace = gateway.admin().get(&format!("/api/stats/proxy-debug/traces/{}", one["traceId"])).expect(200);
    assert_eq!(trace["trace"]["traceHint"], one["requestId"]);
    let third = Upstream::start(&["delta"]);
    gateway.add("three", &third);
    gateway.client().chat("delta").expect(200);
    gateway.wait_for_logs(3);
    assert_eq!(ids(&page(&gateway, "/3")["attempts"]), [3]);
}

#[test]
fn the_newest_row_comes_first_and_pages_follow() {
    let (gateway, _upstreams) = filled();
    let all = page(&gateway, "");
    assert_eq!((&all["total"], &all["page"], &all["pageSize"]), (&json!(4), &json!(1), &json!(50)));
    let ids: Vec<i64> = items(&gateway, "").iter().map(|row| row["id"].as_i64().expect("an id")).collect();
    assert!(ids.windows(2).all(|pair| pair[0] > pair[1]), "{ids:?}");
    let second = page(&gateway, "?limit=3&offset=3");
    assert_eq!((&second["total"], &second["page"], &second["pageSize"]), (&json!(4), &json!(2), &json!(3)));
    assert_eq!(second["items"][0]["id"], ids[3]);
    for offset in ["10", "9223372036854775807", "1e30"] {
        assert!(items(&gateway, &format!("?limit=1&offset={offset}")).is_empty(), "{offset}");
    }
    // A value out of range is brought back into it.
    assert_eq!(page(&gateway, "?limit=1000")["pageSize"], 100);
    assert_eq!(page(&gateway, "?limit=0")["pageSize"], 1);
}

#[test]
fn rows_are_filtered() {
    let (gateway, _upstreams) = filled();
    let sites = gateway.admin().get("/api/sites").expect(200);
    let site = |index: usize| sites[index]["id"].as_i64().expect("an id");
    for (query, count) in [
        ("?status=success".to_owned(), 3),
        ("?status=failed".to_owned(), 1),
        ("?status=anything".to_owned(), 4),
        ("?search=ALPH".to_owned(), 3),
        ("?search=beta_x".to_owned(), 1),
        ("?search=%25".to_owned(), 0),
        ("?search=alpha%00".to_owned(), 0),
        ("?search=a_pha".to_owned(), 0),
        ("?search=nothing-like-it".to_owned(), 0),
        (format!("?siteId={}", site(0)), 3),
        (format!("?siteId={}", site(1)), 1),
        (format!("?siteId={}&status=success", site(1)), 0),
        ("?from=2020-01-01".to_owned(), 4),
        ("?from=2099-01-01".to_owned(), 0),
        ("?to=2020-01-01T00:00:00Z".to_owned(), 0),
        ("?from=2020-01-01&to=2099-01-01".to_owned(), 4),
        ("?from=nonsense".to_owned(), 4),
        ("?client=nonsense".to_owned(), 4),
    ] {
        let answer = page(&gateway, &query);
        assert_eq!(answer["items"].as_array().map(Vec::len), Some(count), "{query}");
        assert_eq!(answer["total"], count, "{query}");
    }
}

#[test]
fn a_search_looks_within_each_tag_of_a_key() {
    let (gateway, upstream) = Gateway::serving(&["alpha"]);
    upstream.answer("/v1/chat/completions", Reply::json(200, &wire::chat("alpha")));
    let key = json!({"name": "k", "key": "sk-of-a-team", "supportedModels": ["*"],
        "tags": ["prod", "EU \"q\"", "a\\b", "x, y]"]});
    gateway.add_key(&key).chat("alpha").expect(200);
    gateway.wait_for_logs(1);
    for (search, count) in [
        ("PRO", 1),
        ("%22q%22", 1),
        ("eu+%22", 1),
        ("a%5Cb", 1),
        ("x,+y]", 1),
        ("%22", 1),
        ("%5C%22", 0),
        ("[", 0),
        ("%22,%22", 0),
        ("%22prod", 0),
        ("q%22,", 0),
        ("%25", 0),
    ] {
        assert_eq!(items(&gateway, &format!("?search={search}")).len(), count, "{search}");
    }
}

#[test]
fn a_search_finds_letters_of_any_alphabet_in_either_case() {
    let (gateway, _upstream) = Gateway::serving(&["Модель-ΑΣΑ"]);
    let key = json!({"name": "Schlüssel ÄÖ", "key": "sk-of-a-team", "supportedModels": ["*"], "groupName": "École",
        "tags": ["ÜBUNG"]});
    gateway.add_key(&key).chat("Модель-ΑΣΑ").expect(200);
    gateway.wait_for_logs(1);
    for search in ["мОДЕЛЬ-ασα", "МОДЕЛЬ", "SCHLÜSSEL äö", "éCOLE", "übung"] {
        let query: String = search.bytes().map(|byte| format!("%{byte:02X}")).collect();
        assert_eq!(items(&gateway, &format!("?search={query}")).len(), 1, "{search}");
    }
}

#[test]
fn the_summary_counts_what_every_filter_but_the_status_leaves() {
    let (gateway, _upstreams) = filled();
    let tokens = 3 * (wire::PROMPT_TOKENS + wire::COMPLETION_TOKENS);
    for query in ["", "?status=failed", "?view=meta"] {
        let summary = page(&gateway, query)["summary"].clone();
        assert_eq!(summary["totalCount"], 4, "{query}: {summary}");
        assert_eq!(summary["successCount"], 3, "{query}");
        assert_eq!(summary["failedCount"], 1, "{query}");
        assert_eq!(summary["totalTokensAll"], tokens, "{query}");
        assert!(summary["totalCost"].is_number(), "{query}");
    }
    assert_eq!(page(&gateway, "?search=beta")["summary"]["totalCount"], 1);
    let meta = page(&gateway, "");
    assert!(meta["clientOptions"].is_array());
    let names: Vec<_> = meta["sites"].as_array().expect("sites").iter().map(|site| &site["name"]).collect();
    assert_eq!(names, ["one", "two"]);
}

#[test]
fn one_half_of_the_answer_may_be_asked_for() {
    let (gateway, _upstreams) = filled();
    let query = page(&gateway, "?view=query");
    assert!(query.get("items").is_some() && query.get("summary").is_none(), "{query}");
    let meta = page(&gateway, "?view=meta");
    assert!(meta.get("items").is_none() && meta.get("summary").is_some(), "{meta}");
}

#[test]
fn a_row_outlives_the_site_it_was_about() {
    let (gateway, _upstreams) = filled();
    let site = gateway.admin().get("/api/sites").expect(200)[0]["id"].clone();
    gateway.admin().delete(&format!("/api/sites/{site}")).expect(200);
    let rows = gateway.wait_for_logs(4);
    assert_eq!(rows[0]["modelRequested"], "alpha");
    assert_eq!(rows[0]["siteName"], json!(null), "{}", rows[0]);
}

#[test]
fn a_request_that_was_never_sent_upstream_is_no_attempt() {
    let gateway = Gateway::start();
    gateway.client().post(CHAT, &json!({"messages": []})).expect(400);
    gateway.anyone().post(CHAT, &json!({"model": "m"})).expect(401);
    assert!(gateway.logs().is_empty());
}

/// Stores three rows, makes all but one of them 40 days old, and restarts with a retention of `days`.
fn after_forty_days(days: &str) -> (Gateway, Upstream) {
    let upstream = Upstream::start(&["alpha"]);
    let home = Home::new();
    let mut gateway = Setup::default().start_in(home.clone());
    gateway.add("site", &upstream);
    for _ in 0..3 {
        gateway.client().chat("alpha").expect(200);
    }
    gateway.wait_for_logs(3);
    gateway.signal("TERM");
    gateway.wait_for_exit();
    let database = home.database();
    let newest = database.number("SELECT MAX(id) FROM proxy_logs");
    let aged = "UPDATE proxy_logs SET created_at = created_at - 3456000000 WHERE id < ?";
    assert_eq!(database.execute(aged, &[&newest]), 2);
    (Setup::default().with("PROXY_LOG_RETENTION_DAYS", days).start_in(home), upstream)
}

#[test]
fn rows_older_than_the_retention_are_pruned_at_start() {
    for days in ["", "39"] {
        let (gateway, _upstream) = after_forty_days(days);
        eventually("the old rows are gone", || (gateway.logs().len() == 1).then_some(()));
    }
}

#[test]
fn without_a_retention_nothing_is_pruned() {
    for days in ["0", "41"] {
        let (gateway, _upstream) = after_forty_days(days);
        gateway.client().chat("alpha").expect(200);
        gateway.wait_for_logs(4);
    }
}

/// Returns the name and data of the next event of the live log, skipping comments.
#[track_caller]
fn next_live(live: &mut support::Stream) -> (String, Value) {
    loop {
        let event = live.next_event().expect("an event").expect("the log goes on");
        let Some(rest) = event.strip_prefix("event: ") else {
            assert!(event.starts_with(':'), "{event}");
            continue;
        };
        let (name, data) = rest.split_once("\ndata: ").expect("data");
        return (name.to_owned(), serde_json::from_str(data).expect("JSON"));
    }
}

#[test]
fn the_live_log_shows_rows_as_they_come() {
    let (gateway, _upstream) = Gateway::serving(&["alpha"]);
    gateway.client().chat("alpha").expect(200);
    gateway.wait_for_logs(1);
    assert_eq!(gateway.anyone().get("/api/stats/live").status, 401);
    let mut live = gateway.admin().stream(Request::new("GET", "/api/stats/live"));
    assert_eq!((live.status, live.header("content-type")), (200, Some("text/event-stream; charset=utf-8")));
    for _ in 0..2 {
        gateway.client().chat("alpha").expect(200);
        let (name, row) = next_live(&mut live);
        assert_eq!(name, "log");
        assert_eq!(row, items(&gateway, "?limit=1")[0], "as the list shows it");
    }
}

#[test]
fn the_live_log_shows_fifty_rows_a_second_and_counts_the_rest() {
    let gateway = Gateway::start();
    let mut live = gateway.admin().stream(Request::new("GET", "/api/stats/live"));
    let now = std::time::SystemTime::UNIX_EPOCH.elapsed().expect("a clock after 1970").as_millis() as i64;
    let rows = vec![format!("('success', {now}, 0)"); 1000].join(", ");
    gateway
        .home()
        .database()
        .run(&format!("INSERT INTO proxy_logs (status, created_at, retry_count) VALUES {rows}"));
    let mut shown = 0;
    let (name, data) = loop {
        match next_live(&mut live) {
            (name, _) if name == "log" => shown += 1,
            told => break told,
        }
    };
    assert_eq!((name.as_str(), shown, &data["count"]), ("skipped", 50, &json!(950)));
}

#[test]
fn the_live_log_has_few_readers_who_leave_their_places_to_others() {
    let gateway = Gateway::start();
    let open = || gateway.admin().stream(Request::new("GET", "/api/stats/live"));
    let mut readers: Vec<_> = (0..16).map(|_| open()).collect();
    assert!(readers.iter().all(|reader| reader.status == 200));
    let refused = gateway.admin().get("/api/stats/live");
    assert_eq!(refused.status, 429, "{}", refused.text());
    assert_eq!(refused.json()["success"], false);
    drop(readers.pop());
    eventually("a place is free", || (open().status == 200).then_some(()));
}

#[test]
fn the_live_log_ends_when_the_service_stops_or_the_token_changes() {
    let mut gateway = Gateway::start();
    let open = |gateway: &Gateway| gateway.admin().stream(Request::new("GET", "/api/stats/live"));
    let before = open(&gateway);
    let change = json!({"oldToken": support::ADMIN_TOKEN, "newToken": "another-token-of-the-tests"});
    gateway.admin().post("/api/settings/auth/change", &change).expect(200);
    assert!(before.rest().1.is_ok(), "it ends cleanly");
    let bearer = "Bearer another-token-of-the-tests";
    let after = Request::new("GET", "/api/stats/live").header("authorization", bearer);
    let after = gateway.anyone().stream(after);
    assert_eq!(after.status, 200);
    gateway.signal("TERM");
    assert!(after.rest().1.is_ok(), "it ends cleanly");
    assert!(gateway.wait_for_exit().success());
}

#[test]
fn what_a_refused_row_counts_towards_is_counted() {
    let (gateway, _upstream) = Gateway::serving(&["model-counted"]);
    gateway.home().database().refuse_inserts("proxy_logs", "NEW.retry_count >= 0");
    for _ in 0..3 {
        gateway.client().chat("model-counted").expect(200);
    }
    // A database server only says that it failed, so the gateway retries for twelve seconds.
    let events = eventually_within(Duration::from_secs(60), "the rows are dropped", || {
        let events = gateway.admin().get("/api/events").expect(200).to_string();
        events.contains("log row").then_some(events)
    });
    assert!(events.contains("the database refuses them") && !events.contains("keep up"), "{events}");
    let gateway = gateway.restart();
    assert_eq!(gateway.channels("model-counted")[0]["successCount"], 3);
    assert_eq!(gateway.logs().len(), 0);
}
