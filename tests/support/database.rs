//! A database of a test's own on a server, where `SWITCHYARD_TEST_DATABASE` names one: `postgres://user@127.0.0.1:5432` or
//! `mysql://user@127.0.0.1:3306`. Without it, tests use SQLite. The servers' own clients (psql, mariadb) make and drop
//! the databases.

use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// Dropped with the test.
pub struct ServerDatabase {
    server: String,
    name: String,
}

/// Whether tests run on a server.
pub fn is_on_server() -> bool {
    server().is_some()
}

fn server() -> Option<String> {
    std::env::var("SWITCHYARD_TEST_DATABASE").ok().filter(|server| !server.is_empty())
}

// === impl ServerDatabase ===

impl ServerDatabase {
    /// A new one; `None` where tests use SQLite.
    pub fn create() -> Option<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let server = server()?.trim_end_matches('/').to_owned();
        let name = format!("test_{}_{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let database = Self { server, name };
        // What a run that was killed left under this number goes first.
        database.run(&format!("DROP DATABASE IF EXISTS {}", database.name));
        database.run(&format!("CREATE DATABASE {}", database.name));
        Some(database)
    }

    /// For `DB_TYPE`.
    pub fn kind(&self) -> &'static str {
        if self.server.starts_with("mysql") { "mysql" } else { "postgres" }
    }

    /// For `DB_URL`.
    pub fn url(&self) -> String {
        format!("{}/{}", self.server, self.name)
    }

    /// Where its server listens: `host:port`.
    pub fn place(&self) -> &str {
        self.server.rsplit(['@', '/']).next().unwrap_or(&self.server)
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
