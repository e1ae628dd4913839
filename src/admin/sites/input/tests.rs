//! Tests of every field of a site and of its addresses: which values are accepted, and which refused.

use super::*;
use crate::admin::input::refuses_each;
use serde_json::json;

static TESTED: crate::admin::schema::Object = crate::admin::schema::Object::with(
    "Tested",
    &[&crate::admin::sites::schema::UPDATE, &crate::admin::sites::schema::CREATE],
    &[],
);

fn fields(value: Value) -> Fields {
    Fields::of(&TESTED, value.as_object().cloned().expect("an object"))
}

/// Reads `field: value` as an update.
fn update(field: &str, value: &Value) -> Result<SiteInput, Invalid> {
    SiteInput::for_update(&fields(json!({ field: value })))
}

#[test]
fn a_bad_value_is_refused_by_name() {
    let cases = [
        ("name", json!([null, 1, "", "  ", [], "x".repeat(501)])),
        ("url", json!([null, 1, "", "ftp://x", "not a url", {}])),
        ("platform", json!([null, 1, "", "azure", []])),
        ("status", json!([null, "", true, "paused", []])),
        ("useSystemProxy", json!([null, "yes", [], ""])),
        ("isPinned", json!([null, "on", {}])),
        ("sortOrder", json!([null, "", "x", 1.5, true, "1.5", []])),
        ("globalWeight", json!([null, "", 0, -1, "NaN", "inf", true])),
        ("proxyUrl", json!([1, "ftp://p.example", "p.example:8080", [], true])),
        ("externalCheckinUrl", json!([1, "ftp://x", "x.example", {}])),
        ("customHeaders", json!([1, "[]", "{", "1", [], r#"{"a":1}"#])),
        ("maxConcurrency", json!([-1, 1.5, "x", "5", 10_001, true, []])),
        ("apiEndpoints", json!([{}, "x", 1, [1], [null], [{}], [{"url": "x"}]])),
        ("postRefreshProbeEnabled", json!([null, "x"])),
        ("postRefreshProbeModel", json!([null, 1, "x".repeat(192)])),
        ("postRefreshProbeScope", json!([null, "some"])),
        ("postRefreshProbeLatencyThresholdMs", json!([null, -1, "1"])),
    ];
    refuses_each(|body| SiteInput::for_update(&fields(body)), &json!({}), &cases);
}

#[test]
fn switches_and_numbers_may_come_as_text() {
    for (value, on) in [
        (json!(true), true),
        (json!(false), false),
        (json!(0), false),
        (json!(2), true),
        (json!("true"), true),
        (json!("1"), true),
        (json!("false"), false),
        (json!("0"), false),
    ] {
        assert_eq!(update("isPinned", &value).map(|input| input.is_pinned), Ok(Some(on)), "{value}");
    }
    for (value, order) in [(json!(3), 3), (json!("4"), 4), (json!(-2), 0), (json!("-2"), 0), (json!(5.0), 5)]
    {
        assert_eq!(update("sortOrder", &value).map(|input| input.sort_order), Ok(Some(order)), "{value}");
    }
    for (value, weight) in
        [(json!(1.23456), 1.235), (json!("2.5"), 2.5), (json!(0.0001), 0.01), (json!(1000), 100.0)]
    {
        assert_eq!(
            update("globalWeight", &value).map(|input| input.global_weight),
            Ok(Some(weight)),
            "{value}"
        );
    }
    for (value, limit) in [(json!(0), None), (json!(null), None), (json!(""), None), (json!(7), Some(7))] {
        assert_eq!(
            update("maxConcurrency", &value).map(|input| input.max_concurrency),
            Ok(Some(limit)),
            "{value}"
        );
    }
}

#[test]
fn status_and_platform_are_read_in_any_case() {
    assert_eq!(update("status", &json!("Active")).map(|input| input.status), Ok(Some(SiteStatus::Active)));
    assert_eq!(
        update("status", &json!("DISABLED")).map(|input| input.status),
        Ok(Some(SiteStatus::Disabled))
    );
    assert_eq!(
        update("platform", &json!(" NEW-API ")).map(|input| input.platform),
        Ok(Some(Platform::NewApi))
    );
    assert_eq!(
        update("platform", &json!("anthropic")).map(|input| input.platform),
        Ok(Some(Platform::Claude))
    );
}

#[test]
fn addresses_lose_trailing_slashes_and_blank_clears() {
    for (field, typed, kept) in [
        ("proxyUrl", "socks5h://user:pw@p.example:1080//", Some("socks5h://user:pw@p.example:1080")),
        ("proxyUrl", " http://p.example:8080 ", Some("http://p.example:8080")),
        ("proxyUrl", " ", None),
        ("externalCheckinUrl", "https://c.example/day/", Some("https://c.example/day")),
        ("externalCheckinUrl", "https://中文.com/签到", Some("https://中文.com/签到")),
        ("externalCheckinUrl", "", None),
    ] {
        let input = update(field, &json!(typed)).unwrap_or_else(|error| panic!("{typed}: {error:?}"));
        let got = if field == "proxyUrl" { input.proxy_url } else { input.external_checkin_url };
        assert_eq!(got, Some(kept.map(str::to_owned)), "{typed}");
    }
    assert_eq!(update("proxyUrl", &json!(null)).map(|input| input.proxy_url), Ok(Some(None)));
}

#[test]
fn custom_headers_have_one_canonical_form() {
    for (sent, kept) in [
        (json!(r#" {"X-B": "2", "x-a" : "1"} "#), Some(r#"{"x-a":"1","x-b":"2"}"#)),
        (json!({"X-B": "2", "A": ""}), Some(r#"{"a":"","x-b":"2"}"#)),
        (json!(null), None),
        (json!(" "), None),
        (json!("{}"), None),
        (json!({}), None),
    ] {
        let got = update("customHeaders", &sent).map(|input| input.custom_headers);
        assert_eq!(got, Ok(Some(kept.map(str::to_owned))), "{sent}");
    }
}

#[test]
fn a_refused_custom_header_is_named() {
    for (sent, named) in [
        (json!({"x-count": 1}), "x-count"),
        (json!({"Content-Length": "1"}), "Content-Length"),
        (json!({"transfer-encoding": "chunked"}), "transfer-encoding"),
        (json!({"bad name": "1"}), "bad name"),
        (json!({"x-a": "1\r\nx-b: 2"}), "x-a"),
        (json!({"x-a": "1", "X-A": "2"}), "twice"),
    ] {
        let Err(refused) = update("customHeaders", &sent) else { panic!("{sent} was accepted") };
        assert!(refused.to_string().contains(named), "{sent}: {refused}");
    }
}

#[test]
fn an_endpoint_pool_is_normalised() {
    let sent = json!([
        {"url": " https://A.example.com/v1/?k=1#x ", "cooldownUntil": 5},
        {"url": "http://b.example.com:80", "enabled": false, "sortOrder": 9},
    ]);
    let endpoints = update("apiEndpoints", &sent).expect("accepted").endpoints.expect("sent");
    assert_eq!(
        endpoints,
        [
            NewEndpoint { url: "https://a.example.com/v1".into(), enabled: true, sort_order: 0 },
            NewEndpoint { url: "http://b.example.com".into(), enabled: false, sort_order: 9 },
        ]
    );
    assert_eq!(update("apiEndpoints", &json!(null)).map(|input| input.endpoints), Ok(Some(vec![])));
    for (bad, named) in [
        (json!([{"url": "https://a.example", "enabled": null}]), "apiEndpoints[0].enabled"),
        (json!([{"url": "https://a.example", "enabled": "true"}]), "apiEndpoints[0].enabled"),
        (json!([{"url": "https://a.example", "sortOrder": null}]), "apiEndpoints[0].sortOrder"),
        (json!([{"url": "https://a.example"}, {"url": "https://A.example/"}]), "apiEndpoints[1].url"),
        (json!([{"url": "a.example"}]), "apiEndpoints[0].url"),
    ] {
        let Err(refused) = update("apiEndpoints", &bad) else { panic!("{bad} was accepted") };
        assert!(refused.to_string().contains(named), "{bad}: {refused}");
    }
}

#[test]
fn create_needs_a_name_and_an_address() {
    let create = |value: Value| SiteInput::for_create(&fields(value));
    for (body, named) in [
        (json!({}), "name"),
        (json!({"name": "Blue"}), "url"),
        (json!({"url": "https://a.example"}), "name"),
        (
            json!({"name": "Blue", "url": "https://a.example", "initializationPresetId": "none"}),
            "initializationPresetId",
        ),
        (
            json!({"name": "Blue", "url": "https://a.example", "initializationPresetId": 1}),
            "initializationPresetId",
        ),
        (json!({"name": "Blue", "url": "https://a.example", "platform": "none"}), "platform"),
    ] {
        let Err(refused) = create(body.clone()) else { panic!("{body} was accepted") };
        assert!(refused.to_string().contains(named), "{body}: {refused}");
    }
    let blank =
        create(json!({"name": " Blue ", "url": "a.example", "platform": " ", "initializationPresetId": ""}));
    let input = blank.expect("accepted");
    assert_eq!((input.name.as_deref(), input.platform, input.preset), (Some("Blue"), None, None));
    let preset =
        create(json!({"name": "B", "url": "a.example", "initializationPresetId": "deepseek-claude"}));
    assert_eq!(preset.expect("accepted").preset.map(|preset| preset.id), Some("deepseek-claude"));
}
