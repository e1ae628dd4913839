//! Requests and responses of the account routes.

use crate::admin::batch::{self, BATCH_RESULT};
use crate::admin::errors::{ADMIN_ERROR, FAILURE};
use crate::admin::schema::Answer::Json;
use crate::admin::schema::Shape::{self, *};
use crate::admin::schema::{DONE, Object, Operation, has, may, op};
use crate::admin::sites::schema::{MODELS, SITE};
use crate::admin::tasks::schema::QUEUED;

pub static OPERATIONS: &[Operation] = &[
    op("GET /api/accounts", "Accounts and their sites").gives(Of(&ACCOUNTS)),
    op("POST /api/accounts", "Add a verified account")
        .takes(&CREATE)
        .gives(Either(&[Of(&CREATED_ACCOUNT), Of(&CREATED_ACCOUNTS)]))
        .also(&[("400", Json(Either(&[Of(&ADMIN_ERROR), Of(&CREATED_ACCOUNTS)])))])
        .refuses(&[502]),
    op("GET /api/accounts/cooling", "Accounts whose channels cool down or are limited by their provider")
        .gives(List(&Of(&COOLING_ACCOUNT))),
    op("POST /api/accounts/verify-token", "Check a credential with its site, without saving it")
        .takes(&VERIFY)
        .gives(Either(&[Of(&VERIFIED), Of(&REFUSED)])),
    op("POST /api/accounts/login", "Add an account by name and password, kept sealed to log in again")
        .takes(&LOGIN)
        .gives(Either(&[Of(&LOGGED_IN), Of(&REFUSED)])),
    op("POST /api/accounts/batch", "Enable, disable, delete or refresh several accounts")
        .takes(&BATCH)
        .gives(Of(&BATCH_RESULT)),
    op("POST /api/accounts/health/refresh", "Check the health of one account or of all")
        .takes(&CHECK)
        .gives(Of(&CHECKED))
        .also(&[("202", Json(Of(&QUEUED)))])
        .refuses(&[404]),
    op("PUT /api/accounts/{id}", "Change an account").takes(&UPDATE).gives(Of(&ACCOUNT)).refuses(&[409]),
    op("DELETE /api/accounts/{id}", "Delete an account with everything under it").gives(Of(&DONE)),
    op("POST /api/accounts/{id}/rebind-session", "Give an account a new session")
        .takes(&REBIND)
        .gives(Of(&REBOUND))
        .refuses(&[502]),
    op("POST /api/accounts/{id}/balance", "Read an account's balance from its site")
        .gives(Of(&REFRESHED_BALANCE))
        .refuses(&[502]),
    op("POST /api/accounts/{id}/clear-cooldown", "End the cooldowns and limits of an account's channels")
        .gives(Of(&CLEARED)),
    op("GET /api/accounts/{id}/models", "Models of an account").gives(Of(&ACCOUNT_MODELS)),
    op("POST /api/accounts/{id}/models/manual", "Add models to an account by hand")
        .takes(&MODELS)
        .gives(Of(&DONE)),
];

/// The members that all requests about a credential have in common.
static CREDENTIAL: Object = Object::new(
    "CredentialFields",
    &[
        has("siteId", Id),
        may("credentialMode", OneOf(&["auto", "session", "apikey"])),
        may("platformUserId", Id).about("The user id at the site; some sites need it with a session"),
    ],
);

/// The tokens that renew a session.
static ROTATION: Object =
    Object::new("SessionRotation", &[may("refreshToken", OrNull(&Text)), may("tokenExpiresAt", MOMENT)]);

/// A time as a number of seconds or milliseconds, or as text.
const MOMENT: Shape = Either(&[Number, OrNull(&Text)]);

pub static VERIFY: Object = Object::with("AccountVerify", &[&CREDENTIAL], &[has("accessToken", Text)]);

pub static CREATE: Object = Object::with(
    "AccountCreate",
    &[&CREDENTIAL, &ROTATION],
    &[
        may("accessToken", Text)
            .about("A session or a key; several keys are separated by blanks, commas or semicolons"),
        may("accessTokens", OrNull(&List(&Text))).about("Several keys, at most 200"),
        may("username", OrNull(&Text)),
        may("apiToken", OrNull(&Text)),
        may("skipModelFetch", Boolean).about("Store the account without verifying it"),
        may("checkinEnabled", Boolean),
    ],
);

pub static LOGIN: Object =
    Object::new("AccountLogin", &[has("siteId", Id), has("username", Text), has("password", Text)]);

pub static REBIND: Object =
    Object::with("SessionRebind", &[&ROTATION], &[has("accessToken", Text), may("platformUserId", Id)]);

pub static UPDATE: Object = Object::new(
    "AccountUpdate",
    &[
        may("username", Text),
        may("accessToken", Text),
        may("apiToken", OrNull(&Text)),
        may("status", OneOf(&["active", "disabled", "expired", "unhealthy"])),
        may("checkinEnabled", Boolean),
        may("unitCost", OrNull(&Number)),
        may("extraConfig", Either(&[Map(&Any), OrNull(&Text)])).about("An object, or its JSON as text"),
        may("refreshToken", OrNull(&Text)),
        may("tokenExpiresAt", MOMENT),
        may("isPinned", Boolean),
        may("sortOrder", Count),
        may("proxyUrl", OrNull(&Text)),
    ],
);

pub static BATCH: Object = Object::with(
    "AccountBatch",
    &[&batch::IDS],
    &[has("action", OneOf(&["enable", "disable", "delete", "refreshBalance"]))],
);

pub static CHECK: Object = Object::new(
    "AccountCheck",
    &[
        may("accountId", Id).about("Default: all accounts"),
        may("wait", Boolean).about("Answer with the results instead of a task"),
    ],
);

static ACCOUNTS: Object = Object::new(
    "AccountList",
    &[has("generatedAt", Time), has("accounts", List(&Of(&LISTED_ACCOUNT))), has("sites", List(&Of(&SITE)))],
);

pub static ACCOUNT: Object = Object::new(
    "Account",
    &[
        has("id", Id),
        has("siteId", Id),
        has("username", OrNull(&Text)),
        has("accessToken", Text),
        has("apiToken", OrNull(&Text)),
        has("balance", Number),
        has("balanceUsed", Number),
        has("quota", Number),
        has("platformUserId", OrNull(&Integer)).about("The user id at the site"),
        has("valueScore", Number),
        has("unitCost", OrNull(&Number)),
        has("status", Text),
        has("isPinned", Boolean),
        has("sortOrder", Integer),
        has("checkinEnabled", Boolean),
        has("lastCheckinAt", OrNull(&Time)),
        has("lastBalanceRefresh", OrNull(&Time)),
        has("oauthProvider", OrNull(&Text)),
        has("oauthAccountKey", OrNull(&Text)),
        has("oauthProjectId", OrNull(&Text)),
        has("extraConfig", OrNull(&Text)),
        has("createdAt", Time),
        has("updatedAt", Time),
    ],
);

static ACCOUNT_CAPABILITIES: Object = Object::new(
    "AccountCapabilities",
    &[has("canCheckin", Boolean), has("canRefreshBalance", Boolean), has("proxyOnly", Boolean)],
);

static LISTED_ACCOUNT: Object = Object::with(
    "ListedAccount",
    &[&ACCOUNT],
    &[
        has("site", OrNull(&Of(&SITE))),
        has("credentialMode", Text),
        has("capabilities", Of(&ACCOUNT_CAPABILITIES)),
        has("todaySpend", Number),
        has("todayReward", Number),
        has("runtimeHealth", Of(&ACCOUNT_HEALTH)),
        has("limitWindows", List(&Of(&LIMIT_WINDOW))),
    ],
);

static LIMIT_WINDOW: Object = Object::new(
    "LimitWindow",
    &[
        has("name", Text),
        has("usedPercent", Number),
        may("limit", Number),
        may("remaining", Number),
        may("resetAt", Time),
        has("source", OneOf(&["headers", "quota"])),
        has("observedAt", Time),
    ],
);

static ACCOUNT_HEALTH: Object = Object::new(
    "AccountHealth",
    &[
        has("state", OneOf(&["healthy", "unhealthy", "degraded", "unknown", "disabled"])),
        has("reason", Text),
        has("source", Text),
        has("checkedAt", OrNull(&Time)),
    ],
);

static CREATED_ACCOUNT: Object = Object::with(
    "CreatedAccount",
    &[&ACCOUNT],
    &[
        has("success", Boolean),
        has("tokenType", Text),
        has("credentialMode", Text),
        has("capabilities", Of(&ACCOUNT_CAPABILITIES)),
        has("modelCount", Count),
        has("apiTokenFound", Boolean),
        has("usernameDetected", Boolean),
        has("queued", Boolean),
        may("jobId", Text),
        may("message", Text),
    ],
);

static CREATED_ACCOUNTS: Object = Object::new(
    "CreatedAccounts",
    &[
        has("success", Boolean),
        has("batch", Boolean),
        has("totalCount", Count),
        has("createdCount", Count),
        has("failedCount", Count),
        has("message", Text),
        may("error", Text),
        has("items", List(&Of(&BATCH_ITEM))),
    ],
);

static BATCH_ITEM: Object = Object::new(
    "CreatedAccountsItem",
    &[
        has("status", OneOf(&["created", "failed"])),
        has("index", Count),
        may("id", Id),
        may("username", OrNull(&Text)),
        may("modelCount", Count),
        may("queued", Boolean),
        may("jobId", Text),
        may("message", OrNull(&Text)),
        may("requiresVerification", Boolean),
    ],
);

static VERIFIED: Object = Object::new(
    "VerifiedCredential",
    &[
        has("success", Is(true)),
        has("tokenType", OneOf(&["session", "apikey"])),
        may("modelCount", Count),
        may("models", List(&Text)),
        may("userInfo", Of(&USER_INFO)),
        may("apiToken", OrNull(&Text)),
        may("balance", Number),
        may("balanceInfo", Of(&BALANCE_INFO)),
    ],
);

static BALANCE_INFO: Object =
    Object::new("BalanceInfo", &[has("balance", Number), has("used", Number), has("quota", Number)]);

/// A credential that a site rejects, with flags that say what would help.
static REFUSED: Object = Object::with(
    "CredentialRefusal",
    &[&FAILURE],
    &[may("shieldBlocked", Boolean), may("needsUserId", Boolean), may("invalidUserId", Boolean)],
);

static USER_INFO: Object = Object::new(
    "UserInfo",
    &[
        has("username", Text),
        may("displayName", Text),
        may("email", Text),
        may("role", Either(&[Integer, Text])),
    ],
);

static LOGGED_IN: Object = Object::new(
    "LoggedIn",
    &[
        has("success", Is(true)),
        has("account", Of(&ACCOUNT)),
        has("apiTokenFound", Boolean),
        has("tokenCount", Count),
        has("reusedAccount", Boolean),
    ],
);

static REBOUND: Object = Object::new(
    "ReboundSession",
    &[
        has("success", Is(true)),
        has("tokenType", Text),
        has("credentialMode", Text),
        has("apiTokenFound", Boolean),
        has("account", Of(&ACCOUNT)),
        has("capabilities", Of(&ACCOUNT_CAPABILITIES)),
    ],
);

static CHECKED: Object = Object::new(
    "CheckedAccounts",
    &[
        has("success", Is(true)),
        has("summary", Of(&HEALTH_SUMMARY)),
        has("results", List(&Of(&CHECKED_ACCOUNT))),
    ],
);

static HEALTH_SUMMARY: Object = Object::new(
    "HealthSummary",
    &[
        has("total", Count),
        has("healthy", Count),
        has("unhealthy", Count),
        has("degraded", Count),
        has("disabled", Count),
        has("unknown", Count),
        has("success", Count),
        has("failed", Count),
        has("skipped", Count),
    ],
);

static CHECKED_ACCOUNT: Object = Object::new(
    "CheckedAccount",
    &[
        has("accountId", Id),
        has("username", OrNull(&Text)),
        has("siteName", Text),
        has("status", Text),
        has("state", OneOf(&["healthy", "unhealthy", "degraded", "unknown", "disabled"])),
        has("message", Text),
    ],
);

static REFRESHED_BALANCE: Object = Object::new(
    "RefreshedBalance",
    &[
        has("balance", Number),
        has("used", Number),
        has("quota", Number),
        may("todayIncome", Number),
        may("todayQuotaConsumption", Number),
        may("subscriptionSummary", Any),
        may("skipped", Boolean),
        may("reason", Text),
    ],
);

static COOLING_ACCOUNT: Object = Object::new(
    "CoolingAccount",
    &[
        has("accountId", Id),
        has("username", OrNull(&Text)),
        has("siteId", Id),
        has("siteName", Text),
        has("modelCount", Count).about("The number of models of these channels"),
        has("models", List(&Text)).about("The first five, by their names at the upstream"),
        has("until", Time).about("When the last of the channels may be used again"),
    ],
);

pub static CLEARED: Object =
    Object::new("ClearedCooldowns", &[has("success", Is(true)), has("clearedChannels", Count)]);

static ACCOUNT_MODELS: Object = Object::new(
    "AccountModels",
    &[
        has("siteId", Id),
        has("siteName", Text),
        has("totalCount", Count),
        has("disabledCount", Count),
        has("models", List(&Of(&ACCOUNT_MODEL))),
    ],
);

static ACCOUNT_MODEL: Object = Object::new(
    "AccountModel",
    &[
        has("name", Text),
        has("latencyMs", OrNull(&Integer)),
        has("disabled", Boolean),
        has("isManual", Boolean),
    ],
);
