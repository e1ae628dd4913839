//! Requests and responses of the decision routes.

use crate::admin::schema::Answer::Json;
use crate::admin::schema::Shape::*;
use crate::admin::schema::{Object, Operation, has, may, op};
use crate::admin::tasks::schema::QUEUED;

pub static OPERATIONS: &[Operation] = &[
    op("GET /api/routes/decision", "Explain which channel a request for a model would use")
        .asks(&[has("model", Text)])
        .gives(Of(&EXPLAINED)),
    op("POST /api/routes/decision/batch", "Explain which channels requests for several models would use")
        .takes(&MODELS)
        .gives(Of(&BY_NAME)),
    op(
        "POST /api/routes/decision/by-route/batch",
        "Explain which channels requests for models of given routes would use",
    )
    .takes(&BY_ROUTE)
    .gives(Of(&BY_ROUTE_AND_MODEL)),
    op(
        "POST /api/routes/decision/route-wide/batch",
        "Explain which channels requests to whole routes would use",
    )
    .takes(&ROUTES)
    .gives(Of(&BY_NAME)),
    op("POST /api/routes/decision/refresh", "Compute the decisions of all routes again, as a task")
        .also(&[("202", Json(Of(&QUEUED)))]),
];

static SHARED: Object = Object::new(
    "DecisionOptions",
    &[
        may("refreshPricingCatalog", Any).about("true reads the price lists of the accounts concerned first"),
        may("persistSnapshots", Any).about("true stores the decisions, for the lists of routes to show"),
    ],
);

pub static MODELS: Object = Object::with("DecisionsByModel", &[&SHARED], &[has("models", List(&Any))]);

pub static BY_ROUTE: Object = Object::with("DecisionsByRoute", &[&SHARED], &[has("items", List(&Any))]);

pub static ROUTES: Object = Object::with("DecisionsOfRoutes", &[&SHARED], &[has("routeIds", List(&Any))]);

static EXPLAINED: Object =
    Object::new("ExplainedDecision", &[has("success", Is(true)), has("decision", Of(&DECISION))]);

static BY_NAME: Object =
    Object::new("Decisions", &[has("success", Is(true)), has("decisions", Map(&Of(&DECISION)))]);

static BY_ROUTE_AND_MODEL: Object = Object::new(
    "DecisionsByRouteAndModel",
    &[has("success", Is(true)), has("decisions", Map(&Map(&Of(&DECISION))))],
);

pub static DECISION: Object = Object::new(
    "Decision",
    &[
        has("requestedModel", Text),
        has("actualModel", Text),
        has("matched", Boolean),
        may("routeId", Id),
        may("modelPattern", Text),
        may("selectedChannelId", Id),
        may("selectedAccountId", Id),
        may("selectedLabel", Text),
        has("summary", List(&Text)),
        has("candidates", List(&Of(&DECISION_CANDIDATE))),
    ],
);

static DECISION_CANDIDATE: Object = Object::new(
    "DecisionCandidate",
    &[
        has("channelId", Id),
        has("accountId", Id),
        has("username", Text),
        has("siteName", Text),
        has("tokenName", Text),
        has("priority", Integer),
        has("weight", Integer),
        has("eligible", Boolean),
        has("recentlyFailed", Boolean),
        has("avoidedByRecentFailure", Boolean),
        has("avoidedByBreaker", Boolean),
        has("probability", Number),
        has("cooldownUntil", OrNull(&Time)),
        has("limitedUntil", OrNull(&Time)),
        has("reasonCode", Text),
        has("reason", Text),
    ],
);
