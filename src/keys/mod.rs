//! Managed downstream keys in the form that requests use: one immutable [`KeyTable`], replaced as a whole with every
//! change, and beside it one [`KeyLive`] per key, which outlives the tables.
//!
//! A presented token is found by its HMAC, here under a key of this process and in the database under
//! the index key, so neither stores a usable token. Where there is no managed key, no HMAC is computed.
//!
//! Pure: reserving, charging and resetting in the database is the business of `store::quota`.

mod budget;
mod limits;
mod live;
mod period;
mod quota;
mod shown;
mod spend_checks;

use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;

use crate::fast_map::FastMap;
use crate::ids::KeyId;
use crate::money::Usd;
use crate::networks;
use crate::routing::Policy;
use crate::sync::NewlyDirty;
use crate::time::Millis;

pub use budget::{Bounds, Budget, BudgetDelta, BudgetLive, MOST_AHEAD, Reached, Used};
pub use limits::{BudgetMask, BudgetRefusal, Charge, KeyLimits, MAX_BUDGETS, OverLimit};
pub use live::{KeyDelta, KeyLive};
pub use period::Period;
pub use quota::{Quota, ReservationHorizon};
pub use shown::ShownBudget;

/// The HMAC-SHA256 of a token under a key that the process has made for itself.
pub type Digest = [u8; 32];

/// One managed key.
#[derive(Debug)]
pub struct Key {
    pub id: KeyId,
    pub name: String,
    pub enabled: bool,
    pub expires_at: Option<Millis>,
    /// The maximum total cost in USD; `None` without a limit.
    pub max_cost: Option<Usd>,
    pub max_requests: Option<i64>,
    pub policy: Policy,
    /// The networks from which the key may be used; `None` permits every address.
    pub allowed_ips: Option<Box<[IpNet]>>,
    /// Further limits; `None` where there are only those above.
    pub limits: Option<Box<KeyLimits>>,
    pub live: Arc<KeyLive>,
}

/// Why a known key is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyRejection {
    Disabled,
    Expired,
    Address(IpAddr),
    OverCost,
    OverRequests,
}

/// All managed keys.
#[derive(Debug, Default)]
pub struct KeyTable {
    by_digest: FastMap<Digest, Arc<Key>>,
    by_id: FastMap<KeyId, Arc<Key>>,
}

// === impl Key ===

impl Key {
    /// Whether the key may be used now, from this address. Clients see the first reason that applies: these, then those
    /// of [`Self::check_totals`].
    pub fn check(&self, now: Millis, client: IpAddr) -> Result<(), KeyRejection> {
        if !self.enabled {
            return Err(KeyRejection::Disabled);
        }
        if self.expires_at.is_some_and(|at| at <= now) {
            return Err(KeyRejection::Expired);
        }
        match &self.allowed_ips {
            Some(allowed) if !networks::contain(allowed, client) => Err(KeyRejection::Address(client)),
            _ => Ok(()),
        }
    }

    /// Checks whether the key's total cost and requests are used up.
    pub fn check_totals(&self) -> Result<(), KeyRejection> {
        if self.max_cost.is_some_and(|most| self.live.used_cost() >= most) {
            return Err(KeyRejection::OverCost);
        }
        if self.max_requests.is_some_and(|most| self.live.requests.is_exhausted(most)) {
            return Err(KeyRejection::OverRequests);
        }
        Ok(())
    }

    /// Adds the cost of a request that is counted in these budgets.
    pub fn charge(&self, mask: BudgetMask, charge: &Charge) -> NewlyDirty {
        if let Some(limits) = &self.limits {
            limits.charge(&self.live, mask, charge);
        }
        self.live.charge(charge.cost, charge.now)
    }

    /// Returns a charge as it is added to the rows of the key and its budgets. The caller holds the key's turn until it has
    /// written that and passed it to [`Self::add_stored`].
    pub fn charge_of_rows(&self, mask: BudgetMask, charge: &Charge) -> KeyDelta {
        let budgets = self.limits.iter().flat_map(|limits| limits.in_mask(mask));
        let of_row = |budget: &Budget| budget.live.charge_of_row(charge.cost, charge.tokens, charge.began);
        KeyDelta {
            id: self.id,
            requests: 0,
            cost: charge.cost,
            last_used: self.live.last_used().max(Some(charge.now)),
            budgets: budgets.filter_map(of_row).collect(),
        }
    }

    /// Adds a charge that the database has already.
    pub fn add_stored(&self, stored: &KeyDelta, charge: &Charge) {
        if let Some(limits) = &self.limits {
            limits.add_to_minute(&self.live, charge);
        }
        for budget in self.live.budgets() {
            let of_budget = stored.budgets.iter().find(|of_row| of_row.scope == budget.scope);
            of_budget.into_iter().for_each(|of_row| budget.add_stored(of_row));
        }
        self.live.add_stored(stored.cost, charge.now);
    }

    /// Whether the key limits something that is known only when an answer ends: cost or tokens, in total or in a budget.
    pub fn is_charged_later(&self) -> bool {
        let is_charged = |budget: &Budget| budget.bounds.cost.is_some() || budget.bounds.tokens.is_some();
        self.max_cost.is_some()
            || self.limits.as_deref().is_some_and(|limits| limits.budgets.iter().any(is_charged))
    }

    /// Whether the key has a limit of cost or tokens: in total, in a budget or in a minute.
    pub fn counts_usage(&self) -> bool {
        let counts = |limits: &KeyLimits| limits.tokens_per_minute.is_some();
        self.is_charged_later() || self.limits.as_deref().is_some_and(counts)
    }

    /// Whether little may be left of such a limit, as far as is known while `others` instances spend from it too. Then
    /// spending should be written to disk at once.
    pub fn is_near_limit(&self, others: i64) -> bool {
        let of_budgets = |limits: &KeyLimits| {
            limits.budgets.iter().any(|budget| budget.live.is_near_limit(&budget.bounds, others))
        };
        self.max_cost.is_some_and(|most| self.live.is_near_limit(most, others))
            || self.limits.as_deref().is_some_and(of_budgets)
    }
}

// === impl KeyTable ===

impl KeyTable {
    pub fn new(keys: impl IntoIterator<Item = (Digest, Key)>) -> Self {
        let mut table = Self::default();
        for (digest, key) in keys {
            let key = Arc::new(key);
            table.by_id.insert(key.id, key.clone());
            table.by_digest.insert(digest, key);
        }
        table
    }

    /// Whether there are no keys; checked before anything is computed for a look-up.
    pub fn is_empty(&self) -> bool {
        self.by_digest.is_empty()
    }

    /// Returns the key whose token has this digest.
    pub fn find(&self, digest: &Digest) -> Option<&Arc<Key>> {
        self.by_digest.get(digest)
    }

    pub fn get(&self, id: KeyId) -> Option<&Arc<Key>> {
        self.by_id.get(&id)
    }

    pub fn iter(&self) -> impl Iterator<Item = &Arc<Key>> {
        self.by_id.values()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOME: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    fn key() -> Key {
        Key {
            id: KeyId::new(1),
            name: "team".to_owned(),
            enabled: true,
            expires_at: None,
            max_cost: None,
            max_requests: None,
            policy: Policy::default(),
            allowed_ips: None,
            limits: None,
            live: Arc::new(KeyLive::new(KeyId::new(1), 10, Usd::new(2.5), None)),
        }
    }

    #[test]
    fn a_key_is_used_from_its_networks_in_either_form_of_an_address() {
        let networks =
            ["10.0.0.0/8", "2001:db8::/32", "::1"].map(|network| networks::parse(network).unwrap());
        let key = Key { allowed_ips: Some(networks.into()), ..key() };
        for (client, allowed) in [
            ("10.1.2.3", true),
            ("::ffff:10.1.2.3", true),
            ("11.0.0.1", false),
            ("2001:db8::1", true),
            ("2001:db9::1", false),
            ("::1", true),
            ("127.0.0.1", true),
            ("127.0.0.2", false),
        ] {
            assert_eq!(key.check(0, client.parse().unwrap()).is_ok(), allowed, "{client}");
        }
    }

    #[test]
    fn refusals_come_in_the_documented_order() {
        let barred = |change: fn(&mut Key)| {
            let mut key = key();
            change(&mut key);
            key.check(1000, HOME).and_then(|()| key.check_totals()).err()
        };
        assert_eq!(barred(|_| ()), None);
        assert_eq!(barred(|key| key.expires_at = Some(1001)), None);
        assert_eq!(barred(|key| key.max_cost = Some(Usd::new(2.6))), None);
        assert_eq!(barred(|key| key.max_requests = Some(11)), None);
        assert_eq!(barred(|key| key.max_requests = Some(10)), Some(KeyRejection::OverRequests));
        assert_eq!(barred(|key| key.max_requests = Some(0)), Some(KeyRejection::OverRequests));
        let over_both = |key: &mut Key| (key.max_requests, key.max_cost) = (Some(10), Some(Usd::new(2.5)));
        assert_eq!(barred(over_both), Some(KeyRejection::OverCost));
        let expired = |key: &mut Key| (key.expires_at, key.max_cost) = (Some(1000), Some(Usd::new(0.0)));
        assert_eq!(barred(expired), Some(KeyRejection::Expired));
        let elsewhere = |key: &mut Key| {
            (key.allowed_ips, key.max_cost) =
                (Some(["10.0.0.0/8".parse().unwrap()].into()), Some(Usd::new(0.0)));
        };
        assert_eq!(barred(elsewhere), Some(KeyRejection::Address(HOME)));
        let disabled = |key: &mut Key| (key.enabled, key.expires_at) = (false, Some(0));
        assert_eq!(barred(disabled), Some(KeyRejection::Disabled));
    }
}
