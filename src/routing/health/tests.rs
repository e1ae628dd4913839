//! How far failures, successes and time change a site's health, number by number.

use std::sync::Arc;

use super::*;
use crate::ids::{AccountId, SiteId};
use crate::routing::limit_windows::{LimitWindow, LimitWindows, WindowSource};

const NOW: Millis = 1_777_622_400_000;
/// A 502 answer whose text says so, too.
const BAD_GATEWAY: FailureWeight = FailureWeight { penalty: 2.5, transient: true };

fn close(one: f64, other: f64) -> bool {
    (one - other).abs() < 5e-5
}

fn after(failures: usize) -> Health {
    let mut health = Health::default();
    for _ in 0..failures {
        health.fail(FailureWeight::of(502, &ErrorText::new("Bad Gateway")), NOW);
    }
    health
}

#[test]
fn a_failure_weighs_by_the_first_class_that_fits() {
    for (status, words, penalty, transient) in [
        (429, "usage_limit_reached", 0.4, false),
        (429, "Rate limit reached for the model", 0.4, false),
        (429, "slow down", 2.2, true),
        (429, "Service temporarily unavailable", 2.5, true),
        (404, "The model `x` does not exist", 0.9, false),
        (502, "unknown provider for model x", 0.9, false),
        (400, "Unsupported legacy protocol", 0.6, false),
        (500, "no route matched", 0.6, false),
        (502, "validation failed", 0.25, false),
        (400, "invalid timeout parameter", 0.9, false),
        (500, "", 2.5, true),
        (529, "Overloaded", 2.5, true),
        (0, "Connection refused (os error 111)", 2.5, true),
        (408, "first byte timeout (3s)", 2.5, true),
        (401, "Incorrect API key provided", 1.8, false),
        (403, "Forbidden", 1.8, false),
        (402, "pay up", 0.9, false),
        (404, "You do not have access to the model x", 0.9, false),
        (302, "", 1.2, false),
        (0, "the TLS handshake failed", 1.2, false),
    ] {
        assert_eq!(
            FailureWeight::of(status, &ErrorText::new(words)),
            FailureWeight { penalty, transient },
            "{status} {words}"
        );
    }
}

#[test]
fn failures_lower_the_share_and_a_success_forgives_most() {
    let mut once = after(1);
    assert!(close(once.multiplier(NOW), 1.0 / 3.5) && close(once.multiplier(NOW), 0.2857));
    once.succeed(100, NOW);
    assert!(close(once.penalty, 0.2) && close(once.multiplier(NOW), 0.8333), "{once:?}");

    let mut thrice = after(3);
    assert!(close(thrice.penalty, 7.5), "{thrice:?}");
    thrice.succeed(100, NOW);
    assert!(close(thrice.penalty, 1.2) && close(thrice.multiplier(NOW), 0.4545), "{thrice:?}");
    thrice.succeed(100, NOW);
    assert!(close(thrice.penalty, 0.0) && close(thrice.multiplier(NOW), 1.0), "{thrice:?}");
}

#[test]
fn slow_answers_lower_the_share_by_up_to_a_third() {
    for (latency, expected) in [(100, 1.0), (2_500, 1.0), (10_000, 0.9125), (32_500, 0.65), (90_000, 0.65)] {
        let mut health = Health::default();
        health.succeed(latency, NOW);
        assert!(close(health.multiplier(NOW), expected), "{latency} ms: {}", health.multiplier(NOW));
    }
    let mut health = Health::default();
    health.succeed(1_000, NOW);
    health.succeed(2_000, NOW);
    assert_eq!(health.latency_ema, Some(1_300.0));
}

#[test]
fn a_penalty_halves_every_ten_minutes_and_outcomes_every_half_hour() {
    let health = after(1);
    for (minutes, penalty) in [(0, 2.5), (10, 1.25), (20, 0.625)] {
        let then = NOW + minutes * MINUTE;
        assert!(close(health.multiplier(then), 1.0 / (1.0 + penalty)), "{minutes} min");
    }
    assert!(close(health.recent(NOW + 30 * MINUTE).failures, 0.5));
    assert!(close(health.recent(NOW + 60 * MINUTE).failures, 0.25));
    assert!(close(health.multiplier(NOW - MINUTE), 1.0 / 3.5), "a clock that steps back adds nothing");
    let mut later = health;
    later.fail(BAD_GATEWAY, NOW + 10 * MINUTE);
    assert!(close(later.penalty, 3.75), "{later:?}");
    later.succeed(1, NOW + 10_000 * MINUTE);
    assert!(!later.is_notable(), "what has faded is gone: {later:?}");
}

#[test]
fn three_transient_failures_in_a_row_open_the_breaker_each_time_for_longer() {
    let mut health = Health::default();
    let mut now = NOW;
    for open_for in [MINUTE, 5 * MINUTE, 30 * MINUTE, 30 * MINUTE] {
        for _ in 0..2 {
            health.fail(BAD_GATEWAY, now);
            assert!(!health.is_open(now));
        }
        health.fail(BAD_GATEWAY, now);
        assert!(health.is_open(now) && health.is_open(now + open_for - 1) && !health.is_open(now + open_for));
        assert_eq!(health.multiplier(now), 0.08);
        now += open_for;
    }
    health.succeed(100, now);
    assert_eq!((health.streak, health.breaker_level, health.breaker_until), (0, 0, None));
    for _ in 0..3 {
        health.fail(BAD_GATEWAY, now);
    }
    assert_eq!(health.breaker_until, Some(now + MINUTE), "a success has reset the level");
}

#[test]
fn only_transient_failures_within_five_minutes_are_in_a_row() {
    let opened = |gap: Millis, between: Option<FailureWeight>| {
        let mut health = after(2);
        if let Some(weight) = between {
            health.fail(weight, NOW);
        }
        health.fail(BAD_GATEWAY, NOW + gap);
        health.is_open(NOW + gap)
    };
    assert!(opened(5 * MINUTE, None));
    assert!(!opened(5 * MINUTE + 1, None));
    for (status, words) in [
        (401, "no"),
        (429, "usage_limit_reached"),
        (502, "unknown provider for model x"),
        (400, "invalid timeout parameter"),
    ] {
        assert!(!opened(0, Some(FailureWeight::of(status, &ErrorText::new(words)))), "{status} {words}");
    }
    for (status, words) in [(502, "unknown provider for model x"), (400, "invalid timeout parameter")] {
        let mut health = Health::default();
        for _ in 0..20 {
            health.fail(FailureWeight::of(status, &ErrorText::new(words)), NOW);
        }
        assert!(!health.is_open(NOW), "{status} {words}");
    }
}

#[test]
fn a_share_is_never_lost_altogether() {
    assert_eq!(after(2).multiplier(NOW), 1.0 / 6.0);
    let mut health = Health::default();
    for _ in 0..1_000 {
        health.fail(FailureWeight::of(401, &ErrorText::new("")), NOW);
    }
    assert_eq!(health.multiplier(NOW), 0.08);
    let site = SiteHealth::default();
    for _ in 0..100 {
        site.fail("m", FailureWeight::of(401, &ErrorText::new("")), NOW);
    }
    assert!(close(site.multiplier("m", NOW), 0.0064));
    assert_eq!(site.multiplier("other", NOW), 0.08);
}

#[test]
fn the_recent_rate_and_its_confidence_have_their_printed_numbers() {
    let eff = |recent: Recent| recent.rate() * recent.confidence() + 0.5 * (1.0 - recent.confidence());
    let mixed = Recent { successes: 1.0, failures: 3.0 };
    assert!(close(mixed.rate(), 2.0 / 6.0) && close(mixed.confidence(), 4.0 / 12.0));
    assert!(close(eff(mixed), 0.4444));
    let good = Recent { successes: 4.0, failures: 0.0 };
    assert!(close(good.rate(), 5.0 / 6.0) && close(eff(good), 0.6111));
    assert_eq!(Recent { successes: 20.0, failures: 4.0 }.confidence(), 1.0);

    let site = Recent { successes: 10.0, failures: 0.0 };
    assert_eq!(Recent::blended(site, Recent::default()), site);
    let both = Recent::blended(site, Recent { successes: 0.0, failures: 2.0 });
    assert!(close(both.successes, 3.5) && close(both.failures, 1.3), "{both:?}");
}

#[test]
fn a_model_in_trouble_leaves_the_others_of_its_site_alone() {
    let site = SiteHealth::default();
    site.succeed("good", 100, NOW);
    for _ in 0..3 {
        site.fail("vendor/Bad", BAD_GATEWAY, NOW);
        site.succeed("good", 100, NOW);
    }
    assert!(site.is_open("bad", NOW) && !site.is_open("good", NOW));
    let (of_site, of_model) = site.multipliers("BAD", NOW);
    assert!(of_site > 0.8 && of_model == 0.08, "{of_site} {of_model}");
    let recent = site.recent("bad", NOW);
    assert!(close(recent.failures, 0.35 * 3.0 + 0.65 * 3.0) && close(recent.successes, 0.35 * 4.0));

    site.forget(Some("bad"));
    assert_eq!((site.is_open("bad", NOW), site.multipliers("bad", NOW)), (false, (1.0, 1.0)));
    assert_eq!(site.recent("good", NOW).failures, 0.0);
}

#[test]
fn made_up_model_names_do_not_fill_the_memory() {
    let site = SiteHealth::default();
    for number in 0..5_000 {
        site.fail(&format!("model-{number}"), BAD_GATEWAY, NOW + number);
    }
    let (_, models) = site.records();
    assert!(models.len() <= 512, "{}", models.len());
    assert!(models.iter().any(|(name, _)| &**name == "model-4999"));
    for (name, _) in models {
        site.forget(Some(&name));
    }
    assert_eq!(site.multipliers("model-4999", NOW), (1.0, 1.0));
}

#[test]
fn health_outlives_the_process_as_text() {
    let sites = [7, 8, 9].map(|id| (SiteId::new(id), Arc::<SiteHealth>::default()));
    for _ in 0..3 {
        sites[0].1.fail("gpt-4o", BAD_GATEWAY, NOW);
    }
    sites[0].1.succeed("old", 100, NOW - 8 * 24 * 60 * MINUTE);
    sites[1].1.succeed("gpt-4o", 9_000, NOW - 6 * 24 * 60 * MINUTE);
    let window = LimitWindow {
        name: "5h".into(),
        used_percent: 12.5,
        limit: None,
        remaining: Some(7.0),
        reset_at: Some(NOW + MINUTE),
        minutes: Some(300),
        source: WindowSource::Quota,
        observed_at: NOW,
    };
    let known = Arc::<LimitWindows>::default();
    known.note(vec![window.clone()]);
    known.note_reached(NOW - MINUTE, NOW);
    let text = saved::write(&sites, &[(AccountId::new(3), known), (AccountId::new(4), Arc::default())], NOW);
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&json["version"], &json["savedAtMs"]), (&1.into(), &NOW.into()));
    assert_eq!(json["globalBySiteId"].as_object().unwrap().keys().collect::<Vec<_>>(), ["7", "8"]);
    assert_eq!(json["modelBySiteId"]["7"].as_object().unwrap().keys().collect::<Vec<_>>(), ["gpt-4o"]);

    let restored = [Arc::new(SiteHealth::default()), Arc::default(), Arc::default()];
    let windows = Arc::<LimitWindows>::default();
    saved::read(&text, |id| restored[id.get() as usize - 7].clone(), |_| windows.clone());
    assert_eq!(windows.in_force(NOW), [window]);
    assert_eq!(windows.last_reset(), Some(NOW - MINUTE));
    for (index, (_, site)) in sites.iter().enumerate() {
        assert_eq!(restored[index].multipliers("gpt-4o", NOW), site.multipliers("gpt-4o", NOW));
        assert_eq!(restored[index].is_open("gpt-4o", NOW), site.is_open("gpt-4o", NOW));
    }
    assert!(restored[0].is_open("gpt-4o", NOW));
}

#[test]
fn a_text_that_is_no_health_gives_none() {
    for text in [
        "",
        "[]",
        "{}",
        r#"{"version":2,"globalBySiteId":{"7":{"penalty":9}}}"#,
        r#"{"version":1,"globalBySiteId":{"x":{"penalty":9}}}"#,
        r#"{"version":1,"globalBySiteId":{"7":{"penalty":"9"}}}"#,
    ] {
        saved::read(text, |_| unreachable!("{text}"), |_| unreachable!("{text}"));
    }
    let odd = r#"{"version":1,"modelBySiteId":{"7":{"m":{"penalty":-4,"breakerLevel":9,"transientStreak":4294967295,
        "atMs":-9223372036854775808,"lastTransientAtMs":9223372036854775807}}}}"#;
    let site = Arc::new(SiteHealth::default());
    saved::read(odd, |_| site.clone(), |_| Arc::default());
    site.fail("m", BAD_GATEWAY, NOW);
    assert!(site.is_open("m", NOW));
}
