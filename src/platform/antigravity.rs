//! The upstream of Antigravity, for accounts with a Google sign-in: the API of Gemini's command line with rules of
//! its own.

use super::gemini_cli;
use super::profile::{CodeAssist, Profile};

pub(super) const PROFILE: Profile = Profile {
    id: "antigravity",
    aliases: &["anti-gravity"],
    is_official: |at| {
        matches!(at.host, "daily-cloudcode-pa.googleapis.com" | "daily-cloudcode-pa.sandbox.googleapis.com")
    },
    host_words: &["antigravity"],
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
    ..gemini_cli::PROFILE
};

/// Returns whether a model answers only with a stream: Anthropic's models there, and some of Google's.
fn streams_only(model: &str) -> bool {
    let model = model.to_ascii_lowercase();
    ["claude", "gemini-3-pro", "gemini-3.1-flash-image"].into_iter().any(|name| model.contains(name))
}
