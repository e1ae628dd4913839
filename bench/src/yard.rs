//! A gateway that is filled through its admin API with a stub's sites and accounts on them.

use std::convert::Infallible;
use std::io;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use serde_json::{Value, json};
use switchyard::idle_thread::run_on_idle_thread;

use crate::load::quantile;
use crate::payload::CLIENT_KEY;
use crate::process::{Memory, Process, Program, Scratch, cpu_time, free_port, memory};
use crate::serve::{Whole, serve};
use crate::wire::{call, call_within};

const ADMIN: &str = "bench-admin-token";
/// The number of accounts per site.
pub const PER_SITE: usize = 10;
/// The longest wait for an answer, enough for a refresh of all accounts.
const PATIENCE: Duration = Duration::from_secs(120);

/// Starts the upstream of every site on a thread of its own and returns its port.
///
/// # Errors
/// Fails when no port is free.
pub fn upstream<F>(respond: fn(Request<Incoming>) -> F) -> io::Result<u16>
where
    F: Future<Output = Result<Response<Whole>, Infallible>> + Send + 'static,
{
    let port = free_port()?;
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(serve(port, service_fn(respond)))
    });
    Ok(port)
}

/// Does what another machine would do, on a thread that gives way to all others, so that its share of this machine does not
/// count against the gateway.
///
/// # Errors
/// Fails when the system provides no thread.
pub fn elsewhere<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    runtime.block_on(run_on_idle_thread(work)).map_err(|error| io::Error::other(error.to_string()))
}

/// A running gateway with its sites and accounts.
pub struct Yard {
    gateway: Process,
    port: u16,
    stub: u16,
    sites: Vec<i64>,
    accounts: usize,
}

/// A client of a gateway's admin API.
#[derive(Clone, Copy)]
pub struct Admin {
    port: u16,
}

impl Yard {
    /// Starts a gateway without sites; its later sites are paths of the stub.
    pub fn start(path: &Path, scratch: &Scratch, stub: u16) -> io::Result<Self> {
        Self::start_in(path, &scratch.fresh("yard")?, stub, Vec::new())
    }

    /// Does what [`Yard::start`] does, in a directory that an earlier gateway may have used, and with further variables.
    pub fn start_in(
        path: &Path,
        directory: &Path,
        stub: u16,
        variables: Vec<(&'static str, String)>,
    ) -> io::Result<Self> {
        let port = free_port()?;
        let mut program = Program {
            path: path.to_owned(),
            arguments: Vec::new(),
            environment: vec![
                ("HOST", "127.0.0.1".into()),
                ("PORT", port.to_string()),
                ("DATA_DIR", directory.join("data").display().to_string()),
                ("AUTH_TOKEN", ADMIN.into()),
                ("PROXY_TOKEN", CLIENT_KEY.into()),
                ("LOG_LEVEL", "warn".into()),
                ("REQUEST_RATE_LIMIT_MAX", "1000000000".into()),
                ("AUTHENTICATED_RATE_LIMIT_MAX", "1000000000".into()),
            ],
            log: directory.join("log"),
        };
        program.environment.extend(variables);
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

    /// Adds an account, with a new site for every tenth; returns how long its creation took.
    pub fn add(&mut self) -> io::Result<Duration> {
        let (number, admin) = (self.accounts, self.admin());
        if number.is_multiple_of(PER_SITE) {
            let name = format!("site{}", number / PER_SITE);
            let url = format!("http://127.0.0.1:{}/{name}", self.stub);
            let site = json!({ "name": name, "url": url, "platform": "openai" });
            let (_, site) = admin.ask("POST", "/api/sites", &site)?;
            self.sites.push(site["id"].as_i64().ok_or_else(|| io::Error::other("a site without an id"))?);
        }
        self.accounts += 1;
        let account = json!({
            "siteId": self.sites[self.sites.len() - 1],
            "accessToken": format!("sk-bench-{number:08}"),
            "credentialMode": "apikey",
        });
        admin.ask("POST", "/api/accounts", &account).map(|(took, _)| took)
    }

    pub fn accounts(&self) -> usize {
        self.accounts
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn admin(&self) -> Admin {
        Admin { port: self.port }
    }

    /// Returns the site in the middle of the list.
    pub fn a_site(&self) -> i64 {
        self.sites[self.sites.len() / 2]
    }

    pub fn cpu(&self) -> Duration {
        cpu_time(self.gateway.id())
    }

    pub fn memory(&self) -> Memory {
        memory(self.gateway.id())
    }

    /// Waits until the background work that follows a change is over.
    pub fn wait_until_idle(&self) {
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

impl Admin {
    /// Sends a request; returns the time it took, and the answer.
    pub fn ask(self, method: &str, path: &str, body: &Value) -> io::Result<(Duration, Value)> {
        let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        let (took, text) = self.send(method, path, &body)?;
        Ok((took, serde_json::from_slice(&text)?))
    }

    /// Sends a request; returns the time it took, and the answer unparsed.
    pub fn send(self, method: &str, path: &str, body: &[u8]) -> io::Result<(Duration, Vec<u8>)> {
        let began = Instant::now();
        let (status, text) = call_within(PATIENCE, self.port, method, path, ADMIN, body)
            .map_err(|fault| io::Error::other(fault.to_string()))?;
        let took = began.elapsed();
        if !(200..300).contains(&status) {
            let text = String::from_utf8_lossy(&text).into_owned();
            return Err(io::Error::other(format!("{method} {path}: {status} {text}")));
        }
        Ok((took, text))
    }

    /// Renames a site; returns the time it took.
    pub fn rename(self, site: i64, number: usize) -> io::Result<Duration> {
        let name = json!({ "name": format!("renamed {number}") });
        self.ask("PUT", &format!("/api/sites/{site}"), &name).map(|(took, _)| took)
    }
}

pub fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

pub fn ms(took: Duration) -> f64 {
    took.as_secs_f64() * 1e3
}

/// Returns by how many percent the busy figures exceed the quiet ones, as the median and for each round. Both were measured
/// under the same conditions, and whatever slows a round down slows both.
pub fn behind(quiet: &[f64], busy: &[f64]) -> (f64, Vec<f64>) {
    let rounds: Vec<f64> = quiet.iter().zip(busy).map(|(quiet, busy)| 100.0 * (busy / quiet - 1.0)).collect();
    let mut ascending = rounds.clone();
    ascending.sort_unstable_by(f64::total_cmp);
    (quantile(&ascending, 0.5).unwrap_or_default(), rounds)
}

/// Formats a line of the list of targets.
pub fn verdict(target: &str, limit: f64, measured: f64) -> String {
    let word = if measured <= limit { "met" } else { "missed" };
    format!("- {word}: {target}: {measured:.1}")
}
