//! The bytes of a video, streamed with back-pressure: nothing is buffered, nothing read faster than the
//! client takes it.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::Method;
use hyper::header::{
    ACCEPT_RANGES, CONTENT_DISPOSITION, CONTENT_RANGE, CONTENT_TYPE, ETAG, HeaderName, HeaderValue,
    LAST_MODIFIED,
};

use crate::http::body::Truncated;
use crate::http::{Request, Response, ResponseBody};
use crate::limits::Lease;
use crate::proxy::Proxy;
use crate::proxy::auth::Caller;
use crate::proxy::failure::Failure;
use crate::proxy::headers;
use crate::proxy::silence::SilenceTimer;
use crate::upstream::UpstreamBody;

use super::lookup::{either, face, find, refused, slot};
use super::upstream::{Resource, UpstreamRequest, VideoUpstream};

/// The headers that describe the bytes.
const FORWARDED: [HeaderName; 5] = [CONTENT_TYPE, CONTENT_RANGE, ACCEPT_RANGES, ETAG, LAST_MODIFIED];
const NOSNIFF: (HeaderName, HeaderValue) =
    (HeaderName::from_static("x-content-type-options"), HeaderValue::from_static("nosniff"));

/// `GET /v1/videos/{id}/content`. To be saved, never shown: a page would run as one of ours.
pub(in crate::proxy) async fn content(proxy: Arc<Proxy>, request: Request, caller: Caller) -> Response {
    either(download(&proxy, &request, &caller).await)
}

async fn download(proxy: &Arc<Proxy>, request: &Request, caller: &Caller) -> Result<Response, Response> {
    let face = face(request);
    let video = find(&proxy.core.store, request, caller, face).await?;
    let upstream = VideoUpstream::of(&proxy.core, &video).await.map_err(|error| refused(face, &error))?;
    let mut slot = slot(&proxy.core, &upstream, face).await?;
    let call = UpstreamRequest { method: Method::GET, resource: Resource::Content, request };
    let answer = upstream.send(proxy, &video, &call).await.map_err(|failure| failure.into_response(face))?;
    if answer.head.headers.get(&CONTENT_TYPE).is_some_and(is_html) {
        let failure = Failure::judged("Upstream returned an HTML page".to_owned());
        return Err(failure.into_response(face));
    }
    slot.keep_alive();
    let mut response = Response::new(ResponseBody::empty());
    *response.status_mut() = answer.head.status;
    let secrets = upstream.secrets();
    let repeats = |value: &[u8]| secrets.is_in(value);
    headers::downstream(&answer.head.headers, repeats, response.headers_mut());
    headers::request_id(face.dialect, face.id, response.headers_mut());
    for name in FORWARDED {
        if let Some(value) = answer.head.headers.value(&name).filter(|value| !repeats(value.as_bytes())) {
            response.headers_mut().insert(name, value);
        }
    }
    let octets = HeaderValue::from_static("application/octet-stream");
    response.headers_mut().entry(CONTENT_TYPE).or_insert(octets);
    response.headers_mut().insert(CONTENT_DISPOSITION, HeaderValue::from_static("attachment"));
    response.headers_mut().insert(NOSNIFF.0, NOSNIFF.1);
    *response.body_mut() = ResponseBody::stream(Download {
        proxy: proxy.clone(),
        left: answer.body.size_hint().exact(),
        upstream: Some(answer.body),
        silence: SilenceTimer::new(answer.idle),
        _slot: slot,
    });
    Ok(response)
}

fn is_html(content_type: &[u8]) -> bool {
    const HTML: &[u8] = b"text/html";
    let start = content_type.trim_ascii_start().get(..HTML.len());
    start.is_some_and(|start| start.eq_ignore_ascii_case(HTML))
}

/// Bytes on their upstream. Dropped, it hangs up at the upstream.
struct Download {
    proxy: Arc<Proxy>,
    upstream: Option<UpstreamBody>,
    /// Exact when the upstream gave a length.
    left: Option<u64>,
    silence: SilenceTimer,
    /// At the site that is asked.
    _slot: Lease,
}

impl Download {
    fn cut(&mut self, why: &'static str) -> Poll<Option<Result<Frame<Bytes>, Truncated>>> {
        self.upstream = None;
        Poll::Ready(Some(Err(Truncated(why))))
    }
}

impl Body for Download {
    type Data = Bytes;
    type Error = Truncated;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Truncated>>> {
        let this = self.get_mut();
        let Some(upstream) = &mut this.upstream else { return Poll::Ready(None) };
        match upstream.poll_data(context) {
            Poll::Ready(Some(Ok(bytes))) => {
                this.silence.heard();
                this.left = this.left.map(|left| left.saturating_sub(bytes.len() as u64));
                this.proxy.core.metrics.sent_bytes.add(bytes.len() as u64);
                Poll::Ready(Some(Ok(Frame::data(bytes))))
            }
            Poll::Ready(Some(Err(error))) => {
                log::info!("a video broke off on its upstream: {}", error.message());
                this.cut("the upstream's answer broke off")
            }
            Poll::Ready(None) => {
                this.upstream = None;
                Poll::Ready(None)
            }
            Poll::Pending => {
                ready!(this.silence.poll(context));
                this.cut("nothing came for too long")
            }
        }
    }

    fn size_hint(&self) -> SizeHint {
        self.left.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}
