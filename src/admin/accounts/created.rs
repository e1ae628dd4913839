//! The response to the creation of an account, and the user id that a user name may end with.

use serde::Serialize;

use super::view::{AccountView, Capabilities};

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

/// Returns the user id that many sites put at the end of their user names: 3 to 8 digits.
pub fn guess_user_id(username: Option<&str>) -> Option<i64> {
    let name = username?.trim();
    let digits = &name[name.trim_end_matches(|c: char| c.is_ascii_digit()).len()..];
    if !(3..=8).contains(&digits.len()) {
        return None;
    }
    digits.parse().ok().filter(|&id| id > 0)
}
