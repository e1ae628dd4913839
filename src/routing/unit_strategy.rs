//! How the next member of a route unit is picked.

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
