//! `switchyard demo`: shows the main job end to end, without any account.
//!
//! ```text
//! this process ──── admin API, then one streamed chat ────▶ gateway (a child: the same program)
//!      └── stub upstream ◀─────────────────────────────────────┘
//! ```
//!
//! The gateway is started as an operator starts it and used only through its socket, so the demo shows its real
//! behaviour. Data goes to a temporary directory; the directory, the child and the ports are gone at the end, even
//! after Ctrl-C.

mod call;
mod child;
mod stub;

use std::io::{Write, stdout};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::dialect::sse::Scanner;
use call::Caller;
use child::Gateway;

/// The time limit for anything that happens in the background.
const SOON: Duration = Duration::from_secs(20);
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Prints a line. A closed standard output (`switchyard demo | head`) does not end the demo, which must clean up.
macro_rules! say {
    ($($text:tt)*) => {{
        let _ = writeln!(stdout(), $($text)*);
    }};
}

/// Runs the demo; reports a failure on standard error.
pub fn run() -> ExitCode {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("demo: the runtime did not start: {error}");
            return ExitCode::FAILURE;
        }
    };
    // Whichever ends first, the other is dropped, and with it the child and its directory.
    let outcome = runtime.block_on(async {
        tokio::select! {
            outcome = show() => outcome,
            () = interrupted() => Err("interrupted; everything is cleaned up".to_owned()),
        }
    });
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("\ndemo: {problem}");
            ExitCode::FAILURE
        }
    }
}

async fn interrupted() {
    use tokio::signal::unix::{SignalKind, signal};
    let Ok(mut terminate) = signal(SignalKind::terminate()) else { return std::future::pending().await };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        _ = terminate.recv() => {}
    }
}

async fn show() -> Result<(), String> {
    say!("Switchyard end to end, with a stub in place of a real AI site.");
    say!("Everything lives in a temporary directory and on free ports of this machine.\n");

    let upstream = stub::start().await?;
    say!("1. A stub upstream that streams its answers: {upstream}");

    let started = Instant::now();
    let mut gateway = Gateway::start()?;
    wait_until_healthy(&mut gateway).await?;
    say!("\n2. The gateway, started on an empty directory:");
    say!("   $ {}", gateway.command_line());
    say!("   It answers after {} ms.", started.elapsed().as_millis());

    add_site_and_account(&gateway, &upstream).await?;
    wait_for_model(&gateway).await?;
    stream_an_answer(&gateway).await?;
    show_log(&gateway).await?;

    say!("\n8. SIGTERM: requests in flight end, pending rows are written, the process exits.");
    gateway.stop().await?;
    say!("   It has exited with 0; its directory is removed.\n");
    say!("Do the same with a site of yours: `make run`, then the curl lines of the README.");
    Ok(())
}

async fn wait_until_healthy(gateway: &mut Gateway) -> Result<(), String> {
    let deadline = Instant::now() + SOON;
    loop {
        let health = Caller::new(gateway.address(), "").get("/api/desktop/health").await;
        match health {
            Ok(_) => return Ok(()),
            Err(problem) if Instant::now() > deadline => {
                return Err(format!("the gateway does not answer: {problem}"));
            }
            Err(_) => gateway.check_it_runs()?,
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

async fn add_site_and_account(gateway: &Gateway, upstream: &str) -> Result<(), String> {
    let admin = Caller::new(gateway.address(), gateway.admin_token());
    say!("\n3. An operator adds the site (AUTH_TOKEN is the admin token):");
    let site = json!({"name": "Demo site", "url": upstream, "platform": "openai"});
    say!("{}", admin.curl("AUTH_TOKEN", "/api/sites", Some(&site)));
    let site = admin.post("/api/sites", &site).await?;
    say!("   It has id {} and status {}.", site["id"], text(&site["status"]));

    say!("\n4. … and an account on it, with the key that the site gave:");
    let account = json!({"siteId": site["id"], "accessToken": stub::KEY, "credentialMode": "apikey"});
    say!("{}", admin.curl("AUTH_TOKEN", "/api/accounts", Some(&account)));
    let account = admin.post("/api/accounts", &account).await?;
    say!("   It has id {}; the key is stored sealed.", account["id"]);
    Ok(())
}

async fn wait_for_model(gateway: &Gateway) -> Result<(), String> {
    let client = Caller::new(gateway.address(), gateway.proxy_token());
    let started = Instant::now();
    say!("\n5. Its models are discovered and routed by themselves (PROXY_TOKEN is the clients' token):");
    say!("{}", client.curl("PROXY_TOKEN", "/v1/models", None));
    loop {
        let listed = client.get("/v1/models").await?;
        let names: Vec<&str> = listed["data"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|model| model["id"].as_str())
            .collect();
        if names.contains(&stub::MODEL) {
            say!("   After {} ms: {}.", started.elapsed().as_millis(), names.join(", "));
            return Ok(());
        }
        if started.elapsed() > SOON {
            return Err(format!("the model {} did not appear; there is: {names:?}", stub::MODEL));
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}
async fn stream_an_answer(gateway: &Gateway) -> Result<(), String> {
    let client = Caller::new(gateway.address(), gateway.proxy_token());
    let ask = json!({
        "model": stub::MODEL,
        "stream": true,
        "stream_options": {"include_usage": true},
        "messages": [{"role": "user", "content": "What do you do?"}],
    });
    say!("\n6. A client asks, and the answer streams through:");
    say!("{}", client.curl("PROXY_TOKEN", "/v1/chat/completions", Some(&ask)));
    let _ = write!(stdout(), "   ");
    let started = Instant::now();
    let mut first = None;
    let mut usage = Value::Null;
    let mut scanner = Scanner::new(64 * 1024);
    let mut answer = client.stream("/v1/chat/completions", &ask).await?;
    while let Some(chunk) = answer.next().await? {
        scanner.feed(&chunk, |event| {
            let Ok(event) = serde_json::from_slice::<Value>(event.data) else { return };
            if let Some(delta) =
                event["choices"][0]["delta"]["content"].as_str().filter(|text| !text.is_empty())
            {
                first.get_or_insert_with(|| started.elapsed());
                let _ = write!(stdout(), "{delta}");
            }
            if event["usage"].is_object() {
                usage = event["usage"].clone();
            }
        });
        // A delta is shown when it arrives, not when a line is full; a closed pipe does not end the demo here.
        let _ = stdout().flush();
    }
    say!();
    let first = first.ok_or("the answer had no content")?;
    say!(
        "   First delta after {} ms, all after {} ms, {} tokens.",
        first.as_millis(),
        started.elapsed().as_millis(),
        usage["total_tokens"],
    );
    Ok(())
}

async fn show_log(gateway: &Gateway) -> Result<(), String> {
    let admin = Caller::new(gateway.address(), gateway.admin_token());
    say!("\n7. What the operator sees of it:");
    say!("{}", admin.curl("AUTH_TOKEN", "/api/stats/proxy-logs?limit=1", None));
    let deadline = Instant::now() + SOON;
    let row = loop {
        // The row is written in the background, within a quarter of a second.
        let page = admin.get("/api/stats/proxy-logs?limit=1").await?;
        if let Some(row) = page["items"].get(0) {
            break row.clone();
        }
        if Instant::now() > deadline {
            return Err("no row appeared in the proxy log".to_owned());
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    };
    for key in [
        "createdAt",
        "modelRequested",
        "status",
        "httpStatus",
        "siteName",
        "totalTokens",
        "firstByteLatencyMs",
        "latencyMs",
    ] {
        if !row[key].is_null() {
            say!("   {key:20} {}", text(&row[key]));
        }
    }
    Ok(())
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
