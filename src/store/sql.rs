//! Statements, and how one statement text is written in each SQL dialect.
//!
//! SQL is written once, in the subset that SQLite, PostgreSQL and MySQL share, with `?` for arguments.
//! [`SqlDialect::translate`] rewrites the placeholders, [`upsert`] writes the one statement whose form differs.

use std::borrow::Cow;
use std::fmt::Write;

use super::touches::{TouchedKind, Touches};
pub use super::value::{Arg, Fields, Outcome, Row, Value};

/// The last position in an operator's order: the largest integer that every client reads exactly.
const MAX_SORT_ORDER: i64 = (1 << 53) - 1;

/// One statement of a batch.
#[derive(Debug, Clone)]
pub struct Statement {
    pub sql: Cow<'static, str>,
    pub args: Vec<Value>,
    /// Whether the batch is undone with [`NotFound`](super::Error::NotFound) when this statement changes no
    /// row.
    pub must_change: bool,
    /// The rows it touches that routing depends on.
    pub(super) touches: Touches,
}

impl Statement {
    pub fn new(sql: impl Into<Cow<'static, str>>, args: Vec<Value>) -> Self {
        Self { sql: sql.into(), args, must_change: false, touches: Touches::Undeclared }
    }

    /// Builds an `INSERT` of one row from columns and their values.
    pub(super) fn insert(table: &str, row: impl IntoIterator<Item = (&'static str, Value)>) -> Self {
        let (columns, args): (Vec<&str>, Vec<Value>) = row.into_iter().unzip();
        let marks = placeholders(args.len());
        Self::new(format!("INSERT INTO {table} ({}) VALUES ({marks})", columns.join(", ")), args)
    }

    /// Builds an `INSERT` of one row at this position of the operator's order, or after all others if there is
    /// none.
    pub(super) fn insert_in_order(
        table: &str,
        sort_order: Option<i64>,
        row: impl IntoIterator<Item = (&'static str, Value)>,
    ) -> Self {
        let (mut columns, mut args): (Vec<_>, Vec<_>) = row.into_iter().unzip();
        let values = placeholders(columns.len());
        columns.push("sort_order");
        args.push(sort_order.into());
        let next = format!(
            "CASE WHEN MAX(sort_order) >= {MAX_SORT_ORDER} THEN {MAX_SORT_ORDER} ELSE COALESCE(MAX(sort_order), -1) + 1 END"
        );
        let sql = format!(
            "INSERT INTO {table} ({}) SELECT {values}, COALESCE(?, {next}) FROM {table}",
            columns.join(", ")
        );
        Self::new(sql, args)
    }

    /// Declares that the statement touches these rows, and nothing else that routing depends on.
    pub(super) fn touching(mut self, part: TouchedKind, ids: impl IntoIterator<Item = Value>) -> Self {
        self.touches = Touches::Of(part, ids.into_iter().collect());
        self
    }

    /// Declares that the statement touches the row that it inserts, and nothing else that routing depends on.
    pub(super) fn inserting(mut self, part: TouchedKind) -> Self {
        self.touches = Touches::Inserted(part);
        self
    }

    /// Declares that none of the columns the statement changes is held in memory: routing, access and settings
    /// do not depend on them.
    pub(super) fn touching_nothing(mut self) -> Self {
        self.touches = Touches::Nothing;
        self
    }

    /// Makes the whole batch fail with [`NotFound`](super::Error::NotFound) when no row changes.
    pub fn must_change(mut self) -> Self {
        self.must_change = true;
        self
    }
}

/// The SQL dialect of a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SqlDialect {
    Sqlite,
    Postgres,
    Mysql,
}

impl SqlDialect {
    /// Returns the SQL expression for the database's time in milliseconds; `None` for a database that only one
    /// process uses.
    pub(super) fn now(self) -> Option<&'static str> {
        match self {
            Self::Sqlite => None,
            Self::Postgres => Some("CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT)"),
            Self::Mysql => Some("CAST(UNIX_TIMESTAMP(NOW(3)) * 1000 AS SIGNED)"),
        }
    }

    /// Returns the function that lowers both the text that is looked for, `sought`, and the columns that may contain it.
    /// SQLite's own and PostgreSQL's lower ASCII letters alone in our columns; [`LOWER_ALL`] lowers all, but takes longer.
    pub(super) fn lower(self, sought: &str) -> &'static str {
        match self {
            Self::Sqlite | Self::Postgres if !sought.is_ascii() => LOWER_ALL,
            Self::Sqlite | Self::Postgres | Self::Mysql => "LOWER",
        }
    }

    /// Returns the statement in this database's dialect: `?` outside quotes becomes `$1`, `$2`, … on
    /// PostgreSQL. An argument of `LOWER` gets the byte-wise collation that our columns have, because other
    /// collations also lower letters beyond ASCII; what [`LOWER_ALL`] lowers, which is a column or an argument, gets the
    /// collation of that name.
    pub fn translate<'a>(self, sql: &'a str, lowers_all: &str) -> Cow<'a, str> {
        if self != Self::Postgres || !sql.contains('?') {
            return Cow::Borrowed(sql);
        }
        let sql = with_collation(sql, lowers_all);
        let mut spelled = String::with_capacity(sql.len() + 16);
        let (mut count, mut quote) = (0, None);
        for (at, c) in sql.char_indices() {
            match quote {
                Some(open) if c == open => quote = None,
                Some(_) => {}
                None if c == '\'' || c == '"' => quote = Some(c),
                None if c == '?' => {
                    count += 1;
                    let is_lowered = spelled.ends_with("LOWER(") && sql[at + 1..].starts_with(')');
                    let order = if is_lowered { " COLLATE \"C\"" } else { "" };
                    write!(spelled, "${count}{order}").expect("writing to a String cannot fail");
                    continue;
                }
                None => {}
            }
            spelled.push(c);
        }
        Cow::Owned(spelled)
    }
}

/// Replaces each [`LOWER_ALL`] by `LOWER` under a collation.
fn with_collation<'a>(sql: &'a str, collation: &str) -> Cow<'a, str> {
    let mut pieces = sql.split("LOWER_ALL(");
    let first = pieces.next().unwrap_or_default();
    if first.len() == sql.len() {
        return Cow::Borrowed(sql);
    }
    let mut spelled = first.to_owned();
    for piece in pieces {
        let (lowered, rest) = piece.split_once(')').unwrap_or((piece, ""));
        write!(spelled, "LOWER({lowered} COLLATE \"{collation}\"){rest}")
            .expect("writing to a String cannot fail");
    }
    Cow::Owned(spelled)
}

/// How an upsert treats a column of an existing row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnConflict {
    /// Takes the new value.
    Replace,
    /// Adds the new value to the old one.
    Add,
    /// Keeps the old value.
    Keep,
}

/// Builds an `INSERT` of `keys` and `columns`, in that order, or an update of the row that has these keys.
pub fn upsert(dialect: SqlDialect, table: &str, keys: &[&str], columns: &[(&str, OnConflict)]) -> String {
    upsert_rows(dialect, table, keys, columns, 1)
}

/// Builds an [`upsert`] of `rows` rows, whose arguments follow one another.
pub fn upsert_rows(
    dialect: SqlDialect,
    table: &str,
    keys: &[&str],
    columns: &[(&str, OnConflict)],
    rows: usize,
) -> String {
    let names: Vec<&str> = keys.iter().copied().chain(columns.iter().map(|(name, _)| *name)).collect();
    let marks = vec![format!("({})", placeholders(names.len())); rows].join(", ");
    let new = |name: &str| match dialect {
        SqlDialect::Mysql => format!("VALUES({name})"),
        SqlDialect::Sqlite | SqlDialect::Postgres => format!("excluded.{name}"),
    };
    let mut changes: Vec<String> = columns
        .iter()
        .filter_map(|&(name, rule)| match rule {
            OnConflict::Replace => Some(format!("{name} = {}", new(name))),
            OnConflict::Add => Some(format!("{name} = {table}.{name} + {}", new(name))),
            OnConflict::Keep => None,
        })
        .collect();
    let conflict = match dialect {
        SqlDialect::Mysql => {
            if changes.is_empty() {
                changes.push(format!("{0} = {0}", keys[0]));
            }
            format!("ON DUPLICATE KEY UPDATE {}", changes.join(", "))
        }
        _ if changes.is_empty() => format!("ON CONFLICT ({}) DO NOTHING", keys.join(", ")),
        _ => format!("ON CONFLICT ({}) DO UPDATE SET {}", keys.join(", "), changes.join(", ")),
    };
    format!("INSERT INTO {table} ({}) VALUES {marks} {conflict}", names.join(", "))
}

/// The function that lowers all letters: one of ours on every connection to SQLite; [translated](SqlDialect::translate) for
/// PostgreSQL.
pub(super) const LOWER_ALL: &str = "LOWER_ALL";

/// Returns the pattern by which `LIKE ? ESCAPE '!'` finds a text anywhere.
pub(super) fn contains_pattern(text: &str) -> Value {
    Value::Text(format!("%{}%", like_escaped(text)))
}

/// Returns the pattern by which `REPLACE(column, '","', '\n') LIKE ? ESCAPE '!'` finds a text within one of the strings of
/// a column with a JSON list.
pub(super) fn list_contains_pattern(text: &str) -> Value {
    let quoted = serde_json::Value::from(text).to_string();
    let written = &quoted[1..quoted.len() - 1];
    Value::Text(format!("[\"%{}%\"]", like_escaped(written)))
}

/// Escapes with `!`, since a backslash as the escape character would itself need escaping on MySQL. A NUL, at which SQLite
/// would end the pattern, becomes what PostgreSQL stores in its place.
fn like_escaped(text: &str) -> String {
    text.replace('\0', "\u{fffd}").replace('!', "!!").replace('%', "!%").replace('_', "!_")
}

/// The most ids that one statement names: every database takes that many arguments.
pub(super) const MAX_PLACEHOLDERS: usize = 500;

/// Converts ids to arguments.
pub(super) fn values(ids: &[impl Copy + Into<Value>]) -> impl Iterator<Item = Value> {
    ids.iter().map(|id| (*id).into())
}

/// Returns `?, ?, ?`: the placeholders of a list of `count` values.
pub fn placeholders(count: usize) -> String {
    vec!["?"; count].join(", ")
}

/// The `SET` part of an update that changes only the given columns.
#[derive(Default)]
pub struct Changes {
    columns: Vec<&'static str>,
    counted: Vec<&'static str>,
    args: Vec<Value>,
}

impl Changes {
    /// Adds `column = value`.
    pub fn set(&mut self, column: &'static str, value: impl Into<Value>) {
        self.columns.push(column);
        self.args.push(value.into());
    }

    /// Adds `column = value` when there is a value to set.
    pub fn set_some<T: Into<Value>>(&mut self, column: &'static str, value: Option<T>) {
        if let Some(value) = value {
            self.set(column, value);
        }
    }

    /// Adds columns with their values.
    pub fn set_all(&mut self, row: impl IntoIterator<Item = (&'static str, Value)>) {
        for (column, value) in row {
            self.set(column, value);
        }
    }

    /// Increments a column by one.
    pub fn count(&mut self, column: &'static str) {
        self.counted.push(column);
    }

    /// Builds `UPDATE table SET … WHERE id = ?`, which undoes its batch when no such row exists.
    pub fn update(mut self, table: &str, id: impl Into<Value>) -> Statement {
        let set = self.columns.iter().map(|column| format!("{column} = ?"));
        let counted = self.counted.iter().map(|column| format!("{column} = {column} + 1"));
        let set: Vec<String> = set.chain(counted).collect();
        self.args.push(id.into());
        let statement =
            Statement::new(format!("UPDATE {table} SET {} WHERE id = ?", set.join(", ")), self.args);
        statement.must_change()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_numbered_outside_quotes_on_postgres() {
        let sql = "SELECT '?' , \"a?\" FROM t WHERE a = ? AND b IN (?, ?)";
        assert_eq!(
            SqlDialect::Postgres.translate(sql, "C"),
            "SELECT '?' , \"a?\" FROM t WHERE a = $1 AND b IN ($2, $3)"
        );
        assert_eq!(SqlDialect::Postgres.translate("a LIKE LOWER(?)", "C"), "a LIKE LOWER($1 COLLATE \"C\")");
        assert_eq!(SqlDialect::Sqlite.translate(sql, "C"), sql);
        assert_eq!(SqlDialect::Mysql.translate(sql, "C"), sql);
    }

    #[test]
    fn both_sides_of_a_search_for_any_letter_have_its_collation_on_postgres() {
        let sql = "REPLACE(LOWER_ALL(t.a), ',', ' ') LIKE LOWER_ALL(?) AND b = ?";
        assert_eq!(
            SqlDialect::Postgres.translate(sql, "all"),
            "REPLACE(LOWER(t.a COLLATE \"all\"), ',', ' ') LIKE LOWER($1 COLLATE \"all\") AND b = $2"
        );
        assert_eq!(SqlDialect::Sqlite.translate(sql, "all"), sql);
    }

    #[test]
    fn an_upsert_is_spelled_for_each_dialect() {
        let columns = [("calls", OnConflict::Add), ("tz", OnConflict::Replace), ("born", OnConflict::Keep)];
        assert_eq!(
            upsert(SqlDialect::Sqlite, "usage", &["day"], &columns),
            "INSERT INTO usage (day, calls, tz, born) VALUES (?, ?, ?, ?) \
             ON CONFLICT (day) DO UPDATE SET calls = usage.calls + excluded.calls, tz = excluded.tz"
        );
        assert_eq!(
            upsert(SqlDialect::Mysql, "usage", &["day"], &columns),
            "INSERT INTO usage (day, calls, tz, born) VALUES (?, ?, ?, ?) \
             ON DUPLICATE KEY UPDATE calls = usage.calls + VALUES(calls), tz = VALUES(tz)"
        );
        assert_eq!(
            upsert(SqlDialect::Postgres, "seen", &["a", "b"], &[]),
            "INSERT INTO seen (a, b) VALUES (?, ?) ON CONFLICT (a, b) DO NOTHING"
        );
        assert_eq!(
            upsert_rows(SqlDialect::Sqlite, "seen", &["a", "b"], &[], 2),
            "INSERT INTO seen (a, b) VALUES (?, ?), (?, ?) ON CONFLICT (a, b) DO NOTHING"
        );
    }
}
