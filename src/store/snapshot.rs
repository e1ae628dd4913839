//! Builds the snapshot that requests read from stored rows: opened credentials, parsed addresses, and the
//! outbound proxy of each connection.
//!
//! A stored value that cannot be used never changes where a request goes. An unreadable proxy or address makes
//! its site misconfigured: attempts on its channels fail and state the reason.

mod source;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock};

use hyper::http::{HeaderName, HeaderValue};
use serde::de::{Deserializer, MapAccess, Visitor};

use super::accounts::{AccountRow, CredentialMode};
use super::connections;
use super::route_units::{MemberRow, UnitRow};
use super::routes::{ChannelRow, RouteRow};
use super::sites::{EndpointRow, SiteRow, SiteStatus};
use super::tokens::TokenRow;
use super::{Result, Secret};
use crate::dialect::json;
use crate::ids::{AccountId, RouteId, SiteId, TokenId};
use crate::platform::{OAuthProvider, Platform};
use crate::routing::{
    Account, BaseUrl, Channel, Credential, Endpoint, EndpointLive, EndpointState, LiveTable,
    Misconfiguration, ModelPattern, OutboundProxy, Route, RouteMode, Site, UnitRole,
};
use crate::site_url::without_user_info;
use crate::sync::lock;
pub use source::Source;

/// Builds a site for calls of one of its accounts, which go through the account's outbound proxy when it has
/// one.
pub fn site_of_account(
    site: &SiteRow,
    account: &AccountRow,
    live: &LiveTable,
    system_proxy_url: Option<&str>,
) -> Site {
    let builder = Builder::new(live, system_proxy_url);
    let proxy = builder.proxy_of_account(account).unwrap_or_else(|| builder.proxy_of_site(site));
    builder.site(site, proxy)
}

/// Builds an account's site with the address of its management calls: the site's own address, never one of its
/// pool, and without the path of the model API. The error is for people.
pub fn management_of_account(
    site: &SiteRow,
    account: &AccountRow,
    live: &LiveTable,
    system_proxy_url: Option<&str>,
) -> Result<(Site, BaseUrl), String> {
    let builder = Builder::new(live, system_proxy_url);
    let proxy = builder.proxy_of_account(account).unwrap_or_else(|| builder.proxy_of_site(site));
    builder.management(site, proxy)
}

/// Builds a site and its management address like [`management_of_account`], for calls that do not belong to an
/// account yet.
pub fn management_of_site(
    site: &SiteRow,
    live: &LiveTable,
    system_proxy_url: Option<&str>,
) -> Result<(Site, BaseUrl), String> {
    let builder = Builder::new(live, system_proxy_url);
    builder.management(site, builder.proxy_of_site(site))
}

/// Builds a site like [`site_of_account`], for an account that is not stored with these proxy settings.
pub fn site_through(
    site: &SiteRow,
    way: &AccountProxy<'_>,
    live: &LiveTable,
    system_proxy_url: Option<&str>,
) -> Site {
    let builder = Builder::new(live, system_proxy_url);
    let proxy = builder.proxy_through(way).unwrap_or_else(|| builder.proxy_of_site(site));
    builder.site(site, proxy)
}

/// An account's settings for the route of its connections.
#[derive(Clone, Copy, Default)]
pub struct AccountProxy<'a> {
    pub proxy_url: Option<&'a Secret>,
    pub use_system_proxy: bool,
}

impl<'a> AccountProxy<'a> {
    /// Returns the settings of a stored account.
    pub fn of(account: &'a AccountRow) -> Self {
        Self { proxy_url: account.proxy_url.as_ref(), use_system_proxy: account.use_system_proxy }
    }
}

/// The route of outgoing connections: direct, through a proxy, or blocked for the reason given.
type Outbound = Result<Option<Arc<OutboundProxy>>, String>;

struct Builder<'a> {
    live: &'a LiveTable,
    system_proxy: Outbound,
    credentials: Mutex<Credentials>,
}

/// The credentials of accounts and of their tokens, by account id and token id.
type Credentials = HashMap<(AccountId, Option<TokenId>), Option<Credential>>;

impl<'a> Builder<'a> {
    fn new(live: &'a LiveTable, system_proxy_url: Option<&str>) -> Self {
        let system_proxy = parse_proxy("the system proxy", system_proxy_url.unwrap_or_default());
        Self { live, system_proxy, credentials: Mutex::default() }
    }

    /// Returns the site's own proxy, or the system proxy when the site asks for it.
    fn proxy_of_site(&self, site: &SiteRow) -> Outbound {
        match &site.proxy_url {
            Some(url) => parse_proxy("the site's proxy", url.expose()),
            None if site.use_system_proxy => self.system_proxy.clone(),
            None => Ok(None),
        }
    }

    /// Returns the account's choice of proxy, which overrides its site's; `None` when it makes none.
    fn proxy_of_account(&self, account: &AccountRow) -> Option<Outbound> {
        self.proxy_through(&AccountProxy::of(account))
    }

    fn proxy_through(&self, way: &AccountProxy<'_>) -> Option<Outbound> {
        match way.proxy_url {
            Some(url) => Some(parse_proxy("the account's proxy", url.expose())),
            None if way.use_system_proxy => {
                // Without a system proxy the flag has no effect.
                Some(self.system_proxy.clone()).filter(|proxy| !matches!(proxy, Ok(None)))
            }
            None => None,
        }
    }

    fn management(&self, row: &SiteRow, proxy: Outbound) -> Result<(Site, BaseUrl), String> {
        let proxy = proxy?;
        let site = self.site(row, Ok(proxy.clone()));
        let base = BaseUrl::parse(&row.url, proxy)?.without(site.platform.profile().data_paths);
        match site.misconfigured {
            Some(problem) => Err(problem.to_string()),
            None => Ok((site, base)),
        }
    }

    fn site(&self, row: &SiteRow, proxy: Outbound) -> Site {
        let mut misconfigured = None;
        let proxy = proxy.unwrap_or_else(|problem| {
            misconfigured = Some(Misconfiguration::Other(problem));
            None
        });
        let platform = Platform::parse(&row.platform).unwrap_or_else(|| {
            let problem = format!("the platform {:?} is unknown to this release", row.platform);
            misconfigured = Some(Misconfiguration::Other(problem));
            Platform::OpenAi
        });
        let endpoints = self.endpoints(row, proxy.as_ref()).unwrap_or_else(|problem| {
            misconfigured = Some(problem);
            Vec::new()
        });
        if let Some(problem) = &misconfigured {
            log::warn!(
                "site {} ({}) is not used until its configuration is corrected: {problem}",
                row.id,
                row.name
            );
        }
        Site {
            id: row.id,
            name: row.name.clone(),
            url: row.url.clone(),
            platform,
            active: row.status == SiteStatus::Active,
            global_weight: row.global_weight,
            max_concurrency: row.max_concurrency.and_then(|limit| u32::try_from(limit).ok()),
            custom_headers: row.custom_headers.as_ref().map(|text| headers(row.id, text)).unwrap_or_default(),
            endpoints,
            misconfigured,
            health: self.live.site(row.id),
            known_secrets: OnceLock::new(),
        }
    }

    /// Builds the enabled addresses of the site's pool, or the site's own address when it has no pool.
    fn endpoints(
        &self,
        site: &SiteRow,
        proxy: Option<&Arc<OutboundProxy>>,
    ) -> Result<Vec<Arc<Endpoint>>, Misconfiguration> {
        let endpoint = |id, url: &str, sort_order, live| {
            let base = BaseUrl::parse(url, proxy.cloned()).map_err(|problem| {
                let shown = without_user_info(url).unwrap_or_else(|| url.to_owned());
                Misconfiguration::Other(format!("{shown}: {problem}"))
            })?;
            Ok(Arc::new(Endpoint { id, base, sort_order, live }))
        };
        if site.endpoints.is_empty() {
            let addresses = addresses_instead(site);
            let own = |(at, url): (i64, &str)| {
                let live = Arc::new(EndpointLive::new(None, EndpointState::default()));
                endpoint(None, url, at, live)
            };
            return match addresses {
                [] => Ok(vec![own((0, &site.url))?]),
                _ => (0..).zip(addresses.iter().copied()).map(own).collect(),
            };
        }
        let enabled: Vec<&EndpointRow> = site.endpoints.iter().filter(|row| row.enabled).collect();
        if enabled.is_empty() {
            return Err(Misconfiguration::NoEndpoint);
        }
        enabled
            .into_iter()
            .map(|row| {
                let live = self.live.endpoint(row.id, || EndpointState {
                    cooldown_until: row.cooldown_until,
                    last_selected: row.last_selected_at,
                    last_failed: row.last_failed_at,
                    last_failure_reason: row.last_failure_reason.clone(),
                    ..EndpointState::default()
                });
                endpoint(Some(row.id), &row.url, row.sort_order, live)
            })
            .collect()
    }

    /// Builds an account. An account with its own outbound proxy gets a copy of its site with that proxy, which
    /// shares the health of the pool; only for such an account is the site's row needed.
    fn account(&self, row: &AccountRow, site: &Arc<Site>, site_row: Option<&SiteRow>) -> Account {
        let site = match self.proxy_of_account(row).zip(site_row) {
            Some((proxy, site_row)) => Arc::new(self.site(site_row, proxy)),
            None => Arc::clone(site),
        };
        Account {
            id: row.id,
            site,
            username: row.username.clone(),
            status: row.status,
            balance: row.balance,
            unit_cost: row.unit_cost,
            prices: self.live.prices(row.id),
            limits: self.live.limits(row.id),
            oauth: row.oauth_provider.is_some(),
            oauth_key: non_blank(connections::account_id(row).as_deref()),
            oauth_project: non_blank(row.oauth_project_id.as_deref()),
            session_scoped: row.oauth_provider.is_some() || row.credential_mode == CredentialMode::Session,
            refuses_websocket: row.extra.as_deref().is_some_and(refuses_websocket),
        }
    }

    /// Returns the account's own credential. It is created once for all channels that use it: an account has a
    /// channel for each of its models.
    fn own_credential(&self, account: &AccountRow) -> Option<Credential> {
        let made = || own_credential(account).map(Into::into);
        lock(&self.credentials).entry((account.id, None)).or_insert_with(made).clone()
    }

    /// Returns the credential of one of the account's tokens; `None` when the token is gone or not usable.
    fn token_credential(
        &self,
        account: AccountId,
        id: TokenId,
        token: Option<&TokenRow>,
    ) -> Option<Credential> {
        let made = || token_credential(token).map(Into::into);
        lock(&self.credentials).entry((account, Some(id))).or_insert_with(made).clone()
    }

    /// Builds a channel; `own` is the account's own credential.
    fn channel(
        &self,
        row: &ChannelRow,
        account: &Arc<Account>,
        own: Option<Credential>,
        token: Option<&TokenRow>,
    ) -> Channel {
        // A site must not receive a secret of another site's account, whatever was stored.
        let token = token.filter(|token| token.account_id == account.id);
        let credential = match row.token_id {
            Some(id) => self.token_credential(account.id, id, token),
            None => own,
        };
        Channel {
            id: row.id,
            route_id: row.route_id,
            account: Arc::clone(account),
            token_id: row.token_id,
            token_name: token.map(|token| token.name.clone()),
            source_model: row.source_model.as_deref().map(ModelPattern::stored),
            priority: row.priority,
            weight: row.weight.max(0),
            enabled: row.enabled,
            credential,
            live: self.live.channel(row.id, || row.stats.totals()),
            unit: UnitRole::Nothing,
        }
    }

    /// Builds the channel that stands for a unit, with the members that have its model, or with all members
    /// when none is known to have it.
    fn whole(
        &self,
        channel: Channel,
        unit: &UnitRow,
        members: &[(Option<Credential>, &Arc<Account>)],
        models: &HashMap<AccountId, Vec<String>>,
    ) -> Channel {
        let (whole, enabled) = (channel.live.clone(), channel.enabled && unit.enabled);
        let has_model = |row: &MemberRow| {
            let source = channel.source_model.as_ref();
            let own = models.get(&row.account_id).map_or(&[][..], Vec::as_slice);
            source.is_none_or(|source| own.iter().any(|model| source.matches(model.trim())))
        };
        let is_known = unit.members.iter().any(has_model);
        let member = |row: &MemberRow| {
            if is_known && !has_model(row) {
                return None;
            }
            let (credential, account) = members.iter().find(|(_, account)| account.id == row.account_id)?;
            Some(Arc::new(Channel {
                account: Arc::clone(account),
                token_name: None,
                source_model: channel.source_model.clone(),
                credential: credential.clone(),
                enabled,
                live: self.live.member(row.id, || row.stats.totals()),
                unit: UnitRole::Member { whole: whole.clone() },
                ..channel.clone()
            }))
        };
        let members = unit.members.iter().filter_map(member).collect();
        Channel { enabled, unit: UnitRole::Whole { strategy: unit.strategy, members }, ..channel }
    }
}

/// The member of an account's `extra` that switches WebSockets off.
const WEBSOCKETS: &str = "websockets";

/// Whether an account's `extra` switches WebSockets off.
fn refuses_websocket(extra: &str) -> bool {
    extra.contains(WEBSOCKETS) && json::member(extra, WEBSOCKETS) == Some("false")
}

/// Returns the addresses to which the vendor wants requests sent, for a site with the vendor's own address.
fn addresses_instead(site: &SiteRow) -> &'static [&'static str] {
    let mut providers = OAuthProvider::ALL.into_iter().map(OAuthProvider::profile);
    let platform = Platform::parse(&site.platform);
    let is_vendors = providers.any(|provider| {
        Some(provider.platform) == platform && site.url.trim_end_matches('/') == provider.site_url
    });
    let code_assist = platform.and_then(|platform| platform.profile().code_assist.as_ref());
    code_assist.filter(|_| is_vendors).map_or(&[], |code_assist| code_assist.addresses)
}

/// Returns a trimmed text, or `None` when it is blank.
fn non_blank(text: Option<&str>) -> Option<Box<str>> {
    text.map(str::trim).filter(|text| !text.is_empty()).map(Into::into)
}

/// Returns the credential that a channel sends upstream: that of its token if it has one, else an OAuth
/// account's access token (never a stale API key), else the account's API key.
pub fn credential(
    token_id: Option<TokenId>,
    account: &AccountRow,
    token: Option<&TokenRow>,
) -> Option<Secret> {
    let own_token = token.filter(|token| token.account_id == account.id);
    if token_id.is_some() { token_credential(own_token) } else { own_credential(account) }
}

fn own_credential(account: &AccountRow) -> Option<Secret> {
    let own = if account.oauth_provider.is_some() { &account.access_token } else { &account.api_token };
    own.as_ref().filter(|secret| !secret.expose().trim().is_empty()).cloned()
}

fn token_credential(token: Option<&TokenRow>) -> Option<Secret> {
    let presented = token.filter(|token| token.is_usable())?.token.as_ref();
    presented.filter(|secret| !secret.expose().trim().is_empty()).cloned()
}

fn build_route(row: &RouteRow, channels: Vec<Arc<Channel>>) -> Route {
    Route {
        id: row.id,
        pattern: ModelPattern::stored(&row.model_pattern),
        display_name: row.display_name.clone(),
        mode: if row.is_group() {
            RouteMode::ExplicitGroup { sources: row.source_route_ids.clone() }
        } else {
            RouteMode::Pattern
        },
        mapping: row.model_mapping.as_deref().map(|text| mapping(row.id, text)).unwrap_or_default(),
        strategy: row.routing_strategy,
        enabled: row.enabled,
        channels,
    }
}

/// Parses a proxy address; a blank one means no proxy. The error names whose proxy it is, never the address,
/// which may contain a password.
fn parse_proxy(whose: &str, url: &str) -> Outbound {
    match url.trim() {
        "" => Ok(None),
        url => match OutboundProxy::parse(url) {
            Ok(proxy) => Ok(Some(Arc::new(proxy))),
            Err(problem) => Err(format!("{whose} is invalid: {problem}")),
        },
    }
}

fn headers(site: SiteId, text: &Secret) -> Vec<(HeaderName, HeaderValue)> {
    let Ok(pairs) = ordered_pairs(text.expose()) else {
        log::warn!(
            "the custom headers of site {site} are not a JSON object whose values are strings, and are not \
             sent"
        );
        return Vec::new();
    };
    pairs
        .into_iter()
        .filter_map(|(name, value)| match (name.parse::<HeaderName>(), value.parse::<HeaderValue>()) {
            (Ok(name), Ok(mut value)) => {
                value.set_sensitive(true);
                Some((name, value))
            }
            _ => {
                log::warn!("custom header {name:?} of site {site} is not valid in HTTP and is not sent");
                None
            }
        })
        .collect()
}

fn mapping(route: RouteId, text: &str) -> Vec<(ModelPattern, String)> {
    match ordered_pairs(text) {
        Ok(pairs) => pairs.into_iter().map(|(from, to)| (ModelPattern::stored(&from), to)).collect(),
        Err(error) => {
            log::warn!("the model mapping of route {route} is ignored: {error}");
            Vec::new()
        }
    }
}

/// Parses a JSON object of strings in its written order, because the order of a mapping matters.
fn ordered_pairs(text: &str) -> serde_json::Result<Vec<(String, String)>> {
    struct Pairs;
    impl<'de> Visitor<'de> for Pairs {
        type Value = Vec<(String, String)>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object of strings")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut pairs = Vec::new();
            while let Some(pair) = map.next_entry()? {
                pairs.push(pair);
            }
            Ok(pairs)
        }
    }
    let mut reader = serde_json::Deserializer::from_str(text);
    let pairs = reader.deserialize_map(Pairs)?;
    reader.end().map(|()| pairs)
}
