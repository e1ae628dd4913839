//! Restores that are killed: each is complete or can be repeated, and no empty service begins in its place.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::{self, Gateway, Home, Setup};

const ROUNDS: u32 = 12;

fn stop(mut gateway: Gateway) {
    gateway.signal("TERM");
    assert!(gateway.wait_for_exit().success());
}

/// Runs a command that succeeds.
#[track_caller]
fn done(setup: &Setup, home: &Home, arguments: &[&str]) {
    let finished = support::run(setup, home, arguments);
    assert!(finished.status.success(), "{}", finished.stderr);
}

/// Creates a data directory with a site.
fn used(setup: &Setup) -> Arc<Home> {
    let home = Home::new();
    let gateway = setup.clone().start_in(home.clone());
    gateway.create_site(&json!({ "name": "north", "url": "http://127.0.0.1:9", "platform": "openai" }));
    stop(gateway);
    home
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path")
}

/// Returns whether there is a database, which must then be complete.
#[track_caller]
fn is_there(home: &Home) -> bool {
    let path = home.data_dir().join("switchyard.db");
    if !path.exists() {
        return false;
    }
    let database = rusqlite::Connection::open(&path).expect("a database");
    let count = |sql: &str| -> i64 { database.query_row(sql, [], |row| row.get(0)).expect("a number") };
    assert!(count("SELECT count(*) FROM sites") > 0, "it has its rows");
    assert_eq!(count("SELECT count(*) FROM settings WHERE name LIKE 'db\\_%' ESCAPE '\\'"), 0);
    true
}

#[track_caller]
fn refuse_start(home: &Home, setup: &Setup) {
    let refused = support::run(setup, home, &["serve"]);
    assert!(!refused.status.success());
    for word in ["interrupted", "switchyard restore", "switchyard.db.restoring"] {
        assert!(refused.stderr.contains(word), "{}", refused.stderr);
    }
    assert!(!home.data_dir().join("switchyard.db").exists());
    let examined = support::run(setup, home, &["doctor"]);
    assert!(examined.stdout.contains("was interrupted"), "{}", examined.stdout);
}

/// Restores into a new directory, kills that after the given time, and restores again.
fn kill_and_repeat(setup: &Setup, from: &Path, after: Duration) {
    let home = Home::new();
    let mut restoring = setup.command(&home, &["restore", text(from)]).spawn().expect("it runs");
    std::thread::sleep(after);
    restoring.kill().expect("killed");
    restoring.wait().expect("it ended");
    if is_there(&home) {
        return;
    }
    if home.data_dir().join("switchyard.db.restoring").exists() {
        refuse_start(&home, setup);
    }
    done(setup, &home, &["restore", text(from)]);
    assert!(is_there(&home));
    for file in std::fs::read_dir(home.data_dir()).expect("a directory").flatten() {
        let name = file.file_name().into_string().expect("a name");
        assert!(!name.contains("restoring") && !name.starts_with(".import"), "{name} is left");
    }
}

#[test]
fn a_restore_that_is_killed_is_complete_or_can_be_repeated() {
    let setup = Setup::default().on_sqlite();
    let home = used(&setup);
    let [copy, document] = ["copy.db", "export.json"].map(|name| home.path().join(name));
    done(&setup, &home, &["export", "-o", text(&document)]);
    let gateway = setup.clone().start_in(home.clone());
    let other = json!({ "dialect": "sqlite", "connectionString": home.path().join("other.db") });
    gateway.admin().put("/api/settings/database/runtime", &other).expect(200);
    stop(gateway);
    std::fs::copy(home.data_dir().join("switchyard.db"), &copy).expect("copied");
    for from in [&copy, &document] {
        let begun = Instant::now();
        let whole = Home::new();
        done(&setup, &whole, &["restore", text(from)]);
        assert!(is_there(&whole));
        let took = begun.elapsed();
        for round in 0..ROUNDS {
            kill_and_repeat(&setup, from, took * round / ROUNDS);
        }
    }
}

#[test]
fn what_a_killed_restore_left_is_no_database() {
    let setup = Setup::default().on_sqlite();
    let home = used(&setup);
    let copy = home.path().join("copy.db");
    done(&setup, &home, &["backup", text(&copy)]);

    let elsewhere = Home::new();
    std::fs::create_dir_all(elsewhere.data_dir()).expect("a directory");
    let left = |name: &str, content: &[u8]| {
        std::fs::write(elsewhere.data_dir().join(name), content).expect("written");
    };
    left("switchyard.db.lock", b"");
    left("switchyard.db.restoring", b"SQLite format 3\0");
    left("switchyard.db.restoring-wal", b"half of a log");
    left("switchyard.db.restoring.lock", b"in use\n");
    std::fs::create_dir(elsewhere.data_dir().join(".import-left")).expect("a directory");
    left(".import-left/rows.db", b"half of an import");
    refuse_start(&elsewhere, &setup);
    done(&setup, &elsewhere, &["restore", text(&copy)]);
    assert!(is_there(&elsewhere));
    assert_eq!(elsewhere.staged(), None);
    assert_eq!(setup.start_in(elsewhere).admin().get("/api/sites").expect(200)[0]["name"], "north");
}
