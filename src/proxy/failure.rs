//! Why an attempt failed; [`consequences`] tells what follows from it.
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
//! | the answer is longer than may be held | no | no | 502 |
//! | the site lacks a surface that only some sites have | no | yes | the site's status |
//! | a status | as [`failure::blame`] says | as [`failure::should_retry`] says | that status (401 to 403: 502) |
//! | a bad answer with a good status | yes | yes | 502 |
//! | error with a good status | [`failure::blame`]; unnamed: if its text says so | yes | 502; client's: 400–422 |
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
use crate::dialect::json;
use crate::error_words::ErrorText;
use crate::limits::Overloaded;
use crate::mask::Mask;
use crate::routing::failure::{Blame, RetryHeaders};
use crate::routing::{Channel, Misconfiguration, ModelPattern, failure};
use crate::time::Millis;
use crate::upstream::{
    AnswerHeaders, BodyError, ErrorKind, ExchangeProgress, RefusedUpgrade, ReplyKind, SendError,
};

use super::headers;
use super::held_body::HeldBody;
use super::retry::token_refusal::TokenRefusal;

mod consequences;

/// A wait in milliseconds, which OpenAI and Azure send beside `Retry-After` or in its place.
static RETRY_AFTER_MS: HeaderName = HeaderName::from_static("retry-after-ms");
/// Whether the limit of an Anthropic plan is reached (`rejected`), and when it resets.
static PLAN_STATUS: HeaderName = HeaderName::from_static("anthropic-ratelimit-unified-status");
static PLAN_RESET: HeaderName = HeaderName::from_static("anthropic-ratelimit-unified-reset");

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

/// A failed attempt. The message of `error`, which is for the client, names no address of the upstream; `text` may. Neither
/// contains a credential once it is [`redacted`](Failure::redacted).
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
            ErrorKind::NoProxy => "no connection to the outbound proxy",
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

    /// Marks the request as perhaps carried out: the answer had begun, and broke off.
    pub(super) fn begun(self) -> Self {
        Self { progress: ExchangeProgress::whole(ReplyKind::Answer), ..self }
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

    /// Builds the failure of a site that cannot be asked as it is configured. The client learns the reason only if the site
    /// has no address.
    pub(super) fn misconfigured(site: &str, reason: &Misconfiguration) -> Self {
        let mut failure = Self::local(format!("site {site} cannot be used: {reason}"));
        if *reason == Misconfiguration::NoEndpoint {
            failure.error.message = format!("Upstream error: {}", Misconfiguration::NO_ENDPOINT);
        }
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
    pub(super) fn busy(retry_after_secs: u64) -> Self {
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

    /// Builds the failure for a status outside 2xx, from the headers and the body of the answer.
    pub(super) fn status(
        status: u16,
        path: &str,
        upstream: &AnswerHeaders,
        body: HeldBody,
        now: Millis,
    ) -> Self {
        let HeldBody { bytes: body, is_whole } = body;
        let mut error = errors::read(status, &body);
        let text = errors::upstream_text(path, status, &error.message);
        let header = |name| upstream.get(name).and_then(|value| std::str::from_utf8(value).ok());
        let hint = RetryHeaders {
            after: header(&RETRY_AFTER),
            after_ms: header(&RETRY_AFTER_MS),
            plan_reset: header(&PLAN_RESET).filter(|_| header(&PLAN_STATUS) == Some("rejected")),
        };
        let told = error.retry_after.map(|wait| now.saturating_add(wait.as_millis() as Millis));
        let recovers_at = failure::provider_hint(status, hint, &body, now).or(told);
        // Some upstreams name only the time of the reset.
        let until = recovers_at.map(|at| Duration::from_millis(at.abs_diff(now)).min(MAX_RETRY_AFTER));
        error.retry_after = error.retry_after.or(until);
        let progress = ExchangeProgress::whole(ReplyKind::of_status(status));
        let token_refusal = TokenRefusal::of(status, upstream, &body);
        let body = is_whole.then_some(body);
        let stated = Self::stating(Kind::Status, status, error);
        Self { progress, text, recovers_at, body, token_refusal, ..stated }.answered_with(upstream)
    }

    /// Sets when the channel works again, unless the upstream itself has named a time.
    pub(super) fn or_recovers_at(self, at: Option<Millis>) -> Self {
        Self { recovers_at: self.recovers_at.or(at), ..self }
    }

    /// Builds the failure of a WebSocket that was not opened, from the answer that came instead, if any. A site without
    /// that path answers with a page, or as if it were an ordinary request.
    pub(super) fn no_socket(path: &str, refused: Option<RefusedUpgrade>, now: Millis) -> Self {
        let Some(RefusedUpgrade { status, headers, body, is_whole }) = refused else {
            return Self::judged(format!("[upstream:{path}] The upstream opened no WebSocket"));
        };
        let status = status.as_u16();
        let failure = Self::status(status, path, &headers, HeldBody { bytes: body, is_whole }, now);
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
    pub(super) fn in_body(mut error: UpstreamError, how: &str) -> Self {
        let text = format!("{how}: {}", error.message);
        let reported = errors::reported_status(&error);
        let is_mistake =
            (400..500).contains(&reported) && failure::blame(reported, error.names()) == Blame::Nobody;
        let status = if is_mistake { reported } else { 502 };
        if is_mistake {
            error.kind.get_or_insert_with(|| errors::kind_of(status).to_owned());
        }
        Self { text, ..Self::stating(Kind::InBody, status, error) }.refused()
    }

    /// Builds the failure of a stream that broke after its first output, perhaps with an error.
    pub(super) fn broken(cause: &str, error: Option<&UpstreamError>) -> Self {
        match error {
            Some(error) => Self { text: cause.to_owned(), ..Self::in_body(error.clone(), "stream error") },
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
}

#[cfg(test)]
mod tests;
