//! The body an upstream gets: the client's own bytes, edited where the platform needs it, or converted.

use std::borrow::Cow;

use bytes::Bytes;
use hyper::header::HeaderValue;
use memchr::memmem;

use crate::dialect::canonical::{ConversionError, ReplyContext, Target, Vendor};
use crate::dialect::data_urls::with_data_urls;
use crate::dialect::edit::edit;
use crate::dialect::embeddings;
use crate::dialect::envelope::{Thread, splice_model};
use crate::dialect::payload_rules::{self, PayloadRules};
use crate::dialect::service_tier::{self, TierRules, Verdict};
use crate::dialect::signature::PREFIX_IN_BYTES;
use crate::dialect::tree::Node;
use crate::dialect::{Dialect, chat, convert, gemini, json, messages, parts, responses};
use crate::platform::{BodyEdit, Platform};
use crate::time::now_ms;

use super::cache_key;
use crate::proxy::call::Call;
use crate::proxy::client::Family;
use crate::proxy::form_body;
use crate::proxy::operation::Operation;

/// Fields of the responses dialect that bridges leave in messages bodies.
const CONTINUATION: [&str; 2] = ["previous_response_id", "prompt_cache_key"];
const PREVIOUS: &str = "previous_response_id";
const REFERENCE: &str = "item_reference";
const ENCRYPTED_REASONING: &str = "[\"reasoning.encrypted_content\"]";
/// What a count has no use for.
const NOT_COUNTED: [&str; 5] = ["betas", "max_tokens", "stream", "previous_response_id", "prompt_cache_key"];
/// Counting was a beta once, and still is for those who say so.
const COUNT_BETA: &str = "token-counting-2024-11-01";
/// What a compaction has no use for, nor a count of responses.
const NOT_COMPACTED: [&str; 2] = ["stream", "stream_options"];

/// A body in an upstream's dialect.
pub(in crate::proxy) struct Outgoing {
    pub(in crate::proxy) pieces: [Bytes; 3],
    /// The upstream streams, whatever the client wants.
    pub(in crate::proxy) stream: bool,
    /// To be said in `anthropic-beta`.
    pub(in crate::proxy) betas: Option<Vec<String>>,
    /// Where the body is no JSON.
    pub(in crate::proxy) content_type: Option<HeaderValue>,
    /// The client's headers stay here, but for what the protocol needs.
    pub(in crate::proxy) bare: bool,
    /// Set when the body was converted: what the answer's writer must know.
    pub(in crate::proxy) reply_context: Option<Box<ReplyContext>>,
}

impl Outgoing {
    pub(in crate::proxy) fn of(pieces: [Bytes; 3], stream: bool) -> Self {
        Self { pieces, stream, betas: None, content_type: None, bare: false, reply_context: None }
    }
}

/// Whom a body is written for.
#[derive(Clone, Copy)]
pub(in crate::proxy) struct Destination<'a> {
    pub(in crate::proxy) platform: Platform,
    /// The dialect it is asked in.
    pub(in crate::proxy) format: Dialect,
    /// The model's name there.
    pub(in crate::proxy) model: &'a str,
    /// How its account signs in: `apikey`, `session` or `oauth`.
    pub(super) account_type: &'static str,
    /// What the operator wants changed in bodies, if anything.
    pub(in crate::proxy) rules: Option<&'a PayloadRules>,
    /// What the call goes on from may be another key's: the name of the member.
    pub(in crate::proxy) withheld: Option<&'static str>,
    /// Which service tiers the operator lets pass.
    pub(super) tiers: &'a TierRules,
    /// The most parts and calls of a request that is converted.
    pub(super) max_parts: usize,
    /// The name of the conversation for the cache of its prompt, where the client's dialect has no word for it.
    pub(in crate::proxy) cache_key: Option<&'a str>,
}

/// The body of a call for its destination, as the operator's rules want it. The operation is the call's,
/// or what stands in for it.
pub(in crate::proxy) fn prepare(
    call: &Call,
    operation: Operation,
    to: Destination<'_>,
) -> Result<Outgoing, ConversionError> {
    // Any other would answer the new words without the conversation.
    let goes_on = call.envelope.thread == Thread::Continued && operation == Operation::Answer;
    if goes_on && !keeps_threads(to.platform, to.format) {
        return Err(ConversionError::unsupported("thread"));
    }
    if let Some(member) = to.withheld
        && to.format == Dialect::Responses
    {
        return Err(ConversionError::unsupported(member));
    }
    let mut outgoing = match operation {
        Operation::Answer if to.format == call.shape.dialect => native(call, to)?,
        Operation::Answer if call.shape.dialect == Dialect::Embeddings => {
            Outgoing::of([embeddings::to_gemini(text(call), to.model)?, Bytes::new(), Bytes::new()], false)
        }
        Operation::Answer => converted(call, to)?,
        Operation::CountTokens => count(call, to),
        Operation::Compact => compaction(call, to),
        operation if operation.is_form() => form(call, to),
        Operation::OfGemini(action) if to.format == Dialect::Embeddings => {
            let body = embeddings::to_openai(action, text(call), to.model)?;
            Outgoing::of([body, Bytes::new(), Bytes::new()], false)
        }
        // The path names the model.
        Operation::OfGemini(_) => Outgoing::of([call.body.clone(), Bytes::new(), Bytes::new()], false),
        _ => Outgoing::of(splice_model(&call.body, &call.envelope, to.model), call.envelope.stream),
    };
    let target = payload_rules::Target {
        platform: to.platform.id(),
        model: to.model,
        requested: &call.envelope.model,
    };
    let Some(rules) = to.rules.filter(|rules| {
        let is_other =
            matches!(operation, Operation::CountTokens | Operation::OfGemini(_) | Operation::AlphaSearch);
        let is_exempt = is_other || call.shape.dialect == Dialect::Embeddings;
        to.format.is_convertible() && !is_exempt && rules.concern(target)
    }) else {
        return Ok(outgoing);
    };
    let body = outgoing.pieces.concat();
    if let Some(ruled) = rules.apply(&String::from_utf8_lossy(&body), target) {
        // What some refuse to read, no rule can give them.
        let last = edit_of(to).filter(|own| own.outranks_rules);
        let fit = last.map(|own| edited(own, Cow::Borrowed(ruled.as_str())));
        outgoing.pieces = whole(fit.unwrap_or(ruled));
    }
    Ok(outgoing)
}

/// The question how many tokens the call's request has.
fn count(call: &Call, to: Destination<'_>) -> Outgoing {
    // Gemini's path names the model, and its body has nothing that a count has no use for.
    if to.format == Dialect::Gemini {
        let as_it_came = || [call.body.clone(), Bytes::new(), Bytes::new()];
        return Outgoing::of(gemini_edit(call, to).map_or_else(as_it_came, whole), false);
    }
    if to.format == Dialect::Responses {
        let body = edit(text(call), &[("model", &quoted(to.model))], &NOT_COMPACTED).into_owned();
        return Outgoing::of(whole(body), false);
    }
    let body = edit(text(call), &[("model", &quoted(to.model))], &NOT_COUNTED).into_owned();
    Outgoing { betas: Some(betas(text(call))), ..Outgoing::of(whole(body), false) }
}

fn compaction(call: &Call, to: Destination<'_>) -> Outgoing {
    let store = to.platform.profile().streams_responses_only.then_some("store");
    let removed: Vec<&str> = NOT_COMPACTED.into_iter().chain(store).collect();
    let body = edit(text(call), &[("model", &quoted(to.model))], &removed).into_owned();
    Outgoing::of(whole(body), false)
}

/// A form, which is handed on as one.
fn form(call: &Call, to: Destination<'_>) -> Outgoing {
    let pieces = splice_model(&call.body, &call.envelope, to.model);
    let content_type = form_body::form_type(&call.headers).cloned();
    Outgoing { content_type, ..Outgoing::of(pieces, call.envelope.stream) }
}

/// A body that stays in the client's dialect.
fn native(call: &Call, to: Destination<'_>) -> Result<Outgoing, ConversionError> {
    let always_streams = always_streams(to.platform, to.format);
    if always_streams && call.envelope.has_previous && continues(text(call)) {
        // These keep nothing that it could refer to.
        return Err(ConversionError::unsupported(PREVIOUS));
    }
    if always_streams && call.shape.dialect == Dialect::Responses && refers_to_items(call) {
        return Err(ConversionError::unsupported(REFERENCE));
    }
    let pieces = match native_edit(call, to)? {
        // The path names the model.
        None if to.format == Dialect::Gemini => [call.body.clone(), Bytes::new(), Bytes::new()],
        None => splice_model(&call.body, &call.envelope, to.model),
        Some(body) if to.format == Dialect::Gemini => whole(body),
        Some(body) => whole(edit(&body, &[("model", &quoted(to.model))], &[]).into_owned()),
    };
    Ok(Outgoing::of(pieces, call.envelope.stream || always_streams || streams_only(to)))
}

/// A body in another dialect than the client's.
fn converted(call: &Call, to: Destination<'_>) -> Result<Outgoing, ConversionError> {
    let stream = call.envelope.stream || always_streams(to.platform, to.format) || streams_only(to);
    let target = Target { model: to.model, stream, vendor: to.platform.profile().vendor };
    // Only gemini wants signatures of calls back, and only clients of chat and its own bring them.
    let signature_of = |id: &str| match target.vendor {
        Vendor::Gemini => call.call_signatures.find(call.key_id, id, now_ms()),
        _ => None,
    };
    parts::check(call.shape.dialect, text(call), to.max_parts)?;
    let converted = convert::request_with(call.shape.dialect, to.format, text(call), &target, signature_of)?;
    call.trace.members_dropped(&converted.unknown);
    let mut written = converted.body;
    if let Some(key) = to.cache_key {
        written = with_cache_key(&written, key);
    }
    if to.format == Dialect::Responses && call.envelope.has_tier {
        let tiered = tiered(call, to, &String::from_utf8_lossy(&written))?;
        written = tiered.map_or(written, Bytes::from);
    }
    let mut context = converted.context;
    if let Some(previous) = &call.previous {
        context.echo.push((PREVIOUS, quoted(previous)));
    }
    let pieces = match platform_edit(to, || String::from_utf8_lossy(&written)) {
        None => [written, Bytes::new(), Bytes::new()],
        Some(body) => whole(body),
    };
    Ok(Outgoing { reply_context: Some(Box::new(context)), ..Outgoing::of(pieces, stream) })
}

/// The body with a key for the cache of its prompt, unless its client gave one.
fn with_cache_key(body: &Bytes, key: &str) -> Bytes {
    let text = String::from_utf8_lossy(body);
    match json::member(&text, cache_key::MEMBER) {
        Some(_) => body.clone(),
        None => Bytes::from(edit(&text, &[(cache_key::MEMBER, &quoted(key))], &[]).into_owned()),
    }
}

/// Whether threads of messages are kept there.
fn keeps_threads(platform: Platform, format: Dialect) -> bool {
    platform.profile().keeps_threads && format == Dialect::Messages
}

/// Whether a client can go on from no answer that was given there, since it is not kept.
pub(in crate::proxy) fn keeps_nothing(platform: Platform, format: Dialect) -> bool {
    match format {
        Dialect::Messages => !keeps_threads(platform, format),
        _ => always_streams(platform, format),
    }
}

fn continues(body: &str) -> bool {
    json::member(body, PREVIOUS).is_some_and(|id| id != "null")
}

/// Whether items stand in the body by their ids alone. Those of answers stored here have been put in before.
fn refers_to_items(call: &Call) -> bool {
    memmem::find(&call.body, REFERENCE.as_bytes()).is_some()
        && Node::parse(text(call)).is_ok_and(|body| responses::refers_to_items(&body))
}

/// `betas` of a messages body: a list or a comma-separated text.
fn betas(body: &str) -> Vec<String> {
    let given = json::member(body, "betas").and_then(|value| serde_json::from_str(value).ok());
    let named: Vec<String> = match given {
        Some(serde_json::Value::String(text)) => text.split(',').map(|beta| beta.trim().to_owned()).collect(),
        Some(serde_json::Value::Array(items)) => {
            items.iter().filter_map(|item| item.as_str().map(str::to_owned)).collect()
        }
        _ => Vec::new(),
    };
    named.into_iter().filter(|beta| !beta.is_empty()).chain([COUNT_BETA.to_owned()]).collect()
}

/// The body skimmed at the door was valid UTF-8.
fn text(call: &Call) -> &str {
    std::str::from_utf8(&call.body).unwrap_or_default()
}

/// A body of gemini's without what Google cannot read: thoughts that another provider signed, and words of OpenAI's.
fn gemini_edit(call: &Call, to: Destination<'_>) -> Option<String> {
    let mut body = None;
    if memmem::find(&call.body, PREFIX_IN_BYTES.as_bytes()).is_some() {
        let cleaned = Node::parse(text(call)).ok().and_then(|body| gemini::without_foreign_thinking(&body));
        body = cleaned.and_then(|cleaned| String::from_utf8(cleaned.into()).ok());
    }
    if call.envelope.has_openai_words {
        let node = Node::parse(body.as_deref().unwrap_or_else(|| text(call))).ok();
        body = node.and_then(|node| gemini::with_own_thinking(&node, to.model)).or(body);
    }
    body
}

/// The client's body where it cannot go as it came; `None` where it can, which is nearly always.
fn native_edit(call: &Call, to: Destination<'_>) -> Result<Option<String>, ConversionError> {
    // What an earlier answer of ours left in the conversation, which only we can read.
    let restored = |clean: fn(&Node<'_>) -> Option<Bytes>| {
        let body = Node::parse(text(call)).ok().and_then(|body| clean(&body))?;
        String::from_utf8(body.into()).ok()
    };
    let mut body = None;
    match to.format {
        Dialect::Messages => {
            if call.envelope.marks.own {
                body = restored(messages::without_foreign_thinking);
            }
            let is_kept = keeps_threads(to.platform, to.format);
            let thread = (call.envelope.thread != Thread::None && !is_kept).then_some("thread");
            if call.envelope.has_continuation || thread.is_some() {
                let whole = body.as_deref().unwrap_or_else(|| text(call));
                let removed: Vec<&str> = CONTINUATION.into_iter().chain(thread).collect();
                body = Some(edit(whole, &[], &removed).into_owned());
            }
        }
        Dialect::Gemini => body = gemini_edit(call, to),
        Dialect::Chat => {
            if call.envelope.marks.own {
                body = restored(chat::without_foreign_signatures);
            }
            // A chat has no earlier answer to go on from.
            if call.envelope.has_previous {
                let whole = body.as_deref().unwrap_or_else(|| text(call));
                body = Some(edit(whole, &[], &[PREVIOUS]).into_owned());
            }
        }
        Dialect::Responses => {
            if call.envelope.marks.own {
                body = restored(responses::without_own_ids);
            }
            // Codex wants back what it thought, whether it says so or not.
            if call.client.family == Family::Codex && !call.envelope.has_include {
                let whole = body.as_deref().unwrap_or_else(|| text(call));
                body = Some(edit(whole, &[("include", ENCRYPTED_REASONING)], &[]).into_owned());
            }
            if call.envelope.has_tier {
                let whole = body.as_deref().unwrap_or_else(|| text(call));
                body = tiered(call, to, whole)?.or(body);
            }
        }
        _ => {}
    }
    if call.asks_for_usage {
        body = chat::with_usage(body.as_deref().unwrap_or_else(|| text(call))).or(body);
    }
    if matches!(to.format, Dialect::Chat | Dialect::Responses) && call.envelope.marks.file_data {
        let node = Node::parse(body.as_deref().unwrap_or_else(|| text(call))).ok();
        body = node.and_then(|node| with_data_urls(&node)).or(body);
    }
    let edited = platform_edit(to, || Cow::Borrowed(body.as_deref().unwrap_or_else(|| text(call))));
    Ok(edited.or(body))
}

/// The body with a service tier that its upstream may be asked for; `None` where it is as it was.
fn tiered(call: &Call, to: Destination<'_>, body: &str) -> Result<Option<String>, ConversionError> {
    const TIER: &str = "service_tier";
    let target = service_tier::Target {
        platform: to.platform.id(),
        is_vendor: to.platform.profile().vendor == Vendor::OpenAi,
        models: [to.model, &call.envelope.model],
        account_type: to.account_type,
    };
    match to.tiers.judge(body, target) {
        Verdict::Kept => Ok(None),
        Verdict::Renamed(tier) => Ok(Some(edit(body, &[(TIER, &quoted(tier))], &[]).into_owned())),
        Verdict::LeftOut => Ok(Some(edit(body, &[], &[TIER]).into_owned())),
        Verdict::Blocked(tier) => Err(ConversionError::invalid(TIER, &format!("{tier} is not allowed here"))),
    }
}

/// What a platform wants changed in bodies of this dialect.
fn edit_of(to: Destination<'_>) -> Option<&'static BodyEdit> {
    to.platform.profile().body_edit.as_ref().filter(|own| own.dialect == to.format)
}

/// The body as its platform wants it. It is only asked for where there is something to change: reading it as text
/// costs a walk through all of it.
fn platform_edit<'b>(to: Destination<'_>, body: impl FnOnce() -> Cow<'b, str>) -> Option<String> {
    edit_of(to).map(|own| edited(own, body()))
}

fn edited(own: &BodyEdit, body: Cow<'_, str>) -> String {
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

/// Only a body with the word in it can have a system message.
fn gathered_instructions(body: Cow<'_, str>) -> Cow<'_, str> {
    let gathered = || responses::with_gathered_instructions(&Node::parse(&body).ok()?);
    match memmem::find(body.as_bytes(), b"\"system\"").and_then(|_| gathered()) {
        Some(gathered) => Cow::Owned(gathered),
        None => body,
    }
}

/// These answer responses requests with a stream or not at all, and are asked to store
/// nothing.
pub(super) fn always_streams(platform: Platform, format: Dialect) -> bool {
    format == Dialect::Responses && platform.profile().streams_responses_only
}

/// Whether the model answers with a stream there or not at all.
fn streams_only(to: Destination<'_>) -> bool {
    let code_assist = to.platform.profile().code_assist.as_ref();
    code_assist.is_some_and(|code_assist| (code_assist.streams_only)(to.model))
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn whole(body: String) -> [Bytes; 3] {
    [Bytes::from(body), Bytes::new(), Bytes::new()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_kept_by_anthropic_alone() {
        for (platform, format, nothing) in [
            (Platform::Claude, Dialect::Messages, false),
            (Platform::NewApi, Dialect::Messages, true),
            (Platform::NewApi, Dialect::Responses, false),
            (Platform::Codex, Dialect::Responses, true),
        ] {
            assert_eq!(keeps_nothing(platform, format), nothing, "{platform:?} {format:?}");
        }
    }
}
