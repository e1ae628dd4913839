//! Writes backups as files in a directory, at the times of `BACKUP_CRON`.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use tokio::task::block_in_place;

use super::failure;
use crate::backup::{self, BackupScope};
use crate::jobs::Jobs;
use crate::jobs::schedule::{Pass, Plan};
use crate::time::{iso, now_ms};

const PREFIX: &str = "switchyard-backup-";
/// The ending of the name of a file that is still being written; such a name begins with a dot.
const PART: &str = ".part";
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
    let path = rules.dir.join(format!("{PREFIX}{moment}{ending}"));
    let part = rules.dir.join(format!(".{PREFIX}{moment}{PART}"));
    remove_parts(&rules.dir).map_err(failed)?;
    let file = create(&rules.dir, &part).map_err(failed)?;
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
    let kept = written.map_err(|error| error.to_string()).and_then(|file| {
        block_in_place(|| file.sync_all()).and_then(|()| fs::rename(&part, &path)).map_err(failed)
    });
    if let Err(error) = kept {
        let _ = fs::remove_file(&part);
        return Err(error);
    }
    prune(&rules.dir, rules.keep, &path).map_err(failed)?;
    Ok(path)
}

fn create(dir: &Path, path: &Path) -> io::Result<File> {
    if !dir.exists() {
        DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    }
    OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)
}

/// Deletes files that a stop of the service left half written, because they hold credentials. Only one backup is made
/// at a time, so none of them is still in use.
fn remove_parts(dir: &Path) -> io::Result<()> {
    if !dir.exists() {
        return Ok(());
    }
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_name().to_str().is_some_and(is_part) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

fn is_part(name: &str) -> bool {
    let moment = name.strip_prefix('.').and_then(|name| name.strip_prefix(PREFIX)?.strip_suffix(PART));
    moment.is_some_and(is_moment)
}

/// Deletes the oldest of our own files beyond the limit, but not the one just written; leaves everything else in the
/// directory alone.
fn prune(dir: &Path, keep: usize, written: &Path) -> io::Result<()> {
    let mut others: Vec<(SystemTime, PathBuf)> = Vec::new();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let path = entry.path();
        let is_ours = path.file_name().and_then(|name| name.to_str()).is_some_and(is_ours);
        if is_ours && path != written {
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

fn is_ours(name: &str) -> bool {
    let moment =
        name.strip_prefix(PREFIX).and_then(|rest| rest.strip_suffix(SEALED).or(rest.strip_suffix(PLAIN)));
    moment.is_some_and(is_moment)
}

fn is_moment(text: &str) -> bool {
    text.len() == 14 && text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn only_files_of_our_own_are_deleted() {
        for (name, expected) in [
            ("switchyard-backup-20260501080000.json", true),
            ("switchyard-backup-20260501080000.json.sealed", true),
            ("switchyard-backup-mine.json", false),
            ("switchyard-backup-20260501080000.json.old", false),
            ("20260501080000.json", false),
        ] {
            assert_eq!(is_ours(name), expected, "{name}");
            let part = format!(".{}.part", name.strip_suffix(".json").unwrap_or(name));
            assert_eq!(is_part(&part), expected && name.ends_with(".json"), "{part}");
        }
    }

    #[test]
    fn the_file_just_written_stays_whatever_the_names_of_the_others_are() {
        let dir = std::env::temp_dir().join(format!("prune-{}", crate::uuid::v4()));
        fs::create_dir(&dir).expect("made");
        let name = |year: u16| dir.join(format!("{PREFIX}{year}0101000000{PLAIN}"));
        let at = |seconds: i64| match seconds {
            0.. => SystemTime::now() + Duration::from_secs(seconds.unsigned_abs()),
            _ => SystemTime::now() - Duration::from_secs(seconds.unsigned_abs()),
        };
        for (year, written) in [(2099, -900), (2098, 900), (2024, -100), (2025, -50)] {
            let file = File::create(name(year)).expect("made");
            file.set_modified(at(written)).expect("set");
        }
        let left = |keep, written: &Path| {
            prune(&dir, keep, written).expect("pruned");
            [2024, 2025, 2098, 2099].into_iter().filter(|year| name(*year).exists()).collect::<Vec<u16>>()
        };
        assert_eq!(left(3, &name(2024)), [2024, 2025, 2099]);
        assert_eq!(left(2, &name(2024)), [2024, 2025]);
        assert_eq!(left(1, &name(2024)), [2024]);
        fs::remove_dir_all(&dir).expect("removed");
    }
}
