//! Answers that name the model as the client did, where the operator wants it (`echoRequestedModel`).

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame};
use hyper::header::CONTENT_TYPE;

use crate::dialect::rename::Renamer;
use crate::http::body::Cut;
use crate::http::{Response, ResponseBody};

use super::call::Call;

/// The answer under the name that was asked for; a refusal as it is.
pub(super) fn of(call: &Call, mut answer: Response) -> Response {
    if !answer.status().is_success() {
        return answer;
    }
    let kind = answer.headers().get(CONTENT_TYPE);
    let is_stream = kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"));
    let Some(mut renamer) = Renamer::new(call.face.dialect, &call.envelope.model, is_stream) else {
        return answer;
    };
    let body = std::mem::replace(answer.body_mut(), ResponseBody::empty());
    *answer.body_mut() = match body {
        ResponseBody::Full(None) => ResponseBody::empty(),
        ResponseBody::Full(Some(bytes)) => {
            let mut out = Vec::with_capacity(bytes.len() + call.envelope.model.len());
            renamer.feed(&bytes, &mut out);
            renamer.finish(&mut out);
            ResponseBody::full(Bytes::from(out))
        }
        inner => ResponseBody::stream(Renamed { inner, renamer, ended: false }),
    };
    answer
}

/// An answer on its way. Its length is not known: the names need not be equally long.
struct Renamed {
    inner: ResponseBody,
    renamer: Renamer,
    ended: bool,
}

impl Body for Renamed {
    type Data = Bytes;
    type Error = Cut;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Cut>>> {
        let this = self.get_mut();
        loop {
            if this.ended {
                return Poll::Ready(None);
            }
            let mut out = Vec::new();
            match ready!(Pin::new(&mut this.inner).poll_frame(context)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(bytes) => {
                        out.reserve(bytes.len() + 64);
                        this.renamer.feed(&bytes, &mut out);
                    }
                    Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
                },
                Some(Err(cut)) => {
                    this.ended = true;
                    return Poll::Ready(Some(Err(cut)));
                }
                None => {
                    this.ended = true;
                    this.renamer.finish(&mut out);
                }
            }
            if !out.is_empty() {
                return Poll::Ready(Some(Ok(Frame::data(Bytes::from(out)))));
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.ended || (self.renamer.is_idle() && self.inner.is_end_stream())
    }
}
