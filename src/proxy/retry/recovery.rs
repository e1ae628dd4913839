//! Rewrites a request for an upstream that refused its form.
//!
//! | dialect of the upstream | refuses | gets instead |
//! |---|---|---|
//! | messages | the form in which thinking is requested | the other form |
//! | messages | unsigned thinking, or calls without their thinking | none of that |
//! | messages | the schema of the answer | its objects closed, its limits in words; then all of it in words |
//! | messages | a body in which it finds no messages | the body read and written anew |
//! | messages | ids of calls that another provider gave | others in place of these |
//! | messages | values of `anthropic-beta` | the others, or none |
//! | gemini, chat | calls without a signature of a Google model | a placeholder for each signature |
//! | responses | an answer that it does not know, or no longer knows | no reference to it |
//! | responses | reasoning that another account encrypted or stored | no reasoning |
//! | responses | something unknown to it, 400 | no metadata; known fields only; the bare minimum |
//! | any | an optional member that it names (`cache_control`, `context_management`, …), 400 or 422 | no such member |
//! | any | an output limit above its model's, in a converted request | the limit that it names |
//! | any | a content type, 400 or 415 | no headers but those the protocol needs |
//!
//! Different refusals are mended one after the other, each starting from the request that was refused last.
//!
//! A client's mistake that no rewriting would mend (a context too long, say) is not sent again, nor is a
//! request whose token has expired: that is left to the renewal of tokens.

use bytes::Bytes;
use hyper::HeaderMap;

use crate::dialect::canonical::{Effort, Target, Vendor};
use crate::dialect::edit::{edit, only};
use crate::dialect::responses::PREVIOUS;
use crate::dialect::tree::Node;
use crate::dialect::{Dialect, chat, convert, gemini, json, messages, optional, output_limit, responses};
use crate::error_words::requests;
use crate::platform::Platform;

use crate::proxy::betas::RefusedBetas;
use crate::proxy::call::Call;
use crate::proxy::compose::outgoing::PreparedBody;
use crate::proxy::failure::Failure;
use crate::proxy::operation::Operation;

use super::member_refusals::Refused;

/// The maximum number of rewritten requests that may be refused as well, for one dialect of one address.
const MAX_GUESSES: usize = 3;
/// The maximum number of rewritten requests in all: reasoning models refuse sampling parameters, naming one at a time.
const MAX_SENDS: usize = 8;
/// The members that every upstream of the responses dialect may know.
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
/// Members that only the responses dialect has: a body with one of them is in that dialect on purpose.
const OF_RESPONSES: [&str; 6] =
    ["conversation", "include", "previous_response_id", "reasoning", "text", "truncation"];
/// The client's headers that go to relays of Codex even when all others are left out, beside `x-codex-*`.
const OF_SESSION: [&str; 6] =
    ["session_id", "session-id", "conversation_id", "conversation-id", "originator", "openai-beta"];

/// A rewrite of a request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RequestRewrite {
    /// Asks for thinking in the other form.
    OtherThinkingForm,
    /// Leaves out unsigned thinking from the conversation; all of it where that is not enough.
    WithoutThinking,
    /// Closes the schema's objects, and moves its size limits into the descriptions.
    SchemaClosed,
    /// Moves the schema into the system prompt.
    SchemaInWords,
    /// Reads the body and writes it anew.
    WrittenAnew,
    /// Replaces ids of calls that do not fit.
    FittingIds,
    /// Puts a placeholder for each missing signature.
    PlaceholderSignatures,
    /// Leaves out the reference to an earlier answer.
    WithoutPrevious,
    /// Leaves out the reasoning of earlier turns.
    WithoutReasoning,
    /// Takes the next body with fewer members; the only rewrite that may be used more than once.
    FewerMembers,
    /// Leaves out all headers but those the protocol needs.
    MinimalHeaders,
    /// Leaves out the betas that the refusal names.
    WithoutNamedBetas,
    /// Leaves out the client's betas.
    WithoutBetas,
    /// Leaves out the member of that name.
    WithoutMember(&'static str),
    /// Lowers the output limit to this many tokens.
    LowerLimit(u64),
}

/// The rewrites tried in one dialect at one address. Each further request is a rewrite of the last one:
/// what was mended stays so when something else is refused.
#[derive(Default)]
pub(in crate::proxy) struct Recovery {
    sends: usize,
    /// How many of the sends did something other than leave out a named member.
    guesses: usize,
    tried: Vec<RequestRewrite>,
    /// What the model said it never accepts, and that is left out.
    refused: Refused,
    /// The request sent last, when it was a rewritten one; only set after a refusal.
    last: Option<Box<SentBody>>,
    /// The bodies and headers still to be tried at a responses upstream, made from the first request refused that way.
    shortened: Option<Vec<SentBody>>,
}

#[derive(Clone)]
struct SentBody {
    body: Bytes,
    bare: bool,
    refused_betas: RefusedBetas,
}

/// The upstream that refused a call, and the dialect in which it was asked.
#[derive(Clone, Copy)]
pub(in crate::proxy) struct RefusedCall<'a> {
    pub(in crate::proxy) call: &'a Call,
    pub(in crate::proxy) platform: Platform,
    pub(in crate::proxy) dialect: Dialect,
    pub(in crate::proxy) failure: &'a Failure,
}

impl Recovery {
    /// Returns the rewritten request; `None` when rewriting would not help. `prepare` builds the request as it was sent first.
    pub(in crate::proxy) fn next(
        &mut self,
        refused: RefusedCall<'_>,
        prepare: impl Fn() -> Option<PreparedBody>,
    ) -> Option<PreparedBody> {
        if self.sends == MAX_SENDS || !refused.dialect.is_convertible() {
            return None;
        }
        let failure = refused.failure;
        let mut rewrite = self.next_rewrite(refused)?;
        let first = prepare()?;
        let sent = match &self.last {
            Some(last) => SentBody::clone(last),
            None => SentBody {
                body: Bytes::from(first.pieces.concat()),
                bare: first.bare,
                refused_betas: first.refused_betas.clone(),
            },
        };
        let next = loop {
            self.tried.push(rewrite);
            if let Some(betas) = refused_betas(rewrite, failure) {
                let mut next = sent.clone();
                next.refused_betas.add(&betas);
                break next;
            }
            match self.rewritten(rewrite, sent.clone(), refused, first.stream) {
                Some(next) => break next,
                // The refusal may have several causes, and this one does not apply to the request. Each is tried once.
                None if rewrite != RequestRewrite::FewerMembers => rewrite = self.next_rewrite(refused)?,
                None => return None,
            }
        };
        let outgoing = PreparedBody {
            pieces: [next.body.clone(), Bytes::new(), Bytes::new()],
            bare: next.bare,
            refused_betas: next.refused_betas.clone(),
            ..first
        };
        self.note(rewrite, failure);
        self.last = Some(Box::new(next));
        self.sends += 1;
        self.guesses += usize::from(!matches!(rewrite, RequestRewrite::WithoutMember(_)));
        Some(outgoing)
    }

    /// Records what the model says that it never accepts.
    fn note(&mut self, rewrite: RequestRewrite, failure: &Failure) {
        match rewrite {
            // Where none is named, one that a client made up may be the reason: the next client's are tried again.
            RequestRewrite::WithoutNamedBetas => {
                self.refused.betas.add(&refused_betas(rewrite, failure).unwrap_or_default());
            }
            RequestRewrite::WithoutMember(member)
                if requests::never_takes_member(&failure.words().as_str().to_ascii_lowercase()) =>
            {
                self.refused.members.push(member);
            }
            RequestRewrite::SchemaClosed if !self.tried.contains(&RequestRewrite::SchemaInWords) => {
                self.refused.members.push(optional::OPEN_OBJECTS);
            }
            // Closing the objects was not enough.
            RequestRewrite::SchemaInWords => {
                self.refused.members.retain(|member| *member != optional::OPEN_OBJECTS)
            }
            _ => {}
        }
    }

    /// Whether the request now goes without a member of that name.
    pub(in crate::proxy) fn leaves_out(&self, member: &'static str) -> bool {
        self.tried.contains(&RequestRewrite::WithoutMember(member))
    }

    /// Returns what the model says it never accepts, and that the request now leaves out.
    pub(in crate::proxy) fn refused(&self) -> &Refused {
        &self.refused
    }

    /// Returns the rewrite that may help against a refusal and has not been tried.
    fn next_rewrite(&self, refused: RefusedCall<'_>) -> Option<RequestRewrite> {
        let status = refused.failure.upstream_status().filter(|status| (400..500).contains(status))?;
        let is_guess_left = self.guesses < MAX_GUESSES;
        let rewrites =
            if is_guess_left { refused.rewrites(status) } else { refused.without_members().collect() };
        // Each body with fewer members is another one.
        rewrites.into_iter().find(|it| *it == RequestRewrite::FewerMembers || !self.tried.contains(it))
    }

    /// Rewrites the request that was sent; `None` where that would change nothing.
    fn rewritten(
        &mut self,
        rewrite: RequestRewrite,
        sent: SentBody,
        refused: RefusedCall<'_>,
        stream: bool,
    ) -> Option<SentBody> {
        let RefusedCall { call, platform, dialect, .. } = refused;
        match rewrite {
            RequestRewrite::MinimalHeaders => return Some(SentBody { bare: true, ..sent }),
            RequestRewrite::WithoutNamedBetas | RequestRewrite::WithoutBetas => return None,
            RequestRewrite::FewerMembers => {
                let left = self.shortened.get_or_insert_with(|| shortened(platform, &sent));
                return (!left.is_empty()).then(|| left.remove(0));
            }
            _ => {}
        }
        let body = Node::parse(std::str::from_utf8(&sent.body).ok()?).ok()?;
        let body = match rewrite {
            RequestRewrite::OtherThinkingForm => {
                messages::in_other_thinking_form(&body, asked_effort(call, dialect))
            }
            RequestRewrite::WithoutThinking => messages::without_thoughts(&body),
            RequestRewrite::SchemaClosed => messages::with_schema_closed(&body).or_else(|| {
                self.tried.push(RequestRewrite::SchemaInWords);
                messages::with_schema_in_words(&body)
            }),
            RequestRewrite::SchemaInWords => messages::with_schema_in_words(&body),
            RequestRewrite::WrittenAnew => written_anew(&body, stream),
            RequestRewrite::FittingIds => messages::with_fitting_ids(&body),
            // Gemini bodies have no `messages`, chat bodies no `contents`.
            RequestRewrite::PlaceholderSignatures => {
                gemini::with_placeholders(&body).map(Bytes::from).or_else(|| chat::with_placeholders(&body))
            }
            RequestRewrite::WithoutPrevious => without_previous(&body),
            RequestRewrite::WithoutReasoning => responses::without_reasoning(&body),
            RequestRewrite::WithoutMember(member) => optional::without(dialect, &body, member),
            RequestRewrite::LowerLimit(bound) => output_limit::lowered(dialect, &body, bound),
            RequestRewrite::FewerMembers
            | RequestRewrite::MinimalHeaders
            | RequestRewrite::WithoutNamedBetas
            | RequestRewrite::WithoutBetas => None,
        };
        let body = body?;
        // The remaining bodies with fewer members would undo this rewrite.
        self.shortened = None;
        Some(SentBody { body, ..sent })
    }
}

impl RefusedCall<'_> {
    /// Whether the body came in the dialect in which it was sent.
    fn is_unconverted(&self) -> bool {
        self.dialect == self.call.shape.dialect
    }

    /// Returns the rewrites that may help against a refusal of this status, the most promising first.
    fn rewrites(&self, status: u16) -> Vec<RequestRewrite> {
        let Self { call, dialect, failure, .. } = *self;
        let (words, own) = (failure.words().as_str(), self.is_unconverted());
        let mut rewrites = Vec::new();
        let mut offer = |rewrite: RequestRewrite, helps: bool| rewrites.extend(helps.then_some(rewrite));
        match dialect {
            Dialect::Messages => {
                let of_schema = !own && failure.refuses_schema();
                let of_betas = own && status == 400 && requests::is_of_betas(words);
                let is_answer = call.operation == Operation::Answer;
                offer(RequestRewrite::OtherThinkingForm, failure.refuses_thinking_form());
                offer(RequestRewrite::WithoutThinking, failure.refuses_thoughts());
                offer(RequestRewrite::SchemaClosed, of_schema);
                offer(RequestRewrite::SchemaInWords, of_schema);
                offer(RequestRewrite::WrittenAnew, own && is_answer && requests::misses_messages(words));
                offer(RequestRewrite::FittingIds, requests::is_of_call_ids(words));
                offer(
                    RequestRewrite::WithoutNamedBetas,
                    of_betas && !requests::named_betas(words).is_empty(),
                );
                offer(RequestRewrite::WithoutBetas, of_betas);
            }
            Dialect::Gemini | Dialect::Chat => {
                offer(RequestRewrite::PlaceholderSignatures, requests::misses_call_signature(words));
            }
            Dialect::Responses => {
                let of_reasoning = matches!(status, 400 | 404) && requests::cannot_use_reasoning(words);
                offer(RequestRewrite::WithoutPrevious, failure.has_forgotten());
                offer(RequestRewrite::WithoutReasoning, of_reasoning);
            }
            _ => {}
        }
        if let Some(limit) = failure.named_limit() {
            offer(RequestRewrite::LowerLimit(limit), !own);
        }
        if dialect == Dialect::Responses {
            self.without_members().for_each(|rewrite| offer(rewrite, true));
            offer(RequestRewrite::FewerMembers, status == 400 && self.is_of_something_unknown());
        }
        offer(
            RequestRewrite::MinimalHeaders,
            matches!(status, 400 | 415) && requests::is_of_content_type(words),
        );
        rewrites.extend(self.without_members());
        rewrites
    }

    /// Returns the rewrites that leave out a member which the refusal names.
    fn without_members(&self) -> impl Iterator<Item = RequestRewrite> {
        let members = self.failure.refused_members(self.dialect, self.is_unconverted());
        members.into_iter().map(RequestRewrite::WithoutMember)
    }

    /// Whether the upstream does not know something, and not a model, a credential or a limit, which another channel may
    /// accept.
    fn is_of_something_unknown(&self) -> bool {
        let failure = self.failure;
        let is_unknown = || requests::is_of_something_unknown(failure.words().as_str());
        (failure.is_bare_upstream_error() || is_unknown()) && !failure.may_retry(self.call.work())
    }
}

/// Returns the betas that a rewrite leaves out; `None` where it leaves none out.
fn refused_betas(rewrite: RequestRewrite, failure: &Failure) -> Option<RefusedBetas> {
    match rewrite {
        RequestRewrite::WithoutNamedBetas => {
            Some(RefusedBetas::Named(requests::named_betas(failure.words().as_str())))
        }
        RequestRewrite::WithoutBetas => Some(RefusedBetas::All),
        _ => None,
    }
}

/// Returns the effort that a client of another dialect asked for.
fn asked_effort(call: &Call, dialect: Dialect) -> Option<Effort> {
    let client = call.shape.dialect;
    if client == dialect {
        return None;
    }
    convert::wanted_effort(client, std::str::from_utf8(&call.body).ok()?)
}

/// Builds the requests that are sent one after the other until one is accepted: fewer and fewer members, then the same
/// with fewer headers.
fn shortened(platform: Platform, sent: &SentBody) -> Vec<SentBody> {
    let body = String::from_utf8_lossy(&sent.body);
    let profile = platform.profile();
    let has_own_fields = OF_RESPONSES.iter().any(|field| json::member(&body, field).is_some());
    let only = |known: &[&str]| Bytes::from(only(&body, known).into_owned());
    let mut bodies = vec![Bytes::from(edit(&body, &[], &["metadata"]).into_owned()), only(&KNOWN)];
    if !(profile.relays_codex && has_own_fields) {
        // A platform that stores no answers refuses a body that does not say `store`.
        let store: &[&str] = if profile.streams_responses_only { &["store"] } else { &[] };
        bodies.push(only(&[&STRICT[..], store].concat()));
    }
    bodies.dedup();
    let refused_betas = &sent.refused_betas;
    let with = |bare: bool| {
        bodies.iter().map(move |body| SentBody {
            body: body.clone(),
            bare,
            refused_betas: refused_betas.clone(),
        })
    };
    let all = with(sent.bare).chain(with(true).filter(|_| !sent.bare));
    all.filter(|next| next.bare != sent.bare || next.body != sent.body).collect()
}

/// Writes a messages body anew, as a conversion would.
fn written_anew(body: &Node<'_>, stream: bool) -> Option<Bytes> {
    let model = body.text_at("model")?;
    let target = Target { model: &model.decode(), stream, vendor: Vendor::Anthropic };
    let written = convert::request(Dialect::Messages, Dialect::Messages, body.raw(), &target).ok()?;
    Some(written.body)
}

/// Removes the reference to an earlier answer from a responses body. Returns `None` for a body with the outputs of
/// calls that it does not contain, which means nothing without the reference: its client reads the refusal, and sends
/// the whole conversation.
fn without_previous(body: &Node<'_>) -> Option<Bytes> {
    body.get(PREVIOUS)?;
    let body = edit(body.raw(), &[], &[PREVIOUS]).into_owned();
    responses::validate(&Node::parse(&body).ok()?).ok()?;
    Some(Bytes::from(body))
}

/// Returns the client's headers that remain when an upstream refuses one of them.
pub(in crate::proxy) fn bare(client: &HeaderMap, platform: Platform, dialect: Dialect) -> HeaderMap {
    let relays_codex = platform.profile().relays_codex;
    let stays = |name: &str| {
        // Is not forwarded itself, but names other headers that are not.
        name == "connection"
            || (dialect == Dialect::Messages && name.starts_with("anthropic-"))
            || (relays_codex && (OF_SESSION.contains(&name) || name.starts_with("x-codex-")))
    };
    let kept = client.iter().filter(|(name, _)| stays(name.as_str()));
    kept.map(|(name, value)| (name.clone(), value.clone())).collect()
}
