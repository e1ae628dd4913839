//! Routes and their channels: which models there are, and who serves each.
//!
//! ```text
//! Route ──< Channel ── Account ── Site ──< Endpoint
//!             └ ChannelLive                  └ EndpointLive
//! ```

use std::sync::Arc;

use super::live::ChannelLive;
use super::pattern::ModelPattern;
use super::site::{Account, Credential};
use super::unit::UnitStrategy;
use crate::ids::{ChannelId, RouteId, ServedBy, TokenId};
use crate::time::Millis;

/// One way to serve a route: an account, with one of its tokens or its own credential.
#[derive(Clone, Debug)]
pub struct Channel {
    pub id: ChannelId,
    /// The route that owns it; groups use the channels of other routes.
    pub route_id: RouteId,
    pub account: Arc<Account>,
    pub token_id: Option<TokenId>,
    pub token_name: Option<String>,
    /// The model's name at this upstream. Without one of its own, a channel of an exact route has the
    /// route's pattern here ([`Snapshot`](super::Snapshot) sees to it).
    pub source_model: Option<ModelPattern>,
    /// Lower is preferred.
    pub priority: i64,
    pub weight: i64,
    pub enabled: bool,
    /// None when the stored one is missing or unusable.
    pub credential: Option<Credential>,
    pub live: Arc<ChannelLive>,
    /// What it has to do with a route unit.
    pub unit: UnitRole,
}

/// What a channel has to do with a route unit.
#[derive(Clone, Debug, Default)]
pub enum UnitRole {
    #[default]
    Nothing,
    /// It stands for the unit; without members it serves nobody.
    Whole { strategy: UnitStrategy, members: Vec<Arc<Channel>> },
    /// It serves for the whole, whose counters these are.
    Member { whole: Arc<ChannelLive> },
}

/// Whose channels a route uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RouteMode {
    /// Owns its channels.
    Pattern,
    /// Uses the channels of its enabled, exact source routes.
    ExplicitGroup { sources: Vec<RouteId> },
}

/// How one of the eligible channels is picked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Strategy {
    /// Drawn, by weights.
    #[default]
    Weighted,
    /// Whoever has waited longest.
    RoundRobin,
    /// The sites that work best take turns; the others are observed now and then.
    StableFirst,
}

/// Models by name or pattern, and the channels that serve them.
#[derive(Clone, Debug)]
pub struct Route {
    pub id: RouteId,
    pub pattern: ModelPattern,
    /// A public alias; the name of a group.
    pub display_name: Option<String>,
    pub mode: RouteMode,
    /// Requested model or pattern → model sent upstream, in the operator's order.
    pub mapping: Vec<(ModelPattern, String)>,
    pub strategy: Strategy,
    pub enabled: bool,
    /// By ascending id. A group is given without any and filled by [`Snapshot`](super::Snapshot).
    pub channels: Vec<Arc<Channel>>,
}

// === impl UnitRole ===

impl UnitRole {
    /// The members of a whole.
    pub fn members(&self) -> &[Arc<Channel>] {
        match self {
            Self::Whole { members, .. } => members,
            Self::Nothing | Self::Member { .. } => &[],
        }
    }

    pub fn is_whole(&self) -> bool {
        matches!(self, Self::Whole { .. })
    }
}

// === impl Channel ===

impl Channel {
    /// Tells it from every other channel, also from the other members of its unit.
    pub fn key(&self) -> ServedBy {
        match self.unit {
            UnitRole::Member { .. } => ServedBy::Member(self.account.id),
            UnitRole::Nothing | UnitRole::Whole { .. } => ServedBy::Channel(self.id),
        }
    }

    /// The counters of the unit that it serves for.
    pub fn whole(&self) -> Option<&Arc<ChannelLive>> {
        match &self.unit {
            UnitRole::Member { whole } => Some(whole),
            UnitRole::Nothing | UnitRole::Whole { .. } => None,
        }
    }
}

/// Who serves for a channel: the members of a unit, else the channel itself.
pub fn serving(channel: &Arc<Channel>) -> &[Arc<Channel>] {
    match &channel.unit {
        UnitRole::Whole { members, .. } => members,
        UnitRole::Nothing | UnitRole::Member { .. } => std::slice::from_ref(channel),
    }
}

/// Until when the channel is left alone: a unit for as long as all its members are, until the first of them is back.
pub fn cooling_until(channel: &Arc<Channel>, now: Millis) -> Option<Millis> {
    let ends =
        serving(channel).iter().map(|one| one.live.cooldown_until().filter(|_| one.live.is_cooling(now)));
    ends.collect::<Option<Vec<_>>>()?.into_iter().min()
}

// === impl Strategy ===

impl Strategy {
    /// The strategy of this name; any other name means the default.
    pub fn parse(name: &str) -> Self {
        match name.trim() {
            "round_robin" => Self::RoundRobin,
            "stable_first" => Self::StableFirst,
            _ => Self::Weighted,
        }
    }

    /// Its name in the store and in answers.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Weighted => "weighted",
            Self::RoundRobin => "round_robin",
            Self::StableFirst => "stable_first",
        }
    }
}

// === impl Route ===

impl Route {
    pub fn is_group(&self) -> bool {
        matches!(self.mode, RouteMode::ExplicitGroup { .. })
    }

    /// Owns the channels of exactly one model name.
    pub fn is_exact(&self) -> bool {
        !self.is_group() && self.pattern.is_exact()
    }

    /// A copy of the route with these channels.
    pub fn with_channels(&self, channels: Vec<Arc<Channel>>) -> Self {
        Self {
            id: self.id,
            pattern: self.pattern.clone(),
            display_name: self.display_name.clone(),
            mode: self.mode.clone(),
            mapping: self.mapping.clone(),
            strategy: self.strategy,
            enabled: self.enabled,
            channels,
        }
    }

    /// What clients call it: its alias, else its pattern.
    pub fn public_name(&self) -> &str {
        self.alias().unwrap_or(self.pattern.as_str())
    }

    pub(super) fn alias(&self) -> Option<&str> {
        self.display_name.as_deref().filter(|name| !name.is_empty())
    }

    /// The model this route sends upstream for a requested one: by a mapping rule whose
    /// key is the very name, else by the first whose key matches, else the name itself.
    pub fn mapped<'r>(&'r self, model: &'r str) -> &'r str {
        let rules = || self.mapping.iter().filter(|(_, upstream)| !upstream.is_empty());
        rules()
            .find(|(key, _)| key.as_str() == model)
            .or_else(|| rules().find(|(key, _)| key.matches(model)))
            .map_or(model, |(_, upstream)| upstream)
    }
}
