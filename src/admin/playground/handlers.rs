//! The endpoints under `/api/test`.

use std::sync::Arc;

use hyper::StatusCode;
use serde_json::json;

use super::envelope::{self, Streamed};
use super::error::PlaygroundError;
use super::{answer, chat, jobs};
use crate::admin::Admin;
use crate::admin::errors::Result;
use crate::http::request::object;
use crate::http::{self, BodyError, Request, Response};
use crate::limits::Overloaded;
use crate::proxy::internal::{self, InternalRequest};
use crate::time;

/// `POST /api/test/proxy`: sends a request to the proxy and returns its whole response.
pub async fn proxy(admin: Arc<Admin>, request: Request) -> Result<Response> {
    Ok(tried(admin, request, Form::Envelope, Streamed::Never).await)
}

/// `POST /api/test/proxy/stream`: sends a request to the proxy and returns server-sent events.
pub async fn proxy_stream(admin: Arc<Admin>, request: Request) -> Result<Response> {
    Ok(tried(admin, request, Form::Envelope, Streamed::Always).await)
}

/// `POST /api/test/proxy/jobs`: sends a request to the proxy as a job.
pub async fn start_proxy_job(admin: Arc<Admin>, request: Request) -> Result<Response> {
    Ok(begun(admin, request, Form::Envelope).await)
}

/// `POST /api/test/chat`: sends a plain conversation to the proxy and returns its whole response.
pub async fn chat(admin: Arc<Admin>, request: Request) -> Result<Response> {
    Ok(tried(admin, request, Form::Chat, Streamed::Never).await)
}

/// `POST /api/test/chat/stream`
pub async fn chat_stream(admin: Arc<Admin>, request: Request) -> Result<Response> {
    Ok(tried(admin, request, Form::Chat, Streamed::Always).await)
}

/// `POST /api/test/chat/jobs`
pub async fn start_chat_job(admin: Arc<Admin>, request: Request) -> Result<Response> {
    Ok(begun(admin, request, Form::Chat).await)
}

/// `GET /api/test/proxy/jobs/{id}`: shows the state of a job, or its result.
pub async fn proxy_job(admin: Arc<Admin>, request: Request) -> Result<Response> {
    Ok(show_job(&admin, &request, Form::Envelope))
}

/// `DELETE /api/test/proxy/jobs/{id}`: stops a running job, or deletes one that has ended.
pub async fn cancel_proxy_job(admin: Arc<Admin>, request: Request) -> Result<Response> {
    Ok(cancelled(&admin, &request, Form::Envelope))
}

/// `GET /api/test/chat/jobs/{id}`
pub async fn chat_job(admin: Arc<Admin>, request: Request) -> Result<Response> {
    Ok(show_job(&admin, &request, Form::Chat))
}

/// `DELETE /api/test/chat/jobs/{id}`
pub async fn cancel_chat_job(admin: Arc<Admin>, request: Request) -> Result<Response> {
    Ok(cancelled(&admin, &request, Form::Chat))
}

/// The form in which an operator describes the request.
#[derive(Clone, Copy)]
enum Form {
    /// A request to the proxy in full.
    Envelope,
    /// A conversation, which is converted to a dialect.
    Chat,
}

impl Form {
    async fn read(
        self,
        admin: &Admin,
        request: &mut Request,
        streamed: Streamed,
    ) -> std::result::Result<InternalRequest, Response> {
        let invalid = |error: BodyError| PlaygroundError {
            status: error.status(),
            ..PlaygroundError::invalid(error.to_string())
        };
        let read = async {
            let body = request.json_bytes().await.map_err(invalid)?;
            // The envelope may be as long as a client's request, and its parsed tree takes many times that memory.
            let room = admin.proxy.conversions.request(body.len()).await;
            let room = room.map_err(|Overloaded| invalid(BodyError::NoRoom))?;
            room.convert(|| {
                let fields = object(&body).map_err(invalid)?;
                match self {
                    Self::Envelope => envelope::read(&fields, streamed),
                    Self::Chat => chat::read(&fields, streamed),
                }
            })
        };
        read.await.map_err(|error| self.refusal(error))
    }

    fn refusal(self, error: PlaygroundError) -> Response {
        match self {
            Self::Envelope => error.into_response(),
            // The chat routes report an error as plain text.
            Self::Chat => http::json(error.status, &json!({ "error": error.message })),
        }
    }
}

async fn tried(admin: Arc<Admin>, mut request: Request, form: Form, streamed: Streamed) -> Response {
    let internal_request = match form.read(&admin, &mut request, streamed).await {
        Ok(internal_request) => internal_request,
        Err(refusal) => return refusal,
    };
    let limit = admin.core.config.request_body_limit;
    match internal::send(&admin.proxy, internal_request).await {
        None => form.refusal(PlaygroundError::not_found("The proxy has no route for this method and path")),
        Some(response) if streamed == Streamed::Always => answer::as_events(response, limit).await,
        Some(response) => answer::whole(response, limit).await,
    }
}

async fn begun(admin: Arc<Admin>, mut request: Request, form: Form) -> Response {
    let internal_request = match form.read(&admin, &mut request, Streamed::AsAsked).await {
        Ok(internal_request) => internal_request,
        Err(refusal) => return refusal,
    };
    match jobs::begin(&admin, internal_request) {
        Ok(job) => http::json(StatusCode::ACCEPTED, &job),
        Err(refused) => form.refusal(refused),
    }
}

fn show_job(admin: &Admin, request: &Request, form: Form) -> Response {
    let answer = admin.playground.show(request.params.get("id"), time::now_ms());
    answer.unwrap_or_else(|| form.refusal(PlaygroundError::not_found("Job not found")))
}

fn cancelled(admin: &Admin, request: &Request, form: Form) -> Response {
    if admin.playground.cancel(request.params.get("id"), time::now_ms()) {
        http::json(StatusCode::OK, &json!({ "success": true }))
    } else {
        form.refusal(PlaygroundError::not_found("Job not found"))
    }
}
