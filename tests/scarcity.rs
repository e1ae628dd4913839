//! A system that gives little: few open files, no room for a file to grow. What is served already goes on, and
//! the log says what to raise.

mod support;

use serde_json::json;
use support::{Caller, Gateway, Request, Setup, Upstream, eventually};

const MODEL: &str = "model-scarce";

#[test]
fn clients_that_take_every_place_leave_the_upstreams_theirs() {
    let upstream = Upstream::start(&[MODEL]);
    let gateway = Setup::default().limited("ulimit -n 64").start();
    gateway.add("site", &upstream);
    let caller = gateway.client();
    let mut client = caller.connect();
    let health = caller.bytes(Request::new("GET", "/api/desktop/health"));
    assert_eq!(client.exchange(&health).status, 200);

    let idle: Vec<_> = (0..100).map(|_| caller.connect()).collect();
    gateway.wait_for_output("which is all there may be");
    let ask = caller.bytes(Caller::chat_ask(MODEL, false));
    assert_eq!(client.exchange(&ask).status, 200, "{}", gateway.output());
    drop(idle);
    assert_eq!(gateway.client().send(Caller::chat_ask(MODEL, false)).status, 200);
    let said = gateway.output();
    assert_eq!(said.matches("which is all there may be").count(), 1, "once a minute:\n{said}");
    assert!(!said.contains("could not be accepted"), "{said}");
}

#[test]
fn a_file_that_may_not_grow_stops_no_request() {
    let upstream = Upstream::start(&[MODEL]);
    let gateway = Gateway::start();
    gateway.add("site", &upstream);
    let home = gateway.home().clone();
    drop(gateway);

    // A megabyte, in blocks of 512 bytes.
    let mut gateway = Setup::default().limited("ulimit -f 2048").start_in(home.clone());
    let key = |number: usize| json!({"name": format!("key {number}"), "key": format!("sk-scarce-{number}"), "description": "z".repeat(4000)});
    let mut kept = Vec::new();
    eventually("the file is full", || {
        let answer = gateway.admin().post("/api/downstream-keys", &key(kept.len()));
        if answer.status != 200 {
            return Some(());
        }
        kept.push(answer.json()["item"]["id"].clone());
        None
    });
    assert_eq!(gateway.client().send(Caller::chat_ask(MODEL, false)).status, 200);
    assert!(gateway.is_running(), "{}", gateway.output());
    drop(gateway);

    let gateway = Setup::default().start_in(home);
    let listed = gateway.admin().get("/api/downstream-keys").expect(200);
    let ids: Vec<_> = listed["items"].as_array().expect("keys").iter().map(|key| key["id"].clone()).collect();
    assert!(kept.iter().all(|id| ids.contains(id)), "every answered key is there");
}
