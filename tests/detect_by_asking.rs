//! Detection of a platform by its site's answers: the title, the status, the messages of sub2api and cliproxyapi.

use std::time::Instant;

use serde_json::{Value, json};

use crate::support::{Gateway, Program, Proxy, Reply, SOON, Site, Upstream};

fn detect(gateway: &Gateway, url: &str) -> Value {
    gateway.admin().post("/api/sites/detect", &json!({"url": url})).expect(200)
}

fn status(data: &Value) -> Reply {
    Reply::json(200, &json!({"success": true, "message": "", "data": data}))
}

#[test]
fn every_program_is_recognised_as_it_is_installed() {
    let gateway = Gateway::start();
    for program in Program::ALL {
        let site = Site::start(program, &[]);
        let found = detect(&gateway, &format!("{}/v1/", site.url()));
        assert_eq!(found, json!({"url": site.url(), "platform": program.platform()}));
        // Creating the site without a platform detects the same one.
        let made = gateway.create_site(&json!({"name": program.platform(), "url": site.url()}));
        assert_eq!(made["platform"], program.platform());
    }
}

#[test]
fn a_renamed_site_is_recognised_by_its_status() {
    let gateway = Gateway::start();
    for program in Program::ALL.into_iter().filter(|program| *program != Program::AnyRouter) {
        let site = Site::start(program, &[]);
        site.answer("/", Reply::html(200, "<title>Our relay</title>"));
        assert_eq!(detect(&gateway, &site.url())["platform"], program.platform());
    }
}

#[test]
fn a_status_that_is_refused_is_no_evidence() {
    let gateway = Gateway::start();
    let site = Upstream::start(&[]);
    let body = json!({"success": true, "data": {"system_name": "Relay"}});
    site.answer("/api/status", Reply::json(401, &body));
    assert_eq!(detect(&gateway, &site.url()).get("platform"), None);
}

#[test]
fn a_title_of_a_fork_ends_the_search() {
    let gateway = Gateway::start();
    for (title, platform) in [
        ("One-Hub", "one-hub"),
        ("Any Router", "anyrouter"),
        ("donehub", "done-hub"),
        ("Veloera | console", "veloera"),
        ("Sub2API", "sub2api"),
    ] {
        let site = Upstream::start(&[]);
        site.answer("/", Reply::html(200, &format!("<html><head><TITLE>\n {title}\n</TITLE></head></html>")));
        site.answer("/api/status", status(&json!({"system_name": "New API"})));
        assert_eq!(detect(&gateway, &site.url())["platform"], platform, "{title}");
    }
}

#[test]
fn a_page_that_has_no_title_yet_is_asked_for_again() {
    let gateway = Gateway::start();
    for first in [
        Reply::html(503, "<html><title>503 Service Unavailable</title></html>"),
        Reply::html(200, "<html><body>Warming up</body></html>"),
    ] {
        let site = Upstream::start(&[]);
        site.answer("/", Reply::html(200, "<title>Veloera</title>"));
        site.answer_once("/", first);
        assert_eq!(detect(&gateway, &site.url())["platform"], "veloera");
    }
}

#[test]
fn a_title_of_new_api_or_one_api_is_the_last_resort() {
    let gateway = Gateway::start();
    let site = Upstream::start(&[]);
    site.answer("/", Reply::html(200, "<title>VO-API</title>"));
    assert_eq!(detect(&gateway, &site.url())["platform"], "new-api");
    site.answer("/", Reply::html(200, "<title>One API</title>"));
    assert_eq!(detect(&gateway, &site.url())["platform"], "one-api");
    site.answer("/api/status", status(&json!({"system_name": "x", "checkin_enabled": true})));
    assert_eq!(detect(&gateway, &site.url())["platform"], "new-api");
    // A status without a system name means one-api.
    site.answer_faithfully();
    site.answer("/api/status", status(&json!({"version": "v0.3"})));
    assert_eq!(detect(&gateway, &site.url())["platform"], "one-api");
    // A title counts only on HTML pages.
    site.answer_faithfully();
    site.answer("/", Reply::bytes(200, "text/plain", "<title>New API</title>"));
    assert_eq!(detect(&gateway, &site.url())["error"], "Could not detect platform");
}

#[test]
fn cliproxyapi_is_recognised_by_its_own_headers() {
    let gateway = Gateway::start();
    let path = "/v0/management/openai-compatibility";
    let refusal = || Reply::json(401, &json!({"error": "missing management key"}));
    for (reply, platform) in [
        (refusal().header("X-CPA-VERSION", "6.0"), json!("cliproxyapi")),
        (Reply::json(403, &json!({})).header("X-CPA-COMMIT", "abc"), json!("cliproxyapi")),
        (Reply::json(200, &json!({})).header("X-CPA-BUILD-DATE", "2026"), json!("cliproxyapi")),
        (Reply::json(200, &json!({"openai-compatibility": []})), json!("cliproxyapi")),
        (refusal(), Value::Null),
        (Reply::json(500, &json!({})).header("X-CPA-VERSION", "6.0"), Value::Null),
    ] {
        let site = Upstream::start(&[]);
        site.answer(path, reply);
        assert_eq!(detect(&gateway, &site.url())["platform"], platform);
    }
}

#[test]
fn an_older_sub2api_is_recognised_by_the_way_it_refuses() {
    let gateway = Gateway::start();
    for (path, reply, platform) in [
        (
            "/api/v1/auth/me",
            json!({"code": "UNAUTHORIZED", "message": "Authorization header is required"}),
            json!("sub2api"),
        ),
        (
            "/v1/models",
            json!({"code": "API_KEY_REQUIRED", "message": "API key is required"}),
            json!("sub2api"),
        ),
        ("/api/v1/auth/me", json!({"error": "unauthorized"}), Value::Null),
    ] {
        let site = Upstream::start(&[]);
        site.answer(path, Reply::json(401, &reply));
        assert_eq!(detect(&gateway, &site.url())["platform"], platform, "{reply}");
    }
}

#[test]
fn what_another_host_says_is_no_evidence() {
    let gateway = Gateway::start();
    let other = Site::start(Program::NewApi, &[]);
    let site = Upstream::start(&[]);
    for path in ["/", "/api/status"] {
        let away = Reply::bytes(302, "text/plain", "").header("location", &format!("{}{path}", other.url()));
        site.answer(path, away);
    }
    assert_eq!(detect(&gateway, &site.url())["error"], "Could not detect platform");
    assert!(other.asked().is_empty(), "nobody went there");
}

#[test]
fn a_site_that_hangs_is_given_up_and_what_others_say_still_counts() {
    let gateway = Gateway::start();
    let site = Site::start(Program::NewApi, &[]);
    for path in ["/", "/v0/management/openai-compatibility", "/api/v1/settings/public"] {
        site.answer(path, Reply::stall());
    }
    let began = Instant::now();
    assert_eq!(detect(&gateway, &site.url())["platform"], "new-api");
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
}

#[test]
fn every_probe_goes_through_the_system_proxy() {
    let proxy = Proxy::start();
    let gateway = Gateway::start();
    let site = Site::start(Program::Veloera, &[]);
    let port = site.url().rsplit(':').next().expect("a port").to_owned();
    let settings = json!({"systemProxyUrl": proxy.url("http", "")});
    gateway.admin().put("/api/settings/runtime", &settings).expect(200);
    // A host name that only the proxy can resolve.
    let found = detect(&gateway, &format!("http://site.example:{port}"));
    assert_eq!(found["platform"], "veloera", "{found}");
    assert!(proxy.seen().iter().all(|crossing| crossing.target == format!("site.example:{port}")));
    drop(proxy);
    let found = detect(&gateway, &site.url());
    assert!(found["error"].is_string(), "no direct way instead: {found}");
}
