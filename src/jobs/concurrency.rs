//! Runs work on many accounts at many sites, limited in total and per site, so that no site waits for another that is
//! slow. Work begins at a measured pace: a pass over a thousand accounts, at sites that answer at once, would otherwise
//! take the processor from the requests of clients. [`SitePlaces`] has the same limits for work that is not begun here.

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;

use crate::fence;
use crate::ids::SiteId;
use crate::sync::lock;

/// The most pieces of work that run at once.
#[derive(Clone, Copy, Debug)]
pub struct Concurrency {
    pub total: usize,
    pub per_site: usize,
}

/// The least time from one start to the next: at most 100 accounts are begun in a second.
const START_INTERVAL: Duration = Duration::from_millis(10);

/// The places for work on sites, limited in total and per site.
pub struct SitePlaces {
    all: Arc<Semaphore>,
    per_site: usize,
    /// The places of the sites that are being worked on.
    sites: Mutex<HashMap<SiteId, Arc<Semaphore>>>,
}

/// A place for work on a site, until it is dropped.
pub struct SitePlace {
    _at_site: OwnedSemaphorePermit,
    _of_all: OwnedSemaphorePermit,
}

// === impl SitePlaces ===

impl SitePlaces {
    pub fn new(most: Concurrency) -> Self {
        let all = Arc::new(Semaphore::new(most.total));
        Self { all, per_site: most.per_site, sites: Mutex::default() }
    }

    /// Waits for a place. Work that waits for its site takes no place from other sites.
    pub async fn acquire(&self, site: SiteId) -> Option<SitePlace> {
        let at_site = self.at_site(site).acquire_owned().await.ok()?;
        let of_all = self.all.clone().acquire_owned().await.ok()?;
        Some(SitePlace { _at_site: at_site, _of_all: of_all })
    }

    /// Returns a place if one is free.
    pub fn try_acquire(&self, site: SiteId) -> Option<SitePlace> {
        let at_site = self.at_site(site).try_acquire_owned().ok()?;
        let of_all = self.all.clone().try_acquire_owned().ok()?;
        Some(SitePlace { _at_site: at_site, _of_all: of_all })
    }

    fn at_site(&self, site: SiteId) -> Arc<Semaphore> {
        let mut sites = lock(&self.sites);
        sites.retain(|_, places| Arc::strong_count(places) > 1);
        sites.entry(site).or_insert_with(|| Arc::new(Semaphore::new(self.per_site))).clone()
    }
}

/// Does `work` for every item, at each site in the given order. Returns the results in the order in which the pieces
/// end; a piece that panics has none. Dropping the future drops the running pieces.
pub async fn run_concurrently<T, R, F>(
    items: Vec<(SiteId, T)>,
    at_once: Concurrency,
    work: impl Fn(T) -> F,
) -> Vec<R>
where
    R: Send + 'static,
    F: Future<Output = R> + Send + 'static,
{
    let mut waiting: Vec<Option<(SiteId, T)>> = in_turns(items).into_iter().map(Some).collect();
    // All items before this index have begun.
    let mut first = 0;
    let mut busy: HashMap<SiteId, usize> = HashMap::new();
    let mut sites: HashMap<tokio::task::Id, SiteId> = HashMap::new();
    let mut running = JoinSet::new();
    let mut results = Vec::with_capacity(waiting.len());
    let mut pace = tokio::time::interval(START_INTERVAL);
    pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        for slot in waiting.iter_mut().skip(first) {
            if running.len() >= at_once.total {
                break;
            }
            let at_site = |site: &SiteId| busy.get(site).copied().unwrap_or(0);
            if let Some((site, item)) = slot.take_if(|(site, _)| at_site(site) < at_once.per_site) {
                pace.tick().await;
                *busy.entry(site).or_default() += 1;
                sites.insert(running.spawn(fence::inherited(work(item))).id(), site);
            }
        }
        while waiting.get(first).is_some_and(Option::is_none) {
            first += 1;
        }
        let (id, result) = match running.join_next_with_id().await {
            None => return results,
            Some(Ok((id, result))) => (id, result),
            Some(Err(error)) => {
                log::error!("a job's work on an account panicked or was cancelled: {error}");
                (error.id(), None)
            }
        };
        results.extend(result);
        if let Some(count) = sites.remove(&id).and_then(|site| busy.get_mut(&site)) {
            *count -= 1;
        }
    }
}

/// Sorts the items so that every site's first item precedes all second items, and so on: many items of a site that hangs
/// then delay few items of others.
fn in_turns<T>(items: Vec<(SiteId, T)>) -> Vec<(SiteId, T)> {
    let mut counts: HashMap<SiteId, usize> = HashMap::new();
    let turn_of = |item: (SiteId, T)| {
        let turn = counts.entry(item.0).or_default();
        *turn += 1;
        (*turn, item)
    };
    let mut turns: Vec<(usize, (SiteId, T))> = items.into_iter().map(turn_of).collect();
    turns.sort_by_key(|(turn, _)| *turn);
    turns.into_iter().map(|(_, item)| item).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    use tokio::time::{Instant, sleep};

    use super::*;

    fn at<T>(site: i64, item: T) -> (SiteId, T) {
        (SiteId::new(site), item)
    }

    #[tokio::test(start_paused = true)]
    async fn a_thousand_accounts_on_a_hundred_sites_keep_to_the_width() {
        const CONCURRENCY: Concurrency = Concurrency { total: 8, per_site: 2 };
        let now = Arc::new(AtomicUsize::new(0));
        let most = Arc::new(AtomicUsize::new(0));
        let at_site: Arc<Vec<AtomicUsize>> = Arc::new((0..100).map(|_| AtomicUsize::new(0)).collect());
        let items = (0..1000).map(|account| at(account / 10, account)).collect();
        let done = run_concurrently(items, CONCURRENCY, |account: i64| {
            let (now, most, at_site) = (now.clone(), most.clone(), at_site.clone());
            async move {
                let site = &at_site[usize::try_from(account / 10).expect("small")];
                most.fetch_max(now.fetch_add(1, SeqCst) + 1, SeqCst);
                assert!(site.fetch_add(1, SeqCst) < CONCURRENCY.per_site);
                sleep(Duration::from_secs(1)).await;
                site.fetch_sub(1, SeqCst);
                now.fetch_sub(1, SeqCst);
                account
            }
        });
        let mut done = done.await;
        done.sort_unstable();
        assert_eq!(done, (0..1000).collect::<Vec<_>>());
        assert_eq!(most.load(SeqCst), CONCURRENCY.total);
    }

    #[tokio::test(start_paused = true)]
    async fn one_at_a_time_at_a_site_is_in_order_and_a_slow_site_holds_up_no_other() {
        let order = Arc::new(Mutex::new(Vec::new()));
        let items = vec![at(1, (1, 100)), at(1, (2, 1)), at(2, (3, 1)), at(2, (4, 1)), at(3, (5, 1))];
        let began = Instant::now();
        let work = |(account, seconds): (i64, u64)| {
            let order = order.clone();
            async move {
                sleep(Duration::from_secs(seconds)).await;
                order.lock().expect("no panic").push(account);
            }
        };
        run_concurrently(items, Concurrency { total: 2, per_site: 1 }, work).await;
        assert_eq!(*order.lock().expect("no panic"), [3, 5, 4, 1, 2]);
        assert_eq!(began.elapsed().as_secs(), 101);
    }

    #[tokio::test(start_paused = true)]
    async fn sites_that_hang_hold_up_no_other_with_their_many_accounts() {
        let items = (0..40).map(|account| at(account / 20, 12)).chain([at(2, 0), at(3, 0)]).collect();
        let began = Instant::now();
        let work = |seconds: u64| async move {
            sleep(Duration::from_secs(seconds)).await;
            (seconds == 0).then(|| began.elapsed())
        };
        let done = run_concurrently(items, Concurrency { total: 3, per_site: 2 }, work).await;
        assert!(done.into_iter().flatten().all(|after| after < Duration::from_secs(1)));
    }

    #[test]
    fn a_site_takes_no_more_than_its_share_of_the_places() {
        let places = SitePlaces::new(Concurrency { total: 3, per_site: 2 });
        let (one, other) = (SiteId::new(1), SiteId::new(2));
        let held = [places.try_acquire(one), places.try_acquire(one)];
        assert!(held.iter().all(Option::is_some));
        assert!(places.try_acquire(one).is_none(), "the site has its share");
        let beside = places.try_acquire(other);
        assert!(beside.is_some());
        assert!(places.try_acquire(other).is_none(), "all are taken");
        drop(held);
        assert!(places.try_acquire(one).is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn sites_that_answer_at_once_are_asked_at_a_measured_pace() {
        let began = Instant::now();
        let items = (0..1000).map(|account| at(account / 10, account)).collect();
        let done = run_concurrently(
            items,
            Concurrency { total: 8, per_site: 2 },
            |account: i64| async move { account },
        )
        .await;
        assert_eq!(done.len(), 1000);
        assert_eq!(began.elapsed(), START_INTERVAL * 999);
    }

    #[tokio::test]
    async fn a_piece_that_panics_is_left_out() {
        let work = |account: i64| async move {
            assert_ne!(account, 2, "two");
            account
        };
        let done =
            run_concurrently(vec![at(1, 1), at(1, 2), at(1, 3)], Concurrency { total: 1, per_site: 1 }, work)
                .await;
        assert_eq!(done, [1, 3]);
    }
}
