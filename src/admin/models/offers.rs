//! The offers of models, joined from the models of accounts and those that their tokens reach. Only active sites count,
//! and of their accounts those with a wanted status; an expired session offers what its tokens reach, no more.

use std::collections::{BTreeMap, HashMap};

use crate::ids::{AccountId, SiteId, TokenId};
use crate::store::Store;
use crate::store::accounts::{self, AccountRow, AccountStatus};
use crate::store::sites::{self, SiteRow, SiteStatus};
use crate::store::tokens::{self, TokenRow};
use crate::store::{self, availability};

/// All offers, with the rows they refer to.
pub struct Offers {
    pub accounts: HashMap<AccountId, AccountRow>,
    pub sites: HashMap<SiteId, SiteRow>,
    /// The tokens that a channel may use.
    pub tokens: HashMap<TokenId, TokenRow>,
    /// Offers by model, then by account.
    pub models: BTreeMap<String, BTreeMap<AccountId, Offer>>,
}

/// A model at one account.
#[derive(Default)]
pub struct Offer {
    /// The smallest known latency, in milliseconds.
    pub latency_ms: Option<i64>,
    /// Whether the account itself was seen to have the model.
    pub of_account: bool,
    /// The tokens that reach the model, by id.
    pub tokens: Vec<TokenId>,
}

impl Offers {
    /// Reads the current offers of accounts with one of these statuses from the store.
    pub async fn read(store: &Store, statuses: &[AccountStatus]) -> store::Result<Self> {
        let sites = sites::list(store).await?.into_iter();
        let sites: HashMap<SiteId, SiteRow> =
            sites.filter(|site| site.status == SiteStatus::Active).map(|site| (site.id, site)).collect();
        let is_wanted =
            |account: &AccountRow| statuses.contains(&account.status) && sites.contains_key(&account.site_id);
        let accounts = accounts::list(store).await?.into_iter();
        let accounts: HashMap<AccountId, AccountRow> =
            accounts.filter(is_wanted).map(|account| (account.id, account)).collect();
        let tokens = tokens::list(store).await?.into_iter();
        let tokens: HashMap<TokenId, TokenRow> = tokens
            .filter(|token| token.is_usable() && accounts.contains_key(&token.account_id))
            .map(|token| (token.id, token))
            .collect();
        let mut models: BTreeMap<String, BTreeMap<AccountId, Offer>> = BTreeMap::new();
        let mut note =
            |model: String, account: AccountId, latency_ms: Option<i64>, token: Option<TokenId>| {
                let offer = models.entry(model).or_default().entry(account).or_default();
                offer.latency_ms = offer.latency_ms.into_iter().chain(latency_ms).min();
                match token {
                    Some(token) => offer.tokens.push(token),
                    None => offer.of_account = true,
                }
            };
        for row in availability::list(store).await?.into_iter().filter(|row| row.available) {
            if accounts.get(&row.account_id).is_some_and(|account| account.status == AccountStatus::Active) {
                note(row.model_name, row.account_id, row.latency_ms, None);
            }
        }
        for row in availability::list_tokens(store).await?.into_iter().filter(|row| row.available) {
            if let Some(token) = tokens.get(&row.token_id) {
                note(row.model_name, token.account_id, row.latency_ms, Some(token.id));
            }
        }
        Ok(Self { accounts, sites, tokens, models })
    }

    /// Returns the account's site; `None` if it is not active.
    pub fn site(&self, account: &AccountRow) -> Option<&SiteRow> {
        self.sites.get(&account.site_id)
    }
}

/// Returns the name to show for an account.
pub fn username(account: &AccountRow) -> String {
    account.username.clone().unwrap_or_else(|| format!("account-{}", account.id))
}
