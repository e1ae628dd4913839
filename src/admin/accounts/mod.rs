//! Accounts: the operations on them, and how their credentials are read, verified and shown.

pub mod balance;
pub mod checks;
pub mod cooling;
pub mod create;
pub mod create_session;
pub mod created;
pub mod handlers;
pub mod input;
pub mod list_key;
pub mod login;
pub mod models;
pub mod rebind;
pub mod schema;
pub mod update;
pub mod verdict;
pub mod verify;
pub mod view;
