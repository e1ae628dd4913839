//! `transfer GATEWAY [MEGABYTES] [ROUNDS]`: how long requests wait while a backup is imported and while one is exported,
//! and how much memory that takes. Prints a table and its targets; by default of 200 MB and five rounds.
//!
//! ```text
//! round:  quiet ── the backup is imported over the present data ── everything is exported
//! ```
//!
//! Meanwhile, small chat requests are sent at an even pace ([`switchyard_bench::paced`]). The backup is the gateway's own
//! export with disabled accounts added that have long notes, so that requests go where they went before. The sender and
//! receiver of the backup gives way to all other threads; otherwise it would take cores that the gateway would have if the
//! client ran elsewhere.

use std::convert::Infallible;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use hyper::body::Incoming;
use hyper::{Method, Request, Response, StatusCode};
use serde_json::{Value, json};
use switchyard_bench::load::quantile;
use switchyard_bench::paced::load;
use switchyard_bench::payload::{COMPLETION, MODEL};
use switchyard_bench::process::Scratch;
use switchyard_bench::serve::{Whole, error, json as answer};
use switchyard_bench::yard::{Admin, Yard, behind, elsewhere, upstream, verdict};

const EXPORT: &str = "/api/settings/backup/export";
const IMPORT: &str = "/api/settings/backup/import";
const MEGABYTES: usize = 200;
const ROUNDS: usize = 5;
/// The length of an added account's note, in bytes.
const NOTE: usize = 4_000;
const QUIET: Duration = Duration::from_secs(6);

/// The figures of one mode in one round, in seconds.
struct Sample {
    p99: f64,
    took: f64,
}

fn main() -> io::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let usage = || io::Error::other("usage: transfer GATEWAY [MEGABYTES] [ROUNDS]");
    let gateway = PathBuf::from(arguments.next().ok_or_else(usage)?).canonicalize()?;
    let mut number = |usual| arguments.next().map_or(Ok(usual), |number| number.parse().map_err(|_| usage()));
    let (megabytes, rounds) = (number(MEGABYTES)?, number(ROUNDS)?);
    let stub = upstream(respond)?;
    let scratch = Scratch::new()?;
    let mut yard = Yard::start(&gateway, &scratch, stub)?;
    yard.add()?;
    yard.wait_until_idle();
    let backup = backup(yard.admin(), yard.a_site(), megabytes)?;
    let before = yard.memory().peak;
    let backup = Arc::new(backup);
    let mut samples: [Vec<Sample>; 3] = Default::default();
    for _ in 0..rounds {
        let [quiet, import, export] = &mut samples;
        quiet.push(measure(&yard, |_| {
            thread::sleep(QUIET);
            Ok(())
        })?);
        import.push(measure(&yard, |admin| {
            let backup = backup.clone();
            elsewhere(move || admin.send("POST", IMPORT, &backup).map(drop))?
        })?);
        export.push(measure(&yard, |admin| {
            let (_, document) = elsewhere(move || admin.send("GET", EXPORT, b""))??;
            let is_whole = document.len() > backup.len() / 2;
            is_whole.then_some(()).ok_or_else(|| io::Error::other("the export lacks accounts"))
        })?);
    }
    let memory = yard.memory().peak;
    report(&samples, backup.len(), (before as f64 / 1e6, memory as f64 / 1e6));
    Ok(())
}

/// Answers as the upstream of every site.
async fn respond(request: Request<Incoming>) -> Result<Response<Whole>, Infallible> {
    let path = request.uri().path();
    let list = || Bytes::from(json!({ "object": "list", "data": [{ "id": MODEL }] }).to_string());
    Ok(match request.method() {
        &Method::GET if path.ends_with("/v1/models") => answer(StatusCode::OK, list()),
        &Method::POST if path.ends_with("/v1/chat/completions") => answer(StatusCode::OK, COMPLETION.clone()),
        _ => error(StatusCode::NOT_FOUND, "there is no such path"),
    })
}

/// Builds the body of an import: everything that is there, and added accounts up to this many megabytes.
fn backup(admin: Admin, site: i64, megabytes: usize) -> io::Result<Vec<u8>> {
    let (_, mut document) = admin.ask("GET", EXPORT, &Value::Null)?;
    let accounts = document["accounts"]["accounts"].as_array_mut();
    let accounts = accounts.ok_or_else(|| io::Error::other("an export without accounts"))?;
    let note = json!({ "note": "x".repeat(NOTE) }).to_string();
    accounts.extend((0..megabytes * 1_000_000 / (NOTE + 160)).map(|number| {
        json!({
            "id": 1_000 + number, "siteId": site, "username": format!("user-{number}"), "status": "disabled",
            "accessToken": format!("session-{number}"), "extraConfig": note,
        })
    }));
    // The checksum belongs to the unchanged document.
    document.as_object_mut().and_then(|document| document.remove("checksum"));
    Ok(json!({ "data": document }).to_string().into_bytes())
}

/// Loads the gateway until the work is done.
fn measure(yard: &Yard, work: impl FnOnce(Admin) -> io::Result<()>) -> io::Result<Sample> {
    yard.wait_until_idle();
    let (port, over) = (yard.port(), Arc::new(AtomicBool::new(false)));
    let clients = {
        let over = over.clone();
        thread::spawn(move || load(port, &over))
    };
    let began = Instant::now();
    let worked = work(yard.admin());
    let took = began.elapsed().as_secs_f64();
    over.store(true, Relaxed);
    let times = clients.join().map_err(|_| io::Error::other("a thread of the load has panicked"))??;
    worked?;
    Ok(Sample { p99: quantile(&times, 0.99).unwrap_or_default(), took })
}

fn report(samples: &[Vec<Sample>; 3], length: usize, (before, peak): (f64, f64)) {
    let median = |mut values: Vec<f64>| {
        values.sort_unstable_by(f64::total_cmp);
        quantile(&values, 0.5).unwrap_or_default()
    };
    let of = |mode: usize, pick: fn(&Sample) -> f64| median(samples[mode].iter().map(pick).collect());
    println!("| median of {} rounds | quiet | import | export |", samples[0].len());
    println!("|---|---:|---:|---:|");
    let lines: [(&str, fn(&Sample) -> f64); 2] =
        [("request, p99, ms", |sample| sample.p99 * 1e3), ("it took, s", |sample| sample.took)];
    for (name, pick) in lines {
        println!("| {name} | {:.2} | {:.2} | {:.2} |", of(0, pick), of(1, pick), of(2, pick));
    }
    println!("\n{:.0} MB; {before:.0} MB resident at most before, {peak:.0} MB after", length as f64 / 1e6);
    let p99 = |mode: usize| samples[mode].iter().map(|sample| sample.p99).collect::<Vec<_>>();
    for (mode, name) in [(1, "a backup is read"), (2, "one is written")] {
        let (median, rounds) = behind(&p99(0), &p99(mode));
        let target = format!("p99 behind quiet while {name}, at most 20 % (rounds: {rounds:+.0?})");
        println!("{}", verdict(&target, 20.0, median));
    }
    println!("{}", verdict("resident at most, MB", 64.0, peak));
}
