//! The cache of the models on offer.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;
use tokio::time::Instant;

use crate::ids::{AccountId, SiteId, TokenId};
use crate::money::Usd;
use crate::sync::lock;

/// The time for which a list is cached, without prices and with them.
pub(super) const KEPT: [Duration; 2] = [Duration::from_secs(15), Duration::from_secs(90)];

/// The last lists, without prices and with them.
#[derive(Default)]
pub struct MarketplaceCache {
    pub(super) cached: Mutex<[Option<CachedList>; 2]>,
}

pub(super) struct CachedList {
    pub(super) at: Instant,
    /// The number of price lists that had been found when the list was made.
    pub(super) price_lists: u64,
    pub(super) models: Arc<Vec<Model>>,
}

/// A model on offer, with the accounts that offer it and their prices.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Model {
    pub(super) name: String,
    pub(super) account_count: usize,
    pub(super) token_count: usize,
    pub(super) avg_latency: i64,
    /// In percent; null without requests.
    pub(super) success_rate: Option<Value>,
    pub(super) description: Option<String>,
    pub(super) tags: BTreeSet<String>,
    pub supported_endpoint_types: BTreeSet<String>,
    pub(super) pricing_sources: Vec<PricingSource>,
    pub(super) accounts: Vec<OfferingAccount>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct OfferingAccount {
    pub(super) id: AccountId,
    pub(super) site: String,
    pub(super) username: String,
    pub(super) latency: Option<i64>,
    pub(super) unit_cost: Option<f64>,
    pub(super) balance: Usd,
    pub(super) tokens: Vec<OfferingToken>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct OfferingToken {
    pub(super) id: TokenId,
    pub(super) name: String,
    pub(super) is_default: bool,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PricingSource {
    pub(super) site_id: SiteId,
    pub(super) site_name: String,
    pub(super) account_id: AccountId,
    pub(super) username: String,
    pub(super) owner_by: Option<String>,
    pub(super) enable_groups: Vec<String>,
    pub(super) group_pricing: BTreeMap<String, GroupPricing>,
}

/// The price of a model under one group's multiplier, in USD.
#[derive(Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct GroupPricing {
    /// 0 for prices by token, 1 for prices by call.
    pub(super) quota_type: u8,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) input_per_million: Option<Usd>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) output_per_million: Option<Usd>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) per_call_input: Option<Usd>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) per_call_output: Option<Usd>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) per_call_total: Option<Usd>,
}

impl MarketplaceCache {
    /// Returns the cached list, unless it is too old or prices were found since.
    pub fn get(&self, with_prices: bool, price_lists: u64) -> Option<Arc<Vec<Model>>> {
        let cached = lock(&self.cached);
        let cached = cached[usize::from(with_prices)].as_ref()?;
        let holds = cached.at.elapsed() < KEPT[usize::from(with_prices)]
            && (!with_prices || cached.price_lists == price_lists);
        holds.then(|| cached.models.clone())
    }

    pub(super) fn keep(&self, with_prices: bool, price_lists: u64, models: Arc<Vec<Model>>) {
        let mut cached = lock(&self.cached);
        cached[usize::from(with_prices)] = Some(CachedList { at: Instant::now(), price_lists, models });
    }

    /// Empties the cache.
    pub fn clear(&self) {
        *lock(&self.cached) = [None, None];
    }
}

impl Model {
    pub fn name(&self) -> &str {
        &self.name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn lists_are_kept_for_a_while_those_with_prices_longer() {
        let cache = MarketplaceCache::default();
        for (with_prices, seconds) in [(false, 15), (true, 90)] {
            assert!(cache.get(with_prices, 1).is_none());
            cache.keep(with_prices, 1, Arc::default());
            tokio::time::advance(Duration::from_millis(seconds * 1000 - 1)).await;
            assert!(cache.get(with_prices, 1).is_some(), "{with_prices}");
            assert_eq!(cache.get(with_prices, 2).is_none(), with_prices, "prices were found since");
            tokio::time::advance(Duration::from_millis(1)).await;
            assert!(cache.get(with_prices, 1).is_none(), "{with_prices}");
        }
        cache.keep(true, 1, Arc::default());
        cache.clear();
        assert!(cache.get(true, 1).is_none());
    }
}
