//! The outbound proxy that a request names for a connection.

use crate::admin::errors::{AdminError, Result};
use crate::admin::input::{Fields, Patch};
use crate::routing::OutboundProxy;
use crate::store::Secret;

/// What a request says of the way to a provider; what it does not say stays as it is.
#[derive(Clone, Debug, Default)]
pub struct ProxyChoice {
    pub proxy_url: Patch<Secret>,
    pub use_system_proxy: Option<bool>,
}

// === impl ProxyChoice ===

impl ProxyChoice {
    /// By `proxyUrl`, where `null` and blank text mean none, and `useSystemProxy`.
    pub fn of(fields: &Fields) -> Result<Self> {
        let proxy_url = match fields.nullable_text("proxyUrl")? {
            None => None,
            Some(None) => Some(None),
            Some(Some(url)) if url.trim().is_empty() => Some(None),
            Some(Some(url)) => {
                let url = url.trim();
                OutboundProxy::parse(url).map_err(|_| AdminError::bad_request("invalid proxy url"))?;
                Some(Some(Secret::from(url)))
            }
        };
        Ok(Self { proxy_url, use_system_proxy: fields.bool("useSystemProxy")? })
    }
}
