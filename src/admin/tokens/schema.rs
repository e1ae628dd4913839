//! Requests and responses of the account token routes.

use crate::admin::batch::{self, BATCH_RESULT};
use crate::admin::models::schema::COVERAGE_REFRESH;
use crate::admin::schema::Answer::Json;
use crate::admin::schema::Shape::*;
use crate::admin::schema::{DONE, Object, Operation, has, may, op};
use crate::admin::tasks::schema::QUEUED;

pub static OPERATIONS: &[Operation] = &[
    op("GET /api/account-tokens", "Keys of session accounts, masked")
        .asks(&[may("accountId", Id)])
        .gives(List(&Of(&LISTED_TOKEN))),
    op("POST /api/account-tokens", "Add a key, or have the site create one")
        .takes(&CREATE)
        .gives(Either(&[Of(&TOKEN_CREATED), Of(&TOKEN_CREATED_AT_SITE)]))
        .refuses(&[404, 409, 502]),
    op("POST /api/account-tokens/batch", "Enable, disable or delete several keys")
        .takes(&BATCH)
        .gives(Of(&BATCH_RESULT)),
    op("POST /api/account-tokens/sync-all", "Fetch the keys of all accounts from their sites")
        .takes(&SYNC_ALL)
        .gives(Of(&SYNCED_ALL_TOKENS))
        .also(&[("202", Json(Of(&QUEUED)))]),
    op("POST /api/account-tokens/sync/{id}", "Fetch the keys of an account from its site")
        .gives(Of(&SYNCED_TOKENS))
        .also(&[("502", Json(Of(&SYNCED_TOKENS)))]),
    op("GET /api/account-tokens/groups/{id}", "Groups that an account's keys may be in")
        .gives(Of(&TOKEN_GROUPS))
        .refuses(&[502]),
    op("GET /api/account-tokens/account/{id}/default", "Default key of an account").gives(Of(&DEFAULT_TOKEN)),
    op("PUT /api/account-tokens/{id}", "Change a key").takes(&UPDATE).gives(Of(&TOKEN_SAVED)).refuses(&[409]),
    op("DELETE /api/account-tokens/{id}", "Delete a key here and at its site")
        .gives(Of(&DONE))
        .refuses(&[502]),
    op("POST /api/account-tokens/{id}/default", "Make a key the default of its account").gives(Of(&DONE)),
    op("GET /api/account-tokens/{id}/value", "A key in full").gives(Of(&TOKEN_VALUE)).refuses(&[409]),
];

pub static CREATE: Object = Object::new(
    "TokenCreate",
    &[
        has("accountId", Id),
        may("name", OrNull(&Text)),
        may("token", OrNull(&Text)).about("The key; if absent, the site creates one"),
        may("enabled", Boolean),
        may("isDefault", Boolean),
        may("source", OneOf(&["manual", "sync", "legacy"])),
        may("group", OrNull(&Text)),
        may("unlimitedQuota", Boolean),
        may("remainQuota", Either(&[Integer, OrNull(&Text)])),
        may("expiredTime", Either(&[Number, OrNull(&Text)])).about("-1: never"),
        may("allowIps", OrNull(&Text)),
        may("modelLimitsEnabled", Boolean),
        may("modelLimits", OrNull(&Text)),
    ],
);

pub static UPDATE: Object = Object::new(
    "TokenUpdate",
    &[
        may("name", OrNull(&Text)),
        may("token", Text),
        may("group", OrNull(&Text)),
        may("enabled", Boolean),
        may("isDefault", Boolean),
        may("source", OneOf(&["manual", "sync", "legacy"])),
    ],
);

pub static BATCH: Object =
    Object::with("TokenBatch", &[&batch::IDS], &[has("action", OneOf(&["enable", "disable", "delete"]))]);

pub static SYNC_ALL: Object =
    Object::new("TokenSyncAll", &[may("wait", Boolean).about("Answer with the results instead of a task")]);

pub static TOKEN: Object = Object::new(
    "Token",
    &[
        has("id", Id),
        has("accountId", Id),
        has("name", Text),
        has("tokenGroup", OrNull(&Text)),
        has("valueStatus", Text),
        has("source", Text),
        has("enabled", Boolean),
        has("isDefault", Boolean),
        has("tokenMasked", Text),
        has("createdAt", Time),
        has("updatedAt", Time),
    ],
);

pub static LISTED_TOKEN: Object = Object::with(
    "ListedToken",
    &[&TOKEN],
    &[has("account", Of(&TOKEN_ACCOUNT)), has("site", Of(&TOKEN_SITE))],
);

static TOKEN_ACCOUNT: Object = Object::new(
    "TokenAccount",
    &[has("id", Id), has("username", OrNull(&Text)), may("status", Text), may("segment", Text)],
);

static TOKEN_SITE: Object =
    Object::new("TokenSite", &[has("id", Id), has("name", Text), has("url", Text), has("platform", Text)]);

static TOKEN_SAVED: Object = Object::new("TokenSaved", &[has("success", Is(true)), has("token", Of(&TOKEN))]);

static TOKEN_CREATED: Object =
    Object::with("TokenCreated", &[&TOKEN_SAVED], &[has("coverageRefresh", Of(&COVERAGE_REFRESH))]);

static TOKEN_CREATED_AT_SITE: Object = Object::with(
    "TokenCreatedAtSite",
    &[&TOKEN_SYNC],
    &[
        has("success", Boolean),
        has("createdViaUpstream", Boolean),
        has("coverageRefresh", Of(&COVERAGE_REFRESH)),
        has("token", OrNull(&Of(&TOKEN))),
    ],
);

static TOKEN_SYNC: Object = Object::new(
    "TokenSync",
    &[
        has("accountId", Id),
        has("accountName", OrNull(&Text)),
        has("accountStatus", Text),
        has("siteId", Id),
        has("siteName", Text),
        has("siteStatus", Text),
        has("status", OneOf(&["synced", "skipped", "failed"])),
        may("reason", Text),
        may("message", Text),
        has("synced", Boolean),
        has("created", Count),
        has("updated", Count),
        may("maskedPending", Count),
        may("pendingTokenIds", List(&Id)),
        has("total", Count),
        has("defaultTokenId", OrNull(&Id)),
    ],
);

static TOKEN_SYNC_SUMMARY: Object = Object::new(
    "TokenSyncSummary",
    &[
        has("total", Count),
        has("synced", Count),
        has("skipped", Count),
        has("failed", Count),
        has("created", Count),
        has("updated", Count),
    ],
);

static SYNCED_TOKENS: Object = Object::with(
    "SyncedTokens",
    &[&TOKEN_SYNC],
    &[has("success", Boolean), has("coverageRefresh", Of(&COVERAGE_REFRESH)), may("error", Text)],
);

static SYNCED_ALL: Object = Object::new(
    "SyncedAll",
    &[
        has("summary", Of(&TOKEN_SYNC_SUMMARY)),
        has("results", List(&Of(&TOKEN_SYNC))),
        has("coverageRefresh", Of(&COVERAGE_REFRESH)),
    ],
);

static SYNCED_ALL_TOKENS: Object =
    Object::with("SyncedAllTokens", &[&SYNCED_ALL], &[has("success", Boolean)]);

static TOKEN_GROUPS: Object =
    Object::new("TokenGroups", &[has("success", Is(true)), has("groups", List(&Text))]);

static DEFAULT_TOKEN: Object =
    Object::new("DefaultToken", &[has("success", Is(true)), has("token", OrNull(&Of(&TOKEN)))]);

static TOKEN_VALUE: Object = Object::new(
    "TokenValue",
    &[
        has("success", Is(true)),
        has("id", Id),
        has("name", Text),
        has("token", Text),
        has("tokenMasked", Text),
    ],
);
