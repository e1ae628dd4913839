//! `/v1/files`: what clients upload once and refer to later.
//!
//! ```text
//! POST  ─ multipart, part by part ─ chunk by chunk into the store     upload
//! GET   ─ list, one                                                   here
//! GET   ─ content, chunk by chunk out of the store                    content
//! DELETE ─ hidden at once                                             here
//! ```
//!
//! What a model call names of them is put into its body before anybody is asked: [`resolve()`].
//!
//! Every look-up is by owner: a file of one key does not exist for another. Which media types are taken
//! is in [`mime`].

mod content;
mod mime;
mod resolve;
mod upload;

use std::sync::Arc;

use hyper::StatusCode;
use hyper::header::{HeaderValue, RETRY_AFTER};
use serde_json::{Value, json};

use crate::core::Core;
use crate::http::{self, BodyError, Query, Request, Response};
use crate::proxy::Proxy;
use crate::store::Store;
use crate::store::files::{self, FileRow, Page};
use crate::store::owner::Owner;
use crate::store::{self};
use crate::time::now_ms;

use super::auth::Caller;
use super::reply::Face;

pub(super) use content::content;
pub(super) use resolve::resolve;
pub(super) use upload::upload;

/// The most files of one page, and how many a page has when no limit is asked for.
const MAX_PAGE: i64 = 10_000;
const DAY_SECS: i64 = 86_400;

/// `GET /v1/files`
pub(super) async fn list(proxy: Arc<Proxy>, request: Request, caller: Caller) -> Response {
    let face = face(&request);
    match page(&proxy.core, &request.query, &owner(&caller)).await {
        Ok(page) => http::json(StatusCode::OK, &page),
        Err(refusal) => refusal.answer(face),
    }
}

/// `GET /v1/files/{id}`
pub(super) async fn get(proxy: Arc<Proxy>, request: Request, caller: Caller) -> Response {
    match find(&proxy.core.store, &request, &caller).await {
        Ok(file) => http::json(StatusCode::OK, &view(&proxy.core, &file)),
        Err(refusal) => refusal.answer(face(&request)),
    }
}

/// `DELETE /v1/files/{id}`
pub(super) async fn delete(proxy: Arc<Proxy>, request: Request, caller: Caller) -> Response {
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

/// Why a call is not answered as asked.
#[derive(Debug)]
struct FileRefusal {
    status: u16,
    message: String,
    code: Option<&'static str>,
    param: Option<&'static str>,
    /// After how many seconds it is worth another try, where that is known.
    retry_after_secs: Option<u32>,
}

impl FileRefusal {
    fn new(status: u16, message: impl Into<String>) -> Self {
        Self { status, message: message.into(), code: None, param: None, retry_after_secs: None }
    }

    fn bad(param: &'static str, message: impl Into<String>) -> Self {
        Self { param: Some(param), ..Self::new(400, message) }
    }

    fn unknown_file(id: &str) -> Self {
        let shown: String = id.chars().take(100).collect();
        Self { param: Some("file_id"), ..Self::new(404, format!("No such file: {shown}")) }
    }

    fn answer(self, face: Face) -> Response {
        let mut response = face.refuse(self.status, &self.message, self.code, self.param);
        if let Some(seconds) = self.retry_after_secs {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

impl From<BodyError> for FileRefusal {
    fn from(error: BodyError) -> Self {
        let refusal = Self::new(error.status().as_u16(), error.to_string());
        Self { retry_after_secs: error.retry_after_secs(), ..refusal }
    }
}

impl From<store::Error> for FileRefusal {
    fn from(error: store::Error) -> Self {
        log::error!("a request for a file failed in the store: {error}");
        if let store::Error::Full(_) = error {
            return Self { code: Some("insufficient_storage"), ..Self::new(507, store::FULL) };
        }
        Self::new(503, "Files cannot be stored or read at the moment")
    }
}

fn face(request: &Request) -> Face {
    Face::of(&request.headers, None, request.id)
}

fn owner(caller: &Caller) -> Owner {
    Owner::of_key(caller.key_id())
}

/// The file that the path names, if it is the caller's.
async fn find(store: &Store, request: &Request, caller: &Caller) -> Result<FileRow, FileRefusal> {
    let id = request.params.get("id");
    files::find(store, &owner(caller), id).await?.ok_or_else(|| FileRefusal::unknown_file(id))
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

fn view(core: &Core, file: &FileRow) -> Value {
    let created = file.created_at.div_euclid(1000);
    let mut view = json!({
        "id": file.public_id,
        "object": "file",
        "bytes": file.byte_size,
        "created_at": created,
        "filename": file.filename,
        "purpose": file.purpose,
        "mime_type": file.mime_type,
        "status": "processed",
    });
    let days = i64::from(core.config.files.retention_days);
    if days > 0 {
        view["expires_at"] = json!(created + days * DAY_SECS);
    }
    view
}
