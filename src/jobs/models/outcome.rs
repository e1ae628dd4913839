//! The results of model discovery and of a route rebuild, for their callers.

use serde::Serialize;

use crate::ids::AccountId;
use crate::jobs::probe::result::PostProbe;
use crate::jobs::run_status::RunStatus;

/// The outcome of the discovery of one account's models.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RefreshOutcome {
    pub account_id: AccountId,
    /// Whether the upstream was asked; true also when it failed.
    pub refreshed: bool,
    pub status: RunStatus,
    pub error_code: Option<&'static str>,
    pub error_message: String,
    pub model_count: usize,
    /// The first ten model names.
    pub models_preview: Vec<String>,
    #[serde(flatten)]
    pub detail: RefreshDetail,
    /// The result of the probe that the site wants after each discovery.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub post_probe_result: Option<PostProbe>,
}

/// The details of a result, by whether the upstream was asked.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum RefreshDetail {
    #[serde(rename_all = "camelCase")]
    Tried {
        /// The number of managed tokens that were used.
        token_scanned: usize,
        discovered_by_credential: bool,
        discovered_api_token: bool,
    },
    Skipped {
        /// Repeats the error code.
        reason: &'static str,
    },
}

impl RefreshOutcome {
    const PREVIEW: usize = 10;

    /// Builds the outcome for an upstream that gave `models`.
    pub fn success(account_id: AccountId, models: &[String]) -> Self {
        Self {
            account_id,
            refreshed: true,
            status: RunStatus::Success,
            error_code: None,
            error_message: String::new(),
            model_count: models.len(),
            models_preview: models.iter().take(Self::PREVIEW).cloned().collect(),
            detail: RefreshDetail::Tried {
                token_scanned: 0,
                discovered_by_credential: true,
                discovered_api_token: false,
            },
            post_probe_result: None,
        }
    }

    /// Builds the outcome for an upstream that was asked and gave no models.
    pub fn failed(account_id: AccountId, code: &'static str, message: impl Into<String>) -> Self {
        Self {
            status: RunStatus::Failed,
            error_code: Some(code),
            error_message: message.into(),
            detail: RefreshDetail::Tried {
                token_scanned: 0,
                discovered_by_credential: false,
                discovered_api_token: false,
            },
            ..Self::success(account_id, &[])
        }
    }

    /// Builds the outcome for an account that does not exist.
    pub fn not_found(account_id: AccountId) -> Self {
        Self { refreshed: false, ..Self::failed(account_id, "account_not_found", "account not found") }
    }

    /// Builds the outcome for an upstream that was not asked.
    pub fn skipped(account_id: AccountId, code: &'static str, message: impl Into<String>) -> Self {
        Self {
            refreshed: false,
            status: RunStatus::Skipped,
            detail: RefreshDetail::Skipped { reason: code },
            ..Self::failed(account_id, code, message)
        }
    }
}

/// The counts of a rebuild: the models found, and the routes and channels changed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RebuildCounts {
    pub models: usize,
    pub created_routes: usize,
    pub created_channels: usize,
    pub removed_channels: usize,
    pub removed_routes: usize,
}

impl RebuildCounts {
    /// Whether the rebuild changed any route or channel.
    pub fn changed(&self) -> bool {
        [self.created_routes, self.created_channels, self.removed_channels, self.removed_routes] != [0; 4]
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{json, to_value};

    use crate::jobs::models::outcome::*;

    #[test]
    fn outcomes_have_the_documented_shape() {
        let models = ["m-a", "m-b"].map(str::to_owned);
        let detail = RefreshDetail::Tried {
            token_scanned: 1,
            discovered_by_credential: true,
            discovered_api_token: false,
        };
        let success = RefreshOutcome { detail, ..RefreshOutcome::success(AccountId::new(4), &models) };
        let success = to_value(success).expect("it serializes");
        assert_eq!(
            success,
            json!({"accountId":4,"refreshed":true,"status":"success","errorCode":null,"errorMessage":"",
                "modelCount":2,"modelsPreview":["m-a","m-b"],"tokenScanned":1,
                "discoveredByCredential":true,"discoveredApiToken":false})
        );
        let failed =
            to_value(RefreshOutcome::failed(AccountId::new(5), "unauthorized", "key rejected by upstream"))
                .expect("it serializes");
        assert_eq!(
            failed,
            json!({"accountId":5,"refreshed":true,"status":"failed","errorCode":"unauthorized",
                "errorMessage":"key rejected by upstream","modelCount":0,"modelsPreview":[],"tokenScanned":0,
                "discoveredByCredential":false,"discoveredApiToken":false})
        );
        let skipped =
            to_value(RefreshOutcome::skipped(AccountId::new(6), "site_disabled", "site is disabled"))
                .expect("it serializes");
        assert_eq!(
            skipped,
            json!({"accountId":6,"refreshed":false,"status":"skipped","errorCode":"site_disabled",
                "errorMessage":"site is disabled","modelCount":0,"modelsPreview":[],"reason":"site_disabled"})
        );
    }
}
