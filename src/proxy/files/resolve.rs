//! Puts stored files that a model call names into its body.

use std::collections::HashMap;
use std::io::Write;

use base64::engine::general_purpose::STANDARD;
use base64::write::EncoderStringWriter;
use bytes::Bytes;

use crate::dialect::Dialect;
use crate::dialect::envelope;
use crate::dialect::stored_files::{self, Content, StoredFile, StoredFiles, UnacceptedType};
use crate::dialect::text_files;
use crate::dialect::tree::Node;
use crate::http::{BodyError, Response};
use crate::limits::FREE_BODY;
use crate::proxy::Proxy;
use crate::proxy::call::Call;
use crate::store::Store;
use crate::store::files::{self, FileRow};
use crate::store::owner::Owner;

use super::mime;
use super::refusal::FileRefusal;

/// The maximum bytes of files in one request, counting each as often as it is named. Upstreams take no
/// more, and it bounds how much memory a few hundred bytes can occupy.
const MAX_INLINED: i64 = 32 << 20;

/// Puts the files that a call names into its body, and moves files that it carries into blocks of their kind. A file
/// that the caller does not have is a 404.
pub(in crate::proxy) async fn resolve(proxy: &Proxy, call: &mut Call) -> Result<(), Response> {
    let shape = call.shape;
    if call.envelope.marks.file_data && matches!(shape.dialect, Dialect::Chat | Dialect::Responses) {
        let body = proxy.conversions.read_through(call.body.len(), || in_media_blocks(call)).await;
        replace(proxy, call, body.map_err(|refusal| refusal.answer(shape))?).await?;
    }
    if stored_files::may_occur(shape.dialect, call.envelope.marks) {
        let body = inlined(proxy, call).await.map_err(|refusal| refusal.answer(shape))?;
        replace(proxy, call, body).await?;
    }
    Ok(())
}

async fn replace(proxy: &Proxy, call: &mut Call, body: Option<Bytes>) -> Result<(), Response> {
    let (Some(body), shape) = (body, call.shape) else { return Ok(()) };
    // The envelope holds positions in the body, which have moved.
    let skim = || envelope::skim(shape.dialect, &body);
    let envelope = proxy.conversions.read_through(body.len(), skim).await;
    call.envelope = envelope.map_err(|error| shape.refuse(400, &error.message, None, error.field))?;
    call.body = body;
    if let Some(memory) = &mut call.memory {
        memory.shrink_to(call.body.len());
    }
    Ok(())
}

/// Returns the body with the images and audio that it carries as files in blocks of their own; `None` where none change.
fn in_media_blocks(call: &Call) -> Result<Option<Bytes>, FileRefusal> {
    let text = std::str::from_utf8(&call.body).unwrap_or_default();
    let Ok(body) = Node::parse(text) else { return Ok(None) };
    let body = stored_files::with_media_blocks(call.shape.dialect, &body, mime::inline_type);
    body.map(|body| body.map(Bytes::from)).map_err(|UnacceptedType(said)| {
        let said: String = said.chars().take(100).collect();
        let what = if said.is_empty() { "of unknown type".to_owned() } else { format!("of type {said}") };
        let message = format!("Unsupported file {what}: send PDF, JSON, text, Markdown, an image or audio");
        FileRefusal { code: Some("unsupported_file_type"), ..FileRefusal::bad("file_data", message) }
    })
}

/// Returns the body with its files; `None` when it names none.
async fn inlined(proxy: &Proxy, call: &mut Call) -> Result<Option<Bytes>, FileRefusal> {
    let wanted = || {
        let text = std::str::from_utf8(&call.body).unwrap_or_default();
        Node::parse(text).ok().and_then(|body| stored_files::wanted(&body))
    };
    let Some(wanted) = proxy.conversions.read_through(call.body.len(), wanted).await else { return Ok(None) };
    let rows = rows(&proxy.core.store, &Owner::of_key(call.key_id), wanted).await?;
    let is_recording = |row: &FileRow| row.mime_type.starts_with("audio/");
    call.has_recording = call.shape.dialect == Dialect::Messages && rows.values().any(is_recording);
    let bytes: i64 = rows.values().map(|row| row.byte_size).sum();
    // Each file is held as base64, and again in the body.
    let needed = call.body.len() + 2 * usize::try_from(bytes).unwrap_or(0).div_ceil(3) * 4;
    hold(proxy, call, needed).await?;
    let mut stored = StoredFiles::new();
    for (id, row) in rows {
        let content = read(&proxy.core.store, call, &row).await?;
        stored.insert(id, StoredFile { filename: row.filename, mime_type: row.mime_type, content });
    }
    // Text may have escapes in the body.
    let needed = call.body.len() + stored.values().map(|file| file.content.held_len()).sum::<usize>();
    hold(proxy, call, needed).await?;
    let inlined = || {
        let body = Node::parse(std::str::from_utf8(&call.body).unwrap_or_default()).ok()?;
        Some(Bytes::from(stored_files::inlined(call.shape.dialect, &body, &stored)))
    };
    Ok(proxy.conversions.read_through(needed, inlined).await)
}

/// Takes memory for so many bytes in all, if the call does not hold it already.
async fn hold(proxy: &Proxy, call: &mut Call, needed: usize) -> Result<(), FileRefusal> {
    if needed > FREE_BODY {
        let owner = call.caller.body_owner();
        let memory = call.memory.get_or_insert_with(|| proxy.core.body_memory.body(owner));
        memory.grow_to(needed).await.map_err(BodyError::from)?;
    }
    Ok(())
}

/// Looks up the files in the store, each once.
async fn rows(
    store: &Store,
    owner: &Owner,
    wanted: Vec<String>,
) -> Result<HashMap<String, FileRow>, FileRefusal> {
    let mut rows: HashMap<String, FileRow> = HashMap::new();
    let mut total = 0;
    for id in wanted {
        if !rows.contains_key(&id) {
            let row = files::find(store, owner, &id).await?;
            rows.insert(id.clone(), row.ok_or_else(|| FileRefusal::unknown_file(&id))?);
        }
        total += rows.get(&id).map_or(0, |row| row.byte_size);
        if total > MAX_INLINED {
            let message = format!("The files of this request are together larger than {MAX_INLINED} bytes");
            return Err(FileRefusal { param: Some("file_id"), ..FileRefusal::new(413, message) });
        }
    }
    Ok(rows)
}

/// Reads the bytes of a file, chunk by chunk, in the form in which its block carries them.
async fn read(store: &Store, call: &Call, row: &FileRow) -> Result<Content, FileRefusal> {
    let as_text = stored_files::is_carried_as_text(call.shape.dialect, &row.mime_type);
    let size = usize::try_from(row.byte_size).unwrap_or_default();
    let mut text = Vec::with_capacity(if as_text { size } else { 0 });
    let capacity = if as_text { 0 } else { size.div_ceil(3) * 4 };
    let mut base64 = EncoderStringWriter::from_consumer(String::with_capacity(capacity), &STANDARD);
    let upload = row.upload.as_deref().unwrap_or_default();
    let (mut position, mut left) = (0, size);
    while left > 0 {
        let chunk = files::chunk(store, upload, position).await?;
        // It was deleted meanwhile.
        let chunk = chunk.ok_or_else(|| FileRefusal::unknown_file(&row.public_id))?;
        left = left.saturating_sub(chunk.len().max(1));
        position += 1;
        if as_text {
            text.extend_from_slice(&chunk);
        } else {
            // Writing to memory does not fail.
            base64.write_all(&chunk).map_err(|error| FileRefusal::new(503, error.to_string()))?;
        }
    }
    if !as_text {
        return Ok(Content::Base64(base64.into_inner()));
    }
    let text = text_files::decoded(text).ok_or_else(|| {
        let message =
            format!("{} is neither UTF-8 nor UTF-16 text: convert it and upload it again", row.filename);
        FileRefusal { code: Some("unsupported_file_encoding"), ..FileRefusal::bad("file_id", message) }
    })?;
    Ok(Content::Text(text))
}
