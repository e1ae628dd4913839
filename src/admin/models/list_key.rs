//! The cache of the models on offer, and what a list of them is made of.

use std::sync::Arc;
use std::time::Duration;

use super::listed_model::Model;
use crate::admin::timed_cache::{Ask, TimedCache};

/// How long lists without prices and with them are kept.
const KEPT: [Duration; 2] = [Duration::from_secs(15), Duration::from_secs(90)];

/// The latest lists.
pub type MarketplaceCache = TimedCache<MarketplaceKey, Arc<Vec<Model>>>;

/// The prices that a list is made with.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct MarketplaceKey {
    /// The number of price lists that had been found; `None` for a list without prices.
    pub(super) price_lists: Option<u64>,
}

impl MarketplaceKey {
    pub(super) fn ask(self) -> Ask {
        let kept = KEPT[usize::from(self.price_lists.is_some())];
        Ask { fresh: kept, stale: kept, refresh: false, what: "the list of models" }
    }
}

/// Returns an empty cache, for a list with prices and one without.
pub fn cache() -> MarketplaceCache {
    TimedCache::new(2)
}
