//! Matches staged rows with stored ones, and assigns each row its id.

use super::super::error::Result;
use super::super::tokens::{MASKED_PENDING, READY};
use super::Staging;
use super::tables::{Column, Kind, Missing, TABLES, Table};

/// What an import does with a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    Created,
    Updated,
    Skipped,
    Refused,
}

/// What a row of the document does to the stored row that it matches.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Conflict {
    /// Leaves the stored row as it is.
    Skip,
    #[default]
    Overwrite,
    /// Only fills its empty columns.
    Fill,
}

/// How an import treats rows that are already stored.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Policy {
    /// Whether stored rows that the document does not have are deleted.
    pub replaces: bool,
    pub conflict: Conflict,
    /// Whether the document was exported by this installation, so that its ids mean the rows that had them here.
    pub is_own: bool,
}

/// The part of a stored row that is compared.
#[derive(Debug)]
pub struct LocalRow {
    pub id: i64,
    pub scope: i64,
    pub who: String,
}

impl Action {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Updated => "updated",
            Self::Skipped => "skipped",
            Self::Refused => "refused",
        }
    }
}

impl Staging {
    /// Refuses rows that refer to a row that is not in the document.
    pub fn check_references(&mut self) -> Result<()> {
        self.settle()?;
        for (index, table) in TABLES.iter().enumerate() {
            for column in table.columns {
                let Some(other) = column.refers else { continue };
                let (name, sql) = (table.name, column.sql);
                let is_optional = column.missing == Missing::Null;
                let other_table = TABLES.iter().position(|table| table.name == other);
                let array = other_table.map_or(other, |other| TABLES[other].array);
                if is_optional && other_table.is_some_and(|other| !self.is_given(other)) {
                    // A document without that table says nothing about such rows.
                    self.connection.execute_batch(&format!("UPDATE {name} SET {sql} = NULL"))?;
                    continue;
                }
                let id = if table.shows_id { "s.file_id" } else { "NULL" };
                let dangling = format!(
                    "s.{sql} IS NOT NULL AND NOT EXISTS (SELECT 1 FROM {other} o WHERE o.file_id = s.{sql})"
                );
                self.connection.execute_batch(&format!(
                    "INSERT INTO refused (tbl, id, label, reason) SELECT {index}, {id}, s.label, '{} ' || s.{sql} || \
                     ' is not among the {array} of this document' FROM {name} s WHERE {dangling} ORDER BY s.line;
                     DELETE FROM {name} AS s WHERE {dangling};",
                    column.json
                ))?;
            }
        }
        self.refuse_tokens_of_others()
    }

    /// Refuses channels whose token belongs to another account: a channel asks its account's site, which would
    /// receive a secret of that other account.
    fn refuse_tokens_of_others(&mut self) -> Result<()> {
        let Some(index) = Table::index("route_channels") else { return Ok(()) };
        let foreign = "EXISTS (SELECT 1 FROM account_tokens t WHERE t.file_id = s.token_id AND t.account_id <> s.account_id)";
        self.connection.execute_batch(&format!(
            "INSERT INTO refused (tbl, id, label, reason) SELECT {index}, s.file_id, s.label, 'tokenId ' || s.token_id || \
             ' is a token of another account' FROM route_channels s WHERE {foreign} ORDER BY s.line;
             DELETE FROM route_channels AS s WHERE {foreign};"
        ))?;
        Ok(())
    }

    /// Removes sources of groups that are groups themselves, which no route can use. Returns the ids of group and source,
    /// at most `most` pairs.
    pub fn leave_out_nested_groups(&mut self, most: usize) -> Result<Vec<(i64, i64)>> {
        self.settle()?;
        let nested = "EXISTS (SELECT 1 FROM token_routes r WHERE r.file_id = s.source_route_id AND r.route_mode = 'explicit_group')";
        let pairs = {
            let mut query = self.connection.prepare(&format!(
                "SELECT group_route_id, source_route_id FROM route_group_sources s WHERE {nested} ORDER BY line LIMIT {most}"
            ))?;
            query.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect::<rusqlite::Result<_>>()?
        };
        self.connection.execute_batch(&format!("DELETE FROM route_group_sources AS s WHERE {nested}"))?;
        Ok(pairs)
    }

    /// Makes tokens of which only the mask is known disabled ones. Where one was the default of its account, the first usable
    /// token takes its place.
    pub fn disable_masked_tokens(&mut self) -> Result<()> {
        self.settle()?;
        let masked = format!("value_status = '{MASKED_PENDING}'");
        let usable = format!("t.enabled = 1 AND t.value_status = '{READY}'");
        self.connection.execute_batch(&format!(
            "UPDATE account_tokens SET is_default = 1 WHERE line IN (SELECT min(t.line) FROM account_tokens t
               WHERE {usable} AND t.account_id IN (SELECT account_id FROM account_tokens WHERE is_default = 1 AND {masked})
                 AND t.account_id NOT IN (SELECT t.account_id FROM account_tokens t WHERE t.is_default = 1 AND {usable})
               GROUP BY t.account_id);
             UPDATE account_tokens SET enabled = 0, is_default = 0 WHERE {masked};"
        ))?;
        Ok(())
    }

    /// Leaves each account only the first of its default tokens. Returns the ids of the others, at most `most`.
    pub fn keep_one_default_token(&mut self, most: usize) -> Result<Vec<i64>> {
        self.settle()?;
        let further = "SELECT line, file_id FROM (SELECT line, file_id, row_number() OVER (PARTITION BY account_id ORDER BY line) \
             AS n FROM account_tokens WHERE is_default = 1) WHERE n > 1";
        let ids = {
            let mut query = self.connection.prepare(&format!("{further} ORDER BY line LIMIT {most}"))?;
            query.query_map([], |row| row.get(1))?.collect::<rusqlite::Result<_>>()?
        };
        self.connection.execute_batch(&format!(
            "UPDATE account_tokens SET is_default = 0 WHERE line IN (SELECT line FROM ({further}))"
        ))?;
        Ok(ids)
    }

    /// Adds stored rows of a table for the comparison.
    pub fn add_local(&mut self, table: usize, rows: &[LocalRow]) -> Result<()> {
        for row in rows {
            self.step()?;
            let sql = "INSERT OR REPLACE INTO local (tbl, id, scope, who) VALUES (?, ?, ?, ?)";
            self.connection.prepare_cached(sql)?.execute((table as i64, row.id, row.scope, &row.who))?;
        }
        self.settle()
    }

    /// Matches the rows of a table with the stored ones, gives new ones ids above `last`, the highest one that was ever
    /// used, and updates the rows that refer to them. Call it for the tables in the order of [`TABLES`].
    pub fn match_table(&mut self, index: usize, last: i64, policy: Policy) -> Result<()> {
        self.settle()?;
        let table = &TABLES[index];
        self.identify(table)?;
        self.pair(index)?;
        if table.pairs_by_origin {
            self.pair_by_origin(index)?;
        }
        self.mark_matched(table, policy)?;
        if table.joins_equal_secrets {
            self.mark_doubles(table)?;
        }
        self.number_new(index, last, policy)?;
        if table.joins_equal_secrets {
            self.number_doubles(table)?;
        }
        self.resolve(table.name)
    }

    /// Gives each row its scope and the text that identifies it there.
    fn identify(&mut self, table: &Table) -> Result<()> {
        let scope = table.scope.unwrap_or("0");
        let who = table.who.map_or("who".to_owned(), |columns| {
            let texts: Vec<String> = columns.iter().map(|column| format!("COALESCE({column}, '')")).collect();
            texts.join(" || '/' || ")
        });
        Ok(self
            .connection
            .execute_batch(&format!("UPDATE {} SET scope = {scope}, who = {who};", table.name))?)
    }

    /// Gives rows that are paired with a stored one its id.
    fn mark_matched(&mut self, table: &Table, policy: Policy) -> Result<()> {
        let (action, reason) = match policy.conflict {
            _ if !table.is_exported() => (Action::Skipped, "exists already"),
            Conflict::Skip => (Action::Skipped, "exists already"),
            Conflict::Overwrite => (Action::Updated, "exists already"),
            Conflict::Fill => (Action::Updated, "exists already; only its empty fields are filled"),
        };
        Ok(self.connection.execute_batch(&format!(
            "UPDATE {} SET action = '{}', reason = '{reason}', final_id = local_id WHERE local_id IS NOT NULL;",
            table.name,
            action.as_str()
        ))?)
    }

    /// Marks all but the first of the tokens of an account that have the same value: they are one token.
    fn mark_doubles(&mut self, table: &Table) -> Result<()> {
        Ok(self.connection.execute_batch(&format!(
            "UPDATE {name} SET action = 'skipped', reason = 'another token of the account has the same value',
               local_id = NULL, final_id = first
             FROM (SELECT line AS l, first_value(file_id) OVER same AS first, row_number() OVER same AS n
               FROM {name} WHERE token_hash IS NOT NULL
               WINDOW same AS (PARTITION BY account_id, token_hash ORDER BY line))
             WHERE line = l AND n > 1;",
            name = table.name
        ))?)
    }

    /// Gives the rows that match no stored one their ids: that of the document if it is free, or else a new one above
    /// `last`.
    fn number_new(&mut self, index: usize, last: i64, policy: Policy) -> Result<()> {
        let table = &TABLES[index];
        let name = table.name;
        self.connection.execute_batch(&format!(
            "UPDATE {name} SET action = 'created' WHERE action IS NULL;
             UPDATE {name} SET final_id = file_id WHERE action = 'created' AND {} AND NOT EXISTS
               (SELECT 1 FROM local l WHERE l.tbl = {index} AND l.id = file_id);",
            match (table.shows_id, policy.is_own) {
                (false, _) => "0".to_owned(),
                (true, true) => "1".to_owned(),
                (true, false) => format!("file_id > {last}"),
            }
        ))?;
        let highest: i64 = self.connection.query_row(
            &format!("SELECT COALESCE(max(file_id), 0) FROM {name}"),
            [],
            |row| row.get(0),
        )?;
        let after = last.max(if table.shows_id { highest } else { 0 });
        Ok(self.connection.execute_batch(&format!(
            "UPDATE {name} SET final_id = {after} + n FROM (SELECT line AS l, row_number() OVER (ORDER BY line) AS n
               FROM {name} WHERE final_id IS NULL) WHERE line = l;"
        ))?)
    }

    /// Gives the rows of [`Self::mark_doubles`] the id of the first one, so that references to them are redirected to it.
    fn number_doubles(&mut self, table: &Table) -> Result<()> {
        Ok(self.connection.execute_batch(&format!(
            "UPDATE {name} SET final_id = (SELECT o.final_id FROM {name} o WHERE o.file_id = {name}.final_id)
             WHERE action = 'skipped' AND local_id IS NULL;",
            name = table.name
        ))?)
    }

    /// Pairs equal rows: first those that also have the same id, then the rest in order.
    fn pair(&mut self, index: usize) -> Result<()> {
        let name = TABLES[index].name;
        self.connection.execute_batch(&format!(
            "UPDATE {name} SET local_id = file_id WHERE EXISTS (SELECT 1 FROM local l WHERE l.tbl = {index}
               AND l.id = {name}.file_id AND l.scope = {name}.scope AND l.who = {name}.who);
             {take}
             UPDATE {name} SET local_id = pairs.id FROM (
               SELECT s.line AS line, l.id AS id FROM
                 (SELECT line, scope, who, row_number() OVER (PARTITION BY scope, who ORDER BY line) AS n
                    FROM {name} WHERE local_id IS NULL) s
                 JOIN (SELECT id, scope, who, row_number() OVER (PARTITION BY scope, who ORDER BY id) AS n
                    FROM local WHERE tbl = {index} AND taken = 0) l
                 ON l.scope = s.scope AND l.who = s.who AND l.n = s.n) pairs
             WHERE {name}.line = pairs.line;
             {take}",
            take = take(index)
        ))?;
        Ok(())
    }

    /// Pairs a site whose address has a path with one whose address is the origin alone: they are the same site. Two
    /// paths of one origin may be two upstreams behind a gateway, whose keys must not be mixed. Sites are identified by
    /// `platform url`; the origin is the part up to the URL's path.
    fn pair_by_origin(&mut self, index: usize) -> Result<()> {
        // The part after `://`, of which the origin ends at the next slash.
        let rest = "substr(who, instr(who, '://') + 3)";
        let origin = format!(
            "CASE WHEN instr({rest}, '/') = 0 THEN who ELSE \
             substr(who, 1, instr(who, '://') + 1 + instr({rest}, '/')) END"
        );
        let name = TABLES[index].name;
        self.connection.execute_batch(&format!(
            "UPDATE {name} SET local_id = pairs.id FROM (
               SELECT s.line AS line, l.id AS id FROM
                 (SELECT line, who, origin, row_number() OVER (PARTITION BY origin ORDER BY line) AS n
                    FROM (SELECT line, who, {origin} AS origin FROM {name} WHERE local_id IS NULL)) s
                 JOIN (SELECT id, who, origin, row_number() OVER (PARTITION BY origin ORDER BY id) AS n
                    FROM (SELECT id, who, {origin} AS origin FROM local WHERE tbl = {index} AND taken = 0)) l
                 ON l.origin = s.origin AND l.n = s.n AND (l.who = l.origin OR s.who = s.origin)) pairs
             WHERE {name}.line = pairs.line;
             {}",
            take(index)
        ))?;
        Ok(())
    }

    /// Replaces ids of the document by final ids in the columns that refer to rows of this table.
    fn resolve(&mut self, name: &str) -> Result<()> {
        for table in TABLES {
            for column in table.columns.iter().filter(|column| column.refers == Some(name)) {
                let (other, sql) = (table.name, column.sql);
                // The update goes through negative numbers, so that no two rows have the same values in
                // between.
                self.connection.execute_batch(&format!(
                    "UPDATE {other} SET {sql} = -(SELECT o.final_id FROM {name} o WHERE o.file_id = {other}.{sql})
                       WHERE {sql} IS NOT NULL;
                     UPDATE {other} SET {sql} = -{sql} WHERE {sql} IS NOT NULL;"
                ))?;
            }
        }
        Ok(())
    }

    /// Returns the final id of a row of the document.
    pub fn final_id(&self, table: usize, file_id: i64) -> Result<Option<i64>> {
        let sql = format!("SELECT final_id FROM {} WHERE file_id = ?", TABLES[table].name);
        let mut query = self.connection.prepare_cached(&sql)?;
        let mut rows = query.query([file_id])?;
        Ok(rows.next()?.map(|row| row.get(0)).transpose()?)
    }

    /// Returns columns of staged rows after a line, with the line of each.
    pub fn texts(
        &self,
        table: usize,
        after: i64,
        columns: &[&str],
        most: usize,
    ) -> Result<Vec<(i64, Vec<Option<String>>)>> {
        let sql = format!(
            "SELECT line, {} FROM {} WHERE line > {after} ORDER BY line LIMIT {most}",
            columns.join(", "),
            TABLES[table].name
        );
        let mut query = self.connection.prepare_cached(&sql)?;
        let rows = query.query_map([], |row| {
            let texts = (1..=columns.len()).map(|at| row.get::<_, Option<String>>(at));
            Ok((row.get(0)?, texts.collect::<rusqlite::Result<_>>()?))
        })?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    /// Changes a column of one staged row.
    pub fn set_text(&mut self, table: usize, line: i64, column: &str, text: &str) -> Result<()> {
        let sql = format!("UPDATE {} SET {column} = ? WHERE line = ?", TABLES[table].name);
        self.connection.prepare_cached(&sql)?.execute((text, line))?;
        Ok(())
    }
}

/// Builds the statement that marks the matched stored rows as taken.
fn take(index: usize) -> String {
    let name = TABLES[index].name;
    format!(
        "UPDATE local SET taken = 1 WHERE tbl = {index} AND taken = 0 AND EXISTS (SELECT 1 FROM {name} s WHERE s.local_id = id);"
    )
}

/// Returns the expression that an update assigns to a column of a stored row from the staged row `s`; `None`
/// for a column that stays.
pub(super) fn updated(table: &Table, column: &Column, policy: Policy) -> Option<String> {
    if column.keeps || table.scope == Some(column.sql) {
        return None;
    }
    let (name, sql) = (table.name, column.sql);
    let bit = table.columns.iter().position(|other| other.sql == sql)?;
    let present = format!("((s.present >> {bit}) & 1) = 1");
    match (policy.conflict, policy.replaces) {
        (Conflict::Skip, _) => None,
        (Conflict::Overwrite, true) => Some(format!("s.{sql}")),
        (Conflict::Overwrite, false) => {
            Some(format!("CASE WHEN {present} THEN s.{sql} ELSE {name}.{sql} END"))
        }
        (Conflict::Fill, _) => {
            let is_empty = match column.kind {
                Kind::Int | Kind::Time | Kind::Bool | Kind::Real => format!("{name}.{sql} IS NULL"),
                // Two empty lists of what a key may use allow nothing, which is no lack.
                Kind::Json if !["supported_models", "allowed_route_ids"].contains(&sql) => {
                    format!("({name}.{sql} IS NULL OR {name}.{sql} IN ('', '[]', '{{}}'))")
                }
                _ => format!("({name}.{sql} IS NULL OR {name}.{sql} = '')"),
            };
            Some(format!("CASE WHEN {present} AND {is_empty} THEN s.{sql} ELSE {name}.{sql} END"))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use crate::store::staging::NewRow;
    use crate::store::tests::Dir;
    use crate::store::{Store, Value};

    /// Stages tokens (id, secret) of one account.
    async fn staged(store: &Store, dir: &Path, tokens: &[(i64, String)]) -> (Staging, usize) {
        let index = Table::index("account_tokens").expect("a table");
        let hashing = store.sealer().hashing().await;
        // A store on a server has not made it.
        std::fs::create_dir_all(dir).expect("a directory");
        let mut staging = Staging::create(store, dir).expect("it is created");
        for (id, secret) in tokens {
            let value = |column: &Column| match (column.sql, column.missing) {
                ("account_id", _) => Value::Int(1),
                ("token_enc", _) => secret.as_str().into(),
                (_, Missing::Text(text)) => text.into(),
                (_, Missing::Bool(bit)) => Value::Bool(bit),
                _ => Value::Null,
            };
            let values = TABLES[index].columns.iter().map(value).collect();
            let who = Some(secret.clone());
            let row =
                NewRow { id: *id, who, label: String::new(), values, is_found_by_hash: true, present: 0 };
            staging.add(&hashing, index, row).expect("it is staged");
        }
        (staging, index)
    }

    /// Returns how much SQLite computes to match this many tokens.
    async fn work(store: &Store, dir: &Path, count: i64) -> u64 {
        let tokens: Vec<(i64, String)> = (1..=count).map(|id| (id, format!("sk-{id}"))).collect();
        let (mut staging, index) = staged(store, dir, &tokens).await;
        let turns = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&turns);
        let count = move || {
            counted.fetch_add(1, Ordering::Relaxed);
            false
        };
        staging.connection.progress_handler(100, Some(count)).expect("it is set");
        staging.match_table(index, 0, Policy::default()).expect("they match");
        turns.load(Ordering::Relaxed)
    }

    #[tokio::test]
    async fn the_work_of_comparing_tokens_grows_with_their_number() {
        let dir = Dir::new();
        let store = dir.open();
        let (less, more) = (work(&store, &dir.0, 1000).await, work(&store, &dir.0, 2000).await);
        assert!(more < 3 * less, "{less} for 1000 tokens, {more} for 2000");
    }

    #[tokio::test]
    async fn a_token_with_the_value_of_an_earlier_one_becomes_that_one() {
        let dir = Dir::new();
        let store = dir.open();
        let tokens = [(9, "sk-same"), (4, "sk-same"), (5, "sk-other"), (6, "sk-same")];
        let tokens = tokens.map(|(id, secret)| (id, secret.to_owned()));
        let (mut staging, index) = staged(&store, &dir.0, &tokens).await;
        staging.match_table(index, 0, Policy::default()).expect("they match");
        let ids = [9, 4, 5, 6].map(|id| staging.final_id(index, id).expect("it is read"));
        assert_eq!(ids, [Some(9), Some(9), Some(5), Some(9)]);
    }
}
