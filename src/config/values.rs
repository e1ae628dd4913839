//! Values that are made of several variables, or read in one place for many.

use std::net::IpAddr;
use std::path::PathBuf;

use ipnet::IpNet;

/// Where the service listens when nobody chose a port.
pub const DEFAULT_PORT: u16 = 4000;

/// Which database keeps the state.
pub struct DatabaseConfig {
    pub kind: DatabaseKind,
    /// Blank for SQLite means `switchyard.db` in the data directory.
    pub url: String,
    pub tls: DatabaseTls,
    /// DB_FALLBACK_TO_ENV: a saved database that cannot be opened does not stop the start.
    pub falls_back: bool,
    pub synchronous: Synchronous,
}

/// What an SQLite commit waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Synchronous {
    /// The disk: an answered change outlives a power cut.
    #[default]
    Full,
    /// The operating system: an answered change outlives the process, not a power cut.
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
    /// As `DB_TYPE` and the features of the build name it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Sqlite => "sqlite",
            Self::MySql => "mysql",
            Self::Postgres => "postgres",
        }
    }

    /// What [`Self::as_str`] gives, read back.
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Sqlite, Self::MySql, Self::Postgres].into_iter().find(|kind| kind.as_str() == text)
    }

    /// The kind that an address belongs to: a path is SQLite's. `None` for one with another scheme.
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

    /// What an address of such a database begins with.
    pub fn schemes(self) -> &'static [&'static str] {
        match self {
            Self::Sqlite => &["sqlite", "file"],
            Self::MySql => &["mysql"],
            Self::Postgres => &["postgres", "postgresql"],
        }
    }
}

/// How the way to a database server is kept safe.
#[derive(Clone, Debug, Default)]
pub struct DatabaseTls {
    /// DB_SSL: nothing is sent that is not encrypted.
    pub is_required: bool,
    /// DB_SSL_CA: who signed the server's certificate, PEM; the well-known authorities when unset.
    pub ca_file: Option<PathBuf>,
    /// DB_SSL_INSECURE: any certificate is taken.
    pub is_insecure: bool,
}

/// Certificate and key for TLS towards clients, PEM.
#[derive(Clone, Debug)]
pub struct TlsFiles {
    pub certificate: PathBuf,
    pub key: PathBuf,
}

/// An address or a network; a mapped IPv4 address counts as IPv4.
pub fn parse_network(text: &str) -> Option<IpNet> {
    if let Ok(address) = text.parse::<IpAddr>() {
        return Some(IpNet::from(address.to_canonical()));
    }
    text.parse::<IpNet>().ok()
}
