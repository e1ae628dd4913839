//! Answers that name the model as the client did, where the operator wants it (`echoRequestedModel`), and answers with
//! an id of ours.

use bytes::Bytes;

use crate::dialect::Dialect;
use crate::dialect::rename::Renamer;
use crate::http::body::Truncated;
use crate::http::{Response, ResponseBody, is_event_stream};

use super::rewritten::{Rewrite, buffer_for, rewritten};
use crate::proxy::call::Call;

/// Names the model in an answer as the client did; leaves a refusal as it is.
pub(in crate::proxy) fn of(call: &Call, answer: Response) -> Response {
    named(call.shape.dialect, &call.envelope.model, answer)
}

/// Names this model in an answer that belongs to an earlier request; leaves a refusal as it is.
pub(in crate::proxy) fn named(dialect: Dialect, model: &str, answer: Response) -> Response {
    if !answer.status().is_success() {
        return answer;
    }
    match Renamer::new(dialect, model, is_event_stream(answer.headers())) {
        Some(renamer) => passed(renamer, answer),
        None => answer,
    }
}

/// Puts this id into an answer of the responses dialect.
pub(in crate::proxy) fn with_id(id: &str, answer: Response) -> Response {
    let renamer = Renamer::of_response(id, is_event_stream(answer.headers()));
    passed(renamer, answer)
}

fn passed(mut renamer: Renamer, mut answer: Response) -> Response {
    let body = std::mem::replace(answer.body_mut(), ResponseBody::empty());
    *answer.body_mut() = match body {
        ResponseBody::Full(None) => ResponseBody::empty(),
        ResponseBody::Full(Some(bytes)) => {
            let mut out = buffer_for(&bytes);
            Renamer::feed(&mut renamer, &bytes, &mut out);
            Renamer::finish(&mut renamer, &mut out);
            ResponseBody::full(Bytes::from(out))
        }
        inner => rewritten(inner, renamer),
    };
    answer
}

impl Rewrite for Renamer {
    fn feed(&mut self, piece: Bytes) -> Result<Bytes, Truncated> {
        let mut out = buffer_for(&piece);
        Self::feed(self, &piece, &mut out);
        Ok(Bytes::from(out))
    }

    fn finish(&mut self) -> Result<Bytes, Truncated> {
        let mut out = Vec::new();
        Self::finish(self, &mut out);
        Ok(Bytes::from(out))
    }

    fn is_idle(&self) -> bool {
        Self::is_idle(self)
    }
}
