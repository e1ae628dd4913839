//! Taking the staged rows over: one batch, in which every row is copied inside the database.

use super::super::Store;
use super::super::error::Result;
use super::super::sql::{Outcome, Statement};
use super::matching::{Conflict, updated};
use super::tables::{TABLES, Table};
use super::{Policy, Staging};
use crate::time::Millis;

/// The tables of a backup whose rows the log of requests names without a foreign key. Keys are not among them: what a
/// key has used is found by its number, which no other key gets.
const NAMED: &[(&str, &str)] = &[
    ("token_routes", "route_id"),
    ("route_channels", "channel_id"),
    ("accounts", "account_id"),
    ("sites", "site_id"),
];

impl Staging {
    /// Takes the rows over, with `more` in the same transaction. The store's writer does it: others wait for as long
    /// as rows are copied.
    pub async fn apply(
        &mut self,
        store: &Store,
        policy: Policy,
        now: Millis,
        more: Vec<Statement>,
    ) -> Result<Vec<Outcome>> {
        let mut batch = self.statements(policy, now)?;
        batch.extend(more);
        store.database().batch_with(self.path.clone(), batch).await
    }

    fn statements(&mut self, policy: Policy, now: Millis) -> Result<Vec<Statement>> {
        self.settle()?;
        let mut batch = Vec::new();
        let mut say = |sql: String| batch.push(Statement::new(sql, Vec::new()));
        let given: Vec<(usize, &Table)> =
            TABLES.iter().enumerate().filter(|(index, _)| self.is_given(*index)).collect();
        if policy.replaces {
            let mut goes = false;
            for (index, table) in given.iter().rev() {
                say(delete(table));
                goes |= table.has_id && self.has_untaken(*index)?;
            }
            if goes {
                unlink().into_iter().for_each(&mut say);
            }
        }
        for (_, table) in given {
            match table.name {
                "site_disabled_models" => say(format!(
                    "INSERT OR IGNORE INTO site_disabled_models (site_id, model_name, created_at) \
                     SELECT site_id, model_name, {now} FROM staged.site_disabled_models ORDER BY line"
                )),
                "manual_models" => say(format!(
                    "INSERT INTO model_availability (account_id, model_name, available, is_manual, checked_at) \
                     SELECT account_id, model_name, 1, 1, {now} FROM staged.manual_models WHERE 1 ORDER BY line \
                     ON CONFLICT (account_id, model_name) DO UPDATE SET is_manual = 1, available = 1"
                )),
                "route_group_sources" => say(format!(
                    "INSERT OR {} INTO route_group_sources (group_route_id, source_route_id, position) \
                     SELECT group_route_id, source_route_id, position FROM staged.route_group_sources ORDER BY line",
                    if policy.conflict == Conflict::Overwrite { "REPLACE" } else { "IGNORE" }
                )),
                _ => {
                    update(table, policy).into_iter().for_each(&mut say);
                    say(insert(table, now));
                }
            }
        }
        if self.is_given(Table::index("route_channels").unwrap_or_default()) {
            offers(now).into_iter().for_each(&mut say);
        }
        Ok(batch)
    }

    fn has_untaken(&self, index: usize) -> Result<bool> {
        let sql = "SELECT EXISTS (SELECT 1 FROM local WHERE tbl = ? AND taken = 0)";
        Ok(self.connection.query_row(sql, [index as i64], |row| row.get(0))?)
    }
}

/// Deletes what the document does not have.
fn delete(table: &Table) -> String {
    let name = table.name;
    let pair = |own: &str, table_name: &str| {
        let same: Vec<String> =
            table.unique.iter().map(|column| format!("s.{column} = {own}.{column}")).collect();
        format!("NOT EXISTS (SELECT 1 FROM staged.{table_name} s WHERE {})", same.join(" AND "))
    };
    match name {
        "manual_models" => {
            format!(
                "DELETE FROM model_availability WHERE is_manual = 1 AND {}",
                pair("model_availability", name)
            )
        }
        _ if !table.has_id => format!("DELETE FROM {name} WHERE {}", pair(name, name)),
        _ => format!(
            "DELETE FROM {name} WHERE NOT EXISTS (SELECT 1 FROM staged.{name} s WHERE s.local_id = {name}.id)"
        ),
    }
}

/// The log of requests names what is gone no more.
fn unlink() -> Vec<String> {
    let gone = |&(table, column): &(&'static str, &'static str)| {
        let index = Table::index(table).unwrap_or_default();
        (
            column,
            format!(
                "EXISTS (SELECT 1 FROM staged.local l WHERE l.tbl = {index} AND l.id = {column} AND l.taken = 0)"
            ),
        )
    };
    let named: Vec<(&str, String)> = NAMED.iter().map(gone).collect();
    let set: Vec<String> = named
        .iter()
        .map(|(column, gone)| format!("{column} = CASE WHEN {gone} THEN NULL ELSE {column} END"))
        .collect();
    let any: Vec<&str> = named.iter().map(|(_, gone)| gone.as_str()).collect();
    vec![format!("UPDATE OR FAIL proxy_logs SET {} WHERE {}", set.join(", "), any.join(" OR "))]
}

/// Brings stored rows to what the document says of them. `OR FAIL`: to be undone alone, a statement of many rows would
/// copy every page before it changes it, and the batch is undone as a whole.
fn update(table: &Table, policy: Policy) -> Option<String> {
    let set: Vec<String> = table
        .columns
        .iter()
        .filter_map(|column| Some(format!("{} = {}", column.sql, updated(table, column, policy)?)))
        .collect();
    let name = table.name;
    let version = match name {
        // Who renews its token meanwhile must not write over what was imported.
        "accounts" => ", credential_version = accounts.credential_version + 1",
        _ => "",
    };
    (!set.is_empty()).then(|| {
        format!(
            "UPDATE OR FAIL {name} SET {}{version} FROM staged.{name} s WHERE s.local_id = {name}.id AND s.action = 'updated'",
            set.join(", ")
        )
    })
}

fn insert(table: &Table, now: Millis) -> String {
    let name = table.name;
    let columns: Vec<&str> = table.columns.iter().map(|column| column.sql).collect();
    let columns = columns.join(", ");
    // Keys come without the times of their rows.
    let (times, values) = match table.columns.iter().any(|column| column.sql == "created_at") {
        true => ("", String::new()),
        false => (", created_at, updated_at", format!(", {now}, {now}")),
    };
    format!(
        "INSERT OR FAIL INTO {name} (id, {columns}{times}) SELECT final_id, {columns}{values} FROM staged.{name} \
         WHERE action = 'created' ORDER BY final_id"
    )
}

/// New channels begin to count, and what they serve counts as found, so that the routes stay until somebody has asked
/// the sites.
fn offers(now: Millis) -> Vec<String> {
    let fresh = "staged.route_channels s JOIN route_channels c ON c.id = s.final_id JOIN token_routes r ON r.id = c.route_id";
    let model = "COALESCE(NULLIF(c.source_model, ''), r.model_pattern)";
    let wanted = format!(
        "s.action = 'created' AND c.manual_override = 0 AND r.route_mode <> 'explicit_group' AND instr({model}, '*') = 0 \
         AND {model} NOT LIKE 're:%' AND length({model}) <= 191"
    );
    vec![
        "INSERT OR IGNORE INTO channel_stats (channel_id) SELECT final_id FROM staged.route_channels WHERE action = 'created'"
            .to_owned(),
        format!(
            "INSERT OR IGNORE INTO model_availability (account_id, model_name, available, is_manual, checked_at) \
             SELECT c.account_id, {model}, 1, 0, {now} FROM {fresh} WHERE {wanted} AND c.token_id IS NULL"
        ),
        format!(
            "INSERT OR IGNORE INTO token_model_availability (token_id, model_name, available, checked_at) \
             SELECT c.token_id, {model}, 1, {now} FROM {fresh} WHERE {wanted} AND c.token_id IS NOT NULL"
        ),
    ]
}
