//! The questions to a platform and the shapes of its answers, alike for all platforms.
//!
//! Amounts are US dollars, times are UTC milliseconds. What a site does not say is `None`, never a zero.

use serde::Serialize;
use serde_json::Value;

use super::error::{SiteError, SiteErrorKind};
use crate::key_mask::is_mask;
use crate::mask::Mask;
use crate::money::Usd;
use crate::routing::Secret;
use crate::time::Millis;

/// The result of a login.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoggedIn {
    /// The session to store: a token, or a whole cookie line.
    pub credential: Secret,
    pub username: Option<String>,
    pub user_id: Option<i64>,
    pub refresh_token: Option<Secret>,
    pub expires_at: Option<Millis>,
}

/// The user of a session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    pub id: Option<i64>,
    pub username: String,
    pub display_name: Option<String>,
    pub email: Option<String>,
    pub role: Option<Role>,
}

/// The role of a user at the site, as the site writes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Role {
    /// The number that the new-api family uses.
    Number(i64),
    Word(String),
}

impl User {
    /// Whether neither a number nor a name tells who the user is.
    pub(super) fn is_nobody(&self) -> bool {
        self.id.is_none() && self.username.is_empty()
    }

    /// Hides the secrets of a mask in what the site calls the user.
    pub(super) fn hide(&mut self, mask: &Mask) {
        let role = match &mut self.role {
            Some(Role::Word(word)) => Some(word),
            Some(Role::Number(_)) | None => None,
        };
        let names = [Some(&mut self.username), self.display_name.as_mut(), self.email.as_mut(), role];
        names.into_iter().flatten().for_each(|name| mask.hide_in_name(name));
    }
}

/// The kind of credential that a text is taken for until its site has answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TakenFor {
    /// An API key, since it looks like one.
    Key,
    /// A session, since that is what the operator says.
    Session,
    /// More likely a session than a key.
    Either,
}

/// The kind of credential that a text is by the answer of its site.
#[derive(Clone, Debug, PartialEq)]
pub enum Identity {
    /// A key, which reaches at least one model.
    ApiKey { models: Vec<String> },
    Session {
        user: User,
        balance: Option<Balance>,
        /// A usable key of the account that is not masked.
        api_token: Option<Secret>,
    },
}

/// A check-in that the site accepted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CheckIn {
    pub message: String,
    /// The reward, where the site tells it.
    pub reward: Option<Usd>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Balance {
    /// The amount that is left.
    pub balance: Usd,
    pub used: Usd,
    /// The sum of what is left and what is used.
    pub quota: Usd,
    pub today_income: Option<Usd>,
    pub today_quota_consumption: Option<Usd>,
    pub subscriptions: Option<SubscriptionSummary>,
}

/// The subscriptions of a sub2api account; a value is `None` where the site does not tell it.
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
    /// The key, whole where the site gives it whole; a masked one contains `*` or `•`.
    pub key: Secret,
    pub enabled: bool,
    pub group: Option<String>,
}

/// A key to be created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewSiteKey {
    pub name: String,
    /// The group of the key; blank = the account's own group.
    pub group: String,
    pub unlimited_quota: bool,
    /// The quota in the site's own units; ignored when unlimited.
    pub remain_quota: i64,
    /// When the key ends, in Unix seconds; -1 = never.
    pub expired_time: i64,
    pub allow_ips: String,
    pub model_limits_enabled: bool,
    /// Model names, joined by commas.
    pub model_limits: String,
}

/// An announcement of a site to its users.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Announcement {
    /// A key that stays the same as long as the announcement does.
    pub source_key: String,
    pub title: String,
    pub content: String,
    pub level: NoticeLevel,
    pub source_url: Option<String>,
    pub starts_at: Option<Millis>,
    pub ends_at: Option<Millis>,
    pub upstream_created_at: Option<Millis>,
    pub upstream_updated_at: Option<Millis>,
    /// The announcement as the site sent it.
    pub raw_payload: Value,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NoticeLevel {
    #[default]
    Info,
    Warning,
    Error,
}

/// A renewed session. The refresh token has been exchanged, too: the old one is no longer valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refreshed {
    pub access_token: Secret,
    pub refresh_token: Secret,
    pub expires_at: Millis,
}

/// Where to find the models of a session that is no key itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionModels {
    /// The site lists them for the session's user.
    Listed(Vec<String>),
    /// The site lists them for keys only: this is one of the user's keys.
    ByKey(Secret),
}

// === impl Balance ===

impl Balance {
    /// Returns the balance without unbelievable amounts.
    ///
    /// # Errors
    /// Fails if the balance itself, the used amount or the quota is unbelievable.
    pub(super) fn believed(self) -> Result<Self, SiteError> {
        if ![self.balance, self.used, self.quota].into_iter().all(Usd::is_believable) {
            return Err(SiteError::new(SiteErrorKind::Malformed, "the balance is not an amount of money"));
        }
        let believable = |amount: Option<Usd>| amount.filter(|amount| amount.is_believable());
        Ok(Self {
            today_income: believable(self.today_income),
            today_quota_consumption: believable(self.today_quota_consumption),
            ..self
        })
    }

    /// Hides the secrets of a mask in the names of the subscriptions.
    pub(super) fn hide(&mut self, mask: &Mask) {
        let subscriptions = self.subscriptions.iter_mut().flat_map(|summary| &mut summary.subscriptions);
        let names =
            subscriptions.flat_map(|subscription| [&mut subscription.group_name, &mut subscription.status]);
        names.flatten().for_each(|name| mask.hide_in_name(name));
    }
}

// === impl NewSiteKey ===

impl Default for NewSiteKey {
    /// Returns a key without limits, named after the product.
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

/// Whether the caller knows the value of a listed key.
pub type KnowsKey<'f> = &'f (dyn Fn(&SiteKey) -> bool + Sync);

// === impl SiteKey ===

impl SiteKey {
    /// Whether the site shows only a mask of the key.
    pub fn is_masked(&self) -> bool {
        is_mask(self.key.expose())
    }

    /// Hides the secrets of a mask in the names of the key and its group.
    pub(super) fn hide(&mut self, mask: &Mask) {
        mask.hide_in_name(&mut self.name);
        self.group.iter_mut().for_each(|group| mask.hide_in_name(group));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absurd_amounts_are_no_balance() {
        let of = |balance: f64, income: f64| Balance {
            balance: Usd::new(balance),
            today_income: Some(Usd::new(income)),
            ..Balance::default()
        };
        for absurd in [1e308, -1e308, 1e16, f64::INFINITY, f64::NAN] {
            assert!(of(absurd, 1.0).believed().is_err(), "{absurd}");
            assert_eq!(of(1.0, absurd).believed().expect("a balance").today_income, None, "{absurd}");
        }
        let plain = of(-12.5, 3.0);
        assert_eq!(plain.clone().believed().expect("a balance"), plain);
    }
}
