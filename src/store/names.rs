//! What lists show of the account, the site and the token behind a channel. Nothing secret is read, and no notes: a page
//! of routes names thousands of accounts.

use std::collections::{BTreeSet, HashMap};

use super::accounts::AccountStatus;
use super::routes::MAX_MARKS;
use super::sites::SiteStatus;
use super::sql::{Fields, marks};
use super::{Error, Result, Store};

/// An account as channels show it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccountName {
    pub id: i64,
    pub site_id: i64,
    pub username: Option<String>,
    pub status: AccountStatus,
}

/// A site as channels show it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SiteName {
    pub id: i64,
    pub name: String,
    pub url: String,
    pub platform: String,
    pub status: SiteStatus,
}

/// A token as channels show it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenName {
    pub id: i64,
    pub name: String,
    pub account_id: i64,
    pub enabled: bool,
    pub is_default: bool,
}

/// Those that were read, by id.
#[derive(Debug, Default)]
pub struct Names {
    pub accounts: HashMap<i64, AccountName>,
    pub sites: HashMap<i64, SiteName>,
    pub tokens: HashMap<i64, TokenName>,
}

// === impl Names ===

impl Names {
    /// Reads these accounts with their sites, and these tokens, as far as they are not known yet.
    pub async fn add(
        &mut self,
        store: &Store,
        accounts: impl IntoIterator<Item = i64>,
        tokens: impl IntoIterator<Item = i64>,
    ) -> Result<()> {
        let sql = "SELECT id, site_id, username, status FROM accounts";
        let accounts = some(store, sql, unknown(&self.accounts, accounts), |row| {
            let (id, site_id, username) = (row.int()?, row.int()?, row.opt_text()?);
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
            let (id, name, url, platform) = (row.int()?, row.text()?, row.text()?, row.text()?);
            let status = row.str()?;
            let status = SiteStatus::parse(status)
                .ok_or_else(|| Error::Database(format!("site status {status:?}")))?;
            Ok(SiteName { id, name, url, platform, status })
        });
        self.sites.extend(sites.await?.into_iter().map(|site| (site.id, site)));
        let sql = "SELECT id, name, account_id, enabled, is_default FROM account_tokens";
        let tokens = some(store, sql, unknown(&self.tokens, tokens), |row| {
            Ok(TokenName {
                id: row.int()?,
                name: row.text()?,
                account_id: row.int()?,
                enabled: row.bool()?,
                is_default: row.bool()?,
            })
        });
        self.tokens.extend(tokens.await?.into_iter().map(|token| (token.id, token)));
        Ok(())
    }

    /// The site of an account.
    pub fn site_of(&self, account_id: i64) -> Option<&SiteName> {
        self.sites.get(&self.accounts.get(&account_id)?.site_id)
    }
}

fn unknown<T>(known: &HashMap<i64, T>, ids: impl IntoIterator<Item = i64>) -> Vec<i64> {
    let ids: BTreeSet<i64> = ids.into_iter().filter(|id| !known.contains_key(id)).collect();
    ids.into_iter().collect()
}

async fn some<T>(
    store: &Store,
    select: &str,
    ids: Vec<i64>,
    read: impl Fn(&mut Fields<'_>) -> Result<T>,
) -> Result<Vec<T>> {
    let mut found = Vec::with_capacity(ids.len());
    for ids in ids.chunks(MAX_MARKS) {
        let sql = format!("{select} WHERE id IN ({})", marks(ids.len()));
        for row in store.query(sql, ids.iter().map(|id| (*id).into()).collect()).await? {
            found.push(read(&mut row.fields())?);
        }
    }
    Ok(found)
}
