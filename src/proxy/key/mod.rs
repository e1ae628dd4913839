//! The key that a call is made with: its limits, and what its holder is told.
//!
//! | file | what it holds |
//! |---|---|
//! | `quota` | a call counted against the key |
//! | `over_limit` | the message for a refused call |
//! | `usage` | what the holder is told about usage |

pub(super) mod over_limit;
pub(super) mod quota;
pub(super) mod usage;
