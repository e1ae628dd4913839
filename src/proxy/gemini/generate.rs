//! Gemini's own surface, whose paths name the model and the action.

use std::sync::Arc;

use crate::dialect::{Dialect, code_assist, embeddings};
use crate::http::{Request, Response};
use crate::proxy::Proxy;

use super::array_stream;
use super::cli_envelope;
use crate::proxy::auth::Caller;
use crate::proxy::operation::{CallKind, Operation, PathModel};
use crate::proxy::pipeline;
use crate::proxy::reply::ErrorShape;

/// Other actions of Google's models, according to the references of the Gemini API, of PaLM and of Vertex AI. They
/// are passed on unchanged, both ways; embeddings of texts are also served by upstreams of OpenAI's form.
const OTHER_ACTIONS: [&str; 14] = [
    embeddings::ONE,
    embeddings::SEVERAL,
    "asyncBatchEmbedContent",
    "batchEmbedText",
    "batchGenerateContent",
    "computeTokens",
    "countMessageTokens",
    "countTextTokens",
    "embedText",
    "generateAnswer",
    "generateMessage",
    "generateText",
    "predict",
    "predictLongRunning",
];

/// Serves `POST …/models/{model}:{action}`; a model's name may contain slashes and colons.
///
/// A client that streams without `alt=sse` gets one JSON array, piece by piece.
pub(in crate::proxy) async fn call(proxy: Arc<Proxy>, request: Request, caller: Caller) -> Response {
    let shape = ErrorShape::new(Dialect::Gemini, request.id);
    let named = match request.params.get("vendor") {
        "" => request.params.get("model").to_owned(),
        vendor => format!("{vendor}/{}", request.params.get("model")),
    };
    let is_whole = |(model, action): &(&str, &str)| !model.trim().is_empty() && !action.is_empty();
    let Some((model, action)) = named.rsplit_once(':').filter(is_whole) else {
        return shape.refuse(400, "The path must end in models/{model}:{action}", None, Some("model"));
    };
    let (operation, stream) = match action {
        "generateContent" => (Operation::Answer, false),
        "streamGenerateContent" => (Operation::Answer, true),
        "countTokens" => (Operation::CountTokens, false),
        _ => match OTHER_ACTIONS.into_iter().find(|known| *known == action) {
            Some(known) => (Operation::OfGemini(known), false),
            None => return shape.refuse(404, &format!("There is no action {action} here"), None, None),
        },
    };
    let version = named_version(request.params.get("version"));
    let of_path = Some(PathModel { model: model.trim().to_owned(), stream, version });
    let wants_array = stream && request.query.get("alt").as_deref() != Some("sse");
    let kind = CallKind { dialect: Dialect::Gemini, operation, of_path };
    let answer = pipeline::serve(proxy, kind, request, caller).await;
    if wants_array { array_stream::of(answer) } else { answer }
}

/// Serves `POST /v1internal:{action}`: the Gemini CLI's form of these calls, in its envelope.
pub(in crate::proxy) async fn call_of_cli(
    proxy: Arc<Proxy>,
    mut request: Request,
    caller: Caller,
    operation: Operation,
    stream: bool,
) -> Response {
    let shape = ErrorShape::new(Dialect::Gemini, request.id);
    let body = match request.bytes().await {
        Ok(body) => body,
        Err(error) => return shape.body_error(&error),
    };
    let open = || code_assist::open(&body);
    let opened = match proxy.conversions.read_through(body.len(), open).await {
        Ok(opened) => opened,
        Err(unusable) => return shape.refuse(400, unusable.message, None, unusable.field),
    };
    let of_path = Some(PathModel { model: opened.model, stream, version: None });
    let kind = CallKind { dialect: Dialect::Gemini, operation, of_path };
    let answer = pipeline::serve_body(proxy, kind, request, opened.body, caller).await;
    if operation == Operation::Answer { cli_envelope::seal(answer) } else { answer }
}

/// Returns the version in `/gemini/{version}/…`, if it is one (`v1`, `v1alpha`) and not the usual one.
fn named_version(named: &str) -> Option<Box<str>> {
    let is_version = named.strip_prefix('v').is_some_and(|rest| {
        rest.starts_with(|first: char| first.is_ascii_digit())
            && rest.len() < 16
            && rest.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
    });
    (is_version && named != "v1beta").then(|| named.into())
}
