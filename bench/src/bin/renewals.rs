//! `renewals GATEWAY [ROUNDS]`: how long requests wait while the tokens of 500 connected accounts are renewed, which are
//! all due at once. Prints a table and its target; by default of five rounds, of about a minute and a half each.
//! ```text
//! round:  every token is made due ── start: all are renewed ── quiet
//! ```
//!
//! The accounts belong to a stub of Codex's provider, which takes 20 ms for a token and counts how many it issues at once.
//! Meanwhile, small chat requests go to an account of another site. A figure is the median of the rounds.

use std::convert::Infallible;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use hyper::body::Incoming;
use hyper::{Method, Request, Response, StatusCode};
use serde_json::json;
use switchyard_bench::load::quantile;
use switchyard_bench::paced::load;
use switchyard_bench::payload::{COMPLETION, MODELS};
use switchyard_bench::process::Scratch;
use switchyard_bench::serve::{Whole, error, json as answer};
use switchyard_bench::yard::{Yard, behind, upstream, verdict};

const ACCOUNTS: usize = 500;
/// The number of accounts per import.
const AT_ONCE: usize = 100;
const ROUNDS: usize = 5;
/// How long the provider takes for a token.
const THOUGHT: Duration = Duration::from_millis(20);
/// The most time for all renewals; the gateway spreads them over less.
const PATIENCE: Duration = Duration::from_secs(90);
const DAY: u64 = 24 * 60 * 60 * 1000;

/// The number of tokens issued, of those being issued now, and the most that were ever issued at once.
static GIVEN: AtomicUsize = AtomicUsize::new(0);
static GIVING: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

/// The figures of one half of a round; times in seconds.
struct Sample {
    p50: f64,
    p99: f64,
    took: f64,
    cpu: f64,
}

fn main() -> io::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let usage = || io::Error::other("usage: renewals GATEWAY [ROUNDS]");
    let gateway = PathBuf::from(arguments.next().ok_or_else(usage)?).canonicalize()?;
    let rounds = arguments.next().map_or(Ok(ROUNDS), |rounds| rounds.parse().map_err(|_| usage()))?;
    let stub = upstream(respond)?;
    let scratch = Scratch::new()?;
    let directory = scratch.fresh("renewals")?;
    let start = || Yard::start_in(&gateway, &directory, stub, variables(stub));
    fill(&mut start()?)?;
    let mut samples: [Vec<Sample>; 2] = Default::default();
    for _ in 0..rounds {
        make_due(&directory)?;
        GIVEN.store(0, Relaxed);
        let renewing = measure(&start()?, || GIVEN.load(Relaxed) >= ACCOUNTS)?;
        // A quiet half also begins with a start, so that the work of any start is in both.
        let yard = start()?;
        let over = Instant::now() + Duration::from_secs_f64(renewing.took);
        samples[1].push(measure(&yard, || Instant::now() >= over)?);
        samples[0].push(renewing);
    }
    report(&samples);
    Ok(())
}

fn variables(stub: u16) -> Vec<(&'static str, String)> {
    let provider = format!("http://127.0.0.1:{stub}/codex");
    vec![("PROVIDER_A_TOKEN_URL", format!("{provider}/token")), ("PROVIDER_A_BASE_URL", provider)]
}

/// Answers as the upstream of every site, and as the provider.
async fn respond(request: Request<Incoming>) -> Result<Response<Whole>, Infallible> {
    let path = request.uri().path();
    Ok(match request.method() {
        &Method::POST if path == "/codex/token" => {
            MOST.fetch_max(GIVING.fetch_add(1, Relaxed) + 1, Relaxed);
            tokio::time::sleep(THOUGHT).await;
            GIVING.fetch_sub(1, Relaxed);
            let number = GIVEN.fetch_add(1, Relaxed);
            let grant = json!({"access_token": format!("access-{number}"), "refresh_token": format!("refresh-{number}"),
                "expires_in": 10 * DAY / 1000});
            answer(StatusCode::OK, Bytes::from(grant.to_string()))
        }
        &Method::GET if path == "/codex/models" => {
            answer(StatusCode::OK, Bytes::from_static(br#"{"models":[{"slug":"bench-codex"}]}"#))
        }
        &Method::GET if path.ends_with("/v1/models") => answer(StatusCode::OK, MODELS.clone()),
        &Method::POST if path.ends_with("/v1/chat/completions") => answer(StatusCode::OK, COMPLETION.clone()),
        _ => error(StatusCode::NOT_FOUND, "there is no such path"),
    })
}

/// Adds one account that serves, and the connected ones.
fn fill(yard: &mut Yard) -> io::Result<()> {
    yard.add()?;
    for first in (0..ACCOUNTS).step_by(AT_ONCE) {
        let items = (first..first + AT_ONCE).map(|number| {
            json!({"type": "codex", "account_id": format!("account-{number}"), "expired": now() + 9 * DAY,
                "access_token": format!("access-of-{number}"), "refresh_token": format!("refresh-of-{number}")})
        });
        let items = json!({ "items": items.collect::<Vec<_>>() });
        let (_, done) = yard.admin().ask("POST", "/api/oauth/import", &items)?;
        if done["imported"] != AT_ONCE {
            return Err(io::Error::other(format!("not all were imported: {done}")));
        }
    }
    yard.wait_until_idle();
    Ok(())
}

/// Makes every token of a stopped gateway expire in an hour.
fn make_due(directory: &Path) -> io::Result<()> {
    let database = std::fs::read_dir(directory.join("data"))?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .find(|path| path.extension().is_some_and(|extension| extension == "db"))
        .ok_or_else(|| io::Error::other("the gateway has no database"))?;
    let database = rusqlite::Connection::open(database).map_err(io::Error::other)?;
    let sql =
        "UPDATE accounts SET token_expires_at = ?, token_issued_at = NULL WHERE oauth_provider IS NOT NULL";
    let due = database.execute(sql, [(now() + DAY / 24) as i64]).map_err(io::Error::other)?;
    if due == ACCOUNTS { Ok(()) } else { Err(io::Error::other(format!("{due} accounts are connected"))) }
}

/// Loads the gateway until `is_over`.
fn measure(yard: &Yard, is_over: impl Fn() -> bool) -> io::Result<Sample> {
    let (over, port) = (Arc::new(AtomicBool::new(false)), yard.port());
    let clients = {
        let over = over.clone();
        thread::spawn(move || load(port, &over))
    };
    let (began, cpu) = (Instant::now(), yard.cpu());
    while !is_over() && began.elapsed() < PATIENCE {
        thread::sleep(Duration::from_millis(5));
    }
    let took = began.elapsed();
    let cpu = (yard.cpu() - cpu).as_secs_f64() / took.as_secs_f64();
    over.store(true, Relaxed);
    let totals = clients.join().map_err(|_| io::Error::other("the load has panicked"))??;
    if !is_over() {
        return Err(io::Error::other(format!("{} tokens were renewed", GIVEN.load(Relaxed))));
    }
    let part = |part| quantile(&totals, part).unwrap_or_default();
    Ok(Sample { p50: part(0.5), p99: part(0.99), took: took.as_secs_f64(), cpu })
}

fn report(samples: &[Vec<Sample>; 2]) {
    let median = |mut values: Vec<f64>| {
        values.sort_unstable_by(f64::total_cmp);
        quantile(&values, 0.5).unwrap_or_default()
    };
    println!("| median of {} rounds | {ACCOUNTS} renewals | quiet |", samples[0].len());
    println!("|---|---:|---:|");
    let lines: [(&str, fn(&Sample) -> f64); 4] = [
        ("request, p50, ms", |sample| sample.p50 * 1e3),
        ("request, p99, ms", |sample| sample.p99 * 1e3),
        ("took, s", |sample| sample.took),
        ("cores in use", |sample| sample.cpu),
    ];
    for (name, pick) in lines {
        let figures = samples.each_ref().map(|of| format!("{:.2}", median(of.iter().map(pick).collect())));
        println!("| {name} | {} |", figures.join(" | "));
    }
    println!("\nat most {} at once", MOST.load(Relaxed));
    let p99 = |half: usize| samples[half].iter().map(|sample| sample.p99).collect::<Vec<_>>();
    let (median, rounds) = behind(&p99(1), &p99(0));
    let target =
        format!("p99 behind quiet while {ACCOUNTS} tokens are renewed, at most 10 % (rounds: {rounds:+.0?})");
    println!("{}", verdict(&target, 10.0, median));
}

/// Returns the milliseconds since 1970.
fn now() -> u64 {
    SystemTime::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_millis() as u64)
}
