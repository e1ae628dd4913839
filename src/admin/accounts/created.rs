//! The response to the creation of an account, and the task that follows it.

use serde::Serialize;

use super::view::{AccountView, Capabilities};
use crate::ids::AccountId;
use crate::jobs::tasks;

/// The response to the creation of one account: the account, what was detected, and the task that follows.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CreatedView<'a> {
    #[serde(flatten)]
    pub account: AccountView<'a>,
    pub success: bool,
    pub token_type: &'static str,
    pub credential_mode: &'static str,
    pub capabilities: Capabilities,
    pub model_count: usize,
    pub api_token_found: bool,
    pub username_detected: bool,
    pub queued: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<&'static str>,
}

/// Describes the task that sets up a new account.
pub fn setup_task(id: AccountId) -> tasks::Spec {
    tasks::Spec {
        kind: "account-init",
        title: format!("Initialise account {id}"),
        dedupe_key: Some(format!("account-init-{id}")),
        events: tasks::TaskEvents::Sent,
    }
}
