//! The refusals of calls about files.

use crate::http::{self, BodyError, Response};
use crate::one_line::first_chars;
use crate::proxy::reply::ErrorShape;
use crate::store;

/// The refusal of a call about a file.
#[derive(Debug)]
pub(super) struct FileRefusal {
    pub(super) status: u16,
    pub(super) message: String,
    pub(super) code: Option<&'static str>,
    pub(super) param: Option<&'static str>,
    /// The wait in seconds after which another try makes sense, where it is known.
    pub(super) retry_after_secs: Option<u64>,
}

impl FileRefusal {
    pub(super) fn new(status: u16, message: impl Into<String>) -> Self {
        Self { status, message: message.into(), code: None, param: None, retry_after_secs: None }
    }

    pub(super) fn bad(param: &'static str, message: impl Into<String>) -> Self {
        Self { param: Some(param), ..Self::new(400, message) }
    }

    pub(super) fn unknown_file(id: &str) -> Self {
        let id = first_chars(id, 100);
        Self { param: Some("file_id"), ..Self::new(404, format!("No such file: {id}")) }
    }

    pub(super) fn answer(self, shape: ErrorShape) -> Response {
        let mut response = shape.refuse(self.status, &self.message, self.code, self.param);
        if let Some(seconds) = self.retry_after_secs {
            http::set_retry_after(&mut response, seconds);
        }
        response
    }
}

impl From<BodyError> for FileRefusal {
    fn from(error: BodyError) -> Self {
        let refusal = Self::new(error.status().as_u16(), error.to_string());
        Self { retry_after_secs: error.retry_after_secs(), ..refusal }
    }
}

impl From<store::Error> for FileRefusal {
    fn from(error: store::Error) -> Self {
        log::error!("a request for a file failed in the database: {error}");
        if let store::Error::Full(_) = error {
            return Self { code: Some("insufficient_storage"), ..Self::new(507, store::FULL) };
        }
        Self::new(503, "Files cannot be stored or read at the moment")
    }
}
