//! The life of the process: read the configuration, start, serve, and stop in reverse.
#![forbid(unsafe_code)]

use std::fmt;
use std::io;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use switchyard::app::App;
use switchyard::cli::{self, Command, Transfer};
use switchyard::config::{self, Config, ConfigResult};
use switchyard::desktop::{self, Desktop};
use switchyard::http::server::{self, ServerOptions};
use switchyard::http::tls::Tls;
use switchyard::jobs;
use switchyard::jobs::schedule::Scheduler;
use switchyard::{demo, deploy_helper, doctor, greeting, logging, open_files};
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout, timeout_at};

#[cfg(feature = "mimalloc")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The exit codes `EX_USAGE` and `EX_CONFIG` of sysexits(3).
const USAGE: u8 = 64;
const CONFIG: u8 = 78;
/// The signal for writing past `ulimit -f`, on Linux.
const SIGXFSZ: i32 = 25;
/// The time that an idle thread for blocking work waits for more. When it ends, the allocator of static builds returns
/// memory that has been free for a second, such as that of a large conversion.
const IDLE_THREAD: Duration = Duration::from_secs(3);
/// The longest time that requests in flight may delay a restart: they all belong to the former database.
const ANEW_GRACE: Duration = Duration::from_secs(3);

fn main() -> ExitCode {
    match cli::parse(std::env::args().skip(1)) {
        Ok(Command::Serve) => configured(config::from_environment(), |config| run(config, None)),
        Ok(Command::Desktop) => {
            configured(desktop::read_configuration(), |config| match desktop::listen(config) {
                Ok(Desktop { config, listener }) => run(config, Some(listener)),
                Err(message) => fail(1, &message),
            })
        }
        Ok(Command::Health) => configured(config::from_environment(), |config| match cli::health(&config) {
            Ok(()) => ExitCode::SUCCESS,
            Err(message) => fail(1, &message),
        }),
        Ok(Command::Doctor { as_json }) => {
            let report = doctor::run(config::from_environment());
            let printed = print(&if as_json { report.json() } else { report.table() });
            if report.has_failure() { ExitCode::FAILURE } else { printed }
        }
        Ok(Command::Demo) => demo::run(),
        Ok(Command::DeployHelper) => {
            configured(config::from_environment(), |config| match deploy_helper::run(&config) {
                Ok(()) => ExitCode::SUCCESS,
                Err(message) => fail(1, &message),
            })
        }
        Ok(Command::Transfer(Transfer::Help(text))) => print(text),
        Ok(Command::Transfer(task)) => {
            configured(config::from_environment(), |config| transfer(config, task))
        }
        Ok(Command::Help) => print(cli::HELP),
        Ok(Command::Version) => print(concat!("switchyard ", env!("CARGO_PKG_VERSION"), "\n")),
        Err(message) => fail(USAGE, &message),
    }
}

/// Runs the service on a given listener, or on the configured address.
fn run(config: Config, listener: Option<std::net::TcpListener>) -> ExitCode {
    if let Err(error) = logging::write_in_background() {
        return fail(1, &format!("cannot start the thread that writes the log: {error}"));
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .max_blocking_threads(32)
        .thread_keep_alive(IDLE_THREAD)
        .build();
    match runtime {
        Ok(runtime) => {
            let code = runtime.block_on(serve(config, listener));
            log::logger().flush();
            // Everything is flushed, and the process ends with this. Threads that still resolve a name, or compute,
            // would panic at their next timer if the runtime were shut down before them.
            std::mem::forget(runtime);
            code
        }
        Err(error) => fail(1, &format!("cannot start the async runtime: {error}")),
    }
}

/// Serves until a signal, then lets requests in flight end and everything reach the disk. Starts again when a reset has
/// led back to another database.
async fn serve(config: Config, listener: Option<std::net::TcpListener>) -> ExitCode {
    let is_desktop = listener.is_some();
    // With a handler installed, a write past the limit fails like one on a full disk; without one the process ends. The
    // handler stays when its stream is dropped.
    if let Err(error) = signal(SignalKind::from_raw(SIGXFSZ)) {
        log::warn!(
            "cannot handle SIGXFSZ: reaching the limit on file sizes (ulimit -f) will end the process: \
             {error}"
        );
    }
    let tls = match config.tls.clone().map(Tls::load).transpose() {
        Ok(tls) => tls.map(Arc::new),
        Err(message) => return fail(CONFIG, &message),
    };
    let config = Arc::new(config);
    let mut sources = match listener.map(TcpListener::from_std).transpose() {
        Ok(listener) => Sources { listener: listener.map(Arc::new), signals: None },
        Err(error) => return fail(1, &format!("cannot listen: {error}")),
    };
    let mut is_first = true;
    loop {
        let app = match App::start(config.clone()).await {
            Ok(app) => app,
            Err(error) => return fail(error.exit_code, &error.message),
        };
        let running = match Running::begin(app, sources, tls.clone(), !is_first).await {
            Ok(running) => running,
            Err(message) => return fail(1, &message),
        };
        if is_desktop && is_first {
            desktop::open(&running.app.core.config);
        }
        is_first = false;
        match running.until_stopped().await {
            Some(still_open) => sources = still_open,
            None => return ExitCode::SUCCESS,
        }
    }
}

/// The sockets and signals that the process listens on, kept across restarts: clients that connect in between wait, and
/// no signal is lost.
struct Sources {
    listener: Option<Arc<TcpListener>>,
    signals: Option<Signals>,
}

/// The running service.
struct Running {
    app: App,
    tls: Option<Arc<Tls>>,
    /// Handed to the next start.
    listener: Arc<TcpListener>,
    signals: Signals,
    stop: watch::Sender<bool>,
    /// Ends with the number of connections that were cut off.
    serving: JoinHandle<usize>,
    scheduler: Scheduler,
}

impl Running {
    /// Accepts connections and starts the jobs; `is_anew` says that this follows a reset.
    ///
    /// # Errors
    /// Returns a message for people, after stopping everything again.
    async fn begin(app: App, sources: Sources, tls: Option<Arc<Tls>>, is_anew: bool) -> Result<Self, String> {
        let (listener, signals) = match listen(&app.core.config, sources).await {
            Ok(listening) => listening,
            Err(message) => {
                app.stop().await;
                return Err(message);
            }
        };
        let options = ServerOptions {
            max_connections: client_connections(app.core.config.max_connections),
            header_timeout: app.core.config.request_header_timeout,
            idle_timeout: app.core.config.client_idle_timeout,
            shutdown_grace: app.core.config.shutdown_grace,
            tls: tls.clone(),
        };
        let (stop, stopping) = watch::channel(false);
        let service = app.service.clone();
        let handler_for = move |peer| {
            let service = service.of_peer(peer);
            move |request, connection| service.answer(request, connection)
        };
        let cut = {
            let core = app.core.clone();
            move || core.begin_cut()
        };
        let serving = tokio::spawn(server::serve(listener.clone(), options, handler_for, stopping, cut));
        let scheduler = jobs::start(&app.jobs);
        greeting::started(&app.core, !is_anew);
        Ok(Self { app, tls, listener, signals, stop, serving, scheduler })
    }

    /// Waits for a signal, or for a reset that leads to another database; then stops everything in reverse order. After
    /// a reset it returns the sources for the next start.
    async fn until_stopped(mut self) -> Option<Sources> {
        let cause = tokio::select! {
            signal = self.signals.stop(self.tls.as_deref()) => Some(signal),
            () = self.app.core.restart_requested() => None,
        };
        self.app.core.begin_stop();
        self.scheduler.begin_stop();
        self.stop.send_replace(true);
        self.app.core.confirm_restart();
        let Some(signal) = cause else {
            log::warn!("restarting on the default database after a factory reset");
            if timeout(ANEW_GRACE, &mut self.serving).await.is_err() {
                self.serving.abort();
            }
            self.scheduler.stop().await;
            self.app.stop().await;
            return Some(Sources { listener: Some(self.listener), signals: Some(self.signals) });
        };
        drop(self.listener);
        let (app, mut signals) = (self.app, self.signals);
        let grace = app.core.config.shutdown_grace;
        log::info!("{signal}: no new connections; requests in flight have {} s", grace.as_secs());
        let end_of_grace = Instant::now() + grace;
        tokio::spawn(async move {
            let signal = signals.stop(None).await;
            log::warn!("second signal: exiting at once");
            log::logger().flush();
            // The exit code follows the convention of shells: 128 plus the number of the signal.
            std::process::exit(128 + signal.number());
        });
        match self.serving.await {
            Ok(0) => log::info!("all requests ended"),
            Ok(cut) => log::warn!("{cut} connection(s) were cut off at the end of the grace period"),
            Err(error) => log::error!("the server ended with an error: {error}"),
        }
        // Waits for work that continues after its client has left.
        if timeout_at(end_of_grace, app.core.background.all_completed()).await.is_err() {
            log::warn!(
                "work that continued after its client had left was stopped at the end of the grace period"
            );
        }
        self.scheduler.stop().await;
        app.stop().await;
        log::info!("stopped");
        None
    }
}

/// Binds the address and listens for signals. Both are ready before the first response: a client that has seen one may
/// ask for the stop.
async fn listen(config: &Config, sources: Sources) -> Result<(Arc<TcpListener>, Signals), String> {
    let (host, port) = (config.host.as_str(), config.port);
    let bound = match sources.listener {
        Some(listener) => Ok(listener),
        None => TcpListener::bind((host, port)).await.map(Arc::new),
    };
    let listener =
        bound.map_err(|error| format!("HOST, PORT: cannot listen on {host} port {port}: {error}"))?;
    let signals = match sources.signals {
        Some(signals) => signals,
        None => Signals::listen().map_err(|error| format!("cannot listen for signals: {error}"))?,
    };
    Ok((listener, signals))
}

/// Returns the maximum number of client connections: the configured one, lowered to what the limit of open files
/// allows.
fn client_connections(wished: usize) -> usize {
    let Some(limit) = open_files::limit() else { return wished };
    let most = open_files::for_clients(limit);
    if most < wished {
        log::info!(
            "the limit of {limit} open files allows {most} client connections at once, not {wished} \
             (MAX_CONNECTIONS); raise the limit with `ulimit -n` or LimitNOFILE"
        );
    }
    wished.min(most)
}

/// Imports or exports the configuration in the data directory.
fn transfer(config: Config, task: Transfer) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    match runtime {
        Ok(runtime) => match runtime.block_on(cli::transfer(config, task)) {
            Ok(()) => ExitCode::SUCCESS,
            Err(failure) => fail(failure.code, &failure.message),
        },
        Err(error) => fail(1, &format!("cannot start the async runtime: {error}")),
    }
}

/// A signal that stops the process.
#[derive(Clone, Copy)]
enum StopSignal {
    Terminate,
    Interrupt,
}

impl StopSignal {
    fn number(self) -> i32 {
        match self {
            Self::Terminate => SignalKind::terminate().as_raw_value(),
            Self::Interrupt => SignalKind::interrupt().as_raw_value(),
        }
    }
}

impl fmt::Display for StopSignal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Terminate => "SIGTERM",
            Self::Interrupt => "SIGINT",
        })
    }
}

/// The signals that the process handles. From [`Signals::listen`] on none of them ends it by itself.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl Signals {
    fn listen() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// Waits for SIGTERM or SIGINT; meanwhile SIGHUP reloads the TLS certificate.
    async fn stop(&mut self, tls: Option<&Tls>) -> StopSignal {
        loop {
            tokio::select! {
                _ = self.terminate.recv() => return StopSignal::Terminate,
                _ = self.interrupt.recv() => return StopSignal::Interrupt,
                _ = self.hangup.recv() => match tls.map(Tls::reload) {
                    None => log::info!("SIGHUP: nothing to reload"),
                    Some(Ok(())) => log::info!("SIGHUP: TLS certificate reloaded"),
                    Some(Err(message)) => log::error!(
                        "SIGHUP: the TLS certificate was not reloaded, the old one stays in use: {message}"),
                },
            }
        }
    }
}

/// Calls `run` with the configuration, or prints every mistake in it.
fn configured(reading: ConfigResult, run: impl FnOnce(Config) -> ExitCode) -> ExitCode {
    match reading {
        Ok((config, warnings)) => {
            logging::init(config.log_level);
            for warning in warnings {
                log::warn!("{warning}");
            }
            run(config)
        }
        Err(errors) => {
            for error in &errors {
                eprintln!("switchyard: {error}");
            }
            fail(CONFIG, &format!("{} mistake(s) in the configuration; nothing was started", errors.len()))
        }
    }
}

fn fail(code: u8, message: &str) -> ExitCode {
    log::logger().flush();
    eprintln!("switchyard: {message}");
    ExitCode::from(code)
}

fn print(text: &str) -> ExitCode {
    match cli::print(text) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => fail(failure.code, &failure.message),
    }
}
