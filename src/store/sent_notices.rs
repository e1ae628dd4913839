//! Recently sent notices, so that a restart does not send them again.

use super::sql::{OnConflict, Statement, upsert};
use super::{Result, Store};
use crate::time::Millis;

/// A notice that was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SentRow {
    pub signature: String,
    pub last_sent_at: Millis,
    /// The number of similar notices held back since.
    pub held_back: u64,
}

/// Returns every remembered notice.
pub async fn all(store: &Store) -> Result<Vec<SentRow>> {
    let sql = "SELECT signature, last_sent_at, merged_count FROM notification_throttle";
    let rows = store.query(sql, Vec::new()).await?;
    let read = rows.into_iter().map(|row| {
        let mut row = row.fields();
        let (signature, last_sent_at, held_back) = (row.text()?, row.int()?, row.int()?);
        Ok(SentRow { signature, last_sent_at, held_back: held_back.unsigned_abs() })
    });
    read.collect()
}

/// Remembers these notices, and deletes those sent before `cutoff`.
pub async fn note(store: &Store, sent: Vec<SentRow>, cutoff: Millis) -> Result<()> {
    let columns = [("last_sent_at", OnConflict::Replace), ("merged_count", OnConflict::Replace)];
    let sql = upsert(store.database().dialect(), "notification_throttle", &["signature"], &columns);
    let old = "DELETE FROM notification_throttle WHERE last_sent_at < ?";
    let mut batch = vec![Statement::new(old, vec![cutoff.into()])];
    batch.extend(sent.into_iter().map(|row| {
        let held_back = i64::try_from(row.held_back).unwrap_or(i64::MAX);
        Statement::new(sql.clone(), vec![row.signature.into(), row.last_sent_at.into(), held_back.into()])
    }));
    store.batch(batch).await.map(drop)
}

/// Deletes all remembered notices.
pub async fn clear(store: &Store) -> Result<()> {
    store.batch(vec![Statement::new("DELETE FROM notification_throttle", Vec::new())]).await.map(drop)
}
