//! The debug trace of a call, recorded at the operator's wish.
//!
//! | file | what it holds |
//! |---|---|
//! | `choice` | which calls are recorded |
//! | `record` | what is recorded of a call |
//! | `redact` | how secrets are hidden |

pub(super) mod choice;
pub(super) mod record;
pub(super) mod redact;
