//! PostgreSQL and MySQL: one server, any number of instances.
//!
//! | file | what it holds |
//! |---|---|
//! | `drivers`, `open` | which driver leads to which database; from an address to a database that is up to date |
//! | `address`, `masked` | DB_URL and the variables of TLS, read; an address as it may be shown |
//! | `session` | a connection that comes back by itself; the runtime that each has to itself |
//! | `transport` | sockets to a server, with TLS where it is asked for |
//! | `postgres`, `postgres_values` | PostgreSQL; its values on the wire |
//! | `mysql` | MySQL and MariaDB |
//!
//! ```text
//! threads of the store ── Connection ──▶ Session ── drives ──▶ a client on a runtime of its own
//!                                          │ lost: dialled again with the next question, at most every so often
//! ```
//!
//! A change that meets a lost connection is not repeated: nobody knows whether it holds. A question is.

#[cfg(any(feature = "postgres", feature = "mysql"))]
mod address;
pub(super) mod drivers;
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
mod session;
#[cfg(feature = "postgres")]
mod transport;
