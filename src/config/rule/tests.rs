use super::*;

fn sent(rule: Rule, value: Value) -> Result<Value, String> {
    rule.sent(&value, &json!({"costWeight": 0.4, "baseWeightFactor": 0.5}))
}

#[test]
fn a_value_that_fits_is_given_in_its_one_form() {
    for (rule, value, expected) in [
        (Rule::Flag, json!(true), json!(true)),
        (Rule::Integer(1, 24), json!(3.9), json!(3)),
        (Rule::Integer(1, 24), json!(" 24 "), json!(24)),
        (Rule::Integer(0, i64::MAX), json!(0), json!(0)),
        (Rule::CooldownCap, json!(7_776_000), json!(2_592_000)),
        (Rule::CooldownCap, json!(0.5), json!(1)),
        (Rule::CooldownCap, json!("600.7"), json!(600)),
        (Rule::UnitCost, json!(2.0), json!(2)),
        (Rule::UnitCost, json!(0.25), json!(0.25)),
        (Rule::UnitCost, json!(1e-9), json!(1e-6)),
        (Rule::Amount, json!("0.5"), json!(0.5)),
        (Rule::Amount, json!(0), json!(0)),
        (Rule::Text, json!(" x "), json!("x")),
        (Rule::Schedule, json!(" 0 8 * * * "), json!("0 8 * * *")),
        (Rule::Choice(&["cron", "interval"]), json!("interval"), json!("interval")),
        (Rule::Words, json!("a\nb,c"), json!(["a", "b", "c"])),
        (Rule::Words, json!([" a ", "b,,a"]), json!(["a", "b", "a"])),
        (Rule::List, json!([" a ", "a", "", "b,c"]), json!(["a", "b,c"])),
        (Rule::Networks, json!("10.0.0.0/8, ::1"), json!(["10.0.0.0/8", "::1"])),
        (Rule::Networks, json!(["0.0.0.0/0", "2001:db8::/32"]), json!(["0.0.0.0/0", "2001:db8::/32"])),
        (Rule::Proxy, json!("socks5h://u:p@127.0.0.1:1080/"), json!("socks5h://u:p@127.0.0.1:1080")),
        (Rule::Proxy, json!(" "), json!("")),
        (Rule::ProxyToken, json!(" sk-abc "), json!("sk-abc")),
        (Rule::BotApi, json!("https://bot.example/ "), json!("https://bot.example")),
        (Rule::BotApi, json!(""), json!("https://api.telegram.org")),
        (Rule::Topic, json!("42"), json!("42")),
        (Rule::Topic, json!(""), json!("")),
    ] {
        assert_eq!(sent(rule, value.clone()), Ok(expected), "{rule:?} {value}");
    }
}

#[test]
fn a_value_that_does_not_fit_is_refused() {
    for (rule, values) in [
        (Rule::Flag, vec![json!("false"), json!(1), json!(null)]),
        (
            Rule::Integer(1, 24),
            vec![json!(0), json!(25), json!(null), json!(""), json!("x"), json!([]), json!(true)],
        ),
        (Rule::Integer(0, i64::MAX), vec![json!(-1), json!("1e400"), json!("NaN")]),
        (Rule::CooldownCap, vec![json!(0), json!(-1), json!(null)]),
        (Rule::UnitCost, vec![json!(0), json!("none")]),
        (Rule::Amount, vec![json!(-0.1), json!("none"), json!(null), json!(true)]),
        (Rule::Text, vec![json!(1), json!(null), json!("a\r\nb")]),
        (Rule::Schedule, vec![json!("soon"), json!("* * * *"), json!(null)]),
        (Rule::Choice(&["cron", "interval"]), vec![json!("Cron"), json!(1)]),
        (Rule::Words, vec![json!(1), json!([1]), json!({}), json!(null)]),
        (Rule::List, vec![json!("a"), json!([1]), json!(null)]),
        (Rule::Networks, vec![json!(["1.2.3.4/33"]), json!("/99"), json!([1])]),
        (Rule::Proxy, vec![json!("ftp://p.example"), json!("p.example"), json!(1)]),
        (
            Rule::ProxyToken,
            vec![json!("abc-12"), json!("sk-"), json!("sk-a b c"), json!("sk-gr\u{fc}n"), json!(1)],
        ),
        (Rule::BotApi, vec![json!("bot.example"), json!("ftp://bot.example"), json!("https://")]),
        (Rule::Topic, vec![json!("0"), json!("01"), json!("-1"), json!("1.5"), json!(1)]),
        (Rule::Weights, vec![json!([]), json!("x"), json!(null)]),
    ] {
        for value in values {
            assert!(sent(rule, value.clone()).is_err(), "{rule:?} {value}");
        }
    }
}

#[test]
fn a_proxy_without_a_host_is_refused_for_that() {
    let error = sent(Rule::Proxy, json!("http://")).expect_err("refused");
    assert!(error.contains("lacks a host"), "{error}");
}

#[test]
fn a_bad_network_is_named() {
    let error = sent(Rule::Networks, json!("10.0.0.1, 1.2.3.4/99")).expect_err("refused");
    assert!(error.contains("1.2.3.4/99"), "{error}");
}

#[test]
fn a_weight_that_is_no_weight_keeps_the_one_that_holds() {
    let merged = sent(Rule::Weights, json!({"costWeight": -1, "usageWeight": 0, "balanceWeight": "x"}));
    let expected = json!({"baseWeightFactor": 0.5, "valueScoreFactor": null, "costWeight": 0.4,
        "balanceWeight": null, "usageWeight": 0});
    assert_eq!(merged, Ok(expected));
}

#[test]
fn headers_for_codex_are_kept_one_by_one() {
    let current = json!({"userAgent": "agent/1", "betaFeatures": "one"});
    for (given, wanted) in [
        (json!({}), current.clone()),
        (json!({"betaFeatures": " two "}), json!({"userAgent": "agent/1", "betaFeatures": "two"})),
        (json!({"user-agent": ""}), json!({"userAgent": "", "betaFeatures": "one"})),
        (json!({"userAgent": "a", "user-agent": "b"}), json!({"userAgent": "a", "betaFeatures": "one"})),
    ] {
        assert_eq!(Rule::CodexHeaders.sent(&given, &current), Ok(wanted.clone()), "{given}");
        assert_eq!(Rule::CodexHeaders.stored(&given, &current), Some(wanted), "{given}");
    }
    // Invalid parts of a row are dropped, and the rest is used.
    let stored = json!({"userAgent": "a\nb", "beta-features": "two", "originator": "x"});
    let wanted = json!({"userAgent": "agent/1", "betaFeatures": "two"});
    assert_eq!(Rule::CodexHeaders.stored(&stored, &current), Some(wanted));
    assert!(Rule::CodexHeaders.sent(&stored, &current).is_err());
}

#[test]
fn stored_values_are_read_as_older_versions_wrote_them() {
    for (rule, value, expected) in [
        (Rule::List, json!("[\"a\",\"b\"]"), Some(json!(["a", "b"]))),
        (Rule::Words, json!("[\"a,b\"]"), Some(json!(["a", "b"]))),
        (Rule::Words, json!("a,b"), Some(json!(["a", "b"]))),
        (Rule::List, json!("a,b"), None),
        (Rule::Networks, json!(["nonsense"]), Some(json!(["nonsense"]))),
        (Rule::ProxyToken, json!("no-prefix"), Some(json!("no-prefix"))),
        (Rule::ProxyToken, json!(" "), None),
        (Rule::Secret, json!(" "), Some(json!(""))),
        (Rule::Flag, json!("true"), None),
        (Rule::Integer(1, 24), json!(99), None),
        (Rule::Schedule, json!("soon"), None),
        (Rule::PayloadRules, json!([]), None),
    ] {
        assert_eq!(rule.stored(&value, &Value::Null), expected, "{rule:?} {value}");
    }
}

#[test]
fn of_stored_payload_rules_the_bad_ones_are_dropped() {
    let good = json!({"models": [{"name": "m"}], "params": {"a": 1}});
    let stored = json!({"override": [good, {"models": []}], "override-raw": 1, "other": []});
    let read = json!({"default": [], "defaultRaw": [], "override": [good], "overrideRaw": [], "filter": []});
    assert_eq!(Rule::PayloadRules.stored(&stored, &Value::Null), Some(read));
}

#[test]
fn a_variable_is_moved_into_its_range_or_refused() {
    let read = |rule: Rule, text: &str| rule.variable(text).map(|(value, remark)| (value, remark.is_some()));
    assert_eq!(read(Rule::Flag, "YES"), Ok((json!(true), false)));
    assert_eq!(read(Rule::Flag, "maybe"), Ok((json!(false), true)));
    assert_eq!(read(Rule::Integer(1, 24), "99"), Ok((json!(24), true)));
    assert_eq!(read(Rule::Integer(1, 24), "1.5e1"), Ok((json!(15), false)));
    assert_eq!(read(Rule::Words, "a, b"), Ok((json!(["a", "b"]), false)));
    assert!(read(Rule::Integer(1, 24), "many").is_err());
    let refused = read(Rule::BotApi, "secret-in-it").expect_err("refused");
    assert!(!refused.contains("secret-in-it"), "{refused}");
}
