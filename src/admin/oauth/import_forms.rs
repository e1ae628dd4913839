//! The formats in which other programs export the credentials of connected accounts.
//!
//! | form | known by | its account |
//! |---|---|---|
//! | ours, and the auth files of CLIProxyAPI | `type` | the object itself; the tokens of gemini stand in `token` |
//! | `auth.json` of the Codex CLI | `tokens` | `tokens` |
//! | a bundle of sub2api (`sub2api-data`) | `accounts` | each of `accounts`, its tokens in `credentials` |

use std::collections::HashMap;

use serde_json::{Map, Value};

use crate::key_mask::is_mask;
use crate::platform::OAuthProvider;
use crate::store::Secret;
use crate::takeover;
use crate::time::{self, Millis};
use crate::upstream::oauth::{Claims, Grant, Identity, clean};
use crate::upstream::platforms::usable_token;

/// Maximum number of accounts in one import.
pub const MAX_ITEMS: usize = 100;
/// The first number that is an expiry in milliseconds, in 1973; a smaller one is in seconds.
const FIRST_MILLIS: f64 = 1e11;
/// Members that identify a bundle.
const OF_BUNDLES: [&str; 4] = ["accounts", "proxies", "version", "exported_at"];

/// The error for a bundle in place of a single credential, and for one without accounts.
pub const ENVELOPE: &str = "native oauth json expected; sub2api envelopes are no longer supported";

/// A credential to store.
pub struct Import {
    pub provider: OAuthProvider,
    pub grant: Grant,
    pub is_disabled: bool,
    /// The outbound proxy that the bundle names for it.
    pub proxy_url: Option<Secret>,
}

/// An object of an import: an account in the gateway's own form, or a bundle that cannot be read.
pub struct Item {
    pub object: Map<String, Value>,
    /// The outbound proxy that the account's bundle names for it.
    pub proxy_url: Option<Secret>,
    /// Why the bundle cannot be read.
    pub problem: Option<Unreadable>,
}

/// The reason why a credential cannot be read, for people.
#[derive(Debug, PartialEq, Eq)]
pub struct Unreadable(pub String);

impl Item {
    pub fn of(object: Map<String, Value>) -> Self {
        Self { object, proxy_url: None, problem: None }
    }
}

impl From<&str> for Unreadable {
    fn from(message: &str) -> Self {
        Self(message.to_owned())
    }
}

/// Whether an object is a bundle.
pub fn is_bundle(object: &Map<String, Value>) -> bool {
    let named = object.get("type").and_then(Value::as_str).map(str::trim);
    named.is_some_and(|name| matches!(name, "sub2api-data" | "sub2api-bundle"))
        || OF_BUNDLES.iter().any(|name| object.contains_key(*name))
}

/// Returns the accounts of a bundle.
///
/// # Errors
/// Fails if it has no list of accounts.
pub fn accounts_of(bundle: &Map<String, Value>) -> Result<Vec<Item>, Unreadable> {
    let list = |name: &str| bundle.get(name).or_else(|| bundle.get("data")?.get(name));
    let Some(Value::Array(accounts)) = list("accounts") else { return Err(ENVELOPE.into()) };
    if accounts.is_empty() {
        return Err(ENVELOPE.into());
    }
    let proxies: HashMap<&str, Secret> = match list("proxies") {
        Some(Value::Array(proxies)) => proxies
            .iter()
            .filter_map(|proxy| Some((proxy["proxy_key"].as_str()?, takeover::proxy_url(proxy)?)))
            .collect(),
        _ => HashMap::new(),
    };
    let items = accounts.iter().map(|account| {
        let object = account.as_object().ok_or_else(|| Unreadable::from(ENVELOPE))?;
        let key = object.get("proxy_key").and_then(Value::as_str);
        let proxy_url = key.and_then(|key| proxies.get(key)).cloned();
        Ok(Item { proxy_url, ..Item::of(in_our_form(object)) })
    });
    items.collect()
}

/// Builds the error for more accounts than one import accepts.
pub fn too_many() -> Unreadable {
    Unreadable(format!("oauth import supports at most {MAX_ITEMS} items"))
}

/// Converts an account of a bundle to the gateway's own form.
fn in_our_form(account: &Map<String, Value>) -> Map<String, Value> {
    let mut ours = Map::new();
    for name in ["extra", "credentials"] {
        if let Some(Value::Object(members)) = account.get(name) {
            ours.extend(members.clone());
        }
    }
    let text =
        |name: &str| account.get(name).and_then(Value::as_str).unwrap_or_default().trim().to_lowercase();
    // An account with an API key has no login.
    let kind = match text("type").as_str() {
        "oauth" | "setup-token" | "" => text("platform"),
        other => other.to_owned(),
    };
    ours.insert("type".to_owned(), kind.into());
    for (theirs, own) in [("account_uuid", "account_key"), ("email_address", "email")] {
        if let Some(value) = ours.get(theirs).cloned() {
            ours.entry(own).or_insert(value);
        }
    }
    if let Some(name) = account.get("name").cloned() {
        ours.insert("name".to_owned(), name);
    }
    ours
}

/// Returns the name of an object in responses, without any secret. `claimed` is the e-mail address in its tokens.
pub fn name_of(object: &Map<String, Value>, claimed: Option<&str>) -> String {
    let text = |name: &str| object.get(name).and_then(clean);
    let known = text("email").or_else(|| text("name")).or_else(|| claimed.map(str::to_owned));
    let names = ["account_key", "account_id", "type"];
    known.or_else(|| names.into_iter().find_map(text)).unwrap_or_else(|| "(no name)".to_owned())
}

/// Reads one credential, in the gateway's own form or that of the Codex CLI.
///
/// # Errors
/// Returns a message for people, without a secret.
pub fn read(object: &Map<String, Value>) -> Result<Import, Unreadable> {
    let nested = |name: &str| match object.get(name) {
        Some(Value::Object(members)) => Some(members),
        _ => None,
    };
    let codex = nested("tokens");
    let kind = match (object.get("type").and_then(Value::as_str), codex) {
        (None, Some(_)) => "codex",
        (kind, _) => kind.unwrap_or_default(),
    };
    let provider = provider_of(kind)?;
    let tokens = codex.or_else(|| nested("token"));
    let value = |name: &str| {
        let own = object.get(name).filter(|value| !value.is_null());
        own.or_else(|| tokens?.get(name)).filter(|value| !value.is_null())
    };
    let token = |name: &str| value(name).and_then(Value::as_str).and_then(usable_token).map(Secret::from);
    let text = |name: &str| value(name).and_then(clean);
    let access_token = token("access_token").ok_or("oauth credentials missing access_token")?;
    if [Some(&access_token), token("refresh_token").as_ref()]
        .into_iter()
        .flatten()
        .any(|token| is_mask(token.expose()))
    {
        return Err("the access token or the refresh token is a mask; export whole ones".into());
    }
    let id_token = token("id_token");
    let claims = id_token.as_ref().map(|token| Claims::of(token.expose()));
    let claimed = claims.as_ref().map(Claims::identity).unwrap_or_default();
    let expires_at = match expiry(&value)? {
        Some(at) => Some(at),
        None => Claims::of(access_token.expose()).expires_at(),
    };
    let email = text("email").or(claimed.email);
    let account_key = text("account_key")
        .or_else(|| text("chatgpt_account_id"))
        .or_else(|| text("account_id"))
        .or(claimed.account_key)
        .or_else(|| email.clone());
    let account_id = text("account_id").or_else(|| text("chatgpt_account_id"));
    let identity = Identity {
        account_id: account_id.filter(|id| account_key.as_ref() != Some(id)),
        account_key,
        email,
        plan_type: text("plan_type").or(claimed.plan_type),
        project_id: text("project_id").or_else(|| text("cloudaicompanionProject")),
    };
    let provider_data = match value("provider_data") {
        Some(Value::Object(data)) => data.clone(),
        _ => Map::new(),
    };
    let refresh_token = token("refresh_token");
    Ok(Import {
        provider,
        grant: Grant { access_token, refresh_token, id_token, expires_at, identity, provider_data },
        is_disabled: object.get("disabled") == Some(&Value::Bool(true)),
        proxy_url: None,
    })
}

fn provider_of(kind: &str) -> Result<OAuthProvider, Unreadable> {
    let name = kind.trim().to_lowercase();
    let known = match name.as_str() {
        "openai" => Some(OAuthProvider::Codex),
        "anthropic" => Some(OAuthProvider::Claude),
        "gemini" => Some(OAuthProvider::GeminiCli),
        other => OAuthProvider::parse(other),
    };
    let shown = || clean(&Value::from(name.as_str())).unwrap_or_default();
    known.ok_or_else(|| Unreadable(format!("unsupported oauth import type: {}", shown())))
}

/// Reads the expiry of the access token, under any of its names.
fn expiry<'a>(value: &impl Fn(&str) -> Option<&'a Value>) -> Result<Option<Millis>, Unreadable> {
    let names = ["expired", "expires_at", "token_expires_at", "expiry"];
    let Some(found) = names.into_iter().find_map(value) else { return Ok(None) };
    let number = match found {
        Value::Number(number) => number.as_f64(),
        Value::String(text) if text.trim().is_empty() => return Ok(None),
        Value::String(text) => match text.trim().parse::<f64>() {
            Ok(number) => Some(number),
            Err(_) => {
                return time::parse(text.trim()).map(Some).ok_or("invalid oauth expired timestamp".into());
            }
        },
        _ => None,
    };
    let number = number.filter(|number| number.is_finite() && (0.0..1e15).contains(number));
    let read =
        |number| if number < FIRST_MILLIS { time::of_unix(number) } else { time::of_unix_millis(number) };
    number.map(read).ok_or_else(|| "invalid oauth expired timestamp".into())
}
