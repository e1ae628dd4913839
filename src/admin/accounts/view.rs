//! An account as responses show it. Credentials are masked, and secrets inside `extraConfig` are removed; mode,
//! capabilities and health are derived from the row here.

use std::collections::{HashMap, HashSet};

use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::admin::secrets;
use crate::admin::sites::view::SiteView;
use crate::ids::{AccountId, SiteId};
use crate::json_number::shortest;
use crate::money::Usd;
use crate::platform::Platform;
use crate::routing::LiveTable;
use crate::routing::limit_windows::{LimitWindow, WindowSource};
use crate::store::Secret;
use crate::store::accounts::{AccountRow, AccountStatus, CredentialMode, Health, HealthSource, HealthState};
use crate::store::sites::{SiteRow, SiteStatus};
use crate::time::{Millis, iso};

/// The operations that an account supports besides serving requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Capabilities {
    pub can_checkin: bool,
    pub can_refresh_balance: bool,
    pub proxy_only: bool,
}

/// The data that the list needs besides the rows.
pub struct ListContext<'a> {
    pub sites: &'a HashMap<SiteId, &'a SiteRow>,
    /// Accounts with at least one available model.
    pub with_models: &'a HashSet<AccountId>,
    /// Amount spent in the local day, by account.
    pub spend: &'a HashMap<AccountId, Usd>,
    /// Amount earned in the local day, by account.
    pub rewards: &'a HashMap<AccountId, Usd>,
    /// The live state, with the limits of accounts.
    pub live: &'a LiveTable,
    pub now: Millis,
}

/// Returns the credential mode in effect, which is never `auto`.
pub fn resolved_mode(account: &AccountRow) -> CredentialMode {
    match account.credential_mode {
        CredentialMode::Auto if is_set(account.access_token.as_ref()) => CredentialMode::Session,
        CredentialMode::Auto => CredentialMode::ApiKey,
        mode => mode,
    }
}

/// Returns the capabilities that follow from the kind of credential.
pub fn capabilities(account: &AccountRow) -> Capabilities {
    let is_session = account.is_session();
    Capabilities { can_checkin: is_session, can_refresh_balance: is_session, proxy_only: !is_session }
}

/// An account as every response shows it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AccountView<'a> {
    id: AccountId,
    site_id: SiteId,
    username: Option<&'a str>,
    /// Masked like every credential; empty for an API key, also while it keeps a former session.
    access_token: String,
    api_token: Option<String>,
    platform_user_id: Option<i64>,
    balance: Usd,
    balance_used: Usd,
    quota: Usd,
    value_score: Value,
    unit_cost: Option<Value>,
    status: &'static str,
    is_pinned: bool,
    sort_order: i64,
    checkin_enabled: bool,
    last_checkin_at: Option<String>,
    last_balance_refresh: Option<String>,
    oauth_provider: Option<&'a str>,
    oauth_account_key: Option<&'a str>,
    oauth_project_id: Option<&'a str>,
    /// The JSON text of an object.
    extra_config: Option<String>,
    created_at: String,
    updated_at: String,
}

/// An account in the account list, with fields that only the list shows.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ListedAccount<'a> {
    #[serde(flatten)]
    account: AccountView<'a>,
    site: Option<SiteView<'a>>,
    credential_mode: &'static str,
    capabilities: Capabilities,
    today_spend: Usd,
    today_reward: Usd,
    runtime_health: HealthView<'a>,
    limit_windows: Vec<LimitWindowView>,
}

/// The usage of one limit of an account.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct LimitWindowView {
    name: Box<str>,
    used_percent: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    remaining: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reset_at: Option<String>,
    source: WindowSource,
    observed_at: String,
}

/// The health of an account, its source and the time of the check.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct HealthView<'a> {
    state: HealthState,
    reason: &'a str,
    source: &'a str,
    checked_at: Option<String>,
}

// === impl AccountView ===

impl<'a> AccountView<'a> {
    pub fn of(account: &'a AccountRow) -> Self {
        let masked = |secret: &Option<Secret>| secret.as_ref().map(|secret| secrets::mask(secret.expose()));
        let is_key = resolved_mode(account) == CredentialMode::ApiKey;
        Self {
            id: account.id,
            site_id: account.site_id,
            username: account.username.as_deref(),
            access_token: masked(&account.access_token).filter(|_| !is_key).unwrap_or_default(),
            api_token: masked(&account.api_token),
            platform_user_id: account.platform_user_id,
            balance: account.balance.rounded(),
            balance_used: account.balance_used.rounded(),
            quota: account.quota.rounded(),
            value_score: shortest(account.value_score),
            unit_cost: account.unit_cost.map(shortest),
            status: account.status.as_str(),
            is_pinned: account.is_pinned,
            sort_order: account.sort_order,
            checkin_enabled: account.checkin_enabled,
            last_checkin_at: account.last_checkin_at.map(iso),
            last_balance_refresh: account.last_balance_refresh.map(iso),
            oauth_provider: account.oauth_provider.as_deref(),
            oauth_account_key: account.oauth_account_key.as_deref(),
            oauth_project_id: account.oauth_project_id.as_deref(),
            extra_config: extra_config(account).map(|object| Value::Object(object).to_string()),
            created_at: iso(account.created_at),
            updated_at: iso(account.updated_at),
        }
    }
}

// === impl ListedAccount ===

impl<'a> ListedAccount<'a> {
    pub fn of(account: &'a AccountRow, context: &ListContext<'a>) -> Self {
        let site = context.sites.get(&account.site_id).copied();
        let has_models = context.with_models.contains(&account.id);
        let site_active = site.is_none_or(|site| site.status == SiteStatus::Active);
        let platform = site.and_then(|site| Platform::parse(&site.platform));
        let usd = |amounts: &HashMap<AccountId, Usd>| {
            amounts.get(&account.id).copied().unwrap_or_default().rounded()
        };
        Self {
            account: AccountView::of(account),
            site: site.map(SiteView::of),
            credential_mode: resolved_mode(account).as_str(),
            capabilities: capabilities(account).at(platform),
            today_spend: usd(context.spend),
            today_reward: usd(context.rewards),
            runtime_health: runtime_health(account, site_active, has_models),
            limit_windows: context
                .live
                .limits(account.id)
                .in_force(context.now)
                .into_iter()
                .map(LimitWindowView::from)
                .collect(),
        }
    }
}

// === impl LimitWindowView ===

impl From<LimitWindow> for LimitWindowView {
    fn from(window: LimitWindow) -> Self {
        Self {
            name: window.name,
            used_percent: shortest(window.used_percent),
            limit: window.limit.map(shortest),
            remaining: window.remaining.map(shortest),
            reset_at: window.reset_at.map(iso),
            source: window.source,
            observed_at: iso(window.observed_at),
        }
    }
}

// === impl HealthView ===

impl<'a> HealthView<'a> {
    fn new(
        state: HealthState,
        reason: &'a str,
        source: &'a HealthSource,
        checked_at: Option<Millis>,
    ) -> Self {
        Self { state, reason, source: source.as_str(), checked_at: checked_at.map(iso) }
    }

    fn of(record: &'a Health) -> Self {
        Self::new(record.state, &record.reason, &record.source, record.checked_at)
    }
}

// === impl Capabilities ===

impl Capabilities {
    /// Removes capabilities that the platform does not have. An unknown platform has none of them.
    pub fn at(self, platform: Option<Platform>) -> Self {
        let able = platform.map(Platform::abilities);
        Self {
            can_checkin: self.can_checkin && able.is_some_and(|able| able.check_in),
            can_refresh_balance: self.can_refresh_balance && able.is_some_and(|able| able.balance),
            ..self
        }
    }
}

fn is_set(secret: Option<&Secret>) -> bool {
    secret.is_some_and(|secret| !secret.expose().trim().is_empty())
}

/// Returns the health to show; the first matching rule decides.
fn runtime_health(account: &AccountRow, site_active: bool, has_models: bool) -> HealthView<'_> {
    let health = HealthView::new;
    if account.status == AccountStatus::Disabled {
        return health(HealthState::Disabled, "account disabled", &HealthSource::System, None);
    }
    if !site_active {
        return health(HealthState::Disabled, "site disabled", &HealthSource::System, None);
    }
    if account.status == AccountStatus::Expired {
        let refusal = account.health.as_ref().filter(|record| record.source == HealthSource::Auth);
        let (reason, at) = refusal
            .map_or(("credential expired", None), |record| (record.reason.as_str(), record.checked_at));
        return health(HealthState::Unhealthy, reason, &HealthSource::Auth, at);
    }
    if account.status == AccountStatus::Unhealthy {
        let record = account.health.as_ref().filter(|record| record.state == HealthState::Unhealthy);
        return record.map_or_else(
            || health(HealthState::Unhealthy, "account unhealthy", &HealthSource::System, None),
            HealthView::of,
        );
    }
    let proxy_only = capabilities(account).proxy_only;
    // A record from the time when the account or its site was disabled says nothing about now.
    let recorded = account.health.as_ref().filter(|record| record.state != HealthState::Disabled);
    let recorded = recorded.filter(|record| {
        let says_nothing = (record.source == HealthSource::Auth && record.state == HealthState::Unhealthy)
            || (record.state == HealthState::Unknown && has_models);
        !(proxy_only && says_nothing)
    });
    match recorded {
        Some(record) => HealthView::of(record),
        None if proxy_only && has_models => {
            health(HealthState::Healthy, "models discovered", &HealthSource::ModelDiscovery, None)
        }
        None => health(HealthState::Unknown, "not checked yet", &HealthSource::None, None),
    }
}

/// Rebuilds `extraConfig` from its columns, without any secret.
fn extra_config(account: &AccountRow) -> Option<Map<String, Value>> {
    let mut config = parse_extra(account.extra.as_deref());
    secrets::drop_credentials(&mut config);
    if account.credential_mode != CredentialMode::Auto {
        config.insert("credentialMode".to_owned(), account.credential_mode.as_str().into());
    }
    if let Some(id) = account.platform_user_id {
        config.insert("platformUserId".to_owned(), id.into());
    }
    if let Some(url) = &account.proxy_url {
        config.insert("proxyUrl".to_owned(), secrets::mask_proxy_url(url.expose()).into());
    }
    if account.use_system_proxy {
        config.insert("useSystemProxy".to_owned(), true.into());
    }
    if let Some(username) = &account.login_username {
        let relogin = json!({"username": username, "updatedAt": account.login_updated_at.map(iso)});
        config.insert("autoRelogin".to_owned(), relogin);
    }
    if let Some(token) = &account.sub2api_refresh_token {
        let mut auth = json!({"refreshToken": secrets::mask(token.expose())});
        if let Some(at) = account.sub2api_token_expires_at {
            auth["tokenExpiresAt"] = at.into();
        }
        config.insert("sub2apiAuth".to_owned(), auth);
    }
    if let (Some(_), Some(at)) = (&account.oauth_provider, account.token_expires_at) {
        let oauth = config.entry("oauth").or_insert_with(|| json!({}));
        if let Some(oauth) = oauth.as_object_mut() {
            oauth.insert("tokenExpiresAt".to_owned(), at.into());
        }
    }
    if let Some(record) = &account.health {
        config.insert("runtimeHealth".to_owned(), json!(HealthView::of(record)));
    }
    (!config.is_empty()).then_some(config)
}

/// Parses the members that have no column; text that is not a JSON object gives `{}`.
pub fn parse_extra(text: Option<&str>) -> Map<String, Value> {
    text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
}

/// An API-key account with a secret in every field that can hold one.
#[cfg(test)]
pub fn sample() -> AccountRow {
    AccountRow {
        id: AccountId::new(3),
        site_id: SiteId::new(8),
        username: Some("ann".into()),
        api_token: Some(Secret::from("sk-abcdefghij")),
        credential_mode: CredentialMode::ApiKey,
        proxy_url: Some(Secret::from("http://u:very-secret@p.example")),
        login_password: Some(Secret::from("login-secret")),
        refresh_token: Some(Secret::from("refresh-secret")),
        sub2api_refresh_token: Some(Secret::from("sub2api-secret")),
        extra: Some(r#"{"note":"x","oauth":{"email":"e","refreshToken":"oauth-secret"}}"#.into()),
        ..AccountRow::default()
    }
}

#[cfg(test)]
mod tests {
    use crate::admin::accounts::view::*;

    #[test]
    fn no_secret_is_readable() {
        let shown = json!(AccountView::of(&sample())).to_string();
        for secret in
            ["abcdefghij", "very-secret", "login-secret", "refresh-secret", "sub2api-secret", "oauth-secret"]
        {
            assert!(!shown.contains(secret), "{secret} in {shown}");
        }
        assert!(shown.contains("sk-a****ghij") && shown.contains("note"), "{shown}");
        assert_eq!(json!(AccountView::of(&sample()))["accessToken"], "");
    }

    #[test]
    fn mode_and_capabilities_follow_the_credential() {
        use CredentialMode::{ApiKey, Auto, Session};
        let session = |mode, token: &str| AccountRow {
            credential_mode: mode,
            access_token: Some(Secret::from(token)).filter(|_| !token.is_empty()),
            ..sample()
        };
        for (row, mode, can_checkin) in [
            (session(Auto, ""), ApiKey, false),
            (session(Auto, "t"), Session, true),
            (session(Session, "t"), Session, true),
            (session(Session, ""), Session, false),
            (session(ApiKey, "t"), ApiKey, false),
            (AccountRow { oauth_provider: Some("codex".into()), ..session(Auto, "t") }, Session, false),
        ] {
            assert_eq!(resolved_mode(&row), mode);
            let expected =
                Capabilities { can_checkin, can_refresh_balance: can_checkin, proxy_only: !can_checkin };
            assert_eq!(capabilities(&row), expected);
        }
    }

    #[test]
    fn nobody_checks_in_where_there_is_no_check_in() {
        let session = Capabilities { can_checkin: true, can_refresh_balance: true, proxy_only: false };
        for (platform, can_checkin, can_refresh_balance) in [
            (Some(Platform::NewApi), true, true),
            (Some(Platform::OneApi), false, true),
            (Some(Platform::OpenAi), false, false),
            (None, false, false),
        ] {
            let at = session.at(platform);
            assert_eq!((at.can_checkin, at.can_refresh_balance), (can_checkin, can_refresh_balance));
        }
    }

    #[test]
    fn the_first_rule_of_health_that_holds_wins() {
        use AccountStatus::{Active, Expired};
        use HealthState::{Disabled, Healthy, Unhealthy, Unknown};
        let record = |state, source: &str| {
            Some(Health {
                state,
                reason: "r".into(),
                source: HealthSource::parse(source),
                checked_at: Some(0),
            })
        };
        let with = |status, health| AccountRow { status, health, ..sample() };
        for (row, site_active, has_models, state, source) in [
            (with(AccountStatus::Disabled, record(Healthy, "balance")), true, true, "disabled", "system"),
            (with(Active, record(Healthy, "balance")), false, true, "disabled", "system"),
            (with(Expired, record(Healthy, "balance")), true, true, "unhealthy", "auth"),
            (with(Active, record(Unhealthy, "model-discovery")), true, true, "unhealthy", "model-discovery"),
            (with(Active, record(Unhealthy, "auth")), true, true, "healthy", "model-discovery"),
            (with(Active, record(Unknown, "none")), true, true, "healthy", "model-discovery"),
            (with(Active, record(Unknown, "probe")), true, false, "unknown", "probe"),
            (with(Active, record(Disabled, "checkin")), true, false, "unknown", "none"),
            (with(Active, None), true, true, "healthy", "model-discovery"),
            (with(Active, None), true, false, "unknown", "none"),
        ] {
            let shown = json!(runtime_health(&row, site_active, has_models));
            assert_eq!(
                (shown["state"].as_str(), shown["source"].as_str()),
                (Some(state), Some(source)),
                "{shown}"
            );
        }
    }
}
