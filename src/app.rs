//! The parts of the service, built in order and stopped in reverse.

use std::sync::Arc;

use tokio::sync::Mutex;

use super::admin::accounts::handlers::ListCache;
use super::admin::decisions::handlers::DecisionCache;
use super::admin::models::marketplace::MarketplaceCache;
use super::admin::stats::cache::StatsCache;
use crate::admin::playground::Jobs as Playground;
use crate::config::Config;
use crate::core::{Core, StartError};
use crate::http::Endpoint;
use crate::jobs::{self, Jobs};
use crate::limits::{Conversions, Guards, SessionLeases};
use crate::routing::Channel;

/// Everything that handlers work with.
pub struct App {
    pub core: Arc<Core>,
    pub jobs: Arc<Jobs>,
    /// Held from looking for the account of a login to storing it: one name at a site has one.
    pub account_logins: Mutex<()>,
    pub guards: Guards,
    /// Large bodies on their way from one dialect to another.
    pub conversions: Conversions,
    /// Which dialects sites have refused.
    pub formats: crate::proxy::FormatMemory,
    /// Which sites have refused a key for the cache of a prompt.
    pub cache_keys: crate::proxy::CacheKeyMemory,
    /// Answers that clients may refer to and no upstream keeps.
    pub stored_responses: Arc<crate::proxy::ResponseStore>,
    /// Whose the answers are that upstreams store.
    pub response_owners: crate::proxy::ResponseOwners,
    /// Signatures of calls that clients cannot carry.
    pub call_signatures: Arc<crate::proxy::CallSignatures>,
    /// Which sessions are at work on which channel right now.
    pub session_leases: SessionLeases,
    /// The account list as last made.
    pub accounts_list: ListCache,
    /// The models on offer as last gathered.
    pub marketplace: MarketplaceCache,
    /// Statistics as last made.
    pub stats: StatsCache,
    /// The explanations last asked to be kept with their routes.
    decisions: DecisionCache,
    /// Requests to the proxy that operators sent as jobs, to look at later.
    pub playground: Playground,
    /// What is asked for where, over all routes.
    pub endpoints: Vec<Endpoint>,
}

impl App {
    /// Opens the store and builds everything on it.
    pub async fn start(config: Config) -> Result<Arc<Self>, StartError> {
        let core = Core::start(config).await?;
        let (admin, proxy) = (crate::admin::table_of_routes(), crate::proxy::routes());
        Ok(Arc::new(Self {
            jobs: Jobs::new(&core),
            account_logins: Mutex::new(()),
            guards: Guards::default(),
            conversions: Conversions::new(core.config.proxy.conversion_memory),
            formats: crate::proxy::FormatMemory::default(),
            cache_keys: crate::proxy::CacheKeyMemory::default(),
            stored_responses: Arc::default(),
            response_owners: Default::default(),
            call_signatures: Arc::default(),
            session_leases: SessionLeases::default(),
            accounts_list: ListCache::default(),
            marketplace: MarketplaceCache::default(),
            stats: StatsCache::default(),
            decisions: DecisionCache::default(),
            playground: Playground::default(),
            endpoints: admin.iter().chain(&proxy).map(|route| route.endpoint().clone()).collect(),
            core,
        }))
    }

    /// The explanations that are kept with their routes: none from before the last rebuild that changed routes.
    pub fn decisions(&self) -> &DecisionCache {
        self.decisions.follow(self.jobs.route_changes());
        &self.decisions
    }

    /// What the conversations under way on a channel leave of its share.
    pub fn load_of(&self, channel: &Channel) -> f64 {
        if !channel.account.session_scoped {
            return 1.0;
        }
        let limit = self.core.settings.load().session_leases.limit;
        self.session_leases.load(channel.id, limit).multiplier()
    }

    /// Ends background work and closes the store, everything handed to it committed.
    pub async fn stop(&self) {
        jobs::stop(&self.jobs).await;
        self.core.stop().await;
    }
}
