//! Backups that the service makes by itself: files in a directory, and a file on a WebDAV server.
//!
//! | module | what it is for |
//! |---|---|
//! | `local` | files in `BACKUP_DIR`; deletes the oldest ones |
//! | `failure` | the event and the notice of a failed backup |
//! | `remote`, `webdav` | the file on a server: its schedule and its last result; the protocol |

mod failure;
pub mod local;
pub mod remote;
mod webdav;

use std::sync::atomic::AtomicBool;

use tokio::sync::Mutex;

/// The state that backups keep from one run to the next.
#[derive(Default)]
pub struct Backups {
    /// Held while the file on the server is written or read.
    remote: Mutex<()>,
    /// Whether the last scheduled backup to the server failed, which was then told.
    remote_failed: AtomicBool,
}
