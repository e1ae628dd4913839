//! The result of a probe after a refresh.

use serde::Serialize;

use super::verdict::ProbeVerdict;
use crate::store::sites::ProbedModels;

/// The result of a probe after a refresh of one account.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PostProbe {
    pub scope: ProbedModels,
    pub probed: usize,
    pub unsupported: usize,
    pub details: Vec<Detail>,
}

/// The result of the probe of one model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Detail {
    pub model_name: String,
    pub status: ProbeVerdict,
    pub latency_ms: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}
