//! The load of something with a limit on concurrent use, and how far that lowers a channel's share
//! of the requests.

/// The number of users at work at a gate, and of those in its queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    pub active: usize,
    pub waiting: usize,
    /// The maximum number at work at once; 0 is any number.
    pub limit: usize,
}

impl Load {
    /// Returns a factor from 0.18 to 1: it shrinks with the number at work, and more so with the number that waits.
    pub fn multiplier(self) -> f64 {
        if self.limit == 0 {
            return 1.0;
        }
        let per_slot = |count: usize| count as f64 / self.limit as f64;
        let full = if self.active >= self.limit { 0.12 } else { 0.0 };
        let busy = 0.28 * per_slot(self.active).clamp(0.0, 1.5);
        let queued = 0.32 * per_slot(self.waiting).clamp(0.0, 3.0);
        (1.0 - busy - queued - full).clamp(0.18, 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_at_work_and_in_the_queue_lower_the_share() {
        for (active, waiting, limit, expected) in [
            (0, 0, 2, 1.0),
            (1, 0, 2, 0.86),
            (2, 0, 2, 0.60),
            (2, 1, 2, 0.44),
            (1, 1, 1, 0.28),
            (1, 0, 1, 0.60),
            // Both parts are capped: at 1.5 times the limit at work, and at three times the limit in the queue.
            (9, 0, 2, 0.46),
            (2, 9, 2, 0.18),
            (5, 5, 0, 1.0),
        ] {
            let load = Load { active, waiting, limit };
            assert!((load.multiplier() - expected).abs() < 1e-9, "{load:?}: {}", load.multiplier());
        }
    }
}
