//! The price lists that were read, and when each is to be read again.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{self, Instant};

use super::concurrency::{Concurrency, SitePlaces};
use crate::ids::{AccountId, SiteId};
use crate::routing::pricing::{Catalog, PriceList};
use crate::sync::lock;

/// The number of lists read at once.
pub(super) const CONCURRENCY: Concurrency = Concurrency { total: 4, per_site: 2 };
/// The longest wait for first looks when prices are shown: most sites answer sooner, and a slow one does not hold up a
/// page.
const FIRST_LOOK_TIMEOUT: Duration = Duration::from_secs(2);

/// The price lists, and when each is to be read again; [`Jobs`](crate::jobs::Jobs) holds one.
pub struct Prices {
    pub(super) due: Mutex<HashMap<AccountId, Due>>,
    pub(super) slots: SitePlaces,
    /// The last list of each site: accounts that see the same prices share them.
    pub(super) shared: Mutex<HashMap<SiteId, Weak<Catalog>>>,
    first_looks: Arc<watch::Sender<FirstLooks>>,
}

/// The counts of looks at the lists of accounts whose prices are unknown.
#[derive(Clone, Copy, Default)]
struct FirstLooks {
    under_way: usize,
    /// The number of looks that gave a list.
    found: u64,
}

/// A first look that is under way, until it is dropped.
pub(super) struct FirstLook(Arc<watch::Sender<FirstLooks>>);

#[derive(Clone, Copy)]
pub(super) struct Due {
    pub(super) at: Instant,
    pub(super) failures: u32,
}

impl Default for Prices {
    fn default() -> Self {
        Self {
            due: Mutex::default(),
            slots: SitePlaces::new(CONCURRENCY),
            shared: Mutex::default(),
            first_looks: Arc::default(),
        }
    }
}

impl Prices {
    /// Returns how many lists were found where none was known. A rise makes everything computed from earlier prices
    /// stale.
    pub fn found(&self) -> u64 {
        self.first_looks.borrow().found
    }

    /// Waits for the first looks that are under way, two seconds at most.
    pub async fn settle(&self) {
        let mut looks = self.first_looks.subscribe();
        let settled = looks.wait_for(|looks| looks.under_way == 0);
        if time::timeout(FIRST_LOOK_TIMEOUT, settled).await.is_err() {
            log::debug!("prices are shown although some sites have not answered yet");
        }
    }

    /// Waits until this account's list has been read for the first time, or that has failed.
    pub(super) async fn until_read(&self, account: AccountId, list: &PriceList) {
        let mut looks = self.first_looks.subscribe();
        // The sender lives as long as this.
        drop(looks.wait_for(|_| list.load().is_some() || self.has_failed(account)).await);
    }

    /// Whether the last reading of the account's list failed.
    pub(super) fn has_failed(&self, account: AccountId) -> bool {
        lock(&self.due).get(&account).is_some_and(|due| due.failures > 0)
    }

    pub(super) fn note_found(&self) {
        self.first_looks.send_modify(|looks| looks.found += 1);
    }

    /// Returns the list that the site's accounts share if it is equal to this one; else makes this one the shared list.
    pub(super) fn share(&self, site: SiteId, catalog: Catalog) -> Arc<Catalog> {
        let mut shared = lock(&self.shared);
        shared.retain(|_, list| list.strong_count() > 0);
        match shared.get(&site).and_then(Weak::upgrade) {
            Some(known) if *known == catalog => known,
            _ => {
                let catalog = Arc::new(catalog);
                shared.insert(site, Arc::downgrade(&catalog));
                catalog
            }
        }
    }
}

// === impl FirstLook ===

impl FirstLook {
    pub(super) fn begin(prices: &Prices) -> Self {
        prices.first_looks.send_modify(|looks| looks.under_way += 1);
        Self(prices.first_looks.clone())
    }
}

impl Drop for FirstLook {
    fn drop(&mut self) {
        self.0.send_modify(|looks| looks.under_way -= 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_that_see_the_same_prices_share_them() {
        let prices = Prices::default();
        let one = prices.share(SiteId::new(1), Catalog::default());
        assert!(Arc::ptr_eq(&one, &prices.share(SiteId::new(1), Catalog::default())));
        assert!(!Arc::ptr_eq(&one, &prices.share(SiteId::new(2), Catalog::default())));
        let other = Catalog::new(Vec::new(), vec![("vip".to_owned(), 2.0)]);
        assert!(!Arc::ptr_eq(&one, &prices.share(SiteId::new(1), other)));
    }
}
