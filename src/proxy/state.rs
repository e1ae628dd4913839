//! The state that only the proxy keeps from one call to the next, and the parts below it.

use std::sync::Arc;

use super::batches::Bookings;
use super::call_signatures::CallSignatures;
use super::responses::id_owners::IdOwners;
use super::responses::pending::BackgroundResponses;
use super::responses::turns::ResponseStore;
use super::retry::dialect_order::DialectMemory;
use super::retry::member_refusals::MemberRefusals;
use super::retry::site_refusals::SiteRefusals;
use crate::core::Core;
use crate::http::Route;
use crate::http::router::Router;
use crate::jobs::Jobs;
use crate::limits::{Conversions, SessionLeases};
use crate::routing::{Channel, Conditions};

/// The proxy: its routes and its state.
pub struct Proxy {
    pub core: Arc<Core>,
    pub jobs: Arc<Jobs>,
    pub router: Router<Route<Proxy>>,
    /// The memory budget for converting large bodies from one dialect to another.
    pub conversions: Conversions,
    /// The dialects that sites have refused.
    pub dialect_memory: DialectMemory,
    /// The sites that have refused a `prompt_cache_key`.
    pub cache_keys: SiteRefusals,
    /// The request members that models have refused.
    pub member_refusals: MemberRefusals,
    /// The sites that have refused a WebSocket.
    pub sockets: SiteRefusals,
    /// Answers that clients may refer to and that no upstream keeps.
    pub stored_responses: Arc<ResponseStore>,
    /// The owners of the answers that upstreams store.
    pub response_owners: IdOwners,
    /// Answers that are being made in the background.
    pub background_responses: BackgroundResponses,
    /// The bookings of batches that are under way.
    pub(in crate::proxy) bookings: Bookings,
    /// Signatures of tool calls that clients cannot carry.
    pub call_signatures: Arc<CallSignatures>,
    /// The sessions that are at work on each channel right now.
    pub session_leases: SessionLeases,
}

impl Proxy {
    pub fn new(core: &Arc<Core>, jobs: &Arc<Jobs>, routes: Vec<Route<Self>>) -> Arc<Self> {
        Arc::new(Self {
            core: core.clone(),
            jobs: jobs.clone(),
            router: Router::of(routes),
            conversions: Conversions::new(core.config.proxy.conversion_memory),
            dialect_memory: DialectMemory::default(),
            cache_keys: SiteRefusals::default(),
            member_refusals: MemberRefusals::default(),
            sockets: SiteRefusals::default(),
            stored_responses: Arc::default(),
            response_owners: IdOwners::default(),
            background_responses: BackgroundResponses::default(),
            bookings: Bookings::default(),
            call_signatures: Arc::default(),
            session_leases: SessionLeases::default(),
        })
    }

    /// Forgets what was learnt, for a factory reset. A new field does not compile until it is decided here.
    pub fn forget_everything(&self) {
        let Self {
            dialect_memory,
            cache_keys,
            member_refusals,
            sockets,
            stored_responses,
            call_signatures,
            // Other parts of the service.
            core: _,
            jobs: _,
            router: _,
            // Found by ids of rows, which are not used again.
            response_owners: _,
            background_responses: _,
            // Held by requests under way, which give them back.
            conversions: _,
            bookings: _,
            session_leases: _,
        } = self;
        dialect_memory.clear();
        cache_keys.clear();
        member_refusals.clear();
        sockets.clear();
        stored_responses.clear();
        call_signatures.clear();
    }

    /// Applies changes of the operator's session limit to sessions that already wait, until the service stops.
    pub fn follow_session_limit(self: &Arc<Self>) {
        let (proxy, mut changed) = (self.clone(), self.core.settings_changed.subscribe());
        self.core.background.spawn("the limit of sessions", async move {
            while changed.changed().await.is_ok() {
                proxy.session_leases.set_limit(proxy.core.settings.load().session_leases.limit);
            }
        });
    }

    /// Returns the share of its weight that a channel keeps under the conversations now at work on it.
    pub fn load_of(&self, channel: &Channel) -> f64 {
        if !channel.account.session_scoped {
            return 1.0;
        }
        let limit = self.core.settings.load().session_leases.limit;
        Conditions::of_load(self.session_leases.load(channel.key(), limit))
    }
}
