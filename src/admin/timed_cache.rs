//! A cache of answers that are costly to make: consoles ask often, and a moment's age does no harm.
//!
//! ```text
//! age  0 ─── fresh ─────────────── stale ────▶
//!      hit         stale, made anew behind   miss      refresh: made anew at once
//! ```
//!
//! Requests that arrive while an answer is being made share that run. A failure is not kept, and neither is what began to be
//! made before the cache was emptied.

use std::collections::HashMap;
use std::future::Future;
use std::hash::Hash;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::Instant;

use super::errors::{AdminError, Result};
use crate::background::Background;
use crate::flight::SingleFlight;
use crate::make_room::make_room;
use crate::sync::lock;

/// The latest values, by key.
pub struct TimedCache<K, V> {
    /// Maximum number of keys; the least recently used one is removed first.
    most: usize,
    entries: Mutex<HashMap<K, Arc<Entry<V>>>>,
}

struct Entry<V> {
    made: Mutex<Option<(V, Instant)>>,
    used: Mutex<Instant>,
    flight: SingleFlight<Result<V>>,
}

/// How a value is asked for.
#[derive(Clone, Copy)]
pub struct Ask {
    /// The age up to which a value is returned as it is.
    pub fresh: Duration,
    /// The age up to which a value is returned while it is made anew.
    pub stale: Duration,
    /// Whether the value is to be made anew in any case.
    pub refresh: bool,
    /// A noun for the value, for the log.
    pub what: &'static str,
}

/// Where a value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    Hit,
    Stale,
    Miss,
    Refresh,
}

impl Origin {
    /// Returns the word for response headers.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Hit => "hit",
            Self::Stale => "stale",
            Self::Miss => "miss",
            Self::Refresh => "refresh",
        }
    }
}

impl<K: Clone + Eq + Hash, V: Clone + Send + Sync + 'static> TimedCache<K, V> {
    pub fn new(most: usize) -> Self {
        Self { most, entries: Mutex::default() }
    }

    /// Empties the cache.
    pub fn clear(&self) {
        lock(&self.entries).clear();
    }

    /// Keeps a value that was made this long ago.
    pub fn put(&self, key: K, value: V, age: Duration) {
        let made = Instant::now().checked_sub(age).map(|at| (value, at));
        *lock(&self.entry(key).made) = made;
    }

    /// Returns the value under this key, if there is one of at most this age.
    pub fn peek(&self, key: &K, fresh: Duration) -> Option<V> {
        let entry = lock(&self.entries).get(key)?.clone();
        entry.kept(fresh).map(|(value, _)| value)
    }

    /// Returns the value under this key, from the cache or made by `load`.
    ///
    /// # Errors
    ///
    /// Fails if `load` does.
    pub async fn get<F>(&self, background: &Arc<Background>, key: K, ask: Ask, load: F) -> Result<(V, Origin)>
    where
        F: Future<Output = Result<V>> + Send + 'static,
    {
        let entry = self.entry(key);
        let kept = if ask.refresh { None } else { entry.kept(ask.stale) };
        match kept {
            Some((value, age)) if age < ask.fresh => return Ok((value, Origin::Hit)),
            Some((value, _)) => {
                let behind = entry.make(background.clone(), ask.what, load);
                background.spawn("an answer behind a stale one", async move {
                    if let Err(error) = behind.await {
                        log::warn!("{} could not be made anew: {}", ask.what, error.message());
                    }
                });
                return Ok((value, Origin::Stale));
            }
            None => {}
        }
        let made = entry.make(background.clone(), ask.what, load).await?;
        Ok((made, if ask.refresh { Origin::Refresh } else { Origin::Miss }))
    }

    fn entry(&self, key: K) -> Arc<Entry<V>> {
        let mut entries = lock(&self.entries);
        make_room(&mut entries, &key, self.most, |entry| *lock(&entry.used));
        let entry = entries.entry(key).or_insert_with(|| Arc::new(Entry::new()));
        *lock(&entry.used) = Instant::now();
        entry.clone()
    }
}

impl<V: Clone + Send + Sync + 'static> Entry<V> {
    fn new() -> Self {
        Self { made: Mutex::default(), used: Mutex::new(Instant::now()), flight: SingleFlight::default() }
    }

    fn kept(&self, within: Duration) -> Option<(V, Duration)> {
        let made = lock(&self.made);
        let (value, at) = made.as_ref()?;
        Some((value.clone(), at.elapsed())).filter(|(_, age)| *age < within)
    }

    /// Makes the value, or waits for the run that makes it.
    async fn make<F>(self: Arc<Self>, background: Arc<Background>, what: &'static str, load: F) -> Result<V>
    where
        F: Future<Output = Result<V>> + Send + 'static,
    {
        let keeper = self.clone();
        let run = self.flight.run(&background, what, || async move {
            let made = load.await?;
            *lock(&keeper.made) = Some((made.clone(), Instant::now()));
            Ok(made)
        });
        run.await.unwrap_or_else(|_| Err(AdminError::internal(what, "the run was interrupted")))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    use super::*;

    const ASK: Ask = Ask {
        fresh: Duration::from_secs(15),
        stale: Duration::from_secs(90),
        refresh: false,
        what: "a number",
    };

    /// A cache of how often its value was made.
    struct Made {
        cache: TimedCache<&'static str, usize>,
        background: Arc<Background>,
        times: Arc<AtomicUsize>,
    }

    impl Made {
        fn new(most: usize) -> Self {
            Self { cache: TimedCache::new(most), background: Arc::default(), times: Arc::default() }
        }

        async fn get(&self, key: &'static str, ask: Ask) -> (usize, &'static str) {
            let times = self.times.clone();
            let load = async move { Ok(times.fetch_add(1, SeqCst) + 1) };
            let (value, origin) = self.cache.get(&self.background, key, ask, load).await.expect("it is made");
            (value, origin.as_str())
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_value_is_kept_while_it_is_fresh_and_made_anew_behind_a_stale_one() {
        let made = Made::new(2);
        assert_eq!(made.get("a", ASK).await, (1, "miss"));
        tokio::time::advance(ASK.fresh - Duration::from_millis(1)).await;
        assert_eq!(made.get("a", ASK).await, (1, "hit"));
        assert_eq!(made.cache.peek(&"a", ASK.fresh), Some(1));
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(made.cache.peek(&"a", ASK.fresh), None);
        assert_eq!(made.get("a", ASK).await, (1, "stale"));
        while made.cache.peek(&"a", ASK.fresh).is_none() {
            tokio::task::yield_now().await;
        }
        assert_eq!(made.get("a", ASK).await, (2, "hit"));
        assert_eq!(made.get("a", Ask { refresh: true, ..ASK }).await, (3, "refresh"));
        tokio::time::advance(ASK.stale).await;
        assert_eq!(made.get("a", ASK).await, (4, "miss"));
        made.cache.clear();
        assert_eq!(made.get("a", ASK).await, (5, "miss"));
    }

    #[tokio::test(start_paused = true)]
    async fn the_least_recently_used_value_makes_room() {
        let made = Made::new(2);
        for key in ["a", "b", "a", "c", "a"] {
            made.get(key, ASK).await;
            tokio::time::advance(Duration::from_millis(1)).await;
        }
        assert_eq!(made.times.load(SeqCst), 3);
        assert_eq!(made.get("b", ASK).await, (4, "miss"));
    }

    #[tokio::test(start_paused = true)]
    async fn what_began_before_the_cache_was_emptied_is_not_kept_and_neither_is_a_failure() {
        let made = Made::new(2);
        let (release, held) = tokio::sync::oneshot::channel::<()>();
        let slow = async move {
            let _ = held.await;
            Ok(0)
        };
        let before = made.cache.get(&made.background, "a", ASK, slow);
        let emptied = async {
            tokio::task::yield_now().await;
            made.cache.clear();
            release.send(()).expect("somebody waits");
        };
        let (before, ()) = tokio::join!(before, emptied);
        assert_eq!(before.expect("it is made").0, 0);
        assert_eq!(made.get("a", ASK).await, (1, "miss"));
        let fails = async { Err(AdminError::not_found("Number")) };
        let refresh = Ask { refresh: true, ..ASK };
        assert!(made.cache.get(&made.background, "a", refresh, fails).await.is_err());
        assert_eq!(made.get("a", ASK).await, (1, "hit"), "the last value stays");
    }
}
