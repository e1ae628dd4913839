//! Accounts that are connected by a login in a browser (OAuth 2.0, RFC 6749): the calls to their providers.
//!
//! ```text
//! authorization ─▶ the address at which a person agrees
//! code          ─▶ exchange ─┐
//! refresh token ─▶ refresh  ─┴▶ Grant: tokens, when they end, whose they are ─▶ project ─▶ models
//! ```
//!
//! | file | |
//! |---|---|
//! | `grant` | what a provider grants, or why it does not |
//! | `authorization` | the address for the browser; states, verifiers and challenges |
//! | `provider_client` | one call to a provider, bounded, and the words of its refusals |
//! | `token` | exchanges codes and refresh tokens for grants |
//! | `claims` | what a token tells about its account |
//! | `google` | the e-mail address of an account, and the Google Cloud project that it works for |
//! | `quota` | how much of its limits a codex account has used |
//! | `revocation` | revokes a refresh token |
//! | `models` | the models that a grant reaches |
//!
//! Nothing is stored here, and sessions of logins are not known here: `jobs` has them.

mod authorization;
mod claims;
mod google;
mod grant;
mod models;
mod provider_client;
mod quota;
mod revocation;
mod token;

pub use authorization::{Verifier, authorization_url, random_state};
pub use claims::{Claims, clean};
pub use google::settle_project;
pub use grant::{Grant, Identity, TokenError};
pub use models::{ModelsAccess, list_models, vendor_addresses};
pub use provider_client::ProviderClient;
pub use quota::{QuotaAsker, QuotaError};
pub use revocation::revoke;
pub use token::{Code, exchange, refresh};
