//! Verifies a credential before it is stored.
//!
//! | mode | proved by |
//! |---|---|
//! | `apikey` | the models that it lists, requested through the site's pool of addresses |
//! | `session` | the user that the site reports |
//! | `auto` | either, both requested at once |
//!
//! The time limit is ten seconds. A site that does not answer in time is asked once more for the user, because the
//! answer tells a missing user id or a bot shield from a slow site. Except for a body that cannot be read and an
//! exhausted guard, every response has status 200.

use std::sync::Arc;
use std::time::Duration;

use hyper::StatusCode;
use serde::Serialize;
use serde_json::{Map, Value, json};
use tokio::time::{Instant, timeout_at};

use super::input::VerifyInput;
use super::schema;
use super::verdict::CredentialVerdict;
use crate::admin::Admin;
use crate::admin::bucket;
use crate::admin::errors::{Result, failure};
use crate::admin::input::Fields;
use crate::admin::{guard, secrets};
use crate::core::Core;
use crate::http::{self, Request, Response};
use crate::jobs::accounts::health::advised;
use crate::jobs::models::discovery;
use crate::jobs::sessions::site_client::site_client_at;
use crate::key_mask::is_mask;
use crate::platform::{ModelList, Platform};
use crate::routing::{Secret, Site};
use crate::store::accounts::CredentialMode;
use crate::store::sites::{self, SiteRow};
use crate::store::snapshot::{AccountProxy, site_through};
use crate::upstream::FetchLimits;
use crate::upstream::platforms::{
    Balance, DiscoveryError, DiscoveryKind, Identity, Role, SiteClient, SiteError, SiteErrorKind, TakenFor,
    User, bare_credential,
};

/// Time limit for all calls of one verification together, without the diagnosis.
const TIME_LIMIT: Duration = Duration::from_secs(10);
/// Time limit for the diagnosis: asking a site for the user, only to learn why it does not answer otherwise.
const DIAGNOSIS_LIMIT: Duration = Duration::from_millis(2500);
/// Maximum number of model names shown for a verified key.
const SHOWN_MODELS: usize = 10;

/// The reason why a credential was not accepted.
#[derive(Debug)]
pub struct CredentialRefusal {
    pub message: String,
    pub verdict: Option<CredentialVerdict>,
    /// Whether the site answered and the credential was not proved; false if the site could not say.
    pub unverified: bool,
    /// Whether the site did not answer in time.
    is_late: bool,
}

/// `POST /api/accounts/verify-token`
pub async fn verify_token(admin: Arc<Admin>, mut request: Request) -> Result<Response> {
    let fields = Fields::of(&schema::VERIFY, request.json_object().await?);
    guard(&admin, &request, &bucket::ACCOUNTS_VERIFY_TOKEN)?;
    let input = VerifyInput::read(&fields)?;
    if input.credential.is_empty() {
        return Ok(failure("The credential is blank", Map::new()));
    }
    let Some(site) = sites::get(&admin.core.store, input.site_id).await? else {
        return Ok(failure("Site not found", Map::new()));
    };
    let verified =
        verify(&admin.core, &site, &input.credential, input.mode, input.platform_user_id, None).await;
    match verified {
        Ok(Identity::ApiKey { models }) => {
            let shown = &models[..models.len().min(SHOWN_MODELS)];
            let body =
                json!({"success": true, "tokenType": "apikey", "modelCount": models.len(), "models": shown});
            Ok(http::json(StatusCode::OK, &body))
        }
        Ok(Identity::Session { user, balance, api_token }) => {
            let mut body = json!({
                "success": true,
                "tokenType": "session",
                "userInfo": user_info(&user),
                "apiToken": api_token.map(|token| secrets::mask(token.expose())),
            });
            // Some sites report the user but not the balance.
            if let Some(balance) = &balance {
                body["balance"] = balance.balance.rounded().into();
                body["balanceInfo"] = balance_info(balance);
            }
            Ok(http::json(StatusCode::OK, &body))
        }
        Err(refusal) => {
            let mut flags = Map::new();
            if let Some(verdict) = refusal.verdict {
                flags.insert(verdict.flag().to_owned(), true.into());
            }
            Ok(failure(&refusal.message, flags))
        }
    }
}

/// Verifies a credential at a site in the given mode; returns what it is, or why it is not accepted.
pub async fn verify(
    core: &Arc<Core>,
    site: &SiteRow,
    credential: &str,
    mode: CredentialMode,
    user_id: Option<i64>,
    username: Option<&str>,
) -> Result<Identity, CredentialRefusal> {
    let platform = platform_of(site)?;
    let knows_sessions = platform.abilities().user_info;
    let site_client = || {
        let credential = Some(Secret::from(credential));
        let site_client =
            site_client_at(core, site, credential, user_id).map_err(|error| refusal_of(&error))?;
        Ok(SiteClient { username: username.map(str::to_owned), ..site_client })
    };
    let settings = core.settings.load_full();
    let routed =
        site_through(site, &AccountProxy::default(), &core.live, settings.system_proxy_url.as_deref());
    match mode {
        CredentialMode::Session if !knows_sessions => Err(CredentialRefusal::mismatch(format!(
            "Sites of platform {platform} have no sessions; use credentialMode apikey"
        ))),
        CredentialMode::Session => match identify(core, &routed, site_client()?, mode).await? {
            Identity::ApiKey { .. } => Err(CredentialRefusal::mismatch(
                "This is an API key, not a session; use credentialMode apikey",
            )),
            session => Ok(session),
        },
        CredentialMode::Auto if knows_sessions => identify(core, &routed, site_client()?, mode).await,
        CredentialMode::Auto | CredentialMode::ApiKey => {
            let models = models_of_key(core, &routed, credential, user_id.is_some()).await;
            if !knows_sessions {
                return models.map(|models| Identity::ApiKey { models });
            }
            match models {
                // A session also lists its user's models.
                Ok(_) if !credential.starts_with("sk-") && diagnosis(core, &site_client()?).await.is_ok() => {
                    Err(CredentialRefusal::mismatch(
                        "This is a session, not an API key; use credentialMode session",
                    ))
                }
                Ok(models) => Ok(Identity::ApiKey { models }),
                Err(refusal) if refusal.is_late => Err(diagnosed(core, &site_client()?, refusal).await),
                Err(refusal) => Err(refusal),
            }
        }
    }
}

/// Returns the models that a key lists at a site, at least one.
pub async fn models_of_key(
    core: &Arc<Core>,
    site: &Site,
    key: &str,
    has_user_id: bool,
) -> Result<Vec<String>, CredentialRefusal> {
    if is_mask(key) {
        return Err(CredentialRefusal::masked());
    }
    let listed = discovery::ask(core, site, key, Instant::now() + TIME_LIMIT).await;
    listed.map_err(|error| refusal_of_key(&error, has_user_id))
}

/// Identifies a credential at its site: a session through the site's own address, or a key that lists models through
/// the addresses that requests go to. Except in session mode, a text that begins with `sk-` is taken for a key first.
pub async fn identify(
    core: &Arc<Core>,
    site: &Site,
    site_client: SiteClient,
    mode: CredentialMode,
) -> Result<Identity, CredentialRefusal> {
    let site_client =
        SiteClient { limits: FetchLimits { timeout: TIME_LIMIT, ..site_client.limits }, ..site_client };
    let text = site_client.session.as_ref().map(Secret::expose).unwrap_or_default();
    if is_mask(text) && !text.contains('=') {
        return Err(CredentialRefusal::masked());
    }
    // These sites accept no session without a user id: without one, nothing else is worth asking.
    let fork = site_client.platform.profile().new_api_fork();
    let wants_number = fork.is_some_and(|fork| fork.wants_user_id);
    let taken_for = match mode {
        CredentialMode::Session => TakenFor::Session,
        _ if bare_credential(text).starts_with("sk-") => TakenFor::Key,
        _ => TakenFor::Either,
    };
    let mut is_silent = false;
    if wants_number && site_client.user_id.is_none() && taken_for != TakenFor::Key {
        match diagnosis(core, &site_client).await {
            Err(error) if error.kind == SiteErrorKind::NeedsUserId => return Err(refusal_of(&error)),
            Err(error) => is_silent = error.kind == SiteErrorKind::Timeout,
            Ok(_) => {}
        }
    }
    let deadline = Instant::now() + TIME_LIMIT;
    let listed = discovery::ask(core, site, bare_credential(text), deadline);
    let identified = site_client.identify(&core.client, taken_for, listed);
    let error = match timeout_at(deadline, identified).await {
        Ok(Ok(identity)) => return Ok(identity),
        Ok(Err(error)) if error.kind != SiteErrorKind::Timeout => return Err(refusal_of(&error)),
        Ok(Err(_)) | Err(_) => CredentialRefusal::late("answer"),
    };
    // A site that did not answer the diagnosis before is not asked again.
    if is_silent { Err(error) } else { Err(diagnosed(core, &site_client, error).await) }
}

/// Builds the refusal for a failed call to a site.
pub fn refusal_of(error: &SiteError) -> CredentialRefusal {
    let verdict = CredentialVerdict::of_kind(error.kind);
    let message = match verdict {
        Some(verdict) => format!("{}: {}", verdict.advice(), error.message),
        None => advised(&error.message),
    };
    let unverified = !matches!(
        error.kind,
        SiteErrorKind::Timeout
            | SiteErrorKind::Unreachable
            | SiteErrorKind::Failed
            | SiteErrorKind::Malformed
    );
    CredentialRefusal { message, verdict, unverified, is_late: false }
}

pub(super) fn platform_of(site: &SiteRow) -> Result<Platform, CredentialRefusal> {
    let has_credentials = |platform: &Platform| platform.profile().model_list != ModelList::WithSignIn;
    Platform::parse(&site.platform).filter(has_credentials).ok_or_else(|| {
        CredentialRefusal::mismatch(format!("Credentials of platform {} cannot be verified", site.platform))
    })
}

/// Asks the site for the user, with a short time limit.
async fn diagnosis(core: &Core, site_client: &SiteClient) -> Result<User, SiteError> {
    let limits = FetchLimits { timeout: DIAGNOSIS_LIMIT, ..site_client.limits };
    SiteClient { limits, ..site_client.clone() }.user(&core.client).await
}

/// Returns the reason that the site gives when asked for the user, else `refusal`.
async fn diagnosed(core: &Core, site_client: &SiteClient, refusal: CredentialRefusal) -> CredentialRefusal {
    match diagnosis(core, site_client).await {
        Err(error) if CredentialVerdict::of_kind(error.kind).is_some() => refusal_of(&error),
        _ => refusal,
    }
}

fn refusal_of_key(error: &DiscoveryError, has_user_id: bool) -> CredentialRefusal {
    let verdict = if error.is_shield {
        Some(CredentialVerdict::ShieldBlocked)
    } else {
        CredentialVerdict::of(&error.message, has_user_id)
    };
    let message = match (verdict, error.kind) {
        (_, DiscoveryKind::Timeout) => return CredentialRefusal::late("list its models"),
        (Some(verdict), _) => format!("{}: {}", verdict.advice(), error.message),
        (None, DiscoveryKind::Unauthorized) => format!("The site rejected the key: {}", error.message),
        (None, DiscoveryKind::EmptyModels) => "The key lists no models at this site".to_owned(),
        (None, DiscoveryKind::Unknown) => format!("The request to the site failed: {}", error.message),
    };
    let unverified = matches!(error.kind, DiscoveryKind::Unauthorized | DiscoveryKind::EmptyModels);
    CredentialRefusal { message, verdict, unverified, is_late: false }
}

/// The user of a session.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct UserView<'a> {
    username: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    display_name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    email: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<&'a Role>,
}

fn user_info(user: &User) -> UserView<'_> {
    UserView {
        username: &user.username,
        display_name: user.display_name.as_deref(),
        email: user.email.as_deref(),
        role: user.role.as_ref(),
    }
}

fn balance_info(balance: &Balance) -> Value {
    json!({
        "balance": balance.balance.rounded(),
        "used": balance.used.rounded(),
        "quota": balance.quota.rounded(),
    })
}

// === impl CredentialRefusal ===

impl CredentialRefusal {
    /// Builds the refusal of a credential that does not fit the request; nothing is said about whether it works.
    fn mismatch(message: impl Into<String>) -> Self {
        Self { message: message.into(), verdict: None, unverified: false, is_late: false }
    }

    fn masked() -> Self {
        let message = "The credential is a mask; paste the whole credential".to_owned();
        Self { message, verdict: None, unverified: true, is_late: false }
    }

    fn late(what: &str) -> Self {
        let message = format!("The site did not {what} within {} s", TIME_LIMIT.as_secs());
        Self { is_late: true, ..Self::mismatch(message) }
    }
}

#[cfg(test)]
mod tests {
    use crate::admin::accounts::verify::*;

    #[test]
    fn only_a_site_that_answered_leaves_a_key_unproven() {
        for (kind, status, unverified) in [
            (DiscoveryKind::Unauthorized, Some(401), true),
            (DiscoveryKind::EmptyModels, Some(200), true),
            (DiscoveryKind::Timeout, None, false),
            (DiscoveryKind::Unknown, Some(500), false),
            (DiscoveryKind::Unknown, None, false),
        ] {
            let error = DiscoveryError { status, ..DiscoveryError::new(kind, "why") };
            assert_eq!(refusal_of_key(&error, false).unverified, unverified, "{kind:?}");
        }
        for (kind, unverified) in [
            (SiteErrorKind::Refused, true),
            (SiteErrorKind::Expired, true),
            (SiteErrorKind::NeedsUserId, true),
            (SiteErrorKind::InvalidUserId, true),
            (SiteErrorKind::Shield, true),
            (SiteErrorKind::Timeout, false),
            (SiteErrorKind::Unreachable, false),
            (SiteErrorKind::Failed, false),
            (SiteErrorKind::Malformed, false),
        ] {
            assert_eq!(refusal_of(&SiteError::new(kind, "why")).unverified, unverified, "{kind:?}");
        }
    }

    #[test]
    fn a_refusal_says_what_to_do() {
        let message = "HTTP 401: New-Api-User not provided";
        let error = DiscoveryError::new(DiscoveryKind::Unauthorized, message);
        let refusal = refusal_of_key(&error, false);
        assert_eq!(refusal.verdict, Some(CredentialVerdict::NeedsUserId));
        assert!(refusal.message.contains("platformUserId"), "{}", refusal.message);
    }
}
