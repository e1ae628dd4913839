//! The request log of metapi's database, summed by day, site and model, as in the statistics here. The requests
//! themselves are not taken.

use std::collections::HashMap;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use rusqlite::Row;
use serde_json::{Value, json};

use super::draft::MAX_NAME;
use super::merged_sites::MergedSites;
use super::sqlite::ForeignDatabase;
use super::taken::Error;
use crate::money::Usd;
use crate::platform::Platform;
use crate::routing::pricing;

const TABLE: &str = "proxy_logs";
/// The array of a document that holds the sums.
pub(super) const ARRAY: &str = "usageDays";
/// The maximum number of sums that are taken: a hundred models over two years.
pub(super) const MAX_SUMS: usize = 100_000;
/// In seconds; time zones change their offset only between quarters of an hour, so that each quarter is within
/// one day.
const QUARTER: i64 = 15 * 60;

/// The sums of one model at one site on one day.
#[derive(Default)]
struct Sums {
    calls: i64,
    ok: i64,
    tokens: f64,
    /// In USD.
    cost: f64,
    latency_ms: f64,
    /// The number of calls in the latency sum.
    latency_count: i64,
}

pub(super) struct Days {
    /// The rows of the array.
    pub rows: Vec<Value>,
    /// Whether there are more than are taken.
    pub is_cut: bool,
    /// The number of requests whose time cannot be read; no sum has them.
    pub undated: i64,
}

/// Sums the log; `None` when it lacks the necessary columns. Requests to a merged site count for the one that is kept.
pub(super) fn read(
    database: &ForeignDatabase,
    zone: &TimeZone,
    merged: &MergedSites,
) -> Result<Option<Days>, Error> {
    if !database.has(TABLE, &["account_id", "created_at", "status"]) {
        return Ok(None);
    }
    let column = |name: &str, absent: &'static str| {
        if database.has(TABLE, &[name]) { format!("p.{name}") } else { absent.to_owned() }
    };
    let (tokens, cost) = (column("total_tokens", "0"), column("estimated_cost", "0"));
    let (latency, actual, requested) =
        (column("latency_ms", "0"), column("model_actual", "NULL"), column("model_requested", "NULL"));
    // Numbers are milliseconds or seconds, as in documents.
    let number = "CAST(p.created_at AS REAL)";
    let time = format!(
        "CASE WHEN {number} > 1e12 THEN CAST({number} / 1000 AS INTEGER) WHEN {number} > 1e9 THEN CAST({number} AS INTEGER)
           ELSE CAST(strftime('%s', p.created_at) AS INTEGER) END"
    );
    let sql = format!(
        "SELECT {time} / {QUARTER}, CAST(s.id AS INTEGER), CAST(s.platform AS TEXT),
           COALESCE(NULLIF(trim({actual}), ''), NULLIF(trim({requested}), ''), 'unknown'),
           count(*), CAST(total(p.status = 'success') AS INTEGER), total(max(0, CAST({tokens} AS REAL))),
           total(max(0, CAST({cost} AS REAL))),
           total(CASE WHEN CAST({cost} AS REAL) > 0 THEN 0 ELSE max(0, CAST({tokens} AS REAL)) END),
           total(max(0, CAST({latency} AS REAL))), CAST(total(CAST({latency} AS REAL) > 0) AS INTEGER)
         FROM {TABLE} p JOIN accounts a ON a.id = p.account_id JOIN sites s ON s.id = a.site_id
         GROUP BY 1, 2, 4"
    );
    let mut days: HashMap<(String, i64, String), Sums> = HashMap::new();
    let (mut is_cut, mut undated) = (false, 0);
    database.each(&sql, |row| {
        let quarter: Option<i64> = row.get(0)?;
        let begin = quarter.map(|quarter| Timestamp::from_second(quarter.saturating_mul(QUARTER)));
        let Some(Ok(begin)) = begin else {
            undated += row.get::<_, i64>(4)?;
            return Ok(());
        };
        let day = zone.to_datetime(begin).date().to_string();
        let model: String = text(row, 3)?.chars().take(MAX_NAME).collect();
        let key = (day, merged.id_of(row.get(1)?), model);
        if days.len() >= MAX_SUMS && !days.contains_key(&key) {
            is_cut = true;
            return Ok(());
        }
        let sums = days.entry(key).or_default();
        sums.calls += row.get::<_, i64>(4)?;
        sums.ok += row.get::<_, i64>(5)?;
        sums.tokens += row.get::<_, f64>(6)?;
        let platform = Platform::parse(&text(row, 2)?);
        let unpriced = pricing::spend(Usd::ZERO, platform, row.get::<_, f64>(8)? as u64);
        sums.cost += row.get::<_, f64>(7)? + unpriced.dollars();
        sums.latency_ms += row.get::<_, f64>(9)?;
        sums.latency_count += row.get::<_, i64>(10)?;
        Ok(())
    })?;
    let zone = zone.iana_name().unwrap_or("UTC");
    let rows = days.into_iter().map(|((day, site, model), sums)| {
        json!({"localDay": day, "siteId": site, "model": model, "timeZone": zone, "calls": sums.calls, "ok": sums.ok,
            "failed": sums.calls - sums.ok, "tokens": sums.tokens as i64, "cost": sums.cost,
            "latencyMs": sums.latency_ms as i64, "latencyCount": sums.latency_count})
    });
    Ok(Some(Days { rows: rows.collect(), is_cut, undated }))
}

/// Returns a text, without bytes that are no UTF-8; empty for NULL.
fn text(row: &Row<'_>, column: usize) -> rusqlite::Result<String> {
    let bytes = row.get_ref(column)?.as_bytes_or_null()?;
    Ok(String::from_utf8_lossy(bytes.unwrap_or_default()).into_owned())
}
