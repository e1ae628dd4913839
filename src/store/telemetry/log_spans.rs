//! Spans of the log, which are summed once they are over, and the statements that reopen one.

use crate::store::sql::{OnConflict, SqlDialect, Statement, upsert};
use crate::time::{HOUR, MINUTE, Millis};

/// The length of a span in milliseconds: long enough for few sums, and short enough that few rows are counted
/// beside them. UTC days consist of whole spans.
pub(in crate::store) const SPAN: Millis = 6 * HOUR;
/// How long after the end of a span its rows may arrive without reopening it, in milliseconds: they wait to be
/// written, and each instance has its own clock.
pub(in crate::store) const LAG: Millis = 10 * MINUTE;

/// The tables with sums of spans.
const TABLES: [&str; 4] =
    ["proxy_log_sums", "proxy_log_site_sums", "proxy_log_model_sums", "proxy_log_key_quarters"];

pub(in crate::store) fn start_of(at: Millis) -> Millis {
    at - at.rem_euclid(SPAN)
}

/// Returns the start of the span of this time if it may already be summed.
pub(in crate::store) fn summed_span(at: Millis, now: Millis) -> Option<Millis> {
    let start = start_of(at);
    // Half the lag, to allow for instances whose clocks differ.
    (start + SPAN + LAG / 2 <= now).then_some(start)
}

/// Builds the statements that reopen a span, to go with a change of its rows when it may already be summed.
pub(in crate::store) fn open(dialect: SqlDialect, start: Millis) -> Vec<Statement> {
    let mark = upsert(dialect, "proxy_log_spans", &["start_at"], &[("is_open", OnConflict::Replace)]);
    let mark = Statement::new(mark, vec![start.into(), true.into()]);
    without_sums(start).chain([mark]).collect()
}

/// Builds the statements that delete the sums of a span.
pub(in crate::store) fn without_sums(start: Millis) -> impl Iterator<Item = Statement> {
    TABLES.into_iter().map(move |table| {
        Statement::new(format!("DELETE FROM {table} WHERE start_at = ?"), vec![start.into()])
    })
}

/// Builds the statements that go with deleting everything before `cutoff`.
pub(in crate::store) fn forget(dialect: SqlDialect, cutoff: Millis) -> Vec<Statement> {
    let start = start_of(cutoff);
    TABLES
        .into_iter()
        .chain(["proxy_log_spans"])
        .map(|table| Statement::new(format!("DELETE FROM {table} WHERE start_at < ?"), vec![start.into()]))
        .chain(open(dialect, start))
        .collect()
}
