//! Whether a credential works, before it is stored (admin-core.md 5.3).
//!
//! An API key is proved by what it lists: the site's model list, asked through its pool of addresses
//! within ten seconds. `auto` is tried as an API key. Sessions are not read yet, and the answer says
//! so. Apart from a body that cannot be read and an exhausted guard, every answer is 200.

use std::sync::Arc;
use std::time::Duration;

use hyper::StatusCode;
use serde_json::{Map, json};

use super::account_input::VerifyInput;
use super::errors::{AdminError, Result, failure};
use super::input::Fields;
use super::verdict::Verdict;
use super::{guard, secrets};
use crate::app::App;
use crate::http::{self, Request, Response};
use crate::jobs::discovery;
use crate::limits::bucket;
use crate::routing::Site;
use crate::store::accounts::CredentialMode;
use crate::upstream::platforms::{DiscoveryError, DiscoveryKind};

/// For one verification, every address of the pool together.
const TIME_LIMIT: Duration = Duration::from_secs(10);
/// Names shown of a verified key's models.
const SHOWN_MODELS: usize = 10;
/// Said where a session would be needed.
pub const NO_SESSIONS: &str =
    "Only credentialMode apikey is available so far; sessions are not supported yet";

/// Why a key was not accepted.
#[derive(Debug)]
pub struct Refusal {
    pub message: String,
    pub verdict: Option<Verdict>,
    /// The site answered and the key did not prove itself; false when the site could not say.
    pub unproven: bool,
}

/// `POST /api/accounts/verify-token`
pub async fn verify_token(app: Arc<App>, mut request: Request) -> Result<Response> {
    let fields = Fields::from(request.json_object().await?);
    guard(&app, &request, &bucket::ACCOUNTS_VERIFY_TOKEN)?;
    let input = VerifyInput::read(&fields)?;
    if input.mode == CredentialMode::Session {
        return Err(AdminError::bad_request(NO_SESSIONS));
    }
    if input.credential.is_empty() {
        return Ok(failure("The credential is blank", Map::new()));
    }
    let Some(site) = app.snapshot.load().site(input.site_id).cloned() else {
        return Ok(failure("Site not found", Map::new()));
    };
    match models_of_key(&app, &site, &input.credential, input.platform_user_id.is_some()).await {
        Ok(models) => {
            let shown = &models[..models.len().min(SHOWN_MODELS)];
            let body =
                json!({"success": true, "tokenType": "apikey", "modelCount": models.len(), "models": shown});
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

/// The models a key lists at a site: at least one, or why not.
pub async fn models_of_key(
    app: &Arc<App>,
    site: &Site,
    key: &str,
    has_user_id: bool,
) -> Result<Vec<String>, Refusal> {
    if secrets::is_masked(key) {
        let message = "The credential is a mask; paste the whole key".to_owned();
        return Err(Refusal { message, verdict: None, unproven: true });
    }
    match tokio::time::timeout(TIME_LIMIT, discovery::ask(app, site, key)).await {
        Ok(Ok(models)) => Ok(models),
        Ok(Err(error)) => Err(refusal(&error, has_user_id)),
        Err(_elapsed) => Err(Refusal {
            message: format!("The site did not list its models within {} s", TIME_LIMIT.as_secs()),
            verdict: None,
            unproven: false,
        }),
    }
}

fn refusal(error: &DiscoveryError, has_user_id: bool) -> Refusal {
    let verdict = Verdict::of(&error.message, has_user_id);
    let message = match (verdict, error.kind) {
        (Some(verdict), _) => format!("{}: {}", verdict.advice(), error.message),
        (None, DiscoveryKind::Unauthorized) => format!("The site rejected the key: {}", error.message),
        (None, DiscoveryKind::EmptyModels) => "The key lists no models at this site".to_owned(),
        (None, DiscoveryKind::Timeout | DiscoveryKind::Unknown) => {
            format!("The site could not be asked: {}", error.message)
        }
    };
    let unproven = matches!(error.kind, DiscoveryKind::Unauthorized | DiscoveryKind::EmptyModels);
    Refusal { message, verdict, unproven }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_site_that_answered_leaves_a_key_unproven() {
        for (kind, status, unproven) in [
            (DiscoveryKind::Unauthorized, Some(401), true),
            (DiscoveryKind::EmptyModels, Some(200), true),
            (DiscoveryKind::Timeout, None, false),
            (DiscoveryKind::Unknown, Some(500), false),
            (DiscoveryKind::Unknown, None, false),
        ] {
            let error = DiscoveryError { kind, status, message: "why".to_owned() };
            assert_eq!(refusal(&error, false).unproven, unproven, "{kind:?}");
        }
    }

    #[test]
    fn a_refusal_says_what_to_do() {
        let message = "HTTP 401: New-Api-User not provided".to_owned();
        let error = DiscoveryError { kind: DiscoveryKind::Unauthorized, status: Some(401), message };
        let refusal = refusal(&error, false);
        assert_eq!(refusal.verdict, Some(Verdict::NeedsUserId));
        assert!(refusal.message.contains("platformUserId"), "{}", refusal.message);
    }
}
