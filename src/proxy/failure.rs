//! Why an attempt failed, and what follows from it.
//!
//! Whether the request may go on to another address or channel also depends on what it asks for and on how far it got:
//! [`Failure::retry_scope`]. A creation that the upstream may have read goes nowhere else.
//!
//! | kind | fault of the channel | next channel | status for the client, after the last attempt |
//! |---|---|---|---|
//! | refused, reset, no answer | yes | yes | 502 |
//! | an idle connection was closed just as it was used again | no | yes | 502 |
//! | no first byte in time | yes | yes | 408 |
//! | the answer went on, but was not complete in time | no | no | 504 |
//! | the site lacks a surface that only some sites have | no | yes | the site's status |
//! | a status | as [`failure::blame`] says | as [`failure::should_retry`] says | that status (401 to 403: 502) |
//! | a bad answer with a good status | yes | yes | 502 |
//! | error with a good status | [`failure::blame`]; unnamed: yes, unless about the request | yes | 502; client's: 400–422 |
//! | a stream that ends before any output | yes | yes | 502 |
//! | no file or memory left for a connection of ours | no | yes | 502 |
//! | not configured well enough to be tried | no | yes | 502 |
//! | the channel's dialects cannot express the request | no | yes | 400, naming the field |
//! | the request makes no sense in any dialect | no | no | 400, naming the field |
//! | the channel's session slots are taken | no | yes | 503 |
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
    AnswerHeaders, BodyError, ErrorKind, ExchangeProgress, RefusedUpgrade, ReplyKind, RetryScope, SendError,
    WorkKind,
};

use super::headers;
use super::reply::{self, ErrorShape};
use super::retry::token_refusal::TokenRefusal;

/// The way in which an attempt failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Network(ErrorKind),
    FirstByte,
    /// The answer went on and on, and had to be complete before any of it could be sent.
    NeverWhole,
    Status,
    Judged,
    /// An error that came with a good status, from the upstream or from reading its answer.
    InBody,
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

/// A failed attempt. Its texts contain no address and no credential of the upstream.
#[derive(Debug)]
pub(super) struct Failure {
    kind: Kind,
    progress: ExchangeProgress,
    /// Whether the channel is not to blame: only one of its addresses failed, or the client asked for what failed.
    spares_channel: bool,
    /// The status of the upstream, or the one for the client; 0 when there is none.
    pub(super) status: u16,
    error: UpstreamError,
    /// The message for the log.
    pub(super) text: String,
    /// Headers for the client: those of the upstream that are passed on, above all its rate limits.
    headers: Option<Box<HeaderMap>>,
    /// The time at which the channel will work again, where the upstream itself says so.
    pub(super) recovers_at: Option<Millis>,
    /// The upstream's own error body, where it may be passed on.
    body: Option<Bytes>,
    /// What the upstream said, for the rules that read texts.
    words: Box<ErrorText>,
    /// Whether the failed model name was chosen by the client alone, not by an operator.
    is_of_made_up_name: bool,
    /// Set when the upstream did not accept the token.
    token_refusal: Option<TokenRefusal>,
    /// Whether the site does not serve the path of a surface that only some sites have.
    lacks_surface: bool,
}

impl Failure {
    /// Builds the failure of a request that got no answer.
    pub(super) fn unanswered(error: &SendError) -> Self {
        Self::network(error.kind(), error.message(), error.progress())
    }

    /// Builds the failure of an answer that broke off.
    pub(super) fn cut(error: &BodyError) -> Self {
        Self::network(error.kind(), error.message(), ExchangeProgress::whole(ReplyKind::Answer))
    }

    /// Builds the failure of an upstream that sent nothing for too long. How much of the request it has read is not known.
    pub(super) fn silence(limit: Duration) -> Self {
        let cause = format!("the upstream sent nothing for {} s", limit.as_secs());
        Self::network(ErrorKind::Timeout, &cause, ExchangeProgress::whole(ReplyKind::Nothing))
    }

    /// Builds a network failure. `cause` is for the log: it may name the upstream's address.
    fn network(kind: ErrorKind, cause: &str, progress: ExchangeProgress) -> Self {
        let shown = match kind {
            ErrorKind::Dns => "its name cannot be resolved",
            ErrorKind::Connect => "no connection",
            ErrorKind::Proxy => "no connection through the outbound proxy",
            ErrorKind::Tls => "the TLS handshake failed",
            ErrorKind::Timeout => "it took too long",
            ErrorKind::Exhausted => "the gateway has no file descriptor or memory left for a connection",
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

    /// Builds the failure of an answer that was not complete in the time that it may be held.
    pub(super) fn never_whole(limit: Duration) -> Self {
        let seconds = limit.as_secs();
        Self::of(Kind::NeverWhole, 504, format!("the upstream's answer was not complete within {seconds} s"))
    }

    /// Builds the failure of an answer that is longer than may be held. It would be as long elsewhere.
    pub(super) fn too_long(limit: usize) -> Self {
        Self::of(Kind::NeverWhole, 502, format!("the upstream's answer is longer than {} MiB", limit >> 20))
    }

    /// Builds the failure of an answer with a good status that cannot be used: empty, broken off, not JSON.
    pub(super) fn judged(cause: String) -> Self {
        Self::of(Kind::Judged, 502, cause)
    }

    /// Marks the request as refused: the upstream's answer says that it was not carried out.
    pub(super) fn refused(self) -> Self {
        Self { progress: ExchangeProgress::whole(ReplyKind::Refusal), ..self }
    }

    /// Builds the failure of a stream that ended, cleanly or not, before any output. A connection that is lost behind a relay
    /// looks like that, so the address is to blame.
    pub(super) fn closed_early() -> Self {
        Self::of(Kind::ClosedEarly, 502, "the upstream closed the stream before any output".to_owned())
    }

    /// Builds a failure on our own side. `cause` is for the log: it describes the configuration.
    pub(super) fn local(cause: String) -> Self {
        let mut failure = Self::of(Kind::Local, 0, "Upstream error: it is not set up to be used".to_owned());
        failure.text = cause;
        failure
    }

    /// Sets the status that the client gets.
    pub(super) fn with_status(self, status: u16) -> Self {
        Self { status, ..self }
    }

    /// Builds the failure of a request that could not be written in a dialect.
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
            // What the API itself says about a thread that it no longer keeps.
            (failure.status, failure.error.kind) = (404, Some("not_found_error".to_owned()));
            failure.error.code = Some(errors::THREAD_NOT_FOUND.to_owned());
        }
        failure.error.param = Some(field);
        failure
    }

    /// Builds the failure for a channel whose session slots were all taken and did not get free in time.
    pub(super) fn busy(retry_after_secs: i64) -> Self {
        let mut failure = Self::of(
            Kind::Busy,
            503,
            "Channel busy: all its session slots are in use, try again later".to_owned(),
        );
        failure.error.kind = Some("server_error".to_owned());
        let headers = HeaderMap::from_iter([(RETRY_AFTER, retry_after_secs.into())]);
        failure.headers = Some(Box::new(headers));
        failure
    }

    /// Builds the failure for too many large requests being converted; another channel would not help.
    pub(super) fn overloaded() -> Self {
        let message = "Too many large requests at once: the memory for converting them (CONVERSION_MEMORY_BYTES) is in \
                       use, try again later";
        let mut failure = Self::of(Kind::Overloaded, 503, message.to_owned());
        failure.error.kind = Some("server_error".to_owned());
        let headers = HeaderMap::from_iter([(RETRY_AFTER, Overloaded::RETRY_AFTER_SECS.into())]);
        failure.headers = Some(Box::new(headers));
        failure
    }

    /// Builds the failure for a status outside 2xx. `upstream` are the headers of the answer, `body` is its body, `complete`
    /// whether that is all of it.
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
        // Some upstreams name only the time of the reset.
        let until = recovers_at.map(|at| Duration::from_millis(at.abs_diff(now)).min(MAX_RETRY_AFTER));
        error.retry_after = error.retry_after.or(until);
        let progress = ExchangeProgress::whole(ReplyKind::of_status(status));
        let token_refusal = TokenRefusal::of(status, upstream, &body);
        let body = complete.then_some(body);
        let stated = Self::stating(Kind::Status, status, error);
        Self { progress, text, recovers_at, body, token_refusal, ..stated }.answered_with(upstream)
    }

    /// Sets when the channel works again, unless the upstream itself has named a time.
    pub(super) fn or_recovers_at(self, at: Option<i64>) -> Self {
        Self { recovers_at: self.recovers_at.or(at), ..self }
    }

    /// Builds the failure of a WebSocket that was not opened, from the answer that came instead, if any. A site without
    /// that path answers with a page, or as if it were an ordinary request.
    pub(super) fn no_socket(path: &str, refused: Option<RefusedUpgrade>, now: Millis) -> Self {
        let Some(RefusedUpgrade { status, headers, body, is_whole }) = refused else {
            return Self::judged(format!("[upstream:{path}] The upstream opened no WebSocket"));
        };
        let status = status.as_u16();
        let failure = Self::status(status, path, &headers, body, is_whole, now);
        let lacks_surface = matches!(status, 200..=399 | 426) || failure.lacks_path();
        Self { lacks_surface, ..failure }
    }

    /// Adds those of the upstream's answer headers that are passed on to the client.
    pub(super) fn answered_with(mut self, upstream: &AnswerHeaders) -> Self {
        headers::downstream(upstream, |_| false, self.headers.get_or_insert_default());
        self
    }

    /// Builds the failure for an error that came with a good status: as an event of a stream that had not begun for the
    /// client, or as the whole answer. A client's mistake, judged by the error's names, gets a 4xx status: SDKs would retry
    /// a 502.
    pub(super) fn said(mut error: UpstreamError, how: &str) -> Self {
        let text = format!("{how}: {}", error.message);
        let told = errors::status_told(&error);
        let is_mistake = (400..500).contains(&told) && failure::blame(told, error.names()) == Blame::Nobody;
        let status = if is_mistake { told } else { 502 };
        if is_mistake {
            error.kind.get_or_insert_with(|| errors::kind_of(status).to_owned());
        }
        Self { text, ..Self::stating(Kind::InBody, status, error) }.refused()
    }

    /// Builds the failure of a stream that broke after its first output, perhaps with an error.
    pub(super) fn broken(cause: &str, error: Option<&UpstreamError>) -> Self {
        match error {
            Some(error) => Self { text: cause.to_owned(), ..Self::said(error.clone(), "stream error") },
            None => Self::judged(cause.to_owned()),
        }
    }

    /// Removes the request's secrets from everything that came back: some upstreams repeat what they were sent.
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

    /// Spares the channel, because the client itself asked for the answer that was judged a failure.
    pub(super) fn by_the_client(self) -> Self {
        Self { spares_channel: true, ..self }
    }

    /// Attaches the request that this failure answers. Texts that repeat the client's own words `said` say nothing about the
    /// channel. The client asked for the model `requested`, the channel was asked for `model`.
    pub(super) fn in_answer_to(
        mut self,
        said: impl FnOnce() -> Vec<Bytes>,
        requested: &str,
        channel: &Channel,
        model: &str,
    ) -> Self {
        if self.kind == Kind::InBody || self.kind == Kind::Status && (400..500).contains(&self.status) {
            self.words.answers(said());
        }
        // An operator who names a model, for the channel or in a route's mapping, claims that the channel has it.
        let is_claimed = channel.source_model.as_ref().is_some_and(ModelPattern::is_exact);
        self.is_of_made_up_name = !is_claimed && model == requested;
        self
    }

    fn of(kind: Kind, status: u16, text: String) -> Self {
        Self::stating(kind, status, UpstreamError::new(text))
    }

    fn stating(kind: Kind, status: u16, error: UpstreamError) -> Self {
        // A network failure has no text of the upstream.
        let network = match kind {
            Kind::Network(ErrorKind::Timeout) => Some("timed out"),
            Kind::Network(ErrorKind::Connect) => Some("connection refused"),
            Kind::Network(ErrorKind::Closed | ErrorKind::Expired) => Some("connection reset"),
            _ => None,
        };
        let progress = match kind {
            Kind::Local | Kind::Unsupported | Kind::Invalid | Kind::Busy | Kind::Overloaded => {
                ExchangeProgress::UNSENT
            }
            Kind::FirstByte => ExchangeProgress::whole(ReplyKind::Nothing),
            Kind::Network(_)
            | Kind::NeverWhole
            | Kind::Status
            | Kind::Judged
            | Kind::InBody
            | Kind::ClosedEarly => ExchangeProgress::whole(ReplyKind::Answer),
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

    /// Whether the upstream refused the form in which the request asks for thinking.
    pub(super) fn refuses_thinking_form(&self) -> bool {
        self.kind == Kind::Status && messages::refuses_thinking_form(self.status, &self.error)
    }

    /// Whether the upstream refused thinking blocks in the conversation.
    pub(super) fn refuses_thoughts(&self) -> bool {
        self.kind == Kind::Status && messages::refuses_thoughts(self.status, &self.error)
    }

    /// Whether the upstream refused the schema that the answer must follow.
    pub(super) fn refuses_schema(&self) -> bool {
        self.kind == Kind::Status && messages::refuses_schema(self.status, &self.error)
    }

    /// Returns the members that the upstream may have refused, the likeliest first; `own` is whether the client wrote them.
    pub(super) fn refused_members(&self, dialect: Dialect, own: bool) -> Vec<&'static str> {
        if self.kind != Kind::Status {
            return Vec::new();
        }
        let budget = optional::refused_budget(dialect, self.status, &self.error).filter(|_| !own);
        optional::refused(dialect, self.status, &self.error).into_iter().chain(budget).collect()
    }

    /// Returns the bound that the upstream named when it refused the output limit.
    pub(super) fn named_limit(&self) -> Option<u64> {
        (self.kind == Kind::Status && self.status == 400).then(|| output_limit::bound(&self.error.message))?
    }

    /// Whether the upstream does not know, or no longer knows, the answer that the request goes on from.
    pub(super) fn has_forgotten(&self) -> bool {
        self.kind == Kind::Status && self.words.has_forgotten_answer()
    }

    /// Whether the upstream cannot compact conversations.
    pub(super) fn lacks_compaction(&self) -> bool {
        self.kind == Kind::Status
            && (matches!(self.status, 404 | 405 | 501) || self.words.names_unsupported())
    }

    /// Whether the upstream does not serve the path. Hubs of the new-api family answer 501 for paths that they know but have
    /// not built.
    pub(super) fn lacks_path(&self) -> bool {
        let is_absent = || !self.words.names_model();
        let by_status = matches!(self.status, 405 | 501) || self.status == 404 && is_absent();
        self.kind == Kind::Status && by_status
    }

    /// Marks the failure as one of a surface that only some sites have: a site without it is not at fault.
    pub(super) fn of_surface(self) -> Self {
        let lacks_surface = self.lacks_path();
        Self { lacks_surface, ..self }
    }

    /// Whether the site lacks the surface, which another site may have.
    pub(super) fn lacks_surface(&self) -> bool {
        self.lacks_surface
    }

    /// Whether the upstream says only that one of its own upstreams failed.
    pub(super) fn is_bare_upstream_error(&self) -> bool {
        self.kind == Kind::Status && self.error.message == "upstream_error"
    }

    /// Whether the channel is to blame, so that it cools down.
    pub(super) fn is_channel_fault(&self) -> bool {
        match self.kind {
            _ if self.spares_channel || self.lacks_surface => false,
            Kind::Network(kind) => !matches!(kind, ErrorKind::Exhausted | ErrorKind::Expired),
            Kind::FirstByte | Kind::Judged | Kind::ClosedEarly => true,
            // Unnamed errors also include those that we make of an unreadable answer.
            Kind::InBody if self.error.names().next().is_none() => !self.words.is_about_validation(),
            Kind::Status | Kind::InBody => match self.blame() {
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
            Kind::InBody => failure::status_named(names.clone()).unwrap_or(200),
            _ => self.status,
        };
        failure::blame(status, names)
    }

    /// Whether a conversation that was bound to this channel should leave it.
    pub(super) fn leaves_the_channel(&self) -> bool {
        self.kind == Kind::Busy || self.is_channel_fault()
    }

    /// Returns where the request may be sent again, whether or not that would help.
    pub(super) fn retry_scope(&self, work: WorkKind) -> RetryScope {
        self.progress.retry_scope(work)
    }

    /// Whether another channel may get the request, and may do better.
    pub(super) fn may_retry(&self, work: WorkKind) -> bool {
        self.retry_scope(work) >= RetryScope::Elsewhere && self.is_of_this_channel()
    }

    /// Whether another channel may do better.
    fn is_of_this_channel(&self) -> bool {
        match self.kind {
            Kind::Network(_) | Kind::FirstByte | Kind::Judged | Kind::ClosedEarly | Kind::Local => true,
            Kind::InBody | Kind::Unsupported | Kind::Busy => true,
            Kind::Invalid | Kind::NeverWhole | Kind::Overloaded => false,
            Kind::Status => self.blame() != Blame::Nobody || failure::should_retry(self.status, &self.words),
        }
    }

    /// Whether the serving side failed, not the request itself or a wait for its turn.
    pub(super) fn blames_channels(&self) -> bool {
        self.is_channel_fault() || matches!(self.kind, Kind::Network(_) | Kind::Local | Kind::NeverWhole)
    }

    /// Whether another address of the same site may get the request, and may do better.
    pub(super) fn rotates_address(&self, work: WorkKind) -> bool {
        self.retry_scope(work) == RetryScope::Here && self.blames_address()
    }

    /// Spares the channel, because it has another address, to which the next request is sent.
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
            Kind::NeverWhole | Kind::Judged | Kind::InBody | Kind::Local => false,
            Kind::Unsupported | Kind::Invalid | Kind::Busy | Kind::Overloaded => false,
        }
    }

    /// Whether the address has no room for the request while another one may, as far as Google's answers tell.
    pub(super) fn finds_no_room(&self) -> bool {
        self.kind == Kind::Status && self.status == 429 || self.lacks_capacity()
    }

    /// Whether the address says that it has no capacity for the model at the moment.
    pub(super) fn lacks_capacity(&self) -> bool {
        self.kind == Kind::Status && self.status == 503 && self.words.names_no_capacity()
    }

    /// Whether this is a 429 about a used-up quota, which all channels of one credential share.
    pub(super) fn is_usage_limit(&self) -> bool {
        self.kind == Kind::Status && failure::is_usage_limit(self.status, &self.words)
    }

    /// Returns the keyword that operators search the log for, which precedes the text; empty for most failures.
    pub(super) fn keyword(&self) -> &'static str {
        match (self.kind, self.status) {
            (Kind::Status, 429) => "upstream 429: ",
            (Kind::Status, 500..) => "upstream 5xx: ",
            (Kind::FirstByte | Kind::Network(ErrorKind::Timeout), _) => "proxy timeout: ",
            _ => "",
        }
    }

    /// Returns how the upstream refused the token, if it did.
    pub(super) fn token_refusal(&self) -> Option<TokenRefusal> {
        self.token_refusal
    }

    /// Returns the upstream's status, when the status is what failed.
    pub(super) fn upstream_status(&self) -> Option<u16> {
        (self.kind == Kind::Status).then_some(self.status)
    }

    /// Drops the upstream's own error body, because it is in another dialect than the client's.
    pub(super) fn without_body(mut self) -> Self {
        self.body = None;
        self
    }

    /// Returns all texts of the error, for the rules that read texts: some upstreams use a code, others words.
    pub(super) fn words(&self) -> &ErrorText {
        &self.words
    }

    /// Builds the answer for the client when no further attempt is made.
    pub(super) fn into_response(self, shape: ErrorShape) -> Response {
        let wait = self.error.retry_after.map(|wait| wait.as_secs_f64().ceil() as u64);
        let mut response = match (self.kind, self.body) {
            // The client's own mistake is reported in the upstream's words.
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
            // Some upstreams give the wait only in the body, and SDKs read the header.
            response.headers_mut().entry(RETRY_AFTER).or_insert(seconds.into());
        }
        response
    }
}

#[cfg(test)]
#[path = "failure_tests.rs"]
mod tests;
