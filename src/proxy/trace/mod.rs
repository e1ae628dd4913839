//! What an operator has recorded of a call.
//!
//! | file | what it has |
//! |---|---|
//! | `choice` | which calls are recorded |
//! | `record` | what is recorded of one |
//! | `redact` | secrets hidden |

pub(super) mod choice;
pub(super) mod record;
pub(super) mod redact;
