//! Sites and the pool of endpoint addresses of each.

use serde::Serialize;

use super::sql::{Changes, Fields, OnConflict, Statement, Value, placeholders, upsert};
use super::touches::TouchedKind;
use super::{Error, Result, Secret, Store};
use crate::ids::{EndpointId, SiteId};
use crate::time::{Millis, now_ms};

/// Whether a site is in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SiteStatus {
    Active,
    Disabled,
}

impl SiteStatus {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Disabled => "disabled",
        }
    }

    /// Parses a status in any letter case; `None` for an unknown word.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        [Self::Active, Self::Disabled].into_iter().find(|status| text.eq_ignore_ascii_case(status.as_str()))
    }
}

/// The models that the probe after a discovery asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ProbedModels {
    Single,
    All,
}

impl ProbedModels {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Single => "single",
            Self::All => "all",
        }
    }

    /// Parses the word of the API; `None` for another one.
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Single, Self::All].into_iter().find(|models| text == models.as_str())
    }
}

/// A stored site with its endpoints, ordered by (sort order, id).
#[derive(Debug, Clone, PartialEq)]
pub struct SiteRow {
    pub id: SiteId,
    pub name: String,
    pub url: String,
    /// The identifier of a platform; it may be unknown here if a newer release wrote the row.
    pub platform: String,
    pub status: SiteStatus,
    pub proxy_url: Option<Secret>,
    pub use_system_proxy: bool,
    /// JSON text of an object of strings.
    pub custom_headers: Option<Secret>,
    pub external_checkin_url: Option<String>,
    pub is_pinned: bool,
    pub sort_order: i64,
    pub global_weight: f64,
    /// `None` means unlimited.
    pub max_concurrency: Option<i64>,
    pub initialization_preset_id: Option<String>,
    pub post_refresh_probe_enabled: bool,
    pub post_refresh_probe_model: String,
    pub post_refresh_probe_scope: ProbedModels,
    pub post_refresh_probe_latency_threshold_ms: i64,
    pub created_at: Millis,
    pub updated_at: Millis,
    pub endpoints: Vec<EndpointRow>,
}

/// A stored address in a site's pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndpointRow {
    pub id: EndpointId,
    pub site_id: SiteId,
    pub url: String,
    pub enabled: bool,
    pub sort_order: i64,
    pub cooldown_until: Option<Millis>,
    pub last_selected_at: Option<Millis>,
    pub last_failed_at: Option<Millis>,
    pub last_failure_reason: Option<String>,
    pub created_at: Millis,
    pub updated_at: Millis,
}

/// An address as entered by an operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewEndpoint {
    pub url: String,
    pub enabled: bool,
    pub sort_order: i64,
}

/// A site to be stored.
#[derive(Debug, Clone)]
pub struct NewSite {
    pub name: String,
    pub url: String,
    pub platform: String,
    pub status: SiteStatus,
    pub proxy_url: Option<Secret>,
    pub use_system_proxy: bool,
    pub custom_headers: Option<Secret>,
    pub external_checkin_url: Option<String>,
    pub is_pinned: bool,
    /// The position in lists; `None` places the site after all others.
    pub sort_order: Option<i64>,
    pub global_weight: f64,
    pub max_concurrency: Option<i64>,
    pub initialization_preset_id: Option<String>,
    pub endpoints: Vec<NewEndpoint>,
}

impl NewSite {
    /// Builds an active site with nothing but its own address.
    pub fn named(name: impl Into<String>, url: impl Into<String>, platform: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            url: url.into(),
            platform: platform.into(),
            status: SiteStatus::Active,
            proxy_url: None,
            use_system_proxy: false,
            custom_headers: None,
            external_checkin_url: None,
            is_pinned: false,
            sort_order: None,
            global_weight: 1.0,
            max_concurrency: None,
            initialization_preset_id: None,
            endpoints: Vec::new(),
        }
    }
}

/// The fields that an update changes: `None` keeps a field, `Some(None)` clears it.
#[derive(Debug, Clone, Default)]
pub struct SitePatch {
    pub name: Option<String>,
    pub url: Option<String>,
    pub platform: Option<String>,
    pub status: Option<SiteStatus>,
    pub proxy_url: Option<Option<Secret>>,
    pub use_system_proxy: Option<bool>,
    pub custom_headers: Option<Option<Secret>>,
    pub external_checkin_url: Option<Option<String>>,
    pub is_pinned: Option<bool>,
    pub sort_order: Option<i64>,
    pub global_weight: Option<f64>,
    pub max_concurrency: Option<Option<i64>>,
    pub post_refresh_probe_enabled: Option<bool>,
    pub post_refresh_probe_model: Option<String>,
    pub post_refresh_probe_scope: Option<ProbedModels>,
    pub post_refresh_probe_latency_threshold_ms: Option<i64>,
    /// The whole new pool; addresses that are already in it keep their row and its state.
    pub endpoints: Option<Vec<NewEndpoint>>,
}

const TABLE: &str = "sites";

const COLUMNS: &str = "id, name, url, platform, status, proxy_url, use_system_proxy, custom_headers, \
     external_checkin_url, is_pinned, sort_order, global_weight, max_concurrency, initialization_preset_id, \
     post_refresh_probe_enabled, post_refresh_probe_model, post_refresh_probe_scope, \
     post_refresh_probe_latency_threshold_ms, created_at, updated_at";

const ENDPOINT_COLUMNS: &str = "id, site_id, url, enabled, sort_order, cooldown_until, last_selected_at, \
     last_failed_at, last_failure_reason, created_at, updated_at";

/// Returns all sites with their endpoints, ordered by id.
pub async fn list(store: &Store) -> Result<Vec<SiteRow>> {
    let sql = format!("SELECT {COLUMNS} FROM sites ORDER BY id");
    let mut sites: Vec<SiteRow> = store.rows(sql, Vec::new(), |row| read(store, row)).await?;
    let sql = format!("SELECT {ENDPOINT_COLUMNS} FROM site_api_endpoints ORDER BY site_id, sort_order, id");
    let endpoints: Vec<EndpointRow> = store.rows(sql, Vec::new(), read_endpoint).await?;
    for endpoint in endpoints {
        if let Ok(at) = sites.binary_search_by_key(&endpoint.site_id, |site| site.id) {
            sites[at].endpoints.push(endpoint);
        }
    }
    Ok(sites)
}

/// Returns one site with its endpoints.
pub async fn get(store: &Store, id: SiteId) -> Result<Option<SiteRow>> {
    let sql = format!("SELECT {COLUMNS} FROM sites WHERE id = ?");
    let site = store.row(sql, vec![id.into()], |row| read(store, row)).await?;
    let Some(mut site) = site else { return Ok(None) };
    let sql = format!(
        "SELECT {ENDPOINT_COLUMNS} FROM site_api_endpoints WHERE site_id = ? ORDER BY sort_order, id"
    );
    site.endpoints = store.rows(sql, vec![id.into()], read_endpoint).await?;
    Ok(Some(site))
}

/// Returns the id of the site with this platform and address.
pub async fn find(store: &Store, platform: &str, url: &str) -> Result<Option<SiteId>> {
    let sql = "SELECT id FROM sites WHERE platform = ? AND url = ?";
    store.row(sql, vec![platform.into(), url.into()], |row| row.id()).await
}

/// Stores a site with its endpoints and returns its id; fails with [`Error::Conflict`] when a site with this
/// platform and URL exists.
pub async fn insert(store: &Store, site: NewSite) -> Result<SiteId> {
    let now = now_ms();
    let seal = |column, secret: &Option<Secret>| store.sealer().seal_opt(TABLE, column, secret.as_ref());
    let mut batch = vec![
        Statement::insert_in_order(
            TABLE,
            site.sort_order,
            [
                ("name", site.name.into()),
                ("url", site.url.into()),
                ("platform", site.platform.into()),
                ("status", site.status.as_str().into()),
                ("proxy_url", seal("proxy_url", &site.proxy_url)?.into()),
                ("use_system_proxy", site.use_system_proxy.into()),
                ("custom_headers", seal("custom_headers", &site.custom_headers)?.into()),
                ("external_checkin_url", site.external_checkin_url.into()),
                ("is_pinned", site.is_pinned.into()),
                ("global_weight", site.global_weight.into()),
                ("max_concurrency", site.max_concurrency.filter(|limit| *limit > 0).into()),
                ("initialization_preset_id", site.initialization_preset_id.into()),
                ("created_at", now.into()),
                ("updated_at", now.into()),
            ],
        )
        .inserting(TouchedKind::Site),
    ];
    batch.extend(site.endpoints.iter().map(|endpoint| put_endpoint(store, Value::IdOf(0), endpoint, now)));
    Ok(store.batch(batch).await?[0].id())
}

/// Changes a site. Returns the new status if the status changed: then its accounts changed theirs with it, each
/// remembering its former one.
pub async fn update(store: &Store, id: SiteId, patch: SitePatch) -> Result<Option<SiteStatus>> {
    let now = now_ms();
    let sealer = store.sealer();
    let mut changes = Changes::default();
    changes.set("updated_at", now);
    changes.set_some("name", patch.name);
    changes.set_some("url", patch.url);
    changes.set_some("platform", patch.platform);
    if let Some(proxy) = patch.proxy_url {
        changes.set("proxy_url", sealer.seal_opt(TABLE, "proxy_url", proxy.as_ref())?);
    }
    changes.set_some("use_system_proxy", patch.use_system_proxy);
    if let Some(headers) = patch.custom_headers {
        changes.set("custom_headers", sealer.seal_opt(TABLE, "custom_headers", headers.as_ref())?);
    }
    changes.set_some("external_checkin_url", patch.external_checkin_url);
    changes.set_some("is_pinned", patch.is_pinned);
    changes.set_some("sort_order", patch.sort_order);
    changes.set_some("global_weight", patch.global_weight);
    changes.set_some("max_concurrency", patch.max_concurrency.map(|limit| limit.filter(|limit| *limit > 0)));
    changes.set_some("post_refresh_probe_enabled", patch.post_refresh_probe_enabled);
    changes.set_some("post_refresh_probe_model", patch.post_refresh_probe_model);
    changes.set_some("post_refresh_probe_scope", patch.post_refresh_probe_scope.map(ProbedModels::as_str));
    changes
        .set_some("post_refresh_probe_latency_threshold_ms", patch.post_refresh_probe_latency_threshold_ms);

    let mut batch = vec![changes.update(TABLE, id).touching(TouchedKind::Site, [id.into()])];
    if let Some(endpoints) = &patch.endpoints {
        batch.extend(replace_endpoints(store, id, endpoints, now));
    }
    let status_at = batch.len() + 1;
    if let Some(status) = patch.status {
        batch.extend(move_to(id, status, now));
    }
    let outcomes = store.batch(batch).await?;
    let moved = outcomes.get(status_at).is_some_and(|outcome| outcome.rows > 0);
    Ok(patch.status.filter(|_| moved))
}

/// Builds the statements for the accounts and then for the site: the first one must still see the site's former
/// status. Accounts that an operator disabled stay disabled.
fn move_to(id: SiteId, status: SiteStatus, now: Millis) -> [Statement; 2] {
    let accounts = match status {
        SiteStatus::Disabled => {
            "UPDATE accounts SET former_status = status, status = 'disabled', updated_at = ? \
             WHERE site_id = ? AND status <> 'disabled' \
             AND EXISTS (SELECT 1 FROM sites WHERE sites.id = accounts.site_id AND sites.status <> 'disabled')"
        }
        SiteStatus::Active => {
            "UPDATE accounts SET status = former_status, former_status = NULL, updated_at = ? \
             WHERE site_id = ? AND status = 'disabled' AND former_status <> 'disabled' \
             AND EXISTS (SELECT 1 FROM sites WHERE sites.id = accounts.site_id AND sites.status <> 'active')"
        }
    };
    let status = status.as_str();
    [
        Statement::new(accounts, vec![now.into(), id.into()]).touching(TouchedKind::Site, [id.into()]),
        Statement::new(
            "UPDATE sites SET status = ? WHERE id = ? AND status <> ?",
            vec![status.into(), id.into(), status.into()],
        )
        .touching(TouchedKind::Site, [id.into()]),
    ]
}

fn replace_endpoints(store: &Store, site: SiteId, endpoints: &[NewEndpoint], now: Millis) -> Vec<Statement> {
    let mut args: Vec<Value> = vec![site.into()];
    args.extend(endpoints.iter().map(|endpoint| endpoint.url.as_str().into()));
    let gone = if endpoints.is_empty() {
        "DELETE FROM site_api_endpoints WHERE site_id = ?".to_owned()
    } else {
        format!(
            "DELETE FROM site_api_endpoints WHERE site_id = ? AND url NOT IN ({})",
            placeholders(endpoints.len())
        )
    };
    let mut batch = vec![Statement::new(gone, args).touching(TouchedKind::Site, [site.into()])];
    batch.extend(endpoints.iter().map(|endpoint| put_endpoint(store, site.into(), endpoint, now)));
    batch
}

fn put_endpoint(store: &Store, site: Value, endpoint: &NewEndpoint, now: Millis) -> Statement {
    let columns = [
        ("enabled", OnConflict::Replace),
        ("sort_order", OnConflict::Replace),
        ("created_at", OnConflict::Keep),
        ("updated_at", OnConflict::Replace),
    ];
    Statement::new(
        upsert(store.database().dialect(), "site_api_endpoints", &["site_id", "url"], &columns),
        vec![
            site.clone(),
            endpoint.url.as_str().into(),
            endpoint.enabled.into(),
            endpoint.sort_order.into(),
            now.into(),
            now.into(),
        ],
    )
    .touching(TouchedKind::Site, [site])
}

/// Deletes a site with everything that belongs to it; an unknown id is no error.
pub async fn delete(store: &Store, id: SiteId) -> Result<()> {
    let delete = Statement::new("DELETE FROM sites WHERE id = ?", vec![id.into()]);
    store.batch(vec![delete.touching(TouchedKind::Site, [id.into()])]).await.map(drop)
}

fn read(store: &Store, row: &mut Fields<'_>) -> Result<SiteRow> {
    let sealer = store.sealer();
    Ok(SiteRow {
        id: row.id()?,
        name: row.text()?,
        url: row.text()?,
        platform: row.text()?,
        status: {
            let text = row.str()?;
            SiteStatus::parse(text).ok_or_else(|| Error::Database(format!("site status {text:?}")))?
        },
        proxy_url: sealer.open_column(TABLE, "proxy_url", row.opt_str()?),
        use_system_proxy: row.bool()?,
        custom_headers: sealer.open_column(TABLE, "custom_headers", row.opt_str()?),
        external_checkin_url: row.opt_text()?,
        is_pinned: row.bool()?,
        sort_order: row.int()?,
        global_weight: row.real()?,
        max_concurrency: row.opt_int()?,
        initialization_preset_id: row.opt_text()?,
        post_refresh_probe_enabled: row.bool()?,
        post_refresh_probe_model: row.text()?,
        post_refresh_probe_scope: ProbedModels::parse(row.str()?).unwrap_or(ProbedModels::Single),
        post_refresh_probe_latency_threshold_ms: row.int()?,
        created_at: row.int()?,
        updated_at: row.int()?,
        endpoints: Vec::new(),
    })
}

fn read_endpoint(row: &mut Fields<'_>) -> Result<EndpointRow> {
    Ok(EndpointRow {
        id: row.id()?,
        site_id: row.id()?,
        url: row.text()?,
        enabled: row.bool()?,
        sort_order: row.int()?,
        cooldown_until: row.opt_int()?,
        last_selected_at: row.opt_int()?,
        last_failed_at: row.opt_int()?,
        last_failure_reason: row.opt_text()?,
        created_at: row.int()?,
        updated_at: row.int()?,
    })
}
