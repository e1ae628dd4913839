//! How many sessions may be at work on one channel at once.
//!
//! A login made for one person's tool is not meant for a crowd: on a channel with such a credential, a request that
//! belongs to a session holds one of the channel's leases while it is served, and renews it all that time. The [`Gate`]s
//! are made when first needed; unused ones are dropped once there are many. The rules are an operator's settings, so
//! every request brings the current ones.

use std::sync::{Arc, Mutex, MutexGuard};

use super::gate::{Gate, Lease, LeaseRules, SlotRefused};
use super::load::Load;
use crate::fast_map::FastMap;
use crate::ids::ChannelOrMember;
use crate::sync::lock;

/// The number of gates from which unused ones are dropped.
const KEPT_GATES: usize = 256;

/// The operator's rules for sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionRules {
    /// The maximum number of sessions at work on one channel; 0 is any number.
    pub limit: usize,
    /// How long sessions wait, and how long their leases live.
    pub lease: LeaseRules,
}

/// The gates of all channels that sessions use.
#[derive(Debug, Default)]
pub struct SessionLeases {
    gates: Mutex<FastMap<ChannelOrMember, Arc<Gate>>>,
}

// === impl SessionLeases ===

impl SessionLeases {
    /// Takes a lease that renews itself, if necessary after a wait in the queue. Dropping the future leaves the
    /// queue.
    pub async fn lease(&self, channel: ChannelOrMember, rules: &SessionRules) -> Result<Lease, SlotRefused> {
        if rules.limit == 0 {
            return Ok(Lease::default());
        }
        let gate = self.gate(channel, rules);
        let mut lease = gate.enter(rules.lease.queue_limit, rules.lease.queue_wait).await?;
        lease.keep_alive();
        Ok(lease)
    }

    /// Applies a limit to every channel, also for sessions that already wait.
    pub fn set_limit(&self, limit: usize) {
        let gates: Vec<_> = self.gates().values().cloned().collect();
        gates.iter().for_each(|gate| gate.set_limit(limit));
    }

    /// Returns how busy a channel is, by the given limit.
    pub fn load(&self, channel: ChannelOrMember, limit: usize) -> Load {
        let gate = self.gates().get(&channel).cloned();
        Load { limit, ..gate.map(|gate| gate.occupancy()).unwrap_or_default() }
    }

    fn gate(&self, channel: ChannelOrMember, rules: &SessionRules) -> Arc<Gate> {
        let mut gates = self.gates();
        if gates.len() >= KEPT_GATES && !gates.contains_key(&channel) {
            // Every lease and every waiting request holds its gate.
            gates.retain(|_, gate| Arc::strong_count(gate) > 1);
        }
        let gate = gates
            .entry(channel)
            .or_insert_with(|| Arc::new(Gate::new("channel", channel.number(), rules.limit, rules.lease)))
            .clone();
        drop(gates);
        gate.set_limit(rules.limit);
        gate
    }

    fn gates(&self) -> MutexGuard<'_, FastMap<ChannelOrMember, Arc<Gate>>> {
        lock(&self.gates)
    }
}

#[cfg(test)]
mod tests;
