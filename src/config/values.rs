//! Values that are composed of several variables, or read in one place for many uses.

use std::path::PathBuf;

/// The port of the service if none is configured.
pub const DEFAULT_PORT: u16 = 4000;

/// The database that keeps the state.
pub struct DatabaseConfig {
    pub kind: DatabaseKind,
    /// The address; blank for SQLite means `switchyard.db` in the data directory.
    pub url: String,
    pub tls: DatabaseTls,
    /// DB_FALLBACK_TO_ENV: whether the start continues on the environment's database if a saved one cannot be opened.
    pub falls_back: bool,
    pub synchronous: Synchronous,
}

/// What an SQLite commit waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Synchronous {
    /// The disk: an acknowledged change survives a power cut.
    #[default]
    Full,
    /// The operating system: an acknowledged change survives the end of the process, but not a power cut.
    Normal,
}

/// The databases that `DB_TYPE` may name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DatabaseKind {
    Sqlite,
    MySql,
    Postgres,
}

impl DatabaseKind {
    /// Returns the name that `DB_TYPE` and the features of the build use.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Sqlite => "sqlite",
            Self::MySql => "mysql",
            Self::Postgres => "postgres",
        }
    }

    /// Reads a name that [`Self::as_str`] returns.
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Sqlite, Self::MySql, Self::Postgres].into_iter().find(|kind| kind.as_str() == text)
    }

    /// Returns the kind that an address belongs to: a path is SQLite's. `None` for an unknown scheme.
    pub fn of_address(url: &str) -> Option<Self> {
        let Some((scheme, _)) = url.split_once("://") else { return Some(Self::Sqlite) };
        let scheme = scheme.to_ascii_lowercase();
        let kinds = [Self::Sqlite, Self::MySql, Self::Postgres];
        kinds.into_iter().find(|kind| kind.schemes().contains(&scheme.as_str()))
    }

    pub fn title(self) -> &'static str {
        match self {
            Self::Sqlite => "SQLite",
            Self::MySql => "MySQL",
            Self::Postgres => "PostgreSQL",
        }
    }

    /// Returns the schemes of addresses of this kind.
    pub fn schemes(self) -> &'static [&'static str] {
        match self {
            Self::Sqlite => &["sqlite", "file"],
            Self::MySql => &["mysql"],
            Self::Postgres => &["postgres", "postgresql"],
        }
    }
}

/// The security of the connection to a database server.
#[derive(Clone, Debug, Default)]
pub struct DatabaseTls {
    /// DB_SSL: whether unencrypted connections are refused.
    pub is_required: bool,
    /// DB_SSL_CA: the authority of the server's certificate, PEM; the well-known authorities when unset.
    pub ca_file: Option<PathBuf>,
    /// DB_SSL_INSECURE: whether any certificate is accepted.
    pub is_insecure: bool,
}

/// Certificate and key for TLS towards clients, PEM.
#[derive(Clone, Debug)]
pub struct TlsFiles {
    pub certificate: PathBuf,
    pub key: PathBuf,
}
