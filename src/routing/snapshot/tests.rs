//! The order of the look-up, what groups inherit, and what the model list shows.

use super::*;
use crate::ids::{RouteId, TokenId};
use crate::routing::fixture::*;
use crate::routing::{RouteMode, Selection, UnitStrategy, select};

/// Returns the route that serves a model, and whether it was found by its alias.
fn found(snapshot: &Snapshot, model: &str, policy: &Policy) -> Option<(i64, bool)> {
    snapshot.lookup(model, policy).map(|found| (found.route.id.get(), found.by_display_name))
}

#[test]
fn a_group_wins_over_a_name_over_an_alias_over_a_pattern() {
    let routes = || {
        vec![
            route(1, "gpt-*", vec![]),
            aliased("gpt-4o", route(2, "claude-*", vec![])),
            route(3, "gpt-4o", vec![]),
            group(4, "gpt-4o", &[3]),
        ]
    };
    let without =
        |ids: &[i64]| snapshot(routes().into_iter().filter(|route| !ids.contains(&route.id.get())).collect());
    let anyone = Policy::default();
    assert_eq!(found(&without(&[]), "gpt-4o", &anyone), Some((4, true)));
    assert_eq!(found(&without(&[4]), "gpt-4o", &anyone), Some((3, false)));
    assert_eq!(found(&without(&[4, 3]), "gpt-4o", &anyone), Some((2, true)));
    assert_eq!(found(&without(&[4, 3, 2]), "gpt-4o", &anyone), Some((1, false)));
    assert_eq!(found(&without(&[4, 3, 2, 1]), "gpt-4o", &anyone), None);
    assert_eq!(found(&without(&[]), "GPT-4o", &anyone), None, "names are case-sensitive");
}

#[test]
fn among_equals_the_lowest_id_wins_and_disabled_routes_do_not_count() {
    let disabled = |route: Route| Route { enabled: false, ..route };
    let snapshot = snapshot(vec![
        route(9, "re:^gpt", vec![]),
        route(8, "gpt-*", vec![]),
        disabled(route(1, "gpt-4o", vec![])),
        disabled(route(2, "*", vec![])),
        route(6, "o3", vec![]),
        route(5, "o3", vec![]),
    ]);
    assert_eq!(found(&snapshot, "gpt-4o", &Policy::default()), Some((8, false)));
    assert_eq!(found(&snapshot, "o3", &Policy::default()), Some((5, false)));
    assert_eq!(found(&snapshot, "o4", &Policy::default()), None);
}

#[test]
fn a_key_limited_to_routes_sees_only_those_unless_it_lists_the_model() {
    let snapshot =
        snapshot(vec![route(1, "gpt-4o", vec![]), route(2, "gpt-*", vec![]), route(3, "gpt-4o", vec![])]);
    let limited = Policy { allowed_route_ids: vec![RouteId::new(2)], ..Policy::default() };
    assert_eq!(found(&snapshot, "gpt-4o", &limited), Some((2, false)));
    let third = Policy { allowed_route_ids: vec![RouteId::new(3)], ..Policy::default() };
    assert_eq!(found(&snapshot, "gpt-4o", &third), Some((3, false)));
    let listed = Policy { supported_models: vec![pattern("gpt-4*")], ..limited };
    assert_eq!(found(&snapshot, "gpt-4o", &listed), Some((1, false)));
}

#[test]
fn a_group_uses_the_channels_of_its_enabled_exact_sources() {
    let snapshot = snapshot(vec![
        group(9, "best", &[3, 1, 2, 4, 7, 1]),
        route(1, "gpt-4o", vec![channel(12), channel(11)]),
        Route { enabled: false, ..route(2, "o3", vec![channel(20)]) },
        route(3, "claude", vec![Channel { source_model: Some(pattern("claude-4")), ..channel(5) }]),
        route(4, "gpt-*", vec![channel(40)]),
    ]);
    let best = snapshot.lookup("best", &Policy::default()).unwrap();
    let used: Vec<_> =
        best.route.channels.iter().map(|channel| (channel.id.get(), channel.source_model.clone())).collect();
    let expected =
        [(5, "claude-4"), (11, "gpt-4o"), (12, "gpt-4o")].map(|(id, model)| (id, Some(pattern(model))));
    assert_eq!(used, expected, "a channel without a source model inherits its route's pattern");
    assert_eq!(best.route.channels[0].route_id.get(), 3);
    assert_eq!(snapshot.channels().count(), 5);
}

#[test]
fn the_model_sent_upstream_follows_alias_mapping_and_spelling() {
    let mapped = |pairs: &[(&str, &str)], route: Route| Route {
        mapping: pairs.iter().map(|(key, model)| (pattern(key), (*model).to_owned())).collect(),
        ..route
    };
    let with_source = |model: &str| vec![Channel { source_model: Some(pattern(model)), ..channel(1) }];
    for (route, model, upstream) in [
        (route(1, "gpt-4o", vec![channel(1)]), "gpt-4o", "gpt-4o"),
        (route(1, "*", vec![channel(1)]), "gpt-4o", "gpt-4o"),
        (aliased("best", route(1, "gpt-4o", vec![channel(1)])), "best", "gpt-4o"),
        (aliased("best", route(1, "gpt-*", with_source("gpt-4.1"))), "best", "gpt-4.1"),
        (aliased("best", mapped(&[("best", "gpt-5")], route(1, "gpt-*", vec![channel(1)]))), "best", "gpt-5"),
        (mapped(&[("gpt-4o", "gpt-4o-2024")], route(1, "gpt-4o", vec![channel(1)])), "gpt-4o", "gpt-4o-2024"),
        (mapped(&[("gpt-*", "a"), ("gpt-4o", "b")], route(1, "*", vec![channel(1)])), "gpt-4o", "b"),
        (
            mapped(&[("re:4", ""), ("gpt-?o", "a"), ("*", "b")], route(1, "*", vec![channel(1)])),
            "gpt-4o",
            "a",
        ),
        (route(1, "gpt-4o", with_source("openai/gpt-4o")), "gpt-4o", "openai/gpt-4o"),
        (
            mapped(&[("fast", "gpt-4o")], route(1, "fast", with_source("OpenAI/gpt-4o"))),
            "fast",
            "OpenAI/gpt-4o",
        ),
        (route(1, "*", with_source("gpt-*")), "gpt-4o", "gpt-4o"),
        (route(1, "gpt-4o", with_source("vendor-4o")), "gpt-4o", "vendor-4o"),
        (mapped(&[("gpt-4o", "gpt-5")], route(1, "gpt-4o", with_source("vendor-4o"))), "gpt-4o", "vendor-4o"),
        (route(1, "gpt-4o", with_source("gpt-*")), "gpt-4o", "gpt-4o"),
        (route(1, "gpt-4o", with_source("what?is-this")), "gpt-4o", "what?is-this"),
    ] {
        let shown = format!("{route:?} for {model}");
        let snapshot = snapshot(vec![route]);
        let policy = Policy::default();
        let found = snapshot.lookup(model, &policy).expect(&shown);
        match select(&found, &SelectionQuery::new(model, &policy, 0), &mut || 0.0) {
            Selection::Channel { upstream_model, .. } => assert_eq!(upstream_model, upstream, "{shown}"),
            Selection::NoneEligible { .. } => panic!("nothing eligible: {shown}"),
        }
    }
}

#[test]
fn the_model_list_shows_public_names_that_would_be_served() {
    let snapshot = snapshot(vec![
        route(1, "zeta", vec![channel(1)]),
        route(2, "alpha", vec![channel(2)]),
        route(3, "alpha", vec![channel(3)]),
        aliased("shown", route(4, "hidden", vec![channel(4)])),
        route(5, "beta-*", vec![channel(5)]),
        route(6, "re:^x", vec![channel(6)]),
        route(7, "__search", vec![channel(7)]),
        route(8, "__web_search", vec![channel(8)]),
        route(9, "no-channel", vec![]),
        Route { enabled: false, ..route(10, "off", vec![channel(10)]) },
        route(11, "in-group", vec![channel(11)]),
        group(12, "grouped", &[11]),
        Route { display_name: None, ..group(13, "nameless", &[1]) },
        aliased("gamma", route(14, "gamma-*", vec![channel(14)])),
        route(15, "gamma-1", vec![channel(15)]),
        aliased("delta", route(16, "delta-*", vec![channel(16)])),
        route(17, "delta-1", vec![channel(17)]),
        route(18, "delta", vec![channel(18)]),
    ]);
    let everyone = Policy::default();
    let shown = ["alpha", "delta", "delta-1", "gamma", "grouped", "shown", "zeta"];
    assert_eq!(snapshot.exposed_models(&everyone), shown);
    let _ = snapshot.route(RouteId::new(2)).unwrap().channels[0].live.record_failure(0, 600_000);
    assert_eq!(snapshot.exposed_models(&everyone), shown, "a cooldown hides nothing");
    // An alias that a key may not use hides nothing from it.
    for model in ["in-group", "gamma-1"] {
        let policy = Policy { managed: true, supported_models: vec![pattern(model)], ..Policy::default() };
        assert_eq!(snapshot.exposed_models(&policy), [model]);
    }
}

#[test]
fn the_model_list_shows_nothing_that_only_disabled_channels_serve() {
    let off = |id| Channel { enabled: false, ..channel(id) };
    let snapshot = snapshot(vec![
        route(1, "alpha", vec![off(1)]),
        route(2, "alpha", vec![channel(2)]),
        route(3, "beta", vec![off(3), channel(4)]),
    ]);
    let shown = snapshot.exposed_models(&Policy::default());
    assert_eq!(shown, ["beta"], "no fall-through to the second `alpha`");
}

#[test]
fn a_key_is_permitted_what_it_lists_and_the_public_names_of_its_routes() {
    let snapshot = snapshot(vec![
        route(1, "gpt-*", vec![channel(1)]),
        aliased("best", route(2, "claude-*", vec![channel(2)])),
        Route { enabled: false, ..route(3, "off", vec![channel(3)]) },
    ]);
    let global = Policy::default();
    let blank = Policy { managed: true, ..Policy::default() };
    let routes = Policy { allowed_route_ids: [1, 2, 3, 99].map(RouteId::new).to_vec(), ..blank.clone() };
    let models = Policy { supported_models: vec![pattern("*"), pattern("x")], ..blank.clone() };
    for (policy, model, expected) in [
        (&global, "gpt-4o", true),
        (&blank, "gpt-4o", false),
        (&routes, "gpt-4o", false),
        (&routes, "gpt-*", true),
        (&routes, "best", true),
        (&routes, "claude-4", false),
        (&routes, "off", false),
        (&models, "openai/gpt-4o", true),
    ] {
        assert_eq!(snapshot.permits(model, policy), expected, "{model} with {policy:?}");
    }
    assert_eq!(snapshot.exposed_models(&routes), ["best"]);
    assert!(snapshot.exposed_models(&blank).is_empty());
}

#[test]
fn channels_share_a_credential_by_token_or_by_account() {
    let of = |id, account_id, token: Option<i64>| Channel {
        token_id: token.map(TokenId::new),
        ..channel_of(id, account(account_id, site(1)))
    };
    let whole = of(7, 8, None);
    let member = |account_id| {
        let unit = UnitRole::Member { whole: whole.live.clone() };
        Arc::new(Channel { unit, ..of(7, account_id, None) })
    };
    let members = vec![member(8), member(9)];
    let unit = UnitRole::Whole { strategy: UnitStrategy::RoundRobin, members: members.clone() };
    let snapshot = snapshot(vec![
        route(1, "a", vec![of(1, 7, None), of(2, 7, Some(70)), of(3, 8, None)]),
        route(2, "b", vec![of(4, 7, None), of(5, 7, Some(70)), of(6, 7, Some(71))]),
        group(3, "g", &[1, 2]),
        route(4, "c", vec![Channel { unit, ..whole }]),
    ]);
    let sharing = |channel: &Channel| -> Vec<_> {
        snapshot.sharing_credential(channel).map(|other| other.id.get()).collect()
    };
    for (id, expected) in [(1, vec![1, 4]), (2, vec![2, 5]), (3, vec![3, 7]), (6, vec![6])] {
        let channel = snapshot.channels().find(|channel| channel.id.get() == id).unwrap();
        assert_eq!(sharing(channel), expected, "channel {id}");
    }
    for (member, expected) in members.iter().zip([vec![3, 7], vec![7]]) {
        assert_eq!(sharing(member), expected, "account {}", member.account.id);
    }
}

#[test]
fn a_group_without_sources_serves_nothing() {
    let snapshot = snapshot(vec![group(1, "empty", &[1, 5])]);
    let found = snapshot.lookup("empty", &Policy::default()).unwrap();
    assert!(matches!(found.route.mode, RouteMode::ExplicitGroup { .. }) && found.route.channels.is_empty());
}
