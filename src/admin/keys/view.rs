//! A downstream key as responses show it: masked, except where the whole key is asked for.

use serde::Serialize;
use serde_json::Value;

use crate::admin::secrets;
use crate::core::Core;
use crate::ids::{KeyId, RouteId, SiteId};
use crate::json_number::shortest;
use crate::keys::{KeyLimits, ShownBudget};
use crate::money::Usd;
use crate::store::keys::{ExcludedCredential, KeyRow};
use crate::time::{iso, now_ms};

/// A downstream key as every endpoint shows it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct KeyItem {
    id: KeyId,
    name: String,
    key: String,
    key_masked: String,
    description: Option<String>,
    group_name: Option<String>,
    tags: Vec<String>,
    enabled: bool,
    expires_at: Option<String>,
    max_cost: Option<Usd>,
    used_cost: Usd,
    max_requests: Option<i64>,
    used_requests: i64,
    supported_models: Vec<String>,
    allowed_route_ids: Vec<RouteId>,
    site_weight_multipliers: serde_json::Map<String, Value>,
    excluded_site_ids: Vec<SiteId>,
    excluded_credential_refs: Vec<ExcludedCredential>,
    max_concurrency: Option<u32>,
    requests_per_minute: Option<u32>,
    tokens_per_minute: Option<u32>,
    allowed_ips: Option<Vec<String>>,
    budgets: Option<Vec<ShownBudget>>,
    last_used_at: Option<String>,
    created_at: String,
    updated_at: String,
}

impl KeyItem {
    /// Builds the item with the key masked and its current usage.
    pub fn new(core: &Core, row: &KeyRow) -> Self {
        let masked = row.key.as_ref().map(|key| secrets::mask(key.expose())).unwrap_or_default();
        let keys = core.keys.load();
        let key = keys.get(row.id);
        let live = key.map(|key| &key.live);
        let settings = row.settings.clone();
        let shown = |limits: &KeyLimits| {
            let shown = |budget| ShownBudget::new(budget, now_ms(), core.store.time_zone());
            limits.budgets.iter().map(shown).collect()
        };
        let budgets = settings.budgets.is_some().then(|| match key.and_then(|key| key.limits.as_deref()) {
            Some(limits) => shown(limits),
            // The budgets of a key that cannot be opened are unused.
            None => shown(&settings.unused_limits()),
        });
        Self {
            id: row.id,
            name: settings.name,
            key: masked.clone(),
            key_masked: masked,
            description: settings.description,
            group_name: settings.group_name,
            tags: settings.tags,
            enabled: settings.enabled,
            expires_at: settings.expires_at.map(iso),
            max_cost: settings.max_cost,
            used_cost: live.map_or(row.used_cost, |live| live.used_cost()).rounded(),
            max_requests: settings.max_requests,
            used_requests: live.map_or(row.used_requests, |live| live.requests.used()),
            supported_models: settings.supported_models,
            allowed_route_ids: settings.allowed_route_ids,
            site_weight_multipliers: settings
                .site_weight_multipliers
                .into_iter()
                .map(|(site, factor)| (site.to_string(), shortest(factor)))
                .collect(),
            excluded_site_ids: settings.excluded_site_ids,
            excluded_credential_refs: settings.excluded_credential_refs,
            max_concurrency: settings.max_concurrency,
            requests_per_minute: settings.requests_per_minute,
            tokens_per_minute: settings.tokens_per_minute,
            allowed_ips: settings.allowed_ips,
            budgets,
            last_used_at: live.and_then(|live| live.last_used()).max(row.last_used_at).map(iso),
            created_at: iso(row.created_at),
            updated_at: iso(row.updated_at),
        }
    }

    /// Builds the item with the whole key, for the response to its creation.
    pub fn revealed(core: &Core, row: &KeyRow) -> Self {
        let mut item = Self::new(core, row);
        if let Some(key) = &row.key {
            key.expose().clone_into(&mut item.key);
        }
        item
    }

    /// Whether a search for this lower-case text finds the key.
    pub fn is_found_by(&self, search: &str) -> bool {
        let texts =
            [Some(&self.name), self.description.as_ref(), Some(&self.key_masked), self.group_name.as_ref()];
        let mut all = texts.into_iter().flatten().chain(&self.tags).chain(&self.supported_models);
        search.is_empty() || all.any(|text| text.to_lowercase().contains(search))
    }
}
