//! A connection as responses show it, without any token.

use std::borrow::Cow;
use std::collections::HashMap;

use serde::Serialize;
use serde_json::{Value, json};

use crate::admin::errors::Result;
use crate::admin::secrets;
use crate::core::Core;
use crate::ids::{AccountId, SiteId, UnitId};
use crate::jobs::oauth::quota;
use crate::store::accounts::{AccountRow, AccountStatus};
use crate::store::connections::{self, ModelDiscovery, Notes};
use crate::store::route_units::{self, UnitRow};
use crate::store::sites::{self, SiteRow, SiteStatus};
use crate::store::{Secret, Store};
use crate::time::iso;

/// Maximum number of model names that a connection shows.
const PREVIEW: usize = 10;

/// A connection as responses show it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ConnectionView<'a> {
    account_id: AccountId,
    site_id: SiteId,
    provider: Option<&'a str>,
    username: Option<&'a str>,
    model_count: usize,
    /// The first of the models.
    models_preview: &'a [String],
    quota: Value,
    status: &'static str,
    account_status: &'static str,
    route_channel_count: i64,
    proxy_url: Option<Cow<'a, str>>,
    use_system_proxy: bool,
    route_unit: Option<UnitView<'a>>,
    route_participation: Option<UnitView<'a>>,
    site: Option<ConnectionSiteView<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    email: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    account_key: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    plan_type: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    project_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_model_sync_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_model_sync_error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    token_expires_at: Option<String>,
}

/// The site of a connection.
#[derive(Serialize)]
struct ConnectionSiteView<'a> {
    id: SiteId,
    name: &'a str,
    url: Cow<'a, str>,
    platform: &'a str,
}

/// The route unit of a connection.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct UnitView<'a> {
    kind: &'static str,
    id: UnitId,
    name: &'a str,
    strategy: &'static str,
    member_count: usize,
    /// The id again, in `routeParticipation`.
    #[serde(skip_serializing_if = "Option::is_none")]
    route_unit_id: Option<UnitId>,
}

/// The rows that connections are shown with, besides their accounts.
struct ConnectionRows {
    sites: HashMap<SiteId, SiteRow>,
    models: HashMap<AccountId, Vec<String>>,
    units: HashMap<UnitId, UnitRow>,
    unit_of: HashMap<AccountId, UnitId>,
    channels_of_accounts: HashMap<AccountId, i64>,
    channels_of_units: HashMap<UnitId, i64>,
}

/// Shows the connections of these rows, in the same order.
pub async fn connection_views(core: &Core, rows: &[AccountRow]) -> Result<Vec<Value>> {
    let ids: Vec<AccountId> = rows.iter().map(|row| row.id).collect();
    let known = ConnectionRows::read(&core.store, &ids).await?;
    Ok(rows.iter().map(|row| json!(known.view(core, row))).collect())
}

// === impl ConnectionRows ===

impl ConnectionRows {
    async fn read(store: &Store, ids: &[AccountId]) -> Result<Self> {
        let units = route_units::list(store).await?;
        let members =
            units.iter().flat_map(|unit| unit.members.iter().map(|member| (member.account_id, unit.id)));
        let unit_of = members.collect();
        let unit_ids: Vec<UnitId> = units.iter().map(|unit| unit.id).collect();
        let (channels_of_accounts, channels_of_units) =
            connections::channel_counts(store, ids, &unit_ids).await?;
        Ok(Self {
            sites: sites::list(store).await?.into_iter().map(|site| (site.id, site)).collect(),
            models: connections::models_of(store, ids).await?,
            units: units.into_iter().map(|unit| (unit.id, unit)).collect(),
            unit_of,
            channels_of_accounts,
            channels_of_units,
        })
    }

    fn view<'a>(&'a self, core: &Core, row: &'a AccountRow) -> ConnectionView<'a> {
        let notes = Notes::of(row.extra.as_deref());
        let site = self.sites.get(&row.site_id);
        let models = self.models.get(&row.id).map_or(&[][..], Vec::as_slice);
        let unit = self.unit_of.get(&row.id).and_then(|id| self.units.get(id));
        let channels = match unit {
            Some(unit) => self.channels_of_units.get(&unit.id),
            None => self.channels_of_accounts.get(&row.id),
        };
        let is_on =
            row.status == AccountStatus::Active && site.is_some_and(|site| site.status == SiteStatus::Active);
        let is_abnormal = !is_on || notes.model_discovery == Some(ModelDiscovery::Abnormal);
        ConnectionView {
            account_id: row.id,
            site_id: row.site_id,
            provider: row.oauth_provider.as_deref(),
            username: row.username.as_deref(),
            model_count: models.len(),
            models_preview: &models[..models.len().min(PREVIEW)],
            quota: quota::snapshot(core, row, &notes),
            status: if is_abnormal { "abnormal" } else { "healthy" },
            account_status: row.status.as_str(),
            route_channel_count: channels.copied().unwrap_or_default(),
            proxy_url: row.proxy_url.as_ref().map(Secret::expose).map(secrets::mask_proxy_url),
            use_system_proxy: row.use_system_proxy,
            route_unit: unit.map(UnitView::of),
            route_participation: unit
                .map(|unit| UnitView { route_unit_id: Some(unit.id), ..UnitView::of(unit) }),
            site: site.map(ConnectionSiteView::of),
            email: notes.email,
            account_key: row.oauth_account_key.as_deref(),
            plan_type: notes.plan_type,
            project_id: row.oauth_project_id.as_deref(),
            last_model_sync_at: notes.last_model_sync_at.map(iso),
            last_model_sync_error: notes.last_model_sync_error,
            token_expires_at: row.token_expires_at.map(iso),
        }
    }
}

impl<'a> ConnectionSiteView<'a> {
    fn of(site: &'a SiteRow) -> Self {
        let url = secrets::mask_proxy_url(&site.url);
        Self { id: site.id, name: &site.name, url, platform: &site.platform }
    }
}

impl<'a> UnitView<'a> {
    fn of(unit: &'a UnitRow) -> Self {
        Self {
            kind: "route_unit",
            id: unit.id,
            name: &unit.name,
            strategy: unit.strategy.as_str(),
            member_count: unit.members.len(),
            route_unit_id: None,
        }
    }
}
