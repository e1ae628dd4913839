//! Parses limit windows from the headers of an answer. The names are those of the vendors' documentation; Codex's are those
//! that its published client reads.

use super::{FIVE_HOURS, LimitWindow, SEVEN_DAYS, WindowSource};
use crate::time::{self, Millis};

/// The longest header name or value that is read, in bytes.
const MAX_LENGTH: usize = 96;
/// Codex's short window is at most this long, in minutes.
const SHORT_MINUTES: f64 = 360.0;
/// The longest window that is believed, in minutes: a year.
const MOST_MINUTES: f64 = 527_040.0;
const COUNTED: [&str; 4] = ["requests", "tokens", "input-tokens", "output-tokens"];
const PLANS: [&str; 2] = [FIVE_HOURS, SEVEN_DAYS];

/// The values of one window's headers.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct WindowHeaders {
    percent: Option<f64>,
    limit: Option<f64>,
    remaining: Option<f64>,
    reset_at: Option<Millis>,
    minutes: Option<f64>,
}

/// The limit headers of an answer, sorted by window.
#[derive(Default)]
struct LimitHeaders {
    /// Codex's primary and secondary window.
    codex: [WindowHeaders; 2],
    /// The windows of a plan, in the order of [`PLANS`].
    plans: [WindowHeaders; 2],
    /// The windows of counted limits, in the order of [`COUNTED`].
    counted: [WindowHeaders; 4],
}

/// Returns the windows in the headers of an answer that are still in force. Most answers have none, which shows by the
/// first letters of the names.
pub fn read<'h>(headers: impl Iterator<Item = (&'h [u8], &'h [u8])>, now: Millis) -> Vec<LimitWindow> {
    let mut windows = read_all(headers, WindowSource::Headers, now);
    windows.retain(|window| window.is_in_force(now));
    windows
}

/// Returns the windows in the headers of an answer, including expired ones.
pub fn read_all<'h>(
    headers: impl Iterator<Item = (&'h [u8], &'h [u8])>,
    source: WindowSource,
    now: Millis,
) -> Vec<LimitWindow> {
    let mut gathered: Option<Box<LimitHeaders>> = None;
    for (name, value) in headers {
        let Some((family, rest)) = Family::of(name) else { continue };
        let text = std::str::from_utf8(value).ok().map(str::trim).filter(|text| text.len() <= MAX_LENGTH);
        if let (Some(text), Ok(rest)) = (text, std::str::from_utf8(rest)) {
            gathered.get_or_insert_default().put(family, &rest.to_ascii_lowercase(), text, now);
        }
    }
    gathered.map(|gathered| gathered.windows(source, now)).unwrap_or_default()
}

#[derive(Clone, Copy)]
enum Family {
    Codex,
    Anthropic,
    OpenAi,
}

impl Family {
    /// Returns whose header this is, and the rest of its name after the prefix.
    fn of(name: &[u8]) -> Option<(Self, &[u8])> {
        let (start, family): (&[u8], _) = match (name.first()?, name.get(2)?) {
            (b'x' | b'X', b'c' | b'C') => (b"x-codex-", Self::Codex),
            (b'x' | b'X', b'r' | b'R') => (b"x-ratelimit-", Self::OpenAi),
            (b'a' | b'A', b't' | b'T') => (b"anthropic-ratelimit-", Self::Anthropic),
            _ => return None,
        };
        let (own, rest) = name.split_at_checked(start.len())?;
        (own.eq_ignore_ascii_case(start) && name.len() <= MAX_LENGTH).then_some((family, rest))
    }
}

impl LimitHeaders {
    fn put(&mut self, family: Family, name: &str, value: &str, now: Millis) {
        let number = || value.parse::<f64>().ok().filter(|number| number.is_finite());
        match family {
            Family::Codex => {
                let Some((which, about)) = name.split_once('-') else { return };
                let window = match which {
                    "primary" => &mut self.codex[0],
                    "secondary" => &mut self.codex[1],
                    _ => return,
                };
                match about {
                    "used-percent" => window.percent = number(),
                    "window-minutes" => window.minutes = number(),
                    "reset-after-seconds" => window.reset_at = number().map(|seconds| after(now, seconds)),
                    "reset-at" => window.reset_at = moment(value).or(window.reset_at),
                    _ => {}
                }
            }
            Family::Anthropic => {
                if let Some((at, about)) = name.strip_prefix("unified-").and_then(|rest| one_of(&PLANS, rest))
                {
                    let window = &mut self.plans[at];
                    match about {
                        "utilization" => {
                            window.percent = number().map(|part| part * 100.0).or(window.percent)
                        }
                        "reset" => window.reset_at = moment(value),
                        "status" if value.eq_ignore_ascii_case("rejected") => {
                            window.percent = Some(window.percent.unwrap_or_default().max(100.0));
                        }
                        _ => {}
                    }
                } else if let Some((at, about)) = one_of(&COUNTED, name) {
                    self.count(at, about, value, now);
                }
            }
            Family::OpenAi => {
                if let Some((about, counted)) = name.split_once('-')
                    && let Some(at) = COUNTED.iter().position(|known| *known == counted)
                {
                    self.count(at, about, value, now);
                }
            }
        }
    }

    fn count(&mut self, at: usize, about: &str, value: &str, now: Millis) {
        let number = || value.parse::<f64>().ok().filter(|number| number.is_finite() && *number >= 0.0);
        let window = &mut self.counted[at];
        match about {
            "limit" => window.limit = number(),
            "remaining" => window.remaining = number(),
            "reset" => {
                window.reset_at = span(value).map(|seconds| after(now, seconds)).or_else(|| moment(value))
            }
            _ => {}
        }
    }

    fn windows(self, source: WindowSource, now: Millis) -> Vec<LimitWindow> {
        let codex = codex_names(self.codex).into_iter().zip(self.codex);
        let codex =
            codex.map(|(name, headers)| (headers.long_name().unwrap_or_else(|| name.to_owned()), headers));
        let others = PLANS.into_iter().zip(self.plans).chain(COUNTED.into_iter().zip(self.counted));
        let others = others.map(|(name, headers)| (name.to_owned(), headers));
        codex.chain(others).filter_map(|(name, headers)| headers.window(name, source, now)).collect()
    }
}

/// Names the two windows of Codex: the shorter one is the five-hour window.
fn codex_names([primary, secondary]: [WindowHeaders; 2]) -> [&'static str; 2] {
    let [short, long] = PLANS;
    let of_plan = |headers: WindowHeaders| headers.minutes.filter(|_| headers.long_name().is_none());
    let primary_is_short = match (of_plan(primary), of_plan(secondary)) {
        (Some(one), Some(other)) => one <= other,
        (Some(one), None) => one <= SHORT_MINUTES,
        (None, Some(other)) => other > SHORT_MINUTES,
        (None, None) => false,
    };
    if primary_is_short { [short, long] } else { [long, short] }
}

impl WindowHeaders {
    /// Returns the name of a window that is much longer than a week, as some plans have: `30d`.
    fn long_name(self) -> Option<String> {
        const DAY: f64 = 1440.0;
        let days =
            (self.minutes.filter(|minutes| (8.0 * DAY..=MOST_MINUTES).contains(minutes))? / DAY).round();
        Some(format!("{days}d"))
    }

    fn window(self, name: String, source: WindowSource, now: Millis) -> Option<LimitWindow> {
        let counted = || {
            let (limit, remaining) = (self.limit.filter(|limit| *limit > 0.0)?, self.remaining?);
            Some(((limit - remaining) / limit * 100.0).max(0.0))
        };
        let used = self.percent.or_else(counted)?.max(0.0);
        Some(LimitWindow {
            name: name.into(),
            used_percent: (used * 100.0).round() / 100.0,
            limit: self.limit,
            remaining: self.remaining,
            reset_at: self.reset_at.filter(|at| time::is_date(*at)),
            minutes: self.minutes.filter(|minutes| (1.0..=MOST_MINUTES).contains(minutes)).map(|m| m as i64),
            source,
            observed_at: now,
        })
    }
}

/// Returns the index of the known word that a name begins with, and the rest of the name after the hyphen.
fn one_of<'n>(known: &[&str], name: &'n str) -> Option<(usize, &'n str)> {
    known.iter().enumerate().find_map(|(at, word)| Some((at, name.strip_prefix(word)?.strip_prefix('-')?)))
}

fn after(now: Millis, seconds: f64) -> Millis {
    // Float to integer casts saturate, so that no number of a provider can wrap.
    now.saturating_add((seconds.max(0.0) * 1000.0) as Millis)
}

/// Reads a date, or seconds or milliseconds since 1970.
fn moment(value: &str) -> Option<Millis> {
    value.parse().ok().and_then(time::of_unix).or_else(|| time::parse(value))
}

/// Reads a duration in seconds: `6m0s`, `1h2m3.5s`, `20ms`, or a number of seconds; `None` for a point in time.
fn span(value: &str) -> Option<f64> {
    if let Ok(seconds) = value.parse::<f64>() {
        // A number this large is a date in seconds.
        return Some(seconds).filter(|seconds| (0.0..1e9).contains(seconds));
    }
    let (mut rest, mut seconds) = (value, 0.0);
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let amount: f64 = rest[..digits].parse().ok()?;
        let units = &rest[digits..];
        let length = units.find(|c: char| c.is_ascii_digit()).unwrap_or(units.len());
        seconds += amount
            * match &units[..length] {
                "ns" => 1e-9,
                // Go writes the micro sign; the Greek letter looks the same.
                "us" | "\u{b5}s" | "\u{3bc}s" => 1e-6,
                "ms" => 0.001,
                "s" => 1.0,
                "m" => 60.0,
                "h" => 3600.0,
                "d" => 86_400.0,
                _ => return None,
            };
        rest = &units[length..];
    }
    (!value.is_empty()).then_some(seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Millis = 1_777_622_400_000;

    /// The name, percentage, limit, remaining amount and seconds to the reset of a window.
    type Seen = (String, f64, Option<f64>, Option<f64>, Option<i64>);

    fn seen(headers: &[(&str, &str)]) -> Vec<Seen> {
        let windows = read(headers.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())), NOW);
        let seconds = |at: Millis| (at - NOW) / 1000;
        windows
            .into_iter()
            .map(|w| (w.name.into(), w.used_percent, w.limit, w.remaining, w.reset_at.map(seconds)))
            .collect()
    }

    fn plan(name: &str, percent: f64, reset: Option<i64>) -> Seen {
        (name.to_owned(), percent, None, None, reset)
    }

    #[test]
    fn windows_of_codex_are_named_by_their_length() {
        let of = |minutes: [&str; 2]| {
            seen(&[
                ("X-Codex-Primary-Used-Percent", "37.5"),
                ("x-codex-primary-reset-after-seconds", "3600"),
                ("x-codex-primary-window-minutes", minutes[0]),
                ("x-codex-secondary-used-percent", "12"),
                ("x-codex-secondary-reset-at", "1777708800"),
                ("x-codex-secondary-window-minutes", minutes[1]),
                ("x-codex-turn-state", "s"),
            ])
        };
        let short = [plan("5h", 37.5, Some(3600)), plan("7d", 12.0, Some(86_400))];
        let long = [plan("7d", 37.5, Some(3600)), plan("5h", 12.0, Some(86_400))];
        for (minutes, wanted) in [
            (["300", "10080"], &short),
            (["10080", "300"], &long),
            (["300", ""], &short),
            (["10080", "?"], &long),
            (["", "10080"], &short),
            (["", ""], &long),
            (["43199", "10080"], &[plan("30d", 37.5, Some(3600)), plan("7d", 12.0, Some(86_400))]),
        ] {
            assert_eq!(of(minutes), wanted, "{minutes:?}");
        }
    }

    #[test]
    fn a_reset_that_is_no_date_and_a_length_of_ages_are_left_out() {
        for (name, value) in
            [("reset-after-seconds", "1e308"), ("reset-after-seconds", "9e12"), ("reset-at", "1e300")]
        {
            let name = format!("x-codex-primary-{name}");
            let headers = [
                ("x-codex-primary-used-percent", "50"),
                (name.as_str(), value),
                ("x-codex-primary-window-minutes", "1e308"),
            ];
            let windows = read(headers.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())), NOW);
            assert_eq!((windows[0].reset_at, windows[0].minutes), (None, None), "{name}: {value}");
        }
    }

    #[test]
    fn windows_of_anthropic_are_those_of_the_plan_and_those_of_the_key() {
        assert_eq!(
            seen(&[
                ("anthropic-ratelimit-unified-status", "allowed"),
                ("anthropic-ratelimit-unified-5h-utilization", "0.425"),
                ("anthropic-ratelimit-unified-5h-reset", "1777626000"),
                ("anthropic-ratelimit-unified-5h-status", "allowed"),
                ("anthropic-ratelimit-unified-7d-status", "rejected"),
                ("anthropic-ratelimit-unified-7d-reset", "1777708800"),
                ("anthropic-ratelimit-unified-7d-surprise", "1"),
                ("anthropic-ratelimit-input-tokens-limit", "200"),
                ("anthropic-ratelimit-input-tokens-remaining", "50"),
                ("anthropic-ratelimit-input-tokens-reset", "2026-05-01T08:01:00Z"),
            ]),
            [
                plan("5h", 42.5, Some(3600)),
                plan("7d", 100.0, Some(86_400)),
                ("input-tokens".to_owned(), 75.0, Some(200.0), Some(50.0), Some(60)),
            ]
        );
    }

    #[test]
    fn windows_of_openai_reset_after_a_span() {
        for (reset, seconds) in [
            ("6m0s", 360),
            ("1h2m3.5s", 3723),
            ("7", 7),
            ("1777622460", 60),
            ("1d", 86_400),
            ("1777622460000", 60),
            ("90000000\u{b5}s", 90),
        ] {
            assert_eq!(
                seen(&[
                    ("x-ratelimit-limit-requests", "100"),
                    ("x-ratelimit-remaining-requests", "4"),
                    ("x-ratelimit-reset-requests", reset),
                    ("x-ratelimit-limit-tokens", "0"),
                    ("x-ratelimit-remaining-tokens", "0"),
                ]),
                [("requests".to_owned(), 96.0, Some(100.0), Some(4.0), Some(seconds))],
                "{reset}"
            );
        }
    }

    #[test]
    fn what_is_over_or_makes_no_sense_is_no_window() {
        let long = "9".repeat(200);
        for headers in [
            vec![("content-type", "text/event-stream"), ("x-request-id", "1"), ("retry-after", "7")],
            vec![("x-codex-primary-used-percent", "50"), ("x-codex-primary-reset-at", "1777622399")],
            vec![("x-codex-primary-used-percent", "50"), ("x-codex-primary-reset-after-seconds", "-5")],
            vec![("x-codex-primary-used-percent", "NaN")],
            vec![("x-codex-primary-used-percent", long.as_str())],
            vec![("x-ratelimit-limit-requests", "10"), ("x-ratelimit-reset-requests", "1s")],
            vec![("x-ratelimit-limit-", "10"), ("x-c", ""), ("a", "1"), ("", "")],
        ] {
            assert!(seen(&headers).is_empty(), "{headers:?}");
        }
    }
}
