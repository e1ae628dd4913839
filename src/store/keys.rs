//! Managed downstream keys: the settings an operator chose for each, and its usage.
//!
//! The key itself is stored sealed and found by its HMAC. Lists are JSON; an entry that no longer means
//! anything is ignored on reading.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use ipnet::IpNet;
use ring::digest::{SHA256, digest};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::seal::Hashing;
use super::sql::{Changes, Fields, Statement, Value};
use super::{Error, Result, Secret, Store, budgets};
use crate::hex;
use crate::ids::{AccountId, KeyId, RouteId, SiteId, TokenId};
use crate::keys::{Bounds, Budget, BudgetLive, Key, KeyLimits, KeyLive, KeyTable, MAX_BUDGETS, Period};
use crate::money::Usd;
use crate::networks;
use crate::routing::{CredentialRef, ModelPattern, Policy};
use crate::time::{Millis, now_ms};

/// A stored key.
#[derive(Debug, Clone, PartialEq)]
pub struct KeyRow {
    pub id: KeyId,
    /// `None` when the stored key can no longer be opened.
    pub key: Option<Secret>,
    pub settings: KeySettings,
    pub used_cost: Usd,
    pub used_requests: i64,
    pub last_used_at: Option<Millis>,
    pub created_at: Millis,
    pub updated_at: Millis,
}

/// The settings that an operator chooses for a key.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct KeySettings {
    pub name: String,
    pub description: Option<String>,
    pub group_name: Option<String>,
    pub tags: Vec<String>,
    pub enabled: bool,
    pub expires_at: Option<Millis>,
    /// In USD; `None` means no limit, 0 blocks the key at once.
    pub max_cost: Option<Usd>,
    pub max_requests: Option<i64>,
    pub supported_models: Vec<String>,
    pub allowed_route_ids: Vec<RouteId>,
    /// By site id; the multipliers are above 0.
    pub site_weight_multipliers: BTreeMap<SiteId, f64>,
    pub excluded_site_ids: Vec<SiteId>,
    pub excluded_credential_refs: Vec<ExcludedCredential>,
    /// The number of concurrent calls; `None` means no limit, as for the fields below.
    pub max_concurrency: Option<u32>,
    pub requests_per_minute: Option<u32>,
    pub tokens_per_minute: Option<u32>,
    /// Addresses and networks; `None` allows every address.
    pub allowed_ips: Option<Vec<String>>,
    pub budgets: Option<Vec<BudgetSettings>>,
}

/// A budget of a key, as stored and as written by clients.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BudgetSettings {
    pub period: Period,
    pub max_cost: Option<Usd>,
    pub max_requests: Option<i64>,
    pub max_tokens: Option<i64>,
    /// Model patterns; `None` counts every model.
    pub models: Option<Vec<String>>,
}

/// A credential that a key must not use, as stored and as written by clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum ExcludedCredential {
    AccountToken { site_id: SiteId, account_id: AccountId, token_id: TokenId },
    DefaultApiKey { site_id: SiteId, account_id: AccountId },
}

const TABLE: &str = "downstream_api_keys";

const MAX_GROUP_CHARS: usize = 64;
/// The maximum number of tags of a key.
pub const MAX_TAGS: usize = 20;
const MAX_TAG_CHARS: usize = 32;

const COLUMNS: &str = "id, key_enc, name, description, group_name, tags, enabled, expires_at, max_cost, \
     max_requests, supported_models, allowed_route_ids, site_weight_multipliers, excluded_site_ids, \
     excluded_credential_refs, max_concurrency, requests_per_minute, tokens_per_minute, allowed_ips, budgets, \
     used_cost, used_requests, last_used_at, created_at, updated_at";

/// Returns all keys, newest first.
pub async fn list(store: &Store) -> Result<Vec<KeyRow>> {
    let sql = format!("SELECT {COLUMNS} FROM {TABLE} ORDER BY id DESC");
    store.rows(sql, Vec::new(), |row| read(store, row)).await
}

pub async fn get(store: &Store, id: KeyId) -> Result<Option<KeyRow>> {
    let sql = format!("SELECT {COLUMNS} FROM {TABLE} WHERE id = ?");
    store.row(sql, vec![id.into()], |row| read(store, row)).await
}

/// Returns a name of a group, cut to its maximum length.
pub fn cut_group(name: &str) -> String {
    name.chars().take(MAX_GROUP_CHARS).collect()
}

/// Returns the tags, each cut to its maximum length, without those that differ from another only in case, and at most
/// [`MAX_TAGS`].
pub fn distinct_tags(sent: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut seen = HashSet::new();
    let cut = sent.into_iter().map(|tag| tag.chars().take(MAX_TAG_CHARS).collect::<String>());
    cut.filter(|tag| seen.insert(tag.to_lowercase())).take(MAX_TAGS).collect()
}

/// Builds the statements that remove deleted routes from the lists of allowed routes, because an import may
/// give such an id to another route. A key that is changed meanwhile keeps its list.
pub async fn forget_gone_routes(store: &Store) -> Result<Vec<Statement>> {
    let routes: Vec<RouteId> = store.rows("SELECT id FROM token_routes", Vec::new(), |row| row.id()).await?;
    let routes: HashSet<RouteId> = routes.into_iter().collect();
    let sql = "SELECT id, updated_at, allowed_route_ids FROM downstream_api_keys";
    let lists: Vec<(KeyId, i64, Vec<RouteId>)> = store
        .rows(sql, Vec::new(), |row| {
            let (id, updated_at) = (row.id()?, row.int()?);
            Ok((id, updated_at, list_or_empty(id, "allowed_route_ids", row.opt_str()?)))
        })
        .await?;
    let changed = lists.into_iter().filter_map(|(id, updated_at, mut allowed)| {
        let before = allowed.len();
        allowed.retain(|route| routes.contains(route));
        (allowed.len() < before).then_some((id, updated_at, allowed))
    });
    changed
        .map(|(id, updated_at, allowed)| {
            let sql = "UPDATE downstream_api_keys SET allowed_route_ids = ? WHERE id = ? AND updated_at = ?";
            Ok(Statement::new(sql, vec![json(&allowed)?, id.into(), updated_at.into()]))
        })
        .collect()
}

/// Stores a new key and returns its id; fails with [`Error::Conflict`] when the key exists.
pub async fn insert(store: &Store, key: &Secret, settings: &KeySettings) -> Result<KeyId> {
    let now = now_ms();
    let hashing = store.sealer().hashing().await;
    let born = [
        ("key_hash", hashing.index(key.expose()).into()),
        ("key_enc", store.sealer().seal(TABLE, "key_enc", key.expose())?.into()),
        ("created_at", now.into()),
        ("updated_at", now.into()),
    ];
    let mut statements = bring_forward(&hashing, key);
    statements.push(Statement::insert(TABLE, columns(settings)?.into_iter().chain(born)));
    Ok(store.batch(statements).await?.last().map_or(KeyId::ZERO, |inserted| inserted.id()))
}

/// Replaces the settings of a key, and the key itself when a new one is given. Fails with [`Error::NotFound`]
/// when the row no longer exists, and with [`Error::Conflict`] when the new key exists.
pub async fn update(store: &Store, id: KeyId, key: Option<&Secret>, settings: &KeySettings) -> Result<()> {
    let hashing = store.sealer().hashing().await;
    let mut statements = Vec::new();
    if let Some(key) = key {
        statements = bring_forward(&hashing, key);
        let hash = hashing.index(key.expose());
        let sealed = store.sealer().seal(TABLE, "key_enc", key.expose())?;
        statements.push(Statement::new(
            "UPDATE downstream_api_keys SET key_hash = ?, key_enc = ? WHERE id = ?",
            vec![hash.into(), sealed.into(), id.into()],
        ));
    }
    let mut changes = Changes::default();
    changes.set_all(columns(settings)?);
    changes.set("updated_at", now_ms());
    statements.push(changes.update(TABLE, id));
    statements.push(budgets::keep_only(id, &settings.scopes()));
    store.batch(statements).await.map(drop)
}

/// Builds the statements that give a row with this same key the new hash first, so that no two rows end up with
/// one key: while the index key is being replaced, a row may still carry only the former hash.
fn bring_forward(hashing: &Hashing<'_>, key: &Secret) -> Vec<Statement> {
    let sql = "UPDATE downstream_api_keys SET key_hash = ? WHERE key_hash = ?";
    let forward =
        |former: String| Statement::new(sql, vec![hashing.index(key.expose()).into(), former.into()]);
    hashing.former(key.expose()).map(forward).collect()
}

/// Deletes a key; its log rows stay. Fails with [`Error::NotFound`] when it is already deleted.
pub async fn delete(store: &Store, id: KeyId) -> Result<()> {
    let delete = Statement::new("DELETE FROM downstream_api_keys WHERE id = ?", vec![id.into()]);
    store.batch(vec![delete.must_change(), budgets::keep_only(id, &[])]).await.map(drop)
}

/// Loads the key table that requests read. Keys that were in the last table keep their live usage.
pub async fn load_table(store: &Store, last: &KeyTable) -> Result<KeyTable> {
    let mut stored = budgets::all(store).await?;
    let zone = store.time_zone();
    let keys = list(store).await?.into_iter().filter_map(|row| {
        let digest = store.sealer().digest(row.key.as_ref()?.expose().as_bytes());
        let live = last.get(row.id).map(|key| key.live.clone()).unwrap_or_else(|| {
            KeyLive::new(row.id, row.used_requests, row.used_cost, row.last_used_at).into()
        });
        let known = live.budgets();
        let limits = row.settings.limits(|scope, period| {
            let known = known.iter().find(|budget| budget.scope == scope);
            known.cloned().unwrap_or_else(|| {
                let budget = BudgetLive::new(scope.to_owned());
                if let Some((start, used)) = stored.remove(&(row.id, scope.to_owned())) {
                    budget.open(start, period.end(start, zone), used);
                }
                Arc::new(budget)
            })
        });
        live.set_budgets(limits.budgets.iter().map(|budget| budget.live.clone()).collect());
        live.limit_concurrency(limits.max_concurrency);
        let key = Key {
            id: row.id,
            name: row.settings.name.clone(),
            enabled: row.settings.enabled,
            expires_at: row.settings.expires_at,
            max_cost: row.settings.max_cost,
            max_requests: row.settings.max_requests,
            policy: row.settings.policy(),
            allowed_ips: row.settings.networks(),
            limits: limits.is_any().then(|| Box::new(limits)),
            live,
        };
        Some((digest, key))
    });
    Ok(KeyTable::new(keys))
}

impl KeySettings {
    fn policy(&self) -> Policy {
        Policy {
            managed: true,
            supported_models: self.supported_models.iter().map(|text| ModelPattern::stored(text)).collect(),
            allowed_route_ids: self.allowed_route_ids.clone(),
            site_weight_multipliers: self
                .site_weight_multipliers
                .clone()
                .into_iter()
                .collect::<HashMap<_, _>>(),
            excluded_site_ids: self.excluded_site_ids.clone(),
            excluded_credentials: self
                .excluded_credential_refs
                .iter()
                .map(|&excluded| excluded.into())
                .collect(),
        }
    }

    /// Builds the limits other than the totals; `live` returns the counter of a budget scope.
    fn limits(&self, mut live: impl FnMut(&str, Period) -> Arc<BudgetLive>) -> KeyLimits {
        let budget = |(settings, scope): (&BudgetSettings, String)| Budget {
            period: settings.period,
            bounds: Bounds {
                cost: settings.max_cost,
                requests: settings.max_requests,
                tokens: settings.max_tokens,
            },
            models: settings.models.iter().flatten().map(|text| ModelPattern::stored(text)).collect(),
            live: live(&scope, settings.period),
        };
        let budgets = self.budgets.iter().flatten().take(MAX_BUDGETS);
        KeyLimits {
            max_concurrency: self.max_concurrency,
            requests_per_minute: self.requests_per_minute,
            tokens_per_minute: self.tokens_per_minute,
            budgets: budgets.zip(self.scopes()).map(budget).collect(),
        }
    }

    /// Builds the limits of a key without any usage.
    pub fn unused_limits(&self) -> KeyLimits {
        self.limits(|scope, _| Arc::new(BudgetLive::new(scope.to_owned())))
    }

    /// Returns the scope of each budget, by which its row is found: the period, the models, and a number that
    /// tells budgets of the same kind apart. Its limits are not part of it, so that changing them keeps the
    /// usage.
    pub fn scopes(&self) -> Vec<String> {
        let mut scopes: Vec<String> = Vec::new();
        for budget in self.budgets.iter().flatten() {
            let mut models = budget.models.clone().unwrap_or_default();
            models.sort_unstable();
            let digest = digest(&SHA256, models.join("\n").as_bytes());
            let models = if models.is_empty() { String::new() } else { hex::encode(&digest.as_ref()[..16]) };
            let nth =
                |number: usize| format!("{} {number} {models}", budget.period.name()).trim_end().to_owned();
            let mut names = (1..).map(nth);
            scopes.extend(names.find(|name| !scopes.contains(name)));
        }
        scopes
    }

    fn networks(&self) -> Option<Box<[IpNet]>> {
        let networks = self.allowed_ips.as_ref()?.iter();
        Some(networks.filter_map(|text| networks::parse(text)).collect())
    }
}

impl From<ExcludedCredential> for CredentialRef {
    fn from(excluded: ExcludedCredential) -> Self {
        match excluded {
            ExcludedCredential::AccountToken { account_id, token_id, .. } => {
                Self::AccountToken { account_id, token_id }
            }
            ExcludedCredential::DefaultApiKey { account_id, .. } => Self::DefaultApiKey { account_id },
        }
    }
}

/// Everything that a key's settings may refer to.
#[derive(Debug, Default)]
pub struct Referable {
    pub routes: HashSet<RouteId>,
    pub sites: HashSet<SiteId>,
    /// By account: its site, and whether it has an API key of its own.
    pub accounts: HashMap<AccountId, (SiteId, bool)>,
    /// The account of each token.
    pub tokens: HashMap<TokenId, AccountId>,
}

/// Returns the ids of everything that a key's settings may refer to.
pub async fn referable(store: &Store) -> Result<Referable> {
    let accounts = "SELECT id, site_id, api_token IS NOT NULL AND api_token <> '' FROM accounts";
    let tokens = "SELECT id, account_id FROM account_tokens";
    Ok(Referable {
        routes: store.rows("SELECT id FROM token_routes", Vec::new(), |row| row.id()).await?,
        sites: store.rows("SELECT id FROM sites", Vec::new(), |row| row.id()).await?,
        accounts: store.rows(accounts, Vec::new(), |row| Ok((row.id()?, (row.id()?, row.bool()?)))).await?,
        tokens: store.rows(tokens, Vec::new(), |row| Ok((row.id()?, row.id()?))).await?,
    })
}

/// Returns every column of the settings with its value.
fn columns(settings: &KeySettings) -> Result<[(&'static str, Value); 18]> {
    Ok([
        ("name", settings.name.as_str().into()),
        ("description", settings.description.clone().into()),
        ("group_name", settings.group_name.clone().into()),
        ("tags", json(&settings.tags)?),
        ("enabled", settings.enabled.into()),
        ("expires_at", settings.expires_at.into()),
        ("max_cost", settings.max_cost.into()),
        ("max_requests", settings.max_requests.into()),
        ("supported_models", json(&settings.supported_models)?),
        ("allowed_route_ids", json(&settings.allowed_route_ids)?),
        ("site_weight_multipliers", json(&settings.site_weight_multipliers)?),
        ("excluded_site_ids", json(&settings.excluded_site_ids)?),
        ("excluded_credential_refs", json(&settings.excluded_credential_refs)?),
        ("max_concurrency", settings.max_concurrency.map(i64::from).into()),
        ("requests_per_minute", settings.requests_per_minute.map(i64::from).into()),
        ("tokens_per_minute", settings.tokens_per_minute.map(i64::from).into()),
        ("allowed_ips", settings.allowed_ips.as_ref().map_or(Ok(Value::Null), json)?),
        ("budgets", settings.budgets.as_ref().map_or(Ok(Value::Null), json)?),
    ])
}

fn json(value: &impl Serialize) -> Result<Value> {
    serde_json::to_string(value).map(Value::Text).map_err(|error| Error::Database(error.to_string()))
}

fn read(store: &Store, row: &mut Fields<'_>) -> Result<KeyRow> {
    let id = row.id()?;
    let key = store.sealer().open_column(TABLE, "key_enc", row.opt_str()?);
    let mut settings = KeySettings {
        name: row.text()?,
        description: row.opt_text()?,
        group_name: row.opt_text()?,
        tags: list_or_empty(id, "tags", row.opt_str()?),
        enabled: row.bool()?,
        expires_at: row.opt_int()?,
        max_cost: row.opt_usd()?,
        max_requests: row.opt_int()?,
        supported_models: list_or_empty(id, "supported_models", row.opt_str()?),
        allowed_route_ids: list_or_empty(id, "allowed_route_ids", row.opt_str()?),
        site_weight_multipliers: list_or_empty(id, "site_weight_multipliers", row.opt_str()?),
        excluded_site_ids: Vec::new(),
        excluded_credential_refs: Vec::new(),
        ..KeySettings::default()
    };
    let sites = restrictions(id, "excluded_site_ids", row.opt_str()?);
    let credentials = restrictions(id, "excluded_credential_refs", row.opt_str()?);
    let count = |number: Option<i64>| number.and_then(|number| u32::try_from(number).ok());
    settings.max_concurrency = count(row.opt_int()?);
    settings.requests_per_minute = count(row.opt_int()?);
    settings.tokens_per_minute = count(row.opt_int()?);
    let addresses = restrictions::<Option<_>>(id, "allowed_ips", row.opt_str()?);
    let budgets = restrictions::<Option<_>>(id, "budgets", row.opt_str()?);
    match (sites, credentials, addresses, budgets) {
        (Some(sites), Some(credentials), Some(addresses), Some(budgets)) => {
            settings.excluded_site_ids = sites;
            settings.excluded_credential_refs = credentials;
            settings.allowed_ips = addresses;
            settings.budgets = budgets;
        }
        // What the key must not use is unknown. It serves nothing until an operator sets it again.
        _ => {
            settings.supported_models.clear();
            settings.allowed_route_ids.clear();
        }
    }
    Ok(KeyRow {
        id,
        key,
        settings,
        used_cost: row.usd()?,
        used_requests: row.int()?,
        last_used_at: row.opt_int()?,
        created_at: row.int()?,
        updated_at: row.int()?,
    })
}

/// Reads a list, with an empty one in place of a damaged list. A damaged list restricts nothing by itself, but
/// an empty pair of lists allows nothing.
fn list_or_empty<T: DeserializeOwned + Default>(id: KeyId, column: &str, text: Option<&str>) -> T {
    let Some(text) = text else { return T::default() };
    serde_json::from_str(text).unwrap_or_else(|error| {
        log::error!("{column} of downstream key {id} is not valid JSON and is taken as empty: {error}");
        T::default()
    })
}

/// Reads what a key must not use; `None` when it cannot be read.
fn restrictions<T: DeserializeOwned + Default>(id: KeyId, column: &str, text: Option<&str>) -> Option<T> {
    let Some(text) = text else { return Some(T::default()) };
    serde_json::from_str(text)
        .inspect_err(|error| {
            log::error!(
                "{column} of downstream key {id} is not valid JSON, so the key is refused until it is saved \
                 again: {error}"
            );
        })
        .ok()
}
