//! AnyRouter: a new-api that relays mainly to Claude Code and Codex.

use super::profile::{Profile, Title, UsageLog};
use super::{new_api, relay};
use crate::dialect::Dialect::{self, Chat, Messages, Responses};

pub(super) const PROFILE: Profile = Profile {
    id: "anyrouter",
    aliases: &[],
    host_words: &["anyrouter"],
    title: Some(Title { pattern: r"\bany[-_ ]?router\b", is_proof: true }),
    status: None,
    dialects,
    document_dialects,
    fetches_files: true,
    usage_log: Some(UsageLog {
        path: "/api/log/self?p=0&page=1&page_size=20&order=-created_at",
        only_without_usage: false,
    }),
    ..new_api::PROFILE
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
