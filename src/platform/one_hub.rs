//! one-hub: a one-api with prices of its own.

use serde_json::Value;

use super::profile::{Management, ModelList, NewApiFork, PriceList, Profile, Title, UsageLog};
use super::relay;
use crate::dialect::Dialect;
use crate::dialect::canonical::Vendor;

pub(super) static PROFILE: Profile = Profile {
    id: "one-hub",
    aliases: &["onehub"],
    is_official: |_| false,
    host_words: &["onehub", "one-hub"],
    title: Some(Title { pattern: r"\bone[-_ ]?hub\b", is_proof: true }),
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
    tokens_per_usd: 500_000.0,
};

fn is_own_status(data: &Value) -> bool {
    ["PaymentUSDRate", "EnableSafe"].iter().any(|name| data.get(name).is_some())
}
