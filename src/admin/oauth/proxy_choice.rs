//! The outbound proxy that a request names for a connection.

use crate::admin::errors::{AdminError, Result};
use crate::admin::input::Fields;
use crate::admin::secrets;
use crate::admin::sites::input::proxy_url;
use crate::store::Secret;

pub use crate::jobs::oauth::activation::ProxyChoice;

// === impl ProxyChoice ===

impl ProxyChoice {
    /// Reads `proxyUrl` and `useSystemProxy`. In `proxyUrl`, `null` and blank text mean no proxy, and the mask of the
    /// stored address leaves it unchanged.
    pub fn of(fields: &Fields, stored: Option<&Secret>) -> Result<Self> {
        fields.nullable_text("proxyUrl")?;
        let sent = proxy_url(fields).map_err(|_| AdminError::bad_request("invalid proxy url"))?;
        let sent = secrets::sent_proxy(sent, stored.map(Secret::expose))?;
        let proxy_url = sent.map(|address| address.map(Secret::from));
        Ok(Self { proxy_url, use_system_proxy: fields.bool("useSystemProxy")? })
    }
}
