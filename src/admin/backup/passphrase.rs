//! The passphrase of a sealed backup: in a header, never in the address, which proxies and histories keep.

use crate::admin::errors::Result;
use crate::admin::input::Invalid;
use crate::http::Request;

/// The header that has it, in UTF-8.
const HEADER: &str = "x-backup-passphrase";
const MAX_LENGTH: usize = 1024;

/// The passphrase that came with a request; `None` when none did.
pub fn given(request: &Request) -> Result<Option<String>> {
    if request.query.get("passphrase").is_some() {
        let message = "Invalid passphrase. Send it in the header X-Backup-Passphrase, not in the address.";
        return Err(Invalid(message.to_owned()).into());
    }
    let Some(value) = request.headers.get(HEADER) else { return Ok(None) };
    let passphrase = std::str::from_utf8(value.as_bytes()).unwrap_or_default();
    if passphrase.is_empty() || passphrase.len() > MAX_LENGTH {
        return Err(Invalid::field("X-Backup-Passphrase", "1 to 1024 bytes of UTF-8").into());
    }
    Ok(Some(passphrase.to_owned()))
}
