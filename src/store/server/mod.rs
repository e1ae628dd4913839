//! PostgreSQL and MySQL: one server, any number of instances.
//!
//! | file | what it holds |
//! |---|---|
//! | `drivers`, `open` | which driver leads to which database; from an address to a database that is up to date |
//! | `address`, `masked` | DB_URL and the variables of TLS, read; an address as it may be shown |
//! | `client` | what a driver is |
//! | `remote`, `marks` | a connection as the store sees it, whichever driver is below; which changes the database has |
//! | `staged` | the rows of an import, where statements can read them |
//! | `session` | a connection that comes back by itself; the runtime that each has to itself |
//! | `transport` | sockets to a server, with TLS where it is asked for |
//! | `postgres`, `postgres_values`, `listener` | PostgreSQL; its values on the wire; word of others' changes |
//! | `mysql` | MySQL and MariaDB |
//!
//! ```text
//! threads of the store ── Connection ──▶ Remote ──▶ Session ── drives ──▶ a client on a runtime of its own
//!                                                     │ lost: dialled again with the next question, at most every
//!                                                     │ so often
//! ```
//!
//! What meets a lost connection is repeated: a question as it is, a change unless the mark of its transaction says
//! that it was committed.

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
