//! The error type of the admin API, and its response.
//!
//! Every refusal has the same body, a superset of what clients of the different resources look for:
//!
//! ```text
//! { "success": false, "message": text, "error": text, …flags }
//! ```
//!
//! | status | raised for |
//! |---|---|
//! | 400 | a field, an id or a body that cannot be read |
//! | 401, 403 | admin authentication, and nothing else: clients take both as a lost login |
//! | 404, 409 | a row that does not exist; a row that already exists |
//! | 413, 415, 408 | the request body itself; with `statusCode` |
//! | 429 | a route guard; with `Retry-After` |
//! | 500, 503 | failures of the gateway; the cause is only in the log |
//! | 507 | the disk is full |
//!
//! A business failure of an upstream is not an error: [`failure`] answers it with status 200.

use hyper::StatusCode;
use serde_json::{Map, Value};

use super::input::Invalid;
use super::schema::Shape::{Any, Boolean, Count, Integer, Is, Text};
use super::schema::{Object, has, may};
use crate::http::{self, BodyError, Response};
use crate::idle_thread::ThreadSpawnError;
use crate::store;

/// A refusal of a request.
#[derive(Clone, Debug)]
pub struct AdminError {
    status: StatusCode,
    /// The text for the client. It never carries a credential.
    message: String,
    /// Additional fields of the body, such as `requiresVerification`.
    flags: Map<String, Value>,
    retry_after_secs: Option<u64>,
}

/// The body of a [`failure`], without the flags that a route adds.
pub static FAILURE: Object =
    Object::new("Failure", &[has("success", Is(false)), has("message", Text), has("error", Text)]);

/// The body of every refusal.
pub static ADMIN_ERROR: Object = Object::with(
    "AdminError",
    &[&FAILURE],
    &[
        may("code", Text).about("A code for programs to tell errors apart"),
        may("statusCode", Integer),
        may("retryAfter", Count).about("In seconds"),
        may("requiresVerification", Boolean),
        may("shieldBlocked", Boolean),
        may("needsUserId", Boolean),
        may("invalidUserId", Boolean),
        may("channels", Any).about("The result of each notification channel"),
    ],
);

/// The result of a handler.
pub type Result<T, E = AdminError> = std::result::Result<T, E>;

// === impl AdminError ===

impl AdminError {
    pub fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, message: message.into(), flags: Map::new(), retry_after_secs: None }
    }

    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }

    /// Builds a 404; `what` names the missing thing, such as `Site`.
    pub fn not_found(what: &str) -> Self {
        Self::new(StatusCode::NOT_FOUND, format!("{what} not found"))
    }

    pub fn conflict(message: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, message)
    }

    /// Builds a 429 of an exhausted route guard that recovers in this many seconds.
    pub fn too_many_requests(retry_after_secs: u64) -> Self {
        let message = "Too many requests, please try again later";
        let mut error = Self::new(StatusCode::TOO_MANY_REQUESTS, message);
        let seconds = retry_after_secs.max(1);
        error.retry_after_secs = Some(seconds);
        error.flag("retryAfter", seconds)
    }

    /// Builds a 500 for a failure of the gateway itself: `cause` goes to the log and not to the client.
    pub fn internal(attempt: &str, cause: impl std::fmt::Display) -> Self {
        log::error!("{attempt}: {cause}");
        let status = StatusCode::INTERNAL_SERVER_ERROR;
        Self::new(status, "Internal error").flag("statusCode", status.as_u16())
    }

    /// Adds a field to the body.
    pub fn flag(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.flags.insert(name.to_owned(), value.into());
        self
    }

    /// Replaces the field's name in the message by the name that the client knows.
    pub fn naming(mut self, field: &str, theirs: &str) -> Self {
        if let Some(problem) = self.message.strip_prefix(&format!("Invalid {field}.")) {
            self.message = format!("Invalid {theirs}.{problem}");
        }
        self
    }

    pub fn status(&self) -> StatusCode {
        self.status
    }

    pub fn message(&self) -> &str {
        &self.message
    }

    /// Whether this field of the body is `true`.
    pub fn has_flag(&self, name: &str) -> bool {
        self.flags.get(name) == Some(&Value::Bool(true))
    }

    pub fn into_response(self) -> Response {
        let mut response = http::json(self.status, &body(&self.message, self.flags));
        if let Some(seconds) = self.retry_after_secs {
            http::set_retry_after(&mut response, seconds);
        }
        response
    }
}

impl From<Invalid> for AdminError {
    fn from(invalid: Invalid) -> Self {
        Self::bad_request(invalid.to_string())
    }
}

impl From<BodyError> for AdminError {
    fn from(error: BodyError) -> Self {
        let status = error.status();
        let refusal = Self::new(status, error.to_string()).flag("statusCode", status.as_u16());
        Self { retry_after_secs: error.retry_after_secs(), ..refusal }
    }
}

impl From<store::Error> for AdminError {
    fn from(error: store::Error) -> Self {
        match error {
            store::Error::Conflict(_) => Self::conflict("A row with these values already exists"),
            store::Error::NotFound => Self::not_found("Row"),
            store::Error::Dangling(_) => {
                Self::conflict("A row that this one refers to does not exist (any more)")
            }
            store::Error::Busy | store::Error::Closed | store::Error::Superseded => {
                log::warn!("an admin request failed because the database is unavailable: {error}");
                let status = StatusCode::SERVICE_UNAVAILABLE;
                let mut unavailable =
                    Self::new(status, "The database is busy").flag("statusCode", status.as_u16());
                unavailable.retry_after_secs = Some(1);
                unavailable
            }
            store::Error::Unreachable(_) => {
                log::warn!("an admin request was refused: {error}");
                let status = StatusCode::SERVICE_UNAVAILABLE;
                let mut unavailable =
                    Self::new(status, store::UNREACHABLE).flag("statusCode", status.as_u16());
                unavailable.retry_after_secs = Some(5);
                unavailable
            }
            store::Error::Full(_) => {
                log::error!("an admin request was refused: {error}");
                let status = StatusCode::INSUFFICIENT_STORAGE;
                Self::new(status, store::FULL).flag("statusCode", status.as_u16())
            }
            store::Error::Sealed(_) | store::Error::Refused(_) | store::Error::Database(_) => {
                Self::internal("an admin request failed in the store", error)
            }
        }
    }
}

impl From<ThreadSpawnError> for AdminError {
    fn from(error: ThreadSpawnError) -> Self {
        log::warn!("an admin request was refused: {error}");
        let status = StatusCode::SERVICE_UNAVAILABLE;
        let refusal =
            Self::new(status, "The service could not start a thread for this request, try again later");
        Self { retry_after_secs: Some(5), ..refusal.flag("statusCode", status.as_u16()) }
    }
}

/// Builds the response for a failure that clients read from the body: status 200, `success` false.
pub fn failure(message: &str, flags: Map<String, Value>) -> Response {
    http::json(StatusCode::OK, &body(message, flags))
}

fn body(message: &str, mut flags: Map<String, Value>) -> Value {
    flags.insert("success".to_owned(), false.into());
    flags.insert("message".to_owned(), message.into());
    flags.insert("error".to_owned(), message.into());
    Value::Object(flags)
}

#[cfg(test)]
mod tests {
    use hyper::header::RETRY_AFTER;

    use super::*;

    fn parts(error: AdminError) -> (u16, Option<String>, Value) {
        let response = error.into_response();
        let retry =
            response.headers().get(RETRY_AFTER).map(|value| value.to_str().expect("ascii").to_owned());
        let status = response.status().as_u16();
        let http::ResponseBody::Full(Some(bytes)) = response.into_body() else { panic!("no body") };
        (status, retry, serde_json::from_slice(&bytes).expect("JSON"))
    }

    #[test]
    fn every_refusal_has_the_superset_body() {
        let (status, retry, body) = parts(AdminError::bad_request("no").flag("requiresVerification", true));
        assert_eq!((status, retry), (400, None));
        let expected = serde_json::json!({"success": false, "message": "no", "error": "no", "requiresVerification": true});
        assert_eq!(body, expected);
    }

    #[test]
    fn a_field_is_called_what_its_sender_calls_it_and_nothing_else_changes() {
        let refused =
            |field: &str| AdminError::from(Invalid::field(field, "text")).naming("cronText", "cron");
        assert_eq!(refused("cronText").message(), "Invalid cron. Expected text.");
        assert_eq!(refused("cron").message(), "Invalid cron. Expected text.");
        let (_, retry, body) = parts(AdminError::too_many_requests(42).naming("cronText", "cron"));
        assert_eq!((retry.as_deref(), &body["retryAfter"]), (Some("42"), &serde_json::json!(42)));
    }

    #[test]
    fn a_guard_says_when_to_come_back() {
        assert_eq!(parts(AdminError::too_many_requests(0)).1.as_deref(), Some("1"));
        let (status, retry, body) = parts(AdminError::too_many_requests(42));
        assert_eq!((status, retry.as_deref()), (429, Some("42")));
        assert_eq!(body["message"], "Too many requests, please try again later");
    }

    #[test]
    fn the_inside_of_a_failure_stays_inside() {
        let (status, _, body) = parts(store::Error::Database("disk I/O error on /x".into()).into());
        assert_eq!((status, body["message"].as_str()), (500, Some("Internal error")));
        assert_eq!(body["statusCode"], 500);
    }

    #[test]
    fn body_errors_keep_their_status() {
        for (error, status) in [
            (BodyError::TooLarge { limit: 1 }, 413),
            (BodyError::MediaType("text/plain".into()), 415),
            (BodyError::NotJson("x".into()), 400),
            (BodyError::NotAnObject, 400),
        ] {
            let (found, _, body) = parts(error.into());
            assert_eq!((found, &body["statusCode"]), (status, &Value::from(status)));
        }
    }
}
