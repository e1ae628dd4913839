//! The memory of `stable_first` for each route and model: which site of each pool was used last, how many requests the
//! primary pool has had since the last observation, and when each observed site was last observed.
//!
//! It is kept in memory only and bounded in size, whatever model names clients make up: the entry that was used longest ago
//! is forgotten, and its route begins its turns anew.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};

use super::pattern::norm;
use super::rotation_pool::Pool;
use super::selection_reason::SelectionReason;
use crate::ids::{RouteId, SiteId};
use crate::make_room::make_room;
use crate::sync::lock;
use crate::time::{MINUTE, Millis};

/// One of this many requests goes to the observation pool, if a site there is due.
pub const OBSERVE_EVERY: u32 = 24;
/// The time until an observed site is due again, in milliseconds.
const OBSERVED_FOR: Millis = 30 * MINUTE;
/// The most pairs of route and model remembered.
const MAX_KEYS: usize = 1024;
/// The most observed sites remembered, over all pairs of route and model.
const MAX_STAMPS: usize = 4096;

/// The rotation memory of all routes.
#[derive(Debug, Default)]
pub struct Rotations {
    keys: Mutex<HashMap<String, Turns>>,
}

/// The rotation memory of one route and model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Turns {
    last_primary: Option<SiteId>,
    last_observation: Option<SiteId>,
    since_observation: u32,
    observed: Vec<(SiteId, Millis)>,
    touched: Millis,
}

// === impl Turns ===

impl Turns {
    /// Returns the site of this pool that was used last.
    pub fn last(&self, pool: Pool) -> Option<SiteId> {
        match pool {
            Pool::Primary => self.last_primary,
            Pool::Observation => self.last_observation,
        }
    }

    /// Returns whether the primary pool has had its share of requests.
    pub fn may_observe(&self) -> bool {
        self.since_observation.saturating_add(1) >= OBSERVE_EVERY
    }

    /// Returns whether the site was not observed recently.
    pub fn is_due(&self, site: SiteId, now: Millis) -> bool {
        !self.observed.iter().any(|(observed, at)| *observed == site && now - at < OBSERVED_FOR)
    }
}

// === impl Rotations ===

impl Rotations {
    /// Returns the memory of a route and model.
    pub fn turns(&self, route_id: RouteId, model: &str) -> Turns {
        self.keys().get(&key(route_id, model)).cloned().unwrap_or_default()
    }

    /// Records a selection. Only those of `stable_first` are remembered.
    pub fn record(&self, reason: &SelectionReason, model: &str, site: SiteId, now: Millis) {
        let SelectionReason::StableFirst { route_id, pool, .. } = *reason else { return };
        let (mut keys, key) = (self.keys(), key(route_id, model));
        make_room(&mut keys, &key, MAX_KEYS, |turns| turns.touched);
        let turns = keys.entry(key).or_default();
        turns.touched = now;
        match pool {
            Pool::Primary => {
                turns.last_primary = Some(site);
                turns.since_observation = turns.since_observation.saturating_add(1);
            }
            Pool::Observation => {
                turns.last_observation = Some(site);
                turns.since_observation = 0;
                turns.observed.retain(|(other, at)| *other != site && now - at < OBSERVED_FOR);
                turns.observed.push((site, now));
                limit_stamps(&mut keys);
            }
        }
    }

    fn keys(&self) -> MutexGuard<'_, HashMap<String, Turns>> {
        lock(&self.keys)
    }
}

/// Forgets the oldest observation when there is one too many. Observations are rare, so looking through all of them is
/// cheap enough.
fn limit_stamps(keys: &mut HashMap<String, Turns>) {
    if keys.values().map(|turns| turns.observed.len()).sum::<usize>() <= MAX_STAMPS {
        return;
    }
    // The observations of each entry are in the order of their times.
    let oldest = keys.values_mut().filter(|turns| !turns.observed.is_empty());
    if let Some(turns) = oldest.min_by_key(|turns| turns.observed[0].1) {
        turns.observed.remove(0);
    }
}

fn key(route_id: RouteId, model: &str) -> String {
    format!("{route_id}:{}", norm(model))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picked(route: i64, pool: Pool) -> SelectionReason {
        let route_id = RouteId::new(route);
        SelectionReason::StableFirst { route_id, pool, leaders: 1, candidates: 1, avoided: 0 }
    }

    #[test]
    fn the_oldest_memories_go_first() {
        let rotations = Rotations::default();
        for number in 0..2_000 {
            rotations.record(&picked(1, Pool::Primary), &format!("m{number}"), SiteId::new(7), number);
        }
        assert_eq!(rotations.keys().len(), 1024);
        assert_eq!(rotations.turns(RouteId::new(1), "m975").last(Pool::Primary), None);
        assert_eq!(rotations.turns(RouteId::new(1), "vendor/M976").last(Pool::Primary), Some(SiteId::new(7)));
        for site in 0..5_000 {
            rotations.record(&picked(1, Pool::Observation), "m1999", SiteId::new(site), 10_000 + site);
        }
        assert_eq!(rotations.turns(RouteId::new(1), "m1999").observed.len(), 4096);
        assert!(rotations.turns(RouteId::new(1), "m1999").is_due(SiteId::new(903), 15_000));
        assert!(!rotations.turns(RouteId::new(1), "m1999").is_due(SiteId::new(904), 15_000));
    }

    #[test]
    fn an_observed_site_is_due_again_after_half_an_hour() {
        let rotations = Rotations::default();
        rotations.record(&picked(1, Pool::Observation), "m", SiteId::new(7), 1_000);
        let turns = rotations.turns(RouteId::new(1), "m");
        assert!(
            !turns.is_due(SiteId::new(7), 1_000 + 1_799_999)
                && turns.is_due(SiteId::new(7), 1_000 + 1_800_000)
        );
        assert!(turns.is_due(SiteId::new(8), 1_000));
        assert!(
            rotations.turns(RouteId::new(2), "m").is_due(SiteId::new(7), 1_000),
            "another route has other turns"
        );
    }

    #[test]
    fn other_strategies_leave_no_memory() {
        let rotations = Rotations::default();
        rotations.record(&SelectionReason::RoundRobin { candidates: 1, avoided: 0 }, "m", SiteId::new(7), 1);
        assert!(rotations.keys().is_empty());
    }
}
