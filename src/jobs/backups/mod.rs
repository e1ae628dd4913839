//! Backups that the service makes by itself: files in a directory, and a file on a WebDAV server.
//!
//! | module | what it is for |
//! |---|---|
//! | `local` | files in `BACKUP_DIR`; deletes the oldest ones |
//! | `remote`, `webdav` | the file on a server: its schedule and its last result; the protocol |

pub mod local;
pub mod remote;
mod webdav;

use tokio::sync::Mutex;

/// The state that backups keep from one run to the next.
#[derive(Default)]
pub struct Backups {
    /// Held while the file on the server is written or read.
    remote: Mutex<()>,
}
