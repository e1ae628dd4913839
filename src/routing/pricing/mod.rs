//! What models cost: the prices that sites publish, and the cost of a request under them.
//!
//! | file | contents |
//! |---|---|
//! | `catalog` | the price list of one site as one account gets it; look-up by model |
//! | `price` | the price of one model, by tokens or by call |
//! | `read` | parses the price list from the answers of each kind of site |
//! | `bill` | turns tokens and prices into USD, with the parts that explain the sum |
//! | `list` | the current list of an account, which requests read while a refresh replaces it |
//! | `usage_record` | finds and reads a request's entry in the site's own log |
//!
//! [`jobs::prices`](crate::jobs::prices) decides when to read a list. Amounts are estimates.

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
