//! One request through the layers, in order:
//!
//! ```text
//! strict head ─ CORS ─ global rate limit ─ router ─ group's authentication ─ identity's rate limit ─ handler
//!             └────────────────────────── stamps (request id, CORS) ◀──────────────────────────────────┘
//! ```
//!
//! Authentication belongs to a route, not to a prefix of a path, so there is no spelling of a path
//! that reaches a handler without it.

use std::borrow::Cow;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;

use hyper::header::{self, HeaderName, HeaderValue};
use hyper::{HeaderMap, Method, StatusCode, Version};
use percent_encoding::percent_decode_str;
use serde_json::json;

use crate::admin::{self, Admin, Caller};
use crate::background::{self, Incomplete};
use crate::console;
use crate::core::Core;
use crate::http::body::RequestBody;
use crate::http::cors::{Cors, RequestOrigin};
use crate::http::request::{Params, Parts};
use crate::http::route::Answer;
use crate::http::router::RouteMatch;
use crate::http::server::Connection;
use crate::http::wire_body::WireBody;
use crate::http::{
    self, Access, Endpoint, Query, Request, Response, ResponseBody, Route, address, strict,
    too_many_of_identity, too_many_of_peer,
};
use crate::limits::{BodyOwner, RateWindow};
use crate::metrics::Surface;
use crate::proxy::Proxy;
use crate::proxy::foreign::ForeignApi;
use crate::proxy::reply::ErrorShape;
use crate::request_id::RequestId;
use crate::time::monotonic_ms;

const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// Exempt from the rate limit of clients: a refused health check would have the service restarted.
const HEALTH_PATH: &str = "/api/desktop/health";

/// After how many seconds to send a request again that a stop has cut off.
const RETRY_AFTER_STOP: u32 = 5;

/// The service that answers all requests.
pub struct Service {
    core: Arc<Core>,
    proxy: Arc<Proxy>,
    admin: Arc<Admin>,
    cors: Cors,
    body_limit: usize,
}

/// The service for the requests of one connection.
pub struct PeerService {
    service: Arc<Service>,
    /// The rate window of its peer, over all connections.
    requests: Arc<RateWindow>,
}

impl Service {
    pub fn new(core: &Arc<Core>, proxy: &Arc<Proxy>, admin: &Arc<Admin>) -> Self {
        Self {
            core: core.clone(),
            proxy: proxy.clone(),
            admin: admin.clone(),
            cors: Cors::new(core.config.cors_allowed_origins.clone()),
            body_limit: core.config.request_body_limit,
        }
    }

    /// Returns the service for a connection from `peer`.
    pub fn of_peer(self: &Arc<Self>, peer: SocketAddr) -> PeerService {
        let requests = self.core.rates.of_peer(peer.ip(), monotonic_ms());
        PeerService { service: self.clone(), requests }
    }

    /// Answers one request. Everything up to the handler is done at once, so that no future stores a request's head.
    fn answer(
        self: Arc<Self>,
        request: hyper::Request<WireBody>,
        connection: Connection,
        requests: &RateWindow,
    ) -> impl Future<Output = Response> + Send + use<> {
        let id = RequestId::next();
        let (head, body) = request.into_parts();
        let origin = RequestOrigin::of(&head.headers);
        let is_operators = is_admin_path(head.uri.path()) || is_first_segment(head.uri.path(), "metrics");
        let closes = head.version == Version::HTTP_10
            || http::websocket::names(&head.headers, header::CONNECTION, "close");
        let method = head.method.clone();
        let (surface, routed) = self.route(head, body, connection, requests, id);
        async move {
            let mut response = match routed {
                Routed::Refused(response) => response,
                Routed::To { path, answer, is_change } => {
                    let answered = self.run(answer, is_change).await;
                    answered.unwrap_or_else(|incomplete| match incomplete {
                        Incomplete::Panicked(panic) => {
                            log::error!("{method} {path} [{}] panicked: {panic}", id.as_str());
                            refuse_at(path, id, StatusCode::INTERNAL_SERVER_ERROR, "Internal error")
                        }
                        Incomplete::Stopping => refuse_stopped(path, id, is_change),
                    })
                }
            };
            self.core.metrics.answered(surface, response.status().as_u16());
            if method == Method::HEAD {
                remove_body(&mut response);
            }
            if closes {
                // The server says so itself; beside it a stream's `keep-alive` would contradict.
                response.headers_mut().remove(header::CONNECTION);
            }
            response.headers_mut().insert(X_REQUEST_ID, id.header_value());
            self.cors.put_headers(&origin, is_operators, &mut response);
            response
        }
    }

    /// Runs a handler, at the longest until the grace period of a stop is over; a change is completed even if its client
    /// hangs up.
    async fn run(&self, answer: Answer, is_change: bool) -> Result<Response, Incomplete> {
        let answered = if is_change {
            let change = self.core.background.run_to_completion("an admin change", Box::pin(answer));
            // Boxed, because it is rare and would enlarge every future.
            Box::pin(self.core.until_cut(change)).await
        } else {
            let answer = self.core.until_cut(background::catch_panic(answer)).await;
            answer.map(|answered| answered.map_err(Incomplete::Panicked))
        };
        answered.unwrap_or(Err(Incomplete::Stopping))
    }

    /// Answers requests before routing: a malformed head, a CORS preflight, or a peer that sends too many requests.
    fn refuse_head(
        &self,
        head: &hyper::http::request::Parts,
        connection: &Connection,
        requests: &RateWindow,
        id: RequestId,
    ) -> Option<Response> {
        let fault = connection.head_fault();
        if let Err(refusal) = strict::check(&head.method, &head.uri, head.version, &head.headers, fault) {
            let path = usual_path(&head.method, head.uri.path());
            let mut response = refuse(&head.headers, &path, id, refusal.status, refusal.message);
            response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
            if refusal.status == StatusCode::METHOD_NOT_ALLOWED {
                response.headers_mut().insert(
                    header::ALLOW,
                    HeaderValue::from_static("GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"),
                );
            }
            return Some(response);
        }
        if head.uri.path() != "*"
            && let Some(response) = self.cors.preflight(&head.method, &head.headers)
        {
            return Some(response);
        }
        // Limited by the socket's peer: a claim in a header gives nobody a bucket of its own.
        let is_health_check =
            matches!(head.method, Method::GET | Method::HEAD) && head.uri.path() == HEALTH_PATH;
        if is_health_check {
            return None;
        }
        let wait = self.core.rates.admit_peer(requests, monotonic_ms()).err()?;
        let mut refusal = too_many_of_peer(wait);
        if head.headers.contains_key(header::UPGRADE) {
            // A client that wanted a socket cannot use the connection.
            refusal.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        Some(refusal)
    }

    /// Finds the route and starts its handler, after its authentication.
    fn route(
        &self,
        mut head: hyper::http::request::Parts,
        body: WireBody,
        connection: Connection,
        requests: &RateWindow,
        id: RequestId,
    ) -> (Surface, Routed) {
        let refused = |surface, response| (surface, Routed::Refused(response));
        if let Some(response) = self.refuse_head(&head, &connection, requests, id) {
            return refused(Surface::Other, response);
        }
        let peer = connection.peer.ip();
        let client_ip = address::client_ip(peer, &head.headers, &self.core.config.trusted_proxies);
        let (route, params) = match self.find(&head, id) {
            Ok(found) => found,
            Err(response) => {
                // Every path under /api requires the token, even one that does not exist.
                let path = head.uri.path();
                let is_admin = is_admin_path(path) && ForeignApi::at(path).is_none();
                let caller = Caller { peer, client: client_ip, headers: &head.headers };
                let refusal = if is_admin { self.refuse_admin(&caller) } else { None };
                return refused(Surface::Other, refusal.unwrap_or(*response));
            }
        };
        let body = RequestBody::of(&mut head.headers, body);
        let memory = body.may_be_long().then(|| self.core.body_memory.body(BodyOwner::Operator));
        let mut request = Request::from(Parts {
            params,
            query: Query::new(head.uri.query().unwrap_or_default()),
            uri: head.uri,
            method: head.method,
            headers: head.headers,
            peer: connection.peer,
            timer: connection.timer.clone(),
            first_output_timer: connection.first_output_timer.clone(),
            last_token: connection.last_token.clone(),
            upgrade: connection.upgrade(&mut head.extensions),
            client_ip,
            id,
            body,
            body_limit: self.body_limit,
            memory,
            internal: None,
        });
        request.belongs_to(BodyOwner::Operator);
        let Endpoint { path, access, surface, is_change, .. } = route.endpoint();
        let caller = Caller { peer, client: client_ip, headers: &request.headers };
        if *access == Access::Admin
            && let Some(response) = self.refuse_admin(&caller)
        {
            return refused(*surface, response);
        }
        let answer = match route {
            FaceRoute::Proxy(route) => route.answer(self.proxy.clone(), request),
            FaceRoute::Admin(route) => route.answer(self.admin.clone(), request),
        };
        (*surface, Routed::To { path, answer, is_change: *is_change })
    }

    /// Returns the route of a method and a path, with the parameters in the path; otherwise the response to send.
    fn find(
        &self,
        head: &hyper::http::request::Parts,
        id: RequestId,
    ) -> Result<(FaceRoute<'_>, Params), Box<Response>> {
        let path = &*usual_path(&head.method, head.uri.path());
        let found = match self.proxy.router.find(&head.method, path) {
            RouteMatch::Nothing => self.admin.router.find(&head.method, path).map(FaceRoute::Admin),
            found => found.map(FaceRoute::Proxy),
        };
        if let RouteMatch::Nothing = found
            && let Some(page) = self.console(head)
        {
            return Err(Box::new(page));
        }
        let response = match found {
            RouteMatch::Route(route, params) => return Ok((route, params)),
            RouteMatch::OtherMethods(allow) => {
                let message = format!("Method not allowed, use {allow}");
                let mut response = refuse(&head.headers, path, id, StatusCode::METHOD_NOT_ALLOWED, &message);
                if let Ok(allow) = HeaderValue::from_str(&allow) {
                    response.headers_mut().insert(header::ALLOW, allow);
                }
                response
            }
            RouteMatch::Nothing => match (ForeignApi::at(path), ErrorShape::at(path, &head.headers, id)) {
                (Some(foreign), _) => foreign.no_such_path(),
                (None, Some(shape)) => shape.no_such_path(path),
                (None, None) => self
                    .page(head)
                    .unwrap_or_else(|| refuse(&head.headers, path, id, StatusCode::NOT_FOUND, "Not found")),
            },
        };
        Err(Box::new(response))
    }

    /// Returns a page or file of the console.
    fn console(&self, head: &hyper::http::request::Parts) -> Option<Response> {
        let is_served = self.core.config.console_enabled;
        is_served.then(|| console::answer(&head.method, head.uri.path(), &head.headers))?
    }

    /// Returns the console's page in place of a path that neither the API nor the console knows.
    fn page(&self, head: &hyper::http::request::Parts) -> Option<Response> {
        let path = head.uri.path();
        let is_served = self.core.config.console_enabled && !is_admin_path(path);
        is_served.then(|| console::page_for_unknown_path(&head.method, path, &head.headers))?
    }

    /// Refuses a request to the admin API whose sender is not the admin or sends too many requests.
    fn refuse_admin(&self, caller: &Caller<'_>) -> Option<Response> {
        if let Err(error) = admin::authorize(&self.core, caller) {
            self.core.note_auth_failure(caller.client, error.message());
            return Some(error.into_response());
        }
        let admitted = self.core.rates.admit_request(&self.core.rates.admin, monotonic_ms());
        admitted.err().map(too_many_of_identity)
    }
}

/// Returns the path by which a path of OpenAI's API is routed. Some clients add `/v1` to a base address that already has it,
/// Groq's SDK adds `/openai/v1` as addresses of Azure do, and Google has its compatible API below `/v1beta/openai`.
fn usual_path<'p>(method: &Method, path: &'p str) -> Cow<'p, str> {
    if let Some(rest) = path.strip_prefix("/v1beta/openai/") {
        // Gemini's API has calls of models there, of which the name begins with `openai/`.
        let is_geminis = *method == Method::POST && percent_decode_str(rest).any(|byte| byte == b':');
        return if is_geminis { path.into() } else { format!("/v1/{rest}").into() };
    }
    let prefix = ["/v1", "/openai"]
        .into_iter()
        .find(|prefix| path.strip_prefix(prefix).is_some_and(|rest| rest.starts_with("/v1/")));
    path[prefix.map_or(0, str::len)..].into()
}

/// Whether a path is under `/api`, even if its first segment is percent-encoded.
fn is_admin_path(path: &str) -> bool {
    is_first_segment(path, "api")
}

fn is_first_segment(path: &str, name: &str) -> bool {
    let first = path.split('/').nth(1).unwrap_or_default();
    percent_decode_str(first).eq(name.bytes())
}

impl PeerService {
    /// Answers one request. Never fails and never panics: a handler's panic becomes a 500.
    pub fn answer(
        &self,
        request: hyper::Request<WireBody>,
        connection: Connection,
    ) -> impl Future<Output = Response> + Send + use<> {
        self.service.clone().answer(request, connection, &self.requests)
    }
}

/// A route of the proxy or of the admin API.
enum FaceRoute<'a> {
    Proxy(&'a Route<Proxy>),
    Admin(&'a Route<Admin>),
}

impl<'a> FaceRoute<'a> {
    fn endpoint(&self) -> &'a Endpoint {
        match self {
            Self::Proxy(route) => route.endpoint(),
            Self::Admin(route) => route.endpoint(),
        }
    }
}

/// The result of handling a request's head.
enum Routed {
    Refused(Response),
    /// The path of the route, and its running handler.
    To {
        path: &'static str,
        answer: Answer,
        /// Whether it is completed even if its client hangs up: a committed change must take effect.
        is_change: bool,
    },
}

/// Builds the answer to a request that the end of the grace period cuts off.
fn refuse_stopped(path: &str, id: RequestId, is_change: bool) -> Response {
    if is_change {
        let message = "The service is stopping: check whether the change was made, and send it again";
        return refuse_at(path, id, StatusCode::SERVICE_UNAVAILABLE, message);
    }
    let message = "The service stopped before it had an answer: send the request again";
    let mut response = refuse_at(path, id, StatusCode::SERVICE_UNAVAILABLE, message);
    http::set_retry_after(&mut response, RETRY_AFTER_STOP);
    response
}

/// Builds a refusal for a route whose handler did not end.
fn refuse_at(path: &str, id: RequestId, status: StatusCode, message: &str) -> Response {
    refuse(&HeaderMap::new(), path, id, status, message)
}

/// Makes a response one to HEAD, which keeps the headers but has no body.
fn remove_body(response: &mut Response) {
    let length = http_body::Body::size_hint(response.body()).exact();
    *response.body_mut() = ResponseBody::empty();
    if let Some(length) = length {
        response.headers_mut().insert(header::CONTENT_LENGTH, length.into());
    }
}

/// Builds a refusal before any handler: in the error shape of the surface for the proxy's paths, else in that of the
/// admin API.
fn refuse(headers: &HeaderMap, path: &str, id: RequestId, status: StatusCode, message: &str) -> Response {
    if let Some(shape) = ErrorShape::at(path, headers, id) {
        return shape.refuse(status.as_u16(), message, None, None);
    }
    http::json(status, &json!({ "success": false, "message": message, "error": message }))
}
