//! The file that a request names, if it is the caller's, and how a file is shown.

use serde_json::{Value, json};

use crate::core::Core;
use crate::http::Request;
use crate::proxy::auth::Caller;
use crate::proxy::reply::ErrorShape;
use crate::store::Store;
use crate::store::files::{self, FileRow};
use crate::store::owner::Owner;

use super::refusal::FileRefusal;

const DAY_SECS: i64 = 86_400;

pub(super) fn face(request: &Request) -> ErrorShape {
    ErrorShape::of(&request.headers, None, request.id)
}

pub(super) fn owner(caller: &Caller) -> Owner {
    Owner::of_key(caller.key_id())
}

/// The file that the path names, if it is the caller's.
pub(super) async fn find(store: &Store, request: &Request, caller: &Caller) -> Result<FileRow, FileRefusal> {
    let id = request.params.get("id");
    files::find(store, &owner(caller), id).await?.ok_or_else(|| FileRefusal::unknown_file(id))
}

pub(super) fn view(core: &Core, file: &FileRow) -> Value {
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
