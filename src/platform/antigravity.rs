//! The upstream of Antigravity. It takes envelopes of its own only, after an OAuth sign-in that this build does not have.

use super::profile::{ModelList, Profile};
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
    dialects: |_, _| &[],
    unconverted: &[],
    document_dialects: |_, _| None,
    fetches_files: false,
    lists_claude_dialects: false,
    has_extras: true,
    path: Dialect::path,
    compaction_path: "/v1/responses/compact",
    streams_responses_only: false,
    keeps_threads: false,
    body_edit: None,
    own_headers: &[],
    relays_codex: false,
    model_list: ModelList::WithSignIn,
    management: None,
    prices: None,
    usage_log: None,
    tokens_per_usd: 500_000.0,
};
