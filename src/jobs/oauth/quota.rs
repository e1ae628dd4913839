//! The usage limits of connected accounts, as their providers report them.
//!
//! Codex reports them in the headers of its answers, which no document describes; the other providers do not. A
//! snapshot is stored with the account; when a new reading fails, the previous values stay. Windows that answers to
//! clients have reported since then take their place.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::time::Instant;

use super::renewal;
use crate::core::{AddressWalk, Core};
use crate::ids::AccountId;
use crate::jobs::Jobs;
use crate::platform::OAuthProvider;
use crate::routing::limit_windows::{FIVE_HOURS, LimitWindow, SEVEN_DAYS, WindowSource};
use crate::store::accounts::{self, AccountRow};
use crate::store::connections::{self, Notes};
use crate::store::sites::{self, SiteRow};
use crate::store::snapshot::site_of_account;
use crate::store::{self, Secret};
use crate::time::{from_json, iso, now_ms};
use crate::upstream::oauth::{Claims, QuotaAsker, QuotaError};

/// The model that is asked for where none is configured, if the account has it or its models are not known.
const PROBE_MODEL: &str = "gpt-5.4";
/// The time limit for a reading, all addresses together.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The two windows: their names in a snapshot, and their names among the limits of an account.
const WINDOWS: [(&str, &str); 2] = [("fiveHour", FIVE_HOURS), ("sevenDay", SEVEN_DAYS)];

/// The member that says when the limit that was reached last is reset, or was.
const LAST_RESET: &str = "lastLimitResetAt";

/// Builds the snapshot of an account's limits: the stored one, with the windows that answers have reported since.
pub fn snapshot(core: &Core, account: &AccountRow, notes: &Notes) -> Value {
    let provider = provider_of(account);
    let mut snapshot = unread(provider);
    if let Some(Value::Object(stored)) = &notes.quota {
        for (name, value) in stored {
            snapshot[name.as_str()] = value.clone();
        }
    }
    if provider == Some(OAuthProvider::Codex) {
        let limits = core.live.limits(account.id);
        overlay_observed(&mut snapshot, &limits.in_force(now_ms()));
        if let Some(at) = limits.last_reset() {
            snapshot[LAST_RESET] = iso(at).into();
        }
    }
    if let Some(subscription) = subscription(account, notes) {
        snapshot["subscription"] = subscription;
    }
    snapshot
}

/// Replaces the windows for which an answer to a client is newer than the snapshot.
fn overlay_observed(snapshot: &mut Value, windows: &[LimitWindow]) {
    // Times in this form sort as text.
    let read_at = snapshot["lastSyncAt"].as_str().unwrap_or_default().to_owned();
    for (name, limit) in WINDOWS {
        let is_observed =
            |window: &&LimitWindow| &*window.name == limit && window.source == WindowSource::Headers;
        let Some(window) = windows.iter().find(is_observed) else { continue };
        let observed_at = iso(window.observed_at);
        if observed_at <= read_at {
            continue;
        }
        snapshot["windows"][name] = window_json(Some(window));
        snapshot["status"] = "supported".into();
        snapshot["providerMessage"] = "windows read from an answer to a client".into();
        snapshot["lastSyncAt"] = observed_at.into();
    }
}

/// Asks the provider, stores its answer and returns the snapshot; `None` when there is no such account.
///
/// # Errors
/// When the store fails. A reading that fails gives a snapshot whose status is `error`.
pub async fn refresh(jobs: &Arc<Jobs>, id: AccountId) -> store::Result<Option<Value>> {
    let store = &jobs.core.store;
    let Some(account) = accounts::get(store, id).await? else { return Ok(None) };
    let mut reading = Map::new();
    reading.insert("lastSyncAt".to_owned(), iso(now_ms()).into());
    if provider_of(&account) == Some(OAuthProvider::Codex) {
        reading.extend(members_of(ask_with_valid_token(jobs, account).await?));
    }
    if let Some(at) = jobs.core.live.limits(id).last_reset() {
        reading.insert(LAST_RESET.to_owned(), iso(at).into());
    }
    // Notes that a request has made meanwhile stay.
    let Some(account) = accounts::get(store, id).await? else { return Ok(None) };
    let mut notes = Notes::of(account.extra.as_deref());
    let mut quota = match notes.quota.take() {
        Some(Value::Object(before)) => before,
        _ => Map::new(),
    };
    quota.extend(reading);
    quota.retain(|_, value| !value.is_null());
    notes.quota = Some(Value::Object(quota));
    store.batch(vec![connections::note_statement(&account, &notes)]).await?;
    Ok(Some(snapshot(&jobs.core, &account, &notes)))
}

fn provider_of(account: &AccountRow) -> Option<OAuthProvider> {
    account.oauth_provider.as_deref().and_then(OAuthProvider::parse)
}

/// Returns the members of the snapshot that a reading replaces.
fn members_of(read: Result<Vec<LimitWindow>, QuotaError>) -> Map<String, Value> {
    let members = match read {
        Ok(windows) => {
            let window = |name: &str| windows.iter().find(|window| *window.name == *name);
            let windows = WINDOWS.map(|(name, limit)| (name.to_owned(), window_json(window(limit))));
            vec![
                ("status", "supported".into()),
                ("providerMessage", "windows read from rate limit headers".into()),
                ("windows", Value::Object(windows.into_iter().collect())),
                ("lastError", Value::Null),
            ]
        }
        Err(error) => vec![("status", "error".into()), ("lastError", error.message.into())],
    };
    members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Asks for the windows, once more with a new token if the provider refuses the account's, which may have run out since
/// it was last used.
async fn ask_with_valid_token(
    jobs: &Arc<Jobs>,
    account: AccountRow,
) -> store::Result<Result<Vec<LimitWindow>, QuotaError>> {
    let asked = ask(jobs, &account).await?;
    if asked.as_ref().is_err_and(|error| error.is_unauthorized)
        && renewal::renew(jobs, account.id, account.access_token.as_ref()).await.is_ok()
        && let Some(renewed) = accounts::get(&jobs.core.store, account.id).await?
    {
        return ask(jobs, &renewed).await;
    }
    Ok(asked)
}

async fn ask(jobs: &Jobs, account: &AccountRow) -> store::Result<Result<Vec<LimitWindow>, QuotaError>> {
    let store = &jobs.core.store;
    let Some(site) = sites::get(store, account.site_id).await? else {
        return Ok(Err(QuotaError::new("the site does not exist any more")));
    };
    let models = connections::models_of(store, &[account.id]).await?.remove(&account.id).unwrap_or_default();
    Ok(ask_addresses(&jobs.core, &site, account, &models).await)
}

/// Asks the addresses of the account's site in the pool's order until one answers. A refusal is an answer.
async fn ask_addresses(
    core: &Core,
    site: &SiteRow,
    account: &AccountRow,
    models: &[String],
) -> Result<Vec<LimitWindow>, QuotaError> {
    let settings = core.settings.load_full();
    let site = site_of_account(site, account, &core.live, settings.system_proxy_url.as_deref());
    if let Some(problem) = &site.misconfigured {
        return Err(QuotaError::new(problem.to_string()));
    }
    let Some(access_token) = account.access_token.as_ref() else {
        return Err(QuotaError::new("the account has no access token"));
    };
    let model = probe_model(core.config.proxy.codex_quota_model.as_deref(), models);
    let account_id = connections::account_id(account);
    let account_id = account_id.as_deref();
    let (client, limits) = (&core.client, core.live.limits(account.id));
    let mut addresses = AddressWalk::new(&core.store, &site.endpoints, now_ms());
    let mut failure = QuotaError::new("the site has no address");
    let deadline = Instant::now() + TIMEOUT;
    while let Some(endpoint) = addresses.next_address() {
        let limit = addresses.share(deadline.saturating_duration_since(Instant::now()));
        let asker = QuotaAsker { client, base: &endpoint.base, access_token, account_id, model, limit };
        match asker.ask(&limits, now_ms()).await {
            Ok(windows) => {
                addresses.answered();
                return Ok(windows);
            }
            Err(error) if error.is_of_address => {
                addresses.failed(&error.message);
                failure = error;
            }
            Err(error) => return Err(error),
        }
    }
    Err(failure)
}

/// Returns the model to ask for: the chosen one, else `PROBE_MODEL` if the account may have it, else the account's
/// first.
fn probe_model<'a>(chosen: Option<&'a str>, models: &'a [String]) -> &'a str {
    let has_usual = models.is_empty() || models.iter().any(|model| model == PROBE_MODEL);
    let of_account = models.first().filter(|_| !has_usual).map(String::as_str);
    chosen.or(of_account).unwrap_or(PROBE_MODEL)
}

/// Builds the snapshot of an account of this provider before the first reading.
fn unread(provider: Option<OAuthProvider>) -> Value {
    let (status, source, message) = match provider {
        Some(OAuthProvider::Codex) => ("supported", "reverse_engineered", "not read yet"),
        _ => ("unsupported", "official", "the provider does not report it"),
    };
    let windows = WINDOWS.map(|(name, _)| (name.to_owned(), json!({"supported": false, "message": message})));
    json!({"status": status, "source": source, "windows": Map::from_iter(windows)})
}

/// Formats a window in per cent, with two decimals.
fn window_json(window: Option<&LimitWindow>) -> Value {
    let Some(window) = window else {
        return json!({"supported": false, "message": "not reported by the provider"});
    };
    let rounded = |percent: f64| (percent * 100.0).round() / 100.0;
    let used = rounded(window.used_percent.min(100.0));
    let mut json = json!({"supported": true, "limit": 100, "used": used, "remaining": rounded(100.0 - used)});
    if let Some(at) = window.reset_at {
        json["resetAt"] = iso(at).into();
    }
    if let Some(minutes) = window.minutes {
        json["message"] = format!("{minutes} minute window").into();
    }
    json
}

/// Returns what the account's identity token says of its subscription; the plan may come from the notes.
fn subscription(account: &AccountRow, notes: &Notes) -> Option<Value> {
    let claims = account.id_token.as_ref().map(Secret::expose).map(Claims::of);
    let claim = |name: &str| claims.as_ref()?.of_openai(name);
    let time = |name: &str| claim(name).and_then(from_json).map(|at| Value::from(iso(at)));
    let plan = claim("chatgpt_plan_type").filter(|value| value.is_string()).cloned();
    let members = [
        ("planType", plan.or_else(|| notes.plan_type.clone().map(Value::from))),
        ("activeStart", time("chatgpt_subscription_active_start")),
        ("activeUntil", time("chatgpt_subscription_active_until")),
    ];
    let members: Map<String, Value> =
        members.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect();
    (!members.is_empty()).then_some(Value::Object(members))
}
