//! Accounts that are connected by a browser login: finding them by owner, renewing their tokens, listing them
//! in pages.
//!
//! Data of such an account that has no column is kept in the member `oauth` of its `extra`: [`Notes`].

use std::collections::HashMap;

use serde_json::{Map, Value, json};

use super::accounts::{AccountRow, COLUMNS, TABLE, read};
use super::sql::{self, MAX_PLACEHOLDERS, Statement, placeholders, values};
use super::touches::TouchedKind;
use super::{Result, Secret, Store};
use crate::ids::{AccountId, Id, SiteId, UnitId};
use crate::time::{self, Millis, iso, now_ms};

/// New tokens that a provider issued in exchange for old ones.
#[derive(Debug, Clone)]
pub struct RenewedTokens {
    pub access_token: Secret,
    /// `None` keeps the stored token, as it does for the next two fields.
    pub refresh_token: Option<Secret>,
    pub id_token: Option<Secret>,
    /// JSON text of an object, which replaces the stored one as a whole.
    pub provider_data: Option<Secret>,
    pub expires_at: Option<Millis>,
}

/// The owner at the provider whose account is looked for.
#[derive(Debug, Clone, Copy)]
pub struct ProviderIdentity<'a> {
    /// The provider's identifier.
    pub provider: &'a str,
    pub account_key: Option<&'a str>,
    pub project_id: Option<&'a str>,
    /// Used only when no account key is known.
    pub email: Option<&'a str>,
}

/// An account whose token may have to be renewed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpiringToken {
    pub account_id: AccountId,
    pub site_id: SiteId,
    pub provider: String,
    pub issued_at: Option<Millis>,
    pub expires_at: Millis,
}

/// How an account was last asked for its models.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ModelDiscovery {
    Healthy,
    /// It failed.
    Abnormal,
}

/// Data of a connection that has no column.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Notes {
    /// The account's identifier in requests, where it is not its account key.
    pub account_id: Option<String>,
    pub email: Option<String>,
    pub plan_type: Option<String>,
    pub model_discovery: Option<ModelDiscovery>,
    pub last_model_sync_at: Option<Millis>,
    pub last_model_sync_error: Option<String>,
    pub last_discovered_models: Vec<String>,
    /// The account's usage limits when last seen.
    pub quota: Option<Value>,
}

/// The member of the notes with the account's identifier in requests.
const ACCOUNT_ID: &str = "accountId";

/// Returns the identifier that requests name a connected account by.
pub fn account_id(account: &AccountRow) -> Option<String> {
    // Most accounts have none in their notes, which are long.
    let extra = account.extra.as_deref().filter(|extra| extra.contains(ACCOUNT_ID));
    let noted = extra.and_then(|extra| Notes::of(Some(extra)).account_id);
    noted.or_else(|| account.oauth_account_key.clone())
}

// === impl ModelDiscovery ===

impl ModelDiscovery {
    fn as_str(self) -> &'static str {
        match self {
            Self::Healthy => "healthy",
            Self::Abnormal => "abnormal",
        }
    }

    fn parse(text: &str) -> Option<Self> {
        [Self::Healthy, Self::Abnormal].into_iter().find(|status| status.as_str() == text)
    }
}

// === impl Notes ===

impl Notes {
    /// Reads the notes from an account's `extra`; ignores a member of another type.
    pub fn of(extra: Option<&str>) -> Self {
        let mut members: Map<String, Value> =
            extra.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
        let Some(Value::Object(mut notes)) = members.remove("oauth") else { return Self::default() };
        let mut text = |name: &str| match notes.remove(name) {
            Some(Value::String(text)) if !text.trim().is_empty() => Some(text),
            _ => None,
        };
        Self {
            account_id: text(ACCOUNT_ID),
            email: text("email"),
            plan_type: text("planType"),
            model_discovery: text("modelDiscoveryStatus").and_then(|text| ModelDiscovery::parse(&text)),
            last_model_sync_at: text("lastModelSyncAt").and_then(|text| time::parse(&text)),
            last_model_sync_error: text("lastModelSyncError"),
            last_discovered_models: match notes.remove("lastDiscoveredModels") {
                Some(Value::Array(models)) => {
                    models.iter().filter_map(Value::as_str).map(str::to_owned).collect()
                }
                _ => Vec::new(),
            },
            quota: notes.remove("quota").filter(Value::is_object),
        }
    }

    /// Returns the account's `extra` with these notes in it and everything else unchanged.
    pub fn written_into(&self, extra: Option<&str>) -> String {
        let mut members: Map<String, Value> =
            extra.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
        let before = members.remove("oauth");
        let mut notes = match before {
            Some(Value::Object(notes)) => notes,
            _ => Map::new(),
        };
        let models = (!self.last_discovered_models.is_empty()).then(|| json!(self.last_discovered_models));
        for (name, value) in [
            (ACCOUNT_ID, self.account_id.clone().map(Value::from)),
            ("email", self.email.clone().map(Value::from)),
            ("planType", self.plan_type.clone().map(Value::from)),
            ("modelDiscoveryStatus", self.model_discovery.map(|status| status.as_str().into())),
            ("lastModelSyncAt", self.last_model_sync_at.map(|at| iso(at).into())),
            ("lastModelSyncError", self.last_model_sync_error.clone().map(Value::from)),
            ("lastDiscoveredModels", models),
            ("quota", self.quota.clone()),
        ] {
            match value {
                Some(value) => drop(notes.insert(name.to_owned(), value)),
                None => drop(notes.remove(name)),
            }
        }
        members.insert("oauth".to_owned(), Value::Object(notes));
        Value::Object(members).to_string()
    }
}

/// Stores renewed tokens of an account that still has the credential of this row; an expired or unhealthy
/// account becomes active again. Fails with [`super::Error::NotFound`] when the credential has been changed
/// meanwhile; that change is kept. `notes` are written too unless `extra` has been changed meanwhile.
pub async fn renew(
    store: &Store,
    account: &AccountRow,
    tokens: &RenewedTokens,
    notes: Option<&Notes>,
) -> Result<()> {
    let now = now_ms();
    let seal = |column, secret: &Secret| store.sealer().seal(TABLE, column, secret.expose());
    let mut set =
        String::from("access_token = ?, updated_at = ?, credential_version = credential_version + 1");
    let mut args = vec![seal("access_token", &tokens.access_token)?.into(), now.into()];
    for (column, secret) in [
        ("refresh_token", &tokens.refresh_token),
        ("id_token", &tokens.id_token),
        ("provider_data", &tokens.provider_data),
    ] {
        if let Some(secret) = secret {
            set.push_str(&format!(", {column} = ?"));
            args.push(seal(column, secret)?.into());
        }
    }
    // A token without a stated expiry must not inherit the expiry of the last one.
    set.push_str(", token_expires_at = ?, token_issued_at = ?");
    args.extend([tokens.expires_at.into(), tokens.expires_at.map(|_| now).into()]);
    args.extend([account.id.into(), account.credential_version.into()]);
    let sql = format!(
        "UPDATE accounts SET {set}, \
         status = CASE WHEN status IN ('expired', 'unhealthy') THEN 'active' ELSE status END \
         WHERE id = ? AND credential_version = ?"
    );
    let mut batch =
        vec![Statement::new(sql, args).must_change().touching(TouchedKind::Account, [account.id.into()])];
    batch.extend(notes.map(|notes| note_statement(account, notes)));
    store.batch(batch).await.map(drop)
}

/// Builds the statement that writes a connection's notes, unless the account's `extra` has been changed since
/// it was read. In that case it does nothing and does not undo its batch: the notes are merely out of date.
pub fn note_statement(account: &AccountRow, notes: &Notes) -> Statement {
    let was = account.extra.clone().unwrap_or_default();
    let written = notes.written_into(account.extra.as_deref());
    let sql = "UPDATE accounts SET extra = ? WHERE id = ? AND COALESCE(extra, '') = ?";
    Statement::new(sql, vec![written.into(), account.id.into(), was.into()]).touching_nothing()
}

/// Returns the account of this owner: by the provider's account key and the project, where no project equals an
/// empty one; by the e-mail address only when no key is known. Returns the oldest of several.
pub async fn find(store: &Store, owner: ProviderIdentity<'_>) -> Result<Option<AccountRow>> {
    let (rule, args) = match (owner.account_key, owner.email) {
        (Some(key), _) => (
            "oauth_account_key = ? AND COALESCE(oauth_project_id, '') = ?",
            vec![key.into(), owner.project_id.unwrap_or_default().into()],
        ),
        (None, Some(email)) => ("username = ?", vec![email.into()]),
        (None, None) => return Ok(None),
    };
    let sql =
        format!("SELECT {COLUMNS} FROM accounts WHERE oauth_provider = ? AND {rule} ORDER BY id LIMIT 1");
    let args = [vec![owner.provider.into()], args].concat();
    store.row(sql, args, |row| read(store, row)).await
}

/// Returns at most `limit` connections, newest first, after skipping `offset`.
pub async fn page(store: &Store, limit: i64, offset: i64) -> Result<Vec<AccountRow>> {
    let sql = format!(
        "SELECT {COLUMNS} FROM accounts WHERE oauth_provider IS NOT NULL ORDER BY id DESC LIMIT ? OFFSET ?"
    );
    store.rows(sql, vec![limit.into(), offset.into()], |row| read(store, row)).await
}

/// Counts the connections.
pub async fn count(store: &Store) -> Result<i64> {
    let sql = "SELECT COUNT(*) FROM accounts WHERE oauth_provider IS NOT NULL";
    Ok(store.row(sql, Vec::new(), |row| row.int()).await?.unwrap_or_default())
}

/// Returns the active accounts on active sites that have a refresh token and an access token that expires by
/// `before`, the earliest expiry first.
pub async fn expiring(store: &Store, before: Millis) -> Result<Vec<ExpiringToken>> {
    let sql = "SELECT a.id, a.site_id, a.oauth_provider, a.token_issued_at, a.token_expires_at \
               FROM accounts a JOIN sites s ON s.id = a.site_id \
               WHERE a.status = 'active' AND s.status = 'active' AND a.oauth_provider IS NOT NULL \
               AND COALESCE(a.refresh_token, '') <> '' AND a.token_expires_at <= ? \
               ORDER BY a.token_expires_at, a.id";
    store
        .rows(sql, vec![before.into()], |row| {
            Ok(ExpiringToken {
                account_id: row.id()?,
                site_id: row.id()?,
                provider: row.text()?,
                issued_at: row.opt_int()?,
                expires_at: row.int()?,
            })
        })
        .await
}

/// Returns the available models of these accounts, ordered by name.
pub async fn models_of(store: &Store, ids: &[AccountId]) -> Result<HashMap<AccountId, Vec<String>>> {
    let mut models: HashMap<AccountId, Vec<String>> = HashMap::new();
    for ids in ids.chunks(MAX_PLACEHOLDERS - 1) {
        let sql = format!(
            "SELECT account_id, model_name FROM model_availability \
             WHERE available = ? AND account_id IN ({}) ORDER BY account_id, model_name",
            placeholders(ids.len())
        );
        let args = std::iter::once(true.into()).chain(values(ids));
        for row in store.query(sql, args.collect()).await? {
            let mut row = row.fields();
            models.entry(row.id()?).or_default().push(row.text()?);
        }
    }
    Ok(models)
}

/// Counts the channels that these accounts have of their own, and those of these route units.
pub async fn channel_counts(
    store: &Store,
    accounts: &[AccountId],
    units: &[UnitId],
) -> Result<(HashMap<AccountId, i64>, HashMap<UnitId, i64>)> {
    let of_accounts = count_by(store, "account_id", "AND oauth_route_unit_id IS NULL ", accounts).await?;
    Ok((of_accounts, count_by(store, "oauth_route_unit_id", "", units).await?))
}

async fn count_by<I: Id + Into<sql::Value>>(
    store: &Store,
    column: &'static str,
    rule: &'static str,
    ids: &[I],
) -> Result<HashMap<I, i64>> {
    let sql = |marks: &str| {
        format!(
            "SELECT {column}, COUNT(*) FROM route_channels WHERE {column} IN ({marks}) {rule}GROUP BY {column}"
        )
    };
    store.rows_of(ids, sql, |row| Ok((row.id()?, row.int()?))).await
}

/// Whether another account belongs to the same owner at the provider: revoking a token of one there would
/// revoke both.
pub async fn has_twin(store: &Store, account: &AccountRow) -> Result<bool> {
    let sql = "SELECT 1 FROM accounts WHERE oauth_provider = ? AND oauth_account_key = ? AND id <> ? LIMIT 1";
    let args = vec![
        account.oauth_provider.clone().into(),
        account.oauth_account_key.clone().into(),
        account.id.into(),
    ];
    Ok(!store.query(sql, args).await?.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_of_another_type_are_left_out_and_what_else_stands_there_stays() {
        let extra = r#"{"note":"x","oauth":{"email":7,"planType":"plus","quota":[],"other":1}}"#;
        let notes = Notes::of(Some(extra));
        assert_eq!(notes, Notes { plan_type: Some("plus".into()), ..Notes::default() });
        let written = Notes { email: Some("a@example.com".into()), ..notes }.written_into(Some(extra));
        let written: Value = serde_json::from_str(&written).expect("an object");
        let expected =
            json!({"note": "x", "oauth": {"email": "a@example.com", "planType": "plus", "other": 1}});
        assert_eq!(written, expected);
        assert_eq!(Notes::of(Some("[]")), Notes::default());
        assert_eq!(Notes::of(None), Notes::default());
    }
}
