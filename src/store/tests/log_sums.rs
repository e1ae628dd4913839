//! Lists and totals of the log are the same whether it is summed or not, whatever happens to its rows
//! afterwards.

use super::super::log_sums::sum_up;
use super::super::proxy_logs::{ClientFilter, LogFilter, LogStatus, LogSummary, ProxyLogRow, StatusFilter};
use super::*;
use crate::ids::{KeyId, LogId, SiteId};
use crate::money::Usd;
use crate::store::{key_usage, stats};

const HOUR: i64 = 3_600_000;
/// A time at which a day begins.
const START: i64 = 1_777_593_600_000;
/// A time when all of the log has been over for long.
const LATER: i64 = START + 1_000 * HOUR;

/// Twenty days with a row every three hours, of three sites, four models, two clients and two outcomes.
fn rows() -> impl Iterator<Item = ProxyLogRow> {
    (0..160_i64).map(|n| ProxyLogRow {
        site_id: Some(SiteId::new(1 + n % 3)),
        model_requested: Some(format!("model-{}", n % 4).into()),
        client_family: Some(["codex", "generic"][n as usize % 2]),
        client_app_id: (n % 5 == 0).then(|| "app".into()),
        client_app_name: (n % 5 == 0).then(|| "App".into()),
        downstream_api_key_id: (n % 2 == 0).then_some(KeyId::new(7)),
        total_tokens: Some(n),
        ..ProxyLogRow::new(
            START + 3 * n * HOUR + n,
            if n % 7 == 0 { LogStatus::Failed } else { LogStatus::Success },
        )
    })
}

fn filters() -> Vec<LogFilter> {
    let all = LogFilter::default;
    vec![
        all(),
        LogFilter { status: StatusFilter::Success, ..all() },
        LogFilter { status: StatusFilter::Failed, site_id: Some(SiteId::new(2)), ..all() },
        LogFilter { search: Some("MODEL-3".into()), ..all() },
        LogFilter { search: Some("nothing".into()), ..all() },
        LogFilter { search: Some("model-3".into()), site_id: Some(SiteId::new(1)), ..all() },
        LogFilter { model_requested: Some("model-1".into()), from: Some(START + 30 * HOUR), ..all() },
        LogFilter { client: Some(ClientFilter::App("APP".into())), ..all() },
        LogFilter { client: Some(ClientFilter::Family("codex".into())), to: Some(START + 7 * HOUR), ..all() },
        LogFilter { from: Some(START + HOUR), to: Some(START + 2 * HOUR), ..all() },
        LogFilter { from: Some(START + 5 * HOUR), to: Some(START + 100 * HOUR + 1), ..all() },
        LogFilter { from: Some(LATER), ..all() },
    ]
}

/// Every answer that can be asked of the log.
async fn told(store: &Store) -> Vec<String> {
    let mut told = Vec::new();
    for filter in filters() {
        for (limit, offset) in [(1, 0), (50, 0), (7, 20), (50, 90), (100, 155), (10, 500)] {
            let (items, total) = proxy_logs::list(store, &filter, limit, offset).await.unwrap();
            let ids: Vec<LogId> = items.iter().map(|item| item.id).collect();
            told.push(format!("{filter:?} {limit} {offset}: {total} {ids:?}"));
        }
        let summary = proxy_logs::summary(store, &filter).await.unwrap();
        let mut clients: Vec<String> = Vec::new();
        for client in proxy_logs::client_options(store, &filter).await.unwrap() {
            clients.push(format!("{client:?}"));
        }
        clients.sort_unstable();
        let cost = format!("{:.6}", summary.total_cost);
        let summary = LogSummary { total_cost: Usd::ZERO, ..summary };
        told.push(format!("{filter:?}: {summary:?} {cost} {clients:?}"));
    }
    for from in [0, START + 5 * HOUR, START + 60 * HOUR] {
        let logged = stats::logged_since(store, from).await.unwrap();
        told.push(format!("{from}: {:?} {:.6}", stats::Sums { cost: Usd::ZERO, ..logged }, logged.cost));
        let one = key_usage::since(store, KeyId::new(7), from).await.unwrap();
        let mut of_all = key_usage::by_key_since(store, from).await.unwrap();
        let of_all = of_all.remove(&KeyId::new(7)).unwrap_or_default();
        for used in [one, of_all] {
            let cost = format!("{:.6}", used.cost);
            told.push(format!("{from}: {:?} {cost}", key_usage::KeyUsage { cost: Usd::ZERO, ..used }));
        }
        for (quarter, used) in key_usage::by_quarter(store, KeyId::new(7), from).await.unwrap() {
            told.push(format!("{from}: {quarter} {used:?}"));
        }
    }
    told
}

/// Returns a store whose log is all summed, and the answers from before.
async fn summed() -> (Dir, Store, Vec<String>) {
    let dir = Dir::new();
    let store = dir.open();
    rows().for_each(|row| store.telemetry().log(row));
    store.flush().await;
    let before = told(&store).await;
    assert_eq!(sum_up(&store, LATER).await, Ok(80));
    (dir, store, before)
}

#[tokio::test]
async fn the_log_in_sums_tells_what_its_rows_tell() {
    let dir = Dir::new();
    let store = dir.open();
    sites::insert(&store, site("one")).await.unwrap();
    rows().for_each(|row| store.telemetry().log(row));
    store.flush().await;
    let before = told(&store).await;
    // Only the first days have been over for long enough.
    let some = sum_up(&store, START + 50 * HOUR).await.unwrap();
    assert_eq!(told(&store).await, before, "{some} spans");
    let more = sum_up(&store, LATER).await.unwrap();
    assert_eq!((some, more), (8, 72), "six hours each");
    assert_eq!(told(&store).await, before);
    assert_eq!(sum_up(&store, LATER).await, Ok(0));
    let summed = "SELECT SUM(calls) FROM proxy_log_sums";
    assert_eq!(dir.raw().number(summed), 160);

    // Late rows are shown at once, and summed the next time.
    let late: Vec<ProxyLogRow> = rows().take(9).collect();
    late.into_iter().for_each(|row| store.telemetry().log(row));
    store.flush().await;
    let with_late = told(&store).await;
    assert_ne!(with_late, before);
    assert!(dir.raw().number(summed) < 160);
    assert_eq!(sum_up(&store, LATER).await, Ok(5));
    assert_eq!(told(&store).await, with_late);
    assert_eq!(dir.raw().number(summed), 169);

    // Deleted rows are in no sum.
    proxy_logs::prune(&store, START + 100 * HOUR).await.unwrap();
    let left = told(&store).await;
    assert_eq!(proxy_logs::summary(&store, &LogFilter::default()).await.unwrap().total_count, 126);
    sum_up(&store, LATER).await.unwrap();
    assert_eq!(told(&store).await, left);
    proxy_logs::prune(&store, LATER).await.unwrap();
    assert_eq!(proxy_logs::summary(&store, &LogFilter::default()).await.unwrap().total_count, 0);
}

#[tokio::test]
async fn spans_that_a_former_release_summed_are_summed_again() {
    let (dir, store, before) = summed().await;
    let former = dir.raw();
    former.run("DELETE FROM proxy_log_model_sums");
    // All spans, as after an update, and later one that an instance of the former release still made.
    for spans in ["start_at > 0".to_owned(), format!("start_at = {}", START + 48 * HOUR)] {
        let count = former.number(&format!("SELECT COUNT(*) FROM proxy_log_spans WHERE {spans}"));
        former.run(&format!("UPDATE proxy_log_spans SET has_narrow_sums = FALSE WHERE {spans}"));
        assert_eq!(told(&store).await, before);
        assert_eq!(sum_up(&store, LATER).await, Ok(count.unsigned_abs()));
        assert_eq!(told(&store).await, before);
    }
    assert_eq!(former.number("SELECT SUM(calls) FROM proxy_log_model_sums"), 160);
}

#[tokio::test]
async fn the_update_that_brings_narrow_sums_makes_them_of_the_others() {
    let (dir, store, before) = summed().await;
    store.close().await;
    let former = dir.raw();
    for undone in [
        "DROP TABLE proxy_log_site_sums",
        "DROP TABLE proxy_log_model_sums",
        "ALTER TABLE proxy_log_spans DROP COLUMN has_narrow_sums",
        "DELETE FROM schema_migrations WHERE name = '0106_narrow_log_sums'",
    ] {
        former.run(undone);
    }
    let store = dir.open();
    assert_eq!(told(&store).await, before);
    assert_eq!(sum_up(&store, LATER).await, Ok(0), "all of it was summed already");
}
