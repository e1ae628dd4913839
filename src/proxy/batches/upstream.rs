//! Asks the account that has a batch about it.

use hyper::{HeaderMap, Method};

use crate::dialect::batch::BatchApi;
use crate::dialect::{judge, video};
use crate::http::{Request, Response};
use crate::proxy::Proxy;
use crate::proxy::commit::judged;
use crate::proxy::failure::Failure;
use crate::proxy::headers;
use crate::proxy::redaction;
use crate::proxy::reply::ErrorShape;
use crate::proxy::resource_upstream::{ResourceAnswer, ResourceRequest, ResourceUpstream, Unreachable};
use crate::routing::encode_component;
use crate::store::batches::{self, BatchRow};

use super::lookup::{api, dialect, has_ended};
use super::mapping::SURFACE;

/// The maximum length of an object that is stored, in bytes; a longer one is only shown.
const MAX_KEPT: usize = 64 * 1024;

/// A request about a batch, or about a file of it.
#[derive(Clone)]
pub(super) struct BatchRequest {
    pub(super) method: Method,
    pub(super) path: String,
    /// The path without ids, for messages.
    pub(super) label: &'static str,
    pub(super) accept: &'static str,
}

impl BatchRequest {
    /// Asks for the batch itself, or for the part of it at this suffix of its path.
    pub(super) fn of(method: Method, batch: &BatchRow, suffix: &'static str) -> Self {
        let (root, label) = match api(batch) {
            BatchApi::OpenAi => ("/v1/batches", "/v1/batches/{id}"),
            BatchApi::Anthropic => ("/v1/messages/batches", "/v1/messages/batches/{id}"),
        };
        let path = format!("{root}/{}{suffix}", encode_component(&batch.place.upstream_id));
        Self { method, path, label, accept: "application/json" }
    }

    /// Asks for the results that Anthropic keeps at a path of their own.
    pub(super) fn results(batch: &BatchRow) -> Self {
        let path = Self::of(Method::GET, batch, "/results").path;
        Self::bytes(path, "/v1/messages/batches/{id}/results")
    }

    /// Asks for bytes of any type.
    pub(super) fn bytes(path: String, label: &'static str) -> Self {
        Self { method: Method::GET, path, label, accept: "*/*" }
    }
}

/// Asks the account that has the batch.
pub(super) async fn ask(
    proxy: &Proxy,
    batch: &BatchRow,
    batch_request: BatchRequest,
    client: Option<&Request>,
) -> Result<ResourceAnswer, BatchUnavailable> {
    let place = &batch.place;
    let mut upstream = ResourceUpstream::of(&proxy.core, place.account_id, place.token_id).await?;
    let slot = proxy.core.leases.lease(upstream.site_id).await.map_err(|_| BatchUnavailable::Saturated)?;
    let asked = ResourceRequest {
        method: batch_request.method,
        dialect: dialect(api(batch)),
        path: batch_request.path,
        label: batch_request.label,
        accept: batch_request.accept,
        forwarded: &[],
        client,
    };
    let response = upstream.send(proxy, &asked).await?;
    Ok(ResourceAnswer { upstream, response, slot })
}

/// Why the account gave no answer.
pub(super) enum BatchUnavailable {
    Unreachable(Unreachable),
    Saturated,
    /// Its answer took longer than anybody waits.
    TooSlow,
    Failed(Box<Failure>),
}

impl std::fmt::Display for BatchUnavailable {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unreachable(Unreachable::Gone(why)) => out.write_str(why),
            Self::Unreachable(Unreachable::Misconfigured(why)) => out.write_str(why),
            Self::Unreachable(Unreachable::Store(error)) => error.fmt(out),
            Self::Saturated => out.write_str("the site has as many requests as it may have at once"),
            Self::TooSlow => out.write_str("they took too long"),
            Self::Failed(failure) => out.write_str(&failure.text),
        }
    }
}

impl From<Unreachable> for BatchUnavailable {
    fn from(unreachable: Unreachable) -> Self {
        Self::Unreachable(unreachable)
    }
}

impl From<Failure> for BatchUnavailable {
    fn from(failure: Failure) -> Self {
        Self::Failed(Box::new(failure))
    }
}

impl BatchUnavailable {
    pub(super) fn is_for_good(&self) -> bool {
        matches!(self, Self::Unreachable(Unreachable::Gone(_)))
    }

    /// Whether the upstream says that there is no such thing.
    pub(super) fn is_not_found(&self) -> bool {
        matches!(self, Self::Failed(failure) if matches!(failure.upstream_status(), Some(404 | 410)))
    }

    pub(super) fn answer(self, proxy: &Proxy, shape: ErrorShape) -> Response {
        match self {
            Self::Unreachable(Unreachable::Gone(_)) => {
                let why = "The account that this batch belongs to was deleted, or has no credential any more";
                shape.refuse(410, why, Some("batch_unreachable"), Some("batch_id"))
            }
            Self::Unreachable(Unreachable::Misconfigured(why)) => Failure::local(why).into_response(shape),
            Self::Unreachable(Unreachable::Store(error)) => shape.database_failed("Batches", &error),
            Self::TooSlow => shape.refuse(504, "The upstream took too long", None, None),
            Self::Saturated => shape.site_saturated(proxy.core.leases.rules().retry_after_secs()),
            Self::Failed(failure) => failure.into_response(shape),
        }
    }
}

/// Updates the batch with its upstream's current object, in the row and in the store. Returns the headers that are passed on.
pub(super) async fn refresh(
    proxy: &Proxy,
    batch: &mut BatchRow,
    batch_request: BatchRequest,
    client: Option<&Request>,
) -> Result<HeaderMap, BatchUnavailable> {
    let ResourceAnswer { upstream, response, slot: _slot } = ask(proxy, batch, batch_request, client).await?;
    let (head, object) = response.read().await?;
    // The object of a failed batch contains errors too: with an id it is a batch.
    if video::id(&object).is_none() {
        let fault = judge::object(SURFACE, &object).err();
        let no_id = || Failure::judged("the upstream's answer has no id".to_owned());
        return Err(fault.map_or_else(no_id, judged).into());
    }
    let secrets = upstream.secrets();
    let object = redaction::of_object(object, &secrets);
    let text = String::from_utf8_lossy(&object);
    if text != batch.object {
        if text.len() <= MAX_KEPT
            && let Err(error) = batches::record(&proxy.core.store, batch.id, &text).await
        {
            log::warn!("the state of batch {} could not be stored: {error}", batch.place.public_id);
        }
        batch.object = text.into_owned();
    }
    let mut crossing = HeaderMap::new();
    headers::downstream(&head.headers, |value| secrets.is_in(value), &mut crossing);
    Ok(crossing)
}

/// Returns the batch in its upstream's current state, if that can be asked.
pub(super) async fn refreshed(proxy: &Proxy, mut batch: BatchRow) -> BatchRow {
    if !has_ended(&batch) {
        let batch_request = BatchRequest::of(Method::GET, &batch, "");
        // If it cannot be asked, the last known state is used.
        drop(refresh(proxy, &mut batch, batch_request, None).await);
    }
    batch
}
