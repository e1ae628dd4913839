//! A connection as responses show it, without any token.

use std::collections::HashMap;

use serde_json::{Value, json};

use crate::admin::errors::Result;
use crate::admin::secrets;
use crate::core::Core;
use crate::ids::{AccountId, SiteId, UnitId};
use crate::jobs::oauth::quota;
use crate::store::Secret;
use crate::store::accounts::{AccountRow, AccountStatus};
use crate::store::connections::{self, Notes};
use crate::store::route_units::{self, UnitRow};
use crate::store::sites::{self, SiteRow, SiteStatus};
use crate::time::iso;

/// Maximum number of model names that a connection shows.
const PREVIEW: usize = 10;

/// Shows the connections of these rows, in the same order.
pub async fn shown(core: &Core, rows: &[AccountRow]) -> Result<Vec<Value>> {
    let store = &core.store;
    let ids: Vec<AccountId> = rows.iter().map(|row| row.id).collect();
    let sites: HashMap<SiteId, SiteRow> =
        sites::list(store).await?.into_iter().map(|site| (site.id, site)).collect();
    let models = connections::models_of(store, &ids).await?;
    let units: HashMap<UnitId, UnitRow> =
        route_units::list(store).await?.into_iter().map(|unit| (unit.id, unit)).collect();
    let unit_of: HashMap<AccountId, UnitId> = units
        .values()
        .flat_map(|unit| unit.members.iter().map(|member| (member.account_id, unit.id)))
        .collect();
    let unit_ids: Vec<UnitId> = units.keys().copied().collect();
    let (of_accounts, of_units) = connections::channel_counts(store, &ids, &unit_ids).await?;
    let shown = rows.iter().map(|row| {
        let unit = unit_of.get(&row.id).and_then(|id| units.get(id));
        let channels = match unit {
            Some(unit) => of_units.get(&unit.id),
            None => of_accounts.get(&row.id),
        };
        let models = models.get(&row.id).map_or(&[][..], Vec::as_slice);
        connection(core, row, sites.get(&row.site_id), models, channels.copied().unwrap_or_default(), unit)
    });
    Ok(shown.collect())
}

fn connection(
    core: &Core,
    row: &AccountRow,
    site: Option<&SiteRow>,
    models: &[String],
    channels: i64,
    unit: Option<&UnitRow>,
) -> Value {
    let notes = Notes::of(row.extra.as_deref());
    let is_on =
        row.status == AccountStatus::Active && site.is_some_and(|site| site.status == SiteStatus::Active);
    let is_abnormal = !is_on || notes.model_discovery_status.as_deref() == Some("abnormal");
    let site = site.map(|site| {
        json!({"id": site.id, "name": site.name, "url": secrets::mask_proxy_url(&site.url),
            "platform": site.platform})
    });
    let mut shown = json!({
        "accountId": row.id,
        "siteId": row.site_id,
        "provider": row.oauth_provider,
        "username": row.username,
        "modelCount": models.len(),
        "modelsPreview": models.iter().take(PREVIEW).collect::<Vec<_>>(),
        "quota": quota::known(core, row, &notes),
        "status": if is_abnormal { "abnormal" } else { "healthy" },
        "accountStatus": row.status.as_str(),
        "routeChannelCount": channels,
        "proxyUrl": row.proxy_url.as_ref().map(Secret::expose).map(secrets::mask_proxy_url),
        "useSystemProxy": row.use_system_proxy,
        "routeUnit": unit.map(unit_of_connection),
        "routeParticipation": unit.map(participation),
        "site": site,
    });
    for (name, value) in [
        ("email", notes.email),
        ("accountKey", row.oauth_account_key.clone()),
        ("planType", notes.plan_type),
        ("projectId", row.oauth_project_id.clone()),
        ("lastModelSyncAt", notes.last_model_sync_at),
        ("lastModelSyncError", notes.last_model_sync_error),
        ("tokenExpiresAt", row.token_expires_at.map(iso)),
    ] {
        if let Some(value) = value {
            shown[name] = value.into();
        }
    }
    shown
}

fn unit_of_connection(unit: &UnitRow) -> Value {
    json!({"kind": "route_unit", "id": unit.id, "name": unit.name, "strategy": unit.strategy.as_str(),
        "memberCount": unit.members.len()})
}

fn participation(unit: &UnitRow) -> Value {
    let mut shown = unit_of_connection(unit);
    shown["routeUnitId"] = unit.id.into();
    shown
}
