use serde_json::json;

use super::*;
use crate::ids::{AccountId, RouteId, SiteId, TokenId};
use crate::money::Usd;

static TESTED: crate::admin::schema::Object = crate::admin::schema::Object::with(
    "Tested",
    &[&crate::admin::keys::schema::CREATE, &crate::admin::keys::schema::BATCH],
    &[],
);

fn fields(value: Value) -> Fields {
    Fields::of(&TESTED, value.as_object().cloned().expect("an object"))
}

fn created(extra: Value) -> Result<KeySettings, String> {
    let mut sent = json!({"name": "n", "key": "sk-abc"});
    for (name, value) in extra.as_object().expect("an object") {
        sent[name] = value.clone();
    }
    for_create(&fields(sent)).map(|(_, settings)| settings).map_err(|refused| refused.to_string())
}

#[test]
fn the_documented_example_is_read_as_documented() {
    let settings = created(json!({"tags": "prod, eu", "maxCost": "12.5", "maxRequests": 500,
        "supportedModels": ["gpt-4o*"], "allowedRouteIds": [3], "siteWeightMultipliers": {"2": 1.5}}));
    let expected = KeySettings {
        name: "n".into(),
        tags: vec!["prod".into(), "eu".into()],
        enabled: true,
        max_cost: Some(Usd::new(12.5)),
        max_requests: Some(500),
        supported_models: vec!["gpt-4o*".into()],
        allowed_route_ids: vec![RouteId::new(3)],
        site_weight_multipliers: BTreeMap::from([(SiteId::new(2), 1.5)]),
        ..KeySettings::default()
    };
    assert_eq!(settings, Ok(expected));
}

#[test]
fn only_a_key_without_both_lists_gets_every_model() {
    for (sent, models) in [
        (json!({}), vec!["*".to_owned()]),
        (json!({"supportedModels": null, "allowedRouteIds": null}), vec!["*".to_owned()]),
        (json!({"supportedModels": []}), vec![]),
        (json!({"allowedRouteIds": [1]}), vec![]),
        (json!({"supportedModels": [], "allowedRouteIds": []}), vec![]),
        (json!({"supportedModels": "a, b\na"}), vec!["a".to_owned(), "b".to_owned()]),
    ] {
        assert_eq!(created(sent.clone()).map(|settings| settings.supported_models), Ok(models), "{sent}");
    }
}

#[test]
fn a_bad_field_is_refused_by_name() {
    for (name, value) in [
        ("name", json!(" ")),
        ("key", json!("short")),
        ("key", json!("sk-a")),
        ("key", json!("sk-with blank")),
        ("enabled", json!("true")),
        ("tags", json!(["a", 1])),
        ("tags", json!(["a\nb"])),
        ("tags", json!("a,b\u{0}c")),
        ("description", json!("a\u{0}b")),
        ("groupName", json!("a\nb")),
        ("maxCost", json!(-1)),
        ("maxCost", json!("many")),
        ("maxRequests", json!(true)),
        ("maxRequests", json!(9_007_199_254_740_992_i64)),
        ("expiresAt", json!("soon")),
        ("expiresAt", json!(17)),
        ("supportedModels", json!({"a": 1})),
        ("supportedModels", json!(["re:("])),
        ("allowedRouteIds", json!([0])),
        ("allowedRouteIds", json!("1,x")),
        ("excludedSiteIds", json!((1..=501).collect::<Vec<i64>>())),
        ("siteWeightMultipliers", json!([1])),
        ("siteWeightMultipliers", json!("{")),
        ("excludedCredentialRefs", json!([{"kind": "other", "siteId": 1, "accountId": 1}])),
        ("excludedCredentialRefs", json!([{"kind": "account_token", "siteId": 1, "accountId": 1}])),
    ] {
        let message = created(json!({ name: value.clone() })).expect_err(name);
        assert!(message.starts_with(&format!("Invalid {name}. ")), "{value}: {message}");
    }
}

#[test]
fn zero_is_a_limit_and_blank_is_none() {
    let read = |value: Value| created(json!({"maxRequests": value})).map(|settings| settings.max_requests);
    for (value, limit) in [
        (json!(0), Some(0)),
        (json!("7"), Some(7)),
        (json!(7.9), Some(7)),
        (json!(9_007_199_254_740_991_i64), Some(9_007_199_254_740_991)),
        (json!(""), None),
        (json!(null), None),
    ] {
        assert_eq!(read(value.clone()), Ok(limit), "{value}");
    }
}

#[test]
fn a_description_may_have_lines_and_tags_may_come_on_lines() {
    let settings = created(json!({"description": "one\r\n\ttwo", "tags": "a\nb\r\n"})).expect("accepted");
    assert_eq!(settings.description.as_deref(), Some("one\r\n\ttwo"));
    assert_eq!(settings.tags, ["a", "b"]);
}

#[test]
fn an_update_keeps_what_it_does_not_name_and_clears_on_null() {
    let before = created(json!({"description": "d", "groupName": "g", "maxCost": 1, "tags": ["t"]})).unwrap();
    let after = apply(&fields(json!({"description": null, "maxCost": ""})), before.clone()).unwrap();
    assert_eq!(after, KeySettings { description: None, max_cost: None, ..before });
}

#[test]
fn a_reference_to_nothing_is_refused_with_its_id() {
    let known = Referable {
        routes: [RouteId::new(1)].into(),
        sites: [SiteId::new(2)].into(),
        accounts: [5, 6].map(|id| (AccountId::new(id), (SiteId::new(2), id == 5))).into(),
        tokens: [(TokenId::new(9), AccountId::new(5))].into(),
    };
    let check = |sent: Value| {
        let settings = created(sent).expect("readable");
        check_references(&known, &KeySettings::default(), &settings).map_err(|refused| refused.to_string())
    };
    let token = |token| json!([{"kind": "account_token", "siteId": 2, "accountId": 5, "tokenId": token}]);
    let default = |account| json!([{"kind": "default_api_key", "siteId": 2, "accountId": account}]);
    assert_eq!(
        check(json!({"allowedRouteIds": [1], "excludedSiteIds": [2],
        "siteWeightMultipliers": {"2": 2}, "excludedCredentialRefs": token(9)})),
        Ok(())
    );
    assert_eq!(check(json!({"excludedCredentialRefs": default(5)})), Ok(()));
    for (sent, field, id) in [
        (json!({"allowedRouteIds": [1, 77]}), "allowedRouteIds", "77"),
        (json!({"excludedSiteIds": [78]}), "excludedSiteIds", "78"),
        (json!({"siteWeightMultipliers": {"79": 2}}), "siteWeightMultipliers", "79"),
        (json!({"excludedCredentialRefs": token(80)}), "excludedCredentialRefs", "80"),
        (json!({"excludedCredentialRefs": default(6)}), "excludedCredentialRefs", "6"),
    ] {
        let message = check(sent).expect_err(field);
        assert!(message.contains(field) && message.contains(id), "{message}");
    }
}

#[test]
fn appended_tags_merge_by_case_and_keep_their_place() {
    let before = created(json!({"tags": ["One", "two"]})).unwrap();
    let sent = json!({"tagOperation": "append", "tags": ["TWO", "three", "one"], "groupOperation": "clear"});
    let Ok(metadata) = Metadata::read(&fields(sent)) else { panic!("readable") };
    assert_eq!(metadata.applied(before).tags, ["one", "TWO", "three"]);
    for sent in [
        json!({"groupOperation": "set"}),
        json!({"groupOperation": "other"}),
        json!({"tagOperation": "append"}),
        json!({"tagOperation": "other"}),
    ] {
        assert!(Metadata::read(&fields(sent.clone())).is_err(), "{sent}");
    }
}
