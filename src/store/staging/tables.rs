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
    pub columns: &'static [Column],
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

/// Every table of a backup; tables that others refer to come first.
#[rustfmt::skip]
pub const TABLES: &[Table] = &[
    Table {
        name: "sites", array: "sites", required: true, has_id: true, shows_id: true, label: "name",
        scope: None, who: None, unique: &["platform", "url"],
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
    },
    Table {
        name: "site_api_endpoints", array: "siteApiEndpoints", required: false, has_id: true, shows_id: true,
        label: "url", scope: Some("site_id"), who: Some(&["url"]), unique: &["site_id", "url"],
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
    },
    Table {
        name: "site_disabled_models", array: "siteDisabledModels", required: false, has_id: false, shows_id: false,
        label: "modelName", scope: Some("site_id"), who: Some(&["model_name"]), unique: &["site_id", "model_name"],
        columns: &[
            column("site_id", "siteId", Int, Refused).of("sites"),
            column("model_name", "modelName", Key, Refused),
        ],
    },
    Table {
        name: "accounts", array: "accounts", required: true, has_id: true, shows_id: true, label: "username",
        scope: Some("site_id"), who: None, unique: &[],
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
    },
    Table {
        name: "account_tokens", array: "accountTokens", required: true, has_id: true, shows_id: true, label: "name",
        scope: Some("account_id"), who: None, unique: &[],
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
    },
    Table {
        name: "manual_models", array: "manualModels", required: false, has_id: false, shows_id: false,
        label: "modelName", scope: Some("account_id"), who: Some(&["model_name"]), unique: &["account_id", "model_name"],
        columns: &[
            column("account_id", "accountId", Int, Refused).of("accounts"),
            column("model_name", "modelName", Key, Refused),
        ],
    },
    Table {
        name: "oauth_route_units", array: "oauthRouteUnits", required: false, has_id: true, shows_id: true,
        label: "name", scope: Some("site_id"), who: Some(&["provider", "name"]), unique: &[],
        columns: &[
            column("site_id", "siteId", Int, Refused).of("sites"),
            column("provider", "provider", Key, Refused),
            column("name", "name", Text, Refused),
            column("strategy", "strategy", Key, Missing::Text("round_robin")),
            column("enabled", "enabled", Bool, ON),
            column("created_at", "createdAt", Time, Now).kept(),
            column("updated_at", "updatedAt", Time, Now),
        ],
    },
    Table {
        name: "oauth_route_unit_members", array: "oauthRouteUnitMembers", required: false, has_id: true, shows_id: true,
        label: "accountId", scope: Some("unit_id"), who: Some(&["account_id"]), unique: &["account_id"],
        columns: &[
            column("unit_id", "unitId", Int, Refused).of("oauth_route_units"),
            column("account_id", "accountId", Int, Refused).of("accounts"),
            column("sort_order", "sortOrder", Int, ZERO),
            column("created_at", "createdAt", Time, Now).kept(),
            column("updated_at", "updatedAt", Time, Now),
        ],
    },
    Table {
        name: "token_routes", array: "tokenRoutes", required: true, has_id: true, shows_id: true, label: "modelPattern",
        scope: None, who: Some(&["route_mode", "model_pattern"]), unique: &[],
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
    },
    Table {
        name: "route_group_sources", array: "routeGroupSources", required: false, has_id: false, shows_id: false,
        label: "groupRouteId", scope: Some("group_route_id"), who: Some(&["source_route_id"]),
        unique: &["group_route_id", "source_route_id"],
        columns: &[
            column("group_route_id", "groupRouteId", Int, Refused).of("token_routes"),
            column("source_route_id", "sourceRouteId", Int, Refused).of("token_routes"),
            column("position", "position", Int, ZERO),
        ],
    },
    Table {
        name: "route_channels", array: "routeChannels", required: true, has_id: true, shows_id: true, label: "sourceModel",
        scope: Some("route_id"), who: Some(&["account_id", "token_id", "source_model"]),
        unique: &[],
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
    },
    Table {
        name: "downstream_api_keys", array: "downstreamApiKeys", required: false, has_id: true, shows_id: false, label: "name",
        scope: None, who: None, unique: &["key_hash"],
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
    },
    Table {
        name: "usage_day", array: "usageDays", required: false, has_id: false, shows_id: false, label: "localDay",
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
    },
];
