//! No credential is readable in any file, in any answer, or in the log at any level.

use serde_json::{Value, json};

use crate::support::{self, ADMIN_TOKEN, Caller, Gateway, PROXY_TOKEN, Reply, Request, Setup, Upstream};

const MODEL: &str = "model-secret";
const KEY: &str = "sk-live-upstream-AbCdEf0123456789";
const SECOND_KEY: &str = "sk-live-upstream-second-987654";
const NEW_ADMIN_TOKEN: &str = "renewed-admin-token-5566";
const MISTYPED: &str = "sk-mistyped-by-a-person-4711";
const HEADER_SECRET: &str = "header-secret-1a2b3c";
const PROXY_PASSWORD: &str = "proxy-password-9z8y7x";

const RUNTIME: &str = "/api/settings/runtime";

const SECRETS: [&str; 9] = [
    KEY,
    SECOND_KEY,
    ADMIN_TOKEN,
    NEW_ADMIN_TOKEN,
    PROXY_TOKEN,
    MISTYPED,
    HEADER_SECRET,
    PROXY_PASSWORD,
    "credential-secret-of-the-tests",
];

/// Uses every place through which a credential passes, at the most verbose log level.
fn busy_gateway() -> (Gateway, Upstream, Vec<Value>) {
    let upstream = Upstream::start(&[MODEL]);
    let setup = Setup::default()
        .with("LOG_LEVEL", "trace")
        .with("SYSTEM_PROXY_URL", &format!("http://system:{PROXY_PASSWORD}@127.0.0.1:9"));
    let gateway = setup.start();
    let mut answers = Vec::new();
    let admin = gateway.admin();
    let mut keep = |answer: support::Answer| {
        let value: Value = serde_json::from_slice(&answer.body).unwrap_or(json!(answer.text()));
        answers.push(value.clone());
        value
    };

    let headers = json!({"x-secret": HEADER_SECRET}).to_string();
    let site = keep(admin.post(
        "/api/sites",
        &json!({"name": "s", "url": upstream.url(), "platform": "openai", "customHeaders": headers}),
    ));
    let proxied = json!({"name": "p", "url": "https://p.example", "platform": "openai",
        "proxyUrl": format!("socks5://user:{PROXY_PASSWORD}@127.0.0.1:9")});
    keep(admin.post("/api/sites", &proxied));
    let account = json!({"siteId": site["id"], "accessToken": KEY, "credentialMode": "apikey"});
    keep(admin.post("/api/accounts/verify-token", &account));
    let account = keep(admin.post("/api/accounts", &account));
    gateway.wait_for_task(&account);
    let path = format!("/api/accounts/{}", account["id"]);
    keep(admin.put(&path, &json!({"apiToken": SECOND_KEY})));

    let bot = format!("https://bot:{PROXY_PASSWORD}@bot.example");
    keep(admin.put(RUNTIME, &json!({"telegramApiBaseUrl": bot})));
    let draft = format!("https://dav:{PROXY_PASSWORD}@dav.example/backup.json");
    keep(admin.put("/api/settings/backup/webdav", &json!({"fileUrl": draft})));

    keep(gateway.client().chat(MODEL));
    keep(gateway.anyone().get(&format!("/v1/models?key={PROXY_TOKEN}")));
    keep(gateway.anyone().get(&format!("/v1/models?key={MISTYPED}")));
    keep(gateway.anyone().get(&format!("/api/sites?token={MISTYPED}")));
    for header in ["authorization", "x-api-key", "x-goog-api-key", "cookie"] {
        let ask = Caller::chat_ask(MODEL, false).header(header, MISTYPED);
        keep(gateway.anyone().send(ask));
        keep(gateway.anyone().send(Request::new("GET", "/api/sites").header(header, MISTYPED)));
    }
    // An upstream that repeats the key it was given.
    let echo = format!("Incorrect API key provided: {SECOND_KEY}");
    upstream.answer("/v1/chat/completions", Reply::error(401, &echo));
    upstream.answer("/v1/models", Reply::error(401, &echo));
    keep(gateway.client().chat(MODEL));
    keep(admin.put(&path, &json!({"apiToken": SECOND_KEY})));
    let change = json!({"oldToken": ADMIN_TOKEN, "newToken": NEW_ADMIN_TOKEN});
    keep(admin.post("/api/settings/auth/change", &change));

    let admin = gateway.with_token(NEW_ADMIN_TOKEN);
    for path in [
        "/api/sites",
        "/api/accounts",
        "/api/routes",
        "/api/routes/summary",
        "/api/tasks",
        "/api/stats/proxy-logs",
        "/api/settings/auth/info",
        "/api/settings/backup/webdav",
        RUNTIME,
        "/api/events",
        "/metrics",
    ] {
        keep(admin.get(path));
    }
    (gateway, upstream, answers)
}

#[test]
fn a_credential_is_in_no_file_no_answer_and_no_log_line() {
    let (mut gateway, _upstream, answers) = busy_gateway();
    for answer in &answers {
        for secret in SECRETS {
            assert!(!answer.to_string().contains(secret), "{secret} in the answer {answer}");
        }
    }
    no_file_holds_a_secret(&gateway);
    gateway.signal("TERM");
    gateway.wait_for_exit();
    no_file_holds_a_secret(&gateway);
    let output = gateway.output();
    assert!(!output.is_empty());
    for secret in SECRETS {
        let line = output.lines().find(|line| line.contains(secret));
        assert!(line.is_none(), "{secret} in the log line {line:?}");
    }
}

fn no_file_holds_a_secret(gateway: &Gateway) {
    let files = gateway.home().files();
    assert!(!files.is_empty());
    for (path, bytes) in files {
        for secret in SECRETS {
            let found = bytes.windows(secret.len()).any(|part| part == secret.as_bytes());
            assert!(!found, "{secret} in {}", path.display());
        }
    }
}

#[test]
fn a_stored_credential_is_sealed_and_a_copy_in_another_column_would_not_open() {
    let (mut gateway, _upstream, _) = busy_gateway();
    gateway.kill();
    let database = gateway.home().database();
    let sealed = database.text("SELECT api_token FROM accounts");
    assert!(sealed.starts_with("enc:2:"), "{sealed}");
    let headers = database.text("SELECT custom_headers FROM sites WHERE name = 's'");
    assert!(headers.starts_with("enc:2:"), "{headers}");
    let copied = database.execute("UPDATE sites SET custom_headers = ? WHERE name = 's'", &[&sealed]);
    assert_eq!(copied, 1, "a value in another column");
    // It starts all the same, and never sends one column's secret as another's.
    let restarted = gateway.restart();
    let sites = restarted.with_token(NEW_ADMIN_TOKEN);
    assert!(!sites.get("/api/sites").text().contains(SECOND_KEY));
}

#[test]
fn the_mask_of_a_former_secret_is_not_taken_for_a_new_one() {
    let (gateway, _upstream) = Gateway::serving(&["alpha"]);
    let admin = gateway.admin();
    let settings = RUNTIME;
    admin.put(settings, &json!({"smtpPass": "a-former-password"})).expect(200);
    let shown = admin.get(settings).expect(200)["smtpPassMasked"].clone();
    admin.put(settings, &json!({"smtpPass": "the-password-of-another"})).expect(200);
    let key =
        admin.post("/api/downstream-keys", &json!({"name": "k", "key": "sk-a-key-of-mine"})).expect(200);
    let key = format!("/api/downstream-keys/{}", key["item"]["id"]);
    admin.put(&key, &json!({"key": "sk-the-other-key-of-mine"})).expect(200);
    let site = "/api/sites/1";
    for value in ["a-former-value", "the-value-of-another"] {
        admin.put(site, &json!({"customHeaders": {"x-api-secret": value}})).expect(200);
    }
    for (path, body) in [
        (settings, json!({"smtpPass": shown})),
        (settings, json!({"systemProxyUrl": "http://jim:****@p.example:1"})),
        (settings, json!({"webhookUrl": "https://former.example/****"})),
        (settings, json!({"telegramApiBaseUrl": "https://jim:****@bot.example"})),
        (site, json!({"customHeaders": {"x-api-secret": "a-fo****alue"}})),
        (site, json!({"proxyUrl": "http://jim:****@p.example:1"})),
        ("/api/accounts/1", json!({"proxyUrl": "http://jim:****@p.example:1"})),
        (&*key, json!({"key": "sk-a****mine"})),
        ("/api/settings/backup/webdav", json!({"password": "ab****cd"})),
    ] {
        let refused = admin.put(path, &body).expect(400).to_string();
        assert!(refused.contains("not a mask"), "{body}: {refused}");
    }
    let kept = admin.get("/api/settings/backup/export").expect(200).to_string();
    assert!(kept.contains("the-password-of-another") && kept.contains("the-value-of-another"));
}

#[test]
fn the_password_in_the_address_of_a_bot_stays_when_its_mask_comes_back() {
    let gateway = Gateway::start();
    let admin = gateway.admin();
    admin.put(RUNTIME, &json!({"telegramApiBaseUrl": "https://bot:a-password@bot.example/"})).expect(200);
    let shown = admin.get(RUNTIME).expect(200)["telegramApiBaseUrl"].clone();
    assert_eq!(shown, "https://bot:****@bot.example");
    admin.put(RUNTIME, &json!({"telegramApiBaseUrl": shown, "telegramChatId": "5"})).expect(200);
    let kept = admin.get("/api/settings/backup/export").expect(200).to_string();
    assert!(kept.contains("https://bot:a-password@bot.example"), "{kept}");
}
