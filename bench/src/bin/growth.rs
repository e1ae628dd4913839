//! `growth GATEWAY [ACCOUNTS …]`: what one more account costs, and a few other things an operator does, as the
//! instance grows. Prints a table; by default at 100, 1,000 and 3,000 accounts.
//!
//! Sites have ten accounts each, every account lists 25 models: twenty that all sites have, five of its site. Accounts
//! come in through the admin API one after the other, each verified at its site, discovered and routed. At each size ten
//! more are added to an idle gateway: those are the figures. They are to be read against those of the first row, which
//! is ten accounts; the resident memory is that after the import and before any list was asked for.

use std::convert::Infallible;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use serde_json::{Value, json};
use switchyard_bench::process::{Process, Program, Scratch, cpu_time, free_port, memory};
use switchyard_bench::serve::{Whole, error, json as answer, serve};
use switchyard_bench::wire::call;

const ADMIN: &str = "bench-admin-token";
const PER_SITE: usize = 10;
/// Accounts that a row is measured on.
const MEASURED: usize = 10;
const RENAMES: usize = 11;
const SIZES: [usize; 3] = [100, 1_000, 3_000];

fn main() -> io::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let usage = || io::Error::other("usage: growth GATEWAY [ACCOUNTS …]");
    let gateway = PathBuf::from(arguments.next().ok_or_else(usage)?).canonicalize()?;
    let mut sizes = arguments
        .map(|size| size.parse::<usize>().map_err(|_| usage()))
        .collect::<io::Result<Vec<usize>>>()?;
    if sizes.is_empty() {
        sizes = SIZES.to_vec();
    }
    let stub = free_port()?;
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(serve(stub, service_fn(list_models)))
    });
    let scratch = Scratch::new()?;
    let mut yard = Yard::start(&gateway, &scratch, stub)?;
    println!(
        "| accounts | add, ms | its CPU, ms | rename a site, ms | first 50 routes, ms | all routes, ms | resident, MB |"
    );
    println!("|---:|---:|---:|---:|---:|---:|---:|");
    for size in std::iter::once(MEASURED).chain(sizes) {
        yard.grow_to(size)?;
    }
    Ok(())
}

/// The upstream of every site: lists the models of the site that the path begins with.
async fn list_models(request: Request<Incoming>) -> Result<Response<Whole>, Infallible> {
    let path = request.uri().path();
    let Some(site) = path.strip_suffix("/v1/models").map(|site| site.trim_matches('/')) else {
        return Ok(error(StatusCode::NOT_FOUND, "there are models here, and nothing else"));
    };
    let shared = (0..20).map(|number| format!("model-{number}"));
    let names = shared.chain((0..5).map(|number| format!("{site}-model-{number}")));
    let models: Vec<Value> = names.map(|name| json!({ "id": name, "object": "model" })).collect();
    let body = json!({ "object": "list", "data": models }).to_string();
    Ok(answer(StatusCode::OK, Bytes::from(body)))
}

/// A gateway that grows.
struct Yard {
    gateway: Process,
    port: u16,
    stub: u16,
    sites: Vec<i64>,
    accounts: usize,
}

impl Yard {
    fn start(path: &Path, scratch: &Scratch, stub: u16) -> io::Result<Self> {
        let port = free_port()?;
        let directory = scratch.fresh("growth")?;
        let program = Program {
            path: path.to_owned(),
            arguments: Vec::new(),
            environment: vec![
                ("HOST", "127.0.0.1".into()),
                ("PORT", port.to_string()),
                ("DATA_DIR", directory.join("data").display().to_string()),
                ("AUTH_TOKEN", ADMIN.into()),
                ("PROXY_TOKEN", "sk-bench-client".into()),
                ("LOG_LEVEL", "warn".into()),
                ("REQUEST_RATE_LIMIT_MAX", "1000000000".into()),
                ("AUTHENTICATED_RATE_LIMIT_MAX", "1000000000".into()),
            ],
            log: directory.join("log"),
        };
        let mut yard = Self { gateway: program.start_plainly()?, port, stub, sites: Vec::new(), accounts: 0 };
        let deadline = Instant::now() + Duration::from_secs(20);
        while !matches!(call(port, "GET", "/api/desktop/health", "", b""), Ok((200, _))) {
            yard.gateway.check()?;
            if Instant::now() > deadline {
                return Err(io::Error::other("the gateway does not answer"));
            }
            thread::sleep(Duration::from_millis(10));
        }
        Ok(yard)
    }

    /// Adds accounts up to this size and measures the last of them, then what else a row has.
    fn grow_to(&mut self, size: usize) -> io::Result<()> {
        while self.accounts + MEASURED < size {
            self.add()?;
        }
        self.wait_until_idle();
        let before = self.cpu();
        let mut adding = Vec::new();
        while self.accounts < size {
            adding.push(self.add()?);
            self.wait_until_idle();
        }
        let cpu = (self.cpu() - before) / MEASURED as u32;
        let resident = memory(self.gateway.id()).resident;
        let site = self.sites[self.sites.len() / 2];
        let renaming = (0..RENAMES).map(|number| {
            let name = json!({ "name": format!("renamed {number}") });
            self.ask("PUT", &format!("/api/sites/{site}"), &name).map(|(took, _)| took)
        });
        let renaming = renaming.collect::<io::Result<Vec<Duration>>>()?;
        let (page, _) = self.ask("GET", "/api/routes?limit=50", &Value::Null)?;
        let (all, _) = self.ask("GET", "/api/routes", &Value::Null)?;
        let ms = |took: Duration| took.as_secs_f64() * 1e3;
        println!(
            "| {size} | {:.1} | {:.1} | {:.1} | {:.1} | {:.1} | {:.1} |",
            ms(median(adding)),
            ms(cpu),
            ms(median(renaming)),
            ms(page),
            ms(all),
            resident as f64 / 1e6,
        );
        Ok(())
    }

    /// One more account, on a site of its own for every tenth.
    fn add(&mut self) -> io::Result<Duration> {
        let number = self.accounts;
        if number.is_multiple_of(PER_SITE) {
            let name = format!("site{}", number / PER_SITE);
            let url = format!("http://127.0.0.1:{}/{name}", self.stub);
            let site = json!({ "name": name, "url": url, "platform": "openai" });
            let (_, site) = self.ask("POST", "/api/sites", &site)?;
            self.sites.push(site["id"].as_i64().ok_or_else(|| io::Error::other("a site without an id"))?);
        }
        self.accounts += 1;
        let account = json!({
            "siteId": self.sites[self.sites.len() - 1],
            "accessToken": format!("sk-growth-{number:08}"),
            "credentialMode": "apikey",
        });
        self.ask("POST", "/api/accounts", &account).map(|(took, _)| took)
    }

    /// The time that an exchange took, and its answer.
    fn ask(&self, method: &str, path: &str, body: &Value) -> io::Result<(Duration, Value)> {
        let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        let began = Instant::now();
        let (status, text) = call(self.port, method, path, ADMIN, &body)
            .map_err(|fault| io::Error::other(fault.to_string()))?;
        let took = began.elapsed();
        if !(200..300).contains(&status) {
            let text = String::from_utf8_lossy(&text).into_owned();
            return Err(io::Error::other(format!("{method} {path}: {status} {text}")));
        }
        Ok((took, serde_json::from_slice(&text)?))
    }

    fn cpu(&self) -> Duration {
        cpu_time(self.gateway.id())
    }

    /// What follows an addition runs in the background.
    fn wait_until_idle(&self) {
        let mut before = self.cpu();
        loop {
            thread::sleep(Duration::from_millis(60));
            let now = self.cpu();
            if now == before {
                return;
            }
            before = now;
        }
    }
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}
