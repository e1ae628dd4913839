//! Rate limits are exact to the request: per socket address before authentication, per identity after it.

use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;

use crate::support::{self, Answer, Gateway, Request};

const AUTH_INFO: &str = "/api/settings/auth/info";

/// Starts a gateway in which only the named limit is small; no window ends during a test.
fn limited(name: &str, max: usize) -> Gateway {
    Gateway::with(&[(name, &max.to_string()), ("REQUEST_RATE_LIMIT_WINDOW_MS", "600000")])
}

fn by_address(max: usize) -> Gateway {
    limited("REQUEST_RATE_LIMIT_MAX", max)
}

fn by_identity(max: usize) -> Gateway {
    limited("AUTHENTICATED_RATE_LIMIT_MAX", max)
}

#[track_caller]
fn retry_after(answer: &Answer) -> u64 {
    let seconds = answer.header("retry-after").and_then(|text| text.parse().ok());
    let seconds = seconds.unwrap_or_else(|| panic!("no Retry-After: {answer:?}"));
    assert!((1..=600).contains(&seconds), "{seconds}");
    seconds
}

#[track_caller]
fn is_refused_by_address(answer: &Answer) {
    let seconds = retry_after(answer);
    let body = json!({"statusCode": 429, "error": "Too many requests", "retryAfter": seconds});
    assert_eq!(answer.expect(429), body);
}

#[track_caller]
fn is_refused_by_identity(answer: &Answer) {
    retry_after(answer);
    let body = json!({"success": false, "message": "Too many requests, please try again later"});
    assert_eq!(answer.expect(429), body);
}

/// Returns how many of `total` requests, 200 at a time, get an answer other than 429.
fn admitted(total: usize, ask: impl Fn() -> Answer + Sync) -> usize {
    const AT_ONCE: usize = 200;
    let (admitted, together) = (AtomicUsize::new(0), Barrier::new(AT_ONCE));
    std::thread::scope(|scope| {
        for worker in 0..AT_ONCE {
            let (admitted, together, ask) = (&admitted, &together, &ask);
            scope.spawn(move || {
                together.wait();
                for _ in (worker..total).step_by(AT_ONCE) {
                    if ask().status != 429 {
                        admitted.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    admitted.into_inner()
}

#[test]
fn an_address_gets_its_maximum_and_not_one_more() {
    let gateway = by_address(5);
    for _ in 0..5 {
        gateway.admin().get(AUTH_INFO).expect(200);
    }
    is_refused_by_address(&gateway.admin().get(AUTH_INFO));
}

#[test]
fn an_address_gets_its_maximum_at_concurrency_200() {
    let gateway = by_address(300);
    assert_eq!(admitted(600, || gateway.anyone().get("/nowhere")), 300);
}

#[test]
fn an_identity_gets_its_maximum_at_concurrency_200() {
    let gateway = by_identity(300);
    assert_eq!(admitted(600, || gateway.client().get("/v1/models/none")), 300);
    is_refused_by_identity(&gateway.client().get("/v1/models/none"));
}

#[test]
fn every_path_counts_whoever_asks() {
    let gateway = by_address(6);
    gateway.anyone().get("/nowhere.txt").expect(404);
    gateway.anyone().get(AUTH_INFO).expect(401);
    gateway.with_token("wrong").get(AUTH_INFO).expect(403);
    gateway.anyone().get("/v1/models").expect(401);
    gateway.anyone().delete("/v1/models").expect(405);
    gateway.admin().get(AUTH_INFO).expect(200);
    for (method, path) in
        [("GET", "/nowhere"), ("GET", "/v1/models"), ("POST", "/v1/messages"), ("GET", AUTH_INFO)]
    {
        is_refused_by_address(&gateway.client().send(Request::new(method, path)));
    }
}

#[test]
fn a_forged_address_changes_nothing() {
    let gateway = by_address(3);
    let forging = |number: usize| gateway.admin().with("x-forwarded-for", &format!("203.0.113.{number}"));
    for number in 0..3 {
        forging(number).get(AUTH_INFO).expect(200);
    }
    is_refused_by_address(&forging(99).get(AUTH_INFO));
    is_refused_by_address(&gateway.admin().get(AUTH_INFO));
}

#[test]
fn the_health_check_and_preflights_are_exempt() {
    let gateway = by_address(2);
    let preflight = || {
        let ask = Request::new("OPTIONS", "/v1/models").header("origin", "https://page.example");
        gateway.anyone().send(ask.header("access-control-request-method", "GET"))
    };
    for _ in 0..5 {
        gateway.anyone().get("/api/desktop/health").expect(200);
        assert_eq!(preflight().status, 204);
    }
    for _ in 0..2 {
        gateway.admin().get(AUTH_INFO).expect(200);
    }
    is_refused_by_address(&gateway.admin().get(AUTH_INFO));
    gateway.anyone().get("/api/desktop/health?x=1").expect(200);
    assert_eq!(gateway.anyone().send(Request::new("HEAD", "/api/desktop/health")).status, 200);
    assert_eq!(preflight().status, 204);
    let from_a_page = gateway.anyone().with("origin", "https://page.example").get("/v1/models");
    is_refused_by_address(&from_a_page);
    assert_eq!(from_a_page.header("access-control-allow-origin"), Some("*"), "a page can read the refusal");
}

#[test]
fn failed_authentication_touches_only_the_global_bucket() {
    let gateway = by_identity(2);
    for _ in 0..5 {
        gateway.anyone().get(AUTH_INFO).expect(401);
        gateway.with_token("wrong").get(AUTH_INFO).expect(403);
        gateway.anyone().with("x-api-key", "wrong").get("/v1/models").expect(403);
    }
    for _ in 0..2 {
        gateway.admin().get(AUTH_INFO).expect(200);
        gateway.client().get("/v1/models").expect(200);
    }
    // Even now, a wrong token is told that it is wrong.
    gateway.anyone().with("x-api-key", "wrong").get("/v1/models").expect(403);
    is_refused_by_identity(&gateway.admin().get(AUTH_INFO));
    is_refused_by_identity(&gateway.client().get("/v1/models"));
}

#[test]
fn the_admin_and_the_clients_have_buckets_of_their_own() {
    let gateway = by_identity(2);
    for _ in 0..2 {
        gateway.client().get("/v1/models").expect(200);
    }
    is_refused_by_identity(&gateway.client().post("/v1/chat/completions", &json!({"model": "m"})));
    for _ in 0..2 {
        gateway.admin().get(AUTH_INFO).expect(200);
    }
    is_refused_by_identity(&gateway.admin().get("/api/sites"));
}

#[test]
fn a_new_window_opens_when_the_old_one_ends() {
    let gateway =
        Gateway::with(&[("AUTHENTICATED_RATE_LIMIT_MAX", "1"), ("REQUEST_RATE_LIMIT_WINDOW_MS", "1000")]);
    gateway.client().get("/v1/models").expect(200);
    support::eventually("the window ends", || {
        (gateway.client().get("/v1/models").status == 200).then_some(())
    });
}
