//! Names of the account, site, token and route unit behind a channel, for lists. No secrets and no notes are
//! read, because a page of routes names thousands of accounts.

use std::collections::{BTreeSet, HashMap};

use serde::Serialize;

use super::accounts::AccountStatus;
use super::route_units::{self, UnitRow};
use super::sites::SiteStatus;
use super::sql::{Fields, Value};
use super::{Error, Result, Store};
use crate::ids::{AccountId, Id, SiteId, TokenId, UnitId};
use crate::routing::UnitStrategy;

/// An account as shown with its channels.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AccountName {
    pub id: AccountId,
    pub site_id: SiteId,
    pub username: Option<String>,
    pub status: AccountStatus,
}

/// A site as shown with its channels.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SiteName {
    pub id: SiteId,
    pub name: String,
    pub url: String,
    pub platform: String,
    pub status: SiteStatus,
}

/// A token as shown with its channels.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TokenName {
    pub id: TokenId,
    pub name: String,
    pub account_id: AccountId,
    pub enabled: bool,
    pub is_default: bool,
}

/// A route unit as shown with its channels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnitName {
    pub id: UnitId,
    pub name: String,
    pub strategy: UnitStrategy,
    /// In the unit's order.
    pub members: Vec<AccountId>,
}

/// The names that were read, by id.
#[derive(Debug, Default)]
pub struct Names {
    pub accounts: HashMap<AccountId, AccountName>,
    pub sites: HashMap<SiteId, SiteName>,
    pub tokens: HashMap<TokenId, TokenName>,
    pub units: HashMap<UnitId, UnitName>,
}

// === impl Names ===

impl Names {
    /// Reads these accounts with their sites, and these tokens, except those already known.
    pub async fn add(
        &mut self,
        store: &Store,
        accounts: impl IntoIterator<Item = AccountId>,
        tokens: impl IntoIterator<Item = TokenId>,
    ) -> Result<()> {
        let sql = "SELECT id, site_id, username, status FROM accounts";
        let accounts = some(store, sql, unknown(&self.accounts, accounts), |row| {
            let (id, site_id, username) = (row.id()?, row.id()?, row.opt_text()?);
            let status = row.str()?;
            let status = AccountStatus::parse(status)
                .ok_or_else(|| Error::Database(format!("account status {status:?}")))?;
            Ok(AccountName { id, site_id, username, status })
        });
        let accounts = accounts.await?;
        let sites = unknown(&self.sites, accounts.iter().map(|account| account.site_id));
        self.accounts.extend(accounts.into_iter().map(|account| (account.id, account)));
        let sql = "SELECT id, name, url, platform, status FROM sites";
        let sites = some(store, sql, sites, |row| {
            let (id, name, url, platform) = (row.id()?, row.text()?, row.text()?, row.text()?);
            let status = row.str()?;
            let status = SiteStatus::parse(status)
                .ok_or_else(|| Error::Database(format!("site status {status:?}")))?;
            Ok(SiteName { id, name, url, platform, status })
        });
        self.sites.extend(sites.await?.into_iter().map(|site| (site.id, site)));
        let sql = "SELECT id, name, account_id, enabled, is_default FROM account_tokens";
        let tokens = some(store, sql, unknown(&self.tokens, tokens), |row| {
            Ok(TokenName {
                id: row.id()?,
                name: row.text()?,
                account_id: row.id()?,
                enabled: row.bool()?,
                is_default: row.bool()?,
            })
        });
        self.tokens.extend(tokens.await?.into_iter().map(|token| (token.id, token)));
        Ok(())
    }

    /// Reads all route units with their members, unless these are already known.
    pub async fn add_units(&mut self, store: &Store, units: impl IntoIterator<Item = UnitId>) -> Result<()> {
        if unknown(&self.units, units).is_empty() {
            return Ok(());
        }
        let units = route_units::list(store).await?;
        let member_ids = |unit: &UnitRow| unit.members.iter().map(|member| member.account_id).collect();
        let units: Vec<UnitName> = units
            .into_iter()
            .map(|unit| UnitName {
                members: member_ids(&unit),
                id: unit.id,
                name: unit.name,
                strategy: unit.strategy,
            })
            .collect();
        self.add(store, units.iter().flat_map(|unit| unit.members.clone()), []).await?;
        self.units.extend(units.into_iter().map(|unit| (unit.id, unit)));
        Ok(())
    }

    /// Returns the site of an account.
    pub fn site_of(&self, account_id: AccountId) -> Option<&SiteName> {
        self.sites.get(&self.accounts.get(&account_id)?.site_id)
    }
}

fn unknown<I: Id, T>(known: &HashMap<I, T>, ids: impl IntoIterator<Item = I>) -> Vec<I> {
    let ids: BTreeSet<I> = ids.into_iter().filter(|id| !known.contains_key(id)).collect();
    ids.into_iter().collect()
}

async fn some<I: Copy + Into<Value>, T>(
    store: &Store,
    select: &str,
    ids: Vec<I>,
    read: impl Fn(&mut Fields<'_>) -> Result<T>,
) -> Result<Vec<T>> {
    store.rows_of(&ids, |marks| format!("{select} WHERE id IN ({marks})"), read).await
}
