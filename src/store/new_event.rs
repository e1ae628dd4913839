//! An event to be inserted.

use super::sql::{Statement, Value};
use crate::one_line::short_text;
use crate::time::Millis;

/// The longest message that is stored, in characters: some repeat what a site says.
const MAX_MESSAGE: usize = 10_000;

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

    pub(super) fn parse(text: &str) -> Self {
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
    /// Builds the event of a background task that began, ended or failed.
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

    /// Builds the insertion, for a batch that changes what the event is about.
    pub fn insert(self, now: Millis) -> Statement {
        let related = self.related_id.into();
        self.insertion(related, now)
    }

    /// Builds the insertion, for a batch whose statement at this index inserts what the event is about.
    pub fn insert_related_to(self, index: usize, now: Millis) -> Statement {
        self.insertion(Value::IdOf(index), now)
    }

    fn insertion(self, related: Value, now: Millis) -> Statement {
        Statement::insert(
            "events",
            [
                ("type", self.kind.into()),
                ("title", self.title.into()),
                ("message", self.message.map(|message| short_text(&message, MAX_MESSAGE, "…")).into()),
                ("level", self.level.as_str().into()),
                ("is_read", false.into()),
                ("related_id", related),
                ("related_type", self.related_type.into()),
                ("created_at", now.into()),
            ],
        )
    }
}
