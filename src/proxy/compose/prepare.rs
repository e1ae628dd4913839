//! Prepares a request's body for its destination: as it came, converted, as a token count, or as a form.

use std::borrow::Cow;

use bytes::Bytes;

use crate::dialect::canonical::{ConversionError, Target, Vendor};
use crate::dialect::edit::edit;
use crate::dialect::envelope::{Thread, splice_model};
use crate::dialect::responses::PREVIOUS;
use crate::dialect::{Dialect, convert, embeddings, json, parts, payload_rules};
use crate::time::now_ms;

use super::outgoing::{
    Destination, NOT_COMPACTED, PreparedBody, always_streams, edit_of, edited, keeps_threads, platform_edit,
    quoted, streams_only, text, tiered, whole,
};
use super::{cache_key, native};
use crate::proxy::betas;
use crate::proxy::call::Call;
use crate::proxy::form_body;
use crate::proxy::operation::Operation;

/// Members that are removed from a token count.
const NOT_COUNTED: [&str; 5] =
    [betas::MEMBER, "max_tokens", "stream", "previous_response_id", "prompt_cache_key"];
/// Counting was a beta once, and still is for clients that name it.
const COUNT_BETA: &str = "token-counting-2024-11-01";

/// Prepares the body of a call for its destination, and applies the operator's rules. `operation` is the call's own,
/// or one that replaces it.
pub(super) fn prepare(
    call: &Call,
    operation: Operation,
    to: Destination<'_>,
) -> Result<PreparedBody, ConversionError> {
    // An upstream without the thread would answer the new turn without the conversation.
    let goes_on = call.envelope.thread == Thread::Continued && operation == Operation::Answer;
    if goes_on && !keeps_threads(to.platform, to.dialect) {
        return Err(ConversionError::unsupported("thread"));
    }
    if let Some(member) = to.unowned_member
        && to.dialect == Dialect::Responses
    {
        return Err(ConversionError::unsupported(member));
    }
    let mut outgoing = match operation {
        Operation::Answer if to.dialect == call.shape.dialect => native::unconverted(call, to)?,
        Operation::Answer if call.shape.dialect == Dialect::Embeddings => {
            PreparedBody::of(whole(embeddings::to_gemini(text(call), to.model)?), false)
        }
        Operation::Answer => converted(call, to)?,
        Operation::CountTokens => count(call, to)?,
        Operation::Compact => compaction(call, to),
        operation if operation.is_form() => form(call, to),
        Operation::OfGemini(action) if to.dialect == Dialect::Embeddings => {
            let body = embeddings::to_openai(action, text(call), to.model)?;
            PreparedBody::of(whole(body), false)
        }
        Operation::OfGemini(_) => {
            let as_it_came = || whole(call.body.clone());
            PreparedBody::of(native::gemini_action(call, to).map_or_else(as_it_came, whole), false)
        }
        _ => PreparedBody::of(splice_model(&call.body, &call.envelope, to.model), call.envelope.stream),
    };
    let target = payload_rules::Target {
        platform: to.platform.id(),
        model: to.model,
        requested: &call.envelope.model,
    };
    let Some(rules) = to.rules.filter(|rules| {
        let is_exempt = operation.is_form()
            || matches!(
                operation,
                Operation::CountTokens
                    | Operation::CreateBatch
                    | Operation::OfGemini(_)
                    | Operation::AlphaSearch
            );
        !is_exempt && rules.concern(target)
    }) else {
        return Ok(outgoing);
    };
    let body = outgoing.pieces.concat();
    if let Some(ruled) = rules.apply(&String::from_utf8_lossy(&body), target) {
        // Edits that the platform insists on outrank the operator's rules.
        let last = edit_of(to).filter(|own| own.outranks_rules);
        let fit = last.map(|own| edited(own, Cow::Borrowed(ruled.as_str())));
        outgoing.pieces = whole(fit.unwrap_or(ruled));
    }
    Ok(outgoing)
}

/// Builds the request that counts the tokens of the call's request.
fn count(call: &Call, to: Destination<'_>) -> Result<PreparedBody, ConversionError> {
    // A count of Gemini's accepts everything in its body.
    if to.dialect == Dialect::Gemini {
        let as_it_came = || whole(call.body.clone());
        let body = native::gemini_count(call, to).map_or_else(as_it_came, whole);
        return Ok(PreparedBody::of(body, false));
    }
    if to.dialect == Dialect::Responses {
        let body = edit(text(call), &[("model", &quoted(to.model))], &NOT_COMPACTED).into_owned();
        return Ok(PreparedBody::of(whole(body), false));
    }
    let body = edit(text(call), &[("model", &quoted(to.model))], &NOT_COUNTED).into_owned();
    let mut named = betas::in_body(text(call))?;
    named.push(COUNT_BETA.to_owned());
    Ok(PreparedBody { betas: Some(named), ..PreparedBody::of(whole(body), false) })
}

fn compaction(call: &Call, to: Destination<'_>) -> PreparedBody {
    let store = to.platform.profile().streams_responses_only.then_some("store");
    let removed: Vec<&str> = NOT_COMPACTED.into_iter().chain(store).collect();
    let body = edit(text(call), &[("model", &quoted(to.model))], &removed).into_owned();
    PreparedBody::of(whole(body), false)
}

/// Builds the body of a form, which stays a form.
fn form(call: &Call, to: Destination<'_>) -> PreparedBody {
    let pieces = splice_model(&call.body, &call.envelope, to.model);
    let content_type = form_body::form_type(&call.headers).cloned();
    PreparedBody { content_type, ..PreparedBody::of(pieces, call.envelope.stream) }
}

/// Converts a body to another dialect than the client's.
fn converted(call: &Call, to: Destination<'_>) -> Result<PreparedBody, ConversionError> {
    let stream = call.envelope.stream || always_streams(to.platform, to.dialect) || streams_only(to);
    let target = Target { model: to.model, stream, vendor: to.platform.profile().vendor };
    // Only Gemini wants signatures of calls back, and only its own clients and some of chat bring them.
    let signature_of = |id: &str| match target.vendor {
        Vendor::Gemini => call.call_signatures.find(call.key_id, id, now_ms()),
        _ => None,
    };
    parts::check(call.shape.dialect, text(call), to.max_parts)?;
    let converted = convert::request_with(call.shape.dialect, to.dialect, text(call), &target, signature_of)?;
    call.trace.members_dropped(&converted.unknown);
    let mut written = converted.body;
    if let Some(key) = to.cache_key {
        written = with_cache_key(&written, key);
    }
    let has_tiers = match to.dialect {
        Dialect::Responses => true,
        // Clients of chat know which tiers their sites accept.
        Dialect::Chat => call.shape.dialect == Dialect::Responses,
        _ => false,
    };
    if has_tiers && call.envelope.has_tier {
        let tiered = tiered(call, to, &String::from_utf8_lossy(&written))?;
        written = tiered.map_or(written, Bytes::from);
    }
    let mut context = converted.context;
    if let Some(previous) = &call.previous {
        context.echo.push((PREVIOUS, quoted(previous)));
    }
    let pieces = match platform_edit(to, || String::from_utf8_lossy(&written)) {
        None => whole(written),
        Some(body) => whole(body),
    };
    Ok(PreparedBody { reply_context: Some(Box::new(context)), ..PreparedBody::of(pieces, stream) })
}

/// Adds a `prompt_cache_key` to the body, unless its client gave one.
fn with_cache_key(body: &Bytes, key: &str) -> Bytes {
    let text = String::from_utf8_lossy(body);
    match json::member(&text, cache_key::MEMBER) {
        Some(_) => body.clone(),
        None => Bytes::from(edit(&text, &[(cache_key::MEMBER, &quoted(key))], &[]).into_owned()),
    }
}
