//! An operator's configuration, exported from one data directory and imported into another, from the command line.

use std::fs::File;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use serde_json::{Value, json};

use crate::support::{Gateway, Home, PROXY_TOKEN, Pair, Setup, eventually, run, run_with};

/// Creates a gateway that has been in use, and stops it.
fn used() -> Arc<Home> {
    let pair = Pair::start();
    assert_eq!(pair.gateway.client().chat(Pair::MODEL).status, 200);
    pair.gateway.wait_for_logs(1);
    let key = json!({"name": "team", "key": "sk-team-of-the-export", "maxCost": 4.5});
    pair.gateway.admin().post("/api/downstream-keys", &key).expect(200);
    let home = Arc::clone(pair.gateway.home());
    stop(pair.gateway);
    home
}

fn stop(mut gateway: Gateway) {
    gateway.signal("TERM");
    assert!(gateway.wait_for_exit().success());
}

#[track_caller]
fn done(home: &Home, arguments: &[&str]) -> String {
    let finished = run(&Setup::default(), home, arguments);
    assert!(finished.status.success(), "{}\n{}", finished.stdout, finished.stderr);
    finished.stdout
}

#[track_caller]
fn refused(setup: &Setup, home: &Home, arguments: &[&str], status: i32) -> String {
    let finished = run(setup, home, arguments);
    let told = finished.stdout + &finished.stderr;
    assert_eq!(finished.status.code(), Some(status), "{told}");
    told
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path")
}

fn document(path: &Path) -> Value {
    let mut document: Value = serde_json::from_slice(&std::fs::read(path).expect("a file")).expect("JSON");
    // The members that differ between two exports of the same data.
    document["timestamp"].take();
    document["checksum"].take();
    document["installation"].take();
    document
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).expect("a file").permissions().mode() & 0o777
}

#[test]
fn an_export_restored_elsewhere_exports_the_same() {
    let home = used();
    let file = home.path().join("export.json");
    done(&home, &["export", "-o", text(&file)]);
    assert_eq!(mode(&file), 0o600);
    let to_output: Value = serde_json::from_str(&done(&home, &["export"])).expect("JSON");
    assert_eq!(to_output["accounts"], document(&file)["accounts"]);
    let accounts: Value =
        serde_json::from_str(&done(&home, &["export", "--type", "accounts"])).expect("JSON");
    assert_eq!((&accounts["type"], accounts.get("preferences")), (&json!("accounts"), None));

    let elsewhere = Home::new();
    let told = done(&elsewhere, &["restore", text(&file)]);
    assert!(told.contains("sites") && told.contains("downstream_api_keys"), "{told}");
    let again = elsewhere.path().join("again.json");
    done(&elsewhere, &["export", "--output", text(&again)]);
    assert_eq!(document(&again)["accounts"], document(&file)["accounts"]);

    // Imported again, nothing is new.
    let told = done(&elsewhere, &["import", text(&file), "--dry-run", "--mode", "replace"]);
    assert!(!told.contains("created sites") && !told.contains("created accounts"), "{told}");
    assert!(!told.contains("sk-team-of-the-export"), "{told}");
}

#[test]
fn an_export_whose_end_cannot_be_written_fails() {
    let gateway = Gateway::start();
    let home = Arc::clone(gateway.home());
    stop(gateway);
    let full = File::options().write(true).open("/dev/full").expect("a device");
    let ended = Setup::default().command(&home, &["export"]).stdout(full).output().expect("it runs");
    assert_eq!(ended.status.code(), Some(73), "{}", String::from_utf8_lossy(&ended.stderr));
}

#[test]
fn an_export_replaces_the_target_of_a_link_and_is_written_into_a_pipe() {
    let home = used();
    let (target, link, pipe) =
        (home.path().join("target.json"), home.path().join("link.json"), home.path().join("pipe"));
    std::fs::write(&target, "old").expect("a file");
    std::os::unix::fs::symlink(&target, &link).expect("a link");
    done(&home, &["export", "-o", text(&link)]);
    assert!(std::fs::symlink_metadata(&link).expect("it exists").is_symlink());
    assert!(document(&target)["accounts"].is_object());
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().expect("it runs");
    assert!(made.success());
    let read = {
        let pipe = pipe.clone();
        std::thread::spawn(move || std::fs::read(pipe).expect("it is read"))
    };
    done(&home, &["export", "-o", text(&pipe)]);
    let read: Value = serde_json::from_slice(&read.join().expect("no panic")).expect("JSON");
    assert_eq!(read["accounts"], document(&target)["accounts"]);
    assert!(!std::fs::symlink_metadata(&pipe).expect("it exists").is_file());
}

#[test]
fn a_site_under_another_path_of_an_origin_is_another_site() {
    let gateway = Gateway::start();
    let admin = gateway.admin();
    let origin = "http://127.0.0.1:9";
    let at = |path: &str| json!({"name": format!("at {path}"), "url": format!("{origin}{path}"), "platform": "openai"});
    gateway.create_site(&at("/openai"));
    let import = |path: &str| {
        let mut site = at(path);
        site["id"] = 50.into();
        let sites = json!({"sites": [site], "accounts": [], "accountTokens": [], "tokenRoutes": [],
            "routeChannels": []});
        let document = json!({"data": {"version": "2.1", "timestamp": 1, "accounts": sites}});
        admin.post("/api/settings/backup/import?mode=merge", &document).expect(200);
        let sites = admin.get("/api/sites").expect(200);
        let urls = sites.as_array().expect("a list").iter().map(|site| site["url"].as_str().expect("a url"));
        let mut urls: Vec<String> = urls.map(|url| url.replace(origin, "")).collect();
        urls.sort();
        urls
    };
    assert_eq!(import("/groq"), ["/groq", "/openai"]);
    assert_eq!(import("/groq"), ["/groq", "/openai"], "it is there already");
    assert_eq!(import("").len(), 2, "the origin alone is one of them");
}

#[test]
fn a_backup_beside_a_running_service_has_its_history() {
    let pair = Pair::start();
    assert_eq!(pair.gateway.client().chat(Pair::MODEL).status, 200);
    pair.gateway.wait_for_logs(1);
    let home = Arc::clone(pair.gateway.home());
    let told = done(&home, &["backup", text(home.path())]);
    let copy = PathBuf::from(told.lines().next().expect("a path"));
    assert_eq!(mode(&copy), 0o600);
    assert!(told.lines().any(|line| line.starts_with("proxy_logs") && line.ends_with('1')), "{told}");
    assert_eq!(pair.gateway.client().chat(Pair::MODEL).status, 200);
    // Both commands that would write are refused.
    for arguments in [&["export"][..], &["import", text(&copy)]] {
        let finished = run(&Setup::default(), &home, arguments);
        assert!(!finished.status.success());
    }

    let elsewhere = Home::new();
    done(&elsewhere, &["restore", text(&copy)]);
    let restored = Setup::default().start_in(elsewhere);
    assert_eq!(restored.logs().len(), 1);
    assert_eq!(restored.client().chat(Pair::MODEL).status, 200);
    assert_eq!(mode(&restored.home().data_dir().join("switchyard.db")), 0o600);
}

#[test]
fn nothing_is_restored_over_something_or_from_something_else() {
    let home = used();
    let copy = home.path().join("copy.db");
    done(&home, &["backup", text(&copy)]);
    let told = refused(&Setup::default(), &home, &["backup", text(&copy)], 73);
    assert!(told.contains("not overwritten"), "{told}");
    let told = refused(&Setup::default(), &home, &["restore", text(&copy)], 73);
    assert!(told.contains("empty data directory"), "{told}");

    let elsewhere = Home::new();
    let is_empty = || elsewhere.files().is_empty();
    let mut bytes = std::fs::read(&copy).expect("a file");
    let middle = bytes.len() / 2;
    bytes.truncate(middle);
    let cut = home.path().join("cut.db");
    std::fs::write(&cut, &bytes).expect("a file");
    refused(&Setup::default(), &elsewhere, &["restore", text(&cut)], 65);
    assert!(is_empty());

    let told = refused(
        &Setup::default().with("ACCOUNT_CREDENTIAL_SECRET", "another secret of the tests"),
        &elsewhere,
        &["restore", text(&copy)],
        78,
    );
    assert!(told.contains("ACCOUNT_CREDENTIAL_SECRET"), "{told}");
    assert!(is_empty(), "{:?}", elsewhere.files().iter().map(|(path, _)| path).collect::<Vec<_>>());

    let export = home.path().join("export.json");
    done(&home, &["export", "-o", text(&export)]);
    let flipped = std::fs::read_to_string(&export).expect("a file").replacen("4.5", "5.5", 1);
    std::fs::write(&export, flipped).expect("a file");
    let told = refused(&Setup::default(), &elsewhere, &["restore", text(&export)], 65);
    assert!(told.to_lowercase().contains("checksum"), "{told}");
    assert!(is_empty());
    refused(&Setup::default(), &elsewhere, &["restore", "nowhere.db"], 66);
    assert!(is_empty());
    done(&elsewhere, &["restore", text(&copy)]);
}

#[test]
fn a_command_that_has_nothing_to_read_makes_no_database() {
    let (home, setup) = (Home::new(), Setup::default());
    let told = refused(&setup, &home, &["import", "nowhere.json"], 66);
    assert!(told.contains("nowhere.json"), "{told}");
    std::fs::write(home.path().join("junk"), "junk").expect("a file");
    refused(&setup, &home, &["import", "junk"], 65);
    // A device is read into a copy, whose name nobody knows.
    let told = refused(&setup, &home, &["restore", "/dev/null"], 65);
    assert!(told.contains("/dev/null: it is not a known file") && !told.contains("piped"), "{told}");
    for arguments in
        [&["export"][..], &["export", "-o", "a.json"], &["migrate", "--to", "a.db"], &["backup", "a.db"]]
    {
        let told = refused(&setup, &home, arguments, 66);
        assert!(told.contains("no database") && told.contains("DATA_DIR"), "{told}");
    }
    assert!(!home.data_dir().join("switchyard.db").exists() && !home.path().join("a.db.lock").exists());

    let home = used();
    for place in ["missing/", "missing/a.db"] {
        let told = refused(&setup, &home, &["backup", place], 73);
        assert!(told.contains("the directory does not exist"), "{told}");
    }
}

#[test]
fn a_data_directory_that_cannot_be_entered_is_told() {
    let home = Home::new();
    let export = home.path().join("export.json");
    let rows =
        json!({"sites": [], "accounts": [], "accountTokens": [], "tokenRoutes": [], "routeChannels": []});
    let document = json!({"version": "2.1", "timestamp": 1, "accounts": rows});
    std::fs::write(&export, document.to_string()).expect("a file");
    // Nobody can enter a file, whatever the user is permitted.
    let place = home.path().join("file/data");
    std::fs::write(home.path().join("file"), "x").expect("a file");
    let setup = Setup::default().on_sqlite().with("DATA_DIR", text(&place));
    for (arguments, status) in [
        (&["export"][..], 1),
        (&["migrate", "--to", "a.db"], 1),
        (&["backup", "copy.db"], 1),
        (&["import", text(&export)], 1),
    ] {
        let told = refused(&setup, &home, arguments, status);
        assert!(told.contains("Not a directory") && told.contains(text(&place)), "{arguments:?}: {told}");
        assert!(!told.contains("no database"), "{arguments:?}: {told}");
    }
}

#[test]
fn a_sealed_export_is_restored_and_imported_with_its_passphrase_only() {
    let home = used();
    let path = |name: &str| home.path().join(name);
    let (plain, sealed, line) = (path("plain.json"), path("export.sealed"), path("passphrase"));
    std::fs::write(&line, "correct hörse\nnot this\n").expect("a file");
    done(&home, &["export", "-o", text(&plain)]);
    done(&home, &["export", "-o", text(&sealed), "--passphrase-file", text(&line)]);
    assert_eq!(mode(&sealed), 0o600);
    assert!(std::fs::read(&sealed).expect("a file").starts_with(b"{\"format\":\"switchyard-sealed\""));
    let nothing = Setup::default();
    let told = refused(&nothing, &home, &["export", "--seal"], 64);
    assert!(told.contains("BACKUP_PASSPHRASE"), "{told}");

    let elsewhere = Home::new();
    let wrong = path("wrong");
    std::fs::write(&wrong, "another\n").expect("a file");
    let mut bytes = std::fs::read(&sealed).expect("a file");
    let last = bytes.len() - 20;
    bytes[last] ^= 1;
    let damaged = path("damaged");
    std::fs::write(&damaged, bytes).expect("a file");
    for command in ["restore", "import"] {
        let cases: [(&[&str], i32, &str); 5] = [
            (&[text(&sealed)], 64, "--passphrase-file"),
            (&[text(&sealed), "--passphrase-file", text(&wrong)], 65, "passphrase is wrong"),
            (&[text(&sealed), "--passphrase-file", "nowhere"], 66, "nowhere"),
            (&[text(&damaged), "--passphrase-file", text(&line)], 65, "sealed file is damaged"),
            (&[text(&plain), "--passphrase-file", text(&line)], 65, "not sealed"),
        ];
        for (arguments, status, expected) in cases {
            let told = refused(&nothing, &elsewhere, &[&[command], arguments].concat(), status);
            assert!(told.contains(expected), "{command} {arguments:?}: {told}");
            assert!(!told.contains("hörse"), "{told}");
        }
    }
    let restored = Home::new();
    done(&restored, &["restore", text(&sealed), "--passphrase-file", text(&line)]);
    let again = path("again.json");
    done(&restored, &["export", "-o", text(&again)]);
    assert_eq!(document(&again)["accounts"], document(&plain)["accounts"]);

    // Standard input works, too, for either file.
    let (piped, file) = (Home::new(), |path: &Path| File::open(path).expect("a file"));
    let imported = |arguments: &[&str], input: &Path| {
        run_with(&nothing, &piped, &[&["import"], arguments].concat(), file(input))
    };
    let twice = imported(&["-", "--passphrase-file", "-"], &sealed);
    assert_eq!(twice.status.code(), Some(64), "{}", twice.stderr);
    for (arguments, input) in [
        (&["-", "--passphrase-file", text(&line)][..], &sealed),
        (&[text(&sealed), "--passphrase-file", "-"], &line),
        (&["-"], &plain),
    ] {
        let imported = imported(arguments, input);
        assert!(imported.status.success(), "{arguments:?}: {}", imported.stderr);
    }

    // The environment variable works, too.
    let setup = Setup::default().with("BACKUP_PASSPHRASE", "correct hörse");
    let imported = run(&setup, &Home::new(), &["import", text(&sealed)]);
    assert!(imported.status.success(), "{}", imported.stderr);
    // Without a terminal, each step is a line.
    let steps: Vec<&str> = imported.stderr.lines().filter(|line| !line.contains("WARN")).collect();
    for expected in
        ["Reading", "Checking that the document is complete", "Comparing with what is stored", "Writing"]
    {
        assert!(steps.contains(&expected), "{expected}: {steps:?}");
    }
    assert!(steps.iter().any(|line| line.starts_with("Staging ") && line.ends_with(" rows")), "{steps:?}");
}

#[test]
fn what_root_restores_or_imports_belongs_to_the_user_of_the_service() {
    const USER: u32 = 12_345;
    let home = used();
    let (copy, export) = (home.path().join("copy.db"), home.path().join("export.json"));
    done(&home, &["backup", text(&copy)]);
    done(&home, &["export", "-o", text(&export)]);
    for command in [["restore", text(&copy)], ["restore", text(&export)], ["import", text(&export)]] {
        let home = Home::new();
        std::fs::create_dir(home.data_dir()).expect("a directory");
        // Only root can give a directory away.
        if std::os::unix::fs::chown(home.data_dir(), Some(USER), Some(USER)).is_err() {
            return;
        }
        done(&home, &command);
        let files: Vec<PathBuf> = std::fs::read_dir(home.data_dir())
            .expect("a directory")
            .map(|entry| entry.expect("an entry").path())
            .collect();
        assert!(files.len() >= 2, "{command:?}: {files:?}");
        for file in files {
            let about = std::fs::metadata(&file).expect("a file");
            assert_eq!((about.uid(), about.gid()), (USER, USER), "{command:?}: {}", file.display());
        }
    }
}

#[test]
fn a_backup_is_not_written_to_a_terminal_by_any_name() {
    let home = used();
    for output in ["", "-o -", "-o /dev/stdout", "-o /dev/tty"] {
        let alone = Setup::default().command(&home, &[]);
        let line = format!("'{}' export {output}", alone.get_program().to_str().expect("a path"));
        // `script` of util-linux runs a command on a terminal of its own.
        let mut on_terminal = Command::new("script");
        on_terminal.args(["-qec", &line, "/dev/null"]).stdin(Stdio::null()).current_dir(home.path());
        on_terminal.envs(alone.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let finished = on_terminal.output().expect("script runs");
        let told = String::from_utf8_lossy(&finished.stdout);
        assert!(told.contains("is not written to a terminal"), "{output}: {told}");
        assert!(finished.status.code() == Some(64) && !told.contains("sk-team"), "{output}: {told}");
    }
}

#[test]
fn each_command_says_how_it_is_used() {
    let home = Home::new();
    for command in ["import", "export", "backup", "restore"] {
        let told = done(&home, &[command, "--help"]);
        assert!(
            told.contains(&format!("Usage: switchyard {command}")) && told.contains("Exit status"),
            "{told}"
        );
        let told = refused(&Setup::default(), &home, &[command, "--sideways"], 64);
        assert!(told.contains("--sideways") && !told.contains(PROXY_TOKEN), "{told}");
    }
    assert!(done(&home, &["--help"]).contains("restore"));
    assert!(!home.data_dir().exists());
}

#[test]
fn a_copy_is_made_into_no_database_that_is_not_known() {
    let home = used();
    let address = "postgre://user:a-password@127.0.0.1/database";
    let told = refused(&Setup::default(), &home, &["migrate", "--to", address], 64);
    assert!(told.contains("postgres://") && !told.contains("a-password"), "{told}");
    assert!(home.files().iter().all(|(path, _)| !path.to_string_lossy().contains("postgre:")));
}

#[test]
fn a_command_that_is_interrupted_leaves_nothing_behind() {
    let home = Home::new();
    let scratch = home.path().join("scratch");
    std::fs::create_dir(&scratch).expect("a directory");
    let held = || std::fs::read_dir(&scratch).expect("a directory").count();
    for (signal, status) in [("INT", 130), ("TERM", 143)] {
        // It waits for its standard input, which stays open.
        let mut waiting = Setup::default()
            .with("TMPDIR", text(&scratch))
            .command(&home, &["import", "--dry-run", "-"])
            .stdin(Stdio::piped())
            .spawn()
            .expect("it runs");
        eventually("it has begun", || (held() == 1).then_some(()));
        let kill = Command::new("kill").args(["-s", signal, &waiting.id().to_string()]).status();
        assert!(kill.expect("`kill` runs").success());
        let ended = eventually("it ends", || waiting.try_wait().expect("a child"));
        assert_eq!(ended.code(), Some(status));
        assert_eq!(held(), 0, "after {signal}");
    }
}

#[test]
fn an_import_that_is_interrupted_leaves_none_of_its_rows_behind() {
    let home = Home::new();
    let note = json!({"note": "x".repeat(2000)}).to_string();
    let accounts: Vec<Value> = (1..=3000)
        .map(|id| {
            json!({"id": id, "siteId": 1, "username": format!("user-{id}"), "accessToken": format!("session-{id}"),
                "extraConfig": note})
        })
        .collect();
    let site = json!({"id": 1, "name": "a", "url": "https://a.example", "platform": "new-api"});
    let rows = json!({"sites": [site], "accounts": accounts, "accountTokens": [], "tokenRoutes": [],
        "routeChannels": []});
    let document = json!({"version": "2.1", "timestamp": 1, "accounts": rows});
    let file = home.path().join("large.json");
    std::fs::write(&file, document.to_string()).expect("a file");
    let mut importing = Setup::default().command(&home, &["import", text(&file)]).spawn().expect("it runs");
    eventually("rows are staged", || home.staged().filter(|length| *length > 0));
    let kill = Command::new("kill").args(["-s", "TERM", &importing.id().to_string()]).status();
    assert!(kill.expect("`kill` runs").success());
    let ended = eventually("it ends", || importing.try_wait().expect("a child"));
    assert_eq!(ended.code(), Some(143));
    assert_eq!(home.staged(), None);
}

#[test]
fn two_backups_at_once_with_one_name_do_not_replace_each_other() {
    let homes = [used(), used()];
    let backups = homes[0].path().join("copies");
    let names = || std::fs::read_dir(&backups).expect("a directory").count();
    let at_once = |target: &Path| {
        let mut copying = homes
            .each_ref()
            .map(|home| Setup::default().command(home, &["backup", text(target)]).spawn().expect("it runs"));
        copying.each_mut().map(|copying| copying.wait().expect("it ends").code())
    };
    for round in 0..4 {
        std::fs::create_dir(&backups).expect("a directory");
        assert_eq!(at_once(&backups), [Some(0), Some(0)], "round {round}");
        assert_eq!(names(), 2, "round {round}");
        let mut codes = at_once(&backups.join("one.db"));
        codes.sort();
        assert_eq!((codes, names()), ([Some(0), Some(73)], 3), "round {round}");
        std::fs::remove_dir_all(&backups).expect("removed");
    }
}

#[test]
fn a_document_and_a_copy_are_read_from_a_pipe() {
    let home = used();
    let (export, copy) = (home.path().join("export.json"), home.path().join("copy.db"));
    done(&home, &["export", "-o", text(&export)]);
    done(&home, &["backup", text(&copy)]);
    for (command, file) in [("import", &export), ("restore", &export), ("restore", &copy)] {
        let elsewhere = Home::new();
        let pipe = elsewhere.path().join("pipe");
        assert!(Command::new("mkfifo").arg(&pipe).status().expect("it runs").success());
        let sent = {
            let (file, pipe) = (file.clone(), pipe.clone());
            std::thread::spawn(move || std::fs::copy(file, pipe).expect("it is read"))
        };
        done(&elsewhere, &[command, text(&pipe)]);
        sent.join().expect("no panic there");
        let again = elsewhere.path().join("again.json");
        done(&elsewhere, &["export", "-o", text(&again)]);
        assert_eq!(document(&again)["accounts"], document(&export)["accounts"], "{command}");
        assert_eq!(elsewhere.staged(), None, "{command}");
    }
}

#[test]
fn what_killed_commands_have_left_is_deleted_by_the_next_one() {
    let home = used();
    let backups = home.path().join("copies");
    let scratch = home.path().join("scratch");
    for directory in [&backups, &scratch, &scratch.join("switchyard-dry-run-left"), &scratch.join("others")] {
        std::fs::create_dir(directory).expect("a directory");
    }
    let left = ".switchyard-20260101-000000.db.7.switchyard-part";
    let at_work = ".switchyard-20260101-000001.db.8.switchyard-part";
    let others = ".switchyard-20260101-000000.db.9";
    for name in [left, &format!("{left}-journal"), at_work, others, ".all.json.7.switchyard-part"] {
        std::fs::write(backups.join(name), "x").expect("written");
    }
    let lock = File::open(backups.join(at_work)).expect("a file");
    lock.try_lock().expect("nobody else has it");
    let names = |directory: &Path| {
        let entries = std::fs::read_dir(directory).expect("a directory").flatten();
        let mut names: Vec<_> = entries.map(|entry| entry.file_name().into_string().expect("text")).collect();
        names.retain(|name| !name.starts_with("switchyard-2"));
        names.sort();
        names
    };
    done(&home, &["backup", text(&backups)]);
    assert_eq!(names(&backups), [".all.json.7.switchyard-part", others, at_work]);
    let export = backups.join("all.json");
    done(&home, &["export", "-o", text(&export)]);
    assert_eq!(names(&backups), [others, at_work, "all.json"]);
    let elsewhere = Home::new();
    let setup = Setup::default().with("TMPDIR", text(&scratch));
    let finished = run(&setup, &elsewhere, &["import", "--dry-run", text(&export)]);
    assert!(finished.status.success(), "{}", finished.stderr);
    assert_eq!(names(&scratch), ["others"]);
}
