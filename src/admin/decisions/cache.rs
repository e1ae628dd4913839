//! The cache of routes' decisions.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use serde::Serialize;

use super::view::Decision;
use crate::ids::{ChannelId, RouteId};
use crate::make_room::make_room;
use crate::routing::{Route, RouteMode, Snapshot};
use crate::sync::lock;
use crate::time::{self, Millis};

/// Maximum number of routes whose decision is cached.
pub(super) const MAX_KEPT: usize = 10_000;

/// A decision behind a shared pointer.
#[derive(Clone, Debug)]
pub(super) struct SharedDecision(pub(super) Arc<Decision>);

impl Serialize for SharedDecision {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

/// The last decision of each route, by route id. In memory only: a restart empties it.
#[derive(Debug, Default)]
pub struct DecisionCache {
    pub(super) cached: Mutex<HashMap<RouteId, CachedDecision>>,
    /// The number of rebuilds that had changed routes when the cache was last used.
    pub(super) route_changes: AtomicU64,
}

#[derive(Debug)]
pub(super) struct CachedDecision {
    pub(super) decision: SharedDecision,
    pub(super) at: Millis,
    /// The fingerprint of the route when the decision was made.
    pub(super) fingerprint: u64,
}

/// The fields of a listed route that show its cached decision.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CachedDecisionFields {
    pub(super) decision_snapshot: Option<SharedDecision>,
    pub(super) decision_refreshed_at: Option<String>,
}

impl DecisionCache {
    pub(super) fn store(&self, snapshot: &Snapshot, route: &Route, decision: Arc<Decision>, at: Millis) {
        let mut cached = self.cached();
        make_room(&mut cached, &route.id, MAX_KEPT, |cached| cached.at);
        let fingerprint = fingerprint(snapshot, route);
        cached.insert(route.id, CachedDecision { decision: SharedDecision(decision), at, fingerprint });
    }

    /// Returns the cached decision of a route, unless the route has changed since.
    pub fn of(&self, snapshot: &Snapshot, route_id: RouteId) -> CachedDecisionFields {
        let mut all = self.cached();
        let Some(cached) = all.get(&route_id) else { return CachedDecisionFields::default() };
        if snapshot.route(route_id).is_none_or(|route| fingerprint(snapshot, route) != cached.fingerprint) {
            all.remove(&route_id);
            return CachedDecisionFields::default();
        }
        CachedDecisionFields {
            decision_snapshot: Some(cached.decision.clone()),
            decision_refreshed_at: Some(time::iso(cached.at)),
        }
    }

    /// Removes the cached decisions of all routes that use one of these channels.
    pub fn forget_channels(&self, snapshot: &Snapshot, channels: &[ChannelId]) {
        let concerned = |route: &Arc<Route>| route.channels.iter().any(|one| channels.contains(&one.id));
        self.cached().retain(|id, _| snapshot.route(*id).is_some_and(|route| !concerned(route)));
    }

    /// Empties the cache if a rebuild has changed routes since the last call.
    pub fn follow(&self, route_changes: u64) {
        if self.route_changes.swap(route_changes, Ordering::SeqCst) != route_changes {
            self.clear();
        }
    }

    /// Empties the cache.
    pub fn clear(&self) {
        self.cached().clear();
    }

    pub(super) fn cached(&self) -> MutexGuard<'_, HashMap<RouteId, CachedDecision>> {
        lock(&self.cached)
    }
}

/// Returns a hash of everything about a route that a decision depends on and an operator can change, with the sources
/// of a group; display names are not included.
pub(super) fn fingerprint(snapshot: &Snapshot, route: &Route) -> u64 {
    let mut hasher = DefaultHasher::new();
    hash_rules(route, &mut hasher);
    if let RouteMode::ExplicitGroup { sources } = &route.mode {
        sources.hash(&mut hasher);
        sources
            .iter()
            .filter_map(|id| snapshot.route(*id))
            .for_each(|source| hash_rules(source, &mut hasher));
    }
    for channel in &route.channels {
        let source = channel.source_model.as_ref().map(|model| model.as_str());
        (channel.id, channel.token_id, source).hash(&mut hasher);
        (channel.priority, channel.weight, channel.enabled).hash(&mut hasher);
    }
    hasher.finish()
}

fn hash_rules(route: &Route, hasher: &mut DefaultHasher) {
    route.pattern.as_str().hash(hasher);
    route.enabled.hash(hasher);
    std::mem::discriminant(&route.strategy).hash(hasher);
    for (from, to) in &route.mapping {
        (from.as_str(), to).hash(hasher);
    }
}
