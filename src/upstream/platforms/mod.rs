//! What each kind of upstream site wants to be asked, and how its answers are read.
//!
//! Paths, the headers that carry a credential and the shapes of answers differ by platform; the transport is
//! [`Client::fetch`](super::Client::fetch), with its limits on time, size and redirects.
//!
//! | file | asks |
//! |---|---|
//! | `models` | which models a credential may use |
//! | `prices` | what an account is charged |
//! | `usage_log` | for the latest lines of an account's own log |
//! | `visitor` | as an account: the credentials and headers of management calls |
//! | `reply` | nothing: what failures and odd answers say |

mod models;
mod prices;
mod reply;
mod usage_log;
mod visitor;

pub use models::{DISCOVERY_LIMITS, DiscoveryError, DiscoveryKind, list_models};
pub use prices::{PRICE_LIMITS, PriceError, fetch_prices};
pub use usage_log::{USAGE_LOG_LIMITS, fetch_receipts};
pub use visitor::{VisitError, Visitor};
