//! PostgreSQL and MySQL: one server, any number of instances.
//!
//! | file | what it holds |
//! |---|---|
//! | `drivers`, `open` | selecting the driver; opening a database and bringing it up to date |
//! | `address`, `masked` | parsed DB_URL and TLS settings; an address without its secrets |
//! | `client` | the driver trait |
//! | `remote`, `marks` | the store's connection over any driver; marks of committed transactions |
//! | `staged` | the rows of an import, made readable for statements |
//! | `session` | a connection that reconnects by itself, with its own runtime |
//! | `transport` | sockets to a server, with TLS where it is asked for |
//! | `postgres`, `postgres_values`, `listener` | PostgreSQL; its values on the wire; its notifications of changes |
//! | `mysql` | MySQL and MariaDB |
//!
//! ```text
//! threads of the store ── Connection ──▶ Remote ──▶ Session ── drives ──▶ a client on a runtime of its own
//!                                                     │ lost: reconnects with the next query, with pauses
//!                                                     │ between attempts
//! ```
//!
//! What fails because of a lost connection is repeated: a query as it is, a change unless the mark of its
//! transaction shows that it was committed.

#[cfg(any(feature = "postgres", feature = "mysql"))]
mod address;
#[cfg(any(feature = "postgres", feature = "mysql"))]
mod client;
pub(super) mod drivers;
#[cfg(feature = "postgres")]
mod listener;
#[cfg(any(feature = "postgres", feature = "mysql"))]
mod marks;
pub(super) mod masked;
#[cfg(feature = "mysql")]
mod mysql;
#[cfg(any(feature = "postgres", feature = "mysql"))]
mod open;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "postgres")]
mod postgres_values;
#[cfg(any(feature = "postgres", feature = "mysql"))]
mod remote;
#[cfg(any(feature = "postgres", feature = "mysql"))]
mod session;
#[cfg(any(feature = "postgres", feature = "mysql"))]
mod staged;
#[cfg(feature = "postgres")]
mod transport;
