//! An explanation agrees with the selection that it explains.

use super::*;
use crate::ids::{RouteId, SiteId};
use crate::money::Usd;
use crate::routing::fixture::*;
use crate::routing::{
    Account, ChannelTotals, FailureWeight, Policy, Rotations, Route, Selection, Site, Weights, select,
};

const NOW: i64 = 1_777_622_400_000;

/// Returns the share of each channel, in percent with two decimals.
fn percents(explanation: &Explanation<'_>) -> Vec<f64> {
    explanation.assessments.iter().map(|one| (one.share * 10_000.0).round() / 100.0).collect()
}

fn picked(explanation: &Explanation<'_>) -> Option<i64> {
    explanation.picked.map(|line| explanation.assessments[line].channel.id.get())
}

fn explained<T>(route: Route, query: SelectionQuery<'_>, look: impl FnOnce(Explanation<'_>) -> T) -> T {
    let snapshot = snapshot(vec![route]);
    let found = snapshot.lookup_on(RouteId::new(1), query.model).unwrap();
    look(explain(&found, &query))
}

#[test]
fn the_worked_example_is_explained_with_its_printed_shares() {
    let heavy = || Site { global_weight: 3.0, ..site(2) };
    let totals = ChannelTotals {
        success: 10,
        latency_ms: 12_000,
        cost_nano: 2_000_000_000,
        ..ChannelTotals::default()
    };
    let channels = vec![
        with(channel_of(11, account(1, site(1))), totals),
        channel_of(21, Account { unit_cost: Some(0.5), balance: Usd::new(2.0), ..account(2, heavy()) }),
        Channel { weight: 20, ..channel_of(22, account(3, heavy())) },
        Channel { priority: 1, ..channel(30) },
        Channel { enabled: false, ..channel(31) },
    ];
    let policy = Policy { site_weight_multipliers: [(SiteId::new(2), 0.5)].into(), ..Policy::default() };
    let health = channels[0].account.site.health.clone();
    let route = route(1, "m", channels);
    explained(route.clone(), SelectionQuery::new("m", &policy, NOW), |explanation| {
        assert_eq!(percents(&explanation), [40.89, 28.18, 30.93, 0.0, 0.0]);
        assert_eq!(picked(&explanation), Some(11), "the most probable");
        assert!(matches!(explanation.assessments[3].stage, SelectionStage::LaterPriority));
        assert!(matches!(explanation.assessments[4].stage, SelectionStage::NotEligible));
        assert_eq!(explanation.assessments[4].obstacles, [Obstacle::Disabled]);
    });
    health.fail("other", FailureWeight { penalty: 2.5, transient: false }, NOW);
    explained(route, SelectionQuery::new("m", &policy, NOW), |explanation| {
        assert_eq!(percents(&explanation)[..3], [16.50, 39.80, 43.70]);
        let SelectionStage::Weighed { health, score } = explanation.assessments[0].stage else { panic!() };
        assert_eq!(health, HealthParts { site: 1.0 / 3.5, model: 1.0 });
        assert_eq!(score.conditions.health, 1.0 / 3.5);
        assert_eq!(picked(&explanation), Some(22));
    });
}

#[test]
fn avoided_channels_are_named() {
    let failed = ChannelTotals { consecutive_fail: 10, last_fail: Some(NOW), ..ChannelTotals::default() };
    let channels = || vec![channel(1), with(channel(2), failed), channel(3)];
    let policy = Policy::default();
    let opened = |channels: Vec<Channel>| {
        for _ in 0..3 {
            channels[0].account.site.health.fail("m", FailureWeight { penalty: 2.5, transient: true }, NOW);
        }
        channels
    };
    explained(route(1, "m", opened(channels())), SelectionQuery::new("m", &policy, NOW), |explanation| {
        assert_eq!(percents(&explanation), [0.0, 0.0, 100.0]);
        let [one, two, _] = &explanation.assessments[..] else { panic!() };
        assert!(matches!(one.stage, SelectionStage::BehindBreaker) && !one.failed_recently);
        assert!(matches!(two.stage, SelectionStage::FailedRecently) && two.failed_recently);
    });
    let turns = Route { strategy: Strategy::RoundRobin, ..route(1, "m", opened(channels())) };
    explained(turns, SelectionQuery::new("m", &policy, NOW), |explanation| {
        assert_eq!(percents(&explanation), [0.0, 100.0, 0.0]);
        assert!(matches!(explanation.assessments[0].stage, SelectionStage::BehindBreaker));
        assert!(!explanation.assessments[1].failed_recently, "turns go round all the same");
    });
}

#[test]
fn stable_first_shows_who_takes_turns_and_who_is_next() {
    let used =
        |id, success, fail| with(channel(id), ChannelTotals { success, fail, ..ChannelTotals::default() });
    let channels = vec![used(1, 100, 0), used(2, 100, 0), used(3, 50, 50), channel(4)];
    let route = Route { strategy: Strategy::StableFirst, ..route(1, "m", channels) };
    let policy = Policy::default();
    let rotations = Rotations::default();
    for expected in [1, 2, 1] {
        let query = SelectionQuery { rotations: Some(&rotations), ..SelectionQuery::new("m", &policy, NOW) };
        explained(route.clone(), query, |explanation| {
            assert_eq!(percents(&explanation), [50.0, 50.0, 0.0, 0.0]);
            assert_eq!(picked(&explanation), Some(expected));
            let pools: Vec<_> = explanation
                .assessments
                .iter()
                .filter_map(|one| match one.stage {
                    SelectionStage::Stable { pool, .. } => Some(pool),
                    _ => None,
                })
                .collect();
            assert_eq!(pools, [Pool::Primary, Pool::Primary, Pool::Observation, Pool::Observation]);
        });
        let snapshot = snapshot(vec![route.clone()]);
        let found = snapshot.lookup("m", &policy).unwrap();
        let Selection::Channel { channel, reason, .. } = select(&found, &query, &mut || 0.0) else {
            panic!()
        };
        assert_eq!(channel.id.get(), expected, "an explanation and a selection agree");
        rotations.record(&reason, "m", channel.account.site.id, NOW);
    }
}

#[test]
fn a_whole_route_is_explained_whatever_its_channels_serve() {
    let serving = |id, model| Channel { source_model: Some(pattern(model)), ..channel(id) };
    let snapshot = snapshot(vec![
        route(1, "gpt-*", vec![serving(1, "gpt-a"), serving(2, "gpt-b")]),
        Route { enabled: false, ..route(2, "x", vec![channel(3)]) },
        group(3, "team", &[4]),
        route(4, "y", vec![channel(5)]),
    ]);
    let policy = Policy::default();
    let query = SelectionQuery::new("gpt-*", &policy, NOW);
    let whole = snapshot.whole_route(RouteId::new(1)).unwrap();
    let explanation = explain(&whole, &query);
    assert_eq!((percents(&explanation), explanation.upstream_model), (vec![50.0, 50.0], "gpt-a"));
    assert!(
        snapshot.whole_route(RouteId::new(2)).is_none() && snapshot.lookup_on(RouteId::new(2), "x").is_none()
    );
    assert!(snapshot.lookup_on(RouteId::new(1), "claude").is_none());
    assert!(snapshot.lookup_on(RouteId::new(1), "gpt-z").is_some_and(|found| !found.by_display_name));
    assert!(snapshot.lookup_on(RouteId::new(3), "team").is_some_and(|found| found.by_display_name));
    assert!(snapshot.lookup_on(RouteId::new(3), "y").is_none());
    let query = SelectionQuery::new("gpt-b", &policy, NOW);
    let explanation = explain(&snapshot.lookup_on(RouteId::new(1), "gpt-b").unwrap(), &query);
    assert_eq!(explanation.assessments[0].obstacles, [Obstacle::SourceModel]);
    assert_eq!(percents(&explanation), [0.0, 100.0]);
    let nobody = Weights { base_weight_factor: 0.0, value_score_factor: 0.0, ..Weights::default() };
    let found = Match { weights: &nobody, ..snapshot.whole_route(RouteId::new(1)).unwrap() };
    assert_eq!(
        percents(&explain(&found, &query)),
        [50.0, 50.0],
        "where nobody has a share all have the same"
    );
}
