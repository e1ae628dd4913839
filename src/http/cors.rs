//! Cross-origin rules: no credentials, requested headers are echoed. By default, pages of any origin may read answers of
//! the proxy interface, since they hold its token; answers of the admin interface and the metrics may only be read by the
//! gateway's own origin.

use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, StatusCode};

use super::{Response, ResponseBody, origin, text};

const METHODS: HeaderValue = HeaderValue::from_static("GET, HEAD, POST, PUT, PATCH, DELETE");
/// The headers of answers that pages may read: these by name for old browsers, and `*` for all, since no credentials are sent
/// (Fetch Standard, 3.3.3).
const EXPOSED: HeaderValue = HeaderValue::from_static(
    "Retry-After, X-Accounts-Snapshot-Cache, X-Request-Id, Request-Id, X-Upstream-Request-Id, *",
);
const REQUESTED_HEADERS: HeaderName = header::ACCESS_CONTROL_REQUEST_HEADERS;

/// The origins that may read answers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Cors {
    /// Any origin for the proxy interface, its own origin for the admin interface and the metrics.
    #[default]
    ByInterface,
    Any,
    These(Vec<String>),
}

/// The origin of a request, as far as the answer's headers depend on it.
pub struct RequestOrigin {
    origin: Option<HeaderValue>,
    is_own: bool,
}

impl RequestOrigin {
    pub fn of(headers: &HeaderMap) -> Self {
        let origin = headers.get(header::ORIGIN);
        Self { is_own: origin.is_some_and(|it| origin::is_own(it, headers)), origin: origin.cloned() }
    }
}

impl Cors {
    /// Builds the rule from the origins that an operator has configured; `*` means any.
    pub fn new(allowed: Vec<String>) -> Self {
        match allowed.is_empty() {
            true => Self::ByInterface,
            false if allowed.iter().any(|origin| origin == "*") => Self::Any,
            false => Self::These(allowed),
        }
    }

    /// Answers an OPTIONS request, which goes no further: 204 for a preflight, else 400.
    pub fn preflight(&self, method: &Method, headers: &HeaderMap) -> Option<Response> {
        if method != Method::OPTIONS {
            return None;
        }
        if !headers.contains_key(header::ORIGIN)
            || !headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)
        {
            return Some(text(StatusCode::BAD_REQUEST, "Invalid Preflight Request"));
        }
        let mut response = Response::new(ResponseBody::empty());
        *response.status_mut() = StatusCode::NO_CONTENT;
        let out = response.headers_mut();
        out.insert(header::ACCESS_CONTROL_ALLOW_METHODS, METHODS);
        if let Some(requested) = headers.get(&REQUESTED_HEADERS) {
            out.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, requested.clone());
        }
        out.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
        out.append(header::VARY, HeaderValue::from_static("Access-Control-Request-Headers"));
        Some(response)
    }

    /// Sets the cross-origin headers of an answer, depending on the requesting origin and on whether the answer is for
    /// operators.
    pub fn put_headers(&self, request: &RequestOrigin, is_operators: bool, response: &mut Response) {
        let out = response.headers_mut();
        let is_allowed = match self {
            Self::Any => None,
            Self::ByInterface if !is_operators => None,
            Self::ByInterface => Some(request.is_own),
            Self::These(allowed) => {
                let is =
                    |origin: &HeaderValue| allowed.iter().any(|known| known.as_bytes() == origin.as_bytes());
                Some(request.origin.as_ref().is_some_and(is))
            }
        };
        let allowed = match is_allowed {
            None => Some(HeaderValue::from_static("*")),
            Some(is_allowed) => {
                out.append(header::VARY, HeaderValue::from_static("Origin"));
                request.origin.clone().filter(|_| is_allowed)
            }
        };
        let Some(allowed) = allowed else { return };
        out.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, allowed);
        if request.origin.is_some() {
            out.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED);
        }
    }
}
