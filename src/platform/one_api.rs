//! one-api, from which the whole family was forked.

use serde_json::Value;

use super::profile::{Management, ModelList, NewApiFork, PriceList, Profile, Title};
use super::relay;
use crate::dialect::Dialect;
use crate::dialect::canonical::Vendor;

pub(super) const PROFILE: Profile = Profile {
    id: "one-api",
    aliases: &["oneapi", "one api"],
    is_official: |_| false,
    host_words: &[],
    title: Some(Title { pattern: r"\bone[-_ ]?api\b", is_proof: false }),
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
        models: "/api/user/available_models",
        groups: &[],
        check_in: None,
        reward: &["quota_awarded"],
        page: "p",
        size: "size",
        first_page: 0,
        logs_income: true,
        has_cookie_sessions: false,
        wants_user_id: false,
        user_id_headers: &[],
        cookie_user_id_headers: &[],
        deletes_with_slash: true,
    })),
    prices: Some(PriceList::Ratios),
    usage_log: None,
    tokens_per_usd: 500_000.0,
};

fn is_own_status(data: &Value) -> bool {
    let has = |name: &str| data.get(name).is_some();
    has("oidc_well_known") || (has("quota_per_unit") && has("chat_link"))
}
