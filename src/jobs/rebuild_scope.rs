//! The scope of a rebuild, and the rebuilds that are asked for.

use std::collections::BTreeSet;
use std::sync::Mutex;

use super::models::outcome::RebuildCounts;
use crate::flight::Coalesced;
use crate::ids::{AccountId, RouteId, SiteId};
use crate::store::{self, Store, accounts, route_units, routes};

/// The accounts and routes that a rebuild looks at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scope {
    pub(super) everything: bool,
    pub(super) accounts: BTreeSet<AccountId>,
    /// Routes that may have lost their last channel.
    pub(super) routes: BTreeSet<RouteId>,
}

/// The rebuilds that are asked for and under way; [`Jobs`](super::Jobs) holds one.
#[derive(Default)]
pub struct Rebuilds {
    pub(super) runs: Coalesced<store::Result<RebuildCounts>>,
    /// The scope of the next run.
    pub(super) pending: Mutex<Scope>,
    /// The counts of the last run.
    pub(super) last: Mutex<RebuildCounts>,
}

impl Scope {
    /// Returns the scope of these accounts: their models from before and after a change.
    pub fn of_accounts(ids: impl IntoIterator<Item = AccountId>) -> Self {
        Self { accounts: ids.into_iter().collect(), ..Self::default() }
    }

    /// Returns the scope of accounts that are about to be deleted, with their routes. Call it before the deletion:
    /// their channels go with them, and then nothing tells in which routes they were.
    pub async fn of_accounts_to_delete(store: &Store, ids: &[AccountId]) -> store::Result<Self> {
        let routes = routes::of_accounts(store, ids).await?;
        // The channels of a unit may go with one of its members; the other members go on serving.
        let mut accounts = ids.to_vec();
        for unit in route_units::list(store).await? {
            if unit.members.iter().any(|member| ids.contains(&member.account_id)) {
                accounts.extend(unit.members.iter().map(|member| member.account_id));
            }
        }
        Ok(Self { routes, ..Self::of_accounts(accounts) })
    }

    /// Returns the scope of the accounts of these sites, also of sites that are about to be deleted.
    pub async fn of_sites(store: &Store, ids: &[SiteId]) -> store::Result<Self> {
        let mut accounts = Vec::new();
        for id in ids {
            accounts.extend(accounts::of_site(store, *id).await?.iter().map(|account| account.id));
        }
        Self::of_accounts_to_delete(store, &accounts).await
    }

    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    pub(super) fn add(&mut self, other: Self) {
        self.everything |= other.everything;
        self.accounts.extend(other.accounts);
        self.routes.extend(other.routes);
    }
}
