//! Usage and availability statistics, and their cache.

pub mod cache;
pub mod dashboard;
pub mod sites;
