//! The state that the admin API keeps from one request to the next, and the parts it builds on.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{Mutex, OnceCell};

use super::accounts::list_key::ListKey;
use super::copying::Copies;
use super::decisions::cache::DecisionCache;
use super::logs::live_readers::LiveReaders;
use super::models::list_key::{self, MarketplaceCache};
use super::playground::job_list::JobList;
use super::stats::kept::{self, StatsCache};
use super::stored_answers;
use super::timed_cache::TimedCache;
use crate::core::Core;
use crate::http::router::Router;
use crate::http::{Endpoint, Route};
use crate::jobs::Jobs;
use crate::limits::Guards;
use crate::proxy::Proxy;
use crate::routing::limit_windows::LimitsVersion;
use crate::store::admin_snapshots::{self, StoredAnswer};
use crate::time::{Millis, now_ms};

/// The admin API: its routes and its caches.
pub struct Admin {
    pub core: Arc<Core>,
    pub jobs: Arc<Jobs>,
    pub proxy: Arc<Proxy>,
    pub router: Router<Route<Admin>>,
    /// Held while a login looks for its account and stores it, so that each user name at a site has one account.
    pub account_logins: Mutex<()>,
    /// Whether everything is being copied into another database.
    pub copying: Copies,
    pub guards: Guards,
    /// The cached account list.
    pub accounts_list: TimedCache<ListKey, Bytes>,
    /// Set once the account list from before the restart was looked for.
    former_list: OnceCell<()>,
    /// The version of the accounts' limits at the start, which the account list from before it may show.
    limits_at_start: LimitsVersion,
    /// The cached list of the models on offer.
    pub marketplace: MarketplaceCache,
    /// The cached statistics.
    pub stats: StatsCache,
    decisions: DecisionCache,
    pub live_readers: LiveReaders,
    /// Proxy requests that operators started as jobs and look at later.
    pub playground: JobList,
}

impl Admin {
    pub fn new(
        core: &Arc<Core>,
        jobs: &Arc<Jobs>,
        proxy: &Arc<Proxy>,
        routes: Vec<Route<Self>>,
    ) -> Arc<Self> {
        Arc::new(Self {
            core: core.clone(),
            jobs: jobs.clone(),
            proxy: proxy.clone(),
            router: Router::of(routes),
            account_logins: Mutex::new(()),
            copying: Copies::default(),
            guards: Guards::default(),
            accounts_list: TimedCache::new(1),
            former_list: OnceCell::new(),
            limits_at_start: core.live.limits_version(now_ms()),
            marketplace: list_key::cache(),
            stats: kept::cache(),
            decisions: DecisionCache::default(),
            live_readers: LiveReaders::default(),
            playground: JobList::default(),
        })
    }

    /// Reads the statistics from before the restart that still hold.
    pub async fn read_former_statistics(&self) {
        for StoredAnswer { name, text, at } in self.stored(&format!("{}%", stored_answers::STATISTICS)).await
        {
            let about = name.strip_prefix(stored_answers::STATISTICS).unwrap_or_default();
            if let Ok(statistics) = serde_json::from_str(text.expose()) {
                self.stats.put(about.to_owned(), Arc::new(statistics), age(at));
            }
        }
    }

    /// Reads the account list from before the restart if it still holds. Only the first call does: later on, a list that
    /// was dropped is one that no longer holds.
    pub async fn read_former_list(&self) {
        let read = || async {
            let key = ListKey::of(&self.core);
            if self.core.live.limits_version(now_ms()) != self.limits_at_start {
                return;
            }
            for StoredAnswer { text, at, .. } in self.stored(stored_answers::ACCOUNTS).await {
                let list = Bytes::copy_from_slice(text.expose().as_bytes());
                self.accounts_list.put(key.clone(), list, age(at));
            }
        };
        self.former_list.get_or_init(read).await;
    }

    async fn stored(&self, names: &str) -> Vec<StoredAnswer> {
        let oldest = now_ms() - stored_answers::LONGEST_KEPT;
        let stored = admin_snapshots::since(&self.core.store, names, oldest).await;
        stored.unwrap_or_else(|error| {
            log::warn!("answers from before the restart could not be read: {error}");
            Vec::new()
        })
    }

    /// Forgets what was learnt and cached, for a factory reset. A new field does not compile until it is decided here.
    pub fn forget_everything(&self) {
        let Self {
            guards,
            stats,
            decisions,
            marketplace,
            playground,
            // Other parts of the service, which forget for themselves.
            core: _,
            jobs: _,
            proxy: _,
            router: _,
            // Belongs to the snapshot that was published when it was made.
            accounts_list: _,
            former_list: _,
            limits_at_start: _,
            // Work under way.
            account_logins: _,
            copying: _,
            live_readers: _,
        } = self;
        guards.clear();
        stats.clear();
        decisions.clear();
        marketplace.clear();
        playground.clear();
    }

    /// Returns the cached explanations of routes, without those from before the last rebuild that changed routes.
    pub fn decisions(&self) -> &DecisionCache {
        self.decisions.follow(self.jobs.route_changes());
        &self.decisions
    }

    /// Returns the endpoints of all routes of the service.
    pub fn endpoints(&self) -> impl Iterator<Item = &Endpoint> {
        self.router.endpoints().chain(self.proxy.router.endpoints())
    }
}

fn age(at: Millis) -> Duration {
    Duration::from_millis((now_ms() - at).max(0).unsigned_abs())
}
