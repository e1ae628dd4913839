//! `/api/models/marketplace`: every available model, with the accounts that offer it and their prices.
//!
//! Prices are those in memory ([`jobs::prices`](crate::jobs::prices)): a request for them waits a little for sites
//! whose price list is being read for the first time. The list is cached for some seconds: it is built from several
//! tables, and consoles ask often.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use hyper::StatusCode;
use jiff::ToSpan;
use serde::Serialize;
use serde_json::json;

use super::list_key::MarketplaceKey;
use super::listed_model::{GroupPricing, Model, OfferingAccount, OfferingToken, PricingSource};
use super::offers::{Offer, Offers, username};
use crate::admin::Admin;
use crate::admin::errors::Result;
use crate::admin::routes::handlers;
use crate::admin::timed_cache::Origin;
use crate::core::Core;
use crate::http::{self, Request, Response};
use crate::ids::AccountId;
use crate::jobs::Jobs;
use crate::jobs::tasks::Status;
use crate::json_number::shortest;
use crate::routing::pricing::bill::per_million;
use crate::routing::pricing::{Billing, CallPrice, Catalog, ModelPrice};
use crate::store::accounts::{AccountRow, AccountStatus};
use crate::store::model_rates::{self, Rate};
use crate::store::sites::SiteRow;
use crate::store::tokens::TokenRow;
use crate::time::now_ms;

/// The number of local days that the success rate covers, today included.
const DAYS: i64 = 7;

/// Information on how the list was made.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Meta {
    refresh_requested: bool,
    refresh_queued: bool,
    refresh_reused: bool,
    refresh_running: bool,
    include_pricing: bool,
    refresh_job_id: Option<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    cache_hit: bool,
}

/// `GET /api/models/marketplace`
pub async fn list(admin: Arc<Admin>, request: Request) -> Result<Response> {
    let (refresh, with_prices) = (request.query.is_on("refresh"), request.query.is_on("includePricing"));
    let started = refresh.then(|| {
        admin.marketplace.clear();
        handlers::start_refresh(&admin, "model")
    });
    let running = match &started {
        Some(started) => Some(started.id.clone()),
        None => running_refresh(&admin.jobs),
    };
    if with_prices {
        admin.jobs.prices.settle().await;
    }
    let price_lists = admin.jobs.prices.found();
    let key = MarketplaceKey { price_lists: with_prices.then_some(price_lists) };
    let core = admin.core.clone();
    let load = async move { Ok(Arc::new(models(&core, with_prices).await?)) };
    let (models, origin) = admin.marketplace.get(&admin.core.background, key, key.ask(), load).await?;
    let meta = Meta {
        refresh_requested: refresh,
        refresh_queued: started.as_ref().is_some_and(|started| !started.reused),
        refresh_reused: started.as_ref().is_some_and(|started| started.reused),
        refresh_running: running.is_some(),
        include_pricing: with_prices,
        refresh_job_id: running,
        cache_hit: origin == Origin::Hit,
    };
    Ok(http::json(StatusCode::OK, &json!({ "models": *models, "meta": meta })))
}

/// Returns the id of the task that refreshes the models, if one is pending or running.
fn running_refresh(jobs: &Jobs) -> Option<String> {
    let tasks = jobs.tasks.list(usize::MAX);
    let running = tasks.into_iter().find(|task| {
        task.dedupe_key.as_deref() == Some(handlers::REFRESH_KEY)
            && matches!(task.status, Status::Pending | Status::Running)
    });
    running.map(|task| task.id)
}

async fn models(core: &Core, with_prices: bool) -> Result<Vec<Model>> {
    let offers = Offers::read(&core.store, &[AccountStatus::Active]).await?;
    let rates = model_rates::since(&core.store, &first_day(core)).await?;
    let catalogs: HashMap<AccountId, Arc<Catalog>> = if with_prices {
        offers.accounts.keys().filter_map(|id| Some((*id, core.live.prices(*id).load()?))).collect()
    } else {
        HashMap::new()
    };
    let mut models: Vec<Model> = offers
        .models
        .iter()
        .map(|(name, at)| model(&offers, name, at, rates.get(name).copied(), &catalogs))
        .collect();
    models.sort_by(|one, other| {
        other.account_count.cmp(&one.account_count).then_with(|| one.name.cmp(&other.name))
    });
    Ok(models)
}

/// Returns the first local day of the success rate's period.
fn first_day(core: &Core) -> String {
    let now = jiff::Timestamp::from_millisecond(now_ms()).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    let today = core.config.time_zone.to_datetime(now).date();
    today.saturating_sub((DAYS - 1).days()).to_string()
}

fn model(
    offers: &Offers,
    name: &str,
    at: &BTreeMap<AccountId, Offer>,
    rate: Option<Rate>,
    catalogs: &HashMap<AccountId, Arc<Catalog>>,
) -> Model {
    let latencies: Vec<i64> = at.values().filter_map(|offer| offer.latency_ms).collect();
    let mut model = Model {
        name: name.to_owned(),
        account_count: at.len(),
        token_count: at.values().map(|offer| offer.tokens.len()).sum(),
        avg_latency: mean(&latencies),
        success_rate: rate.map(|rate| shortest((rate.ok as f64 * 1000.0 / rate.calls as f64).round() / 10.0)),
        description: None,
        tags: BTreeSet::new(),
        supported_endpoint_types: BTreeSet::new(),
        pricing_sources: Vec::new(),
        accounts: Vec::new(),
    };
    for (id, offer) in at {
        let Some(account) = offers.accounts.get(id) else { continue };
        let Some(site) = offers.site(account) else { continue };
        model.accounts.push(offering_account(offers, account, site, offer));
        let Some((catalog, price)) = catalogs.get(id).and_then(|list| Some((list, list.price(name)?))) else {
            continue;
        };
        let labels = &price.labels;
        model.description = model.description.or_else(|| labels.description.clone());
        model.tags.extend(labels.tags.iter().cloned());
        model.supported_endpoint_types.extend(labels.endpoint_types.iter().cloned());
        model.pricing_sources.push(PricingSource {
            site_id: site.id,
            site_name: site.name.clone(),
            account_id: *id,
            username: username(account),
            owner_by: labels.owner.clone(),
            enable_groups: price.groups.clone(),
            group_pricing: by_group(catalog, price),
        });
    }
    model
}

fn offering_account(offers: &Offers, account: &AccountRow, site: &SiteRow, offer: &Offer) -> OfferingAccount {
    let tokens = offer.tokens.iter().filter_map(|token| offers.tokens.get(token));
    let token = |token: &TokenRow| OfferingToken {
        id: token.id,
        name: token.name.clone(),
        is_default: token.is_default,
    };
    OfferingAccount {
        id: account.id,
        site: site.name.clone(),
        username: username(account),
        latency: offer.latency_ms,
        unit_cost: account.unit_cost,
        balance: account.balance.rounded(),
        tokens: tokens.map(token).collect(),
    }
}

fn mean(latencies: &[i64]) -> i64 {
    match latencies.len() {
        0 => 0,
        count => (latencies.iter().sum::<i64>() as f64 / count as f64).round() as i64,
    }
}

fn by_group(catalog: &Catalog, price: &ModelPrice) -> BTreeMap<String, GroupPricing> {
    let groups = price.groups.iter();
    groups.map(|group| (group.clone(), pricing(price, catalog.group_ratio(group).unwrap_or(1.0)))).collect()
}

fn pricing(price: &ModelPrice, group: f64) -> GroupPricing {
    match price.billing {
        Billing::PerToken(ratios) => {
            let (input, output) = per_million(&ratios, group);
            GroupPricing {
                input_per_million: Some(input),
                output_per_million: Some(output),
                ..GroupPricing::default()
            }
        }
        Billing::PerCall(call) => {
            let sides = match call {
                Some(CallPrice::Sides { input, output }) => {
                    let side = |units| CallPrice::Sides { input: units, output: 0.0 }.under(group);
                    Some((side(input), side(output)))
                }
                _ => None,
            };
            GroupPricing {
                quota_type: 1,
                per_call_input: sides.map(|(input, _)| input),
                per_call_output: sides.map(|(_, output)| output),
                per_call_total: call.map(|call| call.under(group)),
                ..GroupPricing::default()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::admin::models::marketplace::*;
    use crate::money::Usd;
    use crate::routing::pricing::{Labels, Ratios};

    fn price(billing: Billing) -> ModelPrice {
        ModelPrice::new("m", billing, vec!["vip".to_owned()], Labels::default())
    }

    #[test]
    fn a_groups_prices_are_shown_as_they_are_charged() {
        let ratios = Ratios { model: 1.25, completion: 4.0, ..Ratios::default() };
        let tokens = pricing(&price(Billing::PerToken(ratios)), 1.5);
        assert_eq!(
            (tokens.input_per_million, tokens.output_per_million),
            (Some(Usd::new(3.75)), Some(Usd::new(15.0)))
        );
        let flat = pricing(&price(Billing::PerCall(Some(CallPrice::Flat(Usd::new(0.3))))), 1.5);
        assert_eq!(
            (flat.quota_type, flat.per_call_total, flat.per_call_input),
            (1, Some(Usd::new(0.45)), None)
        );
        let sides =
            pricing(&price(Billing::PerCall(Some(CallPrice::Sides { input: 10.0, output: 5.0 }))), 1.5);
        assert_eq!(
            (sides.per_call_input, sides.per_call_output, sides.per_call_total),
            (Some(Usd::new(0.03)), Some(Usd::new(0.015)), Some(Usd::new(0.03)))
        );
        assert_eq!(pricing(&price(Billing::PerCall(None)), 1.5).per_call_total, None);
    }
}
