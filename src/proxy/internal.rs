//! Requests that the service sends to itself, when an operator tries the proxy from the admin API. Such a request reaches the
//! handlers as the global token without authentication. It uses no socket, so there is no header that a stranger
//! could forge to pass for it, and it uses up no limit.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use bytes::Bytes;
use hyper::{HeaderMap, Method, Uri};

use crate::http::bearer::LastToken;
use crate::http::body::RequestBody;
use crate::http::request::{Internal, Parts};
use crate::http::router::RouteMatch;
use crate::http::timer::ReusableTimer;
use crate::http::{Query, Request, Response};
use crate::ids::ChannelId;
use crate::proxy::Proxy;
use crate::request_id::RequestId;

/// A request that the service makes to itself.
pub struct InternalRequest {
    pub method: Method,
    /// The path and query.
    pub target: Uri,
    pub headers: HeaderMap,
    pub body: Bytes,
    pub forced_channel: Option<ChannelId>,
}

/// Sends a request to the proxy's own routes; `None` where there is no such route.
pub async fn send(proxy: &Arc<Proxy>, request: InternalRequest) -> Option<Response> {
    let RouteMatch::Route(route, params) = proxy.router.find(&request.method, request.target.path()) else {
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
