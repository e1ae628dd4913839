//! The database of metapi, `hub.db`: the tables from which its backups are made.
//!
//! It is read by column names, because files of different versions differ by dozens of columns.

use serde_json::{Map, Value, json};

use super::draft::LeftList;
use super::metapi::{self, TABLES, camel};
use super::sqlite::ForeignDatabase;
use super::taken::{Context, Error, Kind, TakenOver};
use super::usage_days::{self, Days};
use crate::time::now_ms;

/// Tables that are not taken, and why.
const OTHER_TABLES: &[(&str, &str)] = &[
    ("checkin_logs", "the history of check-ins is not imported"),
    ("events", "the notifications of that program"),
    ("proxy_debug_traces", "recorded requests"),
    ("proxy_debug_attempts", "recorded requests"),
    ("proxy_video_tasks", "tasks in progress: fetch their results from that program"),
    ("proxy_files", "uploaded files: clients must upload them again"),
    ("site_announcements", "announcements: they are read from the sites again"),
];
/// Tables that are derived again, hold no data to take over, or are read separately.
const DERIVED_TABLES: &[&str] = &[
    "model_availability",
    "token_model_availability",
    "site_day_usage",
    "site_hour_usage",
    "model_day_usage",
    "analytics_projection_checkpoints",
    "admin_snapshots",
    "sqlite_sequence",
    "settings",
    "__drizzle_migrations",
    "proxy_logs",
];
/// Settings that belong to the instance that the file comes from, and are not in a preferences section.
const OWN_SETTINGS: [&str; 4] = ["auth_token", "db_type", "db_url", "db_ssl"];

pub(super) fn is(database: &ForeignDatabase) -> bool {
    database.has("sites", &["platform", "url"]) && database.has("accounts", &["site_id", "access_token"])
}

pub(super) fn read(database: &ForeignDatabase, context: &Context) -> Result<TakenOver, Error> {
    let mut list = LeftList::default();
    let mut section = Map::new();
    for table in TABLES {
        // Tables that a file lacks stay as they are here.
        if !database.has(table.name, &[]) {
            continue;
        }
        for column in database.unknown_columns(table.name, table.columns) {
            if !metapi::is_runtime(&column) {
                list.add(format!("{}.{column}", table.name), "an unknown column");
            }
        }
        let (rows, is_cut) = database.rows(table.name, table.columns)?;
        if is_cut {
            list.add(table.name, "the table has more rows than are read");
        }
        let row = |row: &super::sqlite::ForeignRow| {
            let cell = |column: &&str| Some((camel(column), row.value(column)?));
            Value::Object(table.columns.iter().filter_map(cell).collect())
        };
        section.insert(table.array.to_owned(), rows.iter().map(row).collect());
    }
    let (models, _) = database.rows("model_availability", &["account_id", "model_name", "is_manual"])?;
    let manual = models.iter().filter(|model| model.flag("is_manual") == Some(true));
    let manual: Vec<Value> = manual
        .map(|model| json!({"accountId": model.int("account_id"), "modelName": model.text("model_name")}))
        .collect();
    if database.has("model_availability", &["is_manual"]) {
        section.insert("manualModels".to_owned(), manual.into());
    }
    for array in metapi::NEEDED {
        section.entry(array).or_insert_with(|| json!([]));
    }
    let (mut accounts, merged) = metapi::arrays(&section, context, &mut list);
    let days = usage_days::read(database, &context.zone, &merged)?;
    tell_of_others(database, days.as_ref(), &mut list);
    if let Some(days) = days {
        accounts.insert(usage_days::ARRAY.to_owned(), days.rows.into());
    }
    let (settings, _) = database.rows("settings", &["key", "value"])?;
    let settings = settings.iter().filter_map(|row| {
        let key = row.text("key").filter(|key| !OWN_SETTINGS.contains(&key.as_str()))?;
        let value = row.json("value").or_else(|| row.text("value").map(Value::String))?;
        Some(json!({"key": key, "value": value}))
    });
    let settings: Vec<Value> = settings.collect();
    let settings = (!settings.is_empty()).then(|| settings.into());
    Ok(metapi::finish(Kind::MetapiDatabase, Some(&now_ms().into()), Some(accounts), settings, list))
}

fn tell_of_others(database: &ForeignDatabase, days: Option<&Days>, list: &mut LeftList) {
    if database.has("proxy_logs", &[]) && database.count("proxy_logs") > 0 {
        let (calls, tokens) = (database.count("proxy_logs"), database.sum("proxy_logs", "total_tokens"));
        let cost = database.sum("proxy_logs", "estimated_cost");
        let undated = match days.map_or(0, |days| days.undated) {
            0 => String::new(),
            undated => format!("; {undated} of them have a time that cannot be read and are in no sum"),
        };
        let sums = match days {
            Some(days) if days.is_cut => {
                format!("{} of their sums by day, site and model are imported", usage_days::MAX_SUMS)
            }
            Some(_) => "their sums by day, site and model are imported if the account still exists".into(),
            None => "they have no time or no site, so no statistics can be made from them".into(),
        };
        list.add(
            format!("proxy_logs ({calls} rows)"),
            format!(
                "the requests themselves are not imported: {calls} calls, {tokens} tokens, {cost:.6} USD in \
                 all; {sums}{undated}"
            ),
        );
    }
    let mut tables: Vec<&str> = database.tables().collect();
    tables.sort_unstable();
    for table in tables {
        if DERIVED_TABLES.contains(&table) || TABLES.iter().any(|known| known.name == table) {
            continue;
        }
        let known = OTHER_TABLES.iter().find(|(name, _)| *name == table);
        let reason = known.map_or("an unknown table", |(_, reason)| reason);
        let rows = database.count(table);
        // An empty known table is not worth mentioning.
        if rows > 0 || known.is_none() {
            list.add(format!("{table} ({rows} rows)"), reason);
        }
    }
}
