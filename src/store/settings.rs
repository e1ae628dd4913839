//! Saved settings: one JSON text per name. The settings named in [`SEALED`] are secrets: stored sealed, masked
//! in responses, and opened when read here.

use std::collections::HashMap;

use serde::de::DeserializeOwned;

pub use super::seal::columns::SETTINGS as SEALED;
use super::sql::{OnConflict, Statement, Value, upsert};
use super::{Result, Secret, Store};
use crate::routing::health;
use crate::time::{Millis, now_ms};

/// Settings that the store keeps for itself.
const INTERNAL: &[&str] = &[KDF, WIPE_DUE, health::saved::SETTING];
/// The parameters by which the wrapping key is derived from the secret.
const KDF: &str = "crypto_kdf_v1";
/// Says that rows were deleted whose traces must be removed from the files of the database.
pub(super) const WIPE_DUE: &str = "wipe_due";

/// Returns every saved setting by name, as JSON text, which may be a secret. A setting that cannot be opened is
/// left out.
pub async fn all(store: &Store) -> Result<HashMap<String, Secret>> {
    let mut settings = HashMap::new();
    for row in store.query("SELECT name, value FROM settings", Vec::new()).await? {
        let mut row = row.fields();
        let (name, value) = (row.text()?, row.opt_str()?);
        let Some(value) = value.filter(|_| !INTERNAL.contains(&name.as_str())) else { continue };
        if !SEALED.contains(&name.as_str()) {
            settings.insert(name, Secret::new(value));
            continue;
        }
        match store.sealer().open("settings", &name, value) {
            Ok(secret) => {
                settings.insert(name, secret);
            }
            Err(error) => log::error!("setting {name} is ignored: {error}"),
        }
    }
    Ok(settings)
}

/// Returns one saved setting that is not a secret, as JSON text.
pub async fn get(store: &Store, name: &str) -> Result<Option<String>> {
    let sql = "SELECT value FROM settings WHERE name = ?";
    Ok(store.row(sql, vec![name.into()], |row| row.opt_text()).await?.flatten())
}

/// Reads one saved setting that is not a secret. One that is not of this form is logged, and counts as not saved.
pub async fn read<T: DeserializeOwned + Default>(store: &Store, name: &str) -> Result<T> {
    let Some(text) = get(store, name).await? else { return Ok(T::default()) };
    Ok(serde_json::from_str(&text).unwrap_or_else(|error| {
        log::warn!("setting {name} cannot be read and counts as not saved: {error}");
        T::default()
    }))
}

/// Saves these settings (name, JSON text) in one transaction.
pub async fn put(store: &Store, values: Vec<(String, String)>) -> Result<()> {
    let now = now_ms();
    let statements = values
        .into_iter()
        .map(|(name, value)| put_statement(store, &name, &value, now))
        .collect::<Result<_>>()?;
    store.batch(statements).await.map(drop)
}

/// Builds the statement that saves one setting, for a batch that changes more.
pub fn put_statement(store: &Store, name: &str, value: &str, now: Millis) -> Result<Statement> {
    let stored: Value = if SEALED.contains(&name) {
        store.sealer().seal("settings", name, value)?.into()
    } else {
        value.into()
    };
    let columns = [("value", OnConflict::Replace), ("updated_at", OnConflict::Replace)];
    let sql = upsert(store.database().dialect(), "settings", &["name"], &columns);
    let statement = Statement::new(sql, vec![name.into(), stored, now.into()]);
    Ok(if INTERNAL.contains(&name) { statement.touching_nothing() } else { statement })
}

/// Builds the statement that deletes one of the store's own settings.
pub(super) fn forget_internal(name: &'static str) -> Statement {
    Statement::new("DELETE FROM settings WHERE name = ?", vec![name.into()]).touching_nothing()
}

/// Builds the statement that deletes every setting except the one without which no secret could be opened.
pub fn forget_all() -> Statement {
    Statement::new("DELETE FROM settings WHERE name <> ?", vec![KDF.into()])
}
