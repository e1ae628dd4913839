//! The responses surface over a WebSocket: one socket, one conversation, turn after turn.
//!
//! ```text
//! open ─ connection ─┬─ read_frames: what the client sends, read as it comes, waits in line
//!                    └─ TurnRunner:  one turn after the other
//!                       frame ─ history ─ (pipeline: admit → … → settle) ─ events ─▶ client
//! ```
//!
//! A turn is an ordinary streamed call of the pipeline: the key's policy and limits, channels, fail-over,
//! conversion, log and cost are the same. Two things differ: a client sends only what is new
//! ([`history`] builds the whole request) and gets each event as a text frame ([`events`]). The key
//! is checked again with every frame, because it may have been revoked since.
//!
//! Upstreams are asked as for any call: over HTTP, or over a WebSocket of ours where they have one (`upstream_socket`).

mod connection;
mod events;
mod frame;
mod history;
mod refusal;

use std::mem;
use std::sync::Arc;

use hyper::HeaderMap;
use hyper::header::{HeaderName, HeaderValue};

use crate::dialect::Dialect;
use crate::http::websocket::Handshake;
use crate::http::{Request, Response, too_many_of_peer};
use crate::proxy::Proxy;
use crate::time::monotonic_ms;

use super::reply::{ErrorShape, closing};
use super::socket_opener::SocketOpener;

/// The header in which Codex keeps its turn's state at an upstream, and which it wants back.
const TURN_STATE: HeaderName = HeaderName::from_static("x-codex-turn-state");
const BETA: HeaderName = HeaderName::from_static("openai-beta");
/// The beta name of sockets, which is removed because it is about the client's socket; one of ours names its own.
const SOCKET_BETA: &str = "responses_websockets=";

/// Serves `GET /v1/responses` with `Upgrade: websocket`.
pub(super) fn open(proxy: Arc<Proxy>, mut request: Request) -> Response {
    let shape = ErrorShape::of(&request.headers, Some(Dialect::Responses), request.id);
    let mut opener = match SocketOpener::let_in(&proxy.core, &request) {
        Ok(opener) => opener,
        Err(refused) => {
            proxy.core.note_auth_failure(request.client_ip, &refused.message());
            return closing(shape.reject_caller(&refused));
        }
    };
    if let Err(wait) = proxy.core.rates.admit_socket(&opener.rates, monotonic_ms()) {
        return closing(too_many_of_peer(wait));
    }
    let handshake = match Handshake::of(&mut request) {
        Ok(handshake) => handshake,
        Err(bad) => {
            let mut refusal = shape.refuse(bad.status(), bad.message(), None, None);
            bad.advise(refusal.headers_mut());
            return closing(refusal);
        }
    };
    let turn_state = request.headers.get(TURN_STATE).cloned();
    opener.headers = without_socket_beta(mem::take(&mut opener.headers));
    let longest = proxy.core.config.request_body_limit;
    let serve = move |socket| connection::serve(proxy, opener, socket);
    let mut response = handshake.accept(longest, serve);
    if let Some(turn_state) = turn_state {
        response.headers_mut().insert(TURN_STATE, turn_state);
    }
    response
}

fn without_socket_beta(mut headers: HeaderMap) -> HeaderMap {
    let Some(betas) = headers.get(BETA).and_then(|value| value.to_str().ok()) else { return headers };
    let others = betas.split(',').map(str::trim).filter(|beta| !beta.starts_with(SOCKET_BETA));
    let others = others.collect::<Vec<_>>().join(", ");
    match HeaderValue::from_str(&others) {
        Ok(others) if !others.is_empty() => headers.insert(BETA, others),
        _ => headers.remove(BETA),
    };
    headers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_beta_of_sockets_does_not_reach_an_upstream_that_is_asked_over_http() {
        for (given, left) in [
            ("responses_websockets=2026-02-06", None),
            ("a=1, responses_websockets=2026-02-06,b", Some("a=1, b")),
            ("a=1", Some("a=1")),
        ] {
            let headers = HeaderMap::from_iter([(BETA, HeaderValue::from_static(given))]);
            let headers = without_socket_beta(headers);
            assert_eq!(headers.get(BETA).map(|value| value.to_str().unwrap()), left, "{given}");
        }
    }
}
