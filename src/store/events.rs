//! Events: what the operator should notice, shown in the console.

use super::sql::{Row, Statement, Value};
use super::{Result, Store, prune};
use crate::time::{Millis, now_ms};

/// How serious an event is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventLevel {
    Info,
    Warning,
    Error,
}

impl EventLevel {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }

    fn parse(text: &str) -> Self {
        match text {
            "error" => Self::Error,
            "warning" => Self::Warning,
            _ => Self::Info,
        }
    }
}

/// An event to be stored.
#[derive(Debug, Clone)]
pub struct NewEvent {
    /// checkin, balance, token, proxy, status or site_notice.
    pub kind: &'static str,
    pub title: String,
    pub message: Option<String>,
    pub level: EventLevel,
    pub related_id: Option<i64>,
    /// account, site, route, settings, task, update_center or site_announcement.
    pub related_type: Option<&'static str>,
}

impl NewEvent {
    /// A background task began, ended or failed.
    pub fn task(title: String, message: String, failed: bool) -> Self {
        Self {
            kind: "status",
            title,
            message: Some(message),
            level: if failed { EventLevel::Error } else { EventLevel::Info },
            related_id: None,
            related_type: Some("task"),
        }
    }

    /// The insertion, for a batch that changes what the event is about.
    pub fn insert(self, now: Millis) -> Statement {
        let related = self.related_id.into();
        self.insertion(related, now)
    }

    /// The insertion, for a batch whose statement of this index inserts what the event is about.
    pub fn insert_related_to(self, index: usize, now: Millis) -> Statement {
        self.insertion(Value::IdOf(index), now)
    }

    fn insertion(self, related: Value, now: Millis) -> Statement {
        Statement::new(
            "INSERT INTO events (type, title, message, level, is_read, related_id, related_type, created_at) \
             VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            vec![
                self.kind.into(),
                self.title.into(),
                self.message.into(),
                self.level.as_str().into(),
                false.into(),
                related,
                self.related_type.into(),
                now.into(),
            ],
        )
    }
}

/// A stored event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventRow {
    pub id: i64,
    pub kind: String,
    pub title: String,
    pub message: Option<String>,
    pub level: EventLevel,
    pub read: bool,
    pub related_id: Option<i64>,
    pub related_type: Option<String>,
    pub created_at: Millis,
}

/// Which events to list.
#[derive(Debug, Clone, Default)]
pub struct EventFilter {
    pub kind: Option<String>,
    pub read: Option<bool>,
    pub limit: i64,
    pub offset: i64,
}

/// Stores one event and returns its id.
pub async fn insert(store: &Store, event: NewEvent) -> Result<i64> {
    Ok(store.batch(vec![event.insert(now_ms())]).await?[0].last_id)
}

/// The newest first.
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
    store.query(sql, args).await?.iter().map(read).collect()
}

fn read(row: &Row) -> Result<EventRow> {
    let mut row = row.fields();
    Ok(EventRow {
        id: row.int()?,
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

/// How many are unread.
pub async fn count_unread(store: &Store) -> Result<i64> {
    let rows = store.query("SELECT COUNT(*) FROM events WHERE is_read = ?", vec![false.into()]).await?;
    rows.first().map_or(Ok(0), |row| row.fields().int())
}

/// Marks one as read.
pub async fn mark_read(store: &Store, id: i64) -> Result<()> {
    let mark = Statement::new("UPDATE events SET is_read = ? WHERE id = ?", vec![true.into(), id.into()]);
    store.batch(vec![mark]).await.map(drop)
}

/// Marks all as read.
pub async fn mark_all_read(store: &Store) -> Result<()> {
    let mark =
        Statement::new("UPDATE events SET is_read = ? WHERE is_read = ?", vec![true.into(), false.into()]);
    store.batch(vec![mark]).await.map(drop)
}

/// Deletes all events.
pub async fn delete_all(store: &Store) -> Result<()> {
    store.batch(vec![Statement::new("DELETE FROM events", Vec::new())]).await.map(drop)
}

/// Deletes events and check-ins older than the cutoff; returns how many went.
pub async fn prune(store: &Store, cutoff: Millis) -> Result<u64> {
    let events = prune::older_than(store, "events", cutoff).await?;
    Ok(events + prune::older_than(store, "checkin_logs", cutoff).await?)
}
