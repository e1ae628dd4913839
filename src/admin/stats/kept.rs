//! Statistics that are kept for a while, also over a restart: dashboards ask often, and the sums are costly.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use crate::admin::errors::Result;
use crate::admin::stored_answers;
use crate::admin::timed_cache::{Ask, Origin, TimedCache};
use crate::core::Core;
use crate::store::admin_snapshots;

/// Maximum number of kept answers.
const MAX_KEPT: usize = 64;

/// The kept answers, by what they are about.
pub type StatsCache = TimedCache<String, Arc<Value>>;

pub fn cache() -> StatsCache {
    TimedCache::new(MAX_KEPT)
}

/// Returns the answer about `about`, kept or made by `load`. It is fresh for this long, and served stale for six times as
/// long.
pub(super) async fn get<F>(
    cache: &StatsCache,
    core: &Arc<Core>,
    about: impl Into<String>,
    fresh: Duration,
    refresh: bool,
    load: F,
) -> Result<(Arc<Value>, Origin)>
where
    F: Future<Output = Result<Value>> + Send + 'static,
{
    let ask = Ask { fresh, stale: fresh * 6, refresh, what: "statistics" };
    let about = about.into();
    let load = {
        let (core, name) = (core.clone(), format!("{}{about}", stored_answers::STATISTICS));
        async move {
            let origin = admin_snapshots::Origin::note(&core.store).await?;
            let made = load.await?;
            stored_answers::put(&core, name, origin, made.to_string().into());
            Ok(Arc::new(made))
        }
    };
    cache.get(&core.background, about, ask, load).await
}
