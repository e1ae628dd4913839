//! The runtime settings: shown with their defaults, changed whole or not at all, in force at once.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;

use serde_json::{Value, json};

use crate::support::{Caller, Gateway, PROXY_TOKEN, Reply, Request, Setup, Upstream, eventually, wire};

const PATH: &str = "/api/settings/runtime";

/// The settings of a gateway with the tests' tokens.
const DEFAULTS: &str = r#"{
    "checkinCron": "0 8 * * *", "checkinScheduleMode": "cron", "checkinIntervalHours": 6,
    "balanceRefreshCron": "0 * * * *", "lowBalanceThreshold": 0, "dailySummaryCron": "58 23 * * *",
    "logCleanupCron": "0 6 * * *", "logCleanupUsageLogsEnabled": true,
    "logCleanupProgramLogsEnabled": false, "logCleanupRetentionDays": 30,
    "modelAvailabilityProbeEnabled": false, "channelRecoveryProbeEnabled": false, "codexUpstreamWebsocketEnabled": false,
    "codexHeaderDefaults": {"userAgent": "", "betaFeatures": ""},
    "responsesCompactFallbackToResponsesEnabled": false, "disableCrossProtocolFallback": false,
    "echoRequestedModel": false,
    "proxySessionChannelConcurrencyLimit": 2, "proxySessionChannelQueueWaitMs": 1500,
    "proxyDebugTraceEnabled": false, "proxyDebugCaptureHeaders": true, "proxyDebugCaptureBodies": false,
    "proxyDebugCaptureStreamChunks": false, "proxyDebugTargetSessionId": "",
    "proxyDebugTargetClientKind": "", "proxyDebugTargetModel": "", "proxyDebugRetentionHours": 24,
    "proxyDebugMaxBodyBytes": 262144,
    "routingFallbackUnitCost": 1, "proxyFirstByteTimeoutSec": 0,
    "tokenRouterFailureCooldownMaxSec": 2592000,
    "cooldownLastResortSec": 30, "accountLimitAvoidPercent": 95,
    "streamHeartbeatSec": 15, "streamFirstHeartbeatSec": 45,
    "routingWeights": {"baseWeightFactor": 0.5, "valueScoreFactor": 0.5, "costWeight": 0.4,
        "balanceWeight": 0.3, "usageWeight": 0.3},
    "proxyErrorKeywords": [], "proxyEmptyContentFailEnabled": false,
    "globalBlockedBrands": [], "globalAllowedModels": [], "systemProxyUrl": "",
    "payloadRules": {"default": [], "defaultRaw": [], "override": [], "overrideRaw": [], "filter": []},
    "adminIpAllowlist": [], "proxyTokenMasked": "sk-p****9b2e",
    "webhookEnabled": true, "webhookUrl": "", "barkEnabled": true, "barkUrl": "",
    "serverChanEnabled": true, "serverChanKeyMasked": "",
    "telegramEnabled": false, "telegramApiBaseUrl": "https://api.telegram.org",
    "telegramBotTokenMasked": "", "telegramChatId": "", "telegramUseSystemProxy": false,
    "telegramMessageThreadId": "",
    "smtpEnabled": false, "smtpHost": "", "smtpPort": 587, "smtpSecure": false, "smtpUser": "",
    "smtpPassMasked": "", "smtpFrom": "", "smtpTo": "", "notifyCooldownSec": 300,
    "currentAdminIp": "127.0.0.1", "serverTimeZone": "Asia/Shanghai", "credentialSecretWeak": false,
    "usingDefaultAdminToken": false, "usingDefaultProxyToken": false
}"#;

fn shown(gateway: &Gateway) -> Value {
    gateway.admin().get(PATH).expect(200)
}

#[track_caller]
fn put(gateway: &Gateway, body: &Value) -> Value {
    gateway.admin().put(PATH, body).expect(200)
}

fn events(gateway: &Gateway) -> Vec<Value> {
    let events = gateway.admin().get("/api/events?limit=500").expect(200);
    let events = events.as_array().expect("events").iter();
    events.filter(|event| event["relatedType"] == "settings").cloned().collect()
}

/// Calls as this client, as if through a trusted proxy on this machine.
fn from(caller: Caller, address: &str) -> Caller {
    caller.with("x-forwarded-for", address)
}

#[test]
fn every_setting_is_shown_with_its_default() {
    let gateway = Gateway::start();
    let expected: Value = serde_json::from_str(DEFAULTS).expect("JSON");
    let found = shown(&gateway);
    for (field, value) in expected.as_object().expect("an object") {
        assert_eq!(found.get(field), Some(value), "{field}");
    }
    assert_eq!(found.as_object().map(|fields| fields.len()), expected.as_object().map(|fields| fields.len()));
}

#[test]
fn the_environment_gives_the_defaults() {
    let gateway = Setup::default()
        .without("ACCOUNT_CREDENTIAL_SECRET")
        .with("TZ", "Europe/Berlin")
        .with("PROXY_LOG_RETENTION_DAYS", "0")
        .with("LOG_CLEANUP_RETENTION_DAYS", "7")
        .with("CHECKIN_INTERVAL_HOURS", "99")
        .with("CHATBOT_API_BASE_URL", " https://bot.example/ ")
        .with("TELEGRAM_CHAT_ID", "by-alias")
        .with("SMTP_PASS", "a-mail-password")
        .with("PROXY_ERROR_KEYWORDS", "a, b")
        .with("CODEX_HEADER_DEFAULTS_USER_AGENT", " agent/1 (of the environment) ")
        .start();
    let found = shown(&gateway);
    for (field, value) in [
        ("credentialSecretWeak", json!(true)),
        ("serverTimeZone", json!("Europe/Berlin")),
        ("logCleanupUsageLogsEnabled", json!(false)),
        ("logCleanupRetentionDays", json!(7)),
        ("checkinIntervalHours", json!(24)),
        ("telegramApiBaseUrl", json!("https://bot.example")),
        ("telegramChatId", json!("by-alias")),
        ("smtpPassMasked", json!("a-ma****word")),
        ("proxyErrorKeywords", json!(["a", "b"])),
        ("codexHeaderDefaults", json!({"userAgent": "agent/1 (of the environment)", "betaFeatures": ""})),
    ] {
        assert_eq!(found[field], value, "{field}");
    }
    gateway.wait_for_output("CHECKIN_INTERVAL_HOURS");
}

#[test]
fn a_bad_value_is_refused_by_the_name_of_its_field() {
    let gateway = Gateway::start();
    let before = shown(&gateway);
    for (field, values) in [
        ("checkinCron", json!(["soon", "60 * * * *", 1, null])),
        ("checkinScheduleMode", json!(["hourly", null])),
        ("checkinIntervalHours", json!([0, 25, "x", null, true])),
        ("balanceRefreshCron", json!(["* * * *"])),
        ("logCleanupCron", json!(["* * * * * * *"])),
        ("logCleanupUsageLogsEnabled", json!(["true", 1, null])),
        ("logCleanupProgramLogsEnabled", json!(["false"])),
        ("logCleanupRetentionDays", json!([0, -1, "none"])),
        ("modelAvailabilityProbeEnabled", json!([1])),
        ("codexUpstreamWebsocketEnabled", json!(["yes"])),
        (
            "codexHeaderDefaults",
            json!(["agent/1", [], null, {"userAgent": 1}, {"userAgent": null}, {"userAgent": "a\r\nx: y"},
                {"betaFeatures": "gr\u{fc}n"}, {"useragent": "agent/1"}]),
        ),
        ("responsesCompactFallbackToResponsesEnabled", json!([null])),
        ("disableCrossProtocolFallback", json!([0])),
        ("echoRequestedModel", json!([1, "true", null])),
        ("proxySessionChannelConcurrencyLimit", json!([-1, -0.5, "many"])),
        ("proxySessionChannelQueueWaitMs", json!([-1])),
        ("proxyDebugTraceEnabled", json!(["on"])),
        ("proxyDebugCaptureHeaders", json!([1])),
        ("proxyDebugCaptureBodies", json!([1])),
        ("proxyDebugCaptureStreamChunks", json!([1])),
        ("proxyDebugTargetSessionId", json!([1, null])),
        ("proxyDebugTargetClientKind", json!([{}])),
        ("proxyDebugTargetModel", json!([[]])),
        ("proxyDebugRetentionHours", json!([0])),
        ("proxyDebugMaxBodyBytes", json!([1023, ""])),
        ("routingFallbackUnitCost", json!([0, -1, null])),
        ("proxyFirstByteTimeoutSec", json!([-1])),
        ("tokenRouterFailureCooldownMaxSec", json!([0, -5])),
        ("routingWeights", json!([1, "x", null])),
        ("proxyErrorKeywords", json!([1, [1], {}])),
        ("proxyEmptyContentFailEnabled", json!(["false"])),
        ("globalBlockedBrands", json!(["OpenAI", [1], null])),
        ("globalAllowedModels", json!(["m", {}])),
        ("systemProxyUrl", json!(["ftp://p.example", "p.example", 1])),
        ("payloadRules", json!([[], {"odd": []}, {"filter": [{"models": [{"name": "m"}], "params": []}]}])),
        ("adminIpAllowlist", json!([["1.2.3.4/33"], "nonsense", 1, ["192.0.2.1"]])),
        ("proxyToken", json!(["abcdef", "sk-", "sk-a b", 1])),
        ("webhookEnabled", json!(["false"])),
        ("webhookUrl", json!(["ftp://x", "", 1])),
        ("barkUrl", json!(["x"])),
        ("serverChanEnabled", json!([1])),
        ("serverChanKey", json!([1])),
        ("telegramEnabled", json!(["true"])),
        ("telegramApiBaseUrl", json!(["bot.example"])),
        ("telegramMessageThreadId", json!(["0", "07", "x", 7])),
        ("smtpEnabled", json!([1])),
        ("smtpHost", json!([1, "a\r\nb"])),
        ("smtpPort", json!([0, 65536, "x"])),
        ("smtpPass", json!([null])),
        ("notifyCooldownSec", json!([-1])),
    ] {
        for value in values.as_array().expect("values") {
            // A valid field beside it must not be stored either.
            let refused =
                gateway.admin().put(PATH, &json!({"checkinIntervalHours": 5, field: value})).expect(400);
            let message = refused["message"].as_str().unwrap_or_default();
            assert!(message.contains(field), "{field} {value}: {message}");
            assert_eq!(refused["success"], false);
        }
    }
    assert_eq!(shown(&gateway), before);
    assert!(events(&gateway).is_empty());
    for body in [json!([]), json!("x"), json!(1)] {
        gateway.admin().put(PATH, &body).expect(400);
    }
}

#[test]
fn a_good_value_is_stored_in_one_form_and_outlives_a_restart() {
    let gateway = Gateway::start();
    let cases = [
        ("tokenRouterFailureCooldownMaxSec", json!(7_776_000), json!(2_592_000)),
        ("proxyErrorKeywords", json!("a\nb,c"), json!(["a", "b", "c"])),
        ("checkinIntervalHours", json!("7.9"), json!(7)),
        ("checkinCron", json!(" */5 0 8 * * * "), json!("*/5 0 8 * * *")),
        ("routingFallbackUnitCost", json!("0.0000000001"), json!(1e-6)),
        ("globalBlockedBrands", json!([" OpenAI ", "OpenAI", ""]), json!(["OpenAI"])),
        ("proxyDebugMaxBodyBytes", json!(1024), json!(1024)),
        ("proxyDebugTargetModel", json!(" GPT-5 "), json!("GPT-5")),
        ("smtpPort", json!(25), json!(25)),
        (
            "codexHeaderDefaults",
            json!({"user-agent": " agent/2 "}),
            json!({"userAgent": "agent/2", "betaFeatures": ""}),
        ),
        ("telegramMessageThreadId", json!("42"), json!("42")),
        (
            "systemProxyUrl",
            json!("socks5://u:secret@127.0.0.1:1080/"),
            json!("socks5://u:****@127.0.0.1:1080"),
        ),
        (
            "webhookUrl",
            json!("https://hooks.example/T0/key-of-the-hook"),
            json!("https://hooks.example/****"),
        ),
    ];
    let mut body: Value =
        cases.iter().map(|(field, value, _)| ((*field).to_owned(), value.clone())).collect();
    body["pushServiceKey"] = json!("SCT-0123456789");
    body["routingWeights"] = json!({"costWeight": 0.9, "usageWeight": -1, "balanceWeight": "x"});
    body["payloadRules"] = json!({"override-raw": [{"models": [{"name": "gpt-*"}], "params": {"a": "{}"}}]});
    let answer = put(&gateway, &body);
    assert_eq!(answer["success"], true);
    assert!(answer["message"].is_string());
    let gateway = gateway.restart();
    for found in [answer, shown(&gateway)] {
        for (field, _, expected) in &cases {
            assert_eq!(found[*field], *expected, "{field}");
        }
        assert_eq!(found["serverChanKeyMasked"], "SCT-****6789");
        let weights = json!({"baseWeightFactor": 0.5, "valueScoreFactor": 0.5, "costWeight": 0.9,
            "balanceWeight": 0.3, "usageWeight": 0.3});
        assert_eq!(found["routingWeights"], weights);
        assert_eq!(found["payloadRules"]["overrideRaw"][0]["params"]["a"], "{}");
        assert_eq!(found["payloadRules"].as_object().map(|sections| sections.len()), Some(5));
    }
    // If sent back as shown, the secrets stay unchanged.
    let echo = shown(&gateway);
    let unchanged = put(
        &gateway,
        &json!({"systemProxyUrl": echo["systemProxyUrl"], "webhookUrl": echo["webhookUrl"],
        "serverChanKey": echo["serverChanKeyMasked"]}),
    );
    assert_eq!(unchanged["message"], "Nothing changed");
    for (path, bytes) in gateway.home().files() {
        for secret in ["SCT-0123456789", "key-of-the-hook", "u:secret"] {
            let found = bytes.windows(secret.len()).any(|window| window == secret.as_bytes());
            assert!(!found, "{secret} is readable in {}", path.display());
        }
    }
    let cleared =
        put(&gateway, &json!({"serverChanKey": "", "telegramApiBaseUrl": "", "payloadRules": null}));
    assert_eq!(cleared["serverChanKeyMasked"], "");
    assert_eq!(cleared["telegramApiBaseUrl"], "https://api.telegram.org");
    assert_eq!(cleared["payloadRules"]["overrideRaw"], json!([]));
}

#[test]
fn a_new_proxy_token_is_in_force_at_once() {
    let (gateway, _upstream) = Gateway::serving(&["alpha"]);
    let answer = put(&gateway, &json!({"proxyToken": " sk-a-new-token-of-clients "}));
    assert_eq!(answer["proxyTokenMasked"], "sk-a****ents");
    assert!(!answer.to_string().contains("sk-a-new-token-of-clients"));
    let with = |token: &str| gateway.with_token(token);
    with("sk-a-new-token-of-clients").chat("alpha").expect(200);
    with(PROXY_TOKEN).chat("alpha").expect(403);
}

#[test]
fn the_allow_list_holds_at_once_and_never_shuts_out_who_sets_it() {
    let gateway = Gateway::start();
    let admin = || from(gateway.admin(), "198.51.100.10");
    assert_eq!(admin().get(PATH).expect(200)["currentAdminIp"], "198.51.100.10");
    let refused = admin().put(PATH, &json!({"adminIpAllowlist": ["10.0.0.0/8"]})).expect(400);
    assert!(refused["message"].as_str().is_some_and(|text| text.contains("198.51.100.10")), "{refused}");
    admin().put(PATH, &json!({"adminIpAllowlist": ["198.51.100.0/99"]})).expect(400);
    let several = json!({"adminIpAllowlist": ["198.51.100.10", "198.51.100.0/99", "nonsense"]});
    let refused = admin().put(PATH, &several).expect(400);
    assert!(
        refused["message"].as_str().is_some_and(|text| text.contains("198.51.100.0/99, nonsense")),
        "{refused}"
    );
    admin().put(PATH, &json!({"adminIpAllowlist": "198.51.100.0/24, 2001:db8::/32"})).expect(200);
    gateway.admin().get(PATH).expect(403);
    from(gateway.admin(), "2001:db8::7").get(PATH).expect(200);
    admin().put(PATH, &json!({"adminIpAllowlist": []})).expect(200);
    gateway.admin().get(PATH).expect(200);
}

#[test]
fn an_error_keyword_counts_from_the_next_request_on() {
    let (gateway, upstream) = Gateway::serving(&["alpha"]);
    upstream.answer("/v1/chat/completions", Reply::json(200, &wire::chat("alpha")));
    gateway.client().chat("alpha").expect(200);
    put(&gateway, &json!({"proxyErrorKeywords": [wire::TEXT.to_uppercase()]}));
    gateway.client().chat("alpha").expect(502);
}

#[test]
fn a_changed_list_of_models_rebuilds_the_routes() {
    let (gateway, _upstream) = Gateway::serving(&["alpha", "beta"]);
    assert_eq!(gateway.models(), ["alpha", "beta"]);
    put(&gateway, &json!({"globalAllowedModels": ["ALPHA"]}));
    eventually("only the allowed model is offered", || (gateway.models() == ["alpha"]).then_some(()));
    let tasks = gateway.admin().get("/api/tasks").expect(200);
    let task = &tasks["tasks"][0];
    assert_eq!(
        (&task["type"], &task["dedupeKey"]),
        (&json!("maintenance"), &json!("refresh-models-and-rebuild-routes"))
    );
    // Sending the same list again is not a change.
    let count = tasks["tasks"].as_array().map(Vec::len);
    put(&gateway, &json!({"globalAllowedModels": ["ALPHA"]}));
    assert_eq!(gateway.admin().get("/api/tasks").expect(200)["tasks"].as_array().map(Vec::len), count);
}

#[test]
fn each_real_change_is_one_event_without_its_secrets() {
    let gateway = Gateway::start();
    for (body, kind, named) in [
        (json!({"checkinCron": "0 9 * * *"}), "checkin", "checkinCron: 0 9 * * *"),
        (json!({"balanceRefreshCron": "5 * * * *"}), "balance", "balanceRefreshCron"),
        (json!({"proxyToken": "sk-secret-of-the-event"}), "proxy", "proxyToken"),
        (
            json!({"smtpHost": "mail.example", "smtpPass": "password-of-the-event"}),
            "status",
            "smtpHost: mail.example; smtpPass",
        ),
        (json!({"checkinCron": "0 7 * * *", "balanceRefreshCron": "6 * * * *"}), "status", "checkinCron"),
    ] {
        let before = events(&gateway).len();
        put(&gateway, &body);
        put(&gateway, &body);
        let events = events(&gateway);
        assert_eq!(events.len(), before + 1, "{body}");
        assert_eq!((&events[0]["type"], &events[0]["level"]), (&json!(kind), &json!("info")), "{body}");
        let message = events[0]["message"].as_str().unwrap_or_default();
        assert!(message.contains(named), "{message}");
        assert!(!message.contains("of-the-event"), "{message}");
    }
    put(&gateway, &json!({}));
    assert_eq!(events(&gateway).len(), 5);
}

#[test]
fn a_saved_schedule_takes_the_cleaning_of_logs_over() {
    let (gateway, _upstream) = Gateway::serving(&["alpha"]);
    gateway.client().chat("alpha").expect(200);
    gateway.wait_for_logs(1);
    let saved = put(&gateway, &json!({"logCleanupProgramLogsEnabled": true}));
    for (field, value) in [
        ("logCleanupCron", json!("0 6 * * *")),
        ("logCleanupUsageLogsEnabled", json!(true)),
        ("logCleanupProgramLogsEnabled", json!(true)),
        ("logCleanupRetentionDays", json!(30)),
    ] {
        assert_eq!(saved[field], value, "{field}");
    }
    let database = gateway.home().database();
    for table in ["proxy_logs", "events"] {
        let sql = format!("UPDATE {table} SET created_at = created_at - 3456000000");
        database.run(&sql);
    }
    assert_eq!(gateway.logs().len(), 1);
    put(&gateway, &json!({"logCleanupCron": "* * * * * *"}));
    eventually("old log rows and events are gone", || {
        let left = events(&gateway);
        (gateway.logs().is_empty() && left.len() == 1).then_some(())
    });
}

#[test]
fn what_is_changed_in_part_at_the_same_time_all_holds() {
    let gateway = Gateway::start();
    std::thread::scope(|scope| {
        for member in ["costWeight", "usageWeight", "balanceWeight"] {
            let gateway = &gateway;
            scope.spawn(move || {
                for weight in 1..30 {
                    put(gateway, &json!({"routingWeights": {member: weight}}));
                    assert_eq!(shown(gateway)["routingWeights"][member], weight, "{member}");
                }
            });
        }
    });
}

/// Starts a proxy that gives this answer for every target; returns its address.
fn proxy(answer: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut stream = BufReader::new(stream);
            let mut line = String::new();
            while stream.read_line(&mut line).is_ok_and(|read| read > 2) {
                line.clear();
            }
            let _ = stream.get_mut().write_all(answer.as_bytes());
        }
    });
    format!("http://user:p4ssw0rd@{address}")
}

#[test]
fn a_proxy_is_tested_by_what_comes_through_it() {
    const NO_CONTENT: &str = "HTTP/1.1 204 No Content\r\n\r\n";
    let gateway = Gateway::with(&[("CONNECTIVITY_TEST_URL", "http://127.0.0.1:9/generate_204")]);
    let test = |body: &Value| gateway.admin().post("/api/settings/system-proxy/test", body);
    for body in [
        json!({}),
        json!({"proxyUrl": " "}),
        json!({"proxyUrl": "ftp://x"}),
        json!({"proxyUrl": 7}),
        json!([1]),
    ] {
        test(&body).expect(400);
    }
    for (answer, status) in [(NO_CONTENT, 204), ("HTTP/1.1 503 Busy\r\ncontent-length: 0\r\n\r\n", 503)] {
        let url = proxy(answer);
        let body = test(&json!({"proxyUrl": url})).expect(200);
        let expected = json!({"success": true, "proxyUrl": url.replace("p4ssw0rd", "****"), "reachable": true,
            "ok": status == 204, "statusCode": status, "latencyMs": body["latencyMs"],
            "probeUrl": "http://127.0.0.1:9/generate_204", "finalUrl": "http://127.0.0.1:9/generate_204"});
        assert_eq!(body, expected);
        assert!(body["latencyMs"].as_u64().is_some_and(|ms| ms >= 1), "{body}");
    }
    let locked = proxy("HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 0\r\n\r\n");
    let nobody = Upstream::start(&[]);
    nobody.refuse();
    for (url, cause) in [(locked, "proxy"), (nobody.url(), "refused")] {
        let refused = test(&json!({"proxyUrl": url})).expect(502);
        let message = refused["message"].as_str().expect("a message");
        assert!(refused["success"] == false && message.contains(cause), "{message}");
        assert!(!message.contains("p4ssw0rd"), "{message}");
    }
    // Without a named proxy, the saved one is tested.
    let saved = json!({"systemProxyUrl": proxy(NO_CONTENT)});
    gateway.admin().put("/api/settings/runtime", &saved).expect(200);
    gateway.admin().send(Request::post("/api/settings/system-proxy/test")).expect(200);
    let mask = saved["systemProxyUrl"].as_str().expect("an address").replace("p4ssw0rd", "****");
    test(&json!({"proxyUrl": mask})).expect(200);
    let refused = test(&json!({"proxyUrl": "http://user:****@127.0.0.1:9"})).expect(400);
    assert_eq!(refused["message"], "Invalid proxyUrl. Expected whole value, not a mask.");
}
