//! Compares staged rows with the stored ones, and renumbers the ids inside key policies.

use std::collections::BTreeMap;
use std::iter;

use serde_json::Value as Json;

use super::report::ImportError;
use super::rows;
use crate::store::staging::tables::{Column, Kind, StoredRows, TABLES, Table};
use crate::store::staging::{LocalRow, Policy, Staging};
use crate::store::{self, Fields, ReadView, Row, Store, Value, placeholders};

/// The number of rows read at once.
const PAGE: i64 = 1000;

/// Matches all staged rows with the stored ones.
pub fn match_all(store: &Store, staging: &mut Staging, policy: Policy) -> Result<(), ImportError> {
    let moment = ReadView::of(store)?;
    for (index, table) in TABLES.iter().enumerate() {
        let mut after = Vec::new();
        let mut last = 0;
        // History tables may be long, and are skipped when the document says nothing about them.
        while table.is_exported() || staging.is_given(index) {
            let page = page(&moment, store, table, &after, last)?;
            let Some((row, key)) = page.last() else { break };
            (last, after) = (row.id, key.clone());
            let rows: Vec<LocalRow> = page.into_iter().map(|(row, _)| row).collect();
            staging.add_local(index, &rows)?;
        }
        // Ids of deleted rows are not used again.
        let given = if table.has_id { moment.highest_id(table.name)? } else { 0 };
        staging.match_table(index, last.max(given), policy)?;
    }
    Ok(())
}

/// Returns a page of stored rows after a key, as far as they are compared, each with its key. Rows without an
/// id of their own are numbered from `last` on.
fn page(
    moment: &ReadView,
    store: &Store,
    table: &Table,
    after: &[Value],
    last: i64,
) -> Result<Vec<(LocalRow, Vec<Value>)>, ImportError> {
    let identifying = rows::identifying_columns(table);
    let compared: Vec<&Column> =
        table.columns.iter().filter(|column| identifying.contains(&column.sql)).collect();
    let names: String = compared.iter().map(|column| format!(", {}", column.sql)).collect();
    let scope = table.scope.unwrap_or("0");
    let key = table.key();
    let StoredRows { table: source, condition } = table.stored_rows();
    let beyond = if after.is_empty() {
        "1 = 1".to_owned()
    } else {
        format!("({}) > ({})", key.join(", "), placeholders(key.len()))
    };
    let key_columns = key.join(", ");
    let sql = format!(
        "SELECT {key_columns}, {scope}{names} FROM {source} WHERE {condition} AND {beyond} ORDER BY {key_columns} LIMIT {PAGE}"
    );
    let page = moment.query(&sql, after.to_vec())?;
    let rows = (last + 1..).zip(&page).map(|(number, row)| local_row(store, table, &compared, number, row));
    Ok(rows.collect::<store::Result<_>>()?)
}

/// Reads a stored row as far as it is compared, and its key. A row without an id has this number.
fn local_row(
    store: &Store,
    table: &Table,
    compared: &[&Column],
    number: i64,
    row: &Row,
) -> store::Result<(LocalRow, Vec<Value>)> {
    let mut fields = row.fields();
    let key = table.key().iter().map(|_| fields.value().cloned()).collect::<store::Result<Vec<_>>>()?;
    let id = match (table.has_id, key.first()) {
        (true, Some(Value::Int(id))) => *id,
        _ => number,
    };
    let scope = fields.int()?;
    let mut texts: BTreeMap<&str, String> = BTreeMap::new();
    for column in compared {
        if let Some(text) = compared_text(store, table, column, &mut fields)? {
            texts.insert(column.sql, text);
        }
    }
    let text = |column: &str| texts.get(column).map(String::as_str);
    let who = match table.who {
        Some(columns) => {
            let texts: Vec<&str> = columns.iter().map(|column| text(column).unwrap_or_default()).collect();
            texts.join("/")
        }
        None => rows::who(store, table, text).unwrap_or_default(),
    };
    Ok((LocalRow { id, scope, who }, key))
}

/// Reads a value as the text that is compared; secrets are opened.
fn compared_text(
    store: &Store,
    table: &Table,
    column: &Column,
    fields: &mut Fields<'_>,
) -> store::Result<Option<String>> {
    Ok(match column.kind {
        Kind::Secret => fields
            .opt_str()?
            .filter(|stored| !stored.is_empty())
            .and_then(|stored| store.sealer().open(table.name, column.sql, stored).ok())
            .map(|secret| secret.expose().to_owned()),
        Kind::Int | Kind::Time => fields.opt_int()?.map(|value| value.to_string()),
        Kind::Bool => fields.opt_bool()?.filter(|value| *value).map(|_| "1".to_owned()),
        Kind::Real => fields.opt_real()?.map(|value| value.to_string()),
        Kind::Text | Kind::Key | Kind::Url | Kind::Json | Kind::Hash => fields.opt_text()?,
    })
}

/// Renumbers the ids in one column of a key's policy.
type Renumber = fn(&mut FinalIds<'_>, Json) -> store::Result<Json>;

/// The columns of a key's policy that contain ids.
const POLICIES: [(&str, Renumber); 4] = [
    ("allowed_route_ids", |ids, policy| ids.list("token_routes", policy)),
    ("site_weight_multipliers", |ids, policy| ids.weights(policy)),
    ("excluded_site_ids", |ids, policy| {
        let mut list = ids.list("sites", policy)?;
        if let Json::Array(list) = &mut list {
            list.sort_by_key(Json::as_i64);
        }
        Ok(list)
    }),
    ("excluded_credential_refs", |ids, policy| ids.credentials(policy)),
];

/// Rewrites the ids inside key policies to the rows' final ids. An id that is not in the document is removed
/// from its list: here it may belong to another row.
pub fn renumber_policies(staging: &mut Staging, warnings: &mut Vec<String>) -> Result<(), ImportError> {
    let Some(keys) = Table::index("downstream_api_keys") else { return Ok(()) };
    let columns: Vec<&str> = iter::once("label").chain(POLICIES.map(|(column, _)| column)).collect();
    let mut after = 0;
    loop {
        let page = staging.texts(keys, after, &columns, 500)?;
        let Some((last, _)) = page.last() else { return Ok(()) };
        after = *last;
        for (line, texts) in page {
            let mut texts = texts.into_iter();
            let label = texts.next().flatten().unwrap_or_default();
            for ((column, renumber), text) in POLICIES.into_iter().zip(texts) {
                let Some(policy) = text.and_then(|text| serde_json::from_str::<Json>(&text).ok()) else {
                    continue;
                };
                let mut ids = FinalIds { staging, lost: 0 };
                let renumbered = renumber(&mut ids, policy.clone())?;
                if ids.lost > 0 {
                    warnings.push(format!(
                        "the key {label}: {} id(s) in {column} refer to no row of the document and are left out",
                        ids.lost
                    ));
                }
                if renumbered != policy {
                    staging.set_text(keys, line, column, &renumbered.to_string())?;
                }
            }
        }
    }
}

/// The ids that the rows of a document get here.
struct FinalIds<'s> {
    staging: &'s Staging,
    /// The number of ids that were left out.
    lost: usize,
}

impl FinalIds<'_> {
    /// Returns the final id for one of the document; `None` if the document has no such row.
    fn of(&self, table: &str, id: &Json) -> store::Result<Option<Json>> {
        let id = id.as_f64().filter(|id| id.fract() == 0.0).map(|id| id as i64);
        let (Some(table), Some(id)) = (Table::index(table), id) else { return Ok(None) };
        Ok(self.staging.final_id(table, id)?.map(Json::from))
    }

    /// Counts an entry that is left out.
    fn kept<T>(&mut self, entry: Option<T>) -> Option<T> {
        self.lost += usize::from(entry.is_none());
        entry
    }

    fn list(&mut self, table: &str, policy: Json) -> store::Result<Json> {
        let Json::Array(ids) = policy else { return Ok(policy) };
        let mut list = Vec::new();
        for id in &ids {
            let id = self.of(table, id)?;
            list.extend(self.kept(id));
        }
        Ok(Json::Array(list))
    }

    fn weights(&mut self, policy: Json) -> store::Result<Json> {
        let Json::Object(weights) = policy else { return Ok(policy) };
        let mut map = serde_json::Map::new();
        for (site, weight) in weights {
            let site = site.trim().parse::<i64>().map_or(Json::Null, Json::from);
            let site = self.of("sites", &site)?;
            if let Some(site) = self.kept(site) {
                map.insert(site.to_string(), weight);
            }
        }
        Ok(Json::Object(map))
    }

    fn credentials(&mut self, policy: Json) -> store::Result<Json> {
        let Json::Array(references) = policy else { return Ok(policy) };
        let mut list = Vec::new();
        for reference in references {
            let reference = self.credential(reference)?;
            list.extend(self.kept(reference));
        }
        Ok(Json::Array(list))
    }

    fn credential(&self, mut reference: Json) -> store::Result<Option<Json>> {
        for (member, table) in [("siteId", "sites"), ("accountId", "accounts"), ("tokenId", "account_tokens")]
        {
            let Some(id) = reference.get(member).filter(|id| !id.is_null()).cloned() else { continue };
            let Some(id) = self.of(table, &id)? else { return Ok(None) };
            reference[member] = id;
        }
        Ok(Some(reference))
    }
}
