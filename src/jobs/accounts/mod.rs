//! What follows a new credential, what a site's answer says of an account, and a check of all accounts.

pub mod check;
pub mod health;
pub mod rests;
pub mod setup;
