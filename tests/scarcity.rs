//! A system with few resources: few open files, or no room for a file to grow. Requests under way are served, and the log
//! says which limit to raise.

use std::time::Instant;

use serde_json::json;

use crate::support::{
    Caller, Gate, Gateway, Reply, Request, SOON, Setup, Upstream, eventually, eventually_within, wire,
};

const MODEL: &str = "model-scarce";

#[test]
fn clients_that_take_every_place_leave_the_upstreams_theirs() {
    let begun = Instant::now();
    let upstream = Upstream::start(&[MODEL]);
    let gateway = Setup::default().limited("ulimit -n 64").start().in_front_of("openai", &upstream);
    let caller = gateway.client();
    let mut client = caller.connect();
    let health = caller.bytes(Request::new("GET", "/api/desktop/health"));
    assert_eq!(client.exchange(&health).status, 200);

    let idle: Vec<_> = (0..100).map(|_| caller.connect()).collect();
    gateway.wait_for_output("the most that are allowed");
    let ask = caller.bytes(Caller::chat_ask(MODEL, false));
    assert_eq!(client.exchange(&ask).status, 200, "{}", gateway.output());
    drop(idle);
    assert_eq!(gateway.client().send(Caller::chat_ask(MODEL, false)).status, 200);
    let said = gateway.output();
    let minutes = begun.elapsed().as_secs() / 60;
    let times = said.matches("the most that are allowed").count() as u64;
    assert!((1..=minutes + 1).contains(&times), "once a minute:\n{said}");
    assert!(!said.contains("could not be accepted"), "{said}");
}

#[test]
fn clients_that_all_wait_have_an_upstream_each() {
    const PATH: &str = "/v1/chat/completions";
    let models = [MODEL, "model-later"];
    let upstreams = models.map(|model| Upstream::start(&[model]));
    let gateway = Setup::default().limited("ulimit -n 64").start();
    for (name, upstream) in ["first", "second"].into_iter().zip(&upstreams) {
        gateway.add(name, upstream);
    }
    gateway.wait_for_output("allows 16 client connections at once");
    let caller = gateway.client();
    let mut clients: Vec<_> = (0..16).map(|_| caller.connect()).collect();
    // The idle connections to the first upstream hold the descriptors that the second one needs.
    for (model, upstream) in models.into_iter().zip(&upstreams) {
        let gate = Gate::default();
        upstream.answer(PATH, Reply::json(200, &wire::completion(model)).head_waits_for(&gate));
        let ask = caller.bytes(Caller::chat_ask(model, false));
        clients.iter_mut().for_each(|client| client.write(&ask).expect("sent"));
        eventually_within(SOON * 4, "all of them are asked for", || {
            (upstream.asked_for(PATH).len() >= 16).then_some(())
        });
        gate.open();
        for client in &mut clients {
            let answer = client.read_answer(false).expect("an answer");
            assert_eq!(answer.status, 200, "{}\n{}", answer.text(), gateway.output());
        }
        assert_eq!(upstream.asked_for(PATH).len(), 16, "each once");
    }
}

#[test]
fn a_file_that_may_not_grow_stops_no_request() {
    let (gateway, _upstream) = Gateway::serving(&[MODEL]);
    let home = gateway.home().clone();
    drop(gateway);

    // One megabyte, in blocks of 512 bytes.
    let mut gateway = Setup::default().limited("ulimit -f 2048").start_in(home.clone());
    let key = |number: usize| json!({"name": format!("key {number}"), "key": format!("sk-scarce-{number}"), "description": "z".repeat(4000)});
    let mut kept = Vec::new();
    eventually("the file is full", || {
        let answer = gateway.admin().post("/api/downstream-keys", &key(kept.len()));
        if answer.status != 200 {
            let error = answer.expect(507);
            assert!(error["message"].as_str().is_some_and(|text| text.contains("DATA_DIR")), "{error}");
            return Some(());
        }
        kept.push(answer.json()["item"]["id"].clone());
        None
    });
    assert_eq!(gateway.client().send(Caller::chat_ask(MODEL, false)).status, 200);
    let health = gateway.anyone().get("/api/desktop/health").expect(200);
    assert_eq!((&health["ok"], &health["storage"]), (&json!(true), &json!("full")), "{health}");
    let form = "--b\r\nContent-Disposition: form-data; name=file; filename=a.txt\r\n\r\n";
    let form = format!("{form}{}\r\n--b--\r\n", "x".repeat(1 << 20));
    let ask = Request::post("/v1/files").header("content-type", "multipart/form-data; boundary=b").body(form);
    let error = gateway.client().send(ask).expect(507);
    assert_eq!(error["error"]["code"], "insufficient_storage", "{error}");
    gateway.admin().post("/api/settings/maintenance/factory-reset", &json!({})).expect(507);
    assert_eq!(gateway.client().send(Caller::chat_ask(MODEL, false)).status, 200);
    assert!(gateway.is_running(), "{}", gateway.output());
    drop(gateway);

    let gateway = Setup::default().start_in(home);
    assert_eq!(gateway.anyone().get("/api/desktop/health").expect(200), json!({"ok": true}));
    let listed = gateway.admin().get("/api/downstream-keys").expect(200);
    let ids: Vec<_> = listed["items"].as_array().expect("keys").iter().map(|key| key["id"].clone()).collect();
    assert!(kept.iter().all(|id| ids.contains(id)), "every answered key is there");
}
