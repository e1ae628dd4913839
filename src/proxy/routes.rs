//! The routes of the proxy interface. Each authenticates the caller before anything else.

use std::sync::Arc;

use hyper::Method;
use hyper::header::{HeaderValue, UPGRADE};

use crate::core::Core;
use crate::dialect::Dialect;
use crate::http::websocket::Handshake;
use crate::http::{Access, Request, Response, Route, too_many_of_identity};
use crate::metrics::Surface;
use crate::proxy::Proxy;
use crate::time::monotonic_ms;

use super::auth::{self, AuthRefusal, Caller, PresentedToken};
use super::key::usage;
use super::operation::{CallKind, Operation};
use super::reply::ErrorShape;
use super::responses::by_id;
use super::{batches, files, forms, gemini, models, pipeline, realtime, responses_ws, search, videos};

/// The dialect whose error shape is used by surfaces that take one JSON object and answer with one.
const PLAIN_OBJECTS: Dialect = Dialect::Embeddings;
const ONLY_FOR_SOCKETS: &str = "GET /v1/responses is for WebSocket upgrades, send POST /v1/responses";

/// Builds every route of the proxy interface.
pub fn routes() -> Vec<Route<Proxy>> {
    [
        generation(),
        responses_sockets(),
        realtime(),
        kept_responses(),
        forms_of_media(),
        file_routes(),
        video_routes(),
        batch_routes(),
        gemini_calls(),
        search_and_models(),
        usage_of_keys(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Builds the routes of model calls whose body is one JSON object.
fn generation() -> Vec<Route<Proxy>> {
    use Operation::{Answer, Compact, CountTokens, Moderate, Rerank, RerankV2, Speak};
    let calls = [
        (Dialect::Chat, Surface::Chat, Answer, "/v1/chat/completions"),
        (Dialect::Chat, Surface::Chat, Answer, "/chat/completions"),
        (Dialect::Responses, Surface::Responses, Answer, "/v1/responses"),
        (Dialect::Responses, Surface::Responses, Answer, "/responses"),
        (Dialect::Responses, Surface::Responses, Answer, "/backend-api/codex/responses"),
        (Dialect::Messages, Surface::Messages, Answer, "/v1/messages"),
        (Dialect::Messages, Surface::Messages, Answer, "/anthropic/v1/messages"),
        (Dialect::Completions, Surface::Completions, Answer, "/v1/completions"),
        (Dialect::Embeddings, Surface::Embeddings, Answer, "/v1/embeddings"),
        (Dialect::Images, Surface::Images, Answer, "/v1/images/generations"),
        (Dialect::Messages, Surface::Messages, CountTokens, "/v1/messages/count_tokens"),
        (Dialect::Messages, Surface::Messages, CountTokens, "/anthropic/v1/messages/count_tokens"),
        (Dialect::Responses, Surface::Responses, CountTokens, "/v1/responses/input_tokens"),
        (Dialect::Responses, Surface::Responses, Compact, "/v1/responses/compact"),
        (Dialect::Responses, Surface::Responses, Compact, "/responses/compact"),
        (Dialect::Responses, Surface::Responses, Compact, "/backend-api/codex/responses/compact"),
        (Dialect::Audio, Surface::Audio, Speak, "/v1/audio/speech"),
        (PLAIN_OBJECTS, Surface::Other, Rerank, "/v1/rerank"),
        (PLAIN_OBJECTS, Surface::Other, RerankV2, "/v2/rerank"),
        (PLAIN_OBJECTS, Surface::Other, Moderate, "/v1/moderations"),
    ];
    let post = |(dialect, surface, operation, path)| {
        route(Method::POST, path, surface, Some(dialect), move |proxy, request, caller| {
            pipeline::serve(proxy, CallKind::of_body(dialect, operation), request, caller)
        })
    };
    calls.into_iter().map(post).collect()
}

/// Builds the routes for responses over a WebSocket, and those that refuse a GET for lack of one.
fn responses_sockets() -> Vec<Route<Proxy>> {
    let compact = |path| {
        route(Method::GET, path, Surface::Responses, Some(Dialect::Responses), |_, request, _| {
            let shape = ErrorShape::of(&request.headers, Some(Dialect::Responses), request.id);
            std::future::ready(shape.refuse(426, ONLY_FOR_SOCKETS, None, None))
        })
    };
    vec![
        socket("/v1/responses"),
        socket("/responses"),
        // Codex asks here, below the address of its own service.
        socket("/backend-api/codex/responses"),
        compact("/v1/responses/compact"),
        compact("/responses/compact"),
    ]
}

/// Builds the route for speech conversations over a WebSocket.
fn realtime() -> Vec<Route<Proxy>> {
    let open = |proxy, request| realtime::open(proxy, request);
    vec![Route::new(Method::GET, "/v1/realtime", Access::Proxy, Surface::Audio, open)]
}

/// Builds the routes for operations on earlier responses.
fn kept_responses() -> Vec<Route<Proxy>> {
    let (surface, dialect) = (Surface::Responses, Some(Dialect::Responses));
    let (one, cancel, items) =
        ("/v1/responses/{id}", "/v1/responses/{id}/cancel", "/v1/responses/{id}/input_items");
    vec![
        route(Method::GET, one, surface, dialect, by_id::get),
        route(Method::DELETE, one, surface, dialect, by_id::delete),
        route(Method::POST, cancel, surface, dialect, by_id::cancel),
        route(Method::GET, items, surface, dialect, by_id::input_items),
    ]
}

/// Builds the routes of calls that are sent as forms.
fn forms_of_media() -> Vec<Route<Proxy>> {
    use Operation::{EditImage, Transcribe, TranslateSpeech, VaryImage};
    let calls = [
        (Dialect::Images, Surface::Images, EditImage),
        (Dialect::Images, Surface::Images, VaryImage),
        (Dialect::Audio, Surface::Audio, Transcribe),
        (Dialect::Audio, Surface::Audio, TranslateSpeech),
    ];
    let post = |(dialect, surface, operation): (Dialect, Surface, Operation)| {
        let path = operation.path(dialect);
        route(Method::POST, path, surface, Some(dialect), move |proxy, request, caller| {
            forms::serve(proxy, CallKind::of_body(dialect, operation), request, caller)
        })
    };
    calls.into_iter().map(post).collect()
}

fn file_routes() -> Vec<Route<Proxy>> {
    let (all, one, content) = ("/v1/files", "/v1/files/{id}", "/v1/files/{id}/content");
    vec![
        route(Method::POST, all, Surface::Files, None, files::upload),
        route(Method::GET, all, Surface::Files, None, files::list),
        // These also serve the files that batches have made.
        route(Method::GET, one, Surface::Files, None, batches::file),
        route(Method::DELETE, one, Surface::Files, None, batches::file_deletion),
        route(Method::GET, content, Surface::Files, None, batches::file_content),
    ]
}

fn video_routes() -> Vec<Route<Proxy>> {
    let (all, one, content) = ("/v1/videos", "/v1/videos/{id}", "/v1/videos/{id}/content");
    vec![
        route(Method::POST, all, Surface::Videos, Some(videos::SURFACE), videos::create),
        route(Method::GET, one, Surface::Videos, None, videos::get),
        route(Method::DELETE, one, Surface::Videos, None, videos::delete),
        route(Method::GET, content, Surface::Videos, None, videos::content),
    ]
}

/// Builds the routes of batches, OpenAI's and Anthropic's.
fn batch_routes() -> Vec<Route<Proxy>> {
    let (all, one, cancel) = ("/v1/batches", "/v1/batches/{id}", "/v1/batches/{id}/cancel");
    let (surface, dialect) = (Surface::Other, Some(Dialect::Messages));
    let mut routes = vec![
        route(Method::POST, all, surface, Some(PLAIN_OBJECTS), batches::create),
        route(Method::GET, all, surface, Some(PLAIN_OBJECTS), batches::list),
        route(Method::GET, one, surface, Some(PLAIN_OBJECTS), batches::get),
        route(Method::POST, cancel, surface, Some(PLAIN_OBJECTS), batches::cancel),
    ];
    let of_messages = [
        [
            "/v1/messages/batches",
            "/v1/messages/batches/{id}",
            "/v1/messages/batches/{id}/cancel",
            "/v1/messages/batches/{id}/results",
        ],
        [
            "/anthropic/v1/messages/batches",
            "/anthropic/v1/messages/batches/{id}",
            "/anthropic/v1/messages/batches/{id}/cancel",
            "/anthropic/v1/messages/batches/{id}/results",
        ],
    ];
    for [all, one, cancel, results] in of_messages {
        routes.extend([
            route(Method::POST, all, surface, dialect, batches::create_messages),
            route(Method::GET, all, surface, dialect, batches::list_messages),
            route(Method::GET, one, surface, dialect, batches::get_messages),
            route(Method::DELETE, one, surface, dialect, batches::delete_messages),
            route(Method::POST, cancel, surface, dialect, batches::cancel_messages),
            route(Method::GET, results, surface, dialect, batches::results_of_messages),
        ]);
    }
    routes
}

/// Builds the routes of Gemini, whose paths name the model and the operation, and those of the Gemini CLI.
fn gemini_calls() -> Vec<Route<Proxy>> {
    let dialect = Some(Dialect::Gemini);
    let call = |path| route(Method::POST, path, Surface::Gemini, dialect, gemini::call);
    let of_cli = |path, operation, stream| {
        route(Method::POST, path, Surface::Gemini, dialect, move |proxy, request, caller| {
            gemini::call_of_cli(proxy, request, caller, operation, stream)
        })
    };
    vec![
        call("/v1beta/models/{*model}"),
        // Google's SDKs ask for version 1 unless configured otherwise.
        call("/v1/models/{*model}"),
        call("/gemini/{version}/models/{*model}"),
        // Several of Google's SDKs put `models/` only before names without a slash.
        call("/v1beta/{vendor}/{*model}"),
        of_cli("/v1internal:generateContent", Operation::Answer, false),
        of_cli("/v1internal:streamGenerateContent", Operation::Answer, true),
        of_cli("/v1internal:countTokens", Operation::CountTokens, false),
    ]
}

/// Builds the routes of web searches and model lists.
fn search_and_models() -> Vec<Route<Proxy>> {
    let gemini = |path| route(Method::GET, path, Surface::Models, Some(Dialect::Gemini), models::gemini_list);
    let gemini_one =
        |path| route(Method::GET, path, Surface::Models, Some(Dialect::Gemini), models::gemini_get);
    let alpha = |path| route(Method::POST, path, Surface::Other, Some(Dialect::Chat), search::alpha);
    let search = |path| route(Method::POST, path, Surface::Other, Some(Dialect::Chat), search::search);
    vec![
        search("/v1/search"),
        alpha("/v1/alpha/search"),
        alpha("/backend-api/codex/alpha/search"),
        gemini("/v1beta/models"),
        gemini("/gemini/{version}/models"),
        gemini_one("/v1beta/models/{*model}"),
        gemini_one("/gemini/{version}/models/{*model}"),
        route(Method::GET, "/v1/models", Surface::Models, None, models::list),
        route(Method::GET, "/v1/models/{*model}", Surface::Models, None, models::get),
    ]
}

/// Builds the routes that report a key's usage, which also answer a key that is used up. Chat clients ask below their base
/// URL, with the version or without.
fn usage_of_keys() -> Vec<Route<Proxy>> {
    let [subscriptions, usages] = [
        ["/v1/dashboard/billing/subscription", "/dashboard/billing/subscription"],
        ["/v1/dashboard/billing/usage", "/dashboard/billing/usage"],
    ];
    let mut routes = vec![usage_route("/v1/usage", usage::usage)];
    routes.extend(subscriptions.map(|path| usage_route(path, usage::subscription)));
    routes.extend(usages.map(|path| usage_route(path, usage::billing_usage)));
    routes
}

/// Builds a route that opens a WebSocket on request, and refuses any other GET with 426.
fn socket(path: &'static str) -> Route<Proxy> {
    let dialect = Some(Dialect::Responses);
    Route::new(
        Method::GET,
        path,
        Access::Proxy,
        Surface::Responses,
        move |proxy, request: Request| async move {
            if Handshake::is_asked(&request) {
                return responses_ws::open(proxy, request);
            }
            authenticated(proxy, request, dialect, |_, request, _| async move {
                let shape = ErrorShape::of(&request.headers, dialect, request.id);
                let mut response = shape.refuse(426, ONLY_FOR_SOCKETS, None, None);
                response.headers_mut().insert(UPGRADE, HeaderValue::from_static("websocket"));
                response
            })
            .await
        },
    )
}

/// Builds a route whose handler is only reached by an authenticated caller.
fn route<H, F>(
    method: Method,
    path: &'static str,
    surface: Surface,
    dialect: Option<Dialect>,
    handler: H,
) -> Route<Proxy>
where
    H: Fn(Arc<Proxy>, Request, Caller) -> F + Copy + Send + Sync + 'static,
    F: Future<Output = Response> + Send + 'static,
{
    Route::new(method, path, Access::Proxy, surface, move |proxy: Arc<Proxy>, request: Request| {
        authenticated(proxy, request, dialect, handler)
    })
}

/// Builds a GET route whose handler is also reached by a caller whose key is used up.
fn usage_route<H, F>(path: &'static str, handler: H) -> Route<Proxy>
where
    H: Fn(Arc<Proxy>, Request, Caller) -> F + Copy + Send + Sync + 'static,
    F: Future<Output = Response> + Send + 'static,
{
    Route::new(
        Method::GET,
        path,
        Access::Proxy,
        Surface::Other,
        move |proxy: Arc<Proxy>, request: Request| async move {
            match let_in(&proxy.core, &request, None, auth::identify) {
                Ok(caller) => handler(proxy, request, caller).await,
                Err(refusal) => *refusal,
            }
        },
    )
}

/// Runs the handler for callers that are let in; refuses all others.
async fn authenticated<H, F>(
    proxy: Arc<Proxy>,
    mut request: Request,
    dialect: Option<Dialect>,
    handler: H,
) -> Response
where
    H: FnOnce(Arc<Proxy>, Request, Caller) -> F,
    F: Future<Output = Response>,
{
    match let_in(&proxy.core, &request, dialect, auth::authenticate) {
        Ok(caller) => {
            request.belongs_to(caller.body_owner());
            handler(proxy, request, caller).await
        }
        Err(refusal) => *refusal,
    }
}

/// Authenticates the caller and counts the request against its rate limit.
fn let_in(
    core: &Core,
    request: &Request,
    dialect: Option<Dialect>,
    authenticate: fn(&Core, &PresentedToken<'_>) -> Result<Caller, AuthRefusal>,
) -> Result<Caller, Box<Response>> {
    if let Some(internal) = &request.internal {
        return Ok(Caller { key: None, forced_channel: internal.forced_channel });
    }
    match authenticate(core, &PresentedToken::from(request)) {
        Ok(caller) => match core.rates.admit_request(caller.rates(&core.rates), monotonic_ms()) {
            Ok(()) => Ok(caller),
            Err(wait) => Err(Box::new(too_many_of_identity(wait))),
        },
        Err(refused) => {
            core.note_auth_failure(request.client_ip, &refused.message());
            Err(Box::new(ErrorShape::of(&request.headers, dialect, request.id).reject_caller(&refused)))
        }
    }
}
