//! The bytes of a resource that an upstream keeps.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::HeaderMap;
use hyper::header::{CONTENT_DISPOSITION, HeaderValue, X_CONTENT_TYPE_OPTIONS};

use crate::http::ResponseBody;
use crate::http::body::Truncated;
use crate::limits::Lease;
use crate::proxy::Proxy;

use super::relay::unread::UnreadBytes;
use super::resource_upstream::ResourceAnswer;

/// A response body that streams bytes from their upstream, with back-pressure.
struct Download {
    proxy: Arc<Proxy>,
    bytes: UnreadBytes,
    /// The slot at the site that is asked.
    _slot: Lease,
}

/// Marks foreign bytes as a download, never shown: a page or an image with scripts would run as one of ours.
pub(super) fn force_download(headers: &mut HeaderMap) {
    headers.insert(CONTENT_DISPOSITION, HeaderValue::from_static("attachment"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
}

/// Builds the body that downloads an answer of which `first` was already read.
pub(super) fn body(proxy: &Arc<Proxy>, first: Bytes, answer: ResourceAnswer) -> ResponseBody {
    let ResourceAnswer { response, mut slot, .. } = answer;
    slot.keep_alive();
    let left = response.body.size_hint().exact();
    let length = left.map(|left| left.saturating_add(first.len() as u64));
    let bytes = UnreadBytes::new(first, response.body, length, response.idle);
    ResponseBody::stream(Download { proxy: proxy.clone(), bytes, _slot: slot })
}

impl Body for Download {
    type Data = Bytes;
    type Error = Truncated;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Truncated>>> {
        let this = self.get_mut();
        Poll::Ready(ready!(this.bytes.poll_next(context)).map(|next| match next {
            Ok(bytes) => {
                this.proxy.core.metrics.sent_bytes.add(bytes.len() as u64);
                Ok(Frame::data(bytes))
            }
            Err(cause) => {
                log::info!("a download from an upstream was cut off: {cause}");
                Err(Truncated("the upstream's answer was cut off"))
            }
        }))
    }

    fn size_hint(&self) -> SizeHint {
        self.bytes.size_hint()
    }
}
