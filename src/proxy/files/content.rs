//! The bytes of a downloaded file: one chunk is in memory, and the next is read when it has been taken.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::header::{CONTENT_DISPOSITION, CONTENT_TYPE, HeaderValue};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::http::body::Truncated;
use crate::http::{Request, Response, ResponseBody};
use crate::proxy::Proxy;
use crate::proxy::auth::Caller;
use crate::proxy::download::force_download;
use crate::store::{self, Store, files};

use super::lookup::{find, shape};

/// The characters to encode in a quoted file name and in RFC 8187's form of it.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'.').remove(b'-').remove(b'_');

/// Serves `GET /v1/files/{id}/content`. The answer is a download, never shown: an SVG would run as a page of ours.
pub(in crate::proxy) async fn content(proxy: Arc<Proxy>, request: Request, caller: Caller) -> Response {
    let file = match find(&proxy.core.store, &request, &caller).await {
        Ok(file) => file,
        Err(refusal) => return refusal.answer(shape(&request)),
    };
    let mut response = Response::new(ResponseBody::stream(Content {
        store: proxy.core.store.clone(),
        upload: file.upload.unwrap_or_default().into(),
        position: 0,
        left: u64::try_from(file.byte_size).unwrap_or(0),
        reading: None,
    }));
    let headers = response.headers_mut();
    let octets = HeaderValue::from_static("application/octet-stream");
    headers.insert(CONTENT_TYPE, HeaderValue::from_str(&file.mime_type).unwrap_or(octets));
    let name = utf8_percent_encode(&file.filename, ENCODED).to_string();
    let disposition = format!("attachment; filename=\"{name}\"; filename*=UTF-8''{name}");
    force_download(headers);
    if let Ok(named) = HeaderValue::from_str(&disposition) {
        headers.insert(CONTENT_DISPOSITION, named);
    }
    response
}

type Reading = Pin<Box<dyn Future<Output = store::Result<Option<Vec<u8>>>> + Send>>;

struct Content {
    store: Store,
    upload: Arc<str>,
    position: i64,
    left: u64,
    reading: Option<Reading>,
}

impl Content {
    fn next(&self) -> Reading {
        let (store, upload, position) = (self.store.clone(), self.upload.clone(), self.position);
        Box::pin(async move { files::chunk(&store, &upload, position).await })
    }
}

impl Body for Content {
    type Data = Bytes;
    type Error = Truncated;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Truncated>>> {
        let content = self.get_mut();
        if content.left == 0 {
            return Poll::Ready(None);
        }
        let mut reading = content.reading.take().unwrap_or_else(|| content.next());
        let Poll::Ready(chunk) = reading.as_mut().poll(context) else {
            content.reading = Some(reading);
            return Poll::Pending;
        };
        Poll::Ready(Some(match chunk {
            Ok(Some(bytes)) => {
                content.position += 1;
                content.left = content.left.saturating_sub(bytes.len() as u64);
                Ok(Frame::data(Bytes::from(bytes)))
            }
            Ok(None) => Err(Truncated("the file was deleted while it was being read")),
            Err(error) => {
                log::error!("the chunks of upload {} cannot be read: {error}", content.upload);
                Err(Truncated("the rest of the file could not be read"))
            }
        }))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}
