//! Credentials at rest.
//!
//! | file | what it holds |
//! |---|---|
//! | `sealer` | sealing and opening with the current keys |
//! | `sealed`, `envelope` | a sealed text on its way into the database; its format |
//! | `columns` | which columns and settings are sealed |
//! | `keyring`, `rekey` | the keys: opened at start, replaced while running |
//! | `sweep` | the pass at start that seals what is still plain |

pub(super) mod columns;
mod envelope;
pub(super) mod keyring;
pub mod rekey;
mod sealed;
mod sealer;
mod sweep;

pub(super) use sealed::Sealed;
pub use sealer::{Hashing, Purpose, Sealer};
