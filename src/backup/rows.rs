//! Conversion of one row between a document and the store.

use serde_json::{Map, Value as Json};

use super::accounts::LoginSecrets;
use super::{accounts, amend};
use crate::json_number::exact_integer;
use crate::one_line::first_chars;
use crate::store::staging::NewRow;
use crate::store::staging::tables::{Column, Kind, Missing, Table};
use crate::store::tokens::READY;
use crate::store::{Result, Row, Store, Value};
use crate::time::{self, Millis};

/// The maximum length of a `Key` column, in characters.
const MAX_KEY: usize = 191;
/// The maximum length of an address, in characters.
const MAX_URL: usize = 500;
/// The maximum length of a label in a report, in characters.
const MAX_LABEL: usize = 120;

/// Why a row of a document cannot be imported; the text is for people.
#[derive(Debug)]
pub struct RefusedRow {
    pub id: Option<i64>,
    pub label: String,
    pub reason: String,
}

/// Reads rows of documents.
pub struct RowReader<'a> {
    pub store: &'a Store,
    /// Secrets under which passwords of other instances may be sealed.
    pub former_secrets: &'a [String],
    pub now: Millis,
    /// Whether values that cannot be read are left out where a row can do without them.
    pub leaves_out: bool,
}

impl RowReader<'_> {
    /// Reads the row to stage; `line` numbers the rows of its array from 1. What is not taken from it is
    /// described in `left_out`.
    pub fn read(
        &self,
        table: &Table,
        line: i64,
        element: Json,
        left_out: &mut Vec<String>,
    ) -> Result<NewRow, RefusedRow> {
        let refuse = |id, label: &str, reason: String| RefusedRow {
            id,
            label: first_chars(label, MAX_LABEL).to_owned(),
            reason,
        };
        let Json::Object(mut row) = element else {
            return Err(refuse(None, "", format!("{}[{}] is not an object", table.array, line - 1)));
        };
        let secrets = LoginSecrets { store: self.store, former: self.former_secrets };
        let amended = amend::row(secrets, table, line, &mut row, left_out);
        // Read after the row is amended, because an address may have carried a password.
        let label = row.get(table.label).map(|label| match label {
            Json::String(text) => text.trim().to_owned(),
            Json::Null => String::new(),
            other => other.to_string(),
        });
        let label = first_chars(&label.unwrap_or_default(), MAX_LABEL).to_owned();
        let id = if table.shows_id {
            row.get("id").and_then(exact_integer).filter(|id| *id > 0)
        } else {
            Some(line)
        };
        let Some(id) = id else {
            return Err(refuse(None, &label, invalid(table, "id", "positive integer")));
        };
        let shown_id = table.shows_id.then_some(id);
        amended.map_err(|(member, expected)| refuse(shown_id, &label, invalid(table, member, expected)))?;
        let mut values = Vec::with_capacity(table.columns.len());
        let mut present = 0;
        for (bit, column) in table.columns.iter().enumerate() {
            let (value, is_present) = match column.kind {
                Kind::Hash => (Value::Null, present >> (bit - 1) & 1 == 1),
                _ => match self.value(column, row.get(column.json)) {
                    Err(expected) if self.leaves_out && is_dispensable(table, column) => {
                        left_out.push(format!("{} is not of type {expected}: it is left out", column.json));
                        (self.missing(column).unwrap_or(Value::Null), false)
                    }
                    read => read.map_err(|expected| {
                        refuse(shown_id, &label, invalid(table, column.json, &expected))
                    })?,
                },
            };
            values.push(value);
            present |= u64::from(is_present) << bit;
        }
        let is_found_by_hash = row.get("valueStatus").is_none_or(|status| status == READY);
        Ok(NewRow { id, who: self.who(table, &values), label, values, is_found_by_hash, present })
    }

    /// Returns the text that identifies a row where no columns do; secrets in it are digested.
    fn who(&self, table: &Table, values: &[Value]) -> Option<String> {
        let text = |sql: &str| {
            let at = table.columns.iter().position(|column| column.sql == sql)?;
            match &values[at] {
                Value::Text(text) => Some(text.as_str()),
                Value::Bool(true) => Some("1"),
                _ => None,
            }
        };
        who(self.store, table, text)
    }

    /// Returns the value of a column that the document does not give; or what was expected.
    fn missing(&self, column: &Column) -> Result<Value, String> {
        match column.missing {
            Missing::Null => Ok(Value::Null),
            Missing::Int(value) => Ok(Value::Int(value)),
            Missing::Bool(value) => Ok(Value::Bool(value)),
            Missing::Real(value) => Ok(Value::Real(value)),
            Missing::Text(value) => Ok(Value::Text(value.to_owned())),
            Missing::Now => Ok(Value::Int(self.now)),
            Missing::Refused => Err(expected(column)),
        }
    }

    /// Returns the value of a column, and whether the document gives one; or what was expected instead.
    fn value(&self, column: &Column, member: Option<&Json>) -> Result<(Value, bool), String> {
        let missing = || self.missing(column);
        let Some(member) = member.filter(|member| !member.is_null()) else {
            // A null for a column that cannot be null counts as no value.
            return missing().map(|value| (value, member.is_some() && column.missing == Missing::Null));
        };
        let value = match (column.kind, member) {
            (Kind::Int, Json::Number(_)) => {
                exact_integer(member).filter(|value| column.refers.is_none() || *value > 0).map(Value::Int)
            }
            (Kind::Bool, Json::Bool(value)) => Some(Value::Bool(*value)),
            (Kind::Bool, Json::Number(number)) if number.as_i64().is_some_and(|bit| bit == 0 || bit == 1) => {
                Some(Value::Bool(number.as_i64() == Some(1)))
            }
            (Kind::Bool, Json::String(text)) if self.leaves_out => match text.trim() {
                "1" | "true" => Some(Value::Bool(true)),
                "0" | "false" => Some(Value::Bool(false)),
                _ => None,
            },
            (Kind::Real, Json::Number(number)) => number.as_f64().map(Value::Real),
            (Kind::Text, Json::String(text)) => Some(Value::Text(text.clone())),
            (Kind::Key, Json::String(text)) if text.chars().count() <= MAX_KEY => {
                Some(Value::Text(text.clone()))
            }
            (Kind::Url, Json::String(text)) if text.chars().count() <= MAX_URL => {
                Some(Value::Text(text.clone()))
            }
            (Kind::Json, Json::String(text)) if text.trim().is_empty() => {
                return missing().map(|value| (value, true));
            }
            (Kind::Json, Json::String(text)) => {
                let is_json = serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok();
                is_json.then(|| Value::Text(text.clone()))
            }
            (Kind::Json, Json::Array(_) | Json::Object(_)) => Some(Value::Text(member.to_string())),
            (Kind::Time, Json::String(text)) if text.trim().is_empty() => {
                return missing().map(|value| (value, true));
            }
            (Kind::Time, Json::String(_) | Json::Number(_)) => time::from_json(member).map(Value::Int),
            (Kind::Secret, Json::String(text)) if text.trim().is_empty() => match column.missing {
                Missing::Refused => None,
                _ => Some(Value::Null),
            },
            (Kind::Secret, Json::String(text)) => Some(Value::Text(text.clone())),
            _ => None,
        };
        let is_blank = matches!(&value, Some(Value::Text(text)) if text.trim().is_empty());
        if is_blank && column.missing == Missing::Refused {
            return Err(expected(column));
        }
        value.map(|value| (value, true)).ok_or_else(|| expected(column))
    }
}

/// Whether a row can do without a value that cannot be read. No row may be enabled, or lose a credential or a
/// reference, because it cannot be read.
fn is_dispensable(table: &Table, column: &Column) -> bool {
    let is_plain = matches!(column.kind, Kind::Int | Kind::Bool | Kind::Real | Kind::Json | Kind::Time);
    is_plain
        && column.missing != Missing::Refused
        && column.refers.is_none()
        && column.json != "enabled"
        && !table.is_strict
}

/// Returns the columns that [`who`] reads.
pub fn identifying_columns(table: &Table) -> &'static [&'static str] {
    match (table.who, table.name) {
        (Some(columns), _) => columns,
        (None, "sites") => &["platform", "url"],
        (None, "accounts") => &[
            "oauth_provider",
            "oauth_account_key",
            "oauth_project_id",
            "api_token",
            "access_token",
            "username",
        ],
        (None, "account_tokens") => &["token_enc", "name", "token_group", "source", "is_default"],
        (None, "downstream_api_keys") => &["key_enc"],
        (None, _) => &[],
    }
}

/// Returns the text that identifies a row of this table within its scope, from the texts of its columns; `None`
/// where SQL determines it.
pub fn who<'t>(store: &Store, table: &Table, text: impl Fn(&str) -> Option<&'t str>) -> Option<String> {
    let digest = |kind: &str, parts: &[Option<&str>]| {
        let mut pieces: Vec<&[u8]> = vec![kind.as_bytes()];
        for part in parts {
            pieces.push(&[0]);
            pieces.push(part.unwrap_or_default().trim().as_bytes());
        }
        crate::hex::encode(&store.sealer().derive(&pieces))
    };
    match table.name {
        "sites" => Some(format!("{} {}", text("platform")?, text("url")?.trim_end_matches('/'))),
        "accounts" => Some(match (text("oauth_provider"), text("api_token"), text("access_token")) {
            (Some(provider), ..) if text("oauth_account_key").is_some() => {
                digest("oauth", &[Some(provider), text("oauth_account_key"), text("oauth_project_id")])
            }
            (_, token @ Some(_), _) => digest("api", &[token]),
            (_, _, token @ Some(_)) => digest("session", &[token]),
            _ => digest("user", &[text("username")]),
        }),
        "account_tokens" => Some(match text("token_enc") {
            token @ Some(_) => digest("value", &[token]),
            None => digest("meta", &[text("name"), text("token_group"), text("source"), text("is_default")]),
        }),
        "downstream_api_keys" => Some(digest("key", &[text("key_enc")])),
        _ => None,
    }
}

/// Whether our own documents contain a column.
pub fn is_written(column: &Column) -> bool {
    column.is_exported && column.kind != Kind::Hash
}

/// Converts a stored row for a document; its columns come in the order of the table, after the row's id if it
/// has one. Returns `None` for a row that is useless without its secret, which does not open.
pub fn write(store: &Store, table: &Table, row: &Row) -> Result<Option<Json>> {
    let mut fields = row.fields();
    let mut members = Map::new();
    let id = if table.has_id { Some(fields.int()?) } else { None };
    if table.shows_id {
        members.insert("id".to_owned(), id.into());
    }
    for column in table.columns.iter().filter(|column| is_written(column)) {
        let value: Json = match column.kind {
            Kind::Int => fields.opt_int()?.into(),
            Kind::Bool => fields.opt_bool()?.into(),
            Kind::Real => fields.opt_real()?.into(),
            Kind::Time => accounts::moment(fields.opt_int()?),
            Kind::Text | Kind::Key | Kind::Url | Kind::Json | Kind::Hash => fields.opt_text()?.into(),
            Kind::Secret => {
                let stored = fields.opt_str()?.filter(|text| !text.is_empty());
                let opened =
                    stored.map(|stored| store.sealer().open(table.name, column.sql, stored)).transpose();
                let opened = opened.unwrap_or_else(|error| {
                    log::error!(
                        "a stored credential cannot be decrypted and is left out of the backup: {error}"
                    );
                    None
                });
                if opened.is_none() && column.missing == Missing::Refused {
                    return Ok(None);
                }
                opened.map(|secret| secret.expose().to_owned()).into()
            }
        };
        members.insert(column.json.to_owned(), value);
    }
    if table.has_extra_config {
        accounts::nest(&mut members);
    }
    Ok(Some(Json::Object(members)))
}

fn invalid(table: &Table, member: &str, expected: &str) -> String {
    format!("Invalid {}[].{member}. Expected {expected}.", table.array)
}

fn expected(column: &Column) -> String {
    let kind = match column.kind {
        Kind::Int if column.refers.is_some() => "positive integer",
        Kind::Int => "integer",
        Kind::Bool => "boolean",
        Kind::Real => "number",
        Kind::Key => "string of at most 191 characters",
        Kind::Url => "string of at most 500 characters",
        Kind::Text | Kind::Secret | Kind::Hash => "string",
        Kind::Json => "JSON text",
        Kind::Time => "time",
    };
    match column.missing {
        Missing::Refused if kind.starts_with("string") => format!("non-empty {kind}"),
        Missing::Null => format!("{kind} or null"),
        _ => kind.to_owned(),
    }
}
