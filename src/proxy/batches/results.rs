//! Streams the results of a batch: line by line with the requested model's name, where the operator wants that, and byte for
//! byte otherwise.

use std::sync::Arc;

use bytes::Bytes;
use hyper::header::{CONTENT_TYPE, HeaderValue};

use crate::dialect::batch::BatchApi;
use crate::http::body::Truncated;
use crate::http::{Request, Response, ResponseBody};
use crate::proxy::Proxy;
use crate::proxy::download::{self, force_download};
use crate::proxy::relay::rewritten::{Rewrite, buffer_for, rewritten};
use crate::store::batches::BatchRow;

use super::lookup::{self, api};
use super::upstream::{BatchRequest, ask};

/// The maximum length of a line that is rewritten, in bytes; a longer one is passed on unchanged.
const MAX_LINE: usize = 16 << 20;

/// Streams the results from the account. The answer is a download, never shown: a page would run as one of ours.
pub(super) async fn stream(
    proxy: &Arc<Proxy>,
    request: &Request,
    batch: &BatchRow,
    batch_request: BatchRequest,
) -> Result<Response, Response> {
    let shape = lookup::shape(request, api(batch));
    let asked = ask(proxy, batch, batch_request, Some(request)).await;
    let answer = asked.map_err(|refused| refused.answer(proxy, shape))?;
    let content_type = answer.response.head.headers.value(&CONTENT_TYPE);
    if let Some(refusal) = answer.response.page(shape) {
        return Err(refusal);
    }
    let mut response = Response::new(ResponseBody::empty());
    answer.put_headers(shape, response.headers_mut());
    let lines = HeaderValue::from_static("application/x-jsonl");
    response.headers_mut().insert(CONTENT_TYPE, content_type.unwrap_or(lines));
    force_download(response.headers_mut());
    let bytes = download::body(proxy, Bytes::new(), answer);
    *response.body_mut() = if proxy.core.settings.load().echo_model {
        let model = batch.place.model_requested.clone();
        rewritten(bytes, Renaming { api: api(batch), model, line: Vec::new(), passes: false })
    } else {
        bytes
    };
    Ok(response)
}

/// A rewriter that names the model as the client did.
struct Renaming {
    api: BatchApi,
    model: String,
    /// The line that is not complete yet.
    line: Vec<u8>,
    /// Whether that line is too long and passes unchanged.
    passes: bool,
}

impl Renaming {
    fn end_line(&mut self, out: &mut Vec<u8>) {
        if !self.passes {
            out.extend_from_slice(&self.api.line_with_model(&self.line, &self.model));
        }
        self.line.clear();
        self.passes = false;
    }
}

impl Rewrite for Renaming {
    fn feed(&mut self, bytes: Bytes) -> Result<Bytes, Truncated> {
        let mut out = buffer_for(&bytes);
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            if self.passes {
                out.extend_from_slice(piece);
            } else {
                self.line.extend_from_slice(piece);
                if self.line.len() > MAX_LINE {
                    out.append(&mut self.line);
                    self.passes = true;
                }
            }
            if piece.ends_with(b"\n") {
                self.end_line(&mut out);
            }
        }
        Ok(Bytes::from(out))
    }

    fn finish(&mut self) -> Result<Bytes, Truncated> {
        let mut out = Vec::new();
        self.end_line(&mut out);
        Ok(Bytes::from(out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_renamed_however_they_are_cut() {
        let line = |model| format!(r#"{{"result":{{"message":{{"model":"{model}"}}}}}}"#);
        let text = format!("{}\n{}", line("up"), line("up"));
        for size in [1, 7, 1000] {
            let (api, model) = (BatchApi::Anthropic, "ours".to_owned());
            let mut renaming = Renaming { api, model, line: Vec::new(), passes: false };
            let mut out = Vec::new();
            for piece in text.as_bytes().chunks(size) {
                out.extend(renaming.feed(Bytes::copy_from_slice(piece)).expect("it passes"));
            }
            out.extend(renaming.finish().expect("it passes"));
            assert_eq!(String::from_utf8(out).unwrap(), text.replace("up", "ours"));
        }
    }
}
