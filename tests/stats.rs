//! The log and the statistics, over rows written into the database file: known numbers on known days.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::support::paths::CHAT;
use crate::support::{self, Gate, Gateway, Home, Reply, Setup, Upstream, eventually};

/// A gateway with two sites, restarted with the rows that `rows` (SQL) put into its file.
struct Seeded {
    gateway: Gateway,
    upstreams: [Upstream; 2],
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
        let database = home.database();
        for sql in rows {
            database.run(sql);
        }
        Self { gateway: setup.start_in(home), upstreams }
    }

    #[track_caller]
    fn get(&self, path: &str) -> Value {
        self.gateway.admin().get(path).expect(200)
    }
}

/// Rows of the log: three clients, one of them known only by its protocol.
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
        // Whole seconds: 1.5 s counts from its second on, and `to` excludes its own second.
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
    assert_eq!(seeded.gateway.home().database().number("SELECT SUM(calls) FROM usage_day"), 9);
    let again = seeded.gateway.admin().delete("/api/stats/proxy-logs").expect(200);
    assert_eq!(again["deletedProxyLogs"], 0);
}

/// Returns sums of two sites today and two days ago, hours of the first, check-ins and balances.
fn used() -> String {
    const HOUR: i64 = 3_600_000;
    let now = jiff::Timestamp::now();
    let day = |ago: i64| (now - jiff::SignedDuration::from_hours(24 * ago)).strftime("%Y-%m-%d").to_string();
    let now = now.as_millisecond();
    let hour = |ago: i64| (now / HOUR - ago) * HOUR;
    let (today, two_days, thirty_days) = (day(0), day(2), day(30));
    let (two_hours, thirty_hours) = (hour(2), hour(30));
    let (lately, earlier) = (now - 2 * HOUR, now - 48 * HOUR);
    format!(
        "UPDATE accounts SET balance = 2.5 WHERE site_id = 1;
    UPDATE accounts SET balance = 4, balance_used = 3 WHERE site_id = 2;
    INSERT INTO usage_day (local_day, site_id, model, tz, calls, ok, failed, tokens, cost, latency_ms, latency_n) VALUES
      ('{today}', 1, 'alpha', 'UTC', 3, 2, 1, 300, 0.75, 100, 2),
      ('{today}', 2, 'beta', 'UTC', 1, 1, 0, 50, 0.1234567, 30, 1),
      ('{two_days}', 1, 'beta', 'UTC', 4, 4, 0, 40, 0.5, 0, 0),
      ('{thirty_days}', 1, 'alpha', 'UTC', 9, 9, 0, 90, 1.5, 0, 0);
    INSERT INTO usage_hour (bucket_start, site_id, model, calls, ok, failed, tokens, cost, latency_ms, latency_n) VALUES
      ({two_hours}, 1, 'alpha', 2, 1, 1, 0, 0, 25, 2),
      ({two_hours}, 1, 'beta', 1, 1, 0, 0, 0, 0, 0),
      ({thirty_hours}, 1, 'alpha', 8, 8, 0, 0, 0, 0, 0);
    INSERT INTO checkin_logs (account_id, status, reward, created_at) VALUES
      (1, 'success', '0.5', {now}), (1, 'skipped', NULL, {now}), (1, 'failed', NULL, {now});
    INSERT INTO proxy_logs (site_id, account_id, model_requested, status, total_tokens, latency_ms, estimated_cost, created_at) VALUES
      (1, 1, 'alpha', 'success', 100, 10, 0.1, {lately}),
      (1, 1, 'alpha', 'retried', NULL, 10, 0, {lately}),
      (2, 2, 'beta', 'success', 7, 10, 0.1, {earlier});"
    )
}

const ONE_ZONE: &[(&str, &str)] = &[("TZ", "UTC")];

#[test]
fn the_summary_counts_what_active_sites_have_and_did() {
    let seeded = Seeded::with(ONE_ZONE, &[&used()]);
    let mut summary = seeded.get("/api/stats/dashboard?view=summary");
    assert!(summary["generatedAt"].as_str().is_some_and(|time| time.ends_with('Z')));
    let fields = summary.as_object_mut().expect("an object");
    fields.remove("generatedAt");
    assert_eq!(
        summary,
        json!({
            "totalBalance": 6.5, "totalUsed": 2.873457, "todaySpend": 0.873457, "todayReward": 0.5,
            "activeAccounts": 2, "totalAccounts": 2,
            "todayCheckin": {"success": 2, "failed": 1, "total": 3},
            "proxy24h": {"success": 1, "failed": 1, "total": 2, "totalTokens": 100}, "cacheHitRatio": null,
            "performance": {"windowSeconds": 60, "requestsPerMinute": 0, "tokensPerMinute": 0},
            "inFlight": 0,
        })
    );
    seeded.gateway.client().chat("alpha").expect(200);
    let fresh = seeded.get("/api/stats/dashboard?view=summary&refresh=1");
    assert_eq!(fresh["proxy24h"]["success"], 2);
    assert_eq!(fresh["performance"]["requestsPerMinute"], 1);
    seeded.gateway.admin().put("/api/sites/1", &json!({"status": "disabled"})).expect(200);
    let without = seeded.get("/api/stats/dashboard?view=summary&refresh=true");
    assert_eq!((&without["totalBalance"], &without["totalAccounts"]), (&json!(4), &json!(1)));
    assert_eq!((&without["totalUsed"], &without["proxy24h"]["total"]), (&json!(0.123457), &json!(0)));
    assert_eq!(without["todayCheckin"]["total"], 0);
    // Spending stays counted, even if the site is deleted.
    seeded.gateway.admin().delete("/api/sites/1").expect(200);
    let gone = seeded.get("/api/stats/dashboard?view=summary&refresh=true");
    assert_eq!((&gone["totalUsed"], &gone["totalAccounts"]), (&fresh["totalUsed"], &json!(1)));
    assert_eq!(gone["proxy24h"], fresh["proxy24h"]);
}

#[test]
fn the_summary_counts_requests_in_progress_although_it_is_kept() {
    let seeded = Seeded::with(ONE_ZONE, &[]);
    let in_flight = || seeded.get("/api/stats/dashboard?view=summary")["inFlight"].as_i64();
    assert_eq!(in_flight(), Some(0));
    let gate = Gate::new();
    let message = json!({"role": "assistant", "content": "x"});
    let answer = json!({"id": "1", "object": "chat.completion", "created": 1, "model": "alpha",
                        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]});
    seeded.upstreams[0].answer_once(CHAT, Reply::json(200, &answer).head_waits_for(&gate));
    std::thread::scope(|scope| {
        let running = scope.spawn(|| seeded.gateway.client().chat("alpha").expect(200));
        eventually("the request is counted", || (in_flight() == Some(1)).then_some(()));
        gate.open();
        running.join().expect("no panic");
    });
    eventually("it is over", || (in_flight() == Some(0)).then_some(()));
}

#[test]
fn the_insights_show_hours_and_models() {
    let seeded = Seeded::with(ONE_ZONE, &[&used()]);
    let insights = seeded.get("/api/stats/dashboard?view=insights");
    assert!(insights.get("totalBalance").is_none());
    let site = &insights["siteAvailability"][0];
    for (field, value) in [
        ("siteId", json!(1)),
        ("siteName", json!("one")),
        ("platform", json!("openai")),
        ("totalRequests", json!(3)),
        ("successCount", json!(2)),
        ("failedCount", json!(1)),
        ("availabilityPercent", json!(66.7)),
        ("averageLatencyMs", json!(13)),
    ] {
        assert_eq!(site[field], value, "{field}");
    }
    let buckets = site["buckets"].as_array().expect("buckets");
    assert_eq!(buckets.len(), 24);
    let used: Vec<_> = buckets.iter().filter(|bucket| bucket["totalRequests"] != 0).collect();
    assert_eq!((used.len(), &used[0]["totalRequests"]), (1, &json!(3)));
    let (start, label) =
        (used[0]["startUtc"].as_str().expect("a time"), used[0]["label"].as_str().expect("a label"));
    assert_eq!(start.replace('T', " ").replace(".000Z", ""), label);
    let idle = buckets.iter().find(|bucket| bucket["totalRequests"] == 0).expect("an idle hour");
    assert_eq!((&idle["availabilityPercent"], &idle["averageLatencyMs"]), (&Value::Null, &Value::Null));

    let analysis = &insights["modelAnalysis"];
    assert_eq!(analysis["window"]["days"], 7);
    assert_eq!(analysis["totals"], json!({"calls": 8, "tokens": 390, "spend": 1.373457}));
    assert_eq!(
        analysis["spendDistribution"],
        json!([{"model": "alpha", "spend": 0.75, "calls": 3}, {"model": "beta", "spend": 0.623457, "calls": 5}])
    );
    assert_eq!(
        analysis["callsDistribution"],
        json!([{"model": "beta", "calls": 5, "share": 62.5}, {"model": "alpha", "calls": 3, "share": 37.5}])
    );
    assert_eq!(
        analysis["callRanking"][1],
        json!({"model": "alpha", "calls": 3, "successRate": 66.67, "avgLatencyMs": 50, "spend": 0.75, "tokens": 300})
    );
    let trend = analysis["spendTrend"].as_array().expect("a trend");
    let spend: Vec<_> = trend.iter().map(|day| day["spend"].clone()).collect();
    assert_eq!(spend, [json!(0), json!(0), json!(0), json!(0), json!(0.5), json!(0), json!(0.873457)]);
    assert_eq!(trend[6]["day"], analysis["window"]["end"]);
}

#[test]
fn the_dashboard_keeps_its_numbers_for_a_moment_and_says_so() {
    let seeded = Seeded::with(ONE_ZONE, &[&used()]);
    let states = |query: &str| {
        let answer = seeded.gateway.admin().get(&format!("/api/stats/dashboard{query}"));
        let header = |name: &str| answer.header(name).map(str::to_owned);
        (header("x-dashboard-summary-cache"), header("x-dashboard-insights-cache"))
    };
    let state = |name: &str| Some(name.to_owned());
    assert_eq!(states("?view=summary"), (state("miss"), None));
    assert_eq!(states(""), (state("hit"), state("miss")));
    assert_eq!(states("?view=insights"), (None, state("hit")));
    assert_eq!(states("?view=full&refresh=yes"), (state("refresh"), state("refresh")));
    assert_eq!(states("?view=anything&refresh=0"), (state("hit"), state("hit")));
    let full = seeded.get("/api/stats/dashboard");
    assert!(full.get("totalBalance").is_some() && full.get("modelAnalysis").is_some());
}

#[test]
fn a_day_on_which_only_sites_that_are_gone_were_used_is_no_day_of_the_trend() {
    let (gateway, upstream) = (Gateway::start(), Upstream::start(&["alpha"]));
    let (site, _) = gateway.add("one", &upstream);
    gateway.client().chat("alpha").expect(200);
    gateway.wait_for_logs(1);
    let days = || {
        let answer = gateway.admin().get("/api/stats/site-trend?refresh=1").expect(200);
        answer["trend"].as_array().map(Vec::len)
    };
    assert_eq!(days(), Some(1));
    gateway.admin().delete(&format!("/api/sites/{}", site["id"])).expect(200);
    assert_eq!(days(), Some(0));
}

#[test]
fn sites_and_models_are_summed_by_local_day() {
    let seeded = Seeded::with(ONE_ZONE, &[&used()]);
    assert_eq!(
        seeded.get("/api/stats/site-distribution")["distribution"],
        json!([
            {"siteId": 1, "siteName": "one", "platform": "openai", "totalBalance": 2.5, "totalSpend": 2.75, "accountCount": 1},
            {"siteId": 2, "siteName": "two", "platform": "openai", "totalBalance": 4, "totalSpend": 0.123457, "accountCount": 1},
        ])
    );
    let trend = seeded.get("/api/stats/site-trend")["trend"].clone();
    assert_eq!(trend.as_array().map(Vec::len), Some(2), "{trend}");
    assert_eq!(trend[0]["sites"], json!({"one": {"spend": 0.5, "calls": 4}}));
    assert_eq!(
        trend[1]["sites"],
        json!({"one": {"spend": 0.75, "calls": 3}, "two": {"spend": 0.123457, "calls": 1}})
    );
    assert_eq!(trend[1]["sitesById"]["2"], json!({"siteName": "two", "spend": 0.123457, "calls": 1}));
    assert!(trend[0]["date"].as_str() < trend[1]["date"].as_str());
    assert_eq!(seeded.get("/api/stats/site-trend?days=1")["trend"].as_array().map(Vec::len), Some(1));
    assert_eq!(seeded.get("/api/stats/site-trend?days=366")["trend"].as_array().map(Vec::len), Some(3));
    let of_alpha = seeded.get("/api/stats/site-trend?model=alpha")["trend"].clone();
    let calls = |day: &serde_json::Value| day["sites"]["one"]["calls"].as_i64();
    let days = of_alpha.as_array().map(|days| days.iter().filter_map(calls).collect::<Vec<_>>());
    assert_eq!(days, Some(vec![3]), "{of_alpha}");
    assert_eq!(seeded.get("/api/stats/site-trend?model=none")["trend"], json!([]));
    assert_eq!(
        seeded.get("/api/stats/model-by-site?siteId=1")["models"],
        json!([
            {"model": "beta", "calls": 4, "spend": 0.5, "tokens": 40},
            {"model": "alpha", "calls": 3, "spend": 0.75, "tokens": 300},
        ])
    );
    assert_eq!(seeded.get("/api/stats/model-by-site")["models"][0]["calls"], 5);
    assert_eq!(seeded.get("/api/stats/model-by-site?siteId=99")["models"], json!([]));
    for (path, field) in [
        ("site-distribution?days=0", "days"),
        ("site-trend?days=367", "days"),
        ("site-trend?days=many", "days"),
        ("model-by-site?days=-1", "days"),
        ("model-by-site?days=1.5", "days"),
        ("model-by-site?siteId=0", "siteId"),
        ("model-by-site?siteId=x", "siteId"),
    ] {
        let refused = seeded.gateway.admin().get(&format!("/api/stats/{path}")).expect(400);
        assert!(refused["message"].as_str().is_some_and(|text| text.contains(field)), "{path}: {refused}");
    }
}

#[test]
fn clearing_the_usage_forgets_sums_counters_and_cooldowns() {
    let one_dialect = ("DISABLE_CROSS_PROTOCOL_FALLBACK", "true");
    let seeded = Seeded::with(&[ONE_ZONE[0], one_dialect], &[&used()]);
    seeded.gateway.client().chat("alpha").expect(200);
    seeded.upstreams[1].answer("/v1/chat/completions", support::Reply::error(500, "boom"));
    seeded.gateway.client().chat("beta").expect(500);
    eventually("the failure has been told of", || {
        let told = seeded.get("/api/events?type=proxy");
        told.as_array().is_some_and(|events| !events.is_empty()).then_some(())
    });
    let answer = seeded.gateway.admin().post("/api/settings/maintenance/clear-usage", &json!({})).expect(200);
    assert_eq!((&answer["success"], &answer["deletedProxyLogs"]), (&json!(true), &json!(5)));
    assert!(answer["message"].is_string());
    assert_eq!(seeded.get("/api/stats/proxy-logs")["total"], 0);
    assert_eq!(seeded.get("/api/stats/dashboard?view=summary")["totalUsed"], 0);
    for model in ["alpha", "beta"] {
        let channel = &seeded.gateway.channels(model)[0];
        for field in ["successCount", "failCount", "totalLatencyMs", "consecutiveFailCount"] {
            assert_eq!(channel[field], 0, "{model} {field}");
        }
        for field in ["lastUsedAt", "lastSelectedAt", "lastFailAt", "cooldownUntil"] {
            assert_eq!(channel[field], Value::Null, "{model} {field}");
        }
    }
    let event = &seeded.get("/api/events?limit=1")[0];
    assert_eq!((&event["type"], &event["level"]), (&json!("status"), &json!("warning")));
    // A channel whose cooldown was ended serves at once, and a restart does not bring the cooldown back.
    seeded.upstreams[1].answer_faithfully();
    seeded.gateway.client().chat("beta").expect(200);
}
