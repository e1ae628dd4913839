//! How an account is: in use or not, what it proves itself with, and what was last seen of its health.

use serde::Serialize;

use crate::time::{Millis, now_ms};

/// Whether an account is in use, as its row says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum AccountStatus {
    #[default]
    Active,
    Disabled,
    Expired,
    /// Somebody has found that it does not work, and why is not known here.
    Unhealthy,
}

impl AccountStatus {
    const ALL: [Self; 4] = [Self::Active, Self::Disabled, Self::Expired, Self::Unhealthy];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Disabled => "disabled",
            Self::Expired => "expired",
            Self::Unhealthy => "unhealthy",
        }
    }

    /// Any case; `None` for another word.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        Self::ALL.into_iter().find(|status| text.eq_ignore_ascii_case(status.as_str()))
    }
}

/// How an account proves who it is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum CredentialMode {
    /// By what is there: a session when it has an access token, else an API key.
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

    /// Any case; `None` for another word.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        [Self::Auto, Self::Session, Self::ApiKey]
            .into_iter()
            .find(|mode| text.eq_ignore_ascii_case(mode.as_str()))
    }
}

/// How an account is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum HealthState {
    Healthy,
    Unhealthy,
    /// It serves, but something it should have is missing (a check-in, say).
    Degraded,
    Unknown,
    Disabled,
}

/// What was last seen of an account's health.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Health {
    pub state: HealthState,
    /// Cut at 500 characters.
    pub reason: String,
    /// Who found out: auth, model-discovery, checkin, …
    pub source: String,
    pub checked_at: Option<Millis>,
}

impl Health {
    /// As it was found to be right now.
    pub fn now(state: HealthState, reason: &str, source: &str) -> Self {
        let (reason, source) = (reason.to_owned(), source.to_owned());
        Self { state, reason, source, checked_at: Some(now_ms()) }
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
