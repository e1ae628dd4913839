//! Copies into a server's database: complete with every row, one at a time, and undone when they are killed.

use std::thread;

use serde_json::json;

use super::turns::Preparing;
use crate::support::{self, Gateway, Home, Setup};

/// Tables of running processes, and the record of the schema's steps.
const NOT_COPIED: [&str; 6] =
    ["job_leases", "cache_versions", "instances", "writer_marks", "admin_snapshots", "schema_migrations"];

fn on_sqlite() -> Setup {
    Setup::default().on_sqlite()
}

fn add_site(gateway: &Gateway, name: &str) {
    let site = json!({ "name": name, "url": format!("http://{name}.test"), "platform": "openai" });
    let site = gateway.admin().post("/api/sites", &site).expect(200);
    let account = json!({ "siteId": site["id"], "credentialMode": "apikey", "accessToken": "sk-up", "skipModelFetch": true });
    gateway.admin().post("/api/accounts", &account).expect(200);
}

fn names(gateway: &Gateway) -> Vec<String> {
    let sites = gateway.admin().get("/api/sites").expect(200);
    let name = |site: &serde_json::Value| site["name"].as_str().expect("a name").to_owned();
    sites.as_array().expect("sites").iter().map(name).collect()
}

/// Returns every copied row of an SQLite file as text, in order.
fn rows(file: &std::path::Path) -> Vec<String> {
    let database = support::Database::file(file.to_owned());
    let tables =
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name";
    let copied = database.texts(tables).into_iter().filter(|table| !NOT_COPIED.contains(&table.as_str()));
    let of = |table: String| {
        let mut rows: Vec<String> = database
            .rows(&format!("SELECT * FROM {table}"))
            .into_iter()
            .map(|row| format!("{table} {row:?}"))
            .collect();
        rows.sort_unstable();
        rows
    };
    copied.flat_map(of).collect()
}

#[test]
fn everything_moves_to_a_server_and_back() {
    let home = Home::new();
    let Some(server) = home.server() else { return };
    let gateway = on_sqlite().start_in(home.clone());
    for (place, name) in ["s\u{fc}d", "\u{1f642}", "Case", "case"].into_iter().enumerate() {
        let site = json!({ "name": name, "url": format!("http://{place}.test"), "platform": "openai" });
        gateway.admin().post("/api/sites", &site).expect(200);
    }
    add_site(&gateway, "north");
    let key = json!({ "name": "holder", "key": "sk-holder-0123456789", "maxCost": 0.1, "tags": ["\u{1f642}", "a\\b'c\"d"] });
    gateway.admin().post("/api/downstream-keys", &key).expect(200);
    drop(gateway);
    let there = support::run(&on_sqlite(), &home, &["migrate", "--to", &server.url()]);
    assert!(there.status.success(), "{}", there.stderr);
    let back = home.path().join("back.db");
    let moved = support::run(&Setup::default(), &home, &["migrate", "--to", back.to_str().expect("a path")]);
    assert!(moved.status.success(), "{}", moved.stderr);
    assert_eq!(rows(&back), rows(&home.data_dir().join("switchyard.db")));
    // New rows are numbered after those that were copied.
    let gateway = Setup::default().start_in(home.clone());
    add_site(&gateway, "new");
    assert_eq!(names(&gateway).len(), 6);
    let again = support::run(&on_sqlite(), &home, &["migrate", "--keep", "--to", &server.url()]);
    assert_eq!(again.status.code(), Some(73), "{}", again.stderr);
    assert!(again.stderr.contains("in use by"), "{}", again.stderr);
    drop(gateway);
    let models = Setup::default().start_in(home.clone()).with_token("sk-holder-0123456789").get("/v1/models");
    assert_eq!(models.status, 200, "sealed keys open: {}", models.text());
}

#[test]
fn one_process_at_a_time_fills_a_database() {
    let home = Home::new();
    let Some(server) = home.server() else { return };
    drop(on_sqlite().start_in(home.clone()));
    let preparing = Preparing::begin(server);
    let refused = support::run(&on_sqlite(), &home, &["migrate", "--to", &server.url()]);
    assert_eq!(refused.status.code(), Some(73), "{}", refused.stderr);
    assert!(refused.stderr.contains("by another process"), "{}", refused.stderr);
    preparing.end();
}

#[test]
fn a_copy_that_is_killed_leaves_the_database_as_it_was() {
    let home = Home::new();
    let Some(server) = home.server() else { return };
    let mut gateway = Setup::default().start_in(home.clone());
    add_site(&gateway, "former");
    // An instance that is killed counts as present for a while.
    gateway.signal("TERM");
    gateway.wait_for_exit();
    add_site(&on_sqlite().start_in(home.clone()), "copied");
    let lock = match server.kind() {
        "postgres" => "BEGIN; LOCK TABLE events IN ACCESS EXCLUSIVE MODE; SELECT pg_sleep(600)",
        _ => "LOCK TABLES events WRITE; SELECT SLEEP(600)",
    };
    thread::scope(|scope| {
        let holding = scope.spawn(|| drop(server.open().try_run(lock)));
        let sleeping = match server.kind() {
            "postgres" => {
                "SELECT COALESCE(MAX(pid), 0) FROM pg_stat_activity \
                 WHERE datname = current_database() AND wait_event = 'PgSleep'"
            }
            _ => {
                "SELECT COALESCE(MAX(id), 0) FROM information_schema.processlist \
                 WHERE db = DATABASE() AND state = 'User sleep'"
            }
        };
        let holder = support::eventually("the table is locked", || {
            Some(server.open().number(sleeping)).filter(|holder| *holder > 0)
        });
        let mut copy =
            on_sqlite().command(&home, &["migrate", "--to", &server.url()]).spawn().expect("it runs");
        let waiting = match server.kind() {
            "postgres" => {
                "SELECT COUNT(*) FROM pg_stat_activity \
                 WHERE datname = current_database() AND wait_event_type = 'Lock'"
            }
            _ => {
                "SELECT COUNT(*) FROM information_schema.processlist \
                 WHERE db = DATABASE() AND state LIKE 'Waiting for table%'"
            }
        };
        support::eventually("the copy waits", || (server.open().number(waiting) > 0).then_some(()));
        copy.kill().expect("it is killed");
        copy.wait().expect("it ends");
        server.open().run(&match server.kind() {
            "postgres" => format!("SELECT pg_terminate_backend({holder})"),
            _ => format!("KILL {holder}"),
        });
        holding.join().expect("no panic");
    });
    assert_eq!(names(&Setup::default().start_in(home.clone())), ["former"]);
}
