//! Migrations: the numbered files of `sql/`, embedded in the binary, applied in order, once each.
//!
//! A file is shared by the three dialects through tokens (`{{id}}`, `{{ts}}`, …) that are expanded per dialect;
//! where a step cannot be shared, `NNNN_name.<dialect>.sql` replaces it. An applied file never changes: its
//! SHA-256 is stored, and a different one stops the start. Steps only add, so that an older binary can run on a
//! newer SQLite schema; it logs this once.

use std::collections::HashMap;
use std::sync::OnceLock;

use ring::digest::{SHA256, digest};

use super::connection::{Connection, Script};
use super::error::{OpenError, Result};
use super::sql::{SqlDialect, Statement};
use crate::hex;
use crate::time::Millis;

/// One numbered file.
pub(super) struct Migration {
    version: i64,
    name: &'static str,
    shared: &'static str,
    replacements: &'static [(SqlDialect, &'static str)],
}

macro_rules! step {
    ($version:literal, $name:literal) => {
        Migration {
            version: $version,
            name: $name,
            shared: include_str!(concat!("../../sql/", $name, ".sql")),
            replacements: &[],
        }
    };
    ($version:literal, $name:literal, $dialect:ident from $extension:literal) => {
        Migration {
            replacements: &[(
                SqlDialect::$dialect,
                include_str!(concat!("../../sql/", $name, ".", $extension, ".sql")),
            )],
            ..step!($version, $name)
        }
    };
}

/// All steps in the order of their numbers. Numbers that are missing were never released.
pub(super) const STEPS: &[Migration] = &[
    step!(1, "0001_sites"),
    step!(2, "0002_accounts"),
    step!(3, "0003_availability"),
    step!(4, "0004_oauth_route_units"),
    step!(5, "0005_routes"),
    step!(6, "0006_proxy_logs"),
    step!(7, "0007_usage"),
    step!(8, "0008_proxy_files"),
    step!(9, "0009_settings"),
    step!(10, "0010_downstream_api_keys"),
    step!(11, "0011_events"),
    step!(12, "0012_crypto_keys"),
    step!(13, "0013_coordination"),
    step!(29, "0029_site_max_concurrency"),
    step!(30, "0030_proxy_log_decision"),
    step!(33, "0033_proxy_file_chunks"),
    step!(35, "0035_proxy_log_writes", Sqlite from "sqlite"),
    step!(40, "0040_debug_traces"),
    step!(50, "0050_announcements_cleared"),
    step!(62, "0062_route_marks"),
    step!(63, "0063_proxy_video_tasks"),
    step!(64, "0064_proxy_response_ids"),
    step!(72, "0072_half_open"),
    step!(80, "0080_token_issued"),
    step!(81, "0081_member_limits"),
    step!(90, "0090_key_limits"),
    step!(91, "0091_cached_tokens"),
    step!(92, "0092_writer_marks"),
    step!(93, "0093_background_responses"),
    step!(94, "0094_instances"),
    step!(95, "0095_proxy_log_sums"),
    step!(96, "0096_shared_rests"),
    step!(97, "0097_proxy_batches"),
    step!(98, "0098_shared_endpoint_rests"),
    step!(100, "0100_key_quarters"),
    step!(101, "0101_oauth_sessions"),
    step!(102, "0102_extra_channels"),
    step!(103, "0103_checkin_reason"),
    step!(104, "0104_route_unit_indexes"),
    step!(105, "0105_admin_snapshots"),
    step!(106, "0106_narrow_log_sums"),
];

/// Returns the number of the last step.
pub(super) fn newest() -> i64 {
    STEPS.iter().map(|step| step.version).max().unwrap_or(0)
}

impl Migration {
    fn text(&self, dialect: SqlDialect) -> &'static str {
        self.replacements
            .iter()
            .find(|(of, _)| *of == dialect)
            .map_or(self.shared, |(_, replacement)| replacement)
    }

    /// Returns the words for a step whose text differs from what was applied.
    fn changed(&self) -> String {
        format!(
            "migration {} was changed after it had been applied to this database; use the release that applied it, \
             or a newer one",
            self.name
        )
    }

    fn checksum(&self, dialect: SqlDialect) -> String {
        let sum = digest(&SHA256, self.text(dialect).as_bytes());
        hex::encode(sum.as_ref())
    }
}

/// A table as created by its step.
pub(super) struct Table {
    pub name: &'static str,
    /// The columns of the primary key.
    pub key: Vec<&'static str>,
    /// Whether the database numbers the rows, in the column `id`.
    #[cfg_attr(not(any(feature = "postgres", feature = "mysql")), allow(dead_code))]
    pub is_numbered: bool,
}

/// Returns every table that the steps create, referenced tables first.
pub(super) fn tables() -> &'static [Table] {
    static TABLES: OnceLock<Vec<Table>> = OnceLock::new();
    TABLES.get_or_init(|| {
        let of_step = |step: &Migration| step.shared.split("CREATE TABLE ").skip(1).filter_map(table);
        STEPS.iter().flat_map(of_step).collect()
    })
}

/// Parses the text after `CREATE TABLE`.
fn table(definition: &'static str) -> Option<Table> {
    let (name, rest) = definition.split_once('(')?;
    let (columns, _) = rest.split_once("\n);")?;
    let is_numbered = columns.trim_start().starts_with("id {{id}}");
    let key = match columns.split_once("PRIMARY KEY (") {
        _ if is_numbered => vec!["id"],
        Some((_, listed)) => listed.split(')').next()?.split(',').map(str::trim).collect(),
        None => {
            let line = columns.lines().find(|line| line.contains("PRIMARY KEY"))?;
            vec![line.split_ascii_whitespace().next()?]
        }
    };
    Some(Table { name: name.trim(), key, is_numbered })
}

/// Whether this statement inserts a row that the database numbers.
#[cfg(any(feature = "postgres", feature = "mysql"))]
pub(super) fn gives_number(sql: &str) -> bool {
    let mut words = sql.split_ascii_whitespace();
    let table = (words.next() == Some("INSERT")).then(|| words.nth(1)).flatten();
    // The ids of rows that an import takes over are not needed, and there may be many.
    let table = table.filter(|_| !sql.contains(" FROM staged_"));
    table.is_some_and(|name| tables().iter().any(|table| table.is_numbered && table.name == name))
}

/// Replaces the tokens in the text of a step by the types of this dialect.
pub(super) fn expand(text: &str, dialect: SqlDialect) -> String {
    // Texts are compared byte by byte everywhere, whatever the server's locale is.
    const BYTEWISE: &str = "TEXT COLLATE \"C\"";
    let tokens = [
        (
            "{{id}}",
            [
                "INTEGER PRIMARY KEY AUTOINCREMENT",
                "BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY",
                "BIGINT AUTO_INCREMENT PRIMARY KEY",
            ],
        ),
        ("{{int}}", ["INTEGER", "BIGINT", "BIGINT"]),
        ("{{ts}}", ["INTEGER", "BIGINT", "BIGINT"]),
        ("{{bool}}", ["INTEGER", "BOOLEAN", "BOOLEAN"]),
        ("{{true}}", ["1", "TRUE", "TRUE"]),
        ("{{false}}", ["0", "FALSE", "FALSE"]),
        ("{{key}}", ["TEXT", BYTEWISE, "VARCHAR(191) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"]),
        ("{{url}}", ["TEXT", BYTEWISE, "VARCHAR(500) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"]),
        ("{{text}}", ["TEXT", BYTEWISE, "MEDIUMTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"]),
        ("{{json}}", ["TEXT", BYTEWISE, "MEDIUMTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"]),
        ("{{blob}}", ["BLOB", "BYTEA", "LONGBLOB"]),
    ];
    tokens.iter().fold(text.to_owned(), |text, (token, types)| text.replace(token, types[dialect as usize]))
}

/// Applies the missing steps to the database. A start that fails or is killed leaves the schema as it was or,
/// where the database cannot roll back schema changes, in the middle of a step, which the next start continues.
pub(super) fn run(
    connection: &mut dyn Connection,
    steps: &[Migration],
    now: Millis,
) -> Result<(), OpenError> {
    let dialect = connection.dialect();
    let failed = |step: &str, error| OpenError::Migration(format!("migration {step}: {error}"));
    let known = connection.tables().map_err(|error| failed("lock", error))?;
    refuse_foreign(dialect, &known)?;
    let is_new = !known.iter().any(|name| name == TABLE);
    let applied = if is_new {
        HashMap::new()
    } else {
        applied_steps(connection).map_err(|error| failed(TABLE, error))?
    };
    let newest = steps.last().map_or(0, |step| step.version);
    if let Some(unknown) = applied.keys().copied().max().filter(|version| *version > newest) {
        refuse_newer(dialect, unknown, newest)?;
    }
    let mut scripts = Vec::new();
    if is_new {
        let sql = expand(NOTES, dialect);
        scripts.push(Script { name: TABLE, sql, note: None });
    }
    for step in steps {
        let checksum = step.checksum(dialect);
        match applied.get(&step.version) {
            Some(known) if *known == checksum => {}
            Some(_) => return Err(OpenError::Migration(step.changed())),
            None => {
                let note = Statement::new(
                    "INSERT INTO schema_migrations (version, name, checksum, applied_at) VALUES (?, ?, ?, ?)",
                    vec![step.version.into(), step.name.into(), checksum.into(), now.into()],
                );
                let sql = expand(step.text(dialect), dialect);
                scripts.push(Script { name: step.name, sql, note: Some(note) });
            }
        }
    }
    if scripts.is_empty() {
        return Ok(());
    }
    connection.migrate(&scripts).map_err(|failure| failed(failure.step, failure.error))
}

/// Returns what is wrong with the schema, in words: what a start refuses, and tables that are lost. Steps that the next start
/// applies are no fault.
pub(super) fn faults(connection: &mut dyn Connection) -> Result<Vec<String>> {
    let (dialect, known, applied) = (connection.dialect(), connection.tables()?, applied_steps(connection)?);
    let last = applied.keys().copied().max().unwrap_or(0);
    let mut faults = Vec::new();
    for step in STEPS.iter().filter(|step| step.version <= last) {
        match applied.get(&step.version) {
            Some(checksum) if *checksum == step.checksum(dialect) => {}
            Some(_) => faults.push(step.changed()),
            None => faults.push(format!(
                "migration {} is not recorded, although later ones are: the next start would apply it again",
                step.name
            )),
        }
    }
    if last >= newest() {
        let lost = tables().iter().filter(|table| !known.iter().any(|name| name == table.name));
        faults.extend(lost.map(|table| format!("the table {} is missing", table.name)));
    }
    Ok(faults)
}

/// Refuses a database with the tables of another program. On a server, tables that have other names than ours may
/// belong to an extension, or to somebody who shares the schema.
pub(super) fn refuse_foreign(dialect: SqlDialect, known: &[String]) -> Result<(), OpenError> {
    if known.iter().any(|name| name == TABLE) {
        return Ok(());
    }
    let is_foreign = |name: &&String| match dialect {
        // SQLite and programs that replicate its files have tables of their own.
        SqlDialect::Sqlite => !name.starts_with("sqlite_") && !name.starts_with('_'),
        SqlDialect::Postgres | SqlDialect::Mysql => tables().iter().any(|table| table.name == name.as_str()),
    };
    match known.iter().find(is_foreign) {
        Some(name) => Err(OpenError::Unusable(format!(
            "the database belongs to another program: it has the table {name}, but no {TABLE}. Name another \
             database; `switchyard import` reads those of some gateways"
        ))),
        None => Ok(()),
    }
}

/// Refuses a schema newer than this release, except on SQLite: a single process that goes back to an older
/// release has the database to itself, and steps only add. Of several instances on one database, an older one
/// would not know what the newer ones agree on.
fn refuse_newer(dialect: SqlDialect, unknown: i64, newest: i64) -> Result<(), OpenError> {
    let known = format!("schema {unknown}, this one knows {newest}");
    if dialect != SqlDialect::Sqlite {
        return Err(OpenError::Migration(format!(
            "the database was last used by a newer release ({known}): start that release, or a newer one. \
             All instances that share a database must run the same release"
        )));
    }
    log::warn!("the database was last used by a newer release ({known}); what that release added is ignored");
    Ok(())
}

/// The table that records the applied steps.
const TABLE: &str = "schema_migrations";
const NOTES: &str = "CREATE TABLE schema_migrations (
  version {{int}} NOT NULL PRIMARY KEY,
  name {{key}} NOT NULL,
  checksum {{key}} NOT NULL,
  applied_at {{ts}} NOT NULL
)";

/// Returns the checksums of the applied steps, by version.
fn applied_steps(connection: &mut dyn Connection) -> Result<HashMap<i64, String>> {
    let rows = connection.select("SELECT version, checksum FROM schema_migrations", &[])?;
    let step = |row: &super::sql::Row| {
        let mut row = row.fields();
        Ok((row.int()?, row.text()?))
    };
    rows.iter().map(step).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::sqlite::connection::Sqlite;

    const ONE: Migration = Migration {
        version: 1,
        name: "0001_one",
        shared: "CREATE TABLE one (id {{id}}, name {{key}} NOT NULL);",
        replacements: &[],
    };

    fn database() -> Sqlite {
        rusqlite::Connection::open_in_memory().expect("a database").into()
    }

    #[test]
    fn a_database_of_another_program_is_refused_and_left_as_it_is() {
        for (sql, is_foreign) in [
            ("CREATE TABLE channels (id INTEGER PRIMARY KEY AUTOINCREMENT)", true),
            ("CREATE TABLE one (id)", true),
            ("CREATE TABLE _litestream_seq (id INTEGER PRIMARY KEY AUTOINCREMENT)", false),
        ] {
            let mut database = database();
            database.run(&[Statement::new(sql, Vec::new())]).expect("created");
            let before = database.tables().expect("tables");
            let ran = run(&mut database, &[ONE], 7);
            assert_eq!(ran.is_err(), is_foreign, "{sql}: {ran:?}");
            if let Err(error) = ran {
                assert!(error.to_string().contains("belongs to another program"), "{error}");
                assert_eq!(database.tables().expect("tables"), before);
            }
        }
    }

    #[test]
    fn every_file_of_the_folder_is_a_step_in_order() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/sql");
        let mut files: Vec<String> = std::fs::read_dir(folder)
            .expect("the folder")
            .map(|entry| entry.expect("an entry").file_name().into_string().expect("a UTF-8 name"))
            .collect();
        files.sort_unstable();
        let of_step = |step: &Migration| {
            let replacing = step.replacements.iter().map(|(dialect, _)| match dialect {
                SqlDialect::Sqlite => format!("{}.sqlite.sql", step.name),
                SqlDialect::Postgres => format!("{}.postgres.sql", step.name),
                SqlDialect::Mysql => format!("{}.mysql.sql", step.name),
            });
            std::iter::once(format!("{}.sql", step.name)).chain(replacing).collect::<Vec<_>>()
        };
        let steps: Vec<String> = STEPS.iter().flat_map(of_step).collect();
        assert_eq!(files, steps);
        assert!(STEPS.is_sorted_by(|one, next| one.version < next.version));
        for step in STEPS {
            assert!(step.name.starts_with(&format!("{:04}_", step.version)), "{}", step.name);
        }
    }

    #[test]
    fn the_key_of_every_table_is_known() {
        let mut database = database();
        run(&mut database, STEPS, 0).expect("the schema");
        let mut there = database.tables().expect("tables");
        there.retain(|name| name != TABLE && !name.starts_with("sqlite_"));
        let mut known: Vec<&str> = tables().iter().map(|table| table.name).collect();
        known.sort_unstable();
        there.sort_unstable();
        assert_eq!(known, there);
        for table in tables() {
            let columns = database.columns(table.name).expect("columns");
            assert!(table.key.iter().all(|key| columns.iter().any(|column| column == key)), "{}", table.name);
        }
    }

    #[test]
    fn no_dialect_is_left_with_a_token() {
        for step in STEPS {
            for dialect in [SqlDialect::Sqlite, SqlDialect::Postgres, SqlDialect::Mysql] {
                let text = expand(step.text(dialect), dialect);
                assert!(!text.contains("{{"), "{} for {dialect:?}", step.name);
            }
        }
    }

    #[test]
    fn steps_are_applied_once() {
        let mut database = database();
        for _ in 0..2 {
            run(&mut database, STEPS, 7).expect("the schema is up to date");
        }
        let applied: i64 = database
            .raw()
            .query_row("SELECT COUNT(*) FROM schema_migrations WHERE applied_at = 7", [], |row| row.get(0))
            .expect("a count");
        assert_eq!(applied, STEPS.len() as i64);
    }

    #[test]
    fn a_step_changed_after_its_application_stops_the_start() {
        let mut database = database();
        run(&mut database, &[ONE], 0).expect("the first time");
        let changed = Migration { shared: "CREATE TABLE one (id {{id}});", ..ONE };
        let error = run(&mut database, &[changed], 0).expect_err("it was changed");
        assert!(error.to_string().contains("0001_one was changed"), "{error}");
    }

    #[test]
    fn a_step_that_fails_leaves_nothing_behind() {
        let mut database = database();
        let broken =
            Migration { version: 2, name: "0002_two", shared: "CREATE TABEL two (id);", replacements: &[] };
        let error = run(&mut database, &[ONE, broken], 0).expect_err("bad SQL");
        assert!(error.to_string().contains("0002_two"), "{error}");
        let tables: i64 = database
            .raw()
            .query_row("SELECT COUNT(*) FROM sqlite_master", [], |row| row.get(0))
            .expect("a count");
        assert_eq!(tables, 0);
    }

    #[test]
    fn a_newer_schema_does_not_stop_an_older_binary() {
        let mut database = database();
        let next = Migration {
            version: 2,
            name: "0002_two",
            shared: "CREATE TABLE two (id {{id}});",
            replacements: &[],
        };
        run(&mut database, &[ONE, next], 0).expect("the newer binary");
        run(&mut database, &[ONE], 0).expect("the older binary");
    }

    #[test]
    fn a_cooldown_that_a_hint_has_lengthened_becomes_one_of_ten_minutes_with_a_limit() {
        let mut database = database();
        let before = STEPS.iter().position(|step| step.name == "0072_half_open").expect("the step");
        run(&mut database, &STEPS[..before], 0).expect("the schema before it");
        database.raw().execute_batch("PRAGMA foreign_keys = OFF").expect("no routes are needed");
        // A failure of its own with a hint, one without, a limit set by another channel, and none.
        for (id, failed, cools, provider) in [
            (1, Some(1_000), Some(9_000_000), None),
            (2, Some(1_000), Some(601_000), None),
            (3, Some(1_000), Some(601_000), Some(601_000)),
            (4, None, Some(9_000_000), Some(9_000_000)),
            (5, None, None, None),
        ] {
            let sql = "INSERT INTO channel_stats (channel_id, last_fail_at, cooldown_until, provider_cooldown_until) \
                       VALUES (?, ?, ?, ?)";
            let row: (i64, Option<i64>, Option<i64>, Option<i64>) = (id, failed, cools, provider);
            database.raw().execute(sql, row).expect("a row");
        }
        run(&mut database, STEPS, 0).expect("the step");
        let sql = "SELECT cooldown_until, provider_cooldown_until FROM channel_stats ORDER BY channel_id";
        let mut query = database.raw().prepare(sql).expect("a query");
        let rows = query.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).expect("rows");
        let rows: Vec<(Option<i64>, Option<i64>)> = rows.map(|row| row.expect("a row")).collect();
        let (ten, hint) = (Some(601_000), Some(9_000_000));
        assert_eq!(rows, [(ten, hint), (ten, None), (ten, ten), (None, hint), (None, None)]);
    }

    #[test]
    fn a_replacement_is_taken_for_its_dialect_only() {
        let step =
            Migration { replacements: &[(SqlDialect::Mysql, "CREATE TABLE other (id {{id}});")], ..ONE };
        assert!(step.text(SqlDialect::Mysql).contains("other"));
        assert_eq!(step.text(SqlDialect::Sqlite), ONE.shared);
        assert_ne!(step.checksum(SqlDialect::Mysql), step.checksum(SqlDialect::Sqlite));
    }
}
