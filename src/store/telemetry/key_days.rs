//! Usage of each downstream key per local day: tallied in memory while a group of log rows is written, then
//! added to its table in the same transaction, so that it can be shown to the key's holder after the log has
//! lost the rows.

use std::collections::BTreeMap;

use jiff::civil::Date;
use jiff::tz::TimeZone;

use super::log_row::{ChargedUsage, ProxyLogRow, RowName};
use super::usage::Correction;
use crate::ids::KeyId;
use crate::money::Usd;
use crate::store::sql::{OnConflict, SqlDialect, Statement, upsert};
use crate::time::{MINUTE, Millis, local_day};

const QUARTER: Millis = 15 * MINUTE;
/// The key id that stands for all callers with the proxy token.
pub(in crate::store) const PROXY_TOKEN: KeyId = KeyId::ZERO;

/// The usage of one key on one day.
#[derive(Default)]
struct Tally {
    requests: i64,
    cost: Usd,
    tokens: i64,
    input: i64,
    output: i64,
    cache_read: i64,
}

/// Tallies that are not written yet.
pub(super) struct KeyDays {
    zone: TimeZone,
    zone_name: String,
    upsert: String,
    /// The quarter of an hour of the last row, and its day: in no time zone does the day change within a
    /// quarter.
    quarter: Millis,
    day: Date,
    tallies: BTreeMap<(KeyId, Date), Tally>,
}

impl KeyDays {
    pub(super) fn new(dialect: SqlDialect, zone: TimeZone) -> Self {
        let zone_name = zone.iana_name().unwrap_or("UTC").to_owned();
        let sums = ["requests", "cost", "tokens", "input_tokens", "output_tokens", "cache_read_tokens"];
        let mut columns = vec![("tz", OnConflict::Keep)];
        columns.extend(sums.map(|name| (name, OnConflict::Add)));
        let upsert = upsert(dialect, "downstream_key_days", &["key_id", "local_day"], &columns);
        Self { zone, zone_name, upsert, quarter: Millis::MIN, day: Date::ZERO, tallies: BTreeMap::new() }
    }

    pub(super) fn count(&mut self, row: &ProxyLogRow) {
        let tally = self.tally(row.created_at, row.downstream_api_key_id);
        tally.requests += i64::from(row.begins_call);
        let charge = row.charged.as_deref().copied().unwrap_or_else(|| charge_of(row));
        tally.cost += charge.cost;
        let add = |sum: &mut i64, tokens: i64| *sum = sum.saturating_add(tokens);
        add(&mut tally.tokens, charge.tokens);
        add(&mut tally.input, charge.input);
        add(&mut tally.output, charge.output);
        add(&mut tally.cache_read, charge.cache_read);
    }

    /// Adds the later correction of a row that was counted before.
    pub(super) fn correct(&mut self, row: &RowName, more: &Correction) {
        let tally = self.tally(row.created_at, row.key_id);
        tally.cost += more.cost;
        let add = |sum: &mut i64, tokens: i64| *sum = sum.saturating_add(tokens);
        add(&mut tally.tokens, more.tokens.max(more.input.saturating_add(more.output)));
        add(&mut tally.input, more.input);
        add(&mut tally.output, more.output);
        add(&mut tally.cache_read, more.cached.read);
    }

    fn tally(&mut self, at: Millis, key: Option<KeyId>) -> &mut Tally {
        let quarter = at.div_euclid(QUARTER);
        if quarter != self.quarter {
            self.quarter = quarter;
            self.day = local_day(at, &self.zone);
        }
        self.tallies.entry((key.unwrap_or(PROXY_TOKEN), self.day)).or_default()
    }

    /// Returns the statements that add the tallies to the table, in the order of its keys.
    pub(super) fn take(&mut self) -> Vec<Statement> {
        let tallies = std::mem::take(&mut self.tallies).into_iter();
        let add = tallies.map(|((key, day), tally)| {
            let args = vec![
                key.into(),
                day.to_string().into(),
                self.zone_name.as_str().into(),
                tally.requests.into(),
                tally.cost.into(),
                tally.tokens.into(),
                tally.input.into(),
                tally.output.into(),
                tally.cache_read.into(),
            ];
            Statement::new(self.upsert.clone(), args)
        });
        add.collect()
    }
}

/// Returns what the key pays for an attempt by its row.
fn charge_of(row: &ProxyLogRow) -> ChargedUsage {
    // With cached ones, which some dialects count apart.
    let input = row.input_tokens.or(row.prompt_tokens).unwrap_or(0);
    let output = row.completion_tokens.unwrap_or(0);
    ChargedUsage {
        cost: row.estimated_cost,
        tokens: row.tokens().max(input.saturating_add(output)),
        input,
        output,
        cache_read: row.cache_read_tokens.unwrap_or(0),
    }
}

#[cfg(test)]
mod tests {
    use super::super::log_row::LogStatus;
    use super::*;
    use crate::store::sql::Value;

    #[test]
    fn a_day_of_a_key_sums_its_rows_and_counts_each_call_once() {
        let zone = TimeZone::get("Asia/Shanghai").expect("a zone");
        let mut days = KeyDays::new(SqlDialect::Sqlite, zone);
        let row = |at: &str, key: Option<i64>, begins_call| ProxyLogRow {
            downstream_api_key_id: key.map(KeyId::new),
            begins_call,
            prompt_tokens: Some(30),
            input_tokens: Some(70),
            completion_tokens: Some(30),
            cache_read_tokens: Some(40),
            estimated_cost: Usd::new(0.5),
            ..ProxyLogRow::new(crate::time::parse(at).expect("a time"), LogStatus::Success)
        };
        days.count(&row("2026-05-01T15:59:59Z", Some(3), true));
        days.count(&row("2026-05-01T15:59:59Z", Some(3), false));
        days.count(&row("2026-05-01T16:00:00Z", Some(3), true));
        days.count(&row("2026-05-01T16:00:00Z", None, true));
        let args: Vec<_> = days.take().into_iter().map(|statement| statement.args).collect();
        let sums = |key: i64, day: &str, requests: i64, rows: i64| {
            let zone = Value::from("Asia/Shanghai");
            let (cost, int) = (Value::Real(0.5 * rows as f64), |count: i64| Value::Int(count * rows));
            vec![key.into(), day.into(), zone, requests.into(), cost, int(100), int(70), int(30), int(40)]
        };
        let wanted = [sums(0, "2026-05-02", 1, 1), sums(3, "2026-05-01", 1, 2), sums(3, "2026-05-02", 1, 1)];
        assert_eq!(args, wanted);
        assert!(days.take().is_empty());
    }
}
