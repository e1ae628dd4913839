//! One client request, read once and kept for as many attempts as it takes.

use std::borrow::Cow;
use std::mem;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use bytes::Bytes;
use hyper::HeaderMap;
use hyper::header::HeaderValue;
use tokio::task::block_in_place;

use crate::dialect::envelope::{self, Envelope, EnvelopeError};
use crate::dialect::estimate::presumed_tokens;
use crate::dialect::json;
use crate::dialect::{Dialect, chat};
use crate::error_words::echo::Echo;
use crate::http::Request;
use crate::http::timer::ReusableTimer;
use crate::ids::KeyId;
use crate::limits::HeldMemory;
use crate::proxy::Proxy;
use crate::request_id::RequestId;
use crate::settings::Settings;
use crate::upstream::Work;

use super::auth::Caller;
use super::call_signatures::CallSignatures;
use super::client::Client;
use super::form_body;
use super::key::quota::Admission;
use super::operation::{CallKind, Operation};
use super::reply::ErrorShape;
use super::session::Session;
use super::trace::record::Trace;

/// A body of this length is searched away from the connections that the thread serves.
const LONG: usize = 1024 * 1024;

/// Everything of a call but its body.
pub(super) struct Head<'a> {
    pub(super) kind: CallKind,
    pub(super) id: RequestId,
    pub(super) caller: Caller,
    pub(super) path: &'a str,
    pub(super) headers: HeaderMap,
    /// As sent, without the question mark.
    pub(super) query: &'a str,
    pub(super) timer: ReusableTimer,
    /// The name of the conversation, where neither the client nor the body names one.
    pub(super) session: Option<&'a str>,
    /// What its body has of the memory for bodies.
    pub(super) memory: Option<HeldMemory>,
}

/// One client request as all its attempts see it.
pub(super) struct Call {
    pub(super) shape: ErrorShape,
    pub(super) operation: Operation,
    pub(super) envelope: Envelope,
    /// The requested model, shared with every log row.
    pub(super) model: Arc<str>,
    /// As received; only the model is ever replaced, and only on the way out.
    pub(super) body: Bytes,
    /// What the body has of the memory for bodies, for as long as it is kept; `None` for a short one.
    pub(super) memory: Option<HeldMemory>,
    pub(super) headers: HeaderMap,
    /// The version that a gemini client's path names, where it is another than the usual one.
    pub(super) version: Option<Box<str>>,
    /// The client's query without its credential and the form of a stream, empty or beginning with `?`.
    pub(super) query: String,
    pub(super) caller: Caller,
    /// The token by which the caller was let in, to be kept out of what is told.
    pub(super) presented: Option<HeaderValue>,
    /// As they were when it came: they stay the same until it is answered.
    pub(super) settings: Arc<Settings>,
    pub(super) key_id: Option<KeyId>,
    /// What it holds of the limits of its key, once it was let in.
    pub(super) admission: Admission,
    pub(super) client: Client,
    /// The conversation it belongs to, where it says so and it matters.
    pub(super) session: Option<Session>,
    /// Its key is charged by usage that its client does not ask for: it is asked for on its behalf, and kept from it.
    pub(super) asks_for_usage: bool,
    /// About how many tokens its input has, where its key is charged by usage and its client may leave before that is told.
    pub(super) presumed_input: Option<u64>,
    /// What it goes on from, by the name of the member, where nobody knows whose that is.
    pub(super) unknown_history: Option<&'static str>,
    /// The answer of ours that it goes on from: the body has it in full, and no longer names it.
    pub(super) previous: Option<String>,
    /// The conversation that it goes on in, kept by the upstream.
    pub(super) conversation: Option<String>,
    /// Signatures of tool calls from earlier answers, which some upstreams want back.
    pub(super) call_signatures: Arc<CallSignatures>,
    /// Records nothing unless the operator asked for calls like this one.
    pub(super) trace: Trace,
    /// Bounds the wait for an answer. The attempts share it, since one follows the other.
    pub(super) timer: ReusableTimer,
    /// The token of an account was renewed for it, or was to be: that is done once.
    pub(super) has_renewed: AtomicBool,
}

// === impl Head ===

impl<'a> Head<'a> {
    /// What is read from a request whose headers and memory the call takes over.
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
    /// What is wrong with the body, and in which shape the client is to be told.
    pub(super) fn read(
        proxy: &Proxy,
        head: Head<'_>,
        body: Bytes,
    ) -> Result<Box<Self>, (ErrorShape, EnvelopeError)> {
        let CallKind { dialect, operation, of_path } = head.kind;
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
            // One object, whatever the request says.
            Operation::CreateVideo | Operation::CountTokens => envelope.stream = false,
            Operation::Rerank | Operation::RerankV2 | Operation::Moderate => envelope.stream = false,
            _ => {}
        }
        let mut version = None;
        if let Some(path) = of_path {
            envelope.model = path.model;
            envelope.stream = path.stream;
            version = path.version;
        }
        let mut query = forwarded_query(head.query);
        let presented = presented(&head.headers, head.query);
        if operation == Operation::CountTokens && dialect == Dialect::Messages {
            ask_for_beta(&mut query);
        }
        let client = Client::detect(head.path, dialect, &head.headers, envelope.user.as_deref());
        let shape = ErrorShape::new(dialect, head.id).to_client(client.names_version);
        let path = operation.path(dialect);
        let key_id = head.caller.key_id();
        let settings = proxy.core.settings.load_full();
        let counts_usage = head.caller.key.as_ref().is_some_and(|key| key.counts_usage());
        let is_charged_stream = counts_usage && envelope.stream && operation == Operation::Answer;
        let is_charged_socket = counts_usage && operation == Operation::Converse;
        let asks_for_usage = is_charged_stream
            && matches!(dialect, Dialect::Chat | Dialect::Completions)
            && std::str::from_utf8(&body).is_ok_and(chat::leaves_usage_open);
        // What is said through a socket stands in no body.
        let presumed_input =
            is_charged_stream.then(|| presumed_tokens(&body)).or(is_charged_socket.then_some(0));
        let session = Session::going_on(&proxy.core, &body, &envelope, key_id)
            .or_else(|| Session::of(&proxy.core, &settings, &client, path, &envelope, key_id, head.session));
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
            presumed_input,
            unknown_history: None,
            previous: None,
            conversation: None,
            call_signatures: proxy.call_signatures.clone(),
            trace: Trace::default(),
            timer: head.timer,
            has_renewed: AtomicBool::new(false),
        }))
    }

    /// What an upstream does for it: says where it may be sent again.
    pub(super) fn work(&self) -> Work {
        self.operation.work(self.shape.dialect)
    }

    /// Whether the request has these words, which are in lower case.
    pub(super) fn has_said(&self, words: &str) -> bool {
        let echo = || Echo::of(words, self.said().iter().map(|piece| &piece[..])).covers(0..words.len());
        // Others need this thread meanwhile.
        if self.body.len() > LONG { block_in_place(echo) } else { echo() }
    }

    /// The words of the request that an upstream may repeat in an error.
    pub(super) fn said(&self) -> Vec<Bytes> {
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

/// Whether speech is asked for as events; the bytes of a sound come piece by piece, too.
fn streams_speech(body: &[u8]) -> bool {
    let text = std::str::from_utf8(body).unwrap_or_default();
    json::member(text, "stream_format") == Some("\"sse\"")
}

/// The query that goes upstream: everything but `key`, which is a credential, `alt`, which says in which form gemini's
/// clients want a stream, and a model beside the one that was asked for.
pub(super) fn forwarded_query(raw: &str) -> String {
    let mut out = String::new();
    for pair in raw.split('&').filter(|pair| !pair.is_empty()) {
        if !matches!(name_in(pair).as_ref(), "key" | "alt") && !names_model(pair) {
            out.push(if out.is_empty() { '?' } else { '&' });
            out.push_str(pair);
        }
    }
    out
}

/// The token of a caller, wherever it stands: the value of a header is shared, not copied.
fn presented(headers: &HeaderMap, query: &str) -> Option<HeaderValue> {
    let in_headers =
        ["authorization", "x-api-key", "x-goog-api-key"].into_iter().find_map(|name| headers.get(name));
    in_headers.cloned().or_else(|| {
        let key = query.split('&').find(|pair| name_in(pair) == "key")?.split_once('=')?.1;
        HeaderValue::from_str(&percent_encoding::percent_decode_str(key).decode_utf8_lossy()).ok()
    })
}

/// The name in a pair of a query, decoded.
fn name_in(pair: &str) -> Cow<'_, str> {
    let name = pair.split('=').next().unwrap_or_default();
    percent_encoding::percent_decode_str(name).decode_utf8_lossy()
}

/// Whether a pair of a query names a model, for whichever reader.
fn names_model(pair: &str) -> bool {
    name_in(pair).replace('+', " ").trim().eq_ignore_ascii_case("model")
}

/// Tokens are counted at the surface's beta, as its own clients do.
fn ask_for_beta(query: &mut String) {
    let others = query.split(['?', '&']).filter(|pair| !pair.is_empty() && name_in(pair) != "beta");
    *query = others.fold(String::from("?beta=true"), |query, pair| query + "&" + pair);
}

#[cfg(test)]
mod tests {
    use super::{ask_for_beta, forwarded_query};

    #[test]
    fn the_beta_is_asked_for_once() {
        for (raw, asked) in
            [("", "?beta=true"), ("?a=1&b", "?beta=true&a=1&b"), ("?b%65ta=false&a", "?beta=true&a")]
        {
            let mut query = raw.to_owned();
            ask_for_beta(&mut query);
            assert_eq!(query, asked, "{raw}");
        }
    }

    #[test]
    fn the_key_never_goes_upstream() {
        for (raw, forwarded) in [
            ("", ""),
            ("key=sk-1", ""),
            ("beta=true&key=sk-1", "?beta=true"),
            ("alt=sse&a=1", "?a=1"),
            ("%6bey=sk-1&a=1&b", "?a=1&b"),
            ("monkey=1", "?monkey=1"),
        ] {
            assert_eq!(forwarded_query(raw), forwarded, "{raw}");
        }
    }
}
