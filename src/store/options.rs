//! The options with which the store is opened.

use std::fmt;
use std::path::PathBuf;

use crate::config::{DatabaseKind, DatabaseTls, Synchronous};

/// The options of [`Store::open`](super::Store::open).
pub struct StoreOptions {
    /// Created with mode 0700 when missing.
    pub data_dir: PathBuf,
    /// DB_TYPE; a kind that this build lacks is refused.
    pub kind: DatabaseKind,
    /// DB_URL; empty for the file in `data_dir`.
    pub db_url: String,
    /// DB_SSL and related settings.
    pub tls: DatabaseTls,
    /// ACCOUNT_CREDENTIAL_SECRET: the secret under which the credential keys are wrapped.
    pub secret: String,
    /// ACCOUNT_CREDENTIAL_SECRET_PREVIOUS: tried when `secret` does not open the keys.
    pub previous_secrets: Vec<String>,
    /// SQLITE_SYNCHRONOUS: what a commit waits for.
    pub synchronous: Synchronous,
    /// CREDENTIAL_SECRET_LOST=1: start with new keys and empty every credential that cannot be opened.
    pub secret_lost: bool,
    /// The service's time zone, for the days and hours of the usage tables.
    pub time_zone: jiff::tz::TimeZone,
}

impl StoreOptions {
    /// Builds the options for an SQLite file in this directory, sealed under this secret, with days in UTC.
    pub fn in_dir(data_dir: impl Into<PathBuf>, secret: impl Into<String>) -> Self {
        Self {
            data_dir: data_dir.into(),
            kind: DatabaseKind::Sqlite,
            db_url: String::new(),
            tls: DatabaseTls::default(),
            secret: secret.into(),
            previous_secrets: Vec::new(),
            synchronous: Synchronous::default(),
            secret_lost: false,
            time_zone: jiff::tz::TimeZone::UTC,
        }
    }
}

impl fmt::Debug for StoreOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreOptions")
            .field("data_dir", &self.data_dir)
            .field("kind", &self.kind)
            .field("secret_lost", &self.secret_lost)
            .finish_non_exhaustive()
    }
}
