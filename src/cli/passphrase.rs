//! The source of the passphrase of a sealed backup: never an argument, which every user of the machine can read in the
//! list of processes.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::PathBuf;

use super::failure::{Failure, NO_INPUT, USAGE};
use crate::config::Config;

const MAX_LENGTH: u64 = 1024;

#[derive(Debug, Default, PartialEq, Eq)]
pub enum PassphraseFrom {
    /// `BACKUP_PASSPHRASE`, if it is set.
    #[default]
    Configuration,
    /// The first line of a file, or of standard input for `-`.
    File(PathBuf),
}

impl PassphraseFrom {
    /// Reads the passphrase from the file; `None` if none is named.
    ///
    /// # Errors
    /// Fails if the file cannot be read, or has no passphrase in its first line.
    pub fn read(&self) -> Result<Option<String>, Failure> {
        let Self::File(path) = self else { return Ok(None) };
        let first_line = |source: Box<dyn Read>| {
            let mut line = String::new();
            BufReader::new(source.take(MAX_LENGTH + 2)).read_line(&mut line).map(|_| line)
        };
        let line = if path.as_os_str() == "-" {
            first_line(Box::new(io::stdin()))
        } else {
            File::open(path).and_then(|file| first_line(Box::new(file)))
        };
        let line = line.map_err(|error| Failure::new(NO_INPUT, format!("{}: {error}", path.display())))?;
        let passphrase = line.trim_end_matches(['\r', '\n']);
        if passphrase.is_empty() || passphrase.len() as u64 > MAX_LENGTH {
            let message = "its first line must be a passphrase of 1 to 1024 bytes";
            return Err(Failure::new(USAGE, format!("{}: {message}", path.display())));
        }
        Ok(Some(passphrase.to_owned()))
    }

    /// Returns the passphrase to seal with.
    ///
    /// # Errors
    /// Fails if there is none, or it cannot be read.
    pub fn required(&self, config: &Config) -> Result<String, Failure> {
        let found = self.read()?.or_else(|| config.backups.passphrase.clone());
        let missing = || {
            let message = "sealing needs a passphrase: give --passphrase-file FILE, or set BACKUP_PASSPHRASE";
            Failure::new(USAGE, message)
        };
        found.ok_or_else(missing)
    }
}
