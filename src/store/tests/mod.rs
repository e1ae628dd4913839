//! The store with real files, each test in a directory of its own.

mod budgets;
mod change_signals;
#[path = "../../../tests/support/database.rs"]
#[allow(dead_code)] // The tests of the binary use more of it.
mod database;
mod following;
mod keys;
mod leases;
mod log_sums;
mod rebuilds;
mod rekeying;
mod reset;
mod sealing;
mod snapshot;
mod telemetry;

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::accounts::{AccountPatch, AccountStatus, NewAccount};
use super::availability::Discovered;
use super::events::{EventFilter, EventLevel, NewEvent};
use super::sites::{NewEndpoint, NewSite, SitePatch, SiteStatus};
use super::sql::SqlDialect;
use super::*;
use crate::config::DatabaseKind;
use crate::ids::SiteId;

/// A directory that is deleted with the test, and a database of its own where tests run on a server.
pub(super) struct Dir(pub(super) PathBuf, Option<database::ServerDatabase>);

impl Dir {
    pub(super) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name =
            format!("switchyard-store-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        // A run that was killed leaves its directory behind, and process ids are reused.
        let _ = std::fs::remove_dir_all(&path);
        Self(path, database::ServerDatabase::create())
    }

    fn options(&self, secret: &str) -> StoreOptions {
        let options = StoreOptions::in_dir(&self.0, secret);
        let Some(server) = &self.1 else { return options };
        let kind = if server.kind() == "mysql" { DatabaseKind::MySql } else { DatabaseKind::Postgres };
        StoreOptions { kind, db_url: server.url(), ..options }
    }

    pub(super) fn open(&self) -> Store {
        Store::open(self.options("a secret")).expect("the store opens")
    }

    /// Opens the database beside the store's own connections, to inspect and manipulate its content.
    fn raw(&self) -> database::Database {
        match &self.1 {
            Some(server) => server.open(),
            None => database::Database::file(self.0.join("switchyard.db")),
        }
    }

    /// Whether any file here, or any table of a database on a server, contains these bytes.
    fn holds(&self, needle: &str) -> bool {
        if self.1.is_some() {
            return self.raw().contents().iter().any(|(_, rows)| rows.contains(needle));
        }
        std::fs::read_dir(&self.0).expect("the directory is there").any(|entry| {
            let bytes = std::fs::read(entry.expect("an entry").path()).expect("a readable file");
            memchr::memmem::find(&bytes, needle.as_bytes()).is_some()
        })
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn site(name: &str) -> NewSite {
    NewSite::named(name, format!("https://{name}.example.com"), "new-api")
}

fn endpoint(url: &str) -> NewEndpoint {
    NewEndpoint { url: url.into(), enabled: true, sort_order: 0 }
}

fn api_key(site_id: SiteId, key: &str) -> NewAccount {
    NewAccount { api_token: Some(Secret::new(key)), ..NewAccount::on_site(site_id) }
}

async fn count(store: &Store, table: &str) -> i64 {
    let rows = store.query(format!("SELECT COUNT(*) FROM {table}"), Vec::new()).await.unwrap();
    rows[0].fields().int().unwrap()
}

#[tokio::test]
async fn what_was_stored_is_there_after_reopening() {
    let dir = Dir::new();
    let store = dir.open();
    let new = NewSite { endpoints: vec![endpoint("https://a"), endpoint("https://b")], ..site("blue") };
    let id = sites::insert(&store, new).await.unwrap();
    let account = accounts::insert(&store, api_key(id, "sk-blue")).await.unwrap();
    let before = sites::get(&store, id).await.unwrap().unwrap();
    store.close().await;
    assert_eq!(sites::insert(&store, site("late")).await, Err(Error::Closed));
    drop(store);

    let store = dir.open();
    let after = sites::get(&store, id).await.unwrap().unwrap();
    assert_eq!(after, before);
    assert_eq!(after.endpoints.len(), 2);
    assert_eq!(sites::list(&store).await.unwrap(), vec![after]);
    let account = accounts::get(&store, account).await.unwrap().unwrap();
    assert_eq!(account.api_token.unwrap().expose(), "sk-blue");
    assert_eq!(sites::find(&store, "new-api", "https://blue.example.com").await, Ok(Some(id)));
}

#[tokio::test]
async fn a_query_under_way_ends_before_the_database_is_closed() {
    if database::is_on_server() {
        return;
    }
    let dir = Dir::new();
    let store = dir.open();
    sites::insert(&store, site("blue")).await.unwrap();
    let slow = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 1000000) \
                SELECT COUNT(*) FROM c, (SELECT COUNT(*) FROM sites)";
    let (counted, ()) = tokio::join!(store.query(slow, Vec::new()), store.close());
    assert_eq!(counted.unwrap()[0].fields().int(), Ok(1_000_000));
    // Its log would stay if the last connection to close could only read.
    let left = ["switchyard.db-wal", "switchyard.db-shm"].map(|name| dir.0.join(name).exists());
    assert_eq!(left, [false, false]);
}

#[tokio::test]
async fn stored_addresses_lose_their_user_names_and_passwords() {
    let dir = Dir::new();
    let store = dir.open();
    let new = NewSite {
        url: "https://me:SECRET@blue.example/a".into(),
        external_checkin_url: Some("https://me:SECRET@c.example".into()),
        endpoints: vec![endpoint("https://SECRET@e.example"), endpoint("https://e.example/@me")],
        ..site("blue")
    };
    let id = sites::insert(&store, new).await.unwrap();
    let taken = NewSite { url: "https://SECRET@red.example.com".into(), ..site("green") };
    sites::insert(&store, taken).await.unwrap();
    sites::insert(&store, site("red")).await.unwrap();
    for _ in 0..2 {
        site_addresses::drop_user_info(&store).await.unwrap();
        let site = sites::get(&store, id).await.unwrap().unwrap();
        assert_eq!(site.url, "https://blue.example/a");
        assert_eq!(site.external_checkin_url.as_deref(), Some("https://c.example"));
        let pool: Vec<&str> = site.endpoints.iter().map(|endpoint| endpoint.url.as_str()).collect();
        assert_eq!(pool, ["https://e.example", "https://e.example/@me"]);
        let kept = sites::find(&store, "new-api", "https://SECRET@red.example.com").await.unwrap();
        assert!(kept.is_some(), "another site has this address without the user name");
        assert_eq!(count(&store, "events").await, 3);
    }
}

#[tokio::test]
async fn only_the_owner_can_read_the_directory_and_the_files() {
    if database::is_on_server() {
        return; // It inspects the file.
    }
    let dir = Dir::new();
    let store = dir.open();
    sites::insert(&store, site("blue")).await.unwrap();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&dir.0), 0o700);
    for file in ["switchyard.db", "switchyard.db-wal", "switchyard.db-shm", "switchyard.db.lock"] {
        assert_eq!(mode(&dir.0.join(file)), 0o600, "{file}");
    }
}

#[tokio::test]
async fn a_second_process_is_told_why_it_cannot_start() {
    if database::is_on_server() {
        return; // A server allows it.
    }
    let dir = Dir::new();
    let first = dir.open();
    let error = Store::open(dir.options("a secret")).err().unwrap();
    assert!(
        matches!(&error, OpenError::Locked(text) if text.contains("another Switchyard process")),
        "{error}"
    );
    drop(first);
    dir.open();
}

#[test]
fn databases_that_are_not_built_in_are_refused() {
    let dir = Dir::new();
    let built_in = [
        (DatabaseKind::Postgres, cfg!(feature = "postgres")),
        (DatabaseKind::MySql, cfg!(feature = "mysql")),
    ];
    for (kind, _) in built_in.into_iter().filter(|(_, is_built_in)| !is_built_in) {
        let error = Store::open(StoreOptions { kind, ..dir.options("s") }).err().unwrap();
        assert!(error.to_string().starts_with("DB_TYPE: "), "{error}");
        assert_eq!(error.exit_code(), 78);
    }
}

#[tokio::test]
async fn a_database_in_memory_answers_too() {
    if database::is_on_server() {
        return; // It inspects the file.
    }
    let dir = Dir::new();
    let store = Store::open(StoreOptions { db_url: ":memory:".into(), ..dir.options("s") }).unwrap();
    let id = sites::insert(&store, site("blue")).await.unwrap();
    assert_eq!(sites::list(&store).await.unwrap()[0].id, id);
    assert!(!dir.0.exists());
}

#[tokio::test]
async fn a_batch_holds_whole_or_not_at_all() {
    let dir = Dir::new();
    let store = dir.open();
    sites::insert(&store, site("blue")).await.unwrap();
    let put = |name: &str| {
        Statement::new(
            "INSERT INTO settings (name, value, updated_at) VALUES (?, ?, ?)",
            vec![name.into(), "1".into(), 0.into()],
        )
    };
    let settings = count(&store, "settings").await;
    let twice = store.batch(vec![put("a"), put("b"), put("a")]).await;
    assert!(matches!(twice, Err(Error::Conflict(_))), "{twice:?}");
    let missing = Statement::new("UPDATE sites SET name = ? WHERE id = ?", vec!["x".into(), 99.into()]);
    assert_eq!(store.batch(vec![put("a"), missing.must_change()]).await, Err(Error::NotFound));
    let broken = store.batch(vec![put("a"), Statement::new("UPDATE nowhere SET a = 1", vec![])]).await;
    assert!(matches!(broken, Err(Error::Database(_))), "{broken:?}");
    let short = store.batch(vec![put("a"), Statement::new("DELETE FROM sites WHERE id = ?", vec![])]).await;
    assert!(matches!(short, Err(Error::Database(_))), "{short:?}");
    assert_eq!(count(&store, "settings").await, settings);
    assert_eq!(
        accounts::insert(&store, NewAccount::on_site(SiteId::new(99)))
            .await
            .map_err(|e| matches!(e, Error::Dangling(_))),
        Err(true)
    );
}

#[tokio::test]
async fn a_taken_address_is_a_conflict_and_leaves_nothing_behind() {
    let dir = Dir::new();
    let store = dir.open();
    sites::insert(&store, site("blue")).await.unwrap();
    let again = NewSite { endpoints: vec![endpoint("https://a")], ..site("blue") };
    let refused = sites::insert(&store, again).await;
    assert!(matches!(refused, Err(Error::Conflict(_))), "{refused:?}");
    assert_eq!(count(&store, "sites").await, 1);
    assert_eq!(count(&store, "site_api_endpoints").await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_writers_at_once_lose_nothing() {
    let dir = Dir::new();
    let store = dir.open();
    let writers: Vec<_> = (0..64)
        .map(|n| {
            let store = store.clone();
            tokio::spawn(async move {
                let id = sites::insert(&store, site(&format!("s{n}"))).await.unwrap();
                let found = sites::get(&store, id).await.unwrap();
                assert_eq!(found.unwrap().name, format!("s{n}"), "a change is read back at once");
            })
        })
        .collect();
    for writer in writers {
        writer.await.unwrap();
    }
    let mut orders: Vec<i64> =
        sites::list(&store).await.unwrap().iter().map(|site| site.sort_order).collect();
    orders.sort_unstable();
    assert_eq!(orders, (0..64).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_replaced_pool_keeps_the_rows_whose_address_stays() {
    let dir = Dir::new();
    let store = dir.open();
    let new = NewSite { endpoints: vec![endpoint("https://a"), endpoint("https://b")], ..site("blue") };
    let id = sites::insert(&store, new).await.unwrap();
    let before = sites::get(&store, id).await.unwrap().unwrap().endpoints;
    let pool = vec![endpoint("https://c"), endpoint("https://b")];
    sites::update(&store, id, SitePatch { endpoints: Some(pool), ..SitePatch::default() }).await.unwrap();
    let after = sites::get(&store, id).await.unwrap().unwrap().endpoints;
    assert_eq!(after.iter().map(|row| row.url.as_str()).collect::<Vec<_>>(), ["https://b", "https://c"]);
    assert_eq!(after[0].id, before[1].id);
    sites::update(&store, id, SitePatch { endpoints: Some(vec![]), ..SitePatch::default() }).await.unwrap();
    assert_eq!(sites::get(&store, id).await.unwrap().unwrap().endpoints, []);
    assert_eq!(sites::update(&store, SiteId::new(99), SitePatch::default()).await, Err(Error::NotFound));
}

#[tokio::test]
async fn enabling_a_site_gives_each_account_its_former_status_back() {
    let dir = Dir::new();
    let store = dir.open();
    let id = sites::insert(&store, site("blue")).await.unwrap();
    let mut ids = Vec::new();
    for status in [AccountStatus::Active, AccountStatus::Disabled, AccountStatus::Expired] {
        let account = NewAccount { status, ..NewAccount::on_site(id) };
        ids.push(accounts::insert(&store, account).await.unwrap());
    }
    let to = |status| SitePatch { status: Some(status), ..SitePatch::default() };
    let statuses = async || {
        let rows = accounts::of_site(&store, id).await.unwrap();
        rows.iter().map(|row| row.status).collect::<Vec<_>>()
    };
    let before = statuses().await;
    assert_eq!(sites::update(&store, id, to(SiteStatus::Active)).await, Ok(None), "nothing moved");
    assert_eq!(sites::update(&store, id, to(SiteStatus::Disabled)).await, Ok(Some(SiteStatus::Disabled)));
    assert_eq!(sites::update(&store, id, to(SiteStatus::Disabled)).await, Ok(None));
    assert_eq!(statuses().await, [AccountStatus::Disabled; 3]);
    assert_eq!(sites::update(&store, id, to(SiteStatus::Active)).await, Ok(Some(SiteStatus::Active)));
    assert_eq!(statuses().await, before);

    sites::update(&store, id, to(SiteStatus::Disabled)).await.unwrap();
    let disabled = AccountPatch { status: Some(AccountStatus::Disabled), ..AccountPatch::default() };
    accounts::update(&store, ids[0], disabled).await.unwrap();
    sites::update(&store, id, to(SiteStatus::Active)).await.unwrap();
    assert_eq!(statuses().await[0], AccountStatus::Disabled, "what an operator chose meanwhile stays");
}

#[tokio::test]
async fn an_update_changes_what_it_names_and_nothing_else() {
    let dir = Dir::new();
    let store = dir.open();
    let site_id = sites::insert(&store, site("blue")).await.unwrap();
    let id = accounts::insert(&store, api_key(site_id, "sk-one")).await.unwrap();
    let before = accounts::get(&store, id).await.unwrap().unwrap();
    let patch = AccountPatch {
        username: Some(Some("ann".into())),
        unit_cost: Some(Some(0.5)),
        ..AccountPatch::default()
    };
    accounts::update(&store, id, patch).await.unwrap();
    let after = accounts::get(&store, id).await.unwrap().unwrap();
    let expected = accounts::AccountRow {
        username: Some("ann".into()),
        unit_cost: Some(0.5),
        updated_at: after.updated_at,
        ..before
    };
    assert_eq!(after, expected);
    accounts::update(&store, id, AccountPatch { api_token: Some(None), ..AccountPatch::default() })
        .await
        .unwrap();
    assert_eq!(accounts::get(&store, id).await.unwrap().unwrap().api_token, None);
}

#[tokio::test]
async fn deleting_a_site_takes_everything_under_it() {
    let dir = Dir::new();
    let store = dir.open();
    let id = sites::insert(&store, NewSite { endpoints: vec![endpoint("https://a")], ..site("blue") })
        .await
        .unwrap();
    let account = accounts::insert(&store, api_key(id, "sk")).await.unwrap();
    let found = [Discovered { model_name: "gpt".into(), latency_ms: None }];
    let dialect = store.database().dialect();
    let discovered = availability::replace_discovered_statements(dialect, account, &[], &found);
    store.batch(discovered).await.unwrap();
    availability::set_disabled_models(&store, id, &["old".into()]).await.unwrap();
    sites::delete(&store, id).await.unwrap();
    sites::delete(&store, id).await.unwrap();
    for table in ["sites", "site_api_endpoints", "accounts", "model_availability", "site_disabled_models"] {
        assert_eq!(count(&store, table).await, 0, "{table}");
    }
}

#[tokio::test]
async fn discovery_replaces_what_it_found_before_and_keeps_manual_models() {
    let dir = Dir::new();
    let store = dir.open();
    let site_id = sites::insert(&store, site("blue")).await.unwrap();
    let account = accounts::insert(&store, api_key(site_id, "sk")).await.unwrap();
    let found = |names: &[&str]| -> Vec<Discovered> {
        names.iter().map(|name| Discovered { model_name: (*name).into(), latency_ms: Some(7) }).collect()
    };
    availability::add_manual(&store, account, &["Mine".into()]).await.unwrap();
    let dialect = store.database().dialect();
    for names in [&["a", "b", "mine"][..], &["b", "c"]] {
        let known = availability::of_account(&store, account).await.unwrap();
        let batch = availability::replace_discovered_statements(dialect, account, &known, &found(names));
        store.batch(batch).await.unwrap();
    }
    let rows = availability::of_account(&store, account).await.unwrap();
    let names: Vec<_> = rows.iter().map(|row| (row.model_name.as_str(), row.is_manual)).collect();
    assert_eq!(names, [("Mine", true), ("b", false), ("c", false)]);
    assert_eq!(availability::of_site(&store, site_id).await.unwrap(), ["b", "c", "Mine"]);
    let batch = availability::replace_discovered_statements(dialect, 99, &[], &found(&["x"]));
    assert!(matches!(store.batch(batch).await, Err(Error::Dangling(_))));
    assert_eq!(count(&store, "model_availability").await, 3, "a vanished account gets no rows");
}

#[tokio::test]
async fn a_model_that_is_found_as_it_was_is_not_written() {
    let dir = Dir::new();
    let store = dir.open();
    let site_id = sites::insert(&store, site("blue")).await.unwrap();
    let account = accounts::insert(&store, api_key(site_id, "sk")).await.unwrap();
    let dialect = store.database().dialect();
    let found = |names: &[&str], latency_ms: i64| -> Vec<Discovered> {
        let model = |name: &&str| Discovered { model_name: (*name).into(), latency_ms: Some(latency_ms) };
        names.iter().map(model).collect()
    };
    let replace = async |models: &[Discovered]| {
        let known = availability::of_account(&store, account).await.unwrap();
        let batch = availability::replace_discovered_statements(dialect, account, &known, models);
        let changed = store.batch(batch).await.unwrap();
        changed.iter().map(|outcome| outcome.rows).sum::<u64>()
    };
    let check = |available| availability::ProbeRecord { available, latency_ms: Some(40), at: 1 };
    assert_eq!(replace(&found(&["a", "b", "c"], 40)).await, 3);
    // MySQL counts a row that an upsert changes twice.
    let is_written = |counted: u64, rows: u64| match dialect {
        SqlDialect::Mysql => (counted > 0) == (rows > 0),
        _ => counted == rows,
    };
    for (models, written, why) in [
        (found(&["c", "b", "a"], 140), 0, "as it was, within a tenth of a second"),
        (found(&["a", "b", "c"], 141), 3, "much slower"),
        (found(&["a", "b", "c"], 71), 0, "within a tenth of a second"),
        (found(&["a", "b", "d"], 141), 2, "one gone, one new"),
    ] {
        assert!(is_written(replace(&models).await, written), "{why}");
    }
    availability::check(&store, account, "a", check(false)).await.unwrap();
    assert!(is_written(replace(&found(&["a", "b", "d"], 141)).await, 1), "it was switched off meanwhile");
    let names = availability::of_site(&store, site_id).await.unwrap();
    assert_eq!(names, ["a", "b", "d"]);
}

#[tokio::test]
async fn settings_come_back_as_saved() {
    let dir = Dir::new();
    let store = dir.open();
    let values = vec![
        ("checkin_cron".into(), "\"0 8 * * *\"".into()),
        ("proxy_token".into(), "\"sk-hidden-token\"".into()),
    ];
    settings::put(&store, values).await.unwrap();
    settings::put(&store, vec![("checkin_cron".into(), "\"0 9 * * *\"".into())]).await.unwrap();
    let all = settings::all(&store).await.unwrap();
    assert_eq!(all["checkin_cron"].expose(), "\"0 9 * * *\"");
    assert_eq!(all["proxy_token"].expose(), "\"sk-hidden-token\"");
    assert_eq!(all.len(), 2, "the store's own rows are no settings");
    assert!(!dir.holds("sk-hidden-token"));
}

#[tokio::test]
async fn events_are_listed_newest_first_and_marked_read() {
    let dir = Dir::new();
    let store = dir.open();
    let event = |kind, title: &str| NewEvent {
        kind,
        title: title.into(),
        message: None,
        level: EventLevel::Warning,
        related_id: Some(3),
        related_type: Some("site"),
    };
    let first = events::insert(&store, event("status", "one")).await.unwrap();
    events::insert(&store, event("proxy", "two")).await.unwrap();
    events::mark_read(&store, first).await.unwrap();
    let titles = async |filter: EventFilter| {
        let rows = events::list(&store, &EventFilter { limit: 10, ..filter }).await.unwrap();
        rows.into_iter().map(|row| row.title).collect::<Vec<_>>()
    };
    assert_eq!(titles(EventFilter::default()).await, ["two", "one"]);
    assert_eq!(titles(EventFilter { read: Some(true), ..EventFilter::default() }).await, ["one"]);
    assert_eq!(titles(EventFilter { kind: Some("proxy".into()), ..EventFilter::default() }).await, ["two"]);
    assert_eq!(events::count_unread(&store).await, Ok(1));
    events::mark_all_read(&store).await.unwrap();
    assert_eq!(events::count_unread(&store).await, Ok(0));
    events::delete_all(&store).await.unwrap();
    assert_eq!(count(&store, "events").await, 0);
}

#[test]
fn a_database_address_is_a_path_whatever_the_case_of_its_scheme() {
    use super::sqlite::location::Location;
    let dir = std::path::Path::new("/d");
    let file = |path: &str| Location::File(path.into());
    for (url, expected) in [
        ("", file("/d/switchyard.db")),
        (" sqlite:///x/y.db ", file("/x/y.db")),
        ("SQLite:///x/y.db", file("/x/y.db")),
        ("File://y.db", file("y.db")),
        ("data/y.db", file("data/y.db")),
        (":memory:", Location::Memory),
        ("sqlite://:memory:", Location::Memory),
    ] {
        assert_eq!(Location::parse(url, dir), expected, "{url}");
    }
}
