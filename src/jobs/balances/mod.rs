//! The balances of accounts, the alert when one runs low, and what accounts earned in a day.

pub mod balance;
pub mod income;
pub mod low;
