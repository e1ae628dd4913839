//! Runs work on many accounts at many sites, limited in total and per site, so that no site waits for another that is
//! slow. Work begins at a measured pace: a pass over a thousand accounts, at sites that answer at once, would otherwise
//! take the processor from the requests of clients.

use std::collections::HashMap;
use std::future::Future;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;

use crate::fence;
use crate::ids::SiteId;

/// The most pieces of work that run at once.
#[derive(Clone, Copy, Debug)]
pub struct Concurrency {
    pub total: usize,
    pub per_site: usize,
}

/// The least time from one start to the next: at most 100 accounts are begun in a second.
const START_INTERVAL: Duration = Duration::from_millis(10);

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
    let mut waiting: Vec<Option<(SiteId, T)>> = items.into_iter().map(Some).collect();
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
        assert_eq!(*order.lock().expect("no panic"), [3, 4, 5, 1, 2]);
        assert_eq!(began.elapsed().as_secs(), 101);
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
