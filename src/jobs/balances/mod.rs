//! What accounts have left, the alert when it runs low, and what they earned in a day.

pub mod balance;
pub mod income;
pub mod low;
