//! Errors on the way to an upstream and back.
//!
//! Messages are for the operator: they name the host and the reason, never a credential, a header or a query string.

use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

use super::repeat::ExchangeProgress;
use crate::codings::CodingError;
use crate::time::in_seconds;

/// Where an exchange failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The name of the upstream (or of its outbound proxy) has no address.
    Dns,
    /// No connection to the upstream: refused, unreachable.
    Connect,
    /// The outbound proxy could not be reached: nobody knows of the upstream.
    NoProxy,
    /// The outbound proxy refused, or could not reach the upstream.
    Proxy,
    /// The TLS handshake failed: certificate, name or version.
    Tls,
    /// Connecting took too long.
    Timeout,
    /// This process has no file or no memory left for a connection; the upstream is not at fault.
    Exhausted,
    /// The connection ended, or was reset, before the answer was whole.
    Closed,
    /// A kept connection ended just as it was used again, most likely because it was idle; nobody is at fault.
    Expired,
    /// The answer was not valid HTTP.
    Protocol,
}

/// Why a request got no response head.
#[derive(Clone, Debug)]
pub struct SendError {
    kind: ErrorKind,
    message: String,
    progress: ExchangeProgress,
}

impl SendError {
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), progress: ExchangeProgress::UNSENT }
    }

    /// Sets how far the exchange had come when the error happened.
    pub(crate) fn after(self, progress: ExchangeProgress) -> Self {
        Self { progress, ..self }
    }

    /// Marks the error as one of a kept connection that was most likely closed because it was idle.
    pub(crate) fn expired(self) -> Self {
        Self { kind: ErrorKind::Expired, ..self }
    }

    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Returns how far the exchange came.
    pub fn progress(&self) -> ExchangeProgress {
        self.progress
    }

    /// Returns the message for the operator: host and reason.
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl StdError for SendError {}

/// Why a body broke off before its end.
#[derive(Clone, Debug)]
pub struct BodyError {
    kind: ErrorKind,
    message: String,
}

impl BodyError {
    pub(crate) fn closed(message: impl Into<String>) -> Self {
        Self { kind: ErrorKind::Closed, message: message.into() }
    }

    pub(crate) fn protocol(message: impl Into<String>) -> Self {
        Self { kind: ErrorKind::Protocol, message: message.into() }
    }

    /// Returns [`ErrorKind::Closed`] or [`ErrorKind::Protocol`].
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    pub fn message(&self) -> &str {
        &self.message
    }
}

impl From<CodingError> for BodyError {
    fn from(error: CodingError) -> Self {
        let message = undecodable(&error);
        match error {
            CodingError::CutShort(_) => Self::closed(message),
            _ => Self::protocol(message),
        }
    }
}

pub(super) fn undecodable(error: &CodingError) -> String {
    format!("the upstream's answer cannot be decoded: {error}")
}

impl fmt::Display for BodyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl StdError for BodyError {}

/// Why a management call has no answer.
#[derive(Clone, Debug)]
pub enum FetchError {
    Send(SendError),
    Body(BodyError),
    /// The whole call took longer than its limit.
    Timeout(Duration),
    /// The decoded body has more bytes than this.
    TooLarge(usize),
    /// A redirect that is not followed: to another host, without a usable address, or one too many.
    Redirect(String),
}

impl FetchError {
    pub fn is_timeout(&self) -> bool {
        match self {
            Self::Timeout(_) => true,
            Self::Send(error) => error.kind == ErrorKind::Timeout,
            _ => false,
        }
    }

    /// Whether the outbound proxy could not be reached, so that nobody was asked.
    pub fn lacks_proxy(&self) -> bool {
        matches!(self, Self::Send(error) if error.kind == ErrorKind::NoProxy)
    }
}

impl fmt::Display for FetchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Send(error) => error.fmt(f),
            Self::Body(error) => error.fmt(f),
            Self::Timeout(limit) => write!(f, "no complete answer within {} s", in_seconds(*limit)),
            Self::TooLarge(limit) => write!(f, "the answer is larger than {limit} bytes"),
            Self::Redirect(reason) => f.write_str(reason),
        }
    }
}

impl StdError for FetchError {}

impl From<SendError> for FetchError {
    fn from(error: SendError) -> Self {
        Self::Send(error)
    }
}

impl From<BodyError> for FetchError {
    fn from(error: BodyError) -> Self {
        Self::Body(error)
    }
}
