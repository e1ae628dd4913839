//! Reads files of other gateways as a backup document of our own.
//!
//! ```text
//! file ─▶ kind, by content ─▶ draft: sites, accounts, routes, channels, keys ─▶ document, which `backup` imports
//!                                └──────▶ what was not taken: the place in the file, and the reason
//! ```
//!
//! | file | reads |
//! |---|---|
//! | `metapi`, `hub_database` | a backup of metapi; its database |
//! | `merged_sites` | sites in these that are one site here |
//! | `usage_days` | the request log of that database, summed by day |
//! | `old_password` | the passwords in metapi's files, which are sealed under the secret of their instance |
//! | `all_api_hub` | an export of the browser extension All API Hub |
//! | `new_api`, `channel_types` | a database of new-api or one-api; the meaning of their upstream numbers |
//! | `cli_proxy_api` | the key sections of CLIProxyAPI's `config.yaml` |
//! | `litellm`, `litellm_providers` | the `model_list` of LiteLLM's `config.yaml` |
//! | `sub2api` | the keys in an export of sub2api's accounts |
//! | `yaml`, `sqlite` | the two formats that need more than a JSON parser |
//! | `draft`, `taken` | the document being built; the result of reading a file |
//!
//! Nothing here calls an upstream, uses the store, or changes the file that it reads.

mod all_api_hub;
mod channel_types;
mod cli_proxy_api;
mod draft;
mod hub_database;
mod litellm;
mod litellm_providers;
mod merged_sites;
mod metapi;
mod new_api;
mod old_password;
mod sqlite;
mod sub2api;
mod taken;
mod usage_days;
mod yaml;

use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::Path;

use serde_json::Value;

use crate::byte_order_mark;
use sqlite::{Copy, ForeignDatabase};

pub use old_password::open as open_password;
pub use sub2api::proxy_url;
pub use taken::{Context, Error, Kind, TakenOver};

/// The maximum size in bytes of a file that is read into memory; databases are read row by row.
const MAX_FILE: u64 = 64 * 1024 * 1024;

/// Reads a file of another gateway, whatever its name is. `scratch` is a directory for temporary copies.
///
/// # Errors
/// When the file cannot be taken over; the message says what it is.
pub fn read(path: &Path, scratch: &Path, context: &Context) -> Result<TakenOver, Error> {
    let failed = |error: io::Error| Error(error.to_string());
    let mut file = File::open(path).map_err(failed)?;
    if !file.metadata().map_err(failed)?.is_file() {
        return Err(Error("it is no file".to_owned()));
    }
    if is_database(&mut file).map_err(failed)? {
        from_database(&ForeignDatabase::open(path, scratch)?, context)
    } else {
        from_text(&text_of(file)?, context)
    }
}

/// Reads a file like [`read`], but one without a name.
///
/// # Errors
/// When the file cannot be taken over; the message says what it is.
pub fn read_sent(mut file: File, scratch: &Path, context: &Context) -> Result<TakenOver, Error> {
    if is_database(&mut file).map_err(|error| Error(error.to_string()))? {
        let copy = Copy::of_sent(file, scratch)?;
        let database = ForeignDatabase::open(&copy.database(), scratch)?;
        // The copy is open, so it can be removed already: however the process ends, no copy is left.
        drop(copy);
        return from_database(&database, context);
    }
    from_text(&text_of(file)?, context)
}

/// Whether the file is an SQLite database. Leaves it rewound to its beginning.
fn is_database(file: &mut File) -> io::Result<bool> {
    let mut head = Vec::new();
    Read::take(&mut *file, sqlite::MAGIC.len() as u64).read_to_end(&mut head)?;
    file.rewind()?;
    Ok(head == sqlite::MAGIC)
}

fn text_of(file: File) -> Result<Vec<u8>, Error> {
    let mut text = Vec::new();
    file.take(MAX_FILE + 1).read_to_end(&mut text).map_err(|error| Error(error.to_string()))?;
    if text.len() as u64 > MAX_FILE {
        return Err(Error(format!("it is longer than {} MiB", MAX_FILE >> 20)));
    }
    Ok(text)
}

/// Reads JSON or YAML text.
///
/// # Errors
/// When the text cannot be taken over; the message says what it is.
fn from_text(text: &[u8], context: &Context) -> Result<TakenOver, Error> {
    let text = std::str::from_utf8(text)
        .map_err(|_| Error("it is neither text nor an SQLite database".to_owned()))?
        .trim_start_matches(byte_order_mark::CHAR);
    let document = if text.trim_start().starts_with(['{', '[']) {
        serde_json::from_str(text).map_err(|error| Error(format!("it is not valid JSON: {error}")))?
    } else {
        yaml::read(text).map_err(Error)?
    };
    from_json(&document, context)
}

/// Reads a parsed document.
///
/// # Errors
/// When the document cannot be taken over; the message says what it is.
pub fn from_json(document: &Value, context: &Context) -> Result<TakenOver, Error> {
    match recognise(document).map_err(|why| Error(why.to_owned()))? {
        Kind::AllApiHub => Ok(all_api_hub::read(document)),
        Kind::CliProxyApi => Ok(cli_proxy_api::read(document)),
        Kind::LiteLlm => Ok(litellm::read(document, context)),
        Kind::Sub2Api => Ok(sub2api::read(document)),
        // The other kinds are databases.
        _ => Ok(metapi::read(document, context)),
    }
}

/// Determines which program a document comes from. A backup of ours has a mark, and is imported instead.
///
/// # Errors
/// When it cannot be taken over; the text says what it is, or that it is not known.
fn recognise(document: &Value) -> Result<Kind, &'static str> {
    if document["format"] == "switchyard" {
        return Err(
            "it is a backup of Switchyard itself: send a backup of Switchyard sealed, or as application/json \
             in the member data",
        );
    }
    if all_api_hub::is(document) {
        return Ok(Kind::AllApiHub);
    }
    if metapi::is(document) {
        return Ok(Kind::MetapiBackup);
    }
    if litellm::is(document) {
        return Ok(Kind::LiteLlm);
    }
    if cli_proxy_api::is(document) {
        return Ok(Kind::CliProxyApi);
    }
    if sub2api::is(document) && sub2api::has_keys(document) {
        return Ok(Kind::Sub2Api);
    }
    if sub2api::is(document)
        || (document["access_token"].is_string() && document["refresh_token"].is_string())
    {
        return Err(
            "it holds accounts connected by OAuth logins: import them with POST /api/oauth/import, or in \
             the console",
        );
    }
    Err("it is not a known file of a gateway: a backup of Switchyard, metapi or All API Hub, a database of \
         metapi, new-api or one-api, or a config.yaml of CLIProxyAPI or LiteLLM")
}

fn from_database(database: &ForeignDatabase, context: &Context) -> Result<TakenOver, Error> {
    if database.has("crypto_keys", &[]) && database.has("schema_migrations", &[]) {
        return Err(Error("it is a database of Switchyard itself: use `switchyard restore`".to_owned()));
    }
    if hub_database::is(database) {
        return hub_database::read(database, context);
    }
    if new_api::is(database) {
        return new_api::read(database);
    }
    let mut tables: Vec<&str> = database.tables().collect();
    tables.sort_unstable();
    tables.truncate(8);
    let message = "it is an SQLite database, but not of metapi, new-api or one-api; its first tables are";
    Err(Error(format!("{message}: {}", tables.join(", "))))
}
