//! The version of the rows that lists and statistics of the admin API show.

use super::journal;
use super::sql::{OnConflict, SqlDialect, Statement, upsert};

/// The SQL expression for the present version.
pub(super) const VERSION: &str = "COALESCE((SELECT version FROM cache_versions WHERE scope = 'lists'), 0)";

/// Returns the statement that increments the version along with a batch, if that changes such rows.
pub(super) fn incremented_by(dialect: SqlDialect, batch: &[Statement]) -> Option<Statement> {
    batch.iter().any(|statement| is_shown(&statement.sql)).then(|| increment(dialect))
}

pub(super) fn increment(dialect: SqlDialect) -> Statement {
    let sql = upsert(dialect, "cache_versions", &["scope"], &[("version", OnConflict::Add)]);
    Statement::new(sql, vec!["lists".into(), 1.into()])
}

/// Whether a statement changes rows that lists show, whether routing depends on the change or not.
fn is_shown(sql: &str) -> bool {
    journal::is_routed(sql) || journal::table(sql) == Some("checkin_logs")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lists_show_increments_the_version_and_other_changes_do_not() {
        for (sql, shows) in [
            ("UPDATE accounts SET health_state = ?", true),
            ("INSERT INTO checkin_logs (account_id) VALUES (?)", true),
            ("DELETE FROM sites WHERE id = ?", true),
            ("INSERT INTO events (title) VALUES (?)", false),
            ("DELETE FROM admin_snapshots", false),
        ] {
            let batch = [Statement::new(sql, Vec::new()).touching_nothing()];
            assert_eq!(incremented_by(SqlDialect::Sqlite, &batch).is_some(), shows, "{sql}");
        }
    }
}
