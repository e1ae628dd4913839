//! Requests and responses of the routes for connected accounts.

use crate::admin::paging::{LIMIT, OFFSET};
use crate::admin::schema::Shape::{self, *};
use crate::admin::schema::{DONE, Object, Operation, has, may, op};

pub static OPERATIONS: &[Operation] = &[
    op("GET /api/oauth/providers", "Providers whose accounts are connected by a login in a browser")
        .gives(Of(&PROVIDERS)),
    op(
        "POST /api/oauth/providers/{provider}/start",
        "Begin a login; the answer has the address to open in a browser",
    )
    .takes(&START)
    .gives(Of(&STARTED))
    .refuses(&[404]),
    op("GET /api/oauth/sessions/{state}", "The state of a login").gives(Of(&SESSION)),
    op(
        "POST /api/oauth/sessions/{state}/manual-callback",
        "Complete a login with the address that the browser was sent back to",
    )
    .takes(&PASTE)
    .gives(Of(&DONE))
    .refuses(&[409]),
    op("GET /api/oauth/callback/{provider}", "The address to which a provider sends the browser back")
        .asks(&[may("state", Text), may("code", Text), may("error", Text), may("error_description", Text)])
        .writes("text/html"),
    op("POST /api/oauth/connections/{id}/rebind", "Begin a login for an account that is connected already")
        .takes(&PROXY)
        .gives(Of(&STARTED)),
    op("GET /api/oauth/connections", "Accounts connected by a login in a browser, newest first")
        .asks(&[LIMIT, OFFSET])
        .gives(Of(&CONNECTIONS)),
    op("POST /api/oauth/import", "Connect accounts by credentials that were exported elsewhere")
        .takes(&IMPORT)
        .gives(Of(&IMPORTED))
        .refuses(&[404]),
    op("DELETE /api/oauth/connections/{id}", "Delete a connected account with everything under it")
        .gives(Of(&DONE)),
    op("PATCH /api/oauth/connections/{id}/proxy", "Change the outbound proxy of a connected account")
        .takes(&PROXY)
        .gives(Of(&PROXY_SAVED)),
    op(
        "POST /api/oauth/connections/{id}/quota/refresh",
        "Ask a provider how much of its limits an account has used",
    )
    .gives(Of(&QUOTA_READ)),
    op(
        "POST /api/oauth/connections/quota/refresh-batch",
        "Ask providers how much of their limits several accounts have used",
    )
    .takes(&QUOTA_BATCH)
    .gives(Of(&QUOTAS_READ)),
    op(
        "POST /api/oauth/route-units",
        "Combine several connected accounts into a route unit: one channel per route",
    )
    .takes(&UNIT_CREATE)
    .gives(Of(&UNIT_SAVED))
    .refuses(&[404]),
    op(
        "PATCH /api/oauth/route-units/{id}",
        "Change the name of a route unit, or how its next member is picked",
    )
    .takes(&UNIT_UPDATE)
    .gives(Of(&UNIT_SAVED)),
    op(
        "DELETE /api/oauth/route-units/{id}",
        "Delete a route unit; each of its accounts gets channels of its own again",
    )
    .gives(Of(&DONE)),
];

pub static PROXY: Object = Object::new(
    "ConnectionProxy",
    &[may("proxyUrl", OrNull(&Text)).about("null or blank: no proxy"), may("useSystemProxy", Boolean)],
);

pub static START: Object = Object::with(
    "LoginStart",
    &[&PROXY],
    &[may("accountId", Id).about("The account to log in again"), may("projectId", Text)],
);

pub static PASTE: Object = Object::new("PastedCallback", &[has("callbackUrl", Text)]);

pub static IMPORT: Object = Object::with(
    "ConnectionImport",
    &[&PROXY],
    &[
        may("items", OrNull(&List(&Map(&Any)))).about("Exported connections, at most 100"),
        may("data", Any).about("One exported connection, if items is not sent"),
    ],
);

pub static QUOTA_BATCH: Object =
    Object::new("QuotaBatch", &[has("accountIds", List(&Id)).about("At most 100")]);

/// The strategy that picks the next member of a route unit.
pub const STRATEGY: Shape = OneOf(&["round_robin", "stick_until_unavailable"]);

pub static UNIT_CREATE: Object = Object::new(
    "RouteUnitCreate",
    &[
        has("accountIds", List(&Id)).about("At least two accounts of one site and provider"),
        has("name", Text),
        may("strategy", OrNull(&STRATEGY)),
    ],
);

pub static UNIT_UPDATE: Object =
    Object::new("RouteUnitUpdate", &[may("name", Text), may("strategy", STRATEGY)]);

static PROVIDERS: Object =
    Object::new("OAuthProviders", &[has("defaults", Of(&DEFAULTS)), has("providers", List(&Of(&PROVIDER)))]);

static DEFAULTS: Object = Object::new("OAuthDefaults", &[has("systemProxyConfigured", Boolean)]);

static PROVIDER: Object = Object::new(
    "OAuthProvider",
    &[
        has("provider", Text),
        has("label", Text),
        has("platform", Text),
        has("enabled", Boolean),
        has("loginType", Text),
        has("requiresProjectId", Boolean),
        has("supportsDirectAccountRouting", Boolean),
        has("supportsCloudValidation", Boolean),
        has("supportsNativeProxy", Boolean),
        has("notice", Text),
        may("missingVariables", List(&Text)),
        may("disabledReason", Text),
    ],
);

static STARTED: Object = Object::new(
    "StartedLogin",
    &[
        has("provider", Text),
        has("state", Text),
        has("authorizationUrl", Text),
        has("instructions", Of(&INSTRUCTIONS)),
    ],
);

static INSTRUCTIONS: Object = Object::new(
    "LoginInstructions",
    &[
        has("redirectUri", Text),
        has("callbackPort", OrNull(&Integer)),
        has("callbackPath", Text),
        has("manualCallbackDelayMs", Integer),
        may("sshTunnelCommand", Text),
        may("sshTunnelKeyCommand", Text),
    ],
);

static SESSION: Object = Object::new(
    "LoginSession",
    &[
        has("provider", Text),
        has("state", Text),
        has("status", OneOf(&["pending", "success", "error"])),
        has("createdAt", Time),
        has("updatedAt", Time),
        may("accountId", Id),
        may("siteId", Id),
        may("error", Text),
    ],
);

static CONNECTIONS: Object = Object::new(
    "Connections",
    &[has("items", List(&Of(&CONNECTION))), has("total", Count), has("limit", Count), has("offset", Count)],
);

static CONNECTION: Object = Object::new(
    "Connection",
    &[
        has("accountId", Id),
        has("siteId", Id),
        has("provider", OrNull(&Text)),
        has("username", OrNull(&Text)),
        may("email", Text),
        may("accountKey", Text),
        may("planType", Text),
        may("projectId", Text),
        may("tokenExpiresAt", Time),
        may("lastModelSyncAt", Time),
        may("lastModelSyncError", Text),
        has("modelCount", Count),
        has("modelsPreview", List(&Text)),
        has("quota", Of(&QUOTA)),
        has("status", OneOf(&["healthy", "abnormal"])),
        has("accountStatus", Text),
        has("routeChannelCount", Integer),
        has("proxyUrl", OrNull(&Text)),
        has("useSystemProxy", Boolean),
        has("routeUnit", OrNull(&Of(&UNIT_OF_CONNECTION))),
        has("routeParticipation", OrNull(&Of(&PARTICIPATION))),
        has("site", OrNull(&Of(&CONNECTION_SITE))),
    ],
);

static CONNECTION_SITE: Object = Object::new(
    "ConnectionSite",
    &[has("id", Id), has("name", Text), has("url", Text), has("platform", Text)],
);

static UNIT_OF_CONNECTION: Object = Object::new(
    "UnitOfConnection",
    &[
        has("kind", Text),
        has("id", Id),
        has("name", Text),
        has("strategy", STRATEGY),
        has("memberCount", Count),
    ],
);

static PARTICIPATION: Object =
    Object::with("RouteParticipation", &[&UNIT_OF_CONNECTION], &[may("routeUnitId", Id)]);

static QUOTA: Object = Object::new(
    "Quota",
    &[
        has("status", Text),
        has("source", Text),
        has("windows", Of(&QUOTA_WINDOWS)),
        may("subscription", Of(&QUOTA_SUBSCRIPTION)),
        may("lastSyncAt", Time),
        may("lastLimitResetAt", Time),
        may("providerMessage", Text),
        may("lastError", Text),
    ],
);

static QUOTA_WINDOWS: Object =
    Object::new("QuotaWindows", &[has("fiveHour", Of(&QUOTA_WINDOW)), has("sevenDay", Of(&QUOTA_WINDOW))]);

static QUOTA_WINDOW: Object = Object::new(
    "QuotaWindow",
    &[
        has("supported", Boolean),
        may("message", Text),
        may("used", Number),
        may("limit", Number),
        may("remaining", Number),
        may("resetAt", Time),
    ],
);

static QUOTA_SUBSCRIPTION: Object = Object::open("QuotaSubscription", &[may("planType", Text)]);

static IMPORTED: Object = Object::new(
    "ImportedConnections",
    &[
        has("success", Boolean),
        has("imported", Count),
        has("skipped", Count),
        has("failed", Count),
        has("items", List(&Of(&IMPORTED_ITEM))),
    ],
);

static IMPORTED_ITEM: Object = Object::new(
    "ImportedConnection",
    &[
        has("name", Text),
        may("provider", Text),
        has("status", OneOf(&["imported", "failed"])),
        may("accountId", Id),
        may("message", Text),
    ],
);

static PROXY_SAVED: Object = Object::new(
    "SavedConnectionProxy",
    &[
        has("success", Is(true)),
        has("accountId", Id),
        has("proxyUrl", OrNull(&Text)),
        has("useSystemProxy", Boolean),
        has("refreshedRoutes", Boolean),
        has("modelRefresh", Of(&MODELS_READ)),
    ],
);

static MODELS_READ: Object = Object::new(
    "ConnectionModelRefresh",
    &[has("success", Boolean), has("status", Text), has("errorMessage", OrNull(&Text))],
);

static QUOTA_READ: Object = Object::new("ReadQuota", &[has("success", Is(true)), has("quota", Of(&QUOTA))]);

static QUOTAS_READ: Object = Object::new(
    "ReadQuotas",
    &[
        has("success", Boolean),
        has("refreshed", Count),
        has("failed", Count),
        has("items", List(&Of(&QUOTA_ITEM))),
    ],
);

static QUOTA_ITEM: Object = Object::new(
    "ReadQuotaItem",
    &[has("accountId", Id), has("success", Boolean), may("quota", Of(&QUOTA)), may("error", OrNull(&Text))],
);

static UNIT_SAVED: Object =
    Object::new("SavedRouteUnit", &[has("success", Is(true)), has("routeUnit", Of(&UNIT))]);

static UNIT: Object = Object::new(
    "RouteUnit",
    &[
        has("id", Id),
        has("siteId", Id),
        has("provider", Text),
        has("name", Text),
        has("strategy", STRATEGY),
        has("enabled", Boolean),
        has("memberCount", Count),
    ],
);
