//! `/v1/search`: a search of the web, where a site offers one.
//!
//! A search that names no model is routed by the model `__search`.
//!
//! `/v1/alpha/search` serves the search tool of Codex (`codex-api/src/search.rs` in github.com/openai/codex): commands to
//! search, open and find for a model, answered with a text. Its body passes unchanged; one with a `query` and no `commands`
//! is a plain search.

use std::sync::Arc;

use bytes::Bytes;

use crate::dialect::edit::edit;
use crate::dialect::tree::Node;
use crate::dialect::{Dialect, json};
use crate::http::{Request, Response};
use crate::proxy::Proxy;

use super::auth::Caller;
use super::operation::{CallKind, Operation};
use super::pipeline;
use super::reply::ErrorShape;

/// The dialect whose handling a search shares: one JSON object in, one out.
const SURFACE: Dialect = Dialect::Embeddings;
const DEFAULT_MODEL: &str = "\"__search\"";
const DEFAULT_RESULTS: &str = "10";
const MOST_RESULTS: f64 = 20.0;

/// Serves `POST /v1/search`.
pub(super) async fn search(proxy: Arc<Proxy>, mut request: Request, caller: Caller) -> Response {
    let shape = ErrorShape::of(&request.headers, Some(Dialect::Chat), request.id);
    let body = match request.bytes().await {
        Ok(body) => body,
        Err(error) => return shape.body_error(&error),
    };
    serve(proxy, request, body, caller, shape).await
}

async fn serve(
    proxy: Arc<Proxy>,
    request: Request,
    body: Bytes,
    caller: Caller,
    shape: ErrorShape,
) -> Response {
    match proxy.conversions.read_through(body.len(), || checked(&body)).await {
        Ok(body) => {
            pipeline::serve_body(proxy, CallKind::of_body(SURFACE, Operation::Search), request, body, caller)
                .await
        }
        Err(InvalidSearch { field, message }) => shape.refuse(400, message, None, field),
    }
}

/// Serves `POST /v1/alpha/search`.
pub(super) async fn alpha(proxy: Arc<Proxy>, mut request: Request, caller: Caller) -> Response {
    let shape = ErrorShape::of(&request.headers, Some(Dialect::Chat), request.id);
    let body = match request.bytes().await {
        Ok(body) => body,
        Err(error) => return shape.body_error(&error),
    };
    let is_plain = || {
        let text = std::str::from_utf8(&body).unwrap_or_default();
        json::member(text, "query").is_some() && json::member(text, "commands").is_none()
    };
    if proxy.conversions.read_through(body.len(), is_plain).await {
        return serve(proxy, request, body, caller, shape).await;
    }
    let kind = CallKind::of_body(Dialect::Responses, Operation::AlphaSearch);
    pipeline::serve_body(proxy, kind, request, body, caller).await
}

#[derive(Debug, PartialEq, Eq)]
struct InvalidSearch {
    field: Option<&'static str>,
    message: &'static str,
}

/// Checks a plain search and fills in the defaults of members that the client left out.
fn checked(body: &[u8]) -> Result<Bytes, InvalidSearch> {
    let invalid = |field, message| Err(InvalidSearch { field, message });
    let text = std::str::from_utf8(body).unwrap_or_default();
    let Some(node) = Node::parse(text).ok().filter(Node::is_object) else {
        return invalid(None, "The request body is not a JSON object");
    };
    if node.get("query").and_then(Node::str).is_none_or(|query| query.trim().is_empty()) {
        return invalid(Some("query"), "query is required");
    }
    if node.bool_at("stream") == Some(true) {
        return invalid(Some("stream"), "A search cannot be streamed");
    }
    let is_given = |key: &str| node.get(key).is_some_and(|value| !value.is_null());
    let in_range = |n: f64| n.fract() == 0.0 && (1.0..=MOST_RESULTS).contains(&n);
    if is_given("max_results") && !node.get("max_results").and_then(Node::f64).is_some_and(in_range) {
        return invalid(Some("max_results"), "max_results must be a number from 1 to 20");
    }
    let mut set = Vec::new();
    if !is_given("model") || json::member(text, "model").is_some_and(|model| model == "\"\"") {
        set.push(("model", DEFAULT_MODEL));
    }
    if !is_given("max_results") {
        set.push(("max_results", DEFAULT_RESULTS));
    }
    Ok(Bytes::from(edit(text, &set, &[]).into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_is_checked_and_completed() {
        for (body, wanted) in [
            (r#"{"query":"way"}"#, Ok(r#"{"query":"way","model":"__search","max_results":10}"#)),
            (
                r#"{"query":"way","max_results":20,"model":"m","x":1.0,"stream":false}"#,
                Ok(r#"{"query":"way","max_results":20,"model":"m","x":1.0,"stream":false}"#),
            ),
            (r#"{"query":" "}"#, Err(Some("query"))),
            (r#"{"query":5}"#, Err(Some("query"))),
            (r#"{}"#, Err(Some("query"))),
            (r#"{"query":"a","stream":true}"#, Err(Some("stream"))),
            (r#"{"query":"a","max_results":0}"#, Err(Some("max_results"))),
            (r#"{"query":"a","max_results":21}"#, Err(Some("max_results"))),
            (r#"{"query":"a","max_results":1.5}"#, Err(Some("max_results"))),
            (r#"{"query":"a","max_results":"5"}"#, Err(Some("max_results"))),
            ("[]", Err(None)),
            ("", Err(None)),
        ] {
            let done = checked(body.as_bytes());
            let done = done.as_ref().map(|body| std::str::from_utf8(body).unwrap());
            assert_eq!(done.map_err(|invalid| invalid.field), wanted, "{body}");
        }
    }
}
