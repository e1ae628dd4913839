//! Usage per local hour and local day, site and model: tallied in memory while a group of log rows
//! is written, then added to the tables in the same transaction.
//!
//! Every row counts as one call, and one that is not a success counts as failed. Rows without a site, which
//! never reached an upstream, are left out.

use std::collections::BTreeMap;

use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::log_row::{ProxyLogRow, RowName};
use crate::ids::SiteId;
use crate::money::Usd;
use crate::one_line::first_chars;
use crate::routing::pricing;
use crate::store::cached_tokens::CachedTokens;
use crate::store::sql::Value;
use crate::store::sums::Sums;
use crate::time::{HOUR, MINUTE, Millis};

const QUARTER: Millis = 15 * MINUTE;
/// The maximum length of a `key` column, in characters.
const MAX_MODEL_CHARS: usize = 191;

/// By how much the corrected values of a counted row exceed the old ones.
#[derive(Clone, Copy, Debug, Default)]
pub struct Correction {
    pub tokens: i64,
    /// Input tokens, with cached ones, also where `tokens` counts those apart.
    pub input: i64,
    pub output: i64,
    /// In USD.
    pub cost: Usd,
    /// The part that statistics count as spent, in USD.
    pub spend: Usd,
    pub cached: CachedTokens,
}

/// Tallies that are not written yet, and the calendar by which they are sorted.
pub(in crate::store) struct Usage {
    zone: TimeZone,
    zone_name: String,
    /// The quarter of an hour of the last row: time zones change their offset only between quarters, so that
    /// its hour and day hold for all of it.
    quarter: Millis,
    hour: Millis,
    day: String,
    /// By start of hour and site, then by model; with the day, whose sums are added up from its hours.
    tallies: BTreeMap<(Millis, SiteId), (String, BTreeMap<String, Sums>)>,
}

impl Usage {
    pub(in crate::store) fn new(zone: TimeZone) -> Self {
        let zone_name = zone.iana_name().unwrap_or("UTC").to_owned();
        Self { zone, zone_name, quarter: Millis::MIN, hour: 0, day: String::new(), tallies: BTreeMap::new() }
    }

    pub(in crate::store) fn count(&mut self, row: &ProxyLogRow) {
        let Some(site) = row.site_id else { return };
        let model = row.model_actual.as_deref().or(row.model_requested.as_deref()).unwrap_or("unknown");
        let tally = self.tally(row.created_at, site, model);
        tally.calls += 1;
        tally.ok += i64::from(row.status.is_success());
        tally.tokens = tally.tokens.saturating_add(row.tokens());
        tally.cost += pricing::spend(row.estimated_cost, row.platform, row.tokens().unsigned_abs());
        tally.cached.add(&row.cached());
        if let Some(latency) = row.latency_ms.filter(|latency| *latency > 0) {
            tally.latency_ms += latency;
            tally.latency_n += 1;
        }
    }

    /// Adds the later correction of a row that was counted before to its bucket.
    pub(in crate::store) fn correct(&mut self, row: &RowName, more: &Correction) {
        let tally = self.tally(row.created_at, row.site_id, &row.model);
        tally.tokens = tally.tokens.saturating_add(more.tokens);
        tally.cost += more.spend;
        tally.cached.add(&more.cached);
    }

    fn tally(&mut self, at: Millis, site: SiteId, model: &str) -> &mut Sums {
        self.look_up(at);
        let model = first_chars(model, MAX_MODEL_CHARS);
        let (_, models) =
            self.tallies.entry((self.hour, site)).or_insert_with(|| (self.day.clone(), BTreeMap::new()));
        if !models.contains_key(model) {
            models.insert(model.to_owned(), Sums::default());
        }
        models.get_mut(model).expect("it is there, or was just put there")
    }

    /// Sets the local hour and day of a time, unless it is in the same quarter as the last one.
    fn look_up(&mut self, at: Millis) {
        let quarter = at.div_euclid(QUARTER);
        if quarter == self.quarter {
            return;
        }
        let stamp = Timestamp::from_millisecond(at).unwrap_or(Timestamp::UNIX_EPOCH);
        let offset = Millis::from(self.zone.to_offset(stamp).seconds()) * 1000;
        self.quarter = quarter;
        self.hour = at - (at + offset).rem_euclid(HOUR);
        self.day = self.zone.to_datetime(stamp).date().to_string();
    }

    /// Returns the arguments of one upsert per hour bucket and per day bucket, in the order of their keys.
    pub(in crate::store) fn take(&mut self) -> (Vec<Vec<Value>>, Vec<Vec<Value>>) {
        let mut hours = Vec::new();
        let mut days: BTreeMap<(String, SiteId, String), Sums> = BTreeMap::new();
        for ((hour, site), (day, models)) in std::mem::take(&mut self.tallies) {
            for (model, tally) in models {
                let mut args = vec![hour.into(), site.into(), model.as_str().into()];
                args.extend(values(&tally));
                hours.push(args);
                days.entry((day.clone(), site, model)).or_default().add(&tally);
            }
        }
        let days = days.into_iter().map(|((day, site, model), tally)| {
            let mut args = vec![day.into(), site.into(), model.into(), self.zone_name.as_str().into()];
            args.extend(values(&tally));
            args
        });
        (hours, days.collect())
    }
}

/// Returns the values of a bucket's columns after its keys.
fn values(sums: &Sums) -> [Value; 10] {
    [
        sums.calls.into(),
        sums.ok.into(),
        (sums.calls - sums.ok).into(),
        sums.tokens.into(),
        sums.cost.into(),
        sums.latency_ms.into(),
        sums.latency_n.into(),
        sums.cached.input.into(),
        sums.cached.read.into(),
        sums.cached.creation.into(),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::log_row::LogStatus;
    use super::*;

    fn row(at: &str, status: LogStatus) -> ProxyLogRow {
        let at = crate::time::parse(at).expect("a time");
        ProxyLogRow {
            site_id: Some(SiteId::new(1)),
            model_requested: Some("gpt".into()),
            total_tokens: Some(100),
            latency_ms: Some(40),
            estimated_cost: Usd::new(0.5),
            ..ProxyLogRow::new(at, status)
        }
    }

    fn usage(zone: &str) -> Usage {
        Usage::new(TimeZone::get(zone).expect("a zone"))
    }

    #[test]
    fn hours_start_where_the_local_clock_shows_a_full_hour() {
        let mut usage = usage("Asia/Kolkata");
        usage.count(&row("2026-05-01T18:35:00Z", LogStatus::Success));
        let (hours, days) = usage.take();
        assert_eq!(hours[0][0], Value::Int(crate::time::parse("2026-05-01T18:30:00Z").expect("a time")));
        assert_eq!(days[0][0], Value::Text("2026-05-02".into()));
        assert_eq!(days[0][3], Value::Text("Asia/Kolkata".into()));
    }

    #[test]
    fn whatever_is_not_a_success_has_failed() {
        let mut usage = usage("UTC");
        for status in [LogStatus::Success, LogStatus::Failed, LogStatus::Retried] {
            usage.count(&row("2026-05-01T08:10:00Z", status));
        }
        usage.count(&row("2026-05-01T09:10:00Z", LogStatus::Success));
        let (hours, days) = usage.take();
        assert_eq!(hours.len(), 2);
        assert_eq!(hours[0][3..6], [Value::Int(3), Value::Int(1), Value::Int(2)]);
        assert_eq!(days.len(), 1);
        assert_eq!(days[0][4..8], [Value::Int(4), Value::Int(2), Value::Int(2), Value::Int(400)]);
        assert_eq!(usage.take().0.len(), 0);
    }

    #[test]
    fn tokens_that_cost_nothing_are_spent_at_the_flat_rate_until_their_cost_is_known() {
        let mut usage = usage("UTC");
        let broken_off = ProxyLogRow {
            estimated_cost: Usd::ZERO,
            total_tokens: Some(1_000_000),
            ..row("2026-05-01T08:10:00Z", LogStatus::Failed)
        };
        usage.count(&broken_off);
        assert_eq!(usage.take().0[0][7], Value::from(Usd::new(2.0)));
    }

    #[test]
    fn a_row_without_a_site_is_left_out_and_one_without_a_model_is_unknown() {
        let mut usage = usage("UTC");
        let nowhere = row("2026-05-01T08:10:00Z", LogStatus::Failed);
        usage.count(&ProxyLogRow { site_id: None, ..nowhere.clone() });
        usage.count(&ProxyLogRow { model_requested: None, latency_ms: Some(0), ..nowhere });
        let (hours, _) = usage.take();
        assert_eq!(hours.len(), 1);
        assert_eq!(hours[0][2], Value::Text("unknown".into()));
        assert_eq!(hours[0][8..10], [Value::Int(0), Value::Int(0)]);
    }
}
