//! Compares staged rows with the stored ones, and renumbers the ids inside key policies.

use std::collections::BTreeMap;

use serde_json::Value as Json;

use super::report::ImportError;
use super::rows;
use crate::store::staging::tables::{Column, Kind, StoredRows, TABLES, Table};
use crate::store::staging::{LocalRow, Policy, Staging};
use crate::store::{ReadView, Row, Store, Value, placeholders};

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
    let told_apart_by = rows::told_apart_by(table);
    let compared: Vec<&Column> =
        table.columns.iter().filter(|column| told_apart_by.contains(&column.sql)).collect();
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
    let read = |(number, row): (i64, &Row)| -> Result<(LocalRow, Vec<Value>), crate::store::Error> {
        let mut fields = row.fields();
        let key: Vec<Value> = key.iter().map(|_| fields.value().cloned()).collect::<Result<_, _>>()?;
        let id = match (table.has_id, key.first()) {
            (true, Some(Value::Int(id))) => *id,
            _ => number,
        };
        let scope = fields.int()?;
        let mut texts: BTreeMap<&str, String> = BTreeMap::new();
        for column in &compared {
            let text = match column.kind {
                Kind::Secret => fields
                    .opt_str()?
                    .filter(|stored| !stored.is_empty())
                    .and_then(|stored| store.sealer().open(table.name, column.sql, stored).ok())
                    .map(|secret| secret.expose().to_owned()),
                Kind::Int | Kind::Time => fields.opt_int()?.map(|value| value.to_string()),
                Kind::Bool => fields.opt_bool()?.filter(|value| *value).map(|_| "1".to_owned()),
                Kind::Real => fields.opt_real()?.map(|value| value.to_string()),
                Kind::Text | Kind::Key | Kind::Url | Kind::Json | Kind::Hash => fields.opt_text()?,
            };
            if let Some(text) = text {
                texts.insert(column.sql, text);
            }
        }
        let text = |column: &str| texts.get(column).map(String::as_str);
        let who = match table.who {
            Some(columns) => {
                let texts: Vec<&str> =
                    columns.iter().map(|column| text(column).unwrap_or_default()).collect();
                texts.join("/")
            }
            None => rows::who(store, table, text).unwrap_or_default(),
        };
        Ok((LocalRow { id, scope, who }, key))
    };
    let page = moment.query(&sql, after.to_vec())?;
    Ok((last + 1..).zip(&page).map(read).collect::<Result<_, _>>()?)
}

const POLICY: &[&str] = &[
    "label",
    "allowed_route_ids",
    "site_weight_multipliers",
    "excluded_site_ids",
    "excluded_credential_refs",
];

/// Rewrites the ids inside key policies to the rows' final ids. An id that is not in the document is removed
/// from its list: here it may belong to another row.
pub fn renumber_policies(staging: &mut Staging, warnings: &mut Vec<String>) -> Result<(), ImportError> {
    let Some(keys) = Table::index("downstream_api_keys") else { return Ok(()) };
    let mut after = 0;
    loop {
        let page = staging.texts(keys, after, POLICY, 500)?;
        let Some((last, _)) = page.last() else { return Ok(()) };
        after = *last;
        for (line, texts) in page {
            let label = texts[0].clone().unwrap_or_default();
            for (column, text) in POLICY.iter().zip(&texts).skip(1) {
                let Some(policy) = text.as_deref().and_then(|text| serde_json::from_str::<Json>(text).ok())
                else {
                    continue;
                };
                let mut lost = 0;
                let renumbered = renumbered(staging, column, policy.clone(), &mut lost)?;
                if lost > 0 {
                    let what = format!(
                        "the key {label}: {lost} id(s) in {column} refer to no row of the document and are \
                         left out"
                    );
                    warnings.push(what);
                }
                if renumbered != policy {
                    staging.set_text(keys, line, column, &renumbered.to_string())?;
                }
            }
        }
    }
}

fn renumbered(staging: &Staging, column: &str, policy: Json, lost: &mut usize) -> Result<Json, ImportError> {
    let of = |table: &str, number: &Json| -> Result<Option<i64>, ImportError> {
        let number = number.as_f64().filter(|number| number.fract() == 0.0).map(|number| number as i64);
        let (Some(table), Some(number)) = (Table::index(table), number) else { return Ok(None) };
        Ok(staging.final_id(table, number)?)
    };
    let mut kept = |found: Option<Json>| {
        *lost += usize::from(found.is_none());
        found
    };
    match (column, policy) {
        ("allowed_route_ids", Json::Array(ids)) => {
            let mut list = Vec::new();
            for id in &ids {
                list.extend(kept(of("token_routes", id)?.map(Json::from)));
            }
            Ok(Json::Array(list))
        }
        ("excluded_site_ids", Json::Array(ids)) => {
            let mut list = Vec::new();
            for id in &ids {
                list.extend(kept(of("sites", id)?.map(Json::from)));
            }
            list.sort_by_key(Json::as_i64);
            Ok(Json::Array(list))
        }
        ("site_weight_multipliers", Json::Object(weights)) => {
            let mut map = serde_json::Map::new();
            for (id, weight) in weights {
                let id = id.trim().parse::<i64>().map_or(Json::Null, Json::from);
                if let Some(id) = kept(of("sites", &id)?.map(Json::from)) {
                    map.insert(id.to_string(), weight);
                }
            }
            Ok(Json::Object(map))
        }
        ("excluded_credential_refs", Json::Array(refs)) => {
            let mut list = Vec::new();
            for mut reference in refs {
                let mut is_whole = true;
                for (member, table) in
                    [("siteId", "sites"), ("accountId", "accounts"), ("tokenId", "account_tokens")]
                {
                    let Some(id) = reference.get(member).filter(|id| !id.is_null()).cloned() else {
                        continue;
                    };
                    match of(table, &id)? {
                        Some(id) => reference[member] = id.into(),
                        None => is_whole = false,
                    }
                }
                list.extend(kept(is_whole.then_some(reference)));
            }
            Ok(Json::Array(list))
        }
        (_, policy) => Ok(policy),
    }
}
