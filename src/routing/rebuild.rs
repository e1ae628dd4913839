//! Plans which routes and channels should exist, given what accounts offer.
//!
//! ```text
//! available models ─ of accounts and usable tokens ─ minus what filters drop ─→ offers
//! offers × routes × channels ─→ Plan: an exact route per model, a channel per credential that offers it
//! ```
//!
//! The plan only adds and removes automatic channels and routes. A channel that an operator touched stays, and so does a
//! route that an operator shaped, even while nobody offers its model. Whatever is temporarily off (a disabled site or
//! account, an expired session) gets no new channels but keeps its old ones, with their priorities, weights and counters,
//! until its account or its models are gone. A glob or regex route is filled with the offers that it matches.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use super::pattern::ModelPattern;
use super::site::AccountStatus;
use crate::ids::{AccountId, ChannelId, RouteId, SiteId, TokenId, UnitId};

/// Everything that a rebuild looks at: all accounts, or some of them with the routes that concern them.
#[derive(Clone, Copy)]
pub struct Inventory<'a> {
    pub accounts: &'a [AccountRow],
    pub tokens: &'a [TokenRow],
    /// Available models of accounts.
    pub account_models: &'a [(AccountId, &'a str)],
    /// The models of accounts that an operator typed in. An account that serves by its tokens serves these by the preferred
    /// token.
    pub typed_models: &'a [(AccountId, &'a str)],
    /// Available models of tokens.
    pub token_models: &'a [(TokenId, &'a str)],
    /// Disabled models, by site.
    pub disabled_models: &'a [(SiteId, &'a str)],
    /// The global allow-list; empty allows all.
    pub allowed_models: &'a [String],
    /// Whether a model is of a blocked brand.
    pub is_blocked: &'a dyn Fn(&str) -> bool,
    pub routes: &'a [RouteRow],
    pub channels: &'a [ChannelRow],
    /// Routes that have channels of accounts outside this inventory; they are kept.
    pub served_elsewhere: &'a HashSet<RouteId>,
    /// Called between the steps of a plan, which take microseconds each; a plan for everything takes long.
    pub between_steps: &'a dyn Fn(),
}

/// An account, as a rebuild sees it.
#[derive(Clone, Copy, Debug)]
pub struct AccountRow {
    pub id: AccountId,
    pub site_id: SiteId,
    pub site_active: bool,
    pub status: AccountStatus,
    pub serves_by: ServesBy,
    /// The route unit that the account belongs to.
    pub unit: Option<UnitRef>,
}

/// A route unit, and the account under which its channels are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnitRef {
    pub id: UnitId,
    pub account_id: AccountId,
}

/// What decides which credentials of an account make channels.
#[derive(Clone, Copy, Debug)]
pub struct AccountCredentials<'a> {
    /// Whether the account was connected by OAuth.
    pub is_connected: bool,
    /// The stored credential mode. Any but `apikey` and `session` leaves the decision to the credentials that exist.
    pub mode: &'a str,
    pub has_access_token: bool,
    pub has_api_token: bool,
}

/// Which credentials of an account make channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServesBy {
    /// The account's own credential: one channel without a token.
    Account,
    /// The account's managed tokens: one channel each.
    Tokens,
    Nothing,
}

/// A managed token of an account.
#[derive(Clone, Copy, Debug)]
pub struct TokenRow {
    pub id: TokenId,
    pub account_id: AccountId,
    /// Whether the token is enabled and its whole value is known.
    pub usable: bool,
    pub is_default: bool,
}

/// An existing route.
#[derive(Clone, Debug)]
pub struct RouteRow {
    pub id: RouteId,
    pub pattern: ModelPattern,
    /// The sources of a group; `None` for a route with channels of its own.
    pub sources: Option<Vec<RouteId>>,
    /// Whether the route must stay: an operator made it, it has an alias, an icon, a mapping or a strategy of its own, it
    /// is disabled, or a downstream key lists it (a new route would have another id and not serve that key).
    pub is_shaped: bool,
}

/// An existing channel.
#[derive(Clone, Debug)]
pub struct ChannelRow {
    pub id: ChannelId,
    pub route_id: RouteId,
    pub account_id: AccountId,
    pub token_id: Option<TokenId>,
    pub unit_id: Option<UnitId>,
    pub source_model: Option<Arc<str>>,
    /// Whether the channel was added or edited by hand.
    pub manual: bool,
    /// Whether it was added by hand where its credential had a channel for the route's model already.
    pub is_extra: bool,
}

/// The changes to make, in one transaction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The number of offered models after the filters.
    pub models: usize,
    pub create_routes: Vec<NewRoute>,
    pub create_channels: Vec<NewChannel>,
    /// Channels without a token that get one.
    pub rebind_channels: Vec<Rebinding>,
    pub delete_channels: Vec<ChannelId>,
    /// Routes to delete, together with their channels.
    pub delete_routes: Vec<RouteId>,
}

/// An enabled route whose pattern is the model's name, with a channel for each credential.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewRoute {
    pub model: String,
    pub channels: Vec<Credential>,
}

/// An automatic channel with the default priority and weight.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewChannel {
    pub route_id: RouteId,
    pub credential: Credential,
    pub source_model: String,
}

/// A channel that gets a token instead of the account's own credential.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rebinding {
    pub channel_id: ChannelId,
    pub token_id: TokenId,
}

/// What a channel authenticates with: a token; the account's own credential, if both options are `None`; or the members of
/// a unit, under the account that its channels are stored with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Credential {
    pub account_id: AccountId,
    pub token_id: Option<TokenId>,
    pub unit_id: Option<UnitId>,
}

/// The credentials that offer a model.
type Offers = BTreeMap<Credential, Offer>;

/// What a credential that offers a model may have for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Offer {
    /// The credential is off for the time being: it keeps its channel, and gets no new one.
    Paused,
    /// The credential may get a channel.
    Firm,
}

/// Computes the plan. The same inventory always yields the same plan; once it has been carried out, the plan is empty.
pub fn plan(inventory: &Inventory<'_>) -> Plan {
    let preferred = inventory.preferred_tokens();
    let offered = inventory.offered(&preferred);
    let channels = inventory.channels_by_route();
    let mut plan =
        Plan { models: offered.values().filter(|offers| is_firm(offers)).count(), ..Plan::default() };
    let mut known: HashSet<&str> = HashSet::new();
    let mut exact: Vec<&RouteRow> = Vec::new();
    for route in inventory.routes.iter().filter(|route| route.sources.is_none()) {
        if route.pattern.is_exact() {
            exact.push(route)
        } else {
            inventory.fill(route, &offered, &channels, &mut plan)
        }
    }
    exact.sort_unstable_by_key(|route| route.id);
    let none = Offers::new();
    let in_groups: HashSet<RouteId> =
        inventory.routes.iter().flat_map(|group| &group.sources).flatten().copied().collect();
    for route in exact {
        let model = route.pattern.as_str();
        let offers = offered.get(model).unwrap_or(&none);
        let own = channels.get(&route.id).map_or(&[][..], Vec::as_slice);
        let is_kept =
            route.is_shaped || in_groups.contains(&route.id) || own.iter().any(|channel| channel.manual);
        if offers.is_empty() && !is_kept && !inventory.served_elsewhere.contains(&route.id) {
            plan.delete_routes.push(route.id);
            continue;
        }
        // The first of several routes with one pattern gets the channels.
        let grows = known.insert(model);
        align(route, own, offers, &preferred, grows, &mut plan);
        own.iter().for_each(|_| (inventory.between_steps)());
    }
    for (model, offers) in offered {
        (inventory.between_steps)();
        if !known.contains(model) && is_firm(&offers) {
            let channels = offers
                .into_iter()
                .filter(|(_, offer)| *offer == Offer::Firm)
                .map(|(credential, _)| credential);
            plan.create_routes.push(NewRoute { model: model.to_owned(), channels: channels.collect() });
        }
    }
    plan
}

/// Returns every model with each credential that may get a channel for it.
pub fn offers<'a>(inventory: &Inventory<'a>) -> Vec<(&'a str, Credential)> {
    let offered = inventory.offered(&inventory.preferred_tokens());
    let each = offered.iter().flat_map(|(model, offers)| offers.iter().map(move |offer| (*model, offer)));
    let firm = each.filter(|(_, (_, offer))| **offer == Offer::Firm);
    firm.map(|(model, (credential, _))| (model, *credential)).collect()
}

/// Brings the channels of an exact route in line with the offers of its model.
fn align(
    route: &RouteRow,
    channels: &[&ChannelRow],
    offers: &Offers,
    preferred: &HashMap<AccountId, TokenId>,
    grows: bool,
    plan: &mut Plan,
) {
    let model = route.pattern.as_str();
    let own = channels.iter().filter(|channel| channel.stands_for(model));
    let mut present: BTreeSet<Credential> = own.map(|channel| channel.credential()).collect();
    for channel in channels.iter().filter(|channel| !offers.contains_key(&channel.credential())) {
        let token = preferred.get(&channel.account_id).copied();
        let credential = Credential { account_id: channel.account_id, token_id: token, unit_id: None };
        let is_bare = channel.token_id.is_none() && channel.unit_id.is_none();
        let is_free = is_bare && offers.contains_key(&credential) && !present.contains(&credential);
        if let Some(token_id) = token.filter(|_| is_free) {
            present.extend(channel.stands_for(model).then_some(credential));
            plan.rebind_channels.push(Rebinding { channel_id: channel.id, token_id });
        } else if !channel.manual {
            plan.delete_channels.push(channel.id);
        }
    }
    let firm = offers.iter().filter(|(_, offer)| grows && **offer == Offer::Firm);
    let missing = firm.filter(|(credential, _)| !present.contains(credential));
    plan.create_channels.extend(missing.map(|(credential, _)| NewChannel {
        route_id: route.id,
        credential: *credential,
        source_model: model.to_owned(),
    }));
}

fn is_firm(offers: &Offers) -> bool {
    offers.values().any(|offer| *offer == Offer::Firm)
}

// === impl Plan ===

impl Plan {
    /// Returns whether there is nothing to carry out.
    pub fn changes_nothing(&self) -> bool {
        *self == Self { models: self.models, ..Self::default() }
    }

    /// Returns the number of new channels, on old and new routes.
    pub fn created_channels(&self) -> usize {
        self.create_channels.len()
            + self.create_routes.iter().map(|route| route.channels.len()).sum::<usize>()
    }
}

// === impl ServesBy ===

impl ServesBy {
    /// Decides by the kind of account and the credentials it has.
    pub fn of(credentials: AccountCredentials<'_>) -> Self {
        let AccountCredentials { is_connected, mode, has_access_token, has_api_token } = credentials;
        let own = |present| if present { Self::Account } else { Self::Nothing };
        match mode {
            _ if is_connected => own(has_access_token || has_api_token),
            "apikey" => own(has_api_token),
            "session" => Self::Tokens,
            _ if has_api_token && !has_access_token => Self::Account,
            _ => Self::Tokens,
        }
    }
}

// === impl Inventory ===

impl<'a> Inventory<'a> {
    /// Returns every model with the credentials that offer it, after the filters.
    fn offered(&self, preferred: &HashMap<AccountId, TokenId>) -> BTreeMap<&'a str, Offers> {
        let accounts: HashMap<AccountId, &AccountRow> =
            self.accounts.iter().map(|account| (account.id, account)).collect();
        let tokens: HashMap<TokenId, &TokenRow> =
            self.tokens.iter().filter(|token| token.usable).map(|token| (token.id, token)).collect();
        let of_accounts = self.account_models.iter().filter_map(|(id, model)| {
            let account = accounts.get(id).filter(|account| account.serves_by == ServesBy::Account)?;
            Some((*account, None, *model))
        });
        let by_tokens = |id: AccountId| {
            accounts.get(&id).copied().filter(|account| account.serves_by == ServesBy::Tokens)
        };
        let of_tokens = self.token_models.iter().filter_map(|(id, model)| {
            let token = tokens.get(id)?;
            Some((by_tokens(token.account_id)?, Some(token.id), *model))
        });
        let typed = self
            .typed_models
            .iter()
            .filter_map(|(id, model)| Some((by_tokens(*id)?, Some(*preferred.get(id)?), *model)));
        let allowed: HashSet<String> = self.allowed_models.iter().map(|model| folded(model)).collect();
        let disabled: HashSet<(SiteId, String)> =
            self.disabled_models.iter().map(|(site, model)| (*site, folded(model))).collect();
        // An upstream must not become a catch-all by calling a model `*`.
        let is_usable = |model: &str| {
            ModelPattern::parse(model).is_ok_and(|pattern| pattern.is_exact())
                && (allowed.is_empty() || allowed.contains(&folded(model)))
                && !(self.is_blocked)(model)
        };
        // Many accounts offer the same model, so each name is judged once. `None` marks a rejected one.
        let mut judged: HashMap<&str, Option<Offers>> = HashMap::new();
        for (account, token_id, model) in of_accounts.chain(of_tokens).chain(typed) {
            let model = model.trim();
            let offers = match judged.entry(model) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(new) => new.insert(is_usable(model).then(Offers::new)),
            };
            let Some(offers) = offers else { continue };
            if !disabled.is_empty() && disabled.contains(&(account.site_id, folded(model))) {
                continue;
            }
            let credential = match account.unit.filter(|_| token_id.is_none()) {
                Some(unit) => Credential { account_id: unit.account_id, token_id, unit_id: Some(unit.id) },
                None => Credential { account_id: account.id, token_id, unit_id: None },
            };
            let is_on = account.site_active && account.status == AccountStatus::Active;
            let made = if is_on { Offer::Firm } else { Offer::Paused };
            // A unit's offer is firm if one of its members makes it.
            let offer = offers.entry(credential).or_insert(made);
            *offer = made.max(*offer);
            (self.between_steps)();
        }
        let offered = judged.into_iter().filter_map(|(model, offers)| Some((model, offers?)));
        offered.filter(|(_, offers)| !offers.is_empty()).collect()
    }

    /// Brings the automatic channels of a glob or regex route in line with all offers that it matches.
    fn fill(
        &self,
        route: &RouteRow,
        offered: &BTreeMap<&str, Offers>,
        channels: &HashMap<RouteId, Vec<&ChannelRow>>,
        plan: &mut Plan,
    ) {
        let own = channels.get(&route.id).map_or(&[][..], Vec::as_slice);
        let mut present: HashSet<(Credential, String)> = own
            .iter()
            .map(|channel| (channel.credential(), folded(channel.source_model.as_deref().unwrap_or(""))))
            .collect();
        let mut backed: HashSet<(Credential, String)> = HashSet::new();
        for (model, offers) in offered.iter().filter(|(model, _)| route.pattern.matches(model)) {
            for (credential, offer) in offers {
                // A channel without a source model serves any of the route's models.
                backed.insert((*credential, String::new()));
                backed.insert((*credential, folded(model)));
                if *offer == Offer::Firm && present.insert((*credential, folded(model))) {
                    let source_model = (*model).to_owned();
                    plan.create_channels.push(NewChannel {
                        route_id: route.id,
                        credential: *credential,
                        source_model,
                    });
                }
            }
        }
        for channel in own.iter().filter(|channel| !channel.manual) {
            if !backed
                .contains(&(channel.credential(), folded(channel.source_model.as_deref().unwrap_or(""))))
            {
                plan.delete_channels.push(channel.id);
            }
        }
    }

    /// Returns the token for each account's channels without one: its default token, else its first usable one.
    fn preferred_tokens(&self) -> HashMap<AccountId, TokenId> {
        let mut preferred: HashMap<AccountId, &TokenRow> = HashMap::new();
        for token in self.tokens.iter().filter(|token| token.usable) {
            let rank = |token: &TokenRow| (!token.is_default, token.id);
            let best = preferred.entry(token.account_id).or_insert(token);
            if rank(token) < rank(best) {
                *best = token;
            }
        }
        preferred.into_iter().map(|(account, token)| (account, token.id)).collect()
    }

    fn channels_by_route(&self) -> HashMap<RouteId, Vec<&'a ChannelRow>> {
        let mut by_route: HashMap<RouteId, Vec<&ChannelRow>> = HashMap::new();
        for channel in self.channels {
            by_route.entry(channel.route_id).or_default().push(channel);
            (self.between_steps)();
        }
        by_route
    }
}

// === impl ChannelRow ===

impl ChannelRow {
    fn credential(&self) -> Credential {
        Credential { account_id: self.account_id, token_id: self.token_id, unit_id: self.unit_id }
    }

    /// Whether the channel is the one that its credential has for this model on an exact route: it asks for the model, or
    /// it did before an operator gave it another source model.
    fn stands_for(&self, model: &str) -> bool {
        !self.is_extra || self.source_model.as_deref().is_none_or(|source| folded(source) == folded(model))
    }
}

fn folded(model: &str) -> String {
    model.trim().to_lowercase()
}

#[cfg(test)]
mod tests;
