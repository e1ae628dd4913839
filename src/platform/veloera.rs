//! Veloera: a new-api with a check-in of its own.

use serde_json::Value;

use super::new_api;
use super::profile::{Management, NewApiFork, Profile, Title};

pub(super) const PROFILE: Profile = Profile {
    id: "veloera",
    aliases: &[],
    host_words: &["veloera"],
    title: Some(Title { pattern: r"\bveloera\b", is_proof: true }),
    status: Some(is_own_status),
    management: Some(Management::NewApi(NewApiFork {
        models: "/api/user/models",
        groups: &["/api/user/self/groups", "/api/user_group_map"],
        check_in: Some("/api/user/check_in"),
        reward: &["quota", "quota_awarded"],
        page: "p",
        size: "size",
        first_page: 0,
        logs_income: true,
        has_cookie_sessions: false,
        wants_user_id: false,
        user_id_headers: &["veloera-user", "new-api-user", "user-id"],
        cookie_user_id_headers: &["veloera-user", "new-api-user", "user-id"],
        deletes_with_slash: false,
    })),
    usage_log: None,
    tokens_per_usd: 1_000_000.0,
    ..new_api::PROFILE
};

fn is_own_status(data: &Value) -> bool {
    let names_it = ["system_name", "version"].iter().any(|name| {
        data.get(name).and_then(Value::as_str).is_some_and(|text| text.to_lowercase().contains("veloera"))
    });
    names_it || data.get("check_in_enabled").is_some()
}
