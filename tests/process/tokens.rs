//! The tokens of the environment: the built-in ones, which work only from this machine, and an operator's own.

use std::net::{IpAddr, UdpSocket};

use serde_json::json;

use crate::support::{ADMIN_TOKEN, Caller, Gateway, Home, PROXY_TOKEN, Request, Setup, eventually, run};

#[test]
fn placeholder_tokens_work_from_this_machine_and_are_warned_about() {
    let gateway = Setup::blank().start();
    gateway.admin().get("/api/sites").expect(200);
    gateway.client().get("/v1/models").expect(200);
    let shown = gateway.admin().get("/api/settings/runtime").expect(200);
    assert_eq!(
        (&shown["usingDefaultAdminToken"], &shown["usingDefaultProxyToken"]),
        (&json!(true), &json!(true))
    );
    gateway.wait_for_output("AUTH_TOKEN");
    gateway.wait_for_output("PROXY_TOKEN");
}

#[test]
fn the_commands_of_the_start_work_as_they_are_pasted() {
    let gateway = Setup::blank().start();
    assert_eq!(pasted(&gateway, "admin API:", &[])["totalAccounts"], 0);
    assert_eq!(pasted(&gateway, "proxy API:", &[])["object"], "list");
    let next = line(&gateway, "next:");
    let (_, demo) = next.split_once("demonstration: ").expect("a command");
    assert!(demo.ends_with("switchyard demo"), "{demo}");
    assert!(std::path::Path::new(demo.trim_end_matches(" demo")).exists(), "{demo}");
}

#[test]
fn tokens_of_an_operators_own_are_named_by_their_variables() {
    let gateway = Gateway::start();
    let variables = [("AUTH_TOKEN", ADMIN_TOKEN), ("PROXY_TOKEN", PROXY_TOKEN)];
    assert_eq!(pasted(&gateway, "admin API:", &variables)["totalAccounts"], 0);
    assert!(line(&gateway, "clients:").ends_with("/v1/chat/completions"));
    assert_eq!(pasted(&gateway, "proxy API:", &variables)["object"], "list");
    for (_, token) in variables {
        assert!(!gateway.output().contains(token), "{}", gateway.output());
    }
}

/// Returns what the start prints after `title`.
#[track_caller]
fn line(gateway: &Gateway, title: &str) -> String {
    eventually(&format!("it prints a line with {title:?}"), || {
        let output = gateway.output();
        let lines = output.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n'));
        lines.filter_map(|line| line.split_once(title)).next().map(|(_, rest)| rest.trim().to_owned())
    })
}

/// Runs the command that the start prints after `title`, as a shell does, and parses its JSON.
#[track_caller]
fn pasted(gateway: &Gateway, title: &str, variables: &[(&str, &str)]) -> serde_json::Value {
    let command = line(gateway, title);
    let done = std::process::Command::new("sh")
        .args(["-c", &command])
        .envs(variables.iter().copied())
        .output()
        .expect("a shell, and curl: apt-get install curl");
    serde_json::from_slice(&done.stdout).unwrap_or_else(|error| panic!("{command}: {error}: {done:?}"))
}

#[test]
fn placeholder_tokens_do_not_work_from_elsewhere() {
    let gateway = Setup::blank().start();
    let Some(own) = own_network_address() else {
        eprintln!("this machine has no address but loopback: nothing to test");
        return;
    };
    let elsewhere = Caller::new((own, gateway.address().port()).into());
    let admin = elsewhere.clone().with("authorization", "Bearer change-me-admin-token");
    let refused = admin.get("/api/sites");
    assert_eq!(refused.status, 403, "{}", refused.text());
    assert!(refused.text().contains("AUTH_TOKEN"), "{}", refused.text());
    let client = elsewhere.with("authorization", "Bearer change-me-proxy-sk-token");
    let refused = client.get("/v1/models");
    assert_eq!(refused.status, 403, "{}", refused.text());
    assert!(refused.text().contains("PROXY_TOKEN"), "{}", refused.text());
}

#[test]
fn placeholder_tokens_open_nothing_to_web_pages_and_to_names_from_elsewhere() {
    let gateway = Setup::blank().start();
    let port = gateway.address().port();
    let evil = format!("evil.example:{port}");
    let evil_page = format!("http://{evil}");
    let local = [format!("localhost:{port}"), format!("127.0.0.1:{port}"), format!("[::1]:{port}")];
    for (caller, path, variable) in
        [(gateway.admin(), "/api/sites", "AUTH_TOKEN"), (gateway.client(), "/v1/models", "PROXY_TOKEN")]
    {
        for host in &local {
            let ask = || Request::new("GET", path).header("host", host);
            caller.send(ask()).expect(200);
            caller.send(ask().header("origin", &format!("http://{host}"))).expect(200);
            for origin in ["https://evil.example", "null", &evil_page] {
                let refused = caller.send(ask().header("origin", origin));
                assert_eq!(refused.status, 403, "{path} {origin}");
                assert!(refused.text().contains(variable), "{}", refused.text());
            }
            assert_eq!(caller.send(ask().header("sec-fetch-site", "cross-site")).status, 403);
        }
        // A name that was made to resolve to this machine: the page and the request agree.
        let rebound = Request::new("GET", path).header("host", &evil).header("origin", &evil_page);
        let refused = caller.send(rebound);
        assert_eq!(refused.status, 403, "{path}");
        assert!(refused.text().contains(variable), "{}", refused.text());
        caller.send(Request::new("GET", path).header("host", &evil)).expect(403);
    }
    // With tokens of its own, the gateway accepts any host name, and requests of pages that have been given a token.
    let gateway = Gateway::start();
    for (caller, path) in [(gateway.admin(), "/api/sites"), (gateway.client(), "/v1/models")] {
        let ask = Request::new("GET", path).header("host", "gate.example");
        caller.send(ask.header("origin", "https://console.example")).expect(200);
    }
}

/// Returns an address of this machine on a network, found by asking from which one a datagram would be sent.
fn own_network_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect("192.0.2.1:9").ok()?;
    let address = socket.local_addr().ok()?.ip();
    (!address.is_loopback() && !address.is_unspecified()).then_some(address)
}

#[test]
fn strong_tokens_can_be_required() {
    let setup = Setup::blank().with("REQUIRE_STRONG_TOKENS", "true");
    let finished = run(&setup, &Home::new(), &[]);
    assert!(!finished.status.success());
    for name in ["AUTH_TOKEN", "PROXY_TOKEN"] {
        assert!(finished.stderr.contains(name), "{:?}", finished.stderr);
    }
}
