use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use tokio::sync::Notify;
use tokio::time::advance;

use super::*;

const MINUTE: Duration = Duration::from_secs(60);

fn job(when: When, run: impl Fn() -> Pass + Send + Sync + 'static) -> Job {
    let run = Arc::new(run);
    Job {
        name: "test",
        when,
        run: Box::new(move |_| {
            let run = run.clone();
            Box::pin(async move { run() })
        }),
    }
}

/// Noon of 1 May 2026 in Shanghai when a test begins; then it goes with tokio's clock.
const NOON: Millis = 1_777_608_000_000;

fn clock() -> (Clock, watch::Sender<()>) {
    let (change, changed) = watch::channel(());
    let start = Instant::now();
    let clock = Clock {
        now: Arc::new(move || NOON + millis(start.elapsed())),
        zone: TimeZone::get("Asia/Shanghai").expect("a zone"),
        jitter: Duration::ZERO,
        changed,
    };
    (clock, change)
}

/// Lets the loops do what is due.
async fn settle() {
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_job_runs_when_it_says() {
    let counts = [(); 3].map(|()| Arc::new(AtomicUsize::new(0)));
    let whens = [When::AtStart, When::Every(MINUTE), When::AtStartAndEvery(MINUTE)];
    let jobs = counts.iter().zip(whens).map(|(count, when)| {
        let count = count.clone();
        job(when, move || {
            count.fetch_add(1, SeqCst);
            Ok(None)
        })
    });
    let scheduler = Scheduler::start(jobs.collect(), &clock().0);
    let seen = || counts.each_ref().map(|count| count.load(SeqCst));
    advance(Duration::from_millis(1)).await;
    settle().await;
    assert_eq!(seen(), [1, 0, 1]);
    advance(MINUTE).await;
    settle().await;
    assert_eq!(seen(), [1, 1, 2]);
    scheduler.stop(Instant::now()).await;
    advance(MINUTE * 5).await;
    settle().await;
    assert_eq!(seen(), [1, 1, 2]);
}

#[tokio::test(start_paused = true)]
async fn a_pass_that_fails_or_panics_does_not_end_the_job() {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = count.clone();
    let scheduler = Scheduler::start(
        vec![job(When::AtStartAndEvery(MINUTE), move || match counted.fetch_add(1, SeqCst) {
            0 => panic!("first"),
            1 => Err("second".to_owned()),
            _ => Ok(Some("third".to_owned())),
        })],
        &clock().0,
    );
    for _ in 0..3 {
        advance(MINUTE + Duration::from_millis(1)).await;
        settle().await;
    }
    assert_eq!(count.load(SeqCst), 3);
    scheduler.stop(Instant::now()).await;
}

#[tokio::test(start_paused = true)]
async fn the_stop_waits_for_a_pass_until_the_deadline() {
    const SECOND: Duration = Duration::from_secs(1);
    for (takes, waits) in [(SECOND, SECOND), (MINUTE, 10 * SECOND)] {
        let (started, ended) = (Arc::new(Notify::new()), Arc::new(AtomicUsize::new(0)));
        let (tell, count) = (started.clone(), ended.clone());
        let run = move |_| {
            let count = count.clone();
            tell.notify_one();
            Box::pin(async move {
                sleep(takes).await;
                count.fetch_add(1, SeqCst);
                Ok(None)
            }) as PassFuture
        };
        let when = When::AtStartAndEvery(Duration::ZERO);
        let scheduler = Scheduler::start(vec![Job { name: "slow", when, run: Box::new(run) }], &clock().0);
        started.notified().await;
        let began = Instant::now();
        scheduler.stop(began + 10 * SECOND).await;
        assert_eq!((began.elapsed(), ended.load(SeqCst)), (waits, usize::from(takes < MINUTE)));
    }
}

#[tokio::test(start_paused = true)]
async fn a_signalled_job_runs_at_each_signal_and_its_wait_does_not_hold_up_the_stop() {
    let (signal, count) = (Arc::new(Notify::new()), Arc::new(AtomicUsize::new(0)));
    let (awaited, counted) = (signal.clone(), count.clone());
    let when = When::Signalled(Box::new(move || {
        let awaited = awaited.clone();
        Box::pin(async move { awaited.notified().await })
    }));
    let run = move || {
        counted.fetch_add(1, SeqCst);
        Ok(None)
    };
    let scheduler = Scheduler::start(vec![job(when, run)], &clock().0);
    for passes in 1..3 {
        signal.notify_one();
        settle().await;
        assert_eq!(count.load(SeqCst), passes);
    }
    let began = Instant::now();
    scheduler.stop(began + MINUTE).await;
    assert_eq!((began.elapsed(), count.load(SeqCst)), (Duration::ZERO, 2));
}

fn cron(text: &str) -> Cron {
    Cron::parse(text).expect("a schedule")
}

/// A job whose plan the test changes, with the times for which it ran.
struct Planned {
    plan: Arc<Mutex<Plan>>,
    ran: Arc<Mutex<Vec<Option<Millis>>>>,
    change: watch::Sender<()>,
    _scheduler: Scheduler,
}

impl Planned {
    fn start(plan: Plan, takes: Duration) -> Self {
        let (plan, ran) = (Arc::new(Mutex::new(plan)), Arc::<Mutex<Vec<_>>>::default());
        let (read, noted) = (plan.clone(), ran.clone());
        let job = Job {
            name: "planned",
            when: When::Planned(Box::new(move || read.lock().expect("no panic").clone())),
            run: Box::new(move |scheduled| {
                noted.lock().expect("no panic").push(scheduled);
                Box::pin(async move {
                    sleep(takes).await;
                    Ok(None)
                })
            }),
        };
        let (clock, change) = clock();
        Self { plan, ran, change, _scheduler: Scheduler::start(vec![job], &clock) }
    }

    fn set(&self, plan: Plan) {
        *self.plan.lock().expect("no panic") = plan;
        self.change.send_replace(());
    }

    /// Returns the scheduled times that the job ran for, in seconds after noon.
    fn ran_for(&self) -> Vec<i64> {
        let ran = self.ran.lock().expect("no panic");
        ran.iter().map(|at| (at.expect("a scheduled pass") - NOON) / 1000).collect()
    }

    fn passes(&self) -> usize {
        self.ran.lock().expect("no panic").len()
    }
}

/// Lets time pass in steps so small that no timer is jumped over.
async fn pass_time(duration: Duration) {
    settle().await;
    let mut left = duration;
    while !left.is_zero() {
        let step = left.min(Duration::from_secs(1));
        advance(step).await;
        settle().await;
        left -= step;
    }
}

#[tokio::test(start_paused = true)]
async fn a_scheduled_job_runs_at_its_times() {
    let planned = Planned::start(Plan::At(cron("*/5 * * * *")), Duration::ZERO);
    pass_time(MINUTE * 16).await;
    assert_eq!(planned.ran_for(), [300, 600, 900]);
}

#[tokio::test(start_paused = true)]
async fn a_changed_plan_holds_at_once() {
    let planned = Planned::start(Plan::At(cron("0 18 * * *")), Duration::ZERO);
    pass_time(MINUTE).await;
    planned.set(Plan::At(cron("2 * * * *")));
    pass_time(MINUTE * 2).await;
    assert_eq!(planned.ran_for(), [120]);
    planned.set(Plan::Never);
    pass_time(MINUTE * 120).await;
    assert_eq!(planned.passes(), 1);
    planned.set(Plan::Every(MINUTE));
    pass_time(MINUTE * 2 + Duration::from_secs(1)).await;
    assert_eq!(planned.passes(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_change_that_is_none_moves_no_pass() {
    let planned = Planned::start(Plan::Every(MINUTE), Duration::ZERO);
    for _ in 0..4 {
        pass_time(MINUTE / 2).await;
        planned.set(Plan::Every(MINUTE));
    }
    pass_time(Duration::from_secs(1)).await;
    assert_eq!(planned.passes(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_pass_under_way_survives_a_change_and_what_it_missed_is_not_made_up_for() {
    let planned = Planned::start(Plan::At(cron("* * * * *")), MINUTE * 5 / 2);
    pass_time(MINUTE + Duration::from_secs(30)).await;
    assert_eq!(planned.ran_for(), [60]);
    planned.set(Plan::At(cron("*/10 * * * *")));
    // The pass of 12:01 ends at 12:03:30; the one of 12:02 is left out.
    pass_time(MINUTE * 9).await;
    assert_eq!(planned.ran_for(), [60, 600]);
}

#[tokio::test(start_paused = true)]
async fn jobs_that_ask_many_sites_begin_a_little_later() {
    let (clock, _change) = clock();
    let clock = Clock { jitter: Duration::from_secs(30), ..clock };
    let shifts = |text: &str| -> Vec<Millis> {
        let shift = |_| match clock.due(&Plan::About(cron(text)), clock.read()) {
            Due::On { at, scheduled } => at - scheduled,
            other => panic!("{other:?}"),
        };
        (0..200).map(shift).collect()
    };
    let daily = shifts("0 8 * * *");
    assert!(daily.iter().all(|shift| (0..=30_000).contains(shift)), "{daily:?}");
    assert!(daily.iter().any(|shift| *shift > 3_000) && daily.iter().any(|shift| *shift < 27_000));
    // A tenth of the steps at most: every second means every second.
    assert!(shifts("* * * * * *").iter().all(|shift| (0..=100).contains(shift)));
    assert!(shifts("* * * * *").iter().all(|shift| (0..=6_000).contains(shift)));
}

#[tokio::test(start_paused = true)]
async fn a_time_of_day_that_was_set_is_noticed() {
    let shift = Arc::new(AtomicI64::new(0));
    let (read, (clock, _change)) = (shift.clone(), clock());
    let now = clock.now.clone();
    let clock = Clock { now: Arc::new(move || now() + read.load(SeqCst)), ..clock };
    let due = clock.due(&Plan::At(cron("0 18 * * *")), clock.read());
    let waiting = tokio::spawn(async move { reach(&clock.now, due, NOON).await });
    pass_time(MINUTE).await;
    assert!(!waiting.is_finished());
    shift.store(6 * 3_600_000, SeqCst);
    pass_time(MINUTE).await;
    assert!(waiting.is_finished());
}

#[tokio::test(start_paused = true)]
async fn a_time_of_day_that_was_ahead_and_is_put_right_holds_up_no_pass() {
    let ahead = Arc::new(AtomicI64::new(365 * 24 * 3_600_000));
    let (read, (clock, _change)) = (ahead.clone(), clock());
    let now = clock.now.clone();
    let clock = Clock { now: Arc::new(move || now() + read.load(SeqCst)), ..clock };
    let passes = Arc::new(AtomicUsize::new(0));
    let counted = passes.clone();
    let when = When::Planned(Box::new(|| Plan::At(cron("*/5 * * * *"))));
    let run = move || {
        counted.fetch_add(1, SeqCst);
        Ok(None)
    };
    let _scheduler = Scheduler::start(vec![job(when, run)], &clock);
    pass_time(MINUTE).await;
    ahead.store(0, SeqCst);
    pass_time(MINUTE * 5).await;
    assert_eq!(passes.load(SeqCst), 1);
}
