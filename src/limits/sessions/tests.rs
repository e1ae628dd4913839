//! These tests run on tokio's paused clock, like those of the gates.

use std::time::Duration;

use proptest::prelude::*;
use tokio::task::JoinHandle;
use tokio::time::advance;

use super::*;
use crate::ids::{ChannelId, ChannelOrMember};

const fn key(channel: i64) -> ChannelOrMember {
    ChannelOrMember::Channel(ChannelId::new(channel))
}

const CHANNEL: ChannelOrMember = key(7);

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

const RULES: SessionRules = SessionRules {
    limit: 2,
    lease: LeaseRules {
        queue_limit: usize::MAX,
        queue_wait: ms(1_500),
        ttl: ms(90_000),
        keepalive: ms(15_000),
    },
};

type Waiting = JoinHandle<Result<Lease, SlotRefused>>;

fn arrive(leases: &Arc<SessionLeases>, rules: SessionRules) -> Waiting {
    let leases = leases.clone();
    tokio::spawn(async move { leases.lease(CHANNEL, &rules).await })
}

async fn settle() {
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
}

async fn after(millis: u64) {
    settle().await;
    advance(ms(millis)).await;
    settle().await;
}

#[tokio::test(start_paused = true)]
async fn two_work_and_the_third_waits_its_time() {
    let leases = Arc::new(SessionLeases::default());
    let mut running = Vec::new();
    for _ in 0..2 {
        running.push(leases.lease(CHANNEL, &RULES).await.expect("a slot is free"));
    }
    let (third, fourth) = (arrive(&leases, RULES), arrive(&leases, RULES));
    settle().await;
    assert_eq!(leases.load(CHANNEL, 2), Load { active: 2, waiting: 2, limit: 2 });
    after(1_000).await;
    running.pop();
    settle().await;
    assert!(third.is_finished() && !fourth.is_finished(), "first come, first served");
    running.push(third.await.unwrap().expect("its turn"));
    after(499).await;
    assert!(!fourth.is_finished());
    after(1).await;
    assert_eq!(fourth.await.unwrap().expect_err("it waited 1500 ms"), SlotRefused::WaitTimeout);
    drop(running);
    assert_eq!(leases.load(CHANNEL, 2), Load { active: 0, waiting: 0, limit: 2 });
}

#[tokio::test(start_paused = true)]
async fn a_lease_is_renewed_for_as_long_as_it_is_held() {
    let leases = SessionLeases::default();
    let lease = leases.lease(CHANNEL, &RULES).await.unwrap();
    for _ in 0..20 {
        after(15_000).await;
        assert_eq!(leases.load(CHANNEL, 2).active, 1);
    }
    drop(lease);
    assert_eq!(leases.load(CHANNEL, 2).active, 0);
}

#[tokio::test(start_paused = true)]
async fn a_changed_limit_counts_from_the_next_request_on() {
    let leases = Arc::new(SessionLeases::default());
    let one = SessionRules { limit: 1, ..RULES };
    let _first = leases.lease(CHANNEL, &one).await.unwrap();
    let waiting = arrive(&leases, one);
    settle().await;
    assert!(!waiting.is_finished());
    let _third = leases.lease(CHANNEL, &SessionRules { limit: 3, ..RULES }).await.unwrap();
    settle().await;
    assert!(waiting.is_finished(), "it is admitted before the newcomer");
    let off = SessionRules { limit: 0, ..RULES };
    for _ in 0..9 {
        leases.lease(CHANNEL, &off).await.unwrap();
    }
    assert_eq!(leases.load(CHANNEL, 0).limit, 0);
}

#[tokio::test(start_paused = true)]
async fn idle_gates_are_dropped_once_there_are_many() {
    let leases = SessionLeases::default();
    let held = leases.lease(key(0), &RULES).await.unwrap();
    for channel in 1..1_000 {
        drop(leases.lease(key(channel), &RULES).await.unwrap());
        // The task that renewed the lease lets go of the gate.
        tokio::task::yield_now().await;
    }
    assert!(leases.gates().len() <= KEPT_GATES);
    assert_eq!(leases.load(key(0), 2).active, 1, "not the one that is in use");
    drop(held);
}

/// What may happen on a channel.
#[derive(Clone, Copy, Debug)]
enum Step {
    Arrive,
    End(usize),
    HangUp(usize),
    Pass(u64),
    Run,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => Just(Step::Arrive),
        4 => any::<usize>().prop_map(Step::End),
        2 => any::<usize>().prop_map(Step::HangUp),
        2 => prop_oneof![1u64..2_000, 10_000u64..70_000].prop_map(Step::Pass),
        6 => Just(Step::Run),
    ]
}

async fn play(steps: Vec<Step>) {
    let leases = Arc::new(SessionLeases::default());
    let (mut waiting, mut running) = (Vec::<Waiting>::new(), Vec::<Lease>::new());
    for step in steps {
        match step {
            Step::Arrive => waiting.push(arrive(&leases, RULES)),
            Step::End(at) if !running.is_empty() => drop(running.swap_remove(at % running.len())),
            Step::HangUp(at) if !waiting.is_empty() => waiting.swap_remove(at % waiting.len()).abort(),
            Step::Pass(millis) => after(millis).await,
            Step::Run => settle().await,
            Step::End(_) | Step::HangUp(_) => {}
        }
        for at in (0..waiting.len()).rev() {
            if waiting[at].is_finished()
                && let Ok(Ok(lease)) = waiting.swap_remove(at).await
            {
                running.push(lease);
            }
        }
        let load = leases.load(CHANNEL, RULES.limit);
        assert!(running.len() <= load.active, "a lease in a hand is a lease in force");
        assert!(load.active <= RULES.limit, "{load:?}");
        assert!(load.active == RULES.limit || load.waiting == 0, "{load:?}");
    }
    for waiting in &waiting {
        waiting.abort();
    }
    running.clear();
    settle().await;
    let load = leases.load(CHANNEL, RULES.limit);
    assert_eq!((load.active, load.waiting), (0, 0), "every lease came back, and none twice");
}

proptest! {
    #[test]
    fn every_lease_is_given_back_exactly_once(steps in prop::collection::vec(step(), 1..120)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        runtime.unwrap().block_on(play(steps));
    }
}
