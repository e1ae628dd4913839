//! Backups that the service makes by itself: on a WebDAV server, and as files in a directory.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::support::paths::{EXPORT, IMPORT};
use crate::support::{Answer, Gate, Gateway, Home, Reply, Request, Setup, Upstream, WebDav, eventually, run};

const WEBDAV: &str = "/api/settings/backup/webdav";

fn configured(gateway: &Gateway, server: &WebDav, more: &Value) -> Value {
    let mut config = json!({"enabled": true, "fileUrl": server.url("/a/b/backup.json"), "username": "ann",
        "password": "pass-word"});
    for (name, value) in more.as_object().expect("an object") {
        config[name] = value.clone();
    }
    gateway.admin().put(WEBDAV, &config).expect(200)
}

fn state(gateway: &Gateway) -> Value {
    gateway.admin().get(WEBDAV).expect(200)["state"].clone()
}

fn add_site(gateway: &Gateway, name: &str) {
    gateway
        .create_site(&json!({"name": name, "url": format!("https://{name}.example"), "platform": "openai"}));
}

fn names(document: &[u8]) -> Vec<String> {
    let document: Value = serde_json::from_slice(document).expect("JSON");
    let sites = document["accounts"]["sites"].as_array().expect("sites").iter();
    sites.map(|site| site["name"].as_str().expect("a name").to_owned()).collect()
}

#[test]
fn a_configuration_is_changed_in_part_and_its_password_is_never_shown() {
    let gateway = Gateway::start();
    let fresh = gateway.admin().get(WEBDAV).expect(200);
    assert_eq!(
        fresh,
        json!({"success": true, "state": {"lastSyncAt": null, "lastError": null}, "config": {
        "enabled": false, "fileUrl": "", "username": "", "exportType": "all", "autoSyncEnabled": false,
        "autoSyncCron": "0 */6 * * *", "hasPassword": false, "passwordMasked": ""}})
    );
    let put = |body: Value| gateway.admin().put(WEBDAV, &body);
    let config = put(json!({"enabled": true, "fileUrl": "https://dav.example/b.json", "password": "abcdef",
        "autoSyncEnabled": true}))
    .expect(200)["config"]
        .clone();
    assert_eq!((&config["hasPassword"], &config["passwordMasked"]), (&json!(true), &json!("ab****ef")));
    let config = put(json!({"password": "ab****ef", "username": "ann"})).expect(200)["config"].clone();
    assert_eq!((&config["passwordMasked"], &config["autoSyncEnabled"]), (&json!("ab****ef"), &json!(true)));
    assert_eq!(put(json!({"password": "abcd"})).expect(200)["config"]["passwordMasked"], "****");
    let config =
        put(json!({"password": "x", "clearPassword": true, "enabled": false})).expect(200)["config"].clone();
    assert_eq!((&config["hasPassword"], &config["autoSyncEnabled"]), (&json!(false), &json!(false)));
    assert_eq!(put(json!({"fileUrl": "a draft"})).expect(200)["config"]["fileUrl"], "a draft");
    for refused in [
        json!({"enabled": true}),
        json!({"enabled": "yes"}),
        json!({"enabled": true, "fileUrl": ""}),
        json!({"enabled": true, "fileUrl": "ftp://dav.example/b.json"}),
        json!({"exportType": "routes"}),
        json!({"autoSyncCron": "soon"}),
        json!({"fileUrl": 7}),
        json!({"enabled": true, "fileUrl": "https://dav.example/"}),
        json!({"enabled": true, "fileUrl": "https://dav.example/b.json#f"}),
        json!({"username": "ann:b"}),
        json!({"username": "ann\r\nx"}),
    ] {
        assert_eq!(put(refused.clone()).status, 400, "{refused}");
    }
    let exported = gateway.admin().get("/api/settings/backup/export").expect(200).to_string();
    assert!(!exported.contains("backup_webdav_state_v1"), "{exported}");
}

#[test]
fn a_backup_is_written_to_the_server_read_back_and_imported_from_there() {
    let (gateway, server) = (Gateway::start(), WebDav::start());
    add_site(&gateway, "first");
    let post =
        |gateway: &Gateway, what: &str, body: Value| gateway.admin().post(&format!("{WEBDAV}/{what}"), &body);
    post(&gateway, "export", json!({})).expect(400);
    assert_eq!(state(&gateway), json!({"lastSyncAt": null, "lastError": null}), "nothing was tried");
    configured(&gateway, &server, &json!({}));
    let answer = post(&gateway, "export", json!({})).expect(200);
    let url = server.url("/a/b/backup.json");
    assert_eq!((&answer["fileUrl"], &answer["exportType"]), (&json!(url), &json!("all")));
    assert_eq!((&answer["lastError"], &answer["syncedAt"]), (&Value::Null, &answer["lastSyncAt"]));
    let first = server.file("/a/b/backup.json").expect("the missing collections were made");
    assert_eq!(names(&first), ["first"]);
    assert!(!String::from_utf8_lossy(&first).contains("pass-word"), "its own password is not in it");
    // The previous backup is kept beside the new one.
    add_site(&gateway, "second");
    assert_eq!(post(&gateway, "export", json!({"type": "accounts"})).expect(200)["exportType"], "accounts");
    assert_eq!(server.file("/a/b/backup.json.1"), Some(first));
    assert_eq!(names(&server.file("/a/b/backup.json").expect("a file")), ["first", "second"]);
    post(&gateway, "export", json!({"type": "x"})).expect(400);
    let other = Gateway::start();
    configured(&other, &server, &json!({}));
    let answer = post(&other, "import", json!({})).expect(200);
    assert_eq!((&answer["success"], &answer["sections"]["accounts"]), (&json!(true), &json!(true)));
    assert_eq!((&answer["fileUrl"], &answer["lastError"]), (&json!(url), &Value::Null));
    assert_eq!(other.admin().get("/api/sites").expect(200).as_array().map(Vec::len), Some(2));
    assert!(state(&other)["lastSyncAt"].is_string());
}

#[test]
fn what_a_server_refuses_is_told_plainly_and_remembered() {
    let (gateway, server) = (Gateway::start(), WebDav::start());
    configured(&gateway, &server, &json!({}));
    let export = || gateway.admin().post(&format!("{WEBDAV}/export"), &json!({}));
    export().expect(200);
    let synced = state(&gateway)["lastSyncAt"].clone();
    for (method, status, words, expected) in [
        ("PUT", 423, "", "locked"),
        ("PUT", 507, "quota of ann", "no room"),
        ("PUT", 409, "", "collection"),
        ("PUT", 500, "a stack trace", "HTTP 500 (a stack trace)"),
        ("PUT", 401, "", "user name and password"),
    ] {
        server.refuse(method, status, words);
        let message = export().expect(400)["message"].as_str().expect("a message").to_owned();
        assert!(message.contains(expected) && message.contains(words), "{message}");
        assert_eq!(state(&gateway), json!({"lastSyncAt": synced, "lastError": message}));
    }
    server.refuse("PUT", 500, &"x".repeat(500));
    let message = export().expect(400)["message"].as_str().expect("a message").to_owned();
    assert!(message.contains(&"x".repeat(120)) && !message.contains(&"x".repeat(121)), "{message}");
    let refused =
        || gateway.admin().post(&format!("{WEBDAV}/import"), &json!({})).expect(400)["message"].to_string();
    for (status, expected) in
        [(404, "has no file"), (410, "has no file"), (409, "collection for the file does not exist")]
    {
        server.refuse("GET", status, "gone fishing");
        let message = refused();
        let is_plain =
            message.contains(&format!("HTTP {status}: the ")) && message.contains("(gone fishing)");
        assert!(is_plain && message.contains(expected), "{message}");
    }
    server.accept();
    export().expect(200);
    assert_eq!(state(&gateway)["lastError"], Value::Null);
    // Some servers repeat the login that they refuse.
    server.refuse("PUT", 401, "nope pass-word Basic YW5uOnBhc3Mtd29yZA==");
    let message = export().expect(400)["message"].as_str().expect("a message").to_owned();
    assert!(message.contains("(nope [redacted]") && !message.contains("YW5u"), "{message}");
    server.accept();
    let (file, copy) = ("/a/b/backup.json", "/a/b/backup.json.1");
    server.cut();
    let last = server.file(file).expect("a file");
    let message = export().expect(400)["message"].as_str().expect("a message").to_owned();
    assert!(message.contains("cut short"), "{message}");
    assert_eq!(server.file(file).as_ref(), Some(&last), "its copy was cut, so the file is left alone");
    server.accept();
    export().expect(200);
    assert_eq!(server.file(copy).as_ref(), Some(&last));
    // A file that was cut does not replace the last good one.
    server.store(file, &last[..100]);
    export().expect(200);
    assert_eq!(server.file(copy), Some(last));
    server.store(file, b"{\"version\":");
    let import = || gateway.admin().post(&format!("{WEBDAV}/import"), &json!({})).expect(400);
    assert!(import()["message"].as_str().is_some_and(|message| message.contains("JSON")));
    server.store("/a/b/backup.json", b"{\"version\":\"2.1\"}");
    assert!(import()["message"].as_str().is_some_and(|message| message.contains("timestamp")));
    assert!(state(&gateway)["lastError"].as_str().is_some_and(|error| error.contains("timestamp")));
}

#[test]
fn a_server_that_lets_write_and_not_read_has_the_file_and_a_warning_says_so() {
    let (gateway, server) = (Gateway::start(), WebDav::start());
    configured(&gateway, &server, &json!({}));
    let export = || gateway.admin().post(&format!("{WEBDAV}/export"), &json!({})).expect(200);
    export();
    for (status, site) in [(403, "first"), (405, "second"), (501, "third"), (401, "fourth")] {
        add_site(&gateway, site);
        server.refuse("GET", status, "");
        let answer = export();
        let warning = answer["warnings"][0].as_str().expect("a warning");
        assert!(
            warning.contains("No copy of a former file was kept")
                && warning.contains("could not be read back and compared")
                && warning.contains(&status.to_string()),
            "{warning}"
        );
        assert_eq!(
            (&state(&gateway)["lastError"], &state(&gateway)["lastWarning"]),
            (&Value::Null, &json!(warning))
        );
        let file = server.file("/a/b/backup.json").expect("it was written");
        assert_eq!(names(&file).last().map(String::as_str), Some(site));
    }
    server.accept();
    for (has, expected) in [(Some(&b"{}"[..]), "differs"), (Some(b""), "differs"), (None, "has no file")] {
        server.shows(has);
        let warning = export()["warnings"][0].as_str().expect("a warning").to_owned();
        assert!(warning.contains(expected), "{warning}");
        assert_eq!(state(&gateway)["lastWarning"], warning);
    }
    server.refuse("PUT", 500, "");
    gateway.admin().post(&format!("{WEBDAV}/export"), &json!({})).expect(400);
    assert_eq!(state(&gateway)["lastWarning"], Value::Null, "it was of the file before");
    server.accept();
    assert_eq!((&export()["warnings"], &state(&gateway)["lastWarning"]), (&Value::Null, &Value::Null));
}

#[test]
fn a_file_that_cannot_be_read_at_the_moment_is_not_overwritten() {
    let (gateway, server) = (Gateway::start(), WebDav::start());
    configured(&gateway, &server, &json!({}));
    let export = || gateway.admin().post(&format!("{WEBDAV}/export"), &json!({}));
    export().expect(200);
    let last = server.file("/a/b/backup.json");
    add_site(&gateway, "first");
    for status in [429, 500, 502, 503] {
        server.refuse("GET", status, "");
        let message = export().expect(400)["message"].as_str().expect("a message").to_owned();
        assert!(message.contains(&status.to_string()), "{message}");
        assert_eq!(server.file("/a/b/backup.json"), last);
    }
    server.accept();
    export().expect(200);
    assert_eq!(server.file("/a/b/backup.json.1"), last);
}

#[test]
fn a_server_that_redirects_reads_is_read_where_it_redirects_to() {
    let (gateway, server) = (Gateway::start(), WebDav::start());
    configured(&gateway, &server, &json!({}));
    server.redirect_reads_to("");
    let export = || gateway.admin().post(&format!("{WEBDAV}/export"), &json!({})).expect(200);
    export();
    let first = server.file("/a/b/backup.json").expect("a file");
    add_site(&gateway, "first");
    assert_eq!(export()["warnings"], Value::Null);
    assert_eq!(server.file("/a/b/backup.json.1"), Some(first));
    // Another host is not sent the login.
    let storage = Upstream::start(&[]);
    let file = server.file("/a/b/backup.json").expect("a file");
    storage.answer("/stored/a/b/backup.json", Reply::bytes(200, "application/json", file));
    server.redirect_reads_to(&storage.url());
    let other = Gateway::start();
    configured(&other, &server, &json!({}));
    other.admin().post(&format!("{WEBDAV}/import"), &json!({})).expect(200);
    assert_eq!(other.admin().get("/api/sites").expect(200).as_array().map(Vec::len), Some(1));
    let asked = storage.last("/stored/a/b/backup.json");
    assert_eq!(
        (asked.target.as_str(), asked.header("authorization")),
        ("/stored/a/b/backup.json?sign=x", None)
    );
}

#[test]
fn a_server_that_accepts_this_file_only_has_the_new_one_and_a_warning_names_the_copy() {
    let (gateway, server) = (Gateway::start(), WebDav::start());
    configured(&gateway, &server, &json!({}));
    let export = || gateway.admin().post(&format!("{WEBDAV}/export"), &json!({})).expect(200);
    export();
    server.accept_only("/a/b/backup.json");
    add_site(&gateway, "first");
    let warning = export()["warnings"][0].as_str().expect("a warning").to_owned();
    assert!(warning.contains("/a/b/backup.json.1: HTTP 403"), "{warning}");
    assert_eq!(names(&server.file("/a/b/backup.json").expect("a file")), ["first"]);
    assert_eq!(server.file("/a/b/backup.json.1"), None);
    assert_eq!(
        (&state(&gateway)["lastError"], &state(&gateway)["lastWarning"]),
        (&Value::Null, &json!(warning))
    );
}

#[test]
fn the_file_on_the_server_is_written_at_its_times() {
    let (gateway, server) = (Gateway::start(), WebDav::start());
    add_site(&gateway, "first");
    configured(&gateway, &server, &json!({"autoSyncEnabled": true, "autoSyncCron": "* * * * * *"}));
    let file = eventually("the file is written", || server.file("/a/b/backup.json"));
    assert_eq!(names(&file), ["first"]);
    // A failure is told once, however often it is repeated.
    let failures = || {
        let events = gateway.admin().get("/api/events").expect(200);
        let told = |event: &&Value| event["title"] == "A backup to the WebDAV server failed";
        events.as_array().expect("events").iter().filter(told).count()
    };
    for (round, status) in [(1, 507), (2, 423)] {
        server.refuse("PUT", status, "");
        eventually("the failure is told", || (failures() == round).then_some(()));
        server.accept();
        let is_well = || state(&gateway)["lastError"].is_null() && failures() == round;
        eventually("the file is written again", || is_well().then_some(()));
    }
    // An imported configuration is disabled.
    let document = gateway.admin().get("/api/settings/backup/export").expect(200);
    let other = Gateway::start();
    let import = json!({ "data": document });
    for gateway in [&other, &gateway] {
        let answer = gateway.admin().post("/api/settings/backup/import", &import).expect(200);
        let warnings = answer["warnings"].to_string();
        assert!(warnings.contains("automatic export is switched off"), "{warnings}");
        assert_eq!(gateway.admin().get(WEBDAV).expect(200)["config"]["autoSyncEnabled"], false);
    }
    let config = other.admin().get(WEBDAV).expect(200)["config"].clone();
    assert_eq!((&config["enabled"], &config["autoSyncEnabled"]), (&json!(true), &json!(false)));
    assert_eq!(config["hasPassword"], false);
}

#[test]
fn the_stop_waits_for_a_file_that_is_being_written() {
    let (mut gateway, server) = (Gateway::start(), WebDav::start());
    let gate = Gate::new();
    server.hold_writes(&gate);
    configured(&gateway, &server, &json!({"autoSyncEnabled": true, "autoSyncCron": "* * * * * *"}));
    eventually("the file is being written", || server.file("/a/b/backup.json"));
    gateway.signal("TERM");
    gateway.wait_for_output("all requests ended");
    assert!(gateway.is_running(), "the file is not cut");
    gate.open();
    assert!(gateway.wait_for_exit().success());
    let home = gateway.home().clone();
    let state = home.database().text("SELECT value FROM settings WHERE name = 'backup_webdav_state_v1'");
    let state: Value = serde_json::from_str(&state).expect("JSON");
    assert!(state["lastSyncAt"].is_string() && state["lastError"].is_null(), "{state}");
}

#[test]
fn the_report_of_an_import_masks_a_password_as_the_configuration_does() {
    let gateway = Gateway::start();
    let config = json!({"enabled": true, "fileUrl": "https://dav.example/b.json", "password": "abcdefghij"});
    let document = json!({"timestamp": 1, "settings": [{"key": "backup_webdav_config_v1", "value": config}]});
    let answer = gateway.admin().post("/api/settings/backup/import", &json!({"data": document})).expect(200);
    let applied = &answer["appliedSettings"][0]["value"];
    assert_eq!((&applied["password"], &applied["autoSyncEnabled"]), (&json!("ab****ij"), &json!(false)));
    let shown = gateway.admin().get(WEBDAV).expect(200);
    assert_eq!(shown["config"]["passwordMasked"], "ab****ij");
}

#[test]
fn a_configuration_that_cannot_be_used_is_not_imported() {
    let (gateway, server) = (Gateway::start(), WebDav::start());
    let saved = configured(&gateway, &server, &json!({}));
    let helper = json!({"helperBaseUrl": "http://127.0.0.1:9", "releaseName": "gateway"});
    gateway.admin().put("/api/update-center/config", &helper).expect(200);
    let url = server.url("/a/b/backup.json");
    let (webdav, updates) = ("backup_webdav_config_v1", "update_center_k3s_config_v1");
    for (key, value, reason) in [
        (webdav, json!("x"), "object"),
        (webdav, json!([]), "object"),
        (webdav, json!({"enabled": "yes", "fileUrl": url}), "enabled: expected boolean"),
        (webdav, json!({"fileUrl": 5}), "fileUrl: expected string"),
        (webdav, json!({"enabled": true, "fileUrl": url, "exportType": "zz"}), "exportType"),
        (webdav, json!({"enabled": true, "fileUrl": "ftp://x/y"}), "fileUrl: expected http or https"),
        (webdav, json!({"fileUrl": url, "username": "a:b"}), "username"),
        (webdav, json!({"fileUrl": url, "autoSyncCron": "soon"}), "autoSyncCron: expected cron expression"),
        (updates, json!("x"), "object"),
        (updates, json!({"enabled": "yes"}), "enabled: expected boolean"),
        (updates, json!({"helperBaseUrl": 5}), "helperBaseUrl: expected string"),
        (updates, json!({"helperBaseUrl": "ftp://x"}), "helperBaseUrl"),
        (updates, json!({"defaultDeploySource": "zz"}), "defaultDeploySource"),
        (
            updates,
            json!({"chartRef": "oci://me:pass-word@r.example/c"}),
            "chartRef: expected address without",
        ),
        ("webhook_url", json!("ftp://x"), "http or https address"),
    ] {
        let document = json!({"timestamp": 1, "settings": [{"key": key, "value": value}]});
        let import = json!({"data": document});
        let answer = gateway.admin().post("/api/settings/backup/import", &import).expect(200);
        let warning = answer["warnings"][0].as_str().expect("a warning");
        assert!(warning.contains(key) && warning.contains(reason), "{warning}");
        assert_eq!(answer["appliedSettings"], json!([]), "{value}");
    }
    assert_eq!(gateway.admin().get(WEBDAV).expect(200), saved);
    let config = gateway.admin().get("/api/update-center/status").expect(200)["config"].clone();
    assert_eq!(config["helperBaseUrl"], "http://127.0.0.1:9");
}

fn backups(home: &Home) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(home.data_dir().join("backups")).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.retain(|path| !path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.')));
    paths.sort();
    paths
}

#[test]
fn backups_are_written_on_a_schedule_and_the_oldest_go() {
    let home = Home::new();
    let setup = Setup::default().with("BACKUP_CRON", "* * * * * *").with("BACKUP_KEEP", "2");
    // As a stop in the middle of a backup leaves it.
    let left = home
        .data_dir()
        .join("backups")
        .join(".switchyard-backup-20260101000000-12ab34cd.json.7.switchyard-part");
    std::fs::create_dir_all(left.parent().expect("a folder")).expect("made");
    std::fs::write(&left, "half").expect("written");
    let gateway = setup.start_in(home.clone());
    add_site(&gateway, "first");
    let is_in = |path: &PathBuf| std::fs::read(path).is_ok_and(|bytes| names(&bytes) == ["first"]);
    let first = eventually("a backup is written", || backups(&home).into_iter().find(is_in));
    let other = home.data_dir().join("backups").join("notes.txt");
    std::fs::write(&other, "mine").expect("written");
    eventually("the first one is gone", || (!first.exists()).then_some(()));
    assert!(other.exists(), "what is not ours stays");
    assert!(!left.exists(), "half a backup has credentials in it, too");
    drop(gateway);
    assert!(backups(&home).len() <= 4, "{:?}", backups(&home));
}

#[test]
fn gateways_with_one_directory_keep_their_backups_apart() {
    let homes = [Home::new(), Home::new()];
    let shared = homes[0].path().join("shared");
    let directory = shared.to_str().expect("a path");
    let setup = Setup::default().with("BACKUP_CRON", "* * * * * *").with("BACKUP_KEEP", "2");
    let setup = setup.with("BACKUP_DIR", directory);
    let gateways = homes.each_ref().map(|home| setup.clone().start_in(home.clone()));
    for (gateway, name) in gateways.iter().zip(["first", "second"]) {
        add_site(gateway, name);
    }
    let of = |site: &str| {
        let files = std::fs::read_dir(&shared).into_iter().flatten().flatten();
        let is_of = |file: &std::fs::DirEntry| {
            let is_finished = !file.file_name().to_string_lossy().starts_with('.');
            is_finished && std::fs::read(file.path()).is_ok_and(|bytes| names(&bytes) == [site])
        };
        files.filter(is_of).count()
    };
    eventually("both keep two", || (of("first") >= 2 && of("second") >= 2).then_some(()));
    for gateway in gateways {
        let events = gateway.admin().get("/api/events").expect(200).to_string();
        assert!(!events.contains("backup failed"), "{events}");
    }
}

#[test]
fn a_backup_is_sealed_with_the_passphrase() {
    let home = Home::new();
    let setup =
        Setup::default().with("BACKUP_CRON", "* * * * * *").with("BACKUP_PASSPHRASE", "correct horse");
    let gateway = setup.start_in(home.clone());
    add_site(&gateway, "first");
    let path = eventually("a backup is written", || backups(&home).pop());
    assert!(path.to_string_lossy().ends_with(".json.sealed"), "{path:?}");
    let bytes = std::fs::read(&path).expect("a file");
    assert!(bytes.starts_with(b"{\"format\":\"switchyard-sealed\""));
    assert!(!String::from_utf8_lossy(&bytes).contains("siteApiEndpoints"));
}

const PASSPHRASE: &str = "x-backup-passphrase";

fn sent(gateway: &Gateway, sealed: &[u8], passphrase: Option<&str>) -> Answer {
    let ask = Request::new("POST", IMPORT).header("content-type", "application/octet-stream").body(sealed);
    let ask = passphrase.into_iter().fold(ask, |ask, passphrase| ask.header(PASSPHRASE, passphrase));
    gateway.admin().send(ask)
}

#[test]
fn a_sealed_export_is_imported_with_its_passphrase_only() {
    let gateway = Gateway::start();
    add_site(&gateway, "first");
    let answer = gateway.admin().send(Request::new("GET", EXPORT).header(PASSPHRASE, "correct hörse"));
    assert_eq!(answer.header("content-type"), Some("application/octet-stream"));
    assert!(answer.header("content-disposition").is_some_and(|name| name.contains(".json.sealed\"")));
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    let sealed = answer.body;
    assert!(sealed.starts_with(b"{\"format\":\"switchyard-sealed\""));
    assert!(!String::from_utf8_lossy(&sealed).contains("siteApiEndpoints"));

    let fresh = Gateway::start();
    let plain = gateway.admin().get(EXPORT).body;
    let mut damaged = sealed.clone();
    let middle = damaged.len() - 40;
    damaged[middle] ^= 1;
    for (body, passphrase, expected) in [
        (&sealed[..], None, "passphrase is missing"),
        (&sealed, Some("another"), "passphrase is wrong"),
        (&damaged, Some("correct hörse"), "sealed file is damaged"),
        (&sealed[..sealed.len() - 1], Some("correct hörse"), "cut off"),
        (&plain, Some("correct hörse"), "not a sealed backup"),
        (b"", Some("correct hörse"), "not a sealed backup"),
    ] {
        let refused = sent(&fresh, body, passphrase).expect(400);
        let message = refused["message"].as_str().expect("a message");
        assert!(message.contains(expected), "{expected}: {message}");
    }
    let wrapped = [b"{\"data\":".as_slice(), &plain, b"}"].concat();
    let ask = Request::new("POST", IMPORT).json_text(wrapped).header(PASSPHRASE, "correct hörse");
    let refused = fresh.admin().send(ask).expect(400);
    assert!(refused["message"].as_str().is_some_and(|why| why.contains("not sealed")), "{refused}");
    assert_eq!(fresh.admin().get("/api/sites").expect(200), json!([]));

    assert_eq!(sent(&fresh, &sealed, Some("correct hörse")).expect(200)["success"], true);
    assert_eq!(names(&fresh.admin().get(EXPORT).body), ["first"]);
}

#[test]
fn a_passphrase_in_an_address_seals_and_opens_nothing_and_an_empty_one_is_refused() {
    let gateway = Gateway::start();
    add_site(&gateway, "first");
    let sealed = gateway.admin().get(&format!("{EXPORT}?passphrase=correct%20h%C3%B6rse")).body;
    assert_eq!(sent(&gateway, &sealed, Some("correct hörse")).expect(200)["success"], true);
    let ask = Request::post(&format!("{IMPORT}?passphrase=secret")).json(&json!({"data": {}}));
    let refused = gateway.admin().send(ask).expect(400);
    assert!(refused["message"].as_str().is_some_and(|why| why.contains("X-Backup-Passphrase")), "{refused}");
    gateway.admin().send(Request::new("GET", EXPORT).header(PASSPHRASE, "")).expect(400);
    gateway.admin().get(&format!("{EXPORT}?passphrase=")).expect(400);
    assert!(!gateway.output().contains("rse"), "no log line has it");
}

#[test]
fn what_an_instance_sealed_by_itself_it_opens_by_itself() {
    let server = WebDav::start();
    let gateway = Setup::default().with("BACKUP_PASSPHRASE", "correct horse").start();
    add_site(&gateway, "first");
    let sealed = gateway.admin().send(Request::new("GET", EXPORT).header(PASSPHRASE, "correct horse")).body;
    let other = gateway.admin().send(Request::new("GET", EXPORT).header(PASSPHRASE, "another")).body;
    add_site(&gateway, "second");
    sent(&gateway, &sealed, None).expect(200);
    assert_eq!(names(&gateway.admin().get(EXPORT).body), ["first"]);
    let refused = sent(&gateway, &other, None).expect(400);
    assert!(refused["message"].as_str().is_some_and(|why| why.contains("passphrase is wrong")), "{refused}");

    // Also as a file on a server.
    configured(&gateway, &server, &json!({}));
    add_site(&gateway, "third");
    server.store("/a/b/backup.json", &other);
    let import = "/api/settings/backup/webdav/import";
    gateway.admin().post(import, &json!({})).expect(400);
    let ask = Request::new("POST", import).json(&json!({})).header(PASSPHRASE, "another");
    gateway.admin().send(ask).expect(200);
    assert_eq!(names(&gateway.admin().get(EXPORT).body), ["first"]);
}

#[test]
fn a_schedule_of_backups_that_cannot_be_read_stops_the_start() {
    let home = Home::new();
    let setup = Setup::default().with("BACKUP_CRON", "every day");
    let ended = run(&setup, &home, &[]);
    assert_ne!(ended.status.code(), Some(0));
    assert!((ended.stdout + &ended.stderr).contains("BACKUP_CRON"));
}
