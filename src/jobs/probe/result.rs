//! What a probe after a refresh has found.

use serde::Serialize;

use super::verdict::Verdict;

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PostProbe {
    pub scope: &'static str,
    pub probed: usize,
    pub unsupported: usize,
    pub details: Vec<Detail>,
}

/// How the probe of one model went.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Detail {
    pub model_name: String,
    pub status: Verdict,
    pub latency_ms: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}
