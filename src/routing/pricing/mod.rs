//! What models cost: the prices that sites publish, and what a request amounts to under them.
//!
//! | file | what it holds |
//! |---|---|
//! | `catalog` | the price list of one site as one account sees it; look-up by model |
//! | `price` | the price of one model, by tokens or by call |
//! | `read` | that list out of the answers of each kind of site |
//! | `bill` | tokens and prices to USD, with the parts that explain the sum |
//! | `list` | the list an account has now, for requests to read while a refresh replaces it |
//! | `usage_record` | a request's line in the site's own log: which one it is, and what it says |
//!
//! When to read a list is [`jobs::prices`](crate::jobs::prices)' matter. Amounts are estimates.

pub mod bill;
pub mod catalog;
pub mod list;
pub mod price;
pub mod read;
pub mod usage_record;

pub use bill::{Bill, BillingDetails, Tokens, bill, flat_estimate, spend};
pub use catalog::Catalog;
pub use list::PriceList;
pub use price::{Billing, CallPrice, Labels, ModelPrice, Ratios};
