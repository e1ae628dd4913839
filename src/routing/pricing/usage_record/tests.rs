use serde_json::json;

use super::*;
use crate::money::Usd;

const END: Millis = 1_790_000_010_000;

fn query() -> UsageQuery<'static> {
    UsageQuery {
        model: "vendor/gpt-x",
        started: END - 2_000,
        ended: END,
        token: Some("sk-mine"),
        token_name: Some("cli"),
        reported: None,
        is_strict: false,
    }
}

fn at(created: Millis) -> UsageRecord {
    UsageRecord { model: "gpt-x".into(), total: 10, created: Some(created), ..UsageRecord::default() }
}

#[test]
fn every_known_form_of_a_line_is_read() {
    let new_api = json!({"success": true, "data": {"page": 1, "total": 1, "items": [{"id": 5,
        "created_at": 1_790_000_010, "type": 2, "token_name": "cli", "model_name": "gpt-x", "quota": 17719,
        "prompt_tokens": 12000, "completion_tokens": 800, "use_time": 2,
        "other": "{\"model_ratio\":1.25,\"completion_ratio\":4,\"cache_ratio\":0.25,\"cache_tokens\":8000,\"group_ratio\":1.5}"}]}});
    let line = &read(new_api.to_string().as_bytes()).expect("a log")[0];
    assert_eq!((line.prompt, line.completion, line.total), (12_000, 800, 12_800));
    assert_eq!((line.cost, line.created, line.duration_ms), (Usd::new(0.035438), Some(END), Some(2_000.0)));
    assert_eq!(line.cache_read, 8_000);
    let wanted = Ratios { model: 1.25, completion: 4.0, cache_read: 0.25, cache_creation: 1.0 };
    assert_eq!(line.ratios, Some((wanted, 1.5)));

    let sub2api = json!({"code": 0, "data": {"items": [{"model": "gpt-x", "input_tokens": 7, "output_tokens": 3,
        "actual_cost": 0.02, "total_cost": 0.04, "created_at": "2026-09-21T14:13:30Z", "duration_ms": 1900,
        "api_key": {"key": "sk-mine"}}]}});
    let line = &read(sub2api.to_string().as_bytes()).expect("a log")[0];
    assert_eq!((line.prompt, line.completion, line.total, line.cost), (7, 3, 10, Usd::new(0.02)));
    assert_eq!((line.duration_ms, line.token.as_deref()), (Some(1900.0), Some("sk-mine")));
    assert_eq!(line.ratios, None);

    let hub = json!({"data": {"data": [{"modelName": "gpt-x", "promptTokens": "7", "quota": 500000,
        "createdAt": 1_790_000_010_000_i64, "requestTime": 1900, "tokenName": "cli"}]}});
    let line = &read(hub.to_string().as_bytes()).expect("a log")[0];
    assert_eq!(
        (line.prompt, line.cost, line.created, line.duration_ms),
        (7, Usd::new(1.0), Some(END), Some(1900.0))
    );
}

#[test]
fn ratios_that_are_all_one_say_nothing_unless_something_was_cached() {
    let ones = json!({"model_ratio": 1, "completion_ratio": 1, "cache_ratio": 1, "group_ratio": 1});
    assert_eq!(ratios(&ones, false), None);
    assert_eq!(ratios(&ones, true), Some((Ratios::default(), 1.0)));
    assert_eq!(ratios(&json!({"model_price": 0.3, "model_ratio": 2}), true), None, "charged by call");
}

#[test]
fn a_line_counts_within_its_time() {
    for (created, found) in [
        (END, true),
        (END - 2_000 - 25_000, true),
        (END - 2_000 - 25_001, false),
        (END + 90_000, true),
        (END + 90_001, false),
        (END + 120_001, false),
    ] {
        assert_eq!(find(&[at(created)], &query()).is_some(), found, "{}", created - END);
    }
}

#[test]
fn a_line_of_another_model_or_pace_or_without_content_is_not_ours() {
    let good = at(END);
    for (what, line) in [
        ("another model", UsageRecord { model: "gpt-y".into(), ..good.clone() }),
        ("no time", UsageRecord { created: None, ..good.clone() }),
        ("nothing in it", UsageRecord { total: 0, ..good.clone() }),
        ("too slow", UsageRecord { duration_ms: Some(14_001.0), ..good.clone() }),
    ] {
        assert_eq!(find(&[line], &query()), None, "{what}");
    }
    let slow = UsageRecord { duration_ms: Some(14_000.0), ..good };
    assert!(find(&[slow], &query()).is_some(), "twelve seconds apart are near enough");
}

#[test]
fn the_token_decides_then_its_name_then_the_best_fit() {
    let near = at(END + 1_000);
    let named = UsageRecord { token_name: Some("cli".into()), ..at(END + 5_000) };
    let ours = UsageRecord { token: Some("mine".into()), ..at(END + 9_000) };
    let all = [near.clone(), named.clone(), ours.clone()];
    assert_eq!(find(&all, &query()), Some(&ours));
    assert_eq!(find(&all[..2], &query()), Some(&named));
    assert_eq!(find(&[at(END + 5_000), near.clone()], &query()), Some(&near));
    // One second nearer in time against one second nearer in duration: the duration counts twice.
    let paced = UsageRecord { duration_ms: Some(2_000.0), ..at(END + 2_000) };
    let hasty = UsageRecord { duration_ms: Some(1_000.0), ..at(END + 1_000) };
    assert_eq!(find(&[hasty, paced.clone()], &query()), Some(&paced));
}

#[test]
fn only_sites_with_a_log_of_their_own_are_asked() {
    const WITH: [Platform; 4] = [Platform::DoneHub, Platform::OneHub, Platform::AnyRouter, Platform::Sub2Api];
    for platform in Platform::ALL {
        let with = WITH.contains(&platform);
        let without = with || platform == Platform::NewApi;
        assert_eq!(is_worth_asking(platform, true), with, "{platform}");
        assert_eq!(is_worth_asking(platform, false), without, "{platform}");
    }
}

#[test]
fn an_unreadable_request_log_is_refused_with_a_reason() {
    for (body, reason) in [
        ("<html>", "the log is not valid JSON"),
        ("{}", "the answer has no request log"),
        (r#"{"success":false,"message":" no "}"#, "no"),
        (r#"{"success":false}"#, "the site refuses to show its request log"),
    ] {
        assert_eq!(read(body.as_bytes()), Err(reason.to_owned()), "{body}");
    }
    assert_eq!(read(br#"[7, {}, {"model": " "}]"#), Ok(vec![]));
}

#[test]
fn the_tokens_that_an_answer_told_come_before_the_time() {
    let with = |prompt: u64, cache_read: u64, apart: Millis| UsageRecord {
        prompt,
        completion: 7,
        total: prompt + 7,
        cache_read,
        ..at(END + apart)
    };
    let lines = [with(200, 0, 0), with(100, 0, 2_000), with(60, 40, 3_000)];
    let query = |prompt, is_strict| {
        let reported = Some(ReportedTokens { prompt, completion: 7 });
        UsageQuery { reported, is_strict, ..query() }
    };
    assert_eq!(find(&lines, &query(100, false)), Some(&lines[1]));
    assert_eq!(find(&lines[..1], &query(100, false)), Some(&lines[0]), "the site counts in another way");
    assert_eq!(find(&lines[..1], &query(100, true)), None);
    assert_eq!(find(&lines[2..], &query(100, true)), Some(&lines[2]), "with its cached tokens");
}
