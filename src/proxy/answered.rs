//! An answer for the client, and whether it can be gone on from.

use crate::http::Response;

/// An answer for the client.
pub(super) struct Answered {
    pub(super) response: Response,
    /// Set when the upstream does not store it, and the client may want to go on from it.
    pub(super) not_stored: Option<NotStored>,
}

/// An answer that its upstream does not store.
pub(super) struct NotStored {
    /// What names it, where it is written with a name of ours; else it has the upstream's.
    pub(super) answer_id: Option<String>,
}

/// A refusal, or an answer that nobody goes on from.
impl From<Response> for Answered {
    fn from(response: Response) -> Self {
        Self { response, not_stored: None }
    }
}
