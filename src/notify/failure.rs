//! Why a channel did not take a message, and the bounds of every attempt.

use std::time::Duration;

/// For one attempt on one channel.
pub(super) const TIMEOUT: Duration = Duration::from_secs(10);

/// Why a channel did not take a message. Shows no secret.
pub(super) struct Failure {
    pub(super) text: String,
    /// Nothing was sent: trying again cannot send twice.
    pub(super) unconnected: bool,
}

impl Failure {
    pub(super) fn lasting(text: impl Into<String>) -> Self {
        Self { text: text.into(), unconnected: false }
    }
}

/// A text without any of the secrets, the longest taken out first: one may be part of another.
pub(super) fn without<'s>(text: &str, secrets: impl IntoIterator<Item = &'s str>) -> String {
    let mut secrets: Vec<&str> = secrets.into_iter().filter(|secret| !secret.is_empty()).collect();
    secrets.sort_unstable_by_key(|secret| std::cmp::Reverse(secret.len()));
    secrets.into_iter().fold(text.to_owned(), |text, secret| text.replace(secret, "****"))
}
