//! The cells of one round, and what measuring one yields.
//!
//! A round measures every cell, and in each cell every target, in an order that turns by one from round to
//! round. Two targets are so never further apart than a few seconds, and none is always first.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use bytes::Bytes;

use crate::load::{Load, Outcome, quantile, run};
use crate::payload::{
    COMPLETION, FLUSHED_MODEL, MODEL, PACED_MODEL, STREAM_BODY, chat_request, first_delta_end,
};
use crate::targets::{Kind, Target, Yard};
use crate::wire::{Expected, request};

/// One thing to measure of every target.
#[derive(Debug)]
pub struct Cell {
    pub id: &'static str,
    pub work: Work,
    pub connections: usize,
    /// Whether the stub is measured without anything before it, too.
    pub direct: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Requests with a body of so many bytes, answered with 727.
    Requests(usize),
    /// Streams whose chunks are all ready at once.
    Burst,
    /// Streams whose chunks come in a write each, without a pause.
    Flushed,
    /// Streams with a chunk every 10 ms.
    Paced,
    /// From the start of the process to its first answer.
    ColdStart,
}

pub const CELLS: [Cell; 10] = [
    requests("1k-c1", 1 << 10, 1, true),
    requests("1k-c16", 1 << 10, 16, false),
    requests("1k-c64", 1 << 10, 64, false),
    requests("1k-c256", 1 << 10, 256, false),
    requests("100k-c16", 100 << 10, 16, false),
    requests("1m-c16", 1 << 20, 16, false),
    Cell { id: "burst-c16", work: Work::Burst, connections: 16, direct: true },
    Cell { id: "flushed-c16", work: Work::Flushed, connections: 16, direct: true },
    Cell { id: "paced-c16", work: Work::Paced, connections: 16, direct: true },
    Cell { id: "cold-start", work: Work::ColdStart, connections: 1, direct: false },
];

const fn requests(id: &'static str, size: usize, connections: usize, direct: bool) -> Cell {
    Cell { id, work: Work::Requests(size), connections, direct }
}

/// The pseudo cell of memory, which is read before the first round and after the last.
pub const MEMORY: &str = "memory";

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
    Idle,
    AfterLoad,
    Peak,
    ColdStart,
}

/// Everything measured, by round.
#[derive(Default)]
pub struct Results {
    values: BTreeMap<(&'static str, Measure, Kind), BTreeMap<usize, f64>>,
    /// What went wrong, a line each.
    pub faults: Vec<String>,
}

impl Results {
    pub fn put(&mut self, cell: &'static str, measure: Measure, kind: Kind, round: usize, value: f64) {
        self.values.entry((cell, measure, kind)).or_default().insert(round, value);
    }

    /// The figure's value in every round in which it could be had.
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
            if kind == Kind::Direct && !cell.direct {
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

fn load(cell: &Cell, target: &Target, window: Duration) -> Load {
    let plain = Load {
        port: target.port,
        request: chat(target.key, MODEL, false, 1 << 10),
        expected: completion(),
        connections: cell.connections,
        spread: Duration::ZERO,
        warm_up: (window / 8).min(Duration::from_millis(300)),
        window,
        watch: target.id(),
    };
    match cell.work {
        Work::Requests(size) => Load { request: chat(target.key, MODEL, false, size), ..plain },
        Work::Burst => Load { request: chat(target.key, MODEL, true, 1 << 10), expected: stream(), ..plain },
        Work::Flushed => {
            Load { request: chat(target.key, FLUSHED_MODEL, true, 1 << 10), expected: stream(), ..plain }
        }
        // A stream takes a good second: the window holds two of each connection, one in a quick run.
        Work::Paced | Work::ColdStart => Load {
            request: chat(target.key, PACED_MODEL, true, 1 << 10),
            expected: stream(),
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

/// A chat completion request, head and body.
pub fn chat(key: &str, model: &str, stream: bool, size: usize) -> Bytes {
    Bytes::from(request("POST", "/v1/chat/completions", key, &chat_request(model, stream, size)))
}

/// What comes back without streaming.
pub fn completion() -> Expected {
    Expected { body: &COMPLETION, first_delta: COMPLETION.len() }
}

/// What comes back as a stream.
pub fn stream() -> Expected {
    Expected { body: &STREAM_BODY, first_delta: first_delta_end() }
}
