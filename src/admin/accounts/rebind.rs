//! `POST /api/accounts/{id}/rebind-session`: gives an existing account a new session. Nothing changes unless the site
//! confirms it.

use std::sync::Arc;

use hyper::StatusCode;
use serde_json::json;

use super::handlers::find;
use super::input::{RebindInput, kept_or_new};
use super::schema;
use super::verify::{identify, refusal_of};
use super::view;
use crate::admin::Admin;
use crate::admin::errors::{AdminError, Result};
use crate::admin::input::{Fields, Patch};
use crate::admin::require_id;
use crate::admin::sites::handlers as site_routes;
use crate::http::{self, Request, Response};
use crate::jobs::accounts::cooldowns::clear_cooldowns;
use crate::jobs::accounts::setup::{adopt_key, set_up};
use crate::jobs::sessions::site_client::site_client_of;
use crate::platform::Platform;
use crate::store::accounts::{self, AccountPatch, AccountRow, AccountStatus, CredentialMode};
use crate::store::snapshot::site_of_account;
use crate::store::tokens::TokenSource;
use crate::store::{self, Secret};
use crate::time::Millis;
use crate::upstream::platforms::{Identity, SiteClient, User};

/// `POST /api/accounts/{id}/rebind-session`
pub async fn rebind(admin: Arc<Admin>, mut request: Request) -> Result<Response> {
    let id = require_id(&request)?;
    let fields = Fields::of(&schema::REBIND, request.json_object().await?);
    let input = RebindInput::read(&fields)?;
    let account = find(&admin.core.store, id).await?;
    let RebindInput { credential, platform_user_id, rotation } = input;
    let stored = account.sub2api_refresh_token.as_ref();
    let refresh_token = kept_or_new("refreshToken", rotation.refresh_token.map(Some), stored)?;
    let site = site_routes::find(&admin.core.store, account.site_id).await?;
    let platform = Platform::parse(&site.platform).filter(|platform| platform.abilities().user_info);
    let Some(platform) = platform.filter(|_| account.oauth_provider.is_none()) else {
        return Err(AdminError::bad_request(
            "This account cannot have a session: its platform has none, or it was connected by an OAuth \
             login",
        ));
    };
    let site_client = site_client_of(&admin.core, &site, &account).map_err(|error| refusal_of(&error))?;
    let site_client = SiteClient {
        session: Some(Secret::from(credential.as_str())),
        keys: Vec::new(),
        user_id: platform_user_id.or(site_client.user_id),
        ..site_client
    };
    let settings = admin.core.settings.load_full();
    let routed = site_of_account(&site, &account, &admin.core.live, settings.system_proxy_url.as_deref());
    let (user, key) = match identify(&admin.core, &routed, site_client, CredentialMode::Session).await? {
        Identity::Session { user, api_token, .. } => (user, api_token),
        Identity::ApiKey { .. } => {
            let error = AdminError::bad_request("This is an API key, not a session");
            return Err(error.flag("requiresVerification", false));
        }
    };
    let renewal = if platform.abilities().refresh {
        SessionRenewal { refresh_token, expires_at: rotation.expires_at }
    } else {
        SessionRenewal::default()
    };
    let user = User { id: user.id.or(platform_user_id), ..user };
    let patch = patch(&account, credential, user, renewal);
    accounts::update(&admin.core.store, id, patch).await.map_err(|error| match error {
        store::Error::NotFound => AdminError::not_found("Account"),
        other => other.into(),
    })?;
    admin.jobs.renewals.forget(id);
    adopt_key(&admin.core, id, key.as_ref(), TokenSource::Sync).await?;
    admin.core.publish().await?;
    clear_cooldowns(&admin.core, id).await;
    set_up(&admin.jobs, id, true).await;
    let account = find(&admin.core.store, id).await?;
    let body = json!({
        "success": true,
        "tokenType": "session",
        "credentialMode": "session",
        "apiTokenFound": account.api_token.is_some(),
        "account": view::AccountView::of(&account),
        "capabilities": view::capabilities(&account).at(Some(platform)),
    });
    Ok(http::json(StatusCode::OK, &body))
}

/// The means to renew a session that came with it. No refresh token keeps the old one.
#[derive(Default)]
struct SessionRenewal {
    refresh_token: Patch<Secret>,
    expires_at: Option<Millis>,
}

/// Builds the change for the confirmed session.
fn patch(before: &AccountRow, credential: String, user: User, renewal: SessionRenewal) -> AccountPatch {
    let SessionRenewal { refresh_token, expires_at } = renewal;
    let mut patch = AccountPatch {
        access_token: Some(Some(Secret::from(credential))),
        status: Some(AccountStatus::Active),
        credential_mode: Some(CredentialMode::Session),
        username: Some(user.username).filter(|name| !name.is_empty()).map(Some),
        platform_user_id: Some(user.id.or(before.platform_user_id)),
        sub2api_token_expires_at: if refresh_token.is_some() {
            Some(expires_at)
        } else {
            expires_at.map(Some)
        },
        sub2api_refresh_token: refresh_token,
        ..AccountPatch::default()
    };
    patch.forget_password_of_another(before);
    patch
}
