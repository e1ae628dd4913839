//! Reads the price list of each account before requests need it.
//!
//! ```text
//! refresh_due      every minute: the accounts whose list is old
//! refresh_soon     after a model discovery
//! refresh_unread   where an operator puts an account to use without a discovery
//! refresh_now      when an operator asks for fresh prices
//! ```
//!
//! A list is read again after ten minutes, sooner after a failure, and only rarely where a site publishes none. A
//! failure changes no price: the last known prices stay. Lists live in memory beside the snapshot
//! ([`PriceList`](crate::routing::pricing::PriceList)); a restart reads them anew.

use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::concurrency::run_concurrently;
use super::price_lists::{CONCURRENCY, Due, FirstLook};
use super::schedule::Pass;
use super::sessions::site_client::site_client_of;
use crate::ids::{AccountId, SiteId};
use crate::jobs::Jobs;
use crate::routing::pricing::Catalog;
use crate::store::Store;
use crate::store::accounts::{self, AccountRow, AccountStatus};
use crate::store::sites::{self, SiteRow, SiteStatus};
use crate::store::{self};
use crate::sync::lock;
use crate::upstream::platforms::{PRICE_LIMITS, PriceError, fetch_prices};

/// The interval at which due lists are looked for.
pub const INTERVAL: Duration = Duration::from_secs(60);
/// The time for which a list counts as fresh.
const FRESH: Duration = Duration::from_secs(600);
/// The pause after a first failure; it doubles up to [`FRESH`].
const AFTER_FAILURE: Duration = Duration::from_secs(60);
/// The pause where a site publishes no list.
const UNPUBLISHED: Duration = Duration::from_secs(3600);

/// Reads every list that is due, of accounts that may serve at active sites.
pub async fn refresh_due(jobs: Arc<Jobs>) -> Pass {
    let serving = |account: AccountRow| may_serve(&account).then_some((account.site_id, account.id));
    let serving = accounts::pick(&jobs.core.store, serving).await?;
    let now = Instant::now();
    let due: Vec<(SiteId, AccountId)> = {
        let mut known = lock(&jobs.prices.due);
        known.retain(|id, _| serving.binary_search_by_key(id, |(_, id)| *id).is_ok());
        serving.into_iter().filter(|(_, id)| known.get(id).is_none_or(|due| due.at <= now)).collect()
    };
    refresh_now(&jobs, due).await;
    Ok(None)
}

/// Reads the lists of these accounts and returns when all have been tried. Begins only as many at a time as can be at
/// work: each takes some kilobytes, and there may be tens of thousands of accounts.
pub async fn refresh_now(jobs: &Arc<Jobs>, accounts: Vec<(SiteId, AccountId)>) {
    let read = |id| {
        let jobs = jobs.clone();
        async move { refresh(&jobs, id).await }
    };
    run_concurrently(accounts, CONCURRENCY, read).await;
}

/// Reads the account's list in the background.
pub fn refresh_soon(jobs: &Arc<Jobs>, account: AccountId) {
    let reading = jobs.clone();
    let is_first = jobs.core.live.prices(account).load().is_none();
    let look = is_first.then(|| FirstLook::begin(&jobs.prices));
    jobs.core.background.spawn("a look at a price list", async move {
        refresh(&reading, account).await;
        drop(look);
    });
}

/// Reads the list of an account in the background if it has not been asked for yet, so that its first requests do not
/// cost an estimate only because nothing was discovered.
pub fn refresh_unread(jobs: &Arc<Jobs>, account: AccountId) {
    // Marked at once, so that several new channels of one account read its list once.
    let is_new = match lock(&jobs.prices.due).entry(account) {
        Entry::Vacant(unread) => {
            unread.insert(Due { at: Instant::now(), failures: 0 });
            true
        }
        Entry::Occupied(_) => false,
    };
    if is_new {
        refresh_soon(jobs, account);
    }
}

async fn refresh(jobs: &Jobs, id: AccountId) {
    let read = match rows(&jobs.core.store, id).await {
        Ok(Some((site, account))) => {
            let Some(_slot) = jobs.prices.slots.acquire(site.id).await else { return };
            let read = fetch(jobs, &site, &account).await;
            if let Ok(catalog) = &read {
                let list = jobs.core.live.prices(id);
                let is_first = list.load().is_none();
                list.replace(catalog.clone());
                if is_first {
                    jobs.prices.note_found();
                }
                let level = if is_first { log::Level::Info } else { log::Level::Debug };
                let models = catalog.models().len();
                log::log!(level, "account {id} on site \"{}\": prices of {models} models", site.name);
            }
            read
        }
        Ok(None) => return,
        Err(error) => Err(PriceError::Failed(error.to_string())),
    };
    let failures = match &read {
        Ok(_) => 0,
        Err(_) => lock(&jobs.prices.due).get(&id).map_or(0, |due| due.failures).saturating_add(1),
    };
    let pause = match &read {
        Ok(_) => FRESH,
        Err(PriceError::NotPublished) => UNPUBLISHED,
        Err(PriceError::Failed(message)) => {
            let level = if failures == 1 { log::Level::Info } else { log::Level::Debug };
            log::log!(level, "the prices of account {id} could not be read: {message}");
            pause_after(failures)
        }
    };
    lock(&jobs.prices.due).insert(id, Due { at: Instant::now() + pause, failures });
}

/// Returns the account and its site, when both may serve.
async fn rows(store: &Store, id: AccountId) -> store::Result<Option<(SiteRow, AccountRow)>> {
    let Some(account) = accounts::get(store, id).await?.filter(may_serve) else { return Ok(None) };
    let site = sites::get(store, account.site_id).await?;
    Ok(site.filter(|site| site.status == SiteStatus::Active).map(|site| (site, account)))
}

async fn fetch(jobs: &Jobs, site: &SiteRow, account: &AccountRow) -> Result<Arc<Catalog>, PriceError> {
    let site_client =
        site_client_of(&jobs.core, site, account).map_err(|error| PriceError::Failed(error.to_string()))?;
    let catalog = fetch_prices(&jobs.core.client, &site_client, PRICE_LIMITS).await?;
    Ok(jobs.prices.share(site.id, catalog))
}

/// Whether requests may go through the account: the keys of an expired session still work.
fn may_serve(account: &AccountRow) -> bool {
    matches!(account.status, AccountStatus::Active | AccountStatus::Expired)
}

fn pause_after(failures: u32) -> Duration {
    AFTER_FAILURE.saturating_mul(1 << failures.saturating_sub(1).min(4)).min(FRESH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_site_that_fails_is_asked_again_after_a_minute_then_less_and_less_often() {
        for (failures, minutes) in [(1, 1), (2, 2), (3, 4), (4, 8), (5, 10), (500, 10)] {
            assert_eq!(pause_after(failures), Duration::from_secs(60 * minutes), "{failures}");
        }
    }
}
