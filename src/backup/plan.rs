//! What is stored already, told to the staged rows; and the numbers inside of keys' policies.

use std::collections::BTreeMap;

use serde_json::Value as Json;

use super::report::ImportError;
use super::rows;
use crate::store::staging::tables::{Column, Kind, TABLES, Table};
use crate::store::staging::{LocalRow, Policy, Staging};
use crate::store::{Moment, Row, Store, Value};

/// Rows that are read at once.
const PAGE: i64 = 1000;

/// Matches everything that is staged with what is stored.
pub fn match_all(store: &Store, staging: &mut Staging, policy: Policy) -> Result<(), ImportError> {
    let moment = Moment::of(store)?;
    for (index, table) in TABLES.iter().enumerate() {
        let mut after = 0;
        loop {
            let page = page(&moment, store, table, after)?;
            let Some(last) = page.last() else { break };
            after = last.id;
            staging.add_local(index, &page)?;
        }
        // Numbers of rows that are gone are not given again.
        let given =
            moment.query("SELECT seq FROM sqlite_sequence WHERE name = ?", vec![table.name.into()])?;
        let given = given.first().map_or(Ok(0), |row| row.fields().int())?;
        staging.match_table(index, after.max(given), policy)?;
    }
    Ok(())
}

/// Stored rows, as far as they are compared.
fn page(moment: &Moment, store: &Store, table: &Table, after: i64) -> Result<Vec<LocalRow>, ImportError> {
    let compared: Vec<&Column> = match table.who {
        Some(_) => Vec::new(),
        None => table.columns.iter().filter(|column| column.kind != Kind::Hash).collect(),
    };
    let names: String = compared.iter().map(|column| format!(", {}", column.sql)).collect();
    let (scope, who) = (table.scope.unwrap_or("0"), table.who.unwrap_or("''"));
    let (source, condition) = match table.name {
        "manual_models" => ("model_availability", "is_manual = 1 AND "),
        name => (name, ""),
    };
    // Where a row has a number, this is it.
    let sql = format!(
        "SELECT rowid, {scope}, CAST({who} AS TEXT){names} FROM {source} WHERE {condition}rowid > ? ORDER BY rowid \
         LIMIT {PAGE}"
    );
    let read = |row: &Row| -> Result<LocalRow, crate::store::Error> {
        let mut fields = row.fields();
        let (id, scope, who) = (fields.int()?, fields.int()?, fields.text()?);
        if table.who.is_some() {
            return Ok(LocalRow { id, scope, who });
        }
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
        let who = rows::who(store, table, |column| texts.get(column).map(String::as_str));
        Ok(LocalRow { id, scope, who: who.unwrap_or_default() })
    };
    let page = moment.query(&sql, vec![Value::Int(after)])?;
    Ok(page.iter().map(read).collect::<Result<_, _>>()?)
}

const POLICY: &[&str] = &[
    "label",
    "allowed_route_ids",
    "site_weight_multipliers",
    "excluded_site_ids",
    "excluded_credential_refs",
];

/// Rewrites the numbers inside of keys' policies to those that the rows have here. What is not in the document is left out
/// of a list: under that number there may be another row here.
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
                        "the key {label}: {lost} number(s) in {column} name nothing in the document and are left out"
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
