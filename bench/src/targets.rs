//! Starts, sets up and stops each target.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::time::sleep;

use crate::payload::{CLIENT_KEY, MANAGED_KEY, MODEL, STREAM_CHUNKS, UPSTREAM_KEY, chat_request, stream};
use crate::process::{Memory, Process, Program, Scratch, free_port, memory};
use crate::wire::{Expected, call};

const ADMIN_TOKEN: &str = "bench-admin-token";
const START_TIMEOUT: Duration = Duration::from_secs(10);
/// The longest wait from an account's creation until its models are offered.
const DISCOVERY_TIMEOUT: Duration = Duration::from_secs(30);
const SITES: usize = 100;
const ACCOUNTS_PER_SITE: usize = 10;

/// The program between the load and the stub.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    Gateway,
    BareLazy,
    BareRaw,
    Nginx,
    /// No program: the rest is the cost of load and stub.
    Direct,
    /// The gateway with a managed key that has limits, a limit of the site, and conversations that stay on their channel.
    Managed,
    /// The gateway in front of a site that speaks messages only, asked by clients that speak chat.
    Converted,
    /// The gateway with its state in a server database.
    Shared,
    /// The gateway with a thousand accounts on a hundred sites, whose balances it reads again and again.
    Keeping,
}

impl Kind {
    /// The targets that stay ready during a whole run.
    pub const ALL: [Self; 7] = [
        Self::Gateway,
        Self::BareLazy,
        Self::BareRaw,
        Self::Nginx,
        Self::Direct,
        Self::Managed,
        Self::Converted,
    ];

    /// Returns whether this is a way to run the gateway that is measured beside the plain one.
    pub fn is_variant(self) -> bool {
        matches!(self, Self::Managed | Self::Converted | Self::Shared | Self::Keeping)
    }

    pub fn is_gateway(self) -> bool {
        self == Self::Gateway || self.is_variant()
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Gateway => "gateway",
            Self::BareLazy => "bare-lazy",
            Self::BareRaw => "bare-raw",
            Self::Nginx => "nginx",
            Self::Direct => "direct",
            Self::Managed => "managed",
            Self::Shared => "shared",
            Self::Keeping => "keeping",
            Self::Converted => "converted",
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Returns the path and key of the first request to a fresh process.
    fn first_request(self) -> (&'static str, &'static str) {
        match self {
            kind if kind.is_gateway() => ("/api/desktop/health", ADMIN_TOKEN),
            _ => ("/v1/models", CLIENT_KEY),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(self.name())
    }
}

/// The programs, and the stub in front of which all targets are started.
pub struct Yard {
    pub scratch: Scratch,
    /// The directory of the bench's own programs.
    programs: PathBuf,
    /// The gateway's binary, if it is among the targets.
    gateway: Option<PathBuf>,
    /// The address of an empty database, for the gateway that keeps its state there.
    database: Option<String>,
    stub_port: u16,
    _stub: Process,
}

impl Yard {
    /// Creates a scratch directory and starts the stub.
    pub async fn open(gateway: Option<PathBuf>, database: Option<String>) -> io::Result<Self> {
        let scratch = Scratch::new()?;
        let this = std::env::current_exe()?;
        let programs = this.parent().unwrap_or(Path::new(".")).to_owned();
        let stub_port = free_port()?;
        let stub = Program {
            path: programs.join("stub"),
            arguments: vec![stub_port.to_string()],
            environment: Vec::new(),
            log: scratch.path().join("stub.log"),
        };
        let mut stub = stub.start()?;
        until_answered(&mut stub, stub_port, "/v1/models", UPSTREAM_KEY).await?;
        Ok(Self { scratch, programs, gateway, database, stub_port, _stub: stub })
    }

    /// Starts a target with an empty directory and sets it up, so that chat requests pass.
    pub async fn start(&self, kind: Kind) -> io::Result<Target> {
        if kind == Kind::Direct {
            let port = self.stub_port;
            let key = UPSTREAM_KEY;
            return Ok(Target { kind, port, key, stream: stream(), process: None, idle: Memory::default() });
        }
        let (mut process, port) = self.launch(kind)?;
        let (path, key) = kind.first_request();
        until_answered(&mut process, port, path, key).await?;
        if kind.is_gateway() {
            self.set_up_gateway(kind, port).await?;
        }
        let key = if kind == Kind::Managed { MANAGED_KEY } else { CLIENT_KEY };
        let stream = if kind == Kind::Converted { converted_stream(port)? } else { stream() };
        Ok(Target { kind, port, key, stream, process: Some(process), idle: Memory::default() })
    }

    /// Starts a target with an empty directory, sends it nothing, and returns it with its port.
    pub fn launch(&self, kind: Kind) -> io::Result<(Process, u16)> {
        let port = free_port()?;
        let directory = self.scratch.fresh(&format!("{kind}-{port}"))?;
        Ok((self.program(kind, port, &directory)?.start()?, port))
    }

    /// Returns the size of a target's binary, in bytes.
    pub fn size(&self, kind: Kind) -> Option<u64> {
        let path = match kind {
            Kind::Direct => return None,
            Kind::Nginx => nginx_path()?,
            Kind::BareLazy | Kind::BareRaw => self.programs.join(kind.name()),
            Kind::Gateway | Kind::Managed | Kind::Converted | Kind::Shared | Kind::Keeping => {
                self.gateway.clone()?
            }
        };
        fs::metadata(path).ok().map(|file| file.len())
    }

    /// Measures how long a fresh process with an empty directory takes to its first answer.
    pub fn cold_start(&self, kind: Kind, round: usize) -> io::Result<Duration> {
        let port = free_port()?;
        let directory = self.scratch.fresh(&format!("{kind}-cold-{round}"))?;
        let program = self.program(kind, port, &directory)?;
        let (path, key) = kind.first_request();
        let started = Instant::now();
        let mut process = program.start_plainly()?;
        while !is_answered(port, path, key) {
            process.check()?;
            if started.elapsed() > START_TIMEOUT {
                return Err(io::Error::other(format!("{kind} did not answer in {START_TIMEOUT:?}")));
            }
            thread::sleep(Duration::from_micros(200));
        }
        Ok(started.elapsed())
    }

    /// Runs a program of the bench to its end and returns its output.
    pub fn run(&self, name: &str) -> io::Result<String> {
        let output = Command::new(self.programs.join(name)).arg(self.scratch.fresh(name)?).output()?;
        if !output.status.success() {
            return Err(io::Error::other(format!("{name}: {}", String::from_utf8_lossy(&output.stderr))));
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    fn program(&self, kind: Kind, port: u16, directory: &Path) -> io::Result<Program> {
        let mut program = Program {
            path: self.programs.join(kind.name()),
            arguments: vec![port.to_string(), self.stub_port.to_string()],
            environment: Vec::new(),
            log: directory.join("output.log"),
        };
        match kind {
            Kind::BareRaw | Kind::Direct => {}
            Kind::BareLazy => program.arguments.push(directory.display().to_string()),
            Kind::Nginx => {
                fs::write(directory.join("nginx.conf"), nginx_config(port, self.stub_port, directory))?;
                program.path = nginx_path().ok_or_else(|| io::Error::other("nginx is not installed"))?;
                let directory = directory.display();
                program.arguments = ["-p", &format!("{directory}/"), "-c", "nginx.conf", "-e", "error.log"]
                    .map(str::to_owned)
                    .to_vec();
            }
            Kind::Gateway | Kind::Managed | Kind::Converted | Kind::Shared | Kind::Keeping => {
                program.path =
                    self.gateway.clone().ok_or_else(|| io::Error::other("the gateway was not built"))?;
                program.arguments.clear();
                program.environment = vec![
                    ("HOST", "127.0.0.1".into()),
                    ("PORT", port.to_string()),
                    ("DATA_DIR", directory.join("data").display().to_string()),
                    ("AUTH_TOKEN", ADMIN_TOKEN.into()),
                    ("PROXY_TOKEN", CLIENT_KEY.into()),
                    ("LOG_LEVEL", "warn".into()),
                    ("REQUEST_RATE_LIMIT_MAX", "1000000000".into()),
                    ("AUTHENTICATED_RATE_LIMIT_MAX", "1000000000".into()),
                ];
                if let (Kind::Shared, Some(url)) = (kind, &self.database) {
                    program.environment.extend(on_server(url));
                }
                if kind == Kind::Keeping {
                    let always = [("BALANCE_REFRESH_CRON", "* * * * * *"), ("SCHEDULE_JITTER_MAX_MS", "0")];
                    program.environment.extend(always.map(|(name, value)| (name, value.to_owned())));
                }
            }
        }
        Ok(program)
    }

    /// Adds one site and one account, as an operator would.
    async fn set_up_gateway(&self, kind: Kind, port: u16) -> io::Result<()> {
        let url = format!("http://127.0.0.1:{}", self.stub_port);
        let platform = if kind == Kind::Converted { "claude" } else { "openai" };
        let mut site = json!({ "name": "bench", "url": url, "platform": platform });
        if kind == Kind::Managed {
            site["maxConcurrency"] = json!(1000);
            let limits = json!({
                "name": "bench", "key": MANAGED_KEY, "supportedModels": [MODEL],
                "maxCost": 1_000_000_000, "maxRequests": 1_000_000_000,
            });
            admin(port, "/api/downstream-keys", &limits)?;
        }
        let site = admin(port, "/api/sites", &site)?;
        let account =
            json!({ "siteId": site["id"], "accessToken": UPSTREAM_KEY, "credentialMode": "apikey" });
        admin(port, "/api/accounts", &account)?;
        let deadline = Instant::now() + DISCOVERY_TIMEOUT;
        loop {
            let (status, body) = call(port, "GET", "/v1/models", CLIENT_KEY, b"").map_err(to_io)?;
            let list: Value = serde_json::from_slice(&body).unwrap_or_default();
            let offered =
                list["data"].as_array().is_some_and(|models| models.iter().any(|model| model["id"] == MODEL));
            if status == 200 && offered {
                break;
            }
            if Instant::now() > deadline {
                let body = String::from_utf8_lossy(&body);
                return Err(io::Error::other(format!("the gateway does not offer {MODEL}: {status} {body}")));
            }
            sleep(Duration::from_millis(50)).await;
        }
        if kind == Kind::Keeping { self.add_many_accounts(port) } else { Ok(()) }
    }

    /// Adds many sites, each with an address of its own that leads to the stub, and their accounts.
    fn add_many_accounts(&self, port: u16) -> io::Result<()> {
        for number in 0..SITES {
            let url = format!("http://127.0.0.1:{}/sites/{number}", self.stub_port);
            let site = json!({ "name": format!("site {number}"), "url": url, "platform": "new-api" });
            let site = admin(port, "/api/sites", &site)?;
            for user in 1..=ACCOUNTS_PER_SITE {
                let account = json!({
                    "siteId": site["id"], "accessToken": UPSTREAM_KEY, "platformUserId": user,
                    "credentialMode": "session", "skipModelFetch": true, "checkinEnabled": false,
                });
                admin(port, "/api/accounts", &account)?;
            }
        }
        Ok(())
    }
}

/// Returns the environment variables of a gateway whose state is in a server database.
pub fn on_server(url: &str) -> [(&'static str, String); 2] {
    let kind = url.split_once("://").map_or("postgres", |(kind, _)| kind);
    [("DB_TYPE", kind.to_owned()), ("DB_URL", url.to_owned())]
}

/// A running target.
pub struct Target {
    pub kind: Kind,
    pub port: u16,
    /// The key that the target expects.
    pub key: &'static str,
    /// The expected stream.
    pub stream: Expected,
    process: Option<Process>,
    /// The memory after the first answer.
    pub idle: Memory,
}

impl Target {
    pub fn id(&self) -> Option<u32> {
        self.process.as_ref().map(Process::id)
    }

    pub fn memory(&self) -> Option<Memory> {
        self.id().map(memory)
    }

    /// Fails if the target's process has died.
    pub fn check(&mut self) -> io::Result<()> {
        let kind = self.kind;
        let Some(process) = &mut self.process else { return Ok(()) };
        process.check().map_err(|failed| io::Error::other(format!("{kind}: {failed}")))
    }
}

/// Returns the stream that a chat client gets for the stub's messages stream: the first one is checked, the others are
/// compared with it.
fn converted_stream(port: u16) -> io::Result<Expected> {
    let request = chat_request(MODEL, true, 1 << 10);
    let (status, body) = call(port, "POST", "/v1/chat/completions", CLIENT_KEY, &request).map_err(to_io)?;
    let text = String::from_utf8_lossy(&body);
    let deltas = text.matches(" sleeper ").count();
    let first_delta = text.find(" sleeper 1\"").and_then(|at| Some(at + text[at..].find("\n\n")? + 2));
    match first_delta {
        Some(first_delta)
            if status == 200 && deltas == STREAM_CHUNKS - 3 && text.ends_with("data: [DONE]\n\n") =>
        {
            Ok(Expected { body: body.leak(), first_delta, digits_vary: true })
        }
        _ => {
            Err(io::Error::other(format!("the stream was not converted: {status}, {deltas} deltas, {text}")))
        }
    }
}

fn is_answered(port: u16, path: &str, key: &str) -> bool {
    matches!(call(port, "GET", path, key, b""), Ok((200, _)))
}

async fn until_answered(process: &mut Process, port: u16, path: &str, key: &str) -> io::Result<()> {
    let deadline = Instant::now() + START_TIMEOUT;
    while !is_answered(port, path, key) {
        process.check()?;
        if Instant::now() > deadline {
            return Err(io::Error::other(format!("no answer to GET {path} in {START_TIMEOUT:?}")));
        }
        sleep(Duration::from_millis(5)).await;
    }
    Ok(())
}

fn admin(port: u16, path: &str, body: &Value) -> io::Result<Value> {
    let (status, answer) =
        call(port, "POST", path, ADMIN_TOKEN, body.to_string().as_bytes()).map_err(to_io)?;
    if !(200..300).contains(&status) {
        let answer = String::from_utf8_lossy(&answer);
        return Err(io::Error::other(format!("POST {path}: {status} {answer}")));
    }
    serde_json::from_slice(&answer).map_err(io::Error::other)
}

fn to_io(fault: crate::wire::Fault) -> io::Error {
    io::Error::other(fault.to_string())
}

fn nginx_path() -> Option<PathBuf> {
    ["/usr/sbin/nginx", "/usr/bin/nginx", "/usr/local/sbin/nginx"]
        .into_iter()
        .map(PathBuf::from)
        .find(|path| path.exists())
}

/// Installs nginx on Debian if it is missing; returns whether it is there afterwards.
pub fn ensure_nginx() -> bool {
    if nginx_path().is_none() {
        eprintln!("installing nginx");
        // Runlevel 1 keeps the package from starting its own server.
        let install = "apt-get update -qq && apt-get install -y -qq --no-install-recommends nginx-light || \
                       apt-get install -y -qq --no-install-recommends nginx";
        let status = Command::new("sh")
            .args(["-c", install])
            .env("RUNLEVEL", "1")
            .env("DEBIAN_FRONTEND", "noninteractive")
            .stdout(io::stderr())
            .status();
        if let Err(failed) = status {
            eprintln!("apt-get: {failed}");
        }
    }
    nginx_path().is_some()
}

/// Builds a configuration in which answers are unbuffered, as a gateway's streams must be; requests are first read whole,
/// into memory.
fn nginx_config(port: u16, stub_port: u16, directory: &Path) -> String {
    let directory = directory.display();
    format!(
        "\
daemon off;
user root;
worker_processes auto;
pid {directory}/nginx.pid;
events {{ worker_connections 4096; }}
http {{
    access_log off;
    client_body_temp_path {directory}/body;
    proxy_temp_path {directory}/proxy;
    fastcgi_temp_path {directory}/fastcgi;
    scgi_temp_path {directory}/scgi;
    uwsgi_temp_path {directory}/uwsgi;
    client_max_body_size 50m;
    client_body_buffer_size 2m;
    keepalive_timeout 300s;
    keepalive_requests 1000000000;
    tcp_nodelay on;
    upstream stub {{
        server 127.0.0.1:{stub_port};
        keepalive 512;
        keepalive_timeout 300s;
        keepalive_requests 1000000000;
    }}
    server {{
        listen 127.0.0.1:{port} backlog=1024;
        location / {{
            proxy_pass http://stub;
            proxy_http_version 1.1;
            proxy_buffering off;
            proxy_set_header Connection \"\";
            proxy_set_header Authorization \"Bearer {UPSTREAM_KEY}\";
        }}
    }}
}}
"
    )
}
