//! `/api/search`: searches everything that an operator may look for. No row shows a credential.

pub mod schema;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use hyper::StatusCode;
use serde::Serialize;
use serde_json::{Value, json};

use super::accounts::view;
use super::accounts::view::AccountView;
use super::checkins;
use super::errors::Result;
use super::input::{Fields, Invalid};
use super::logs::proxy_logs;
use super::sites::view::SiteView;
use super::tokens::view::ListedToken;
use crate::admin::Admin;
use crate::core::Core;
use crate::http::{self, Request, Response};
use crate::ids::{AccountId, SiteId, TokenId};
use crate::jobs::tokens::sync::owns_tokens;
use crate::routing::eligibility::account_obstacle;
use crate::routing::{Channel, serving};
use crate::store::accounts::{self, AccountRow, CredentialMode};
use crate::store::checkins as checkin_log;
use crate::store::sites::{self, SiteRow};
use crate::store::tokens;

const DEFAULT_LIMIT: i64 = 20;
/// The number of kinds of rows in the answer, which share the limit.
const KINDS: i64 = 6;
/// Maximum number of rows of one kind.
const MAX_ROWS_OF_KIND: i64 = 10;

/// An account that was found.
#[derive(Serialize)]
struct FoundAccount<'a> {
    #[serde(flatten)]
    account: AccountView<'a>,
    segment: &'static str,
    site: Option<Value>,
}

/// `POST /api/search`
pub async fn search(admin: Arc<Admin>, mut request: Request) -> Result<Response> {
    let fields = Fields::of(&schema::SEARCH, request.json_object().await?);
    let query = fields.text("query")?.unwrap_or_default().trim();
    let limit = fields.integer("limit")?.unwrap_or(DEFAULT_LIMIT);
    if query.chars().count() > 200 {
        return Err(Invalid::field("query", "string of at most 200 characters").into());
    }
    let most = ((limit - 1) / KINDS + 1).min(MAX_ROWS_OF_KIND);
    let found = if query.is_empty() { nothing() } else { find(&admin.core, query, most).await? };
    Ok(http::json(StatusCode::OK, &found))
}

fn nothing() -> Value {
    json!({"accounts": [], "accountTokens": [], "sites": [], "checkinLogs": [], "proxyLogs": [], "models": []})
}

async fn find(core: &Core, query: &str, most: i64) -> Result<Value> {
    let count = usize::try_from(most).unwrap_or(0);
    let sites = sites::list(&core.store).await?;
    let accounts = accounts::list(&core.store).await?;
    let by_id: HashMap<SiteId, &SiteRow> = sites.iter().map(|site| (site.id, site)).collect();
    let owners: HashMap<AccountId, &AccountRow> =
        accounts.iter().map(|account| (account.id, account)).collect();
    let lower = query.to_lowercase();
    let has = |text: &str| text.to_lowercase().contains(&lower);
    let site_has = |site: Option<&&SiteRow>| site.is_some_and(|site| has(&site.name) || has(&site.platform));
    let wants_keys = ["api key", "apikey", "api-key"].iter().any(|words| lower.contains(words));

    let found_sites = sites.iter().filter(|site| has(&site.name) || has(&site.url) || has(&site.platform));
    let found_accounts = accounts.iter().filter(|account| {
        account.username.as_deref().is_some_and(has)
            || site_has(by_id.get(&account.site_id))
            || (wants_keys && segment(account) == "apikey")
    });
    let found_accounts = found_accounts.take(count).map(|account| FoundAccount {
        account: AccountView::of(account),
        segment: segment(account),
        site: by_id.get(&account.site_id).map(|site| brief(site)),
    });

    let tokens = tokens::list(&core.store).await?;
    let found_tokens = tokens.iter().filter_map(|token| {
        let account = owners.get(&token.account_id).filter(|account| owns_tokens(account))?;
        let site = by_id.get(&account.site_id)?;
        let texts = [Some(&token.name), token.token_group.as_ref(), account.username.as_ref()];
        if !texts.into_iter().flatten().any(|text| has(text)) && !site_has(Some(site)) {
            return None;
        }
        Some(ListedToken::found(token, account, segment(account), site))
    });
    let checkins = checkin_log::search(&core.store, query, most).await?;
    core.store.flush().await;
    Ok(json!({
        "accounts": found_accounts.collect::<Vec<_>>(),
        "accountTokens": found_tokens.take(count).collect::<Vec<_>>(),
        "sites": found_sites.take(count).map(SiteView::of).collect::<Vec<_>>(),
        "checkinLogs": checkins.iter().map(checkins::view).collect::<Vec<_>>(),
        "proxyLogs": proxy_logs::of_models(&core.store, query, most).await?,
        "models": models(core, &lower, count),
    }))
}

/// Returns the console's section of an account: sessions or API keys.
fn segment(account: &AccountRow) -> &'static str {
    match view::resolved_mode(account) {
        CredentialMode::ApiKey => "apikey",
        _ => "session",
    }
}

fn brief(site: &SiteRow) -> Value {
    json!({ "id": site.id, "name": site.name, "url": site.url, "platform": site.platform,
        "status": site.status.as_str() })
}

/// Returns the routed models whose name contains `lower`, which is in lower case, those with the most accounts first.
fn models(core: &Core, lower: &str, count: usize) -> Vec<Value> {
    #[derive(Default)]
    struct Served {
        accounts: BTreeSet<AccountId>,
        tokens: BTreeSet<TokenId>,
        sites: BTreeSet<SiteId>,
    }
    let snapshot = core.snapshot.load();
    let mut served: BTreeMap<&str, Served> = BTreeMap::new();
    let routes = snapshot.routes().iter().filter(|route| route.enabled && !route.is_group());
    let is_used = |channel: &&Arc<Channel>| {
        channel.enabled && channel.account.site.active && account_obstacle(channel).is_none()
    };
    for channel in routes.flat_map(|route| &route.channels).flat_map(serving).filter(is_used) {
        let Some(model) = channel.source_model.as_ref().map(|model| model.as_str()) else { continue };
        if !model.to_lowercase().contains(lower) {
            continue;
        }
        let served = served.entry(model).or_default();
        served.accounts.insert(channel.account.id);
        served.tokens.extend(channel.token_id);
        served.sites.insert(channel.account.site.id);
    }
    let mut found: Vec<_> = served.into_iter().collect();
    // Already sorted by name, which this stable sort keeps among equals.
    found.sort_by_key(|(_, served)| {
        std::cmp::Reverse((served.accounts.len(), served.tokens.len(), served.sites.len()))
    });
    let shown = found.into_iter().take(count).map(|(name, served)| {
        json!({ "name": name, "accountCount": served.accounts.len(), "tokenCount": served.tokens.len(),
            "siteCount": served.sites.len() })
    });
    shown.collect()
}
