//! Connections to a server that break at the critical point: the end of a transaction.

use serde_json::json;

use super::soon;
use crate::support::{self, Cut, DatabaseRelay, Gateway, Home, Setup, Upstream};

/// Starts a gateway whose connection to its server can be broken; `None` on SQLite, which has none.
fn on_a_way_that_breaks() -> Option<(DatabaseRelay, Gateway)> {
    let home = Home::new();
    let server = home.server()?;
    let relay = DatabaseRelay::to(server.place());
    let url = relay.instead_of(&server.url());
    let gateway = Setup::default().with("DB_URL", &url).start_in(home);
    Some((relay, gateway))
}

#[test]
fn log_rows_and_counters_whose_commit_was_cut_off_are_there_once() {
    let Some((relay, gateway)) = on_a_way_that_breaks() else { return };
    let upstream = Upstream::start(&["model-cut"]);
    gateway.add("north", &upstream);
    gateway.wait_for_channels("model-cut", 1);
    let key = json!({ "name": "counted", "key": "sk-counted-0123456789" });
    let id = gateway.admin().post("/api/downstream-keys", &key).expect(200)["item"]["id"].clone();
    let client = gateway.anyone().with("Authorization", "Bearer sk-counted-0123456789");
    let total =
        || gateway.admin().get("/api/stats/proxy-logs?limit=1").expect(200)["summary"]["totalCount"].as_i64();
    let mut count = 0;
    for cuts in [
        &[Cut::BeforeAnswer][..],
        &[Cut::BeforeCommit; 3],
        // Retried at once and later; then it is committed, but the answer is lost.
        &[Cut::BeforeCommit, Cut::BeforeCommit, Cut::BeforeAnswer],
    ] {
        relay.cut(cuts);
        support::eventually("the connections are cut", || {
            client.chat("model-cut").expect(200);
            count += 1;
            relay.has_cut().then_some(())
        });
        // Groups are written in order: this row appears after all retries.
        client.chat("model-cut").expect(200);
        count += 1;
        support::eventually("the log has every row", || (total() >= Some(count)).then_some(()));
        assert_eq!(total(), Some(count));
    }
    let gateway = gateway.restart();
    let keys = gateway.admin().get("/api/downstream-keys").expect(200);
    let key = keys["items"].as_array().and_then(|keys| keys.iter().find(|key| key["id"] == id).cloned());
    assert_eq!(key.expect("the key")["usedRequests"], count);
}

#[test]
fn a_change_whose_commit_was_cut_off_is_answered_and_made_once() {
    let Some((relay, gateway)) = on_a_way_that_breaks() else { return };
    for (name, cut) in [("answer", Cut::BeforeAnswer), ("commit", Cut::BeforeCommit)] {
        relay.cut(&[cut]);
        let site = json!({ "name": name, "url": format!("http://{name}.test"), "platform": "openai" });
        gateway.admin().post("/api/sites", &site).expect(200);
        let sites = gateway.admin().get("/api/sites").expect(200);
        let same = sites.as_array().expect("sites").iter().filter(|site| site["name"] == name).count();
        assert_eq!(same, 1, "{sites}");
    }
}

#[test]
fn a_change_is_known_to_all_although_the_instance_that_made_it_is_cut_off_at_once() {
    let Some((relay, one)) = on_a_way_that_breaks() else { return };
    let other = Setup::default().start_in(one.home().clone());
    relay.break_after("INSERT INTO downstream_api_keys");
    let key = json!({ "name": "last", "key": "sk-last-0123456789" });
    assert_eq!(one.admin().post("/api/downstream-keys", &key).status, 503, "it cannot know");
    let holder = other.anyone().with("Authorization", "Bearer sk-last-0123456789");
    soon("the new key opens the other instance", || holder.get("/v1/models").status == 200);
}
