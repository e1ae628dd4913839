//! Step 9, the commit point: an answer is held until it is known to be good; only then does it go to the client, in the
//! client's form.
//!
//! | the client wants | the upstream streams | the upstream answers in one piece |
//! |---|---|---|
//! | a stream | held to the first output, then [`relay`](super::relay) | judged, replayed as a stream |
//! | an answer | gathered, judged | judged |
//!
//! Two of the four have a file of their own, [`stream`] and [`whole`]; the other two are [`converted`].
//!
//! If client and upstream speak the same dialect, bytes pass as they are, and events that a site leaves out are added to its
//! streams. Otherwise they are converted on the way. Audio and transcripts, which no dialect can express, are handled
//! by [`media`]; the kind of a body, by its content type and its first bytes, is told by
//! [`media_type`](super::media_type). What the client may later go on from is noted by [`stored_answer`].

mod converted;
mod media;
mod stored_answer;
mod stream;
mod whole;

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use hyper::header;
use tokio::time::{Instant, timeout_at};

use crate::byte_order_mark;
use crate::dialect::canonical::ReplyContext;
use crate::dialect::judge::Fault;
use crate::dialect::{Dialect, convert, responses};
use crate::http::{Response, ResponseBody};
use crate::proxy::Proxy;
use crate::routing::Channel;
use crate::time::now_secs;
use crate::uuid;

use super::attempt::Attempt;
use super::call::Call;
use super::client_answer::ClientAnswer;
use super::failure::Failure;
use super::headers::{self, SecretCheck};
use super::held_body::HeldBody;
use super::media_type::{is_event_stream, is_undecided, looks_like_events, looks_like_json};
use super::operation::Operation;
use super::send::Accepted;

/// The largest preamble of a stream that is held back, in bytes; a longer one is sent on all the same.
const MAX_HELD: usize = 1 << 20;
/// The longest time for which a stream is held back, counted from its first byte, where no heartbeat keeps the
/// client's connection open: after that the client gets what there is.
const MAX_HOLD: Duration = Duration::from_secs(10);

/// An answer that cannot be committed. Its attempt is not settled yet, because another address may do better.
pub(super) struct Uncommittable {
    pub(super) attempt: Box<Attempt>,
    pub(super) failure: Failure,
}

/// Holds the answer until it is known to be good, then turns it into the client's answer.
pub(super) async fn commit(
    proxy: &Arc<Proxy>,
    call: &Call,
    mut accepted: Box<Accepted>,
    mut attempt: Box<Attempt>,
) -> Result<ClientAnswer, Uncommittable> {
    if call.envelope.stream {
        attempt.keep_lease();
    }
    let mut first = match accepted.next().await {
        Ok(first) => first.unwrap_or_default(),
        Err(failure) => return Err(uncommittable(attempt, failure)),
    };
    attempt.first_byte();
    accepted.timeouts.first_byte = None;
    if call.shape.dialect == Dialect::Audio {
        let answer = StartedResponse { proxy, call, accepted, first, is_own_dialect: true, answer_id: None };
        return Box::pin(answer.media(attempt)).await;
    }
    if is_undecided(&first) {
        first = match decided(first, &mut accepted).await {
            Ok(first) => first,
            Err(failure) => return Err(uncommittable(attempt, failure)),
        };
    }
    // Readers of events skip the mark; readers of JSON do not accept it.
    let unmarked = byte_order_mark::strip(&first);
    let named_stream = accepted.head.headers.get(&header::CONTENT_TYPE).is_some_and(is_event_stream)
        && !looks_like_json(unmarked);
    let streams = named_stream || looks_like_events(unmarked);
    if !streams {
        first = first.slice(first.len() - unmarked.len()..);
    }
    let dialect = accepted.dialect;
    let is_own_dialect = dialect == call.shape.dialect;
    let is_named = !is_own_dialect && call.shape.dialect == Dialect::Responses;
    let answer_id = is_named.then(uuid::random_hex);
    let answer = StartedResponse { proxy, call, accepted, first, is_own_dialect, answer_id };
    match (call.envelope.stream, streams) {
        // Boxed, so that calls without a stream do not carry it.
        (true, true) => Box::pin(answer.stream(attempt)).await,
        (false, false) if call.operation == Operation::CreateVideo => {
            Box::pin(answer.created_video(attempt)).await
        }
        (false, false) if is_own_dialect => answer.whole(attempt).await,
        (true, false) if !dialect.is_answerable() => answer.whole(attempt).await,
        // An answer of another form than was asked for, or of another dialect: rare and large.
        _ => Box::pin(answer.converted(streams, attempt)).await,
    }
}

/// Reads on until the first bytes tell whether the answer is a stream: the network may have cut them anywhere.
async fn decided(first: Bytes, accepted: &mut Accepted) -> Result<Bytes, Failure> {
    let hold_until = Instant::now() + MAX_HOLD;
    let mut begun = BytesMut::from(first);
    while is_undecided(&begun) && begun.len() < MAX_HELD {
        match timeout_at(hold_until, accepted.next()).await {
            Ok(more) => match more? {
                Some(more) => begun.extend_from_slice(&more),
                None => break,
            },
            Err(_) => break,
        }
    }
    Ok(begun.freeze())
}

/// An answer whose first bytes have arrived.
struct StartedResponse<'a> {
    proxy: &'a Arc<Proxy>,
    call: &'a Call,
    accepted: Box<Accepted>,
    first: Bytes,
    /// Whether the upstream speaks the client's dialect.
    is_own_dialect: bool,
    /// The id for an answer that is converted to the responses dialect.
    answer_id: Option<String>,
}

impl<'a> StartedResponse<'a> {
    /// Rewrites an answer to a compaction call as a compaction: not every upstream distinguishes compactions from answers.
    fn finished(&self, body: Bytes) -> Bytes {
        if self.call.operation != Operation::Compact {
            return body;
        }
        let now = now_secs();
        let text = std::str::from_utf8(&body).unwrap_or_default();
        responses::as_compaction(text, self.call.shape.id.as_str(), now).map_or(body, Bytes::from)
    }

    /// Builds the context in which the answer is written: what must be known of the request, and the model that the upstream
    /// was asked for. A request that was sent unread is read for it now.
    fn reply_context(&self, model: &str) -> impl Future<Output = ReplyContext> + use<'a> {
        let (proxy, call) = (self.proxy, self.call);
        let (known, model) = (self.accepted.reply_context.as_deref().cloned(), model.to_owned());
        let answer_id = self.answer_id.clone();
        async move {
            let read = || {
                convert::context_of(call.shape.dialect, std::str::from_utf8(&call.body).unwrap_or_default())
            };
            let reply_context = match known {
                Some(known) => known,
                None => proxy.conversions.read_through(call.body.len(), read).await,
            };
            ReplyContext {
                now: now_secs(),
                in_background: call.envelope.in_background,
                answer_id,
                fallback_id: call.shape.id.as_str().to_owned(),
                model,
                ..reply_context
            }
        }
    }

    /// Turns a fault of the answer into a failure. A model repeats what its client tells it to, so a keyword that the request
    /// contains is nobody's fault.
    fn judged(&self, fault: Fault) -> Failure {
        match fault {
            Fault::Keyword(ref word) if self.call.has_said(word) => judged(fault).by_the_client(),
            fault => judged(fault),
        }
    }

    /// Adds the upstream's headers about its limits, which the client gets even with an unusable answer.
    fn uncommittable(&self, attempt: Box<Attempt>, failure: Failure) -> Uncommittable {
        uncommittable(attempt, failure.answered_with(&self.accepted.head.headers))
    }

    /// Builds a response with the headers that every answer has.
    fn response(&self, attempt: &Attempt) -> Response {
        let mut response = Response::new(ResponseBody::empty());
        self.put_headers(attempt.channel(), &mut response);
        headers::request_id(self.call.shape.dialect, self.call.shape.id, response.headers_mut());
        response
    }

    fn put_headers(&self, channel: &Channel, response: &mut Response) {
        let secrets = SecretCheck::of(channel);
        let upstream = &self.accepted.head.headers;
        headers::downstream(upstream, |value| secrets.repeats(value), response.headers_mut());
    }

    /// Returns the length of the whole answer in bytes, when the upstream gave it.
    fn length(&self) -> Option<u64> {
        http_body::Body::size_hint(&self.accepted.body).exact().map(|rest| rest + self.first.len() as u64)
    }

    /// Reads the answer up to `limit` bytes. One chunk is the usual case, and needs no buffer.
    async fn hold(&mut self, length: Option<u64>, limit: usize) -> Result<HeldBody, Failure> {
        let first = std::mem::take(&mut self.first);
        if length.is_some_and(|length| length > limit as u64) {
            return Ok(HeldBody::part(first));
        }
        let Some(second) = self.accepted.next().await? else { return Ok(HeldBody::whole(first)) };
        let begun = first.len() + second.len();
        self.accepted.timeouts.begin_whole();
        let mut buffer = BytesMut::with_capacity(length.map_or(2 * begun, |length| length as usize));
        buffer.extend_from_slice(&first);
        buffer.extend_from_slice(&second);
        while buffer.len() <= limit {
            match self.accepted.next().await? {
                Some(more) => buffer.extend_from_slice(&more),
                None => return Ok(HeldBody::whole(buffer.freeze())),
            }
        }
        Ok(HeldBody::part(buffer.freeze()))
    }
}

/// Turns a fault of an answer with a good status into a failure.
pub(super) fn judged(fault: Fault) -> Failure {
    match fault {
        Fault::Error(error) => Failure::in_body(error, "an error object with a success status"),
        // A page does not come from the API, but from something in front of it.
        Fault::Html(_) => Failure::judged(fault.message()).refused(),
        fault => Failure::judged(fault.message()),
    }
}

fn uncommittable(attempt: Box<Attempt>, failure: Failure) -> Uncommittable {
    let failure = failure.redacted(&attempt.secrets());
    Uncommittable { attempt, failure }
}
