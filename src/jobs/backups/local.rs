//! Writes backups as files in a directory, at the times of `BACKUP_CRON`.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use tokio::task::block_in_place;

use super::failure;
use crate::backup::{self, BackupScope};
use crate::jobs::Jobs;
use crate::jobs::schedule::{Pass, Plan};
use crate::time::{iso, now_ms};
use crate::unfinished::{self, PartialFile};

const PREFIX: &str = "switchyard-backup-";
/// How much of the name of the installation is in the names of its backups: several may share one directory.
const ID_DIGITS: usize = 8;
const PLAIN: &str = ".json";
const SEALED: &str = ".json.sealed";

/// Returns the schedule of the backups.
pub fn plan(jobs: &Jobs) -> Plan {
    jobs.core.config.backups.cron.clone().map_or(Plan::Never, Plan::At)
}

/// Makes a backup and deletes the oldest ones beyond `BACKUP_KEEP`.
pub async fn make(jobs: Arc<Jobs>) -> Pass {
    let made = write(&jobs).await;
    if let Err(error) = &made {
        failure::tell(&jobs, "A backup failed", error).await;
    }
    made.map(|path| Some(format!("{} written", path.display())))
}

async fn write(jobs: &Arc<Jobs>) -> Result<PathBuf, String> {
    let rules = &jobs.core.config.backups;
    let failed = |error: io::Error| format!("BACKUP_DIR {}: {error}", rules.dir.display());
    let moment: String = iso(now_ms()).chars().filter(char::is_ascii_digit).take(14).collect();
    let ending = if rules.passphrase.is_some() { SEALED } else { PLAIN };
    let own = &backup::installation(&jobs.core.store)[..ID_DIGITS];
    let path = rules.dir.join(format!("{PREFIX}{moment}-{own}{ending}"));
    // What a stop of the service left half written holds credentials.
    unfinished::remove_left_files(&rules.dir, |target| installation_of(target).is_some());
    let mut partial = PartialFile::of(&path);
    let file = create_directory(&rules.dir).and_then(|()| partial.create()).map_err(failed)?;
    let written = match &rules.passphrase {
        None => backup::export(&jobs.core, BackupScope::All, file).await,
        // The derivation of the key, and the disk, take long.
        Some(passphrase) => match block_in_place(|| backup::sealed::Sealing::new(file, passphrase)) {
            Ok(sealing) => match backup::export(&jobs.core, BackupScope::All, sealing).await {
                Ok(sealing) => block_in_place(|| sealing.finish()).map_err(Into::into),
                Err(error) => Err(error),
            },
            Err(error) => Err(error.into()),
        },
    };
    let file = written.map_err(|error| error.to_string())?;
    block_in_place(|| file.sync_all()).and_then(|()| partial.finish()).map_err(failed)?;
    prune(&rules.dir, rules.keep, &path, own).map_err(failed)?;
    Ok(path)
}

fn create_directory(dir: &Path) -> io::Result<()> {
    if dir.exists() { Ok(()) } else { DirBuilder::new().recursive(true).mode(0o700).create(dir) }
}

/// Deletes the oldest backups of this installation beyond the limit, but not the one just written; leaves everything
/// else in the directory alone.
fn prune(dir: &Path, keep: usize, written: &Path, own: &str) -> io::Result<()> {
    let mut others: Vec<(SystemTime, PathBuf)> = Vec::new();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let path = entry.path();
        let installation = path.file_name().and_then(|name| name.to_str()).and_then(installation_of);
        if installation.is_some_and(|of| of.is_empty() || of == own) && path != written {
            others.push((entry.metadata()?.modified()?, path));
        }
    }
    // The names would put files of a clock that was once ahead after all later ones. A file that was written under such
    // a clock counts as the oldest.
    let now = SystemTime::now();
    others.sort_by_key(|(modified, path)| (*modified <= now, *modified, path.clone()));
    let surplus = (others.len() + 1).saturating_sub(keep);
    others.iter().take(surplus).try_for_each(|(_, path)| fs::remove_file(path))
}

/// Returns the installation that a backup with this name is of, empty in names of older releases; `None` for any other
/// file.
fn installation_of(name: &str) -> Option<&str> {
    let rest = name.strip_prefix(PREFIX)?;
    let rest = rest.strip_suffix(SEALED).or(rest.strip_suffix(PLAIN))?;
    let (moment, installation) = rest.split_once('-').unwrap_or((rest, ""));
    let is_moment = moment.len() == 14 && moment.bytes().all(|byte| byte.is_ascii_digit());
    is_moment.then_some(installation)
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_name_of_a_backup_tells_its_installation() {
        for (name, expected) in [
            ("switchyard-backup-20260501080000-12ab34cd.json", Some("12ab34cd")),
            ("switchyard-backup-20260501080000-12ab34cd.json.sealed", Some("12ab34cd")),
            ("switchyard-backup-20260501080000.json", Some("")),
            ("switchyard-backup-mine.json", None),
            ("switchyard-backup-20260501080000.json.old", None),
            ("20260501080000.json", None),
        ] {
            assert_eq!(installation_of(name), expected, "{name}");
        }
    }

    #[test]
    fn the_file_just_written_stays_whatever_the_names_of_the_others_are() {
        let dir = std::env::temp_dir().join(format!("prune-{}", crate::uuid::v4()));
        fs::create_dir(&dir).expect("made");
        let name = |year: u16| dir.join(format!("{PREFIX}{year}0101000000-12ab34cd{PLAIN}"));
        let others = dir.join(format!("{PREFIX}20200101000000-ffffffff{PLAIN}"));
        File::create(&others).expect("made");
        let at = |seconds: i64| match seconds {
            0.. => SystemTime::now() + Duration::from_secs(seconds.unsigned_abs()),
            _ => SystemTime::now() - Duration::from_secs(seconds.unsigned_abs()),
        };
        for (year, written) in [(2099, -900), (2098, 900), (2024, -100), (2025, -50)] {
            let file = File::create(name(year)).expect("made");
            file.set_modified(at(written)).expect("set");
        }
        let left = |keep, written: &Path| {
            prune(&dir, keep, written, "12ab34cd").expect("pruned");
            [2024, 2025, 2098, 2099].into_iter().filter(|year| name(*year).exists()).collect::<Vec<u16>>()
        };
        assert_eq!(left(3, &name(2024)), [2024, 2025, 2099]);
        assert_eq!(left(2, &name(2024)), [2024, 2025]);
        assert_eq!(left(1, &name(2024)), [2024]);
        assert!(others.exists(), "another installation's");
        fs::remove_dir_all(&dir).expect("removed");
    }
}
