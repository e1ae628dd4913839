//! An admin client that hangs up before its answer leaves nothing half done: what is stored is in force.

use serde_json::json;

use crate::support::{Caller, Gateway, Request, eventually};

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
