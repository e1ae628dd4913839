//! The state of an account: whether it is in use, how it authenticates, and its health when last checked.

use serde::Serialize;

pub use crate::routing::AccountStatus;
use crate::time::{Millis, now_ms};

/// The status of a disabled account before it was disabled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FormerStatus {
    /// The account was disabled with its site: it gets this status back when the site is enabled.
    OfSite(AccountStatus),
    /// The account was expired when an operator disabled it: it is expired again when an operator enables it.
    Expired,
}

impl FormerStatus {
    /// Returns the text to store. A release that knows `OfSite` only keeps an account disabled that an operator disabled.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::OfSite(status) => status.as_str(),
            Self::Expired => AccountStatus::Disabled.as_str(),
        }
    }

    pub(super) fn parse(text: &str) -> Option<Self> {
        Some(match AccountStatus::parse(text)? {
            AccountStatus::Disabled => Self::Expired,
            status => Self::OfSite(status),
        })
    }
}

/// How an account authenticates.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum CredentialMode {
    /// Decided by the stored credentials: a session when there is an access token, else an API key.
    #[default]
    Auto,
    Session,
    ApiKey,
}

impl CredentialMode {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Session => "session",
            Self::ApiKey => "apikey",
        }
    }

    /// Parses a mode in any letter case; `None` for an unknown word.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        [Self::Auto, Self::Session, Self::ApiKey]
            .into_iter()
            .find(|mode| text.eq_ignore_ascii_case(mode.as_str()))
    }
}

/// The health of an account.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum HealthState {
    Healthy,
    Unhealthy,
    /// The account serves requests, but something that it should have is missing (a check-in, for example).
    Degraded,
    Unknown,
    Disabled,
}

/// The part of the service that found an account's health.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HealthSource {
    Auth,
    Balance,
    Checkin,
    ModelDiscovery,
    PostRefreshProbe,
    System,
    TokenCreate,
    TokenDelete,
    TokenGroups,
    TokenSync,
    /// The account has not been checked yet.
    None,
    /// A word of another gateway, from an imported document.
    Other(String),
}

/// An account's health when last checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Health {
    pub state: HealthState,
    /// The reason; cut to 500 characters when stored.
    pub reason: String,
    pub source: HealthSource,
    pub checked_at: Option<Millis>,
}

impl Health {
    /// Builds a health finding with the current time.
    pub fn now(state: HealthState, reason: &str, source: HealthSource) -> Self {
        Self { state, reason: reason.to_owned(), source, checked_at: Some(now_ms()) }
    }
}

impl HealthSource {
    pub fn as_str(&self) -> &str {
        match self {
            Self::Auth => "auth",
            Self::Balance => "balance",
            Self::Checkin => "checkin",
            Self::ModelDiscovery => "model-discovery",
            Self::PostRefreshProbe => "post-refresh-probe",
            Self::System => "system",
            Self::TokenCreate => "token-create",
            Self::TokenDelete => "token-delete",
            Self::TokenGroups => "token-groups",
            Self::TokenSync => "token-sync",
            Self::None => "none",
            Self::Other(word) => word,
        }
    }

    pub fn parse(text: &str) -> Self {
        match text {
            "auth" => Self::Auth,
            "balance" => Self::Balance,
            "checkin" => Self::Checkin,
            "model-discovery" => Self::ModelDiscovery,
            "post-refresh-probe" => Self::PostRefreshProbe,
            "system" => Self::System,
            "token-create" => Self::TokenCreate,
            "token-delete" => Self::TokenDelete,
            "token-groups" => Self::TokenGroups,
            "token-sync" => Self::TokenSync,
            "none" => Self::None,
            word => Self::Other(word.to_owned()),
        }
    }
}

impl HealthState {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Healthy => "healthy",
            Self::Unhealthy => "unhealthy",
            Self::Degraded => "degraded",
            Self::Unknown => "unknown",
            Self::Disabled => "disabled",
        }
    }

    pub(super) fn parse(text: &str) -> Self {
        match text {
            "healthy" => Self::Healthy,
            "unhealthy" => Self::Unhealthy,
            "degraded" => Self::Degraded,
            "disabled" => Self::Disabled,
            _ => Self::Unknown,
        }
    }
}
