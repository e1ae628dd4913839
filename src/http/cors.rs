//! Cross-origin rules (admin-core.md 2.3): any origin by default, no credentials, requested headers
//! echoed. Credentials are tokens in headers here, so an open origin gives a page nothing it was
//! not handed.

use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, StatusCode};

use super::{Response, ResponseBody, text};

const METHODS: HeaderValue = HeaderValue::from_static("GET, HEAD, POST, PUT, PATCH, DELETE");
const EXPOSED: HeaderValue = HeaderValue::from_static(
    "Retry-After, X-Accounts-Snapshot-Cache, X-Request-Id, Request-Id, X-Upstream-Request-Id",
);
const REQUESTED_HEADERS: HeaderName = header::ACCESS_CONTROL_REQUEST_HEADERS;

/// Which origins may read answers.
#[derive(Clone, Debug, Default)]
pub struct Cors {
    /// Empty means any.
    allowed: Vec<String>,
}

impl Cors {
    pub fn new(allowed: Vec<String>) -> Self {
        Self { allowed: if allowed.iter().any(|origin| origin == "*") { Vec::new() } else { allowed } }
    }

    /// The answer to an OPTIONS request, which ends here: 204 for a preflight, else 400.
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

    /// The header every answer carries; `origin` is what the request said.
    pub fn stamp(&self, origin: Option<&HeaderValue>, response: &mut Response) {
        let out = response.headers_mut();
        if self.allowed.is_empty() {
            out.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
        } else {
            out.append(header::VARY, HeaderValue::from_static("Origin"));
            let allowed = origin
                .filter(|origin| self.allowed.iter().any(|known| known.as_bytes() == origin.as_bytes()));
            let Some(origin) = allowed else { return };
            out.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
        }
        if origin.is_some() {
            out.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED);
        }
    }
}
