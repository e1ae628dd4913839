//! Route units: several accounts of one person that serve as one channel.
//!
//! The channel that stands for a unit holds its members. Each member is a channel of its own with the same channel id, but
//! its own account, credential and counters. A selection weighs the whole unit against the other channels and then picks
//! one of its members. Only members cool, never the whole unit. A member has the same counters on every route of the unit.

/// How a route unit picks the next of its accounts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnitStrategy {
    /// The member that was selected longest ago.
    #[default]
    RoundRobin,
    /// The member that was selected last, for as long as it can serve.
    StickUntilUnavailable,
}

// === impl UnitStrategy ===

impl UnitStrategy {
    /// Parses a strategy's name; ignores case and surrounding whitespace.
    pub fn parse(name: &str) -> Option<Self> {
        let name = name.trim();
        [Self::RoundRobin, Self::StickUntilUnavailable]
            .into_iter()
            .find(|strategy| strategy.as_str().eq_ignore_ascii_case(name))
    }

    /// Returns the name used in the store and in API answers.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::RoundRobin => "round_robin",
            Self::StickUntilUnavailable => "stick_until_unavailable",
        }
    }
}
