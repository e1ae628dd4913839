//! The JSON form of files: OpenAI's, and for clients of Anthropic Anthropic's.
//!
//! <https://platform.openai.com/docs/api-reference/files>, <https://docs.anthropic.com/en/api/files-list>

use serde_json::{Value, json};

use crate::core::Core;
use crate::dialect::Dialect;
use crate::proxy::reply::ErrorShape;
use crate::store::files::FileRow;
use crate::time;

pub(super) const DAY_SECS: i64 = 86_400;

/// Whether the client reads files in Anthropic's form.
pub(super) fn is_anthropic(shape: ErrorShape) -> bool {
    shape.errors() == Dialect::Messages
}

/// Builds one file object, without its content.
pub(super) fn file(core: &Core, shape: ErrorShape, file: &FileRow) -> Value {
    if is_anthropic(shape) {
        return json!({
            "id": file.public_id,
            "type": "file",
            "filename": file.filename,
            "mime_type": file.mime_type,
            "size_bytes": file.byte_size,
            "created_at": time::iso(file.created_at),
            "downloadable": true,
        });
    }
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

/// Builds a page of a list.
pub(super) fn list(core: &Core, shape: ErrorShape, files: &[FileRow], has_more: bool) -> Value {
    let mut list = json!({
        "data": files.iter().map(|row| file(core, shape, row)).collect::<Vec<_>>(),
        "first_id": files.first().map(|file| &file.public_id),
        "last_id": files.last().map(|file| &file.public_id),
        "has_more": has_more,
    });
    if is_anthropic(shape) {
        list["next_page"] = if has_more { list["last_id"].clone() } else { Value::Null };
    } else {
        list["object"] = json!("list");
    }
    list
}

/// Builds the answer for a deleted file.
pub(super) fn deleted(shape: ErrorShape, id: &str) -> Value {
    if is_anthropic(shape) {
        return json!({ "id": id, "type": "file_deleted" });
    }
    json!({ "id": id, "object": "file", "deleted": true })
}
