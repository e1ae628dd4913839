//! `refresh GATEWAY [ROUNDS]`: how long requests and changes wait while the models of 100 accounts, 2,000 each, are
//! refreshed. Prints a table and its targets; by default of seven rounds.
//!
//! ```text
//! round:  quiet ── the same lists again ── lists of which a twentieth is new
//! ```
//!
//! Meanwhile, small chat requests are sent at an even pace ([`switchyard_bench::paced`]). Each of the three modes is
//! measured twice in a round, the second time with a site of 20,000 channels renamed five times a second: requests are
//! judged by the first measurement, changes by the second. A figure is the median of the rounds: load, upstream and gateway
//! share the cores, and whatever slows a round down slows all of it. Sixteen hundred of an account's models are listed by
//! every site, the others by the account's own site only.

use std::convert::Infallible;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use hyper::body::Incoming;
use hyper::{Method, Request, Response, StatusCode};
use serde_json::{Value, json};
use switchyard::idle_thread::run_on_idle_thread;
use switchyard_bench::load::quantile;
use switchyard_bench::paced::load;
use switchyard_bench::payload::{COMPLETION, MODEL};
use switchyard_bench::process::Scratch;
use switchyard_bench::serve::{Whole, error, json as answer};
use switchyard_bench::yard::{Admin, Yard, behind, upstream, verdict};

const ACCOUNTS: usize = 100;
/// Models that every site lists.
const SHARED: usize = 1_600;
/// Models that only one site lists.
const OWN: usize = 300;
/// Models of one site that are replaced with each change of the lists.
const CHANGING: usize = 100;
const ROUNDS: usize = 7;
const WRITE_PACE: Duration = Duration::from_millis(200);
const QUIET: Duration = Duration::from_secs(4);
/// The least time of refreshing, repeated until there are enough exchanges to judge by.
const REFRESHING: Duration = Duration::from_secs(4);

/// The number of times that the lists have changed.
static EDITION: AtomicUsize = AtomicUsize::new(0);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Quiet,
    SameLists,
    NewLists,
}

const MODES: [Mode; 3] = [Mode::Quiet, Mode::SameLists, Mode::NewLists];

/// The figures of one mode in one round; times in seconds.
#[derive(Default)]
struct Sample {
    p50: f64,
    p99: f64,
    rate: f64,
    write_p50: f64,
    write_p99: f64,
    refresh: f64,
    cpu: f64,
}

fn main() -> io::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let usage = || io::Error::other("usage: refresh GATEWAY [ROUNDS]");
    let gateway = PathBuf::from(arguments.next().ok_or_else(usage)?).canonicalize()?;
    let rounds = arguments.next().map_or(Ok(ROUNDS), |rounds| rounds.parse().map_err(|_| usage()))?;
    let stub = upstream(respond)?;
    let scratch = Scratch::new()?;
    let mut yard = Yard::start(&gateway, &scratch, stub)?;
    let began = Instant::now();
    while yard.accounts() < ACCOUNTS {
        yard.add()?;
    }
    yard.wait_until_idle();
    eprintln!("{ACCOUNTS} accounts in {:.1} s", began.elapsed().as_secs_f64());
    let mut samples: [Vec<Sample>; 3] = Default::default();
    for round in 0..=rounds {
        for (mode, samples) in MODES.into_iter().zip(&mut samples) {
            let alone = measure(&yard, mode, false)?;
            let with_writes = measure(&yard, mode, true)?;
            let sample =
                Sample { write_p50: with_writes.write_p50, write_p99: with_writes.write_p99, ..alone };
            // The first round warms up, so it does not count.
            if round > 0 {
                samples.push(sample);
            }
        }
    }
    report(&samples, yard.memory().peak as f64 / 1e6);
    Ok(())
}

/// Answers as the upstream of every site.
async fn respond(request: Request<Incoming>) -> Result<Response<Whole>, Infallible> {
    let path = request.uri().path();
    let site = path.trim_start_matches('/').split('/').next().unwrap_or_default();
    Ok(match request.method() {
        &Method::GET if path.ends_with("/v1/models") => {
            let site = site.to_owned();
            // This thread also answers the requests that are measured.
            match run_on_idle_thread(move || list_of(&site)).await {
                Ok(list) => answer(StatusCode::OK, list),
                Err(no_thread) => error(StatusCode::SERVICE_UNAVAILABLE, &no_thread.to_string()),
            }
        }
        &Method::POST if path.ends_with("/v1/chat/completions") => answer(StatusCode::OK, COMPLETION.clone()),
        _ => error(StatusCode::NOT_FOUND, "there is no such path"),
    })
}

fn list_of(site: &str) -> Bytes {
    let edition = EDITION.load(Relaxed);
    let mut list = String::with_capacity(64 << 10);
    list.push_str(r#"{"object":"list","data":[{"id":""#);
    list.push_str(MODEL);
    let mut add = |name: std::fmt::Arguments<'_>| {
        use std::fmt::Write;
        // Writing to a string cannot fail.
        let _ = write!(list, r#""}},{{"id":"{name}"#);
    };
    (1..SHARED).for_each(|number| add(format_args!("vendor/model-{number}")));
    (0..OWN).for_each(|number| add(format_args!("{site}/model-{number}")));
    (0..CHANGING).for_each(|number| add(format_args!("{site}/edition-{edition}-{number}")));
    list.push_str(r#""}]}"#);
    Bytes::from(list)
}

/// Loads the gateway in this mode, and has a site renamed meanwhile if `with_writes`.
fn measure(yard: &Yard, mode: Mode, with_writes: bool) -> io::Result<Sample> {
    yard.wait_until_idle();
    let (admin, site, port) = (yard.admin(), yard.a_site(), yard.port());
    let over = Arc::new(AtomicBool::new(false));
    let clients = {
        let over = over.clone();
        thread::spawn(move || load(port, &over))
    };
    let writer = {
        let over = over.clone();
        thread::spawn(move || if with_writes { write(admin, site, &over) } else { Ok(Vec::new()) })
    };
    let (began, cpu) = (Instant::now(), yard.cpu());
    let mut refreshes = 0;
    match mode {
        Mode::Quiet => thread::sleep(QUIET),
        Mode::SameLists | Mode::NewLists => {
            while began.elapsed() < REFRESHING {
                EDITION.fetch_add(usize::from(mode == Mode::NewLists), Relaxed);
                let all = json!({ "refreshModels": true, "wait": true });
                let (_, answer) = admin.ask("POST", "/api/routes/rebuild", &all)?;
                check(&answer)?;
                refreshes += 1;
            }
        }
    }
    let took = began.elapsed().as_secs_f64();
    let cpu = (yard.cpu() - cpu).as_secs_f64() / took;
    over.store(true, Relaxed);
    let broken = |_| io::Error::other("a thread of the load has panicked");
    let (totals, writes) = (clients.join().map_err(broken)??, writer.join().map_err(broken)??);
    let part = |values: &[f64], part| quantile(values, part).unwrap_or_default();
    Ok(Sample {
        p50: part(&totals, 0.5),
        p99: part(&totals, 0.99),
        rate: totals.len() as f64 / took,
        write_p50: part(&writes, 0.5),
        write_p99: part(&writes, 0.99),
        refresh: if refreshes == 0 { 0.0 } else { took / f64::from(refreshes) },
        cpu,
    })
}

/// Fails unless the refresh asked every account.
fn check(answer: &Value) -> io::Result<()> {
    let outcomes = answer["refresh"].as_array().map_or(&[][..], Vec::as_slice);
    let good = outcomes.iter().filter(|outcome| outcome["modelCount"] == SHARED + OWN + CHANGING);
    match good.count() {
        ACCOUNTS => Ok(()),
        good => {
            Err(io::Error::other(format!("{good} of {ACCOUNTS} accounts were refreshed: {}", outcomes[0])))
        }
    }
}

/// Renames a site at intervals until `over`; returns the seconds that each renaming took, in ascending order.
fn write(admin: Admin, site: i64, over: &AtomicBool) -> io::Result<Vec<f64>> {
    let mut writes = Vec::new();
    while !over.load(Relaxed) {
        writes.push(admin.rename(site, writes.len())?.as_secs_f64());
        thread::sleep(WRITE_PACE);
    }
    writes.sort_unstable_by(f64::total_cmp);
    Ok(writes)
}

fn report(samples: &[Vec<Sample>; 3], peak: f64) {
    let median_of = |samples: &[Sample], pick: fn(&Sample) -> f64| {
        let mut values: Vec<f64> = samples.iter().map(pick).collect();
        values.sort_unstable_by(f64::total_cmp);
        quantile(&values, 0.5).unwrap_or_default()
    };
    println!("| median of {} rounds | quiet | same lists | new lists |", samples[0].len());
    println!("|---|---:|---:|---:|");
    let lines: [(&str, fn(&Sample) -> f64); 7] = [
        ("request, p50, ms", |sample| sample.p50 * 1e3),
        ("request, p99, ms", |sample| sample.p99 * 1e3),
        ("requests a second", |sample| sample.rate),
        ("renaming a site, p50, ms", |sample| sample.write_p50 * 1e3),
        ("renaming a site, p99, ms", |sample| sample.write_p99 * 1e3),
        ("a refresh of all, s", |sample| sample.refresh),
        ("cores in use", |sample| sample.cpu),
    ];
    for (name, pick) in lines {
        let figures = samples.each_ref().map(|samples| format!("{:.2}", median_of(samples, pick)));
        println!("| {name} | {} |", figures.join(" | "));
    }
    println!("\nat most {peak:.0} MB resident");
    let p99 = |mode: usize| samples[mode].iter().map(|sample| sample.p99).collect::<Vec<_>>();
    for (mode, name) in [(1, "the same lists"), (2, "new lists")] {
        let (median, rounds) = behind(&p99(0), &p99(mode));
        let target = format!("p99 behind quiet while {name} are read, at most 20 % (rounds: {rounds:+.0?})");
        println!("{}", verdict(&target, 20.0, median));
        let target = format!("p99 of a change while {name} are read, at most 100 ms");
        println!("{}", verdict(&target, 100.0, 1e3 * median_of(&samples[mode], |sample| sample.write_p99)));
    }
}
