//! `million GATEWAY [--rows N] [--mixed] [URL …]`: how long lists, filters and statistics take with a million rows in the log. On
//! SQLite, and in each of the given empty databases (`postgres://…`, `mysql://…`), which the servers' own clients fill
//! (psql, mariadb).
//!
//! The rows are spread evenly over the last 30 days, forty keys and twenty-five sites: each key has one client and asks for
//! four models of its own, each of which two sites have; with `--mixed` every key asks for every model at every site, so that
//! hardly two rows of some hours are alike. One in twenty fails. Every query is sent repeatedly to the admin API of the real
//! binary, one at a time, once the log has been summed up.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use switchyard_bench::process::Scratch;
use switchyard_bench::targets::on_server;
use switchyard_bench::yard::{Admin, Yard, ms, verdict};

const ROWS: i64 = 1_000_000;
const DAYS: i64 = 30;
const HOUR: i64 = 3_600_000;
const SITES: i64 = 25;
const KEYS: i64 = 40;
const MODELS: i64 = 4 * KEYS;
/// How often each query is sent.
const ASKED: usize = 40;
const TARGET_MS: f64 = 100.0;
/// How long summing up may take.
const PATIENCE: Duration = Duration::from_secs(300);

fn main() -> io::Result<()> {
    let usage = || io::Error::other("usage: million GATEWAY [--rows N] [--mixed] [URL …]");
    let mut arguments = std::env::args().skip(1);
    let gateway = PathBuf::from(arguments.next().ok_or_else(usage)?).canonicalize()?;
    let (mut rows, mut is_mixed, mut databases) = (ROWS, false, vec![None]);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--rows" => rows = arguments.next().and_then(|rows| rows.parse().ok()).ok_or_else(usage)?,
            "--mixed" => is_mixed = true,
            url if url.contains("://") => databases.push(Some(url.to_owned())),
            _ => return Err(usage()),
        }
    }
    let scratch = Scratch::new()?;
    for (number, database) in databases.into_iter().enumerate() {
        let directory = scratch.fresh(&format!("million-{number}"))?;
        measure(&gateway, &directory, database.as_deref(), rows, is_mixed)?;
    }
    Ok(())
}

/// Fills one database and measures its queries.
fn measure(gateway: &Path, directory: &Path, url: Option<&str>, rows: i64, is_mixed: bool) -> io::Result<()> {
    let variables: Vec<(&'static str, String)> = url.map(on_server).into_iter().flatten().collect();
    let start = || Yard::start_in(gateway, directory, 9, variables.clone());
    let yard = start()?;
    set_up(yard.admin())?;
    drop(yard);
    let began = Instant::now();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_err(io::Error::other)?;
    let now = i64::try_from(now.as_millis()).map_err(io::Error::other)?;
    let script = script(url, rows, is_mixed, now);
    match url {
        None => {
            let file = directory.join("data/switchyard.db");
            let database = rusqlite::Connection::open(file).map_err(io::Error::other)?;
            database.execute_batch(&script).map_err(io::Error::other)?;
        }
        Some(url) => fill(url, &script)?,
    }
    let kind = url.and_then(|url| url.split_once("://")).map_or("sqlite", |(kind, _)| kind);
    eprintln!("{kind}: {rows} rows in {:.1} s", began.elapsed().as_secs_f64());

    let yard = start()?;
    let admin = yard.admin();
    let began = Instant::now();
    summed_up(&yard)?;
    eprintln!("{kind}: summed up after {:.1} s", began.elapsed().as_secs_f64());
    println!("\n| {kind} | p50, ms | p95, ms |\n|---|---:|---:|");
    let mut worst: f64 = 0.0;
    for path in questions(rows, now)? {
        let mut times = Vec::with_capacity(ASKED);
        for _ in 0..ASKED {
            times.push(admin.ask("GET", &path, &Value::Null)?.0);
        }
        times.sort_unstable();
        let [p50, p95] = [50, 95].map(|percent| ms(times[(times.len() - 1) * percent / 100]));
        worst = worst.max(p95);
        println!("| `{path}` | {p50:.1} | {p95:.1} |");
    }
    println!("\n{}", verdict("every answer, at p95 at most 100 ms", TARGET_MS, worst));
    Ok(())
}

/// Adds sites with an account each, and keys, numbered from 1.
fn set_up(admin: Admin) -> io::Result<()> {
    for number in 1..=SITES {
        let url = format!("http://127.0.0.1:9/{number}");
        let site = json!({ "name": format!("site {number}"), "url": url, "platform": "openai" });
        let (_, site) = admin.ask("POST", "/api/sites", &site)?;
        let account = json!({
            "siteId": site["id"], "accessToken": format!("sk-bench-{number}"),
            "credentialMode": "apikey", "skipModelFetch": true,
        });
        admin.ask("POST", "/api/accounts", &account)?;
    }
    for number in 1..=KEYS {
        let key = json!({ "name": format!("key {number}"), "key": format!("sk-bench-key-{number:04}") });
        admin.ask("POST", "/api/downstream-keys", &key)?;
    }
    Ok(())
}

/// Builds the script that fills the log and the usage tables.
fn script(url: Option<&str>, rows: i64, is_mixed: bool, now: i64) -> String {
    // Model and site depend on how often the keys were gone through, so that all occur in all parts of a day.
    let key = format!("(n % {KEYS})");
    let by = if url.is_some_and(|url| url.starts_with("mysql")) { "DIV" } else { "/" };
    let (model, site) = if is_mixed {
        (format!("(n {by} {KEYS} % {MODELS})"), format!("(n {by} 3 % {SITES} + 1)"))
    } else {
        (
            format!("(n % {KEYS} * 4 + n {by} {KEYS} % 4)"),
            format!("((n % {KEYS} * 2 + n {by} {KEYS} % 2) % {SITES} + 1)"),
        )
    };
    let (numbers, model, day) = match url {
        None => (
            format!(
                "(WITH RECURSIVE s(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < {rows}) SELECT n FROM s)"
            ),
            format!("'model-' || {model}"),
            "date(created_at / 1000, 'unixepoch')",
        ),
        Some(url) if url.starts_with("mysql") => (
            format!("(SELECT seq AS n FROM seq_1_to_{rows})"),
            format!("CONCAT('model-', {model})"),
            "DATE_FORMAT(FROM_UNIXTIME(created_at DIV 1000), '%Y-%m-%d')",
        ),
        Some(_) => (
            format!("(SELECT n FROM generate_series(CAST(1 AS BIGINT), {rows}) AS s(n))"),
            format!("'model-' || CAST({model} AS TEXT)"),
            "to_char(to_timestamp(created_at / 1000) AT TIME ZONE 'UTC', 'YYYY-MM-DD')",
        ),
    };
    let zone = if url.is_some_and(|url| url.starts_with("mysql")) { "SET time_zone = '+00:00';" } else { "" };
    let first = now - DAYS * 24 * HOUR;
    let step = DAYS * 24 * HOUR / rows;
    format!(
        "{zone}
         INSERT INTO proxy_logs (route_id, channel_id, account_id, site_id, downstream_api_key_id, model_requested,
           model_actual, status, http_status, is_stream, first_byte_latency_ms, latency_ms, prompt_tokens,
           completion_tokens, total_tokens, usage_source, estimated_cost, client_family, client_app_id,
           client_app_name, client_confidence, downstream_path, upstream_path, retry_count, created_at, input_tokens,
           cache_read_tokens)
         SELECT n % 60 + 1, n % 90 + 1, {site}, {site}, {key} + 1, {model}, {model},
           CASE WHEN n % 20 = 3 THEN 'failed' ELSE 'success' END, CASE WHEN n % 20 = 3 THEN 502 ELSE 200 END,
           n % 3 <> 0, 100 + n % 900, 500 + n % 9000, 1000 + n % 5000, n % 700, 1000 + n % 5000 + n % 700,
           'upstream', (n % 1000) / 100000.0,
           CASE {key} % 4 WHEN 0 THEN 'codex' WHEN 1 THEN 'claude_code' WHEN 2 THEN 'gemini_cli' ELSE 'generic' END,
           CASE {key} % 4 WHEN 3 THEN 'cursor' ELSE NULL END, CASE {key} % 4 WHEN 3 THEN 'Cursor' ELSE NULL END,
           'exact', '/v1/chat/completions', '/v1/chat/completions', 0, {first} + n * {step}, 1000 + n % 5000,
           CASE WHEN n % 2 = 0 THEN n % 800 ELSE NULL END
         FROM {numbers} AS numbers;
         INSERT INTO usage_hour (bucket_start, site_id, model, calls, ok, failed, tokens, cost, latency_ms, latency_n)
         SELECT created_at - created_at % {HOUR}, site_id, model_actual, COUNT(*),
           SUM(CASE WHEN status = 'success' THEN 1 ELSE 0 END), SUM(CASE WHEN status = 'success' THEN 0 ELSE 1 END),
           SUM(total_tokens), SUM(estimated_cost), SUM(latency_ms), COUNT(*)
         FROM proxy_logs GROUP BY created_at - created_at % {HOUR}, site_id, model_actual;
         INSERT INTO usage_day (local_day, site_id, model, tz, calls, ok, failed, tokens, cost, latency_ms, latency_n)
         SELECT {day}, site_id, model_actual, 'UTC', COUNT(*),
           SUM(CASE WHEN status = 'success' THEN 1 ELSE 0 END), SUM(CASE WHEN status = 'success' THEN 0 ELSE 1 END),
           SUM(total_tokens), SUM(estimated_cost), SUM(latency_ms), COUNT(*)
         FROM proxy_logs GROUP BY {day}, site_id, model_actual;"
    )
}

/// Runs a script with the server's own client.
fn fill(url: &str, script: &str) -> io::Result<()> {
    let mut client = if url.starts_with("mysql") {
        let place = url.split_once("://").map_or("", |(_, place)| place);
        let (place, database) = place.split_once('/').unwrap_or((place, ""));
        let (user, place) = place.rsplit_once('@').unwrap_or(("root", place));
        let (user, password) = user.split_once(':').unwrap_or((user, ""));
        let (host, port) = place.rsplit_once(':').unwrap_or((place, "3306"));
        let mut client = Command::new("mariadb");
        client.args(["--protocol=tcp", "-h", host, "-P", port, "-u", user, database]);
        client.env("MYSQL_PWD", password);
        client
    } else {
        let mut client = Command::new("psql");
        client.args(["-q", "-v", "ON_ERROR_STOP=1", url]);
        client
    };
    let mut client = client.stdin(Stdio::piped()).spawn()?;
    if let Some(mut input) = client.stdin.take() {
        input.write_all(script.as_bytes())?;
    }
    if client.wait()?.success() { Ok(()) } else { Err(io::Error::other(format!("{url} was not filled"))) }
}

/// Waits until counting all rows is quick and nothing is being summed up any more.
fn summed_up(yard: &Yard) -> io::Result<()> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let cpu = yard.cpu();
        std::thread::sleep(Duration::from_secs(1));
        // A database server is still busy while a count is slow; SQLite, while the gateway is.
        let is_at_rest = yard.cpu() - cpu < Duration::from_millis(50);
        let (took, _) = yard.admin().ask("GET", "/api/stats/proxy-logs?limit=1&view=query", &Value::Null)?;
        if is_at_rest && took < Duration::from_millis(50) || Instant::now() > deadline {
            return Ok(());
        }
    }
}

/// Lists the paths of the queries.
fn questions(rows: i64, now: i64) -> io::Result<Vec<String>> {
    let log = |query: &str| format!("/api/stats/proxy-logs?{query}");
    let moment = |hours: i64| {
        let at = format!("@{}", now / 1000 - hours * 3600);
        let date = Command::new("date").args(["-u", "-d", &at, "+%FT%TZ"]).output()?;
        Ok::<_, io::Error>(String::from_utf8_lossy(&date.stdout).trim().to_owned())
    };
    let mut questions = vec![
        log("limit=50"),
        log("view=query"),
        log("view=meta"),
        log(&format!("view=query&offset={}", rows / 2)),
        log("status=failed"),
        log("status=success&offset=10000"),
        log("client=family:codex"),
        log("client=app:cursor&status=failed"),
        log("siteId=3"),
        log("siteId=3&status=failed&offset=500"),
        log("search=model-77"),
        log("search=key%201"),
        log("search=nothing-has-this-name"),
        log(&format!("from={}", moment(1)?)),
        log(&format!("from={}&to={}", moment(24 * 7 + 3)?, moment(2)?)),
        log(&format!("from={}&to={}&siteId=5&search=model", moment(24 * 20)?, moment(24 * 10 + 5)?)),
        format!("/api/stats/proxy-logs/{}", rows / 3),
        "/api/stats/dashboard?refresh=1".to_owned(),
        "/api/stats/site-distribution?refresh=1".to_owned(),
        "/api/stats/site-trend?days=30&refresh=1".to_owned(),
        "/api/stats/site-trend?days=30&model=model-77".to_owned(),
        "/api/stats/model-by-site?days=30".to_owned(),
        "/api/stats/model-by-site?days=30&siteId=4".to_owned(),
        "/api/accounts?limit=50".to_owned(),
    ];
    for range in ["24h", "7d", "all"] {
        questions.push(format!("/api/downstream-keys/summary?range={range}"));
        questions.push(format!("/api/downstream-keys/3/trend?range={range}"));
    }
    questions.push("/api/downstream-keys/3/overview".to_owned());
    Ok(questions)
}
