//! Imports while they run: how much memory they take, what they report, and what a kill or a reset in the middle leaves.

use std::collections::BTreeMap;
use std::time::Instant;

use serde_json::{Value, json};

use super::{EXPORT, IMPORT, export, import, lasting, refused, rows, small};
use crate::support::{ADMIN_TOKEN, Gateway, Home, Request, Setup, eventually, run};

/// Builds a document of some megabytes: accounts with long notes.
fn large() -> Value {
    let accounts: Vec<Value> = (1..=1500)
        .map(|id| {
            let config = json!({"note": "x".repeat(4000)}).to_string();
            json!({"id": id, "siteId": 7, "username": format!("user-{id}"), "accessToken": format!("session-{id}"),
                "extraConfig": config})
        })
        .collect();
    let mut document = small();
    document["accounts"]["accounts"] = accounts.into();
    document["accounts"]["routeChannels"] = json!([]);
    document
}

#[test]
fn a_large_backup_goes_in_and_out_in_little_memory() {
    let gateway = Gateway::start();
    let body = json!({ "data": large() }).to_string();
    assert!(body.len() > 5 << 20, "{}", body.len());
    let before = gateway.peak_resident_kib();
    let grown = || gateway.peak_resident_kib() - before;
    let ask = Request::new("POST", IMPORT).json_text(body);
    assert_eq!(gateway.admin().send(ask).expect(200)["counts"]["created"], 1502);
    assert!(grown() < 40 << 10, "{} KiB for 6 MiB in", grown());
    assert!(gateway.admin().get(EXPORT).body.len() > 5 << 20);
    assert!(grown() < 40 << 10, "{} KiB for 6 MiB out", grown());
}

#[test]
fn an_import_is_a_task_that_shows_how_far_it_is() {
    let gateway = Gateway::start();
    let tasks = |gateway: &Gateway| -> Vec<Value> {
        let tasks = gateway.admin().get("/api/tasks").expect(200)["tasks"].as_array().expect("tasks").clone();
        tasks.into_iter().filter(|task| task["type"] == "backup-import").collect()
    };
    let admin = gateway.admin();
    let asked = std::thread::spawn(move || admin.post(IMPORT, &json!({ "data": large() })));
    let running = eventually("the import is among the tasks", || tasks(&gateway).pop());
    assert_eq!((&running["title"], &running["dedupeKey"]), (&json!("Import of a backup"), &Value::Null));
    let answer = asked.join().expect("no panic").expect(200);
    let task = tasks(&gateway).pop().expect("a task");
    assert_eq!((&task["id"], &task["status"]), (&running["id"], &json!("succeeded")));
    assert_eq!((&task["message"], &task["result"]), (&answer["message"], &answer["counts"]));
    let log: Vec<&str> = task["logs"]
        .as_array()
        .expect("a log")
        .iter()
        .map(|line| line["message"].as_str().expect("text"))
        .collect();
    let steps = [
        "Reading the document",
        "Checking that the document is complete",
        "Staging 1502 rows",
        "Comparing with what is stored",
        "Writing",
    ];
    assert!(log.windows(steps.len()).any(|lines| lines == steps), "{log:?}");

    // A refused import is reported there, too, and disturbs nothing.
    let message = refused(&gateway, &json!({"timestamp": 1}));
    let task = tasks(&gateway).remove(0);
    assert_eq!((&task["status"], &task["error"]), (&json!("failed"), &json!(message)));
    let events = gateway.admin().get("/api/events").expect(200).to_string();
    assert!(events.contains("Backup imported") && !events.contains(&message), "{events}");
}

#[test]
fn a_process_that_is_killed_in_an_import_has_the_old_state_or_the_new_one() {
    let body = json!({ "data": large() }).to_string();
    let home = Home::new();
    let mut gateway = Setup::default().start_in(home.clone());
    import(&gateway, &small());
    let before = lasting(export(&gateway));
    let staged = || home.staged().unwrap_or(0);
    let log = home.data_dir().join("switchyard.db-wal");
    let length = |path: &std::path::Path| path.metadata().map_or(0, |file| file.len());
    // While rows are staged, at two points, and while they are copied.
    let moments: [&dyn Fn() -> bool; 3] =
        [&|| staged() > 1 << 20, &|| staged() > 4 << 20, &|| length(&log) > 3 << 20];
    for is_time in moments {
        let (admin, body) = (gateway.admin(), body.clone());
        let asked = std::thread::spawn(move || admin.try_send(Request::new("POST", IMPORT).json_text(body)));
        while !is_time() && !asked.is_finished() {
            std::thread::yield_now();
        }
        gateway.kill();
        let answered = asked.join().expect("no panic there");
        drop(gateway);
        gateway = Setup::default().start_in(home.clone());
        let after = lasting(export(&gateway));
        if after != before {
            assert_eq!(rows(&after, "accounts").len(), 1500, "the new state is whole");
            assert!(after["accounts"]["routeChannels"].as_array().is_some_and(Vec::is_empty));
            import(&gateway, &small());
        } else {
            assert!(answered.is_err(), "what was answered is stored");
        }
        assert_eq!(home.staged(), None, "nothing is left of it");
        assert_eq!(rows(&export(&gateway), "accounts").len(), 1);
    }
}

#[test]
fn a_command_beside_an_import_leaves_its_rows_alone() {
    let home = Home::new();
    let gateway = Setup::default().start_in(home.clone());
    let (admin, body) = (gateway.admin(), json!({ "data": large() }).to_string());
    let asked = std::thread::spawn(move || admin.send(Request::new("POST", IMPORT).json_text(body)));
    while !asked.is_finished() {
        // It is refused where one process at a time may use the database.
        run(&Setup::default(), &home, &["export", "--type", "preferences"]);
    }
    assert_eq!(asked.join().expect("no panic there").expect(200)["counts"]["created"], 1502);
    assert_eq!(home.staged(), None);
}

/// Builds a hundred accounts, a route and a setting, each of which names the generation in which it was written.
fn generation(name: &str) -> Value {
    let accounts: Vec<Value> = (1..=100)
        .map(|id| {
            json!({"id": id, "siteId": 7, "username": format!("{name}-{id}"), "accessToken": format!("session-{id}"),
                "extraConfig": json!({"note": "x".repeat(400)}).to_string()})
        })
        .collect();
    let mut document = small();
    document["accounts"]["sites"][0]["name"] = json!(format!("{name}-site"));
    document["accounts"]["accounts"] = accounts.into();
    document["accounts"]["tokenRoutes"][0]["displayName"] = json!(format!("{name}-route"));
    document["accounts"]["routeChannels"] = json!([]);
    let hours = if name == "odd" { 3 } else { 4 };
    document["preferences"] =
        json!({"settings": [{"key": "balance_refresh_cron", "value": format!("0 {hours} * * *")}]});
    document
}

/// Returns the generation of everything that is stored.
fn stored_generation(gateway: &Gateway) -> &'static str {
    let document = export(gateway);
    let told = |array: &'static str, member: &'static str| {
        let texts = rows(&document, array).iter().filter_map(move |row| row[member].as_str());
        texts.map(|text| text.split('-').next().expect("a word").to_owned())
    };
    let names: Vec<String> = told("sites", "name")
        .chain(told("accounts", "username"))
        .chain(told("tokenRoutes", "displayName"))
        .collect();
    assert_eq!(names.len(), 102);
    let settings = document["preferences"]["settings"].as_array().expect("settings");
    let cron = settings.iter().find(|setting| setting["key"] == "balance_refresh_cron").expect("a setting");
    let generation = if cron["value"] == "0 3 * * *" { "odd" } else { "even" };
    assert!(names.iter().all(|name| name == generation), "{generation}: {names:?}");
    generation
}

#[test]
fn fifty_kills_spread_over_an_import_leave_one_state_whole() {
    const KILLS: u32 = 50;
    let home = Home::new();
    let mut gateway = Setup::default().start_in(home.clone());
    import(&gateway, &generation("even"));
    let began = Instant::now();
    import(&gateway, &generation("odd"));
    let lasts = began.elapsed();
    let mut stored = stored_generation(&gateway);
    let mut fates = BTreeMap::new();
    for kill in 0..KILLS {
        let next = if stored == "odd" { "even" } else { "odd" };
        let (admin, body) = (gateway.admin(), json!({ "data": generation(next) }).to_string());
        let asked = std::thread::spawn(move || admin.try_send(Request::new("POST", IMPORT).json_text(body)));
        // At another moment each time; both outcomes are correct at each of them.
        std::thread::sleep(lasts * kill / KILLS);
        gateway.kill();
        let answer = asked.join().expect("no panic there");
        drop(gateway);
        gateway = Setup::default().start_in(home.clone());
        let now = stored_generation(&gateway);
        assert!(now == next || answer.is_err(), "kill {kill}: what was answered is stored");
        assert_eq!(home.staged(), None, "kill {kill}: nothing is left of it");
        *fates.entry(if now == next { "new" } else { "old" }).or_insert(0) += 1;
        stored = now;
    }
    println!("an import of {lasts:?}: {fates:?}");
}

#[test]
fn a_reset_in_the_middle_of_an_import_leaves_nothing_of_it() {
    let home = Home::new();
    let gateway = Setup::default().start_in(home.clone());
    let (admin, body) = (gateway.admin(), json!({ "data": large() }).to_string());
    let asked = std::thread::spawn(move || admin.send(Request::new("POST", IMPORT).json_text(body)).status);
    while home.staged().is_none_or(|length| length < 1 << 20) && !asked.is_finished() {
        std::thread::yield_now();
    }
    gateway.admin().post("/api/settings/maintenance/factory-reset", &json!({})).expect(200);
    // The caller gets an error, unless the import was faster.
    let status = asked.join().expect("no panic there");
    assert!([200, 400, 503].contains(&status), "{status}");
    eventually("nothing of it is at work any more", || home.staged().is_none().then_some(()));
    let admin = gateway.with_token("change-me-admin-token");
    assert_eq!(admin.get("/api/sites").expect(200), json!([]));
    assert_eq!(gateway.admin().get("/api/sites").status, 403, "{ADMIN_TOKEN} is not the token any more");
}
