//! The current price list of an account.

use std::sync::Arc;

use arc_swap::ArcSwapOption;

use super::catalog::Catalog;
use crate::money::Usd;

/// The price list of one account, shared by every snapshot that has the account. Requests read it without a lock; a refresh
/// replaces it. Empty until the site's prices have been read.
#[derive(Debug, Default)]
pub struct PriceList(ArcSwapOption<Catalog>);

impl PriceList {
    /// Returns the list as last read.
    pub fn load(&self) -> Option<Arc<Catalog>> {
        self.0.load_full()
    }

    /// Replaces the list with a newer one.
    pub fn replace(&self, catalog: Arc<Catalog>) {
        self.0.store(Some(catalog));
    }

    /// Returns the price of half a million tokens each way at this site, by which channels are compared; `None` when the
    /// site's prices are unknown.
    pub fn reference_cost(&self, model: &str) -> Option<Usd> {
        let catalog = self.0.load();
        let price = catalog.as_ref()?.price(model)?;
        Some(price.reference_cost).filter(|cost| *cost > Usd::ZERO)
    }
}
