//! How good a channel is among the candidates of its priority.
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
use crate::money::Usd;

/// No cost counts as less: a free upstream must not weigh infinitely.
const LEAST_COST: f64 = 1e-6;

/// The operator's weights of cost, balance and use.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Weights {
    pub base_weight_factor: f64,
    pub value_score_factor: f64,
    pub cost_weight: f64,
    pub balance_weight: f64,
    pub usage_weight: f64,
    /// Assumed cost of a channel of which none is known.
    pub fallback_unit_cost: f64,
}

/// Where a channel's cost comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CostTier {
    /// What its answered requests cost on average.
    Observed,
    /// The account's configured unit cost.
    Configured,
    /// What the site's price list says.
    Catalog,
    Fallback,
}

/// A candidate's score with the parts that explain it.
#[derive(Clone, Copy, Debug)]
pub struct Score {
    pub cost: f64,
    pub tier: CostTier,
    pub value: f64,
    /// Value on a scale from the worst candidate (0) to the best (1).
    pub normalised: f64,
    pub base: f64,
    /// Candidates on the same site, which share its weight.
    pub site_channels: u32,
    pub site_weight: f64,
    pub history: f64,
    pub conditions: Conditions,
    /// Its share of the requests is this over the sum.
    pub contribution: f64,
}

/// What multiplies a share from minute to minute; 1 where nothing is known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Conditions {
    /// How well site and model have worked recently.
    pub health: f64,
    /// How far the requests under way lower the share.
    pub load: f64,
}

/// What the candidates of one site have done together.
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

/// Scores the candidates of one layer. `model` is what a channel's upstream calls the model.
pub fn scores<'m>(
    candidates: &[&'m Arc<Channel>],
    weights: &Weights,
    policy: &Policy,
    model: impl Fn(&'m Channel) -> &'m str,
    conditions: impl Fn(&Channel) -> Conditions,
) -> Vec<Score> {
    let mut sites: HashMap<SiteId, SiteRecord> = HashMap::new();
    let mut highest = 0.001_f64;
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
    /// The product of the other parts.
    fn combined(&self) -> f64 {
        let mut contribution = self.base / f64::from(self.site_channels)
            * self.site_weight
            * self.history
            * self.conditions.product();
        if self.tier == CostTier::Fallback {
            contribution /= self.cost.max(1.0);
        }
        // Whatever an operator or an upstream wrote as a weight or a balance, a share is a number.
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
    /// Both factors in one.
    pub fn product(self) -> f64 {
        self.health * self.load
    }
}

// === impl SiteRecord ===

impl SiteRecord {
    /// Between 0.45 and 1: failures and slowness lower it, the more so the more is known (fully from 24 requests).
    fn history(self) -> f64 {
        let uses = self.success + self.fail;
        if uses == 0 {
            return 1.0;
        }
        let certainty = (uses as f64 / 24.0).min(1.0);
        let success_rate = self.success as f64 / uses as f64;
        let by_failures = 1.0 - (1.0 - success_rate) * 0.55 * certainty;
        let slowness = match self.success {
            0 => 0.0,
            answered => {
                let average = (self.latency_ms as f64 / answered as f64).round();
                ((average - 2_000.0) / 20_000.0).clamp(0.0, 1.0)
            }
        };
        (by_failures * (1.0 - slowness * certainty * 0.18)).clamp(0.45, 1.0)
    }
}
