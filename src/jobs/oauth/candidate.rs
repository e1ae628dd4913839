//! A grant that is to become a connected account, and the account that it has become.

use std::fmt;

use serde_json::Value as Json;

use crate::ids::{AccountId, SiteId};
use crate::platform::OAuthProvider;
use crate::store::accounts::{AccountPatch, AccountRow, AccountStatus, CredentialMode, NewAccount};
use crate::store::snapshot::AccountProxy;
use crate::store::{self, Secret};
use crate::upstream::oauth::Grant;

/// A grant that is to become an account.
pub struct Candidate {
    pub provider: OAuthProvider,
    pub grant: Grant,
    /// The account that gets the grant. Without one, the account of the same owner gets it, or else a new account.
    pub rebind: Option<AccountId>,
    pub proxy: ProxyChoice,
    /// Whether the account is stored disabled: not used and not asked for models.
    pub is_disabled: bool,
    /// The number of factory resets when the request for it began: what was asked for before one is not stored after it.
    pub resets: u64,
}

/// The outbound proxy that somebody chose for an account; what is absent stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProxyChoice {
    /// `Some(None)` removes the account's proxy.
    pub proxy_url: Option<Option<Secret>>,
    pub use_system_proxy: Option<bool>,
}

/// An account that was connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Activated {
    pub account_id: AccountId,
    pub site_id: SiteId,
}

/// Why no account was connected.
#[derive(Debug)]
pub enum ActivationError {
    /// The account to connect anew is gone, or belongs to another provider.
    NoSuchAccount,
    /// The cause, in words for people.
    Failed(String),
    Store(store::Error),
}

/// Whether an account is connected with this provider.
pub fn is_of(account: &AccountRow, provider: OAuthProvider) -> bool {
    account.oauth_provider.as_deref().and_then(OAuthProvider::parse) == Some(provider)
}

// === impl Candidate ===

impl Candidate {
    fn status(&self) -> AccountStatus {
        if self.is_disabled { AccountStatus::Disabled } else { AccountStatus::Active }
    }

    fn username(&self) -> String {
        let identity = &self.grant.identity;
        let name = identity.email.clone().or_else(|| identity.account_key.clone());
        name.unwrap_or_else(|| format!("{}-user", self.provider.id()))
    }

    fn provider_data(&self) -> Option<Secret> {
        let data = &self.grant.provider_data;
        (!data.is_empty()).then(|| Secret::from(Json::Object(data.clone()).to_string()))
    }

    /// Builds a new account.
    pub(super) fn account(&self, site_id: SiteId, extra: String) -> NewAccount {
        let (grant, identity) = (&self.grant, &self.grant.identity);
        NewAccount {
            username: Some(self.username()),
            access_token: Some(grant.access_token.clone()),
            status: self.status(),
            checkin_enabled: false,
            oauth_provider: Some(self.provider.id().to_owned()),
            oauth_account_key: identity.account_key.clone(),
            oauth_project_id: identity.project_id.clone(),
            credential_mode: CredentialMode::Session,
            proxy_url: self.proxy.proxy_url.clone().flatten(),
            use_system_proxy: self.proxy.use_system_proxy.unwrap_or(false),
            refresh_token: grant.refresh_token.clone(),
            id_token: grant.id_token.clone(),
            provider_data: self.provider_data(),
            token_expires_at: grant.expires_at,
            extra: Some(extra),
            ..NewAccount::on_site(site_id)
        }
    }

    /// Builds the changes to an existing account; values that the grant does not have stay.
    pub(super) fn patch(&self) -> AccountPatch {
        let (grant, identity) = (&self.grant, &self.grant.identity);
        AccountPatch {
            username: Some(Some(self.username())),
            access_token: Some(Some(grant.access_token.clone())),
            api_token: Some(None),
            status: Some(self.status()),
            checkin_enabled: Some(false),
            oauth_provider: Some(Some(self.provider.id().to_owned())),
            oauth_account_key: identity.account_key.clone().map(Some),
            oauth_project_id: identity.project_id.clone().map(Some),
            credential_mode: Some(CredentialMode::Session),
            proxy_url: self.proxy.proxy_url.clone(),
            use_system_proxy: self.proxy.use_system_proxy,
            refresh_token: grant.refresh_token.clone().map(Some),
            id_token: grant.id_token.clone().map(Some),
            provider_data: self.provider_data().map(Some),
            token_expires_at: Some(grant.expires_at),
            ..AccountPatch::default()
        }
    }
}

// === impl ProxyChoice ===

impl ProxyChoice {
    /// Returns the account's proxy settings: the chosen proxy, and the former account's settings where nothing was chosen.
    pub fn account_proxy<'a>(&'a self, former: Option<&'a AccountRow>) -> AccountProxy<'a> {
        let before = former.map(AccountProxy::of).unwrap_or_default();
        AccountProxy {
            proxy_url: match &self.proxy_url {
                Some(chosen) => chosen.as_ref(),
                None => before.proxy_url,
            },
            use_system_proxy: self.use_system_proxy.unwrap_or(before.use_system_proxy),
        }
    }
}

// === impl ActivationError ===

impl From<store::Error> for ActivationError {
    fn from(error: store::Error) -> Self {
        Self::Store(error)
    }
}

impl fmt::Display for ActivationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSuchAccount => f.write_str("oauth account not found"),
            Self::Failed(message) => f.write_str(message),
            Self::Store(_) => f.write_str("the account could not be stored"),
        }
    }
}
