//! Statistics kept for a moment: dashboards ask often, and the sums are costly.
//!
//! ```text
//! age  0 ──── ttl ──────────────── 6 × ttl ────▶
//!      hit     stale, made anew behind   miss        refresh: made anew at once
//! ```
//!
//! Who asks while an answer is being made shares that run. A failure is not kept.

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

/// How many answers are kept; the one longest unused goes first.
const MAX_KEPT: usize = 64;

/// The answers last made, by what was asked.
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

/// What is asked: under which name it is kept, for how long, and whether the kept one will do.
pub struct StatsQuery {
    pub key: String,
    pub ttl: Duration,
    pub refresh: bool,
}

impl StatsCache {
    /// Nothing kept holds any more.
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

/// The answer to `ask`, kept or made by `load`, and which of these it is.
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
                    log::warn!("statistics could not be made: {}", error.message());
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
