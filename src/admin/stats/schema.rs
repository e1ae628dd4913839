//! Responses of the statistics.

use crate::admin::schema::Shape::*;
use crate::admin::schema::{Member, Object, Operation, has, may, op};

pub static OPERATIONS: &[Operation] = &[
    op("GET /api/stats/dashboard", "Overview: balances, spend, check-ins and traffic")
        .asks(&[may("view", Text).about("`summary`, `insights` or both"), REFRESH])
        .gives(Of(&DASHBOARD)),
    op("GET /api/stats/site-distribution", "Balance and spend of each active site")
        .asks(&[may("days", Integer), REFRESH])
        .gives(Of(&DISTRIBUTION)),
    op("GET /api/stats/site-trend", "Spend and calls of each active site by local day, of all models or one")
        .asks(&[may("days", Integer), may("model", Text), REFRESH])
        .gives(Of(&TREND)),
    op("GET /api/stats/model-by-site", "Calls, spend and tokens by model")
        .asks(&[may("siteId", Id), may("days", Integer)])
        .gives(Of(&BY_MODEL)),
];

const REFRESH: Member =
    may("refresh", Text).about("1 computes the statistics again instead of using a cached answer");

static DASHBOARD: Object = Object::new(
    "Dashboard",
    &[
        has("generatedAt", Time),
        may("totalBalance", Number),
        may("totalUsed", Number),
        may("todaySpend", Number),
        may("todayReward", Number),
        may("activeAccounts", Count),
        may("totalAccounts", Count),
        may("todayCheckin", Of(&OUTCOMES)),
        may("proxy24h", Of(&CALLS)),
        may("cacheHitRatio", OrNull(&Number)),
        may("performance", Of(&PERFORMANCE)),
        may("inFlight", Integer).about("Requests in progress at an upstream, at this moment"),
        may("siteAvailability", List(&Of(&SITE_AVAILABILITY))),
        may("modelAnalysis", Of(&ANALYSIS)),
    ],
);

static OUTCOMES: Object =
    Object::new("Outcomes", &[has("success", Count), has("failed", Count), has("total", Count)]);

static CALLS: Object = Object::with("CallOutcomes", &[&OUTCOMES], &[has("totalTokens", Integer)]);

static PERFORMANCE: Object = Object::new(
    "Performance",
    &[has("windowSeconds", Integer), has("requestsPerMinute", Number), has("tokensPerMinute", Number)],
);

static ANSWERED: Object = Object::new(
    "Answered",
    &[
        has("totalRequests", Integer),
        has("successCount", Integer),
        has("failedCount", Integer),
        has("availabilityPercent", OrNull(&Number)),
        has("averageLatencyMs", OrNull(&Integer)),
    ],
);

static AVAILABILITY_BUCKET: Object =
    Object::with("AvailabilityBucket", &[&ANSWERED], &[has("startUtc", Time), has("label", Text)]);

static SITE_AVAILABILITY: Object = Object::with(
    "SiteAvailability",
    &[&ANSWERED],
    &[
        has("siteId", Id),
        has("siteName", Text),
        has("siteUrl", Text),
        has("platform", Text),
        has("buckets", List(&Of(&AVAILABILITY_BUCKET))),
    ],
);

static ANALYSIS: Object = Object::new(
    "ModelAnalysis",
    &[
        has("window", Of(&WINDOW)),
        has("totals", Of(&TOTALS)),
        has("spendDistribution", List(&Of(&MODEL_SPEND))),
        has("spendTrend", List(&Of(&DAY_SPEND))),
        has("callsDistribution", List(&Of(&MODEL_SHARE))),
        has("callRanking", List(&Of(&RANKED_MODEL))),
    ],
);

static WINDOW: Object =
    Object::new("AnalysisWindow", &[has("start", Text), has("end", Text), has("days", Integer)]);

static TOTALS: Object =
    Object::new("AnalysisTotals", &[has("calls", Integer), has("tokens", Integer), has("spend", Number)]);

static MODEL_SPEND: Object =
    Object::new("ModelSpend", &[has("model", Text), has("spend", Number), has("calls", Integer)]);

static DAY_SPEND: Object = Object::new("DaySpend", &[has("day", Text), has("spend", Number)]);

static MODEL_SHARE: Object =
    Object::new("ModelShare", &[has("model", Text), has("calls", Integer), has("share", OrNull(&Number))]);

static RANKED_MODEL: Object = Object::new(
    "RankedModel",
    &[
        has("model", Text),
        has("calls", Integer),
        has("successRate", OrNull(&Number)),
        has("avgLatencyMs", Integer),
        has("spend", Number),
        has("tokens", Integer),
    ],
);

static DISTRIBUTION: Object = Object::new("SiteDistribution", &[has("distribution", List(&Of(&SITE_SHARE)))]);

static TREND: Object = Object::new("SiteTrend", &[has("trend", List(&Of(&TREND_DAY)))]);

static TREND_DAY: Object = Object::new(
    "SiteTrendDay",
    &[has("date", Text), has("sites", Map(&Of(&SPENT))), has("sitesById", Map(&Of(&SPENT_AT_SITE)))],
);

static BY_MODEL: Object = Object::new("ModelsBySite", &[has("models", List(&Of(&SPENT_ON_MODEL)))]);

static SITE_SHARE: Object = Object::with(
    "SiteShare",
    &[&CACHE_USE],
    &[
        has("siteId", Id),
        has("siteName", Text),
        has("platform", Text),
        has("totalBalance", Number),
        has("totalSpend", Number),
        has("accountCount", Integer),
    ],
);

static SPENT: Object = Object::with("Spent", &[&CACHE_USE], &[has("spend", Number), has("calls", Integer)]);

static SPENT_AT_SITE: Object = Object::with("SpentAtSite", &[&SPENT], &[has("siteName", Text)]);

static SPENT_ON_MODEL: Object =
    Object::with("SpentOnModel", &[&SPENT], &[has("model", Text), has("tokens", Integer)]);

/// The use of prompt caches, where an upstream reports any.
static CACHE_USE: Object = Object::new(
    "CacheUse",
    &[
        may("cacheReadTokens", Integer),
        may("cacheCreationTokens", Integer),
        may("cacheHitRatio", OrNull(&Number)),
    ],
);
