//! Marks of committed transactions, so that one whose commit was cut off is neither made twice nor lost.
//!
//! ```text
//! begin ─▶ mark: number of this writer = n, where it is less ─▶ changes ─▶ commit
//!            changes no row: n was committed, and only the reply was lost
//! ```
//!
//! The mark comes first in its transaction, so that a second attempt waits at this row until the server has decided on the
//! first one.

use super::client::Client;
use crate::store::error::Result;
use crate::store::sql::Arg;
use crate::time::{DAY, Millis, now_ms};

/// The age in milliseconds after which the marks of writers that ended without deleting them are deleted.
const FORGOTTEN_AFTER: Millis = 30 * DAY;

/// Series that are numbered separately, so that one waiting to be retried does not hold up the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Series {
    /// Changes for which a caller waits.
    Changes,
    /// Groups of log rows and counters.
    Groups,
}

/// The identity of a writer, and the number of changes it has made.
pub(super) struct CommitMarks {
    writer: String,
    changes: u64,
}

/// The mark of one transaction.
#[derive(Debug, Clone)]
pub(super) struct CommitMark {
    writer: String,
    number: i64,
}

// === impl CommitMarks ===

impl CommitMarks {
    /// Inserts the marks of a new writer.
    pub(super) async fn begin<C: Client>(client: &mut C) -> Result<Self> {
        let marks = Self { writer: crate::uuid::v4(), changes: 0 };
        let forget = [Arg::Int(now_ms() - FORGOTTEN_AFTER)];
        client.execute("DELETE FROM writer_marks WHERE written_at < ?", &forget).await?;
        for series in [Series::Changes, Series::Groups] {
            CommitMark { writer: marks.named(series), number: 0 }.insert(client).await?;
        }
        Ok(marks)
    }

    /// Returns the mark of the next change.
    pub(super) fn next_change(&mut self) -> CommitMark {
        self.changes += 1;
        self.mark(Series::Changes, self.changes)
    }

    /// Returns the mark of a group, which keeps its number however often it is tried.
    pub(super) fn group(&self, number: u64) -> CommitMark {
        self.mark(Series::Groups, number)
    }

    /// Deletes the marks of a writer that ends.
    pub(super) async fn end<C: Client>(&self, client: &mut C) -> Result<()> {
        for series in [Series::Changes, Series::Groups] {
            let args = [Arg::Text(&self.named(series))];
            client.execute("DELETE FROM writer_marks WHERE writer = ?", &args).await?;
        }
        Ok(())
    }

    fn mark(&self, series: Series, number: u64) -> CommitMark {
        CommitMark { writer: self.named(series), number: i64::try_from(number).unwrap_or(i64::MAX) }
    }

    fn named(&self, series: Series) -> String {
        let series = match series {
            Series::Changes => "changes",
            Series::Groups => "groups",
        };
        format!("{} {series}", self.writer)
    }
}

// === impl CommitMark ===

impl CommitMark {
    /// Sets the mark in the transaction that has begun; returns false when the database already has that
    /// transaction.
    pub(super) async fn set<C: Client>(&self, client: &mut C) -> Result<bool> {
        let update = "UPDATE writer_marks SET number = ?, written_at = ? WHERE writer = ? AND number < ?";
        let number = Arg::Int(self.number);
        let args = [number, Arg::Int(now_ms()), Arg::Text(&self.writer), number];
        if client.execute(update, &args).await? > 0 {
            return Ok(true);
        }
        let find = "SELECT number FROM writer_marks WHERE writer = ?";
        if !client.rows(find, &[Arg::Text(&self.writer)]).await?.is_empty() {
            return Ok(false);
        }
        // The table has been emptied.
        self.insert(client).await?;
        Ok(true)
    }

    async fn insert<C: Client>(&self, client: &mut C) -> Result<()> {
        let insert = "INSERT INTO writer_marks (writer, number, written_at) VALUES (?, ?, ?)";
        let args = [Arg::Text(&self.writer), Arg::Int(self.number), Arg::Int(now_ms())];
        client.execute(insert, &args).await.map(drop)
    }
}
