//! Applies the staged rows: one batch, in which every row is copied inside the database.

use super::super::Store;
use super::super::error::Result;
use super::super::sql::{Outcome, SqlDialect, Statement};
use super::matching::{Conflict, updated};
use super::tables::{Column, StoredRows, TABLES, Table};
use super::{Policy, Staging};
use crate::time::Millis;

/// The tables of a backup whose rows the request log and its sums refer to without a foreign key, with the table and
/// the column that refer to them.
const NAMED: &[(&str, &str, &str)] = &[
    ("token_routes", "proxy_logs", "route_id"),
    ("route_channels", "proxy_logs", "channel_id"),
    ("accounts", "proxy_logs", "account_id"),
    ("sites", "proxy_logs", "site_id"),
    ("sites", "proxy_log_sums", "site_id"),
    ("sites", "proxy_log_site_sums", "site_id"),
    ("downstream_api_keys", "proxy_logs", "downstream_api_key_id"),
    ("downstream_api_keys", "proxy_log_sums", "downstream_api_key_id"),
    ("downstream_api_keys", "proxy_log_model_sums", "downstream_api_key_id"),
];

/// How a database names the staged tables, and how it writes what differs between dialects.
#[derive(Debug, Clone, Copy)]
struct Spelling {
    dialect: SqlDialect,
}

impl Staging {
    /// Applies the staged rows, with `first` before them and `more` after them in the same transaction. The
    /// store's writer does it: other changes wait for as long as rows are copied. Fails with
    /// [`NotFound`](super::super::Error::NotFound) when a stored row that was matched is gone.
    pub async fn apply(
        &mut self,
        store: &Store,
        policy: Policy,
        now: Millis,
        first: Vec<Statement>,
        more: Vec<Statement>,
    ) -> Result<Vec<Outcome>> {
        let spelling = Spelling { dialect: store.database().dialect() };
        let mut batch = first;
        batch.extend(self.statements(spelling, policy, now)?);
        batch.extend(more);
        // The writer reads the file through a connection of its own, so this one gives its memory back.
        self.connection.execute_batch("PRAGMA shrink_memory")?;
        store.database().batch_with(self.path.clone(), batch).await
    }

    fn statements(&mut self, spelling: Spelling, policy: Policy, now: Millis) -> Result<Vec<Statement>> {
        self.settle()?;
        let mut batch = if policy.replaces { self.deletions(spelling)? } else { Vec::new() };
        let given = || TABLES.iter().enumerate().filter(|(index, _)| self.is_given(*index));
        for (_, table) in given() {
            batch.extend(self.copies(spelling, policy, table, now));
        }
        if self.is_given(Table::index("route_channels").unwrap_or_default()) {
            batch.extend(spelling.offers(now));
        }
        let statement = |sql: String| Statement::new(sql, Vec::new());
        let checks = given().filter(|(_, table)| table.has_id).map(|(_, table)| spelling.updated_all(table));
        let checks = checks.map(|sql| statement(sql).must_change());
        Ok(batch.into_iter().map(statement).chain(checks).collect())
    }

    /// Returns the statements that delete what the document does not have, and the references to it.
    fn deletions(&self, spelling: Spelling) -> Result<Vec<String>> {
        let given =
            TABLES.iter().enumerate().filter(|(index, table)| self.is_given(*index) && table.is_exported());
        let mut batch: Vec<String> = given.rev().map(|(_, table)| spelling.delete(table)).collect();
        for &(table, referring, column) in NAMED {
            let Some(index) = Table::index(table).filter(|index| self.is_given(*index)) else { continue };
            if self.has_untaken(index)? {
                batch.push(spelling.unlink(index, referring, column));
            }
        }
        if let Some(keys) = Table::index("downstream_api_keys").filter(|index| self.is_given(*index)) {
            batch.push(spelling.forget_quarters(keys));
        }
        Ok(batch)
    }

    /// Returns the statements that copy the staged rows of a table.
    fn copies(&self, spelling: Spelling, policy: Policy, table: &Table, now: Millis) -> Vec<String> {
        match table.name {
            "site_disabled_models" => vec![spelling.add(
                "site_disabled_models (site_id, model_name, created_at)",
                &format!("s.site_id, s.model_name, {now}"),
                table,
            )],
            "manual_models" => {
                let added = spelling.add(
                    "model_availability (account_id, model_name, available, is_manual, checked_at)",
                    &format!("s.account_id, s.model_name, TRUE, TRUE, {now}"),
                    table,
                );
                vec![spelling.mark_manual(), added]
            }
            "route_group_sources" => {
                let moved = (policy.conflict == Conflict::Overwrite).then(|| {
                    let same = same(table, table.name);
                    spelling.update(table.name, &[("position", "s.position".to_owned())], &same)
                });
                let added = spelling.add(
                    "route_group_sources (group_route_id, source_route_id, position)",
                    "s.group_route_id, s.source_route_id, s.position",
                    table,
                );
                moved.into_iter().chain([added]).collect()
            }
            "usage_day" => {
                let columns: Vec<&str> = table.columns.iter().map(|column| column.sql).collect();
                let values = format!("s.{}", columns.join(", s."));
                vec![spelling.add(&format!("usage_day ({})", columns.join(", ")), &values, table)]
            }
            _ => {
                // Rows of a table that the document does not have stay, and so do references to them.
                let is_replaced = |column: &Column| {
                    column.refers.and_then(Table::index).is_none_or(|other| self.is_given(other))
                };
                let mut copies: Vec<String> =
                    spelling.overwrite(table, policy, is_replaced).into_iter().collect();
                copies.push(spelling.insert(table, now));
                copies
            }
        }
    }

    fn has_untaken(&self, index: usize) -> Result<bool> {
        let sql = "SELECT EXISTS (SELECT 1 FROM local WHERE tbl = ? AND taken = 0)";
        Ok(self.connection.query_row(sql, [index as i64], |row| row.get(0))?)
    }
}

/// Returns the SQL condition that a staged row `s` and a row of `stored` agree in the unique columns.
fn same(table: &Table, stored: &str) -> String {
    let same = table.unique.iter().map(|column| format!("s.{column} = {stored}.{column}"));
    same.collect::<Vec<_>>().join(" AND ")
}

// === impl Spelling ===

impl Spelling {
    /// Returns the name of a staged table in statements.
    fn staged(self, table: &str) -> String {
        match self.dialect {
            SqlDialect::Sqlite => format!("staged.{table}"),
            SqlDialect::Postgres | SqlDialect::Mysql => format!("staged_{table}"),
        }
    }

    /// Returns the `OR FAIL` of a statement of many rows on SQLite: otherwise it would copy every page before
    /// changing it, to be undone alone, and the batch is undone as a whole anyway.
    fn or_fail(self) -> &'static str {
        if self.dialect == SqlDialect::Sqlite { " OR FAIL" } else { "" }
    }

    /// Builds the statement that deletes rows that the document does not have.
    fn delete(self, table: &Table) -> String {
        let staged = self.staged(table.name);
        let StoredRows { table: stored, condition } = table.stored_rows();
        let same = if table.has_id { format!("s.local_id = {stored}.id") } else { same(table, stored) };
        format!(
            "DELETE FROM {stored} WHERE {condition} AND NOT EXISTS (SELECT 1 FROM {staged} s WHERE {same})"
        )
    }

    /// Builds the statement that clears a column's references to deleted rows.
    fn unlink(self, index: usize, referring: &str, column: &str) -> String {
        let (or_fail, deleted) = (self.or_fail(), self.deleted(index));
        format!("UPDATE{or_fail} {referring} SET {column} = NULL WHERE {column} IN ({deleted})")
    }

    /// Builds the statement that deletes the sums of deleted keys.
    fn forget_quarters(self, keys: usize) -> String {
        format!("DELETE FROM proxy_log_key_quarters WHERE downstream_api_key_id IN ({})", self.deleted(keys))
    }

    /// Returns the query for the stored rows of a table that are deleted.
    fn deleted(self, index: usize) -> String {
        format!("SELECT l.id FROM {} l WHERE l.tbl = {index} AND l.taken = 0", self.staged("local"))
    }

    /// Builds an update of stored rows from the staged rows `s` with which the condition pairs them.
    fn update(self, name: &str, set: &[(&str, String)], paired: &str) -> String {
        let (staged, or_fail) = (self.staged(name), self.or_fail());
        let set = |prefix: &str| {
            let set: Vec<String> =
                set.iter().map(|(column, value)| format!("{prefix}{column} = {value}")).collect();
            set.join(", ")
        };
        match self.dialect {
            SqlDialect::Mysql => {
                format!("UPDATE {name} JOIN {staged} s ON {paired} SET {}", set(&format!("{name}.")))
            }
            SqlDialect::Sqlite | SqlDialect::Postgres => {
                format!("UPDATE{or_fail} {name} SET {} FROM {staged} s WHERE {paired}", set(""))
            }
        }
    }

    /// Builds the update of stored rows to what the document says, for the columns that `is_replaced` allows;
    /// `None` when no column changes.
    fn overwrite(
        self,
        table: &Table,
        policy: Policy,
        is_replaced: impl Fn(&Column) -> bool,
    ) -> Option<String> {
        let of = |column: &'static Column| Some((column.sql, updated(table, column, policy)?));
        let replaced = table.columns.iter().filter(|column| is_replaced(column));
        let mut set: Vec<(&str, String)> = replaced.filter_map(of).collect();
        if set.is_empty() {
            return None;
        }
        let name = table.name;
        if table.has_credential_version {
            // A token renewal under way must not overwrite what was imported.
            set.push(("credential_version", format!("{name}.credential_version + 1")));
        }
        Some(self.update(name, &set, &format!("s.local_id = {name}.id AND s.action = 'updated'")))
    }

    /// Builds the statement that changes no row when a stored row that the document updates is gone: it was deleted after
    /// the comparison. The rows that were updated stay until the transaction ends.
    fn updated_all(self, table: &Table) -> String {
        let (name, staged) = (table.name, self.staged(table.name));
        format!(
            "UPDATE schema_migrations SET version = version WHERE version = 1 AND NOT EXISTS (SELECT 1 FROM {staged} s \
             WHERE s.action = 'updated' AND NOT EXISTS (SELECT 1 FROM {name} t WHERE t.id = s.local_id))"
        )
    }

    fn insert(self, table: &Table, now: Millis) -> String {
        let name = table.name;
        let columns: Vec<&str> = table.columns.iter().map(|column| column.sql).collect();
        let columns = columns.join(", ");
        // Rows of downstream keys come without their times.
        let (times, values) = if table.columns.iter().any(|column| column.sql == "created_at") {
            ("", String::new())
        } else {
            (", created_at, updated_at", format!(", {now}, {now}"))
        };
        format!(
            "INSERT{} INTO {name} (id, {columns}{times}) SELECT final_id, {columns}{values} FROM {} \
             WHERE action = 'created' ORDER BY final_id",
            self.or_fail(),
            self.staged(name)
        )
    }

    /// Builds the insertion of the staged rows that are missing in a table without ids.
    fn add(self, into: &str, values: &str, table: &Table) -> String {
        let stored = into.split(' ').next().unwrap_or(into);
        format!(
            "INSERT INTO {into} SELECT {values} FROM {} s WHERE NOT EXISTS (SELECT 1 FROM {stored} t WHERE {}) \
             ORDER BY s.line",
            self.staged(table.name),
            same(table, "t")
        )
    }

    /// Builds the statement that marks discovered models as added by hand if the document lists them as such.
    fn mark_manual(self) -> String {
        format!(
            "UPDATE model_availability SET is_manual = TRUE, available = TRUE WHERE EXISTS (SELECT 1 FROM {} s \
             WHERE s.account_id = model_availability.account_id AND s.model_name = model_availability.model_name)",
            self.staged("manual_models")
        )
    }

    /// Builds the statements that give new channels their counters and record what they serve as discovered
    /// models, so that the routes stay until the sites have been asked for their models.
    fn offers(self, now: Millis) -> Vec<String> {
        let staged = self.staged("route_channels");
        let fresh = format!(
            "{staged} s JOIN route_channels c ON c.id = s.final_id JOIN token_routes r ON r.id = c.route_id"
        );
        let model = "COALESCE(NULLIF(c.source_model, ''), r.model_pattern)";
        let wanted = format!(
            "s.action = 'created' AND c.manual_override = FALSE AND r.route_mode <> 'explicit_group' \
             AND {model} NOT LIKE '%*%' AND {model} NOT LIKE 're:%' AND LENGTH({model}) <= 191"
        );
        let absent = |table: &str, column: &str| {
            format!(
                "c.{column} IS NOT NULL AND NOT EXISTS (SELECT 1 FROM {table} a WHERE a.{column} = c.{column} \
                 AND a.model_name = {model})"
            )
        };
        vec![
            format!(
                "INSERT INTO channel_stats (channel_id) SELECT s.final_id FROM {staged} s WHERE s.action = 'created' \
                 AND NOT EXISTS (SELECT 1 FROM channel_stats t WHERE t.channel_id = s.final_id)"
            ),
            format!(
                "INSERT INTO model_availability (account_id, model_name, available, is_manual, checked_at) \
                 SELECT DISTINCT c.account_id, {model}, TRUE, FALSE, {now} FROM {fresh} \
                 WHERE {wanted} AND c.token_id IS NULL AND {}",
                absent("model_availability", "account_id")
            ),
            format!(
                "INSERT INTO token_model_availability (token_id, model_name, available, checked_at) \
                 SELECT DISTINCT c.token_id, {model}, TRUE, {now} FROM {fresh} WHERE {wanted} AND {}",
                absent("token_model_availability", "token_id")
            ),
        ]
    }
}

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use super::*;
    use crate::store::StoreOptions;
    use crate::store::tests::Dir;

    /// Returns the steps of a statement's plan that read a whole table for each row of another.
    fn scans_per_row(connection: &Connection, sql: &str) -> Vec<String> {
        let mut query = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).expect(sql);
        let steps = query.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(3)?))).expect(sql);
        let steps: Vec<(i64, i64, String)> = steps.collect::<rusqlite::Result<_>>().expect(sql);
        let mut scans = Vec::new();
        for (at, (_, parent, detail)) in
            steps.iter().enumerate().filter(|(_, step)| step.2.starts_with("SCAN"))
        {
            let is_of =
                |(id, _, detail): &(i64, i64, String)| id == parent && detail.starts_with("CORRELATED");
            let is_around = |(_, beside, detail): &(i64, i64, String)| {
                beside == parent && (detail.starts_with("SCAN") || detail.starts_with("SEARCH"))
            };
            if steps.iter().any(is_of) || steps[..at].iter().any(is_around) {
                scans.push(detail.clone());
            }
        }
        scans
    }

    #[tokio::test]
    async fn an_import_is_undone_when_a_row_that_it_updates_was_deleted_after_the_comparison() {
        let dir = Dir::new();
        let store = dir.open();
        let site = |id: i64| {
            let columns = "id, name, url, platform, created_at, updated_at";
            format!(
                "INSERT INTO sites ({columns}) VALUES ({id}, 'stored', 'https://{id}.example', 'openai', 0, 0)"
            )
        };
        let run = |sql: String| store.batch(vec![Statement::new(sql, Vec::new())]);
        for id in [3, 4] {
            run(site(id)).await.expect("it is stored");
        }
        // A store on a server has not made it.
        std::fs::create_dir_all(&dir.0).expect("a directory");
        let staged = || {
            let mut staging = Staging::create(&store, &dir.0).expect("it is created");
            let sites = Table::index("sites").expect("a table");
            staging.give(sites);
            // Both are matched, and the document has their names alone.
            let matched = "INSERT INTO sites (file_id, label, present, name, local_id, final_id, action) \
                 SELECT id, '', 1, 'imported', id, id, 'updated' FROM (SELECT 3 AS id UNION SELECT 4)";
            staging.connection.execute_batch(matched).expect("they are staged");
            staging
        };
        let names = async || -> Vec<String> {
            let sql = "SELECT name FROM sites ORDER BY id";
            store.rows(sql, Vec::new(), |row| row.text()).await.expect("they are read")
        };
        let apply = async |mut staging: Staging| {
            staging.apply(&store, Policy::default(), 0, Vec::new(), Vec::new()).await.map(drop)
        };
        assert_eq!(apply(staged()).await, Ok(()));
        assert_eq!(names().await, ["imported", "imported"]);
        let late = staged();
        run("DELETE FROM sites WHERE id = 3".to_owned()).await.expect("it is deleted");
        run("UPDATE sites SET name = 'edited'".to_owned()).await.expect("it is edited");
        assert_eq!(apply(late).await, Err(crate::store::Error::NotFound));
        assert_eq!(names().await, ["edited"]);
    }

    #[tokio::test]
    async fn no_row_of_an_import_is_compared_with_all_others() {
        let dir = Dir::new();
        let store = Store::open(StoreOptions::in_dir(&dir.0, "a secret")).expect("it opens");
        let mut staging = Staging::create(&store, &dir.0).expect("it is created");
        (0..TABLES.len()).for_each(|table| staging.give(table));
        let connection = Connection::open(dir.0.join("switchyard.db")).expect("it opens");
        // The searches for rows that refer to a deleted one are no part of these plans.
        connection.pragma_update(None, "foreign_keys", false).expect("it is set");
        let path = staging.path.to_str().expect("a path").to_owned();
        connection.execute("ATTACH DATABASE ? AS staged", [path]).expect("it is attached");
        for conflict in [Conflict::Skip, Conflict::Overwrite, Conflict::Fill] {
            let policy = Policy { replaces: true, conflict, is_own: false };
            let spelling = Spelling { dialect: SqlDialect::Sqlite };
            for statement in staging.statements(spelling, policy, 0).expect("statements") {
                assert_eq!(scans_per_row(&connection, &statement.sql), [""; 0], "{}", statement.sql);
            }
        }
    }
}
