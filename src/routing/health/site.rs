//! The health of one site and of the models on it, shared by every request that goes there.
//!
//! Each record has a lock of its own, held for a few additions. Most sites are healthy most of the time, and then a
//! selection takes no lock at all: `is_notable` and `notable_models` tell that there is nothing to read. If clients make up
//! model names, a site keeps only those used recently.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::{FailureWeight, Health, Recent};
use crate::fast_map::FastMap;
use crate::routing::pattern::norm;
use crate::sync::lock;
use crate::time::Millis;

/// The most models kept per site. One more drops the half whose last events are the oldest.
const MAX_MODELS: usize = 512;
/// The lowest multiplier that site and model give together.
const LEAST_TOGETHER: f64 = 0.0064;

/// The health of a site and of each model on it, by normalised name.
#[derive(Debug, Default)]
pub struct SiteHealth {
    site: Record,
    models: RwLock<FastMap<Box<str>, Record>>,
    notable_models: AtomicUsize,
}

#[derive(Debug, Default)]
struct Record {
    health: Mutex<Health>,
    is_notable: AtomicBool,
}

// === impl SiteHealth ===

impl SiteHealth {
    /// Records a successful attempt for `model`.
    pub fn succeed(&self, model: &str, latency_ms: u64, now: Millis) {
        self.change(model, |health| health.succeed(latency_ms, now));
    }

    /// Records an attempt for `model` that failed by the channel's fault.
    pub fn fail(&self, model: &str, weight: FailureWeight, now: Millis) {
        self.change(model, |health| health.fail(weight, now));
    }

    /// Returns the factor, up to 1, by which health reduces the share of a channel that serves `model` here.
    pub fn multiplier(&self, model: &str, now: Millis) -> f64 {
        let (site, of_model) = self.multipliers(model, now);
        (site * of_model).clamp(LEAST_TOGETHER, 1.0)
    }

    /// Returns the two parts of the multiplier: the site's and the model's.
    pub fn multipliers(&self, model: &str, now: Millis) -> (f64, f64) {
        let site = self.site.notable().map_or(1.0, |health| health.multiplier(now));
        (site, self.notable_model(model).map_or(1.0, |health| health.multiplier(now)))
    }

    /// Returns whether the breaker of the site, or of this model on it, is open.
    pub fn is_open(&self, model: &str, now: Millis) -> bool {
        let open = |health: Option<Health>| health.is_some_and(|health| health.is_open(now));
        open(self.site.notable()) || open(self.notable_model(model))
    }

    /// Returns the site's recent outcomes, blended with those of this model where there are any.
    pub fn recent(&self, model: &str, now: Millis) -> Recent {
        let of_model = self.models().get(&*norm(model)).map(|record| record.health().recent(now));
        Recent::blended(self.site.health().recent(now), of_model.unwrap_or_default())
    }

    /// Resets the record of the site as a whole and, if given, that of this model on it.
    pub fn forget(&self, model: Option<&str>) {
        self.site.put(Health::default());
        let Some(model) = model else { return };
        let gone = self.models_mut().remove(&*norm(model));
        if gone.is_some_and(|record| record.is_notable.load(Relaxed)) {
            self.notable_models.fetch_sub(1, Relaxed);
        }
    }

    /// Returns the site's record and those of its models.
    pub(super) fn records(&self) -> (Health, Vec<(Box<str>, Health)>) {
        let models = self.models();
        let models = models.iter().map(|(name, record)| (name.clone(), *record.health()));
        (*self.site.health(), models.collect())
    }

    /// Restores saved records.
    pub(super) fn restore(&self, site: Option<Health>, models: Vec<(Box<str>, Health)>) {
        if let Some(health) = site {
            self.site.put(health);
        }
        for (name, health) in models.into_iter().take(MAX_MODELS) {
            self.change_model(&name, |kept| *kept = health);
        }
    }

    /// Returns the time of the last event, for any model.
    pub fn last_event(&self) -> Millis {
        self.site.health().last_event()
    }

    /// Drops the records of models without an event since `oldest`.
    pub(super) fn retain_since(&self, oldest: Millis) {
        let mut models = self.models_mut();
        self.drop_models(&mut models, |health| health.last_event() >= oldest);
    }

    fn change(&self, model: &str, event: impl Fn(&mut Health)) {
        self.site.change(&event);
        let name = norm(model);
        if !name.is_empty() {
            self.change_model(&name, event);
        }
    }

    /// Changes a model's record while it cannot be removed, so that the count of notable ones stays right.
    fn change_model(&self, name: &str, event: impl Fn(&mut Health)) {
        if let Some(record) = self.models().get(name) {
            return self.note(record, event);
        }
        let mut models = self.models_mut();
        if models.len() >= MAX_MODELS && !models.contains_key(name) {
            let mut events: Vec<Millis> =
                models.values().map(|record| record.health().last_event()).collect();
            let (_, &mut median, _) = events.select_nth_unstable(MAX_MODELS / 2);
            self.drop_models(&mut models, |health| health.last_event() > median);
        }
        self.note(models.entry(name.into()).or_default(), event);
    }

    fn note(&self, record: &Record, event: impl Fn(&mut Health)) {
        match record.change(event) {
            (false, true) => self.notable_models.fetch_add(1, Relaxed),
            (true, false) => self.notable_models.fetch_sub(1, Relaxed),
            _ => 0,
        };
    }

    fn drop_models(&self, models: &mut FastMap<Box<str>, Record>, stays: impl Fn(&Health) -> bool) {
        models.retain(|_, record| {
            let stays = stays(&record.health());
            if !stays && record.is_notable.load(Relaxed) {
                self.notable_models.fetch_sub(1, Relaxed);
            }
            stays
        });
    }

    fn notable_model(&self, model: &str) -> Option<Health> {
        if self.notable_models.load(Relaxed) == 0 {
            return None;
        }
        self.models().get(&*norm(model))?.notable()
    }

    fn models(&self) -> RwLockReadGuard<'_, FastMap<Box<str>, Record>> {
        self.models.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn models_mut(&self) -> RwLockWriteGuard<'_, FastMap<Box<str>, Record>> {
        self.models.write().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Record ===

impl Record {
    /// Changes the record; returns whether it was notable before and whether it is now.
    fn change(&self, event: impl Fn(&mut Health)) -> (bool, bool) {
        let mut health = self.health();
        event(&mut health);
        let (before, now) = (self.is_notable.load(Relaxed), health.is_notable());
        if before != now {
            self.is_notable.store(now, Relaxed); // under the lock: nothing else changes it
        }
        (before, now)
    }

    fn put(&self, health: Health) {
        self.change(|kept| *kept = health);
    }

    /// Returns the record; `None` when a selection need not look at it.
    fn notable(&self) -> Option<Health> {
        self.is_notable.load(Relaxed).then(|| *self.health())
    }

    fn health(&self) -> MutexGuard<'_, Health> {
        lock(&self.health)
    }
}
