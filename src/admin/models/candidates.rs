//! `/api/models/token-candidates`: which tokens reach which model, and why other accounts do not reach it.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use hyper::StatusCode;
use serde::Serialize;

use super::list_key::MarketplaceKey;
use super::offers::{Offer, Offers, username};
use crate::admin::Admin;
use crate::admin::accounts::view::capabilities;
use crate::admin::bucket;
use crate::admin::errors::Result;
use crate::admin::guard;
use crate::core::Core;
use crate::http::{self, Request, Response};
use crate::ids::{AccountId, SiteId, TokenId};
use crate::jobs::tokens::set::group_of_name;
use crate::store::accounts::{AccountRow, AccountStatus};
use crate::store::tokens::TokenRow;

/// Items by model name.
type ByModel<T> = BTreeMap<String, Vec<T>>;

#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Candidates {
    models: ByModel<Candidate>,
    models_without_token: ByModel<TokenOwner>,
    models_missing_token_groups: ByModel<MissingGroups>,
    endpoint_types_by_model: BTreeMap<String, BTreeSet<String>>,
}

#[derive(Clone, Serialize)]
#[serde(rename_all = "camelCase")]
struct TokenOwner {
    account_id: AccountId,
    username: String,
    site_id: SiteId,
    site_name: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Candidate {
    #[serde(flatten)]
    owner: TokenOwner,
    token_id: TokenId,
    token_name: String,
    is_default: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct MissingGroups {
    #[serde(flatten)]
    owner: TokenOwner,
    missing_groups: BTreeSet<String>,
    required_groups: BTreeSet<String>,
    available_groups: BTreeSet<String>,
    /// Whether the group of some token is unknown.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    group_coverage_uncertain: bool,
}

/// `GET /api/models/token-candidates`
pub async fn list(admin: Arc<Admin>, request: Request) -> Result<Response> {
    guard(&admin, &request, &bucket::MODELS_TOKEN_CANDIDATES)?;
    admin.jobs.prices.settle().await;
    // Tokens made with a session that has expired are still served.
    let statuses = [AccountStatus::Active, AccountStatus::Expired];
    let offers = Offers::read(&admin.core.store, &statuses).await?;
    let allowed: HashSet<String> =
        admin.core.settings.load().allowed_models.iter().map(|model| model.trim().to_lowercase()).collect();
    let mut candidates = Candidates::default();
    for (model, at) in &offers.models {
        if allowed.is_empty() || allowed.contains(&model.trim().to_lowercase()) {
            for (id, offer) in at {
                if let Some(account) = offers.accounts.get(id) {
                    candidates.add(&admin.core, &offers, model, account, offer);
                }
            }
        }
    }
    let key = MarketplaceKey { price_lists: Some(admin.jobs.prices.found()) };
    if let Some(shown) = admin.marketplace.peek(&key, key.ask().fresh) {
        candidates.endpoint_types_by_model = shown
            .iter()
            .filter(|model| !model.supported_endpoint_types.is_empty())
            .map(|model| (model.name().to_owned(), model.supported_endpoint_types.clone()))
            .collect();
    }
    Ok(http::json(StatusCode::OK, &candidates))
}

impl Candidates {
    fn add(&mut self, core: &Core, offers: &Offers, model: &str, account: &AccountRow, offer: &Offer) {
        let Some(site) = offers.site(account) else { return };
        let owner = TokenOwner {
            account_id: account.id,
            username: username(account),
            site_id: site.id,
            site_name: site.name.clone(),
        };
        for token in offer.tokens.iter().filter_map(|token| offers.tokens.get(token)) {
            self.models.entry(model.to_owned()).or_default().push(Candidate {
                owner: owner.clone(),
                token_id: token.id,
                token_name: token.name.clone(),
                is_default: token.is_default,
            });
        }
        // Only session accounts that offer the model themselves can lack a token for it.
        if !offer.of_account || capabilities(account).proxy_only {
            return;
        }
        if offer.tokens.is_empty() {
            self.models_without_token.entry(model.to_owned()).or_default().push(owner.clone());
        }
        let catalog = core.live.prices(account.id).load();
        let Some(price) = catalog.as_ref().and_then(|catalog| catalog.price(model)) else { return };
        let tokens = offers.tokens.values().filter(|token| token.account_id == account.id);
        let groups: Vec<Option<String>> = tokens.map(group).collect();
        let required: BTreeSet<String> = price.groups.iter().cloned().collect();
        let available: BTreeSet<String> = groups.iter().flatten().cloned().collect();
        let missing: BTreeSet<String> = required.difference(&available).cloned().collect();
        if !missing.is_empty() {
            self.models_missing_token_groups.entry(model.to_owned()).or_default().push(MissingGroups {
                owner,
                missing_groups: missing,
                required_groups: required,
                available_groups: available,
                group_coverage_uncertain: groups.iter().any(Option::is_none),
            });
        }
    }
}

/// Returns the group of a token: the one it names, else the one that its own name implies. `None` if the gateway gave
/// it that name.
fn group(token: &TokenRow) -> Option<String> {
    let named = token.token_group.as_deref().map(str::trim).filter(|group| !group.is_empty());
    match named {
        Some(group) => Some(group.to_owned()),
        None => group_of_name(&token.name),
    }
}
