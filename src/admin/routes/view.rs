//! Routes and channels as the admin API shows them.
//!
//! Configuration comes from the store; values that change with every request (counters, cooldowns) come from memory,
//! since the stored counters are up to a quarter of a second behind. A listed channel shows the names of its account,
//! site and token, and no secret.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use serde::Serialize;

use crate::admin::Admin;
use crate::admin::decisions::cache::CachedDecisionFields;
use crate::admin::ratio;
use crate::core::Core;
use crate::ids::{AccountId, ChannelId, RouteId, TokenId, UnitId};
use crate::money::Usd;
use crate::routing::{ChannelLive, ChannelTotals, ModelPattern, cooling_until, limited_until};
use crate::store;
use crate::store::Store;
use crate::store::accounts::{self, AccountRow};
use crate::store::names::{AccountName, Names, SiteName, TokenName};
use crate::store::routes::{self, ChannelRow, ChannelsOf, RouteRow};
use crate::store::tokens::{self, TokenRow};
use crate::time::{self, Millis};

/// All rows that listing or changing routes needs, read once.
pub struct RouteIndex {
    routes: BTreeMap<RouteId, RouteRow>,
    /// The channels of each route that owns some, by ascending id.
    channels: HashMap<RouteId, Vec<ChannelRow>>,
    /// The route of each channel.
    owners: HashMap<ChannelId, RouteId>,
    /// The names of the channels' accounts, sites and tokens.
    names: Names,
    /// Whole account rows, for changes; empty after [`Self::listing`].
    accounts: HashMap<AccountId, AccountRow>,
    tokens: HashMap<TokenId, TokenRow>,
}

/// Routes, and the channels that they own or use from their sources.
struct Rows {
    routes: Vec<RouteRow>,
    /// Channels by ascending id.
    channels: Vec<ChannelRow>,
}

impl RouteIndex {
    pub async fn read(store: &Store) -> store::Result<Self> {
        let rows = Rows { routes: routes::list(store).await?, channels: routes::list_channels(store).await? };
        let (accounts, tokens) = (accounts::list(store).await?, tokens::list(store).await?);
        let mut names = Names::default();
        names.add(store, ids_of(&accounts), rows.tokens()).await?;
        names.add_units(store, rows.units()).await?;
        Ok(Self::new(rows.routes, rows.channels, names).with_accounts(accounts, tokens))
    }

    /// Reads the rows for listing some routes, with these accounts besides those of their channels.
    pub async fn of(store: &Store, ids: &[RouteId], others: &[AccountId]) -> store::Result<Self> {
        let rows = Rows::of(store, ids).await?;
        let accounts: BTreeSet<AccountId> = rows.accounts().chain(others.iter().copied()).collect();
        let accounts: Vec<AccountId> = accounts.into_iter().collect();
        let tokens = tokens::of_accounts(store, &accounts).await?;
        let accounts = accounts::some(store, &accounts).await?;
        let mut names = Names::default();
        names.add(store, ids_of(&accounts), rows.tokens()).await?;
        names.add_units(store, rows.units()).await?;
        Ok(Self::new(rows.routes, rows.channels, names).with_accounts(accounts, tokens))
    }

    /// Reads only the rows for listing some routes; reuses the names that are already known.
    pub async fn listing(store: &Store, ids: &[RouteId], mut known: Names) -> store::Result<Self> {
        let rows = Rows::of(store, ids).await?;
        known.add(store, rows.accounts(), rows.tokens()).await?;
        known.add_units(store, rows.units()).await?;
        Ok(Self::new(rows.routes, rows.channels, known))
    }

    /// Returns the names that were read, for the next listing.
    pub fn into_names(self) -> Names {
        self.names
    }

    /// Reads the rows for listing the routes of some channels.
    pub async fn of_channels(store: &Store, ids: &[ChannelId]) -> store::Result<Self> {
        let channels = routes::some_channels(store, ChannelsOf::Themselves(ids)).await?;
        let routes: BTreeSet<RouteId> = channels.iter().map(|channel| channel.route_id).collect();
        Self::of(store, &routes.into_iter().collect::<Vec<_>>(), &[]).await
    }

    /// Builds the index from rows. The channels of each route must be in ascending order of their ids.
    pub fn new(routes: Vec<RouteRow>, rows: Vec<ChannelRow>, names: Names) -> Self {
        let owners = rows.iter().map(|channel| (channel.id, channel.route_id)).collect();
        let mut channels: HashMap<RouteId, Vec<ChannelRow>> = HashMap::new();
        for channel in rows {
            channels.entry(channel.route_id).or_default().push(channel);
        }
        Self {
            routes: routes.into_iter().map(|row| (row.id, row)).collect(),
            channels,
            owners,
            names,
            accounts: HashMap::new(),
            tokens: HashMap::new(),
        }
    }

    /// Adds whole rows of accounts and tokens.
    pub fn with_accounts(self, accounts: Vec<AccountRow>, tokens: Vec<TokenRow>) -> Self {
        let accounts = accounts.into_iter().map(|row| (row.id, row)).collect();
        Self { accounts, tokens: tokens.into_iter().map(|row| (row.id, row)).collect(), ..self }
    }

    /// Returns the routes by ascending id.
    pub fn routes(&self) -> impl Iterator<Item = &RouteRow> {
        self.routes.values()
    }

    /// Returns the route of this id.
    pub fn route(&self, id: RouteId) -> Option<&RouteRow> {
        self.routes.get(&id)
    }

    /// Returns the channels that a route owns; for a group those of its enabled exact sources, in source order.
    pub fn channels<'a>(&'a self, route: &'a RouteRow) -> Box<dyn Iterator<Item = &'a ChannelRow> + 'a> {
        if !route.is_group() {
            return Box::new(self.owned(route.id));
        }
        let sources = route.source_route_ids.iter().filter_map(|id| self.routes.get(id));
        let sources = sources.filter(|source| source.enabled && is_exact(source));
        Box::new(sources.flat_map(|source| self.owned(source.id)))
    }

    /// Returns the channels that belong to the route itself, by ascending id.
    pub fn owned(&self, route_id: RouteId) -> impl Iterator<Item = &ChannelRow> {
        self.channels.get(&route_id).into_iter().flatten()
    }

    /// Returns all channels of an account, on any route.
    pub fn channels_of_account(&self, account_id: AccountId) -> impl Iterator<Item = &ChannelRow> {
        self.channels.values().flatten().filter(move |channel| channel.account_id == account_id)
    }

    pub fn channels_of_unit(&self, unit_id: UnitId) -> impl Iterator<Item = &ChannelRow> {
        self.channels.values().flatten().filter(move |channel| channel.oauth_route_unit_id == Some(unit_id))
    }

    /// Returns the names of the sites behind a route, without duplicates.
    pub fn site_names(&self, route: &RouteRow) -> Vec<&str> {
        let mut names = Vec::new();
        for channel in self.channels(route) {
            if let Some(site) = self.names.site_of(channel.account_id)
                && !names.contains(&site.name.as_str())
            {
                names.push(site.name.as_str());
            }
        }
        names
    }

    /// Returns the channel of this id.
    pub fn channel(&self, id: ChannelId) -> Option<&ChannelRow> {
        let siblings = self.channels.get(self.owners.get(&id)?)?;
        siblings.binary_search_by_key(&id, |channel| channel.id).ok().map(|at| &siblings[at])
    }

    /// Returns the account of this id.
    pub fn account(&self, id: AccountId) -> Option<&AccountRow> {
        self.accounts.get(&id)
    }

    /// Returns the token of this id.
    pub fn token(&self, id: TokenId) -> Option<&TokenRow> {
        self.tokens.get(&id)
    }

    /// Returns the token that an account uses if none is named.
    pub fn default_token(&self, account_id: AccountId) -> Option<&TokenRow> {
        let tokens = self.tokens.values().filter(|token| token.account_id == account_id);
        tokens.filter(|token| token.is_default && token.is_usable()).min_by_key(|token| token.id)
    }

    /// Returns the channel's upstream model: its own source model, else the model of its exact route.
    pub fn source_model<'a>(&'a self, channel: &'a ChannelRow) -> Option<&'a str> {
        let own = channel.source_model.as_deref().filter(|model| !model.trim().is_empty());
        let route = || self.routes.get(&channel.route_id).filter(|route| is_exact(route));
        own.or_else(|| route().map(|route| route.model_pattern.as_str()))
    }

    /// Shows the channel as lists do, with its current counters.
    pub fn listed<'a>(&'a self, core: &Core, channel: &'a ChannelRow) -> ListedChannel<'a> {
        let live = live(core, channel).totals();
        let Unavailability { cooldown_until, limited_until } = match channel.oauth_route_unit_id {
            Some(_) => of_unit(core, channel).unwrap_or_default(),
            None => {
                Unavailability { cooldown_until: live.cooldown_until, limited_until: live.limited_until() }
            }
        };
        let token = channel.token_id.and_then(|id| self.names.tokens.get(&id));
        ListedChannel {
            id: channel.id,
            route_id: channel.route_id,
            account_id: channel.account_id,
            token_id: channel.token_id,
            oauth_route_unit_id: channel.oauth_route_unit_id,
            source_model: self.source_model(channel),
            priority: channel.priority,
            weight: channel.weight,
            enabled: channel.enabled,
            manual_override: channel.manual_override,
            success_count: live.success,
            fail_count: live.fail,
            total_latency_ms: live.latency_ms,
            total_cost: live.cost().rounded(),
            cache_hit_ratio: hit_ratio(&live),
            last_used_at: live.last_used.map(time::iso),
            last_selected_at: live.last_selected.map(time::iso),
            last_fail_at: live.last_fail.map(time::iso),
            consecutive_fail_count: live.consecutive_fail,
            cooldown_level: channel.stats.cooldown_level,
            cooldown_until: cooldown_until.map(time::iso),
            limited_until: limited_until.map(time::iso),
            account: self.names.accounts.get(&channel.account_id),
            site: self.names.site_of(channel.account_id),
            token,
            route_unit: channel.oauth_route_unit_id.and_then(|id| ChannelUnit::of(&self.names, id)),
        }
    }

    /// Shows the channel like [`Self::listed`], but only with its own source model.
    pub fn as_stored<'a>(&'a self, core: &Core, channel: &'a ChannelRow) -> ListedChannel<'a> {
        ListedChannel { source_model: channel.source_model.as_deref(), ..self.listed(core, channel) }
    }
}

// === impl Rows ===

impl Rows {
    /// Reads these routes, the sources of those that are groups, and their channels.
    async fn of(store: &Store, ids: &[RouteId]) -> store::Result<Self> {
        let mut routes = routes::some(store, ids).await?;
        let known: BTreeSet<RouteId> = routes.iter().map(|row| row.id).collect();
        let sources: BTreeSet<RouteId> =
            routes.iter().flat_map(|row| &row.source_route_ids).copied().collect();
        let sources: Vec<RouteId> = sources.difference(&known).copied().collect();
        routes.extend(routes::some(store, &sources).await?);
        let owners: Vec<RouteId> = routes.iter().filter(|row| !row.is_group()).map(|row| row.id).collect();
        let mut channels = routes::some_channels(store, ChannelsOf::Routes(&owners)).await?;
        channels.sort_unstable_by_key(|channel| channel.id);
        Ok(Self { routes, channels })
    }

    fn accounts(&self) -> impl Iterator<Item = AccountId> {
        self.channels.iter().map(|channel| channel.account_id)
    }

    fn tokens(&self) -> impl Iterator<Item = TokenId> {
        self.channels.iter().filter_map(|channel| channel.token_id)
    }

    fn units(&self) -> impl Iterator<Item = UnitId> {
        self.channels.iter().filter_map(|channel| channel.oauth_route_unit_id)
    }
}

fn ids_of(accounts: &[AccountRow]) -> impl Iterator<Item = AccountId> {
    accounts.iter().map(|account| account.id)
}

/// Whether the route owns channels and matches exactly one model name.
pub fn is_exact(route: &RouteRow) -> bool {
    !route.is_group() && ModelPattern::stored(&route.model_pattern).is_exact()
}

/// Returns the live state of a channel; one that is not in memory yet starts from the stored counters.
pub fn live(core: &Core, channel: &ChannelRow) -> Arc<ChannelLive> {
    core.live.channel(channel.id, || channel.stats.totals())
}

/// The times until which a channel is not selected.
#[derive(Default)]
struct Unavailability {
    cooldown_until: Option<Millis>,
    limited_until: Option<Millis>,
}

/// Returns until when a route unit is not selected: its members cool down, its channel never does.
fn of_unit(core: &Core, row: &ChannelRow) -> Option<Unavailability> {
    let snapshot = core.snapshot.load();
    let channels = &snapshot.route(row.route_id)?.channels;
    let place = channels.binary_search_by_key(&row.id, |channel| channel.id).ok()?;
    let (channel, now) = (&channels[place], time::now_ms());
    Some(Unavailability {
        cooldown_until: cooling_until(channel, now),
        limited_until: limited_until(channel, now),
    })
}

fn hit_ratio(totals: &ChannelTotals) -> Option<serde_json::Value> {
    totals.cache_hit_ratio().map(ratio)
}

/// The fields of a route that every listing shows.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LiteRoute<'a> {
    id: RouteId,
    model_pattern: &'a str,
    display_name: Option<&'a str>,
    display_icon: Option<&'a str>,
    route_mode: &'static str,
    source_route_ids: &'a [RouteId],
    routing_strategy: &'static str,
    enabled: bool,
}

impl<'a> From<&'a RouteRow> for LiteRoute<'a> {
    fn from(row: &'a RouteRow) -> Self {
        Self {
            id: row.id,
            model_pattern: &row.model_pattern,
            display_name: row.display_name.as_deref(),
            display_icon: row.display_icon.as_deref(),
            route_mode: row.route_mode.as_str(),
            source_route_ids: &row.source_route_ids,
            routing_strategy: row.routing_strategy.as_str(),
            enabled: row.enabled,
        }
    }
}

/// A route with counts in place of its channels.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RouteSummary<'a> {
    #[serde(flatten)]
    route: LiteRoute<'a>,
    model_mapping: Option<&'a str>,
    #[serde(flatten)]
    decision: CachedDecisionFields,
    channel_count: usize,
    enabled_channel_count: usize,
    site_names: Vec<&'a str>,
    /// The cache hit ratio of all its channels together.
    cache_hit_ratio: Option<serde_json::Value>,
    channel_caches: Vec<ChannelCache>,
}

/// The fraction of the input that a channel's upstream read from its cache.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ChannelCache {
    id: ChannelId,
    /// From 0 to 1; `null` where the upstream does not report it.
    cache_hit_ratio: Option<serde_json::Value>,
}

impl<'a> RouteSummary<'a> {
    pub fn new(admin: &Admin, route_index: &'a RouteIndex, row: &'a RouteRow) -> Self {
        let mut all = ChannelTotals::default();
        let channel_caches = route_index
            .channels(row)
            .map(|channel| {
                let totals = live(&admin.core, channel).totals();
                all.cache_input += totals.cache_input;
                all.cache_read += totals.cache_read;
                ChannelCache { id: channel.id, cache_hit_ratio: hit_ratio(&totals) }
            })
            .collect();
        Self {
            route: row.into(),
            model_mapping: row.model_mapping.as_deref(),
            decision: admin.decisions().of(&admin.core.snapshot.load(), row.id),
            channel_count: route_index.channels(row).count(),
            enabled_channel_count: route_index.channels(row).filter(|channel| channel.enabled).count(),
            site_names: route_index.site_names(row),
            cache_hit_ratio: hit_ratio(&all),
            channel_caches,
        }
    }
}

/// A route with its channels.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ListedRoute<'a> {
    #[serde(flatten)]
    route: LiteRoute<'a>,
    model_mapping: Option<&'a str>,
    #[serde(flatten)]
    decision: CachedDecisionFields,
    created_at: String,
    updated_at: String,
    channels: Vec<ListedChannel<'a>>,
}

impl<'a> ListedRoute<'a> {
    pub fn new(admin: &Admin, route_index: &'a RouteIndex, row: &'a RouteRow) -> Self {
        Self {
            route: row.into(),
            model_mapping: row.model_mapping.as_deref(),
            decision: admin.decisions().of(&admin.core.snapshot.load(), row.id),
            created_at: time::iso(row.created_at),
            updated_at: time::iso(row.updated_at),
            channels: route_index
                .channels(row)
                .map(|channel| route_index.listed(&admin.core, channel))
                .collect(),
        }
    }
}

/// A channel with the names behind its ids.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ListedChannel<'a> {
    id: ChannelId,
    route_id: RouteId,
    account_id: AccountId,
    token_id: Option<TokenId>,
    oauth_route_unit_id: Option<UnitId>,
    source_model: Option<&'a str>,
    priority: i64,
    weight: i64,
    enabled: bool,
    manual_override: bool,
    success_count: u64,
    fail_count: u64,
    total_latency_ms: u64,
    total_cost: Usd,
    cache_hit_ratio: Option<serde_json::Value>,
    last_used_at: Option<String>,
    last_selected_at: Option<String>,
    last_fail_at: Option<String>,
    consecutive_fail_count: u64,
    cooldown_level: i64,
    cooldown_until: Option<String>,
    limited_until: Option<String>,
    account: Option<&'a AccountName>,
    site: Option<&'a SiteName>,
    token: Option<&'a TokenName>,
    /// The route unit, if several accounts share the channel.
    route_unit: Option<ChannelUnit<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ChannelUnit<'a> {
    id: UnitId,
    name: &'a str,
    strategy: &'static str,
    member_count: usize,
    members: Vec<UnitMember<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct UnitMember<'a> {
    account_id: AccountId,
    username: Option<&'a str>,
    site_name: Option<&'a str>,
}

impl<'a> ChannelUnit<'a> {
    fn of(names: &'a Names, id: UnitId) -> Option<Self> {
        let unit = names.units.get(&id)?;
        let member = |id: &AccountId| UnitMember {
            account_id: *id,
            username: names.accounts.get(id).and_then(|account| account.username.as_deref()),
            site_name: names.site_of(*id).map(|site| site.name.as_str()),
        };
        Some(Self {
            id,
            name: &unit.name,
            strategy: unit.strategy.as_str(),
            member_count: unit.members.len(),
            members: unit.members.iter().map(member).collect(),
        })
    }
}
