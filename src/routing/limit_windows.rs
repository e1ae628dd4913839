//! How much of its usage limits an account has used, as its provider reports with every answer.
//!
//! | headers of | windows |
//! |---|---|
//! | Codex (`x-codex-primary-…`, `x-codex-secondary-…`) | `5h`, `7d` |
//! | Anthropic subscriptions (`anthropic-ratelimit-unified-5h-…`, `-7d-…`) | `5h`, `7d` |
//! | Anthropic keys (`anthropic-ratelimit-{requests,tokens,…}-…`) | `requests`, `tokens`, `input-tokens`, `output-tokens` |
//! | OpenAI and compatible upstreams (`x-ratelimit-{limit,remaining,reset}-…`) | `requests`, `tokens` |
//!
//! [`read()`] and [`read_all()`] only parse. [`LimitWindows`] keeps the result per account, in memory; it is saved with the
//! health of sites. A window whose reset has passed is ignored.

mod read;

use std::iter::Sum;
use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering::Relaxed};

use serde::{Deserialize, Serialize};

use crate::sync::lock;
use crate::time::{self, DAY, MINUTE, Millis};

pub use read::{read, read_all};

/// The names of the two windows of a plan.
pub const FIVE_HOURS: &str = "5h";
pub const SEVEN_DAYS: &str = "7d";
/// The most windows kept per account.
const MAX_WINDOWS: usize = 8;
/// How long a window without a reset time counts, in milliseconds.
const WITHOUT_RESET: Millis = 10 * MINUTE;
/// The longest name of a window, in bytes.
const MAX_NAME: usize = 32;
/// The latest reset of a reached limit that is believed, in milliseconds from now.
const LATEST_RESET: Millis = 366 * DAY;

/// One usage limit of an account.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LimitWindow {
    pub name: Box<str>,
    /// May be more than 100.
    pub used_percent: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remaining: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reset_at: Option<Millis>,
    /// The length of the window in minutes, if the provider reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub minutes: Option<i64>,
    pub source: WindowSource,
    pub observed_at: Millis,
}

/// Where a window was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WindowSource {
    /// Read from the headers of an answer to a request.
    Headers,
    /// Read from the answer to a query of the quota.
    Quota,
}

/// The usage limits of one account, as last seen.
#[derive(Debug, Default)]
pub struct LimitWindows {
    windows: Mutex<Vec<LimitWindow>>,
    /// The highest `used_percent` among the windows, rounded up; a selection mostly need not look further.
    fullest: AtomicU32,
    /// The reset time of the limit that was reached last; 0 for none.
    last_reset: AtomicI64,
    /// The number of calls to `note`; a cached view of the windows is stale once it changes.
    notes: AtomicU64,
}

/// A value that changes whenever a limit is recorded or a window ends; only good for comparing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct LimitsVersion {
    /// How often windows were recorded.
    pub notes: u64,
    /// How many windows are in force.
    pub in_force: usize,
}

impl Sum for LimitsVersion {
    fn sum<I: Iterator<Item = Self>>(versions: I) -> Self {
        versions.fold(Self::default(), |sum, version| Self {
            notes: sum.notes + version.notes,
            in_force: sum.in_force + version.in_force,
        })
    }
}

// === impl LimitWindow ===

impl LimitWindow {
    /// Returns whether the window still counts.
    pub fn is_in_force(&self, now: Millis) -> bool {
        now < self.reset_at.unwrap_or(self.observed_at.saturating_add(WITHOUT_RESET))
    }

    /// Whether `next` is another window than this one, or the same one used to another whole percentage.
    fn has_moved_to(&self, next: &Self) -> bool {
        !self.is_in_force(next.observed_at) || self.used_percent as u64 != next.used_percent as u64
    }

    /// Returns the window with sound values, whatever a file or an upstream said; `None` if it cannot be kept.
    fn sound(mut self) -> Option<Self> {
        let amount = |value: f64| value.is_finite().then(|| value.clamp(0.0, 1e15));
        self.used_percent = amount(self.used_percent)?;
        self.limit = self.limit.and_then(amount);
        self.remaining = self.remaining.and_then(amount);
        self.reset_at = self.reset_at.filter(|at| time::is_date(*at));
        (!self.name.is_empty() && self.name.len() <= MAX_NAME).then_some(self)
    }
}

// === impl LimitWindows ===

impl LimitWindows {
    /// Adds the windows just seen; each replaces the one of the same name. Returns whether one is new or used to another
    /// whole percentage.
    pub fn note(&self, seen: Vec<LimitWindow>) -> bool {
        let mut has_moved = false;
        let mut windows = lock(&self.windows);
        for window in seen.into_iter().filter_map(LimitWindow::sound) {
            let known = windows.iter().position(|known| known.name == window.name);
            let known = known.map(|at| windows.remove(at));
            has_moved |= known.is_none_or(|known| known.has_moved_to(&window));
            if windows.len() >= MAX_WINDOWS {
                let oldest = windows.iter().enumerate().min_by_key(|(_, known)| known.observed_at);
                oldest.map(|(at, _)| at).into_iter().for_each(|at| drop(windows.remove(at)));
            }
            windows.push(window);
        }
        let fullest = windows.iter().map(|window| window.used_percent).fold(0.0, f64::max);
        self.fullest.store(fullest.ceil() as u32, Relaxed);
        drop(windows);
        self.notes.fetch_add(1, Relaxed);
        has_moved
    }

    pub fn version(&self, now: Millis) -> LimitsVersion {
        let in_force = lock(&self.windows).iter().filter(|window| window.is_in_force(now)).count();
        LimitsVersion { notes: self.notes.load(Relaxed), in_force }
    }

    /// Returns the latest reset among the full windows that have a reset time.
    pub fn full_until(&self, now: Millis) -> Option<Millis> {
        let windows = lock(&self.windows);
        let full = windows.iter().filter(|window| window.used_percent >= 100.0 && window.is_in_force(now));
        full.filter_map(|window| window.reset_at).max()
    }

    /// Records that a limit was reached which resets at this time.
    pub fn note_reached(&self, reset_at: Millis, now: Millis) {
        self.last_reset.store(reset_at.min(now.saturating_add(LATEST_RESET)), Relaxed);
    }

    /// Returns the reset time of the limit that was reached last; it may be in the past.
    pub fn last_reset(&self) -> Option<Millis> {
        Some(self.last_reset.load(Relaxed)).filter(|at| *at > 0)
    }

    /// Returns the windows in force, sorted by name.
    pub fn in_force(&self, now: Millis) -> Vec<LimitWindow> {
        let mut windows: Vec<_> =
            lock(&self.windows).iter().filter(|window| window.is_in_force(now)).cloned().collect();
        windows.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        windows
    }

    /// Returns whether a window in force is used to at least this percentage.
    pub fn reach(&self, percent: f64, now: Millis) -> bool {
        f64::from(self.fullest.load(Relaxed)) >= percent
            && lock(&self.windows)
                .iter()
                .any(|window| window.used_percent >= percent && window.is_in_force(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(name: &str, used_percent: f64, reset_at: Option<Millis>, observed_at: Millis) -> LimitWindow {
        let (limit, remaining, minutes, source) = (None, None, None, WindowSource::Headers);
        LimitWindow {
            name: name.into(),
            used_percent,
            limit,
            remaining,
            reset_at,
            minutes,
            source,
            observed_at,
        }
    }

    #[test]
    fn a_window_counts_until_its_reset() {
        let windows = LimitWindows::default();
        assert!(!windows.reach(95.0, 0));
        windows.note(vec![window("5h", 95.0, Some(100), 0), window("7d", 10.0, None, 0)]);
        assert!(windows.reach(95.0, 99) && !windows.reach(95.1, 99) && !windows.reach(95.0, 100));
        assert_eq!(windows.in_force(99).len(), 2);
        assert_eq!(windows.in_force(100).len(), 1);
        assert!(windows.in_force(WITHOUT_RESET).is_empty());
        windows.note(vec![window("5h", 1.0, Some(200), 50)]);
        assert!(!windows.reach(95.0, 99), "the newer one replaces it");
    }

    #[test]
    fn a_window_moves_when_it_is_new_or_used_to_another_whole_percentage() {
        let windows = LimitWindows::default();
        for (used_percent, at, has_moved) in [
            (42.0, 0, true),
            (42.9, 1, false),
            (43.0, 2, true),
            (43.0, 99, false),
            (43.0, 100, true),
            (1.0, 101, true),
        ] {
            let reset_at = if at < 100 { 100 } else { 200 };
            assert_eq!(windows.note(vec![window("5h", used_percent, Some(reset_at), at)]), has_moved, "{at}");
        }
        assert!(!windows.note(Vec::new()));
    }

    #[test]
    fn the_last_of_the_full_windows_says_how_long_a_refusal_holds() {
        let windows = LimitWindows::default();
        let version = |notes, in_force| LimitsVersion { notes, in_force };
        assert_eq!((windows.full_until(0), windows.version(0)), (None, version(0, 0)));
        windows.note(vec![
            window("5h", 100.0, Some(100), 0),
            window("7d", 101.5, Some(300), 0),
            window("tokens", 99.9, Some(900), 0),
            window("requests", 100.0, None, 0),
        ]);
        assert_eq!((windows.full_until(0), windows.version(0)), (Some(300), version(1, 4)));
        assert_eq!((windows.full_until(300), windows.version(300)), (None, version(1, 2)), "both are over");
    }

    #[test]
    fn eight_windows_are_kept_whatever_is_told() {
        let windows = LimitWindows::default();
        for number in 0..20 {
            windows.note(vec![window(&format!("w{number}"), 1.0, Some(1_000), number)]);
        }
        let names: Vec<_> = windows.in_force(0).into_iter().map(|window| window.name).collect();
        assert_eq!(names.len(), MAX_WINDOWS);
        assert!(names.contains(&"w19".into()) && !names.contains(&"w11".into()), "{names:?}");
        windows.note(vec![
            window("", 1.0, None, 0),
            window("x", f64::NAN, None, 0),
            window(&"n".repeat(33), 1.0, None, 0),
        ]);
        assert_eq!(windows.in_force(0).len(), MAX_WINDOWS);
    }

    #[test]
    fn a_reset_behind_the_end_of_the_calendar_is_none() {
        let windows = LimitWindows::default();
        for (reset_at, kept) in [(i64::MAX, None), (4_102_444_800_000, Some(4_102_444_800_000))] {
            windows.note(vec![window("5h", 100.0, Some(reset_at), 0)]);
            assert_eq!(windows.in_force(0)[0].reset_at, kept);
            assert_eq!(windows.in_force(WITHOUT_RESET).is_empty(), kept.is_none());
        }
    }
}
