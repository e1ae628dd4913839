//! Requests and responses of the log and debug trace routes.

use crate::admin::paging::{LIMIT, OFFSET};
use crate::admin::schema::Shape::*;
use crate::admin::schema::{Member, Object, Operation, has, may, op};

pub static OPERATIONS: &[Operation] = &[
    op("GET /api/stats/proxy-logs", "The log of attempts, newest first").asks(LOG_QUERY).gives(Of(&LOG_LIST)),
    op("DELETE /api/stats/proxy-logs", "Delete all rows of the log; the sums made from them stay").gives(Of(&CLEARED)),
    op("GET /api/stats/live", "The log of attempts as it grows, as server-sent events: `log` (a row of the list), `skipped` (how many rows were not shown)").streams(),
    op("GET /api/stats/proxy-logs/{id}", "One attempt with its billing details, all attempts of its request, and the number of its trace").gives(Of(&LOG_DETAIL)),
    op("GET /api/stats/proxy-debug/traces", "Requests recorded in full, newest first").asks(&[LIMIT]).gives(Of(&TRACES)),
    op("GET /api/stats/proxy-debug/traces/{id}", "One recorded request with its attempts").gives(Of(&TRACE)),
];

static LOG_QUERY: &[Member] = &[
    LIMIT,
    OFFSET,
    may("status", OneOf(&["all", "success", "failed"])),
    may("search", Text),
    may("client", Text).about("`app:` or `family:` and a name of clientOptions"),
    may("siteId", Id),
    may("from", Text),
    may("to", Text),
    may("view", Text)
        .about("`query`: the page of rows; `meta`: totals and the choices for filters; default: both"),
];

static LOG_LIST: Object = Object::new(
    "LogList",
    &[
        may("items", List(&Of(&LOG_ITEM))),
        may("total", Integer),
        may("page", Integer),
        may("pageSize", Integer),
        may("clientOptions", List(&Of(&CLIENT_OPTION))),
        may("summary", Of(&LOG_SUMMARY)),
        may("sites", List(&Of(&SITE_OPTION))),
    ],
);

static CLIENT_OPTION: Object = Object::new("ClientOption", &[has("value", Text), has("label", Text)]);

static SITE_OPTION: Object =
    Object::new("SiteOption", &[has("id", Id), has("name", Text), has("status", Text)]);

static LOG_SUMMARY: Object = Object::new(
    "LogSummary",
    &[
        has("totalCount", Integer),
        has("successCount", Integer),
        has("failedCount", Integer),
        has("totalCost", Number),
        has("totalTokensAll", Integer),
    ],
);

pub static LOG_ITEM: Object = Object::new(
    "LogItem",
    &[
        has("id", Id),
        has("requestId", OrNull(&Text)),
        has("routeId", OrNull(&Id)),
        has("channelId", OrNull(&Id)),
        has("accountId", OrNull(&Id)),
        has("downstreamApiKeyId", OrNull(&Id)),
        has("modelRequested", OrNull(&Text)),
        has("modelActual", OrNull(&Text)),
        has("status", Text),
        has("httpStatus", OrNull(&Integer)),
        has("isStream", OrNull(&Boolean)),
        has("firstByteLatencyMs", OrNull(&Integer)),
        has("latencyMs", OrNull(&Integer)),
        has("promptTokens", OrNull(&Integer)),
        has("completionTokens", OrNull(&Integer)),
        has("totalTokens", OrNull(&Integer)),
        has("cacheReadTokens", OrNull(&Integer)),
        has("cacheCreationTokens", OrNull(&Integer)),
        has("estimatedCost", Number),
        has("clientFamily", OrNull(&Text)),
        has("clientAppId", OrNull(&Text)),
        has("clientAppName", OrNull(&Text)),
        has("clientConfidence", OrNull(&Text)),
        has("usageSource", OrNull(&Text)),
        has("errorMessage", OrNull(&Text)),
        has("retryCount", Integer),
        has("decisionReason", OrNull(&Text)),
        has("createdAt", Time),
        has("username", OrNull(&Text)),
        has("siteId", OrNull(&Id)),
        has("siteName", OrNull(&Text)),
        has("siteUrl", OrNull(&Text)),
        has("downstreamKeyId", OrNull(&Id)),
        has("downstreamKeyName", OrNull(&Text)),
        has("downstreamKeyGroupName", OrNull(&Text)),
        has("downstreamKeyTags", List(&Text)),
    ],
);

static LOG_DETAIL: Object = Object::with(
    "LogDetail",
    &[&LOG_ITEM],
    &[
        has("billingDetails", OrNull(&Of(&BILLING))),
        has("attempts", List(&Of(&LOG_ITEM))),
        has("traceId", OrNull(&Id)),
    ],
);

/// Billing details; rows of a migrated database may have those of another program.
static BILLING: Object = Object::open(
    "BillingDetails",
    &[may("quotaType", Integer), may("usage", Any), may("pricing", Any), may("breakdown", Any)],
);

static CLEARED: Object =
    Object::new("ClearedLog", &[has("success", Is(true)), has("deletedProxyLogs", Count)]);

static TRACES: Object = Object::new("DebugTraces", &[has("items", List(&Of(&DEBUG_TRACE)))]);

static TRACE: Object = Object::new(
    "RecordedRequest",
    &[has("trace", Of(&DEBUG_TRACE_DETAIL)), has("attempts", List(&Of(&DEBUG_TRACE_ATTEMPT)))],
);

static DEBUG_TRACE: Object = Object::new(
    "DebugTrace",
    &[
        has("id", Id),
        has("createdAt", Time),
        has("downstreamPath", Text),
        has("clientKind", OrNull(&Text)),
        has("sessionId", OrNull(&Text)),
        has("requestedModel", OrNull(&Text)),
        has("selectedChannelId", OrNull(&Id)),
        has("finalStatus", OrNull(&Text)),
        has("finalHttpStatus", OrNull(&Integer)),
        has("finalUpstreamPath", OrNull(&Text)),
    ],
);

static DEBUG_TRACE_DETAIL: Object = Object::with(
    "DebugTraceDetail",
    &[&DEBUG_TRACE],
    &[
        has("updatedAt", Time),
        has("traceHint", OrNull(&Text)),
        has("downstreamApiKeyId", OrNull(&Id)),
        has("requestHeadersJson", OrNull(&Text)),
        has("requestBodyJson", OrNull(&Text)),
        has("stickySessionKey", OrNull(&Text)),
        has("stickyHitChannelId", OrNull(&Id)),
        has("selectedRouteId", OrNull(&Id)),
        has("selectedAccountId", OrNull(&Id)),
        has("selectedSiteId", OrNull(&Id)),
        has("selectedSitePlatform", OrNull(&Text)),
        has("endpointCandidatesJson", OrNull(&Text)),
        has("endpointRuntimeStateJson", OrNull(&Text)),
        has("decisionSummaryJson", OrNull(&Text)),
        has("finalResponseHeadersJson", OrNull(&Text)),
        has("finalResponseBodyJson", OrNull(&Text)),
    ],
);

static DEBUG_TRACE_ATTEMPT: Object = Object::new(
    "DebugTraceAttempt",
    &[
        has("id", Id),
        has("traceId", Id),
        has("attemptIndex", Integer),
        has("createdAt", Time),
        has("endpoint", OrNull(&Text)),
        has("requestPath", OrNull(&Text)),
        has("targetUrl", OrNull(&Text)),
        has("runtimeExecutor", OrNull(&Text)),
        has("requestHeadersJson", OrNull(&Text)),
        has("requestBodyJson", OrNull(&Text)),
        has("responseStatus", OrNull(&Integer)),
        has("responseHeadersJson", OrNull(&Text)),
        has("responseBodyJson", OrNull(&Text)),
        has("rawErrorText", OrNull(&Text)),
        has("recoverApplied", OrNull(&Boolean)),
        has("downgradeDecision", OrNull(&Boolean)),
        has("downgradeReason", OrNull(&Text)),
        has("memoryWriteJson", OrNull(&Text)),
    ],
);
