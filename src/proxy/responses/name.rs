//! The name of a response.

use crate::ids::KeyId;

/// A response, or an item of one, as its client names it. Ids of two keys may be the same.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(in crate::proxy) struct ResponseName {
    /// The key that was given the id; `None` for the proxy token.
    pub(in crate::proxy) key_id: Option<KeyId>,
    pub(in crate::proxy) id: String,
}

impl ResponseName {
    pub(in crate::proxy) fn new(key_id: Option<KeyId>, id: impl Into<String>) -> Self {
        Self { key_id, id: id.into() }
    }
}
