//! How well a site, and a model on it, has worked recently.
//!
//! ```text
//! failure ─▶ penalty, halved every 10 min ─┐
//! success ─▶ latency, smoothed            ─┼─▶ multiplier of the channel's share
//! transient failures in a row ─▶ breaker  ─┘        └─▶ while open: others are preferred
//! outcomes, halved every 30 min ─▶ recent success rate (stable_first)
//! ```
//!
//! [`Health`] is one such record, a value that events change; [`SiteHealth`] holds the records of a site and its models for
//! many requests at once; [`saved`] carries them over a restart. Health only demotes: it never keeps a channel from being
//! picked when it is the only one.

pub mod saved;
mod site;

use super::failure;
use crate::error_words::ErrorText;
use crate::time::{MINUTE, Millis};

pub use site::SiteHealth;

const PENALTY_HALF_LIFE: Millis = 10 * MINUTE;
const RECENT_HALF_LIFE: Millis = 30 * MINUTE;
/// Transient failures further apart than this do not count as in a row, in milliseconds.
const STREAK_WINDOW: Millis = 5 * MINUTE;
/// The number of transient failures in a row that opens the breaker.
const STREAK: u32 = 3;
/// How long the breaker stays open the first, the second and any further time, in milliseconds.
const BREAKER_MS: [Millis; 3] = [MINUTE, 5 * MINUTE, 30 * MINUTE];
/// The lowest multiplier.
const LEAST: f64 = 0.08;
/// A penalty below this counts as none: it would take hours to fade completely.
const NO_PENALTY: f64 = 1e-3;

/// The health record of one site, or of one model on one site.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Health {
    /// When penalty and counts were last brought up to date, which every event does.
    at: Millis,
    penalty: f64,
    latency_ema: Option<f64>,
    streak: u32,
    last_transient: Option<Millis>,
    successes: f64,
    failures: f64,
    breaker_level: usize,
    breaker_until: Option<Millis>,
    last_success: Option<Millis>,
    last_failure: Option<Millis>,
}

/// The penalty of a failure, and whether it counts towards the breaker.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FailureWeight {
    pub penalty: f64,
    pub transient: bool,
}

/// Recent outcomes, each worth half after half an hour.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Recent {
    pub successes: f64,
    pub failures: f64,
}

// === impl FailureWeight ===

impl FailureWeight {
    /// Weighs a failure with this status (0 without one) and this error text of the upstream.
    pub fn of(status: u16, text: &ErrorText) -> Self {
        let lasting = |penalty| Self { penalty, transient: false };
        if failure::is_usage_limit(status, text) {
            lasting(0.4)
        } else if text.is_about_model() {
            lasting(0.9)
        } else if text.is_about_protocol() {
            lasting(0.6)
        } else if text.is_about_validation() {
            lasting(0.25)
        } else if status >= 500 || text.is_transient() {
            Self { penalty: 2.5, transient: true }
        } else if status == 429 {
            Self { penalty: 2.2, transient: true }
        } else if matches!(status, 401 | 403) {
            lasting(1.8)
        } else if (400..500).contains(&status) {
            lasting(0.9)
        } else {
            lasting(1.2)
        }
    }
}

// === impl Health ===

impl Health {
    /// Records a success and how long its answer took to begin, in milliseconds.
    pub fn succeed(&mut self, latency_ms: u64, now: Millis) {
        self.age(now);
        self.penalty = (self.penalty * 0.2 - 0.3).max(0.0);
        (self.streak, self.breaker_level, self.breaker_until) = (0, 0, None);
        let latency = latency_ms as f64;
        self.latency_ema = Some(self.latency_ema.map_or(latency, |ema| 0.7 * ema + 0.3 * latency));
        self.successes += 1.0;
        self.last_success = Some(now);
    }

    /// Records a failure; several transient ones in a row open the breaker.
    pub fn fail(&mut self, weight: FailureWeight, now: Millis) {
        self.age(now);
        self.penalty += weight.penalty;
        self.failures += 1.0;
        self.last_failure = Some(now);
        if !weight.transient {
            self.streak = 0;
            return;
        }
        let in_a_row = self.last_transient.is_some_and(|last| now - last <= STREAK_WINDOW);
        self.streak = if in_a_row { self.streak + 1 } else { 1 };
        self.last_transient = Some(now);
        if self.streak >= STREAK {
            self.streak = 0;
            self.breaker_level = (self.breaker_level + 1).min(BREAKER_MS.len());
            self.breaker_until = Some(now + BREAKER_MS[self.breaker_level - 1]);
        }
    }

    /// Returns the factor for a channel's share: 1 when all is well, [`LEAST`] at the worst and while the breaker is open.
    pub fn multiplier(&self, now: Millis) -> f64 {
        if self.is_open(now) {
            return LEAST;
        }
        let slowness = self.latency_ema.map_or(0.0, |ema| ((ema - 2_500.0) / 30_000.0).clamp(0.0, 1.0));
        ((1.0 - 0.35 * slowness) / (1.0 + self.penalty_at(now))).clamp(LEAST, 1.0)
    }

    /// Returns whether the breaker is open, so that other channels are preferred.
    pub fn is_open(&self, now: Millis) -> bool {
        self.breaker_until.is_some_and(|until| now < until)
    }

    /// Returns the recent outcomes, faded to `now`.
    pub fn recent(&self, now: Millis) -> Recent {
        let left = halved(now - self.at, RECENT_HALF_LIFE);
        Recent { successes: self.successes * left, failures: self.failures * left }
    }

    /// Returns whether this record can affect a selection, unlike an empty one. That may end as time passes; the next event
    /// notices.
    fn is_notable(&self) -> bool {
        self.penalty > 0.0
            || self.breaker_until.is_some()
            || self.latency_ema.is_some_and(|ema| ema > 2_500.0)
    }

    /// Returns the time of the last event.
    fn last_event(&self) -> Millis {
        self.at
    }

    fn penalty_at(&self, now: Millis) -> f64 {
        // There is nearly always no penalty, and computing a power is not cheap.
        if self.penalty > 0.0 { self.penalty * halved(now - self.at, PENALTY_HALF_LIFE) } else { 0.0 }
    }

    /// Brings the fading values up to date. Does nothing when the clock has stepped back.
    fn age(&mut self, now: Millis) {
        self.penalty = self.penalty_at(now);
        if self.penalty < NO_PENALTY {
            self.penalty = 0.0;
        }
        let recent = self.recent(now);
        (self.successes, self.failures) = (recent.successes, recent.failures);
        self.at = self.at.max(now);
    }
}

/// Returns the fraction that is left after `elapsed`.
fn halved(elapsed: Millis, half_life: Millis) -> f64 {
    if elapsed <= 0 {
        return 1.0;
    }
    0.5_f64.powf(elapsed as f64 / half_life as f64)
}

// === impl Recent ===

impl Recent {
    /// Blends the outcomes of a site with those of a model on it; the model counts more, if anything is known of it.
    pub fn blended(site: Self, model: Self) -> Self {
        if model.samples() <= 0.0 {
            return site;
        }
        Self {
            successes: 0.35 * site.successes + 0.65 * model.successes,
            failures: 0.35 * site.failures + 0.65 * model.failures,
        }
    }

    /// Returns the number of outcomes, faded ones in part.
    fn samples(self) -> f64 {
        self.successes + self.failures
    }

    /// Returns the success rate, computed with one more success and one more failure.
    pub fn rate(self) -> f64 {
        (self.successes + 1.0) / (self.samples() + 2.0)
    }

    /// Returns how far to trust the rate, from 0 to 1 (from twelve outcomes on).
    pub fn confidence(self) -> f64 {
        (self.samples() / 12.0).min(1.0)
    }
}

#[cfg(test)]
mod tests;
