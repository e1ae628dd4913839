//! The bytes of a video.

use std::sync::Arc;

use bytes::Bytes;
use hyper::Method;
use hyper::header::{
    ACCEPT_RANGES, CONTENT_RANGE, CONTENT_TYPE, ETAG, HeaderName, HeaderValue, LAST_MODIFIED,
};

use crate::http::{Request, Response, ResponseBody};
use crate::proxy::Proxy;
use crate::proxy::auth::Caller;
use crate::proxy::download::{self, force_download};
use crate::proxy::reply::response_of;
use crate::proxy::resource_upstream::ResourceAnswer;

use super::lookup::{find, refused, shape};
use super::upstream::{self, Resource};

/// The headers that describe the bytes.
const FORWARDED: [HeaderName; 5] = [CONTENT_TYPE, CONTENT_RANGE, ACCEPT_RANGES, ETAG, LAST_MODIFIED];

/// Serves `GET /v1/videos/{id}/content`. The answer is a download, never shown: a page would run as one of ours.
pub(in crate::proxy) async fn content(proxy: Arc<Proxy>, request: Request, caller: Caller) -> Response {
    response_of(download(&proxy, &request, &caller).await)
}

async fn download(proxy: &Arc<Proxy>, request: &Request, caller: &Caller) -> Result<Response, Response> {
    let shape = shape(request);
    let video = find(&proxy.core.store, request, caller, shape).await?;
    let mut upstream = upstream::of(&proxy.core, &video).await.map_err(|error| refused(shape, &error))?;
    let slot = upstream.slot(&proxy.core, shape).await?;
    let call = upstream::request(Method::GET, Resource::Content, &video, request);
    let sent = upstream.send(proxy, &call).await.map_err(|failure| failure.into_response(shape))?;
    if let Some(refusal) = sent.page(shape) {
        return Err(refusal);
    }
    let answer = ResourceAnswer { upstream, response: sent, slot };
    let head = &answer.response.head;
    let mut response = Response::new(ResponseBody::empty());
    *response.status_mut() = head.status;
    answer.put_headers(shape, response.headers_mut());
    let secrets = answer.upstream.secrets();
    for name in FORWARDED {
        if let Some(value) = head.headers.value(&name).filter(|value| !secrets.is_in(value.as_bytes())) {
            response.headers_mut().insert(name, value);
        }
    }
    let octets = HeaderValue::from_static("application/octet-stream");
    response.headers_mut().entry(CONTENT_TYPE).or_insert(octets);
    force_download(response.headers_mut());
    *response.body_mut() = download::body(proxy, Bytes::new(), answer);
    Ok(response)
}
