//! Who calls `/v1`: the first non-empty source of a token wins, and only that one is
//! looked at.
//!
//! ```text
//! Authorization (Bearer optional) → x-api-key → x-goog-api-key → ?key=
//! ```
//!
//! Managed keys are looked up before the global token, by the HMAC of the presented token; where there are no
//! managed keys none is computed.

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::{Arc, LazyLock};

use hyper::HeaderMap;
use hyper::header::{AUTHORIZATION, HeaderValue};
use subtle::ConstantTimeEq;

use crate::core::Core;
use crate::http::bearer::{self, LastToken};
use crate::http::{Query, Request, address, origin};
use crate::ids::{ChannelId, KeyId};
use crate::keys::{Key, KeyRejection};
use crate::limits::{BodyOwner, IdentityWindows, RateLimiter};
use crate::routing::Policy;
use crate::time::now_ms;

use super::query;

/// The policy of the global token, which permits everything.
static UNRESTRICTED: LazyLock<Policy> = LazyLock::new(Policy::default);

/// A caller that was let in.
pub struct Caller {
    /// The managed key, `None` for the global token.
    pub key: Option<Arc<Key>>,
    /// The only channel that may answer, where an operator tries one.
    pub forced_channel: Option<ChannelId>,
}

/// Why a caller was turned away.
#[derive(Debug, PartialEq, Eq)]
pub enum AuthRefusal {
    Missing,
    Invalid,
    /// The built-in token, from a peer that is not this machine.
    Placeholder,
    /// The built-in token, for a web page or by a name that is not this machine's.
    PlaceholderElsewhere,
    /// A managed key that may not be used now.
    Rejected(KeyRejection),
}

impl Caller {
    /// Returns the policy that says what this caller may use.
    pub fn policy(&self) -> &Policy {
        self.key.as_ref().map_or_else(|| &*UNRESTRICTED, |key| &key.policy)
    }

    pub fn key_id(&self) -> Option<KeyId> {
        self.key.as_ref().map(|key| key.id)
    }

    /// Returns the owner under which this caller shares the memory for bodies.
    pub fn body_owner(&self) -> BodyOwner {
        self.key_id().map_or(BodyOwner::ProxyToken, BodyOwner::Key)
    }

    /// Returns the windows in which rate limits count this caller.
    pub fn rates<'a>(&'a self, limiter: &'a RateLimiter) -> &'a Arc<IdentityWindows> {
        self.key.as_ref().map_or(&limiter.global, |key| &key.live.rates)
    }
}

impl AuthRefusal {
    pub fn status(&self) -> u16 {
        if *self == Self::Missing { 401 } else { 403 }
    }

    pub fn code(&self) -> &'static str {
        match self {
            Self::Missing => "missing_api_key",
            Self::Invalid | Self::Placeholder | Self::PlaceholderElsewhere => "invalid_api_key",
            Self::Rejected(KeyRejection::Disabled) => "key_disabled",
            Self::Rejected(KeyRejection::Expired) => "key_expired",
            Self::Rejected(KeyRejection::Address(_)) => "key_address_not_allowed",
            Self::Rejected(KeyRejection::OverCost) => "key_over_cost",
            Self::Rejected(KeyRejection::OverRequests) => "key_over_requests",
        }
    }

    pub fn message(&self) -> Cow<'static, str> {
        let fixed = match self {
            Self::Rejected(KeyRejection::Address(client)) => {
                return format!("This API key may not be used from the address {client}").into();
            }
            Self::Missing => "Missing API key: send Authorization, x-api-key, x-goog-api-key or ?key=",
            Self::Invalid => "Invalid API key",
            Self::Rejected(KeyRejection::Disabled) => "This API key is disabled",
            Self::Rejected(KeyRejection::Expired) => "This API key has expired",
            Self::Rejected(KeyRejection::OverCost) => "This API key has used up its cost limit",
            Self::Rejected(KeyRejection::OverRequests) => "This API key has used up its request limit",
            Self::Placeholder => {
                "The built-in proxy token is accepted from this machine only: set PROXY_TOKEN to a secret \
                 of your own and restart"
            }
            Self::PlaceholderElsewhere => {
                "The built-in proxy token is public, so it is accepted only if Host and Origin name this \
                 machine; those of this request do not: set PROXY_TOKEN to a secret of your own and restart"
            }
        };
        fixed.into()
    }
}

/// Where a request presents its token, and where it came from.
pub struct PresentedToken<'a> {
    pub headers: &'a HeaderMap,
    pub query: &'a Query,
    /// Whether both the socket's peer and the client are this machine.
    pub local: bool,
    pub client_ip: IpAddr,
    pub last_token: &'a LastToken,
}

impl<'a> From<&'a Request> for PresentedToken<'a> {
    fn from(request: &'a Request) -> Self {
        Self {
            headers: &request.headers,
            query: &request.query,
            local: address::is_local(request.peer.ip(), request.client_ip),
            client_ip: request.client_ip,
            last_token: &request.last_token,
        }
    }
}

/// Identifies the caller, and refuses a key that has used up its totals.
pub fn authenticate(core: &Core, shown: &PresentedToken<'_>) -> Result<Caller, AuthRefusal> {
    let caller = identify(core, shown)?;
    if let Some(key) = &caller.key {
        key.check_totals().map_err(AuthRefusal::Rejected)?;
    }
    Ok(caller)
}

/// Identifies the caller, even one whose key has used up its totals.
pub fn identify(core: &Core, shown: &PresentedToken<'_>) -> Result<Caller, AuthRefusal> {
    let from_query;
    let token = match token_in_headers(shown.headers) {
        Some(token) => token,
        None => {
            from_query = shown.query.get("key").unwrap_or_default();
            from_query.trim().as_bytes()
        }
    };
    if token.is_empty() {
        return Err(AuthRefusal::Missing);
    }
    let keys = core.keys.load();
    if !keys.is_empty()
        && let Some(key) =
            keys.find(&shown.last_token.digest(token, |token| core.store.sealer().digest(token)))
    {
        key.check(now_ms(), shown.client_ip).map_err(AuthRefusal::Rejected)?;
        return Ok(Caller { key: Some(key.clone()), forced_channel: None });
    }
    let settings = core.settings.load();
    let known = settings.proxy_token.as_bytes();
    if known.is_empty() || !bool::from(token.ct_eq(known)) {
        return Err(AuthRefusal::Invalid);
    }
    if settings.uses_placeholder_proxy_token() {
        if !shown.local {
            return Err(AuthRefusal::Placeholder);
        }
        if !origin::is_of_this_machine(shown.headers) {
            return Err(AuthRefusal::PlaceholderElsewhere);
        }
    }
    Ok(Caller { key: None, forced_channel: None })
}

/// Returns the caller's token as it stands in its header or in the query, to hide it in reports. A header's value is shared,
/// not copied.
pub(super) fn presented(headers: &HeaderMap, query: &str) -> Option<HeaderValue> {
    let header = sources(headers).find(|(_, token)| !token.is_empty()).map(|(value, _)| value.clone());
    header.or_else(|| HeaderValue::from_str(&query::key(query)?).ok())
}

fn token_in_headers(headers: &HeaderMap) -> Option<&[u8]> {
    sources(headers).map(|(_, token)| token).find(|token| !token.is_empty())
}

/// Returns the headers that may hold a token, with the token in each, in the order in which they count.
fn sources(headers: &HeaderMap) -> impl Iterator<Item = (&HeaderValue, &[u8])> {
    let bearer = headers.get(AUTHORIZATION).map(|value| (value, bearer::token(value.as_bytes())));
    let keys = ["x-api-key", "x-goog-api-key"].into_iter().filter_map(|name| headers.get(name));
    bearer.into_iter().chain(keys.map(|value| (value, value.as_bytes().trim_ascii())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_non_empty_source_is_the_only_one_looked_at() {
        for (authorization, api_key, expected) in [
            (Some("Bearer a"), Some("b"), Some("a")),
            (Some("bearer   a "), None, Some("a")),
            (Some("a"), None, Some("a")),
            (Some("Bearer "), Some("b"), Some("b")),
            (Some("bearerish"), None, Some("bearerish")),
            (None, Some(" b "), Some("b")),
            (None, None, None),
        ] {
            let mut headers = HeaderMap::new();
            if let Some(value) = authorization {
                headers.insert(AUTHORIZATION, value.parse().unwrap());
            }
            if let Some(value) = api_key {
                headers.insert("x-api-key", value.parse().unwrap());
            }
            let found = token_in_headers(&headers).map(|token| std::str::from_utf8(token).unwrap());
            assert_eq!(found, expected, "{authorization:?} {api_key:?}");
            let shown = presented(&headers, "key=of-the-query");
            let of_header =
                [authorization, api_key].into_iter().flatten().find(|value| value.trim() != "Bearer");
            assert_eq!(shown.unwrap(), of_header.unwrap_or("of-the-query"), "{authorization:?} {api_key:?}");
        }
    }
}
