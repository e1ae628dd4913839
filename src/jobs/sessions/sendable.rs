//! Which of several secrets can be sent.

use crate::store::Secret;

/// Each credential once, blank ones and masked ones left out: a masked one is only its picture.
pub(in crate::jobs) fn sendable_secrets<'a>(
    secrets: impl IntoIterator<Item = &'a Option<Secret>>,
) -> Vec<&'a str> {
    let mut sendable: Vec<&str> = Vec::new();
    for secret in secrets.into_iter().flatten().map(|secret| secret.expose().trim()) {
        if !secret.is_empty() && !secret.contains(['*', '•']) && !sendable.contains(&secret) {
            sendable.push(secret);
        }
    }
    sendable
}
