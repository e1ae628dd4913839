//! `switchyard doctor`: finds what is wrong with an installation, and shows it in one table.
//!
//! | check | question |
//! |---|---|
//! | configuration, TLS | is the environment understood, and are its files readable |
//! | permissions | can this user write the data, can others read it |
//! | disk, backups | is there room for the data, can scheduled backups be written |
//! | open files | how many files may be open |
//! | database, credentials | is every page of it sound, does the secret open what is sealed |
//! | service | does an instance answer at the configured address, or could one listen there |
//! | site …, clock | does each active site answer, and what time is it there |
//!
//! Nothing is changed, and an instance that runs on the same data is not disturbed. No secret is printed. The exit code
//! is 0, or 1 if a check has failed; a warning is no failure.

mod database;
mod report;
mod sites;

use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use rustix::fs::{Access, access};

use crate::cli;
use crate::config::{Config, ConfigResult};
use crate::core::store_options;
use crate::http::tls::Tls;
use crate::open_files;
use crate::store::inspect::{self, DatabaseLocation};
pub use report::Report;

/// The limit of open files below which a busy gateway runs out of them.
const FEW_FILES: usize = 4096;
/// The free space, in bytes, below which a start or the next change fails.
const NO_ROOM: u64 = 10_000_000;
/// The free space, in bytes, that the log of a busy gateway fills within days.
const LITTLE_ROOM: u64 = 200_000_000;

/// Runs all checks.
pub fn run(reading: ConfigResult) -> Report {
    let mut report = Report::default();
    match reading {
        Err(errors) => errors.into_iter().for_each(|error| report.failed("configuration", error)),
        Ok((config, warnings)) => examine(&mut report, &config, warnings),
    }
    report
}

fn examine(report: &mut Report, config: &Config, warnings: Vec<String>) {
    configuration(report, config, warnings);
    permissions(report, config);
    backups(report, config);
    files(report, config);
    let found = database::examine(report, config);
    service(report, config);
    sites::examine(report, config, found);
}

/// Checks whether an instance answers, and if none does, whether one could listen at the configured address.
fn service(report: &mut Report, config: &Config) {
    const CHECK: &str = "service";
    if cli::health(config).is_ok() {
        return report.fine(CHECK, format!("an instance answers on port {}", config.port));
    }
    let (host, port) = (config.host.as_str(), config.port);
    match TcpListener::bind((host, port)) {
        Ok(_) => report.fine(CHECK, format!("no instance answers on port {port}")),
        Err(error) => {
            report.failed(CHECK, format!("HOST, PORT: a start cannot listen on {host} port {port}: {error}"))
        }
    }
}

fn configuration(report: &mut Report, config: &Config, warnings: Vec<String>) {
    let before = report.troubles();
    warnings.into_iter().for_each(|warning| report.doubtful("configuration", warning));
    for (name, value, placeholder) in [
        ("AUTH_TOKEN", &config.auth_token, crate::config::PLACEHOLDER_AUTH_TOKEN),
        ("PROXY_TOKEN", &config.proxy_token, crate::config::PLACEHOLDER_PROXY_TOKEN),
    ] {
        if value == placeholder {
            let text = format!(
                "{name} has its built-in value, which is accepted from this machine only: set a secret of \
                 your own"
            );
            report.doubtful("configuration", text);
        }
    }
    if config.credential_secret_weak {
        let text = "ACCOUNT_CREDENTIAL_SECRET is not set or equals AUTH_TOKEN";
        report.doubtful("configuration", text.to_owned());
    }
    if before == report.troubles() {
        report.fine("configuration", "understood".to_owned());
    }
    if let Some(files) = config.tls.clone() {
        match Tls::load(files) {
            Ok(_) => report.fine("TLS", "certificate and key fit together".to_owned()),
            Err(why) => report.failed("TLS", why),
        }
    }
}

/// Checks whether this user can write the data, and whether others can read it.
fn permissions(report: &mut Report, config: &Config) {
    const CHECK: &str = "permissions";
    let before = report.troubles();
    if is_open(Path::new(".env")) {
        report
            .doubtful(CHECK, "every user of this machine may read .env: restrict its permissions".to_owned());
    }
    let database = match inspect::whereabouts(&store_options(config)) {
        DatabaseLocation::File(database) => database,
        DatabaseLocation::Memory => {
            return report
                .doubtful(CHECK, "the database is in memory: nothing survives a restart".to_owned());
        }
        DatabaseLocation::Server(shown) => return report.fine(CHECK, format!("the data is at {shown}")),
    };
    let directory =
        database.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let about = match directory.metadata() {
        Ok(about) => about,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            if directory.is_symlink() {
                return report.failed(CHECK, format!("{} is a link to nowhere", directory.display()));
            }
            return match is_writable(existing(directory)) {
                Ok(()) => {
                    let text = "does not exist yet: the first start creates it";
                    report.fine(CHECK, format!("{} {text}", directory.display()));
                }
                Err(why) => report.failed(CHECK, format!("{} cannot be created: {why}", directory.display())),
            };
        }
        Err(error) => return report.failed(CHECK, format!("{}: {error}", directory.display())),
    };
    if !about.is_dir() {
        return report.failed(CHECK, format!("{} is not a directory", directory.display()));
    }
    if let Err(why) = is_writable(directory) {
        report.failed(CHECK, why);
    }
    for ending in ["", "-wal", "-shm", ".lock"] {
        let file = inspect::beside(&database, ending);
        if let Err(error) = std::fs::OpenOptions::new().read(true).write(true).open(&file)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            report.failed(CHECK, format!("{} cannot be written: {error}", file.display()));
        }
    }
    if is_open(directory) && is_open(&database) {
        report.doubtful(
            CHECK,
            format!("every user of this machine may open {}: restrict its permissions", database.display()),
        );
    }
    if before == report.troubles() {
        report.fine(CHECK, format!("{} is writable", directory.display()));
    }
    match inspect::free_space(directory) {
        Ok(left) => room(report, directory, left),
        Err(error) => report.doubtful("disk", format!("{}: {error}", directory.display())),
    }
}

/// Judges the space, in bytes, that is left for the data.
fn room(report: &mut Report, directory: &Path, left: u64) {
    const CHECK: &str = "disk";
    let text = format!("{} MB are left in {}", left / 1_000_000, directory.display());
    match left {
        0..NO_ROOM => report.failed(CHECK, format!("{text}: make room, or no change can be stored")),
        NO_ROOM..LITTLE_ROOM => report.doubtful(CHECK, format!("{text}: make room before it is full")),
        _ => report.fine(CHECK, text),
    }
}

/// Checks whether scheduled backups can be written.
fn backups(report: &mut Report, config: &Config) {
    const CHECK: &str = "backups";
    let rules = &config.backups;
    if rules.cron.is_none() {
        return;
    }
    // A missing directory is created by the first backup.
    match is_writable(existing(&rules.dir)) {
        Ok(()) => report.fine(CHECK, format!("BACKUP_DIR {} is writable", rules.dir.display())),
        Err(why) => report.failed(CHECK, format!("BACKUP_DIR {}: {why}", rules.dir.display())),
    }
}

/// Returns the innermost directory of a path that exists.
fn existing(path: &Path) -> &Path {
    path.ancestors().find(|directory| directory.exists()).unwrap_or(Path::new("."))
}

fn is_writable(directory: &Path) -> Result<(), String> {
    if !directory.is_dir() {
        return Err(format!("{} is not a directory", directory.display()));
    }
    access(directory, Access::WRITE_OK | Access::EXEC_OK)
        .map_err(|error| format!("this user cannot write to {}: {error}", directory.display()))
}

fn is_open(path: &Path) -> bool {
    path.metadata().is_ok_and(|about| about.permissions().mode() & 0o007 != 0)
}

fn files(report: &mut Report, config: &Config) {
    const CHECK: &str = "open files";
    let Some(limit) = open_files::limit() else {
        return report.fine(CHECK, "no limit".to_owned());
    };
    let clients = open_files::for_clients(limit);
    let text = format!(
        "the limit of {limit} allows {clients} client connections at once; MAX_CONNECTIONS is {}",
        config.max_connections
    );
    if limit < FEW_FILES {
        return report.doubtful(CHECK, format!("{text}; raise it with `ulimit -n` or LimitNOFILE"));
    }
    report.fine(CHECK, text);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_without_room_is_a_failure_and_one_with_little_a_warning() {
        for (left, expected) in [(9_999_999, (true, 1)), (10_000_000, (false, 1)), (200_000_000, (false, 0))]
        {
            let mut report = Report::default();
            room(&mut report, Path::new("data"), left);
            assert_eq!((report.has_failure(), report.troubles()), expected, "{left}");
        }
    }
}
