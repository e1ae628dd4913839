use serde_json::json;

use super::*;

fn read_pairs(pairs: &[(&str, &str)]) -> ConfigResult {
    read(&pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
}

#[test]
fn blank_means_default() {
    let (config, warnings) =
        read_pairs(&[("PORT", ""), ("PROXY_LOG_RETENTION_DAYS", "  "), ("DB_TYPE", "")]).ok().unwrap();
    assert_eq!(config.port, 4000);
    assert_eq!(config.proxy_log_retention_days, 30);
    assert_eq!(config.time_zone_name, "Asia/Shanghai");
    assert!(warnings.is_empty(), "{warnings:?}");
}

#[test]
fn every_mistake_is_reported_at_once() {
    let errors = read_pairs(&[
        ("PORT", "70000"),
        ("DB_TYPE", "oracle"),
        ("ADMIN_IP_ALLOWLIST", "10.0.0.0/8, nonsense"),
        ("TRUSTED_PROXIES", "10.0.0.0/33"),
        ("CORS_ALLOWED_ORIGINS", "https://pages.example, https://pages.example/console"),
        ("TLS_CERT_FILE", "cert.pem"),
    ])
    .err()
    .unwrap();
    for name in
        ["PORT", "DB_TYPE", "ADMIN_IP_ALLOWLIST", "TRUSTED_PROXIES", "CORS_ALLOWED_ORIGINS", "TLS_KEY_FILE"]
    {
        assert!(errors.iter().any(|error| error.starts_with(name)), "{name} missing in {errors:?}");
    }
}

#[test]
fn origins_are_kept_as_browsers_write_them() {
    let listed = "https://Pages.example/, http://b.example:80, https://c.example:8443 ,*,null";
    let (config, _) = read_pairs(&[("CORS_ALLOWED_ORIGINS", listed)]).ok().unwrap();
    let kept = ["https://pages.example", "http://b.example", "https://c.example:8443", "*", "null"];
    assert_eq!(config.cors_allowed_origins, kept);
}

#[test]
fn numbers_outside_their_range_are_clamped_with_a_warning() {
    let (config, warnings) =
        read_pairs(&[("PROXY_MAX_CHANNEL_ATTEMPTS", "0"), ("SHUTDOWN_GRACE_SEC", "1.5e1")]).ok().unwrap();
    assert_eq!(config.proxy.max_channel_attempts, 1);
    assert_eq!(config.shutdown_grace, Duration::from_secs(15));
    assert_eq!(warnings.len(), 1);
}

#[test]
fn what_cannot_be_read_means_the_default_with_one_warning() {
    let names = [
        "PROXY_MAX_CHANNEL_ATTEMPTS",
        "PROXY_LOG_RETENTION_DAYS",
        "REQUEST_BODY_LIMIT_BYTES",
        "TOKEN_ROUTER_FAILURE_COOLDOWN_MAX_SEC",
        "COST_WEIGHT",
        "ROUTING_FALLBACK_UNIT_COST",
        "CHECKIN_CRON",
        "CHECKIN_INTERVAL_HOURS",
        "SMTP_PORT",
        "PAYLOAD_RULES_JSON",
        "CHATBOT_API_BASE_URL",
    ];
    let (config, warnings) = read_pairs(&names.map(|name| (name, "{soon"))).ok().unwrap();
    assert_eq!(config.proxy.max_channel_attempts, 3);
    assert_eq!(config.proxy_log_retention_days, 30);
    assert_eq!(config.request_body_limit, 20 << 20);
    assert_eq!(config.runtime.count("token_router_failure_cooldown_max_sec"), 2_592_000);
    assert_eq!(config.runtime.get("routing_weights")["costWeight"], 0.4);
    assert_eq!(config.runtime.number("routing_fallback_unit_cost"), 1.0);
    assert_eq!(config.runtime.text("checkin_cron"), "0 8 * * *");
    assert_eq!((config.runtime.count("checkin_interval_hours"), config.runtime.count("smtp_port")), (6, 587));
    assert_eq!(config.runtime.get("payload_rules")["default"], json!([]));
    assert_eq!(config.runtime.text("telegram_api_base_url"), "https://api.telegram.org");
    for name in names {
        let own = warnings.iter().filter(|warning| warning.starts_with(name));
        assert_eq!(own.count(), 1, "{name}: {warnings:?}");
    }
}

#[test]
fn a_misspelt_choice_and_a_target_that_is_no_address_are_warnings() {
    let mode = ("CHECKIN_SCHEDULE_MODE", "checkin_schedule_mode");
    let (webhook, push_app) = (("WEBHOOK_URL", "webhook_url"), ("PUSH_APP_URL", "bark_url"));
    for ((name, key), value, wanted, remarks) in [
        (mode, "cron", "cron", 0),
        (mode, "interval", "interval", 0),
        (mode, "intervall", "cron", 1),
        (webhook, "https://hook.example/x", "https://hook.example/x", 0),
        (webhook, "HTTPS://hook.example/x", "HTTPS://hook.example/x", 0),
        (webhook, "hook.example/x", "hook.example/x", 1),
        (push_app, "ftp://push.example/key", "ftp://push.example/key", 1),
    ] {
        let (config, warnings) = read_pairs(&[(name, value)]).ok().unwrap();
        assert_eq!(
            (config.runtime.text(key), warnings.len()),
            (wanted, remarks),
            "{name}={value}: {warnings:?}"
        );
        assert!(
            !warnings.iter().any(|warning| warning.contains("example")),
            "it may hold a secret: {warnings:?}"
        );
    }
}

#[test]
fn variables_of_routing_keep_to_their_ranges() {
    let cap = ("TOKEN_ROUTER_FAILURE_COOLDOWN_MAX_SEC", "token_router_failure_cooldown_max_sec");
    let unit_cost = ("ROUTING_FALLBACK_UNIT_COST", "routing_fallback_unit_cost");
    let first_byte = ("PROXY_FIRST_BYTE_TIMEOUT_SEC", "proxy_first_byte_timeout_sec");
    let keywords = ("PROXY_ERROR_KEYWORDS", "proxy_error_keywords");
    let empty = ("PROXY_EMPTY_CONTENT_FAIL", "proxy_empty_content_fail_enabled");
    for ((name, key), value, wanted, remarks) in [
        (unit_cost, "-1", json!(1e-6), 1),
        (unit_cost, "2.0", json!(2), 0),
        (first_byte, "1.5e1", json!(15), 0),
        (first_byte, "-1", json!(0), 1),
        (cap, "60.7", json!(60), 0),
        (cap, "0.5", json!(2_592_000), 1),
        (cap, "1e9", json!(2_592_000), 0),
        (keywords, "a b, c,", json!(["a b", "c"]), 0),
        (empty, "on", json!(true), 0),
    ] {
        let (config, warnings) = read_pairs(&[(name, value)]).ok().unwrap();
        assert_eq!((config.runtime.get(key), warnings.len()), (&wanted, remarks), "{name}={value}");
    }
    for (value, wanted, remarks) in [("-1", 0.3, 1), ("0", 0.0, 0), ("0.75", 0.75, 0)] {
        let (config, warnings) = read_pairs(&[("USAGE_WEIGHT", value)]).ok().unwrap();
        let weights = config.runtime.get("routing_weights");
        assert_eq!((weights["usageWeight"].as_f64(), warnings.len()), (Some(wanted), remarks), "{value}");
        assert_eq!((&weights["costWeight"], weights.as_object().unwrap().len()), (&json!(0.4), 5));
    }
}

#[test]
fn rate_limits_are_cut_to_whole_numbers_and_never_below_their_least() {
    for (value, max, window) in [
        ("", 12_000, 60_000),
        ("4.9", 4, 1_000),
        ("999.9", 999, 1_000),
        ("1500.9", 1_500, 1_500),
        ("0", 1, 1_000),
        ("-3", 1, 1_000),
        ("many", 12_000, 60_000),
        ("NaN", 12_000, 60_000),
    ] {
        let values = [("REQUEST_RATE_LIMIT_MAX", value), ("REQUEST_RATE_LIMIT_WINDOW_MS", value)];
        let (config, _) = read_pairs(&values).ok().unwrap();
        assert_eq!(config.rate_limits.request_max, max, "{value}");
        assert_eq!(config.rate_limits.window, Duration::from_millis(window), "{value}");
        assert_eq!(config.rate_limits.authenticated_max, 1_200);
    }
}

#[test]
fn an_invalid_lease_time_means_the_default() {
    let read = |ttl, keepalive, wait, queue| {
        let (config, _) = read_pairs(&[
            ("PROXY_SITE_CONCURRENCY_LEASE_TTL_MS", ttl),
            ("PROXY_SITE_CONCURRENCY_LEASE_KEEPALIVE_MS", keepalive),
            ("PROXY_SITE_CONCURRENCY_QUEUE_WAIT_MS", wait),
            ("PROXY_SITE_CONCURRENCY_QUEUE_LIMIT", queue),
        ])
        .ok()
        .unwrap();
        let rules = config.proxy.site_leases;
        let times = [rules.ttl, rules.keepalive, rules.queue_wait].map(|time| time.as_millis());
        (times, rules.queue_limit)
    };
    for (values, expected) in [
        (["", "", "", ""], ([90_000, 15_000, 1_500], 100)),
        (["5000", "1000", "0", "0"], ([5_000, 1_000, 0], 0)),
        (["4999", "999", "600001", "10001"], ([90_000, 15_000, 1_500], 100)),
        (["60000", "60000", "-1", "1.5"], ([60_000, 15_000, 1_500], 100)),
        (["6e4", "2e3", "1e3", "1e1"], ([60_000, 2_000, 1_000], 10)),
        (["15000", "15000", "x", "x"], ([15_000, 13_500, 1_500], 100)),
        (["15000", "13501", "x", "x"], ([15_000, 13_500, 1_500], 100)),
        (["5000", "", "", ""], ([5_000, 4_500, 1_500], 100)),
    ] {
        assert_eq!(read(values[0], values[1], values[2], values[3]), expected, "{values:?}");
    }
}

#[test]
fn the_credential_secret_falls_back_to_the_admin_token() {
    let (config, _) = read_pairs(&[("AUTH_TOKEN", "an-admin-token")]).ok().unwrap();
    assert_eq!(config.credential_secret, "an-admin-token");
    assert!(config.credential_secret_weak);
    let (config, _) = read_pairs(&[("ACCOUNT_CREDENTIAL_SECRET", "another")]).ok().unwrap();
    assert!(!config.credential_secret_weak);
}

#[test]
fn strong_tokens_can_be_demanded() {
    let errors = read_pairs(&[("REQUIRE_STRONG_TOKENS", "yes"), ("AUTH_TOKEN", "mine")]).err().unwrap();
    assert_eq!(errors.len(), 1);
    assert!(errors[0].starts_with("PROXY_TOKEN"));
}

#[test]
fn a_variable_that_is_no_text_is_a_mistake_if_it_is_ours() {
    let unreadable = ["AUTH_TOKEN", "WEBHOOK_URL", "LS_COLORS"].map(str::to_owned).into();
    let errors = read_beside(&HashMap::new(), &unreadable).err().unwrap();
    let named: Vec<&str> = errors.iter().filter_map(|error| error.split(':').next()).collect();
    assert_eq!(named, ["AUTH_TOKEN", "WEBHOOK_URL"], "{errors:?}");
}

#[test]
fn an_address_that_cannot_be_used_is_a_mistake_and_is_not_repeated() {
    for (name, value) in [
        ("SYSTEM_PROXY_URL", "ftp://u:secret@p.example"),
        ("SYSTEM_PROXY_URL", "u:secret@p.example"),
        ("DB_URL", "postgres://u:secret@db.example/x"),
    ] {
        let errors = read_pairs(&[(name, value)]).err().unwrap();
        assert!(errors.len() == 1 && errors[0].starts_with(name), "{value}: {errors:?}");
        assert!(!errors[0].contains("secret"), "{errors:?}");
    }
    for (name, value) in [
        ("SYSTEM_PROXY_URL", "socks5h://u:p@p.example:1080/"),
        ("DB_URL", "sqlite:///tmp/x.db"),
        ("DB_URL", "data/x.db"),
        ("DB_URL", ":memory:"),
    ] {
        assert!(read_pairs(&[(name, value)]).is_ok(), "{value}");
    }
}

#[test]
fn sessions_and_files_have_the_documented_defaults_and_floors() {
    let (config, warnings) = read_pairs(&[]).ok().unwrap();
    assert!(config.proxy.sticky_sessions);
    assert_eq!(config.proxy.sticky_session_ttl, Duration::from_millis(1_800_000));
    assert_eq!(config.proxy.session_lease_ttl, Duration::from_millis(90_000));
    assert_eq!(config.proxy.session_lease_keepalive, Duration::from_millis(15_000));
    assert_eq!(config.files.upload_limit, 512 << 20);
    assert_eq!(config.files.retention_days, 30);
    assert_eq!(config.video_retention_days, 30);
    assert_eq!(config.files.prune_interval, Duration::from_secs(60 * 60));
    assert!(warnings.is_empty(), "{warnings:?}");
    let low = [
        ("PROXY_STICKY_SESSION_ENABLED", "off"),
        ("PROXY_STICKY_SESSION_TTL_MS", "1"),
        ("PROXY_SESSION_CHANNEL_LEASE_TTL_MS", "1"),
        ("PROXY_SESSION_CHANNEL_LEASE_KEEPALIVE_MS", "1"),
        ("PROXY_FILE_RETENTION_DAYS", "0"),
        ("PROXY_FILE_RETENTION_PRUNE_INTERVAL_MINUTES", "0"),
    ];
    let (config, _) = read_pairs(&low).ok().unwrap();
    assert!(!config.proxy.sticky_sessions);
    assert_eq!(config.proxy.sticky_session_ttl, Duration::from_millis(30_000));
    assert_eq!(config.proxy.session_lease_ttl, Duration::from_millis(5_000));
    assert_eq!(config.proxy.session_lease_keepalive, Duration::from_millis(1_000));
    assert_eq!(config.files.retention_days, 0);
    assert_eq!(config.files.prune_interval, Duration::from_secs(60));
}

#[test]
fn rules_for_tiers_that_cannot_be_read_are_no_rules_and_a_warning() {
    const NAME: &str = "OPENAI_SERVICE_TIER_RULES_JSON";
    let (config, warnings) =
        read_pairs(&[(NAME, r#"[{"action":"block","tiers":["priority"]}]"#)]).ok().unwrap();
    assert!(config.proxy.tier_rules != Default::default() && warnings.is_empty(), "{warnings:?}");
    for text in ["{", "{}", r#"[{"action":"x"}]"#] {
        let (config, warnings) = read_pairs(&[(NAME, text)]).ok().unwrap();
        assert!(config.proxy.tier_rules == Default::default() && warnings[0].contains(NAME), "{warnings:?}");
    }
}

/// The variables that the service promises to support.
const PROMISED: &str = "AUTH_TOKEN PROXY_TOKEN PORT DATA_DIR TZ ACCOUNT_CREDENTIAL_SECRET DB_TYPE DB_URL DB_SSL \
    ADMIN_IP_ALLOWLIST SYSTEM_PROXY_URL CHECKIN_CRON BALANCE_REFRESH_CRON PROVIDER_A_CLIENT_ID PROVIDER_B_CLIENT_ID \
    PROVIDER_B_CLIENT_SECRET PROVIDER_C_CLIENT_ID PROVIDER_C_CLIENT_SECRET PROVIDER_D_CLIENT_ID \
    PROVIDER_D_CLIENT_SECRET DEPLOY_HELPER_TOKEN UPDATE_CENTER_HELPER_TOKEN DEPLOY_HELPER_HOST DEPLOY_HELPER_PORT \
    TOKEN_ROUTER_CACHE_TTL_MS PROXY_LOG_RETENTION_DAYS PROXY_LOG_RETENTION_PRUNE_INTERVAL_MINUTES \
    MODEL_AVAILABILITY_PROBE_INTERVAL_MS MODEL_AVAILABILITY_PROBE_TIMEOUT_MS MODEL_AVAILABILITY_PROBE_CONCURRENCY \
    PROXY_SITE_CONCURRENCY_QUEUE_LIMIT PROXY_SITE_CONCURRENCY_QUEUE_WAIT_MS PROXY_SITE_CONCURRENCY_LEASE_TTL_MS \
    PROXY_SITE_CONCURRENCY_LEASE_KEEPALIVE_MS REQUEST_RATE_LIMIT_MAX REQUEST_RATE_LIMIT_WINDOW_MS \
    AUTHENTICATED_RATE_LIMIT_MAX WEBHOOK_ENABLED WEBHOOK_URL PUSH_APP_ENABLED PUSH_APP_URL PUSH_SERVICE_ENABLED \
    PUSH_SERVICE_KEY CHATBOT_ENABLED CHATBOT_BOT_TOKEN CHATBOT_CHAT_ID CHATBOT_API_BASE_URL \
    CHATBOT_MESSAGE_THREAD_ID CHATBOT_USE_SYSTEM_PROXY SMTP_ENABLED SMTP_HOST SMTP_PORT SMTP_SECURE SMTP_USER \
    SMTP_PASS SMTP_FROM SMTP_TO NOTIFY_COOLDOWN_SEC LLM_METADATA_MODELS_URLS";

#[test]
fn every_promised_variable_is_read_and_those_without_use_say_why() {
    let unused = ["TOKEN_ROUTER_CACHE_TTL_MS", "LLM_METADATA_MODELS_URLS"];
    let page = include_str!("../../docs/configuration.md");
    for name in PROMISED.split_whitespace() {
        // A value that is not text is an error only for variables that are read.
        let errors = read_beside(&HashMap::new(), &HashSet::from([name.to_owned()])).err();
        let errors = errors.unwrap_or_else(|| panic!("nobody reads {name}"));
        assert!(errors.iter().any(|error| error.starts_with(&format!("{name}:"))), "{name}: {errors:?}");
        assert!(page.contains(&format!("`{name}`")), "{name} is not in docs/configuration.md");
        let (_, warnings) = read_pairs(&[(name, "1")]).ok().unwrap_or_else(|| read_pairs(&[]).ok().unwrap());
        let is_unused = unused.contains(&name);
        let says_why = warnings.iter().any(|warning| warning.starts_with(&format!("{name} is not used: ")));
        assert_eq!(says_why, is_unused, "{name}: {warnings:?}");
    }
}

/// Returns the variables that a compose file sets for gateways: those behind `environment:` up to the next member.
fn variables_of(compose: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut depth = None;
    for line in compose.lines().filter(|line| !line.trim_start().starts_with('#')) {
        let indent = line.len() - line.trim_start().len();
        if line.trim() == "environment:" {
            depth = Some(indent);
        } else if depth.is_some_and(|depth| indent > depth) {
            names.extend(line.split_once(':').map(|(name, _)| name.trim().to_owned()));
        } else {
            depth = None;
        }
    }
    names
}

#[test]
fn the_compose_files_name_variables_that_exist_and_nginx_the_instances() {
    let instances = include_str!("../../docs/deploy/instances/compose.yaml");
    let nginx = include_str!("../../docs/deploy/instances/nginx.conf");
    for (compose, count) in [(include_str!("../../docs/deploy/compose.yaml"), 2), (instances, 5)] {
        assert!(!compose.contains('\t') && compose.lines().any(|line| line == "services:"), "it is YAML");
        let names = variables_of(compose);
        let ours: Vec<&String> = names.iter().filter(|name| !name.starts_with("POSTGRES_")).collect();
        assert_eq!(ours.len(), count, "{ours:?}");
        for name in ours {
            let errors = read_beside(&HashMap::new(), &HashSet::from([name.clone()])).err();
            assert!(
                errors
                    .is_some_and(|errors| errors.iter().any(|error| error.starts_with(&format!("{name}:"))))
            );
        }
    }
    for service in ["one", "two"] {
        assert!(instances.contains(&format!("\n  {service}:")), "{service}");
        assert!(nginx.contains(&format!("server {service}:4000")), "{service}");
    }
}

#[test]
fn the_desktop_has_a_port_of_its_own() {
    let port = |pairs: &[(&str, &str)]| read_pairs(pairs).ok().map(|(config, _)| config.desktop_port);
    assert_eq!(port(&[("PORT", "5000")]), Some(None));
    assert_eq!(port(&[("METAPI_DESKTOP_SERVER_PORT", "4711")]), Some(Some(4711)));
    assert_eq!(port(&[("SWITCHYARD_DESKTOP_SERVER_PORT", "0")]), Some(None));
}
