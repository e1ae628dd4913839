//! The outbound proxy that a request names for a connection.

use crate::admin::errors::{AdminError, Result};
use crate::admin::input::Fields;
use crate::routing::OutboundProxy;
use crate::store::Secret;

pub use crate::jobs::oauth::activation::ProxyChoice;

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
