//! Tests of reading a channel's fields, and of the credential that it gets on a route.

use serde_json::json;

use super::*;
use crate::admin::accounts::view::sample;
use crate::ids::{AccountId, ChannelId, RouteId, TokenId};
use crate::routing::Strategy;
use crate::store::accounts::CredentialMode;
use crate::store::names::Names;
use crate::store::routes::{ChannelStats, RouteMode};
use crate::store::tokens::{TokenRow, TokenSource, ValueStatus};

static TESTED: crate::admin::schema::Object = crate::admin::schema::Object::with(
    "Tested",
    &[
        &crate::admin::channels::schema::ADD,
        &crate::admin::channels::schema::ADD_BATCH,
        &crate::admin::channels::schema::PRIORITIES,
    ],
    &[],
);

fn fields(body: Value) -> Fields {
    Fields::of(&TESTED, body.as_object().cloned().expect("an object"))
}

#[test]
fn only_the_whole_part_of_a_priority_counts_and_nothing_below_zero() {
    let body = json!({"updates": [{"id": 7.9, "priority": 3.8}, {"id": 8, "priority": -7.2}]});
    assert_eq!(priorities(&fields(body)), Ok(vec![(ChannelId::new(7), 3), (ChannelId::new(8), 0)]));
    let input = ChannelInput::read(&fields(json!({"priority": -1, "weight": 2.9}))).expect("a channel");
    assert_eq!((input.priority, input.weight), (Some(0), Some(2)));
}

#[test]
fn a_batch_of_priorities_is_read_as_a_whole() {
    for body in [
        json!({}),
        json!({"updates": []}),
        json!({"updates": [1]}),
        json!({"updates": [{"id": 0.9, "priority": 1}]}),
        json!({"updates": [{"id": "1", "priority": 1}]}),
        json!({"updates": [{"id": 1, "priority": null}]}),
        json!({"updates": [{"id": 1}]}),
    ] {
        assert!(priorities(&fields(body.clone())).is_err(), "{body}");
    }
}

#[test]
fn a_bad_field_of_a_channel_is_refused_by_name() {
    for (body, field) in [
        (json!({"tokenId": "1"}), "tokenId"),
        (json!({"tokenId": 0}), "tokenId"),
        (json!({"sourceModel": 1}), "sourceModel"),
        (json!({"sourceModel": "x".repeat(192)}), "sourceModel"),
        (json!({"sourceModel": "re:("}), "sourceModel"),
        (json!({"priority": "1"}), "priority"),
        (json!({"weight": null}), "weight"),
        (json!({"enabled": 1}), "enabled"),
    ] {
        let refused = ChannelInput::read(&fields(body.clone())).expect_err("refused").to_string();
        assert!(refused.starts_with(&format!("Invalid {field}")), "{body}: {refused}");
    }
}

fn route(pattern: &str) -> RouteRow {
    RouteRow {
        id: RouteId::new(1),
        model_pattern: pattern.into(),
        display_name: None,
        display_icon: None,
        route_mode: RouteMode::Pattern,
        model_mapping: None,
        routing_strategy: Strategy::Weighted,
        enabled: true,
        created_at: 0,
        updated_at: 0,
        is_manual: false,
        source_route_ids: Vec::new(),
    }
}

fn token(id: i64, account: i64, enabled: bool, is_default: bool) -> TokenRow {
    TokenRow {
        id: TokenId::new(id),
        account_id: AccountId::new(account),
        name: "token".into(),
        token: Some("sk-token".into()),
        token_group: None,
        value_status: ValueStatus::Ready,
        source: TokenSource::Manual,
        enabled,
        is_default,
        created_at: 0,
        updated_at: 0,
    }
}

/// Account 1 serves by its tokens 11 (its default), 12 and 13 (disabled); account 2 by its own key although it has the
/// token 21.
fn route_index(pattern: &str, channels: Vec<ChannelRow>) -> RouteIndex {
    let session = AccountRow { id: AccountId::new(1), credential_mode: CredentialMode::Session, ..sample() };
    let key = AccountRow {
        id: AccountId::new(2),
        credential_mode: CredentialMode::ApiKey,
        api_token: Some("sk-own".into()),
        ..sample()
    };
    let tokens = vec![
        token(11, 1, true, true),
        token(12, 1, true, false),
        token(13, 1, false, false),
        token(21, 2, true, true),
    ];
    RouteIndex::new(vec![route(pattern)], channels, Names::default())
        .with_accounts(vec![session, key], tokens)
}

fn reaches(token: i64, model: &str) -> TokenModelRow {
    let token_id = TokenId::new(token);
    TokenModelRow { token_id, model_name: model.into(), available: true, latency_ms: None, checked_at: 0 }
}

fn admitted(
    route_index: &RouteIndex,
    models: Vec<TokenModelRow>,
    account: i64,
    body: Value,
) -> Result<NewChannel, ChannelRefusal> {
    let route = route_index.route(RouteId::new(1)).expect("the route");
    ChannelEditor::with(route_index, route, models)
        .admit(AccountId::new(account), ChannelInput::read(&fields(body))?)
}

#[test]
fn a_channel_without_a_token_uses_what_its_account_serves_by() {
    let route_index = route_index("m", Vec::new());
    for (account, body, token) in [
        (1, json!({}), Some(11)),
        (1, json!({"tokenId": null}), Some(11)),
        (1, json!({"tokenId": 12}), Some(12)),
        (2, json!({}), None),
        (2, json!({"tokenId": 21}), Some(21)),
    ] {
        let channel = admitted(&route_index, Vec::new(), account, body.clone()).expect("admitted");
        let (account_id, token_id) = (AccountId::new(account), token.map(TokenId::new));
        assert_eq!(
            channel.credential,
            Credential { account_id, token_id, unit_id: None },
            "{account} {body}"
        );
        assert!(channel.manual_override);
    }
}

#[test]
fn a_token_has_to_be_the_accounts_own_and_usable() {
    let route_index = route_index("m", Vec::new());
    for (account, token) in [(1, 21), (1, 13), (2, 11), (1, 99)] {
        let refusal =
            admitted(&route_index, Vec::new(), account, json!({"tokenId": token})).expect_err("refused");
        assert!(refusal.into_message().starts_with("Invalid tokenId"), "{account} {token}");
    }
}

#[test]
fn on_an_exact_route_a_token_has_to_reach_the_model() {
    let models = || vec![reaches(11, "other"), reaches(12, "vendor/M")];
    let exact = route_index("m", Vec::new());
    assert!(admitted(&exact, models(), 1, json!({})).is_err(), "the default token reaches another model");
    assert!(admitted(&exact, models(), 1, json!({"tokenId": 12})).is_ok(), "another spelling");
    assert!(admitted(&exact, Vec::new(), 1, json!({})).is_ok(), "nothing is known");
    assert!(admitted(&route_index("m*", Vec::new()), models(), 1, json!({})).is_ok(), "a glob asks nothing");
}

#[test]
fn a_changed_token_must_not_make_a_channel_of_another() {
    let channel = |id, token| ChannelRow {
        id: ChannelId::new(id),
        route_id: RouteId::new(1),
        account_id: AccountId::new(1),
        token_id: Some(TokenId::new(token)),
        oauth_route_unit_id: None,
        source_model: None,
        priority: 0,
        weight: 10,
        enabled: true,
        manual_override: false,
        created_at: 0,
        updated_at: 0,
        stats: ChannelStats::default(),
    };
    let route_index = route_index("m", vec![channel(1, 11), channel(2, 12)]);
    let route = route_index.route(RouteId::new(1)).expect("the route");
    let change = |body| {
        let second = route_index.channel(ChannelId::new(2)).expect("the channel");
        ChannelEditor::with(&route_index, route, Vec::new())
            .change(second, ChannelInput::read(&fields(body))?)
    };
    assert_eq!(change(json!({"tokenId": 11})), Err(ChannelRefusal::Duplicate));
    assert_eq!(change(json!({"tokenId": null})), Err(ChannelRefusal::Duplicate), "the default one is taken");
    assert_eq!(change(json!({"sourceModel": "M", "weight": 3})).expect("the same").weight, Some(3));
    let moved = change(json!({"tokenId": null, "sourceModel": "other"})).expect("a channel of its own");
    assert_eq!(
        (moved.token_id, moved.source_model),
        (Some(Some(TokenId::new(11))), Some(Some("other".to_owned())))
    );
}
