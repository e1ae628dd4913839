//! `stable_first`: the sites that work best take turns, the others are tried now and then. Cost, balance and weights play
//! no part.
//!
//! ```text
//! candidates ─▶ sites, each with its success rate (recent and all-time)
//!    primary      known well enough, and at least 0.92 of the best      23 of 24 requests
//!    observation  the others                                            1 of 24, if one is due
//! the pool's sites ─▶ the best channel of each ─▶ those of at least 0.92 of the best ─▶ in turn
//! ```

use std::collections::HashMap;
use std::sync::Arc;

use super::eligibility::RouteRequest;
use super::rotation::Turns;
use super::rotation_pool::Pool;
use super::route::Channel;
use super::shortlist::Shortlist;
use super::turn::turn;
use crate::ids::SiteId;

/// The fraction of the best value from which a site or channel counts as good.
const NEAR_BEST: f64 = 0.92;
/// A site is trusted from this confidence in its recent outcomes, or from this number of all-time outcomes.
const TRUSTED_CONFIDENCE: f64 = 0.5;
const TRUSTED_OUTCOMES: u64 = 8;
/// The lowest score before it is divided among a site's channels, so that sites that always fail can still be compared.
const LEAST_SCORE: f64 = 1e-4;

/// One site behind a route.
#[derive(Debug)]
pub struct RankedSite<'r> {
    pub id: SiteId,
    /// Its candidates, by ascending id.
    pub channels: Vec<&'r Arc<Channel>>,
    /// Its expected success rate, from 0 to 1.
    pub effective: f64,
    /// Whether enough is known of the site to trust that rate.
    pub trusted: bool,
}

/// The channels that take turns, and whose turn it is.
#[derive(Debug)]
pub struct Turn<'r> {
    pub pool: Pool,
    /// The channels that take turns, in their order.
    pub leaders: Vec<&'r Arc<Channel>>,
    /// The index of the next one in `leaders`.
    pub next: usize,
}

/// Finds whose turn it is among the candidates; `None` when there are none. Only a real request `may_observe`; a preview
/// shows the primary pool.
pub fn next_turn<'r>(
    list: &Shortlist<'r>,
    request: &RouteRequest<'_>,
    turns: &Turns,
    may_observe: bool,
) -> Option<Turn<'r>> {
    let (primary, observation) = pools(rank_sites(&list.candidates, request));
    if may_observe && turns.may_observe() {
        let is_due = |site: &RankedSite| turns.is_due(site.id, request.query.now);
        let due: Vec<_> = observation.into_iter().filter(is_due).collect();
        if let Some(turn) = turn_of(Pool::Observation, &due, request, turns) {
            return Some(turn);
        }
    }
    turn_of(Pool::Primary, &primary, request, turns)
}

/// Groups the candidates by site, in the order of each site's first channel.
pub(super) fn rank_sites<'r>(
    candidates: &[&'r Arc<Channel>],
    request: &RouteRequest<'_>,
) -> Vec<RankedSite<'r>> {
    let mut places: HashMap<SiteId, usize> = HashMap::new();
    let mut channels: Vec<Vec<&'r Arc<Channel>>> = Vec::new();
    for channel in candidates {
        let place = *places.entry(channel.account.site.id).or_insert(channels.len());
        match channels.get_mut(place) {
            Some(known) => known.push(channel),
            None => channels.push(vec![channel]),
        }
    }
    channels.into_iter().filter_map(|channels| RankedSite::new(channels, request)).collect()
}

/// Divides the sites into the primary and the observation pool. The primary pool always holds at least its best possible
/// member.
pub(super) fn pools(sites: Vec<RankedSite<'_>>) -> (Vec<RankedSite<'_>>, Vec<RankedSite<'_>>) {
    let any_trusted = sites.iter().any(|site| site.trusted);
    let may_lead = |site: &RankedSite| site.trusted || !any_trusted;
    let leading = sites.iter().filter(|site| may_lead(site));
    let best = leading.map(|site| site.effective).fold(0.0, f64::max);
    sites.into_iter().partition(|site| may_lead(site) && site.effective >= NEAR_BEST * best)
}

/// Takes the best channel of each site, keeps those near the best score in the order of their sites' priorities, and finds
/// the one after the site that was used last.
pub(super) fn turn_of<'r>(
    pool: Pool,
    sites: &[RankedSite<'r>],
    request: &RouteRequest<'_>,
    turns: &Turns,
) -> Option<Turn<'r>> {
    let mut leaders: Vec<(f64, i64, &'r Arc<Channel>)> = sites
        .iter()
        .filter_map(|site| {
            let (score, channel) = site.leader(request)?;
            let priority = site.channels.iter().map(|channel| channel.priority).min()?;
            Some((score, priority, channel))
        })
        .collect();
    let best = leaders.iter().map(|(score, _, _)| *score).fold(0.0, f64::max);
    leaders.retain(|(score, _, _)| *score >= NEAR_BEST * best);
    leaders.sort_unstable_by_key(|(_, priority, channel)| (*priority, channel.id));
    let leaders: Vec<_> = leaders.into_iter().map(|(_, _, channel)| channel).collect();
    let last = turns.last(pool);
    let used = leaders.iter().position(|channel| Some(channel.account.site.id) == last);
    let next = used.map_or(0, |used| (used + 1) % leaders.len());
    (!leaders.is_empty()).then_some(Turn { pool, leaders, next })
}

// === impl RankedSite ===

impl<'r> RankedSite<'r> {
    fn new(channels: Vec<&'r Arc<Channel>>, request: &RouteRequest<'_>) -> Option<Self> {
        let first = *channels.first()?;
        let site = &first.account.site;
        let recent = site.health.recent(request.model_of(first), request.query.now);
        let (mut success, mut outcomes) = (0, 0);
        for totals in channels.iter().map(|channel| channel.live.totals()) {
            success += totals.success;
            outcomes += totals.success + totals.fail;
        }
        let ever = if outcomes == 0 { 0.5 } else { success as f64 / outcomes as f64 };
        let confidence = recent.confidence();
        Some(Self {
            id: site.id,
            effective: recent.rate() * confidence + ever * (1.0 - confidence),
            trusted: confidence >= TRUSTED_CONFIDENCE || outcomes >= TRUSTED_OUTCOMES,
            channels,
        })
    }

    /// Returns the site's best channel and its score; among equals, the one that was selected longest ago.
    fn leader(&self, request: &RouteRequest<'_>) -> Option<(f64, &'r Arc<Channel>)> {
        let worth = LEAST_SCORE.max(self.effective * self.effective) / self.channels.len() as f64;
        let scored =
            self.channels.iter().map(|channel| (worth * request.conditions(channel).product(), *channel));
        scored.min_by(|(one, first), (other, second)| {
            other.total_cmp(one).then_with(|| turn(first).cmp(&turn(second)))
        })
    }
}

#[cfg(test)]
mod tests;
