//! Models that an account or token can reach, and models that an operator switched off on a site.

use std::collections::{HashMap, HashSet};

use super::sql::{
    Fields, MAX_PLACEHOLDERS, OnConflict, SqlDialect, Statement, placeholders, upsert, upsert_rows,
};
use super::touches::TouchedKind;
use super::{Result, Store, Value};
use crate::ids::{AccountId, Id, SiteId, TokenId};
use crate::time::{Millis, now_ms};

/// The number of models that one statement stores, with five arguments each.
const ROWS_AT_ONCE: usize = MAX_PLACEHOLDERS / 5;

/// A model of an account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelRow {
    pub account_id: AccountId,
    pub model_name: String,
    pub available: bool,
    /// Whether an operator added the model by hand; discovery leaves such a row alone.
    pub is_manual: bool,
    pub latency_ms: Option<i64>,
    pub checked_at: Millis,
}

/// A model of a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenModelRow {
    pub token_id: TokenId,
    pub model_name: String,
    pub available: bool,
    pub latency_ms: Option<i64>,
    pub checked_at: Millis,
}

/// A model found at an upstream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Discovered {
    pub model_name: String,
    pub latency_ms: Option<i64>,
}

/// The result of probing a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProbeRecord {
    pub available: bool,
    pub latency_ms: Option<i64>,
    pub at: Millis,
}

/// A model switched off on a site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DisabledModelRow {
    pub site_id: SiteId,
    pub model_name: String,
}

/// Returns every account's models, ordered by account and name.
pub async fn list(store: &Store) -> Result<Vec<ModelRow>> {
    let sql = "SELECT account_id, model_name, available, is_manual, latency_ms, checked_at \
               FROM model_availability ORDER BY account_id, model_name";
    store.rows(sql, Vec::new(), read).await
}

/// Returns the models of one account, ordered by name.
pub async fn of_account(store: &Store, account_id: AccountId) -> Result<Vec<ModelRow>> {
    let sql = "SELECT account_id, model_name, available, is_manual, latency_ms, checked_at \
               FROM model_availability WHERE account_id = ? ORDER BY model_name";
    store.rows(sql, vec![account_id.into()], read).await
}

/// Returns at most `count` models of one account whose name comes after `name`, ordered by name.
pub async fn of_account_after(
    store: &Store,
    account_id: AccountId,
    name: &str,
    count: u32,
) -> Result<Vec<ModelRow>> {
    let sql = format!(
        "SELECT account_id, model_name, available, is_manual, latency_ms, checked_at \
         FROM model_availability WHERE account_id = ? AND model_name > ? ORDER BY model_name LIMIT {count}"
    );
    store.rows(sql, vec![account_id.into(), name.into()], read).await
}

/// Returns the accounts that have an available model.
pub async fn accounts_with_models(store: &Store) -> Result<HashSet<AccountId>> {
    let sql = "SELECT a.id FROM accounts a WHERE EXISTS \
               (SELECT 1 FROM model_availability m WHERE m.account_id = a.id AND m.available = ?)";
    store.rows(sql, vec![true.into()], |row| row.id()).await
}

/// An id of something that has models: an account or a token.
pub trait HasModels: Id + Into<Value> {
    /// The table of the models, and its column that holds the owner's id.
    const MODELS: (&'static str, &'static str);
    /// Whether an operator may add models by hand.
    const HAS_MANUAL: bool;
}

impl HasModels for AccountId {
    const MODELS: (&'static str, &'static str) = ("model_availability", "account_id");
    const HAS_MANUAL: bool = true;
}

impl HasModels for TokenId {
    const MODELS: (&'static str, &'static str) = ("token_model_availability", "token_id");
    const HAS_MANUAL: bool = false;
}

/// An available model of an account or a token.
pub struct AvailableModel<I> {
    pub owner: I,
    pub name: String,
    /// Whether an operator added it by hand.
    pub is_manual: bool,
}

/// Returns at most `count` available models after `(id, name)`, ordered by owner id and name.
pub async fn available_after<I: HasModels>(
    store: &Store,
    (id, name): (I, &str),
    count: u32,
) -> Result<Vec<AvailableModel<I>>> {
    let (table, column) = I::MODELS;
    let is_manual = if I::HAS_MANUAL { "is_manual" } else { "FALSE" };
    let sql = format!(
        "SELECT {column}, model_name, {is_manual} FROM {table} WHERE ({column}, model_name) > (?, ?) AND available = ? \
         ORDER BY {column}, model_name LIMIT {count}"
    );
    let args = vec![id.into(), name.into(), true.into()];
    let read = |row: &mut Fields<'_>| {
        Ok(AvailableModel { owner: row.id()?, name: row.text()?, is_manual: row.bool()? })
    };
    store.rows(sql, args, read).await
}

/// Returns the accounts of these sites that have no discovered model.
pub async fn undiscovered_at(store: &Store, sites: &[SiteId]) -> Result<Vec<AccountId>> {
    store.rows_of(sites, |marks| undiscovered("site_id", marks), |row| row.id()).await
}

/// Returns those of these accounts that have no discovered model.
pub async fn undiscovered_among(store: &Store, accounts: &[AccountId]) -> Result<Vec<AccountId>> {
    store.rows_of(accounts, |marks| undiscovered("id", marks), |row| row.id()).await
}

fn undiscovered(column: &str, marks: &str) -> String {
    format!(
        "SELECT a.id FROM accounts a WHERE a.{column} IN ({marks}) AND NOT EXISTS \
         (SELECT 1 FROM model_availability m WHERE m.account_id = a.id AND m.is_manual = FALSE) ORDER BY a.id"
    )
}

/// Returns those of these tokens that have models.
pub async fn tokens_with_models(store: &Store, ids: &[TokenId]) -> Result<HashSet<TokenId>> {
    let sql = |marks: &str| {
        format!("SELECT DISTINCT token_id FROM token_model_availability WHERE token_id IN ({marks})")
    };
    store.rows_of(ids, sql, |row| row.id()).await
}

fn read(row: &mut Fields<'_>) -> Result<ModelRow> {
    Ok(ModelRow {
        account_id: row.id()?,
        model_name: row.text()?,
        available: row.bool()?,
        is_manual: row.bool()?,
        latency_ms: row.opt_int()?,
        checked_at: row.int()?,
    })
}

/// Returns every token's models, ordered by token and name.
pub async fn list_tokens(store: &Store) -> Result<Vec<TokenModelRow>> {
    let sql = "SELECT token_id, model_name, available, latency_ms, checked_at \
               FROM token_model_availability ORDER BY token_id, model_name";
    store.rows(sql, Vec::new(), read_of_token).await
}

/// Returns the models of one account's tokens, ordered by token and name.
pub async fn of_tokens_of(store: &Store, account_id: AccountId) -> Result<Vec<TokenModelRow>> {
    let sql = "SELECT m.token_id, m.model_name, m.available, m.latency_ms, m.checked_at \
               FROM token_model_availability m JOIN account_tokens t ON t.id = m.token_id \
               WHERE t.account_id = ? ORDER BY m.token_id, m.model_name";
    store.rows(sql, vec![account_id.into()], read_of_token).await
}

fn read_of_token(row: &mut Fields<'_>) -> Result<TokenModelRow> {
    Ok(TokenModelRow {
        token_id: row.id()?,
        model_name: row.text()?,
        available: row.bool()?,
        latency_ms: row.opt_int()?,
        checked_at: row.int()?,
    })
}

/// Builds the statements that replace an account's discovered models, for a batch that changes more along with
/// them (the account's health). `known` are the account's rows: manual ones stay, and a discovered model of the
/// same name (ignoring case) does not displace one. A model whose row already says what was found is not
/// written. The batch fails with [`super::Error::Dangling`] when it adds a model and the account no longer
/// exists.
pub fn replace_discovered_statements(
    dialect: SqlDialect,
    account_id: impl Into<Value>,
    known: &[ModelRow],
    models: &[Discovered],
) -> Vec<Statement> {
    let account_id = account_id.into();
    let (manual, discovered): (Vec<_>, Vec<_>) = known.iter().partition(|row| row.is_manual);
    let manual: HashSet<String> = manual.iter().map(|row| row.model_name.to_lowercase()).collect();
    // Most lists have no manual row; then no name has to be lowercased.
    let is_manual =
        |model: &&Discovered| !manual.is_empty() && manual.contains(&model.model_name.to_lowercase());
    let found: Vec<&Discovered> = models.iter().filter(|model| !is_manual(model)).collect();
    let discovered = discovered.iter().map(|row| (row.model_name.as_str(), row.available, row.latency_ms));
    replace::<AccountId>(dialect, &account_id, changes(discovered, found))
        .into_iter()
        .map(|statement| statement.touching(TouchedKind::Models, [account_id.clone()]))
        .collect()
}

/// Builds the statements that restore these models of an account and delete any others.
pub fn restore_statements(account_id: AccountId, models: &[ModelRow]) -> Vec<Statement> {
    let gone = Statement::new("DELETE FROM model_availability WHERE account_id = ?", vec![account_id.into()])
        .touching(TouchedKind::Models, [account_id.into()]);
    let rows = models.iter().map(|row| {
        let row = [
            ("account_id", account_id.into()),
            ("model_name", row.model_name.as_str().into()),
            ("available", row.available.into()),
            ("is_manual", row.is_manual.into()),
            ("latency_ms", row.latency_ms.into()),
            ("checked_at", row.checked_at.into()),
        ];
        Statement::insert("model_availability", row).touching(TouchedKind::Models, [account_id.into()])
    });
    std::iter::once(gone).chain(rows).collect()
}

/// Builds the statements that replace the models of one token, whose stored rows are `known`. The batch fails
/// with [`super::Error::Dangling`] when it adds a model and the token no longer exists.
pub fn replace_discovered_by_token_statements(
    dialect: SqlDialect,
    token_id: TokenId,
    known: &[TokenModelRow],
    models: &[Discovered],
) -> Vec<Statement> {
    let known = known.iter().map(|row| (row.model_name.as_str(), row.available, row.latency_ms));
    replace::<TokenId>(dialect, &token_id.into(), changes(known, models.iter().collect()))
}

/// Builds the statements that delete the `gone` models and store the `found` ones. If an operator has added a model by hand
/// meanwhile, it stays.
fn replace<I: HasModels>(
    dialect: SqlDialect,
    id: &Value,
    (gone, found): (Vec<&str>, Vec<&Discovered>),
) -> Vec<Statement> {
    let (table, column) = I::MODELS;
    let rule = if I::HAS_MANUAL { "AND is_manual = ? " } else { "" };
    let gone = gone.chunks(MAX_PLACEHOLDERS - 2).map(|names| {
        let marks = placeholders(names.len());
        let sql = format!("DELETE FROM {table} WHERE {column} = ? {rule}AND model_name IN ({marks})");
        let mut args = vec![id.clone()];
        args.extend(I::HAS_MANUAL.then(|| false.into()));
        args.extend(names.iter().map(|name| Value::from(*name)));
        Statement::new(sql, args)
    });
    let now = now_ms();
    let columns = ["available", "latency_ms", "checked_at"].map(|name| (name, OnConflict::Replace));
    let found = found.chunks(ROWS_AT_ONCE).map(|models| {
        let sql = upsert_rows(dialect, table, &[column, "model_name"], &columns, models.len());
        let row = |model: &&Discovered| {
            let name = model.model_name.as_str().into();
            [id.clone(), name, true.into(), model.latency_ms.into(), now.into()]
        };
        Statement::new(sql, models.iter().flat_map(row).collect())
    });
    gone.chain(found).collect()
}

/// Returns the known names that were not found again, and the found models whose row is missing or differs.
/// Each known row is a name, whether it is available, and its latency.
fn changes<'k, 'f>(
    known: impl Iterator<Item = (&'k str, bool, Option<i64>)>,
    found: Vec<&'f Discovered>,
) -> (Vec<&'k str>, Vec<&'f Discovered>) {
    let places = found.iter().enumerate().map(|(place, model)| (model.model_name.as_str(), place));
    let places: HashMap<&str, usize> = places.collect();
    let mut is_kept = vec![false; found.len()];
    let mut gone = Vec::new();
    for (name, available, latency_ms) in known {
        match places.get(name) {
            Some(place) => is_kept[*place] = available && tells_as_much(latency_ms, found[*place].latency_ms),
            None => gone.push(name),
        }
    }
    let new = found.into_iter().zip(is_kept).filter(|(_, is_kept)| !is_kept).map(|(model, _)| model);
    (gone, new.collect())
}

/// Whether two latencies are the same to an operator: they differ by at most 100 ms or half of the larger one.
/// A list takes a little more or less time on every reading.
fn tells_as_much(before: Option<i64>, now: Option<i64>) -> bool {
    match (before, now) {
        (Some(before), Some(now)) => before.abs_diff(now) <= (before.max(now).unsigned_abs() / 2).max(100),
        (before, now) => before == now,
    }
}

/// Adds models that an operator typed to an account; every discovery leaves them in place.
pub async fn add_manual(store: &Store, account_id: AccountId, models: &[String]) -> Result<()> {
    let now = now_ms();
    let columns = [
        ("available", OnConflict::Replace),
        ("is_manual", OnConflict::Replace),
        ("latency_ms", OnConflict::Keep),
        ("checked_at", OnConflict::Replace),
    ];
    let sql =
        upsert(store.database().dialect(), "model_availability", &["account_id", "model_name"], &columns);
    let batch = models.iter().map(|model| {
        let args =
            vec![account_id.into(), model.as_str().into(), true.into(), true.into(), Value::Null, now.into()];
        Statement::new(sql.clone(), args).touching(TouchedKind::Models, [account_id.into()])
    });
    store.batch(batch.collect()).await.map(drop)
}

/// Returns the models that are switched off, ordered by site and name.
pub async fn disabled_models(store: &Store) -> Result<Vec<DisabledModelRow>> {
    let sql = "SELECT site_id, model_name FROM site_disabled_models ORDER BY site_id, model_name";
    store.rows(sql, Vec::new(), read_disabled).await
}

/// Returns the models that are switched off on one site, ordered by name.
pub async fn disabled_models_of(store: &Store, site_id: SiteId) -> Result<Vec<DisabledModelRow>> {
    let sql = "SELECT site_id, model_name FROM site_disabled_models WHERE site_id = ? ORDER BY model_name";
    store.rows(sql, vec![site_id.into()], read_disabled).await
}

fn read_disabled(row: &mut Fields<'_>) -> Result<DisabledModelRow> {
    Ok(DisabledModelRow { site_id: row.id()?, model_name: row.text()? })
}

/// Switches these models off on the site, in addition to those already off.
pub async fn disable_models(store: &Store, site_id: SiteId, models: &[String]) -> Result<()> {
    store.batch(switch_off(store, site_id, models).collect()).await.map(drop)
}

fn switch_off(store: &Store, site_id: SiteId, models: &[String]) -> impl Iterator<Item = Statement> {
    let (now, keep) = (now_ms(), [("created_at", OnConflict::Keep)]);
    let sql = upsert(store.database().dialect(), "site_disabled_models", &["site_id", "model_name"], &keep);
    models.iter().map(move |model| {
        Statement::new(sql.clone(), vec![site_id.into(), model.as_str().into(), now.into()])
    })
}

/// Replaces the set of models that are switched off on the site; fails with [`super::Error::Dangling`] when the
/// site no longer exists.
pub async fn set_disabled_models(store: &Store, site_id: SiteId, models: &[String]) -> Result<()> {
    let clear = Statement::new("DELETE FROM site_disabled_models WHERE site_id = ?", vec![site_id.into()]);
    store.batch(std::iter::once(clear).chain(switch_off(store, site_id, models)).collect()).await.map(drop)
}

/// Returns the models available to a site's accounts or tokens, without duplicates, sorted ignoring case.
pub async fn of_site(store: &Store, site_id: SiteId) -> Result<Vec<String>> {
    let sql = "SELECT m.model_name FROM model_availability m JOIN accounts a ON a.id = m.account_id \
               WHERE a.site_id = ? AND m.available = ? UNION \
               SELECT t.model_name FROM token_model_availability t \
               JOIN account_tokens k ON k.id = t.token_id JOIN accounts a ON a.id = k.account_id \
               WHERE a.site_id = ? AND t.available = ?";
    let args = vec![site_id.into(), true.into(), site_id.into(), true.into()];
    let mut models: Vec<String> = store.rows(sql, args, |row| row.text()).await?;
    models.sort_by_cached_key(|name| (name.to_lowercase(), name.clone()));
    Ok(models)
}

/// Stores the result of probing an account's model; returns false when there is no such discovered row.
pub async fn check(store: &Store, account_id: AccountId, model: &str, checked: ProbeRecord) -> Result<bool> {
    let sql = "UPDATE model_availability SET available = ?, latency_ms = ?, checked_at = ? \
               WHERE account_id = ? AND model_name = ? AND is_manual = ?";
    let which = vec![account_id.into(), model.into(), false.into()];
    update_checked(store, sql, checked, which, Some(account_id)).await
}

/// Stores the result of probing a token's model; returns false when there is no such row.
pub async fn check_token(
    store: &Store,
    token_id: TokenId,
    model: &str,
    checked: ProbeRecord,
) -> Result<bool> {
    let sql = "UPDATE token_model_availability SET available = ?, latency_ms = ?, checked_at = ? \
               WHERE token_id = ? AND model_name = ?";
    update_checked(store, sql, checked, vec![token_id.into(), model.into()], None).await
}

async fn update_checked(
    store: &Store,
    sql: &'static str,
    checked: ProbeRecord,
    which: Vec<Value>,
    account_id: Option<AccountId>,
) -> Result<bool> {
    let mut args = vec![checked.available.into(), checked.latency_ms.into(), checked.at.into()];
    args.extend(which);
    let check = Statement::new(sql, args).touching(TouchedKind::Models, account_id.map(Value::from));
    Ok(store.batch(vec![check]).await?[0].rows > 0)
}
