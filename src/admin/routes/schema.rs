//! Requests and responses of the routes for model routes.

use crate::admin::accounts::schema::CLEARED;
use crate::admin::batch;
use crate::admin::decisions::schema::DECISION;
use crate::admin::models::schema::{MODEL_REFRESH, REBUILD_COUNTS};
use crate::admin::oauth::schema::STRATEGY;
use crate::admin::schema::Answer::Json;
use crate::admin::schema::Shape::*;
use crate::admin::schema::{DONE, Object, Operation, has, may, op};
use crate::admin::tasks::schema::QUEUED;

pub static OPERATIONS: &[Operation] = &[
    op("GET /api/routes", "Routes with their channels").gives(List(&Of(&ROUTE))),
    op("GET /api/routes/summary", "Routes with the count of their channels").gives(List(&Of(&ROUTE_SUMMARY))),
    op("GET /api/routes/lite", "Routes without channels").gives(List(&Of(&LITE_ROUTE))),
    op("POST /api/routes", "Add a route").takes(&CREATE).gives(Of(&ROUTE)).refuses(&[404, 409]),
    op("POST /api/routes/batch", "Enable, disable or delete several routes")
        .takes(&BATCH)
        .gives(Of(&UPDATED)),
    op("POST /api/routes/rebuild", "Rebuild the routes from what accounts offer")
        .takes(&REBUILD)
        .gives(Of(&REBUILT))
        .also(&[("202", Json(Of(&QUEUED)))]),
    op("PUT /api/routes/{id}", "Change a route").takes(&UPDATE).gives(Of(&ROUTE)).refuses(&[409]),
    op("DELETE /api/routes/{id}", "Delete a route").gives(Of(&DONE)),
    op("POST /api/routes/{id}/cooldown/clear", "End the cooldowns of a route's channels").gives(Of(&CLEARED)),
];

pub static CREATE: Object = Object::new(
    "RouteCreate",
    &[
        may("routeMode", Text).about("`explicit_group` for a group of routes; anything else is a pattern"),
        may("modelPattern", Text).about("A name, a pattern with * and ?, or `re:` and a regular expression"),
        may("displayName", OrNull(&Text)),
        may("displayIcon", OrNull(&Text)),
        may("modelMapping", OrNull(&Text)).about("A JSON object whose values are strings, as text"),
        may("routingStrategy", Text).about("weighted, round_robin or stable_first"),
        may("enabled", Boolean),
        may("sourceRouteIds", List(&Id)).about("The routes of a group"),
    ],
);

pub static UPDATE: Object = Object::with("RouteUpdate", &[&CREATE], &[]);

pub static BATCH: Object =
    Object::with("RouteBatch", &[&batch::IDS], &[has("action", OneOf(&["enable", "disable", "delete"]))]);

pub static REBUILD: Object = Object::new(
    "RouteRebuild",
    &[
        may("refreshModels", Boolean).about("Ask all accounts for their models first"),
        may("wait", Boolean).about("Answer with the result instead of a task"),
    ],
);

static ROUTE: Object = Object::with(
    "Route",
    &[&LITE_ROUTE, &CACHED_DECISION],
    &[
        has("modelMapping", OrNull(&Text)),
        has("createdAt", Time),
        has("updatedAt", Time),
        has("channels", List(&Of(&CHANNEL))),
    ],
);

static LITE_ROUTE: Object = Object::new(
    "LiteRoute",
    &[
        has("id", Id),
        has("modelPattern", Text),
        has("displayName", OrNull(&Text)),
        has("displayIcon", OrNull(&Text)),
        has("routeMode", Text),
        has("sourceRouteIds", List(&Integer)),
        has("routingStrategy", Text),
        has("enabled", Boolean),
    ],
);

static ROUTE_SUMMARY: Object = Object::with(
    "RouteSummary",
    &[&LITE_ROUTE, &CACHED_DECISION],
    &[
        has("modelMapping", OrNull(&Text)),
        has("channelCount", Count),
        has("enabledChannelCount", Count),
        has("siteNames", List(&Text)),
        has("cacheHitRatio", OrNull(&Number)),
        has("channelCaches", List(&Of(&CHANNEL_CACHE))),
    ],
);

static CHANNEL_CACHE: Object =
    Object::new("ChannelCache", &[has("id", Id), has("cacheHitRatio", OrNull(&Number))]);

static CACHED_DECISION: Object = Object::new(
    "CachedDecision",
    &[has("decisionSnapshot", OrNull(&Of(&DECISION))), has("decisionRefreshedAt", OrNull(&Time))],
);

pub static CHANNEL: Object = Object::new(
    "Channel",
    &[
        has("id", Id),
        has("routeId", Id),
        has("accountId", Id),
        has("tokenId", OrNull(&Id)),
        has("oauthRouteUnitId", OrNull(&Id)),
        has("sourceModel", OrNull(&Text)),
        has("priority", Integer),
        has("weight", Integer),
        has("enabled", Boolean),
        has("manualOverride", Boolean),
        has("successCount", Count),
        has("failCount", Count),
        has("totalLatencyMs", Count),
        has("totalCost", Number),
        has("cacheHitRatio", OrNull(&Number)),
        has("lastUsedAt", OrNull(&Time)),
        has("lastSelectedAt", OrNull(&Time)),
        has("lastFailAt", OrNull(&Time)),
        has("consecutiveFailCount", Count),
        has("cooldownLevel", Integer),
        has("cooldownUntil", OrNull(&Time)),
        has("limitedUntil", OrNull(&Time)),
        has("account", OrNull(&Of(&CHANNEL_ACCOUNT))),
        has("site", OrNull(&Of(&CHANNEL_SITE))),
        has("token", OrNull(&Of(&CHANNEL_TOKEN))),
        has("routeUnit", OrNull(&Of(&CHANNEL_UNIT))),
    ],
);

static CHANNEL_ACCOUNT: Object = Object::new(
    "ChannelAccount",
    &[has("id", Id), has("siteId", Id), has("username", OrNull(&Text)), has("status", Text)],
);

static CHANNEL_SITE: Object = Object::new(
    "ChannelSite",
    &[has("id", Id), has("name", Text), has("url", Text), has("platform", Text), has("status", Text)],
);

static CHANNEL_TOKEN: Object = Object::new(
    "ChannelToken",
    &[
        has("id", Id),
        has("name", Text),
        has("accountId", Id),
        has("enabled", Boolean),
        has("isDefault", Boolean),
    ],
);

static CHANNEL_UNIT: Object = Object::new(
    "ChannelRouteUnit",
    &[
        has("id", Id),
        has("name", Text),
        has("strategy", STRATEGY),
        has("memberCount", Count),
        has("members", List(&Of(&UNIT_MEMBER))),
    ],
);

static UNIT_MEMBER: Object = Object::new(
    "RouteUnitMember",
    &[has("accountId", Id), has("username", OrNull(&Text)), has("siteName", OrNull(&Text))],
);

static UPDATED: Object =
    Object::new("UpdatedRoutes", &[has("success", Is(true)), has("updatedCount", Count)]);

static REBUILT: Object = Object::new(
    "RebuiltRoutes",
    &[
        has("success", Is(true)),
        may("refresh", List(&Of(&MODEL_REFRESH))),
        has("rebuild", Of(&REBUILD_COUNTS)),
    ],
);
