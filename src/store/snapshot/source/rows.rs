//! Reads the rows that a change touched, and those that depend on them.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::{KnownAccount, Source};
use crate::ids::{AccountId, ChannelId, Id, RouteId, SiteId, TokenId, UnitId};
use crate::store::accounts::{self, AccountRow};
use crate::store::connections;
use crate::store::route_units::{self, UnitRow};
use crate::store::routes::{self, ChannelRow, ChannelsOf, RouteRow};
use crate::store::sites::{self, SiteRow};
use crate::store::tokens::{self, TokenRow};
use crate::store::{Result, Store, Touched};

/// The rows that a change touched, in their current state.
pub(super) struct Rows {
    /// `None` for a site that was deleted.
    pub(super) sites: BTreeMap<SiteId, Option<SiteRow>>,
    /// Unchanged sites whose rows are needed for accounts.
    pub(super) other_sites: BTreeMap<SiteId, SiteRow>,
    /// The ids of changed accounts, including deleted ones.
    pub(super) account_ids: BTreeSet<AccountId>,
    pub(super) accounts: BTreeMap<AccountId, AccountRow>,
    /// Unchanged accounts of changed channels.
    pub(super) other_accounts: BTreeMap<AccountId, AccountRow>,
    pub(super) tokens: BTreeMap<TokenId, TokenRow>,
    pub(super) routes: BTreeMap<RouteId, RouteRow>,
    /// Routes whose channels were all read.
    pub(super) whole_routes: BTreeSet<RouteId>,
    pub(super) channels: BTreeMap<ChannelId, ChannelRow>,
    /// The route units of these channels.
    pub(super) units: Units,
    /// The accounts that serve these channels.
    pub(super) serving: BTreeSet<AccountId>,
}

/// Route units, and the available models of their members.
#[derive(Default)]
pub(super) struct Units {
    pub(super) rows: BTreeMap<UnitId, UnitRow>,
    pub(super) models: HashMap<AccountId, Vec<String>>,
}

impl Units {
    /// Reads all units if they are wanted, else none.
    pub(super) async fn read(store: &Store, are_wanted: bool) -> Result<Self> {
        if !are_wanted {
            return Ok(Self::default());
        }
        let rows = by_id(route_units::list(store).await?, |unit| unit.id);
        let members = rows.values().flat_map(|unit| &unit.members).map(|member| member.account_id);
        let models = connections::models_of(store, &members.collect::<Vec<_>>()).await?;
        Ok(Self { rows, models })
    }
}

impl Source {
    /// Reads the rows of a change and those that depend on them.
    pub(super) async fn read(&self, store: &Store, touched: &Touched) -> Result<Rows> {
        let mut sites = BTreeMap::new();
        for id in &touched.sites {
            sites.insert(*id, sites::get(store, *id).await?);
        }
        let mut account_ids = touched.accounts.clone();
        if !sites.is_empty() {
            // An account that serves nothing does not depend on its site, but is deleted with it.
            let is_on_them = |known: &KnownAccount| {
                let site = sites.get(&known.site_id);
                site.is_some_and(|site| site.is_none() || known.account.is_some())
            };
            let on_them = self.accounts.iter().filter(|(_, known)| is_on_them(known));
            account_ids.extend(on_them.map(|(id, _)| *id));
        }
        let accounts = by_id(accounts::some(store, &list(&account_ids)).await?, |row| row.id);
        let mut routes = by_id(routes::some(store, &list(&touched.routes)).await?, |row| row.id);
        let is_renamed = |row: &&RouteRow| {
            let before = self.snapshot.route(row.id);
            before.is_some_and(|before| before.pattern.as_str() != row.model_pattern.trim())
        };
        let mut whole_routes: BTreeSet<RouteId> =
            routes.values().filter(is_renamed).map(|row| row.id).collect();
        whole_routes.extend(&touched.channels_of_routes);
        let channels = self.read_channels(store, touched, (&account_ids, &accounts), &whole_routes).await?;
        let is_unknown = |id: &RouteId| self.snapshot.route(*id).is_none() && !touched.routes.contains(id);
        let unknown: BTreeSet<RouteId> =
            channels.values().map(|row| row.route_id).filter(is_unknown).collect();
        routes.extend(by_id(routes::some(store, &list(&unknown)).await?, |row| row.id));
        let units =
            Units::read(store, channels.values().any(|row| row.oauth_route_unit_id.is_some())).await?;
        let of_channels = |row: &ChannelRow| {
            let unit = row.oauth_route_unit_id.and_then(|id| units.rows.get(&id));
            let members = unit.into_iter().flat_map(|unit| &unit.members).map(|member| member.account_id);
            members.chain([row.account_id]).collect::<Vec<_>>()
        };
        let serving: BTreeSet<AccountId> = channels.values().flat_map(of_channels).collect();
        let others: Vec<AccountId> = serving.difference(&account_ids).copied().collect();
        let other_accounts = by_id(accounts::some(store, &others).await?, |row| row.id);
        let mut other_sites = BTreeMap::new();
        for row in accounts.values().chain(other_accounts.values().filter(|row| !self.serves(row.id))) {
            let is_known = sites.contains_key(&row.site_id) || other_sites.contains_key(&row.site_id);
            if !is_known && (row.has_own_proxy() || self.snapshot.site(row.site_id).is_none()) {
                other_sites.extend(sites::get(store, row.site_id).await?.map(|site| (row.site_id, site)));
            }
        }
        let token_ids: BTreeSet<TokenId> = channels.values().filter_map(|row| row.token_id).collect();
        let tokens = by_id(tokens::some(store, &list(&token_ids)).await?, |row| row.id);
        Ok(Rows {
            sites,
            other_sites,
            account_ids,
            accounts,
            other_accounts,
            tokens,
            routes,
            whole_routes,
            channels,
            units,
            serving,
        })
    }

    /// Reads the channels of a change: of these accounts and routes, and of the units that these are in.
    async fn read_channels(
        &self,
        store: &Store,
        touched: &Touched,
        (account_ids, accounts): (&BTreeSet<AccountId>, &BTreeMap<AccountId, AccountRow>),
        whole_routes: &BTreeSet<RouteId>,
    ) -> Result<BTreeMap<ChannelId, ChannelRow>> {
        let existing: Vec<AccountId> =
            touched.accounts.iter().filter(|id| accounts.contains_key(id)).copied().collect();
        let mut channels =
            by_id(routes::some_channels(store, ChannelsOf::Accounts(&existing)).await?, |row| row.id);
        let of_routes = routes::some_channels(store, ChannelsOf::Routes(&list(whole_routes))).await?;
        channels.extend(by_id(of_routes, |row| row.id));
        let members = account_ids.iter().chain(&touched.models);
        let unit_ids: BTreeSet<UnitId> = members.filter_map(|id| self.units.get(id)).copied().collect();
        let of_units = routes::some_channels(store, ChannelsOf::Units(&list(&unit_ids))).await?;
        channels.extend(by_id(of_units, |row| row.id));
        let rest: Vec<ChannelId> =
            touched.channels.iter().filter(|id| !channels.contains_key(id)).copied().collect();
        let rest = routes::some_channels(store, ChannelsOf::Themselves(&rest)).await?;
        channels.extend(by_id(rest, |row| row.id));
        Ok(channels)
    }

    /// Whether an account has served channels.
    pub(super) fn serves(&self, account: AccountId) -> bool {
        self.accounts.get(&account).is_some_and(|known| known.account.is_some())
    }
}

pub(super) fn by_id<I: Id, T>(rows: Vec<T>, id: impl Fn(&T) -> I) -> BTreeMap<I, T> {
    rows.into_iter().map(|row| (id(&row), row)).collect()
}

fn list<I: Id>(ids: &BTreeSet<I>) -> Vec<I> {
    ids.iter().copied().collect()
}
