//! Checks for heads that hyper accepts and we refuse (RFC 9112 §3.2, §6.1; RFC 9110 §10.1.1).
//!
//! When two parsers disagree about where a request ends or whom it is for, requests can be smuggled past a proxy, so
//! anything ambiguous is refused before it is routed.

use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::{Method, StatusCode, Uri, Version};

use super::framing::HeadFault;

const TWO_LENGTHS: &str = "Content-Length and Transfer-Encoding exclude each other";

/// The refusal of a request head: the status and the message for the client.
pub struct HeadRefusal {
    pub status: StatusCode,
    pub message: &'static str,
}

/// Checks one head. `fault` is what was wrong with it on the socket (see `framing`).
pub fn check(
    method: &Method,
    uri: &Uri,
    version: Version,
    headers: &HeaderMap,
    fault: Option<HeadFault>,
) -> Result<(), HeadRefusal> {
    let refuse = |status, message| Err(HeadRefusal { status, message });
    match fault {
        Some(HeadFault::TargetTooLong) => {
            return refuse(StatusCode::URI_TOO_LONG, "The request target is too long");
        }
        Some(HeadFault::TooLong) => {
            return refuse(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, "The headers are too long");
        }
        Some(HeadFault::TwoLengths) => return refuse(StatusCode::BAD_REQUEST, TWO_LENGTHS),
        Some(HeadFault::Unfollowed) => {
            return refuse(
                StatusCode::BAD_REQUEST,
                "The start of this request cannot be told from the body of the one before it",
            );
        }
        None => {}
    }
    if *method == Method::CONNECT {
        return refuse(StatusCode::METHOD_NOT_ALLOWED, "CONNECT is not supported");
    }
    let mut hosts = headers.get_all(header::HOST).iter();
    let host = hosts.next();
    if hosts.next().is_some() {
        return refuse(StatusCode::BAD_REQUEST, "More than one Host header");
    }
    if host.is_none() && version >= Version::HTTP_11 {
        return refuse(StatusCode::BAD_REQUEST, "The Host header is missing");
    }
    if let (Some(authority), Some(host)) = (uri.authority(), host)
        && !authority.as_str().as_bytes().eq_ignore_ascii_case(host.as_bytes())
    {
        return refuse(StatusCode::BAD_REQUEST, "The request target names another host than the Host header");
    }
    if headers.contains_key(header::TRANSFER_ENCODING) {
        if headers.contains_key(header::CONTENT_LENGTH) {
            return refuse(StatusCode::BAD_REQUEST, TWO_LENGTHS);
        }
        let mut codings = headers.get_all(header::TRANSFER_ENCODING).iter();
        let only_chunked =
            codings.next().is_some_and(|value| is(value, "chunked")) && codings.next().is_none();
        if !only_chunked {
            return refuse(StatusCode::NOT_IMPLEMENTED, "The only supported transfer coding is chunked");
        }
    }
    if headers.get_all(header::CONTENT_TYPE).iter().nth(1).is_some() {
        return refuse(StatusCode::BAD_REQUEST, "More than one Content-Type header");
    }
    if let Some(expectation) = headers.get(header::EXPECT)
        && !is(expectation, "100-continue")
    {
        return refuse(StatusCode::EXPECTATION_FAILED, "The only supported expectation is 100-continue");
    }
    Ok(())
}

fn is(value: &HeaderValue, token: &str) -> bool {
    value.as_bytes().trim_ascii().eq_ignore_ascii_case(token.as_bytes())
}
