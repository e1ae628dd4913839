//! An admin client that hangs up before its answer leaves nothing half done: what is stored is in force.

use serde_json::json;

use crate::support::{Caller, Gateway, Reply, Request, eventually};

const ROUNDS: u64 = 40;

/// Sends a request and leaves, whatever its progress.
fn send_and_leave(caller: &Caller, ask: Request) {
    let mut connection = caller.connect();
    connection.write(&caller.bytes(ask)).expect("it is sent");
}

#[test]
fn a_setting_that_was_stored_is_in_force() {
    let gateway = Gateway::start();
    let admin = gateway.admin();
    for round in 1..=ROUNDS {
        let ask = Request::new("PUT", "/api/settings/runtime").json(&json!({ "notifyCooldownSec": round }));
        send_and_leave(&admin, ask);
        eventually("the store and the memory agree", || {
            let sql = "SELECT value FROM settings WHERE name = 'notify_cooldown_sec'";
            let stored = gateway.home().database().texts(sql).pop();
            let shown = admin.get("/api/settings/runtime").expect(200)["notifyCooldownSec"].to_string();
            (shown == stored.unwrap_or_else(|| "300".to_owned())).then_some(())
        });
    }
}

#[test]
fn a_try_in_the_playground_ends_with_its_operator() {
    let (gateway, upstream) = Gateway::serving(&["model-tried"]);
    upstream.answer("/v1/chat/completions", Reply::stall());
    let messages = json!([{ "role": "user", "content": "x" }]);
    let body = json!({ "model": "model-tried", "messages": messages });
    let asked = json!({ "path": "/v1/chat/completions", "jsonBody": body });
    let admin = gateway.admin();
    let mut connection = admin.connect();
    connection.write(&admin.bytes(Request::new("POST", "/api/test/proxy").json(&asked))).expect("it is sent");
    let request = eventually("the upstream is asked", || upstream.asked_for("/v1/chat/completions").pop());
    drop(connection);
    eventually("the upstream's work is not paid for any more", || request.hung_up().then_some(()));
}
