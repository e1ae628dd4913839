//! What only the proxy keeps from one call to the next, and the parts below it.

use std::sync::Arc;

use super::batches::turns::BatchTurns;
use super::call_signatures::CallSignatures;
use super::responses::holders::ResponseOwners;
use super::responses::pending::BackgroundResponses;
use super::responses::turns::ResponseStore;
use super::retry::formats::Memory as FormatMemory;
use super::retry::left_out::LeftOut;
use super::retry::site_refusals::SiteRefusals;
use crate::core::Core;
use crate::http::Route;
use crate::http::router::Router;
use crate::jobs::Jobs;
use crate::limits::{Conversions, SessionLeases};
use crate::routing::Channel;

/// The proxy: its routes and its memory.
pub struct Proxy {
    pub core: Arc<Core>,
    pub jobs: Arc<Jobs>,
    pub router: Router<Route<Proxy>>,
    /// Large bodies on their way from one dialect to another.
    pub conversions: Conversions,
    /// Which dialects sites have refused.
    pub formats: FormatMemory,
    /// Which sites have refused a key for the cache of a prompt.
    pub cache_keys: SiteRefusals,
    /// What models have refused to hear.
    pub left_out: LeftOut,
    /// Which sites have refused a WebSocket.
    pub sockets: SiteRefusals,
    /// Answers that clients may refer to and no upstream keeps.
    pub stored_responses: Arc<ResponseStore>,
    /// Whose the answers are that upstreams store.
    pub response_owners: ResponseOwners,
    /// Those of them that are made in the background.
    pub background_responses: BackgroundResponses,
    /// Batches that are being booked.
    pub batches: BatchTurns,
    /// Signatures of calls that clients cannot carry.
    pub call_signatures: Arc<CallSignatures>,
    /// Which sessions are at work on which channel right now.
    pub session_leases: SessionLeases,
}

impl Proxy {
    pub fn new(core: &Arc<Core>, jobs: &Arc<Jobs>, routes: Vec<Route<Self>>) -> Arc<Self> {
        Arc::new(Self {
            core: core.clone(),
            jobs: jobs.clone(),
            router: Router::of(routes),
            conversions: Conversions::new(core.config.proxy.conversion_memory),
            formats: FormatMemory::default(),
            cache_keys: SiteRefusals::default(),
            left_out: LeftOut::default(),
            sockets: SiteRefusals::default(),
            stored_responses: Arc::default(),
            response_owners: ResponseOwners::default(),
            background_responses: BackgroundResponses::default(),
            batches: BatchTurns::default(),
            call_signatures: Arc::default(),
            session_leases: SessionLeases::default(),
        })
    }

    /// Has sessions that wait already keep to the limit that an operator sets, until the service stops.
    pub fn follow_session_limit(self: &Arc<Self>) {
        let (proxy, mut changed) = (self.clone(), self.core.settings_changed.subscribe());
        self.core.background.spawn("the limit of sessions", async move {
            while changed.changed().await.is_ok() {
                proxy.session_leases.set_limit(proxy.core.settings.load().session_leases.limit);
            }
        });
    }

    /// What the conversations under way on a channel leave of its share.
    pub fn load_of(&self, channel: &Channel) -> f64 {
        if !channel.account.session_scoped {
            return 1.0;
        }
        let limit = self.core.settings.load().session_leases.limit;
        self.session_leases.load(channel.key(), limit).multiplier()
    }
}
