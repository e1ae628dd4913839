//! `GET /api/oauth/callback/{provider}`: the browser returns to the gateway's own address through a reverse proxy. The
//! route is public: it takes the login's state, which nobody else knows.

use std::sync::Arc;

use hyper::StatusCode;

use crate::admin::Admin;
use crate::admin::bucket;
use crate::admin::errors::Result;
use crate::admin::guard;
use crate::http::{Request, Response};
use crate::jobs::oauth::callback::Callback;
use crate::jobs::oauth::completion::complete;
use crate::jobs::oauth::pages::page;
use crate::platform::OAuthProvider;

/// Shows the last page of a login. Its status is always 200, because proxies replace the pages of other statuses.
pub async fn get(admin: Arc<Admin>, request: Request) -> Result<Response> {
    guard(&admin, &request, &bucket::OAUTH_CALLBACK)?;
    let provider = OAuthProvider::parse(request.params.get("provider"));
    let is_connected = match provider.zip(Callback::of_query(&request.query)) {
        Some((provider, callback)) => complete(&admin.jobs, provider, callback).await.is_ok(),
        None => false,
    };
    Ok(page(StatusCode::OK, is_connected))
}
