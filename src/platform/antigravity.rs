//! The upstream of Antigravity, which a Google sign-in opens.

use super::profile::{CodeAssist, ModelList, Profile};
use crate::dialect::Dialect;
use crate::dialect::canonical::Vendor;

pub(super) static PROFILE: Profile = Profile {
    id: "antigravity",
    aliases: &["anti-gravity"],
    is_official: |at| {
        matches!(at.host, "daily-cloudcode-pa.googleapis.com" | "daily-cloudcode-pa.sandbox.googleapis.com")
    },
    host_words: &["antigravity"],
    title: None,
    status: None,
    own_pages: None,
    data_paths: &["/v1"],
    vendor: Vendor::Gemini,
    dialects: |_, _| &[Dialect::Gemini],
    unconverted: &[],
    document_dialects: |_, _| None,
    fetches_files: false,
    lists_claude_dialects: false,
    has_extras: false,
    path: |_| "/v1internal:generateContent",
    compaction_path: "/v1/responses/compact",
    streams_responses_only: false,
    has_websocket: false,
    keeps_threads: false,
    code_assist: Some(CodeAssist {
        wants_project: false,
        agent: Some("antigravity"),
        streams_only,
        passes_on: true,
        addresses: &[
            "https://daily-cloudcode-pa.googleapis.com",
            "https://daily-cloudcode-pa.sandbox.googleapis.com",
        ],
    }),
    body_edit: None,
    login_headers: None,
    own_headers: &[],
    has_header_defaults: false,
    relays_codex: false,
    model_list: ModelList::WithSignIn,
    management: None,
    prices: None,
    usage_log: None,
    tokens_per_usd: 500_000.0,
};

/// Anthropic's models there, and some of Google's.
fn streams_only(model: &str) -> bool {
    let model = model.to_ascii_lowercase();
    ["claude", "gemini-3-pro", "gemini-3.1-flash-image"].into_iter().any(|name| model.contains(name))
}
