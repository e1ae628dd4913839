//! Answers that survive a restart: each is stored behind its response, and read back at the start unless something has
//! changed since.
//!
//! A long one is not stored, so that the database is not written again and again while a console shows a large list.

use std::sync::Arc;

use bytes::Bytes;

use crate::core::Core;
use crate::store::admin_snapshots::{self, Origin};
use crate::time::{MINUTE, Millis};

/// The name of the account list. Like the next one it has the release in it, since another may show other members.
pub const ACCOUNTS: &str = concat!("accounts ", env!("CARGO_PKG_VERSION"));
/// The beginning of the names of statistics.
pub const STATISTICS: &str = concat!("statistics ", env!("CARGO_PKG_VERSION"), " ");

/// The age from which no answer is served any more, in milliseconds.
pub const LONGEST_KEPT: Millis = 2 * MINUTE;
/// The length of the longest answer that is stored, in bytes.
const LONGEST: usize = 1024 * 1024;

/// Stores an answer in the background; one that cannot be stored is made anew after a restart.
pub fn put(core: &Arc<Core>, name: String, origin: Origin, answer: Bytes) {
    if answer.len() > LONGEST {
        return;
    }
    let store = core.store.clone();
    core.background.spawn("storing an answer", async move {
        let text = String::from_utf8_lossy(&answer);
        if let Err(error) = admin_snapshots::put(&store, &name, origin, &text, LONGEST_KEPT).await {
            log::warn!("the answer {name} could not be stored for the next start: {error}");
        }
    });
}
