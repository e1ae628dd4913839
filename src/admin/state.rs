//! The state that the admin API keeps from one request to the next, and the parts it builds on.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::Mutex;

use super::accounts::list_key::ListKey;
use super::copying::Copies;
use super::decisions::cache::DecisionCache;
use super::logs::live_readers::LiveReaders;
use super::models::list_key::{self, MarketplaceCache};
use super::playground::job_list::JobList;
use super::stats::kept::{self, StatsCache};
use super::timed_cache::TimedCache;
use crate::core::Core;
use crate::http::router::Router;
use crate::http::{Endpoint, Route};
use crate::jobs::Jobs;
use crate::limits::Guards;
use crate::proxy::Proxy;

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
            marketplace: list_key::cache(),
            stats: kept::cache(),
            decisions: DecisionCache::default(),
            live_readers: LiveReaders::default(),
            playground: JobList::default(),
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
