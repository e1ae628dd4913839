//! Google's accounts: the e-mail address of one, and the Google Cloud project that its requests are made for.
//!
//! ```text
//! gemini-cli   named, else the first project there is ─▶ tier ─▶ onboarded ─▶ the service is enabled in it
//! antigravity  the project that the account has, else onboarded; none is no failure
//! ```
//!
//! Onboarding is an operation that goes on after its answer: it is asked for again until it is done.

use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::time::sleep;

use super::claims::clean;
use super::grant::{Grant, TokenError};
use super::provider_client::{Credentials, Payload, ProviderAnswer, ProviderClient};
use crate::platform::OAuthProvider;
use crate::routing::Secret;

/// The service that models are asked for with.
const SERVICE: &str = "cloudaicompanion.googleapis.com";
/// The tier of an account that is offered none.
const FALLBACK_TIER: &str = "legacy-tier";
/// The prefix of projects that Google creates for free users.
const FREE_PROJECT: &str = "gen-lang-client-";
/// Tiers of free users, whose requests run in a project of Google's. Users of the fallback tier have projects of their own.
const FREE_TIERS: [&str; 3] = ["free", "free-tier", "legacy"];

/// How often to ask whether something is done, and how long to wait in between.
#[derive(Clone, Copy)]
struct PollSchedule {
    asks: u32,
    pause: Duration,
}

const WITH_PROJECT: PollSchedule = PollSchedule { asks: 6, pause: Duration::from_secs(5) };
const WITHOUT_PROJECT: PollSchedule = PollSchedule { asks: 15, pause: Duration::from_secs(2) };
const OF_ANTIGRAVITY: PollSchedule = PollSchedule { asks: 5, pause: Duration::from_secs(2) };
const WHILE_ENABLING: PollSchedule = PollSchedule { asks: 10, pause: Duration::from_secs(1) };

/// Returns the e-mail address of the account that a token is for.
pub(super) async fn email_of(provider: &ProviderClient<'_>, token: &Secret) -> Result<String, TokenError> {
    let address = &google(provider)?.user_info;
    let url = format!("{}/oauth2/v1/userinfo?alt=json", address.trim_end_matches('/'));
    let answer = get(provider, &url, token).await?;
    if !answer.status.is_success() {
        return Err(provider.refusal("user info", &answer));
    }
    clean(&answer.body["email"]).ok_or_else(|| provider.failure("user info has no e-mail address"))
}

/// Finds the project that requests of this account are made for, and makes it ready. Does nothing for providers that
/// have no projects. `wanted` is the operator's choice.
///
/// # Errors
/// When Gemini CLI has no project that can be used, in words.
pub async fn settle_project(
    provider: &ProviderClient<'_>,
    grant: &mut Grant,
    wanted: Option<&str>,
) -> Result<(), TokenError> {
    match provider.provider {
        OAuthProvider::Codex | OAuthProvider::Claude => {}
        OAuthProvider::GeminiCli => {
            let project = project_of_gemini(provider, &grant.access_token, wanted).await?;
            enable_service(provider, &grant.access_token, &project).await?;
            grant.identity.project_id = Some(project);
        }
        OAuthProvider::Antigravity => {
            let found = project_of_antigravity(provider, &grant.access_token).await;
            grant.identity.project_id = found.unwrap_or_else(|error| {
                log::debug!("no project could be found for an antigravity account: {error}");
                None
            });
        }
    }
    Ok(())
}

/// Asks whether the service that models are asked for with is enabled in the project.
///
/// # Errors
/// When that cannot be found out, in words.
pub(super) async fn check_service(
    provider: &ProviderClient<'_>,
    token: &Secret,
    project: &str,
) -> Result<ServiceState, TokenError> {
    let answer = get(provider, &service_url(provider, project)?, token).await?;
    Ok(if answer.status.is_success() && answer.body["state"] == "ENABLED" {
        ServiceState::Enabled
    } else {
        ServiceState::Other(answer)
    })
}

/// The state of the service in a project.
pub(super) enum ServiceState {
    Enabled,
    Other(ProviderAnswer),
}

async fn project_of_gemini(
    provider: &ProviderClient<'_>,
    token: &Secret,
    wanted: Option<&str>,
) -> Result<String, TokenError> {
    let asked_for = match wanted {
        Some(project) => Some(project.to_owned()),
        None => first_project(provider, token).await?,
    };
    let metadata =
        json!({"ideType": "IDE_UNSPECIFIED", "platform": "PLATFORM_UNSPECIFIED", "pluginType": "GEMINI"});
    let assist = load_code_assist(provider, token, &metadata, asked_for.as_deref()).await?;
    let tier = tier_of(&assist);
    let Some(asked_for) = asked_for else {
        if let Some(project) = project_in(&assist) {
            return Ok(project);
        }
        let onboarded = onboard(provider, token, &tier, &metadata, None, WITHOUT_PROJECT).await?;
        let project = onboarded.as_ref().and_then(|answer| project_in(&answer["response"]));
        return project.ok_or_else(|| TokenError::new("gemini cli: project selection required"));
    };
    // A paying user's own project is used, and it is billed.
    let is_free =
        asked_for.starts_with(FREE_PROJECT) || FREE_TIERS.iter().any(|free| tier.eq_ignore_ascii_case(free));
    let onboarded = onboard(provider, token, &tier, &metadata, Some(&asked_for), WITH_PROJECT).await;
    let onboarded = match onboarded {
        // Free users get a project of Google's; naming another one may fail the precondition of their tier.
        Err(error) if is_free => {
            log::debug!("onboarding with the project {asked_for} failed, trying without it: {error}");
            onboard(provider, token, &tier, &metadata, None, WITHOUT_PROJECT).await?
        }
        onboarded => onboarded?,
    };
    let given = onboarded.as_ref().and_then(|answer| project_in(&answer["response"]));
    let given = given.filter(|given| !given.eq_ignore_ascii_case(&asked_for));
    Ok(given.filter(|_| is_free).unwrap_or(asked_for))
}

/// Returns the first project that the account may use; `None` when it may not list them. Fails when there is none.
async fn first_project(provider: &ProviderClient<'_>, token: &Secret) -> Result<Option<String>, TokenError> {
    let url = format!("{}/v1/projects", google(provider)?.projects.trim_end_matches('/'));
    let answer = get(provider, &url, token).await?;
    if !answer.status.is_success() {
        log::debug!("{}", provider.refusal("list of projects", &answer));
        return Ok(None);
    }
    let projects = answer.body["projects"].as_array().map(Vec::as_slice).unwrap_or_default();
    match projects.iter().find_map(|project| clean(&project["projectId"])) {
        Some(project) => Ok(Some(project)),
        None => Err(TokenError::new("no Google Cloud projects available for this account")),
    }
}

async fn project_of_antigravity(
    provider: &ProviderClient<'_>,
    token: &Secret,
) -> Result<Option<String>, TokenError> {
    let metadata =
        json!({"ideType": "ANTIGRAVITY", "platform": "PLATFORM_UNSPECIFIED", "pluginType": "GEMINI"});
    let assist = load_code_assist(provider, token, &metadata, None).await?;
    if let Some(project) = project_in(&assist) {
        return Ok(Some(project));
    }
    let onboarded = onboard(provider, token, &tier_of(&assist), &metadata, None, OF_ANTIGRAVITY).await?;
    Ok(onboarded.and_then(|answer| project_in(&answer["response"])))
}

async fn load_code_assist(
    provider: &ProviderClient<'_>,
    token: &Secret,
    metadata: &Value,
    project: Option<&str>,
) -> Result<Value, TokenError> {
    let mut body = json!({"metadata": metadata});
    if let Some(project) = project {
        body["cloudaicompanionProject"] = json!(project);
    }
    internal(provider, token, "loadCodeAssist", &body).await
}

/// Asks for onboarding until it is done; `None` when it is not done after the last try.
async fn onboard(
    provider: &ProviderClient<'_>,
    token: &Secret,
    tier: &str,
    metadata: &Value,
    project: Option<&str>,
    schedule: PollSchedule,
) -> Result<Option<Value>, TokenError> {
    let mut body = json!({"tierId": tier, "metadata": metadata});
    if let Some(project) = project {
        body["cloudaicompanionProject"] = json!(project);
    }
    for ask in 1..=schedule.asks {
        let answer = internal(provider, token, "onboardUser", &body).await?;
        if answer["done"] == true {
            return Ok(Some(answer));
        }
        if ask < schedule.asks {
            sleep(schedule.pause).await;
        }
    }
    Ok(None)
}

async fn enable_service(
    provider: &ProviderClient<'_>,
    token: &Secret,
    project: &str,
) -> Result<(), TokenError> {
    if let ServiceState::Enabled = check_service(provider, token, project).await? {
        return Ok(());
    }
    let url = format!("{}:enable", service_url(provider, project)?);
    let empty = Value::Object(Map::new());
    let credentials = Credentials { bearer: Some(token), ..Credentials::default() };
    let answer = provider.call(&url, Payload::Json(&empty), credentials).await?;
    let words = answer.words();
    let is_enabled = answer.status == 400
        && words.as_ref().is_some_and(|words| words.to_lowercase().contains("already enabled"));
    if answer.status.is_success() {
        return wait_for_service(provider, token, project).await;
    }
    if is_enabled {
        return Ok(());
    }
    let words = words.unwrap_or_else(|| format!("HTTP {}", answer.status.as_u16()));
    Err(TokenError::new(format!("project activation required: {words}")))
}

/// Waits until the service is switched on, which happens after the answer. Succeeds also where it is not on in the end:
/// whoever asks for models afterwards sees that.
async fn wait_for_service(
    provider: &ProviderClient<'_>,
    token: &Secret,
    project: &str,
) -> Result<(), TokenError> {
    for ask in 1..=WHILE_ENABLING.asks {
        if let ServiceState::Enabled = check_service(provider, token, project).await? {
            return Ok(());
        }
        if ask < WHILE_ENABLING.asks {
            sleep(WHILE_ENABLING.pause).await;
        }
    }
    Ok(())
}

/// Makes one of the calls that the vendors' own programs make to the site.
async fn internal(
    provider: &ProviderClient<'_>,
    token: &Secret,
    method: &str,
    body: &Value,
) -> Result<Value, TokenError> {
    let url = format!("{}/v1internal:{method}", provider.settings.site_url.trim_end_matches('/'));
    let credentials = Credentials { bearer: Some(token), ..Credentials::default() };
    let answer = provider.call(&url, Payload::Json(body), credentials).await?;
    if answer.status.is_success() { Ok(answer.body) } else { Err(provider.refusal(method, &answer)) }
}

async fn get(provider: &ProviderClient<'_>, url: &str, token: &Secret) -> Result<ProviderAnswer, TokenError> {
    let credentials = Credentials { bearer: Some(token), ..Credentials::default() };
    provider.call(url, Payload::None, credentials).await
}

fn google<'a>(
    provider: &'a ProviderClient<'_>,
) -> Result<&'a crate::config::oauth::GoogleAddresses<String>, TokenError> {
    provider.settings.google.as_ref().ok_or_else(|| provider.failure("has no Google Cloud projects"))
}

fn service_url(provider: &ProviderClient<'_>, project: &str) -> Result<String, TokenError> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || "-.:_".contains(c);
    if !project.chars().all(is_name) || !project.contains(|c: char| c.is_ascii_alphanumeric()) {
        return Err(provider.failure("the project id has characters that Google Cloud does not allow"));
    }
    let address = google(provider)?.services.trim_end_matches('/');
    Ok(format!("{address}/v1/projects/{project}/services/{SERVICE}"))
}

/// Returns the tier that an account is offered by default.
fn tier_of(assist: &Value) -> String {
    let tiers = assist["allowedTiers"].as_array().map(Vec::as_slice).unwrap_or_default();
    let first = tiers.iter().find(|tier| tier["isDefault"] == true);
    first.and_then(|tier| clean(&tier["id"])).unwrap_or_else(|| FALLBACK_TIER.to_owned())
}

/// Returns the project of an answer, which is a text or an object with an id.
fn project_in(answer: &Value) -> Option<String> {
    let project = &answer["cloudaicompanionProject"];
    clean(project).or_else(|| clean(&project["id"]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_project_is_a_text_or_an_object() {
        for (answer, expected) in [
            (json!({"cloudaicompanionProject": "p-1"}), Some("p-1")),
            (json!({"cloudaicompanionProject": {"id": "p-2", "name": "x"}}), Some("p-2")),
            (json!({"cloudaicompanionProject": ""}), None),
            (json!({}), None),
        ] {
            assert_eq!(project_in(&answer).as_deref(), expected, "{answer}");
        }
    }

    #[test]
    fn the_default_tier_is_taken() {
        let tiers =
            json!({"allowedTiers": [{"id": "standard-tier"}, {"id": "free-tier", "isDefault": true}]});
        assert_eq!(
            (tier_of(&tiers), tier_of(&json!({}))),
            ("free-tier".to_owned(), FALLBACK_TIER.to_owned())
        );
    }
}
