//! What a platform can be asked for, and the shape of its answers: the same for all of them.
//!
//! Amounts are US dollars, times are UTC milliseconds. What a site does not say is `None`, never a zero.

use serde::Serialize;
use serde_json::Value;

use crate::money::Usd;
use crate::routing::Secret;
use crate::time::Millis;

/// What a login gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoggedIn {
    /// The session to store: a token, or a whole cookie line.
    pub credential: Secret,
    pub username: Option<String>,
    pub user_id: Option<i64>,
    pub refresh_token: Option<Secret>,
    pub expires_at: Option<Millis>,
}

/// Whose session it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    pub id: Option<i64>,
    pub username: String,
    pub display_name: Option<String>,
    pub email: Option<String>,
    pub role: Option<Role>,
}

/// What a user may do at the site, as the site writes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Role {
    /// In the new-api family.
    Number(i64),
    Word(String),
}

impl User {
    /// Whether nothing tells who it is.
    pub(super) fn is_nobody(&self) -> bool {
        self.id.is_none() && self.username.is_empty()
    }
}

/// What a credential turned out to be.
#[derive(Clone, Debug, PartialEq)]
pub enum Identity {
    /// At least one model.
    ApiKey { models: Vec<String> },
    Session {
        user: User,
        balance: Option<Balance>,
        /// A key of the account that can be used, whole.
        api_token: Option<Secret>,
    },
}

/// A check-in that the site took.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CheckIn {
    pub message: String,
    /// When the site says.
    pub reward: Option<Usd>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Balance {
    /// What is left.
    pub balance: Usd,
    pub used: Usd,
    /// Left and used together.
    pub quota: Usd,
    pub today_income: Option<Usd>,
    pub today_quota_consumption: Option<Usd>,
    pub subscriptions: Option<SubscriptionSummary>,
}

/// The subscriptions of a sub2api account; `None` where the site says nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SubscriptionSummary {
    pub active_count: i64,
    pub total_used_usd: Usd,
    pub subscriptions: Vec<Subscription>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Subscription {
    pub id: Option<i64>,
    pub group_id: Option<i64>,
    pub group_name: Option<String>,
    pub status: Option<String>,
    pub expires_at: Option<Millis>,
    pub daily: Allowance,
    pub weekly: Allowance,
    pub monthly: Allowance,
}

/// One period of a subscription, in money.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Allowance {
    pub used_usd: Option<Usd>,
    pub limit_usd: Option<Usd>,
}

/// An API key of the account at its site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SiteKey {
    pub id: Option<i64>,
    pub name: String,
    /// Whole where the site gives it; a masked one contains `*` or `•`.
    pub key: Secret,
    pub enabled: bool,
    pub group: Option<String>,
}

/// A key to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewSiteKey {
    pub name: String,
    /// Blank = the account's own group.
    pub group: String,
    pub unlimited_quota: bool,
    /// In the site's own units; ignored when unlimited.
    pub remain_quota: i64,
    /// Unix seconds; -1 = never.
    pub expired_time: i64,
    pub allow_ips: String,
    pub model_limits_enabled: bool,
    /// Model names, joined by commas.
    pub model_limits: String,
}

/// Something the site tells its users.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Announcement {
    /// Stays the same while the announcement does.
    pub source_key: String,
    pub title: String,
    pub content: String,
    pub level: NoticeLevel,
    pub source_url: Option<String>,
    pub starts_at: Option<Millis>,
    pub ends_at: Option<Millis>,
    pub upstream_created_at: Option<Millis>,
    pub upstream_updated_at: Option<Millis>,
    /// As the site sent it.
    pub raw_payload: Value,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NoticeLevel {
    #[default]
    Info,
    Warning,
    Error,
}

/// A session renewed. The refresh token has been exchanged too: the old one is worth nothing any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refreshed {
    pub access_token: Secret,
    pub refresh_token: Secret,
    pub expires_at: Millis,
}

/// Where the models of a session stand that is no key itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionModels {
    /// The site lists them for the session's user.
    Listed(Vec<String>),
    /// The site lists them for keys alone: this is one of the user's.
    ByKey(Secret),
}

// === impl NewSiteKey ===

impl Default for NewSiteKey {
    /// Without limits, named after the product.
    fn default() -> Self {
        Self {
            name: "Switchyard".to_owned(),
            group: String::new(),
            unlimited_quota: true,
            remain_quota: 0,
            expired_time: -1,
            allow_ips: String::new(),
            model_limits_enabled: false,
            model_limits: String::new(),
        }
    }
}

// === impl SiteKey ===

impl SiteKey {
    /// Whether the site shows only the picture of the key.
    pub fn is_masked(&self) -> bool {
        self.key.expose().contains(['*', '•'])
    }
}

// === impl NoticeLevel ===

impl NoticeLevel {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}
