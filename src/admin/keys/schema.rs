//! Requests and responses of the downstream key routes.

use crate::admin::batch::{self, BATCH_RESULT};
use crate::admin::schema::Shape::{self, *};
use crate::admin::schema::{DONE, Member, Object, Operation, has, may, op};

pub static OPERATIONS: &[Operation] = &[
    op("GET /api/downstream-keys", "Keys of clients, masked").gives(Of(&KEYS)),
    op("POST /api/downstream-keys", "Add a key").takes(&CREATE).gives(Of(&KEY)).refuses(&[409]),
    op("POST /api/downstream-keys/batch", "Enable, disable, delete, reset or label several keys")
        .takes(&BATCH)
        .gives(Of(&BATCH_RESULT)),
    op("GET /api/downstream-keys/summary", "Usage of each key").asks(SUMMARY_QUERY).gives(Of(&SUMMARY)),
    op("PUT /api/downstream-keys/{id}", "Change a key").takes(&UPDATE).gives(Of(&KEY)).refuses(&[409]),
    op("DELETE /api/downstream-keys/{id}", "Delete a key").gives(Of(&DONE)),
    op("POST /api/downstream-keys/{id}/reset-usage", "Reset a key's usage to zero").gives(Of(&KEY)),
    op("GET /api/downstream-keys/{id}/value", "A key in full").gives(Of(&VALUE)).refuses(&[409]),
    op("GET /api/downstream-keys/{id}/overview", "Usage of one key").gives(Of(&OVERVIEW)),
    op("GET /api/downstream-keys/{id}/trend", "Usage of one key by hour or day")
        .asks(&[RANGE, may("timeZone", Text)])
        .gives(Of(&TREND)),
];

const RANGE: Member = may("range", OneOf(&["24h", "7d", "all"]));

static SUMMARY_QUERY: &[Member] = &[
    RANGE,
    may("status", OneOf(&["all", "enabled", "disabled"])),
    may("search", Text),
    may("group", Text),
    may("tags", Text).about("May be repeated"),
    may("tagMatch", OneOf(&["any", "all"])),
];

/// A list of texts, as an array or as one text with commas or line ends between them.
const WORDS: Shape = Either(&[List(&Text), OrNull(&Text)]);
/// An amount, as a number or as text.
const LIMIT: Shape = Either(&[Number, OrNull(&Text)]);

pub static UPDATE: Object = Object::new(
    "KeyUpdate",
    &[
        may("key", Text),
        may("name", Text),
        may("description", OrNull(&Text)),
        may("groupName", OrNull(&Text)),
        may("tags", WORDS),
        may("enabled", Boolean),
        may("expiresAt", OrNull(&Text)),
        may("maxCost", LIMIT).about("In USD; null or blank: no limit"),
        may("maxRequests", LIMIT),
        may("supportedModels", WORDS).about("Names and patterns of models; an empty list allows none"),
        may("allowedRouteIds", Either(&[List(&Any), OrNull(&Text)])),
        may("siteWeightMultipliers", Either(&[Map(&Any), OrNull(&Text)]))
            .about("A factor for each site by its id"),
        may("excludedSiteIds", Either(&[List(&Any), OrNull(&Text)])),
        may("excludedCredentialRefs", Either(&[List(&Of(&CREDENTIAL)), OrNull(&Text)])),
        may("maxConcurrency", LIMIT).about("0, null or blank: no limit"),
        may("requestsPerMinute", LIMIT),
        may("tokensPerMinute", LIMIT),
        may("allowedIps", WORDS).about("Addresses and networks of clients; an empty list admits all"),
        may("budgets", Either(&[List(&Of(&BUDGET)), OrNull(&Text)])).about("At most 8"),
    ],
);

pub static CREATE: Object = Object::with("KeyCreate", &[&UPDATE], &[has("key", Text), has("name", Text)]);

pub static BATCH: Object = Object::with(
    "KeyBatch",
    &[&batch::IDS],
    &[
        has("action", OneOf(&["enable", "disable", "delete", "resetUsage", "updateMetadata"])),
        may("groupOperation", OneOf(&["keep", "set", "clear"])),
        may("groupName", OrNull(&Text)),
        may("tagOperation", OneOf(&["keep", "append"])),
        may("tags", WORDS),
    ],
);

static KEYS: Object =
    Object::new("DownstreamKeys", &[has("success", Is(true)), has("items", List(&Of(&DOWNSTREAM_KEY)))]);

static KEY: Object =
    Object::new("OneDownstreamKey", &[has("success", Is(true)), has("item", Of(&DOWNSTREAM_KEY))]);

static DOWNSTREAM_KEY: Object = Object::new(
    "DownstreamKey",
    &[
        has("id", Id),
        has("name", Text),
        has("key", Text),
        has("keyMasked", Text),
        has("description", OrNull(&Text)),
        has("groupName", OrNull(&Text)),
        has("tags", List(&Text)),
        has("enabled", Boolean),
        has("expiresAt", OrNull(&Time)),
        has("maxCost", OrNull(&Number)),
        has("usedCost", Number),
        has("maxRequests", OrNull(&Integer)),
        has("usedRequests", Integer),
        has("supportedModels", List(&Text)),
        has("allowedRouteIds", List(&Integer)),
        has("siteWeightMultipliers", Map(&Number)),
        has("excludedSiteIds", List(&Integer)),
        has("excludedCredentialRefs", List(&Of(&CREDENTIAL))),
        has("maxConcurrency", OrNull(&Count)),
        has("requestsPerMinute", OrNull(&Count)),
        has("tokensPerMinute", OrNull(&Count)),
        has("allowedIps", OrNull(&List(&Text))),
        has("budgets", OrNull(&List(&Of(&SHOWN_BUDGET)))),
        has("lastUsedAt", OrNull(&Time)),
        has("createdAt", Time),
        has("updatedAt", Time),
    ],
);

static CREDENTIAL: Object = Object::new(
    "ExcludedCredential",
    &[
        has("kind", OneOf(&["account_token", "default_api_key"])),
        has("siteId", Id),
        has("accountId", Id),
        may("tokenId", Id),
    ],
);

pub static BUDGET: Object = Object::new(
    "BudgetFields",
    &[
        has("period", OneOf(&["5h", "day", "week", "month", "total"])),
        may("maxCost", LIMIT),
        may("maxRequests", LIMIT),
        may("maxTokens", LIMIT),
        may("models", WORDS),
        may("used", Any).about("Set in answers; ignored in requests"),
        may("resetsAt", Any).about("Set in answers; ignored in requests"),
    ],
);

static SHOWN_BUDGET: Object = Object::new(
    "Budget",
    &[
        has("period", OneOf(&["5h", "day", "week", "month", "total"])),
        has("maxCost", OrNull(&Number)),
        has("maxRequests", OrNull(&Integer)),
        has("maxTokens", OrNull(&Integer)),
        has("models", OrNull(&List(&Text))),
        has("used", Of(&BUDGET_USED)),
        has("resetsAt", OrNull(&Time)),
    ],
);

static BUDGET_USED: Object =
    Object::new("BudgetUsed", &[has("cost", Number), has("requests", Integer), has("tokens", Integer)]);

static VALUE: Object = Object::new("KeyValue", &[has("success", Is(true)), has("id", Id), has("key", Text)]);

static USAGE: Object = Object::new(
    "KeyUsage",
    &[
        has("totalRequests", Integer),
        has("successRequests", Integer),
        has("failedRequests", Integer),
        has("successRate", OrNull(&Number)),
        has("totalTokens", Integer),
        has("totalCost", Number),
        may("cacheReadTokens", Integer),
        may("cacheCreationTokens", Integer),
        may("cacheHitRatio", OrNull(&Number)),
    ],
);

static SUMMARY: Object = Object::new(
    "KeySummary",
    &[
        has("success", Is(true)),
        has("range", Text),
        has("status", Text),
        has("search", Text),
        has("group", Text),
        has("tags", List(&Text)),
        has("tagMatch", Text),
        has("items", List(&Of(&SUMMARISED))),
    ],
);

static SUMMARISED: Object =
    Object::with("SummarisedKey", &[&DOWNSTREAM_KEY], &[has("rangeUsage", Of(&USAGE))]);

static OVERVIEW: Object = Object::new(
    "KeyOverview",
    &[has("success", Is(true)), has("item", Of(&DOWNSTREAM_KEY)), has("usage", Of(&OVERVIEW_USAGE))],
);

static OVERVIEW_USAGE: Object = Object::new(
    "KeyOverviewUsage",
    &[has("last24h", Of(&USAGE)), has("last7d", Of(&USAGE)), has("all", Of(&USAGE))],
);

static TREND: Object = Object::new(
    "KeyTrend",
    &[
        has("success", Is(true)),
        has("range", Text),
        has("item", Of(&NAMED)),
        has("bucketSeconds", Integer),
        has("timeZone", Text),
        has("buckets", List(&Of(&BUCKET))),
    ],
);

static NAMED: Object = Object::new("NamedKey", &[has("id", Id), has("name", Text)]);

static BUCKET: Object = Object::with("KeyUsageBucket", &[&USAGE], &[has("startUtc", Time)]);
