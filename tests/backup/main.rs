//! Backups through the admin API: what goes out, what comes in, and what stays.

#[path = "../support/mod.rs"]
mod support;
mod under_way;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use support::{Answer, Database, Gateway, Home, Literal, Request, Setup, Upstream, eventually};

const EXPORT: &str = "/api/settings/backup/export";
const IMPORT: &str = "/api/settings/backup/import";

fn export(gateway: &Gateway) -> Value {
    gateway.admin().get(EXPORT).expect(200)
}

fn import(gateway: &Gateway, document: &Value) -> Value {
    gateway.admin().post(IMPORT, &json!({ "data": document })).expect(200)
}

fn refused(gateway: &Gateway, document: &Value) -> String {
    let answer = gateway.admin().post(IMPORT, &json!({ "data": document })).expect(400);
    assert_eq!(answer["success"], false);
    answer["message"].as_str().expect("a message").to_owned()
}

fn chat(gateway: &Gateway, model: &str) -> Answer {
    let body = json!({"model": model, "messages": [{"role": "user", "content": "hi"}]});
    gateway.client().post("/v1/chat/completions", &body)
}

/// A document without what says when it was made.
fn lasting(mut document: Value) -> Value {
    let members = document.as_object_mut().expect("an object");
    members.remove("timestamp").expect("a timestamp");
    members.remove("checksum").expect("a checksum");
    document
}

/// A small document in the form of other programs' backups.
fn small() -> Value {
    json!({"version": "2.1", "timestamp": 1_772_352_000_000_i64, "accounts": {
        "sites": [{"id": 7, "name": "one", "url": "https://one.example", "platform": "new-api"}],
        "accounts": [{"id": 9, "siteId": 7, "username": "ann", "accessToken": "", "apiToken": "sk-of-ann"}],
        "accountTokens": [],
        "tokenRoutes": [{"id": 3, "modelPattern": "model-a"}],
        "routeChannels": [{"id": 5, "routeId": 3, "accountId": 9, "tokenId": null, "sourceModel": "model-a"}]}})
}

fn rows<'a>(document: &'a Value, array: &str) -> &'a Vec<Value> {
    document["accounts"][array].as_array().unwrap_or_else(|| panic!("no array {array} in {document}"))
}

#[test]
fn an_export_has_the_documented_shape_and_every_credential_in_clear() {
    let gateway = Gateway::start();
    import(&gateway, &small());
    let key =
        json!({"name": "k", "key": "sk-downstream-key-1", "supportedModels": ["model-a"], "tags": ["prod"]});
    gateway.admin().post("/api/downstream-keys", &key).expect(200);
    let answer = gateway.admin().get(EXPORT);
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    assert!(answer.header("content-disposition").is_some_and(|header| header.contains("filename=")));
    let document = answer.expect(200);
    assert_eq!((&document["version"], &document["format"]), (&json!("2.1"), &json!("switchyard")));
    assert!(document["timestamp"].is_i64() && document.get("type").is_none(), "{document}");
    assert!(document["checksum"].as_str().is_some_and(|sum| sum.starts_with("sha256:") && sum.len() == 71));
    let site = &rows(&document, "sites")[0];
    assert_eq!((&site["id"], &site["name"], &site["isPinned"]), (&json!(7), &json!("one"), &json!(false)));
    let account = &rows(&document, "accounts")[0];
    assert_eq!((&account["apiToken"], &account["accessToken"]), (&json!("sk-of-ann"), &json!("")));
    for left_out in ["balanceUsed", "lastCheckinAt", "lastBalanceRefresh", "credentialVersion"] {
        assert!(account.get(left_out).is_none(), "{left_out}");
    }
    let channel = &rows(&document, "routeChannels")[0];
    assert!(channel.get("successCount").is_none() && channel["weight"] == 10, "{channel}");
    let key = &rows(&document, "downstreamApiKeys")[0];
    assert_eq!((&key["key"], &key["tags"]), (&json!("sk-downstream-key-1"), &json!("[\"prod\"]")));
    for left_out in ["id", "usedCost", "usedRequests", "lastUsedAt", "createdAt", "updatedAt"] {
        assert!(key.get(left_out).is_none(), "{left_out}");
    }
    let only = |kind: &str| gateway.admin().get(&format!("{EXPORT}?type={kind}")).expect(200);
    let accounts = only("ACCOUNTS");
    assert_eq!((&accounts["type"], accounts.get("preferences")), (&json!("accounts"), None));
    let preferences = only("preferences");
    assert_eq!((&preferences["type"], preferences.get("accounts")), (&json!("preferences"), None));
    assert!(preferences["preferences"]["settings"].is_array());
    gateway.admin().get(&format!("{EXPORT}?type=routes")).expect(400);
}

#[test]
fn an_import_keeps_the_numbers_of_the_document_where_they_are_free_and_serves_at_once() {
    let upstream = Upstream::start(&["model-a"]);
    let gateway = Gateway::start();
    let mut document = small();
    document["accounts"]["sites"][0]["url"] = json!(upstream.url());
    document["accounts"]["sites"][0]["platform"] = json!("openai");
    let answer = import(&gateway, &document);
    assert_eq!(answer["success"], true);
    assert_eq!((&answer["allImported"], &answer["appliedSettings"]), (&json!(true), &json!([])));
    assert_eq!(answer["sections"], json!({"accounts": true, "preferences": false}));
    assert!(answer.get("summary").is_none());
    let numbers = |array: &str| -> Vec<i64> {
        rows(&export(&gateway), array).iter().map(|row| row["id"].as_i64().expect("an id")).collect()
    };
    let arrays = ["sites", "accounts", "tokenRoutes", "routeChannels"];
    assert_eq!(arrays.map(numbers), [vec![7], vec![9], vec![3], vec![5]]);
    assert_eq!(upstream.asked_for("/v1/models").len(), 0, "nobody was asked");
    assert_eq!(chat(&gateway, "model-a").status, 200);
    assert_eq!(gateway.models(), ["model-a"]);
    assert_eq!(upstream.last("/v1/chat/completions").header("authorization"), Some("Bearer sk-of-ann"));
    // Also after a start, which rebuilds the routes from what is known of models.
    let gateway = gateway.restart();
    eventually("the model is served after a start", || {
        (chat(&gateway, "model-a").status == 200).then_some(())
    });
}

#[test]
fn an_import_keeps_what_happened_here() {
    let upstream = Upstream::start(&["model-a"]);
    let gateway = Gateway::start();
    gateway.add("here", &upstream);
    let key = json!({"name": "k", "key": "sk-downstream-key-1", "supportedModels": ["*"]});
    let key_id = gateway.admin().post("/api/downstream-keys", &key).expect(200)["item"]["id"].clone();
    let caller = gateway.anyone().with("authorization", "Bearer sk-downstream-key-1");
    let body = json!({"model": "model-a", "messages": [{"role": "user", "content": "hi"}]});
    caller.post("/v1/chat/completions", &body).expect(200);
    gateway.wait_for_logs(1);
    let document = export(&gateway);
    let before = (gateway.logs(), gateway.channels("model-a"));
    let used = |gateway: &Gateway| {
        let keys = gateway.admin().get("/api/downstream-keys").expect(200);
        let keys = keys["items"].as_array().expect("keys").clone();
        assert_eq!(keys.len(), 1);
        (keys[0]["id"].clone(), keys[0]["usedRequests"].clone())
    };
    assert_eq!(used(&gateway), (key_id.clone(), json!(1)));
    // A site that is only here goes; the log of what it did stays.
    let other =
        gateway.create_site(&json!({"name": "other", "url": "https://other.example", "platform": "openai"}));
    import(&gateway, &document);
    assert_eq!(used(&gateway), (key_id, json!(1)));
    let after = (gateway.logs(), gateway.channels("model-a"));
    assert_eq!(before.0, after.0);
    assert_eq!(before.1[0]["id"], after.1[0]["id"]);
    assert_eq!(before.1[0]["successCount"], after.1[0]["successCount"]);
    let sites = gateway.admin().get("/api/sites").expect(200);
    assert!(!sites.as_array().expect("sites").iter().any(|site| site["id"] == other["id"]), "{sites}");
    // Arrays that older documents do not have leave what is here.
    let mut older = document;
    older.as_object_mut().expect("an object").remove("checksum");
    older["accounts"].as_object_mut().expect("an object").remove("downstreamApiKeys");
    import(&gateway, &older);
    used(&gateway);
}

#[test]
fn a_row_that_is_not_here_gets_a_number_of_its_own_where_its_number_is_taken() {
    let gateway = Gateway::start();
    import(&gateway, &small());
    let mut other = small();
    other["accounts"]["sites"][0]["url"] = json!("https://two.example");
    other["accounts"]["downstreamApiKeys"] = json!([{"name": "k", "key": "sk-downstream-key-1", "allowedRouteIds": "[3]",
        "siteWeightMultipliers": "{\"7\": 2}", "excludedSiteIds": "[7]",
        "excludedCredentialRefs": "[{\"kind\":\"default_api_key\",\"siteId\":7,\"accountId\":9}]"}]);
    gateway.admin().post(&format!("{IMPORT}?mode=merge"), &json!({ "data": other })).expect(200);
    let document = export(&gateway);
    let sites = rows(&document, "sites");
    assert_eq!(
        sites.iter().map(|site| &site["url"]).collect::<Vec<_>>(),
        ["https://one.example", "https://two.example"]
    );
    let (site, account) = (&sites[1]["id"], &rows(&document, "accounts")[1]);
    assert!(site.as_i64() > Some(7) && account["siteId"] == *site, "{document}");
    let text = |member: &str| {
        let text = rows(&document, "downstreamApiKeys")[0][member].as_str().expect("a text").to_owned();
        serde_json::from_str::<Value>(&text).expect("JSON")
    };
    // The route is the same; the site is another.
    assert_eq!((text("allowedRouteIds"), text("excludedSiteIds")), (json!([3]), json!([site])));
    assert_eq!(text("siteWeightMultipliers"), json!({ site.to_string(): 2 }));
    let excluded = json!([{"kind": "default_api_key", "siteId": site, "accountId": account["id"]}]);
    assert_eq!(text("excludedCredentialRefs"), excluded);
}

#[test]
fn an_imported_key_without_lists_may_use_every_model_and_one_with_empty_lists_none() {
    let gateway = Gateway::start();
    let mut document = small();
    document["accounts"]["downstreamApiKeys"] = json!([
        {"name": "all", "key": "sk-downstream-key-1"},
        {"name": "none", "key": "sk-downstream-key-2", "supportedModels": "[]", "allowedRouteIds": "[]"}]);
    import(&gateway, &document);
    let document = export(&gateway);
    let lists: Vec<&Value> =
        rows(&document, "downstreamApiKeys").iter().map(|key| &key["supportedModels"]).collect();
    assert_eq!(lists, ["[\"*\"]", "[]"]);
}

/// What expects to be told, and what is done to a document.
type Damage = (&'static str, &'static dyn Fn(&mut Value));

#[test]
fn an_imported_address_is_written_as_those_are_that_the_api_takes() {
    let gateway = Gateway::start();
    let mut document = small();
    document["accounts"]["sites"][0]["url"] = json!(" HTTPS://One.example/v1/ ");
    document["accounts"]["siteApiEndpoints"] =
        json!([{"id": 1, "siteId": 7, "url": "https://Pool.example/v1/", "enabled": true, "sortOrder": 0}]);
    import(&gateway, &document);
    let sites = gateway.admin().get("/api/sites").expect(200);
    assert_eq!(sites[0]["url"], "https://one.example");
    assert_eq!(sites[0]["apiEndpoints"][0]["url"], "https://pool.example/v1");
    let again = json!({"name": "again", "url": "https://one.example/", "platform": "new-api"});
    gateway.admin().post("/api/sites", &again).expect(409);
    let sites = document["accounts"]["sites"].as_array_mut().expect("sites");
    sites.push(json!({"id": 8, "name": "x", "url": "https://one.example/", "platform": "new-api"}));
    assert!(refused(&gateway, &document).contains("platform and url"));
}

#[test]
fn a_document_that_is_not_whole_imports_nothing() {
    let gateway = Gateway::start();
    import(&gateway, &small());
    let before = lasting(export(&gateway));
    let cases: &[Damage] = &[
        ("timestamp", &|document| drop(document.as_object_mut().expect("an object").remove("timestamp"))),
        ("timestamp", &|document| document["timestamp"] = Value::Null),
        ("nothing to import", &|document| {
            drop(document.as_object_mut().expect("an object").remove("accounts"))
        }),
        ("nothing to import", &|document| document["accounts"]["tokenRoutes"] = json!({})),
        ("preferences", &|document| document["type"] = json!("preferences")),
        ("siteApiEndpoints", &|document| document["accounts"]["siteApiEndpoints"] = json!({})),
        ("checksum", &|document| document["checksum"] = json!("sha256:00")),
        ("checksum", &|document| document["checksum"] = json!(7)),
        ("siteId 8", &|document| document["accounts"]["accounts"][0]["siteId"] = json!(8)),
        ("routeId 4", &|document| document["accounts"]["routeChannels"][0]["routeId"] = json!(4)),
        ("tokenId 1", &|document| document["accounts"]["routeChannels"][0]["tokenId"] = json!(1)),
        ("sites[].name", &|document| document["accounts"]["sites"][0]["name"] = json!(5)),
        ("sites[].url", &|document| {
            drop(document["accounts"]["sites"][0].as_object_mut().expect("an object").remove("url"))
        }),
        ("sites[].id", &|document| document["accounts"]["sites"][0]["id"] = json!(0)),
        ("id 7 occurs twice", &|document| {
            document["accounts"]["sites"]
                .as_array_mut()
                .expect("sites")
                .push(json!({"id": 7, "name": "x", "url": "https://x.example", "platform": "openai"}));
        }),
        ("platform and url", &|document| {
            document["accounts"]["sites"]
                .as_array_mut()
                .expect("sites")
                .push(json!({"id": 8, "name": "x", "url": "https://one.example", "platform": "new-api"}));
        }),
        ("same key", &|document| {
            document["accounts"]["downstreamApiKeys"] = json!([{"name": "a", "key": "sk-one-and-the-same"}, {"name": "b", "key": "sk-one-and-the-same"}]);
        }),
        ("manualModels", &|document| {
            document["accounts"]["manualModels"] = json!([{"accountId": 99, "modelName": "m"}]);
        }),
        ("sites[1] is not an object", &|document| {
            document["accounts"]["sites"].as_array_mut().expect("sites").push(json!(1));
        }),
    ];
    for (expected, damage) in cases {
        let mut document = small();
        document["accounts"]["sites"][0]["name"] = json!("another name");
        damage(&mut document);
        let message = refused(&gateway, &document);
        assert!(message.contains(expected), "{expected}: {message}");
        assert_eq!(lasting(export(&gateway)), before, "{expected}");
    }
    for body in [json!({}), json!({"data": []}), json!({"data": "x"}), json!([1])] {
        gateway.admin().post(IMPORT, &body).expect(400);
    }
    let broken = Request::new("POST", IMPORT).json_text("{\"data\":{\"timestamp\":1,");
    assert_eq!(gateway.admin().send(broken).status, 400);
    for query in ["mode=x", "conflict=x", "dryRun=x"] {
        gateway.admin().post(&format!("{IMPORT}?{query}"), &json!({ "data": small() })).expect(400);
    }
}

#[test]
fn a_flipped_byte_anywhere_imports_nothing() {
    let gateway = Gateway::start();
    let mut document = small();
    document["accounts"]["accounts"][0]["username"] = json!("änn \"quoted\" \\ back\u{7f}");
    import(&gateway, &document);
    gateway.admin().put("/api/settings/runtime", &json!({"notifyCooldownSec": 123})).expect(200);
    let text = gateway.admin().get(EXPORT).body;
    let before = lasting(export(&gateway));
    let import = |document: &[u8]| -> Answer {
        let body = [b"{\"data\":", document, b"}"].concat();
        gateway.admin().send(Request::new("POST", IMPORT).json_text(body))
    };
    for at in 0..text.len() {
        for flip in [0x01, 0x20] {
            let mut damaged = text.clone();
            damaged[at] ^= flip;
            let answer = import(&damaged);
            assert_eq!(answer.status, 400, "byte {at}: {}", String::from_utf8_lossy(&damaged));
        }
    }
    assert_eq!(lasting(export(&gateway)), before);
    assert_eq!(import(&text).status, 200);
}

#[test]
fn a_checksum_holds_however_the_document_was_written_anew() {
    let gateway = Gateway::start();
    import(&gateway, &small());
    let document = export(&gateway);
    let pretty = serde_json::to_string_pretty(&json!({ "data": document })).expect("JSON");
    let turned = pretty.replace("\"globalWeight\": 1,", "\"globalWeight\": 1.0,");
    assert_ne!(pretty, turned);
    let answer = gateway.admin().send(Request::new("POST", IMPORT).json_text(turned));
    assert_eq!(answer.expect(200)["success"], true);
}

#[test]
fn a_section_is_found_at_the_root_in_its_member_and_in_data() {
    for nest in [
        (&|accounts: &Value| {
            let mut document = accounts.clone();
            document["timestamp"] = json!(1);
            document
        }) as &dyn Fn(&Value) -> Value,
        &|accounts| json!({"timestamp": 1, "accounts": accounts}),
        &|accounts| json!({"timestamp": 1, "data": {"accounts": accounts}}),
    ] {
        let gateway = Gateway::start();
        let document = nest(&small()["accounts"]);
        assert_eq!(import(&gateway, &document)["sections"]["accounts"], true, "{document}");
        assert_eq!(rows(&export(&gateway), "sites").len(), 1, "{document}");
    }
}

#[test]
fn preferences_are_stored_and_hold_at_once_but_for_those_that_are_unusable() {
    let gateway = Gateway::start();
    let settings = json!([
        {"key": "notify_cooldown_sec", "value": 77},
        {"key": "proxy_token", "value": "sk-a-new-proxy-token"},
        {"key": "checkin_cron", "value": "not a cron"},
        {"key": "smtp_port", "value": 0},
        {"key": "log_cleanup_usage_logs_enabled", "value": "yes"},
        {"key": "log_cleanup_retention_days", "value": 0},
        {"key": "routing_weights", "value": {"costWeight": "x"}},
        {"key": "admin_ip_allowlist", "value": ["10.1.2.3"]},
        {"key": "auth_token", "value": "stolen-admin-token"},
        {"key": "db_type", "value": "mysql"},
        {"key": "no_such_setting", "value": 1},
        {"key": "webhook_url", "value": "https://hooks.example/secret-path"}]);
    let document = json!({"timestamp": 1, "type": "preferences", "preferences": {"settings": settings}});
    let answer = import(&gateway, &document);
    assert_eq!(answer["sections"], json!({"accounts": false, "preferences": true}));
    let applied: BTreeMap<&str, &Value> = answer["appliedSettings"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|one| (one["key"].as_str().expect("a key"), &one["value"]))
        .collect();
    assert_eq!(
        applied.keys().copied().collect::<Vec<_>>(),
        ["notify_cooldown_sec", "proxy_token", "webhook_url"]
    );
    assert_eq!(applied["notify_cooldown_sec"], &json!(77));
    let text = answer.to_string();
    assert!(!text.contains("sk-a-new-proxy-token") && !text.contains("secret-path"), "{text}");
    let warnings = answer["warnings"].as_array().expect("warnings");
    let warned: Vec<&str> =
        warnings.iter().filter_map(|warning| warning.as_str()?.split(' ').nth(1)).collect();
    assert_eq!(
        warned,
        [
            "checkin_cron",
            "smtp_port",
            "log_cleanup_usage_logs_enabled",
            "log_cleanup_retention_days",
            "routing_weights",
            "admin_ip_allowlist",
            "no_such_setting"
        ]
    );
    let runtime = gateway.admin().get("/api/settings/runtime").expect(200);
    assert_eq!(runtime["notifyCooldownSec"], 77);
    gateway.client().get("/v1/models").expect(403);
    gateway.anyone().with("authorization", "Bearer sk-a-new-proxy-token").get("/v1/models").expect(200);
    let exported = gateway.admin().get(&format!("{EXPORT}?type=preferences")).expect(200);
    let values: BTreeMap<&str, &Value> = exported["preferences"]["settings"]
        .as_array()
        .expect("settings")
        .iter()
        .map(|one| (one["key"].as_str().expect("a key"), &one["value"]))
        .collect();
    assert_eq!(values["proxy_token"], &json!("sk-a-new-proxy-token"));
    assert!(!values.contains_key("auth_token"), "{values:?}");
}

#[test]
fn a_dry_run_tells_of_every_row_and_writes_nothing() {
    let gateway = Gateway::start();
    import(&gateway, &small());
    let before = lasting(export(&gateway));
    let mut document = small();
    document["accounts"]["sites"][0]["name"] = json!("renamed");
    document["accounts"]["accounts"].as_array_mut().expect("accounts").extend([
        json!({"id": 10, "siteId": 7, "username": "bob", "accessToken": "a-very-secret-session"}),
        json!({"id": 11, "siteId": 70, "username": "eve", "accessToken": "x"}),
    ]);
    document["preferences"] = json!({"settings": [{"key": "proxy_token", "value": "sk-a-new-proxy-token"},
        {"key": "checkin_cron", "value": "x"},
        {"key": "codex_header_defaults", "value": {"userAgent": "codex_cli_rs/1"}}]});
    for query in ["dryRun=1", "dryRun=true"] {
        let answer =
            gateway.admin().post(&format!("{IMPORT}?{query}"), &json!({ "data": document })).expect(200);
        assert_eq!((&answer["success"], &answer["dryRun"]), (&json!(true), &json!(true)));
        let fates: BTreeSet<(String, String, String)> = answer["rows"]
            .as_array()
            .expect("rows")
            .iter()
            .map(|row| {
                let text = |member: &str| row[member].as_str().expect("a text").to_owned();
                (text("section"), text("name"), text("action"))
            })
            .collect();
        let expected = [
            ("sites", "renamed", "updated"),
            ("accounts", "ann", "updated"),
            ("accounts", "bob", "created"),
            ("accounts", "eve", "refused"),
            ("tokenRoutes", "model-a", "updated"),
            ("routeChannels", "model-a", "updated"),
            ("settings", "proxy_token", "created"),
            ("settings", "checkin_cron", "skipped"),
            ("settings", "codex_header_defaults", "skipped"),
        ];
        let expected =
            expected.map(|(section, name, action)| (section.to_owned(), name.to_owned(), action.to_owned()));
        assert_eq!(fates, expected.into_iter().collect());
        assert_eq!(
            answer["counts"],
            json!({"created": 2, "updated": 4, "skipped": 2, "refused": 1, "deleted": 0})
        );
        let eve = answer["rows"].as_array().expect("rows").iter().find(|row| row["name"] == "eve").cloned();
        assert!(eve.is_some_and(|eve| eve["reason"].as_str().is_some_and(|why| why.contains("siteId 70"))));
        let text = answer.to_string();
        assert!(!text.contains("a-very-secret-session") && !text.contains("sk-a-new-proxy-token"), "{text}");
    }
    assert_eq!(lasting(export(&gateway)), before);
    refused(&gateway, &document);
}

#[test]
fn a_conflict_is_settled_as_the_operator_says() {
    for (conflict, name, checkin, max) in [
        ("skip", "one", json!(null), json!(null)),
        ("overwrite", "renamed", json!("https://c.example"), json!(4)),
        ("fill", "one", json!("https://c.example"), json!(4)),
    ] {
        let gateway = Gateway::start();
        import(&gateway, &small());
        gateway.create_site(&json!({"name": "mine", "url": "https://mine.example", "platform": "openai"}));
        let mut document = small();
        document["accounts"]["sites"][0] = json!({"id": 70, "name": "renamed", "url": "https://one.example",
            "platform": "new-api", "externalCheckinUrl": "https://c.example", "maxConcurrency": 4});
        document["accounts"]["accounts"] =
            json!([{"id": 71, "siteId": 70, "username": "new", "accessToken": "s"}]);
        document["accounts"]["routeChannels"] = json!([]);
        let target = format!("{IMPORT}?mode=merge&conflict={conflict}");
        gateway.admin().post(&target, &json!({ "data": document })).expect(200);
        let document = export(&gateway);
        let sites = rows(&document, "sites");
        assert_eq!(sites.len(), 2, "a merge deletes nothing");
        let site = &sites[0];
        assert_eq!((&site["id"], &site["name"]), (&json!(7), &json!(name)), "{conflict}");
        assert_eq!((&site["externalCheckinUrl"], &site["maxConcurrency"]), (&checkin, &max), "{conflict}");
        let accounts = rows(&document, "accounts");
        assert_eq!(accounts.len(), 2, "{conflict}");
        assert!(accounts.iter().all(|account| account["siteId"] == 7), "{conflict}");
        assert_eq!(rows(&document, "routeChannels").len(), 1, "{conflict}");
    }
}

/// How the databases begin the names of types of whole numbers and of truths.
const WHOLE: [&str; 4] = ["INT", "BIGINT", "TINYINT", "BOOL"];

/// What a generator puts into a column, as a text that every type reads.
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

/// Where a column of an account stands, when not under its own name.
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

/// The database of a gateway that is kept off the server.
fn file_of(home: &Home) -> Database {
    Database::file(home.data_dir().join("switchyard.db"))
}

/// A database in which every column of a backup says something.
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

/// Holds two documents against each other, array by array, so that a difference can be read.
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
    // Once more into the same place: every row is found again.
    let again = import(&fresh, &first);
    assert_eq!((&again["counts"]["created"], &again["counts"]["deleted"]), (&json!(0), &json!(0)), "{again}");
    same(&export(&fresh), &first);
}
