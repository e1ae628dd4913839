//! How files are shown: as OpenAI has them, and to clients of Anthropic as Anthropic does.
//!
//! <https://platform.openai.com/docs/api-reference/files>, <https://docs.anthropic.com/en/api/files-list>

use serde_json::{Value, json};

use crate::core::Core;
use crate::dialect::Dialect;
use crate::proxy::reply::ErrorShape;
use crate::store::files::FileRow;
use crate::time;

const DAY_SECS: i64 = 86_400;

/// Whether the client reads files as Anthropic has them.
pub(super) fn is_anthropic(shape: ErrorShape) -> bool {
    shape.errors() == Dialect::Messages
}

/// One file, without its content.
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

/// A page of a list.
pub(super) fn list(core: &Core, shape: ErrorShape, files: &[FileRow], has_more: bool) -> Value {
    let mut list = json!({
        "data": files.iter().map(|row| file(core, shape, row)).collect::<Vec<_>>(),
        "first_id": files.first().map(|file| &file.public_id),
        "last_id": files.last().map(|file| &file.public_id),
        "has_more": has_more,
    });
    if !is_anthropic(shape) {
        list["object"] = json!("list");
    }
    list
}

/// A file that is there no more.
pub(super) fn deleted(shape: ErrorShape, id: &str) -> Value {
    if is_anthropic(shape) {
        return json!({ "id": id, "type": "file_deleted" });
    }
    json!({ "id": id, "object": "file", "deleted": true })
}
