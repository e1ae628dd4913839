//! The caller that opened a WebSocket, authenticated again for each turn, because a key may have been revoked since.

use std::net::IpAddr;
use std::sync::Arc;

use hyper::HeaderMap;

use crate::core::Core;
use crate::http::bearer::LastToken;
use crate::http::{Query, Request};
use crate::limits::IdentityWindows;
use crate::uuid;

use super::auth::{self, AuthRefusal, Caller, PresentedToken};

/// The caller of a socket, and the request that opened it.
pub(super) struct SocketOpener {
    pub(super) headers: HeaderMap,
    pub(super) query: Query,
    /// Whether the caller is this machine.
    pub(super) local: bool,
    pub(super) client_ip: IpAddr,
    pub(super) last_token: LastToken,
    pub(super) rates: Arc<IdentityWindows>,
    /// The name of the conversation, where the client gives none.
    pub(super) session: String,
}

impl SocketOpener {
    /// Authenticates the request for a socket.
    ///
    /// # Errors
    /// Fails when the caller is not let in.
    pub(super) fn let_in(core: &Core, request: &Request) -> Result<Self, AuthRefusal> {
        let shown = PresentedToken::from(request);
        let local = shown.local;
        let rates = auth::authenticate(core, &shown)?.rates(&core.rates).clone();
        Ok(Self {
            headers: request.headers.clone(),
            query: Query::new(request.query.raw()),
            local,
            client_ip: request.client_ip,
            last_token: request.last_token.clone(),
            rates,
            session: uuid::v4(),
        })
    }

    /// Authenticates the caller again, with the current keys.
    pub(super) fn caller(&self, core: &Core) -> Result<Caller, AuthRefusal> {
        let Self { headers, query, local, client_ip, last_token, .. } = self;
        let (local, client_ip) = (*local, *client_ip);
        auth::authenticate(core, &PresentedToken { headers, query, local, client_ip, last_token })
    }
}
