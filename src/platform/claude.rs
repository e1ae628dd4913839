//! Anthropic, and upstreams that are asked like it.

use super::profile::{LoginHeaders, ModelList, PriceList, Profile};
use crate::dialect::Dialect;
use crate::dialect::canonical::Vendor;

pub(super) const PROFILE: Profile = Profile {
    id: "claude",
    aliases: &["anthropic"],
    is_official: |at| at.host == "api.anthropic.com" || at.host == "anthropic.com" && at.is_under("/v1"),
    host_words: &[],
    title: None,
    status: None,
    own_pages: None,
    data_paths: &["/v1"],
    vendor: Vendor::Anthropic,
    dialects: |_, _| &[Dialect::Messages],
    unconverted: &[],
    document_dialects: |_, _| None,
    fetches_files: true,
    lists_claude_dialects: false,
    has_extras: true,
    path: Dialect::path,
    compaction_path: "/v1/responses/compact",
    streams_responses_only: false,
    has_websocket: false,
    keeps_threads: true,
    code_assist: None,
    body_edit: None,
    login_headers: Some(LoginHeaders {
        beta: Some("oauth-2025-04-20"),
        account: None,
        names_conversation: false,
    }),
    own_headers: &[],
    has_header_defaults: false,
    relays_codex: false,
    model_list: ModelList::Anthropic,
    management: None,
    prices: Some(PriceList::Ratios),
    usage_log: None,
    tokens_per_usd: 500_000.0,
};
