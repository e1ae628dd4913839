//! PostgreSQL, over its extended protocol with statements that are prepared once per connection.

use std::collections::HashMap;
use std::future::pending;
use std::pin::Pin;
use std::sync::Arc;

use futures_util::TryStreamExt;
use tokio::time::timeout;
use tokio_postgres::config::{Host, SslMode, TargetSessionAttrs};
use tokio_postgres::error::SqlState;
use tokio_postgres::tls::NoTlsStream;
use tokio_postgres::{Config, NoTls, SimpleQueryMessage};

use super::address::{ENCODE, ServerAddress};
use super::client::{Client, Name, Words, name};
use super::postgres_values::{Bound, Field};
use super::remote::Remote;
use super::session::{DIALLING, unreachable};
use super::transport::{self, Transport};
use crate::store::connection::{Connection, Opener};
use crate::store::error::{Error, OpenError, Result};
use crate::store::sql::{Arg, LOWER_ALL, Outcome, Row, SqlDialect};

/// The number of statements that a connection keeps prepared.
const MOST_PREPARED: usize = 256;
/// Collations that lower every letter, the preferred one first: of ICU, of PostgreSQL 17, of the system.
const LOWERS_ALL: &str = "SELECT CAST(collname AS TEXT) FROM pg_collation, (VALUES (1, 'und-x-icu'), (2, 'pg_c_utf8'), \
     (3, 'C.utf8'), (4, 'en_US.utf8')) AS known (place, name) \
     WHERE collname = name AND pg_collation_is_visible(pg_collation.oid) AND getdatabaseencoding() = 'UTF8' \
     AND collencoding IN (-1, pg_char_to_encoding('UTF8')) ORDER BY place LIMIT 1";
/// The collation of our columns, which lowers ASCII letters alone.
const BYTE_WISE: &str = "C";
/// Database encodings that can store what is sent in UTF-8.
const TAKES_UTF8: [&str; 2] = ["UTF8", "SQL_ASCII"];

/// The parsed address of a server, with its TLS configuration.
#[derive(Clone)]
pub(super) struct PostgresAddress {
    config: Config,
    tls: Option<Arc<rustls::ClientConfig>>,
}

/// The half of a connection that must be polled to move its bytes.
type Polled = tokio_postgres::Connection<Pin<Box<dyn Transport>>, NoTlsStream>;

/// An open connection.
struct PostgresClient {
    client: tokio_postgres::Client,
    prepared: HashMap<String, tokio_postgres::Statement>,
    name: Name,
    /// The database's collation that lowers every letter, once it was looked up.
    lowers_all: Option<String>,
}

/// Parses the address, and returns the function that connects to it.
pub(super) fn dialler(address: ServerAddress) -> Result<Opener, OpenError> {
    let address = read(&address)?;
    Ok(Arc::new(move || {
        let remote = Remote::<PostgresClient>::open(address.clone())?;
        Ok(Box::new(remote) as Box<dyn Connection>)
    }))
}

pub(super) fn read(address: &ServerAddress) -> Result<PostgresAddress, OpenError> {
    // Certificates are verified by our own TLS configuration; the driver does not know these words.
    let url = address
        .url
        .replace("sslmode=verify-full", "sslmode=require")
        .replace("sslmode=verify-ca", "sslmode=require")
        .replace("target_session_attrs=primary", "target_session_attrs=read-write");
    let mut config: Config = url.parse().map_err(|error| {
        let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}")).unwrap_or_default();
        wrong_address(&format!("{error}{cause}. {ENCODE}"))
    })?;
    if config.get_hosts().is_empty() {
        return Err(wrong_address("it names no host"));
    }
    if config.get_target_session_attrs() == TargetSessionAttrs::ReadOnly {
        return Err(wrong_address(
            "a server with target_session_attrs=read-only takes no changes: leave it out",
        ));
    }
    config.ssl_mode(SslMode::Disable);
    if config.get_application_name().is_none() {
        config.application_name("switchyard");
    }
    Ok(PostgresAddress { config, tls: address.tls.clone() })
}

fn wrong_address(why: &str) -> OpenError {
    OpenError::Unsupported(format!("DB_URL: not an address of a PostgreSQL database: {why}"))
}

// === impl PostgresClient ===

impl Client for PostgresClient {
    type Address = PostgresAddress;

    const WORDS: Words = Words {
        dialect: SqlDialect::Postgres,
        take_turn: "SELECT CAST(CASE WHEN pg_try_advisory_lock(8318115427910541) THEN 1 ELSE 0 END AS BIGINT)",
        end_turn: "SELECT pg_advisory_unlock(8318115427910541)",
        begin: "BEGIN ISOLATION LEVEL READ COMMITTED",
        begin_snapshot: &["BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SELECT count(*) FROM settings"],
        // Also those that this user may not read, which information_schema leaves out.
        tables: "SELECT CAST(tablename AS TEXT) FROM pg_tables WHERE schemaname = current_schema()",
        columns: "SELECT CAST(column_name AS TEXT) FROM information_schema.columns \
                  WHERE table_schema = current_schema() AND CAST(table_name AS TEXT) = ? ORDER BY ordinal_position",
        drop_temporary: "DROP TABLE IF EXISTS",
        highest_id: "SELECT pg_sequence_last_value(CAST(pg_get_serial_sequence(?, 'id') AS regclass))",
        advance_ids: Some(
            "SELECT setval(s, n) FROM (SELECT CAST(pg_get_serial_sequence('{table}', 'id') AS regclass) AS s, \
             GREATEST(MAX(id), pg_sequence_last_value(CAST(pg_get_serial_sequence('{table}', 'id') AS regclass))) AS n \
             FROM {table}) numbers WHERE n > 0",
        ),
        undoes_schema: true,
        tell: Some("SELECT pg_notify('switchyard_changes', ?)"),
    };

    async fn dial(address: &PostgresAddress) -> Result<Self> {
        let (client, connection) = dial_any(address).await?;
        if let Some(encoding) =
            connection.parameter("server_encoding").filter(|name| !TAKES_UTF8.contains(name))
        {
            return Err(Error::Database(format!(
                "its encoding is {encoding}, which cannot store every text: create the database WITH \
                 ENCODING 'UTF8' TEMPLATE template0"
            )));
        }
        // The task ends with the client or with an error, which the next query meets as well.
        tokio::spawn(async move { drop(connection.await) });
        Self::greet(client).await
    }

    async fn rows(&mut self, sql: &str, args: &[Arg<'_>]) -> Result<Vec<Row>> {
        let statement = self.prepare(sql).await?;
        let bound: Vec<Bound<'_>> = args.iter().copied().map(Bound).collect();
        let rows = self.client.query_raw(&statement, &bound).await.map_err(failed)?;
        let row = |row: tokio_postgres::Row| {
            let fields = (0..row.len()).map(|index| row.try_get::<_, Field>(index).map(|field| field.0));
            Ok(Row(fields.collect::<Result<_, _>>()?))
        };
        rows.and_then(async |found| row(found)).try_collect().await.map_err(failed)
    }

    async fn execute(&mut self, sql: &str, args: &[Arg<'_>]) -> Result<u64> {
        let statement = self.prepare(sql).await?;
        let bound: Vec<Bound<'_>> = args.iter().copied().map(Bound).collect();
        self.client.execute_raw(&statement, &bound).await.map_err(failed)
    }

    async fn insert(&mut self, sql: &str, args: &[Arg<'_>]) -> Result<Outcome> {
        let rows = self.rows(&format!("{sql} RETURNING id"), args).await?;
        let last_id = rows.last().map_or(Ok(0), |row| row.fields().int())?;
        Ok(Outcome { rows: rows.len() as u64, last_id })
    }

    async fn script(&mut self, sql: &str) -> Result<()> {
        self.client.batch_execute(sql).await.map_err(failed)
    }

    async fn step(&mut self, sql: &str) -> Result<()> {
        self.script(sql).await
    }

    fn name(&self) -> &Name {
        &self.name
    }

    async fn end(&mut self, other: &Name) -> Result<()> {
        let sql = "SELECT CAST(pg_terminate_backend(pid) AS TEXT) FROM pg_stat_activity \
                   WHERE pid = ? AND CAST(backend_start AS TEXT) = ?";
        self.rows(sql, &[Arg::Int(other.number), Arg::Text(&other.apart)]).await.map(drop)
    }
}

impl PostgresClient {
    /// Asks an open connection for its identifier.
    async fn greet(client: tokio_postgres::Client) -> Result<Self> {
        let nameless = Name { number: 0, apart: String::new() };
        let mut greeted = Self { client, prepared: HashMap::new(), name: nameless, lowers_all: None };
        let sql =
            "SELECT pid, CAST(backend_start AS TEXT) FROM pg_stat_activity WHERE pid = pg_backend_pid()";
        greeted.name = name(&greeted.rows(sql, &[]).await?)?;
        Ok(greeted)
    }

    async fn prepare(&mut self, sql: &str) -> Result<tokio_postgres::Statement> {
        if let Some(statement) = self.prepared.get(sql) {
            return Ok(statement.clone());
        }
        let collation = if sql.contains(LOWER_ALL) { self.lowering_all().await? } else { BYTE_WISE };
        let spelled = SqlDialect::Postgres.translate(sql, collation);
        let statement = self.client.prepare(&spelled).await.map_err(failed)?;
        if self.prepared.len() >= MOST_PREPARED {
            self.prepared.clear();
        }
        self.prepared.insert(sql.to_owned(), statement.clone());
        Ok(statement)
    }

    /// Returns the collation that lowers every letter; where the database has none, the one of our columns.
    async fn lowering_all(&mut self) -> Result<&str> {
        if self.lowers_all.is_none() {
            let found = self.client.query_opt(LOWERS_ALL, &[]).await.map_err(failed)?;
            let name = found.map(|row| row.try_get(0)).transpose().map_err(failed)?;
            self.lowers_all = Some(name.unwrap_or_else(|| BYTE_WISE.to_owned()));
        }
        Ok(self.lowers_all.as_deref().unwrap_or(BYTE_WISE))
    }
}

/// Connects to the first host of the address that accepts the connection, and changes if it may be a standby; returns the
/// client, and the half that has to be polled. Each host has its share of the time for connecting.
pub(super) async fn dial_any(address: &PostgresAddress) -> Result<(tokio_postgres::Client, Polled)> {
    let (mut last, mut is_any_silent) = (unreachable("the address names no host"), false);
    let hosts = address.config.get_hosts();
    let share = DIALLING / u32::try_from(hosts.len()).unwrap_or(u32::MAX);
    for (index, host) in hosts.iter().enumerate() {
        match timeout(share, dial_one(address, index, host)).await {
            Ok(Ok(dialled)) => return Ok(dialled),
            Ok(Err(error)) => last = error,
            Err(_) => is_any_silent = true,
        }
    }
    if is_any_silent {
        // The one that matters may be the silent one: the caller's limit of time ends this.
        pending::<()>().await;
    }
    Err(last)
}

async fn dial_one(
    address: &PostgresAddress,
    index: usize,
    host: &Host,
) -> Result<(tokio_postgres::Client, Polled)> {
    let ports = address.config.get_ports();
    let port = ports.get(index).or(ports.first()).copied().unwrap_or(5432);
    let transport = transport::dial(host, port, address.tls.as_ref()).await?;
    let (client, mut connection) = address.config.connect_raw(transport, NoTls).await.map_err(failed)?;
    let may_be_standby = address.config.get_hosts().len() > 1
        || address.config.get_target_session_attrs() == TargetSessionAttrs::ReadWrite;
    if may_be_standby && is_read_only(&client, &mut connection).await? {
        return Err(unreachable("it accepts no changes, as a standby does"));
    }
    Ok((client, connection))
}

async fn is_read_only(client: &tokio_postgres::Client, connection: &mut Polled) -> Result<bool> {
    let answer = tokio::select! {
        answer = client.simple_query("SHOW transaction_read_only") => answer,
        _ = connection => return Err(unreachable("it has closed the connection")),
    };
    let is_on = |message: &SimpleQueryMessage| match message {
        SimpleQueryMessage::Row(row) => row.get(0) == Some("on"),
        _ => false,
    };
    Ok(answer.map_err(failed)?.iter().any(is_on))
}

pub(super) fn failed(error: tokio_postgres::Error) -> Error {
    let Some(cause) = error.as_db_error() else {
        let source =
            std::error::Error::source(&error).map(|source| format!(": {source}")).unwrap_or_default();
        let text = format!("{error}{source}");
        // A value that cannot be bound or read is our own fault; any other error that does not come from the
        // server is one of the connection.
        let is_of_connection =
            std::error::Error::source(&error).is_some_and(|source| source.is::<std::io::Error>());
        let is_lost = is_of_connection || error.is_closed();
        return if is_lost { Error::Unreachable(text) } else { Error::Database(text) };
    };
    let what = || cause.constraint().unwrap_or(cause.message()).to_owned();
    match *cause.code() {
        SqlState::UNIQUE_VIOLATION => Error::Conflict(what()),
        SqlState::FOREIGN_KEY_VIOLATION => Error::Dangling(what()),
        SqlState::T_R_SERIALIZATION_FAILURE
        | SqlState::T_R_DEADLOCK_DETECTED
        | SqlState::LOCK_NOT_AVAILABLE
        | SqlState::QUERY_CANCELED => Error::Busy,
        // The server is no longer the primary: another connection may lead to the one that is.
        SqlState::READ_ONLY_SQL_TRANSACTION => {
            Error::Unreachable(format!("it accepts no changes: {}", cause.message()))
        }
        SqlState::DISK_FULL => Error::Full(cause.message().to_owned()),
        // Values that the server does not take: of a wrong form, against a constraint, or too large.
        ref code if ["22", "23", "54"].iter().any(|class| code.code().starts_with(class)) => {
            Error::Refused(format!("{} (SQLSTATE {})", cause.message(), code.code()))
        }
        SqlState::ADMIN_SHUTDOWN
        | SqlState::CRASH_SHUTDOWN
        | SqlState::CANNOT_CONNECT_NOW
        | SqlState::TOO_MANY_CONNECTIONS
        | SqlState::IDLE_SESSION_TIMEOUT
        | SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT => Error::Unreachable(cause.message().to_owned()),
        // Errors of the connection, as a program between us and the server sends them.
        ref code if code.code().starts_with("08") => Error::Unreachable(cause.message().to_owned()),
        _ => Error::Database(format!("{} (SQLSTATE {})", cause.message(), cause.code().code())),
    }
}
