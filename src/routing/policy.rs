//! What a downstream key may use. The default restricts nothing: it is the policy of the global key.

use std::collections::HashMap;

use super::pattern::ModelPattern;
use super::route::Channel;
use crate::ids::{AccountId, RouteId, SiteId, TokenId};

/// The restrictions of a downstream key, as routing sees them.
#[derive(Clone, Debug, Default)]
pub struct Policy {
    /// Whether this is a managed key. With `supported_models` and `allowed_route_ids` both empty, a managed key may use
    /// nothing, the global key everything.
    pub managed: bool,
    pub supported_models: Vec<ModelPattern>,
    pub allowed_route_ids: Vec<RouteId>,
    /// Weight factors by site id, each greater than 0.
    pub site_weight_multipliers: HashMap<SiteId, f64>,
    pub excluded_site_ids: Vec<SiteId>,
    pub excluded_credentials: Vec<CredentialRef>,
}

/// A credential that a downstream key must not use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CredentialRef {
    AccountToken {
        account_id: AccountId,
        token_id: TokenId,
    },
    /// The account's own API key, used by its channels without a token.
    DefaultApiKey {
        account_id: AccountId,
    },
}

// === impl Policy ===

impl Policy {
    /// Returns whether this key's model patterns match the model.
    pub fn supports(&self, model: &str) -> bool {
        self.supported_models.iter().any(|pattern| pattern.matches(model))
    }

    /// Returns whether a channel whose model is spelled `source` may serve a request for `model`, of which both are
    /// spellings. What stands before the last `/` is the client's choice: `gpt-4o*` also matches `gpt-4o/gpt-5-pro`, and
    /// must not permit `gpt-5-pro`.
    pub(super) fn permits_spelling(&self, model: &str, source: &str) -> bool {
        let mut matching = self.supported_models.iter().filter(|pattern| pattern.matches(model)).peekable();
        !model.contains('/')
            || matching.peek().is_none()
            || matching.any(|pattern| pattern.as_str().contains('/'))
            || self.supports(source)
    }

    /// Returns the only routes that a look-up of this model may use; `None` when it may use all.
    pub(super) fn routes_for(&self, model: &str) -> Option<&[RouteId]> {
        (!self.allowed_route_ids.is_empty() && !self.supports(model))
            .then_some(self.allowed_route_ids.as_slice())
    }

    /// Returns whether the key may ask for some models only.
    pub fn restricts_models(&self) -> bool {
        let is_for_all = self.supported_models.iter().any(|pattern| pattern.as_str() == "*");
        !is_for_all && (self.managed || !self.lists_nothing())
    }

    pub(super) fn lists_nothing(&self) -> bool {
        self.supported_models.is_empty() && self.allowed_route_ids.is_empty()
    }

    pub(super) fn excludes_site(&self, site_id: SiteId) -> bool {
        self.excluded_site_ids.contains(&site_id)
    }

    /// Returns whether the key may use some channel of the site, judging by its lists.
    pub fn may_reach_site(&self, site_id: SiteId) -> bool {
        let uses_nothing = self.managed && self.lists_nothing();
        !uses_nothing && !self.excludes_site(site_id)
    }

    pub(super) fn excludes_credential(&self, channel: &Channel) -> bool {
        self.excluded_credentials.iter().any(|excluded| match (*excluded, channel.token_id) {
            (CredentialRef::AccountToken { account_id, token_id }, Some(used)) => {
                channel.account.id == account_id && used == token_id
            }
            // Without a token, a channel uses the access token of an OAuth account, or else the account's API key.
            (CredentialRef::DefaultApiKey { account_id }, None) => {
                channel.account.id == account_id && !channel.account.oauth
            }
            _ => false,
        })
    }

    /// Returns the key's weight factor for a site; 1 unless a positive one is set.
    pub(super) fn site_multiplier(&self, site_id: SiteId) -> f64 {
        positive_or_one(self.site_weight_multipliers.get(&site_id).copied().unwrap_or(1.0))
    }
}

pub(super) fn positive_or_one(weight: f64) -> f64 {
    if weight > 0.0 && weight.is_finite() { weight } else { 1.0 }
}
