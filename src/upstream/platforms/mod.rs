//! What each kind of upstream site wants to be asked, and how its answers are read.
//!
//! Paths, the headers that carry a credential and the shapes of answers differ by platform; the transport is
//! [`Client::fetch`](super::Client::fetch), with its limits on time, size and redirects.

mod models;
mod reply;

pub use models::{DISCOVERY_LIMITS, DiscoveryError, DiscoveryKind, list_models};
