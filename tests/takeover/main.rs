//! Coming from another gateway: its file is imported from the command line, and what it said is what the admin API shows
//! and what clients are served by.

mod databases;
mod documents;
mod fields;
mod sub2api;
#[path = "../support/mod.rs"]
mod support;

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::Value;
use support::{Gateway, Home, Setup, run};

/// A directory with a file in it that shall be imported.
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

    /// A file of SQLite made by these statements.
    fn of_database(name: &str, sql: &str) -> Self {
        let moving = Self::of(name);
        rusqlite::Connection::open(&moving.file)
            .and_then(|made| made.execute_batch(sql))
            .expect("a database");
        moving
    }

    /// Imports with these options, and gives what was printed.
    #[track_caller]
    fn import(&self, options: &[&str]) -> String {
        let file = self.file.to_str().expect("a path");
        let finished = run(&self.setup, &self.home, &[&["import", file], options].concat());
        assert!(finished.status.success(), "{}\n{}", finished.stdout, finished.stderr);
        finished.stdout
    }

    /// Imports what cannot be: gives the exit status and what was printed.
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

/// The rows of a list of the admin API.
#[track_caller]
fn list(gateway: &Gateway, path: &str) -> Vec<Value> {
    let answer = gateway.admin().get(path).expect(200);
    let places = [&answer, &answer["items"], &answer["accounts"]];
    let rows = places.into_iter().find_map(Value::as_array);
    rows.unwrap_or_else(|| panic!("no list at {path}")).clone()
}

/// The row whose member has this value.
#[track_caller]
fn find(rows: &[Value], member: &str, value: &str) -> Value {
    let found = rows.iter().find(|row| row[member] == value);
    found.unwrap_or_else(|| panic!("no {member} {value} in {rows:#?}")).clone()
}

/// The channels of a model: by the account's name, the model upstream, priority, weight and whether it is on.
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
