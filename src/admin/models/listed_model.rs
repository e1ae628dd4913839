//! The models on offer, as the marketplace lists them.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use serde_json::Value;

use crate::ids::{AccountId, SiteId, TokenId};
use crate::money::Usd;

/// A model on offer, with the accounts that offer it and their prices.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Model {
    pub(super) name: String,
    pub(super) account_count: usize,
    pub(super) token_count: usize,
    pub(super) avg_latency: i64,
    /// In percent; null without requests.
    pub(super) success_rate: Option<Value>,
    pub(super) description: Option<String>,
    pub(super) tags: BTreeSet<String>,
    pub supported_endpoint_types: BTreeSet<String>,
    pub(super) pricing_sources: Vec<PricingSource>,
    pub(super) accounts: Vec<OfferingAccount>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct OfferingAccount {
    pub(super) id: AccountId,
    pub(super) site: String,
    pub(super) username: String,
    pub(super) latency: Option<i64>,
    pub(super) unit_cost: Option<f64>,
    pub(super) balance: Usd,
    pub(super) tokens: Vec<OfferingToken>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct OfferingToken {
    pub(super) id: TokenId,
    pub(super) name: String,
    pub(super) is_default: bool,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PricingSource {
    pub(super) site_id: SiteId,
    pub(super) site_name: String,
    pub(super) account_id: AccountId,
    pub(super) username: String,
    pub(super) owner_by: Option<String>,
    pub(super) enable_groups: Vec<String>,
    pub(super) group_pricing: BTreeMap<String, GroupPricing>,
}

/// The price of a model under one group's multiplier, in USD.
#[derive(Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct GroupPricing {
    /// 0 for prices by token, 1 for prices by call.
    pub(super) quota_type: u8,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) input_per_million: Option<Usd>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) output_per_million: Option<Usd>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) per_call_input: Option<Usd>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) per_call_output: Option<Usd>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) per_call_total: Option<Usd>,
}

impl Model {
    pub fn name(&self) -> &str {
        &self.name
    }
}
