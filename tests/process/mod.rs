//! The life of the process: configuration, commands, signals, and one process per directory.

mod cut_off;
mod tokens;

use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::paths::CHAT;
use crate::support::{
    self, ADMIN_TOKEN, Caller, Gate, Gateway, Home, Reply, Request, SOON, Setup, Upstream, eventually,
    eventually_within, free_port, run, wire,
};

const MODEL: &str = "model-life";

#[test]
fn a_log_that_nobody_reads_stops_nothing() {
    let setup = Setup::default().with("REQUEST_RATE_LIMIT_MAX", "1000000");
    let (setup, home) = (setup.with("AUTHENTICATED_RATE_LIMIT_MAX", "1000000"), Home::new());
    let port = free_port();
    let mut child = setup.command(&home, &[]).env("PORT", port.to_string()).spawn().expect("the binary runs");
    let caller = Caller::new(SocketAddr::from(([127, 0, 0, 1], port)));
    let caller = caller.with("authorization", &format!("Bearer {ADMIN_TOKEN}"));
    let health = Request::new("GET", "/api/desktop/health");
    eventually("it answers", || caller.try_send(health.clone()).ok().filter(|answer| answer.status == 200));
    // Each try logs a line, and a pipe takes 64 KiB.
    let hook = Upstream::start(&[]);
    hook.answer("/hook", Reply::error(400, &"no ".repeat(50)));
    let target = format!("{}/hook", hook.url());
    caller.put("/api/settings/runtime", &json!({"webhookUrl": target})).expect(200);
    for _ in 0..1200 {
        caller.post("/api/settings/notify/test", &json!({})).expect(400);
    }
    caller.send(health).expect(200);
    let stopped = std::process::Command::new("kill").args(["-TERM", &child.id().to_string()]).status();
    assert!(stopped.expect("it runs").success());
    let ended = eventually("it stops", || child.try_wait().expect("a child"));
    assert!(ended.success(), "{ended}");
}

#[test]
fn every_mistake_in_the_configuration_is_reported_at_once() {
    let setup = Setup::default()
        .with("PORT", "eighty")
        .with("DB_TYPE", "oracle")
        .with("ADMIN_IP_ALLOWLIST", "10.0.0.1, not-an-address");
    let finished = run(&setup, &Home::new(), &[]);
    assert!(!finished.status.success());
    for name in ["PORT", "DB_TYPE", "ADMIN_IP_ALLOWLIST"] {
        assert!(finished.stderr.contains(name), "{name} is not in {:?}", finished.stderr);
    }
}

#[test]
fn a_value_that_cannot_be_used_stops_the_start_before_it_leaves_a_trace() {
    for (name, value) in [
        ("PORT", "0"),
        ("SYSTEM_PROXY_URL", "ftp://proxy.example"),
        ("DB_URL", "mysql://db.example/switchyard"),
        ("SQLITE_SYNCHRONOUS", "off"),
        ("SSL_CERT_FILE", "no-such-file.pem"),
        ("CODEX_HEADER_DEFAULTS_USER_AGENT", "agent\r\nx-other: 1"),
        ("CODEX_HEADER_DEFAULTS_BETA_FEATURES", "gr\u{fc}n"),
    ] {
        let home = Home::new();
        let finished = run(&Setup::default().with(name, value), &home, &[]);
        assert_eq!(finished.status.code(), Some(78), "{name}: {}", finished.stderr);
        assert!(finished.stderr.contains(name), "{name}: {}", finished.stderr);
        assert!(!home.data_dir().exists(), "{name}: nothing was started");
    }
}

#[test]
fn a_commit_may_be_told_not_to_wait_for_the_disk() {
    for value in ["normal", "FULL"] {
        let mut gateway = Gateway::with(&[("SQLITE_SYNCHRONOUS", value)]);
        let site = json!({"name": "n", "url": "https://h.example", "platform": "openai"});
        gateway.create_site(&site);
        gateway.kill();
        assert_eq!(gateway.restart().admin().get("/api/sites").expect(200)[0]["name"], "n");
    }
}

#[test]
fn a_blank_variable_means_its_default() {
    let names = [
        "LOG_LEVEL",
        "TZ",
        "DB_TYPE",
        "ADMIN_IP_ALLOWLIST",
        "PROXY_LOG_RETENTION_DAYS",
        "PROXY_MAX_CHANNEL_ATTEMPTS",
        "REQUEST_BODY_LIMIT_BYTES",
        "SHUTDOWN_GRACE_SEC",
    ];
    let gateway = Gateway::with(&names.map(|name| (name, "  ")));
    gateway.admin().get("/api/sites").expect(200);
}

#[test]
fn help_and_version_are_printed_without_starting_anything() {
    let (setup, home) = (Setup::default(), Home::new());
    let help = run(&setup, &home, &["--help"]);
    assert!(help.status.success());
    for word in ["switchyard", "health"] {
        assert!(help.stdout.contains(word), "{word} is not in {:?}", help.stdout);
    }
    let version = run(&setup, &home, &["--version"]);
    assert!(version.status.success());
    assert!(version.stdout.contains(env!("CARGO_PKG_VERSION")), "{:?}", version.stdout);
    assert!(!home.data_dir().exists(), "neither opens the store");
}

#[test]
fn an_unknown_command_is_refused() {
    let finished = run(&Setup::default(), &Home::new(), &["frobnicate"]);
    assert!(!finished.status.success());
    assert!(finished.stderr.contains("frobnicate"), "{:?}", finished.stderr);
}

#[test]
fn the_health_command_tells_whether_the_gateway_answers() {
    let mut gateway = Gateway::start();
    let port = gateway.address().port().to_string();
    let setup = Setup::default().with("PORT", &port);
    let home = Home::new();
    let healthy = run(&setup, &home, &["health"]);
    assert!(healthy.status.success(), "{}{}", healthy.stdout, healthy.stderr);
    gateway.kill();
    assert!(!run(&setup, &home, &["health"]).status.success());
}

#[test]
fn health_is_public_with_and_without_a_query() {
    let gateway = Gateway::start();
    for path in ["/api/desktop/health", "/api/desktop/health?x=1"] {
        assert_eq!(gateway.anyone().get(path).expect(200), json!({"ok": true}));
    }
}

#[test]
fn the_start_up_log_says_where_it_listens_and_no_secret() {
    let gateway = Gateway::start();
    gateway.wait_for_output(&gateway.address().port().to_string());
    for secret in [support::ADMIN_TOKEN, support::PROXY_TOKEN, "credential-secret"] {
        assert!(!gateway.output().contains(secret), "{}", gateway.output());
    }
}

/// Operators search the log, and set alarms, for these words.
#[test]
fn the_log_says_what_goes_wrong_in_the_words_that_operators_look_for() {
    let gateway = Gateway::with(&[
        ("PROXY_FIRST_BYTE_TIMEOUT_SEC", "3"),
        // The stub would answer in another dialect.
        ("DISABLE_CROSS_PROTOCOL_FALLBACK", "true"),
    ]);
    for (model, reply, words) in [
        ("m-429", Reply::error(429, "slow down"), "upstream 429: "),
        ("m-503", Reply::error(503, "overloaded"), "upstream 5xx: "),
        ("m-late", Reply::stall(), "proxy timeout: "),
    ] {
        let upstream = Upstream::start(&[model]);
        gateway.add(model, &upstream);
        upstream.answer("/v1/chat/completions", reply);
        gateway.client().send(Caller::chat_ask(model, true));
        gateway.wait_for_output("channel cooling: ");
        gateway.wait_for_output(words);
    }
    gateway.client().chat("m-nobody-has");
    gateway.wait_for_output("no available channel: ");
    let stranger = |header: &str| Request::new("GET", "/v1/models").header("authorization", header);
    for _ in 0..5 {
        gateway.anyone().send(stranger("Bearer sk-nobodys-key")).expect(403);
    }
    gateway.wait_for_output("auth failed for 127.0.0.1: Invalid API key");
    assert_eq!(gateway.output().matches("auth failed").count(), 1, "a flood of them is no flood of lines");
    assert!(!gateway.output().contains("sk-nobodys-key"));
}

#[test]
fn a_stream_in_flight_ends_properly_before_a_terminated_process_exits() {
    for signal in ["TERM", "INT"] {
        let (mut gateway, upstream) = Gateway::serving(&[MODEL]);
        let gate = Gate::new();
        let events = wire::chat_events(MODEL);
        let reply = Reply::events(&events).waits_for(3, &gate);
        upstream.answer("/v1/chat/completions", reply);
        let mut stream = gateway.client().stream(Caller::chat_ask(MODEL, true));
        let first = stream.next_event().expect("an event").expect("not the end");

        gateway.signal(signal);
        eventually("it no longer accepts", || {
            std::net::TcpStream::connect(gateway.address()).is_err().then_some(())
        });
        assert!(gateway.is_running(), "it waits for the stream");
        gate.open();
        let (rest, end) = stream.rest();
        end.expect("a clean end");
        assert_eq!(first + &String::from_utf8_lossy(&rest), events.concat());
        assert_eq!(gateway.wait_for_exit().code(), Some(0));

        let gateway = gateway.restart();
        let log = gateway.wait_for_logs(1);
        assert_eq!(log[0]["status"], "success", "the writer was flushed: {log:?}");
    }
}

#[test]
fn a_second_signal_exits_at_once() {
    let (gateway, _upstream) = with_a_stalled_request(&[]);
    let mut gateway = gateway;
    gateway.signal("TERM");
    eventually("it no longer accepts", || {
        std::net::TcpStream::connect(gateway.address()).is_err().then_some(())
    });
    assert!(gateway.is_running(), "it waits for the request");
    gateway.signal("TERM");
    eventually_within(Duration::from_secs(5), "it exits", || (!gateway.is_running()).then_some(()));
}

#[test]
fn the_wait_for_requests_in_flight_is_bounded() {
    let (mut gateway, _upstream) = with_a_stalled_request(&[("SHUTDOWN_GRACE_SEC", "1")]);
    gateway.signal("TERM");
    assert_eq!(gateway.wait_for_exit().code(), Some(0));
}

#[test]
fn what_a_stop_cuts_off_is_logged_as_such_and_not_as_the_clients_doing() {
    let upstream = Upstream::start(&[MODEL]);
    let mut gateway = Gateway::with(&[("SHUTDOWN_GRACE_SEC", "1")]).in_front_of("openai", &upstream);
    upstream.answer("/v1/chat/completions", Reply::events(wire::chat_events(MODEL)).stalls_after(3));
    let mut stream = gateway.client().stream(Caller::chat_ask(MODEL, true));
    stream.next_event().expect("an event").expect("not the end");
    upstream.answer("/v1/chat/completions", Reply::stall());
    let client = gateway.client();
    std::thread::spawn(move || client.try_send(Caller::chat_ask(MODEL, false)));
    eventually("both are asked for", || {
        (upstream.asked_for("/v1/chat/completions").len() == 2).then_some(())
    });
    gateway.signal("TERM");
    assert_eq!(gateway.wait_for_exit().code(), Some(0));
    let (rest, end) = stream.rest();
    end.expect("the stream ends with an error event");
    let told = wire::data_of(&String::from_utf8_lossy(&rest)).pop().expect("an event");
    assert_eq!(told["error"]["message"], "Stream cut off: the service stopped");

    let gateway = gateway.restart();
    for row in gateway.wait_for_logs(2) {
        assert_eq!((&row["status"], &row["httpStatus"]), (&json!("failed"), &json!(503)), "{row}");
        assert!(row["errorMessage"].as_str().is_some_and(|text| text.contains("service_stopped")), "{row}");
    }
    assert_eq!(gateway.channels(MODEL)[0]["failCount"], json!(0), "no fault of the channel");
}

/// Starts a gateway with a request whose upstream never answers; the client keeps waiting on a thread.
fn with_a_stalled_request(variables: &[(&str, &str)]) -> (Gateway, Upstream) {
    let upstream = Upstream::start(&[MODEL]);
    let gateway = Gateway::with(variables).in_front_of("openai", &upstream);
    upstream.answer("/v1/chat/completions", Reply::stall());
    let client = gateway.client();
    std::thread::spawn(move || client.try_send(Caller::chat_ask(MODEL, false)));
    upstream.last("/v1/chat/completions");
    (gateway, upstream)
}

#[test]
fn the_stop_waits_for_a_task_that_runs() {
    let (mut gateway, upstream, account) = Gateway::with_account(&[MODEL]);
    let gate = Gate::new();
    upstream.answer(CHAT, wire::faithful("POST", CHAT, &json!({"model": MODEL}), &[]).head_waits_for(&gate));
    gateway.admin().post("/api/models/probe", &json!({"accountId": account["id"]})).expect(202);
    eventually("the task runs", || upstream.asked_for(CHAT).pop());
    gateway.signal("TERM");
    gateway.wait_for_output("all requests ended");
    assert!(gateway.is_running(), "what the task finds out is not lost");
    gate.open();
    assert!(gateway.wait_for_exit().success());
    let gateway = gateway.restart();
    let events = gateway.admin().get("/api/events").expect(200);
    let is_end = |event: &Value| event["message"].as_str().is_some_and(|text| text.contains("1 supported"));
    assert!(events.as_array().expect("events").iter().any(is_end), "{events}");
}

#[test]
fn the_stop_of_an_idle_process_is_immediate() {
    let (mut gateway, _upstream, _account) = Gateway::with_account(&[MODEL]);
    gateway.client().chat(MODEL).expect(200);
    let began = Instant::now();
    gateway.signal("TERM");
    assert!(gateway.wait_for_exit().success());
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    assert!(!gateway.output().contains("before its end"), "{}", gateway.output());
}

#[test]
fn an_idle_connection_does_not_hold_up_the_exit() {
    let mut gateway = Gateway::start();
    let mut connection = gateway.anyone().connect();
    let health = b"GET /api/desktop/health HTTP/1.1\r\nhost: x\r\n\r\n";
    assert_eq!(connection.exchange(health).status, 200);
    gateway.signal("TERM");
    assert!(connection.closes_within(SOON));
    assert_eq!(gateway.wait_for_exit().code(), Some(0));
}

#[test]
fn a_second_process_on_the_same_directory_refuses_to_start() {
    let gateway = Gateway::start();
    let finished = run(&Setup::default().with("PORT", "1"), gateway.home(), &[]);
    assert!(!finished.status.success());
    let said = finished.stderr.to_lowercase();
    assert!(said.contains("data"), "it names what is taken: {said:?}");
    gateway.admin().get("/api/sites").expect(200);
}

#[test]
fn an_env_file_that_cannot_be_read_stops_the_start_and_says_why() {
    let wide: Vec<u8> = "\u{feff}AUTH_TOKEN=x\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let latin = b"PORT=4000\nAUTH_TOKEN=caf\xe9-token\n".to_vec();
    for (bytes, word) in [(Some(wide), "UTF-16"), (Some(latin), "line 2"), (None, "directory")] {
        let home = Home::new();
        let file = home.path().join(".env");
        match bytes {
            Some(bytes) => std::fs::write(file, bytes).expect("written"),
            None => std::fs::create_dir(file).expect("made"),
        }
        let finished = run(&Setup::blank(), &home, &[]);
        assert_eq!(finished.status.code(), Some(78), "{word}: {}", finished.stderr);
        assert!(finished.stderr.contains(".env") && finished.stderr.contains(word), "{}", finished.stderr);
        assert!(!home.data_dir().exists(), "nothing was started");
    }
    let home = Home::new();
    std::os::unix::fs::symlink("not-mounted/env", home.path().join(".env")).expect("made");
    let finished = run(&Setup::blank(), &home, &[]);
    assert_eq!(finished.status.code(), Some(78), "{}", finished.stderr);
    assert!(finished.stderr.contains(".env: is a link"), "{}", finished.stderr);
    let home = Home::new();
    let made = std::process::Command::new("mkfifo").arg(home.path().join(".env")).status();
    assert!(made.expect("mkfifo runs").success());
    let finished = run(&Setup::blank(), &home, &[]);
    assert_eq!(finished.status.code(), Some(78), "{}", finished.stderr);
    assert!(finished.stderr.contains(".env: is neither a file"), "{}", finished.stderr);
    let home = Home::new();
    let file = home.path().join(".env");
    std::fs::write(&file, "AUTH_TOKEN=x\n").expect("written");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o000)).expect("a change");
    if std::fs::read(&file).is_ok() {
        eprintln!("this user may read everything: a file without rights is not tested");
        return;
    }
    let finished = run(&Setup::blank(), &home, &[]);
    assert_eq!(finished.status.code(), Some(78), "{}", finished.stderr);
    assert!(finished.stderr.contains(".env"), "{}", finished.stderr);
}

#[test]
fn an_env_file_may_begin_with_the_mark_of_an_editor() {
    let home = Home::new();
    let file = "\u{feff}AUTH_TOKEN=token-of-the-file\nHOST=127.0.0.1\n";
    std::fs::write(home.path().join(".env"), file).expect("written");
    let gateway = Setup::blank().start_in(home);
    let caller = gateway.with_token("token-of-the-file");
    caller.get("/api/sites").expect(200);
}

#[test]
fn a_variable_that_is_no_text_stops_the_start_and_is_named() {
    let setup = Setup::blank().limited("export AUTH_TOKEN=\"$(printf 'caf\\351-token')\"");
    let home = Home::new();
    let finished = run(&setup, &home, &[]);
    assert_eq!(finished.status.code(), Some(78), "{}", finished.stderr);
    assert!(finished.stderr.contains("AUTH_TOKEN"), "{}", finished.stderr);
    assert!(!home.data_dir().exists(), "nothing was started");
}

#[test]
fn what_was_stored_is_served_again_after_a_restart() {
    let upstream = Upstream::start(&[MODEL]);
    let mut gateway = Gateway::start();
    let (site, account) = gateway.add("site", &upstream);
    gateway.signal("TERM");
    gateway.wait_for_exit();
    let gateway = gateway.restart();
    let sites = gateway.admin().get("/api/sites").expect(200);
    assert_eq!(sites[0]["id"], site["id"]);
    let accounts = gateway.admin().get("/api/accounts").expect(200);
    assert_eq!(accounts["accounts"][0]["id"], account["id"]);
    gateway.client().chat(MODEL).expect(200);
}

#[test]
fn a_changed_secret_stops_the_start_until_the_old_one_is_named() {
    let (mut gateway, upstream) = Gateway::serving(&[MODEL]);
    let home = gateway.home().clone();
    gateway.kill();

    let changed = Setup::default().with("ACCOUNT_CREDENTIAL_SECRET", "another-secret");
    let finished = run(&changed.clone().with("PORT", "1"), &home, &[]);
    assert_eq!(finished.status.code(), Some(78), "{}", finished.stderr);
    for name in ["ACCOUNT_CREDENTIAL_SECRET", "ACCOUNT_CREDENTIAL_SECRET_PREVIOUS"] {
        assert!(finished.stderr.contains(name), "{:?}", finished.stderr);
    }

    let previous = "ACCOUNT_CREDENTIAL_SECRET_PREVIOUS";
    let mut gateway =
        changed.clone().with(previous, "credential-secret-of-the-tests-77aa").start_in(home.clone());
    gateway.client().chat(MODEL).expect(200);
    gateway.kill();
    let mut gateway = changed.clone().start_in(home.clone());
    gateway.client().chat(MODEL).expect(200);
    assert_eq!(upstream.last("/v1/chat/completions").header("authorization"), Some("Bearer sk-upstream-key"));
    gateway.kill();

    let lost = changed.with("ACCOUNT_CREDENTIAL_SECRET", "a-third").with("CREDENTIAL_SECRET_LOST", "1");
    let gateway = lost.start_in(home);
    let account = gateway.admin().get("/api/accounts").expect(200)["accounts"][0].clone();
    assert_eq!(account["runtimeHealth"]["state"], "unhealthy", "{account}");
    gateway.client().chat(MODEL).expect(503);
    let replaced = json!({"accessToken": "sk-upstream-key", "credentialMode": "apikey"});
    gateway.admin().put(&format!("/api/accounts/{}", account["id"]), &replaced).expect(200);
    eventually("the account is used again", || (gateway.client().chat(MODEL).status == 200).then_some(()));
}

#[test]
fn a_secret_that_has_sealed_nothing_may_be_another_one() {
    let mut gateway = Gateway::start();
    let home = gateway.home().clone();
    gateway.kill();
    let changed = Setup::default().with("ACCOUNT_CREDENTIAL_SECRET", "another-secret");
    let mut gateway = changed.clone().start_in(home.clone());
    let upstream = Upstream::start(&[MODEL]);
    gateway.add("site", &upstream);
    gateway.kill();
    // Now the other secret has sealed something.
    let finished = run(&Setup::default().with("PORT", "1"), &home, &[]);
    assert_eq!(finished.status.code(), Some(78), "{}", finished.stderr);
    changed.start_in(home).client().chat(MODEL).expect(200);
}

#[test]
fn a_first_secret_takes_the_place_of_the_token_that_stood_in_for_it() {
    let upstream = Upstream::start(&[MODEL]);
    let mut gateway =
        Setup::default().with("ACCOUNT_CREDENTIAL_SECRET", "").start().in_front_of("openai", &upstream);
    let home = gateway.home().clone();
    gateway.kill();
    let mut gateway = Setup::default().start_in(home.clone());
    gateway.client().chat(MODEL).expect(200);
    gateway.kill();
    // The token no longer opens anything.
    let finished = run(&Setup::default().with("ACCOUNT_CREDENTIAL_SECRET", "").with("PORT", "1"), &home, &[]);
    assert_eq!(finished.status.code(), Some(78), "{}", finished.stderr);
}

#[test]
fn the_data_directory_and_its_database_are_for_the_owner_only() {
    let gateway = Gateway::start();
    let mode =
        |path: &std::path::Path| std::fs::metadata(path).expect("it exists").permissions().mode() & 0o777;
    let folder = gateway.home().data_dir();
    assert_eq!(mode(&folder), 0o700);
    assert_eq!(mode(&folder.join("switchyard.db")), 0o600);
}

/// A running `switchyard desktop`, with its output.
struct DesktopRun(std::process::Child, std::sync::Arc<std::sync::Mutex<String>>);

impl DesktopRun {
    /// Starts it with its own home directory, and with these programs (names and texts) first in the path.
    fn start(home: &Home, programs: &[(&str, &str)], variables: &[(&str, &str)]) -> Self {
        let folder = home.path().join("bin");
        std::fs::create_dir_all(&folder).expect("a folder");
        for (name, text) in programs {
            let file = folder.join(name);
            std::fs::write(&file, text).expect("written");
            std::fs::set_permissions(&file, PermissionsExt::from_mode(0o755)).expect("runnable");
        }
        let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_switchyard"))
            .arg("desktop")
            .env_clear()
            .env("PATH", format!("{}:/usr/bin:/bin", folder.display()))
            .env("HOME", home.path())
            .envs(variables.iter().copied())
            .current_dir(home.path())
            .stdin(std::process::Stdio::null())
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .expect("it runs");
        let said = std::sync::Arc::<std::sync::Mutex<String>>::default();
        let streams: [Box<dyn std::io::Read + Send>; 2] =
            [Box::new(child.stdout.take().expect("piped")), Box::new(child.stderr.take().expect("piped"))];
        for stream in streams {
            let said = said.clone();
            std::thread::spawn(move || {
                use std::io::BufRead;
                for line in std::io::BufReader::new(stream).lines().map_while(Result::ok) {
                    said.lock().expect("no panic there").push_str(&(line + "\n"));
                }
            });
        }
        Self(child, said)
    }

    fn said(&self) -> String {
        self.1.lock().expect("no panic there").clone()
    }

    #[track_caller]
    fn address(&self) -> std::net::SocketAddr {
        let address = eventually("it tells its address", || {
            let said = self.said();
            let (_, rest) = said.split_once("Switchyard is at http://")?;
            rest.split_once("/\n").map(|(address, _)| address.to_owned())
        });
        address.parse().expect("an address with its port")
    }
}

impl Drop for DesktopRun {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_desktop_serves_this_machine_with_data_of_its_own_and_opens_the_console() {
    let home = Home::new();
    let opened = home.path().join("opened");
    let opener = format!("#!/bin/sh\necho \"$@\" > '{}.new' && mv '{0}.new' '{0}'\n", opened.display());
    let desktop = DesktopRun::start(&home, &[("xdg-open", &opener)], &[("HOST", "0.0.0.0")]);
    let address = desktop.address();
    assert!(address.ip().is_loopback() && address.port() > 0, "{address}");
    Caller::new(address).get("/api/desktop/health").expect(200);
    let admin = Caller::new(address).with("authorization", "Bearer change-me-admin-token");
    assert_eq!(admin.get("/api/sites").expect(200), json!([]));
    let told = eventually("the browser is opened", || std::fs::read_to_string(&opened).ok());
    assert_eq!(told.trim(), format!("http://{address}/"));
    assert!(home.path().join(".local/share/switchyard/switchyard.db").exists());
}

#[test]
fn a_desktop_without_a_browser_says_so_and_serves_beside_another_one() {
    let (home, other) = (Home::new(), Home::new());
    let refusing = [("xdg-open", "#!/bin/sh\nexit 3\n")];
    let first = DesktopRun::start(&home, &refusing, &[]);
    let second = DesktopRun::start(&other, &refusing, &[]);
    for desktop in [&first, &second] {
        Caller::new(desktop.address()).get("/api/desktop/health").expect(200);
        eventually("it says that nothing was opened", || {
            desktop.said().contains("xdg-open did not open").then_some(())
        });
    }
    assert_ne!(first.address(), second.address());
}
