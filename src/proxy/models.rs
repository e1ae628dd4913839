//! `GET /v1/models` and `GET /v1/models/{id}`, in the shape of the client's family, and Gemini's own paths for the same.

use std::sync::Arc;

use hyper::StatusCode;
use serde_json::{Value, json};

use crate::dialect::Dialect;
use crate::http::{self, Query, Request, Response};
use crate::jobs::Jobs;
use crate::jobs::models::refresh;
use crate::proxy::Proxy;
use crate::time::iso;

use super::auth::Caller;
use super::headers;
use super::reply::ErrorShape;

/// The maximum number of entries on a page of the messages shape, which is the only one with pages.
const MAX_PAGE: usize = 1000;
/// The creation time given for every model, in Unix seconds: nobody tells the real one, and clients compare lists.
const CREATED: i64 = 1_767_225_600;
/// The header that only Google's SDKs send. They use the same paths as other clients.
const GOOGLE_SDK: &str = "x-goog-api-client";

/// Serves `GET /v1/models`.
pub(super) async fn list(proxy: Arc<Proxy>, request: Request, caller: Caller) -> Response {
    if request.headers.contains_key(GOOGLE_SDK) {
        return gemini_list(proxy, request, caller).await;
    }
    let shape = ErrorShape::of(&request.headers, None, request.id);
    let models = available(&proxy.jobs, &caller).await;
    if shape.dialect != Dialect::Messages {
        let data: Vec<Value> = models.iter().map(|model| openai_entry(model)).collect();
        return http::json(StatusCode::OK, &json!({ "object": "list", "data": data }));
    }
    let (page, has_more) = match page(&models, &request.query) {
        Ok(page) => page,
        Err(message) => return shape.refuse(400, &message, None, None),
    };
    let data: Vec<Value> = page.iter().map(|model| messages_entry(model)).collect();
    let mut response = http::json(
        StatusCode::OK,
        &json!({ "data": data, "first_id": page.first(), "last_id": page.last(), "has_more": has_more }),
    );
    headers::request_id(shape.dialect, shape.id, response.headers_mut());
    response
}

/// Answers Gemini's list: always our own models, whichever upstream serves them.
pub(super) async fn gemini_list(proxy: Arc<Proxy>, _: Request, caller: Caller) -> Response {
    let models: Vec<Value> =
        available(&proxy.jobs, &caller).await.iter().map(|model| gemini_entry(model)).collect();
    http::json(StatusCode::OK, &json!({ "models": models }))
}

/// Serves `GET /v1/models/{id}`.
pub(super) async fn get(proxy: Arc<Proxy>, request: Request, caller: Caller) -> Response {
    let is_google = request.headers.contains_key(GOOGLE_SDK);
    let shape = ErrorShape::of(&request.headers, is_google.then_some(Dialect::Gemini), request.id);
    one(&proxy.jobs, &request, &caller, shape).await
}

/// Answers one model in Gemini's shape.
pub(super) async fn gemini_get(proxy: Arc<Proxy>, request: Request, caller: Caller) -> Response {
    let shape = ErrorShape::new(Dialect::Gemini, request.id);
    one(&proxy.jobs, &request, &caller, shape).await
}

async fn one(jobs: &Arc<Jobs>, request: &Request, caller: &Caller, shape: ErrorShape) -> Response {
    let model = request.params.get("model").to_owned();
    if !available(jobs, caller).await.contains(&model) {
        return shape.refuse(
            404,
            &format!("The model `{model}` does not exist or this key may not use it"),
            Some("model_not_found"),
            Some("model"),
        );
    }
    let entry = match shape.dialect {
        Dialect::Messages => messages_entry(&model),
        Dialect::Gemini => gemini_entry(&model),
        _ => openai_entry(&model),
    };
    let mut response = http::json(StatusCode::OK, &entry);
    headers::request_id(shape.dialect, shape.id, response.headers_mut());
    response
}

/// Returns the models this caller may use. Where there are none, the sites are asked first: bounded and shared.
async fn available(jobs: &Arc<Jobs>, caller: &Caller) -> Vec<String> {
    let exposed = || jobs.core.snapshot.load().exposed_models(caller.policy());
    let models = exposed();
    if !models.is_empty() {
        return models;
    }
    refresh::refresh_for_unknown_model(jobs).await;
    exposed()
}

fn openai_entry(model: &str) -> Value {
    json!({ "id": model, "object": "model", "created": CREATED, "owned_by": "switchyard" })
}

fn gemini_entry(model: &str) -> Value {
    json!({ "name": format!("models/{model}"), "displayName": model,
        "supportedGenerationMethods": ["generateContent", "streamGenerateContent", "countTokens"] })
}

fn messages_entry(model: &str) -> Value {
    json!({ "type": "model", "id": model, "display_name": model, "created_at": iso(CREATED * 1000),
        "lifecycle": "active" })
}

/// Reads `limit`, `after_id` and `before_id` as in the messages API; without a limit the page is the whole list.
fn page<'a>(models: &'a [String], query: &Query) -> Result<(&'a [String], bool), String> {
    let limit = match query.get("limit") {
        None => models.len().max(1),
        Some(text) => match text.parse::<usize>() {
            Ok(limit) if (1..=MAX_PAGE).contains(&limit) => limit,
            _ => return Err(format!("Invalid limit. Expected integer from 1 to {MAX_PAGE}.")),
        },
    };
    let position = |id: &str| models.iter().position(|model| model == id);
    let cursor = |name: &str| query.get(name).filter(|id| !id.is_empty());
    if let Some(before) = cursor("before_id") {
        let end = position(&before).unwrap_or(models.len());
        let start = end.saturating_sub(limit);
        return Ok((&models[start..end], start > 0));
    }
    let start = cursor("after_id").map_or(0, |after| position(&after).map_or(models.len(), |at| at + 1));
    let end = models.len().min(start + limit);
    Ok((&models[start..end], end < models.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_walk_in_both_directions() {
        let models: Vec<String> = ["a", "b", "c", "d"].map(str::to_owned).to_vec();
        for (query, expected, more) in [
            ("", "abcd", false),
            ("limit=2", "ab", true),
            ("limit=2&after_id=b", "cd", false),
            ("limit=1&before_id=c", "b", true),
            ("limit=9&before_id=c", "ab", false),
            ("after_id=unknown", "", false),
        ] {
            let (page, has_more) = page(&models, &Query::new(query)).unwrap();
            assert_eq!((page.concat().as_str(), has_more), (expected, more), "{query}");
        }
        assert!(page(&models, &Query::new("limit=0")).is_err());
    }
}
