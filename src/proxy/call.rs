//! One client request, read once and kept for all its attempts.

use std::mem;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use bytes::Bytes;
use hyper::HeaderMap;
use hyper::header::HeaderValue;
use tokio::task::block_in_place;

use crate::core::Core;
use crate::dialect::envelope::{self, Envelope, EnvelopeError, Thread};
use crate::dialect::estimate::estimate_tokens_by_size;
use crate::dialect::json;
use crate::dialect::{Dialect, chat};
use crate::error_words::echo::Echo;
use crate::http::Request;
use crate::http::timer::ReusableTimer;
use crate::ids::{ChannelOrMember, KeyId};
use crate::limits::HeldMemory;
use crate::proxy::Proxy;
use crate::request_id::RequestId;
use crate::settings::Settings;
use crate::upstream::WorkKind;

use super::auth::{self, Caller};
use super::call_signatures::CallSignatures;
use super::client::Client;
use super::form_body;
use super::key::quota::Admission;
use super::operation::{CallKind, Operation};
use super::query;
use super::reply::ErrorShape;
use super::responses::id_owners::KeptAt;
use super::session::{Session, SessionSource};
use super::trace::record::Trace;

/// The length from which a body is searched away from the connections that the thread serves, in bytes.
const LONG: usize = 1024 * 1024;

/// Everything of a call except its body.
pub(super) struct Head<'a> {
    pub(super) kind: CallKind,
    pub(super) id: RequestId,
    pub(super) caller: Caller,
    pub(super) path: &'a str,
    pub(super) headers: HeaderMap,
    /// The query as sent, without the question mark.
    pub(super) query: &'a str,
    pub(super) timer: ReusableTimer,
    /// The name of the conversation, used where neither the client nor the body names one.
    pub(super) session: Option<&'a str>,
    /// The share of the memory for bodies that the body takes.
    pub(super) memory: Option<HeldMemory>,
}

/// One client request as all its attempts see it.
pub(super) struct Call {
    pub(super) shape: ErrorShape,
    pub(super) operation: Operation,
    pub(super) envelope: Envelope,
    /// The requested model, shared with every log row.
    pub(super) model: Arc<str>,
    /// The body as received; only the model is ever replaced, and only on the way out.
    pub(super) body: Bytes,
    /// The share of the memory for bodies that the body takes for as long as it is kept; `None` for a short body.
    pub(super) memory: Option<HeldMemory>,
    pub(super) headers: HeaderMap,
    /// The API version in a Gemini client's path, where it is not the usual one.
    pub(super) version: Option<Box<str>>,
    /// The client's query without its credential and the stream form, empty or beginning with `?`.
    pub(super) query: String,
    pub(super) caller: Caller,
    /// The token that admitted the caller, kept to hide it in reports.
    pub(super) presented: Option<HeaderValue>,
    /// The settings when the call came: they stay the same until it is answered.
    pub(super) settings: Arc<Settings>,
    pub(super) key_id: Option<KeyId>,
    /// What the call holds of its key's limits, once it is admitted.
    pub(super) admission: Admission,
    pub(super) client: Client,
    /// The conversation that the call belongs to, where it names one and stickiness is on.
    pub(super) session: Option<Session>,
    /// Whether usage is asked for on the client's behalf, because its key is charged by usage, and hidden from the client.
    pub(super) asks_for_usage: bool,
    /// The estimated number of input tokens, where a key is charged and its client may leave before usage is told.
    pub(super) estimated_input: Option<u64>,
    /// The name of the member that refers to an earlier answer or conversation whose owner is not known.
    pub(super) unknown_history: Option<&'static str>,
    /// What the call goes on from, where one account's upstream keeps it.
    pub(super) kept_at: Option<KeptAt>,
    /// The answer that the call goes on from, where the body has it in full and no longer names it.
    pub(super) previous: Option<String>,
    /// The conversation kept by the upstream that the call goes on in.
    pub(super) conversation: Option<String>,
    /// Whether a document of a messages body is a recording stored here, for which that dialect has no block.
    pub(super) has_recording: bool,
    /// Signatures of tool calls from earlier answers, which some upstreams want back.
    pub(super) call_signatures: Arc<CallSignatures>,
    /// The call's trace; records nothing unless the operator asked for calls like this one.
    pub(super) trace: Trace,
    /// The timer that bounds the wait for an answer. The attempts share it, since one follows the other.
    pub(super) timer: ReusableTimer,
    /// Whether an account's token was renewed for this call, or was to be: that is done once.
    pub(super) has_renewed: AtomicBool,
}

// === impl Head ===

impl<'a> Head<'a> {
    /// Reads the head from a request, and takes its headers and memory.
    pub(super) fn of(kind: CallKind, request: &'a mut Request, caller: Caller) -> Self {
        let (headers, memory) = (mem::take(&mut request.headers), request.memory.take());
        Self {
            kind,
            id: request.id,
            caller,
            path: request.uri.path(),
            headers,
            query: request.query.raw(),
            timer: request.timer.clone(),
            session: None,
            memory,
        }
    }
}

// === impl Call ===

impl Call {
    /// Reads what routing must know of a request whose body is `body`.
    ///
    /// # Errors
    ///
    /// Returns what is wrong with the body, and the error shape for the client.
    pub(super) fn read(
        proxy: &Proxy,
        mut head: Head<'_>,
        body: Bytes,
    ) -> Result<Box<Self>, (ErrorShape, EnvelopeError)> {
        let CallKind { dialect, operation, .. } = head.kind;
        let ReadRequest { envelope, body, version } = ReadRequest::of(&mut head, body)?;
        let mut query = query::forwarded(head.query);
        let presented = auth::presented(&head.headers, head.query);
        if operation == Operation::CountTokens && dialect == Dialect::Messages {
            query = query::with_beta(&query);
        }
        let client = Client::detect(head.path, dialect, &head.headers, envelope.user.as_deref());
        let shape = ErrorShape::new(dialect, head.id).to_client(client.names_version);
        let key_id = head.caller.key_id();
        let settings = proxy.core.settings.load_full();
        let UsageWanted { asks_for_usage, estimated_input } = UsageWanted::of(&head, &envelope, &body);
        let source = SessionSource {
            client: &client,
            path: operation.path(dialect),
            envelope: &envelope,
            body: &body,
            key_id,
            socket: head.session,
        };
        let session = Session::of(&proxy.core, &settings, &source);
        Ok(Box::new(Self {
            operation,
            shape,
            client,
            session,
            model: Arc::from(envelope.model.as_str()),
            envelope,
            body,
            memory: head.memory,
            headers: head.headers,
            version,
            query,
            presented,
            key_id,
            admission: Admission::default(),
            caller: head.caller,
            settings,
            asks_for_usage,
            estimated_input,
            unknown_history: None,
            kept_at: None,
            previous: None,
            conversation: None,
            has_recording: false,
            call_signatures: proxy.call_signatures.clone(),
            trace: Trace::default(),
            timer: head.timer,
            has_renewed: AtomicBool::new(false),
        }))
    }

    /// Returns the channel whose upstream keeps the thread of messages that the call goes on in; `None` where it is not known.
    pub(super) fn kept_thread(&self, core: &Core) -> Option<ChannelOrMember> {
        let session = self.session.as_ref().filter(|_| self.envelope.thread == Thread::Continued)?;
        session.answers_channel(core)
    }

    /// Returns what kind of work an upstream does for the call, which decides where it may be sent again.
    pub(super) fn work(&self) -> WorkKind {
        match self.operation.work(self.shape.dialect) {
            // The upstream works on it, and charges for it, whoever waits.
            WorkKind::Text if self.envelope.in_background => WorkKind::Creation,
            work => work,
        }
    }

    /// Whether the request contains these words, which are in lower case.
    pub(super) fn has_said(&self, words: &str) -> bool {
        let echo =
            || Echo::of(words, self.request_texts().iter().map(|piece| &piece[..])).covers(0..words.len());
        // Moved away from this thread, which others need meanwhile.
        if self.body.len() > LONG { block_in_place(echo) } else { echo() }
    }

    /// Returns the texts of the request that an upstream may repeat in an error.
    pub(super) fn request_texts(&self) -> Vec<Bytes> {
        let mut beside = self.model.as_bytes().to_vec();
        beside.push(0);
        beside.extend(percent_encoding::percent_decode_str(&self.query));
        for value in self.headers.values() {
            beside.push(0);
            beside.extend_from_slice(value.as_bytes());
        }
        vec![self.body.clone(), Bytes::from(beside)]
    }
}

/// What a managed key needs to know of a call's usage.
struct UsageWanted {
    asks_for_usage: bool,
    estimated_input: Option<u64>,
}

impl UsageWanted {
    fn of(head: &Head<'_>, envelope: &Envelope, body: &[u8]) -> Self {
        let CallKind { dialect, operation, .. } = head.kind;
        let Some(key) = &head.caller.key else {
            return Self { asks_for_usage: false, estimated_input: None };
        };
        let is_stream = envelope.stream && operation == Operation::Answer;
        // Speech through a socket is not in any body.
        let is_socket = operation == Operation::Converse;
        Self {
            asks_for_usage: key.counts_usage()
                && is_stream
                && matches!(dialect, Dialect::Chat | Dialect::Completions)
                && std::str::from_utf8(body).is_ok_and(chat::leaves_usage_open),
            estimated_input: is_stream.then(|| estimate_tokens_by_size(body)).or(is_socket.then_some(0)),
        }
    }
}

/// A request as far as routing must know it.
struct ReadRequest {
    envelope: Envelope,
    /// The body; that of a form is put in order.
    body: Bytes,
    /// The API version in the path.
    version: Option<Box<str>>,
}

impl ReadRequest {
    fn of(head: &mut Head<'_>, body: Bytes) -> Result<Self, (ErrorShape, EnvelopeError)> {
        let CallKind { dialect, operation, .. } = head.kind;
        let read = match operation {
            _ if operation.is_form() => form_body::read(dialect, &head.headers, body),
            Operation::Moderate => {
                envelope::skim_or(dialect, operation.default_model(), &body).map(|envelope| (envelope, body))
            }
            _ => envelope::skim(dialect, &body).map(|envelope| (envelope, body)),
        };
        let (mut envelope, body) =
            read.map_err(|error| (ErrorShape::of(&head.headers, Some(dialect), head.id), error))?;
        match operation {
            Operation::Speak => envelope.stream = streams_speech(&body),
            // The answer is one object, whatever the request says.
            Operation::CreateVideo
            | Operation::CountTokens
            | Operation::Rerank
            | Operation::RerankV2
            | Operation::Moderate => envelope.stream = false,
            _ => {}
        }
        let version = head.kind.of_path.take().and_then(|path| {
            envelope.model = path.model;
            envelope.stream = path.stream;
            path.version
        });
        Ok(Self { envelope, body, version })
    }
}

/// Whether speech is asked for as events; plain audio bytes come piece by piece, too.
fn streams_speech(body: &[u8]) -> bool {
    let text = std::str::from_utf8(body).unwrap_or_default();
    json::member(text, "stream_format") == Some("\"sse\"")
}
