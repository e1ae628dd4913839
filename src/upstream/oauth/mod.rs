//! Accounts that are connected by a login in a browser (OAuth 2.0, RFC 6749): the calls to their providers.
//!
//! ```text
//! authorization ─▶ the address at which a person agrees
//! code          ─▶ exchange ─┐
//! refresh token ─▶ refresh  ─┴▶ Grant: tokens, when they end, whose they are
//! ```
//!
//! | file | |
//! |---|---|
//! | `grant` | what a provider grants, and why it does not |
//!
//! Nothing is stored here, and no session is known: `jobs` does that.

mod grant;

pub use grant::{Grant, Identity, TokenError};
