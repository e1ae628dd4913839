//! Accounts: credentials on a site. Secrets are opened when read and sealed when written.

pub use super::account_state::{
    AccountStatus, CredentialMode, FormerStatus, Health, HealthSource, HealthState,
};
use super::sql::{Changes, Fields, Statement, Value};
use super::touches::TouchedKind;
use super::{Error, Result, Secret, Store, route_units};
use crate::ids::{AccountId, SiteId};
use crate::money::Usd;
use crate::time::{Millis, now_ms};

/// A stored account. A blank credential is `None`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AccountRow {
    pub id: AccountId,
    pub site_id: SiteId,
    pub username: Option<String>,
    pub access_token: Option<Secret>,
    pub api_token: Option<Secret>,
    pub balance: Usd,
    pub balance_used: Usd,
    pub quota: Usd,
    pub unit_cost: Option<f64>,
    pub value_score: f64,
    pub status: AccountStatus,
    /// Only for a disabled account.
    pub former_status: Option<FormerStatus>,
    pub is_pinned: bool,
    pub sort_order: i64,
    pub checkin_enabled: bool,
    pub last_checkin_at: Option<Millis>,
    pub last_balance_refresh: Option<Millis>,
    pub oauth_provider: Option<String>,
    pub oauth_account_key: Option<String>,
    pub oauth_project_id: Option<String>,
    pub credential_mode: CredentialMode,
    pub platform_user_id: Option<i64>,
    pub proxy_url: Option<Secret>,
    pub use_system_proxy: bool,
    pub login_username: Option<String>,
    pub login_password: Option<Secret>,
    pub login_updated_at: Option<Millis>,
    pub refresh_token: Option<Secret>,
    pub id_token: Option<Secret>,
    pub provider_data: Option<Secret>,
    pub token_expires_at: Option<Millis>,
    /// When the current token was obtained, if by a renewal; `None` for a token that may be of any age.
    pub token_issued_at: Option<Millis>,
    pub sub2api_refresh_token: Option<Secret>,
    pub sub2api_token_expires_at: Option<Millis>,
    pub health: Option<Health>,
    /// The counter that credential refreshes compare and set.
    pub credential_version: i64,
    /// JSON text of an object: the members of `extraConfig` that have no column.
    pub extra: Option<String>,
    pub created_at: Millis,
    pub updated_at: Millis,
}

impl AccountRow {
    /// Whether the account's connections may take another route than those of its site (a proxy of its own or
    /// the system proxy).
    pub fn has_own_proxy(&self) -> bool {
        self.proxy_url.is_some() || self.use_system_proxy
    }

    /// Whether the account was found expired: it is, or was when it was disabled.
    pub fn is_found_expired(&self) -> bool {
        let expired_before = [FormerStatus::OfSite(AccountStatus::Expired), FormerStatus::Expired].map(Some);
        self.status == AccountStatus::Expired || expired_before.contains(&self.former_status)
    }

    /// Whether the account is a login session at its site, which can do more there than serve requests.
    pub fn is_session(&self) -> bool {
        let has_token = self.access_token.as_ref().is_some_and(|token| !token.expose().trim().is_empty());
        self.oauth_provider.is_none() && self.credential_mode != CredentialMode::ApiKey && has_token
    }
}

/// An account to be stored.
#[derive(Debug, Clone, Default)]
pub struct NewAccount {
    pub site_id: SiteId,
    pub username: Option<String>,
    pub access_token: Option<Secret>,
    pub api_token: Option<Secret>,
    pub unit_cost: Option<f64>,
    pub status: AccountStatus,
    pub is_pinned: bool,
    /// The position in lists; `None` places the account after all others.
    pub sort_order: Option<i64>,
    pub checkin_enabled: bool,
    pub oauth_provider: Option<String>,
    pub oauth_account_key: Option<String>,
    pub oauth_project_id: Option<String>,
    pub credential_mode: CredentialMode,
    pub platform_user_id: Option<i64>,
    pub proxy_url: Option<Secret>,
    pub use_system_proxy: bool,
    /// User name and password for logging in again.
    pub login: Option<(String, Secret)>,
    pub refresh_token: Option<Secret>,
    pub id_token: Option<Secret>,
    /// JSON text of an object.
    pub provider_data: Option<Secret>,
    pub token_expires_at: Option<Millis>,
    pub sub2api_refresh_token: Option<Secret>,
    pub sub2api_token_expires_at: Option<Millis>,
    pub extra: Option<String>,
}

impl NewAccount {
    /// Builds an active account without credentials.
    pub fn on_site(site_id: SiteId) -> Self {
        Self { site_id, checkin_enabled: true, ..Self::default() }
    }
}

/// The fields that an update changes: `None` keeps a field, `Some(None)` clears it.
#[derive(Debug, Clone, Default)]
pub struct AccountPatch {
    pub username: Option<Option<String>>,
    pub access_token: Option<Option<Secret>>,
    pub api_token: Option<Option<Secret>>,
    pub balance: Option<Usd>,
    pub balance_used: Option<Usd>,
    pub quota: Option<Usd>,
    pub unit_cost: Option<Option<f64>>,
    pub value_score: Option<f64>,
    pub status: Option<AccountStatus>,
    /// Set together with `status` only.
    pub former_status: Option<FormerStatus>,
    pub is_pinned: Option<bool>,
    pub sort_order: Option<i64>,
    pub checkin_enabled: Option<bool>,
    pub last_checkin_at: Option<Option<Millis>>,
    pub last_balance_refresh: Option<Option<Millis>>,
    pub oauth_provider: Option<Option<String>>,
    pub oauth_account_key: Option<Option<String>>,
    pub oauth_project_id: Option<Option<String>>,
    pub credential_mode: Option<CredentialMode>,
    pub platform_user_id: Option<Option<i64>>,
    pub proxy_url: Option<Option<Secret>>,
    pub use_system_proxy: Option<bool>,
    pub login_username: Option<Option<String>>,
    pub login_password: Option<Option<Secret>>,
    pub login_updated_at: Option<Option<Millis>>,
    pub refresh_token: Option<Option<Secret>>,
    pub id_token: Option<Option<Secret>>,
    pub provider_data: Option<Option<Secret>>,
    pub token_expires_at: Option<Option<Millis>>,
    pub sub2api_refresh_token: Option<Option<Secret>>,
    pub sub2api_token_expires_at: Option<Option<Millis>>,
    pub extra: Option<Option<String>>,
}

impl AccountPatch {
    /// Whether the account gets another credential than the one that may have been found expired.
    pub fn has_new_credential(&self) -> bool {
        matches!(self.access_token, Some(Some(_))) || matches!(self.api_token, Some(Some(_)))
    }

    /// Sets the status that an operator chose; an account that was found expired is remembered as such while it is
    /// disabled.
    pub fn set_status(&mut self, before: &AccountRow, status: AccountStatus) {
        let is_kept =
            status == AccountStatus::Disabled && before.is_found_expired() && !self.has_new_credential();
        self.status = Some(status);
        self.former_status = is_kept.then_some(FormerStatus::Expired);
    }

    /// Forgets the password that is kept for logging in again if the account gets another user: it would bring the former
    /// one back.
    pub fn forget_password_of_another(&mut self, before: &AccountRow) {
        if let (Some(Some(user)), Some(former)) = (self.platform_user_id, before.platform_user_id)
            && user != former
        {
            self.login_username = Some(None);
            self.login_password = Some(None);
            self.login_updated_at = Some(None);
        }
    }
}

pub(super) const TABLE: &str = "accounts";

pub(super) const COLUMNS: &str = "id, site_id, username, access_token, api_token, balance, balance_used, quota, unit_cost, \
     value_score, status, former_status, is_pinned, sort_order, checkin_enabled, last_checkin_at, last_balance_refresh, \
     oauth_provider, oauth_account_key, oauth_project_id, credential_mode, platform_user_id, proxy_url, \
     use_system_proxy, login_username, login_password, login_updated_at, refresh_token, id_token, \
     provider_data, token_expires_at, token_issued_at, sub2api_refresh_token, sub2api_token_expires_at, health_state, \
     health_reason, health_source, health_checked_at, credential_version, extra, created_at, updated_at";

/// The number of accounts read at once; each may carry many kilobytes of notes.
const PAGE: usize = 100;

/// Applies `pick` to each account, ordered by id, and collects the results. The rest of a page is freed before
/// the next is read.
pub async fn pick<T>(store: &Store, mut pick: impl FnMut(AccountRow) -> Option<T>) -> Result<Vec<T>> {
    let sql = format!("SELECT {COLUMNS} FROM accounts WHERE id > ? ORDER BY id LIMIT {PAGE}");
    let (mut picked, mut after) = (Vec::new(), AccountId::ZERO);
    loop {
        let page = store.query(sql.clone(), vec![after.into()]).await?;
        let is_last = page.len() < PAGE;
        for row in page {
            let account = read(store, &mut row.fields())?;
            after = account.id;
            picked.extend(pick(account));
        }
        if is_last {
            return Ok(picked);
        }
    }
}

/// Returns all accounts, ordered by id.
pub async fn list(store: &Store) -> Result<Vec<AccountRow>> {
    pick(store, Some).await
}

/// Returns at most `limit` accounts, ordered by id, after skipping `offset`.
pub async fn page(store: &Store, limit: usize, offset: usize) -> Result<Vec<AccountRow>> {
    let sql = format!("SELECT {COLUMNS} FROM accounts ORDER BY id LIMIT ? OFFSET ?");
    let [limit, offset] = [limit, offset].map(|number| i64::try_from(number).unwrap_or(i64::MAX).into());
    store.rows(sql, vec![limit, offset], |row| read(store, row)).await
}

/// Counts the accounts.
pub async fn count(store: &Store) -> Result<usize> {
    let count = store.row("SELECT COUNT(*) FROM accounts", Vec::new(), |row| row.int()).await?;
    Ok(count.and_then(|count| usize::try_from(count).ok()).unwrap_or_default())
}

/// Returns the accounts of one site, ordered by id.
pub async fn of_site(store: &Store, site_id: SiteId) -> Result<Vec<AccountRow>> {
    let sql = format!("SELECT {COLUMNS} FROM accounts WHERE site_id = ? ORDER BY id");
    store.rows(sql, vec![site_id.into()], |row| read(store, row)).await
}

/// Returns those accounts with these ids that exist, ordered by id.
pub async fn some(store: &Store, ids: &[AccountId]) -> Result<Vec<AccountRow>> {
    let sql = |marks: &str| format!("SELECT {COLUMNS} FROM accounts WHERE id IN ({marks}) ORDER BY id");
    store.rows_of(ids, sql, |row| read(store, row)).await
}

pub async fn get(store: &Store, id: AccountId) -> Result<Option<AccountRow>> {
    let sql = format!("SELECT {COLUMNS} FROM accounts WHERE id = ?");
    store.row(sql, vec![id.into()], |row| read(store, row)).await
}

/// Stores an account and returns its id; fails with [`Error::Dangling`] when the site no longer exists.
pub async fn insert(store: &Store, account: NewAccount) -> Result<AccountId> {
    Ok(store.batch(vec![insert_statement(store, account)?]).await?[0].id())
}

/// Builds the insertion of an account, for a batch that stores more along with it.
pub fn insert_statement(store: &Store, account: NewAccount) -> Result<Statement> {
    let now = now_ms();
    let seal = |column, secret: &Option<Secret>| store.sealer().seal_opt(TABLE, column, secret.as_ref());
    let (login_username, login_password) = account.login.unzip();
    let login_updated_at = login_username.is_some().then_some(now);
    Ok(Statement::insert_in_order(
        TABLE,
        account.sort_order,
        [
            ("site_id", account.site_id.into()),
            ("username", account.username.into()),
            ("access_token", seal("access_token", &account.access_token)?.into()),
            ("api_token", seal("api_token", &account.api_token)?.into()),
            ("unit_cost", account.unit_cost.into()),
            ("status", account.status.as_str().into()),
            ("is_pinned", account.is_pinned.into()),
            ("checkin_enabled", account.checkin_enabled.into()),
            ("oauth_provider", account.oauth_provider.into()),
            ("oauth_account_key", account.oauth_account_key.into()),
            ("oauth_project_id", account.oauth_project_id.into()),
            ("credential_mode", account.credential_mode.as_str().into()),
            ("platform_user_id", account.platform_user_id.into()),
            ("proxy_url", seal("proxy_url", &account.proxy_url)?.into()),
            ("use_system_proxy", account.use_system_proxy.into()),
            ("login_username", login_username.into()),
            ("login_password", seal("login_password", &login_password)?.into()),
            ("login_updated_at", login_updated_at.into()),
            ("refresh_token", seal("refresh_token", &account.refresh_token)?.into()),
            ("id_token", seal("id_token", &account.id_token)?.into()),
            ("provider_data", seal("provider_data", &account.provider_data)?.into()),
            ("token_expires_at", account.token_expires_at.into()),
            ("sub2api_refresh_token", seal("sub2api_refresh_token", &account.sub2api_refresh_token)?.into()),
            ("sub2api_token_expires_at", account.sub2api_token_expires_at.into()),
            ("extra", account.extra.into()),
            ("created_at", now.into()),
            ("updated_at", now.into()),
        ],
    )
    .inserting(TouchedKind::Account))
}

/// Changes an account; fails with [`Error::NotFound`] when it no longer exists.
pub async fn update(store: &Store, id: AccountId, patch: AccountPatch) -> Result<()> {
    store.batch(vec![update_statement(store, id, patch)?]).await.map(drop)
}

/// Changes an account like [`update`], for a patch whose `extra` was merged with that of `before`; also fails
/// with [`Error::NotFound`] when `extra` has been changed meanwhile.
pub async fn update_merged(store: &Store, before: &AccountRow, mut patch: AccountPatch) -> Result<()> {
    let mut batch = Vec::new();
    if let Some(merged) = patch.extra.take().filter(|merged| *merged != before.extra) {
        let sql = "UPDATE accounts SET extra = ? WHERE id = ? AND COALESCE(extra, '') = ?";
        let was = before.extra.clone().unwrap_or_default();
        let extra = Statement::new(sql, vec![merged.into(), before.id.into(), was.into()]);
        batch.push(extra.must_change().touching_nothing());
    }
    batch.push(update_statement(store, before.id, patch)?);
    store.batch(batch).await.map(drop)
}

/// Builds the update of an account, for a batch that changes more along with it.
pub fn update_statement(store: &Store, id: AccountId, patch: AccountPatch) -> Result<Statement> {
    let sealer = store.sealer();
    let mut changes = Changes::default();
    changes.set("updated_at", now_ms());
    changes.set_some("username", patch.username);
    let refresh_tokens = [&patch.refresh_token, &patch.sub2api_refresh_token];
    if patch.access_token.is_some() || refresh_tokens.iter().any(|token| token.is_some()) {
        // A renewal that is under way was for another credential.
        changes.count("credential_version");
    }
    for (column, secret) in [
        ("access_token", patch.access_token),
        ("api_token", patch.api_token),
        ("proxy_url", patch.proxy_url),
        ("login_password", patch.login_password),
        ("refresh_token", patch.refresh_token),
        ("id_token", patch.id_token),
        ("provider_data", patch.provider_data),
        ("sub2api_refresh_token", patch.sub2api_refresh_token),
    ] {
        if let Some(secret) = secret {
            changes.set(column, sealer.seal_opt(TABLE, column, secret.as_ref())?);
        }
    }
    changes.set_some("balance", patch.balance);
    changes.set_some("balance_used", patch.balance_used);
    changes.set_some("quota", patch.quota);
    changes.set_some("unit_cost", patch.unit_cost);
    changes.set_some("value_score", patch.value_score);
    if let Some(status) = patch.status {
        changes.set("status", status.as_str());
        // An explicit choice stays in force when the site is enabled again.
        changes.set("former_status", patch.former_status.map(FormerStatus::as_str));
    }
    changes.set_some("is_pinned", patch.is_pinned);
    changes.set_some("sort_order", patch.sort_order);
    changes.set_some("checkin_enabled", patch.checkin_enabled);
    changes.set_some("last_checkin_at", patch.last_checkin_at);
    changes.set_some("last_balance_refresh", patch.last_balance_refresh);
    changes.set_some("oauth_provider", patch.oauth_provider);
    changes.set_some("oauth_account_key", patch.oauth_account_key);
    changes.set_some("oauth_project_id", patch.oauth_project_id);
    changes.set_some("credential_mode", patch.credential_mode.map(CredentialMode::as_str));
    changes.set_some("platform_user_id", patch.platform_user_id);
    changes.set_some("use_system_proxy", patch.use_system_proxy);
    changes.set_some("login_username", patch.login_username);
    changes.set_some("login_updated_at", patch.login_updated_at);
    if let Some(expires_at) = patch.token_expires_at {
        changes.set("token_expires_at", expires_at);
        // A token from another source may be of any age.
        changes.set("token_issued_at", None::<Millis>);
    }
    changes.set_some("sub2api_token_expires_at", patch.sub2api_token_expires_at);
    changes.set_some("extra", patch.extra);
    Ok(changes.update(TABLE, id).touching(TouchedKind::Account, [id.into()]))
}

/// A session that was renewed at its site.
#[derive(Debug, Clone)]
pub struct RenewedSession {
    pub access_token: Secret,
    /// The new refresh token and its expiry; `None` leaves the stored ones as they are.
    pub rotation: Option<(Secret, Millis)>,
    /// The account's user id at the site, if known.
    pub user_id: Option<i64>,
}

/// Stores a renewed session of an account whose `credential_version` is still this one; an expired or unhealthy
/// account becomes active again. Fails with [`Error::NotFound`] when the credential has been changed meanwhile;
/// that change is kept.
pub async fn renew(store: &Store, id: AccountId, version: i64, session: &RenewedSession) -> Result<()> {
    let seal = |column, secret: &Secret| store.sealer().seal(TABLE, column, secret.expose());
    let mut args = vec![seal("access_token", &session.access_token)?.into(), now_ms().into()];
    let rotation = match &session.rotation {
        None => "",
        Some((refresh_token, expires_at)) => {
            args.push(seal("sub2api_refresh_token", refresh_token)?.into());
            args.push((*expires_at).into());
            ", sub2api_refresh_token = ?, sub2api_token_expires_at = ?"
        }
    };
    let number = session.user_id.map_or("", |user_id| {
        args.push(user_id.into());
        ", platform_user_id = ?"
    });
    args.extend([id.into(), version.into()]);
    let sql = format!(
        "UPDATE accounts SET access_token = ?, updated_at = ?{rotation}{number}, \
         credential_version = credential_version + 1, \
         status = CASE WHEN status IN ('expired', 'unhealthy') THEN 'active' ELSE status END \
         WHERE id = ? AND credential_version = ?"
    );
    let renewal = Statement::new(sql, args).must_change().touching(TouchedKind::Account, [id.into()]);
    store.batch(vec![renewal]).await.map(drop)
}

/// Builds the statement that marks an active or unhealthy account with the credential of this row as expired.
/// Its batch is undone with [`Error::NotFound`] when the account has been disabled or given another credential
/// meanwhile.
pub fn expire_statement(account: &AccountRow) -> Statement {
    let sql = "UPDATE accounts SET status = 'expired', former_status = NULL, updated_at = ? \
               WHERE id = ? AND status IN ('active', 'unhealthy') AND credential_version = ?";
    let args = vec![now_ms().into(), account.id.into(), account.credential_version.into()];
    Statement::new(sql, args).must_change().touching(TouchedKind::Account, [account.id.into()])
}

/// Builds the statement that makes an expired or unhealthy account active again; a disabled account stays
/// disabled.
pub fn revive_statement(id: AccountId) -> Statement {
    let sql = "UPDATE accounts SET status = 'active', former_status = NULL, updated_at = ? \
               WHERE id = ? AND status IN ('expired', 'unhealthy')";
    Statement::new(sql, vec![now_ms().into(), id.into()]).touching(TouchedKind::Account, [id.into()])
}

/// Stores the account's health.
pub async fn set_health(store: &Store, id: AccountId, health: &Health) -> Result<()> {
    store.batch(vec![health_statement(id, health)]).await.map(drop)
}

/// Builds the statement that stores an account's health, for a batch that changes more along with it.
pub fn health_statement(id: impl Into<Value>, health: &Health) -> Statement {
    let reason: String = health.reason.chars().take(500).collect();
    Statement::new(
        "UPDATE accounts SET health_state = ?, health_reason = ?, health_source = ?, health_checked_at = ? \
         WHERE id = ?",
        vec![
            health.state.as_str().into(),
            reason.into(),
            health.source.as_str().into(),
            health.checked_at.into(),
            id.into(),
        ],
    )
    .touching_nothing()
}

/// Deletes an account with everything that belongs to it; an unknown id is no error. Channels of a route unit
/// with other members are kept with their settings and pass to the next member; a unit without other members is deleted.
pub async fn delete(store: &Store, id: AccountId) -> Result<()> {
    let channels = route_units::channels_under(store, id).await?;
    let handed_on = (!channels.is_empty()).then(|| route_units::hand_on(id, &channels));
    let delete = Statement::new("DELETE FROM accounts WHERE id = ?", vec![id.into()]);
    let mut batch: Vec<Statement> = handed_on.into_iter().collect();
    batch.push(delete.touching(TouchedKind::Account, [id.into()]));
    batch.push(route_units::delete_empty());
    store.batch(batch).await.map(drop)
}

pub(super) fn read(store: &Store, row: &mut Fields<'_>) -> Result<AccountRow> {
    let sealer = store.sealer();
    let open = |column, text| sealer.open_column(TABLE, column, text);
    Ok(AccountRow {
        id: row.id()?,
        site_id: row.id()?,
        username: row.opt_text()?,
        access_token: open("access_token", row.opt_str()?),
        api_token: open("api_token", row.opt_str()?),
        balance: row.usd()?,
        balance_used: row.usd()?,
        quota: row.usd()?,
        unit_cost: row.opt_real()?,
        value_score: row.real()?,
        status: {
            let text = row.str()?;
            AccountStatus::parse(text).ok_or_else(|| Error::Database(format!("account status {text:?}")))?
        },
        former_status: row.opt_str()?.and_then(FormerStatus::parse),
        is_pinned: row.bool()?,
        sort_order: row.int()?,
        checkin_enabled: row.bool()?,
        last_checkin_at: row.opt_int()?,
        last_balance_refresh: row.opt_int()?,
        oauth_provider: row.opt_text()?,
        oauth_account_key: row.opt_text()?,
        oauth_project_id: row.opt_text()?,
        credential_mode: CredentialMode::parse(row.str()?).unwrap_or_default(),
        platform_user_id: row.opt_int()?,
        proxy_url: open("proxy_url", row.opt_str()?),
        use_system_proxy: row.bool()?,
        login_username: row.opt_text()?,
        login_password: open("login_password", row.opt_str()?),
        login_updated_at: row.opt_int()?,
        refresh_token: open("refresh_token", row.opt_str()?),
        id_token: open("id_token", row.opt_str()?),
        provider_data: open("provider_data", row.opt_str()?),
        token_expires_at: row.opt_int()?,
        token_issued_at: row.opt_int()?,
        sub2api_refresh_token: open("sub2api_refresh_token", row.opt_str()?),
        sub2api_token_expires_at: row.opt_int()?,
        health: {
            let (state, reason, source, checked_at) =
                (row.opt_text()?, row.opt_text()?, row.opt_text()?, row.opt_int()?);
            state.map(|state| Health {
                state: HealthState::parse(&state),
                reason: reason.unwrap_or_default(),
                source: HealthSource::parse(source.as_deref().unwrap_or_default()),
                checked_at,
            })
        },
        credential_version: row.int()?,
        extra: row.opt_text()?,
        created_at: row.int()?,
        updated_at: row.int()?,
    })
}
