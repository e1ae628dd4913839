//! Time as the service stores and shows it: UTC epoch milliseconds inside, ISO 8601 with milliseconds and `Z` outside.

use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::Value;

/// Milliseconds since the Unix epoch, UTC.
pub type Millis = i64;

/// A minute in milliseconds.
pub const MINUTE: Millis = 60 * 1000;
/// An hour in milliseconds.
pub const HOUR: Millis = 60 * MINUTE;
/// A day of 24 hours in milliseconds. Local days may be longer or shorter.
pub const DAY: Millis = 24 * HOUR;

/// Returns the current time. Pure rooms take it as an argument; only the faces call this.
pub fn now_ms() -> Millis {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |elapsed| i64::try_from(elapsed.as_millis()).unwrap_or(i64::MAX))
}

/// Returns the current time in whole seconds.
pub fn now_secs() -> u64 {
    now_ms().unsigned_abs() / 1000
}

/// Converts `duration` to milliseconds.
pub fn millis(duration: Duration) -> Millis {
    Millis::try_from(duration.as_millis()).unwrap_or(Millis::MAX)
}

/// Returns milliseconds on a clock that never steps back, for measuring limits; it is unrelated to the time of day.
pub fn monotonic_ms() -> Millis {
    static START: OnceLock<Instant> = OnceLock::new();
    let elapsed = START.get_or_init(Instant::now).elapsed();
    i64::try_from(elapsed.as_millis()).unwrap_or(i64::MAX)
}

/// Returns the duration in milliseconds, at least 1, since 0 reads as not measured.
pub fn measured_ms(took: Duration) -> Millis {
    i64::try_from(took.as_millis()).unwrap_or(i64::MAX).max(1)
}

/// Returns a time limit in seconds, rounded to a tenth, for messages.
pub fn in_seconds(limit: Duration) -> f64 {
    (limit.as_secs_f64() * 10.0).round() / 10.0
}

/// Formats a time as `2026-05-01T08:00:00.000Z`. A value outside the calendar's range shows as the epoch.
pub fn iso(ms: Millis) -> String {
    let stamp = jiff::Timestamp::from_millisecond(ms).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    format!("{stamp:.3}")
}

/// Whether a time has a date: times after the year 9999 have none.
pub fn is_date(ms: Millis) -> bool {
    jiff::Timestamp::from_millisecond(ms).is_ok()
}

/// Formats a time as `Fri, 01 May 2026 08:00:00 GMT`, as HTTP headers have it (RFC 9110 §5.6.7).
pub fn http_date(ms: Millis) -> String {
    let stamp = jiff::Timestamp::from_millisecond(ms).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    jiff::fmt::rfc2822::DateTimePrinter::new().timestamp_to_rfc9110_string(&stamp).unwrap_or_default()
}

/// Reads an HTTP date in any of its three forms (RFC 9110 §5.6.7).
pub fn from_http_date(text: &str) -> Option<Millis> {
    const OLDER_FORMS: [&str; 2] = ["%A, %d-%b-%y %H:%M:%S GMT", "%a %b %e %H:%M:%S %Y"];
    let older =
        |form| jiff::civil::DateTime::strptime(form, text).ok()?.to_zoned(jiff::tz::TimeZone::UTC).ok();
    let date = match jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(text) {
        Ok(date) => date,
        Err(_) => OLDER_FORMS.into_iter().find_map(older)?.timestamp(),
    };
    Some(date.as_millisecond())
}

/// The latest time that is read: the end of `9999-12-30T21:59:59Z`, which is in the year 9999 in every zone.
const LATEST: Millis = 253_402_207_199_999;

/// The last second of the last year of four digits, since 1970.
const LAST_SECOND: f64 = 253_402_300_799.0;

/// Reads a time as clients send it: ISO 8601 with an offset, `YYYY-MM-DD HH:MM:SS` or a bare date taken as UTC, a year
/// or a year and a month, all of these also with slashes, a date of mails and HTTP, a date with the English name of its
/// month, or a number of seconds (> 10^9) or milliseconds (beyond the seconds until the year 9999). Returns `None` for
/// anything else.
pub fn parse(text: &str) -> Option<Millis> {
    let text = &*text.trim().replace('/', "-");
    // Programs write the last day of the calendar for "never"; it is no time in every zone.
    if text.starts_with("9999-12-31") {
        return Some(LATEST);
    }
    if let Some(date) = year_and_month(text) {
        return Some(date.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp().as_millisecond());
    }
    if let Ok(number) = text.parse::<f64>() {
        return from_number(number);
    }
    if let Ok(date) = jiff::fmt::rfc2822::parse(text) {
        return Some(date.timestamp().as_millisecond());
    }
    if let Ok(stamp) = text.parse::<jiff::Timestamp>() {
        return Some(stamp.as_millisecond());
    }
    let zoneless = text
        .parse::<jiff::civil::DateTime>()
        .or_else(|_| text.parse::<jiff::civil::Date>().map(|date| date.at(0, 0, 0, 0)))
        .ok()
        .or_else(|| with_named_month(text))?;
    Some(zoneless.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp().as_millisecond())
}

/// Reads a date with the English name of its month: `Nov 27, 2026`, `27 November 2026 10:00`.
fn with_named_month(text: &str) -> Option<jiff::civil::DateTime> {
    let text = text.replace(',', " ").split_whitespace().collect::<Vec<_>>().join(" ");
    ["%b %d %Y", "%B %d %Y", "%d %b %Y", "%d %B %Y"].into_iter().find_map(|date| {
        let on_day = jiff::civil::Date::strptime(date, &text).map(|date| date.at(0, 0, 0, 0));
        on_day.ok().or_else(|| {
            let at = |time| jiff::civil::DateTime::strptime(format!("{date} {time}"), &text).ok();
            ["%H:%M", "%H:%M:%S"].into_iter().find_map(at)
        })
    })
}

/// Reads `YYYY` or `YYYY-MM` as the first day of the period.
fn year_and_month(text: &str) -> Option<jiff::civil::Date> {
    let (year, month) = text.split_once('-').unwrap_or((text, "01"));
    let is =
        |part: &str, digits: usize| part.len() == digits && part.bytes().all(|byte| byte.is_ascii_digit());
    let (year, month) = (is(year, 4).then_some(year)?, is(month, 2).then_some(month)?);
    jiff::civil::Date::new(year.parse().ok()?, month.parse().ok()?, 1).ok()
}

/// Returns the start of the local day of `ms`: midnight, or the first instant after it if a change of the clocks
/// skipped midnight.
pub fn local_day_start(ms: Millis, zone: &jiff::tz::TimeZone) -> Millis {
    let stamp = jiff::Timestamp::from_millisecond(ms).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    stamp.to_zoned(zone.clone()).start_of_day().map_or(ms, |start| start.timestamp().as_millisecond())
}

/// Returns the start of the local hour of `ms`, when the local clock shows a full hour.
pub fn local_hour_start(ms: Millis, zone: &jiff::tz::TimeZone) -> Millis {
    let stamp = jiff::Timestamp::from_millisecond(ms).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    let offset = Millis::from(zone.to_offset(stamp).seconds()) * 1000;
    ms - (ms + offset).rem_euclid(HOUR)
}

/// Returns the local day of `ms`.
pub fn local_day(ms: Millis, zone: &jiff::tz::TimeZone) -> jiff::civil::Date {
    let stamp = jiff::Timestamp::from_millisecond(ms).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    stamp.to_zoned(zone.clone()).date()
}

/// Reads milliseconds from a JSON value: a text as [`parse`] reads it, or a number.
pub fn from_json(value: &Value) -> Option<Millis> {
    match value {
        Value::String(text) => parse(text),
        value => from_number(value.as_f64()?),
    }
}

/// Reads a time that a person may mean from a number of seconds or milliseconds since 1970; smaller numbers are no time.
pub fn from_number(number: f64) -> Option<Millis> {
    of_unix(number).filter(|_| number > 1e9)
}

/// Reads seconds or milliseconds since 1970: a number that is a date as seconds counts seconds. Returns `None` for what is
/// no time after 1970 with a year of four digits.
pub fn of_unix(number: f64) -> Option<Millis> {
    of_unix_millis(if number <= LAST_SECOND { number * 1000.0 } else { number })
}

/// Reads milliseconds since 1970. Returns `None` for what is no time after 1970 with a year of four digits.
pub fn of_unix_millis(millis: f64) -> Option<Millis> {
    (millis > 0.0 && millis <= LAST_SECOND * 1000.0).then_some((millis as Millis).min(LATEST))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_measured_took_at_least_a_millisecond() {
        for (micros, ms) in [(0, 1), (20, 1), (999, 1), (1_000, 1), (2_999, 2)] {
            assert_eq!(measured_ms(Duration::from_micros(micros)), ms, "{micros}");
        }
    }

    #[test]
    fn headers_have_their_own_form_of_a_time() {
        assert_eq!(http_date(1_777_622_400_000), "Fri, 01 May 2026 08:00:00 GMT");
        for (text, at) in [
            ("Fri, 01 May 2026 08:00:00 GMT", Some(1_777_622_400_000)),
            ("Friday, 01-May-26 08:00:00 GMT", Some(1_777_622_400_000)),
            ("Fri May  1 08:00:00 2026", Some(1_777_622_400_000)),
            ("Sunday, 06-Nov-94 08:49:37 GMT", Some(784_111_777_000)),
            ("Friday, 01-May-26 08:00:00", None),
            ("Fri May 32 08:00:00 2026", None),
            ("soon", None),
        ] {
            assert_eq!(from_http_date(text), at, "{text}");
        }
    }

    #[test]
    fn times_show_milliseconds_and_z() {
        assert_eq!(iso(1_777_622_400_000), "2026-05-01T08:00:00.000Z");
        assert_eq!(iso(1_777_622_400_123), "2026-05-01T08:00:00.123Z");
    }

    #[test]
    fn a_local_day_begins_at_local_midnight() {
        for (zone, now, start) in [
            ("Asia/Shanghai", "2026-03-01T15:59:59Z", "2026-02-28T16:00:00Z"),
            ("Asia/Shanghai", "2026-03-01T16:00:00Z", "2026-03-01T16:00:00Z"),
            ("America/New_York", "2026-03-08T20:00:00Z", "2026-03-08T05:00:00Z"),
            ("Asia/Beirut", "2026-03-29T10:00:00Z", "2026-03-28T22:00:00Z"), // midnight is skipped
        ] {
            let tz = jiff::tz::TimeZone::get(zone).expect(zone);
            let now = parse(now).expect("a time");
            assert_eq!(local_day_start(now, &tz), parse(start).expect("a time"), "{zone}");
        }
    }

    #[test]
    fn the_last_day_of_the_calendar_is_its_last_moment() {
        for text in ["9999-12-31", "9999-12-31T23:59:59Z", "9999/12/31 23:59:59", "253402300799"] {
            let last = parse(text).expect(text);
            assert!(is_date(last) && iso(last).starts_with("9999-12-30"), "{text}: {}", iso(last));
        }
    }

    #[test]
    fn a_number_is_seconds_or_milliseconds_since_1970() {
        for (number, at) in [
            (1.5, Some(1_500)),
            (1_777_622_400.0, Some(1_777_622_400_000)),
            (1_777_622_400_000.0, Some(1_777_622_400_000)),
            (253_402_300_799.0, Some(LATEST)),
            (253_402_300_800.0, Some(253_402_300_800)),
            (0.0, None),
            (-1.0, None),
            (1e300, None),
            (f64::NAN, None),
        ] {
            assert_eq!(of_unix(number), at, "{number}");
        }
        assert_eq!(from_number(12.0), None);
    }

    #[test]
    fn every_documented_form_is_read() {
        for text in [
            "2026-05-01T08:00:00Z",
            "2026-05-01T10:00:00+02:00",
            "2026-05-01 08:00:00",
            "1777622400",
            "1777622400000",
            "2026/05/01 08:00:00",
            "Fri, 01 May 2026 08:00:00 GMT",
            "May 1, 2026 08:00",
            "1 May 2026 08:00:00",
        ] {
            assert_eq!(parse(text), Some(1_777_622_400_000), "{text}");
        }
        assert_eq!(parse("946684800000"), parse("2000"), "milliseconds of an old time");
        assert_eq!(parse("2030/02"), parse("2030-02-01"));
        assert_eq!(parse("2026-05-01"), parse("2026-05-01T00:00:00Z"));
        for text in ["", "soon", "12", "2026-13-01", "2026-13"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
