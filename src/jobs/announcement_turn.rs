//! Allows one pass over the announcements of sites at a time.

use tokio::sync::Mutex;

/// The lock of the pass under way: two passes would both take the same announcement for new.
#[derive(Default)]
pub struct Announcements {
    pub(super) turn: Mutex<()>,
}
