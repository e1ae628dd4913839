//! Looks up the video that a request names, if it is the caller's, and builds the refusals where it cannot be had.

use crate::http::{Request, Response};
use crate::proxy::auth::Caller;
use crate::proxy::failure::Failure;
use crate::proxy::reply::ErrorShape;
use crate::store::owner::Owner;
use crate::store::videos::{self, VideoRow};
use crate::store::{self, Store};

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
        return Err(unknown(shape, id));
    }
    let owner = Owner::of_key(caller.key_id());
    let found = videos::find(store, &owner, id).await;
    found.map_err(|error| unreadable(shape, &error))?.ok_or_else(|| unknown(shape, id))
}

pub(super) fn shape(request: &Request) -> ErrorShape {
    ErrorShape::of(&request.headers, None, request.id)
}

pub(super) fn unknown(shape: ErrorShape, id: &str) -> Response {
    let shown: String = id.chars().take(100).collect();
    shape.refuse(404, &format!("No such video: {shown}"), None, Some("video_id"))
}

pub(super) fn unreadable(shape: ErrorShape, error: &store::Error) -> Response {
    log::error!("a request for a video failed in the database: {error}");
    shape.refuse(503, "Videos cannot be looked up at the moment", None, None)
}

pub(super) fn refused(shape: ErrorShape, unreachable: &Unreachable) -> Response {
    match unreachable {
        Unreachable::Gone(why) => shape.refuse(410, why, Some("video_unreachable"), Some("video_id")),
        Unreachable::Misconfigured(why) => Failure::local(why.clone()).into_response(shape),
        Unreachable::Store(error) => unreadable(shape, error),
    }
}
