//! Looks up the video that a request names, if it is the caller's, and builds the refusals where it cannot be had.

use crate::http::{Request, Response};
use crate::proxy::auth::Caller;
use crate::proxy::failure::Failure;
use crate::proxy::reply::ErrorShape;
use crate::store::Store;
use crate::store::owner::Owner;
use crate::store::videos::{self, VideoRow};

use crate::proxy::resource_upstream::Unreachable;

/// The prefix of every public id.
pub(super) const PREFIX: &str = "vid_";

/// Finds the video that the path names, if it is the caller's.
pub(super) async fn find(
    store: &Store,
    request: &Request,
    caller: &Caller,
    shape: ErrorShape,
) -> Result<VideoRow, Response> {
    let id = request.params.get("id");
    if !id.starts_with(PREFIX) {
        return Err(shape.no_such("video", id));
    }
    let owner = Owner::of_key(caller.key_id());
    let found = videos::find(store, &owner, id).await;
    found.map_err(|error| shape.database_failed("Videos", &error))?.ok_or_else(|| shape.no_such("video", id))
}

pub(super) fn shape(request: &Request) -> ErrorShape {
    ErrorShape::of(&request.headers, None, request.id)
}

pub(super) fn refused(shape: ErrorShape, unreachable: &Unreachable) -> Response {
    match unreachable {
        Unreachable::Gone(why) => shape.refuse(410, why, Some("video_unreachable"), Some("video_id")),
        Unreachable::Misconfigured(why) => Failure::local(why.clone()).into_response(shape),
        Unreachable::Store(error) => shape.database_failed("Videos", error),
    }
}
