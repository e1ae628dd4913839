//! What caches of prompts had part in, as statistics show it.

use serde::Serialize;
use serde_json::Value;

use crate::admin::ratio;
use crate::store::cached::CachedTokens;

/// Left out where no upstream tells.
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

/// How much of the input came from caches, of 1; `None` where no upstream tells.
pub fn hit_ratio(cached: &CachedTokens) -> Option<Value> {
    cached.hit_ratio().map(ratio)
}
