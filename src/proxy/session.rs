//! The conversation a request belongs to.
//!
//! A request may go on from an answer that its upstream has stored: no other channel knows its `previous_response_id`, or
//! keeps its `thread`. Then it belongs to the conversation that this answer opened. Otherwise the conversation's name is the
//! client's session id, else the prompt cache key of the body, else the user id of Claude Code, else the id of the WebSocket;
//! the name counts for one caller, one kind of client, one surface and one model. A request without a name, or while
//! stickiness is off, has no conversation: nothing is bound, and no slot of a channel is taken.

use std::borrow::Cow;

use crate::core::Core;
use crate::dialect::envelope::{Envelope, Thread};
use crate::dialect::json;
use crate::ids::{ChannelOrMember, KeyId};
use crate::routing::Conversation;
use crate::routing::pattern::lower_case;
use crate::settings::Settings;
use crate::time::now_ms;

use super::client::{Client, Family};

/// A conversation, identified by its hash.
#[derive(Clone, Copy, Debug)]
pub(super) struct Session {
    conversation: Conversation,
    /// Whether an answer names it, from which the request goes on.
    is_of_answer: bool,
}

/// The parts of a request that tell its conversation.
pub(super) struct SessionSource<'r> {
    pub(super) client: &'r Client,
    /// The path of the surface.
    pub(super) path: &'r str,
    pub(super) envelope: &'r Envelope,
    pub(super) body: &'r [u8],
    pub(super) key_id: Option<KeyId>,
    /// The name of the WebSocket that the request comes over.
    pub(super) socket: Option<&'r str>,
}

impl Session {
    /// Finds the conversation of a request.
    pub(super) fn of(core: &Core, settings: &Settings, source: &SessionSource<'_>) -> Option<Self> {
        Self::going_on(core, source).or_else(|| Self::named(core, settings, source))
    }

    /// Finds the conversation that a request names.
    fn named(core: &Core, settings: &Settings, source: &SessionSource<'_>) -> Option<Self> {
        let SessionSource { client, path, envelope, key_id, .. } = *source;
        let name = name(client, envelope).or(source.socket)?;
        settings.sticky_ttl?;
        let known_by = KnownBy::session(key_id, client.family, path, &envelope.model, name);
        Some(Self { conversation: core.affinity.conversation(known_by), is_of_answer: false })
    }

    /// Finds the conversation of a request that goes on from an answer whose channel is known.
    fn going_on(core: &Core, source: &SessionSource<'_>) -> Option<Self> {
        let SessionSource { envelope, body, key_id, .. } = *source;
        let goes_on = envelope.thread == Thread::Continued;
        if !envelope.has_previous && !goes_on {
            return None;
        }
        let body = std::str::from_utf8(body).ok()?;
        let id = if goes_on {
            json::member(json::member(body, "thread")?, "previous_message_id")?
        } else {
            json::member(body, "previous_response_id")?
        };
        let id = json::string(id)?;
        let session = Self { conversation: opened_by(core, key_id, &id), is_of_answer: true };
        session.channel(core).map(|_| session)
    }

    pub(super) fn conversation(&self) -> Conversation {
        self.conversation
    }

    /// Returns the channel that served the conversation last.
    pub(super) fn channel(&self, core: &Core) -> Option<ChannelOrMember> {
        core.affinity.lookup(self.conversation, now_ms())
    }

    /// Returns the channel that gave the answer from which the request goes on.
    pub(super) fn answers_channel(&self, core: &Core) -> Option<ChannelOrMember> {
        self.is_of_answer.then(|| self.channel(core))?
    }
}

/// Returns the conversation that a stored answer opens, by the id under which its caller knows it.
pub(super) fn opened_by(core: &Core, key_id: Option<KeyId>, answer_id: &str) -> Conversation {
    core.affinity.conversation(KnownBy::Answer { key_id, answer_id })
}

fn name<'c>(client: &'c Client, envelope: &'c Envelope) -> Option<&'c str> {
    let user = || envelope.user.as_deref().filter(|_| client.family == Family::ClaudeCode);
    client.session.as_deref().or(envelope.prompt_cache_key.as_deref()).or_else(user)
}

/// What identifies a conversation. A `key_id` of `None` is the global token.
#[derive(Debug, PartialEq, Eq, Hash)]
enum KnownBy<'a> {
    Session {
        key_id: Option<KeyId>,
        family: &'static str,
        path: &'a str,
        /// The model's name in lower case: two spellings name one model.
        model: Cow<'a, str>,
        name: &'a str,
    },
    Answer {
        key_id: Option<KeyId>,
        answer_id: &'a str,
    },
}

impl<'a> KnownBy<'a> {
    fn session(key_id: Option<KeyId>, family: Family, path: &'a str, model: &'a str, name: &'a str) -> Self {
        Self::Session { key_id, family: family.id(), path, model: lower_case(model), name }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::dialect::Dialect;
    use crate::dialect::envelope::skim;
    use crate::proxy::client::Confidence;

    #[test]
    fn a_model_is_known_in_any_case_and_a_session_in_its_own() {
        let session = |id, family, path, model, name| KnownBy::session(id, family, path, model, name);
        let known_by = session(Some(KeyId::new(7)), Family::Codex, "/v1/responses", "GPT-5", "Abc");
        assert_eq!(session(Some(KeyId::new(7)), Family::Codex, "/v1/responses", "gpt-5", "Abc"), known_by);
        for other in [
            session(None, Family::Codex, "/v1/responses", "GPT-5", "Abc"),
            session(Some(KeyId::new(7)), Family::Generic, "/v1/responses", "GPT-5", "Abc"),
            session(Some(KeyId::new(7)), Family::Codex, "/v1/messages", "GPT-5", "Abc"),
            session(Some(KeyId::new(7)), Family::Codex, "/v1/responses", "GPT-5x", "Abc"),
            session(Some(KeyId::new(7)), Family::Codex, "/v1/responses", "GPT-5", "abc"),
            KnownBy::Answer { key_id: Some(KeyId::new(7)), answer_id: "Abc" },
        ] {
            assert_ne!(other, known_by);
        }
    }

    #[test]
    fn a_session_id_goes_before_a_cache_key_and_that_before_claude_codes_user() {
        let body = |rest: &str| format!("{{\"model\":\"m\",\"messages\":[1]{rest}}}");
        let cache_key = ",\"prompt_cache_key\":\"cache\"";
        let user = ",\"metadata\":{\"user_id\":\"user_1\"}";
        for (family, session, rest, expected) in [
            (Family::ClaudeCode, Some("s"), format!("{cache_key}{user}"), Some("s")),
            (Family::ClaudeCode, None, format!("{cache_key}{user}"), Some("cache")),
            (Family::ClaudeCode, None, user.to_owned(), Some("user_1")),
            (Family::Generic, None, cache_key.to_owned(), Some("cache")),
            (Family::Generic, None, user.to_owned(), None),
        ] {
            let envelope = skim(Dialect::Messages, body(&rest).as_bytes()).unwrap();
            let session = session.map(Arc::from);
            let confidence = Confidence::Unknown;
            let client = Client { family, confidence, app: None, session, names_version: false };
            assert_eq!(name(&client, &envelope), expected, "{rest}");
        }
    }
}
