//! An answer for the client, and whether the client can go on from it.

use crate::http::Response;

/// An answer for the client.
pub(super) struct ClientAnswer {
    pub(super) response: Response,
    /// Set when the upstream does not store the answer, and the client may want to go on from it.
    pub(super) not_stored: Option<UnstoredAnswer>,
}

/// An answer that its upstream does not store.
pub(super) struct UnstoredAnswer {
    /// The id of the answer, where it is written with an id of ours; else it has the upstream's.
    pub(super) answer_id: Option<String>,
}

/// Wraps a refusal, or an answer that nobody goes on from.
impl From<Response> for ClientAnswer {
    fn from(response: Response) -> Self {
        Self { response, not_stored: None }
    }
}
