//! Notifications: what each channel is sent, to the byte, and that none of them can hold up anything.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::{
    self, Gateway, Home, Mail, MailRules, MailServer, Pair, ReceivedRequest, Reply, Request, SOON, Setup,
    Upstream, certificates, eventually, wire,
};

const TEST: &str = "/api/settings/notify/test";
const BOT_TOKEN: &str = "123456:AAbb-secret_token";

fn ok() -> Reply {
    Reply::json(200, &json!({"ok": true}))
}

fn sink() -> Upstream {
    let sink = Upstream::start(&[]);
    sink.answer("/hook/K3Y-OF-THE-HOOK", ok());
    sink
}

fn hook(sink: &Upstream) -> String {
    format!("{}/hook/K3Y-OF-THE-HOOK", sink.url())
}

fn hooked(sink: &Upstream) -> Vec<ReceivedRequest> {
    sink.asked_for("/hook/K3Y-OF-THE-HOOK")
}

#[track_caller]
fn save(gateway: &Gateway, settings: Value) {
    gateway.admin().put("/api/settings/runtime", &settings).expect(200);
}

#[track_caller]
fn send_test(gateway: &Gateway) -> Value {
    gateway.admin().send(Request::post(TEST)).expect(200)
}

#[track_caller]
fn refused_test(gateway: &Gateway) -> String {
    let answer = gateway.admin().send(Request::post(TEST)).expect(400);
    assert_eq!(answer["success"], false);
    answer["message"].as_str().expect("a message").to_owned()
}

/// Returns the alerts of one kind in the operators' list.
fn alerts(gateway: &Gateway) -> Vec<Value> {
    let events = gateway.admin().get("/api/events?type=proxy").expect(200);
    events.as_array().expect("events").clone()
}

/// Starts a gateway whose only model always fails.
fn failing(variables: &[(&str, &str)]) -> (Gateway, Upstream) {
    let gateway = Gateway::with(variables);
    let upstream = Upstream::start(&["model-down"]);
    gateway.add("Demo site", &upstream);
    upstream.answer("/v1/chat/completions", Reply::error(500, "the machine is on fire"));
    (gateway, upstream)
}

#[track_caller]
fn fail(gateway: &Gateway) {
    let answer = gateway.client().chat("model-down");
    assert!(matches!(answer.status, 500 | 502 | 503), "{}", answer.text());
}

/// Asserts that times are `YYYY-MM-DD HH:MM:SS` and close to now in the tests' time zone.
#[track_caller]
fn assert_times(timestamp: &str, local: &str) {
    assert!(support::seconds_ahead(&json!(timestamp)).abs() < 60, "{timestamp}");
    let utc = format!("{}Z", local.replace(' ', "T"));
    let ahead = support::seconds_ahead(&json!(utc)) - 8 * 3600;
    assert!(ahead.abs() < 60 && local.len() == 19, "{local}");
}

/// Returns the test message's text below its title, after checking and removing the times in it.
#[track_caller]
fn without_times(text: &str) -> String {
    let (text, utc) = text.rsplit_once("\nUTC Time: ").expect("a UTC time");
    let (text, local) = text.rsplit_once("\nLocal Time: ").expect("a local time");
    let local = local.strip_suffix(" (Asia/Shanghai)").expect("the zone");
    assert_times(utc.trim_end(), local);
    text.to_owned()
}

#[test]
fn without_a_channel_the_test_message_is_refused() {
    let gateway = Gateway::start();
    assert!(refused_test(&gateway).contains("No notification channel"));
    save(&gateway, json!({"telegramEnabled": false, "telegramChatId": "7", "smtpHost": "127.0.0.1"}));
    refused_test(&gateway);
}

#[test]
fn the_webhook_gets_title_message_level_and_both_times() {
    let (gateway, sink) = (Gateway::start(), sink());
    save(&gateway, json!({"webhookUrl": hook(&sink)}));
    let answer = send_test(&gateway);
    assert_eq!((answer["attempted"].as_u64(), answer["succeeded"].as_u64()), (Some(1), Some(1)));
    assert!(answer["message"].as_str().is_some_and(|message| message.contains("1/1")), "{answer}");
    let asked = sink.last("/hook/K3Y-OF-THE-HOOK");
    assert_eq!(
        (asked.method.as_str(), asked.header("content-type")),
        ("POST", Some("application/json; charset=utf-8"))
    );
    let body = asked.json();
    let fields: Vec<&str> = body.as_object().expect("an object").keys().map(String::as_str).collect();
    assert_eq!(fields.len(), 6, "{fields:?}");
    assert_eq!((&body["title"], &body["level"]), (&json!("Test notification"), &json!("info")));
    assert_eq!(body["timeZone"], "Asia/Shanghai");
    let text = |field: &str| body[field].as_str().expect("a text").to_owned();
    assert_times(&text("timestamp"), &text("localTime"));
    // No notification cool-down applies to it.
    send_test(&gateway);
    assert_eq!(hooked(&sink).len(), 2);
}

#[test]
fn the_push_app_gets_a_json_body_at_its_very_address() {
    let (gateway, sink) = (Gateway::start(), sink());
    save(&gateway, json!({"pushAppUrl": hook(&sink)}));
    send_test(&gateway);
    let asked = sink.last("/hook/K3Y-OF-THE-HOOK");
    let body = asked.json();
    let expected =
        json!({"title": "Test notification", "body": body["body"], "group": "Switchyard", "level": "active"});
    assert_eq!((asked.method.as_str(), &body), ("POST", &expected));
}

#[test]
fn the_chat_bot_is_spoken_to_through_the_system_proxy_or_not_at_all() {
    let (gateway, sink) = (Gateway::start(), Upstream::start(&[]));
    let path = format!("/bot{BOT_TOKEN}/sendMessage");
    sink.answer(&path, ok());
    save(
        &gateway,
        json!({"telegramEnabled": true, "telegramApiBaseUrl": sink.url(), "telegramBotToken": BOT_TOKEN,
            "telegramChatId": "-10042", "telegramMessageThreadId": "17"}),
    );
    send_test(&gateway);
    let body = sink.last(&path).json();
    let text = body["text"].as_str().expect("a text");
    let expected = "[Switchyard][INFO] Test notification\n\nThis message shows that notifications reach you.\n\nLevel: info";
    assert_eq!(without_times(text), expected);
    let expected =
        json!({"chat_id": "-10042", "message_thread_id": 17, "text": text, "disable_web_page_preview": true});
    assert_eq!(body, expected);

    // A proxy that is not there: nothing goes another way.
    let nobody = Upstream::start(&[]);
    nobody.refuse();
    save(&gateway, json!({"telegramUseSystemProxy": true, "systemProxyUrl": nobody.url()}));
    let message = refused_test(&gateway);
    assert!(message.contains("outbound proxy"), "{message}");
    assert_eq!(sink.asked_for(&path).len(), 1);

    sink.answer(
        &path,
        Reply::json(
            200,
            &json!({"ok": false, "error_code": 403, "description": "Forbidden: bot was kicked"}),
        ),
    );
    save(&gateway, json!({"telegramUseSystemProxy": false}));
    assert!(refused_test(&gateway).contains("Forbidden: bot was kicked"));
}

#[test]
fn a_part_of_the_channels_failing_is_a_success_that_names_them() {
    let (gateway, good, bad) = (Gateway::start(), sink(), Upstream::start(&[]));
    bad.answer("/hook/K3Y-OF-THE-HOOK", Reply::error(500, "no K3Y-OF-THE-HOOK today"));
    save(&gateway, json!({"webhookUrl": hook(&bad), "pushAppUrl": hook(&good)}));
    let answer = send_test(&gateway);
    let message = answer["message"].as_str().expect("a message");
    assert!(message.contains("1/2") && message.contains("webhook: HTTP 500"), "{message}");
    assert_eq!(answer["failedChannels"], json!(["webhook"]));
    assert_eq!(answer["channels"][1], json!({"channel": "bark", "success": true}));
    assert_eq!(answer["channels"][0]["channel"], "webhook");
    assert_eq!(hooked(&good).len(), 1);

    save(&gateway, json!({"pushAppUrl": hook(&bad)}));
    let message = refused_test(&gateway);
    assert!(message.contains("0/2") && message.contains("HTTP 500"), "{message}");
}

#[test]
fn no_secret_of_a_channel_shows_in_answers_or_in_the_log() {
    const PASSWORD: &str = "p4ss-of-the-mailer";
    let gateway = Gateway::with(&[("LOG_LEVEL", "trace")]);
    let bad = Upstream::start(&[]);
    let mail =
        MailServer::start(MailRules { auth: Some("PLAIN"), login: "other:login", ..MailRules::default() });
    let path = format!("/bot{BOT_TOKEN}/sendMessage");
    for (path, said) in [(path.as_str(), BOT_TOKEN), ("/hook/K3Y-OF-THE-HOOK", "K3Y-OF-THE-HOOK")] {
        bad.answer(path, Reply::json(401, &json!({"ok": false, "description": format!("{said} is wrong")})));
    }
    let settings = json!({"telegramEnabled": true, "telegramApiBaseUrl": bad.url(), "telegramBotToken": BOT_TOKEN,
        "telegramChatId": "7", "webhookUrl": hook(&bad), "pushAppUrl": format!("http://user:Pa55word@127.0.0.1:1/{BOT_TOKEN}"),
        "smtpEnabled": true, "smtpHost": "127.0.0.1", "smtpPort": mail.port(), "smtpUser": "u", "smtpPass": PASSWORD,
        "smtpFrom": "g@g.example", "smtpTo": "a@b.example"});
    let saved = gateway.admin().put("/api/settings/runtime", &settings).expect(200).to_string();
    let message = refused_test(&gateway);
    assert!(message.contains("telegram: HTTP 401: **** is wrong"), "{message}");
    assert!(message.contains("smtp: the mail server refused the login: 535"), "{message}");
    let shown = gateway.admin().get("/api/settings/runtime").expect(200).to_string();
    let events = gateway.admin().get("/api/events").expect(200).to_string();
    eventually("the log tells", || gateway.output().contains("notify failed (telegram)").then_some(()));
    let told = [saved, message, shown, events, gateway.output()].join("\n");
    let login = format!("\0u\0{PASSWORD}");
    let encoded = base64::Engine::encode(&base64::prelude::BASE64_STANDARD, login);
    for secret in [BOT_TOKEN, "AAbb-secret", "K3Y-OF-THE-HOOK", PASSWORD, "Pa55word", &encoded] {
        assert!(!told.contains(secret), "{secret} in {told}");
    }
}

#[test]
fn a_redirect_is_not_an_arrival() {
    let (gateway, sink) = (Gateway::start(), sink());
    sink.answer("/hook/K3Y-OF-THE-HOOK", Reply::json(302, &json!({})).header("location", "/elsewhere"));
    sink.answer("/elsewhere", ok());
    save(&gateway, json!({"webhookUrl": hook(&sink)}));
    assert!(refused_test(&gateway).contains("HTTP 302"));
    assert!(sink.asked_for("/elsewhere").is_empty());
}

// === mail ===

fn trusting(home: &Home) -> Setup {
    let file = home.path().join("authority.pem");
    std::fs::write(&file, certificates::AUTHORITY).expect("written");
    Setup::default().with("SSL_CERT_FILE", &file.display().to_string())
}

fn mailing(server: &MailServer) -> Value {
    json!({"smtpEnabled": true, "smtpHost": "localhost", "smtpPort": server.port(), "smtpFrom": "Gate One <gate@g.example>",
        "smtpTo": "a@b.example, c@d.example"})
}

fn assert_test_mail(mail: &Mail) {
    assert_eq!(mail.from, "gate@g.example");
    assert_eq!(mail.to, ["a@b.example", "c@d.example"]);
    assert_eq!(mail.header("Subject"), "[Switchyard][INFO] Test notification");
    assert_eq!(mail.header("From"), "\"Gate One\" <gate@g.example>");
    assert_eq!(mail.header("To"), "<a@b.example>, <c@d.example>");
    assert_eq!(mail.header("Content-Type"), "text/plain; charset=\"utf-8\"");
    let expected = "This message shows that notifications reach you.\n\nLevel: info";
    assert_eq!(without_times(&mail.body().replace("\r\n", "\n")), expected);
}

#[test]
fn mail_goes_over_starttls_where_it_is_offered_and_logs_in_only_then() {
    let home = Home::new();
    let gateway = trusting(&home).start_in(home.clone());
    for methods in ["PLAIN LOGIN", "LOGIN"] {
        let server = MailServer::start(MailRules {
            starttls: true,
            auth: Some(methods),
            login: "mailer:p@ss:word",
            ..MailRules::default()
        });
        let mut settings = mailing(&server);
        settings["smtpUser"] = json!("mailer");
        settings["smtpPass"] = json!("p@ss:word");
        save(&gateway, settings);
        send_test(&gateway);
        let mail = server.mail();
        assert!(mail.private, "{mail:?}");
        assert_test_mail(&mail);
        let verbs: Vec<&str> = mail.commands.iter().filter_map(|line| line.split(' ').next()).collect();
        assert_eq!(verbs, ["EHLO", "STARTTLS", "EHLO", "AUTH", "MAIL", "RCPT", "RCPT", "DATA"]);
    }
}

#[test]
fn mail_goes_over_tls_from_the_first_byte_when_it_is_told_to() {
    let home = Home::new();
    let gateway = trusting(&home).start_in(home.clone());
    let server = MailServer::start(MailRules { implicit_tls: true, ..MailRules::default() });
    let mut settings = mailing(&server);
    settings["smtpSecure"] = json!(true);
    save(&gateway, settings);
    send_test(&gateway);
    let mail = server.mail();
    assert!(mail.private);
    assert_test_mail(&mail);
}

#[test]
fn mail_goes_in_clear_to_a_relay_without_tls() {
    let gateway = Gateway::start();
    let server = MailServer::start(MailRules { refuses: &["a@b.example"], ..MailRules::default() });
    save(&gateway, mailing(&server));
    send_test(&gateway);
    let mail = server.mail();
    assert_eq!((mail.private, mail.to.as_slice()), (false, ["c@d.example".to_owned()].as_slice()));
    assert!(!mail.commands.iter().any(|command| command.starts_with("AUTH")), "no user, no login: {mail:?}");
}

#[test]
fn mail_is_not_sent_in_clear_when_the_certificate_does_not_hold() {
    let gateway = Gateway::start();
    for rules in [
        MailRules { starttls: true, ..MailRules::default() },
        MailRules { implicit_tls: true, ..MailRules::default() },
    ] {
        let server = MailServer::start(rules.clone());
        let mut settings = mailing(&server);
        settings["smtpSecure"] = json!(rules.implicit_tls);
        save(&gateway, settings);
        let message = refused_test(&gateway);
        assert!(message.contains("the TLS handshake with localhost failed"), "{message}");
        assert!(server.mails().is_empty());
    }
}

#[test]
fn what_a_mail_server_refuses_is_told_in_its_words() {
    let gateway = Gateway::start();
    let server =
        MailServer::start(MailRules { refuses: &["a@b.example", "c@d.example"], ..MailRules::default() });
    save(&gateway, mailing(&server));
    let message = refused_test(&gateway);
    assert!(message.contains("550 5.1.1 <c@d.example> unknown"), "{message}");
}

// === alerts ===

#[test]
fn a_model_whose_channels_all_fail_is_told_once_and_counted() {
    let (gateway, upstream) = failing(&[("NOTIFY_COOLDOWN_SEC", "2")]);
    let sink = sink();
    save(&gateway, json!({"webhookUrl": hook(&sink)}));
    fail(&gateway);
    let first = sink.last("/hook/K3Y-OF-THE-HOOK").json();
    assert_eq!((&first["title"], &first["level"]), (&json!("All channels failed"), &json!("error")));
    let message = first["message"].as_str().expect("a message").to_owned();
    assert!(message.contains("model-down") && message.contains("the machine is on fire"), "{message}");
    let event = &alerts(&gateway)[0];
    for (field, value) in [
        ("type", json!("proxy")),
        ("title", json!("All channels failed")),
        ("message", json!(message)),
        ("level", json!("error")),
        ("read", json!(false)),
        ("relatedType", json!("route")),
    ] {
        assert_eq!(event[field], value, "{event}");
    }
    let route = gateway.routes().into_iter().find(|route| route["modelPattern"] == "model-down");
    assert_eq!(Some(&event["relatedId"]), route.as_ref().map(|route| &route["id"]));
    drop(upstream);
}

#[test]
fn repeats_are_held_back_and_the_next_one_tells_how_many() {
    let (gateway, _upstream) = failing(&[("NOTIFY_COOLDOWN_SEC", "1")]);
    let sink = sink();
    save(&gateway, json!({"webhookUrl": hook(&sink)}));
    fail(&gateway);
    sink.last("/hook/K3Y-OF-THE-HOOK");
    let repeated = eventually("the cool-down is over", || {
        fail(&gateway);
        let hooks = hooked(&sink);
        let mut bodies = hooks.iter().map(ReceivedRequest::json);
        bodies.find(|body| body["message"].as_str().is_some_and(|text| text.contains("merged")))
    });
    let message = repeated["message"].as_str().expect("a message");
    let (_, note) = message.rsplit_once("\n\n").expect("a blank line before the note");
    let count = note.strip_suffix(" identical alerts merged during the cool-down").expect("the note");
    assert!(count.parse::<u32>().is_ok_and(|count| count > 0), "{note}");
    assert!(hooked(&sink).len() < 10 && alerts(&gateway).len() < 10);
}

#[test]
fn a_restart_tells_nothing_again_and_keeps_the_count() {
    let (mut gateway, _upstream) = failing(&[("NOTIFY_COOLDOWN_SEC", "6")]);
    let sink = sink();
    save(&gateway, json!({"webhookUrl": hook(&sink)}));
    fail(&gateway);
    sink.last("/hook/K3Y-OF-THE-HOOK");
    fail(&gateway);
    gateway.signal("TERM");
    assert!(gateway.wait_for_exit().success());
    let gateway = gateway.restart();
    let repeated = eventually("the cool-down is over", || {
        fail(&gateway);
        let hooks = hooked(&sink);
        (hooks.len() > 1).then(|| hooks[1].json())
    });
    let message = repeated["message"].as_str().expect("a message");
    let (_, note) = message.rsplit_once("\n\n").expect("a blank line before the note");
    let count = note.split(' ').next().and_then(|count| count.parse::<u32>().ok());
    assert!(count.is_some_and(|count| count > 0), "{note}");
    // Other notification channels have not been sent anything yet.
    save(&gateway, json!({"webhookUrl": format!("{}?x=1", hook(&sink))}));
    let gateway = gateway.restart();
    let before = hooked(&sink).len();
    fail(&gateway);
    eventually("it is sent anew", || (hooked(&sink).len() > before).then_some(()));
}

#[test]
fn a_model_that_nobody_offers_is_told_without_a_route() {
    let (gateway, sink) = (Gateway::start(), sink());
    save(&gateway, json!({"webhookUrl": hook(&sink)}));
    let hostile = "gone \"model\"\r\nX: <b>*_`[x](y)</b>";
    let body = json!({"model": hostile, "messages": [{"role": "user", "content": "x"}]});
    gateway.client().post("/v1/chat/completions", &body).expect(503);
    let told = sink.last("/hook/K3Y-OF-THE-HOOK").json();
    assert_eq!(told["title"], "No available channel");
    let message = told["message"].as_str().expect("a message");
    assert!(message.contains("gone \"model\" X: <b>*_`[x](y)</b>"), "{message}");
    let event = &alerts(&gateway)[0];
    assert_eq!((&event["relatedType"], &event["relatedId"]), (&json!("route"), &Value::Null));
    // Other model names belong to the same alert.
    gateway.client().chat("another-model").expect(503);
    assert_eq!(alerts(&gateway).len(), 1);
}

#[test]
fn a_credential_that_its_site_refuses_is_told_once() {
    let (pair, sink) = (Pair::start(), sink());
    save(&pair.gateway, json!({"webhookUrl": hook(&sink)}));
    pair.first.answer("/v1/chat/completions", Reply::error(401, "Incorrect API key provided"));
    pair.gateway.client().chat(Pair::MODEL).expect(200);
    let told = sink.last("/hook/K3Y-OF-THE-HOOK").json();
    assert_eq!((&told["title"], &told["level"]), (&json!("Token expired"), &json!("error")));
    let message = told["message"].as_str().expect("a message");
    assert!(message.ends_with(" @ first: token invalid or expired (HTTP 401)"), "{message}");
    let events = pair.gateway.admin().get("/api/events?type=token").expect(200);
    let event =
        events.as_array().and_then(|events| events.iter().find(|event| event["title"] == "Token expired"));
    let event = event.expect("an event");
    let account = pair.channel("first")["accountId"].clone();
    assert_eq!((&event["relatedType"], &event["relatedId"]), (&json!("account"), &account));
    assert_eq!((&event["message"], &event["level"]), (&json!(message), &json!("error")));
}

#[test]
fn a_request_that_is_wrong_itself_wakes_nobody() {
    let (gateway, upstream) = failing(&[]);
    upstream.answer("/v1/chat/completions", Reply::error(400, "messages: too long"));
    gateway.client().chat("model-down").expect(400);
    // The log row is the last thing that the request leaves behind.
    gateway.wait_for_logs(1);
    assert!(alerts(&gateway).is_empty());
}

#[test]
fn an_alert_that_reached_nobody_is_sent_again() {
    let (gateway, _upstream) = failing(&[]);
    let sink = Upstream::start(&[]);
    sink.answer_once("/hook/K3Y-OF-THE-HOOK", Reply::error(500, "not now"));
    sink.answer("/other", ok());
    save(&gateway, json!({"webhookUrl": hook(&sink)}));
    fail(&gateway);
    gateway.wait_for_output("notify failed (webhook)");
    sink.answer("/hook/K3Y-OF-THE-HOOK", ok());
    eventually("it is sent again", || {
        fail(&gateway);
        (hooked(&sink).len() > 1).then_some(())
    });
    assert_eq!(alerts(&gateway).len(), 1, "the list of events keeps its own count");
}

#[test]
fn a_channel_that_hangs_delays_neither_requests_nor_other_channels_nor_the_stop() {
    let (mut gateway, upstream) = failing(&[("NOTIFY_COOLDOWN_SEC", "0"), ("SHUTDOWN_GRACE_SEC", "1")]);
    let (hanging, good) = (Upstream::start(&[]), sink());
    hanging.answer("/hook/K3Y-OF-THE-HOOK", Reply::stall());
    let mail = MailServer::start(MailRules { silent: true, ..MailRules::default() });
    let mut settings = mailing(&mail);
    settings["webhookUrl"] = json!(hook(&hanging));
    settings["pushAppUrl"] = json!(hook(&good));
    save(&gateway, settings);
    let began = Instant::now();
    for _ in 0..20 {
        fail(&gateway);
    }
    upstream.answer_faithfully();
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
    eventually("the other channel hears of it", || (!hooked(&good).is_empty()).then_some(()));
    eventually("the first channel hangs", || (!hooked(&hanging).is_empty()).then_some(()));
    let began = Instant::now();
    gateway.signal("TERM");
    assert!(gateway.wait_for_exit().success());
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    assert!(gateway.output().contains("could not be sent before the stop"), "{}", gateway.output());
}

#[test]
fn a_background_task_that_fails_is_told() {
    let (gateway, sink) = (Gateway::start(), sink());
    save(&gateway, json!({"webhookUrl": hook(&sink)}));
    let upstream = Upstream::start(&["m"]);
    upstream.answer("/v1/models", Reply::error(500, "out of order"));
    // The account is verified with the first list; its task reads the second one.
    upstream.answer_once("/v1/models", Reply::json(200, &wire::model_list(&["m".to_owned()])));
    let site = gateway.create_site(&json!({"name": "s", "url": upstream.url(), "platform": "openai"}));
    let task = gateway.wait_for_task(&gateway.create_account(&site, "sk-1"));
    assert_eq!(task["status"], "failed", "{task}");
    let told = sink.last("/hook/K3Y-OF-THE-HOOK").json();
    assert_eq!((&told["title"], &told["level"]), (&task["title"], &json!("error")));
    assert_eq!(told["message"], task["message"]);
}
