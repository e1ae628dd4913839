//! one-hub: a one-api with prices of its own.

use serde_json::Value;

use super::one_api;
use super::profile::{Management, NewApiFork, PriceList, Profile, Title, UsageLog};

pub(super) const PROFILE: Profile = Profile {
    id: "one-hub",
    aliases: &["onehub"],
    host_words: &["onehub", "one-hub"],
    title: Some(Title { pattern: r"\bone[-_ ]?hub\b", is_proof: true }),
    status: Some(is_own_status),
    management: Some(Management::NewApi(NewApiFork {
        models: "/api/available_model",
        groups: &["/api/user_group_map"],
        check_in: None,
        reward: &["quota_awarded"],
        page: "page",
        size: "size",
        first_page: 1,
        logs_income: false,
        has_cookie_sessions: false,
        wants_user_id: false,
        user_id_headers: &[],
        cookie_user_id_headers: &[],
        deletes_with_slash: false,
    })),
    prices: Some(PriceList::Hub),
    usage_log: Some(UsageLog {
        path: "/api/log/self?p=0&page=1&size=20&order=-created_at",
        only_without_usage: false,
    }),
    ..one_api::PROFILE
};

fn is_own_status(data: &Value) -> bool {
    ["PaymentUSDRate", "EnableSafe"].iter().any(|name| data.get(name).is_some())
}
