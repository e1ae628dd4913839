//! The part of a request's body that its handler did not read.
//!
//! A client's next request begins where this body ends. A small rest is read and discarded, and the connection goes on.
//! Otherwise it cannot go on, and the answer has to say so: a client that believed the connection to be usable would lose
//! its next request on it.

use std::time::Duration;

use bytes::Bytes;
use http_body::Body;
use http_body_util::BodyExt;
use hyper::body::Incoming;

/// The most of a body that is discarded, in bytes, and the time for it.
const SMALL: usize = 64 * 1024;
const SMALL_TIME: Duration = Duration::from_secs(2);

/// The rest of a body.
pub(super) enum Unread {
    Rest(Incoming),
    /// The rest may never come, or its place is unknown.
    Lost,
}

impl Unread {
    /// Reads and discards the rest if it is small; false if it is not, or does not come.
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
