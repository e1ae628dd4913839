//! The database: which one is in use, and how another is tested, filled and chosen; and servers, if tests run on one.

mod copies;
mod cut_off;
mod hanging;
mod hosts;
mod outage;
mod restored;
mod saved;
mod servers;
mod tls;
mod turns;

use std::sync::Arc;

use serde_json::{Value, json};

use crate::support::paths::CHAT;
use crate::support::{self, Gateway, Home, Reply, Request, ServerDatabase, Setup, Upstream};

const MODEL: &str = "model-kept";

/// Starts a gateway with a site, an account and a key.
fn with_data(home: &Arc<Home>) -> Gateway {
    let gateway = Setup::default().start_in(home.clone());
    let admin = gateway.admin();
    let site = admin
        .post("/api/sites", &json!({ "name": "north", "url": "http://127.0.0.1:9", "platform": "openai" }));
    let id = site.json()["id"].clone();
    let account = json!({ "siteId": id, "credentialMode": "apikey", "accessToken": "sk-of-the-north", "skipModelFetch": true });
    admin.post("/api/accounts", &account).expect(200);
    admin
        .post("/api/downstream-keys", &json!({ "name": "holder", "key": "sk-holder-0123456789" }))
        .expect(200);
    gateway
}

fn runtime(gateway: &Gateway) -> Value {
    gateway.admin().get("/api/settings/database/runtime").json()
}

#[test]
fn the_database_in_use_is_told_without_its_password() {
    let gateway = Gateway::start();
    let told = runtime(&gateway);
    assert_eq!(told["success"], true);
    assert_eq!(told["restartRequired"], false);
    assert_eq!(told["saved"], Value::Null);
    if !support::is_on_server() {
        assert_eq!(
            told["active"],
            json!({ "dialect": "sqlite", "connection": "(default path)", "ssl": false })
        );
    }
    let choice =
        json!({ "dialect": "postgres", "connectionString": "postgres://me:pa-ss@db.test/x", "ssl": true });
    let saved = gateway.admin().put("/api/settings/database/runtime", &choice);
    assert_eq!(saved.status, 200, "{}", saved.text());
    assert_eq!(saved.json()["restartRequired"], true);
    let shown = json!({ "dialect": "postgres", "connection": "postgres://me:***@db.test/x", "ssl": true });
    assert_eq!(runtime(&gateway)["saved"], shown);
    let events = gateway.admin().get("/api/events").text();
    assert!(events.contains("postgres://me:***@db.test/x") && !events.contains("pa-ss"), "{events}");
}

#[test]
fn what_names_no_database_is_refused_and_the_field_named() {
    let gateway = Gateway::start();
    let long = format!("{}.db", "x".repeat(250));
    for (body, field) in [
        (json!({ "dialect": "sqlite", "connectionString": "a\0b" }), "connectionString"),
        (json!({ "dialect": "sqlite", "connectionString": long }), "connectionString"),
        (json!({ "dialect": "sqlite", "connectionString": "x/".repeat(2500) }), "connectionString"),
        (json!({ "connectionString": "x.db" }), "dialect"),
        (json!({ "dialect": "oracle", "connectionString": "x.db" }), "dialect"),
        (json!({ "dialect": "sqlite" }), "connectionString"),
        (json!({ "dialect": "sqlite", "connectionString": "  " }), "connectionString"),
        (json!({ "dialect": "sqlite", "connectionString": "mysql://db/x" }), "SQLite"),
        (json!({ "dialect": "mysql", "connectionString": "postgres://db/x" }), "mysql://"),
        (json!({ "dialect": "postgres", "connectionString": "db/x" }), "postgres://"),
        (json!({ "dialect": "postgres", "connectionString": "postgres://me:***@db.test/x" }), "not a mask"),
        (json!({ "dialect": "sqlite", "connectionString": "x.db", "ssl": "false" }), "ssl"),
        (json!({ "dialect": "sqlite", "connectionString": "x.db", "overwrite": 1 }), "overwrite"),
    ] {
        for (method, path) in [("PUT", "runtime"), ("POST", "test-connection"), ("POST", "migrate")] {
            let path = format!("/api/settings/database/{path}");
            let refused = gateway.admin().send(Request::new(method, &path).json(&body));
            assert_eq!(refused.status, 400, "{method} {path} {body}");
            let message = refused.json()["message"].as_str().unwrap_or_default().to_owned();
            assert!(message.contains(field), "{message}");
        }
    }
    assert_eq!(runtime(&gateway)["saved"], Value::Null);
}

#[test]
fn a_connection_is_tried_and_nothing_is_made() {
    let home = Home::new();
    let gateway = Setup::default().start_in(home.clone());
    let test = |url: &str| {
        let body = json!({ "dialect": "sqlite", "connectionString": url });
        gateway.admin().send(Request::new("POST", "/api/settings/database/test-connection").json(&body))
    };
    let fresh = home.path().join("fresh.db");
    let tried = test(fresh.to_str().expect("a path"));
    assert_eq!(tried.status, 200, "{}", tried.text());
    assert_eq!(tried.json()["dialect"], "sqlite");
    assert!(!fresh.exists());
    let wrong = home.path().join("wrong.db");
    std::fs::write(&wrong, "no database at all, but long enough to be taken for the head of one ........")
        .expect("a file");
    for url in [wrong.to_str().expect("a path"), "/nowhere/at/all/x.db", "/proc/x.db"] {
        let refused = test(url);
        assert_eq!(refused.status, 400, "{}", refused.text());
        assert!(refused.json()["message"].as_str().unwrap_or_default().contains(url));
    }
}

#[test]
fn everything_moves_into_another_database_which_the_next_start_uses() {
    let home = Home::new();
    let gateway = with_data(&home);
    let target = home.path().join("moved.db");
    let choice = json!({ "dialect": "sqlite", "connectionString": target });
    let filled = gateway.admin().post("/api/settings/database/migrate", &choice);
    assert_eq!(filled.status, 200, "{}", filled.text());
    let filled = filled.json();
    assert_eq!(filled["version"], "live-db-snapshot");
    assert_eq!(filled["overwrite"], true);
    for table in ["accounts", "downstreamApiKeys"] {
        assert_eq!(filled["rows"][table], 1, "{filled}");
    }
    let before = runtime(&gateway);
    assert_eq!(before["restartRequired"], false, "a copy is not used yet");
    let kept = choice.as_object().cloned().map(|mut choice| {
        choice.insert("overwrite".into(), false.into());
        Value::Object(choice)
    });
    let refused = gateway.admin().post("/api/settings/database/migrate", &kept.expect("an object"));
    assert_eq!(refused.status, 400);
    assert!(refused.text().contains("not empty"), "{}", refused.text());
    assert_eq!(
        gateway.admin().put("/api/settings/database/runtime", &choice).json()["restartRequired"],
        true
    );

    let sites = gateway.admin().get("/api/sites").text();
    let gateway = gateway.restart();
    assert_eq!(gateway.admin().get("/api/sites").text(), sites);
    let now = runtime(&gateway);
    assert_eq!(now["active"]["connection"], target.to_str().expect("a path"));
    assert_eq!(now["restartRequired"], false);
    let models = gateway.anyone().with("Authorization", "Bearer sk-holder-0123456789").get("/v1/models");
    assert_eq!(models.status, 200, "sealed keys open in the other database: {}", models.text());
    let same = gateway.admin().post("/api/settings/database/migrate", &choice);
    assert_eq!(same.status, 400, "{}", same.text());
}

#[test]
fn a_command_moves_everything_while_nobody_serves() {
    let home = Home::new();
    drop(with_data(&home));
    let target = home.path().join("moved.db");
    let to = target.to_str().expect("a path");
    let done = support::run(&Setup::default(), &home, &["migrate", "--to", to]);
    assert!(done.status.success(), "{}", done.stderr);
    assert!(done.stdout.contains("1  accounts"), "{}", done.stdout);
    let again = support::run(&Setup::default(), &home, &["migrate", "--keep", "--to", to]);
    assert_eq!(again.status.code(), Some(73));
    assert!(again.stderr.contains("not empty"), "{}", again.stderr);
    // A database without sites may hold what its owner misses, too.
    let of_another = Home::new();
    let file = of_another.data_dir().join("switchyard.db");
    let path = file.to_str().expect("a path");
    let keys_only =
        Setup::default().with("DB_TYPE", "sqlite").with("DB_URL", path).start_in(of_another.clone());
    let key = json!({"name": "k", "key": "sk-of-another-01", "supportedModels": ["*"]});
    keys_only.admin().post("/api/downstream-keys", &key).expect(200);
    drop(keys_only);
    let kept = support::run(&Setup::default(), &home, &["migrate", "--keep", "--to", path]);
    assert!(kept.stderr.contains("not empty"), "{}", kept.stderr);
    let nowhere = support::run(&Setup::default(), &home, &["migrate"]);
    assert_eq!(nowhere.status.code(), Some(64));
    let moved = Setup::default().with("DB_TYPE", "sqlite").with("DB_URL", to).start_in(home);
    assert_eq!(moved.admin().get("/api/sites").json()[0]["name"], "north");
}

#[test]
fn a_saved_database_that_cannot_be_opened_stops_the_start_unless_told_otherwise() {
    let home = Home::new();
    let gateway = Setup::default().start_in(home.clone());
    let gone = home.path().join("gone");
    let choice = json!({ "dialect": "sqlite", "connectionString": gone.to_str() });
    assert_eq!(gateway.admin().put("/api/settings/database/runtime", &choice).status, 200);
    drop(gateway);
    std::fs::remove_file(&gone).expect("it was made when it was saved");
    std::fs::create_dir(&gone).expect("a directory");
    let said = support::run(&Setup::default().with("PORT", "4999"), &home, &["serve"]);
    assert!(!said.status.success());
    assert!(said.stderr.contains("DB_FALLBACK_TO_ENV") && said.stderr.contains("gone"), "{}", said.stderr);
    let gateway = Setup::default().with("DB_FALLBACK_TO_ENV", "true").start_in(home);
    assert_eq!(gateway.admin().get("/api/sites").status, 200);
}

#[test]
fn while_everything_is_copied_changes_are_refused_and_a_task_shows_how_far_it_is() {
    let home = Home::new();
    let gateway = with_data(&home);
    let target = home.path().join("held.db");
    let choice = json!({ "dialect": "sqlite", "connectionString": target });
    let change = || gateway.admin().put("/api/settings/runtime", &json!({ "notifyCooldownSec": 77 }));
    let migrate = || gateway.admin().post("/api/settings/database/migrate", &choice);
    let mut was_refused = false;
    for _ in 0..5 {
        // The copy waits for some seconds for whoever holds the target.
        let held = rusqlite::Connection::open(&target).expect("a database");
        held.execute_batch("BEGIN EXCLUSIVE").expect("held");
        std::thread::scope(|scope| {
            let copy = scope.spawn(migrate);
            while !copy.is_finished() && !was_refused {
                let change = change();
                was_refused = change.status == 503 && change.text().contains("copied into another database");
            }
            assert_eq!(gateway.admin().get("/api/sites").status, 200, "reading goes on");
            drop(held);
        });
        if was_refused {
            break;
        }
    }
    assert!(was_refused);
    assert_eq!(migrate().status, 200);
    let tasks = gateway.admin().get("/api/tasks").expect(200);
    let task = &tasks["tasks"][0];
    assert_eq!((&task["type"], &task["status"]), (&json!("database-migrate"), &json!("succeeded")), "{task}");
    assert_eq!(task["result"]["accounts"], 1);
    assert_eq!(change().status, 200);
}

#[test]
fn two_factory_resets_at_once_are_both_answered() {
    let home = Home::new();
    let gateway = with_data(&home);
    let choice = json!({ "dialect": "sqlite", "connectionString": home.path().join("moved.db") });
    gateway.admin().post("/api/settings/database/migrate", &choice).expect(200);
    gateway.admin().put("/api/settings/database/runtime", &choice).expect(200);
    let gateway = gateway.restart();
    let reset = || gateway.admin().post("/api/settings/maintenance/factory-reset", &json!({})).status;
    let statuses = std::thread::scope(|scope| {
        let asking = [scope.spawn(reset), scope.spawn(reset)];
        asking.map(|asked| asked.join().expect("no panic"))
    });
    // The second caller may come with a token that is no longer valid.
    assert!(
        statuses.contains(&200) && statuses.iter().all(|status| [200, 403].contains(status)),
        "{statuses:?}"
    );
    let admin = gateway.anyone().with("Authorization", "Bearer change-me-admin-token");
    let now = admin.get("/api/settings/database/runtime").expect(200);
    assert_eq!(now["active"]["connection"], "(default path)", "{now}");
}

#[test]
fn a_factory_reset_goes_on_with_the_default_database_which_is_empty() {
    let home = Home::new();
    let gateway = with_data(&home);
    let target = home.path().join("moved.db");
    let choice = json!({ "dialect": "sqlite", "connectionString": target });
    let save =
        || gateway.admin().put("/api/settings/database/runtime", &choice).expect(200)["message"].clone();
    assert!(save().as_str().is_some_and(|message| message.contains("begins without any data")));
    gateway.admin().post("/api/settings/database/migrate", &choice).expect(200);
    assert_eq!(save(), "Saved. It takes effect after a restart");
    let gateway = gateway.restart();
    assert_eq!(runtime(&gateway)["active"]["connection"], target.to_str().expect("a path"));
    let reset = gateway.admin().post("/api/settings/maintenance/factory-reset", &json!({}));
    assert_eq!((reset.status, reset.header("connection")), (200, Some("close")), "{}", reset.text());
    assert_eq!(gateway.admin().get("/api/sites").status, 403, "the former token");
    let on_default = |gateway: &Gateway| {
        let admin = gateway.anyone().with("Authorization", "Bearer change-me-admin-token");
        let now = admin.get("/api/settings/database/runtime").expect(200);
        assert_eq!(now["active"]["connection"], "(default path)", "{now}");
        assert_eq!(now["restartRequired"], false, "{now}");
        admin
    };
    let admin = on_default(&gateway);
    gateway.wait_for_output("restarting on the default database after a factory reset");
    assert_eq!(admin.get("/api/events").expect(200), json!([]));
    let sites = admin.get("/api/sites").text();
    assert!(!sites.contains("north"), "what was there before the move does not come back: {sites}");
    let site = json!({"name": "south", "url": "http://127.0.0.1:9/south", "platform": "new-api"});
    admin.post("/api/sites", &site).expect(200);
    let gateway = gateway.restart();
    assert_eq!(on_default(&gateway).get("/api/sites").expect(200)[0]["name"], "south");
}

#[test]
fn a_request_under_way_when_a_factory_reset_leads_to_another_database_is_answered() {
    let home = Home::new();
    let gateway = with_data(&home);
    let choice = json!({ "dialect": "sqlite", "connectionString": home.path().join("moved.db") });
    gateway.admin().post("/api/settings/database/migrate", &choice).expect(200);
    gateway.admin().put("/api/settings/database/runtime", &choice).expect(200);
    let upstream = Upstream::start(&[MODEL]);
    upstream.answer(CHAT, Reply::stall());
    let gateway = gateway.restart().in_front_of("new-api", &upstream);
    std::thread::scope(|scope| {
        let asking = scope.spawn(|| gateway.client().chat(MODEL));
        upstream.last(CHAT);
        gateway.admin().post("/api/settings/maintenance/factory-reset", &json!({})).expect(200);
        let cut_off = asking.join().expect("no panic");
        let error = cut_off.expect(503);
        assert!(
            error["error"]["message"].as_str().is_some_and(|why| why.contains("service stopped")),
            "{error}"
        );
        assert!(cut_off.header("retry-after").is_some());
    });
}

#[test]
fn commands_for_a_file_say_what_to_do_where_a_server_keeps_the_data() {
    let home = Home::new();
    let server = Setup::default().with("DB_TYPE", "postgres").with("DB_URL", "postgres://127.0.0.1:9/x");
    for arguments in [&["backup", "copy.db"][..], &["restore", "copy.db"]] {
        let refused = support::run(&server, &home, arguments);
        assert!(!refused.status.success());
        assert!(refused.stderr.contains("switchyard migrate --to"), "{}", refused.stderr);
    }
    let looked = support::run(&server, &home, &["doctor"]);
    assert!(!looked.status.success());
    assert!(looked.stdout.to_lowercase().contains("postgres"), "{}", looked.stdout);
}

/// Waits until `what` holds at an instance that was not told directly.
fn soon(what: &str, mut holds: impl FnMut() -> bool) {
    support::eventually(what, || holds().then_some(()));
}

#[test]
fn instances_on_one_database_take_over_each_others_changes() {
    if !support::is_on_server() {
        return; // SQLite serves one process.
    }
    let home = Home::new();
    let (one, other) = (with_data(&home), Setup::default().start_in(home.clone()));
    assert_eq!(other.admin().get("/api/sites").json()[0]["name"], "north");
    let holder = |gateway: &Gateway| {
        gateway.anyone().with("Authorization", "Bearer sk-second-0123456789").get("/v1/models").status
    };
    assert_eq!(holder(&other), 403, "nobody knows it yet");
    let key = json!({ "name": "second", "key": "sk-second-0123456789" });
    let made = one.admin().post("/api/downstream-keys", &key).expect(200);
    soon("a new key opens the other instance", || holder(&other) == 200);
    let path = format!("/api/downstream-keys/{}", made["item"]["id"]);
    one.admin().delete(&path).expect(200);
    soon("a deleted key opens the other instance no more", || holder(&other) == 403);

    let window = |gateway: &Gateway| {
        gateway.admin().get("/api/settings/runtime").json()["proxyLogRetentionDays"].clone()
    };
    let days = window(&other);
    one.admin().put("/api/settings/runtime", &json!({ "notifyCooldownSec": 77 })).expect(200);
    soon("a setting is that of the other instance", || {
        other.admin().get("/api/settings/runtime").json()["notifyCooldownSec"] == 77
    });
    assert_eq!(window(&other), days);
}

#[test]
fn a_server_that_is_not_there_ends_the_start_with_what_to_look_at() {
    if !support::is_on_server() {
        return;
    }
    let setup = Setup::default().with("PORT", "4999").with("DB_TYPE", "postgres").with("DB_URL", "db/x");
    let said = support::run(&setup, &Home::new(), &["serve"]);
    assert_eq!(said.status.code(), Some(78), "{}", said.stderr);
    assert!(said.stderr.contains("DB_URL"), "{}", said.stderr);
}

#[test]
fn a_database_that_cannot_hold_every_text_is_refused() {
    let options = "WITH ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0";
    let postgres =
        std::env::var("SWITCHYARD_TEST_DATABASE").is_ok_and(|server| server.starts_with("postgres"));
    let Some(database) = postgres.then(|| ServerDatabase::create_with(options)).flatten() else { return };
    let setup =
        Setup::default().with("PORT", "4999").with("DB_TYPE", "postgres").with("DB_URL", &database.url());
    let said = support::run(&setup, &Home::new(), &["serve"]);
    assert_eq!(said.status.code(), Some(1), "{}", said.stderr);
    assert!(said.stderr.contains("its encoding is LATIN1"), "{}", said.stderr);
}

#[test]
fn a_database_that_somebody_uses_is_no_target_under_whatever_address() {
    let home = Home::new();
    let Some(server) = home.server() else { return };
    let gateway = with_data(&home);
    let same = server.url().replace('_', "%5F");
    let choice = json!({ "dialect": server.kind(), "connectionString": same });
    let refused = gateway.admin().post("/api/settings/database/migrate", &choice);
    assert_eq!(refused.status, 400, "{}", refused.text());
    assert!(refused.text().contains("in use by"), "{}", refused.text());
    drop(gateway);
    let refused = support::run(&Setup::default(), &home, &["migrate", "--to", &same]);
    assert_eq!(refused.status.code(), Some(73), "{}", refused.stderr);
    assert!(refused.stderr.contains("in use by"), "{}", refused.stderr);
    let gateway = Setup::default().start_in(home);
    assert_eq!(gateway.admin().get("/api/sites").expect(200)[0]["name"], "north", "nothing was emptied");
}
