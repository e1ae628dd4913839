//! Upstream sites, their addresses, and the accounts we hold there.

use std::fmt;
use std::sync::{Arc, OnceLock};

use hyper::http::{HeaderName, HeaderValue};

use super::health::SiteHealth;
use super::limit_windows::LimitWindows;
use super::live::EndpointLive;
use super::origin::BaseUrl;
use super::pricing::PriceList;
use crate::ids::{AccountId, EndpointId, SiteId};
use crate::mask::Mask;
use crate::money::Usd;
use crate::platform::Platform;

/// One address of a site.
#[derive(Debug)]
pub struct Endpoint {
    /// None: the site's own address, used when no pool is configured.
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
    /// None: unlimited.
    pub max_concurrency: Option<u32>,
    /// Added to every call; a header of the request itself wins. Values may be credentials.
    pub custom_headers: Vec<(HeaderName, HeaderValue)>,
    /// The enabled part of the pool, or the site's own address alone.
    pub endpoints: Vec<Arc<Endpoint>>,
    /// Why no request may leave for this site, for instance an outbound proxy that cannot be read:
    /// its channels stay selectable and their attempts fail, rather than go another way than configured.
    pub misconfigured: Option<String>,
    /// How well it has worked recently.
    pub health: Arc<SiteHealth>,
    /// See [`Self::secrets`]; empty until they are asked for.
    pub known_secrets: OnceLock<Mask>,
}

/// Whether an account may be used, and what stands in the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccountStatus {
    Active,
    Disabled,
    Expired,
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
    /// The prices of the site for this account, as far as they are known.
    pub prices: Arc<PriceList>,
    /// How much of its limits is used.
    pub limits: Arc<LimitWindows>,
    pub oauth: bool,
    /// Its identifier at the provider of its login, where that has one.
    pub oauth_key: Option<Box<str>>,
    /// The Google Cloud project that its requests are made for.
    pub oauth_project: Option<Box<str>>,
    /// Its credential is one person's login, which is not meant for a crowd: OAuth, or a session.
    pub session_scoped: bool,
    /// It is asked by HTTP alone.
    pub refuses_websocket: bool,
}

/// A credential in the clear. It shows itself only to those who ask for it by name.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Arc<str>);

/// A credential in the forms that requests carry it in, made once for all requests; clones share them.
#[derive(Clone)]
pub struct Credential(Arc<CredentialForms>);

struct CredentialForms {
    secret: Secret,
    /// `None` when the value cannot stand in a header.
    headers: Option<CredentialHeaders>,
}

/// The values of `Authorization` and `x-api-key`, marked as sensitive.
#[derive(Clone)]
pub struct CredentialHeaders {
    pub bearer: HeaderValue,
    pub key: HeaderValue,
}

// === impl Secret ===

impl Secret {
    pub fn new(value: impl Into<Arc<str>>) -> Self {
        Self(value.into())
    }

    /// The secret itself. Every use of it is found by this name.
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
    /// The secret itself.
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
    /// What every request to it carries that is secret. Made once: every good answer is compared with it.
    pub fn secrets(&self) -> &Mask {
        self.known_secrets.get_or_init(|| {
            let mut mask = Mask::default();
            add_secrets(&mut mask, &self.custom_headers, &self.endpoints);
            mask
        })
    }
}

/// Adds what custom headers and addresses have of secrets.
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
