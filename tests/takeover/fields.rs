//! Every column of metapi's database that has a counterpart here, compared with the export after the take-over.

use rusqlite::types::ValueRef;
use serde_json::{Map, Value, json};

use super::{Move, find, list};
use crate::support::run;

/// The tables as that program's migrations create them, without the columns of its run-time history.
const SCHEMA: &str = "
CREATE TABLE sites (id integer PRIMARY KEY AUTOINCREMENT NOT NULL, name text NOT NULL, url text NOT NULL, external_checkin_url text,
  platform text NOT NULL, proxy_url text, use_system_proxy integer DEFAULT false, custom_headers text,
  status text DEFAULT 'active' NOT NULL, is_pinned integer DEFAULT false, sort_order integer DEFAULT 0, global_weight real DEFAULT 1,
  api_key text, created_at text DEFAULT (datetime('now')), updated_at text DEFAULT (datetime('now')));
CREATE UNIQUE INDEX sites_platform_url_unique ON sites (platform, url);
CREATE TABLE site_api_endpoints (id integer PRIMARY KEY AUTOINCREMENT NOT NULL, site_id integer NOT NULL REFERENCES sites(id), url text NOT NULL,
  enabled integer DEFAULT true, sort_order integer DEFAULT 0, created_at text, updated_at text);
CREATE TABLE site_disabled_models (id integer PRIMARY KEY AUTOINCREMENT NOT NULL, site_id integer NOT NULL, model_name text NOT NULL, created_at text);
CREATE TABLE accounts (id integer PRIMARY KEY AUTOINCREMENT NOT NULL, site_id integer NOT NULL REFERENCES sites(id), username text,
  access_token text NOT NULL, api_token text, balance real DEFAULT 0, balance_used real DEFAULT 0, quota real DEFAULT 0, unit_cost real,
  value_score real DEFAULT 0, status text DEFAULT 'active', is_pinned integer DEFAULT false, sort_order integer DEFAULT 0,
  checkin_enabled integer DEFAULT true, last_checkin_at text, last_balance_refresh text, oauth_provider text, oauth_account_key text,
  oauth_project_id text, extra_config text, created_at text, updated_at text);
CREATE TABLE account_tokens (id integer PRIMARY KEY AUTOINCREMENT NOT NULL, account_id integer NOT NULL REFERENCES accounts(id), name text NOT NULL,
  token text NOT NULL, token_group text, value_status text DEFAULT 'ready' NOT NULL, source text DEFAULT 'manual',
  enabled integer DEFAULT true, is_default integer DEFAULT false, created_at text, updated_at text);
CREATE TABLE model_availability (id integer PRIMARY KEY AUTOINCREMENT NOT NULL, account_id integer NOT NULL, model_name text NOT NULL,
  available integer, is_manual integer DEFAULT false, latency_ms integer, checked_at text);
CREATE TABLE token_routes (id integer PRIMARY KEY AUTOINCREMENT NOT NULL, model_pattern text NOT NULL, display_name text, display_icon text,
  route_mode text DEFAULT 'pattern', model_mapping text, decision_snapshot text, decision_refreshed_at text,
  routing_strategy text DEFAULT 'weighted', enabled integer DEFAULT true, created_at text, updated_at text);
CREATE TABLE route_group_sources (id integer PRIMARY KEY AUTOINCREMENT NOT NULL, group_route_id integer NOT NULL, source_route_id integer NOT NULL);
CREATE TABLE oauth_route_units (id integer PRIMARY KEY AUTOINCREMENT NOT NULL, site_id integer NOT NULL, provider text NOT NULL, name text NOT NULL,
  strategy text DEFAULT 'round_robin' NOT NULL, enabled integer DEFAULT true, created_at text, updated_at text);
CREATE TABLE oauth_route_unit_members (id integer PRIMARY KEY AUTOINCREMENT NOT NULL, unit_id integer NOT NULL, account_id integer NOT NULL,
  sort_order integer DEFAULT 0, success_count integer DEFAULT 0, created_at text, updated_at text);
CREATE TABLE route_channels (id integer PRIMARY KEY AUTOINCREMENT NOT NULL, route_id integer NOT NULL, account_id integer NOT NULL, token_id integer,
  oauth_route_unit_id integer, source_model text, priority integer DEFAULT 0, weight integer DEFAULT 10, enabled integer DEFAULT true,
  manual_override integer DEFAULT false, success_count integer DEFAULT 0);
CREATE TABLE downstream_api_keys (id integer PRIMARY KEY AUTOINCREMENT NOT NULL, name text NOT NULL, key text NOT NULL, description text,
  group_name text, tags text, enabled integer DEFAULT true, expires_at text, max_cost real, used_cost real DEFAULT 0, max_requests integer,
  used_requests integer DEFAULT 0, supported_models text, allowed_route_ids text, site_weight_multipliers text, excluded_site_ids text,
  excluded_credential_refs text, last_used_at text, created_at text, updated_at text);
CREATE TABLE settings (key text PRIMARY KEY NOT NULL, value text);
";

const ROWS: &str = r#"
INSERT INTO sites VALUES
  (3,'Neu "quoted" <b>','https://neu.example','https://checkin.example','new-api','http://u:p@127.0.0.1:9',1,'{"x-a":"1"}','disabled',1,4,2.5,NULL,'2026-01-02 03:04:05','2026-01-03 03:04:05'),
  (4,'Ünïcode '';--','https://codex.example','','codex',NULL,0,NULL,'active',0,0,1,'','2026-01-02 03:04:05','2026-01-02 03:04:05');
INSERT INTO site_api_endpoints VALUES (6,3,'https://pool.example',0,2,'2026-01-02 03:04:05','2026-01-02 03:04:05');
INSERT INTO site_disabled_models VALUES (1,3,'model-off','2026-01-02 03:04:05');
INSERT INTO accounts VALUES
  (5,3,'ann','session-of-ann','sk-ann',1.25,99,7.5,0.5,0.75,'expired',1,3,0,'2026-01-01 00:00:00',NULL,NULL,NULL,NULL,'{"credentialMode":"session","platformUserId":42}','2026-01-02 03:04:05','2026-01-02 03:04:05'),
  (7,4,'bob@example.com','access-of-bob',NULL,0,0,0,NULL,0,'active',0,0,0,NULL,NULL,'codex','key-of-bob','project','{"credentialMode":"session"}','2026-01-02 03:04:05','2026-01-02 03:04:05'),
  (8,4,'eve@example.com','access-of-eve',NULL,0,0,0,NULL,0,'disabled',0,1,0,NULL,NULL,'codex','key-of-eve',NULL,'{"credentialMode":"session"}','2026-01-02 03:04:05','2026-01-02 03:04:05');
INSERT INTO account_tokens VALUES (9,5,'main','sk-token-of-ann','vip','ready','sync',0,1,'2026-01-02 03:04:05','2026-01-02 03:04:05');
INSERT INTO model_availability VALUES (1,5,'by-hand',1,1,5,NULL), (2,5,'found',1,0,5,NULL);
INSERT INTO token_routes VALUES
  (11,'model-h','Shown','icon','pattern','{"a":"b"}','{}','2026-01-02 03:04:05','round_robin',0,'2026-01-02 03:04:05','2026-01-02 03:04:05'),
  (12,'group','Group',NULL,'explicit_group',NULL,NULL,NULL,'stable_first',1,'2026-01-02 03:04:05','2026-01-02 03:04:05');
INSERT INTO route_group_sources VALUES (2,12,11);
INSERT INTO oauth_route_units VALUES (15,4,'codex','Pool','stick_until_unavailable',0,'2026-01-02 03:04:05','2026-01-02 03:04:05');
INSERT INTO oauth_route_unit_members VALUES (16,15,7,1,44,'2026-01-02 03:04:05','2026-01-02 03:04:05'), (17,15,8,2,0,'2026-01-02 03:04:05','2026-01-02 03:04:05');
INSERT INTO route_channels VALUES (13,11,5,9,NULL,'model-up',2,30,0,1,99), (14,11,7,NULL,15,'model-h',1,10,1,1,0);
INSERT INTO downstream_api_keys VALUES
  (20,'team','sk-team-of-the-hub','what for','group','["prod"]',0,'2100-01-01 00:00:00',2.5,1,30,4,'["model-h"]','[11]','{"3":2.5}','[4]',
   '[{"kind":"account_token","siteId":3,"accountId":5,"tokenId":9}]',NULL,'2026-01-02 03:04:05','2026-01-02 03:04:05');
INSERT INTO settings VALUES ('notify_cooldown_sec','77'), ('checkin_cron','"0 9 * * *"');
"#;

/// The compared tables: the table, its array, and the columns without a counterpart.
const COMPARED: &[(&str, &str, &[&str])] = &[
    ("sites", "sites", &["api_key"]),
    ("site_api_endpoints", "siteApiEndpoints", &[]),
    ("site_disabled_models", "siteDisabledModels", &["id", "created_at"]),
    ("accounts", "accounts", &["balance_used", "last_checkin_at", "last_balance_refresh"]),
    ("account_tokens", "accountTokens", &[]),
    ("token_routes", "tokenRoutes", &["decision_snapshot", "decision_refreshed_at"]),
    ("route_group_sources", "routeGroupSources", &["id"]),
    ("oauth_route_units", "oauthRouteUnits", &[]),
    ("oauth_route_unit_members", "oauthRouteUnitMembers", &["success_count"]),
    ("route_channels", "routeChannels", &["success_count"]),
    (
        "downstream_api_keys",
        "downstreamApiKeys",
        &["id", "used_cost", "used_requests", "last_used_at", "created_at", "updated_at"],
    ),
];

fn camel(column: &str) -> String {
    let mut letters = column.chars();
    let mut name = String::new();
    while let Some(letter) = letters.next() {
        if letter == '_' {
            name.extend(letters.next().map(|letter| letter.to_ascii_uppercase()));
        } else {
            name.push(letter);
        }
    }
    name
}

/// Converts a cell to the form in which both sides are compared: JSON by its content, times as ISO 8601, flags as 0 and 1.
fn comparable(value: Value) -> Value {
    match value {
        Value::Bool(flag) => json!(f64::from(u8::from(flag))),
        Value::Number(number) => json!(number.as_f64()),
        Value::String(text) if text.is_empty() => Value::Null,
        Value::String(text) => {
            let is_time = text.len() == 19 && text.as_bytes()[10] == b' ';
            let as_json = serde_json::from_str(&text).ok().filter(|value: &Value| !value.is_number());
            as_json.unwrap_or_else(|| {
                if is_time { json!(text.replace(' ', "T") + ".000Z") } else { json!(text) }
            })
        }
        other => other,
    }
}

/// Returns the rows of a table, with the names of a backup.
fn rows(database: &rusqlite::Connection, table: &str) -> Vec<Map<String, Value>> {
    let mut statement = database.prepare(&format!("SELECT * FROM {table} ORDER BY id")).expect("a table");
    let names: Vec<String> = statement.column_names().map(str::to_owned).collect();
    let read = |row: &rusqlite::Row| {
        let cell = |at: usize| match row.get_ref(at).expect("a cell") {
            ValueRef::Null => Value::Null,
            ValueRef::Integer(number) => json!(number),
            ValueRef::Real(number) => json!(number),
            ValueRef::Text(text) | ValueRef::Blob(text) => json!(String::from_utf8_lossy(text)),
        };
        Ok(names.iter().enumerate().map(|(at, name)| (name.clone(), cell(at))).collect())
    };
    statement.query_map([], read).expect("rows").map(|row| row.expect("a row")).collect()
}

#[test]
fn every_column_of_the_database_of_metapi_is_exported_as_it_was_there() {
    let moving = Move::of_database("hub.db", &format!("{SCHEMA}{ROWS}"));
    let told = moving.import(&[]);
    assert!(!told.contains("an unknown "), "{told}");
    // Before anything that creates routes has run.
    let exported = run(&moving.setup, &moving.home, &["export"]);
    let export: Value = serde_json::from_str(&exported.stdout).expect("JSON");
    let database = rusqlite::Connection::open(&moving.file).expect("a database");
    for (table, array, left_out) in COMPARED {
        let (there, here) = (rows(&database, table), export["accounts"][array].as_array().expect("an array"));
        assert_eq!(there.len(), here.len(), "{table}: {here:#?}");
        for (there, here) in there.into_iter().zip(here) {
            for (column, value) in
                there.into_iter().filter(|(column, _)| !left_out.contains(&column.as_str()))
            {
                let (expected, mut found) = (comparable(value), comparable(here[camel(&column)].clone()));
                if let (Some(expected), Some(found)) = (expected.as_object(), found.as_object_mut()) {
                    // Our own columns are in an account's configuration, too.
                    found.retain(|name, _| expected.contains_key(name));
                }
                assert_eq!(found, expected, "{table}.{column} of {here}");
            }
        }
    }
    assert_eq!(export["accounts"]["routeGroupSources"][0]["id"], 1);
    assert_eq!(export["accounts"]["manualModels"], json!([{"accountId": 5, "modelName": "by-hand"}]));
    // The run-time history is in no export, but was taken over.
    let gateway = moving.start();
    let ann = find(&list(&gateway, "/api/accounts"), "username", "ann");
    assert_eq!(json!([ann["balanceUsed"], ann["lastCheckinAt"]]), json!([99, "2026-01-01T00:00:00.000Z"]));
    let key = find(&list(&gateway, "/api/downstream-keys"), "name", "team");
    assert_eq!(json!([key["usedCost"], key["usedRequests"]]), json!([1, 4]));
    let settings = export["preferences"]["settings"].as_array().expect("settings");
    for (key, value) in [("notify_cooldown_sec", json!(77)), ("checkin_cron", json!("0 9 * * *"))] {
        assert!(settings.contains(&json!({"key": key, "value": value})), "{key} in {settings:?}");
    }
}
