//! Everything a request needs to find its channel: one immutable value, replaced as a whole.
//!
//! [`Snapshot::new`] settles what depends on several routes (the channels of groups, inherited source
//! models) and indexes the routes by what a request can call them. The order of the look-up
//! (routing.md 3.3): a group of that name, a route with exactly that pattern, a route with that alias, the
//! first glob or regex that matches; among equals the lowest id. The first three are hash look-ups.
//! Exactly one route is used: nothing is merged, and an unusable route is not passed over.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use super::eligibility::{RouteRequest, SelectionQuery};
use super::policy::Policy;
use super::route::{Channel, Route, RouteMode};
use super::score::Weights;
use super::site::Site;
use crate::fast_map::FastMap;
use crate::time::Millis;

/// Everything a request needs to find its channel.
#[derive(Debug)]
pub struct Snapshot {
    routes: Vec<Arc<Route>>,
    sites: Vec<Arc<Site>>,
    pub weights: Weights,
    index: Index,
}

/// The route that serves a request.
#[derive(Clone, Copy, Debug)]
pub struct Match<'r> {
    pub route: &'r Arc<Route>,
    /// The request named the route's alias, not the model.
    pub by_display_name: bool,
    pub weights: &'r Weights,
}

type Names = FastMap<Box<str>, Vec<Arc<Route>>>;

/// Enabled routes by what a request can call them; each list by ascending id.
#[derive(Debug, Default)]
struct Index {
    groups: Names,
    exact: Names,
    aliases: Names,
    patterns: Vec<Arc<Route>>,
}

// === impl Snapshot ===

impl Snapshot {
    pub fn new(mut routes: Vec<Route>, mut sites: Vec<Arc<Site>>, weights: Weights) -> Self {
        routes.sort_unstable_by_key(|route| route.id);
        sites.sort_unstable_by_key(|site| site.id);
        for route in routes.iter_mut().filter(|route| route.is_exact()) {
            for channel in route.channels.iter_mut().filter(|channel| channel.source_model.is_none()) {
                Arc::make_mut(channel).source_model = Some(route.pattern.clone());
            }
        }
        for position in 0..routes.len() {
            if let RouteMode::ExplicitGroup { sources } = &routes[position].mode {
                let gathered = gathered(&routes, sources);
                routes[position].channels = gathered;
            }
            routes[position].channels.sort_unstable_by_key(|channel| channel.id);
        }
        let routes: Vec<Arc<Route>> = routes.into_iter().map(Arc::new).collect();
        Self { index: Index::new(&routes), routes, sites, weights }
    }

    /// The route for a model, among those the key's policy leaves for it.
    pub fn lookup<'s>(&'s self, model: &str, policy: &Policy) -> Option<Match<'s>> {
        let only = policy.routes_for(model);
        let usable = |route: &&Arc<Route>| only.is_none_or(|ids| ids.contains(&route.id));
        let named = |names: &'s Names| names.get(model).and_then(|routes| routes.iter().find(usable));
        let found = |by_display_name| move |route| Match { route, by_display_name, weights: &self.weights };
        named(&self.index.groups)
            .map(found(true))
            .or_else(|| named(&self.index.exact).map(found(false)))
            .or_else(|| named(&self.index.aliases).map(found(true)))
            .or_else(|| {
                let mut patterns = self.index.patterns.iter().filter(usable);
                patterns.find(|route| route.pattern.matches(model)).map(found(false))
            })
    }

    /// The route of this id, if it is enabled and a request for the model can hit it.
    pub fn lookup_on(&self, route_id: i64, model: &str) -> Option<Match<'_>> {
        let route = self.route(route_id).filter(|route| route.enabled)?;
        let by_pattern = !route.is_group() && route.pattern.matches(model);
        let by_alias = route.alias() == Some(model);
        let by_display_name = by_alias && !(by_pattern && route.is_exact());
        (by_pattern || by_alias).then_some(Match { route, by_display_name, weights: &self.weights })
    }

    /// The enabled route of this id with all its channels, whatever their models: as if asked for by
    /// its name.
    pub fn whole_route(&self, route_id: i64) -> Option<Match<'_>> {
        let route = self.route(route_id).filter(|route| route.enabled)?;
        Some(Match { route, by_display_name: true, weights: &self.weights })
    }

    /// May a key with this policy ask for the model at all (routing.md 13)? A listed route permits its
    /// public name, not the models behind it.
    pub fn permits(&self, model: &str, policy: &Policy) -> bool {
        if policy.lists_nothing() {
            return !policy.managed;
        }
        let mut allowed = policy.allowed_route_ids.iter().filter_map(|id| self.route(*id));
        policy.supports(model) || allowed.any(|route| route.enabled && route.public_name() == model)
    }

    /// The names that `GET /v1/models` shows (routing.md 3.4): public names of routes that this key may
    /// use and that would be served now. Globs and regexes are not names of models.
    pub fn exposed_models(&self, policy: &Policy, now: Millis) -> Vec<String> {
        let hidden_sources = self.sources_of_named_groups();
        let names: BTreeSet<&str> = self
            .routes
            .iter()
            .filter(|route| route.enabled)
            .filter(|route| match route.alias() {
                Some(_) => true,
                None => {
                    route.is_exact()
                        && !hidden_sources.contains(&route.id)
                        && !self.shadowed(route.pattern.as_str())
                }
            })
            .map(|route| route.public_name())
            .filter(|name| !is_search_name(name))
            .collect();
        names
            .into_iter()
            .filter(|name| self.permits(name, policy) && self.serves(name, policy, now))
            .map(str::to_owned)
            .collect()
    }

    fn serves(&self, model: &str, policy: &Policy, now: Millis) -> bool {
        let Some(found) = self.lookup(model, policy) else {
            return false;
        };
        let query = SelectionQuery::new(model, policy, now);
        let request = RouteRequest::new(found.route, found.by_display_name, &query);
        found.route.channels.iter().any(|channel| request.obstacle(channel).is_none())
    }

    fn sources_of_named_groups(&self) -> HashSet<i64> {
        let named = self.routes.iter().filter(|route| route.enabled && route.alias().is_some());
        named
            .filter_map(|route| match &route.mode {
                RouteMode::ExplicitGroup { sources } => Some(sources),
                RouteMode::Pattern => None,
            })
            .flatten()
            .copied()
            .collect()
    }

    /// Does a glob or regex with an alias stand for this exact name? Not when the alias is an exact
    /// route's name, which would be looked up first.
    fn shadowed(&self, name: &str) -> bool {
        self.index.patterns.iter().any(|route| {
            route.alias().is_some_and(|alias| !self.index.exact.contains_key(alias))
                && route.pattern.matches(name)
        })
    }

    /// All routes, by ascending id, disabled ones too.
    pub fn routes(&self) -> &[Arc<Route>] {
        &self.routes
    }

    /// All sites, by ascending id.
    pub fn sites(&self) -> &[Arc<Site>] {
        &self.sites
    }

    /// How many requests each site takes at once; `None` is any number.
    pub fn site_limits(&self) -> impl Iterator<Item = (i64, Option<u32>)> {
        self.sites.iter().map(|site| (site.id, site.max_concurrency))
    }

    pub fn route(&self, id: i64) -> Option<&Arc<Route>> {
        let found = self.routes.binary_search_by_key(&id, |route| route.id).ok()?;
        Some(&self.routes[found])
    }

    pub fn site(&self, id: i64) -> Option<&Arc<Site>> {
        let found = self.sites.binary_search_by_key(&id, |site| site.id).ok()?;
        Some(&self.sites[found])
    }

    /// Every channel once, by its owning route. Walks all routes: for rare events, not for requests.
    pub fn channels(&self) -> impl Iterator<Item = &Arc<Channel>> {
        self.routes.iter().filter(|route| !route.is_group()).flat_map(|route| &route.channels)
    }

    /// The channels that use the same credential, this one included: they share its usage limit (routing.md 9.1).
    pub fn sharing_credential(&self, channel: &Channel) -> impl Iterator<Item = &Arc<Channel>> {
        let (account, token) = (channel.account.id, channel.token_id);
        self.channels().filter(move |other| other.token_id == token && other.account.id == account)
    }
}

impl Default for Snapshot {
    fn default() -> Self {
        Self::new(Vec::new(), Vec::new(), Weights::default())
    }
}

/// The channels of the enabled exact routes among the sources, each once.
fn gathered(routes: &[Route], sources: &[i64]) -> Vec<Arc<Channel>> {
    let mut channels: Vec<_> = sources
        .iter()
        .filter_map(|id| routes.binary_search_by_key(id, |route| route.id).ok())
        .map(|found| &routes[found])
        .filter(|source| source.enabled && source.is_exact())
        .flat_map(|source| source.channels.iter().cloned())
        .collect();
    channels.sort_unstable_by_key(|channel| channel.id);
    channels.dedup_by_key(|channel| channel.id);
    channels
}

/// Internal names of search tools, which are not for listing.
fn is_search_name(name: &str) -> bool {
    name == "__search" || (name.starts_with("__") && name.ends_with("_search"))
}

// === impl Index ===

impl Index {
    /// `routes` by ascending id.
    fn new(routes: &[Arc<Route>]) -> Self {
        let mut index = Self::default();
        for route in routes.iter().filter(|route| route.enabled) {
            let aliases = if route.is_group() { &mut index.groups } else { &mut index.aliases };
            if let Some(alias) = route.alias() {
                aliases.entry(alias.into()).or_default().push(route.clone());
            }
            if route.is_exact() {
                index.exact.entry(route.pattern.as_str().into()).or_default().push(route.clone());
            } else if !route.is_group() {
                index.patterns.push(route.clone());
            }
        }
        index
    }
}

#[cfg(test)]
#[path = "snapshot_tests.rs"]
mod tests;
