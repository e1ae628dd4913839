//! Google's Gemini API, in its own dialect and in OpenAI's.

use super::profile::{Address, BodyEdit, ModelList, PriceList, Profile};
use crate::dialect::Dialect::{self, Chat, Gemini};
use crate::dialect::canonical::Vendor;

pub(super) const PROFILE: Profile = Profile {
    id: "gemini",
    aliases: &["google"],
    is_official,
    host_words: &[],
    title: None,
    status: None,
    own_pages: None,
    data_paths: &["/v1"],
    vendor: Vendor::Gemini,
    dialects,
    unconverted: &[Dialect::Embeddings, Dialect::Images],
    document_dialects: |_, _| None,
    fetches_files: false,
    lists_claude_dialects: false,
    has_extras: false,
    path,
    compaction_path: "/v1/responses/compact",
    streams_responses_only: false,
    has_websocket: false,
    keeps_threads: false,
    code_assist: None,
    body_edit: Some(BodyEdit {
        dialect: Chat,
        set: &[],
        removed: &[
            "frequency_penalty",
            "presence_penalty",
            "logit_bias",
            "logprobs",
            "top_logprobs",
            "store",
        ],
        instructions: None,
        outranks_rules: false,
    }),
    login_headers: None,
    own_headers: &[],
    has_header_defaults: false,
    relays_codex: false,
    model_list: ModelList::Google,
    management: None,
    prices: Some(PriceList::Ratios),
    usage_log: None,
    tokens_per_usd: 500_000.0,
};

fn is_official(at: &Address<'_>) -> bool {
    matches!(at.host, "generativelanguage.googleapis.com" | "gemini.google.com")
        || at.is_in_domain("googleapis.com") && at.is_under("/v1beta/openai")
}

/// Returns the dialects; its own is always one of them, for where the OpenAI-compatible address is not served.
fn dialects(client: Dialect, _model: &str) -> &'static [Dialect] {
    if client == Gemini { &[Gemini, Chat] } else { &[Chat, Gemini] }
}

fn path(dialect: Dialect) -> &'static str {
    match dialect {
        Chat => "/v1beta/openai/chat/completions",
        Dialect::Embeddings => "/v1beta/openai/embeddings",
        Dialect::Images => "/v1beta/openai/images/generations",
        other => other.path(),
    }
}
