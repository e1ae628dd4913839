//! A short-lived cache of statistics: dashboards ask often, and the sums are costly.
//!
//! ```text
//! age  0 ──── ttl ──────────────── 6 × ttl ────▶
//!      hit     stale, reloaded behind    miss      refresh: reloaded at once
//! ```
//!
//! Requests that arrive while an answer is being made share that run. A failure is not cached.

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use crate::admin::errors::{AdminError, Result};
use crate::core::Core;
use crate::flight::SingleFlight;
use crate::make_room::make_room;
use crate::sync::lock;

/// Maximum number of cached answers; the least recently used one is removed first.
const MAX_KEPT: usize = 64;

/// The cached answers, by key.
#[derive(Default)]
pub struct StatsCache {
    entries: Mutex<HashMap<String, Arc<Entry>>>,
}

#[derive(Default)]
struct Entry {
    made: Mutex<Option<(Arc<Value>, Instant)>>,
    used: Mutex<Option<Instant>>,
    flight: SingleFlight<Option<Arc<Value>>>,
}

/// A query for statistics: its cache key, how long the answer is fresh, and whether to reload it now.
pub struct StatsQuery {
    pub key: String,
    pub ttl: Duration,
    pub refresh: bool,
}

impl StatsCache {
    /// Empties the cache.
    pub fn clear(&self) {
        lock(&self.entries).clear();
    }

    fn entry(&self, key: &str) -> Arc<Entry> {
        let mut entries = lock(&self.entries);
        let key = key.to_owned();
        make_room(&mut entries, &key, MAX_KEPT, |entry| entry.used());
        let entry = entries.entry(key).or_default();
        *lock(&entry.used) = Some(Instant::now());
        entry.clone()
    }
}

impl Entry {
    fn used(&self) -> Option<Instant> {
        *lock(&self.used)
    }

    fn kept(&self) -> Option<(Arc<Value>, Duration)> {
        let made = lock(&self.made);
        made.as_ref().map(|(value, at)| (value.clone(), at.elapsed()))
    }

    fn keep(&self, value: Arc<Value>) {
        *lock(&self.made) = Some((value, Instant::now()));
    }
}

/// Returns the answer to `query`, cached or made by `load`, and says which of them it is.
pub async fn get<F>(
    cache: &StatsCache,
    core: &Arc<Core>,
    query: StatsQuery,
    load: impl FnOnce(Arc<Core>) -> F,
) -> Result<(Arc<Value>, &'static str)>
where
    F: Future<Output = Result<Value>> + Send + 'static,
{
    let entry = cache.entry(&query.key);
    let kept = entry.kept().filter(|(_, age)| !query.refresh && *age < query.ttl * 6);
    if let Some((value, age)) = &kept
        && *age < query.ttl
    {
        return Ok((value.clone(), "hit"));
    }
    let loading = load(core.clone());
    let (keeper, background) = (entry.clone(), core.background.clone());
    let run = async move {
        let made = async move {
            let value = loading.await.map(Arc::new);
            match value {
                Ok(value) => {
                    keeper.keep(value.clone());
                    Some(value)
                }
                Err(error) => {
                    log::warn!("statistics could not be computed: {}", error.message());
                    None
                }
            }
        };
        entry.flight.run(&background, "statistics", || made).await.ok().flatten()
    };
    if let Some((value, _)) = kept {
        core.background.spawn("statistics behind a stale answer", async move { drop(run.await) });
        return Ok((value, "stale"));
    }
    let made = run.await.ok_or_else(|| AdminError::internal("making statistics", "no result"))?;
    Ok((made, if query.refresh { "refresh" } else { "miss" }))
}
