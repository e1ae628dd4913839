//! What a handler has left of the body of its request.
//!
//! The next request of a client begins where this one's body ends. A rest that is small is read over, and the connection
//! goes on; otherwise it cannot, and the answer has to say so: a client that took the connection for a good one would lose
//! its next request on it.

use std::time::Duration;

use bytes::Bytes;
use http_body::Body;
use http_body_util::BodyExt;
use hyper::body::Incoming;

/// The most of a body that is read over, and for how long.
const SMALL: usize = 64 * 1024;
const SMALL_TIME: Duration = Duration::from_secs(2);

/// The rest of a body.
pub(super) enum Unread {
    Rest(Incoming),
    /// It may never come, or cannot be found.
    Lost,
}

impl Unread {
    /// Reads it over if it is small; false if it is not, or does not come.
    pub async fn read_over(self) -> bool {
        let Self::Rest(mut incoming) = self else { return false };
        let is_small = |length: Option<u64>| length.is_none_or(|length| length <= SMALL as u64);
        if !is_small(incoming.size_hint().exact()) {
            return false;
        }
        let to_its_end = async {
            let mut taken = 0;
            while let Some(frame) = incoming.frame().await {
                let Ok(frame) = frame else { return false };
                taken += frame.data_ref().map_or(0, Bytes::len);
                if taken > SMALL {
                    return false;
                }
            }
            true
        };
        tokio::time::timeout(SMALL_TIME, to_its_end).await.unwrap_or(false)
    }
}
