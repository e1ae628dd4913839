//! Requests that the service sends to itself: an operator tries the proxy from the admin API. Such a request takes the
//! handlers' way from authentication on, as the global token, but over no socket, so there is no header that a stranger
//! could forge to be taken for it, and no limit that it uses up.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use bytes::Bytes;
use hyper::{HeaderMap, Method, Uri};

use crate::http::bearer::LastToken;
use crate::http::body::RequestBody;
use crate::http::request::{Internal, Parts};
use crate::http::router::Found;
use crate::http::timer::ReusableTimer;
use crate::http::{Query, Request, Response};
use crate::ids::ChannelId;
use crate::proxy::Proxy;
use crate::request_id::RequestId;

/// A request of the service itself.
pub struct InternalRequest {
    pub method: Method,
    /// Path and query.
    pub target: Uri,
    pub headers: HeaderMap,
    pub body: Bytes,
    pub forced_channel: Option<ChannelId>,
}

/// The proxy's answer; `None` where it has no such route.
pub async fn send(proxy: &Arc<Proxy>, request: InternalRequest) -> Option<Response> {
    let Found::Route(route, params) = proxy.router.find(&request.method, request.target.path()) else {
        return None;
    };
    let here = Ipv4Addr::LOCALHOST;
    let parsed = Request::from(Parts {
        method: request.method,
        params,
        query: Query::new(request.target.query().unwrap_or_default()),
        uri: request.target,
        headers: request.headers,
        peer: SocketAddr::from((here, 0)),
        client_ip: here.into(),
        id: RequestId::next(),
        body: RequestBody::Own((!request.body.is_empty()).then_some(request.body)),
        timer: ReusableTimer::default(),
        first_output_timer: ReusableTimer::default(),
        last_token: LastToken::default(),
        body_limit: proxy.core.config.request_body_limit,
        memory: None,
        internal: Some(Internal { forced_channel: request.forced_channel }),
        upgrade: None,
    });
    Some(route.answer(proxy.clone(), parsed).await)
}
