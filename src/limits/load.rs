//! How busy something is that takes only so many at once, and by how much that lowers a channel's share
//! of the requests.

/// Those at work at a gate, and those who wait for their turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    pub active: usize,
    pub waiting: usize,
    /// Most that may be at work at once; 0 is any number.
    pub limit: usize,
}

impl Load {
    /// Between 0.18 and 1: the share shrinks with those at work, and more so with those who wait.
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
            // Both parts end: 1.5 times the limit at work, three times the limit in the queue.
            (9, 0, 2, 0.46),
            (2, 9, 2, 0.18),
            (5, 5, 0, 1.0),
        ] {
            let load = Load { active, waiting, limit };
            assert!((load.multiplier() - expected).abs() < 1e-9, "{load:?}: {}", load.multiplier());
        }
    }
}
