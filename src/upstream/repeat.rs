//! Decides whether a request may be sent once more: by what it does, how much of it has left, and what came back.
//!
//! | | nothing has left | cut short on its way, or met a goodbye | refused | no answer, half of one, or an unclear status |
//! |---|---|---|---|---|
//! | a lookup | here | here | here | here |
//! | a text | here | here | here | elsewhere; here when a status came |
//! | a creation | here | nowhere | here | nowhere |
//!
//! Sending a request for a text once more costs another text. Sending a request for a video, a picture or a job once
//! more creates two of them, of which one belongs to nobody: so nothing that may have been read is sent again.

use hyper::http::Method;

/// The kind of work that a request causes at its upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkKind {
    /// Reading, setting or deleting, which changes nothing if it is done twice (RFC 9110 §9.2.2).
    Lookup,
    /// Generating a text, which costs again.
    Text,
    /// Creating something that costs much or stays: a picture, a video, a job, a key.
    Creation,
}

/// How much of a request has been sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SentPart {
    /// No byte: there was no connection, or it took none.
    Nothing,
    /// A part of the request: the upstream cannot have read all of it.
    Part,
    /// The whole request, which the upstream may have read.
    Whole,
}

/// The part of an answer that came back for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyKind {
    /// No byte.
    Nothing,
    /// A server's word that it closes an idle connection: it belongs to no request (RFC 9110 §15.5.9).
    Goodbye,
    /// A status or an error object that says that the request was not carried out.
    Refusal,
    /// A status from someone who may not know what became of the request: a time-out, or a gateway that has lost the
    /// server at work.
    Unclear,
    /// An answer, or the beginning of one.
    Answer,
}

/// How far an exchange came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExchangeProgress {
    pub written: SentPart,
    pub came: ReplyKind,
}

/// Where a request may be sent once more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RetryScope {
    Nowhere,
    /// To another upstream.
    Elsewhere,
    /// To any upstream, the one that had it included.
    Here,
}

// === impl WorkKind ===

impl WorkKind {
    /// Returns the work of a method, as far as it tells: what a POST creates may stay.
    pub fn of_method(method: &Method) -> Self {
        if method.is_idempotent() { Self::Lookup } else { Self::Creation }
    }
}

// === impl ReplyKind ===

impl ReplyKind {
    /// Returns what a status other than 2xx says.
    pub fn of_status(status: u16) -> Self {
        match status {
            // 499 is nginx's "client closed", and 520 to 527 are Cloudflare's for a server that went silent.
            408 | 499 | 502 | 504 | 520..=527 => Self::Unclear,
            _ => Self::Refusal,
        }
    }
}

// === impl ExchangeProgress ===

impl ExchangeProgress {
    pub const UNSENT: Self = Self { written: SentPart::Nothing, came: ReplyKind::Nothing };

    /// Returns the progress of a request that was sent whole and got this back.
    pub const fn whole(came: ReplyKind) -> Self {
        Self { written: SentPart::Whole, came }
    }

    pub fn retry_scope(self, work: WorkKind) -> RetryScope {
        match (work, self.written, self.came) {
            (WorkKind::Lookup, ..) | (_, SentPart::Nothing, _) | (.., ReplyKind::Refusal) => RetryScope::Here,
            (WorkKind::Text, SentPart::Part, ReplyKind::Nothing) => RetryScope::Here,
            (WorkKind::Text, _, ReplyKind::Goodbye | ReplyKind::Unclear) => RetryScope::Here,
            (WorkKind::Text, _, ReplyKind::Nothing | ReplyKind::Answer) => RetryScope::Elsewhere,
            (WorkKind::Creation, ..) => RetryScope::Nowhere,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::ReplyKind::{Answer, Goodbye, Nothing, Refusal, Unclear};
    use super::RetryScope::{Elsewhere, Here, Nowhere};
    use super::*;

    #[test]
    fn only_what_cannot_have_been_carried_out_is_sent_again() {
        use SentPart::{Part, Whole};
        for (written, came, [lookup, text, creation]) in [
            (SentPart::Nothing, Nothing, [Here, Here, Here]),
            (SentPart::Nothing, Goodbye, [Here, Here, Here]),
            (Part, Nothing, [Here, Here, Nowhere]),
            (Part, Goodbye, [Here, Here, Nowhere]),
            (Part, Refusal, [Here, Here, Here]),
            (Part, Unclear, [Here, Here, Nowhere]),
            (Part, Answer, [Here, Elsewhere, Nowhere]),
            (Whole, Nothing, [Here, Elsewhere, Nowhere]),
            (Whole, Goodbye, [Here, Here, Nowhere]),
            (Whole, Refusal, [Here, Here, Here]),
            (Whole, Unclear, [Here, Here, Nowhere]),
            (Whole, Answer, [Here, Elsewhere, Nowhere]),
        ] {
            let progress = ExchangeProgress { written, came };
            for (work, wanted) in
                [(WorkKind::Lookup, lookup), (WorkKind::Text, text), (WorkKind::Creation, creation)]
            {
                assert_eq!(progress.retry_scope(work), wanted, "{work:?} {progress:?}");
            }
        }
    }

    #[test]
    fn a_status_refuses_unless_its_sender_may_not_know() {
        for status in [301, 400, 401, 403, 404, 409, 413, 422, 429, 500, 501, 503, 529] {
            assert_eq!(ReplyKind::of_status(status), Refusal, "{status}");
        }
        for status in [408, 499, 502, 504, 520, 522, 524, 527] {
            assert_eq!(ReplyKind::of_status(status), Unclear, "{status}");
        }
    }

    #[test]
    fn a_method_that_may_be_repeated_makes_nothing() {
        for method in [Method::GET, Method::HEAD, Method::PUT, Method::DELETE, Method::OPTIONS] {
            assert_eq!(WorkKind::of_method(&method), WorkKind::Lookup, "{method}");
        }
        for method in [Method::POST, Method::PATCH] {
            assert_eq!(WorkKind::of_method(&method), WorkKind::Creation, "{method}");
        }
    }
}
