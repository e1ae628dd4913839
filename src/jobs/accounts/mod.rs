//! Follows up on new credentials of accounts, derives their health from their sites' answers, and checks all accounts.

pub mod check;
pub mod cooldowns;
pub mod health;
pub mod setup;
