//! MySQL and MariaDB, over the binary protocol with statements that are prepared once a connection.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use mysql_async::consts::ColumnType;
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Opts, OptsBuilder, Params, SslOpts};

use super::address::ServerAddress;
use super::session::{Client, Session, pause};
use crate::store::connection::{Connection, MigrateError, Opener, Script};
use crate::store::error::{Error, OpenError, Result};
use crate::store::sql::{Arg, Outcome, Row, SqlDialect, Statement, Value};
use crate::store::telemetry::log_row::{self, ProxyLogRow};

const QUESTION: Duration = Duration::from_secs(60);
const CHANGE: Duration = Duration::from_secs(60);
/// Many rows at once, or waiting for another instance that migrates.
const LONG: Duration = Duration::from_secs(900);
/// Statements that a connection keeps prepared.
const MOST_PREPARED: usize = 256;
const PROBED_AFTER: Duration = Duration::from_secs(10);
/// How often a change that two instances undid each other is tried again.
const TRIES: u32 = 5;

/// What a session is told first: what is read is what is committed; `||` joins texts and double quotes mean names, as in
/// the other databases; a value that does not fit is an error; times are in UTC; texts are compared byte by byte.
const SETUP: [&str; 2] = [
    "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
    "SET SESSION sql_mode = 'ANSI_QUOTES,PIPES_AS_CONCAT,STRICT_ALL_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION', \
     time_zone = '+00:00', collation_connection = 'utf8mb4_bin'",
];

/// Errors of a step that an earlier start has taken in part: the table is there, the column, the index; what was to go
/// is gone. MySQL cannot undo a change of the schema, so a step goes on behind them.
const TAKEN: [u16; 4] = [1050, 1060, 1061, 1091];

struct MysqlClient {
    connection: Conn,
}

/// A connection as the store sees it.
struct Mysql {
    session: Session<MysqlClient>,
}

/// Reads the address, and gives what connects to it.
pub(super) fn dialler(address: ServerAddress) -> Result<Opener, OpenError> {
    // What other programs write behind the address is not this driver's.
    let url = address.url.split('?').next().unwrap_or(&address.url);
    let wrong =
        |error| OpenError::Unsupported(format!("DB_URL: not an address of a MySQL database: {error}"));
    let opts = Opts::from_url(url).map_err(wrong)?;
    let tls = address.tls.is_some().then(|| {
        let options = &address.tls_options;
        let tls = SslOpts::default().with_danger_accept_invalid_certs(options.is_insecure);
        let tls = tls.with_danger_skip_domain_validation(options.is_insecure);
        match &options.ca_file {
            Some(path) => tls.with_root_certs(vec![path.clone().into()]).with_disable_built_in_roots(true),
            None => tls,
        }
    });
    let opts: Opts = OptsBuilder::from_opts(opts)
        .ssl_opts(tls)
        .prefer_socket(false)
        .tcp_nodelay(true)
        .tcp_keepalive(Some(PROBED_AFTER))
        .stmt_cache_size(MOST_PREPARED)
        // Rows that were found, not only those whose values are others now: as the other databases count.
        .client_found_rows(true)
        .setup(SETUP.to_vec())
        .into();
    Ok(Arc::new(move || {
        let session = Session::open(opts.clone())?;
        Ok(Box::new(Mysql { session }) as Box<dyn Connection>)
    }))
}

// === impl MysqlClient ===

impl Client for MysqlClient {
    type Address = Opts;

    async fn dial(address: &Opts) -> Result<Self> {
        Ok(Self { connection: Conn::new(address.clone()).await.map_err(failed)? })
    }
}

impl MysqlClient {
    /// A statement that is prepared, and wants as many arguments as it gets: the driver gives up the connection
    /// otherwise.
    async fn prepare(&mut self, sql: &str, args: &[Arg<'_>]) -> Result<mysql_async::Statement> {
        let statement = self.connection.prep(sql).await.map_err(failed)?;
        let wanted = usize::from(statement.num_params());
        if wanted != args.len() {
            return Err(Error::Database(format!("{} arguments for {wanted} placeholders", args.len())));
        }
        Ok(statement)
    }

    async fn rows(&mut self, sql: &str, args: &[Arg<'_>]) -> Result<Vec<Row>> {
        let statement = self.prepare(sql, args).await?;
        let found: Vec<mysql_async::Row> =
            self.connection.exec(statement, params(args)).await.map_err(failed)?;
        found.into_iter().map(row).collect()
    }

    async fn execute(&mut self, sql: &str, args: &[Arg<'_>]) -> Result<Outcome> {
        let statement = self.prepare(sql, args).await?;
        self.connection.exec_drop(statement, params(args)).await.map_err(failed)?;
        let last_id = self.connection.last_insert_id().unwrap_or(0);
        Ok(Outcome {
            rows: self.connection.affected_rows(),
            last_id: i64::try_from(last_id).unwrap_or(i64::MAX),
        })
    }

    async fn script(&mut self, sql: &str) -> Result<()> {
        self.connection.query_drop(sql).await.map_err(failed)
    }

    /// Runs statements within a transaction that has begun.
    async fn run(&mut self, statements: &[Statement]) -> Result<Vec<Outcome>> {
        let mut outcomes: Vec<Outcome> = Vec::with_capacity(statements.len());
        for statement in statements {
            let args: Vec<Arg<'_>> =
                statement.args.iter().map(|value| value.bound(&outcomes)).collect::<Result<_>>()?;
            let outcome = self.execute(&statement.sql, &args).await?;
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

    /// Runs one step of the schema, statement by statement.
    async fn step(&mut self, script: &Script) -> Result<()> {
        for statement in script.sql.split(";\n").map(without_comments).filter(|sql| !sql.is_empty()) {
            match self.connection.query_drop(statement).await {
                Err(mysql_async::Error::Server(error)) if TAKEN.contains(&error.code) => {}
                done => done.map_err(failed)?,
            }
        }
        self.run(script.note.as_slice()).await.map(drop)
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

// === impl Mysql ===

impl Mysql {
    /// Runs `work` as one transaction. Beginning it can be repeated, and tells a connection that was lost while nobody
    /// used it.
    fn transaction<T>(&mut self, work: impl AsyncFn(&mut MysqlClient) -> Result<T>) -> Result<T> {
        let mut tries = 0;
        loop {
            self.session.run_again(CHANGE, async |client| client.script("START TRANSACTION").await)?;
            let done = self.session.run(CHANGE, async |client| {
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

impl Connection for Mysql {
    fn dialect(&self) -> SqlDialect {
        SqlDialect::Mysql
    }

    fn select(&mut self, sql: &str, args: &[Value]) -> Result<Vec<Row>> {
        let args: Vec<Arg<'_>> = args.iter().map(|value| value.bound(&[])).collect::<Result<_>>()?;
        self.session.run_again(QUESTION, async |client| client.rows(sql, &args).await)
    }

    fn apply(&mut self, statements: &[Statement]) -> Result<Vec<Outcome>> {
        self.transaction(async |client| client.run(statements).await)
    }

    fn write(&mut self, rows: &[ProxyLogRow], statements: &[Statement], _is_awaited: bool) -> Result<()> {
        self.transaction(async |client| {
            let (together, alone) = rows.split_at(rows.len() - rows.len() % log_row::TOGETHER);
            client.insert(together, log_row::TOGETHER).await?;
            client.insert(alone, 1).await?;
            client.run(statements).await.map(drop)
        })
    }

    fn begin(&mut self) -> Result<()> {
        self.session.run_again(CHANGE, async |client| client.script("START TRANSACTION").await)
    }

    fn run(&mut self, statements: &[Statement]) -> Result<Vec<Outcome>> {
        self.session.run(LONG, async |client| client.run(statements).await)
    }

    fn end(&mut self, keep: bool) -> Result<()> {
        let end = if keep { "COMMIT" } else { "ROLLBACK" };
        self.session.run(LONG, async |client| client.script(end).await)
    }

    fn columns(&mut self, table: &str) -> Result<Vec<String>> {
        let sql = "SELECT column_name FROM information_schema.columns \
                   WHERE table_schema = DATABASE() AND table_name = ? ORDER BY ordinal_position";
        self.select(sql, &[table.into()])?.iter().map(|row| row.fields().text()).collect()
    }

    fn tables(&mut self) -> Result<Vec<String>> {
        let sql = "SELECT table_name FROM information_schema.tables WHERE table_schema = DATABASE()";
        self.select(sql, &[])?.iter().map(|row| row.fields().text()).collect()
    }

    fn migrate(&mut self, scripts: &[Script]) -> Result<(), MigrateError> {
        for script in scripts {
            let done = self.session.run(LONG, async |client| client.step(script).await);
            done.map_err(|error| MigrateError { step: script.name, error })?;
        }
        Ok(())
    }

    fn stand_still(&mut self) -> Result<()> {
        self.session.run_again(QUESTION, async |client| {
            client.script("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ").await?;
            client.script("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY").await
        })
    }

    fn apply_staged(&mut self, _file: &Path, _statements: &[Statement]) -> Result<Vec<Outcome>> {
        Err(Error::Database("a backup cannot be imported into MySQL".to_owned()))
    }
}

/// A statement of a script without the lines before it that say what it is for.
fn without_comments(sql: &str) -> &str {
    let mut rest = sql.trim();
    while let Some(comment) = rest.strip_prefix("--") {
        rest = comment.split_once('\n').map_or("", |(_, rest)| rest.trim_start());
    }
    rest.trim_end_matches(';')
}

fn params(args: &[Arg<'_>]) -> Params {
    if args.is_empty() {
        return Params::Empty;
    }
    let bound = args.iter().map(|arg| match *arg {
        Arg::Null => mysql_async::Value::NULL,
        Arg::Bool(value) => mysql_async::Value::Int(i64::from(value)),
        Arg::Int(value) => mysql_async::Value::Int(value),
        Arg::Real(value) => mysql_async::Value::Double(value),
        Arg::Text(value) => mysql_async::Value::Bytes(value.as_bytes().to_vec()),
        Arg::Blob(value) => mysql_async::Value::Bytes(value.to_vec()),
    });
    Params::Positional(bound.collect())
}

fn row(row: mysql_async::Row) -> Result<Row> {
    let columns = row.columns();
    let fields = row.unwrap();
    let field = |(column, value): (&mysql_async::Column, mysql_async::Value)| {
        Ok(match value {
            mysql_async::Value::NULL => Value::Null,
            mysql_async::Value::Int(value) => Value::Int(value),
            mysql_async::Value::UInt(value) => Value::Int(i64::try_from(value).unwrap_or(i64::MAX)),
            mysql_async::Value::Float(value) => Value::Real(value.into()),
            mysql_async::Value::Double(value) => Value::Real(value),
            mysql_async::Value::Bytes(bytes) => match column.column_type() {
                // Sums of integers.
                ColumnType::MYSQL_TYPE_DECIMAL | ColumnType::MYSQL_TYPE_NEWDECIMAL => decimal(&bytes)?,
                // The character set by which the server marks bytes that are no text.
                _ if column.character_set() == 63 => Value::Blob(bytes),
                _ => Value::Text(String::from_utf8(bytes).map_err(|_| unreadable("a text"))?),
            },
            _ => return Err(unreadable("a date")),
        })
    };
    Ok(Row(columns.iter().zip(fields).map(field).collect::<Result<_>>()?))
}

/// A number that comes as digits: an integer unless it has places behind the point.
fn decimal(digits: &[u8]) -> Result<Value> {
    let text = str::from_utf8(digits).map_err(|_| unreadable("a number"))?;
    if let Ok(whole) = text.parse() {
        return Ok(Value::Int(whole));
    }
    text.parse().map(Value::Real).map_err(|_| unreadable("a number"))
}

fn unreadable(what: &str) -> Error {
    Error::Database(format!("{what} that cannot be read"))
}

fn failed(error: mysql_async::Error) -> Error {
    let error = match error {
        mysql_async::Error::Server(error) => error,
        mysql_async::Error::Io(error) => return Error::Unreachable(error.to_string()),
        mysql_async::Error::Driver(mysql_async::DriverError::ConnectionClosed) => {
            return Error::Unreachable("the server has closed the connection".to_owned());
        }
        other => return Error::Database(other.to_string()),
    };
    // Numbers of the server (MySQL reference manual, "Server Error Message Reference").
    match error.code {
        1062 | 1586 => Error::Conflict(error.message),
        1216 | 1217 | 1451 | 1452 => Error::Dangling(error.message),
        1205 | 1213 => Error::Busy,
        1021 | 1114 => Error::Full(error.message),
        1040 | 1053 | 1203 | 1927 => Error::Unreachable(error.message),
        code => Error::Database(format!("{} ({code})", error.message)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_is_found_behind_its_comment() {
        let sql = "-- Sites, and -- more.\n-- Second line.\nCREATE TABLE a (\n  id INT -- not this\n)";
        assert!(without_comments(sql).starts_with("CREATE TABLE a"));
        assert_eq!(without_comments("-- nothing"), "");
    }

    #[test]
    fn a_sum_is_an_integer_and_an_average_is_not() {
        assert_eq!(decimal(b"12345"), Ok(Value::Int(12345)));
        assert_eq!(decimal(b"1.5000"), Ok(Value::Real(1.5)));
    }
}
