//! Warnings about values in an imported row that cannot be used: one strange row must not prevent an import.

use crate::mask;
use crate::platform::Platform;
use crate::routing::{ModelPattern, OutboundProxy};
use crate::site_url::{SiteUrl, UrlError};
use crate::store::Value;
use crate::store::staging::NewRow;
use crate::store::staging::tables::Table;

/// The maximum number of doubts reported for a document.
pub const MAX_DOUBTS: usize = 100;

/// Returns the reasons, for people, why a row is not used as it is; none for a usable row. `left_out` describes
/// what was not taken from it.
pub fn of(table: &Table, row: &NewRow, left_out: Vec<String>) -> impl Iterator<Item = String> {
    unusable(table, row).into_iter().chain(left_out).map(|why| {
        let id = if table.shows_id { format!(" {}", row.id) } else { String::new() };
        format!("{}{id} ({}): {why}", table.array, row.label)
    })
}

fn unusable(table: &Table, row: &NewRow) -> Option<String> {
    let text = |sql: &str| {
        let at = table.columns.iter().position(|column| column.sql == sql)?;
        match row.values.get(at)? {
            Value::Text(text) => Some(text.as_str()),
            _ => None,
        }
    };
    match table.name {
        "sites" => text("platform")
            .and_then(platform)
            .or_else(|| text("url").and_then(address))
            .or_else(|| text("proxy_url").and_then(proxy)),
        "site_api_endpoints" => text("url").and_then(address),
        "accounts" => proxy(text("proxy_url")?),
        // A group may have no pattern of its own.
        "token_routes" => text("model_pattern").filter(|text| !text.is_empty()).and_then(pattern),
        "downstream_api_keys" => key(text("key_enc")?),
        _ => None,
    }
}

fn platform(name: &str) -> Option<String> {
    let known = Platform::parse(name);
    known.is_none().then(|| format!("the platform {name:?} is not known here: the site is not used"))
}

fn address(url: &str) -> Option<String> {
    SiteUrl::parse_absolute(url).err().map(|UrlError(why)| format!("its address cannot be used: it {why}"))
}

fn proxy(url: &str) -> Option<String> {
    if mask::is_of_proxy_url(url) {
        return Some(
            "its proxy address has only the mask of a password: requests fail until it is corrected"
                .to_owned(),
        );
    }
    OutboundProxy::parse(url)
        .err()
        .map(|_| "its proxy address is invalid, and no requests are sent until it is corrected".to_owned())
}

fn pattern(text: &str) -> Option<String> {
    ModelPattern::parse(text).err().map(|why| format!("its pattern is invalid and matches no model: {why}"))
}

fn key(text: &str) -> Option<String> {
    let is_sound =
        text.starts_with("sk-") && text.len() >= 6 && text.bytes().all(|byte| byte.is_ascii_graphic());
    (!is_sound).then(|| {
        "it does not begin with sk-, is too short, or has characters that no client can send".to_owned()
    })
}
