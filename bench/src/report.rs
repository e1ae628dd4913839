//! Writes medians, ratios and targets as a page of Markdown.
//!
//! A ratio is the median of the ratios of single rounds, not the ratio of two medians: whatever slows a round down slows
//! both sides of it. The explanations under missed figures of the last page are carried over, and so is its final section,
//! so that they outlive a new run.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::plan::{MEMORY, Measure, Results};
use crate::targets::Kind;

/// A line of the table.
struct Figure {
    title: &'static str,
    cell: &'static str,
    measure: Measure,
    /// Whether the figure of the stub alone in the same round is subtracted.
    added: bool,
}

const fn figure(title: &'static str, cell: &'static str, measure: Measure) -> Figure {
    Figure { title, cell, measure, added: false }
}

const fn added(title: &'static str, cell: &'static str, measure: Measure) -> Figure {
    Figure { title, cell, measure, added: true }
}

const FIGURES: [Figure; 46] = [
    figure("1 KB, 1 connection: requests/s", "1k-c1", Measure::Rate),
    figure("1 KB, 1 connection: CPU per request", "1k-c1", Measure::Cpu),
    figure("1 KB, 1 connection: p50", "1k-c1", Measure::P50),
    figure("1 KB, 1 connection: p99", "1k-c1", Measure::P99),
    added("1 KB, 1 connection: added p50", "1k-c1", Measure::P50),
    added("1 KB, 1 connection: added p99", "1k-c1", Measure::P99),
    figure("1 KB, 16 connections: requests/s", "1k-c16", Measure::Rate),
    figure("1 KB, 16 connections: CPU per request", "1k-c16", Measure::Cpu),
    figure("1 KB, 16 connections: p50", "1k-c16", Measure::P50),
    figure("1 KB, 16 connections: p99", "1k-c16", Measure::P99),
    figure("1 KB, 64 connections: requests/s", "1k-c64", Measure::Rate),
    figure("1 KB, 64 connections: CPU per request", "1k-c64", Measure::Cpu),
    figure("1 KB, 64 connections: p50", "1k-c64", Measure::P50),
    figure("1 KB, 64 connections: p99", "1k-c64", Measure::P99),
    figure("1 KB, 256 connections: requests/s", "1k-c256", Measure::Rate),
    figure("1 KB, 256 connections: CPU per request", "1k-c256", Measure::Cpu),
    figure("1 KB, 256 connections: p50", "1k-c256", Measure::P50),
    figure("1 KB, 256 connections: p99", "1k-c256", Measure::P99),
    figure("100 KB, 16 connections: requests/s", "100k-c16", Measure::Rate),
    figure("100 KB, 16 connections: CPU per request", "100k-c16", Measure::Cpu),
    figure("100 KB, 16 connections: p50", "100k-c16", Measure::P50),
    figure("100 KB, 16 connections: p99", "100k-c16", Measure::P99),
    figure("1 MB, 16 connections: requests/s", "1m-c16", Measure::Rate),
    figure("1 MB, 16 connections: CPU per request", "1m-c16", Measure::Cpu),
    figure("1 MB, 16 connections: p50", "1m-c16", Measure::P50),
    figure("1 MB, 16 connections: p99", "1m-c16", Measure::P99),
    figure("burst streams, 16 in parallel: streams/s", "burst-c16", Measure::Rate),
    figure("burst streams, 16 in parallel: CPU per stream", "burst-c16", Measure::Cpu),
    figure("burst streams, 16 in parallel: first byte p50", "burst-c16", Measure::FirstByteP50),
    figure("burst streams, 16 in parallel: first byte p99", "burst-c16", Measure::FirstByteP99),
    figure("burst streams, 16 in parallel: whole p50", "burst-c16", Measure::P50),
    figure("flushed streams, 16 in parallel: streams/s", "flushed-c16", Measure::Rate),
    figure("flushed streams, 16 in parallel: CPU per stream", "flushed-c16", Measure::Cpu),
    figure("flushed streams, 16 in parallel: first byte p50", "flushed-c16", Measure::FirstByteP50),
    figure("flushed streams, 16 in parallel: first byte p99", "flushed-c16", Measure::FirstByteP99),
    figure("flushed streams, 16 in parallel: whole p50", "flushed-c16", Measure::P50),
    figure("paced streams, 16 in parallel: CPU per stream", "paced-c16", Measure::Cpu),
    figure("paced streams, 16 in parallel: first byte p50", "paced-c16", Measure::FirstByteP50),
    figure("paced streams, 16 in parallel: first delta p50", "paced-c16", Measure::FirstDeltaP50),
    added("paced streams, 16 in parallel: first byte behind direct", "paced-c16", Measure::FirstByteP50),
    added("paced streams, 16 in parallel: first delta behind direct", "paced-c16", Measure::FirstDeltaP50),
    figure("size of the binary", MEMORY, Measure::Size),
    figure("resident after the first answer", MEMORY, Measure::FirstAnswer),
    figure("resident after load", MEMORY, Measure::AfterLoad),
    figure("resident at most", MEMORY, Measure::Peak),
    figure("cold start to the first answer", "cold-start", Measure::ColdStart),
];

/// A figure of the gateway, or of a variant that is measured beside the plain one.
struct Beside {
    kind: Kind,
    figure: Figure,
}

const fn beside(kind: Kind, title: &'static str, cell: &'static str, measure: Measure) -> Beside {
    Beside { kind, figure: figure(title, cell, measure) }
}

const BESIDE: [Beside; 21] = [
    beside(Kind::Managed, MANAGED_16, "1k-c16", Measure::Rate),
    beside(
        Kind::Managed,
        "managed key, limits, affinity, 16 connections: CPU per request",
        "1k-c16",
        Measure::Cpu,
    ),
    beside(Kind::Managed, MANAGED_64, "1k-c64", Measure::Rate),
    beside(
        Kind::Managed,
        "managed key, limits, affinity, 64 connections: CPU per request",
        "1k-c64",
        Measure::Cpu,
    ),
    beside(Kind::Shared, SHARED_16, "1k-c16", Measure::Rate),
    beside(Kind::Shared, SHARED_CPU_16, "1k-c16", Measure::Cpu),
    beside(Kind::Shared, SHARED_64, "1k-c64", Measure::Rate),
    beside(Kind::Shared, SHARED_CPU_64, "1k-c64", Measure::Cpu),
    beside(Kind::Converted, CONVERTED_BURST, "burst-c16", Measure::Rate),
    beside(Kind::Converted, "converted streams, burst: CPU per stream", "burst-c16", Measure::Cpu),
    beside(Kind::Converted, CONVERTED_FLUSHED, "flushed-c16", Measure::Rate),
    beside(Kind::Converted, "converted streams, flushed: CPU per stream", "flushed-c16", Measure::Cpu),
    beside(Kind::Gateway, "memory per open stream", "open-c256", Measure::PerStream),
    beside(Kind::Converted, CONVERTED_OPEN, "open-c256", Measure::PerStream),
    beside(Kind::Keeping, KEEPING_P99, "keeping-c4", Measure::P99),
    beside(Kind::Keeping, "while 1,000 balances are read: p50 at 4 connections", "keeping-c4", Measure::P50),
    beside(Kind::Keeping, KEEPING_MEMORY, "keeping-c4", Measure::AfterLoad),
    beside(Kind::Gateway, LOOKUP, "inside", Measure::LookupP50),
    beside(Kind::Gateway, "the same, p99", "inside", Measure::LookupP99),
    beside(Kind::Gateway, REBUILD, "inside", Measure::Rebuild),
    beside(Kind::Gateway, CONVERT, "inside", Measure::Convert),
];

const MANAGED_16: &str = "managed key, limits, affinity: requests/s at 16 connections";
const MANAGED_64: &str = "managed key, limits, affinity: requests/s at 64 connections";
const SHARED_16: &str = "state on a server: requests/s at 16 connections";
const SHARED_CPU_16: &str = "state on a server: CPU per request at 16 connections";
const SHARED_64: &str = "state on a server: requests/s at 64 connections";
const SHARED_CPU_64: &str = "state on a server: CPU per request at 64 connections";
const CONVERTED_BURST: &str = "converted streams/s, burst";
const CONVERTED_FLUSHED: &str = "converted streams/s, flushed";
const CONVERTED_OPEN: &str = "memory per open converted stream";
const KEEPING_P99: &str = "while 1,000 balances are read: p99 at 4 connections";
const KEEPING_MEMORY: &str = "while 1,000 balances are read: resident";
const LOOKUP: &str = "look-up and selection among 10,000 routes with 50,000 channels, p50";
const REBUILD: &str = "snapshot of 10,000 routes with 50,000 channels";
const CONVERT: &str = "a request of 1 MB from chat to messages";

/// A target for the gateway or a variant.
struct Promise {
    kind: Kind,
    figure: Figure,
    limit: Limit,
}

#[derive(Clone, Copy)]
enum Limit {
    /// At least this multiple of the baseline's figure.
    AtLeast(f64, Kind),
    /// At most this multiple of the baseline's figure.
    AtMost(f64, Kind),
    /// At most this, in seconds or bytes.
    Within(f64),
}

/// The stricter meaning of "MB".
const MB: f64 = 1e6;

const PROMISES: [Promise; 35] = [
    promise("requests/s at 16 connections", "1k-c16", Measure::Rate, Limit::AtLeast(0.9, Kind::BareLazy)),
    promise("requests/s at 64 connections", "1k-c64", Measure::Rate, Limit::AtLeast(0.9, Kind::BareLazy)),
    promise("CPU per request at 1 connection", "1k-c1", Measure::Cpu, Limit::AtMost(1.25, Kind::BareLazy)),
    promise("CPU per request at 16 connections", "1k-c16", Measure::Cpu, Limit::AtMost(1.15, Kind::BareLazy)),
    promise("CPU per request at 64 connections", "1k-c64", Measure::Cpu, Limit::AtMost(1.15, Kind::BareLazy)),
    promise(
        "CPU per request at 256 connections",
        "1k-c256",
        Measure::Cpu,
        Limit::AtMost(1.25, Kind::BareLazy),
    ),
    promise("CPU per request with 100 KB", "100k-c16", Measure::Cpu, Limit::AtMost(1.1, Kind::BareLazy)),
    Promise {
        kind: Kind::Gateway,
        figure: added("added p50 at 1 connection", "1k-c1", Measure::P50),
        limit: Limit::AtMost(1.3, Kind::BareLazy),
    },
    promise("streams/s, burst", "burst-c16", Measure::Rate, Limit::AtLeast(1.0, Kind::BareRaw)),
    promise("CPU per stream, burst", "burst-c16", Measure::Cpu, Limit::AtMost(0.2, Kind::BareLazy)),
    promise("streams/s, flushed", "flushed-c16", Measure::Rate, Limit::AtLeast(1.0, Kind::BareRaw)),
    promise("CPU per stream, flushed", "flushed-c16", Measure::Cpu, Limit::AtMost(0.85, Kind::BareLazy)),
    Promise {
        kind: Kind::Gateway,
        figure: added("first delta of a paced stream behind direct", "paced-c16", Measure::FirstDeltaP50),
        limit: Limit::Within(1e-3),
    },
    promise("size of the binary", MEMORY, Measure::Size, Limit::Within(9.5 * MB)),
    promise("resident when idle, 1 s after the start", "idle", Measure::Idle(1), Limit::Within(9.0 * MB)),
    promise("resident when idle, 3 s after the start", "idle", Measure::Idle(3), Limit::Within(9.0 * MB)),
    promise("resident when idle, 6 s after the start", "idle", Measure::Idle(6), Limit::Within(9.0 * MB)),
    promise("resident when idle, 10 s after the start", "idle", Measure::Idle(10), Limit::Within(9.0 * MB)),
    promise("resident after the first answer", MEMORY, Measure::FirstAnswer, Limit::Within(10.5 * MB)),
    promise("resident after load", MEMORY, Measure::AfterLoad, Limit::Within(32.0 * MB)),
    promise("cold start", "cold-start", Measure::ColdStart, Limit::Within(60e-3)),
    of_variant(Kind::Managed, MANAGED_16, "1k-c16", Measure::Rate, Limit::AtLeast(0.9, Kind::Gateway)),
    of_variant(Kind::Managed, MANAGED_64, "1k-c64", Measure::Rate, Limit::AtLeast(0.9, Kind::Gateway)),
    of_variant(Kind::Shared, SHARED_16, "1k-c16", Measure::Rate, Limit::AtLeast(0.95, Kind::Gateway)),
    of_variant(Kind::Shared, SHARED_CPU_16, "1k-c16", Measure::Cpu, Limit::AtMost(1.05, Kind::Gateway)),
    of_variant(Kind::Shared, SHARED_64, "1k-c64", Measure::Rate, Limit::AtLeast(0.95, Kind::Gateway)),
    of_variant(Kind::Shared, SHARED_CPU_64, "1k-c64", Measure::Cpu, Limit::AtMost(1.05, Kind::Gateway)),
    of_variant(
        Kind::Converted,
        CONVERTED_BURST,
        "burst-c16",
        Measure::Rate,
        Limit::AtLeast(0.5, Kind::Gateway),
    ),
    of_variant(
        Kind::Converted,
        CONVERTED_FLUSHED,
        "flushed-c16",
        Measure::Rate,
        Limit::AtLeast(0.5, Kind::Gateway),
    ),
    of_variant(Kind::Converted, CONVERTED_OPEN, "open-c256", Measure::PerStream, Limit::Within(64e3)),
    of_variant(Kind::Keeping, KEEPING_P99, "keeping-c4", Measure::P99, Limit::AtMost(1.1, Kind::Gateway)),
    of_variant(Kind::Keeping, KEEPING_MEMORY, "keeping-c4", Measure::AfterLoad, Limit::Within(40.0 * MB)),
    promise(LOOKUP, "inside", Measure::LookupP50, Limit::Within(50e-6)),
    promise(REBUILD, "inside", Measure::Rebuild, Limit::Within(1.0)),
    promise(CONVERT, "inside", Measure::Convert, Limit::Within(10e-3)),
];

const fn promise(title: &'static str, cell: &'static str, measure: Measure, limit: Limit) -> Promise {
    of_variant(Kind::Gateway, title, cell, measure, limit)
}

const fn of_variant(
    kind: Kind,
    title: &'static str,
    cell: &'static str,
    measure: Measure,
    limit: Limit,
) -> Promise {
    Promise { kind, figure: figure(title, cell, measure), limit }
}

/// Whether a promise was kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Kept,
    Missed,
    NotMeasured,
}

const MISSED_HEADING: &str = "## Figures missed";
/// The heading of the hand-written section at the end of the page.
const LAST_HEADING: &str = "## Beside the figures";
/// Stands before a text that was written for the figures of an earlier run; whoever checks it takes the mark away.
const CARRIED: &str = "*From an earlier run:* ";
const UNEXPLAINED: &str = "Not yet explained: profile it and say here what costs the rest.";

/// Writes the page: `preface` says when, where and how; `last_page` is its previous content.
pub fn page(preface: &str, results: &Results, kinds: &[Kind], last_page: &str) -> String {
    let mut page = format!("# Bench results\n\n{}\n\n", preface.trim());
    if kinds.contains(&Kind::Gateway) {
        page.push_str("## Targets\n\n");
        page.push_str(&promises(results));
        page.push('\n');
    }
    page.push_str(
        "## Figures\n\nMedians over the rounds; the last columns are medians of the rounds' ratios.\n\n",
    );
    let compared: Vec<Kind> = kinds.iter().copied().filter(|kind| !kind.is_variant()).collect();
    page.push_str(&figures(results, &compared));
    let others = others(results);
    if !others.is_empty() {
        let _ = write!(page, "\n## Beside the plain gateway\n\n{others}");
    }
    if !results.faults.is_empty() {
        page.push_str("\n## Faults\n\nExchanges that failed or brought other bytes than were sent; they do not count above.\n\n");
        for fault in &results.faults {
            let _ = writeln!(page, "- {fault}");
        }
    }
    let missed = PROMISES.iter().filter(|promise| promise.judge(results).0 == Verdict::Missed);
    for (n, promise) in missed.enumerate() {
        if n == 0 {
            let _ = write!(page, "\n{MISSED_HEADING}\n");
        }
        let title = promise.figure.title;
        let text = explanation(last_page, title).unwrap_or(UNEXPLAINED);
        // Whoever reads the page knows that the explanation may be of other figures.
        let carried = if text == UNEXPLAINED || text.starts_with(CARRIED) { "" } else { CARRIED };
        let _ = write!(page, "\n### {title}\n\n{carried}{text}\n");
    }
    if let Some((_, words)) = last_page.split_once(LAST_HEADING) {
        let words = words.trim();
        let carried = if words.starts_with(CARRIED) { "" } else { CARRIED };
        let _ = write!(page, "\n{LAST_HEADING}\n\n{carried}{words}\n");
    }
    page
}

/// Returns the explanation under a missed figure of the last page.
fn explanation<'a>(last_page: &'a str, title: &str) -> Option<&'a str> {
    let (_, missed) = last_page.split_once(MISSED_HEADING)?;
    let (_, rest) = missed.split_once(&format!("\n### {title}\n"))?;
    let end = rest.find("\n#").unwrap_or(rest.len());
    Some(rest[..end].trim()).filter(|text| !text.is_empty())
}

fn figures(results: &Results, kinds: &[Kind]) -> String {
    let ratios: Vec<(Kind, Kind)> = [Kind::BareLazy, Kind::BareRaw]
        .into_iter()
        .filter(|base| kinds.contains(base))
        .flat_map(|base| {
            if kinds.contains(&Kind::Gateway) {
                Some((Kind::Gateway, base))
            } else {
                (base == Kind::BareRaw && kinds.contains(&Kind::BareLazy)).then_some((Kind::BareLazy, base))
            }
        })
        .collect();
    let mut header = vec!["figure".to_owned()];
    header.extend(kinds.iter().map(Kind::to_string));
    header.extend(ratios.iter().map(|(kind, base)| format!("{kind} / {base}")));
    let mut rows = vec![header];
    for figure in &FIGURES {
        let values: Vec<Option<f64>> =
            kinds.iter().map(|kind| median(figure.values(results, *kind).into_values())).collect();
        if values.iter().all(Option::is_none) {
            continue;
        }
        let mut row = vec![figure.title.to_owned()];
        row.extend(
            values.into_iter().map(|value| value.map_or_else(String::new, |value| figure.show(value))),
        );
        row.extend(ratios.iter().map(|(kind, base)| {
            figure.ratio(results, *kind, *base).map_or_else(String::new, |ratio| format!("{ratio:.2}"))
        }));
        rows.push(row);
    }
    table(&rows)
}

/// Tabulates the figures that are not compared with other programs: the variants against the plain gateway, and those that
/// only the gateway has.
fn others(results: &Results) -> String {
    let mut rows = vec![["figure", "measured", "gateway", "of the gateway"].map(str::to_owned).to_vec()];
    for Beside { kind, figure } in &BESIDE {
        let median = |kind| median(figure.values(results, kind).into_values());
        let Some(measured) = median(*kind) else { continue };
        let plain = median(Kind::Gateway).filter(|_| *kind != Kind::Gateway);
        let ratio = figure.ratio(results, *kind, Kind::Gateway).filter(|_| plain.is_some());
        rows.push(vec![
            figure.title.to_owned(),
            figure.show(measured),
            plain.map_or_else(String::new, |plain| figure.show(plain)),
            ratio.map_or_else(String::new, |ratio| format!("{ratio:.2}")),
        ]);
    }
    if rows.len() > 1 { table(&rows) } else { String::new() }
}

fn promises(results: &Results) -> String {
    let mut rows = vec![["figure", "target", "measured", ""].map(str::to_owned).to_vec()];
    for promise in &PROMISES {
        let (verdict, measured) = promise.judge(results);
        let figure = &promise.figure;
        let (target, measured) = match promise.limit {
            Limit::AtLeast(part, base) => {
                (format!("≥ {part} × {base}"), measured.map(|ratio| format!("{ratio:.2} × {base}")))
            }
            Limit::AtMost(part, base) => {
                (format!("≤ {part} × {base}"), measured.map(|ratio| format!("{ratio:.2} × {base}")))
            }
            Limit::Within(most) => {
                (format!("≤ {}", figure.show(most)), measured.map(|value| figure.show(value)))
            }
        };
        let verdict = match verdict {
            Verdict::Kept => "pass",
            Verdict::Missed => "MISS",
            Verdict::NotMeasured => "not measured",
        };
        rows.push(vec![figure.title.to_owned(), target, measured.unwrap_or_default(), verdict.to_owned()]);
    }
    table(&rows)
}

/// Formats a Markdown table whose columns also line up in a terminal.
fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut table = String::new();
    for (n, row) in rows.iter().enumerate() {
        for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let _ = match column {
                0 => write!(table, "| {cell:width$} |"),
                _ => write!(table, " {cell:>width$} |"),
            };
        }
        table.push('\n');
        if n == 0 {
            for (column, width) in widths.iter().enumerate() {
                let _ = match column {
                    0 => write!(table, "|{:-<1$}|", "", width + 2),
                    _ => write!(table, "{:-<1$}:|", "", width + 1),
                };
            }
            table.push('\n');
        }
    }
    table
}

fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_unstable_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        length if length % 2 == 1 => Some(values[middle]),
        _ => Some((values[middle - 1] + values[middle]) / 2.0),
    }
}

// === impl Figure ===

impl Figure {
    fn values(&self, results: &Results, kind: Kind) -> BTreeMap<usize, f64> {
        let values = results.get(self.cell, self.measure, kind);
        if !self.added {
            return values;
        }
        let direct = results.get(self.cell, self.measure, Kind::Direct);
        let less = |(round, value)| Some((round, value - direct.get(&round)?));
        if kind == Kind::Direct { BTreeMap::new() } else { values.into_iter().filter_map(less).collect() }
    }

    fn ratio(&self, results: &Results, kind: Kind, base: Kind) -> Option<f64> {
        let base = self.values(results, base);
        let ratio =
            |(round, value): (usize, f64)| Some(value / base.get(&round).filter(|base| **base > 0.0)?);
        median(self.values(results, kind).into_iter().filter_map(ratio))
    }

    fn show(&self, value: f64) -> String {
        match self.measure {
            Measure::Rate => format!("{value:.0}"),
            Measure::Idle(_) | Measure::FirstAnswer | Measure::AfterLoad | Measure::Peak | Measure::Size => {
                format!("{:.1} MB", value / MB)
            }
            Measure::ColdStart | Measure::Rebuild => format!("{:.1} ms", value * 1e3),
            Measure::PerStream => format!("{:.1} KB", value / 1e3),
            _ if value.abs() >= 1e-3 => format!("{:.2} ms", value * 1e3),
            _ => format!("{:.1} us", value * 1e6),
        }
    }
}

// === impl Promise ===

impl Promise {
    /// Returns the verdict, and the ratio or value that it is based on.
    fn judge(&self, results: &Results) -> (Verdict, Option<f64>) {
        let (measured, kept): (_, fn(f64, f64) -> bool) = match self.limit {
            Limit::AtLeast(_, base) => {
                (self.figure.ratio(results, self.kind, base), |value, limit| value >= limit)
            }
            Limit::AtMost(_, base) => {
                (self.figure.ratio(results, self.kind, base), |value, limit| value <= limit)
            }
            Limit::Within(_) => {
                (median(self.figure.values(results, self.kind).into_values()), |value, limit| value <= limit)
            }
        };
        let (Limit::AtLeast(limit, _) | Limit::AtMost(limit, _) | Limit::Within(limit)) = self.limit;
        let verdict = match measured {
            Some(value) if kept(value, limit) => Verdict::Kept,
            Some(_) => Verdict::Missed,
            None => Verdict::NotMeasured,
        };
        (verdict, measured)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results(gateway: &[f64], lazy: &[f64]) -> Results {
        let mut results = Results::default();
        for (kind, values) in [(Kind::Gateway, gateway), (Kind::BareLazy, lazy)] {
            for (round, value) in values.iter().enumerate() {
                results.put("1k-c16", Measure::Rate, kind, round, *value);
            }
        }
        results
    }

    #[test]
    fn a_ratio_is_the_median_of_the_rounds_ratios() {
        let results = results(&[90.0, 40.0, 10.0], &[100.0, 50.0, 10.0]);
        assert_eq!(PROMISES[0].judge(&results), (Verdict::Kept, Some(0.9)));
    }

    #[test]
    fn a_missed_figure_keeps_its_explanation_and_others_lose_theirs() {
        let results = results(&[50.0], &[100.0]);
        let first = page("now", &results, &[Kind::Gateway, Kind::BareLazy], "");
        assert!(first.contains("MISS") && first.contains(UNEXPLAINED));
        let explained = first.replace(UNEXPLAINED, "The log costs it.\n\nAnd more.")
            + "\n### CPU per stream\n\nOld.\n\n## Beside the figures\n\nSaid by hand.\n";
        let second = page("later", &results, &[Kind::Gateway, Kind::BareLazy], &explained);
        let carried =
            "### requests/s at 16 connections\n\n*From an earlier run:* The log costs it.\n\nAnd more.\n";
        assert!(second.contains(carried), "{second}");
        assert!(!second.contains("Old."));
        assert!(second.ends_with("\n\n## Beside the figures\n\n*From an earlier run:* Said by hand.\n"));
        let third = page("later", &results, &[Kind::Gateway, Kind::BareLazy], &second);
        assert!(third.contains(carried) && !third.contains("run:* *From"));
    }

    #[test]
    fn what_was_not_measured_is_neither_kept_nor_missed() {
        assert_eq!(PROMISES[0].judge(&Results::default()), (Verdict::NotMeasured, None));
    }
}
