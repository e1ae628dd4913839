//! One pass over the announcements of sites at a time.

use tokio::sync::Mutex;

/// Held by the pass under way: two would both take the same for new.
#[derive(Default)]
pub struct Announcements {
    pub(super) turn: Mutex<()>,
}
