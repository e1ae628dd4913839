//! The body for an upstream, its destination, and the edits that apply wherever it goes.

use std::borrow::Cow;

use bytes::Bytes;
use hyper::header::HeaderValue;
use memchr::memmem;

use crate::dialect::canonical::{ConversionError, ReplyContext, Vendor};
use crate::dialect::edit::edit;
use crate::dialect::payload_rules::PayloadRules;
use crate::dialect::service_tier::{self, TierRules, TierVerdict};
use crate::dialect::tree::Node;
use crate::dialect::{Dialect, json, responses};
use crate::platform::{BodyEdit, Platform};

use crate::proxy::betas::RefusedBetas;
use crate::proxy::call::Call;

/// Members that are removed from a compaction and from a count of responses.
pub(super) const NOT_COMPACTED: [&str; 2] = ["stream", "stream_options"];

/// A body in an upstream's dialect.
pub(in crate::proxy) struct PreparedBody {
    pub(in crate::proxy) pieces: [Bytes; 3],
    /// Whether the upstream streams, whatever the client wants.
    pub(in crate::proxy) stream: bool,
    /// The betas to name in `anthropic-beta`.
    pub(in crate::proxy) betas: Option<Vec<String>>,
    /// The betas that the upstream refuses.
    pub(in crate::proxy) refused_betas: RefusedBetas,
    /// The content type, where the body is not JSON.
    pub(in crate::proxy) content_type: Option<HeaderValue>,
    /// Whether the client's headers are left out, except those the protocol needs.
    pub(in crate::proxy) bare: bool,
    /// The context in which the answer is written; set when the body was converted.
    pub(in crate::proxy) reply_context: Option<Box<ReplyContext>>,
}

impl PreparedBody {
    pub(in crate::proxy) fn of(pieces: [Bytes; 3], stream: bool) -> Self {
        Self {
            pieces,
            stream,
            betas: None,
            refused_betas: RefusedBetas::None,
            content_type: None,
            bare: false,
            reply_context: None,
        }
    }
}

/// The upstream that a body is written for.
#[derive(Clone, Copy)]
pub(in crate::proxy) struct Destination<'a> {
    pub(in crate::proxy) platform: Platform,
    /// The dialect that the upstream is asked in.
    pub(in crate::proxy) dialect: Dialect,
    /// The model's name at the upstream.
    pub(in crate::proxy) model: &'a str,
    /// How the account signs in: `apikey`, `session` or `oauth`.
    pub(super) account_type: &'static str,
    /// The changes that the operator wants in bodies, if any.
    pub(in crate::proxy) rules: Option<&'a PayloadRules>,
    /// The name of the member that refers to an answer or conversation that may be another key's.
    pub(in crate::proxy) unowned_member: Option<&'static str>,
    /// The service tiers that the operator lets pass.
    pub(super) tiers: &'a TierRules,
    /// The maximum number of parts and calls in a request that is converted.
    pub(super) max_parts: usize,
    /// The `prompt_cache_key` of the conversation, where the client's dialect has none.
    pub(in crate::proxy) cache_key: Option<&'a str>,
}

/// Whether the upstream keeps threads of the messages dialect.
pub(super) fn keeps_threads(platform: Platform, dialect: Dialect) -> bool {
    platform.profile().keeps_threads && dialect == Dialect::Messages
}

/// Whether no answer given there is kept, so that a client cannot go on from it.
pub(in crate::proxy) fn keeps_nothing(platform: Platform, dialect: Dialect) -> bool {
    match dialect {
        Dialect::Messages => !keeps_threads(platform, dialect),
        _ => always_streams(platform, dialect),
    }
}

/// Returns the body as text; it was checked to be UTF-8 when the call was read.
pub(super) fn text(call: &Call) -> &str {
    std::str::from_utf8(&call.body).unwrap_or_default()
}

/// Returns the body with a service tier that its upstream accepts; `None` where nothing changes.
pub(super) fn tiered(
    call: &Call,
    to: Destination<'_>,
    body: &str,
) -> Result<Option<String>, ConversionError> {
    const TIER: &str = "service_tier";
    let target = service_tier::Target {
        platform: to.platform.id(),
        is_vendor: to.platform.profile().vendor == Vendor::OpenAi,
        models: [to.model, &call.envelope.model],
        account_type: to.account_type,
    };
    match to.tiers.judge(body, target) {
        TierVerdict::Kept => Ok(None),
        TierVerdict::Renamed(tier) => Ok(Some(edit(body, &[(TIER, &quoted(tier))], &[]).into_owned())),
        TierVerdict::LeftOut => Ok(Some(edit(body, &[], &[TIER]).into_owned())),
        TierVerdict::Blocked(tier) => {
            Err(ConversionError::invalid(TIER, &format!("{tier} is not allowed here")))
        }
    }
}

/// Returns the edit that a platform wants in bodies of this dialect.
pub(super) fn edit_of(to: Destination<'_>) -> Option<&'static BodyEdit> {
    to.platform.profile().body_edit.as_ref().filter(|own| own.dialect == to.dialect)
}

/// Returns the body as its platform wants it. `body` is called only where there is something to change: reading it as text
/// costs a walk through all of it.
pub(super) fn platform_edit<'b>(to: Destination<'_>, body: impl FnOnce() -> Cow<'b, str>) -> Option<String> {
    edit_of(to).map(|own| edited(own, body()))
}

pub(super) fn edited(own: &BodyEdit, body: Cow<'_, str>) -> String {
    let Some(given) = own.instructions else { return edit(&body, own.set, own.removed).into_owned() };
    let body = gathered_instructions(body);
    let instructions = json::member(&body, "instructions");
    let lacks_some = instructions.is_none_or(|text| matches!(text, "null" | "\"\""));
    let missing = lacks_some.then_some(("instructions", given));
    let message = json::member(&body, "input").and_then(responses::as_message);
    let listed = message.as_deref().map(|message| ("input", message));
    let set: Vec<_> = own.set.iter().copied().chain(missing).chain(listed).collect();
    edit(&body, &set, own.removed).into_owned()
}

/// Gathers system messages into the instructions. Only a body that contains the word can have one.
fn gathered_instructions(body: Cow<'_, str>) -> Cow<'_, str> {
    let gathered = || responses::with_gathered_instructions(&Node::parse(&body).ok()?);
    match memmem::find(body.as_bytes(), b"\"system\"").and_then(|_| gathered()) {
        Some(gathered) => Cow::Owned(gathered),
        None => body,
    }
}

/// Whether the upstream answers responses requests only with a stream. Such upstreams are asked to store nothing.
pub(super) fn always_streams(platform: Platform, dialect: Dialect) -> bool {
    dialect == Dialect::Responses && platform.profile().streams_responses_only
}

/// Whether the upstream answers for this model only with a stream.
pub(super) fn streams_only(to: Destination<'_>) -> bool {
    let code_assist = to.platform.profile().code_assist.as_ref();
    code_assist.is_some_and(|code_assist| (code_assist.streams_only)(to.model))
}

pub(super) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

pub(super) fn whole(body: impl Into<Bytes>) -> [Bytes; 3] {
    [body.into(), Bytes::new(), Bytes::new()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_kept_by_anthropic_alone() {
        for (platform, dialect, nothing) in [
            (Platform::Claude, Dialect::Messages, false),
            (Platform::NewApi, Dialect::Messages, true),
            (Platform::NewApi, Dialect::Responses, false),
            (Platform::Codex, Dialect::Responses, true),
        ] {
            assert_eq!(keeps_nothing(platform, dialect), nothing, "{platform:?} {dialect:?}");
        }
    }
}
