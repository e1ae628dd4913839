//! Reads a stored file whole: the requests of a batch.

use bytes::{Bytes, BytesMut};

use crate::core::Core;
use crate::http::{BodyError, Response};
use crate::limits::HeldMemory;
use crate::proxy::auth::Caller;
use crate::proxy::reply::ErrorShape;
use crate::store::files;

use super::lookup::owner;
use super::refusal::FileRefusal;

/// A file in memory, with its share of the memory for bodies: room for itself and for as much again.
pub(in crate::proxy) struct WholeFile {
    pub(in crate::proxy) content: Bytes,
    pub(in crate::proxy) memory: HeldMemory,
}

/// The file that a request names.
#[derive(Clone, Copy)]
pub(in crate::proxy) struct NamedFile<'r> {
    pub(in crate::proxy) id: &'r str,
    /// The purpose that the file must have been uploaded for.
    pub(in crate::proxy) purpose: &'r str,
    /// The member of the request that names the file.
    pub(in crate::proxy) param: &'static str,
    /// The maximum size, in bytes.
    pub(in crate::proxy) max_size: usize,
}

/// Reads a file of the caller.
pub(in crate::proxy) async fn whole(
    core: &Core,
    caller: &Caller,
    named: NamedFile<'_>,
    shape: ErrorShape,
) -> Result<WholeFile, Response> {
    read(core, caller, named).await.map_err(|refusal| refusal.answer(shape))
}

async fn read(core: &Core, caller: &Caller, named: NamedFile<'_>) -> Result<WholeFile, FileRefusal> {
    let NamedFile { id, purpose, param, max_size } = named;
    let unknown = || FileRefusal { param: Some(param), ..FileRefusal::unknown_file(id) };
    let file = files::find(&core.store, &owner(caller), id).await?.ok_or_else(unknown)?;
    if file.purpose.as_deref() != Some(purpose) {
        let message = format!("The purpose of the file must be {purpose}: upload it with purpose={purpose}");
        return Err(FileRefusal::bad(param, message));
    }
    let size = usize::try_from(file.byte_size).unwrap_or(usize::MAX);
    if size > max_size {
        return Err(FileRefusal::bad(param, format!("The file is larger than {max_size} bytes")));
    }
    let mut memory = core.body_memory.body(caller.body_owner());
    memory.grow_to(2 * size).await.map_err(BodyError::from)?;
    let upload = file.upload.as_deref().unwrap_or_default();
    let mut content = BytesMut::with_capacity(size);
    let mut position = 0;
    while content.len() < size {
        let chunk = files::chunk(&core.store, upload, position).await?;
        // It was deleted meanwhile.
        let chunk = chunk.filter(|chunk| !chunk.is_empty()).ok_or_else(unknown)?;
        content.extend_from_slice(&chunk);
        position += 1;
    }
    Ok(WholeFile { content: content.freeze(), memory })
}
