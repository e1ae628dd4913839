//! These tests run on tokio's paused clock: time passes only where a test waits for it.

use std::time::Duration;

use proptest::prelude::*;
use tokio::task::JoinHandle;
use tokio::time::advance;

use super::super::load::Load;
use super::*;
use crate::ids::SiteId;

const SITE: SiteId = SiteId::new(7);

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

const RULES: LeaseRules =
    LeaseRules { queue_limit: 1, queue_wait: ms(1_500), ttl: ms(90_000), keepalive: ms(15_000) };

fn leases(limit: u32, queue_limit: usize) -> Arc<SiteLeases> {
    let leases = SiteLeases::new(LeaseRules { queue_limit, ..RULES });
    set_limit(&leases, Some(limit));
    Arc::new(leases)
}

fn set_limit(leases: &SiteLeases, limit: Option<u32>) {
    leases.set_limits([(SITE, limit)].into_iter());
}

type Waiting = JoinHandle<Result<Lease, SlotRefused>>;

/// Starts a request that arrives now; returns it once it waits or has its answer.
async fn arrive(leases: &Arc<SiteLeases>) -> Waiting {
    let leases = leases.clone();
    let waiting = tokio::spawn(async move { leases.lease(SITE).await });
    settle().await;
    waiting
}

/// Lets every task run that can.
async fn settle() {
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
}

async fn after(millis: u64) {
    advance(ms(millis)).await;
    settle().await;
}

/// Returns the lease of a request that must have been admitted by now.
async fn admitted(waiting: Waiting) -> Lease {
    assert!(waiting.is_finished(), "it still waits");
    waiting.await.unwrap().expect("admitted")
}

async fn refused(waiting: Waiting) -> SlotRefused {
    assert!(waiting.is_finished(), "it still waits");
    waiting.await.unwrap().expect_err("refused")
}

fn held(leases: &SiteLeases) -> usize {
    leases.gates.load()[&SITE].occupancy().active
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_refuses_at_once_and_a_wait_ends_in_its_time() {
    let leases = leases(1, 1);
    let a = admitted(arrive(&leases).await).await; // t=0: A runs
    after(100).await;
    let b = arrive(&leases).await; // t=100: B waits
    assert!(!b.is_finished());
    after(100).await;
    let c = arrive(&leases).await; // t=200: C is refused
    assert_eq!(refused(c).await, SlotRefused::QueueFull);
    after(700).await;
    drop(a); // t=900: A ends, B runs
    settle().await;
    let _b = admitted(b).await;
    after(100).await;
    let d = arrive(&leases).await; // t=1000: D waits
    after(1_499).await;
    assert!(!d.is_finished());
    after(1).await; // t=2500: D is refused
    assert_eq!(refused(d).await, SlotRefused::WaitTimeout);
    assert_eq!(leases.gates.load()[&SITE].occupancy().waiting, 0);
    assert_eq!(leases.rules().retry_after_secs(), 2);
}

#[tokio::test(start_paused = true)]
async fn who_waits_longest_is_served_first() {
    let leases = leases(1, 10);
    let mut running = admitted(arrive(&leases).await).await;
    let mut queue = Vec::new();
    for _ in 0..5 {
        queue.push(arrive(&leases).await);
    }
    assert!(leases.try_lease(SITE).is_none(), "a newcomer does not overtake");
    for waiting in queue {
        assert!(!waiting.is_finished());
        drop(running);
        settle().await;
        running = admitted(waiting).await;
        assert!(leases.try_lease(SITE).is_none());
    }
    drop(running);
    assert!(leases.has_free_slot(SITE));
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_where_no_queue_is() {
    for rules in [LeaseRules { queue_limit: 0, ..RULES }, LeaseRules { queue_wait: ms(0), ..RULES }] {
        let leases = Arc::new(SiteLeases::new(rules));
        set_limit(&leases, Some(1));
        let _a = admitted(arrive(&leases).await).await;
        assert_eq!(refused(arrive(&leases).await).await, SlotRefused::QueueFull);
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_hangs_up_leaves_the_queue() {
    let leases = leases(1, 1);
    let a = admitted(arrive(&leases).await).await;
    let gone = arrive(&leases).await;
    gone.abort();
    settle().await;
    let next = arrive(&leases).await;
    assert!(!next.is_finished(), "the place in the queue is free again");
    drop(a);
    settle().await;
    drop(admitted(next).await);
    assert_eq!(held(&leases), 0);
}

#[tokio::test(start_paused = true)]
async fn a_raised_limit_admits_at_once_and_a_lowered_one_waits_for_those_who_run() {
    let leases = leases(1, 100);
    let mut running = vec![admitted(arrive(&leases).await).await];
    let mut queue = Vec::new();
    for _ in 0..12 {
        queue.push(arrive(&leases).await);
    }
    set_limit(&leases, Some(10));
    settle().await;
    for waiting in queue.drain(..9) {
        running.push(admitted(waiting).await);
    }
    assert!(queue.iter().all(|waiting| !waiting.is_finished()), "ten run, three wait");

    set_limit(&leases, Some(1));
    for left in (1..10).rev() {
        running.pop();
        settle().await;
        assert_eq!(held(&leases), left);
        assert!(queue.iter().all(|waiting| !waiting.is_finished()), "{left} still run");
    }
    running.pop();
    settle().await;
    assert_eq!(held(&leases), 1);
    let first = queue.remove(0);
    drop(admitted(first).await);
}

#[tokio::test(start_paused = true)]
async fn no_limit_frees_everybody_who_waits() {
    for none in [Some(0), None] {
        let leases = leases(1, 100);
        let a = admitted(arrive(&leases).await).await;
        let mut queue = Vec::new();
        for _ in 0..20 {
            queue.push(arrive(&leases).await);
        }
        set_limit(&leases, none);
        settle().await;
        let mut free = Vec::new();
        for waiting in queue {
            free.push(admitted(waiting).await);
        }
        assert!(leases.has_free_slot(SITE));
        // The lease that was given before is still known when the site is limited again.
        set_limit(&leases, Some(1));
        assert!(!leases.has_free_slot(SITE), "A still runs");
        drop(free);
        assert!(!leases.has_free_slot(SITE), "those without a slot had none to give back");
        drop(a);
        assert!(leases.has_free_slot(SITE));
    }
}

#[tokio::test(start_paused = true)]
async fn a_site_that_is_gone_is_forgotten_once_nobody_runs_there() {
    let leases = leases(1, 1);
    let a = leases.try_lease(SITE).unwrap();
    leases.set_limits(std::iter::empty());
    assert_eq!(leases.gates.load().len(), 1);
    drop(a);
    leases.set_limits(std::iter::empty());
    assert!(leases.gates.load().is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_expired_lease_frees_its_slot_once() {
    let leases = leases(1, 10);
    let a = admitted(arrive(&leases).await).await;
    after(89_000).await;
    let b = arrive(&leases).await;
    assert!(!b.is_finished());
    after(1_000).await;
    let b = admitted(b).await;
    let c = arrive(&leases).await;
    drop(a);
    settle().await;
    assert!(!c.is_finished(), "A's slot was given to B already");
    drop(b);
    settle().await;
    drop(admitted(c).await);
    assert_eq!(held(&leases), 0);
}

#[tokio::test(start_paused = true)]
async fn the_lease_of_a_stream_lives_as_long_as_the_stream() {
    let leases = leases(1, 10);
    let mut a = admitted(arrive(&leases).await).await;
    a.keep_alive();
    for _ in 0..100 {
        after(15_000).await;
        assert!(!leases.has_free_slot(SITE));
    }
    drop(a);
    assert!(leases.has_free_slot(SITE));
}

#[test]
fn a_refused_client_may_come_again_after_the_wait() {
    for (wait, seconds) in [(0, 1), (1, 1), (1_000, 1), (1_001, 2), (1_500, 2), (600_000, 600)] {
        let rules = LeaseRules { queue_wait: ms(wait), ..RULES };
        assert_eq!(rules.retry_after_secs(), seconds, "{wait} ms");
    }
}

/// What may happen at a gate.
#[derive(Clone, Copy, Debug)]
enum Step {
    Arrive,
    /// A request ends, its client or its upstream dies: its lease is dropped.
    End(usize),
    /// A client that waits, or was admitted and does not know yet, hangs up.
    HangUp(usize),
    Stream(usize),
    Limit(u32),
    Pass(u64),
    /// Lets tasks run; without it, several things happen at one instant.
    Run,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => Just(Step::Arrive),
        4 => any::<usize>().prop_map(Step::End),
        2 => any::<usize>().prop_map(Step::HangUp),
        1 => any::<usize>().prop_map(Step::Stream),
        1 => (0u32..4).prop_map(Step::Limit),
        2 => prop_oneof![1u64..2_000, 80_000u64..100_000].prop_map(Step::Pass),
        6 => Just(Step::Run),
    ]
}

fn pick<T>(from: &mut Vec<T>, at: usize) -> Option<T> {
    (!from.is_empty()).then(|| from.swap_remove(at % from.len()))
}

async fn play(steps: Vec<Step>) {
    let leases = leases(2, 3);
    let (mut waiting, mut running) = (Vec::<Waiting>::new(), Vec::<Lease>::new());
    let mut limit = 2;
    let mut most = 2;
    for step in steps {
        match step {
            Step::Arrive => {
                let leases = leases.clone();
                waiting.push(tokio::spawn(async move { leases.lease(SITE).await }));
            }
            Step::End(at) => drop(pick(&mut running, at)),
            Step::HangUp(at) => {
                if let Some(waiting) = pick(&mut waiting, at) {
                    waiting.abort();
                }
            }
            Step::Stream(at) => {
                if let Some(mut lease) = pick(&mut running, at) {
                    lease.keep_alive();
                    running.push(lease);
                }
            }
            Step::Limit(to) => {
                limit = to as usize;
                set_limit(&leases, Some(to));
            }
            Step::Pass(millis) => advance(ms(millis)).await,
            Step::Run => settle().await,
        }
        for index in (0..waiting.len()).rev() {
            if waiting[index].is_finished()
                && let Ok(Ok(lease)) = waiting.swap_remove(index).await
            {
                running.push(lease);
            }
        }
        let Some(gate) = leases.gates.load().get(&SITE).cloned() else { continue };
        let Load { active, waiting: live, .. } = gate.occupancy();
        // Never more than the limit, except those admitted under a higher one.
        most = if limit == 0 { active } else { limit.max(most.min(active)) };
        assert!(active <= most, "{active} run of {limit}");
        assert!(!gate.has_free_slot() || live == 0, "{live} wait although there is room");
    }
    for waiting in &waiting {
        waiting.abort();
    }
    running.clear();
    settle().await;
    set_limit(&leases, Some(2));
    assert_eq!(held(&leases), 0, "every slot came back");
    let all: Vec<_> = (0..3).map(|_| leases.try_lease(SITE)).collect();
    assert_eq!(all.iter().flatten().count(), 2, "and none came back twice");
}

proptest! {
    #[test]
    fn every_slot_is_freed_exactly_once(steps in prop::collection::vec(step(), 1..120)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        runtime.unwrap().block_on(play(steps));
    }
}
