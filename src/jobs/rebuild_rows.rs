//! The stored rows from which a rebuild plans: all of them, or those of some accounts.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use super::models::outcome::RebuildCounts;
use super::pace::{ComputePauses, PAGE, Pace};
use super::rebuild_scope::Scope;
use crate::core::Core;
use crate::ids::{AccountId, ChannelId, Id, RouteId, SiteId, TokenId, UnitId};
use crate::routing::rebuild::{
    AccountCredentials, AccountRow, ChannelRow, Inventory, Plan, RouteRow, ServesBy, TokenRow, UnitRef,
};
use crate::routing::{ModelPattern, Route, RouteMode, Snapshot, Strategy};
use crate::settings::Settings;
use crate::store::availability::{AvailableModel, HasModels};
use crate::store::{self, Store, accounts, availability, route_units, routes, sites, tokens};

/// The stored rows from which a plan is made.
pub(super) struct Rows {
    accounts: Vec<AccountRow>,
    tokens: Vec<tokens::TokenRow>,
    models: OfferedModels,
    disabled_models: Vec<availability::DisabledModelRow>,
    routes: Vec<routes::RouteRow>,
    channels: Vec<ChannelRow>,
    /// The routes that a downstream key may use by their number.
    named_routes: HashSet<RouteId>,
    /// The globs, regexes and groups, where only some of the routes were read.
    others: Vec<RouteRow>,
    /// The routes that also have channels of accounts that were not read.
    served_elsewhere: HashSet<RouteId>,
}

/// The names of models. Many rows have the same name, which is kept once.
#[derive(Default)]
struct NameInterner(HashSet<Arc<str>>);

/// The available models of accounts and tokens.
#[derive(Default)]
struct OfferedModels {
    /// The names of all models that were read, and of those that are not available now.
    names: NameInterner,
    of_accounts: Vec<(AccountId, Arc<str>)>,
    /// The models of accounts that an operator typed.
    typed: Vec<(AccountId, Arc<str>)>,
    of_tokens: Vec<(TokenId, Arc<str>)>,
}

// === impl NameInterner ===

impl NameInterner {
    fn intern(&mut self, name: &str) -> Arc<str> {
        if let Some(known) = self.0.get(name) {
            return known.clone();
        }
        let name: Arc<str> = name.into();
        self.0.insert(name.clone());
        name
    }
}

// === impl OfferedModels ===

impl OfferedModels {
    /// Reads the models of all accounts.
    async fn read(store: &Store, pace: &Pace) -> store::Result<Self> {
        let mut names = NameInterner::default();
        let mut typed = Vec::new();
        let of_account = |row: AvailableModel<AccountId>| {
            let model = (row.owner, names.intern(&row.name));
            typed.extend(row.is_manual.then(|| model.clone()));
            model
        };
        let of_accounts = pace.pages(|last| models_after(store, last.cloned()), of_account).await?;
        let of_token = |row: AvailableModel<TokenId>| (row.owner, names.intern(&row.name));
        let of_tokens = pace.pages(|last| models_after(store, last.cloned()), of_token).await?;
        Ok(Self { names, of_accounts, typed, of_tokens })
    }

    /// Reads the models of some accounts.
    async fn of(store: &Store, ids: &[AccountId]) -> store::Result<Self> {
        let mut models = Self::default();
        for id in ids {
            for row in availability::of_account(store, *id).await? {
                let name = models.names.intern(&row.model_name);
                models.typed.extend((row.available && row.is_manual).then(|| (*id, name.clone())));
                models.of_accounts.extend(row.available.then_some((*id, name)));
            }
            for row in availability::of_tokens_of(store, *id).await? {
                let name = models.names.intern(&row.model_name);
                models.of_tokens.extend(row.available.then_some((row.token_id, name)));
            }
        }
        Ok(models)
    }
}

/// Reads the page of available models that follows `last`.
async fn models_after<I: HasModels>(
    store: &Store,
    last: Option<(I, Arc<str>)>,
) -> store::Result<Vec<AvailableModel<I>>> {
    let after = last.as_ref().map_or((I::new(0), ""), |(id, name)| (*id, &**name));
    availability::available_after(store, after, PAGE).await
}

// === impl Rows ===

impl Rows {
    /// Reads all rows.
    pub(super) async fn read(core: &Core) -> store::Result<Self> {
        let store = &core.store;
        let pace = Pace::default();
        let mut models = OfferedModels::read(store, &pace).await?;
        let keys = core.keys.load();
        let channels_after = |last: Option<&ChannelRow>| {
            routes::planned_after(store, last.map_or(ChannelId::ZERO, |last| last.id), PAGE)
        };
        let with_known_name = |row: ChannelRow| ChannelRow {
            source_model: row.source_model.map(|name| models.names.intern(&name)),
            ..row
        };
        let channels = pace.pages(channels_after, with_known_name).await?;
        let routes_after = |last: Option<&routes::RouteRow>| {
            routes::some_after(store, last.map_or(RouteId::ZERO, |last| last.id), PAGE)
        };
        let (sites, units) = (sites::list(store).await?, units(store).await?);
        Ok(Self {
            named_routes: keys.iter().flat_map(|key| &key.policy.allowed_route_ids).copied().collect(),
            accounts: accounts::pick(store, |row| Some(account(&row, &sites, &units))).await?,
            tokens: tokens::list(store).await?,
            models,
            disabled_models: availability::disabled_models(store).await?,
            routes: pace.pages(routes_after, |row| row).await?,
            channels,
            others: Vec::new(),
            served_elsewhere: HashSet::new(),
        })
    }

    /// Reads the rows of some accounts, and the routes that they have channels in, or may get some in.
    pub(super) async fn of(core: &Core, scope: &Scope) -> store::Result<Self> {
        let store = &core.store;
        // Routes are looked up in the snapshot: published here, it has every change from before this run took its lock.
        core.publish().await?;
        let snapshot = core.snapshot.load_full();
        let keys = core.keys.load();
        let units = units(store).await?;
        let mut ids = with_mates(&scope.accounts, &units);
        let (accounts, sites) = accounts_and_sites(store, &ids).await?;
        ids.extend(accounts.keys());
        let ids: Vec<AccountId> = ids.into_iter().collect();
        let mut disabled_models = Vec::new();
        for site in &sites {
            disabled_models.extend(availability::disabled_models_of(store, site.id).await?);
        }
        let models = OfferedModels::of(store, &ids).await?;
        let channels = routes::planned_of_accounts(store, &ids).await?;
        let exact = exact_routes(scope, &snapshot, &channels, &models.names);
        let is_elsewhere = |id: &&RouteId| {
            let mut channels = snapshot.route(**id).into_iter().flat_map(|route| &route.channels);
            channels.any(|channel| ids.binary_search(&channel.account.id).is_err())
        };
        Ok(Self {
            served_elsewhere: exact.iter().filter(is_elsewhere).copied().collect(),
            others: snapshot.groups().chain(snapshot.patterns()).map(|route| in_memory(route)).collect(),
            named_routes: keys.iter().flat_map(|key| &key.policy.allowed_route_ids).copied().collect(),
            tokens: tokens::of_accounts(store, &ids).await?,
            accounts: accounts.values().map(|row| account(row, &sites, &units)).collect(),
            models,
            disabled_models,
            routes: routes::some(store, &exact).await?,
            channels,
        })
    }

    /// Calls `look` with the inventory of these rows under the settings.
    pub(super) fn with_inventory<T>(&self, settings: &Settings, look: impl FnOnce(&Inventory<'_>) -> T) -> T {
        let tokens: Vec<_> = self.tokens.iter().map(token).collect();
        fn named<I: Id>(models: &[(I, Arc<str>)]) -> Vec<(I, &str)> {
            models.iter().map(|(id, name)| (*id, &**name)).collect()
        }
        let (account_models, typed_models) = (named(&self.models.of_accounts), named(&self.models.typed));
        let token_models = named(&self.models.of_tokens);
        let disabled_models = self.disabled_models.iter();
        let disabled_models: Vec<_> =
            disabled_models.map(|row| (row.site_id, row.model_name.as_str())).collect();
        let pauses = ComputePauses::default();
        let routes = self.routes.iter().map(|row| self.route(row)).chain(self.others.iter().cloned());
        let routes: Vec<_> = routes.inspect(|_| pauses.step()).collect();
        look(&Inventory {
            accounts: &self.accounts,
            tokens: &tokens,
            account_models: &account_models,
            typed_models: &typed_models,
            token_models: &token_models,
            disabled_models: &disabled_models,
            allowed_models: &settings.allowed_models,
            is_blocked: &|model| settings.blocked_brands.block(model),
            routes: &routes,
            channels: &self.channels,
            served_elsewhere: &self.served_elsewhere,
            between_steps: &|| pauses.step(),
        })
    }

    fn route(&self, row: &routes::RouteRow) -> RouteRow {
        let is_set = |text: &Option<String>| text.as_deref().is_some_and(|text| !text.trim().is_empty());
        RouteRow {
            id: row.id,
            pattern: ModelPattern::stored(&row.model_pattern),
            sources: row.is_group().then(|| row.source_route_ids.clone()),
            is_shaped: row.is_manual
                || !row.enabled
                || row.routing_strategy != Strategy::default()
                || is_set(&row.display_name)
                || is_set(&row.display_icon)
                || is_set(&row.model_mapping)
                || self.named_routes.contains(&row.id),
        }
    }

    /// Counts the changes of a plan. A removed route takes its channels with it.
    pub(super) fn counts(&self, plan: &Plan) -> RebuildCounts {
        let routes: HashSet<RouteId> = plan.delete_routes.iter().copied().collect();
        let orphaned = self.channels.iter().filter(|channel| routes.contains(&channel.route_id));
        RebuildCounts {
            models: plan.models,
            created_routes: plan.create_routes.len(),
            created_channels: plan.created_channels(),
            removed_channels: plan.delete_channels.len() + orphaned.count(),
            removed_routes: plan.delete_routes.len(),
        }
    }
}

/// Builds the part of an account that a plan is made from, without its credentials and its notes.
fn account(
    row: &accounts::AccountRow,
    sites: &[sites::SiteRow],
    units: &HashMap<AccountId, UnitRef>,
) -> AccountRow {
    let site = sites.binary_search_by_key(&row.site_id, |site| site.id).ok().map(|at| &sites[at]);
    AccountRow {
        id: row.id,
        site_id: row.site_id,
        site_active: site.is_some_and(|site| site.status == sites::SiteStatus::Active),
        status: row.status,
        serves_by: serves_by(row),
        unit: units.get(&row.id).copied(),
    }
}

/// Returns the route unit of each account that is in one, with the account that the unit's channels are stored with.
async fn units(store: &Store) -> store::Result<HashMap<AccountId, UnitRef>> {
    let units = route_units::list(store).await?;
    let members = units.iter().flat_map(|unit| {
        let first = unit.members.first().map(|member| UnitRef { id: unit.id, account_id: member.account_id });
        unit.members.iter().filter_map(move |member| Some((member.account_id, first?)))
    });
    Ok(members.collect())
}

/// Returns which credentials of an account make channels.
pub fn serves_by(row: &accounts::AccountRow) -> ServesBy {
    ServesBy::of(AccountCredentials {
        is_connected: row.oauth_provider.is_some(),
        mode: row.credential_mode.as_str(),
        has_access_token: row.access_token.is_some(),
        has_api_token: row.api_token.is_some(),
    })
}

/// Returns these accounts with the other members of their units, since a unit offers what any of its members does.
fn with_mates(ids: &BTreeSet<AccountId>, units: &HashMap<AccountId, UnitRef>) -> BTreeSet<AccountId> {
    let concerned: HashSet<UnitId> = ids.iter().filter_map(|id| units.get(id)).map(|unit| unit.id).collect();
    let mates = units.iter().filter(|(_, unit)| concerned.contains(&unit.id)).map(|(id, _)| *id);
    ids.iter().copied().chain(mates).collect()
}

/// Reads accounts and their sites, and all accounts of a site whose discoveries switch models off for every account.
async fn accounts_and_sites(
    store: &Store,
    ids: &BTreeSet<AccountId>,
) -> store::Result<(BTreeMap<AccountId, accounts::AccountRow>, Vec<sites::SiteRow>)> {
    let ids: Vec<AccountId> = ids.iter().copied().collect();
    let mut accounts = by_id(accounts::some(store, &ids).await?);
    let site_ids: BTreeSet<SiteId> = accounts.values().map(|account| account.site_id).collect();
    let mut sites = Vec::with_capacity(site_ids.len());
    for id in site_ids {
        let Some(site) = sites::get(store, id).await? else { continue };
        if site.post_refresh_probe_enabled {
            accounts.append(&mut by_id(accounts::of_site(store, id).await?));
        }
        sites.push(site);
    }
    Ok((accounts, sites))
}

/// Returns the exact routes of a scope: its own, those of the channels, and those of the models by these names. Models
/// that are not available now count too: their routes may go.
fn exact_routes(
    scope: &Scope,
    snapshot: &Snapshot,
    channels: &[ChannelRow],
    names: &NameInterner,
) -> Vec<RouteId> {
    let mut ids = scope.routes.clone();
    ids.extend(channels.iter().map(|channel| channel.route_id));
    for name in &names.0 {
        ids.extend(snapshot.exact_routes(name.trim()).map(|route| route.id));
    }
    ids.into_iter().filter(|id| snapshot.route(*id).is_none_or(|route| route.is_exact())).collect()
}

fn by_id(rows: Vec<accounts::AccountRow>) -> BTreeMap<AccountId, accounts::AccountRow> {
    rows.into_iter().map(|row| (row.id, row)).collect()
}

/// Builds the row of a glob, a regex or a group: whether an operator shaped it does not matter.
fn in_memory(route: &Route) -> RouteRow {
    RouteRow {
        id: route.id,
        pattern: route.pattern.clone(),
        sources: match &route.mode {
            RouteMode::ExplicitGroup { sources } => Some(sources.clone()),
            RouteMode::Pattern => None,
        },
        is_shaped: true,
    }
}

fn token(row: &tokens::TokenRow) -> TokenRow {
    TokenRow { id: row.id, account_id: row.account_id, usable: row.is_usable(), is_default: row.is_default }
}
