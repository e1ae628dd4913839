//! Backups through the admin API: what is exported, what is imported, and what is kept.

mod deleted_rows;
mod round_trip;
mod under_way;
mod unlike_ours;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::support::paths::{EXPORT, IMPORT};
use crate::support::{Answer, Gateway, Request, Upstream, eventually};

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

/// Removes the members of a document that tell when and where it was made.
fn lasting(mut document: Value) -> Value {
    let members = document.as_object_mut().expect("an object");
    members.remove("timestamp").expect("a timestamp");
    members.remove("checksum").expect("a checksum");
    members.remove("installation").expect("an installation");
    document
}

/// Builds a small document in the format of other programs' backups.
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
    assert_eq!(upstream.asked_for("/v1/models").len(), 0, "no request was sent");
    assert_eq!(chat(&gateway, "model-a").status, 200);
    assert_eq!(gateway.models(), ["model-a"]);
    assert_eq!(upstream.last("/v1/chat/completions").header("authorization"), Some("Bearer sk-of-ann"));
    // Also after a restart, which rebuilds the routes from the known models.
    let gateway = gateway.restart();
    eventually("the model is served after a start", || {
        (chat(&gateway, "model-a").status == 200).then_some(())
    });
}

#[test]
fn an_import_keeps_what_happened_here() {
    let (gateway, _upstream) = Gateway::serving(&["model-a"]);
    let key = json!({"name": "k", "key": "sk-downstream-key-1", "supportedModels": ["*"]});
    let key_id = gateway.admin().post("/api/downstream-keys", &key).expect(200)["item"]["id"].clone();
    let caller = gateway.with_token("sk-downstream-key-1");
    let body = json!({"model": "model-a", "messages": [{"role": "user", "content": "hi"}]});
    caller.post("/v1/chat/completions", &body).expect(200);
    gateway.wait_for_logs(1);
    let document = export(&gateway);
    let logs = gateway.logs();
    let used = |gateway: &Gateway| {
        let keys = gateway.admin().get("/api/downstream-keys").expect(200);
        let keys = keys["items"].as_array().expect("keys").clone();
        assert_eq!(keys.len(), 1);
        (keys[0]["id"].clone(), keys[0]["usedRequests"].clone())
    };
    assert_eq!(used(&gateway), (key_id.clone(), json!(1)));
    // A site and a key that only exist here are deleted; their log stays.
    let other =
        gateway.create_site(&json!({"name": "other", "url": "https://other.example", "platform": "openai"}));
    let guest = json!({"name": "guest", "key": "sk-downstream-key-2", "supportedModels": ["*"]});
    let guest = gateway.add_key(&guest);
    guest.post("/v1/chat/completions", &body).expect(200);
    gateway.wait_for_logs(2);
    let before = gateway.channels("model-a");
    import(&gateway, &document);
    assert_eq!(used(&gateway), (key_id, json!(1)));
    let kept = gateway.logs();
    assert_eq!(kept[0]["downstreamApiKeyId"], Value::Null, "{kept:?}");
    assert_eq!(kept[1..], logs);
    let after = gateway.channels("model-a");
    assert_eq!(before[0]["id"], after[0]["id"]);
    assert_eq!(before[0]["successCount"], after[0]["successCount"]);
    let sites = gateway.admin().get("/api/sites").expect(200);
    assert!(!sites.as_array().expect("sites").iter().any(|site| site["id"] == other["id"]), "{sites}");
    // Arrays that older documents lack leave the present data unchanged.
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
    // The route has the same id; the site has another.
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

/// The expected message, and a change to a document.
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

/// Adds a key, one member of which is this text, to a document.
fn key_with(document: &mut Value, member: &str, text: &str) {
    let mut key = json!({"id": 1, "name": "k", "key": "sk-of-a-document-1"});
    key[member] = json!(text);
    document["accounts"]["downstreamApiKeys"] = json!([key]);
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
        ("need the arrays", &|document| document["accounts"]["tokenRoutes"] = json!({})),
        ("need the arrays", &|document| {
            document["preferences"] = json!({"settings": [{"key": "notify_cooldown_sec", "value": 77}]});
            drop(document["accounts"].as_object_mut().expect("accounts").remove("tokenRoutes"));
        }),
        ("need the array settings", &|document| document["preferences"] = json!({})),
        ("preferences", &|document| document["type"] = json!("preferences")),
        ("siteApiEndpoints", &|document| document["accounts"]["siteApiEndpoints"] = json!({})),
        ("checksum", &|document| document["checksum"] = json!("sha256:00")),
        ("checksum", &|document| document["checksum"] = json!(7)),
        ("siteId 8", &|document| document["accounts"]["accounts"][0]["siteId"] = json!(8)),
        ("routeId 4", &|document| document["accounts"]["routeChannels"][0]["routeId"] = json!(4)),
        ("tokenId 1", &|document| document["accounts"]["routeChannels"][0]["tokenId"] = json!(1)),
        ("tokenId 5 is a token of another account", &|document| {
            let accounts = &mut document["accounts"];
            let mut other = accounts["accounts"][0].clone();
            (other["id"], other["username"], other["apiToken"]) =
                (json!(99), json!("other"), json!("sk-other"));
            accounts["accounts"].as_array_mut().expect("accounts").push(other);
            accounts["accountTokens"] =
                json!([{"id": 5, "accountId": 99, "name": "t", "token": "sk-of-other"}]);
            accounts["routeChannels"][0]["tokenId"] = json!(5);
        }),
        ("allowedIps", &|document| key_with(document, "allowedIps", "[\"10.0.0.1\"")),
        ("budgets", &|document| key_with(document, "budgets", "[{")),
        ("excludedSiteIds", &|document| key_with(document, "excludedSiteIds", "[1")),
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
    for query in ["mode=x", "conflict=x", "dryRun=x", "dryRun=", "dryRun"] {
        gateway.admin().post(&format!("{IMPORT}?{query}"), &json!({ "data": small() })).expect(400);
    }
}

#[test]
fn a_flipped_byte_anywhere_imports_nothing() {
    let gateway = Gateway::start();
    let mut document = small();
    document["accounts"]["accounts"][0]["username"] = json!("änn \"quoted\" \\ back\u{7f}");
    // The models of an active site are asked for again and again, which changes the health of its account.
    document["accounts"]["sites"][0]["status"] = json!("disabled");
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
fn a_checksum_may_cover_numbers_as_a_script_writes_them() {
    let gateway = Gateway::start();
    let document = r#"{"accounts":{"accountTokens":[],"accounts":[{"apiToken":"sk-of-ann","id":9,"siteId":7,"unitCost":3e-05}],"routeChannels":[],"sites":[{"globalWeight":2.0,"id":7,"name":"one","platform":"new-api","url":"https://one.example"}],"tokenRoutes":[]},"timestamp":1772352000000,"version":"2.1"}"#;
    let digest = ring::digest::digest(&ring::digest::SHA256, document.as_bytes());
    let digest: String = digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    let summed = |text: &str| text.replacen('{', &format!("{{\"checksum\": \"sha256:{digest}\", "), 1);
    let import = |text: String| {
        let body = format!("{{\"data\": {text}}}");
        gateway.admin().send(Request::new("POST", IMPORT).json_text(body))
    };
    let damaged = import(summed(&document.replace("2.0", "2.5"))).expect(400);
    assert!(damaged["message"].as_str().is_some_and(|message| message.contains("checksum")), "{damaged}");
    import(summed(document)).expect(200);
    let exported = export(&gateway);
    assert_eq!(
        (&rows(&exported, "sites")[0]["globalWeight"], &rows(&exported, "accounts")[0]["unitCost"]),
        (&json!(2), &json!(0.00003))
    );
}

#[test]
fn a_document_may_begin_with_a_byte_order_mark() {
    let gateway = Gateway::start();
    let text = format!("\u{feff}{}", json!({ "data": small() }));
    gateway.admin().send(Request::new("POST", IMPORT).json_text(text)).expect(200);
    assert_eq!(rows(&export(&gateway), "sites").len(), 1);
}

#[test]
fn a_section_is_found_at_the_root_in_its_member_and_in_data() {
    for nest in [
        (&|accounts: &Value| {
            let mut document = accounts.clone();
            document["timestamp"] = json!(1);
            document["format"] = json!("switchyard");
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
        {"key": "smtp_pass", "value": "keep****e123"},
        {"key": "proxy_error_keywords", "value": "[\"q\",\"w\"]"},
        {"key": "codex_header_defaults", "value": {"user-agent": "agent/1", "beta-features": "one"}},
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
        [
            "codex_header_defaults",
            "notify_cooldown_sec",
            "proxy_error_keywords",
            "proxy_token",
            "webhook_url"
        ]
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
            "no_such_setting",
            "smtp_pass"
        ]
    );
    let runtime = gateway.admin().get("/api/settings/runtime").expect(200);
    assert_eq!(runtime["notifyCooldownSec"], 77);
    assert_eq!(runtime["proxyErrorKeywords"], json!(["q", "w"]));
    assert_eq!(runtime["codexHeaderDefaults"], json!({"userAgent": "agent/1", "betaFeatures": "one"}));
    gateway.client().get("/v1/models").expect(403);
    gateway.with_token("sk-a-new-proxy-token").get("/v1/models").expect(200);
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
        assert_eq!(answer["allImported"], false, "a row is refused");
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
            ("settings", "codex_header_defaults", "created"),
        ];
        let expected =
            expected.map(|(section, name, action)| (section.to_owned(), name.to_owned(), action.to_owned()));
        assert_eq!(fates, expected.into_iter().collect());
        assert_eq!(
            answer["counts"],
            json!({"created": 3, "updated": 4, "skipped": 1, "refused": 1, "deleted": 0})
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

#[test]
fn lists_and_maps_of_a_key_are_filled_where_they_are_empty() {
    let gateway = Gateway::start();
    let imported = |key: &Value, query: &str| {
        let mut document = small();
        document["accounts"]["downstreamApiKeys"] = json!([key]);
        gateway.admin().post(&format!("{IMPORT}?{query}"), &json!({ "data": document })).expect(200);
        gateway.admin().get("/api/downstream-keys").expect(200)["items"][0].clone()
    };
    let poor = json!({"name": "k", "key": "sk-of-a-team-01", "supportedModels": [], "allowedRouteIds": []});
    let mut rich = json!({"name": "k", "key": "sk-of-a-team-01", "tags": ["a"], "excludedSiteIds": [7],
        "siteWeightMultipliers": {"7": 2.5}, "excludedCredentialRefs":
        [{"kind": "default_api_key", "siteId": 7, "accountId": 9}]});
    imported(&poor, "mode=merge");
    rich["supportedModels"] = json!(["m"]);
    let filled = imported(&rich, "mode=merge&conflict=fill");
    for member in ["tags", "excludedSiteIds", "siteWeightMultipliers", "excludedCredentialRefs"] {
        assert_eq!(filled[member], rich[member], "{member}");
    }
    assert_eq!(filled["supportedModels"], json!([]), "two empty lists allow nothing");
    rich["tags"] = json!(["b"]);
    assert_eq!(imported(&rich, "mode=merge&conflict=fill")["tags"], json!(["a"]));
}
