//! Rates a channel among the candidates of its priority.
//!
//! ```text
//! value   = cheap + funded + little used        weights: cost, balance, usage
//! base    = (weight + 10) · (base factor + normalised value · value factor)
//! share ~ base / channels of the site · site weight · key's site weight · history · conditions
//! ```

use std::collections::HashMap;
use std::sync::Arc;

use super::policy::{Policy, positive_or_one};
use super::route::Channel;
use crate::ids::SiteId;
use crate::limits::Load;
use crate::money::Usd;

/// The lowest cost counted, so that a free upstream does not weigh infinitely.
const LEAST_COST: f64 = 1e-6;

/// The least that the highest value counts as, so that values close to 0 are not spread over the whole range.
const LEAST_HIGHEST: f64 = 0.001;

/// By how much of its share a site's load lowers a channel: for each slot at work, for each request that waits, in relation
/// to the number of slots, and if no slot is free.
const BUSY: f64 = 0.28;
const QUEUED: f64 = 0.32;
const FULL: f64 = 0.12;
/// The lowest factor of a load.
const LEAST_BY_LOAD: f64 = 0.18;

/// The number of requests from which a site's history counts in full.
const CERTAIN: f64 = 24.0;
/// By how much of its share a history lowers a channel in which all requests failed, or all were slow.
const FAILING: f64 = 0.55;
const SLOW: f64 = 0.18;
/// The average latency from which a site counts as slow, and by how much more it counts so in full, in milliseconds.
const SLOW_FROM_MS: f64 = 2_000.0;
const SLOW_RANGE_MS: f64 = 20_000.0;
/// The lowest factor of a history.
const LEAST_BY_HISTORY: f64 = 0.45;

/// The operator's weights of cost, balance and use.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Weights {
    pub base_weight_factor: f64,
    pub value_score_factor: f64,
    pub cost_weight: f64,
    pub balance_weight: f64,
    pub usage_weight: f64,
    /// The cost assumed for a channel with no known cost.
    pub fallback_unit_cost: f64,
}

/// The source of a channel's cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CostTier {
    /// The average cost of the channel's answered requests.
    Observed,
    /// The account's configured unit cost.
    Configured,
    /// The site's price list.
    Catalog,
    Fallback,
}

/// A candidate's score, with the parts that explain it.
#[derive(Clone, Copy, Debug)]
pub struct Score {
    pub cost: f64,
    pub tier: CostTier,
    pub value: f64,
    /// The value on a scale from 0 to 1, where 1 is the best candidate's value and 0 is no value (or the worst, if below
    /// zero).
    pub normalised: f64,
    pub base: f64,
    /// The number of candidates on the same site, which share its weight.
    pub site_channels: u32,
    pub site_weight: f64,
    pub history: f64,
    pub conditions: Conditions,
    /// The product of all parts. The candidate's share of the requests is this divided by the sum over all candidates.
    pub contribution: f64,
}

/// Factors that change a share from minute to minute; 1 where nothing is known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Conditions {
    /// How well the site and the model have worked recently.
    pub health: f64,
    /// How much the requests under way lower the share.
    pub load: f64,
}

/// The combined counters of one site's candidates.
#[derive(Clone, Copy, Default)]
struct SiteRecord {
    channels: u32,
    success: u64,
    fail: u64,
    latency_ms: u64,
}

impl Default for Weights {
    fn default() -> Self {
        Self {
            base_weight_factor: 0.5,
            value_score_factor: 0.5,
            cost_weight: 0.4,
            balance_weight: 0.3,
            usage_weight: 0.3,
            fallback_unit_cost: 1.0,
        }
    }
}

/// Scores the candidates of one priority. `model` returns the model's name at a channel's upstream.
pub fn scores<'m>(
    candidates: &[&'m Arc<Channel>],
    weights: &Weights,
    policy: &Policy,
    model: impl Fn(&'m Channel) -> &'m str,
    conditions: impl Fn(&Arc<Channel>) -> Conditions,
) -> Vec<Score> {
    let mut sites: HashMap<SiteId, SiteRecord> = HashMap::new();
    let mut highest = LEAST_HIGHEST;
    let mut lowest = 0.0_f64;
    let mut scores: Vec<Score> = Vec::with_capacity(candidates.len());
    for channel in candidates {
        let totals = channel.live.totals();
        let site = sites.entry(channel.account.site.id).or_default();
        site.channels += 1;
        site.success += totals.success;
        site.fail += totals.fail;
        site.latency_ms += totals.latency_ms;
        let (cost, tier) = cost(channel, || model(channel), totals.success, totals.cost(), weights);
        let uses = (totals.success + totals.fail).max(1);
        let value = weights.cost_weight / cost
            + weights.balance_weight * channel.account.balance.dollars()
            + weights.usage_weight / uses as f64;
        highest = highest.max(value);
        lowest = lowest.min(value);
        scores.push(Score {
            cost,
            tier,
            value,
            normalised: 0.0,
            base: 0.0,
            site_channels: 0,
            site_weight: 1.0,
            history: 1.0,
            conditions: Conditions::default(),
            contribution: 0.0,
        });
    }
    let range = if highest > lowest { highest - lowest } else { 1.0 };
    for (score, channel) in scores.iter_mut().zip(candidates) {
        let site = &channel.account.site;
        let record = sites[&site.id];
        score.normalised = (score.value - lowest) / range;
        score.base = (channel.weight.max(0) as f64 + 10.0)
            * (weights.base_weight_factor + score.normalised * weights.value_score_factor);
        score.site_channels = record.channels;
        score.site_weight = positive_or_one(site.global_weight) * policy.site_multiplier(site.id);
        score.history = record.history();
        score.conditions = conditions(channel);
        score.contribution = score.combined();
    }
    scores
}

fn cost<'m>(
    channel: &Channel,
    model: impl FnOnce() -> &'m str,
    success: u64,
    spent: Usd,
    weights: &Weights,
) -> (f64, CostTier) {
    let (cost, tier) = if success > 0 && spent > Usd::ZERO {
        (spent.dollars() / success as f64, CostTier::Observed)
    } else if let Some(configured) = channel.account.unit_cost.filter(|cost| *cost > 0.0) {
        (configured, CostTier::Configured)
    } else if let Some(listed) = channel.account.prices.reference_cost(model()) {
        (listed.dollars(), CostTier::Catalog)
    } else {
        (weights.fallback_unit_cost, CostTier::Fallback)
    };
    (cost.max(LEAST_COST), tier)
}

// === impl Score ===

impl Score {
    /// Multiplies the other parts.
    fn combined(&self) -> f64 {
        let mut contribution = self.base / f64::from(self.site_channels)
            * self.site_weight
            * self.history
            * self.conditions.product();
        if self.tier == CostTier::Fallback {
            contribution /= self.cost.max(1.0);
        }
        // Whatever weight or balance an operator or an upstream supplied, a share is a finite number.
        if contribution.is_finite() && contribution > 0.0 { contribution } else { 0.0 }
    }
}

// === impl Conditions ===

impl Default for Conditions {
    fn default() -> Self {
        Self { health: 1.0, load: 1.0 }
    }
}

impl Conditions {
    /// Returns the factor for this load, from 0.18 to 1: it shrinks with the number at work, and more so with the number
    /// that waits.
    pub fn of_load(load: Load) -> f64 {
        if load.limit == 0 {
            return 1.0;
        }
        let per_slot = |count: usize| count as f64 / load.limit as f64;
        let full = if load.active >= load.limit { FULL } else { 0.0 };
        let busy = BUSY * per_slot(load.active).clamp(0.0, 1.5);
        let queued = QUEUED * per_slot(load.waiting).clamp(0.0, 3.0);
        (1.0 - busy - queued - full).clamp(LEAST_BY_LOAD, 1.0)
    }

    /// Returns the product of both factors.
    pub fn product(self) -> f64 {
        self.health * self.load
    }
}

// === impl SiteRecord ===

impl SiteRecord {
    /// Returns a factor from 0.45 to 1. Failures and slowness lower it, more so the more requests are known (in full from
    /// 24).
    fn history(self) -> f64 {
        let uses = self.success + self.fail;
        if uses == 0 {
            return 1.0;
        }
        let certainty = (uses as f64 / CERTAIN).min(1.0);
        let success_rate = self.success as f64 / uses as f64;
        let by_failures = 1.0 - (1.0 - success_rate) * FAILING * certainty;
        let slowness = match self.success {
            0 => 0.0,
            answered => {
                let average = (self.latency_ms as f64 / answered as f64).round();
                ((average - SLOW_FROM_MS) / SLOW_RANGE_MS).clamp(0.0, 1.0)
            }
        };
        (by_failures * (1.0 - slowness * certainty * SLOW)).clamp(LEAST_BY_HISTORY, 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_at_work_and_in_the_queue_lower_the_share() {
        for (active, waiting, limit, expected) in [
            (0, 0, 2, 1.0),
            (1, 0, 2, 0.86),
            (2, 0, 2, 0.60),
            (2, 1, 2, 0.44),
            (1, 1, 1, 0.28),
            (1, 0, 1, 0.60),
            // Both parts are capped: at 1.5 times the limit at work, and at three times the limit in the queue.
            (9, 0, 2, 0.46),
            (2, 9, 2, 0.18),
            (5, 5, 0, 1.0),
        ] {
            let load = Load { active, waiting, limit };
            let factor = Conditions::of_load(load);
            assert!((factor - expected).abs() < 1e-9, "{load:?}: {factor}");
        }
    }
}
