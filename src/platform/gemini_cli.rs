//! The upstream of Gemini's command line, for accounts with a Google sign-in.

use super::profile::{CodeAssist, ModelList, Profile};
use crate::dialect::Dialect;
use crate::dialect::canonical::Vendor;

pub(super) const PROFILE: Profile = Profile {
    id: "gemini-cli",
    aliases: &[],
    is_official: |at| at.host == "cloudcode-pa.googleapis.com",
    host_words: &[],
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
        wants_project: true,
        agent: None,
        streams_only: |_| false,
        passes_on: false,
        addresses: &[],
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
