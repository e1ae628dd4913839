//! Imported data that the API would not accept: left out, refused or converted, and reported.

use serde_json::{Value, json};

use super::{IMPORT, export, import, refused, rows, small};
use crate::support::{Gateway, Upstream};

#[test]
fn what_cannot_be_used_is_taken_and_named() {
    let gateway = Gateway::start();
    let mut document = small();
    document["accounts"]["sites"] = json!([
        {"id": 7, "name": "one", "url": "https://one.example", "platform": "of-the-future"},
        {"id": 8, "name": "two", "url": "file:///etc/passwd", "platform": "new-api"},
        {"id": 9, "name": "three", "url": "https://three.example", "platform": "new-api", "proxyUrl": "nonsense"},
        {"id": 10, "name": "sound", "url": "https://four.example", "platform": "new-api", "proxyUrl": "socks5://p.example:1"},
        {"id": 11, "name": "split", "url": "https://five.example", "platform": "new-api",
         "customHeaders": {"x-team": "a\r\nx-forged: 1"}}]);
    document["accounts"]["tokenRoutes"][0]["modelPattern"] = json!("re:(");
    document["accounts"]["accounts"][0]["proxyUrl"] = json!("ftp://p.example");
    document["accounts"]["downstreamApiKeys"] = json!([{"name": "k", "key": "no-prefix-of-ours"}]);
    for query in ["?dryRun=1", ""] {
        let answer =
            gateway.admin().post(&format!("{IMPORT}{query}"), &json!({ "data": document })).expect(200);
        let warnings: Vec<&str> =
            answer["warnings"].as_array().expect("warnings").iter().filter_map(Value::as_str).collect();
        let expected = [
            "sites 7 (one): the platform",
            "sites 8 (two): its address",
            "sites 9 (three): its proxy",
            "sites 11 (split): customHeaders: Header \"x-team\" has characters",
            "accounts 9 (ann): its proxy",
            "tokenRoutes 3 (re:(): its pattern is invalid",
            "downstreamApiKeys (k): it does not begin with sk-",
        ];
        assert_eq!(warnings.len(), expected.len(), "{warnings:?}");
        for (warning, beginning) in warnings.iter().zip(expected) {
            assert!(warning.starts_with(beginning), "{warning}");
        }
        assert!(!answer.to_string().contains("no-prefix-of-ours"));
    }
}

#[test]
fn addresses_are_checked_as_those_of_the_form_and_lose_their_passwords() {
    let gateway = Gateway::start();
    let mut document = small();
    let endpoint = |id: i64, url: &str| json!({"id": id, "siteId": 7, "url": url});
    document["accounts"]["sites"] = json!([
        {"id": 7, "name": "one", "url": "https://me:SECRET@one.example/v1", "platform": "new-api",
         "externalCheckinUrl": "https://me:SECRET@c.example/in?day=1"},
        {"id": 8, "name": "two", "url": "ftp://me:SECRET@two.example", "platform": "new-api",
         "externalCheckinUrl": "https://c.example:0"}]);
    document["accounts"]["siteApiEndpoints"] = json!([
        endpoint(1, "https://me:SECRET@e.example/v1?key=SECRET#f"),
        endpoint(2, "abc"),
        endpoint(3, "ftp://me:SECRET@e.example")
    ]);
    document["accounts"]["accounts"] = json!([]);
    document["accounts"]["routeChannels"] = json!([]);
    let report = import(&gateway, &document);
    let warnings: Vec<&str> =
        report["warnings"].as_array().expect("warnings").iter().filter_map(Value::as_str).collect();
    let expected = [
        "sites 7 (one): url carries a user name",
        "sites 7 (one): externalCheckinUrl carries a user name",
        "sites 8 (two): its address cannot be used: it has a scheme",
        "sites 8 (two): url carries a user name",
        "sites 8 (two): externalCheckinUrl has a port",
        "siteApiEndpoints 1 (https://e.example/v1): url carries a user name",
        "siteApiEndpoints 2 (abc): its address cannot be used: it has no scheme",
        "siteApiEndpoints 3 (ftp://e.example): its address cannot be used",
        "siteApiEndpoints 3 (ftp://e.example): url carries a user name",
    ];
    assert_eq!(warnings.len(), expected.len(), "{warnings:?}");
    for (warning, beginning) in warnings.iter().zip(expected) {
        assert!(warning.starts_with(beginning), "{warning}");
    }
    let sites = gateway.admin().get("/api/sites").expect(200);
    let urls = |site: &Value| {
        let pool = site["apiEndpoints"].as_array().expect("a pool").iter().map(|row| row["url"].clone());
        (site["url"].clone(), site["externalCheckinUrl"].clone(), pool.collect::<Vec<_>>())
    };
    let sites: Vec<_> = sites.as_array().expect("sites").iter().map(urls).collect();
    let pool = ["https://e.example/v1", "abc", "ftp://e.example"].map(Value::from).to_vec();
    let one = (json!("https://one.example"), json!("https://c.example/in?day=1"), pool);
    assert_eq!(sites, [one, (json!("ftp://two.example"), Value::Null, Vec::new())]);
    for shown in [report.to_string(), export(&gateway).to_string()] {
        assert!(!shown.contains("SECRET"), "{shown}");
    }
}

#[test]
fn a_key_may_not_use_what_comes_under_the_number_of_a_route_that_is_gone() {
    let gateway = Gateway::start();
    gateway.add("ours", &Upstream::start(&["x1", "x2", "x3"]));
    let body = json!({"name": "k", "key": "sk-of-a-team-01", "allowedRouteIds": [1, 3]});
    gateway.admin().post("/api/downstream-keys", &body).expect(200);
    gateway.admin().delete("/api/routes/3").expect(200);
    gateway.admin().post(&format!("{IMPORT}?mode=merge"), &json!({"data": small()})).expect(200);
    assert_eq!(gateway.channels("model-a").len(), 1);
    let key = &gateway.admin().get("/api/downstream-keys").expect(200)["items"][0];
    assert_eq!(key["allowedRouteIds"], json!([1]), "{key}");
}

#[test]
fn values_that_the_api_would_not_take_are_left_out_and_named() {
    let gateway = Gateway::start();
    let mut document = small();
    let site = &mut document["accounts"]["sites"][0];
    for (member, value) in [
        ("globalWeight", json!(0)),
        ("sortOrder", json!(-1)),
        ("maxConcurrency", json!(10_001)),
        ("externalCheckinUrl", json!("ftp://x.example")),
        ("customHeaders", json!("nope")),
        ("status", json!("zzz")),
    ] {
        site[member] = value;
    }
    let account = &mut document["accounts"]["accounts"][0];
    (account["balance"], account["unitCost"]) = (json!(1e308), json!(-5));
    document["accounts"]["downstreamApiKeys"] =
        json!([{"name": "k", "key": "sk-0123456789", "siteWeightMultipliers": {"5": 0}}]);
    document["accounts"]["routeChannels"][0]["priority"] = json!(-5);
    let token = |id: i64| json!({"id": id, "accountId": 9, "name": format!("t{id}"), "token": format!("sk-{id}"), "isDefault": true});
    document["accounts"]["accountTokens"] = json!([token(1), token(2), token(3)]);
    let report = import(&gateway, &document);
    let warnings = report["warnings"].to_string();
    for member in [
        "globalWeight",
        "sortOrder",
        "maxConcurrency",
        "externalCheckinUrl",
        "customHeaders",
        "status",
        "siteWeightMultipliers",
        "balance",
        "unitCost",
        "routeChannels 5 (model-a): priority",
        "accountTokens 2: its account has another default token",
        "accountTokens 3: its account has another default token",
    ] {
        assert!(warnings.contains(member), "{member}: {warnings}");
    }
    let exported = export(&gateway);
    let defaults = rows(&exported, "accountTokens").iter().filter(|token| token["isDefault"] == true);
    assert_eq!(defaults.map(|token| &token["name"]).collect::<Vec<_>>(), ["t1"]);
    assert_eq!(rows(&exported, "routeChannels")[0]["priority"], 0);
    let site = &gateway.admin().get("/api/sites").expect(200)[0];
    for (member, expected) in [
        ("globalWeight", json!(1)),
        ("sortOrder", json!(0)),
        ("maxConcurrency", Value::Null),
        ("externalCheckinUrl", Value::Null),
        ("status", json!("active")),
    ] {
        assert_eq!(site[member], expected, "{member}");
    }
}

#[test]
fn a_key_whose_limits_cannot_be_read_is_refused() {
    let gateway = Gateway::start();
    for (member, value) in [
        ("maxCost", json!(-1)),
        ("maxRequests", json!(-1)),
        ("maxConcurrency", json!(-1)),
        ("requestsPerMinute", json!(-1)),
        ("tokensPerMinute", json!(-1)),
        ("allowedIps", json!(["nope"])),
        ("budgets", json!([{"period": "now and then", "maxCost": 1}])),
        ("budgets", json!("[{}]")),
        ("excludedSiteIds", json!("[\"north\"]")),
        ("excludedCredentialRefs", json!([{"kind": "zz", "siteId": 7, "accountId": 9}])),
    ] {
        let mut document = small();
        let mut key = json!({"name": "k", "key": "sk-0123456789"});
        key[member] = value;
        document["accounts"]["downstreamApiKeys"] = json!([key]);
        let refused = gateway.admin().post(IMPORT, &json!({ "data": document })).expect(400);
        assert!(refused["message"].as_str().is_some_and(|why| why.contains(member)), "{refused}");
    }
}

#[test]
fn the_lists_of_a_key_are_read_as_the_api_reads_them() {
    let gateway = Gateway::start();
    let mut document = small();
    let tags: Vec<Value> = (0..30).map(|number| format!("tag {number}").into()).collect();
    document["accounts"]["downstreamApiKeys"] = json!([
        {"id": 1, "name": "k", "key": "sk-0123456789", "tags": r#"["a", 5, " A "]"#, "supportedModels": r#"["m1", 5]"#,
         "allowedRouteIds": ["3", {}], "excludedSiteIds": r#"["7"]"#, "groupName": "g".repeat(100),
         "excludedCredentialRefs": [{"kind": "default_api_key", "siteId": "7", "accountId": "9", "tokenId": null}]},
        {"id": 2, "name": "l", "key": "sk-1123456789", "tags": tags}]);
    let warnings = import(&gateway, &document)["warnings"].to_string();
    for member in ["tags", "supportedModels", "allowedRouteIds"] {
        let warning = format!("downstreamApiKeys (k): 1 member(s) of {member} cannot be read");
        assert!(warnings.contains(&warning), "{member}: {warnings}");
    }
    assert!(!warnings.contains("no row"), "{warnings}");
    let keys = gateway.admin().get("/api/downstream-keys").expect(200)["items"].clone();
    let key = &keys[1];
    for (member, expected) in [
        ("tags", json!(["a"])),
        ("supportedModels", json!(["m1"])),
        ("allowedRouteIds", json!([3])),
        ("excludedSiteIds", json!([7])),
        ("groupName", json!("g".repeat(64))),
        ("excludedCredentialRefs", json!([{"kind": "default_api_key", "siteId": 7, "accountId": 9}])),
    ] {
        assert_eq!(key[member], expected, "{member}");
    }
    assert_eq!(keys[0]["tags"].as_array().map(Vec::len), Some(20));
}

#[test]
fn an_account_comes_over_whatever_another_program_left_in_its_extra_config() {
    let gateway = Gateway::start();
    for (written, left, left_out) in [
        (json!("no JSON"), Value::Null, &["extraConfig"][..]),
        (json!("[1]"), Value::Null, &["extraConfig"]),
        (
            json!(r#"{"platformUserId":"7","useSystemProxy":"1","note":"x"}"#),
            json!({"platformUserId": 7, "useSystemProxy": true, "note": "x"}),
            &[],
        ),
        (
            json!(r#"{"platformUserId":[],"useSystemProxy":"perhaps","credentialMode":5,"proxyUrl":{}}"#),
            Value::Null,
            &["credentialMode", "platformUserId", "proxyUrl", "useSystemProxy"],
        ),
        (
            json!({"autoRelogin": {"username": "ann", "password": 5, "updatedAt": "once"}, "runtimeHealth": {"checkedAt": []}}),
            json!({"autoRelogin": {"username": "ann"}}),
            &["autoRelogin.password", "autoRelogin.updatedAt", "runtimeHealth.checkedAt"],
        ),
        (
            json!({"sub2apiAuth": {"refreshToken": "r", "tokenExpiresAt": "soon"}, "oauth": {"tokenExpiresAt": true}}),
            json!({"sub2apiAuth": {"refreshToken": "r"}}),
            &["sub2apiAuth.tokenExpiresAt", "oauth.tokenExpiresAt"],
        ),
        (
            json!({"oauth": {"refreshToken": {"a": 1}, "providerData": {"b": 2}}}),
            json!({"oauth": {"providerData": {"b": 2}}}),
            &["oauth.refreshToken"],
        ),
    ] {
        let mut document = small();
        document["accounts"]["accounts"][0]["extraConfig"] = written.clone();
        let report = import(&gateway, &document);
        let warnings = report["warnings"].as_array().map_or(0, Vec::len);
        assert_eq!(warnings, left_out.len(), "{report}");
        for name in left_out {
            assert!(report["warnings"].to_string().contains(name), "{name}: {report}");
        }
        let exported = export(&gateway);
        let kept = &rows(&exported, "accounts")[0]["extraConfig"];
        let kept: Value = kept.as_str().map_or(Value::Null, |text| serde_json::from_str(text).expect("JSON"));
        assert_eq!(kept, left, "{written}");
    }
    let mut document = small();
    document["accounts"]["accounts"][0]["extraConfig"] = json!(7);
    assert!(refused(&gateway, &document).contains("extraConfig"));
}

#[test]
fn a_setting_without_a_key_is_named_by_its_place() {
    let gateway = Gateway::start();
    let mut document = small();
    document["preferences"] =
        json!({"settings": [{"key": "proxy_token", "value": "sk-a-new-proxy-token"}, {"value": 1}]});
    let report = import(&gateway, &document);
    assert_eq!(report["warnings"], json!(["settings[1] skipped: it has no key"]));
}

#[test]
fn an_object_in_place_of_a_credential_is_refused() {
    let gateway = Gateway::start();
    let token = json!({"id": 1, "accountId": 9, "name": "t", "token": "sk-t"});
    for (array, member) in [("accounts", "apiToken"), ("accounts", "accessToken"), ("accountTokens", "token")]
    {
        for object in [json!({"a": 1}), json!({})] {
            let mut document = small();
            document["accounts"]["accountTokens"] = json!([token]);
            document["accounts"][array][0][member] = object;
            let message = refused(&gateway, &document);
            assert!(message.contains(&format!("{array}[].{member}")), "{message}");
        }
    }
}

#[test]
fn a_site_is_ours_by_whatever_name_its_platform_goes_and_headers_have_one_form() {
    let gateway = Gateway::start();
    let mut document = small();
    document["accounts"]["sites"][0]["platform"] = json!("NewAPI");
    document["accounts"]["sites"][0]["customHeaders"] =
        json!("{\"X-B\": \"2\", \"host\": \"evil\", \"a\": \"1\"}");
    let report = import(&gateway, &document);
    assert!(
        report["warnings"].to_string().contains("Header \\\"host\\\" is set by the gateway itself"),
        "{report}"
    );
    let site = &gateway.admin().get("/api/sites").expect(200)[0];
    assert_eq!((&site["platform"], &site["url"]), (&json!("new-api"), &json!("https://one.example")));
    let again = json!({"name": "again", "url": "https://one.example", "platform": "new-api"});
    gateway.admin().post("/api/sites", &again).expect(409);
    let exported = export(&gateway);
    assert_eq!(rows(&exported, "sites")[0]["customHeaders"], "{\"a\":\"1\",\"x-b\":\"2\"}");
}

#[test]
fn a_password_opens_under_the_secret_that_is_given_for_imports() {
    // Sealed with node:crypto under the SHA-256 of `the old secret`, as metapi does.
    let sealed = "v1:AAECAwQFBgcICQoL:Gx1e1cB8mXbBoL6xndVSLg:0_zTFYvhFvujzc93";
    let gateway = Gateway::with(&[("IMPORT_CREDENTIAL_SECRET", "the old secret")]);
    let mut document = small();
    document["accounts"]["accounts"][0]["extraConfig"] =
        json!({"autoRelogin": {"username": "ann", "passwordCipher": sealed}});
    let report = import(&gateway, &document);
    assert!(report.get("warnings").is_none(), "{report}");
    let config = rows(&export(&gateway), "accounts")[0]["extraConfig"].to_string();
    assert!(config.contains("pässword: 1"), "{config}");
}

#[test]
fn what_another_gateway_has_counted_is_counted_on_and_never_taken_away() {
    let gateway = Gateway::start();
    let mut document = small();
    let day = |model: &str, calls: i64| {
        json!({"localDay": "2026-01-02", "siteId": 7, "model": model, "timeZone": "Asia/Shanghai", "calls": calls,
            "ok": calls, "tokens": 10, "cost": 0.5, "latencyMs": 20, "latencyCount": calls})
    };
    document["accounts"]["usageDays"] = json!([day("model-a", 2), day("model-b", 3)]);
    let summary = import(&gateway, &document);
    let days = || {
        gateway.admin().get("/api/stats/dashboard?view=summary&refresh=1").expect(200)["totalUsed"].clone()
    };
    assert_eq!(days(), 1, "{summary}");
    for sums in [json!([day("model-a", 9), day("model-c", 1)]), json!([])] {
        document["accounts"]["usageDays"] = sums;
        import(&gateway, &document);
        assert_eq!(days(), 1.5);
    }
    assert!(export(&gateway)["accounts"].get("usageDays").is_none());
}

#[test]
fn what_a_newer_release_wrote_and_this_one_does_not_know_is_named() {
    let gateway = Gateway::start();
    import(&gateway, &small());
    let mut document = export(&gateway);
    assert_eq!(import(&gateway, &document)["warnings"], Value::Null, "nothing in our own export is unknown");
    document["checksum"] = Value::Null;
    document["version"] = json!("99");
    document["accounts"]["sites"][0]["zed"] = json!(1);
    document["accounts"]["zzz"] = json!([1]);
    document["more"] = json!({});
    // Members of other programs' documents are not listed.
    let mut unmarked = small();
    unmarked["accounts"]["sites"][0]["zed"] = json!(1);
    assert_eq!(import(&gateway, &unmarked)["warnings"], Value::Null);
    // A script that writes our own document anew may leave its mark out.
    let mut anew = document.clone();
    anew.as_object_mut().expect("an object").remove("format");
    let warnings = import(&gateway, &document)["warnings"].clone();
    assert_eq!(import(&gateway, &anew)["warnings"], warnings);
    let expected = [
        "the document has version \"99\", and this release writes version 2.1: what it does not know is left out",
        "more: an unknown member of the document",
        "zzz: an unknown array",
        "sites[].zed: an unknown column",
    ];
    assert_eq!(warnings, json!(expected));
}

#[test]
fn groups_in_groups_are_left_out() {
    let gateway = Gateway::start();
    let mut document = small();
    let routes = document["accounts"]["tokenRoutes"].as_array_mut().expect("routes");
    for (id, name) in [(4, "g"), (6, "h")] {
        routes.push(
            json!({"id": id, "modelPattern": name, "displayName": name, "routeMode": "explicit_group"}),
        );
    }
    document["accounts"]["routeGroupSources"] = json!([{"groupRouteId": 4, "sourceRouteId": 3},
        {"groupRouteId": 4, "sourceRouteId": 6}, {"groupRouteId": 6, "sourceRouteId": 6}]);
    let warnings = import(&gateway, &document)["warnings"].to_string();
    assert!(warnings.contains("route 6 is a group and cannot be a source of group 4"), "{warnings}");
    assert!(warnings.contains("route 6 is a group and cannot be a source of group 6"), "{warnings}");
    assert_eq!(rows(&export(&gateway), "routeGroupSources").len(), 1);
}

#[test]
fn a_key_of_which_only_the_mask_came_is_not_used() {
    let gateway = Gateway::start();
    let mut document = small();
    let account = &mut document["accounts"]["accounts"][0];
    account["accessToken"] = json!("session-of-ann");
    account["apiToken"] = json!("abcd****wxyz");
    document["accounts"]["accountTokens"] = json!([
        {"id": 7, "accountId": 9, "token": "abcd****wxyz", "enabled": true, "isDefault": true},
        {"id": 8, "accountId": 9, "token": "sk-disabled-0000001", "enabled": false},
        {"id": 9, "accountId": 9, "token": "sk-usable-000000001", "enabled": true},
        {"id": 10, "accountId": 9, "token": "sk-usable-000000002", "enabled": true}]);
    let warnings = import(&gateway, &document)["warnings"].to_string();
    assert!(warnings.contains("accounts 9 (ann): apiToken is only the mask of a key"), "{warnings}");
    let document = export(&gateway);
    let tokens: Vec<(i64, bool, bool)> = rows(&document, "accountTokens")
        .iter()
        .map(|token| {
            (token["id"].as_i64().unwrap_or(0), token["enabled"] == true, token["isDefault"] == true)
        })
        .collect();
    assert_eq!(tokens, [(7, false, false), (8, false, false), (9, true, true), (10, true, false)]);
    assert_eq!(rows(&document, "accounts")[0]["apiToken"], Value::Null);
}

#[test]
fn the_mask_of_a_secret_is_not_stored_as_the_secret() {
    let gateway = Gateway::start();
    let mut document = small();
    let site = &mut document["accounts"]["sites"][0];
    site["customHeaders"] = json!({"x-key": "abcd****wxyz", "x-team": "blue"});
    site["proxyUrl"] = json!("http://me:****@p.example");
    let account = &mut document["accounts"]["accounts"][0];
    account["accessToken"] = json!("abcd****wxyz");
    account["proxyUrl"] = json!("socks5://me:****@p.example");
    let webdav = json!({"fileUrl": "https://dav.example/b.json", "username": "me", "password": "ab****yz"});
    document["preferences"] = json!({"settings": [{"key": "backup_webdav_config_v1", "value": webdav}]});
    let report = import(&gateway, &document);
    let warnings = report["warnings"].to_string();
    for word in [
        "sites 7 (one): customHeaders: Header \\\"x-key\\\" is only the mask",
        "sites 7 (one): its proxy address has only the mask",
        "accounts 9 (ann): accessToken is only the mask",
        "accounts 9 (ann): its proxy address has only the mask",
        "setting backup_webdav_config_v1 skipped: its password is only the mask",
    ] {
        assert!(warnings.contains(word), "{word}: {warnings}");
    }
    let kept = export(&gateway);
    assert_eq!(rows(&kept, "sites")[0]["customHeaders"], "{\"x-team\":\"blue\"}");
    assert_eq!(rows(&kept, "accounts")[0]["accessToken"], "");
    assert!(!kept.to_string().contains("ab****yz"), "{kept}");

    document["accounts"]["downstreamApiKeys"] = json!([{"name": "k", "key": "sk-a****wxyz"}]);
    let why = refused(&gateway, &document);
    assert!(why.contains("downstreamApiKeys[].key") && why.contains("mask"), "{why}");
}

#[test]
fn a_name_with_control_characters_becomes_a_line() {
    let gateway = Gateway::start();
    let mut document = small();
    document["accounts"]["sites"][0]["name"] = json!("one\u{1b}[2J\ntwo");
    document["accounts"]["downstreamApiKeys"] = json!([{"name": "team\r\na\u{0}", "key": "sk-of-a-team", "groupName": "g\u{7}h",
        "tags": ["prod\neu", "\n", "x"], "description": "first\nsecond\u{1b}\u{0}"}]);
    let warnings = import(&gateway, &document)["warnings"].to_string();
    for word in
        ["sites 7 (one [2J two): name has", "downstreamApiKeys (team a): name has", "(team a): groupName has"]
    {
        assert!(warnings.contains(word), "{word}: {warnings}");
    }
    let document = export(&gateway);
    assert_eq!(rows(&document, "sites")[0]["name"], "one [2J two");
    let key = &rows(&document, "downstreamApiKeys")[0];
    for (member, text) in [
        ("name", "team a"),
        ("groupName", "g h"),
        ("tags", "[\"prod eu\",\"x\"]"),
        ("description", "first\nsecond"),
    ] {
        assert_eq!(key[member], text, "{member}");
    }
}
