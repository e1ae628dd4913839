//! Values that are made of several variables, or read in one place for many.

use std::net::IpAddr;
use std::path::PathBuf;

use ipnet::IpNet;

/// Where the service listens when nobody chose a port.
pub const DEFAULT_PORT: u16 = 4000;

/// Which database keeps the state.
pub struct DatabaseConfig {
    /// The others are known, and refused at the start ([`store`](crate::store)): this build has SQLite alone.
    pub kind: DatabaseKind,
    /// Blank for SQLite means `switchyard.db` in the data directory.
    pub url: String,
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
