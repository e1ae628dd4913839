//! The client of a stored account at its site, with a session that is renewed when it runs out.

pub mod renewal;
pub mod renewals;
pub mod sendable;
pub mod session;
pub mod site_client;
