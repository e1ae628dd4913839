//! Why an attempt gave no answer, and what follows from it.
//!
//! Whether the request may go on to another address or channel also hangs on what it asks for and on how far it came:
//! [`Failure::may_repeat`]. A creation that may have been read goes nowhere.
//!
//! | kind | fault of the channel | next channel | the client, when it was the last |
//! |---|---|---|---|
//! | refused, reset, no answer | yes | yes | 502 |
//! | a rested connection closed as it was used again | no | yes | 502 |
//! | no first byte in time | yes | yes | 408 |
//! | an answer not whole in time, though it went on | no | no | 504 |
//! | a site without a surface that not every one has | no | yes | its status |
//! | a status | as [`failure::blame`] says | as [`failure::should_retry`] says | that status (401 to 403: 502) |
//! | a bad answer with a good status | yes | yes | 502 |
//! | an error told in one | as [`failure::blame`] says; without a name yes, unless it is about the request | yes | 502; a mistake of its own: 400 to 422 |
//! | a stream that ends before it has said anything | yes | yes | 502 |
//! | no file or memory left for a connection of ours | no | yes | 502 |
//! | not configured well enough to try | no | yes | 502 |
//! | the dialects it speaks cannot say it | no | yes | 400, naming the field |
//! | the request makes no sense in any dialect | no | no | 400, naming the field |
//! | its session slots are taken | no | yes | 503 |
//! | no room to convert the request | no | no | 503 |

use std::time::Duration;

use bytes::Bytes;
use hyper::header::{HeaderMap, HeaderName, RETRY_AFTER};
use memchr::memchr;

use crate::dialect::canonical::ConversionError;
use crate::dialect::errors::{self, MAX_RETRY_AFTER, UpstreamError};
use crate::dialect::{Dialect, json, messages, optional, output_limit};
use crate::error_words::ErrorText;
use crate::http::Response;
use crate::limits::Overloaded;
use crate::mask::Mask;
use crate::routing::failure::Blame;
use crate::routing::{Channel, ModelPattern, failure};
use crate::time::Millis;
use crate::upstream::{
    AnswerHeaders, BodyError, Came, ErrorKind, Progress, RefusedUpgrade, Repeat, SendError, Work,
};

use super::headers;
use super::reply::{self, ErrorShape};
use super::retry::token_refusal::TokenRefusal;

/// How an attempt failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Network(ErrorKind),
    FirstByte,
    /// It went on and on, and was to be whole before anything of it could be sent.
    NeverWhole,
    Status,
    Judged,
    /// An error with a good status, of the upstream or ours about its answer.
    Told,
    /// A stream that ended before any output.
    ClosedEarly,
    Local,
    /// No dialect of the channel can express the request.
    Unsupported,
    /// The request cannot be understood well enough to be converted.
    Invalid,
    Busy,
    /// Too many large requests are being converted.
    Overloaded,
}

/// A failed attempt. Its texts carry no address and no credential of the upstream.
#[derive(Debug)]
pub(super) struct Failure {
    kind: Kind,
    progress: Progress,
    /// The address is to blame, and the channel has another; or the client has asked for what failed.
    spares_channel: bool,
    /// The upstream's status; 0 when there was none.
    pub(super) status: u16,
    error: UpstreamError,
    /// For the log.
    pub(super) text: String,
    /// For the client: what crosses of the upstream's headers, its limits above all.
    headers: Option<Box<HeaderMap>>,
    /// When the upstream itself says that the channel will work again.
    pub(super) recovers_at: Option<Millis>,
    /// The upstream's own error body, fit to be handed on.
    body: Option<Bytes>,
    /// What it said, for the rules that read texts.
    words: Box<ErrorText>,
    /// The channel lacks a model whose name nobody but the client has thought of.
    is_of_made_up_name: bool,
    /// The upstream does not take the token that it was shown.
    token_refusal: Option<TokenRefusal>,
    /// The site does not serve the path of a surface that not every site has.
    lacks_surface: bool,
}

impl Failure {
    /// There is no answer.
    pub(super) fn unanswered(error: &SendError) -> Self {
        Self::network(error.kind(), error.message(), error.progress())
    }

    /// The answer did not come to its end.
    pub(super) fn cut(error: &BodyError) -> Self {
        Self::network(error.kind(), error.message(), Progress::whole(Came::Answer))
    }

    /// Nothing came for too long. How much of the request has left by then is not known.
    pub(super) fn silence(limit: Duration) -> Self {
        let cause = format!("the upstream sent nothing for {} s", limit.as_secs());
        Self::network(ErrorKind::Timeout, &cause, Progress::whole(Came::Nothing))
    }

    /// `cause` is for the log: it may name the upstream's address.
    fn network(kind: ErrorKind, cause: &str, progress: Progress) -> Self {
        let shown = match kind {
            ErrorKind::Dns => "its name cannot be resolved",
            ErrorKind::Connect => "no connection",
            ErrorKind::Proxy => "no connection through the outbound proxy",
            ErrorKind::Tls => "the TLS handshake failed",
            ErrorKind::Timeout => "it took too long",
            ErrorKind::Exhausted => "the gateway has no file or no memory left for a connection",
            ErrorKind::Closed => "it closed the connection before the answer was whole",
            ErrorKind::Expired => "it closed an idle connection just as it was used again",
            ErrorKind::Protocol => "its answer is not valid HTTP",
        };
        let mut failure = Self::of(Kind::Network(kind), 0, format!("Upstream error: {shown}"));
        failure.text = format!("Upstream error: {cause}");
        Self { progress, ..failure }
    }

    pub(super) fn first_byte_timeout(limit: Duration) -> Self {
        let seconds = limit.as_secs_f64().round().max(1.0);
        Self::of(Kind::FirstByte, 408, format!("first byte timeout ({seconds}s)"))
    }

    /// The answer came, but not all of it in the time that it may be held.
    pub(super) fn never_whole(limit: Duration) -> Self {
        let seconds = limit.as_secs();
        Self::of(Kind::NeverWhole, 504, format!("the upstream's answer was not whole within {seconds} s"))
    }

    /// The answer has more bytes than may be held of it, and would have as many elsewhere.
    pub(super) fn too_long(limit: usize) -> Self {
        Self::of(Kind::NeverWhole, 502, format!("the upstream's answer is longer than {} MiB", limit >> 20))
    }

    /// An answer with a good status that cannot be used: empty, broken off, no JSON.
    pub(super) fn judged(cause: String) -> Self {
        Self::of(Kind::Judged, 502, cause)
    }

    /// What the upstream said says that it did not carry the request out.
    pub(super) fn refused(self) -> Self {
        Self { progress: Progress::whole(Came::Refusal), ..self }
    }

    /// A stream that ended, in whatever order, before any output. A connection that is lost behind a relay looks like
    /// that, so the address is to blame.
    pub(super) fn closed_early() -> Self {
        Self::of(Kind::ClosedEarly, 502, "the upstream closed the stream before any output".to_owned())
    }

    /// What we ourselves could not do. `cause` is for the log: it speaks of the configuration.
    pub(super) fn local(cause: String) -> Self {
        let mut failure = Self::of(Kind::Local, 0, "Upstream error: it is not set up to be used".to_owned());
        failure.text = cause;
        failure
    }

    /// The client gets this status.
    pub(super) fn with_status(self, status: u16) -> Self {
        Self { status, ..self }
    }

    /// The request could not be written in a dialect.
    pub(super) fn unfit(unfit: ConversionError) -> Self {
        let (kind, field, text) = match unfit {
            ConversionError::Invalid { field, message } => (Kind::Invalid, field, message),
            ConversionError::Unsupported { field, form } => {
                let gap = if form.is_empty() { "" } else { " " };
                let advice = match field.as_str() {
                    "item_reference" => ": send the items themselves in place of references to them",
                    _ => "",
                };
                let text =
                    format!("{field}{gap}{form} is not supported by any upstream of this model{advice}");
                (Kind::Unsupported, field, text)
            }
        };
        let mut failure = Self::of(kind, 400, text);
        failure.error.kind = Some("invalid_request_error".to_owned());
        // Clients recover from this one by sending the whole conversation.
        let of_history = field == "previous_response_id";
        failure.error.code = of_history.then(|| "previous_response_not_found".to_owned());
        if field == "thread" {
            // What the API itself says of a thread that it no longer keeps.
            (failure.status, failure.error.kind) = (404, Some("not_found_error".to_owned()));
            failure.error.code = Some(errors::THREAD_NOT_FOUND.to_owned());
        }
        failure.error.param = Some(field);
        failure
    }

    /// As many sessions as the channel takes are at work there, and none ended in time.
    pub(super) fn busy(retry_after_secs: i64) -> Self {
        let mut failure =
            Self::of(Kind::Busy, 503, "Channel busy: all its session slots are taken".to_owned());
        failure.error.kind = Some("server_error".to_owned());
        let headers = HeaderMap::from_iter([(RETRY_AFTER, retry_after_secs.into())]);
        failure.headers = Some(Box::new(headers));
        failure
    }

    /// Too many large requests are being converted; it would be no other for another channel.
    pub(super) fn overloaded() -> Self {
        let message = "Too many large requests at once: the memory for converting them (CONVERSION_MEMORY_BYTES) is taken, try again later";
        let mut failure = Self::of(Kind::Overloaded, 503, message.to_owned());
        failure.error.kind = Some("server_error".to_owned());
        let headers = HeaderMap::from_iter([(RETRY_AFTER, Overloaded::RETRY_AFTER_SECS.into())]);
        failure.headers = Some(Box::new(headers));
        failure
    }

    /// A status outside 2xx, its body read. `upstream` are the headers it came with.
    pub(super) fn status(
        status: u16,
        path: &str,
        upstream: &AnswerHeaders,
        body: Bytes,
        complete: bool,
        now: Millis,
    ) -> Self {
        let mut error = errors::read(status, &body);
        let text = errors::upstream_text(path, status, &error.message);
        let hint = upstream.get(&RETRY_AFTER).and_then(|value| std::str::from_utf8(value).ok());
        let told = error.retry_after.map(|wait| now.saturating_add(wait.as_millis() as Millis));
        let recovers_at = failure::provider_hint(status, hint, &body, now).or(told);
        // Some name the time of the reset alone.
        let until = recovers_at.map(|at| Duration::from_millis(at.abs_diff(now)).min(MAX_RETRY_AFTER));
        error.retry_after = error.retry_after.or(until);
        let progress = Progress::whole(Came::of_status(status));
        let token_refusal = TokenRefusal::of(status, upstream, &body);
        let body = complete.then_some(body);
        let stated = Self::stating(Kind::Status, status, error);
        Self { progress, text, recovers_at, body, token_refusal, ..stated }.answered_with(upstream)
    }

    /// When the channel works again, where the upstream itself has named no time.
    pub(super) fn or_recovers_at(self, at: Option<i64>) -> Self {
        Self { recovers_at: self.recovers_at.or(at), ..self }
    }

    /// There is no WebSocket, but what came instead, if anything did. A site without that path answers with
    /// a page, or as if it were an ordinary request.
    pub(super) fn no_socket(path: &str, refused: Option<RefusedUpgrade>, now: Millis) -> Self {
        let Some(RefusedUpgrade { status, headers, body, is_whole }) = refused else {
            return Self::judged(format!("[upstream:{path}] The upstream opened no WebSocket"));
        };
        let status = status.as_u16();
        let failure = Self::status(status, path, &headers, body, is_whole, now);
        let lacks_surface = matches!(status, 200..=399 | 426) || failure.lacks_path();
        Self { lacks_surface, ..failure }
    }

    /// The upstream's answer had these headers; those that cross are for the client.
    pub(super) fn answered_with(mut self, upstream: &AnswerHeaders) -> Self {
        headers::downstream(upstream, |_| false, self.headers.get_or_insert_default());
        self
    }

    /// An error that came with a good status: as an event of a stream that had not begun for the
    /// client, or as the whole answer. A mistake that its names say to be the client's has the status of one:
    /// behind a 502 SDKs would make it again.
    pub(super) fn said(mut error: UpstreamError, how: &str) -> Self {
        let text = format!("{how}: {}", error.message);
        let told = errors::status_told(&error);
        let is_mistake = (400..500).contains(&told) && failure::blame(told, error.names()) == Blame::Nobody;
        let status = if is_mistake { told } else { 502 };
        if is_mistake {
            error.kind.get_or_insert_with(|| errors::kind_of(status).to_owned());
        }
        Self { text, ..Self::stating(Kind::Told, status, error) }.refused()
    }

    /// A stream that broke behind its first output, perhaps with an error.
    pub(super) fn broken(cause: &str, error: Option<&UpstreamError>) -> Self {
        match error {
            Some(error) => Self { text: cause.to_owned(), ..Self::said(error.clone(), "stream error") },
            None => Self::judged(cause.to_owned()),
        }
    }

    /// Takes the secrets of the request out of everything that came back: some upstreams repeat what they were sent.
    pub(super) fn redacted(mut self, secrets: &Mask) -> Self {
        self.error.hide(|text| secrets.hide(text));
        secrets.hide(&mut self.text);
        // Escapes can hide a secret in the bytes, and a client resolves them.
        let shows = |body: &Bytes| {
            let decoded = || json::tree(body).map(|tree| tree.to_string());
            secrets.is_in(body)
                || memchr(b'\\', body).is_some()
                    && decoded().is_some_and(|text| secrets.is_in(text.as_bytes()))
        };
        self.body = self.body.filter(|body| !shows(body));
        if let Some(headers) = &mut self.headers {
            let repeating = headers.iter().filter(|(_, value)| secrets.is_in(value.as_bytes()));
            let names: Vec<HeaderName> = repeating.map(|(name, _)| name.clone()).collect();
            for name in names {
                headers.remove(name);
            }
        }
        self
    }

    /// The client has asked for the answer that is judged so.
    pub(super) fn by_the_client(self) -> Self {
        Self { spares_channel: true, ..self }
    }

    /// This is the answer to a request with the words `said`: what the client wrote says nothing of the channel. The
    /// client asked for the model `requested`, the channel for `model`.
    pub(super) fn in_answer_to(
        mut self,
        said: impl FnOnce() -> Vec<Bytes>,
        requested: &str,
        channel: &Channel,
        model: &str,
    ) -> Self {
        if self.kind == Kind::Told || self.kind == Kind::Status && (400..500).contains(&self.status) {
            self.words.answers(said());
        }
        // An operator who names a model, for the channel or in a route's mapping, claims that it is there.
        let is_claimed = channel.source_model.as_ref().is_some_and(ModelPattern::is_exact);
        self.is_of_made_up_name = !is_claimed && model == requested;
        self
    }

    fn of(kind: Kind, status: u16, text: String) -> Self {
        Self::stating(kind, status, UpstreamError::new(text))
    }

    fn stating(kind: Kind, status: u16, error: UpstreamError) -> Self {
        // A network says nothing itself.
        let network = match kind {
            Kind::Network(ErrorKind::Timeout) => Some("timed out"),
            Kind::Network(ErrorKind::Connect) => Some("connection refused"),
            Kind::Network(ErrorKind::Closed | ErrorKind::Expired) => Some("connection reset"),
            _ => None,
        };
        let progress = match kind {
            Kind::Local | Kind::Unsupported | Kind::Invalid | Kind::Busy | Kind::Overloaded => {
                Progress::UNSENT
            }
            Kind::FirstByte => Progress::whole(Came::Nothing),
            Kind::Network(_)
            | Kind::NeverWhole
            | Kind::Status
            | Kind::Judged
            | Kind::Told
            | Kind::ClosedEarly => Progress::whole(Came::Answer),
        };
        let words = ErrorText::new(&error.message).named(error.names().chain(network));
        let text = error.message.clone();
        Self {
            kind,
            progress,
            spares_channel: false,
            status,
            error,
            text,
            headers: None,
            recovers_at: None,
            body: None,
            words: Box::new(words),
            is_of_made_up_name: false,
            token_refusal: None,
            lacks_surface: false,
        }
    }

    /// Whether the upstream refused the way in which the request asks for thinking.
    pub(super) fn refuses_thinking_form(&self) -> bool {
        self.kind == Kind::Status && messages::refuses_thinking_form(self.status, &self.error)
    }

    /// Whether the upstream refused what is thought in the conversation.
    pub(super) fn refuses_thoughts(&self) -> bool {
        self.kind == Kind::Status && messages::refuses_thoughts(self.status, &self.error)
    }

    /// Whether the upstream refused the schema that the answer is to have.
    pub(super) fn refuses_schema(&self) -> bool {
        self.kind == Kind::Status && messages::refuses_schema(self.status, &self.error)
    }

    /// Members that the upstream may have refused, the likeliest first; `own` where the client wrote them itself.
    pub(super) fn refused_members(&self, dialect: Dialect, own: bool) -> Vec<&'static str> {
        if self.kind != Kind::Status {
            return Vec::new();
        }
        let budget = optional::refused_budget(dialect, self.status, &self.error).filter(|_| !own);
        optional::refused(dialect, self.status, &self.error).into_iter().chain(budget).collect()
    }

    /// The bound that the upstream named when it refused the limit of the answer's length.
    pub(super) fn named_limit(&self) -> Option<u64> {
        (self.kind == Kind::Status && self.status == 400).then(|| output_limit::bound(&self.error.message))?
    }

    /// Whether the upstream does not know the answer (any more) that the request goes on from.
    pub(super) fn has_forgotten(&self) -> bool {
        self.kind == Kind::Status && self.words.has_forgotten_answer()
    }

    /// Whether the upstream has no way to compact a conversation.
    pub(super) fn lacks_compaction(&self) -> bool {
        self.kind == Kind::Status
            && (matches!(self.status, 404 | 405 | 501) || self.words.names_unsupported())
    }

    /// Whether the upstream does not serve the path that was asked. Hubs of the new-api family answer 501 for the paths
    /// that they know and have not built.
    pub(super) fn lacks_path(&self) -> bool {
        let is_absent = || !self.words.names_model();
        let by_status = matches!(self.status, 405 | 501) || self.status == 404 && is_absent();
        self.kind == Kind::Status && by_status
    }

    /// What was asked for is a surface that not every site has: a site without it is none the worse.
    pub(super) fn of_surface(self) -> Self {
        let lacks_surface = self.lacks_path();
        Self { lacks_surface, ..self }
    }

    /// Whether another site may have the surface that this one lacks.
    pub(super) fn lacks_surface(&self) -> bool {
        self.lacks_surface
    }

    /// Whether the upstream says nothing but that one of its own upstreams failed.
    pub(super) fn is_bare_upstream_error(&self) -> bool {
        self.kind == Kind::Status && self.error.message == "upstream_error"
    }

    /// Whether the channel is to blame, so that it cools down.
    pub(super) fn is_channel_fault(&self) -> bool {
        match self.kind {
            _ if self.spares_channel || self.lacks_surface => false,
            Kind::Network(kind) => !matches!(kind, ErrorKind::Exhausted | ErrorKind::Expired),
            Kind::FirstByte | Kind::Judged | Kind::ClosedEarly => true,
            // Also what we make of an answer that cannot be read.
            Kind::Told if self.error.names().next().is_none() => !self.words.is_about_validation(),
            Kind::Status | Kind::Told => match self.blame() {
                Blame::Channel => true,
                Blame::Model => !self.is_of_made_up_name,
                Blame::Nobody => false,
            },
            Kind::NeverWhole | Kind::Local | Kind::Unsupported => false,
            Kind::Invalid | Kind::Busy | Kind::Overloaded => false,
        }
    }

    fn blame(&self) -> Blame {
        let names = self.error.names();
        let status = match self.kind {
            Kind::Told => failure::status_named(names.clone()).unwrap_or(200),
            _ => self.status,
        };
        failure::blame(status, names)
    }

    /// Whether a conversation that was here last is better off elsewhere.
    pub(super) fn leaves_the_channel(&self) -> bool {
        self.kind == Kind::Busy || self.is_channel_fault()
    }

    /// Where the request may be sent once more, whether or not that would help.
    pub(super) fn may_repeat(&self, work: Work) -> Repeat {
        self.progress.may_repeat(work)
    }

    /// Whether another channel may have the request, and may do better.
    pub(super) fn may_retry(&self, work: Work) -> bool {
        self.may_repeat(work) >= Repeat::Elsewhere && self.is_of_this_channel()
    }

    /// Whether another channel may do better.
    fn is_of_this_channel(&self) -> bool {
        match self.kind {
            Kind::Network(_) | Kind::FirstByte | Kind::Judged | Kind::ClosedEarly | Kind::Local => true,
            Kind::Told | Kind::Unsupported | Kind::Busy => true,
            Kind::Invalid | Kind::NeverWhole | Kind::Overloaded => false,
            Kind::Status => self.blame() != Blame::Nobody || failure::should_retry(self.status, &self.words),
        }
    }

    /// Whether what serves requests failed, not the request itself or a wait for its turn.
    pub(super) fn blames_channels(&self) -> bool {
        self.is_channel_fault() || matches!(self.kind, Kind::Network(_) | Kind::Local | Kind::NeverWhole)
    }

    /// Whether another address of the same site may have the request, and may do better.
    pub(super) fn rotates_address(&self, work: Work) -> bool {
        self.may_repeat(work) == Repeat::Here && self.blames_address()
    }

    /// The channel has another address, which the next request is sent to.
    pub(super) fn of_one_address(self) -> Self {
        Self { spares_channel: true, ..self }
    }

    /// Whether another address of the same site may do better.
    pub(super) fn blames_address(&self) -> bool {
        match self.kind {
            _ if self.lacks_surface => false,
            Kind::Network(kind) => !matches!(kind, ErrorKind::Exhausted | ErrorKind::Expired),
            Kind::FirstByte | Kind::ClosedEarly => true,
            Kind::Status => crate::routing::pool::rotates(self.status),
            Kind::NeverWhole | Kind::Judged | Kind::Told | Kind::Local => false,
            Kind::Unsupported | Kind::Invalid | Kind::Busy | Kind::Overloaded => false,
        }
    }

    /// Whether the address has no room for the request, which another one may have: as far as Google tells.
    pub(super) fn finds_no_room(&self) -> bool {
        self.kind == Kind::Status && self.status == 429 || self.lacks_capacity()
    }

    /// Whether the address says that nothing serves the model there for the moment.
    pub(super) fn lacks_capacity(&self) -> bool {
        self.kind == Kind::Status && self.status == 503 && self.words.names_no_capacity()
    }

    /// True for a 429 that speaks of a used-up quota, which all channels of one credential share.
    pub(super) fn is_usage_limit(&self) -> bool {
        self.kind == Kind::Status && failure::is_usage_limit(self.status, &self.words)
    }

    /// What operators look for in the log, before the text; none for most failures.
    pub(super) fn keyword(&self) -> &'static str {
        match (self.kind, self.status) {
            (Kind::Status, 429) => "upstream 429: ",
            (Kind::Status, 500..) => "upstream 5xx: ",
            (Kind::FirstByte | Kind::Network(ErrorKind::Timeout), _) => "proxy timeout: ",
            _ => "",
        }
    }

    /// Whether the upstream does not take the token that it was shown.
    pub(super) fn token_refusal(&self) -> Option<TokenRefusal> {
        self.token_refusal
    }

    /// The status, when it is what failed.
    pub(super) fn upstream_status(&self) -> Option<u16> {
        (self.kind == Kind::Status).then_some(self.status)
    }

    /// The upstream spoke another dialect than the client: its own body would not be understood.
    pub(super) fn without_body(mut self) -> Self {
        self.body = None;
        self
    }

    /// Everything that was said, for the rules that read texts: some say in a code what others say in words.
    pub(super) fn words(&self) -> &ErrorText {
        &self.words
    }

    /// The answer when no further attempt is made.
    pub(super) fn into_response(self, shape: ErrorShape) -> Response {
        let wait = self.error.retry_after.map(|wait| wait.as_secs_f64().ceil() as u64);
        let mut response = match (self.kind, self.body) {
            // The client's own mistake reaches it as the upstream put it.
            (Kind::Status, Some(body))
                if ((400..500).contains(&self.status) || shape.dialect == Dialect::Gemini)
                    && !reply::is_about_our_key(self.status, &self.error) =>
            {
                match errors::completed(shape.errors(), body, shape.id.as_str()) {
                    Some(body) => shape.verbatim(self.status, body),
                    None => shape.upstream_failure(self.status, &self.error),
                }
            }
            _ => shape.upstream_failure(self.status, &self.error),
        };
        response.headers_mut().extend(self.headers.map(|headers| *headers).unwrap_or_default());
        if let Some(seconds) = wait {
            // Some say it in the body alone, and SDKs read the header.
            response.headers_mut().entry(RETRY_AFTER).or_insert(seconds.into());
        }
        response
    }
}

#[cfg(test)]
#[path = "failure_tests.rs"]
mod tests;
