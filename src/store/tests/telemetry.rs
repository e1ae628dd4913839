//! Log rows, counters and usage: handed over, written in groups, read back.

use std::collections::HashSet;

use super::super::proxy_logs::{ClientFilter, ClientOption, LogFilter, LogStatus, ProxyLogRow, StatusFilter};
use super::*;
use crate::ids::{AccountId, ChannelId, EndpointId, KeyId, LogId, SiteId};
use crate::money::Usd;
use crate::platform::Platform;
use crate::request_id::RequestId;
use crate::routing::{ChannelLive, ChannelTotals, EndpointLive, EndpointState, LiveTable};
use crate::store::amend::{Amendment, Correction, LoggedTokens, RowName, amend};
use crate::store::cached_tokens::CachedTokens;
use crate::store::proxy_logs::UsageSource;
use crate::store::shared_cooldowns::SharedCooldowns;
use crate::store::telemetry::debug_trace::{DebugAttempt, DebugTrace};
use crate::sync::NewlyDirty;

fn row(at: i64, status: LogStatus) -> ProxyLogRow {
    ProxyLogRow {
        site_id: Some(SiteId::new(1)),
        account_id: Some(AccountId::new(1)),
        model_requested: Some("gpt-5".into()),
        total_tokens: Some(1000),
        latency_ms: Some(20),
        ..ProxyLogRow::new(at, status)
    }
}

#[tokio::test]
async fn what_was_handed_over_is_committed_when_flush_returns() {
    let dir = Dir::new();
    let store = dir.open();
    for n in 0..1234 {
        store.telemetry().log(row(n, LogStatus::Success));
    }
    store.flush().await;
    assert_eq!(dir.raw().number("SELECT COUNT(*) FROM proxy_logs"), 1234);
    store.flush().await;
    store.close().await;
    store.flush().await;
}

#[tokio::test]
async fn rows_of_one_group_keep_what_is_theirs_and_share_nothing_else() {
    let dir = Dir::new();
    let store = dir.open();
    let plain = row(1, LogStatus::Success);
    let other = ProxyLogRow {
        created_at: 2,
        model_requested: None,
        model_actual: Some("gpt-5".into()),
        error_message: Some("gpt-5".into()),
        is_stream: Some(true),
        http_status: Some(1),
        ..row(2, LogStatus::Failed)
    };
    let again = ProxyLogRow { created_at: 3, is_stream: Some(false), ..plain.clone() };
    // More rows than are inserted together, in an order that does not match.
    let rounds = 9;
    for round in 0..rounds {
        for row in [&plain, &other, &again] {
            store.telemetry().log(ProxyLogRow { created_at: row.created_at + round * 3, ..row.clone() });
        }
    }
    store.flush().await;
    let (mut items, _) = proxy_logs::list(&store, &LogFilter::default(), 100, 0).await.unwrap();
    items.reverse();
    let seen: Vec<_> = items
        .iter()
        .map(|item| {
            let models = (item.model_requested.as_deref(), item.model_actual.as_deref());
            (item.status.as_str(), models, item.error_message.as_deref(), item.is_stream, item.http_status)
        })
        .collect();
    let wanted = [
        ("success", (Some("gpt-5"), None), None, None, None),
        ("failed", (None, Some("gpt-5")), Some("gpt-5"), Some(true), Some(1)),
        ("success", (Some("gpt-5"), None), None, Some(false), None),
    ];
    assert_eq!(seen, wanted.repeat(rounds as usize));
}

#[tokio::test]
async fn a_store_that_is_dropped_writes_what_waits() {
    let dir = Dir::new();
    let store = dir.open();
    store.telemetry().log(row(1, LogStatus::Failed));
    drop(store);
    assert_eq!(count(&dir.open(), "proxy_logs").await, 1);
}

#[tokio::test]
async fn usage_is_summed_in_the_transaction_of_the_log() {
    let dir = Dir::new();
    let store = dir.open();
    let veloera = ProxyLogRow { platform: Some(Platform::Veloera), ..row(0, LogStatus::Success) };
    let priced = ProxyLogRow { estimated_cost: Usd::new(0.25), ..row(0, LogStatus::Success) };
    for row in [row(0, LogStatus::Success), veloera, priced, row(0, LogStatus::Failed)] {
        store.telemetry().log(row);
        store.flush().await;
    }
    let sql = "SELECT calls, ok, failed, tokens, latency_ms, latency_n, cost FROM";
    for table in ["usage_hour", "usage_day"] {
        let rows = store.query(format!("{sql} {table}"), vec![]).await.unwrap();
        assert_eq!(rows.len(), 1, "{table}");
        let mut fields = rows[0].fields();
        let sums: Vec<i64> = (0..6).map(|_| fields.int().unwrap()).collect();
        assert_eq!(sums, [4, 3, 1, 4000, 80, 4], "{table}");
        // 1000 tokens without a price cost 0.002, on veloera 0.001. Those of a failure count as spent, too.
        assert!((fields.real().unwrap() - 0.255).abs() < 1e-9, "{table}");
    }
    let spend = spend::by_account_since(&store, 0).await.unwrap();
    assert_eq!(spend[&AccountId::new(1)].rounded(), Usd::new(0.253));
}

#[tokio::test]
async fn what_becomes_known_later_amends_the_row_and_the_usage_tables() {
    let dir = Dir::new();
    let store = dir.open();
    let request_id = RequestId::next();
    let logged = ProxyLogRow {
        request_id: Some(request_id),
        downstream_api_key_id: Some(KeyId::new(3)),
        ..row(7, LogStatus::Success)
    };
    let retried = ProxyLogRow { retry_count: 1, ..logged.clone() };
    let refused = ProxyLogRow { status: LogStatus::Failed, total_tokens: None, ..retried.clone() };
    for row in [logged, refused, retried] {
        store.telemetry().log(row);
    }
    let name = RowName {
        created_at: 7,
        request_id,
        retry_count: 1,
        site_id: SiteId::new(1),
        model: "gpt-5".into(),
        key_id: Some(KeyId::new(3)),
    };
    let amendment = Amendment {
        row: name,
        tokens: Some(LoggedTokens { prompt: 400, completion: 200, total: 600, source: UsageSource::SelfLog }),
        cost: Usd::new(0.5),
        billing_details: Some("{}".into()),
        cached: Some(CachedTokens { input: 400, read: 300, creation: 0 }),
        more: Correction {
            tokens: -400,
            input: -300,
            output: -100,
            cost: Usd::new(0.498),
            spend: Usd::new(0.498),
            cached: CachedTokens { input: 400, read: 300, creation: 0 },
        },
        charged: None,
        is_key_reset: false,
        claim: None,
    };
    store.flush().await;
    assert!(amend(&store, &jiff::tz::TimeZone::UTC, amendment.clone()).await.unwrap());
    let (rows, _) = proxy_logs::list(&store, &LogFilter::default(), 10, 0).await.unwrap();
    let mut told: Vec<_> =
        rows.iter().map(|row| (row.retry_count, row.total_tokens, row.estimated_cost)).collect();
    told.sort_by_key(|(number, tokens, _)| (*number, *tokens));
    let refused = (1, None, Usd::ZERO);
    assert_eq!(told, [(0, Some(1000), Usd::new(0.002)), refused, (1, Some(600), Usd::new(0.5))]);
    for table in ["usage_hour", "usage_day"] {
        let rows = store.query(format!("SELECT calls, tokens, cost FROM {table}"), vec![]).await.unwrap();
        assert_eq!(rows.len(), 1, "{table}");
        let mut fields = rows[0].fields();
        assert_eq!((fields.int().unwrap(), fields.int().unwrap()), (3, 1600), "{table}");
        assert!((fields.real().unwrap() - 0.502).abs() < 1e-9, "{table}");
    }
    let told = key_days::total(&store, Some(KeyId::new(3))).await.unwrap();
    assert_eq!(told.cost.rounded(), Usd::new(0.502), "{told:?}");
    assert_eq!(told.cache_read_tokens, 300);
    // When all usage has been cleared, only the days of the key still count the row.
    store.batch(stats::forget_usage(&store, 8)).await.unwrap();
    proxy_logs::prune(&store, 8).await.unwrap();
    assert!(!amend(&store, &jiff::tz::TimeZone::UTC, amendment).await.unwrap());
    assert_eq!((count(&store, "proxy_logs").await, count(&store, "usage_hour").await), (0, 0));
    let told = key_days::total(&store, Some(KeyId::new(3))).await.unwrap();
    assert_eq!(told.cost.rounded(), Usd::new(1.0), "{told:?}");
}

#[tokio::test]
async fn counters_are_added_and_states_replaced() {
    let dir = Dir::new();
    let store = dir.open();
    let new = NewSite { endpoints: vec![endpoint("https://a")], ..site("blue") };
    let id = sites::insert(&store, new).await.unwrap();
    accounts::insert(&store, api_key(id, "sk")).await.unwrap();
    dir.raw().run(
        "INSERT INTO token_routes (model_pattern, created_at, updated_at) VALUES ('m', 0, 0);
         INSERT INTO route_channels (route_id, account_id, created_at, updated_at) VALUES (1, 1, 0, 0);
         INSERT INTO channel_stats (channel_id, success_count, total_cost) VALUES (1, 10, 1.5);",
    );
    let channel = Arc::new(ChannelLive::new(ChannelId::new(1), ChannelTotals::default()));
    let gone = Arc::new(ChannelLive::new(ChannelId::new(99), ChannelTotals::default()));
    let address = Arc::new(EndpointLive::new(Some(EndpointId::new(1)), EndpointState::default()));
    let telemetry = store.telemetry();
    telemetry.dirty_channel(&channel, channel.record_success(5_000, 300, Usd::from_nano(250_000_000)));
    telemetry.dirty_channel(&channel, channel.record_failure(6_000, 606_000));
    telemetry.dirty_channel(&gone, gone.record_success(5_000, 1, Usd::from_nano(1)));
    telemetry.dirty_endpoint(&address, address.record_failure(7_000, 307_000, "HTTP 502"));
    store.flush().await;
    // The next change is handed over anew.
    telemetry.dirty_channel(&channel, channel.record_success(8_000, 100, Usd::from_nano(0)));
    store.flush().await;

    let stats = routes::list_channels(&store).await.unwrap()[0].stats;
    assert_eq!((stats.success_count, stats.fail_count, stats.total_latency_ms), (12, 1, 400));
    assert_eq!(stats.total_cost.rounded(), Usd::new(1.75));
    assert_eq!((stats.last_used_at, stats.last_fail_at, stats.cooldown_until), (Some(8_000), None, None));
    let pool = sites::get(&store, id).await.unwrap().unwrap().endpoints;
    assert_eq!(pool[0].cooldown_until, Some(307_000));
    assert_eq!(pool[0].last_failure_reason.as_deref(), Some("HTTP 502"));
}

#[tokio::test]
async fn under_overload_rows_are_dropped_and_counted_and_nobody_waits() {
    if database::is_on_server() {
        return; // It takes the lock of the file.
    }
    let dir = Dir::new();
    let store = dir.open();
    let blocker = rusqlite::Connection::open(dir.0.join("switchyard.db")).unwrap();
    blocker.execute_batch("BEGIN IMMEDIATE").unwrap();
    let telemetry = store.telemetry();
    for n in 0..20_000 {
        telemetry.log(row(n, LogStatus::Success));
    }
    // Rows that the writer has already taken count as waiting.
    assert_eq!(telemetry.dropped(), 20_000 - 16_384);
    blocker.execute_batch("COMMIT").unwrap();
    store.flush().await;
    assert_eq!(count(&store, "proxy_logs").await as u64 + telemetry.dropped(), 20_000);
    assert_eq!(telemetry.waiting(), 0);
}

#[tokio::test]
async fn a_database_that_fails_for_a_while_loses_no_rows() {
    let dir = Dir::new();
    let store = dir.open();
    let meddler = dir.raw();
    meddler.refuse_inserts("proxy_logs", "1 = 1");
    for n in 0..700 {
        store.telemetry().log(row(n, LogStatus::Success));
    }
    // Commands continue meanwhile, and nobody waits for the end of the trouble.
    sites::insert(&store, site("blue")).await.unwrap();
    for _ in 0..2 {
        store.flush().await;
        assert_eq!(count(&store, "proxy_logs").await, 0);
    }
    meddler.allow_changes("proxy_logs");
    store.flush().await;
    assert_eq!(count(&store, "proxy_logs").await, 700);
    assert_eq!(store.telemetry().dropped(), 0);
}

#[tokio::test]
async fn old_hours_are_deleted_and_days_stay() {
    const HOUR: i64 = 3_600_000;
    let dir = Dir::new();
    let store = dir.open();
    for hour in 0..100 {
        store.telemetry().log(row(hour * HOUR, LogStatus::Success));
    }
    store.flush().await;
    assert_eq!(stats::prune_hours(&store, 60 * HOUR).await, Ok(60));
    assert_eq!(dir.raw().number("SELECT MIN(bucket_start) FROM usage_hour"), 60 * HOUR);
    assert_eq!(dir.raw().number("SELECT SUM(calls) FROM usage_day"), 100);
    assert_eq!(stats::prune_hours(&store, 60 * HOUR).await, Ok(0));
}

#[tokio::test]
async fn what_the_database_always_refuses_holds_up_nothing_else() {
    let dir = Dir::new();
    let store = dir.open();
    let meddler = dir.raw();
    meddler.refuse_inserts("proxy_logs", "NEW.model_requested = 'refused'");
    meddler.refuse_inserts("usage_day", "NEW.site_id = 2");
    for site in [1, 2] {
        let of_site = row(1, LogStatus::Success);
        store.telemetry().log(ProxyLogRow { site_id: Some(SiteId::new(site)), ..of_site.clone() });
        store.telemetry().log(ProxyLogRow { model_requested: Some("refused".into()), ..of_site });
    }
    // Each flush is an attempt; after some it is no passing trouble.
    for _ in 0..10 {
        store.flush().await;
    }
    assert_eq!(count(&store, "proxy_logs").await, 2);
    assert_eq!(store.telemetry().dropped(), 2);
    assert_eq!(
        dir.raw().number("SELECT SUM(calls) FROM usage_day WHERE site_id = 1"),
        3,
        "sums lose nothing"
    );
    meddler.allow_changes("usage_day");
    store.telemetry().log(ProxyLogRow { site_id: Some(SiteId::new(2)), ..row(1, LogStatus::Success) });
    store.flush().await;
    assert_eq!(dir.raw().number("SELECT COUNT(*) FROM usage_day WHERE site_id = 2"), 1);
}

fn trace(attempts: usize) -> DebugTrace {
    DebugTrace { attempts: vec![DebugAttempt::default(); attempts], ..DebugTrace::default() }
}

#[tokio::test]
async fn a_trace_that_the_database_always_refuses_holds_up_nothing() {
    let dir = Dir::new();
    let store = dir.open();
    dir.raw().refuse_inserts("proxy_debug_traces", "1 = 1");
    store.telemetry().trace(trace(1));
    // Each flush is an attempt; after some it is no passing trouble.
    for _ in 0..10 {
        store.flush().await;
    }
    store.telemetry().log(row(1, LogStatus::Success));
    store.flush().await;
    assert_eq!(count(&store, "proxy_logs").await, 1);
    assert_eq!(store.telemetry().waiting(), 0);
}

#[tokio::test]
async fn a_trace_keeps_its_attempts_beside_a_row_that_the_database_refuses() {
    let dir = Dir::new();
    let store = dir.open();
    let meddler = dir.raw();
    meddler.refuse_inserts("proxy_logs", "NEW.model_requested = 'refused'");
    meddler.refuse_inserts("proxy_debug_attempts", "NEW.endpoint = 'refused'");
    for attempts in [0, 2, 1] {
        store.telemetry().trace(trace(attempts));
    }
    let refused = DebugAttempt { endpoint: "refused".into(), ..DebugAttempt::default() };
    store.telemetry().trace(DebugTrace { attempts: vec![refused], ..trace(0) });
    store
        .telemetry()
        .log(ProxyLogRow { model_requested: Some("refused".into()), ..row(1, LogStatus::Success) });
    for _ in 0..10 {
        store.flush().await;
    }
    let attempts = "SELECT COUNT(a.id) FROM proxy_debug_traces t LEFT JOIN proxy_debug_attempts a \
                    ON a.trace_id = t.id GROUP BY t.id ORDER BY t.id";
    let attempts = store.query(attempts, vec![]).await.unwrap();
    let attempts: Vec<_> = attempts.iter().map(|row| row.fields().int().unwrap()).collect();
    assert_eq!(attempts, [0, 2, 1]);
    assert_eq!(count(&store, "proxy_logs").await, 0);
}

#[tokio::test]
async fn the_log_is_filtered_paged_and_summed_up() {
    let dir = Dir::new();
    let store = dir.open();
    let site_id = sites::insert(&store, site("blue")).await.unwrap();
    accounts::insert(&store, NewAccount { username: Some("ann".into()), ..api_key(site_id, "sk") })
        .await
        .unwrap();
    let requests = [0; 5].map(|_| RequestId::next());
    for (n, request) in (0..).zip(requests) {
        store.telemetry().log(ProxyLogRow {
            request_id: Some(request),
            client_family: Some("codex"),
            client_app_id: Some("app1".into()),
            client_app_name: Some("App One".into()),
            ..row(1000 + n, LogStatus::Success)
        });
    }
    let other = ProxyLogRow {
        site_id: Some(SiteId::new(7)),
        account_id: None,
        model_requested: Some("100%_pure".into()),
        model_actual: Some("MODÈLE-1".into()),
        client_family: Some("generic"),
        ..row(2000, LogStatus::Failed)
    };
    store.telemetry().log(other);
    store.flush().await;

    let all = LogFilter::default();
    let (items, total) = proxy_logs::list(&store, &all, 2, 1).await.unwrap();
    assert_eq!(total, 6);
    let ids: Vec<_> = items.iter().filter_map(|item| item.request_id.as_deref()).collect();
    assert_eq!(ids, [requests[4].as_str(), requests[3].as_str()]);
    assert_eq!(items[0].username.as_deref(), Some("ann"));
    assert_eq!(items[0].site_name.as_deref(), Some("blue"));
    let total = async |filter: &LogFilter| proxy_logs::list(&store, filter, 50, 0).await.unwrap().1;
    let search = |text: &str| LogFilter { search: Some(text.into()), ..LogFilter::default() };
    assert_eq!(total(&search("GPT")).await, 5);
    assert_eq!(total(&search("MODÈLE")).await, 1, "letters beyond ASCII are found as they were written");
    assert_eq!(total(&search("%_p")).await, 1);
    assert_eq!(total(&search("g_t")).await, 0, "no wildcards for the caller");
    assert_eq!(total(&LogFilter { site_id: Some(SiteId::new(7)), ..LogFilter::default() }).await, 1);
    assert_eq!(total(&LogFilter { from: Some(1001), to: Some(2000), ..LogFilter::default() }).await, 4);
    assert_eq!(
        total(&LogFilter { client: Some(ClientFilter::App("APP1".into())), ..LogFilter::default() }).await,
        5
    );

    let failed = LogFilter { status: StatusFilter::Failed, ..LogFilter::default() };
    assert_eq!(total(&failed).await, 1);
    let summary = proxy_logs::summary(&store, &failed).await.unwrap();
    assert_eq!((summary.total_count, summary.success_count, summary.failed_count), (6, 5, 1));
    assert_eq!(summary.total_tokens, 6000);
    let family = LogFilter { client: Some(ClientFilter::Family("none".into())), ..LogFilter::default() };
    let options = proxy_logs::client_options(&store, &family).await.unwrap();
    let app = ClientOption::App { id: "app1".into(), name: "App One".into() };
    assert_eq!(options, HashSet::from([app, ClientOption::Family("codex".into())]));
    assert_eq!(
        proxy_logs::get(&store, items[0].id).await.unwrap().unwrap().request_id.as_deref(),
        Some(requests[4].as_str())
    );
    assert_eq!(proxy_logs::get(&store, LogId::new(999)).await.unwrap(), None);
}

#[tokio::test]
async fn pruning_takes_what_is_older_than_the_cutoff_in_chunks() {
    let dir = Dir::new();
    let store = dir.open();
    for n in 0..2600 {
        store.telemetry().log(row(n, LogStatus::Success));
    }
    store.flush().await;
    assert_eq!(proxy_logs::prune(&store, 2500).await, Ok(2500));
    assert_eq!(proxy_logs::prune(&store, 2500).await, Ok(0));
    assert_eq!(count(&store, "proxy_logs").await, 100);
    let rows = store.query("SELECT MIN(created_at) FROM proxy_logs", vec![]).await.unwrap();
    assert_eq!(rows[0].fields().int(), Ok(2500));
}

#[tokio::test]
async fn failures_and_the_rows_of_a_key_are_found_by_an_index() {
    if database::is_on_server() {
        return; // It inspects the file.
    }
    let dir = Dir::new();
    let store = dir.open();
    for (rows, index) in
        [("l.status <> 'success'", "proxy_logs_failed"), ("l.downstream_api_key_id = 1", "proxy_logs_key")]
    {
        let sql = format!(
            "EXPLAIN QUERY PLAN SELECT l.id FROM proxy_logs l WHERE {rows} ORDER BY l.created_at DESC"
        );
        let plan = format!("{:?}", store.query(sql, vec![]).await.unwrap());
        assert!(plan.contains(index) && !plan.contains("TEMP"), "{rows}: {plan}");
    }
}

#[tokio::test]
async fn an_address_that_cools_at_one_instance_cools_at_all_until_it_answers_any() {
    if !database::is_on_server() {
        return;
    }
    let dir = Dir::new();
    let stores = [dir.open(), dir.open()];
    let id = sites::insert(&stores[0], NewSite { endpoints: vec![endpoint("https://a")], ..site("blue") });
    let id = id.await.unwrap();
    let tables = [(); 2].map(|()| LiveTable::default());
    let [one, other] = [0, 1].map(|at| tables[at].endpoint(EndpointId::new(1), EndpointState::default));
    let cooldowns = [(); 2].map(|()| SharedCooldowns::default());
    let write = async |at: usize, live: &Arc<EndpointLive>, dirty: NewlyDirty| {
        stores[at].telemetry().dirty_endpoint(live, dirty);
        stores[at].flush().await;
        cooldowns[1 - at].follow(&stores[1 - at], &tables[1 - at]).await.unwrap();
    };

    write(0, &one, one.record_failure(7_000, 307_000, "HTTP 502")).await;
    assert_eq!(other.cooldown_until(), Some(307_000));
    // An instance that knows of no failure takes nothing back.
    write(1, &other, other.record_selection(7_500)).await;
    assert_eq!(one.cooldown_until(), Some(307_000));
    write(1, &other, other.record_failure(8_000, 308_000, "HTTP 503")).await;
    assert_eq!(one.cooldown_until(), Some(308_000));

    write(0, &one, one.record_success(9_000)).await;
    assert_eq!((one.cooldown_until(), other.cooldown_until()), (None, None));
    let row = sites::get(&stores[0], id).await.unwrap().unwrap().endpoints.swap_remove(0);
    assert_eq!((row.cooldown_until, row.last_failure_reason), (None, None));
    assert_eq!((row.last_selected_at, row.last_failed_at), (Some(7_500), Some(8_000)));
}

#[tokio::test]
async fn old_traces_go_and_then_the_oldest_beyond_what_all_may_take() {
    let dir = Dir::new();
    let store = dir.open();
    let raw = dir.raw();
    let half = debug_traces::MAX_STORED_BYTES / 2;
    for (at, bytes) in [(10, 1), (20, half), (30, half - 1), (40, 1)] {
        let sql = "INSERT INTO proxy_debug_traces (downstream_path, stored_bytes, created_at, updated_at) \
                   VALUES ('/v1/chat/completions', ?, ?, ?)";
        raw.execute(sql, &[&bytes, &at, &at]);
    }
    let left = || raw.texts("SELECT created_at FROM proxy_debug_traces ORDER BY created_at");
    assert_eq!(debug_traces::prune(&store, 20).await, Ok(1));
    assert_eq!(left(), ["20", "30", "40"]);
    raw.execute("UPDATE proxy_debug_traces SET stored_bytes = ? WHERE created_at = 40", &[&2_i64]);
    assert_eq!(debug_traces::prune(&store, 20).await, Ok(1));
    assert_eq!(left(), ["30", "40"]);
}
