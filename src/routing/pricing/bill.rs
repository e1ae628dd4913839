//! Turns tokens and prices into USD, with the parts that explain the sum.

use serde::Serialize;

use super::price::{Billing, ModelPrice, Ratios};
use crate::money::Usd;
use crate::platform::Platform;

/// The price of a million tokens at a ratio of 1, in USD.
const USD_PER_MILLION: f64 = 2.0;

/// The lowest reference price, so that a price of 0 does not weigh infinitely in comparisons.
const LEAST_REFERENCE: Usd = Usd::new(1e-6);

/// Tokens per US dollar where neither price nor platform is known.
const TOKENS_PER_USD: f64 = 500_000.0;

/// The tokens that a request used. 0 may also mean unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tokens {
    pub prompt: u64,
    pub completion: u64,
    pub total: u64,
    pub cache_read: u64,
    pub cache_creation: u64,
    /// Whether `prompt` counts the cached tokens too; unknown counts as yes.
    pub prompt_includes_cache: Option<bool>,
}

/// The cost of a request.
#[derive(Clone, Debug, PartialEq)]
pub struct Bill {
    pub cost: Usd,
    /// Whether the cost comes from the site's own prices; otherwise it is the flat estimate.
    pub is_priced: bool,
    /// The parts of the sum; only where tokens have a price.
    pub details: Option<BillingDetails>,
}

/// The `billingDetails` of a log row.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BillingDetails {
    /// Always 0, for charging by tokens: a charge by call has no details.
    pub quota_type: u8,
    pub usage: BilledUsage,
    pub pricing: BilledRatios,
    pub breakdown: Breakdown,
}

/// The tokens behind a sum.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BilledUsage {
    pub prompt_tokens: u64,
    pub completion_tokens: u64,
    pub total_tokens: u64,
    pub cache_read_tokens: u64,
    pub cache_creation_tokens: u64,
    /// The prompt tokens charged at the full price, without cached ones.
    pub billable_prompt_tokens: u64,
    pub prompt_tokens_include_cache: Option<bool>,
}

/// The ratios behind a sum.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BilledRatios {
    pub model_ratio: f64,
    pub completion_ratio: f64,
    pub cache_ratio: f64,
    pub cache_creation_ratio: f64,
    pub group_ratio: f64,
}

/// Prices per million tokens, and the parts of the sum.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Breakdown {
    pub input_per_million: Usd,
    pub output_per_million: Usd,
    pub cache_read_per_million: Usd,
    pub cache_creation_per_million: Usd,
    pub input_cost: Usd,
    pub output_cost: Usd,
    pub cache_read_cost: Usd,
    pub cache_creation_cost: Usd,
    pub total_cost: Usd,
}

/// Computes the cost of a request at this price; without a price, the flat estimate for its tokens.
pub fn bill(price: Option<&ModelPrice>, platform: Option<Platform>, tokens: Tokens) -> Bill {
    match price.map(|price| (price.billing, price.group_ratio)) {
        Some((Billing::PerToken(ratios), group)) => {
            let details = itemised(&ratios, group, tokens);
            Bill { cost: details.breakdown.total_cost, is_priced: true, details: Some(details) }
        }
        Some((Billing::PerCall(Some(price)), group)) => {
            Bill { cost: price.under(group), is_priced: true, details: None }
        }
        Some((Billing::PerCall(None), _)) | None => {
            Bill { cost: flat_estimate(platform, tokens.settled().total), is_priced: false, details: None }
        }
    }
}

/// Returns what spending statistics count for a request: its cost, or the flat estimate where the cost is 0, as for an
/// answer that broke off.
pub fn spend(cost: Usd, platform: Option<Platform>, tokens: u64) -> Usd {
    if cost > Usd::ZERO { cost } else { flat_estimate(platform, tokens) }
}

/// Estimates the cost of tokens where no price is known.
pub fn flat_estimate(platform: Option<Platform>, tokens: u64) -> Usd {
    let per_usd = platform.map_or(TOKENS_PER_USD, |platform| platform.profile().tokens_per_usd);
    Usd::new(tokens as f64 / per_usd).price()
}

/// Computes the sum under these ratios, part by part.
pub fn itemised(ratios: &Ratios, group: f64, tokens: Tokens) -> BillingDetails {
    let tokens = tokens.settled();
    let per_million = |factor: f64| Usd::new(USD_PER_MILLION * ratios.model * factor * group).price();
    let cost = |count: u64, per_million: Usd| (per_million * (count as f64 / 1e6)).price();
    let input_per_million = per_million(1.0);
    let output_per_million = per_million(ratios.completion);
    let cache_read_per_million = per_million(ratios.cache_read);
    let cache_creation_per_million = per_million(ratios.cache_creation);
    let billable = tokens.billable_prompt();
    let input_cost = cost(billable, input_per_million);
    let output_cost = cost(tokens.completion, output_per_million);
    let cache_read_cost = cost(tokens.cache_read, cache_read_per_million);
    let cache_creation_cost = cost(tokens.cache_creation, cache_creation_per_million);
    BillingDetails {
        quota_type: 0,
        usage: BilledUsage {
            prompt_tokens: tokens.prompt,
            completion_tokens: tokens.completion,
            total_tokens: tokens.total,
            cache_read_tokens: tokens.cache_read,
            cache_creation_tokens: tokens.cache_creation,
            billable_prompt_tokens: billable,
            prompt_tokens_include_cache: tokens.prompt_includes_cache,
        },
        pricing: BilledRatios {
            model_ratio: ratios.model,
            completion_ratio: ratios.completion,
            cache_ratio: ratios.cache_read,
            cache_creation_ratio: ratios.cache_creation,
            group_ratio: group,
        },
        breakdown: Breakdown {
            input_per_million,
            output_per_million,
            cache_read_per_million,
            cache_creation_per_million,
            input_cost,
            output_cost,
            cache_read_cost,
            cache_creation_cost,
            total_cost: (input_cost + output_cost + cache_read_cost + cache_creation_cost).price(),
        },
    }
}

/// Returns the prices of a million input and output tokens under a group's multiplier.
pub fn per_million(ratios: &Ratios, group: f64) -> (Usd, Usd) {
    let breakdown = itemised(ratios, group, Tokens::default()).breakdown;
    (breakdown.input_per_million, breakdown.output_per_million)
}

/// Returns the price of half a million tokens each way, or of a call: one amount per model, by which channels are compared.
/// Zero if no price is known.
pub(super) fn reference(price: &ModelPrice) -> Usd {
    let cost = match price.billing {
        Billing::PerToken(ratios) => {
            let half_each = Tokens { prompt: 500_000, completion: 500_000, ..Tokens::default() };
            itemised(&ratios, price.group_ratio, half_each).breakdown.total_cost
        }
        Billing::PerCall(Some(call)) => call.under(price.group_ratio),
        Billing::PerCall(None) => return Usd::ZERO,
    };
    cost.max(LEAST_REFERENCE)
}

// === impl Tokens ===

impl Tokens {
    /// Raises the total to at least the sum of prompt and completion.
    fn settled(self) -> Self {
        Self { total: self.total.max(self.prompt.saturating_add(self.completion)), ..self }
    }

    /// Returns the tokens that were read from caches or written to them.
    pub fn cached(self) -> u64 {
        self.cache_read.saturating_add(self.cache_creation)
    }

    /// Returns the tokens of the whole prompt, including its cached part.
    pub fn input(self) -> u64 {
        let beside = if self.prompt_includes_cache == Some(false) { self.cached() } else { 0 };
        self.prompt.saturating_add(beside)
    }

    /// Returns the prompt tokens charged at the full price: without cached ones, and out of all tokens if the two sides are
    /// unknown.
    fn billable_prompt(self) -> u64 {
        let prompt = if self.prompt == 0 && self.completion == 0 { self.total } else { self.prompt };
        match self.prompt_includes_cache {
            Some(false) => prompt,
            _ => prompt.saturating_sub(self.cache_read).saturating_sub(self.cache_creation),
        }
    }
}

#[cfg(test)]
mod tests;
