//! What follows from a failure: for its channel, for the next attempt, and for the client.

use hyper::header::RETRY_AFTER;

use super::{Failure, Kind};
use crate::dialect::{Dialect, errors, messages, optional, output_limit};
use crate::error_words::ErrorText;
use crate::http::Response;
use crate::proxy::reply::{self, ErrorShape};
use crate::proxy::retry::token_refusal::TokenRefusal;
use crate::routing::failure::{self, Blame};
use crate::upstream::{ErrorKind, RetryScope, WorkKind};

impl Failure {
    /// Whether the upstream refused the form in which the request asks for thinking.
    pub(in crate::proxy) fn refuses_thinking_form(&self) -> bool {
        self.kind == Kind::Status && messages::refuses_thinking_form(self.status, &self.error)
    }

    /// Whether the upstream refused thinking blocks in the conversation.
    pub(in crate::proxy) fn refuses_thoughts(&self) -> bool {
        self.kind == Kind::Status && messages::refuses_thoughts(self.status, &self.error)
    }

    /// Whether the upstream refused the schema that the answer must follow.
    pub(in crate::proxy) fn refuses_schema(&self) -> bool {
        self.kind == Kind::Status && messages::refuses_schema(self.status, &self.error)
    }

    /// Returns the members that the upstream may have refused, the likeliest first; `own` is whether the client wrote them.
    pub(in crate::proxy) fn refused_members(&self, dialect: Dialect, own: bool) -> Vec<&'static str> {
        if self.kind != Kind::Status {
            return Vec::new();
        }
        let converted = optional::refused_of_conversion(dialect, self.status, &self.error).filter(|_| !own);
        optional::refused(dialect, self.status, &self.error).into_iter().chain(converted).collect()
    }

    /// Returns the bound that the upstream named when it refused the output limit.
    pub(in crate::proxy) fn named_limit(&self) -> Option<u64> {
        (self.kind == Kind::Status && self.status == 400).then(|| output_limit::bound(&self.error.message))?
    }

    /// Whether the upstream does not know, or no longer knows, the answer that the request goes on from.
    pub(in crate::proxy) fn has_forgotten(&self) -> bool {
        self.kind == Kind::Status && self.words.has_forgotten_answer()
    }

    /// Whether the upstream cannot compact conversations.
    pub(in crate::proxy) fn lacks_compaction(&self) -> bool {
        self.kind == Kind::Status
            && (matches!(self.status, 404 | 405 | 501) || self.words.names_unsupported())
    }

    /// Whether the upstream does not serve the path. Hubs of the new-api family answer 501 for paths that they know but have
    /// not built.
    pub(in crate::proxy) fn lacks_path(&self) -> bool {
        let is_absent = || !self.words.names_model();
        let by_status = matches!(self.status, 405 | 501) || self.status == 404 && is_absent();
        self.kind == Kind::Status && by_status
    }

    /// Marks the failure as one of a surface that only some sites have: a site without it is not at fault.
    pub(in crate::proxy) fn of_surface(self) -> Self {
        let lacks_surface = self.lacks_path();
        Self { lacks_surface, ..self }
    }

    /// Whether the site lacks the surface, which another site may have.
    pub(in crate::proxy) fn lacks_surface(&self) -> bool {
        self.lacks_surface
    }

    /// Whether the upstream says only that one of its own upstreams failed.
    pub(in crate::proxy) fn is_bare_upstream_error(&self) -> bool {
        self.kind == Kind::Status && self.words.is_bare_upstream_error()
    }

    /// Whether the channel is to blame, so that it cools down.
    pub(in crate::proxy) fn is_channel_fault(&self) -> bool {
        match self.kind {
            _ if self.spares_channel || self.lacks_surface => false,
            Kind::Network(kind) => !matches!(kind, ErrorKind::Exhausted | ErrorKind::Expired),
            Kind::FirstByte | Kind::Judged | Kind::ClosedEarly => true,
            Kind::InBody if self.error.names().next().is_none() => {
                self.error.is_ours || failure::is_blamed_by_text(&self.words)
            }
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
        if matches!(status, 403 | 429) && self.words.is_about_option() {
            return Blame::Nobody;
        }
        failure::blame(status, names)
    }

    /// Whether the upstream refuses the credential or its balance: whatever else the same credential serves is refused as
    /// well.
    pub(in crate::proxy) fn refuses_credential(&self) -> bool {
        let is_about_it = || self.words.is_about_credential() || self.words.is_about_limit();
        let by_status = matches!(self.status, 401 | 402) || self.status == 403 && is_about_it();
        self.kind == Kind::Status && by_status && self.is_channel_fault()
    }

    /// Whether a conversation that was bound to this channel should leave it.
    pub(in crate::proxy) fn leaves_the_channel(&self) -> bool {
        self.kind == Kind::Busy || self.is_channel_fault()
    }

    /// Returns where the request may be sent again, whether or not that would help.
    pub(in crate::proxy) fn retry_scope(&self, work: WorkKind) -> RetryScope {
        self.progress.retry_scope(work)
    }

    /// Whether another channel may get the request, and may do better.
    pub(in crate::proxy) fn may_retry(&self, work: WorkKind) -> bool {
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
    pub(in crate::proxy) fn blames_channels(&self) -> bool {
        self.is_channel_fault() || matches!(self.kind, Kind::Network(_) | Kind::Local | Kind::NeverWhole)
    }

    /// Whether another address of the same site may get the request, and may do better.
    pub(in crate::proxy) fn rotates_address(&self, work: WorkKind) -> bool {
        self.retry_scope(work) == RetryScope::Here && self.blames_address()
    }

    /// Spares the channel, because it has another address, to which the next request is sent.
    pub(in crate::proxy) fn of_one_address(self) -> Self {
        Self { spares_channel: true, ..self }
    }

    /// Whether another address of the same site may do better.
    pub(in crate::proxy) fn blames_address(&self) -> bool {
        match self.kind {
            _ if self.lacks_surface => false,
            Kind::Network(kind) => {
                !matches!(kind, ErrorKind::Exhausted | ErrorKind::Expired | ErrorKind::NoProxy)
            }
            Kind::FirstByte | Kind::ClosedEarly => true,
            Kind::Status => crate::routing::pool::rotates(self.status),
            Kind::NeverWhole | Kind::Judged | Kind::InBody | Kind::Local => false,
            Kind::Unsupported | Kind::Invalid | Kind::Busy | Kind::Overloaded => false,
        }
    }

    /// Whether the address has no room for the request while another one may, as far as Google's answers tell.
    pub(in crate::proxy) fn finds_no_room(&self) -> bool {
        self.kind == Kind::Status && self.status == 429 || self.lacks_capacity()
    }

    /// Whether the address says that it has no capacity for the model at the moment.
    pub(in crate::proxy) fn lacks_capacity(&self) -> bool {
        self.kind == Kind::Status && self.status == 503 && self.words.names_no_capacity()
    }

    /// Whether this is a 429 about a used-up quota, which all channels of one credential share.
    pub(in crate::proxy) fn is_usage_limit(&self) -> bool {
        self.kind == Kind::Status && failure::is_usage_limit(self.status, &self.words)
    }

    /// Returns the keyword that operators search the log for, which precedes the text; empty for most failures.
    pub(in crate::proxy) fn keyword(&self) -> &'static str {
        match (self.kind, self.status) {
            (Kind::Status, 429) => "upstream 429: ",
            (Kind::Status, 500..) => "upstream 5xx: ",
            (Kind::FirstByte | Kind::Network(ErrorKind::Timeout), _) => "proxy timeout: ",
            _ => "",
        }
    }

    /// Returns how the upstream refused the token, if it did.
    pub(in crate::proxy) fn token_refusal(&self) -> Option<TokenRefusal> {
        self.token_refusal
    }

    /// Whether a hub passes on the refusal of its own upstream, by the type of the error.
    pub(in crate::proxy) fn is_wrapped(&self) -> bool {
        self.error.kind.as_deref().is_some_and(failure::is_wrapper)
    }

    /// Returns the upstream's status, when the status is what failed.
    pub(in crate::proxy) fn upstream_status(&self) -> Option<u16> {
        (self.kind == Kind::Status).then_some(self.status)
    }

    /// Drops the upstream's own error body, because it is in another dialect than the client's.
    pub(in crate::proxy) fn without_body(mut self) -> Self {
        self.body = None;
        self
    }

    /// Returns all texts of the error, for the rules that read texts: some upstreams use a code, others words.
    pub(in crate::proxy) fn words(&self) -> &ErrorText {
        &self.words
    }

    /// Builds the answer for the client when no further attempt is made.
    pub(in crate::proxy) fn into_response(self, shape: ErrorShape) -> Response {
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
