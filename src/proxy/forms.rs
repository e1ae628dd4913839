//! The surfaces whose requests come as forms, or as JSON: edits of images and videos.

use std::sync::Arc;

use crate::http::{Request, Response};
use crate::proxy::Proxy;

use super::auth::Caller;
use super::form_body::form_type;
use super::operation::CallKind;
use super::pipeline;

/// Pictures are larger than conversations: this much is taken where the limit for JSON is lower.
const MAX_FORM: usize = 64 << 20;
/// Serves one call of such a surface.
pub(super) async fn serve(
    proxy: Arc<Proxy>,
    kind: CallKind,
    mut request: Request,
    caller: Caller,
) -> Response {
    if form_type(&request.headers).is_some() {
        request.body_limit = request.body_limit.max(MAX_FORM);
    }
    pipeline::serve(proxy, kind, request, caller).await
}
