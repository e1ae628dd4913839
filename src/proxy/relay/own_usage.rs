//! Removes from streams the usage event that the gateway asked for and the client did not.

use bytes::Bytes;

use crate::dialect::chat::UsageEvents;
use crate::http::body::Truncated;
use crate::http::{Response, ResponseBody, is_event_stream};

use super::rewritten::{Rewrite, buffer_for, rewritten};

/// Removes the usage event from a stream; leaves any other answer as it is.
pub(in crate::proxy) fn left_out(mut answer: Response) -> Response {
    if answer.status().is_success() && is_event_stream(answer.headers()) {
        let body = std::mem::replace(answer.body_mut(), ResponseBody::empty());
        *answer.body_mut() = rewritten(body, UsageEvents::default());
    }
    answer
}

impl Rewrite for UsageEvents {
    fn feed(&mut self, piece: Bytes) -> Result<Bytes, Truncated> {
        let mut out = buffer_for(&piece);
        self.leave_out(&piece, &mut out);
        Ok(Bytes::from(out))
    }

    fn finish(&mut self) -> Result<Bytes, Truncated> {
        Ok(Bytes::new())
    }

    fn is_idle(&self) -> bool {
        true
    }
}
