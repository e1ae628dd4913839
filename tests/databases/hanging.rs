//! A server that accepts connections and answers nothing, as one that is stopped in the middle of its work.

use std::thread;

use serde_json::json;

use crate::support::{Home, Partition, Setup, Upstream};

const MODEL: &str = "model-hanging";

#[test]
fn whoever_needs_a_server_that_hangs_is_refused_and_a_stop_does_not_wait_for_it() {
    let home = Home::new();
    let Some(server) = home.server() else { return };
    let way = Partition::before(server.place());
    let mut gateway = Setup::default().with("DB_URL", &way.instead_of(&server.url())).start_in(home.clone());
    let upstream = Upstream::start(&[MODEL]);
    gateway.add("site", &upstream);
    gateway.wait_for_channels(MODEL, 1);
    let key = json!({ "name": "narrow", "key": "sk-narrow-0123456789", "maxRequests": 30 });
    gateway.admin().post("/api/downstream-keys", &key).expect(200);
    let narrow = gateway.anyone().with("Authorization", "Bearer sk-narrow-0123456789");
    narrow.chat(MODEL).expect(200);
    way.cut();
    let (admin, change) = (gateway.admin(), json!({ "notifyCooldownSec": 77 }));
    thread::scope(|scope| {
        scope.spawn(move || {
            let refused = (0..30).map(|_| narrow.chat(MODEL)).find(|answer| answer.status != 200);
            let refused = refused.expect("a request that nothing is reserved for");
            assert_eq!(refused.status, 503, "{}", refused.text());
            assert!(refused.text().contains("database"), "{}", refused.text());
        });
        let asked = [(); 12].map(|()| scope.spawn(|| admin.get("/api/stats/proxy-logs?limit=1")));
        let changed = scope.spawn(|| admin.put("/api/settings/runtime", &change));
        for answer in asked.into_iter().chain([changed]).map(|answer| answer.join().expect("an answer")) {
            assert_eq!(answer.status, 503, "{}", answer.text());
            assert!(answer.text().contains("database of this service"), "{}", answer.text());
        }
        let health = gateway.anyone().get("/api/desktop/health").expect(200);
        assert_eq!(health["storage"], "unreachable");
    });
    gateway.client().chat(MODEL).expect(200);
    gateway.signal("TERM");
    assert!(gateway.wait_for_exit().success(), "{}", gateway.output());
}

#[test]
fn a_stop_ends_although_the_server_hangs_since_just_now() {
    let home = Home::new();
    let Some(server) = home.server() else { return };
    let way = Partition::before(server.place());
    let mut gateway = Setup::default().with("DB_URL", &way.instead_of(&server.url())).start_in(home.clone());
    way.cut();
    gateway.signal("TERM");
    assert!(gateway.wait_for_exit().success(), "{}", gateway.output());
}
