//! A request in other words, for an upstream that refused it for its form.
//!
//! | the upstream | refuses | and gets |
//! |---|---|---|
//! | messages | the form in which thinking is asked for | the other form |
//! | messages | thinking that nobody signed, or calls without their thinking | none of that |
//! | messages | the schema of the answer | its objects closed, its limits in words; then the schema in words |
//! | messages | a body in which it finds no messages | the body read and written anew |
//! | gemini, chat | calls that no model of Google's signed | a placeholder for each signature |
//! | responses | an answer that it does not know (any more) | no reference to it |
//! | responses | reasoning that another account encrypted | no reasoning |
//! | responses | something that it does not know, 400 | no metadata; known fields only; the bare minimum |
//! | any | an optional member that it names (`cache_control`, `context_management`, …), 400 or 422 | no such member |
//! | any | a limit above its model's, in a converted request | the limit that it names |
//! | any | a content type, 400 or 415 | no headers but those the protocol needs |
//!
//! Refusals of different things are mended one after the other, each in the words that were refused last.
//!
//! A client's mistake that no other words would mend (a context too long, say) is not sent again, nor is a
//! request whose token has expired: that is for the renewal of sessions.

use bytes::Bytes;
use hyper::HeaderMap;

use crate::dialect::canonical::{Effort, Target, Vendor};
use crate::dialect::edit::{edit, only};
use crate::dialect::tree::Node;
use crate::dialect::{Dialect, chat, convert, gemini, json, messages, optional, output_limit, responses};
use crate::error_words::requests;
use crate::platform::Platform;

use crate::proxy::call::Call;
use crate::proxy::compose::outgoing::Outgoing;
use crate::proxy::failure::Failure;
use crate::proxy::operation::Operation;

/// So often one dialect of one address is asked again in words that may be refused as well.
const MAX_GUESSES: usize = 3;
/// So often in all: models that reason refuse what others are sampled by, and name one member at a time.
const MAX_SENDS: usize = 8;
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
const PREVIOUS: &str = "previous_response_id";
/// The client's headers that go to relays of Codex even when all others are left out, beside `x-codex-*`.
const OF_SESSION: [&str; 6] =
    ["session_id", "session-id", "conversation_id", "conversation-id", "originator", "openai-beta"];

/// Other words for a request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// Thinking asked for in the other form.
    OtherThinking,
    /// No thinking in the conversation that nobody signed; none at all where that is not enough.
    WithoutThoughts,
    /// The objects of the schema closed, and what it says of sizes in the descriptions.
    SchemaClosed,
    /// The schema among the words of the system.
    SchemaInWords,
    /// The body read and written anew.
    Anew,
    /// A placeholder for each signature that is missing.
    Signed,
    /// No reference to an earlier answer.
    WithoutPrevious,
    /// No reasoning of earlier turns.
    WithoutReasoning,
    /// The next that is shorter; the only way that may be gone more than once.
    Shorter,
    /// No headers but those the protocol needs.
    Bare,
    /// No member of that name.
    Without(&'static str),
    /// An answer of no more tokens than these.
    LowerLimit(u64),
}

/// What has been tried in one dialect at one address. Each further request is the last one in other words:
/// what was mended stays so when something else is refused.
#[derive(Default)]
pub(in crate::proxy) struct Recovery {
    sends: usize,
    /// How many of them did something else than leave out a member that was named.
    guesses: usize,
    tried: Vec<Way>,
    /// The members that are left out because the model never takes them.
    unknown: Vec<&'static str>,
    /// What was sent last, when it was not the request as it is prepared. Only here after a refusal.
    last: Option<Box<Sent>>,
    /// The bodies and headers still to be tried at a responses upstream; made of what it first refused so.
    shortened: Option<Vec<Sent>>,
}

struct Sent {
    body: Bytes,
    bare: bool,
}

impl Recovery {
    /// The request as it is to be sent once more; `None` when other words would not help. `prepare` gives
    /// it as it was sent first.
    pub(in crate::proxy) fn next(
        &mut self,
        call: &Call,
        (platform, format): (Platform, Dialect),
        failure: &Failure,
        prepare: impl Fn() -> Option<Outgoing>,
    ) -> Option<Outgoing> {
        if self.sends == MAX_SENDS || !format.is_convertible() {
            return None;
        }
        let mut way = self.way(call, format, failure)?;
        let first = prepare()?;
        let sent = match &self.last {
            Some(last) => Sent { body: last.body.clone(), bare: last.bare },
            None => Sent { body: Bytes::from(first.pieces.concat()), bare: first.bare },
        };
        let next = loop {
            self.tried.push(way);
            let sent = Sent { body: sent.body.clone(), bare: sent.bare };
            match self.reworded(way, sent, (call, platform, format), first.stream) {
                Some(next) => break next,
                // The refusal may be about several things, and the request does not have this one. Each is tried once.
                None if way != Way::Shorter => way = self.way(call, format, failure)?,
                None => return None,
            }
        };
        let outgoing =
            Outgoing { pieces: [next.body.clone(), Bytes::new(), Bytes::new()], bare: next.bare, ..first };
        self.note(way, failure);
        self.last = Some(Box::new(next));
        self.sends += 1;
        self.guesses += usize::from(!matches!(way, Way::Without(_)));
        Some(outgoing)
    }

    /// Notes what the model says that it never takes.
    fn note(&mut self, way: Way, failure: &Failure) {
        match way {
            Way::Without(member)
                if requests::never_takes_member(&failure.words().as_str().to_ascii_lowercase()) =>
            {
                self.unknown.push(member);
            }
            Way::SchemaClosed if !self.tried.contains(&Way::SchemaInWords) => {
                self.unknown.push(optional::OPEN_OBJECTS);
            }
            // Closing them was not enough.
            Way::SchemaInWords => self.unknown.retain(|member| *member != optional::OPEN_OBJECTS),
            _ => {}
        }
    }

    /// Whether the request now goes without a member of that name.
    pub(in crate::proxy) fn leaves_out(&self, member: &'static str) -> bool {
        self.tried.contains(&Way::Without(member))
    }

    /// The members that the model never takes, as it said, and that the request now goes without.
    pub(in crate::proxy) fn unknown(&self) -> &[&'static str] {
        &self.unknown
    }

    /// What would help against a refusal and has not been tried.
    fn way(&self, call: &Call, format: Dialect, failure: &Failure) -> Option<Way> {
        let status = failure.upstream_status().filter(|status| (400..500).contains(status))?;
        let words = failure.words().as_str();
        let is_new = |way: Way| !self.tried.contains(&way);
        let own = format == call.shape.dialect;
        let without =
            failure.refused_members(format, own).into_iter().map(Way::Without).find(|way| is_new(*way));
        if self.guesses == MAX_GUESSES {
            return without;
        }
        let lower = failure.named_limit().map(Way::LowerLimit).filter(|way| is_new(*way));
        let way = match format {
            Dialect::Messages if is_new(Way::OtherThinking) && failure.refuses_thinking_form() => {
                Way::OtherThinking
            }
            Dialect::Messages if is_new(Way::WithoutThoughts) && failure.refuses_thoughts() => {
                Way::WithoutThoughts
            }
            Dialect::Messages if !own && is_new(Way::SchemaInWords) && failure.refuses_schema() => {
                if is_new(Way::SchemaClosed) { Way::SchemaClosed } else { Way::SchemaInWords }
            }
            Dialect::Messages
                if own
                    && is_new(Way::Anew)
                    && call.operation == Operation::Answer
                    && requests::misses_messages(words) =>
            {
                Way::Anew
            }
            Dialect::Gemini | Dialect::Chat
                if is_new(Way::Signed) && requests::misses_call_signature(words) =>
            {
                Way::Signed
            }
            Dialect::Responses if is_new(Way::WithoutPrevious) && failure.has_forgotten() => {
                Way::WithoutPrevious
            }
            Dialect::Responses
                if status == 400 && is_new(Way::WithoutReasoning) && requests::cannot_decrypt(words) =>
            {
                Way::WithoutReasoning
            }
            _ if !own && lower.is_some() => return lower,
            Dialect::Responses if without.is_some() => return without,
            Dialect::Responses if status == 400 && says_unknown(call, failure, words) => Way::Shorter,
            _ if matches!(status, 400 | 415) && is_new(Way::Bare) && requests::is_of_content_type(words) => {
                Way::Bare
            }
            _ => return without,
        };
        Some(way)
    }

    /// What was sent, in other words; `None` where these would change nothing.
    fn reworded(
        &mut self,
        way: Way,
        sent: Sent,
        (call, platform, format): (&Call, Platform, Dialect),
        stream: bool,
    ) -> Option<Sent> {
        match way {
            Way::Bare => return Some(Sent { bare: true, ..sent }),
            Way::Shorter => {
                let left = self.shortened.get_or_insert_with(|| shortened(platform, &sent));
                return (!left.is_empty()).then(|| left.remove(0));
            }
            _ => {}
        }
        let body = Node::parse(std::str::from_utf8(&sent.body).ok()?).ok()?;
        let body = match way {
            Way::OtherThinking => messages::in_other_thinking_form(&body, asked_effort(call, format)),
            Way::WithoutThoughts => messages::without_thoughts(&body),
            Way::SchemaClosed => messages::with_schema_closed(&body).or_else(|| {
                self.tried.push(Way::SchemaInWords);
                messages::with_schema_in_words(&body)
            }),
            Way::SchemaInWords => messages::with_schema_in_words(&body),
            Way::Anew => written_anew(&body, stream),
            // Bodies of gemini name no messages, those of chat no contents.
            Way::Signed => {
                gemini::with_placeholders(&body).map(Bytes::from).or_else(|| chat::with_placeholders(&body))
            }
            Way::WithoutPrevious => without_previous(&body),
            Way::WithoutReasoning => responses::without_reasoning(&body),
            Way::Without(member) => optional::without(format, &body, member),
            Way::LowerLimit(bound) => output_limit::lowered(format, &body, bound),
            Way::Shorter | Way::Bare => None,
        };
        let body = body?;
        // What is left to be shortened would take this back.
        self.shortened = None;
        Some(Sent { body, bare: sent.bare })
    }
}

/// The effort that a client of another dialect asked for.
fn asked_effort(call: &Call, format: Dialect) -> Option<Effort> {
    let dialect = call.shape.dialect;
    if dialect == format {
        return None;
    }
    convert::wanted_effort(dialect, std::str::from_utf8(&call.body).ok()?)
}

/// A 400 that is about something the upstream does not know, and not about a model, a credential or a
/// limit: those another channel may answer.
fn says_unknown(call: &Call, failure: &Failure, words: &str) -> bool {
    let is_bare = failure.is_bare_upstream_error();
    (is_bare || requests::is_of_something_unknown(words)) && !failure.may_retry(call.work())
}

/// What is sent one after the other until it is taken: fewer and fewer members, then the same with fewer headers.
fn shortened(platform: Platform, sent: &Sent) -> Vec<Sent> {
    let body = String::from_utf8_lossy(&sent.body);
    let profile = platform.profile();
    let has_own_fields = OF_RESPONSES.iter().any(|field| json::member(&body, field).is_some());
    let only = |known: &[&str]| Bytes::from(only(&body, known).into_owned());
    let mut bodies = vec![Bytes::from(edit(&body, &[], &["metadata"]).into_owned()), only(&KNOWN)];
    if !(profile.relays_codex && has_own_fields) {
        // What keeps no answers refuses a body that does not say so.
        let store: &[&str] = if profile.streams_responses_only { &["store"] } else { &[] };
        bodies.push(only(&[&STRICT[..], store].concat()));
    }
    bodies.dedup();
    let with = |bare: bool| bodies.iter().map(move |body| Sent { body: body.clone(), bare });
    let all = with(sent.bare).chain(with(true).filter(|_| !sent.bare));
    all.filter(|next| next.bare != sent.bare || next.body != sent.body).collect()
}

/// A messages body as a conversion would write it.
fn written_anew(body: &Node<'_>, stream: bool) -> Option<Bytes> {
    let model = body.text_at("model")?;
    let target = Target { model: &model.decode(), stream, vendor: Vendor::Anthropic };
    let written = convert::request(Dialect::Messages, Dialect::Messages, body.raw(), &target).ok()?;
    Some(written.body)
}

/// A responses body that refers to no earlier answer. One that brings the outputs of calls
/// it does not have means nothing without: its client reads the refusal, and sends the whole conversation.
fn without_previous(body: &Node<'_>) -> Option<Bytes> {
    body.get(PREVIOUS)?;
    let body = edit(body.raw(), &[], &[PREVIOUS]).into_owned();
    responses::validate(&Node::parse(&body).ok()?).ok()?;
    Some(Bytes::from(body))
}

/// What is left of a client's headers when an upstream stumbles over one of them.
pub(in crate::proxy) fn bare(client: &HeaderMap, platform: Platform, format: Dialect) -> HeaderMap {
    let relays_codex = platform.profile().relays_codex;
    let stays = |name: &str| {
        // Crosses nowhere, but says what else does not.
        name == "connection"
            || (format == Dialect::Messages && name.starts_with("anthropic-"))
            || (relays_codex && (OF_SESSION.contains(&name) || name.starts_with("x-codex-")))
    };
    let kept = client.iter().filter(|(name, _)| stays(name.as_str()));
    kept.map(|(name, value)| (name.clone(), value.clone())).collect()
}
