//! Requests and responses of the routes for settings, tests of them and maintenance. The runtime settings are derived
//! from their own table.

use crate::admin::schema::Answer::Json;
use crate::admin::schema::Shape::*;
use crate::admin::schema::{DONE, Members, Object, Operation, Shape, has, may, op};
use crate::admin::tasks::schema::{MESSAGE, QUEUED};
use crate::config::rule::Rule;
use crate::config::runtime::{SETTINGS, Setting};

pub static OPERATIONS: &[Operation] = &[
    op("GET /api/settings/runtime", "The runtime settings in force, with secrets masked").gives(Of(&RUNTIME)),
    op("PUT /api/settings/runtime", "Change runtime settings; an invalid one refuses the whole request")
        .takes(&RUNTIME_CHANGE)
        .gives(Of(&RUNTIME_SAVED)),
    op("GET /api/settings/brand-list", "Brands that can be blocked").gives(Of(&BRANDS)),
    op("POST /api/settings/system-proxy/test", "Test whether requests get out through an outbound proxy")
        .takes(&PROXY_TEST)
        .gives(Of(&PROXY_TESTED))
        .refuses(&[502]),
    op("GET /api/settings/database/runtime", "The database in use, and the one that the next start will use")
        .gives(Of(&DATABASES)),
    op("PUT /api/settings/database/runtime", "Save which database the next start uses")
        .takes(&DATABASE_CHOICE)
        .gives(Of(&DATABASES_SAVED)),
    op("POST /api/settings/database/test-connection", "Test whether a database answers")
        .takes(&DATABASE_CHOICE)
        .gives(Of(&DATABASE_TRIED)),
    op("POST /api/settings/database/migrate", "Copy everything into another database")
        .takes(&DATABASE_CHOICE)
        .gives(Of(&DATABASE_FILLED)),
    op("POST /api/settings/notify/test", "Send a test message through every notification channel")
        .gives(Of(&NOTIFIED)),
    op("POST /api/settings/maintenance/clear-usage", "Delete the log, all sums, counters and cooldowns")
        .gives(Of(&USAGE_CLEARED)),
    op(
        "POST /api/settings/maintenance/clear-cache",
        "Delete discovered models and automatic routes, then discover and build them again",
    )
    .also(&[("202", Json(Of(&CACHE_CLEARED)))]),
    op(
        "POST /api/settings/maintenance/rotate-seal-key",
        "Seal all stored credentials with a new key, as a task",
    )
    .also(&[("202", Json(Of(&QUEUED)))])
    .refuses(&[409]),
    op(
        "POST /api/settings/maintenance/replace-index-key",
        "Compute the look-up hashes of all keys again with a new index key, as a task",
    )
    .also(&[("202", Json(Of(&QUEUED)))])
    .refuses(&[409]),
    op("POST /api/settings/maintenance/factory-reset", "Forget everything").takes(&RESET).gives(Of(&DONE)),
];

pub static RUNTIME_CHANGE: Object = Object::listed("RuntimeSettingsChange", accepted_settings);

static SHOWN: Object = Object::listed("ShownSettings", returned_settings);

const DIALECT: Shape = OneOf(&["sqlite", "mysql", "postgres"]);

pub static DATABASE_CHOICE: Object = Object::new(
    "DatabaseChoice",
    &[has("dialect", DIALECT), has("connectionString", Text), may("ssl", Boolean), may("overwrite", Boolean)],
);

static DATABASE: Object =
    Object::new("Database", &[has("dialect", DIALECT), has("connection", Text), has("ssl", Boolean)]);

static DATABASES: Object = Object::new(
    "Databases",
    &[
        has("success", Is(true)),
        has("active", Of(&DATABASE)),
        has("saved", OrNull(&Of(&DATABASE))),
        has("restartRequired", Boolean),
        has("dialects", List(&DIALECT)).about("The kinds of database that this build can use, servers first"),
    ],
);

static DATABASES_SAVED: Object = Object::with("DatabasesSaved", &[&DATABASES], &[has("message", Text)]);

static DATABASE_TRIED: Object = Object::new(
    "DatabaseTried",
    &[has("success", Is(true)), has("message", Text), has("dialect", DIALECT), has("connection", Text)],
);

static DATABASE_FILLED: Object = Object::with(
    "DatabaseFilled",
    &[&DATABASE_TRIED],
    &[has("overwrite", Boolean), has("version", Text), has("timestamp", Integer), has("rows", Map(&Count))],
);

static RUNTIME: Object = Object::with(
    "RuntimeSettings",
    &[&SHOWN],
    &[
        has("currentAdminIp", Text),
        has("serverTimeZone", Text),
        has("credentialSecretWeak", Boolean),
        has("usingDefaultAdminToken", Boolean),
        has("usingDefaultProxyToken", Boolean),
    ],
);

static RUNTIME_SAVED: Object = Object::with("RuntimeSettingsSaved", &[&MESSAGE, &RUNTIME], &[]);

/// Returns the settings that may be sent: all those in the table, under each of their names.
fn accepted_settings() -> Members {
    let names = |setting: &'static Setting| {
        let names = std::iter::once(setting.field).chain(setting.alias);
        names.map(|name| (name.to_owned(), may(name, input_shape(setting.rule))))
    };
    SETTINGS.iter().flat_map(names).collect()
}

fn returned_settings() -> Members {
    let shown = |setting: &'static Setting| match setting.rule {
        Rule::Secret | Rule::ProxyToken => (format!("{}Masked", setting.field), has(setting.field, Text)),
        rule => (setting.field.to_owned(), has(setting.field, output_shape(rule))),
    };
    SETTINGS.iter().map(shown).collect()
}

/// Returns the type that a rule accepts. Numbers may come as text.
fn input_shape(rule: Rule) -> Shape {
    match rule {
        Rule::Integer(..) | Rule::CooldownCap | Rule::UnitCost | Rule::Amount => Either(&[Number, Text]),
        Rule::Words | Rule::Networks => Either(&[List(&Text), Text]),
        Rule::Choice(choices) => OneOf(choices),
        Rule::CodexHeaders => Of(&CODEX_HEADERS_CHANGE),
        // Entries that are not numbers are dropped.
        Rule::Weights => Map(&Any),
        rule => output_shape(rule),
    }
}

/// Returns the type of a value that a rule has read.
fn output_shape(rule: Rule) -> Shape {
    match rule {
        Rule::Flag => Boolean,
        Rule::Integer(..) => Integer,
        Rule::CooldownCap | Rule::UnitCost | Rule::Amount => Number,
        Rule::Words | Rule::List | Rule::Networks => List(&Text),
        Rule::Weights => Map(&Number),
        Rule::CodexHeaders => Of(&CODEX_HEADERS),
        Rule::PayloadRules => Any,
        Rule::Text
        | Rule::Secret
        | Rule::Schedule
        | Rule::ScheduleOrOff
        | Rule::Choice(_)
        | Rule::Proxy
        | Rule::ProxyToken
        | Rule::Target
        | Rule::BotApi
        | Rule::Topic => Text,
    }
}

static CODEX_HEADERS: Object =
    Object::new("CodexHeaderDefaults", &[has("userAgent", Text), has("betaFeatures", Text)]);

static CODEX_HEADERS_CHANGE: Object = Object::new(
    "CodexHeaderDefaultsChange",
    &[
        may("userAgent", Text).about("Sent instead of the client's; blank passes the client's on"),
        may("betaFeatures", Text).about("Sent on WebSockets if the client names none"),
    ],
);

static BRANDS: Object = Object::new("Brands", &[has("brands", List(&Text))]);

pub static PROXY_TEST: Object =
    Object::new("ProxyTest", &[may("proxyUrl", Text).about("Default: the saved proxy")]);

static PROXY_TESTED: Object = Object::new(
    "TestedProxy",
    &[
        has("success", Is(true)),
        has("proxyUrl", Text),
        has("reachable", Boolean),
        has("ok", Boolean),
        has("statusCode", Integer),
        has("latencyMs", Number),
        has("probeUrl", Text),
        has("finalUrl", Text),
    ],
);

static NOTIFIED: Object = Object::with(
    "TestNotification",
    &[&MESSAGE],
    &[
        has("attempted", Count),
        has("succeeded", Count),
        has("failed", Count),
        has("failedChannels", List(&Text)),
        has("channels", List(&Of(&CHANNEL_TESTED))),
    ],
);

static CHANNEL_TESTED: Object = Object::new(
    "TestedNotificationChannel",
    &[has("channel", Text), has("success", Boolean), may("message", Text)],
);

static USAGE_CLEARED: Object = Object::with("ClearedUsage", &[&MESSAGE], &[has("deletedProxyLogs", Count)]);

static CACHE_CLEARED: Object = Object::with(
    "ClearedCache",
    &[&QUEUED],
    &[
        has("deletedModelAvailability", Count),
        has("deletedRouteChannels", Count),
        has("deletedTokenRoutes", Count),
    ],
);

pub static RESET: Object = Object::new("FactoryReset", &[may("confirm", Text).about("The word RESET")]);
