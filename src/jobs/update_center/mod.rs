//! Whether there is something newer than what runs. Nothing is deployed by itself.
//!
//! | file | what it holds |
//! |---|---|
//! | `versions` | which release and which image there are to update to, and which of them is news |
//! | `saved` | what an operator set up, and what the last check found |
//! | `deploy` | a release deployed, or gone back to, through the helper |
//! | `check` | one look: releases, image tags, the helper in the cluster; the notice of what is new |

pub mod check;
pub mod deploy;
pub mod saved;
pub mod versions;
