//! Builds small sites, channels and routes for the tests of this module.

use std::sync::{Arc, OnceLock};

use super::*;
use crate::ids::{AccountId, ChannelId, ChannelOrMember, MemberId, RouteId, SiteId};
use crate::money::Usd;
use crate::platform::Platform;

pub fn site(id: i64) -> Site {
    Site {
        id: SiteId::new(id),
        name: format!("site {id}"),
        url: "https://example.com".to_owned(),
        platform: Platform::OpenAi,
        active: true,
        global_weight: 1.0,
        max_concurrency: None,
        custom_headers: Vec::new(),
        endpoints: Vec::new(),
        misconfigured: None,
        health: Arc::default(),
        known_secrets: OnceLock::new(),
    }
}

pub fn account(id: i64, site: Site) -> Account {
    Account {
        id: AccountId::new(id),
        site: Arc::new(site),
        username: None,
        status: AccountStatus::Active,
        balance: Usd::new(0.0),
        unit_cost: None,
        prices: Arc::default(),
        limits: Arc::default(),
        oauth: false,
        oauth_key: None,
        oauth_project: None,
        session_scoped: false,
        refuses_websocket: false,
    }
}

/// Builds an eligible channel on a site and an account of the same id.
pub fn channel(id: i64) -> Channel {
    channel_of(id, account(id, site(id)))
}

pub fn channel_of(id: i64, account: Account) -> Channel {
    let id = ChannelId::new(id);
    Channel {
        id,
        route_id: RouteId::ZERO,
        account: Arc::new(account),
        token_id: None,
        token_name: None,
        source_model: None,
        priority: 0,
        weight: 10,
        enabled: true,
        credential: Some(Secret::from("sk-test").into()),
        live: Arc::new(ChannelLive::new(id, ChannelTotals::default())),
        unit: UnitRole::Nothing,
    }
}

/// Returns the key under which `channel(id)` is told from other channels.
pub fn key(id: i64) -> ChannelOrMember {
    ChannelId::new(id).into()
}

/// Creates a unit with a member for each of these accounts, whose turn goes round.
pub fn unit(id: i64, accounts: &[i64]) -> Channel {
    let whole = channel(id);
    let member = |(account_id, place): (&i64, i64)| {
        let live = Arc::new(ChannelLive::of_member(MemberId::new(place), ChannelTotals::default()));
        let unit = UnitRole::Member { whole: whole.live.clone() };
        Arc::new(Channel { live, unit, ..channel_of(id, account(*account_id, site(1))) })
    };
    let members = accounts.iter().zip(1..).map(member).collect();
    Channel { unit: UnitRole::Whole { strategy: UnitStrategy::RoundRobin, members }, ..whole }
}

/// Replaces the channel's counters.
pub fn with(channel: Channel, totals: ChannelTotals) -> Channel {
    Channel { live: Arc::new(ChannelLive::new(channel.id, totals)), ..channel }
}

pub fn used(success: u64, fail: u64, latency_ms: u64, cost_nano: u64) -> ChannelTotals {
    ChannelTotals { success, fail, latency_ms, cost_nano, ..ChannelTotals::default() }
}

pub fn route(id: i64, pattern: &str, channels: Vec<Channel>) -> Route {
    let id = RouteId::new(id);
    Route {
        id,
        pattern: ModelPattern::parse(pattern).unwrap(),
        display_name: None,
        mode: RouteMode::Pattern,
        mapping: Vec::new(),
        strategy: Strategy::Weighted,
        enabled: true,
        channels: channels.into_iter().map(|channel| Arc::new(Channel { route_id: id, ..channel })).collect(),
    }
}

pub fn aliased(alias: &str, route: Route) -> Route {
    Route { display_name: Some(alias.to_owned()), ..route }
}

pub fn group(id: i64, name: &str, sources: &[i64]) -> Route {
    Route {
        mode: RouteMode::ExplicitGroup { sources: sources.iter().copied().map(RouteId::new).collect() },
        ..aliased(name, route(id, name, Vec::new()))
    }
}

pub fn snapshot(routes: Vec<Route>) -> Snapshot {
    Snapshot::new(routes, Vec::new(), Weights::default())
}

pub fn pattern(text: &str) -> ModelPattern {
    ModelPattern::parse(text).unwrap()
}
