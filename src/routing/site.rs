//! Upstream sites, their addresses, and the accounts we hold there.

use std::fmt;
use std::sync::{Arc, OnceLock};

use hyper::http::{HeaderName, HeaderValue};
use serde::Serialize;

use super::health::SiteHealth;
use super::limit_windows::LimitWindows;
use super::live::EndpointLive;
use super::origin::BaseUrl;
use super::pricing::{self, Bill, PriceList, Tokens};
use crate::ids::{AccountId, EndpointId, SiteId};
use crate::mask::Mask;
use crate::money::Usd;
use crate::platform::Platform;

/// Why no request may be sent to a site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Misconfiguration {
    /// All addresses of its pool are disabled.
    NoEndpoint,
    /// The text describes the configuration, and is not for clients.
    Other(String),
}

/// One address of a site.
#[derive(Debug)]
pub struct Endpoint {
    /// `None` for the site's own address, used when no pool is configured.
    pub id: Option<EndpointId>,
    pub base: BaseUrl,
    pub sort_order: i64,
    pub live: Arc<EndpointLive>,
}

/// An upstream AI site.
pub struct Site {
    pub id: SiteId,
    pub name: String,
    pub url: String,
    pub platform: Platform,
    pub active: bool,
    pub global_weight: f64,
    /// The most requests at once; `None` means no limit.
    pub max_concurrency: Option<u32>,
    /// Headers added to every call unless the request itself has them. Values may be credentials.
    pub custom_headers: Vec<(HeaderName, HeaderValue)>,
    /// The enabled addresses of the pool, or the site's own address alone.
    pub endpoints: Vec<Arc<Endpoint>>,
    /// Why no request may be sent to this site, for instance an outbound proxy that cannot be parsed. Its channels stay
    /// selectable and their attempts fail, rather than bypass the configuration.
    pub misconfigured: Option<Misconfiguration>,
    /// How well the site has worked recently.
    pub health: Arc<SiteHealth>,
    /// The cached value of [`Self::secrets`]; empty until first used.
    pub known_secrets: OnceLock<Mask>,
}

/// Whether an account may be used, or why not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum AccountStatus {
    #[default]
    Active,
    Disabled,
    Expired,
    /// The account was found not to work, for a reason unknown here.
    Unhealthy,
}

/// A login or API key at a site.
#[derive(Debug)]
pub struct Account {
    pub id: AccountId,
    pub site: Arc<Site>,
    pub username: Option<String>,
    pub status: AccountStatus,
    pub balance: Usd,
    pub unit_cost: Option<f64>,
    /// The site's prices for this account, as far as they are known.
    pub prices: Arc<PriceList>,
    /// How much of the account's usage limits is used.
    pub limits: Arc<LimitWindows>,
    pub oauth: bool,
    /// The account's identifier in requests to its login's provider, where it has one.
    pub oauth_key: Option<Box<str>>,
    /// The Google Cloud project for which requests are made.
    pub oauth_project: Option<Box<str>>,
    /// Whether the credential is one person's login (OAuth or a session), which is not meant for many users.
    pub session_scoped: bool,
    /// Whether the account is asked over HTTP only, never over a WebSocket.
    pub refuses_websocket: bool,
}

/// A credential in plain text. `Debug` does not print it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Arc<str>);

/// A credential with its header values, built once for all requests; clones share them.
#[derive(Clone)]
pub struct Credential(Arc<CredentialForms>);

struct CredentialForms {
    secret: Secret,
    /// `None` when the value is not valid in a header.
    headers: Option<CredentialHeaders>,
}

/// The values of `Authorization` and `x-api-key`, marked as sensitive.
#[derive(Clone)]
pub struct CredentialHeaders {
    pub bearer: HeaderValue,
    pub key: HeaderValue,
}

// === impl Misconfiguration ===

impl Misconfiguration {
    /// The message to clients about a site whose addresses are all disabled.
    pub const NO_ENDPOINT: &str = "no API endpoint available";
}

impl fmt::Display for Misconfiguration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoEndpoint => write!(f, "{}: all addresses of the site are disabled", Self::NO_ENDPOINT),
            Self::Other(problem) => f.write_str(problem),
        }
    }
}

// === impl AccountStatus ===

impl AccountStatus {
    const ALL: [Self; 4] = [Self::Active, Self::Disabled, Self::Expired, Self::Unhealthy];

    /// Returns the word for it in the database and in answers.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Disabled => "disabled",
            Self::Expired => "expired",
            Self::Unhealthy => "unhealthy",
        }
    }

    /// Parses a status in any letter case; `None` for an unknown word.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        Self::ALL.into_iter().find(|status| text.eq_ignore_ascii_case(status.as_str()))
    }
}

// === impl Account ===

impl Account {
    /// Bills the tokens of a model at the site's prices for this account; by the flat estimate where these are unknown.
    pub fn bill(&self, model: &str, tokens: Tokens) -> Bill {
        let catalog = self.prices.load();
        let price = catalog.as_ref().and_then(|catalog| catalog.price(model));
        pricing::bill(price, Some(self.site.platform), tokens)
    }
}

// === impl Secret ===

impl Secret {
    pub fn new(value: impl Into<Arc<str>>) -> Self {
        Self(value.into())
    }

    /// Returns the secret itself. A search for this name finds every use.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl From<&str> for Secret {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self(text.into())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

// === impl Credential ===

impl Credential {
    /// Returns the secret itself.
    pub fn secret(&self) -> &Secret {
        &self.0.secret
    }

    pub fn headers(&self) -> Option<&CredentialHeaders> {
        self.0.headers.as_ref()
    }
}

impl From<Secret> for Credential {
    fn from(secret: Secret) -> Self {
        let sensitive = |text: &str| {
            let mut value = HeaderValue::from_str(text).ok()?;
            value.set_sensitive(true);
            Some(value)
        };
        let headers = sensitive(&format!("Bearer {}", secret.expose()))
            .zip(sensitive(secret.expose()))
            .map(|(bearer, key)| CredentialHeaders { bearer, key });
        Self(Arc::new(CredentialForms { secret, headers }))
    }
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.secret.fmt(f)
    }
}

// === impl Site ===

impl Site {
    /// Returns the secrets that every request to this site carries. Built once: every good answer is compared with it.
    pub fn secrets(&self) -> &Mask {
        self.known_secrets.get_or_init(|| {
            let mut mask = Mask::default();
            add_secrets(&mut mask, &self.custom_headers, &self.endpoints);
            mask
        })
    }
}

/// Adds the secrets in custom headers and addresses.
pub fn add_secrets(mask: &mut Mask, headers: &[(HeaderName, HeaderValue)], endpoints: &[Arc<Endpoint>]) {
    for (name, value) in headers {
        mask.add_header(name, value);
    }
    for endpoint in endpoints {
        endpoint.base.add_secrets(mask);
    }
}

impl fmt::Debug for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let headers: Vec<_> = self.custom_headers.iter().map(|(name, _)| name).collect();
        f.debug_struct("Site")
            .field("id", &self.id)
            .field("name", &self.name)
            .field("platform", &self.platform)
            .field("active", &self.active)
            .field("custom_headers", &headers)
            .field("endpoints", &self.endpoints)
            .field("misconfigured", &self.misconfigured)
            .finish_non_exhaustive()
    }
}
