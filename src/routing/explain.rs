//! Explains a selection: the same steps as [`select`](super::select()), but everything it passes over is kept. Writes
//! nothing and draws no random numbers: where a selection draws, this names the most probable channel.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::eligibility::{Obstacle, RouteRequest, SelectionQuery};
use super::reserve::Reserve;
use super::rotation_pool::Pool;
use super::route::{Channel, Strategy, serving};
use super::score::{Conditions, Score};
use super::select::{next_in_turn, shares, upstream_model, weigh};
use super::selection_reason::SelectionReason;
use super::shortlist::{Layer, Shortlist};
use super::snapshot::Match;
use super::stable::{self, RankedSite};
use crate::ids::{ChannelId, RouteId};

/// What a selection sees and would pick.
#[derive(Debug)]
pub struct Explanation<'r> {
    /// Every channel of the route, by ascending id.
    pub assessments: Vec<Assessment<'r>>,
    /// The index of the channel that would most probably be picked.
    pub picked: Option<usize>,
    /// The channel that would serve for it: the channel itself, or a member of its unit.
    pub serving: Option<&'r Arc<Channel>>,
    /// The model that this channel's upstream would be asked for; the mapped model when no channel would be picked.
    pub upstream_model: &'r str,
}

/// One channel of the route.
#[derive(Debug)]
pub struct Assessment<'r> {
    pub channel: &'r Arc<Channel>,
    /// Empty when the channel is eligible.
    pub obstacles: Vec<Obstacle>,
    /// Whether recent failures put the channel behind others; always false where channels take turns.
    pub failed_recently: bool,
    /// Whether a limit of its account is nearly used up.
    pub near_limit: bool,
    pub stage: SelectionStage,
    /// The channel's present share of the requests, from 0 to 1.
    pub share: f64,
}

/// How far a channel gets in the selection.
#[derive(Clone, Copy, Debug)]
pub enum SelectionStage {
    NotEligible,
    /// Channels of a more preferred priority are eligible.
    LaterPriority,
    /// A limit of its account is nearly used up.
    NearLimit,
    BehindBreaker,
    FailedRecently,
    Weighed {
        score: Score,
        health: HealthParts,
    },
    /// The channel takes turns with the others.
    InTurn,
    Stable {
        pool: Pool,
        /// The expected success rate of its site.
        effective: f64,
        site_channels: usize,
        conditions: Conditions,
        health: HealthParts,
    },
    /// The cooling channel that is tried now.
    Tried(SelectionReason),
}

/// The two factors of a channel's health.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HealthParts {
    pub site: f64,
    pub model: f64,
}

/// Explains a selection on the matched route.
pub fn explain<'r>(found: &Match<'r>, query: &SelectionQuery<'r>) -> Explanation<'r> {
    let request = RouteRequest::new(found.route, found.by_display_name, query);
    let turns_go_round = found.route.strategy == Strategy::RoundRobin;
    let assess = |channel: &'r Arc<Channel>| {
        let obstacles: Vec<_> = request.obstacles(channel).collect();
        let stage =
            if obstacles.is_empty() { SelectionStage::LaterPriority } else { SelectionStage::NotEligible };
        let failed_recently = !turns_go_round && request.failed_recently(channel);
        let near_limit = serving(channel).iter().all(|one| request.is_near_limit(one));
        Assessment { channel, obstacles, failed_recently, near_limit, stage, share: 0.0 }
    };
    let mut table = AssessmentTable::new(found.route.channels.iter().map(assess).collect());
    let (others, near_limit): (Vec<_>, Vec<_>) =
        table.eligible().partition(|channel| request.has_room(channel));
    let eligible = if others.is_empty() {
        near_limit
    } else {
        near_limit.iter().for_each(|channel| table.put(channel, SelectionStage::NearLimit, 0.0));
        others
    };
    match found.route.strategy {
        Strategy::RoundRobin => table.go_round(&eligible, &request),
        Strategy::Weighted => {
            let layer = match Layer::preferred(eligible.into_iter()) {
                Layer::Empty => Vec::new(),
                Layer::One(channel) => vec![channel],
                Layer::Several(channels) => channels,
            };
            table.weigh(Shortlist::new(layer, &request), &request, found);
        }
        Strategy::StableFirst => table.compare(Shortlist::new(eligible, &request), &request, found.route.id),
    }
    table.into_explanation(&request, found.route.strategy)
}

/// The assessments while they are filled in.
struct AssessmentTable<'r> {
    assessments: Vec<Assessment<'r>>,
    indexes: HashMap<ChannelId, usize>,
    /// The channel that the strategy's own rule picks; if `None`, the one with the largest share is.
    picked: Option<ChannelId>,
}

impl<'r> AssessmentTable<'r> {
    fn new(assessments: Vec<Assessment<'r>>) -> Self {
        let indexes = assessments.iter().zip(0..).map(|(one, index)| (one.channel.id, index)).collect();
        Self { assessments, indexes, picked: None }
    }

    fn eligible(&self) -> impl Iterator<Item = &'r Arc<Channel>> {
        self.assessments.iter().filter(|one| one.obstacles.is_empty()).map(|one| one.channel)
    }

    /// Collects the cooling channels that have no other obstacle.
    fn reserve(&self, request: &RouteRequest<'_>) -> Reserve<'r> {
        let mut reserve = Reserve::default();
        for channel in self.assessments.iter().map(|one| one.channel) {
            for one in serving(channel) {
                if let Some(obstacle) = request.obstacle_within(channel, one) {
                    reserve.note(one, obstacle);
                }
            }
        }
        reserve
    }

    fn put(&mut self, channel: &Channel, stage: SelectionStage, share: f64) {
        let index = self.indexes.get(&channel.id).copied();
        if let Some(one) = index.and_then(|index| self.assessments.get_mut(index)) {
            (one.stage, one.share) = (stage, share);
        }
    }

    fn take_avoided(&mut self, list: &Shortlist<'r>) {
        for channel in &list.behind_breaker {
            self.put(channel, SelectionStage::BehindBreaker, 0.0);
        }
        for channel in &list.failed_recently {
            self.put(channel, SelectionStage::FailedRecently, 0.0);
        }
    }

    fn go_round(&mut self, eligible: &[&'r Arc<Channel>], request: &RouteRequest<'_>) {
        let open = |channel: &Channel| request.is_behind_breaker(channel);
        let all_open = eligible.iter().all(|channel| open(channel));
        let next = next_in_turn(eligible.iter().copied(), request).map(|(channel, _)| channel.id);
        for channel in eligible {
            let stage = if open(channel) && !all_open {
                SelectionStage::BehindBreaker
            } else {
                SelectionStage::InTurn
            };
            self.put(channel, stage, if Some(channel.id) == next { 1.0 } else { 0.0 });
        }
        self.picked = next;
    }

    fn weigh(&mut self, list: Shortlist<'r>, request: &RouteRequest<'_>, found: &Match<'_>) {
        self.take_avoided(&list);
        let scores = weigh(&list.candidates, request, found.weights);
        for ((channel, score), share) in list.candidates.iter().zip(&scores).zip(shares(&scores)) {
            let health = HealthParts::of(channel, request);
            self.put(channel, SelectionStage::Weighed { score: *score, health }, share);
        }
    }

    fn compare(&mut self, list: Shortlist<'r>, request: &RouteRequest<'_>, route_id: RouteId) {
        self.take_avoided(&list);
        let (primary, observation) = stable::pools(stable::rank_sites(&list.candidates, request));
        let turns = request.query.rotations.map(|rotations| rotations.turns(route_id, request.query.model));
        let turn = stable::turn_of(Pool::Primary, &primary, request, &turns.unwrap_or_default());
        let leaders = turn.iter().flat_map(|turn| &turn.leaders).map(|leader| leader.id);
        let leaders: HashSet<ChannelId> = leaders.collect();
        let share = 1.0 / leaders.len().max(1) as f64;
        let mut put_all = |pool, sites: &[RankedSite<'r>]| {
            for site in sites {
                for channel in &site.channels {
                    let stage = SelectionStage::Stable {
                        pool,
                        effective: site.effective,
                        site_channels: site.channels.len(),
                        conditions: request.conditions(channel),
                        health: HealthParts::of(channel, request),
                    };
                    self.put(channel, stage, if leaders.contains(&channel.id) { share } else { 0.0 });
                }
            }
        };
        put_all(Pool::Primary, &primary);
        put_all(Pool::Observation, &observation);
        self.picked = turn.map(|turn| turn.leaders[turn.next].id);
    }

    /// Returns the channel that the strategy would most probably pick.
    fn most_probable(&self) -> Option<&'r Arc<Channel>> {
        let index = match self.picked {
            Some(id) => self.indexes.get(&id).copied(),
            None => {
                let shares = self.assessments.iter().map(|one| one.share).enumerate();
                let sharing = shares.filter(|(_, share)| *share > 0.0);
                // Backwards, since `max_by` returns the last of several equals.
                let largest = sharing.rev().max_by(|(_, one), (_, other)| one.total_cmp(other));
                largest.map(|(index, _)| index)
            }
        };
        index.map(|index| self.assessments[index].channel)
    }

    /// Gives all requests to the cooling channel that is tried now.
    fn give_to(&mut self, channel: &Channel, reason: SelectionReason) {
        self.assessments.iter_mut().for_each(|one| one.share = 0.0);
        self.put(channel, SelectionStage::Tried(reason), 1.0);
    }

    fn into_explanation(mut self, request: &RouteRequest<'r>, strategy: Strategy) -> Explanation<'r> {
        let reserve = self.reserve(request);
        let given = self.most_probable();
        let tried = match given {
            Some(channel) => {
                let priority = if strategy == Strategy::Weighted { channel.priority } else { i64::MAX };
                reserve.trial(&request.query, priority).map(|channel| (channel, SelectionReason::Trial))
            }
            None => reserve.last(&request.query),
        };
        let serving = match tried {
            Some((channel, reason)) => {
                self.give_to(channel, reason);
                Some(channel)
            }
            None => given.map(|channel| request.member(channel)),
        };
        // A member has the id of its unit's channel.
        let picked = serving.and_then(|channel| self.indexes.get(&channel.id).copied());
        let upstream_model = serving.map_or(request.mapped, |channel| upstream_model(channel, request));
        Explanation { assessments: self.assessments, picked, serving, upstream_model }
    }
}

impl HealthParts {
    fn of(channel: &Channel, request: &RouteRequest<'_>) -> Self {
        let health = &channel.account.site.health;
        let (site, model) = health.multipliers(request.model_of(channel), request.query.now);
        Self { site, model }
    }
}

#[cfg(test)]
mod tests;
