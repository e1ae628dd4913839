//! The database and what is sealed in it.

use std::path::Path;
use std::time::Duration;

use super::report::Report;
use crate::config::Config;
use crate::core::store_options;
use crate::store::inspect::{self, Inspection, Integrity, SiteAddress};
use crate::store::{self, Sealer};

const CHECK: &str = "database";
/// How long the check of all pages may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// What the other checks need of it.
#[derive(Default)]
pub(super) struct Found {
    pub(super) sites: Vec<SiteAddress>,
    /// The outbound proxy that an operator saved.
    pub(super) system_proxy: Option<String>,
}

pub(super) fn examine(report: &mut Report, config: &Config) -> Found {
    let options = store_options(config);
    let Some(path) = inspect::database_file(&options) else { return Found::default() };
    if !path.exists() {
        report.fine(CHECK, format!("{} is not there: the first start makes it", path.display()));
        return Found::default();
    }
    let failed = |report: &mut Report, error: store::Error| {
        report.failed(CHECK, format!("{}: {error}", path.display()))
    };
    let (mut inspection, integrity) = match look_through(&path) {
        Ok(looked) => looked,
        Err(error) => {
            failed(report, error);
            return Found::default();
        }
    };
    if let Err(error) = tell(report, &inspection, integrity) {
        failed(report, error);
        return Found::default();
    }
    let sealer = match inspection.sealer(&options) {
        Ok(sealer) => {
            report.fine("credentials", "the secret opens what is sealed".to_owned());
            Some(sealer)
        }
        Err(error) => {
            report.failed("credentials", error.to_string());
            None
        }
    };
    read(&inspection, sealer.as_ref()).unwrap_or_else(|error| {
        failed(report, error);
        Found::default()
    })
}

/// Once more where a process began to use the file meanwhile.
fn look_through(path: &Path) -> store::Result<(Inspection, Integrity)> {
    let inspection = Inspection::open(path)?;
    match inspection.integrity(PATIENCE) {
        Ok(Integrity::Sound) => Ok((inspection, Integrity::Sound)),
        _ if inspection.is_outdated() => {
            let inspection = Inspection::open(path)?;
            let integrity = inspection.integrity(PATIENCE)?;
            Ok((inspection, integrity))
        }
        integrity => Ok((inspection, integrity?)),
    }
}

fn tell(report: &mut Report, inspection: &Inspection, integrity: Integrity) -> store::Result<()> {
    match integrity {
        Integrity::Sound => {
            let (taken, known) = inspection.schema()?;
            let text = match taken.cmp(&known) {
                std::cmp::Ordering::Less => {
                    format!("sound; the next start brings its schema from {taken} to {known}")
                }
                std::cmp::Ordering::Equal => format!("sound, schema {taken}"),
                std::cmp::Ordering::Greater => {
                    format!("sound; a newer program brought its schema to {taken}")
                }
            };
            report.fine(CHECK, text);
        }
        Integrity::Broken(faults) => faults.into_iter().for_each(|fault| report.failed(CHECK, fault)),
        Integrity::Unfinished => {
            report.doubtful(CHECK, format!("not looked through within {} s", PATIENCE.as_secs()));
        }
    }
    Ok(())
}

fn read(inspection: &Inspection, sealer: Option<&Sealer>) -> store::Result<Found> {
    let saved = sealer.map(|sealer| inspection.sealed_setting("system_proxy_url", sealer)).transpose()?;
    Ok(Found { sites: inspection.sites(sealer)?, system_proxy: saved.flatten() })
}
