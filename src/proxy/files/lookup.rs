//! Looks up the file that a request names, if it is the caller's.

use crate::http::Request;
use crate::proxy::auth::Caller;
use crate::proxy::reply::ErrorShape;
use crate::store::Store;
use crate::store::files::{self, FileRow};
use crate::store::owner::Owner;

use super::refusal::FileRefusal;

pub(super) fn shape(request: &Request) -> ErrorShape {
    ErrorShape::of(&request.headers, None, request.id)
}

pub(super) fn owner(caller: &Caller) -> Owner {
    Owner::of_key(caller.key_id())
}

/// Finds the file that the path names, if it is the caller's.
pub(super) async fn find(store: &Store, request: &Request, caller: &Caller) -> Result<FileRow, FileRefusal> {
    let id = request.params.get("id");
    files::find(store, &owner(caller), id).await?.ok_or_else(|| FileRefusal::unknown_file(id))
}
