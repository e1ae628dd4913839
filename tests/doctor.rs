//! `switchyard doctor`: reports what is wrong with an installation, without changing anything.

use std::collections::BTreeMap;
use std::net::TcpListener;

use serde_json::{Value, json};

use crate::support::{ADMIN_TOKEN, Gateway, Home, PROXY_TOKEN, Reply, Setup, Upstream, free_port, run};

/// Returns a setup with a port of its own: another program may have the default one.
fn at_free_port() -> Setup {
    Setup::default().with("PORT", &free_port().to_string())
}

/// Runs the doctor; returns its findings by check, and its exit code.
#[track_caller]
fn examine(setup: &Setup, home: &Home) -> (BTreeMap<String, Vec<Value>>, Option<i32>) {
    let finished = run(setup, home, &["doctor", "--json"]);
    let report: Value = serde_json::from_str(&finished.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}{}", finished.stdout, finished.stderr));
    let mut findings: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for finding in report["checks"].as_array().expect("checks") {
        let check = finding["check"].as_str().expect("a name").to_owned();
        findings.entry(check).or_default().push(finding.clone());
    }
    assert_eq!(report["ok"], json!(finished.status.success()), "{report:#}");
    (findings, finished.status.code())
}

/// Adds sites as an operator would, and closes the database again.
fn closed(sites: &[(&str, &Upstream)]) -> (Setup, std::sync::Arc<Home>) {
    let mut gateway = Gateway::start();
    for (name, upstream) in sites {
        gateway.add(name, upstream);
    }
    gateway.signal("TERM");
    assert!(gateway.wait_for_exit().success());
    (at_free_port(), gateway.home().clone())
}

#[test]
fn an_installation_without_faults_is_told_line_by_line() {
    let upstream = Upstream::start(&["alpha"]);
    let (setup, home) = closed(&[("one", &upstream)]);
    let before = home.files();
    let finished = run(&setup, &home, &["doctor"]);
    assert!(finished.status.success(), "{}{}", finished.stdout, finished.stderr);
    for check in [
        "configuration",
        "permissions",
        "disk",
        "open files",
        "database",
        "credentials",
        "service",
        "site one",
        "clock",
    ] {
        assert!(finished.stdout.lines().any(|line| line.starts_with(check)), "{check}: {}", finished.stdout);
    }
    for secret in [ADMIN_TOKEN, PROXY_TOKEN, "sk-upstream-key", "credential-secret-of-the-tests"] {
        assert!(!finished.stdout.contains(secret), "{}", finished.stdout);
    }
    assert!(home.files() == before, "no file is another, and none is new");
}

#[test]
fn a_gateway_that_runs_is_looked_at_too_and_goes_on() {
    let (gateway, _upstream) = Gateway::serving(&["alpha"]);
    let (findings, code) = examine(&at_free_port(), gateway.home());
    assert_eq!((code, &findings["database"][0]["result"]), (Some(0), &json!("ok")), "{findings:#?}");
    assert_eq!(findings["site site"][0]["result"], "ok");
    gateway.client().chat("alpha").expect(200);
    gateway.wait_for_logs(1);
}

#[test]
fn a_site_that_does_not_answer_is_a_failure_and_the_others_are_asked_all_the_same() {
    let (one, two) = (Upstream::start(&["alpha"]), Upstream::start(&["beta"]));
    let (setup, home) = closed(&[("one", &one), ("two", &two)]);
    drop(one);
    let (findings, code) = examine(&setup, &home);
    assert_eq!(code, Some(1));
    assert_eq!(findings["site one"][0]["result"], "failed", "{findings:#?}");
    assert_eq!(findings["site two"][0]["result"], "ok", "{findings:#?}");
}

#[test]
fn a_clock_that_differs_from_the_upstreams_is_told() {
    let upstream = Upstream::start(&["alpha"]);
    let (setup, home) = closed(&[("one", &upstream)]);
    let past = "Fri, 01 May 2020 08:00:00 GMT";
    upstream.answer("/", Reply::json(200, &json!({})).header("date", past));
    let (findings, code) = examine(&setup, &home);
    assert_eq!((code, &findings["clock"][0]["result"]), (Some(1), &json!("failed")), "{findings:#?}");
    assert!(findings["clock"][0]["detail"].as_str().is_some_and(|text| text.contains("ahead of")));
}

#[test]
fn mistakes_a_wrong_secret_and_a_damaged_database_are_failures() {
    let upstream = Upstream::start(&["alpha"]);
    let (setup, home) = closed(&[("one", &upstream)]);
    let (findings, code) = examine(&setup.clone().with("PORT", "many"), &home);
    assert_eq!((code, &findings["configuration"][0]["result"]), (Some(1), &json!("failed")));
    let (findings, code) = examine(&setup.clone().with("ACCOUNT_CREDENTIAL_SECRET", "another"), &home);
    assert_eq!((code, &findings["credentials"][0]["result"]), (Some(1), &json!("failed")));

    let file = home.data_dir().join("switchyard.db");
    let mut bytes = std::fs::read(&file).expect("the database");
    bytes[2 * 4096..].fill(0xA5);
    std::fs::write(&file, bytes).expect("written");
    let (findings, code) = examine(&setup, &home);
    assert_eq!((code, &findings["database"][0]["result"]), (Some(1), &json!("failed")), "{findings:#?}");
}

#[test]
fn backups_that_cannot_be_written_are_a_failure_before_the_first_is_due() {
    let home = Home::new();
    let scheduled = at_free_port().with("BACKUP_CRON", "0 3 * * *");
    let (found, status) = examine(&scheduled, &home);
    assert_eq!((&found["backups"][0]["result"], status), (&json!("ok"), Some(0)), "{found:#?}");
    let file = home.path().join("file");
    std::fs::write(&file, "").expect("a file");
    let (found, status) = examine(&scheduled.with("BACKUP_DIR", file.to_str().expect("a path")), &home);
    assert_eq!((&found["backups"][0]["result"], status), (&json!("failed"), Some(1)), "{found:#?}");
}

#[test]
fn a_schema_that_the_next_start_cannot_use_is_a_failure() {
    let upstream = Upstream::start(&["alpha"]);
    for (sql, fault) in [
        (
            "UPDATE schema_migrations SET checksum = 'x' WHERE version = 1",
            "was changed after it had been applied",
        ),
        ("DELETE FROM schema_migrations WHERE version = 1", "is not recorded"),
        ("DROP TABLE usage_hour", "the table usage_hour is missing"),
    ] {
        let (setup, home) = closed(&[("one", &upstream)]);
        let database = rusqlite::Connection::open(home.data_dir().join("switchyard.db")).expect("a database");
        database.execute_batch(sql).expect("changed");
        drop(database);
        let (findings, code) = examine(&setup, &home);
        let found = findings["database"][0].to_string();
        assert!(code == Some(1) && found.contains(fault), "{sql}: {findings:#?}");
    }
}

#[test]
fn before_the_first_start_there_is_nothing_to_complain_of() {
    let home = Home::new();
    let (findings, code) = examine(&at_free_port(), &home);
    assert_eq!((code, &findings["database"][0]["result"]), (Some(0), &json!("ok")), "{findings:#?}");
    assert!(home.files().is_empty() && !home.data_dir().exists());
}

#[test]
fn a_database_that_was_in_use_and_is_empty_or_gone_is_a_failure_as_it_is_for_a_start() {
    let (setup, home) = closed(&[]);
    let file = home.data_dir().join("switchyard.db");
    std::fs::write(&file, "").expect("emptied");
    for what in ["empty", "gone"] {
        let (findings, code) = examine(&setup, &home);
        assert_eq!(
            (code, &findings["database"][0]["result"]),
            (Some(1), &json!("failed")),
            "{what}: {findings:#?}"
        );
        let detail = findings["database"][0]["detail"].as_str().expect("a detail");
        assert!(detail.contains("it was in use before"), "{what}: {detail}");
        std::fs::remove_file(&file).unwrap_or_default();
    }
}

#[test]
fn a_directory_in_the_place_of_a_file_of_the_database_is_a_failure() {
    let (setup, home) = closed(&[]);
    for ending in ["-wal", "-shm"] {
        let place = home.data_dir().join(format!("switchyard.db{ending}"));
        let _ = std::fs::remove_file(&place);
        std::fs::create_dir(&place).expect("a directory");
        let (findings, code) = examine(&setup, &home);
        let detail = findings["permissions"][0]["detail"].as_str().expect("a detail");
        assert!(code == Some(1) && detail.contains(&format!("{ending} cannot be written")), "{findings:#?}");
        std::fs::remove_dir(&place).expect("removed");
    }
}

#[test]
fn a_damaged_write_ahead_log_is_a_failure() {
    let (setup, home) = closed(&[]);
    std::fs::write(home.data_dir().join("switchyard.db-wal"), [0xA5; 4096]).expect("written");
    let (findings, code) = examine(&setup, &home);
    let detail = findings["database"][0]["detail"].as_str().expect("a detail");
    assert!(code == Some(1) && detail.contains("-wal is damaged"), "{findings:#?}");
}

#[test]
fn a_link_to_a_file_that_cannot_be_created_is_a_failure_and_to_one_that_can_a_warning() {
    let home = Home::new();
    std::os::unix::fs::symlink("/nowhere/at/all", home.data_dir()).expect("a link");
    let (findings, code) = examine(&at_free_port(), &home);
    let detail = findings["permissions"][0]["detail"].as_str().expect("a detail");
    assert!(code == Some(1) && detail.contains("is a link to nowhere"), "{findings:#?}");

    std::fs::remove_file(home.data_dir()).expect("removed");
    std::fs::create_dir(home.data_dir()).expect("a directory");
    let file = home.data_dir().join("switchyard.db");
    for (target, expected) in
        [("/nowhere/at/all.db", (Some(1), "failed")), ("other.db", (Some(0), "warning"))]
    {
        std::os::unix::fs::symlink(target, &file).expect("a link");
        let (findings, code) = examine(&at_free_port(), &home);
        let found = &findings["database"][0];
        assert_eq!((code, &found["result"]), (expected.0, &json!(expected.1)), "{findings:#?}");
        assert!(found["detail"].to_string().contains(&format!("{target}, which does not exist")), "{found}");
        std::fs::remove_file(&file).expect("removed");
    }
}

#[test]
fn a_host_of_another_machine_and_a_port_of_another_program_are_failures() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = taken.local_addr().expect("an address").port().to_string();
    // An address for documentation (RFC 5737), which no machine has.
    for (name, value) in [("HOST", "203.0.113.9"), ("PORT", &port)] {
        let setup = at_free_port().with("HOST", "127.0.0.1").with(name, value);
        let (findings, code) = examine(&setup, &Home::new());
        let detail = findings["service"][0]["detail"].as_str().expect("a detail");
        assert!(
            code == Some(1) && detail.contains("cannot listen on") && detail.contains(value),
            "{findings:#?}"
        );
    }
}

#[test]
fn the_database_that_the_settings_name_is_looked_at_too() {
    let home = Home::new();
    let mut gateway = Setup::default().start_in(home.clone());
    let url = "postgres://me:password-of-the-server@127.0.0.1:1/switchyard";
    let saved = json!({"dialect": "postgres", "connectionString": url});
    gateway.admin().put("/api/settings/database/runtime", &saved).expect(200);
    gateway.signal("TERM");
    assert!(gateway.wait_for_exit().success());
    let (findings, code) = examine(&at_free_port(), &home);
    assert_eq!(code, Some(1), "{findings:#?}");
    let told = serde_json::to_string(&findings["database"]).expect("JSON");
    assert!(told.contains("postgres://me:***@127.0.0.1:1/switchyard"), "{told}");
    assert!(told.contains("DB_FALLBACK_TO_ENV"), "{told}");
    assert!(!told.contains("password-of-the-server"), "{told}");

    // A copy can be restored where that server is out of reach.
    let copy = home.path().join("copy.db");
    std::fs::copy(home.data_dir().join("switchyard.db"), &copy).expect("it is copied");
    let copy = copy.to_str().expect("a path");
    let finished = run(&Setup::default(), &Home::new(), &["restore", copy]);
    assert!(finished.status.success(), "{}", finished.stderr);
}

#[test]
fn a_saved_database_that_is_an_empty_file_is_a_warning() {
    let home = Home::new();
    let mut gateway = Setup::default().start_in(home.clone());
    let file = home.path().join("next.db");
    let saved = json!({"dialect": "sqlite", "connectionString": file});
    gateway.admin().put("/api/settings/database/runtime", &saved).expect(200);
    gateway.signal("TERM");
    assert!(gateway.wait_for_exit().success());
    let (findings, code) = examine(&at_free_port(), &home);
    assert_eq!(code, Some(0), "{findings:#?}");
    let last = findings["database"].last().expect("a finding");
    assert_eq!(last["result"], "warning", "{findings:#?}");
    assert!(last["detail"].as_str().is_some_and(|text| text.contains("without any data")), "{last}");
}

#[test]
fn a_database_server_that_cannot_be_used_is_a_failure_and_its_password_is_told_nobody() {
    // Nothing listens there; a build without the driver says so instead.
    let setup = Setup::default()
        .with("DB_TYPE", "postgres")
        .with("DB_URL", "postgres://me:password-of-the-server@127.0.0.1:1/switchyard");
    let home = Home::new();
    let finished = run(&setup, &home, &["doctor"]);
    assert_eq!(finished.status.code(), Some(1), "{}{}", finished.stdout, finished.stderr);
    let said = |check: &str| finished.stdout.lines().find(|line| line.starts_with(check)).unwrap_or_default();
    assert!(said("database").contains("FAILED"), "{}", finished.stdout);
    assert!(said("permissions").contains("postgres://me:***@127.0.0.1:1/switchyard"), "{}", finished.stdout);
    assert!(!finished.stdout.contains("password-of-the-server"), "{}", finished.stdout);
    assert!(home.files().is_empty());
}

#[test]
fn an_output_that_cannot_be_written_is_no_success() {
    let setup = Setup::default().limited("exec >/dev/full");
    for command in ["doctor", "--version"] {
        let finished = run(&setup, &Home::new(), &[command]);
        assert_eq!(finished.status.code(), Some(74), "{command}: {}", finished.stderr);
        assert!(finished.stderr.contains("standard output"), "{command}: {}", finished.stderr);
    }
}
