//! What is asked after a refusal, at the same channel: another dialect, a rewritten request, or a new token.
//!
//! | file | what it decides |
//! |---|---|
//! | `dialect_order` | the dialects to ask in, and which of them an upstream has refused |
//! | `downgrade` | what a refusal says about the dialects |
//! | `recovery` | a refused request, rewritten |
//! | `member_refusals` | members that models have refused by name, and that are left out for a while |
//! | `site_refusals` | which sites have refused a cache key or a WebSocket |
//! | `token_refusal`, `token_renewal` | whether a token was refused; renewing it and sending the request once more |

pub(super) mod dialect_order;
pub(super) mod downgrade;
pub mod member_refusals;
pub(super) mod recovery;
pub(super) mod site_refusals;
pub(super) mod token_refusal;
pub(super) mod token_renewal;
