//! What the log and the statistics tell, from rows written into the file: known numbers on known days.

mod support;

use std::sync::Arc;

use serde_json::{Value, json};
use support::{Gateway, Home, Setup, Upstream};

/// A gateway with two sites, started again on what `rows` (SQL) put into its file.
struct Seeded {
    gateway: Gateway,
    _upstreams: [Upstream; 2],
}

impl Seeded {
    fn with(variables: &[(&str, &str)], rows: &[&str]) -> Self {
        let upstreams = [Upstream::start(&["alpha"]), Upstream::start(&["beta"])];
        let home = Home::new();
        let setup = variables.iter().fold(Setup::default(), |setup, (name, value)| setup.with(name, value));
        let mut gateway = setup.clone().start_in(Arc::clone(&home));
        gateway.add("one", &upstreams[0]);
        gateway.add("two", &upstreams[1]);
        gateway.signal("TERM");
        gateway.wait_for_exit();
        drop(gateway);
        let database = rusqlite::Connection::open(home.data_dir().join("switchyard.db")).expect("it opens");
        for sql in rows {
            database.execute_batch(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
        }
        drop(database);
        Self { gateway: setup.start_in(home), _upstreams: upstreams }
    }

    #[track_caller]
    fn get(&self, path: &str) -> Value {
        self.gateway.admin().get(path).expect(200)
    }
}

/// Rows of the log: three clients, one of them known by its protocol only.
const CLIENTS: &str =
    "INSERT INTO proxy_logs (site_id, model_requested, status, client_family, client_app_id, \
     client_app_name, client_confidence, total_tokens, estimated_cost, billing_details, created_at) VALUES
     (1, 'alpha', 'success', 'codex', NULL, NULL, 'exact', 7, 0.5, '{\"quotaType\":0}', 1777622400000),
     (1, 'alpha', 'success', 'generic', 'Cursor', 'Cursor', 'heuristic', 3, 0.25, NULL, 1777622401500),
     (2, 'beta', 'retried', 'generic', NULL, NULL, 'unknown', NULL, 0, NULL, 1777622402000),
     (2, 'beta', 'failed', 'claude_code', 'cursor', 'cursor', 'exact', NULL, 0, NULL, 1777622403999);";

#[test]
fn the_log_is_filtered_by_client() {
    let seeded = Seeded::with(&[("PROXY_LOG_RETENTION_DAYS", "0")], &[CLIENTS]);
    for (query, count) in [
        ("client=app:cursor", 2),
        ("client=APP:CURSOR", 2),
        ("client=family:codex", 1),
        ("client=family:generic", 2),
        ("client=family:", 4),
        ("client=cursor", 4),
        ("client=app:nobody", 0),
        ("client=app:cursor&status=failed", 1),
        ("status=failed", 2),
        ("from=2026-05-01T08:00:02Z", 2),
        // Whole seconds: 1.5 s counts from its second on, and `to` excludes its own.
        ("from=2026-05-01T08:00:01.900Z", 3),
        ("to=2026-05-01T08:00:01.900Z", 1),
        ("to=2026-05-01 08:00:03", 3),
    ] {
        let page = seeded.get(&format!("/api/stats/proxy-logs?{}", query.replace(' ', "%20")));
        assert_eq!(page["total"], count, "{query}");
    }
}

#[test]
fn client_options_ignore_the_client_filter_and_the_summary_the_status() {
    let seeded = Seeded::with(&[("PROXY_LOG_RETENTION_DAYS", "0")], &[CLIENTS]);
    let page = seeded.get("/api/stats/proxy-logs?client=family:codex&status=failed");
    assert_eq!(page["total"], 0);
    assert_eq!(
        page["clientOptions"],
        json!([
            {"value": "app:cursor", "label": "App · cursor"},
            {"value": "family:claude_code", "label": "Protocol · Claude Code"},
        ])
    );
    assert_eq!(
        page["summary"],
        json!({"totalCount": 1, "successCount": 1, "failedCount": 0, "totalCost": 0.5, "totalTokensAll": 7})
    );
    let all = seeded.get("/api/stats/proxy-logs?view=meta");
    assert_eq!(
        all["clientOptions"],
        json!([
            {"value": "app:cursor", "label": "App · Cursor"},
            {"value": "family:claude_code", "label": "Protocol · Claude Code"},
            {"value": "family:codex", "label": "Protocol · Codex"},
        ])
    );
    assert_eq!(
        all["summary"],
        json!({"totalCount": 4, "successCount": 2, "failedCount": 2, "totalCost": 0.75, "totalTokensAll": 10})
    );
    assert_eq!(
        all["sites"],
        json!([{"id": 1, "name": "one", "status": "active"}, {"id": 2, "name": "two", "status": "active"}])
    );
}

#[test]
fn billing_details_are_shown_with_one_row_and_in_no_list() {
    let seeded = Seeded::with(&[("PROXY_LOG_RETENTION_DAYS", "0")], &[CLIENTS]);
    assert_eq!(seeded.get("/api/stats/proxy-logs/1")["billingDetails"], json!({"quotaType": 0}));
    assert_eq!(seeded.get("/api/stats/proxy-logs/2")["billingDetails"], Value::Null);
    assert!(seeded.get("/api/stats/proxy-logs")["items"][0].get("billingDetails").is_none());
}

#[test]
fn clearing_the_log_says_how_much_went_and_keeps_the_sums() {
    let day = "INSERT INTO usage_day (local_day, site_id, model, tz, calls) \
        VALUES ('2026-05-01', 1, 'alpha', 'UTC', 9)";
    let seeded = Seeded::with(&[("PROXY_LOG_RETENTION_DAYS", "0")], &[CLIENTS, day]);
    let answer = seeded.gateway.admin().delete("/api/stats/proxy-logs").expect(200);
    assert_eq!(answer, json!({"success": true, "deletedProxyLogs": 4}));
    assert_eq!(seeded.get("/api/stats/proxy-logs")["total"], 0);
    let database =
        rusqlite::Connection::open(seeded.gateway.home().data_dir().join("switchyard.db")).expect("it opens");
    let calls = database.query_row("SELECT SUM(calls) FROM usage_day", [], |row| row.get::<_, i64>(0));
    assert_eq!(calls.expect("a sum"), 9);
    let again = seeded.gateway.admin().delete("/api/stats/proxy-logs").expect(200);
    assert_eq!(again["deletedProxyLogs"], 0);
}
