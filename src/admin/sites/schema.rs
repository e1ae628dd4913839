//! Requests and responses of the site routes.

use crate::admin::batch::{self, BATCH_RESULT};
use crate::admin::errors::FAILURE;
use crate::admin::schema::Shape::{self, *};
use crate::admin::schema::{DONE, Object, Operation, has, may, op};

pub static OPERATIONS: &[Operation] = &[
    op("GET /api/sites", "Sites with their balances").gives(List(&Of(&LISTED_SITE))),
    op("POST /api/sites", "Add a site")
        .takes(&CREATE)
        .gives(Either(&[Of(&SITE), Of(&FAILURE)]))
        .refuses(&[409]),
    op("GET /api/sites/presets", "Presets: known vendors and their addresses").gives(Of(&PRESETS)),
    op("POST /api/sites/detect", "Detect the platform of an address")
        .takes(&DETECT)
        .gives(Either(&[Of(&DETECTED), Of(&FAILURE)])),
    op("POST /api/sites/batch", "Enable, disable, delete or proxy several sites")
        .takes(&BATCH)
        .gives(Of(&BATCH_RESULT)),
    op("PUT /api/sites/{id}", "Change a site").takes(&UPDATE).gives(Of(&SITE)).refuses(&[409]),
    op("DELETE /api/sites/{id}", "Delete a site with everything under it").gives(Of(&DONE)),
    op("GET /api/sites/{id}/disabled-models", "Models switched off at a site").gives(Of(&SITE_MODELS)),
    op("PUT /api/sites/{id}/disabled-models", "Replace the models switched off at a site")
        .takes(&MODELS)
        .gives(Of(&SITE_MODELS)),
    op("GET /api/sites/{id}/available-models", "Models that a site's accounts offer").gives(Of(&SITE_MODELS)),
    op("POST /api/sites/{id}/probe-now", "Probe models of a site, and switch off those it does not serve")
        .takes(&PROBE)
        .gives(Of(&PROBED))
        .refuses(&[422]),
    op(
        "GET /api/sites/{id}/probe-stream",
        "Probe models of a site as probe-now does, with each result as a server-sent event",
    )
    .asks(PROBE.members)
    .streams(),
];

pub static MODELS: Object = Object::new("ModelNames", &[has("models", List(&Text))]);

/// The fields that a request may send to create or change a site.
static FIELDS: Object = Object::new(
    "SiteFields",
    &[
        may("name", Text),
        may("url", Text).about("http or https address; a path that the platform appends itself is cut off"),
        may("platform", Text).about("If absent, it is detected from the address"),
        may("status", OneOf(&["active", "disabled"])),
        may("useSystemProxy", SWITCH),
        may("isPinned", SWITCH),
        may("sortOrder", Either(&[Number, Text])),
        may("globalWeight", Either(&[Number, Text])).about("From 0.01 to 100; default: 1"),
        may("proxyUrl", OrNull(&Text)),
        may("externalCheckinUrl", OrNull(&Text)),
        may("customHeaders", Either(&[Map(&Text), OrNull(&Text)])).about("An object, or its JSON as text"),
        may("maxConcurrency", Either(&[Integer, OrNull(&Text)]))
            .about("From 0 to 10000; 0, null or blank: no limit"),
        may("apiEndpoints", OrNull(&List(&Of(&NEW_ENDPOINT)))).about("At most 100"),
    ],
);

/// A boolean, also as a number or as text.
const SWITCH: Shape = Either(&[Boolean, Number, Text]);

pub static CREATE: Object =
    Object::with("SiteCreate", &[&FIELDS], &[may("initializationPresetId", OrNull(&Text))]);

pub static UPDATE: Object = Object::with(
    "SiteUpdate",
    &[&FIELDS],
    &[
        may("postRefreshProbeEnabled", SWITCH),
        may("postRefreshProbeModel", Text),
        may("postRefreshProbeScope", OneOf(&["single", "all"])),
        may("postRefreshProbeLatencyThresholdMs", Count),
    ],
);

static NEW_ENDPOINT: Object =
    Object::new("SiteEndpointFields", &[has("url", Text), may("enabled", Boolean), may("sortOrder", Count)]);

pub static DETECT: Object = Object::new("SiteDetect", &[has("url", Text), may("platform", Text)]);

pub static BATCH: Object = Object::with(
    "SiteBatch",
    &[&batch::IDS],
    &[has("action", OneOf(&["enable", "disable", "delete", "enableSystemProxy", "disableSystemProxy"]))],
);

pub static PROBE: Object = Object::new(
    "SiteProbe",
    &[may("scope", OneOf(&["single", "all"])), may("modelName", Text), may("latencyThresholdMs", Count)],
);

pub static SITE: Object = Object::new(
    "Site",
    &[
        has("id", Id),
        has("name", Text),
        has("url", Text),
        has("platform", Text),
        has("status", Text),
        has("proxyUrl", OrNull(&Text)),
        has("useSystemProxy", Boolean),
        has("customHeaders", OrNull(&Text)),
        has("externalCheckinUrl", OrNull(&Text)),
        has("isPinned", Boolean),
        has("sortOrder", Integer),
        has("globalWeight", Number),
        has("maxConcurrency", OrNull(&Integer)),
        has("initializationPresetId", OrNull(&Text)),
        has("postRefreshProbeEnabled", Boolean),
        has("postRefreshProbeModel", Text),
        has("postRefreshProbeScope", Text),
        has("postRefreshProbeLatencyThresholdMs", Integer),
        has("apiEndpoints", List(&Of(&SITE_ENDPOINT))),
        has("createdAt", Time),
        has("updatedAt", Time),
    ],
);

static SITE_ENDPOINT: Object = Object::new(
    "SiteEndpoint",
    &[
        has("id", Id),
        has("siteId", Id),
        has("url", Text),
        has("enabled", Boolean),
        has("sortOrder", Integer),
        has("cooldownUntil", OrNull(&Time)),
        has("lastSelectedAt", OrNull(&Time)),
        has("lastFailedAt", OrNull(&Time)),
        has("lastFailureReason", OrNull(&Text)),
        has("createdAt", Time),
        has("updatedAt", Time),
    ],
);

static LISTED_SITE: Object = Object::with(
    "ListedSite",
    &[&SITE],
    &[has("totalBalance", Number), has("subscriptionSummary", OrNull(&Of(&SUBSCRIPTIONS)))],
);

static SUBSCRIPTIONS: Object = Object::new(
    "SubscriptionSummary",
    &[
        has("activeCount", Integer),
        has("totalUsedUsd", Number),
        has("totalMonthlyLimitUsd", OrNull(&Number)),
        has("totalRemainingUsd", OrNull(&Number)),
        has("nextExpiresAt", OrNull(&Time)),
        has("planNames", List(&Text)),
        has("updatedAt", OrNull(&Integer)),
    ],
);

static PRESETS: Object = Object::new("SitePresets", &[has("presets", List(&Of(&PRESET)))]);

static PRESET: Object = Object::new(
    "SitePreset",
    &[
        has("id", Text),
        has("label", Text),
        has("providerLabel", Text),
        has("description", Text),
        has("platform", Text),
        has("defaultUrl", Text),
        has("initialSegment", Text),
        has("recommendedSkipModelFetch", Boolean),
        has("recommendedModels", List(&Text)),
        has("docsUrl", OrNull(&Text)),
    ],
);

static DETECTED: Object = Object::new(
    "DetectedSite",
    &[has("url", Text), has("platform", Text), may("initializationPresetId", Text)],
);

static SITE_MODELS: Object = Object::new("SiteModels", &[has("siteId", Id), has("models", List(&Text))]);

static PROBED: Object = Object::with("ProbedSite", &[&DONE, &POST_PROBE], &[]);

pub static POST_PROBE: Object = Object::new(
    "PostProbe",
    &[
        has("scope", Text),
        has("probed", Count),
        has("unsupported", Count),
        has("details", List(&Of(&PROBED_MODEL))),
    ],
);

static PROBED_MODEL: Object = Object::new(
    "ProbedModel",
    &[
        has("modelName", Text),
        has("status", OneOf(&["supported", "unsupported", "inconclusive"])),
        has("latencyMs", OrNull(&Integer)),
        may("reason", Text),
    ],
);
