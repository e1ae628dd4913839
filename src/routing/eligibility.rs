//! Why a channel may not be picked now.
//!
//! A selection asks for the first obstacle, an explanation for all of them: both walk [`CHECKS`]. Cheap and frequent checks
//! come first. The check for a cooldown comes last: if a cooldown is the first obstacle of a channel, it is the only one.

use std::sync::Arc;

use super::failure;
use super::live::CooldownPhase;
use super::pattern::alias_equal;
use super::policy::Policy;
use super::rotation::Rotations;
use super::route::{Channel, Route, UnitRole, serving};
use super::score::Conditions;
use super::site::AccountStatus;
use super::turn::next_member;
use crate::ids::ChannelOrMember;
use crate::time::Millis;

/// The request that a selection is made for.
#[derive(Clone, Copy)]
pub struct SelectionQuery<'a> {
    /// The model as the client named it.
    pub model: &'a str,
    pub policy: &'a Policy,
    /// The channels that this request has tried already.
    pub tried: &'a [ChannelOrMember],
    pub now: Millis,
    /// Whether the request may go to a channel: its upstream can answer on the surface, and the caller of the selection has
    /// nothing else against it.
    pub may_serve: &'a dyn Fn(&Channel) -> bool,
    /// The factor by which the requests under way lower a channel's share; 1 when it is idle.
    pub load: &'a dyn Fn(&Channel) -> f64,
    /// The operator's cap on how long failures keep a channel behind others, in milliseconds.
    pub max_avoidance: Millis,
    /// How long a cooling channel is left alone before it may be a last resort, in milliseconds; `None` for never.
    pub last_resort: Option<Millis>,
    /// The usage of an account's limit, in percent, from which other accounts come first; `None` for never.
    pub limit_avoid: Option<f64>,
    /// The memory of turns for `stable_first`; `None` for a query that has none.
    pub rotations: Option<&'a Rotations>,
}

/// One reason that keeps a channel from being picked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Obstacle {
    Disabled,
    /// Tried before by the same request.
    AlreadyTried,
    AccountStatus(AccountStatus),
    SiteDisabled,
    /// The channel serves another model than the one asked for.
    SourceModel,
    /// The request may not go to the channel; mostly its upstream cannot answer on the request's surface.
    Surface,
    /// The downstream key excludes the site.
    SiteExcluded,
    /// The downstream key excludes the credential.
    CredentialExcluded,
    NoCredential,
    /// The member of a unit has failed recently, and another member has failed in the same request.
    FailedRecently,
    Cooling {
        until: Millis,
    },
    /// The channel may serve only as a trial, or when no other can.
    HalfOpen {
        until: Millis,
    },
}

/// A request as one route sees it.
pub struct RouteRequest<'a> {
    pub query: SelectionQuery<'a>,
    pub by_display_name: bool,
    /// Whether the route serves exactly one model.
    is_exact: bool,
    /// The requested model after the route's mapping.
    pub mapped: &'a str,
}

type Check = fn(&RouteRequest<'_>, &Channel) -> Option<Obstacle>;

const CHECKS: [Check; 10] = [
    |_, channel| (!channel.enabled).then_some(Obstacle::Disabled),
    |request, channel| request.query.tried.contains(&channel.key()).then_some(Obstacle::AlreadyTried),
    // Checked before the account, which is disabled along with its site.
    |_, channel| (!channel.account.site.active).then_some(Obstacle::SiteDisabled),
    |_, channel| account_obstacle(channel),
    |request, channel| (!request.fits_source_model(channel)).then_some(Obstacle::SourceModel),
    |request, channel| (!(request.query.may_serve)(channel)).then_some(Obstacle::Surface),
    |request, channel| {
        request.query.policy.excludes_site(channel.account.site.id).then_some(Obstacle::SiteExcluded)
    },
    |request, channel| {
        request.query.policy.excludes_credential(channel).then_some(Obstacle::CredentialExcluded)
    },
    |_, channel| channel.credential.is_none().then_some(Obstacle::NoCredential),
    |request, channel| {
        channel.live.cooldown_phase(request.query.now).map(|phase| match phase {
            CooldownPhase::Cooling { until } => Obstacle::Cooling { until },
            CooldownPhase::HalfOpen { until } => Obstacle::HalfOpen { until },
        })
    },
];

// === impl SelectionQuery ===

impl<'a> SelectionQuery<'a> {
    /// Creates the query of a first attempt on any surface.
    pub fn new(model: &'a str, policy: &'a Policy, now: Millis) -> Self {
        let max_avoidance = failure::MAX_COOLDOWN_MS;
        let (may_serve, load) = (&|_: &Channel| true, &|_: &Channel| 1.0);
        Self {
            model,
            policy,
            tried: &[],
            now,
            may_serve,
            load,
            max_avoidance,
            last_resort: None,
            limit_avoid: None,
            rotations: None,
        }
    }
}

// === impl RouteRequest ===

impl<'a> RouteRequest<'a> {
    pub fn new(route: &'a Route, by_display_name: bool, query: &SelectionQuery<'a>) -> Self {
        Self { query: *query, by_display_name, is_exact: route.is_exact(), mapped: route.mapped(query.model) }
    }

    /// Returns what keeps the channel from being picked, if anything does. For a unit whose members all have obstacles,
    /// returns the first member's.
    pub fn obstacle(&self, channel: &Channel) -> Option<Obstacle> {
        if !channel.unit.is_whole() {
            return CHECKS.iter().find_map(|check| check(self, channel));
        }
        let mut first = None;
        for member in channel.unit.members() {
            first = first.or(Some(self.obstacle_within(channel, member)?));
        }
        first.or(Some(Obstacle::NoCredential))
    }

    /// Returns what keeps one of the channels that serve for a channel from being picked. Where one member of a unit has
    /// failed in this request, those that failed recently do not take over.
    pub fn obstacle_within(&self, channel: &Channel, one: &Channel) -> Option<Obstacle> {
        let fails_over =
            || channel.unit.members().iter().any(|member| self.query.tried.contains(&member.key()));
        self.obstacle(one)
            .or_else(|| (self.failed_recently(one) && fails_over()).then_some(Obstacle::FailedRecently))
    }

    /// Returns everything that keeps the channel from being picked. For a unit whose members all have obstacles, returns
    /// the first member's.
    pub fn obstacles<'c>(&'c self, channel: &'c Channel) -> impl Iterator<Item = Obstacle> + 'c {
        let all = |channel: &'c Channel| CHECKS.iter().filter_map(move |check| check(self, channel));
        let is_served = channel.unit.is_whole() && self.obstacle(channel).is_none();
        let looked_at = channel.unit.members().first().map_or(channel, |member| &**member);
        all(looked_at).filter(move |_| !is_served)
    }

    /// Returns whether the channel, or some member of its unit, can serve and is not near a usage limit.
    pub fn has_room(&self, channel: &Arc<Channel>) -> bool {
        serving(channel)
            .iter()
            .any(|one| self.obstacle_within(channel, one).is_none() && !self.is_near_limit(one))
    }

    /// Returns the channel itself, or the member of its unit whose turn it is. Members near a limit or with recent failures
    /// are passed over while others remain.
    pub fn member<'c>(&self, channel: &'c Arc<Channel>) -> &'c Arc<Channel> {
        let UnitRole::Whole { strategy, members } = &channel.unit else { return channel };
        let mut eligible: Vec<_> =
            members.iter().filter(|member| self.obstacle_within(channel, member).is_none()).collect();
        let avoided: [fn(&Self, &Channel) -> bool; 2] = [Self::is_near_limit, Self::failed_recently];
        for is_avoided in avoided {
            if eligible.iter().any(|member| !is_avoided(self, member)) {
                eligible.retain(|member| !is_avoided(self, member));
            }
        }
        next_member(*strategy, eligible).unwrap_or(channel)
    }

    /// Returns the model that counts for the channel's cost and health: its stand-in, else the mapped one.
    pub fn model_of<'c>(&'c self, channel: &'c Channel) -> &'c str {
        self.stand_in(channel).unwrap_or(self.mapped)
    }

    /// Returns the model that the channel serves instead of the requested one, if any: behind an alias its source model,
    /// and on the route of one model a different source model that an operator gave it.
    pub fn stand_in<'c>(&self, channel: &'c Channel) -> Option<&'c str> {
        let source = channel.source_model.as_ref()?;
        // A source model that looks like a pattern but does not match is a name, too.
        let is_other = || self.is_exact && !source.matches(self.query.model);
        (self.by_display_name || is_other()).then(|| source.as_str())
    }

    /// Returns whether the site, or the model on it, has failed so much recently that others come first.
    pub fn is_behind_breaker(&self, channel: &Channel) -> bool {
        channel.account.site.health.is_open(self.model_of(channel), self.query.now)
    }

    /// Returns whether a limit of the channel's account is so nearly used up that others come first.
    pub fn is_near_limit(&self, channel: &Channel) -> bool {
        self.query.limit_avoid.is_some_and(|percent| channel.account.limits.reach(percent, self.query.now))
    }

    /// Returns whether the channel itself has failed so recently that others come first.
    pub fn failed_recently(&self, channel: &Channel) -> bool {
        let totals = channel.live.totals();
        let SelectionQuery { now, max_avoidance, .. } = self.query;
        failure::is_recent(totals.consecutive_fail, totals.last_fail, now, max_avoidance)
    }

    /// Returns the factors that change a channel's share from minute to minute. The load of a unit is that of the member
    /// whose turn it is.
    pub fn conditions(&self, channel: &Arc<Channel>) -> Conditions {
        Conditions {
            health: channel.account.site.health.multiplier(self.model_of(channel), self.query.now),
            load: (self.query.load)(self.member(channel)),
        }
    }

    /// Returns whether the channel serves the requested or the mapped model, or a stand-in for it.
    fn fits_source_model(&self, channel: &Channel) -> bool {
        let Some(source) = &channel.source_model else {
            return true;
        };
        let names = |model: &str| {
            source.as_str() == model
                || source.matches(model)
                || alias_equal(source.as_str(), model)
                    && self.query.policy.permits_spelling(self.query.model, source.as_str())
        };
        self.stand_in(channel).is_some() || names(self.query.model) || names(self.mapped)
    }
}

/// Returns the obstacle in the account's status. An expired session does not invalidate tokens made with it, but the
/// account's own credential needs it active. Nothing of an unhealthy account is used.
pub fn account_obstacle(channel: &Channel) -> Option<Obstacle> {
    let status = channel.account.status;
    let usable = match channel.token_id {
        Some(_) => matches!(status, AccountStatus::Active | AccountStatus::Expired),
        None => status == AccountStatus::Active,
    };
    (!usable).then_some(Obstacle::AccountStatus(status))
}
