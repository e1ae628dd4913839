//! Answers of the admin API that outlive the process, so that a start need not make them anew.
//!
//! ```text
//! version noted ─▶ rows read ─▶ answer stored with that version ─▶ returned while the version is still the same
//! ```
//!
//! A change of rows that the answers show increments the version in its own transaction, by whichever process it is made;
//! so an answer never hides a change that was committed after its rows were read. Answers may hold credentials and are
//! sealed. One that does not open, because its key was replaced, is made anew.

use super::lists_version::{self, VERSION};
use super::sql::{OnConflict, Statement, upsert};
use super::{Result, Secret, Store};
use crate::time::{Millis, now_ms};

pub(super) const TABLE: &str = "admin_snapshots";
const PAYLOAD: &str = "payload";

/// The state of the database before an answer is made.
#[derive(Clone, Copy, Debug)]
pub struct Origin {
    version: i64,
    at: Millis,
}

/// A stored answer.
#[derive(Debug)]
pub struct StoredAnswer {
    pub name: String,
    pub text: Secret,
    /// When it began to be made.
    pub at: Millis,
}

impl Origin {
    /// Notes the present state. Read the rows of the answer afterwards.
    pub async fn note(store: &Store) -> Result<Self> {
        let sql = format!("SELECT {VERSION} AS version");
        let version = store.row(sql, Vec::new(), |row| row.int()).await?.unwrap_or_default();
        Ok(Self { version, at: now_ms() })
    }
}

/// Stores an answer in place of the former one of this name, and deletes those older than `keep`.
pub async fn put(store: &Store, name: &str, origin: Origin, text: &str, keep: Millis) -> Result<()> {
    let payload = store.sealer().seal(TABLE, PAYLOAD, text)?;
    let columns = [PAYLOAD, "version", "generated_at"].map(|column| (column, OnConflict::Replace));
    let sql = upsert(store.database().dialect(), TABLE, &["name"], &columns);
    let put = Statement::new(sql, vec![name.into(), payload.into(), origin.version.into(), origin.at.into()]);
    let sql = format!("DELETE FROM {TABLE} WHERE generated_at < ?");
    let old = Statement::new(sql, vec![(now_ms() - keep).into()]);
    store.batch(vec![old, put]).await.map(drop)
}

/// Returns the answers since `oldest` whose names match this pattern of `LIKE`, without those that a change has made void.
pub async fn since(store: &Store, names: &str, oldest: Millis) -> Result<Vec<StoredAnswer>> {
    let sql = format!(
        "SELECT name, {PAYLOAD}, generated_at FROM {TABLE} \
         WHERE name LIKE ? AND generated_at BETWEEN ? AND ? AND version = {VERSION} ORDER BY name"
    );
    let rows = store.query(sql, vec![names.into(), oldest.into(), now_ms().into()]).await?;
    let mut answers = Vec::new();
    for row in &rows {
        let mut row = row.fields();
        let (name, payload, at) = (row.text()?, row.str()?, row.int()?);
        if let Ok(text) = store.sealer().open(TABLE, PAYLOAD, payload) {
            answers.push(StoredAnswer { name, text, at });
        }
    }
    Ok(answers)
}

/// Builds the statement that makes all stored answers void, for changes of rows that they only sum up.
pub fn void(store: &Store) -> Statement {
    lists_version::increment(store.database().dialect())
}

/// Builds the statement that deletes all answers.
pub(super) fn delete_all() -> Statement {
    Statement::new(format!("DELETE FROM {TABLE}"), Vec::new())
}
