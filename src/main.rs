//! The life of the process: read the configuration, start, serve, and stop in reverse.
#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use switchyard::app::App;
use switchyard::cli::{self, Command, Failure, Transfer};
use switchyard::config::{self, Config, ConfigResult};
use switchyard::desktop::{self, Desktop};
use switchyard::http::tls::Tls;
use switchyard::lifecycle::{self, Running, Sources, Start};
use switchyard::{demo, deploy_helper, doctor, logging};
use tokio::runtime::{Builder, Runtime};

#[cfg(feature = "mimalloc")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The time that an idle thread for blocking work waits for more. When it ends, the allocator of static builds returns
/// memory that has been free for a second, such as that of a large conversion.
const IDLE_THREAD: Duration = Duration::from_secs(3);

fn main() -> ExitCode {
    let command = cli::parse(std::env::args().skip(1));
    let ended = command.map_err(|message| Failure::new(cli::USAGE, message)).and_then(run);
    ended.unwrap_or_else(|Failure { code, message }| {
        log::logger().flush();
        eprintln!("switchyard: {message}");
        ExitCode::from(code)
    })
}

/// Runs a command; returns the exit status of the process.
fn run(command: Command) -> Result<ExitCode, Failure> {
    match command {
        Command::Serve => serve(configured(config::from_environment())?, None)?,
        Command::Desktop => {
            let config = configured(desktop::read_configuration())?;
            let Desktop { config, listener } = desktop::listen(config).map_err(failed)?;
            serve(config, Some(listener))?;
        }
        Command::Health => cli::health(&configured(config::from_environment())?).map_err(failed)?,
        Command::Doctor { as_json } => {
            let report = doctor::run(config::from_environment());
            cli::print(&if as_json { report.json() } else { report.table() })?;
            if report.has_failure() {
                return Ok(ExitCode::FAILURE);
            }
        }
        Command::Demo => return Ok(demo::run()),
        Command::DeployHelper => {
            deploy_helper::run(&configured(config::from_environment())?).map_err(failed)?;
        }
        Command::Transfer(Transfer::Help(text)) => cli::print(text)?,
        Command::Transfer(task) => {
            let config = configured(config::from_environment())?;
            runtime(Builder::new_multi_thread().worker_threads(1))?.block_on(cli::transfer(config, task))?;
        }
        Command::Help => cli::print(cli::HELP)?,
        Command::Version => cli::print(concat!("switchyard ", env!("CARGO_PKG_VERSION"), "\n"))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Serves on a given listener, or on the configured address.
fn serve(config: Config, listener: Option<std::net::TcpListener>) -> Result<(), Failure> {
    logging::write_in_background()
        .map_err(|error| failed(format!("cannot start the thread that writes the log: {error}")))?;
    let mut builder = Builder::new_multi_thread();
    let runtime = runtime(builder.max_blocking_threads(32).thread_keep_alive(IDLE_THREAD))?;
    let ended = runtime.block_on(serve_until_stopped(config, listener));
    log::logger().flush();
    // Everything is flushed, and the process ends with this. Threads that still resolve a name, or compute,
    // would panic at their next timer if the runtime were shut down before them.
    std::mem::forget(runtime);
    ended
}

/// Serves until a signal, then lets requests in flight end and everything reach the disk. Starts again when a reset has
/// led back to another database.
async fn serve_until_stopped(config: Config, listener: Option<std::net::TcpListener>) -> Result<(), Failure> {
    let is_desktop = listener.is_some();
    lifecycle::survive_file_size_limit();
    let tls = config.tls.clone().map(Tls::load).transpose();
    let tls = tls.map_err(|message| Failure::new(cli::CONFIGURATION, message))?.map(Arc::new);
    let config = Arc::new(config);
    let sources = Sources::new(listener);
    let mut sources = sources.map_err(|error| failed(format!("cannot listen: {error}")))?;
    let mut start = Start::First;
    loop {
        let app = App::start(config.clone()).await;
        let app = app.map_err(|error| Failure::new(error.exit_code, error.message))?;
        let running = Running::begin(app, sources, tls.clone(), start).await.map_err(failed)?;
        if is_desktop && start == Start::First {
            desktop::open(running.config());
        }
        let Some(still_open) = running.until_stopped().await else { return Ok(()) };
        (sources, start) = (still_open, Start::AfterReset);
    }
}

/// Returns the configuration, or prints every mistake in it.
fn configured(reading: ConfigResult) -> Result<Config, Failure> {
    match reading {
        Ok((config, warnings)) => {
            logging::init(config.log_level);
            for warning in warnings {
                log::warn!("{warning}");
            }
            Ok(config)
        }
        Err(errors) => {
            for error in &errors {
                eprintln!("switchyard: {error}");
            }
            let message = format!("{} mistake(s) in the configuration; nothing was started", errors.len());
            Err(Failure::new(cli::CONFIGURATION, message))
        }
    }
}

fn runtime(builder: &mut Builder) -> Result<Runtime, Failure> {
    let built = builder.enable_all().build();
    built.map_err(|error| failed(format!("cannot start the async runtime: {error}")))
}

fn failed(message: String) -> Failure {
    Failure::new(cli::OTHER, message)
}
