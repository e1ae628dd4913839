//! kill -9 under load: an answered admin change is never lost, and the log loses at most its last moments.
//! `SWITCHYARD_KILL_ROUNDS=50` makes the test longer.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::{self, Caller, Gateway, Setup, eventually, run};

const MODEL: &str = "model-durable";

/// Telemetry younger than this may be lost when the process is killed: the writer commits every 250 ms. The rest is a
/// margin for a busy machine, since the writer yields to other threads, of which there may be many.
const TELEMETRY_AGE: Duration = Duration::from_millis(250 + 1_750);

fn rounds() -> usize {
    let wanted = std::env::var("SWITCHYARD_KILL_ROUNDS").ok();
    wanted.and_then(|text| text.parse().ok()).unwrap_or(8)
}

#[test]
fn an_answered_admin_change_survives_a_kill() {
    let mut gateway = Gateway::start();
    // The answered ids and names; deleted ones are marked.
    let mut promised: Vec<(i64, String, bool)> = Vec::new();
    for round in 0..rounds() {
        let answered = Mutex::new(Vec::new());
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for hand in 0..3 {
                let (admin, answered, over) = (gateway.admin(), &answered, &over);
                scope.spawn(move || {
                    for number in 0.. {
                        let name = format!("s-{round}-{hand}-{number}");
                        let Some(change) = change(&admin, name) else { break };
                        answered.lock().expect("no panic").push(change);
                        if over.load(Ordering::SeqCst) {
                            break;
                        }
                    }
                });
            }
            let enough = 20 + round;
            eventually("some changes are answered", || {
                (answered.lock().expect("no panic").len() >= enough).then_some(())
            });
            gateway.kill();
            over.store(true, Ordering::SeqCst);
        });
        promised.extend(answered.into_inner().expect("no panic"));
        gateway = gateway.restart();
        let sites = gateway.admin().get("/api/sites").expect(200);
        let sites = sites.as_array().expect("sites");
        for (id, name, deleted) in &promised {
            let found = sites.iter().find(|site| site["id"] == *id);
            if *deleted {
                assert!(found.is_none(), "round {round}: {name} came back");
            } else {
                let found = found.unwrap_or_else(|| panic!("round {round}: {name} is lost"));
                assert_eq!(found["name"], name.as_str(), "round {round}: its last answered change");
            }
        }
    }
}

/// Creates a site, renames it, and deletes every third one; the last answer is what must hold. Returns `None` if the
/// process ended before the first answer.
fn change(admin: &Caller, name: String) -> Option<(i64, String, bool)> {
    let body = json!({"name": "new", "url": format!("https://{name}.example"), "platform": "openai"});
    let created = admin.try_send(support::Request::post("/api/sites").json(&body)).ok()?;
    let id = created.expect(200)["id"].as_i64().expect("an id");
    let path = format!("/api/sites/{id}");
    // From here on, an unanswered change may or may not have happened: nothing is asserted about it.
    let renamed = admin.try_send(support::Request::new("PUT", &path).json(&json!({"name": name}))).ok()?;
    renamed.expect(200);
    if id % 3 != 0 {
        return Some((id, name, false));
    }
    admin.try_send(support::Request::new("DELETE", &path)).ok()?.expect(200);
    Some((id, name, true))
}

#[test]
fn at_most_the_last_moments_of_the_log_are_lost_in_a_kill() {
    let (mut gateway, _upstream) = Gateway::serving(&[MODEL]);
    let mut sent_before = 0;
    for round in 0..rounds().div_ceil(2) {
        let finished = Mutex::new(Vec::new());
        let killed = std::thread::scope(|scope| {
            for _ in 0..4 {
                let (client, finished) = (gateway.client(), &finished);
                scope.spawn(move || {
                    while let Ok(answer) = client.try_send(Caller::chat_ask(MODEL, false)) {
                        assert_eq!(answer.status, 200, "{}", answer.text());
                        finished.lock().expect("no panic").push(Instant::now());
                    }
                });
            }
            let started = Instant::now();
            let least = TELEMETRY_AGE + Duration::from_millis(300);
            eventually("enough requests are answered", || {
                let enough = finished.lock().expect("no panic").len() >= 50;
                (enough && started.elapsed() > least).then_some(())
            });
            let killed = Instant::now();
            gateway.kill();
            killed
        });
        let finished = finished.into_inner().expect("no panic");
        let old = finished.iter().filter(|&&at| killed.duration_since(at) > TELEMETRY_AGE).count();
        gateway = gateway.restart();
        let page = gateway.admin().get("/api/stats/proxy-logs?limit=1").expect(200);
        let rows = page["summary"]["totalCount"].as_u64().expect("a count") as usize;
        assert!(rows >= sent_before + old, "round {round}: {rows} rows, {old} were old enough");
        sent_before = rows;
        gateway.client().chat(MODEL).expect(200);
        eventually("the log goes on", || {
            let page = gateway.admin().get("/api/stats/proxy-logs?limit=1").expect(200);
            (page["summary"]["totalCount"].as_u64()? as usize == sent_before + 1).then_some(())
        });
        sent_before += 1;
    }
}

#[test]
fn a_first_start_that_was_killed_before_it_stored_anything_is_begun_anew() {
    let mut gateway = Gateway::start();
    let home = gateway.home().clone();
    gateway.kill();
    let [path, wal, lock] =
        ["", "-wal", ".lock"].map(|end| home.data_dir().join(format!("switchyard.db{end}")));
    let log = std::fs::read(&wal).expect("a log");
    // The page of a database without tables, as SQLite writes it when it begins with a log.
    let fresh = home.data_dir().join("fresh.db");
    let connection = rusqlite::Connection::open(&fresh).expect("opened");
    let _: String = connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0)).expect("a mode");
    drop(connection);
    // The size after the commit, in the header of the first page in the log, is 0 while a transaction goes on.
    let mut uncommitted = log[..32 + 24 + 4096].to_vec();
    uncommitted[36..40].fill(0);
    for log in [&log[..32], &uncommitted] {
        std::fs::copy(&fresh, &path).expect("copied");
        std::fs::write(&wal, log).expect("written");
        std::fs::write(&lock, b"").expect("written");
        Setup::default().start_in(home.clone()).kill();
    }
}

#[test]
fn a_database_that_has_lost_its_content_is_told_and_not_begun_anew() {
    let mut gateway = Gateway::start();
    gateway.create_site(&json!({"name": "n", "url": "https://h.example", "platform": "openai"}));
    let home = gateway.home().clone();
    gateway.kill();
    let path = home.data_dir().join("switchyard.db");
    let wal = home.data_dir().join("switchyard.db-wal");
    let (database, log) = (std::fs::read(&path).expect("a database"), std::fs::read(&wal).expect("a log"));
    let put_back = || {
        std::fs::write(&path, &database).expect("written");
        std::fs::write(&wal, &log).expect("written");
    };
    let empty: [(&str, &dyn Fn()); 3] = [
        ("write-ahead log", &|| std::fs::write(&wal, vec![0; log.len()]).expect("written")),
        ("write-ahead log", &|| std::fs::write(&path, b"").expect("written")),
        ("in use", &|| {
            std::fs::write(&path, b"").expect("written");
            std::fs::remove_file(&wal).expect("removed");
        }),
    ];
    for (word, lose) in empty {
        put_back();
        lose();
        let finished = run(&Setup::default(), &home, &[]);
        assert_eq!(finished.status.code(), Some(1), "{word}: {}", finished.stderr);
        for word in [word, "switchyard.db", "backup"] {
            assert!(finished.stderr.contains(word), "{word}: {}", finished.stderr);
        }
    }
    put_back();
    let gateway = Setup::default().start_in(home);
    assert_eq!(gateway.admin().get("/api/sites").expect(200)[0]["name"], "n");
}
