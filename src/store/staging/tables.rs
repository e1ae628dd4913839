//! The tables in a backup: their columns, the name of each in a document, and its default.

/// The type of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Int,
    Bool,
    Real,
    Text,
    /// Text of at most 191 characters.
    Key,
    /// Text of at most 500 characters.
    Url,
    /// JSON; written as text in documents.
    Json,
    Time,
    /// Text that is stored sealed, and open in documents.
    Secret,
    /// The look-up hash of the preceding secret; not in documents.
    Hash,
}

/// The value for a new row where the document has none.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Missing {
    Null,
    Int(i64),
    Bool(bool),
    Real(f64),
    Text(&'static str),
    Now,
    /// The row is refused without a value.
    Refused,
}

/// A column of a table, and its member in a document.
#[derive(Debug, Clone, Copy)]
pub struct Column {
    pub sql: &'static str,
    /// The name of the member in a document's rows.
    pub json: &'static str,
    pub kind: Kind,
    pub missing: Missing,
    /// The table that the column refers to.
    pub refers: Option<&'static str>,
    /// Whether existing rows keep their value.
    pub keeps: bool,
    /// Whether our own documents contain it. The history of a row is only imported from another program, which
    /// is being abandoned.
    pub is_exported: bool,
}

/// A table of a backup.
#[derive(Debug)]
pub struct Table {
    pub name: &'static str,
    /// The array of a document that holds its rows.
    pub array: &'static str,
    /// Whether a document without the array is invalid.
    pub required: bool,
    /// Whether rows have ids of their own; documents contain them only if `shows_id`.
    pub has_id: bool,
    pub shows_id: bool,
    /// The member by which people know a row.
    pub label: &'static str,
    /// The column with the id of the row's parent: rows only match within it.
    pub scope: Option<&'static str>,
    /// Columns whose values identify a row within its scope, where some of them are references; for other
    /// tables the reader of the rows supplies it.
    pub who: Option<&'static [&'static str]>,
    /// Columns whose combined values are unique.
    pub unique: &'static [&'static str],
    /// The rows of the database that are those of the table; `None` for all rows of the table of its name.
    pub stored: Option<StoredRows>,
    /// Whether a row whose address has a path also matches a row with the address of its origin alone.
    pub pairs_by_origin: bool,
    /// Whether rows of one scope with the same secret become one row.
    pub joins_equal_secrets: bool,
    /// Whether jobs write credentials of stored rows only if `credential_version` is still the one they have read.
    pub has_credential_version: bool,
    /// Whether documents have credentials and details of a row in its member `extraConfig`.
    pub has_extra_config: bool,
    /// Whether documents number the rows, which have no id here: other programs that use this format expect one.
    pub is_numbered_in_exports: bool,
    /// Whether a value that cannot be read always refuses its row. Otherwise a key of a client might have no limit.
    pub is_strict: bool,
    pub columns: &'static [Column],
}

/// The rows of a stored table that meet an SQL condition.
#[derive(Debug, Clone, Copy)]
pub struct StoredRows {
    pub table: &'static str,
    pub condition: &'static str,
}

impl Kind {
    /// Returns the type of a column of this kind, in the tokens of the schema.
    pub(in crate::store) fn token(self) -> &'static str {
        match self {
            Self::Int | Self::Time => "{{int}}",
            Self::Bool => "{{bool}}",
            Self::Real => "DOUBLE PRECISION",
            Self::Key | Self::Hash => "{{key}}",
            Self::Url => "{{url}}",
            Self::Text | Self::Secret => "{{text}}",
            Self::Json => "{{json}}",
        }
    }
}

const fn column(sql: &'static str, json: &'static str, kind: Kind, missing: Missing) -> Column {
    Column { sql, json, kind, missing, refers: None, keeps: false, is_exported: true }
}

impl Column {
    const fn of(mut self, table: &'static str) -> Self {
        self.refers = Some(table);
        self
    }

    const fn kept(mut self) -> Self {
        self.keeps = true;
        self
    }

    /// Marks a column as imported for new rows, but not exported.
    const fn taken_along(mut self) -> Self {
        self.is_exported = false;
        self.kept()
    }
}

impl Table {
    /// Whether our own documents contain the table. A table that they lack is history: an import adds rows to
    /// it, but changes and deletes none.
    pub fn is_exported(&self) -> bool {
        self.columns.iter().any(|column| column.is_exported)
    }

    /// Returns the rows of the database that are those of this table.
    pub fn stored_rows(&self) -> StoredRows {
        self.stored.unwrap_or(StoredRows { table: self.name, condition: "1 = 1" })
    }

    /// Returns the columns that identify a stored row, by which pages of rows are ordered.
    pub fn key(&self) -> &'static [&'static str] {
        if self.has_id { &["id"] } else { self.unique }
    }

    /// Returns the index of a table in [`TABLES`].
    pub fn index(name: &str) -> Option<usize> {
        TABLES.iter().position(|table| table.name == name)
    }
}

use Kind::{Bool, Hash, Int, Json, Key, Real, Secret, Text, Time, Url};
use Missing::{Now, Null, Refused};

const OFF: Missing = Missing::Bool(false);
const ON: Missing = Missing::Bool(true);
const ZERO: Missing = Missing::Int(0);

/// What most tables have in common.
const ORDINARY: Table = Table {
    name: "",
    array: "",
    required: false,
    has_id: true,
    shows_id: true,
    label: "name",
    scope: None,
    who: None,
    unique: &[],
    stored: None,
    pairs_by_origin: false,
    joins_equal_secrets: false,
    has_credential_version: false,
    has_extra_config: false,
    is_numbered_in_exports: false,
    is_strict: false,
    columns: &[],
};

/// Every table of a backup; tables that others refer to come first.
#[rustfmt::skip]
pub const TABLES: &[Table] = &[
    Table {
        name: "sites", array: "sites", required: true, unique: &["platform", "url"], pairs_by_origin: true,
        columns: &[
            column("name", "name", Text, Refused),
            column("url", "url", Url, Refused),
            column("external_checkin_url", "externalCheckinUrl", Text, Null),
            column("platform", "platform", Key, Refused),
            column("proxy_url", "proxyUrl", Secret, Null),
            column("use_system_proxy", "useSystemProxy", Bool, OFF),
            column("custom_headers", "customHeaders", Secret, Null),
            column("status", "status", Key, Missing::Text("active")),
            column("is_pinned", "isPinned", Bool, OFF),
            column("sort_order", "sortOrder", Int, ZERO),
            column("global_weight", "globalWeight", Real, Missing::Real(1.0)),
            column("max_concurrency", "maxConcurrency", Int, Null),
            column("initialization_preset_id", "initializationPresetId", Key, Null),
            column("post_refresh_probe_enabled", "postRefreshProbeEnabled", Bool, OFF),
            column("post_refresh_probe_model", "postRefreshProbeModel", Key, Missing::Text("")),
            column("post_refresh_probe_scope", "postRefreshProbeScope", Key, Missing::Text("single")),
            column("post_refresh_probe_latency_threshold_ms", "postRefreshProbeLatencyThresholdMs", Int, ZERO),
            column("created_at", "createdAt", Time, Now).kept(),
            column("updated_at", "updatedAt", Time, Now),
        ],
        ..ORDINARY
    },
    Table {
        name: "site_api_endpoints", array: "siteApiEndpoints", label: "url", scope: Some("site_id"),
        who: Some(&["url"]), unique: &["site_id", "url"],
        columns: &[
            column("site_id", "siteId", Int, Refused).of("sites"),
            column("url", "url", Url, Refused),
            column("enabled", "enabled", Bool, ON),
            column("sort_order", "sortOrder", Int, ZERO),
            column("cooldown_until", "cooldownUntil", Time, Null).kept(),
            column("last_selected_at", "lastSelectedAt", Time, Null).kept(),
            column("last_failed_at", "lastFailedAt", Time, Null).kept(),
            column("last_failure_reason", "lastFailureReason", Text, Null).kept(),
            column("created_at", "createdAt", Time, Now).kept(),
            column("updated_at", "updatedAt", Time, Now),
        ],
        ..ORDINARY
    },
    Table {
        name: "site_disabled_models", array: "siteDisabledModels", has_id: false, shows_id: false, label: "modelName",
        scope: Some("site_id"), who: Some(&["model_name"]), unique: &["site_id", "model_name"],
        columns: &[
            column("site_id", "siteId", Int, Refused).of("sites"),
            column("model_name", "modelName", Key, Refused),
        ],
        ..ORDINARY
    },
    Table {
        name: "accounts", array: "accounts", required: true, label: "username", scope: Some("site_id"),
        has_credential_version: true, has_extra_config: true,
        columns: &[
            column("site_id", "siteId", Int, Refused).of("sites"),
            column("username", "username", Text, Null),
            column("access_token", "accessToken", Secret, Null),
            column("api_token", "apiToken", Secret, Null),
            column("balance", "balance", Real, Missing::Real(0.0)),
            column("balance_used", "balanceUsed", Real, Missing::Real(0.0)).taken_along(),
            column("quota", "quota", Real, Missing::Real(0.0)),
            column("unit_cost", "unitCost", Real, Null),
            column("value_score", "valueScore", Real, Missing::Real(0.0)),
            column("status", "status", Key, Missing::Text("active")),
            column("former_status", "formerStatus", Key, Null),
            column("is_pinned", "isPinned", Bool, OFF),
            column("sort_order", "sortOrder", Int, ZERO),
            column("checkin_enabled", "checkinEnabled", Bool, ON),
            column("last_checkin_at", "lastCheckinAt", Time, Null).taken_along(),
            column("last_balance_refresh", "lastBalanceRefresh", Time, Null).taken_along(),
            column("oauth_provider", "oauthProvider", Key, Null),
            column("oauth_account_key", "oauthAccountKey", Key, Null),
            column("oauth_project_id", "oauthProjectId", Key, Null),
            column("credential_mode", "credentialMode", Key, Missing::Text("auto")),
            column("platform_user_id", "platformUserId", Int, Null),
            column("proxy_url", "proxyUrl", Secret, Null),
            column("use_system_proxy", "useSystemProxy", Bool, OFF),
            column("login_username", "loginUsername", Text, Null),
            column("login_password", "loginPassword", Secret, Null),
            column("login_updated_at", "loginUpdatedAt", Time, Null),
            column("refresh_token", "refreshToken", Secret, Null),
            column("id_token", "idToken", Secret, Null),
            column("provider_data", "providerData", Secret, Null),
            column("token_expires_at", "tokenExpiresAt", Time, Null),
            column("token_issued_at", "tokenIssuedAt", Time, Null),
            column("sub2api_refresh_token", "sub2apiRefreshToken", Secret, Null),
            column("sub2api_token_expires_at", "sub2apiTokenExpiresAt", Time, Null),
            column("health_state", "healthState", Key, Null),
            column("health_reason", "healthReason", Text, Null),
            column("health_source", "healthSource", Key, Null),
            column("health_checked_at", "healthCheckedAt", Time, Null),
            column("extra", "extra", Json, Null),
            column("created_at", "createdAt", Time, Now).kept(),
            column("updated_at", "updatedAt", Time, Now),
        ],
        ..ORDINARY
    },
    Table {
        name: "account_tokens", array: "accountTokens", required: true, scope: Some("account_id"),
        joins_equal_secrets: true,
        columns: &[
            column("account_id", "accountId", Int, Refused).of("accounts"),
            column("name", "name", Text, Missing::Text("")),
            column("token_enc", "token", Secret, Null),
            column("token_hash", "", Hash, Null),
            column("token_group", "tokenGroup", Text, Null),
            column("value_status", "valueStatus", Key, Missing::Text("ready")),
            column("source", "source", Key, Missing::Text("manual")),
            column("enabled", "enabled", Bool, ON),
            column("is_default", "isDefault", Bool, OFF),
            column("created_at", "createdAt", Time, Now).kept(),
            column("updated_at", "updatedAt", Time, Now),
        ],
        ..ORDINARY
    },
    Table {
        name: "manual_models", array: "manualModels", has_id: false, shows_id: false, label: "modelName",
        scope: Some("account_id"), who: Some(&["model_name"]), unique: &["account_id", "model_name"],
        stored: Some(StoredRows { table: "model_availability", condition: "is_manual = TRUE" }),
        columns: &[
            column("account_id", "accountId", Int, Refused).of("accounts"),
            column("model_name", "modelName", Key, Refused),
        ],
        ..ORDINARY
    },
    Table {
        name: "oauth_route_units", array: "oauthRouteUnits", scope: Some("site_id"), who: Some(&["provider", "name"]),
        columns: &[
            column("site_id", "siteId", Int, Refused).of("sites"),
            column("provider", "provider", Key, Refused),
            column("name", "name", Text, Refused),
            column("strategy", "strategy", Key, Missing::Text("round_robin")),
            column("enabled", "enabled", Bool, ON),
            column("created_at", "createdAt", Time, Now).kept(),
            column("updated_at", "updatedAt", Time, Now),
        ],
        ..ORDINARY
    },
    Table {
        name: "oauth_route_unit_members", array: "oauthRouteUnitMembers", label: "accountId", scope: Some("unit_id"),
        who: Some(&["account_id"]), unique: &["account_id"],
        columns: &[
            column("unit_id", "unitId", Int, Refused).of("oauth_route_units"),
            column("account_id", "accountId", Int, Refused).of("accounts"),
            column("sort_order", "sortOrder", Int, ZERO),
            column("created_at", "createdAt", Time, Now).kept(),
            column("updated_at", "updatedAt", Time, Now),
        ],
        ..ORDINARY
    },
    Table {
        name: "token_routes", array: "tokenRoutes", required: true, label: "modelPattern",
        who: Some(&["route_mode", "model_pattern"]),
        columns: &[
            column("model_pattern", "modelPattern", Text, Refused),
            column("display_name", "displayName", Text, Null),
            column("display_icon", "displayIcon", Text, Null),
            column("route_mode", "routeMode", Key, Missing::Text("pattern")),
            column("model_mapping", "modelMapping", Json, Null),
            column("routing_strategy", "routingStrategy", Key, Missing::Text("weighted")),
            column("enabled", "enabled", Bool, ON),
            column("is_manual", "isManual", Bool, OFF),
            column("created_at", "createdAt", Time, Now).kept(),
            column("updated_at", "updatedAt", Time, Now),
        ],
        ..ORDINARY
    },
    Table {
        name: "route_group_sources", array: "routeGroupSources", has_id: false, shows_id: false,
        label: "groupRouteId", scope: Some("group_route_id"), who: Some(&["source_route_id"]),
        unique: &["group_route_id", "source_route_id"], is_numbered_in_exports: true,
        columns: &[
            column("group_route_id", "groupRouteId", Int, Refused).of("token_routes"),
            column("source_route_id", "sourceRouteId", Int, Refused).of("token_routes"),
            column("position", "position", Int, ZERO),
        ],
        ..ORDINARY
    },
    Table {
        name: "route_channels", array: "routeChannels", required: true, label: "sourceModel", scope: Some("route_id"),
        who: Some(&["account_id", "token_id", "source_model"]),
        columns: &[
            column("route_id", "routeId", Int, Refused).of("token_routes"),
            column("account_id", "accountId", Int, Refused).of("accounts"),
            column("token_id", "tokenId", Int, Null).of("account_tokens"),
            column("oauth_route_unit_id", "oauthRouteUnitId", Int, Null).of("oauth_route_units"),
            column("source_model", "sourceModel", Key, Null),
            column("priority", "priority", Int, ZERO),
            column("weight", "weight", Int, Missing::Int(10)),
            column("enabled", "enabled", Bool, ON),
            column("manual_override", "manualOverride", Bool, OFF),
            column("is_extra", "isExtra", Bool, OFF),
            column("created_at", "createdAt", Time, Now).kept(),
            column("updated_at", "updatedAt", Time, Now),
        ],
        ..ORDINARY
    },
    Table {
        name: "downstream_api_keys", array: "downstreamApiKeys", shows_id: false, unique: &["key_hash"],
        is_strict: true,
        columns: &[
            column("name", "name", Text, Refused),
            column("key_enc", "key", Secret, Refused),
            column("key_hash", "", Hash, Null),
            column("description", "description", Text, Null),
            column("group_name", "groupName", Key, Null),
            column("tags", "tags", Json, Missing::Text("[]")),
            column("enabled", "enabled", Bool, ON),
            column("expires_at", "expiresAt", Time, Null),
            column("max_cost", "maxCost", Real, Null),
            column("used_cost", "usedCost", Real, Missing::Real(0.0)).taken_along(),
            column("max_requests", "maxRequests", Int, Null),
            column("used_requests", "usedRequests", Int, ZERO).taken_along(),
            column("last_used_at", "lastUsedAt", Time, Null).taken_along(),
            column("supported_models", "supportedModels", Json, Missing::Text("[]")),
            column("allowed_route_ids", "allowedRouteIds", Json, Missing::Text("[]")),
            column("site_weight_multipliers", "siteWeightMultipliers", Json, Missing::Text("{}")),
            column("excluded_site_ids", "excludedSiteIds", Json, Missing::Text("[]")),
            column("excluded_credential_refs", "excludedCredentialRefs", Json, Missing::Text("[]")),
            column("max_concurrency", "maxConcurrency", Int, Null),
            column("requests_per_minute", "requestsPerMinute", Int, Null),
            column("tokens_per_minute", "tokensPerMinute", Int, Null),
            column("allowed_ips", "allowedIps", Json, Null),
            column("budgets", "budgets", Json, Null),
        ],
        ..ORDINARY
    },
    Table {
        name: "usage_day", array: "usageDays", has_id: false, shows_id: false, label: "localDay",
        scope: Some("site_id"), who: Some(&["local_day", "model"]), unique: &["local_day", "site_id", "model"],
        columns: &[
            column("local_day", "localDay", Key, Refused).taken_along(),
            column("site_id", "siteId", Int, Refused).of("sites").taken_along(),
            column("model", "model", Key, Refused).taken_along(),
            column("tz", "timeZone", Key, Missing::Text("UTC")).taken_along(),
            column("calls", "calls", Int, ZERO).taken_along(),
            column("ok", "ok", Int, ZERO).taken_along(),
            column("failed", "failed", Int, ZERO).taken_along(),
            column("tokens", "tokens", Int, ZERO).taken_along(),
            column("cost", "cost", Real, Missing::Real(0.0)).taken_along(),
            column("latency_ms", "latencyMs", Int, ZERO).taken_along(),
            column("latency_n", "latencyCount", Int, ZERO).taken_along(),
        ],
        ..ORDINARY
    },
];
