use super::*;
use crate::ids::ChannelId;
use crate::money::Usd;

#[test]
fn a_channel_is_available_again_exactly_when_its_cooldown_ends() {
    let live = ChannelLive::new(ChannelId::new(1), ChannelTotals::default());
    assert!(!live.is_cooling(0));
    let _ = live.record_failure(1_000, 601_000);
    assert!(live.is_cooling(600_999));
    assert!(!live.is_cooling(601_000));
    assert_eq!(live.cooldown_until(), Some(601_000));
}

#[test]
fn a_clock_that_is_set_back_does_not_lengthen_a_cooldown() {
    let live = ChannelLive::new(ChannelId::new(1), ChannelTotals::default());
    let _ = live.record_failure(100_000_000, 100_600_000);
    assert!(live.is_cooling(100_000_000 - SET_BACK), "by a little it may step");
    assert!(!live.is_cooling(50_000_000));
    let _ = live.record_failure(50_000_000, 50_600_000);
    assert!(live.is_cooling(50_599_999) && !live.is_cooling(50_600_000));
}

#[test]
fn behind_its_cooldown_a_limited_channel_is_half_open() {
    let live = ChannelLive::new(ChannelId::new(1), ChannelTotals::default());
    let _ = live.record_failure(1_000, 601_000);
    let _ = live.record_limit(3_601_000);
    assert_eq!(live.cooldown_phase(600_999), Some(CooldownPhase::Cooling { until: 601_000 }));
    assert_eq!(live.cooldown_phase(601_000), Some(CooldownPhase::HalfOpen { until: 3_601_000 }));
    assert_eq!((live.cooldown_phase(3_601_000), live.limited_until()), (None, Some(3_601_000)));
    let _ = live.record_failure(601_000, 1_201_000);
    assert_eq!(
        live.cooldown_phase(1_200_999),
        Some(CooldownPhase::Cooling { until: 1_201_000 }),
        "ten new minutes"
    );
    assert!(live.is_half_open(1_201_000));
    let _ = live.record_success(1_201_000, 1, Usd::from_nano(0));
    assert_eq!((live.cooldown_phase(1_201_001), live.limited_until()), (None, None));
}

#[test]
fn one_request_is_tried_at_a_time() {
    let live = Arc::new(ChannelLive::new(ChannelId::new(1), ChannelTotals::default()));
    let _ = live.record_failure(1_000, 601_000);
    let _ = live.record_limit(9_000_000);
    assert!(live.begin_trial(600_000, |live| live.is_half_open(600_000)).is_none() && !live.is_on_trial());
    assert!(live.is_due_for_trial(601_000), "from the end of the cooldown on");
    let trial = live.begin_trial(601_000, |live| live.is_half_open(601_000));
    assert!(trial.is_some() && live.begin_trial(601_000, |_| true).is_none());
    drop(trial);
    assert!(!live.is_on_trial() && live.begin_trial(601_000, |_| true).is_some());
    assert!(
        !live.is_due_for_trial(601_000 + TRIAL_EVERY - 1) && live.is_due_for_trial(601_000 + TRIAL_EVERY)
    );
}

#[test]
fn a_last_resort_waits_since_the_channel_was_asked() {
    let live = Arc::new(ChannelLive::new(ChannelId::new(1), ChannelTotals::default()));
    let _ = live.record_failure(100_000, 700_000);
    let may = |now| live.may_be_last_resort(now, 30_000);
    assert!(!may(129_999) && may(130_000) && may(699_999) && !may(700_000));
    drop(live.begin_trial(130_000, |_| true));
    assert!(!may(159_999) && may(160_000));
    let sibling = ChannelLive::new(ChannelId::new(2), ChannelTotals::default());
    let _ = sibling.record_cooldown(100_000, 700_000);
    assert!(!sibling.may_be_last_resort(129_999, 30_000) && sibling.may_be_last_resort(130_000, 30_000));
}

#[test]
fn a_success_elsewhere_ends_what_the_provider_said_but_no_failure_of_its_own() {
    let spread = ChannelLive::new(ChannelId::new(1), ChannelTotals::default());
    let failed = ChannelLive::new(ChannelId::new(2), ChannelTotals::default());
    let _ = failed.record_failure(1_000, 601_000);
    for live in [&spread, &failed] {
        let _ = live.record_cooldown(1_000, 601_000);
        let _ = live.record_limit(9_000_000);
        assert!(live.is_limited());
        live.take_delta();
        assert!(!live.end_limit(999, 2_000).0, "the request began before the refusal");
        assert!(live.end_limit(1_000, 2_000).0 && !live.end_limit(1_000, 2_000).0);
    }
    assert_eq!(spread.cooldown_phase(2_000), None);
    assert_eq!(failed.cooldown_phase(2_000), Some(CooldownPhase::Cooling { until: 601_000 }));
    assert_eq!(failed.cooldown_phase(601_000), None);
}

#[test]
fn a_success_ends_no_rest_that_began_after_its_request() {
    let live = ChannelLive::new(ChannelId::new(1), ChannelTotals::default());
    let _ = live.record_failure(5_000, 605_000);
    let _ = live.record_limit(9_000_000);
    // A request of 4,000 that was answered at 8,000.
    let _ = live.record_success(8_000, 4_000, Usd::ZERO);
    assert_eq!(live.cooldown_phase(8_000), Some(CooldownPhase::Cooling { until: 605_000 }));
    assert!(live.is_limited());
    let _ = live.record_success(8_000, 3_000, Usd::ZERO);
    assert_eq!((live.cooldown_phase(8_000), live.is_limited()), (None, false));
}

#[test]
fn a_shorter_cooldown_does_not_cut_a_longer_one() {
    let live = ChannelLive::new(ChannelId::new(1), ChannelTotals::default());
    let _ = live.record_failure(1_000, 9_000_000);
    let _ = live.record_failure(2_000, 602_000);
    assert_eq!(live.cooldown_until(), Some(9_000_000));
}

#[test]
fn a_success_ends_the_cooldown_but_keeps_the_lifetime_failures() {
    let live = ChannelLive::new(ChannelId::new(1), ChannelTotals::default());
    let _ = live.record_failure(1_000, 601_000);
    let _ = live.record_success(2_000, 120, Usd::from_nano(5));
    let totals = live.totals();
    assert_eq!((totals.success, totals.fail, totals.latency_ms, totals.cost_nano), (1, 1, 120, 5));
    assert_eq!((totals.consecutive_fail, totals.last_fail, totals.cooldown_until), (0, None, None));
    assert_eq!(totals.last_used, Some(2_000));
}

#[test]
fn a_cost_that_was_booked_too_high_is_taken_back() {
    let live =
        ChannelLive::new(ChannelId::new(7), ChannelTotals { cost_nano: 10, ..ChannelTotals::default() });
    let _ = live.record_success(1_000, 100, Usd::from_nano(5));
    live.take_delta();
    assert!(live.record_cost(Usd::from_nano(-3)).0);
    assert_eq!((live.totals().cost_nano, live.take_delta().cost_nano), (12, -3));
    let _ = live.record_cost(Usd::from_nano(-20));
    assert_eq!(live.totals().cost_nano, 0);
}

#[test]
fn only_the_first_change_of_a_round_hands_over_to_the_writer() {
    let live = ChannelLive::new(ChannelId::new(7), ChannelTotals { success: 10, ..ChannelTotals::default() });
    assert!(live.record_selection(1_000).0);
    assert!(!live.record_success(1_100, 100, Usd::from_nano(3)).0);
    let delta = live.take_delta();
    assert_eq!(delta.of, CountersOf::Channel(ChannelId::new(7)));
    assert_eq!((delta.success, delta.latency_ms, delta.cost_nano), (1, 100, 3));
    assert_eq!(live.totals().success, 11);
    assert!(live.record_success(1_200, 50, Usd::from_nano(1)).0);
    assert_eq!(live.take_delta().success, 1);
}

#[test]
fn clearing_a_cooldown_also_forgets_unsaved_failures() {
    let live = ChannelLive::new(ChannelId::new(7), ChannelTotals { fail: 3, ..ChannelTotals::default() });
    let _ = live.record_failure(1_000, 601_000);
    live.clear_cooldown();
    assert_eq!(live.totals(), ChannelTotals::default());
    assert_eq!(live.take_delta().fail, 0);
}
