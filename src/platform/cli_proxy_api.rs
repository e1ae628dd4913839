//! CLIProxyAPI, which offers sign-ins of the vendors' own programs as an API.

use super::profile::{ModelList, OwnPages, Page, PageAnswer, PriceList, Profile};
use super::relay;
use crate::dialect::Dialect;
use crate::dialect::canonical::Vendor;

pub(super) const PROFILE: Profile = Profile {
    id: "cliproxyapi",
    aliases: &["cpa", "cli-proxy-api"],
    is_official: |at| matches!(at.host, "127.0.0.1" | "localhost") && at.port == Some(PORT),
    host_words: &[],
    title: None,
    status: None,
    own_pages: Some(OwnPages {
        is_known: |at| at.port == Some(PORT) || at.host.contains("cliproxy") || at.path.contains("cliproxy"),
        pages: &[Page { path: "/v0/management/openai-compatibility", is_own: is_management }],
        outrank_status: true,
    }),
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
    management: None,
    prices: Some(PriceList::Ratios),
    usage_log: None,
    tokens_per_usd: 500_000.0,
};

/// The port on which it listens by default.
const PORT: u16 = 8317;
const HEADERS: [&str; 3] = ["x-cpa-version", "x-cpa-commit", "x-cpa-build-date"];

fn is_management(answer: &PageAnswer<'_>) -> bool {
    let is_signed = HEADERS.iter().any(|name| answer.headers.contains_key(*name));
    match answer.status {
        200 if !is_signed => answer.json.is_some_and(|json| json.get("openai-compatibility").is_some()),
        200 | 401 | 403 => is_signed,
        _ => false,
    }
}
