//! The surfaces whose requests come as forms, or as JSON: images and videos to be edited, recordings to be
//! transcribed.

use std::sync::Arc;

use crate::http::{Request, Response};
use crate::proxy::Proxy;

use super::auth::Caller;
use super::form_body::form_type;
use super::operation::{CallKind, Operation};
use super::pipeline;

/// The minimum body limit for image forms, in bytes; images are larger than conversations.
const MIN_FORM_LIMIT: usize = 64 << 20;

/// Serves one call of such a surface. A recording may be as long as an uploaded file; how many such requests run at once
/// is bounded by the memory that all bodies share.
pub(super) async fn serve(
    proxy: Arc<Proxy>,
    kind: CallKind,
    mut request: Request,
    caller: Caller,
) -> Response {
    if form_type(&request.headers).is_some() {
        let longest = match kind.operation {
            Operation::Transcribe | Operation::TranslateSpeech => {
                usize::try_from(proxy.core.config.files.upload_limit).unwrap_or(usize::MAX)
            }
            _ => MIN_FORM_LIMIT,
        };
        request.body_limit = request.body_limit.max(longest);
    }
    pipeline::serve(proxy, kind, request, caller).await
}
