//! A server that stops under load: requests are served, and their records are counted once it is back.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::json;

use crate::support::paths::CHAT;
use crate::support::{self, Home, Partition, Request, Setup, Upstream};

const MODEL: &str = "model-outage";
/// The longest wait; reconnecting takes some seconds at most.
const BACK: Duration = Duration::from_secs(60);

#[test]
fn no_request_fails_for_a_server_that_stops_under_load_and_every_counter_adds_up_afterwards() {
    let home = Home::new();
    let Some(server) = home.server() else { return };
    let way = Partition::before(server.place());
    let gateway = Setup::default().with("DB_URL", &way.instead_of(&server.url())).start_in(home.clone());
    let upstream = Upstream::start(&[MODEL]);
    gateway.add("site", &upstream);
    gateway.wait_for_channels(MODEL, 1);
    let key = json!({ "name": "busy", "key": "sk-busy-0123456789", "maxRequests": 1_000_000 });
    let id = gateway.admin().post("/api/downstream-keys", &key).expect(200)["item"]["id"].clone();
    let (served, is_over) = (AtomicI64::new(0), AtomicBool::new(false));
    let served_more = |count: i64| {
        let before = served.load(Ordering::SeqCst);
        support::eventually_within(BACK, "requests are served", || {
            (served.load(Ordering::SeqCst) >= before + count).then_some(())
        });
    };
    thread::scope(|scope| {
        for _ in 0..4 {
            let client = gateway.anyone().with("Authorization", "Bearer sk-busy-0123456789");
            let (served, is_over) = (&served, &is_over);
            scope.spawn(move || {
                while !is_over.load(Ordering::SeqCst) {
                    let body = json!({ "model": MODEL, "messages": [{ "role": "user", "content": "x" }] });
                    let answer = client.send(Request::post(CHAT).json(&body));
                    assert_eq!(answer.status, 200, "{}", answer.text());
                    served.fetch_add(1, Ordering::SeqCst);
                    thread::sleep(Duration::from_millis(5));
                }
            });
        }
        served_more(200);
        for _ in 0..2 {
            way.refuse();
            served_more(400);
            let change = json!({ "notifyCooldownSec": 77 });
            assert_eq!(gateway.admin().put("/api/settings/runtime", &change).status, 503);
            let health = gateway.anyone().get("/api/desktop/health").expect(200);
            assert!(health["storage"].is_string(), "{health}");
            served_more(100);
            way.heal();
            support::eventually_within(BACK, "changes are made again", || {
                (gateway.admin().put("/api/settings/runtime", &change).status == 200).then_some(())
            });
            served_more(100);
        }
        is_over.store(true, Ordering::SeqCst);
    });
    let served = served.into_inner();
    assert_eq!(upstream.asked_for(CHAT).len(), usize::try_from(served).expect("a count"));
    let database = home.database();
    for (what, sql) in [
        (
            "rows",
            format!(
                "SELECT COUNT(*) FROM proxy_logs WHERE downstream_api_key_id = {id} AND status = 'success'"
            ),
        ),
        ("the channel", "SELECT SUM(success_count) FROM channel_stats".to_owned()),
        ("hours", format!("SELECT SUM(ok) FROM usage_hour WHERE model = '{MODEL}'")),
        ("days", format!("SELECT SUM(calls) FROM usage_day WHERE model = '{MODEL}'")),
        ("the key's days", format!("SELECT SUM(requests) FROM downstream_key_days WHERE key_id = {id}")),
    ] {
        support::eventually(&format!("{what}: all {served} are counted"), || {
            (database.number(&sql) >= served).then_some(())
        });
        assert_eq!(database.number(&sql), served, "{what}");
    }
    let keys = gateway.admin().get("/api/downstream-keys").expect(200);
    assert_eq!(keys["items"][0]["usedRequests"], served, "{keys}");
}
