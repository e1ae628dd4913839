//! The page that a browser shows when a login is over: whether it worked, and nothing that came from elsewhere.

use bytes::Bytes;
use hyper::StatusCode;
use hyper::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderValue, REFERRER_POLICY};

use crate::http::{Response, ResponseBody};

const CONNECTED: &str = "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>Login succeeded</title>\
    <h1>Login succeeded</h1><p>You can close this window.</p><script>window.close()</script></html>\n";
const FAILED: &str = "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>Login failed</title>\
    <h1>Login failed</h1><p>The page where you began tells why, and so does the log of the server.</p>\
    <script>window.close()</script></html>\n";

/// Builds the last page of a login. It has no word of the provider, of the account or of the requested address.
pub fn page(status: StatusCode, is_connected: bool) -> Response {
    let text = if is_connected { CONNECTED } else { FAILED };
    let mut response = Response::new(ResponseBody::full(Bytes::from_static(text.as_bytes())));
    *response.status_mut() = status;
    for (name, value) in [
        (CONTENT_TYPE, "text/html; charset=utf-8"),
        (CACHE_CONTROL, "no-store"),
        (CONTENT_SECURITY_POLICY, "default-src 'none'; script-src 'unsafe-inline'"),
        // The address contains the code.
        (REFERRER_POLICY, "no-referrer"),
    ] {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}
