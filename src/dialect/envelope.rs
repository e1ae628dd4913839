//! The envelope of a request: what routing must know, read without building a tree.

use super::Dialect;
use bytes::Bytes;
use std::ops::Range;

/// What routing must know about a request body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// The requested model, trimmed and not blank (for gemini empty: its path names the model).
    pub model: String,
    /// `stream` is exactly `true`.
    pub stream: bool,
    /// `stream_options` is an object: the client said itself whether it wants usage.
    pub stream_options: bool,
    /// `prompt_cache_key`, when it is a non-blank string.
    pub prompt_cache_key: Option<String>,
    /// `user`, or on messages `metadata.user_id`, when it is a non-blank string.
    pub user: Option<String>,
    place: ModelPlace,
}

/// Where the model stands in the body, or where it must be put.
#[derive(Clone, Debug, PartialEq, Eq)]
enum ModelPlace {
    /// The string literal with its quotes.
    Literal(Range<usize>),
    /// The body names none: a member goes right behind the opening brace.
    Absent { at: usize, more_follow: bool },
}

/// Why a body is refused; always the client's mistake (400).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnvelopeError {
    /// The field at fault, for `error.param`; `None` when the body is no JSON object at all.
    pub field: Option<&'static str>,
    /// Names the field and what is wrong with it.
    pub message: String,
}

/// Reads the envelope and checks that the whole body is a JSON object.
pub fn skim(_dialect: Dialect, _body: &[u8]) -> Result<Envelope, EnvelopeError> {
    todo!()
}

/// The body with `model` in place of the requested one, as up to three pieces to be sent one after
/// the other; nothing is copied. When the model is the same, the first piece is the whole body and
/// the others are empty.
pub fn splice_model(body: &Bytes, envelope: &Envelope, _model: &str) -> [Bytes; 3] {
    let _ = &envelope.place;
    let _ = ModelPlace::Absent { at: 0, more_follow: false };
    let _ = ModelPlace::Literal(0..0);
    [body.clone(), Bytes::new(), Bytes::new()]
}
