//! OpenAI, and upstreams that are asked like it.

use super::profile::{ModelList, PriceList, Profile};
use super::relay;
use crate::dialect::Dialect::{self, Chat, Messages, Responses};
use crate::dialect::canonical::Vendor;

pub(super) const PROFILE: Profile = Profile {
    id: "openai",
    aliases: &[],
    is_official: |at| at.host == "api.openai.com",
    host_words: &[],
    title: None,
    status: None,
    own_pages: None,
    data_paths: &["/v1"],
    vendor: Vendor::OpenAi,
    dialects,
    unconverted: relay::UNCONVERTED,
    document_dialects: |_, _| None,
    fetches_files: false,
    lists_claude_dialects: true,
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

fn dialects(client: Dialect, _model: &str) -> &'static [Dialect] {
    // A completion loses least when it becomes a chat.
    if client == Dialect::Completions { &[Chat, Responses, Messages] } else { &[Responses, Chat, Messages] }
}
