//! How many requests may be at one upstream site at once.
//!
//! There is a [`Gate`] per site that has a limit; a site without one has no gate, or an open one.

use std::sync::Arc;

use arc_swap::ArcSwap;

use crate::fast_map::FastMap;
use crate::ids::SiteId;

use super::gate::{Gate, Lease, LeaseRules, SlotRefused};

/// The gates of all sites that have, or had, a limit.
#[derive(Debug)]
pub struct SiteLeases {
    rules: LeaseRules,
    gates: ArcSwap<FastMap<SiteId, Arc<Gate>>>,
}

// === impl SiteLeases ===

impl SiteLeases {
    pub fn new(rules: LeaseRules) -> Self {
        Self { rules, gates: ArcSwap::default() }
    }

    pub fn rules(&self) -> &LeaseRules {
        &self.rules
    }

    /// Applies the limits of all sites, also for requests that already wait. For one caller at a time.
    pub fn set_limits(&self, sites: impl Iterator<Item = (SiteId, Option<u32>)>) {
        let before = self.gates.load_full();
        let mut limits: FastMap<SiteId, u32> =
            sites.filter_map(|(site, limit)| Some((site, limit.filter(|limit| *limit > 0)?))).collect();
        let mut gates = FastMap::default();
        for (&site, gate) in before.iter() {
            gate.set_limit(limits.remove(&site).unwrap_or(0) as usize);
            // An open gate that still has leases out must know them when it is limited again.
            if !gate.is_idle() {
                gates.insert(site, gate.clone());
            }
        }
        for (site, limit) in limits {
            gates.insert(site, Arc::new(Gate::new("site", site.get(), limit as usize, self.rules)));
        }
        self.gates.store(Arc::new(gates));
    }

    /// Whether a request would be admitted at once.
    pub fn has_free_slot(&self, site: SiteId) -> bool {
        self.gates.load().get(&site).is_none_or(|gate| gate.has_free_slot())
    }

    /// Takes a lease, if one is available without waiting.
    pub fn try_lease(&self, site: SiteId) -> Option<Lease> {
        match self.gates.load().get(&site) {
            None => Some(Lease::default()),
            Some(gate) => gate.try_enter(),
        }
    }

    /// Takes a lease, if necessary after a wait in the queue. Dropping the future leaves the queue.
    pub async fn lease(&self, site: SiteId) -> Result<Lease, SlotRefused> {
        let gate = self.gates.load().get(&site).cloned();
        match gate {
            None => Ok(Lease::default()),
            Some(gate) => gate.enter(self.rules.queue_limit, self.rules.queue_wait).await,
        }
    }
}

#[cfg(test)]
mod tests;
