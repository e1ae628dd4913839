//! Whom something belongs to that a client left with us.

use super::sql::Value;
use crate::ids::KeyId;

/// One managed key, or everybody with the proxy token.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Owner {
    pub kind: &'static str,
    pub id: String,
}

impl Owner {
    /// By the managed key, `None` for the proxy token.
    pub fn of_key(key_id: Option<KeyId>) -> Self {
        match key_id {
            Some(id) => Self { kind: "managed_key", id: id.to_string() },
            None => Self { kind: "global_proxy_token", id: "global".to_owned() },
        }
    }

    /// The word for a kind of owner, as it is stored.
    pub(super) fn kind_of(stored: &str) -> &'static str {
        if stored == "managed_key" { "managed_key" } else { "global_proxy_token" }
    }

    /// The values of `owner_type` and `owner_id`.
    pub(super) fn args(&self) -> [Value; 2] {
        [self.kind.into(), self.id.as_str().into()]
    }
}
