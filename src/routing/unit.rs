//! Route units: several accounts of one person that serve as one channel.
//!
//! The channel that stands for a unit has its members with it, each a channel of its own with the same number: with an
//! account, a credential and counters. A selection weighs the whole among the others and then takes one of its members.
//! The members rest, the whole never does. A member has the same counters on every route of the unit.

/// How the next of several accounts that are one channel is picked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnitStrategy {
    /// Whoever has waited longest.
    #[default]
    RoundRobin,
    /// The one that was used last, for as long as it can serve.
    StickUntilUnavailable,
}

// === impl UnitStrategy ===

impl UnitStrategy {
    /// The strategy of this name, in any case and with blanks around it.
    pub fn parse(name: &str) -> Option<Self> {
        let name = name.trim();
        [Self::RoundRobin, Self::StickUntilUnavailable]
            .into_iter()
            .find(|strategy| strategy.as_str().eq_ignore_ascii_case(name))
    }

    /// Its name in the store and in answers.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::RoundRobin => "round_robin",
            Self::StickUntilUnavailable => "stick_until_unavailable",
        }
    }
}
