//! All routes and sites as one immutable value, which is replaced as a whole. A request finds its channel in it.
//!
//! A [`Snapshot`] settles what depends on several routes (the channels of groups, inherited source models) and indexes the
//! routes by the names that requests use. The order of the look-up is: a group of that name, a route with exactly that
//! pattern, a route with that alias, the first glob or regex that matches; among equals the lowest id. The first three are
//! hash look-ups. Exactly one route is used: nothing is merged, and an unusable route is not passed over.
//!
//! A change makes a new snapshot, which shares every untouched route, channel and site with the former one
//! ([`Snapshot::changed`]). So the cost of a change depends on what it touches.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use super::eligibility::{RouteRequest, SelectionQuery};
use super::id_map::IdMap;
use super::name_map::NameMap;
use super::policy::Policy;
use super::route::{Channel, Route, RouteMode, UnitRole, serving};
use super::score::Weights;
use super::site::Site;
use crate::ids::{RouteId, SiteId};
use crate::time::Millis;

/// All routes and sites, indexed for requests.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    routes: IdMap<RouteId, Arc<Route>>,
    /// The ids of the routes that are groups.
    groups: BTreeSet<RouteId>,
    /// The ids of the routes whose pattern is a glob or a regex.
    patterns: BTreeSet<RouteId>,
    sites: IdMap<SiteId, Arc<Site>>,
    pub weights: Weights,
    index: Index,
}

/// The difference between two snapshots: the new value by id, or `None` for a removed one.
#[derive(Debug, Default)]
pub struct Changed {
    /// Each route comes with all the channels that it owns; a group comes without any.
    pub routes: BTreeMap<RouteId, Option<Route>>,
    pub sites: BTreeMap<SiteId, Option<Arc<Site>>>,
}

/// The route that serves a request.
#[derive(Clone, Copy, Debug)]
pub struct Match<'r> {
    pub route: &'r Arc<Route>,
    /// Whether the request named the route's alias, not the model.
    pub by_display_name: bool,
    pub weights: &'r Weights,
}

type Names = NameMap<Vec<Arc<Route>>>;

/// Enabled routes by the names that requests use; each list is in ascending order of ids.
#[derive(Clone, Debug, Default)]
struct Index {
    groups: Names,
    exact: Names,
    aliases: Names,
    patterns: IdMap<RouteId, Arc<Route>>,
    /// Disabled exact routes, by their pattern; no request finds these.
    disabled: Names,
}

// === impl Snapshot ===

impl Snapshot {
    pub fn new(routes: Vec<Route>, sites: Vec<Arc<Site>>, weights: Weights) -> Self {
        let mut changed = Changed::default();
        changed.routes.extend(routes.into_iter().map(|route| (route.id, Some(route))));
        changed.sites.extend(sites.into_iter().map(|site| (site.id, Some(site))));
        Self::default().changed(changed, weights)
    }

    /// Builds the snapshot after a change. A changed site does not reach the routes by itself: the change must also hold
    /// the routes whose channels use it.
    pub fn changed(&self, changed: Changed, weights: Weights) -> Self {
        let mut next = Self { weights, ..self.clone() };
        for (id, site) in changed.sites {
            match site {
                Some(site) => next.sites.insert(id, site),
                None => drop(next.sites.remove(id)),
            }
        }
        let touched: BTreeSet<RouteId> = changed.routes.keys().copied().collect();
        let mut groups = Vec::new();
        for (id, route) in changed.routes {
            match route {
                Some(route) if route.is_group() => groups.push(route),
                Some(mut route) => {
                    inherit(&mut route);
                    next.put(route);
                }
                None => next.remove(id),
            }
        }
        // Groups come after the routes whose channels they gather.
        let is_listed = |id: RouteId| groups.iter().any(|group| group.id == id);
        let gathers = |route: &&Arc<Route>| match &route.mode {
            RouteMode::ExplicitGroup { sources } => sources.iter().any(|source| touched.contains(source)),
            RouteMode::Pattern => false,
        };
        let unlisted = next.groups.iter().filter(|id| !is_listed(**id)).filter_map(|id| next.routes.get(*id));
        let following: Vec<Route> =
            unlisted.filter(gathers).map(|group| group.with_channels(Vec::new())).collect();
        for mut group in groups.into_iter().chain(following) {
            group.channels = next.gathered(&group);
            next.put(group);
        }
        next
    }

    fn put(&mut self, route: Route) {
        let route = Arc::new(route);
        if let Some(before) = self.routes.get(route.id) {
            self.index.remove(before);
        }
        self.index.insert(&route);
        let (is_group, is_exact) = (route.is_group(), route.is_exact());
        for (ids, is_one) in [(&mut self.groups, is_group), (&mut self.patterns, !is_group && !is_exact)] {
            if is_one {
                ids.insert(route.id)
            } else {
                ids.remove(&route.id)
            };
        }
        self.routes.insert(route.id, route);
    }

    fn remove(&mut self, id: RouteId) {
        if let Some(route) = self.routes.remove(id) {
            self.index.remove(&route);
            self.groups.remove(&id);
            self.patterns.remove(&id);
        }
    }

    /// Collects the channels of the enabled exact routes among a group's sources, each once.
    fn gathered(&self, group: &Route) -> Vec<Arc<Channel>> {
        let RouteMode::ExplicitGroup { sources } = &group.mode else { return Vec::new() };
        let mut channels: Vec<_> = sources
            .iter()
            .filter_map(|id| self.routes.get(*id))
            .filter(|source| source.enabled && source.is_exact())
            .flat_map(|source| source.channels.iter().cloned())
            .collect();
        channels.sort_unstable_by_key(|channel| channel.id);
        channels.dedup_by_key(|channel| channel.id);
        channels
    }

    /// Finds the route for a model, among those that the key's policy allows for it.
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

    /// Returns the route with this id, if it is enabled and a request for the model could find it.
    pub fn lookup_on(&self, route_id: RouteId, model: &str) -> Option<Match<'_>> {
        let route = self.route(route_id).filter(|route| route.enabled)?;
        let by_pattern = !route.is_group() && route.pattern.matches(model);
        let by_alias = route.alias() == Some(model);
        let by_display_name = by_alias && !(by_pattern && route.is_exact());
        (by_pattern || by_alias).then_some(Match { route, by_display_name, weights: &self.weights })
    }

    /// Returns the enabled route with this id with all its channels, whatever their models: as if a request named its
    /// alias.
    pub fn whole_route(&self, route_id: RouteId) -> Option<Match<'_>> {
        let route = self.route(route_id).filter(|route| route.enabled)?;
        Some(Match { route, by_display_name: true, weights: &self.weights })
    }

    /// Returns whether a key with this policy may ask for the model at all. A listed route permits its public name, not the
    /// models behind it.
    pub fn permits(&self, model: &str, policy: &Policy) -> bool {
        if policy.lists_nothing() {
            return !policy.managed;
        }
        let mut allowed = policy.allowed_route_ids.iter().filter_map(|id| self.route(*id));
        policy.supports(model) || allowed.any(|route| route.enabled && route.public_name() == model)
    }

    /// Lists the names for `GET /v1/models`: the public names of routes that this key may use and that have a channel for
    /// it. A cooling channel counts: a rate limit must not make a model disappear from a client's list. Globs and regexes
    /// are not names of models. A route that a group or a pattern with an alias stands for is left out where that alias is
    /// listed.
    pub fn exposed_models(&self, policy: &Policy) -> Vec<String> {
        let is_listed = |name: &str| self.permits(name, policy) && self.has_channel(name, policy);
        let aliases = Aliases::of(self, is_listed);
        let names: BTreeSet<&str> = self
            .routes
            .iter()
            .filter(|route| route.enabled)
            .filter(|route| match route.alias() {
                Some(_) => true,
                None => route.is_exact() && !aliases.stand_for(route),
            })
            .map(|route| route.public_name())
            .filter(|name| !is_search_name(name))
            .collect();
        names.into_iter().filter(|name| is_listed(name)).map(str::to_owned).collect()
    }

    /// Returns whether the model could be served once every cooldown has ended.
    fn has_channel(&self, model: &str, policy: &Policy) -> bool {
        let Some(found) = self.lookup(model, policy) else {
            return false;
        };
        let query = SelectionQuery::new(model, policy, Millis::MAX);
        let request = RouteRequest::new(found.route, found.by_display_name, &query);
        found.route.channels.iter().any(|channel| request.obstacle(channel).is_none())
    }

    /// Returns the channel as it is in this snapshot; `None` when it is gone.
    pub fn current(&self, channel: &Channel) -> Option<&Arc<Channel>> {
        let channels = &self.route(channel.route_id)?.channels;
        let place = channels.binary_search_by_key(&channel.id, |channel| channel.id).ok()?;
        serving(&channels[place]).iter().find(|now| now.key() == channel.key())
    }

    /// Returns all routes, by ascending id, including disabled ones.
    pub fn routes(&self) -> &IdMap<RouteId, Arc<Route>> {
        &self.routes
    }

    /// Returns all sites, by ascending id.
    pub fn sites(&self) -> &IdMap<SiteId, Arc<Site>> {
        &self.sites
    }

    /// Returns the routes whose pattern is exactly this model, including disabled ones.
    pub fn exact_routes(&self, model: &str) -> impl Iterator<Item = &Arc<Route>> {
        let Index { exact, disabled, .. } = &self.index;
        [exact, disabled].into_iter().filter_map(|names| names.get(model)).flatten()
    }

    /// Returns all globs and regexes, including disabled ones.
    pub fn patterns(&self) -> impl Iterator<Item = &Arc<Route>> {
        self.patterns.iter().filter_map(|id| self.routes.get(*id))
    }

    /// Returns all groups, by ascending id.
    pub fn groups(&self) -> impl Iterator<Item = &Arc<Route>> {
        self.groups.iter().filter_map(|id| self.routes.get(*id))
    }

    /// Returns each site's limit of concurrent requests; `None` means no limit.
    pub fn site_limits(&self) -> impl Iterator<Item = (SiteId, Option<u32>)> {
        self.sites.iter().map(|site| (site.id, site.max_concurrency))
    }

    pub fn route(&self, id: RouteId) -> Option<&Arc<Route>> {
        self.routes.get(id)
    }

    pub fn site(&self, id: SiteId) -> Option<&Arc<Site>> {
        self.sites.get(id)
    }

    /// Returns every channel once, under the route that owns it. Walks all routes: for rare events, not for requests.
    pub fn channels(&self) -> impl Iterator<Item = &Arc<Channel>> {
        self.routes.iter().filter(|route| !route.is_group()).flat_map(|route| &route.channels)
    }

    /// Returns the channels and members of units that use the same credential, including this one: they share its usage
    /// limit. A member is returned once for each route of its unit.
    pub fn sharing_credential(&self, channel: &Channel) -> impl Iterator<Item = &Arc<Channel>> {
        let (account, token) = (channel.account.id, channel.token_id);
        let is_shared = move |other: &&Arc<Channel>| other.token_id == token && other.account.id == account;
        self.channels().flat_map(serving).filter(is_shared)
    }
}

/// The listed aliases that stand for other routes.
struct Aliases<'s> {
    /// The sources of groups.
    sources: HashSet<RouteId>,
    /// Globs and regexes. One whose alias is an exact route's name stands for none, because that is looked up first.
    patterns: Vec<&'s Route>,
}

impl<'s> Aliases<'s> {
    fn of(snapshot: &'s Snapshot, is_listed: impl Fn(&str) -> bool) -> Self {
        let listed = |route: &&Arc<Route>| route.enabled && route.alias().is_some_and(&is_listed);
        let groups = snapshot.routes.iter().filter(listed).filter_map(|route| match &route.mode {
            RouteMode::ExplicitGroup { sources } => Some(sources),
            RouteMode::Pattern => None,
        });
        let patterns = snapshot.index.patterns.iter().filter(listed);
        let is_first =
            |route: &&Arc<Route>| route.alias().is_some_and(|alias| !snapshot.index.exact.contains(alias));
        Self {
            sources: groups.flatten().copied().collect(),
            patterns: patterns.filter(is_first).map(|route| &**route).collect(),
        }
    }

    fn stand_for(&self, route: &Route) -> bool {
        self.sources.contains(&route.id)
            || self.patterns.iter().any(|other| other.pattern.matches(route.pattern.as_str()))
    }
}

/// Sets the pattern of an exact route as the source model of each of its channels that has none of its own.
fn inherit(route: &mut Route) {
    route.channels.sort_unstable_by_key(|channel| channel.id);
    if route.is_exact() {
        for channel in route.channels.iter_mut().filter(|channel| channel.source_model.is_none()) {
            let channel = Arc::make_mut(channel);
            channel.source_model = Some(route.pattern.clone());
            if let UnitRole::Whole { members, .. } = &mut channel.unit {
                for member in members {
                    Arc::make_mut(member).source_model = Some(route.pattern.clone());
                }
            }
        }
    }
}

/// Returns whether this is an internal name of a search tool, which is not listed.
fn is_search_name(name: &str) -> bool {
    name == "__search" || (name.starts_with("__") && name.ends_with("_search"))
}

// === impl Index ===

impl Index {
    fn insert(&mut self, route: &Arc<Route>) {
        self.each_list(route, |list| {
            let place = list.partition_point(|other| other.id < route.id);
            list.insert(place, route.clone());
        });
        if is_pattern(route) {
            self.patterns.insert(route.id, route.clone());
        }
    }

    fn remove(&mut self, route: &Route) {
        self.each_list(route, |list| list.retain(|other| other.id != route.id));
        if is_pattern(route) {
            self.patterns.remove(route.id);
        }
    }

    /// Applies a change to every list in which the route is indexed by one of its names.
    fn each_list(&mut self, route: &Route, change: impl Fn(&mut Vec<Arc<Route>>)) {
        if !route.enabled {
            if route.is_exact() {
                self.disabled.change(route.pattern.as_str(), &change, Vec::is_empty);
            }
            return;
        }
        if let Some(alias) = route.alias() {
            let aliases = if route.is_group() { &mut self.groups } else { &mut self.aliases };
            aliases.change(alias, &change, Vec::is_empty);
        }
        if route.is_exact() {
            self.exact.change(route.pattern.as_str(), &change, Vec::is_empty);
        }
    }
}

/// Returns whether the route is an enabled glob or regex.
fn is_pattern(route: &Route) -> bool {
    route.enabled && !route.is_group() && !route.is_exact()
}

#[cfg(test)]
mod tests;
