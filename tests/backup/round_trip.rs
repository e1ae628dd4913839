//! Every column of a backup survives an export and an import.

use serde_json::{Value, json};

use super::{export, import, lasting, rows};
use crate::support::{Database, Gateway, Home, Literal, Setup};

/// The beginnings of the databases' names for integer and boolean types.
const WHOLE: [&str; 4] = ["INT", "BIGINT", "TINYINT", "BOOL"];

/// Generates a value for a column, as text that every type can parse.
fn value_of(table: &str, column: &str, kind: &str, row: i64) -> Option<String> {
    let text = |text: &str| Some(text.to_owned());
    let number = |number: i64| Some(number.to_string());
    match (table, column) {
        (_, "id") => number(row + 10),
        (_, "site_id") => number(11 + row % 2),
        (_, "account_id") => number(10 + row),
        (_, "unit_id" | "oauth_route_unit_id") => number(10 + row),
        (_, "route_id" | "source_route_id") => number(10 + row),
        (_, "group_route_id") => number(13),
        (_, "token_id") => number(10 + row),
        ("sites", "status") => text(["active", "disabled"][row as usize % 2]),
        ("sites", "platform") => text("new-api"),
        ("sites", "url") => Some(format!("https://site-{row}.example")),
        ("sites", "external_checkin_url") => text("https://checkin.example/"),
        ("sites", "custom_headers") => text("{\"x-secret\":\"h\"}"),
        ("sites", "max_concurrency") => number(row + 1),
        ("sites", "proxy_url") => text("http://user:secret@127.0.0.1:9"),
        ("sites", "post_refresh_probe_scope") => text("all"),
        ("site_api_endpoints", "url") => Some(format!("https://pool-{row}.example")),
        ("accounts", "status") => text(["active", "disabled", "expired", "unhealthy"][row as usize % 4]),
        ("accounts", "former_status") => text("active"),
        ("accounts", "credential_mode") => text("session"),
        ("accounts", "extra") => text("{\"note\":\"ä\",\"oauth\":{\"email\":\"e@example.com\"}}"),
        ("accounts", "proxy_url") => text("socks5://127.0.0.1:9"),
        ("accounts", "provider_data") => text("{\"a\":1}"),
        ("accounts", "health_state") => text("degraded"),
        ("account_tokens", "token_enc") => Some(format!("sk-of-row-{row}")),
        ("account_tokens", "token_hash") => None,
        ("account_tokens", "value_status") => text("ready"),
        ("account_tokens", "source") => text("sync"),
        ("oauth_route_units", "strategy") => text("stick_until_unavailable"),
        ("token_routes", "route_mode") => text(if row == 3 { "explicit_group" } else { "pattern" }),
        ("token_routes", "model_pattern") => Some(format!("model-{row}")),
        ("token_routes", "routing_strategy") => text("stable_first"),
        ("token_routes", "model_mapping") => text("{\"a\":\"b\"}"),
        ("route_channels", "manual_override") => number(1),
        ("downstream_api_keys", "key_hash") => Some(format!("hash-{row}")),
        ("downstream_api_keys", "key_enc") => Some(format!("sk-of-client-{row}")),
        ("downstream_api_keys", "budgets") => text("[{\"period\":\"day\",\"maxCost\":1.5}]"),
        ("downstream_api_keys", "allowed_ips") => text("[\"10.0.0.0/8\"]"),
        ("downstream_api_keys", "tags") => text("[\"prod\"]"),
        ("downstream_api_keys", "supported_models") => text("[\"model-1\",\"re:^m\"]"),
        ("downstream_api_keys", "allowed_route_ids") => text("[10,11]"),
        ("downstream_api_keys", "site_weight_multipliers") => text("{\"11\":2.5}"),
        ("downstream_api_keys", "excluded_site_ids") => text("[12]"),
        ("downstream_api_keys", "excluded_credential_refs") => {
            text("[{\"kind\":\"account_token\",\"siteId\":11,\"accountId\":10,\"tokenId\":10}]")
        }
        (_, "cooldown_until" | "last_failed_at" | "last_selected_at" | "last_used_at" | "expires_at")
        | (_, "login_updated_at" | "token_expires_at" | "token_issued_at" | "sub2api_token_expires_at")
        | (
            _,
            "health_checked_at" | "last_checkin_at" | "last_balance_refresh" | "created_at" | "updated_at",
        )
        | (_, "checked_at" | "last_fail_at" | "provider_cooldown_until") => number(1_900_000_000_000 + row),
        (_, _) if WHOLE.iter().any(|whole| kind.starts_with(whole)) => number(row % 2),
        (_, _) if kind.starts_with("DOUBLE") => Some((0.5 + row as f64).to_string()),
        _ => Some(format!("{column} {row}")),
    }
}

/// The tables of a backup, each with the columns that it leaves out.
const TABLES: &[(&str, &str, i64, &[&str])] = &[
    ("sites", "sites", 4, &[]),
    ("site_api_endpoints", "siteApiEndpoints", 4, &["rested_at", "cleared_at", "rest_changed_at"]),
    ("site_disabled_models", "siteDisabledModels", 4, &["created_at"]),
    (
        "accounts",
        "accounts",
        4,
        &["balance_used", "last_checkin_at", "last_balance_refresh", "credential_version"],
    ),
    ("account_tokens", "accountTokens", 4, &["token_hash"]),
    ("model_availability", "manualModels", 4, &["available", "is_manual", "latency_ms", "checked_at"]),
    ("oauth_route_units", "oauthRouteUnits", 4, &[]),
    (
        "oauth_route_unit_members",
        "oauthRouteUnitMembers",
        4,
        &[
            "success_count",
            "fail_count",
            "total_latency_ms",
            "total_cost",
            "last_used_at",
            "last_selected_at",
            "last_fail_at",
            "consecutive_fail_count",
            "cooldown_level",
            "cooldown_until",
            "provider_cooldown_until",
            "rested_at",
            "cleared_at",
            "rest_changed_at",
            "cache_input_tokens",
            "cache_read_tokens",
        ],
    ),
    ("token_routes", "tokenRoutes", 4, &[]),
    ("route_group_sources", "routeGroupSources", 2, &[]),
    ("route_channels", "routeChannels", 3, &[]),
    (
        "downstream_api_keys",
        "downstreamApiKeys",
        3,
        &["id", "key_hash", "used_cost", "used_requests", "last_used_at", "created_at", "updated_at"],
    ),
];

/// The columns of an account that are stored in `extraConfig` instead of under their own names.
const IN_EXTRA_CONFIG: &[&str] = &[
    "credential_mode",
    "platform_user_id",
    "proxy_url",
    "use_system_proxy",
    "login_username",
    "login_password",
    "login_updated_at",
    "refresh_token",
    "id_token",
    "provider_data",
    "token_expires_at",
    "token_issued_at",
    "sub2api_refresh_token",
    "sub2api_token_expires_at",
    "health_state",
    "health_reason",
    "health_source",
    "health_checked_at",
    "extra",
];

fn camel(column: &str) -> String {
    match column {
        "token_enc" => return "token".to_owned(),
        "key_enc" => return "key".to_owned(),
        _ => {}
    }
    let mut words = column.split('_');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |name, word| name + &word[..1].to_uppercase() + &word[1..])
}

/// Opens the database of a gateway that uses SQLite even if tests run on a server.
fn file_of(home: &Home) -> Database {
    Database::file(home.data_dir().join("switchyard.db"))
}

/// Creates a database in which every column of a backup has a value.
fn filled(home: &Home) {
    let database = file_of(home);
    let mut script = Vec::new();
    for (table, _, count, _) in TABLES {
        let columns = database.columns(table);
        let names: Vec<&str> = columns.iter().map(|(name, _)| name.as_str()).collect();
        for row in 0..*count {
            let value = |(name, kind): &(String, String)| match (*table, name.as_str()) {
                ("model_availability", "is_manual") => "TRUE".to_owned(),
                _ => value_of(table, name, kind, row).literal(),
            };
            let values: Vec<String> = columns.iter().map(value).collect();
            script.push(format!("INSERT INTO {table} ({}) VALUES ({})", names.join(", "), values.join(", ")));
        }
    }
    for (name, value) in [
        ("notify_cooldown_sec", "77"),
        ("smtp_pass", "\"secret\""),
        ("proxy_error_keywords", "[\"a\"]"),
        (
            "payload_rules",
            "{\"default\":[],\"defaultRaw\":[],\"override\":[],\"overrideRaw\":[],\"filter\":[]}",
        ),
    ] {
        script.push(format!("DELETE FROM settings WHERE name = '{name}'"));
        let value = value.literal();
        script.push(format!("INSERT INTO settings (name, value, updated_at) VALUES ('{name}', {value}, 0)"));
    }
    database.run(&format!("BEGIN; {}; COMMIT", script.join("; ")));
}

/// Compares two documents array by array, so that a difference is readable.
#[track_caller]
fn same(one: &Value, other: &Value) {
    for (_, array, ..) in TABLES {
        for (row, expected) in rows(one, array).iter().zip(rows(other, array)) {
            assert_eq!(row, expected, "{array}");
        }
        assert_eq!(rows(one, array).len(), rows(other, array).len(), "{array}");
    }
    assert_eq!(lasting(one.clone()), lasting(other.clone()));
}

#[test]
fn what_was_imported_is_exported_the_same_whatever_the_columns_say() {
    let home = Home::new();
    let gateway = Setup::default().on_sqlite().start_in(home.clone());
    drop(gateway);
    filled(&home);
    let gateway = Setup::default().on_sqlite().start_in(home.clone());
    let first = export(&gateway);
    for (table, array, count, left_out) in TABLES {
        let rows = rows(&first, array);
        assert_eq!(rows.len() as i64, *count, "{array}");
        for (column, _) in file_of(&home).columns(table) {
            let in_extra = *table == "accounts" && IN_EXTRA_CONFIG.contains(&column.as_str());
            let is_there =
                rows.iter().all(|row| row.get(camel(&column)).is_some_and(|value| !value.is_null()));
            assert!(
                is_there || in_extra || left_out.contains(&column.as_str()),
                "{table}.{column} is neither in a backup nor left out on purpose: add it to the tables of a backup"
            );
        }
    }
    let extra: Value =
        serde_json::from_str(rows(&first, "accounts")[0]["extraConfig"].as_str().expect("a text"))
            .expect("JSON");
    assert_eq!(extra["autoRelogin"]["password"], "login_password 0");
    assert_eq!(extra["oauth"]["providerData"], json!({"a": 1}));
    assert_eq!(extra["sub2apiAuth"]["tokenExpiresAt"], json!(1_900_000_000_000_i64));
    let fresh = Gateway::start();
    import(&fresh, &first);
    same(&export(&fresh), &first);
    // Imported again into the same place, it finds every row.
    let again = import(&fresh, &first);
    assert_eq!((&again["counts"]["created"], &again["counts"]["deleted"]), (&json!(0), &json!(0)), "{again}");
    same(&export(&fresh), &first);
}
