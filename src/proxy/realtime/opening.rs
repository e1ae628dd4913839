//! The request for a conversation: who asks, and for which model.

use std::sync::Arc;

use hyper::header::{AUTHORIZATION, HeaderMap, HeaderValue, SEC_WEBSOCKET_PROTOCOL, UPGRADE};

use crate::dialect::Dialect;
use crate::http::websocket::Handshake;
use crate::http::{Request, Response, too_many_of_peer};
use crate::proxy::Proxy;
use crate::time::monotonic_ms;

use super::attempt::Opening;
use crate::proxy::admit::admit_model;
use crate::proxy::call::Head;
use crate::proxy::operation::{CallKind, Operation};
use crate::proxy::pipeline;
use crate::proxy::reply::{ErrorShape, closing};
use crate::proxy::socket_opener::SocketOpener;

/// The surface whose headers and errors it shares.
const SURFACE: Dialect = Dialect::Audio;
/// The protocol that clients offer. Browsers cannot send headers: they offer a second protocol, of this prefix and their key.
const PROTOCOL: &str = "realtime";
const KEY_PROTOCOL: &str = "openai-insecure-api-key.";

/// Serves `GET /v1/realtime` with `Upgrade: websocket`.
pub(in crate::proxy) async fn open(proxy: Arc<Proxy>, mut request: Request) -> Response {
    take_key(&mut request.headers);
    let shape = ErrorShape::of(&request.headers, Some(SURFACE), request.id);
    let opener = match SocketOpener::let_in(&proxy.core, &request) {
        Ok(opener) => opener,
        Err(refused) => {
            proxy.core.note_auth_failure(request.client_ip, &refused.message());
            return closing(shape.reject_caller(&refused));
        }
    };
    if !Handshake::is_asked(&request) {
        let message = "GET /v1/realtime only opens WebSockets: send a WebSocket upgrade";
        let mut refusal = shape.refuse(426, message, None, None);
        refusal.headers_mut().insert(UPGRADE, HeaderValue::from_static("websocket"));
        return closing(refusal);
    }
    if let Err(wait) = proxy.core.rates.admit_socket(&opener.rates, monotonic_ms()) {
        return closing(too_many_of_peer(wait));
    }
    match begin(proxy, request, opener, shape).await {
        Ok(response) => response,
        Err(refusal) => closing(*refusal),
    }
}

async fn begin(
    proxy: Arc<Proxy>,
    mut request: Request,
    opener: SocketOpener,
    shape: ErrorShape,
) -> Result<Response, Box<Response>> {
    let refuse = |message: &str, field| Box::new(shape.refuse(400, message, None, field));
    let model = request.query.get("model").filter(|model| !model.trim().is_empty());
    let model =
        model.ok_or_else(|| refuse("model is required in the query string: ?model=NAME", Some("model")))?;
    let protocol = offers(&request.headers, PROTOCOL);
    let handshake = Handshake::of(&mut request).map_err(|bad| {
        let mut refusal = shape.refuse(bad.status(), bad.message(), None, None);
        bad.advise(refusal.headers_mut());
        Box::new(refusal)
    })?;
    let caller = opener.caller(&proxy.core).map_err(|refused| Box::new(shape.reject_caller(&refused)))?;
    let kind = CallKind::of_body(SURFACE, Operation::Converse);
    let head = Head::of(kind, &mut request, caller);
    let call = admit_model(&proxy, head, &model, shape).await.map_err(Box::new)?;
    let opening = Opening::new(call, opener, handshake);
    let mut response = pipeline::open_socket(&proxy, &opening).await;
    if response.status() == hyper::StatusCode::SWITCHING_PROTOCOLS {
        if protocol {
            response.headers_mut().insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(PROTOCOL));
        }
        return Ok(response);
    }
    Err(Box::new(response))
}

/// Moves a browser's key to the `Authorization` header, where other clients put theirs.
fn take_key(headers: &mut HeaderMap) {
    if headers.contains_key(AUTHORIZATION) {
        return;
    }
    let key = protocols(headers).find_map(|protocol| protocol.strip_prefix(KEY_PROTOCOL));
    if let Some(Ok(value)) = key.map(|key| HeaderValue::try_from(format!("Bearer {key}"))) {
        headers.insert(AUTHORIZATION, value);
    }
}

fn offers(headers: &HeaderMap, protocol: &str) -> bool {
    protocols(headers).any(|offered| offered == protocol)
}

fn protocols(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let lines = headers.get_all(SEC_WEBSOCKET_PROTOCOL).iter();
    lines.flat_map(|line| line.to_str().unwrap_or_default().split(',').map(str::trim))
}
