//! Answers to requests that only count tokens, where no upstream counts.

use bytes::Bytes;
use hyper::StatusCode;
use hyper::header::HeaderValue;

use crate::dialect::Dialect;
use crate::dialect::estimate::estimate_tokens;
use crate::dialect::tree::Node;
use crate::http::{self, Response};

use super::headers;
use super::reply::ErrorShape;

/// Builds an answer with an estimated token count, marked by a header. Coding clients count all the time and expect a
/// number, also where no upstream counts.
pub(super) fn estimated(shape: ErrorShape, body: &Bytes) -> Response {
    let text = std::str::from_utf8(body).unwrap_or_default();
    let tokens = Node::parse(text).map_or(0, |body| estimate_tokens(&body));
    let body = Bytes::from(match shape.dialect {
        Dialect::Gemini => format!("{{\"totalTokens\":{tokens}}}"),
        Dialect::Responses => {
            format!("{{\"object\":\"response.input_tokens\",\"input_tokens\":{tokens}}}")
        }
        _ => format!("{{\"input_tokens\":{tokens}}}"),
    });
    let mut response = http::json_bytes(StatusCode::OK, body);
    response.headers_mut().insert("x-switchyard-estimated", HeaderValue::from_static("1"));
    headers::request_id(shape.dialect, shape.id, response.headers_mut());
    response
}
