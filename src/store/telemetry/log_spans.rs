//! Spans of the log that are summed once they are over, and what opens one again.

use crate::store::sql::{OnConflict, SqlDialect, Statement, upsert};
use crate::time::Millis;

/// Long, so that there are few sums, and short, so that few rows are counted beside them. UTC days are made of whole
/// spans.
pub(in crate::store) const SPAN: Millis = 6 * 3_600_000;
/// Rows of a span may come so long after its end without opening it: they wait to be written, and instances have clocks
/// of their own.
pub(in crate::store) const LAG: Millis = 10 * 60_000;

pub(in crate::store) fn start_of(at: Millis) -> Millis {
    at - at.rem_euclid(SPAN)
}

/// The span of rows that are of this time, where it may be summed already.
pub(in crate::store) fn summed_span(at: Millis, now: Millis) -> Option<Millis> {
    let start = start_of(at);
    // Half the time, for instances whose clocks differ.
    (start + SPAN + LAG / 2 <= now).then_some(start)
}

/// What goes with a change of the rows of a span that may be summed already.
pub(in crate::store) fn open(dialect: SqlDialect, start: Millis) -> Vec<Statement> {
    let mark = upsert(dialect, "proxy_log_spans", &["start_at"], &[("is_open", OnConflict::Replace)]);
    let mark = Statement::new(mark, vec![start.into(), true.into()]);
    without_sums(start).into_iter().chain([mark]).collect()
}

/// Deletes the sums of a span.
pub(in crate::store) fn without_sums(start: Millis) -> [Statement; 2] {
    ["DELETE FROM proxy_log_sums WHERE start_at = ?", "DELETE FROM proxy_log_key_quarters WHERE start_at = ?"]
        .map(|sql| Statement::new(sql, vec![start.into()]))
}

/// What goes with deleting everything before `cutoff`.
pub(in crate::store) fn forget(dialect: SqlDialect, cutoff: Millis) -> Vec<Statement> {
    let start = start_of(cutoff);
    let mut statements = vec![
        Statement::new("DELETE FROM proxy_log_sums WHERE start_at < ?", vec![start.into()]),
        Statement::new("DELETE FROM proxy_log_key_quarters WHERE start_at < ?", vec![start.into()]),
        Statement::new("DELETE FROM proxy_log_spans WHERE start_at < ?", vec![start.into()]),
    ];
    statements.extend(open(dialect, start));
    statements
}
