//! The processes that serve from a shared database: each reports regularly that it is alive.

use super::connection::Connection;
use super::sql::Statement;
use super::{Result, Store};
use crate::time::Millis;

/// How long an instance may be silent before it counts as gone, in milliseconds.
const GONE_MS: Millis = 30_000;

/// A process that serves from the database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instance {
    pub id: String,
    /// The name of its machine, with the port it serves on.
    pub name: String,
    pub version: String,
    pub started_at: Millis,
    /// By the database's clock.
    pub last_seen_at: Millis,
}

/// Reports that this instance is alive, and deletes those that are gone. Returns the remaining ones, the oldest
/// first.
pub async fn report_alive(store: &Store, me: &Instance) -> Result<Vec<Instance>> {
    let Some(now) = store.database().dialect().now() else { return Ok(Vec::new()) };
    let gone = Statement::new(
        format!("DELETE FROM instances WHERE last_seen_at < {now} - ? AND id <> ?"),
        vec![GONE_MS.into(), me.id.as_str().into()],
    );
    let seen = Statement::new(
        format!("UPDATE instances SET last_seen_at = {now} WHERE id = ?"),
        vec![me.id.as_str().into()],
    );
    if store.batch(vec![gone, seen]).await?[1].rows == 0 {
        let sql = format!(
            "INSERT INTO instances (id, name, version, started_at, last_seen_at) VALUES (?, ?, ?, ?, {now})"
        );
        let args = vec![
            me.id.as_str().into(),
            me.name.as_str().into(),
            me.version.as_str().into(),
            me.started_at.into(),
        ];
        store.batch(vec![Statement::new(sql, args)]).await?;
    }
    let sql = "SELECT id, name, version, started_at, last_seen_at FROM instances ORDER BY started_at, id";
    store
        .rows(sql, Vec::new(), |row| {
            Ok(Instance {
                id: row.text()?,
                name: row.text()?,
                version: row.text()?,
                started_at: row.int()?,
                last_seen_at: row.int()?,
            })
        })
        .await
}

/// Counts the instances, as of the last report of any of them.
pub async fn count(store: &Store) -> Result<i64> {
    Ok(store.row("SELECT COUNT(*) FROM instances", Vec::new(), |row| row.int()).await?.unwrap_or_default())
}

/// Returns the names of the instances that use this connection's database now; none for a database that only
/// one process can use.
pub(super) fn present(connection: &mut dyn Connection) -> Result<Vec<String>> {
    let Some(now) = connection.dialect().now() else { return Ok(Vec::new()) };
    let sql = format!("SELECT name FROM instances WHERE last_seen_at >= {now} - ? ORDER BY started_at, id");
    let rows = connection.select(&sql, &[GONE_MS.into()])?;
    rows.iter().map(|row| row.fields().text()).collect()
}

/// Deletes this instance's row when it ends.
pub async fn leave(store: &Store, id: &str) -> Result<()> {
    store.batch(vec![Statement::new("DELETE FROM instances WHERE id = ?", vec![id.into()])]).await.map(drop)
}
