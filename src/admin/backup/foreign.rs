//! Converts documents of other gateways that are sent to the import into the gateway's own form.

use std::fs::File;

use serde_json::{Map, Value};

use crate::backup::{Document, ImportError};
use crate::config::Config;
use crate::takeover::{self, Context, TakenOver};

/// Maximum number of rows of a foreign document, which are read into memory; the gateway's own backups have no limit.
const MAX_ROWS: usize = 200_000;
/// Sections that only other gateways' documents have.
const MARKS: [&str; 6] = [
    "apiCredentialProfiles",
    "model_list",
    "openai-compatibility",
    "claude-api-key",
    "gemini-api-key",
    "codex-api-key",
];
/// Members of a login file.
const LOGIN: [&str; 2] = ["access_token", "refresh_token"];
/// Members that only accounts of All API Hub have.
const ROW_MARKS: [&str; 4] = ["site_url", "site_type", "account_info", "cookieAuth"];

/// Converts a document of another gateway; `None` if the document has the gateway's own form.
///
/// # Errors
/// Fails if the document cannot be read again, or has too many rows.
pub fn take_over(document: &Document, config: &Config) -> Result<Option<TakenOver>, ImportError> {
    if document.is_own() || !is_foreign(document)? {
        return Ok(None);
    }
    let mut room = MAX_ROWS;
    let whole = value(document, &mut Vec::new(), &mut room)?;
    let taken = takeover::from_json(&whole, &context(config));
    taken.map(Some).map_err(|error| ImportError::Refused(error.to_string()))
}

/// Converts an uploaded file of another gateway.
///
/// # Errors
/// Fails if the file has no known form; the message says what it is instead.
pub fn take_over_file(file: File, config: &Config) -> Result<TakenOver, ImportError> {
    let taken = takeover::read_sent(file, &config.data_dir, &context(config));
    taken.map_err(|error| ImportError::Refused(format!("The file cannot be imported: {error}")))
}

fn context(config: &Config) -> Context {
    // The sender of a document must not make this process read its environment variables.
    Context { secrets: config.secrets_of_imports(), variable: None, zone: config.time_zone.clone() }
}

fn is_foreign(document: &Document) -> Result<bool, ImportError> {
    if MARKS.iter().any(|mark| document.has(&[mark])) || LOGIN.iter().all(|mark| document.has(&[mark])) {
        return Ok(true);
    }
    for path in [&["type"][..], &["data", "type"]] {
        let kind = document.value(path);
        if kind.is_some_and(|kind| kind.as_str().is_some_and(|kind| kind.starts_with("sub2api-"))) {
            return Ok(true);
        }
    }
    // The gateway's own documents have this form too; but keys that belong to a site become accounts of their own here.
    for path in [&["accounts", "sites"][..], &["sites"], &["data", "accounts", "sites"]] {
        if document.is_array(path) {
            return has_site_keys(document, path);
        }
    }
    for path in [&["accounts", "accounts"][..], &["accounts"]] {
        if let Some(row) = document.rows(path).next() {
            let row = row?;
            return Ok(ROW_MARKS.iter().any(|mark| !row[*mark].is_null()));
        }
    }
    Ok(false)
}

fn has_site_keys(document: &Document, path: &[&str]) -> Result<bool, ImportError> {
    for row in document.rows(path) {
        if row?["apiKey"].as_str().is_some_and(|key| !key.trim().is_empty()) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Reads the part of a document below a path.
fn value(document: &Document, path: &mut Vec<String>, room: &mut usize) -> Result<Value, ImportError> {
    let names: Vec<&str> = path.iter().map(String::as_str).collect();
    if document.is_array(&names) {
        let mut rows = Vec::new();
        for row in document.rows(&names) {
            let Some(left) = room.checked_sub(1) else {
                return Err(ImportError::Refused(format!("The document has more than {MAX_ROWS} rows")));
            };
            *room = left;
            rows.push(row?);
        }
        return Ok(Value::Array(rows));
    }
    if let Some(value) = document.value(&names) {
        return Ok(value);
    }
    let members: Vec<String> = document.members(&names).into_iter().map(str::to_owned).collect();
    let mut object = Map::new();
    for member in members {
        path.push(member.clone());
        let inner = value(document, path, room)?;
        path.pop();
        object.insert(member, inner);
    }
    Ok(Value::Object(object))
}
