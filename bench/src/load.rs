//! The closed-loop load generator: a number of connections, each of which sends its next request when the answer to the
//! last one has been read to its end and found right.
//!
//! It runs on the thread that calls it. Only exchanges that end within the measured window count; the CPU time of the
//! watched process is read at both ends of the window.

use std::cell::{Cell, RefCell};
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::task::JoinSet;
use tokio::task::LocalSet;
use tokio::time::{sleep, timeout};

use crate::process;
use crate::wire::{Connection, Expected, Timing};

/// How long the last exchanges may take once the window has closed.
const GRACE: Duration = Duration::from_secs(5);
/// The pause before a failed connection is opened again.
const BACK_OFF: Duration = Duration::from_millis(10);

/// What to send, where, and for how long.
#[derive(Clone)]
pub struct Load {
    pub port: u16,
    pub request: Bytes,
    pub expected: Expected,
    pub connections: usize,
    /// The time over which the connections' first requests are spread, so that timers do not fire together.
    pub spread: Duration,
    pub warm_up: Duration,
    pub window: Duration,
    /// The process whose CPU time is measured, with its children (nginx works in those).
    pub watch: Option<u32>,
}

/// The results of a load.
#[derive(Default)]
pub struct Outcome {
    pub window: Duration,
    /// The durations of whole exchanges, in seconds and ascending order, one for each exchange that counts.
    pub totals: Vec<f64>,
    pub first_bytes: Vec<f64>,
    pub first_deltas: Vec<f64>,
    pub cpu: Option<Duration>,
    pub faults: usize,
    pub first_fault: Option<String>,
}

impl Outcome {
    pub fn completed(&self) -> usize {
        self.totals.len()
    }

    /// Returns the exchanges per second.
    pub fn rate(&self) -> f64 {
        self.completed() as f64 / self.window.as_secs_f64()
    }

    /// Returns the CPU seconds of the watched process per exchange.
    pub fn cpu_each(&self) -> Option<f64> {
        let cpu = self.cpu?;
        (self.completed() > 0).then(|| cpu.as_secs_f64() / self.completed() as f64)
    }
}

/// Returns the value below which the given part of an ascending list lies.
pub fn quantile(ascending: &[f64], part: f64) -> Option<f64> {
    let last = ascending.len().checked_sub(1)?;
    ascending.get((last as f64 * part).round() as usize).copied()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    WarmUp,
    Measured,
    Over,
}

struct Run {
    load: Load,
    phase: Cell<Phase>,
    timings: RefCell<Vec<Timing>>,
    faults: Cell<usize>,
    first_fault: RefCell<Option<String>>,
}

/// Runs the load to its end. Needs a current-thread runtime.
pub async fn run(load: Load) -> Outcome {
    LocalSet::new().run_until(drive(load)).await
}

async fn drive(load: Load) -> Outcome {
    let run = Rc::new(Run {
        load,
        phase: Cell::new(Phase::WarmUp),
        timings: RefCell::default(),
        faults: Cell::default(),
        first_fault: RefCell::default(),
    });
    let mut clients = JoinSet::new();
    for n in 0..run.load.connections {
        let run = Rc::clone(&run);
        let delay = run.load.spread * n as u32 / run.load.connections as u32;
        clients.spawn_local(async move {
            sleep(delay).await;
            run.client().await;
        });
    }

    let cpu = || run.load.watch.map(process::cpu_time);
    sleep(run.load.warm_up).await;
    let (started, cpu_before) = (Instant::now(), cpu());
    run.phase.set(Phase::Measured);
    sleep(run.load.window).await;
    run.phase.set(Phase::Over);
    let (window, cpu_after) = (started.elapsed(), cpu());

    if timeout(GRACE, async { while clients.join_next().await.is_some() {} }).await.is_err() {
        run.fault(format!("{} exchanges were left without an answer", clients.len()));
    }
    drop(clients);
    let timings = run.timings.take();
    let ascending = |pick: fn(&Timing) -> Duration| {
        let mut values: Vec<f64> = timings.iter().map(|timing| pick(timing).as_secs_f64()).collect();
        values.sort_unstable_by(f64::total_cmp);
        values
    };
    Outcome {
        window,
        totals: ascending(|timing| timing.total),
        first_bytes: ascending(|timing| timing.first_byte),
        first_deltas: ascending(|timing| timing.first_delta),
        cpu: cpu_after.zip(cpu_before).map(|(after, before)| after.saturating_sub(before)),
        faults: run.faults.get(),
        first_fault: run.first_fault.take(),
    }
}

impl Run {
    async fn client(&self) {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, self.load.port));
        let mut kept = None;
        while self.phase.get() != Phase::Over {
            let mut connection = match kept.take() {
                Some(connection) => connection,
                None => match Connection::open(address).await {
                    Ok(connection) => connection,
                    Err(failed) => {
                        self.fault(format!("connecting: {failed}"));
                        sleep(BACK_OFF).await;
                        continue;
                    }
                },
            };
            match connection.exchange(&self.load.request, self.load.expected).await {
                Ok(timing) => {
                    if self.phase.get() == Phase::Measured {
                        self.timings.borrow_mut().push(timing);
                    }
                    kept = Some(connection).filter(|_| timing.reusable);
                }
                Err(fault) => {
                    self.fault(fault.to_string());
                    sleep(BACK_OFF).await;
                }
            }
        }
    }

    fn fault(&self, text: String) {
        self.faults.set(self.faults.get() + 1);
        self.first_fault.borrow_mut().get_or_insert(text);
    }
}
