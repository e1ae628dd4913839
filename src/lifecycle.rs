//! The running service: it listens, answers and runs its jobs until a signal or a reset, and stops in reverse order.

mod greeting;

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};

use crate::app::App;
use crate::config::Config;
use crate::http::server::{self, ServerOptions};
use crate::http::tls::Tls;
use crate::jobs;
use crate::jobs::schedule::Scheduler;
use crate::open_files;

/// The signal for writing past `ulimit -f`, on Linux.
const SIGXFSZ: i32 = 25;
/// The longest time that requests in flight may delay a restart: they all belong to the former database.
const RESTART_GRACE: Duration = Duration::from_secs(3);

/// The time that passes of jobs and tasks under way have from the signal on.
const JOBS_GRACE: Duration = Duration::from_secs(10);

/// Whether the process has served before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    First,
    AfterReset,
}

/// The sockets and signals that the process listens on, kept across restarts: clients that connect in between wait, and
/// no signal is lost.
pub struct Sources {
    listener: Option<Arc<TcpListener>>,
    signals: Option<Signals>,
}

impl Sources {
    /// Takes over a listener; without one, the configured address is bound at the start.
    ///
    /// # Errors
    /// Fails if the runtime cannot wait for the listener.
    pub fn new(listener: Option<std::net::TcpListener>) -> io::Result<Self> {
        let listener = listener.map(TcpListener::from_std).transpose()?;
        Ok(Self { listener: listener.map(Arc::new), signals: None })
    }
}

/// The running service.
pub struct Running {
    app: App,
    tls: Option<Arc<Tls>>,
    /// Handed to the next start.
    listener: Arc<TcpListener>,
    signals: Signals,
    /// Tells the server to stop, and within which grace period.
    stop: watch::Sender<Option<Duration>>,
    /// Ends with the number of connections that were cut off.
    serving: JoinHandle<usize>,
    scheduler: Scheduler,
}

impl Running {
    /// Accepts connections and starts the jobs.
    ///
    /// # Errors
    /// Returns a message for people, after stopping everything again.
    pub async fn begin(
        app: App,
        sources: Sources,
        tls: Option<Arc<Tls>>,
        start: Start,
    ) -> Result<Self, String> {
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
            tls: tls.clone(),
        };
        let (stop, stopping) = watch::channel(None);
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
        greeting::log_start(&app.core);
        // After a reset the list of events stays empty.
        if start == Start::First {
            greeting::store_warning(&app.core);
        }
        Ok(Self { app, tls, listener, signals, stop, serving, scheduler })
    }

    /// Returns the configuration that the service runs with.
    pub fn config(&self) -> &Config {
        &self.app.core.config
    }

    /// Waits for a signal, or for a reset that leads to another database; then stops everything in reverse order. After
    /// a reset it returns the sources for the next start.
    pub async fn until_stopped(mut self) -> Option<Sources> {
        let cause = tokio::select! {
            signal = self.signals.stop(self.tls.as_deref()) => Some(signal),
            () = self.app.core.restart_requested() => None,
        };
        self.app.core.begin_stop();
        self.scheduler.begin_stop();
        let grace = if cause.is_some() { self.app.core.config.shutdown_grace } else { RESTART_GRACE };
        self.stop.send_replace(Some(grace));
        self.app.core.confirm_restart();
        match cause {
            Some(signal) => {
                self.stop_gracefully(signal).await;
                None
            }
            None => Some(self.stop_for_restart().await),
        }
    }

    /// Stops soon, and returns the sources for the next start.
    async fn stop_for_restart(self) -> Sources {
        log::warn!("restarting on the default database after a factory reset");
        if let Err(error) = self.serving.await {
            log::error!("the server ended with an error: {error}");
        }
        jobs::finish(&self.app.jobs, self.scheduler, Instant::now()).await;
        self.app.stop().await;
        Sources { listener: Some(self.listener), signals: Some(self.signals) }
    }

    /// Lets requests in flight end within the grace period, then stops. A second signal ends the process at once.
    async fn stop_gracefully(self, signal: StopSignal) {
        drop(self.listener);
        let (app, mut signals) = (self.app, self.signals);
        let grace = app.core.config.shutdown_grace;
        log::info!("{signal}: no new connections; requests in flight have {} s", grace.as_secs());
        let (end_of_grace, end_of_jobs) = (Instant::now() + grace, Instant::now() + JOBS_GRACE);
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
        jobs::finish(&app.jobs, self.scheduler, end_of_jobs).await;
        app.stop().await;
        log::info!("stopped");
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

/// Lets a write past the limit on file sizes fail like one on a full disk; without this it would end the process.
pub fn survive_file_size_limit() {
    // The handler stays when its stream is dropped.
    if let Err(error) = signal(SignalKind::from_raw(SIGXFSZ)) {
        log::warn!(
            "cannot handle SIGXFSZ: reaching the limit on file sizes (ulimit -f) will end the process: \
             {error}"
        );
    }
}
