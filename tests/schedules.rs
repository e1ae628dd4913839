//! Scheduled work: at the times of saved schedules, which apply as soon as they are saved.

use serde_json::{Value, json};

use crate::support::{Gateway, Home, Setup, Upstream, eventually};

const RUNTIME: &str = "/api/settings/runtime";
const EVERY_SECOND: &str = "* * * * * *";
const NEW_YEAR: &str = "0 0 1 1 *";

#[track_caller]
fn save(gateway: &Gateway, change: &Value) {
    gateway.admin().put(RUNTIME, change).expect(200);
}

#[test]
fn a_saved_schedule_holds_at_once() {
    let gateway = Gateway::start();
    save(&gateway, &json!({"balanceRefreshCron": NEW_YEAR}));
    let upstream = Upstream::start(&["m-a"]);
    gateway.add("Relay A", &upstream);
    save(&gateway, &json!({"balanceRefreshCron": EVERY_SECOND}));
    let lists = || upstream.asked_for("/v1/models").len();
    let before = lists();
    eventually("the accounts are asked again and again", || (lists() >= before + 2).then_some(()));
    upstream.offer(&["m-a", "m-b"]);
    eventually("the new model is routed", || {
        let listed = gateway.client().get("/v1/models").expect(200);
        listed["data"].as_array().expect("models").iter().any(|model| model["id"] == "m-b").then_some(())
    });
    save(&gateway, &json!({"balanceRefreshCron": NEW_YEAR}));
    assert_eq!(gateway.admin().get(RUNTIME).expect(200)["balanceRefreshCron"], NEW_YEAR);
}

#[test]
fn a_stored_text_that_is_no_schedule_leaves_the_default() {
    let home = Home::new();
    drop(Setup::default().start_in(home.clone()));
    let text = |name: &str, value: &str| {
        let sql = "INSERT INTO settings (name, value, updated_at) VALUES (?, ?, 0)";
        home.database().execute(sql, &[&name, &value]);
    };
    text("checkin_cron", "\"soon\"");
    text("balance_refresh_cron", "\"61 * * * *\"");
    text("daily_summary_cron", "7");
    text("checkin_schedule_mode", "\"hourly\"");
    text("checkin_interval_hours", "0");
    let gateway = Setup::default().with("CHECKIN_CRON", "30 7 * * *").start_in(home);
    let shown = gateway.admin().get(RUNTIME).expect(200);
    for (field, value) in [
        ("checkinCron", json!("30 7 * * *")),
        ("balanceRefreshCron", json!("0 * * * *")),
        ("dailySummaryCron", json!("58 23 * * *")),
        ("checkinScheduleMode", json!("cron")),
        ("checkinIntervalHours", json!(6)),
    ] {
        assert_eq!(shown[field], value, "{field}");
    }
}

#[test]
fn the_schedule_of_check_ins_can_be_set_alone() {
    let gateway = Gateway::start();
    let put = |body: &Value, status| gateway.admin().put("/api/checkin/schedule", body).expect(status);
    assert_eq!(
        put(&json!({"cron": "15 6 * * *"}), 200),
        json!({"success": true, "mode": "cron", "cron": "15 6 * * *"})
    );
    assert_eq!(
        put(&json!({"mode": "interval", "intervalHours": 12}), 200),
        json!({"success": true, "mode": "interval", "intervalHours": 12})
    );
    let shown = gateway.admin().get(RUNTIME).expect(200);
    for (field, value) in [
        ("checkinScheduleMode", json!("interval")),
        ("checkinIntervalHours", json!(12)),
        ("checkinCron", json!("15 6 * * *")),
    ] {
        assert_eq!(shown[field], value, "{field}");
    }
    for (field, bad) in [
        ("cron", json!({"cron": "soon"})),
        ("mode", json!({"mode": "hourly"})),
        ("intervalHours", json!({"mode": "interval", "intervalHours": 25})),
        ("intervalHours", json!({"mode": "interval", "intervalHours": 1.5})),
        ("intervalHours", json!({"mode": "interval", "intervalHours": "6"})),
        ("intervalHours", json!({"mode": "interval", "intervalHours": null})),
    ] {
        let refused = put(&bad, 400);
        let message = refused["message"].as_str().expect("a message");
        assert!(message.starts_with(&format!("Invalid {field}. Expected ")), "{message}");
        assert_eq!(refused["success"], false);
        assert_eq!(refused["error"], refused["message"]);
    }
    // Without a mode, it is cron.
    assert_eq!(put(&json!({}), 200), json!({"success": true, "mode": "cron", "cron": "15 6 * * *"}));
}

#[test]
fn the_log_cleanup_takes_old_rows_by_its_schedule() {
    const DAY_MS: i64 = 86_400_000;
    let (gateway, _upstream, account) = Gateway::with_account(&["m-a"]);
    let account = account["id"].as_i64().expect("an id");
    let database = gateway.home().database();
    let now = i64::try_from(std::time::UNIX_EPOCH.elapsed().expect("a clock").as_millis()).expect("small");
    let old = "INSERT INTO events (type, title, created_at) VALUES ('status', 'old', ?)";
    database.execute(old, &[&(now - 8 * DAY_MS)]);
    let insert = "INSERT INTO checkin_logs (account_id, status, message, created_at) \
                  VALUES (?, 'success', ?, ?)";
    for (message, days) in [("of today", 0), ("of last week", 8)] {
        database.execute(insert, &[&account, &message, &(now - days * DAY_MS)]);
    }
    let logs = || gateway.admin().get("/api/checkin/logs").expect(200).as_array().expect("rows").clone();
    assert_eq!(logs().len(), 2);
    save(
        &gateway,
        &json!({"logCleanupCron": EVERY_SECOND, "logCleanupProgramLogsEnabled": true, "logCleanupRetentionDays": 7}),
    );
    let left = eventually("the old check-in goes", || Some(logs()).filter(|logs| logs.len() == 1));
    assert_eq!(left[0]["checkin_logs"]["message"], "of today");
    let events = gateway.admin().get("/api/events?limit=500").expect(200);
    assert!(events.as_array().expect("events").iter().all(|event| event["title"] != "old"));
    // Runs are recorded, so that each time of a schedule is served only once.
    assert!(database.number("SELECT COUNT(*) FROM job_runs WHERE job = 'log cleanup'") >= 1);
}

#[test]
fn the_day_is_summed_up_by_its_schedule() {
    let gateway = Gateway::start();
    // Without a recipient it is an error in the log, and nothing else.
    save(&gateway, &json!({"dailySummaryCron": EVERY_SECOND}));
    gateway.wait_for_output("the daily summary reached nobody");
    let hook = gateway.send_notices_to_a_webhook();
    let summaries = || {
        let told = hook.asked_for("/hook").into_iter().map(|asked| asked.json());
        told.filter(|notice| notice["title"].as_str().is_some_and(|title| title.starts_with("Daily summary")))
            .collect::<Vec<_>>()
    };
    // No notification cool-down holds it back.
    eventually("two summaries are sent", || (summaries().len() >= 2).then_some(()));
    let told = summaries().remove(0);
    assert_eq!(told["level"], "info");
    let message = told["message"].as_str().expect("a text");
    assert!(message.contains("Accounts: 0 (0 active, 0 below 1 USD)"), "{message}");
    assert!(message.contains("Net: 0.000000 USD"), "{message}");
    // An empty schedule means never.
    save(&gateway, &json!({"dailySummaryCron": ""}));
    gateway.admin().put(RUNTIME, &json!({"dailySummaryCron": "soon"})).expect(400);
}
