//! The price lists that were read, and when each is to be read again.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};

use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::routing::pricing::Catalog;
use crate::sync::lock;

/// Lists read at once.
pub(super) const PARALLEL: usize = 4;

/// When each list is to be read again; [`Jobs`](super::Jobs) holds one.
pub struct Prices {
    pub(super) due: Mutex<HashMap<i64, Due>>,
    pub(super) slots: Semaphore,
    /// The last list of each site: accounts that see the same prices share them.
    pub(super) shared: Mutex<HashMap<i64, Weak<Catalog>>>,
}

#[derive(Clone, Copy)]
pub(super) struct Due {
    pub(super) at: Instant,
    pub(super) failures: u32,
}

impl Default for Prices {
    fn default() -> Self {
        Self { due: Mutex::default(), slots: Semaphore::new(PARALLEL), shared: Mutex::default() }
    }
}

impl Prices {
    /// The site's list that is already there, when it says the same.
    pub(super) fn share(&self, site: i64, catalog: Catalog) -> Arc<Catalog> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_that_see_the_same_prices_share_them() {
        let prices = Prices::default();
        let one = prices.share(1, Catalog::default());
        assert!(Arc::ptr_eq(&one, &prices.share(1, Catalog::default())));
        assert!(!Arc::ptr_eq(&one, &prices.share(2, Catalog::default())));
        let other = Catalog::new(Vec::new(), vec![("vip".to_owned(), 2.0)]);
        assert!(!Arc::ptr_eq(&one, &prices.share(1, other)));
    }
}
