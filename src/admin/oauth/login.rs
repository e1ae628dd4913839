//! Browser logins: their start, their state, and the callback address that a person pastes.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use hyper::StatusCode;
use hyper::header::{self, HeaderMap, HeaderName};
use serde_json::{Map, Value, json};

use super::connections::{account_id, find};
use super::providers::not_set;
use super::proxy_choice::ProxyChoice;
use super::schema;
use crate::admin::Admin;
use crate::admin::bucket;
use crate::admin::errors::{AdminError, Result};
use crate::admin::guard;
use crate::admin::input::{Fields, Invalid, MAX_KEY_CHARS};
use crate::http::{self, Request, Response};
use crate::ids::AccountId;
use crate::jobs::oauth::callback::Callback;
use crate::jobs::oauth::completion::{CallbackError, complete};
use crate::jobs::oauth::login::{LoginRequest, StartError, StartedLogin, start};
use crate::jobs::oauth::login_sessions::{LoginSession, Stage, UnacceptedCallback};
use crate::platform::OAuthProvider;
use crate::store::accounts;
use crate::time::iso;

/// The time in milliseconds that a page waits for the browser before it offers to paste the address.
const MANUAL_CALLBACK_DELAY_MS: u32 = 15_000;
/// Maximum length of a pasted text, in bytes.
const MAX_PASTED: usize = 32 * 1024;
const X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");

/// `POST /api/oauth/providers/{provider}/start`
pub async fn begin(admin: Arc<Admin>, mut request: Request) -> Result<Response> {
    let fields = Fields::of(&schema::START, request.json_object().await?);
    guard(&admin, &request, &bucket::OAUTH_START)?;
    let provider = OAuthProvider::parse(request.params.get("provider"));
    let provider = provider.ok_or_else(|| AdminError::not_found("oauth provider"))?;
    let rebind = fields.integer("accountId").map_err(|_| Invalid::field("accountId", "positive number"))?;
    let rebind = rebind.map(AccountId::new);
    let project_id = fields.text("projectId")?.map(str::trim).filter(|project| !project.is_empty());
    let is_unfit =
        |project: &str| project.chars().count() > MAX_KEY_CHARS || project.contains(char::is_control);
    if project_id.is_some_and(is_unfit) {
        return Err(Invalid::field("projectId", "line of at most 191 characters").into());
    }
    let former = match rebind {
        Some(id) => accounts::get(&admin.core.store, id).await?,
        None => None,
    };
    let stored = former.and_then(|account| account.proxy_url);
    let login = LoginRequest {
        provider,
        rebind,
        project_id: project_id.map(str::to_owned),
        proxy: ProxyChoice::of(&fields, stored.as_ref())?,
    };
    let started = start(&admin.jobs, login).await.map_err(refusal)?;
    Ok(http::json(StatusCode::OK, &started_view(provider, &started, &request.headers)))
}

/// `POST /api/oauth/connections/{id}/rebind`: starts a login for an account that is already connected. Unless the
/// request changes it, the account's outbound proxy is used.
pub async fn rebind(admin: Arc<Admin>, mut request: Request) -> Result<Response> {
    let fields = Fields::of(&schema::PROXY, request.json_object().await?);
    guard(&admin, &request, &bucket::OAUTH_CONNECTIONS_CHANGE)?;
    let (account, provider) = find(&admin.core.store, account_id(&request)?).await?;
    let proxy = ProxyChoice::of(&fields, account.proxy_url.as_ref())?;
    let login = LoginRequest { provider, rebind: Some(account.id), project_id: None, proxy };
    let started = start(&admin.jobs, login).await.map_err(refusal)?;
    Ok(http::json(StatusCode::OK, &started_view(provider, &started, &request.headers)))
}

/// `GET /api/oauth/sessions/{state}`
pub async fn session(admin: Arc<Admin>, request: Request) -> Result<Response> {
    guard(&admin, &request, &bucket::OAUTH_SESSION_READ)?;
    let state = request.params.get("state");
    let session = admin.jobs.logins.get(&admin.core, state).await?.ok_or_else(no_session)?;
    Ok(http::json(StatusCode::OK, &session_view(state, &session)))
}

/// `POST /api/oauth/sessions/{state}/manual-callback`
pub async fn paste(admin: Arc<Admin>, mut request: Request) -> Result<Response> {
    let fields = Fields::of(&schema::PASTE, request.json_object().await?);
    guard(&admin, &request, &bucket::OAUTH_SESSION_CHANGE)?;
    let text = fields.text("callbackUrl")?.ok_or_else(|| Invalid::field("callbackUrl", "string"))?;
    let unreadable = || AdminError::bad_request("invalid oauth callback url");
    if text.trim().is_empty() {
        return Err(unreadable());
    }
    let state = request.params.get("state");
    let session = admin.jobs.logins.get(&admin.core, state).await?.ok_or_else(no_session)?;
    let callback = Some(text).filter(|text| text.len() <= MAX_PASTED);
    let callback = callback.and_then(|text| Callback::of_pasted(text, state)).ok_or_else(unreadable)?;
    if callback.state != state {
        return Err(AdminError::bad_request("oauth callback state mismatch"));
    }
    match complete(&admin.jobs, session.provider, callback).await {
        Ok(_) => Ok(http::json(StatusCode::OK, &json!({"success": true}))),
        Err(CallbackError::UnacceptedCallback(UnacceptedCallback::Unknown)) => Err(no_session()),
        Err(CallbackError::UnacceptedCallback(UnacceptedCallback::Used)) => {
            Err(AdminError::conflict("oauth callback already used"))
        }
        Err(CallbackError::Failed(message)) => {
            Err(AdminError::new(StatusCode::INTERNAL_SERVER_ERROR, message))
        }
    }
}

/// Converts the reason why a login cannot start.
fn refusal(error: StartError) -> AdminError {
    match error {
        StartError::MissingSettings(missing) => AdminError::bad_request(not_set(&missing)),
        StartError::NoSuchAccount => AdminError::not_found("oauth account"),
        StartError::NoRandomness => AdminError::internal("a login was started", "no randomness"),
        StartError::Store(error) => error.into(),
    }
}

/// Shows a login that was started, with instructions for the operator.
fn started_view(provider: OAuthProvider, started: &StartedLogin, headers: &HeaderMap) -> Value {
    let mut instructions = json!({
        "redirectUri": started.redirect_uri,
        "callbackPort": started.callback_port,
        "callbackPath": provider.profile().callback_path,
        "manualCallbackDelayMs": MANUAL_CALLBACK_DELAY_MS,
    });
    if let Some(host) = remote_host(headers) {
        let port = started.callback_port;
        let tunnel = format!("-L {port}:127.0.0.1:{port} root@{host} -p 22");
        instructions["sshTunnelCommand"] = format!("ssh {tunnel}").into();
        instructions["sshTunnelKeyCommand"] = format!("ssh -i <path_to_your_key> {tunnel}").into();
    }
    json!({
        "provider": provider.id(),
        "state": started.state,
        "authorizationUrl": started.authorization_url,
        "instructions": instructions,
    })
}

fn session_view(state: &str, session: &LoginSession) -> Value {
    let mut view = Map::new();
    let mut say = |name: &str, value: Value| drop(view.insert(name.to_owned(), value));
    say("provider", session.provider.id().into());
    say("state", state.into());
    let status = match &session.stage {
        Stage::Waiting | Stage::Exchanging => "pending",
        Stage::Connected(_) => "success",
        Stage::Failed(_) => "error",
    };
    say("status", status.into());
    match &session.stage {
        Stage::Connected(activated) => {
            say("accountId", activated.account_id.into());
            say("siteId", activated.site_id.into());
        }
        Stage::Failed(message) => say("error", message.as_str().into()),
        Stage::Waiting | Stage::Exchanging => {}
    }
    say("createdAt", iso(session.created_at).into());
    say("updatedAt", iso(session.updated_at).into());
    Value::Object(view)
}

fn no_session() -> AdminError {
    AdminError::not_found("oauth session")
}

/// Returns the host that the operator's request named, safe to use in a shell command; `None` for this machine, and for
/// a text that is not a host.
fn remote_host(headers: &HeaderMap) -> Option<String> {
    let text = |name: HeaderName| {
        let first = headers.get(name)?.to_str().ok()?.split(',').next()?.trim();
        (!first.is_empty()).then_some(first)
    };
    let host = text(X_FORWARDED_HOST).or_else(|| text(header::HOST))?;
    let host = match host.strip_prefix('[') {
        Some(rest) => rest.split_once(']')?.0.parse::<Ipv6Addr>().ok()?.to_string(),
        None => host.split(':').next()?.to_ascii_lowercase(),
    };
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b':');
    let is_host =
        !host.is_empty() && host.len() <= 253 && !host.starts_with('-') && host.bytes().all(is_plain);
    let is_own = host.trim_end_matches('.') == "localhost"
        || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    (is_host && !is_own).then_some(host)
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    #[test]
    fn a_host_stands_in_a_shell_line_only_when_it_is_one() {
        for (forwarded, host, expected) in [
            (None, "gw.example.com:4000", Some("gw.example.com")),
            (None, "GW.example.com", Some("gw.example.com")),
            (Some("edge.example.com, inner"), "127.0.0.1:4000", Some("edge.example.com")),
            (None, "[2001:DB8::1]:4000", Some("2001:db8::1")),
            (None, "localhost:4000", None),
            (None, "127.0.0.1", None),
            (None, "[::1]:4000", None),
            (None, "", None),
            (None, "-oProxyCommand=x", None),
            (None, "a;reboot", None),
            (None, "$(reboot)", None),
            (None, "a b", None),
            (None, "`x`", None),
            (Some("x\"y"), "gw.example.com", None),
            (None, "[::1;x]", None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::HOST, HeaderValue::from_str(host).expect("a header"));
            if let Some(forwarded) = forwarded {
                headers.insert(X_FORWARDED_HOST, HeaderValue::from_str(forwarded).expect("a header"));
            }
            assert_eq!(remote_host(&headers).as_deref(), expected, "{forwarded:?} {host}");
        }
    }
}
