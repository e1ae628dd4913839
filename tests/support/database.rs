//! The database of a test, and how a test reads and writes it without the gateway: [`Database`], with the same SQL for
//! every kind of database.
//!
//! If `SWITCHYARD_TEST_DATABASE` names a server (`postgres://user@127.0.0.1:5432` or `mysql://user@127.0.0.1:3306`), each
//! test has a database of its own there, which the server's own client (psql, mariadb) creates and drops. Without it, tests
//! use SQLite.

use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// A database on a server, dropped with the test.
pub struct ServerDatabase {
    server: String,
    name: String,
}

/// A database as a test uses it. Every call opens a connection of its own, so that nothing is held between two calls.
pub struct Database {
    place: Place,
}

enum Place {
    File(PathBuf),
    Postgres(String),
    Mysql(String),
}

/// A value that can be written as an SQL literal.
pub trait Literal {
    fn literal(&self) -> String;
}

/// The results of a script: the rows of all its queries, each value as text, and how many rows it changed.
#[derive(Default)]
struct Given {
    rows: Vec<Vec<Option<String>>>,
    changed: u64,
}

type Done<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// How long another transaction is waited for.
const PATIENCE: Duration = Duration::from_secs(15);

/// Returns whether tests run on a server.
pub fn is_on_server() -> bool {
    server().is_some()
}

fn server() -> Option<String> {
    std::env::var("SWITCHYARD_TEST_DATABASE").ok().filter(|server| !server.is_empty())
}

// === impl ServerDatabase ===

impl ServerDatabase {
    /// Creates a database; `None` if tests use SQLite.
    pub fn create() -> Option<Self> {
        Self::create_with("")
    }

    /// Creates a database with these options of `CREATE DATABASE`.
    pub fn create_with(options: &str) -> Option<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let server = server()?.trim_end_matches('/').to_owned();
        let name = format!("test_{}_{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let database = Self { server, name };
        // A killed run may have left a database of the same name.
        database.run(&format!("DROP DATABASE IF EXISTS {}", database.name));
        database.run(&format!("CREATE DATABASE {} {options}", database.name));
        Some(database)
    }

    /// Returns the value for `DB_TYPE`.
    pub fn kind(&self) -> &'static str {
        if self.server.starts_with("mysql") { "mysql" } else { "postgres" }
    }

    /// Returns the value for `DB_URL`.
    pub fn url(&self) -> String {
        format!("{}/{}", self.server, self.name)
    }

    /// Returns the server's address: `host:port`.
    pub fn place(&self) -> &str {
        self.server.rsplit(['@', '/']).next().unwrap_or(&self.server)
    }

    /// Opens the database for the test's own queries.
    pub fn open(&self) -> Database {
        let place = match self.kind() {
            "postgres" => Place::Postgres(self.url()),
            _ => Place::Mysql(self.url()),
        };
        Database { place }
    }

    fn run(&self, sql: &str) {
        let mut command = match self.kind() {
            "postgres" => {
                let mut psql = Command::new("psql");
                psql.args(["-q", "-v", "ON_ERROR_STOP=1", "-c", sql, &format!("{}/postgres", self.server)]);
                psql.env("PGOPTIONS", "-c client_min_messages=warning");
                psql
            }
            _ => {
                let place = self.server.split_once("://").map_or("", |(_, place)| place);
                let (user, place) = place.rsplit_once('@').unwrap_or(("root", place));
                let (host, port) = place.rsplit_once(':').unwrap_or((place, "3306"));
                let mut mariadb = Command::new("mariadb");
                mariadb.args(["--protocol=tcp", "-h", host, "-P", port, "-u", user, "-e", sql]);
                mariadb
            }
        };
        let done = command.output().expect("the client of the database server runs");
        assert!(done.status.success(), "{sql}: {}", String::from_utf8_lossy(&done.stderr));
    }
}

impl Drop for ServerDatabase {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        let force = if self.kind() == "postgres" { " WITH (FORCE)" } else { "" };
        self.run(&format!("DROP DATABASE IF EXISTS {}{force}", self.name));
    }
}

// === impl Database ===

impl Database {
    /// Opens the file of an SQLite database.
    pub fn file(path: PathBuf) -> Self {
        Self { place: Place::File(path) }
    }

    /// Runs one statement with these values for its `?`; returns how many rows it changed.
    #[track_caller]
    pub fn execute(&self, sql: &str, values: &[&dyn Literal]) -> u64 {
        self.given(&with_values(sql, values)).changed
    }

    /// Runs statements separated by `;`.
    #[track_caller]
    pub fn run(&self, script: &str) {
        self.given(script);
    }

    /// Does what [`Self::run`] does, but returns an error, for instance when the connection is ended meanwhile.
    pub fn try_run(&self, script: &str) -> Done<()> {
        self.try_given(script).map(drop)
    }

    /// Runs a query and returns its rows, each value as text.
    #[track_caller]
    pub fn rows(&self, sql: &str) -> Vec<Vec<Option<String>>> {
        self.given(sql).rows
    }

    /// Returns the first column of every row.
    #[track_caller]
    pub fn texts(&self, sql: &str) -> Vec<String> {
        let first = |row: Vec<Option<String>>| row.into_iter().next().flatten();
        self.rows(sql).into_iter().map(|row| first(row).unwrap_or_else(|| panic!("NULL: {sql}"))).collect()
    }

    /// Returns the first value.
    #[track_caller]
    pub fn text(&self, sql: &str) -> String {
        self.texts(sql).into_iter().next().unwrap_or_else(|| panic!("no row: {sql}"))
    }

    /// Returns the first value, which must be an integer.
    #[track_caller]
    pub fn number(&self, sql: &str) -> i64 {
        let text = self.text(sql);
        text.parse().unwrap_or_else(|_| panic!("{text:?} is no integer: {sql}"))
    }

    /// Returns the columns of a table with their types, in order.
    #[track_caller]
    pub fn columns(&self, table: &str) -> Vec<(String, String)> {
        let columns = match self.place {
            Place::File(_) => format!("SELECT name, type FROM pragma_table_info('{table}') ORDER BY cid"),
            _ => format!(
                "SELECT column_name, data_type FROM information_schema.columns \
                 WHERE table_schema = {} AND table_name = '{table}' ORDER BY ordinal_position",
                self.schema()
            ),
        };
        let text = |value: &Option<String>| value.clone().expect("a name");
        self.rows(&columns).iter().map(|row| (text(&row[0]), text(&row[1]).to_uppercase())).collect()
    }

    /// Returns the contents of every table of a server's database as text; nothing for a file, which can be read itself.
    pub fn contents(&self) -> Vec<(String, String)> {
        if matches!(self.place, Place::File(_)) {
            return Vec::new();
        }
        let schema = self.schema();
        let tables =
            format!("SELECT table_name FROM information_schema.tables WHERE table_schema = {schema}");
        let line = |row: Vec<Option<String>>| row.into_iter().flatten().collect::<Vec<_>>().join("\t");
        let of = |table: String| {
            let rows = self.rows(&format!("SELECT * FROM {table}")).into_iter().map(line);
            (table, rows.collect::<Vec<_>>().join("\n"))
        };
        self.texts(&tables).into_iter().map(of).collect()
    }

    /// Makes the database refuse new rows of a table for which the condition holds (`1 = 1`, `NEW.type = 'x'`), as a full
    /// disk would.
    #[track_caller]
    pub fn refuse_inserts(&self, table: &str, condition: &str) {
        self.refuse("INSERT", table, condition);
    }

    /// Does the same for changes of rows (`NEW.name <> OLD.name`).
    #[track_caller]
    pub fn refuse_updates(&self, table: &str, condition: &str) {
        self.refuse("UPDATE", table, condition);
    }

    #[track_caller]
    fn refuse(&self, change: &str, table: &str, condition: &str) {
        let name = refusal(table);
        self.run(&match self.place {
            Place::File(_) => format!(
                "CREATE TRIGGER {name} BEFORE {change} ON {table} WHEN {condition} \
                 BEGIN SELECT RAISE(ABORT, 'disk full'); END"
            ),
            Place::Postgres(_) => format!(
                "CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS \
                 $$ BEGIN RAISE EXCEPTION 'disk full'; END $$; \
                 CREATE TRIGGER {name} BEFORE {change} ON {table} FOR EACH ROW WHEN ({condition}) \
                 EXECUTE FUNCTION {name}()"
            ),
            Place::Mysql(_) => format!(
                "CREATE TRIGGER {name} BEFORE {change} ON {table} FOR EACH ROW \
                 IF {condition} THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'disk full'; END IF"
            ),
        });
    }

    /// Ends the effect of [`Self::refuse_inserts`] or [`Self::refuse_updates`].
    #[track_caller]
    pub fn allow_changes(&self, table: &str) {
        let name = refusal(table);
        self.run(&match self.place {
            Place::Postgres(_) => format!("DROP TRIGGER {name} ON {table}; DROP FUNCTION {name}"),
            _ => format!("DROP TRIGGER {name}"),
        });
    }

    fn schema(&self) -> &'static str {
        if matches!(self.place, Place::Mysql(_)) { "DATABASE()" } else { "current_schema()" }
    }

    #[track_caller]
    fn given(&self, script: &str) -> Given {
        self.try_given(script).unwrap_or_else(|error| panic!("{script}: {error}"))
    }

    fn try_given(&self, script: &str) -> Done<Given> {
        match &self.place {
            Place::File(path) => in_file(path, script),
            Place::Postgres(url) => alone(on_postgres(url, script)),
            Place::Mysql(url) => alone(on_mysql(url, script)),
        }
    }
}

fn refusal(table: &str) -> String {
    format!("{table}_refused")
}

/// Replaces every `?` outside of string literals by a value's literal.
fn with_values(sql: &str, values: &[&dyn Literal]) -> String {
    let mut values = values.iter();
    let mut is_text = false;
    let mut spelled = String::with_capacity(sql.len() + 64);
    for c in sql.chars() {
        is_text ^= c == '\'';
        match c {
            '?' if !is_text => {
                let value = values.next().unwrap_or_else(|| panic!("a value for every `?`: {sql}"));
                spelled.push_str(&value.literal());
            }
            _ => spelled.push(c),
        }
    }
    assert!(values.next().is_none(), "a `?` for every value: {sql}");
    spelled
}

fn in_file(path: &std::path::Path, script: &str) -> Done<Given> {
    use rusqlite::fallible_iterator::FallibleIterator;
    use rusqlite::types::ValueRef;
    let database = rusqlite::Connection::open(path)?;
    database.busy_timeout(PATIENCE)?;
    let mut given = Given::default();
    let mut batch = rusqlite::Batch::new(&database, script);
    while let Some(mut statement) = batch.next()? {
        if statement.column_count() == 0 {
            given.changed += statement.execute([])? as u64;
            continue;
        }
        let columns = statement.column_count();
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let value = |index| {
                Ok(match row.get_ref(index)? {
                    ValueRef::Null => None,
                    ValueRef::Integer(value) => Some(value.to_string()),
                    ValueRef::Real(value) => Some(value.to_string()),
                    ValueRef::Text(bytes) | ValueRef::Blob(bytes) => {
                        Some(String::from_utf8_lossy(bytes).into_owned())
                    }
                })
            };
            given.rows.push((0..columns).map(value).collect::<rusqlite::Result<_>>()?);
        }
    }
    Ok(given)
}

/// Runs the future on a thread with its own runtime: the caller may be inside a runtime, which cannot wait for another.
fn alone(asked: impl Future<Output = Done<Given>> + Send) -> Done<Given> {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(asked)
        });
        thread.join().expect("no panic there")
    })
}

#[cfg(feature = "postgres")]
async fn on_postgres(url: &str, script: &str) -> Done<Given> {
    use tokio_postgres::SimpleQueryMessage;
    let config: tokio_postgres::Config = url.parse()?;
    let [tokio_postgres::config::Host::Tcp(host), ..] = config.get_hosts() else {
        return Err("the address names no host".into());
    };
    let port = config.get_ports().first().copied().unwrap_or(5432);
    let transport = tokio::net::TcpStream::connect((host.as_str(), port)).await?;
    let (client, connection) = config.connect_raw(transport, tokio_postgres::NoTls).await?;
    let connection = tokio::spawn(connection);
    // Bytes are output as they are.
    client.batch_execute("SET bytea_output = 'escape'").await?;
    let mut given = Given::default();
    for message in client.simple_query(script).await? {
        match message {
            SimpleQueryMessage::Row(row) => {
                given.rows.push((0..row.len()).map(|index| row.get(index).map(str::to_owned)).collect());
            }
            SimpleQueryMessage::CommandComplete(changed) => given.changed += changed,
            _ => {}
        }
    }
    drop(client);
    connection.await??;
    Ok(given)
}

#[cfg(feature = "mysql")]
async fn on_mysql(url: &str, script: &str) -> Done<Given> {
    use mysql_async::prelude::Queryable;
    let options = mysql_async::OptsBuilder::from_opts(mysql_async::Opts::from_url(url)?)
        .prefer_socket(false)
        .client_found_rows(true)
        // As in the other databases: `||` joins texts, double quotes enclose names, and a backslash in a text is literal.
        .setup(vec![
            "SET SESSION sql_mode = 'ANSI_QUOTES,PIPES_AS_CONCAT,STRICT_ALL_TABLES,NO_BACKSLASH_ESCAPES'",
        ]);
    let mut connection = mysql_async::Conn::new(options).await?;
    let mut given = Given::default();
    let mut result = connection.query_iter(script).await?;
    let text = |value| match value {
        mysql_async::Value::NULL => None,
        mysql_async::Value::Bytes(bytes) => Some(String::from_utf8_lossy(&bytes).into_owned()),
        other => Some(other.as_sql(true)),
    };
    // A change also returns a result, one without columns.
    while let Some(columns) = result.columns() {
        if columns.is_empty() {
            given.changed += result.affected_rows();
        }
        let rows: Vec<mysql_async::Row> = result.collect().await?;
        given.rows.extend(rows.into_iter().map(|row| row.unwrap().into_iter().map(text).collect()));
    }
    drop(result);
    connection.disconnect().await?;
    Ok(given)
}

#[cfg(not(feature = "postgres"))]
async fn on_postgres(_url: &str, _script: &str) -> Done<Given> {
    Err("tests on PostgreSQL are built with `--features postgres`".into())
}

#[cfg(not(feature = "mysql"))]
async fn on_mysql(_url: &str, _script: &str) -> Done<Given> {
    Err("tests on MySQL are built with `--features mysql`".into())
}

// === impl Literal ===

impl Literal for i64 {
    fn literal(&self) -> String {
        self.to_string()
    }
}

impl Literal for &str {
    fn literal(&self) -> String {
        format!("'{}'", self.replace('\'', "''"))
    }
}

impl Literal for String {
    fn literal(&self) -> String {
        self.as_str().literal()
    }
}

impl<T: Literal> Literal for Option<T> {
    fn literal(&self) -> String {
        self.as_ref().map_or_else(|| "NULL".to_owned(), T::literal)
    }
}
