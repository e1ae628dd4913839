//! The snapshot in force together with the ownership of its rows, so that a change only reloads the rows it
//! touched.
//!
//! ```text
//! start, import, reset, another system proxy ──▶ load     every row
//! every other change                         ──▶ follow   the rows of the journal, and those that depend on them:
//!     a site      its accounts, which are passed to their channels without reading these
//!     an account  its channels: another credential, another site, a token that is gone; those of its route unit
//!     its models  the channels of its route unit, which serves a model with the members that have it; without
//!                 a unit nothing, because which channels there are is decided by rebuilds
//!     a route     its channels, when its pattern changed, since they inherit it
//! ```
//!
//! Following a change gives the same result as a full load. Rows that change while they are read are in the
//! journal again by the time their own change is published.

mod rows;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use tokio::task::yield_now;

use self::rows::{Rows, Units, by_id};
use super::{Builder, build_route};
use crate::fast_map::FastMap;
use crate::ids::{AccountId, ChannelId, EndpointId, RouteId, SiteId, TokenId, UnitId};
use crate::routing::{
    Account, Changed, Channel, Credential, LiveTable, Route, RouteMode, Site, Snapshot, Weights,
};
use crate::store::accounts::{self, AccountRow};
use crate::store::routes::{self, ChannelRow, RouteRow};
use crate::store::sites::{self, SiteRow};
use crate::store::tokens::{self, TokenRow};
use crate::store::{Result, Store, Touched};

/// The number of rows up to which they are always read by id; more rows are read by id unless they exceed a
/// quarter of all channels.
const FEW: usize = 1000;
/// The number of channels built without a pause: half a millisecond's work.
const PORTION: usize = 500;

/// The snapshot in force and the data it was made from.
pub struct Source {
    snapshot: Arc<Snapshot>,
    system_proxy_url: Option<String>,
    /// The route of each channel.
    owners: FastMap<ChannelId, RouteId>,
    accounts: FastMap<AccountId, KnownAccount>,
    /// The route units that accounts are in. Any change of a unit causes a full load.
    units: FastMap<AccountId, UnitId>,
    /// The endpoint ids of each site's pool, including those that are switched off.
    endpoints: FastMap<SiteId, Vec<EndpointId>>,
}

struct KnownAccount {
    site_id: SiteId,
    /// `None` until a channel uses it: accounts that serve nothing can be very many.
    account: Option<Arc<Account>>,
    channels: Vec<ChannelId>,
}

/// The values that channels are built from, besides their rows and accounts.
struct ChannelParts<'a> {
    tokens: &'a BTreeMap<TokenId, TokenRow>,
    units: &'a Units,
    /// The credentials that accounts have of their own.
    own_credentials: &'a FastMap<AccountId, Credential>,
}

/// A channel in the next snapshot.
struct PlacedChannel {
    id: ChannelId,
    route_id: RouteId,
    account_id: AccountId,
}

/// A change that is being applied to the next snapshot.
struct Edit<'a> {
    source: &'a Source,
    changed: Changed,
    /// The channels that touched routes now own.
    owned: BTreeMap<RouteId, Vec<Arc<Channel>>>,
    gone: Vec<Arc<Channel>>,
}

// === impl Source ===

impl Source {
    /// Loads every row. Live values of what no longer exists are removed from the table.
    pub async fn load(
        store: &Store,
        live: &LiveTable,
        system_proxy_url: Option<&str>,
        weights: Weights,
    ) -> Result<Self> {
        let site_rows = sites::list(store).await?;
        let token_rows = by_id(tokens::list(store).await?, |row| row.id);
        let route_rows = routes::list(store).await?;
        let units = Units::read(store, true).await?;
        let builder = Builder::new(live, system_proxy_url);
        let mut source = Self {
            snapshot: Arc::default(),
            system_proxy_url: system_proxy_url.map(str::to_owned),
            owners: FastMap::default(),
            accounts: FastMap::default(),
            units: FastMap::default(),
            endpoints: FastMap::default(),
        };
        for unit in units.rows.values() {
            source.units.extend(unit.members.iter().map(|member| (member.account_id, unit.id)));
        }
        let mut sites: BTreeMap<SiteId, (&SiteRow, Arc<Site>)> = BTreeMap::new();
        for row in &site_rows {
            sites.insert(row.id, (row, Arc::new(builder.site(row, builder.proxy_of_site(row)))));
            source.endpoints.insert(row.id, row.endpoints.iter().map(|endpoint| endpoint.id).collect());
        }
        let own_credentials = source.load_accounts(store, &builder, &sites).await?;
        let parts = ChannelParts { tokens: &token_rows, units: &units, own_credentials: &own_credentials };
        let mut channels = source.load_channels(store, &builder, parts).await?;
        let route = |row: &RouteRow| build_route(row, channels.remove(&row.id).unwrap_or_default());
        let routes = route_rows.iter().map(route).collect();
        live.retain(
            &source.owners.keys().copied().collect(),
            &source.endpoints.values().flatten().copied().collect(),
            &sites.keys().copied().collect(),
        );
        live.retain_members(
            &units.rows.values().flat_map(|unit| &unit.members).map(|member| member.id).collect(),
        );
        let accounts = source.accounts.keys().copied().collect();
        live.retain_prices(&accounts);
        live.retain_limits(&accounts);
        let sites = sites.into_values().map(|(_, site)| site).collect();
        source.snapshot = Arc::new(Snapshot::new(routes, sites, weights));
        Ok(source)
    }

    /// Loads the accounts, and returns the credentials that those with channels have of their own.
    async fn load_accounts(
        &mut self,
        store: &Store,
        builder: &Builder<'_>,
        sites: &BTreeMap<SiteId, (&SiteRow, Arc<Site>)>,
    ) -> Result<FastMap<AccountId, Credential>> {
        let mut serving = routes::accounts_with_channels(store).await?;
        serving.extend(self.units.keys());
        let mut own_credentials: FastMap<AccountId, Credential> = FastMap::default();
        // A row is several times the size of what routing keeps of it, so it is freed before the next page is read.
        accounts::pick(store, |row| -> Option<()> {
            let (site_row, site) = sites.get(&row.site_id)?;
            let account = serving.contains(&row.id).then(|| {
                own_credentials.extend(builder.own_credential(&row).map(|own| (row.id, own)));
                Arc::new(builder.account(&row, site, Some(site_row)))
            });
            let known = KnownAccount { site_id: row.site_id, account, channels: Vec::new() };
            self.accounts.insert(row.id, known);
            None
        })
        .await?;
        Ok(own_credentials)
    }

    /// Loads the channels of the loaded accounts, by their routes.
    async fn load_channels(
        &mut self,
        store: &Store,
        builder: &Builder<'_>,
        parts: ChannelParts<'_>,
    ) -> Result<BTreeMap<RouteId, Vec<Arc<Channel>>>> {
        let ChannelParts { tokens, units, own_credentials } = parts;
        let mut channels: BTreeMap<RouteId, Vec<Arc<Channel>>> = BTreeMap::new();
        let mut after = ChannelId::ZERO;
        loop {
            let page = routes::channels_after(store, after, routes::PAGE).await?;
            for row in &page {
                let find = |id: AccountId| {
                    let account = self.accounts.get(&id)?.account.as_ref()?;
                    Some((own_credentials.get(&id).cloned(), account))
                };
                let Some((own, account)) = find(row.account_id) else { continue };
                let token = row.token_id.and_then(|id| tokens.get(&id));
                let channel = builder.channel(row, account, own, token);
                let channel = with_members(builder, channel, row, units, find);
                let Some(known) = self.accounts.get_mut(&row.account_id) else { continue };
                channels.entry(row.route_id).or_default().push(Arc::new(channel));
                known.channels.push(row.id);
                self.owners.insert(row.id, row.route_id);
            }
            match page.last() {
                Some(last) if page.len() == routes::PAGE as usize => after = last.id,
                _ => return Ok(channels),
            }
        }
    }

    /// Returns the snapshot in force.
    pub fn snapshot(&self) -> &Arc<Snapshot> {
        &self.snapshot
    }

    /// Builds the snapshot after a change, and returns the channels that no longer exist. Live values of what
    /// no longer exists are removed from the table. When it fails, nothing has changed.
    pub async fn follow(
        &mut self,
        store: &Store,
        live: &LiveTable,
        touched: &Touched,
        system_proxy_url: Option<&str>,
        weights: Weights,
    ) -> Result<HashSet<ChannelId>> {
        let is_most = touched.to_read() > FEW && touched.to_read() > self.owners.len() / 4;
        if touched.everything || is_most || self.system_proxy_url.as_deref() != system_proxy_url {
            let next = Self::load(store, live, system_proxy_url, weights).await?;
            let gone = self.owners.keys().filter(|id| !next.owners.contains_key(id)).copied().collect();
            *self = next;
            return Ok(gone);
        }
        let rows = self.read(store, touched).await?;
        Ok(self.take_over(&rows, live, touched, weights).await)
    }

    /// Builds the snapshot from the rows that were read, and regularly yields to other work on its thread.
    async fn take_over(
        &mut self,
        rows: &Rows,
        live: &LiveTable,
        touched: &Touched,
        weights: Weights,
    ) -> HashSet<ChannelId> {
        let builder = Builder::new(live, self.system_proxy_url.as_deref());
        let mut edit =
            Edit { source: self, changed: Changed::default(), owned: BTreeMap::new(), gone: Vec::new() };
        for (id, row) in &rows.sites {
            let site = row.as_ref().map(|row| Arc::new(builder.site(row, builder.proxy_of_site(row))));
            edit.changed.sites.insert(*id, site);
        }
        let mut new_accounts: BTreeMap<AccountId, Arc<Account>> = BTreeMap::new();
        let changed =
            rows.accounts.values().filter(|row| self.serves(row.id) || rows.serving.contains(&row.id));
        let first_served = rows.other_accounts.values().filter(|row| !self.serves(row.id));
        for row in changed.chain(first_served) {
            if let Some(account) = edit.account(&builder, rows, row) {
                new_accounts.insert(row.id, Arc::new(account));
            }
        }
        edit.remove(rows, touched);
        let mut placed: Vec<PlacedChannel> = Vec::new();
        for (place, row) in rows.channels.values().enumerate() {
            if place % PORTION == PORTION - 1 {
                yield_now().await;
            }
            let source = edit.source;
            let find = |id: AccountId| {
                let known = || source.accounts.get(&id)?.account.as_ref();
                let account_row = rows.accounts.get(&id).or(rows.other_accounts.get(&id))?;
                Some((builder.own_credential(account_row), new_accounts.get(&id).or_else(known)?))
            };
            // An account that is not known yet was added after the journal was taken.
            let Some((own, account)) = find(row.account_id) else { continue };
            let token = row.token_id.and_then(|id| rows.tokens.get(&id));
            let channel = builder.channel(row, account, own, token);
            let channel = with_members(&builder, channel, row, &rows.units, find);
            if edit.place(rows, Arc::new(channel)) {
                let (id, route_id, account_id) = (row.id, row.route_id, row.account_id);
                placed.push(PlacedChannel { id, route_id, account_id });
            }
        }
        // For accounts that did not change themselves, only their site is new.
        for (id, account) in new_accounts.iter().filter(|(id, _)| !touched.accounts.contains(id)) {
            edit.hand_over(*id, account, rows);
            yield_now().await;
        }
        edit.settle_routes(rows);
        let Edit { changed, gone, .. } = edit;
        self.snapshot = Arc::new(self.snapshot.changed(changed, weights));
        self.note_accounts(rows, new_accounts, live);
        self.note_sites(rows, live);
        self.note_channels(&placed, &gone);
        let gone: HashSet<ChannelId> = gone.iter().map(|channel| channel.id).collect();
        live.forget_channels(&gone);
        gone
    }

    fn note_accounts(&mut self, rows: &Rows, new: BTreeMap<AccountId, Arc<Account>>, live: &LiveTable) {
        for id in rows.account_ids.iter().filter(|id| !rows.accounts.contains_key(id)) {
            self.accounts.remove(id);
            live.forget_account(*id);
        }
        for row in rows.accounts.values().chain(rows.other_accounts.values()) {
            let unknown = || KnownAccount { site_id: row.site_id, account: None, channels: Vec::new() };
            self.accounts.entry(row.id).or_insert_with(unknown).site_id = row.site_id;
        }
        for (id, account) in new {
            if let Some(known) = self.accounts.get_mut(&id) {
                known.account = Some(account);
            }
        }
    }

    fn note_sites(&mut self, rows: &Rows, live: &LiveTable) {
        for (id, row) in &rows.sites {
            let now: Vec<EndpointId> =
                row.iter().flat_map(|row| &row.endpoints).map(|endpoint| endpoint.id).collect();
            let before = self.endpoints.get(id).into_iter().flatten();
            live.forget_endpoints(before.filter(|id| !now.contains(id)).copied());
            match row {
                Some(_) => drop(self.endpoints.insert(*id, now)),
                None => {
                    self.endpoints.remove(id);
                    live.forget_site(*id);
                }
            }
        }
    }

    /// Records the routes and accounts of placed and removed channels.
    fn note_channels(&mut self, placed: &[PlacedChannel], gone: &[Arc<Channel>]) {
        let mut of_accounts: BTreeMap<AccountId, HashSet<ChannelId>> = BTreeMap::new();
        for channel in gone {
            self.owners.remove(&channel.id);
            of_accounts.entry(channel.account.id).or_default().insert(channel.id);
        }
        for (account, gone) in of_accounts {
            if let Some(known) = self.accounts.get_mut(&account) {
                known.channels.retain(|id| !gone.contains(id));
            }
        }
        for PlacedChannel { id, route_id, account_id } in placed {
            if self.owners.insert(*id, *route_id).is_none()
                && let Some(known) = self.accounts.get_mut(account_id)
            {
                known.channels.push(*id);
            }
        }
    }
}

// === impl Edit ===

impl Edit<'_> {
    /// Builds an account; `None` when its site was deleted.
    fn account(&self, builder: &Builder<'_>, rows: &Rows, row: &AccountRow) -> Option<Account> {
        let (site, site_row) = match rows.sites.get(&row.site_id) {
            Some(site_row) => (self.changed.sites.get(&row.site_id)?.clone()?, site_row.as_ref()),
            None => {
                let site_row = rows.other_sites.get(&row.site_id);
                let site = self.source.snapshot.site(row.site_id).cloned().or_else(|| {
                    // The site was added after the journal was taken.
                    site_row.map(|row| Arc::new(builder.site(row, builder.proxy_of_site(row))))
                })?;
                (site, site_row)
            }
        };
        Some(builder.account(row, &site, site_row))
    }

    /// Removes what was deleted.
    fn remove(&mut self, rows: &Rows, touched: &Touched) {
        for id in touched.routes.iter().filter(|id| !rows.routes.contains_key(id)) {
            let Some(route) = self.source.snapshot.route(*id) else { continue };
            if !route.is_group() {
                self.gone.extend(route.channels.iter().cloned());
            }
            self.changed.routes.insert(*id, None);
        }
        let accounts = rows.account_ids.iter().filter(|id| !rows.accounts.contains_key(id));
        let of_accounts =
            accounts.filter_map(|id| self.source.accounts.get(id)).flat_map(|known| &known.channels);
        let themselves = touched.channels.iter().filter(|id| !rows.channels.contains_key(id));
        let of_routes = rows.whole_routes.iter().filter_map(|id| self.source.snapshot.route(*id));
        let of_routes = of_routes.filter(|route| !route.is_group()).flat_map(|route| &route.channels);
        let of_routes = of_routes.map(|channel| &channel.id).filter(|id| !rows.channels.contains_key(id));
        let mut gone: BTreeMap<RouteId, HashSet<ChannelId>> = BTreeMap::new();
        for id in of_accounts.chain(themselves).chain(of_routes) {
            if let Some(route) = self.source.owners.get(id) {
                gone.entry(*route).or_default().insert(*id);
            }
        }
        for (route, ids) in gone {
            let Some(channels) = self.owned(route, rows) else { continue };
            let (out, kept) =
                std::mem::take(channels).into_iter().partition(|channel| ids.contains(&channel.id));
            *channels = kept;
            self.gone.extend::<Vec<_>>(out);
        }
    }

    /// Puts a channel into its route; returns whether there is such a route.
    fn place(&mut self, rows: &Rows, channel: Arc<Channel>) -> bool {
        let Some(channels) = self.owned(channel.route_id, rows) else { return false };
        match channels.binary_search_by_key(&channel.id, |channel| channel.id) {
            Ok(at) => channels[at] = channel,
            Err(at) => channels.insert(at, channel),
        }
        true
    }

    /// Replaces the account in those of its channels that were not read.
    fn hand_over(&mut self, id: AccountId, account: &Arc<Account>, rows: &Rows) {
        let source = self.source;
        let known = source.accounts.get(&id).map_or(&[][..], |known| &known.channels);
        for id in known.iter().filter(|id| !rows.channels.contains_key(id)) {
            let Some(channels) = source.owners.get(id).and_then(|route| self.owned(*route, rows)) else {
                continue;
            };
            if let Ok(at) = channels.binary_search_by_key(id, |channel| channel.id) {
                let account = Arc::clone(account);
                channels[at] = Arc::new(Channel { account, ..Channel::clone(&channels[at]) });
            }
        }
    }

    /// Returns the channels of a route that owns some; `None` for a group and for a deleted route.
    fn owned(&mut self, route: RouteId, rows: &Rows) -> Option<&mut Vec<Arc<Channel>>> {
        let before = self.source.snapshot.route(route);
        if self.changed.routes.contains_key(&route) || before.is_some_and(|route| route.is_group()) {
            return None;
        }
        if before.is_none() && rows.routes.get(&route).is_none_or(RouteRow::is_group) {
            return None;
        }
        let channels = || before.map(|route| route.channels.clone()).unwrap_or_default();
        Some(self.owned.entry(route).or_insert_with(channels))
    }

    /// Builds the touched routes from their rows and channels.
    fn settle_routes(&mut self, rows: &Rows) {
        let gone: BTreeSet<RouteId> = self.changed.routes.keys().copied().collect();
        for row in rows.routes.values() {
            let channels = match self.owned(row.id, rows) {
                Some(channels) => std::mem::take(channels),
                None => Vec::new(),
            };
            self.owned.remove(&row.id);
            self.changed.routes.insert(row.id, Some(build_route(row, channels)));
        }
        for (id, channels) in std::mem::take(&mut self.owned) {
            if let Some(before) = self.source.snapshot.route(id) {
                self.changed.routes.insert(id, Some(before.with_channels(channels)));
            }
        }
        // A group loses its links to deleted routes.
        let linked = self.source.snapshot.groups().filter_map(|group| without_sources(group, &gone));
        for group in linked {
            self.changed.routes.entry(group.id).or_insert(Some(group));
        }
    }
}

/// Returns the channel with the members of its unit if it stands for one.
fn with_members<'r>(
    builder: &Builder<'_>,
    channel: Channel,
    row: &ChannelRow,
    units: &Units,
    find: impl Fn(AccountId) -> Option<(Option<Credential>, &'r Arc<Account>)>,
) -> Channel {
    let Some(unit) = row.oauth_route_unit_id.and_then(|id| units.rows.get(&id)) else { return channel };
    let members: Vec<_> = unit.members.iter().filter_map(|member| find(member.account_id)).collect();
    builder.whole(channel, unit, &members, &units.models)
}

/// Returns the group without these sources; `None` when it has none of them.
fn without_sources(group: &Route, gone: &BTreeSet<RouteId>) -> Option<Route> {
    let RouteMode::ExplicitGroup { sources } = &group.mode else { return None };
    let kept: Vec<RouteId> = sources.iter().filter(|id| !gone.contains(id)).copied().collect();
    let is_touched = kept.len() < sources.len();
    is_touched.then(|| Route {
        mode: RouteMode::ExplicitGroup { sources: kept },
        ..group.with_channels(Vec::new())
    })
}
