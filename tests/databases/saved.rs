//! A database that an operator saved in the settings: what the commands, and the next start, do with it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};

use super::{runtime, with_data};
use crate::support::{self, Gateway, Home, Setup};

fn choice(path: &Path) -> Value {
    json!({ "dialect": "sqlite", "connectionString": path })
}

/// Moves a gateway with data into a file that is saved in the settings, and adds a site there.
fn moved(home: &Arc<Home>, to: &Path) -> Gateway {
    let gateway = with_data(home);
    gateway.admin().post("/api/settings/database/migrate", &choice(to)).expect(200);
    gateway.admin().put("/api/settings/database/runtime", &choice(to)).expect(200);
    let gateway = gateway.restart();
    assert_eq!(runtime(&gateway)["active"]["connection"], json!(to));
    gateway.create_site(&json!({ "name": "south", "url": "http://127.0.0.1:9/south", "platform": "openai" }));
    gateway
}

/// Runs `backup` and returns the path of the copy.
fn back_up(home: &Home) -> PathBuf {
    let done = support::run(&Setup::default(), home, &["backup", home.path().to_str().expect("a path")]);
    assert!(done.status.success(), "{}", done.stderr);
    done.stdout.lines().next().expect("a path").into()
}

fn names(gateway: &Gateway) -> Vec<String> {
    let sites = gateway.admin().get("/api/sites").expect(200);
    let sites = sites.as_array().expect("a list").iter();
    sites.map(|site| site["name"].as_str().expect("a name").to_owned()).collect()
}

#[test]
fn a_backup_is_a_copy_of_the_saved_database() {
    let home = Home::new();
    let two = home.path().join("two.db");
    let gateway = moved(&home, &two);
    let sites = |copy: &Path| {
        let copy = rusqlite::Connection::open(copy).expect("a database");
        copy.query_row("SELECT count(*) FROM sites WHERE name = 'south'", [], |row| row.get(0))
    };
    let beside_the_service = back_up(&home);
    assert_eq!(sites(&beside_the_service), Ok(1));
    std::fs::remove_file(beside_the_service).expect("it is removed");
    let server = json!({ "dialect": "postgres", "connectionString": "postgres://me:pa-ss@127.0.0.1:9/x" });
    gateway.admin().put("/api/settings/database/runtime", &server).expect(200);
    let refused = support::run(&Setup::default(), &home, &["backup", "copy.db"]);
    assert_eq!(refused.status.code(), Some(78), "{}", refused.stdout);
    assert!(
        refused.stderr.contains("PostgreSQL") && refused.stderr.contains("migrate"),
        "{}",
        refused.stderr
    );
    gateway.admin().put("/api/settings/database/runtime", &choice(&two)).expect(200);
    drop(gateway);
    assert_eq!(sites(&back_up(&home)), Ok(1));
}

#[test]
fn a_restored_copy_is_used_whatever_database_its_settings_name() {
    let home = Home::new();
    let mut gateway = Setup::default().on_sqlite().start_in(home.clone());
    let site = json!({ "name": "north", "url": "http://127.0.0.1:9", "platform": "openai" });
    gateway.create_site(&site);
    let other = home.path().join("other.db");
    gateway.admin().put("/api/settings/database/runtime", &choice(&other)).expect(200);
    let before = names(&gateway);
    gateway.signal("TERM");
    assert!(gateway.wait_for_exit().success());
    let file = home.data_dir().join("switchyard.db");
    std::fs::remove_file(&other).expect("it was made when it was saved");

    let elsewhere = Home::new();
    let setup = Setup::default().on_sqlite();
    let restored = support::run(&setup, &elsewhere, &["restore", file.to_str().expect("a path")]);
    assert!(restored.status.success(), "{}", restored.stderr);
    assert!(restored.stderr.contains("another database was removed"), "{}", restored.stderr);
    assert!(!other.exists());
    assert_eq!(names(&setup.start_in(elsewhere)), before);
}

#[test]
fn a_saved_file_that_is_missing_stops_the_start() {
    let home = Home::new();
    let (mount, unmounted) = (home.path().join("mount"), home.path().join("mount.unmounted"));
    std::fs::create_dir(&mount).expect("a directory");
    let gateway = moved(&home, &mount.join("two.db"));
    let before = names(&gateway);
    drop(gateway);
    std::fs::rename(&mount, &unmounted).expect("renamed");
    let setup = Setup::default().with("PORT", "4999");
    for is_directory_there in [false, true] {
        if is_directory_there {
            std::fs::create_dir(&mount).expect("a directory");
        }
        let refused = support::run(&setup, &home, &["serve"]);
        assert!(!refused.status.success());
        assert!(refused.stderr.contains("two.db does not exist"), "{}", refused.stderr);
        assert!(refused.stderr.contains("DB_FALLBACK_TO_ENV"), "{}", refused.stderr);
        assert!(!mount.join("two.db").exists());
        let examined = support::run(&setup, &home, &["doctor"]);
        assert!(examined.stdout.contains("two.db does not exist"), "{}", examined.stdout);
    }
    std::fs::remove_dir(&mount).expect("removed");
    std::fs::rename(&unmounted, &mount).expect("renamed");
    assert_eq!(names(&Setup::default().start_in(home)), before);
}

#[test]
fn a_file_is_made_when_it_is_saved_and_named_by_its_whole_path() {
    let home = Home::new();
    let gateway = Setup::default().start_in(home.clone());
    let save = |path: &str| {
        let choice = choice(Path::new(path));
        gateway.admin().put("/api/settings/database/runtime", &choice).expect(200)
    };
    let saved = save("new.db");
    let message = saved["message"].to_string();
    assert!(message.contains("begins without any data"), "{message}");
    let path = PathBuf::from(saved["saved"]["connection"].as_str().expect("a path"));
    assert!(path.is_absolute() && path.ends_with("new.db"), "{path:?}");
    assert_eq!(path.metadata().expect("a file").len(), 0);
    let gateway = gateway.restart();
    assert_eq!(runtime(&gateway)["active"]["connection"], json!(path));
}

#[test]
fn what_cannot_be_the_next_database_is_refused_and_not_saved() {
    let home = Home::new();
    let gateway = Setup::default().start_in(home.clone());
    let text = home.path().join("text");
    std::fs::write(&text, "a text that is longer than the header of a database. ".repeat(20))
        .expect("a file");
    let foreign = home.path().join("foreign.db");
    let database = rusqlite::Connection::open(&foreign).expect("a database");
    database.execute_batch("CREATE TABLE notes (id INTEGER)").expect("a table");
    let save = |path: &Path| gateway.admin().put("/api/settings/database/runtime", &choice(path));
    for (path, message) in [
        (home.path(), "it is a directory"),
        (&text, "not a database"),
        (&foreign, "another program"),
        (Path::new("/nowhere/at/all/x.db"), "no directory"),
    ] {
        let refused = save(path).expect(400);
        assert!(refused["message"].as_str().is_some_and(|why| why.contains(message)), "{refused}");
        assert_eq!(runtime(&gateway)["saved"], Value::Null);
    }
    let message = save(Path::new(":memory:")).expect(200)["message"].to_string();
    assert!(message.contains("begins without any data at each start"), "{message}");
}

#[test]
fn commands_refuse_a_database_in_memory() {
    let home = Home::new();
    let in_memory = Setup::default().with("DB_TYPE", "sqlite").with("DB_URL", ":memory:");
    let rows =
        json!({ "sites": [], "accounts": [], "accountTokens": [], "tokenRoutes": [], "routeChannels": [] });
    let backup = json!({ "version": "2.1", "timestamp": 1, "accounts": rows });
    std::fs::write(home.path().join("backup.json"), backup.to_string()).expect("a file");
    let refused = |setup: &Setup| {
        for arguments in
            [&["export", "-o", "b.json"][..], &["migrate", "--to", "b.db"], &["import", "backup.json"]]
        {
            let refused = support::run(setup, &home, arguments);
            assert_eq!(refused.status.code(), Some(78), "{arguments:?} {}", refused.stderr);
            assert!(refused.stderr.contains("in memory"), "{arguments:?} {}", refused.stderr);
        }
        assert!(!home.path().join("b.json").exists() && !home.path().join("b.db").exists());
    };
    refused(&in_memory);
    let gateway = Setup::default().on_sqlite().start_in(home.clone());
    gateway.admin().put("/api/settings/database/runtime", &choice(Path::new(":memory:"))).expect(200);
    drop(gateway);
    refused(&Setup::default().on_sqlite());
}
