//! Requests to Codex over a WebSocket, where the operator wants that and the upstream offers it.
//!
//! The answer is treated like any other: its events are judged, converted and counted as if they had come by HTTP.
//! An upstream that refuses the upgrade is asked by HTTP at once, and for hours if it says that it has no WebSocket.
//! The turns of a conversation share one socket, each with everything that was said before: nothing depends on what the
//! upstream remembers, and a turn that finds its socket gone opens another.

use std::sync::Arc;

use hyper::header::{self, HeaderName, HeaderValue};

use crate::dialect::Dialect;
use crate::dialect::responses::socket;
use crate::ids::SiteId;
use crate::proxy::Proxy;
use crate::routing::{Endpoint, Origin};
use crate::time::now_ms;
use crate::upstream::{self, Answer, Request, SendError, SocketKey, SocketOutcome};

use super::compose::Delivery;
use super::compose::cache_key;
use super::operation::Operation;

const BETA_FEATURES: HeaderName = HeaderName::from_static("x-codex-beta-features");
const BETA: HeaderName = HeaderName::from_static("openai-beta");
/// The statuses of an upstream that has no WebSocket, and will not have one soon.
const WITHOUT: [u16; 6] = [200, 400, 404, 405, 426, 501];

/// An upgrade request, and the text that is sent after it.
pub(super) struct Upgrade {
    request: Request,
    text: String,
    site: SiteId,
    /// The conversation whose next turns use the same socket; `None` where none is known to follow.
    conversation: Option<SocketKey>,
}

impl Delivery<'_> {
    /// Builds the WebSocket form of a request; `None` where it goes by HTTP.
    pub(super) async fn upgrade(
        &self,
        endpoint: &Endpoint,
        path: &str,
        dialect: Dialect,
        request: &Request,
    ) -> Option<Upgrade> {
        if !self.takes_socket(endpoint, path, dialect) {
            return None;
        }
        let body = request.body.pieces().concat();
        let written = || socket::request(std::str::from_utf8(&body).ok()?);
        let text = self.proxy.conversions.read_through(body.len(), written).await?;
        let mut request = Request { body: upstream::RequestBody::empty(), ..request.clone() };
        let headers = &mut request.headers;
        headers.remove(&header::CONTENT_TYPE);
        headers.remove(&header::ACCEPT);
        let beta = &self.proxy.core.config.proxy.codex_websocket_beta;
        if let Ok(beta) = HeaderValue::try_from(with_beta(headers.get(&BETA), beta)) {
            headers.set(BETA, beta);
        }
        if let Some(features) = &self.call.settings.codex_headers.beta_features {
            headers.set_default(BETA_FEATURES, features.clone());
        }
        let conversation = self.conversation(endpoint, &request);
        Some(Upgrade { request, text, site: self.channel.account.site.id, conversation })
    }

    /// Returns the key of the call's conversation, which contains all that its socket must not be shared across.
    fn conversation(&self, endpoint: &Endpoint, request: &Request) -> Option<SocketKey> {
        let name = cache_key::of(self.call, self.channel.id, self.proxy.core.store.sealer())?;
        Some(SocketKey {
            origin: Arc::clone(&endpoint.base.origin),
            account: self.channel.account.id,
            conversation: name,
            authorization: request.headers.get(&header::AUTHORIZATION).cloned(),
        })
    }

    fn takes_socket(&self, endpoint: &Endpoint, path: &str, dialect: Dialect) -> bool {
        let account = &self.channel.account;
        let (site, profile) = (&account.site, account.site.platform.profile());
        self.call.settings.codex_websocket
            && profile.has_websocket
            && !account.refuses_websocket
            && dialect == Dialect::Responses
            && self.call.operation == Operation::Answer
            && path == (profile.path)(Dialect::Responses)
            && endpoint.base.origin.forwarder().is_none()
            && !self.proxy.sockets.refuses(site.id, now_ms())
    }
}

/// Returns the client's betas with the one that permits WebSockets.
fn with_beta(named: Option<&HeaderValue>, beta: &str) -> String {
    let named = named.and_then(|named| named.to_str().ok()).unwrap_or_default();
    let family = beta.split('=').next().unwrap_or_default();
    let is_named = |named: &str| named.split('=').next().unwrap_or_default().trim() == family;
    match named.trim() {
        "" => beta.to_owned(),
        named if named.split(',').any(is_named) => named.to_owned(),
        named => format!("{named}, {beta}"),
    }
}

/// Sends a request, over a WebSocket if one was prepared, otherwise by HTTP.
pub(super) async fn send(
    proxy: &Proxy,
    origin: &Arc<Origin>,
    request: Box<Request>,
    upgrade: Option<Upgrade>,
) -> Result<Answer, SendError> {
    if let Some(Upgrade { request, text, site, conversation }) = upgrade {
        // Boxed, because it is rare and large.
        match Box::pin(proxy.core.client.converse(origin, request, text, conversation)).await? {
            SocketOutcome::Answer(answer) => return Ok(answer),
            SocketOutcome::Refused(status) => {
                if status.is_some_and(|status| WITHOUT.contains(&status.as_u16())) {
                    proxy.sockets.refused(site, now_ms());
                }
                log::debug!("site {site} refused a WebSocket ({status:?}), the request is sent over HTTP");
            }
        }
    }
    proxy.core.client.send_boxed(origin, request).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_beta_of_websockets_is_named_once() {
        const BETA: &str = "responses_websockets=2026-02-06";
        for (named, wanted) in [
            (None, BETA),
            (Some(" "), BETA),
            (Some("responses-2025-03-11"), "responses-2025-03-11, responses_websockets=2026-02-06"),
            (Some("a=1, responses_websockets=2025-01-01"), "a=1, responses_websockets=2025-01-01"),
        ] {
            let named = named.map(HeaderValue::from_static);
            assert_eq!(with_beta(named.as_ref(), BETA), wanted);
        }
    }
}
