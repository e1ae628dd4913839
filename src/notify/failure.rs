//! The failure of a channel to accept a message, and the time limit of every attempt.

use std::time::Duration;

/// The time limit of one attempt on one channel.
pub(super) const TIMEOUT: Duration = Duration::from_secs(10);

/// The reason why a channel did not accept a message. Shows no secret.
pub(super) struct Failure {
    pub(super) text: String,
    /// Whether nothing was sent, so that another attempt cannot send it twice.
    pub(super) unconnected: bool,
}

impl Failure {
    pub(super) fn lasting(text: impl Into<String>) -> Self {
        Self { text: text.into(), unconnected: false }
    }
}

/// Removes all secrets from a text, the longest first, because one may be part of another.
pub(super) fn without<'s>(text: &str, secrets: impl IntoIterator<Item = &'s str>) -> String {
    let mut secrets: Vec<&str> = secrets.into_iter().filter(|secret| !secret.is_empty()).collect();
    secrets.sort_unstable_by_key(|secret| std::cmp::Reverse(secret.len()));
    secrets.into_iter().fold(text.to_owned(), |text, secret| text.replace(secret, "****"))
}
