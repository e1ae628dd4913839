//! The account limits that providers report with ordinary answers, as the account list shows them.

use std::time::SystemTime;

use serde_json::{Value, json};

use crate::support::paths::{CHAT, RESPONSES};
use crate::support::{Gateway, Pair, Reply, Request, Upstream, eventually, seconds_ahead, wire};

const MODEL: &str = "model-windows";

fn now_s() -> u64 {
    SystemTime::UNIX_EPOCH.elapsed().expect("a clock after 1970").as_secs()
}

/// Returns the account's windows by name, as an operator's list shows them.
fn windows(gateway: &Gateway) -> Vec<Value> {
    let list = gateway.admin().get("/api/accounts").expect(200);
    list["accounts"][0]["limitWindows"].as_array().expect("windows").clone()
}

/// Returns the windows after an answer with these headers.
fn told(headers: &[(&str, &str)]) -> Vec<Value> {
    let (gateway, upstream) = Gateway::serving(&[MODEL]);
    assert!(windows(&gateway).is_empty(), "nothing is known before the first answer");
    let answer = Reply::json(200, &wire::chat(MODEL));
    upstream.answer(CHAT, headers.iter().fold(answer, |answer, (name, value)| answer.header(name, value)));
    gateway.client().chat(MODEL).expect(200);
    windows(&gateway)
}

#[track_caller]
fn check(window: &Value, name: &str, percent: f64, resets_in: i64) {
    assert_eq!((&window["name"], window["usedPercent"].as_f64()), (&json!(name), Some(percent)), "{window}");
    assert_eq!(window["source"], "headers", "{window}");
    assert!((resets_in - 30..=resets_in).contains(&seconds_ahead(&window["resetAt"])), "{window}");
    assert!((-30..=0).contains(&seconds_ahead(&window["observedAt"])), "{window}");
}

#[test]
fn the_windows_of_a_plan_are_shown_with_the_answer_that_tells_of_them() {
    let resets = || [3_600, 86_400].map(|ahead| (now_s() + ahead).to_string());
    // Checked before the next gateway starts, while these times are still in the near future.
    let are_shown = |windows: Vec<Value>| {
        let [five_hours, seven_days] = &windows[..] else { panic!("{windows:?}") };
        check(five_hours, "5h", 42.5, 3_600);
        check(seven_days, "7d", 7.0, 86_400);
        assert!(five_hours.get("limit").is_none() && five_hours.get("remaining").is_none(), "{five_hours}");
    };
    let [_, day] = resets();
    are_shown(told(&[
        ("x-codex-primary-used-percent", "42.5"),
        ("x-codex-primary-window-minutes", "300"),
        ("x-codex-primary-reset-after-seconds", "3600"),
        ("x-codex-secondary-used-percent", "7"),
        ("x-codex-secondary-window-minutes", "10080"),
        ("x-codex-secondary-reset-at", &day),
    ]));
    let [hour, day] = resets();
    are_shown(told(&[
        ("anthropic-ratelimit-unified-5h-utilization", "0.425"),
        ("anthropic-ratelimit-unified-5h-reset", &hour),
        ("anthropic-ratelimit-unified-5h-status", "allowed"),
        ("anthropic-ratelimit-unified-7d-utilization", "0.07"),
        ("anthropic-ratelimit-unified-7d-reset", &day),
        ("anthropic-ratelimit-unified-7d-status", "allowed_warning"),
    ]));
}

#[test]
fn the_windows_of_a_key_count_what_is_left() {
    let counts = [("limit", "200"), ("remaining", "50")];
    let reset = "2099-01-01T00:00:00Z";
    for name in ["requests", "tokens", "input-tokens", "output-tokens"] {
        let name_of = |about: &str| format!("anthropic-ratelimit-{name}-{about}");
        let headers = counts.map(|(about, value)| (name_of(about), value));
        let mut headers: Vec<_> = headers.iter().map(|(name, value)| (name.as_str(), *value)).collect();
        let at = name_of("reset");
        headers.push((&at, reset));
        let windows = told(&headers);
        let [window] = &windows[..] else { panic!("{windows:?}") };
        let about = json!({"name": name, "usedPercent": 75, "limit": 200, "remaining": 50,
            "resetAt": "2099-01-01T00:00:00.000Z", "source": "headers", "observedAt": window["observedAt"]});
        assert_eq!(window, &about);
    }
    let of_openai = told(&[
        ("x-ratelimit-limit-requests", "100"),
        ("x-ratelimit-remaining-requests", "4"),
        ("x-ratelimit-reset-requests", "6m0s"),
        ("x-ratelimit-limit-tokens", "1000"),
        ("x-ratelimit-remaining-tokens", "1000"),
        ("x-ratelimit-reset-tokens", "1h2m3s"),
    ]);
    let [requests, tokens] = &of_openai[..] else { panic!("{of_openai:?}") };
    check(requests, "requests", 96.0, 360);
    check(tokens, "tokens", 0.0, 3_723);
}

#[test]
fn windows_of_codex_count_on_any_site_that_answers_responses() {
    let (gateway, upstream) = (Gateway::start(), Upstream::with_one_path(MODEL, RESPONSES));
    gateway.add_as(&json!({"name": "site", "platform": "new-api"}), &upstream);
    let answer = Reply::json(200, &wire::response(MODEL))
        .header("x-codex-primary-used-percent", "12")
        .header("x-codex-primary-window-minutes", "300")
        .header("x-codex-primary-reset-after-seconds", "3600");
    upstream.answer(RESPONSES, answer);
    let ask = Request::post(RESPONSES).json(&json!({"model": MODEL, "input": "x"}));
    gateway.client().send(ask).expect(200);
    check(&windows(&gateway)[0], "5h", 12.0, 3_600);
}

#[test]
fn a_window_outlasts_a_kill_soon_after_the_answer_that_told_of_it() {
    let (gateway, upstream) = Gateway::serving(&[MODEL]);
    let answer = Reply::json(200, &wire::chat(MODEL))
        .header("x-ratelimit-limit-requests", "100")
        .header("x-ratelimit-remaining-requests", "3")
        .header("x-ratelimit-reset-requests", "1h");
    upstream.answer(CHAT, answer);
    gateway.client().chat(MODEL).expect(200);
    let saved = "SELECT COUNT(*) FROM settings WHERE value LIKE '%\"usedPercent\":97%'";
    let database = gateway.home().database();
    eventually("it is saved", || (database.number(saved) == 1).then_some(()));
    drop(database);
    let gateway = gateway.restart();
    check(&windows(&gateway)[0], "requests", 97.0, 3_600);
}

#[test]
fn a_window_is_gone_once_its_reset_has_passed() {
    let (gateway, upstream) = Gateway::serving(&[MODEL]);
    let reset_in = |seconds: &str| {
        let answer = Reply::json(200, &wire::chat(MODEL));
        let names = ["requests", "tokens", "input-tokens", "output-tokens"];
        let answer = names.iter().fold(answer, |answer, name| {
            answer
                .header(&format!("x-ratelimit-limit-{name}"), "10")
                .header(&format!("x-ratelimit-remaining-{name}"), "5")
                .header(&format!("x-ratelimit-reset-{name}"), seconds)
        });
        let plans = [("primary", "300"), ("secondary", "10080")];
        plans.iter().fold(answer, |answer, (which, minutes)| {
            answer
                .header(&format!("x-codex-{which}-used-percent"), "50")
                .header(&format!("x-codex-{which}-window-minutes"), minutes)
                .header(&format!("x-codex-{which}-reset-after-seconds"), "3600")
        })
    };
    upstream.answer(CHAT, reset_in("1s"));
    gateway.client().chat(MODEL).expect(200);
    let names = || -> Vec<Value> { windows(&gateway).iter().map(|window| window["name"].clone()).collect() };
    eventually("those of a second are gone", || (names() == [json!("5h"), json!("7d")]).then_some(()));
    upstream.answer(CHAT, reset_in("1h"));
    gateway.client().chat(MODEL).expect(200);
    assert_eq!(names(), ["5h", "7d", "input-tokens", "output-tokens", "requests", "tokens"]);
}

#[test]
fn an_account_near_a_limit_is_used_only_when_nothing_else_can_serve() {
    for headers in [
        &[
            ("anthropic-ratelimit-unified-5h-utilization", "0.96"),
            ("anthropic-ratelimit-unified-5h-reset", "4102444800"),
        ][..],
        &[
            ("x-codex-secondary-used-percent", "96"),
            ("x-codex-secondary-window-minutes", "10080"),
            ("x-codex-secondary-reset-after-seconds", "86400"),
        ],
        &[
            ("x-ratelimit-limit-tokens", "1000"),
            ("x-ratelimit-remaining-tokens", "40"),
            ("x-ratelimit-reset-tokens", "1h"),
        ],
    ] {
        let pair = Pair::start();
        let answer = Reply::json(200, &wire::chat(Pair::MODEL));
        let near = headers.iter().fold(answer, |answer, (name, value)| answer.header(name, value));
        pair.first.answer(CHAT, near);
        let ask = || pair.gateway.client().chat(Pair::MODEL).expect(200);
        for _ in 0..20 {
            ask();
        }
        assert_eq!(
            (pair.first.asked_for(CHAT).len(), pair.second.asked_for(CHAT).len()),
            (1, 19),
            "{headers:?}"
        );
        let explained = || {
            let path = format!("/api/routes/decision?model={}", Pair::MODEL);
            let decision = pair.gateway.admin().get(&path).expect(200)["decision"].clone();
            let candidates = decision["candidates"].as_array().expect("candidates");
            let first = candidates.iter().find(|one| one["siteName"] == "first").expect("a candidate");
            assert_eq!((&first["reasonCode"], &first["eligible"]), (&json!("near_limit"), &json!(true)));
            first["probability"].clone()
        };
        assert_eq!(explained(), 0.0);
        pair.second.answer(CHAT, Reply::error(500, "boom"));
        ask();
        assert_eq!(pair.first.asked_for(CHAT).len(), 2, "{headers:?}");
        assert_eq!(explained(), 100.0, "there is no other one");
    }
}
