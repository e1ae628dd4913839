//! The upstream of Codex, for accounts with a ChatGPT sign-in.

use super::profile::{BodyEdit, LoginHeaders, ModelList, Profile};
use crate::dialect::Dialect;
use crate::dialect::canonical::Vendor;

pub(super) const PROFILE: Profile = Profile {
    id: "codex",
    aliases: &["chatgpt-codex", "chatgpt codex"],
    is_official: |at| at.host == "chatgpt.com" && at.is_under("/backend-api/codex"),
    host_words: &[],
    title: None,
    status: None,
    own_pages: None,
    data_paths: &["/v1"],
    vendor: Vendor::OpenAi,
    dialects: |_, _| &[Dialect::Responses],
    unconverted: &[],
    document_dialects: |_, _| None,
    fetches_files: false,
    lists_claude_dialects: false,
    has_extras: true,
    path,
    compaction_path: "/responses/compact",
    streams_responses_only: true,
    has_websocket: true,
    keeps_threads: false,
    code_assist: None,
    body_edit: Some(BodyEdit {
        dialect: Dialect::Responses,
        set: &[("store", "false"), ("stream", "true")],
        // Codex itself sends none of these, and each is refused by name.
        removed: &[
            "max_output_tokens",
            "max_completion_tokens",
            "max_tokens",
            "stream_options",
            "temperature",
            "top_p",
            "frequency_penalty",
            "presence_penalty",
            "user",
            "metadata",
            "safety_identifier",
            "prompt_cache_retention",
            "context_management",
            "truncation",
        ],
        instructions: Some("\"You are a helpful assistant.\""),
        outranks_rules: true,
    }),
    login_headers: Some(LoginHeaders {
        beta: None,
        account: Some("chatgpt-account-id"),
        names_conversation: true,
    }),
    own_headers: &["version", "x-responsesapi-include-timing-metrics"],
    has_header_defaults: true,
    relays_codex: false,
    model_list: ModelList::WithSignIn,
    management: None,
    prices: None,
    usage_log: None,
    tokens_per_usd: 500_000.0,
};

fn path(dialect: Dialect) -> &'static str {
    if dialect == Dialect::Responses { "/responses" } else { dialect.path() }
}
