//! Which sites are trusted and lead, and how 23 of 24 requests go to these.

use super::*;
use crate::ids::RouteId;
use crate::money::Usd;
use crate::routing::fixture::*;
use crate::routing::rotation::Rotations;
use crate::routing::{
    Account, Channel, ChannelLive, ChannelTotals, Conditions, FailureWeight, Policy, Route, Selection,
    SelectionQuery, SelectionReason, Strategy, select,
};
use crate::time::Millis;

const NOW: Millis = 1_777_622_400_000;

fn used(channel: Channel, success: u64, fail: u64) -> Channel {
    let totals = ChannelTotals { success, fail, ..ChannelTotals::default() };
    Channel { live: Arc::new(ChannelLive::new(channel.id, totals)), ..channel }
}

fn stable(channels: Vec<Channel>) -> Route {
    Route { strategy: Strategy::StableFirst, ..route(1, "m", channels) }
}

/// Records recent outcomes that open no breaker.
fn lately(channel: &Channel, successes: usize, failures: usize) {
    let health = &channel.account.site.health;
    let refused = FailureWeight { penalty: 0.0, transient: false };
    (0..failures).for_each(|_| health.fail("m", refused, NOW));
    (0..successes).for_each(|_| health.succeed("m", 100, NOW));
}

fn standings_of(route: &Route) -> Vec<(i64, f64, bool)> {
    let policy = Policy::default();
    let query = SelectionQuery::new("m", &policy, NOW);
    let request = RouteRequest::new(route, false, &query);
    let candidates: Vec<_> = route.channels.iter().collect();
    let sites = rank_sites(&candidates, &request);
    sites.iter().map(|one| (one.id.get(), (one.effective * 1e4).round() / 1e4, one.trusted)).collect()
}

/// Selects and records selections, as requests do.
fn requests(route: &Route, rotations: &Rotations, count: usize, now: Millis) -> Vec<(i64, Pool)> {
    let snapshot = snapshot(vec![route.clone()]);
    let policy = Policy::default();
    let found = snapshot.lookup("m", &policy).unwrap();
    let query = SelectionQuery { rotations: Some(rotations), ..SelectionQuery::new("m", &policy, now) };
    let one = || {
        let Selection::Channel { channel, reason, .. } =
            select(&found, &query, &mut || unreachable!("no dice"))
        else {
            panic!("nobody is eligible");
        };
        let SelectionReason::StableFirst { pool, .. } = reason else { panic!("{reason:?}") };
        let _ = channel.live.record_selection(now);
        rotations.record(&reason, "m", channel.account.site.id, now);
        (channel.id.get(), pool)
    };
    (0..count).map(|_| one()).collect()
}

fn ids(picked: &[(i64, Pool)]) -> Vec<i64> {
    picked.iter().map(|(id, _)| *id).collect()
}

#[test]
fn what_is_known_of_late_counts_by_how_much_it_is() {
    let channels = vec![channel(1), channel(2), channel(3), used(channel(4), 6, 2), used(channel(5), 7, 0)];
    lately(&channels[0], 1, 3);
    lately(&channels[1], 4, 0);
    lately(&channels[2], 6, 0);
    assert_eq!(
        standings_of(&stable(channels)),
        [
            (1, 0.4444, false),
            (2, 0.6111, false),
            (3, 0.6875, true), // six outcomes are half of those needed for full confidence
            (4, 0.75, true),
            (5, 1.0, false),
        ]
    );
}

#[test]
fn sites_near_the_best_take_turns_in_the_order_of_their_priorities() {
    let good = |id, priority| used(Channel { priority, ..channel(id) }, 100, 0);
    let route = stable(vec![good(1, 9), good(2, 0), used(channel(3), 93, 7), used(channel(4), 50, 50)]);
    let picked = requests(&route, &Rotations::default(), 7, NOW);
    // 0.93² is less than 0.92 of the best score: site 3 is good enough for the pool, but not for a turn.
    assert_eq!(ids(&picked), [2, 1, 2, 1, 2, 1, 2]);
    let close = stable(vec![good(1, 9), good(2, 0), used(channel(3), 97, 3)]);
    assert_eq!(ids(&requests(&close, &Rotations::default(), 4, NOW)), [2, 3, 1, 2]);
}

#[test]
fn of_24_requests_23_go_to_the_primary_pool() {
    let route = stable(vec![used(channel(1), 100, 0), used(channel(2), 50, 50), channel(3)]);
    let rotations = Rotations::default();
    let picked = requests(&route, &rotations, 24 * 3, NOW);
    for (number, (id, pool)) in picked.iter().enumerate() {
        // Site 2 is better at first; then comes 3, the only one not observed yet.
        let (wanted, wanted_pool) = match number {
            23 | 47 => (if number == 23 { 2 } else { 3 }, Pool::Observation),
            _ => (1, Pool::Primary),
        };
        assert_eq!((*id, *pool), (wanted, wanted_pool), "request {number}");
    }
    let later = requests(&route, &rotations, 25, NOW + 30 * 60 * 1000);
    let observed = later.iter().filter(|(_, pool)| *pool == Pool::Observation).count();
    assert_eq!(observed, 2, "both are due again, the first at once, the second after its 23");
    assert_eq!(later[0].1, Pool::Observation);
}

#[test]
fn a_preview_looks_at_the_primary_pool_only() {
    let route = stable(vec![used(channel(1), 100, 0), channel(2)]);
    let rotations = Rotations::default();
    requests(&route, &rotations, 23, NOW);
    let policy = Policy::default();
    let query = SelectionQuery::new("m", &policy, NOW);
    let request = RouteRequest::new(&route, false, &query);
    let list = Shortlist::new(route.channels.iter().collect(), &request);
    let turns = rotations.turns(RouteId::new(1), "m");
    assert_eq!(next_turn(&list, &request, &turns, true).unwrap().pool, Pool::Observation);
    assert_eq!(next_turn(&list, &request, &turns, false).unwrap().pool, Pool::Primary);
}

#[test]
fn among_strangers_all_lead_and_of_one_site_the_least_used_channel() {
    let other_site = |id| channel_of(id, account(id, site(1)));
    let route = stable(vec![other_site(1), other_site(2), channel(3)]);
    // Two channels share their site's score, so each has half of the other site's.
    assert_eq!(ids(&requests(&route, &Rotations::default(), 3, NOW)), [3, 3, 3]);
    let alone = stable(vec![other_site(1), other_site(2)]);
    assert_eq!(ids(&requests(&alone, &Rotations::default(), 4, NOW)), [1, 2, 1, 2]);
}

#[test]
fn health_and_load_lower_a_score_and_weights_do_not_matter() {
    let heavy = Account { balance: Usd::new(1e9), unit_cost: Some(1e-6), ..account(1, site(1)) };
    let channels =
        vec![used(Channel { weight: 1_000, ..channel_of(1, heavy) }, 100, 0), used(channel(2), 100, 0)];
    channels[0].account.site.health.fail("other", FailureWeight { penalty: 1.0, transient: false }, NOW);
    let route = stable(channels);
    assert_eq!(ids(&requests(&route, &Rotations::default(), 2, NOW)), [2, 2]);
    let policy = Policy::default();
    let query = SelectionQuery {
        load: &|channel| if channel.id.get() == 2 { 0.28 } else { 1.0 },
        ..SelectionQuery::new("m", &policy, NOW)
    };
    let request = RouteRequest::new(&route, false, &query);
    assert_eq!(request.conditions(&route.channels[1]), Conditions { health: 1.0, load: 0.28 });
    let list = Shortlist::new(route.channels.iter().collect(), &request);
    let turn = next_turn(&list, &request, &Turns::default(), true).unwrap();
    assert_eq!(turn.leaders.iter().map(|channel| channel.id.get()).collect::<Vec<_>>(), [1]);
}
