//! The owner of something that a client stored with the service.

use super::error::{Error, Result};
use super::sql::{Fields, Value};
use crate::ids::KeyId;

/// The values of the column `owner_type`.
const KEY: &str = "managed_key";
const PROXY_TOKEN: &str = "global_proxy_token";

/// The owner: one managed key, or everybody with the proxy token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Owner {
    Key(KeyId),
    ProxyToken,
}

impl Owner {
    /// Returns the owner for a managed key; `None` is the proxy token.
    pub fn of_key(key_id: Option<KeyId>) -> Self {
        key_id.map_or(Self::ProxyToken, Self::Key)
    }

    pub(super) fn key_id(self) -> Option<KeyId> {
        match self {
            Self::Key(id) => Some(id),
            Self::ProxyToken => None,
        }
    }

    /// Reads the columns `owner_type` and `owner_id`.
    pub(super) fn read(row: &mut Fields<'_>) -> Result<Self> {
        let (kind, id) = (row.str()?, row.str()?);
        match (kind, id.parse()) {
            (KEY, Ok(id)) => Ok(Self::Key(KeyId::new(id))),
            (PROXY_TOKEN, _) => Ok(Self::ProxyToken),
            _ => Err(Error::Database(format!("{kind} {id} is no owner"))),
        }
    }

    /// Returns the values of `owner_type` and `owner_id`.
    pub(super) fn args(self) -> [Value; 2] {
        match self {
            Self::Key(id) => [KEY.into(), id.to_string().into()],
            Self::ProxyToken => [PROXY_TOKEN.into(), "global".into()],
        }
    }
}
