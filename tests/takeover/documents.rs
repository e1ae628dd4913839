//! Documents of other programs: JSON and YAML.

use serde_json::{Value, json};

use super::{Move, channel, channels, find, list};
use crate::support::{self, Gateway, Request, Setup, Upstream};

#[test]
fn an_export_of_all_api_hub_becomes_sessions_and_keys() {
    let info = |id: &str, token: &str, quota: f64| {
        json!({"id": id, "access_token": token, "username": format!("user-{id}"), "quota": quota,
            "today_quota_consumption": 250_000})
    };
    let file = json!({
        "version": "4.0", "timestamp": 1_772_352_000_000_i64, "type": "accounts",
        "accounts": {"last_updated": 1, "bookmarks": [{"name": "b"}], "pinnedAccountIds": ["a3", "gone"], "orderedAccountIds": ["a3", "a1", 7],
            "accounts": [
                {"id": "a1", "site_name": "One", "site_url": "https://one.example/console", "site_type": "new-api",
                    "authType": "access_token", "account_info": info("42", "session-1", 1_000_000.0), "disabled": false, "created_at": 1_767_323_045_000_i64,
                    "checkIn": {"autoCheckInEnabled": false, "enableDetection": true, "customCheckIn": {"url": "https://secret.example/path"}},
                    "health": {"status": "healthy"}, "exchange_rate": 7.2, "tagIds": ["t1"], "excludeFromTotalBalance": false,
                    "invented": "a-hidden-secret", "notes": "a note"},
                {"id": "a2", "site_name": "One again", "site_url": "https://ONE.example", "site_type": "wong-gongyi",
                    "authType": "cookie", "cookieAuth": {"sessionCookie": "session=abc"}, "disabled": true,
                    "account_info": info("43", "", 12.5)},
                {"id": "a3", "site_name": "Sub", "site_url": "https://sub.example", "site_type": "sub2api",
                    "authType": "access_token", "account_info": info("7", "jwt-1", 3.0),
                    "sub2apiAuth": {"refreshToken": "refresh-1", "tokenExpiresAt": 4_102_444_800_000_i64}},
                {"id": "a4", "site_name": "Direct", "site_url": "https://direct.example", "site_type": "openai",
                    "authType": "access_token", "account_info": info("x", "sk-direct", 0.0)},
                {"id": "a5", "site_name": "None", "site_url": "https://none.example", "site_type": "new-api",
                    "authType": "none", "account_info": info("9", "unused-secret", 0.0)},
                {"id": "a6", "site_name": "Bad", "site_url": "not a url", "site_type": "new-api",
                    "authType": "access_token", "account_info": info("9", "unused-secret", 0.0)},
                {"id": "a1", "site_name": "One", "site_url": "https://one.example", "site_type": "new-api",
                    "authType": "access_token", "account_info": info("42", "session-1", 5.0)},
                "no object",
                {"id": "a9", "site_name": "Unusable", "site_url": "https://unusable.example", "site_type": "new-api",
                    "authType": "access_token", "account_info": info("9", "unused\nsecret", 0.0)},
            ]},
        "apiCredentialProfiles": {"profiles": [
            {"id": "p1", "name": "Claude key", "apiType": "anthropic", "baseUrl": "https://anthropic.example/v1", "apiKey": "sk-ant-1"},
            {"id": "p2", "name": "No key", "apiType": "openai", "baseUrl": "https://x.example"}]},
        "tagStore": {"tags": [1]}, "channelConfigs": {}, "preferences": {"theme": "dark"},
    });
    let moving = Move::of_text("all-api-hub.json", &file.to_string());
    let told = moving.import(&[]);
    for told_of in [
        "accounts[4]",
        "accounts[5]",
        "accounts[6]",
        "accounts[7]",
        "profiles[1] “No key”: its baseUrl",
        "bookmarks",
        "tagStore",
        "preferences",
        "accounts[].health (1 accounts)",
        "accounts[].exchange_rate (1 accounts)",
        "accounts[].tagIds (1 accounts)",
        "accounts[].checkIn.customCheckIn (1 accounts)",
        "accounts[].invented (1 accounts): an unknown member",
    ] {
        assert!(told.contains(told_of), "{told_of} in {told}");
    }
    assert!(!told.contains("excludeFromTotalBalance"), "what says nothing is not told of: {told}");
    for secret in [
        "session-1",
        "session=abc",
        "jwt-1",
        "sk-direct",
        "unused-secret",
        "sk-ant-1",
        "a-hidden-secret",
        "secret.example",
    ] {
        assert!(!told.contains(secret), "{secret} in {told}");
    }
    let gateway = moving.start();
    let sites = list(&gateway, "/api/sites");
    for (url, platform) in [
        ("https://one.example", "new-api"),
        ("https://sub.example", "sub2api"),
        ("https://direct.example", "openai"),
        ("https://anthropic.example", "claude"),
    ] {
        assert_eq!(find(&sites, "url", url)["platform"], platform);
    }
    assert_eq!(sites.len(), 4);
    let accounts = list(&gateway, "/api/accounts");
    assert_eq!(accounts.len(), 5);
    let shown = |name: &str| {
        let account = find(&accounts, "username", name);
        json!([account["credentialMode"], account["status"], account["balance"], account["checkinEnabled"]])
    };
    assert_eq!(find(&accounts, "username", "user-42")["balanceUsed"], 0.5);
    assert_eq!(shown("user-42"), json!(["session", "active", 2, false]));
    assert_eq!(shown("user-43"), json!(["session", "disabled", 12.5, true]));
    assert_eq!(shown("user-7"), json!(["session", "active", 3, true]));
    assert_eq!(shown("user-x"), json!(["apikey", "active", 0, false]));
    assert_eq!(shown("Claude key"), json!(["apikey", "active", 0, false]));
    let arranged = |name: &str| {
        let account = find(&accounts, "username", name);
        (account["isPinned"] == true, account["sortOrder"].as_i64())
    };
    assert_eq!((arranged("user-7"), arranged("user-42")), ((true, Some(0)), (false, Some(1))));
    assert_eq!(find(&accounts, "username", "user-42")["createdAt"], "2026-01-02T03:04:05.000Z");
    let export = gateway.admin().get("/api/settings/backup/export").expect(200);
    let tokens = export["accounts"]["accountTokens"].as_array().expect("tokens").clone();
    assert!(
        tokens.iter().all(|token| token["source"] == "legacy" && token["isDefault"] == true),
        "{tokens:?}"
    );
    assert_eq!(tokens.len(), 2);
}

#[test]
fn every_version_of_all_api_hub_is_known_by_its_rows() {
    let row = json!({"site_name": "S", "site_url": "https://s.example", "site_type": "done",
        "account_info": {"id": 5, "access_token": "t", "username": "u", "quota": 9_999}});
    let at =
        |accounts: Value, version: Value| json!({"version": version, "timestamp": 1, "accounts": accounts});
    for (name, file) in [
        ("1.0", at(json!({"accounts": [row]}), "1.0".into())),
        ("2.0", at(json!({"accounts": [row], "last_updated": 3}), "2.0".into())),
        ("none", at(json!([row]), Value::Null)),
        ("wrapped", json!({"data": {"accounts": {"accounts": [row]}}})),
    ] {
        let moving = Move::of_text("export.json", &file.to_string());
        let told = moving.import(&["--dry-run"]);
        assert!(told.contains("All API Hub") && told.contains("created accounts 1 (u)"), "{name}: {told}");
    }
}

const CLI_PROXY_API: &str = "
port: 8317
auth-dir: \"~/.cli-proxy-api\"
proxy-url: 'socks5://user:pass@192.168.1.1:1080/'
remote-management: {secret-key: \"management-secret\"}
api-keys:
  - \"sk-client-of-the-proxy\"
  - plain-client-key
  - sk-client-of-the-proxy
claude-api-key:
  - api-key: \"sk-claude-1\" # behind a name of our own
    base-url: https://anthropic.example
  - api-key: \"sk-claude-2\"
    base-url: \"https://claude.example\"
    proxy-url: \"http://proxy.example:8080\"
    priority: 5
    headers: {X-Custom: secret-header-value}
    models:
      - name: \"claude-3-5-sonnet-20241022\"
        alias: \"claude-sonnet-latest\"
codex-api-key:
  - {api-key: sk-codex-1, base-url: \"https://codex.example/v1\", proxy-url: direct, request-retry: 2}
xai-api-key:
  - {api-key: xai-1, models: [{name: grok-5}]}
gemini-api-key:
  - {api-key: AIza-1, base-url: \"https://gemini.example\"}
openai-compatibility:
  - name: \"openrouter\"
    base-url: \"https://router.example/api/v1\"
    prefix: team
    api-key-entries:
      - api-key: \"sk-or-1\"
        proxy-url: \"socks5://proxy.example:1080\"
      - api-key: \"sk-or-2\"
    models:
      - {name: \"moonshotai/kimi-k2:free\", alias: \"kimi-k2\"}
      - name: \"plain-model\"
  - name: older
    base-url: https://older.example/v1
    api-keys: [sk-older-1]
  - {name: broken}
";

#[test]
fn the_keys_of_cli_proxy_api_are_taken_without_its_logins() {
    let moving = Move::of_text("config.yaml", CLI_PROXY_API);
    let told = moving.import(&[]);
    for told_of in [
        "api-keys[1]",
        "api-keys[2]",
        "auth-dir",
        "proxy-url",
        "headers",
        "prefix",
        "openai-compatibility[2]",
        "remote-management",
        "codex-api-key[0].request-retry",
    ] {
        assert!(told.contains(told_of), "{told_of} in {told}");
    }
    for secret in
        ["user:pass", "management-secret", "secret-header-value", "sk-client", "plain-client-key", "sk-or-1"]
    {
        assert!(!told.contains(secret), "{secret} in {told}");
    }
    let gateway = moving.start();
    let sites = list(&gateway, "/api/sites");
    for (url, platform) in [
        ("https://anthropic.example", "claude"),
        ("https://claude.example", "claude"),
        ("https://codex.example", "openai"),
        ("https://gemini.example", "gemini"),
        ("https://router.example/api/v1", "openai"),
        ("https://older.example", "openai"),
        ("https://api.x.ai", "openai"),
    ] {
        assert_eq!(find(&sites, "url", url)["platform"], platform, "{url}");
    }
    assert_eq!(sites.len(), 7);
    assert_eq!(list(&gateway, "/api/accounts").len(), 8);
    assert_eq!(channels(&gateway, "grok-5").len(), 1);
    let export = gateway.admin().get("/api/settings/backup/export").expect(200).to_string();
    assert!(!export.contains("direct"), "to go past every proxy is no address of one");
    let of_kimi = channels(&gateway, "kimi-k2");
    let shown =
        of_kimi.iter().map(|(_, model, priority, weight, on)| (model.as_str(), *priority, *weight, *on));
    assert_eq!(shown.collect::<Vec<_>>(), [("moonshotai/kimi-k2:free", 5, 10, true); 2]);
    let of_claude = channels(&gateway, "claude-sonnet-latest");
    assert_eq!((of_claude[0].1.as_str(), of_claude[0].2), ("claude-3-5-sonnet-20241022", 0));
    assert_eq!(channels(&gateway, "plain-model").len(), 2);
    assert_eq!(list(&gateway, "/api/downstream-keys").len(), 1);
    let client = gateway.with_token("sk-client-of-the-proxy");
    assert_eq!(client.get("/v1/models").status, 200);
}

#[test]
fn weights_of_cli_proxy_api_count_where_its_strategy_uses_them() {
    let keys = "
claude-api-key:
  - {api-key: sk-1, weight: 5, models: [{name: m}]}
  - {api-key: sk-2, models: [{name: m}]}
  - {api-key: sk-3, weight: 0, models: [{name: m}]}
";
    let of = |routing: &str| {
        let moving = Move::of_text("config.yaml", &format!("{routing}{keys}"));
        moving.import(&[]);
        let gateway = moving.start();
        let shown = channels(&gateway, "m").into_iter().map(|(_, _, _, weight, on)| (weight, on));
        shown.collect::<Vec<_>>()
    };
    assert_eq!(of("routing: {strategy: weighted-round-robin}"), [(5, true), (1, true), (1, false)]);
    assert_eq!(of("routing: {strategy: round-robin}"), [(10, true); 3]);
}

#[test]
fn the_model_list_of_litellm_becomes_routes() {
    let upstream = Upstream::start(&["up-model"]);
    let yaml = format!("
model_list:
  - model_name: gpt-4o
    litellm_params: {{model: openai/up-model, api_base: {}/v1, api_key: os.environ/LITELLM_KEY_OF_TEST, weight: 3, rpm: 60}}
  - model_name: gpt-4o
    litellm_params:
      model: azure/my-deployment
      api_key: azure-secret
      api_base: https://az.example
  - model_name: claude
    litellm_params: {{model: anthropic/claude-x, api_base: https://anthropic.example, api_key: sk-ant-1, order: 2}}
  - model_name: unset
    litellm_params: {{model: openai/x, api_key: os.environ/NOT_SET_ANYWHERE}}
  - model_name: own
    litellm_params: {{model: openai/x, api_key: os.environ/AUTH_TOKEN, api_base: https://evil.example}}
  - model_name: \"*\"
    litellm_params: {{model: deepseek/*, api_base: https://deep.example, api_key: sk-deep}}
  - model_name: bare
    litellm_params: {{model: meta-llama/llama, custom_llm_provider: hosted_vllm, api_base: \"http://vllm.example:8000/v1\", api_key: none}}
  - model_name: shared
    litellm_params: {{model: openai/s, api_base: https://s1.example, api_key: os.environ/IN_THE_FILE, weight: 0.75}}
    model_info: {{id: one}}
  - model_name: shared
    litellm_params: {{model: openai/s, api_base: https://s2.example, api_key: sk-s2, weight: 0.25}}
environment_variables: {{IN_THE_FILE: sk-in-the-file}}
general_settings: {{master_key: sk-master-secret}}
router_settings:
  routing_strategy: simple-shuffle
  model_group_alias: {{gpt-4: gpt-4o, lost: nothing}}
  fallbacks: [{{gpt-4o: [claude, unset]}}]
litellm_settings: {{drop_params: true}}
", upstream.url());
    let mut moving = Move::of_text("config.yaml", &yaml);
    moving.setup = moving.setup.with("LITELLM_KEY_OF_TEST", "sk-from-the-environment");
    let told = moving.import(&[]);
    for told_of in [
        "azure",
        "NOT_SET_ANYWHERE",
        "AUTH_TOKEN",
        "wildcard",
        "master_key",
        "rpm",
        "routing_strategy",
        "lost",
        "drop_params",
    ] {
        assert!(told.contains(told_of), "{told_of} in {told}");
    }
    assert!(told.contains("model_list[7].model_info"), "{told}");
    for secret in [
        "sk-from-the-environment",
        "azure-secret",
        "sk-ant-1",
        "sk-master-secret",
        "sk-deep",
        "sk-in-the-file",
    ] {
        assert!(!told.contains(secret), "{secret} in {told}");
    }
    let gateway = moving.start();
    assert!(list(&gateway, "/api/sites").iter().all(|site| site["url"] != "https://evil.example"));
    assert_eq!(
        channels(&gateway, "gpt-4o"),
        [channel("gpt-4o", "up-model", 0, 3, true), channel("claude", "claude-x", 3, 10, true)]
    );
    assert_eq!(channels(&gateway, "gpt-4"), [channel("gpt-4o", "up-model", 0, 3, true)]);
    let shared = channels(&gateway, "shared").into_iter().map(|(_, _, _, weight, _)| weight);
    assert_eq!(shared.collect::<Vec<_>>(), [75, 25]);
    let export = gateway.admin().get("/api/settings/backup/export").expect(200).to_string();
    assert!(export.contains("sk-in-the-file"));
    assert_eq!(channels(&gateway, "bare"), [channel("bare", "meta-llama/llama", 0, 10, true)]);
    assert_eq!(gateway.client().chat("gpt-4").status, 200);
    let asked = upstream.last("/v1/chat/completions");
    assert_eq!(asked.header("authorization"), Some("Bearer sk-from-the-environment"));
    assert_eq!(asked.json()["model"], "up-model");
}

#[test]
fn a_file_that_repeats_itself_over_and_over_is_refused_in_little_memory() {
    let lines = ('b'..='j')
        .zip('a'..)
        .map(|(name, former)| format!("{name}: &{name} [{}]\n", vec![format!("*{former}"); 9].join(", ")));
    let yaml = format!("a: &a [x, x, x, x, x, x, x, x, x]\n{}model_list: *j\n", lines.collect::<String>());
    let gateway = Gateway::start();
    let before = gateway.peak_resident_kib();
    let request = Request::post("/api/settings/backup/import")
        .header("content-type", "application/octet-stream")
        .body(yaml);
    assert!(gateway.admin().send(request).expect(400).to_string().contains("aliases"));
    assert!(gateway.peak_resident_kib() < before + 100_000, "{} KiB", gateway.peak_resident_kib());
}

#[test]
fn no_secret_of_this_program_is_a_key_that_a_file_names() {
    let own = [
        "AUTH_TOKEN",
        "DEPLOY_HELPER_TOKEN",
        "UPDATE_CENTER_HELPER_TOKEN",
        "BACKUP_PASSPHRASE",
        "SMTP_PASS",
        "TELEGRAM_BOT_TOKEN",
        "CHATBOT_BOT_TOKEN",
        "PUSH_SERVICE_KEY",
        "SERVERCHAN_KEY",
        "WEBHOOK_URL",
        "ACCOUNT_CREDENTIAL_SECRET",
        "CODEX_CLIENT_SECRET",
    ];
    let models = own.map(|name| {
        format!("  - {{model_name: {name}, litellm_params: {{model: openai/x, api_base: https://evil.example, api_key: os.environ/{name}}}}}\n")
    });
    let yaml = format!(
        "model_list:\n{}  - {{model_name: plain, litellm_params: {{model: openai/x, api_key: sk-plain}}}}\n",
        models.concat()
    );
    let mut moving = Move::of_text("config.yaml", &yaml);
    for name in own {
        moving.setup = moving.setup.with(name, "https://hooks.example/a-secret-of-this-program");
    }
    let told = moving.import(&[]);
    for name in own {
        assert!(
            told.contains(&format!("the variable {name} is not set, or is one of Switchyard's own")),
            "{name}: {told}"
        );
    }
}

fn metapi() -> Value {
    json!({"version": "2.1", "timestamp": 1_772_352_000_000_i64,
        "accounts": {
            "sites": [{"id": 2, "name": "Neu", "url": "https://neu.example", "platform": "new-api", "status": "disabled",
                "globalWeight": 3.5, "apiKey": "sk-of-the-site", "fromTheFuture": 1}],
            "accounts": [{"id": 4, "siteId": 2, "username": "ann", "accessToken": "session", "apiToken": "sk-a", "balance": 2.0,
                "quota": 1.0, "status": "expired", "extraConfig": "{\"credentialMode\":\"session\"}"}],
            "accountTokens": [{"id": 6, "accountId": 4, "name": "t", "token": "sk-t", "enabled": true, "isDefault": true, "source": "sync"}],
            "tokenRoutes": [{"id": 8, "modelPattern": "gpt-*", "routeMode": "pattern", "decisionSnapshot": "{}", "enabled": true}],
            "routeChannels": [{"id": 10, "routeId": 8, "accountId": 4, "tokenId": 6, "priority": 1, "weight": 5, "enabled": true,
                "manualOverride": true, "successCount": 7}],
            "routeGroupSources": [], "surprise": [1],
            "downstreamApiKeys": [{"name": "team", "key": "sk-team-of-metapi", "enabled": true, "maxCost": 5, "tags": "[\"prod\"]",
                "supportedModels": null, "allowedRouteIds": "[8]"}]},
        "preferences": {"settings": [{"key": "notify_cooldown_sec", "value": 42}]}})
}

#[test]
fn a_backup_of_metapi_is_merged_with_what_is_there() {
    // Windows editors begin a file with a byte order mark.
    let moving = Move::of_text("backup.json", &format!("\u{feff}{}", metapi()));
    {
        let gateway = moving.start();
        gateway.create_site(&json!({"name": "own", "url": "https://own.example", "platform": "openai"}));
        gateway.create_site(&json!({"name": "same", "url": "https://neu.example", "platform": "new-api"}));
    }
    let told = moving.import(&["--conflict", "skip"]);
    for told_of in ["backup of metapi", "sites[].fromTheFuture", "surprise"] {
        assert!(told.contains(told_of), "{told_of} in {told}");
    }
    assert!(!told.contains("successCount"), "{told}");
    let gateway = moving.start();
    let sites = list(&gateway, "/api/sites");
    assert_eq!(sites.len(), 2);
    let same = find(&sites, "url", "https://neu.example");
    assert_eq!(json!([same["name"], same["status"]]), json!(["same", "active"]));
    let accounts = list(&gateway, "/api/accounts");
    let ann = find(&accounts, "username", "ann");
    assert_eq!(json!([ann["siteId"], ann["status"], ann["balance"]]), json!([same["id"], "expired", 2]));
    assert_eq!(find(&accounts, "username", "API key")["siteId"], same["id"]);
    let key = find(&list(&gateway, "/api/downstream-keys"), "name", "team");
    let route = find(&gateway.routes(), "modelPattern", "gpt-*");
    assert_eq!(
        json!([key["maxCost"], key["tags"], key["allowedRouteIds"]]),
        json!([5, ["prod"], [route["id"]]])
    );
    assert_eq!(gateway.admin().get("/api/settings/runtime").expect(200)["notifyCooldownSec"], 42);
}

#[test]
fn an_export_of_all_api_hub_may_be_empty() {
    let empty = json!({"version": "4.0", "timestamp": 1, "accounts": {"accounts": []}});
    let told = Move::of_text("empty.json", &empty.to_string()).import(&[]);
    assert!(told.contains("export of All API Hub") && told.contains("0 row(s) created"), "{told}");
}

#[test]
fn what_is_no_document_of_a_gateway_is_told_with_what_it_is() {
    for (text, told_of) in [
        ("{\"type\": \"sub2api-data\", \"accounts\": []}", "/api/oauth/import"),
        ("{\"type\": \"codex\", \"access_token\": \"a\", \"refresh_token\": \"r\"}", "/api/oauth/import"),
        ("{\"a\": 1}", "not a known file of a gateway"),
        ("{\"a\": ", "JSON"),
        ("[1, 2", "JSON"),
        ("just words", "not a known file of a gateway"),
        ("a: b: c", "YAML"),
        ("", "not a known file of a gateway"),
        ("\u{0}\u{1}", "YAML"),
        // Backups of metapi, judged as by the admin API.
        ("{\"timestamp\": 1, \"accounts\": {\"sites\": [], \"accounts\": []}}", "need the arrays"),
        ("{\"preferences\": {\"settings\": []}}", "has no timestamp"),
    ] {
        let moving = Move::of_text("file", text);
        let (status, told) = moving.refuse(&[]);
        assert_eq!(status, 65, "{text}: {told}");
        assert!(told.contains(told_of), "{text}: {told}");
    }
    let finished = support::run(
        &Setup::default(),
        &Move::of_text("x", "x").home,
        &["import", "--mode", "sideways", "x"],
    );
    assert_eq!(finished.status.code(), Some(64));
}

#[test]
fn the_import_of_the_admin_api_takes_documents_of_other_gateways() {
    let gateway = Gateway::start();
    gateway.create_site(&json!({"name": "own", "url": "https://own.example", "platform": "openai"}));
    let row = json!({"site_name": "S", "site_url": "https://s.example", "site_type": "new-api", "authType": "access_token",
        "account_info": {"id": "5", "access_token": "session-5", "username": "u", "quota": 1_000_000}});
    let unusable = json!({"site_name": "T", "site_url": "https://t.example", "site_type": "new-api", "authType": "cookie"});
    let data = json!({"version": "4.0", "timestamp": 1, "accounts": {"accounts": [row, unusable], "bookmarks": [1]},
        "apiCredentialProfiles": {"profiles": [
            {"name": "P", "apiType": "openai", "baseUrl": "https://p.example/v1", "apiKey": "sk-profile"}]}});
    let import = "/api/settings/backup/import";
    let looked = gateway.admin().post(&format!("{import}?dryRun=1"), &json!({"data": data})).expect(200);
    assert_eq!(looked["dryRun"], true);
    assert_eq!(list(&gateway, "/api/sites").len(), 1);
    let answer = gateway.admin().post(import, &json!({"data": data})).expect(200);
    assert_eq!(
        answer["summary"],
        json!({"importedSites": 2, "importedAccounts": 1, "importedProfiles": 1,
        "importedApiKeyConnections": 1, "skippedAccounts": 1, "ignoredSections": ["accounts.bookmarks"]})
    );
    let warnings = answer["warnings"].to_string();
    assert!(
        warnings.contains("accounts.accounts[1] “T”: ") && !answer.to_string().contains("session-5"),
        "{answer}"
    );
    // Existing data stays.
    assert_eq!(list(&gateway, "/api/sites").len(), 3);
    assert_eq!(find(&list(&gateway, "/api/accounts"), "username", "u")["balance"], 2);

    let models = json!({"format": "of its own", "model_list": [{"model_name": "m", "litellm_params":
        {"model": "openai/x", "api_base": "https://l.example", "api_key": "os.environ/AUTH_TOKEN"}}]});
    let answer = gateway.admin().post(import, &json!({"data": models})).expect(200);
    assert!(answer["warnings"].to_string().contains("which reads variables"), "{answer}");
    assert_eq!(list(&gateway, "/api/sites").len(), 3);
}

#[test]
fn the_keys_of_sites_in_a_backup_of_metapi_come_along_by_the_admin_api_too() {
    let gateway = Gateway::start();
    gateway.create_site(&json!({"name": "own", "url": "https://own.example", "platform": "openai"}));
    let import = "/api/settings/backup/import";
    let mut twice = metapi();
    let accounts = &mut twice["accounts"];
    accounts["sites"][0]["apiKey"] = json!("sk-a");
    let answer = gateway.admin().post(import, &json!({"data": twice})).expect(200);
    // The document has everything that an operator sets up there, so whatever it lacks is deleted, as with our own backups.
    assert_eq!(list(&gateway, "/api/sites").len(), 1);
    assert_eq!(answer["sections"], json!({"accounts": true, "preferences": true}));
    assert_eq!(list(&gateway, "/api/accounts").len(), 1, "an account has this key already");

    let answer = gateway.admin().post(import, &json!({"data": metapi()})).expect(200);
    let warnings = answer["warnings"].to_string();
    assert!(warnings.contains("fromTheFuture") && !answer.to_string().contains("sk-of-the-site"), "{answer}");
    let accounts = list(&gateway, "/api/accounts");
    assert_eq!(accounts.len(), 2);
    let of_site = find(&accounts, "username", "API key");
    assert_eq!((&of_site["credentialMode"], &of_site["siteId"]), (&json!("apikey"), &json!(2)));
    let export = gateway.admin().get("/api/settings/backup/export").expect(200);
    let rows = export["accounts"]["accounts"].as_array().expect("accounts");
    assert_eq!(find(rows, "username", "API key")["apiToken"], "sk-of-the-site");
    assert!(export["accounts"]["sites"][0].get("apiKey").is_none());
}
