//! `/v1/videos`: creating videos, and what follows until they are downloaded or deleted.
//!
//! ```text
//! POST    the pipeline, as any call ─ the upstream's id ─ stored under a public id ─ answered    object, mapping
//! GET     public id ─ its account and address ─ the upstream ─ answered under the public id      object, upstream
//! GET     …/content, streamed                                                                    content
//! DELETE  upstream first, then the mapping                                                       object
//! ```
//!
//! Every look-up is by owner: a video of one key does not exist for another. Requests for an existing video
//! are not routed, counted or logged, but they take a slot at a site with `maxConcurrency`. `lookup` finds it.

mod content;
mod lookup;
mod mapping;
mod object;
mod upstream;

pub(super) use content::content;
pub(super) use mapping::{CreatedVideo, store_mapping};
pub(super) use object::{SURFACE, create, delete, get};
