//! Checks the database and the secrets sealed in it.

use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

use super::report::Report;
use crate::config::Config;
use crate::core::{named_address, store_options};
use crate::store::inspect::{self, DatabaseLocation, Inspection, Integrity, SchemaVersion, SiteAddress};
use crate::store::relocate::{self, DatabaseAddress};
use crate::store::restore;
use crate::store::{self, Sealer, StoreOptions};

const CHECK: &str = "database";
/// The time limit of the check of all pages.
const PAGES_TIMEOUT: Duration = Duration::from_secs(60);

/// Data from the database that other checks need.
#[derive(Default)]
pub(super) struct DatabaseFindings {
    pub(super) sites: Vec<SiteAddress>,
    /// The outbound proxy that an operator saved.
    pub(super) system_proxy: Option<String>,
    /// The database that an operator saved for the next start.
    place: Option<DatabaseAddress>,
}

/// Examines the database that the environment names, and the saved one that a start would use instead.
pub(super) fn examine(report: &mut Report, config: &Config) -> DatabaseFindings {
    let options = store_options(config);
    let found = examine_at(report, &options);
    let named = named_address(config);
    let Some(saved) = found.place.as_ref().filter(|saved| !saved.is_same_place(&named)) else { return found };
    report.fine(
        CHECK,
        format!("its settings name another database, which a start will use: {}", saved.masked()),
    );
    if relocate::begins_empty(saved) {
        report.doubtful(CHECK, "the file is empty, so the next start begins without any data".to_owned());
        return DatabaseFindings::default();
    }
    let before = report.troubles();
    let beyond = match relocate::require_file(saved) {
        Ok(()) => examine_at(report, &saved.options(options)),
        Err(error) => {
            report.failed(CHECK, error.to_string());
            DatabaseFindings::default()
        }
    };
    if report.troubles() > before && !config.database.falls_back {
        let text = "to start on the database that the environment names instead, set DB_FALLBACK_TO_ENV=true";
        report.doubtful(CHECK, text.to_owned());
    }
    beyond
}

fn examine_at(report: &mut Report, options: &StoreOptions) -> DatabaseFindings {
    match inspect::whereabouts(options) {
        DatabaseLocation::Memory => DatabaseFindings::default(),
        DatabaseLocation::Server(shown) => of_server(report, options, &shown),
        DatabaseLocation::File(path) => of_file(report, options, &path),
    }
}

fn of_file(report: &mut Report, options: &StoreOptions, path: &Path) -> DatabaseFindings {
    match path.metadata() {
        Ok(file) if file.len() > 0 => {}
        Ok(_) => return of_no_data(report, path, "is empty: the first start creates its tables"),
        Err(error) if error.kind() == ErrorKind::NotFound && path.is_symlink() => {
            return of_dangling_link(report, path);
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return of_no_data(report, path, "does not exist yet: the first start creates it");
        }
        Err(error) => {
            report.failed(CHECK, format!("{}: {error}", path.display()));
            return DatabaseFindings::default();
        }
    }
    if let Some(log) = inspect::damaged_log(path) {
        let text = format!(
            "the write-ahead log {} is damaged: a start ignores it, and the changes in it are lost",
            log.display()
        );
        report.failed(CHECK, text);
    }
    let shown = path.display().to_string();
    match look_through(path) {
        Ok((inspection, integrity)) => read(report, options, &shown, inspection, integrity),
        Err(error) => failed(report, &shown, &error),
    }
}

/// Reports a database that is empty or missing: it is new, or a start is refused.
fn of_no_data(report: &mut Report, path: &Path, what_follows: &str) -> DatabaseFindings {
    match restore::refuse_unfinished(path).and_then(|()| inspect::refuse_emptied(path)) {
        Ok(()) => report.fine(CHECK, format!("{} {what_follows}", path.display())),
        Err(error) => report.failed(CHECK, error.to_string()),
    }
    DatabaseFindings::default()
}

/// Reports a link to a file that does not exist, whose disk may not be mounted.
fn of_dangling_link(report: &mut Report, link: &Path) -> DatabaseFindings {
    let beside = link.parent().unwrap_or(Path::new(""));
    let target = beside.join(link.read_link().unwrap_or_default());
    let text = format!("{} is a link to {}, which does not exist", link.display(), target.display());
    if target.parent().is_some_and(Path::is_dir) {
        report.doubtful(CHECK, format!("{text}: the first start creates it"));
    } else {
        report.failed(CHECK, text);
    }
    DatabaseFindings::default()
}

fn of_server(report: &mut Report, options: &StoreOptions, shown: &str) -> DatabaseFindings {
    let mut inspection = match Inspection::of_server(options) {
        Ok(inspection) => inspection,
        Err(error) => {
            report.failed(CHECK, error.to_string());
            return DatabaseFindings::default();
        }
    };
    match inspection.is_made() {
        Ok(true) => read(report, options, shown, inspection, Integrity::Sound),
        Ok(false) => {
            report
                .fine(CHECK, format!("{shown} answers and has no tables yet: the first start creates them"));
            DatabaseFindings::default()
        }
        Err(error) => failed(report, shown, &error),
    }
}

fn failed(report: &mut Report, shown: &str, error: &store::Error) -> DatabaseFindings {
    report.failed(CHECK, format!("{shown}: {error}"));
    DatabaseFindings::default()
}

fn read(
    report: &mut Report,
    options: &StoreOptions,
    shown: &str,
    mut inspection: Inspection,
    integrity: Integrity,
) -> DatabaseFindings {
    if let Err(error) = tell(report, &mut inspection, integrity) {
        return failed(report, shown, &error);
    }
    let sealer = match inspection.sealer(options) {
        Ok(sealer) => {
            report.fine("credentials", "the secret decrypts the stored credentials".to_owned());
            Some(sealer)
        }
        Err(error) => {
            report.failed("credentials", error.to_string());
            None
        }
    };
    read_findings(&mut inspection, options, sealer.as_ref())
        .unwrap_or_else(|error| failed(report, shown, &error))
}

/// Checks the file; repeats that if another process has begun to use it in the meantime.
fn look_through(path: &Path) -> store::Result<(Inspection, Integrity)> {
    let mut inspection = Inspection::open(path)?;
    match inspection.integrity(PAGES_TIMEOUT) {
        Ok(Integrity::Sound) => Ok((inspection, Integrity::Sound)),
        _ if inspection.is_outdated() => {
            let mut inspection = Inspection::open(path)?;
            let integrity = inspection.integrity(PAGES_TIMEOUT)?;
            Ok((inspection, integrity))
        }
        integrity => Ok((inspection, integrity?)),
    }
}

fn tell(report: &mut Report, inspection: &mut Inspection, integrity: Integrity) -> store::Result<()> {
    match integrity {
        Integrity::Sound => {
            let faults = inspection.schema_faults()?;
            if !faults.is_empty() {
                faults.into_iter().for_each(|fault| report.failed(CHECK, fault));
                return Ok(());
            }
            let SchemaVersion { applied, known } = inspection.schema_version()?;
            let text = match applied.cmp(&known) {
                std::cmp::Ordering::Less => {
                    format!("sound; the next start updates its schema from {applied} to {known}")
                }
                std::cmp::Ordering::Equal => format!("sound, schema {applied}"),
                std::cmp::Ordering::Greater => {
                    format!("sound; a newer release updated its schema to {applied}")
                }
            };
            report.fine(CHECK, text);
        }
        Integrity::Broken(faults) => faults.into_iter().for_each(|fault| report.failed(CHECK, fault)),
        Integrity::Unfinished => {
            report.doubtful(CHECK, format!("not checked completely within {} s", PAGES_TIMEOUT.as_secs()));
        }
    }
    Ok(())
}

fn read_findings(
    inspection: &mut Inspection,
    options: &StoreOptions,
    sealer: Option<&Sealer>,
) -> store::Result<DatabaseFindings> {
    let (mut system_proxy, mut place) = (None, None);
    if let Some(sealer) = sealer {
        system_proxy = inspection
            .setting("system_proxy_url", sealer)?
            .and_then(|json| serde_json::from_str(&json).unwrap_or(None));
        place = inspection.place(options, sealer)?;
    }
    Ok(DatabaseFindings { sites: inspection.sites(sealer)?, system_proxy, place })
}
