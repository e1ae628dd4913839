//! The key that a call is made with: its limits, and what its holder is told.
//!
//! | file | what it has |
//! |---|---|
//! | `quota` | a call counted against the key |
//! | `over_limit` | what a refused one is told |
//! | `usage` | what the holder is told of what was used |

pub(super) mod over_limit;
pub(super) mod quota;
pub(super) mod usage;
