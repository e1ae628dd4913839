//! The batch object: read and cancelled at its upstream, shown with our ids.

use std::sync::Arc;

use bytes::Bytes;
use hyper::{HeaderMap, Method, StatusCode};

use crate::dialect::batch::BatchApi;
use crate::http::{self, Request, Response};
use crate::proxy::Proxy;
use crate::proxy::auth::Caller;
use crate::proxy::headers;
use crate::store::batches::BatchRow;

use super::booking::settle_in_background;
use super::lookup::{api, has_ended, of_path, shape};
use super::mapping;
use super::upstream::{BatchRequest, refresh};

/// What a client asks about a batch.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum BatchAction {
    Read,
    Cancel,
}

/// Answers about the batch that the path names, with its upstream's object.
pub(super) async fn answer(
    proxy: &Arc<Proxy>,
    request: &Request,
    caller: &Caller,
    interface: BatchApi,
    action: BatchAction,
) -> Result<Response, Response> {
    let mut batch = of_path(proxy, request, caller, interface).await?;
    let batch_request = match action {
        BatchAction::Read => BatchRequest::of(Method::GET, &batch, ""),
        BatchAction::Cancel => BatchRequest::of(Method::POST, &batch, "/cancel"),
    };
    match refresh(proxy, &mut batch, batch_request, Some(request)).await {
        Ok(crossing) => {
            settle_in_background(proxy, &batch);
            Ok(response(proxy, &batch, request, crossing))
        }
        // The batch has ended: the last known object is final.
        Err(refused) if action == BatchAction::Read && refused.is_for_good() && has_ended(&batch) => {
            Ok(response(proxy, &batch, request, HeaderMap::new()))
        }
        Err(refused) => Err(refused.answer(proxy, shape(request, api(&batch)))),
    }
}

/// Builds the client's answer about a batch.
fn response(proxy: &Proxy, batch: &BatchRow, request: &Request, crossing: HeaderMap) -> Response {
    let base = mapping::base(&proxy.core, &request.headers);
    let object = mapping::public_object(&proxy.core, &batch.place, &batch.object, &base);
    proxy.core.metrics.sent_bytes.add(object.len() as u64);
    let mut response = http::json_bytes(StatusCode::OK, Bytes::from(object));
    response.headers_mut().extend(crossing);
    let shape = shape(request, api(batch));
    headers::request_id(shape.dialect, shape.id, response.headers_mut());
    response
}
