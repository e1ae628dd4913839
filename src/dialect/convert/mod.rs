//! Conversion from one dialect to another: each pair is a reader and a writer, with the steps that all pairs share.
//!
//! ```text
//! request   read ─▶ names, ids, custom tools and results fitted to the target ─▶ write
//! answer    read ─▶ names and custom tools of the client restored     ─▶ write
//! ```

mod call_ids;
mod cut;
mod fit;
mod gather;
mod instructions;
mod named;
mod restore;
mod results;
mod schemas;
mod signatures;
mod stream;
mod surrogates;
#[cfg(test)]
mod tests;
mod whole;

use bytes::Bytes;

use super::canonical::{
    Candidate, ConversionError, Effort, Event, MAX_CHOICES, Part, Reply, ReplyContext, Request, Stop, Target,
    Vendor,
};
use super::effort;
use super::literal::Text;
use super::marked_turns;
use super::signature::Signature;
use super::stream_event::StreamEvent;
use super::tree::Node;
use super::upstream_error::UpstreamError;
use super::usage::Usage;
use super::{Dialect, chat, completions, gemini, messages, responses};

pub use gather::{StreamGatherer, accumulated};
use results::Strays;
pub use signatures::CallSignature;
pub use stream::{MAX_EVENT, StreamConverter};

/// A request converted to the upstream's dialect.
#[derive(Debug)]
pub struct Converted {
    pub body: Bytes,
    /// The names of the client's members that are unknown and were left out.
    pub unknown: Vec<String>,
    /// The facts of the request that the writer of the answer needs.
    pub context: ReplyContext,
}

/// A complete answer in the client's dialect.
#[derive(Debug)]
pub struct Answer {
    pub body: Bytes,
    pub usage: Option<Usage>,
    /// The signatures of calls, which the client may leave out when it sends the calls back.
    pub signatures: Vec<CallSignature>,
}

/// Converts a request body, which must be valid JSON.
pub fn request(
    from: Dialect,
    to: Dialect,
    body: &str,
    target: &Target<'_>,
) -> Result<Converted, ConversionError> {
    request_with(from, to, body, target, |_| None)
}

/// Whether the upstream may keep the calls of an earlier answer: the request names that answer, or comes from a messages
/// client that names its conversation or its user.
fn may_go_on(request: &Request<'_>, from: Dialect) -> bool {
    let names_conversation = request.cache_key.is_some() || request.user.is_some();
    let is_previous = |name: &str, id: &str| name == "previous_response_id" && id != "null";
    request.openai.iter().any(|(name, id)| is_previous(name, id.as_str()))
        || from == Dialect::Messages && names_conversation
}

/// Converts a request like [`request`]; `signature_of` gives the signature of a call by its id.
pub fn request_with(
    from: Dialect,
    to: Dialect,
    body: &str,
    target: &Target<'_>,
    signature_of: impl Fn(&str) -> Option<String>,
) -> Result<Converted, ConversionError> {
    let node = Node::parse(body).map_err(|_| ConversionError::invalid("body", "is not valid JSON"))?;
    let mut request = read_request(from, &node)?;
    if to != Dialect::Messages {
        marked_turns::remove(&mut request);
    }
    // A request that refers to a conversation stored elsewhere may be empty here; it is refused for that reference
    // further down.
    let is_empty = request.system.is_empty() && request.turns.iter().all(|turn| turn.parts.is_empty());
    if is_empty && request.native.is_empty() {
        return Err(named::in_words_of(
            from,
            &node,
            ConversionError::invalid("messages", "must have at least one message with content"),
        ));
    }
    for part in request.turns.iter_mut().flat_map(|turn| &mut turn.parts) {
        if let Part::Call(call) = part
            && call.signature.is_none()
        {
            call.signature = signature_of(&call.id.decode()).map(|proof| Signature::Gemini(Text::of(&proof)));
        }
    }
    let mut context = context(from, &node);
    if context.legacy_calls {
        request.parallel = Some(false);
    }
    schemas::fit(&mut request, from, to).map_err(|unfit| named::in_words_of(from, &node, unfit))?;
    let fitted = fit::fit(&mut request, to, target.vendor);
    fit::put_a_question(&mut request, to);
    if to == Dialect::Messages {
        fit::trim_end(&mut request);
    }
    // Clients of other dialects have mentioned JSON where the chat API looks for it.
    if from == Dialect::Gemini || to == Dialect::Responses {
        fit::name_json(&mut request, to);
    }
    let goes_on = to == Dialect::Responses && may_go_on(&request, from);
    results::settle(&mut request, if goes_on { Strays::Keep } else { Strays::Drop });
    // Responses has no stop sequences, nor do OpenAI's reasoning models take any; messages refuses blank ones, such as
    // a line end of completions.
    let is_dropped = |stop: &Text<'_>| match to {
        Dialect::Responses => true,
        Dialect::Chat => target.vendor == Vendor::OpenAi && effort::reasons_at_openai(target.model),
        Dialect::Messages => from == Dialect::Completions && stop.is_blank(),
        _ => false,
    };
    let (dropped, kept): (Vec<_>, Vec<_>) =
        std::mem::take(&mut request.stop).into_iter().partition(is_dropped);
    request.stop = kept;
    let dropped: Vec<_> = dropped.iter().map(|stop| stop.decode().into_owned()).collect();
    cut::check(&dropped).map_err(|unfit| named::in_words_of(from, &node, unfit))?;
    let body = write_request(to, &request, target).map_err(|unfit| named::in_words_of(from, &node, unfit))?;
    context.names = fitted.names;
    context.custom_tools = fitted.custom_tools;
    context.several = request.n.is_some();
    context.stop = dropped;
    Ok(Converted { body, unknown: named::unknown(from, &node), context })
}

/// Returns how much a request asks the model to think; `None` where it does not say, or is not valid.
pub fn wanted_effort(dialect: Dialect, body: &str) -> Option<Effort> {
    let node = Node::parse(body).ok()?;
    read_request(dialect, &node).ok()?.reasoning.wanted_effort()
}

/// Returns the context of the answer to a request that needed no conversion.
pub fn context_of(dialect: Dialect, body: &str) -> ReplyContext {
    Node::parse(body).map(|node| context(dialect, &node)).unwrap_or_default()
}

fn context(dialect: Dialect, body: &Node<'_>) -> ReplyContext {
    let usage_chunk = matches!(dialect, Dialect::Chat | Dialect::Completions)
        && body.path(&["stream_options", "include_usage"]).and_then(Node::bool) == Some(true);
    let echo = if dialect == Dialect::Responses { responses::echo(body) } else { Vec::new() };
    let echo_text = if dialect == Dialect::Completions { completions::echoed(body) } else { None };
    let legacy_calls = dialect == Dialect::Chat && chat::offers_functions(body);
    ReplyContext { usage_chunk, echo_text, echo, legacy_calls, ..ReplyContext::default() }
}

/// Converts a complete answer.
pub fn reply(
    from: Dialect,
    to: Dialect,
    body: &str,
    context: &ReplyContext,
) -> Result<Answer, UpstreamError> {
    let node = Node::parse(body).map_err(|_| UpstreamError::new("Upstream's answer is not valid JSON"))?;
    if to != Dialect::Responses && is_under_way(from, &node) {
        return Err(unfinished());
    }
    write(to, read_reply(from, &node)?, context)
}

/// Whether an answer is a response that is still being made.
fn is_under_way(from: Dialect, answer: &Node<'_>) -> bool {
    from == Dialect::Responses && matches!(answer.str_at("status").as_ref(), "queued" | "in_progress")
}

/// Returns the failure that such a response is where a stream must have an end, and in other dialects, which have no word for
/// it and no way to ask for it later.
fn unfinished() -> UpstreamError {
    let message = "The upstream's response is still being made, and can be fetched only without a stream, by clients \
                   of its dialect";
    UpstreamError { message: message.to_owned(), ..UpstreamError::default() }
}

/// Returns the failure that a stop is in a dialect. In messages and responses a call that the model could not put together
/// is one: an agent would take any other end for the end of its work. In chat the answer ends.
fn failed_stop(to: Dialect, stop: &Stop<'_>) -> Option<UpstreamError> {
    let fails = *stop == Stop::BrokenCall && matches!(to, Dialect::Messages | Dialect::Responses);
    let message = "The upstream's model made a call that it could not put together (MALFORMED_FUNCTION_CALL)";
    fails.then(|| UpstreamError { message: message.to_owned(), ..UpstreamError::default() })
}

fn fail_by_stop(to: Dialect, reply: &Reply<'_>) -> Result<(), UpstreamError> {
    reply.candidates.first().and_then(|first| failed_stop(to, &first.stop)).map_or(Ok(()), Err)
}

/// Replays plain text, which an upstream sent in place of an answer, as a stream.
pub fn replayed_text(to: Dialect, text: &str, context: &ReplyContext) -> Answer {
    let parts = vec![Part::Text(Text::of(text))];
    let candidates = vec![Candidate { parts, ..Candidate::default() }];
    let mut reply = Reply { candidates, ..Reply::default() };
    restore::reply(&mut reply, context);
    Answer { body: written_as_stream(to, &reply, context), usage: None, signatures: Vec::new() }
}

/// Writes an answer as the client's stream; several candidates are written one after the other.
fn written_as_stream(to: Dialect, reply: &Reply<'_>, context: &ReplyContext) -> Bytes {
    let answers = if context.several { reply.candidates.len().clamp(1, MAX_CHOICES) } else { 1 };
    let mut out = String::new();
    for answer in 0..answers {
        let mut writer = Writer::of_answer(answer as u64, to, context);
        whole::replay(reply, answer, &mut |event| writer.write(&event, context, &mut out));
        if context.several && answer + 1 == answers {
            writer.conclude(context, &mut out);
        }
    }
    Bytes::from(out)
}

/// Replays a complete answer as a stream. Within one dialect everything that only this dialect has is kept. A response that is
/// made in the background has only the beginning of a stream.
pub fn replayed(
    from: Dialect,
    to: Dialect,
    body: &str,
    context: &ReplyContext,
) -> Result<Answer, UpstreamError> {
    if from == Dialect::Completions {
        let usage = super::usage::of_reply(from, body.as_bytes());
        return Ok(Answer { body: Bytes::from(completions::replay(body)), usage, signatures: Vec::new() });
    }
    let node = Node::parse(body).map_err(|_| UpstreamError::new("Upstream's answer is not valid JSON"))?;
    let has_begun = is_under_way(from, &node);
    if has_begun && !(to == Dialect::Responses && context.in_background) {
        return Err(unfinished());
    }
    let mut reply = read_reply(from, &node)?;
    fail_by_stop(to, &reply)?;
    let replay = match to {
        Dialect::Chat => chat::replay,
        Dialect::Responses => responses::replay,
        Dialect::Gemini => gemini::replay,
        _ => messages::replay,
    };
    // Some sites give the text of a response without its items.
    let lacks_items = to == Dialect::Responses && !has_begun && node.items_at("output").is_empty();
    if from == to && !lacks_items {
        let mut out = String::new();
        replay(&node, context, &mut out);
        return Ok(Answer { body: Bytes::from(out), usage: reply.usage, signatures: Vec::new() });
    }
    // Stream readers give pictures to all writers as texts; the writer of gemini turns them into pictures again.
    gemini::images_to_text(&mut reply);
    restore::reply(&mut reply, context);
    let body = written_as_stream(to, &reply, context);
    Ok(Answer { body, usage: reply.usage, signatures: lost_signatures(to, &reply) })
}

fn write(to: Dialect, mut reply: Reply<'_>, context: &ReplyContext) -> Result<Answer, UpstreamError> {
    fail_by_stop(to, &reply)?;
    if to != Dialect::Gemini {
        gemini::images_to_text(&mut reply);
    }
    restore::reply(&mut reply, context);
    let body = write_reply(to, &reply, context);
    Ok(Answer { body, usage: reply.usage, signatures: lost_signatures(to, &reply) })
}

fn lost_signatures(to: Dialect, reply: &Reply<'_>) -> Vec<CallSignature> {
    if signatures::may_be_lost(to) { signatures::of_reply(reply) } else { Vec::new() }
}

/// Reads a request. An error names the member that the client sent.
fn read_request<'a>(dialect: Dialect, body: &Node<'a>) -> Result<Request<'a>, ConversionError> {
    match dialect {
        Dialect::Chat => chat::read_request(body),
        Dialect::Responses => responses::read_request(body),
        Dialect::Messages => messages::read_request(body),
        Dialect::Gemini => gemini::read_request(body),
        Dialect::Completions => completions::read_request(body),
        _ => Err(ConversionError::unsupported("model")),
    }
}

/// Writes a request. An error names the member as chat clients send it.
fn write_request(
    dialect: Dialect,
    request: &Request<'_>,
    target: &Target<'_>,
) -> Result<Bytes, ConversionError> {
    match dialect {
        Dialect::Chat => chat::write_request(request, target),
        Dialect::Responses => responses::write_request(request, target),
        Dialect::Messages => messages::write_request(request, target),
        Dialect::Gemini => gemini::write_request(request, target),
        _ => Err(ConversionError::unsupported("model")),
    }
}

/// Reads a complete answer.
fn read_reply<'a>(dialect: Dialect, body: &Node<'a>) -> Result<Reply<'a>, UpstreamError> {
    match dialect {
        Dialect::Chat => chat::read_reply(body),
        Dialect::Responses => responses::read_reply(body),
        Dialect::Messages => messages::read_reply(body),
        Dialect::Gemini => gemini::read_reply(body),
        _ => Err(UpstreamError::default()),
    }
}

/// Writes a complete answer.
fn write_reply(dialect: Dialect, reply: &Reply<'_>, context: &ReplyContext) -> Bytes {
    match dialect {
        Dialect::Responses => responses::write_reply(reply, context),
        Dialect::Messages => messages::write_reply(reply, context),
        Dialect::Gemini => gemini::write_reply(reply, context),
        Dialect::Completions => completions::write_reply(reply, context),
        _ => chat::write_reply(reply, context),
    }
}

/// The stream reader of a dialect.
#[derive(Debug)]
enum Reader {
    Chat(Box<chat::StreamReader>),
    Responses(responses::StreamReader),
    Messages(messages::StreamReader),
    Gemini(Box<gemini::StreamReader>),
}

impl Reader {
    fn new(dialect: Dialect) -> Self {
        match dialect {
            Dialect::Responses => Self::Responses(Default::default()),
            Dialect::Messages => Self::Messages(Default::default()),
            Dialect::Gemini => Self::Gemini(Default::default()),
            _ => Self::Chat(Default::default()),
        }
    }

    /// Creates the reader of one of several answers in a stream: the one with this index.
    fn of_answer(index: u64, dialect: Dialect) -> Self {
        match dialect {
            Dialect::Chat => Self::Chat(Box::new(chat::StreamReader::of_choice(index))),
            Dialect::Gemini => Self::Gemini(Box::new(gemini::StreamReader::of_candidate(index))),
            _ => Self::new(dialect),
        }
    }

    /// Makes the reader of a chat stream skip pictures.
    fn omit_images(&mut self) {
        if let Self::Chat(reader) = self {
            reader.omit_images();
        }
    }

    fn read(&mut self, event: &StreamEvent<'_>, each: &mut dyn FnMut(Event<'_>)) {
        match self {
            Self::Chat(reader) => reader.read(event, each),
            Self::Responses(reader) => reader.read(event, each),
            Self::Messages(reader) => reader.read(event, each),
            Self::Gemini(reader) => reader.read(event, each),
        }
    }

    fn close(&mut self, each: &mut dyn FnMut(Event<'_>)) {
        match self {
            Self::Chat(reader) => reader.close(each),
            Self::Responses(reader) => reader.close(each),
            Self::Messages(reader) => reader.close(each),
            Self::Gemini(reader) => reader.close(each),
        }
    }
}

/// Returns the indexes of the answers that a chunk is about, where a stream may hold several.
fn answers_in<'n>(from: Dialect, chunk: &'n Node<'_>) -> impl Iterator<Item = u64> + 'n {
    let list = match from {
        Dialect::Chat => "choices",
        _ => "candidates",
    };
    let chunk = if from == Dialect::Gemini { gemini::opened(chunk) } else { chunk };
    chunk.items_at(list).iter().take(MAX_CHOICES).map(|answer| answer.u64_at("index").unwrap_or(0))
}

/// The stream writer of a dialect.
#[derive(Debug)]
enum Writer {
    Chat(Box<chat::StreamWriter>),
    Responses(Box<responses::StreamWriter>),
    Messages(Box<messages::StreamWriter>),
    Gemini(Box<gemini::StreamWriter>),
    Completions(Box<completions::StreamWriter>),
}

impl Writer {
    /// Creates the writer of the answer with this index, where a stream may hold several; dialects with only one answer
    /// ignore the index.
    fn of_answer(index: u64, dialect: Dialect, context: &ReplyContext) -> Self {
        match dialect {
            Dialect::Responses => Self::Responses(Box::new(responses::StreamWriter::new(context))),
            Dialect::Messages => Self::Messages(Box::new(messages::StreamWriter::new(context))),
            Dialect::Gemini => Self::Gemini(Box::new(gemini::StreamWriter::of_candidate(index))),
            Dialect::Completions => Self::Completions(Box::new(completions::StreamWriter::of_choice(index))),
            _ => Self::Chat(Box::new(chat::StreamWriter::of_choice(index, context))),
        }
    }

    fn write(&mut self, event: &Event<'_>, context: &ReplyContext, out: &mut String) {
        match self {
            Self::Chat(writer) => writer.write(event, context, out),
            Self::Responses(writer) => writer.write(event, context, out),
            Self::Messages(writer) => writer.write(event, context, out),
            Self::Gemini(writer) => writer.write(event, context, out),
            Self::Completions(writer) => writer.write(event, context, out),
        }
    }

    /// Writes what follows the last of several answers, where anything does.
    fn conclude(&self, context: &ReplyContext, out: &mut String) {
        match self {
            Self::Chat(writer) => writer.conclude(out),
            Self::Completions(writer) => writer.conclude(context, out),
            Self::Responses(_) | Self::Messages(_) | Self::Gemini(_) => {}
        }
    }
}
