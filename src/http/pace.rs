//! How slowly a body may come: at least 1 KiB per second of waiting for it, on average.
//!
//! A body begins with some patience. Waiting uses it up and bytes restore it, up to the time over which the average is
//! taken: a client that has sent a lot at once may be silent for that long and no longer. Only the wait for the client
//! counts, not the time in which the service handles the bytes.

use std::time::Duration;

/// The patience at the beginning of a body.
const FIRST: Duration = Duration::from_secs(10);
/// The time over which the average is taken, and the most patience.
const SPAN: Duration = Duration::from_secs(30);
const BYTES_A_SECOND: u32 = 1024;

/// The patience left with one body.
#[derive(Debug)]
pub(super) struct BodyPatience(Duration);

/// Why the rest of a body is not waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlowBody {
    /// No bytes came for this long.
    Silent(Duration),
    TooSlow,
    /// The service is stopping.
    Stopping,
}

impl Default for BodyPatience {
    fn default() -> Self {
        Self(FIRST)
    }
}

impl BodyPatience {
    pub fn received(&mut self, bytes: usize) {
        let earned = SPAN.mul_f64((bytes as f64 / f64::from(BYTES_A_SECOND) / SPAN.as_secs_f64()).min(1.0));
        self.0 = (self.0 + earned).min(SPAN);
    }

    pub fn waited(&mut self, time: Duration) {
        self.0 = self.0.saturating_sub(time);
    }

    /// Returns how much longer to wait for more.
    pub fn remaining(&self) -> Duration {
        self.0
    }
}

impl std::fmt::Display for SlowBody {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Silent(limit) => {
                write!(out, "The request body stalled: nothing came for {} s", limit.as_secs())
            }
            Self::TooSlow => {
                write!(out, "The request body came too slowly: send at least {BYTES_A_SECOND} bytes a second")
            }
            Self::Stopping => out.write_str("The service is stopping: send the request again"),
        }
    }
}

impl std::error::Error for SlowBody {}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the seconds after which a body is given up that brings this many bytes every `every` seconds.
    fn given_up_after(bytes: usize, every: u64) -> Option<u64> {
        let mut pace = BodyPatience::default();
        let mut clock = 0;
        while clock < 3600 {
            if pace.remaining() < Duration::from_secs(every) {
                return Some(clock + pace.remaining().as_secs());
            }
            pace.waited(Duration::from_secs(every));
            pace.received(bytes);
            clock += every;
        }
        None
    }

    #[test]
    fn a_body_has_to_keep_up_with_the_least_rate() {
        for (bytes, every, expected) in [
            (0, 1, Some(10)),
            (1, 1, Some(10)),
            (110, 1, Some(11)),
            (512, 1, Some(19)),
            (1024, 1, None),
            (8 * 1024, 8, None),
            (1 << 20, 9, None),
            // A burst earns no more patience than the average's time span.
            (1 << 20, 31, Some(10)),
        ] {
            assert_eq!(given_up_after(bytes, every), expected, "{bytes} bytes every {every} s");
        }
    }

    #[test]
    fn who_has_sent_a_lot_may_be_silent_for_a_while() {
        let mut pace = BodyPatience::default();
        pace.received(5 << 20);
        assert_eq!(pace.remaining(), SPAN);
        pace.waited(Duration::from_secs(29));
        assert_eq!(pace.remaining(), Duration::from_secs(1));
        pace.waited(Duration::from_secs(29));
        assert_eq!(pace.remaining(), Duration::ZERO);
    }
}
