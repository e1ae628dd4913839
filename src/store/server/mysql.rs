//! MySQL and MariaDB, over the binary protocol with statements that are prepared once per connection.

use std::sync::Arc;
use std::time::Duration;

use mysql_async::consts::ColumnType;
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, DriverError, IoError, Opts, OptsBuilder, Params, SslOpts};

use super::address::{ENCODE, ServerAddress};
use super::client::{Client, Name, Words, name};
use super::remote::Remote;
use super::session::{no_tls, no_way};
use crate::store::connection::{Connection, Opener};
use crate::store::error::{Error, OpenError, Result};
use crate::store::sql::{Arg, Outcome, Row, SqlDialect, Value};

/// The number of statements that a connection keeps prepared.
const MOST_PREPARED: usize = 256;
const PROBED_AFTER: Duration = Duration::from_secs(10);

/// The setup of every session: reads see committed data; texts are sent and returned in UTF-8 and compared byte by byte; `||`
/// joins texts and double quotes enclose names, as in the other databases; a value that does not fit is an error; times are in
/// UTC; a statement outside a transaction is committed. Tables support transactions, and a statement may change many rows,
/// whatever the server's own defaults are. MySQL looks up the highest id of a table each time: by default, it repeats what it
/// found within a day.
const SETUP: [&str; 3] = [
    "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
    "SET NAMES utf8mb4 COLLATE utf8mb4_bin",
    "SET SESSION sql_mode = 'ANSI_QUOTES,PIPES_AS_CONCAT,STRICT_ALL_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION', \
     time_zone = '+00:00', autocommit = 1, sql_safe_updates = 0, default_storage_engine = 'InnoDB' \
     /*!80000 , information_schema_stats_expiry = 0 */",
];

/// Errors of a step that an earlier start carried out in part: the table, column or index exists, or what was
/// to be dropped is gone. MySQL cannot roll back a schema change, so the step continues after them.
const TAKEN: [u16; 4] = [1050, 1060, 1061, 1091];

struct MysqlClient {
    connection: Conn,
    name: Name,
    /// The size of the largest statement that the server takes, in bytes.
    max_packet: usize,
}

/// Parses the address, and returns the function that connects to it.
pub(super) fn dialler(address: ServerAddress) -> Result<Opener, OpenError> {
    // Parameters that other programs append to the address are not meant for this driver.
    let url = address.url.split('?').next().unwrap_or(&address.url);
    let opts = Opts::from_url(url).map_err(|error| {
        OpenError::Unsupported(format!("DB_URL: not an address of a MySQL database: {error}. {ENCODE}"))
    })?;
    if opts.db_name().is_none_or(str::is_empty) {
        let message = "DB_URL: the address names no database; write mysql://user:password@host:port/database";
        return Err(OpenError::Unsupported(message.to_owned()));
    }
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
        // Counts the rows that were found, not only those whose values changed, as the other databases do.
        .client_found_rows(true)
        .setup(SETUP.to_vec())
        .into();
    Ok(Arc::new(move || {
        let remote = Remote::<MysqlClient>::open(opts.clone())?;
        Ok(Box::new(remote) as Box<dyn Connection>)
    }))
}

// === impl MysqlClient ===

impl Client for MysqlClient {
    type Address = Opts;

    const WORDS: Words = Words {
        dialect: SqlDialect::Mysql,
        // Names of such locks are server-wide: another database there may belong to another installation.
        take_turn: "SELECT COALESCE(GET_LOCK(CONCAT('switchyard.', SHA1(DATABASE())), 0), 0)",
        end_turn: "SELECT RELEASE_LOCK(CONCAT('switchyard.', SHA1(DATABASE())))",
        begin: "START TRANSACTION",
        begin_snapshot: &[
            "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
            "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY",
        ],
        tables: "SELECT table_name FROM information_schema.tables WHERE table_schema = DATABASE()",
        columns: "SELECT column_name FROM information_schema.columns \
                  WHERE table_schema = DATABASE() AND table_name = ? ORDER BY ordinal_position",
        drop_temporary: "DROP TEMPORARY TABLE IF EXISTS",
        highest_id: "SELECT CAST(auto_increment AS SIGNED) - 1 FROM information_schema.tables \
                      WHERE table_schema = DATABASE() AND table_name = ?",
        advance_ids: None,
        undoes_schema: false,
        tell: None,
    };

    async fn dial(address: &Opts) -> Result<Self> {
        let connection = Conn::new(address.clone()).await.map_err(failed)?;
        let name = Name { number: 0, apart: String::new() };
        let mut client = Self { connection, name, max_packet: usize::MAX };
        client.greet().await?;
        Ok(client)
    }

    async fn rows(&mut self, sql: &str, args: &[Arg<'_>]) -> Result<Vec<Row>> {
        let statement = self.prepare(sql, args).await?;
        let found: Vec<mysql_async::Row> =
            self.connection.exec(statement, params(args)).await.map_err(failed)?;
        found.into_iter().map(row).collect()
    }

    async fn execute(&mut self, sql: &str, args: &[Arg<'_>]) -> Result<u64> {
        let statement = self.prepare(sql, args).await?;
        self.connection.exec_drop(statement, params(args)).await.map_err(failed)?;
        Ok(self.connection.affected_rows())
    }

    async fn insert(&mut self, sql: &str, args: &[Arg<'_>]) -> Result<Outcome> {
        let rows = self.execute(sql, args).await?;
        let last_id = self.connection.last_insert_id().unwrap_or(0);
        Ok(Outcome { rows, last_id: i64::try_from(last_id).unwrap_or(i64::MAX) })
    }

    async fn script(&mut self, sql: &str) -> Result<()> {
        self.connection.query_drop(sql).await.map_err(failed)
    }

    /// Runs a step statement by statement; each one takes effect at once.
    async fn step(&mut self, sql: &str) -> Result<()> {
        for statement in sql.split(";\n").map(without_comments).filter(|sql| !sql.is_empty()) {
            match self.connection.query_drop(statement).await {
                Err(mysql_async::Error::Server(error)) if TAKEN.contains(&error.code) => {}
                done => done.map_err(failed)?,
            }
        }
        Ok(())
    }

    fn name(&self) -> &Name {
        &self.name
    }

    /// Identifies the connection by its host and port too, because a later one may have been given its number.
    async fn end(&mut self, other: &Name) -> Result<()> {
        let sql = "SELECT id FROM information_schema.processlist WHERE id = ? AND host = ?";
        let found = self.rows(sql, &[Arg::Int(other.number), Arg::Text(&other.apart)]).await?;
        if found.is_empty() { Ok(()) } else { self.script(&format!("KILL {}", other.number)).await }
    }
}

impl MysqlClient {
    /// Asks an open connection for its identifier and its limits.
    async fn greet(&mut self) -> Result<()> {
        let sql = "SELECT id, host FROM information_schema.processlist WHERE id = CONNECTION_ID()";
        self.name = name(&self.rows(sql, &[]).await?)?;
        let limit = self.rows("SELECT @@max_allowed_packet", &[]).await?;
        if let Some(row) = limit.first() {
            self.max_packet = usize::try_from(row.fields().int()?).unwrap_or(usize::MAX);
        }
        Ok(())
    }

    /// Prepares a statement and checks that the server takes it with these arguments: otherwise the driver would give up the
    /// connection.
    async fn prepare(&mut self, sql: &str, args: &[Arg<'_>]) -> Result<mysql_async::Statement> {
        let size: usize = args.iter().map(size).sum();
        if size > self.max_packet {
            return Err(Error::Refused(format!(
                "a statement of {size} bytes, more than the max_allowed_packet of the server, which is {}",
                self.max_packet
            )));
        }
        let statement = self.connection.prep(sql).await.map_err(failed)?;
        let wanted = usize::from(statement.num_params());
        if wanted != args.len() {
            return Err(Error::Database(format!("{} arguments for {wanted} placeholders", args.len())));
        }
        Ok(statement)
    }
}

/// Returns a statement of a script without the comment lines before it.
fn without_comments(sql: &str) -> &str {
    let mut rest = sql.trim();
    while let Some(comment) = rest.strip_prefix("--") {
        rest = comment.split_once('\n').map_or("", |(_, rest)| rest.trim_start());
    }
    rest.trim_end_matches(';')
}

/// Returns the largest number of bytes that an argument takes in a packet.
fn size(arg: &Arg<'_>) -> usize {
    // A number or a length, a type, and a part of the bits that mark NULL.
    const AROUND: usize = 12;
    AROUND
        + match arg {
            Arg::Text(value) => value.len(),
            Arg::Blob(value) => value.len(),
            Arg::Null | Arg::Bool(_) | Arg::Int(_) | Arg::Real(_) => 0,
        }
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
                // The character set number by which the server marks binary data.
                _ if column.character_set() == 63 => Value::Blob(bytes),
                _ => Value::Text(String::from_utf8(bytes).map_err(|_| unreadable("a text"))?),
            },
            _ => return Err(unreadable("a date")),
        })
    };
    Ok(Row(columns.iter().zip(fields).map(field).collect::<Result<_>>()?))
}

/// Reads a number sent as digits: an integer unless it has decimals.
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
        mysql_async::Error::Io(IoError::Io(error)) => return no_way(&error),
        mysql_async::Error::Io(error) => return Error::Unreachable(error.to_string()),
        mysql_async::Error::Driver(DriverError::NoClientSslFlagFromServer) => return no_tls(),
        mysql_async::Error::Driver(DriverError::ConnectionClosed) => {
            return Error::Unreachable("the server has closed the connection".to_owned());
        }
        other => return Error::Database(other.to_string()),
    };
    // Error numbers of the server (MySQL reference manual, "Server Error Message Reference").
    match error.code {
        1062 | 1586 => Error::Conflict(error.message),
        1216 | 1217 | 1451 | 1452 => Error::Dangling(error.message),
        // Waiting for a lock, a deadlock, and a statement that was stopped by a limit of time or by somebody.
        1205 | 1213 | 1317 | 1969 | 3024 => Error::Busy,
        1021 | 1114 => Error::Full(error.message),
        // Values that the server does not take: of a wrong form, against a constraint, or too large.
        code @ (1048 | 1118 | 1153 | 1264 | 1265 | 1292 | 1364 | 1366 | 1406 | 1690 | 3140 | 3819 | 4025) => {
            Error::Refused(format!("{} ({code})", error.message))
        }
        // Connections that are too many, ended by the server, or to a node that has left its cluster.
        1040 | 1047 | 1053 | 1203 | 1226 | 1927 | 4031 => Error::Unreachable(error.message),
        // The server is no longer the primary: another connection may lead to the one that is.
        1290 | 1792 | 1836 => Error::Unreachable(format!("it accepts no changes: {}", error.message)),
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
