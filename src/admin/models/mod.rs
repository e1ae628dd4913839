//! Available models, their accounts and prices; discovery and probes started by hand.

pub mod candidates;
pub mod checks;
pub mod list_key;
pub mod listed_model;
pub mod marketplace;
pub mod offers;
pub mod schema;
