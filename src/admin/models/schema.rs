//! Requests and responses of the model routes.

use crate::admin::schema::Answer::Json;
use crate::admin::schema::Shape::*;
use crate::admin::schema::{Object, Operation, has, may, op};
use crate::admin::sites::schema::POST_PROBE;
use crate::admin::tasks::schema::QUEUED;

pub static OPERATIONS: &[Operation] = &[
    op("GET /api/models/marketplace", "Available models, with the accounts that offer them and their prices")
        .asks(&[may("refresh", Text), may("includePricing", Text)])
        .gives(Of(&MARKETPLACE)),
    op(
        "GET /api/models/token-candidates",
        "The tokens that reach each model, and the accounts without such a token",
    )
    .gives(Of(&TOKEN_CANDIDATES)),
    op("POST /api/models/check/{id}", "Ask a site for an account's models, then rebuild the routes")
        .gives(Of(&CHECKED)),
    op("POST /api/models/probe", "Probe which models are really served")
        .takes(&PROBE)
        .gives(Of(&PROBED))
        .also(&[("202", Json(Of(&QUEUED))), ("500", Json(Of(&PROBE_FAILED)))])
        .refuses(&[404]),
];

pub static PROBE: Object = Object::new(
    "ModelProbe",
    &[
        may("accountId", Either(&[Id, OrNull(&Text)])).about("Default: all accounts"),
        may("wait", Boolean).about("Answer with the results instead of a task"),
    ],
);

static MARKETPLACE: Object = Object::new(
    "Marketplace",
    &[has("models", List(&Of(&MARKETPLACE_MODEL))), has("meta", Of(&MARKETPLACE_META))],
);

static MARKETPLACE_MODEL: Object = Object::new(
    "MarketplaceModel",
    &[
        has("name", Text),
        has("accountCount", Count),
        has("tokenCount", Count),
        has("avgLatency", Integer),
        has("successRate", OrNull(&Number)),
        has("description", OrNull(&Text)),
        has("tags", List(&Text)),
        has("supportedEndpointTypes", List(&Text)),
        has("pricingSources", List(&Of(&PRICING_SOURCE))),
        has("accounts", List(&Of(&OFFERING_ACCOUNT))),
    ],
);

static OFFERING_ACCOUNT: Object = Object::new(
    "OfferingAccount",
    &[
        has("id", Id),
        has("site", Text),
        has("username", Text),
        has("latency", OrNull(&Integer)),
        has("unitCost", OrNull(&Number)),
        has("balance", Number),
        has("tokens", List(&Of(&OFFERING_TOKEN))),
    ],
);

static OFFERING_TOKEN: Object =
    Object::new("OfferingToken", &[has("id", Id), has("name", Text), has("isDefault", Boolean)]);

static PRICING_SOURCE: Object = Object::new(
    "PricingSource",
    &[
        has("siteId", Id),
        has("siteName", Text),
        has("accountId", Id),
        has("username", Text),
        has("ownerBy", OrNull(&Text)),
        has("enableGroups", List(&Text)),
        has("groupPricing", Map(&Of(&GROUP_PRICING))),
    ],
);

static GROUP_PRICING: Object = Object::new(
    "GroupPricing",
    &[
        has("quotaType", Count),
        may("inputPerMillion", Number),
        may("outputPerMillion", Number),
        may("perCallInput", Number),
        may("perCallOutput", Number),
        may("perCallTotal", Number),
    ],
);

static MARKETPLACE_META: Object = Object::new(
    "MarketplaceMeta",
    &[
        has("refreshRequested", Boolean),
        has("refreshQueued", Boolean),
        has("refreshReused", Boolean),
        has("refreshRunning", Boolean),
        has("includePricing", Boolean),
        has("refreshJobId", OrNull(&Text)),
        may("cacheHit", Boolean),
    ],
);

static TOKEN_CANDIDATES: Object = Object::new(
    "TokenCandidates",
    &[
        has("models", Map(&List(&Of(&TOKEN_CANDIDATE)))),
        has("modelsWithoutToken", Map(&List(&Of(&TOKEN_OWNER)))),
        has("modelsMissingTokenGroups", Map(&List(&Of(&MISSING_GROUPS)))),
        has("endpointTypesByModel", Map(&List(&Text))),
    ],
);

static TOKEN_OWNER: Object = Object::new(
    "TokenOwner",
    &[has("accountId", Id), has("username", Text), has("siteId", Id), has("siteName", Text)],
);

static TOKEN_CANDIDATE: Object = Object::with(
    "TokenCandidate",
    &[&TOKEN_OWNER],
    &[has("tokenId", Id), has("tokenName", Text), has("isDefault", Boolean)],
);

static MISSING_GROUPS: Object = Object::with(
    "MissingGroups",
    &[&TOKEN_OWNER],
    &[
        has("missingGroups", List(&Text)),
        has("requiredGroups", List(&Text)),
        has("availableGroups", List(&Text)),
        may("groupCoverageUncertain", Boolean),
    ],
);

static CHECKED: Object = Object::new(
    "CheckedModels",
    &[
        has("success", Is(true)),
        has("refresh", Of(&MODEL_REFRESH)),
        has("rebuild", OrNull(&Of(&REBUILD_COUNTS))),
    ],
);

pub static MODEL_REFRESH: Object = Object::new(
    "ModelRefresh",
    &[
        has("accountId", Id),
        has("refreshed", Boolean),
        has("status", OneOf(&["success", "failed", "skipped"])),
        has("errorCode", OrNull(&Text)),
        has("errorMessage", Text),
        has("modelCount", Count),
        has("modelsPreview", List(&Text)),
        may("tokenScanned", Count),
        may("discoveredByCredential", Boolean),
        may("discoveredApiToken", Boolean),
        may("reason", Text).about("Why the account was skipped"),
        may("postProbeResult", Of(&POST_PROBE)),
    ],
);

pub static COVERAGE_REFRESH: Object = Object::new(
    "CoverageRefresh",
    &[has("refresh", List(&Of(&MODEL_REFRESH))), has("rebuild", OrNull(&Of(&COVERAGE_REBUILD)))],
);

static COVERAGE_REBUILD: Object = Object::new(
    "CoverageRebuild",
    &[has("success", Boolean), may("result", Of(&REBUILD_COUNTS)), may("error", Text)],
);

pub static REBUILD_COUNTS: Object = Object::new(
    "RebuildCounts",
    &[
        has("models", Count),
        has("createdRoutes", Count),
        has("createdChannels", Count),
        has("removedChannels", Count),
        has("removedRoutes", Count),
    ],
);

static PROBED: Object = Object::new(
    "ProbedModels",
    &[
        has("success", Is(true)),
        has("reused", Boolean),
        has("jobId", Text),
        has("status", Text),
        has("results", List(&Of(&PROBED_ACCOUNT))),
        has("summary", Of(&PROBE_SUMMARY)),
    ],
);

static PROBE_FAILED: Object = Object::new(
    "ProbeFailed",
    &[
        has("success", Is(false)),
        has("message", Text),
        has("error", Text),
        may("reused", Boolean),
        may("jobId", Text),
        may("status", Text),
        may("statusCode", Integer),
    ],
);

static PROBED_ACCOUNT: Object = Object::new(
    "ProbedAccount",
    &[
        has("accountId", Id),
        has("siteId", Id),
        has("status", Text),
        has("scanned", Count),
        has("supported", Count),
        has("unsupported", Count),
        has("inconclusive", Count),
        has("skipped", Count),
        has("updatedRows", Count),
        has("message", Text),
    ],
);

static PROBE_SUMMARY: Object = Object::new(
    "ProbeSummary",
    &[
        has("totalAccounts", Count),
        has("success", Count),
        has("failed", Count),
        has("skipped", Count),
        has("scanned", Count),
        has("supported", Count),
        has("unsupported", Count),
        has("inconclusive", Count),
        has("skippedModels", Count),
        has("updatedRows", Count),
        has("rebuiltRoutes", Boolean),
    ],
);
