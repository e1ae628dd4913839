//! The owner of something that a client stored with the service.

use super::sql::Value;
use crate::ids::KeyId;

/// The owner: one managed key, or everybody with the proxy token.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Owner {
    pub kind: &'static str,
    pub id: String,
}

impl Owner {
    /// Returns the owner for a managed key; `None` is the proxy token.
    pub fn of_key(key_id: Option<KeyId>) -> Self {
        match key_id {
            Some(id) => Self { kind: "managed_key", id: id.to_string() },
            None => Self { kind: "global_proxy_token", id: "global".to_owned() },
        }
    }

    /// Returns the kind of owner for its stored word.
    pub(super) fn kind_of(stored: &str) -> &'static str {
        if stored == "managed_key" { "managed_key" } else { "global_proxy_token" }
    }

    /// Returns the values of `owner_type` and `owner_id`.
    pub(super) fn args(&self) -> [Value; 2] {
        [self.kind.into(), self.id.as_str().into()]
    }
}
