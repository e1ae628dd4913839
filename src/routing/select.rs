//! Picks one of the channels that may be picked.
//!
//! A selection writes nothing: the caller records it
//! ([`ChannelLive::record_selection`](super::ChannelLive::record_selection)) before it waits for anything. It walks the
//! channels of one route once, and allocates only when there is a choice to weigh.
//!
//! `weighted` draws among the candidates of the most preferred priority that has any; `round_robin` takes the channel that
//! was selected longest ago, whatever its priority; `stable_first` rotates over the sites that work best. With every
//! strategy, channels near a limit of their account come after all others. [`reserve`](super::reserve) decides when cooling
//! channels are tried.

use std::sync::Arc;

use super::eligibility::{RouteRequest, SelectionQuery};
use super::pattern::alias_equal;
use super::reserve::Reserve;
use super::route::{Channel, Strategy, serving};
use super::score::{Score, Weights, scores};
use super::selection_reason::SelectionReason;
use super::shortlist::{Layer, Shortlist};
use super::snapshot::Match;
use super::stable;
use super::turn::turn;
use crate::ids::{ChannelOrMember, RouteId};
use crate::time::Millis;

/// The outcome of a selection.
#[derive(Clone, Copy, Debug)]
pub enum Selection<'r> {
    Channel {
        channel: &'r Arc<Channel>,
        /// The model's name at this upstream.
        upstream_model: &'r str,
        reason: SelectionReason,
    },
    NoneEligible {
        /// When the first of the cooling channels comes back; `None` when waiting would not help.
        earliest_cooldown: Option<Millis>,
        /// The cooling channel that may be tried all the same.
        reserve: Option<ReservePick<'r>>,
    },
}

/// A cooling channel that may be tried, by one request at a time.
#[derive(Clone, Copy, Debug)]
pub struct ReservePick<'r> {
    pub channel: &'r Arc<Channel>,
    /// The model's name at this upstream.
    pub upstream_model: &'r str,
    pub reason: SelectionReason,
}

/// Picks a channel of the matched route. `random` returns numbers in [0, 1) and is called only when there are several
/// candidates.
pub fn select<'r>(
    found: &Match<'r>,
    query: &SelectionQuery<'r>,
    random: &mut dyn FnMut() -> f64,
) -> Selection<'r> {
    let request = RouteRequest::new(found.route, found.by_display_name, query);
    let mut reserve = Reserve::default();
    let mut near_limit = Vec::new();
    let eligible = found.route.channels.iter().filter(|channel| {
        let (mut is_eligible, mut is_free) = (false, false);
        for serving in serving(channel) {
            match request.obstacle_within(channel, serving) {
                None => {
                    is_eligible = true;
                    is_free |= !request.is_near_limit(serving);
                }
                Some(obstacle) => reserve.note(serving, obstacle),
            }
        }
        if is_eligible && !is_free {
            near_limit.push(*channel);
        }
        is_free
    });
    let picked = pick(found, eligible, &request, random);
    // Channels near a limit serve when no other can.
    let picked = picked.or_else(|| pick(found, near_limit.into_iter(), &request, random));
    let Some((channel, reason)) = picked else {
        let last = reserve.last(query).map(|(channel, reason)| {
            let upstream_model = upstream_model(channel, &request);
            ReservePick { channel, upstream_model, reason }
        });
        return Selection::NoneEligible { earliest_cooldown: reserve.earliest(query.now), reserve: last };
    };
    // Priorities do not count where channels take turns.
    let by_priority = found.route.strategy == Strategy::Weighted;
    let trial = reserve.trial(query, if by_priority { channel.priority } else { i64::MAX });
    let (channel, reason) = match trial {
        Some(trial) => (trial, SelectionReason::Trial),
        None => (request.member(channel), reason),
    };
    Selection::Channel { channel, upstream_model: upstream_model(channel, &request), reason }
}

/// Picks one of the eligible channels by the route's strategy.
fn pick<'r>(
    found: &Match<'r>,
    eligible: impl Iterator<Item = &'r Arc<Channel>>,
    request: &RouteRequest<'_>,
    random: &mut dyn FnMut() -> f64,
) -> Option<(&'r Arc<Channel>, SelectionReason)> {
    match found.route.strategy {
        Strategy::RoundRobin => next_in_turn(eligible, request),
        Strategy::StableFirst => next_stable(eligible.collect(), request, found.route.id),
        Strategy::Weighted => match Layer::preferred(eligible) {
            Layer::Empty => None,
            Layer::One(channel) => Some((channel, weighted(channel, 1, 0, 1.0))),
            Layer::Several(channels) => Some(draw(channels, request, found.weights, random)),
        },
    }
}

/// Selects the channel with this key, to which a conversation is bound, if it may be picked now and is not to be avoided.
/// Its priority does not matter.
pub fn select_bound<'r>(
    found: &Match<'r>,
    query: &SelectionQuery<'r>,
    key: ChannelOrMember,
) -> Option<Selection<'r>> {
    let request = RouteRequest::new(found.route, found.by_display_name, query);
    let channels = &found.route.channels;
    let channel = match key {
        ChannelOrMember::Channel(id) => {
            let at = channels.binary_search_by_key(&id, |channel| channel.id).ok()?;
            request.member(&channels[at])
        }
        ChannelOrMember::Member(_) => {
            channels.iter().flat_map(|channel| channel.unit.members()).find(|member| member.key() == key)?
        }
    };
    let is_avoided = request.is_near_limit(channel)
        || request.is_behind_breaker(channel)
        || (found.route.strategy != Strategy::RoundRobin && request.failed_recently(channel));
    (request.obstacle(channel).is_none() && !is_avoided).then(|| Selection::Channel {
        channel,
        upstream_model: upstream_model(channel, &request),
        reason: SelectionReason::Bound { by_turns: found.route.strategy != Strategy::Weighted },
    })
}

/// Draws one of several channels of the same priority, without those to be avoided.
fn draw<'r>(
    channels: Vec<&'r Arc<Channel>>,
    request: &RouteRequest<'_>,
    weights: &Weights,
    random: &mut dyn FnMut() -> f64,
) -> (&'r Arc<Channel>, SelectionReason) {
    let list = Shortlist::new(channels, request);
    let count = list.candidates.len();
    if let [only] = list.candidates[..] {
        return (only, weighted(only, 1, list.avoided(), 1.0));
    }
    let scores = weigh(&list.candidates, request, weights);
    let position = drawn(&scores, random());
    let channel = list.candidates[position];
    let share = shares(&scores).nth(position).unwrap_or_default();
    (channel, weighted(channel, count, list.avoided(), share))
}

/// Scores the candidates for this request.
pub(super) fn weigh(
    candidates: &[&Arc<Channel>],
    request: &RouteRequest<'_>,
    weights: &Weights,
) -> Vec<Score> {
    scores(
        candidates,
        weights,
        request.query.policy,
        |channel| upstream_model(channel, request),
        |channel| request.conditions(channel),
    )
}

fn weighted(channel: &Channel, candidates: usize, avoided: usize, share: f64) -> SelectionReason {
    let (candidates, avoided) = (candidates as u32, avoided as u32);
    SelectionReason::Weighted { priority: channel.priority, candidates, avoided, share }
}

/// Picks the channel that was selected longest ago; one with an open breaker only when all are open.
pub(super) fn next_in_turn<'r>(
    eligible: impl Iterator<Item = &'r Arc<Channel>>,
    request: &RouteRequest<'_>,
) -> Option<(&'r Arc<Channel>, SelectionReason)> {
    let (mut all, mut open) = (0, 0);
    let ranked = eligible.map(|channel| {
        let is_open = request.is_behind_breaker(channel);
        all += 1;
        open += u32::from(is_open);
        ((is_open, turn(channel)), channel)
    });
    let (_, channel) = ranked.min_by_key(|(rank, _)| *rank)?;
    // When the breakers of all are open, none is avoided.
    let avoided = if open < all { open } else { 0 };
    Some((channel, SelectionReason::RoundRobin { candidates: all - avoided, avoided }))
}

/// Picks the next of the sites that work best, or one of the others that is due for observation.
fn next_stable<'r>(
    eligible: Vec<&'r Arc<Channel>>,
    request: &RouteRequest<'_>,
    route_id: RouteId,
) -> Option<(&'r Arc<Channel>, SelectionReason)> {
    let list = Shortlist::new(eligible, request);
    let turns = request.query.rotations.map(|rotations| rotations.turns(route_id, request.query.model));
    let turn = stable::next_turn(&list, request, &turns.unwrap_or_default(), true)?;
    let reason = SelectionReason::StableFirst {
        route_id,
        pool: turn.pool,
        leaders: turn.leaders.len() as u32,
        candidates: list.candidates.len() as u32,
        avoided: list.avoided() as u32,
    };
    Some((turn.leaders[turn.next], reason))
}

/// Returns each candidate's share of the requests; equal shares when no candidate has a score.
pub(super) fn shares(scores: &[Score]) -> impl Iterator<Item = f64> {
    let sum: f64 = scores.iter().map(|score| score.contribution).sum();
    let equal = 1.0 / scores.len() as f64;
    scores.iter().map(move |score| if sum > 0.0 { score.contribution / sum } else { equal })
}

/// Walks the shares until `u` of their sum is used up. If no candidate has a share, all count equally.
fn drawn(scores: &[Score], u: f64) -> usize {
    let last = scores.len() - 1;
    let sum: f64 = scores.iter().map(|score| score.contribution).sum();
    if sum <= 0.0 {
        return ((u * scores.len() as f64) as usize).min(last);
    }
    let mut left = u * sum;
    let reached = scores.iter().position(|score| {
        left -= score.contribution;
        left <= 0.0 && score.contribution > 0.0
    });
    reached.unwrap_or(last)
}

/// Returns the model's name at this upstream: the channel's stand-in for the requested model, else the mapped name, in the
/// channel's spelling if both name one model.
pub(super) fn upstream_model<'r>(channel: &'r Channel, request: &RouteRequest<'r>) -> &'r str {
    let spelled = || channel.source_model.as_ref().map(|source| source.as_str());
    request
        .stand_in(channel)
        .or_else(|| spelled().filter(|source| alias_equal(source, request.mapped)))
        .unwrap_or(request.mapped)
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod cooling_tests;
