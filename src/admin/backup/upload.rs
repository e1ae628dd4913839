//! A document on its way in: onto the disk as it comes, because it may be larger than what there is of memory.

use std::fs::File;
use std::io::{Seek, Write};

use bytes::BytesMut;
use hyper::StatusCode;
use tokio::task::block_in_place;

use crate::admin::errors::{AdminError, Result};
use crate::backup;
use crate::core::Core;
use crate::http::{BodyError, Request};

/// The longest document.
pub const MAX_DOCUMENT: usize = 1 << 30;
/// What is gathered before the disk is asked to take it.
const AT_ONCE: usize = 1 << 20;

/// The body of a request in a file without a name, which is at its beginning.
pub async fn spool(core: &Core, request: &mut Request) -> Result<File> {
    let failed = |error: std::io::Error| AdminError::from(backup::ImportError::from(error));
    request.bound_pieces(MAX_DOCUMENT);
    let mut file = block_in_place(|| backup::scratch_file(&core.config.data_dir)).map_err(failed)?;
    let mut gathered = BytesMut::new();
    let mut length = 0;
    while let Some(piece) = request.piece().await? {
        if length == 0 {
            request.expect_json()?;
        }
        length += piece.len();
        if length > MAX_DOCUMENT {
            return Err(BodyError::TooLarge { limit: MAX_DOCUMENT }.into());
        }
        gathered.extend_from_slice(&piece);
        if gathered.len() >= AT_ONCE {
            block_in_place(|| file.write_all(&gathered)).map_err(failed)?;
            gathered.clear();
        }
    }
    block_in_place(|| file.write_all(&gathered).and_then(|()| file.rewind())).map_err(failed)?;
    Ok(file)
}

impl From<backup::ImportError> for AdminError {
    fn from(error: backup::ImportError) -> Self {
        match error {
            backup::ImportError::Refused(why) => Self::bad_request(why),
            backup::ImportError::Store(error) => error.into(),
            backup::ImportError::Io(error) => Self::internal("a backup failed on the disk", error)
                .flag("statusCode", StatusCode::INTERNAL_SERVER_ERROR.as_u16()),
        }
    }
}
