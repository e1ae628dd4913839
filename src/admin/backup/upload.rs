//! Receives an uploaded document: it is written to disk as it arrives, because it may be larger than the memory.

use std::fs::File;
use std::io::{Read, Seek, Write};

use bytes::{Bytes, BytesMut};
use hyper::StatusCode;
use hyper::header::CONTENT_TYPE;
use tokio::sync::mpsc;
use tokio::task::yield_now;

use crate::admin::errors::{AdminError, Result};
use crate::backup::{self, sealed};
use crate::core::Core;
use crate::http::{BodyError, Request};
use crate::idle_thread::{run_on_idle_thread, yield_thread};

/// Maximum length of a document, in bytes.
const MAX_DOCUMENT: usize = 1 << 30;
/// The number of bytes gathered before they are handed to the writer.
const BYTES_AT_ONCE: usize = 64 << 10;
/// The number of gathered pieces that may wait for the writer.
const AHEAD: usize = 2;

/// An uploaded file.
pub struct Upload {
    /// The file, without a name and positioned at its beginning.
    pub file: File,
    pub form: Form,
}

/// The form of an uploaded file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// A document in the member `data` of an object.
    Enclosed,
    /// A document by itself, sealed or not.
    Document,
    /// A file of another program: a database, or text.
    Foreign,
}

/// Writes the body of a request into a file. The writer has the lowest priority, and slows the sender down when others
/// need the processor: a client on the same machine always has more data ready.
pub async fn spool(core: &Core, request: &mut Request) -> Result<Upload> {
    let failed = |error: std::io::Error| AdminError::from(backup::ImportError::from(error));
    request.bound_pieces(MAX_DOCUMENT);
    let is_binary = is_binary(request);
    let (pieces, mut came) = mpsc::channel::<Bytes>(AHEAD);
    let dir = core.config.data_dir.clone();
    let written = run_on_idle_thread(move || {
        let mut file = backup::scratch_file(&dir)?;
        while let Some(piece) = came.blocking_recv() {
            file.write_all(&piece)?;
            yield_thread();
        }
        file.rewind()?;
        let mut beginning = Vec::new();
        Read::take(&mut file, 64).read_to_end(&mut beginning)?;
        file.rewind()?;
        Ok::<_, std::io::Error>((file, beginning))
    });
    let (received, written) = tokio::join!(receive(request, is_binary, pieces), written);
    received?;
    let (file, beginning) = written?.map_err(failed)?;
    let form = match (sealed::is_sealed(&beginning), is_binary) {
        (true, _) => Form::Document,
        (false, true) => Form::Foreign,
        (false, false) => Form::Enclosed,
    };
    Ok(Upload { file, form })
}

/// Passes the body on until it ends or the writer stops taking it.
async fn receive(request: &mut Request, is_binary: bool, pieces: mpsc::Sender<Bytes>) -> Result<()> {
    let (mut gathered, mut length) = (BytesMut::new(), 0);
    while let Some(piece) = request.piece().await? {
        if length == 0 && !is_binary {
            request.expect_json()?;
        }
        length += piece.len();
        if length > MAX_DOCUMENT {
            return Err(BodyError::TooLarge { limit: MAX_DOCUMENT }.into());
        }
        gathered.extend_from_slice(&piece);
        // A client on the same machine always has more, and other connections of this worker wait.
        yield_now().await;
        if gathered.len() >= BYTES_AT_ONCE && pieces.send(gathered.split().freeze()).await.is_err() {
            return Ok(());
        }
    }
    // If the writer is gone, its own error says why.
    let _ = pieces.send(gathered.freeze()).await;
    Ok(())
}

fn is_binary(request: &Request) -> bool {
    let kind = request.headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    kind.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/octet-stream"))
}

impl From<backup::ImportError> for AdminError {
    fn from(error: backup::ImportError) -> Self {
        match error {
            backup::ImportError::Refused(why) => Self::bad_request(why),
            backup::ImportError::Store(error) => error.into(),
            backup::ImportError::ThreadSpawnError(error) => error.into(),
            backup::ImportError::Io(error) => {
                Self::internal("a backup could not be written to or read from the disk", error)
                    .flag("statusCode", StatusCode::INTERNAL_SERVER_ERROR.as_u16())
            }
        }
    }
}
