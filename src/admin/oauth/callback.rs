//! `GET /api/oauth/callback/{provider}`: the browser comes back to the service's own address, where a reverse proxy has
//! sent it. Anybody may ask: what counts is the state, which only the login knows.

use std::sync::Arc;

use hyper::StatusCode;

use crate::admin::Admin;
use crate::admin::errors::Result;
use crate::admin::guard;
use crate::http::{Request, Response};
use crate::jobs::oauth::callback::Callback;
use crate::jobs::oauth::completion::complete;
use crate::jobs::oauth::pages::page;
use crate::limits::bucket;
use crate::platform::OAuthProvider;

/// The last page of a login. Its status is always 200: proxies replace the pages of others.
pub async fn get(admin: Arc<Admin>, request: Request) -> Result<Response> {
    guard(&admin, &request, &bucket::OAUTH_CALLBACK)?;
    let provider = OAuthProvider::parse(request.params.get("provider"));
    let is_connected = match provider.zip(Callback::of_query(&request.query)) {
        Some((provider, callback)) => complete(&admin.jobs, provider, callback).await.is_ok(),
        None => false,
    };
    Ok(page(StatusCode::OK, is_connected))
}
