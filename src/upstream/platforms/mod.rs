//! What each kind of upstream site is asked for, and how its answers are read.
//!
//! A [`SiteClient`] is an account at its site. Its operations are the same for every platform; a platform's profile
//! says which of them it cannot do ([`Platform::abilities`](crate::platform::Platform::abilities)). Paths, the headers
//! that carry a credential and the shapes of answers differ; the transport is [`Client::fetch`](super::Client::fetch),
//! with its limits on time, size and redirects. Whatever goes wrong is a [`SiteError`] of some [`SiteErrorKind`]: a
//! failure never looks like an empty answer.
//!
//! | file | |
//! |---|---|
//! | `contract` | what can be asked, and the shapes of the answers |
//! | `operations` | each operation, handed to its platform |
//! | `site_client` | management calls as an account, with each authentication scheme that the site may accept |
//! | `new_api`, `sub2api` | the two families with sessions |
//! | `detection` | which platform answers at an address |
//! | `models` | which models a key may use, on every platform |
//! | `prices`, `usage_log` | what an account is charged, and the lines of its log |
//! | `quota_units` | the units in which some count quota |
//! | `credential` | credentials as people paste them |
//! | `user_ids` | the user's number, read out of name, token or cookie |
//! | `memory` | what is remembered of sites and sessions |
//! | `error`, `reply` | failures; odd answers |

mod contract;
mod credential;
mod detection;
mod error;
mod memory;
mod models;
mod new_api;
mod operations;
mod prices;
pub mod quota_units;
mod reply;
mod site_client;
mod sub2api;
mod usage_log;
mod user_ids;

pub use contract::{
    Allowance, Announcement, Balance, CheckIn, Identity, LoggedIn, NewSiteKey, NoticeLevel, Refreshed, Role,
    SessionModels, SiteKey, Subscription, SubscriptionSummary, TakenFor, User,
};
pub(super) use credential::leave_out;
pub use credential::{bare_credential, bare_key, usable_token};
pub use detection::detect;
pub use error::{SiteError, SiteErrorKind};
pub use memory::SiteMemory;
pub use models::{DISCOVERY_LIMITS, DiscoveryError, DiscoveryKind, list_models};
pub use new_api::notices::GENERIC_TITLE;
pub use prices::{PRICE_LIMITS, PriceError, fetch_prices};
pub(super) use reply::MAX_MODEL_NAME;
pub use site_client::{MANAGEMENT_LIMITS, SiteClient};
pub use usage_log::{USAGE_LOG_LIMITS, fetch_usage_records};
pub use user_ids::of_username as user_id_of_name;
