//! The cells of one round, and the results of measuring one.
//!
//! A round measures every cell, and in each cell every target, in an order that rotates by one from round to round. So two
//! targets are never more than a few seconds apart, and none is always first.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::{Instant, sleep_until};

use crate::load::{Load, Outcome, quantile, run};
use crate::payload::{FLUSHED_MODEL, MODEL, PACED_MODEL, bound_chat_request, chat_request, completion};
use crate::process::memory;
use crate::targets::{Kind, Target, Yard};
use crate::wire::request;

/// One thing to measure on each target.
#[derive(Debug)]
pub struct Cell {
    pub id: &'static str,
    pub work: Work,
    pub connections: usize,
    pub kinds: &'static [Kind],
}

/// The gateway and the proxies that it is compared with.
const PLAIN: &[Kind] = &[Kind::Gateway, Kind::BareLazy, Kind::BareRaw, Kind::Nginx];
/// Also the stub with nothing in front.
const AND_DIRECT: &[Kind] = &[Kind::Gateway, Kind::BareLazy, Kind::BareRaw, Kind::Nginx, Kind::Direct];
const AND_MANAGED: &[Kind] =
    &[Kind::Gateway, Kind::BareLazy, Kind::BareRaw, Kind::Nginx, Kind::Managed, Kind::Shared];
const AND_CONVERTED: &[Kind] =
    &[Kind::Gateway, Kind::BareLazy, Kind::BareRaw, Kind::Nginx, Kind::Direct, Kind::Converted];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Requests with a body of this many bytes, answered with 727.
    Requests(usize),
    /// Streams whose chunks are all ready at once.
    Burst,
    /// Streams that send each chunk in a write of its own, without a pause.
    Flushed,
    /// Streams with a chunk every 10 ms.
    Paced,
    /// Paced streams that are all open at once in a fresh process: the memory per stream.
    Open,
    /// The time from the start of the process to its first answer.
    ColdStart,
    /// The memory of a fresh process without requests.
    Idle,
    /// Requests of 1 KB, while a fresh process with many accounts reads their balances; once in a run.
    Keeping,
    /// Figures that cannot be seen from outside; once in a run.
    Inside,
}

pub const CELLS: [Cell; 14] = [
    requests("1k-c1", 1 << 10, 1, AND_DIRECT),
    requests("1k-c16", 1 << 10, 16, AND_MANAGED),
    requests("1k-c64", 1 << 10, 64, AND_MANAGED),
    requests("1k-c256", 1 << 10, 256, PLAIN),
    requests("100k-c16", 100 << 10, 16, PLAIN),
    requests("1m-c16", 1 << 20, 16, PLAIN),
    Cell { id: "burst-c16", work: Work::Burst, connections: 16, kinds: AND_CONVERTED },
    Cell { id: "flushed-c16", work: Work::Flushed, connections: 16, kinds: AND_CONVERTED },
    Cell { id: "paced-c16", work: Work::Paced, connections: 16, kinds: AND_DIRECT },
    Cell { id: "open-c256", work: Work::Open, connections: 256, kinds: &[Kind::Gateway, Kind::Converted] },
    Cell { id: "cold-start", work: Work::ColdStart, connections: 1, kinds: PLAIN },
    Cell { id: "idle", work: Work::Idle, connections: 0, kinds: &[Kind::Gateway] },
    Cell { id: "keeping-c4", work: Work::Keeping, connections: 4, kinds: &[Kind::Gateway] },
    Cell { id: "inside", work: Work::Inside, connections: 0, kinds: &[Kind::Gateway] },
];

const fn requests(id: &'static str, size: usize, connections: usize, kinds: &'static [Kind]) -> Cell {
    Cell { id, work: Work::Requests(size), connections, kinds }
}

/// The pseudo-cell of memory, which is read before the first round and after the last, and of the binaries' sizes.
pub const MEMORY: &str = "memory";

/// When the memory of an idle process is read, in seconds after its start.
pub const IDLE_AT: [u64; 4] = [1, 3, 6, 10];

/// A figure of a cell. Times are in seconds, sizes in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Measure {
    Rate,
    Cpu,
    P50,
    P99,
    FirstByteP50,
    FirstByteP99,
    FirstDeltaP50,
    /// Resident memory this many seconds after the start, without requests.
    Idle(u64),
    /// Resident memory after the first answer.
    FirstAnswer,
    AfterLoad,
    Peak,
    /// The size of the binary on disk.
    Size,
    ColdStart,
    /// The memory per open stream.
    PerStream,
    /// The time of a look-up and selection among ten thousand routes.
    LookupP50,
    LookupP99,
    /// The time of building the routing snapshot from the database.
    Rebuild,
    /// The time of converting a request of 1 MB from one dialect to another.
    Convert,
}

/// All figures, by round.
#[derive(Default)]
pub struct Results {
    values: BTreeMap<(&'static str, Measure, Kind), BTreeMap<usize, f64>>,
    /// The faults, one per line.
    pub faults: Vec<String>,
}

impl Results {
    pub fn put(&mut self, cell: &'static str, measure: Measure, kind: Kind, round: usize, value: f64) {
        self.values.entry((cell, measure, kind)).or_default().insert(round, value);
    }

    /// Returns the figure's value in every round that has one.
    pub fn get(&self, cell: &'static str, measure: Measure, kind: Kind) -> BTreeMap<usize, f64> {
        self.values.get(&(cell, measure, kind)).cloned().unwrap_or_default()
    }

    fn put_outcome(&mut self, cell: &Cell, kind: Kind, round: usize, outcome: &Outcome) {
        if let Some(first) = &outcome.first_fault {
            let count = outcome.faults;
            self.faults.push(format!(
                "round {}, {}, {kind}: {count} faults, the first: {first}",
                round + 1,
                cell.id
            ));
        }
        if outcome.completed() == 0 {
            return;
        }
        let figures = [
            (Measure::Rate, Some(outcome.rate())),
            (Measure::Cpu, outcome.cpu_each()),
            (Measure::P50, quantile(&outcome.totals, 0.5)),
            (Measure::P99, quantile(&outcome.totals, 0.99)),
            (Measure::FirstByteP50, quantile(&outcome.first_bytes, 0.5)),
            (Measure::FirstByteP99, quantile(&outcome.first_bytes, 0.99)),
            (Measure::FirstDeltaP50, quantile(&outcome.first_deltas, 0.5)),
        ];
        for (measure, value) in figures {
            if let Some(value) = value {
                self.put(cell.id, measure, kind, round, value);
            }
        }
    }
}

/// Measures one round.
pub async fn measure_round(
    yard: &Yard,
    targets: &mut [Target],
    cells: &[&Cell],
    window: Duration,
    round: usize,
    results: &mut Results,
) -> io::Result<()> {
    let count = targets.len();
    for cell in cells {
        for turn in 0..count {
            let target = &mut targets[(round + turn) % count];
            let kind = target.kind;
            if !cell.kinds.contains(&kind) {
                continue;
            }
            if cell.work == Work::Inside {
                if round == 0 {
                    look_inside(yard, cell, results)?;
                }
                continue;
            }
            if cell.work == Work::Keeping {
                if round == 0 {
                    keep_accounts(yard, cell, target, window, results).await?;
                }
                continue;
            }
            if cell.work == Work::Open {
                let each = open_streams(yard, cell, kind).await?;
                results.put(cell.id, Measure::PerStream, kind, round, each);
                eprintln!("round {} {:10} {kind:10} {:.1} KB each", round + 1, cell.id, each / 1e3);
                continue;
            }
            if cell.work == Work::Idle {
                stay_idle(yard, cell, kind, round, results).await?;
                continue;
            }
            if cell.work == Work::ColdStart {
                let took = yard.cold_start(kind, round)?;
                results.put(cell.id, Measure::ColdStart, kind, round, took.as_secs_f64());
                eprintln!("round {} {:10} {kind:10} {took:.1?}", round + 1, cell.id);
                continue;
            }
            let outcome = run(load(cell, target, window)).await;
            target.check()?;
            let cpu = outcome.cpu_each().map_or_else(String::new, |cpu| format!(", {:.1} us CPU", cpu * 1e6));
            eprintln!("round {} {:10} {kind:10} {:.0}/s{cpu}", round + 1, cell.id, outcome.rate());
            results.put_outcome(cell, kind, round, &outcome);
        }
    }
    Ok(())
}

/// How long the streams of [`Work::Open`] have been open when memory is read; they last a second.
const OPEN_FOR: Duration = Duration::from_millis(700);

/// Measures the memory per open stream in a fresh process, in bytes.
async fn open_streams(yard: &Yard, cell: &Cell, kind: Kind) -> io::Result<f64> {
    let target = yard.start(kind).await?;
    let resident = || target.memory().map_or(0, |memory| memory.resident);
    let before = resident();
    let opened = run(load(cell, &target, OPEN_FOR));
    let read = async {
        tokio::time::sleep(OPEN_FOR).await;
        resident()
    };
    let (outcome, after) = tokio::join!(opened, read);
    match outcome.first_fault {
        Some(fault) => Err(io::Error::other(format!("{kind}: open streams: {fault}"))),
        None => Ok(after.saturating_sub(before) as f64 / cell.connections as f64),
    }
}

/// Measures the memory that a fresh process keeps without requests.
async fn stay_idle(
    yard: &Yard,
    cell: &Cell,
    kind: Kind,
    round: usize,
    results: &mut Results,
) -> io::Result<()> {
    let started = Instant::now();
    let mut process = yard.launch(kind)?.0;
    for seconds in IDLE_AT {
        sleep_until(started + Duration::from_secs(seconds)).await;
        process.check()?;
        let resident = memory(process.id()).resident as f64;
        eprintln!("round {} {:10} {kind:10} {:.1} MB after {seconds} s", round + 1, cell.id, resident / 1e6);
        results.put(cell.id, Measure::Idle(seconds), kind, round, resident);
    }
    Ok(())
}

/// The number of measurements of each of the two gateways.
const TURNS: usize = 6;
/// The wait after the last account's creation until its background work is over.
const SETTLE: Duration = Duration::from_secs(10);

/// Measures how a pass over a thousand accounts affects clients, and the memory it takes. The plain gateway comes first,
/// because a pass in another process would take its share of the cores, too.
async fn keep_accounts(
    yard: &Yard,
    cell: &Cell,
    plain: &Target,
    window: Duration,
    results: &mut Results,
) -> io::Result<()> {
    take_turns(cell, plain, window, results).await;
    let keeping = yard.start(Kind::Keeping).await?;
    tokio::time::sleep(SETTLE).await;
    take_turns(cell, &keeping, window, results).await;
    let resident = keeping.memory().map_or(0, |memory| memory.resident);
    eprintln!("       {:10} {:10} {:.1} MB", cell.id, keeping.kind, resident as f64 / 1e6);
    results.put(cell.id, Measure::AfterLoad, Kind::Keeping, 0, resident as f64);
    Ok(())
}

async fn take_turns(cell: &Cell, target: &Target, window: Duration, results: &mut Results) {
    for turn in 0..TURNS {
        let outcome = run(load(cell, target, window)).await;
        let p99 = quantile(&outcome.totals, 0.99).unwrap_or_default() * 1e6;
        let rate = outcome.rate();
        eprintln!("turn {} {:10} {:10} {rate:.0}/s, p99 {p99:.0} us", turn + 1, cell.id, target.kind);
        results.put_outcome(cell, target.kind, turn, &outcome);
    }
}

/// Runs `inside`, which prints a figure in seconds per line.
fn look_inside(yard: &Yard, cell: &Cell, results: &mut Results) -> io::Result<()> {
    let printed = yard.run("inside")?;
    for line in printed.lines() {
        let Some((name, value)) = line.split_once(' ') else { continue };
        let measure = match name {
            "lookup-p50" => Measure::LookupP50,
            "lookup-p99" => Measure::LookupP99,
            "rebuild" => Measure::Rebuild,
            "convert" => Measure::Convert,
            _ => continue,
        };
        let value = value.trim().parse().map_err(io::Error::other)?;
        eprintln!("round 1 {:10} {line}", cell.id);
        results.put(cell.id, measure, Kind::Gateway, 0, value);
    }
    Ok(())
}

fn load(cell: &Cell, target: &Target, window: Duration) -> Load {
    let chat = |model, stream, size| chat(target, model, stream, size);
    let plain = Load {
        port: target.port,
        request: chat(MODEL, false, 1 << 10),
        expected: completion(),
        connections: cell.connections,
        spread: Duration::ZERO,
        warm_up: (window / 8).min(Duration::from_millis(300)),
        window,
        watch: target.id(),
    };
    match cell.work {
        Work::Requests(size) => Load { request: chat(MODEL, false, size), ..plain },
        Work::Keeping => plain,
        Work::Burst => Load { request: chat(MODEL, true, 1 << 10), expected: target.stream, ..plain },
        Work::Flushed => {
            Load { request: chat(FLUSHED_MODEL, true, 1 << 10), expected: target.stream, ..plain }
        }
        // A stream takes a good second: the window holds two per connection, one in a quick run.
        Work::Open => Load {
            request: chat(PACED_MODEL, true, 1 << 10),
            expected: target.stream,
            warm_up: Duration::ZERO,
            ..plain
        },
        Work::Paced | Work::ColdStart | Work::Idle | Work::Inside => Load {
            request: chat(PACED_MODEL, true, 1 << 10),
            expected: target.stream,
            spread: Duration::from_millis(107),
            warm_up: Duration::ZERO,
            window: if window < Duration::from_secs(2) {
                Duration::from_millis(1300)
            } else {
                Duration::from_millis(2400)
            },
            ..plain
        },
    }
}

/// Builds a chat completion request to a target, head and body.
fn chat(target: &Target, model: &str, stream: bool, size: usize) -> Bytes {
    let body = match target.kind {
        Kind::Managed => bound_chat_request(model, stream, size),
        _ => chat_request(model, stream, size),
    };
    Bytes::from(request("POST", "/v1/chat/completions", target.key, &body))
}
