//! Lists and statistics that a start serves as the process before it left them, unless something has changed since.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::support::{Answer, Gateway, Pair, Setup, Upstream, eventually, run};

const ACCOUNTS: &str = "/api/accounts";
const DASHBOARD: &str = "/api/stats/dashboard?view=summary";

/// Returns where an answer came from, and its body.
#[track_caller]
fn origin(gateway: &Gateway, path: &str) -> (String, Value) {
    let header = if path == ACCOUNTS { "x-accounts-snapshot-cache" } else { "x-dashboard-summary-cache" };
    let answer: Answer = gateway.admin().get(path);
    let origin = answer.header(header).expect("it says where it came from").to_owned();
    (origin, answer.expect(200))
}

/// Asks for an answer that must be made anew, and waits until the database has it.
#[track_caller]
fn made_anew(gateway: &Gateway, path: &str) -> Value {
    let kind = if path == ACCOUNTS { "accounts" } else { "statistics" };
    let newest = || {
        let sql =
            format!("SELECT COALESCE(MAX(generated_at), 0) FROM admin_snapshots WHERE name LIKE '{kind} %'");
        gateway.home().database().number(&sql)
    };
    let before = newest();
    let (origin, body) = origin(gateway, path);
    assert_eq!(origin, "miss", "{body}");
    eventually("the answer is stored", || (newest() > before).then_some(()));
    body
}

#[track_caller]
fn as_before_the_restart(gateway: &Gateway, path: &str, before: &Value) {
    let (origin, body) = origin(gateway, path);
    assert!(["hit", "stale"].contains(&origin.as_str()), "{origin}");
    assert_eq!(&body, before);
}

fn usernames(list: &Value) -> Vec<&str> {
    let accounts = list["accounts"].as_array().expect("accounts");
    accounts.iter().filter_map(|account| account["username"].as_str()).collect()
}

#[test]
fn the_account_list_survives_a_restart_and_is_stored_sealed() {
    let pair = Pair::start();
    let list = made_anew(&pair.gateway, ACCOUNTS);
    let home = Arc::clone(pair.gateway.home());
    let payload = home.database().text("SELECT payload FROM admin_snapshots WHERE name LIKE 'accounts %'");
    assert!(payload.starts_with("enc:2:"), "{payload:.20}");
    let gateway = pair.gateway.restart();
    as_before_the_restart(&gateway, ACCOUNTS, &list);
    drop(gateway);
    // As if it had lain there for more than 90 seconds.
    home.database().run("UPDATE admin_snapshots SET generated_at = generated_at - 90000");
    let (origin, later) = origin(&Setup::default().start_in(home), ACCOUNTS);
    assert_eq!(origin, "miss");
    assert_eq!(later["accounts"], list["accounts"]);
}

#[test]
fn no_change_is_hidden_by_the_account_list_from_before_a_restart() {
    let (mut gateway, upstream) = (Gateway::start(), Upstream::start(&["model"]));
    let (_, account) = gateway.add("one", &upstream);
    assert_eq!(made_anew(&gateway, ACCOUNTS)["accounts"][0]["id"], account["id"]);
    let path = format!("{ACCOUNTS}/{}", account["id"]);
    gateway.admin().put(&path, &json!({"username": "bea"})).expect(200);
    gateway = gateway.restart();
    assert_eq!(usernames(&made_anew(&gateway, ACCOUNTS)), ["bea"]);

    // Changed from the command line while nothing runs.
    let export = gateway.admin().get("/api/settings/backup/export").expect(200);
    gateway.admin().put(&path, &json!({"username": "cem"})).expect(200);
    assert_eq!(usernames(&made_anew(&gateway, ACCOUNTS)), ["cem"]);
    let home = Arc::clone(gateway.home());
    drop(gateway);
    let file = home.path().join("export.json");
    std::fs::write(&file, export.to_string()).expect("a file");
    let file = file.to_str().expect("a path");
    let done = run(&Setup::default(), &home, &["import", file, "--mode", "replace"]);
    assert!(done.status.success(), "{}\n{}", done.stdout, done.stderr);
    let gateway = Setup::default().start_in(home);
    assert_eq!(usernames(&made_anew(&gateway, ACCOUNTS)), ["bea"]);

    gateway.admin().delete(&path).expect(200);
    let gateway = gateway.restart();
    assert_eq!(made_anew(&gateway, ACCOUNTS)["accounts"], json!([]));
}

#[test]
fn the_dashboard_survives_a_restart_until_the_log_is_cleared() {
    let pair = Pair::start();
    pair.gateway.client().chat(Pair::MODEL).expect(200);
    pair.gateway.wait_for_logs(1);
    let summary = made_anew(&pair.gateway, DASHBOARD);
    assert_eq!(summary["proxy24h"]["total"], 1, "{summary}");
    let gateway = pair.gateway.restart();
    as_before_the_restart(&gateway, DASHBOARD, &summary);
    gateway.admin().delete("/api/stats/proxy-logs").expect(200);
    let gateway = gateway.restart();
    assert_eq!(made_anew(&gateway, DASHBOARD)["proxy24h"]["total"], 0);
}
