//! The files that are there: listed, shown, deleted.

use std::sync::Arc;

use hyper::StatusCode;
use serde_json::{Value, json};

use crate::core::Core;
use crate::http::{self, Query, Request, Response};
use crate::proxy::Proxy;
use crate::proxy::auth::Caller;
use crate::store;
use crate::store::files::{self, Page};
use crate::store::owner::Owner;
use crate::time::now_ms;

use super::lookup::{face, find, owner, view};
use super::refusal::FileRefusal;

/// The most files of one page, and how many a page has when no limit is asked for.
const MAX_PAGE: i64 = 10_000;

/// `GET /v1/files`
pub(in crate::proxy) async fn list(proxy: Arc<Proxy>, request: Request, caller: Caller) -> Response {
    let face = face(&request);
    match page(&proxy.core, &request.query, &owner(&caller)).await {
        Ok(page) => http::json(StatusCode::OK, &page),
        Err(refusal) => refusal.answer(face),
    }
}

/// `GET /v1/files/{id}`
pub(in crate::proxy) async fn get(proxy: Arc<Proxy>, request: Request, caller: Caller) -> Response {
    match find(&proxy.core.store, &request, &caller).await {
        Ok(file) => http::json(StatusCode::OK, &view(&proxy.core, &file)),
        Err(refusal) => refusal.answer(face(&request)),
    }
}

/// `DELETE /v1/files/{id}`
pub(in crate::proxy) async fn delete(proxy: Arc<Proxy>, request: Request, caller: Caller) -> Response {
    let deleted = async {
        let file = find(&proxy.core.store, &request, &caller).await?;
        files::delete(&proxy.core.store, &file, now_ms()).await.map_err(|error| match error {
            // Somebody else was faster.
            store::Error::NotFound => FileRefusal::unknown_file(&file.public_id),
            error => error.into(),
        })?;
        Ok(json!({ "id": file.public_id, "object": "file", "deleted": true }))
    };
    match deleted.await {
        Ok(answer) => http::json(StatusCode::OK, &answer),
        Err(refusal) => FileRefusal::answer(refusal, face(&request)),
    }
}

async fn page(core: &Core, query: &Query, owner: &Owner) -> Result<Value, FileRefusal> {
    let limit = match query.get("limit") {
        None => MAX_PAGE,
        Some(text) => match text.parse() {
            Ok(limit @ 1..=MAX_PAGE) => limit,
            _ => {
                return Err(FileRefusal::bad(
                    "limit",
                    format!("limit must be a number from 1 to {MAX_PAGE}"),
                ));
            }
        },
    };
    let newest_first = match query.get("order").as_deref() {
        None | Some("desc") => true,
        Some("asc") => false,
        Some(_) => return Err(FileRefusal::bad("order", "order must be asc or desc")),
    };
    let after = match query.get("after") {
        None => None,
        Some(id) => match files::find(&core.store, owner, &id).await? {
            Some(file) => Some(file.id),
            None => return Err(FileRefusal::bad("after", "after names no file that is there")),
        },
    };
    let purpose = query.get("purpose");
    let page = Page { purpose: purpose.as_deref(), after, newest_first, limit: limit + 1 };
    let mut rows = files::list(&core.store, owner, &page).await?;
    let has_more = rows.len() > limit as usize;
    rows.truncate(limit as usize);
    let data: Vec<Value> = rows.iter().map(|file| view(core, file)).collect();
    Ok(json!({
        "object": "list",
        "data": data,
        "first_id": rows.first().map(|file| &file.public_id),
        "last_id": rows.last().map(|file| &file.public_id),
        "has_more": has_more,
    }))
}
