//! Accounts that are connected by a browser login: from the start to an account that serves.

mod google;
mod operator;
mod secrets;
mod story;

use std::net::TcpListener;

use operator::{ExpectStatus, Operator, browse, split, text};
use serde_json::{Value, json};

use crate::support::{
    self, Answer, Caller, Gate, Gateway, Provider, Reply, Request, Setup, eventually, free_port,
};

const MODEL: &str = "model-of-the-login";

#[test]
fn the_list_of_providers_says_what_each_needs_and_warns_of_terms() {
    let gateway = Gateway::with(&[("GEMINI_CLI_CLIENT_ID", "c"), ("PROVIDER_D_CLIENT_ID", "d")]);
    let list = gateway.admin().get("/api/oauth/providers").expect(200);
    assert_eq!(list["defaults"], json!({"systemProxyConfigured": false}));
    let providers = list["providers"].as_array().expect("a list");
    let ids: Vec<&str> = providers.iter().map(|provider| text(&provider["provider"])).collect();
    assert_eq!(ids, Provider::IDS);
    let enabled: Vec<&Value> = providers.iter().map(|provider| &provider["enabled"]).collect();
    assert_eq!(enabled, [true, true, false, false]);
    assert_eq!(providers[2]["missingVariables"], json!(["PROVIDER_C_CLIENT_SECRET"]));
    assert_eq!(providers[3]["disabledReason"], "PROVIDER_D_CLIENT_SECRET is not set");
    assert!(providers.iter().all(|provider| text(&provider["notice"]).contains("terms may restrict")));
    let projects: Vec<&Value> = providers.iter().map(|provider| &provider["requiresProjectId"]).collect();
    assert_eq!(projects, [false, false, true, false]);
    let refused = gateway.admin().post("/api/oauth/providers/antigravity/start", &json!({})).expect(400);
    assert_eq!(refused["message"], "PROVIDER_D_CLIENT_SECRET is not set");
    gateway.admin().post("/api/oauth/providers/nobody/start", &json!({})).expect(404);
    assert!(gateway.admin().get("/api/sites").expect(200).as_array().expect("a list").is_empty());
}

#[test]
fn a_login_with_each_provider_gives_an_account_with_its_models() {
    for id in Provider::IDS {
        let provider = Provider::start(id, &["model-a", "model-b", "model-c"]);
        let gateway = provider.gateway();
        let session = gateway.connect(&provider);
        let account = gateway.account(&session["accountId"]);
        assert_eq!(account["siteId"], session["siteId"], "{id}");
        assert_eq!((&account["status"], &account["oauthProvider"]), (&json!("active"), &json!(id)));
        assert_eq!(account["username"], "ada@example.com");
        assert_eq!(account["checkinEnabled"], false);
        let key = if id == "codex" || id == "claude" { "account-of-ada" } else { "ada@example.com" };
        assert_eq!(account["oauthAccountKey"], key, "{id}");
        let project = if id == "gemini-cli" { json!("project-of-ada") } else { Value::Null };
        assert_eq!(account["oauthProjectId"], project, "{id}");
        let notes: Value = serde_json::from_str(text(&account["extraConfig"])).expect("an object");
        let notes = &notes["oauth"];
        assert_eq!(
            (&notes["email"], &notes["modelDiscoveryStatus"]),
            (&json!("ada@example.com"), &json!("healthy"))
        );
        assert_eq!(account["runtimeHealth"]["state"], "healthy", "{account}");
        let model = if id == "gemini-cli" { "gemini-2.5-pro" } else { "model-c" };
        assert_eq!(gateway.channels(model).len(), 1, "{id}");
        let sites = gateway.admin().get("/api/sites").expect(200);
        assert_eq!((&sites[0]["platform"], &sites[0]["url"]), (&json!(id), &json!(provider.url())));
        let text = gateway.admin().get("/api/accounts?refresh=1").text();
        assert!(!text.contains("-of-the-tests"), "a token is shown: {text}");
    }
}

#[test]
fn a_login_is_told_in_steps_and_a_browser_that_comes_back_twice_is_told() {
    let provider = Provider::start("codex", &[MODEL]);
    let gateway = provider.gateway();
    let started = gateway.begin(&provider, &json!({}));
    assert_eq!(text(&started["state"]).len(), 32);
    let instructions = &started["instructions"];
    let port = &instructions["callbackPort"];
    assert_eq!(instructions["redirectUri"], format!("http://localhost:{port}/auth/callback"));
    assert_eq!(
        (&instructions["callbackPath"], &instructions["manualCallbackDelayMs"]),
        (&json!("/auth/callback"), &json!(15_000))
    );
    assert!(instructions.get("sshTunnelCommand").is_none());
    let session = gateway.session(&started);
    assert_eq!((&session["status"], &session["provider"]), (&json!("pending"), &json!("codex")));

    let (address, _) = split(text(&instructions["redirectUri"]));
    let browser = Caller::new(address);
    browser.get("/elsewhere").expect_status(404);
    let refused = browser.post("/auth/callback", &json!({}));
    assert_eq!((refused.status, refused.header("allow")), (405, Some("GET")));
    browser.get("/auth/callback").expect_status(500);
    browser.get("/auth/callback?code=c&state=guessed-0123456789").expect_status(500);
    assert_eq!(gateway.session(&started)["status"], "pending");
    assert!(provider.asked_for("/token").is_empty());

    let callback = provider.agree(text(&started["authorizationUrl"]));
    let page = browse(&callback);
    assert_eq!((page.status, page.header("cache-control")), (200, Some("no-store")));
    assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"));
    assert_eq!(
        page.header("content-security-policy"),
        Some("default-src 'none'; script-src 'unsafe-inline'")
    );
    assert_eq!(page.header("referrer-policy"), Some("no-referrer"));
    assert!(page.text().contains("window.close()") && !page.text().contains("ada"));
    assert_eq!(gateway.session(&started)["status"], "success");
    browse(&callback).expect_status(500);
    assert_eq!(gateway.session(&started)["status"], "success");
    assert_eq!(provider.asked_for("/token").len(), 1);
}

#[test]
fn a_port_that_is_set_is_open_from_the_start_and_stays() {
    let provider = Provider::start("codex", &[MODEL]);
    let port = free_port();
    let setup = provider.setup(Setup::default()).with("PROVIDER_A_CALLBACK_PORT", &port.to_string());
    let gateway = setup.start();
    let address = std::net::SocketAddr::from(([127, 0, 0, 1], port));
    eventually("the port is open", || std::net::TcpStream::connect(address).ok());
    let browser = Caller::new(address);
    browser.get("/elsewhere").expect_status(404);
    assert_eq!(browser.post("/auth/callback", &json!({})).status, 405);
    browser.get("/auth/callback").expect_status(500);
    let started = gateway.begin(&provider, &json!({}));
    assert_eq!(started["instructions"]["callbackPort"], port);
    let page = browse(&provider.agree(text(&started["authorizationUrl"])));
    assert_eq!((page.status, &gateway.session(&started)["status"]), (200, &json!("success")));
    browser.get("/auth/callback").expect_status(500);
}

#[test]
fn a_callback_is_pasted_in_every_form_even_when_its_port_is_taken() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = taken.local_addr().expect("an address").port();
    let provider = Provider::start("claude", &[MODEL]);
    let setup = provider.setup(Setup::default()).with("PROVIDER_B_CALLBACK_PORT", &port.to_string());
    let gateway = setup.start();
    let list = gateway.admin().get("/api/oauth/providers").expect(200);
    assert_eq!(list["providers"][1]["enabled"], true);
    for form in ["query", "fragment", "claude", "code"] {
        let started = gateway.begin(&provider, &json!({}));
        assert_eq!(started["instructions"]["callbackPort"], port);
        let url = provider.agree(text(&started["authorizationUrl"]));
        let (code, state) =
            url.split_once("code=").and_then(|(_, tail)| tail.split_once("&state=")).expect("both");
        let pasted = match form {
            "query" => url.clone(),
            "fragment" => url.replace('?', "#"),
            "claude" => format!("{code}#{state}"),
            _ => code.to_owned(),
        };
        assert_eq!(gateway.paste(&started, &pasted).expect(200), json!({"success": true}), "{form}");
        assert_eq!(gateway.session(&started)["status"], "success", "{form}");
    }
    assert_eq!(gateway.accounts().len(), 1, "one owner has one account");
}

#[test]
fn what_is_pasted_wrongly_is_refused_and_uses_nothing_up() {
    let provider = Provider::start("codex", &[MODEL]);
    let gateway = provider.gateway();
    let (started, other) = (gateway.begin(&provider, &json!({})), gateway.begin(&provider, &json!({})));
    let of_other = provider.agree(text(&other["authorizationUrl"]));
    for (pasted, message) in [
        ("", "invalid oauth callback url"),
        ("not a url", "invalid oauth callback url"),
        ("http://localhost:1455/auth/callback?code=c", "invalid oauth callback url"),
        ("http://localhost:1455/auth/callback?state=s", "invalid oauth callback url"),
        (&of_other, "oauth callback state mismatch"),
    ] {
        assert_eq!(gateway.paste(&started, pasted).expect(400)["message"], message, "{pasted}");
    }
    let path = format!("/api/oauth/sessions/{}/manual-callback", text(&started["state"]));
    let refused = gateway.admin().post(&path, &json!({"callbackUrl": 7})).expect(400);
    assert_eq!(refused["message"], "Invalid callbackUrl. Expected string.");
    let unknown = json!({"state": "unknown"});
    let refused = gateway.paste(&unknown, "nothing").expect(404);
    assert_eq!(refused["message"], "oauth session not found");
    gateway.admin().get("/api/oauth/sessions/unknown").expect(404);
    assert_eq!(gateway.session(&started)["status"], "pending");
    gateway.paste(&other, &of_other).expect(200);
}

#[test]
fn a_state_is_used_once_and_only_for_its_own_provider() {
    let provider = Provider::start("codex", &[MODEL]);
    let gateway = provider.gateway();
    let started = gateway.begin(&provider, &json!({}));
    let url = provider.agree(text(&started["authorizationUrl"]));
    let (_, target) = split(&url);
    let query = target.split_once('?').map(|(_, query)| query).expect("a query");
    // Another provider's callback, and one without a code.
    for stray in [
        format!("claude?{query}"),
        format!("codex?state={}", text(&started["state"])),
        "nobody?code=c".to_owned(),
    ] {
        let page = gateway.anyone().get(&format!("/api/oauth/callback/{stray}"));
        assert!(page.status == 200 && page.text().contains("failed"), "{stray}");
    }
    assert_eq!(gateway.session(&started)["status"], "pending");
    let page = gateway.anyone().get(&format!("/api/oauth/callback/codex?{query}"));
    assert!(page.status == 200 && page.text().contains("succeeded"), "{}", page.text());
    let ended = gateway.session(&started);
    assert_eq!(ended["status"], "success");
    // Again, in each way.
    let page = gateway.anyone().get(&format!("/api/oauth/callback/codex?{query}"));
    assert!(page.text().contains("failed"));
    assert_eq!(gateway.paste(&started, &url).expect(409)["message"], "oauth callback already used");
    assert_eq!(gateway.session(&started), ended);
    assert_eq!(provider.book().exchanges, 1);
}

#[test]
fn of_two_callbacks_at_once_one_is_taken() {
    let provider = Provider::start("codex", &[MODEL]);
    let gateway = provider.gateway();
    let gate = Gate::new();
    provider.answer_once("/models", Reply::json(200, &json!({"models": [MODEL]})).head_waits_for(&gate));
    let started = gateway.begin(&provider, &json!({}));
    let url = provider.agree(text(&started["authorizationUrl"]));
    let browser = std::thread::spawn({
        let url = url.clone();
        move || browse(&url).status
    });
    provider.last("/models");
    assert_eq!(gateway.session(&started)["status"], "pending");
    gateway.paste(&started, &url).expect(409);
    gate.open();
    assert_eq!(browser.join().expect("no panic"), 200);
    assert_eq!(gateway.session(&started)["status"], "success");
    assert_eq!((provider.book().exchanges, gateway.accounts().len()), (1, 1));
}

#[test]
fn a_denial_is_told_in_one_line_and_ends_the_login() {
    let provider = Provider::start("codex", &[MODEL]);
    let gateway = provider.gateway();
    let started = gateway.begin(&provider, &json!({}));
    let redirect = text(&started["instructions"]["redirectUri"]);
    let state = text(&started["state"]);
    let denial = format!(
        "{redirect}?error=access_denied&error_description=%3Cscript%3Ealert(1)%3C%2Fscript%3E%0D%0AFORGED%20LINE%1b[31m&state={state}"
    );
    let page = browse(&denial);
    assert!(page.status == 500 && !page.text().contains("alert"), "{}", page.text());
    let session = gateway.session(&started);
    assert_eq!(session["status"], "error");
    assert_eq!(session["error"], "access_denied: <script>alert(1)</script> FORGED LINE [31m");
    gateway.wait_for_output("FORGED LINE");
    assert!(!gateway.output().contains("\nFORGED") && !gateway.output().contains('\u{1b}'));
    let url = provider.agree(text(&started["authorizationUrl"]));
    let refused = gateway.paste(&started, &url).expect(409);
    assert_eq!(refused["message"], "oauth callback already used");
    assert_eq!(browse(&url).status, 500);
    assert_eq!(gateway.session(&started), session);
    assert!(provider.asked_for("/token").is_empty() && gateway.accounts().is_empty());
}

#[test]
fn a_login_that_fails_stores_nothing_and_says_why() {
    let provider = Provider::start("codex", &[MODEL]);
    let gateway = provider.gateway();
    let no_account = json!({"access_token": "access-0123456789", "refresh_token": "refresh-0123456789",
        "id_token": "e30.e30.e30", "expires_in": 60});
    let hostile = format!("<b>no</b>\r\nFORGED access-0123456789 {}", "x".repeat(4_000));
    for (path, reply, words) in [
        (
            "/token",
            Reply::json(400, &json!({"error": "invalid_grant", "error_description": "Code over"})),
            "codex token exchange failed with status 400: invalid_grant: Code over",
        ),
        ("/token", Reply::html(502, "<h1>Bad gateway</h1>"), "codex token exchange failed with status 502"),
        (
            "/token",
            Reply::bytes(503, "text/plain", "upstream down"),
            "codex token exchange failed with status 503: upstream down",
        ),
        ("/token", Reply::json(200, &no_account), "codex token exchange response missing chatgpt_account_id"),
        ("/token", Reply::json(200, &json!({})), "codex token exchange response missing access_token"),
        (
            "/models",
            Reply::json(503, &json!({"error": {"message": "unavailable"}})),
            "Codex model discovery failed (HTTP 503: unavailable)",
        ),
        (
            "/models",
            Reply::bytes(503, "text/plain", "unavailable"),
            "Codex model discovery failed (HTTP 503: unavailable)",
        ),
        (
            "/models",
            Reply::json(200, &json!({"models": []})),
            "Codex model discovery failed (the provider lists no models)",
        ),
        (
            "/token",
            Reply::json(500, &json!({"error": hostile, "access_token": "access-0123456789"})),
            "FORGED [redacted] xxx",
        ),
    ] {
        provider.answer_once(path, reply);
        let started = gateway.begin(&provider, &json!({}));
        let url = provider.agree(text(&started["authorizationUrl"]));
        let refused = gateway.paste(&started, &url).expect(500);
        let session = gateway.session(&started);
        assert_eq!(session["status"], "error");
        let error = text(&session["error"]);
        assert!(error.contains(words) && error.len() < 600 && !error.contains(['\r', '\n']), "{error}");
        assert_eq!(refused["message"], error);
    }
    assert!(gateway.accounts().is_empty() && gateway.routes().is_empty());
    assert_eq!(gateway.admin().get("/api/sites").expect(200), json!([]));
    assert!(!gateway.output().contains("0123456789") && !gateway.output().contains("\nFORGED"));
}

#[test]
fn an_account_that_is_connected_anew_serves_until_the_switch_and_stays_as_it_was_when_that_fails() {
    let provider = Provider::start("codex", &[MODEL]);
    let gateway = provider.gateway();
    let id = gateway.connect(&provider)["accountId"].clone();
    let manual = format!("/api/accounts/{id}/models/manual");
    gateway.admin().post(&manual, &json!({"models": ["typed-by-hand"]})).expect(200);
    let before = gateway.account(&id);
    let first = provider.book().access.last().cloned().expect("a token");

    // While the new token's models are being read, the previous token serves.
    let gate = Gate::new();
    let refusal = Reply::json(503, &json!({"error": {"message": "unavailable"}})).head_waits_for(&gate);
    provider.answer_once("/models", refusal);
    let started = gateway.begin(&provider, &json!({"accountId": id}));
    let url = provider.agree(text(&started["authorizationUrl"]));
    let browser = std::thread::spawn(move || browse(&url).status);
    eventually("the new login asks for models", || (provider.asked_for("/models").len() == 2).then_some(()));
    gateway.client().chat(MODEL).expect(200);
    assert_eq!(provider.last("/responses").header("authorization"), Some(format!("Bearer {first}").as_str()));
    gate.open();
    assert_eq!(browser.join().expect("no panic"), 500);
    let after = gateway.account(&id);
    for member in ["status", "username", "oauthAccountKey", "extraConfig", "updatedAt"] {
        assert_eq!(after[member], before[member], "{member}");
    }
    gateway.client().chat(MODEL).expect(200);

    // The store cannot create the routes: the previous data is restored.
    provider.book().models = vec!["another-model".to_owned()];
    gateway.home().database().refuse_inserts("token_routes", "1 = 1");
    let started = gateway.begin(&provider, &json!({"accountId": id}));
    let url = provider.agree(text(&started["authorizationUrl"]));
    assert_eq!(gateway.paste(&started, &url).expect(500)["message"], "the routes could not be rebuilt");
    gateway.home().database().allow_changes("token_routes");
    assert_eq!(gateway.account(&id)["status"], "active");
    gateway.client().chat(MODEL).expect(200);
    assert_eq!(provider.last("/responses").header("authorization"), Some(format!("Bearer {first}").as_str()));
    assert_eq!((gateway.channels(MODEL).len(), gateway.channels("typed-by-hand").len()), (1, 1));

    // Then it works.
    let started = gateway.begin(&provider, &json!({"accountId": id}));
    let url = provider.agree(text(&started["authorizationUrl"]));
    gateway.paste(&started, &url).expect(200);
    assert_eq!(gateway.session(&started)["accountId"], id);
    assert!(gateway.channels(MODEL).is_empty());
    assert_eq!((gateway.channels("another-model").len(), gateway.channels("typed-by-hand").len()), (1, 1));
    gateway.client().chat("another-model").expect(200);
    let last = provider.book().access.last().cloned().expect("a token");
    assert_eq!(provider.last("/responses").header("authorization"), Some(format!("Bearer {last}").as_str()));
}

#[test]
fn an_address_that_means_harm_is_a_name_like_any_other() {
    let provider = Provider::start("codex", &[MODEL]);
    provider.book().email = "<script>x</script>\r\nFORGED \u{1b}[31m@example.com".to_owned();
    let gateway = provider.gateway();
    let started = gateway.begin(&provider, &json!({}));
    let page = browse(&provider.agree(text(&started["authorizationUrl"])));
    assert!(page.status == 200 && !page.text().contains("FORGED"));
    let id = gateway.session(&started)["accountId"].clone();
    assert_eq!(gateway.account(&id)["username"], "<script>x</script>FORGED [31m@example.com");
    provider.revoke();
    assert_ne!(gateway.client().chat(MODEL).status, 200);
    gateway.wait_for_output("FORGED");
    assert!(!gateway.output().contains("\nFORGED") && !gateway.output().contains('\u{1b}'));
}

#[test]
fn only_an_account_of_the_same_provider_is_connected_anew() {
    let provider = Provider::start("codex", &[MODEL]);
    let setup = Provider::start("claude", &[MODEL]).setup(provider.setup(Setup::default()));
    let gateway = setup.start();
    let id = gateway.connect(&provider)["accountId"].clone();
    for (path, body, status, message) in [
        ("claude", json!({"accountId": id}), 404, "oauth account not found"),
        ("codex", json!({"accountId": 9_999}), 404, "oauth account not found"),
        ("codex", json!({"accountId": "1"}), 400, "Invalid accountId. Expected positive number."),
        ("codex", json!({"projectId": 1}), 400, "Invalid projectId. Expected string."),
        (
            "codex",
            json!({"projectId": "a\nb"}),
            400,
            "Invalid projectId. Expected line of at most 191 characters.",
        ),
        ("codex", json!({"proxyUrl": 1}), 400, "Invalid proxyUrl. Expected string or null."),
        ("codex", json!({"proxyUrl": "nowhere"}), 400, "invalid proxy url"),
        ("codex", json!({"useSystemProxy": "yes"}), 400, "Invalid useSystemProxy. Expected boolean."),
    ] {
        let refused =
            gateway.admin().post(&format!("/api/oauth/providers/{path}/start"), &body).expect(status);
        assert_eq!(refused["message"], message, "{path} {body}");
    }
}

#[test]
fn a_site_that_was_disabled_stays_so_and_workspaces_of_one_address_are_accounts_of_their_own() {
    let provider = Provider::start("codex", &[MODEL]);
    let gateway = provider.gateway();
    let first = gateway.connect(&provider);
    let site = format!("/api/sites/{}", first["siteId"]);
    gateway.admin().put(&site, &json!({"status": "disabled"})).expect(200);
    provider.book().account = "another-workspace".to_owned();
    let second = gateway.connect(&provider);
    assert_eq!(first["siteId"], second["siteId"]);
    assert_ne!(first["accountId"], second["accountId"]);
    let sites = gateway.admin().get("/api/sites").expect(200);
    assert_eq!((sites.as_array().map(Vec::len), &sites[0]["status"]), (Some(1), &json!("disabled")));
}

#[test]
fn a_remote_operator_is_told_how_to_forward_the_port_and_no_host_reaches_the_shell_unseen() {
    let provider = Provider::start("codex", &[MODEL]);
    let gateway = provider.gateway();
    let start = |host: &str| {
        let request = Request::post("/api/oauth/providers/codex/start").header("x-forwarded-host", host);
        gateway.admin().send(request).expect(200)["instructions"].clone()
    };
    let told = start("gw.example.com");
    let port = &told["callbackPort"];
    assert_eq!(told["sshTunnelCommand"], format!("ssh -L {port}:127.0.0.1:{port} root@gw.example.com -p 22"));
    assert_eq!(
        told["sshTunnelKeyCommand"],
        format!("ssh -i <path_to_your_key> -L {port}:127.0.0.1:{port} root@gw.example.com -p 22")
    );
    for host in ["gw;reboot", "$(reboot)", "`reboot`", "-oProxyCommand=reboot", "a b", "localhost", "[::1]"] {
        assert!(start(host).get("sshTunnelCommand").is_none(), "{host}");
    }
}

#[test]
fn a_connected_account_is_asked_for_models_again_with_a_renewed_token_and_marked_when_that_fails() {
    let provider = Provider::start("codex", &[MODEL]);
    let gateway = provider.gateway();
    let id = gateway.connect(&provider)["accountId"].clone();
    let check = |status: &str| {
        let outcome = gateway.admin().post(&format!("/api/models/check/{id}"), &json!({})).expect(200);
        assert_eq!(outcome["refresh"]["status"], status, "{outcome}");
        let notes: Value =
            serde_json::from_str(text(&gateway.account(&id)["extraConfig"])).expect("an object");
        notes["oauth"].clone()
    };
    provider.end_access();
    provider.book().models = vec![MODEL.to_owned(), "model-new".to_owned()];
    let notes = check("success");
    assert_eq!((&notes["modelDiscoveryStatus"], provider.book().refreshes), (&json!("healthy"), 1));
    assert_eq!(notes["lastDiscoveredModels"], json!([MODEL, "model-new"]));
    assert_eq!(gateway.channels("model-new").len(), 1);
    provider.answer_once("/models", Reply::json(503, &json!({"error": {"message": "unavailable"}})));
    let notes = check("failed");
    assert_eq!(
        (&notes["modelDiscoveryStatus"], &notes["lastModelSyncError"]),
        (&json!("abnormal"), &json!("HTTP 503: unavailable"))
    );
    assert_eq!(gateway.account(&id)["runtimeHealth"]["state"], "unhealthy");
    assert_eq!(gateway.channels("model-new").len(), 1, "a failed list takes nothing away");
}

#[test]
fn an_account_is_not_connected_anew_as_a_user_of_another_account() {
    let provider = Provider::start("codex", &[MODEL]);
    let gateway = provider.gateway();
    let ada = gateway.connect(&provider)["accountId"].clone();
    (provider.book().email, provider.book().account) =
        ("bob@example.com".to_owned(), "account-of-bob".to_owned());
    let bob = gateway.connect(&provider)["accountId"].clone();
    assert_ne!(ada, bob);
    let path = format!("/api/oauth/connections/{ada}/rebind");
    let started = gateway.admin().post(&path, &json!({})).expect(200);
    let url = provider.agree(text(&started["authorizationUrl"]));
    let refused = gateway.paste(&started, &url).expect(500);
    let told = format!("belongs to account {bob}");
    assert!(text(&refused["message"]).contains(&told), "{refused}");
    assert_eq!(gateway.account(&ada)["username"], "ada@example.com");
    let started = gateway.admin().post(&path, &json!({})).expect(200);
    (provider.book().email, provider.book().account) =
        ("ada@example.com".to_owned(), "account-of-ada".to_owned());
    gateway.paste(&started, &provider.agree(text(&started["authorizationUrl"]))).expect(200);
}

#[test]
fn a_login_that_a_factory_reset_overtakes_stores_nothing() {
    let provider = Provider::start("codex", &[MODEL]);
    let gateway = provider.gateway();
    let gate = Gate::new();
    provider.answer_once(
        "/models",
        Reply::json(200, &json!({"models": [{"slug": MODEL}]})).head_waits_for(&gate),
    );
    let started = gateway.begin(&provider, &json!({}));
    let url = provider.agree(text(&started["authorizationUrl"]));
    std::thread::scope(|scope| {
        let logging_in = scope.spawn(|| gateway.paste(&started, &url).status);
        eventually("the models are asked for", || (!provider.asked_for("/models").is_empty()).then_some(()));
        gateway.admin().post("/api/settings/maintenance/factory-reset", &json!({})).expect(200);
        gate.open();
        assert_ne!(logging_in.join().expect("an answer"), 200);
    });
    let admin = gateway.with_token("change-me-admin-token");
    admin.get(&format!("/api/oauth/sessions/{}", text(&started["state"]))).expect(404);
    assert_eq!(admin.get("/api/accounts?refresh=1").expect(200)["accounts"], json!([]));
    assert_eq!(admin.get("/api/sites").expect(200), json!([]));
}

#[test]
fn an_account_is_connected_anew_through_its_own_proxy_unless_another_is_named() {
    let provider = Provider::start("codex", &[MODEL]);
    let gateway = provider.gateway();
    let id = gateway.connect(&provider)["accountId"].clone();
    let proxy = support::Proxy::start();
    let path = format!("/api/oauth/connections/{id}/rebind");
    let rebind = |body: &Value, status: u16| {
        let started = gateway.admin().post(&path, body).expect(200);
        let url = provider.agree(text(&started["authorizationUrl"]));
        gateway.paste(&started, &url).expect(status);
        let config: Value =
            serde_json::from_str(text(&gateway.account(&id)["extraConfig"])).expect("an object");
        config["proxyUrl"].clone()
    };
    let url = proxy.url("http", "");
    assert_eq!(rebind(&json!({"proxyUrl": url}), 200), json!(url));
    assert!(!proxy.seen().is_empty(), "the exchange takes the proxy that was named");
    assert_eq!(rebind(&json!({}), 200), json!(url), "and the account keeps it");
    // A port that nobody listens on any more.
    let gone =
        TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("an address");
    let dead = format!("http://{gone}");
    let proxy_path = format!("/api/oauth/connections/{id}/proxy");
    let patch = Request::new("PATCH", &proxy_path).json(&json!({"proxyUrl": dead}));
    gateway.admin().send(patch).expect(200);
    assert_eq!(rebind(&json!({}), 500), json!(dead), "its own proxy is taken, which is gone");
    assert_eq!(rebind(&json!({"proxyUrl": null}), 200), Value::Null);
    gateway.admin().post("/api/oauth/connections/9999/rebind", &json!({})).expect(404);
    gateway.admin().post("/api/oauth/connections/none/rebind", &json!({})).expect(400);
}

#[test]
fn logins_are_limited_by_the_minute() {
    let provider = Provider::start("codex", &[MODEL]);
    let gateway = provider.gateway();
    let count = |most: usize, ask: &dyn Fn() -> Answer| {
        let answers: Vec<Answer> = (0..=most).map(|_| ask()).collect();
        let refused: Vec<usize> = (0..=most).filter(|place| answers[*place].status == 429).collect();
        assert_eq!(refused, [most]);
        assert!(answers[most].header("retry-after").is_some());
        assert_eq!(answers[most].json()["success"], false);
    };
    let admin = gateway.admin();
    count(60, &|| admin.get("/api/oauth/providers"));
    count(20, &|| admin.post("/api/oauth/providers/codex/start", &json!({})));
    let admin = gateway.admin();
    let change = |method: &str, path: &str| admin.send(Request::new(method, path).json(&json!({})));
    for _ in 0..20 {
        change("POST", "/api/oauth/connections/9/rebind").expect_status(404);
    }
    // All requests that change connections share this limit.
    for (method, path) in [
        ("POST", "/api/oauth/import"),
        ("PATCH", "/api/oauth/connections/9/proxy"),
        ("DELETE", "/api/oauth/connections/9"),
        ("POST", "/api/oauth/connections/quota/refresh-batch"),
        ("POST", "/api/oauth/route-units"),
        ("PATCH", "/api/oauth/route-units/9"),
        ("DELETE", "/api/oauth/route-units/9"),
    ] {
        change(method, path).expect_status(429);
    }
    count(120, &|| admin.get("/api/oauth/sessions/unknown"));
    count(30, &|| admin.post("/api/oauth/sessions/unknown/manual-callback", &json!({"callbackUrl": "x"})));
    count(30, &|| gateway.anyone().get("/api/oauth/callback/codex?state=s&code=c"));
}

#[test]
fn a_body_that_cannot_be_read_uses_no_login_up() {
    let provider = Provider::start("codex", &[MODEL]);
    let gateway = provider.gateway();
    for path in ["providers/codex/start", "import", "sessions/unknown/manual-callback"] {
        let path = format!("/api/oauth/{path}");
        for _ in 0..31 {
            gateway.admin().send(Request::post(&path).json_text("{".to_owned())).expect(400);
        }
        assert_ne!(gateway.admin().post(&path, &json!({})).status, 429, "{path}");
    }
}
