//! The state that requests change while they run: a channel's counters and cooldown, an address's health.
//!
//! Every admin change makes a new snapshot; these values outlive it, one [`Arc`] per channel or endpoint, found by id in
//! the [`LiveTable`]. Every field is an atomic of its own: a reader may see a success counted whose latency is not added
//! yet, which only blurs a weight for an instant, and nobody ever waits. A time of 0 means "none".
//!
//! Persistence is write-behind. Counters are written as increments, so that several processes can share a database; the
//! rest is written as its present value. The `dirty` flag makes sure that a channel is handed to the writer once per round:
//! the thread that raises it hands the channel over, [`ChannelLive::take_delta`] lowers it before it reads, so a change
//! during the read raises it again.

mod channel;
mod counter;
mod endpoint;

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use super::health::{SiteHealth, saved};
use super::limit_windows::{LimitWindows, LimitsVersion};
use super::pricing::PriceList;
use super::rotation::Rotations;
use crate::ids::{AccountId, ChannelId, EndpointId, MemberId, SiteId};
use crate::sync::lock;
use crate::time::Millis;

pub use channel::{
    ChannelDelta, ChannelLive, ChannelTotals, CooldownPhase, CountersOf, StoredCooldown, Trial,
};
pub use endpoint::{EndpointLive, EndpointState};

/// All live values by id. Clients' requests lock only `rotations`; the rest is locked by builds of snapshots, jobs and the
/// admin API.
#[derive(Debug, Default)]
pub struct LiveTable {
    channels: Mutex<HashMap<ChannelId, Arc<ChannelLive>>>,
    /// The live values of route units' members, by the member's own id.
    members: Mutex<HashMap<MemberId, Arc<ChannelLive>>>,
    endpoints: Mutex<HashMap<EndpointId, Arc<EndpointLive>>>,
    /// The price lists, by account.
    prices: Mutex<HashMap<AccountId, Arc<PriceList>>>,
    /// The usage limits, by account.
    limits: Mutex<HashMap<AccountId, Arc<LimitWindows>>>,
    sites: Mutex<HashMap<SiteId, Arc<SiteHealth>>>,
    /// The turns of routes that rotate among their stable sites.
    pub rotations: Rotations,
}

// === impl LiveTable ===

impl LiveTable {
    /// Returns the channel's live value; the first call for an id creates it from the stored totals.
    pub fn channel(&self, id: ChannelId, stored: impl FnOnce() -> ChannelTotals) -> Arc<ChannelLive> {
        let mut channels = lock(&self.channels);
        channels.entry(id).or_insert_with(|| Arc::new(ChannelLive::new(id, stored()))).clone()
    }

    /// Returns the live value of a route unit's member; the first call for an id creates it from the stored totals.
    pub fn member(&self, id: MemberId, stored: impl FnOnce() -> ChannelTotals) -> Arc<ChannelLive> {
        let mut members = lock(&self.members);
        members.entry(id).or_insert_with(|| Arc::new(ChannelLive::of_member(id, stored()))).clone()
    }

    /// Returns the channel's live value, if there is one.
    pub fn known_channel(&self, id: ChannelId) -> Option<Arc<ChannelLive>> {
        lock(&self.channels).get(&id).cloned()
    }

    /// Returns the live value of a route unit's member, if there is one.
    pub fn known_member(&self, id: MemberId) -> Option<Arc<ChannelLive>> {
        lock(&self.members).get(&id).cloned()
    }

    /// Forgets members that are gone.
    pub fn retain_members(&self, ids: &HashSet<MemberId>) {
        lock(&self.members).retain(|id, _| ids.contains(id));
    }

    /// Returns the endpoint's live value; the first call for an id creates it from the stored state.
    pub fn endpoint(&self, id: EndpointId, stored: impl FnOnce() -> EndpointState) -> Arc<EndpointLive> {
        let mut endpoints = lock(&self.endpoints);
        endpoints.entry(id).or_insert_with(|| Arc::new(EndpointLive::new(Some(id), stored()))).clone()
    }

    /// Returns the endpoint's live value, if there is one.
    pub fn known_endpoint(&self, id: EndpointId) -> Option<Arc<EndpointLive>> {
        lock(&self.endpoints).get(&id).cloned()
    }

    /// Returns the account's price list, which is empty until its site's prices have been read.
    pub fn prices(&self, account: AccountId) -> Arc<PriceList> {
        lock(&self.prices).entry(account).or_default().clone()
    }

    /// Forgets the prices of accounts that are gone.
    pub fn retain_prices(&self, accounts: &HashSet<AccountId>) {
        lock(&self.prices).retain(|account, _| accounts.contains(account));
    }

    /// Returns what is known of the account's usage limits.
    pub fn limits(&self, account: AccountId) -> Arc<LimitWindows> {
        lock(&self.limits).entry(account).or_default().clone()
    }

    /// Returns the version of the limits of all accounts together.
    pub fn limits_version(&self, now: Millis) -> LimitsVersion {
        let all: Vec<_> = lock(&self.limits).values().cloned().collect();
        all.iter().map(|limits| limits.version(now)).sum()
    }

    /// Forgets the limits of accounts that are gone.
    pub fn retain_limits(&self, accounts: &HashSet<AccountId>) {
        lock(&self.limits).retain(|account, _| accounts.contains(account));
    }

    /// Returns the site's health, shared by all variants of the site (an account with its own proxy makes another variant).
    pub fn site(&self, id: SiteId) -> Arc<SiteHealth> {
        lock(&self.sites).entry(id).or_default().clone()
    }

    /// Serializes the health of all sites and the limits of all accounts for the store.
    pub fn saved_health(&self, now: Millis) -> String {
        let sites: Vec<_> = lock(&self.sites).iter().map(|(id, site)| (*id, site.clone())).collect();
        let limits: Vec<_> = lock(&self.limits).iter().map(|(id, limits)| (*id, limits.clone())).collect();
        saved::write(&sites, &limits, now)
    }

    /// Returns the time of the last attempt whose outcome is known, on any site.
    pub fn last_health_event(&self) -> Millis {
        lock(&self.sites).values().map(|site| site.last_event()).max().unwrap_or(0)
    }

    /// Restores what [`Self::saved_health`] wrote.
    pub fn restore_health(&self, text: &str) {
        saved::read(text, |id| self.site(id), |id| self.limits(id));
    }

    /// Returns the numbers of known channels, addresses, sites and accounts.
    #[cfg(test)]
    pub fn sizes(&self) -> [usize; 4] {
        let (channels, endpoints) = (lock(&self.channels).len(), lock(&self.endpoints).len());
        [channels, endpoints, lock(&self.sites).len(), lock(&self.prices).len()]
    }

    /// Forgets channels that are gone.
    pub fn forget_channels(&self, ids: &HashSet<ChannelId>) {
        if !ids.is_empty() {
            let mut channels = lock(&self.channels);
            ids.iter().for_each(|id| drop(channels.remove(id)));
        }
    }

    /// Forgets addresses that are gone.
    pub fn forget_endpoints(&self, ids: impl Iterator<Item = EndpointId>) {
        let mut endpoints = lock(&self.endpoints);
        ids.for_each(|id| drop(endpoints.remove(&id)));
    }

    /// Forgets a site that is gone.
    pub fn forget_site(&self, id: SiteId) {
        lock(&self.sites).remove(&id);
    }

    /// Forgets the prices and the limits of an account that is gone.
    pub fn forget_account(&self, account: AccountId) {
        lock(&self.limits).remove(&account);
        lock(&self.prices).remove(&account);
    }

    /// Forgets what has no row any more, so that memory does not grow and a reused id starts afresh.
    pub fn retain(
        &self,
        channels: &HashSet<ChannelId>,
        endpoints: &HashSet<EndpointId>,
        sites: &HashSet<SiteId>,
    ) {
        lock(&self.sites).retain(|id, _| sites.contains(id));
        lock(&self.channels).retain(|id, _| channels.contains(id));
        lock(&self.endpoints).retain(|id, _| endpoints.contains(id));
    }
}

/// Moves a time forward to `now`. Of the many requests in one millisecond, all but the first only read.
fn advance(moment: &AtomicI64, now: Millis) {
    if moment.load(Relaxed) < now {
        moment.fetch_max(now, Relaxed);
    }
}

fn stamp(value: &AtomicI64) -> Option<Millis> {
    match value.load(Relaxed) {
        0 => None,
        at => Some(at),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn live_values_outlive_snapshots_but_not_their_rows() {
        let table = LiveTable::default();
        let _ = table.channel(ChannelId::new(1), ChannelTotals::default).record_success(
            5,
            5,
            crate::money::Usd::from_nano(5),
        );
        let again = table.channel(ChannelId::new(1), || unreachable!("it is known already"));
        assert_eq!(again.totals().success, 1);
        table.retain(&HashSet::new(), &HashSet::new(), &HashSet::new());
        assert_eq!(table.channel(ChannelId::new(1), ChannelTotals::default).totals().success, 0);
    }
}
