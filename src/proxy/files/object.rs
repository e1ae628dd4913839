//! The stored files: listed, shown, deleted.

use std::sync::Arc;

use hyper::StatusCode;
use serde_json::Value;

use crate::core::Core;
use crate::http::{self, Query, Request, Response};
use crate::proxy::Proxy;
use crate::proxy::auth::Caller;
use crate::proxy::reply::ErrorShape;
use crate::store;
use crate::store::files::{self, FileRow, Page};
use crate::store::owner::Owner;
use crate::time::now_ms;

use super::lookup::{find, owner, shape};
use super::refusal::FileRefusal;
use super::shown;

/// The maximum number of files on a page, which is also OpenAI's default.
const MAX_PAGE: i64 = 10_000;
const ANTHROPIC_MAX_PAGE: i64 = 1000;
const ANTHROPIC_PAGE: i64 = 20;
/// The maximum number of files that are listed by their ids.
const MAX_NAMED: usize = 100;

/// Serves `GET /v1/files`.
pub(in crate::proxy) async fn list(proxy: Arc<Proxy>, request: Request, caller: Caller) -> Response {
    let shape = shape(&request);
    match page(&proxy.core, shape, &request.query, &owner(&caller)).await {
        Ok(page) => http::json(StatusCode::OK, &page),
        Err(refusal) => refusal.answer(shape),
    }
}

/// Serves `GET /v1/files/{id}`.
pub(in crate::proxy) async fn get(proxy: Arc<Proxy>, request: Request, caller: Caller) -> Response {
    let shape = shape(&request);
    match find(&proxy.core.store, &request, &caller).await {
        Ok(file) => http::json(StatusCode::OK, &shown::file(&proxy.core, shape, &file)),
        Err(refusal) => refusal.answer(shape),
    }
}

/// Serves `DELETE /v1/files/{id}`.
pub(in crate::proxy) async fn delete(proxy: Arc<Proxy>, request: Request, caller: Caller) -> Response {
    let shape = shape(&request);
    let deleted = async {
        let file = find(&proxy.core.store, &request, &caller).await?;
        files::delete(&proxy.core.store, &file, now_ms()).await.map_err(|error| match error {
            // A concurrent request was faster.
            store::Error::NotFound => FileRefusal::unknown_file(&file.public_id),
            error => error.into(),
        })?;
        Ok(shown::deleted(shape, &file.public_id))
    };
    match deleted.await {
        Ok(answer) => http::json(StatusCode::OK, &answer),
        Err(refusal) => FileRefusal::answer(refusal, shape),
    }
}

async fn page(core: &Core, shape: ErrorShape, query: &Query, owner: &Owner) -> Result<Value, FileRefusal> {
    if shown::is_anthropic(shape) {
        let ids = named_ids(query)?;
        if !ids.is_empty() {
            return Ok(shown::list(core, shape, &named(core, owner, &ids).await?, false));
        }
    }
    let asked = PageQuery::read(shape, query)?;
    let place = match &asked.place {
        None => None,
        Some((param, id)) => match files::find(&core.store, owner, id).await? {
            Some(file) => Some(file.id),
            None => {
                return Err(FileRefusal::bad(param, format!("{param} is not the id of an existing file")));
            }
        },
    };
    let purpose = query.get("purpose");
    let limit = asked.limit;
    // Files before a place come after it in the opposite order.
    let newest_first = asked.newest_first != asked.is_backwards();
    let page = Page { purpose: purpose.as_deref(), after: place, newest_first, limit: limit + 1 };
    let mut rows = files::list(&core.store, owner, &page).await?;
    let has_more = rows.len() > limit as usize;
    rows.truncate(limit as usize);
    if asked.is_backwards() {
        rows.reverse();
    }
    Ok(shown::list(core, shape, &rows, has_more))
}

/// Returns the ids of the files that a client of Anthropic wants listed, if it names them.
fn named_ids(query: &Query) -> Result<Vec<String>, FileRefusal> {
    let ids = query.pairs().filter(|(name, _)| matches!(name.as_ref(), "ids" | "ids[]"));
    let ids: Vec<_> = ids.map(|(_, id)| id.into_owned()).collect();
    if ids.len() > MAX_NAMED {
        return Err(FileRefusal::bad("ids", format!("ids must name at most {MAX_NAMED} files")));
    }
    Ok(ids)
}

/// Returns the files with these ids; ids of no file are left out.
async fn named(core: &Core, owner: &Owner, ids: &[String]) -> Result<Vec<FileRow>, FileRefusal> {
    let mut rows = Vec::new();
    for id in ids {
        rows.extend(files::find(&core.store, owner, id).await?);
    }
    Ok(rows)
}

/// The page that a request asks for.
struct PageQuery {
    limit: i64,
    newest_first: bool,
    /// The parameter that names the file next to the page, and the file's id.
    place: Option<(&'static str, String)>,
}

const BEFORE: &str = "before_id";

impl PageQuery {
    fn read(shape: ErrorShape, query: &Query) -> Result<Self, FileRefusal> {
        let (default, max, places) = if shown::is_anthropic(shape) {
            (ANTHROPIC_PAGE, ANTHROPIC_MAX_PAGE, &["after_id", "page", BEFORE][..])
        } else {
            (MAX_PAGE, MAX_PAGE, &["after"][..])
        };
        let limit =
            query.limit(max).map_err(|message| FileRefusal::bad("limit", message))?.unwrap_or(default);
        let newest_first = match query.get("order").as_deref() {
            None | Some("desc") => true,
            Some("asc") => false,
            Some(_) => return Err(FileRefusal::bad("order", "order must be asc or desc")),
        };
        let place = places.iter().find_map(|param| Some((*param, query.get(param)?)));
        Ok(Self { limit, newest_first, place })
    }

    fn is_backwards(&self) -> bool {
        self.place.as_ref().is_some_and(|(param, _)| *param == BEFORE)
    }
}
