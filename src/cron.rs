//! Schedules as operators write them: five fields, or six with the seconds first.
//!
//! ```text
//! [second] minute hour day-of-month month day-of-week       * a a-b a,b */n a/n a-b/n
//! ```
//!
//! Months and week days may be named (`JAN`, `Monday`); Sunday is 0 and 7. When both day fields are restricted, a day that
//! matches either counts, as in every cron since Vixie's. Times are those of a zone's local clock. Changes of the
//! clocks are also handled as in Vixie's:
//!
//! | schedule | the hour that is skipped | the hour that comes twice |
//! |---|---|---|
//! | certain hours (`30 2 * * *`) | runs that much later | runs once |
//! | every hour (`*/10 * * * *`) | nothing to do | runs in both |

use jiff::Timestamp;
use jiff::civil::{Date, Time};
use jiff::tz::TimeZone;

use crate::time::Millis;

const MONTHS: [&str; 12] = [
    "JANUARY",
    "FEBRUARY",
    "MARCH",
    "APRIL",
    "MAY",
    "JUNE",
    "JULY",
    "AUGUST",
    "SEPTEMBER",
    "OCTOBER",
    "NOVEMBER",
    "DECEMBER",
];
const WEEK_DAYS: [&str; 7] = ["SUNDAY", "MONDAY", "TUESDAY", "WEDNESDAY", "THURSDAY", "FRIDAY", "SATURDAY"];
/// The number of days to search for a matching day, enough for 29 February on a given week day across 2100.
const MAX_DAYS: usize = 366 * 41;
/// The hours of `*`.
const EVERY_HOUR: u64 = (1 << 24) - 1;
/// The maximum length of a schedule in bytes; one that lists every minute of an hour has 170.
const MAX_LENGTH: usize = 512;
/// The number of days of each month in a leap year.
const MONTH_DAYS: [u32; 12] = [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
/// The most hours that clocks skip at once, apart from whole days.
const LARGEST_SKIP: i8 = 2;
/// The number of clock changes in [`MAX_DAYS`], where they change most often.
const MAX_TURNS: usize = 4 * 41;

/// A schedule. Each field is the set of its values, one bit each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cron {
    seconds: u64,
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    week_days: u64,
    /// Whether a day field allows any day, so that the other one alone decides.
    any_day: bool,
    any_week_day: bool,
}

impl Cron {
    /// Reads a schedule; the error says what is wrong with which field, or that its day never comes.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.len() > MAX_LENGTH {
            return Err(format!("it is longer than {MAX_LENGTH} bytes"));
        }
        let fields: Vec<&str> = text.split_whitespace().collect();
        let (second, rest) = match fields.len() {
            5 => ("0", &fields[..]),
            6 => (fields[0], &fields[1..]),
            count => return Err(format!("{count} fields instead of 5 or 6")),
        };
        let week_days = field("day of week", rest[4], 0, 7, &WEEK_DAYS)?;
        let cron = Self {
            seconds: field("second", second, 0, 59, &[])?,
            minutes: field("minute", rest[0], 0, 59, &[])?,
            hours: field("hour", rest[1], 0, 23, &[])?,
            days: field("day of month", rest[2], 1, 31, &[])?,
            months: field("month", rest[3], 1, 12, &MONTHS)?,
            // 7 counts as 0.
            week_days: (week_days | week_days >> 7) & 0x7f,
            any_day: is_any(rest[2]),
            any_week_day: is_any(rest[4]),
        };
        if !cron.has_days() {
            return Err(format!("no month `{}` has a day `{}`", rest[3], rest[2]));
        }
        Ok(cron)
    }

    /// Whether any day ever matches: not on 30 February.
    fn has_days(&self) -> bool {
        let by_week_day = !self.any_day && !self.any_week_day;
        let months = (1..).zip(MONTH_DAYS).filter(|(month, _)| self.months >> month & 1 == 1);
        by_week_day || months.map(|(_, days)| self.days & ((2 << days) - 1)).any(|days| days != 0)
    }

    /// Returns the first time after `at`; `None` if there is none that can be written.
    pub fn next_after(&self, at: Millis, zone: &TimeZone) -> Option<Millis> {
        if self.hours == EVERY_HOUR { self.next_by_turns(at, zone) } else { self.search(at, zone) }
    }

    /// Returns the first time after `at`, searched with a fixed offset between two clock changes of the zone.
    fn next_by_turns(&self, mut at: Millis, zone: &TimeZone) -> Option<Millis> {
        for _ in 0..MAX_TURNS {
            let instant = Timestamp::from_millisecond(at + 1).ok()?;
            let found = self.search(at, &zone.to_offset(instant).to_time_zone())?;
            let turn = zone.following(instant).next().map(|turn| turn.timestamp().as_millisecond());
            match turn.filter(|turn| found >= *turn) {
                Some(turn) => at = turn - 1,
                None => return Some(found),
            }
        }
        None
    }

    fn search(&self, at: Millis, zone: &TimeZone) -> Option<Millis> {
        let now = Timestamp::from_millisecond(at).ok()?.to_zoned(zone.clone());
        // What was due in an hour that the clocks have skipped runs after it, by its local time before now.
        let mut date = now.date();
        let mut from = if now.hour() < LARGEST_SKIP {
            Time::midnight()
        } else {
            Time::constant(now.hour() - LARGEST_SKIP, 0, 0, 0)
        };
        for _ in 0..MAX_DAYS {
            if self.holds_day(date)
                && let Some(found) = self.first_on(date, from, at, zone)
            {
                return Some(found);
            }
            date = date.tomorrow().ok()?;
            from = Time::midnight();
        }
        None
    }

    fn first_on(&self, date: Date, from: Time, at: Millis, zone: &TimeZone) -> Option<Millis> {
        for hour in (from.hour()..24).filter(|hour| has(self.hours, *hour)) {
            for minute in (0..60).filter(|minute| has(self.minutes, *minute)) {
                if (hour, minute) < (from.hour(), from.minute()) {
                    continue;
                }
                for second in (0..60).filter(|second| has(self.seconds, *second)) {
                    let local = date.at(hour, minute, second, 0).to_zoned(zone.clone()).ok()?;
                    let found = local.timestamp().as_millisecond();
                    if found > at {
                        return Some(found);
                    }
                }
            }
        }
        None
    }

    fn holds_day(&self, date: Date) -> bool {
        let day = has(self.days, date.day());
        let week_day = has(self.week_days, date.weekday().to_sunday_zero_offset());
        let is_day = match (self.any_day, self.any_week_day) {
            (false, false) => day || week_day,
            _ => day && week_day,
        };
        is_day && has(self.months, date.month())
    }
}

fn has(set: u64, value: i8) -> bool {
    set >> value & 1 == 1
}

fn is_any(field: &str) -> bool {
    field.starts_with(['*', '?'])
}

/// Parses one field into the set of its values. `names`, or their first three letters, stand for the values from `min`
/// on.
fn field(what: &str, text: &str, min: u32, max: u32, names: &[&str]) -> Result<u64, String> {
    let by_name = if names.is_empty() { "" } else { ", or an English name" };
    let bad = || format!("the {what} `{text}` is invalid; it must be from {min} to {max}{by_name}");
    let number = |part: &str| -> Option<u32> {
        let is_short = |name: &str| name.get(..3).is_some_and(|short| short.eq_ignore_ascii_case(part));
        let named = names.iter().position(|name| name.eq_ignore_ascii_case(part) || is_short(name));
        let value = match named {
            Some(index) => u32::try_from(index).ok()? + min,
            None if part.bytes().all(|byte| byte.is_ascii_digit()) => part.parse().ok()?,
            None => return None,
        };
        (min..=max).contains(&value).then_some(value)
    };
    let mut set = 0;
    for item in text.split(',') {
        let (range, step) = match item.split_once('/') {
            Some((range, step)) => {
                let digits = step.bytes().all(|byte| byte.is_ascii_digit());
                let step = step.parse::<u32>().ok().filter(|step| digits && *step > 0);
                (range, Some(step.ok_or_else(bad)?))
            }
            None => (item, None),
        };
        let (first, last) = match (range, range.split_once('-')) {
            ("*" | "?", _) => (min, max),
            (_, Some((first, last))) => (number(first).ok_or_else(bad)?, number(last).ok_or_else(bad)?),
            _ => {
                let first = number(range).ok_or_else(bad)?;
                (first, if step.is_some() { max } else { first })
            }
        };
        if first > last {
            return Err(format!("the {what} `{text}` is invalid; a range must not run backwards"));
        }
        for value in (first..=last).step_by(step.unwrap_or(1) as usize) {
            set |= 1 << value;
        }
    }
    Ok(set)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::{iso, parse};

    fn next(cron: &str, after: &str, zone: &str) -> Option<String> {
        let cron = Cron::parse(cron).unwrap_or_else(|error| panic!("{cron}: {error}"));
        let zone = TimeZone::get(zone).expect("a zone");
        cron.next_after(parse(after).expect("a time"), &zone).map(iso)
    }

    #[test]
    fn the_next_time_is_that_of_the_local_clock() {
        for (cron, after, zone, expected) in [
            ("0 8 * * *", "2026-05-01T00:00:00Z", "Asia/Shanghai", "2026-05-02T00:00:00.000Z"),
            ("0 8 * * *", "2026-04-30T23:59:59Z", "Asia/Shanghai", "2026-05-01T00:00:00.000Z"),
            ("*/15 * * * *", "2026-05-01T08:01:02Z", "UTC", "2026-05-01T08:15:00.000Z"),
            ("*/10 * * * * *", "2026-05-01T08:01:02Z", "UTC", "2026-05-01T08:01:10.000Z"),
            ("5/20 9-10 * * *", "2026-05-01T10:45:00Z", "UTC", "2026-05-02T09:05:00.000Z"),
            ("0 0 29 2 *", "2026-05-01T00:00:00Z", "UTC", "2028-02-29T00:00:00.000Z"),
            ("0 0 1 JAN ?", "2026-05-01T00:00:00Z", "UTC", "2027-01-01T00:00:00.000Z"),
            ("0 0 * * 7", "2026-05-01T00:00:00Z", "UTC", "2026-05-03T00:00:00.000Z"),
            // 30 February never comes, but its Mondays do.
            ("0 0 30 2 MON", "2026-05-01T00:00:00Z", "UTC", "2027-02-01T00:00:00.000Z"),
            ("0 0 1 january Monday-FRI,sunday", "2026-05-01T00:00:00Z", "UTC", "2027-01-01T00:00:00.000Z"),
            ("0 0 * * mon-wed", "2026-05-01T00:00:00Z", "UTC", "2026-05-04T00:00:00.000Z"),
            // A day that matches either of two restricted day fields counts.
            ("0 0 13 * FRI", "2026-05-01T00:00:00Z", "UTC", "2026-05-08T00:00:00.000Z"),
            // 02:30 does not exist that night: it runs one hour later.
            ("30 2 * * *", "2026-03-08T06:00:00Z", "America/New_York", "2026-03-08T07:30:00.000Z"),
            ("30 2 * * *", "2026-03-08T07:10:00Z", "America/New_York", "2026-03-08T07:30:00.000Z"),
            ("30 2 * * *", "2026-03-08T07:30:00Z", "America/New_York", "2026-03-09T06:30:00.000Z"),
            // 01:30 comes twice that night: it runs the first time.
            ("30 1 * * *", "2026-11-01T05:29:00Z", "America/New_York", "2026-11-01T05:30:00.000Z"),
            ("30 1 * * *", "2026-11-01T05:30:00Z", "America/New_York", "2026-11-02T06:30:00.000Z"),
            // An hourly schedule runs in both hours, and misses none when one is skipped.
            ("0 * * * *", "2026-11-01T05:00:00Z", "America/New_York", "2026-11-01T06:00:00.000Z"),
            ("0 * * * *", "2026-11-01T06:00:00Z", "America/New_York", "2026-11-01T07:00:00.000Z"),
            ("*/20 * * * *", "2026-11-01T05:40:00Z", "America/New_York", "2026-11-01T06:00:00.000Z"),
            ("0 * * * *", "2026-03-08T06:00:00Z", "America/New_York", "2026-03-08T07:00:00.000Z"),
            ("*/20 * * * *", "2026-03-08T06:40:00Z", "America/New_York", "2026-03-08T07:00:00.000Z"),
            // A day of 23 hours and one of 25.
            ("58 23 * * *", "2026-03-08T04:58:00Z", "America/New_York", "2026-03-09T03:58:00.000Z"),
            ("0 8 * * *", "2026-03-07T13:00:00Z", "America/New_York", "2026-03-08T12:00:00.000Z"),
            ("0 8 * * *", "2026-10-31T12:00:00Z", "America/New_York", "2026-11-01T13:00:00.000Z"),
            // Shanghai's clocks have stood still since 1991, and its hours begin where UTC's do.
            ("0 8 * * *", "2026-03-08T00:00:00Z", "Asia/Shanghai", "2026-03-09T00:00:00.000Z"),
            ("0 * * * *", "2026-03-08T06:00:00Z", "Asia/Shanghai", "2026-03-08T07:00:00.000Z"),
            ("0 * * * *", "2026-05-01T08:01:02Z", "Asia/Kolkata", "2026-05-01T08:30:00.000Z"),
            ("0 6 * * 1-5", "2026-05-01T00:00:00Z", "Asia/Shanghai", "2026-05-03T22:00:00.000Z"),
        ] {
            assert_eq!(next(cron, after, zone).as_deref(), Some(expected), "{cron}");
        }
    }

    #[test]
    fn hourly_runs_are_an_hour_apart_whatever_the_clocks_do() {
        let zone = TimeZone::get("America/New_York").expect("a zone");
        let hourly = Cron::parse("0 * * * *").expect("a schedule");
        for day in ["2026-03-08T00:00:00Z", "2026-11-01T00:00:00Z"] {
            let mut at = parse(day).expect("a time");
            for _ in 0..48 {
                let next = hourly.next_after(at, &zone).expect("a time");
                assert_eq!(next - at, 3_600_000, "after {}", iso(at));
                at = next;
            }
        }
    }

    #[test]
    fn what_is_no_schedule_is_refused_by_field() {
        for (cron, named) in [
            ("", "0 fields"),
            ("* * * *", "4 fields"),
            ("* * * * * * *", "7 fields"),
            ("60 * * * *", "minute"),
            ("* 24 * * *", "hour"),
            ("* * 0 * *", "day of month"),
            ("* * * 13 *", "month"),
            ("* * * * 8", "day of week"),
            ("60 * * * * *", "second"),
            ("*/0 * * * *", "minute"),
            ("5-1 * * * *", "minute `5-1` is invalid; a range must not run backwards"),
            ("* * * * fri-mon", "day of week `fri-mon` is invalid; a range must not run backwards"),
            ("* * * * sund", "day of week `sund` is invalid; it must be from 0 to 7, or an English name"),
            ("1,,2 * * * *", "minute"),
            ("+1 * * * *", "minute"),
            ("-1 * * * *", "minute"),
            ("a * * * *", "minute"),
            ("*/+5 * * * *", "minute"),
            ("@daily", "1 fields"),
            ("0 0 30 2 *", "no month `2` has a day `30`"),
            ("0 * 31 FEB,4,6,9,NOV *", "a day `31`"),
            (&format!("{}0 * * * *", "0,".repeat(300)), "longer than 512 bytes"),
        ] {
            let error = Cron::parse(cron).expect_err(cron);
            assert!(error.contains(named), "{cron}: {error}");
        }
    }
}
