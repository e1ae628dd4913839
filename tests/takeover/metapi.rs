//! metapi's database (hub.db), created by the statements of its migrations.

use serde_json::{Value, json};

use super::{Move, channel, channels, find, keys, list, run};

/// Returns the tables of metapi's migrations; older files lack the columns passed to `newer`.
fn hub(is_old: bool) -> String {
    let newer = |column: &str| if is_old { String::new() } else { format!(",{column}") };
    format!(
        "CREATE TABLE `sites` (`id` integer PRIMARY KEY AUTOINCREMENT NOT NULL,`name` text NOT NULL,`url` text NOT NULL,`platform` text NOT NULL,
           `status` text DEFAULT 'active',`api_key` text,`created_at` text DEFAULT (datetime('now')),`updated_at` text DEFAULT (datetime('now')){});
         CREATE TABLE `accounts` (`id` integer PRIMARY KEY AUTOINCREMENT NOT NULL,`site_id` integer NOT NULL REFERENCES sites(id),`username` text,
           `access_token` text NOT NULL,`api_token` text,`balance` real DEFAULT 0,`balance_used` real DEFAULT 0,`quota` real DEFAULT 0,
           `unit_cost` real,`value_score` real DEFAULT 0,`status` text DEFAULT 'active',`checkin_enabled` integer DEFAULT true,
           `last_checkin_at` text,`last_balance_refresh` text,`extra_config` text,`created_at` text,`updated_at` text{});
         CREATE TABLE `account_tokens` (`id` integer PRIMARY KEY AUTOINCREMENT NOT NULL,`account_id` integer NOT NULL,`name` text NOT NULL,
           `token` text NOT NULL,`source` text DEFAULT 'manual',`enabled` integer DEFAULT true,`is_default` integer DEFAULT false,
           `created_at` text,`updated_at` text{});
         CREATE TABLE `token_routes` (`id` integer PRIMARY KEY AUTOINCREMENT NOT NULL,`model_pattern` text NOT NULL,`model_mapping` text,
           `enabled` integer DEFAULT true,`created_at` text,`updated_at` text{});
         CREATE TABLE `route_channels` (`id` integer PRIMARY KEY AUTOINCREMENT NOT NULL,`route_id` integer NOT NULL,`account_id` integer NOT NULL,
           `token_id` integer,`priority` integer DEFAULT 0,`weight` integer DEFAULT 10,`enabled` integer DEFAULT true,
           `manual_override` integer DEFAULT false,`success_count` integer DEFAULT 0,`fail_count` integer DEFAULT 0{});
         CREATE TABLE `proxy_logs` (`id` integer PRIMARY KEY AUTOINCREMENT NOT NULL,`account_id` integer,`model_requested` text,
           `model_actual` text,`status` text,`latency_ms` integer,`total_tokens` integer,`estimated_cost` real,`created_at` text);
         CREATE TABLE `settings` (`key` text PRIMARY KEY NOT NULL,`value` text);
         CREATE TABLE `__drizzle_migrations` (id SERIAL PRIMARY KEY,hash text NOT NULL,created_at numeric);",
        newer("`external_checkin_url` text,`proxy_url` text,`use_system_proxy` integer DEFAULT false,`custom_headers` text,`is_pinned` integer DEFAULT false,`sort_order` integer DEFAULT 0,`global_weight` real DEFAULT 1"),
        newer("`is_pinned` integer DEFAULT false,`sort_order` integer DEFAULT 0,`oauth_provider` text,`oauth_account_key` text,`oauth_project_id` text"),
        newer("`token_group` text,`value_status` text DEFAULT 'ready'"),
        newer("`display_name` text,`display_icon` text,`route_mode` text DEFAULT 'pattern',`decision_snapshot` text,`decision_refreshed_at` text,`routing_strategy` text DEFAULT 'weighted'"),
        newer("`oauth_route_unit_id` integer,`source_model` text,`consecutive_fail_count` integer NOT NULL DEFAULT 0,`cooldown_level` integer NOT NULL DEFAULT 0"),
    )
}

/// `a password`, sealed by metapi's code under `the old secret`.
const SEALED: &str = "v1:AAECAwQFBgcICQoL:Gx1e1cB8mXbBoL6xndVSLg:0_zTFYvhFvujzc93";

#[test]
fn the_database_of_metapi_comes_along_with_its_logins() {
    let mut moving = Move::of_database("hub.db", &format!("{}
        INSERT INTO sites (id,name,url,platform,custom_headers,global_weight,sort_order,is_pinned,created_at) VALUES
          (3,'Neu','https://neu.example','new-api','{{\"x-a\":\"1\"}}',2.5,4,1,'2026-01-02 03:04:05');
        INSERT INTO accounts (id,site_id,username,access_token,api_token,balance,quota,unit_cost,status,checkin_enabled,extra_config,created_at) VALUES
          (5,3,'ann','session-of-ann','sk-ann',1.25,7.5,0.5,'active',0,
           '{{\"platformUserId\":42,\"credentialMode\":\"session\",\"autoRelogin\":{{\"username\":\"ann@x\",\"passwordCipher\":\"{SEALED}\",\"updatedAt\":\"2026-01-01T00:00:00.000Z\"}}}}','2026-01-02 03:04:05');
        INSERT INTO account_tokens (id,account_id,name,token,token_group,is_default) VALUES (9,5,'main','sk-token-of-ann','vip',1);
        INSERT INTO token_routes (id,model_pattern,routing_strategy,decision_snapshot) VALUES (11,'model-h','round_robin','{{}}');
        INSERT INTO route_channels (id,route_id,account_id,token_id,priority,weight,enabled,manual_override,success_count,source_model) VALUES
          (13,11,5,9,2,30,1,1,99,'model-up');
        INSERT INTO proxy_logs (account_id,model_requested,model_actual,status,latency_ms,total_tokens,estimated_cost,created_at) VALUES
          (5,'model-h','model-up','success',120,100,0.25,datetime('now','-3 days','start of day','+10 hours')),
          (5,'model-h','model-up','failed',0,50,0.5,datetime('now','-3 days','start of day','+10 hours')),
          (5,'model-h',NULL,'success',80,500000,0,datetime('now','-3 days','start of day','+18 hours')),
          (77,'model-h',NULL,'success',80,9,1,datetime('now')), (5,'model-h',NULL,'success',80,9,1,'no time');
        INSERT INTO settings VALUES ('auth_token','\"of-the-old-instance\"'), ('notify_cooldown_sec','77');", hub(false)));
    moving.setup = moving.setup.with("IMPORT_CREDENTIAL_SECRET", "the old secret");
    let told = moving.import(&[]);
    assert!(told.contains("5 calls, 500168 tokens, 2.750000 USD in all; their sums by day"), "{told}");
    assert!(!told.contains("autoRelogin"), "{told}");
    // Sums are added once, and no replacement removes them.
    moving.import(&["--mode", "replace"]);

    let gateway = moving.start();
    let site = find(&list(&gateway, "/api/sites"), "name", "Neu");
    assert_eq!(
        json!([
            site["id"],
            site["platform"],
            site["globalWeight"],
            site["sortOrder"],
            site["isPinned"],
            site["createdAt"]
        ]),
        json!([3, "new-api", 2.5, 4, true, "2026-01-02T03:04:05.000Z"])
    );
    // Half past six, and half past two on the next day, in the gateway's time zone.
    let trend = gateway.admin().get("/api/stats/site-trend?days=30").expect(200)["trend"].clone();
    let days: Vec<&Value> =
        trend.as_array().expect("a list").iter().map(|day| &day["sites"]["Neu"]).collect();
    assert_eq!(days, [&json!({"spend": 0.75, "calls": 2}), &json!({"spend": 1, "calls": 1})], "{trend}");
    let models = gateway.admin().get("/api/stats/model-by-site?days=30").expect(200)["models"].clone();
    let of_models = json!([
        {"model": "model-up", "calls": 2, "spend": 0.75, "tokens": 150},
        {"model": "model-h", "calls": 1, "spend": 1, "tokens": 500_000},
    ]);
    assert_eq!(models, of_models);
    let account = find(&list(&gateway, "/api/accounts"), "username", "ann");
    assert_eq!(
        json!([
            account["id"],
            account["siteId"],
            account["balance"],
            account["quota"],
            account["unitCost"],
            account["checkinEnabled"]
        ]),
        json!([5, 3, 1.25, 7.5, 0.5, false])
    );
    let config: Value = serde_json::from_str(account["extraConfig"].as_str().expect("a text")).expect("JSON");
    assert_eq!(json!([config["platformUserId"], config["autoRelogin"]["username"]]), json!([42, "ann@x"]));
    let route = find(&gateway.routes(), "modelPattern", "model-h");
    assert_eq!(json!([route["id"], route["routingStrategy"]]), json!([11, "round_robin"]));
    assert_eq!(channels(&gateway, "model-h"), [channel("ann", "model-up", 2, 30, true)]);
    // This instance's admin token still opens it.
    assert_eq!(gateway.admin().get("/api/settings/runtime").expect(200)["notifyCooldownSec"], 77);
    let export = gateway.admin().get("/api/settings/backup/export").expect(200);
    let exported = &export["accounts"]["accounts"][0]["extraConfig"];
    assert!(exported.as_str().expect("a text").contains("pässword: 1"), "{exported}");
}

#[test]
fn times_in_metapis_log_may_be_numbers_and_those_that_cannot_be_read_are_counted() {
    let moving = Move::of_database(
        "hub.db",
        &format!(
            "{}
            INSERT INTO sites (id,name,url,platform) VALUES (3,'Neu','https://neu.example','new-api');
            INSERT INTO accounts (id,site_id,username,access_token) VALUES (5,3,'ann','session-of-ann');
            INSERT INTO proxy_logs (account_id,model_requested,status,created_at) VALUES
              (5,'m','success',datetime('now','-3 days')), (5,'m','success',strftime('%s','now','-3 days')),
              (5,'m','success',1000 * strftime('%s','now','-3 days')),
              (5,'m','success','no time'), (5,'m','success',NULL), (5,'m','success','1e300');",
            hub(false)
        ),
    );
    let told = moving.import(&[]);
    assert!(
        told.contains("6 calls") && told.contains("; 3 of them have a time that cannot be read"),
        "{told}"
    );
    let gateway = moving.start();
    let models = gateway.admin().get("/api/stats/model-by-site?days=30").expect(200)["models"].clone();
    assert_eq!(models[0]["calls"], 3, "{models}");
}

#[test]
fn an_old_database_of_metapi_lacks_columns_and_a_password_without_its_secret_is_named() {
    let moving = Move::of_database("hub.db", &format!("{}
        ALTER TABLE sites ADD COLUMN from_the_future text;
        INSERT INTO sites (id,name,url,platform,api_key) VALUES (1,'Old','https://old.example','openai','sk-of-the-site');
        INSERT INTO accounts (id,site_id,username,access_token,extra_config) VALUES
          (1,1,'bob','session-of-bob','{{\"autoRelogin\":{{\"username\":\"bob\",\"passwordCipher\":\"{SEALED}\"}}}}');
        INSERT INTO token_routes (id,model_pattern) VALUES (1,'model-*');
        INSERT INTO route_channels (id,route_id,account_id) VALUES (1,1,1);", hub(true)));
    let told = moving.import(&[]);
    assert!(
        told.contains("from_the_future") && told.contains("none of the given secrets decrypts its password"),
        "{told}"
    );
    let gateway = moving.start();
    let accounts = list(&gateway, "/api/accounts");
    assert_eq!(accounts.len(), 2);
    assert_eq!(find(&accounts, "username", "API key")["credentialMode"], "apikey");
    let route = find(&gateway.routes(), "modelPattern", "model-*");
    assert_eq!(json!([route["routeMode"], route["routingStrategy"]]), json!(["pattern", "weighted"]));
}

#[test]
fn broken_rows_of_metapis_database_are_left_out_and_its_double_sites_merged() {
    let moving = Move::of_database("hub.db", &format!("PRAGMA foreign_keys = OFF; {}
        CREATE TABLE route_group_sources (id integer PRIMARY KEY, group_route_id integer, source_route_id integer) WITHOUT ROWID;
        CREATE TABLE downstream_api_keys (id integer PRIMARY KEY, name text, key text, enabled integer, expires_at text,
          supported_models text, excluded_site_ids text, site_weight_multipliers text);
        INSERT INTO sites (id,name,url,platform,is_pinned,created_at) VALUES
          (3,'One','https://one.example','new-api',0,'yesterday'), (4,'Same','https://one.example/v1','newapi','true',NULL),
          (5,'','https://two.example','openai',x'00',NULL), (-6,'Below','https://three.example','openai',0,NULL);
        INSERT INTO accounts (id,site_id,username,access_token,balance) VALUES
          (1,3,'ann','a',1), (2,4,'bob','b','much'), (3,77,'lost','c',1), (4,5,'eve','d',1), (5,-6,'below','e',1);
        INSERT INTO account_tokens (id,account_id,name,token,enabled) VALUES (1,2,'t','sk-of-bob',1), (2,3,'u','sk-lost',1), (3,1,'v','sk-v','perhaps');
        INSERT INTO token_routes (id,model_pattern,route_mode) VALUES (1,'m','pattern'), (4,'g','explicit_group'), (5,'h','explicit_group');
        INSERT INTO route_channels (id,route_id,account_id,token_id,weight,source_model) VALUES
          (1,1,2,1,'x','m'), (2,1,3,NULL,10,'m'), (3,1,1,99,10,'m'), (4,88,1,NULL,10,'m'), (5,1,4,NULL,2.5,'m');
        UPDATE route_channels SET manual_override = 1;
        INSERT INTO route_group_sources VALUES (1,4,1), (2,4,5), (3,5,4), (4,5,5), (5,4,99);
        INSERT INTO downstream_api_keys VALUES (1,'sound','sk-sound-key',1,NULL,NULL,'[4]','{{\"4\":2}}'), (2,'odd','sk-odd-key',1,'soon',NULL,NULL,NULL);
        INSERT INTO proxy_logs (account_id,model_actual,status,latency_ms,total_tokens,estimated_cost,created_at) VALUES
          (1,'m','success',1,10,1,datetime('now','-3 days','start of day')), (2,'m','success',1,10,1,datetime('now','-3 days','start of day')),
          (1,x'ff','success',1,10,1,datetime('now','-3 days','start of day'));", hub(false)));
    let dry = moving.import(&["--dry-run"]);
    assert!(dry.contains("skipped accounts 3 (lost): siteId 77 is not among the sites"), "{dry}");
    let told = moving.import(&[]);
    for told_of in [
        "10 skipped",
        "sites 4 (Same): it has the platform and address of site 3, and is merged into it",
        "sites 3 (One): createdAt is not of type time: it is left out",
        "sites 5 (https://two.example): isPinned is not of type boolean: it is left out",
        "sites (Below): Invalid sites[].id. Expected positive integer; the row is left out",
        "accounts 2 (bob): balance is not of type number: it is left out",
        "accounts 3 (lost): siteId 77 is not among the sites of this document; the row is left out",
        "accounts 5 (below): Invalid accounts[].siteId. Expected positive integer; the row is left out",
        "accountTokens 2 (u): accountId 3",
        "accountTokens 3 (v): Invalid accountTokens[].enabled. Expected boolean; the row is left out",
        "routeChannels 2 (m): accountId 3",
        "routeChannels 3 (m): tokenId 99",
        "routeChannels 4 (m): routeId 88",
        "routeChannels 5 (m): weight is not of type integer: it is left out",
        "routeGroupSources (4): sourceRouteId 99",
        "route 5 is a group and cannot be a source of group 4",
        "route 4 is a group and cannot be a source of group 5",
        "route 5 is a group and cannot be a source of group 5",
        "downstreamApiKeys (odd): Invalid downstreamApiKeys[].expiresAt. Expected time or null; the row is left out",
    ] {
        assert!(told.contains(told_of), "{told_of} in {told}");
    }
    let gateway = moving.start();
    let sites = list(&gateway, "/api/sites");
    let shown: Vec<_> = sites.iter().map(|site| json!([site["id"], site["name"], site["url"]])).collect();
    assert_eq!(
        json!(shown),
        json!([[3, "One", "https://one.example"], [5, "https://two.example", "https://two.example"]])
    );
    let accounts = list(&gateway, "/api/accounts");
    let sites_of: Vec<_> =
        ["ann", "bob", "eve"].map(|name| find(&accounts, "username", name)["siteId"].clone()).into();
    assert_eq!((json!(sites_of), accounts.len()), (json!([3, 3, 5]), 3));
    assert_eq!(channels(&gateway, "m"), [channel("bob", "m", 0, 10, true), channel("eve", "m", 0, 10, true)]);
    let group = find(&gateway.routes(), "modelPattern", "g");
    assert_eq!(group["sourceRouteIds"], json!([1]), "{group}");
    let keys = keys(&gateway);
    assert_eq!(
        json!([keys[0]["name"], keys[0]["excludedSiteIds"], keys[0]["siteWeightMultipliers"]]),
        json!(["sound", [3], {"3": 2}])
    );
    assert_eq!(keys.len(), 1);
    let models = gateway.admin().get("/api/stats/model-by-site?days=30").expect(200)["models"].clone();
    let calls: Vec<_> = models
        .as_array()
        .expect("a list")
        .iter()
        .map(|model| json!([model["model"], model["calls"]]))
        .collect();
    assert_eq!(json!(calls), json!([["m", 2], ["\u{fffd}", 1]]));
}

#[test]
fn a_site_without_a_name_is_named_by_its_address_without_a_password() {
    let sql = "INSERT INTO sites (id,name,url,platform) VALUES (3,' ','https://ann:of-the-site@neu.example','new-api')";
    let moving = Move::of_database("hub.db", &format!("{} {sql}", hub(true)));
    let printed = moving.import(&[]);
    assert!(!printed.contains("of-the-site"), "{printed}");
    let sites = list(&moving.start(), "/api/sites");
    assert_eq!(
        json!([sites[0]["name"], sites[0]["url"]]),
        json!(["https://neu.example", "https://neu.example"])
    );
}

#[test]
fn a_name_in_a_file_is_one_line_in_the_log_and_in_the_report() {
    let site = json!({"id": 1, "name": "a\r\n2026-01-01T00:00:00.000Z ERROR b\u{1b}[2J\u{202e}", "url": "https://a.example",
        "platform": "none", "customHeaders": "no headers"});
    let document = json!({"version": "2.1", "timestamp": 1, "accounts": {"sites": [site], "accounts": [],
        "accountTokens": [], "tokenRoutes": [], "routeChannels": [], "routeGroupSources": []}});
    let moving = Move::of_text("backup.json", &document.to_string());
    let finished = run(&moving.setup, &moving.home, &["import", moving.file.to_str().expect("a path")]);
    assert!(finished.status.success(), "{}", finished.stderr);
    let named: Vec<&str> = finished.stderr.lines().filter(|line| line.contains(" ERROR b")).collect();
    assert!(matches!(named[..], [line] if line.contains(" WARN  site 1 (a 2026-")), "{}", finished.stderr);
    assert!(finished.stdout.contains(" ERROR b [2J)"), "{}", finished.stdout);
    let all = finished.stdout + &finished.stderr;
    assert!(!all.contains(['\r', '\u{1b}', '\u{202e}']), "{all:?}");
}
