//! Veloera: a new-api with a check-in of its own.

use serde_json::Value;

use super::profile::{Management, ModelList, NewApiFork, PriceList, Profile, Title};
use super::relay;
use crate::dialect::Dialect;
use crate::dialect::canonical::Vendor;

pub(super) static PROFILE: Profile = Profile {
    id: "veloera",
    aliases: &[],
    is_official: |_| false,
    host_words: &["veloera"],
    title: Some(Title { pattern: r"\bveloera\b", is_proof: true }),
    status: Some(is_own_status),
    own_pages: None,
    data_paths: &["/v1"],
    vendor: Vendor::Other,
    dialects: relay::dialects,
    unconverted: relay::UNCONVERTED,
    document_dialects: relay::document_dialects,
    fetches_files: false,
    lists_claude_dialects: false,
    has_extras: true,
    path: Dialect::path,
    compaction_path: "/v1/responses/compact",
    streams_responses_only: false,
    has_websocket: false,
    keeps_threads: false,
    code_assist: None,
    body_edit: None,
    login_headers: None,
    own_headers: &[],
    has_header_defaults: false,
    relays_codex: false,
    model_list: ModelList::OpenAi,
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
    prices: Some(PriceList::Ratios),
    usage_log: None,
    tokens_per_usd: 1_000_000.0,
};

fn is_own_status(data: &Value) -> bool {
    let names_it = ["system_name", "version"].iter().any(|name| {
        data.get(name).and_then(Value::as_str).is_some_and(|text| text.to_lowercase().contains("veloera"))
    });
    names_it || data.get("check_in_enabled").is_some()
}
