//! A site as responses show it. Proxy passwords and headers that authenticate are masked.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::Value;

use crate::admin::secrets;
use crate::ids::{EndpointId, SiteId};
use crate::json_number::shortest;
use crate::money::Usd;
use crate::store::sites::{EndpointRow, ProbedModels, SiteRow};
use crate::time::iso;

/// A site as every response shows it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SiteView<'a> {
    id: SiteId,
    name: &'a str,
    url: &'a str,
    platform: &'a str,
    status: &'static str,
    proxy_url: Option<Cow<'a, str>>,
    use_system_proxy: bool,
    custom_headers: Option<String>,
    external_checkin_url: Option<&'a str>,
    is_pinned: bool,
    sort_order: i64,
    global_weight: Value,
    max_concurrency: Option<i64>,
    initialization_preset_id: Option<&'a str>,
    post_refresh_probe_enabled: bool,
    post_refresh_probe_model: &'a str,
    post_refresh_probe_scope: ProbedModels,
    post_refresh_probe_latency_threshold_ms: i64,
    api_endpoints: Vec<EndpointView<'a>>,
    created_at: String,
    updated_at: String,
}

/// One address of a site.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct EndpointView<'a> {
    id: EndpointId,
    site_id: SiteId,
    url: &'a str,
    enabled: bool,
    sort_order: i64,
    cooldown_until: Option<String>,
    last_selected_at: Option<String>,
    last_failed_at: Option<String>,
    last_failure_reason: Option<&'a str>,
    created_at: String,
    updated_at: String,
}

/// A site in the list of sites, with the sums of its accounts.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ListedSite<'a> {
    #[serde(flatten)]
    pub site: SiteView<'a>,
    pub total_balance: Usd,
    pub subscription_summary: Value,
}

impl<'a> SiteView<'a> {
    pub fn of(site: &'a SiteRow) -> Self {
        Self {
            id: site.id,
            name: &site.name,
            url: &site.url,
            platform: &site.platform,
            status: site.status.as_str(),
            proxy_url: site.proxy_url.as_ref().map(|url| secrets::mask_proxy_url(url.expose())),
            use_system_proxy: site.use_system_proxy,
            custom_headers: site
                .custom_headers
                .as_ref()
                .map(|headers| secrets::mask_headers(headers.expose())),
            external_checkin_url: site.external_checkin_url.as_deref(),
            is_pinned: site.is_pinned,
            sort_order: site.sort_order,
            global_weight: shortest(site.global_weight),
            max_concurrency: site.max_concurrency,
            initialization_preset_id: site.initialization_preset_id.as_deref(),
            post_refresh_probe_enabled: site.post_refresh_probe_enabled,
            post_refresh_probe_model: &site.post_refresh_probe_model,
            post_refresh_probe_scope: site.post_refresh_probe_scope,
            post_refresh_probe_latency_threshold_ms: site.post_refresh_probe_latency_threshold_ms,
            api_endpoints: site.endpoints.iter().map(EndpointView::of).collect(),
            created_at: iso(site.created_at),
            updated_at: iso(site.updated_at),
        }
    }
}

impl<'a> EndpointView<'a> {
    fn of(endpoint: &'a EndpointRow) -> Self {
        Self {
            id: endpoint.id,
            site_id: endpoint.site_id,
            url: &endpoint.url,
            enabled: endpoint.enabled,
            sort_order: endpoint.sort_order,
            cooldown_until: endpoint.cooldown_until.map(iso),
            last_selected_at: endpoint.last_selected_at.map(iso),
            last_failed_at: endpoint.last_failed_at.map(iso),
            last_failure_reason: endpoint.last_failure_reason.as_deref(),
            created_at: iso(endpoint.created_at),
            updated_at: iso(endpoint.updated_at),
        }
    }
}
