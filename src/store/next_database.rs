//! The database that the next start uses, as an operator saved it: in the settings of the database that the
//! environment names, which is opened first at every start.

use std::path::Path;

use super::relocate::{DatabaseAddress, NEXT_DATABASE};
use super::settings;
use super::sql::Statement;
use super::{Result, Store};
use crate::config::{DatabaseKind, DatabaseTls};
use crate::time::now_ms;

/// Returns the saved database; `None` when nothing usable is saved. Certificate authorities and the permission
/// to accept any certificate come from the environment.
pub async fn saved(store: &Store, data_dir: &Path, tls: &DatabaseTls) -> Result<Option<DatabaseAddress>> {
    let all = settings::all(store).await?;
    let saved = NEXT_DATABASE.map(|name| all.get(name).map(|value| value.expose().to_owned()));
    Ok(parse(saved, data_dir, tls))
}

/// Parses the three settings, each of which is JSON.
pub(super) fn parse(
    [kind, url, ssl]: [Option<String>; NEXT_DATABASE.len()],
    data_dir: &Path,
    tls: &DatabaseTls,
) -> Option<DatabaseAddress> {
    let text = |value: Option<String>| value.and_then(|json| serde_json::from_str::<String>(&json).ok());
    let kind = text(kind).as_deref().and_then(DatabaseKind::parse)?;
    let url = text(url).unwrap_or_default();
    if kind != DatabaseKind::Sqlite && url.is_empty() {
        return None;
    }
    let is_required = ssl.as_deref() == Some("true");
    let tls = DatabaseTls { is_required, ..tls.clone() };
    Some(DatabaseAddress { kind, url, tls, data_dir: data_dir.to_owned() })
}

/// Builds the statements that save it.
pub fn save(store: &Store, place: &DatabaseAddress) -> Result<Vec<Statement>> {
    let json = |text: &str| serde_json::Value::from(text).to_string();
    let values = [json(place.kind.as_str()), json(&place.url), place.tls.is_required.to_string()];
    let now = now_ms();
    let put = |(name, value): (&str, &String)| settings::put_statement(store, name, value, now);
    NEXT_DATABASE.into_iter().zip(&values).map(put).collect()
}
