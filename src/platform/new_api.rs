//! new-api, and its forks that differ in nothing but their names: vo-api, super-api, rix-api, neo-api, wong 公益站.

use serde_json::Value;

use super::one_api;
use super::profile::{Management, NewApiFork, Profile, Title, UsageLog};

pub(super) const PROFILE: Profile = Profile {
    id: "new-api",
    aliases: &["newapi", "new api", "wong-gongyi", "vo-api", "super-api", "rix-api", "neo-api"],
    title: Some(Title { pattern: r"\b(new|vo|super|rix|neo)[-_ ]?api\b|\bwong ?公益站", is_proof: false }),
    status: Some(is_own_status),
    management: Some(Management::NewApi(NewApiFork {
        models: "/api/user/models",
        groups: &["/api/user/self/groups", "/api/user_group_map"],
        check_in: Some("/api/user/checkin"),
        reward: &["quota_awarded"],
        page: "p",
        size: "size",
        first_page: 1,
        logs_income: true,
        has_cookie_sessions: true,
        wants_user_id: true,
        user_id_headers: &[
            "new-api-user",
            "veloera-user",
            "voapi-user",
            "user-id",
            "rix-api-user",
            "neo-api-user",
        ],
        cookie_user_id_headers: &["new-api-user"],
        deletes_with_slash: false,
    })),
    usage_log: Some(UsageLog {
        path: "/api/log/self?p=0&page=1&size=20&order=-created_at",
        only_without_usage: true,
    }),
    ..one_api::PROFILE
};

fn is_own_status(data: &Value) -> bool {
    const MEMBERS: [&str; 5] =
        ["checkin_enabled", "quota_display_type", "self_use_mode_enabled", "enable_drawing", "setup"];
    MEMBERS.iter().any(|name| data.get(name).is_some())
}
