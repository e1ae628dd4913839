//! Events: notices for the operator, shown in the console.

pub use super::new_event::{EventLevel, NewEvent};
use super::sql::{Fields, Statement, Value};
use super::{Result, Store, prune};
use crate::ids::EventId;
use crate::time::{Millis, now_ms};

/// A stored event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventRow {
    pub id: EventId,
    pub kind: String,
    pub title: String,
    pub message: Option<String>,
    pub level: EventLevel,
    pub read: bool,
    pub related_id: Option<i64>,
    pub related_type: Option<String>,
    pub created_at: Millis,
}

/// The filter of an event list.
#[derive(Debug, Clone, Default)]
pub struct EventFilter {
    pub kind: Option<String>,
    pub read: Option<bool>,
    pub limit: i64,
    pub offset: i64,
}

/// Stores one event and returns its id.
pub async fn insert(store: &Store, event: NewEvent) -> Result<EventId> {
    Ok(store.batch(vec![event.insert(now_ms())]).await?[0].id())
}

/// Returns the matching events, newest first.
pub async fn list(store: &Store, filter: &EventFilter) -> Result<Vec<EventRow>> {
    let mut sql = String::from(
        "SELECT id, type, title, message, level, is_read, related_id, related_type, created_at FROM events \
         WHERE 1 = 1",
    );
    let mut args: Vec<Value> = Vec::new();
    if let Some(kind) = &filter.kind {
        sql.push_str(" AND type = ?");
        args.push(kind.as_str().into());
    }
    if let Some(read) = filter.read {
        sql.push_str(" AND is_read = ?");
        args.push(read.into());
    }
    sql.push_str(" ORDER BY created_at DESC, id DESC LIMIT ? OFFSET ?");
    args.extend([filter.limit.into(), filter.offset.into()]);
    store.rows(sql, args, read).await
}

fn read(row: &mut Fields<'_>) -> Result<EventRow> {
    Ok(EventRow {
        id: row.id()?,
        kind: row.text()?,
        title: row.text()?,
        message: row.opt_text()?,
        level: EventLevel::parse(row.str()?),
        read: row.bool()?,
        related_id: row.opt_int()?,
        related_type: row.opt_text()?,
        created_at: row.int()?,
    })
}

/// Counts the unread events.
pub async fn count_unread(store: &Store) -> Result<i64> {
    let sql = "SELECT COUNT(*) FROM events WHERE is_read = ?";
    Ok(store.row(sql, vec![false.into()], |row| row.int()).await?.unwrap_or_default())
}

/// Marks one event as read.
pub async fn mark_read(store: &Store, id: EventId) -> Result<()> {
    let mark = Statement::new("UPDATE events SET is_read = ? WHERE id = ?", vec![true.into(), id.into()]);
    store.batch(vec![mark]).await.map(drop)
}

/// Marks all events as read.
pub async fn mark_all_read(store: &Store) -> Result<()> {
    let mark =
        Statement::new("UPDATE events SET is_read = ? WHERE is_read = ?", vec![true.into(), false.into()]);
    store.batch(vec![mark]).await.map(drop)
}

/// Deletes all events.
pub async fn delete_all(store: &Store) -> Result<()> {
    store.batch(vec![Statement::new("DELETE FROM events", Vec::new())]).await.map(drop)
}

/// Deletes events and check-ins older than the cutoff; returns the number deleted.
pub async fn prune(store: &Store, cutoff: Millis) -> Result<u64> {
    let events = prune::older_than(store, "events", cutoff).await?;
    Ok(events + prune::older_than(store, "checkin_logs", cutoff).await?)
}
