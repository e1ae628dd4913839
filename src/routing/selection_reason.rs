//! Why a channel was selected: a small value that travels with every request to its log row.
//!
//! It holds numbers only; its text is built where it is displayed, off the request's path.

use std::fmt;

use super::rotation_pool::Pool;
use crate::ids::RouteId;

/// Why a channel was selected.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SelectionReason {
    /// Drawn at random by its share among the candidates of the most preferred priority.
    Weighted {
        priority: i64,
        candidates: u32,
        avoided: u32,
        /// The probability of the draw, from 0 to 1.
        share: f64,
    },
    /// The candidate that was selected longest ago.
    RoundRobin { candidates: u32, avoided: u32 },
    /// The next site in the rotation.
    StableFirst {
        /// The requested route, whose rotation this is; for a group, the group.
        route_id: RouteId,
        pool: Pool,
        /// The number of sites that take turns.
        leaders: u32,
        candidates: u32,
        avoided: u32,
    },
    /// The channel that served the conversation last.
    Bound {
        /// Whether the route's strategy depends on when channels were selected last.
        by_turns: bool,
    },
    /// Half-open, and not tried for a while.
    Trial,
    /// Half-open, while no other channel can serve.
    HalfOpen,
    /// All channels are cooling, this one for the longest time.
    LastResort,
}

impl SelectionReason {
    /// Returns whether this selection counts as the channel's turn and is recorded as such.
    pub fn takes_a_turn(&self) -> bool {
        !matches!(self, Self::Bound { by_turns: false })
    }

    /// Returns whether the channel is cooling, so that only one request at a time may try it.
    pub fn is_trial(&self) -> bool {
        matches!(self, Self::Trial | Self::HalfOpen | Self::LastResort)
    }
}

impl fmt::Display for SelectionReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let avoided = match *self {
            Self::Weighted { priority, candidates, avoided, share } => {
                write!(f, "weighted: P{priority}, {candidates} available, p={:.1}%", share * 100.0)?;
                avoided
            }
            Self::RoundRobin { candidates, avoided } => {
                write!(f, "round_robin: {candidates} available")?;
                avoided
            }
            Self::StableFirst { pool, leaders, candidates, avoided, .. } => {
                let pool = match pool {
                    Pool::Primary => "primary",
                    Pool::Observation => "observation",
                };
                write!(f, "stable_first: {pool} pool, {candidates} available, {leaders} in turn")?;
                avoided
            }
            Self::Bound { .. } => return f.write_str("sticky: it served the conversation last"),
            Self::Trial => return f.write_str("trial: half-open, and not tried for a quarter of an hour"),
            Self::HalfOpen => return f.write_str("half_open: no other channel can serve"),
            Self::LastResort => return f.write_str("last_resort: all cool, this one for the longest time"),
        };
        match avoided {
            0 => Ok(()),
            some => write!(f, ", {some} avoided"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_fits_on_a_line() {
        for (reason, text) in [
            (
                SelectionReason::Weighted { priority: 0, candidates: 3, avoided: 0, share: 0.408914 },
                "weighted: P0, 3 available, p=40.9%",
            ),
            (
                SelectionReason::Weighted { priority: 2, candidates: 1, avoided: 4, share: 1.0 },
                "weighted: P2, 1 available, p=100.0%, 4 avoided",
            ),
            (SelectionReason::RoundRobin { candidates: 5, avoided: 0 }, "round_robin: 5 available"),
            (
                SelectionReason::StableFirst {
                    route_id: RouteId::new(1),
                    pool: Pool::Observation,
                    leaders: 2,
                    candidates: 5,
                    avoided: 1,
                },
                "stable_first: observation pool, 5 available, 2 in turn, 1 avoided",
            ),
            (SelectionReason::Bound { by_turns: false }, "sticky: it served the conversation last"),
            (SelectionReason::HalfOpen, "half_open: no other channel can serve"),
        ] {
            assert_eq!(reason.to_string(), text);
        }
    }
}
