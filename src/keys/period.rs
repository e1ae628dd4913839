//! The periods of budgets, and when their windows begin and end.
//!
//! | period | a window begins | and ends |
//! |---|---|---|
//! | `5h` | with the first request after the last one ended | five hours later |
//! | `day`, `week`, `month` | at local midnight, of a Monday, of the first of a month | where the next begins |
//! | `total` | once | never |
//!
//! A local day has 23 to 25 hours where the clocks are changed; where midnight itself is skipped, the day begins with the
//! first instant after it. Another `TZ` has other midnights: a week or month that was begun in one zone goes on in another
//! one, with what was used in it.

use jiff::civil::Date;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};

use crate::time::{HOUR, Millis, local_day};

const FIVE_HOURS: Millis = 5 * HOUR;
/// A stored week or month that began up to this long before one of the present time zone is the same one, begun in another
/// zone: few zones differ by more, and no day is shorter.
const ZONE_SHIFT: Millis = 22 * HOUR;

/// The period of a budget, which is the length of its windows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Period {
    #[serde(rename = "5h")]
    FiveHours,
    Day,
    Week,
    Month,
    Total,
}

impl Period {
    pub const ALL: [Self; 5] = [Self::FiveHours, Self::Day, Self::Week, Self::Month, Self::Total];

    /// Returns the period's name, as operators write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::FiveHours => "5h",
            Self::Day => "day",
            Self::Week => "week",
            Self::Month => "month",
            Self::Total => "total",
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|period| period.name() == name)
    }

    /// Returns the start of the window for something counted at `now`, while no window is open.
    pub fn start(self, now: Millis, zone: &TimeZone) -> Millis {
        match self {
            Self::FiveHours => now,
            Self::Total => 0,
            _ => midnight(self.first_day(local_day(now, zone)), zone).unwrap_or(now),
        }
    }

    /// Returns the end of a window that began at `start`; [`Millis::MAX`] if it never ends.
    pub fn end(self, start: Millis, zone: &TimeZone) -> Millis {
        let first = || self.first_day(local_day(start.saturating_add(self.zone_shift()), zone));
        let next = match self {
            Self::FiveHours => return start.saturating_add(FIVE_HOURS),
            Self::Total => return Millis::MAX,
            Self::Day => first().tomorrow(),
            Self::Week => first().checked_add(jiff::Span::new().weeks(1)),
            Self::Month => first().checked_add(jiff::Span::new().months(1)),
        };
        // Only at the end of the calendar, in the year 9999.
        next.ok().and_then(|next| midnight(next, zone)).unwrap_or(Millis::MAX)
    }

    /// Returns the time before which a stored window must have begun to be over when the next begins at `start`.
    pub fn over_before(self, start: Millis) -> Millis {
        match self {
            Self::FiveHours => start.saturating_sub(FIVE_HOURS) + 1,
            Self::Total => 0,
            _ => start.saturating_sub(self.zone_shift()),
        }
    }

    /// Returns by how much a stored window may have begun before the same one of another time zone.
    fn zone_shift(self) -> Millis {
        match self {
            Self::Week | Self::Month => ZONE_SHIFT,
            _ => 0,
        }
    }

    fn first_day(self, day: Date) -> Date {
        let monday = || day.checked_sub(jiff::Span::new().days(day.weekday().to_monday_zero_offset()));
        match self {
            Self::Week => monday().unwrap_or(day),
            Self::Month => day.first_of_month(),
            _ => day,
        }
    }
}

/// Returns the first instant of a local day.
fn midnight(day: Date, zone: &TimeZone) -> Option<Millis> {
    Some(day.to_zoned(zone.clone()).ok()?.start_of_day().ok()?.timestamp().as_millisecond())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::{iso, parse};

    #[track_caller]
    fn window(period: Period, zone: &str, now: &str) -> [String; 2] {
        let zone = TimeZone::get(zone).expect("a zone");
        let start = period.start(parse(now).expect("a time"), &zone);
        [start, period.end(start, &zone)].map(|at| iso(at).replace(":00.000Z", ""))
    }

    #[test]
    fn windows_of_the_calendar_begin_and_end_at_local_midnight() {
        use Period::{Day, Month, Week};
        let (shanghai, new_york) = ("Asia/Shanghai", "America/New_York");
        for (period, zone, now, start, end) in [
            (Day, "UTC", "2026-05-01T00:00:00Z", "2026-05-01T00:00", "2026-05-02T00:00"),
            (Day, shanghai, "2026-05-01T15:59:59Z", "2026-04-30T16:00", "2026-05-01T16:00"),
            (Day, shanghai, "2026-05-01T16:00:00Z", "2026-05-01T16:00", "2026-05-02T16:00"),
            // The clocks go forward on 8 March 2026 and back on 1 November: days of 23 and of 25 hours.
            (Day, new_york, "2026-03-08T06:30:00Z", "2026-03-08T05:00", "2026-03-09T04:00"),
            (Day, new_york, "2026-03-09T03:59:59Z", "2026-03-08T05:00", "2026-03-09T04:00"),
            (Day, new_york, "2026-03-09T04:00:00Z", "2026-03-09T04:00", "2026-03-10T04:00"),
            (Day, new_york, "2026-11-01T04:00:00Z", "2026-11-01T04:00", "2026-11-02T05:00"),
            (Day, new_york, "2026-11-02T04:59:59Z", "2026-11-01T04:00", "2026-11-02T05:00"),
            // Midnight of the 29th is skipped: the day begins at one.
            (Day, "Asia/Beirut", "2026-03-28T21:59:59Z", "2026-03-27T22:00", "2026-03-28T22:00"),
            (Day, "Asia/Beirut", "2026-03-28T22:00:00Z", "2026-03-28T22:00", "2026-03-29T21:00"),
            // 1 May 2026 is a Friday.
            (Week, "UTC", "2026-05-01T08:00:00Z", "2026-04-27T00:00", "2026-05-04T00:00"),
            (Week, "UTC", "2026-05-03T23:59:59Z", "2026-04-27T00:00", "2026-05-04T00:00"),
            (Week, "UTC", "2026-05-04T00:00:00Z", "2026-05-04T00:00", "2026-05-11T00:00"),
            (Week, shanghai, "2026-05-03T16:00:00Z", "2026-05-03T16:00", "2026-05-10T16:00"),
            (Week, new_york, "2026-03-08T20:00:00Z", "2026-03-02T05:00", "2026-03-09T04:00"),
            (Week, new_york, "2026-11-01T20:00:00Z", "2026-10-26T04:00", "2026-11-02T05:00"),
            (Month, "UTC", "2026-02-28T23:59:59Z", "2026-02-01T00:00", "2026-03-01T00:00"),
            (Month, "UTC", "2026-12-31T23:59:59Z", "2026-12-01T00:00", "2027-01-01T00:00"),
            (Month, shanghai, "2026-04-30T16:00:00Z", "2026-04-30T16:00", "2026-05-31T16:00"),
            (Month, new_york, "2026-03-20T12:00:00Z", "2026-03-01T05:00", "2026-04-01T04:00"),
            (Month, new_york, "2026-11-20T12:00:00Z", "2026-11-01T04:00", "2026-12-01T05:00"),
        ] {
            assert_eq!(window(period, zone, now), [start, end], "{period:?} of {now} in {zone}");
        }
    }

    #[test]
    fn five_hours_begin_with_a_request_and_all_of_time_never_ends() {
        let five = window(Period::FiveHours, "America/New_York", "2026-03-08T06:30:00Z");
        assert_eq!(five, ["2026-03-08T06:30", "2026-03-08T11:30"]);
        assert_eq!(
            (Period::Total.start(7, &TimeZone::UTC), Period::Total.end(0, &TimeZone::UTC)),
            (0, i64::MAX)
        );
    }

    #[test]
    fn a_stored_window_is_over_where_the_next_one_begins() {
        let now = 1_777_622_400_000;
        for (period, stored, over) in [
            (Period::Day, now - 1, true),
            (Period::Day, now, false),
            (Period::FiveHours, now - FIVE_HOURS, true),
            (Period::FiveHours, now - FIVE_HOURS + 1, false),
            (Period::Week, now - ZONE_SHIFT - 1, true),
            (Period::Week, now - ZONE_SHIFT, false),
            (Period::Month, now - ZONE_SHIFT, false),
            (Period::Total, 0, false),
        ] {
            assert_eq!(stored < period.over_before(now), over, "{period:?} {stored}");
        }
    }

    #[test]
    fn a_week_and_a_month_of_another_time_zone_end_where_they_do_in_this_one() {
        let zone = TimeZone::get("Europe/Berlin").expect("a zone");
        for (period, now, start, end) in [
            // As in Shanghai, in Honolulu and in Berlin itself.
            (Period::Month, "2026-11-20T08:00:00Z", "2026-10-31T16:00:00Z", "2026-11-30T23:00:00Z"),
            (Period::Month, "2026-11-20T08:00:00Z", "2026-11-01T10:00:00Z", "2026-11-30T23:00:00Z"),
            (Period::Month, "2026-11-20T08:00:00Z", "2026-10-31T23:00:00Z", "2026-11-30T23:00:00Z"),
            (Period::Week, "2026-11-25T08:00:00Z", "2026-11-22T16:00:00Z", "2026-11-29T23:00:00Z"),
            (Period::Week, "2026-11-25T08:00:00Z", "2026-11-23T10:00:00Z", "2026-11-29T23:00:00Z"),
        ] {
            let [now, start, end] = [now, start, end].map(|text| parse(text).expect("a time"));
            assert_eq!(period.end(start, &zone), end, "{period:?} of {}", iso(start));
            assert!(start >= period.over_before(period.start(now, &zone)), "{period:?} of {}", iso(start));
        }
    }

    #[test]
    fn a_period_has_one_name() {
        for period in Period::ALL {
            assert_eq!(Period::parse(period.name()), Some(period));
            assert_eq!(serde_json::to_value(period).expect("a name"), period.name());
        }
        assert_eq!(Period::parse("year"), None);
    }
}
