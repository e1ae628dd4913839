//! When channels are picked although they cool, are half-open, fail often or have an open breaker.

use super::tests::{picked, sick};
use super::*;
use crate::routing::fixture::*;
use crate::routing::{ChannelTotals, Policy, Route};

#[test]
fn a_cooling_channel_is_not_selected_until_its_time_is_up() {
    let cooling =
        with(channel(1), ChannelTotals { cooldown_until: Some(600_000), ..ChannelTotals::default() });
    let later = with(channel(2), ChannelTotals { cooldown_until: Some(700_000), ..ChannelTotals::default() });
    let off = Channel {
        enabled: false,
        ..with(channel(3), ChannelTotals { cooldown_until: Some(5_000), ..ChannelTotals::default() })
    };
    let route = route(1, "m", vec![later, cooling, off]);
    let snapshot = snapshot(vec![route]);
    let policy = Policy::default();
    let found = snapshot.lookup("m", &policy).unwrap();
    match select(&found, &SelectionQuery::new("m", &policy, 599_999), &mut || 0.0) {
        Selection::NoneEligible { earliest_cooldown, reserve } => {
            assert_eq!((earliest_cooldown, reserve.is_none()), (Some(600_000), true));
        }
        Selection::Channel { channel, .. } => panic!("picked {}", channel.id),
    }
    let selection = select(&found, &SelectionQuery::new("m", &policy, 600_000), &mut || 0.0);
    assert!(matches!(selection, Selection::Channel { channel, .. } if channel.id.get() == 1));
    let tried = SelectionQuery { tried: &[1, 2].map(key), ..SelectionQuery::new("m", &policy, 0) };
    assert!(matches!(
        select(&found, &tried, &mut || 0.0),
        Selection::NoneEligible { earliest_cooldown: None, reserve: None }
    ));
}

/// Makes a channel whose cooldown ends at 600,000 and whose provider refuses until 9,000,000.
fn limited(channel: Channel) -> Channel {
    let totals = ChannelTotals {
        cooldown_until: Some(600_000),
        provider_cooldown_until: Some(9_000_000),
        last_fail: Some(1),
        ..ChannelTotals::default()
    };
    with(channel, totals)
}

#[test]
fn a_half_open_channel_is_tried_now_and_then_and_otherwise_only_when_no_other_can_serve() {
    for strategy in [Strategy::Weighted, Strategy::RoundRobin, Strategy::StableFirst] {
        let behind = Channel { priority: 9, ..limited(channel(3)) };
        let channels = vec![limited(channel(1)), channel(2), behind];
        let snapshot = snapshot(vec![Route { strategy, ..route(1, "m", channels) }]);
        let policy = Policy::default();
        let found = snapshot.lookup("m", &policy).unwrap();
        let pick = |now, tried: &[i64]| {
            let tried: Vec<_> = tried.iter().copied().map(key).collect();
            let query = SelectionQuery { tried: &tried, ..SelectionQuery::new("m", &policy, now) };
            match select(&found, &query, &mut || 0.0) {
                Selection::Channel { channel, reason, .. } => (channel.id.get(), reason.is_trial()),
                Selection::NoneEligible { reserve: Some(pick), .. } => {
                    assert_eq!(pick.reason, SelectionReason::HalfOpen);
                    (pick.channel.id.get(), true)
                }
                Selection::NoneEligible { reserve: None, .. } => (0, false),
            }
        };
        assert_eq!(pick(599_999, &[]), (2, false), "{strategy:?}");
        assert_eq!(pick(600_000, &[]), (1, true), "{strategy:?}: a trial is due");
        assert_eq!(pick(600_000, &[1]), (2, false), "{strategy:?}: no second risk");
        let trial = found.route.channels[0].live.begin_trial(600_000, |_| true);
        let next = if strategy == Strategy::Weighted { (2, false) } else { (3, true) };
        assert_eq!(pick(600_000, &[]), next, "{strategy:?}: one at a time");
        assert_eq!(pick(600_000, &[2]), (3, true), "{strategy:?}: no other can serve");
        drop(trial);
        found.route.channels[2].live.begin_trial(600_000, |_| true);
        assert_eq!(pick(600_001, &[]), (2, false), "{strategy:?}: both were tried");
        assert_eq!(pick(600_001, &[2]), (1, true), "{strategy:?}");
        assert_eq!(pick(600_001, &[2, 1, 3]), (0, false), "{strategy:?}");
        assert_eq!(pick(9_000_000, &[2, 3]), (1, false), "{strategy:?}: the limit is over");
    }
}

#[test]
fn a_hint_of_thirty_days_never_keeps_a_lone_channel_from_being_tried_ten_minutes_later() {
    const TEN_MINUTES: Millis = 600_000;
    const THIRTY_DAYS: Millis = 30 * 86_400_000;
    let totals = ChannelTotals {
        cooldown_until: Some(TEN_MINUTES),
        provider_cooldown_until: Some(THIRTY_DAYS),
        last_fail: Some(1),
        ..ChannelTotals::default()
    };
    let snapshot = snapshot(vec![route(1, "m", vec![with(channel(1), totals)])]);
    let policy = Policy::default();
    let found = snapshot.lookup("m", &policy).unwrap();
    let live = &found.route.channels[0].live;
    let is_tried = |now| {
        let query = SelectionQuery { last_resort: None, ..SelectionQuery::new("m", &policy, now) };
        match select(&found, &query, &mut || 0.0) {
            Selection::NoneEligible { reserve, .. } => reserve.is_some(),
            Selection::Channel { .. } => true,
        }
    };
    let mut now = 0;
    while now < THIRTY_DAYS {
        assert!(!is_tried(now + TEN_MINUTES - 1), "{now}");
        now += TEN_MINUTES;
        assert!(is_tried(now), "{now}");
        // The provider refuses it again, with the hint.
        drop(live.begin_trial(now, |_| true));
        let _ = live.record_failure(now, now + TEN_MINUTES);
        let _ = live.record_limit(THIRTY_DAYS);
    }
}

#[test]
fn of_channels_that_all_cool_the_one_that_has_cooled_longest_is_the_last_resort() {
    let cooling = |id, since| {
        let totals = ChannelTotals {
            cooldown_until: Some(since + 600_000),
            last_fail: Some(since),
            ..ChannelTotals::default()
        };
        with(channel(id), totals)
    };
    let channels = vec![cooling(1, 2_000), cooling(2, 1_000), Channel { enabled: false, ..cooling(3, 500) }];
    let snapshot = snapshot(vec![route(1, "m", channels)]);
    let policy = Policy::default();
    let found = snapshot.lookup("m", &policy).unwrap();
    let pick = |now, last_resort| {
        let query = SelectionQuery { last_resort, ..SelectionQuery::new("m", &policy, now) };
        match select(&found, &query, &mut || 0.0) {
            Selection::NoneEligible { reserve, .. } => {
                reserve.map(|pick| (pick.channel.id.get(), pick.reason))
            }
            Selection::Channel { channel, .. } => panic!("picked {}", channel.id),
        }
    };
    assert_eq!(pick(30_999, Some(30_000)), None, "it was asked not long ago");
    assert_eq!(pick(31_000, Some(30_000)), Some((2, SelectionReason::LastResort)));
    assert_eq!(pick(31_000, None), None, "never, where the operator says so");
    let trial = found.route.channels[1].live.begin_trial(31_000, |_| true);
    assert_eq!(pick(32_000, Some(30_000)), None, "one at a time, and not the next one");
    drop(trial);
    let _ = found.route.channels[1].live.record_failure(33_000, 633_000);
    assert_eq!(pick(33_000, Some(30_000)), Some((1, SelectionReason::LastResort)));
}

#[test]
fn a_channel_behind_an_open_breaker_is_avoided_while_others_remain() {
    for strategy in [Strategy::Weighted, Strategy::RoundRobin, Strategy::StableFirst] {
        let channels = vec![channel(1), channel(2), Channel { priority: 1, ..channel(3) }];
        sick(&channels[0], 3, "m");
        let route = Route { strategy, ..route(1, "m", channels) };
        let policy = Policy::default();
        assert_eq!(picked(&route, &policy, &[], 1_000, 0.0), Some(2), "{strategy:?}");
        assert_eq!(picked(&route, &policy, &[2, 3], 1_000, 0.0), Some(1), "alone it serves: {strategy:?}");
        if strategy != Strategy::StableFirst {
            assert_eq!(picked(&route, &policy, &[3], 61_000, 0.0), Some(1), "after a minute: {strategy:?}");
        }
    }
}

#[test]
fn a_breaker_never_empties_a_priority() {
    let channels = vec![channel(1), channel(2), Channel { priority: 1, ..channel(3) }];
    sick(&channels[0], 3, "m");
    sick(&channels[1], 3, "m");
    let route = route(1, "m", channels);
    assert_eq!(picked(&route, &Policy::default(), &[], 1_000, 0.0), Some(1));
    assert_eq!(
        picked(&route, &Policy::default(), &[1], 1_000, 0.99),
        Some(2),
        "a layer of one is not filtered"
    );
}

#[test]
fn a_breaker_of_one_model_keeps_only_that_model_back() {
    let one = channel(1);
    for _ in 0..3 {
        sick(&one, 1, "bad");
        one.account.site.health.succeed("good", 100, 1_000);
    }
    let route = route(1, "*", vec![one, channel(2)]);
    let snapshot = snapshot(vec![route]);
    let policy = Policy::default();
    for (model, id) in [("vendor/BAD", 2), ("good", 1)] {
        let found = snapshot.lookup(model, &policy).unwrap();
        let selection = select(&found, &SelectionQuery::new(model, &policy, 1_000), &mut || 0.0);
        assert!(matches!(selection, Selection::Channel { channel, .. } if channel.id.get() == id), "{model}");
    }
}

#[test]
fn a_channel_that_failed_recently_is_avoided_after_its_cooldown() {
    let failed = |id, times, at| {
        let totals =
            ChannelTotals { consecutive_fail: times, last_fail: Some(at), ..ChannelTotals::default() };
        with(channel(id), totals)
    };
    let policy = Policy::default();
    for (times, ago, expected) in [(10, 800_000, 2), (10, 826_000, 1), (1, 14_000, 2), (1, 16_000, 1)] {
        let route = route(1, "m", vec![failed(1, times, 1_000), channel(2)]);
        assert_eq!(picked(&route, &policy, &[], 1_000 + ago, 0.0), Some(expected), "{times} {ago}");
    }
    let all = route(1, "m", vec![failed(1, 10, 1_000), failed(2, 10, 1_000)]);
    assert_eq!(picked(&all, &policy, &[], 2_000, 0.0), Some(1));
    let turns =
        Route { strategy: Strategy::RoundRobin, ..route(1, "m", vec![failed(1, 10, 1_000), channel(2)]) };
    assert_eq!(picked(&turns, &policy, &[], 2_000, 0.0), Some(1), "turns go round all the same");
}
