//! What a provider grants, or why it does not.

use std::fmt;

use serde_json::{Map, Value};

use crate::routing::Secret;
use crate::time::Millis;

/// Tokens and the identity of their account. After a renewal it has only what the provider sent; absent values stay as they
/// were.
#[derive(Clone, Debug)]
pub struct Grant {
    pub access_token: Secret,
    pub refresh_token: Option<Secret>,
    /// A JSON Web Token with claims about the account, where the provider gives one.
    pub id_token: Option<Secret>,
    /// When the access token ends.
    pub expires_at: Option<Millis>,
    pub identity: Identity,
    /// Further data that is kept with the account: `providerData`.
    pub provider_data: Map<String, Value>,
}

/// The identity of an account.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// The provider's own identifier of the account, or of the workspace that it is in.
    pub account_key: Option<String>,
    /// The account's identifier in requests, where it is another one.
    pub account_id: Option<String>,
    pub email: Option<String>,
    pub plan_type: Option<String>,
    /// The Google Cloud project that requests are made for.
    pub project_id: Option<String>,
}

/// Why there is no grant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenError {
    /// For people, without a token and without control characters.
    pub message: String,
    /// Whether the provider has revoked its grant (`invalid_grant`, RFC 6749 5.2): only another login helps.
    pub is_revoked: bool,
    /// Whether the outbound proxy could not be reached, so that nobody was asked.
    pub lacks_proxy: bool,
}

// === impl Grant ===

impl Grant {
    /// Takes over the values of a renewal; those that it lacks stay.
    pub fn renew(&mut self, renewed: Self) {
        self.access_token = renewed.access_token;
        self.refresh_token = renewed.refresh_token.or(self.refresh_token.take());
        self.id_token = renewed.id_token.or(self.id_token.take());
        self.expires_at = renewed.expires_at;
        let (new, identity) = (renewed.identity, &mut self.identity);
        identity.email = new.email.or(identity.email.take());
        identity.plan_type = new.plan_type.or(identity.plan_type.take());
        self.provider_data.extend(renewed.provider_data);
    }
}

// === impl TokenError ===

impl TokenError {
    pub(super) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), is_revoked: false, lacks_proxy: false }
    }
}

impl fmt::Display for TokenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for TokenError {}
