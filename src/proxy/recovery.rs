//! A request in other words, for an upstream that refused it for its form (proxy.md 8.4).
//!
//! | the upstream | refuses | and gets |
//! |---|---|---|
//! | messages | the form in which thinking is asked for | the other form |
//! | messages | thinking that nobody signed, or calls without their thinking | none of that |
//! | messages | the schema of the answer | its objects closed; then the schema in words |
//! | messages | a body in which it finds no messages | the body read and written anew |
//! | gemini | calls that no model of its own signed | a placeholder for each signature |
//! | responses | an answer that it does not know (any more) | no reference to it |
//! | responses | reasoning that another account encrypted | no reasoning |
//! | responses | something that it does not know, 400 | no metadata; known fields only; the bare minimum |
//! | any | a content type, 400 or 415 | no headers but those the protocol needs |
//!
//! A client's mistake that no other words would mend (a context too long, say) is not sent again, nor is a
//! request whose token has expired: that is for the renewal of sessions.

use bytes::Bytes;
use hyper::HeaderMap;

use crate::dialect::canonical::{Target, Vendor};
use crate::dialect::edit::edit;
use crate::dialect::tree::Node;
use crate::dialect::{Dialect, convert, gemini, json, messages, responses};
use crate::routing::Platform;

use super::call::{Call, Operation};
use super::failure::Failure;
use super::outgoing::{self, Outgoing};

/// So often one dialect of one address is asked again.
const MAX_SENDS: usize = 3;
/// What every upstream of the responses dialect may know.
const KNOWN: [&str; 26] = [
    "background",
    "context_management",
    "conversation",
    "include",
    "input",
    "instructions",
    "max_output_tokens",
    "max_tool_calls",
    "model",
    "parallel_tool_calls",
    "previous_response_id",
    "prompt",
    "prompt_cache_key",
    "reasoning",
    "safety_identifier",
    "service_tier",
    "store",
    "stream",
    "stream_options",
    "temperature",
    "text",
    "tool_choice",
    "tools",
    "top_p",
    "truncation",
    "user",
];
/// The fields that every upstream of the responses dialect takes.
const STRICT: [&str; 6] = ["model", "input", "stream", "tools", "tool_choice", "instructions"];
/// Fields that only this dialect has: a body with one of them was meant as it is.
const OF_RESPONSES: [&str; 6] =
    ["conversation", "include", "previous_response_id", "reasoning", "text", "truncation"];
/// Words of an upstream that does not know something of the request.
const UNKNOWN: [&str; 8] = [
    "unsupported",
    "unknown parameter",
    "unrecognized",
    "content-type",
    "content type",
    "validation failed",
    "bad_response_status_code",
    "openai_error",
];
const OF_CONTENT_TYPE: [&str; 4] = ["content-type", "content type", "media type", "application/json"];
/// Words about reasoning that an upstream cannot decrypt (proxy-conversion.md 2.2).
const OF_ENCRYPTION: [&str; 2] = ["encrypted content", "encrypted_content"];
/// Words about signatures that a model of Google misses (proxy-conversion.md 2.2).
const OF_SIGNATURES: [&str; 2] = ["thought_signature", "thoughtsignature"];
const PREVIOUS: &str = "previous_response_id";
/// The client's headers that go to sub2api even when all others are left out, beside `x-codex-*`.
const OF_SESSION: [&str; 6] =
    ["session_id", "session-id", "conversation_id", "conversation-id", "originator", "openai-beta"];

/// What has been tried in one dialect at one address.
#[derive(Default)]
pub(super) struct Recovery {
    sends: usize,
    other_thinking: bool,
    thoughtless: bool,
    schema_closed: bool,
    schema_in_words: bool,
    anew: bool,
    unreasoned: bool,
    forgotten: bool,
    signed: bool,
    /// The bodies and headers still to be tried at a responses upstream; made at its first refusal.
    shortened: Option<Vec<Shortened>>,
    bare: bool,
}

struct Shortened {
    body: String,
    bare: bool,
}

impl Recovery {
    /// The request as it is to be sent once more; `None` when other words would not help.
    pub(super) fn next(
        &mut self,
        call: &Call,
        (platform, format): (Platform, Dialect),
        failure: &Failure,
        prepare: impl Fn() -> Option<Outgoing>,
    ) -> Option<Outgoing> {
        let status = failure.upstream_status()?;
        if self.sends == MAX_SENDS || !(400..500).contains(&status) || !format.is_convertible() {
            return None;
        }
        let words = failure.words().to_lowercase();
        let says = |phrases: &[&str]| phrases.iter().any(|phrase| words.contains(phrase));
        let is_of_content_type = matches!(status, 400 | 415) && says(&OF_CONTENT_TYPE);
        let own = format == call.face.dialect;
        let outgoing = match format {
            Dialect::Messages if !own && !self.other_thinking && failure.refuses_thinking_form() => {
                self.other_thinking = true;
                let sent = prepare()?;
                let pieces = outgoing::rephrased(&Bytes::from(sent.pieces.concat()))?;
                Some(Outgoing { pieces, ..sent })
            }
            Dialect::Messages if !self.thoughtless && failure.refuses_thoughts() => {
                self.thoughtless = true;
                let sent = prepare()?;
                let body = sent.pieces.concat();
                let body = messages::without_thoughts(&Node::parse(std::str::from_utf8(&body).ok()?).ok()?)?;
                Some(Outgoing { pieces: [body, Bytes::new(), Bytes::new()], ..sent })
            }
            Dialect::Messages if !own && !self.schema_in_words && failure.refuses_schema() => {
                let sent = prepare()?;
                let body = sent.pieces.concat();
                let body = Node::parse(std::str::from_utf8(&body).ok()?).ok()?;
                let closed = messages::with_schema_closed(&body).filter(|_| !self.schema_closed);
                (self.schema_closed, self.schema_in_words) = (true, closed.is_none());
                let body = closed.or_else(|| messages::with_schema_in_words(&body))?;
                Some(Outgoing { pieces: [body, Bytes::new(), Bytes::new()], ..sent })
            }
            Dialect::Messages
                if own
                    && !self.anew
                    && call.operation == Operation::Answer
                    && says(&["messages is required"]) =>
            {
                self.anew = true;
                written_anew(prepare()?)
            }
            Dialect::Gemini if own && !self.signed && says(&OF_SIGNATURES) => {
                self.signed = true;
                let sent = prepare()?;
                let body = sent.pieces.concat();
                let body = gemini::with_placeholders(&Node::parse(std::str::from_utf8(&body).ok()?).ok()?)?;
                Some(sent.with(body))
            }
            Dialect::Responses if !self.forgotten && failure.has_forgotten() => {
                self.forgotten = true;
                without_previous(prepare()?)
            }
            Dialect::Responses if status == 400 && !self.unreasoned && says(&OF_ENCRYPTION) => {
                self.unreasoned = true;
                without_reasoning(prepare()?)
            }
            Dialect::Responses if status == 400 && says_unknown(failure, &words) => {
                let sent = prepare()?;
                let left = self.shortened.get_or_insert_with(|| shortened(platform, &sent.pieces.concat()));
                let next = (!left.is_empty()).then(|| left.remove(0));
                next.map(|Shortened { body, bare }| Outgoing { bare, ..sent.with(body) })
            }
            _ if is_of_content_type && !self.bare => {
                self.bare = true;
                Some(Outgoing { bare: true, ..prepare()? })
            }
            _ => None,
        };
        self.sends += usize::from(outgoing.is_some());
        outgoing
    }
}

/// A 400 that is about something the upstream does not know, and not about a model, a credential or a
/// limit: those another channel may answer.
fn says_unknown(failure: &Failure, words: &str) -> bool {
    let is_bare = failure.is_bare_upstream_error();
    (is_bare || UNKNOWN.iter().any(|phrase| words.contains(phrase))) && !failure.may_retry()
}

fn shortened(platform: Platform, sent: &[u8]) -> Vec<Shortened> {
    let sent = String::from_utf8_lossy(sent);
    let is_sub2api = platform == Platform::Sub2Api;
    let has_own_fields = OF_RESPONSES.iter().any(|field| json::member(&sent, field).is_some());
    let only = |known: &[&str]| {
        let mut others = Vec::new();
        let collect = |member: json::Member<'_>| {
            if !known.contains(&member.key.as_ref()) {
                others.push(member.key.into_owned());
            }
        };
        // What is no object has no members to leave out.
        let _ = json::members(&sent, collect);
        let others: Vec<&str> = others.iter().map(String::as_str).collect();
        edit(&sent, &[], &others).into_owned()
    };
    let mut bodies = vec![edit(&sent, &[], &["metadata"]).into_owned(), only(&KNOWN)];
    if !(is_sub2api && has_own_fields) {
        bodies.push(only(&STRICT));
    }
    bodies.dedup();
    let with = |bare: bool| bodies.iter().map(move |body| Shortened { body: body.clone(), bare });
    with(false).chain(with(true)).filter(|next| next.bare || next.body != sent).collect()
}

/// A messages body read and written anew, as a conversion would write it.
fn written_anew(sent: Outgoing) -> Option<Outgoing> {
    let body = sent.pieces.concat();
    let body = std::str::from_utf8(&body).ok()?;
    let model = json::member(body, "model").and_then(json::string)?;
    let target = Target { model: &model, stream: sent.stream, vendor: Vendor::Anthropic };
    let written = convert::request(Dialect::Messages, Dialect::Messages, body, &target).ok()?;
    Some(sent.with(String::from_utf8(written.body.into()).ok()?))
}

/// A responses body that refers to no earlier answer (proxy.md 8.4). One that brings the outputs of calls
/// it does not have means nothing without: its client reads the refusal, and sends the whole conversation.
fn without_previous(sent: Outgoing) -> Option<Outgoing> {
    let body = sent.pieces.concat();
    let body = std::str::from_utf8(&body).ok()?;
    json::member(body, PREVIOUS)?;
    let body = edit(body, &[], &[PREVIOUS]).into_owned();
    responses::validate(&Node::parse(&body).ok()?).ok()?;
    Some(sent.with(body))
}

/// A responses body without what earlier turns thought.
fn without_reasoning(sent: Outgoing) -> Option<Outgoing> {
    let body = sent.pieces.concat();
    let body = responses::without_reasoning(&Node::parse(std::str::from_utf8(&body).ok()?).ok()?)?;
    Some(Outgoing { pieces: [body, Bytes::new(), Bytes::new()], ..sent })
}

/// What is left of a client's headers when an upstream stumbles over one of them.
pub(super) fn bare(client: &HeaderMap, platform: Platform, format: Dialect) -> HeaderMap {
    let stays = |name: &str| {
        (format == Dialect::Messages && name.starts_with("anthropic-"))
            || (platform == Platform::Sub2Api && (OF_SESSION.contains(&name) || name.starts_with("x-codex-")))
    };
    let kept = client.iter().filter(|(name, _)| stays(name.as_str()));
    kept.map(|(name, value)| (name.clone(), value.clone())).collect()
}
