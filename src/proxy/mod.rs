//! `/v1/*`: every surface over one pipeline.
//!
//! ```text
//! auth      who calls                         pipeline  read → route → attempts
//! call      one request, kept for retries     exchange  one attempt: addresses, dialects, sending
//! formats   which dialect to ask in           outgoing  the body an upstream gets
//! attempt   a try that settles itself         commit    judge and hold the answer
//! recovery  a refused request in other words
//! relay, long_reply                           the answer on its way out
//! failure   why a try failed, what follows    reply     errors in the surface's shape
//! headers   what crosses, both ways           models    the model lists
//! gemini    the surface whose paths name the model           responses_ws  responses over a WebSocket
//! array_stream  streams of gemini without events                      cli_envelope  what its command line puts around them
//! search    searches of the web              rewritten  the body of an answer that such as these write anew
//! forms     requests that come as forms         videos    creating, polling and downloading videos
//! call_signatures                               what clients cannot carry until their next request
//! quota     a call counted against its key    cost      what an answer cost
//! trace     what an operator has recorded     redact    what of it may be kept
//! client    who is calling, by its own words  session   a conversation and its channel
//! response_store  answers that a client may go on from                   renamed   answers under the name asked for
//! files     what clients upload                alerts   one alert for requests nobody could serve
//! internal  requests of the service itself
//! ```

mod alerts;
mod array_stream;
mod attempt;
pub mod auth;
mod call;
mod call_signatures;
mod cli_envelope;
mod client;
mod commit;
mod cost;
mod exchange;
mod failure;
mod files;
mod formats;
mod forms;
mod gemini;
mod headers;
pub mod internal;
mod long_reply;
mod models;
mod outgoing;
mod pipeline;
mod quota;
mod recovery;
mod redact;
mod relay;
mod renamed;
pub mod reply;
mod response_store;
mod responses_ws;
mod rewritten;
mod search;
mod session;
mod trace;
mod videos;

use std::sync::Arc;

use hyper::Method;
use hyper::header::{HeaderValue, UPGRADE};

use crate::app::App;
use crate::dialect::Dialect;
use crate::http::websocket::Handshake;
use crate::http::{Request, Response};
use crate::metrics::Surface;
use crate::service::{Access, Route, too_many_of_identity};
use crate::time::monotonic_ms;

use auth::Caller;
use call::Operation;
pub use call_signatures::CallSignatures;
pub use formats::Memory as FormatMemory;
use reply::Face;
pub use response_store::ResponseStore;

const ONLY_FOR_SOCKETS: &str = "GET /v1/responses is for WebSocket upgrades, send POST /v1/responses";

/// Every route of the proxy interface. Each authenticates before anything else.
pub fn routes() -> Vec<Route> {
    let mut routes = Vec::new();
    for (dialect, surface, paths) in [
        (Dialect::Chat, Surface::Chat, ["/v1/chat/completions", "/chat/completions"].as_slice()),
        (Dialect::Responses, Surface::Responses, &["/v1/responses", "/responses"]),
        (Dialect::Messages, Surface::Messages, &["/v1/messages", "/anthropic/v1/messages"]),
        (Dialect::Completions, Surface::Completions, &["/v1/completions"]),
        (Dialect::Embeddings, Surface::Embeddings, &["/v1/embeddings"]),
        (Dialect::Images, Surface::Images, &["/v1/images/generations"]),
    ] {
        for path in paths {
            routes.push(route(Method::POST, path, surface, Some(dialect), move |app, request, caller| {
                pipeline::serve(app, dialect, Operation::Answer, request, caller, None)
            }));
        }
    }
    for (dialect, surface, operation, path) in [
        (Dialect::Messages, Surface::Messages, Operation::CountTokens, "/v1/messages/count_tokens"),
        (Dialect::Messages, Surface::Messages, Operation::CountTokens, "/anthropic/v1/messages/count_tokens"),
        (Dialect::Responses, Surface::Responses, Operation::Compact, "/v1/responses/compact"),
        (Dialect::Responses, Surface::Responses, Operation::Compact, "/responses/compact"),
    ] {
        routes.push(route(Method::POST, path, surface, Some(dialect), move |app, request, caller| {
            pipeline::serve(app, dialect, operation, request, caller, None)
        }));
    }
    for path in ["/v1/responses", "/responses"] {
        routes.push(socket(path));
    }
    for path in ["/v1/responses/compact", "/responses/compact"] {
        let what = (Surface::Responses, Dialect::Responses);
        routes.push(refusing(Method::GET, path, what, 426, ONLY_FOR_SOCKETS));
    }
    let images = (Surface::Images, Some(Dialect::Images));
    routes.push(route(Method::POST, "/v1/images/edits", images.0, images.1, |app, request, caller| {
        forms::serve(app, Dialect::Images, Operation::EditImage, request, caller)
    }));
    routes.push(refusing(
        Method::POST,
        "/v1/images/variations",
        (Surface::Images, Dialect::Images),
        400,
        "Variations of images are not offered, send an edit to /v1/images/edits",
    ));
    let files = "/v1/files";
    let (file, content) = ("/v1/files/{id}", "/v1/files/{id}/content");
    routes.push(route(Method::POST, files, Surface::Files, None, files::upload));
    routes.push(route(Method::GET, files, Surface::Files, None, files::list));
    routes.push(route(Method::GET, file, Surface::Files, None, files::get));
    routes.push(route(Method::DELETE, file, Surface::Files, None, files::delete));
    routes.push(route(Method::GET, content, Surface::Files, None, files::content));
    let videos = "/v1/videos";
    let (video, content) = ("/v1/videos/{id}", "/v1/videos/{id}/content");
    routes.push(route(Method::POST, videos, Surface::Videos, Some(videos::SURFACE), videos::create));
    routes.push(route(Method::GET, video, Surface::Videos, None, videos::get));
    routes.push(route(Method::DELETE, video, Surface::Videos, None, videos::delete));
    routes.push(route(Method::GET, content, Surface::Videos, None, videos::content));
    for path in ["/v1beta/models/{call}", "/gemini/{version}/models/{call}"] {
        routes.push(route(Method::POST, path, Surface::Chat, Some(Dialect::Gemini), gemini::call));
    }
    for (path, operation, stream) in [
        ("/v1internal:generateContent", Operation::Answer, false),
        ("/v1internal:streamGenerateContent", Operation::Answer, true),
        ("/v1internal:countTokens", Operation::CountTokens, false),
    ] {
        routes.push(route(
            Method::POST,
            path,
            Surface::Chat,
            Some(Dialect::Gemini),
            move |app, request, caller| gemini::call_of_cli(app, request, caller, operation, stream),
        ));
    }
    routes.push(route(Method::POST, "/v1/search", Surface::Other, Some(Dialect::Chat), search::search));
    for path in ["/v1beta/models", "/gemini/{version}/models"] {
        routes.push(route(Method::GET, path, Surface::Models, Some(Dialect::Gemini), models::gemini_list));
    }
    routes.push(route(Method::GET, "/v1/models", Surface::Models, None, models::list));
    routes.push(route(Method::GET, "/v1/models/{*model}", Surface::Models, None, models::get));
    routes
}

/// Opens a WebSocket for who asks for one, and tells others what the path is for.
fn socket(path: &'static str) -> Route {
    let dialect = Some(Dialect::Responses);
    Route::new(
        Method::GET,
        path,
        Access::Proxy,
        Surface::Responses,
        move |app, request: Request| async move {
            if Handshake::is_asked(&request) {
                return responses_ws::open(app, request);
            }
            let_in(app, request, dialect, |_, request, _| async move {
                let face = Face { dialect: Dialect::Responses, id: request.id };
                let mut response = face.refuse(426, ONLY_FOR_SOCKETS, None, None);
                response.headers_mut().insert(UPGRADE, HeaderValue::from_static("websocket"));
                response
            })
            .await
        },
    )
}

/// A route that refuses every caller it knows.
fn refusing(
    method: Method,
    path: &'static str,
    (surface, dialect): (Surface, Dialect),
    status: u16,
    message: &'static str,
) -> Route {
    route(method, path, surface, Some(dialect), move |_, request, _| {
        let face = Face { dialect, id: request.id };
        std::future::ready(face.refuse(status, message, None, None))
    })
}

/// A route whose handler is only reached by a caller that was let in.
fn route<H, F>(
    method: Method,
    path: &'static str,
    surface: Surface,
    dialect: Option<Dialect>,
    handler: H,
) -> Route
where
    H: Fn(Arc<App>, Request, Caller) -> F + Copy + Send + Sync + 'static,
    F: Future<Output = Response> + Send + 'static,
{
    Route::new(method, path, Access::Proxy, surface, move |app: Arc<App>, request: Request| {
        let_in(app, request, dialect, handler)
    })
}

/// Hands a request of a caller that is let in to its handler.
async fn let_in<H, F>(app: Arc<App>, request: Request, dialect: Option<Dialect>, handler: H) -> Response
where
    H: FnOnce(Arc<App>, Request, Caller) -> F,
    F: Future<Output = Response>,
{
    if let Some(internal) = request.internal {
        let caller = Caller { key: None, forced_channel: internal.forced_channel };
        return handler(app, request, caller).await;
    }
    let local = auth::is_local(request.peer.ip(), request.client_ip);
    let caller = auth::authenticate(&app, &request.headers, &request.query, local);
    match caller {
        Ok(caller) => match app.rates.admit_identity(caller.identity(), monotonic_ms()) {
            Ok(()) => handler(app, request, caller).await,
            Err(wait) => too_many_of_identity(wait),
        },
        Err(refused) => Face::of(&request.headers, dialect, request.id).reject_caller(&refused),
    }
}
