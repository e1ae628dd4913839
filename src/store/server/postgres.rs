//! PostgreSQL, over its extended protocol with statements that are prepared once a connection.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures_util::TryStreamExt;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres::error::SqlState;
use tokio_postgres::{Config, NoTls};

use super::address::ServerAddress;
use super::postgres_values::{Bound, Field};
use super::session::{Client, Session, pause, unreachable};
use super::transport;
use crate::store::connection::{Connection, MigrateError, Opener, Script};
use crate::store::error::{Error, OpenError, Result};
use crate::store::migrate;
use crate::store::sql::{Arg, Outcome, Row, SqlDialect, Statement, Value};
use crate::store::telemetry::log_row::{self, ProxyLogRow};

const QUESTION: Duration = Duration::from_secs(60);
const CHANGE: Duration = Duration::from_secs(60);
/// Many rows at once, or waiting for another instance that migrates.
const LONG: Duration = Duration::from_secs(900);
/// Statements that a connection keeps prepared.
const MOST_PREPARED: usize = 256;
/// How often a change that two instances undid each other is tried again.
const TRIES: u32 = 5;

/// Where to, and with what.
struct PostgresAddress {
    config: Config,
    tls: Option<Arc<rustls::ClientConfig>>,
}

/// A connection that is up.
struct PostgresClient {
    client: tokio_postgres::Client,
    prepared: HashMap<String, tokio_postgres::Statement>,
}

/// A connection as the store sees it.
pub(super) struct Postgres {
    session: Session<PostgresClient>,
}

/// Reads the address, and gives what connects to it.
pub(super) fn dialler(address: ServerAddress) -> Result<Opener, OpenError> {
    // Who verifies and how is ours to do; the driver knows fewer words for it.
    let url = address
        .url
        .replace("sslmode=verify-full", "sslmode=require")
        .replace("sslmode=verify-ca", "sslmode=require");
    let config: Config = url.parse().map_err(|error| wrong_address(&error))?;
    if config.get_hosts().is_empty() {
        return Err(wrong_address(&"it names no host"));
    }
    let tls = address.tls;
    Ok(Arc::new(move || {
        let mut config = config.clone();
        config.ssl_mode(SslMode::Disable);
        if config.get_application_name().is_none() {
            config.application_name("switchyard");
        }
        let session = Session::open(PostgresAddress { config, tls: tls.clone() })?;
        Ok(Box::new(Postgres { session }) as Box<dyn Connection>)
    }))
}

fn wrong_address(why: &dyn std::fmt::Display) -> OpenError {
    OpenError::Unsupported(format!("DB_URL: not an address of a PostgreSQL database: {why}"))
}

// === impl PostgresClient ===

impl Client for PostgresClient {
    type Address = PostgresAddress;

    async fn dial(address: &PostgresAddress) -> Result<Self> {
        let mut last = unreachable("the address names no host");
        for (index, host) in address.config.get_hosts().iter().enumerate() {
            match dial_one(address, index, host).await {
                Ok(client) => return Ok(Self { client, prepared: HashMap::new() }),
                Err(error) => last = error,
            }
        }
        Err(last)
    }
}

async fn dial_one(address: &PostgresAddress, index: usize, host: &Host) -> Result<tokio_postgres::Client> {
    let ports = address.config.get_ports();
    let port = ports.get(index).or(ports.first()).copied().unwrap_or(5432);
    let transport = transport::dial(host, port, address.tls.as_ref()).await;
    let transport = transport.map_err(|error| unreachable(&error.to_string()))?;
    let (client, connection) = address.config.connect_raw(transport, NoTls).await.map_err(failed)?;
    // It ends with the client, and with an error that the next question meets as well.
    tokio::spawn(async move { drop(connection.await) });
    Ok(client)
}

impl PostgresClient {
    async fn prepare(&mut self, sql: &str) -> Result<tokio_postgres::Statement> {
        if let Some(statement) = self.prepared.get(sql) {
            return Ok(statement.clone());
        }
        let spelled = SqlDialect::Postgres.spell(sql);
        let statement = self.client.prepare(&spelled).await.map_err(failed)?;
        if self.prepared.len() >= MOST_PREPARED {
            self.prepared.clear();
        }
        self.prepared.insert(sql.to_owned(), statement.clone());
        Ok(statement)
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

    async fn script(&mut self, sql: &str) -> Result<()> {
        self.client.batch_execute(sql).await.map_err(failed)
    }

    /// Runs statements within a transaction that has begun.
    async fn run(&mut self, statements: &[Statement]) -> Result<Vec<Outcome>> {
        let mut outcomes: Vec<Outcome> = Vec::with_capacity(statements.len());
        for statement in statements {
            let args = bind(&statement.args, &outcomes)?;
            let outcome = match migrate::gives_number(&statement.sql) {
                false => Outcome { rows: self.execute(&statement.sql, &args).await?, last_id: 0 },
                true => {
                    let rows = self.rows(&format!("{} RETURNING id", statement.sql), &args).await?;
                    let last_id = rows.last().map_or(Ok(0), |row| row.fields().int())?;
                    Outcome { rows: rows.len() as u64, last_id }
                }
            };
            if outcome.rows == 0 && statement.must_change {
                return Err(Error::NotFound);
            }
            outcomes.push(outcome);
        }
        Ok(outcomes)
    }

    async fn insert(&mut self, rows: &[ProxyLogRow], at_once: usize) -> Result<()> {
        let sql = format!("INSERT {}", log_row::into(at_once));
        for rows in rows.chunks(at_once) {
            let decisions: Vec<Option<String>> =
                rows.iter().map(|row| row.decision.map(|why| why.to_string())).collect();
            let mut args = Vec::with_capacity(at_once * (log_row::ARGS + 1));
            for (row, decision) in rows.iter().zip(&decisions) {
                args.extend(row.args());
                args.push(decision.as_deref().into());
            }
            self.execute(&sql, &args).await?;
        }
        Ok(())
    }

    /// Ends a transaction that has begun: with everything, or with nothing.
    async fn end<T>(&mut self, done: Result<T>) -> Result<T> {
        match done {
            Ok(done) => self.script("COMMIT").await.map(|()| done),
            Err(error @ Error::Unreachable(_)) => Err(error),
            Err(error) => {
                self.script("ROLLBACK").await?;
                Err(error)
            }
        }
    }
}

// === impl Postgres ===

impl Postgres {
    /// Runs `work` as one transaction. Beginning it can be repeated, and tells a connection that was lost while nobody
    /// used it.
    fn transaction<T>(
        &mut self,
        most: Duration,
        work: impl AsyncFn(&mut PostgresClient) -> Result<T>,
    ) -> Result<T> {
        let mut tries = 0;
        loop {
            self.session.run_again(most, async |client| client.script("BEGIN").await)?;
            let done = self.session.run(most, async |client| {
                let done = work(client).await;
                client.end(done).await
            });
            tries += 1;
            match done {
                Err(Error::Busy) if tries < TRIES => pause(tries),
                done => return done,
            }
        }
    }
}

impl Connection for Postgres {
    fn dialect(&self) -> SqlDialect {
        SqlDialect::Postgres
    }

    fn select(&mut self, sql: &str, args: &[Value]) -> Result<Vec<Row>> {
        let args = bind(args, &[])?;
        self.session.run_again(QUESTION, async |client| client.rows(sql, &args).await)
    }

    fn apply(&mut self, statements: &[Statement]) -> Result<Vec<Outcome>> {
        self.transaction(CHANGE, async |client| client.run(statements).await)
    }

    fn write(&mut self, rows: &[ProxyLogRow], statements: &[Statement], _is_awaited: bool) -> Result<()> {
        self.transaction(CHANGE, async |client| {
            let (together, alone) = rows.split_at(rows.len() - rows.len() % log_row::TOGETHER);
            client.insert(together, log_row::TOGETHER).await?;
            client.insert(alone, 1).await?;
            client.run(statements).await.map(drop)
        })
    }

    fn begin(&mut self) -> Result<()> {
        self.session.run_again(CHANGE, async |client| client.script("BEGIN").await)
    }

    fn run(&mut self, statements: &[Statement]) -> Result<Vec<Outcome>> {
        self.session.run(LONG, async |client| client.run(statements).await)
    }

    fn end(&mut self, keep: bool) -> Result<()> {
        let end = if keep { "COMMIT" } else { "ROLLBACK" };
        self.session.run(LONG, async |client| client.script(end).await)
    }

    fn columns(&mut self, table: &str) -> Result<Vec<String>> {
        let sql = "SELECT CAST(column_name AS TEXT) FROM information_schema.columns \
                   WHERE table_schema = current_schema() AND CAST(table_name AS TEXT) = ? ORDER BY ordinal_position";
        self.select(sql, &[table.into()])?.iter().map(|row| row.fields().text()).collect()
    }

    fn tables(&mut self) -> Result<Vec<String>> {
        let sql = "SELECT CAST(table_name AS TEXT) FROM information_schema.tables \
                   WHERE table_schema = current_schema()";
        self.select(sql, &[])?.iter().map(|row| row.fields().text()).collect()
    }

    fn migrate(&mut self, scripts: &[Script]) -> Result<(), MigrateError> {
        let failed = |step| move |error| MigrateError { step, error };
        self.session.run_again(LONG, async |client| client.script("BEGIN").await).map_err(failed("begin"))?;
        for Script { name, sql, note } in scripts {
            let done = self.session.run(LONG, async |client| {
                client.script(sql).await?;
                client.run(note.as_slice()).await.map(drop)
            });
            if let Err(error) = done {
                let _ = self.session.run(LONG, async |client| client.script("ROLLBACK").await);
                return Err(MigrateError { step: name, error });
            }
        }
        self.session.run(LONG, async |client| client.script("COMMIT").await).map_err(failed("commit"))
    }

    fn stand_still(&mut self) -> Result<()> {
        let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SELECT count(*) FROM settings";
        self.session.run_again(QUESTION, async |client| client.script(begin).await)
    }

    fn apply_staged(&mut self, _file: &Path, _statements: &[Statement]) -> Result<Vec<Outcome>> {
        Err(Error::Database("a backup cannot be imported into PostgreSQL".to_owned()))
    }
}

/// The arguments of a statement, with the ids that earlier ones of its batch gave.
fn bind<'a>(args: &'a [Value], outcomes: &[Outcome]) -> Result<Vec<Arg<'a>>> {
    args.iter().map(|value| value.bound(outcomes)).collect()
}

fn failed(error: tokio_postgres::Error) -> Error {
    let Some(cause) = error.as_db_error() else {
        let source =
            std::error::Error::source(&error).map(|source| format!(": {source}")).unwrap_or_default();
        let text = format!("{error}{source}");
        // What cannot be bound or read is a fault of ours; all else without words of the server is the way to it.
        return match std::error::Error::source(&error).is_some_and(|source| source.is::<std::io::Error>())
            || error.is_closed()
        {
            true => Error::Unreachable(text),
            false => Error::Database(text),
        };
    };
    let what = || cause.constraint().unwrap_or(cause.message()).to_owned();
    match *cause.code() {
        SqlState::UNIQUE_VIOLATION => Error::Conflict(what()),
        SqlState::FOREIGN_KEY_VIOLATION => Error::Dangling(what()),
        SqlState::T_R_SERIALIZATION_FAILURE | SqlState::T_R_DEADLOCK_DETECTED => Error::Busy,
        SqlState::DISK_FULL => Error::Full(cause.message().to_owned()),
        SqlState::ADMIN_SHUTDOWN
        | SqlState::CRASH_SHUTDOWN
        | SqlState::CANNOT_CONNECT_NOW
        | SqlState::TOO_MANY_CONNECTIONS
        | SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT => Error::Unreachable(cause.message().to_owned()),
        _ => Error::Database(format!("{} (SQLSTATE {})", cause.message(), cause.code().code())),
    }
}
