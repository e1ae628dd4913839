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

/// Reads the caller's file with this id and purpose; `param` is the member that names it.
pub(in crate::proxy) async fn whole(
    core: &Core,
    caller: &Caller,
    (id, purpose): (&str, &str),
    (param, most): (&'static str, usize),
    shape: ErrorShape,
) -> Result<WholeFile, Response> {
    read(core, caller, (id, purpose), (param, most)).await.map_err(|refusal| refusal.answer(shape))
}

async fn read(
    core: &Core,
    caller: &Caller,
    (id, purpose): (&str, &str),
    (param, most): (&'static str, usize),
) -> Result<WholeFile, FileRefusal> {
    let unknown = || FileRefusal { param: Some(param), ..FileRefusal::unknown_file(id) };
    let file = files::find(&core.store, &owner(caller), id).await?.ok_or_else(unknown)?;
    if file.purpose.as_deref() != Some(purpose) {
        let message = format!("The purpose of the file must be {purpose}: upload it with purpose={purpose}");
        return Err(FileRefusal::bad(param, message));
    }
    let size = usize::try_from(file.byte_size).unwrap_or(usize::MAX);
    if size > most {
        return Err(FileRefusal::bad(param, format!("The file is larger than {most} bytes")));
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
