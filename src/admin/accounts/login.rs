//! `POST /api/accounts/login`: adds an account by name and password. The password is stored, sealed, to log in again
//! when the session has expired.

use std::sync::Arc;

use hyper::StatusCode;
use serde_json::{Map, Value, json};

use super::input::LoginInput;
use super::schema;
use super::verdict::CredentialVerdict;
use super::view;
use crate::admin::Admin;
use crate::admin::bucket;
use crate::admin::errors::{Result, failure};
use crate::admin::guard;
use crate::admin::input::Fields;
use crate::http::{self, Request, Response};
use crate::ids::AccountId;
use crate::jobs::accounts::setup::{adopt_key, set_up};
use crate::jobs::sessions::site_client::{site_client_at, site_client_of};
use crate::platform::Platform;
use crate::store::accounts::{self, AccountPatch, AccountRow, AccountStatus, CredentialMode, NewAccount};
use crate::store::sites::{self, SiteRow};
use crate::store::tokens::{self, TokenSource};
use crate::store::{self, Secret};
use crate::time::now_ms;
use crate::upstream::platforms::{LoggedIn, SiteErrorKind};

/// `POST /api/accounts/login`
pub async fn login(admin: Arc<Admin>, mut request: Request) -> Result<Response> {
    let fields = Fields::of(&schema::LOGIN, request.json_object().await?);
    guard(&admin, &request, &bucket::ACCOUNTS_LOGIN)?;
    let input = LoginInput::read(&fields)?;
    let Some(site) = sites::get(&admin.core.store, input.site_id).await? else {
        return Ok(failure("Site not found", Map::new()));
    };
    // An account that exists is reached as it always is.
    let all = accounts::of_site(&admin.core.store, site.id).await?;
    let known = account_of(all, &input.username, None);
    let client = match &known {
        Some(account) => site_client_of(&admin.core, &site, account),
        None => site_client_at(&admin.core, &site, None, None),
    };
    let logged_in = match client {
        Ok(site_client) => site_client.login(&admin.core.client, &input.username, &input.password).await,
        Err(error) => Err(error),
    };
    let logged_in = match logged_in {
        Ok(logged_in) => logged_in,
        Err(error) => {
            let mut flags = Map::new();
            let message = match CredentialVerdict::of_kind(error.kind) {
                Some(verdict @ CredentialVerdict::ShieldBlocked) => {
                    flags.insert(verdict.flag().to_owned(), true.into());
                    format!("{}: {}", verdict.advice(), error.message)
                }
                _ if error.kind == SiteErrorKind::Unsupported => {
                    format!("Sites of platform {} do not support login with a password", site.platform)
                }
                _ => error.message,
            };
            return Ok(failure(&message, flags));
        }
    };
    match keep(&admin, &site, &input, logged_in).await {
        Ok(body) => Ok(http::json(StatusCode::OK, &body)),
        Err(store::Error::NotFound | store::Error::Dangling(_)) => {
            Ok(failure("The site or the account was deleted during the login", Map::new()))
        }
        Err(error) => Err(error.into()),
    }
}

/// Stores the session and sets its account up. Returns the response's body.
async fn keep(
    admin: &Arc<Admin>,
    site: &SiteRow,
    input: &LoginInput,
    logged_in: LoggedIn,
) -> store::Result<Value> {
    let (id, reused) = save(admin, site, input, logged_in).await?;
    admin.jobs.renewals.forget(id);
    adopt_key(&admin.core, id, None, TokenSource::Legacy).await?;
    admin.core.publish().await?;
    set_up(&admin.jobs, id, true).await;
    let account = accounts::get(&admin.core.store, id).await?.ok_or(store::Error::NotFound)?;
    let tokens = tokens::of_account(&admin.core.store, id).await?;
    Ok(json!({
        "success": true,
        "account": view::AccountView::of(&account),
        "apiTokenFound": account.api_token.is_some(),
        "tokenCount": tokens.len(),
        "reusedAccount": reused,
    }))
}

/// Returns the account that a login by the `typed` name is for. In this order, it is the account with that user name, the one
/// with the name that the site gives, one that logs in by either name, or one of the same user.
fn account_of(accounts: Vec<AccountRow>, typed: &str, logged_in: Option<&LoggedIn>) -> Option<AccountRow> {
    let given = logged_in.and_then(|login| login.username.as_deref());
    let user_id = logged_in.and_then(|login| login.user_id);
    let rank = |account: &AccountRow| {
        let (name, login) = (account.username.as_deref(), account.login_username.as_deref());
        let is_same_user = user_id.is_some() && account.platform_user_id == user_id && account.is_session();
        let fits = [
            name == Some(typed),
            name.is_some() && name == given,
            login.is_some() && (login == Some(typed) || login == given),
            is_same_user,
        ];
        fits.into_iter().position(|fits| fits)
    };
    let known = accounts.into_iter().filter(|account| account.oauth_provider.is_none());
    let ranked = known.filter_map(|account| Some((rank(&account)?, account)));
    ranked.min_by_key(|(rank, _)| *rank).map(|(_, account)| account)
}

/// Stores the session, in the account of that name or user at that site if there is one. Returns the account's id, and
/// whether the account existed before.
async fn save(
    admin: &Admin,
    site: &SiteRow,
    input: &LoginInput,
    login: LoggedIn,
) -> store::Result<(AccountId, bool)> {
    let username = login.username.clone().filter(|name| !name.trim().is_empty());
    let username = username.unwrap_or_else(|| input.username.clone());
    let _turn = admin.account_logins.lock().await;
    let all = accounts::of_site(&admin.core.store, site.id).await?;
    let known = account_of(all, &input.username, Some(&login));
    let platform = Platform::parse(&site.platform);
    let has_refresh = platform.is_some_and(|platform| platform.abilities().refresh);
    let refresh_token = login.refresh_token.filter(|_| has_refresh);
    let password = Secret::from(input.password.as_str());
    let Some(account) = known else {
        let account = NewAccount {
            username: Some(username),
            access_token: Some(login.credential),
            credential_mode: CredentialMode::Session,
            platform_user_id: login.user_id,
            login: Some((input.username.clone(), password)),
            sub2api_token_expires_at: login.expires_at.filter(|_| refresh_token.is_some()),
            sub2api_refresh_token: refresh_token,
            ..NewAccount::on_site(site.id)
        };
        return Ok((accounts::insert(&admin.core.store, account).await?, false));
    };
    let patch = AccountPatch {
        username: Some(Some(username)),
        access_token: Some(Some(login.credential)),
        status: Some(AccountStatus::Active),
        checkin_enabled: Some(true),
        credential_mode: Some(CredentialMode::Session),
        platform_user_id: login.user_id.map(Some),
        login_username: Some(Some(input.username.clone())),
        login_password: Some(Some(password)),
        login_updated_at: Some(Some(now_ms())),
        sub2api_token_expires_at: refresh_token.is_some().then_some(login.expires_at),
        sub2api_refresh_token: refresh_token.map(Some),
        ..AccountPatch::default()
    };
    accounts::update(&admin.core.store, account.id, patch).await?;
    Ok((account.id, true))
}
