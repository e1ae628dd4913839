//! Outbound connections: proxies of accounts, sites and the system, custom headers, and pools of addresses; for management
//! calls and for clients' requests alike.

use serde_json::{Value, json};

use crate::support::{Gateway, Program, Proxy, Reply, Site, Upstream, eventually, wire};

/// Returns the address of a stub under another host name.
fn named(host: &str, upstream: &Upstream) -> String {
    let url = upstream.url();
    format!("http://{host}:{}", url.rsplit(':').next().expect("a port"))
}

/// Starts a stub that closes each connection after its answer: every request needs a new one.
fn forgetful(model: &str) -> Upstream {
    let upstream = Upstream::start(&[model]);
    let list = Reply::json(200, &wire::model_list(&[model.to_owned()]));
    upstream.answer("/v1/models", list.header("connection", "close"));
    let chat = Reply::json(200, &wire::chat(model));
    upstream.answer("/v1/chat/completions", chat.header("connection", "close"));
    // A price list is requested in the background.
    upstream.answer("/api/pricing", Reply::error(404, "none").header("connection", "close"));
    upstream
}

fn set_system_proxy(gateway: &Gateway, url: &str) {
    gateway.admin().put("/api/settings/runtime", &json!({"systemProxyUrl": url})).expect(200);
}

/// Adds a site at `url` with these fields, and an account whose models are routed.
fn add(gateway: &Gateway, url: &str, mut site: Value) -> Value {
    site["url"] = json!(url);
    site["name"] = json!(url);
    site["platform"] = json!("openai");
    let site = gateway.create_site(&site);
    let account = gateway.create_account(&site, "sk-upstream-key");
    gateway.wait_for_task(&account);
    account
}

#[test]
fn every_kind_of_proxy_carries_management_calls_and_requests() {
    let gateway = Gateway::start();
    for (scheme, protocol, credentials, resolves_here) in [
        ("http", "forward", "ada:p%40ss%3Aword@", false),
        ("socks", "socks5", "", false),
        ("socks5h", "socks5", "ada:p%40ss%3Aword@", false),
        ("socks5", "socks5", "", true),
        ("socks4a", "socks4", "", false),
        ("socks4", "socks4", "", true),
    ] {
        let (proxy, model) = (Proxy::start(), format!("model-by-{scheme}"));
        let upstream = forgetful(&model);
        let host = if resolves_here { "localhost" } else { "only-the-proxy-knows.example" };
        let url = named(host, &upstream);
        add(&gateway, &url, json!({"proxyUrl": proxy.url(scheme, credentials)}));
        assert!(!proxy.seen().is_empty(), "{scheme}: the model list came through the proxy");
        gateway.client().chat(&model).expect(200);
        let (connection, seen) = (upstream.last("/v1/chat/completions").connection, proxy.seen());
        assert!(connection < seen.len(), "{scheme}: the request came through the proxy, too");
        let port = url.rsplit(':').next().expect("a port");
        let host = if resolves_here { "127.0.0.1" } else { host };
        for crossing in seen {
            assert_eq!(
                (crossing.protocol, crossing.target),
                (protocol, format!("{host}:{port}")),
                "{scheme}"
            );
            let shown = (!credentials.is_empty()).then(|| "ada:p@ss:word".to_owned());
            assert_eq!(crossing.credentials, shown, "{scheme}");
        }
    }
}

#[test]
fn the_accounts_choice_goes_before_the_sites_and_the_systems() {
    let gateway = Gateway::start();
    let (of_account, of_site, of_system) = (Proxy::start(), Proxy::start(), Proxy::start());
    let upstream = forgetful("m");
    let count = || [of_account.seen().len(), of_site.seen().len(), of_system.seen().len()];
    let chat = || {
        let before = count();
        gateway.client().chat("m").expect(200);
        let after = count();
        [after[0] > before[0], after[1] > before[1], after[2] > before[2]]
    };
    let account = add(&gateway, &upstream.url(), json!({}));
    upstream.last("/api/pricing");
    let site = format!("/api/sites/{}", account["siteId"]);
    let account = format!("/api/accounts/{}", account["id"]);
    let put = |path: &str, body: &Value| drop(gateway.admin().put(path, body).expect(200));
    assert_eq!(chat(), [false, false, false], "nothing chosen is a direct way");
    set_system_proxy(&gateway, &of_system.url("http", ""));
    assert_eq!(chat(), [false, false, false], "nobody asked for the system's proxy");
    put(&site, &json!({"useSystemProxy": true}));
    assert_eq!(chat(), [false, false, true]);
    put(&site, &json!({"proxyUrl": of_site.url("socks5", "")}));
    assert_eq!(chat(), [false, true, false]);
    put(&account, &json!({"extraConfig": {"useSystemProxy": true}}));
    assert_eq!(chat(), [false, false, true]);
    put(&account, &json!({"proxyUrl": of_account.url("socks5h", "")}));
    assert_eq!(chat(), [true, false, false]);
    put(&account, &json!({"proxyUrl": null, "extraConfig": {"useSystemProxy": false}}));
    assert_eq!(chat(), [false, true, false]);
}

#[test]
fn another_system_proxy_is_taken_without_a_restart() {
    let gateway = Gateway::start();
    let (first, second) = (Proxy::start(), Proxy::start());
    set_system_proxy(&gateway, &first.url("http", ""));
    let upstream = Upstream::start(&["m"]);
    add(&gateway, &upstream.url(), json!({"useSystemProxy": true}));
    // The background request for the price list goes this way, too.
    upstream.last("/api/pricing");
    gateway.client().chat("m").expect(200);
    let before = first.seen().len();
    assert!(before > 0);
    set_system_proxy(&gateway, &second.url("socks5", ""));
    // Not even an open connection is used for the former way.
    gateway.client().chat("m").expect(200);
    assert_eq!((first.seen().len(), second.seen().len()), (before, 1));
    set_system_proxy(&gateway, "");
    gateway.client().chat("m").expect(200);
    assert_eq!((first.seen().len(), second.seen().len()), (before, 1), "a direct way again");
}

#[test]
fn a_proxy_that_is_gone_is_never_gone_around() {
    let gateway = Gateway::start();
    let proxy = Proxy::start();
    let upstream = Upstream::start(&["m"]);
    let account = add(&gateway, &upstream.url(), json!({"proxyUrl": proxy.url("http", "ada:sesame@")}));
    upstream.last("/api/pricing");
    let gone = proxy.url("http", "ada:sesame@");
    drop(proxy);
    upstream.hang_up();
    let asked = upstream.asked().len();
    let answer = gateway.client().chat("m");
    assert!(answer.status >= 500, "{}", answer.status);
    let verify = json!({"siteId": account["siteId"], "accessToken": "sk-other", "credentialMode": "apikey"});
    let verdict = gateway.admin().post("/api/accounts/verify-token", &verify).expect(200);
    assert_eq!(verdict["success"], false, "{verdict}");
    assert!(!verdict.to_string().contains("sesame"), "{verdict}");
    assert_eq!(upstream.asked().len(), asked, "{gone} was gone around");
}

#[test]
fn custom_headers_go_along_but_frame_nothing() {
    let gateway = Gateway::start();
    let site = Site::start(Program::NewApi, &["m"]);
    let headers =
        json!({"X-Tenant": "blue", "Cookie": "cf_clearance=abc", "Authorization": "Bearer not-this-one"});
    let made = gateway.create_site(&json!({"name": "n", "url": site.url(), "platform": "new-api",
        "customHeaders": headers.to_string()}));
    assert!(
        made["customHeaders"].as_str().is_some_and(|text| text.contains(r#""x-tenant":"blue""#)),
        "{made}"
    );
    let key = format!("sk-{}", site.ada().keys[0].key);
    let account = gateway.create_account(&made, &key);
    gateway.wait_for_task(&account);
    gateway.client().chat("m").expect(200);
    for path in ["/v1/models", "/v1/chat/completions"] {
        let asked = site.last(path);
        assert_eq!(asked.header("x-tenant"), Some("blue"), "{path}");
        assert_eq!(asked.header("authorization"), Some(format!("Bearer {key}").as_str()), "{path}");
    }
    let token = site.ada().token.clone();
    let verify = json!({"siteId": made["id"], "accessToken": token, "platformUserId": 7659});
    assert_eq!(gateway.admin().post("/api/accounts/verify-token", &verify).expect(200)["success"], true);
    let asked = site.last("/api/user/self");
    assert_eq!(
        asked.header("cookie"),
        Some("cf_clearance=abc"),
        "what gets past a wall, with the session's token"
    );
    assert_eq!(asked.header("authorization"), Some(format!("Bearer {token}").as_str()));
    for (name, value) in [
        ("Host", "other.example"),
        ("content-length", "5"),
        ("Transfer-Encoding", "chunked"),
        ("connection", "close"),
        ("x-ok", "a\r\nx-evil: b"),
        ("x-ok", "a\u{7}"),
    ] {
        let body = json!({"name": "b", "url": "https://b.example", "platform": "openai",
            "customHeaders": json!({name: value}).to_string()});
        let error = gateway.admin().post("/api/sites", &body).expect(400);
        assert!(error["error"].as_str().is_some_and(|text| text.contains(name)), "{error}");
    }
}

#[test]
fn discovery_and_verification_go_through_the_pool() {
    let gateway = Gateway::start();
    let (own, broken, sound) = (Upstream::start(&["own"]), Upstream::start(&["m"]), Upstream::start(&["m"]));
    broken.answer("/v1/models", Reply::error(503, "maintenance"));
    let site = gateway.create_site(&json!({"name": "pool", "url": own.url(), "platform": "openai",
        "apiEndpoints": [{"url": broken.url()}, {"url": sound.url()}]}));
    let verify = json!({"siteId": site["id"], "accessToken": "sk-key", "credentialMode": "apikey"});
    let verdict = gateway.admin().post("/api/accounts/verify-token", &verify).expect(200);
    assert_eq!(verdict["models"], json!(["m"]), "{verdict}");
    // The failed address cools and is not asked again.
    let account = gateway.create_account(&site, "sk-upstream-key");
    gateway.wait_for_task(&account);
    assert_eq!(broken.asked_for("/v1/models").len(), 1);
    assert!(own.asked_for("/v1/models").is_empty(), "a site with a pool is not asked at its own address");
    let endpoints = eventually("the pool shows it", || {
        let sites = gateway.admin().get("/api/sites").expect(200);
        let endpoints = sites[0]["apiEndpoints"].clone();
        endpoints[0]["cooldownUntil"].is_string().then_some(endpoints)
    });
    assert!(endpoints[0]["lastFailureReason"].as_str().is_some_and(|text| text.contains("maintenance")));
    assert_eq!(endpoints[1]["cooldownUntil"], Value::Null);
    // A refused key does not count against an address.
    sound.answer("/v1/models", Reply::error(401, "bad key"));
    gateway.admin().post("/api/accounts/verify-token", &verify).expect(200);
    assert_eq!(broken.asked_for("/v1/models").len(), 1);
}

#[test]
fn a_proxy_that_is_gone_is_no_fault_of_the_sites_addresses() {
    let gateway = Gateway::start();
    let (first, second) = (Upstream::start(&["m"]), Upstream::start(&["m"]));
    let pool = json!([{"url": first.url()}, {"url": second.url()}]);
    let site = json!({"name": "pool", "url": first.url(), "platform": "openai", "apiEndpoints": pool});
    let site = gateway.create_site(&site);
    let account = gateway.create_account(&site, "sk-upstream-key");
    gateway.wait_for_channels("m", 1);
    let path = format!("/api/accounts/{}", account["id"]);
    gateway.admin().put(&path, &json!({"proxyUrl": "http://127.0.0.1:1"})).expect(200);
    assert!(gateway.client().chat("m").status >= 500);
    let channel = gateway.channels("m")[0].clone();
    assert!(channel["cooldownUntil"].is_string(), "the channel has no way to its site: {channel}");
    let sites = gateway.admin().get("/api/sites").expect(200);
    for endpoint in sites[0]["apiEndpoints"].as_array().expect("a list") {
        assert_eq!(endpoint["cooldownUntil"], Value::Null, "{endpoint}");
    }
}
