//! Lists the models that an account with a login reaches.
//!
//! | provider | asked |
//! |---|---|
//! | codex | `/models` of its site |
//! | claude | `/v1/models`, page by page |
//! | gemini-cli | whether its service is enabled in the project; the names are known |
//! | antigravity | `:fetchAvailableModels` |

use std::collections::HashSet;
use std::time::Duration;

use hyper::http::header::{HeaderName, HeaderValue};
use serde_json::{Map, Value, json};
use tokio::time::timeout;

use super::google::{ServiceState, check_service};
use super::grant::TokenError;
use super::provider_client::{Credentials, Payload, ProviderAnswer, ProviderClient};
use crate::dialect::messages::API_VERSION;
use crate::mask::Mask;
use crate::platform::OAuthProvider;
use crate::routing::{Secret, encode_component};
use crate::time::in_seconds;
use crate::upstream::platforms::{DiscoveryError, DiscoveryKind, MAX_MODEL_NAME, leave_out};

/// The most pages of one list: each has up to a thousand names.
const MAX_PAGES: usize = 10;
/// The path of the list of Codex, with the version of its form.
const CODEX_LIST: &str = "/models?client_version=1.0.0";
/// The models of Gemini CLI's own program: its provider has no list.
const GEMINI_CLI: [&str; 7] = [
    "gemini-2.5-pro",
    "gemini-2.5-flash",
    "gemini-2.5-flash-lite",
    "gemini-3-pro-preview",
    "gemini-3.1-pro-preview",
    "gemini-3-flash-preview",
    "gemini-3.1-flash-lite-preview",
];
/// The addresses at which Antigravity's vendor answers.
const ANTIGRAVITY_ADDRESSES: [&str; 3] = [
    "https://cloudcode-pa.googleapis.com",
    "https://daily-cloudcode-pa.googleapis.com",
    "https://daily-cloudcode-pa.sandbox.googleapis.com",
];

/// The credentials that models are asked for with.
pub struct ModelsAccess<'a> {
    pub access_token: &'a Secret,
    pub account_id: Option<&'a str>,
    pub project_id: Option<&'a str>,
    /// The site's own headers, which the provider's replace.
    pub custom_headers: Vec<(HeaderName, HeaderValue)>,
}

/// Lists the names of the models, each once whatever its case, at the first of the addresses that lists any. Leaves out
/// names that contain a credential.
///
/// # Errors
/// When there is none, or none within the limit, with the cause.
pub async fn list_models(
    provider: &ProviderClient<'_>,
    reach: &ModelsAccess<'_>,
    addresses: &[String],
    limit: Duration,
) -> Result<Vec<String>, DiscoveryError> {
    let mask = mask(reach);
    let asking = async {
        let mut failure = None;
        for address in addresses {
            let listed = at(provider, reach, address.trim_end_matches('/')).await;
            match listed.map(|names| leave_out(names, &mask)) {
                Ok(names) if names.is_empty() => {}
                Ok(names) => return Ok(names),
                // The credential is refused at every address, or at none.
                Err(error) if error.kind == DiscoveryKind::Unauthorized => return Err(error),
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        let nothing = || DiscoveryError::new(DiscoveryKind::EmptyModels, "the provider lists no models");
        Err(failure.unwrap_or_else(nothing))
    };
    timeout(limit, asking).await.unwrap_or_else(|_elapsed| {
        let message = format!("no model list within {} s", in_seconds(limit));
        Err(DiscoveryError::new(DiscoveryKind::Timeout, message))
    })
}

/// Returns the secrets that the calls of a discovery carry.
fn mask(reach: &ModelsAccess<'_>) -> Mask {
    let mut mask = Mask::of(reach.access_token.expose());
    for (name, value) in &reach.custom_headers {
        mask.add_header(name, value);
    }
    mask
}

/// Returns the addresses to ask for a site without a pool. Where an operator names an address other than the vendor's, no
/// other is asked.
pub fn vendor_addresses(provider: OAuthProvider, own: &str) -> Vec<String> {
    let own = own.trim_end_matches('/');
    let others = ANTIGRAVITY_ADDRESSES.into_iter().filter(|address| *address != own);
    let is_vendor = provider == OAuthProvider::Antigravity && ANTIGRAVITY_ADDRESSES.contains(&own);
    std::iter::once(own).chain(others.filter(|_| is_vendor)).map(str::to_owned).collect()
}

async fn at(
    provider: &ProviderClient<'_>,
    reach: &ModelsAccess<'_>,
    address: &str,
) -> Result<Vec<String>, DiscoveryError> {
    match provider.provider {
        OAuthProvider::Codex => {
            let account = reach.account_id.and_then(|id| HeaderValue::try_from(id).ok());
            let account = account.map(|id| (HeaderName::from_static("chatgpt-account-id"), id));
            let url = format!("{address}{CODEX_LIST}");
            let answer = ask(provider, reach, &url, Payload::None, account.into_iter().collect()).await?;
            Ok(names(&answer.body, &["models", "data", "items"], &["id", "slug", "model"]))
        }
        OAuthProvider::Claude => pages(provider, reach, address).await,
        OAuthProvider::GeminiCli => {
            let project = reach.project_id.ok_or_else(|| {
                DiscoveryError::new(DiscoveryKind::Unknown, "gemini-cli oauth project id missing")
            })?;
            match check_service(provider, reach.access_token, project).await.map_err(unanswered)? {
                ServiceState::Enabled => Ok(GEMINI_CLI.map(str::to_owned).into()),
                ServiceState::Other(answer) if answer.status.is_success() => {
                    let message = format!("the service of Gemini is not enabled in the project {project}");
                    Err(DiscoveryError::new(DiscoveryKind::Unknown, message))
                }
                ServiceState::Other(answer) => Err(refused(&answer)),
            }
        }
        OAuthProvider::Antigravity => {
            let mut body = Map::new();
            if let Some(project) = reach.project_id {
                body.insert("project".to_owned(), json!(project));
            }
            let url = format!("{address}/v1internal:fetchAvailableModels");
            let answer = ask(provider, reach, &url, Payload::Json(&body.into()), Vec::new()).await?;
            Ok(names(&answer.body, &["models"], &["id", "name"]))
        }
    }
}

async fn pages(
    provider: &ProviderClient<'_>,
    reach: &ModelsAccess<'_>,
    address: &str,
) -> Result<Vec<String>, DiscoveryError> {
    let headers = [("anthropic-version", API_VERSION), ("anthropic-beta", "oauth-2025-04-20")]
        .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
    let mut found = Vec::new();
    let mut after = String::new();
    for _ in 0..MAX_PAGES {
        let url = format!("{address}/v1/models?limit=1000{after}");
        let answer = ask(provider, reach, &url, Payload::None, headers.to_vec()).await?;
        found.extend(names(&answer.body, &["data"], &["id", "name"]));
        match answer.body["last_id"].as_str().filter(|_| answer.body["has_more"] == true) {
            Some(last) => after = format!("&after_id={}", encode_component(last)),
            None => break,
        }
    }
    Ok(distinct(found))
}

async fn ask(
    provider: &ProviderClient<'_>,
    reach: &ModelsAccess<'_>,
    url: &str,
    payload: Payload<'_>,
    own_headers: Vec<(HeaderName, HeaderValue)>,
) -> Result<ProviderAnswer, DiscoveryError> {
    let is_replaced = |name: &HeaderName| own_headers.iter().any(|(own, _)| own == name);
    let site = reach.custom_headers.iter().filter(|(name, _)| !is_replaced(name)).cloned();
    let headers = site.chain(own_headers.iter().cloned()).collect();
    let credentials = Credentials { bearer: Some(reach.access_token), headers, ..Credentials::default() };
    let answer = provider.call(url, payload, credentials).await;
    let answer = answer.map_err(unanswered)?;
    if answer.status.is_success() { Ok(answer) } else { Err(refused(&answer)) }
}

fn unanswered(error: TokenError) -> DiscoveryError {
    let lacks_proxy = error.lacks_proxy;
    DiscoveryError { lacks_proxy, ..DiscoveryError::new(DiscoveryKind::Unknown, error.message) }
}

fn refused(answer: &ProviderAnswer) -> DiscoveryError {
    let status = answer.status.as_u16();
    let words = answer.words().map(|words| format!(": {words}")).unwrap_or_default();
    let said = words.to_ascii_lowercase();
    let is_credentials =
        status == 401 || ["unauthorized", "unauthenticated"].iter().any(|word| said.contains(word));
    let kind = if is_credentials { DiscoveryKind::Unauthorized } else { DiscoveryKind::Unknown };
    DiscoveryError { status: Some(status), ..DiscoveryError::new(kind, format!("HTTP {status}{words}")) }
}

/// Returns the names in a list: under one of `members` or the answer itself, an array of texts or of objects that have
/// one of `fields`, or an object whose keys are the names.
fn names(answer: &Value, members: &[&str], fields: &[&str]) -> Vec<String> {
    let list = members.iter().find_map(|member| answer.get(member)).unwrap_or(answer);
    let is_answer = std::ptr::eq(list, answer);
    let found: Vec<&str> = match list {
        Value::Array(items) => items
            .iter()
            .filter_map(|item| item.as_str().or_else(|| fields.iter().find_map(|field| item[field].as_str())))
            .collect(),
        Value::Object(models) if !is_answer => models.keys().map(String::as_str).collect(),
        _ => Vec::new(),
    };
    distinct(found.into_iter().map(str::to_owned).collect())
}

fn distinct(names: Vec<String>) -> Vec<String> {
    let mut seen = HashSet::new();
    let names = names.iter().map(|name| name.trim());
    let names = names
        .filter(|name| !name.is_empty() && name.len() <= MAX_MODEL_NAME && !name.contains(char::is_control));
    names.filter(|name| seen.insert(name.to_lowercase())).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_in_each_form() {
        let codex = |answer: Value| names(&answer, &["models", "data", "items"], &["id", "slug", "model"]);
        for answer in [
            json!(["m-a", "M-A", " m-b "]),
            json!({"models": [{"slug": "m-a"}, {"model": "m-b"}, {"other": 1}]}),
            json!({"data": [{"id": "m-a"}, "m-b"]}),
            json!({"items": ["m-a", "m-b", "", "m\u{7}c"]}),
        ] {
            assert_eq!(codex(answer.clone()), ["m-a", "m-b"], "{answer}");
        }
        assert!(codex(json!({"error": "no"})).is_empty());
        assert_eq!(names(&json!({"models": {"m-a": {}, "m-b": {}}}), &["models"], &["id"]), ["m-a", "m-b"]);
    }

    #[test]
    fn the_vendors_other_addresses_are_asked_only_beside_its_own() {
        let asked = |provider, own| vendor_addresses(provider, own).len();
        assert_eq!(asked(OAuthProvider::Antigravity, "https://cloudcode-pa.googleapis.com/"), 3);
        assert_eq!(asked(OAuthProvider::Antigravity, "http://127.0.0.1:1"), 1);
        assert_eq!(asked(OAuthProvider::Codex, "https://cloudcode-pa.googleapis.com"), 1);
    }
}
