//! Routes and their channels: which models exist, and what serves each.
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
use crate::ids::{ChannelId, ChannelOrMember, RouteId, TokenId};
use crate::time::Millis;

/// One way to serve a route: an account, with one of its tokens or its own credential.
#[derive(Clone, Debug)]
pub struct Channel {
    pub id: ChannelId,
    /// The route that owns the channel; groups use the channels of other routes.
    pub route_id: RouteId,
    pub account: Arc<Account>,
    pub token_id: Option<TokenId>,
    pub token_name: Option<String>,
    /// The model's name at this upstream. A channel of an exact route that has none of its own gets the route's pattern
    /// ([`Snapshot`](super::Snapshot) sees to it).
    pub source_model: Option<ModelPattern>,
    /// The priority; lower is preferred.
    pub priority: i64,
    pub weight: i64,
    pub enabled: bool,
    /// `None` when the stored credential is missing or unusable.
    pub credential: Option<Credential>,
    pub live: Arc<ChannelLive>,
    /// The channel's role in a route unit.
    pub unit: UnitRole,
}

/// A channel's role in a route unit.
#[derive(Clone, Debug, Default)]
pub enum UnitRole {
    #[default]
    Nothing,
    /// The channel stands for the unit; without members it cannot serve.
    Whole { strategy: UnitStrategy, members: Vec<Arc<Channel>> },
    /// The channel serves for a unit.
    Member { whole: Arc<ChannelLive> },
}

/// Where a route's channels come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RouteMode {
    /// The route owns its channels.
    Pattern,
    /// The route uses the channels of its enabled, exact source routes.
    ExplicitGroup { sources: Vec<RouteId> },
}

/// How a route picks one of its eligible channels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Strategy {
    /// Drawn at random, by weights.
    #[default]
    Weighted,
    /// The channel that was selected longest ago.
    RoundRobin,
    /// The sites that work best take turns; the others are observed now and then.
    StableFirst,
}

/// A model name or pattern, and the channels that serve it.
#[derive(Clone, Debug)]
pub struct Route {
    pub id: RouteId,
    pub pattern: ModelPattern,
    /// A public alias; for a group, its name.
    pub display_name: Option<String>,
    pub mode: RouteMode,
    /// Rules from a requested model or pattern to the model sent upstream, in the operator's order.
    pub mapping: Vec<(ModelPattern, String)>,
    pub strategy: Strategy,
    pub enabled: bool,
    /// The channels, by ascending id. A group is passed in without channels and filled by [`Snapshot`](super::Snapshot).
    pub channels: Vec<Arc<Channel>>,
}

// === impl UnitRole ===

impl UnitRole {
    /// Returns the members of a unit; empty for any other role.
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
    /// Returns the key that tells this channel from every other one, including the other members of its unit.
    pub fn key(&self) -> ChannelOrMember {
        match self.unit {
            UnitRole::Member { .. } => ChannelOrMember::Member(self.account.id),
            UnitRole::Nothing | UnitRole::Whole { .. } => ChannelOrMember::Channel(self.id),
        }
    }

    /// Returns the counters of the unit that this member serves for.
    pub fn whole(&self) -> Option<&Arc<ChannelLive>> {
        match &self.unit {
            UnitRole::Member { whole } => Some(whole),
            UnitRole::Nothing | UnitRole::Whole { .. } => None,
        }
    }
}

/// Returns the channels that serve for a channel: the members of a unit, else the channel itself.
pub fn serving(channel: &Arc<Channel>) -> &[Arc<Channel>] {
    match &channel.unit {
        UnitRole::Whole { members, .. } => members,
        UnitRole::Nothing | UnitRole::Member { .. } => std::slice::from_ref(channel),
    }
}

/// Returns the end of a channel's cooldown, if it is cooling. A unit is cooling while all its members are, until the first
/// of them is back.
pub fn cooling_until(channel: &Arc<Channel>, now: Millis) -> Option<Millis> {
    let ends =
        serving(channel).iter().map(|one| one.live.cooldown_until().filter(|_| one.live.is_cooling(now)));
    ends.collect::<Option<Vec<_>>>()?.into_iter().min()
}

/// Returns until when providers announced they would refuse a channel, if that is after its cooldown. A unit is limited
/// while all its members rest and some are limited, until the first of them is back.
pub fn limited_until(channel: &Arc<Channel>, now: Millis) -> Option<Millis> {
    let rests_until = |one: &Arc<Channel>| {
        one.live.cooldown_until().max(one.live.limited_until()).filter(|until| *until > now)
    };
    let ends: Option<Vec<_>> = serving(channel).iter().map(rests_until).collect();
    ends?.into_iter().min().filter(|first| cooling_until(channel, now).is_none_or(|cooled| *first > cooled))
}

// === impl Strategy ===

impl Strategy {
    /// Parses a strategy's name; any other name means the default.
    pub fn parse(name: &str) -> Self {
        match name.trim() {
            "round_robin" => Self::RoundRobin,
            "stable_first" => Self::StableFirst,
            _ => Self::Weighted,
        }
    }

    /// Returns the name used in the store and in API answers.
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

    /// Returns whether the route owns the channels of exactly one model name.
    pub fn is_exact(&self) -> bool {
        !self.is_group() && self.pattern.is_exact()
    }

    /// Returns a copy of the route with these channels.
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

    /// Returns the name that clients use: the alias, else the pattern.
    pub fn public_name(&self) -> &str {
        self.alias().unwrap_or(self.pattern.as_str())
    }

    pub(super) fn alias(&self) -> Option<&str> {
        self.display_name.as_deref().filter(|name| !name.is_empty())
    }

    /// Returns the model that this route sends upstream for a requested one: by the mapping rule whose key equals the name,
    /// else by the first whose key matches, else the name itself.
    pub fn mapped<'r>(&'r self, model: &'r str) -> &'r str {
        let rules = || self.mapping.iter().filter(|(_, upstream)| !upstream.is_empty());
        rules()
            .find(|(key, _)| key.as_str() == model)
            .or_else(|| rules().find(|(key, _)| key.matches(model)))
            .map_or(model, |(_, upstream)| upstream)
    }
}
