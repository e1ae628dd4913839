//! Sums over the log, so that totals over a month do not read its rows. Each span has sums of the rows that all
//! filters treat alike, the same with fewer columns, and sums of each key's usage per quarter of an hour.
//!
//! ```text
//! 0 ─────── summed, in spans of six hours ───────│ reach ──── counted row by row ────▶ now
//!            └ open spans are counted as well
//! ```
//!
//! A span is summed once it has been over for a while. Whoever later changes, adds or deletes rows of a summed
//! span [opens](super::telemetry::log_spans::open) it in the same transaction. Sums are made in order, so that
//! they cover everything before the end of the last summed span, except for the open ones; a span without rows
//! needs none.

use super::cached_tokens::CachedTokens;
use super::sql::{Statement, Value, placeholders};
use super::telemetry::log_spans::{LAG, SPAN, start_of, without_sums};
use super::{Error, Result, Store};
use crate::time::Millis;

/// The columns of a client, which all sums of rows have.
const CLIENT: &str = "client_family, client_app_id, client_app_name";

/// A table with sums of rows that have the same values in some columns.
#[derive(Debug, Clone, Copy)]
pub(super) struct SumTable {
    pub(super) name: &'static str,
    /// The columns by which rows are summed, without the client's.
    columns: &'static str,
}

/// The sums of rows that all filters treat alike. With many keys, models and sites that occur together, there are almost
/// as many as rows.
pub(super) const SUMS: SumTable = SumTable {
    name: "proxy_log_sums",
    columns: "site_id, downstream_api_key_id, model_requested, model_actual",
};
/// The sums of rows that are alike for filters by site and client.
pub(super) const SITE_SUMS: SumTable = SumTable { name: "proxy_log_site_sums", columns: "site_id" };
/// The sums of rows that are alike for filters by key, model and client.
pub(super) const MODEL_SUMS: SumTable = SumTable {
    name: "proxy_log_model_sums",
    columns: "downstream_api_key_id, model_requested, model_actual",
};

/// The table with the sums of each key per quarter of an hour.
const QUARTERS: &str = "proxy_log_key_quarters";
/// The condition for a span that has to be summed again. Former releases summed without narrow sums: those spans count, too.
const OPEN: &str = "(is_open OR NOT has_narrow_sums)";

/// The SQL expression for the start of a row's quarter of an hour. Hours and days of all time zones consist of
/// whole quarters.
pub(super) const QUARTER: &str = "l.created_at - l.created_at % 900000";
/// The SQL expressions that sum rows, in the order of [`KeyUsage`](super::key_usage::KeyUsage).
pub(super) const OF_ROWS: &str = "COUNT(*), COALESCE(SUM(CASE WHEN l.status = 'success' THEN 1 ELSE 0 END), 0), \
     COALESCE(SUM(l.total_tokens), 0), COALESCE(SUM(l.estimated_cost), 0)";
/// The columns that hold these sums.
const COLUMNS: &str = "calls, ok, tokens, cost, cache_input_tokens, cache_read_tokens, cache_creation_tokens";

/// A range of the log, split into the part covered by sums and the parts counted row by row. Ends are
/// exclusive.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Parts {
    summed: Option<(Millis, Millis)>,
    /// The open spans within the summed range.
    open: Vec<Millis>,
    /// Newest first.
    pub(super) counted: Vec<(Millis, Millis)>,
}

/// A part of the log, and the number of requested rows in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Block {
    pub(super) from: Millis,
    pub(super) to: Millis,
    pub(super) count: i64,
}

// === impl SumTable ===

impl SumTable {
    /// Returns the statement that sums the rows of [`SUMS`] of one span into this table.
    fn filling(self) -> String {
        let Self { name, columns } = self;
        let sums: Vec<String> = COLUMNS.split(", ").map(|column| format!("SUM({column})")).collect();
        format!(
            "INSERT INTO {name} (first_id, start_at, {columns}, {CLIENT}, {COLUMNS}) \
             SELECT MIN(first_id), MIN(start_at), {columns}, {CLIENT}, {} FROM {} WHERE start_at = ? \
             GROUP BY {columns}, {CLIENT}",
            sums.join(", "),
            SUMS.name
        )
    }
}

// === impl Parts ===

impl Parts {
    /// Splits the range of rows from `from` until before `to`, as far as these are given.
    pub(super) async fn of(store: &Store, from: Option<Millis>, to: Option<Millis>) -> Result<Self> {
        let (reach, open) = reach(store).await?;
        Ok(Self::new(from.unwrap_or(0).max(0), to.unwrap_or(Millis::MAX), reach, open))
    }

    fn new(from: Millis, to: Millis, reach: Millis, mut open: Vec<Millis>) -> Self {
        let (low, high) = (start_of(from.saturating_add(SPAN - 1)), start_of(to).min(reach));
        if low >= high {
            return Self { summed: None, open: Vec::new(), counted: vec![(from, to)] };
        }
        open.retain(|start| (low..high).contains(start));
        open.sort_unstable_by(|one, other| other.cmp(one));
        let edges = [(high, to), (from, low)];
        let [newest, oldest] = edges.map(|(from, to)| (from < to).then_some((from, to)));
        let of_open = open.iter().map(|start| (*start, start + SPAN));
        let counted = newest.into_iter().chain(of_open).chain(oldest).collect();
        Self { summed: Some((low, high)), open, counted }
    }

    /// Returns the SQL condition for the sums `l` in this range, with its arguments; `None` when no sums are in
    /// it.
    pub(super) fn of_sums(&self) -> Option<(String, Vec<Value>)> {
        let (low, high) = self.summed?;
        let mut condition = "l.start_at >= ? AND l.start_at < ?".to_owned();
        let mut args = vec![low.into(), high.into()];
        if !self.open.is_empty() {
            condition.push_str(&format!(" AND l.start_at NOT IN ({})", placeholders(self.open.len())));
            args.extend(self.open.iter().map(|start| Value::from(*start)));
        }
        Some((condition, args))
    }
}

// === impl Block ===

impl Block {
    /// Builds the block of one span.
    pub(super) fn of_span(start: Millis, count: i64) -> Self {
        Self { from: start, to: start + SPAN, count }
    }
}

/// Returns the end of the last summed span, and the open spans.
async fn reach(store: &Store) -> Result<(Millis, Vec<Millis>)> {
    let last = format!("SELECT MAX(start_at) FROM proxy_log_spans WHERE NOT {OPEN}");
    let last = store.row(last, Vec::new(), |row| row.opt_int()).await?.flatten();
    let Some(last) = last else { return Ok((0, Vec::new())) };
    let open = format!("SELECT start_at FROM proxy_log_spans WHERE {OPEN}");
    Ok((last + SPAN, store.rows(open, Vec::new(), |row| row.int()).await?))
}

/// Sums every span that has been over for a while, one per transaction; returns the number of spans summed.
pub async fn sum_up(store: &Store, now: Millis) -> Result<u64> {
    let (reach, open) = reach(store).await?;
    let mut summed = 0;
    for start in open.into_iter().filter(|start| *start < reach) {
        summed += u64::from(sum(store, start).await?);
    }
    let mut cursor = reach;
    loop {
        let sql = "SELECT MIN(created_at) FROM proxy_logs WHERE created_at >= ?";
        let next = store.row(sql, vec![cursor.into()], |row| row.opt_int()).await?.flatten();
        let Some(next) = next else { break };
        let start = start_of(next);
        if start + SPAN + LAG > now {
            break;
        }
        summed += u64::from(sum(store, start).await?);
        cursor = start + SPAN;
    }
    Ok(summed)
}

/// Sums one span; returns whether this instance did it.
async fn sum(store: &Store, start: Millis) -> Result<bool> {
    let cached = CachedTokens::OF_LOGS;
    let of_span = vec![start.into(), (start + SPAN).into()];
    let in_span = "FROM proxy_logs l WHERE l.created_at >= ? AND l.created_at < ?";
    let SumTable { name, columns } = SUMS;
    let sums = format!(
        "INSERT INTO {name} (first_id, start_at, {columns}, {CLIENT}, {COLUMNS}) \
         SELECT MIN(l.id), MIN(l.created_at - l.created_at % {SPAN}), {columns}, {CLIENT}, {OF_ROWS}, {cached} \
         {in_span} GROUP BY {columns}, {CLIENT}"
    );
    let quarters = format!(
        "INSERT INTO {QUARTERS} (downstream_api_key_id, start_at, quarter_at, {COLUMNS}) \
         SELECT l.downstream_api_key_id, MIN(l.created_at - l.created_at % {SPAN}), {QUARTER} AS quarter, {OF_ROWS}, \
         {cached} {in_span} AND l.downstream_api_key_id IS NOT NULL GROUP BY l.downstream_api_key_id, quarter"
    );
    let open = format!("DELETE FROM proxy_log_spans WHERE start_at = ? AND {OPEN}");
    let mut batch = vec![Statement::new(open, vec![start.into()])];
    batch.extend(without_sums(start));
    batch.push(Statement::new(sums, of_span.clone()));
    batch.extend([SITE_SUMS, MODEL_SUMS].map(|table| Statement::new(table.filling(), vec![start.into()])));
    batch.push(Statement::new(quarters, of_span));
    batch.push(Statement::new(
        "INSERT INTO proxy_log_spans (start_at, is_open, has_quarters, has_narrow_sums) VALUES (?, ?, ?, ?)",
        vec![start.into(), false.into(), true.into(), true.into()],
    ));
    match store.batch(batch).await {
        Ok(_) => Ok(true),
        // Another instance was faster.
        Err(Error::Conflict(_)) => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_spans_are_summed_and_the_rest_is_counted() {
        let of = |from, to, open: &[Millis]| {
            let spans = |spans: Millis| spans * SPAN;
            Parts::new(from, to, spans(10), open.iter().copied().map(spans).collect())
        };
        let parts = |summed: Option<(Millis, Millis)>, open: &[Millis], counted: &[(Millis, Millis)]| Parts {
            summed: summed.map(|(from, to)| (from * SPAN, to * SPAN)),
            open: open.iter().map(|start| start * SPAN).collect(),
            counted: counted.to_vec(),
        };
        let end = Millis::MAX;
        assert_eq!(of(0, end, &[]), parts(Some((0, 10)), &[], &[(10 * SPAN, end)]));
        assert_eq!(
            of(1, 3 * SPAN + 5, &[12, 1, 2, 0]),
            parts(
                Some((1, 3)),
                &[2, 1],
                &[(3 * SPAN, 3 * SPAN + 5), (2 * SPAN, 3 * SPAN), (SPAN, 2 * SPAN), (1, SPAN)]
            )
        );
        assert_eq!(of(SPAN, 2 * SPAN, &[]), parts(Some((1, 2)), &[], &[]));
        assert_eq!(of(SPAN + 1, 2 * SPAN + 1, &[]), parts(None, &[], &[(SPAN + 1, 2 * SPAN + 1)]));
        assert_eq!(of(20 * SPAN, end, &[]), parts(None, &[], &[(20 * SPAN, end)]));
    }
}
