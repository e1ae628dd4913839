//! Picks the secrets that can be sent.

use crate::key_mask::is_mask;
use crate::store::Secret;

/// Returns each credential once, without blank and masked ones: a masked one only shows parts of the credential.
pub(in crate::jobs) fn sendable_secrets<'a>(
    secrets: impl IntoIterator<Item = &'a Option<Secret>>,
) -> Vec<&'a str> {
    let mut sendable: Vec<&str> = Vec::new();
    for secret in secrets.into_iter().flatten().map(|secret| secret.expose().trim()) {
        if !secret.is_empty() && !is_mask(secret) && !sendable.contains(&secret) {
            sendable.push(secret);
        }
    }
    sendable
}
