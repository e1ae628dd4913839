//! Shares computed by hand, priorities, rotation, and obstacles by name.

use proptest::prelude::{any, prop, prop_assert, prop_assert_eq, proptest};

use super::*;
use crate::error_words::ErrorText;
use crate::ids::{AccountId, ChannelOrMember, SiteId, TokenId};
use crate::money::Usd;
use crate::routing::eligibility::Obstacle;
use crate::routing::fixture::*;
use crate::routing::pricing::{Billing, CallPrice, Catalog, Labels, ModelPrice};
use crate::routing::score::CostTier;
use crate::routing::{
    Account, AccountStatus, ChannelTotals, Conditions, CredentialRef, FailureWeight, Policy, Route, Site,
    Weights,
};

/// Builds the channels whose shares are computed by hand, and the policy of the asking key.
fn worked_example() -> (Vec<Channel>, Policy) {
    let heavy = || Site { global_weight: 3.0, ..site(2) };
    let channels = vec![
        with(channel_of(11, account(1, site(1))), used(10, 0, 12_000, 2_000_000_000)),
        channel_of(21, Account { unit_cost: Some(0.5), balance: Usd::new(2.0), ..account(2, heavy()) }),
        Channel { weight: 20, ..channel_of(22, account(3, heavy())) },
    ];
    (channels, Policy { site_weight_multipliers: [(SiteId::new(2), 0.5)].into(), ..Policy::default() })
}

fn scored(
    channels: &[Channel],
    weights: &Weights,
    policy: &Policy,
    health: impl Fn(&Channel) -> f64,
) -> Vec<Score> {
    let channels: Vec<_> = channels.iter().cloned().map(Arc::new).collect();
    let conditions = |channel: &Arc<Channel>| Conditions { health: health(channel), load: 1.0 };
    scores(&channels.iter().collect::<Vec<_>>(), weights, policy, |_| "m", conditions)
}

/// Returns the shares in percent with two decimals.
fn percents(scores: &[Score]) -> Vec<f64> {
    let sum: f64 = scores.iter().map(|score| score.contribution).sum();
    scores.iter().map(|score| (score.contribution / sum * 10_000.0).round() / 100.0).collect()
}

fn close(one: f64, other: f64) -> bool {
    (one - other).abs() < 5e-7
}

pub(super) fn picked(route: &Route, policy: &Policy, tried: &[i64], now: Millis, u: f64) -> Option<i64> {
    let tried: Vec<_> = tried.iter().copied().map(key).collect();
    let snapshot = snapshot(vec![route.clone()]);
    let found = snapshot.lookup("m", policy).unwrap();
    match select(
        &found,
        &SelectionQuery { tried: &tried, ..SelectionQuery::new("m", policy, now) },
        &mut || u,
    ) {
        Selection::Channel { channel, .. } => Some(channel.id.get()),
        Selection::NoneEligible { .. } => None,
    }
}

#[test]
fn the_worked_example_has_its_printed_numbers() {
    let (channels, policy) = worked_example();
    let scores = scored(&channels, &Weights::default(), &policy, |_| 1.0);
    for (score, (cost, value, normalised, base, contribution)) in scores.iter().zip([
        (0.2, 2.03, 1.0, 20.0, 20.0),
        (0.5, 1.7, 0.837438, 18.374384, 13.780788),
        (1.0, 0.7, 0.344828, 20.172414, 15.129310),
    ]) {
        assert!(close(score.cost, cost) && close(score.value, value), "{score:?}");
        assert!(close(score.normalised, normalised) && close(score.base, base), "{score:?}");
        assert!(close(score.contribution, contribution), "{score:?}");
    }
    let sum: f64 = scores.iter().map(|score| score.contribution).sum();
    assert!(close(sum, 48.910099), "{sum}");
    assert_eq!(percents(&scores), [40.89, 28.18, 30.93]);
    for (u, position) in [
        (0.0, 0),
        (0.40, 0),
        (0.408913, 0),
        (0.408915, 1),
        (0.41, 1),
        (0.690670, 1),
        (0.690672, 2),
        (0.69, 1),
        (0.70, 2),
        (0.999999, 2),
    ] {
        assert_eq!(drawn(&scores, u), position, "u = {u}");
    }
    let route = route(1, "m", channels.clone());
    for (u, id) in [(0.40, 11), (0.41, 21), (0.69, 21), (0.70, 22)] {
        assert_eq!(picked(&route, &policy, &[], 0, u), Some(id), "u = {u}");
    }
    let ailing = scored(&channels, &Weights::default(), &policy, |channel| {
        if channel.account.site.id.get() == 1 { 1.0 / 3.5 } else { 1.0 }
    });
    assert_eq!(percents(&ailing), [16.50, 39.80, 43.70]);
}

#[test]
fn a_site_does_not_win_by_the_number_of_its_channels() {
    let flat = Weights {
        base_weight_factor: 1.0,
        value_score_factor: 0.0,
        cost_weight: 0.0,
        balance_weight: 0.0,
        usage_weight: 0.0,
        fallback_unit_cost: 1.0,
    };
    let policy = Policy::default();
    let shared = [
        channel_of(1, account(1, site(1))),
        channel_of(2, account(2, site(1))),
        channel_of(3, account(3, site(2))),
    ];
    assert_eq!(percents(&scored(&shared, &flat, &policy, |_| 1.0)), [25.0, 25.0, 50.0]);

    let told = [with(channel(1), used(90, 10, 90 * 240, 0)), with(channel(2), used(20, 30, 20 * 5_200, 0))];
    let scores = scored(&told, &flat, &policy, |_| 1.0);
    assert!(close(scores[0].history, 0.945) && close(scores[1].history, 0.650704), "{scores:?}");
    assert_eq!(percents(&scores), [59.22, 40.78]);
}

#[test]
fn an_unknown_price_with_a_high_fallback_hardly_counts() {
    let weights = Weights {
        base_weight_factor: 0.35,
        value_score_factor: 0.65,
        cost_weight: 0.75,
        balance_weight: 0.15,
        usage_weight: 0.1,
        fallback_unit_cost: 1000.0,
    };
    let channels = [
        channel_of(1, Account { balance: Usd::new(10_000.0), ..account(1, site(1)) }),
        with(channel(2), used(10, 0, 0, 10_000_000_000)),
    ];
    assert_eq!(percents(&scored(&channels, &weights, &Policy::default(), |_| 1.0)), [0.28, 99.72]);
}

#[test]
fn a_cost_is_observed_else_configured_else_listed_else_assumed() {
    let listed = |unit_cost| Account { unit_cost, ..account(1, site(1)) };
    let channels = [
        with(channel_of(1, listed(Some(0.5))), used(10, 0, 0, 2_000_000_000)),
        channel_of(2, listed(Some(0.5))),
        channel_of(3, listed(None)),
        channel_of(4, listed(Some(0.0))),
        channel_of(5, account(5, site(1))),
    ];
    let price = ModelPrice::new(
        "M",
        Billing::PerCall(Some(CallPrice::Flat(Usd::new(0.45)))),
        vec![],
        Labels::default(),
    );
    let catalog = Arc::new(Catalog::new(vec![price], vec![]));
    for channel in &channels[..4] {
        channel.account.prices.replace(catalog.clone());
    }
    let scores = scored(&channels, &Weights::default(), &Policy::default(), |_| 1.0);
    let costs: Vec<_> = scores.iter().map(|score| (score.cost, score.tier)).collect();
    assert_eq!(
        costs,
        [
            (0.2, CostTier::Observed),
            (0.5, CostTier::Configured),
            (0.45, CostTier::Catalog),
            (0.45, CostTier::Catalog),
            (1.0, CostTier::Fallback)
        ]
    );
}

#[test]
fn odd_weights_still_pick_somebody() {
    let channels = [Channel { weight: -10, ..channel(1) }, Channel { weight: 0, ..channel(2) }];
    assert_eq!(percents(&scored(&channels, &Weights::default(), &Policy::default(), |_| 1.0)), [50.0, 50.0]);
    let nothing = Weights { base_weight_factor: 0.0, value_score_factor: 0.0, ..Weights::default() };
    let snapshot_weights = scored(&channels, &nothing, &Policy::default(), |_| 1.0);
    assert_eq!([0.0, 0.6, 0.99].map(|u| drawn(&snapshot_weights, u)), [0, 1, 1]);
    let odd = Account { balance: Usd::new(f64::NAN), unit_cost: Some(f64::INFINITY), ..account(3, site(3)) };
    let scores = scored(&[channel(1), channel_of(3, odd)], &Weights::default(), &Policy::default(), |_| 1.0);
    assert!(drawn(&scores, 0.3) < 2);
}

#[test]
fn the_lowest_priority_number_that_has_an_eligible_channel_wins() {
    let at = |id, priority| Channel { priority, ..channel(id) };
    let route = route(1, "m", vec![at(1, 5), at(2, 0), at(3, 5), Channel { enabled: false, ..at(4, -1) }]);
    let anyone = Policy::default();
    assert_eq!(picked(&route, &anyone, &[], 0, 0.99), Some(2));
    assert_eq!(picked(&route, &anyone, &[2], 0, 0.0), Some(1));
    assert_eq!(picked(&route, &anyone, &[2], 0, 0.99), Some(3));
    assert_eq!(picked(&route, &anyone, &[2, 1, 3], 0, 0.99), None);
}

#[test]
fn a_single_candidate_needs_no_dice() {
    let snapshot = snapshot(vec![route(1, "m", vec![channel(1), Channel { priority: 1, ..channel(2) }])]);
    let policy = Policy::default();
    let found = snapshot.lookup("m", &policy).unwrap();
    let selection =
        select(&found, &SelectionQuery::new("m", &policy, 0), &mut || unreachable!("there is no choice"));
    assert!(matches!(selection, Selection::Channel { channel, .. } if channel.id.get() == 1));
}

#[test]
fn round_robin_takes_whoever_waited_longest_whatever_its_priority() {
    let at = |id, last_selected, last_used| {
        let totals = ChannelTotals { last_selected, last_used, ..ChannelTotals::default() };
        Channel { priority: 10 - id, ..with(channel(id), totals) }
    };
    let channels = vec![
        at(1, Some(50), None),
        at(2, None, Some(40)),
        at(3, Some(30), Some(99)),
        at(4, None, None),
        at(5, None, None),
    ];
    let route = Route { strategy: Strategy::RoundRobin, ..route(1, "m", channels) };
    let anyone = Policy::default();
    let mut order = Vec::new();
    while let Some(id) = picked(&route, &anyone, &order, 0, 0.0) {
        order.push(id);
    }
    assert_eq!(order, [4, 5, 3, 2, 1]);
}

#[test]
fn round_robin_keeps_turns_within_one_millisecond() {
    let route =
        Route { strategy: Strategy::RoundRobin, ..route(1, "m", vec![channel(1), channel(2), channel(3)]) };
    let mut order = Vec::new();
    for _ in 0..7 {
        let id = picked(&route, &Policy::default(), &[], 1_000, 0.0).unwrap();
        let _ = route
            .channels
            .iter()
            .find(|channel| channel.id.get() == id)
            .unwrap()
            .live
            .record_selection(1_000);
        order.push(id);
    }
    assert_eq!(order, [1, 2, 3, 1, 2, 3, 1]);
}

#[test]
fn every_obstacle_is_named_and_the_first_suffices() {
    let policy = Policy {
        excluded_site_ids: vec![SiteId::new(77)],
        excluded_credentials: vec![
            CredentialRef::DefaultApiKey { account_id: AccountId::new(5) },
            CredentialRef::AccountToken { account_id: AccountId::new(5), token_id: TokenId::new(50) },
        ],
        ..Policy::default()
    };
    let of = |account: Account| channel_of(1, account);
    let with_status =
        |status, token_id| Channel { token_id, ..of(Account { status, ..account(1, site(1)) }) };
    let source = |model: &str| Channel { source_model: Some(pattern(model)), ..channel(1) };
    let status = |status| vec![Obstacle::AccountStatus(status)];
    for (channel, expected) in [
        (channel(1), vec![]),
        (Channel { enabled: false, ..channel(1) }, vec![Obstacle::Disabled]),
        (channel(9), vec![Obstacle::AlreadyTried]),
        (with_status(AccountStatus::Expired, None), status(AccountStatus::Expired)),
        (with_status(AccountStatus::Expired, Some(TokenId::new(1))), vec![]),
        (with_status(AccountStatus::Unhealthy, Some(TokenId::new(1))), status(AccountStatus::Unhealthy)),
        (with_status(AccountStatus::Disabled, Some(TokenId::new(1))), status(AccountStatus::Disabled)),
        (of(account(1, Site { active: false, ..site(1) })), vec![Obstacle::SiteDisabled]),
        (source("gpt-4o"), vec![]),
        (source("openai/GPT-4o"), vec![]),
        (source("gpt-*"), vec![]),
        (source("gpt-4o-2024"), vec![]),
        (source("claude"), vec![Obstacle::SourceModel]),
        (channel(8), vec![Obstacle::Surface]),
        (of(account(1, site(77))), vec![Obstacle::SiteExcluded]),
        (of(account(5, site(1))), vec![Obstacle::CredentialExcluded]),
        (of(Account { oauth: true, ..account(5, site(1)) }), vec![]),
        (
            Channel { token_id: Some(TokenId::new(50)), ..of(account(5, site(1))) },
            vec![Obstacle::CredentialExcluded],
        ),
        (Channel { token_id: Some(TokenId::new(51)), ..of(account(5, site(1))) }, vec![]),
        (Channel { credential: None, ..channel(1) }, vec![Obstacle::NoCredential]),
        (
            Channel {
                enabled: false,
                credential: None,
                ..with(channel(9), ChannelTotals { cooldown_until: Some(11), ..ChannelTotals::default() })
            },
            vec![
                Obstacle::Disabled,
                Obstacle::AlreadyTried,
                Obstacle::NoCredential,
                Obstacle::Cooling { until: 11 },
            ],
        ),
    ] {
        let route =
            Route { mapping: vec![(pattern("gpt-4o"), "gpt-4o-2024".to_owned())], ..route(1, "*", vec![]) };
        let query = SelectionQuery {
            tried: &[key(9)],
            may_serve: &|channel| channel.id.get() != 8,
            ..SelectionQuery::new("gpt-4o", &policy, 10)
        };
        let request = RouteRequest::new(&route, false, &query);
        assert_eq!(request.obstacles(&channel).collect::<Vec<_>>(), expected, "{channel:?}");
        assert_eq!(request.obstacle(&channel), expected.first().copied(), "{channel:?}");
        let by_alias = RouteRequest::new(&route, true, &query);
        assert!(
            by_alias.obstacle(&channel) != Some(Obstacle::SourceModel),
            "an alias stands for what its route has"
        );
    }
}

pub(super) fn sick(channel: &Channel, times: usize, model: &str) {
    for _ in 0..times {
        channel.account.site.health.fail(
            model,
            FailureWeight::of(502, &ErrorText::new("Bad Gateway")),
            1_000,
        );
    }
}

#[test]
fn an_ailing_site_gets_the_printed_shares() {
    let (channels, policy) = worked_example();
    // One 5xx for another model changes the site's state alone, as in the example.
    sick(&channels[0], 1, "other");
    let route = route(1, "m", channels);
    let snapshot = snapshot(vec![route]);
    let found = snapshot.lookup("m", &policy).unwrap();
    for (u, id, share) in [(0.0, 11, 16.50), (0.17, 21, 39.80), (0.99, 22, 43.70)] {
        let Selection::Channel { channel, reason, .. } =
            select(&found, &SelectionQuery::new("m", &policy, 1_000), &mut || u)
        else {
            panic!("nothing eligible");
        };
        let SelectionReason::Weighted { priority: 0, candidates: 3, avoided: 0, share: of_one } = reason
        else {
            panic!("{reason:?}");
        };
        assert_eq!((channel.id.get(), (of_one * 10_000.0).round() / 100.0), (id, share));
    }
}

#[test]
fn the_load_of_a_channel_lowers_its_share() {
    let snapshot = snapshot(vec![route(1, "m", vec![channel(1), channel(2)])]);
    let policy = Policy::default();
    let found = snapshot.lookup("m", &policy).unwrap();
    let query = SelectionQuery {
        load: &|channel| if channel.id.get() == 1 { 0.28 } else { 1.0 },
        ..SelectionQuery::new("m", &policy, 0)
    };
    for (u, id) in [(0.21, 1), (0.22, 2)] {
        let selection = select(&found, &query, &mut || u);
        assert!(matches!(selection, Selection::Channel { channel, .. } if channel.id.get() == id), "u = {u}");
    }
}

#[test]
fn the_load_of_a_unit_is_that_of_the_member_whose_turn_it_is() {
    let snapshot = snapshot(vec![route(1, "m", vec![channel(1), unit(2, &[7, 8])])]);
    let policy = Policy::default();
    let found = snapshot.lookup("m", &policy).unwrap();
    let [_, whole] = &found.route.channels[..] else { panic!() };
    let query = SelectionQuery {
        load: &|channel| if channel.account.id.get() == 7 { 0.28 } else { 1.0 },
        ..SelectionQuery::new("m", &policy, 0)
    };
    let selected = |u: f64| match select(&found, &query, &mut || u) {
        Selection::Channel { channel, .. } => channel.key(),
        none => panic!("{none:?}"),
    };
    let member = |id| ChannelOrMember::Member(AccountId::new(id));
    assert_eq!((selected(0.78), selected(0.79)), (key(1), member(7)));
    let _ = whole.unit.members()[0].live.record_selection(5);
    assert_eq!((selected(0.49), selected(0.51)), (key(1), member(8)));
}

#[test]
fn a_member_that_failed_recently_does_not_take_over_from_another() {
    let snapshot = snapshot(vec![route(1, "m", vec![unit(1, &[7, 8])])]);
    let policy = Policy::default();
    let found = snapshot.lookup("m", &policy).unwrap();
    let member = |id| ChannelOrMember::Member(AccountId::new(id));
    let selected = |tried: &[ChannelOrMember]| {
        let query = SelectionQuery { tried, ..SelectionQuery::new("m", &policy, 1_000) };
        match select(&found, &query, &mut || 0.0) {
            Selection::Channel { channel, .. } => Some(channel.key()),
            Selection::NoneEligible { .. } => None,
        }
    };
    assert_eq!((selected(&[]), selected(&[member(7)])), (Some(member(7)), Some(member(8))));
    for one in found.route.channels[0].unit.members() {
        let _ = one.live.record_failure(999, 0);
    }
    assert_eq!(selected(&[]), Some(member(7)), "the first try takes what there is");
    assert_eq!(selected(&[member(7)]), None);
}

#[test]
fn a_bound_channel_goes_before_every_other_while_nothing_speaks_against_it() {
    let bound = |strategy, channel_of: fn(Channel) -> Channel, tried: &[ChannelOrMember]| {
        let channels = vec![channel(1), channel_of(Channel { priority: 9, weight: 0, ..channel(2) })];
        let snapshot = snapshot(vec![Route { strategy, ..route(1, "m", channels) }]);
        let policy = Policy::default();
        let found = snapshot.lookup("m", &policy).unwrap();
        let query = SelectionQuery { tried, ..SelectionQuery::new("m", &policy, 1_000) };
        let selection = select_bound(&found, &query, key(2))?;
        assert!(
            matches!(selection, Selection::Channel { channel, reason: SelectionReason::Bound { .. }, .. } if channel.id.get() == 2)
        );
        assert!(select_bound(&found, &query, key(3)).is_none(), "a channel of another route");
        Some(())
    };
    let cooling = |channel: Channel| {
        let _ = channel.live.record_cooldown(999, 1_001);
        channel
    };
    let behind_breaker = |channel: Channel| {
        sick(&channel, 3, "m");
        channel
    };
    let failed_recently = |channel: Channel| {
        let _ = channel.live.record_failure(999, 0);
        channel
    };
    for strategy in [Strategy::Weighted, Strategy::RoundRobin, Strategy::StableFirst] {
        assert!(bound(strategy, |channel| channel, &[]).is_some(), "{strategy:?}");
        assert!(bound(strategy, |channel| channel, &[key(2)]).is_none(), "tried: {strategy:?}");
        assert!(bound(strategy, |channel| Channel { enabled: false, ..channel }, &[]).is_none());
        assert!(bound(strategy, cooling, &[]).is_none(), "{strategy:?}");
        assert!(bound(strategy, behind_breaker, &[]).is_none(), "{strategy:?}");
        let takes_turns = strategy == Strategy::RoundRobin;
        assert_eq!(bound(strategy, failed_recently, &[]).is_some(), takes_turns, "{strategy:?}");
    }
}

proptest! {
    #[test]
    fn only_eligible_channels_of_the_best_priority_are_selected(
        channels in prop::collection::vec((0i64..3, any::<bool>(), 0i64..2_000, 0i64..30, 0u64..50), 0..12),
        tried in prop::collection::vec(0i64..12, 0..4),
        u in 0.0f64..1.0,
    ) {
        let now = 1_000;
        let built: Vec<_> = channels
            .iter()
            .zip(0..)
            .map(|(&(priority, enabled, until, weight, fail), id)| {
                let totals = ChannelTotals { cooldown_until: Some(until), ..used(fail / 2, fail, 100, 5) };
                Channel { priority, enabled, weight, ..with(channel(id), totals) }
            })
            .collect();
        let may = |channel: &Channel| channel.enabled && !tried.contains(&channel.id.get()) && !channel.live.is_cooling(now);
        let best = built.iter().filter(|channel| may(channel)).map(|channel| channel.priority).min();
        let picked = picked(&route(1, "m", built.clone()), &Policy::default(), &tried, now, u);
        prop_assert_eq!(picked.is_some(), best.is_some());
        if let Some(id) = picked {
            let channel = built.iter().find(|channel| channel.id.get() == id).unwrap();
            prop_assert!(may(channel) && Some(channel.priority) == best);
        }
    }
}
