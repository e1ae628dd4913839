//! Selects the driver for a kind of database, among those that this build has.

#[cfg(feature = "postgres")]
use super::listener;
#[cfg(feature = "mysql")]
use super::mysql;
#[cfg(any(feature = "postgres", feature = "mysql"))]
use super::open;
#[cfg(feature = "postgres")]
use super::postgres;
use crate::config::{DatabaseKind, DatabaseTls};
use crate::store::connection::Connection;
use crate::store::error::OpenError;
use crate::store::opened::OpenedDatabase;
use crate::store::options::StoreOptions;

/// Opens a database on a server, and waits for a server that is not reachable yet.
pub(in crate::store) fn open(options: &StoreOptions) -> Result<OpenedDatabase, OpenError> {
    match options.kind {
        #[cfg(feature = "postgres")]
        DatabaseKind::Postgres => {
            open::open(options, postgres::dialler, |address| listener::listener(address).map(Some))
        }
        #[cfg(feature = "mysql")]
        DatabaseKind::MySql => open::open(options, mysql::dialler, |_| Ok(None)),
        kind => Err(not_built_in(kind)),
    }
}

/// Connects to a database on a server. Blocks, and must not be called where requests are served.
pub(in crate::store) fn connect(
    kind: DatabaseKind,
    url: &str,
    tls: &DatabaseTls,
) -> Result<Box<dyn Connection>, OpenError> {
    match kind {
        #[cfg(feature = "postgres")]
        DatabaseKind::Postgres => open::connect(kind, url, tls, postgres::dialler),
        #[cfg(feature = "mysql")]
        DatabaseKind::MySql => open::connect(kind, url, tls, mysql::dialler),
        kind => {
            let _ = (url, tls);
            Err(not_built_in(kind))
        }
    }
}

/// Whether this build has the driver for this kind of server.
pub(in crate::store) fn is_built_in(kind: DatabaseKind) -> bool {
    match kind {
        DatabaseKind::Sqlite => false,
        DatabaseKind::Postgres => cfg!(feature = "postgres"),
        DatabaseKind::MySql => cfg!(feature = "mysql"),
    }
}

fn not_built_in(kind: DatabaseKind) -> OpenError {
    OpenError::Unsupported(format!(
        "DB_TYPE: this build has no {}; build it with `--features {}`, or use SQLite",
        kind.title(),
        kind.as_str()
    ))
}
