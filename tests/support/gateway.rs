//! Runs the gateway as a process: the real binary on a free port, with its own directory.

use std::collections::BTreeMap;
use std::io::Read;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::database::{Database, ServerDatabase};
use super::http::{Caller, Request};
use super::{SOON, eventually, eventually_within};

pub const ADMIN_TOKEN: &str = "admin-token-of-the-tests-4f1c";
pub const PROXY_TOKEN: &str = "sk-proxy-token-of-the-tests-9b2e";
const CREDENTIAL_SECRET: &str = "credential-secret-of-the-tests-77aa";

/// A directory that is removed with its last holder, and a database of its own if tests run on a server. It outlives a
/// gateway, which can be started in it again.
pub struct Home {
    path: PathBuf,
    server: Option<ServerDatabase>,
}

/// The environment in which a gateway is started.
#[derive(Clone)]
pub struct Setup {
    variables: BTreeMap<String, String>,
    /// The shell command that sets limits before the gateway runs: `ulimit -n 64`.
    limits: Option<&'static str>,
}

/// A running gateway; killed when dropped.
pub struct Gateway {
    child: Child,
    address: SocketAddr,
    output: Arc<Mutex<String>>,
    setup: Setup,
    home: Arc<Home>,
}

// === impl Home ===

impl Home {
    pub fn new() -> Arc<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name =
            format!("switchyard-test-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        // A killed run leaves its directory behind, and process ids are reused.
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).expect("a temporary directory");
        Arc::new(Self { path, server: ServerDatabase::create() })
    }

    pub fn data_dir(&self) -> PathBuf {
        self.path.join("data")
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the server database that the gateway uses, if tests run on a server.
    pub fn server(&self) -> Option<&ServerDatabase> {
        self.server.as_ref()
    }

    /// Opens the gateway's database, also while the gateway runs.
    pub fn database(&self) -> Database {
        match &self.server {
            Some(server) => server.open(),
            None => Database::file(self.data_dir().join("switchyard.db")),
        }
    }

    /// Returns the size of the rows that an import has staged; `None` if nothing is staged.
    pub fn staged(&self) -> Option<u64> {
        let mut entries = std::fs::read_dir(self.data_dir()).ok()?.flatten();
        let directory = entries.find(|entry| entry.file_name().to_string_lossy().starts_with(".import-"))?;
        Some(directory.path().join("rows.db").metadata().map_or(0, |file| file.len()))
    }

    /// Returns every file below `DATA_DIR` with its bytes, and every table of a database that is elsewhere.
    pub fn files(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let mut files: Vec<(PathBuf, Vec<u8>)> = match &self.server {
            Some(server) => {
                server.open().contents().into_iter().map(|(name, text)| (name.into(), text.into())).collect()
            }
            None => Vec::new(),
        };
        let mut folders = vec![self.data_dir()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
                let path = entry.path();
                if path.is_dir() {
                    folders.push(path);
                } else if let Ok(bytes) = std::fs::read(&path) {
                    files.push((path, bytes));
                }
            }
        }
        files
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

// === impl Setup ===

impl Default for Setup {
    fn default() -> Self {
        let variables = [
            ("AUTH_TOKEN", ADMIN_TOKEN),
            ("PROXY_TOKEN", PROXY_TOKEN),
            ("ACCOUNT_CREDENTIAL_SECRET", CREDENTIAL_SECRET),
            ("HOST", "127.0.0.1"),
            // Waiting for a condition sends many requests; tests of the limits set their own.
            ("REQUEST_RATE_LIMIT_MAX", "1000000"),
            ("AUTHENTICATED_RATE_LIMIT_MAX", "1000000"),
        ];
        let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
        Self { variables: variables.into_iter().map(owned).collect(), limits: None }
    }
}

impl Setup {
    /// Creates a setup without any variable: every default, as on a fresh machine.
    pub fn blank() -> Self {
        Self { variables: BTreeMap::new(), limits: None }
    }

    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.variables.insert(name.to_owned(), value.to_owned());
        self
    }

    /// Uses the SQLite file of the directory, even if tests run on a server.
    pub fn on_sqlite(self) -> Self {
        self.with("DB_TYPE", "sqlite").with("DB_URL", "")
    }

    pub fn without(mut self, name: &str) -> Self {
        self.variables.remove(name);
        self
    }

    /// Sets system limits with a shell command: `ulimit -n 64`.
    pub fn limited(mut self, limits: &'static str) -> Self {
        self.limits = Some(limits);
        self
    }

    pub fn start(self) -> Gateway {
        self.start_in(Home::new())
    }

    /// Starts the gateway in a directory that may already hold data, and waits until it answers.
    pub fn start_in(self, home: Arc<Home>) -> Gateway {
        let mut said = String::new();
        for _ in 0..3 {
            let port = free_port();
            match self.clone().start_on(port, Arc::clone(&home)) {
                Ok(gateway) => return gateway,
                // Another process took the port between our check and the gateway's bind.
                Err(output) if output.to_lowercase().contains("in use") => said = output,
                Err(output) => panic!("the gateway did not start:\n{output}"),
            }
        }
        panic!("no free port in three tries:\n{said}");
    }

    fn start_on(self, port: u16, home: Arc<Home>) -> Result<Gateway, String> {
        let mut command = self.command(&home, &[]);
        command.env("PORT", port.to_string());
        let mut child = command.spawn().expect("the binary runs");
        let output = Arc::new(Mutex::new(String::new()));
        collect(child.stdout.take(), &output);
        collect(child.stderr.take(), &output);
        let mut gateway =
            Gateway { child, address: SocketAddr::from(([127, 0, 0, 1], port)), output, setup: self, home };
        let ready = eventually_within(SOON * 2, "the gateway answers or ends", || {
            if let Ok(Some(_)) = gateway.child.try_wait() {
                return Some(false);
            }
            (gateway.serves() && gateway.answers()).then_some(true)
        });
        if ready {
            return Ok(gateway);
        }
        gateway.wait_for_exit();
        Err(gateway.output())
    }

    /// Returns the command that runs `switchyard` in this directory.
    pub fn command(&self, home: &Home, arguments: &[&str]) -> Command {
        let other = other_binary();
        let binary = other.as_deref().unwrap_or(Path::new(env!("CARGO_BIN_EXE_switchyard")));
        let mut command = match self.limits {
            None => Command::new(binary),
            Some(limits) => {
                let mut shell = Command::new("sh");
                shell.args(["-c", &format!("{limits} && exec \"$0\" \"$@\"")]).arg(binary);
                shell
            }
        };
        command
            .args(arguments)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("DATA_DIR", home.data_dir())
            .envs(
                home.server
                    .iter()
                    .flat_map(|server| [("DB_TYPE", server.kind().to_owned()), ("DB_URL", server.url())]),
            )
            .envs(&self.variables)
            .current_dir(home.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }
}

/// The exit status and output of a run that ended by itself.
pub struct Finished {
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
}

/// Runs `switchyard` with these arguments to its end.
#[track_caller]
pub fn run(setup: &Setup, home: &Home, arguments: &[&str]) -> Finished {
    run_with(setup, home, arguments, Stdio::null())
}

/// Runs `switchyard` to its end with this standard input.
#[track_caller]
pub fn run_with(setup: &Setup, home: &Home, arguments: &[&str], input: impl Into<Stdio>) -> Finished {
    let mut child = setup.command(home, arguments).stdin(input).spawn().expect("it runs");
    let (stdout, stderr) = (Arc::default(), Arc::default());
    let readers = [collect(child.stdout.take(), &stdout), collect(child.stderr.take(), &stderr)];
    let limit = SOON * 2;
    let deadline = Instant::now() + limit;
    let status = loop {
        if let Some(status) = child.try_wait().expect("a child") {
            break status;
        }
        if Instant::now() > deadline {
            let _ = child.kill();
            let _ = child.wait();
            panic!("`switchyard {arguments:?}` did not end within {limit:?}");
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    for reader in readers.into_iter().flatten() {
        let _ = reader.join();
    }
    let text = |buffer: &Mutex<String>| buffer.lock().expect("no panic there").clone();
    Finished { status, stdout: text(&stdout), stderr: text(&stderr) }
}

// === impl Gateway ===

impl Gateway {
    /// Starts a gateway with the tests' tokens and every other default.
    pub fn start() -> Self {
        Setup::default().start()
    }

    /// Starts a gateway with these further variables.
    pub fn with(variables: &[(&str, &str)]) -> Self {
        let setup = variables.iter();
        setup.fold(Setup::default(), |setup, (name, value)| setup.with(name, value)).start()
    }

    /// Returns whether it has logged that it serves: another test's gateway may have taken the port first. A gateway with
    /// another log level is assumed to serve.
    fn serves(&self) -> bool {
        self.setup.variables.contains_key("LOG_LEVEL") || self.output().contains(" serves on ")
    }

    /// Returns whether it is ready, according to its health endpoint; behind TLS, whether it accepts connections.
    fn answers(&self) -> bool {
        if self.setup.variables.contains_key("TLS_CERT_FILE") {
            return std::net::TcpStream::connect(self.address).is_ok();
        }
        let answer = self.anyone().try_send(Request::new("GET", "/api/desktop/health"));
        answer.is_ok_and(|answer| answer.status == 200)
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns a caller with the admin token.
    pub fn admin(&self) -> Caller {
        let token = self.setup.variables.get("AUTH_TOKEN");
        self.with_token(token.map_or("change-me-admin-token", String::as_str))
    }

    /// Returns a caller with the downstream token.
    pub fn client(&self) -> Caller {
        let token = self.setup.variables.get("PROXY_TOKEN");
        self.with_token(token.map_or("change-me-proxy-sk-token", String::as_str))
    }

    /// Returns a caller with this token.
    pub fn with_token(&self, token: &str) -> Caller {
        self.anyone().with("authorization", &format!("Bearer {token}"))
    }

    /// Returns a caller without a token.
    pub fn anyone(&self) -> Caller {
        Caller::new(self.address)
    }

    pub fn home(&self) -> &Arc<Home> {
        &self.home
    }

    /// Returns all output so far.
    pub fn output(&self) -> String {
        self.output.lock().expect("no panic there").clone()
    }

    /// Waits until the output contains `text`.
    #[track_caller]
    pub fn wait_for_output(&self, text: &str) {
        eventually(&format!("it prints {text:?}"), || self.output().contains(text).then_some(()));
    }

    /// Kills it with `kill -9`, so that it cannot flush anything.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Sends a signal: `TERM`, `INT`, `HUP`, ….
    pub fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        let done = Command::new("kill").args(["-s", name, &pid]).status();
        assert!(done.expect("`kill` runs").success(), "kill -s {name} {pid}");
    }

    /// Lets it write nothing beyond this size of a file, as on a full disk: `1`, or `unlimited`.
    pub fn limit_file_size(&self, bytes: &str) {
        let (pid, limit) = (self.child.id().to_string(), format!("--fsize={bytes}:"));
        let done = Command::new("prlimit").args(["--pid", &pid, &limit]).status();
        assert!(done.expect("`prlimit` runs").success(), "prlimit --pid {pid} {limit}");
    }

    /// Makes it exit by itself, with the second signal without waiting for its requests: an instrumented build writes its
    /// counts at exit.
    fn hurry(&mut self) {
        let deadline = Instant::now() + SOON;
        while self.is_running() && Instant::now() < deadline {
            self.signal("TERM");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    #[track_caller]
    pub fn wait_for_exit(&mut self) -> ExitStatus {
        let child = &mut self.child;
        eventually_within(SOON * 2, "the process ends", || child.try_wait().ok()?)
    }

    /// Kills it and starts it again on the same data.
    pub fn restart(mut self) -> Self {
        self.kill();
        let (setup, home) = (self.setup.clone(), Arc::clone(&self.home));
        drop(self);
        setup.start_in(home)
    }

    /// Returns the resident memory in KiB.
    pub fn resident_kib(&self) -> u64 {
        self.status_kib("VmRSS:")
    }

    /// Returns the peak of resident memory in KiB.
    pub fn peak_resident_kib(&self) -> u64 {
        self.status_kib("VmHWM:")
    }

    /// Reads a field of `/proc/PID/status`, in KiB.
    fn status_kib(&self, name: &str) -> u64 {
        let path = format!("/proc/{}/status", self.child.id());
        let status = std::fs::read_to_string(path).expect("a running process");
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let number = line.and_then(|line| line.split_whitespace().next());
        number.and_then(|n| n.parse().ok()).unwrap_or_else(|| panic!("{name} in kB"))
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        // Under system limits, it might be unable to write its counts.
        if other_binary().is_some() && self.setup.limits.is_none() {
            self.hurry();
        }
        self.kill();
        if std::thread::panicking() {
            eprintln!("--- the gateway said:\n{}\n---", self.output());
        }
    }
}

/// Returns `SWITCHYARD_BINARY`, the program to test instead of this build's own, such as the static one.
fn other_binary() -> Option<PathBuf> {
    let path = std::env::var_os("SWITCHYARD_BINARY").filter(|path| !path.is_empty())?;
    Some(std::path::absolute(path).expect("a path"))
}

/// Returns a port that nobody listens on at present.
pub fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("an address").port()
}

/// Copies a pipe's output into `buffer`, on a thread that ends with the pipe.
fn collect(
    pipe: Option<impl Read + Send + 'static>,
    buffer: &Arc<Mutex<String>>,
) -> Option<std::thread::JoinHandle<()>> {
    let (mut pipe, buffer) = (pipe?, Arc::clone(buffer));
    Some(std::thread::spawn(move || {
        let mut bytes = [0; 8192];
        while let Ok(read @ 1..) = pipe.read(&mut bytes) {
            let text = String::from_utf8_lossy(&bytes[..read]);
            buffer.lock().expect("no panic there").push_str(&text);
        }
    }))
}
