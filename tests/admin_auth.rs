//! Authentication of the admin API: the token, the address, and the guards in front of both.

use serde_json::{Value, json};

use crate::support::{ADMIN_TOKEN, Gateway, PROXY_TOKEN, Request};

/// Protected routes of every kind, each with a method.
const PROTECTED: [(&str, &str); 10] = [
    ("GET", "/api/sites"),
    ("POST", "/api/sites"),
    ("PUT", "/api/sites/1"),
    ("DELETE", "/api/sites/1"),
    ("POST", "/api/sites/detect"),
    ("GET", "/api/accounts"),
    ("POST", "/api/accounts/verify-token"),
    ("GET", "/api/routes"),
    ("GET", "/api/stats/proxy-logs"),
    ("GET", "/metrics"),
];

#[test]
fn nothing_presented_is_401_and_something_wrong_is_403() {
    let gateway = Gateway::start();
    for (method, path) in PROTECTED {
        let nothing = gateway.anyone().send(Request::new(method, path));
        assert_eq!(nothing.status, 401, "{method} {path}: {}", nothing.text());
        assert_eq!(nothing.json()["error"], "Missing Authorization header", "{path}");
        assert_eq!(nothing.json()["code"], "missing_token", "{path}");
        let wrong = Request::new(method, path).header("authorization", "Bearer wrong-token");
        let wrong = gateway.anyone().send(wrong);
        assert_eq!(wrong.status, 403, "{method} {path}: {}", wrong.text());
        assert_eq!(wrong.json()["error"], "Invalid token", "{path}");
        assert_eq!(wrong.json()["code"], "invalid_token", "{path}");
    }
}

#[test]
fn an_error_has_the_fields_that_every_client_reads() {
    let gateway = Gateway::start();
    for answer in [
        gateway.anyone().get("/api/sites"),
        gateway.admin().post("/api/sites", &json!({})),
        gateway.admin().post("/api/accounts", &json!({})),
        gateway.admin().put("/api/accounts/999", &json!({})),
    ] {
        let body = answer.json();
        assert_eq!(body["success"], false, "{body}");
        assert!(body["error"].is_string(), "{body}");
        assert_eq!(body["error"], body["message"]);
    }
}

#[test]
fn the_scheme_may_be_written_in_any_case_or_left_out() {
    let gateway = Gateway::start();
    let get = |value: &str| {
        let ask = Request::new("GET", "/api/sites").header("authorization", value);
        gateway.anyone().send(ask).status
    };
    for prefix in ["Bearer ", "bearer ", "BEARER ", "", "Bearer   "] {
        assert_eq!(get(&format!("{prefix}{ADMIN_TOKEN}")), 200, "{prefix:?}");
    }
    for wrong in [
        format!("Basic {ADMIN_TOKEN}"),
        format!("Bearer {ADMIN_TOKEN}x"),
        format!("Bearer {}", &ADMIN_TOKEN[1..]),
        format!("Bearer {PROXY_TOKEN}"),
        format!("Bearer {}", ADMIN_TOKEN.to_uppercase()),
    ] {
        assert_eq!(get(&wrong), 403, "{wrong:?}");
    }
    for empty in ["", "Bearer", "Bearer "] {
        assert!([401, 403].contains(&get(empty)), "{empty:?}");
    }
}

#[test]
fn the_admin_token_opens_no_proxy_route() {
    let gateway = Gateway::start();
    assert_eq!(gateway.admin().get("/v1/models").status, 403);
}

#[test]
fn an_address_outside_the_allow_list_is_refused_whatever_it_presents() {
    let gateway = Gateway::with(&[("ADMIN_IP_ALLOWLIST", "203.0.113.0/24, 2001:db8::/32")]);
    for caller in [gateway.anyone(), gateway.admin()] {
        assert_eq!(caller.get("/api/sites").expect(403)["error"], "IP not allowed");
    }
    gateway.anyone().get("/api/desktop/health").expect(200);
    gateway.client().get("/v1/models").expect(200);
}

#[test]
fn a_trusted_proxy_may_say_who_is_calling() {
    let gateway = Gateway::with(&[("ADMIN_IP_ALLOWLIST", "203.0.113.0/24, 2001:db8::/32")]);
    let status = |forwarded: &str| {
        let ask = Request::new("GET", "/api/sites").header("x-forwarded-for", forwarded);
        gateway.admin().send(ask).status
    };
    for inside in ["203.0.113.7", "2001:db8::1", "198.51.100.1, 203.0.113.7", "203.0.113.7, 127.0.0.1"] {
        assert_eq!(status(inside), 200, "{inside}");
    }
    // The right-most address that is not a trusted proxy counts: anyone can write the entries to its left.
    for outside in ["198.51.100.1", "203.0.113.7, 198.51.100.1", "nonsense"] {
        assert_eq!(status(outside), 403, "{outside}");
    }
}

#[test]
fn no_byte_that_a_client_sends_hides_the_address_that_its_proxy_adds() {
    let gateway = Gateway::with(&[("ADMIN_IP_ALLOWLIST", "127.0.0.1")]);
    for (forwarded, status) in [
        (&b"127.0.0.1"[..], 200),
        (b"198.51.100.1", 403),
        (b"\xff, 198.51.100.1", 403),
        (b"\xc3\xa9\r\nx-forwarded-for: 198.51.100.1", 403),
        (b"\xff, 127.0.0.1", 200),
    ] {
        let head = format!("GET /api/sites HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {ADMIN_TOKEN}\r\n");
        let ask = [head.as_bytes(), b"x-forwarded-for: ", forwarded, b"\r\n\r\n"].concat();
        let answer = gateway.anyone().connect().exchange(&ask);
        assert_eq!(answer.status, status, "{}", forwarded.escape_ascii());
    }
}

#[test]
fn an_address_said_by_a_stranger_does_not_count() {
    let gateway = Gateway::with(&[("ADMIN_IP_ALLOWLIST", "127.0.0.1"), ("TRUSTED_PROXIES", "10.0.0.0/8")]);
    let ask = Request::new("GET", "/api/sites").header("x-forwarded-for", "198.51.100.1");
    gateway.admin().send(ask).expect(200);
}

#[test]
fn a_new_token_counts_from_the_next_request_on_and_after_a_restart() {
    let gateway = Gateway::start();
    let change = json!({"oldToken": ADMIN_TOKEN, "newToken": "a-new-admin-token"});
    let changed = gateway.admin().post("/api/settings/auth/change", &change).expect(200);
    assert_eq!(changed["success"], true);
    assert_eq!(gateway.admin().get("/api/sites").status, 403);
    let renewed = |gateway: &Gateway| {
        let caller = gateway.with_token("a-new-admin-token");
        caller.get("/api/sites").expect(200)
    };
    renewed(&gateway);
    renewed(&gateway.restart());
}

#[test]
fn of_changes_from_one_token_at_the_same_time_one_holds() {
    let gateway = Gateway::start();
    let change = |new: String| {
        let body = json!({"oldToken": ADMIN_TOKEN, "newToken": new});
        gateway.admin().post("/api/settings/auth/change", &body).status
    };
    let statuses: Vec<u16> = std::thread::scope(|scope| {
        let asked: Vec<_> =
            (0..3).map(|number| scope.spawn(move || change(format!("another-token-{number}")))).collect();
        asked.into_iter().map(|asked| asked.join().expect("an answer")).collect()
    });
    assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 1, "{statuses:?}");
}

#[test]
fn a_token_change_with_a_bad_field_is_a_bad_request_that_names_it() {
    let cases = [
        (json!({"newToken": "long-enough"}), "oldToken"),
        (json!({"oldToken": 7, "newToken": "long-enough"}), "oldToken"),
        (json!({"oldToken": ADMIN_TOKEN}), "newToken"),
        (json!({"oldToken": ADMIN_TOKEN, "newToken": null}), "newToken"),
        (json!({"oldToken": ADMIN_TOKEN, "newToken": "short"}), "newToken"),
        (json!({"oldToken": ADMIN_TOKEN, "newToken": "has\ttabs"}), "newToken"),
        (json!({"oldToken": "wrong", "newToken": "long-enough"}), "oldToken"),
    ];
    // The route allows three requests a minute, so each gateway gets a few of the cases.
    for cases in cases.chunks(3) {
        let gateway = Gateway::start();
        for (body, field) in cases {
            let error = gateway.admin().post("/api/settings/auth/change", body).expect(400);
            let message = error["message"].as_str().unwrap_or_default();
            assert!(names(message, field), "{body}: {message:?}");
        }
        gateway.admin().get("/api/sites").expect(200);
    }
}

/// Returns whether a message names a field, in its own spelling or in words (`oldToken`, `old token`).
fn names(message: &str, field: &str) -> bool {
    let squeezed: String = message.to_lowercase().chars().filter(|c| c.is_alphanumeric()).collect();
    squeezed.contains(&field.to_lowercase())
}

#[test]
fn the_token_change_is_guarded() {
    let gateway = Gateway::start();
    let wrong = json!({"oldToken": "wrong-token", "newToken": "long-enough"});
    let change = || gateway.admin().post("/api/settings/auth/change", &wrong);
    for _ in 0..3 {
        change().expect(400);
    }
    let refused = change();
    let seconds: u64 = refused.header("retry-after").and_then(|s| s.parse().ok()).expect("seconds");
    assert!((1..=60).contains(&seconds), "{seconds}");
    let body = refused.expect(429);
    assert_eq!(body["success"], false);
    assert!(body["message"].is_string());
}

#[test]
fn a_request_that_is_no_json_uses_up_no_guard() {
    let gateway = Gateway::start();
    for _ in 0..5 {
        let ask = Request::post("/api/settings/auth/change").json_text("{");
        gateway.admin().send(ask).expect(400);
    }
    let change = json!({"oldToken": ADMIN_TOKEN, "newToken": "a-new-admin-token"});
    gateway.admin().post("/api/settings/auth/change", &change).expect(200);
}

/// Also on routes that ignore the body: a client that sends an array by mistake is told so.
#[test]
fn a_body_is_an_object_or_nothing_on_every_route() {
    let gateway = Gateway::start();
    for path in ["/api/checkin/trigger", "/api/events/read-all", "/api/accounts/9/balance"] {
        for (kind, body, status) in
            [("application/json", "[]", 400), ("application/json", "{", 400), ("text/xml", "<a/>", 415)]
        {
            let ask = Request::new("POST", path).header("content-type", kind).body(body);
            gateway.admin().send(ask).expect(status);
        }
        for ask in [Request::new("POST", path), Request::new("POST", path).json(&json!({"any": 1}))] {
            assert!(![400, 415].contains(&gateway.admin().send(ask).status), "{path}");
        }
    }
}

#[test]
fn the_console_can_check_a_token_and_sees_it_masked() {
    let gateway = Gateway::start();
    let info = gateway.admin().get("/api/settings/auth/info").expect(200);
    let masked = format!("{}****{}", &ADMIN_TOKEN[..4], &ADMIN_TOKEN[ADMIN_TOKEN.len() - 4..]);
    assert_eq!(info["masked"], Value::from(masked));
}

#[test]
fn metrics_are_text_for_the_admin_only() {
    let gateway = Gateway::start();
    assert_eq!(gateway.anyone().get("/metrics").status, 401);
    let metrics = gateway.admin().get("/metrics");
    assert_eq!(metrics.status, 200);
    let content_type = metrics.header("content-type").unwrap_or_default();
    assert!(content_type.starts_with("text/plain"), "{content_type}");
    let text = metrics.text();
    assert!(text.contains("# TYPE switchyard_"), "{text}");
}
