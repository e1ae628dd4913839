//! Why a request body could not be read, and the message for its client.

use std::io;

use super::pace::SlowBody;
use crate::codings::{self, CodingError};
use crate::limits::OutOfBodyMemory;

/// Why a request body could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BodyError {
    /// Over the limit, in bytes.
    TooLarge { limit: usize },
    /// Names and values so many that their tree would take many times the memory of the body.
    TooManyValues { most: usize },
    /// The rest of the body was not waited for.
    Slow(SlowBody),
    /// Other bodies take all the shared memory.
    NoRoom,
    /// The framing was broken or the client went away.
    Broken(String),
    /// The body cannot be decoded.
    Coding(CodingError),
    /// Not JSON; holds the parser's message, which names the place.
    NotJson(String),
    /// JSON, but not an object.
    NotAnObject,
    /// A media type that is not JSON.
    MediaType(String),
}

impl std::fmt::Display for BodyError {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::TooLarge { limit } => write!(out, "The request body is larger than {limit} bytes"),
            Self::TooManyValues { most } => {
                write!(
                    out,
                    "The request body is large and has more than {most} names and values: send several smaller ones"
                )
            }
            Self::Slow(why) => why.fmt(out),
            Self::NoRoom => out.write_str(
                "Too many large requests at once: the memory for their bodies (REQUEST_BODY_MEMORY_BYTES) \
                 is in use, try again later",
            ),
            Self::Broken(cause) => write!(out, "The request body could not be read: {cause}"),
            Self::Coding(CodingError::Unknown(codings)) => {
                let known = codings::KNOWN;
                write!(out, "Unsupported Content-Encoding {codings:.40?}: send one of {known}, or none")
            }
            Self::Coding(cause) => write!(out, "The request body cannot be decoded: {cause}"),
            Self::NotJson(cause) => write!(out, "The request body is not valid JSON: {cause}"),
            Self::NotAnObject => out.write_str("The request body must be a JSON object"),
            Self::MediaType(found) => {
                write!(out, "Unsupported media type `{found}`: send application/json")
            }
        }
    }
}

impl BodyError {
    pub(super) fn broken(error: hyper::Error) -> Self {
        let cause = std::error::Error::source(&error).and_then(|cause| cause.downcast_ref::<io::Error>());
        let slow = cause.and_then(|cause| cause.get_ref()?.downcast_ref::<SlowBody>());
        slow.map_or_else(|| Self::Broken(error.to_string()), |slow| Self::Slow(*slow))
    }

    /// Returns the matching status (RFC 9110 §15.5).
    pub fn status(&self) -> hyper::StatusCode {
        match self {
            Self::TooLarge { .. } | Self::TooManyValues { .. } => hyper::StatusCode::PAYLOAD_TOO_LARGE,
            Self::Slow(SlowBody::Stopping) | Self::NoRoom => hyper::StatusCode::SERVICE_UNAVAILABLE,
            Self::Slow(_) => hyper::StatusCode::REQUEST_TIMEOUT,
            Self::MediaType(_) | Self::Coding(CodingError::Unknown(_)) => {
                hyper::StatusCode::UNSUPPORTED_MEDIA_TYPE
            }
            Self::Broken(_) | Self::Coding(_) | Self::NotJson(_) | Self::NotAnObject => {
                hyper::StatusCode::BAD_REQUEST
            }
        }
    }
}

impl BodyError {
    /// Returns the seconds until another try is worthwhile, if known.
    pub fn retry_after_secs(&self) -> Option<u64> {
        (*self == Self::NoRoom).then_some(OutOfBodyMemory::RETRY_AFTER_SECS)
    }
}

impl From<OutOfBodyMemory> for BodyError {
    fn from(OutOfBodyMemory: OutOfBodyMemory) -> Self {
        Self::NoRoom
    }
}

impl From<CodingError> for BodyError {
    fn from(error: CodingError) -> Self {
        Self::Coding(error)
    }
}
