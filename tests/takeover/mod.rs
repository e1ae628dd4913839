//! Migration from another gateway: its file is imported from the command line, and its contents are shown by the admin API
//! and serve clients.

mod databases;
mod documents;
mod fields;
mod metapi;
mod sub2api;
mod unknown_members;

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::Value;

use crate::support::{Gateway, Home, Setup, run};

/// A directory with a file to import.
struct Move {
    home: Arc<Home>,
    setup: Setup,
    file: PathBuf,
}

impl Move {
    fn of(name: &str) -> Self {
        let home = Home::new();
        let file = home.path().join(name);
        Self { home, setup: Setup::default(), file }
    }

    fn of_text(name: &str, text: &str) -> Self {
        let moving = Self::of(name);
        std::fs::write(&moving.file, text).expect("a file");
        moving
    }

    /// Creates an SQLite file with these statements.
    fn of_database(name: &str, sql: &str) -> Self {
        let moving = Self::of(name);
        rusqlite::Connection::open(&moving.file)
            .and_then(|made| made.execute_batch(sql))
            .expect("a database");
        moving
    }

    /// Imports with these options, and returns the output.
    #[track_caller]
    fn import(&self, options: &[&str]) -> String {
        let file = self.file.to_str().expect("a path");
        let finished = run(&self.setup, &self.home, &[&["import", file], options].concat());
        assert!(finished.status.success(), "{}\n{}", finished.stdout, finished.stderr);
        finished.stdout
    }

    /// Attempts an import that must fail; returns the exit status and the output.
    #[track_caller]
    fn refuse(&self, options: &[&str]) -> (i32, String) {
        let file = self.file.to_str().expect("a path");
        let finished = run(&self.setup, &self.home, &[&["import", file], options].concat());
        assert!(!finished.status.success(), "{}\n{}", finished.stdout, finished.stderr);
        (finished.status.code().expect("a status"), finished.stdout + &finished.stderr)
    }

    fn start(&self) -> Gateway {
        self.setup.clone().start_in(Arc::clone(&self.home))
    }
}

/// Returns the rows of a list of the admin API.
#[track_caller]
fn keys(gateway: &Gateway) -> Vec<Value> {
    list(gateway, "/api/downstream-keys")
}

fn list(gateway: &Gateway, path: &str) -> Vec<Value> {
    let answer = gateway.admin().get(path).expect(200);
    let places = [&answer, &answer["items"], &answer["accounts"]];
    let rows = places.into_iter().find_map(Value::as_array);
    rows.unwrap_or_else(|| panic!("no list at {path}")).clone()
}

/// Returns the row whose member has this value.
#[track_caller]
fn find(rows: &[Value], member: &str, value: &str) -> Value {
    let found = rows.iter().find(|row| row[member] == value);
    found.unwrap_or_else(|| panic!("no {member} {value} in {rows:#?}")).clone()
}

/// Returns the channels of a model: the account's name, the upstream model, priority, weight, and whether it is enabled.
#[track_caller]
fn channels(gateway: &Gateway, model: &str) -> Vec<(String, String, i64, i64, bool)> {
    let accounts = list(gateway, "/api/accounts");
    let of = |channel: &Value| {
        let account = accounts.iter().find(|account| account["id"] == channel["accountId"]);
        let name = account.and_then(|account| account["username"].as_str()).unwrap_or("?").to_owned();
        let model = channel["sourceModel"].as_str().unwrap_or("?").to_owned();
        let number = |member: &str| channel[member].as_i64().expect("a number");
        (name, model, number("priority"), number("weight"), channel["enabled"] == true)
    };
    let mut channels: Vec<_> = gateway.channels(model).iter().map(of).collect();
    channels.sort_by_key(|(name, _, priority, ..)| (*priority, name.clone()));
    channels
}

fn channel(
    name: &str,
    model: &str,
    priority: i64,
    weight: i64,
    on: bool,
) -> (String, String, i64, i64, bool) {
    (name.to_owned(), model.to_owned(), priority, weight, on)
}
