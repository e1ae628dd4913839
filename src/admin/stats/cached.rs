//! The use of prompt caches, as statistics show it.

use serde::Serialize;
use serde_json::Value;

use crate::admin::ratio;
use crate::store::cached_tokens::CachedTokens;

/// The tokens read from and written to prompt caches; left out where no upstream reports any.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CacheUse {
    cache_read_tokens: i64,
    cache_creation_tokens: i64,
    cache_hit_ratio: Option<Value>,
}

impl CacheUse {
    pub fn of(cached: &CachedTokens) -> Option<Self> {
        (*cached != CachedTokens::default()).then(|| Self {
            cache_read_tokens: cached.read,
            cache_creation_tokens: cached.creation,
            cache_hit_ratio: hit_ratio(cached),
        })
    }
}

/// Returns the fraction of the input that came from caches, from 0 to 1; `None` where no upstream reports it.
pub fn hit_ratio(cached: &CachedTokens) -> Option<Value> {
    cached.hit_ratio().map(ratio)
}
