//! Why a call to a site failed. A failure is always one of these, never an empty answer.

use std::fmt;

use hyper::http::StatusCode;
use serde_json::Value;

use super::reply;
use crate::error_words::sites::{self, Meaning};
use crate::upstream::{ErrorKind, FetchError};

/// The kind of failure, decided on status, words and shape of the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SiteErrorKind {
    /// No whole answer within the limit.
    Timeout,
    /// No way to the site, or the connection broke: name, connection, proxy, TLS.
    Unreachable,
    /// The session is over.
    Expired,
    /// The site wants the user's number, and none of those guessed was right.
    NeedsUserId,
    /// The user's number does not belong to the credential.
    InvalidUserId,
    /// A bot shield answered instead of the site.
    Shield,
    /// The site has no such route.
    Missing,
    /// The platform does not offer this; the site was not asked.
    Unsupported,
    /// The site refuses, in its own words.
    Refused,
    /// An answer that cannot be read: no JSON, another shape, too large, a redirect elsewhere.
    Malformed,
    /// The site is in trouble: 429, 5xx.
    Failed,
}

/// Why a call to a site failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SiteError {
    pub kind: SiteErrorKind,
    /// The site's status, when it answered.
    pub status: Option<u16>,
    /// One short line for people; never a credential.
    pub message: String,
    /// Whether the answer was a web page where JSON was asked for.
    pub is_page: bool,
    /// Whether the site reported a failure without a message.
    pub is_speechless: bool,
}

// === impl SiteError ===

impl SiteError {
    pub fn new(kind: SiteErrorKind, message: impl Into<String>) -> Self {
        Self { kind, status: None, message: message.into(), is_page: false, is_speechless: false }
    }

    /// Builds the error for something that a platform does not have.
    pub(super) fn unsupported(what: &str) -> Self {
        Self::new(SiteErrorKind::Unsupported, what)
    }

    /// Builds the error for an answer with a failure's status, or one that reports a failure itself.
    pub(super) fn answered(status: StatusCode, body: &[u8]) -> Self {
        Self::answered_to(status, body, false)
    }

    /// Builds such an error for a call that may have named the user.
    pub(super) fn answered_to(status: StatusCode, body: &[u8], has_user_id: bool) -> Self {
        let is_page = reply::is_page(body);
        let told = if status.is_success() && !is_page {
            reply::error_message(body)
        } else {
            Some(reply::failure(status, body))
        };
        let is_speechless = told.is_none();
        let message = told.unwrap_or_else(|| reply::SPEECHLESS.to_owned());
        let number = status.as_u16();
        let kind = if is_page {
            let page = String::from_utf8_lossy(body).to_lowercase();
            sites::is_shield_page(&page, Some(number)).then_some(SiteErrorKind::Shield)
        } else {
            sites::meaning(&reply::words(body), Some(number), has_user_id).map(SiteErrorKind::from)
        };
        let kind = kind.unwrap_or_else(|| by_status(number, &message, is_page));
        Self { kind, status: Some(number), message, is_page, is_speechless }
    }

    /// Builds the error for a call that the site redirects to its login page.
    pub(super) fn redirected_to_login(status: StatusCode) -> Self {
        let message = "not logged in: the site redirects to its login page";
        Self { status: Some(status.as_u16()), ..Self::new(SiteErrorKind::Expired, message) }
    }

    /// Builds the error for a success whose body is not what was asked for.
    pub(super) fn malformed(status: StatusCode, body: &[u8], wanted: &str) -> Self {
        if reply::is_page(body) {
            let answered = Self::answered(status, body);
            let page = reply::page_summary(status, body).unwrap_or_default();
            return Self { message: format!("a web page instead of {wanted}: {page}"), ..answered };
        }
        let message = format!("the answer is not {wanted}");
        Self { status: Some(status.as_u16()), ..Self::new(SiteErrorKind::Malformed, message) }
    }

    /// Builds the error for JSON that lacks what was asked for, with the answer's own words where it has any.
    pub(super) fn lacks(answer: &Value, wanted: &str) -> Self {
        let said = reply::message(answer).map_or_else(String::new, |said| format!(": {said}"));
        let message = format!("the answer has no {wanted}{said}");
        Self { status: Some(200), ..Self::new(SiteErrorKind::Malformed, message) }
    }

    /// Whether a new login may help: the site does not know who asks.
    pub fn wants_login(&self) -> bool {
        let text = self.message.to_lowercase();
        matches!(
            self.kind,
            SiteErrorKind::Expired | SiteErrorKind::NeedsUserId | SiteErrorKind::InvalidUserId
        ) || (self.kind == SiteErrorKind::Refused && sites::wants_login(&text))
    }

    /// Whether the site recognises the session, but wants the user's number, or another one.
    pub(super) fn wants_number(&self) -> bool {
        matches!(self.kind, SiteErrorKind::NeedsUserId | SiteErrorKind::InvalidUserId)
    }

    /// Whether the failure explains itself: the site's refusal, or trouble on the way to it. A page that the site does
    /// not have, or that is something else, says nothing about a credential.
    pub(super) fn stands_for_itself(&self) -> bool {
        !matches!(self.kind, SiteErrorKind::Missing | SiteErrorKind::Malformed | SiteErrorKind::Unsupported)
    }

    /// Whether the site has no such page at all.
    pub(super) fn is_missing(&self) -> bool {
        self.kind == SiteErrorKind::Missing
    }

    /// Whether asking in another way is pointless: the site cannot be reached at all, or has no such route.
    pub(super) fn is_final(&self) -> bool {
        matches!(
            self.kind,
            SiteErrorKind::Timeout
                | SiteErrorKind::Unreachable
                | SiteErrorKind::Missing
                | SiteErrorKind::Unsupported
        )
    }

    /// Returns how much this failure tells, for choosing among several: words of the site rank above pages, and pages
    /// above no answer.
    fn weight(&self) -> u8 {
        match self.kind {
            SiteErrorKind::Shield => 4,
            _ if self.is_page => 1,
            SiteErrorKind::Timeout | SiteErrorKind::Unreachable | SiteErrorKind::Unsupported => 0,
            SiteErrorKind::Malformed | SiteErrorKind::Missing => 2,
            SiteErrorKind::Failed => 3,
            SiteErrorKind::Refused => 4,
            SiteErrorKind::Expired | SiteErrorKind::NeedsUserId | SiteErrorKind::InvalidUserId => 5,
        }
    }

    /// Returns the more telling of two failures; of equals the first.
    pub(super) fn more_telling(first: Option<Self>, second: Self) -> Self {
        match first {
            Some(first) if first.weight() >= second.weight() => first,
            _ => second,
        }
    }

    /// Chooses the error for one session that was sent in two ways, one of which is a guess: a token as Bearer and as
    /// cookie. A second way that is refused for want of a login is ignored where the first met other trouble; a plain
    /// page is no such trouble, since it says nothing. The session does not count as over while either way met
    /// something else.
    pub(super) fn of_both_ways(first: Option<Self>, second: Self) -> Self {
        let Some(first) = first else { return second };
        let is_mere_page =
            first.is_page && !matches!(first.kind, SiteErrorKind::Shield | SiteErrorKind::Failed);
        if second.wants_login() && !first.wants_login() && !is_mere_page {
            return first;
        }
        if second.kind == SiteErrorKind::Shield && first.wants_login() {
            return second;
        }
        let is_open = !first.wants_login() || second.is_transient() || second.is_page;
        let told = Self::more_telling(Some(first), second);
        match told.kind {
            SiteErrorKind::Expired if is_open => Self { kind: SiteErrorKind::Refused, ..told },
            _ => told,
        }
    }

    /// Whether another try later may succeed: the site cannot be reached, or is in trouble.
    pub fn is_transient(&self) -> bool {
        matches!(self.kind, SiteErrorKind::Timeout | SiteErrorKind::Unreachable | SiteErrorKind::Failed)
    }
}

fn by_status(status: u16, message: &str, is_page: bool) -> SiteErrorKind {
    match status {
        404 | 405 => SiteErrorKind::Missing,
        429 | 500.. => SiteErrorKind::Failed,
        200..=299 if is_page => SiteErrorKind::Malformed,
        _ if sites::names_no_route(&message.to_lowercase()) => SiteErrorKind::Missing,
        _ => SiteErrorKind::Refused,
    }
}

impl From<Meaning> for SiteErrorKind {
    fn from(meaning: Meaning) -> Self {
        match meaning {
            Meaning::InvalidUserId => Self::InvalidUserId,
            Meaning::NeedsUserId => Self::NeedsUserId,
            Meaning::Shield => Self::Shield,
            Meaning::Expired => Self::Expired,
        }
    }
}

impl From<FetchError> for SiteError {
    fn from(error: FetchError) -> Self {
        let kind = match &error {
            _ if error.is_timeout() => SiteErrorKind::Timeout,
            FetchError::TooLarge(_) | FetchError::Redirect(_) => SiteErrorKind::Malformed,
            FetchError::Send(error) if error.kind() == ErrorKind::Protocol => SiteErrorKind::Malformed,
            FetchError::Body(error) if error.kind() == ErrorKind::Protocol => SiteErrorKind::Malformed,
            _ => SiteErrorKind::Unreachable,
        };
        Self::new(kind, error.to_string())
    }
}

impl fmt::Display for SiteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for SiteError {}
