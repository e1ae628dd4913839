//! The passphrase of a sealed backup, sent in a header. Addresses end up in proxies and histories; only the passphrase
//! that seals an export may be sent in one.

use crate::admin::errors::Result;
use crate::admin::input::Invalid;
use crate::http::Request;

/// The header with the passphrase, in UTF-8.
const HEADER: &str = "x-backup-passphrase";
const IN_ADDRESS: &str = "passphrase";
const MAX_LENGTH: usize = 1024;

/// Reads the passphrase to seal an export with; `None` if none was sent.
pub fn sealing(request: &Request) -> Result<Option<String>> {
    match request.query.get(IN_ADDRESS).filter(|_| !request.headers.contains_key(HEADER)) {
        Some(passphrase) => checked(&passphrase, IN_ADDRESS),
        None => in_header(request),
    }
}

/// Reads the passphrase to open a sealed backup with; `None` if none was sent.
pub fn opening(request: &Request) -> Result<Option<String>> {
    if request.query.get(IN_ADDRESS).is_some() {
        let message = "Send it in the header X-Backup-Passphrase, not in the address.";
        return Err(Invalid::because("passphrase", message.to_owned()).into());
    }
    in_header(request)
}

fn in_header(request: &Request) -> Result<Option<String>> {
    let Some(value) = request.headers.get(HEADER) else { return Ok(None) };
    checked(std::str::from_utf8(value.as_bytes()).unwrap_or_default(), "X-Backup-Passphrase")
}

fn checked(passphrase: &str, place: &str) -> Result<Option<String>> {
    if passphrase.is_empty() || passphrase.len() > MAX_LENGTH {
        return Err(Invalid::field(place, "1 to 1024 bytes of UTF-8").into());
    }
    Ok(Some(passphrase.to_owned()))
}
