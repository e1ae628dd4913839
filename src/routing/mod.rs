//! Chooses the upstream channel that serves a model: the data of that decision and its rules.
//!
//! ```text
//! snapshot     all routes and sites as one immutable value; look-up by model name
//!   ├─ route     routes and their channels
//!   ├─ site      upstream sites, their addresses, our accounts there
//!   ├─ pattern   how a route, a key or a mapping rule names models
//!   └─ origin    where connections go: addresses, outbound proxies
//! live         what requests change: counters, cooldowns; atomics beside the snapshot
//! health how well sites and models have worked recently; circuit breakers
//! policy       what the calling downstream key may use
//! eligibility  why a channel may not be picked now
//! score        how good a channel is among its equals
//! pricing      what models cost at a site, and the cost of a request
//! stable       which of the sites that work best comes next; rotation: its memory of past turns
//! shortlist    the channels to choose from, and those that are avoided
//! select       picks one of the eligible channels; selection_reason: why that one
//! reserve      which cooling channels may be tried all the same
//! limit_windows  how much of its limits an account has used
//! explain      explains what a selection would pick, and why
//! affinity     which channel served a conversation last
//! pool         the order in which the addresses of a site are tried
//! failure      what an upstream's failure means: whose fault? try another channel? cool this one, until when?
//! rebuild      which routes and channels should exist, given what accounts offer
//! unit         several accounts that serve as one channel
//! brands       the maker of a model, by the model's name
//! id_map, name_map  maps whose copies share their common entries
//! ```
//!
//! The model: an operator's change makes a new [`Snapshot`], which requests read without a lock; what requests change lives
//! in atomics that every snapshot shares. Nothing here does I/O, reads a clock or draws random numbers: time and randomness
//! are arguments, so that a test can set both.

pub mod affinity;
pub mod brands;
pub mod eligibility;
pub mod explain;
pub mod failure;
#[cfg(test)]
pub(crate) mod fixture;
pub mod health;
mod id_map;
pub mod limit_windows;
pub mod live;
mod name_map;
pub mod origin;
pub mod pattern;
pub mod policy;
pub mod pool;
pub mod pricing;
pub mod rebuild;
mod reserve;
pub mod rotation;
mod rotation_pool;
pub mod route;
pub mod score;
pub mod select;
mod selection_reason;
pub mod shortlist;
pub mod site;
pub mod snapshot;
pub mod stable;
mod turn;
pub mod unit;

pub use affinity::{Affinity, Conversation};
pub use eligibility::SelectionQuery;
pub use health::{FailureWeight, SiteHealth};
pub use live::{
    ChannelDelta, ChannelLive, ChannelTotals, CooldownPhase, CountersOf, EndpointLive, EndpointState,
    LiveTable, StoredCooldown, Trial,
};
pub use origin::{BaseUrl, Origin, OutboundProxy, ProxyScheme, encode_component, path_segments};
pub use pattern::{ModelPattern, bare_name, norm};
pub use policy::{CredentialRef, Policy};
pub use rotation::Rotations;
pub use rotation_pool::Pool;
pub use route::{Channel, Route, RouteMode, Strategy, UnitRole, cooling_until, limited_until, serving};
pub use score::{Conditions, Weights};
pub use select::{ReservePick, Selection, select, select_bound};
pub use selection_reason::SelectionReason;
pub use site::{
    Account, AccountStatus, Credential, CredentialHeaders, Endpoint, Misconfiguration, Secret, Site,
    add_secrets,
};
pub use snapshot::{Changed, Match, Snapshot};
pub use unit::UnitStrategy;
