//! Checks whether a version newer than the running one is available. Nothing is deployed by itself.
//!
//! | file | what it holds |
//! |---|---|
//! | `versions` | the release and the image to update to, and which of them is news |
//! | `saved` | what an operator set up, and the result of the last check |
//! | `deploy` | deploys a release, or goes back to one, through the helper |
//! | `check` | one check of releases, image tags and the helper in the cluster; the notice of a new version |

pub mod check;
pub mod deploy;
pub mod saved;
pub mod versions;
