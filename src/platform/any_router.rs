//! AnyRouter: a new-api that relays to Claude Code and Codex first of all.

use super::profile::{Management, ModelList, NewApiFork, PriceList, Profile, Title, UsageLog};
use super::relay;
use crate::dialect::Dialect::{self, Chat, Messages, Responses};
use crate::dialect::canonical::Vendor;

pub(super) static PROFILE: Profile = Profile {
    id: "anyrouter",
    aliases: &[],
    is_official: |_| false,
    host_words: &["anyrouter"],
    title: Some(Title { pattern: r"\bany[-_ ]?router\b", is_proof: true }),
    status: None,
    own_pages: None,
    data_paths: &["/v1"],
    vendor: Vendor::Other,
    dialects,
    unconverted: relay::UNCONVERTED,
    document_dialects,
    fetches_files: true,
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
    prices: Some(PriceList::Ratios),
    usage_log: Some(UsageLog {
        path: "/api/log/self?p=0&page=1&page_size=20&order=-created_at",
        only_without_usage: false,
    }),
    tokens_per_usd: 500_000.0,
};

fn dialects(client: Dialect, _model: &str) -> &'static [Dialect] {
    if client == Responses { &[Responses, Messages, Chat] } else { &[Messages, Chat, Responses] }
}

fn document_dialects(client: Dialect, model: &str) -> Option<[Dialect; 3]> {
    if client == Responses {
        return relay::document_dialects(client, model);
    }
    Some([Messages, Responses, Chat])
}
