//! A system that gives little: few open files. What is served already goes on, and
//! the log says what to raise.

mod support;

use support::{Caller, Request, Setup, Upstream};

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
